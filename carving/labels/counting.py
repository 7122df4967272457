"""A matcher by counting: a label is the sum of its points, words weighed by how rare they are.

It takes one pass over the points and is the same whatever their order. Of each label only the largest weights are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carving.chunks import rows_within, slices
from carving.extras import load
from carving.labels.views import View, unit_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

KEPT = 300  # weights of a label
ROOM = 2**25  # numbers of labels' sums that are made together at most


def rarity(features: csr_matrix) -> NDArray[np.float32]:
    """For each feature the logarithm of how few points have it (inverse document frequency), (F,)."""
    points, wide = features.shape
    return np.asarray(np.log((1 + points) / (1 + np.bincount(features.indices, minlength=wide))), dtype=np.float32)


def sums(features: csr_matrix, labels: csr_matrix, view: View, kept: int = KEPT) -> csr_matrix:
    """The sum of each label's points at length 1, of its largest weights alone: (L, F)."""
    sparse = load("scipy.sparse")
    seen, by_label = unit_rows(features, view.scale), labels.T.tocsr()
    stored = max(1, int(by_label.getnnz(axis=1).max(initial=0)) * seen.nnz // max(1, seen.shape[0]))
    at_once = rows_within(ROOM, min(features.shape[1], stored))
    parts = [largest((by_label[part] @ seen).tocsr(), kept) for part in slices(by_label.shape[0], at_once)]
    return unit_rows(sparse.vstack(parts, format="csr"))


def largest(matrix: csr_matrix, kept: int) -> csr_matrix:
    """The matrix without all but the so many entries of each row that are largest; equal ones stay together."""
    counts = np.diff(matrix.indptr)
    for row in np.flatnonzero(counts > kept):
        values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        sizes = np.abs(values)
        values[sizes < np.partition(sizes, len(sizes) - kept)[len(sizes) - kept]] = 0
    matrix.eliminate_zeros()
    return matrix
