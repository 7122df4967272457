"""The best candidates where contexts may hold several: each with the probability of being there, whatever else is.

What a context is found to hold has the probability with which it was found, as in a set. The others are weighed when
all of that is taken out, beside each other and nothing more being there (`numbers.py`).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.answers import numbers
from carving.answers.likelihood import Evidence, Likelihood, crowding
from carving.answers.numbers import Weights
from carving.answers.ranking import Ranking
from carving.answers.sets import SHORTLIST, peel
from carving.chunks import slices
from carving.contexts import Contexts
from carving.linear import LinearScheme


class Chances(NamedTuple):
    """The best candidates of each context, the most probable first."""

    indices: Tensor  # (n, k)
    strengths: Tensor  # (n, k)
    probabilities: Tensor  # (n, k)


def listed(k: int, candidates: int) -> int:
    """How many candidates a ranking must list for the k best of them."""
    return min(max(k, SHORTLIST), candidates)


def several(
    scheme: LinearScheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
) -> Chances:
    """The ranked candidates anew; fillers and odds are those that the ranking's indices speak of."""
    size = max(1, scheme.room // 4 // (ranking.best.indices.shape[1] * math.prod(scheme.facts.filler_shape)))
    parts = [
        _several(scheme, memory, contexts[rows], fillers, _rows(ranking, rows), odds)
        for rows in slices(len(contexts), size)
    ]
    return Chances(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _rows(ranking: Ranking, rows: slice) -> Ranking:
    best = ranking.best._replace(scores=ranking.best.scores[rows], indices=ranking.best.indices[rows])
    return Ranking(best, ranking.strengths[rows], ranking.log_total[rows])


def _several(
    scheme: LinearScheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
) -> Chances:
    cores, indices = scheme.adjoint(memory, contexts), ranking.best.indices
    peeled = peel(scheme, cores, contexts, fillers, ranking, odds, 0.0)
    held = peeled.held
    place = (indices[held.rows] == held.indices.unsqueeze(1)).int().argmax(1)
    found = torch.full(indices.shape, -math.inf, dtype=torch.float64, device=indices.device)
    found[held.rows, place] = held.log_odds.double()
    evidence = Evidence.of(scheme, peeled.cores, contexts, fillers[indices])
    crowded = crowding(scheme, peeled.cores, evidence, odds).unsqueeze(1)
    rest = odds.log_odds(evidence, indices, crowded).double().masked_fill(found > -math.inf, -math.inf)
    # Those that are not listed keep the odds that they had.
    total = ranking.log_total.double()
    tail = torch.log1p(-(ranking.best.scores.double() - total.unsqueeze(1)).exp().sum(1).clamp_max(1)) + total
    weights = Weights.of(odds.numbers, peeled.taken, 0, as_seen=True).beside(peeled.taken)
    every = torch.arange(indices.shape[1], device=indices.device).expand_as(indices)
    log_odds = numbers.log_odds(rest, every, weights, tail)
    chances = torch.where(found > -math.inf, found, log_odds).sigmoid().nan_to_num(0.0)
    strengths = ranking.strengths.clone()
    strengths[held.rows, place] = held.strengths.to(strengths)
    order = chances.argsort(dim=1, descending=True, stable=True)
    return Chances(*(each.gather(1, order) for each in (indices, strengths, chances)))
