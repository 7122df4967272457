"""How a fitted model scores labels: what matches a point, networks or a linear map, and rerankers of its shortlist.

    score = match + trust * reranker + favor * log(1 / propensity)

The shortlist of a point are its labels of the highest match. The reranker of a label that is not on it says -1, and no
reranker says less: that is a clear no.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from carving.inference.top_k import Best, best_of
from carving.multilabel.data import Dataset
from carving.multilabel.heads import Head
from carving.multilabel.maps import Map
from carving.multilabel.networks import Blend
from carving.multilabel.rows import rows_of
from carving.multilabel.scoring import check_finite
from carving.multilabel.thresholds import CANDIDATES, Held
from carving.multilabel.training import AT_ONCE, predict
from carving.multilabel.views import View
from carving.optional import load
from carving.tiling import rows_within, slices

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NO = -1.0  # what a reranker says at least
FEWEST, MOST = 60, 200  # labels on a shortlist; between them a twentieth of all
ROOM = 2**24  # scores that are held at a time
COMPANY = 16  # points that are scored together at least: products of fewer may round otherwise in the last digit

Matched = Callable[[slice], Tensor]  # how well each label matches some of the points, (n, L)


@dataclass(frozen=True, eq=False)
class Matcher:
    """Scores of all labels straight from features: a view, and a linear map of what it shows, or of hidden layers."""

    view: View
    map: Map
    hidden: tuple[Map, ...] = ()  # each cut off below zero

    @property
    def count(self) -> int:
        """How many weights there are."""
        return sum(layer.count for layer in (*self.hidden, self.map))

    def times(self, factor: float) -> Matcher:
        """One whose scores are so many times as large."""
        return replace(self, map=self.map.times(factor))

    def __call__(self, features: csr_matrix) -> Tensor:
        """The scores (n, L)."""
        seen = self.view(features)
        for layer in self.hidden:
            seen = layer(seen)
            np.maximum(seen, 0, out=seen)
        return torch.from_numpy(self.map(seen))


@dataclass(frozen=True, eq=False)
class Rerankers:
    """Linear classifiers of the labels on a shortlist, and how much they are trusted beside the match."""

    map: Map  # of rows at length 1
    trust: float
    shortlist: int  # labels of a point that are ranked

    def __call__(self, features: csr_matrix, matched: Tensor) -> Tensor:
        """What they add to the scores (n, L) that were matched."""
        said = torch.from_numpy(self.map(View.rows()(features))).clamp_min_(NO)
        named = best_of(matched, min(self.shortlist, matched.shape[1])).indices
        added = torch.full_like(matched, NO).scatter_(1, named, said.gather(1, named))
        return added.mul_(self.trust)


@dataclass(frozen=True, eq=False)
class Scorer:
    """All of it: networks through their head, a matcher beside or instead of them, rerankers, and a bias (L,)."""

    head: Head | None
    network: Blend | None
    matcher: Matcher | None = None
    rerankers: Rerankers | None = None
    bias: Tensor | None = None
    nothing: bool = False  # whether the last label stands for having none of the others, and is never named

    @property
    def count(self) -> int:
        """How many weights there are."""
        networks = 0 if self.network is None else sum(weights.numel() for weights in self.network.parameters())
        matcher = 0 if self.matcher is None else self.matcher.count
        return networks + matcher + (0 if self.rerankers is None else self.rerankers.map.count)

    def _lonely(self, features: csr_matrix) -> bool:
        """Whether points are so few that they are scored in company; in sparse products they go one by one anyway."""
        dense = self.matcher is None or isinstance(self.matcher.map.weights, np.ndarray)
        return 0 < features.shape[0] < COMPANY and dense and self.rerankers is None

    def matched(self, features: csr_matrix) -> Tensor:
        """How well each label matches (n, L), before rerankers are asked."""
        total: Tensor | None = None
        if self.network is not None and self.head is not None:
            with torch.no_grad():
                total = self.head(self.network(rows_of(features)))
        if self.matcher is None:
            assert total is not None  # there is a network or a matcher
            return total
        scores = self.matcher(features)
        return scores if total is None else scores.add_(total)

    def matching(self, features: csr_matrix) -> Matched:
        """The same for parts of the points."""
        return lambda part: self.matched(features[part])

    def scores(self, features: csr_matrix) -> Tensor:
        """The scores of all labels that have a name, (n, L)."""
        if self._lonely(features):
            return self.scores(_accompanied(features))[: features.shape[0]]
        scores = self.matched(features)
        if self.rerankers is not None:
            scores = self.rerankers(features, scores).add_(scores)
        scores = scores[:, :-1] if self.nothing else scores
        return scores if self.bias is None else scores + self.bias

    def ranking(self, map: Map | None, trust: float, bias: Tensor | None = None) -> Scorer:
        """With rerankers of the shortlist, if they are trusted, and a bias."""
        rerankers = Rerankers(map, trust, listed(len(map.bias))) if map is not None and trust else None
        return replace(self, rerankers=rerankers, bias=bias)

    def held(self, data: Dataset) -> Held:
        """What it says of points that were held back."""
        labels = data.labels.shape[1]
        best = self.top(data.features, min(CANDIDATES, labels), labels)
        return Held(best.indices.numpy(), best.scores.numpy(), data.labels)

    def top(self, features: csr_matrix, k: int, labels: int) -> Best:
        """Scores and numbers (n, k) of each point's best labels, best first."""
        if self._lonely(features):
            more = self.top(_accompanied(features), k, labels)
            return Best(*(part[: features.shape[0]] for part in more))
        alone = self.matcher is None and self.rerankers is None and not self.nothing
        if alone and self.network is not None and self.head is not None:
            return predict(self.network, self.head, features, k, self.bias)  # which never holds the scores of all
        best = [best_of(self.scores(features[part]), k) for part in cut(features.shape[0], labels)]
        found = Best(torch.cat([part.scores for part in best]), torch.cat([part.indices for part in best]))
        check_finite(found.scores)
        return found


def _accompanied(features: csr_matrix) -> csr_matrix:
    """Few points, again and again."""
    return features[np.arange(COMPANY) % features.shape[0]]


def cut(points: int, labels: int) -> list[slice]:
    """How points are cut so that the scores of their labels take no more than some room."""
    return list(slices(points, min(AT_ONCE, rows_within(ROOM, labels)))) or [slice(0, 0)]


def listed(labels: int) -> int:
    """How many labels are on a point's shortlist.

    >>> [listed(labels) for labels in (30, 1_000, 3_000, 100_000)]
    [30, 60, 150, 200]
    """
    return min(labels, max(FEWEST, min(MOST, labels // 20)))


def shortlists(matched: Matched, points: int, labels: int) -> csr_matrix:
    """The labels of the highest match of each point, as ones in a matrix (n, L)."""
    size = listed(labels)
    ids, starts = np.empty((points, size), np.int32), np.arange(points + 1) * size
    for part in cut(points, labels):
        ids[part] = np.sort(best_of(matched(part), size).indices.numpy(), axis=1)
    return load("scipy.sparse").csr_matrix((np.ones(ids.size, np.int8), ids.ravel(), starts), (points, labels))
