"""Reading: `pairs` gives the pairs of a file, a stream, standard input or a DataFrame, as they are iterated over."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from carving.errors import BadType, BadValue
from carving.formats.documents import Pair, brief
from carving.formats.frames import Frame, frame_pairs, is_frame
from carving.formats.parquet import is_parquet, read_parquet
from carving.formats.registry import Format, check_options, choose_format
from carving.formats.sources import BadLineError, Refuse, Source, Span, name_of, numbered_lines
from carving.symbols.codec import Label


class Pairs:
    r"""The pairs of one source, as `pairs` returns them. Every iteration reads the source again.

    `name` is the name of the source. After an iteration with `skip_bad`, `bad` is the number of malformed lines that
    were skipped and `first_bad` the error of the first one, or None.

    >>> import io
    >>> graph = pairs(io.StringIO("dog\tis a\tanimal\ncat is an animal\n"), "triples", skip_bad=True)
    >>> list(graph), graph.bad, graph.first_bad.line
    ([(('dog', 'is a'), 'animal')], 1, 2)
    """

    def __init__(self, name: str, read: Callable[[Refuse], Iterator[Pair]], skip_bad: bool) -> None:
        self.name = name
        self.skip_bad = skip_bad
        self.bad = 0  # the bad lines that were skipped
        self.first_bad: BadLineError | None = None
        self._read = read

    def __iter__(self) -> Iterator[Pair]:
        self.bad, self.first_bad = 0, None
        return self._read(self._refuse)

    def _refuse(self, line: int | None, problem: str) -> None:
        error = BadLineError(self.name, line, problem)
        if not self.skip_bad:
            raise error
        self.bad += 1
        self.first_bad = self.first_bad or error


def pairs(
    source: Source | Frame,
    format: str | None = None,
    *,
    skip_bad: bool = False,
    part: Span | Sequence[int] | None = None,
    **options: object,
) -> Pairs:
    r"""Return the pairs of a file, of standard input ("-") or of a DataFrame, read while iterating.

    Args:
        source: A file name, "-", an open file (read without decompression) or a DataFrame. Text is UTF-8.
        format: The format of the file; None derives format and compression from its name. Parquet needs pyarrow and
            is read like a DataFrame.
        skip_bad: Count malformed lines in `.bad` instead of raising.
        part: The part of the file to read, for formats that can be divided: see `formats.shared`.
        options: `key`, the column with the row names of a table or DataFrame; `delimiter` of a table (None detects it
            from the header); `fields` of CoNLL-U.

    Raises:
        BadLineError: While iterating, for a malformed line; it names the file and the line.
        BadValue: If the format is unknown or does not have an option.

    >>> import io
    >>> list(pairs(io.StringIO("name;age\nAnna;7\n"), "table", key="name"))
    [(('Anna', 'age'), '7')]
    """
    if is_frame(source):
        return _pairs_of_frame(source, format, skip_bad, **options)
    source = cast(Source, source)
    if is_parquet(source, format):
        _check_source(source)
        key = check_options("the format parquet", ("key",), options).get("key")
        return Pairs(name_of(source), lambda refuse: read_parquet(source, cast(Label, key), part), skip_bad)
    row = choose_format(name_of(source), format)
    given = check_options(f"the format {row.name}", row.options, options)
    _check_source(source)
    return Pairs(name_of(source), partial(_read, source, row, given, cast(Span | None, part)), skip_bad)


def _check_source(source: Source) -> None:
    """Refuse what is no file, or is not there."""
    if isinstance(source, str | os.PathLike) and source != "-":
        if os.path.isdir(source):
            raise IsADirectoryError(f"expected a file, got the directory {os.fspath(source)}. Name the files in it.")
        if not os.path.exists(source):
            raise FileNotFoundError(f"{os.fspath(source)} does not exist.")
    elif not isinstance(source, str) and not (hasattr(source, "readline") and hasattr(source, "seekable")):
        raise BadType(f"source must be a file name, an open file or a DataFrame, got {brief(source)}.")


def _read(
    source: Source, format: Format, options: dict[str, object], span: Span | None, refuse: Refuse
) -> Iterator[Pair]:
    name = name_of(source)

    def refuse_always(line: int | None, problem: str) -> None:
        raise BadLineError(name, line, problem)

    # Where a tree or a row may span lines, the loss of one would silently make another of it.
    lines = numbered_lines(source, refuse if format.spoils == "line" else refuse_always, format.limit, span)
    try:
        yield from format.read(lines, refuse_always if format.spoils == "file" else refuse, **options)
    except BadLineError:
        raise
    except BadValue as error:  # what is wrong with the whole file
        raise BadLineError(name, None, str(error)) from None
    finally:
        lines.close()  # and with them the file, also when a reader stopped in the middle


def _pairs_of_frame(frame: Frame, format: str | None, skip_bad: bool, key: Any = None, **options: object) -> Pairs:
    if format is not None:
        raise BadValue(f"format={format!r} does not apply to a DataFrame. Omit it.")
    check_options("a DataFrame", ("key",), options)
    frame_pairs(frame, key)  # a wrong key is refused at once
    return Pairs("a DataFrame", lambda refuse: frame_pairs(frame, key), skip_bad)
