"""Rows of a sparse matrix as torch tensors: a batch of features, or a batch of label sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from carving.caching import cached_property
from carving.errors import BadType, BadValue
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Matrix: TypeAlias = "ArrayLike | csr_matrix"  # what becomes a CSR matrix
LabelSets: TypeAlias = "Rows | csr_matrix | Tensor | NDArray[np.generic] | Sequence[Iterable[int | str]]"

NAMELESS: Mapping[str, int] = {}
SMALL = 2**13  # stored numbers of rows up to which they are gathered here


@dataclass(frozen=True, eq=False)
class Rows:
    """The stored columns of n rows, one row after the other; row i has columns[starts[i] : starts[i + 1]]."""

    columns: Tensor  # (stored,), int64
    starts: Tensor  # (n + 1,), int64
    values: Tensor  # (stored,), float32
    width: int  # of the matrix

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Tensor:
        """How many columns each row has."""
        return self.starts.diff()

    @cached_property
    def owners(self) -> Tensor:
        """The row that each stored column belongs to."""
        return torch.repeat_interleave(torch.arange(len(self), device=self.starts.device), self.counts)

    def to(self, device: torch.device) -> Rows:
        """The rows on a device."""
        if self.starts.device == device:
            return self
        return Rows(self.columns.to(device), self.starts.to(device), self.values.to(device), self.width)

    def dense(self) -> Tensor:
        """The rows with their zeros, (n, width)."""
        full = self.values.new_zeros(len(self), self.width)
        return full.index_put_((self.owners, self.columns), self.values, accumulate=True)


def rows_of(matrix: csr_matrix, indices: slice | ArrayLike = slice(None)) -> Rows:
    """Rows of a CSR matrix by their indices, in that order; nothing but these rows is copied."""
    if isinstance(indices, slice):
        first, last, _ = indices.indices(matrix.shape[0])
        starts = matrix.indptr[first : last + 1].astype(np.int64)
        stored = slice(starts[0], starts[-1])
        columns, values, starts = matrix.indices[stored], matrix.data[stored], starts - starts[0]
    else:
        columns, values, starts = _picked(matrix, np.asarray(indices))
    return Rows(
        torch.from_numpy(columns.astype(np.int64)),
        torch.from_numpy(starts),
        torch.from_numpy(values.astype(np.float32)),
        int(matrix.shape[1]),
    )


def _picked(matrix: csr_matrix, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Columns, values and starts of some rows; of a small batch scipy's own checks would take longer than this."""
    first = matrix.indptr[rows]
    counts = matrix.indptr[rows + 1] - first
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    if starts[-1] > SMALL:
        part = matrix[rows]
        return part.indices, part.data, starts
    places = np.arange(starts[-1]) + np.repeat(first - starts[:-1], counts)
    return matrix.indices.take(places), matrix.data.take(places), starts


def is_sparse(matrix: object) -> bool:
    """Whether it is a sparse matrix of scipy, of any format; scipy itself is not needed to see that."""
    return hasattr(matrix, "tocsr")


def tidy(matrix: Matrix, what: str) -> csr_matrix:
    """CSR of float32 with sorted columns, each once, and without stored zeros; the caller's own stays as it was."""
    csr_matrix = load("scipy.sparse").csr_matrix
    tidy = csr_matrix(matrix if is_sparse(matrix) else _array(matrix, what), dtype=np.float32)
    if tidy.indices.dtype != np.int32 and max(tidy.nnz, *tidy.shape) < 2**31:  # half the room
        tidy = csr_matrix((tidy.data, tidy.indices.astype(np.int32), tidy.indptr.astype(np.int32)), tidy.shape)
    if not tidy.has_canonical_format or not tidy.data.all():
        tidy = tidy.copy()
        tidy.sum_duplicates()
        tidy.eliminate_zeros()
    return tidy


