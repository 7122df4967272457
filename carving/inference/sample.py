"""How strongly pairs are held: a small sample of the stored pairs, with the exact net weight of each.

A pair belongs to the sample if the low bits of its path's hash are zero; one more bit is asked for whenever the sample
grows too large, and fewer bits of a pair that is much stronger than 1, by which the few strong pairs are in. The sample
is a sum, as the memory is: storing, forgetting and merging add weights, in any order and over any number of calls,
files and processes.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from zlib import crc32

from carving.caching import cached_property

MAX_SAMPLED_PAIRS = 512
KEY_BYTES = 12  # of a sampled pair: four of the path's CRC-32, four of its digest, four of the value's digest
MAX_LEVELS = 16  # different strengths in a histogram
MAX_VALUES = 16  # values of a path that a histogram tells apart
MIN_PATHS = 16  # that say how many values a path holds: of fewer, others may come later
ALIKE = 0.02  # strengths whose logarithms differ by less are one level
ROUNDING = 1e-6  # of a weight: what is left of a pair that is taken out with it
UNEVEN = 4.0  # kurtosis of the strengths above which a few pairs make most of the interference
NEGLIGIBLE = 1e-20  # of the largest strength: not in a histogram
MAX_LOAD = 2.0**53
QUIETER = 0.01  # share of the pairs that may be weaker than those for which the load is given

Levels = tuple[tuple[float, float], ...]  # strengths, and the number of pairs of each
Loads = tuple[tuple[int, float], ...]  # a number of pairs of strength 1, and the share of the pairs that it is for


@dataclass(frozen=True)
class Strengths:
    """The distribution of the strengths of stored pairs.

    `concentration` is the sum of their fourth powers over the squared sum of their squares, or 0 where no pair is much
    stronger than the others.
    """

    levels: Levels = ((1.0, 1.0),)  # strengths and their shares of the pairs
    concentration: float = 0.0

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The strengths, in ascending order."""
        return tuple([strength for strength, _ in self.levels])

    @property
    def mean_square(self) -> float:
        """The mean energy of a pair."""
        return sum(share * strength * strength for strength, share in self.levels)

    def scaled(self, factor: float) -> "Strengths":
        """Multiply all strengths by a factor."""
        return Strengths(tuple((factor * strength, share) for strength, share in self.levels), self.concentration)


ONCE = Strengths()  # every pair was stored once, with a weight of 1


@dataclass(frozen=True)
class Histogram:
    """How many pairs are held how strongly, and how many paths hold at least one value, two values, ..."""

    strengths: Levels = ()  # of pairs with positive net weight
    values: tuple[float, ...] = ()
    negative: Levels = ()  # absolute strengths of pairs with negative net weight

    @cached_property
    def number(self) -> float:
        """The number of pairs with positive net weight."""
        return sum([n for _, n in self.strengths])

    @cached_property
    def sum(self) -> float:
        """The sum of the positive strengths."""
        return sum([s * n for s, n in self.strengths])

    @cached_property
    def squares(self) -> float:
        """The sum of all squared strengths: the expected energy of the memory."""
        return sum([s * s * n for s, n in (*self.strengths, *self.negative)])

    @cached_property
    def concentration(self) -> float:
        """The sum of fourth powers over the squared sum of squares: 1 / n for n pairs of one strength."""
        every = (*self.strengths, *self.negative)
        largest = max([s for s, _ in every])
        return sum([(s / largest) ** 4 * n for s, n in every]) / self._noise(largest) ** 2

    @cached_property
    def load(self) -> float:
        """The number of pairs of one strength that would be as much noise as there is to the weakest of these pairs.

        >>> Histogram(((3.0, 100.0),)).load, Histogram(((1.0, 99.0), (10.0, 1.0))).load
        (100.0, 199.0)
        """
        if len(self.strengths) == 1 and not self.negative:
            return self.number
        descending, enough = self.strengths[::-1], (1 - QUIETER) * self.number
        cumulative = accumulate(n for _, n in descending)
        weakest = next(s for (s, _), n in zip(descending, cumulative, strict=True) if n >= enough)
        return self._noise(weakest)

    def _noise(self, strength: float) -> float:
        """The sum of all squares in units of one strength's, which may be too small or large to be squared."""
        return sum([(s / strength) ** 2 * n for s, n in (*self.strengths, *self.negative)])

    def loads(self, more: int = 0) -> Loads:
        """The noise that pairs of each strength meet, as a number of pairs of that strength, and their share of all.

        `more` counts further pairs of strength 1 that add to the noise.

        >>> Histogram(((1.0, 99.0), (10.0, 1.0))).loads()
        ((199, 0.99), (2, 0.01))
        """
        each = [(self._noise(s) + more / s / s, n / self.number) for s, n in self.strengths]
        return tuple([(max(1, round(min(load, MAX_LOAD))), share) for load, share in each])

    def histogram(self, stored: float | None = None) -> "Histogram":
        """Return itself: what is known where there is no sample."""
        return self

    def plus(self, pairs: Iterable[tuple[bytes, bytes]], weights: Iterable[float]) -> "Histogram":
        """Return itself: without the pairs before, others cannot be added."""
        return self

    def merged(self, other: "PairSample | Histogram") -> "Histogram":
        """Return itself."""
        return self

    def scaled(self, numbers: float = 1.0, strengths: float = 1.0) -> "Histogram":
        """Multiply all numbers, and all strengths, by a factor."""
        if numbers == strengths == 1:
            return self
        levels = (tuple((s * strengths, n * numbers) for s, n in each) for each in (self.strengths, self.negative))
        return Histogram(next(levels), tuple(n * numbers for n in self.values), next(levels))

    def with_pair(self, strength: float) -> "Histogram":
        """Add one pair."""
        return Histogram(_levels([*self.strengths, (strength, 1.0)]), self.values, self.negative)

    def as_strengths(self) -> Strengths:
        """Return the distribution of the positive strengths."""
        number = self.number
        uneven = self.concentration * (number + sum(n for _, n in self.negative)) >= UNEVEN
        if len(self.strengths) == 1 and self.strengths[0][0] == 1 and not uneven:
            return ONCE
        shares = tuple((s, n / number) for s, n in self.strengths)
        return Strengths(shares, self.concentration if uneven else 0.0)


