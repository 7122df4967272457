"""Verification: query a memory for pairs, and report which it answers correctly."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from carving.distributed.ranks import Group
from carving.formats.documents import Pair
from carving.inference.answer import Answer
from carving.memory.changes import OnProgress
from carving.memory.questions import Questions
from carving.symbols.codec import Path, Value, canonical, canonical_path


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
    memory: Questions,
    pairs: Iterable[Pair],
    joint: bool = False,
    on_progress: OnProgress | None = None,
    group: Group = None,
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
        wrong = _not_held(memory, _one_by_one(memory, questions, on_progress, group), group)
        return Verification(asked, asked - len(wrong), wrong)
    answers = memory.decode(
        [path for path, values in questions for _ in values], prior_empty=0.0, group=group, on_progress=on_progress
    )
    each = iter(answers)
    wrong = [miss for path, values in questions for miss in _wrong(path, values, islice(each, len(values)))]
    wrong = _not_held(memory, wrong, group)
    return Verification(asked, asked - len(wrong), wrong, answers.converged, answers.rounds)


def _one_by_one(
    memory: Questions, questions: list[tuple[Path, list[Value]]], on_progress: OnProgress | None, group: Group
) -> list[Wrong]:
    times = [len(values) for _, values in questions]
    asked = [path for path, _ in questions]
    answers = _answers(memory, asked, times, prior_empty=0.0, on_progress=on_progress, group=group)
    return [
        miss
        for (path, values), given in zip(questions, answers, strict=True)
        for miss in _wrong(path, values, given, as_set=len(values) > 1)
    ]


def _not_held(memory: Questions, wrong: list[Wrong], group: Group) -> list[Wrong]:
    """Those of the misses that their paths are not found to hold beside what was answered."""
    if not memory.has_probabilities:
        return wrong
    # One that was answered with nothing at all would not be found in a set either.
    again = {canonical_path(miss.path): miss.path for miss in wrong if miss.answer}
    if not again:
        return wrong
    sets = memory.recall_sets(list(again.values()), group=group)
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


def held_pairs(memory: Questions, paths: Iterable[Path], on_progress: OnProgress | None = None) -> list[Pair]:
    """Return the pairs that a memory holds under paths; one that is listed several times is queried as a set."""
    paths = list(paths)
    names = list(map(canonical_path, paths))
    times, first = Counter(names), dict(zip(names, paths, strict=True))
    asked = [first[name] for name in times]
    answers = _answers(memory, asked, list(times.values()), prior_empty=0.5, on_progress=on_progress)
    return [(path, answer.value) for path, given in zip(asked, answers, strict=True) for answer in given if answer]


def _answers(
    memory: Questions,
    paths: list[Path],
    times: list[int],
    prior_empty: float,
    on_progress: OnProgress | None,
    group: Group = None,
) -> Iterator[Sequence[Answer]]:
    """The answers to each path: one, or the set of those that it holds if it is wanted several times."""
    single = [path for path, count in zip(paths, times, strict=True) if count == 1]
    several = [path for path, count in zip(paths, times, strict=True) if count > 1]
    answers = iter(
        memory.recall_many(single, prior_empty=prior_empty, group=group, on_progress=on_progress) if single else ()
    )
    sets = iter(memory.recall_sets(several, group=group, on_progress=on_progress) if several else ())
    return ([next(answers)] if count == 1 else next(sets) for count in times)
