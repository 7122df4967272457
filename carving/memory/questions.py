"""What a memory can be asked, one path at a time, many at once, for sets, or for everything together."""

import math
from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack, overload

from torch import Tensor

from carving.answers import best, fitted, likelihood, sets, several
from carving.answers.alike import recall_alike
from carving.answers.answer import Answer, Answers
from carving.answers.ranking import Best
from carving.checks import as_path, check_absence, check_integer, check_number, listed
from carving.chunks import slices
from carving.distributed.ranks import Group
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.linear import LinearScheme
from carving.memory.changes import OnProgress, report
from carving.memory.jointly import Together
from carving.memory.pairs import BATCH, Batch, as_pair
from carving.memory.probing import probed, wished
from carving.memory.recognition import weighed
from carving.memory.shards import Shard, scanned, sharded
from carving.memory.state import EMPTY, State, known_paths
from carving.memory.wording import answers, top_answers
from carving.paths import Paths
from carving.prediction.goal import Goal
from carving.scheme import FillersOrLabels, Scheme
from carving.symbols import Leaf, Path, Role
from carving.vocabulary import Vocabulary


class Asking(TypedDict, total=False):
    """How is asked."""

    among: Iterable[Leaf] | None  # the leaves that may be answered
    absence: float  # how probable it is, before asking, that nothing is stored there
    on_progress: OnProgress | None


