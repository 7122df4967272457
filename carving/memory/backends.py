"""Backends of memories: where a state lives, and how changes reach it.

A backend has one reader (`carving.memory.reader.Reader`: a state and what follows from it) at a time, and replaces it
whole. `Memory.from_backend(backend)` is a memory in it. To write another one:

- where whole states are kept, derive from `InMemory`, and override `_put`, which a change calls with the readers before
  and after it (`CONTRIBUTING.md` has one in SQLite). `to_bytes` and `from_bytes` turn readers into bytes and back.
- otherwise derive from `Backend`: `commit` holds `lock`, runs `fill` on a `Change` of the current reader, puts the
  change where it belongs, and then shows the reader that `after` makes of it. `FileBacked` writes changes to a journal.
"""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from threading import RLock
from typing import NamedTuple, NoReturn, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.index.file import read_index, write_index
from carving.memory.capacity import CapacityMonitor
from carving.memory.counts import PathCounts, ValueCounts
from carving.memory.pairs import BATCH, Batch, OnProgress, report
from carving.memory.reader import READ_ONLY, Reader
from carving.memory.state import State
from carving.memory.update import (
    NOTHING,
    Change,
    check_weights,
    checked,
    finite_energy,
    levels_of,
    store,
    store_of_ranks,
)
from carving.quantization import Cells
from carving.schemes.base import Scheme
from carving.storage import memoryfile
from carving.storage.atomic import NotFlushed
from carving.storage.journal import Entry, JournalRecord, journal_path
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import check_replaceable, refusing_damage
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary


def check_indexable(reader: Reader, bits: int | str | None) -> None:
    """Refuse to write an index where there can be none."""
    if not reader.codebook.indexable or bits is not None:
        raise BadValue(
            "index=True requires a memory with compact fillers, not trained, OSC(..., compact=True), and not "
            "quantized. Omit it."
        )


def save(path: Place, reader: Reader, dtype: torch.dtype | None, index: bool, force: bool) -> None:
    """Write a state to a file, in this precision; with `index` also the index of its fillers, beside it."""
    if dtype in memoryfile.DTYPES.values() and dtype != reader.scheme.dtype:
        check_weights(reader, [levels_of(reader.state)], dtype=dtype)
    memoryfile.write(path, contents_of(reader.state), dtype, force)
    if index:
        write_index(path, reader.codebook.index(), reader.vocabulary, force)


def load(file: JournaledFile, device: torch.device | str = "cpu") -> tuple[Reader, Version]:
    """Return the reader of a file and its journal, and the version that was read."""
    contents, version = file.load()
    reader = Reader(state_of(contents, device))
    if reader.codebook.indexable and len(reader.vocabulary):
        reader.codebook.keep_index(read_index(file.path, reader.scheme, reader.vocabulary))
    if version.records:
        with refusing_damage(journal_path(file.path)):
            reader = replayed(reader, version.records)
    return reader, version


def to_bytes(reader: Reader) -> bytes:
    """Return the state as the bytes of a memory file, for a database or a network."""
    return memoryfile.to_bytes(contents_of(reader.state))


def from_bytes(data: bytes, device: torch.device | str = "cpu") -> Reader:
    """Return the reader of a state that `to_bytes` wrote; refuse other bytes with `BadFile`.

    >>> from carving import OSC
    >>> from_bytes(to_bytes(Reader(State.empty(OSC(d=32), Vocabulary())))).scheme.d
    32
    """
    return Reader(state_of(memoryfile.from_bytes(data), device))


def state_of(
    contents: memoryfile.MemoryContents, device: torch.device | str, vocabulary: Vocabulary | None = None
) -> State:
    """Return the state of a file without a journal; `vocabulary` has the values of a file that was saved without."""
    scheme, counts = contents.scheme.like(device=device), contents.counts
    values = contents.vocabulary if vocabulary is None else vocabulary
    assert values is not None
    if counts is None:  # each value was stored as often as the others, as far as is known
        counts = torch.full((len(values),), contents.pairs / max(1, len(values)), dtype=torch.float64)
    state = State(
        scheme=scheme,
        tensor=contents.tensor if isinstance(contents.tensor, Tensor) else torch.empty(0),
        vocabulary=values,
        value_counts=ValueCounts(counts),
        trained=contents.fillers,
        path_counts=None if contents.paths is None else PathCounts(contents.paths),
        sample=contents.sample,
        target=contents.target,
        calibration=contents.solved,
    )
    if isinstance(contents.tensor, Cells):
        return with_cells(state, contents.tensor.to(scheme.device))
    return replace(state, tensor=state.tensor.to(scheme.device))


