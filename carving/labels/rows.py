"""Rows of a sparse matrix as torch tensors: a batch of features, or a batch of label sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from torch import Tensor

from carving.errors import BadType, BadValue

NAMELESS: Mapping[str, int] = {}


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

    @property
    def owners(self) -> Tensor:
        """The row that each stored column belongs to."""
        return torch.repeat_interleave(torch.arange(len(self), device=self.starts.device), self.counts)

    def to(self, device: torch.device) -> "Rows":
        """The rows on a device."""
        if self.starts.device == device:
            return self
        return Rows(self.columns.to(device), self.starts.to(device), self.values.to(device), self.width)

    def dense(self) -> Tensor:
        """The rows with their zeros, (n, width)."""
        full = self.values.new_zeros(len(self), self.width)
        return full.index_put_((self.owners, self.columns), self.values, accumulate=True)


def rows_of(matrix: csr_matrix, which: Any = slice(None)) -> Rows:
    """Some rows of a CSR matrix, in that order; nothing but these rows is copied."""
    if isinstance(which, slice):
        first, last, _ = which.indices(matrix.shape[0])
        starts = matrix.indptr[first : last + 1].astype(np.int64)
        stored = slice(starts[0], starts[-1])
        columns, values, starts = matrix.indices[stored], matrix.data[stored], starts - starts[0]
    else:
        part = matrix[np.asarray(which)]
        columns, values, starts = part.indices, part.data, part.indptr.astype(np.int64)
    return Rows(
        torch.from_numpy(columns.astype(np.int64)),
        torch.from_numpy(starts),
        torch.from_numpy(values.astype(np.float32)),
        int(matrix.shape[1]),
    )


def tidy(matrix: Any, what: str) -> csr_matrix:
    """CSR of float32 with sorted columns, each once, and without stored zeros; the caller's own stays as it was."""
    if not issparse(matrix):
        try:
            matrix = np.asarray(matrix)
        except ValueError:
            way_out = "; scikit-learn's MultiLabelBinarizer makes one of label sets" if what == "labels" else ""
            raise BadValue(f"{what} must be a matrix (points, {what}), got rows of many lengths{way_out}") from None
        if matrix.ndim != 2:
            raise BadValue(f"{what} must have shape (points, {what}), got {matrix.shape}")
    tidy = csr_matrix(matrix, dtype=np.float32)
    if tidy.indices.dtype != np.int32 and max(tidy.nnz, *tidy.shape) < 2**31:  # half the room
        tidy = csr_matrix((tidy.data, tidy.indices.astype(np.int32), tidy.indptr.astype(np.int32)), tidy.shape)
    if not tidy.has_canonical_format or not tidy.data.all():
        tidy = tidy.copy()
        tidy.sum_duplicates()
        tidy.eliminate_zeros()
    return tidy


def label_sets(given: Any, labels: int, names: Mapping[str, int] = NAMELESS) -> Rows:
    """Label sets, however they come: rows, a CSR matrix, an array of zeros and ones, or a list of lists of labels.

    In lists a label is its number, from 0 in the order of the head's labels, or its name, if that is a string.
    """
    if isinstance(given, Rows):
        sets = given
    elif issparse(given):
        matrix = tidy(given, "labels")
        if (matrix.data != 1).any():
            raise BadValue(f"labels must be zeros and ones, got {matrix.data[matrix.data != 1][0]:g}")
        sets = rows_of(matrix)
    elif isinstance(given, Tensor | np.ndarray):
        given = torch.as_tensor(given)
        if given.dim() != 2:
            raise BadValue(f"labels must be zeros and ones of shape (points, labels), got {tuple(given.shape)}")
        if bool(((given != 0) & (given != 1)).any()):
            raise BadValue(f"labels must be zeros and ones, got {given[(given != 0) & (given != 1)][0]:g}")
        owners, columns = given.nonzero(as_tuple=True)
        sets = _gathered(columns, torch.bincount(owners, minlength=len(given)), given.shape[1])
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        for one in given:
            if isinstance(one, str | bytes | Integral):
                raise BadType(f"every point has a set of labels, got {one!r} where one was wanted; write [{one!r}]")
        own = [sorted({_number(one, names) for one in some}) for some in given]
        counts = torch.tensor([len(some) for some in own], dtype=torch.int64)
        sets = _gathered(torch.tensor([one for some in own for one in some], dtype=torch.int64), counts, labels)
    else:
        raise BadType(
            "label sets must be a CSR matrix, an array of zeros and ones or a list of lists of labels, "
            f"got {type(given).__name__}"
        )
    if sets.width != labels:
        raise BadValue(f"the head has {labels} labels, the label sets speak of {sets.width}; make a head for them")
    if len(sets.columns) and not 0 <= int(sets.columns.min()) <= int(sets.columns.max()) < labels:
        wrong = sets.columns[(sets.columns < 0) | (sets.columns >= labels)][0]
        raise BadValue(f"label numbers must lie between 0 and {labels - 1}, got {int(wrong)}")
    return sets


def _number(label: Any, names: Mapping[str, int]) -> int:
    if isinstance(label, Tensor) and label.dim() == 0:
        label = label.item()
    if isinstance(label, str) and names:
        if label not in names:
            first = ", ".join(islice(names, 3))
            raise BadValue(f"the head has no label {label!r}; its {len(names)} names begin with {first}")
        return names[label]
    if isinstance(label, bool) or not isinstance(label, Integral):
        raise BadType(f"labels are numbered from 0 in the order of the head's, got {label!r} in a label set")
    return int(label)


def _gathered(columns: Tensor, counts: Tensor, width: int) -> Rows:
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Rows(columns, starts, torch.ones(len(columns), device=columns.device), width)
