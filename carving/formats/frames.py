"""DataFrames of pandas and polars as pairs, without either package: whatever has columns and rows as they do."""

import datetime
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Protocol, TypeGuard, cast

import numpy as np

from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, brief, flatten
from carving.symbols.codec import Label, canonical

WITHOUT_VALUE = ("NAType", "NaTType")  # of pandas, which need not be there
TIMES = (datetime.date, datetime.time, datetime.timedelta)  # a datetime, and a Timestamp of pandas, is a date


class Frame(Protocol):
    """What both packages have in common; polars reads its rows by `iter_rows`, pandas by `itertuples`."""

    @property
    def columns(self) -> Iterable[object]:
        """The columns' names."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""


class PandasFrame(Frame, Protocol):
    """What a DataFrame of pandas has besides."""

    def itertuples(self, index: bool, name: None) -> Iterable[tuple[object, ...]]:
        """The rows."""

    def reset_index(self) -> "PandasFrame":
        """The frame with its index as columns."""


class PolarsFrame(Frame, Protocol):
    """What a DataFrame of polars has besides."""

    def iter_rows(self) -> Iterable[tuple[object, ...]]:
        """The rows."""


def is_frame(thing: object) -> TypeGuard[Frame]:
    """Return whether an object is a DataFrame of pandas or polars, or behaves like one.

    >>> import pandas
    >>> is_frame(pandas.DataFrame({"name": ["Anna"]})), is_frame({"name": ["Anna"]})
    (True, False)
    """
    kind = type(thing)  # on the type: properties may be costly, as a LazyFrame's columns are
    return hasattr(kind, "shape") and (hasattr(kind, "iter_rows") or hasattr(kind, "itertuples"))


def frame_pairs(frame: Frame, key: Label = None) -> Iterator[Pair]:
    """Yield the cells of a DataFrame as pairs ((row, column), value).

    Numbers become Python numbers, dates and times become text as `str` writes them, and lists and dicts in cells are
    flattened as documents. Cells without a value (None, NaN, NaT) are skipped. The index of a pandas frame is ignored
    unless `key` is its name.

    Args:
        frame: A DataFrame of pandas or polars.
        key: The column whose cells name the rows; None numbers them from 0.

    Raises:
        BadValue: If the names of columns or rows are not unique, or `key` is not a column.
        BadType: If a cell is of a type that has no label.

    >>> import pandas
    >>> people = pandas.DataFrame({"name": ["Anna", "Ben"], "age": [7, 9], "city": ["Rome", None]})
    >>> list(frame_pairs(people, key="name"))
    [(('Anna', 'age'), 7), (('Anna', 'city'), 'Rome'), (('Ben', 'age'), 9)]
    """
    if key is not None and key in getattr(getattr(frame, "index", None), "names", ()):
        frame = cast(PandasFrame, frame).reset_index()
    return row_pairs(_rows(frame), check_columns(frame.columns, key), key)


def check_columns(names: Iterable[object], key: Label = None) -> list[Label]:
    """The names of columns, which must differ, and have the key among them."""
    columns: list[Label] = []
    for name in names:
        if isinstance(name, tuple | list):
            raise BadType(f"A column must have one name, got {name!r}. Rename the columns with frame.columns = [...].")
        columns.append(cast(Label, _value(name)))
    if len(set(map(canonical, columns))) < len(columns):
        raise BadValue(f"The columns of a DataFrame must have unique names, got {brief(columns)}.")
    if key is not None and key not in columns:
        raise BadValue(f"key must be one of the columns {brief(columns)}, got {key!r}.")
    return columns


def row_pairs(
    rows: Iterable[tuple[object, ...]], columns: list[Label], key: Label = None, first: int = 0
) -> Iterator[Pair]:
    """The cells of rows, the first of which has this number."""
    first_rows: dict[bytes, int] = {}  # by their names
    place = None if key is None else columns.index(key)
    for number, cells in enumerate(rows, start=first):
        values = [_value(cell, number, column) for cell, column in zip(cells, columns, strict=True)]
        name: Label = number
        if place is not None:
            name = _check_name(values[place], number, key)
            values[place] = None
            before = first_rows.setdefault(canonical(name), number)
            if before != number:
                raise BadValue(f"The names of rows must be unique, got {brief(name)} in rows {before} and {number}.")
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, dict | list):
                yield from (((name, column, *path), below) for path, below in flatten(value))
            elif value is not None:
                yield (name, column), value


def _rows(frame: Frame) -> Iterable[tuple[object, ...]]:
    if hasattr(frame, "iter_rows"):
        return cast(PolarsFrame, frame).iter_rows()
    return cast(PandasFrame, frame).itertuples(index=False, name=None)


def _check_name(value: Document, row: int, key: Label) -> Label:
    if value is None or isinstance(value, dict | list):
        raise BadValue(f"Every row must have a label in the column {key!r}, got {brief(value)} in row {row}.")
    return value


def _value(cell: object, row: int | None = None, column: Label = None) -> Document:
    """What a cell says in plain Python; None if it says nothing."""
    if isinstance(cell, np.generic):
        cell = _plain(cell)
    if cell is None or type(cell).__name__ in WITHOUT_VALUE:
        return None
    if isinstance(cell, str | int | bytes | dict | list):
        return cell
    if isinstance(cell, float | Decimal):
        return None if math.isnan(cell) else float(cell)
    if isinstance(cell, TIMES):
        return str(cell)
    where = "as the name of a column" if row is None else f"in row {row}, column {column!r}"
    raise BadType(
        f"A cell must be text, a number, a boolean, bytes, a date, a time, a list or a dict, got {brief(cell)} of type "
        f"{type(cell).__name__} {where}. Convert the column to text with astype(str) in pandas or cast(str) in polars."
    )


def _plain(cell: np.generic) -> object:
    """What Python has for a value of numpy; times of a nanosecond it has not."""
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return None if np.isnat(cell) else str(cell)
    return cell.item()
