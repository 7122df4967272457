"""Probabilities of the answers of a consolidated memory: a calibration fitted to its own answers.

A consolidated memory is no sum, so that no theory of interference holds for it: the leads of its scores were optimized.
Two questions are answered by logistic regressions on what the ranking shows, the terms up to the third degree of s, the
strength of the best candidate, and q, the logarithm of its doubt, log(sum of all exponentials over its own): whether
the path holds something, and whether the best candidate is it, if so. A third one recognizes a single pair by its
strength. They are fitted on half of the contexts of the consolidation (or a sample of it) and on empty contexts.

Pairs that are stored later are noise. So all of it is fitted at several levels of noise, in units of the energy of a
pair, and interpolated between them where pairs are added.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice, pairwise
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from carving.errors import BadValue
from carving.inference.top_k import Ranking, Scores, ScoringModel, search
from carving.quantization import BITS
from carving.schemes.base import CandidatesOrFillers, CandidatesOrLabels, Contexts, Scheme
from carving.tensors import as_real

MIN_DOUBT = 1e-6
DEGREE = 3  # of the polynomials
WEIGHT_COUNTS = (10, 10, 4)  # of a level's regressions
MAX_LOG_ODDS = 30.0
NOISE_SHARES = (0.0, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0)  # of the pairs' energy: the levels of noise
MAX_SAMPLE = 2000  # contexts of either kind that are queried
RIDGE = 1e-2  # of the weights
NEWTON_STEPS = 40


class CalibrationLevel(NamedTuple):
    """The calibration at a level of noise."""

    added: float  # energy of the noise, in units of a pair's
    accuracy: float  # the share of the consolidated pairs that are answered correctly
    present: tuple[float, ...]  # (10,) weights: the path holds something
    right: tuple[float, ...]  # (10,) weights: the best candidate is what it holds, if it holds something
    pair: tuple[float, ...]  # (4,) weights: the pair is stored

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "CalibrationLevel":
        """Return the level of `numbers`; refuse another number of them."""
        every = tuple(map(float, numbers))
        if len(every) != 2 + sum(WEIGHT_COUNTS):
            raise BadValue(f"a calibration level has {2 + sum(WEIGHT_COUNTS)} numbers, got {len(every)}")
        weights = iter(every[2:])
        present, right, pair = (tuple(islice(weights, count)) for count in WEIGHT_COUNTS)
        return cls(added=every[0], accuracy=every[1], present=present, right=right, pair=pair)

    @property
    def numbers(self) -> list[float]:
        """All numbers of the level."""
        return [*self[:2], *chain.from_iterable(self[2:])]


class QuantizationGrid(NamedTuple):
    """The quantizer whose values a tensor's numbers are (`carving.quantization`)."""

    bits: int
    deviation: float


@dataclass(frozen=True)
class Consolidated:
    """What is known of a consolidated memory, and of what was added since.

    The fields are keys of files.
    """

    slope: float  # of scores
    pairs: int  # of the consolidation
    right: int  # those of them that are answered correctly
    levels: tuple[CalibrationLevel, ...]
    added: float = 0.0  # the energy of what was stored since, in units of a pair's
    told: float = 1.0  # the accuracy of the last warning
    grid: QuantizationGrid | None = None  # where it was consolidated in few bits, and nothing was added

    def level(self, more: float = 0.0) -> CalibrationLevel:
        """Return the calibration with `more` energy added: interpolated between levels, or the last one."""
        added = self.added + more
        place = bisect_right([level.added for level in self.levels], added)
        if place == len(self.levels):
            return self.levels[-1]
        below, above = self.levels[place - 1], self.levels[place]
        part = (added - below.added) / (above.added - below.added)
        numbers = [a + part * (b - a) for a, b in zip(below.numbers, above.numbers, strict=True)]
        return CalibrationLevel.of(numbers)._replace(added=added)

    def plus(self, energy: float) -> "Consolidated":
        """Return the state after storing pairs of some energy."""
        return replace(self, added=self.added + energy, grid=None)

    def as_json(self) -> str:
        """Return all fields as JSON, for files."""
        return json.dumps({entry.name: getattr(self, entry.name) for entry in fields(self)}, sort_keys=True)

    @property
    def weights(self) -> Tensor:
        """All numbers of the levels (levels, 26), in single precision, which is what quantized files hold."""
        return torch.tensor([level.numbers for level in self.levels], dtype=torch.float32)

    def rounded(self) -> "Consolidated":
        """Return it with numbers in single precision."""
        return replace(self, levels=tuple(map(CalibrationLevel.of, self.weights.tolist())))

    @classmethod
    def of_json(cls, text: str, weights: Tensor | None = None) -> "Consolidated":
        """Return what `as_json` wrote (with `weights`, where they are separate); refuse anything else."""
        entries = json.loads(text)
        levels = [[*level[:2], *chain.from_iterable(level[2:])] for level in entries.pop("levels")]
        if weights is not None:
            if weights.dtype != torch.float32 or weights.dim() != 2:
                shape = tuple(weights.shape)
                raise BadValue(f"the calibration of probabilities has shape {shape} and dtype {weights.dtype}")
            levels += weights.tolist()
        grid = QuantizationGrid(*each) if (each := entries.pop("grid", None)) is not None else None
        slope, pairs, right = float(entries.pop("slope")), int(entries.pop("pairs")), int(entries.pop("right"))
        found = cls(
            slope=slope, pairs=pairs, right=right, levels=tuple(map(CalibrationLevel.of, levels)), grid=grid, **entries
        )
        if grid is not None and (grid.bits not in BITS or not 0 < grid.deviation < math.inf):
            raise BadValue(f"the grid has bits={grid.bits} and deviation={grid.deviation}")
        if not slope > 0 or not found.added >= 0 or not 0 <= right <= pairs:
            raise BadValue(f"invalid slope={slope}, added={found.added}, right={right} or pairs={pairs}")
        found._check_levels()
        return found

    def _check_levels(self) -> None:
        """Refuse levels that do not rise from 0, or have invalid numbers."""
        is_rising = all(one.added < other.added for one, other in pairwise(self.levels))
        numbers = [self.slope, self.added, self.told, *chain.from_iterable(level.numbers for level in self.levels)]
        starts_at_0 = bool(self.levels) and not self.levels[0].added
        if not all(map(math.isfinite, numbers)) or not starts_at_0 or not is_rising:
            raise BadValue("the calibration of probabilities is missing or malformed")


