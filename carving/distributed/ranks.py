"""The ranks of a process group: exchange messages, sum in a fixed order, agree.

All communication between ranks goes through this module: tensors, and messages that execute no code. Before each
exchange a rank writes a step counter to the store of the group: if an exchange breaks because a rank died or hangs, the
counters tell which.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Union
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from carving.distributed.messages import decode, encode
from carving.errors import BadType, BadValue, UserError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")
Group = Union["ProcessGroup", "Ranks", None]  # what functions take: None is this process alone

TIMEOUT = 1800.0  # seconds that ranks wait for each other
SUM_CHUNK = 2**22  # numbers that each rank sums at a time
# torch has classes for a broken connection, gloo only words and the line of its source that failed:
BROKEN = re.compile(r"^\[\S*gloo/\S+:\d+\] |pair closure|connection (closed|reset|refused)|timed out|timeout", re.I)


@dataclass
class StepCounter:
    """The number of exchanges that this process has begun in a group, by any `Ranks`."""

    steps: int = 0


COUNTERS: WeakKeyDictionary[Any, StepCounter] = WeakKeyDictionary()  # of each group


class LostRank(UserError, RuntimeError):
    """An error: another rank died, or did not respond within the timeout of the group.

    >>> issubclass(LostRank, UserError)
    True
    """


class RankFailed(UserError, RuntimeError):
    """An error on another rank; nothing was changed on this one either.

    >>> issubclass(RankFailed, UserError)
    True
    """


class Ranks:
    """The processes of a group, numbered from 0.

    Args:
        group: A process group of `torch.distributed`, or None for this process alone.

    Raises:
        ValueError: This process does not belong to the group.

    >>> Ranks.alone().gather("dog"), Ranks.alone().rank, Ranks.alone().size
    (['dog'], 0, 1)
    """

    def __init__(self, group: "ProcessGroup | None") -> None:
        self.group, self.rank, self.size = group, 0, 1
        self.device, self._counter, self._store = torch.device("cpu"), StepCounter(), None
        if group is None:
            return
        from torch import distributed as dist

        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise BadValue("group must contain this process, got a group of other processes")
        if "nccl" in str(dist.get_backend(group)):
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._counter = COUNTERS.setdefault(group, self._counter)
        with suppress(AttributeError, RuntimeError):  # of older versions of torch, of groups without a store
            self._store = group.get_group_store()

    @classmethod
    def alone(cls) -> "Ranks":
        """Return the ranks of a single process, without a group."""
        return cls(None)

    @classmethod
    def of(cls, group: Group) -> "Ranks":
        """Return the ranks of a process group; this process alone if the group is None."""
        if isinstance(group, Ranks):
            return group
        if group is not None and not hasattr(group, "rank"):
            raise BadType(
                f"group must be a process group of torch.distributed, got {group!r}. Call "
                "torch.distributed.init_process_group and pass torch.distributed.group.WORLD."
            )
        return cls(group)

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    # Exchanges

    def exchange(self, work: Callable[[], T]) -> T:
        """Return the result of a collective operation of all ranks.

        Raises:
            LostRank: The connection broke or timed out; the message names the missing ranks. Other errors are raised
                as they are.
        """
        self._counter.steps += 1
        try:
            if self._store is not None:
                self._store.set(f"carving/{self.rank}", str(self._counter.steps))
            return work()
        except RuntimeError as error:
            if not _is_connection_error(error):
                raise
            raise LostRank(self._describe_loss(error)) from error

    def _describe_loss(self, error: RuntimeError) -> str:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        try:
            behind = [rank for rank in range(self.size) if self._steps_of(rank) < self._counter.steps]
        except RuntimeError:
            return f"Rank 0, which hosts the rendezvous store, cannot be reached any more ({reason})"
        if not behind:
            return f"The connection to another rank broke during an exchange ({reason})"
        names = " and ".join(map(str, behind))
        return (
            f"Rank {names} died or did not respond within the group's timeout; rank {self.rank} stops ({reason}). "
            "Nothing was changed. Start all ranks again."
        )

    def _steps_of(self, rank: int) -> int:
        """Return the steps of a rank, or of this rank if the group has no store."""
        key = f"carving/{rank}"
        if self._store is None:
            return self._counter.steps
        return int(self._store.get(key)) if self._store.check([key]) else 0

    def _exchange_bytes(self, parts: Sequence[bytes]) -> list[bytes]:
        """Send one part to each rank, and return what each rank sent to this one (all-to-all)."""
        from torch import distributed as dist

        lengths = torch.tensor([len(part) for part in parts], device=self.device)
        sizes = torch.empty_like(lengths)
        self.exchange(lambda: dist.all_to_all_single(sizes, lengths, group=self.group))
        data = bytearray().join(parts)
        sent = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        sent, splits = sent.to(self.device), sizes.tolist()
        received = torch.empty(sum(splits), dtype=torch.uint8, device=self.device)
        self.exchange(lambda: dist.all_to_all_single(received, sent, splits, lengths.tolist(), group=self.group))
        return [part.numpy().tobytes() for part in received.cpu().split(splits)]

    def gather(self, thing: T) -> list[T]:
        """Return the messages of all ranks, in the order of ranks; for small messages.

        Args:
            thing: None, a number, text, bytes, a tensor, an `exchangeable` record, or a list, tuple, set or dict of
                messages.
        """
        if self.group is None:
            return [thing]
        return [decode(data) for data in self._exchange_bytes([encode(thing)] * self.size)]

    def each(self, thing: T) -> Iterator[T]:
        """Yield the messages of all ranks, in the order of ranks, one at a time; for large messages."""
        for rank in range(self.size):
            yield self.from_one(rank, thing)

    def from_one(self, rank: int, thing: T) -> T:
        """Return the message of one rank on all ranks."""
        if self.group is None:
            return thing
        data = encode(thing) if rank == self.rank else b""
        received = self._exchange_bytes([b"" if other == self.rank else data for other in range(self.size)])
        return thing if rank == self.rank else decode(received[rank])

    def of_first(self, thing: T) -> T:
        """Return the message of rank 0 on all ranks, so that numbers are equal to the last bit."""
        return self.from_one(0, thing)

    def swap(self, parts: Sequence[T]) -> list[T]:
        """Send one part to each rank, and return the parts of all ranks for this one (all-to-all)."""
        if self.group is None:
            return list(parts)
        return [decode(data) for data in self._exchange_bytes(list(map(encode, parts)))]

    def to_first(self, tensor: Tensor, rank: int) -> Tensor:
        """Send the tensor of one rank to rank 0, which passes a tensor of equal shape; return it there."""
        from torch import distributed as dist

        here = tensor.to(self.device).contiguous()
        if rank == self.rank != 0:
            self.exchange(lambda: dist.send(here, group=self.group, group_dst=0))
        elif self.first and rank:
            self.exchange(lambda: dist.recv(here, group=self.group, group_src=rank))
        else:
            self.exchange(lambda: None)
        return here.to(tensor.device)

    def stack(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all ranks, which have equal shapes."""
        if self.group is None:
            return [tensor]
        from torch import distributed as dist

        own = tensor.to(self.device).contiguous()
        every = [torch.empty_like(own) for _ in range(self.size)]
        self.exchange(lambda: dist.all_gather(every, own, group=self.group))
        return [each.to(tensor.device) for each in every]

    # Sums

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum the tensors of all ranks, in place, and return the sum.

        The sum is deterministic, unlike an all-reduce, whose order of additions depends on the library: every rank
        receives its part of all tensors, adds it in the order of ranks in float64, and sends the rounded sums to all.
        It moves as many bytes as a ring all-reduce.
        """
        if self.group is not None:
            numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            flat = numbers.contiguous()
            self.exchange(lambda: self._sum_flat(flat.view(-1)))
            if not numbers.is_contiguous():
                numbers.copy_(flat)
        return tensor

    def _sum_flat(self, flat: Tensor) -> None:
        own = min(SUM_CHUNK, -(-len(flat) // self.size))  # numbers that each rank sums at a time
        sent = torch.empty(self.size * own, dtype=flat.dtype, device=self.device)
        for start in range(0, len(flat), self.size * own):
            part = flat[start : start + self.size * own]
            sent[: len(part)] = part
            sent[len(part) :] = 0
            part.copy_(self._summed_chunk(sent)[: len(part)])

    def _summed_chunk(self, sent: Tensor) -> Tensor:
        from torch import distributed as dist

        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self.group)
        parts = received.view(self.size, -1)
        total = parts[0].double()
        for part in parts[1:]:
            total += part
        dist.all_gather(list(parts), total.to(sent.dtype), group=self.group)
        return received

    # Agreement

    def check_same(self, **facts: object) -> None:
        """Check that facts are equal on all ranks.

        Raises:
            ValueError: A fact differs; the message names it and the rank.
        """
        every = self.gather({name: str(value) for name, value in facts.items()})
        for rank, theirs in enumerate(every):
            for name, expected in every[0].items():
                if theirs.get(name) != expected:
                    raise BadValue(
                        f"All ranks must have the same {name}, got {theirs.get(name)} on rank {rank} and {expected} on "
                        "rank 0. Start them with the same arguments, files and version of Carving."
                    )

    def agreed(self, work: Callable[[], T]) -> T:
        """Return the result of local work after it has succeeded on all ranks.

        The work must not communicate: other ranks would wait for one that failed.

        Raises:
            RankFailed: The work failed on another rank. On the rank itself its own error is raised.
        """
        if self.group is None:
            return work()
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:
            failure = error
        problems = self.gather(None if failure is None else f"{failure}" or type(failure).__name__)
        if failure is not None:
            raise failure
        for rank, problem in enumerate(problems):
            if problem is not None:
                raise RankFailed(f"Rank {rank} failed, and nothing was changed: {problem}")
        return result

    def of_one(self, work: Callable[[], T]) -> T:
        """Return the result of work on rank 0 on all ranks; if it fails, all ranks raise."""
        result = self.agreed(work if self.first else lambda: None)
        return self.of_first(result)  # type: ignore[return-value]  # that of the first rank is no None


def _is_connection_error(error: RuntimeError) -> bool:
    from torch import distributed as dist

    return isinstance(error, dist.DistError) or bool(not str(error).startswith("CUDA") and BROKEN.search(str(error)))


# Joining


def is_launched() -> bool:
    """Return whether this process is one of several ranks, by the environment variables of torchrun."""
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
    if not is_launched():
        yield Ranks.alone()
        return
    from torch import distributed as dist

    if dist.is_initialized():  # by the caller
        yield Ranks(dist.group.WORLD)
        return
    patience = timedelta(seconds=timeout)
    if file := os.environ.get("CARVING_STORE"):  # of `--workers`
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.FileStore(file, size)  # type: ignore[attr-defined]  # public, but not listed there
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=patience)
    else:
        dist.init_process_group("gloo", timeout=patience)
    try:
        yield Ranks(dist.group.WORLD)
    finally:
        dist.destroy_process_group()
