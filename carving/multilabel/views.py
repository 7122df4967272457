"""How matchers and rerankers see the features of points: rows of length 1, or columns on one scale, maybe as waves.

Sparse rows stay sparse. Waves are cosines of random directions ("random Fourier features"): a linear map of them is
about as good as a Gaussian kernel, and they are drawn from a seed, so that a file keeps none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from carving.caching import cached_property
from carving.hashing import bits, normals, uniforms, words_for_normals
from carving.multilabel.networks import DENSE, Scaling
from carving.optional import load
from carving.symbols.codec import canonical
from carving.tiling import spans

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Numbers = NDArray[np.float32]

PAIRS = 2_000  # pairs of points whose distances tell how wide waves are
POWER = 0.5  # to which the length of a row is taken, where it is not 1
ROOM = 2**20  # numbers of sparse rows that are looked at together
BANDWIDTH = 1.0  # the square of waves' frequency, times the median squared distance of two points


def is_dense(features: csr_matrix) -> bool:
    """Whether so many features are stored that zeros are not worth leaving out."""
    return bool(features.nnz > DENSE * features.shape[0] * features.shape[1])


@dataclass(frozen=True, eq=False)
class View:
    """What is made of features before a linear map: `scale` times them, at length 1, or standardized and dense."""

    shift: Numbers  # (F,) of columns that are standardized; none of rows
    scale: Numbers  # (F,) or none, which is 1
    waves: int = 0
    seed: int = 0
    length: float = 1.0  # of a row that is as long as most,
    power: float = 0.0  # if rows come to their length to this power: longer ones stay a little longer

    @classmethod
    def rows(cls, scale: NDArray[np.floating[Any]] | None = None) -> Self:
        """Rows of length 1, their columns weighed before."""
        return cls(
            shift=np.zeros(0, np.float32), scale=np.zeros(0, np.float32) if scale is None else scale.astype(np.float32)
        )

    @classmethod
    def halves(cls, features: csr_matrix) -> Self:
        """Rows whose length is the root of what it was, and in the mean of squares 1."""
        mean = float(np.mean(lengths(features) ** (2 * POWER))) or 1.0
        return cls(shift=np.zeros(0, np.float32), scale=np.zeros(0, np.float32), length=mean**-0.5, power=POWER)

    @classmethod
    def columns(cls, features: csr_matrix, waves: int = 0, seed: int = 0) -> Self:
        """Columns of mean 0, whose rows have about length 1 or, for waves, about the length that suits these."""
        scaling = Scaling.fitted(features, "columns")
        plain = cls(shift=scaling.shift.numpy(), scale=scaling.scale.numpy())
        size = _distance(plain, features) ** -0.5 if waves else features.shape[1] ** -0.5
        return cls(shift=plain.shift, scale=(plain.scale * np.float32(size)).astype(np.float32), waves=waves, seed=seed)

    @property
    def dense(self) -> bool:
        """Whether it makes dense arrays."""
        return bool(len(self.shift))

    def outputs(self, features: int) -> int:
        """How many columns it makes of so many."""
        return self.waves or features

    def __call__(self, features: csr_matrix) -> csr_matrix | Numbers:
        """The points as they are seen, (n, outputs)."""
        if not self.dense:
            return unit_rows(features, self.scale if len(self.scale) else None, self.length, self.power)
        plain: Numbers = (features.toarray() - self.shift) * self.scale
        if not self.waves:
            return plain
        turns = plain @ self._drawn[0]
        turns += self._drawn[1]
        return np.asarray(torch.from_numpy(turns).cos_().mul_((2 / self.waves) ** 0.5).numpy())

    @cached_property
    def _drawn(self) -> tuple[Numbers, Numbers]:
        """Directions (F, waves) and phases (waves,): those of a wave come from its number and the seed alone."""
        names, wide = [canonical(number) for number in range(self.waves)], len(self.shift)
        directions = normals(bits(names, words_for_normals(wide), seed=self.seed, purpose="waves"))[:, :wide]
        phases = uniforms(bits(names, 1, seed=self.seed, purpose="phases"))[:, 0] * (2 * np.pi)
        return directions.T.float().contiguous().numpy(), phases.float().numpy()


def unit_rows(
    features: csr_matrix, scale: Numbers | None = None, length: float = 1.0, power: float = 0.0
) -> csr_matrix:
    """Rows at `length`, times what it was to a power, their columns weighed before; rows of nothing stay so.

    Only numbers are made, some rows at a time; where they stand is shared with the features.
    """
    made, counts = np.empty(features.nnz, np.float32), np.diff(features.indptr)
    for rows in spans(counts, ROOM):
        stored = slice(features.indptr[rows.start], features.indptr[rows.stop])
        values = features.data[stored].astype(np.float64)
        if scale is not None:
            values *= scale[features.indices[stored]]
        found = _lengths(values, counts[rows])
        factors = length * np.where(found > 0, found, 1) ** (power - 1)
        made[stored] = values * np.repeat(factors, counts[rows])
    return load("scipy.sparse").csr_matrix((made, features.indices, features.indptr), features.shape)


def lengths(features: csr_matrix) -> NDArray[np.float64]:
    """The lengths of the rows, (n,)."""
    return _lengths(features.data.astype(np.float64), np.diff(features.indptr))


def _lengths(values: NDArray[np.float64], counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """The lengths of rows of so many of these values."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return np.asarray(np.sqrt(np.bincount(owners, values**2, len(counts))))


def _distance(view: View, features: csr_matrix) -> float:
    """The median squared distance of two points, by a few of them, over the square of waves' frequency."""
    points = features.shape[0]
    ones = np.linspace(0, points - 1, min(points, PAIRS)).astype(np.int64)
    others = np.roll(ones, len(ones) // 2)
    apart = ((np.asarray(view(features[ones])) - np.asarray(view(features[others]))) ** 2).sum(1)
    return max(float(np.median(apart)), 1e-12) / BANDWIDTH
