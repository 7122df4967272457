"""Decoding and verification of all pairs of a memory, with a report of how many answers are certain or correct."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.inference.answer import Answer
from carving.memory.counts import PathCounts
from carving.memory.pairs import OnProgress
from carving.memory.query import decode, recall_many, recall_sets
from carving.memory.reader import Reader
from carving.memory.state import known_paths
from carving.symbols.codec import Path, Value, canonical, canonical_path
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


def counted(paths: Iterable[Path]) -> PathCounts:
    """Paths that were given, each as often as it is to hold a value."""
    named = Paths.of(paths)
    counts: dict[bytes, float] = {}
    for name in named.names:
        counts[name] = counts.get(name, 0) + 1
    return PathCounts(counts)


def decode_pairs(
    reader: Reader,
    paths: Iterable[Path] | None = None,
    joint: bool | None = None,
    on_progress: OnProgress | None = None,
) -> DecodedPairs:
    """What a state holds under its own paths, or those given; asked together or not, as `joint` says or is better.

    Together, paths take a core each: where that is too much, or does not come to rest, they are asked one by one.
    """
    known = known_paths(reader.state) if paths is None else counted(paths)
    if not known.pairs or not len(reader.vocabulary):
        return DecodedPairs([], known.pairs, 0)
    if joint is None:
        return _surest(reader, known, on_progress)
    return (_together if joint else _alone)(reader, known, on_progress)


def _surest(reader: Reader, known: PathCounts, on_progress: OnProgress | None) -> DecodedPairs:
    """All asked together, if that is possible and comes to rest, or else each alone, if that is surer."""
    if not reader.scheme.facts.linear or reader.calibration is not None or _size(reader, known.pairs) > LARGEST:
        return _alone(reader, known, on_progress)
    found = _together(reader, known, on_progress)
    return found if found.converged else max(found, _alone(reader, known, None), key=lambda each: each.confident)


def _size(reader: Reader, rows: int) -> int:
    facts = reader.scheme.facts
    return rows * math.prod(facts.core_shape) * facts.memory_dtype.itemsize


def _together(reader: Reader, known: PathCounts, on_progress: OnProgress | None) -> DecodedPairs:
    answers = decode(reader, known.each(), prior_empty=ABSENCE, on_progress=on_progress)
    each = iter(answers)
    found = (
        (path, answer)
        for path, count in zip(known, known.counts(), strict=True)
        for answer in _as_often([answer for answer in islice(each, count) if answer], count)
    )
    return _summed(found, known.pairs, answers.converged, answers.rounds)


def _alone(reader: Reader, known: PathCounts, on_progress: OnProgress | None) -> DecodedPairs:
    paths, counts = list(known), known.counts()
    single = [path for path, count in zip(paths, counts, strict=True) if count == 1]
    several = [path for path, count in zip(paths, counts, strict=True) if count > 1]
    ones = iter(recall_many(reader, single, prior_empty=ABSENCE, on_progress=on_progress) if single else ())
    sets = iter(_sets(reader, several, max(counts), on_progress) if several else ())
    found = (
        (path, answer)
        for path, count in zip(paths, counts, strict=True)
        for answer in ([next(ones)] if count == 1 else _as_often(next(sets), count))
    )
    return _summed(found, known.pairs)


def _sets(reader: Reader, paths: list[Path], most: int, on_progress: OnProgress | None) -> list[list[Answer]]:
    """What each path holds, or, where that cannot be told, the best so many."""
    if reader.scheme.facts.linear:
        return recall_sets(reader, paths, on_progress=on_progress)
    return recall_many(reader, paths, top=most, on_progress=on_progress)


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


WHOLE = 0.05  # by which a strength may miss a whole number
UNSURE = 0.01  # the share of answers that may be unsure


def check_whole(reader: Reader, found: DecodedPairs, force: bool = False) -> None:
    """Refuse to go on with less than a state holds, or with what it is not sure of."""
    problem = _problem(reader, found)
    if problem and not force:
        raise BadValue(f"{problem} Pass force=True to continue with the pairs that were decoded.")


def _problem(reader: Reader, found: DecodedPairs) -> str | None:
    if not reader.scheme.facts.linear:
        return f"{reader.scheme} has no probabilities, so it is unknown whether its pairs are decoded correctly."
    if abs(reader.stored - found.requested) > 0.5:
        return (
            f"The memory holds pairs of total weight {reader.stored:,.6g}, but the paths account for only "
            f"{found.requested:,}. Pairs under other paths, and weights other than 1, would be lost. Pass all paths."
        )
    if any(abs(strength - round(strength)) > WHOLE for strength, _ in reader.histogram.strengths):
        return "Some pairs have weights that are not whole numbers; they would be stored with weight 1."
    unsure = found.requested - found.confident
    if unsure > UNSURE * found.requested:
        return (
            f"Only {found.confident:,} of {found.requested:,} pairs could be decoded with a probability of 0.9 or "
            "more: the memory is over capacity, or some paths or weights are not as assumed."
        )
    if found.converged is False:
        return f"Joint decoding of {found.requested:,} pairs did not converge: the memory is over capacity."
    return None


class Wrong(NamedTuple):
    """A pair that was answered wrongly: its path and value, and the answer, None if no further value was found."""

    path: Path
    value: Value
    answer: Answer | None


@dataclass(frozen=True)
class Verification:
    """The result of `Memory.verify`: true if all pairs were answered correctly.

    Attributes:
        total: Number of pairs.
        correct: Pairs that were answered correctly.
        wrong: The other pairs, with the answers in their place.
        converged: Whether joint decoding converged; None for single queries.
        rounds: Rounds of joint decoding; None for single queries.
    """

    total: int
    correct: int
    wrong: list[Wrong] = field(default_factory=list, repr=False)
    converged: bool | None = None
    rounds: int | None = None

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.correct / max(1, self.total)

    def __bool__(self) -> bool:
        return self.correct == self.total


def verify(
    reader: Reader,
    pairs: Iterable[Pair],
    joint: bool = False,
    on_progress: OnProgress | None = None,
) -> Verification:
    """Query every pair, path by path (as a set if a path holds several values) or all jointly.

    The pairs may be a part of what the memory holds: if a path is answered with another value than the pair's, it is
    queried for all its values, and the pair is correct if its value is among them. All ranks of a group pass the same
    pairs.
    """
    wanted: dict[bytes, tuple[Path, list[Value]]] = {}
    for path, value in pairs:
        wanted.setdefault(canonical_path(path), (path, []))[1].append(value)
    questions = list(wanted.values())
    asked = sum(len(values) for _, values in questions)
    if not asked:
        return Verification(0, 0)
    if not joint:
        wrong = _not_held(reader, _one_by_one(reader, questions, on_progress))
        return Verification(asked, asked - len(wrong), wrong)
    answers = decode(
        reader, [path for path, values in questions for _ in values], prior_empty=0.0, on_progress=on_progress
    )
    each = iter(answers)
    wrong = [miss for path, values in questions for miss in _wrong(path, values, islice(each, len(values)))]
    wrong = _not_held(reader, wrong)
    return Verification(asked, asked - len(wrong), wrong, answers.converged, answers.rounds)


def _one_by_one(
    reader: Reader, questions: list[tuple[Path, list[Value]]], on_progress: OnProgress | None
) -> list[Wrong]:
    times = [len(values) for _, values in questions]
    asked = [path for path, _ in questions]
    answers = _answers(reader, asked, times, prior_empty=0.0, on_progress=on_progress)
    return [
        miss
        for (path, values), given in zip(questions, answers, strict=True)
        for miss in _wrong(path, values, given, as_set=len(values) > 1)
    ]


def _not_held(reader: Reader, wrong: list[Wrong]) -> list[Wrong]:
    """Those of the misses that their paths are not found to hold beside what was answered."""
    if not reader.scheme.facts.linear:
        return wrong
    # One that was answered with nothing at all would not be found in a set either.
    again = {canonical_path(miss.path): miss.path for miss in wrong if miss.answer}
    if not again:
        return wrong
    sets = recall_sets(reader, list(again.values()))
    held = {name: {canonical(answer.value) for answer in values} for name, values in zip(again, sets, strict=True)}
    return [miss for miss in wrong if canonical(miss.value) not in held.get(canonical_path(miss.path), ())]


def _wrong(path: Path, values: list[Value], answers: Iterable[Answer], as_set: bool = False) -> list[Wrong]:
    """The values that the answers lack; a set says that a value is there, not how often."""
    missing: dict[bytes, list[Value]] = {}
    for value in values:
        missing.setdefault(canonical(value), []).append(value)
    others = []
    for answer in answers:
        wanted = missing.get(canonical(answer.value), []) if answer else []
        if not wanted:
            others.append(answer)
        del wanted[0 if as_set else -1 :]
    left = list(chain.from_iterable(missing.values()))
    return [Wrong(path, value, other) for value, other in zip_longest(left, others[: len(left)])]


def _answers(
    reader: Reader,
    paths: list[Path],
    times: list[int],
    prior_empty: float,
    on_progress: OnProgress | None,
) -> Iterator[Sequence[Answer]]:
    """The answers to each path: one, or the set of those that it holds if it is wanted several times."""
    single = [path for path, count in zip(paths, times, strict=True) if count == 1]
    several = [path for path, count in zip(paths, times, strict=True) if count > 1]
    answers = iter(recall_many(reader, single, prior_empty=prior_empty, on_progress=on_progress) if single else ())
    sets = iter(recall_sets(reader, several, on_progress=on_progress) if several else ())
    return ([next(answers)] if count == 1 else next(sets) for count in times)
