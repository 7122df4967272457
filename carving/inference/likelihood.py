"""The likelihood of candidates: log odds of evidence, for single queries, for sets and for joint decoding.

With b = bind(g, c) and M the memory, the log-likelihood ratio of "g is stored here with strength s" against "nothing
is" is s (<M, b> - s |b|^2 / 2) / variance, with the variance of the interference in one number of the memory. The
memory's own norm gives that variance, whatever was stored, forgotten or merged. Where strengths differ, each counts as
often as it was stored (`sample.py`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from carving.caching import cached_property
from carving.inference.sample import ONCE, Strengths
from carving.inference.top_k import Ranking, Scores, ScoringModel
from carving.schemes.base import CandidatesOrFillers, Contexts, Scheme
from carving.tensors import as_real

UNSEEN_COUNT = 0.01  # how often a value that is known but not stored counts as stored
MIN_EXCESS_KURTOSIS = 0.1  # of interference: less counts as normal
SIGNAL_SHARE = 0.5  # of the energy along a candidate that is its own: it is as likely stored as not
MIN_LOAD_SHARE, MIN_PROBABILITY = 0.01, 1e-30  # of contexts that hold more, or no more, than was ever seen; and for 0
MAX_FURTHER = 8  # further fillers of a context that are considered at a time
# The product of p - 1 squared normals by p, in three parts with the same sum of roots: their probabilities and means.
TAILS = {
    2: ((0.632, 0.243), (0.230, 1.370), (0.138, 3.858)),
    3: ((0.746, 0.136), (0.174, 1.556), (0.080, 7.859)),
    4: ((0.819, 0.088), (0.132, 1.763), (0.049, 14.19)),
}


class Evidence(NamedTuple):
    """What the cores of contexts show of candidates."""

    inner: Tensor  # <memory, bound candidate>
    energy: Tensor  # |bound candidate|^2
    noise: Tensor | None  # along the bound candidates, in units of `Likelihood.norm`; None if it is isotropic
    cores: Tensor | None = None  # (n, *core_shape) of the contexts

    @classmethod
    def of(
        cls,
        scheme: Scheme,
        cores: Tensor,
        contexts: Contexts,
        candidates: CandidatesOrFillers,
        inner: Tensor | None = None,
    ) -> "Evidence":
        """Return the evidence of cores (of `scheme.adjoint`) for candidates; `inner` may be known."""
        if inner is None:
            return cls(*scheme.evidence(cores, contexts, candidates), cores)
        energy = scheme.energy(contexts, candidates)
        return cls(inner, energy, scheme.directional_noise(cores, contexts, candidates, energy), cores)

    @property
    def strengths(self) -> Tensor:
        """The estimated strengths of the candidates: 1 for one that was stored once."""
        return self.inner / self.energy


class Tail(NamedTuple):
    """The interference of a few strong pairs: a scale mixture of normals, wider in some contexts than in others.

    The interference of one pair is a product of cosines, one a mode, hence a normal variable of random scale. That of
    all others is normal. The energy of a context's core shows how much interference there is in it; the prior of its
    variance is inverse gamma.
    """

    share: float  # of the variance: one pair with this share of the energy has the concentration of all pairs
    shape: float  # of the inverse gamma distribution
    size: int  # the number of coordinates of a core
    parts: tuple[tuple[float, float], ...]  # probabilities and scales, in units of the mean variance

    @classmethod
    def of(cls, scheme: Scheme, concentration: float) -> "Tail | None":
        """Return the tail of a scheme's interference where strengths have a concentration, if it has one."""
        facts = scheme.facts
        if facts.order == 1 or concentration * (3**facts.order - 3) < MIN_EXCESS_KURTOSIS:
            return None
        size, whole = core_scalars(scheme), facts.memory_scalars
        kept, d = (number ** (1 / facts.order) for number in (size, whole))
        # A unit vector's squared length in a subspace is a beta variable: its relative second moment, a mode.
        moment = (kept + 2) * d / ((d + 2) * kept)
        shape = 2 + 1 / (concentration * (moment**facts.order - 1))
        return cls(math.sqrt(concentration), shape, size, TAILS[facts.order])

    def log_ratio(
        self, evidence: Evidence, inner: Tensor, variance: Tensor, mean: Tensor, strengths: Strengths
    ) -> Tensor:
        """Return log P(inner | stored) / P(inner | not stored), (n, L), summed over strengths and scales.

        `variance` is that of each candidate, `mean` that of all coordinates of cores.
        """
        assert evidence.cores is not None
        energy, unit = evidence.energy, variance * evidence.energy
        core = evidence.cores.flatten(1).square().sum(1, keepdim=True)
        # The candidate itself may have a part of the core's energy, which is no interference.
        rest = (core - SIGNAL_SHARE * inner.clamp_min(0).square()).clamp_min(0) / (2 * mean * energy)
        width = (self.shape - 1 + rest) / (self.shape + self.size / 2 - 1)  # of this context, in units of the mean
        wide = (width - (1 - self.share)).clamp_min(1e-6)
        stored = empty = torch.tensor(-math.inf, dtype=inner.dtype, device=inner.device)
        for probability, scale in self.parts:
            width = 1 - self.share + scale * wide
            level = math.log(probability) - width.log() / 2 - inner.square() / (2 * unit * width)
            empty = torch.logaddexp(empty, level)
            for strength, share in strengths.levels:
                ratio = (inner - strength / 2 * energy) / (variance * width / strength)
                stored = torch.logaddexp(stored, level + ratio + math.log(share))
        return stored - empty