def _array(matrix: ArrayLike, what: str) -> NDArray[np.generic]:
    try:
        array = np.asarray(matrix)
    except ValueError:
        way_out = " Use scikit-learn's MultiLabelBinarizer to convert label sets." if what == "labels" else ""
        raise BadValue(
            f"{what} must be a matrix of shape (points, {what}), got rows of unequal lengths.{way_out}"
        ) from None
    if array.ndim != 2:
        way_out = " One class per point, or continuous targets, are not supported." if what == "labels" else ""
        raise BadValue(f"{what} must have shape (points, {what}), got {array.shape}.{way_out}")
    return array


def label_sets(given: LabelSets, labels: int, names: Mapping[str, int] = NAMELESS) -> Rows:
    """Label sets, however they come: rows, a CSR matrix, an array of zeros and ones, or a list of lists of labels.

    In lists a label is its number, from 0 in the order of the head's labels, or its name, if that is a string.
    """
    sets = _as_rows(given, labels, names)
    if sets.width != labels:
        raise BadValue(f"labels must have {labels} columns, one per label of the head, got {sets.width}.")
    outside = (sets.columns < 0) | (sets.columns >= labels)
    if bool(outside.any()):
        raise BadValue(f"Label indices must be between 0 and {labels - 1}, got {int(sets.columns[outside][0])}.")
    return sets


def _as_rows(given: LabelSets, labels: int, names: Mapping[str, int]) -> Rows:
    if isinstance(given, Rows):
        return given
    if is_sparse(given):
        return _from_matrix(given)
    if isinstance(given, Tensor | np.ndarray):
        return _from_array(torch.as_tensor(given))
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _from_lists(given, labels, names)
    raise BadType(
        "labels must be a CSR matrix, an array of zeros and ones, or a list of lists of labels, "
        f"got {type(given).__name__}."
    )


def _from_matrix(given: csr_matrix) -> Rows:
    matrix = tidy(given, "labels")
    if (matrix.data != 1).any():
        raise BadValue(f"labels must contain only zeros and ones, got {matrix.data[matrix.data != 1][0]:g}.")
    return rows_of(matrix)


def _from_array(given: Tensor) -> Rows:
    if given.dim() != 2:
        raise BadValue(f"labels must have shape (points, labels), got {tuple(given.shape)}.")
    wrong = (given != 0) & (given != 1)
    if bool(wrong.any()):
        raise BadValue(f"labels must contain only zeros and ones, got {given[wrong][0]:g}.")
    owners, columns = given.nonzero(as_tuple=True)
    return _gathered(columns, torch.bincount(owners, minlength=len(given)), given.shape[1])


def _from_lists(given: Sequence[Iterable[object]], labels: int, names: Mapping[str, int]) -> Rows:
    for labels_of_point in given:
        if isinstance(labels_of_point, str | bytes | Integral):
            raise BadType(
                f"Each point needs a list of labels, got {labels_of_point!r}. For a single label write "
                f"[{labels_of_point!r}]."
            )
    numbers = [sorted({_number(label, names) for label in labels_of_point}) for labels_of_point in given]
    columns = torch.tensor([number for row in numbers for number in row], dtype=torch.int64)
    return _gathered(columns, torch.tensor([len(row) for row in numbers], dtype=torch.int64), labels)


def _number(label: object, names: Mapping[str, int]) -> int:
    if isinstance(label, Tensor) and label.dim() == 0:
        label = label.item()
    if isinstance(label, str) and names:
        if label not in names:
            first = ", ".join(islice(names, 3))
            raise BadValue(
                f"Unknown label {label!r}. The head has {len(names)} named labels: "
                f"{first}{', ...' if len(names) > 3 else ''}."
            )
        return names[label]
    if isinstance(label, bool) or not isinstance(label, Integral):
        raise BadType(f"Labels must be given as indices from 0, in the order of the head's labels, got {label!r}.")
    return int(label)


def _gathered(columns: Tensor, counts: Tensor, width: int) -> Rows:
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Rows(columns, starts, torch.ones(len(columns), device=columns.device), width)
