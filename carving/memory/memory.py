"""Memory: symbols in, symbols out.

A memory is a scheme, one tensor, and the leaves that were stored (with how often, for the noise and as what is likely
before the tensor is asked). Everything that fails leaves it as it was.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Self, overload

import torch
from torch import Tensor

from carving import files
from carving.answers import best, likelihood, sets, together
from carving.answers.answer import Answer, Answers
from carving.answers.likelihood import UNSEEN, Evidence, Likelihood
from carving.checks import as_path, check_absence, check_integer, check_weight, listed
from carving.chunks import slices
from carving.contexts import Contexts
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.formats.frames import Frame
from carving.linear import LinearScheme
from carving.memory.changes import Change, OnProgress, check_same, check_same_trained, report
from carving.memory.codebook import Codebook, check_finite
from carving.memory.pairs import BATCH, as_pair, batches, canonical_leaf
from carving.memory.survey import check_room, naming_accuracy, predicted, survey
from carving.memory.verification import Verification, verify
from carving.prediction import plan as planner
from carving.scheme import Scheme
from carving.schemes import make
from carving.symbols import Label, Leaf, Path, Vocabulary, canonical, canonical_path

EMPTY = "this memory knows no leaf to answer with, because nothing was stored; store something first"


class Memory:
    """A memory of fixed size: documents or pairs go in, leaves come out by their paths.

    >>> from carving import OSC
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"sentence 5": {"subject": "dog", "verb": "chased"}})
    2
    >>> memory.recall("sentence 5", "subject").leaf
    'dog'
    """

    def __init__(self, scheme: Scheme, vocabulary: Iterable[Leaf] = (), fillers: Tensor | None = None) -> None:
        """An empty memory. Leaves that are known beforehand may have fillers of their own: trained ones."""
        if not isinstance(scheme, Scheme):
            raise BadType(f'a memory takes a scheme, got {scheme!r}; such as OSC(d=64), or make("HLB", d=4096)')
        self.scheme = scheme
        self.tensor = scheme.zeros()
        self.vocabulary = Vocabulary(vocabulary)
        self.counts = torch.zeros(len(self.vocabulary), dtype=torch.float64)  # how often each leaf was stored
        self._codebook = Codebook(scheme, self.vocabulary, fillers)

    @classmethod
    def planned(cls, pairs: int, vocabulary: int, accuracy: float = 0.99, *, seed: int = 0, **wishes: Any) -> Self:
        """An empty memory of the smallest scheme that is predicted to answer so many pairs so accurately.

        The accuracy is that of naming the leaf of a path that holds one (`absence=0`). Who wants to be told just as
        accurately where nothing is stored, or to recall sets, asks for about a tenth of the errors: 0.999 for 0.99.
        """
        plan = planner.plan(pairs, vocabulary, accuracy, **wishes)
        return cls(make(plan.scheme, seed=seed, **plan.parameters))

    @classmethod
    def for_pairs(
        cls,
        pairs: Document | Iterable[Pair],
        accuracy: float = 0.99,
        room: float = 1.0,
        *,
        seed: int = 0,
        on_progress: OnProgress | None = None,
        **wishes: Any,
    ) -> Self:
        """An EMPTY memory of the size that these pairs need: they are only counted, `store` stores them.

        The accuracy is that of all answers, "nothing is stored there" being one; `room=2` plans for twice these pairs.
        The other wishes are the planner's: `scheme`, `p`, `compact`, ...

        >>> facts = {"dog": {"is a": "animal", "says": "woof"}, "cat": {"is a": "animal", "says": "meow"}}
        >>> memory = Memory.for_pairs(facts)
        >>> memory.pairs, memory.store(facts), memory.recall("cat", "says").leaf
        (0, 4, 'meow')
        """
        room, accuracy = check_room(room), naming_accuracy(accuracy)
        expected = survey(chain.from_iterable(batches(pairs)), on_progress).grown(room)
        return cls.planned(expected.pairs, expected.leaves, accuracy, seed=seed, shared=expected.shared, **wishes)

    def __repr__(self) -> str:
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}"

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return round(float(self.counts.clamp_min(0).sum()))

    @property
    def trained(self) -> Tensor | None:
        """The fillers that were trained, those of the vocabulary's first leaves."""
        return self._codebook.trained

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Memory":
        """The same memory on another device, or computing in another precision."""
        changes = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        scheme, trained = self.scheme.like(**changes), self.trained
        other = Memory(scheme, self.vocabulary.labels[: 0 if trained is None else len(trained)], trained)
        for leaf in self.vocabulary.labels[len(other.vocabulary) :]:
            other.vocabulary.add(leaf)
        other.tensor = self.tensor.to(scheme.device, scheme.memory_dtype, copy=True)
        other.counts = self.counts.clone()
        return other

    # Storing and forgetting

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Store a document, or pairs of a path and a leaf; the number of pairs. Any size: it is read in batches.

        A DataFrame of pandas or polars is a table: a row is named by its cell in the column `key`, or by its number.
        """
        change = Change(self._codebook, on_progress)
        for batch in batches(what, key):
            change.add(batch)
        return self._apply(change, check_weight(weight))

    def forget(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> list[Pair]:
        """Take a document or pairs out again; those that were probably never stored come back (and are taken out)."""
        change, weight = Change(self._codebook, on_progress), check_weight(weight)
        times = Counter[bytes]()
        strangers: list[Pair] = []
        for batch in batches(what, key):
            never: list[bool] = [False] * len(batch)
            if self.scheme.facts.linear:
                for row, (pair, answer) in enumerate(zip(batch, self._recognise(batch), strict=True)):
                    name = canonical_path(pair[0]) + canonical(pair[1])
                    times[name] += 1  # what is forgotten twice must have been stored twice
                    never[row] = not answer or answer.score < times[name] - 0.5 > 0.5
            strangers += [pair for pair, stranger in zip(batch, never, strict=True) if stranger]
            change.add(batch, never)
        self._apply(change, -weight)
        return strangers

    def _apply(self, change: Change, weight: float) -> int:
        if not change.pairs:
            raise BadValue("there must be something to store, got no pairs; give a document with at least one leaf")
        tensor = self.tensor + (change.trace if weight == 1 else change.trace.mul_(weight))
        check_finite("the memory", tensor)
        self.tensor = tensor
        rows = [self.vocabulary.add_named(name, leaf) for name, leaf in change.leaves.items()]
        self.counts = torch.cat([self.counts, self.counts.new_zeros(len(self.vocabulary) - len(self.counts))])
        self.counts[rows] += weight * torch.tensor([change.counts[name] for name in change.leaves], dtype=torch.float64)
        return change.pairs

    def __add__(self, other: "Memory") -> "Memory":
        """Both memories' pairs in one: their tensors and counts added, their vocabularies joined."""
        if not isinstance(other, Memory):
            return NotImplemented
        check_same(self.scheme, other.scheme)
        check_same_trained(self._codebook, other._codebook)
        both = self.to()
        rows = [both.vocabulary.add(leaf) for leaf in other.vocabulary]
        both.counts = torch.cat([self.counts, self.counts.new_zeros(len(both.vocabulary) - len(self.counts))])
        both.counts[rows] += other.counts
        both.tensor += other.tensor.to(both.tensor)
        return both

    # Asking

    @overload
    def recall(
        self, *path: Any, top: None = None, among: Iterable[Leaf] | None = None, absence: float = 0.5
    ) -> Answer: ...

    @overload
    def recall(
        self, *path: Any, top: int, among: Iterable[Leaf] | None = None, absence: float = 0.5
    ) -> list[Answer]: ...

    def recall(
        self, *path: Any, top: int | None = None, among: Iterable[Leaf] | None = None, absence: float = 0.5
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
        rows, candidates = self._candidates(among)
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

    def _answers(self, ranking: best.Ranking, rows: Sequence[int], absence: float, nothing: bool) -> list[list[Answer]]:
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

    def _answers_without_probability(self, ranked: best.Best, rows: Sequence[int]) -> list[list[Answer]]:
        each = zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)
        return [
            [Answer(self.vocabulary[rows[i]], score, math.nan) for i, score in zip(*pair, strict=True)] for pair in each
        ]

    def recognise(self, *path: Any, leaf: Leaf, absence: float = 0.5) -> Answer:
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
        checked = [as_pair(pair) for pair in listed(pairs, "pairs")]
        return self._recognise(checked, check_absence(absence), on_progress)

    def _recognise(
        self, pairs: list[Pair], absence: float = 0.5, on_progress: OnProgress | None = None
    ) -> list[Answer]:
        scheme, answers = self.scheme, list[Answer]()
        linear = scheme if isinstance(scheme, LinearScheme) and scheme.facts.linear else None
        for rows, contexts in scheme.chunks_of([path for path, _ in pairs], self._batch):
            leaves = [leaf for _, leaf in pairs[rows]]
            names = [canonical_leaf(leaf, path) for path, leaf in pairs[rows]]
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
        odds = likelihood.likelihood(scheme, self.tensor, counts, self._stored, prior)
        cores = scheme.adjoint(self.tensor, contexts)
        evidence = Evidence.of(scheme, cores, contexts, fillers)
        crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
        own = torch.arange(len(names)).unsqueeze(1)
        return evidence.strengths, odds.log_odds(evidence, own, crowded).double().sigmoid()

    def recall_set(self, *path: Any, threshold: float = 0.5, **how: Any) -> list[Answer]:
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
        rows, candidates = self._candidates(among, held=True)
        scheme = self.scheme
        if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
            raise BadValue(
                f"sets need probabilities, which {scheme} has none of, because its memory settles; "
                'memory="raw" or another scheme has them, and recall(..., top=k) gives the k best'
            )
        odds, least = self._likelihood(scheme, absence, rows), math.log(threshold / (1 - threshold))
        answers: list[list[Answer]] = []
        for _, contexts in scheme.chunks_of(asked, self._batch):
            held = sets.recall_sets(scheme, self.tensor, contexts, candidates, odds, least)
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
        rows, candidates = self._candidates(among, held=True)
        names = [canonical_path(path) for path in asked]
        times = Counter(names)  # in the order of their first appearance
        first = dict(zip(reversed(names), reversed(asked), strict=True))
        counts = self.counts[list(rows)].clamp_min(0)
        decoded = together.decode(
            self.scheme,
            self.tensor,
            self.scheme.contexts([first[name] for name in times]),
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
        return Answers((next(ordered[name]) for name in names), decoded.converged, decoded.rounds)

    def rebuild(self, paths: Iterable[Path], **how: Any) -> Document:
        """The document that lies under these paths; where nothing is found, nothing stands."""
        asked = [as_path(path) for path in listed(paths, "paths")]
        answers = self.recall_many(asked, **how)
        return rebuild((path, answer.leaf) for path, answer in zip(asked, answers, strict=True) if answer)

    def verify(
        self, pairs: Document | Iterable[Pair], *, joint: bool = False, on_progress: OnProgress | None = None
    ) -> Verification:
        """How many of the pairs it answers rightly, and which wrongly; with `joint`, all of them asked together.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.right, outcome.share, [(wrong.path, wrong.leaf, wrong.answer.leaf) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'meow', 'woof')])
        """
        return verify(self, chain.from_iterable(batches(pairs)), joint, on_progress)

    def predicted(self, pairs: int = 0) -> float | None:
        """The share of leaves that it is predicted to name, once so many pairs more are stored; None if none is.

        Predictions are for leaves of which each is used about as often, asked for one at a time.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted() is None, memory.predicted(pairs=2) > 0.99, memory.predicted(pairs=1000) < 0.9
        (True, True, True)
        """
        return predicted(self.scheme, self.pairs + check_integer("pairs", pairs, 0), len(self.vocabulary))

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
        return float(self.counts.clamp_min(0).sum())

    def _asked(self, paths: Iterable[Path]) -> list[Path]:
        asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
        if not len(self.vocabulary):
            raise BadValue(EMPTY)
        return asked

    def _candidates(self, among: Iterable[Leaf] | None, held: bool = False) -> tuple[Sequence[int], Any]:
        """The vocabulary's rows that may be answered, and their fillers, or labels where those are too many."""
        if among is None:
            every = range(len(self.vocabulary))
            return every, self._codebook.all() if held or self._codebook.holdable else self.vocabulary.labels
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
        prior = likelihood.log_prior(counts, absence)
        return likelihood.likelihood(scheme, self.tensor, counts, self._stored, prior)

    # Files

    def save(self, path: str | os.PathLike[str], dtype: torch.dtype | None = None) -> None:
        """Write the memory to one file, whole or not at all; `dtype` may be a smaller one for the tensor."""
        contents = files.Contents(self.scheme, self.tensor, self.vocabulary.labels, self.counts, self.trained)
        files.write(path, contents, dtype)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Self:
        """The memory of a file."""
        contents = files.read(path)
        scheme, fillers, vocabulary = contents.scheme.like(device=device), contents.fillers, contents.vocabulary
        trained = 0 if fillers is None else len(fillers)
        memory = cls(scheme, vocabulary[:trained], fillers)
        for leaf in vocabulary[trained:]:
            memory.vocabulary.add(leaf)
        memory.tensor, memory.counts = contents.tensor.to(scheme.device), contents.counts
        return memory


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
