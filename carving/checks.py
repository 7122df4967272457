"""What input must be: each check says what was wanted, what came, and the way out."""

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from carving.draws import Path


def listed(given: Iterable[Any], what: str) -> list[Any]:
    """The things in a list; a lone string or an empty list is refused."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list, got {given!r}; for a single one write [{given!r}]")
    things = list(given)
    if not things:
        raise ValueError(f"{what} must not be empty: give at least one")
    return things


def as_path(path: Any) -> Path:
    """The path as a tuple of labels; a bare label or an empty path is refused."""
    if not isinstance(path, tuple | list):
        raise TypeError(f"a path must be a tuple of labels, got {path!r}; a path of one role is ({path!r},)")
    if not path:
        raise ValueError("a path must name at least one role, got an empty one")
    return tuple(path)


def check_integer(name: str, value: Any, low: int, high: int | None = None, way_out: str = "") -> None:
    """Refuse what is not an integer of low..high."""
    span = f"an integer of at least {low}" if high is None else f"an integer between {low} and {high}"
    hint = f"; {way_out}" if way_out else ""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be {span}, got {value!r} of type {type(value).__name__}{hint}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {span}, got {value}{hint}")


def check_dtype(dtype: Any, wanted: tuple[torch.dtype, ...]) -> None:
    """Refuse a dtype that is not among the wanted ones."""
    if dtype not in wanted:
        names = " or ".join(str(one) for one in wanted)
        raise TypeError(f"dtype must be {names}, got {dtype!r}; memories are kept in other dtypes in files only")


def check_shape(name: str, tensor: Tensor, wanted: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape; -1 admits any length but zero."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor of shape {_show(wanted)}, got {type(tensor).__name__}")
    got = tensor.shape
    if got != wanted and not _fits(got, wanted):
        raise ValueError(f"{name} must have shape {_show(wanted)}, got {_show(tuple(got))}")


def _fits(got: torch.Size, wanted: tuple[int, ...]) -> bool:
    return len(got) == len(wanted) and all(g == w or (w == -1 and g > 0) for g, w in zip(got, wanted, strict=True))


def _show(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join("any" if size == -1 else str(size) for size in shape) + ")"


def show_bytes(count: float) -> str:
    """Bytes in a unit that people read: 1.907 MiB."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.4g} {units[0]}"


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
