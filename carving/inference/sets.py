"""Several fillers in one context: each that is recognized is taken out, and the rest weighed again."""

import math
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from carving.inference import numbers
from carving.inference.best import ENOUGH, MANY, Listing
from carving.inference.exchanges import Found, exchanged
from carving.inference.likelihood import Evidence, Likelihood, core_scalars, crowding, rating
from carving.inference.numbers import Weights
from carving.inference.ranking import Indexed, Ranking, Rating
from carving.inference.subsets import BEST, PLAIN, Listed, hidden, room_for, weigh
from carving.schemes.base import Contexts, Scheme
from carving.tiling import slices

SHORTLIST, LONGEST = 32, 4096  # candidates of a context that are looked at more closely, at first and at most


class Held(NamedTuple):
    """The candidates that contexts hold, in the order in which they were taken out: one row each."""

    rows: Tensor  # which context
    indices: Tensor  # which candidate
    strengths: Tensor  # how strongly: 1 for one that was stored once
    log_odds: Tensor  # when it was taken out; of whole sets, beside all others
    out: Tensor  # with which strength it was taken out


class Peeled(NamedTuple):
    """What is left of cores when the candidates that they hold are taken out."""

    cores: Tensor
    taken: Tensor  # (n,) how many were taken out of each
    near: "Near"
    held: Held


class Near(NamedTuple):
    """The best candidates that were not found."""

    indices: Tensor  # (n, k), -1 where there is none
    log_odds: Tensor  # (n, k) by themselves
    tail: Tensor  # (n,) the logarithm of the summed odds of the others of the list

    @classmethod
    def none(cls, count: int, size: int, device: torch.device) -> "Near":
        """None yet."""
        indices, tail = torch.full((count, size), -1, device=device), torch.full((count,), -torch.inf, device=device)
        return cls(indices, tail.unsqueeze(1).repeat(1, size), tail)

    def put(self, rows: Tensor, others: "Near") -> None:
        """Put those of some contexts into their places."""
        for ours, theirs in zip(self, others, strict=True):
            ours[rows] = theirs.to(ours)

    @classmethod
    def of(cls, indices: Tensor, log_odds: Tensor) -> "Near":
        """The best of lists, those that are minus infinity left out."""
        best, places = log_odds.topk(min(BEST, log_odds.shape[1]), dim=1)
        tail = log_odds.scatter(1, places, -torch.inf).logsumexp(1)
        return cls(indices.gather(1, places).masked_fill(best == -torch.inf, -1), best, tail)


