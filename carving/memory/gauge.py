"""How full a memory is, as a curve: the share of values that it is predicted to name, by the pairs that it holds."""

import math
from functools import lru_cache
from typing import NamedTuple

from carving.errors import UserError
from carving.memory.fullness import foreseen, predicted_accuracy, sizes_of
from carving.memory.questions import Questions
from carving.memory.state import State
from carving.planner.plan import pairs_within
from carving.schemes.base import Scheme
from carving.storage.memoryfile import identity

WELL = 0.99  # of the values are named by a memory that is well filled
# Where the curve is looked at, in units of the pairs that are named so well: most of what happens is just beyond.
PLACES = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
BEYOND = 1.2  # times the pairs that are held are still to be seen
NEAR = 1.1  # so many times the values, or fewer, change nothing that could be seen


class Gauge(NamedTuple):
    """A curve, and where a memory stands on it."""

    pairs: tuple[int, ...]
    named: tuple[float, ...]  # the share of the values that is predicted to be named with so many pairs
    held: int  # pairs, each stored once, that would fill the memory as it is
    here: float  # the share that is named with them
    fits: int  # pairs that are held well (`WELL`), in all

    @property
    def more(self) -> int:
        """How many more pairs are held well."""
        return max(0, self.fits - self.held)

    @property
    def over(self) -> int:
        """How many pairs too many it holds."""
        return max(0, self.held - self.fits)


def gauge(memory: Questions) -> Gauge | None:
    """The gauge of a memory; None where nothing is predicted: of most schemes, or before two values are known.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=64, p=2))
    >>> memory.store({f"key {i}": f"value {i}" for i in range(100)})
    100
    >>> seen = gauge(memory)
    >>> seen.held, seen.here > 0.99, seen.held + seen.more == seen.fits, seen.named[-1] < 0.9
    (100, True, True, True)
    """
    held = memory._state
    if held.solved is not None:
        return _of_solved(held)
    values = _rounded(len(held.vocabulary))
    fits = _well(held.scheme, values, _joint(held), _bits(held))
    if fits is None:
        return None
    curve = [(pairs, _named(held.scheme, pairs, values, _joint(held), _bits(held))) for pairs in _places(fits, held)]
    seen = [(pairs, named) for pairs, named in curve if named is not None]
    here = foreseen(held) if held.load else 1.0  # of no pairs, none is named wrongly
    if here is None or not seen:
        return None
    return Gauge(tuple(pairs for pairs, _ in seen), tuple(named for _, named in seen), held.load, here, fits)


def _places(fits: int, held: State) -> list[int]:
    """The numbers of pairs at which the curve is looked at."""
    places = {max(1, round(place * max(fits, 1))) for place in PLACES}
    while max(places) < BEYOND * held.load:  # far too full
        places.add(round(1.5 * max(places)))
    return sorted(places)


def _of_solved(held: State) -> Gauge:
    """The gauge of what was consolidated: pairs that are added are noise to it."""
    solved = held.solved
    assert solved is not None
    more = [round(level.added - solved.added) for level in solved.levels if level.added >= solved.added]
    added = sorted({0, *more})
    named = [solved.after(each).accuracy for each in added]
    fits = max((each for each, share in zip(added, named, strict=True) if share >= WELL), default=0)
    held_now = held.pairs
    return Gauge(tuple(held_now + each for each in added), tuple(named), held_now, named[0], held_now + fits)


def _joint(held: State) -> bool:
    return held.target is not None and held.target.joint


def _bits(held: State) -> int | None:
    return None if held.cells is None else held.cells.bits


def _rounded(values: int) -> int:
    return values if values < 2 else max(2, round(NEAR ** round(math.log(values, NEAR))))


@lru_cache(maxsize=256)
def _named(scheme: Scheme, pairs: int, values: int, joint: bool, bits: int | None) -> float | None:
    return predicted_accuracy(scheme, pairs, values, joint, bits=bits)


@lru_cache(maxsize=64)
def _well(scheme: Scheme, values: int, joint: bool, bits: int | None) -> int | None:
    """How many pairs of so many values are named well."""
    sizes = sizes_of(scheme, joint)
    if sizes is None or not values:
        return None
    try:
        return pairs_within(max(2, values), WELL, scheme=identity(scheme)["name"], bits=bits, **sizes)
    except UserError:
        return None
