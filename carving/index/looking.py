"""What is looked at for one question: the cells for which most speaks, more of them if need be, and their fillers."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.chunks import rows_within, slices
from carving.index.directions import merits
from carving.index.segments import UNIT, Index, Segment

SAMPLE = 2**14  # cells that tell how many have more than some merit
SMALL = 2**18  # multiplications of a product, for which BLAS wakes no threads; its numbers stay in the caches


class Look:
    """A question's way through the cells."""

    def __init__(self, index: Index, core: Tensor) -> None:
        self.index, self.core = index, core.float()
        self.merits = merits(self.core, index.ways).numpy()
        self._sample = np.sort(self.merits[:: max(1, len(self.merits) // SAMPLE)])
        self._above = np.float32(np.inf)  # cells of this merit and more were looked at

    def further(self, share: float) -> tuple[NDArray[np.int64], Tensor]:
        """The rows of fillers in the best cells, about this share of them, that were not looked at; and their scores.

        Scores are those of the components in int8. A share of 1 is all cells.
        """
        place = len(self._sample) - max(1, round(share * len(self._sample)))
        least = np.float32(-np.inf) if share >= 1 else self._sample[place]
        cells = np.flatnonzero((self.merits >= least) & (self.merits < self._above))
        self._above = least
        rows, scores = [], []
        for segment in self.index.segments:
            places = segment.places(cells) if len(cells) < len(self.merits) else np.arange(len(segment))
            rows.append(segment.order[places].astype(np.int64))
            scores.append(self._scores(segment, places))
        return np.concatenate(rows), torch.cat(scores)

    def _scores(self, segment: Segment, places: NDArray[np.int64]) -> Tensor:
        p, k1 = self.index.scheme.facts.filler_shape
        scores = np.empty(len(places), dtype=np.float32)
        first = (self.core * float(UNIT) ** -p).reshape(k1, -1).numpy()
        for part in slices(len(places), rows_within(SMALL, first.size)):
            numbers = np.take(segment.components, places[part], axis=0).astype(np.float32)
            left = numbers[:, :k1] @ first  # NumPy's products are faster than torch's where they are so narrow
            for place in range(1, p):
                own = numbers[:, place * k1 : (place + 1) * k1]
                left = np.einsum("nir,ni->nr", left.reshape(len(own), k1, -1), own)
            scores[part] = left[:, 0]
        return torch.from_numpy(scores)
