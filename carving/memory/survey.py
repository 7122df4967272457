"""How large a memory its pairs need: a survey of them, and how surely their values must be named."""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.inference.sample import Histogram
from carving.planner.families import NAMING_SHARE
from carving.symbols.codec import canonical, canonical_path
from carving.validate import check_number

Times = Counter[tuple[bytes, bytes]]  # of pairs, by the canonical bytes of their paths and values


@dataclass(frozen=True)
class Survey:
    """What there is to store: all pairs, those that differ, the values, and how many paths hold one value, two, ...

    Pairs that come several times are louder than the others: together all are as much noise as `load` that come once.
    """

    pairs: int
    distinct: int
    values: int
    shared: dict[int, int]
    load: int

    def grown(self, headroom: float | Fraction) -> "Survey":
        """The survey of so many times these pairs, or as much noise, each once: what a memory is planned for.

        Where a path holds nearly every value, others are expected: else nothing would have to be told from anything.
        """
        louder = Fraction(self.load, self.distinct)
        shared = {size: math.ceil(paths * headroom * louder) for size, paths in self.shared.items()}
        distinct = sum(size * paths for size, paths in shared.items())
        values = max(2 * max(shared), math.ceil(self.values * headroom))
        return replace(self, pairs=distinct, distinct=distinct, values=values, shared=shared, load=distinct)


def survey(
    pairs: Iterable[Pair], on_progress: Callable[[int], None] | None = None, ranks: Ranks | None = None
) -> Survey:
    """The pairs, read once from end to end; of several ranks, the pairs of all.

    >>> survey([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "pet")])
    Survey(pairs=3, distinct=3, values=2, shared={1: 1, 2: 1}, load=3)
    """
    ranks = ranks or Ranks.alone()
    times = _own(ranks.agreed(lambda: _counted(pairs, on_progress)), ranks)
    values = {value for _, value in times}
    parts = ranks.swap([{value for value in values if _owner(value, ranks) == rank} for rank in range(ranks.size)])
    sizes = Counter(Counter(path for path, _ in times).values())
    found = ranks.gather((Counter(times.values()), sizes, len(set().union(*parts))))
    repeats = sum((Counter(each[0]) for each in found), Counter[int]())
    shared = sum((Counter(each[1]) for each in found), Counter[int]())
    if not repeats:
        raise BadValue("There must be at least one pair to plan a memory for, got none.")
    total = sum(number * many for number, many in repeats.items())
    load = math.ceil(Histogram(tuple(sorted((float(n), float(many)) for n, many in repeats.items()))).load)
    values_of_all = sum(each[2] for each in found)
    return Survey(total, repeats.total(), values_of_all, dict(sorted(shared.items())), load)


def _counted(pairs: Iterable[Pair], on_progress: Callable[[int], None] | None) -> Times:
    """How often each pair comes."""
    times = Times()
    for path, value in pairs:
        times[canonical_path(path), canonical(value)] += 1
        if on_progress:
            on_progress(1)
    return times


def _own(times: Times, ranks: Ranks) -> Times:
    """The same of all ranks, for those paths that are this rank's to count."""
    if ranks.size == 1:
        return times
    parts = [Times() for _ in range(ranks.size)]
    for (path, value), number in times.items():
        parts[_owner(path, ranks)][path, value] = number
    return sum(map(Counter, ranks.swap(parts)), Times())


def _owner(name: bytes, ranks: Ranks) -> int:
    return zlib.crc32(name) % ranks.size


def naming_accuracy(accuracy: float) -> float:
    """How surely values must be named for this share of right answers where "nothing is there" is an answer too."""
    if not 0 < check_number("accuracy", accuracy) < 1:
        raise BadValue(f"accuracy must be between 0 and 1, got {accuracy}. The default is 0.99.")
    return 1 - (1 - accuracy) * NAMING_SHARE


def check_headroom(headroom: float) -> float:
    """The growth to plan for, at least 1."""
    if not 1 <= check_number("headroom", headroom) < math.inf:
        raise BadValue(f"headroom={headroom} must be a number of at least 1. 2 plans for twice as many pairs.")
    return float(headroom)
