"""Writing: `write` puts pairs into a file or a stream, in every format that can be read."""

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, BinaryIO

from carving.errors import BadType, BadValue
from carving.formats.documents import Pair
from carving.formats.registry import check_options, choose_format
from carving.formats.sources import COMPRESSIONS, ending_of, name_of
from carving.replacing import PAIRS, check_replaceable, replaced

Target = str | os.PathLike[str] | IO[str]

MARK = "\ufeff"  # the byte order mark that readers leave out


def write(
    pairs: Iterable[Pair], target: Target, format: str | None = None, *, force: bool = False, **options: object
) -> int:
    """Write pairs to a file, a stream of text or the standard output ("-"); the number of pairs.

    A file's name tells its format and its compression. It is written whole or not at all: what its format cannot hold
    is refused, and leaves an old file as it was; one that is read-only, or a memory or model of Carving, takes `force`
    to be replaced. Read again with the same options it gives the same pairs, in the order of the documents that they
    make. Options: `key` and `delimiter` of a table, `fields` of CoNLL-U.

    >>> import sys
    >>> write([((0, 0), "S"), ((0, 1, 0), "NP"), ((0, 1, 1), "dogs")], sys.stdout, "brackets")
    (S (NP dogs))
    3
    """
    row = choose_format("standard output" if target == "-" else name_of(target), format)
    given = check_options(f"the format {row.name}", row.options, options)
    count = 0

    def counted() -> Iterator[Pair]:
        nonlocal count
        for pair in pairs:
            count += 1
            yield pair

    with _opened(target, force) as stream:
        try:
            for text in _marked(row.write(counted(), **given), target):
                stream.write(text)
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise BadValue(f"text in {error.encoding} cannot hold {half!r}; json and jsonl can") from None
    return count


def _marked(texts: Iterable[str], target: Target) -> Iterator[str]:
    """The texts; before a byte order mark that belongs to a file's text stands another, for the reader to leave out."""
    texts = iter(texts)
    first = next(texts, "")
    is_file = isinstance(target, str | os.PathLike)
    return chain([MARK] if is_file and first.startswith(MARK) else [], [first], texts)


@contextmanager
def _opened(target: Target, force: bool) -> Iterator[IO[str]]:
    if isinstance(target, str | os.PathLike):
        with _standard_output() if target == "-" else _replaced(os.fspath(target), force) as stream:
            yield stream
    elif isinstance(target, io.RawIOBase | io.BufferedIOBase) or not hasattr(target, "write"):
        raise BadType(f"a file's name or a stream of text was wanted, got {target!r}; io.TextIOWrapper makes one")
    else:
        yield target


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    yield sys.stdout


@contextmanager
def _replaced(name: str, force: bool) -> Iterator[IO[str]]:
    """A stream whose text is the file once all of it is written; after an error, the file is as it was."""
    folder = os.path.dirname(os.path.realpath(name))  # a link stays one
    if os.path.isdir(name):
        raise IsADirectoryError(f"a file was wanted, got the directory {name}; name a file in it")
    if os.path.exists(name) and not os.path.isfile(name):  # a device or a pipe has no old contents to keep
        with open(name, "wb") as file, _packed(name, file) as stream:
            yield stream
        return
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{name} lies in a folder that does not exist: {folder}; make it first")
    check_replaceable(name, PAIRS, force)
    with replaced(name) as file, _packed(name, file) as stream:
        yield stream


@contextmanager
def _packed(name: str, file: BinaryIO) -> Iterator[IO[str]]:
    """The text of an open file, compressed as the name tells; it stays open."""
    pack = COMPRESSIONS.get(ending_of(name))
    if pack is not None:
        with pack(file, "wt", encoding="utf-8", newline="") as stream:
            yield stream
        return
    stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        yield stream
    finally:
        stream.detach()  # which writes what is left
