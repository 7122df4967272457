"""The best candidates where contexts may hold several: each with the probability of being there, whatever else is.

All of a short list are weighed beside each other (`subsets.py`), when what the context is found to hold was taken out.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from carving.answers.likelihood import Likelihood
from carving.answers.ranking import Ranking
from carving.answers.sets import SHORTLIST, peel
from carving.answers.subsets import Listed, room_for, weigh
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
    size = room_for(scheme, ranking.best.indices.shape[1])
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
    out = torch.zeros(indices.shape, dtype=odds.variance.dtype, device=indices.device)
    out[held.rows, place] = held.out.to(out)
    # Those that are not listed keep the odds that they had.
    total = ranking.log_total.double()
    tail = torch.log1p(-(ranking.best.scores.double() - total.unsqueeze(1)).exp().sum(1).clamp_max(1)) + total
    first = ranking.best.scores
    found = weigh(scheme, peeled.cores, contexts, fillers, Listed(indices, out, first, tail), odds)
    chances = found.log_odds.sigmoid().nan_to_num(0.0)
    strengths = ranking.strengths.clone()
    strengths[held.rows, place] = held.strengths.to(strengths)
    order = chances.argsort(dim=1, descending=True, stable=True)
    return Chances(*(each.gather(1, order) for each in (indices, strengths, chances)))
