"""Contexts: what a scheme derives from role paths, as rows of tensors."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts of paths, as a scheme derives them: tensors with one row for each context.

    Create them with `scheme.contexts(paths)`. They support `len`, indexing by row, and moving to another device.

    >>> from carving import OSC
    >>> contexts = OSC(d=20).contexts([("subject",), ("verb",), ("object",)])
    >>> len(contexts), len(contexts[1:]), contexts.to("cpu").nbytes
    (3, 2, 132)
    """

    kind: str = field(default="", kw_only=True)  # `facts.context_kind` of the schemes that they fit

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the contexts with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors.items()}
        return replace(self, **changed)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors, by field name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def __len__(self) -> int:
        for value in vars(self).values():
            if isinstance(value, Tensor):
                return value.shape[0]
        return 0

    def __getitem__(self, rows: int | slice | Tensor | list[int]) -> Self:
        """Return the contexts of some rows; an integer selects one row and keeps the first dimension."""
        if not isinstance(rows, slice | list) and (isinstance(rows, int) or getattr(rows, "ndim", 1) == 0):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is out of range for {len(self)} contexts")
            rows = slice(row, row + 1 or None)
        return self.map(lambda tensor: tensor[rows])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the contexts on another device or in another dtype, like `Tensor.to`; integers keep their dtype."""

        def moved(tensor: Tensor) -> Tensor:
            other = tensor.to(*args, **kwargs)
            return other if tensor.is_floating_point() else other.to(tensor.dtype)

        return self.map(moved)

    @property
    def nbytes(self) -> int:
        """The total number of bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())
