"""What is counted of pairs as they are stored: how strongly they are held, and how many leaves their paths hold.

Of a leaf that is stored with a weight of 2, or three times, a memory shows twice or three times as much. Weights, and
pairs that come twice in one call, are seen when they are stored. That a pair was there before shows by the memory's
energy: storing it again adds (s + w)^2 - s^2 to it, and not w^2. So a tally keeps two sums right, that of all strengths
and that of their squares, and takes the simplest reading that has both.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

LEVELS = 8  # different strengths that are kept apart
ALIKE = 0.02  # strengths that differ by less are one
NOTHING = 1e-6  # of a pair
NO_STRENGTH = 1e-12  # of the highest one: what is left of weights that were added and taken out again
MUCH = 1.5  # times the weight: pairs that are held so strongly do not go wholly
REST = 0.25  # of a strength that stays when a pair is taken out is nothing: less is not told apart when it goes
SLACK = 0.1  # by which a reading of the energy may be off
FEW = 16  # pairs that tell nothing: of paths others may come later, and the energy hides what so few add to it
AS_SEEN = 0.05  # of all strengths are at least as they were seen when pairs were stored
QUIETER = 0.01  # of the pairs may be than those that it is told for how full a memory is
LEAVES = 16  # numbers of leaves that are counted; with more, it goes on as with the last ones


Levels = tuple[tuple[float, float], ...]  # strengths, and how many pairs have each
Loads = tuple[tuple[int, float], ...]  # pairs that would be as much noise, and for which share of the pairs they are


class Strengths(NamedTuple):
    """How strongly fillers are held, and which share of them so strongly."""

    values: tuple[float, ...] = (1.0,)
    shares: tuple[float, ...] = (1.0,)

    @property
    def square(self) -> float:
        """The mean of the squares: the energy of a pair."""
        return sum(share * value * value for value, share in zip(*self, strict=True))

    def scaled(self, factor: float) -> "Strengths":
        """So many times as strong."""
        return Strengths(tuple(factor * value for value in self.values), self.shares)


ONCE = Strengths()  # stored once, with a weight of 1


@dataclass(frozen=True)
class Tally:
    """How many pairs are held how strongly, and how many paths hold one leaf or more, two or more, ..."""

    strengths: Levels = ()  # a strength, and how many pairs have it
    leaves: tuple[float, ...] = ()

    @classmethod
    def of(cls, pairs: Sequence[tuple[bytes, bytes]], weight: float = 1.0) -> "Tally":
        """That of pairs of a path and a leaf, by their canonical bytes.

        >>> Tally.of([(b"a", b"x"), (b"a", b"y"), (b"b", b"x"), (b"b", b"x")], weight=0.5)
        Tally(strengths=((0.5, 2.0), (1.0, 1.0)), leaves=())
        """
        if len(pairs) == 1:
            return cls(((abs(weight), 1.0),))
        times = Counter(pairs)
        repeats = Counter(times.values())
        sizes = Counter(Counter(path for path, _ in times).values()) if len(times) >= FEW else {}
        least = (float(sum(n for size, n in sizes.items() if size >= k)) for k in range(1, LEAVES + 1))
        return cls(
            tuple(sorted((abs(weight) * count, float(n)) for count, n in repeats.items())),
            tuple(n for n in least if n),
        )

    @cached_property
    def number(self) -> float:
        """How many different pairs there are."""
        return sum([n for _, n in self.strengths])

    @property
    def few(self) -> bool:
        """Whether there are so few pairs that they tell nothing."""
        return self.strengths[0][1] < FEW and self.number < FEW

    @cached_property
    def sum(self) -> float:
        """The sum of all strengths."""
        return sum([s * n for s, n in self.strengths])

    @cached_property
    def squares(self) -> float:
        """The sum of the strengths' squares: the energy that is to be expected."""
        return sum([s * s * n for s, n in self.strengths])

    @cached_property
    def load(self) -> float:
        """How many pairs of one strength would be as much noise to each as there is to the quietest of these.

        A pair of a strength s adds s^2 to the noise that the others meet.

        >>> Tally(((3.0, 100.0),)).load, Tally(((0.01, 5000.0),)).load, Tally(((1.0, 99.0), (10.0, 1.0))).load
        (100.0, 5000.0, 199.0)
        """
        if len(self.strengths) <= 1:  # most often
            return self.number
        loudest, many = list(reversed(self.strengths)), accumulate(n for _, n in reversed(self.strengths))
        enough = (1 - QUIETER) * self.number
        quietest = next(s for (s, _), n in zip(loudest, many, strict=True) if n >= enough)
        return self.squares / quietest**2

    def loads(self, more: int = 0) -> Loads:
        """The noise that pairs of each strength meet, as so many pairs of that strength; and their share of all pairs.

        So many pairs more, of a weight of 1, are noise to them as well.

        >>> Tally(((1.0, 99.0), (10.0, 1.0))).loads()
        ((199, 0.99), (2, 0.01))
        """
        noise = self.squares + more
        return tuple((max(1, round(noise / s**2)), n / self.number) for s, n in self.strengths)

    @property
    def plain(self) -> bool:
        """Whether every pair is held once, and nothing is known of paths."""
        return all(s == 1 for s, _ in self.strengths) and not self.leaves

    def with_stored(self, more: "Tally", excess: float = 0.0) -> "Tally":
        """The tally with more pairs; those that were there already show by an excess of energy over both sums.

        >>> once = Tally(((1.0, 100.0),))
        >>> once.with_stored(once).strengths, once.with_stored(once, excess=200.0).strengths
        (((1.0, 200.0),), ((2.0, 100.0),))
        """
        leaves = _added(self.leaves, more.leaves) if more.leaves else self.leaves
        return Tally(_stored_again(self, more, excess) if excess else _together(self, more), leaves)

    def without(self, less: "Tally", strength: float | None = None) -> "Tally":
        """The tally when pairs are taken out that were held about so strongly; as strongly as they go, if not known.

        Strengths that were joined come apart again: of pairs that go as they came, nothing is left.

        >>> Tally(((1.0, 60.0), (3.0, 40.0))).without(Tally(((1.0, 40.0),)), strength=2.9).strengths
        ((1.0, 60.0), (2.0, 40.0))
        >>> more = Tally(((0.99, 1.0),))
        >>> Tally(((1.0, 3.0),)).with_stored(more).without(more).strengths
        ((1.0, 3.0),)
        """
        left = self
        for weight, number in less.strengths:
            if not left.strengths:
                break
            left = Tally(_tidy(_taken_out(left.strengths, weight, number, strength)), left.leaves)
        return left

    def come_again(self, squares: float) -> "Tally":
        """The same sum of strengths with this sum of squares: pairs of the commonest strength came twice, unseen.

        Two of them become one that is twice as strong, which is how they were counted and what they are.

        >>> Tally(((1.0, 10.0),)).come_again(16.0).strengths
        ((1.0, 4.0), (2.0, 3.0))
        """
        strength, number = max(self.strengths, key=lambda level: level[1])
        twice = min((squares - self.squares) / (2 * strength**2), number / 2)
        rest = ((s, n - 2 * twice if s == strength else n) for s, n in self.strengths)
        again = Tally(_tidy((*rest, (2 * strength, twice))), self.leaves)
        factor = squares / again.squares
        return again if factor <= 1 + ALIKE else again.scaled(factor)

    def scaled(self, factor: float) -> "Tally":
        """About the same sum of strengths with so many times the sum of their squares.

        More of these means that some pairs were stored several times, as few times as that takes. As it was seen, they
        were not: so it may be of some of them, whatever the sums say.

        >>> Tally(((1.0, 4.0),)).scaled(2.5).strengths, Tally(((1.0, 4.0),)).scaled(0.5).strengths
        (((1.0, 1.0), (3.0, 1.0)), ((0.5, 7.6), (1.0, 0.2)))
        """
        times = factor if factor <= 1 else max(2, math.ceil(factor - SLACK))
        once = max(AS_SEEN, 1 - (factor - 1) / (times - 1)) if factor > 1 else AS_SEEN
        levels = ((s * k, n * part / k) for s, n in self.strengths for k, part in ((1, once), (times, 1 - once)))
        return Tally(_tidy(levels), self.leaves)

    def as_strengths(self) -> Strengths:
        """How strongly a filler is held, and how probably so."""
        number = self.number
        if all(s == 1 for s, _ in self.strengths) or not number:
            return ONCE
        return Strengths(tuple(s for s, _ in self.strengths), tuple(n / number for _, n in self.strengths))

    def further(self) -> tuple[float, ...]:
        """Of the paths that hold one leaf or more, two or more, ...: the share that holds more than that, or a half.

        >>> Tally(leaves=(100.0, 50.0, 50.0)).further()
        (0.5, 1.0, 0.0)
        """
        ends = (*self.leaves[1:], 0.0) if len(self.leaves) < LEAVES else self.leaves[1:]
        return tuple(min(1.0, more / n) for n, more in zip(self.leaves, ends, strict=False)) or (0.5,)