@dataclass(frozen=True, eq=False)
class PairSample:
    """The pairs of a memory whose path's CRC-32 ends in `bits` zero bits, with their net weights.

    Of a pair that came with a weight w > 1, about 2 log2(w) bits fewer are asked for: `fewer` has them.

    >>> sample = PairSample().plus([(b"a", b"x"), (b"a", b"y"), (b"b", b"x")], [1, 1, 1]).plus([(b"b", b"x")], [2])
    >>> sample.histogram().strengths, sample.plus([(b"a", b"x")], [-1]).histogram().strengths
    (((1.0, 2.0), (3.0, 1.0)), ((1.0, 1.0), (3.0, 1.0)))
    """

    bits: int = 0
    weights: Mapping[bytes, float] = field(default_factory=dict)  # by the keys of the pairs
    fewer: Mapping[bytes, int] = field(default_factory=dict)  # bits, where they are not 0

    def plus(self, pairs: Iterable[tuple[bytes, bytes]], weights: Iterable[float]) -> "PairSample":
        """Add pairs, given by the canonical bytes of path and value, with their weights."""
        weights = list(weights)
        fewer = {weight: 2 * max(0, math.frexp(weight)[1] - 1) for weight in set(weights)}
        masks = {weight: (1 << max(0, self.bits - less)) - 1 for weight, less in fewer.items()}
        each, strong = zip(pairs, weights, strict=True), self._strong
        chosen = [
            (path, value, weight)
            for (path, value), weight in each
            if not (crc := crc32(path)) & masks[weight] or crc in strong
        ]
        return self._added([(_key(p, v), weight, fewer[weight]) for p, v, weight in chosen]) if chosen else self

    def weight(self, path: bytes, value: bytes) -> float | None:
        """Return the net weight of a pair; None for a pair that is not in the sample."""
        return self.weights.get(_key(path, value))

    def merged(self, other: "PairSample | Histogram") -> "PairSample | Histogram":
        """Return the sample of the sum of two memories."""
        if isinstance(other, Histogram):
            return other if other.strengths else self
        restricted = self._restricted(max(self.bits, other.bits))
        theirs = other._restricted(restricted.bits)
        return restricted._added([(key, weight, theirs.fewer.get(key, 0)) for key, weight in theirs.weights.items()])

    @cached_property
    def _strong(self) -> set[int]:
        """The hashes of paths that are here because a pair is strong."""
        return {int.from_bytes(key[:4], "big") for key in self.fewer} if self.bits else set()

    def _added(self, changes: Iterable[tuple[bytes, float, int]]) -> "PairSample":
        """Add weights to keys that belong to the sample by these bits fewer, or are in it."""
        weights, fewer = dict(self.weights), dict(self.fewer)
        for key, weight, less in changes:
            less = max(less, fewer.get(key, 0))
            after = weights.get(key, 0.0) + weight
            if abs(after) <= ROUNDING * abs(weight) or not _belongs(key, self.bits - less):
                weights.pop(key, None)
                fewer.pop(key, None)
                continue
            weights[key] = after
            if less:
                fewer[key] = less
        return PairSample(self.bits, weights, fewer)._restricted(self.bits)

    def _restricted(self, bits: int) -> "PairSample":
        """Ask for at least this number of zero bits, and for as many as keep the sample small."""
        while bits > self.bits or len(self.weights) > MAX_SAMPLED_PAIRS:
            bits, fewer = max(bits, self.bits + 1), self.fewer
            weights = {key: w for key, w in self.weights.items() if _belongs(key, bits - fewer.get(key, 0))}
            self = PairSample(bits, weights, {key: less for key, less in fewer.items() if key in weights})
        return self

    def histogram(self, stored: float | None = None) -> Histogram:
        """Return the histogram of all pairs of a memory in which weights sum to `stored`."""
        whole = self._histogram
        if not self.bits or not whole.strengths:
            return whole
        return whole.scaled(stored / whole.sum if stored and not whole.negative else 2.0**self.bits)

    @cached_property
    def _histogram(self) -> Histogram:
        """The histogram, in units of the 2^bits pairs that a sampled pair of weight 1 stands for."""
        levels: tuple[list[tuple[float, float]], ...] = ([], [])  # of positive and of negative weights
        each = Counter([(weight, self.fewer.get(key, 0)) for key, weight in self.weights.items()])
        for (weight, less), number in each.items():
            levels[weight < 0].append((abs(weight), number * 2.0 ** -min(self.bits, less)))
        return Histogram(_levels(levels[0]), (), _levels(levels[1]))

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The numbers of sampled paths with at least one value, two values, ..., if there are enough of them."""
        paths = [key[:8] for key, weight in self.weights.items() if weight > 0]
        sizes = Counter(Counter([key for key in paths if _belongs(key, self.bits)] if self.bits else paths).values())
        if sizes.total() < MIN_PATHS:
            return ()
        most = min(max(sizes), MAX_VALUES)
        return tuple([float(sum([n for size, n in sizes.items() if size >= k])) for k in range(1, most + 1)])


NOTHING_SAMPLED = PairSample()


def _key(path: bytes, value: bytes) -> bytes:
    head, tail = blake2b(path, digest_size=4).digest(), blake2b(value, digest_size=4).digest()
    return crc32(path).to_bytes(4, "big") + head + tail


def _belongs(key: bytes, bits: int) -> bool:
    # No hash has more than 32 zero bits: the sample of one path with very many values is given up.
    return bits <= 0 or (bits <= 32 and not int.from_bytes(key[:4], "big") % (1 << bits))


def shares_with_more(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return the shares with more of the paths with at least one value, two values, ...; a half if that is unknown.

    `values` are the numbers of these paths, of a `Histogram` or a `PairSample`.

    >>> shares_with_more((100.0, 50.0, 50.0))
    (0.5, 1.0, 0.0)
    """
    ends = (*values[1:], 0.0) if len(values) < MAX_VALUES else values[1:]
    return tuple(min(1.0, more / n) for n, more in zip(values, ends, strict=False)) or (0.5,)


def _levels(pairs: list[tuple[float, float]]) -> Levels:
    """Join strengths, each with a number of pairs, to a few levels: the sums of strengths and of squares stay."""
    if len(pairs) <= 1:
        return tuple(pairs)
    highest, step = max(pairs)[0], ALIKE
    pairs = sorted([level for level in pairs if level[0] > NEGLIGIBLE * highest])
    while True:
        groups: dict[int, list[tuple[float, float]]] = {}
        for strength, number in pairs:
            groups.setdefault(round(math.log(strength) / step), []).append((strength, number))
        if len(groups) <= MAX_LEVELS:
            return tuple([_joined(group) for group in groups.values()])
        step *= 1.25


def _joined(group: list[tuple[float, float]]) -> tuple[float, float]:
    if len(group) == 1:
        return group[0]
    total, squares = sum([s * n for s, n in group]), sum([s * s * n for s, n in group])
    return squares / total, total * total / squares
