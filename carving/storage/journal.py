"""Journals: changes of a memory that lie beside its file, until the file is written anew with all of them.

`FILE.journal` has a head (a name of its own, the checksum of the file that it belongs to, the base) and records, each a
change: length, sequence, weight, the canonical bytes of paths and values, and a checksum over these and the head. What
a memory holds is its base and then every record. Why nothing is lost, whatever is killed and whenever the power fails:

- A journal comes into being whole, with its first record: written beside, flushed, put in its place, its name flushed.
- Whoever appends to a journal of another writer first flushes its name and its last record: that writer may have been
  killed, or have failed, before it did so.
- A record is written at the end and flushed, before the change counts as made, and before the next one is begun. So
  only the last one can be torn. What is no whole record at the end is ignored, and cut off by who appends next. What
  is no whole record, but has one after it, is no tear but damage, and refused.
- A reader may see a record before it is flushed, and its writer may then fail and cut it off. Whoever looks again
  compares the checksum of the last record that was seen, and if another one stands there, or none, loads all anew.
- Whoever reads takes the journal first, then the base: either that is the one the journal names, or it was put there
  later, with all that the journal says, and the journal is ignored. Readers wait for nobody.
- A new base (compaction, or a memory saved in its place) is on disk, name and all, before the journal goes. Killed in
  between: a journal of another base, which is ignored, goes before the next base comes, and is replaced by the next
  change. If old and new base are the same to the bit, so are their checksums: then the old state holds, base and
  journal, until the journal is gone, and the new one after.
- So a journal that does not name the base that is there goes before another base takes its place, which it might name.

Writers take turns (`locks.lock_for`). Two users, who cannot wait for each other there, append one after the other all
the same (a journal is locked while it is written); only where one of them starts a journal or writes a base at the very
moment may the other's last change be lost.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import FileIO
from math import isfinite
from pathlib import Path as FilePath
from typing import BinaryIO, NamedTuple

from carving.errors import BadValue
from carving.storage.atomic import flush_folder, write_atomically
from carving.storage.locks import Place, lock_open_file, reworded, shown, unlock_open_file
from carving.storage.tensorfile import BadFile, NotWhole, parsing, read_metadata
from carving.symbols.codec import Labels, Path, Value, label_end, parse_path, path_end

MAGIC = b"carving journal\n"
VERSION = 3
HEAD = struct.Struct("<16sI16s32s16s")  # magic, version, a name of its own, the base's checksum, a checksum of these
# The journal's name, an identity, sequence, bytes of entries, entries; a checksum follows these, and another one the
# entries.
RECORD = struct.Struct("<16s16sQII")
WEIGHT = struct.Struct("<d?")  # after the path and the value of an entry: its weight, and whether it is counted
DIGEST = 16  # bytes of a checksum
FRAME = RECORD.size + 2 * DIGEST  # bytes of a record without entries
MAX_RECORD = 2**31  # bytes of a record's entries
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # errors for a journal that is not, or cannot be, there


class Changed(Exception):
    """The journal was changed since it was read."""


class InDoubt(OSError):
    """A change could neither be flushed to disk nor be undone, so it may be stored."""


class OtherVersion(NotWhole):
    """A journal of a format version that this Carving does not read."""


# Records


class Entry(NamedTuple):
    """One pair of a change: canonical bytes of path and value, and the weight that is added to what is stored.

    Attributes:
        path: Canonical bytes of the path.
        value: Canonical bytes of the value.
        weight: Weight to add; below zero to subtract.
        is_counted: Whether the weight counts for the value and the path. It does not where a pair is subtracted that
            was never stored.
    """

    path: bytes
    value: bytes
    weight: float = 1.0
    is_counted: bool = True


class JournalRecord(NamedTuple):
    """One change of a memory, as a journal stores it: entries that are applied together, or not at all."""

    body: bytes  # the entries
    pairs: int  # number of entries
    identity: bytes  # random, so that two changes with the same entries differ

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "JournalRecord":
        """Return the record of a change."""
        body = b"".join([path + value + WEIGHT.pack(weight, counts) for path, value, weight, counts in entries])
        if len(body) > MAX_RECORD:
            raise BadValue(
                f"A change in a journal may have at most {MAX_RECORD:,} bytes, got {len(body):,}. Store fewer at once."
            )
        return cls(body, len(entries), os.urandom(16))

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries, without parsing their labels."""
        at, body = 0, self.body
        while at < len(body):
            start, end = at, path_end(body, at)
            at = label_end(body, end)
            yield Entry(body[start:end], body[end:at], *WEIGHT.unpack_from(body, at))
            at += WEIGHT.size

    def decoded(self) -> list[tuple[Path, Value, float, bool]]:
        """Return path, value, weight and `is_counted` of every entry.

        Raises:
            NotWhole: If the entries are malformed.
        """
        try:
            with parsing():
                entries, labels = list(self.entries()), Labels()
                paths = [parse_path(entry.path, 0, labels)[0] for entry in entries]
                values = [labels[entry.value] for entry in entries]
        except (NotWhole, BadValue) as error:
            raise NotWhole(f"a record has malformed pairs ({error})") from None
        if len(entries) != self.pairs or not all(isfinite(entry.weight) for entry in entries):
            raise NotWhole(f"a record is inconsistent: it declares {self.pairs} pairs and has {len(entries)}")
        return [(path, value, *entry[2:]) for path, value, entry in zip(paths, values, entries, strict=True)]


