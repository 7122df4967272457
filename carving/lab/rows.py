"""Rows: one line of JSON a trial, with all that made it, in a file that may lie there compressed."""

import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import UnionType
from typing import Any, TypedDict, cast

import numpy as np
import torch

from carving.errors import BadValue
from carving.formats import BadLineError
from carving.formats.sources import Source, numbered_lines
from carving.lab.experiment import Measured, Setting, Trial
from carving.storage.atomic import write_atomically


class Row(TypedDict):
    """What a trial gave."""

    experiment: str
    setting: Setting
    trial: int
    seed: int
    measured: Measured
    seconds: float
    threads: int
    versions: dict[str, str]


Kind = type | UnionType | dict[str, Any]
KINDS: dict[str, Kind] = {  # what reports take for granted of a row; keys tell the setting and the trial
    "setting": dict,
    "trial": int,
    "measured": {"": int | float},
    "seconds": int | float,
    "versions": {"": str},
}
BLOCK = 1 << 16


@cache
def versions() -> dict[str, str]:
    """What computed a row."""
    try:
        own = version("carving")
    except PackageNotFoundError:  # used from a folder, not installed
        own = "unknown"
    return {"carving": own, "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}


def key_of(row: Row) -> str:
    """Which trial a row is of."""
    return Trial(row["setting"], row["trial"]).key


def packed(file: Path) -> Path:
    """Where the rows of a file lie compressed."""
    return file.with_name(f"{file.name}.gz")


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, or of its compressed twin; a last line that a killed run left unfinished is cut off."""
    if file.exists():
        if file.suffix != ".gz":  # those are written whole, and have no lines to cut
            _cut_torn_line(file)
    elif packed(file).exists():
        file = packed(file)
    else:
        return []
    return list(rows_of(file, file))


def rows_of(source: Source, file: Path) -> Iterator[Row]:
    """The rows of a source, which is a file or its bytes."""

    def refuse(line: int | None, problem: str) -> None:
        raise BadLineError(str(file), line, problem)

    # Zeros stand where what was written had not reached the disk when the power failed: such a row was never finished.
    return (_row(line, number, file) for number, line in numbered_lines(source, refuse) if "\0" not in line)


def _cut_torn_line(file: Path) -> None:
    """Shorten the file to its whole lines; the end of the last one is looked for from behind."""
    with file.open("rb") as opened:
        whole = end = opened.seek(0, os.SEEK_END)
        at = -1
        while whole and at < 0:
            start = max(0, whole - BLOCK)
            opened.seek(start)
            at = opened.read(whole - start).rfind(b"\n")
            whole = start + at + 1
    if whole < end:
        os.truncate(file, whole)


def _row(line: str, number: int, file: Path) -> Row:
    try:
        row = json.loads(line)
        key_of(row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        row = None
    if row is None or not all(_is_kind(row.get(name), kind) for name, kind in KINDS.items()):
        raise BadValue(
            f"{file}, line {number}: not a row of an experiment. Remove the line, and its trial will run again."
        )
    return cast(Row, row)


def _is_kind(value: object, kind: Kind) -> bool:
    """Whether a member of a row is what it must be: a number, text, or a dict of such."""
    if isinstance(kind, dict):
        (each,) = kind.values()
        return isinstance(value, dict) and all(_is_kind(member, each) for member in value.values())
    return isinstance(value, kind) and not isinstance(value, bool)


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write a whole file at once: whoever is killed here, or loses power, loses nothing."""
    lines = ((json.dumps(row) + "\n").encode() for row in rows)
    write_atomically(file, lambda opened: opened.writelines(lines))


def discard_rows(*files: Path) -> None:
    """Throw the rows of files away, compressed or not."""
    for file in files:
        for old in (file, packed(file)):
            old.unlink(missing_ok=True)


def settings_of(rows: Sequence[Row]) -> list[Setting]:
    """The settings of rows, each once, in their order."""
    return list({json.dumps(row["setting"], sort_keys=True): row["setting"] for row in rows}.values())
