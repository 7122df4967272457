"""Multi-label data, sparse from the file to the network.

    train = read("bibtex_train.txt.xz").labelled()
    train.features, train.labels                                  # scipy CSR matrices, (points, F) and (points, L)

Files: the text of the Extreme Classification Repository (in one file, or as features and labels in two), with its
split files; MULAN's and MEKA's ARFF. The name's ending tells ARFF; .xz, .gz and .bz2 are unpacked. Matrices of one's
own are a `Dataset(features, labels, name)`.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse, vstack

from carving.checks import check_integer
from carving.formats import BROKEN, COMPRESSIONS, BadLineError

File = str | Path
Rows = NDArray[np.int64]

CHUNK = 65_536  # lines parsed at a time: labels pass through Python's numbers, which take ten times their room


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points with features and labels, as CSR matrices of float32; what is no such thing is refused or converted."""

    features: csr_matrix  # (points, F)
    labels: csr_matrix  # (points, L), of ones
    name: str = ""

    def __post_init__(self) -> None:
        features, labels = _tidy(self.features, "features"), _tidy(self.labels, "labels")
        if features.shape[0] != labels.shape[0]:
            raise ValueError(
                "features and labels must have a row for each point, "
                f"got {features.shape[0]} and {labels.shape[0]} rows"
            )
        if not features.shape[0]:
            raise ValueError("there must be at least one point, got matrices without rows")
        for name, matrix in (("features", features), ("labels", labels)):
            if not np.isfinite(matrix.data).all():
                row, column = _where(matrix, ~np.isfinite(matrix.data))
                raise ValueError(
                    f"{name} must be finite numbers, got {matrix[row, column]} in row {row}, column {column}"
                )
        if (labels.data != 1).any():
            row, column = _where(labels, labels.data != 1)
            raise ValueError(f"labels must be 0 or 1, got {labels[row, column]} in row {row}, column {column}")
        if not labels.nnz:
            raise ValueError("there must be labels, but no point has one; there is nothing to learn or to measure")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def take(self, rows: Any) -> "Dataset":
        """These points alone, in this order; a mask or row numbers."""
        return replace(self, features=self.features[rows], labels=self.labels[rows])

    def labelled(self) -> "Dataset":
        """The points that have labels."""
        kept = self.labels.getnnz(axis=1) > 0
        return self if kept.all() else self.take(kept)

    def pooled(self, width: int = 7) -> "Dataset":
        """Each `width` features that follow each other replaced by their mean; what is left at the end is dropped."""
        return replace(self, features=pooled(self.features, width))


def pooled(features: csr_matrix, width: int = 7) -> csr_matrix:
    """The average pooling of columns: (n, F) to (n, F // width), as sparse as before."""
    check_integer("width", width, 1, features.shape[1], f"there are {features.shape[1]} features")
    columns = features.shape[1] // width
    whole = features[:, : columns * width]
    means = whole.data / np.float32(width), whole.indices // width, whole.indptr
    shorter = csr_matrix(means, (whole.shape[0], columns))
    shorter.sum_duplicates()
    return shorter


def _tidy(matrix: Any, what: str) -> csr_matrix:
    """CSR of float32 with sorted columns, each once, and without stored zeros; the caller's own stays as it was."""
    if not issparse(matrix):
        matrix = np.asarray(matrix)
        if matrix.ndim != 2:
            raise ValueError(f"{what} must have shape (points, {what}), got {matrix.shape}")
    tidy = csr_matrix(matrix, dtype=np.float32)
    if tidy.indices.dtype != np.int32 and max(tidy.nnz, *tidy.shape) < 2**31:  # half the room
        tidy = csr_matrix((tidy.data, tidy.indices.astype(np.int32), tidy.indptr.astype(np.int32)), tidy.shape)
    if not tidy.has_canonical_format or not tidy.data.all():
        tidy = tidy.copy()
        tidy.sum_duplicates()
        tidy.eliminate_zeros()
    return tidy


