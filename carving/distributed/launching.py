"""Launching ranks on one machine: start the processes, wait for them, and report the first that failed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

GRACE = 10.0  # seconds in which ranks end by themselves, once one of them has failed
POLL = 0.05
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # where ranks of one machine listen, and no other machine reaches them


class Ended(NamedTuple):
    """The exit status of a group of ranks, and the first rank that failed, if any."""

    status: int
    rank: int | None = None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended a rank, if any."""
        return signal.Signals(-self.status).name if self.status < 0 else None


def launch(command: Sequence[str], workers: int) -> Ended:
    """Run a command in several processes, which join as ranks by `process_group`, and return how they ended.

    Only the output of rank 0 is shown. If a rank fails, the others stop by themselves or are killed after 10 seconds.

    Args:
        command: The command line.
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
        return _waited_for(processes)
    finally:
        _end(processes)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(ours: Mapping[str, str], rank: int, workers: int, store: str) -> dict[str, str]:
    """What tells a process which rank it is, as torchrun does, and by which file it finds the others."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    loopback = {"GLOO_SOCKET_IFNAME": LOOPBACK[sys.platform]} if sys.platform in LOOPBACK else {}
    own = dict(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_WORLD_SIZE=str(workers),
        CARVING_STORE=store,
    )  # fmt: skip
    return {"OMP_NUM_THREADS": threads, **ours, **loopback, **own}


def _waited_for(processes: Sequence["subprocess.Popen[bytes]"]) -> Ended:
    """How the processes ended: when one has failed, the others have a moment left."""
    first: Ended | None = None
    until = float("inf")
    while time.monotonic() < until:
        statuses = [process.poll() for process in processes]
        failed = [(rank, status) for rank, status in enumerate(statuses) if status]
        if failed and first is None:
            # One that was killed explains the others, which have lost it.
            rank, status = min(failed, key=lambda each: (each[1] >= 0, each[0]))
            first, until = Ended(status, rank), time.monotonic() + GRACE
        if None not in statuses:
            break
        time.sleep(POLL)
    return first or Ended(0)


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """End what still runs."""
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()
