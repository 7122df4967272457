"""Sources: files, streams and standard input are opened, unpacked and read as numbered lines of text."""

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from carving.errors import BadValue

Source = str | os.PathLike[str] | IO[str] | IO[bytes]
Lines = Iterable[tuple[int, str]]  # with their numbers from 1, and with their ends
Refuse = Callable[[int | None, str], None]  # what to do about a bad line: its number, what is wrong with it

COMPRESSIONS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what they raise when an archive is cut off or damaged


class BadLineError(BadValue):
    """A line of a file that is not what the file's format wants.

    >>> print(BadLineError("graph.tsv", 3, "a triple was wanted"))
    graph.tsv, line 3: a triple was wanted
    """

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if line is None else f"{file}, line {line}: {problem}")
        self.file, self.line, self.problem = file, line, problem


def raise_bad_line(line: int | None, problem: str) -> None:
    """Refuse a line where no file is known."""
    raise BadValue(problem if line is None else f"line {line}: {problem}")


def numbered_lines(source: Source, refuse_bytes: Refuse) -> Generator[tuple[int, str], None, None]:
    """The source's lines. One that is not UTF-8 is given to `refuse_bytes` and left out; a byte order mark is, too."""
    name, number = name_of(source), 0
    with _opened(source) as stream:
        lines = iter(stream)
        while True:
            number += 1
            try:
                line: str | bytes | None = next(lines, None)
                text = line.decode("utf-8-sig" if number == 1 else "utf-8") if isinstance(line, bytes) else line
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                refuse_bytes(number, f"text in UTF-8 was wanted, got the byte {byte:#04x} at {error.start}")
                continue
            except BROKEN as error:
                raise BadLineError(name, number, f"the file breaks off or is damaged: {error}") from error
            if text is None:
                return
            yield number, text


@contextmanager
def _opened(source: Source) -> Iterator[Iterable[str | bytes]]:
    if not isinstance(source, str | os.PathLike):
        if source.seekable():
            source.seek(0)
        yield source
    elif source == "-":
        yield sys.stdin.buffer
    else:
        unpack = COMPRESSIONS.get(ending_of(os.fspath(source)), _unchanged)
        # Buffered anew: line by line, the archives' own readers are slow.
        with open(source, "rb") as raw, io.BufferedReader(unpack(raw)) as unpacked:
            yield unpacked


def name_of(source: object) -> str:
    """What errors call a source or a target, and what may tell its format."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "an open file"))


def ending_of(name: str) -> str:
    """The last ending of a file's name, in small letters: ".gz"."""
    return os.path.splitext(name)[1].lower()


def _unchanged(file: IO[bytes]) -> IO[bytes]:
    return file