def with_cells(state: State, cells: Cells) -> State:
    """Return the state quantized to cells."""
    numbers = cells.numbers(state.scheme.dtype)
    tensor = torch.view_as_complex(numbers) if state.scheme.facts.memory_dtype.is_complex else numbers
    return replace(state, tensor=tensor, cells=cells)


def contents_of(state: State, vocabulary: bool = True) -> memoryfile.MemoryContents:
    """Return what is written of a state, with or without its values."""
    if state.trained is not None and not vocabulary:
        raise BadValue("vocabulary=False would lose the values that the trained fillers belong to. Omit it.")
    sample = state.sample
    if state.cells is not None:
        sample = replace(sample.histogram(state.stored), values=sample.values)
    return memoryfile.MemoryContents(
        scheme=state.scheme,
        tensor=state.tensor if state.cells is None else state.cells,
        vocabulary=state.vocabulary if vocabulary else None,
        counts=state.counts if vocabulary else None,
        pairs=state.pairs,
        fillers=state.trained,
        target=state.target,
        paths=None if state.path_counts is None else state.path_counts.weights(),
        sample=sample,
        solved=state.calibration,
    )


def replayed(reader: Reader, records: Iterable[JournalRecord], *, bind: bool = True) -> Reader:
    """Return the reader with all changes of a journal; without `bind` they are counted, but not in the tensor yet."""
    change = Change(reader)
    for batch, weights, is_counted in _batches(records):
        if bind:
            change.bind(batch, weights)
        change.count(batch, weights, is_counted)
    return change.after()


def bind_records(reader: Reader, records: Iterable[JournalRecord]) -> Reader:
    """Return the reader with a tensor that has changes which are counted already."""
    change = Change(reader)
    for batch, weights, _ in _batches(records):
        change.bind(batch, weights)
    return reader.after(replace(reader.state, tensor=change.tensor), finite_energy(reader.scheme, change.tensor))


def _batches(records: Iterable[JournalRecord]) -> Iterator[tuple[Batch, Sequence[float], Sequence[bool]]]:
    """Yield the pairs of records in batches, with the weight of each and whether it is counted."""
    entries = chain.from_iterable(record.decoded() for record in records)
    while part := list(islice(entries, BATCH)):
        paths, values, weights, is_counted = zip(*part, strict=True)
        yield Batch(list(zip(paths, values, strict=True))), weights, is_counted


T = TypeVar("T")

SAFE_WEIGHTS = 1e5  # a sum of weights: more may be too much for the weights before, which the tensor's energy tells
LARGE_WEIGHT = 1e6  # more may be too much for the tensor's numbers, which is seen when they are added
MODIFIED = (
    "The memory was modified while store() or forget() was consuming its input. Pass a list instead of a generator "
    "that modifies it."
)
_with_locks: WeakSet["Backend"] = WeakSet()


def _renew_locks() -> None:
    """Give each backend a new lock: the thread that holds the old one is not in the child process."""
    for backend in _with_locks:
        backend.make_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Backend(ABC):
    """Where the state of a memory lives.

    Attributes:
        repeats: Whether `commit` may call `fill` several times.
        monitor: What warns of overfull memories.
        lock: What changes of this process hold.
    """

    repeats = False

    def __init__(self) -> None:
        self.monitor = CapacityMonitor()
        self.make_lock()

    def make_lock(self) -> None:
        """Make the lock that changes of this process hold."""
        self.lock = RLock()
        _with_locks.add(self)  # of no effect if it is there already, as while locks are renewed

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """The reader of the current state."""

    @property
    def counted(self) -> Reader:
        """A reader whose counts are up to date, though its tensor may not be."""
        return self.reader

    @abstractmethod
    def commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> T:
        """Make a change, and return what `fill` returns.

        Args:
            fill: Called with a `Change` of the current reader, to which it adds pairs; possibly again, if another
                process was faster. A change without pairs is dropped.
            stores: Whether the change only adds pairs, so that the memory may get over capacity.
        """

    @abstractmethod
    def transform(self, make: Callable[[Reader], Reader]) -> None:
        """Replace the reader by one that is made of it, by other means than a change."""

    def store(self, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None = None) -> int:
        """Store batches of pairs, which may be read once only, and return their number."""
        return self.commit(lambda change: store(change, parts, weight, on_progress), stores=True)

    def after(self, change: Change, stores: bool) -> Reader:
        """Return the reader after a change; warn if it gets over capacity."""
        after = checked(change)
        if stores:
            self.monitor.check(change.before, after)
        else:
            self.monitor.reset()
        return after


