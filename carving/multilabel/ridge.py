"""Ridge regression of all labels at once, in closed form: two sums over the points, in passes, and one solution.

Where points are fewer than features, what is solved has a row for each point instead of one for each feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from carving.caching import cached_property
from carving.multilabel.views import View
from carving.optional import load
from carving.tiling import rows_within, slices

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
        return _solved(self.gram, penalty, self.moments)


@dataclass(frozen=True, eq=False)
class Few:
    """The same where points are few: the points themselves, times the roots of their weights, a one being the last."""

    seen: csr_matrix | Numbers  # (n, F + 1)
    truth: Numbers  # (n, L)

    @classmethod
    def of(cls, features: csr_matrix, labels: csr_matrix, view: View, weights: Numbers | None = None) -> Self:
        """These points; one of weight 2 counts as two."""
        root = np.ones(features.shape[0]) if weights is None else weights**0.5
        seen, sparse = view(features), load("scipy.sparse")
        if isinstance(seen, np.ndarray):
            return cls(np.hstack([seen, np.ones((len(root), 1))]) * root[:, None], labels.toarray() * root[:, None])
        seen = sparse.diags_array(root) @ sparse.hstack([seen, np.ones((len(root), 1))], "csr")
        return cls(seen.tocsr(), labels.toarray() * root[:, None])

    def __add__(self, other: Few) -> Few:
        """The points of both."""
        stack = np.vstack if isinstance(self.seen, np.ndarray) else load("scipy.sparse").vstack
        return Few(stack([self.seen, other.seen]), np.vstack([self.truth, other.truth]))

    @cached_property
    def _gram(self) -> Numbers:
        gram = self.seen @ self.seen.T
        return np.asarray(gram if isinstance(gram, np.ndarray) else gram.toarray())

    def solved(self, penalty: float) -> Numbers:
        """The weights that `Sums` finds."""
        return np.asarray(self.seen.T @ _solved(self._gram, penalty, self.truth))


def gathered(features: csr_matrix, labels: csr_matrix, view: View, weights: Numbers, points: int) -> Sums | Few:
    """What these points tell, in the form that suits as many as there are in all."""
    kind = Few if points <= view.outputs(features.shape[1]) else Sums
    return kind.of(features, labels, view, weights)


def _solved(gram: Numbers, penalty: float, right: Numbers) -> Numbers:
    linalg = load("scipy.linalg")
    gram = gram.copy()
    gram[np.diag_indices_from(gram)] += penalty
    return np.asarray(linalg.cho_solve(linalg.cho_factor(gram, overwrite_a=True), right))
