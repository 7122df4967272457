"""One thread for everything that counts: torch, and what numpy and scipy multiply with.

Steps of few points are so short that threads would spend them waiting for each other, most of all where other programs
want the processor too: a fit of 800 points then took four times as long with two threads as with one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from carving.extras import load
from carving.tensors import threads

_taken = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Where there is one. The limits are those of the process: whoever sets them lifts them, and others let them be."""
    if not _taken.acquire(blocking=False):
        yield
        return
    try:
        with threads(1), load("threadpoolctl").threadpool_limits(1):
            yield
    finally:
        _taken.release()