def _together(one: Tally, other: Tally) -> Levels:
    """The strengths of both."""
    if len(one.strengths) == len(other.strengths) == 1 and one.strengths[0][0] == other.strengths[0][0]:  # most often
        return ((one.strengths[0][0], one.strengths[0][1] + other.strengths[0][1]),)
    return _tidy((*one.strengths, *other.strengths))


def _stored_again(held: Tally, more: Tally, excess: float) -> Levels:
    """The strengths when some pairs were held before: each of a strength s explains 2 s w of excess.

    Nearest to all of them is simplest.
    """
    if more.number == 1:
        return _one_again(held, more.sum, excess)
    readings = []
    for strength, number in held.strengths:
        share = excess / (2 * strength * more.sum)
        if 0 < share <= 1 + SLACK and share * more.number <= number * (1 + SLACK):
            readings.append((abs(1 - share), strength, 1.0 if abs(1 - share) <= SLACK else share))
    if not readings:  # pairs that came several times by themselves
        return _tidy((*held.strengths, *more.scaled(1 + excess / more.squares).strengths))
    _, old, share = min(readings)
    before = ((s, n - share * more.number if s == old else n) for s, n in held.strengths)
    new = ((s, n * (1 - share)) for s, n in more.strengths)
    again = ((s + old, n * share) for s, n in more.strengths)
    return _tidy((*before, *new, *again))


