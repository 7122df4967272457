"""How answers are found: the best candidates of a vocabulary, exactly."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carving.checks import check_integer, check_tensor, listed
from carving.draws import Leaf
from carving.scheme import FILLERS, Contexts, Places, Scheme, Symbols, slices


class Best(NamedTuple):
    """The best candidates of each context, best first; equal scores stand in the vocabulary's order.

    Equal means to the last bit, as in architectures that count. Two copies of one filler may differ there, by where
    they stand in a product.
    """

    scores: Tensor  # (n, k)
    indices: Tensor  # (n, k), places in the vocabulary


def top(
    scheme: Scheme,
    memory: Tensor,
    contexts: Places,
    candidates: Symbols,
    k: int = 1,
    *,
    among: Tensor | None = None,
) -> Best:
    """The k best candidates of each context: every one is scored, in chunks.

    Candidates may be labels: their fillers are then made chunk by chunk and never held together; what the contexts show
    of the memory is. `among` restricts the candidates by their indices: (m,) for all contexts alike, (n, m) for each
    its own, where -1 stands for no candidate, so that some contexts may have fewer.
    """
    return _scan(scheme, memory, contexts, candidates, k, among, None).best


@dataclass(frozen=True)
class Odds:
    """What makes odds of inner products: the noise, and how likely candidates are before the memory is asked."""

    variance: Tensor  # (L,) of the interference, in one real number of the memory, for each candidate
    prior: Tensor  # (L,) the logarithm of each candidate's odds against "nothing is stored here"

    def weigh(self, inner: Tensor, energy: Tensor, indices: Tensor | slice) -> Tensor:
        """The log odds: with b the bound candidate and M the memory, (<M, b> - |b|^2 / 2) / variance + prior."""
        return (inner - energy / 2) / self.variance[indices] + self.prior[indices]


class Weighed(NamedTuple):
    """The best candidates by their log odds, and the logarithm of the sum of all candidates' odds."""

    best: Best
    total: Tensor  # (n,)


def weigh(
    scheme: Scheme,
    memory: Tensor,
    contexts: Places,
    candidates: Symbols,
    odds: Odds,
    k: int = 1,
    *,
    among: Tensor | None = None,
) -> Weighed:
    """The k candidates of each context with the best odds; everything else is as in `top`."""
    return _scan(scheme, memory, contexts, candidates, k, among, odds)