class CardinalityPrior(NamedTuple):
    """The prior of the number of fillers that a context holds."""

    prior_empty: float = 0.5
    further: tuple[float, ...] = (0.5,)  # of contexts with 1, 2, ... fillers, the share with more; then the last

    @property
    def max_together(self) -> int:
        """The largest number of fillers in a context, as far as was seen."""
        return min(1 + sum(share > 0 for share in self.further), MAX_FURTHER)

    def log_ratios(self, most: int, rare: float) -> list[float]:
        """Return log w_(j+1) / w_j for j = 0 .. most, in units of fillers' odds, which include `prior_empty`.

        w_j is the prior weight of a context that holds j fillers, in any order: j! times the probability of j. Shares
        below `rare` count as that, since not all values of a path are seen when they are stored.
        """
        known = [min(max(share, rare), 1 - rare) for share in self.further]
        goes = [1 - self.prior_empty, *(known[min(j, len(known)) - 1] for j in range(1, most + 2))]
        ends, present = [max(1 - share, MIN_PROBABILITY) for share in goes], max(1 - self.prior_empty, MIN_PROBABILITY)
        more = [1.0, *((j + 1) * max(goes[j], MIN_PROBABILITY) / present for j in range(1, most + 1))]
        return [math.log(more[j] * ends[j + 1] / ends[j]) for j in range(most + 1)]


UNKNOWN_CARDINALITY = CardinalityPrior()


