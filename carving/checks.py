"""What input must be: each check says what was wanted, what came, and the way out."""

import math
import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TypeVar

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.symbols import Path

T = TypeVar("T")

HEAVIEST = 2.0**53  # a weight: beyond it a sum does not tell one more or less
HUGE = "an integer beyond all floats"


def listed(given: Iterable[T], what: str) -> list[T]:
    """The things in a list; a lone string, a set (it has no order) or nothing at all is refused."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadType(f"{what} must be a list, got {given!r}; for a single one write [{given!r}]")
    if isinstance(given, set | frozenset):
        raise BadType(f"{what} must have an order, got a set; sorted(...) gives it one")
    things = list(given)
    if not things:
        raise BadValue(f"{what} must not be empty: give at least one")
    return things


def as_path(path: object) -> Path:
    """The path as a tuple of labels; a bare label or an empty path is refused."""
    if not isinstance(path, tuple | list):
        raise BadType(f"a path must be a tuple of labels, got {path!r}; a path of one role is ({path!r},)")
    if not path:
        raise BadValue("a path must name at least one role, got an empty one")
    return tuple(path)


def check_integer(name: str, value: object, low: int, high: int | None = None, way_out: str = "") -> int:
    """The integer; what is none, or lies outside low..high, is refused."""
    span = f"an integer of at least {low}" if high is None else f"an integer between {low} and {high}"
    hint = f"; {way_out}" if way_out else ""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be {span}, got {value!r} of type {type(value).__name__}{hint}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise BadValue(f"{name} must be {span}, got {number}{hint}")
    return number


def check_number(name: str, value: object) -> float:
    """The value, which must be a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadType(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise BadValue(f"{name} must be a number that a float can hold, got {HUGE}") from None


def check_real_dtype(dtype: object) -> torch.dtype:
    """The dtype; schemes compute in single or double precision."""
    if dtype not in (torch.float32, torch.float64):
        raise BadType(
            f"dtype must be torch.float32 or torch.float64, got {dtype!r}; memories are kept in others in files only"
        )
    return dtype


def check_choice(name: str, value: T, choices: tuple[T, ...]) -> T:
    """The value; it must be one of the choices."""
    try:
        known_one = value in choices
    except ValueError:  # an array, whose comparisons are arrays
        known_one = False
    if not known_one:
        left_out = ", or be left out" if None in choices else ""
        known = ", ".join(repr(choice) for choice in choices if choice is not None)
        raise BadValue(f"{name} must be one of {known}{left_out}, got {value!r}")
    return value


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint at the known names that are like this one, or at all of them."""
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(str(name).casefold(), folded, n=3, cutoff=0.4)
    return (
        f"did you mean {' or '.join(folded[one] for one in near)}?" if near else f"known: {', '.join(folded.values())}"
    )


def check_device(device: torch.device | str) -> torch.device:
    """The device, which torch must know and this machine must have."""
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise BadValue(f'device must be one that torch knows, such as "cpu" or "cuda:0", got {device!r}') from error
    if known.type != "cpu":
        try:
            torch.empty(0, device=known)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise BadValue(f'this machine, or its torch, has no device {str(known)!r}; "cpu" is there') from error
    return known


def check_tensor(
    name: str, tensor: object, shape: tuple[int, ...], way_out: str, dtype: torch.dtype | None = None
) -> None:
    """Refuse a tensor of another shape (-1 admits any length but zero) or dtype."""
    if not isinstance(tensor, Tensor):
        raise BadType(f"{name} must be a tensor of shape {_show(shape)}, got {type(tensor).__name__}; {way_out}")
    got = tensor.shape
    if got != shape and not _fits(got, shape):
        raise BadValue(f"{name} must have shape {_show(shape)}, got {_show(tuple(got))}; {way_out}")
    if dtype is not None and tensor.dtype != dtype:
        raise BadType(
            f"{name} must be of {dtype}, got {tensor.dtype}; use .to({dtype}), or the scheme's like(dtype=...)"
        )


def _fits(got: torch.Size, wanted: tuple[int, ...]) -> bool:
    if len(got) != len(wanted):
        return False
    for size, admitted in zip(got, wanted, strict=True):
        if size != admitted and (admitted != -1 or not size):
            return False
    return True


def _show(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join("any" if size == -1 else str(size) for size in shape) + ")"


def show_bytes(count: float) -> str:
    """Bytes in a unit that people read: 1.907 MiB."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.4g} {units[0]}"


def show_bits(count: int) -> str:
    """So many bits, as people say it."""
    return "1 bit" if count == 1 else f"{count} bits"


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None


PHYSICAL_MEMORY = _physical_memory()  # asked once: torch.compile cannot look into system calls


def machine_bytes(device: torch.device) -> int | None:
    """The memory of the machine or the accelerator, if it can be told."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return PHYSICAL_MEMORY


def is_finite(number: float) -> bool:
    """Whether a float can hold the number; `math.isfinite` raises for an integer of which that is not true."""
    return abs(number) <= sys.float_info.max


def check_weight(weight: object) -> float:
    """The weight, a finite number, and no larger than what pairs are counted up to."""
    number = _as_float(weight)
    if not math.isfinite(number):
        got = HUGE if isinstance(weight, int) and not isinstance(weight, bool) else repr(weight)
        raise BadValue(f"weight must be a finite number, got {got}; 1 stores a pair once")
    if abs(number) > HEAVIEST:
        raise BadValue(f"weight must be at most 2^53 in size, got {weight!r}; 1 stores a pair once")
    return number


def check_absence(absence: object) -> float:
    """The prior probability of absence."""
    number = _as_float(absence)
    if not 0 <= number < 1:
        raise BadValue(f"absence must be a probability from 0 to below 1, got {absence!r}; 0.5 is usual")
    return number


def _as_float(value: object) -> float:
    """Return a real number, numpy's too, as a float; infinity if a float cannot hold it, and NaN if it is none."""
    try:
        return math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        return math.inf
