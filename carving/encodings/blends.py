"""Two fillers, part by part: what levels, circles and thermometers are made of.

A filler falls into parts that are drawn independently: coordinates, blocks (GHRR), frequencies (unitary HRR); OSC's few
coordinates are each the sum of many parts. Of two fillers, one that has a share t of its parts from the second is like
another with share s by 1 - |s - t| of their difference. Sparse codes exchange their ones in pairs, so that their number
stays.
"""

import math
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from carving.encodings.ranges import MOST, nearest_of
from carving.encodings.source import Source
from carving.encodings.steps import Steps, rows_of
from carving.schemes.base import Scheme
from carving.tensors import chosen
from carving.validate import check_integer


def row_of(scheme: Scheme) -> Any:
    """The row of the table for a vector symbolic architecture, else None."""
    return getattr(scheme, "row", None)


PARTS = 1024  # that a component has at least


def parts_shape(scheme: Scheme) -> tuple[int, ...]:
    """The shape of a filler's parts: of components (p, side, parts of each number)."""
    row, shape = row_of(scheme), scheme.facts.filler_shape
    if row is None:
        return (*shape, -(-PARTS // shape[1])) if len(shape) == 2 else shape
    return (shape[0] // 2 + 1,) if row.apart else shape[:1]


def ends(source: Source, kind: str, count: int) -> Tensor:
    """Fillers to blend, (count, ...): atoms, or components in their parts."""
    shape = parts_shape(source.scheme)
    if len(shape) < 3:
        return source.atoms(kind, count)
    return (source.normals(kind, (count, *shape)) / math.sqrt(shape[-1])).to(source.scheme.dtype)


def strangers(scheme: Scheme) -> float:
    """The similarity of two random fillers, in the mean: 0, or the density of sparse codes."""
    row = row_of(scheme)
    if row is None or not (row.overlap or row.aim):
        return 0.0
    if row.overlap:
        return scheme.facts.filler_scalars / torch.Size(scheme.facts.memory_shape).numel()
    space: Any = scheme.space  # type: ignore[attr-defined]
    return float(row.aim(space, torch.zeros(1, dtype=torch.int64)).mean())


def by_coordinate(scheme: Scheme) -> bool:
    """Whether a filler is a vector whose coordinates are its parts."""
    row = row_of(scheme)
    return row is not None and row.joined is None and len(scheme.facts.filler_shape) == 1


def order(scheme: Scheme) -> int:
    """How many components of a filler multiply in a score."""
    return int(getattr(scheme, "p", 1))


def as_filler(scheme: Scheme, x: Tensor) -> Tensor:
    """Vectors as the scheme takes them: TPR's are unit vectors; several components are normalized in every context."""
    single = row_of(scheme) is None and len(scheme.facts.filler_shape) == 1
    return normalize(x, dim=-1) if single else x


class Blend(nn.Module):
    """The first filler with the parts that flags choose from the second; of so many `levels` those are looked up."""

    first: Tensor
    second: Tensor
    places: Tensor
    table: Tensor | None
    steps: Steps | None

    def __init__(
        self, scheme: Scheme, first: Tensor, second: Tensor, places: Tensor, levels: int | None = None
    ) -> None:
        super().__init__()
        if levels is not None:
            check_integer("levels", levels, 2, MOST, way_out="with levels=None every number has its own filler")
        self.scheme, self.row = scheme, row_of(scheme)
        if self.row is not None and self.row.paired:
            places = self.row.paired(scheme.space, first, second, places)  # type: ignore[attr-defined]
        if self.row is not None and self.row.apart:
            first, second = (self.row.apart(scheme.space, x) for x in (first, second))  # type: ignore[attr-defined]
        self.register_buffer("first", first)
        self.register_buffer("second", second)
        self.register_buffer("places", places)
        self.rows = (
            rows_of(first) if by_coordinate(scheme) else 0
        )  # of a table, which is made when so many values have come
        self.seen, self.steps, self.levels = 0, None, levels
        self.register_buffer("table", self._leveled(), persistent=False)

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.seen, self.steps = 0, None  # the table is that of the buffers as they were
        return super()._apply(change, recurse)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        self.seen, self.steps = 0, None
        super()._load_from_state_dict(*given, **named)
        self.table = self._leveled()

    def _leveled(self) -> Tensor | None:
        """The fillers of all levels."""
        if self.levels is None:
            return None
        shares = torch.arange(self.levels, dtype=torch.float64, device=self.places.device) / (self.levels - 1)
        return self(self.places < self.spread(shares))

    def below(self, shares: Tensor) -> Tensor:
        """Fillers (*, *filler_shape) with the parts of the second whose places lie below shares (*)."""
        if self.levels is not None and self.table is not None:
            rows = nearest_of(self.levels, shares).flatten()
            return self.table.index_select(0, rows).view(*shares.shape, *self.table.shape[1:])
        if self.rows and not torch.compiler.is_compiling():
            self.seen += shares.numel()
            if self.steps is None and self.seen > self.rows:
                self.steps = Steps.of(self.first, self.second, self.places)
            if self.steps is not None:
                return self.steps.below(shares)
        return self(self.places < self.spread(shares))

    def spread(self, shares: Tensor) -> Tensor:
        """Numbers (*) to be compared with the places."""
        return shares.to(self.places.dtype).view(*shares.shape, *(1,) * self.places.dim())

    def forward(self, flags: Tensor) -> Tensor:
        """Fillers (*, *filler_shape) of flags (*, parts)."""
        flags = flags.view(*flags.shape, *(1,) * (self.first.dim() - self.places.dim()))
        mixed = chosen(flags, self.second, self.first)
        if self.row is None and self.places.dim() == 3:
            return mixed.sum(-1)
        if self.row is None:
            return as_filler(self.scheme, mixed)
        return self.row.joined(self.scheme.space, mixed) if self.row.joined else mixed  # type: ignore[attr-defined]
