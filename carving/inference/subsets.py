"""What contexts hold of a short list: every set of its best candidates weighed against every other.

Candidates overlap, and how many there are depends on each other: where it is not plain what a context holds, only sets
as wholes have a likelihood. With I_fg = s_f s_g <b_f, b_g> / variance for two bound candidates, and y_f the log odds of
one when all others that were found are taken out, a set S has the log weight

    log w_|S| + sum over f of (y_f + what I_fg of those found says) - sum over pairs of I_fg.
"""

import math
from functools import cache, reduce
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference import numbers
from carving.inference.likelihood import Evidence, Likelihood, core_scalars, crowding
from carving.inference.numbers import Weights
from carving.inference.ranking import Indexed
from carving.schemes.base import Contexts, Scheme
from carving.tensors import as_reals

BEST = 8  # candidates whose sets are weighed: there are 2^BEST of them
REST = 4  # others that may be there beside them
PLAIN = 1e-2  # what is less probable than this, or as little short of certain, is plain


class Listed(NamedTuple):
    """The lists of contexts, and what was found of them before."""

    indices: Tensor  # (n, m) candidates, of which -1 is none
    out: Tensor  # (n, m) the strengths with which those that were found were taken out of the cores, 0 for the others
    first: Tensor  # (n, m) the log odds before that, where they are known: what was found may hide its like
    tail: Tensor  # (n,) the logarithm of the summed odds of all that are not listed


class Weighed(NamedTuple):
    """The candidates of lists, beside each other."""

    log_odds: Tensor  # (n, m)
    strengths: Tensor  # (n, m)


def weigh(
    scheme: Scheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Indexed,
    listed: Listed,
    odds: Likelihood,
) -> Weighed:
    """How probably contexts hold the candidates of their lists."""
    indices, out, first, tail = listed
    known = indices.clamp_min(0)
    fillers = candidates[known]
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    more = crowding(scheme, cores, evidence, odds).unsqueeze(1)
    evidence = evidence._replace(inner=evidence.inner + out * evidence.energy)
    alone = odds.log_odds(evidence, known, more).double().masked_fill(indices < 0, -torch.inf)
    taken = (out > 0).sum(1)
    weights = Weights.of(odds.numbers, taken, BEST + REST, as_seen=True)
    columns = torch.arange(indices.shape[1], device=indices.device).expand_as(indices)
    log_odds = numbers.log_odds(alone, columns, weights.beside(torch.zeros_like(taken), taken), tail)
    chances = log_odds.sigmoid()
    unsure = ((chances > PLAIN) & (chances < 1 - PLAIN)).any(1) | hidden(out > 0, first) | odds.alike
    rows = (unsure & (taken <= BEST - 2)).nonzero().squeeze(1)
    if len(rows) and indices.shape[1] > 1:
        some = _Lists(scheme, contexts[rows], fillers[rows], known[rows], indices[rows] < 0, out[rows] > 0, first[rows])
        inner, energy = (each.expand_as(known)[rows] for each in (evidence.inner, evidence.energy))
        noise = None if evidence.noise is None else evidence.noise.expand_as(known)[rows]
        seen = Evidence(inner, energy, noise)
        log_odds[rows] = some.log_odds(seen, odds, more[rows], weights.whole(taken[rows], BEST + REST + 1), tail[rows])
    return Weighed(log_odds, evidence.strengths)


def hidden(found: Tensor, first: Tensor) -> Tensor:
    """Where (n,) one that was not found had about the odds of one that was, which is like it and was taken out."""
    least = first.masked_fill(~found, torch.inf).amin(1)
    return first.masked_fill(found, -torch.inf).amax(1) > least + math.log(PLAIN)


