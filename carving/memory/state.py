"""State of a memory: plain data that is replaced whole at every change, so that readers always see all of it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.inference.calibration import Consolidated
from carving.inference.sample import NOTHING_SAMPLED, Histogram, PairSample
from carving.memory.counts import PathCounts, ValueCounts
from carving.planner.requirements import Target
from carving.quantization import Cells
from carving.schemes.base import Scheme
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import lasting

NOT_KEPT = (
    "The memory keeps no paths. Pass the paths, or use a memory that keeps them: Memory(..., keep_paths=True), or "
    "grow(paths=..., keep_paths=True) of this one."
)


@dataclass(frozen=True, eq=False)
class State:
    """The data of a memory. What follows from it is derived by `carving.memory.reader.Reader`.

    Attributes:
        scheme: The scheme that binds pairs.
        tensor: The memory tensor (*scheme.memory_shape).
        vocabulary: The values to answer with.
        value_counts: How often each value was stored.
        trained: Fillers (n, *filler_shape) of the first n values, if they were trained.
        path_counts: The weight under each path, if the memory keeps paths.
        sample: A sample of the stored pairs with their weights.
        target: What the memory was planned for.
        calibration: The calibration of scores, if the tensor was consolidated and is no longer the sum of its pairs.
        cells: The quantized cells that the tensor's numbers are the means of, if it was quantized.
    """

    scheme: Scheme
    tensor: Tensor
    vocabulary: Vocabulary
    value_counts: ValueCounts
    trained: Tensor | None = None
    path_counts: PathCounts | None = None
    sample: PairSample | Histogram = NOTHING_SAMPLED
    target: Target | None = None
    calibration: Consolidated | None = None
    cells: Cells | None = None

    @classmethod
    def empty(
        cls,
        scheme: Scheme,
        vocabulary: Vocabulary,
        fillers: Tensor | None = None,
        target: Target | None = None,
        path_counts: PathCounts | None = None,
    ) -> "State":
        """Return a state without pairs that knows a vocabulary."""
        with lasting():
            tensor, counts = scheme.zeros(), torch.zeros(len(vocabulary), dtype=torch.float64)
        trained = None if fillers is None else fillers.detach()
        return cls(
            scheme=scheme,
            tensor=tensor,
            vocabulary=vocabulary,
            value_counts=ValueCounts(counts),
            trained=trained,
            path_counts=path_counts,
            target=target,
        )

    def with_tensor(
        self, tensor: Tensor, values: Collection[bytes] | Vocabulary = (), weights: Tensor | None = None, **more: Any
    ) -> "State":
        """Return the state with another tensor, weights (n,) added to the counts of values, and `more` fields."""
        if not values:
            return replace(self, tensor=tensor, **more)
        vocabulary, rows = self.vocabulary.extended(values)
        assert weights is not None
        counts = self.value_counts.plus(len(vocabulary), rows, weights)
        return replace(self, tensor=tensor, vocabulary=vocabulary, value_counts=counts, **more)

    def emptied(self) -> "State":
        """Return a state of this scheme, target and trained fillers without pairs."""
        first = self.vocabulary.first(0 if self.trained is None else len(self.trained))
        return State.empty(self.scheme, first, self.trained, self.target, keeping(self.path_counts is not None))

    def moved(self, scheme: Scheme) -> "State":
        """Return a copy for a scheme that differs in device or precision."""
        tensor = self.tensor.to(scheme.device, scheme.facts.memory_dtype, copy=True)
        cells = None if self.cells is None else self.cells.to(scheme.device)
        return replace(self, scheme=scheme, tensor=tensor, cells=cells)

    @property
    def counts(self) -> Tensor:
        """How often each value was stored, (values,)."""
        return self.value_counts.tensor

    @property
    def stored(self) -> float:
        """The sum of the pairs' weights."""
        return self.value_counts.stored

    @property
    def histogram(self) -> Histogram:
        """How many pairs are held how strongly, as far as they were sampled."""
        return self.sample.histogram(self.stored)

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return round(self.stored)


def keeping(paths: bool) -> PathCounts | None:
    """Return empty path counts if paths are to be kept."""
    return PathCounts() if paths else None


def known_paths(state: State) -> PathCounts:
    """Return the kept paths; refuse a memory that keeps none."""
    if state.path_counts is None:
        raise BadValue(NOT_KEPT)
    return state.path_counts
