"""Interpolation between two fillers, part by part: what levels, circles and thermometers are made of.

A filler consists of parts that are drawn independently: coordinates, blocks (GHRR), frequencies (unitary HRR); OSC's
few coordinates are each the sum of many parts. If two fillers take shares s and t of their parts from a second one,
they differ in |s - t| of the parts in which the two ends differ. Sparse codes exchange their ones in pairs, so that
their number stays.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from carving.encodings.base import MAX_LEVELS, EncodingSource, component_count, nearest_of, row_of
from carving.schemes.base import Scheme
from carving.tensors import chosen, lasting
from carving.validate import check_integer

MIN_PARTS = 1024  # of a component
MAX_ROWS, MAX_TABLE_BYTES = 256, 2**23  # of a table of fillers


def parts_shape(scheme: Scheme) -> tuple[int, ...]:
    """Return the shape of a filler's parts: of components (p, side, parts of each number)."""
    row, shape = row_of(scheme), scheme.facts.filler_shape
    if row is None:
        return (*shape, -(-MIN_PARTS // shape[1])) if len(shape) == 2 else shape
    return (shape[0] // 2 + 1,) if row.apart else shape[:1]


def ends(source: EncodingSource, kind: str, count: int) -> Tensor:
    """Return fillers to interpolate, (count, ...): atoms, or components in their parts."""
    shape = parts_shape(source.scheme)
    if len(shape) < 3:
        return source.atoms(kind, count)
    return (source.normals(kind, (count, *shape)) / math.sqrt(shape[-1])).to(source.scheme.dtype)


def random_similarity(scheme: Scheme) -> float:
    """Return the expected similarity of two random fillers: 0, or the density of sparse codes."""
    row = row_of(scheme)
    if row is None or not (row.overlap or row.aim):
        return 0.0
    if row.overlap:
        return scheme.facts.filler_scalars / math.prod(scheme.facts.memory_shape)
    space: Any = scheme.space  # type: ignore[attr-defined]
    return float(row.aim(space, torch.zeros(1, dtype=torch.int64)).mean())


def falling(scheme: Scheme, distance: Tensor) -> Tensor:
    """Return the similarity of fillers that differ in a fraction of their parts."""
    return (1 - distance * (1 - random_similarity(scheme))) ** component_count(scheme)


def is_by_coordinate(scheme: Scheme) -> bool:
    """Whether a filler is a vector whose coordinates are its parts."""
    row = row_of(scheme)
    return row is not None and row.joined is None and len(scheme.facts.filler_shape) == 1


def as_filler(scheme: Scheme, x: Tensor) -> Tensor:
    """Return vectors as the scheme takes them: unit vectors for TPR; components are normalized in every context."""
    is_single = row_of(scheme) is None and len(scheme.facts.filler_shape) == 1
    return normalize(x, dim=-1) if is_single else x


class Interpolation(nn.Module):
    """Fillers between two ends: the first one, with some parts of the second.

    Looked-up fillers are cached; the cache is dropped if the buffers are moved or loaded.

    Args:
        scheme: The scheme of the fillers.
        first, second: The two ends.
        places: The share at which each part changes from the first to the second, (parts,).
        levels: Round shares to this many levels, which are looked up in a table; None: every share has its own filler.
    """

    first: Tensor
    second: Tensor
    places: Tensor

    def __init__(
        self, scheme: Scheme, first: Tensor, second: Tensor, places: Tensor, levels: int | None = None
    ) -> None:
        super().__init__()
        if levels is not None:
            check_integer("levels", levels, 2, MAX_LEVELS, way_out="With levels=None every number has its own filler.")
        self.scheme, self.row = scheme, row_of(scheme)
        if self.row is not None and self.row.paired:
            places = self.row.paired(scheme.space, first, second, places)  # type: ignore[attr-defined]
        if self.row is not None and self.row.apart:
            first, second = (self.row.apart(scheme.space, x) for x in (first, second))  # type: ignore[attr-defined]
        self.register_buffer("first", first)
        self.register_buffer("second", second)
        self.register_buffer("places", places)
        self.levels = levels
        self.table_rows = table_rows(first) if is_by_coordinate(scheme) else 0
        self.seen, self.table = 0, self._new_table(0)

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.seen, self.table = 0, None
        return super()._apply(change, recurse)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        self.seen, self.table = 0, None
        super()._load_from_state_dict(*given, **named)

    def _new_table(self, seen: int) -> "LevelTable | StepTable | None":
        """Return a table of fillers if one pays after this many values."""
        with lasting():
            if self.levels is not None:
                shares = torch.arange(self.levels, dtype=torch.float64, device=self.places.device)
                return LevelTable(self(self.places < self.spread(shares / (self.levels - 1))))
            if 0 < self.table_rows < seen:
                return StepTable.of(self.first, self.second, self.places)
        return None

    def below(self, shares: Tensor) -> Tensor:
        """Return fillers (*, *filler_shape) with the parts of the second whose places lie below shares (*)."""
        if self.table is None and not torch.compiler.is_compiling():
            self.seen += shares.numel()
            self.table = self._new_table(self.seen)
        if self.table is not None:
            return self.table.below(shares)
        if self.levels is not None:
            shares = nearest_of(self.levels, shares).to(torch.float64) / (self.levels - 1)
        return self(self.places < self.spread(shares))

    def spread(self, shares: Tensor) -> Tensor:
        """Return shares (*) in a shape that can be compared with the places."""
        return shares.to(self.places.dtype).view(*shares.shape, *(1,) * self.places.dim())

    def forward(self, flags: Tensor) -> Tensor:
        """Return fillers (*, *filler_shape) of flags (*, parts): which parts are those of the second."""
        flags = flags.view(*flags.shape, *(1,) * (self.first.dim() - self.places.dim()))
        mixed = chosen(flags, self.second, self.first)
        if self.row is None and self.places.dim() == 3:
            return mixed.sum(-1)
        if self.row is None:
            return as_filler(self.scheme, mixed)
        return self.row.joined(self.scheme.space, mixed) if self.row.joined else mixed  # type: ignore[attr-defined]


def table_rows(filler: Tensor) -> int:
    """Return the number of rows of a table of fillers (parts,); 0 where only a few would fit, which does not help."""
    rows = min(MAX_ROWS, MAX_TABLE_BYTES // (filler.numel() * filler.element_size()))
    return rows if rows >= MAX_ROWS // 16 else 0


@dataclass(frozen=True, eq=False)
class LevelTable:
    """The fillers of equidistant levels."""

    fillers: Tensor  # (levels, *filler_shape)

    def below(self, shares: Tensor) -> Tensor:
        """Return the fillers (*, *filler_shape) of the levels nearest to shares (*)."""
        rows = nearest_of(len(self.fillers), shares).flatten()
        return self.fillers.index_select(0, rows).view(*shares.shape, *self.fillers.shape[1:])


@dataclass(frozen=True, eq=False)
class StepTable:
    """The fillers after every `width` parts, in the order of the parts' places, and what changes in between."""

    places: Tensor  # (parts,), sorted
    fillers: Tensor  # (rows, parts): after none, after `width` parts, after twice as many, ...
    parts: Tensor  # (rows, width): which change from a row to the next
    changed: Tensor  # (parts + 1, width): the parts of the row, after each number of changed parts

    @classmethod
    def of(cls, first: Tensor, second: Tensor, places: Tensor) -> Self:
        """Return the table of two fillers (parts,) whose parts change at their places."""
        placed, order = places.sort()
        count = len(order)
        width = -(-count // table_rows(first))
        starts = torch.arange(0, count, width, device=order.device).unsqueeze(1)
        fillers = chosen(order.argsort() < starts, second, first)
        # The last row may be short: its last part then stands there several times, and changes alike.
        ranks = (starts + torch.arange(width, device=order.device)).clamp_max(count - 1)
        numbers = torch.arange(count + 1, device=order.device)
        each = ranks[(numbers // width).clamp_max(len(ranks) - 1)]
        changed = chosen(each < numbers.unsqueeze(1), second[order[each]], first[order[each]])
        return cls(placed, fillers, order[ranks], changed)

    def below(self, shares: Tensor) -> Tensor:
        """Return fillers (*, parts) with the parts of the second whose places lie below the shares (*)."""
        number = torch.searchsorted(self.places, shares.flatten())
        rows = number.div(self.parts.shape[1], rounding_mode="floor").clamp_max_(len(self.parts) - 1)
        made = self.fillers.index_select(0, rows)
        made.scatter_(1, self.parts.index_select(0, rows), self.changed.index_select(0, number))
        return made.view(*shares.shape, -1)


def with_opposites(filler: Tensor, opposite: Tensor, places: Tensor, shares: Tensor) -> Tensor:
    """Return fillers (*, parts) with the parts of the opposite whose rising places lie below shares (*)."""
    if filler.is_floating_point():
        return stairs(places, shares, -1, 1, filler.dtype).mul_(filler)
    flags = stairs(places, shares, True, False, torch.bool)
    choose = chosen if filler.element_size() < 8 else torch.where  # runs of flags are easy to predict
    return choose(flags, opposite, filler)


def stairs(places: Tensor, shares: Tensor, below: float, above: float, dtype: torch.dtype) -> Tensor:
    """Return (*, parts): one number where rising places (parts,) lie below shares (*), else another."""
    count = len(places)
    ladder = torch.full((2 * count,), above, dtype=dtype, device=places.device)
    ladder[:count] = below
    starts = count - torch.searchsorted(places, shares.flatten().to(places.dtype))
    return ladder.unfold(0, count, 1).index_select(0, starts).view(*shares.shape, count)
