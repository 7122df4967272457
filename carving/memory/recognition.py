"""Whether pairs are in a memory: how strongly each is held, how probably, and how far chance moves that strength."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from carving.answers import fitted, likelihood
from carving.answers.likelihood import Evidence
from carving.contexts import Contexts
from carving.linear import LinearScheme
from carving.memory.pairs import Batch
from carving.memory.state import State


class Weighed(NamedTuple):
    """Of each pair (n,): without probabilities (schemes that are not linear), the last two are not-a-number."""

    strengths: Tensor  # how strongly the memory holds it: 1 if stored once
    chances: Tensor  # how probably it is stored there
    spreads: Tensor  # the standard deviation of the strength


def weighed(held: State, batch: Batch, absence: float) -> Iterator[Weighed]:
    """The pairs, some at a time."""
    scheme = held.scheme
    linear = scheme if isinstance(scheme, LinearScheme) and scheme.facts.linear else None
    for rows, contexts in scheme.chunks_of(batch.paths, held.batch):
        names = batch.names[rows]
        fillers = held.codebook.named(names).unsqueeze(1)
        if linear is not None:
            yield _weigh(held, linear, contexts, fillers, names, absence)
            continue
        scores = scheme.score(held.tensor, contexts, fillers)[:, 0]
        unknown = torch.full_like(scores, math.nan)
        yield Weighed(scores, unknown, unknown)


def _weigh(
    held: State, scheme: LinearScheme, contexts: Contexts, fillers: Tensor, names: list[bytes], absence: float
) -> Weighed:
    if held.solved is not None:
        return _weigh_solved(held, scheme, contexts, fillers, absence)
    prior = math.log(1 - absence) - math.log(absence) if absence else math.inf
    counts = held.often.of(held.vocabulary.rows_of(names))
    odds = likelihood.likelihood(scheme, held.energy, counts, held.stored, prior, held.strengths)
    cores = scheme.adjoint(held.tensor, contexts)
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
    own = torch.arange(len(names)).unsqueeze(1)
    chances = odds.log_odds(evidence, own, crowded).double().sigmoid()
    spreads = ((odds.variance_along(evidence, own) + crowded) / evidence.energy).sqrt()
    return Weighed(evidence.strengths[:, 0], chances[:, 0], spreads[:, 0])


def _weigh_solved(held: State, scheme: LinearScheme, contexts: Contexts, fillers: Tensor, absence: float) -> Weighed:
    assert held.solved is not None
    inner = scheme.inner(scheme.adjoint(held.tensor, contexts), contexts, fillers)
    strengths = (inner / scheme.energy(contexts, fillers))[:, 0]
    spread = math.sqrt(held.energy / scheme.unit / scheme.facts.memory_scalars)
    return Weighed(strengths, fitted.pair_chances(strengths, held.solved, absence), torch.full_like(strengths, spread))