@dataclass(frozen=True)
class Likelihood:
    """The noise of a memory and the prior of its candidates: what turns evidence into log odds."""

    variance: Tensor  # (L,) of the interference, in one real number of the memory, for each candidate
    log_prior: Tensor  # (L,) the logarithm of each candidate's prior odds against "nothing is stored here"
    norm: float  # of noise along candidates on average: the squared norm of the memory, or 1 for `facts.uneven`
    strengths: Strengths = ONCE  # of fillers that are stored
    cardinality: CardinalityPrior = UNKNOWN_CARDINALITY  # of the fillers of a context
    shift: Tensor | None = None  # (L,) mean inner product of a candidate that is not stored here, if it is not 0
    is_correlated: bool = False  # whether candidates may be so similar that one is found in the place of others
    whole: "Likelihood | None" = None  # that of all candidates, where these are a part of them
    tail: Tail | None = None  # of the interference, where a few pairs make most of it

    def log_odds(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float = 0.0) -> Tensor:
        """Return the log odds of the candidates of these indices; `more` is additional variance."""
        prior, energy = self.log_prior[indices], evidence.energy
        inner = evidence.inner if self.shift is None else evidence.inner - self.shift[indices]
        if self.tail is not None and evidence.cores is not None:
            variance = self.variance_along(evidence, indices) + more
            return self.tail.log_ratio(evidence, inner, variance, self.mean, self.strengths) + prior
        if len(self.strengths.values) > 1 or evidence.noise is not None or not isinstance(more, float) or more:
            # One after the other: all of them at once would take many times the workspace.
            return reduce(torch.logaddexp, self._by_strength(evidence, indices, more)) + prior
        # In as few passes over all candidates of all contexts as possible.
        slope, half = self.slope[indices], self.strengths.values[0] / 2
        if len(energy) == 1 < len(inner):
            return torch.addcmul(torch.addcmul(prior, energy, slope, value=-half), inner, slope)
        return torch.addcmul(prior, torch.sub(inner, energy, alpha=half), slope)

    def expected_strength(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float = 0.0) -> Tensor:
        """Return the posterior mean strengths (n, m) of the candidates of these indices, if they are stored."""
        values = self.strengths.values
        if len(values) == 1:
            return torch.full_like(evidence.inner, values[0])
        each = torch.stack(list(self._by_strength(evidence, indices, more))).softmax(0)
        return torch.tensordot(each.new_tensor(values), each, 1)

    def _by_strength(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float) -> Iterator[Tensor]:
        """Yield the log odds (n, m) of each strength, without the prior."""
        inner = evidence.inner if self.shift is None else evidence.inner - self.shift[indices]
        variance = self.variance_along(evidence, indices) + more
        for strength, share in self.strengths.levels:
            above = torch.sub(inner, evidence.energy, alpha=strength / 2)
            ratio = above / (variance if strength == 1 else variance / strength)
            yield ratio + math.log(share) if share < 1 else ratio

    def only(self, indices: Tensor) -> "Likelihood":
        """Return the likelihood of some of the candidates."""
        indices = indices.to(self.variance.device)
        variance, prior = self.variance[indices], self.log_prior[indices]
        shift = None if self.shift is None else self.shift[indices]
        return replace(self, variance=variance, log_prior=prior, shift=shift, whole=self.whole or self)

    @cached_property
    def mean(self) -> Tensor:
        """The mean variance of all candidates."""
        return self.variance.mean() if self.whole is None else self.whole.mean

    @cached_property
    def slope(self) -> Tensor:
        """The slope (L,) of log odds over inner products: the strength, if it is the only one, over the variance."""
        return self.strengths.values[0] / self.variance

    def variance_along(self, evidence: Evidence, indices: Tensor | slice) -> Tensor:
        """Return the variances along the bound candidates: larger where roles are louder, or components similar."""
        variance = self.variance[indices]
        return variance if evidence.noise is None else variance * (evidence.noise / self.norm)


