"""How large a memory its pairs need: a survey of them, and how surely their leaves must be named."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from carving.answers.tally import Tally
from carving.checks import check_number
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.prediction.telling import NAMING
from carving.symbols import canonical, canonical_path


@dataclass(frozen=True)
class Survey:
    """What there is to store: all pairs, those that differ, the leaves, and how many paths hold one leaf, two, ...

    Pairs that come several times are louder than the others: together all are as much noise as `load` that come once.
    """

    pairs: int
    distinct: int
    leaves: int
    shared: dict[int, int]
    load: int

    def grown(self, room: float | Fraction) -> "Survey":
        """The survey of so many times these pairs, or as much noise, each once: what a memory is planned for.

        Where a path holds nearly every leaf, others are expected: else nothing would have to be told from anything.
        """
        louder = Fraction(self.load, self.distinct)
        shared = {size: math.ceil(paths * room * louder) for size, paths in self.shared.items()}
        distinct = sum(size * paths for size, paths in shared.items())
        leaves = max(2 * max(shared), math.ceil(self.leaves * room))
        return replace(self, pairs=distinct, distinct=distinct, leaves=leaves, shared=shared, load=distinct)


def survey(pairs: Iterable[Pair], on_progress: Callable[[int], None] | None = None) -> Survey:
    """The pairs, read once from end to end.

    >>> survey([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "pet")])
    Survey(pairs=3, distinct=3, leaves=2, shared={1: 1, 2: 1}, load=3)
    """
    times = Counter[tuple[bytes, bytes]]()
    for path, leaf in pairs:
        times[canonical_path(path), canonical(leaf)] += 1
        if on_progress:
            on_progress(1)
    if not times:
        raise BadValue("there must be pairs to plan a memory for, got none; give at least one")
    sizes = Counter(path for path, _ in times)
    leaves = {leaf for _, leaf in times}
    load = math.ceil(Tally(tuple(sorted((float(n), float(many)) for n, many in Counter(times.values()).items()))).load)
    return Survey(times.total(), len(times), len(leaves), dict(sorted(Counter(sizes.values()).items())), load)


def naming_accuracy(accuracy: float) -> float:
    """How surely leaves must be named for this share of right answers where "nothing is there" is an answer too."""
    if not 0 < check_number("accuracy", accuracy) < 1:
        raise BadValue(f"accuracy must lie between 0 and 1, got {accuracy}; 0.99 is usual")
    return 1 - (1 - accuracy) * NAMING


def check_room(room: float) -> float:
    """The growth to plan for, at least 1."""
    if not 1 <= check_number("room", room) < math.inf:
        raise BadValue(f"room must be a number of at least 1, got {room}; 2 plans for twice these pairs")
    return float(room)
