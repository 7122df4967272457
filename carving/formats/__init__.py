"""Files of pairs: documents, graphs, trees, treebanks and tables, read as a stream.

    for path, leaf in pairs("wn18rr_train.tsv.xz"):
        ...

The file's name tells its format and its compression. Text is UTF-8, with or without a byte order mark.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from reprlib import repr as shortened
from typing import IO, Any, NamedTuple

from carving.errors import BadValue
from carving.formats.documents import Document, Pair, flatten, read_conllu, read_table, read_trees, read_triples
from carving.symbols import Label

Source = str | os.PathLike[str] | IO[str] | IO[bytes]

COMPRESSIONS: dict[str, Callable[[Any], Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what they raise when an archive is cut off or damaged


class BadLineError(BadValue):
    """A line of a file that is not what the file's format wants."""

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if line is None else f"{file}, line {line}: {problem}")
        self.file, self.line, self.problem = file, line, problem


class Pairs:
    """The pairs of one file; every iteration reads it anew. `pairs` makes it."""

    def __init__(self, source: Source, format: "Format", skip_bad: bool, options: dict[str, Any]) -> None:
        self.source = source
        self.name = _name(source)
        self.format = format
        self.skip_bad = skip_bad
        self.options = options
        self.bad = 0  # the bad lines that were skipped
        self.first_bad: BadLineError | None = None
        self._raw: IO[Any] | None = None
        self._reading: Generator[tuple[int, str], None, None] | None = None

    def __iter__(self) -> Iterator[Pair]:
        self.bad, self.first_bad = 0, None
        try:
            yield from self.format.read(self, **self.options)
        finally:
            if self._reading is not None:
                self._reading.close()  # closes the file, also when a reader stopped in the middle

    def lines(self) -> Iterator[tuple[int, str]]:
        """The file's lines with their numbers from 1 and with their ends."""
        self._reading = self._lines()
        return self._reading

    def _lines(self) -> Generator[tuple[int, str], None, None]:
        number = 0
        with self._open() as opened:
            lines = iter(opened)
            while True:
                number += 1
                try:
                    line = next(lines, None)
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8") if isinstance(line, bytes) else line
                except UnicodeDecodeError as error:
                    problem = (
                        f"text in UTF-8 was wanted, got the byte {error.object[error.start]:#04x} at {error.start}"
                    )
                    # Where a tree or a row may span lines, the loss of one would silently make another of it.
                    if not self.format.by_line:
                        raise BadLineError(self.name, number, f"{problem}; iconv converts it") from None
                    self.refuse(number, problem)
                    continue
                except BROKEN as error:
                    raise BadLineError(self.name, number, f"the file breaks off or is damaged: {error}") from error
                if text is None:
                    return
                yield number, text

    @contextmanager
    def _open(self) -> Iterator[Iterable[Any]]:
        if not isinstance(self.source, str | os.PathLike):
            if self.source.seekable():
                self.source.seek(0)
            yield self.source
        elif self.source == "-":
            yield sys.stdin.buffer
        else:
            unpack = COMPRESSIONS.get(_ending(self.name), _as_it_is)
            # Buffered anew: line by line, the archives' own readers are slow.
            with open(self.source, "rb") as self._raw, io.BufferedReader(unpack(self._raw)) as unpacked:
                yield unpacked

    def refuse(self, line: int | None, problem: str) -> None:
        """Raise a BadLineError, or count it if bad lines are to be skipped."""
        error = BadLineError(self.name, line, problem)
        if not self.skip_bad:
            raise error
        self.bad += 1
        self.first_bad = self.first_bad or error

    @property
    def progress(self) -> float | None:
        """Which part of the file has been read, from 0 to 1, if it can be told."""
        if self._raw is None:
            return None
        if self._raw.closed:
            return 1.0
        size = os.fstat(self._raw.fileno()).st_size
        return min(1.0, self._raw.tell() / size) if size else None


# What reads each format


def _json(file: Pairs) -> Iterator[Pair]:
    """One JSON document; nothing of it can be skipped."""
    text = "".join(line for _, line in file.lines())
    try:
        document = _parse_json(text)
        if not isinstance(document, dict | list) or not document:
            raise BadValue(f"an object or a list that is not empty was wanted, got {shortened(document)}")
        yield from flatten(document)
    except json.JSONDecodeError as error:
        raise BadLineError(file.name, error.lineno, _json_problem(error)) from None
    except ValueError as error:
        raise BadLineError(file.name, None, str(error)) from None


