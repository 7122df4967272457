"""How probable an answer is: all odds and all noise, for single questions, for sets and for joint decoding.

With b = bind(g, c) and M the memory, the log-likelihood ratio of "g is stored here with strength s" against "nothing
is" is s (<M, b> - s |b|^2 / 2) / variance, with the variance of the interference in one number of the memory. The
memory's own norm tells that variance, forgotten pairs and merged memories and all. Where strengths differ, each counts
as often as it was stored (`sample.py`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.inference.best import scan
from carving.inference.numbers import UNKNOWN, Numbers
from carving.inference.ranking import Ranking, Rated, Rating, best_of
from carving.inference.sample import ONCE, Strengths
from carving.schemes.base import Contexts, ContextsOrPaths, FillersOrLabels, Scheme
from carving.tensors import falling_exp_

Chances = NDArray[np.float64]

UNSEEN = 0.01  # how often a value that is known but not stored counts as stored
NORMAL = 0.1  # excess kurtosis of interference that counts as normal
SIGNAL = 0.5  # of the energy along a candidate counts as its own: it is as likely stored as not
# The product of p - 1 squared normals by p, in three parts with the same sum of roots: their probabilities and means.
TAILS = {
    2: ((0.632, 0.243), (0.230, 1.370), (0.138, 3.858)),
    3: ((0.746, 0.136), (0.174, 1.556), (0.080, 7.859)),
    4: ((0.819, 0.088), (0.132, 1.763), (0.049, 14.19)),
}


class Evidence(NamedTuple):
    """What contexts show of candidates."""

    inner: Tensor  # <memory, bound candidate>
    energy: Tensor  # |bound candidate|^2
    noise: Tensor | None  # along the bound candidates, in units of `Likelihood.norm`, where it is not the same for all
    cores: Tensor | None = None  # (n, *core_shape) of the contexts

    @classmethod
    def of(
        cls, scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: Tensor, inner: Tensor | None = None
    ) -> "Evidence":
        """What the contexts' cores (of `scheme.adjoint`) show of candidates; the inner products may be known."""
        energy = scheme.energy(contexts, candidates)
        noise = scheme.directional_noise(cores, contexts, candidates, energy)
        inner = scheme.inner(cores, contexts, candidates) if inner is None else inner
        return cls(inner, energy, noise, cores)

    @property
    def strengths(self) -> Tensor:
        """How strongly candidates are held: 1 for one that was stored once."""
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
        """The tail of a scheme's interference where strengths have a concentration, if it has one."""
        facts = scheme.facts
        if facts.order == 1 or concentration * (3**facts.order - 3) < NORMAL:
            return None
        size, whole = core_scalars(scheme), facts.memory_scalars
        kept, d = (number ** (1 / facts.order) for number in (size, whole))
        # A unit vector's squared length in a subspace is a beta variable: its relative second moment, a mode.
        moment = (kept + 2) * d / ((d + 2) * kept)
        return cls(
            math.sqrt(concentration), 2 + 1 / (concentration * (moment**facts.order - 1)), size, TAILS[facts.order]
        )

    def log_ratio(
        self, evidence: Evidence, inner: Tensor, variance: Tensor, mean: Tensor, strengths: Strengths
    ) -> Tensor:
        """Return log P(inner | stored) / P(inner | not stored), (n, L), summed over strengths and scales.

        `variance` is that of each candidate, `mean` that of all coordinates of cores.
        """
        assert evidence.cores is not None
        energy, unit = evidence.energy, variance * evidence.energy
        core = evidence.cores.flatten(1).square().sum(1, keepdim=True)
        # What the candidate itself may be of the core's energy is not all interference.
        rest = (core - SIGNAL * inner.clamp_min(0).square()).clamp_min(0) / (2 * mean * energy)
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


