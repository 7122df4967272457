"""Queries: recall one path or many, recognize pairs, recall sets, or decode all paths jointly."""

import math
from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack, overload

from torch import Tensor

from carving.distributed.ranks import Group
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.inference import best, fitted, likelihood, sets, several
from carving.inference.alike import recall_alike
from carving.inference.answer import Answer, Answers
from carving.inference.ranking import Best
from carving.memory.changes import OnProgress, report
from carving.memory.jointly import Together
from carving.memory.pairs import BATCH, Batch, as_pair
from carving.memory.probing import probed, wished
from carving.memory.recognition import weighed
from carving.memory.shards import Shard, scanned, sharded
from carving.memory.state import EMPTY, State, known_paths
from carving.memory.wording import answers, top_answers
from carving.planner.target import Target
from carving.schemes.base import FillersOrLabels, Scheme
from carving.schemes.linear import LinearScheme
from carving.symbols.codec import Path, Role, Value
from carving.symbols.paths import Paths, as_path
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices
from carving.validate import check_integer, check_number, check_prior_empty, listed


class Asking(TypedDict, total=False):
    """Keyword arguments of `recall_set` and `rebuild`."""

    candidates: Iterable[Value] | None  # the values to consider; None for the whole vocabulary
    prior_empty: float  # prior probability that a path is empty
    on_progress: OnProgress | None


