"""Learning in several processes: every rank its part of each batch, gradients averaged by DistributedDataParallel.

A rank's loss counts by its share of the batch, so that the mean of the ranks' gradients is the gradient of the whole
batch: but for what is drawn by chance (dropout, labels of a sampled softmax) a step is that of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from carving.distributed.ranks import Group, Ranks
from carving.errors import BadValue
from carving.multilabel.data import Dataset
from carving.multilabel.rows import Rows, rows_of

if TYPE_CHECKING:
    from carving.multilabel.heads import Head

LossOf = Callable[["Head", Tensor, Rows], Tensor]

_RANKS: ContextVar[Ranks | None] = ContextVar("ranks that learn together", default=None)


@contextmanager
def learning_on(group: Group) -> Iterator[Ranks]:
    """Train networks in this context on all ranks of a process group; every rank must call it with the same data.

    >>> with learning_on(None) as ranks:  # this process alone; joined() gives the ranks that torchrun has started
    ...     ranks.size, learners().size
    (1, 1)
    """
    ranks = Ranks.of(group)
    if ranks.device.type != "cpu":
        raise BadValue("group must use the gloo backend, got nccl: networks are trained on the CPU.")
    token = _RANKS.set(ranks)
    try:
        yield ranks
    finally:
        _RANKS.reset(token)


def learners() -> Ranks:
    """The ranks that learn together: this process alone, unless `learning_on` says otherwise."""
    return _RANKS.get() or Ranks.alone()


class Objective(nn.Module):
    """What a network and a head are trained for, as one module: DistributedDataParallel wants to see all weights."""

    def __init__(self, modules: nn.ModuleDict, loss: LossOf) -> None:
        super().__init__()
        self.parts, self.loss = modules, loss

    def forward(self, features: Rows, labels: Rows) -> Tensor:
        """The loss of a batch."""
        return self.loss(self.parts["head"], self.parts["network"](features), labels)  # type: ignore[arg-type]


class Learning:
    """The gradients of batches, by one process or by all ranks."""

    def __init__(self, modules: nn.ModuleDict, loss: LossOf, ranks: Ranks, per_label: bool = False) -> None:
        """`per_label` says that the loss is a mean over labels, not over points."""
        self.ranks, self.per_label = ranks, per_label
        self.objective: nn.Module = Objective(modules, loss)
        if ranks.size > 1:
            from torch.nn.parallel import DistributedDataParallel

            # Buffers never change; torch calls what leaves them alone otherwise from a later version on.
            known = signature(DistributedDataParallel).parameters
            later = "forward_sync_buffers" in known
            alone: dict[str, Any] = {"forward_sync_buffers" if later else "broadcast_buffers": False}
            self.objective = DistributedDataParallel(self.objective, process_group=ranks.group, **alone)

    def gradients(self, data: Dataset, indices: NDArray[np.int64]) -> float:
        """Leave the gradients of a batch's loss with the weights; this rank's part of that loss, times the points."""
        if self.ranks.size == 1:
            loss = self.objective(rows_of(data.features, indices), rows_of(data.labels, indices))
            loss.backward()
            return float(loss.detach()) * len(indices)
        own = indices[self.ranks.rank :: self.ranks.size]
        share = self._size(data, own) / self._size(data, indices)
        own = own if len(own) else indices[:1]  # which counts nothing, but all ranks must come

        def whole() -> float:
            loss = self.objective(rows_of(data.features, own), rows_of(data.labels, own))
            (loss * (share * self.ranks.size)).backward()  # of which DistributedDataParallel takes the mean
            return float(loss.detach())

        return self.ranks.exchange(whole) * share * len(indices)

    def _size(self, data: Dataset, indices: NDArray[np.int64]) -> int:
        if not self.per_label:
            return len(indices)
        starts = data.labels.indptr
        return max(1, int((starts[indices + 1] - starts[indices]).sum())) if len(indices) else 0

    def total(self, own: float) -> float:
        """The sum of what each rank has."""
        return sum(self.ranks.gather(own))
