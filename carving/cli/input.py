"""What comes in on the command line: labels, paths, and files of pairs."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Self

import typer

from carving import formats
from carving.cli.options import Reading
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair, brief
from carving.formats.typed import is_label, path_readings
from carving.symbols.codec import Path

DELIMITERS = {r"\t": "\t", "tab": "\t"}  # what a shell makes hard to type
IN_MEMORY = 16 << 20  # bytes of a pipe


@dataclass(frozen=True)
class Files:
    """Files of pairs, one after the other; every iteration reads them anew."""

    files: list[formats.Pairs]

    @classmethod
    def open(cls, names: Sequence[str], reading: Reading) -> Self:
        """The files of these names; nothing of them is read yet, but for what can be read but once."""
        return cls([_open(name, reading) for name in names])

    @classmethod
    def shared(cls, names: Sequence[str], reading: Reading, ranks: Ranks) -> Self:
        """This rank's part of the files of these names; alone, all of them."""
        if ranks.size == 1:
            return cls.open(names, reading)
        given = reading_options(reading)
        return cls(formats.shared(names, ranks, reading.format, skip_bad=reading.skip_bad, **given).files)

    def __iter__(self) -> Iterator[Pair]:
        for file in self.files:
            yield from file

    def at_least_one(self) -> Iterator[Pair]:
        """The pairs; none at all are refused."""
        none = True
        for pair in self:
            none = False
            yield pair
        if none:
            names = ", ".join(file.name for file in self.files)
            raise BadValue(f"Nothing to store: no pairs in {names}.")

    @property
    def bad(self) -> int:
        """How many bad lines were skipped."""
        return sum(file.bad for file in self.files)


def reading_options(reading: Reading) -> dict[str, Any]:
    """The options of formats that were given."""
    options: dict[str, Any] = {}
    if reading.key is not None:
        options["key"] = reading.key
    if reading.fields:
        options["fields"] = reading.fields.split(",")
    if reading.delimiter is not None:
        options["delimiter"] = DELIMITERS.get(reading.delimiter, reading.delimiter)
    return options


def _open(name: str, reading: Reading) -> formats.Pairs:
    source: str | IO[bytes] = name
    file = FilePath(name)
    if name == "-":
        source = Kept(typer.get_binary_stream("stdin"), "standard input")
    elif file.exists() and not file.is_file() and not file.is_dir():
        with file.open("rb") as pipe:  # which can be read but once, too
            source = Kept(pipe, name)
    return formats.pairs(source, reading.format, skip_bad=reading.skip_bad, **reading_options(reading))


class Kept(SpooledTemporaryFile[bytes]):
    """What comes out of a pipe, to be read more than once: beyond some megabytes on the disk, not in memory."""

    def __init__(self, pipe: IO[bytes], name: str) -> None:
        super().__init__(max_size=IN_MEMORY)
        shutil.copyfileobj(pipe, self)
        self._source = name

    def __del__(self) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Where it came from, for errors."""
        return self._source


def read_paths(as_text: bool) -> list[list[Path]]:
    """The paths of the standard input, one a line: roles parted by tabs, or a JSON array. Each in all its readings."""
    try:
        text = typer.get_binary_stream("stdin").read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadValue(f"standard input: expected UTF-8 text, got byte {error.object[error.start]:#04x}.") from None
    lines = text.removesuffix("\n").split("\n")
    if not text.strip():
        raise BadValue(
            "standard input: expected paths, got none. Write one path per line, its roles separated by tabs."
        )
    return [_parse_path(line.removesuffix("\r"), number, as_text) for number, line in enumerate(lines, start=1)]


def _parse_path(line: str, number: int, as_text: bool) -> list[Path]:
    if not line.strip():  # an answer for each line: none may be lost
        raise BadValue(f"standard input, line {number}: expected a path, got a blank line. Remove it.")
    if line.startswith("[") and not as_text:
        try:
            roles: object = json.loads(line)
        except (ValueError, RecursionError):
            roles = None
        if not isinstance(roles, list) or not roles or not all(map(is_label, roles)):
            expected = "expected a JSON array of roles"
            raise BadValue(f"standard input, line {number}: {expected}, got {brief(line)}. --text reads it as text.")
        return [tuple(roles)]
    return path_readings(line.split("\t"), as_text)
