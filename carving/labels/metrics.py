"""How good a ranking of labels is: precision, discounted gain, and both weighted by how easily a label is missed.

    q = propensities(train.labels)
    ndcg(ranked, test.labels, 5), psndcg(ranked, test.labels, 5, q)

Every measure is a share of 1, over the points that have labels. With `batch` it is the mean of the measure over batches
of so many points, a last short one counting as much as the others: so the published code of HLB does it. With
`unlabelled` points without labels count too, as points of which nothing was found.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from carving.checks import check_integer
from carving.errors import BadType, BadValue

Numbers = NDArray[np.float64]
Ids = NDArray[np.integer[Any]]


def propensities(train_labels: csr_matrix, a: float = 0.55, b: float = 1.5) -> Numbers:
    """How probably each label is noticed where it belongs, by its frequency among the training points (Jain et al.)."""
    points = train_labels.shape[0]
    if not points:
        raise BadValue("propensities are counted on training points, got a matrix without rows")
    counts = np.bincount(train_labels.indices[train_labels.data != 0], minlength=train_labels.shape[1])
    # Below e points the formula's constant turns negative, and probabilities would exceed 1.
    constant = max(0.0, np.log(points) - 1) * (b + 1) ** a
    return 1 / (1 + constant * (counts + b) ** -a)


def ranking(scores: Any, k: int) -> NDArray[np.int64]:
    """The k best labels of each row of scores (n, L), best first; of equal ones the smaller number comes first."""
    scores = np.asarray(scores)
    if scores.ndim != 2:
        raise BadValue(f"scores must have shape (points, labels), got {scores.shape}")
    check_integer("k", k, 1, scores.shape[1], f"there are {scores.shape[1]} labels")
    if np.isnan(scores).any():
        raise BadValue(f"scores must be numbers, got NaN in row {int(np.isnan(scores).any(axis=1).argmax())}")
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def precision(ranked: Any, labels: csr_matrix, k: int, *, batch: int | None = None, unlabelled: bool = False) -> float:
    """P@k: the share of the k best that are right."""
    found = _found(ranked, labels, k)
    return _averaged(found.sum(axis=1) / k, None, labels, batch, unlabelled)


def ndcg(ranked: Any, labels: csr_matrix, k: int, *, batch: int | None = None, unlabelled: bool = False) -> float:
    """nDCG@k: right labels count less the later they come, relative to all labels coming first."""
    found = _found(ranked, labels, k)
    return _averaged(found @ _discounts(k) / _attainable(labels, k), None, labels, batch, unlabelled)


def psp(
    ranked: Any,
    labels: csr_matrix,
    k: int,
    propensities: Any,
    *,
    batch: int | None = None,
    unlabelled: bool = False,
) -> float:
    """PSP@k: precision with labels weighted by 1 / propensity, as a share of what the best ranking would get."""
    found, best = _gains(ranked, labels, k, propensities)
    return _averaged(found.sum(axis=1), best.sum(axis=1), labels, batch, unlabelled)


def psndcg(
    ranked: Any,
    labels: csr_matrix,
    k: int,
    propensities: Any,
    *,
    batch: int | None = None,
    unlabelled: bool = False,
) -> float:
    """PSnDCG@k: nDCG with labels weighted by 1 / propensity, as a share of what the best ranking would get."""
    found, best = _gains(ranked, labels, k, propensities)
    discounts = _discounts(k) / _attainable(labels, k)[:, None]  # (n, k)
    return _averaged((found * discounts).sum(axis=1), (best * discounts).sum(axis=1), labels, batch, unlabelled)


def measures(
    ranked: Any,
    labels: csr_matrix,
    propensities: Any,
    ks: tuple[int, ...] = (1, 3, 5),
    *,
    batch: int | None = None,
    unlabelled: bool = False,
) -> dict[str, float]:
    """All four measures at every k: {"P@1": ..., "nDCG@5": ..., "PSP@3": ..., "PSnDCG@5": ...}."""
    how: dict[str, Any] = dict(batch=batch, unlabelled=unlabelled)
    plain = {f"{name}@{k}": f(ranked, labels, k, **how) for name, f in [("P", precision), ("nDCG", ndcg)] for k in ks}
    scored = [("PSP", psp), ("PSnDCG", psndcg)]
    return plain | {f"{name}@{k}": f(ranked, labels, k, propensities, **how) for name, f in scored for k in ks}


def _discounts(k: int) -> Numbers:
    return 1 / np.log2(np.arange(k) + 2)


def _attainable(labels: csr_matrix, k: int) -> Numbers:
    """The discounted gain of a perfect ranking, for each point; 1 for points without labels, whose gain is 0."""
    gains = np.cumsum(_discounts(k))
    return gains[np.clip(labels.getnnz(axis=1), 1, k) - 1]


def _found(ranked: Any, labels: csr_matrix, k: int) -> NDArray[np.bool_]:
    """Whether each of the first k places names a label of its point, (n, k)."""
    ranks = _checked(ranked, labels, k)
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


def _gains(ranked: Any, labels: csr_matrix, k: int, propensities: Any) -> tuple[Numbers, Numbers]:
    """What each place of the ranking earns, and each place of the best ranking: (n, k) both."""
    weights = _weights(propensities, labels.shape[1])
    found = _found(ranked, labels, k)
    return found * weights[np.asarray(ranked)[:, :k]], _best(weights[labels.indices], labels, k)


def _best(weights: Numbers, labels: csr_matrix, k: int) -> Numbers:
    """Each point's own labels by decreasing weight, the first k of them: (n, k), zeros where there are fewer."""
    rows = _owners(labels)
    order = np.lexsort((-weights, rows))
    place = np.arange(len(rows)) - labels.indptr[rows]
    best = np.zeros((labels.shape[0], k))
    first = place < k
    best[rows[first], place[first]] = weights[order][first]
    return best


