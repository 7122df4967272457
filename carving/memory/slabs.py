"""Slabs: a memory sharded over the ranks of torch.distributed; each holds some rows of the tensor's first mode."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from carving.distributed.ranks import Group, RankFailed, Ranks
from carving.errors import BadValue, refused
from carving.formats.documents import Pair
from carving.memory.backends import InMemory, contents_of, state_of
from carving.memory.memory import Memory
from carving.memory.pairs import Batch, OnProgress
from carving.memory.reader import Reader
from carving.memory.sharding import facts_of
from carving.memory.state import State, keeping
from carving.memory.update import Change, store
from carving.schemes.base import Scheme
from carving.schemes.slab import RowShard, check_sliceable, rows_of
from carving.storage import journal, memoryfile
from carving.storage.locks import Place, shown
from carving.storage.memoryfile import MemoryContents
from carving.storage.tensorfile import CHUNK, check_replaceable, raw_bytes
from carving.symbols.codec import Labels, Value, parse_paths, split_labels
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices

WHOLE = "A memory that is sharded over ranks cannot be {}. Save it, and load it with Memory.load(file)."


class RowSharded(InMemory):
    """A state of which every rank holds some rows of the tensor: all ranks store the pairs of all."""

    def store(self, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None = None) -> int:
        """Store the pairs of all ranks in their order; if one rank fails, no rank's memory changes."""
        change, ranks = Change(self.reader), _part_of(self.reader).ranks
        stored = store(change, of_all(parts, ranks), weight, on_progress)
        after = ranks.agreed(lambda: self.after(change, stores=True))  # which knows the energy of all rows
        self._put(change.before, after)
        return stored


class RowShardedMemory(Memory):
    """A memory whose tensor is sharded over ranks: each of n holds d / n slabs of d^(p-1) cells, and all values.

    Queries, answers and files are those of `Memory`. All ranks must make the same calls in the same order, in one
    thread: each stores its own pairs, and all pass the same queries. Properties, `predicted_accuracy` and `repr` do not
    communicate, so a single rank may read them; `tensor` has this rank's rows (rows, *scheme.facts.memory_shape[1:]).

    Args:
        scheme: The scheme of the whole memory.
        group: A process group of torch.distributed.
        vocabulary: Values that are known before anything is stored.
        keep_paths: Also keep the stored paths.

    Raises:
        BadValue: If the scheme's memory cannot be divided into slabs, or the ranks pass different arguments.

    >>> from carving import OSC
    >>> from carving.distributed import process_group
    >>> with process_group() as ranks:  # of one process, unless torchrun started more
    ...     memory = RowShardedMemory(OSC(d=40, p=3), ranks)
    ...     stored = memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}} if ranks.first else [])
    ...     stored, memory.recall("dog", "says").value
    (2, 'woof')
    """

    def __init__(
        self, scheme: Scheme, group: Group, vocabulary: Iterable[Value] = (), *, keep_paths: bool = False
    ) -> None:
        part = RowShard(check_sliceable(scheme), Ranks.of(group))
        state = State.empty(part, Vocabulary(vocabulary), path_counts=keeping(keep_paths))
        self._backend = RowSharded(Reader(state, energy=0.0))
        part.ranks.check_same(**facts_of(self._reader), values=len(self.vocabulary))

    @property
    def ranks(self) -> Ranks:
        """The ranks that share the tensor."""
        return _part_of(self._reader).ranks

    def __repr__(self) -> str:
        whole, rows = _part_of(self._reader).whole, _part_of(self._reader).rows
        held = f"{self.pairs:,} pairs and {len(self.vocabulary):,} values in {whole}"
        return f"Slabs of {held}, rows {rows.start} to {rows.stop - 1} of {whole.d} on rank {self.ranks.rank}"

    forget = refused(WHOLE.format("changed by forgetting"))
    merge = refused(WHOLE.format("added to"))
    grow = refused(WHOLE.format("grown"))
    consolidate = refused(WHOLE.format("consolidated"))
    quantize = refused(WHOLE.format("quantized"))
    __add__ = __radd__ = refused(WHOLE.format("added"))

    def save(self, path: Place, *, force: bool = False) -> None:  # type: ignore[override]
        """Save the memory to one file, atomically: the file that a `Memory` of the same pairs writes.

        The first rank writes it. No process holds the whole tensor: slabs pass through an unnamed temporary file in the
        same folder, which takes as much disk space again.

        Args:
            path: Name of the file.
            force: Replace a file that is not a memory, or is read-only.
        """
        held, ranks = self._reader, self.ranks
        spool = ranks.agreed(lambda: _spool(path, force) if ranks.first else None)
        contents = replace(contents_of(held.state), scheme=_part_of(held).whole, tensor=_spooled(held, spool))
        ranks.of_one(lambda: memoryfile.write(path, contents, force=force))

    @classmethod
    def load(cls, path: Place, group: Group) -> Self:  # type: ignore[override]
        """Load a memory from a file. Every rank reads all of it, for the checksum, and keeps its own rows.

        Args:
            path: Name of the file.
            group: A process group of torch.distributed.

        Raises:
            BadFile: If the file is corrupt, or not a memory.
            BadValue: If the file has a journal, or its memory was consolidated or cannot be divided.
        """
        ranks = Ranks.of(group)
        contents = ranks.agreed(lambda: _read(path, ranks))
        ranks.check_same(file=f"{shown(path)} ({contents.checksum})")
        part = RowShard(check_sliceable(contents.scheme), ranks)
        state = state_of(replace(contents, scheme=part), part.device)
        return cls.from_backend(RowSharded(Reader(state, energy=part.squared_norm(state.tensor))))


