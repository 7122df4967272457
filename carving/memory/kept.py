"""What follows from tensors, kept for as long as these stay as they are."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast
from weakref import ref

from torch import Tensor

T = TypeVar("T")


class Kept:
    """Values by their names, each with the tensors it was made of: made anew when one of these is another or changed.

    Tensors count the changes that torch makes in place; what is written into them behind torch's back (by NumPy, or
    through `.data`) is not seen. They are not held on to.

    >>> import torch
    >>> kept, tensor = Kept(), torch.ones(3)
    >>> kept.once("sum", [tensor], (), lambda: float(tensor.sum())), kept.once("sum", [tensor], (), lambda: 7.0)
    (3.0, 3.0)
    >>> tensor += 1
    >>> kept.once("sum", [tensor], (), lambda: float(tensor.sum()))
    6.0
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[list[tuple[ref[Tensor], int]], Hashable, object]] = {}

    def once(self, name: str, tensors: list[Tensor], options: Hashable, make: Callable[[], T]) -> T:
        """The value of that name for these tensors and options: the last one, if it was made of the same."""
        entry = self._entries.get(name)
        if entry is not None and entry[1] == options and all(map(_same, entry[0], tensors)):
            return cast(T, entry[2])
        value = make()
        try:
            self._entries[name] = [(ref(tensor), tensor._version) for tensor in tensors], options, value
        except RuntimeError:  # tensors of `torch.inference_mode` do not count their changes
            self._entries.pop(name, None)
        return value

    def only(self, name: str) -> "Kept":
        """Another that has the value of that name alone."""
        other = Kept()
        if name in self._entries:
            other._entries[name] = self._entries[name]
        return other

    def __reduce__(self) -> tuple[type["Kept"], tuple[()]]:
        return Kept, ()  # a copy, of this process or another, has nothing yet


def _same(seen: tuple[ref[Tensor], int], tensor: Tensor) -> bool:
    return seen[0]() is tensor and seen[1] == tensor._version
