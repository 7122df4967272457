"""Files that several processes read, each its part: lines, groups of rows, or whole files.

The bytes of all files, one after the other, are cut into parts of one size. A line, a group of rows or a file that
cannot be cut belongs to the part in which it begins: so nothing is lost or read twice, and the parts in their order
give the pairs in the files' order.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from carving.distributed.ranks import Group, Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.formats.parquet import bytes_of_groups, is_parquet
from carving.formats.reading import Pairs, pairs
from carving.formats.registry import choose_format
from carving.formats.sources import COMPRESSIONS, Span, ending_of, lines_within

Place = str | os.PathLike[str]


class Piece(NamedTuple):
    """What a part has of a file."""

    file: int
    span: Span | None = None  # bytes, of a file of lines
    groups: tuple[int, ...] | None = None  # groups of rows, of a Parquet file; else it is the whole file


class Shared:
    """The pairs of files that fall to a rank; every iteration reads them anew. `shared` makes it."""

    def __init__(self, files: list[Pairs]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            yield from file

    @property
    def bad(self) -> int:
        """How many bad lines were skipped in this rank's part."""
        return sum(file.bad for file in self.files)


def shared(
    files: Sequence[Place], group: Group, format: str | None = None, *, skip_bad: bool = False, **options: object
) -> Shared:
    """Return this rank's part of the pairs of files.

    JSON lines, pairs and triples are divided by byte ranges, Parquet by row groups. Files of other formats and
    compressed files go to one rank each.

    Args:
        files: Names of the files, identical on all ranks.
        group: The process group; None for a single process.
        format: The format of the files; None derives it from their names.
        skip_bad: Count malformed lines in `.bad` instead of raising.
        options: The options of `pairs`.

    Raises:
        BadValue: If a file is not a regular file, or the ranks name different files.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "graph.tsv")
    >>> _ = file.write_bytes(b"dog\\tis a\\tanimal\\n")
    >>> list(shared([file], group=None))
    [(('dog', 'is a'), 'animal')]
    """
    ranks = Ranks.of(group)
    sizes = ranks.agreed(lambda: [_size(file) for file in files])
    ranks.check_same(files=[f"{os.fspath(file)} ({size} bytes)" for file, size in zip(files, sizes, strict=True)])
    own = ranks.agreed(lambda: list(pieces(files, sizes, format, ranks.rank, ranks.size)))
    numbered = _numbered(files, own, ranks)
    return Shared(
        [
            pairs(files[piece.file], format, skip_bad=skip_bad, part=piece.span or piece.groups, **options)
            for piece in numbered
        ]
    )


def _size(file: Place) -> int:
    if os.fspath(file) == "-" or (os.path.exists(file) and not os.path.isfile(file)):
        raise BadValue(
            f"Several processes can only share files, got {file}. Save it to a file, or read it with one process."
        )
    if not os.path.exists(file):
        raise FileNotFoundError(f"{os.fspath(file)} does not exist.")
    return os.path.getsize(file)


def pieces(files: Sequence[Place], sizes: Sequence[int], format: str | None, number: int, of: int) -> Iterator[Piece]:
    """Yield the pieces of the files that belong to part `number` of `of`, in their order."""
    total = sum(sizes)
    first, last = (total * each // of for each in (number, number + 1))
    starts = [0, *accumulate(sizes)]
    for file, (name, start, size) in enumerate(zip(files, starts, sizes, strict=False)):
        if start > last or (start + size < first):
            continue
        if is_parquet(name, format):
            groups = _groups(name, start, size, total, number, of)
            if groups:
                yield Piece(file, groups=groups)
        elif _splits(name, format):
            span = Span(max(0, first - start), min(size, last - start))
            if span.stop > span.start:
                yield Piece(file, span)
        elif owner(start, total, of) == number:
            yield Piece(file)


def owner(position: int, total: int, of: int) -> int:
    """The part in which a byte lies; what lies behind all bytes is in the last.

    >>> [owner(position, 10, 3) for position in (0, 2, 3, 5, 6, 9, 10)]
    [0, 0, 1, 1, 2, 2, 2]
    """
    return next((part for part in range(of) if position < total * (part + 1) // of), of - 1)


def _splits(name: Place, format: str | None) -> bool:
    return ending_of(os.fspath(name)) not in COMPRESSIONS and choose_format(os.fspath(name), format).splits


def _groups(name: Place, start: int, size: int, total: int, number: int, of: int) -> tuple[int, ...]:
    """The groups of rows that begin in a part, each taking its share of the file's bytes."""
    sizes = bytes_of_groups(name)
    begins = [0, *accumulate(sizes)]
    return tuple(
        group
        for group in range(len(sizes))
        if owner(start + size * begins[group] // max(1, begins[-1]), total, of) == number
    )


def _numbered(files: Sequence[Place], own: list[Piece], ranks: Ranks) -> list[Piece]:
    """The pieces, whose spans know how many lines there are before: each rank counts its own."""
    counts = ranks.agreed(lambda: {p.file: lines_within(files[p.file], p.span) for p in own if p.span is not None})
    before = ranks.gather(counts)[: ranks.rank]
    return [
        piece
        if piece.span is None
        else piece._replace(span=piece.span._replace(before=sum(lines.get(piece.file, 0) for lines in before)))
        for piece in own
    ]