@dataclass(frozen=True)
class Likelihood:
    """What makes odds of evidence: the noise, and how likely candidates are before the memory is asked."""

    variance: Tensor  # (L,) of the interference, in one real number of the memory, for each candidate
    log_prior: Tensor  # (L,) the logarithm of each candidate's odds against "nothing is stored here"
    norm: float  # of noise along candidates in the mean: the squared norm of the memory, or 1 for `facts.uneven`
    strengths: Strengths = ONCE  # of fillers that are stored
    numbers: Numbers = UNKNOWN  # of fillers that contexts hold
    shift: Tensor | None = (
        None  # (L,) what a candidate shows where it is not stored, in the mean, if that is not nothing
    )
    alike: bool = False  # whether candidates may be so alike that one is found in the place of others
    whole: "Likelihood | None" = None  # that of all candidates, where these are a part of them
    tail: Tail | None = None  # of the interference, where a few pairs make most of it

    def log_odds(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float = 0.0) -> Tensor:
        """The log odds of the candidates of these indices; `more` is variance that comes on top."""
        if self.tail is not None and evidence.cores is not None:
            variance = self.variance_along(evidence, indices) + more
            ratio = self.tail.log_ratio(
                evidence, self._above_shift(evidence, indices), variance, self.mean, self.strengths
            )
            return ratio + self.log_prior[indices]
        if len(self.strengths.values) > 1:
            # One after the other: all of them beside each other would take many times the workspace.
            return reduce(torch.logaddexp, self._by_strength(evidence, indices, more)) + self.log_prior[indices]
        inner, energy, prior = self._above_shift(evidence, indices), evidence.energy, _of(self.log_prior, indices)
        strength = self.strengths.values[0]
        if evidence.noise is not None or not isinstance(more, float) or more:
            variance = self.variance_along(evidence, indices) + more
            above = torch.sub(inner, energy, alpha=strength / 2)
            return above / (variance if strength == 1 else variance / strength) + prior
        # In as few passes over all candidates of all contexts as there can be.
        slope = _of(self.slope, indices)
        if len(energy) == 1 < len(inner):
            return torch.addcmul(torch.addcmul(prior, energy, slope, value=-strength / 2), inner, slope)
        return torch.addcmul(prior, torch.sub(inner, energy, alpha=strength / 2), slope)

    def expected_strength(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float = 0.0) -> Tensor:
        """How strongly the candidates of these indices are held, if they are: the mean of what may be."""
        values = self.strengths.values
        if len(values) == 1:
            return torch.full_like(evidence.inner, values[0])
        each = torch.stack(list(self._by_strength(evidence, indices, more))).softmax(0)
        return torch.tensordot(each.new_tensor(values), each, 1)

    def _by_strength(self, evidence: Evidence, indices: Tensor | slice, more: Tensor | float) -> Iterator[Tensor]:
        """The log odds (n, m) of each strength, without the prior."""
        inner, half = self._above_shift(evidence, indices), evidence.energy / 2
        variance = self.variance_along(evidence, indices) + more
        for strength, share in self.strengths.levels:
            yield (inner - strength * half) / (variance / strength) + math.log(share)

    def _above_shift(self, evidence: Evidence, indices: Tensor | slice) -> Tensor:
        return evidence.inner if self.shift is None else evidence.inner - self.shift[indices]

    def only(self, indices: Tensor) -> "Likelihood":
        """That of some of the candidates."""
        shift = None if self.shift is None else self.shift[indices]
        return replace(self, variance=self.variance[indices], log_prior=self.log_prior[indices], shift=shift)

    def part(self, indices: Tensor) -> "Likelihood":
        """That of a part of the candidates, of which the others are to be found elsewhere."""
        return replace(self.only(indices.to(self.variance.device)), whole=self)

    @cached_property
    def mean(self) -> Tensor:
        """The mean variance of all candidates."""
        return self.variance.mean() if self.whole is None else self.whole.mean

    @cached_property
    def slope(self) -> Tensor:
        """By how much log odds grow with inner products: the strength, where there is one, over the variance."""
        return self.strengths.values[0] / self.variance

    def variance_along(self, evidence: Evidence, indices: Tensor | slice) -> Tensor:
        """The variances along the bound candidates: more than the mean where roles are louder, or components alike."""
        variance = self.variance[indices]
        return variance if evidence.noise is None else variance * (evidence.noise / self.norm)


def _of(numbers: Tensor, indices: Tensor | slice) -> Tensor:
    """Those of some candidates; of all, the same tensor."""
    whole = isinstance(indices, slice) and indices.stop - indices.start == len(numbers)
    return numbers if whole else numbers[indices]


def squared_norm(memory: Tensor) -> float:
    """The energy of a memory."""
    return float(torch.linalg.vector_norm(memory).double().square())


