"""Numbers of threads while experiments run. They belong to the process: nothing else in the library sets them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from carving.optional import load


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Give torch this number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Give one thread to torch and to the BLAS of NumPy and SciPy, so that times can be compared."""
    with threads(1), load("threadpoolctl").threadpool_limits(1):
        yield