def _averaged(gained: Numbers, best: Numbers | None, labels: csr_matrix, batch: int | None, unlabelled: bool) -> float:
    """The mean over points, or, beside the best, the ratio of both means; over all at once or averaged over batches."""
    kept = np.ones(len(gained), bool) if unlabelled else labels.getnnz(axis=1) > 0
    if not labels.nnz:
        raise BadValue("there is nothing to measure: no point has a label")
    gained = gained[kept]
    best = np.ones(len(gained)) if best is None else best[kept]
    size = len(gained) if batch is None else check_integer("batch", batch, 1, way_out="None takes all points at once")
    starts = np.arange(0, len(gained), size)
    totals = np.add.reduceat(best, starts)
    # A batch of points without labels has nothing to be found, and found nothing.
    return float(np.mean(np.add.reduceat(gained, starts) / np.where(totals > 0, totals, 1)))


def _checked(ranked: Any, labels: csr_matrix, k: int) -> Ids:
    """The first k places of the ranking; what is none is refused."""
    if getattr(labels, "format", None) != "csr" or not (labels.data == 1).all():
        raise BadType(
            "labels must be a CSR matrix that stores ones and nothing else; Dataset(features, labels) makes it"
        )
    ranks = np.asarray(ranked)
    if ranks.ndim != 2 or not np.issubdtype(ranks.dtype, np.integer):
        raise BadType(
            f"a ranking must be integers of shape (points, places), got {ranks.dtype} of shape {ranks.shape}; "
            "ranking(scores, k) makes one of scores"
        )
    points, known = labels.shape
    if len(ranks) != points:
        raise BadValue(f"a ranking must have a row for each of the {points} points, got {len(ranks)} rows")
    check_integer("k", k, 1, known, f"there are {known} labels")
    if k > ranks.shape[1]:
        raise BadValue(f"the ranking has {ranks.shape[1]} places, too few for k={k}; ask for the {k} best labels")
    first = ranks[:, :k]
    if first.size and not 0 <= first.min() <= first.max() < known:
        raise BadValue(f"a ranking must name labels from 0 to {known - 1}, got {first.min()} to {first.max()}")
    ordered = np.sort(first, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise BadValue(
            f"a ranking must name a label once, got {first[twice.argmax()].tolist()} in row {twice.argmax()}"
        )
    return first


def _weights(propensities: Any, known: int) -> Numbers:
    given = np.asarray(propensities, dtype=np.float64)
    if given.shape != (known,):
        raise BadValue(f"propensities must be one for each of the {known} labels, got shape {given.shape}")
    if not ((given > 0) & (given <= 1)).all():
        raise BadValue("propensities must lie above 0 and not above 1; propensities(train_labels) gives them")
    return 1 / given
