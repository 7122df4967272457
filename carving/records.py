"""Records of changes, as bytes: what a journal's head and records are, and whether they are whole."""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite
from typing import NamedTuple

from carving.errors import BadValue
from carving.symbols import PARSERS, Leaf, Path, Role, label_end
from carving.tensorfiles import NotWhole

MAGIC = b"carving journal\n"
VERSION = 1
HEAD = struct.Struct("<16sI16s32s16s")  # magic, version, a name of its own, the base's checksum, a checksum of these
MARK = b"\xc5\xabR\n"
RECORD = struct.Struct("<4sIQdII")  # mark, bytes of pairs, sequence, weight, pairs, pairs that do not count; a checksum
DIGEST = 16  # bytes of a checksum
LARGEST = 2**31  # bytes of a record's pairs

Name = tuple[bytes, bytes]  # the canonical bytes of a path and its leaf


class Record(NamedTuple):
    """A change: pairs that were added with a weight; the last of them may not count, as they were never stored."""

    weight: float
    body: bytes  # the canonical bytes of paths and leaves
    pairs: int
    uncounted: int

    @classmethod
    def of(cls, weight: float, names: Sequence[Name], uncounted: int = 0) -> "Record":
        """Of pairs by their canonical bytes."""
        body = b"".join(path + leaf for path, leaf in names)
        if len(body) > LARGEST:
            raise BadValue(f"a change in a journal may have {LARGEST} bytes, got {len(body)}; store less at once")
        return cls(weight, body, len(names), uncounted)

    def names(self) -> Iterator[Name]:
        """The canonical bytes of its pairs."""
        at, body = 0, self.body
        while at < len(body):
            colon = body.index(b":", at)
            start, end = at, colon + 1
            for _ in range(int(body[at + 1 : colon])):
                end = label_end(body, end)
            at = label_end(body, end)
            yield body[start:end], body[end:at]

    def decoded(self) -> list[tuple[Path, Leaf]]:
        """Its pairs."""
        pairs = [(parsed_path(path), _label(leaf, 0)[0]) for path, leaf in self.names()]
        if len(pairs) != self.pairs or not 0 <= self.uncounted <= self.pairs or not isfinite(self.weight):
            raise NotWhole(f"a record speaks of {self.pairs} pairs and has {len(pairs)}")
        return pairs  # type: ignore[return-value]  # `()` is no leaf, which is looked at where pairs are stored


def parsed_path(name: bytes) -> Path:
    """The path of canonical bytes."""
    at, roles = name.index(b":") + 1, list[Role]()
    while at < len(name):
        role, at = _label(name, at)
        roles.append(role)
    return tuple(roles)


def _label(data: bytes, at: int) -> tuple[Role, int]:
    end, start = label_end(data, at), data.index(b":", at) + 1
    if data[at : at + 1] == b"(":
        return (), end
    return PARSERS[data[at : at + 1]](data[start:end]), end  # type: ignore[return-value]


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
        return Journal(self.head, (), self.count + 1, self.pairs + record.pairs, end, end, data[-DIGEST:])


def whole(data: bytes) -> Journal:
    """The journal of these bytes; what is none, or damaged, is not whole."""
    if data[: len(MAGIC)] != MAGIC:
        raise NotWhole("it is no journal of Carving, or its head is damaged")
    if len(data) < HEAD.size:
        raise NotWhole(f"its head has {len(data)} of {HEAD.size} bytes")
    head = data[: HEAD.size]
    _, version, _, _, digest = HEAD.unpack(head)
    if digest != _digest(head[:-DIGEST]):
        raise NotWhole("its head is damaged")
    if version != VERSION:
        raise NotWhole(f"it is of version {version}, this is Carving for version {VERSION}; a later Carving reads it")
    return continued(Journal(head), data[HEAD.size :])


def continued(seen: Journal, data: bytes) -> Journal:
    """The journal with what follows after its end."""
    records, at, view = list[Record](), 0, memoryview(data)
    while (found := _record(view, at, seen.head)) is not None and found[0] == seen.count + len(records):
        records.append(found[1])
        at += RECORD.size + len(found[1].body) + DIGEST
    if at < len(data) and _is_followed(data, at, seen.head):
        raise NotWhole(f"its record {seen.count + len(records)} is damaged or missing, and others follow")
    pairs = seen.pairs + sum(record.pairs for record in records)
    count, end, last = seen.count + len(records), seen.end + at, data[at - DIGEST : at] if at else seen.last
    return Journal(seen.head, tuple(records), count, pairs, end, seen.end + len(data), last)


def _record(view: memoryview, at: int, head: bytes) -> tuple[int, Record] | None:
    """The record that begins here, with its sequence; None if there is no whole one."""
    start = at + RECORD.size
    if len(view) < start + DIGEST:
        return None
    mark, size, sequence, weight, pairs, uncounted = RECORD.unpack(view[at:start])
    if mark != MARK or len(view) < start + size + DIGEST:
        return None
    if view[start + size : start + size + DIGEST] != _digest(view[at : start + size], head):
        return None
    return sequence, Record(weight, bytes(view[start : start + size]), pairs, uncounted)


def _is_followed(data: bytes, at: int, head: bytes) -> bool:
    """Whether a whole record lies anywhere from this place on; or so many marks that it takes too long to look."""
    view, looked = memoryview(data), 0
    while (at := data.find(MARK, at)) >= 0:
        if _record(view, at, head) is not None or looked > 8 * len(data) + 2**20:
            return True
        looked += len(data) - at
        at += 1
    return False


def _digest(data: bytes | memoryview, head: bytes = b"") -> bytes:
    return blake2b(data, digest_size=DIGEST, key=head[-DIGEST:]).digest()


def new_head(base: str) -> bytes:
    """The head of a new journal of this base."""
    start = HEAD.pack(MAGIC, VERSION, os.urandom(16), bytes.fromhex(base), bytes(DIGEST))[:-DIGEST]
    return start + _digest(start)


def packed(record: Record, journal: Journal) -> bytes:
    """The bytes of a journal's next record."""
    start = RECORD.pack(MARK, len(record.body), journal.count, record.weight, record.pairs, record.uncounted)
    return start + record.body + _digest(start + record.body, journal.head)