def likelihood(
    scheme: Scheme,
    norm: float,
    counts: Tensor,
    pairs: float,
    log_prior: Tensor | float,
    strengths: Strengths = ONCE,
    white: float = 0.0,
) -> Likelihood:
    """The likelihood of candidates that were stored so often among so many pairs, in a memory of that squared norm.

    `white` is the share of that norm which is noise of equal variance in all directions, as quantization makes it.
    Pairs of one filler count more. Where contexts have no signs, a filler adds up over them to a bias in every other,
    which is no noise to itself, but for what the contexts make of it. One that is stored here is not among those that
    make it, and so shows that much less than its strength.
    """
    facts, often = scheme.facts, counts.clamp_min(0)
    # The mean of what pairs of one filler have in common is no variance.
    echo = facts.echo - facts.memory_scalars * facts.bias**2
    # Quantization clips the cells in which pairs of one filler add up: about the root of what is kept stays of their
    # excess (measured for 1 and 2 bits).
    excess = (echo - facts.interference) * math.sqrt(1 - white)
    # A candidate that is stored here has been stored at least once, whatever was counted.
    stored = often.clamp_min(sum(strength * share for strength, share in strengths.levels))
    share = (1 - white) * (facts.interference + stored / max(pairs, 1.0) * excess) + white
    floor = torch.finfo(scheme.dtype).eps ** 2  # an empty memory has no noise
    where, prior = (scheme.device, scheme.dtype), torch.as_tensor(log_prior, dtype=torch.float64).expand(len(counts))
    shift = facts.bias * often
    variance = (norm - shift * often).clamp_min(0) / facts.memory_scalars * share + facts.unsteady * shift.square()
    return Likelihood(
        variance.clamp_min(floor).to(*where),
        prior.to(*where),
        1.0 if facts.uneven else max(norm, 1e-30),
        strengths if not facts.bias else strengths.scaled(1 - facts.bias),
        shift=shift.to(*where) if facts.bias else None,
        tail=Tail.of(scheme, strengths.concentration) if strengths.concentration else None,
    )


def log_prior(counts: Tensor, prior_empty: float, hidden: float = 0.0) -> Tensor:
    """Return the prior log odds of values by their counts, against nothing being stored.

    `hidden` is added to all counts, where pairs of negative weight make some of them too small.
    """
    often = counts.clamp_min(0) + (UNSEEN + hidden)
    return torch.log((1 - prior_empty) * often / often.sum())


def log_prior_of(counts: Tensor, prior_empty: float, unseen: float, total: float) -> Tensor:
    """Return the prior log odds of some values; `total` sums all counts, `unseen` is added to each."""
    return torch.log((1 - prior_empty) / total * (counts.clamp_min(0) + unseen))


def rating(scheme: Scheme, odds: Likelihood) -> Rating:
    """Candidates rated by their log odds."""

    def rate(cores: Tensor, contexts: Contexts | None, fillers: Tensor, indices: slice | Tensor) -> Rated:
        assert contexts is not None
        evidence = Evidence.of(scheme, cores, contexts, fillers)
        return Rated(odds.log_odds(evidence, indices), evidence.inner, evidence.energy)

    return Rating(scheme.adjoint, rate, contextual=True, log_odds=True)


def most_likely(
    scheme: Scheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: FillersOrLabels,
    odds: Likelihood,
    k: int = 1,
    *,
    candidate_indices: Tensor | None = None,
) -> Ranking:
    """The k candidates of each context with the best odds; everything else is as in `top`. The memory is read once."""
    return scan(scheme, memory, contexts, candidates, k, rating(scheme, odds), candidate_indices)


def probabilities(ranking: Ranking, prior_empty: float) -> tuple[Chances, Chances]:
    """Of the best candidate of each context, at most one being there, and of nothing being there: (n,) each."""
    # For so few numbers NumPy takes a fraction of torch's time.
    best, total = (np.array(each.tolist()) for each in (ranking.best.scores[:, 0], ranking.log_total))
    nothing = math.log(prior_empty) if prior_empty else -math.inf
    whole = np.logaddexp(total, nothing)
    return np.minimum(np.exp(best - whole), 1.0), np.exp(nothing - whole)


def core_scalars(scheme: Scheme) -> int:
    """The real numbers of a core."""
    return math.prod(scheme.facts.core_shape) * (2 if scheme.facts.memory_dtype.is_complex else 1)


def crowding(scheme: Scheme, cores: Tensor, evidence: Evidence, odds: Likelihood) -> Tensor:
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


