"""Sources: files, streams and standard input are opened, unpacked and read as numbered lines, none longer than a limit.

An archive of a kilobyte can hold gigabytes. What unpacks to more than `FREE` bytes may not grow above `GROWTH` times.
"""

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, NamedTuple

from carving.errors import BadValue

Source = str | os.PathLike[str] | IO[str] | IO[bytes]
Lines = Iterable[tuple[int, str]]  # with their numbers from 1, and with their ends
Refuse = Callable[[int | None, str], None]  # what to do about a bad line: its number, what is wrong with it

COMPRESSIONS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what they raise when an archive is cut off or damaged

FREE = 64 << 20  # bytes that any archive may unpack to
GROWTH = 1_000  # how many times its size it may unpack to beyond that: text hardly ever shrinks to a hundredth
BUFFER = 128 << 10
COUNTED = 4 << 20  # bytes in which line ends are counted at a time
DICTIONARY = 256 << 20  # bytes that an .xz archive may want for its reader; `xz -9` wants 65 MiB
DECODERS: dict[str, Callable[[], Any]] = {
    ".xz": partial(lzma.LZMADecompressor, memlimit=DICTIONARY),
    ".bz2": bz2.BZ2Decompressor,
}


class Limit(NamedTuple):
    """How many bytes (of a stream of text: characters) may be held at once, of what, and the way out for more."""

    what: str
    size: int
    way_out: str

    @property
    def problem(self) -> str:
        """What is wrong with more."""
        return f"{self.what} may have at most {self.size:,} bytes, got more. {self.way_out}"


class Span(NamedTuple):
    """A part of a file: the lines that begin within these bytes, and how many lines there are before."""

    start: int
    stop: int
    before: int = 0


LINE = Limit("a line", 16 << 20, "Check the format of the file and its line ends.")


class BadLineError(BadValue):
    """A malformed line of a file; `file`, `line` (from 1, or None) and `problem` say where and what.

    >>> print(BadLineError("graph.tsv", 3, "expected a triple"))
    graph.tsv, line 3: expected a triple
    """

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if line is None else f"{file}, line {line}: {problem}")
        self.file, self.line, self.problem = file, line, problem


class GrowthError(BadValue):
    """An archive that unpacks to far more than text does."""


def raise_bad_line(line: int | None, problem: str) -> None:
    """Refuse a line where no file is known."""
    raise BadValue(problem if line is None else f"line {line}: {problem}")


# Lines


def numbered_lines(
    source: Source, refuse: Refuse, limit: Limit = LINE, span: Span | None = None
) -> Generator[tuple[int, str], None, None]:
    """The source's lines, without a byte order mark. One that is too long or not UTF-8 goes to `refuse` instead.

    Of a span, they have the numbers that they have in the whole file.
    """
    with _opened(source) as stream:
        part = stream if span is None else _Part(stream, span, limit.size)
        for number, line in limited_lines(part, name_of(source), refuse, limit, span.before if span else 0):
            if isinstance(line, bytes):
                try:
                    line = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    byte, at = error.object[error.start], error.start
                    refuse(number, f"expected UTF-8 text, got byte {byte:#04x} at {at}. Convert it, e.g. with iconv.")
                    continue
            yield number, line


def limited_lines(
    stream: "IO[Any] | _Part", name: str, refuse: Refuse, limit: Limit = LINE, before: int = 0
) -> Generator[tuple[int, Any], None, None]:
    """The lines of a stream, as they are; those that are too long are given to `refuse` and left out."""
    number, is_cut = before, False
    while True:
        number += 1
        try:
            while is_cut:  # the rest of a line that was refused, piece by piece
                is_cut = not _is_end(stream.readline(limit.size))
            line = stream.readline(limit.size + 1)
        except BROKEN as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system, not of an archive's reader
                raise
            raise BadLineError(name, number, f"the file is truncated or corrupt: {error}") from error
        except UnicodeError as error:  # of a stream of text: what it lost with the error cannot be told
            raise BadLineError(name, number, f"the stream is not text: {error}") from None
        except GrowthError as error:
            raise BadLineError(name, number, str(error)) from None
        if len(line) > limit.size:
            refuse(number, limit.problem)
            is_cut = not _is_end(line)
        elif line:
            yield number, line
        else:
            return