@dataclass(frozen=True)
class Journal:
    """A journal as it was at one moment."""

    head: bytes
    records: tuple[JournalRecord, ...] = ()  # from a place on, where it was looked at before
    count: int = 0  # of all records
    pairs: int = 0  # of all pairs
    end: int = HEAD.size  # where the next record goes
    size: int = HEAD.size  # of the file: what lies beyond the end is no whole record
    last: bytes = b""  # the checksum of the last record, if there is one
    others: bytes = b""  # the last record, if another handle wrote it: whether it is on disk is not known
    named: bool = False  # whether its name is known to be on disk

    @classmethod
    def new(cls, base: str) -> "Journal":
        """Return an empty journal of this base."""
        start = HEAD.pack(MAGIC, VERSION, os.urandom(16), bytes.fromhex(base), bytes(DIGEST))[:-DIGEST]
        return cls(head=start + _digest(start))

    @property
    def name(self) -> bytes:
        """Random bytes with which each of its records begins."""
        return HEAD.unpack(self.head)[2]

    @property
    def base(self) -> str:
        """The checksum of the file that it belongs to."""
        return HEAD.unpack(self.head)[3].hex()

    @property
    def torn(self) -> int:
        """The bytes at its end of a change that was never made."""
        return self.size - self.end

    def is_prefix_of(self, file: FileIO) -> bool:
        """Whether a file begins as this journal; what follows its end is read next."""
        head = file.read(HEAD.size)
        file.seek(self.end - DIGEST)
        return head == self.head and file.read(DIGEST) == (self.last or self.head[-DIGEST:])

    def pack(self, record: JournalRecord) -> bytes:
        """Return the bytes of the next record."""
        frame = RECORD.pack(self.name, record.identity, self.count, len(record.body), record.pairs)
        start = frame + _digest(frame, self.head) + record.body
        return start + _digest(start, self.head)

    def grown(self, record: JournalRecord, data: bytes) -> "Journal":
        """Return the journal with another record, which is these bytes, behind the last whole one."""
        end = self.end + len(data)
        last = data[-DIGEST:]
        return Journal(
            head=self.head,
            records=(),
            count=self.count + 1,
            pairs=self.pairs + record.pairs,
            end=end,
            size=end,
            last=last,
            others=b"",
            named=self.named,
        )


def parse(data: bytes) -> Journal:
    """Return the journal of these bytes; `NotWhole` if they are none, or damaged."""
    head = data[: HEAD.size]
    if head[: len(MAGIC)] != MAGIC or len(head) < HEAD.size or head[-DIGEST:] != _digest(head[:-DIGEST]):
        raise NotWhole("not a journal of Carving, or its header is corrupt")
    version = HEAD.unpack(head)[1]
    if version != VERSION:
        raise OtherVersion(f"has format version {version}, and this version of Carving reads {VERSION}")
    return parse_more(Journal(head=head), data[HEAD.size :])


def parse_more(seen: Journal, data: bytes) -> Journal:
    """Return the journal with the records of the bytes that follow its end."""
    if not data:  # most often
        return replace(seen, records=(), size=seen.end)
    records, at, view = list[JournalRecord](), 0, memoryview(data)
    while (record := _record(view, at, seen, seen.count + len(records))) is not None:
        records.append(record)
        at += FRAME + len(record.body)
    count = seen.count + len(records)
    if at < len(data) and _is_followed(data, at, seen, count):
        raise NotWhole(f"record {count} is corrupt or missing, and others follow")
    return replace(
        seen,
        records=tuple(records),
        count=count,
        pairs=seen.pairs + sum(each.pairs for each in records),
        end=seen.end + at,
        size=seen.end + len(data),
        last=data[at - DIGEST : at] if at else seen.last,
        others=data[at - FRAME - len(records[-1].body) : at] if records else seen.others,
    )


def _frame(view: memoryview, at: int, journal: Journal) -> tuple[int, JournalRecord, int] | None:
    """Return the sequence of a record whose frame begins here, the record without its entries, and their bytes."""
    start = at + RECORD.size
    if len(view) < start + DIGEST or view[start : start + DIGEST] != _digest(view[at:start], journal.head):
        return None
    _, identity, sequence, size, pairs = RECORD.unpack(view[at:start])
    return sequence, JournalRecord(b"", pairs, identity), size


