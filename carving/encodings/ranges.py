"""Validation of values and ranges: values outside the range are refused or clipped."""

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.validate import check_choice, check_number, is_finite

MOST = 2**31  # levels
OUTSIDE = ("refuse", "clip")


def check_range(low: object, high: object, outside: str) -> tuple[float, float]:
    """Return the two ends as floats; refuse a range that is empty or not finite."""
    check_choice("outside", outside, OUTSIDE)
    ends = check_number("low", low), check_number("high", high)
    if not (is_finite(ends[0]) and is_finite(ends[1]) and ends[0] < ends[1]):
        raise BadValue(f"low must be less than high, both finite, got low={low!r}, high={high!r}")
    return ends


def numbers(values: object, device: torch.device | str | None = None) -> Tensor:
    """Return values as a real tensor: float64, unless they are a tensor or array of floats already."""
    try:
        given = torch.as_tensor(values, device=device)
        if given.is_complex() or given.dtype == torch.bool:
            raise BadValue(f"values must be real numbers, got {given.dtype}")
        if isinstance(values, Tensor | np.ndarray) and given.is_floating_point():
            return given
        return torch.as_tensor(values, dtype=torch.float64, device=device)
    except BadValue:
        raise
    except (TypeError, ValueError, RuntimeError):
        raise BadType(f"values must be numbers, got {values!r:.60}. Pass for example [0.5, 1.0] or a tensor.") from None


def wholes(values: object, count: int, device: torch.device) -> Tensor:
    """Return values as integers; refuse what is not one of 0 .. count - 1."""
    given = numbers(values, device)
    if not bool(((given >= 0) & (given < count) & (given == given.floor())).all()):
        raise BadValue(
            f"values must be integers from 0 to {count - 1}, got {given.flatten()[:5].tolist()}. "
            "Use Level for real numbers."
        )
    return given.to(torch.int64)


def finite(values: Tensor) -> Tensor:
    """Return the values; refuse infinity and NaN."""
    if not bool(values.isfinite().all()):
        raise BadValue("values must be finite, got NaN or infinity")
    return values


def shares(values: Tensor, low: float, high: float, outside: str) -> Tensor:
    """Return the relative positions of values between the ends, 0 to 1, in float64."""
    places = (values.to(torch.float64) - low).div_(high - low)
    if outside == "clip":
        if bool(places.isnan().any()):
            raise BadValue("values must be numbers, got NaN")
        return places.clamp_(0, 1)
    least, most = (end.item() for end in places.aminmax()) if places.numel() else (0, 1)
    if not (least >= 0 and most <= 1):
        wrong = values[~((places >= 0) & (places <= 1))].flatten()[0].item()
        raise BadValue(
            f"values must lie between low={low:g} and high={high:g}, got {wrong:g}. "
            "Use outside='clip' to clip them, or choose a wider range."
        )
    return places


def nearest_of(count: int, places: Tensor) -> Tensor:
    """Return the index of the nearest of `count` equidistant numbers from 0 to 1."""
    return (places * (count - 1)).add_(0.5).to(torch.int64)
