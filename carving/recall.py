"""How answers are found: the best candidates of a vocabulary, exactly."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carving.checks import check_integer, check_tensor, listed
from carving.draws import Label
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
    contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
    if not isinstance(candidates, Tensor):
        return _top_of_labels(scheme, memory, contexts, listed(candidates, "candidates"), k, among)
    check_tensor("candidates", candidates, (-1, *scheme.filler_shape), FILLERS)
    absent = len(candidates)  # stands where there is no candidate
    choices = None if among is None else _choices(among, len(contexts), absent)
    width = absent if choices is None else choices.shape[-1]
    fewest = width if choices is None else int(choices.lt(absent).sum(-1).min())
    if not fewest:
        raise ValueError("every context needs a candidate, but among leaves some with none; give them one or more")
    k = check_integer("k", k, 1, fewest, "there are no more candidates to answer with")

    # Scores take a quarter of the workspace; where candidates are gathered, these take it.
    gathered = 1 if choices is None else candidates[0].numel()
    cells = max(1, scheme.workspace // (4 * scheme.dtype.itemsize * gathered))
    columns = min(width, cells)
    answers = []
    for rows, part in scheme.places(contexts, max(1, cells // columns)):
        cores = scheme.read(memory, part)
        best: Best | None = None
        for some in slices(width, columns):
            if choices is None:
                found = best_of(scheme.match(cores, part, candidates[some]), k)
                found = Best(found.scores, found.indices + some.start)
            else:
                indices = (choices[some] if choices.dim() == 1 else choices[rows, some]).expand(len(cores), -1)
                chosen = indices[0] if choices.dim() == 1 else indices.clamp_max(absent - 1)
                scores = scheme.match(cores, part, candidates[chosen])
                found = best_of(scores.masked_fill(indices == absent, -torch.inf), k)
                found = Best(found.scores, indices.gather(1, found.indices))
            best = found if best is None else merged(best, found, k)
        assert best is not None
        answers.append(best)
    return Best(torch.cat([a.scores for a in answers]), torch.cat([a.indices for a in answers]))


def _top_of_labels(
    scheme: Scheme, memory: Tensor, contexts: Places, labels: list[Label], k: int, among: Tensor | None
) -> Best:
    if among is not None:
        raise ValueError("among needs the candidates themselves; give scheme.fillers(labels) instead of labels")
    k = check_integer("k", k, 1, len(labels), "there are no more candidates to answer with")
    made = scheme.contexts(contexts) if scheme.facts.contextual and not isinstance(contexts, Contexts) else contexts
    cores = scheme.read(memory, made)
    places = made if isinstance(made, Contexts) else None
    best: Best | None = None
    filler = math.prod(scheme.filler_shape) * scheme.dtype.itemsize
    for some in slices(len(labels), max(1, scheme.workspace // filler)):
        found = best_of(scheme.match(cores, places, scheme.fillers(labels[some])), k)
        found = Best(found.scores, found.indices + some.start)
        best = found if best is None else merged(best, found, k)
    assert best is not None
    return best


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