class InMemory(Backend):
    """A state in this process alone."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader

    @property
    def reader(self) -> Reader:
        """The reader of the current state."""
        return self._reader

    def commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> T:
        """Make a change, and return what `fill` returns."""
        with self.lock:
            change = Change(self._reader)
            result = fill(change)
            if change.pairs:
                self._put(change.before, self.after(change, stores))
        return result

    def transform(self, make: Callable[[Reader], Reader]) -> None:
        """Replace the reader by one that is made of it."""
        with self.lock:
            before = self._reader
            after = make(before)
            if after is not before:
                self.monitor.reset()
                self._put(before, after)

    def _put(self, before: Reader, after: Reader) -> None:
        """Replace the reader: one assignment, which happens or does not. To keep it elsewhere, too, override this."""
        if self._reader is not before:
            raise BadValue(MODIFIED)
        self._reader = after


class Replicated(InMemory):
    """A state that every rank holds: each stores its own pairs, and all get those of all ranks."""

    def store(self, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None = None) -> int:
        """Store the pairs of all ranks, and return their number."""
        ranks = self._reader.ranks
        return self.commit(lambda change: store_of_ranks(change, parts, weight, ranks, on_progress), stores=True)


class ReadOnly(InMemory):
    """A state that does not change."""

    def commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> NoReturn:
        """Refuse."""
        raise BadValue(READ_ONLY)

    def transform(self, make: Callable[[Reader], Reader]) -> NoReturn:
        """Refuse."""
        raise BadValue(READ_ONLY)


class Snapshot(NamedTuple):
    """What is known of a file at one moment: replaced whole, as states are."""

    reader: Reader  # its tensor lacks
    pending: tuple[JournalRecord, ...]  # these changes, which are counted and on disk
    version: Version  # of the file

    def counting(self, reader: Reader, records: Iterable[JournalRecord], version: Version) -> "Snapshot":
        """Return the snapshot with more changes, which the reader counts, but its tensor does not have."""
        return Snapshot(reader, (*self.pending, *records), version)


class FileBacked(Backend):
    """A state in a file and its journal, which any number of processes change in turn.

    Args:
        path: The memory file.
        device: Device of the tensor.
    """

    repeats = True  # if another process was faster

    def __init__(self, path: Place, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.file, self._device = JournaledFile(path), device
        self.now = self._loaded()
        check_replaceable(self.file.path, "memory", None)  # which a read-only file is not
        self._tried = 0  # changes with which the journal was last too long, and could not be made shorter

    def _loaded(self) -> Snapshot:
        reader, version = load(self.file, self._device)
        return Snapshot(reader, (), version)

    @property
    def reader(self) -> Reader:
        """The reader of what was last read, with all its changes in the tensor."""
        now = self.now
        if now.pending:
            with self.lock:
                now = self.now
                if now.pending:
                    now = self.now = now._replace(reader=bind_records(now.reader, now.pending), pending=())
        return now.reader

    @property
    def counted(self) -> Reader:
        """The reader of what was last read; changes may not be in the tensor yet."""
        return self.now.reader

    def refresh(self) -> None:
        """Read the changes that others have made, without waiting for changes in progress."""
        with self.lock:
            self._look_again()
            self.file.accept_doubt()

    def store(self, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None = None) -> int:
        """Write pairs to the journal, to be bound at the next query; write the whole file if there are many."""
        pairs, version = chain.from_iterable(parts), self.now.version
        most = version.max_pairs(self.counted.scheme.facts.memory_scalars)
        first = list(islice(pairs, most + 1))  # before it is our turn: they may come slowly
        if not first:
            raise BadValue(NOTHING)
        if len(first) > most or abs(weight) > LARGE_WEIGHT:
            return self._store_whole(chain(first, pairs), weight, on_progress)
        batch, scheme = Batch(first), self.counted.scheme
        check_depths(scheme, batch.paths)
        record = JournalRecord.of(entries_of(batch, weight))
        if len(record.body) > version.max_bytes:
            return self._store_whole(iter(first), weight, on_progress)
        while True:
            with self._turn():
                # Trained fillers may be too large for the tensor's numbers, which is seen when they are added.
                at_once = self.counted.state.trained is not None
                at_once = at_once or not 1 / SAFE_WEIGHTS <= abs(weight) <= SAFE_WEIGHTS / len(batch)
                change = Change(self.reader if at_once else self.counted)
                if at_once:
                    change.add(batch, weight)
                else:
                    change.count(batch, weight)
                if self._append(self.after(change, stores=True), record, at_once):
                    break
        report(on_progress, len(batch))
        return len(batch)

    def _store_whole(self, pairs: Iterator[Pair], weight: float, on_progress: OnProgress | None) -> int:
        with self._turn():
            change = Change(self.reader)
            stored = store(change, iter(lambda: list(islice(pairs, BATCH)), []), weight, on_progress)
            if self.reader is not change.before:
                raise BadValue(MODIFIED)
            self._write_base(self.after(change, stores=True))
        return stored

    def commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> T:
        """Make a change, write it to the journal, and return what `fill` returns."""
        while True:
            with self._turn():
                change = Change(self.reader, journaled=True)
                result = fill(change)
                if not change.pairs:
                    return result
                after, record = self.after(change, stores), JournalRecord.of(change.entries or ())
                if max(change.sizes) > LARGE_WEIGHT or self._is_long(record):
                    self._write_base(after)
                    return result
                if self._append(after, record, at_once=True):
                    return result

    def transform(self, make: Callable[[Reader], Reader]) -> NoReturn:
        """Refuse what a journal cannot record."""
        raise BadValue(
            "A memory from carving.open() is file-backed and changes only by store(), forget() and replace(): it "
            "cannot be consolidated or assigned to. Use Memory.load(file) for a detached copy, and save it."
        )

    def compact(self) -> int:
        """Write the whole file, and return the number of changes that the journal had."""
        with self._turn():
            changes = self.now.version.changes
            if changes:
                self._write_base(self.reader)
        return changes

    def _is_long(self, more: JournalRecord | None = None) -> bool:
        """Whether the journal, with another record, is long enough for a new base."""
        return self.now.version.is_long(self.counted.scheme.facts.memory_scalars, more)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the file's write lock, with all changes of others known."""
        # The file's lock before our own: whoever has the first may be waiting for the second.
        with self.file.turn(), self.lock:
            self._look_again()
            yield

    def _look_again(self) -> None:
        now = self.now
        version = self.file.read_new(now.version)
        if version is None:
            self.now = self._loaded()
        elif version.records:
            with refusing_damage(journal_path(self.file.path)):
                reader = replayed(now.reader, version.records, bind=False)
            self.now = now.counting(reader, version.records, version)
        else:
            self.now = now._replace(version=version)

    def _append(self, reader: Reader, record: JournalRecord, at_once: bool) -> bool:
        """Put a change on disk, and in its place; False if another user was faster, and it must be looked at again."""
        now = self.now
        version = self.file.append(now.version, record)
        if version is None:
            return False
        self.now = Snapshot(reader, (), version) if at_once else now.counting(reader, [record], version)
        if version.changes > 2 * self._tried and self._is_long():
            try:
                self._write_base(self.reader)
            except OSError as error:  # the change is made all the same
                self._tried = version.changes
                warnings.warn(
                    f"{shown(self.file.path)} could not be compacted ({shown(error)}). Its changes stay in the "
                    "journal.",
                    NotFlushed,
                    stacklevel=3,
                )
        return True

    def _write_base(self, reader: Reader) -> None:
        state = reader.state
        dtype = memoryfile.precision(self.file.path, state.tensor)
        try:
            check_weights(reader, [levels_of(state)], dtype=dtype)
        except BadValue:  # then the file gets wider numbers
            dtype = None
        version = self.file.write(contents_of(state), dtype)
        if dtype is not None and dtype != state.scheme.dtype:  # others read what is rounded
            reader = reader.after(replace(state, tensor=memoryfile.rounded(state.tensor, dtype)))
        self.now = Snapshot(reader, (), version)


def check_depths(scheme: Scheme, paths: Paths) -> None:
    """Refuse paths that a scheme has no contexts for, which depends on their length alone."""
    scheme.contexts(list({len(path): path for path in paths}.values()))


def entries_of(batch: Batch, weight: float = 1.0) -> list[Entry]:
    """Return the entries of a change that stores pairs with a weight."""
    return [Entry(path, value, weight) for path, value in zip(batch.paths.names, batch.names, strict=True)]
