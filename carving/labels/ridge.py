"""Ridge regression of all labels at once, in closed form: two sums over the points, in passes, and one solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from carving.chunks import rows_within, slices
from carving.extras import load
from carving.labels.views import View

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROOM = 2**23  # numbers of points' features that are looked at together

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sums:
    """What ridge regression needs to know of points: features times features and times labels, a one being the last."""

    gram: Numbers  # (F + 1, F + 1)
    moments: Numbers  # (F + 1, L)

    @classmethod
    def of(cls, features: csr_matrix, labels: csr_matrix, view: View, weights: Numbers | None = None) -> Self:
        """The sums over these points, some at a time; a point of weight 2 counts as two."""
        wide = view.outputs(features.shape[1])
        gram, moments = np.zeros((wide + 1, wide + 1)), np.zeros((wide + 1, labels.shape[1]))
        for part in slices(features.shape[0], rows_within(ROOM, wide)):
            seen, truth = view(features[part]), labels[part]
            weight = np.ones(truth.shape[0], np.float32) if weights is None else weights[part].astype(np.float32)
            heavy = load("scipy.sparse").diags_array(weight) @ seen
            squares, products = heavy.T @ seen, truth.T @ heavy
            if not isinstance(seen, np.ndarray):
                squares, products = squares.toarray(), products.toarray()
            total = seen.T @ weight
            gram[:-1, :-1] += squares
            gram[-1, :-1] += total
            gram[:-1, -1] += total
            gram[-1, -1] += weight.sum(dtype=np.float64)
            moments[:-1] += products.T
            moments[-1] += truth.T @ weight
        return cls(gram, moments)

    def __add__(self, other: Sums) -> Sums:
        """The sums over the points of both."""
        return Sums(self.gram + other.gram, self.moments + other.moments)

    def solved(self, penalty: float) -> Numbers:
        """Weights (F + 1, L), the last row being the bias, for which squared errors + penalty * squares are least."""
        linalg = load("scipy.linalg")
        gram = self.gram.copy()
        gram[np.diag_indices_from(gram)] += penalty
        return np.asarray(linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), self.moments))
