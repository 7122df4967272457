"""A matcher by counting: a label is the sum of its points, words weighed by how rare they are.

It takes one pass over the points and is the same whatever their order. Of each label only the largest weights are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carving.multilabel.views import View, unit_rows
from carving.optional import load
from carving.tiling import spans

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

KEPT = 300  # weights of a label
ROOM = 2**23  # numbers of labels' sums that are made together at most


def rarity(features: csr_matrix) -> NDArray[np.float32]:
    """For each feature the logarithm of how few points have it (inverse document frequency), (F,)."""
    points, wide = features.shape
    return np.asarray(np.log((1 + points) / (1 + np.bincount(features.indices, minlength=wide))), dtype=np.float32)


def sums(features: csr_matrix, labels: csr_matrix, view: View, kept: int = KEPT) -> csc_matrix:
    """The sum of each label's points at length 1, of its largest weights alone, at length 1: (L, F).

    Some labels at a time are summed, so that beside the points only what is kept is held, twice while it is put
    together.
    """
    seen, by_label = unit_rows(features, view.scale), labels.T.tocsr()
    sizes = np.minimum(by_label @ features.getnnz(axis=1), features.shape[1])
    parts = (unit_rows(largest((by_label[part] @ seen).tocsr(), kept)) for part in spans(sizes, ROOM))
    return stacked(parts)


def stacked(pieces: Iterable[csr_matrix]) -> csc_matrix:
    """Rows, piece after piece, by their columns."""
    whole = load("scipy.sparse").vstack([_own(piece) for piece in pieces], format="csr")
    return whole.tocsc()


def _own(piece: csr_matrix) -> csr_matrix:
    """The same without what scipy may have left behind it: a piece that lost entries has the room for all of them."""
    return piece if piece.indices.base is None else piece.copy()


def largest(matrix: csr_matrix, kept: int) -> csr_matrix:
    """The matrix without all but the so many entries of each row that are largest; equal ones stay together."""
    counts = np.diff(matrix.indptr)
    for row in np.flatnonzero(counts > kept):
        values = matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]
        sizes = np.abs(values)
        values[sizes < np.partition(sizes, len(sizes) - kept)[len(sizes) - kept]] = 0
    matrix.eliminate_zeros()
    return matrix
