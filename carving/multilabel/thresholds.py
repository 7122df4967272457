"""Which labels a point has, and how probably: a regression of points that were held back, and a threshold for it.

A score says which label comes first. Whether it belongs to the point depends on the point's other scores as well
(outputs of length 1 share it among the labels), and on how much rare labels are favored. So the logit of a label is
linear in its score, in the point's best score, in the mean of its five best, and in the label's rarity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Numbers = NDArray[np.float64]

CANDIDATES = 100  # best labels of a held-back point that are looked at
BEST = 5  # scores whose mean tells about a point
EXPECTED = (2.0, 1.0, 1.0, 1.0)  # how large the weights of the logit's terms are, each in deviations of its term
TERMS = len(EXPECTED)  # of the logit, beside the constant


@dataclass(frozen=True, eq=False)
class Held:
    """What a fit saw of points that it had not learned from: their best labels, and the ones that they have."""

    ids: NDArray[np.int64]  # (n, k), best first
    scores: NDArray[np.float32]  # (n, k)
    labels: csr_matrix  # (n, L)

    def without_last(self) -> Held:
        """Without the last label; where it is not among the best, without the last of these."""
        last = self.labels.shape[1] - 1
        kept = self.ids != last
        kept[:, -1] &= ~kept.all(axis=1)
        shape = len(self.ids), self.ids.shape[1] - 1
        return Held(self.ids[kept].reshape(shape), self.scores[kept].reshape(shape), self.labels[:, :last])


@dataclass(frozen=True)
class Calibration:
    """Probabilities of labels from scores, and the probability from which on a label is given."""

    weights: tuple[float, ...]  # of the score, the best score, the mean of the best five, the rarity; the constant
    threshold: float

    @classmethod
    def fitted(cls, held: Held, propensities: Numbers) -> Self:
        """A logistic regression of the held-back points, and the threshold whose micro-F1 is best by it."""
        right = _right(held)
        terms = _terms(held.scores, spread_of(held.scores), rarity(propensities)[held.ids]).reshape(-1, TERMS)
        weights = _regression(terms, right.ravel())
        probabilities = _sigmoid(terms @ np.array(weights[:TERMS]) + weights[TERMS])
        return cls(weights, best_threshold(probabilities))

    def probabilities(self, scores: NDArray[np.float32], spread: Numbers, rare: Numbers) -> Numbers:
        """How probable labels are, from scores (n, k), what `spread_of` says of their points, and their rarity."""
        weights = np.array(self.weights)
        return _sigmoid(_terms(scores, spread, rare) @ weights[:TERMS] + weights[TERMS])

    def most(self, scores: NDArray[np.float32], rare: Numbers) -> Numbers:
        """How probable labels are at most that score less than these best ones (n, k), of any of these rarities."""
        if self.weights[0] < 0:
            return np.ones(len(scores))
        kindest = rare.max() if self.weights[TERMS - 1] > 0 else rare.min()
        return self.probabilities(scores[:, -1:], spread_of(scores), np.array([kindest]))[:, 0]

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """What a file says of it."""
        weights, threshold = tuple(float(weight) for weight in facts["weights"]), float(facts["threshold"])
        if len(weights) != TERMS + 1 or not all(map(math.isfinite, (*weights, threshold))):
            raise ValueError(f"the calibration must have {TERMS + 1} finite weights and a finite threshold")
        return cls(weights, threshold)


def spread_of(scores: NDArray[np.float32]) -> Numbers:
    """The best score of each point, and the mean of its five best, (n, 2), from all or from the best ones (n, k)."""
    best = min(BEST, scores.shape[1])
    top = -np.partition(-scores, best - 1, axis=1)[:, :best] if len(scores) else scores[:, :best]
    return np.stack([top.max(axis=1, initial=-np.inf), top.mean(axis=1)], axis=1).astype(np.float64)


def rarity(propensities: Numbers) -> Numbers:
    """How rare labels are: by this rare ones are favored, too."""
    return -np.log(propensities)


def best_threshold(probabilities: Numbers) -> float:
    """The probability from which on taking labels has the best micro-F1, midway to the next one.

    Hits are counted by what the probabilities expect: they sum to those of the held-back points, with less chance in
    where these are few.
    """
    ranked = np.sort(probabilities)[::-1]
    f1 = 2 * np.cumsum(ranked) / (np.arange(1, len(ranked) + 1) + ranked.sum())
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal ones are taken together
    last = int(f1.argmax())
    return float(ranked[last] + (ranked[last + 1] if last + 1 < len(ranked) else 0.0)) / 2


def _terms(scores: NDArray[np.float32], spread: Numbers, rare: Numbers) -> Numbers:  # (n, k), (n, 2), (k,) or (n, k)
    shape = scores.shape
    parts = scores, spread[:, :1], spread[:, 1:], rare
    return np.stack([np.broadcast_to(part, shape).astype(np.float64) for part in parts], axis=-1)


def _right(held: Held) -> NDArray[np.bool_]:
    rows = np.repeat(np.arange(len(held.ids)), held.ids.shape[1])
    return np.asarray(held.labels[rows, held.ids.ravel()]).astype(bool).reshape(held.ids.shape)


def _regression(terms: Numbers, right: NDArray[np.bool_]) -> tuple[float, ...]:
    """Weights of the terms and a constant, the most probable ones of a logistic regression."""
    share = (right.sum() + 0.5) / (len(right) + 1)
    if right.all() or not right.any():
        return (*[0.0] * TERMS, float(np.log(share / (1 - share))))
    mean, deviation = terms.mean(axis=0), terms.std(axis=0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0) / EXPECTED
    model = load("sklearn.linear_model").LogisticRegression(C=1.0, solver="newton-cholesky")
    model.fit((terms - mean) / deviation, right)
    weights = model.coef_[0] / deviation
    return (*weights.tolist(), float(model.intercept_[0] - weights @ mean))


def _sigmoid(logits: Numbers) -> Numbers:
    return 0.5 * (1 + np.tanh(0.5 * logits))