def _record(view: memoryview, at: int, journal: Journal, expected: int) -> JournalRecord | None:
    """Return the record of this sequence that begins here; None if there is no whole one."""
    sequence, record, size = _frame(view, at, journal) or (-1, None, 0)
    start, end = at + RECORD.size + DIGEST, at + FRAME + size
    if record is None or sequence != expected or len(view) < end:
        return None
    is_whole = view[end - DIGEST : end] == _digest(view[at : end - DIGEST], journal.head)
    return record._replace(body=bytes(view[start : end - DIGEST])) if is_whole else None


def _is_followed(data: bytes, at: int, journal: Journal, expected: int) -> bool:
    """Whether another record stands in the place of the expected one, or a later one, or itself, was begun behind it.

    A frame is recognized by the journal's name, which is random, so that no label holds it, and by its own checksum.
    """
    view, place = memoryview(data), at
    while (place := data.find(journal.name, place)) >= 0:
        found = _frame(view, place, journal)
        if found is not None and (found[0] >= expected if place > at else found[0] != expected):
            return True
        place += 1
    return False


def _digest(data: bytes | memoryview, head: bytes = b"") -> bytes:
    return blake2b(data, digest_size=DIGEST, key=head[-DIGEST:]).digest()


# Reading


def journal_path(path: Place) -> FilePath:
    """Return the path of a file's journal: beside the real file."""
    return FilePath(f"{os.path.realpath(path)}.journal")


def open_journal(path: Place, mode: str) -> FileIO:
    """Open the journal of a file."""
    return open(journal_path(path), mode, buffering=0)  # type: ignore[return-value]  # unbuffered


def can_have_journal(path: Place) -> bool:
    """Whether the journal's name, which is longer than the file's, is no longer than the system takes."""
    try:
        os.lstat(journal_path(path))
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def read(path: Place) -> Journal | None:
    """Return the journal beside a file, of whatever base; None if there is none. Damage is a `BadFile`."""
    place, seen = journal_path(path), None
    while (data := _read_bytes(place)) is not None:
        try:
            return parse(data)
        except NotWhole as problem:
            if data == seen:  # and not: read while another one cut off a torn record, and wrote a new one there
                raise _damaged(place, problem) from None
            seen = data
    return None


def read_new(file: FileIO, seen: Journal) -> Journal:
    """Return an open journal with its new records; `Changed` if it is another one, or lacks what was seen.

    It lacks a change that its writer then gave up, and may have another in its place.
    """
    if not seen.is_prefix_of(file):
        raise Changed
    try:
        return parse_more(seen, file.readall())
    except NotWhole:  # whoever reads all of it will say what is the matter
        raise Changed from None


def remains(path: Place, seen: Journal) -> bool:
    """Whether the journal is still there."""
    return _read_head(path) == seen.head


def _read_head(path: Place) -> bytes:
    try:
        with open(journal_path(path), "rb", buffering=0) as file:
            return file.read(HEAD.size)
    except OSError:
        return b""


def _read_bytes(place: FilePath) -> bytes | None:
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            raise BadFile(
                f"{shown(place)} is not a regular file, but the memory's journal must have this name. Move it away."
            )
        with open(place, "rb", buffering=0) as file:
            return file.readall()
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise


def _damaged(place: FilePath, problem: NotWhole) -> BadFile:
    if isinstance(problem, OtherVersion):
        return BadFile(
            f"{shown(place)} {problem}. It holds changes of the memory beside it: compact that memory with the Carving "
            "that wrote them, or move the journal away to discard them."
        )
    return BadFile(
        f"{shown(place)} is corrupt ({shown(problem)}). It holds changes of the memory beside it. Restore it from a "
        "backup, or move it away to discard them."
    )


# Writing, by whoever holds the lock of the file


def append(path: Place, base: str, seen: Journal | None, record: JournalRecord, file: FileIO | None = None) -> Journal:
    """Append a record, and flush it to disk; a journal that names another base, or none, is begun anew.

    Whatever fails leaves the journal as it was, but for `InDoubt`.

    Args:
        path: The memory's file.
        base: The checksum of that file.
        seen: The journal as it was read.
        record: The change.
        file: The journal, if it is open for reading and writing.

    Raises:
        Changed: If the journal is not as it was seen.
    """
    place = journal_path(path)
    if seen is None or seen.base != base:
        return _begin(place, path, base, record)
    data, written = seen.pack(record), False
    with _locked(place, seen, file) as file:
        seen = replace(seen, named=seen.named or flush_folder(place))
        if seen.torn or seen.others:
            _mend(file, seen)
        try:
            _write_all(file, data)
            written = True
            os.fsync(file.fileno())
        except BaseException as error:
            try:
                file.truncate(seen.end)
                os.fsync(file.fileno())
            except OSError:  # what is left of half a record is ignored
                if written and isinstance(error, OSError):
                    raise InDoubt(error.errno, shown(error)) from error
            raise
    return seen.grown(record, data)


