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
    """A console whose strings steer nothing: files, labels and names of others may be within them."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as any console does."""
        super().print(*(printable(each, keep="\n") if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> None:
        """Let the caller know; rich would end the process with exit status 1, which has a meaning of its own here."""
        raise BrokenPipeError


@contextmanager
def bar(console: Console, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function to call with how much more is done, and a bar that shows it."""
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
