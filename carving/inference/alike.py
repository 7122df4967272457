"""Sets of candidates that may be alike, as numbers are: two of them in one context add up nearly as one held twice.

So there are two readings of a context: that all is held as strongly as was seen when it was stored, and that some is
held more strongly, as the memory's energy says. The one that leaves less of the context's energy is the likelier.
"""

from dataclasses import replace

import torch
from torch import Tensor

from carving.inference.likelihood import Likelihood
from carving.inference.sample import Strengths
from carving.inference.sets import Held, Shortlists, in_order, recall_sets
from carving.schemes.base import Contexts, Scheme


def recall_alike(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    odds: Likelihood,
    seen: Strengths,
    least: float,
    scan: Shortlists | None = None,
) -> Held:
    """`recall_sets` of candidates that may be alike; `scan` is one by these odds."""
    once = replace(odds, strengths=seen.scaled(1 - scheme.facts.bias), alike=True)
    apart = recall_sets(scheme, memory, contexts, candidates, once, least)
    if once.strengths == odds.strengths:
        return apart
    stronger = recall_sets(scheme, memory, contexts, candidates, odds, least, scan=scan)
    cores = scheme.adjoint(memory, contexts)
    left = [
        _left(scheme, cores, contexts, candidates, held, by.strengths.values[0])
        for held, by in ((apart, once), (stronger, odds))
    ]
    better = left[0] <= left[1]
    chosen = ((apart, better[apart.rows]), (stronger, ~better[stronger.rows]))
    return in_order([Held(*(each[own] for each in held)) for held, own in chosen])


def _left(scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: Tensor, held: Held, usual: float) -> Tensor:
    """The energy (n,) that contexts have beyond what they are found to hold, less what they have at all."""
    rows = held.rows
    if not len(rows):
        return torch.zeros(len(cores), dtype=held.out.dtype, device=cores.device)
    strengths = torch.where(held.out > 0, held.out, usual).view(-1, *(1,) * (cores.dim() - 1))
    each = scheme.encode(candidates[held.indices], contexts[rows])
    sums = torch.zeros_like(cores).index_add_(0, rows, (each * strengths.to(each.dtype)).to(cores.dtype))
    left = sums.conj() * (scheme.adjoint_write(sums, contexts) - 2 * cores)
    return (left.real if left.is_complex() else left).flatten(1).sum(1)