def _mend(file: FileIO, seen: Journal) -> None:
    """Cut off a torn record, and flush the last whole one, before another one follows it.

    It is written anew: if flushing it failed once, and its writer was killed, the system holds it for flushed.
    """
    if seen.torn:
        file.truncate(seen.end)
    file.seek(seen.end - len(seen.others))
    _write_all(file, seen.others)
    os.fsync(file.fileno())


def take_back(path: Place, record: JournalRecord) -> bool:
    """Cut off a record that was left in doubt, if it is the last one; whether it is there, and others follow it."""
    place, found = journal_path(path), read(path)
    if found is None or record.identity not in [each.identity for each in found.records]:
        return False
    if found.records[-1].identity != record.identity:
        return True
    with _locked(place, found) as file:
        file.truncate(found.end - len(found.others))
        os.fsync(file.fileno())
    return False


def _begin(place: FilePath, path: Place, base: str, record: JournalRecord) -> Journal:
    if not can_have_journal(path):
        raise BadValue(f"{shown(place)}, the name of the journal, is too long. Give the file a shorter name.")
    empty = Journal.new(base)
    data = empty.pack(record)

    def write(file: BinaryIO) -> None:
        file.write(empty.head + data)

    named = write_atomically(place, write, like=os.path.realpath(path))
    return replace(empty, named=named).grown(record, data)


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextmanager
def _locked(place: FilePath, seen: Journal, file: FileIO | None = None) -> Iterator[FileIO]:
    """Lock a journal to write at its end; raise `Changed` if it is not as it was seen."""
    try:
        with open(place, "rb+", buffering=0) if file is None else nullcontext(file) as held:
            try:
                is_there = lock_open_file(held.fileno(), place)
                held.seek(0)
                if not is_there or os.fstat(held.fileno()).st_size != seen.size or not seen.is_prefix_of(held):
                    raise Changed
                yield held
            finally:
                unlock_open_file(held.fileno())
    except FileNotFoundError:
        raise Changed from None
    except InDoubt as error:
        message = (
            f"{shown(place)} could not be written ({error.strerror}), and the change could not be undone: it may be "
            "stored. An open memory undoes it before its next change; refresh() keeps it if it was stored."
        )
        raise reworded(error, message) from error
    except OSError as error:
        raise reworded(error, f"{shown(place)} could not be written ({shown(error)}). Nothing was changed.") from error


# A new base


def drop_stale(path: Place, force: bool = False) -> None:
    """Before another base takes the file's place, remove a journal that is not of the base that is there now.

    A file of that name that is no journal, or one with changes of a base that is gone, is given up with `force` only.
    """
    place = journal_path(path)
    if not os.path.lexists(place):
        return
    try:
        found = read(path)
    except BadFile:
        found = None
        if not force and (_read_bytes(place) or b"")[: len(MAGIC)] != MAGIC:
            raise BadValue(
                f"{shown(place)} is not a journal of Carving, but the memory's journal must have this name. Move "
                "it away, or pass force=True to delete it."
            ) from None
    if found is not None and found.base == read_metadata(path).get("checksum"):
        return
    if found is not None and found.count and not os.path.exists(path) and not force:
        raise BadValue(f"{describe_orphan(path, found)} Or pass force=True to discard the changes.")
    _remove(place)


def describe_orphan(path: Place, found: Journal) -> str:
    """Return the message about a journal whose base is gone."""
    changes = f"{found.count:,} change{'' if found.count == 1 else 's'}"
    return (
        f"{shown(journal_path(path))} holds {changes} of a memory file that no longer exists. Restore that file, or "
        "move the journal away."
    )


def remove_journal(path: Place, base: str, flushed: bool) -> None:
    """Remove the journal of the previous base, once this base has taken the file's place.

    If the base's name is not known to be on disk, the old one may come back, and needs its journal. But if the new one
    is the same to the bit, what the journal says would still hold, and it must go.
    """
    head = _read_head(path)
    same = len(head) == HEAD.size and Journal(head=head).base == base
    if not flushed and not same:
        return
    try:
        _remove(journal_path(path))
    except OSError:
        if same:
            raise


def _remove(place: FilePath) -> None:
    """Remove a journal, if there is one, and let the disk know."""
    try:
        place.unlink()
    except OSError as error:
        if error.errno in ABSENT:
            return
        raise
    flush_folder(place)
