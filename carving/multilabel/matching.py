"""Matchers and rerankers for training points: what is chosen about them is chosen on a part that is held back.

Where features are few, all labels are solved at once by ridge regression; dense features are seen as waves where that
is better. Where features are many and sparse, labels are counted, and rerankers look at what the counts name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.inference.top_k import best_of
from carving.multilabel import counting, metrics, rerankers
from carving.multilabel.blending import FAVOURS, SCALES, Propensities, Quality, bias_of, measured
from carving.multilabel.data import Dataset
from carving.multilabel.maps import Map, product
from carving.multilabel.ridge import Few, Sums, gathered
from carving.multilabel.scorer import NO, Matched, Matcher, Scorer, cut, listed, shortlists
from carving.multilabel.training import OnProgress, Progress, split
from carving.multilabel.views import View, is_dense

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

FEW = 4_096  # features up to which labels are solved by ridge regression,
WEIGHTS = 2**26  # if these are all the weights that this takes; else labels are counted
WAVES = 1_000
PENALTIES = tuple(10.0 ** (0.5 * i) for i in range(-6, 4))  # of ridge regression, for points of length 1
FIRST = {True: 3, False: 6}  # the penalty that is tried first, of dense views and of rows
LIFTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # exponents by which weights of rare labels are raised
WEIGHINGS = (0.0, 0.1, 0.2, 0.3, 0.4)  # exponents by which frequent labels count more than rare ones
TRUSTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of rerankers, beside a match of logits


@dataclass(frozen=True)
class Parts:
    """Training points, and how they are cut: most of them, and the rest that is held back."""

    data: Dataset
    most: Dataset
    rest: Dataset

    @classmethod
    def of(cls, data: Dataset, share: float, seed: int) -> Self:
        """Such a share held back, by chance."""
        return cls(data, *split(data, share, seed))


class Pair(NamedTuple):
    """A matcher of most points, to be looked at on the rest, and how the one of all points is made the same way.

    That of very many labels is large: who asks for the second gives up the first before.
    """

    trial: Matcher
    final: Callable[[], Matcher]


def solvable(features: csr_matrix, labels: int) -> bool:
    """Whether all labels are solved at once."""
    wide = features.shape[1]
    return bool(wide <= FEW and max(wide, WAVES) * labels <= WEIGHTS)


def matchers(parts: Parts, seed: int = 0, waves: int = WAVES) -> Pair:
    """The matchers for these points; their scores are logits."""
    features, labels = parts.data.features, parts.data.labels.shape[1]
    return solved(parts, seed, waves) if solvable(features, labels) else counted(parts)


# Where features are few


class Solution(NamedTuple):
    """A view, the sums over most points and over the rest as it shows them, and the penalty that was best."""

    view: View
    most: Sums | Few
    rest: Sums | Few
    penalty: float
    quality: Quality


def solved(parts: Parts, seed: int = 0, waves: int = WAVES) -> Pair:
    """Matchers by ridge regression."""
    features = parts.data.features
    views = [View.halves(features)]
    if is_dense(features):
        views = [View.columns(features, count, seed) for count in (0, waves)]
    best = max((solution(view, parts) for view in views), key=lambda found: sum(found.quality))
    weights, known = best.most.solved(best.penalty), metrics.propensities(parts.most.labels)
    scores = torch.from_numpy(_mapped(best.view, weights, parts.rest.features))
    qualities = {lift: measured(scores * _raised(known, lift), parts.rest, known) for lift in LIFTS}
    lift = max(LIFTS, key=lambda tried: sum(qualities[tried]))
    scale = _scale(scores * _raised(known, lift), parts.rest)
    every = best.most + best.rest  # type: ignore[operator]  # which are of one kind
    whole, of_all = every.solved(best.penalty), metrics.propensities(parts.data.labels)
    trial, final = (_solved(best.view, w, scale, p**-lift) for w, p in ((weights, known), (whole, of_all)))
    return Pair(trial, lambda: final)


def solution(view: View, parts: Parts) -> Solution:
    """The best penalty for a view, looked for from a usual one on in the direction in which it gets better."""
    usual = parts.data.labels.nnz / len(parts.data)  # labels of a point; the more it has, the less each of them tells
    most, rest = (
        gathered(part.features, part.labels, view, (part.labels.getnnz(axis=1) / usual) ** -0.5, len(parts.data))
        for part in (parts.most, parts.rest)
    )
    propensities, tried = metrics.propensities(parts.most.labels), dict[int, Quality]()

    def quality(number: int) -> float:
        if number not in tried:
            scores = _mapped(view, most.solved(PENALTIES[number]), parts.rest.features)
            tried[number] = measured(torch.from_numpy(scores), parts.rest, propensities)
        return sum(tried[number])

    best = FIRST[view.dense]
    for step in (1, -1):
        while 0 <= best + step < len(PENALTIES) and quality(best + step) > quality(best):
            best += step
    return Solution(view=view, most=most, rest=rest, penalty=PENALTIES[best], quality=tried[best])


def _mapped(view: View, weights: NDArray[np.float64], features: csr_matrix) -> NDArray[np.float32]:
    return product(view(features), weights[:-1].astype(np.float32)) + weights[-1].astype(np.float32)


def _solved(view: View, weights: NDArray[np.float64], scale: float, raised: NDArray[np.float64]) -> Matcher:
    return Matcher(view, Map.dense(weights[:-1] * (scale * raised), weights[-1] * (scale * raised)))


def _raised(propensities: Propensities, lift: float) -> Tensor:
    return torch.from_numpy(propensities**-lift).float()


# Where features are many


def counted(parts: Parts) -> Pair:
    """Matchers by counting."""
    data, counts = parts.data, Counts.of(parts.most)
    weighing = max(WEIGHINGS, key=_found(counts.matcher(0.0, 1.0), parts).__getitem__)
    plain = Scorer(head=None, network=None, matcher=counts.matcher(weighing, 1.0))
    scale = logit_scale(shortlisted(plain.matching(parts.rest.features), None, parts.rest))
    del plain
    return Pair(counts.matcher(weighing, scale), lambda: Counts.of(data).matcher(weighing, scale))


class Counts(NamedTuple):
    """The sums of labels' points (L, F), as a view shows them, and how many points each label has."""

    view: View
    sums: csc_matrix
    frequencies: NDArray[np.int64]

    @classmethod
    def of(cls, data: Dataset) -> Counts:
        """Those of these points."""
        view = _weighed(data.features)
        return cls(view, counting.sums(data.features, data.labels, view), data.labels.getnnz(axis=0))

    def matcher(self, weighing: float, scale: float) -> Matcher:
        """Sums times how frequent the label is, to a power, and times a scale."""
        factors = (scale * np.maximum(self.frequencies.astype(np.float64), 1) ** weighing).astype(np.float32)
        return Matcher(self.view, Map.sparse(self.sums.T, np.zeros(len(factors)), factors))


