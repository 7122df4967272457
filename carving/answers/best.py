"""How answers are found: the best candidates of a vocabulary, exactly."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carving.checks import check_integer, check_tensor, listed
from carving.chunks import slices
from carving.errors import BadType, BadValue
from carving.scheme import FILLERS, Contexts, Places, Scheme, Symbols
from carving.symbols import Leaf

FEW = 4  # contexts that do not pay for making candidates ready
MANY = 1024  # contexts for which candidates are made at a time


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
    norm: float  # the squared norm of the memory

    def weigh(self, seen: "Seen", indices: Tensor | slice, own: Tensor | float = 0.0) -> Tensor:
        """The log odds: with b the bound candidate and M the memory, (<M, b> - |b|^2 / 2) / variance + prior.

        `own` is variance that comes on top.
        """
        return (seen.inner - seen.energy / 2) / (self.spread(seen, indices) + own) + self.prior[indices]

    def spread(self, seen: "Seen", indices: Tensor | slice) -> Tensor:
        """The variances along the bound candidates: more than the mean where roles are louder than others."""
        variance = self.variance[indices]
        return variance if seen.loudness is None else variance * (seen.loudness / self.norm)


class Seen(NamedTuple):
    """What contexts show of candidates."""

    inner: Tensor  # <memory, bound candidate>
    energy: Tensor  # |bound candidate|^2
    loudness: Tensor | None  # the memory's squared norm as these contexts see it, where it is not the same for all


def seen(scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: Tensor) -> Seen:
    """What the contexts' cores (of `scheme.adjoint`) show of candidates."""
    energy = scheme.energy(contexts, candidates)
    return Seen(scheme.inner(cores, contexts, candidates), energy, scheme.loudness(cores, contexts, candidates, energy))


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
            raise BadValue("among needs the candidates themselves; give scheme.fillers(labels) instead of labels")
    absent = len(candidates)  # stands where there is no candidate
    choices = None if among is None else checked_choices(among, len(contexts), absent)
    width = absent if choices is None else choices.shape[-1]
    fewest = width if choices is None else int(choices.lt(absent).sum(-1).min())
    if not fewest:
        raise BadValue("every context needs a candidate, but among leaves some with none; give them one or more")
    k = check_integer("k", k, 1, fewest, "there are no more candidates to answer with")

    # Scores take a quarter of the workspace; where candidates are gathered, these take it. Fillers that are made from
    # labels take all of it, and are then used for all contexts.
    filler = math.prod(scheme.filler_shape)
    gathered = 1 if choices is None else filler
    cells = max(1, scheme.workspace // (4 * scheme.dtype.itemsize * gathered))
    columns = min(width, cells if stored else max(1, scheme.workspace // (filler * scheme.dtype.itemsize)))
    if scheme.code and isinstance(candidates, Tensor) and choices is None and len(contexts) > FEW:
        candidates = scheme.ready(candidates)
        if candidates.dim() != 2:  # too many to be held as codes: made for many contexts at a time
            columns = min(width, max(1, cells // min(len(contexts), MANY)))
    parts = _parts(scheme, memory, contexts, max(1, cells // columns) if stored else None, odds is not None)
    answers = []
    for rows, part, cores in parts:
        some = None if choices is None else choices[rows] if choices.dim() == 2 else choices
        answers.append(best_of_all(scheme, cores, part, candidates, some, k, odds, columns))
    best = Best(torch.cat([a.best.scores for a in answers]), torch.cat([a.best.indices for a in answers]))
    return Weighed(best, torch.cat([a.total for a in answers]))


def best_of_all(
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
    return odds.weigh(seen(scheme, cores, part, fillers), indices)


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


def checked_choices(among: Any, contexts: int, absent: int) -> Tensor:
    """The indices in order, each once: (m,) or (n, m), with `absent` where there is none."""
    if not isinstance(among, Tensor) or among.is_floating_point() or among.is_complex() or among.dtype == torch.bool:
        kind = among.dtype if isinstance(among, Tensor) else type(among).__name__
        raise BadType(
            f"among must be a tensor of integers, got {kind}; "
            "torch.tensor(indices) makes one, mask.nonzero().squeeze(1) turns a mask into one"
        )
    own = among.dim() != 1
    check_tensor("among", among, (contexts, -1) if own else (-1,), "give (m,) for all contexts or (n, m), a row each")
    among, low = among.to(torch.int64), -1 if own else 0
    if among.min() < low or among.max() >= absent:
        raise BadValue(
            f"among must hold indices of {low} .. {absent - 1}, got {int(among.min())} .. {int(among.max())}; "
            "they are places in the vocabulary"
        )
    if not own:
        return among.unique()
    ordered = among.masked_fill(among < 0, absent).sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, absent)
