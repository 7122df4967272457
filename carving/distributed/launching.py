"""Ranks on one machine, started by the process that a person has started: it waits for them, and says who has died."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

GRACE = 10.0  # seconds in which ranks end by themselves, once one of them has failed
POLL = 0.05
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # by which ranks of one machine find each other, whatever its name


class Ended(NamedTuple):
    """How ranks ended: the exit status of all, and the first that failed, if one did."""

    status: int
    rank: int | None = None

    @property
    def signal(self) -> str | None:
        """The signal that ended a rank, if one did."""
        return signal.Signals(-self.status).name if self.status < 0 else None


def launch(command: Sequence[str], workers: int) -> Ended:
    """Run a command in so many processes, which `joined` makes ranks of; only the first one's output is shown.

    When one fails, the others end within moments: by themselves, because an exchange breaks, or because they must.
    """
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # which outlives any rank
    processes = []
    try:
        for rank in range(workers):
            environment = _environment(os.environ, rank, workers, store.port)
            output = None if rank == 0 else subprocess.DEVNULL
            started = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output)
            processes.append(started)
        return _waited_for(processes)
    finally:
        _end(processes)
        del store


def _environment(ours: Mapping[str, str], rank: int, workers: int, port: int) -> dict[str, str]:
    """What tells a process which rank it is, as torchrun does, and that the launcher holds the store."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    loopback = {"GLOO_SOCKET_IFNAME": LOOPBACK[sys.platform]} if sys.platform in LOOPBACK else {}
    own = dict(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(workers), LOCAL_WORLD_SIZE=str(workers),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), CARVING_STORE="launcher",
    )  # fmt: skip
    return {"OMP_NUM_THREADS": threads, **loopback, **ours, **own}


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
