"""File-backed memories: what is stored or forgotten is on disk when the call returns."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import NamedTuple, NoReturn, Self, TypeVar

import torch

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.memory.capacity import CapacityMonitor
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, Batch, OnProgress, report
from carving.memory.reader import Reader
from carving.memory.state import State
from carving.memory.storage import bind_records, contents_of, load, replayed
from carving.memory.update import NOTHING, Change, check_weights, checked, levels_of, store
from carving.schemes.base import Scheme
from carving.storage import memoryfile
from carving.storage.atomic import NotFlushed
from carving.storage.journal import Entry, JournalRecord
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import check_replaceable
from carving.symbols.paths import Paths

T = TypeVar("T")

SAFE_WEIGHTS = 1e5  # a sum of weights: more may be too much for the weights before, which the tensor's energy tells
LARGE_WEIGHT = (
    1e6  # a weight that is larger may be too much for the tensor's numbers, which is seen when they are added
)


class Snapshot(NamedTuple):
    """What is known of a file at one moment: replaced whole, as states are."""

    reader: Reader  # its tensor lacks
    pending: tuple[JournalRecord, ...]  # these changes, which are counted and on disk
    version: Version  # of the file

    def counting(self, reader: Reader, records: Iterable[JournalRecord], version: Version) -> "Snapshot":
        """Return the snapshot with more changes, which the reader counts, but its tensor does not have."""
        return Snapshot(reader, (*self.pending, *records), version)


class Opened(Memory):
    """A file-backed memory, as `carving.open` returns it: changes are written to its file at once.

    Queries are those of `Memory`. Any number of processes may have one file open: each change takes the file's lock and
    first reads the changes of others. Between its own changes a memory answers from what it read last; `refresh` reads
    again.

    Args:
        path: Name of the memory file, which must exist.
        device: Device of the memory.

    Raises:
        BadFile: If the file is corrupt, or not a memory.
        PermissionError: If the file is read-only.

    >>> from carving import OSC, Memory
    >>> Memory(OSC(d=32, p=2)).save("facts.safetensors")
    >>> with Opened("facts.safetensors") as memory:
    ...     memory.store({"dog": {"says": "woof"}})
    ...     memory.changes, memory.compact(), memory.changes
    1
    (1, 1, 0)
    """

    def __init__(self, path: Place, device: torch.device | str = "cpu") -> None:
        self._file, self._device, self._monitor = JournaledFile(path), device, CapacityMonitor()
        self._make_lock()
        self._now = self._loaded()
        check_replaceable(self.path, "memory", None)  # which a read-only file is not
        self._tried = 0  # changes with which the journal was last too long, and could not be made shorter

    def _loaded(self) -> Snapshot:
        reader, version = load(self._file, self._device)
        return Snapshot(reader, (), version)

    @property
    def path(self) -> FilePath:
        """The absolute path of the memory file."""
        return self._file.path

    @classmethod
    def _of(cls, reader: Reader) -> Self:
        return Memory._of(reader)  # type: ignore[return-value]  # what is made of it has no file

    def __reduce__(self) -> tuple[object, ...]:
        return _detached, (self._reader.state,)  # nor has a copy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory: further changes raise BadValue. Changes up to now are on disk already."""
        self._file.close()

    # What is there

    @property
    def _reader(self) -> Reader:  # type: ignore[override]
        now = self._now
        if now.pending:
            with self._lock:
                now = self._now
                if now.pending:
                    now = self._now = now._replace(reader=bind_records(now.reader, now.pending), pending=())
        return now.reader

    @property
    def _counted(self) -> Reader:
        return self._now.reader

    def _put(self, before: Reader, after: Reader) -> NoReturn:
        raise BadValue(
            "A memory from carving.open() is file-backed and changes only by store(), forget() and replace(). Use "
            "Memory.load(file) for a detached copy."
        )

    @property
    def changes(self) -> int:
        """The number of changes in the journal, which are not in the file itself yet."""
        return self._now.version.changes

    def refresh(self) -> None:
        """Read the changes that others have made, without waiting for changes in progress."""
        with self._lock:
            self._look_again()
            self._file.accept_doubt()

    # Changes

    def _store(self, parts: Iterable[list[Pair]], weight: float, ranks: Ranks, on_progress: OnProgress | None) -> int:
        """Write pairs to the journal, and bind them at the next query; write the whole file if there are many."""
        pairs = chain.from_iterable(parts)
        most = self._now.version.max_pairs(self.scheme.facts.memory_scalars)
        first = list(islice(pairs, most + 1))  # before it is our turn: they may come slowly
        if not first:
            raise BadValue(NOTHING)
        if len(first) > most or abs(weight) > LARGE_WEIGHT:
            return self._store_whole(chain(first, pairs), weight, on_progress)
        batch = Batch(first)
        check_paths(self.scheme, batch.paths)
        record = JournalRecord.of(entries_of(batch, weight))
        if len(record.body) > self._now.version.max_bytes:
            return self._store_whole(iter(first), weight, on_progress)
        while True:
            with self._turn():
                # Trained fillers may be too large for the tensor's numbers, which is seen when they are added.
                at_once = self._now.reader.state.trained is not None
                at_once = at_once or not 1 / SAFE_WEIGHTS <= abs(weight) <= SAFE_WEIGHTS / len(batch)
                before = self._reader if at_once else self._now.reader
                change = Change(before)
                if at_once:
                    change.add(batch, weight)
                else:
                    change.count(batch, weight)
                after = checked(change)
                self._monitor.check(before, after)
                if self._wrote(after, record, at_once):
                    break
        report(on_progress, len(batch))
        return len(batch)

    def _store_whole(self, pairs: Iterator[Pair], weight: float, on_progress: OnProgress | None) -> int:
        with self._turn():
            before = self._reader
            change = Change(before)
            stored = store(change, iter(lambda: list(islice(pairs, BATCH)), []), weight, on_progress)
            if self._reader is not before:
                raise BadValue(
                    "The memory was modified while store() was consuming its input. Pass a list instead of a generator "
                    "that modifies it."
                )
            after = checked(change)
            self._monitor.check(before, after)
            self._write_base(after)
        return stored

    def _commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> T:
        while True:
            with self._turn():
                change = Change(self._reader, journaled=True)
                result = fill(change)
                if not change.pairs:
                    return result
                after, record = checked(change), JournalRecord.of(change.entries or ())
                self._monitor.reset()
                if max(change.sizes) > LARGE_WEIGHT or self._is_long(record):
                    self._write_base(after)
                    return result
                if self._wrote(after, record, at_once=True):
                    return result

    def consolidate(self, *_: object, **__: object) -> NoReturn:
        """Not supported: raises BadValue. Consolidate a detached copy, `Memory.load(file)`, and save it."""
        raise BadValue(
            "A memory from carving.open() cannot be consolidated: it changes only by store() and forget(). "
            "Consolidate a detached copy, Memory.load(file), and save it."
        )

    def compact(self) -> int:
        """Compact the journal: write the whole file, and return the number of changes that the journal had."""
        with self._turn():
            changes = self.changes
            if changes:
                self._write_base(self._reader)
        return changes

    def _is_long(self, more: JournalRecord | None = None) -> bool:
        """Whether the journal, with another record, is long enough for a new base."""
        return self._now.version.is_long(self.scheme.facts.memory_scalars, more)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the file's write lock, with all changes of others known."""
        # The file's lock before our own: whoever has the first may be waiting for the second.
        with self._file.turn(), self._lock:
            self._look_again()
            yield

    def _look_again(self) -> None:
        now = self._now
        version = self._file.read_new(now.version)
        if version is None:
            self._now = self._loaded()
        elif version.records:
            self._now = now.counting(replayed(now.reader, version.records, bind=False), version.records, version)
        else:
            self._now = now._replace(version=version)

    def _wrote(self, reader: Reader, record: JournalRecord, at_once: bool) -> bool:
        """Put a change on disk, and in its place; False if another user was faster, and it must be looked at again."""
        now = self._now
        version = self._file.append(now.version, record)
        if version is None:
            return False
        self._now = Snapshot(reader, (), version) if at_once else now.counting(reader, [record], version)
        if version.changes > 2 * self._tried and self._is_long():
            try:
                self._write_base(self._reader)
            except OSError as error:  # the change is made all the same
                self._tried = version.changes
                warnings.warn(
                    f"{shown(self.path)} could not be compacted ({shown(error)}). Its changes stay in the journal.",
                    NotFlushed,
                    stacklevel=3,
                )
        return True

    def _write_base(self, reader: Reader) -> None:
        state = reader.state
        dtype = memoryfile.precision(self.path, state.tensor)
        try:
            check_weights(reader, [levels_of(state)], dtype=dtype)
        except BadValue:  # then the file gets wider numbers
            dtype = None
        version = self._file.write(contents_of(state), dtype)
        if dtype is not None and dtype != state.scheme.dtype:  # others read what is rounded
            reader = reader.after(replace(state, tensor=memoryfile.rounded(state.tensor, dtype)))
        self._now = Snapshot(reader, (), version)


