"""What a memory holds at one moment: never changed, but replaced whole, so that readers see all of it."""

import copy
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.errors import BadValue
from carving.inference import likelihood
from carving.inference.calibration import Consolidated
from carving.inference.likelihood import UNSEEN_COUNT, CardinalityPrior, Likelihood
from carving.inference.sample import NOTHING_SAMPLED, ONCE, Histogram, Loads, PairSample, Strengths
from carving.memory.codebook import Codebook
from carving.memory.counts import Counts, KnownPaths
from carving.memory.pairs import BATCH
from carving.planner.requirements import Target
from carving.quantization import Cells
from carving.schemes.base import CandidatesOrFillers, Scheme
from carving.symbols.codec import Value
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import lasting
from carving.validate import listed

T = TypeVar("T")


class Kept:
    """Values by their names, each with the tensors it was made of: made anew when one of these is another or changed.

    Tensors count the changes that torch makes in place; what is written into them behind torch's back (by NumPy, or
    through `.data`) is not seen. They are not held on to.

    >>> import torch
    >>> kept, tensor = Kept(), torch.ones(3)
    >>> kept.once("sum", [tensor], (), lambda: float(tensor.sum())), kept.once("sum", [tensor], (), lambda: 7.0)
    (3.0, 3.0)
    >>> tensor += 1
    >>> kept.once("sum", [tensor], (), lambda: float(tensor.sum()))
    6.0
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[list[tuple[ref[Tensor], int]], Hashable, object]] = {}

    def once(self, name: str, tensors: list[Tensor], options: Hashable, make: Callable[[], T]) -> T:
        """The value of that name for these tensors and options: the last one, if it was made of the same."""
        entry = self._entries.get(name)
        if entry is not None and entry[1] == options and all(map(_same, entry[0], tensors)):
            return cast(T, entry[2])
        value = make()
        try:
            self._entries[name] = [(ref(tensor), tensor._version) for tensor in tensors], options, value
        except RuntimeError:  # tensors of `torch.inference_mode` do not count their changes
            self._entries.pop(name, None)
        return value

    def only(self, name: str) -> "Kept":
        """Another that has the value of that name alone."""
        other = Kept()
        if name in self._entries:
            other._entries[name] = self._entries[name]
        return other

    def __reduce__(self) -> tuple[type["Kept"], tuple[()]]:
        return Kept, ()  # a copy, of this process or another, has nothing yet


def _same(seen: tuple[ref[Tensor], int], tensor: Tensor) -> bool:
    return seen[0]() is tensor and seen[1] == tensor._version


SIGMAS = 5  # standard deviations of chance
OFF = 0.05  # and of what theory leaves out: by more, the energy is not that of the sample

EMPTY = "The memory is empty: there is no value to answer with. Store pairs first."
NOT_KEPT = (
    "The memory keeps no paths. Pass the paths, or use a memory that keeps them: Memory(..., keep_paths=True), or "
    "grow(paths=..., keep_paths=True) of this one."
)


@dataclass(frozen=True, eq=False)
class State:
    """A scheme's tensor, the values to answer with, how often each was stored, and what follows from them."""

    scheme: Scheme
    tensor: Tensor
    vocabulary: Vocabulary
    often: Counts  # that each value was stored
    codebook: Codebook
    target: Target | None = None  # what it was planned for
    room: tuple[int, int] = (0, 0)  # with so many pairs and leaves it is known not to fall short of that
    told: int = 0  # the pairs with which it was last said that it does
    known: KnownPaths | None = None  # the paths that hold something, where they are kept
    solved: Consolidated | None = None  # how its tensor was solved, if it is no sum
    sample: PairSample | Histogram = NOTHING_SAMPLED  # of the pairs, with their net weights
    cells: Cells | None = None  # where it is quantized: what the tensor's numbers were made of
    norm: float | None = None  # the squared norm of all slabs, where the tensor is one: the act that made it knows
    kept: Kept = field(default_factory=Kept)

    @classmethod
    def empty(
        cls,
        scheme: Scheme,
        vocabulary: Vocabulary,
        fillers: Tensor | None = None,
        target: Target | None = None,
        known: KnownPaths | None = None,
    ) -> "State":
        """Nothing, and values that are known beforehand."""
        with lasting():  # so that changes are counted, and what follows from the tensors can be kept
            tensor, counts = scheme.zeros(), torch.zeros(len(vocabulary), dtype=torch.float64)
            codebook = Codebook(scheme, vocabulary, fillers)
        return cls(scheme, tensor, vocabulary, Counts(counts), codebook, target, room_of(target), known=known)

    def holding(self, tensor: Tensor, values: Collection[bytes] | Vocabulary, weights: Tensor) -> "State":
        """The state with another tensor, and values (by their canonical bytes) that were stored so much more."""
        vocabulary, rows = self.vocabulary.extended(values)
        often, codebook = self.often.plus(len(vocabulary), rows, weights), self.codebook
        if vocabulary is not self.vocabulary:
            codebook = copy.copy(codebook)  # what it has made stays made
            codebook.vocabulary = vocabulary
        kept = self.kept.only("energy")  # which is made anew if the tensor is another
        after = replace(self, tensor=tensor, vocabulary=vocabulary, often=often, codebook=codebook, kept=kept)
        return after if self.norm is None else replace(after, norm=None)

    def emptied(self) -> "State":
        """The same without anything stored: the scheme, the goal and the values whose fillers were trained."""
        trained = self.codebook.trained
        first = self.vocabulary.first(0 if trained is None else len(trained))
        return State.empty(self.scheme, first, trained, self.target, keeping(self.known is not None))

    def moved(self, scheme: Scheme) -> "State":
        """A copy for a scheme that differs in its device or precision."""
        tensor = self.tensor.to(scheme.device, scheme.facts.memory_dtype, copy=True)
        start = replace(self, scheme=scheme).emptied()
        moved = start.holding(tensor, self.vocabulary, self.counts)
        return replace(moved, room=self.room, told=self.told, known=self.known, sample=self.sample, solved=self.solved)

    @property
    def counts(self) -> Tensor:
        """How often each value was stored, (values,)."""
        return self.often.tensor

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return round(self.stored)

    @property
    def load(self) -> int:
        """How many pairs, each stored once, would fill it as much: what is predicted depends on it."""
        return round(self.histogram.load) if self.histogram.strengths else self.pairs

    def loads(self, more: int = 0) -> Loads:
        """The same for pairs of each strength, and which share of all they are; with so many pairs more."""
        histogram = self.histogram
        return histogram.loads(more) if histogram.strengths else ((self.pairs + more, 1.0),)

    @property
    def share(self) -> float:
        """The part of the tensor's energy that is of pairs: all but the noise of few bits."""
        return 1.0 if self.cells is None else self.cells.kept

    @property
    def observed(self) -> Tensor | Cells:
        """What is known of the sum of all pairs: itself, or the cells in which its numbers lie."""
        return self.tensor if self.cells is None else self.cells

    def value(self, row: int) -> Value:
        """The value of a row."""
        return self.vocabulary[row]

    @property
    def batch(self) -> int:
        """How many questions are asked at once: what they show of the memory takes a few workspaces at most."""
        facts = self.scheme.facts
        core = math.prod(facts.core_shape) * facts.memory_dtype.itemsize
        return max(1, min(BATCH, 4 * self.scheme.workspace // core))

    @property
    def stored(self) -> float:
        """The sum of the pairs' weights."""
        return self.often.stored

    @property
    def energy(self) -> float:
        """The squared norm of the memory."""
        if self.norm is not None:
            return self.norm
        return self.kept.once("energy", [self.tensor], (), lambda: self.scheme.squared_norm(self.tensor))

    @property
    def squares(self) -> float | None:
        """The sum of the strengths' squares, as the energy tells it; None where it does not.

        Without signs, pairs of one filler have something in common, which counts for each two of them.
        """
        facts, scheme = self.scheme.facts, self.scheme
        if not facts.linear:
            return None
        common = facts.bias * float(self.counts.square().sum()) if facts.bias else 0.0
        return max(0.0, self.energy * self.share / scheme.mean_bound_energy - common) / (1 - facts.bias)

    @property
    def chance(self) -> float:
        """The standard deviation of the energy, relative to itself."""
        facts = self.scheme.facts
        return math.sqrt(2 * max(1.0, facts.echo) / facts.memory_scalars)

    @property
    def histogram(self) -> Histogram:
        """How many pairs are held how strongly, as far as they were sampled."""
        return self.sample.histogram(self.stored)

    @property
    def strengths(self) -> Strengths:
        """The distribution of the strengths of pairs: that of the sample, if the energy agrees with it."""

        def made() -> Strengths:
            histogram, squares = self.histogram, self.squares
            if not histogram.strengths:  # nothing was sampled
                histogram = Histogram(((1.0, self.stored or 1.0),))
            if not squares or not histogram.squares or not math.isfinite(squares + histogram.squares):
                return ONCE
            factor = squares / histogram.squares
            if abs(math.log(factor)) > OFF + SIGMAS * self.chance:
                missing = isinstance(self.sample, PairSample) and self.sample.bits
                # A strong pair that is not in the sample; or the tensor was changed by other means.
                histogram = (
                    histogram.with_pair(math.sqrt(squares - histogram.squares))
                    if missing and factor > 1
                    else histogram.scaled(strengths=math.sqrt(factor))
                )
            return histogram.as_strengths()

        of = [self.tensor, self.counts] if self.scheme.facts.bias else [self.tensor]
        return self.kept.once("strengths", of, (self.sample, self.stored), made)

    @property
    def hidden(self) -> float:
        """The expected number of pairs of a value whose count is zero because pairs of negative weight cancel them.

        The difference of two Poisson numbers of means a and b is 0: the first is then about ab / (1 + sqrt(ab)).
        """
        histogram = self.histogram
        if not histogram.negative or not len(self.vocabulary):
            return 0.0
        positive, size = histogram.sum, len(self.vocabulary)
        product = positive * max(0.0, positive - float(self.counts.sum())) / size**2
        return product / (1 + math.sqrt(product))

    def candidates(
        self, candidates: Iterable[Value] | None, asked: int
    ) -> tuple[Sequence[int], CandidatesOrFillers | list[Value]]:
        """The vocabulary's rows that may be answered, and their fillers, or labels where those are too many."""
        if candidates is not None:
            return self.held_candidates(candidates)
        held = self.codebook.holdable
        return range(self.often.size), self.codebook.ready(asked) if held else self.vocabulary.labels

    def held_candidates(self, candidates: Iterable[Value] | None) -> tuple[Sequence[int], Tensor]:
        """The vocabulary's rows that may be answered, and their fillers."""
        if candidates is None:
            return range(len(self.vocabulary)), self.codebook.all()
        rows = self.rows_among(candidates)
        return rows, self.codebook.of([self.vocabulary[row] for row in rows])

    def rows_among(self, candidates: Iterable[Value] | None) -> Sequence[int]:
        """The vocabulary's rows of some values, each once, or of all."""
        if candidates is None:
            return range(len(self.vocabulary))
        return list(dict.fromkeys(map(self._row, listed(candidates, "candidates"))))

    def _row(self, value: Value) -> int:
        row = self.vocabulary.find(value)
        if row is None:
            raise BadValue(
                f"candidates= must contain values that the memory knows, got {value!r}, which was never stored. Omit "
                "it."
            )
        return row

    def odds(self, scheme: Scheme, prior_empty: float, rows: Sequence[int]) -> Likelihood:
        """What makes odds of evidence for the values of these rows."""
        counts = self.often.laid if isinstance(rows, range) else self.often.of(rows)
        counts = self.counts if counts is None else counts

        def made() -> Likelihood:
            prior = likelihood.log_prior(counts, prior_empty, self.hidden)
            own, white = self._own(counts), 1 - self.share
            odds = likelihood.make_likelihood(scheme, self.energy, own, self.stored, prior, self.strengths, white)
            return replace(odds, cardinality=CardinalityPrior(prior_empty, self.sample.further()))

        return self.kept.once("odds", [self.tensor, counts], (prior_empty, self.sample), made)

    @property
    def prior_range(self) -> float:
        """By how much the log odds of values differ at most before the memory is asked."""

        least, most = (max(0.0, each) + UNSEEN_COUNT for each in self.often.summary[1:])
        return math.log(most / least)

    def _own(self, counts: Tensor) -> Tensor:
        """How often values were stored whose pairs add to each other's noise; of fillers that were given, in the mean.

        Those may be alike, so that one which was never stored meets the noise of those that it is like.
        """
        if self.codebook.trained is None:
            return counts
        often = self.counts.clamp_min(0)
        return torch.full_like(counts, float(often.square().sum() / often.sum().clamp_min(1)))

    def odds_of(self, scheme: Scheme, prior_empty: float, rows: NDArray[np.int64]) -> Likelihood:
        """The same for some values of the whole vocabulary, without looking at the others."""
        counts, total = self.often.of(rows), self.stored + (UNSEEN_COUNT + self.hidden) * len(self.often)
        prior = likelihood.log_prior(counts, prior_empty, self.hidden, total)
        odds = likelihood.make_likelihood(
            scheme, self.energy, counts, self.stored, prior, self.strengths, 1 - self.share
        )
        return replace(odds, cardinality=CardinalityPrior(prior_empty, self.sample.further()))


def room_of(target: Target | None) -> tuple[int, int]:
    """The pairs and values that a memory was planned for."""
    return (0, 0) if target is None else (target.pairs, target.vocabulary)


def check_sum(held: State, what: str) -> None:
    """Refuse what only sums can do."""
    if held.solved is not None:
        raise BadValue(
            f"Cannot {what}: the memory was consolidated and is no longer the sum of its pairs. Store the pairs in a "
            "new memory: Memory.like(memory)."
        )


def solved_of_both(ours: State, theirs: State) -> Consolidated | None:
    """What is known of a sum with one that was solved: what the other holds is noise to it."""
    if ours.solved is None or theirs.solved is None:
        solved, other = (ours.solved, theirs) if ours.solved is not None else (theirs.solved, ours)
        return None if solved is None else solved.plus(other.squares or 0.0)
    if not bool(theirs.counts.any()):
        return ours.solved
    raise BadValue(
        "Cannot add two consolidated memories: each would be noise to the other. Store the pairs of both in a new "
        "memory, Memory.like(memory), and consolidate that."
    )


def stricter(one: Target | None, other: Target | None) -> Target | None:
    """The goal of memories that become one: the more accurate."""
    return max((target for target in (one, other) if target), key=lambda target: target.accuracy, default=None)


def known_paths(held: State) -> KnownPaths:
    """The paths that are kept; where none are, that is said, with the way out."""
    if held.known is None:
        raise BadValue(NOT_KEPT)
    return held.known


def keeping(paths: bool) -> KnownPaths | None:
    """No paths yet, where they are to be kept."""
    return KnownPaths() if paths else None


def paths_of_both(ours: State, theirs: State) -> KnownPaths | None:
    """The paths of memories that become one; those of only one of them would not be all."""
    if ours.known is not None and theirs.known is not None:
        return ours.known.changed(theirs.known.weights().items())
    for one, other in ((ours, theirs), (theirs, ours)):
        if one.known is not None and not bool(other.counts.any()):
            return one.known
        if one.known is not None:
            raise BadValue(
                "Cannot add a memory that keeps its paths and one that does not: the sum would lack paths. Drop them "
                "first: memory.without_paths()."
            )
    return None
