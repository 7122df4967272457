"""Progress bars for people: shown on a terminal, and only once the work has taken a second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
