"""Rankers: for each label a linear classifier that tells its own points from those that a matcher took for its own.

Its negatives are hard ones, and few: the points whose shortlist names the label wrongly. So each is small, and what
it learns is what the matcher does not know. Squared hinge loss, solved by liblinear; small weights are dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carving.chunks import slices
from carving.extras import load
from carving.labels.maps import Map

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SMALL = 0.01  # weights below are dropped
COST = 1.0  # of an error, beside half of the squared length of the weights
TOLERANCE = 0.1  # of liblinear
MOST = 2**15  # labels that have a ranker: the most frequent
AT_ONCE = 256  # labels whose rankers are trained before their weights are put together
SPARSE = 4  # times as many features as a ranker's points store, from which on it looks at theirs alone

OnShare = Callable[[float], None]  # called with the share that is done


class Ranker(NamedTuple):
    """The weights of one label that are not small."""

    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: float


ALWAYS = Ranker(np.zeros(0, np.int32), np.zeros(0, np.float32), 0.0)  # where nothing tells points apart


def trained(
    features: csr_matrix,
    labels: csr_matrix,
    shortlists: csr_matrix,
    *,
    least: int = 1,
    seed: int = 0,
    on_share: OnShare | None = None,
) -> Map:
    """The rankers for points as they are seen (n, F), their labels and their shortlists, which are matrices of ones.

    Labels of fewer than `least` points have none.
    """
    count = labels.shape[1]
    ranked = _ranked(labels, least)
    named, own = (labels + shortlists).tocsc(), labels.tocsc()
    points = features.astype(np.float64)  # as liblinear wants them
    made: list[Ranker] = []

    def of(label: int) -> Ranker:
        rows = np.sort(named.indices[named.indptr[label] : named.indptr[label + 1]])
        return one(points[rows], np.isin(rows, own.indices[own.indptr[label] : own.indptr[label + 1]]), seed)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not converged ranks as well
        for part in slices(len(ranked), AT_ONCE):
            made += map(of, ranked[part])  # one by one: liblinear draws from a generator that all threads share
            if on_share is not None:
                on_share(part.stop / len(ranked))
    bias = np.zeros(count, np.float32)
    bias[ranked] = [ranker.bias for ranker in made]
    owners = np.repeat(ranked, [len(ranker.columns) for ranker in made])
    columns, values = (np.concatenate([ALWAYS[i], *(ranker[i] for ranker in made)]) for i in (0, 1))
    return Map.sparse(load("scipy.sparse").csr_matrix((values, (columns, owners)), (features.shape[1], count)), bias)


def _ranked(labels: csr_matrix, least: int) -> NDArray[np.int64]:
    """The labels that have a ranker."""
    frequencies = labels.getnnz(axis=0)
    most = np.sort(np.argsort(-frequencies, kind="stable")[:MOST])
    return np.asarray(most[frequencies[most] >= least])


def one(points: csr_matrix, truth: NDArray[np.bool_], seed: int = 0) -> Ranker:
    """The ranker that tells true points from false ones."""
    if truth.all():
        return ALWAYS
    columns = np.unique(points.indices) if points.shape[1] > SPARSE * points.nnz else None
    if columns is not None:
        points = points[:, columns]
    machine = load("sklearn.svm").LinearSVC(C=COST, tol=TOLERANCE, random_state=seed).fit(points, truth)
    weights = machine.coef_[0]
    kept = np.flatnonzero(np.abs(weights) >= SMALL)
    names = kept if columns is None else columns[kept]
    return Ranker(names.astype(np.int32), weights[kept].astype(np.float32), float(machine.intercept_[0]))