class Prior(NamedTuple):
    """What is known of contexts beforehand."""

    logs: Tensor  # (L,) the logarithms of the candidates' probabilities, or (1,) where all are alike
    log_absence: float  # the same of nothing
    strengths: Strengths = ONCE


class Posterior(NamedTuple):
    """What contexts are expected to hold, one filler each or nothing."""

    cores: Tensor  # (n, *core_shape) the expected cores
    indices: Tensor  # (n,) the best candidates; -1 where nothing is more probable
    probabilities: Tensor  # (n,) of that answer
    strengths: Tensor  # (n,) how strongly the best candidates are held
    doubt: Tensor  # (n,) the energy that the expectations leave open


def posterior(
    scheme: Scheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    variance: Tensor,
    prior: Prior,
) -> Posterior:
    """What contexts hold that show these cores, in noise of a variance (n, L) or (n, 1): a softmax over candidates."""
    inner, energy = scheme.inner(cores, contexts, candidates), scheme.energy(contexts, candidates)
    ratios = (
        _ratios_(inner, energy, variance) if prior.strengths == ONCE else _by_moments(inner, energy, variance, prior)
    )
    values, level = ratios.values, ratios.level
    if len(prior.logs) == 1:
        level = level + prior.logs
    else:
        values += prior.logs
    top, best = best_of(values, 1)
    peak = (top + level).clamp_min(prior.log_absence)
    weights, empty = falling_exp_(values.sub_(peak - level)), (prior.log_absence - peak).exp()
    total = weights.sum(1, keepdim=True) + empty
    mean = scheme.expected_core(weights if ratios.strength is None else weights * ratios.strength, contexts, candidates)
    mean /= total.view(-1, *[1] * (mean.dim() - 1))
    held = (mean.conj() * scheme.adjoint_write(mean, contexts)).flatten(1).sum(1)
    squares = energy if ratios.square is None else energy * ratios.square
    stored = (weights * squares).sum(1, keepdim=True) if squares.shape[-1] > 1 else (total - empty) * squares
    doubt = (stored / total).squeeze(1) - (held.real if held.is_complex() else held)
    chance, empty = ((each / total).squeeze(1) for each in (weights.gather(1, best), empty))
    nothing = empty > chance
    answer = torch.where(nothing, empty, chance)
    if prior.strengths == ONCE:  # whose ratios took the place of the inner products, which they give again
        ratio = top + level - _at(prior.logs.unsqueeze(0), best)
        score = 0.5 + ratio * _at(variance, best) / _at(energy, best)
    else:
        score = _at(inner, best) / _at(energy, best)
    return Posterior(mean, best.squeeze(1).masked_fill(nothing, -1), answer, score.squeeze(1), doubt.clamp_min(0))


def _at(numbers: Tensor, columns: Tensor) -> Tensor:
    """Of numbers that are to be broadcast to (n, L), those of one column (n, 1) each."""
    return numbers if numbers.shape[-1] == 1 else numbers.expand(len(columns), -1).gather(1, columns)


class Ratios(NamedTuple):
    """Log-likelihood ratios of candidates, less what all of a context have in common."""

    values: Tensor  # (n, L)
    level: Tensor  # (n, 1), or to be broadcast to it
    strength: Tensor | None = None  # (n, L) how strongly each is held if it is, in the mean; None for 1
    square: Tensor | None = None  # and in the mean square


def _ratios_(inner: Tensor, energy: Tensor, variance: Tensor) -> Ratios:
    """Those of candidates that are held once, in the place of their inner products: in as few passes as can be."""
    if energy.shape[-1] == 1 == variance.shape[-1]:
        slope = 1 / variance
        return Ratios(inner.mul_(slope), -slope * energy / 2)
    return Ratios(inner.sub_(energy / 2).div_(variance), inner.new_zeros(1))


def _by_moments(inner: Tensor, energy: Tensor, variance: Tensor, prior: Prior) -> Ratios:
    """Those of candidates that are held with several strengths."""
    logits, means, squares = inner.new_full(inner.shape, -math.inf), torch.zeros_like(inner), torch.zeros_like(inner)
    for strength, share in prior.strengths.levels:
        term = strength * (inner - strength / 2 * energy) / variance + math.log(share)
        both = torch.logaddexp(logits, term)
        old, new = (logits - both).exp(), (term - both).exp()
        means, squares = means * old + strength * new, squares * old + strength**2 * new
        logits = both
    return Ratios(logits, inner.new_zeros(1), means, squares)
