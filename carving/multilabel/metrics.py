"""Ranking metrics of extreme multi-label learning: precision and nDCG at k, and both weighted by inverse propensity.

    q = propensities(train.labels)
    ndcg(ranked, test.labels, 5), psndcg(ranked, test.labels, 5, q)

Every metric is a share of 1, averaged over the points that have labels. With `batch_size` it is the mean of the metric
over batches of this many points, a shorter last batch counting as much as the others, as in the published code of HLB.
With `unlabeled=True` points without labels count, with a value of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carving.errors import BadType, BadValue
from carving.validate import check_integer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Numbers = NDArray[np.float64]
Ids = NDArray[np.int64]


class Mean(TypedDict, total=False):
    """How a metric is averaged over points."""

    batch_size: int | None  # points of a batch; None takes all points at once
    unlabeled: bool  # whether points without labels count


def propensities(train_labels: csr_matrix, a: float = 0.55, b: float = 1.5) -> Numbers:
    """Return the propensity of each label: the probability that it is annotated where it applies (Jain et al. 2016).

    Args:
        train_labels: Labels of the training set, a CSR matrix (n, L).
        a: Parameter A of the model.
        b: Parameter B of the model.

    Returns:
        Propensities (L,), greater than 0 and at most 1; rarer labels have smaller ones.
    """
    points = train_labels.shape[0]
    if not points:
        raise BadValue("train_labels must have at least one row, got a matrix without rows.")
    counts = np.bincount(train_labels.indices[train_labels.data != 0], minlength=train_labels.shape[1])
    # Below e points the formula's constant turns negative, and probabilities would exceed 1.
    constant = max(0.0, np.log(points) - 1) * (b + 1) ** a
    return 1 / (1 + constant * (counts + b) ** -a)


def ranking(scores: ArrayLike, k: int) -> Ids:
    """Return the k labels with the highest scores of each row, best first; ties are ordered by index.

    Args:
        scores: Scores (n, L).
        k: Number of labels.

    Returns:
        Label indices (n, k).

    >>> ranking([[0.1, 0.9, 0.5]], 2)
    array([[1, 2]])
    """
    numbers: Numbers = np.asarray(scores)
    if numbers.ndim != 2:
        raise BadValue(f"scores must have shape (points, labels), got {numbers.shape}.")
    check_integer("k", k, 1, numbers.shape[1], f"There are {numbers.shape[1]} labels.")
    if np.isnan(numbers).any():
        raise BadValue(f"scores must not contain NaN, got NaN in row {int(np.isnan(numbers).any(axis=1).argmax())}.")
    return np.argsort(-numbers, axis=1, kind="stable")[:, :k]


def precision(ranked: ArrayLike, labels: csr_matrix, k: int, **mean: Unpack[Mean]) -> float:
    """Return P@k: the share of the k best labels that are correct.

    Args:
        ranked: Label indices (n, at least k), best first.
        labels: True labels, a CSR matrix (n, L) of ones.
        k: Number of labels that count.
        **mean: How to average; see `Mean`.
    """
    found = hits(_checked(ranked, labels, k), labels)
    return _averaged(found.sum(axis=1) / k, None, labels, **mean)


def ndcg(ranked: ArrayLike, labels: csr_matrix, k: int, **mean: Unpack[Mean]) -> float:
    """Return nDCG@k: correct labels discounted by 1 / log2(1 + rank), relative to the best ranking."""
    found = hits(_checked(ranked, labels, k), labels)
    return _averaged(found @ _discounts(k) / _attainable(labels, k), None, labels, **mean)


def psp(ranked: ArrayLike, labels: csr_matrix, k: int, propensities: ArrayLike, **mean: Unpack[Mean]) -> float:
    """Return PSP@k: precision with labels weighted by 1 / propensity, relative to the best ranking."""
    gains, best = _gains(ranked, labels, k, propensities)
    return _averaged(gains.sum(axis=1), best.sum(axis=1), labels, **mean)


def psndcg(ranked: ArrayLike, labels: csr_matrix, k: int, propensities: ArrayLike, **mean: Unpack[Mean]) -> float:
    """Return PSnDCG@k: nDCG with labels weighted by 1 / propensity, relative to the best ranking."""
    gains, best = _gains(ranked, labels, k, propensities)
    discounts = _discounts(k) / _attainable(labels, k)[:, None]  # (n, k)
    return _averaged((gains * discounts).sum(axis=1), (best * discounts).sum(axis=1), labels, **mean)


def measures(
    ranked: ArrayLike,
    labels: csr_matrix,
    propensities: ArrayLike,
    ks: tuple[int, ...] = (1, 3, 5),
    **mean: Unpack[Mean],
) -> dict[str, float]:
    """Return all four metrics at every k: {"P@1": ..., "nDCG@5": ..., "PSP@3": ..., "PSnDCG@5": ...}.

    Args:
        ranked: Label indices (n, at least max(ks)), best first.
        labels: True labels, a CSR matrix (n, L) of ones.
        propensities: Propensity of each label, (L,).
        ks: Values of k.
        **mean: How to average; see `Mean`.
    """
    plain, weighted = (("P", precision), ("nDCG", ndcg)), (("PSP", psp), ("PSnDCG", psndcg))
    values = {f"{name}@{k}": measure(ranked, labels, k, **mean) for name, measure in plain for k in ks}
    return values | {f"{name}@{k}": f(ranked, labels, k, propensities, **mean) for name, f in weighted for k in ks}


def _discounts(k: int) -> Numbers:
    return 1 / np.log2(np.arange(k) + 2)


def _attainable(labels: csr_matrix, k: int) -> Numbers:
    """The discounted gain of a perfect ranking, for each point; 1 for points without labels, whose gain is 0."""
    gains = np.cumsum(_discounts(k))
    return gains[np.clip(labels.getnnz(axis=1), 1, k) - 1]


def hits(ranks: Ids, labels: csr_matrix) -> NDArray[np.bool_]:
    """Return whether each ranked label (n, k) is one of its point's labels."""
    keys = _owners(labels) * labels.shape[1] + labels.indices
    if not labels.has_sorted_indices:
        keys.sort()
    asked = np.arange(len(ranks))[:, None] * labels.shape[1] + ranks
    if not len(keys):
        return np.zeros(ranks.shape, bool)
    return np.equal(keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)], asked)