def _weighed(features: csr_matrix) -> View:
    """Rows whose features are weighed by their rarity; of dense ones none is rare."""
    return View.rows(np.ones(features.shape[1]) if is_dense(features) else counting.rarity(features))


def _found(plain: Matcher, parts: Parts) -> dict[float, int]:
    """How many labels of the rest are on their points' shortlists, by how frequent labels are weighed."""
    labels = parts.rest.labels.shape[1]
    frequencies, found = np.maximum(parts.most.labels.getnnz(axis=0), 1), dict.fromkeys(WEIGHINGS, 0)
    for part in cut(len(parts.rest), labels):
        scores, truth = plain(parts.rest.features[part]), parts.rest.labels[part]
        for weighing in WEIGHINGS:
            named = (scores * torch.from_numpy(frequencies**weighing).float()).topk(listed(labels)).indices
            found[weighing] += int(metrics.hits(named.numpy(), truth).sum())
    return found


# Rerankers


class Shortlisted(NamedTuple):
    """The shortlists of points: which labels they name, what was matched and said of these, and whether it is so."""

    named: Tensor  # (n, s), best first
    matched: Tensor  # (n, s)
    said: Tensor  # (n, s), by rerankers; zeros without
    true: Tensor  # (n, s)


def shortlisted(matched: Matched, rankings: Map | None, data: Dataset) -> Shortlisted:
    """The shortlists of these points, some points at a time."""
    labels, view, found = data.labels.shape[1], View.rows(), []
    for part in cut(len(data), labels):
        best = best_of(matched(part), listed(labels))
        said = torch.zeros_like(best.scores)
        if rankings is not None:
            said = torch.from_numpy(rankings(view(data.features[part]))).gather(1, best.indices).clamp_min_(NO)
        found.append((best.indices, best.scores, said))
    named, scores, said = (torch.cat(pieces) for pieces in zip(*found, strict=True))
    return Shortlisted(named, scores, said, torch.from_numpy(metrics.hits(named.numpy(), data.labels)))


class Trusted(NamedTuple):
    """How much rerankers are trusted and rare labels favored, and what the points that were held back say of it."""

    trust: float
    tail_bias: float
    quality: Quality


def trusted(short: Shortlisted, data: Dataset, propensities: Propensities) -> Trusted:
    """The best of some trusts, and then of some biases on the scale that the scores then have.

    Where that is large because rerankers are trusted, biases midway between these are tried as well.
    """

    def of(trust: float, tail_bias: float) -> Trusted:
        scores = short.matched + trust * short.said
        bias = bias_of(propensities, tail_bias)
        scores = scores if bias is None else scores + bias[short.named]
        k = min(5, scores.shape[1])
        ranked = short.named.gather(1, best_of(scores, k).indices).numpy()
        quality = metrics.ndcg(ranked, data.labels, k), metrics.psndcg(ranked, data.labels, k, propensities)
        return Trusted(trust, tail_bias, Quality(*quality))

    best = max((of(trust, 0.0) for trust in TRUSTS), key=lambda tried: sum(tried.quality))
    scale, biases = 1 + best.trust / 2, list(FAVOURS)
    if best.trust:
        biases = sorted(biases + [(low + high) / 2 for low, high in pairwise(biases)])
    return max((of(best.trust, scale * tail_bias) for tail_bias in biases), key=lambda tried: sum(tried.quality))


def ranked(
    matched: Matched,
    data: Dataset,
    seed: int,
    on_progress: OnProgress | None = None,
    name: str = "rerankers",
    least: int = 1,
) -> Map:
    """Rerankers of these points, by their shortlists, for labels of at least so many."""

    def on_share(share: float) -> None:
        if on_progress is not None:
            on_progress(name, Progress(), share)

    named = shortlists(matched, *data.labels.shape)
    return rerankers.trained(View.rows()(data.features), data.labels, named, least=least, seed=seed, on_share=on_share)


def logit_scale(short: Shortlisted) -> float:
    """The factor that makes the scores of shortlists the best logits."""

    def loss(scale: float) -> float:
        return float(-(scale * short.matched).log_softmax(1)[short.true].mean())

    return min(SCALES, key=loss) if bool(short.true.any()) else 1.0


def _scale(scores: Tensor, data: Dataset) -> float:
    best = best_of(scores, listed(scores.shape[1]))
    true = torch.from_numpy(metrics.hits(best.indices.numpy(), data.labels))
    return logit_scale(Shortlisted(best.indices, best.scores, torch.zeros_like(best.scores), true))
