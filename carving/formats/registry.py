"""The formats, one a row: the endings of its files, what reads and what writes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple

from carving.errors import BadValue
from carving.formats.anypairs import read_pairs, show_pairs
from carving.formats.brackets import read_trees, show_trees
from carving.formats.conllu import read_conllu, show_conllu
from carving.formats.documents import Container, Document, Pair, bounded, brief, flatten_under, is_numbered, rebuild
from carving.formats.jsons import DOCUMENT, read_json, read_json_lines, show_json, show_json_lines
from carving.formats.sources import COMPRESSIONS, LINE, Limit, Lines, Refuse, ending_of
from carving.formats.tables import read_table, show_table
from carving.formats.triples import read_triples, show_triples
from carving.symbols.codec import Label

Reader = Callable[..., Iterator[Pair]]
Writer = Callable[..., Iterator[str]]


class Format(NamedTuple):
    """A file format of pairs. `FORMATS[name] = Format(name, ...)` makes it known to `pairs`, `write` and commands.

    Attributes:
        name: What `format=` and `--format` call it.
        endings: Endings of file names, such as ".ini", in lower case; compressed files have a second one.
        read: A generator `read(lines, refuse, **options)` of pairs. `lines` yields (number from 1, text with its line
            end), decompressed and decoded. `refuse(number, problem)` reports a bad line, and returns if bad lines are
            skipped: yield nothing for it, and go on. `BadValue` says what is wrong with the whole file.
        write: A generator `write(pairs, **options)` of text, piece by piece. It refuses pairs that the format cannot
            hold by `BadValue`: what is read again is equal.
        spoils: What a bad line makes unreadable: "line", the record around it, or the whole file.
        options: Names of the options of reading and writing; each may be absent. Commands know those that exist.
        limit: The longest line.
        splits: Whether every line stands for itself, so that a file can be read in parts.

    >>> FORMATS["table"].endings, FORMATS["table"].options
    (('.csv',), ('key', 'delimiter'))
    """

    name: str
    endings: tuple[str, ...]
    read: Reader
    write: Writer
    spoils: Literal["line", "record", "file"]
    options: tuple[str, ...] = ()
    limit: Limit = LINE
    splits: bool = False


def _flattened(read: Callable[..., Iterable[tuple[Label, Document]]]) -> Reader:
    """A reader of documents with their names as one of pairs."""
    return lambda lines, refuse, **options: flatten_under(read(lines, refuse=refuse, **options))


def _rebuilt(show: Callable[..., str]) -> Writer:
    """A writer of documents with their names as one of pairs."""

    def write(pairs: Iterable[Pair], **options: object) -> Iterator[str]:
        pairs = iter(pairs)
        first = next(pairs, None)
        yield show([] if first is None else _check_named(rebuild(chain([first], pairs))), **options)

    return write


def _check_named(documents: Document) -> Container:
    # A dict with the keys 0 .. n-1 was marked as one by a pair, for which such files have no room.
    is_marked = isinstance(documents, dict) and is_numbered(documents)
    if isinstance(documents, dict | list) and documents and not is_marked:
        return documents
    raise BadValue(
        f"The first role of every path must be the name of a document or its number from 0, got {brief(documents)}. "
        "Use the format json for other documents, or pairs (.pairs) for any pairs."
    )


def _read_trees(lines: Lines, refuse: Refuse) -> Iterator[Pair]:
    """The pairs of trees, numbered from 0."""
    size = 0

    def counted() -> Iterator[tuple[int, str]]:
        nonlocal size
        for number, line in lines:
            size += len(line)
            yield number, line

    return bounded(flatten_under(enumerate(read_trees(counted(), refuse))), lambda: size)


FORMATS = {
    format.name: format
    for format in (
        Format(name="json", endings=(".json",), read=read_json, write=show_json, spoils="file", limit=DOCUMENT),
        Format(
            name="jsonl",
            endings=(".jsonl", ".ndjson"),
            read=read_json_lines,
            write=_rebuilt(show_json_lines),
            spoils="line",
            splits=True,
        ),
        Format(name="pairs", endings=(".pairs",), read=read_pairs, write=show_pairs, spoils="line", splits=True),
        Format(name="triples", endings=(".tsv",), read=read_triples, write=show_triples, spoils="line", splits=True),
        Format(
            name="table",
            endings=(".csv",),
            read=_flattened(read_table),
            write=_rebuilt(show_table),
            spoils="record",
            options=("key", "delimiter"),
        ),
        Format(
            name="conllu",
            endings=(".conllu",),
            read=_flattened(read_conllu),
            write=_rebuilt(show_conllu),
            spoils="line",
            options=("fields",),
        ),
        Format(
            name="brackets",
            endings=(".mrg", ".ptb", ".brackets"),
            read=_read_trees,
            write=_rebuilt(show_trees),
            spoils="record",
        ),
    )
}


def choose_format(name: str, format: str | None, option: str = "format") -> Format:
    """The format that was asked for, or else the one that the file's name tells."""
    if format is not None:
        if format not in FORMATS:
            raise BadValue(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
        return FORMATS[format]
    plain = name.lower()
    plain = plain.removesuffix(ending_of(plain)) if ending_of(plain) in COMPRESSIONS else plain
    for row in FORMATS.values():
        if plain.endswith(row.endings):
            return row
    endings = ", ".join(ending for row in FORMATS.values() for ending in row.endings)
    raise BadValue(
        f"Unknown file format: {name} has no known ending ({endings}, each also with "
        f"{', '.join(COMPRESSIONS)}). Pass {option}, one of {', '.join(FORMATS)}."
    )


def check_options(kind: str, known: tuple[str, ...], options: Mapping[str, object]) -> dict[str, object]:
    """The options that were given; one that the kind of source does not have is refused."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise BadValue(f"{kind} has no option {name}. Its options: {' and '.join(known) or 'none'}.")
    return given
