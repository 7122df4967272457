"""The paths that a memory keeps: each once, with the weight of its pairs, in the order in which they came.

A state's paths never change; a change makes others, which share with them all but what is new. They lie in layers,
each at least twice as large as the next: one pair more makes a layer of one, and layers that have become too alike are
joined, so that a path is copied about as often as their number can be doubled, and looked for in as many layers.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain, repeat
from typing import NamedTuple

from carving.symbols.codec import Path, Role, canonical, parse_paths

NOTHING = 1e-6  # a weight below is what rounding leaves of none


class Layer(NamedTuple):
    """What has changed since the layers below."""

    counts: dict[bytes, float]  # the weights under paths, by their canonical bytes; 0 where nothing is left
    gone: frozenset[bytes]  # the paths that held nothing meanwhile: such a one stands behind the others when it is back


class KnownPaths:
    """Paths by their canonical bytes, with the sum of the weights that each holds: as many pairs, but one at least.

    >>> known = KnownPaths({b"p1:s3:dog": 2})
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
        """How many pairs the path of this name holds."""
        return _times(self._last(name) or 0)

    def _last(self, name: bytes) -> float | None:
        """What the uppermost layer says that speaks of it."""
        for counts, _ in reversed(self._layers):
            count = counts.get(name)
            if count is not None:
                return count
        return None

    def counts(self) -> list[int]:
        """How many pairs each path holds."""
        return [_times(weight) for weight in self.weights().values()]

    def weights(self) -> Mapping[bytes, float]:
        """The weight of every path."""
        if not self._layers:
            return {}
        if len(self._layers) > 1:
            self._layers = (_lowest(reduce(_joined, self._layers)),)  # others may do so at once: it is the same
        return self._layers[0].counts

    def each(self) -> Iterator[Path]:
        """Every path as often as it holds pairs."""
        return chain.from_iterable(map(repeat, self, self.counts()))

    def below(self, prefix: Iterable[Role]) -> Iterator[Path]:
        """The paths that begin with these roles."""
        start = b"".join(map(canonical, prefix))  # of which no other role's bytes are the beginning
        return parse_paths(name for name in self.weights() if name.startswith(start, name.index(b":") + 1))

    def changed(self, events: Iterable[tuple[bytes, float]]) -> "KnownPaths":
        """With so much weight more under paths (or, below zero, less), one after the other; none below nothing."""
        counts, gone = dict[bytes, float](), set[bytes]()
        more = KnownPaths()
        more._size, more.pairs = self._size, self.pairs
        for name, number in events:
            last = counts[name] if name in counts else self._last(name)
            before = last or 0
            after = before + number
            after = 0 if after < NOTHING else after
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
    """How many pairs a weight stands for."""
    return max(1, round(weight)) if weight else 0


def _stacked(layers: list[Layer]) -> tuple[Layer, ...]:
    """The layers, those joined that are less than twice as large as the one above."""
    while len(layers) > 1 and len(layers[-2].counts) < 2 * len(layers[-1].counts):
        upper = layers.pop()
        layers[-1] = _joined(layers[-1], upper)
    return (_lowest(layers[0]), *layers[1:])


def _joined(lower: Layer, upper: Layer) -> Layer:
    """Two layers as one."""
    counts = dict(lower.counts)
    for name in upper.gone:
        counts.pop(name, None)
    counts.update(upper.counts)
    return Layer(counts, lower.gone | upper.gone)


def _lowest(layer: Layer) -> Layer:
    """The layer below which there is none: paths without pairs are not there."""
    if not layer.gone:
        return layer
    for name in layer.gone:
        if layer.counts.get(name) == 0:
            del layer.counts[name]
    return Layer(layer.counts, frozenset())
