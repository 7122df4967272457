"""How answers are found: the best candidates of a vocabulary, exactly."""

from typing import NamedTuple

import torch
from torch import Tensor

from carving.checks import check_integer, check_shape
from carving.scheme import Places, Scheme


class Best(NamedTuple):
    """The best candidates of each context, best first; equal scores stand in the vocabulary's order."""

    scores: Tensor  # (n, k)
    indices: Tensor  # (n, k), places in the vocabulary


def top(
    scheme: Scheme,
    memory: Tensor,
    contexts: Places,
    candidates: Tensor,
    k: int = 1,
    *,
    among: Tensor | None = None,
) -> Best:
    """The k best candidates of each context: every one is scored, in chunks.

    `among` restricts the candidates by their indices: (m,) for all contexts alike, (n, m) for each its own,
    where -1 stands for no candidate, so that some contexts may have fewer.
    """
    check_shape("memory", memory, scheme.memory_shape)
    check_shape("candidates", candidates, (-1, *scheme.filler_shape))
    shared = _among_all(among, len(candidates)) if among is None or among.dim() == 1 else None
    own = _among_own(among, len(contexts), len(candidates)) if shared is None and among is not None else None

    if shared is not None and len(shared) < len(candidates):
        found = top(scheme, memory, contexts, candidates[shared], k)
        return Best(found.scores, shared[found.indices])
    fewest = len(candidates) if own is None else int(own.lt(len(candidates)).sum(1).min())
    check_integer("k", k, 1, fewest, "there are no more candidates to answer with")

    # A block of scores takes a quarter of the workspace; gathered candidates are larger.
    numbers = 4 * (1 if own is None else 1 + len(candidates[0].flatten()))
    cells = max(1, scheme.workspace // (numbers * scheme.dtype.itemsize))
    width = len(candidates) if own is None else own.shape[1]
    columns = min(width, cells)
    answers = []
    for rows, part in scheme.places(contexts, max(1, cells // columns)):
        cores = scheme.read(memory, part)
        best: Best | None = None
        for start in range(0, width, columns):
            if own is None:
                scores = scheme.match(cores, part, candidates[start : start + columns])
                some = best_of(scores, k)
                some = Best(some.scores, some.indices + start)
            else:
                indices = own[rows, start : start + columns]
                gone = indices == len(candidates)
                scores = scheme.match(cores, part, candidates[indices.masked_fill(gone, 0)])
                some = best_of(scores.masked_fill(gone, -torch.inf), k)
                some = Best(some.scores, indices.gather(1, some.indices))
            best = some if best is None else merged(best, some, k)
        assert best is not None
        answers.append(best)
    return Best(torch.cat([a.scores for a in answers]), torch.cat([a.indices for a in answers]))


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


def _among_all(among: Tensor | None, count: int) -> Tensor:
    if among is None:
        return torch.arange(count)
    check_shape("among", among, (-1,))
    _check_indices(among, 0, count)
    distinct: Tensor = among.unique()
    return distinct


def _among_own(among: Tensor, contexts: int, count: int) -> Tensor:
    """Each row's indices in order, with `count` where there is none."""
    check_shape("among", among, (contexts, -1))
    _check_indices(among, -1, count)
    ordered = among.masked_fill(among < 0, count).sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, count)


def _check_indices(among: Tensor, low: int, count: int) -> None:
    if among.is_floating_point() or among.is_complex() or among.dtype == torch.bool:
        raise TypeError(f"among must hold integers, got {among.dtype}; mask.nonzero() turns a mask into indices")
    if among.min() < low or among.max() >= count:
        raise ValueError(
            f"among must hold indices of {low} .. {count - 1}, got {int(among.min())} .. {int(among.max())}"
        )
