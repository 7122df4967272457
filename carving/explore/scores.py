"""The scores of every value at a path, with the noise and the threshold that explain an answer."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference.likelihood import Evidence, Likelihood
from carving.memory import Memory
from carving.memory.query import check_paths
from carving.memory.reader import Reader
from carving.schemes.base import Contexts, Scheme
from carving.symbols.codec import Path
from carving.validate import check_prior_empty

BISECTION_STEPS = 60  # after these, the ends of the interval differ by a rounding error of a double
MAX_THRESHOLD_DEVIATIONS = 64.0  # of noise: thresholds lie below


class CandidateScores(NamedTuple):
    """The scores of all values of the vocabulary at a path."""

    scores: Tensor  # (values,) about 1 for a value that was stored once, about 0 for one that was not
    probabilities: Tensor | None  # (values,) posterior of each value, if at most one is stored; None without a model
    empty: float | None  # the posterior probability that the path is empty
    noise: float  # the standard deviation of the scores of values that are not stored
    threshold: float | None  # above this score the best value is more probable than an empty path
    is_cosine: bool = False  # scores are cosines, of a scheme that settles: 1 is not the score of a stored value

    def best(self, count: int) -> list[int]:
        """Return the rows of the `count` most probable values, best first."""
        order = self.scores if self.probabilities is None else self.probabilities
        # Probabilities may underflow to 0: scores break the tie.
        ranked = torch.stack([order.double(), self.scores.double()], 1)
        first = order.topk(min(4 * count, len(order))).indices
        return sorted(first.tolist(), key=lambda row: tuple(ranked[row].tolist()), reverse=True)[:count]


def score_all(memory: Memory, path: Path, prior_empty: float = 0.5) -> CandidateScores:
    """Return the scores of every value at a path: why `recall` answers as it does.

    Args:
        memory: The memory to query.
        path: The path.
        prior_empty: Prior probability that the path is empty.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
    2
    >>> seen = score_all(memory, ("dog", "says"))
    >>> seen.scores.argmax().item(), bool(seen.scores.max() > seen.threshold), seen.noise < 0.1
    (0, True, True)
    """
    state, prior_empty = memory._reader, check_prior_empty(prior_empty)
    scheme = state.scheme
    contexts, fillers = scheme.contexts(check_paths([path], state)), state.codebook.all()
    if not scheme.facts.linear:
        return _without_model(scheme.score(state.tensor, contexts, fillers)[0], is_cosine=True)
    if state.calibration is not None:
        inner = scheme.inner(scheme.adjoint(state.tensor, contexts), contexts, fillers)
        return _without_model((inner / scheme.energy(contexts, fillers))[0])
    return _with_posterior(state, scheme, contexts, fillers, prior_empty)


def _without_model(scores: Tensor, is_cosine: bool = False) -> CandidateScores:
    """Return scores without probabilities; their noise is estimated from the median absolute deviation."""
    # 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
    noise = 1.4826 * float((scores - scores.median()).abs().median())
    return CandidateScores(
        scores=scores, probabilities=None, empty=None, noise=noise, threshold=None, is_cosine=is_cosine
    )


def _with_posterior(
    state: Reader, scheme: Scheme, contexts: Contexts, fillers: Tensor, prior_empty: float
) -> CandidateScores:
    odds = state.odds(prior_empty, range(len(state.vocabulary)))
    cores = scheme.adjoint(state.tensor, contexts)
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    logs = odds.log_odds(evidence, slice(0, len(fillers)))[0].double()
    empty = math.log(prior_empty) if prior_empty else -math.inf
    total = torch.logaddexp(logs.logsumexp(0), torch.tensor(empty, dtype=torch.float64))
    deviations = (odds.variance_along(evidence, slice(0, len(fillers))) / evidence.energy).sqrt()
    return CandidateScores(
        scores=evidence.strengths.expand(1, len(fillers))[0],
        probabilities=(logs - total).exp(),
        empty=float((empty - total).exp()),
        noise=float(deviations.median()),
        threshold=_threshold(odds, evidence, int(logs.argmax()), empty) if prior_empty else None,
    )


def _threshold(odds: Likelihood, evidence: Evidence, row: int, empty: float) -> float:
    """Find by bisection the score above which a candidate is more probable than an empty path: odds grow with it."""
    # In double precision: where there is hardly any noise, the odds of neighboring scores are far apart.
    own = odds.only(torch.tensor([row]))
    shift = None if own.shift is None else own.shift.double()
    own = Likelihood(
        variance=own.variance.double(),
        log_prior=own.log_prior.double(),
        norm=own.norm,
        strengths=own.strengths,
        cardinality=own.cardinality,
        shift=shift,
    )
    energy = evidence.energy.expand(1, len(odds.variance))[:, row : row + 1].double()
    noise = None if evidence.noise is None else evidence.noise.expand(1, len(odds.variance))[:, row : row + 1].double()
    variance = own.variance_along(Evidence(energy, energy, noise), slice(0, 1))
    reach = max(own.strengths.values) + MAX_THRESHOLD_DEVIATIONS * float((variance / energy).sqrt().max())
    low, high = -reach, reach
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        found = float(own.log_odds(Evidence(middle * energy, energy, noise), slice(0, 1))) > empty
        low, high = (low, middle) if found else (middle, high)
    return high