class Questions(ABC):
    """The queries of a memory. They change nothing, and are safe while another thread stores."""

    _state: State

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds the pairs."""
        return self._state.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The values that the memory can answer with."""
        return self._state.vocabulary

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return self._state.pairs

    @property
    def target(self) -> Target | None:
        """Target of the plan (accuracy, pairs, vocabulary), or None if the memory was not planned."""
        return self._state.target

    @property
    def has_probabilities(self) -> bool:
        """Whether answers have probabilities: the scheme is linear (`scheme.facts.linear`)."""
        return self._state.scheme.facts.linear

    @overload
    def recall(
        self,
        *path: Role,
        top: None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer: ...

    @overload
    def recall(
        self,
        *path: Role,
        top: int,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> list[Answer]: ...

    def recall(
        self,
        *path: Role,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer | list[Answer]:
        """Return the value stored under a path, or the `top` most probable values.

        Args:
            *path: The roles of the path.
            top: Number of values to return. None returns one answer, which is empty if nothing is stored.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that the path is empty, from 0 (it certainly holds a value) to below 1.
            recall_target: For very large vocabularies: see `recall_many`.

        Returns:
            An `Answer`, whose probability assumes that the path holds at most one value; it is false if the path is
            more probably empty. With `top` a list of answers, most probable first: the path may
            hold several values, so that the probabilities may add up to more than 1.

        Raises:
            BadValue: If nothing was stored, or `candidates` contains an unknown value.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> memory.recall("dog", "says").value, bool(memory.recall("cow", "says"))
        ('woof', False)
        >>> [answer.value for answer in memory.recall("cat", "says", top=2)]
        ['meow', 'woof']
        """
        answer: Answer | list[Answer] = self.recall_many(
            [path], top=top, candidates=candidates, prior_empty=prior_empty, recall_target=recall_target
        )[0]
        return answer

    def recall_many(
        self,
        paths: Iterable[Path],
        *,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Recall many paths at once: one answer for each path, or with `top` one list of answers.

        Args:
            paths: The paths, each a tuple of roles.
            top: Number of values to return for each path. None returns one answer, which may be empty.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty, from 0 to below 1.
            recall_target: Target recall of an approximate search, relative to scoring all candidates, which 1 does.
                Below 1 an index of compact fillers is used (docs/candidates.md). By default 0.999 for 200,000 values or
                more that can be indexed, else 1.
            group: A process group of torch.distributed: all ranks pass the same paths, each scores a part of the
                vocabulary, and all get the same answers.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            n answers, or n lists of answers, as of `recall`.

        Raises:
            BadValue: If nothing was stored, `candidates` contains an unknown value, or `recall_target` needs an index
                that the memory cannot have.
        """
        held = self._state
        asked, prior_empty, scheme = check_paths(paths, held), check_prior_empty(prior_empty), held.scheme
        if (wish := wished(held, recall_target, candidates is None, group)) is not None:
            most = None if top is None else check_integer("top", top, 1)
            return _collected(probed(held, asked, prior_empty, wish, most), top, on_progress)
        shard = None if group is None else sharded(held, candidates, asked, group)
        rows, fillers = held.candidates(candidates, len(asked)) if shard is None else (shard.rows, shard.candidates)
        k = 1 if top is None else min(check_integer("top", top, 1), len(rows))
        question = Question(asked, rows, fillers, prior_empty, None if top is None else k, shard)
        if held.solved is not None:
            parts = _asked_solved(held, question, candidates is None)
        elif isinstance(scheme, LinearScheme) and scheme.facts.linear:
            parts = _asked(held, scheme, question)
        else:
            parts = _asked_without_probability(held, question)
        return _collected(parts, top, on_progress)

    def recognize(self, *path: Role, value: Value, prior_empty: float = 0.5) -> Answer:
        """Return how probably a value is stored under a path; the answer is true if that is at least 0.5.

        Without probabilities (`has_probabilities`) every answer is true: compare the scores instead.

        Args:
            *path: The roles of the path.
            value: The value.
            prior_empty: Prior probability that the value is not stored there.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> bool(memory.recognize("dog", "says", value="woof")), bool(memory.recognize("dog", "says", value="meow"))
        (True, False)
        """
        check_roles(path)
        return self.recognize_many([(path, value)], prior_empty=prior_empty)[0]

    def recognize_many(
        self, pairs: Iterable[Pair], *, prior_empty: float = 0.5, on_progress: OnProgress | None = None
    ) -> list[Answer]:
        """Return one answer for each (path, value) pair: how probably the value is stored there; see `recognize`."""
        held = self._state
        if not len(held.vocabulary):
            raise BadValue(EMPTY)
        batch, answers = Batch([as_pair(pair) for pair in listed(pairs, "pairs")]), list[Answer]()
        for found in weighed(held, batch, check_prior_empty(prior_empty)):
            each = zip(batch.values[len(answers) :], found.strengths.tolist(), found.chances.tolist(), strict=False)
            answers += [Answer(value, score, chance, found=not chance < 0.5) for value, score, chance in each]
            report(on_progress, len(found.strengths))
        return answers

    def recall_set(self, *path: Role, threshold: float = 0.5, **how: Unpack[Asking]) -> list[Answer]:
        """Return every value that is stored under a path with at least a probability, most probable first.

        Args:
            *path: The roles of the path.
            threshold: Minimum probability, between 0 and 1.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If the scheme has no probabilities.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "hunter")])
        3
        >>> sorted(answer.value for answer in memory.recall_set("dog", "is a"))
        ['animal', 'pet']
        """
        return self.recall_sets([path], threshold=threshold, **how)[0]

    def recall_sets(
        self,
        paths: Iterable[Path],
        *,
        threshold: float = 0.5,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[list[Answer]]:
        """Return one list of answers for each path, which may hold several values: see `recall_set`.

        The arguments are those of `recall_many`, and `threshold` is the minimum probability.
        """
        check_threshold(threshold)
        state = self._state
        asked, prior_empty, scheme = check_paths(paths, state), check_prior_empty(prior_empty), state.scheme
        if state.solved is not None:  # which has one value a path, as far as it was solved
            rows, allowed = state.held_candidates(candidates)
            most = min(len(rows), int(1 / threshold))
            parts = _asked_solved(state, Question(asked, rows, allowed, prior_empty, most), candidates is None)
            return _likely(parts, threshold, on_progress)
        if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
            raise BadValue(
                f"recall_set() needs probabilities, which {scheme} does not have, because its memory is not a plain "
                'sum. Use recall(..., top=k), or another scheme or memory="raw".'
            )
        rows, fillers, odds, scan = scanned(state, scheme, asked, candidates, prior_empty, group)
        least = math.log(threshold / (1 - threshold))
        answers: list[list[Answer]] = []
        for _, contexts in scheme.chunks_of(asked, state.batch):
            if state.codebook.trained is not None and isinstance(fillers, Tensor):
                seen = state.histogram.as_strengths()
                held = recall_alike(scheme, state.tensor, contexts, fillers, odds, seen, least, scan)
            else:
                held = sets.recall_sets(scheme, state.tensor, contexts, fillers, odds, least, scan=scan)
            by_context: list[dict[int, Answer]] = [{} for _ in range(len(contexts))]
            columns = (held.rows, held.indices, held.strengths, held.log_odds.double().sigmoid())
            for context, i, strength, chance in zip(*(column.tolist() for column in columns), strict=True):
                # One that was stored twice is found twice.
                by_context[context].setdefault(i, Answer(state.vocabulary[rows[i]], strength, chance))
            answers += (sorted(each.values(), key=lambda answer: -answer.probability) for each in by_context)
            report(on_progress, len(contexts))
        return answers

    def decode(
        self,
        paths: Iterable[Path] | None = None,
        *,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """Decode all paths jointly, by approximate message passing (AMP).

        It reaches a far higher load than single queries, as long as it converges (see `converged`).

        Decoded values are subtracted as interference from the others, round by round. Every path takes one core
        (*scheme.core_shape) of working memory.

        Args:
            paths: Every stored path, once for each value that it holds. Pairs under other paths act as noise. By
                default the kept paths (`keep_paths=True`).
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty.
            rounds: Maximum number of rounds.
            group: A process group of torch.distributed: all ranks pass the same paths and share the work.
            on_progress: Called with the number of paths that were decoded since the last call, an estimate.

        Returns:
            One answer for each path. `converged` says whether decoding converged (for all pairs of a quantized memory:
            whether they reproduce its cells); if it is False, expect the accuracy of single queries (`recall`).
            `paths` are the paths, and `rounds` the rounds that it took.

        Raises:
            BadValue: If the memory was consolidated, its scheme is not linear, or no paths are given or kept.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), keep_paths=True)
        >>> memory.store({f"key {i}": f"value {i}" for i in range(40)})
        40
        >>> answers = memory.decode()
        >>> answers.converged, answers.paths[7], answers[7].value
        (True, ('key 7',), 'value 7')
        """
        held = self._state
        asked = check_paths(known_paths(held).each() if paths is None else paths, held)
        going, told = Together(held, asked, candidates, prior_empty, rounds, group), 0
        for step in going:  # so many questions are done as the share of the memory that is explained
            done = max(told, round(len(asked) * (1 - min(1.0, step.left))))
            report(on_progress, done - told)
            told = done
        return going.answers()

    def rebuild(self, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
        """Return the document of nested dicts and lists under the paths; a path without an answer is left out.

        Args:
            paths: The paths of the document. By default the kept paths.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If a kept path holds several different values, which a document cannot: use `recall_sets`.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"says": "woof", "legs": 4}})
        2
        >>> memory.rebuild()
        {'dog': {'says': 'woof', 'legs': 4}}
        """
        known = self._state.known
        paths = known_paths(self._state) if paths is None else paths
        asked = Paths.of(paths)
        found = [[answer] for answer in self.recall_many(asked, **how)]
        for row, name in enumerate(asked.names):
            if known is not None and known.count(name) > 1:  # the best answer may be one of several
                path = asked[row : row + 1]
                several = self.recall_sets(path, **how) if self.has_probabilities else self.recall_many(path, top=2)
                found[row] = several[0] or found[row]
        return rebuild((path, each.value) for path, own in zip(asked, found, strict=True) for each in own if each)


class Question(NamedTuple):
    """What paths are asked for."""

    paths: Paths
    rows: Sequence[int]  # of the values that may be answered,
    fillers: FillersOrLabels  # and what they are
    prior_empty: float
    top: int | None  # so many answers, or one
    shard: Shard | None = None  # where the candidates are those of one rank


def _asked(held: State, scheme: LinearScheme, question: Question) -> Iterator[list[list[Answer]]]:
    """The answers of a sum, some paths at a time."""
    _, rows, fillers, prior_empty, top, shard = question
    odds = held.odds(scheme, prior_empty, rows)
    size = 1 if top is None else several.listed(top, len(rows))
    for _, contexts in scheme.chunks_of(question.paths, held.batch):
        if shard is None:
            ranking = likelihood.most_likely(scheme, held.tensor, contexts, fillers, odds, size)
        else:
            ranking = shard.most_likely(scheme, contexts, odds, size)
        if top is None:
            yield answers(held, ranking, rows, prior_empty)
        else:
            yield top_answers(held, contexts, ranking, rows, odds.only, top)


def _asked_solved(held: State, question: Question, all_values: bool) -> Iterator[list[list[Answer]]]:
    """The answers of a memory that was solved: to each path the best, or nothing; or the so many best."""
    scheme, solved, top = held.scheme, held.solved, question.top
    assert isinstance(scheme, LinearScheme) and solved is not None
    everything = None if all_values else held.candidates(None, len(question.paths))[1]
    choice = fitted.Choice(question.fillers, question.rows, everything)
    for _, contexts in scheme.chunks_of(question.paths, held.batch):
        found = fitted.told(scheme, held.tensor, contexts, choice, solved, question.prior_empty, top or 1)
        answers = [
            [Answer(held.value(choice.rows[i]), strength, chance) for i, strength, chance in zip(*each, strict=True)]
            for each in zip(*(column.tolist() for column in found[:3]), strict=True)
        ]
        yield answers if top is not None else _or_nothing(answers, found.empty.tolist())


def _or_nothing(answers: list[list[Answer]], empty: list[float]) -> list[list[Answer]]:
    """The best answers, or nothing, where that is more probable."""
    return [
        [Answer(None, best.score, none, found=False)] if none >= best.probability else [best]
        for (best,), none in zip(answers, empty, strict=True)
    ]


def _asked_without_probability(held: State, question: Question) -> Iterator[list[list[Answer]]]:
    """The answers of a memory that settles."""
    for chunk in slices(len(question.paths), BATCH):
        ranked = best.top(held.scheme, held.tensor, question.paths[chunk], question.fillers, question.top or 1)
        yield _answers_without_probability(held, ranked, question.rows)


def _collected(parts: Iterable[list[list[Answer]]], top: int | None, on_progress: OnProgress | None) -> list[Any]:
    """The answers to all paths: one each, or with `top` a list each."""
    answers: list[list[Answer]] = []
    for part in parts:
        answers += part
        report(on_progress, len(part))
    return answers if top is not None else [each[0] for each in answers]


def _likely(
    parts: Iterable[list[list[Answer]]], threshold: float, on_progress: OnProgress | None
) -> list[list[Answer]]:
    """Those of the answers that are probable enough."""
    sets: list[list[Answer]] = []
    for part in parts:
        sets += ([answer for answer in each if answer.probability >= threshold] for each in part)
        report(on_progress, len(part))
    return sets


def _answers_without_probability(held: State, ranked: Best, rows: Sequence[int]) -> list[list[Answer]]:
    each = zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)
    return [
        [Answer(held.vocabulary[rows[i]], score, math.nan) for i, score in zip(*pair, strict=True)] for pair in each
    ]


def check_threshold(threshold: float) -> None:
    """Refuse what is no probability to be reached."""
    if not 0 < check_number("threshold", threshold) < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")


def check_roles(path: Path) -> Path:
    """The path; one that was given whole, as a single role, is refused with the way to give it."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"Pass a path role by role, recall({roles}), got the tuple recall({path[0]!r}).")
    return path


def check_paths(paths: Iterable[Path], held: State) -> Paths:
    """The paths to ask a state for."""
    asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
    if not len(held.vocabulary):
        raise BadValue(EMPTY)
    return Paths.of(asked)
