"""Whose turn it is to write a file: commands wait for each other, and say so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath

from filelock import Timeout

from carving.cli.output import errors
from carving.distributed import Ranks
from carving.files import lock_for


@contextmanager
def locked(file: FilePath, ranks: Ranks | None = None) -> Iterator[None]:
    """Only one command at a time changes a file: the next one waits, so that no one's pairs are lost.

    Of several ranks the first takes the turn, and the others begin when it has it.
    """
    if ranks is not None and not ranks.first:
        ranks.gather(None)
        yield
        return
    lock = lock_for(file)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        errors.print(f"waiting for another command that writes {file}", markup=False)
        lock.acquire()
    try:
        if ranks is not None:
            ranks.gather(None)
        yield
    finally:
        lock.release()
