"""What a validation part says of scores, and how several scores are best added."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.inference.top_k import best_of
from carving.multilabel import losses, metrics
from carving.multilabel.data import Dataset
from carving.multilabel.rows import Rows
from carving.multilabel.scoring import check_finite
from carving.multilabel.thresholds import Held
from carving.multilabel.training import Settings

PICKS = 8  # draws of the greedy selection: shares are multiples of an eighth
SCALES = tuple(2.0 ** (0.5 * i) for i in range(-2, 14))  # of a network's outputs, as logits
FAVOURS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # of rare labels: times the logarithm of one over the propensity

Propensities = NDArray[np.float64]


class Quality(NamedTuple):
    """What a validation part says of a ranking, in shares of 1; the sum of both is what is made large."""

    ndcg: float  # nDCG@5
    psndcg: float  # PSnDCG@5


@dataclass(frozen=True)
class Chosen:
    """What the validation part chose, and what it said: shares of 1."""

    settings: list[Settings]
    weights: list[float]
    units: list[bool]
    tail_bias: float
    ndcg: float
    psndcg: float
    share: float = 0.0  # of the matcher
    trust: float = 0.0  # in rerankers
    held: Held | None = None  # what was said of the part that was held back
    student: bool = False  # whether a small network is kept that learned what all of these say


def bias_of(propensities: Propensities, tail_bias: float) -> Tensor | None:
    """What is added to the scores so that rare labels are favored."""
    return torch.from_numpy(tail_bias * -np.log(propensities)).float() if tail_bias else None


def scale_of(scores: Tensor, sets: Rows) -> float:
    """The factor that makes the label scores (n, L) the best logits."""
    return min(SCALES, key=lambda scale: float(losses.softmax(scale * scores, sets)))


def measured(scores: Tensor, data: Dataset, propensities: Propensities, bias: Tensor | None = None) -> Quality:
    """The quality of the scores (n, L)."""
    k = min(5, scores.shape[1])
    best = best_of(scores if bias is None else scores + bias, k)
    check_finite(best.scores)
    ranked = best.indices.numpy()
    return Quality(metrics.ndcg(ranked, data.labels, k), metrics.psndcg(ranked, data.labels, k, propensities))


def weighed(scored: list[Tensor], data: Dataset, propensities: Propensities) -> tuple[list[float], Quality]:
    """Shares that sum to 1, by greedy selection: again and again the one is added that makes the blend best."""
    known: dict[tuple[int, ...], Quality] = {}

    def tried(counts: tuple[int, ...]) -> Quality:
        ratio = tuple(int(c) for c in np.array(counts) // np.gcd.reduce(counts))
        if ratio not in known:
            known[ratio] = measured(added(ratio, scored), data, propensities)
        return known[ratio]

    counts, best = (0,) * len(scored), (0,) * len(scored)
    for _ in range(PICKS):
        options = [tuple(c + (i == j) for j, c in enumerate(counts)) for i in range(len(scored))]
        counts = max(options, key=lambda option: sum(tried(option)))
        if not any(best) or sum(tried(counts)) > sum(tried(best)):
            best = counts
    return [count / sum(best) for count in best], tried(best)


def added(weights: Sequence[float], scored: list[Tensor]) -> Tensor:
    """The weighted sum of scores."""
    total = torch.zeros_like(scored[0])
    for weight, scores in zip(weights, scored, strict=True):
        total.add_(scores, alpha=weight)
    return total