def _jsonl(file: Pairs) -> Iterator[Pair]:
    """A JSON document a line, under the number of its line from 0: blank and bad lines leave gaps."""
    for number, line in file.lines():
        if line.strip():
            try:
                leaves = list(flatten(_parse_json(line)))
            except json.JSONDecodeError as error:
                file.refuse(number, _json_problem(error))
            except ValueError as error:
                file.refuse(number, str(error))
            else:
                yield from _under(number - 1, leaves)


def _parse_json(text: str) -> Any:
    """The document; NaN and infinities are floats, as Python writes them, and a key that comes twice is refused."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise BadValue("the JSON is nested too deeply for Python's reader, which goes about 1,000 levels") from None


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(items)
    if len(made) < len(items):
        keys = [key for key, _ in items]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadValue(f"the keys of a JSON object must differ, got {twice!r} twice")
    return made


def _json_problem(error: json.JSONDecodeError) -> str:
    return f"a JSON document was wanted: {error.msg} at column {error.colno}"


def _triples(file: Pairs) -> Iterator[Pair]:
    return read_triples(file.lines(), file.refuse)


def _table(file: Pairs, key: str | None = None) -> Iterator[Pair]:
    return _all_under(file, read_table(file.lines(), key, file.refuse))


def _conllu(file: Pairs, fields: Sequence[str] | None = None) -> Iterator[Pair]:
    chosen = {} if fields is None else {"fields": fields}
    return _all_under(file, read_conllu(file.lines(), refuse=file.refuse, **chosen))


def _brackets(file: Pairs) -> Iterator[Pair]:
    return _all_under(file, enumerate(read_trees(file.lines(), file.refuse)))


def _all_under(file: Pairs, named: Iterable[tuple[Label, Document]]) -> Iterator[Pair]:
    try:
        for name, document in named:
            yield from _under(name, flatten(document))
    except BadLineError:
        raise
    except ValueError as error:  # what is wrong with the whole file
        raise BadLineError(file.name, None, str(error)) from None


def _under(name: Label, leaves: Iterable[Pair]) -> Iterator[Pair]:
    return (((name, *path), leaf) for path, leaf in leaves)


class Format(NamedTuple):
    """A way to write pairs in a file."""

    name: str
    endings: tuple[str, ...]
    meaning: str
    read: Callable[..., Iterator[Pair]]
    by_line: bool = False  # each line stands for itself
    options: tuple[str, ...] = ()


FORMATS = {
    format.name: format
    for format in (
        Format("json", (".json",), "one document", _json),
        Format(
            "jsonl", (".jsonl", ".ndjson"), "a document a line, under the line's number from 0", _jsonl, by_line=True
        ),
        Format("triples", (".tsv",), "head TAB relation TAB tail, a line each", _triples, by_line=True),
        Format("table", (".csv",), "rows under a header; tabs or commas", _table, options=("key",)),
        Format("conllu", (".conllu",), "dependency trees", _conllu, by_line=True, options=("fields",)),
        Format("brackets", (".mrg", ".ptb", ".brackets"), "trees, under their numbers from 0", _brackets),
    )
}


def pairs(source: Source, format: str | None = None, *, skip_bad: bool = False, **options: Any) -> Pairs:
    """The pairs of a file, or of standard input ("-"), read as they are iterated over.

    A bad line raises BadLineError, which names file and line; with `skip_bad` such lines are counted in `.bad` instead.
    An open file is read as it is, without unpacking. Options: `key` of a table, `fields` of CoNLL-U.
    """
    chosen = _format(source, format)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in chosen.options:
            has = " and ".join(chosen.options) or "none"
            raise BadValue(f"the format {chosen.name} has no option {name}; its options: {has}")
    if isinstance(source, str | os.PathLike) and source != "-":
        if os.path.isdir(source):
            raise IsADirectoryError(f"a file was wanted, got the directory {os.fspath(source)}; name the files in it")
        if not os.path.exists(source):
            raise FileNotFoundError(f"there is no file {os.fspath(source)}")
    return Pairs(source, chosen, skip_bad, given)


def _format(source: Source, format: str | None) -> Format:
    if format is not None:
        if format not in FORMATS:
            raise BadValue(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
        return FORMATS[format]
    name = _name(source).lower()
    if _ending(name) in COMPRESSIONS:
        name = os.path.splitext(name)[0]
    for known in FORMATS.values():
        if name.endswith(known.endings):
            return known
    endings = ", ".join(ending for known in FORMATS.values() for ending in known.endings)
    raise BadValue(
        f"the name {_name(source)} does not tell the file's format (known: {endings}, each also with "
        f"{', '.join(COMPRESSIONS)}); name it with --format, or format=: {', '.join(FORMATS)}"
    )


def _name(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    return str(getattr(source, "name", "an open file"))


def _as_it_is(file: Any) -> Any:
    return file


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()
