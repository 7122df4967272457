"""Tiling: how work is split into chunks that fit into a workspace and into the caches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.tensors import tracked


@dataclass(frozen=True)
class Cost:
    """The working memory of each step of a scheme, in numbers.

    Temporary tensors and results count; arguments and the memory do not. Of TPR, a pair takes the outer product of its
    roles, d^depth numbers, as many to compute it, and a few vectors of d.
    """

    pair: int  # to add a pair to the memory
    core: int  # to read or write a context
    context: int  # to create a context from a path of one role
    role: int = 0  # for each further role of the path
    cell: int = 0  # to match a candidate in a context, beside the score
    candidate: int = 0  # to prepare a candidate for matching
    # Maximum chunks, so that temporary tensors stay in the caches
    max_pairs: int = 2**40  # to add
    max_reads: int = 2**40  # contexts to read or write
    max_contexts: int = 2**40  # contexts to match
    max_candidates: int = 2**40  # candidates to match with many contexts

    def pairs_at_once(self, room: int) -> int:
        """Return how many pairs are added at a time, within `room` numbers."""
        return min(self.max_pairs, max(1, room // self.pair))

    def reads_at_once(self, room: int) -> int:
        """Return how many contexts are read or written at a time, within `room` numbers."""
        return min(self.max_reads, max(1, room // self.core))


def slices(count: int, size: int) -> Iterable[slice]:
    """Return chunks of at most `size` that cover `count` rows.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if count <= size:  # most often
        return [slice(0, count)] if count else []
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def rows_within(room: int, numbers: int) -> int:
    """Return how many rows of `numbers` each fit into `room` numbers; at least 1."""
    return max(1, room // max(1, numbers))


def spans(sizes: NDArray[np.integer], room: int) -> Iterator[slice]:
    """Yield chunks of rows of different sizes (n,) that fit into `room` numbers, at least one row each.

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
    """Return how many of the contexts and candidates are matched at a time."""
    rows = min(contexts, cost.max_contexts, rows_within(room, cost.cell))
    columns = min(candidates, rows_within(room, cost.candidate + cost.cell * rows))
    return rows, min(columns, cost.max_candidates) if rows >= 8 else columns
