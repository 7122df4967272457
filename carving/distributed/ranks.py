"""The ranks of a process group: gather, sum in a fixed order, agree.

All communication between ranks goes through this module: tensors, and JSON messages, so that no rank can make another
execute code. Before each exchange a rank writes a step counter to the store of the group: if an exchange breaks because
a rank died or hangs, the counters tell which.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar, Union
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from carving.distributed.sums import sum_in_order
from carving.errors import BadType, BadValue, UserError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")


Group = Union["ProcessGroup", "Ranks", None]  # what functions take: None is this process alone


@dataclass
class Steps:
    """How many exchanges a process has begun in a group, whoever counts them."""

    done: int = 0


BROKEN = re.compile(r"^\[\S*gloo/\S+:\d+\] |pair closure|connection (closed|reset|refused)|timed out|timeout", re.I)
STEPS: WeakKeyDictionary[Any, Steps] = WeakKeyDictionary()  # of each group


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
        self.device, self._steps, self._store = torch.device("cpu"), Steps(), None
        self.waited = 0.0  # seconds that exchanges took, those included in which others were not there yet
        if group is None:
            return
        from torch import distributed as dist

        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise BadValue("group must contain this process, got a group of other processes")
        if "nccl" in str(dist.get_backend(group)):
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._store, self._steps = _store_of(group), STEPS.setdefault(group, self._steps)

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
            LostRank: The connection broke; the message names the missing ranks.
        """
        self._steps.done += 1
        start = time.perf_counter()
        try:
            if self._store is not None:
                self._store.set(f"carving/{self.rank}", str(self._steps.done))
            return work()
        except RuntimeError as error:
            if not _of_connection(error):
                raise
            raise LostRank(self._lost(error)) from error
        finally:
            self.waited += time.perf_counter() - start

    def _lost(self, error: RuntimeError) -> str:
        behind = self._behind()
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if behind is None:
            return f"Rank 0, which hosts the rendezvous store, cannot be reached any more ({reason})"
        if not behind:
            return f"The connection to another rank broke during an exchange ({reason})"
        names = " and ".join(map(str, behind))
        return (
            f"Rank {names} died or did not respond within the group's timeout; rank {self.rank} stops ({reason}). "
            "Nothing was changed. Start all ranks again."
        )

    def _behind(self) -> list[int] | None:
        """Return the ranks that are behind this one, None if the store cannot be reached."""
        if self._store is None:
            return []
        try:
            return [rank for rank in range(self.size) if self._step_of(rank) < self._steps.done]
        except RuntimeError:
            return None

    def _step_of(self, rank: int) -> int:
        assert self._store is not None
        key = f"carving/{rank}"
        return int(self._store.get(key)) if self._store.check([key]) else 0

    def _numbers(self, numbers: list[int]) -> list[list[int]]:
        """Return the lists of numbers of all ranks, which have equal lengths."""
        if self.group is None:
            return [numbers]
        from torch import distributed as dist

        own = torch.tensor(numbers, dtype=torch.int64, device=self.device)
        every = [torch.empty_like(own) for _ in range(self.size)]
        self.exchange(lambda: dist.all_gather(every, own, group=self.group))
        return [each.tolist() for each in every]

    def gather(self, thing: T) -> list[T]:
        """Return the messages of all ranks, in the order of ranks; for small messages.

        Args:
            thing: None, a number, text, bytes, a tensor, an `exchangeable` record, or a list, tuple, set or dict of
                messages.
        """
        if self.group is None:
            return [thing]
        from torch import distributed as dist

        data = _packed(thing)
        sizes = [size for (size,) in self._numbers([len(data)])]
        own = torch.zeros(max(sizes), dtype=torch.uint8)
        own[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        own = own.to(self.device)
        every = [torch.empty_like(own) for _ in range(self.size)]
        self.exchange(lambda: dist.all_gather(every, own, group=self.group))
        return [_unpacked(each[:size]) for each, size in zip(every, sizes, strict=True)]

    def each(self, thing: T) -> Iterator[T]:
        """Yield the messages of all ranks, in the order of ranks, one at a time; for large messages."""
        if self.group is None:
            yield thing
            return
        data = _packed(thing)
        sizes = [size for (size,) in self._numbers([len(data)])]
        for rank, size in enumerate(sizes):
            if rank == self.rank:
                self._broadcast(torch.frombuffer(bytearray(data), dtype=torch.uint8), rank)
                yield thing
            else:
                yield _unpacked(self._broadcast(torch.empty(size, dtype=torch.uint8), rank))

    def _broadcast(self, tensor: Tensor, rank: int) -> Tensor:
        """Return the tensor of one rank on all ranks, on the CPU."""
        from torch import distributed as dist

        here = tensor.to(self.device)
        self.exchange(lambda: dist.broadcast(here, group=self.group, group_src=rank))
        return here.cpu()

    def from_one(self, rank: int, thing: T) -> T:
        """Return the message of one rank on all ranks."""
        if self.group is None:
            return thing
        data = bytearray(_packed(thing) if rank == self.rank else b"")
        size = self._numbers([len(data)])[rank][0]
        given = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(size, dtype=torch.uint8)
        given = self._broadcast(given, rank)
        return thing if rank == self.rank else _unpacked(given)

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

    def swap(self, parts: Sequence[T]) -> list[T]:
        """Send one part to each rank, and return the parts of all ranks for this one (all-to-all)."""
        if self.group is None:
            return list(parts)
        from torch import distributed as dist

        data = [_packed(part) for part in parts]
        sizes = [theirs[self.rank] for theirs in self._numbers([len(each) for each in data])]
        sent = torch.frombuffer(bytearray(b"".join(data)), dtype=torch.uint8).to(self.device)
        received = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
        lengths = list(map(len, data))
        self.exchange(lambda: dist.all_to_all_single(received, sent, sizes, lengths, group=self.group))
        return [_unpacked(each) for each in received.split(sizes)]

    def of_first(self, thing: T) -> T:
        """Return the message of rank 0 on all ranks, so that numbers are equal to the last bit."""
        return self.gather(thing)[0]

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum the tensors of all ranks, in place, and return the sum.

        The sum is deterministic: added in the order of ranks, in float64, and rounded once. It moves as many bytes as a
        ring all-reduce.
        """
        if self.group is None:
            return tensor
        self.exchange(lambda: sum_in_order(self, tensor))
        return tensor

    def stack(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all ranks, which have equal shapes."""
        if self.group is None:
            return [tensor]
        from torch import distributed as dist

        own = tensor.to(self.device).contiguous()
        every = [torch.empty_like(own) for _ in range(self.size)]
        self.exchange(lambda: dist.all_gather(every, own, group=self.group))
        return [each.to(tensor.device) for each in every]

    # Agreement

    def check_same(self, **facts: object) -> None:
        """Check that facts are equal on all ranks.

        Raises:
            ValueError: A fact differs; the message names it and the rank.
        """
        for rank, theirs in enumerate(every := self.gather(_shown(facts))):
            differ = [name for name in every[0] if theirs.get(name) != every[0][name]]
            if differ:
                name = differ[0]
                raise BadValue(
                    f"All ranks must have the same {name}, got {theirs.get(name)} on rank {rank} and {every[0][name]} "
                    "on rank 0. Start them with the same arguments, files and version of Carving."
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


def _shown(facts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in facts.items()}


def _of_connection(error: RuntimeError) -> bool:
    """Return whether a connection failed: torch has classes for that, gloo words and the line that failed."""
    from torch import distributed as dist

    return isinstance(error, dist.DistError) or bool(not str(error).startswith("CUDA") and BROKEN.search(str(error)))


def _store_of(group: "ProcessGroup") -> Any:
    """Return the store of the group, None if torch does not tell."""
    from torch.distributed import distributed_c10d

    try:
        return distributed_c10d._get_process_group_store(group)
    except (AttributeError, KeyError, RuntimeError):
        return None


# Messages: JSON, in which what JSON does not have is an object of one key, the name of its kind

PLAIN = {type(None), bool, int, float, str}
RECORDS: dict[str, type] = {}


def exchangeable(*kinds: type) -> None:
    """Let ranks exchange records of these classes, by their fields."""
    RECORDS.update({kind.__name__: kind for kind in kinds})


def _packed(message: object) -> bytes:
    return json.dumps(_plain(message)).encode()


def _unpacked(data: Tensor) -> Any:
    return json.loads(data.cpu().numpy().tobytes(), object_hook=_of_kind)


def _plain(message: Any) -> Any:
    """Return the message as JSON has it."""
    name = type(message).__name__
    if message is None or isinstance(message, bool | int | float | str):
        return message
    if isinstance(message, bytes):
        return {"bytes": _text(message)}
    if isinstance(message, Tensor):
        octets = message.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"tensor": [str(message.dtype).removeprefix("torch."), list(message.shape), _text(octets)]}
    if RECORDS.get(name) is type(message):
        return {"record": [name, _plain(_fields(message))]}
    if isinstance(message, Mapping):
        return {"dict": [_plain(list(message)), _plain(list(message.values()))]}
    if isinstance(message, tuple | set):
        return {"tuple" if isinstance(message, tuple) else "set": _plain(list(message))}
    if isinstance(message, list):
        return _plain_list(message)
    raise BadType(
        f"message must be of a type that ranks can exchange (see Ranks.gather), got {message!r} of type {name}"
    )


def _plain_list(message: list[Any]) -> Any:
    """Return a list as JSON has it: of many items of one kind, what is the same of all stands there once."""
    kinds = set(map(type, message))
    if kinds <= PLAIN:
        return message
    if kinds == {bytes}:
        return {"many bytes": [_text(b"".join(message)), [0, *accumulate(map(len, message))]]}
    if kinds == {tuple} and len(set(map(len, message))) == 1 and message[0]:
        return {"rows": [_plain(list(column)) for column in zip(*message, strict=True)]}
    return list(map(_plain, message))


def _of_kind(tagged: dict[str, Any]) -> Any:
    """Return what an object of one key stands for."""
    ((kind, given),) = tagged.items()
    match kind:
        case "bytes":
            return base64.b64decode(given)
        case "many bytes":
            data = base64.b64decode(given[0])
            return [data[start:end] for start, end in pairwise(given[1])]
        case "tensor":
            octets = bytearray(base64.b64decode(given[2]))
            dtype = getattr(torch, given[0])
            flat = torch.frombuffer(octets, dtype=dtype) if octets else torch.empty(0, dtype=dtype)
            return flat.reshape(given[1])
        case "record":
            record: Any = object.__new__(RECORDS[given[0]])
            vars(record).update(given[1])
            return record
        case "dict":
            return dict(zip(*given, strict=True))
        case "rows":
            return list(zip(*given, strict=True))
    return set(given) if kind == "set" else tuple(given)


def _fields(record: Any) -> dict[str, Any]:
    names = [field.name for field in fields(record)] if is_dataclass(record) else vars(record)
    return {name: getattr(record, name) for name in names}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
