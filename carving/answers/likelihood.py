"""How probable an answer is: all odds and all noise, for single questions, for sets and for joint decoding.

With b = bind(g, c) and M the memory, the log-likelihood ratio of "g is stored here" against "nothing is" is
(<M, b> - |b|^2 / 2) / variance, with the variance of the interference in one number of the memory. The memory's own
norm tells that variance, forgotten pairs and merged memories and all.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from carving.answers.best import scan
from carving.answers.ranking import Lines, Ranking, Rated, Rating
from carving.contexts import Contexts
from carving.linear import LinearScheme
from carving.scheme import ContextsOrPaths, FillersOrLabels
from carving.tensors import falling_exp_

UNSEEN = 0.01  # how often a leaf that is known but not stored counts as stored


class Evidence(NamedTuple):
    """What contexts show of candidates."""

    inner: Tensor  # <memory, bound candidate>
    energy: Tensor  # |bound candidate|^2
    noise: Tensor | None  # the memory's squared norm along the bound candidates, where it is not the same for all

    @classmethod
    def of(
        cls, scheme: LinearScheme, cores: Tensor, contexts: Contexts, candidates: Tensor, inner: Tensor | None = None
    ) -> "Evidence":
        """What the contexts' cores (of `scheme.adjoint`) show of candidates; the inner products may be known."""
        energy = scheme.energy(contexts, candidates)
        noise = scheme.noise_along(cores, contexts, candidates, energy)
        return cls(scheme.inner(cores, contexts, candidates) if inner is None else inner, energy, noise)

    @property
    def strengths(self) -> Tensor:
        """How strongly candidates are held: 1 for one that was stored once."""
        return self.inner / self.energy


@dataclass(frozen=True)
class Likelihood:
    """What makes odds of evidence: the noise, and how likely candidates are before the memory is asked."""

    variance: Tensor  # (L,) of the interference, in one real number of the memory, for each candidate
    log_prior: Tensor  # (L,) the logarithm of each candidate's odds against "nothing is stored here"
    norm: float  # the squared norm of the memory

    def log_odds(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float = 0.0) -> Tensor:
        """The log odds of the candidates of these indices; `more` is variance that comes on top."""
        inner, half, prior = evidence.inner, evidence.energy / 2, self.log_prior[indices]
        if evidence.noise is not None or not isinstance(more, float) or more:
            return (inner - half) / (self.variance_along(evidence, indices) + more) + prior
        # In as few passes over all candidates of all contexts as there can be.
        precision = self.precision[indices]
        if len(half) == 1 < len(inner):
            return torch.addcmul(prior - half * precision, inner, precision)
        return torch.addcmul(prior, inner - half, precision)

    def only(self, indices: Tensor) -> "Likelihood":
        """That of some of the candidates."""
        return Likelihood(self.variance[indices], self.log_prior[indices], self.norm)

    @cached_property
    def precision(self) -> Tensor:
        """One over the variance."""
        return 1 / self.variance

    def variance_along(self, evidence: Evidence, indices: Tensor | slice) -> Tensor:
        """The variances along the bound candidates: more than the mean where roles are louder than others."""
        variance = self.variance[indices]
        return variance if evidence.noise is None else variance * (evidence.noise / self.norm)


def squared_norm(memory: Tensor) -> float:
    """The energy of a memory."""
    return float(torch.linalg.vector_norm(memory).double().square())


def likelihood(
    scheme: LinearScheme, norm: float, counts: Tensor, pairs: float, log_prior: Tensor | float
) -> Likelihood:
    """The likelihood of candidates that were stored so often among so many pairs, in a memory of that squared norm.

    Pairs of one filler count more.
    """
    facts = scheme.facts
    share = facts.interference + counts.clamp_min(0) / max(pairs, 1.0) * (facts.echo - facts.interference)
    floor = torch.finfo(scheme.dtype).eps ** 2  # an empty memory has no noise
    variance = (norm / facts.memory_scalars * share).clamp_min(floor)
    prior = torch.as_tensor(log_prior, dtype=torch.float64).expand(len(counts))
    where = scheme.device, scheme.dtype
    return Likelihood(variance.to(*where), prior.to(*where), max(norm, 1e-30))


def log_prior(counts: Tensor, absence: float) -> Tensor:
    """The log odds of leaves before the memory is asked: as often as each was stored, against nothing being there."""
    often = counts.clamp_min(0) + UNSEEN
    return torch.log((1 - absence) * often / often.sum())


