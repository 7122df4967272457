"""Several fillers in one context: each that is found is taken out, and the rest weighed again."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.answers.best import Best, Odds, Seen, best_of_all, seen
from carving.chunks import slices
from carving.scheme import Contexts, Scheme

SHORTLIST, LONGEST = 32, 4096  # candidates of a context that are looked at more closely, at first and at most


class Held(NamedTuple):
    """The candidates that contexts hold, in the order in which they were found: one row each."""

    rows: Tensor  # which context
    indices: Tensor  # which candidate
    scores: Tensor  # how strongly: 1 for one that was stored once
    odds: Tensor  # the logarithm of its odds when it was found


def peel(scheme: Scheme, memory: Tensor, contexts: Contexts, candidates: Tensor, odds: Odds, least: float) -> Held:
    """Every candidate whose log odds are at least `least`, found ones being taken out of the core one after the other.

    A scan of all candidates gives each context a short list; the best of it is taken out and the list weighed again
    until none is left. Taking candidates out changes the scores of those outside the list: where that could lift one
    over the bar, the context is scanned again, with a longer list.
    """
    total, cores = len(candidates), scheme.adjoint(memory, contexts)
    columns = min(total, max(1, scheme.workspace // (4 * scheme.dtype.itemsize)))
    cells = scheme.workspace // (4 * scheme.dtype.itemsize * math.prod(scheme.filler_shape))
    ready = scheme.ready(candidates)
    active, size, found = torch.arange(len(contexts), device=cores.device), min(SHORTLIST, total), []
    while len(active):
        again = []
        for some in slices(len(active), max(1, cells // max(size, columns // math.prod(scheme.filler_shape)))):
            rows = active[some]
            part = contexts[rows]
            best = best_of_all(scheme, cores[rows], part, ready, None, size, odds, columns).best
            cores[rows], taken, held = _peel_short(scheme, cores[rows], part, candidates, best, odds, least)
            found.append(Held(rows[held.rows], *held[1:]))
            # By how much the scores of the rest may have moved, five standard deviations, and how far they are away.
            moved = 5 * (taken / _core_scalars(scheme)).sqrt()
            away = (least - best.scores[:, -1]) * odds.variance.min()
            again.append(rows[(taken > 0) & (moved > away)])
        active = torch.cat(again) if size < total else active[:0]
        size = min(8 * size, LONGEST, total)
    joined = Held(*(torch.cat(parts) for parts in zip(*found, strict=True)))
    order = joined.rows.argsort(stable=True)
    return Held(*(part[order] for part in joined))


def _peel_short(
    scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: Tensor, best: Best, odds: Odds, least: float
) -> tuple[Tensor, Tensor, Held]:
    """What is left of the cores, how many candidates were taken out of each, and which."""
    cores, taken = cores.clone(), torch.zeros(len(cores), device=cores.device)
    rows = torch.nonzero(best.scores[:, 0] > -torch.inf).squeeze(1)
    steps: list[Held] = []
    open_ = torch.isfinite(best.scores)
    while len(rows):
        part, places = contexts[rows], best.indices[rows].clamp_max(len(candidates) - 1)
        fillers = candidates[places]
        shown = seen(scheme, cores[rows], part, fillers)
        own = crowding(scheme, cores[rows], shown, odds)
        # A crowded context holds about as many fillers as its energy says: each is that much likelier beforehand.
        likelier = torch.log1p(own * _core_scalars(scheme)).unsqueeze(1)
        weighed = odds.weigh(shown, places, own.unsqueeze(1)) + likelier
        weighed = weighed.masked_fill(~open_[rows], -torch.inf)
        value, which = weighed.max(dim=1)
        kept = value >= least
        rows, value, which = rows[kept], value[kept], which[kept]
        if not len(rows):
            break
        chosen = places[kept].gather(1, which.unsqueeze(1)).squeeze(1)
        strength = (shown.inner / shown.energy)[kept].gather(1, which.unsqueeze(1)).squeeze(1)
        part = contexts[rows]
        cores[rows] -= scheme.returned(scheme.encode(candidates[chosen], part), part)
        taken[rows] += 1
        open_[rows, which] = False
        steps.append(Held(rows, chosen, strength, value))
    if not steps:
        nothing = rows[:0]
        steps = [Held(nothing, nothing, cores.new_zeros(0).real, cores.new_zeros(0).real)]
    return cores, taken, Held(*(torch.cat(parts) for parts in zip(*steps, strict=True)))


def crowding(scheme: Scheme, cores: Tensor, shown: Seen, odds: Odds) -> Tensor:
    """The variance (n,) that other fillers of the same context give a score.

    A crowded context shows by the energy of its core, less that of its best candidate. What three standard deviations
    of interference explain does not count. Where cores are as large as the memory, its own norm says it all.
    """
    size = _core_scalars(scheme)
    if size >= scheme.facts.memory_scalars:
        return cores.new_zeros(len(cores)).real
    flat = (torch.view_as_real(cores) if cores.is_complex() else cores).flatten(1)
    rest = flat.square().sum(1) - (shown.inner.square() / shown.energy).amax(1)
    usual = odds.variance.min() * (1 + 3 * math.sqrt(2 / size))
    return (rest / size - usual).clamp_min(0)


def _core_scalars(scheme: Scheme) -> int:
    return math.prod(scheme.core_shape) * (2 if scheme.memory_dtype.is_complex else 1)
