"""Commands in several processes, started by `--workers` or torchrun; only rank 0 prints."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import typer

from carving.cli.options import Work
from carving.cli.output import be_quiet, errors
from carving.distributed import Ranks, process_group
from carving.distributed.ranks import is_launched

LOST = 2  # the exit status of a command that has lost a rank
GRACE = 10.0  # seconds in which ranks end by themselves, once one of them has failed
POLL = 0.05
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # where ranks of one machine listen, and no other machine reaches them


@contextmanager
def together(work: Work) -> Iterator[Ranks]:
    """Join the ranks of a command; with `--workers` start them, and exit with their status when they have ended."""
    if (work.workers or 1) > 1 and not is_launched():
        raise typer.Exit(_in_processes(work.workers or 1))
    with process_group(work.timeout) as ranks:
        if not ranks.first:
            be_quiet()
        yield ranks


def _in_processes(workers: int) -> int:
    """Run this command in `workers` processes, and return the exit status."""
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


class ExitStatus(NamedTuple):
    """The exit status of a group of ranks, and the first rank that failed, if any."""

    status: int
    rank: int | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended a rank, if any."""
        return signal.Signals(-self.status).name if self.status < 0 else None


def launch(command: Sequence[str], workers: int) -> ExitStatus:
    """Run a command in several processes, which join as ranks by `process_group`, and return how they ended.

    Only the output of rank 0 is shown. If a rank fails, the others stop by themselves or are killed after 10 seconds.

    Args:
        command: The program and its arguments.
        workers: The number of processes.
    """
    folder = tempfile.mkdtemp(prefix="carving-ranks-")  # of mode 0700: a TCPStore would listen to everybody
    processes = []
    try:
        for rank in range(workers):
            environment = _environment(os.environ, rank, workers, os.path.join(folder, "store"))
            output = None if rank == 0 else subprocess.DEVNULL
            started = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output)
            processes.append(started)
        return _wait(processes)
    finally:
        _kill(processes)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(ours: Mapping[str, str], rank: int, workers: int, store: str) -> dict[str, str]:
    """Return the environment of a rank: torchrun's variables, and the file of the rendezvous store."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    loopback = {"GLOO_SOCKET_IFNAME": LOOPBACK[sys.platform]} if sys.platform in LOOPBACK else {}
    own = dict(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_WORLD_SIZE=str(workers),
        CARVING_STORE=store,
    )  # fmt: skip
    return {"OMP_NUM_THREADS": threads, **ours, **loopback, **own}


def _wait(processes: Sequence["subprocess.Popen[bytes]"]) -> ExitStatus:
    """Wait for the processes and return how they ended; when one fails, the others have GRACE seconds left."""
    first: ExitStatus | None = None
    until = float("inf")
    while time.monotonic() < until:
        statuses = [process.poll() for process in processes]
        failed = [(rank, status) for rank, status in enumerate(statuses) if status]
        if failed and first is None:
            # A killed rank comes first: the others failed because they lost it.
            rank, status = min(failed, key=lambda each: (each[1] >= 0, each[0]))
            first, until = ExitStatus(status, rank), time.monotonic() + GRACE
        if None not in statuses:
            break
        time.sleep(POLL)
    return first or ExitStatus(0)


def _kill(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Kill the processes that still run."""
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()