def _one_again(held: Tally, weight: float, excess: float) -> Levels:
    """The strengths when one pair was held before, so many times its weight.

    When it came the last times that may not have been seen: then it was counted as so many others.
    """
    old = weight * max(1, round(excess / (2 * weight * weight)))
    before, there = min(held.strengths, key=lambda level: abs(level[0] - old))
    gone = min(there, old / before)
    rest = ((s, n - gone if s == before else n) for s, n in held.strengths)
    return _tidy((*rest, (old + weight, 1.0)))


def _taken_out(levels: Levels, weight: float, number: float, strength: float | None) -> Levels:
    """The levels when so many pairs of a weight go: wholly where that may be, or their rest stays.

    So it may be in a level that has pairs of this strength, unless they are known to be held much more strongly.
    """
    wanted = weight if strength is None else strength
    whole = [level for level in levels if abs(level[0] - weight) <= _width(*level)] if wanted < MUCH * weight else []
    old, there = min(whole or levels, key=lambda level: abs(level[0] - (weight if whole else wanted)))
    others = tuple(level for level in levels if level[0] != old)
    if whole:
        return (*others, *_apart(old, there, weight, number))
    gone = min(number, there)
    return (*others, (old, there - gone), (old - weight, gone))


def _width(strength: float, number: float) -> float:
    """By how much a pair's strength may differ from that of its level, which several strengths were joined to.

    Joined so that both sums stay right, N strengths x give s and n with the sum of (x - s)^2 = s^2 (N - n).
    """
    joined = max(0.0, math.ceil(number - NOTHING) - number)
    return strength * max(REST, math.sqrt(joined))


def _apart(strength: float, number: float, weight: float, gone: float) -> Levels:
    """A level without so many pairs of a weight that were joined to it: both sums are what they were before.

    What cannot have been joined to it goes as the others of the level.
    """
    many = math.ceil(number - NOTHING) - gone
    if many <= NOTHING:
        return ()
    total, squares = strength * number - weight * gone, strength**2 * number - weight**2 * gone
    if total > 0 and squares > 0 and total**2 / squares <= many + NOTHING:
        return ((_short(squares / total), _short(total**2 / squares)),)
    return ((strength, max(0.0, number - gone)),)


def _short(number: float) -> float:
    """The number of few digits that this is but for the last ones, in which sums that were undone differ."""
    short = float(f"{number:.6g}")
    return short if math.isclose(short, number, rel_tol=1e-9) else number


def _added(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    size = max(len(one), len(other))
    wide = ((*each, *(0.0,) * (size - len(each))) for each in (one, other))
    return tuple(a + b for a, b in zip(*wide, strict=True))


def _tidy(levels: Iterable[tuple[float, float]]) -> Levels:
    """Levels in order, those that are alike joined, and no more than LEVELS; strengths of next to nothing left out."""
    numbers = dict[float, float]()
    for strength, number in levels:
        numbers[strength] = numbers.get(strength, 0.0) + number
    highest = max((s for s, n in numbers.items() if n > 0), default=0.0)
    left = sorted((s, n) for s, n in numbers.items() if s > NO_STRENGTH * highest and n > NOTHING)
    while len(left) > 1:
        gaps = [math.log(above[0] / below[0]) for below, above in pairwise(left)]
        nearest = min(range(len(gaps)), key=gaps.__getitem__)
        if len(left) <= LEVELS and gaps[nearest] > ALIKE:
            break
        pair = Tally(tuple(left[nearest : nearest + 2]))
        left[nearest : nearest + 2] = [(pair.squares / pair.sum, pair.sum**2 / pair.squares)]
    return tuple(left)


NOTHING_STORED = Tally()
