"""Slabs: a memory that does not fit into one process: each rank holds some rows of its tensor's first mode."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from carving import files, journal
from carving.checks import check_weight
from carving.chunks import slices
from carving.distributed.ranks import Group, RankFailed, Ranks
from carving.errors import BadValue, refused
from carving.files import Contents
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import Change, OnProgress, checked, report
from carving.memory.codebook import check_finite
from carving.memory.fullness import told
from carving.memory.inventory import Inventory
from carving.memory.pairs import Batch, batches
from carving.memory.reliability import Reliability
from carving.memory.sharing import facts_of
from carving.memory.state import State, keeping
from carving.memory.storage import contents_of, state_of
from carving.packing import parse_paths
from carving.places import Place, shown
from carving.scheme import Scheme
from carving.schemes.slab import Slab, check_sliceable, rows_of
from carving.symbols import Label, Leaf, parse_labels
from carving.tensorfiles import AT_ONCE, raw_bytes
from carving.vocabulary import Vocabulary

WHOLE = "a memory that is spread over ranks stores and answers, and cannot be {}; save it, and Memory.load(file) can"


class Slabs(Inventory, Reliability):
    """A memory whose tensor is spread over ranks: each holds d / n slabs of d^(p-1) numbers, and all of the labels.

    All ranks do the same: they store (each its own pairs) and ask (all the same questions) in the same order, in one
    thread. Questions, and their answers, are those of `Memory`; files are the same files. Properties, `predicted` and
    `repr` exchange nothing, so that one rank alone may read them.

    >>> from carving import OSC
    >>> from carving.distributed import joined
    >>> with joined() as ranks:  # of one process, unless torchrun started more
    ...     memory = Slabs(OSC(d=40, p=3), ranks)
    ...     stored = memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}} if ranks.first else [])
    ...     stored, memory.recall("dog", "says").leaf
    (2, 'woof')
    """

    def __init__(
        self, scheme: Scheme, group: Group, vocabulary: Iterable[Leaf] = (), *, keep_paths: bool = False
    ) -> None:
        """An empty memory, spread over the ranks of a process group of torch.distributed."""
        part = Slab(check_sliceable(scheme), Ranks.of(group))
        self._state = replace(State.empty(part, Vocabulary(vocabulary), known=keeping(keep_paths)), norm=0.0)
        part.ranks.check_same(**facts_of(self._state), leaves=len(self.vocabulary))

    @property
    def ranks(self) -> Ranks:
        """The ranks that it is spread over."""
        return _part_of(self._state).ranks

    @property
    def tensor(self) -> Tensor:
        """This rank's own rows."""
        return self._state.tensor

    def __repr__(self) -> str:
        whole, rows = _part_of(self._state).whole, _part_of(self._state).rows
        held = f"{self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {whole}"
        return f"Slabs of {held}, rows {rows.start} to {rows.stop - 1} of {whole.d} on rank {self.ranks.rank}"

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Store the pairs of all ranks, of which each gives its own, none of them possibly; the number of all.

        Every rank makes the contexts and fillers of all pairs, and binds them to its own rows. The order is that of
        the ranks, so that everything is as if one process had stored their pairs one after the other. What fails on one
        rank changes nothing on any.
        """
        held, ranks = self._state, self.ranks
        change = Change(held, check_weight(weight))
        what = iter(()) if isinstance(what, list) and not what else what
        for pairs in of_all(batches(what, key), ranks):
            change.add(Batch(pairs))
            report(on_progress, len(pairs))
        ranks.agreed(lambda: check_finite("the memory", change.tensor))
        self._state = _measured(told(held, checked(change)))
        return change.pairs

    forget = refused(WHOLE.format("made to forget"))
    absorb = refused(WHOLE.format("added to"))
    grow = refused(WHOLE.format("grown"))
    consolidate = refused(WHOLE.format("consolidated"))
    seal = refused(WHOLE.format("sealed"))
    __add__ = __radd__ = refused(WHOLE.format("added"))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the file that a `Memory` of the same pairs writes, whole or not at all.

        The first rank writes it. The slabs go through a file without a name in the same folder, for which there must be
        room as well: no process ever holds the whole tensor.
        """
        held, ranks = self._state, self.ranks
        spool = ranks.agreed(lambda: _spool(path, force) if ranks.first else None)
        contents = replace(contents_of(held), scheme=_part_of(held).whole, tensor=_spooled(held, spool))
        ranks.of_one(lambda: files.write(path, contents, force=force))

    @classmethod
    def load(cls, path: str | os.PathLike[str], group: Group) -> Self:
        """The memory of a file, which every rank looks through, for its checksum, and keeps its own rows of."""
        ranks = Ranks.of(group)
        contents = ranks.agreed(lambda: _read(path, ranks))
        ranks.check_same(file=f"{shown(path)} ({contents.checksum})")
        loaded = cls.__new__(cls)
        part = Slab(check_sliceable(contents.scheme), ranks)
        loaded._state = _measured(state_of(replace(contents, scheme=part), part.device))
        return loaded


def of_all(parts: Iterable[list[Pair]], ranks: Ranks) -> Iterator[list[Pair]]:
    """The batches of all ranks, of one after the other; where one fails to give its own, all of them fail."""
    own = iter(parts)
    for rank in range(ranks.size):
        while True:
            batch, paths, leaves, failure = list[Pair](), list[bytes](), b"", None
            if rank == ranks.rank:
                try:
                    batch = next(own, [])
                    named = Batch(batch)
                    paths, leaves = list(named.paths.names), b"".join(named.names)
                except Exception as error:
                    failure = error
            paths, leaves, problem = ranks.from_one(rank, (paths, leaves, None if failure is None else str(failure)))
            if failure is not None:
                raise failure
            if problem is not None:
                raise RankFailed(f"Rank {rank} failed, and nothing was changed: {problem}")
            if not paths:
                break
            yield batch or list(zip(parse_paths(paths), parse_labels(leaves), strict=True))


def _part_of(held: State) -> Slab:
    assert isinstance(held.scheme, Slab)
    return held.scheme


def _measured(held: State) -> State:
    """Return the state with the squared norm of all slabs, so that its properties need no other rank."""
    return replace(held, norm=held.energy)


def _spool(path: Place, force: bool) -> BinaryIO:
    """A file without a name, in the folder of one that may be written."""
    files.check_replaceable(path, "memory", force)
    return tempfile.TemporaryFile(dir=FilePath(os.path.realpath(path)).parent)


def _spooled(held: State, spool: BinaryIO | None) -> Tensor:
    """The rows of all ranks in the first one's file, as a tensor that lies there; the others have none."""
    part, own = _part_of(held), held.tensor.cpu()
    ranks, shape, failure = part.ranks, part.whole.facts.memory_shape, None
    for rank in range(ranks.size):
        there = rows_of(rank, ranks.size, shape[0])
        for some in slices(there.stop - there.start, max(1, AT_ONCE // own[0].numel())):
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


def _read(path: Place, ranks: Ranks) -> Contents:
    """A rank's rows of a file; changes that lie beside it would be missing."""
    if (changes := journal.read(path)) is not None and changes.count:
        raise BadValue(
            f"{shown(path)} has changes in a journal beside it, which only a whole memory reads; `carving compact` "
            "writes them into the file"
        )
    contents = files.read(path, lambda total: rows_of(ranks.rank, ranks.size, total))
    check_sliceable(contents.scheme)
    if contents.solved is not None:
        raise BadValue(f"{shown(path)} was consolidated, and slabs are sums; Memory.load reads it whole")
    return contents
