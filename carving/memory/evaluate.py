"""Decoding and verification of all pairs of a memory, and the accuracy that is measured or predicted."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

from carving.distributed.ranks import Group
from carving.errors import BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.inference.answer import Answer
from carving.memory.capacity import falls_short, foreseen
from carving.memory.counts import KnownPaths
from carving.memory.pairs import OnProgress, batches
from carving.memory.query import Found, Questions, check_paths, check_roles, where
from carving.memory.state import State, known_paths
from carving.symbols.codec import Label, Path, Role, Value, canonical, canonical_path
from carving.symbols.paths import Paths, as_path, pack
from carving.validate import check_integer

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


WHOLE = 0.05  # by which a strength may miss a whole number
UNSURE = 0.01  # the share of answers that may be unsure


def check_whole(held: State, found: DecodedPairs, force: bool = False) -> None:
    """Refuse to go on with less than a state holds, or with what it is not sure of."""
    problem = _problem(held, found)
    if problem and not force:
        raise BadValue(f"{problem} Pass force=True to continue with the pairs that were decoded.")


def _problem(held: State, found: DecodedPairs) -> str | None:
    if not held.scheme.facts.linear:
        return f"{held.scheme} has no probabilities, so it is unknown whether its pairs are decoded correctly."
    if abs(held.stored - found.requested) > 0.5:
        return (
            f"The memory holds pairs of total weight {held.stored:,.6g}, but the paths account for only "
            f"{found.requested:,}. Pairs under other paths, and weights other than 1, would be lost. Pass all paths."
        )
    if any(abs(strength - round(strength)) > WHOLE for strength, _ in held.histogram.strengths):
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


class Inventory(Questions):
    """The mapping interface of a memory that keeps its paths (`keep_paths=True`): paths to values.

    In a memory without kept paths, whatever needs them raises BadValue.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
    >>> memory.store({"dog": {"says": "woof", "legs": 4}, "cat": {"says": "meow", "legs": 4}})
    4
    >>> len(memory), ("dog", "legs") in memory, memory.paths("cat"), memory["cat", "says"]
    (4, True, [('cat', 'says'), ('cat', 'legs')], 'meow')
    >>> sorted(path for path, answer in memory.where(4))
    [('cat', 'legs'), ('dog', 'legs')]
    """

    @property
    def _counted(self) -> State:
        """A state whose paths are up to date, though its tensor may not be."""
        return self._state

    @property
    def keeps_paths(self) -> bool:
        """Whether the memory keeps the paths of its pairs."""
        return self._counted.known is not None

    def __bool__(self) -> bool:
        return True  # an empty memory is one, too

    def __len__(self) -> int:
        """Return the number of different paths that hold a value."""
        return len(known_paths(self._counted))

    def __iter__(self) -> Iterator[Path]:
        """Iterate over the paths, in the order in which they were first stored."""
        return iter(known_paths(self._counted))

    def __contains__(self, path: object) -> bool:
        """Whether a path is among the kept paths: an exact lookup, not a query."""
        return known_paths(self._counted).count(canonical_path(_as_key(path))) > 0

    def __getitem__(self, path: Role | Path) -> Value | list[Value]:
        """Recall the value under a kept path, or the list of its values if several pairs were stored under it.

        Raises:
            KeyError: If the path is not kept.
        """
        held, key = self._state, _as_key(path)
        count = known_paths(held).count(canonical_path(key))
        if not count:
            raise KeyError(f"No value is stored under {key!r}.")
        asked = Moment(held)
        if count == 1:
            return asked.recall(*key, prior_empty=0.0).value
        if asked.has_probabilities:
            return [answer.value for answer in asked.recall_set(*key)]
        return [answer.value for answer in asked.recall(*key, top=count)]

    def packed_paths(self) -> int:
        """Return the number of bytes that the kept paths take in a file."""
        return len(pack(known_paths(self._counted).weights()))

    def paths(self, *prefix: Role | Path) -> list[Path]:
        """Return the kept paths that begin with a prefix, in the order in which they were first stored.

        Args:
            *prefix: The roles of the prefix, or one path. Without any, all paths are returned.
        """
        whole = prefix[0] if len(prefix) == 1 and isinstance(prefix[0], tuple) and prefix[0] else prefix
        return list(known_paths(self._counted).below(whole))  # type: ignore[arg-type]  # a tuple among roles is refused

    def where(
        self,
        value: Value,
        paths: Iterable[Path] | None = None,
        *,
        threshold: float = 0.5,
        prior_empty: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return the paths that hold a value, most probable first.

        Args:
            value: The value.
            paths: The paths to search. By default the kept paths.
            threshold: Minimum probability, between 0 and 1.
            prior_empty: Prior probability that a path does not hold this value. By default derived from how often the
                value was stored, and at least 0.5.
            on_progress: Called with the number of paths that were searched since the last call.

        Returns:
            (path, answer) pairs. Paths may hold other values, too.

        Raises:
            BadValue: If the memory keeps no paths and none are given, or has no probabilities.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}, "table": {"legs": 4}})
        3
        >>> [path for path, _ in memory.where(4, paths=[("dog", "legs"), ("bird", "legs"), ("cat", "legs")])]
        [('dog', 'legs')]
        """
        held = self._state
        searched = known_paths(held) if paths is None else check_paths(paths, held).distinct()[0]
        return where(held, value, searched, threshold, prior_empty, on_progress)

    def decode_pairs(
        self,
        paths: Iterable[Path] | None = None,
        *,
        joint: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> DecodedPairs:
        """Decode all pairs that the memory holds, and report how many are certain.

        Args:
            paths: The paths, each as often as it holds values. By default the kept paths.
            joint: Decode all paths jointly (True) or one by one (False). By default jointly, and one by one if that
                takes more than 128 MiB of cores, or does not converge and gives fewer confident answers.
            on_progress: Called with the number of paths that were decoded since the last call.

        Raises:
            BadValue: If the memory keeps no paths and none are given.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}})
        2
        >>> found = memory.decode_pairs()
        >>> found.pairs, found.confident, found.missing
        ([(('dog', 'legs'), 4), (('bird', 'legs'), 2)], 2, 0)
        """
        return decode_pairs(self._state, paths, joint, on_progress)


def _as_key(path: object) -> Path:
    """A path that indexes: `memory["dog", "says"]`; a role by itself is a path of one."""
    return as_path(path if isinstance(path, tuple | list) else (path,))


class Reliability(Questions):
    """Measured and predicted accuracy of a memory, and its display."""

    def verify(
        self,
        pairs: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        joint: bool = False,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """Query the memory for pairs, and report which it answers correctly.

        Args:
            pairs: A document, (path, value) pairs or a DataFrame, as for `Memory.store`; possibly a part of what was
                stored. A pair is correct if its value is among those that the memory finds under its path.
            key: The column of a DataFrame with the row names.
            joint: Decode all pairs jointly instead of querying path by path.
            group: A process group of torch.distributed: all ranks pass the same pairs and share the work.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            The result: true if all answers are correct.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.correct, outcome.accuracy, [(wrong.path, wrong.answer.value) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'woof')])
        """
        return verify(Moment(self._state), chain.from_iterable(batches(pairs, key)), joint, on_progress, group)

    def predicted_accuracy(self, pairs: int = 0) -> float | None:
        """Return the predicted accuracy of recalling stored values, None if there is no prediction for the scheme.

        It is that of single queries, or of joint decoding if the memory was planned for it (`target.joint`), and
        assumes that all values are about equally frequent. An empty memory that was planned expects the vocabulary that
        it was planned for.

        Args:
            pairs: Predict for this many additional pairs.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted_accuracy() is None, [memory.predicted_accuracy(pairs=n) > 0.95 for n in (2, 1000)]
        (True, [True, False])
        """
        return foreseen(self._state, check_integer("pairs", pairs, 0))

    @property
    def is_overfull(self) -> bool:
        """Whether the predicted accuracy is below the target accuracy in `target`, or below 0.9 without one."""
        return falls_short(self._state)

    def plot(self, *path: Role, prior_empty: float = 0.5) -> Any:
        """Return a matplotlib figure of the memory: its cells and its load, or the scores of all values at a path.

        Args:
            *path: The roles of a path whose scores are shown. Without any, the memory itself is shown.
            prior_empty: Prior probability that the path is empty.

        Raises:
            MissingExtra: If matplotlib (the extra `plots`) is not installed.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> figure = memory.plot("dog", "says")
        >>> figure.axes[0].get_title(loc="left")
        'dog / says'
        """
        from carving.explore.display import plot_memory, plot_scores

        return plot_scores(self, check_roles(path), prior_empty) if path else plot_memory(self)

    def _repr_html_(self) -> str:
        from carving.explore.display import memory_html

        return memory_html(self)
