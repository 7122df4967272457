"""The best candidates, ranked: what a rating of candidates is, and the k best of many, ties in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from carving.schemes.base import Contexts, ContextsOrPaths
from carving.tensors import falling_exp_

MANY, PART = 2**16, 64  # scores whose largest are looked for in parts, and the numbers of a part


class Indexed(Protocol):
    """Fillers by their indices: a tensor, or what makes them when they are asked for."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, indices: Tensor, /) -> Tensor:
        """Those of these indices."""


class Best(NamedTuple):
    """The best candidates of each context, best first; ties are in the order of the vocabulary.

    Only scores that are equal to the last bit are ties. Two copies of one filler may differ by rounding.

    Attributes:
        scores: (n, k).
        indices: (n, k) positions among the candidates.

    >>> best_of(torch.tensor([[0.2, 0.9, 0.9]]), 2).indices
    tensor([[1, 2]])
    """

    scores: Tensor  # (n, k)
    indices: Tensor  # (n, k), of the vocabulary


class Ranking(NamedTuple):
    """The best candidates, how strongly each is held, and the logarithm of the sum of all scores' exponentials."""

    best: Best
    strengths: Tensor  # (n, k)
    log_total: Tensor  # (n,); without a meaning where scores are no log odds

    def shifted(self, start: int) -> "Ranking":
        """The same with indices from a start on."""
        return self._replace(best=self.best._replace(indices=self.best.indices + start)) if start else self


class Rated(NamedTuple):
    """The scores (n, m) of a chunk of candidates; what they are made of, where they are log odds."""

    scores: Tensor
    inner: Tensor | None = None
    energy: Tensor | None = None

    def strengths(self, columns: Tensor) -> Tensor:
        """How strongly the candidates of these columns (n, k) are held: 1 for one that was stored once."""
        if self.inner is None or self.energy is None:
            return self.scores.gather(1, columns)
        energy = self.energy if self.energy.shape[1] == 1 else self.energy.expand_as(self.inner).gather(1, columns)
        return self.inner.gather(1, columns) / energy


@dataclass(frozen=True)
class Rating:
    """How candidates are rated: the way to read the memory, and what to make of the cores."""

    read: Callable[[Tensor, ContextsOrPaths], Tensor]
    rate: Callable[[Tensor, Contexts | None, Tensor, slice | Tensor], Rated]  # cores, contexts, fillers, their indices
    contextual: bool  # whether rating looks at the contexts
    log_odds: bool = False  # whether `Ranking.log_total` is wanted


def best_of(scores: Tensor, k: int) -> Best:
    """The k largest of each row (all of a shorter row), largest first, the first of equal ones first."""
    count, width = scores.shape
    if width >= PART * max(16, 8 * k) and count * width >= MANY and not torch.compiler.is_compiling():
        return _best_of_parts(scores, k)
    if width <= k:
        return Best(*scores.sort(dim=1, descending=True, stable=True))
    if k == 1:
        return Best(*scores.max(dim=1, keepdim=True))
    # `topk` may take any of the scores that are equal to the smallest it keeps, which one more tells: sort those rows
    # whole.
    values, indices = scores.topk(k + 1, dim=1)
    equal = ~(values[:, 1:] < values[:, :-1])  # or no numbers
    if not torch.compiler.is_compiling() and not equal.any():
        return Best(values[:, :k], indices[:, :k])
    tied = equal[:, -1]
    if tied.any():
        indices[tied, :k] = scores[tied].sort(dim=1, descending=True, stable=True).indices[:, :k]
    indices = indices[:, :k].sort(dim=1).values
    ordered, order = scores.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return Best(ordered, indices.gather(1, order))


def _best_of_parts(scores: Tensor, k: int) -> Best:
    """The same, where rows are long: the k parts whose largest are the k largest of these hold them all.

    torch finds the largest numbers of parts several times as fast as those of a row, so that only k parts of it, and
    what is left at its end, are searched. Of equal parts the first ones are taken, and parts stay in order.
    """
    whole = scores.shape[1] // PART
    parts = scores[:, : whole * PART].unflatten(1, (whole, PART))
    chosen = best_of(parts.amax(2), k).indices.sort(dim=1).values
    places = (chosen[:, :, None] * PART + torch.arange(PART, device=scores.device)).flatten(1)
    if scores.shape[1] > whole * PART:
        rest = torch.arange(whole * PART, scores.shape[1], device=scores.device)
        places = torch.cat([places, rest.expand(len(scores), -1)], 1)
    best = best_of(scores.gather(1, places), k)
    return Best(best.scores, places.gather(1, best.indices))


def ranked(rated: Rated, k: int, log_odds: bool) -> Ranking:
    """The k best columns."""
    best = best_of(rated.scores, k)
    log_total = log_sum(rated.scores, best.scores[:, :1]) if log_odds else rated.scores.new_zeros(len(rated.scores))
    return Ranking(best, rated.strengths(best.indices), log_total)


def log_sum(scores: Tensor, highest: Tensor) -> Tensor:
    """The logarithms (n,) of the sums of exponentials of scores (n, L) whose maxima (n, 1) are known."""
    highest = highest.clamp_min(torch.finfo(scores.dtype).min)  # nothing but minus infinity sums to it
    return falling_exp_(scores - highest).sum(1).log_() + highest.squeeze(1)


def merged(first: Best, second: Best, k: int) -> Best:
    """The k best of two, where every index of the first stands before those of the second."""
    return joined(
        Ranking(first, first.scores, first.scores[:, 0]), Ranking(second, second.scores, second.scores[:, 0]), k
    ).best


def joined(first: Ranking, second: Ranking, k: int) -> Ranking:
    """Two rankings as one, where every index of the first stands before those of the second."""
    scores, indices = (torch.cat(pair, dim=1) for pair in zip(first.best, second.best, strict=True))
    strengths = torch.cat((first.strengths, second.strengths), dim=1)
    best = best_of(scores, k)
    return Ranking(
        Best(best.scores, indices.gather(1, best.indices)),
        strengths.gather(1, best.indices),
        torch.logaddexp(first.log_total, second.log_total),
    )


def merged_parts(parts: Sequence[Ranking], k: int) -> Ranking:
    """Rankings of parts of the candidates, in whatever order these stand, as one: the k best, ties in order."""
    scores, indices = (torch.cat(each, dim=1) for each in zip(*(part.best for part in parts), strict=True))
    strengths = torch.cat([part.strengths for part in parts], dim=1)
    indices, order = indices.sort(dim=1, stable=True)
    best = best_of(scores.gather(1, order), k)
    return Ranking(
        Best(best.scores, indices.gather(1, best.indices)),
        strengths.gather(1, order).gather(1, best.indices),
        torch.logsumexp(torch.stack([part.log_total for part in parts]), dim=0),
    )


def stacked(rankings: Sequence[Ranking]) -> Ranking:
    """Rankings of some contexts and of the next ones as one."""
    if len(rankings) == 1:
        return rankings[0]
    best = Best(*(torch.cat(each) for each in zip(*(ranking.best for ranking in rankings), strict=True)))
    return Ranking(best, *(torch.cat(each) for each in list(zip(*rankings, strict=True))[1:]))
