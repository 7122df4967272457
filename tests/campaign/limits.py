"""No more room and no more time than is stated."""

import contextlib
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path


class TooSlowError(BaseException):
    """A try that takes too long; no reader may catch it."""


@contextlib.contextmanager
def limits(room: int) -> Iterator[None]:
    """Let this process take so many bytes beyond what it has, where the system tells how many that are."""
    there = Path("/proc/self/statm")
    before = resource.getrlimit(resource.RLIMIT_AS)
    if there.exists():
        pages = int(there.read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def timed(run: Callable[[], str], seconds: float) -> str:
    """What it gives, or "too slow"."""

    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return run()
    except TooSlowError:
        return "too slow"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