def rating(scheme: LinearScheme, odds: Likelihood) -> Rating:
    """Candidates rated by their log odds."""

    def rate(
        cores: Tensor, contexts: Contexts | None, fillers: Tensor, indices: slice | Tensor, inner: Tensor | None
    ) -> Rated:
        assert contexts is not None
        evidence = Evidence.of(scheme, cores, contexts, fillers, inner)
        return Rated(odds.log_odds(evidence, indices), evidence.inner, evidence.energy)

    def lines(cores: Tensor, contexts: Contexts | None, codes: Tensor, part: slice) -> Lines | None:
        assert contexts is not None
        evidence = Evidence.of(scheme, cores, contexts, codes, cores)
        if evidence.noise is not None or evidence.energy.shape[1] > 1:
            return None
        return Lines(evidence.energy / 2, odds.precision[part], odds.log_prior[part])

    @cache
    def log_nothing() -> float:
        # What the candidates leave of 1; where that is little, float32 cannot tell it from nothing.
        left = 1 - float(odds.log_prior.double().exp().sum())
        return math.log(left) if left > 1e-3 else -math.inf

    return Rating(scheme.adjoint, rate, contextual=True, log_odds=True, log_nothing=log_nothing, lines=lines)


def most_likely(
    scheme: LinearScheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: FillersOrLabels,
    odds: Likelihood,
    k: int = 1,
    *,
    among: Tensor | None = None,
) -> Ranking:
    """The k candidates of each context with the best odds; everything else is as in `top`. The memory is read once."""
    return scan(scheme, memory, contexts, candidates, k, rating(scheme, odds), among)


def probabilities(ranking: Ranking, absence: float) -> tuple[Tensor, Tensor]:
    """Of the best candidates (n, k), at most one being there, and of nothing being there (n,)."""
    whole = ranking.log_total.double()
    nothing = math.log(absence) if absence else -math.inf
    if absence:
        whole = nothing + softplus(whole - nothing, threshold=40.0)  # log(e^total + e^nothing)
    return (ranking.best.scores.double() - whole.unsqueeze(1)).exp().clamp_max(1), (nothing - whole).exp()


def core_scalars(scheme: LinearScheme) -> int:
    """The real numbers of a core."""
    return math.prod(scheme.facts.core_shape) * (2 if scheme.facts.memory_dtype.is_complex else 1)


def crowding(scheme: LinearScheme, cores: Tensor, evidence: Evidence, odds: Likelihood) -> Tensor:
    """The variance (n,) that other fillers of the same context give a score.

    A crowded context shows by the energy of its core, less that of its best candidate. What three standard deviations
    of interference explain does not count. Where cores are as large as the memory, its own norm says it all.
    """
    size = core_scalars(scheme)
    if size >= scheme.facts.memory_scalars:
        return cores.new_zeros(len(cores)).real
    flat = (torch.view_as_real(cores) if cores.is_complex() else cores).flatten(1)
    rest = flat.square().sum(1) - (evidence.inner.square() / evidence.energy).amax(1)
    usual = odds.variance.min() * (1 + 3 * math.sqrt(2 / size))
    return (rest / size - usual).clamp_min(0)


class Posterior(NamedTuple):
    """What contexts are expected to hold, one filler each or nothing."""

    cores: Tensor  # (n, *core_shape) the expected cores
    indices: Tensor  # (n,) the best candidates; -1 where nothing is more probable
    probabilities: Tensor  # (n,) of that answer
    strengths: Tensor  # (n,) how strongly the best candidates are held
    doubt: Tensor  # (n,) the energy that the expectations leave open


def posterior(
    scheme: LinearScheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    variance: Tensor,
    log_prior: Tensor,
    log_absence: float,
) -> Posterior:
    """What contexts hold that show these cores in noise of a variance (n, L): a softmax over the candidates."""
    inner = scheme.inner(cores, contexts, candidates)
    energy = scheme.energy(contexts, candidates).expand(inner.shape)
    logits = (inner - energy / 2) / variance + log_prior
    top, best = logits.max(dim=1)
    peak = top.clamp_min(log_absence)
    weights = falling_exp_(logits - peak.unsqueeze(1))
    empty = (log_absence - peak).exp()
    total = weights.sum(1) + empty
    weights /= total.unsqueeze(1)
    empty = empty / total
    mean = scheme.expected_core(weights, contexts, candidates)
    held = (mean.conj() * scheme.round_trip(mean, contexts)).flatten(1).sum(1)
    doubt = (weights * energy).sum(1) - (held.real if held.is_complex() else held)
    columns = best.unsqueeze(1)
    strength, chance = ((each.gather(1, columns)).squeeze(1) for each in (inner / energy, weights))
    nothing = empty > chance
    answer = torch.where(nothing, empty, chance)
    return Posterior(mean, best.masked_fill(nothing, -1), answer, strength, doubt.clamp_min(0))
