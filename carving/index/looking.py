"""What is looked at for one question: the cells for which most speaks, more of them if need be, and their fillers."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.index.directions import merits
from carving.index.segments import UNIT, Index, Segment
from carving.tiling import rows_within, slices

SAMPLE = 2**14  # cells that tell how many have more than some merit
AT_ONCE = 2**13  # fillers whose numbers stay in the caches
SMALL = 2**18  # multiplications of a product, for which BLAS wakes no threads


class Look:
    """A question's way through the cells.

    What it found but scores by so much less than the best is left out, since it counts for nothing.
    """

    def __init__(self, index: Index, core: Tensor, share: float = 1.0, width: float = math.inf) -> None:
        """The way through this share of the cells at least; more are looked through again where they are wanted."""
        self.index, self.core, self.width = index, core.float(), width
        self.looked, self.highest = 0, -math.inf  # how many fillers, and the best score
        self._every = merits(self.core, index.ways).numpy()
        self._sample = np.sort(self._every[:: max(1, len(self._every) // SAMPLE)])
        self._above = np.float32(np.inf)  # cells of this merit and more were looked at
        self._limit(share)

    def _limit(self, share: float) -> None:
        self._share, least = share, self._least(share)
        self._cells = np.flatnonzero(self._every >= least)
        self._merits = self._every[self._cells]

    def _least(self, share: float) -> np.float32:
        """The merit that about this share of the cells has; a share of 1 is all."""
        place = len(self._sample) - max(1, round(share * len(self._sample)))
        return np.float32(-np.inf) if share >= 1 else self._sample[place]

    def further(self, share: float) -> tuple[NDArray[np.int64], Tensor]:
        """The rows of fillers in the best cells, about this share of them, that were not looked at; and their scores.

        Scores are those of the components in int8.
        """
        if share > self._share:
            self._limit(share)
        least = self._least(share)
        cells = self._cells[(self._merits >= least) & (self._merits < self._above)]
        self._above = least
        rows, scores = list[NDArray[np.int64]](), list[NDArray[np.float32]]()
        for segment in self.index.segments:
            places = segment.places(cells) if len(cells) < self.index.cells else np.arange(len(segment))
            self.looked += len(places)
            found = self._scores(segment, places)
            if self.width < math.inf and len(found):
                self.highest = max(self.highest, float(found.max()))
                near = np.flatnonzero(found > self.highest - self.width)
                places, found = places[near], found[near]
            rows.append(segment.order[places].astype(np.int64))
            scores.append(found)
        return np.concatenate(rows), torch.from_numpy(np.concatenate(scores))

    def _scores(self, segment: Segment, places: NDArray[np.int64]) -> NDArray[np.float32]:
        p, k1 = self.index.scheme.facts.filler_shape
        scores = np.empty(len(places), dtype=np.float32)
        first = (self.core * float(UNIT) ** -p).reshape(k1, -1).numpy()
        for part in slices(len(places), AT_ONCE):
            numbers = np.take(segment.components, places[part], axis=0).astype(np.float32)
            left = np.empty((len(numbers), first.shape[1]), dtype=np.float32)
            for rows in slices(len(numbers), rows_within(SMALL, first.size)):
                np.matmul(numbers[rows, :k1], first, out=left[rows])  # faster than torch's where they are so narrow
            for place in range(1, p):
                own = numbers[:, place * k1 : (place + 1) * k1]
                left = np.einsum("nir,ni->nr", left.reshape(len(own), k1, -1), own)
            scores[part] = left[:, 0]
        return scores
