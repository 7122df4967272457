"""What y may be: zeros and ones as an array or CSR, or a set of labels for each point; answers have the same form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from carving.errors import BadType, BadValue
from carving.multilabel.rows import Matrix, is_sparse, tidy
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Label: TypeAlias = "int | str"
Labels: TypeAlias = "Matrix | Sequence[Iterable[Label]]"  # what y may be
Answer: TypeAlias = "NDArray[Any] | csr_matrix | list[tuple[Label, ...]]"
Names = NDArray[Any]

ARRAY, SPARSE, SETS = "array", "sparse", "sets"


@dataclass(frozen=True, eq=False)
class LabelFormat:
    """Form and names of labels, so that predictions have the form of `y`.

    >>> found = LabelFormat.of([["sun", "sea"], ["sea"]])[1]
    >>> found.toarray().tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """

    kind: str  # array, sparse or sets
    names: Names  # (L,), of the columns
    dtype: np.dtype[Any]  # of an answer's numbers

    @classmethod
    def of(cls, y: Labels) -> tuple[LabelFormat, csr_matrix]:
        """The form of y, and y as zeros and ones (n, L)."""
        if y is None:
            raise BadValue("MultiLabelClassifier requires y to be passed, but the target y is None")
        y = _rows(y)
        if not is_sets(y):
            labels = tidy(y, "labels")
            dtype = np.asarray(y).dtype if not is_sparse(y) else np.dtype(np.float32)
            return cls(SPARSE if is_sparse(y) else ARRAY, np.arange(labels.shape[1]), dtype), labels
        sets = [list(_checked(one)) for one in y]
        names = _sorted({label for one in sets for label in one})
        form = cls(SETS, names, np.dtype(np.float32))
        return form, form._gathered(sets)

    def matrix(self, y: Labels, unknown_labels: bool = False) -> csr_matrix:
        """Return labels as zeros and ones (n, L); unknown ones are refused, or skipped (`unknown_labels`)."""
        y = _rows(y)
        if not is_sets(y):
            return tidy(y, "labels")
        return self._gathered([list(_checked(one)) for one in y], unknown_labels)

    def _gathered(self, sets: list[list[Label]], unknown_labels: bool = False) -> csr_matrix:
        numbers = {name: number for number, name in enumerate(self.names.tolist())}
        rows = []
        for one in sets:
            unknown = [label for label in one if label not in numbers]
            if unknown and not unknown_labels:
                raise BadValue(
                    f"y contains the unknown label {unknown[0]!r}. The model's {len(numbers)} labels are in classes_."
                )
            rows.append(sorted({numbers[label] for label in one if label in numbers}))
        columns = np.array([column for row in rows for column in row], dtype=np.int32)
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        ones = np.ones(len(columns), np.float32)
        return load("scipy.sparse").csr_matrix((ones, columns, starts), (len(rows), len(self.names)))

    def answer(self, found: csr_matrix) -> Answer:
        """Zeros and ones (n, L) in the form that y had."""
        if self.kind == SPARSE:
            return found.astype(self.dtype)
        if self.kind == ARRAY:
            return found.toarray().astype(self.dtype)
        names = self.names.tolist()
        return [tuple(names[c] for c in found.indices[a:b]) for a, b in _spans(found)]


def _rows(y: Any) -> Any:
    """y with plain lists in the place of a column of pandas, and of arrays that are rows of a list."""
    if hasattr(y, "tolist") and hasattr(y, "iloc"):
        y = y.tolist()
    if isinstance(y, list) and any(isinstance(row, np.ndarray) and row.ndim == 1 for row in y):
        return [row.tolist() if isinstance(row, np.ndarray) else row for row in y]
    return y


def is_sets(y: object) -> TypeGuard[Sequence[Iterable[Label]]]:
    """Whether y is a set of labels for each point: rows of many lengths, of names, or of numbers beyond 1.

    Rows of equal length that hold zeros and ones alone are an array; a Python `set` or `frozenset` is never one.
    """
    if isinstance(y, np.ndarray):
        return y.dtype == object and y.ndim == 1 and len(y) > 0 and _is_set(y[0])
    if hasattr(y, "__array__") or not isinstance(y, Sequence) or isinstance(y, str):
        return False
    rows = list(y)
    return bool(rows) and all(map(_is_set, rows)) and not _is_array(rows)


def _is_array(rows: list[Any]) -> bool:
    """Whether rows of labels are those of an array: of equal length, of zeros and ones alone."""
    if any(isinstance(row, set | frozenset) for row in rows) or len({len(row) for row in rows}) > 1:
        return False
    return not any(map(_is_label, chain.from_iterable(rows)))


def _is_label(value: object) -> bool:
    """Whether a value must be a label, since it is no zero or one."""
    return isinstance(value, str) or (isinstance(value, Integral) and value not in (0, 1))


def _is_set(row: object) -> bool:
    return isinstance(row, list | tuple | set | frozenset)


def _checked(labels: Iterable[Any]) -> Iterable[Label]:
    if not _is_set(labels):
        raise BadType(f"Each point needs a list of labels, got {labels!r}. For a single label write [{labels!r}].")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | Integral):
            raise BadType(f"Labels must be strings or integers, got {label!r}.")
    return labels


def _sorted(labels: set[Label]) -> Names:
    """Names in their order; numbers and names are not mixed."""
    if len({isinstance(label, str) for label in labels}) > 1:
        raise BadType("Labels must be all strings or all integers, got some of each. Convert the integers to strings.")
    return np.array(sorted(labels), dtype=object if any(isinstance(label, str) for label in labels) else np.int64)


def _spans(matrix: csr_matrix) -> Iterable[tuple[int, int]]:
    return zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
