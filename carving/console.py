"""Output on a terminal: control characters escaped, and progress bars once the work has taken a second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from carving.validate import printable

PATIENCE = 1.0  # seconds before a bar appears


class SafeConsole(Console):
    """A console that escapes control characters in strings, which may hold labels and file names of others."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects, strings escaped."""
        super().print(*(printable(each, keep="\n") if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError; rich would exit with status 1, which has a meaning of its own here."""
        raise BrokenPipeError


@contextmanager
def bar(console: Console, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yields a function to call with each amount of work done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = display.add_task(what, total=total)
    started, is_shown = time.monotonic(), False

    def advance(more: int) -> None:
        nonlocal is_shown
        display.advance(task, more)
        if not is_shown and time.monotonic() - started > PATIENCE:
            display.start()
            is_shown = True

    try:
        yield advance
    finally:
        if is_shown:
            display.stop()
