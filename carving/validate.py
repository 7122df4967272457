"""Validation of arguments: each error says what was expected, what was received, and what to do."""

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadType, BadValue

T = TypeVar("T")

HEAVIEST = 2.0**53  # a weight: beyond it a sum does not tell one more or less


def listed(given: Iterable[T], what: str) -> list[T]:
    """Return the items as a list; refuse a single string, a set (it has no order) and an empty iterable."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadType(f"{what} must be a list, got {given!r}. For a single one write [{given!r}].")
    if isinstance(given, set | frozenset):
        raise BadType(f"{what} must have an order, got a set. Pass a list, for example sorted(...).")
    things = list(given)
    if not things:
        raise BadValue(f"{what} must not be empty. Pass at least one.")
    return things


def check_integer(name: str, value: object, low: int, high: int | None = None, way_out: str = "") -> int:
    """Return the value as an int; refuse other types, and integers outside low..high; `way_out` ends the message."""
    span = f"an integer of at least {low}" if high is None else f"an integer between {low} and {high}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be {span}, got {value!r} of type {type(value).__name__}. {way_out}".rstrip())
    number = int(value)
    if number < low or (high is not None and number > high):
        raise BadValue(f"{name} must be {span}, got {number}. {way_out}".rstrip())
    return number


def check_number(name: str, value: object) -> float:
    """Return the value as a float; refuse what is not a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadType(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise BadValue(f"{name} must fit into a float, got a larger integer") from None


def as_python_number(value: Any) -> Any:
    """Return a number of numpy as one of Python, which files can hold; other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def check_positive(name: str, value: object, way_out: str) -> float:
    """Return the value as a float; refuse what is not a positive, finite number."""
    number = check_number(name, value)
    if not (is_finite(number) and number > 0):
        raise BadValue(f"{name} must be a positive number, got {value!r}. {way_out}")
    return number


def check_real_dtype(dtype: object) -> torch.dtype:
    """Return the dtype; refuse other than single and double precision."""
    if dtype not in (torch.float32, torch.float64):
        raise BadType(
            f"dtype must be torch.float32 or torch.float64, got {dtype!r}. "
            "Other dtypes are for files only: Memory.save(path, dtype=...)."
        )
    return dtype


def check_choice(name: str, value: T, choices: tuple[T, ...]) -> T:
    """Return the value; refuse what is not one of the choices."""
    try:
        known_one = value in choices
    except ValueError:  # an array, whose comparisons are arrays
        known_one = False
    if not known_one:
        known = ", ".join(map(repr, choices))
        raise BadValue(f"{name} must be one of {known}, got {value!r}")
    return value


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint: the known names most similar to this one, or all of them."""
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(str(name).casefold(), folded, n=3, cutoff=0.4)
    return (
        f"Did you mean {' or '.join(folded[one] for one in near)}?" if near else f"Known: {', '.join(folded.values())}."
    )


def check_device(device: torch.device | str) -> torch.device:
    """Return the device; refuse one that torch does not know or this machine does not have."""
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise BadValue(f'device must be a torch device such as "cpu" or "cuda:0", got {device!r}') from error
    if known.type != "cpu":
        try:
            torch.empty(0, device=known)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise BadValue(
                f'device {str(known)!r} is not available on this machine or in its build of torch. Use "cpu".'
            ) from error
    return known


def check_tensor(
    name: str, tensor: object, shape: tuple[int, ...], way_out: str, dtype: torch.dtype | None = None
) -> None:
    """Refuse a tensor of another shape (-1 admits any length but zero) or dtype; `way_out` ends the message."""
    if not isinstance(tensor, Tensor):
        raise BadType(f"{name} must be a tensor of shape {_show(shape)}, got {type(tensor).__name__}. {way_out}")
    got = tensor.shape
    if got != shape and not fits(got, shape):
        raise BadValue(f"{name} must have shape {_show(shape)}, got {_show(tuple(got))}. {way_out}")
    if dtype is not None and tensor.dtype != dtype:
        raise BadType(
            f"{name} must have dtype {dtype}, got {tensor.dtype}. "
            f"Convert it with .to({dtype}), or use the scheme's like(dtype=...)."
        )


def fits(got: torch.Size, wanted: tuple[int, ...]) -> bool:
    """Whether a shape is the wanted one, where -1 admits any length but zero."""
    if len(got) != len(wanted):
        return False
    for size, admitted in zip(got, wanted, strict=True):
        if size != admitted and (admitted != -1 or not size):
            return False
    return True


def _show(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join("any" if size == -1 else str(size) for size in shape) + ")"


def printable(text: object, keep: str = "") -> str:
    r"""Return text with every character escaped that would control a terminal or reverse its letters.

    >>> print(printable("red \x1b[31m, left \u202e"))
    red \x1b[31m, left \u202e
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in plain)


def show_bytes(count: float) -> str:
    """Return a number of bytes in a readable unit: 1.907 MiB."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.4g} {units[0]}"


def show_bits(count: int) -> str:
    """Return a number of bits in words: 1 bit, 2 bits."""
    return "1 bit" if count == 1 else f"{count} bits"


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None


PHYSICAL_MEMORY = _physical_memory()  # asked once: torch.compile cannot look into system calls


def machine_bytes(device: torch.device) -> int | None:
    """Return the bytes of memory of the machine or the accelerator, None where unknown."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return PHYSICAL_MEMORY


def is_finite(number: float) -> bool:
    """Whether the number fits into a finite float; `math.isfinite` raises for integers that are too large."""
    return abs(number) <= sys.float_info.max


def check_weight(weight: object) -> float:
    """Return the weight as a float; refuse what is not finite or exceeds 2^53, where counts stop being exact."""
    number = check_number("weight", weight)
    if not abs(number) <= HEAVIEST:
        raise BadValue(
            f"weight must be a finite number of at most 2^53 in absolute value, got {weight!r}. "
            "Use 1 to store a pair once."
        )
    return number


def check_prior_empty(prior_empty: object) -> float:
    """Return the prior probability that a path is empty."""
    number = check_number("prior_empty", prior_empty)
    if not 0 <= number < 1:
        raise BadValue(
            f"prior_empty must be a probability of at least 0 and below 1, got {prior_empty!r}. The default is 0.5."
        )
    return number
