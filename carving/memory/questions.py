"""What a memory can be asked, one path at a time, many at once, for sets, or for everything together."""

import math
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor

from carving.answers import best, likelihood, sets, together
from carving.answers.answer import Answer, Answers
from carving.answers.likelihood import UNSEEN, Evidence, Likelihood, squared_norm
from carving.answers.ranking import Best, Ranking
from carving.checks import as_path, check_absence, check_integer, listed
from carving.chunks import slices
from carving.contexts import Contexts
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.linear import LinearScheme
from carving.memory.changes import OnProgress, report
from carving.memory.codebook import Codebook
from carving.memory.kept import Kept
from carving.memory.pairs import BATCH, Batch, as_pair
from carving.paths import Paths
from carving.scheme import Scheme
from carving.symbols import Leaf, Path, Role, Vocabulary

EMPTY = "this memory knows no leaf to answer with, because nothing was stored; store something first"


class Asking(TypedDict, total=False):
    """How is asked."""

    among: Iterable[Leaf] | None  # the leaves that may be answered
    absence: float  # how probable it is, before asking, that nothing is stored there
    on_progress: OnProgress | None


class Questions(ABC):
    """Whatever holds a scheme's tensor and the leaves to answer with: it reads, and changes nothing."""

    scheme: Scheme
    tensor: Tensor
    vocabulary: Vocabulary
    counts: Tensor  # (leaves,) how often each leaf was stored
    _codebook: Codebook
    _kept: Kept

    @overload
    def recall(
        self, *path: Role, top: None = None, among: Iterable[Leaf] | None = None, absence: float = 0.5
    ) -> Answer: ...

    @overload
    def recall(
        self, *path: Role, top: int, among: Iterable[Leaf] | None = None, absence: float = 0.5
    ) -> list[Answer]: ...

    def recall(
        self, *path: Role, top: int | None = None, among: Iterable[Leaf] | None = None, absence: float = 0.5
    ) -> Answer | list[Answer]:
        """What is stored under the path, as an `Answer`; with `top`, the so many most probable leaves in a list.

        `among` restricts the candidates; `absence` is how probable it is, before asking, that nothing is stored there.
        Probabilities are those of at most one leaf being there; `recall_set` asks for several.
        """
        answer: Answer | list[Answer] = self.recall_many([path], top=top, among=among, absence=absence)[0]
        return answer

    def recall_many(
        self,
        paths: Iterable[Path],
        *,
        top: int | None = None,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """One answer a path, or one list of answers a path; see `recall`."""
        asked, absence = self._asked(paths), check_absence(absence)
        rows, candidates = self._candidates(among, len(asked))
        k = 1 if top is None else min(check_integer("top", top, 1), len(rows))
        answers: list[list[Answer]] = []
        if isinstance(self.scheme, LinearScheme) and self.scheme.facts.linear:
            odds = self._likelihood(self.scheme, absence, rows)
            for _, contexts in self.scheme.chunks_of(asked, self._batch):
                ranking = likelihood.most_likely(self.scheme, self.tensor, contexts, candidates, odds, k)
                answers += self._answers(ranking, rows, absence, nothing=top is None)
                report(on_progress, len(contexts))
        else:
            for chunk in slices(len(asked), BATCH):
                ranked = best.top(self.scheme, self.tensor, asked[chunk], candidates, k)
                answers += self._answers_without_probability(ranked, rows)
                report(on_progress, len(asked[chunk]))
        return answers if top is not None else [each[0] for each in answers]

    def _answers(self, ranking: Ranking, rows: Sequence[int], absence: float, nothing: bool) -> list[list[Answer]]:
        """The answers of each context; where nothing may be answered, that alone if it is the most probable."""
        chances, empty = likelihood.probabilities(ranking, absence)
        columns = ranking.best.indices.tolist(), ranking.strengths.tolist(), chances.tolist(), empty.tolist()
        answers = []
        for indices, strengths, probable, none in zip(*columns, strict=True):
            if nothing and none >= probable[0]:
                answers.append([Answer(None, strengths[0], none, found=False)])
                continue
            each = zip(indices, strengths, probable, strict=True)
            answers.append([Answer(self.vocabulary[rows[i]], strength, chance) for i, strength, chance in each])
        return answers

    def _answers_without_probability(self, ranked: Best, rows: Sequence[int]) -> list[list[Answer]]:
        each = zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)
        return [
            [Answer(self.vocabulary[rows[i]], score, math.nan) for i, score in zip(*pair, strict=True)] for pair in each
        ]

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
        if not len(self.vocabulary):
            raise BadValue(EMPTY)
        batch = Batch([as_pair(pair) for pair in listed(pairs, "pairs")])
        return self._recognise(batch, check_absence(absence), on_progress)

    def _recognise(self, batch: Batch, absence: float = 0.5, on_progress: OnProgress | None = None) -> list[Answer]:
        scheme, answers = self.scheme, list[Answer]()
        linear = scheme if isinstance(scheme, LinearScheme) and scheme.facts.linear else None
        for rows, contexts in scheme.chunks_of(batch.paths, self._batch):
            leaves, names = batch.leaves[rows], batch.names[rows]
            fillers = self._codebook.named(names).unsqueeze(1)
            if linear is None:
                scores = scheme.score(self.tensor, contexts, fillers)
                chances = torch.full_like(scores, math.nan)
            else:
                scores, chances = self._weigh(linear, contexts, fillers, names, absence)
            each = zip(leaves, scores[:, 0].tolist(), chances[:, 0].tolist(), strict=True)
            answers += [Answer(leaf, score, chance, found=not chance < 0.5) for leaf, score, chance in each]
            report(on_progress, len(leaves))
        return answers

    def _weigh(
        self, scheme: LinearScheme, contexts: Contexts, fillers: Tensor, names: list[bytes], absence: float
    ) -> tuple[Tensor, Tensor]:
        """How strongly each context holds its leaf, and how probably: (n, 1) both."""
        prior = math.log(1 - absence) - math.log(absence) if absence else math.inf
        rows = [self.vocabulary.rows.get(name, -1) for name in names]
        counts = torch.cat([self.counts, self.counts.new_zeros(1)])[rows]
        odds = likelihood.likelihood(scheme, self._energy, counts, self._stored, prior)
        cores = scheme.adjoint(self.tensor, contexts)
        evidence = Evidence.of(scheme, cores, contexts, fillers)
        crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
        own = torch.arange(len(names)).unsqueeze(1)
        return evidence.strengths, odds.log_odds(evidence, own, crowded).double().sigmoid()

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
        on_progress: OnProgress | None = None,
    ) -> list[list[Answer]]:
        """One list of answers a path, where contexts may hold several leaves; see `recall_set`."""
        if not 0 < threshold < 1:
            raise BadValue(f"threshold must lie between 0 and 1, got {threshold!r}; 0.5 is usual")
        asked, absence = self._asked(paths), check_absence(absence)
        rows, candidates = self._held_candidates(among)
        scheme = self.scheme
        if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
            raise BadValue(
                f"sets need probabilities, which {scheme} has none of, because its memory settles; "
                'memory="raw" or another scheme has them, and recall(..., top=k) gives the k best'
            )
        odds, least = self._likelihood(scheme, absence, rows), math.log(threshold / (1 - threshold))
        ready = self._codebook.ready(len(asked)) if among is None else None
        answers: list[list[Answer]] = []
        for _, contexts in scheme.chunks_of(asked, self._batch):
            held = sets.recall_sets(scheme, self.tensor, contexts, candidates, odds, least, ready=ready)
            by_context: list[dict[int, Answer]] = [{} for _ in range(len(contexts))]
            columns = (held.rows, held.indices, held.strengths, held.log_odds.double().sigmoid())
            for context, i, strength, chance in zip(*(column.tolist() for column in columns), strict=True):
                # One that was stored twice is found twice.
                by_context[context].setdefault(i, Answer(self.vocabulary[rows[i]], strength, chance))
            answers += (sorted(each.values(), key=lambda answer: -answer.probability) for each in by_context)
            report(on_progress, len(contexts))
        return answers

    def recall_all(
        self,
        paths: Iterable[Path],
        *,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        rounds: int = 100,
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """One answer a path, all found together: exact far beyond the load at which single questions fail.

        Give every path that was stored, as far as known: what others hold stays noise. A path that holds several leaves
        is given as often, and each time has another answer. The result says whether it `converged`; if not, its answers
        are, but for chance, no worse than single ones. It takes memory for what every path shows, a core each.
        """
        asked = self._asked(paths)
        rows, candidates = self._held_candidates(among)
        times = Counter(asked.names)  # in the order of their first appearance, as distinct paths are
        counts = self.counts[list(rows)].clamp_min(0)
        decoded = together.decode(
            self.scheme,
            self.tensor,
            self.scheme.contexts(asked.distinct()[0]),
            candidates,
            rounds=rounds,
            on_round=_rounds_as_progress(on_progress, len(asked)),
            holds=list(times.values()),
            prior=counts + UNSEEN,
            shares=counts / max(self._stored, 1.0),
            absence=check_absence(absence),
        )
        columns = (decoded.indices.tolist(), decoded.scores.tolist(), decoded.probabilities.tolist())
        answers = {name: list[Answer]() for name in times}
        owners = (name for name, count in times.items() for _ in range(count))
        for name, index, score, chance in zip(owners, *columns, strict=True):
            leaf = None if index < 0 else self.vocabulary[rows[index]]
            answers[name].append(Answer(leaf, score, min(chance, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(each, key=lambda answer: not answer.found)) for name, each in answers.items()}
        return Answers((next(ordered[name]) for name in asked.names), decoded.converged, decoded.rounds)

    def rebuild(self, paths: Iterable[Path], **how: Unpack[Asking]) -> Document:
        """The document that lies under these paths; where nothing is found, nothing stands."""
        asked = [as_path(path) for path in listed(paths, "paths")]
        answers = self.recall_many(asked, **how)
        return rebuild((path, answer.leaf) for path, answer in zip(asked, answers, strict=True) if answer)

    # What questions need

    @property
    def _batch(self) -> int:
        """How many questions are asked at once: what they show of the memory takes a few workspaces at most."""
        facts = self.scheme.facts
        core = math.prod(facts.core_shape) * facts.memory_dtype.itemsize
        return max(1, min(BATCH, 4 * self.scheme.workspace // core))

    @property
    def _stored(self) -> float:
        """The sum of the pairs' weights."""
        return self._kept.once("stored", [self.counts], (), lambda: float(self.counts.clamp_min(0).sum()))

    @property
    def _energy(self) -> float:
        """The squared norm of the memory."""
        return self._kept.once("energy", [self.tensor], (), lambda: squared_norm(self.tensor))

    def _asked(self, paths: Iterable[Path]) -> Paths:
        asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
        if not len(self.vocabulary):
            raise BadValue(EMPTY)
        return Paths.of_checked(asked)

    def _candidates(self, among: Iterable[Leaf] | None, asked: int) -> tuple[Sequence[int], Tensor | list[Leaf]]:
        """The vocabulary's rows that may be answered, and their fillers, or labels where those are too many."""
        if among is not None:
            return self._held_candidates(among)
        held = self._codebook.holdable
        return range(len(self.vocabulary)), self._codebook.ready(asked) if held else self.vocabulary.labels

    def _held_candidates(self, among: Iterable[Leaf] | None) -> tuple[Sequence[int], Tensor]:
        """The vocabulary's rows that may be answered, and their fillers."""
        if among is None:
            return range(len(self.vocabulary)), self._codebook.all()
        rows = list(dict.fromkeys(map(self._row, listed(among, "among"))))
        return rows, self._codebook.of([self.vocabulary[row] for row in rows])

    def _row(self, leaf: Leaf) -> int:
        row = self.vocabulary.find(leaf)
        if row is None:
            raise BadValue(
                f"among must hold leaves that this memory knows, got {leaf!r}, which was never stored; leave it out"
            )
        return row

    def _likelihood(self, scheme: LinearScheme, absence: float, rows: Sequence[int]) -> Likelihood:
        counts = self.counts if isinstance(rows, range) else self.counts[list(rows)]

        def odds() -> Likelihood:
            return likelihood.likelihood(
                scheme, self._energy, counts, self._stored, likelihood.log_prior(counts, absence)
            )

        return self._kept.once("odds", [self.tensor, counts], absence, odds)


def _rounds_as_progress(on_progress: OnProgress | None, questions: int) -> Callable[[int, float], None] | None:
    """Rounds of joint decoding as questions that are done: as many as the share of the memory that is explained."""
    if on_progress is None:
        return None
    reported = 0

    def on_round(_: int, left: float) -> None:
        nonlocal reported
        done = max(reported, round(questions * (1 - min(1.0, left))))
        on_progress(done - reported)
        reported = done

    return on_round


def check_roles(path: Path) -> Path:
    """The path; one that was given whole, as a single role, is refused with the way to give it."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"a path is asked for role by role, recall({roles}), got recall({path[0]!r})")
    return path