# Answers


class CalibratedRanking(NamedTuple):
    """The best candidates (n, k) of contexts, and their probabilities."""

    indices: Tensor
    strengths: Tensor
    probabilities: Tensor  # (n, k) of contexts that hold one candidate at most
    empty: Tensor  # (n,) the probabilities of empty contexts


class AllowedValues(NamedTuple):
    """The candidates that may be answered."""

    candidates: CandidatesOrLabels
    rows: Sequence[int]  # of the vocabulary
    everything: CandidatesOrLabels | None = None  # all candidates, if these are some of them


def scoring_model(scheme: Scheme, slope: float) -> ScoringModel:
    """Return the model that scores candidates as the consolidation did, with a uniform prior."""

    def score(cores: Tensor, contexts: Contexts, fillers: CandidatesOrFillers, _: slice | Tensor) -> Scores:
        energy, inner = scheme.energy(contexts, fillers), scheme.inner(cores, contexts, fillers)
        return Scores((inner - energy / 2) * slope, inner, energy)

    return ScoringModel(scheme.adjoint, score, has_log_total=True)


def rank(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    allowed: AllowedValues,
    consolidated: Consolidated,
    prior_empty: float,
    k: int = 1,
) -> CalibratedRanking:
    """Return the k best candidates of each context, and how probable they are."""
    model, everything = scoring_model(scheme, consolidated.slope), allowed.everything
    ranking = search(scheme, memory, contexts, allowed.candidates, k, model)
    overall = ranking if everything is None else search(scheme, memory, contexts, everything, 1, model)
    level, features = consolidated.level(), ranking_features(overall)
    here = log_odds_of(features, level.present) + _log_odds(1 - prior_empty)
    own = log_odds_of(features, level.right).sigmoid().unsqueeze(1)
    # The probability that the best of all values is wrong is divided among the others, as their scores weigh them.
    log_total = overall.log_total.double().unsqueeze(1)
    first = (overall.scores[:, :1].double() - log_total).exp()
    rest = (1 - own) / (1 - first).clamp_min(1e-12)
    shares = (ranking.scores.double() - log_total).exp()
    indices = ranking.indices
    rows = indices if isinstance(allowed.rows, range) else torch.tensor(allowed.rows, device=indices.device)[indices]
    is_best = rows == overall.indices[:, :1]
    chances = torch.where(is_best, own, shares * rest) * here.sigmoid().unsqueeze(1)
    empty = (-here).sigmoid()
    if everything is not None:  # the context holds one of the allowed values, or nothing
        among = (ranking.log_total.double().unsqueeze(1) - log_total).exp()
        has_best = is_best.any(1, keepdim=True)
        among = torch.where(has_best, own + (among - first).clamp_min(0) * rest, among * rest)
        total = (among.squeeze(1) * here.sigmoid() + empty).clamp_min(1e-300)
        chances, empty = chances / total.unsqueeze(1), empty / total
    return CalibratedRanking(indices, ranking.strengths, chances.clamp_max(1), empty)


def pair_probabilities(strengths: Tensor, consolidated: Consolidated, prior_empty: float) -> Tensor:
    """Return the probabilities (n,) that pairs of these strengths (n,) are stored."""
    weights = consolidated.level().pair
    return (log_odds_of(powers(strengths.double()), weights) + _log_odds(1 - prior_empty)).sigmoid()


def _log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance)) if chance < 1 else math.inf


def ranking_features(ranking: Ranking) -> Tensor:
    """Return the features (n, 10) of rankings."""
    strength = ranking.strengths[:, 0].double()
    doubt = (ranking.log_total - ranking.scores[:, 0]).double().clamp_min(MIN_DOUBT).log()
    degrees = ((i, j) for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i))
    return torch.stack([strength**i * doubt**j for i, j in degrees], 1)


