"""The best candidates where contexts may hold several: each with the probability of being there, whatever else is.

All of a short list are weighed beside each other (`subsets.py`), when what the context is found to hold was taken out.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference.likelihood import Evidence, Likelihood
from carving.inference.ranking import Best, Ranking
from carving.inference.sets import SHORTLIST, Held, peel
from carving.inference.subsets import Listed, Weighed, room_for, weigh
from carving.schemes.base import Contexts, Scheme
from carving.tiling import slices


class Chances(NamedTuple):
    """The best candidates of each context, the most probable first."""

    indices: Tensor  # (n, k)
    strengths: Tensor  # (n, k)
    probabilities: Tensor  # (n, k)


class Own(NamedTuple):
    """One candidate of each context, beside all others that are found there."""

    strengths: Tensor  # (n,) when the others are taken out
    log_odds: Tensor  # (n,)


def listed(k: int, candidates: int) -> int:
    """How many candidates a ranking must list for the k best of them."""
    return min(max(k, SHORTLIST), candidates)


def several(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
) -> Chances:
    """The ranked candidates anew; fillers and odds are those that the ranking's indices speak of."""
    parts = []
    for rows, part in _chunks(scheme, contexts, ranking):
        held, place, found = _beside(scheme, memory, contexts[rows], fillers, part, odds)
        chances, strengths = found.log_odds.sigmoid().nan_to_num(0.0), part.strengths.clone()
        strengths[held.rows, place] = held.strengths.to(strengths)
        order = chances.argsort(dim=1, descending=True, stable=True)
        parts.append([each.gather(1, order) for each in (part.best.indices, strengths, chances)])
    return Chances(*(torch.cat(each) for each in zip(*parts, strict=True)))


def own(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
    asked: Tensor,
) -> Own:
    """One candidate (n,) of each context, as `several` weighs it; it takes the last place where it is not ranked."""
    parts = []
    ranking = _with(scheme, memory, contexts, fillers, ranking, odds, asked.unsqueeze(1))
    for rows, part in _chunks(scheme, contexts, ranking):
        _, _, found = _beside(scheme, memory, contexts[rows], fillers, part, odds)
        place = (part.best.indices == asked[rows].unsqueeze(1)).int().argmax(1, keepdim=True)
        strengths = found.strengths.expand_as(found.log_odds)
        parts.append([each.gather(1, place).squeeze(1) for each in (strengths, found.log_odds)])
    return Own(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _with(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
    asked: Tensor,
) -> Ranking:
    """The ranking with one candidate (n, 1) more of each context, in the place of the last."""
    evidence = Evidence.of(scheme, scheme.adjoint(memory, contexts), contexts, fillers[asked])
    missing = ~(ranking.best.indices == asked).any(1, keepdim=True)
    each = odds.log_odds(evidence, asked), asked, evidence.strengths
    scores, indices, strengths = (
        torch.cat((old[:, :-1], torch.where(missing, new.to(old), old[:, -1:])), dim=1)
        for old, new in zip((*ranking.best, ranking.strengths), each, strict=True)
    )
    return Ranking(Best(scores, indices), strengths, ranking.log_total)


def _chunks(scheme: Scheme, contexts: Contexts, ranking: Ranking) -> Iterator[tuple[slice, Ranking]]:
    """The ranking, of so many contexts at a time as there is room for."""
    for rows in slices(len(contexts), room_for(scheme, ranking.best.indices.shape[1])):
        best = ranking.best._replace(scores=ranking.best.scores[rows], indices=ranking.best.indices[rows])
        yield rows, Ranking(best, ranking.strengths[rows], ranking.log_total[rows])


def _beside(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    fillers: Tensor,
    ranking: Ranking,
    odds: Likelihood,
) -> tuple[Held, Tensor, Weighed]:
    """What was taken out of the contexts, its places in the ranking, and all candidates beside each other."""
    cores, indices = scheme.adjoint(memory, contexts), ranking.best.indices
    peeled = peel(scheme, cores, contexts, fillers, ranking, odds, 0.0)
    held = peeled.held
    place = (indices[held.rows] == held.indices.unsqueeze(1)).int().argmax(1)
    out = torch.zeros(indices.shape, dtype=odds.variance.dtype, device=indices.device)
    out[held.rows, place] = held.out.to(out)
    # Those that are not listed keep the odds that they had.
    total = ranking.log_total.double()
    tail = torch.log1p(-(ranking.best.scores.double() - total.unsqueeze(1)).exp().sum(1).clamp_max(1)) + total
    listed = Listed(indices, out, ranking.best.scores, tail)
    return held, place, weigh(scheme, peeled.cores, contexts, fillers, listed, odds)
