"""Commands in several processes: `--workers` starts them, or torchrun has; only the first of them speaks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from carving.cli.options import Work
from carving.cli.output import be_quiet, errors
from carving.distributed import Ranks, process_group
from carving.distributed.joining import started
from carving.distributed.launching import launch

LOST = 2  # the exit status of a command that has lost a rank


@contextmanager
def together(work: Work) -> Iterator[Ranks]:
    """The ranks that work on a command; where they are to be started, the command ends when they have done it."""
    if (work.workers or 1) > 1 and not started():
        raise typer.Exit(_in_processes(work.workers or 1))
    with process_group(work.timeout) as ranks:
        if not ranks.first:
            be_quiet()
        yield ranks


def _in_processes(workers: int) -> int:
    """Give this command again, in so many processes; the exit status."""
    ended = launch([sys.executable, "-m", "carving", *sys.argv[1:]], workers)
    if ended.signal is not None:
        errors.print(
            f"Error: worker {ended.rank} of {workers} was killed by {ended.signal}, so all others were stopped. The "
            "output file is either the old or the new one, never partly written. Run the command again.",
            markup=False,
            soft_wrap=True,
        )
        return LOST
    return ended.status
