"""The text of the Extreme Classification Repository: a header, then a line a point, parsed by scikit-learn's reader.

That reader does not tell where an error is, skips lines without anything and wants features in order; so every line
that it refuses is looked at again here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from carving.errors import BadValue
from carving.formats import COMPRESSIONS, BadLineError
from carving.formats.sources import LINE, limited_lines
from carving.formats.sources import unpacked as unpacked_bytes
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

File = str | Path
Matrices: TypeAlias = "tuple[csr_matrix, csr_matrix]"  # features (points, F) and labels (points, L)

CHUNK = 8_192  # lines parsed at a time: text and Python's numbers take many times the room of what comes out

Lines = Iterator[tuple[int, bytes]]


@contextmanager
def lines_of(path: File) -> Iterator[Lines]:
    """The lines of a file, unpacked, with their numbers from 1."""
    name = str(path)

    def refuse(number: int | None, problem: str) -> None:
        raise BadLineError(name, number, problem)

    with unpacked_bytes(path) as opened:
        lines = limited_lines(opened, name, refuse)
        yield ((number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line) for number, line in lines)


def chunks(rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Lines and their numbers, so many at a time as are parsed together."""
    numbers: list[int] = []
    lines: list[bytes] = []
    size = 0
    for number, line in rows:
        numbers.append(number)
        lines.append(line)
        size += len(line)
        if len(lines) >= CHUNK or size >= LINE.size:
            yield numbers, lines
            numbers, lines, size = [], [], 0
    if lines:
        yield numbers, lines


def unpacked(path: Path) -> Path:
    """The name without the ending of its compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path


def read_text(path: Path, unlabeled: bool = False) -> Matrices:
    """Read features and labels of a file of the Extreme Classification Repository, by default only if it has labels."""
    with lines_of(path) as lines:
        points, wide, known = header(path, lines, "points features labels")
        features, labels = _parsed(path, lines, points, wide, known)
    if not labels.nnz and not unlabeled:
        raise BadValue(f"{path} has no labels: none of its {points} points has one.")
    return features, labels


def read_two(path: Path, labels: Path) -> Matrices:
    """Read features and labels from two files of the repository (trn_X_Xf.txt, trn_X_Y.txt)."""
    halves = []
    for file, columns in ((path, "features"), (labels, "labels")):
        with lines_of(file) as lines:
            points, wide = header(file, lines, f"points {columns}")
            halves.append(_parsed(file, lines, points, wide, 0)[0])
    if halves[0].shape[0] != halves[1].shape[0]:
        raise BadLineError(
            str(labels), 1, f"expected {halves[0].shape[0]} points, as in {path}, got {halves[1].shape[0]}"
        )
    halves[1].data[:] = halves[1].data != 0  # they may carry a relevance
    if not halves[1].count_nonzero():
        raise BadValue(f"{labels} has no labels: none of its {halves[1].shape[0]} points has one.")
    return halves[0], halves[1]


def read_split(path: File, points: int, column: int = 0) -> NDArray[np.int64]:
    """Return the row indices, from 0, in a column of a split file, which counts from 1."""
    rows: dict[int, int] = {}
    with lines_of(path) as lines:
        for number, line in lines:
            fields = line.split()
            if not fields:
                continue
            if not 0 <= column < len(fields):
                raise BadLineError(
                    str(path),
                    number,
                    f"column {column} (counted from 0) does not exist, the line has {len(fields)} columns",
                )
            row = _integer(fields[column])
            if row is None or not 1 <= row <= points:
                expected = f"expected a row number from 1 to {points}"
                raise BadLineError(str(path), number, f"{expected}, got {_text(fields[column])}")
            if row in rows:
                raise BadLineError(str(path), number, f"row {row} is listed twice (first in line {rows[row]})")
            rows[row] = number
    if not rows:
        raise BadValue(f"{path} is empty: expected one row number per line.")
    return np.array(list(rows), np.int64) - 1


def name_of(path: Path) -> str:
    """A file's name without its endings."""
    return unpacked(path).stem


def header(path: Path, lines: Lines, wanted: str) -> list[int]:
    """The numbers of the first line, each at least 1."""
    _, line = next(lines, (1, b""))
    if not line.strip():
        problem = "the file is empty" if not line else "the first line is empty"
        raise BadLineError(str(path), 1, f"{problem}; expected the header `{wanted}`")
    names, numbers = wanted.split(), [number for field in line.split() if (number := _integer(field)) is not None]
    if not len(names) == len(numbers) == len(line.split()):
        raise BadLineError(str(path), 1, f"expected the header `{wanted}` as integers, got {_text(line.strip())}")
    for name, number in zip(names, numbers, strict=True):
        if not 1 <= number < 2**31:
            raise BadLineError(str(path), 1, f"the number of {name} must be between 1 and {2**31 - 1}, got {number}")
    return numbers


