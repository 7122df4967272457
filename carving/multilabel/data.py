"""Multi-label data sets: sparse matrices, and readers of their files.

    train = read("bibtex_train.txt.xz").labeled()
    train.features, train.labels                                  # scipy CSR matrices, (points, F) and (points, L)

Formats: the text of the Extreme Classification Repository (one file, or features and labels in two) with its split
files, the ARFF of MULAN and MEKA, and texts with their labels (JSON lines). The file's suffix (.arff, .jsonl) selects
the format; .xz, .gz and .bz2 are decompressed. For matrices of your own use `Dataset(features, labels, name)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from carving.errors import BadValue
from carving.multilabel.arff import read_arff
from carving.multilabel.rows import tidy
from carving.multilabel.targets import LabelFormat
from carving.multilabel.text import File, lines_of, name_of, read_split, read_text, read_two, unpacked, where
from carving.multilabel.words import TextVectorizer, holds_texts, read_texts
from carving.optional import load
from carving.validate import check_integer

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with features and labels, as CSR matrices of float32.

    Args:
        features: Features (points, F), dense or sparse.
        labels: Zeros and ones (points, L), dense or sparse.
        name: Name of the data set.
        label_format: Names of the labels, if they have names.
        words: The vocabulary, if the points were texts.
        unknown_labels: Number of labels that were dropped because a model does not know them.

    Raises:
        BadValue: If the numbers of rows differ, a feature is not finite, a label is not 0 or 1, or there are no labels.

    >>> data = Dataset([[0.5, 0, 1], [0, 2, 0], [1, 0, 0]], [[1, 0], [1, 1], [0, 0]], "tiny")
    >>> len(data), data.features.nnz, len(data.labeled())
    (3, 4, 2)
    """

    features: csr_matrix  # (points, F)
    labels: csr_matrix  # (points, L), of ones
    name: str = ""
    label_format: LabelFormat | None = None  # what labels are called, where they have names
    words: TextVectorizer | None = None  # what the features are, where the points were texts
    unknown_labels: int = 0  # labels that were left out, since a model does not know them

    def __post_init__(self) -> None:
        features, labels = tidy(self.features, "features"), tidy(self.labels, "labels")
        if features.shape[0] != labels.shape[0]:
            raise BadValue(
                "features and labels must have the same number of rows, one per point, "
                f"got {features.shape[0]} and {labels.shape[0]} rows."
            )
        if not features.shape[0]:
            raise BadValue("features and labels must have at least one row, got none.")
        check_finite(features, "features")
        check_finite(labels, "labels")
        if (labels.data != 1).any():
            row, column = where(labels, labels.data != 1)
            raise BadValue(
                "labels must be 0 or 1, not class numbers or continuous values, "
                f"got {labels[row, column]} in row {row}, column {column}."
            )
        if not labels.nnz:
            raise BadValue("labels must contain at least one 1, got none: no point has a label.")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def take(self, rows: ArrayLike) -> Dataset:
        """Return the data set of some rows: `rows` are indices, in any order, or a boolean mask (points,)."""
        return replace(self, features=self.features[rows], labels=self.labels[rows])

    def labeled(self) -> Dataset:
        """Return the data set of the points that have at least one label."""
        kept = self.labels.getnnz(axis=1) > 0
        return self if kept.all() else self.take(kept)

    def with_null_label(self) -> Dataset:
        """Return the data set with a null label as last column, 1 for points without other labels."""
        none = load("scipy.sparse").csr_matrix((self.labels.getnnz(axis=1) == 0)[:, None])
        return replace(self, labels=load("scipy.sparse").hstack([self.labels, none], "csr"))

    def pooled(self, width: int = 7) -> Dataset:
        """Return the data set with each `width` adjacent features replaced by their mean; a remainder is dropped."""
        return replace(self, features=pooled(self.features, width))


def check_finite(matrix: csr_matrix, what: str) -> None:
    """Refuse a matrix that stores not-a-number or infinity."""
    wrong = ~np.isfinite(matrix.data)
    if wrong.any():
        row, column = where(matrix, wrong)
        found = "NaN" if np.isnan(matrix[row, column]) else "infinity"
        raise BadValue(f"{what} must be finite, got {found} in row {row}, column {column}.")


def check_pair(train: Dataset, test: Dataset, name: str) -> None:
    """Raise BadValue if the test set, called `name`, has another number of features or labels than the training set."""
    for what in ("features", "labels"):
        ours, theirs = getattr(train, what).shape[1], getattr(test, what).shape[1]
        if ours != theirs:
            raise BadValue(
                f"{name} has {theirs} {what}, but the training set has {ours}. Check that the two belong together."
            )