def _is_end(piece: str | bytes) -> bool:
    """Whether a line, or the file, ends here."""
    return not piece or piece[-1:] in ("\n", b"\n")


class _Part:
    """The lines of a stream that begin within a span; the last may end behind it."""

    def __init__(self, stream: IO[bytes], span: Span, step: int) -> None:
        self.stream, self.stop, self.begins = stream, span.stop, True
        # Whether a line begins at the start itself is told by the byte before.
        self.position = stream.seek(max(0, span.start - 1))
        while span.start:
            piece = stream.readline(step)
            self.position += len(piece)
            if _is_end(piece):
                break

    def readline(self, size: int) -> bytes:
        """The next line, or as much of it; nothing where it begins behind the span."""
        if self.begins and self.position >= self.stop:
            return b""
        piece = self.stream.readline(size)
        self.position += len(piece)
        self.begins = _is_end(piece)
        return piece


def lines_within(file: str | os.PathLike[str], span: Span) -> int:
    """How many lines of a file begin within a span."""
    count, left = int(span.start == 0 < span.stop), span.stop - max(1, span.start)
    with open(file, "rb", 0) as stream:
        stream.seek(max(0, span.start - 1))
        while left > 0 and (block := stream.read(min(left, COUNTED))):
            count += block.count(b"\n")
            left -= len(block)
    return count


# Streams


@contextmanager
def _opened(source: Source) -> Iterator[IO[Any]]:
    if not isinstance(source, str | os.PathLike):
        if source.seekable():
            source.seek(0)
        yield source
    elif source == "-":
        yield sys.stdin.buffer
    else:
        with unpacked(source) as stream:
            yield stream


@contextmanager
def unpacked(file: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked as its name tells."""
    ending = ending_of(os.fspath(file))
    with open(file, "rb", 0) as raw:
        if ending not in COMPRESSIONS:
            with io.BufferedReader(raw, BUFFER) as stream:
                yield stream
            return
        packed = _Counted(raw)
        source = io.BufferedReader(packed, BUFFER)
        # Buffered anew: line by line, the archives' own readers are slow.
        with (
            _Archive(source, DECODERS[ending]) if ending in DECODERS else gzip.open(source) as archive,
            io.BufferedReader(_Unpacked(archive, packed), BUFFER) as stream,
        ):
            yield stream


class _Archive(io.RawIOBase):
    """The streams of an archive one after the other; unlike in Python's own reader, nothing else may follow them."""

    def __init__(self, packed: io.BufferedIOBase, decoder: Callable[[], Any]) -> None:
        self.packed, self.decoder, self.stream = packed, decoder, decoder()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer at least, but at the end."""
        data = b""
        while not data:
            given = self._next_bytes()
            if given is None:
                return 0
            data = self.stream.decompress(given, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_bytes(self) -> bytes | None:
        """What the decoder is to have next, a new one where another stream begins; None at the end."""
        if not self.stream.eof:
            given = self.packed.read(BUFFER) if self.stream.needs_input else b""
            if self.stream.needs_input and not given:
                raise EOFError("the compressed stream ends early")
            return given
        given = self.stream.unused_data.lstrip(b"\0")  # with which .xz may be padded
        while not given:
            block = self.packed.read(BUFFER)
            if not block:
                return None
            given = block.lstrip(b"\0")
        self.stream = self.decoder()
        return given


class _Counted(io.RawIOBase):
    """A stream that counts the bytes which are read from it."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer at least, but at the end."""
        size = self.stream.readinto(buffer) or 0
        self.count += size
        return size


class _Unpacked(_Counted):
    """What an archive unpacks to, up to its limits."""

    def __init__(self, archive: Any, packed: _Counted) -> None:
        super().__init__(archive)
        self.packed = packed

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        if self.count > FREE and self.count > GROWTH * self.packed.count:
            raise GrowthError(
                f"a compressed file may expand to {FREE:,} bytes or {GROWTH:,} times its size, got more. If you trust "
                "it, decompress it first."
            )
        return size


def name_of(source: object) -> str:
    """What errors call a source or a target, and what may tell its format."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "an open file"))


def ending_of(name: str) -> str:
    """The last ending of a file's name, in small letters: ".gz"."""
    return os.path.splitext(name)[1].lower()
