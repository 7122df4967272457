"""What people see on a terminal: text of others made harmless, progress bars once the work has taken a second, and
tables whose numbers are whole."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

PATIENCE = 1.0  # seconds before a bar appears


def visible(text: str, kept: str = "") -> str:
    r"""The text with every character that would steer a terminal (or turn its letters round) as an escape.

    >>> print(visible("red \x1b[31m, left \u202e"))
    red \x1b[31m, left \u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


class SafeConsole(Console):
    """A console whose strings steer nothing: files, labels and names of others may be within them."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as any console does."""
        super().print(*(visible(each, "\n") if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> None:
        """Let the caller know; rich would end the process with exit status 1, which has a meaning of its own here."""
        raise BrokenPipeError


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
