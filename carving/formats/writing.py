"""Writing: `write` puts pairs into a file or a stream, in every format that can be read."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import IO, BinaryIO

from carving.errors import BadType, BadValue
from carving.formats.documents import Pair, brief
from carving.formats.registry import check_options, choose_format
from carving.formats.sources import COMPRESSIONS, ending_of, name_of
from carving.storage.atomic import write_atomically
from carving.storage.tensorfile import PAIRS, check_replaceable

Target = str | os.PathLike[str] | IO[str]
Put = Callable[[IO[str]], None]  # what writes the text to a stream

MARK = "\ufeff"  # the byte order mark that readers leave out


def write(
    pairs: Iterable[Pair], target: Target, format: str | None = None, *, force: bool = False, **options: object
) -> int:
    """Write pairs to a file, a text stream or standard output ("-"), and return the number of pairs.

    The write is atomic: after an error, an existing file is unchanged. Reading the file with these options returns
    equal pairs, in the order of the documents that they form.

    Args:
        pairs: Pairs (path, value).
        target: A file name, "-" or a text stream.
        format: The format to write; None derives format and compression from the name.
        force: Overwrite a file even if it is read-only, or a memory or model of Carving.
        options: `key` and `delimiter` of a table, `fields` of CoNLL-U.

    Raises:
        BadValue: If the format cannot hold the pairs.

    >>> import sys
    >>> write([((0, 0), "S"), ((0, 1, 0), "NP"), ((0, 1, 1), "dogs")], sys.stdout, "brackets")
    (S (NP dogs))
    3
    """
    if not isinstance(target, str | os.PathLike) and not hasattr(target, "write"):
        raise BadType(f"target must be a file name or a text stream, got {brief(target)}. Call write(pairs, target).")
    row = choose_format("standard output" if target == "-" else name_of(target), format)
    given = check_options(f"the format {row.name}", row.options, options)
    count = 0

    def counted() -> Iterator[Pair]:
        nonlocal count
        for pair in pairs:
            count += 1
            yield pair

    def put(stream: IO[str]) -> None:
        try:
            for text in _marked(row.write(counted(), **given), target):
                stream.write(text)
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise BadValue(f"{error.encoding} text cannot hold {half!r}. Use the format json or jsonl.") from None

    if target == "-":
        put(sys.stdout)
    elif isinstance(target, str | os.PathLike):
        _put_in(os.fspath(target), put, force)
    elif isinstance(target, io.RawIOBase | io.BufferedIOBase) or not hasattr(target, "write"):
        raise BadType(
            f"target must be a file name or a text stream, got {target!r}. io.TextIOWrapper makes a text stream."
        )
    else:
        put(target)
    return count


def _marked(texts: Iterable[str], target: Target) -> Iterator[str]:
    """The texts; before a byte order mark that belongs to a file's text stands another, for the reader to leave out."""
    texts = iter(texts)
    first = next(texts, "")
    is_file = isinstance(target, str | os.PathLike)
    return chain([MARK] if is_file and first.startswith(MARK) else [], [first], texts)


def _put_in(name: str, put: Put, force: bool) -> None:
    """Let the text be a file's, once all of it is written; after an error, the file is as it was."""
    folder = os.path.dirname(os.path.realpath(name))  # a link stays one
    if os.path.isdir(name):
        raise IsADirectoryError(f"expected a file, got the directory {name}. Name a file in it.")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"The folder {folder} of {name} does not exist. Create it first.")
    if os.path.exists(name) and not os.path.isfile(name):  # a device or a pipe has no old contents to keep
        with open(name, "wb") as file:
            _pack(name, file, put)
        return
    check_replaceable(name, PAIRS, force)
    write_atomically(name, lambda file: _pack(name, file, put))


def _pack(name: str, file: BinaryIO, put: Put) -> None:
    """Put the text into an open file, compressed as the name tells; it stays open."""
    pack = COMPRESSIONS.get(ending_of(name))
    if pack is not None:
        with pack(file, "wt", encoding="utf-8", newline="") as stream:
            put(stream)
        return
    stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        put(stream)
    finally:
        stream.detach()  # which writes what is left
