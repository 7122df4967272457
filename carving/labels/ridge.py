"""Ridge regression of all labels at once, in closed form: two sums over the points, made in passes, and one solution."""

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
    def of(cls, features: csr_matrix, labels: csr_matrix, view: View) -> Self:
        """The sums over these points, some at a time."""
        wide = view.outputs(features.shape[1])
        gram, moments = np.zeros((wide + 1, wide + 1)), np.zeros((wide + 1, labels.shape[1]))
        for part in slices(features.shape[0], rows_within(ROOM, wide)):
            seen, truth = view(features[part]), labels[part]
            squares, products = seen.T @ seen, truth.T @ seen
            if not isinstance(seen, np.ndarray):
                squares, products = squares.toarray(), products.toarray()
            total = np.asarray(seen.sum(axis=0)).ravel()
            gram[:-1, :-1] += squares
            gram[-1, :-1] += total
            gram[:-1, -1] += total
            gram[-1, -1] += truth.shape[0]
            moments[:-1] += products.T
            moments[-1] += np.asarray(truth.sum(axis=0)).ravel()
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
