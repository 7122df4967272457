"""Decoding and verification of all pairs of a memory, with a report of how many answers are certain or correct."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
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

SURE = 0.9  # the probability from which an answer counts as confident
PRIOR_EMPTY = 0.01  # of a path that is known to hold something
MIN_COPY = 0.3  # of another pair: the strength left for one more copy, where several values could have it
MAX_CORE_BYTES = 2**27  # of all cores, a few times as much while paths are decoded jointly


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
    """Return the counts of paths that are listed once for each value that they hold."""
    return PathCounts(Counter(Paths.of(paths).names))


def decode_pairs(
    reader: Reader,
    paths: Iterable[Path] | None = None,
    joint: bool | None = None,
    on_progress: OnProgress | None = None,
) -> DecodedPairs:
    """Decode the pairs under the kept paths, or those given, jointly or one by one.

    `joint=None` decodes jointly where that is possible, and one by one if that does not converge and gives fewer
    confident answers. Jointly, every path takes a core of working memory.
    """
    known = known_paths(reader.state) if paths is None else counted(paths)
    if not known.pairs or not len(reader.vocabulary):
        return DecodedPairs(pairs=[], requested=known.pairs, confident=0)
    if joint is not None:
        return (_decode_jointly if joint else _decode_singly)(reader, known, on_progress)
    facts = reader.scheme.facts
    size = known.pairs * math.prod(facts.core_shape) * facts.memory_dtype.itemsize
    if not facts.linear or reader.calibration is not None or size > MAX_CORE_BYTES:
        return _decode_singly(reader, known, on_progress)
    found = _decode_jointly(reader, known, on_progress)
    return found if found.converged else max(found, _decode_singly(reader, known), key=lambda each: each.confident)


def _decode_jointly(reader: Reader, known: PathCounts, on_progress: OnProgress | None = None) -> DecodedPairs:
    answers = decode(reader, known.each(), prior_empty=PRIOR_EMPTY, on_progress=on_progress)
    each = iter(answers)
    given = ([answer for answer in islice(each, count) if answer] for count in known.counts())
    return _decoded(known, given, answers.converged, answers.rounds)


def _decode_singly(reader: Reader, known: PathCounts, on_progress: OnProgress | None = None) -> DecodedPairs:
    return _decoded(known, recall_each(reader, list(known), known.counts(), PRIOR_EMPTY, on_progress))


def _decoded(
    known: PathCounts, given: Iterable[list[Answer]], converged: bool | None = None, rounds: int | None = None
) -> DecodedPairs:
    """Return the pairs of the answers to each path."""
    each = zip(known, known.counts(), given, strict=True)
    found = [(path, answer) for path, count, own in each for answer in _repeated(own, count) if answer]
    confident = sum(answer.probability >= SURE for _, answer in found)
    pairs = [(path, answer.value) for path, answer in found]
    return DecodedPairs(pairs=pairs, requested=known.pairs, confident=confident, converged=converged, rounds=rounds)


def _repeated(answers: list[Answer], count: int) -> list[Answer]:
    """Return `count` answers of a path: a value that was stored twice is answered once, twice as strongly."""
    if len(answers) >= count or not answers:
        return answers[:count]
    times = [1] * len(answers)
    for _ in range(count - len(answers)):  # the others are of the values that are stored most strongly beyond these
        left = [answer.score - named for answer, named in zip(answers, times, strict=True)]
        most = max(range(len(left)), key=left.__getitem__)
        if len(answers) > 1 and left[most] < MIN_COPY:
            break
        times[most] += 1
    return [answer for answer, named in zip(answers, times, strict=True) for _ in range(named)]


def recall_each(
    reader: Reader, paths: list[Path], counts: list[int], prior_empty: float, on_progress: OnProgress | None = None
) -> Iterator[list[Answer]]:
    """Yield the answers to each path: one, or the set of its values where `counts` says that it has several."""
    single = [path for path, count in zip(paths, counts, strict=True) if count == 1]
    several = [path for path, count in zip(paths, counts, strict=True) if count > 1]
    ones = iter(recall_many(reader, single, prior_empty=prior_empty, on_progress=on_progress) if single else ())
    sets: Iterator[list[Answer]] = iter(())
    if several and reader.scheme.facts.linear:
        sets = iter(recall_sets(reader, several, on_progress=on_progress))
    elif several:  # without probabilities, the best of each
        sets = iter(recall_many(reader, several, top=max(counts), on_progress=on_progress))
    return ([next(ones)] if count == 1 else next(sets) for count in counts)


WHOLE = 0.05  # by which a strength may miss a whole number
UNSURE = 0.01  # the share of answers that may be unsure


def check_whole(reader: Reader, found: DecodedPairs, force: bool = False) -> None:
    """Refuse decoded pairs that are incomplete or uncertain, without `force`."""
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
        return Verification(total=0, correct=0)
    paths, counts = [path for path, _ in questions], [len(values) for _, values in questions]
    converged: bool | None = None
    rounds: int | None = None
    if joint:
        repeated = [path for path, values in questions for _ in values]
        answers = decode(reader, repeated, prior_empty=0.0, on_progress=on_progress)
        each, converged, rounds = iter(answers), answers.converged, answers.rounds
        given: Iterable[Iterable[Answer]] = (islice(each, count) for count in counts)
    else:
        given = recall_each(reader, paths, counts, 0.0, on_progress)
    wrong = _not_held(
        reader,
        [
            miss
            for (path, values), own in zip(questions, given, strict=True)
            for miss in _wrong(path, values, own, as_set=not joint and len(values) > 1)
        ],
    )
    return Verification(total=asked, correct=asked - len(wrong), wrong=wrong, converged=converged, rounds=rounds)


def _not_held(reader: Reader, wrong: list[Wrong]) -> list[Wrong]:
    """Return the wrong pairs whose value is not in the set of all values of the path either."""
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
    """Return the values that the answers lack; a set tells that a value is there, not how often."""
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
