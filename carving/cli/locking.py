"""Whose turn it is to write a file: commands wait for each other, and say so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath

from carving.distributed import Ranks
from carving.storage.locks import check_target
from carving.storage.locks import locked as locked_file


@contextmanager
def locked(file: FilePath, ranks: Ranks | None = None) -> Iterator[None]:
    """Only one command at a time changes a file: the next one waits, so that no one's pairs are lost.

    Of several ranks the first takes the turn, and the others begin when it has it.
    """
    if ranks is not None and not ranks.first:
        ranks.gather(None)
        yield
        return
    check_target(file)
    with locked_file(file):
        if ranks is not None:
            ranks.gather(None)
        yield
