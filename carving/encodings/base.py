"""Inputs of encodings: random vectors from a label or a generator, and the validation of values and ranges."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes.base import Scheme
from carving.symbols.codec import Label, canonical_path
from carving.validate import check_choice, check_integer, check_number, is_finite

MAX_LEVELS = 2**31  # levels
OUTSIDE = ("refuse", "clip")


def check_scheme(scheme: object) -> None:
    """Refuse what is not a scheme."""
    if not isinstance(scheme, Scheme):
        raise BadType(f'scheme must be a Scheme, got {scheme!r}. Pass for example make("MAP-I", d=4096).')


def row_of(scheme: Scheme) -> Any:
    """Return the table row of a vector symbolic architecture, None for other schemes."""
    return getattr(scheme, "row", None)


def component_count(scheme: Scheme) -> int:
    """Return how many components of a filler are multiplied in a score."""
    return int(getattr(scheme, "p", 1))


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


@dataclass(frozen=True)
class EncodingSource:
    """Random atoms and numbers for one encoding; draws of different `kind` are independent."""

    scheme: Scheme
    label: Label = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        check_scheme(self.scheme)
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            raise BadType(f"generator must be a torch.Generator, got {self.generator!r}")
        if (self.label is None) == (self.generator is None):
            raise BadValue(
                "Exactly one of label and generator must be given. With label='temperature' the vectors are always the "
                "same; generator=torch.Generator().manual_seed(0) is for experiments."
            )

    def words(self, kind: str, count: int, words: int) -> Bits:
        """Return random words of the label, (count, words)."""
        names = [canonical_path((kind, self.label, row)) for row in range(count)]
        return hashing.bits(names, words, seed=self.scheme.seed, purpose="encoding")

    def atoms(self, kind: str, count: int) -> Tensor:
        """Return random fillers of the scheme, (count, *filler_shape)."""
        check_integer("count", count, 1)
        if self.generator is not None:
            return self.scheme.random(count, self.generator)
        facts = self.scheme.facts
        drawn = self.scheme._fillers(self.words(kind, count, facts.filler_words))
        return drawn.to(self.scheme.device, facts.filler_dtype)

    def uniforms(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Return uniform numbers of [0, 1) in float64."""
        if self.generator is not None:
            return self._drawn(torch.rand, shape)
        words = self.words(kind, shape[0], math.prod(shape[1:]))
        return hashing.uniforms(words).view(shape).to(self.scheme.device)

    def normals(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        """Return normal numbers in float64."""
        if self.generator is not None:
            return self._drawn(torch.randn, shape)
        each = math.prod(shape[1:])
        drawn = hashing.normals(self.words(kind, shape[0], hashing.words_for_normals(each)))
        return drawn[:, :each].reshape(shape).to(self.scheme.device)

    def _drawn(self, draw: Callable[..., Tensor], shape: tuple[int, ...]) -> Tensor:
        assert self.generator is not None
        drawn = draw(shape, generator=self.generator, device=self.generator.device, dtype=torch.float64)
        return drawn.to(self.scheme.device)
