"""Fillers by bucket: a few sorted segments, merged as the vocabulary grows.

Each filler takes p k1 bytes (its unit components in int8, ordered by bucket) and four bytes for its row; a segment
takes four more bytes for each bucket.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.index.directions import directions, nearest, per_component
from carving.schemes.base import Scheme, draw_candidates
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import inverse_norm
from carving.tiling import slices

Bytes = NDArray[np.int8]
Numbers = NDArray[np.int32]

DRAWN = 2**14  # fillers that are made at a time
UNIT = 127  # what 1 is in int8
COARSE = 4  # times as many cells that fillers should have, from which on all are sorted anew
YOUNG = 0.25  # of the size of the segment before it, from which on a segment is merged with it


@dataclass(frozen=True)
class Segment:
    """Fillers of consecutive rows, sorted by bucket."""

    order: Numbers  # (n,) their rows
    starts: Numbers  # (cells + 1,) where the cells begin
    components: Bytes  # (n, p k1)

    @classmethod
    def sorted(cls, first: int, cells: Numbers, components: Bytes, count: int) -> "Segment":
        """Fillers in the order of their rows, which begin at the first, sorted."""
        order = np.argsort(cells, kind="stable").astype(np.int32)
        starts = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(np.bincount(cells, minlength=count), out=starts[1:])
        laid = np.empty_like(components)
        for rows in slices(len(order), DRAWN):  # a few at a time: they take a gigabyte all together
            np.take(components, order[rows], axis=0, out=laid[rows], mode="clip")
        order += np.int32(first)
        return cls(order, starts, laid)

    def __len__(self) -> int:
        return len(self.order)

    def merged(self, other: "Segment") -> "Segment":
        """Both in one: in every cell those of the first, and then the others."""
        sizes, more = np.diff(self.starts), np.diff(other.starts)
        starts = self.starts + other.starts
        order = np.empty(len(self) + len(other), dtype=np.int32)
        components = np.empty((len(order), self.components.shape[1]), dtype=np.int8)
        for own, places in (
            (self, np.repeat(starts[:-1] - self.starts[:-1], sizes) + np.arange(len(self), dtype=np.int32)),
            (other, np.repeat(starts[:-1] + sizes - other.starts[:-1], more) + np.arange(len(other), dtype=np.int32)),
        ):
            order[places] = own.order
            components[places] = own.components
        return Segment(order, starts, components)

    def places(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the fillers of these cells stand."""
        first = self.starts[cells]
        sizes = self.starts[cells + 1] - first
        before = np.cumsum(sizes) - sizes
        return np.repeat(first - before, sizes) + np.arange(int(sizes.sum()))

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return self.order.nbytes + self.starts.nbytes + self.components.nbytes


@dataclass(frozen=True)
class Index:
    """An inverted index of the compact fillers of a vocabulary, by bucket.

    Args:
        scheme: A scheme with compact fillers, on the CPU.
        each: The number of directions of each component.
        segments: Parts of the index, each sorted by bucket.

    >>> from carving import OSC
    >>> words = Vocabulary(range(1_000))
    >>> index = Index.of(OSC(64, compact=True), words.first(990))
    >>> len(index), len(index.extended(words)), index.cells
    (990, 1000, 256)
    """

    scheme: Scheme
    each: int  # directions of a component
    segments: tuple[Segment, ...] = ()

    @classmethod
    def of(cls, scheme: Scheme, vocabulary: Vocabulary) -> "Index":
        """Return the index of a vocabulary."""
        p = scheme.facts.filler_shape[0]
        return cls(scheme, per_component(len(vocabulary), p)).extended(vocabulary)

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @cached_property
    def ways(self) -> Tensor:
        """The directions of each component, (p, each, k1)."""
        p, k1 = self.scheme.facts.filler_shape
        return directions(p, k1, self.each)

    @property
    def cells(self) -> int:
        """The number of buckets."""
        return int(self.each ** self.scheme.facts.filler_shape[0])

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return sum(segment.nbytes for segment in self.segments)

    def extended(self, vocabulary: Vocabulary) -> "Index":
        """Return the index with the new labels of a vocabulary; rebuilt if they need smaller buckets."""
        if len(vocabulary) == len(self):
            return self
        if per_component(len(vocabulary), self.ways.shape[0]) ** self.ways.shape[0] > COARSE * self.cells:
            return Index.of(self.scheme, vocabulary)
        segments = [*self.segments, self._segment(vocabulary)]
        while len(segments) > 1 and len(segments[-1]) >= YOUNG * len(segments[-2]):
            last = segments.pop()
            segments[-1] = segments[-1].merged(last)
        return Index(self.scheme, self.each, tuple(segments))

    def joined(self) -> "Index":
        """Return the index merged into one segment."""
        segments = list(self.segments)
        while len(segments) > 1:
            last = segments.pop()
            segments[-1] = segments[-1].merged(last)
        return Index(self.scheme, self.each, tuple(segments))

    def _segment(self, vocabulary: Vocabulary) -> Segment:
        first, stop, (p, k1) = len(self), len(vocabulary), self.scheme.facts.filler_shape
        cells, components = np.empty(stop - first, dtype=np.int32), np.empty((stop - first, p * k1), dtype=np.int8)
        for rows in slices(stop - first, DRAWN):
            units = _units(draw_candidates(self.scheme, vocabulary.names(first + rows.start, first + rows.stop)))
            cells[rows] = nearest(units, self.ways).numpy()
            components[rows] = (units * UNIT).round_().to(torch.int8).flatten(1).numpy()
        return Segment.sorted(first, cells, components, self.cells)


def _units(fillers: Tensor) -> Tensor:
    components = fillers.float().contiguous()
    return components * inverse_norm(components, dim=2).unsqueeze(2)


def fits(scheme: Scheme) -> bool:
    """Whether an index supports the scheme: compact fillers, on the CPU."""
    facts = scheme.facts
    compact = facts.code_size > 0 and not facts.contextual and len(facts.filler_shape) == 2
    return (
        compact
        and facts.linear
        and not facts.memory_dtype.is_complex
        and str(scheme.device) == "cpu"
        and (facts.code_size == facts.filler_shape[1] ** facts.filler_shape[0])
    )
