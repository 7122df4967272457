"""File-backed memories: what is stored or forgotten is on disk when the call returns."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import NamedTuple, NoReturn, Self

import torch

from carving.distributed.ranks import Group
from carving.errors import BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.capacity import falls_short, foreseen, told
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, Batch, OnProgress, batches, report
from carving.memory.state import Kept, State
from carving.memory.storage import bind_records, contents_of, count_records, load
from carving.memory.update import NOTHING, Change, NotFound, check_weights, checked, forgotten, levels_of
from carving.planner.requirements import Target
from carving.schemes.base import Scheme
from carving.storage import memoryfile
from carving.storage.atomic import NotFlushed
from carving.storage.journal import Entry, Record
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.locks import Place, shown
from carving.storage.tensorfile import check_replaceable
from carving.symbols.codec import Label
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices
from carving.validate import check_integer, check_weight

SMALL = 1e5  # a sum of weights: more may be too much for the weights before, which the tensor's energy tells
USUAL = 1e6  # a weight that is larger may be too much for the tensor's numbers, which is seen when they are added


class Snapshot(NamedTuple):
    """What is known of a file at one moment: replaced whole, as states are."""

    state: State  # its tensor lacks
    pending: tuple[Record, ...]  # these changes, which are counted and on disk
    version: Version  # of the file

    def counting(self, state: State, records: Iterable[Record], version: Version) -> "Snapshot":
        """Return the snapshot with more changes, which the state counts, but its tensor does not have."""
        return Snapshot(state, (*self.pending, *records), version)


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
        self._file, self._device = JournaledFile(path), device
        self._make_lock()
        self._now = self._loaded()
        check_replaceable(self.path, "memory", None)  # which a read-only file is not
        self._tried = 0  # changes with which the journal was last too long, and could not be made shorter

    def _loaded(self) -> Snapshot:
        state, version = load(self._file, self._device)
        return Snapshot(state, (), version)

    @property
    def path(self) -> FilePath:
        """The absolute path of the memory file."""
        return self._file.path

    @classmethod
    def _of(cls, state: State) -> Self:
        return Memory._of(state)  # type: ignore[return-value]  # what is made of it has no file

    def __reduce__(self) -> tuple[object, ...]:
        return Memory._of, (self._state,)  # nor has a copy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory: further changes raise BadValue. Changes up to now are on disk already."""
        self._file.close()

    # What is there

    @property
    def _state(self) -> State:
        now = self._now
        if now.pending:
            with self._lock:
                now = self._now
                if now.pending:
                    now = self._now = now._replace(state=bind_records(now.state, now.pending), pending=())
        return now.state

    @_state.setter
    def _state(self, _: State) -> NoReturn:
        raise BadValue(
            "A memory from carving.open() is file-backed and changes only by store() and forget(). Use "
            "Memory.load(file) for a detached copy."
        )

    @property
    def _counted(self) -> State:
        return self._now.state

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds the pairs."""
        return self._now.state.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The values that the memory can answer with."""
        return self._now.state.vocabulary

    @property
    def target(self) -> Target | None:
        """Target of the plan (accuracy, pairs, vocabulary), or None if the memory was not planned."""
        return self._now.state.target

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return self._now.state.pairs

    @property
    def changes(self) -> int:
        """The number of changes in the journal, which are not in the file itself yet."""
        return self._now.version.changes

    def predicted_accuracy(self, pairs: int = 0) -> float | None:
        """Return the predicted accuracy, with this many additional pairs; see `Memory.predicted_accuracy`."""
        return foreseen(self._now.state, check_integer("pairs", pairs, 0))

    @property
    def is_overfull(self) -> bool:
        """Whether the predicted accuracy is below the target accuracy; see `Memory.is_overfull`."""
        return falls_short(self._now.state)

    def refresh(self) -> None:
        """Read the changes that others have made, without waiting for changes in progress."""
        with self._lock:
            self._look_again()
            self._file.accept_doubt()

    # Changes

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Store a document or (path, value) pairs, in memory and file; see `Memory.store`.

        Pairs are written to the journal and bound to the tensor at the next query. If there are too many for a
        journal, the whole file is written instead. `group` is not supported.
        """
        if group is not None:
            raise BadValue(
                "group= is not supported by memories from carving.open(). Use Memory.load(file, group=group), "
                "store(..., group=group) and save(file, group=group)."
            )
        weight = check_weight(weight)
        pairs = chain.from_iterable(batches(what, key))
        most = self._now.version.max_pairs(self.scheme.facts.memory_scalars)
        first = list(islice(pairs, most + 1))  # before it is our turn: they may come slowly
        if not first:
            raise BadValue(NOTHING)
        if len(first) > most or abs(weight) > USUAL:
            return self._store_whole(chain(first, pairs), weight, on_progress)
        batch = Batch(first)
        check_paths(self.scheme, batch.paths)
        record = Record.of(entries_of(batch, weight))
        if len(record.body) > self._now.version.max_bytes:
            return self._store_whole(iter(first), weight, on_progress)
        while True:
            with self._turn():
                # Trained fillers may be too large for the tensor's numbers, which is seen when they are added.
                at_once = self._now.state.codebook.trained is not None
                at_once = at_once or not 1 / SMALL <= abs(weight) <= SMALL / len(batch)
                held = self._state if at_once else self._now.state
                change = Change(held, weight)
                if at_once:
                    change.bind(batch)
                change.count(batch)
                change.pairs = len(batch)  # whether bound or not
                if self._wrote(told(held, checked(change)), record, at_once):
                    break
        report(on_progress, len(batch))
        return len(batch)

    def _store_whole(self, pairs: Iterator[Pair], weight: float, on_progress: OnProgress | None) -> int:
        with self._turn():
            held = self._state
            change = Change(held, weight)
            while part := list(islice(pairs, BATCH)):
                change.add(Batch(part))
                report(on_progress, len(part))
            if self._state is not held:
                raise BadValue(
                    "The memory was modified while store() was consuming its input. Pass a list instead of a generator "
                    "that modifies it."
                )
            self._write_base(told(held, checked(change)))
        return change.pairs

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
        weight = check_weight(weight)
        pairs = list(chain.from_iterable(batches(what, key)))
        parts = [pairs[part] for part in slices(len(pairs), BATCH)]
        while True:
            with self._turn():
                held = self._state
                change, not_found = forgotten(held, parts, weight, force, on_progress)
                if not_found and not change.pairs:
                    return not_found
                state = replace(checked(change), told=0)
                record = Record.of(taken_out(parts, weight, not_found, force))
                if abs(weight) > USUAL or self._is_long(record):
                    self._write_base(state)
                    return not_found
                if self._wrote(state, record, at_once=True):
                    return not_found

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
                self._write_base(self._state)
        return changes

    def _is_long(self, more: Record | None = None) -> bool:
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
            self._now = now.counting(count_records(now.state, version.records), version.records, version)
        else:
            self._now = now._replace(version=version)

    def _wrote(self, state: State, record: Record, at_once: bool) -> bool:
        """Put a change on disk, and in its place; False if another user was faster, and it must be looked at again."""
        now = self._now
        version = self._file.append(now.version, record)
        if version is None:
            return False
        self._now = Snapshot(state, (), version) if at_once else now.counting(state, [record], version)
        if version.changes > 2 * self._tried and self._is_long():
            try:
                self._write_base(self._state)
            except OSError as error:  # the change is made all the same
                self._tried = version.changes
                warnings.warn(
                    f"{shown(self.path)} could not be compacted ({shown(error)}). Its changes stay in the journal.",
                    NotFlushed,
                    stacklevel=3,
                )
        return True

    def _write_base(self, state: State) -> None:
        dtype = memoryfile.precision(self.path, state.tensor)
        try:
            check_weights(state, [levels_of(state)], dtype=dtype)
        except BadValue:  # then the file gets wider numbers
            dtype = None
        version = self._file.write(contents_of(state), dtype)
        if dtype is not None and dtype != state.scheme.dtype:  # others read what is rounded
            state = replace(state, tensor=memoryfile.rounded(state.tensor, dtype), kept=Kept())
        self._now = Snapshot(state, (), version)


def taken_out(parts: list[list[Pair]], weight: float, not_found: NotFound, force: bool) -> list[Entry]:
    """Return the entries that `forget` subtracted: without pairs that were not found, or with `force` uncounted."""
    left = Counter((path, value) for path, value, *_ in entries_of(Batch(list(not_found)))) if not_found else Counter()
    held, rest = list[Entry](), list[Entry]()
    for entry in chain.from_iterable(entries_of(Batch(part), -weight) for part in parts):
        pair = entry.path, entry.value
        if left[pair] > 0:
            rest.append(entry._replace(is_counted=False))
        else:
            held.append(entry)
        left[pair] -= 1
    return held + rest if force else held


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
