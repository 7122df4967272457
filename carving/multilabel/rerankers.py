"""Rerankers: for each label a linear classifier that tells its own points from those that a matcher took for its own.

Its negatives are hard ones, and few: the points whose shortlist names the label wrongly. So each is small, and what
it learns is what the matcher does not know. Squared hinge loss, solved by liblinear; small weights are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carving.multilabel.counting import stacked
from carving.multilabel.maps import Map
from carving.optional import load
from carving.tiling import slices

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

SMALL = 0.01  # weights below are dropped
COST = 1.0  # of an error, beside half of the squared length of the weights
TOLERANCE = 0.1  # of liblinear
MAX_ITERATIONS = 10_000  # of liblinear, which warns if these are not enough
MOST = 2**15  # labels that have a reranker: the most frequent
WEIGHTS = 2**26  # of all rerankers together: of each, the largest that it may have
AT_ONCE = 256  # labels whose rerankers are trained before their weights are put together
SPARSE = 4  # times as many features as a reranker's points store, from which on it looks at theirs alone

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
    """The rerankers for points as they are seen (n, F), their labels and their shortlists, which are matrices of ones.

    Labels of fewer than `least` points have none.
    """
    sparse, wide = load("scipy.sparse"), features.shape[1]
    ranked, bias = _ranked(labels, least), np.zeros(labels.shape[1], np.float32)
    named, own, most = _by_label(shortlists), _by_label(labels), WEIGHTS // max(1, len(ranked))

    def of(label: int) -> Ranker:
        mine = own.indices[own.indptr[label] : own.indptr[label + 1]]
        rows = np.union1d(mine, named.indices[named.indptr[label] : named.indptr[label + 1]])
        return one(features[rows].astype(np.float64), np.isin(rows, mine), seed, most)  # as liblinear wants them

    def pieces() -> Iterator[csr_matrix]:
        yield sparse.csr_matrix((0, wide), dtype=np.float32)
        for part in slices(len(ranked), AT_ONCE):
            made = [of(label) for label in ranked[part]]  # one by one: liblinear's generator is shared by all threads
            bias[ranked[part]] = [reranker.bias for reranker in made]
            columns, values = (np.concatenate([reranker[i] for reranker in made]) for i in (0, 1))
            starts = np.cumsum([0, *(len(reranker.columns) for reranker in made)])
            yield sparse.csr_matrix((values, columns, starts), (len(made), wide))
            if on_share is not None:
                on_share(part.stop / len(ranked))

    weights = stacked(pieces()).T  # (F, labels that have one)
    places = ranked.astype(np.int32)[weights.indices]
    return Map.sparse(sparse.csr_matrix((weights.data, places, weights.indptr), (wide, labels.shape[1])), bias)


def _by_label(matrix: csr_matrix) -> csc_matrix:
    """The points of each label, with as little beside them as can be."""
    ones = np.ones(matrix.nnz, np.int8)
    return load("scipy.sparse").csr_matrix((ones, matrix.indices, matrix.indptr), matrix.shape).tocsc()


def _ranked(labels: csr_matrix, least: int) -> NDArray[np.int64]:
    """The labels that have a reranker."""
    frequencies = labels.getnnz(axis=0)
    most = np.sort(np.argsort(-frequencies, kind="stable")[:MOST])
    return np.asarray(most[frequencies[most] >= least])


def one(points: csr_matrix, truth: NDArray[np.bool_], seed: int = 0, most: int = WEIGHTS) -> Ranker:
    """The reranker that tells true points from false ones, by its largest weights, of which there are `most`."""
    if truth.all() or not points.nnz:
        return ALWAYS
    columns = None
    if points.shape[1] > SPARSE * points.nnz:
        columns, places = np.unique(points.indices, return_inverse=True)
        parts = points.data, places.astype(np.int32), points.indptr
        points = load("scipy.sparse").csr_matrix(parts, (points.shape[0], len(columns)))
    machine = (
        load("sklearn.svm")
        .LinearSVC(C=COST, tol=TOLERANCE, max_iter=MAX_ITERATIONS, random_state=seed)
        .fit(points, truth)
    )
    weights = machine.coef_[0]
    sizes = np.abs(weights)
    kept = np.flatnonzero(sizes >= SMALL)
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-sizes[kept], kind="stable")[:most]])
    names = kept if columns is None else columns[kept]
    return Ranker(names.astype(np.int32), weights[kept].astype(np.float32), float(machine.intercept_[0]))
