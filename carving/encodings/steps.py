"""Blended fillers by looking them up: any is a row of a table, and the few parts that change before the next."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from carving.tensors import chosen

ROWS, ROOM = 256, 2**23  # of a table at most, and the bytes that it may take


def rows_of(filler: Tensor) -> int:
    """How many fillers (parts,) a table has; none where only a few would fit, so that it would not help."""
    rows = min(ROWS, ROOM // (filler.numel() * filler.element_size()))
    return rows if rows >= ROWS // 16 else 0


@dataclass(frozen=True, eq=False)
class Steps:
    """The fillers after every so many parts, in the order of the parts' places, and what changes in between."""

    places: Tensor  # (parts,), sorted
    fillers: Tensor  # (rows, parts): after none, after `width` parts, after twice as many, ...
    parts: Tensor  # (rows, width): which change from a row to the next
    changed: Tensor  # (parts + 1, width): what those of its row are when so many parts have changed

    @classmethod
    def of(cls, first: Tensor, second: Tensor, places: Tensor) -> Self:
        """The table of two fillers (parts,) whose parts change at their places."""
        with torch.inference_mode(False):  # it is kept, and may be used elsewhere later
            placed, order = places.sort()
            count = len(order)
            width = -(-count // rows_of(first))
            starts = torch.arange(0, count, width, device=order.device).unsqueeze(1)
            fillers = chosen(order.argsort() < starts, second, first)
            # The last row may be short: its last part then stands there several times, and changes alike.
            ranks = (starts + torch.arange(width, device=order.device)).clamp_max(count - 1)
            numbers = torch.arange(count + 1, device=order.device)
            each = ranks[(numbers // width).clamp_max(len(ranks) - 1)]
            changed = chosen(each < numbers.unsqueeze(1), second[order[each]], first[order[each]])
            return cls(placed, fillers, order[ranks], changed)

    def below(self, shares: Tensor) -> Tensor:
        """Fillers (*, parts), with those parts of the second whose places lie below the shares (*)."""
        number = torch.searchsorted(self.places, shares.flatten())
        rows = number.div(self.parts.shape[1], rounding_mode="floor").clamp_max_(len(self.parts) - 1)
        made = self.fillers.index_select(0, rows)
        made.scatter_(1, self.parts.index_select(0, rows), self.changed.index_select(0, number))
        return made.view(*shares.shape, -1)


def turned(filler: Tensor, opposite: Tensor, places: Tensor, shares: Tensor) -> Tensor:
    """A filler (parts,), of which those parts are turned whose rising places lie below shares (*): (*, parts)."""
    if filler.is_floating_point():
        return stairs(places, shares, -1, 1, filler.dtype).mul_(filler)
    flags = stairs(places, shares, True, False, torch.bool)
    choose = chosen if filler.element_size() < 8 else torch.where  # runs of flags are easy to guess
    return choose(flags, opposite, filler)


def stairs(places: Tensor, shares: Tensor, below: float, above: float, dtype: torch.dtype) -> Tensor:
    """One number where rising places (parts,) lie below shares (*), else another: (*, parts), cut out of one row."""
    count = len(places)
    ladder = torch.full((2 * count,), above, dtype=dtype, device=places.device)
    ladder[:count] = below
    starts = count - torch.searchsorted(places, shares.flatten().to(places.dtype))
    return ladder.unfold(0, count, 1).index_select(0, starts).view(*shares.shape, count)