def _detached(state: State) -> Memory:
    return Memory._of(Reader(state))


def entries_of(batch: Batch, weight: float = 1.0) -> list[Entry]:
    """Return the entries of a change that stores pairs with a weight."""
    return [Entry(path, value, weight) for path, value in zip(batch.paths.names, batch.names, strict=True)]


def check_paths(scheme: Scheme, paths: Paths) -> None:
    """Refuse paths that a scheme has no contexts for: that depends on their length alone."""
    scheme.contexts(list({len(path): path for path in paths}.values()))


def open_memory(path: Place, device: torch.device | str = "cpu") -> Opened:
    """Open a memory file for changes, which are on disk when `store` or `forget` returns.

    A change is appended to a journal beside the file, in milliseconds whatever the size of the memory; `Memory.load`
    reads it, too. The whole file is written by `compact()`, and when the journal is larger than a quarter of the file
    (but at least 64 KB) or than 4 MB, or has many pairs for the size of the tensor. Any number of processes may have
    the file open, and change it in turn.

    Args:
        path: Name of the memory file, which must exist.
        device: Device of the memory.

    Returns:
        The memory, also a context manager that closes it.

    Raises:
        BadFile: If the file is corrupt, or not a memory.
        PermissionError: If the file is read-only.

    >>> from carving import OSC, Memory
    >>> Memory(OSC(d=32, p=2)).save("facts.safetensors")
    >>> with open_memory("facts.safetensors") as memory:
    ...     memory.store({"dog": {"says": "woof"}})
    ...     memory.recall("dog", "says").value
    1
    'woof'
    >>> Memory.load("facts.safetensors").recall("dog", "says").value
    'woof'
    """
    return Opened(path, device)
