"""Rows: one line of JSON a trial, with all that made it, in a file that may lie there compressed."""

import gzip
import json
import platform
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch

from carving.errors import BadValue
from carving.lab.experiment import Measured, Setting, Trial


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
        text = _without_torn_line(file)
    elif packed(file).exists():
        text = gzip.decompress(packed(file).read_bytes()).decode()
    else:
        return []
    return [_row(line, number, file) for number, line in enumerate(text.splitlines(), start=1)]


def _without_torn_line(file: Path) -> str:
    whole, _, torn = file.read_bytes().rpartition(b"\n")
    if torn:
        with file.open("r+b") as opened:
            opened.truncate(len(whole) + 1 if whole else 0)
    return whole.decode()


def _row(line: str, number: int, file: Path) -> Row:
    try:
        row: Row = json.loads(line)
        key_of(row)
    except (ValueError, KeyError, TypeError):
        raise BadValue(f"line {number} of {file} is no row; remove the line, and its trial runs again") from None
    return row


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write a whole file at once: whoever is killed here loses nothing."""
    other = file.with_name(f".{file.name}.new")
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    other.replace(file)


def discard_rows(file: Path) -> None:
    """Throw the rows of a file away, compressed or not."""
    for old in (file, packed(file)):
        old.unlink(missing_ok=True)


def settings_of(rows: Sequence[Row]) -> list[Setting]:
    """The settings of rows, each once, in their order."""
    return list({json.dumps(row["setting"], sort_keys=True): row["setting"] for row in rows}.values())
