"""Memory: symbols in, symbols out.

A memory is a scheme, one tensor, and the leaves that were stored (with how often, for the noise and as what is likely
before the tensor is asked). Everything that fails leaves it as it was.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self, overload

import torch
from torch import Tensor

from carving import files, sizing, verification
from carving.answers import best as recall
from carving.answers import sets as peeling
from carving.answers import together as joint
from carving.answers.best import Odds
from carving.checks import as_path, check_integer, check_tensor, listed
from carving.chunks import slices
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, flatten, rebuild
from carving.prediction import plan as planner
from carving.scheme import Contexts, Scheme
from carving.schemes import make
from carving.symbols import Leaf, Path, Vocabulary, canonical, canonical_path
from carving.verification import Verification

BATCH = 2048  # pairs or questions between two steps of the progress
CODEBOOK = 2**31  # bytes: the fillers of a larger vocabulary are made from their labels whenever they are asked
EMPTY = "this memory knows no leaf to answer with, because nothing was stored; store something first"
UNSEEN = 0.01  # how often a leaf that is known but not stored counts as stored

Progress = Callable[[int], None]  # told how many pairs or questions are done more


@dataclass(frozen=True)
class Answer:
    """A leaf with how strongly the memory holds it (1 if stored once) and how probably it was stored there.

    Where nothing is stored, `found` is False, the leaf None and the probability that of nothing being there. Schemes
    that are not linear (`scheme.facts.linear`) have no probabilities: not-a-number then. Those of HRR are too sure
    where paths share roles; `unitary=True` mends it.
    """

    leaf: Leaf
    score: float
    probability: float
    found: bool = True

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        missing = "" if self.found else ", found=False"
        return f"Answer(leaf={self.leaf!r}, score={self.score!r}, probability={self.probability!r}{missing})"


class Answers(list[Answer]):
    """Answers that were found together, and whether they came to rest with hardly a doubt left."""

    def __init__(self, answers: Iterable[Answer], converged: bool, rounds: int) -> None:
        super().__init__(answers)
        self.converged = converged
        self.rounds = rounds  # how often the memory was read


class Memory:
    """A memory of fixed size: documents or pairs go in, leaves come out by their paths."""

    def __init__(self, scheme: Scheme, vocabulary: Iterable[Leaf] = (), fillers: Tensor | None = None) -> None:
        """An empty memory. Leaves that are known beforehand may have fillers of their own: trained ones."""
        self.scheme = scheme
        self.tensor = scheme.zeros()
        self.vocabulary = Vocabulary(vocabulary)
        self.trained = fillers = None if fillers is None else fillers.detach()
        if fillers is not None:
            check_tensor("fillers", fillers, (len(self.vocabulary), *scheme.filler_shape), "give one for each leaf")
            check_finite("fillers", fillers)
        self.counts = torch.zeros(len(self.vocabulary), dtype=torch.float64)  # how often each leaf was stored
        self._codebook = scheme.joined(*([] if fillers is None else [fillers]))

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
        on_progress: Progress | None = None,
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
        room, accuracy = sizing.check_room(room), sizing.naming_accuracy(accuracy)
        expected = sizing.survey(chain.from_iterable(batches(pairs)), on_progress).grown(room)
        return cls.planned(expected.pairs, expected.leaves, accuracy, seed=seed, shared=expected.shared, **wishes)

    def __repr__(self) -> str:
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}"

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return round(float(self.counts.clamp_min(0).sum()))

    # In

    def store(self, what: Document | Iterable[Pair], *, weight: float = 1.0, progress: Progress | None = None) -> int:
        """Store a document, or pairs of a path and a leaf; the number of pairs. Any size: it is read in batches."""
        return self._add(batches(what), check_weight(weight), progress)

    def forget(
        self, what: Document | Iterable[Pair], *, weight: float = 1.0, progress: Progress | None = None
    ) -> list[Pair]:
        """Take a document or pairs out again; those that were probably never stored come back (and are taken out)."""
        strangers: list[Pair] = []
        times = Counter[bytes]()

        def watched() -> Iterator[list[Pair]]:
            for batch in batches(what):
                if self.scheme.facts.linear:
                    for pair, answer in zip(batch, self._recognised(batch), strict=True):
                        name = canonical_path(pair[0]) + canonical(pair[1])
                        times[name] += 1  # what is forgotten twice must have been stored twice
                        if not answer or answer.score < times[name] - 0.5 > 0.5:
                            strangers.append(pair)
                yield batch

        weight = check_weight(weight)
        self._add(watched(), -weight, progress)
        for _, leaf in strangers:  # they were never counted
            self.counts[self.vocabulary.index(leaf)] += weight
        return strangers

    def _add(self, given: Iterable[list[Pair]], weight: float, progress: Progress | None) -> int:
        # Everything is made before anything is changed, so that an error leaves the memory as it was.
        trace, counts, leaves, total = self.scheme.zeros(), Counter[bytes](), dict[bytes, Leaf](), 0
        for batch in given:
            names = [canonical_leaf(leaf, path) for path, leaf in batch]
            distinct = dict(zip(names, (leaf for _, leaf in batch), strict=True))
            places = {name: i for i, name in enumerate(distinct)}
            rows = torch.tensor([places[name] for name in names], device=self.scheme.device)
            fillers = self._fillers_of(list(distinct.values()))[rows]
            trace += self.scheme.trace([path for path, _ in batch], fillers)
            counts.update(names)
            leaves.update(distinct)
            total += len(batch)
            _tell(progress, len(batch))
        if not total:
            raise BadValue("there must be something to store, got no pairs; give a document with at least one leaf")
        if weight != 1:
            trace *= weight
        changed = self.tensor + trace
        check_finite("the memory", changed)
        self.tensor = changed
        grown = [self.vocabulary.add(leaf) for leaf in leaves.values()]
        self.counts = torch.cat([self.counts, self.counts.new_zeros(len(self.vocabulary) - len(self.counts))])
        self.counts[grown] += weight * torch.tensor([counts[name] for name in leaves], dtype=torch.float64)
        return total

    def __add__(self, other: "Memory") -> "Memory":
        """Both memories' pairs in one: their tensors and counts added, their vocabularies joined."""
        if not isinstance(other, Memory):
            return NotImplemented
        check_same(self, other)
        both = Memory(self.scheme)
        both.vocabulary = Vocabulary(self.vocabulary)
        places = [both.vocabulary.add(leaf) for leaf in other.vocabulary]
        both.counts = torch.cat([self.counts, self.counts.new_zeros(len(both.vocabulary) - len(self.counts))])
        both.counts[places] += other.counts
        both.tensor = self.tensor + other.tensor.to(self.tensor)
        both.trained, both._codebook = self.trained, self._codebook
        return both

    # Out

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
        progress: Progress | None = None,
    ) -> list[Any]:
        """One answer a path, or one list of answers a path; see `recall`."""
        asked = self._asked(paths)
        choices, candidates = self._candidates(among)
        k = 1 if top is None else min(check_integer("top", top, 1), len(choices))
        odds = self._odds(absence, choices)
        answers: list[Any] = []
        if odds is None:
            for some in slices(len(asked), BATCH):
                best = recall.top(self.scheme, self.tensor, asked[some], candidates, k)
                for row in zip(best.indices.tolist(), best.scores.tolist(), strict=True):
                    made = [Answer(self.vocabulary[choices[i]], score, math.nan) for i, score in zip(*row, strict=True)]
                    answers.append(made[0] if top is None else made)
                _tell(progress, len(best.indices))
            return answers
        for _, contexts in self.scheme.places(asked, self._batch):
            answers += self._weighed(contexts, candidates, choices, odds, k, top is None, absence)
            _tell(progress, len(contexts))
        return answers

    def _weighed(
        self,
        contexts: Contexts,
        candidates: Any,
        choices: Sequence[int],
        odds: Odds,
        k: int,
        single: bool,
        absence: float,
    ) -> Iterator[Any]:
        best, total = recall.weigh(self.scheme, self.tensor, contexts, candidates, odds, k)
        nothing = math.log(absence) if absence else -math.inf
        whole = torch.logaddexp(total.double(), torch.tensor(nothing, dtype=torch.float64, device=total.device))
        found = self._fillers_of([self.vocabulary[choices[i]] for i in best.indices.flatten().tolist()])
        shown = recall.seen(
            self.scheme,
            self.scheme.adjoint(self.tensor, contexts),
            contexts,
            found.unflatten(0, best.indices.shape),
        )
        scores, chances = (
            (shown.inner / shown.energy).tolist(),
            (best.scores.double() - whole.unsqueeze(1)).exp().tolist(),
        )
        absent = (nothing - whole).exp().tolist()
        for row, chance, score, none in zip(best.indices.tolist(), chances, scores, absent, strict=True):
            if single and none >= chance[0]:
                yield Answer(None, score[0], none, found=False)
                continue
            made = [
                Answer(self.vocabulary[choices[i]], s, min(c, 1.0)) for i, s, c in zip(row, score, chance, strict=True)
            ]
            yield made[0] if single else made

    def recognise(self, *path: Any, leaf: Leaf, absence: float = 0.5) -> Answer:
        """How probably the leaf is stored under the path; `found` where it is more probable than not.

        Without probabilities (schemes that are not linear) every leaf is found: look at the score.
        """
        return self.recognise_many([(path, leaf)], absence=absence)[0]

    def recognise_many(
        self, pairs: Iterable[Pair], *, absence: float = 0.5, progress: Progress | None = None
    ) -> list[Answer]:
        """How probably each leaf is stored under its path: one answer a pair; see `recognise`."""
        if not len(self.vocabulary):
            raise BadValue(EMPTY)
        return self._recognised([as_pair(pair) for pair in listed(pairs, "pairs")], check_absence(absence), progress)

    def _recognised(self, asked: list[Pair], absence: float = 0.5, progress: Progress | None = None) -> list[Answer]:
        prior = math.log(1 - absence) - math.log(absence) if absence else math.inf
        places = [self.vocabulary.find(leaf) for _, leaf in asked]
        padded = torch.cat([self.counts, self.counts.new_zeros(1)])
        odds = self._noise(padded[[-1 if place is None else place for place in places]], prior)
        answers = []
        for rows, contexts in self.scheme.places([path for path, _ in asked], self._batch):
            batch = asked[rows]
            fillers = self._fillers_of([leaf for _, leaf in batch]).unsqueeze(1)
            if self.scheme.facts.linear:
                cores = self.scheme.adjoint(self.tensor, contexts)
                shown = recall.seen(self.scheme, cores, contexts, fillers)
                own = peeling.crowding(self.scheme, cores, shown, odds).unsqueeze(1)
                some = torch.arange(len(asked))[rows].unsqueeze(1)
                chances, scores = odds.weigh(shown, some, own).double().sigmoid(), shown.inner / shown.energy
            else:
                scores = self.scheme.score(self.tensor, contexts, fillers)
                chances = torch.full_like(scores, math.nan)
            answers += [
                Answer(leaf, score, chance, found=not chance < 0.5)
                for (_, leaf), score, chance in zip(batch, scores[:, 0].tolist(), chances[:, 0].tolist(), strict=True)
            ]
            _tell(progress, len(batch))
        return answers

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
        progress: Progress | None = None,
    ) -> list[list[Answer]]:
        """One list of answers a path, where contexts may hold several leaves; see `recall_set`."""
        if not 0 < threshold < 1:
            raise BadValue(f"threshold must lie between 0 and 1, got {threshold!r}; 0.5 is usual")
        asked = self._asked(paths)
        choices, candidates = self._candidates(among, made=True)
        odds = self._odds(absence, choices)
        if odds is None:
            raise BadValue(
                f"sets need probabilities, which {self.scheme} has none of, because its memory settles; "
                'memory="raw" or another scheme has them, and recall(..., top=k) gives the k best'
            )
        least = math.log(threshold / (1 - threshold))
        answers: list[list[Answer]] = []
        for _, contexts in self.scheme.places(asked, self._batch):
            held = peeling.peel(self.scheme, self.tensor, contexts, candidates, odds, least)
            found: list[dict[int, Answer]] = [{} for _ in range(len(contexts))]
            columns = (held.rows, held.indices, held.scores, held.odds.double().sigmoid())
            for row, i, score, chance in zip(*(column.tolist() for column in columns), strict=True):
                # One that was stored twice is found twice.
                found[row].setdefault(i, Answer(self.vocabulary[choices[i]], score, chance))
            answers += (sorted(each.values(), key=lambda answer: -answer.probability) for each in found)
            _tell(progress, len(contexts))
        return answers

    def recall_all(
        self,
        paths: Iterable[Path],
        *,
        among: Iterable[Leaf] | None = None,
        absence: float = 0.5,
        rounds: int = 100,
        progress: Progress | None = None,
    ) -> "Answers":
        """One answer a path, all found together: exact far beyond the load at which single questions fail.

        Give every path that was stored, as far as known: what others hold stays noise. A path that holds several leaves
        is given as often, and each time has another answer. The result says whether it `converged`; if not, its answers
        are, but for chance, no worse than single ones. It takes memory for what every path shows, a core each.
        """
        asked = self._asked(paths)
        choices, candidates = self._candidates(among, made=True)
        names = [canonical_path(path) for path in asked]
        times = Counter(names)  # in the order of their first appearance
        first = dict(zip(reversed(names), reversed(asked), strict=True))
        told = 0

        def heard(_: int, left: float) -> None:
            nonlocal told
            done = max(told, round(len(asked) * (1 - min(1.0, left))))
            _tell(progress, done - told)
            told = done

        counts = self.counts[list(choices)].clamp_min(0)
        found = joint.decode(
            self.scheme,
            self.tensor,
            self.scheme.contexts([first[name] for name in times]),
            candidates,
            holds=list(times.values()),
            prior=counts + UNSEEN,
            shares=counts / max(float(self.counts.clamp_min(0).sum()), 1.0),
            absence=check_absence(absence),
            rounds=rounds,
            heard=heard,
        )
        _tell(progress, len(asked) - told)
        columns = (found.indices.tolist(), found.scores.tolist(), found.probabilities.tolist())
        answers = {name: list[Answer]() for name in times}
        owners = (name for name, count in times.items() for _ in range(count))
        for name, index, score, chance in zip(owners, *columns, strict=True):
            leaf = None if index < 0 else self.vocabulary[choices[index]]
            answers[name].append(Answer(leaf, score, min(chance, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(some, key=lambda one: not one.found)) for name, some in answers.items()}
        return Answers((next(ordered[name]) for name in names), found.converged, found.rounds)

    def rebuild(self, paths: Iterable[Path], **how: Any) -> Document:
        """The document that lies under these paths; where nothing is found, nothing stands."""
        asked = [as_path(path) for path in listed(paths, "paths")]
        answers = self.recall_many(asked, **how)
        return rebuild((path, answer.leaf) for path, answer in zip(asked, answers, strict=True) if answer)

    def verify(
        self, pairs: Document | Iterable[Pair], *, joint: bool = False, on_progress: Progress | None = None
    ) -> Verification[Answer]:
        """How many of the pairs it answers rightly, and which wrongly; with `joint`, all of them asked together.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.right, outcome.share, [(wrong.path, wrong.leaf, wrong.answer.leaf) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'meow', 'woof')])
        """
        return verification.verify(self, chain.from_iterable(batches(pairs)), joint, on_progress)

    def predicted(self, pairs: int = 0) -> float | None:
        """The share of leaves that it is predicted to name, once so many pairs more are stored; None if none is.

        Predictions are for leaves of which each is used about as often, asked for one at a time.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted() is None, memory.predicted(pairs=2) > 0.99, memory.predicted(pairs=1000) < 0.9
        (True, True, True)
        """
        return sizing.predicted(self.scheme, self.pairs + check_integer("pairs", pairs, 0), len(self.vocabulary))

    # What is between

    @property
    def _batch(self) -> int:
        """How many questions are asked at once: what they show of the memory takes a few workspaces at most."""
        core = math.prod(self.scheme.core_shape) * self.scheme.memory_dtype.itemsize
        return max(1, min(BATCH, 4 * self.scheme.workspace // core))

    def _asked(self, paths: Iterable[Path]) -> list[Path]:
        asked = [as_path(path) for path in listed(paths, "paths")]
        for path in asked:
            canonical_roles(path)
        if not len(self.vocabulary):
            raise BadValue(EMPTY)
        return asked

    def _candidates(self, among: Iterable[Leaf] | None, made: bool = False) -> tuple[Sequence[int], Any]:
        """The places in the vocabulary that may be answered, and their fillers, or labels where those are too many."""
        if among is None:
            size = math.prod(self.scheme.filler_shape) * self.scheme.dtype.itemsize
            if len(self.vocabulary) * size > CODEBOOK and self.trained is None and not made:
                return range(len(self.vocabulary)), self.vocabulary.labels
            return range(len(self.vocabulary)), self._fillers()
        places = list(dict.fromkeys(self._place(leaf) for leaf in listed(among, "among")))
        return places, self._fillers_of([self.vocabulary[place] for place in places])

    def _place(self, leaf: Leaf) -> int:
        place = self.vocabulary.find(leaf)
        if place is None:
            raise BadValue(
                f"among must hold leaves that this memory knows, got {leaf!r}, which was never stored; leave it out"
            )
        return place

    def _fillers(self) -> Tensor:
        """The fillers of the whole vocabulary, kept from question to question."""
        missing = self.vocabulary.labels[len(self._codebook) :]
        if missing:
            self._codebook = self.scheme.joined(self._codebook, self.scheme.fillers(missing))
        return self._codebook

    def _fillers_of(self, leaves: list[Leaf]) -> Tensor:
        known = [-1 if place is None else place for place in map(self.vocabulary.find, leaves)]
        held = len(self._codebook)
        if all(0 <= place < held for place in known):
            return self._codebook[known]
        fillers = self.scheme.fillers(leaves)
        if self.trained is not None:
            own = [(row, place) for row, place in enumerate(known) if 0 <= place < len(self.trained)]
            if own:
                rows, places = zip(*own, strict=True)
                fillers[list(rows)] = self.trained[list(places)].to(fillers)
        return fillers

    def _variance(self, counts: Tensor) -> Tensor:
        """The variance of the interference for leaves that were stored so often, in one real number of the memory.

        The memory's own norm tells it, forgotten pairs and merged memories and all; pairs of the same leaf count more.
        """
        facts = self.scheme.facts
        norm = float(torch.linalg.vector_norm(self.tensor).double().square())
        total = max(float(self.counts.clamp_min(0).sum()), 1.0)
        share = facts.interference + counts.clamp_min(0) / total * (facts.echo - facts.interference)
        floor = torch.finfo(self.scheme.dtype).eps ** 2  # an empty memory has no noise
        return (norm / facts.memory_scalars * share).clamp_min(floor)

    def _noise(self, counts: Tensor, prior: Tensor | float) -> Odds:
        """The odds of leaves that were stored so often."""
        device, dtype = self.scheme.device, self.scheme.dtype
        known = torch.as_tensor(prior, dtype=torch.float64).expand(len(counts))
        norm = max(float(torch.linalg.vector_norm(self.tensor).double().square()), 1e-30)
        return Odds(self._variance(counts).to(device, dtype), known.to(device, dtype), norm)

    def _odds(self, absence: float, choices: Sequence[int]) -> Odds | None:
        absence = check_absence(absence)
        if not self.scheme.facts.linear:
            return None
        counts = self.counts if isinstance(choices, range) else self.counts[list(choices)]
        often = counts.clamp_min(0) + UNSEEN
        return self._noise(counts, torch.log((1 - absence) * often / often.sum()))

    # Files

    def save(self, path: str | os.PathLike[str], dtype: torch.dtype | None = None) -> None:
        """Write the memory to one file, whole or not at all; `dtype` may be a smaller one for the tensor."""
        files.write(path, self.scheme, self.tensor, self.vocabulary.labels, self.counts, self.trained, dtype)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Self:
        """The memory of a file."""
        found = files.read(path)
        scheme = found.scheme.like(device=device)
        trained = 0 if found.fillers is None else len(found.fillers)
        memory = cls(scheme, found.vocabulary[:trained], found.fillers)
        for leaf in found.vocabulary[trained:]:
            memory.vocabulary.add(leaf)
        memory.tensor, memory.counts = found.tensor.to(scheme.device), found.counts
        return memory


def _tell(progress: Progress | None, more: int) -> None:
    if progress:
        progress(more)


# What comes in


def batches(what: Any) -> Iterator[list[Pair]]:
    """Pairs of a document, or pairs as they come, in batches."""
    pairs = map(as_pair, as_pairs(what))
    while batch := list(islice(pairs, BATCH)):
        yield batch


def as_pairs(what: Any) -> Iterable[Pair]:
    """A document's pairs, or the pairs that were given: tuples, which no document holds."""
    if isinstance(what, Mapping):
        return _not_empty(flatten(dict(what)))
    if isinstance(what, list):
        return what if what and isinstance(what[0], tuple) else _not_empty(flatten(what))
    if isinstance(what, Iterable) and not isinstance(what, str | bytes | Tensor):
        return what
    raise BadType(
        f"a document (nested dicts and lists) or pairs of a path and a leaf were wanted, got {what!r} "
        f"of type {type(what).__name__}; a single pair is [(path, leaf)]"
    )


def _not_empty(pairs: Iterator[Pair]) -> Iterator[Pair]:
    for path, leaf in pairs:
        if not path:
            raise BadValue("a document must have at least one leaf with a path, got an empty one")
        yield path, leaf


def as_pair(pair: Any) -> Pair:
    """The pair; what is none, or has a label without canonical form, is refused."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise BadType(f"a pair must be a tuple of a path and a leaf, got {pair!r}; such as (('a', 'b'), 'leaf')")
    path = as_path(pair[0])
    canonical_roles(path)
    canonical_leaf(pair[1], path)
    return path, pair[1]


def canonical_roles(path: Path) -> bytes:
    """The path's bytes; a role that is no label is told with its path."""
    try:
        return canonical_path(path)
    except (TypeError, ValueError) as error:
        raise type(error)(f"in the path {path!r}: {error}") from None


def canonical_leaf(leaf: Leaf, path: Path) -> bytes:
    """The leaf's bytes; one that is no label is told with its path."""
    try:
        return canonical(leaf)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the leaf at {path!r}: {error}") from None


def check_weight(weight: Any) -> float:
    """The weight, a finite number."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise BadValue(f"weight must be a finite number, got {weight!r}; 1 stores a pair once")
    return float(weight)


def check_absence(absence: Any) -> float:
    """The prior probability of absence."""
    if isinstance(absence, bool) or not isinstance(absence, int | float) or not 0 <= absence < 1:
        raise BadValue(f"absence must be a probability from 0 to below 1, got {absence!r}; 0.5 is usual")
    return float(absence)


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse what is not finite."""
    if not bool(torch.isfinite(tensor).all()):
        raise BadValue(f"{name} must be finite numbers, got not-a-number or infinity; look at where they come from")


def check_same(one: Memory, other: Memory) -> None:
    """Refuse two memories that cannot be added, and say what differs."""
    ours, theirs = (dict(scheme=type(m.scheme).__name__, **m.scheme.parameters) for m in (one, other))
    kind = "name" if "name" in ours and "name" in theirs else "scheme"
    names = [kind] if ours[kind] != theirs[kind] else list(dict.fromkeys(chain(ours, theirs)))
    differ = [f"{n} ({ours.get(n)!r} and {theirs.get(n)!r})" for n in names if ours.get(n) != theirs.get(n)]
    if differ:
        raise BadValue(
            f"only memories of one scheme, with the same parameters and seed, can be added; these differ in "
            f"{', '.join(differ)}; store the pairs of one in a memory like the other"
        )
    if (one.trained is None) != (other.trained is None) or (
        one.trained is not None
        and other.trained is not None
        and (
            one.vocabulary.labels[: len(one.trained)] != other.vocabulary.labels[: len(other.trained)]
            or not torch.equal(one.trained, other.trained)
        )
    ):
        raise BadValue("these memories have different trained fillers, so that their tensors do not add")
