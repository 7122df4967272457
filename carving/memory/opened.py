"""File-backed memories: what is stored or forgotten is on disk when the call returns."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import NamedTuple, NoReturn, Self, TypeVar

import torch

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.capacity import CapacityMonitor
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, Batch, OnProgress, batches, report
from carving.memory.reader import Reader
from carving.memory.storage import Loaded, bound, contents_of, load, replayed, seconds
from carving.memory.update import NOTHING, Change, NotFound, check_weights, checked, forget, levels_of, store
from carving.schemes.base import Scheme
from carving.storage import journal, memoryfile
from carving.storage.atomic import check_replaceable
from carving.storage.journal import Changed
from carving.storage.locks import Place, acquired, lock_for, shown
from carving.storage.records import Entry, Journal, Record
from carving.storage.tensorfile import said_by
from carving.symbols.codec import Label
from carving.symbols.paths import Paths
from carving.validate import check_weight

T = TypeVar("T")

PATIENCE = 1.0  # seconds that replaying a journal may take
SMALL = 1e5  # a sum of weights: more may be too much for the weights before, which the tensor's energy tells
USUAL = 1e6  # a weight that is larger may be too much for the tensor's numbers, which is seen when they are added


class Now(NamedTuple):
    """What is known of a file: replaced whole, as states are."""

    reader: Reader  # its tensor lacks
    pending: tuple[Record, ...]  # these changes, which are counted and on disk
    base: str  # the checksum of the file
    journal: Journal | None  # what lies beside it, as far as it is known

    @classmethod
    def of(cls, loaded: Loaded) -> "Now":
        """What was just loaded."""
        return cls(loaded.reader, (), loaded.base, loaded.journal)

    def counting(self, reader: Reader, records: Iterable[Record], written: Journal) -> "Now":
        """With changes more, which the reader counts, but its tensor does not have."""
        return Now(reader, (*self.pending, *records), self.base, written)


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
        self.path = FilePath(os.path.abspath(path))  # wherever the program goes
        self._device, self._closed, self._monitor = device, False, CapacityMonitor()
        self._make_lock()
        self._now = Now.of(load(self.path, device))
        check_replaceable(self.path, "memory", None)  # which a read-only file is not
        self._doubt: Record | None = None  # a change that failed, and may be stored
        self._tried = 0  # pairs with which the journal was last too long, and could not be made shorter

    @classmethod
    def _of(cls, reader: Reader) -> Self:
        return Memory._of(reader)  # type: ignore[return-value]  # what is made of it has no file

    def __reduce__(self) -> tuple[object, ...]:
        return Memory.to, (Memory._of(self._reader),)  # nor has a copy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory: further changes raise BadValue. Changes up to now are on disk already."""
        self._closed = True

    # What is there

    @property
    def _reader(self) -> Reader:  # type: ignore[override]
        now = self._now
        if now.pending:
            with self._lock:
                now = self._now
                if now.pending:
                    now = self._now = now._replace(reader=bound(now.reader, now.pending), pending=())
        return now.reader

    @property
    def _counted(self) -> Reader:
        return self._now.reader

    def _put(self, before: Reader, after: Reader) -> NoReturn:
        raise BadValue(
            "A memory from carving.open() is file-backed and changes only by store() and forget(). Use "
            "Memory.load(file) for a detached copy."
        )

    @property
    def changes(self) -> int:
        """The number of changes in the journal, which are not in the file itself yet."""
        return self._now.journal.count if self._now.journal is not None else 0

    def refresh(self) -> None:
        """Read the changes that others have made, without waiting for changes in progress."""
        with self._lock:
            self._look_again()
            self._doubt = None

    # Changes

    def _store(self, parts: Iterable[list[Pair]], weight: float, ranks: Ranks, on_progress: OnProgress | None) -> int:
        """Write pairs to the journal, and bind them at the next query; write the whole file if there are many."""
        pairs, most = chain.from_iterable(parts), self._most
        first = list(islice(pairs, most + 1))  # before it is our turn: they may come slowly
        if len(first) > most or abs(weight) > USUAL:
            return self._store_whole(chain(first, pairs), weight, on_progress)
        if not first:
            raise BadValue(NOTHING)
        batch = Batch(first)
        check_paths(self.scheme, batch.paths)
        record = Record.of(entries_of(batch, weight))
        if seconds(self.scheme, record.pairs, len(record.body)) > PATIENCE:  # because its labels are very long
            return self._store_whole(iter(first), weight, on_progress)
        while True:
            with self._turn():
                # Trained fillers may be too large for the tensor's numbers, which is seen when they are added.
                at_once = self._now.reader.codebook.trained is not None
                at_once = at_once or not 1 / SMALL <= abs(weight) <= SMALL / len(batch)
                before = self._reader if at_once else self._now.reader
                change = Change(before)
                if at_once:
                    change.bind(batch, weight)
                else:
                    before.codebook.check_levels(batch.values, batch.names)
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
            parts = iter(lambda: list(islice(pairs, BATCH)), [])
            stored = store(change, parts, weight, on_progress)
            if self._reader is not before:
                raise BadValue(
                    "The memory was modified while store() was consuming its input. Pass a list instead of a generator "
                    "that modifies it."
                )
            after = checked(change)
            self._monitor.check(before, after)
            self._write_base(after)
        return stored

    def forget(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> NotFound:
        """Subtract a document or pairs, in memory and file; see `Memory.forget`."""
        parts, weight = list(batches(what, key)), check_weight(weight)
        return self._commit(lambda change: forget(change, parts, weight, force, on_progress))

    def _commit(self, fill: Callable[[Change], T], *, stores: bool = False) -> T:
        while True:
            with self._turn():
                change = Change(self._reader, journaled=True)
                result = fill(change)
                if not change.pairs:
                    return result
                after, record = checked(change), Record.of(change.entries or ())
                self._monitor.reset()
                if max(change.sizes) > USUAL or seconds(self.scheme, record.pairs, len(record.body)) > PATIENCE:
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

    @property
    def _most(self) -> int:
        """How many pairs may be in one change of a journal."""
        return max(1, int(PATIENCE / seconds(self.scheme, 1)))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Where no other writes the file, and all that others wrote is known."""
        # The file's lock before our own: whoever has the first may be waiting for the second.
        with acquired(lock_for(self.path), self.path), self._lock:
            self._settle()
            self._look_again()
            yield

    def _settle(self) -> None:
        """Take back a change that failed, if it was stored all the same."""
        while self._doubt is not None and not self._closed:
            with suppress(Changed):
                stays = journal.take_back(self.path, self._doubt)
                self._doubt = None
                if stays or (said_by(self.path) or {}).get("checksum") != self._now.base:
                    raise BadValue(
                        f"{shown(self.path)} was changed by another process after a change of this process failed. The "
                        f"failed change {'is' if stays else 'may be'} stored. This call changed nothing; repeat it if "
                        "it is still needed."
                    )

    def _look_again(self) -> None:
        if self._closed:
            raise BadValue(f"{shown(self.path)} is closed. Open it again with carving.open(file).")
        self._now = self._caught_up(self._now) or Now.of(load(self.path, self._device))

    def _caught_up(self, now: Now) -> Now | None:
        """What is known with what was written since; None if that is not all. The journal first, as in `load`."""
        try:
            written = journal.since(self.path, now.base, now.journal)
        except Changed:
            return None
        if (said_by(self.path) or {}).get("checksum") != now.base:
            return None
        if written is not None and not journal.remains(self.path, written):
            return None
        if written is None or not written.records:
            return now._replace(journal=written)
        return now.counting(replayed(now.reader, written.records, bind=False), written.records, written)

    def _wrote(self, reader: Reader, record: Record, at_once: bool) -> bool:
        """Put a change on disk, and in its place; False if another user was faster, and it must be looked at again."""
        now = self._now
        try:
            written = journal.append(self.path, now.base, now.journal, record)
        except Changed:
            return False
        except journal.InDoubt:
            self._doubt = record
            raise
        self._now = Now(reader, (), now.base, written) if at_once else now.counting(reader, [record], written)
        if seconds(self.scheme, written.pairs, written.size) > PATIENCE and written.pairs > 2 * self._tried:
            try:
                self._write_base(self._reader)
            except OSError as error:  # the change is made all the same
                self._tried = written.pairs
                warnings.warn(
                    f"{shown(self.path)} could not be compacted ({shown(error)}). Its changes stay in the journal.",
                    memoryfile.NotFlushed,
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
        base = memoryfile.write(self.path, contents_of(state), dtype)
        if dtype is not None and dtype != state.scheme.dtype:  # others read what is rounded
            reader = reader.after(replace(state, tensor=memoryfile.rounded(state.tensor, dtype)))
        self._now = Now(reader, (), base, None)


def entries_of(batch: Batch, weight: float = 1.0) -> list[Entry]:
    """Return the entries of a change that stores pairs with a weight."""
    return [Entry(path, value, weight) for path, value in zip(batch.paths.names, batch.names, strict=True)]


def check_paths(scheme: Scheme, paths: Paths) -> None:
    """Refuse paths that a scheme has no contexts for: that depends on their length alone."""
    scheme.contexts(list({len(path): path for path in paths}.values()))


def open_memory(path: Place, device: torch.device | str = "cpu") -> Opened:
    """Open a memory file for changes, which are on disk when `store` or `forget` returns.

    A change is appended to a journal beside the file, in milliseconds whatever the size of the memory; `Memory.load`
    reads it, too. The whole file is written when replaying the journal would take longer than a second, or by
    `compact()`. Any number of processes may have the file open, and change it in turn.

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
