"""Reader of a memory: everything that is derived from one state, computed once. A changed memory has another reader."""

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, full_like

from carving.caching import cached_property
from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.inference import likelihood
from carving.inference.likelihood import UNSEEN_COUNT, CardinalityPrior, Likelihood
from carving.inference.sample import ONCE, Histogram, Loads, PairSample, Strengths, shares_with_more
from carving.memory.codebook import Codebook
from carving.memory.pairs import BATCH
from carving.memory.state import State
from carving.quantization import Cells
from carving.schemes.base import CandidatesOrFillers
from carving.symbols.codec import Value
from carving.validate import listed

SIGMAS = 5  # standard deviations of chance
MODEL_ERROR = 0.05  # of the log energy: what theory leaves out
EMPTY = "The memory is empty: there is no value to answer with. Store pairs first."


READ_ONLY = "A quantized memory cannot be changed. Its `to_memory(paths)` method returns a memory that can."


class Reader:
    """One state, its codebook, and what follows from both.

    Args:
        state: The state.
        codebook: The codebook of an earlier state of this memory, whose fillers are taken over.
        energy: The squared norm of the tensor, where it is known.
        ranks: The processes that answer queries together.
    """

    def __init__(
        self,
        state: State,
        codebook: Codebook | None = None,
        energy: float | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        if codebook is None:
            codebook = Codebook(state.scheme, state.vocabulary, state.trained)
        elif codebook.vocabulary is not state.vocabulary:
            codebook = copy.copy(codebook)  # what was drawn stays drawn
            codebook.vocabulary = state.vocabulary
        self.state, self.codebook, self.ranks = state, codebook, ranks or Ranks.alone()
        self.scheme, self.tensor, self.vocabulary = state.scheme, state.tensor, state.vocabulary
        self.value_counts, self.path_counts, self.sample = state.value_counts, state.path_counts, state.sample
        self.target, self.calibration, self.cells = state.target, state.calibration, state.cells
        self._odds: tuple[float, Likelihood] | None = None  # of the whole vocabulary, for the last prior
        if energy is not None:
            vars(self)["energy"] = energy

    def after(self, state: State, energy: float | None = None) -> "Reader":
        """Return the reader of a later state."""
        if energy is None and state.tensor is self.tensor:
            energy = vars(self).get("energy")
        return Reader(state, self.codebook, energy, self.ranks)

    def check_changeable(self) -> None:
        """Refuse to change a quantized memory."""
        if self.cells is not None:
            raise BadValue(READ_ONLY)

    @property
    def counts(self) -> Tensor:
        """How often each value was stored, (values,)."""
        return self.value_counts.tensor

    @property
    def stored(self) -> float:
        """The sum of the pairs' weights."""
        return self.value_counts.stored

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return round(self.value_counts.stored)

    @cached_property
    def batch(self) -> int:
        """The number of paths that are read at once: their cores take a few workspaces at most."""
        facts = self.scheme.facts
        core = math.prod(facts.core_shape) * facts.memory_dtype.itemsize
        return max(1, min(BATCH, 4 * self.scheme.workspace // core))

    # Load and strengths

    @cached_property
    def energy(self) -> float:
        """The squared norm of the memory tensor."""
        return self.scheme.squared_norm(self.tensor)

    @property
    def share(self) -> float:
        """The share of the tensor's energy that is of pairs: all but quantization noise."""
        return 1.0 if self.cells is None else self.cells.kept

    @property
    def observed(self) -> Tensor | Cells:
        """What is known of the sum of all pairs: the tensor, or the cells in which its numbers lie."""
        return self.tensor if self.cells is None else self.cells

    @cached_property
    def histogram(self) -> Histogram:
        """How many pairs are held how strongly, as far as they were sampled."""
        return self.sample.histogram(self.stored)

    @property
    def load(self) -> int:
        """The number of pairs, each stored once, that would be as much noise."""
        return round(self.histogram.load) if self.histogram.strengths else self.pairs

    def loads(self, more: int = 0) -> Loads:
        """Return the load for pairs of each strength and their share of all, with `more` additional pairs."""
        histogram = self.histogram
        return histogram.loads(more) if histogram.strengths else ((self.pairs + more, 1.0),)

    @cached_property
    def squares(self) -> float | None:
        """The sum of squared strengths that the energy shows; None where the memory is not a plain sum.

        Without signs, pairs of one filler have something in common, which counts for every two of them.
        """
        facts = self.scheme.facts
        if not facts.linear:
            return None
        common = facts.bias * float(self.counts.square().sum()) if facts.bias else 0.0
        return max(0.0, self.energy * self.share / self.scheme.mean_bound_energy - common) / (1 - facts.bias)

    @cached_property
    def strengths(self) -> Strengths:
        """The distribution of the strengths of pairs: that of the sample, rescaled if the energy contradicts it."""
        histogram, squares, facts = self.histogram, self.squares, self.scheme.facts
        if not histogram.strengths:  # nothing was sampled
            histogram = Histogram(((1.0, self.stored or 1.0),))
        if not squares or not histogram.squares or not math.isfinite(squares + histogram.squares):
            return ONCE
        factor, deviation = squares / histogram.squares, math.sqrt(2 * max(1.0, facts.echo) / facts.memory_scalars)
        if abs(math.log(factor)) <= MODEL_ERROR + SIGMAS * deviation:
            return histogram.as_strengths()
        # A strong pair that is not in the sample; or the tensor was changed by other means.
        if factor > 1 and isinstance(self.sample, PairSample) and self.sample.bits:
            return histogram.with_pair(math.sqrt(squares - histogram.squares)).as_strengths()
        return histogram.scaled(strengths=math.sqrt(factor)).as_strengths()

    @cached_property
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

    # Candidates and their likelihoods

    def candidates(
        self, values: Iterable[Value] | None, paths: int
    ) -> tuple[Sequence[int], CandidatesOrFillers | list[Value]]:
        """Return the rows of candidate values and their fillers, or the values where those would take too much memory.

        `paths`: the number of paths that are read, for which fillers are laid out.
        """
        if values is not None:
            return self.held_candidates(values)
        held = self.codebook.holdable
        return range(self.value_counts.size), self.codebook.ready(paths) if held else list(self.vocabulary)

    def held_candidates(self, values: Iterable[Value] | None) -> tuple[Sequence[int], Tensor]:
        """Return the rows of candidate values and their fillers."""
        rows = self.rows_among(values)
        return rows, self.codebook.all() if values is None else self.codebook.named(self.names_of(rows))

    def rows_among(self, values: Iterable[Value] | None) -> Sequence[int]:
        """Return the rows of distinct values, or of the whole vocabulary."""
        if values is None:
            return range(len(self.vocabulary))
        return list(dict.fromkeys(map(self._row, listed(values, "candidates"))))

    def names_of(self, rows: Iterable[int]) -> list[bytes]:
        """Return the canonical bytes of the values of rows."""
        return [self.vocabulary.name(row) for row in rows]

    def _row(self, value: Value) -> int:
        row = self.vocabulary.find(value)
        if row is None:
            raise BadValue(
                f"candidates= must contain values that the memory knows, got {value!r}, which was never stored. Omit "
                "it."
            )
        return row

    def odds(self, prior_empty: float, rows: Sequence[int]) -> Likelihood:
        """Return the likelihood model of candidates, kept for the whole vocabulary."""
        if not isinstance(rows, range):
            return self._odds_of(prior_empty, self.value_counts.of(rows))
        kept = self._odds
        if kept is None or kept[0] != prior_empty:
            kept = self._odds = prior_empty, self._odds_of(prior_empty, self.counts)
        return kept[1]

    def _odds_of(self, prior_empty: float, counts: Tensor) -> Likelihood:
        prior = likelihood.log_prior(counts, prior_empty, self.hidden)
        if self.codebook.trained is not None:
            # Trained fillers may be alike: a value that was never stored meets the noise of those that it is like.
            often = self.counts.clamp_min(0)
            counts = full_like(counts, float(often.square().sum() / often.sum().clamp_min(1)))
        return self._with_cardinality(prior_empty, counts, prior)

    def odds_of_rows(self, prior_empty: float, rows: NDArray[np.int64]) -> Likelihood:
        """Return the likelihood model of some candidates, without looking at the other values of the vocabulary."""
        counts, total = self.value_counts.of(rows), self.stored + (UNSEEN_COUNT + self.hidden) * len(self.vocabulary)
        prior = likelihood.log_prior(counts, prior_empty, self.hidden, total)
        return self._with_cardinality(prior_empty, counts, prior)

    def _with_cardinality(self, prior_empty: float, counts: Tensor, prior: Tensor) -> Likelihood:
        cardinality = CardinalityPrior(prior_empty, shares_with_more(self.sample.values))
        return replace(self.likelihood(counts, prior), cardinality=cardinality)

    def likelihood(self, counts: Tensor, prior: Tensor | float) -> Likelihood:
        """Return the likelihood model of values that were stored this often, with their log prior odds."""
        white = 1 - self.share
        return likelihood.make_likelihood(self.scheme, self.energy, counts, self.stored, prior, self.strengths, white)

    @property
    def prior_range(self) -> float:
        """The largest difference between the prior log odds of two values."""
        least, most = (max(0.0, each) + UNSEEN_COUNT for each in self.value_counts.summary[1:])
        return math.log(most / least)

    @cached_property
    def shard_cache(self) -> dict[tuple[int, int], tuple[Tensor, Codebook]]:
        """The part of the vocabulary of each (rank, size), once it was asked for."""
        return {}
