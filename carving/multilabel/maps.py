"""Linear maps from what is seen of a point to the scores of all labels, in few bits: dense ones in eight, sparse ones
in sixteen a weight.

Weights are rounded when a map is made, so that a file holds what was fitted, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding_bag

from carving.errors import BadValue
from carving.multilabel.rows import rows_of
from carving.optional import load
from carving.storage.tensorfile import Tensors
from carving.tiling import slices

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

LEVELS = 127  # of a weight in eight bits, on each side of zero
MOST = 6e4  # that a weight in sixteen bits is
AT_ONCE = 2**20  # weights that are rounded together

Numbers = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Map:
    """Weights (outputs of a view, L) and a bias (L,)."""

    weights: csr_matrix | Numbers
    bias: Numbers
    steps: Numbers | None = None  # (L,), of dense weights: what one level is

    @classmethod
    def dense(cls, weights: NDArray[np.floating], bias: NDArray[np.floating]) -> Self:
        """The map, its weights rounded to eight bits on a scale of each label's own."""
        steps = (np.abs(weights).max(axis=0, initial=0) / LEVELS).astype(np.float32)
        levels = np.round(weights / np.where(steps > 0, steps, 1)).clip(-LEVELS, LEVELS)
        # In one order of memory, as a file gives it back: sums are rounded by it.
        weights = np.ascontiguousarray(levels.astype(np.float32) * steps)
        return cls(weights, bias.astype(np.float32), steps)

    @classmethod
    def sparse(cls, weights: csr_matrix, bias: NDArray[np.floating], factors: Numbers | None = None) -> Self:
        """The map, its weights times a factor of each label (L,), rounded to sixteen bits.

        Where weights stand is shared with what was given, unless some of them vanish.
        """
        weights = weights.tocsr()
        values = _rounded(weights, factors)
        made = load("scipy.sparse").csr_matrix((values, weights.indices, weights.indptr), weights.shape)
        if not (made.has_sorted_indices and values.all()):
            made = made.copy()
            made.eliminate_zeros()
            made.sort_indices()
        return cls(made, bias.astype(np.float32))

    def times(self, factor: float) -> Self:
        """The map whose scores are so many times as large."""
        bias = self.bias * np.float32(factor)
        if isinstance(self.weights, np.ndarray):
            return self.dense(self.weights * np.float32(factor), bias)
        return self.sparse(self.weights, bias, np.full(len(bias), factor, np.float32))

    @property
    def count(self) -> int:
        """How many weights there are."""
        return int(self.weights.size if isinstance(self.weights, np.ndarray) else self.weights.nnz) + len(self.bias)

    def __call__(self, seen: csr_matrix | Numbers) -> Numbers:
        """The scores (n, L) of points as a view shows them."""
        scores = product(seen, self.weights)
        scores += self.bias
        return scores

    # Files

    def tensors(self) -> Tensors:
        """What a file keeps of it."""
        if isinstance(self.weights, np.ndarray):
            assert self.steps is not None
            levels = np.round(self.weights / np.where(self.steps > 0, self.steps, 1))
            arrays = dict(levels=levels.astype(np.int8), steps=self.steps, bias=self.bias)
        else:
            arrays = dict(
                starts=self.weights.indptr.astype(np.int64),
                columns=self.weights.indices.astype(np.int32, copy=False),
                values=self.weights.data.astype(np.float16),
                bias=self.bias,
            )
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @classmethod
    def of(cls, tensors: Tensors, inputs: int, labels: int) -> Self:
        """The map of a file, once it is seen to be one of so many inputs and labels."""
        sizes: list[tuple[str, tuple[int, ...], torch.dtype]] = [("bias", (labels,), torch.float32)]
        if "levels" in tensors:
            sizes += [("levels", (inputs, labels), torch.int8), ("steps", (labels,), torch.float32)]
        else:
            stored = tensors["values"].numel()
            sizes += [("starts", (inputs + 1,), torch.int64), ("columns", (stored,), torch.int32)]
            sizes += [("values", (stored,), torch.float16)]
        for name, shape, dtype in sizes:
            if tuple(tensors[name].shape) != shape or tensors[name].dtype != dtype:
                raise BadValue(
                    f"expected {name} of shape {shape} and {dtype}, got {tuple(tensors[name].shape)} and "
                    f"{tensors[name].dtype}"
                )
        if len(sizes) != len(tensors):
            raise BadValue(f"unexpected tensors {sorted(set(tensors) - {name for name, *_ in sizes})} in a linear map")
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        if "levels" in arrays:
            return cls(arrays["levels"].astype(np.float32) * arrays["steps"], arrays["bias"], arrays["steps"])
        _check_places(arrays["starts"], arrays["columns"], labels)
        parts = arrays["values"].astype(np.float32), arrays["columns"], arrays["starts"]
        return cls(load("scipy.sparse").csr_matrix(parts, (inputs, labels)), arrays["bias"])


def _rounded(weights: csr_matrix, factors: Numbers | None) -> Numbers:
    """The stored weights times the factors of their columns, as sixteen bits hold them."""
    made = np.empty(weights.nnz, np.float32)
    for part in slices(weights.nnz, AT_ONCE):
        values = weights.data[part] if factors is None else weights.data[part] * factors[weights.indices[part]]
        made[part] = values.clip(-MOST, MOST).astype(np.float16)
    return made


def product(seen: csr_matrix | Numbers, weights: csr_matrix | Numbers) -> Numbers:
    """Points as they are seen (n, inputs) times weights (inputs, L), each sparse or dense, as a dense array (n, L).

    What has dense weights is summed by torch: of sparse points in half of scipy's time, and without numpy's false
    alarms of invalid values.
    """
    if not isinstance(weights, np.ndarray):
        made = seen @ weights
        return np.asarray(made if isinstance(made, np.ndarray) else made.toarray(), dtype=np.float32)
    dense = torch.from_numpy(weights)
    if isinstance(seen, np.ndarray):
        return np.asarray((torch.from_numpy(seen) @ dense).numpy())
    rows = rows_of(seen)
    sums = embedding_bag(
        rows.columns, dense, rows.starts, mode="sum", per_sample_weights=rows.values, include_last_offset=True
    )
    return np.asarray(sums.numpy())


def _check_places(starts: NDArray[np.int64], columns: NDArray[np.int32], labels: int) -> None:
    """Refuse what would lead a product out of its arrays."""
    if starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        raise BadValue("the row pointers of a sparse matrix do not increase from 0 to its number of entries")
    if len(columns) and not 0 <= columns.min() <= columns.max() < labels:
        raise BadValue(
            f"column indices of a sparse matrix must be between 0 and {labels - 1}, got {columns.min()} to "
            f"{columns.max()}"
        )