class Questions(ABC):
    """Whatever holds a scheme's tensor and the leaves to answer with: it reads, and changes nothing.

    A question takes the state once, and so sees a whole one, whoever stores meanwhile.
    """

    _state: State

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds its pairs."""
        return self._state.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The leaves that were stored."""
        return self._state.vocabulary

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return self._state.pairs

    @property
    def goal(self) -> Goal | None:
        """What it was planned for: the share of leaves that it is to name, the pairs and the different leaves."""
        return self._state.goal

    @property
    def has_probabilities(self) -> bool:
        """Whether it can tell how probable answers are: its scheme is linear."""
        return self._state.scheme.facts.linear

    @overload
    def recall(
        self,
        *path: Role,
        top: None = None,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        probe: float | None = None,
    ) -> Answer: ...

    @overload
    def recall(
        self,
        *path: Role,
        top: int,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        probe: float | None = None,
    ) -> list[Answer]: ...

    def recall(
        self,
        *path: Role,
        top: int | None = None,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        probe: float | None = None,
    ) -> Answer | list[Answer]:
        """What is stored under the path, as an `Answer`; with `top`, the so many most probable leaves in a list.

        `among` restricts the candidates; `absence` is how probable it is, before asking, that nothing is stored there.
        The probability of one answer is that of at most one leaf being there. Those of `top` are each leaf's own of
        being there, whatever else is: they may add up to more than 1, and are those of `recall_set` for what it finds.
        `probe` is for very many leaves: see `recall_many`.
        """
        answer: Answer | list[Answer] = self.recall_many([path], top=top, among=among, absence=absence, probe=probe)[0]
        return answer

    def recall_many(
        self,
        paths: Iterable[Path],
        *,
        top: int | None = None,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        probe: float | None = None,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """One answer a path, or one list of answers a path; see `recall`.

        `probe` is the part of a full scan's right answers that is wished: below 1, an index of compact fillers finds
        them among a few of the candidates (docs/candidates.md). Without it, all candidates are looked at
        where the vocabulary is small, and 0.999 is wished where the index is faster. With a process group of
        torch.distributed, all ranks ask the same, each weighs its part of the vocabulary, all of it, and all have the
        same answers.
        """
        held = self._state
        asked, absence, scheme = check_paths(paths, held), check_absence(absence), held.scheme
        if (wish := wished(held, probe, among is None, group)) is not None:
            most = None if top is None else check_integer("top", top, 1)
            return _collected(probed(held, asked, absence, wish, most), top, on_progress)
        shard = None if group is None else sharded(held, among, asked, group)
        rows, candidates = held.candidates(among, len(asked)) if shard is None else (shard.rows, shard.candidates)
        k = 1 if top is None else min(check_integer("top", top, 1), len(rows))
        question = Question(asked, rows, candidates, absence, None if top is None else k, shard)
        if held.solved is not None:
            parts = _asked_solved(held, question, among is None)
        elif isinstance(scheme, LinearScheme) and scheme.facts.linear:
            parts = _asked(held, scheme, question)
        else:
            parts = _asked_without_probability(held, question)
        return _collected(parts, top, on_progress)

    def recognise(self, *path: Role, leaf: Leaf, absence: float = 0.5) -> Answer:
        """How probably the leaf is stored under the path; `found` where it is more probable than not.

        Without probabilities (schemes that are not linear) every leaf is found: look at the score.
        """
        check_roles(path)
        return self.recognise_many([(path, leaf)], absence=absence)[0]

    def recognise_many(
        self, pairs: Iterable[Pair], *, absence: float = 0.5, on_progress: OnProgress | None = None
    ) -> list[Answer]:
        """How probably each leaf is stored under its path: one answer a pair; see `recognise`."""
        held = self._state
        if not len(held.vocabulary):
            raise BadValue(EMPTY)
        batch, answers = Batch([as_pair(pair) for pair in listed(pairs, "pairs")]), list[Answer]()
        for found in weighed(held, batch, check_absence(absence)):
            each = zip(batch.leaves[len(answers) :], found.strengths.tolist(), found.chances.tolist(), strict=False)
            answers += [Answer(leaf, score, chance, found=not chance < 0.5) for leaf, score, chance in each]
            report(on_progress, len(found.strengths))
        return answers

    def recall_set(self, *path: Role, threshold: float = 0.5, **how: Unpack[Asking]) -> list[Answer]:
        """Every leaf that is stored under the path with at least this probability, most probable first."""
        return self.recall_sets([path], threshold=threshold, **how)[0]

    def recall_sets(
        self,
        paths: Iterable[Path],
        *,
        threshold: float = 0.5,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[list[Answer]]:
        """One list of answers a path, where contexts may hold several leaves; see `recall_set` and `recall_many`."""
        check_threshold(threshold)
        state = self._state
        asked, absence, scheme = check_paths(paths, state), check_absence(absence), state.scheme
        if state.solved is not None:  # which has one leaf a path, as far as it was solved
            rows, candidates = state.held_candidates(among)
            most = min(len(rows), int(1 / threshold))
            parts = _asked_solved(state, Question(asked, rows, candidates, absence, most), among is None)
            return _likely(parts, threshold, on_progress)
        if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
            raise BadValue(
                f"sets need probabilities, which {scheme} has none of, because its memory settles; "
                'memory="raw" or another scheme has them, and recall(..., top=k) gives the k best'
            )
        rows, fillers, odds, scan = scanned(state, scheme, asked, among, absence, group)
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

    def recall_all(
        self,
        paths: Iterable[Path] | None = None,
        *,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        rounds: int = 100,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """One answer a path, all found together: exact far beyond the load at which single questions fail.

        Give every path that was stored, as far as known: what others hold stays noise. A path that holds several leaves
        is given as often, and each time has another answer. Without paths, those that the memory keeps are asked, each
        as often as it holds pairs; the result's `paths` lists what was asked. It also says whether it `converged` (of
        a sealed memory that was asked for all that it holds: whether the answers give its cells again); if not, its
        answers are, but for chance, no worse than single ones. It takes memory for what every path shows, a
        core each: of a group, all ranks ask the same, and share the paths.
        """
        held = self._state
        asked = check_paths(known_paths(held).each() if paths is None else paths, held)
        going, told = Together(held, asked, among, absence, rounds, group), 0
        for step in going:  # so many questions are done as the share of the memory that is explained
            done = max(told, round(len(asked) * (1 - min(1.0, step.left))))
            report(on_progress, done - told)
            told = done
        return going.answers()

    def rebuild(self, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
        """Return the document under these paths, by default the kept ones; a path without an answer is left out.

        Refused if a kept path holds several different leaves, which a document cannot have: ask `recall_sets`.
        """
        known = self._state.known
        paths = known_paths(self._state) if paths is None else paths
        asked = Paths.of_checked([as_path(path) for path in listed(paths, "paths")])
        found = [[answer] for answer in self.recall_many(asked, **how)]
        for row, name in enumerate(asked.names):
            if known is not None and known.count(name) > 1:  # the best answer may be one of several
                path = asked[row : row + 1]
                several = self.recall_sets(path, **how) if self.has_probabilities else self.recall_many(path, top=2)
                found[row] = several[0] or found[row]
        return rebuild((path, each.leaf) for path, own in zip(asked, found, strict=True) for each in own if each)


class Question(NamedTuple):
    """What paths are asked for."""

    paths: Paths
    rows: Sequence[int]  # of the leaves that may be answered,
    candidates: FillersOrLabels  # and what they are
    absence: float
    top: int | None  # so many answers, or one
    shard: Shard | None = None  # where the candidates are those of one rank


def _asked(held: State, scheme: LinearScheme, question: Question) -> Iterator[list[list[Answer]]]:
    """The answers of a sum, some paths at a time."""
    _, rows, candidates, absence, top, shard = question
    odds = held.odds(scheme, absence, rows)
    size = 1 if top is None else several.listed(top, len(rows))
    for _, contexts in scheme.chunks_of(question.paths, held.batch):
        if shard is None:
            ranking = likelihood.most_likely(scheme, held.tensor, contexts, candidates, odds, size)
        else:
            ranking = shard.most_likely(scheme, contexts, odds, size)
        if top is None:
            yield answers(held, ranking, rows, absence)
        else:
            yield top_answers(held, contexts, ranking, rows, odds.only, top)


def _asked_solved(held: State, question: Question, all_leaves: bool) -> Iterator[list[list[Answer]]]:
    """The answers of a memory that was solved: to each path the best, or nothing; or the so many best."""
    scheme, solved, top = held.scheme, held.solved, question.top
    assert isinstance(scheme, LinearScheme) and solved is not None
    everything = None if all_leaves else held.candidates(None, len(question.paths))[1]
    choice = fitted.Choice(question.candidates, question.rows, everything)
    for _, contexts in scheme.chunks_of(question.paths, held.batch):
        found = fitted.told(scheme, held.tensor, contexts, choice, solved, question.absence, top or 1)
        answers = [
            [Answer(held.leaf(choice.rows[i]), strength, chance) for i, strength, chance in zip(*each, strict=True)]
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
        ranked = best.top(held.scheme, held.tensor, question.paths[chunk], question.candidates, question.top or 1)
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
        raise BadValue(f"threshold must lie between 0 and 1, got {threshold!r}; 0.5 is usual")


def check_roles(path: Path) -> Path:
    """The path; one that was given whole, as a single role, is refused with the way to give it."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"a path is asked for role by role, recall({roles}), got recall({path[0]!r})")
    return path


def check_paths(paths: Iterable[Path], held: State) -> Paths:
    """The paths to ask a state for."""
    asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
    if not len(held.vocabulary):
        raise BadValue(EMPTY)
    return Paths.of_checked(asked)