def _parsed(path: Path, lines: Lines, points: int, wide: int, known: int) -> Matrices:
    """Features and labels of exactly so many lines; an empty one is a point too, so that row i stands in line i + 2."""
    name, parts, last = str(path), [], 1
    for numbers, chunk in chunks(islice(lines, points)):
        parts.append(parse(name, chunk, numbers, wide, known))
        last = numbers[-1]
    if last - 1 < points:
        raise BadLineError(name, last, f"the file ends after {last - 1} points, but its header says {points}")
    for number, line in lines:
        if line.strip():
            raise BadLineError(name, number, f"the file has more points than the {points} of its header")
    vstack = load("scipy.sparse").vstack
    features, labels = (vstack(half, format="csr") if len(half) > 1 else half[0] for half in zip(*parts, strict=True))
    return features, labels


def where(matrix: csr_matrix, wrong: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first stored number that is wrong."""
    at = int(wrong.argmax())
    return int(np.searchsorted(matrix.indptr, at, side="right")) - 1, int(matrix.indices[at])


class _Opened:
    """Lines in the shape of an opened file, which scikit-learn wants."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.lines)

    def read(self) -> bytes:
        return b"".join(self.lines)


def parse(name: str, lines: list[bytes], numbers: Sequence[int], wide: int, known: int) -> Matrices:
    """Features (n, wide) and labels (n, known) of lines `label,label feature:value ...` with these numbers."""
    try:
        features, labels = _svmlight(lines, wide)
    except (ValueError, OverflowError):
        # It does not tell the line. Where all that is wrong is the order of features, nothing is.
        ordered = [_ordered(name, number, line, wide) for number, line in zip(numbers, lines, strict=True)]
        features, labels = _svmlight(ordered, wide)
    wrong = ~np.isfinite(features.data)
    if wrong.any():
        row, column = where(features, wrong)
        problem = f"feature {column} must be finite, got {features[row, column]}"
        raise BadLineError(name, numbers[row], problem)
    return features, _label_matrix(name, labels, numbers, known)


def _svmlight(lines: list[bytes], wide: int) -> tuple[csr_matrix, list[tuple[float, ...]]]:
    """What scikit-learn's reader makes of lines; the package is loaded here, since it takes a second."""
    if any(b"#" in line or b"q" in line for line in lines):
        raise BadValue("a line contains # or q, which the svmlight reader takes for a comment or a query")
    # The reader skips lines without anything, and a point would be lost.
    full = _Opened([line if line.strip() else b"0:0" for line in lines])
    with np.errstate(over="ignore"):  # infinities are refused later
        return load("sklearn.datasets").load_svmlight_file(
            full, n_features=wide, dtype=np.float32, multilabel=True, zero_based=True
        )


def _label_matrix(name: str, labels: list[tuple[float, ...]], numbers: Sequence[int], known: int) -> csr_matrix:
    counts = np.fromiter(map(len, labels), np.int64, len(labels))
    ids = np.fromiter((label for point in labels for label in point), np.float64, int(counts.sum()))
    wrong = ~((ids >= 0) & (ids < known) & (ids == np.floor(ids)))
    if wrong.any():
        row = int(np.searchsorted(np.cumsum(counts), wrong.argmax(), side="right"))
        span = f"labels must be integers from 0 to {known - 1}, by the header" if known else "expected no labels"
        raise BadLineError(name, numbers[row], f"{span}, got {ids[wrong][0]:g}")
    ends = np.concatenate(([0], np.cumsum(counts)))
    stored = np.ones(len(ids), np.float32), ids.astype(np.int64), ends
    matrix = load("scipy.sparse").csr_matrix(stored, (len(labels), max(known, 1)))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a label that is named twice is there once
    return matrix


def _ordered(name: str, number: int, line: bytes, wide: int) -> bytes:
    """The line with its features in order, or the error that tells what is wrong with it."""
    fields = line.split()
    labels = fields.pop(0) if fields and b":" not in fields[0] else b""
    if labels and not all(_is_number(label) for label in labels.split(b",")):
        raise BadLineError(name, number, f"expected labels separated by commas, such as `3,17`, got {_text(labels)}")
    pairs: dict[int, bytes] = {}
    for field in fields:
        feature, value = _pair(name, number, field, wide)
        if feature in pairs:
            raise BadLineError(name, number, f"feature {feature} is given twice")
        pairs[feature] = value
    return b" ".join([labels, *(b"%d:%b" % (feature, pairs[feature]) for feature in sorted(pairs))])


def _pair(name: str, number: int, field: bytes, wide: int) -> tuple[int, bytes]:
    """`feature:value`."""
    key, colon, value = field.partition(b":")
    feature = _integer(key)
    if not colon or feature is None or not _is_number(value):
        raise BadLineError(name, number, f"expected `feature:value`, got {_text(field)}")
    if not 0 <= feature < wide:
        span = f"features must be integers from 0 to {wide - 1}, by the header"
        raise BadLineError(name, number, f"{span}, got {feature}")
    return feature, value


def _integer(field: bytes) -> int | None:
    return int(field) if re.fullmatch(rb"[+-]?[0-9]{1,99}", field) else None


def _is_number(field: bytes) -> bool:
    """Whether it is one in the files, too: Python alone would read 1_000."""
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _text(field: bytes) -> str:
    """What stood there, for people."""
    text = field[:60].decode(errors="backslashreplace")
    return repr(text + "..." if len(field) > 60 else text)
