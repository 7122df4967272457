"""How much is done at once: what a scheme's steps take, and how many rows of them fit into its workspace."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.tensors import tracked


@dataclass(frozen=True)
class Cost:
    """The numbers that stand beside each other in each step of a scheme, as it states them of itself.

    Whatever a step makes counts; what it is given and the memory do not. TPR, for a pair: the outer product of its
    roles, d^depth numbers and as many for its making, and a few vectors of d.
    """

    pair: int  # adding a pair to the memory
    core: int  # reading or writing a context
    context: int  # making a context from a path of one role,
    role: int = 0  # and for each further role of it
    cell: int = 0  # matching a candidate in a context, beside the score
    candidate: int = 0  # making a candidate ready to be matched
    # How many are done at once at most, so that what they make stays in the caches
    max_pairs: int = 2**40  # added
    max_reads: int = 2**40  # contexts read or written
    max_contexts: int = 2**40  # contexts matched
    max_candidates: int = 2**40  # candidates matched with many contexts

    def pairs_at_once(self, room: int) -> int:
        """The pairs that are added at once in a room of so many numbers."""
        return min(self.max_pairs, rows_within(room, self.pair))

    def reads_at_once(self, room: int) -> int:
        """The contexts that are read or written at once."""
        return min(self.max_reads, rows_within(room, self.core))


def slices(count: int, size: int) -> Iterable[slice]:
    """Chunks of `size` that cover `count` rows.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if count <= size:  # most often
        return [slice(0, count)] if count else []
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def rows_within(room: int, numbers: int) -> int:
    """How many rows of so many numbers fit into a room of numbers; one at least."""
    return max(1, room // max(1, numbers))


def spans(sizes: NDArray[np.integer], room: int) -> Iterator[slice]:
    """Chunks of rows of these sizes that fit into a room, one row at least.

    >>> list(spans(np.array([2, 3, 9, 0, 1]), 5))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    ends, start = np.cumsum(sizes, dtype=np.int64), 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + room, "right")))
        yield slice(start, stop)
        start = stop


def collect(count: int, parts: Iterable[tuple[slice, Tensor]]) -> Tensor:
    """Return consecutive parts as one tensor of `count` rows.

    Each part is written to its place, so that parts are never held twice, unless a gradient passes through them.
    """
    whole: Tensor | None = None
    gathered: list[Tensor] = []
    for rows, part in parts:
        if len(part) == count:
            return part
        if tracked(part):
            gathered.append(part)
            continue
        if whole is None:
            whole = part.new_empty(count, *part.shape[1:])
        whole[rows] = part
    return torch.cat(gathered) if whole is None else whole


def collect_tiles(rows: int, columns: int, tiles: Iterable[tuple[slice, slice, Tensor]]) -> Tensor:
    """Return tiles, row by row, as one matrix; see `collect`."""
    whole: Tensor | None = None
    strips: list[list[Tensor]] = []
    for some, few, part in tiles:
        if tracked(part):
            if not few.start:
                strips.append([])
            strips[-1].append(part)
            continue
        if whole is None:
            whole = part.new_empty(rows, columns)
        whole[some, few] = part
    return torch.cat([torch.cat(strip, 1) for strip in strips]) if whole is None else whole


def tile(cost: Cost, room: int, contexts: int, candidates: int) -> tuple[int, int]:
    """How many of these contexts and candidates are matched at once."""
    rows = min(contexts, cost.max_contexts, rows_within(room, cost.cell))
    columns = min(candidates, rows_within(room, cost.candidate + cost.cell * rows))
    return rows, min(columns, cost.max_candidates) if rows >= 8 else columns
