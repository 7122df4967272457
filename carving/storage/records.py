"""Records of changes, as bytes: what a journal's head and records are, and whether they are whole."""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from typing import NamedTuple

from carving.errors import BadValue
from carving.storage.tensorfile import NotWhole
from carving.symbols.codec import Path, Value, label_end, parse_label, parse_paths, path_end

MAGIC = b"carving journal\n"
VERSION = 3
HEAD = struct.Struct("<16sI16s32s16s")  # magic, version, a name of its own, the base's checksum, a checksum of these
# The journal's name, an identity, sequence, bytes of entries, entries; a checksum follows these, and another one the
# entries.
RECORD = struct.Struct("<16s16sQII")
WEIGHT = struct.Struct("<d?")  # after the path and the value of an entry: its weight, and whether it is counted
DIGEST = 16  # bytes of a checksum
FRAME = RECORD.size + 2 * DIGEST  # bytes of a record without entries
LARGEST = 2**31  # bytes of a record's entries


class OtherVersion(NotWhole):
    """A journal of a format version that this Carving does not read."""


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


class Record(NamedTuple):
    """One change of a memory, as a journal stores it: entries that are applied together, or not at all."""

    body: bytes  # the entries
    pairs: int  # number of entries
    identity: bytes  # random, so that two changes with the same entries differ

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Record":
        """Return the record of a change."""
        body = b"".join(path + value + WEIGHT.pack(weight, counts) for path, value, weight, counts in entries)
        if len(body) > LARGEST:
            raise BadValue(
                f"A change in a journal may have at most {LARGEST:,} bytes, got {len(body):,}. Store fewer at once."
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
            found = list(self.entries())
            paths = parse_paths([each.path for each in found])
            entries = [
                (path, parse_label(each.value), each.weight, each.is_counted)
                for path, each in zip(paths, found, strict=True)
            ]
        except (BadValue, struct.error) as error:
            raise NotWhole(f"a record has malformed pairs ({error})") from None
        if len(entries) != self.pairs or not all(isfinite(weight) for _, _, weight, _ in entries):
            raise NotWhole(f"a record is inconsistent: it declares {self.pairs} pairs and has {len(entries)}")
        return entries  # type: ignore[return-value]  # `()` is no value, which is checked where pairs are stored


@dataclass(frozen=True)
class Journal:
    """What a journal was at one moment."""

    head: bytes
    records: tuple[Record, ...] = ()  # from a place on, where it was looked at before
    count: int = 0  # of all records
    pairs: int = 0  # of all pairs
    end: int = HEAD.size  # where the next record goes
    size: int = HEAD.size  # of the file: what lies beyond the end is no whole record
    last: bytes = b""  # the checksum of the last record, if there is one
    others: bytes = b""  # the last record, if another handle wrote it: whether it is on disk is not known
    named: bool = False  # whether its name is known to be on disk

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

    @property
    def before_end(self) -> bytes:
        """What lies just before its end: the checksum of the last record, or of the head."""
        return self.last or self.head[-DIGEST:]

    def grown(self, record: Record, data: bytes) -> "Journal":
        """With a record more, which is these bytes, behind the last whole one."""
        end = self.end + len(data)
        last = data[-DIGEST:]
        return Journal(self.head, (), self.count + 1, self.pairs + record.pairs, end, end, last, b"", self.named)


def whole(data: bytes) -> Journal:
    """The journal of these bytes; what is none, or damaged, is not whole."""
    if data[: len(MAGIC)] != MAGIC:
        raise NotWhole("not a journal of Carving, or its header is corrupt")
    if len(data) < HEAD.size:
        raise NotWhole(f"the header has {len(data)} of {HEAD.size} bytes")
    head = data[: HEAD.size]
    _, version, _, _, digest = HEAD.unpack(head)
    if digest != _digest(head[:-DIGEST]):
        raise NotWhole("the header is corrupt")
    if version != VERSION:
        raise OtherVersion(f"has format version {version}, and this version of Carving reads {VERSION}")
    return continued(Journal(head), data[HEAD.size :])


def continued(seen: Journal, data: bytes) -> Journal:
    """The journal with what follows after its end."""
    records, at, view = list[Record](), 0, memoryview(data)
    while (found := _record(view, at, seen)) is not None and found[0] == seen.count + len(records):
        records.append(found[1])
        at += FRAME + len(found[1].body)
    if at < len(data) and _is_followed(data, at, seen, seen.count + len(records)):
        raise NotWhole(f"record {seen.count + len(records)} is corrupt or missing, and others follow")
    pairs = seen.pairs + sum(record.pairs for record in records)
    count, end, last = seen.count + len(records), seen.end + at, data[at - DIGEST : at] if at else seen.last
    others = data[at - FRAME - len(records[-1].body) : at] if records else seen.others
    return Journal(seen.head, tuple(records), count, pairs, end, seen.end + len(data), last, others, seen.named)


def _frame(view: memoryview, at: int, journal: Journal) -> tuple[int, Record, int] | None:
    """What the frame of a record says that begins here: sequence, a record without pairs, their bytes."""
    start = at + RECORD.size
    if len(view) < start + DIGEST or view[start : start + DIGEST] != _digest(view[at:start], journal.head):
        return None
    _, identity, sequence, size, pairs = RECORD.unpack(view[at:start])
    return sequence, Record(b"", pairs, identity), size


def _record(view: memoryview, at: int, journal: Journal) -> tuple[int, Record] | None:
    """The record that begins here, with its sequence; None if there is no whole one."""
    found = _frame(view, at, journal)
    if found is None:
        return None
    sequence, record, size = found
    start, end = at + RECORD.size + DIGEST, at + FRAME + size
    if len(view) < end or view[end - DIGEST : end] != _digest(view[at : end - DIGEST], journal.head):
        return None
    return sequence, record._replace(body=bytes(view[start : end - DIGEST]))


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


def new_head(base: str) -> bytes:
    """The head of a new journal of this base."""
    start = HEAD.pack(MAGIC, VERSION, os.urandom(16), bytes.fromhex(base), bytes(DIGEST))[:-DIGEST]
    return start + _digest(start)


def packed(record: Record, journal: Journal) -> bytes:
    """The bytes of a journal's next record."""
    frame = RECORD.pack(journal.name, record.identity, journal.count, len(record.body), record.pairs)
    start = frame + _digest(frame, journal.head) + record.body
    return start + _digest(start, journal.head)