class _Lists(NamedTuple):
    """Contexts for which sets are weighed."""

    scheme: Scheme
    contexts: Contexts
    fillers: Tensor  # (n, m, ...)
    indices: Tensor  # (n, m)
    none: Tensor  # (n, m)
    found: Tensor  # (n, m)
    first: Tensor  # (n, m)

    def log_odds(self, seen: Evidence, odds: Likelihood, more: Tensor, log_weights: Tensor, tail: Tensor) -> Tensor:
        """Of all candidates, by sets of the best; others are noise to these, as many as there may be."""
        alone = self._alone(seen, odds, more)
        best = torch.maximum(alone, self.first.to(alone).masked_fill(self.none, -torch.inf)) + 1e6 * self.found
        places = best.topk(min(BEST, alone.shape[1]), dim=1).indices
        common = self._common(places)
        size = core_scalars(self.scheme)
        log_odds, unlisted = self._of_sets(seen, odds, more, places, common, log_weights, tail)
        if size < self.scheme.facts.memory_scalars:
            more = more + (odds.strengths.mean_square / size * unlisted).unsqueeze(1).to(more)
            log_odds, _ = self._of_sets(seen, odds, more, places, common, log_weights, tail)
        return log_odds

    def _alone(self, seen: Evidence, odds: Likelihood, more: Tensor) -> Tensor:
        """The log odds of each, when others that were found are taken out."""
        return odds.log_odds(seen, self.indices, more).double().masked_fill(self.none, -torch.inf)

    def _common(self, places: Tensor) -> Tensor:
        """The inner products (n, size, size) of different bound candidates."""
        scheme, contexts = self.scheme, self.contexts
        fillers = self.fillers[torch.arange(len(places), device=places.device).unsqueeze(1), places]
        each = [scheme.encode(fillers[:, i], contexts) for i in range(places.shape[1])]
        back = [scheme.adjoint_write(core, contexts) for core in each]
        ours, theirs = (as_reals(torch.stack(some, dim=1), len(scheme.facts.core_shape)) for some in (each, back))
        common = torch.bmm(ours, theirs.mT).double()
        return common - torch.diag_embed(common.diagonal(dim1=1, dim2=2))

    def _of_sets(
        self,
        seen: Evidence,
        odds: Likelihood,
        more: Tensor,
        places: Tensor,
        common: Tensor,
        log_weights: Tensor,
        tail: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The log odds (n, m), and how many are expected (n,) beside some of the best that are not among them."""
        every = self._alone(seen, odds, more)
        strengths = odds.expected_strength(seen, self.indices, more).double()
        scale = strengths / (odds.variance_along(seen, self.indices) + more).double().sqrt()
        alone, scale, found = (each.gather(1, places) for each in (every, scale, self.found))
        common = common * scale.unsqueeze(1) * scale.unsqueeze(2)
        single = (alone + (common * found.unsqueeze(1)).sum(2)).clamp_min(-1e4)
        members, pairs, counts = (each.to(alone.device) for each in _sets(places.shape[1]))
        one, other = torch.triu_indices(len(common[0]), len(common[0]), 1, device=alone.device)
        weight = single @ members.T - common[:, one, other] @ pairs.T  # (n, sets)
        # Any number of the rest beside a set: these are too many to be told apart. What they show depends on whether
        # what was found is there; but of those that are like it, many show where it is.
        known = (self.first > -torch.inf) & (not odds.alike)
        before = torch.where(known, self.first.to(every), every).masked_fill(self.none, -torch.inf)
        rests = [each.scatter(1, places, -torch.inf) for each in (before, every)]
        sums = [torch.logaddexp(rest.logsumexp(1), tail).unsqueeze(1) for rest in rests]
        there = found.to(members) @ members.T > 0
        others = torch.where(there, sums[1], sums[0])  # (n, sets)
        terms = _of_rest(others)
        both, next_one = (
            [weight + log_weights[:, counts + first + k] + term for k, term in enumerate(terms)] for first in (0, 1)
        )
        summed, more_there = reduce(torch.logaddexp, both), reduce(torch.logaddexp, next_one)
        whole = summed.logsumexp(1, keepdim=True)
        chances = ((summed - whole).exp() @ members).clamp(1e-15, 1 - 1e-15)
        beside = [
            rest + more_there.masked_fill(hidden, -torch.inf).logsumexp(1, keepdim=True)
            for rest, hidden in zip(rests, (there, ~there), strict=True)
        ]
        rest_chances = (torch.logaddexp(*beside) - whole).exp().clamp(0, 1 - 1e-15)
        beside_some = [
            k * (each - whole)[:, 1:].exp().sum(1) for k, each in enumerate(both)
        ]  # not beside the empty set
        return rest_chances.scatter(1, places, chances).logit(), torch.stack(beside_some).sum(0)


def _of_rest(others: Tensor) -> list[Tensor]:
    """The log weights of none, one, two, ... of the rest, whose summed odds have these logarithms."""
    return [torch.zeros_like(others), *(k * others - math.lgamma(k + 1) for k in range(1, REST + 1))]


@cache
def _sets(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """All sets of so many: their members (2^size, size), the pairs in them (2^size, pairs), how many they are."""
    members = torch.tensor([[number >> i & 1 for i in range(size)] for number in range(1 << size)])
    pairs = torch.stack([members[:, i] * members[:, j] for i, j in combinations(range(size), 2)], dim=1)
    return members.double(), pairs.double(), members.sum(1)


def room_for(scheme: Scheme, listed: int) -> int:
    """How many contexts with lists may be weighed at once."""
    sizes = (
        listed * math.prod(scheme.facts.filler_shape),
        BEST * math.prod(scheme.facts.core_shape),
        REST * 2 ** (BEST + 2),
    )
    return max(1, scheme.room // 4 // max(sizes))
