"""Distinct byte strings in order, as three arrays: their bytes, where they end, and a table of hashes.

No string is an object. Ten million of sixteen bytes take 380 MB: the bytes themselves, eight for where each ends, and
4/3 to 8/3 slots of eight in a table of open addressing. A slot holds half of the string's hash and its row; what is
found there is compared byte by byte, so that strings of one hash are only slower.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]
Words = NDArray[np.uint64]
Rows = NDArray[np.int64]

FEW = 24  # strings that are looked up faster one by one
FULLEST = 0.75  # share of slots that are taken
AT_ONCE = 2**17  # strings that are hashed or looked up together
SPARE = 8  # bytes behind the last string, so that words can be read anywhere
LONG = 256  # bytes of a string from which on it is hashed and compared whole, not word by word
# Drawn for each process, so that nobody can make strings of one hash; no file holds hashes.
START, WORD, FACTOR, LAST = (secrets.randbits(64) | 1 for _ in range(4))
KEY = secrets.token_bytes(16)
MASK = 2**64 - 1
ROW = 2**32 - 1  # the half of a slot that is the row, plus one; the other is that of the hash


def hash_of(name: bytes) -> int:
    """The hash of one string: of its length and its words, the last one filled with zeros."""
    if len(name) > LONG:
        return int.from_bytes(blake2b(name, digest_size=8, key=KEY).digest(), "little")
    value = START ^ len(name)
    for at in range(0, len(name), 8):
        word = int.from_bytes(name[at : at + 8], "little") * WORD & MASK
        value = (value ^ word ^ word >> 32) * FACTOR & MASK
        value ^= value >> 32
    value = value * LAST & MASK
    return value ^ value >> 29


def hashes_of(data: Octets, ends: Rows) -> Words:
    """The hashes of strings that lie in data between n + 1 ends, with some spare bytes behind the last."""
    if len(ends) <= AT_ONCE + 1:
        return _hashes(data, ends)
    parts = (ends[start : start + AT_ONCE + 1] for start in range(0, len(ends) - 1, AT_ONCE))
    return np.concatenate([_hashes(data, part) for part in parts])


def _hashes(data: Octets, ends: Rows) -> Words:
    starts, sizes = ends[:-1], np.diff(ends)
    values = np.uint64(START) ^ sizes.astype(np.uint64)
    words, at, rows = _words(data), 0, np.flatnonzero((sizes > 0) & (sizes <= LONG))
    while len(rows):
        everyone = len(rows) == len(sizes)
        part = _cut(words[starts[rows] + at], sizes[rows] - at)
        part *= np.uint64(WORD)
        part ^= part >> np.uint64(32)
        part ^= values if everyone else values[rows]
        part *= np.uint64(FACTOR)
        part ^= part >> np.uint64(32)
        values[rows] = part
        at += 8
        rows = rows[sizes[rows] > at]
    values *= np.uint64(LAST)
    values ^= values >> np.uint64(29)
    for row in np.flatnonzero(sizes > LONG).tolist():
        values[row] = hash_of(data[starts[row] : ends[row + 1]].tobytes())
    return values


def _words(data: Octets) -> Words:
    """The eight bytes from every byte on, as numbers."""
    return np.ndarray((len(data) - SPARE + 1,), "<u8", data, 0, (1,))


def _cut(words: Words, left: Rows) -> Words:
    """Words without the bytes that are beyond a string of which so many bytes are left."""
    return words & (np.uint64(MASK) >> (np.uint64(8) * (8 - np.clip(left, 0, 8)).astype(np.uint64) & np.uint64(63)))


def laid_out(names: Sequence[bytes]) -> tuple[Octets, Rows]:
    """Strings one after the other, with some spare bytes, and their n + 1 ends."""
    ends = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, names), dtype=np.int64, count=len(names)), out=ends[1:])
    return np.frombuffer(b"".join((*names, bytes(SPARE))), dtype=np.uint8), ends


class Distinct:
    """Byte strings that only ever grow at their end. Who reads may do so while another thread adds.

    >>> names = Distinct()
    >>> names.grown(0, [b"dog", b"cat"]), names.rows_of([b"cat", b"cow"]).tolist(), names[0]
    (True, [1, -1], b'dog')
    """

    # Rows below `count` never change; arrays that are too small are replaced, and slots are only ever taken. Whoever
    # took hold of an older array therefore sees whole rows, and at worst not the newest ones.

    def __init__(self, data: Octets | None = None, ends: Rows | None = None, values: Words | None = None) -> None:
        """None yet, or strings that are known to be distinct, laid out with spare bytes behind the last."""
        self.data = np.zeros(SPARE, dtype=np.uint8) if data is None else data
        self.ends = np.zeros(1, dtype=np.int64) if ends is None else ends
        self.count = len(self.ends) - 1
        self.slots = self._table(self.count, values)
        self._lock = Lock()

    def __getitem__(self, row: int) -> bytes:
        start, end = self.ends[row : row + 2].tolist()
        return self.data[start:end].tobytes()

    def span(self, start: int, stop: int) -> Octets:
        """The bytes of rows, one after the other."""
        ends = self.ends
        return self.data[int(ends[start]) : int(ends[stop])]

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self.data.nbytes + self.ends.nbytes + self.slots.nbytes

    # Looking up

    def rows_of(self, names: Sequence[bytes], below: int = ROW) -> Rows:
        """The rows of strings; -1 for those that are not there, below some row."""
        if len(names) > FEW:
            return self.rows_among(*laid_out(names), below)
        rows = np.fromiter(map(self._row_of, names), dtype=np.int64, count=len(names))
        rows[rows >= below] = -1
        return rows

    def _row_of(self, name: bytes) -> int:
        slots, value = self.slots, hash_of(name)
        mask, half = len(slots) - 1, value >> 32
        slot = value & mask
        while held := int(slots[slot]):
            if held >> 32 == half and self[row := (held & ROW) - 1] == name:
                return row
            slot = slot + 1 & mask
        return -1

    def rows_among(self, data: Octets, ends: Rows, below: int = ROW) -> Rows:
        """The rows of strings that are laid out in the same way."""
        rows = np.full(len(ends) - 1, -1, dtype=np.int64)
        for start in range(0, len(rows), AT_ONCE):
            part = slice(start, min(len(rows), start + AT_ONCE))
            rows[part] = self._rows_of_part(data, ends[start : part.stop + 1])
        rows[rows >= below] = -1
        return rows

    def _rows_of_part(self, data: Octets, ends: Rows) -> Rows:
        slots, values = self.slots, hashes_of(data, ends)
        found, mask = np.full(len(values), -1, dtype=np.int64), np.uint64(len(slots) - 1)
        asked, place = np.arange(len(values)), values & mask
        while len(asked):
            held = slots[place]
            going = held != 0
            alike = np.flatnonzero(going & ((held ^ values[asked]) >> np.uint64(32) == 0))
            rows = (held[alike] & np.uint64(ROW)).astype(np.int64) - 1
            same = self._equal(rows, data, ends, asked[alike])
            found[asked[alike[same]]] = rows[same]
            going[alike[same]] = False
            asked, place = asked[going], place[going] + np.uint64(1) & mask
        return found

    def _equal(self, rows: Rows, data: Octets, ends: Rows, asked: Rows) -> NDArray[np.bool_]:
        """Whether our strings of these rows are those that are asked for."""
        own_ends = self.ends  # before the data, which is replaced first
        here, there, sizes = own_ends[rows], ends[asked], ends[asked + 1] - ends[asked]
        same = own_ends[rows + 1] - here == sizes
        ours, theirs, at = _words(self.data), _words(data), 0
        for row in np.flatnonzero(same & (sizes > LONG)).tolist():
            ours_there = self.data[here[row] : here[row] + sizes[row]]
            same[row] = np.array_equal(ours_there, data[there[row] : there[row] + sizes[row]])
        left = np.flatnonzero(same & (sizes > 0) & (sizes <= LONG))
        while len(left):
            differ = ours[here[left] + at] ^ theirs[there[left] + at]
            same[left] = _cut(differ, sizes[left] - at) == 0
            at += 8
            left = left[same[left] & (sizes[left] > at)]
        return same

    # Growing

    def grown(self, start: int, names: Sequence[bytes] | tuple[Octets, Rows]) -> bool:
        """Add distinct new strings (or such that are laid out) behind so many; False if there are others already."""
        if not self._lock.acquire(blocking=False):  # nobody waits, so that whoever is interrupted holds up nobody
            return False
        try:
            if self.count != start:
                return False
            self._append(*(names if isinstance(names, tuple) else laid_out(names)))
            return True
        finally:
            self._lock.release()

    def _append(self, data: Octets, ends: Rows) -> None:
        start, more, held = self.count, len(ends) - 1, int(self.ends[self.count])
        first, last = int(ends[0]), int(ends[-1])
        end = held + last - first
        if start + more >= ROW:
            raise OverflowError(f"A vocabulary holds fewer than {ROW:,} values, got {start + more:,}.")
        if len(self.data) < end + SPARE or not self.data.flags.writeable:
            self.data = _longer(self.data, held, end + SPARE)
        self.data[held:end] = data[first:last]
        if len(self.ends) <= start + more:
            self.ends = _longer(self.ends, start + 1, start + more + 1)
        self.ends[start + 1 : start + more + 1] = ends[1:] + (held - first)
        # Counted first: interrupted in between, nobody sees all of them any more, and whoever adds copies.
        self.count = start + more
        if self.count > FULLEST * len(self.slots):
            self.slots = self._table(self.count)
        else:
            take(self.slots, hashes_of(self.data, self.ends[start : start + more + 1]), start)

    def _table(self, count: int, values: Words | None = None) -> Words:
        """Slots with all rows, whose hashes may be known."""
        slots = np.zeros(2 ** max(4, int(count / FULLEST).bit_length()), dtype=np.uint64)
        for start in range(0, count, AT_ONCE):
            part = slice(start, min(count, start + AT_ONCE))
            own = hashes_of(self.data, self.ends[start : part.stop + 1]) if values is None else values[part]
            take(slots, own, start)
        return slots

    def part(self, count: int) -> "Distinct":
        """A copy of the first ones."""
        end = int(self.ends[count])
        return Distinct(np.concatenate([self.data[:end], np.zeros(SPARE, np.uint8)]), self.ends[: count + 1].copy())


def take(slots: Words, values: Words, start: int) -> None:
    """Take slots for strings of these hashes, whose rows begin at a start."""
    mask = np.uint64(len(slots) - 1)
    held = (values & ~np.uint64(ROW)) | np.arange(start + 1, start + 1 + len(values), dtype=np.uint64)
    place = values & mask
    while len(held):
        free = slots[place] == 0
        slots[place[free]] = held[free]  # where several want one, the last has it
        left = slots[place] != held
        held, place = held[left], place[left] + np.uint64(1) & mask


def _longer(array: NDArray, used: int, wanted: int) -> NDArray:
    """A copy of what is used of an array, with room for more."""
    longer = np.zeros(wanted + wanted // 4, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer
