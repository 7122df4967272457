"""Tables: rows under a header, as CSV. A row is {column: cell}; it has a number, or a name from the column `key`."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from carving.errors import BadType, BadValue
from carving.formats.documents import Container, Document, brief
from carving.formats.sources import LINE, Lines, Refuse, raise_bad_line
from carving.symbols.codec import Label

if TYPE_CHECKING:
    import _csv

Row = dict[str, str]

DELIMITERS = ("\t", ";", ",")  # among which the header tells
_NAMES = {"tab": "\t", r"\t": "\t"}  # of a character that shells make hard to type


# Reading


def read_table(
    lines: Lines, key: str | None = None, refuse: Refuse = raise_bad_line, delimiter: str | None = None
) -> Iterator[tuple[Label, Row]]:
    r"""The rows of a CSV file with a header, and their names: the cells in the column `key`, or numbers from 0.

    Cells are strings. They are parted by `delimiter`, or by what the header tells: a tab if it has one outside of
    quotation marks, else whichever of `;` and `,` it has more of there (`;` if as many, `,` if none). A bad row keeps
    its number.

    >>> list(read_table([(1, "name;age\n"), (2, "Anna;7\n")]))
    [(0, {'name': 'Anna', 'age': '7'})]
    >>> list(read_table([(1, "name;age\n"), (2, "Anna;7\n")], key="name"))
    [('Anna', {'age': '7'})]
    """
    lines = iter(lines)
    begin, first = next(((number, text) for number, text in lines if text.strip("\r\n")), (1, ""))
    texts: Iterator[str] = chain([first], (text for _, text in lines))
    if delimiter is None:
        delimiter, texts = _sniff(texts)
    room = _Room()
    reader = csv.reader(room.watch(texts), delimiter=check_delimiter(delimiter), strict=True)
    _, header = next(_records(reader, room, begin, raise_bad_line), (1, []))
    _check_header(header, key)
    first_lines: dict[str, int] = {}  # of the rows by their names
    for count, (number, cells) in enumerate(_records(reader, room, begin, refuse)):
        if len(cells) != len(header):
            if cells:
                expected = f"expected {len(header)} cells, as in the header"
                refuse(number, f"{expected}, got {len(cells)}: {brief(cells)}")
            continue
        row = dict(zip(header, cells, strict=True))
        if key is None:
            yield count, row
        elif first_lines.setdefault(name := row.pop(key), number) == number:
            yield name, row
        else:
            refuse(number, f"{key} must be unique, got {brief(name)}, which is on line {first_lines[name]} already")


def _sniff(texts: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The delimiter that the header tells, and the lines again."""
    header: list[str] = []
    counts = Counter(_unquoted(texts, header))
    delimiter = "\t" if counts["\t"] else ";" if counts[";"] >= max(1, counts[","]) else ","
    return delimiter, chain(header, texts)


def _unquoted(texts: Iterable[str], header: list[str]) -> Iterator[str]:
    """The header's characters outside of quotation marks; its lines are kept in `header`."""
    size, is_quoted, may_open = 0, False, True
    for text in texts:
        header.append(text)
        size += len(text)
        for character in text:
            if character == '"' and (is_quoted or may_open):
                is_quoted, may_open = not is_quoted, True  # two at once, as in "a ""b""", close and open again
            elif not is_quoted:
                may_open = character in DELIMITERS
                yield character
        if not is_quoted or size > csv.field_size_limit():  # no cell that csv reads is longer
            return


@dataclass
class _Room:
    """How many characters of lines a row has taken so far: with quotation marks it may go on without end."""

    taken: int = 0

    def watch(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, unless a row takes too many."""
        for text in texts:
            self.taken += len(text)
            if self.taken > LINE.size:
                raise BadValue(f"a row may have at most {LINE.size:,} characters, got more. Check its quotation marks.")
            yield text


def _records(records: "_csv.Reader", room: _Room, begin: int, refuse: Refuse) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank with the lines where they begin; instead of one that csv refuses, an empty one."""
    while True:
        number, room.taken = begin + records.line_num, 0
        try:
            cells = next(records, None)
        except csv.Error as error:
            refuse(number, f"expected a row of a table: {error}")
            yield number, []
            continue
        if cells is None:
            return
        if cells:
            yield number, cells


def _check_header(header: list[str], key: str | None) -> None:
    if len(set(header)) < len(header):
        raise BadValue(f"the columns of a table must have unique names, got {brief(header)}.")
    if key is not None and key not in header:
        raise BadValue(f"key must be one of the columns {brief(header)}, got {key!r}.")


def check_delimiter(delimiter: str) -> str:
    """The character that parts cells; "tab" is a name of one."""
    character = _NAMES.get(delimiter, delimiter)
    if len(character) != 1 or character in '"\r\n':
        raise BadValue(
            f"delimiter must be one character such as ; or tab, but not a quotation mark, got {delimiter!r}."
        )
    return character


# Writing


def show_table(rows: Document, key: str | None = None, delimiter: str = ",") -> str:
    r"""The rows as CSV with a header; `key` names the column of the rows' names. The delimiter can be sniffed again.

    >>> show_table([{"name": "Anna", "age": "7"}])
    'name,age\r\nAnna,7\r\n'
    >>> show_table({"Anna": {"age": "7"}}, key="name", delimiter=";")
    'name;age\r\nAnna;7\r\n'
    """
    if not isinstance(rows, dict | list):
        raise BadType(f"rows must be a dict or a list of rows, got {brief(rows)}.")
    if rows and isinstance(rows, dict) != (key is not None):
        raise BadValue(
            "key must be given for rows with names (a dict), and only for these: it is the column for the names."
        )
    text = io.StringIO()
    delimiter = check_delimiter(delimiter)
    # They end lines by \r\n: with another end they forget to quote \r.
    plain = csv.writer(text, delimiter=delimiter)
    quoted = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    for number, cells in enumerate(_cells(rows, key)):
        # What another delimiter could part must not look like a header, nor like the cells of a single column.
        doubtful = (number == 0 or len(cells) == 1) and any(mark in cell for cell in cells for mark in DELIMITERS)
        (quoted if doubtful else plain).writerow(cells)
    return text.getvalue()


def _cells(rows: Container, key: str | None) -> Iterator[list[str]]:
    """The header and the rows."""
    items = list(rows.items() if isinstance(rows, dict) else enumerate(rows))
    if not items:
        yield from [] if key is None else [_check_columns([key])]
        return
    columns = list(_check_row(*items[0]))
    yield _check_columns(columns if key is None else [key, *columns])
    for name, row in items:
        if _check_row(name, row).keys() != set(columns):
            raise BadValue(
                f"Every row must have the columns {brief(columns)}, got {brief(list(row))} in row {brief(name)}. "
                "Use the format jsonl for rows that differ."
            )
        cells = [row[column] for column in columns]
        yield [_check_cell(cell, name) for cell in (cells if key is None else [name, *cells])]


def _check_row(name: Label, row: object) -> dict[str, object]:
    if not isinstance(row, dict):
        raise BadValue(f"A row must be {{column: cell}}, got {brief(row)} in row {brief(name)}.")
    return row


def _check_columns(header: list[str]) -> list[str]:
    if not header or len(set(header)) < len(header):
        raise BadValue(f"A table must have columns with unique names, got {brief(header)}.")
    for name in header:
        if not isinstance(name, str):
            raise BadValue(f"The names of columns must be strings, got {brief(name)}. Convert it with str(...).")
    return header


def _check_cell(cell: object, row: Label) -> str:
    if not isinstance(cell, str):
        raise BadValue(
            f"The cells of a table must be strings, got {brief(cell)} in row {brief(row)}. Convert it with str(...), "
            "or use the format jsonl, which holds other labels and nested values."
        )
    if len(cell) > csv.field_size_limit():
        raise BadValue(
            f"A cell may have at most {csv.field_size_limit():,} characters, got {len(cell):,} in row {brief(row)}."
        )
    return cell