class Shortlists(Protocol):
    """What gives contexts short lists of the best candidates."""

    def at_once(self, size: int) -> int:
        """How many contexts get lists of this size at once."""

    def ranked(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """The best candidates of contexts that show these cores."""


class Scan(NamedTuple):
    """Short lists by a scan of all candidates."""

    scheme: Scheme
    listing: Listing
    rating: Rating

    @classmethod
    def of(cls, scheme: Scheme, candidates: Tensor, odds: Likelihood) -> "Scan":
        """A scan of candidates, which may be precomputed."""
        rated = replace(rating(scheme, odds), log_odds=False)  # nobody asks for the sum of all odds
        return cls(scheme, Listing(scheme.precompute(candidates)), rated)

    def at_once(self, size: int) -> int:
        """How many contexts are scanned at once: where codes are made anew for every chunk, many share them."""
        candidates = self.listing.candidates
        made = self.scheme.facts.code_size and isinstance(candidates, Tensor) and candidates.dim() > 2
        return contexts_at_once(self.scheme, size, MANY if made else ENOUGH)

    def ranked(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """The best candidates of contexts that show these cores."""
        columns = min(self.listing.width, max(1, self.scheme.room // 4 // self.at_once(size)))
        return self.listing.ranked(self.scheme, cores, contexts, size, self.rating, columns)


def contexts_at_once(scheme: Scheme, size: int, most: int = ENOUGH) -> int:
    """How many contexts are scanned at once: scores and short lists take a quarter of a workspace each."""
    cells = max(1, scheme.room // 4)
    return max(1, min(most, cells // (size * math.prod(scheme.facts.filler_shape))))


def recall_sets(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    candidates: Indexed,
    odds: Likelihood,
    least: float,
    *,
    scan: Shortlists | None = None,
) -> Held:
    """Every candidate whose log odds are at least `least`, taken out of the core one after the other.

    A scan of all candidates gives each context a short list; the best of it is taken out and the list weighed again
    until none is left. Taking candidates out changes the scores of those outside the list: where that could lift one
    over the bar, the context is scanned again, with a longer list. The `scan` is one of the same candidates;
    where they are no tensor, it is to be given.
    """
    if scan is None:
        assert isinstance(candidates, Tensor)
        scan = Scan.of(scheme, candidates, odds)
    total, cores = len(candidates), scheme.adjoint(memory, contexts)
    active, size, parts = torch.arange(len(contexts), device=cores.device), min(SHORTLIST, total), []
    found, near = torch.zeros_like(active), Near.none(len(active), min(BEST, size), cores.device)
    first, firsts = None, list[Near]()
    while len(active):
        again = []
        for chunk in slices(len(active), scan.at_once(size)):
            rows = active[chunk]
            part = contexts[rows]
            ranking = scan.ranked(cores[rows], part, size)
            peeled = peel(scheme, cores[rows], part, candidates, ranking, odds, least, found[rows])
            cores[rows] = peeled.cores
            found[rows] += peeled.taken
            near.put(rows, peeled.near)
            if first is None:
                firsts.append(Near.of(ranking.best.indices, ranking.best.scores))
            parts.append(peeled.held._replace(rows=rows[peeled.held.rows]))
            again.append(rows[_may_rise(scheme, peeled.taken, ranking.best.scores[:, -1], odds, least)])
        first = first or Near(*(torch.cat(each) for each in zip(*firsts, strict=True)))
        active = torch.cat(again) if size < total else active[:0]
        size = min(8 * size, LONGEST, total)
    held = in_order(parts)
    if odds.alike and isinstance(candidates, Tensor):
        indices, out = exchanged(scheme, cores, contexts, candidates, Found(held.rows, held.indices, held.out), odds)
        held = held._replace(indices=indices, out=out)
    held = held if first is None else _beside_each_other(scheme, cores, contexts, candidates, held, (near, first), odds)
    sure = held.log_odds >= least
    return Held(*(each[sure] for each in held))


def _beside_each_other(
    scheme: Scheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Indexed,
    held: Held,
    others: tuple[Near, Near],
    odds: Likelihood,
) -> Held:
    """What contexts hold, when all that was found is taken out of the cores: each beside all others.

    These are the best when that was taken out, and before. Contexts that are plain, or hold too many, stay as they are.
    """
    near, first = others
    sizes = held.rows.bincount(minlength=len(cores))
    unsure = near.log_odds.logsumexp(1) > math.log(PLAIN)
    unsure[held.rows[held.log_odds < -math.log(PLAIN)]] = True
    again = torch.zeros_like(first.indices)
    again.index_add_(0, held.rows, (first.indices[held.rows] == held.indices.unsqueeze(1)).to(again))
    unsure |= hidden(again > 0, first.log_odds) | odds.alike
    few = (sizes <= BEST - 2) & unsure
    rows = few.nonzero().squeeze(1)
    if not len(rows):
        return held
    own = few[held.rows]
    column = torch.arange(len(held.rows), device=cores.device) - (sizes.cumsum(0) - sizes)[held.rows]
    most = int(sizes[rows].max())
    indices = torch.full((len(cores), most), -1, device=cores.device)
    indices[held.rows[own], column[own]] = held.indices[own]
    indices = torch.cat((indices, near.indices, first.indices), dim=1)
    out = torch.zeros(indices.shape, dtype=odds.variance.dtype, device=cores.device)
    out[held.rows[own], column[own]] = held.out[own].to(out)
    before = torch.full(indices.shape, -torch.inf, device=cores.device)
    before[:, -first.indices.shape[1] :] = first.log_odds
    # Each once: the first of its kind stays, with what was known before.
    same = (indices.unsqueeze(2) == indices.unsqueeze(1)) & (indices >= 0).unsqueeze(2)
    before = before.unsqueeze(1).masked_fill(~same, -torch.inf).amax(2)
    indices = indices.masked_fill(same.tril(-1).any(2), -1)
    parts = [Held(*(each[~own] for each in held))]
    for chunk in slices(len(rows), room_for(scheme, indices.shape[1])):
        which = rows[chunk]
        listed, taken, part, tail = indices[which], out[which], contexts[which], near.tail[which].double()
        given = Listed(listed, taken, before[which], tail)
        found = weigh(scheme, cores[which], part, candidates, given, odds)
        row, place = ((listed >= 0) & torch.isfinite(found.log_odds)).nonzero(as_tuple=True)
        columns = which[row], listed[row, place], found.strengths.expand_as(taken)[row, place]
        parts.append(Held(*columns, found.log_odds[row, place].to(held.log_odds), taken[row, place].to(held.out)))
    return in_order(parts)


def _may_rise(scheme: Scheme, taken: Tensor, last: Tensor, odds: Likelihood, least: float) -> Tensor:
    """Where candidates beyond a list, whose last has this score, may be over the bar now that some were taken out."""
    # By how much the scores of the rest may have moved, five standard deviations, and how far they are away.
    moved = 5 * (taken * odds.strengths.mean_square / core_scalars(scheme)).sqrt()
    away = (least - last) * odds.variance.min() / max(odds.strengths.values)
    return (taken > 0) & (moved > away)


def in_order(parts: list[Held]) -> Held:
    """The parts as one, by their contexts."""
    whole = Held(*(torch.cat(each) for each in zip(*parts, strict=True)))
    order = whole.rows.argsort(stable=True)
    return Held(*(each[order] for each in whole))


def _inner(scheme: Scheme, cores: Tensor, contexts: Contexts, listed: Tensor, known: Tensor | None) -> Tensor | None:
    """Inner products with the lists of contexts; None where they are short and `Evidence` may make them itself.

    Long ones are those of few contexts: one after the other, since candidates that a context has for itself are formed
    whole.
    """
    if known is not None or listed.shape[1] <= SHORTLIST:
        return known
    each = (slice(i, i + 1) for i in range(len(cores)))
    return torch.cat([scheme.inner(cores[one], contexts[one], listed[one].squeeze(0)) for one in each])


def peel(
    scheme: Scheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Indexed,
    ranking: Ranking,
    odds: Likelihood,
    least: float,
    found: Tensor | None = None,
) -> Peeled:
    """The candidates of a short list that cores hold, beside so many (n,) that were found there before."""
    best, strengths = ranking.best, ranking.strengths
    cores, taken = cores.clone(), torch.zeros(len(cores), dtype=torch.int64, device=cores.device)
    before = taken.clone() if found is None else found
    weights = Weights.of(odds.numbers, before, best.indices.shape[1])
    rows = torch.nonzero(best.scores[:, 0] > -torch.inf).squeeze(1)
    unused = torch.isfinite(best.scores)
    none, empty = rows[:0], cores.new_zeros(0).real
    steps = [Held(none, none, empty, empty, empty)]
    near = Near.none(len(cores), min(BEST, best.indices.shape[1]), cores.device)
    while len(rows):
        part, indices = contexts[rows], best.indices[rows].clamp_max(len(candidates) - 1)
        listed = candidates[indices]
        known = strengths[rows] * scheme.energy(part, listed) if len(steps) == 1 else None  # by the scan
        evidence = Evidence.of(scheme, cores[rows], part, listed, _inner(scheme, cores[rows], part, listed, known))
        own = crowding(scheme, cores[rows], evidence, odds).unsqueeze(1)
        alone = odds.log_odds(evidence, indices, own).masked_fill(~unused[rows], -torch.inf)
        value, which = alone.max(dim=1, keepdim=True)
        # A crowded context holds about as many fillers as its energy says: each is at least that much likelier.
        likelier = torch.log1p(own * (core_scalars(scheme) / odds.strengths.mean_square))
        beside = numbers.log_odds(alone, which, weights.beside((before + taken)[rows]))
        value = torch.where(likelier > 0, torch.maximum(beside, value + likelier), beside).squeeze(1)
        kept = value >= least
        near.put(rows[~kept], Near.of(indices[~kept], alone[~kept]))
        rows, value, which = rows[kept], value[kept], which[kept]
        if not len(rows):
            break
        held = odds.expected_strength(evidence, indices, own), evidence.strengths, indices
        out, strength, chosen = (each[kept].gather(1, which).squeeze(1) for each in held)
        core, part = scheme.encode(candidates[chosen], contexts[rows]), contexts[rows]
        cores[rows] -= scheme.adjoint_write(core * out.view(-1, *(1,) * (core.dim() - 1)).to(core.dtype), part)
        taken[rows] += 1
        unused[rows, which.squeeze(1)] = False
        steps.append(Held(rows, chosen, strength, value, out))
    return Peeled(cores, taken, near, Held(*(torch.cat(each) for each in zip(*steps, strict=True))))
