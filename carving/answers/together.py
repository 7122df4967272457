"""Joint decoding: all contexts of a memory answered together.

Asked one at a time, a context sees the N - 1 other pairs as noise, although the memory knows them. Here every context
says what it expects to hold, these expectations are taken out of the memory, and all are asked again, with less noise:
approximate message passing, as for sparse superposition codes. The Onsager term keeps a context's own past answers out
of the noise that it sees, so that the noise stays Gaussian, with the variance that the residual shows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from carving.checks import check_integer, check_tensor, listed
from carving.chunks import slices
from carving.errors import BadValue
from carving.scheme import FILLERS, Contexts, Places, Scheme

CELLS = 2**23  # weights of candidates in contexts that stand beside each other
SURE = 0.01  # the mean doubt below which the answers count as found
# Where doubts are left, answers of later rounds count if either tells that they are better:
FALLEN = 0.9  # of the first round's noise is left at most
WORTH = 2.0  # standard deviations of chance are promised by their probabilities
STILL = 3  # rounds without a change after which nothing more will come
LEAST = 1e-7  # of the memory's energy: below, the residual is rounding

Heard = Callable[[int, float], None]  # told the round, and the share of the memory that is not explained yet


@dataclass(frozen=True)
class Decoded:
    """What contexts hold, answered together. One that holds several fillers has as many rows, one after the other."""

    indices: Tensor  # (rows,) places of candidates; -1 where nothing is held
    probabilities: Tensor  # (rows,) of that answer
    scores: Tensor  # (rows,) how strongly the memory, less all else, holds it: about 1
    converged: bool  # whether the answers came to rest, with hardly a doubt left
    rounds: int  # how often the memory was read
    noise: tuple[float, ...]  # the variance of the interference in each round, in one number of the memory


class _Round(NamedTuple):
    """What the memory and the expectations of one round gave."""

    cores: Tensor  # (rows, *core_shape) what each row is expected to hold
    doubt: float  # the energy that the expectations leave open, summed over rows
    indices: Tensor
    probabilities: Tensor
    scores: Tensor


def decode(
    scheme: Scheme,
    memory: Tensor,
    contexts: Places,
    candidates: Tensor,
    *,
    holds: int | Sequence[int] = 1,
    prior: Tensor | None = None,
    shares: Tensor | None = None,
    absence: float = 0.0,
    rounds: int = 100,
    heard: Heard | None = None,
) -> Decoded:
    """The candidate of every context, found together: the more contexts are given, the less noise is left.

    `holds` says how many fillers the contexts hold at most, or each of them. `prior` (L,) are the candidates'
    probabilities beforehand, up to a factor, and `absence` that of nothing being there. `shares` (L,) says which part
    of all stored pairs holds each candidate: a filler that other contexts hold as well echoes in this one. Stored
    contexts that are not given stay noise; given ones that hold nothing come out as empty, if `absence` allows. The
    first round asks one at a time; the round that explains most of the memory counts, or the first one, where that
    promises no more than chance.
    """
    check_integer("rounds", rounds, 1, way_out="100 are usual; most memories need ten")
    even = scheme.evened(memory)
    made = contexts if isinstance(contexts, Contexts) else scheme.contexts(contexts)
    task = _checked(scheme, made, candidates, holds, prior, shares, absence, memory.device)
    scalars, energy = scheme.facts.memory_scalars, _energy(even)
    if not math.isfinite(energy):
        raise BadValue("the memory must hold finite numbers, got infinity or not-a-number; store its pairs again")
    least = LEAST * max(energy, 1.0) / scalars  # an empty memory has no energy at all
    cores = torch.zeros(len(task.owners), *scheme.core_shape, dtype=scheme.memory_dtype, device=memory.device)
    onsager = torch.zeros_like(even)
    first: _Round | None = None
    best: tuple[float, _Round] | None = None
    noise: list[float] = []
    damping, still, rested = 0.0, 0, False
    for number in range(rounds):
        left = even - scheme.evened(task.written(cores)) if number else even
        residual = left + onsager
        noise.append(max(_energy(residual) / scalars, least))
        found = task.asked(residual, cores, noise[-1])
        if heard:
            heard(number + 1, _energy(left) / max(energy, 1e-30))
        if best is not None:
            changed = bool((found.indices != best[1].indices).any())
            still = 0 if changed and noise[-1] < best[0] else still + (noise[-1] > 0.999 * best[0])
        first = first or found
        if best is None or noise[-1] < best[0]:
            best = noise[-1], found
        rested = still >= STILL or noise[-1] <= least
        if rested:
            break
        if number and noise[-1] > noise[-2]:  # the steps are too long
            damping = min(0.9, 0.5 * (1 + damping))
        # What is expected and what corrects for it are damped alike: the correction belongs to the answers.
        cores = torch.lerp(found.cores, cores, damping) if damping else found.cores
        fresh = found.doubt / (scalars * noise[-1]) * residual
        onsager = torch.lerp(fresh, onsager, damping) if damping else fresh
    assert first is not None and best is not None
    answer = best[1]
    converged = rested and float((1 - answer.probabilities).mean()) < SURE
    if not converged and best[0] > FALLEN * noise[0]:
        # Far beyond what can be decoded, answers change by chance as often to the worse as to the better.
        now, before = answer.probabilities, first.probabilities
        moved = (now + before)[answer.indices != first.indices].sum()  # right answers that come or go: their variance
        answer = answer if bool((now - before).sum() > WORTH * moved.sqrt()) else first
    return Decoded(answer.indices, answer.probabilities, answer.scores, converged, len(noise), tuple(noise))


def _energy(memory: Tensor) -> float:
    return float(torch.linalg.vector_norm(memory).double().square())


@dataclass(frozen=True)
class _Task:
    """What is asked, and the two halves of a round."""

    scheme: Scheme
    contexts: Contexts
    candidates: Tensor
    starts: Tensor  # (n,) the first row of each context
    holds: Tensor  # (n,)
    owners: Tensor  # (rows,) the context of each row
    prior: Tensor  # (L,) logarithms of probabilities beforehand
    echoes: Tensor  # (L,) the noise that each candidate meets, beside that of one which is stored nowhere else
    nothing: float  # the same of nothing being there

    def written(self, cores: Tensor) -> Tensor:
        """The memory that the expected cores make."""
        if len(self.owners) == len(self.contexts):
            return self.scheme.write(cores, self.contexts)
        summed = torch.zeros(len(self.contexts), *cores.shape[1:], dtype=cores.dtype, device=cores.device)
        return self.scheme.write(summed.index_add_(0, self.owners, cores), self.contexts)

    def asked(self, residual: Tensor, cores: Tensor, noise: float) -> _Round:
        """What every row holds, by the residual and the row's own part that was taken out of it."""
        rows, numbers = len(self.owners), math.prod(self.scheme.core_shape) * (2 if cores.is_complex() else 1)
        made, doubt = torch.empty_like(cores), 0.0
        indices = torch.empty(rows, dtype=torch.int64, device=cores.device)
        probabilities, scores = (torch.empty(rows, dtype=self.scheme.dtype, device=cores.device) for _ in range(2))
        size = max(1, min(len(self.contexts), CELLS // max(len(self.candidates), numbers)))
        for some in slices(len(self.contexts), size):
            places, starts, holds = self.contexts[some], self.starts[some], self.holds[some]
            seen = self.scheme.adjoint(residual, places)
            own = slice(int(starts[0]), int(starts[-1] + holds[-1]))
            owners = self.owners[own] - some.start
            # What each row was expected to hold, made anew row after row.
            taken = self.scheme.returned(cores[own], places if len(owners) == len(places) else places[owners])
            # The context's part of the memory: what is left of it and all that it was expected to hold.
            whole = seen.index_add(0, owners, taken)
            # What is not known of fillers found before in the same context is noise that its core alone bears. Those
            # still to be found do not count: rows of one context would be slower to part.
            open_ = torch.zeros(len(places), dtype=self.scheme.dtype, device=cores.device)
            for slot in range(int(holds.max())):
                which = (holds > slot).nonzero().squeeze(1)
                row = starts[which] + slot
                part = places if len(which) == len(places) else places[which]
                others = torch.zeros_like(whole).index_add_(0, owners, taken)[which]
                view = whole[which] - others + taken[row - own.start]
                found = self._weighed(view, part, noise + open_[which] / numbers)
                made[row], indices[row], probabilities[row], scores[row] = found[:4]
                taken = taken.index_copy(0, row - own.start, self.scheme.returned(found[0], part))
                open_[which] += found[4]
                doubt += float(found[4].double().sum())
        return _Round(made, doubt, indices, probabilities, scores)

    def _weighed(self, cores: Tensor, contexts: Contexts, spread: Tensor) -> tuple[Tensor, ...]:
        """The expected cores, the best candidates, their probabilities and scores, and the energy that is open."""
        scheme = self.scheme
        inner = scheme.inner(cores, contexts, self.candidates)
        energy = scheme.energy(contexts, self.candidates).expand(inner.shape)
        logits = (inner - energy / 2) / (spread.unsqueeze(1) * self.echoes) + self.prior
        top, best = logits.max(dim=1)
        peak = top.clamp_min(self.nothing)
        weights = (logits - peak.unsqueeze(1)).exp_()
        empty = (self.nothing - peak).exp()
        total = weights.sum(1) + empty
        weights /= total.unsqueeze(1)
        empty = empty / total
        mean = scheme.mixed(weights, contexts, self.candidates)
        returned = scheme.returned(mean, contexts)
        open_ = (weights * energy).sum(1) - _inner(mean, returned)
        score = (inner / energy).gather(1, best.unsqueeze(1)).squeeze(1)
        chance = weights.gather(1, best.unsqueeze(1)).squeeze(1)
        none = empty > chance
        return mean, best.masked_fill(none, -1), torch.where(none, empty, chance), score, open_.clamp_min(0)


def _inner(one: Tensor, two: Tensor) -> Tensor:
    product = (one.conj() * two).flatten(1).sum(1)
    return product.real if product.is_complex() else product


def _checked(
    scheme: Scheme,
    contexts: Contexts,
    candidates: Tensor,
    holds: int | Sequence[int],
    prior: Tensor | None,
    shares: Tensor | None,
    absence: float,
    device: torch.device,
) -> _Task:
    if not scheme.facts.linear:
        raise BadValue(
            f"joint decoding takes pairs out of a sum, which a memory of {scheme} is not, because it settles; "
            'memory="raw" or another scheme is one'
        )
    check_tensor("candidates", candidates, (-1, *scheme.filler_shape), FILLERS)
    count, total = len(contexts), len(candidates)
    if not count:
        raise BadValue("contexts must not be empty: give at least one")
    every = [holds] * count if isinstance(holds, int) else listed(holds, "holds")
    many = [check_integer("holds", one, 1, way_out="leave out contexts that hold nothing") for one in every]
    if len(many) != count:
        raise BadValue(f"holds must be one number for each of the {count} contexts, got {len(many)} numbers")
    if not isinstance(absence, float | int) or not 0 <= absence < 1:
        raise BadValue(f"absence must be a probability from 0 to below 1, got {absence!r}; 0 if all hold something")
    known = torch.ones(total) if prior is None else prior
    check_tensor("prior", known, (total,), "give one for each candidate")
    if not bool((known >= 0).all()) or not 0 < float(known.double().sum()) < math.inf:
        raise BadValue(f"prior must hold probabilities, not all zero, got {known}; counts will do")
    known = torch.log((1 - absence) * known.double() / known.double().sum())
    parts = torch.zeros(total) if shares is None else shares
    check_tensor("shares", parts, (total,), "give one for each candidate")
    if not bool(((parts >= 0) & (parts <= 1)).all()):
        raise BadValue(f"shares must lie between 0 and 1, got {parts}; they are parts of all stored pairs")
    louder = max(0.0, scheme.facts.echo / scheme.facts.interference - 1)
    each = torch.tensor(many)
    return _Task(
        scheme=scheme,
        contexts=contexts,
        candidates=scheme.ready(candidates),
        starts=(each.cumsum(0) - each).to(device),
        holds=each.to(device),
        owners=torch.arange(count).repeat_interleave(each).to(device),
        prior=known.to(device, scheme.dtype),
        echoes=(1 + louder * parts.double()).to(device, scheme.dtype),
        nothing=math.log(absence) if absence else -math.inf,
    )
