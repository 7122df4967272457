"""Parquet files as pairs, by pyarrow: a table, whose groups of rows can be read apart."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from carving import optional
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.formats.frames import check_columns, row_pairs
from carving.formats.sources import BadLineError, Source, name_of
from carving.symbols.codec import Label

ENDING = ".parquet"
ROWS = 4096  # that are held at a time as Python's own values


def is_parquet(source: object, format: str | None) -> bool:
    """Whether a source is a Parquet file, by the format that is named or by its name."""
    return format == "parquet" or (format is None and name_of(source).lower().endswith(ENDING))


def read_parquet(source: Source, key: Label = None, groups: Sequence[int] | None = None) -> Iterator[Pair]:
    """The cells of a table's rows, or of some groups of them: paths are (row, column) as those of a DataFrame."""
    with _opened(source) as file:
        columns = check_columns(file.schema_arrow.names, key)
        sizes = rows_of_groups(file)
        for first, run in _runs(range(len(sizes)) if groups is None else groups):
            yield from row_pairs(_rows(file, run), columns, key, first=sum(sizes[:first]))


def rows_of_groups(file: Any) -> list[int]:
    """How many rows each group of an open file has."""
    return [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]


def bytes_of_groups(name: str | os.PathLike[str]) -> list[int]:
    """How many bytes each group of a file has."""
    with _opened(name) as file:
        groups = range(file.metadata.num_row_groups)
        return [file.metadata.row_group(group).total_byte_size for group in groups]


def _runs(groups: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Groups that follow each other, with the first of them: their rows are numbered on."""
    run: list[int] = []
    for group in groups:
        if run and group != run[-1] + 1:
            yield run[0], run
            run = []
        run.append(group)
    if run:
        yield run[0], run


def _rows(file: Any, groups: list[int]) -> Iterator[tuple[object, ...]]:
    for batch in file.iter_batches(batch_size=ROWS, row_groups=groups):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    parquet = optional.load("pyarrow.parquet")
    lib = optional.load("pyarrow.lib")
    given: str | IO[Any] = os.fspath(source) if isinstance(source, str | os.PathLike) else source
    if given == "-":
        raise BadValue(
            "Parquet cannot be read from standard input, because its index is at the end. Save it to a file."
        )
    try:
        with parquet.ParquetFile(given) as file:
            yield file
    except (lib.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadLineError(name_of(source), None, f"expected a complete Parquet file: {error}") from None