def pooled(features: csr_matrix, width: int = 7) -> csr_matrix:
    """Return the average pooling of columns: (n, F) to (n, F // width), sparse."""
    check_integer("width", width, 1, features.shape[1], f"There are {features.shape[1]} features.")
    columns = features.shape[1] // width
    whole = features[:, : columns * width]
    means = whole.data / np.float32(width), whole.indices // width, whole.indptr
    shorter = load("scipy.sparse").csr_matrix(means, (whole.shape[0], columns))
    shorter.sum_duplicates()
    return shorter


def read(path: File, *, split: File | None = None, column: int = 0, labels: File | int | None = None) -> Dataset:
    r"""Read a data set from a file.

    Args:
        path: The file; .arff is read as ARFF, all else as text of the Extreme Classification Repository.
        split: A split file: only the rows that it names are returned, in its order.
        column: Column of the split file, counted from 0.
        labels: For ARFF: the XML file that names the labels, or their number n (n > 0: the first n attributes,
            n < 0: the last |n|); None takes MEKA's number from the file, or an XML file of the same name. For a text
            file of
            features alone: the file of the labels.

    Returns:
        The data set, named after the file.

    Raises:
        BadLineError: If a line is malformed; it has the line's number.
        BadValue: If the file has no labels, or `labels` does not fit it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = ["2 4 3", "0,2 1:0.5 3:2", "1 0:1"]  # points, features, labels; then `labels features` for each
    ...     _ = Path(folder, "tiny.txt").write_text("\n".join(lines))
    ...     data = read(f"{folder}/tiny.txt")
    >>> data.name, data.labels.toarray().tolist()
    ('tiny', [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    """
    path = Path(path)
    if unpacked(path).suffix.lower() == ".arff":
        features, targets = read_arff(path, labels)
    elif isinstance(labels, int):
        raise BadValue(
            f"labels={labels} is for ARFF files only; the header of {path.name} has its number of labels. Omit it."
        )
    else:
        features, targets = read_text(path) if labels is None else read_two(path, Path(labels))
    data = Dataset(features=features, labels=targets, name=name_of(path))
    return data if split is None else data.take(read_split(split, len(data), column))


@dataclass(frozen=True)
class Source:
    """File of points, with the arguments of `read` and the width of pooling."""

    path: Path
    split: Path | None = None
    column: int = 0
    labels: File | int | None = None
    pool: int = 1

    def read(self, words: TextVectorizer | None = None, label_format: LabelFormat | None = None) -> Dataset:
        """Return the data set; texts are vectorized by `words` and have the labels of `label_format`, or their own."""
        self._check(words)
        if holds_texts(self.path):
            if label_format is not None and words is None:
                raise BadValue(self._of_numbers())
            return self._texts(words, label_format)
        data = read(self.path, split=self.split, column=self.column, labels=self.labels)
        return data.pooled(self.pool) if self.pool > 1 else data

    def features(self, words: TextVectorizer | None = None) -> csr_matrix:
        """Return the features alone, (n, F); labels are not needed. Texts come from a .jsonl file, or one per line."""
        if words is not None:
            self._check(None)
            with lines_of(self.path) as lines:
                plain = [] if holds_texts(self.path) else [line.decode(errors="replace").strip() for _, line in lines]
            return words(plain or read_texts(self.path).texts)
        self._check(words)
        if holds_texts(self.path):
            raise BadValue(self._of_numbers())
        if unpacked(self.path).suffix.lower() == ".arff" or self.labels is not None:
            return self.read().features
        found = read_text(self.path, unlabeled=True)[0]
        found = found if self.split is None else found[read_split(self.split, found.shape[0], self.column)]
        return pooled(found, self.pool) if self.pool > 1 else found

    def _of_numbers(self) -> str:
        return (
            f"{self.path.name} contains texts, but the model was trained on features. "
            "Convert the texts as you did for training."
        )

    def _check(self, words: TextVectorizer | None) -> None:
        if not self.path.exists():
            raise FileNotFoundError(f"there is no file {self.path}")
        if words is not None and not holds_texts(self.path):
            raise BadValue(f"{self.path.name} must be a .jsonl file of texts, because the model was trained on texts.")

    def _texts(self, words: TextVectorizer | None, label_format: LabelFormat | None) -> Dataset:
        if self.split is not None or self.labels is not None or self.pool > 1:
            raise BadValue("split, labels and pool do not apply to texts, which name their own labels. Omit them.")
        texts, labels = read_texts(self.path)
        if not any(labels):
            raise BadValue(f"{self.path} has no labels: none of its {len(texts)} texts has one.")
        words = TextVectorizer.fitted(texts) if words is None else words
        label_format, matrix = (
            LabelFormat.of(labels)
            if label_format is None
            else (label_format, label_format.matrix(labels, unknown_labels=True))
        )
        left_out = sum(len(set(own)) for own in labels) - matrix.nnz
        if not matrix.nnz:
            raise BadValue(f"{self.path} has no label that the model knows; it has {left_out} others.")
        return Dataset(
            features=words(texts),
            labels=matrix,
            name=name_of(self.path),
            label_format=label_format,
            words=words,
            unknown_labels=left_out,
        )