def _where(matrix: csr_matrix, wrong: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first stored number that is wrong."""
    at = int(wrong.argmax())
    return int(np.searchsorted(matrix.indptr, at, side="right")) - 1, int(matrix.indices[at])


def read(path: File, *, split: File | None = None, column: int = 0, labels: File | int | None = None) -> Dataset:
    """The points of a file; with `split` those that a column of a split file names.

    `labels` belongs to ARFF, where it is the XML file that names the labels, or their number (the first so many
    attributes, or, negative, the last), and to features alone, where it is the file that holds the labels.
    """
    path = Path(path)
    if _inner(path).suffix.lower() == ".arff":
        from carving.labels.arff import read_arff

        data = read_arff(path, labels)
    elif isinstance(labels, int):
        raise ValueError(
            f"a number of labels, {labels}, is for ARFF files; {path.name} tells its own in its first line"
        )
    else:
        data = _read_text(path) if labels is None else _read_two(path, Path(labels))
    return data if split is None else data.take(read_split(split, len(data), column))


def read_split(path: File, points: int, column: int = 0) -> Rows:
    """The rows, from 0, that a column of a split file names (the file counts from 1)."""
    rows: dict[int, int] = {}
    with lines_of(path) as lines:
        for number, line in lines:
            fields = line.split()
            if not fields:
                continue
            if not 0 <= column < len(fields):
                raise BadLineError(str(path), number, f"column {column} was wanted, from 0, got {len(fields)} columns")
            row = _integer(fields[column])
            if row is None or not 1 <= row <= points:
                wanted = f"a row of the data from 1 to {points} was wanted"
                raise BadLineError(str(path), number, f"{wanted}, got {_text(fields[column])}")
            if row in rows:
                raise BadLineError(str(path), number, f"row {row} stands in line {rows[row]} already")
            rows[row] = number
    if not rows:
        raise ValueError(f"{path} is empty: a row number a line was wanted")
    return np.array(list(rows), np.int64) - 1


Lines = Iterator[tuple[int, bytes]]


@contextmanager
def lines_of(path: File) -> Iterator[Lines]:
    """The lines of a file, unpacked, with their numbers from 1."""
    path = Path(path)
    unpack: Callable[[Any], Any] = COMPRESSIONS.get(path.suffix.lower(), lambda raw: raw)
    with open(path, "rb") as raw, io.BufferedReader(unpack(raw), 1 << 20) as opened:
        yield _numbered(opened, str(path))


def _numbered(opened: io.BufferedReader, name: str) -> Lines:
    number = 0
    try:
        for number, line in enumerate(opened, start=1):
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except BROKEN as error:
        raise BadLineError(name, number + 1, f"the file breaks off or is damaged: {error}") from error


def _inner(path: Path) -> Path:
    """The name without the ending of its compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def _read_text(path: Path) -> Dataset:
    with lines_of(path) as lines:
        points, wide, known = header(path, lines, "points features labels")
        features, labels = _parsed(path, lines, points, wide, known)
    if not labels.nnz:
        raise ValueError(f"{path} has no labels: none of its {points} points has one")
    return Dataset(features, labels, name_of(path))


def _read_two(path: Path, labels: Path) -> Dataset:
    """Features and labels in two files, as the repository has them lately (trn_X_Xf.txt, trn_X_Y.txt)."""
    halves = []
    for file, columns in ((path, "features"), (labels, "labels")):
        with lines_of(file) as lines:
            points, wide = header(file, lines, f"points {columns}")
            halves.append(_parsed(file, lines, points, wide, 0)[0])
    if halves[0].shape[0] != halves[1].shape[0]:
        raise BadLineError(
            str(labels), 1, f"as many points as in {path} were wanted, {halves[0].shape[0]}, got {halves[1].shape[0]}"
        )
    halves[1].data[:] = halves[1].data != 0  # they may carry a relevance
    if not halves[1].count_nonzero():
        raise ValueError(f"{labels} has no labels: none of its {halves[1].shape[0]} points has one")
    return Dataset(halves[0], halves[1], name_of(path))


def name_of(path: Path) -> str:
    """A file's name without its endings."""
    return path.name.split(".")[0]


def header(path: Path, lines: Lines, wanted: str) -> list[int]:
    """The numbers of the first line, each at least 1."""
    _, line = next(lines, (1, b""))
    if not line.strip():
        problem = "the file is empty" if not line else "the first line is empty"
        raise BadLineError(str(path), 1, f"{problem}; the header `{wanted}` was wanted")
    numbers = [_integer(field) for field in line.split()]
    if len(numbers) != len(wanted.split()) or None in numbers:
        raise BadLineError(str(path), 1, f"the header `{wanted}` was wanted, got {_text(line.strip())}; write it there")
    for name, value in zip(wanted.split(), numbers, strict=True):
        if value is None or value < 1:
            raise BadLineError(str(path), 1, f"the header promises {value} {name}; there must be at least one")
    return [value for value in numbers if value is not None]


def _parsed(path: Path, lines: Lines, points: int, wide: int, known: int) -> tuple[csr_matrix, csr_matrix]:
    """Features and labels of exactly so many lines; an empty one is a point too, so that row i stands in line i + 2."""
    name, found, last = str(path), [], 1
    rows = (line for _, line in islice(lines, points))
    while chunk := list(islice(rows, CHUNK)):
        found.append(parse(name, chunk, last + 1, wide, known))
        last += len(chunk)
    if last - 1 < points:
        raise BadLineError(name, last, f"the file ends here, after {last - 1} points; the header promises {points}")
    for number, line in lines:
        if line.strip():
            raise BadLineError(name, number, f"the header promises {points} points, but here is one more")
    halves = [vstack(half, format="csr") if len(half) > 1 else half[0] for half in zip(*found, strict=True)]
    return halves[0], halves[1]


class _Opened:
    """Lines in the shape of an opened file, which scikit-learn wants."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.lines)

    def read(self) -> bytes:
        return b"".join(self.lines)


def parse(name: str, lines: list[bytes], first: int, wide: int, known: int) -> tuple[csr_matrix, csr_matrix]:
    """Features (n, wide) and labels (n, known) of lines `label,label feature:value ...`, numbered from `first` on."""
    from sklearn.datasets import load_svmlight_file  # here, since it takes a second to load

    def parsed(lines: list[bytes]) -> tuple[csr_matrix, list[tuple[float, ...]]]:
        # The reader skips lines without anything, and a point would be lost.
        full = [line if line.strip() else b"0:0" for line in lines]
        with np.errstate(over="ignore"):  # infinities are told below
            return load_svmlight_file(
                _Opened(full), n_features=wide, dtype=np.float32, multilabel=True, zero_based=True
            )

    try:
        if any(b"#" in line or b"q" in line for line in lines):
            raise ValueError("the reader would take it for a comment or a query")
        features, labels = parsed(lines)
    except (ValueError, OverflowError):
        # It does not tell the line. Where all that is wrong is the order of features, nothing is.
        features, labels = parsed([_ordered(name, first + i, line, wide) for i, line in enumerate(lines)])
    wrong = ~np.isfinite(features.data)
    if wrong.any():
        row, column = _where(features, wrong)
        problem = f"a finite number was wanted for feature {column}, got {features[row, column]}"
        raise BadLineError(name, first + row, problem)
    return features, _label_matrix(name, labels, first, known)


def _label_matrix(name: str, labels: list[tuple[float, ...]], first: int, known: int) -> csr_matrix:
    counts = np.fromiter(map(len, labels), np.int64, len(labels))
    ids = np.fromiter((one for some in labels for one in some), np.float64, int(counts.sum()))
    wrong = ~((ids >= 0) & (ids < known) & (ids == np.floor(ids)))
    if wrong.any():
        row = int(np.searchsorted(np.cumsum(counts), wrong.argmax(), side="right"))
        span = (
            f"label ids must be integers from 0 to {known - 1}, as the header says"
            if known
            else "no labels were wanted"
        )
        raise BadLineError(name, first + row, f"{span}, got {ids[wrong][0]:g}")
    ends = np.concatenate(([0], np.cumsum(counts)))
    matrix = csr_matrix((np.ones(len(ids), np.float32), ids.astype(np.int64), ends), (len(labels), max(known, 1)))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a label that is named twice is there once
    return matrix


def _ordered(name: str, number: int, line: bytes, wide: int) -> bytes:
    """The line with its features in order, or the error that tells what is wrong with it."""
    fields = line.split()
    labels = fields.pop(0) if fields and b":" not in fields[0] else b""
    for label in labels.split(b",") if labels else []:
        if not _is_number(label):
            problem = f"labels joined by commas were wanted, `3,17`, got {_text(labels)}"
            raise BadLineError(name, number, problem)
    pairs: dict[int, bytes] = {}
    for field in fields:
        key, colon, value = field.partition(b":")
        feature = _integer(key)
        if not colon or feature is None or not _is_number(value):
            raise BadLineError(name, number, f"`feature:value` was wanted, got {_text(field)}")
        if not 0 <= feature < wide:
            span = f"feature ids must lie between 0 and {wide - 1}, as the header says"
            raise BadLineError(name, number, f"{span}, got {feature}")
        if feature in pairs:
            raise BadLineError(name, number, f"feature {feature} stands there twice")
        pairs[feature] = value
    return b" ".join([labels, *(b"%d:%b" % (feature, pairs[feature]) for feature in sorted(pairs))])


def _integer(field: bytes) -> int | None:
    try:
        return int(field)
    except ValueError:
        return None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _text(field: bytes) -> str:
    """What stood there, for people."""
    text = field[:60].decode(errors="backslashreplace")
    return repr(text + "..." if len(field) > 60 else text)
