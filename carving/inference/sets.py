"""Sets of fillers in one context: which values a context holds, if it may hold several.

`SetDecoder.recall` finds them by peeling: the best candidate of a context's short list is subtracted from its core, the
rest is weighed again, and so on; then all that was found is weighed as a set. `SetDecoder.marginals` gives the
candidates of a ranking the probability that the context holds them, whatever else it holds.

How many fillers a context holds changes the odds of each. Let y_f be the odds of a filler f alone: its share among all
that are stored times its likelihood ratio. If w_j is the prior weight of a context that holds j fillers, in any order,
then f beside J others that are certain, and any of the rest, has the odds

    y_f sum_k w_(J+1+k) e_k / sum_k w_(J+k) e_k

with e_k the sum over all k of the rest of the products of their odds. If no context holds more than one, this is a
softmax over all fillers and an empty context.

Candidates overlap: where it is not clear what a context holds, only whole sets have a likelihood. With
I_fg = s_f s_g <b_f, b_g> / variance for two bound candidates, and y_f the log odds of one when all others that were
found are subtracted, a set S has the log weight

    log w_|S| + sum over f of (y_f + sum of I_fg over those found) - sum over pairs of I_fg.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, reduce
from itertools import combinations
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from carving.inference.likelihood import (
    MIN_LOAD_SHARE,
    CardinalityPrior,
    Evidence,
    Likelihood,
    core_scalars,
    crowding,
    scoring_model,
)
from carving.inference.sample import Strengths
from carving.inference.top_k import CandidateList, Ranking, ScoringModel
from carving.schemes.base import Candidates, CandidatesOrLabels, Contexts, Scheme
from carving.tensors import as_reals
from carving.tiling import rows_within, slices

MAX_ROWS = 1024  # contexts that are scanned at a time
SHORTLIST, MAX_SHORTLIST = 32, 4096  # candidates of a context that are weighed, at first and at most
MAX_SUBSET = 8  # candidates of which all 2^MAX_SUBSET sets are weighed
MAX_UNLISTED = 4  # further fillers that may be there beside such a set
MAX_SEPARATE = 8  # of the rest, the best ones that are considered separately; of the others only their sum
CLEAR = 1e-2  # a probability below this, or above one minus this, is clear
MAX_EXCHANGES = 8  # rounds in which correlated candidates are exchanged


class Indexed(Protocol):
    """Fillers by their indices: a tensor, or an object that creates them on demand."""

    def __len__(self) -> int:
        """Return the number of fillers."""

    def __getitem__(self, indices: Tensor, /) -> Tensor:
        """Return the fillers of `indices`, in the shape of `indices`."""


class Shortlists(Protocol):
    """What gives contexts short lists of the best candidates."""

    def rank(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """Return the `size` best candidates of contexts with cores (n, *core_shape)."""


class Scan(NamedTuple):
    """Short lists by an exact search of all candidates."""

    scheme: Scheme
    listing: CandidateList
    model: ScoringModel

    @classmethod
    def of(cls, scheme: Scheme, candidates: CandidatesOrLabels, odds: Likelihood) -> "Scan":
        """Return a scan of fillers, which may be precomputed, or of a list of values."""
        model = scoring_model(scheme, odds)._replace(has_log_total=False)
        ready = scheme.precompute(candidates) if isinstance(candidates, Tensor | Candidates) else list(candidates)
        return cls(scheme, CandidateList(ready), model)

    def rank(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """Return the `size` best candidates of contexts with cores (n, *core_shape)."""
        columns = min(self.listing.width, rows_within(self.scheme.room // 4, len(cores)))
        return self.listing.rank(self.scheme, cores, contexts, size, self.model, columns)


def max_shortlisted(scheme: Scheme, size: int) -> int:
    """Return how many contexts get lists of `size` at a time: scores and lists take a quarter workspace each."""
    return max(1, min(MAX_ROWS, scheme.room // 4 // (size * math.prod(scheme.facts.filler_shape))))


def shortlist_size(k: int, candidates: int) -> int:
    """Return how many candidates a ranking must list, so that `SetDecoder.marginals` finds the k best."""
    return min(max(k, SHORTLIST), candidates)


class FoundSet(NamedTuple):
    """The candidates that contexts hold, in the order in which they were found: one row each."""

    rows: Tensor  # the context
    indices: Tensor  # the candidate
    strengths: Tensor  # the estimated strength: 1 for one that was stored once
    log_odds: Tensor  # when it was found; after weighing whole sets, beside all others
    subtracted: Tensor  # the strength with which it was subtracted

    def only(self, which: Tensor) -> "FoundSet":
        """Return some of the rows."""
        return FoundSet(*(each[which] for each in self))

    def places(self, contexts: int) -> tuple[Tensor, Tensor]:
        """Return how many each context holds (n,), and which of them each row is, for rows in order."""
        sizes = self.rows.bincount(minlength=contexts)
        return sizes, torch.arange(len(self.rows), device=sizes.device) - (sizes.cumsum(0) - sizes)[self.rows]


class RunnersUp(NamedTuple):
    """The best candidates that were not found."""

    indices: Tensor  # (n, k), -1 where there is none
    log_odds: Tensor  # (n, k) alone
    tail: Tensor  # (n,) the logarithm of the summed odds of the others of the list

    @classmethod
    def none(cls, count: int, size: int, device: torch.device) -> "RunnersUp":
        """Return empty lists."""
        indices, tail = torch.full((count, size), -1, device=device), torch.full((count,), -torch.inf, device=device)
        return cls(indices, tail.unsqueeze(1).repeat(1, size), tail)

    @classmethod
    def of(cls, indices: Tensor, log_odds: Tensor) -> "RunnersUp":
        """Return the best of lists, without those whose log odds are minus infinity."""
        best, places = log_odds.topk(min(MAX_SUBSET, log_odds.shape[1]), dim=1)
        tail = log_odds.scatter(1, places, -torch.inf).logsumexp(1)
        return cls(indices.gather(1, places).masked_fill(best == -torch.inf, -1), best, tail)

    def put(self, rows: Tensor, others: "RunnersUp") -> None:
        """Write the lists of some contexts into their rows."""
        for ours, theirs in zip(self, others, strict=True):
            ours[rows] = theirs.to(ours)


class PeelResult(NamedTuple):
    """The cores less the candidates that were found in them."""

    cores: Tensor
    counts: Tensor  # (n,) how many were subtracted from each
    runners_up: RunnersUp
    found: FoundSet


class Shortlist(NamedTuple):
    """Candidates of contexts to be weighed together."""

    indices: Tensor  # (n, m), -1 for none
    subtracted: Tensor  # (n, m) the strengths with which found ones were subtracted from the cores, 0 for the others
    first: Tensor  # (n, m) the log odds before that, if known: what was found may hide similar candidates
    tail: Tensor  # (n,) the logarithm of the summed odds of all candidates that are not listed


class Marginals(NamedTuple):
    """The candidates of a ranking, the most probable first, each whatever else the context holds."""

    indices: Tensor  # (n, k)
    strengths: Tensor  # (n, k)
    probabilities: Tensor  # (n, k)


@dataclass(frozen=True)
class SetDecoder:
    """Sets of candidates in contexts, by a likelihood of the candidates."""

    scheme: Scheme
    candidates: Indexed
    odds: Likelihood

    # Entries

    def recall(
        self,
        memory: Tensor,
        contexts: Contexts,
        least: float,
        shortlists: Shortlists | None = None,
        seen: Strengths | None = None,
    ) -> FoundSet:
        """Return every candidate whose log odds are at least `least`.

        Args:
            memory: (*memory_shape).
            contexts: n contexts.
            least: Minimum log odds.
            shortlists: What lists the best candidates; by default a scan, of candidates that are a tensor.
            seen: For candidates that may be correlated, as numbers are, the strengths of the pairs that were seen. Two
                of them in one context add up to nearly one of twice the strength. So there are two readings: the
                strengths are those seen, or those of the memory's energy. The likelier one explains more of the energy.
        """
        if seen is None:
            return self._recall(memory, contexts, least, shortlists)
        odds = replace(self.odds, strengths=seen.scaled(1 - self.scheme.facts.bias), is_correlated=True)
        apart = replace(self, odds=odds)
        weak = apart._recall(memory, contexts, least, None)
        if odds.strengths == self.odds.strengths:
            return weak
        strong = self._recall(memory, contexts, least, shortlists)
        cores = self.scheme.adjoint(memory, contexts)
        is_weak = apart._unexplained(cores, contexts, weak) <= self._unexplained(cores, contexts, strong)
        return _in_order([weak.only(is_weak[weak.rows]), strong.only(~is_weak[strong.rows])])

    def marginals(self, memory: Tensor, contexts: Contexts, ranking: Ranking) -> Marginals:
        """Weigh the candidates of a ranking anew."""
        parts = []
        for part, found, places, log_odds, _ in self._weigh_ranking(memory, contexts, ranking):
            chances, strengths = log_odds.sigmoid().nan_to_num(0.0), part.strengths.clone()
            strengths[found.rows, places] = found.strengths.to(strengths)
            order = chances.argsort(dim=1, descending=True, stable=True)
            parts.append([each.gather(1, order) for each in (part.indices, strengths, chances)])
        return Marginals(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def marginal_of(self, memory: Tensor, contexts: Contexts, ranking: Ranking, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the strength (n,) and the log odds (n,) of one candidate (n,) of each context.

        A candidate that is not ranked takes the last place of the ranking.
        """
        index = index.unsqueeze(1)
        evidence = self._evidence(self.scheme.adjoint(memory, contexts), contexts, index)
        missing = ~(ranking.indices == index).any(1, keepdim=True)
        added = self.odds.log_odds(evidence, index), index, evidence.strengths
        scores, indices, strengths = (
            torch.cat((old[:, :-1], torch.where(missing, new.to(old), old[:, -1:])), dim=1)
            for old, new in zip(ranking[:3], added, strict=True)
        )
        ranking = Ranking(scores, indices, strengths, ranking.log_total)
        weighed = [(found.expand_as(each), each) for *_, each, found in self._weigh_ranking(memory, contexts, ranking)]
        place = (indices == index).int().argmax(1, keepdim=True)
        strength, log_odds = (torch.cat(each).gather(1, place).squeeze(1) for each in zip(*weighed, strict=True))
        return strength, log_odds

    # Peeling

    def _recall(self, memory: Tensor, contexts: Contexts, least: float, shortlists: Shortlists | None) -> FoundSet:
        """Find by peeling, with longer and longer short lists, and weigh what was found as sets.

        Subtracting candidates changes the scores of those outside the short list: where that could lift one over the
        threshold, the context gets another list, a longer one.
        """
        scheme, odds = self.scheme, self.odds
        if shortlists is None:
            assert isinstance(self.candidates, Tensor)
            shortlists = Scan.of(scheme, self.candidates, odds)
        total, cores = len(self.candidates), scheme.adjoint(memory, contexts)
        active, size = torch.arange(len(contexts), device=cores.device), min(SHORTLIST, total)
        counts, near = torch.zeros_like(active), RunnersUp.none(len(active), min(MAX_SUBSET, size), cores.device)
        parts, first, firsts = list[FoundSet](), None, list[RunnersUp]()
        while len(active):
            again = []
            for chunk in slices(len(active), max_shortlisted(scheme, size)):
                rows = active[chunk]
                part = contexts[rows]
                ranking = shortlists.rank(cores[rows], part, size)
                peeled = self.peel(cores[rows], part, ranking, least, counts[rows])
                cores[rows] = peeled.cores
                counts[rows] += peeled.counts
                near.put(rows, peeled.runners_up)
                if first is None:
                    firsts.append(RunnersUp.of(ranking.indices, ranking.scores))
                parts.append(peeled.found._replace(rows=rows[peeled.found.rows]))
                again.append(rows[self._may_rise(peeled.counts, ranking.scores[:, -1], least)])
            first = first or RunnersUp(*(torch.cat(each) for each in zip(*firsts, strict=True)))
            active = torch.cat(again) if size < total else active[:0]
            size = min(8 * size, MAX_SHORTLIST, total)
        found = _in_order(parts)
        if odds.is_correlated and isinstance(self.candidates, Tensor):
            found = self._exchanged(cores, contexts, self.candidates, found)
        found = found if first is None else self._weighed(cores, contexts, found, near, first)
        return found.only(found.log_odds >= least)

    def peel(
        self, cores: Tensor, contexts: Contexts, ranking: Ranking, least: float, counts: Tensor | None = None
    ) -> PeelResult:
        """Subtract the candidates of short lists that cores hold, one after the other, and weigh the rest again.

        Args:
            cores: (n, *core_shape).
            contexts: The n contexts.
            ranking: The short lists.
            least: Minimum log odds.
            counts: (n,), how many were found in the contexts before.
        """
        scheme, odds = self.scheme, self.odds
        cores, taken = cores.clone(), torch.zeros(len(cores), dtype=torch.int64, device=cores.device)
        before = taken.clone() if counts is None else counts
        weights = CardinalityWeights.of(odds.cardinality, before, ranking.indices.shape[1])
        rows = torch.nonzero(ranking.scores[:, 0] > -torch.inf).squeeze(1)
        unused = torch.isfinite(ranking.scores)
        none, empty = rows[:0], cores.new_zeros(0).real
        steps = [FoundSet(rows=none, indices=none, strengths=empty, log_odds=empty, subtracted=empty)]
        near = RunnersUp.none(len(cores), min(MAX_SUBSET, ranking.indices.shape[1]), cores.device)
        while len(rows):
            part, indices = contexts[rows], ranking.indices[rows].clamp_max(len(self.candidates) - 1)
            known = ranking.strengths[rows] if len(steps) == 1 else None
            evidence = self._evidence(cores[rows], part, indices, known)
            own = crowding(scheme, cores[rows], evidence, odds).unsqueeze(1)
            alone = odds.log_odds(evidence, indices, own).masked_fill(~unused[rows], -torch.inf)
            value, which = alone.max(dim=1, keepdim=True)
            # A crowded context holds about as many fillers as its energy shows: each is at least that much likelier.
            likelier = torch.log1p(own * (core_scalars(scheme) / odds.strengths.mean_square))
            beside = log_odds_beside(alone, which, weights.beside((before + taken)[rows]))
            value = torch.where(likelier > 0, torch.maximum(beside, value + likelier), beside).squeeze(1)
            is_found = value >= least
            near.put(rows[~is_found], RunnersUp.of(indices[~is_found], alone[~is_found]))
            rows, value, which = rows[is_found], value[is_found], which[is_found]
            if not len(rows):
                break
            columns = odds.expected_strength(evidence, indices, own), evidence.strengths, indices
            out, strength, chosen = (each[is_found].gather(1, which).squeeze(1) for each in columns)
            self._add_(cores, rows, contexts[rows], chosen, -out)
            taken[rows] += 1
            unused[rows, which.squeeze(1)] = False
            steps.append(FoundSet(rows=rows, indices=chosen, strengths=strength, log_odds=value, subtracted=out))
        return PeelResult(cores, taken, near, FoundSet(*(torch.cat(each) for each in zip(*steps, strict=True))))

    def _evidence(
        self, cores: Tensor, contexts: Contexts, indices: Tensor, strengths: Tensor | None = None
    ) -> Evidence:
        """Return the evidence for candidates (n, m) of each context; their strengths may be known."""
        scheme, fillers = self.scheme, self.candidates[indices]
        inner = None if strengths is None else strengths * scheme.energy(contexts, fillers)
        return Evidence.of(scheme, cores, contexts, fillers, inner)

    def _add_(self, cores: Tensor, rows: Tensor, contexts: Contexts, indices: Tensor, strengths: Tensor) -> None:
        """Add one candidate each to the cores of distinct rows."""
        core = self.scheme.encode(self.candidates[indices], contexts)
        scaled = core * strengths.view(-1, *(1,) * (core.dim() - 1)).to(core.dtype)
        cores[rows] += self.scheme.adjoint_write(scaled, contexts)

    def _may_rise(self, counts: Tensor, last: Tensor, least: float) -> Tensor:
        """Whether candidates beyond a list, whose last has this score, may exceed the threshold after subtraction."""
        odds = self.odds
        # By how much the scores of the rest may have moved, five standard deviations, and how far they are away.
        moved = 5 * (counts * odds.strengths.mean_square / core_scalars(self.scheme)).sqrt()
        away = (least - last) * odds.variance.min() / max(odds.strengths.values)
        return (counts > 0) & (moved > away)

    # Correlated candidates

    def _exchanged(self, cores: Tensor, contexts: Contexts, candidates: Tensor, found: FoundSet) -> FoundSet:
        """Replace each candidate by the best one beside the others, as long as one is better; the cores follow.

        Of correlated candidates, one between two stored ones may have been the best at first.
        """
        scheme, rows, indices, out = self.scheme, found.rows, found.indices.clone(), found.subtracted.clone()
        sizes, places = found.places(len(cores))
        every = slice(0, len(candidates))
        for _ in range(MAX_EXCHANGES if len(rows) else 0):
            before = indices.clone()
            for place in range(int(sizes.max())):
                whole = (places == place).nonzero().squeeze(1)
                for part in slices(len(whole), max(1, scheme.room // 4 // len(candidates))):
                    which = whole[part]
                    owners, own = rows[which], contexts[rows[which]]
                    self._add_(cores, owners, own, indices[which], out[which])
                    evidence = Evidence.of(scheme, cores[owners], own, candidates)
                    alone = self.odds.log_odds(evidence, every)
                    row, other = ((rows == owners.unsqueeze(1)) & (places != place)).nonzero(as_tuple=True)
                    alone[row, indices[other]] = -torch.inf
                    best = alone.argmax(1, keepdim=True)
                    indices[which] = best.squeeze(1)
                    out[which] = self.odds.expected_strength(evidence, every).gather(1, best).squeeze(1).to(out)
                    self._add_(cores, owners, own, indices[which], -out[which])
            if indices.equal(before):
                break
        return found._replace(indices=indices, subtracted=out)

    def _unexplained(self, cores: Tensor, contexts: Contexts, found: FoundSet) -> Tensor:
        """Return the energy (n,) that the found candidates leave in the cores, less the energy of the cores."""
        scheme, rows = self.scheme, found.rows
        if not len(rows):
            return torch.zeros(len(cores), dtype=found.subtracted.dtype, device=cores.device)
        strengths = torch.where(found.subtracted > 0, found.subtracted, self.odds.strengths.values[0])
        each = scheme.encode(self.candidates[found.indices], contexts[rows])
        scaled = each * strengths.view(-1, *(1,) * (cores.dim() - 1)).to(each.dtype)
        sums = torch.zeros_like(cores).index_add_(0, rows, scaled.to(cores.dtype))
        left = sums.conj() * (scheme.adjoint_write(sums, contexts) - 2 * cores)
        return (left.real if left.is_complex() else left).flatten(1).sum(1)

    # Weighing sets

    def _weighed(
        self, cores: Tensor, contexts: Contexts, found: FoundSet, near: RunnersUp, first: RunnersUp
    ) -> FoundSet:
        """Weigh what contexts hold: each found candidate beside all others, which are subtracted from the cores.

        `near` are the runners-up after that, `first` the best candidates before. Contexts that are clear, or hold too
        many, stay as they are.
        """
        sizes, places = found.places(len(cores))
        unsure = near.log_odds.logsumexp(1) > math.log(CLEAR)
        unsure[found.rows[found.log_odds < -math.log(CLEAR)]] = True
        again = torch.zeros_like(first.indices)
        again.index_add_(0, found.rows, (first.indices[found.rows] == found.indices.unsqueeze(1)).to(again))
        unsure |= _is_hiding(again > 0, first.log_odds) | self.odds.is_correlated
        few = (sizes <= MAX_SUBSET - 2) & unsure
        rows = few.nonzero().squeeze(1)
        if not len(rows):
            return found
        own = few[found.rows]
        indices = torch.full((len(cores), int(sizes[rows].max())), -1, device=cores.device)
        indices[found.rows[own], places[own]] = found.indices[own]
        indices = torch.cat((indices, near.indices, first.indices), dim=1)
        out = torch.zeros(indices.shape, dtype=self.odds.variance.dtype, device=cores.device)
        out[found.rows[own], places[own]] = found.subtracted[own].to(out)
        before = torch.full(indices.shape, -torch.inf, device=cores.device)
        before[:, -first.indices.shape[1] :] = first.log_odds
        # Each candidate once: its first place stays, with the log odds from before.
        same = (indices.unsqueeze(2) == indices.unsqueeze(1)) & (indices >= 0).unsqueeze(2)
        before = before.unsqueeze(1).masked_fill(~same, -torch.inf).amax(2)
        indices = indices.masked_fill(same.tril(-1).any(2), -1)
        parts = [found.only(~own)]
        for chunk in slices(len(rows), _max_weighed(self.scheme, indices.shape[1])):
            which = rows[chunk]
            given = Shortlist(indices[which], out[which], before[which], near.tail[which].double())
            log_odds, strengths = self._weigh(cores[which], contexts[which], given)
            row, place = ((given.indices >= 0) & torch.isfinite(log_odds)).nonzero(as_tuple=True)
            columns = (given.indices, strengths.expand_as(given.subtracted), log_odds, given.subtracted)
            ours, strength, value, subtracted = (each[row, place] for each in columns)
            more = FoundSet(
                rows=which[row],
                indices=ours,
                strengths=strength,
                log_odds=value.to(found.log_odds),
                subtracted=subtracted.to(found.subtracted),
            )
            parts.append(more)
        return _in_order(parts)

    def _weigh_ranking(
        self, memory: Tensor, contexts: Contexts, ranking: Ranking
    ) -> Iterator[tuple[Ranking, FoundSet, Tensor, Tensor, Tensor]]:
        """Yield chunks of a ranking, what was found and its places in the ranking, log odds and strengths (n, m)."""
        for rows in slices(len(contexts), _max_weighed(self.scheme, ranking.indices.shape[1])):
            part, own = Ranking(*(each[rows] for each in ranking)), contexts[rows]
            scores, indices = part[:2]
            peeled = self.peel(self.scheme.adjoint(memory, own), own, part, 0.0)
            found = peeled.found
            places = (indices[found.rows] == found.indices.unsqueeze(1)).int().argmax(1)
            out = torch.zeros(indices.shape, dtype=self.odds.variance.dtype, device=indices.device)
            out[found.rows, places] = found.subtracted.to(out)
            # Candidates that are not listed keep their odds.
            total = part.log_total.double()
            tail = torch.log1p(-(scores.double() - total.unsqueeze(1)).exp().sum(1).clamp_max(1)) + total
            yield part, found, places, *self._weigh(peeled.cores, own, Shortlist(indices, out, scores, tail))

    def _weigh(self, cores: Tensor, contexts: Contexts, listed: Shortlist) -> tuple[Tensor, Tensor]:
        """Return the log odds and strengths (n, m) of short lists, each candidate whatever else the context holds."""
        indices, out, first, tail = listed
        odds, known = self.odds, indices.clamp_min(0)
        fillers = self.candidates[known]
        evidence = Evidence.of(self.scheme, cores, contexts, fillers)
        more = crowding(self.scheme, cores, evidence, odds).unsqueeze(1)
        evidence = evidence._replace(inner=evidence.inner + out * evidence.energy)
        alone = odds.log_odds(evidence, known, more).double().masked_fill(indices < 0, -torch.inf)
        found = out > 0
        taken = found.sum(1)
        weights = CardinalityWeights.of(odds.cardinality, taken, MAX_SUBSET + MAX_UNLISTED, as_seen=True)
        columns = torch.arange(indices.shape[1], device=indices.device).expand_as(indices)
        log_odds = log_odds_beside(alone, columns, weights.beside(torch.zeros_like(taken), taken), tail)
        chances = log_odds.sigmoid()
        unsure = ((chances > CLEAR) & (chances < 1 - CLEAR)).any(1) | _is_hiding(found, first) | odds.is_correlated
        rows = (unsure & (taken <= MAX_SUBSET - 2)).nonzero().squeeze(1)
        if len(rows) and indices.shape[1] > 1:
            inner, energy = (each.expand_as(known)[rows] for each in (evidence.inner, evidence.energy))
            noise = None if evidence.noise is None else evidence.noise.expand_as(known)[rows]
            log_weights = weights.whole(taken[rows], MAX_SUBSET + MAX_UNLISTED + 1)
            part = Shortlist(*(each[rows] for each in listed))
            subsets = Subsets(self, Evidence(inner, energy, noise), part, log_weights)
            log_odds[rows] = subsets.log_odds(contexts[rows], fillers[rows], more[rows])
        return log_odds, evidence.strengths


class Subsets(NamedTuple):
    """Contexts of which every set of the best candidates is weighed against every other."""

    decoder: SetDecoder
    evidence: Evidence
    listed: Shortlist
    log_weights: Tensor  # (n, k) of holding nothing, one, two, ...

    def log_odds(self, contexts: Contexts, fillers: Tensor, more: Tensor) -> Tensor:
        """Return the log odds (n, m); other fillers are noise, by their expected number. `more` is further variance."""
        scheme, (indices, out, first, _) = self.decoder.scheme, self.listed
        alone = self._alone(more)
        best = torch.maximum(alone, first.to(alone).masked_fill(indices < 0, -torch.inf)) + 1e6 * (out > 0)
        places = best.topk(min(MAX_SUBSET, alone.shape[1]), dim=1).indices
        chosen = fillers[torch.arange(len(places), device=places.device).unsqueeze(1), places]
        common = _inner_products(scheme, contexts, chosen)
        log_odds, unlisted = self._of_sets(more, places, common)
        size = core_scalars(scheme)
        if size < scheme.facts.memory_scalars:
            more = more + (self.decoder.odds.strengths.mean_square / size * unlisted).unsqueeze(1).to(more)
            log_odds, _ = self._of_sets(more, places, common)
        return log_odds

    def _alone(self, more: Tensor) -> Tensor:
        """Return the log odds (n, m) of each candidate when the others that were found are subtracted."""
        indices = self.listed.indices
        alone = self.decoder.odds.log_odds(self.evidence, indices.clamp_min(0), more)
        return alone.double().masked_fill(indices < 0, -torch.inf)

    def _of_sets(self, more: Tensor, places: Tensor, common: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log odds (n, m), and the expected number (n,) of unlisted fillers beside a set.

        `places` (n, size) are the candidates whose sets are weighed, `common` (n, size, size) their inner products.
        """
        odds, every = self.decoder.odds, self._alone(more)
        (indices, out, first, tail), own = self.listed, self.listed.indices.clamp_min(0)
        strengths = odds.expected_strength(self.evidence, own, more).double()
        scale = strengths / (odds.variance_along(self.evidence, own) + more).double().sqrt()
        alone, scale, found = (each.gather(1, places) for each in (every, scale, out > 0))
        common = common * scale.unsqueeze(1) * scale.unsqueeze(2)
        single = (alone + (common * found.unsqueeze(1)).sum(2)).clamp_min(-1e4)
        members, pairs, counts = (each.to(alone.device) for each in _subsets(places.shape[1]))
        one, other = torch.triu_indices(len(common[0]), len(common[0]), 1, device=alone.device)
        weight = single @ members.T - common[:, one, other] @ pairs.T  # (n, sets)
        # Beside a set there may be any of the rest, which are too many to be considered separately. Their odds depend
        # on whether those found are in the set; but many correlated candidates show where a stored one is.
        known = (first > -torch.inf) & (not odds.is_correlated)
        before = torch.where(known, first.to(every), every).masked_fill(indices < 0, -torch.inf)
        rests = [each.scatter(1, places, -torch.inf) for each in (before, every)]
        sums = [torch.logaddexp(rest.logsumexp(1), tail).unsqueeze(1) for rest in rests]
        is_beside_found = found.to(members) @ members.T > 0
        others = torch.where(is_beside_found, sums[1], sums[0])  # (n, sets)
        # The log weights of none, one, two, ... of the rest.
        terms = [torch.zeros_like(others)]
        terms += [k * others - math.lgamma(k + 1) for k in range(1, MAX_UNLISTED + 1)]
        both, next_one = (
            [weight + self.log_weights[:, counts + added + k] + term for k, term in enumerate(terms)]
            for added in (0, 1)
        )
        summed, with_one_more = reduce(torch.logaddexp, both), reduce(torch.logaddexp, next_one)
        whole = summed.logsumexp(1, keepdim=True)
        chances = ((summed - whole).exp() @ members).clamp(1e-15, 1 - 1e-15)
        beside = [
            rest + with_one_more.masked_fill(excluded, -torch.inf).logsumexp(1, keepdim=True)
            for rest, excluded in zip(rests, (is_beside_found, ~is_beside_found), strict=True)
        ]
        rest_chances = (torch.logaddexp(*beside) - whole).exp().clamp(0, 1 - 1e-15)
        # Beside sets that are not empty.
        unlisted = torch.stack([k * (each - whole)[:, 1:].exp().sum(1) for k, each in enumerate(both)]).sum(0)
        return rest_chances.scatter(1, places, chances).logit(), unlisted


def _inner_products(scheme: Scheme, contexts: Contexts, fillers: Tensor) -> Tensor:
    """Return the inner products (n, size, size) of different bound candidates (n, size, *filler_shape)."""
    cores = [scheme.encode(fillers[:, i], contexts) for i in range(fillers.shape[1])]
    written = [scheme.adjoint_write(core, contexts) for core in cores]
    ours, theirs = (as_reals(torch.stack(some, dim=1), len(scheme.facts.core_shape)) for some in (cores, written))
    common = torch.bmm(ours, theirs.mT).double()
    return common - torch.diag_embed(common.diagonal(dim1=1, dim2=2))


@cache
def _subsets(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return all sets of `size` candidates: members (2^size, size), the pairs in them (2^size, pairs), their sizes."""
    members = torch.tensor([[number >> i & 1 for i in range(size)] for number in range(1 << size)])
    pairs = torch.stack([members[:, i] * members[:, j] for i, j in combinations(range(size), 2)], dim=1)
    return members.double(), pairs.double(), members.sum(1)


def _is_hiding(found: Tensor, first: Tensor) -> Tensor:
    """Whether contexts (n,) have a candidate that was not found, whose log odds were about those of one that was.

    It may be similar to the one that was subtracted.
    """
    least = first.masked_fill(~found, torch.inf).amin(1)
    return first.masked_fill(found, -torch.inf).amax(1) > least + math.log(CLEAR)


def _max_weighed(scheme: Scheme, listed: int) -> int:
    """Return the number of contexts whose lists of `listed` candidates are weighed at a time."""
    sizes = (
        listed * math.prod(scheme.facts.filler_shape),
        MAX_SUBSET * math.prod(scheme.facts.core_shape),
        MAX_UNLISTED * 2 ** (MAX_SUBSET + 2),
    )
    return max(1, scheme.room // 4 // max(sizes))


def _in_order(parts: list[FoundSet]) -> FoundSet:
    """Return the parts as one, by their contexts."""
    whole = FoundSet(*(torch.cat(each) for each in zip(*parts, strict=True)))
    return whole.only(whole.rows.argsort(stable=True))


# How many fillers a context holds


class CardinalityWeights(NamedTuple):
    """The logarithms of w_0, w_1, ... of contexts in which several fillers were found, and of the others."""

    logs: Tensor  # (k,)
    single: Tensor  # (k,)
    max_together: int

    @classmethod
    def of(cls, cardinality: CardinalityPrior, found: Tensor, more: int, as_seen: bool = False) -> "CardinalityWeights":
        """Return the weights of contexts that hold `found` (n,) fillers and up to `more` further ones.

        What was never seen is rare. With `as_seen`, where one filler was found at most, it is impossible, as in single
        answers.
        """
        most = (int(found.max()) if len(found) else 0) + more + cardinality.max_together
        usual, seen = (
            torch.tensor([0.0, *cardinality.log_ratios(most, rare)], dtype=torch.float64, device=found.device).cumsum(0)
            for rare in (MIN_LOAD_SHARE, 0.0)
        )
        return cls(usual, seen if as_seen else usual, cardinality.max_together)

    def beside(self, certain: Tensor, found: Tensor | None = None) -> Tensor:
        """Return the weights (n, k) of contexts that hold `certain` (n,) fillers, one more, two more, ...

        `found` (n,) says how many were found, if that is more.
        """
        columns = torch.arange(self.max_together + 2, device=certain.device)
        is_several = (certain if found is None else found - 1).unsqueeze(1) > 0
        return torch.where(is_several, self.logs[certain.unsqueeze(1) + columns], self.single[columns])

    def whole(self, found: Tensor, most: int) -> Tensor:
        """Return the weights (n, most + 1) of holding nothing, one, two, ..."""
        columns = torch.arange(most + 1, device=found.device)
        return torch.where(found.unsqueeze(1) > 1, self.logs[columns], self.single[columns])


def log_odds_beside(alone: Tensor, columns: Tensor, log_weights: Tensor, tail: Tensor | None = None) -> Tensor:
    """Return the log odds (n, c) of the fillers of some columns, whatever else contexts hold.

    Args:
        alone: (n, m) log odds of fillers alone; minus infinity for those that are certain, or impossible.
        columns: (n, c).
        log_weights: (n, k), of holding the certain fillers, one more, two more, ...
        tail: (n,), the logarithm of the summed odds of fillers that have no column.
    """
    own, degree = alone.gather(1, columns), log_weights.shape[1] - 2
    best, places = alone.topk(min(1 if degree < 2 else MAX_SEPARATE, alone.shape[1]), dim=1)
    rest = alone.scatter(1, places, -torch.inf).logsumexp(1, keepdim=True)
    rest = rest if tail is None else torch.logaddexp(rest, tail.unsqueeze(1))
    itself = columns.unsqueeze(2) == places.unsqueeze(1)  # (n, c, best)
    rest = torch.where(itself.any(2), rest, rest + torch.log1p(-(own - rest).exp().clamp_max(1)).nan_to_num(0.0))
    sums = [torch.zeros_like(rest), *(k * rest - math.lgamma(k + 1) for k in range(1, degree + 1))]
    for place in range(places.shape[1]):
        other = torch.where(itself[:, :, place], -torch.inf, best[:, place : place + 1])
        for k in range(degree, 0, -1):
            sums[k] = torch.logaddexp(sums[k], sums[k - 1] + other)
    weights = (log_weights - log_weights[:, :1]).unsqueeze(1).to(own)  # (n, 1, k)
    every = torch.stack(sums, dim=2)
    return own + (weights[:, :, 1:] + every).logsumexp(2) - (weights[:, :, :-1] + every).logsumexp(2)
