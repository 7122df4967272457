"""Counts of values and weights of paths: persistent structures, of which a change copies little.

A small vocabulary's counts are copied with every change. Those of a large one stay where they are, and a state beside
them remembers what differs, so that one more pair copies a few numbers. Paths lie in layers, each at least twice as
large as the next: one more pair makes a layer of one, and layers that have become too alike are joined. A path is
copied about as often as the number of paths can be doubled, and looked up in as many layers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.caching import cached_property
from carving.symbols.codec import Path, Role, canonical, parse_paths
from carving.tensors import lasting

LARGE_VOCABULARY = 2**16  # values whose counts are not copied with every change
MAX_DIFFERING = 2**12  # counts that may differ from the shared ones before all are laid out anew
NO_WEIGHT = 1e-6  # a smaller weight is what rounding leaves of none

Rows = NDArray[np.int64]


class CountSummary(NamedTuple):
    """Sum and bounds of all counts."""

    stored: float  # without counts below zero
    least: float
    most: float


class ValueCounts:
    """A count for each value, by its row.

    Args:
        shared: Counts (n,) in float64, which nobody changes.
        differing: The rows whose counts are others.
        size: The number of values, at least n. Further ones have the count 0.

    >>> few = ValueCounts(torch.zeros(3, dtype=torch.float64))
    >>> more = few.plus(4, [1, 3], torch.tensor([2.0, 1.0]))
    >>> more.tensor.tolist(), few.tensor.tolist(), more.stored, more.of(np.array([3, -1, 1])).tolist()
    ([0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0], 3.0, [1.0, 0.0, 2.0])
    """

    def __init__(self, shared: Tensor, differing: dict[int, float] | None = None, size: int | None = None) -> None:
        self._shared, self._differing, self.size = shared, differing or {}, len(shared) if size is None else size
        self.laid = shared if differing is None and size is None else None  # all of them, where they lie in one tensor

    def __len__(self) -> int:
        return self.size

    def __reduce__(self) -> tuple[type["ValueCounts"], tuple[Tensor]]:
        return ValueCounts, (self.tensor,)

    @property
    def tensor(self) -> Tensor:
        """All counts, laid out when they are first asked for."""
        if self.laid is None:
            with lasting():
                tensor = torch.cat([self._shared, self._shared.new_zeros(self.size - len(self._shared))])
                if self._differing:
                    rows = torch.tensor(list(self._differing))
                    tensor[rows] = torch.tensor(list(self._differing.values()), dtype=tensor.dtype)
            self.laid = tensor
        return self.laid

    def of(self, rows: Rows | Sequence[int]) -> Tensor:
        """Return the counts (n,) of rows; 0 where a row is below zero."""
        asked = np.asarray(rows, dtype=np.int64)
        tensor = self.laid
        if tensor is None:
            tensor = self._shared if len(asked) <= MAX_DIFFERING else self.tensor
        there = (asked >= 0) & (asked < len(tensor))
        counts = np.zeros(len(asked))
        counts[there] = tensor.numpy()[asked[there]]
        if self.laid is not tensor and self._differing:
            each = zip(asked.tolist(), counts.tolist(), strict=True)
            counts = np.array([self._differing.get(row, count) for row, count in each], dtype=np.float64)
        return torch.from_numpy(counts)

    def plus(self, size: int, rows: Rows | Sequence[int], weights: Tensor) -> "ValueCounts":
        """Return counts of `size` values with `weights` (n,) added at distinct `rows`."""
        if size < LARGE_VOCABULARY or len(self._differing) + len(rows) > MAX_DIFFERING:
            with lasting():
                tensor = torch.cat([self.tensor, self.tensor.new_zeros(size - self.size)])
                tensor[rows] += weights
            return ValueCounts(tensor)
        before, summary = self.of(rows), self.summary
        after = before + weights
        changed = dict(zip(np.asarray(rows).tolist(), after.tolist(), strict=True))
        more = ValueCounts(self._shared, self._differing | changed, size)
        stored = summary.stored + float(after.clamp_min(0).sum() - before.clamp_min(0).sum())
        least, most = min([summary.least, *changed.values()]), max([summary.most, *changed.values()])
        more.__dict__["summary"] = CountSummary(stored, least, most)
        return more

    @cached_property
    def summary(self) -> CountSummary:
        """Sum and bounds; of counts that differ from shared ones the bounds may be too wide."""
        if not self.size:
            return CountSummary(0.0, 0.0, 0.0)
        least, most = map(float, self.tensor.aminmax())
        return CountSummary(float(self.tensor.clamp_min(0).sum()), least, most)

    @property
    def stored(self) -> float:
        """The sum, without counts below zero."""
        return self.summary.stored


class Layer(NamedTuple):
    """Changes since the layers below."""

    counts: dict[bytes, float]  # the weights under paths, by their canonical bytes; 0 where nothing is left
    gone: frozenset[bytes]  # the paths that held nothing meanwhile: such a one stands behind the others when it is back


class PathCounts:
    """The sum of the weights under each path, by its canonical bytes, in the order in which the paths came.

    A path counts as many pairs as its rounded weight, at least one.

    >>> known = PathCounts({b"p1:s3:dog": 2})
    >>> more = known.changed([(b"p1:s3:cat", 1), (b"p1:s3:dog", 1)])
    >>> list(more), more.pairs, list(known), known.pairs
    ([('dog',), ('cat',)], 4, [('dog',)], 2)
    >>> list(more.changed([(b"p1:s3:dog", -3)]))
    [('cat',)]
    """

    def __init__(self, weights: Mapping[bytes, float] | None = None) -> None:
        counts = dict(weights or {})
        self._layers: tuple[Layer, ...] = (Layer(counts, frozenset()),) if counts else ()
        self._size, self.pairs = len(counts), sum(map(_times, counts.values()))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Path]:
        return parse_paths(self.weights())

    def count(self, name: bytes) -> int:
        """Return the number of pairs under a path, given by its canonical bytes."""
        return _times(self._last(name) or 0)

    def _last(self, name: bytes) -> float | None:
        """Return the weight in the uppermost layer that has the path, None if no layer has it."""
        for counts, _ in reversed(self._layers):
            count = counts.get(name)
            if count is not None:
                return count
        return None

    def counts(self) -> list[int]:
        """Return the number of pairs under each path."""
        return [_times(weight) for weight in self.weights().values()]

    def weights(self) -> Mapping[bytes, float]:
        """Return the weight of every path."""
        if not self._layers:
            return {}
        if len(self._layers) > 1:
            self._layers = (_lowest(reduce(_joined, self._layers)),)  # others may do so at once: it is the same
        return self._layers[0].counts

    def each(self) -> Iterator[Path]:
        """Iterate over the paths, each as often as it has pairs."""
        return chain.from_iterable(map(repeat, self, self.counts()))

    def below(self, prefix: Iterable[Role]) -> Iterator[Path]:
        """Iterate over the paths that begin with these roles."""
        start = b"".join(map(canonical, prefix))  # of which no other role's bytes are the beginning
        return parse_paths(name for name in self.weights() if name.startswith(start, name.index(b":") + 1))

    def changed(self, events: Iterable[tuple[bytes, float]]) -> "PathCounts":
        """Return counts with weights added in order (negative ones subtracted); no weight falls below zero."""
        counts, gone = dict[bytes, float](), set[bytes]()
        more = PathCounts()
        more._size, more.pairs = self._size, self.pairs
        for name, number in events:
            last = counts[name] if name in counts else self._last(name)
            before = last or 0
            after = before + number
            after = 0 if after < NO_WEIGHT else after
            if after == before:
                continue
            if last == 0:
                counts.pop(name, None)
            if last == 0 or not after:
                gone.add(name)
            counts[name] = after
            more.pairs += _times(after) - _times(before)
            more._size += (not before) - (not after)
        more._layers = _stacked([*self._layers, Layer(counts, frozenset(gone))]) if counts else self._layers
        return more


def _times(weight: float) -> int:
    """Return the number of pairs that a weight stands for."""
    return max(1, round(weight)) if weight else 0


def _stacked(layers: list[Layer]) -> tuple[Layer, ...]:
    """Join layers that are less than twice as large as the layer above."""
    while len(layers) > 1 and len(layers[-2].counts) < 2 * len(layers[-1].counts):
        upper = layers.pop()
        layers[-1] = _joined(layers[-1], upper)
    return (_lowest(layers[0]), *layers[1:])


def _joined(lower: Layer, upper: Layer) -> Layer:
    """Join two layers."""
    counts = dict(lower.counts)
    for name in upper.gone:
        counts.pop(name, None)
    counts.update(upper.counts)
    return Layer(counts, lower.gone | upper.gone)


def _lowest(layer: Layer) -> Layer:
    """Return the lowest layer without paths that have no pairs."""
    if not layer.gone:
        return layer
    for name in layer.gone:
        if layer.counts.get(name) == 0:
            del layer.counts[name]
    return Layer(layer.counts, frozenset())
