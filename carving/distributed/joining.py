"""Joining the process group that `torchrun`, or `carving ... --workers`, has started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from carving.distributed.ranks import Ranks

TIMEOUT = 1800.0  # seconds that ranks wait for each other


def started() -> bool:
    """Whether this process is one of several ranks, by the environment variables of torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextmanager
def process_group(timeout: float = TIMEOUT) -> Iterator[Ranks]:
    """Join the process group that torchrun has started; a context manager that gives the `Ranks`.

    Without torchrun the ranks are this process alone. A process group that is already initialized is used as it is.

    Args:
        timeout: Seconds that ranks wait for each other.

    >>> with process_group() as ranks:
    ...     ranks.rank, ranks.size
    (0, 1)
    """
    if not started():
        yield Ranks.alone()
        return
    from torch import distributed as dist
    from torch._C._distributed_c10d import FileStore

    if dist.is_initialized():  # by who calls us
        yield Ranks(dist.group.WORLD)
        return
    patience = timedelta(seconds=timeout)
    if file := os.environ.get("CARVING_STORE"):  # of `--workers`
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = FileStore(file, size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)
    else:
        dist.init_process_group("gloo", timeout=patience)
    try:
        yield Ranks(dist.group.WORLD)
    finally:
        dist.destroy_process_group()
