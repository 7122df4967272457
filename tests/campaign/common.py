"""What every part of the campaign does alike: its options, its table, its figures in a file and its exit status."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

Row = dict[
    str, object
]  # at least: what was attacked, how often it was tried, how often that failed, some of the failures
SHOWN = 5  # failures of a row that are told


def row(what: str, tried: int, failures: list[str], **more: object) -> Row:
    """The row of something that was tried so often."""
    return dict(what=what, tried=tried, failed=len(failures), **more, failures=failures[:SHOWN])


def share(tries: int, names: Sequence[str]) -> int:
    """How many tries each of these gets, so that they are as many at least."""
    return -(-tries // len(names))


def options(text: str | None, size: str, default: int) -> argparse.ArgumentParser:
    """The options of a part whose size is so many tries, steps or seconds."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{size}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="of what the table lists; all by default")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    return parser


def show(title: str, rows: list[Row]) -> None:
    """A table of what was tried, and what failed in words."""
    table, names = Table(title=title, title_justify="left"), [name for name in rows[0] if name != "failures"]
    for name in names:
        table.add_column(name, justify="left" if name == "what" else "right")
    for each in rows:
        table.add_row(
            *(f"{value:,}" if isinstance(value, int | float) else str(value) for value in map(each.get, names))
        )
    console = Console()
    console.print(table)
    for each in rows:
        for failure in each["failures"]:
            console.print(f"{each['what']}: {failure}", markup=False, soft_wrap=True)


def run(title: str, work: Callable[[], list[Row]], out: Path | None = None) -> int:
    """Do it, show it, write its figures; the exit status, 1 if anything failed or nothing was tried."""
    begun, out = time.monotonic(), None if out is None else out.resolve()  # work may change the folder
    rows = work()
    show(title, rows)
    if out:
        figures = dict(title=title, seconds=round(time.monotonic() - begun), rows=rows)
        out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(each["failed"] or not each["tried"] for each in rows))


def ends(title: str, work: Callable[[], list[Row]], out: Path | None = None) -> None:
    """The same as the end of a process."""
    sys.exit(run(title, work, out))