def powers(strengths: Tensor) -> Tensor:
    """Return the features (n, 4) of strengths (n,)."""
    return torch.linalg.vander(strengths, N=DEGREE + 1)


def log_odds_of(features: Tensor, weights: Sequence[float]) -> Tensor:
    """Return the log odds (n,) of a logistic regression."""
    return (features @ features.new_tensor(weights)).clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)


# Fitting


def fit_levels(
    scheme: Scheme,
    memory: Tensor,
    candidates: Tensor,
    held: Contexts,
    wanted: Tensor,
    empty: Contexts,
    slope: float,
    pairs: int,
) -> Iterator[CalibrationLevel]:
    """Yield the calibration at each level of noise.

    Args:
        scheme: A linear scheme.
        memory: (*memory_shape), the consolidated tensor.
        candidates: Fillers (L, *filler_shape).
        held: n contexts to fit on.
        wanted: (n,) the candidate that each of them holds.
        empty: Contexts that hold nothing.
        slope: The slope of the consolidation's scores.
        pairs: The number of consolidated pairs.
    """
    generator = Generator().manual_seed(0)
    for share in NOISE_SHARES:
        noisy = memory
        if share:
            deviation = math.sqrt(share * pairs * scheme.mean_bound_energy / scheme.facts.memory_scalars)
            noise = torch.randn(as_real(memory).shape, generator=generator, dtype=memory.dtype.to_real())
            noisy = memory + deviation * (torch.view_as_complex(noise) if memory.is_complex() else noise).to(memory)
        yield _fit_level(scheme, noisy, candidates, held, wanted, empty, slope)._replace(added=share * pairs)


def _fit_level(
    scheme: Scheme, memory: Tensor, candidates: Tensor, held: Contexts, wanted: Tensor, empty: Contexts, slope: float
) -> CalibrationLevel:
    here, nowhere = (
        search(scheme, memory, contexts, candidates, 1, scoring_model(scheme, slope)) for contexts in (held, empty)
    )
    right = (here.indices[:, 0] == wanted).double()
    features, nothing = ranking_features(here), ranking_features(nowhere)
    own = pair_strengths(scheme, memory, held, candidates, wanted)
    # Of other pairs, half have paths that hold something else.
    other = (wanted + 1 + torch.arange(len(wanted), device=own.device)) % len(candidates)
    others = pair_strengths(scheme, memory, held, candidates, other)[other != wanted]
    none = pair_strengths(scheme, memory, empty, candidates, torch.arange(len(empty)) % len(candidates))
    # One more correct and one more wrong answer: the sample is no larger.
    both = torch.cat([features, *[features.mean(0, True)] * 2]), torch.cat([right, right.new_tensor([0.0, 1.0])])
    present = fit_classes(features, nothing)
    pair = fit_classes(powers(own), powers(torch.cat([others, none])))
    return CalibrationLevel(added=0.0, accuracy=float(right.mean()), present=present, right=_fit(*both), pair=pair)


def pair_strengths(scheme: Scheme, memory: Tensor, contexts: Contexts, candidates: Tensor, indices: Tensor) -> Tensor:
    """Return the strengths (n,) of one candidate (n,) in each of n contexts."""
    fillers = candidates[indices.to(candidates.device)].unsqueeze(1)
    inner = scheme.inner(scheme.adjoint(memory, contexts), contexts, fillers)
    return (inner / scheme.energy(contexts, fillers)).squeeze(1).double()


def fit_classes(ones: Tensor, zeros: Tensor) -> tuple[float, ...]:
    """Return the weights of a logistic regression of two classes (n, features), both as likely beforehand."""
    features = torch.cat([ones, zeros])
    truth = torch.cat([ones.new_ones(len(ones)), zeros.new_zeros(len(zeros))])
    times = torch.cat([ones.new_full((len(each),), 0.5 / len(each)) for each in (ones, zeros)])
    return _fit(features, truth, times * len(truth))


def _fit(features: Tensor, truth: Tensor, times: Tensor | None = None) -> tuple[float, ...]:
    """Fit a logistic regression by Newton's method, with standardized features and weights (n,) of the rows."""
    features, truth = features.cpu(), truth.cpu()
    often = torch.ones_like(truth) if times is None else times.cpu()
    scale = features.std(0).clamp_min(1e-9)
    scale[0] = 1.0
    rows, weights = features / scale, features.new_zeros(features.shape[1])
    ridge = RIDGE * torch.eye(features.shape[1], dtype=features.dtype)
    for _ in range(NEWTON_STEPS):
        chance = (rows @ weights).clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).sigmoid()
        curvature = (often * chance * (1 - chance)).unsqueeze(1)
        gradient = rows.mT @ (often * (truth - chance)) - ridge @ weights
        step = torch.linalg.solve(rows.mT @ (curvature * rows) + ridge, gradient)
        size = float(step.abs().max())
        weights = weights + min(1.0, 10.0 / max(1e-9, size)) * step
        if size < 1e-9:
            break
    return tuple((weights / scale).tolist())
