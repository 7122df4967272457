"""Whether pairs are in a memory: how strongly each is held, how probably, and how far chance moves that strength."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference import fitted, likelihood, several
from carving.inference.likelihood import Evidence
from carving.memory.pairs import Batch
from carving.memory.state import State
from carving.schemes.base import Contexts, Scheme


class Weighed(NamedTuple):
    """Of each pair (n,): without probabilities (schemes that are not linear), the last two are not-a-number."""

    strengths: Tensor  # how strongly the memory holds it: 1 if stored once
    chances: Tensor  # how probably it is stored there
    spreads: Tensor  # the standard deviation of the strength


def weighed(held: State, batch: Batch, prior_empty: float) -> Iterator[Weighed]:
    """The pairs, some at a time."""
    scheme = held.scheme
    linear = scheme if scheme.facts.linear else None
    for rows, contexts in scheme.chunks_of(batch.paths, held.batch):
        names = batch.names[rows]
        fillers = held.codebook.named(names).unsqueeze(1)
        if linear is not None:
            yield _weigh(held, linear, contexts, fillers, names, prior_empty)
            continue
        scores = scheme.score(held.tensor, contexts, fillers)[:, 0]
        unknown = torch.full_like(scores, math.nan)
        yield Weighed(scores, unknown, unknown)


def _weigh(
    held: State, scheme: Scheme, contexts: Contexts, fillers: Tensor, names: list[bytes], prior_empty: float
) -> Weighed:
    rows = held.vocabulary.rows_of(names)
    if held.solved is not None:
        return _weigh_solved(held, scheme, contexts, fillers, rows, prior_empty)
    prior = math.log(1 - prior_empty) - math.log(prior_empty) if prior_empty else math.inf
    counts = held.often.of(rows)
    odds = likelihood.likelihood(scheme, held.energy, counts, held.stored, prior, held.strengths, 1 - held.share)
    cores = scheme.adjoint(held.tensor, contexts)
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
    own = torch.arange(len(names)).unsqueeze(1)
    chances = odds.log_odds(evidence, own, crowded).double().sigmoid()
    spreads = ((odds.variance_along(evidence, own) + crowded) / evidence.energy).sqrt()
    alone = Weighed(evidence.strengths[:, 0], chances[:, 0], spreads[:, 0])
    return alone if held.codebook.trained is None else _beside_others(held, scheme, contexts, rows, alone, prior_empty)


def _beside_others(
    held: State, scheme: Scheme, contexts: Contexts, rows: list[int], alone: Weighed, prior_empty: float
) -> Weighed:
    """Values whose fillers were given, beside all others: these may be alike, and show where one of the others is.

    Before the memory is asked, a value that is not there leaves nothing or any other, as probably. Values that the
    memory does not know are like no other.
    """
    known = [place for place, row in enumerate(rows) if row >= 0]
    if not known:
        return alone
    which, asked = contexts[torch.tensor(known)], torch.tensor([rows[place] for place in known], device=scheme.device)
    every, fillers = held.candidates(None, len(known))
    odds = held.odds(scheme, 0.5, every)
    ranking = likelihood.most_likely(scheme, held.tensor, which, fillers, odds, several.listed(1, len(every)))
    found = several.own(scheme, held.tensor, which, held.codebook.all(), ranking, odds, asked)
    share = (odds.log_prior[asked].double() - math.log(0.5)).exp()
    prior = (
        torch.log((1 - prior_empty) / prior_empty * (2 - share) / share)
        if prior_empty
        else torch.full_like(share, math.inf)
    )
    strengths, chances = alone.strengths.clone(), alone.chances.clone()
    strengths[known] = found.strengths.to(strengths)
    chances[known] = (found.log_odds + prior).sigmoid()
    return Weighed(strengths, chances, alone.spreads)


def _weigh_solved(
    held: State, scheme: Scheme, contexts: Contexts, fillers: Tensor, rows: list[int], prior_empty: float
) -> Weighed:
    assert held.solved is not None
    inner = scheme.inner(scheme.adjoint(held.tensor, contexts), contexts, fillers)
    strengths = (inner / scheme.energy(contexts, fillers))[:, 0]
    spread = math.sqrt(held.energy / scheme.mean_bound_energy / scheme.facts.memory_scalars)
    chances = fitted.pair_chances(strengths, held.solved, prior_empty)
    if held.codebook.trained is not None:
        every, candidates = held.candidates(None, len(rows))
        choice, k = fitted.Choice(candidates, every), several.listed(1, len(every))
        best = fitted.told(scheme, held.tensor, contexts, choice, held.solved, prior_empty, k)
        asked = torch.tensor(rows, device=chances.device).unsqueeze(1)
        beside = (best.chances * (best.indices == asked)).sum(1)
        chances = torch.where(asked.squeeze(1) < 0, chances, torch.minimum(chances, beside))
    return Weighed(strengths, chances, torch.full_like(strengths, spread))