def of_all(parts: Iterable[list[Pair]], ranks: Ranks) -> Iterator[list[Pair]]:
    """Yield the batches of one rank after the other, on all ranks; if one rank fails, all fail."""
    own = iter(parts)
    for rank in range(ranks.size):
        while True:
            batch, paths, values, failure = list[Pair](), list[bytes](), b"", None
            if rank == ranks.rank:
                try:
                    batch = next(own, [])
                    named = Batch(batch)
                    paths, values = list(named.paths.names), b"".join(named.names)
                except Exception as error:
                    failure = error
            paths, values, problem = ranks.from_one(rank, (paths, values, None if failure is None else str(failure)))
            if failure is not None:
                raise failure
            if problem is not None:
                raise RankFailed(f"Rank {rank} failed, and nothing was changed: {problem}")
            if not paths:
                break
            parsed = map(Labels().__getitem__, split_labels(values))
            yield batch or list(zip(parse_paths(paths), parsed, strict=True))


def _part_of(held: Reader) -> RowShard:
    assert isinstance(held.scheme, RowShard)
    return held.scheme


def _spool(path: Place, force: bool) -> BinaryIO:
    """Return an unnamed file in the folder of a file that may be written."""
    check_replaceable(path, "memory", force)
    return tempfile.TemporaryFile(dir=FilePath(os.path.realpath(path)).parent)


def _spooled(held: Reader, spool: BinaryIO | None) -> Tensor:
    """Return the rows of all ranks as a tensor mapped from the first rank's file; empty on the other ranks."""
    part, own = _part_of(held), held.tensor.cpu()
    ranks, shape, failure = part.ranks, part.whole.facts.memory_shape, None
    for rank in range(ranks.size):
        there = rows_of(rank, ranks.size, shape[0])
        for some in slices(there.stop - there.start, max(1, CHUNK // own[0].numel())):
            given = own[some] if rank == ranks.rank else own.new_empty(some.stop - some.start, *shape[1:])
            given = ranks.to_first(given, rank)
            try:
                if spool is not None and failure is None:
                    spool.write(raw_bytes(given))
            except OSError as error:  # the others are still sending
                failure = error
    ranks.agreed(lambda: _raised(failure))
    if spool is None:
        return own.new_empty(0)
    with spool:  # what is mapped stays there when the file is closed
        spool.flush()
        return torch.from_numpy(np.memmap(spool, own.numpy().dtype, "c", shape=shape))


def _raised(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


def _read(path: Place, ranks: Ranks) -> MemoryContents:
    """Read a rank's rows of a file; refuse one with a journal."""
    if (changes := journal.read(path)) is not None and changes.count:
        raise BadValue(
            f"{shown(path)} has changes in a journal, which a sharded memory cannot read. Write them into the file "
            "first: carving.open(file).compact()."
        )
    contents = memoryfile.read(path, part=lambda total: rows_of(ranks.rank, ranks.size, total))
    check_sliceable(contents.scheme)
    if contents.solved is not None:
        raise BadValue(
            f"{shown(path)} was consolidated; a sharded memory must be a plain sum of its pairs. Use Memory.load(file)."
        )
    return contents