def _scan(
    scheme: Scheme,
    memory: Tensor,
    contexts: Places,
    candidates: Symbols,
    k: int,
    among: Tensor | None,
    odds: Odds | None,
) -> Weighed:
    contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
    stored = isinstance(candidates, Tensor)
    if isinstance(candidates, Tensor):
        check_tensor("candidates", candidates, (-1, *scheme.filler_shape), FILLERS)
    else:
        candidates = listed(candidates, "candidates")
        if among is not None:
            raise ValueError("among needs the candidates themselves; give scheme.fillers(labels) instead of labels")
    absent = len(candidates)  # stands where there is no candidate
    choices = None if among is None else _choices(among, len(contexts), absent)
    width = absent if choices is None else choices.shape[-1]
    fewest = width if choices is None else int(choices.lt(absent).sum(-1).min())
    if not fewest:
        raise ValueError("every context needs a candidate, but among leaves some with none; give them one or more")
    k = check_integer("k", k, 1, fewest, "there are no more candidates to answer with")

    # Scores take a quarter of the workspace; where candidates are gathered, these take it. Fillers that are made from
    # labels take all of it, and are then used for all contexts.
    filler = math.prod(scheme.filler_shape)
    gathered = 1 if choices is None else filler
    cells = max(1, scheme.workspace // (4 * scheme.dtype.itemsize * gathered))
    columns = min(width, cells if stored else max(1, scheme.workspace // (filler * scheme.dtype.itemsize)))
    parts = _parts(scheme, memory, contexts, max(1, cells // columns) if stored else None, odds is not None)
    answers = []
    for rows, part, cores in parts:
        some = None if choices is None else choices[rows] if choices.dim() == 2 else choices
        answers.append(_best_of_all(scheme, cores, part, candidates, some, k, odds, columns))
    best = Best(torch.cat([a.best.scores for a in answers]), torch.cat([a.best.indices for a in answers]))
    return Weighed(best, torch.cat([a.total for a in answers]))


def _best_of_all(
    scheme: Scheme,
    cores: Tensor,
    part: Contexts | None,
    candidates: Tensor | list[Leaf],
    choices: Tensor | None,
    k: int,
    odds: Odds | None,
    columns: int,
) -> Weighed:
    """The best of all candidates, or of these contexts' choices, `columns` at a time."""
    absent = len(candidates)
    best: Best | None = None
    total = torch.full((len(cores),), -torch.inf, dtype=scheme.dtype, device=cores.device)
    for some in slices(absent if choices is None else choices.shape[-1], columns):
        if choices is None:
            fillers = candidates[some] if isinstance(candidates, Tensor) else scheme.fillers(candidates[some])
            scores = _rated(scheme, cores, part, fillers, odds, some)
            found = best_of(scores, k)
            found = Best(found.scores, found.indices + some.start)
        else:
            assert isinstance(candidates, Tensor)
            indices = choices[..., some]
            chosen = indices.clamp_max(absent - 1)
            scores = _rated(scheme, cores, part, candidates[chosen], odds, chosen)
            scores = scores.masked_fill(indices == absent, -torch.inf)
            found = best_of(scores, k)
            found = Best(found.scores, indices.expand(len(cores), -1).gather(1, found.indices))
        best = found if best is None else merged(best, found, k)
        if odds is not None:
            total = torch.logaddexp(total, scores.logsumexp(1))
    assert best is not None
    return Weighed(best, total)


def _parts(
    scheme: Scheme, memory: Tensor, contexts: Places, size: int | None, transposed: bool
) -> Iterator[tuple[slice, Contexts | None, Tensor]]:
    """The contexts in chunks with their cores; with no size all in one, and only made where they are needed."""
    take = scheme.adjoint if transposed else scheme.read
    if size is not None:
        for rows, part in scheme.places(contexts, size):
            yield rows, part, take(memory, part)
        return
    needed = scheme.facts.contextual or transposed
    made = scheme.contexts(contexts) if needed and not isinstance(contexts, Contexts) else contexts
    yield slice(None), made if isinstance(made, Contexts) else None, take(memory, made)


def _rated(
    scheme: Scheme, cores: Tensor, part: Contexts | None, fillers: Tensor, odds: Odds | None, indices: Tensor | slice
) -> Tensor:
    if odds is None:
        return scheme.match(cores, part, fillers)
    assert part is not None
    return odds.weigh(scheme.inner(cores, part, fillers), scheme.energy(part, fillers), indices)


def best_of(scores: Tensor, k: int) -> Best:
    """The k largest of each row (all of a shorter row), largest first, the first of equal ones first."""
    if k == 1:
        return Best(*scores.max(dim=1, keepdim=True))
    if scores.shape[1] <= k:
        return Best(*scores.sort(dim=1, descending=True, stable=True))
    values, indices = scores.topk(k, dim=1)
    # `topk` may take any of the scores that are equal to the smallest it keeps: sort those rows whole.
    tied = scores.ge(values[:, -1:]).sum(1) > k
    if tied.any():
        indices[tied] = scores[tied].sort(dim=1, descending=True, stable=True).indices[:, :k]
    indices = indices.sort(dim=1).values
    ordered, order = scores.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return Best(ordered, indices.gather(1, order))


def merged(first: Best, second: Best, k: int) -> Best:
    """The k best of two, where every index of the first stands before those of the second."""
    scores, indices = (torch.cat(pair, dim=1) for pair in zip(first, second, strict=True))
    best = best_of(scores, k)
    return Best(best.scores, indices.gather(1, best.indices))


def _choices(among: Any, contexts: int, absent: int) -> Tensor:
    """The indices in order, each once: (m,) or (n, m), with `absent` where there is none."""
    if not isinstance(among, Tensor) or among.is_floating_point() or among.is_complex() or among.dtype == torch.bool:
        kind = among.dtype if isinstance(among, Tensor) else type(among).__name__
        raise TypeError(
            f"among must be a tensor of integers, got {kind}; "
            "torch.tensor(indices) makes one, mask.nonzero().squeeze(1) turns a mask into one"
        )
    own = among.dim() != 1
    check_tensor("among", among, (contexts, -1) if own else (-1,), "give (m,) for all contexts or (n, m), a row each")
    among, low = among.to(torch.int64), -1 if own else 0
    if among.min() < low or among.max() >= absent:
        raise ValueError(
            f"among must hold indices of {low} .. {absent - 1}, got {int(among.min())} .. {int(among.max())}; "
            "they are places in the vocabulary"
        )
    if not own:
        return among.unique()
    ordered = among.masked_fill(among < 0, absent).sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, absent)


# Several fillers in one context

SHORTLIST, LONGEST = 32, 4096  # candidates of a context that are looked at more closely, at first and at most


class Held(NamedTuple):
    """The candidates that contexts hold, in the order in which they were found: one row each."""

    rows: Tensor  # which context
    indices: Tensor  # which candidate
    scores: Tensor  # how strongly: 1 for one that was stored once
    odds: Tensor  # the logarithm of its odds when it was found


def peel(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    odds: Odds,
    least: float,
    *,
    among: Tensor | None = None,
) -> Held:
    """Every candidate whose log odds are at least `least`, found ones being taken out of the core one after the other.

    A scan of all candidates gives each context a short list; the best of it is taken out and the list weighed again
    until none is left. Taking candidates out changes the scores of those outside the list: where that could lift one
    over the bar, the context is scanned again, with a longer list.
    """
    choices = None if among is None else _choices(among, len(contexts), len(candidates))
    width = len(candidates) if choices is None else choices.shape[-1]
    cores = scheme.adjoint(memory, contexts)
    columns = max(
        1, scheme.workspace // (4 * scheme.dtype.itemsize * (1 if choices is None else candidates[0].numel()))
    )
    active, size, found = torch.arange(len(contexts), device=cores.device), SHORTLIST, []
    while len(active):
        again = []
        for some in slices(len(active), max(1, min(columns // min(columns, width), LONGEST * 8 // size))):
            rows = active[some]
            part, own = contexts[rows], None if choices is None else choices[rows] if choices.dim() == 2 else choices
            best = _best_of_all(scheme, cores[rows], part, candidates, own, min(size, width), odds, columns).best
            rest, taken, held = _peel_short(scheme, cores[rows], part, candidates, best, odds, least)
            cores[rows] = rest
            found.append(Held(rows[held.rows], *held[1:]))
            if best.scores.shape[1] < width:
                # By how much the rest's scores may have moved, five standard deviations, and how far they are away.
                moved = 5 * (taken / _core_scalars(scheme)).sqrt()
                away = (least - best.scores[:, -1]) * odds.variance.min()
                again.append(rows[(taken > 0) & (moved > away)])
        active, size = torch.cat(again) if again else active[:0], min(8 * size, LONGEST)
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
        inner, energy = scheme.inner(cores[rows], part, fillers), scheme.energy(part, fillers)
        own = crowding(scheme, cores[rows], inner, energy, odds)
        weighed = (inner - energy / 2) / (odds.variance[places] + own.unsqueeze(1)) + odds.prior[places]
        weighed = weighed.masked_fill(~open_[rows], -torch.inf)
        value, which = weighed.max(dim=1)
        kept = value >= least
        rows, value, which = rows[kept], value[kept], which[kept]
        if not len(rows):
            break
        chosen = places[kept].gather(1, which.unsqueeze(1)).squeeze(1)
        strength = (inner / energy)[kept].gather(1, which.unsqueeze(1)).squeeze(1)
        part = contexts[rows]
        cores[rows] -= scheme.returned(scheme.encode(candidates[chosen], part), part)
        taken[rows] += 1
        open_[rows, which] = False
        steps.append(Held(rows, chosen, strength, value))
    if not steps:
        nothing = rows[:0]
        steps = [Held(nothing, nothing, cores.new_zeros(0).real, cores.new_zeros(0).real)]
    return cores, taken, Held(*(torch.cat(parts) for parts in zip(*steps, strict=True)))


def crowding(scheme: Scheme, cores: Tensor, inner: Tensor, energy: Tensor, odds: Odds) -> Tensor:
    """The variance (n,) that other fillers of the same context give a score.

    A crowded context shows by the energy of its core, less that of its best candidate. What three standard deviations
    of interference explain does not count. Where cores are as large as the memory, its own norm says it all.
    """
    size = _core_scalars(scheme)
    if size >= scheme.facts.memory_scalars:
        return cores.new_zeros(len(cores)).real
    flat = (torch.view_as_real(cores) if cores.is_complex() else cores).flatten(1)
    rest = flat.square().sum(1) - (inner.square() / energy).amax(1)
    usual = odds.variance.min() * (1 + 3 * math.sqrt(2 / size))
    return (rest / size - usual).clamp_min(0)


def _core_scalars(scheme: Scheme) -> int:
    return math.prod(scheme.core_shape) * (2 if scheme.memory_dtype.is_complex else 1)