def make_likelihood(
    scheme: Scheme,
    norm: float,
    counts: Tensor,
    pairs: float,
    log_prior: Tensor | float,
    strengths: Strengths = ONCE,
    white: float = 0.0,
) -> Likelihood:
    """Return the likelihood of candidates in a memory of pairs.

    Pairs of a candidate's own filler interfere more. Where contexts have no signs, a filler adds up over them to a bias
    in every other context, which is no noise to itself, but for its variation from context to context. A candidate that
    is stored here is not among the pairs that make the bias, and so shows that much less than its strength.

    Args:
        scheme: A linear scheme.
        norm: The squared norm of the memory.
        counts: (L,) how often each candidate was stored.
        pairs: The number of stored pairs.
        log_prior: (L,) prior log odds of the candidates.
        strengths: The distribution of the strengths of pairs.
        white: The share of `norm` that is noise of equal variance in all directions, as quantization makes it.
    """
    facts, often = scheme.facts, counts.clamp_min(0)
    # The mean of what pairs of one filler have in common is no variance.
    echo = facts.echo - facts.memory_scalars * facts.bias**2
    # Quantization clips the cells in which pairs of one filler add up: about the root of what is kept stays of their
    # excess (measured for 1 and 2 bits).
    excess = (echo - facts.interference) * math.sqrt(1 - white)
    # A candidate that is stored here has been stored at least once, whatever was counted.
    stored = often.clamp_min(sum([strength * share for strength, share in strengths.levels]))
    share = (1 - white) * (facts.interference + stored / max(pairs, 1.0) * excess) + white
    floor = torch.finfo(scheme.dtype).eps ** 2  # an empty memory has no noise
    where, prior = (scheme.device, scheme.dtype), torch.as_tensor(log_prior, dtype=torch.float64).expand(len(counts))
    shift = facts.bias * often
    variance = (norm - shift * often).clamp_min(0) / facts.memory_scalars * share + facts.unsteady * shift.square()
    return Likelihood(
        variance=variance.clamp_min(floor).to(*where),
        log_prior=prior.to(*where),
        norm=1.0 if facts.uneven else max(norm, 1e-30),
        strengths=strengths if not facts.bias else strengths.scaled(1 - facts.bias),
        shift=shift.to(*where) if facts.bias else None,
        tail=Tail.of(scheme, strengths.concentration) if strengths.concentration else None,
    )


def log_prior(counts: Tensor, prior_empty: float, hidden: float = 0.0, total: float | None = None) -> Tensor:
    """Return the prior log odds (L,) of values by their counts, against an empty path.

    Args:
        counts: (L,), of which `UNSEEN_COUNT` and `hidden` are added to each.
        prior_empty: Prior probability of an empty path.
        hidden: Expected number of pairs of a value that pairs of negative weight cancel.
        total: The sum over all values, if these are not all.
    """
    often = counts.clamp_min(0) + (UNSEEN_COUNT + hidden)
    return torch.log(often * ((1 - prior_empty) / (float(often.sum()) if total is None else total)))


def scoring_model(scheme: Scheme, odds: Likelihood) -> ScoringModel:
    """Return the model that scores candidates by their log odds."""

    def score(cores: Tensor, contexts: Contexts, fillers: CandidatesOrFillers, indices: slice | Tensor) -> Scores:
        evidence = Evidence.of(scheme, cores, contexts, fillers)
        return Scores(odds.log_odds(evidence, indices), evidence.inner, evidence.energy)

    return ScoringModel(scheme.adjoint, score, has_log_total=True)


def single_posteriors(ranking: Ranking, prior_empty: float) -> Iterator[tuple[float, float]]:
    """Yield the probabilities of the best candidate and of an empty context, if contexts hold one filler at most."""
    log_empty = math.log(prior_empty) if prior_empty else -math.inf
    for (best, *_), total in zip(ranking.scores.tolist(), ranking.log_total.tolist(), strict=True):
        whole = max(total, log_empty) + math.log1p(math.exp(-abs(total - log_empty)))
        yield min(math.exp(best - whole), 1.0), math.exp(log_empty - whole)


def core_scalars(scheme: Scheme) -> int:
    """Return the number of real numbers of a core."""
    return math.prod(scheme.facts.core_shape) * (2 if scheme.facts.memory_dtype.is_complex else 1)


def crowding(scheme: Scheme, cores: Tensor, evidence: Evidence, odds: Likelihood) -> Tensor:
    """Return the variance (n,) that further fillers of the same context add to a score.

    The energy of a core, less that of its best candidate, shows how many there are. Three standard deviations of
    interference are subtracted. Where cores are as large as the memory, its own norm contains this variance.
    """
    size = core_scalars(scheme)
    if size >= scheme.facts.memory_scalars:
        return cores.new_zeros(len(cores)).real
    rest = as_real(cores).flatten(1).square().sum(1) - (evidence.inner.square() / evidence.energy).amax(1)
    usual = odds.variance.min() * (1 + 3 * math.sqrt(2 / size))
    return (rest / size - usual).clamp_min(0)
