"""No more room and no more time than is stated."""

import contextlib
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE = 10  # times as long by the clock as by the processor, on a machine that others use as well


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
    """What it gives, or "too slow" if it takes so many seconds of the processor, or far more of waiting."""

    def stop(*_: object) -> None:
        raise TooSlowError

    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, stop) for number in timers}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
    try:
        return run()
    except TooSlowError:
        return "too slow"
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
