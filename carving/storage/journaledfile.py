"""A memory file with its journal, as a process that keeps it open follows and changes it; `journal.py` says why."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path as FilePath
from threading import get_ident
from typing import TypeVar

import torch

from carving.errors import BadValue
from carving.storage import journal, memoryfile
from carving.storage.journal import Changed, InDoubt, Journal, JournalRecord
from carving.storage.locks import Place, locked, shown
from carving.storage.memoryfile import MemoryContents, Outline
from carving.storage.tensorfile import NotWhole, parse_metadata, read_header, read_metadata

MIN_LONG, MAX_LONG = 2**16, 2**22  # bytes of a journal that is too long, whatever the size of its base
SHARE = 4  # a journal between these sizes is too long if it is larger than this part of its base
MAX_WORK = 2**35  # numbers of the tensor times pairs of a journal: replaying more takes longer than writing a base
MIN_PAIR = 32  # bytes of a pair in a journal, at least, in an estimate

Base = TypeVar("Base", MemoryContents, Outline)


@dataclass(frozen=True)
class Version:
    """What a process knows of a memory file: an immutable cursor, which each look or change replaces.

    Attributes:
        base: The checksum of the file itself.
        journal: The journal that names this base, if there is one; its `records` are new with this version.
        header: The bytes of the file's header, once they are known.
        size: The size of the file in bytes.
    """

    base: str
    journal: Journal | None = None
    header: bytes = b""
    size: int = 0

    @property
    def changes(self) -> int:
        """The number of changes in the journal."""
        return 0 if self.journal is None else self.journal.count

    @property
    def records(self) -> tuple[JournalRecord, ...]:
        """The changes that are new with this version."""
        return () if self.journal is None else self.journal.records

    @property
    def max_bytes(self) -> int:
        """The size at which the journal, or one change, is too long, and the base is written instead."""
        return min(max(MIN_LONG, self.size // SHARE), MAX_LONG)

    def max_pairs(self, numbers: int) -> int:
        """Return the most pairs of one change of the journal, for a tensor of `numbers` cells."""
        return max(1, min(MAX_WORK // numbers, self.max_bytes // MIN_PAIR))

    def is_long(self, numbers: int, more: JournalRecord | None = None) -> bool:
        """Whether the journal with one record `more` is due for compaction, for a tensor of `numbers` cells."""
        pairs, size = (0, 0) if self.journal is None else (self.journal.pairs, self.journal.size)
        if more is not None:
            pairs, size = pairs + more.pairs, size + len(more.body)
        return size > self.max_bytes or pairs > max(1, MAX_WORK // numbers)


class JournaledFile:
    """A memory file that changes record by record, by any number of processes in turn.

    One thread at a time may use it. What is known of the file is a `Version`, which the caller keeps, so that an
    interrupt between two lines loses nothing: `read_new` finds a record that is on disk and was not counted.

    Args:
        path: The memory file.
    """

    def __init__(self, path: Place) -> None:
        self.path = FilePath(os.path.abspath(path))  # wherever the program goes
        self._is_closed = False
        self._turn: int | None = None  # the thread that holds the lock,
        self._open_journal: FileIO | None = None  # and the journal that it has open
        self._doubt: tuple[JournalRecord, str] | None = None  # a change that failed and may be stored, and its base

    def close(self) -> None:
        """Refuse further looks and changes."""
        self._is_closed = True

    def load(self) -> tuple[MemoryContents, Version]:
        """Return what the file holds without its journal, and the version, whose records are to be replayed.

        Raises:
            BadFile: If the file or its journal is corrupt, or the file is not a memory.
            FileNotFoundError: If it does not exist.
        """
        return self._read_both(memoryfile.read)

    def outline(self) -> tuple[Outline, Version]:
        """Return what the file says without its tensor, and the version; raises as `load` does."""
        return self._read_both(memoryfile.outline)

    def _read_both(self, read_base: Callable[[Place], Base]) -> tuple[Base, Version]:
        while True:
            written = journal.read(self.path)
            try:
                base = read_base(self.path)
            except FileNotFoundError as error:
                if written is None or not written.count:
                    raise
                raise FileNotFoundError(f"{error}, but {journal.describe_orphan(self.path, written)}") from None
            size = os.stat(self.path).st_size
            if written is None or written.base != base.checksum:
                return base, Version(base.checksum, size=size)
            if journal.remains(self.path, written):  # and was not removed before a base of the same content came back
                return base, Version(base.checksum, written, size=size)

    def read_new(self, seen: Version) -> Version | None:
        """Return the version with the records that were appended since; None for another base, which is to be loaded.

        It waits for nobody. In a turn the journal stays open for `append`.
        """
        if self._is_closed:
            raise BadValue(f"{shown(self.path)} is closed. Open it again with carving.open(file).")
        in_turn = self._turn == get_ident()
        file: FileIO | None = None
        try:
            if seen.journal is not None:
                file = journal.open_journal(self.path, "rb+" if in_turn else "rb")
            found = self._look(seen, file)
            if in_turn and found is not None:
                self._close_journal()
                self._open_journal, file = file, None
            return found
        except (Changed, NotWhole, OSError):  # `load` will say what is the matter
            return None
        finally:
            if file is not None:
                file.close()

    def _look(self, seen: Version, file: FileIO | None) -> Version | None:
        """Read the journal, then the base, as in `load`; `file` is the journal that was seen."""
        if file is not None and seen.journal is not None:
            written: Journal | None = journal.read_new(file, seen.journal)
        else:
            written = journal.read(self.path)
            written = written if written is not None and written.base == seen.base else None
        header, size = read_header(self.path)
        if header != seen.header and parse_metadata(header, size).get("checksum") != seen.base:
            return None
        # It may have been removed meanwhile, before a base of the same content came back.
        if file is not None:
            is_there = os.path.samestat(os.stat(journal.journal_path(self.path)), os.fstat(file.fileno()))
        else:
            is_there = written is None or journal.remains(self.path, written)
        return Version(seen.base, written, header, size) if is_there else None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the write lock of the file, once a change that was left in doubt is settled."""
        with locked(self.path):
            before = self._turn
            try:
                self._close_journal()  # which another turn, of this thread or of the process that forked us, has open
                self._turn = get_ident()
                self._settle()
                yield
            finally:
                self._turn = before
                self._close_journal()

    def _close_journal(self) -> None:
        file, self._open_journal = self._open_journal, None
        if file is not None:
            file.close()

    def _settle(self) -> None:
        """Take back a change that failed, if it was stored all the same."""
        while self._doubt is not None and not self._is_closed:
            with suppress(Changed):
                record, base = self._doubt
                stays = journal.take_back(self.path, record)
                self._doubt = None
                if stays or read_metadata(self.path).get("checksum") != base:
                    raise BadValue(
                        f"{shown(self.path)} was changed by another process after a change of this process failed. The "
                        f"failed change {'is' if stays else 'may be'} stored. This call changed nothing; repeat it if "
                        "it is still needed."
                    )

    def accept_doubt(self) -> None:
        """Keep a change that was left in doubt, if it was stored."""
        self._doubt = None

    def append(self, seen: Version, record: JournalRecord) -> Version | None:
        """Put a change on disk, in a turn; None if another user was faster, and `read_new` has to look again.

        Raises:
            InDoubt: If the change could neither be flushed nor be undone; the next turn takes it back.
            OSError: If it could not be written; nothing was changed.
        """
        try:
            written = journal.append(self.path, seen.base, seen.journal, record, self._open_journal)
        except Changed:
            return None
        except InDoubt:
            self._doubt = record, seen.base
            raise
        return replace(seen, journal=written)

    def write(self, contents: MemoryContents, dtype: torch.dtype | None) -> Version:
        """Write a new base, in this precision, in a turn; the journal goes."""
        base = memoryfile.write(self.path, contents, dtype)
        return Version(base, size=os.stat(self.path).st_size)
