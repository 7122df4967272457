"""How often each value was stored, for ten million values too: states share what they have in common.

A small vocabulary's counts are copied with every change. Those of a large one stay where they are, and a state beside
them remembers what is different in it: one more pair then copies a few numbers. Nothing that is shared ever changes, so
that whoever reads an older state still sees all of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.tensors import lasting

LARGE = 2**16  # values whose counts are not copied with every change
MOST = 2**12  # of which so many differ at most: then they are laid out anew

Rows = NDArray[np.int64]


class Summary(NamedTuple):
    """What is asked of all counts."""

    stored: float  # their sum, those that are less than nothing left out
    least: float
    most: float


class Counts:
    """A count for each value, by its row.

    >>> few = Counts(torch.zeros(3, dtype=torch.float64))
    >>> more = few.plus(4, [1, 3], torch.tensor([2.0, 1.0]))
    >>> more.tensor.tolist(), few.tensor.tolist(), more.stored, more.of(np.array([3, -1, 1])).tolist()
    ([0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0], 3.0, [1.0, 0.0, 2.0])
    """

    def __init__(self, tensor: Tensor, differing: dict[int, float] | None = None, size: int | None = None) -> None:
        """Those of a tensor that nobody else changes, or of one that is shared, but for some."""
        self._shared, self._differing, self.size = tensor, differing or {}, len(tensor) if size is None else size
        self.laid = tensor if differing is None and size is None else None  # all of them, where they lie in one
        self._summary: Summary | None = None
        self._seen: int | None = None  # the changes of the tensor that the summary knows of
        self._given = self._lent = False  # to who may change the tensor; to other states

    def __len__(self) -> int:
        return self.size

    def __reduce__(self) -> tuple[type["Counts"], tuple[Tensor]]:
        return Counts, (self.tensor,)

    @property
    def tensor(self) -> Tensor:
        """All of them, laid out when they are first asked for."""
        if self.laid is None:
            self._lay_out()
        assert self.laid is not None
        return self.laid

    def given(self) -> Tensor:
        """The same for someone who may change it, which only this state is to see."""
        if self._lent and self.laid is self._shared:
            self._lay_out()
        self._given = True
        return self.tensor

    def _lay_out(self) -> None:
        with lasting():
            tensor = torch.cat([self._shared, self._shared.new_zeros(self.size - len(self._shared))])
            if self._differing:
                rows = torch.tensor(list(self._differing))
                tensor[rows] = torch.tensor(list(self._differing.values()), dtype=tensor.dtype)
        self._seen, self.laid = tensor._version, tensor

    def of(self, rows: Rows | Sequence[int]) -> Tensor:
        """Those of some rows; where a row is below zero, nothing."""
        asked = np.asarray(rows, dtype=np.int64)
        tensor = self.laid
        if tensor is None:
            tensor = self._shared if len(asked) <= MOST else self.tensor
        there = (asked >= 0) & (asked < len(tensor))
        counts = np.zeros(len(asked))
        counts[there] = tensor.numpy()[asked[there]]
        if self.laid is not tensor and self._differing:
            each = zip(asked.tolist(), counts.tolist(), strict=True)
            counts = np.array([self._differing.get(row, count) for row, count in each], dtype=np.float64)
        return torch.from_numpy(counts)

    def plus(self, size: int, rows: Rows | Sequence[int], weights: Tensor) -> "Counts":
        """Those of so many values, of which some, each given once, were stored so much more."""
        if size < LARGE or self._given or len(self._differing) + len(rows) > MOST:
            here = self.tensor if self.laid is None else self.laid
            with lasting():
                tensor = torch.cat([here, here.new_zeros(size - self.size)])
                tensor[rows] += weights
            return Counts(tensor)
        before, summary = self.of(rows), self.summary
        after = before + weights
        changed = dict(zip(np.asarray(rows).tolist(), after.tolist(), strict=True))
        self._lent, more = True, Counts(self._shared, self._differing | changed, size)
        stored = summary.stored + float(after.clamp_min(0).sum() - before.clamp_min(0).sum())
        least, most = min([summary.least, *changed.values()]), max([summary.most, *changed.values()])
        more._summary = Summary(stored, least, most)
        return more

    @property
    def summary(self) -> Summary:
        """The sum and the bounds of all of them; of one that was changed little, bounds that hold as well."""
        tensor = self.laid
        if tensor is None:
            assert self._summary is not None  # made with it
            return self._summary
        try:
            version = tensor._version
        except RuntimeError:  # tensors of `torch.inference_mode` do not count their changes
            return _summary(tensor)
        if self._summary is None or self._seen != version:
            self._summary = _summary(tensor)
        self._seen = version
        return self._summary

    @property
    def stored(self) -> float:
        """Their sum, those that are less than nothing left out."""
        return self.summary.stored


def _summary(tensor: Tensor) -> Summary:
    if not len(tensor):
        return Summary(0.0, 0.0, 0.0)
    least, most = map(float, tensor.aminmax())
    return Summary(float(tensor.clamp_min(0).sum()), least, most)
