"""What people see on a terminal: progress bars once the work has taken a second, and tables whose numbers are whole."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def bar(console: Console, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function to call with how much more is done, and a bar that shows it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = display.add_task(what, total=total)
    started, visible = time.monotonic(), False

    def advance(more: int) -> None:
        nonlocal visible
        display.advance(task, more)
        if not visible and time.monotonic() - started > PATIENCE:
            display.start()
            visible = True

    try:
        yield advance
    finally:
        if visible:
            display.stop()


def number_table(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    """A table of columns by their headers; all but the first hold numbers. A number that is cut off says another."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, (header, cells) in enumerate(columns.items()):
        if place == 0:
            table.add_column(header)
        else:
            table.add_column(header, justify="right", min_width=max(map(len, [header, *cells])))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table