def _owners(labels: csr_matrix) -> Ids:
    """The point that each stored label belongs to."""
    return np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))


def _gains(ranked: ArrayLike, labels: csr_matrix, k: int, propensities: ArrayLike) -> tuple[Numbers, Numbers]:
    """What each rank earns, and each rank of the best ranking: (n, k) both."""
    weights = _weights(propensities, labels.shape[1])
    ranks = _checked(ranked, labels, k)
    return hits(ranks, labels) * weights[ranks], _best(weights[labels.indices], labels, k)


def _best(weights: Numbers, labels: csr_matrix, k: int) -> Numbers:
    """Each point's own labels by decreasing weight, the first k of them: (n, k), zeros where there are fewer."""
    rows = _owners(labels)
    order = np.lexsort((-weights, rows))
    rank = np.arange(len(rows)) - labels.indptr[rows]
    best = np.zeros((labels.shape[0], k))
    first = rank < k
    best[rows[first], rank[first]] = weights[order][first]
    return best


def _averaged(
    gained: Numbers,
    best: Numbers | None,
    labels: csr_matrix,
    *,
    batch_size: int | None = None,
    unlabeled: bool = False,
) -> float:
    """The mean over points, or, beside the best, the ratio of both means; over all at once or averaged over batches."""
    kept = np.ones(len(gained), bool) if unlabeled else labels.getnnz(axis=1) > 0
    if not labels.nnz:
        raise BadValue("labels must contain at least one 1: no point has a label, so there is nothing to measure.")
    gained = gained[kept]
    best = np.ones(len(gained)) if best is None else best[kept]
    size = (
        len(gained)
        if batch_size is None
        else check_integer("batch_size", batch_size, 1, way_out="None averages over all points at once.")
    )
    starts = np.arange(0, len(gained), size)
    totals = np.add.reduceat(best, starts)
    # A batch of points without labels has nothing to be found, and found nothing.
    return float(np.mean(np.add.reduceat(gained, starts) / np.where(totals > 0, totals, 1)))


def _checked(ranked: ArrayLike, labels: csr_matrix, k: int) -> Ids:
    """The first k ranks; what is no ranking of these labels is refused."""
    if getattr(labels, "format", None) != "csr" or not (labels.data == 1).all():
        raise BadType("labels must be a CSR matrix that stores only ones. Dataset(features, labels).labels is one.")
    ranks: Ids = np.asarray(ranked)
    if ranks.ndim != 2 or not np.issubdtype(ranks.dtype, np.integer):
        raise BadType(
            f"ranked must be an integer array of shape (points, k), got {ranks.dtype} of shape {ranks.shape}. "
            "Use ranking(scores, k) to rank scores."
        )
    points, known = labels.shape
    if len(ranks) != points:
        raise BadValue(f"ranked must have one row per point, {points}, got {len(ranks)} rows.")
    check_integer("k", k, 1, known, f"There are {known} labels.")
    if k > ranks.shape[1]:
        raise BadValue(f"ranked must have at least k={k} columns, got {ranks.shape[1]}. Rank the {k} best labels.")
    _check_distinct(ranks[:, :k], known)
    return ranks[:, :k]


def _check_distinct(ranks: Ids, known: int) -> None:
    """Refuse ranks that name no label, or a label twice."""
    if ranks.size and not 0 <= ranks.min() <= ranks.max() < known:
        raise BadValue(f"ranked must contain label indices from 0 to {known - 1}, got {ranks.min()} to {ranks.max()}.")
    ordered = np.sort(ranks, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise BadValue(
            f"ranked must contain each label at most once per row, got {ranks[twice.argmax()].tolist()} in row "
            f"{twice.argmax()}."
        )


def _weights(propensities: ArrayLike, known: int) -> Numbers:
    given = np.asarray(propensities, dtype=np.float64)
    if given.shape != (known,):
        raise BadValue(f"propensities must have shape ({known},), one per label, got {given.shape}.")
    if not ((given > 0) & (given <= 1)).all():
        raise BadValue("propensities must be greater than 0 and at most 1. Compute them by propensities(train_labels).")
    return 1 / given
