"""Decoding all pairs under known paths, jointly if possible, with a report of how many answers are certain."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from carving.formats.documents import Pair
from carving.inference.answer import Answer
from carving.memory.changes import OnProgress
from carving.memory.known import KnownPaths
from carving.memory.questions import Questions
from carving.memory.state import State, known_paths
from carving.symbols.codec import Path
from carving.symbols.paths import Paths

SURE = 0.9  # the probability from which an answer counts as sure
ABSENCE = 0.01  # how probable it is beforehand that a path that is known to hold something does not
COPY = 0.3  # of another pair must be left for one more copy to be told, where several values could have it
LARGEST = 2**27  # bytes of what all paths show, a few times as much while they are asked together


@dataclass(frozen=True)
class DecodedPairs:
    """The pairs that were decoded from a memory, and how many of them are certain (not whether they are correct).

    Attributes:
        pairs: The decoded (path, value) pairs.
        requested: Number of values that were queried.
        confident: Answers with a probability of at least 0.9.
        converged: Whether joint decoding converged; None if the paths were queried one by one.
        rounds: Rounds of joint decoding.
    """

    pairs: list[Pair] = field(repr=False)
    requested: int
    confident: int
    converged: bool | None = None
    rounds: int | None = None

    @property
    def missing(self) -> int:
        """The number of queried values that were not found."""
        return self.requested - len(self.pairs)

    @property
    def confident_share(self) -> float:
        """The share of answers with a probability of at least 0.9."""
        return self.confident / max(1, self.requested)


class Moment(Questions):
    """One state, to be asked whatever becomes of its memory."""

    def __init__(self, state: State) -> None:
        self._state = state


def counted(paths: Iterable[Path]) -> KnownPaths:
    """Paths that were given, each as often as it is to hold a value."""
    named = Paths.of(paths)
    counts: dict[bytes, float] = {}
    for name in named.names:
        counts[name] = counts.get(name, 0) + 1
    return KnownPaths(counts)


def decode_pairs(
    held: State, paths: Iterable[Path] | None = None, joint: bool | None = None, on_progress: OnProgress | None = None
) -> DecodedPairs:
    """What a state holds under its own paths, or those given; asked together or not, as `joint` says or is better.

    Together, paths take a core each: where that is too much, or does not come to rest, they are asked one by one.
    """
    known = known_paths(held) if paths is None else counted(paths)
    if not known.pairs or not len(held.vocabulary):
        return DecodedPairs([], known.pairs, 0)
    if joint is None:
        return _surest(held, known, on_progress)
    return (_together if joint else _alone)(held, known, on_progress)


def _surest(held: State, known: KnownPaths, on_progress: OnProgress | None) -> DecodedPairs:
    """All asked together, if that is possible and comes to rest, or else each alone, if that is surer."""
    if not held.scheme.facts.linear or held.solved is not None or _size(held, known.pairs) > LARGEST:
        return _alone(held, known, on_progress)
    found = _together(held, known, on_progress)
    return found if found.converged else max(found, _alone(held, known, None), key=lambda each: each.confident)


def _size(held: State, rows: int) -> int:
    facts = held.scheme.facts
    return rows * math.prod(facts.core_shape) * facts.memory_dtype.itemsize


def _together(held: State, known: KnownPaths, on_progress: OnProgress | None) -> DecodedPairs:
    answers = Moment(held).decode(known.each(), prior_empty=ABSENCE, on_progress=on_progress)
    each = iter(answers)
    found = (
        (path, answer)
        for path, count in zip(known, known.counts(), strict=True)
        for answer in _as_often([answer for answer in islice(each, count) if answer], count)
    )
    return _summed(found, known.pairs, answers.converged, answers.rounds)


def _alone(held: State, known: KnownPaths, on_progress: OnProgress | None) -> DecodedPairs:
    memory, paths, counts = Moment(held), list(known), known.counts()
    single = [path for path, count in zip(paths, counts, strict=True) if count == 1]
    several = [path for path, count in zip(paths, counts, strict=True) if count > 1]
    ones = iter(memory.recall_many(single, prior_empty=ABSENCE, on_progress=on_progress) if single else ())
    sets = iter(_sets(memory, several, max(counts), on_progress) if several else ())
    found = (
        (path, answer)
        for path, count in zip(paths, counts, strict=True)
        for answer in ([next(ones)] if count == 1 else _as_often(next(sets), count))
    )
    return _summed(found, known.pairs)


def _sets(memory: Questions, paths: list[Path], most: int, on_progress: OnProgress | None) -> list[list[Answer]]:
    """What each path holds, or, where that cannot be told, the best so many."""
    if memory.has_probabilities:
        return memory.recall_sets(paths, on_progress=on_progress)
    return memory.recall_many(paths, top=most, on_progress=on_progress)


def _as_often(answers: list[Answer], count: int) -> list[Answer]:
    """So many answers of a path: a value that was stored twice is named once, twice as strongly."""
    if len(answers) >= count or not answers:
        return answers[:count]
    times = [1] * len(answers)
    for _ in range(count - len(answers)):  # the others are of those that are held most strongly beyond what was named
        left = [answer.score - named for answer, named in zip(answers, times, strict=True)]
        most = max(range(len(left)), key=left.__getitem__)
        if len(answers) > 1 and left[most] < COPY:
            break
        times[most] += 1
    return [answer for answer, named in zip(answers, times, strict=True) for _ in range(named)]


def _summed(
    found: Iterable[tuple[Path, Answer]], asked: int, converged: bool | None = None, rounds: int | None = None
) -> DecodedPairs:
    answers = [(path, answer) for path, answer in found if answer]
    sure = sum(answer.probability >= SURE for _, answer in answers)
    return DecodedPairs([(path, answer.value) for path, answer in answers], asked, sure, converged, rounds)
