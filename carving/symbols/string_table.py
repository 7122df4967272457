"""Distinct byte strings in order, as three arrays: their bytes, where they end, and a hash table.

No string is an object. Ten million of sixteen bytes take 380 MB: the bytes themselves, eight for where each ends, and
4/3 to 8/3 slots of eight in a table of open addressing. A slot holds half of the string's hash and its row; what is
found there is compared byte by byte, so that strings of one hash are only slower. How much slower is quadratic in their
number: the hash has a secret of the process, so that nobody can make such strings.
"""

import secrets
from collections.abc import Collection
from hashlib import blake2b
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from carving.symbols.codec import Octets, Offsets

Hashes = NDArray[np.uint64]
LaidOut = tuple[Octets, Offsets]  # strings one after the other, with spare bytes; where they end (n + 1,)

MAX_SINGLE_LOOKUPS = 24  # strings; more are faster looked up together
MAX_FILL = 0.75  # share of slots that are taken
TOGETHER = 2**17  # strings that are hashed or looked up in one step
SPARE = 8  # bytes behind the last string, so that words can be read anywhere
LONG = 256  # bytes; longer strings are hashed and compared whole, not word by word
MASK = 2**64 - 1
ROW = 2**32 - 1  # the half of a slot that is the row, plus one; the other is that of the hash


# Drawn for each process: no file holds hashes, and no result depends on them.
START, WORD, FACTOR, LAST = (secrets.randbits(64) | 1 for _ in range(4))
KEY = secrets.token_bytes(16)


def hash_of(name: bytes) -> int:
    """Return the hash of a string: of its length and its words, the last one filled with zeros."""
    if len(name) > LONG:
        return int.from_bytes(blake2b(name, digest_size=8, key=KEY).digest(), "little")
    value = START ^ len(name)
    for at in range(0, len(name), 8):
        word = int.from_bytes(name[at : at + 8], "little") * WORD & MASK
        value = (value ^ word ^ word >> 32) * FACTOR & MASK
        value ^= value >> 32
    value = value * LAST & MASK
    return value ^ value >> 29


def hashes_of(data: Octets, ends: Offsets) -> Hashes:
    """Return the hashes of the strings between n + 1 ends of the data, which has spare bytes behind the last."""
    values = np.empty(len(ends) - 1, dtype=np.uint64)
    for start in range(0, len(values), TOGETHER):
        values[start : start + TOGETHER] = _hashes(data, ends[start : start + TOGETHER + 1])
    return values


def _hashes(data: Octets, ends: Offsets) -> Hashes:
    starts, sizes = ends[:-1], np.diff(ends)
    values = np.uint64(START) ^ sizes.astype(np.uint64)
    at, rows = 0, np.flatnonzero((sizes > 0) & (sizes <= LONG))
    while len(rows):
        part = _words_at(data, starts[rows] + at, sizes[rows] - at) * np.uint64(WORD)
        part ^= part >> np.uint64(32)
        part ^= values if len(rows) == len(values) else values[rows]
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


def _words_at(data: Octets, places: Offsets, left: Offsets) -> Hashes:
    """Return the words at places, without the bytes beyond the ends of strings that have this many left."""
    words = np.ndarray((len(data) - SPARE + 1,), "<u8", data, 0, (1,))[places]
    return words & (np.uint64(MASK) >> (8 * (8 - np.minimum(left, 8))).astype(np.uint64))


def laid_out(names: Collection[bytes]) -> LaidOut:
    """Return strings one after the other, with spare bytes, and their n + 1 ends."""
    ends = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, names), dtype=np.int64, count=len(names)), out=ends[1:])
    return np.frombuffer(b"".join((*names, bytes(SPARE))), dtype=np.uint8), ends


class StringTable:
    """Distinct byte strings, which only grow at their end. Threads may read while another one adds.

    >>> names = StringTable()
    >>> names.append(0, laid_out([b"dog", b"cat"])), names.rows_of([b"cat", b"cow"]).tolist(), names[0]
    (True, [1, -1], b'dog')
    """

    # Rows below `count` never change; arrays that are too small are replaced, and slots are only ever taken. Whoever
    # took hold of an older array therefore sees whole rows, and at worst not the newest ones.

    def __init__(self, strings: LaidOut | None = None, hashes: Hashes | None = None) -> None:
        """Hold strings that are known to be distinct, and whose hashes may be known."""
        self.data, self.ends = strings or laid_out(())
        self.count = len(self.ends) - 1
        self._lock = Lock()
        self._fill_slots(hashes)

    def __getitem__(self, row: int) -> bytes:
        start, end = self.ends[row : row + 2].tolist()
        return self.data[start:end].tobytes()

    def span(self, start: int, stop: int) -> Octets:
        """Return the bytes of rows, one after the other."""
        ends = self.ends
        return self.data[int(ends[start]) : int(ends[stop])]

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return self.data.nbytes + self.ends.nbytes + self.slots.nbytes

    # Looking up

    def rows_of(self, names: Collection[bytes], below: int = ROW) -> Offsets:
        """Return the rows of strings; -1 for those that are not below a row."""
        if len(names) > MAX_SINGLE_LOOKUPS:
            return self.rows_of_many(*laid_out(names), below)
        slots = self.slots
        held = [int(slots[self._slot_of(name, hash_of(name), slots)]) for name in names]
        rows = np.array([(each & ROW) - 1 for each in held], dtype=np.int64)
        rows[rows >= below] = -1
        return rows

    def rows_of_many(self, data: Octets, ends: Offsets, below: int) -> Offsets:
        """Return the rows of strings that are laid out; -1 for those that are not below a row."""
        starts = range(0, len(ends), TOGETHER)
        rows = np.concatenate([self._rows_of_part(data, ends[start : start + TOGETHER + 1]) for start in starts])
        rows[rows >= below] = -1
        return rows

    def _slot_of(self, name: bytes, value: int, slots: Hashes) -> int:
        """Return the slot that holds a string of this hash, or else the free slot for it."""
        mask = len(slots) - 1
        slot = value & mask
        while held := int(slots[slot]):
            if held >> 32 == value >> 32 and self[(held & ROW) - 1] == name:
                break
            slot = slot + 1 & mask
        return slot

    def _rows_of_part(self, data: Octets, ends: Offsets) -> Offsets:
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

    def _equal(self, rows: Offsets, data: Octets, ends: Offsets, asked: Offsets) -> NDArray[np.bool_]:
        """Return whether the strings of these rows are those that are asked for."""
        own_ends = self.ends  # before the data, which is replaced first
        here, there, sizes = own_ends[rows], ends[asked], ends[asked + 1] - ends[asked]
        same = own_ends[rows + 1] - here == sizes
        own = self.data
        for row in np.flatnonzero(same & (sizes > LONG)).tolist():
            same[row] = self[rows[row]] == data[there[row] : there[row] + sizes[row]].tobytes()
        at, left = 0, np.flatnonzero(same & (sizes > 0) & (sizes <= LONG))
        while len(left):
            ours, theirs = (
                _words_at(*each, sizes[left] - at) for each in ((own, here[left] + at), (data, there[left] + at))
            )
            same[left] = ours == theirs
            at += 8
            left = left[same[left] & (sizes[left] > at)]
        return same

    # Growing

    def append(self, start: int, strings: LaidOut) -> bool:
        """Add new strings from a row on; False if there are other strings already."""
        # Never block: a thread that is interrupted while it holds the lock must not hold up others.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self.count != start:
                return False
            self._append(*strings)
            return True
        finally:
            self._lock.release()

    def _append(self, data: Octets, ends: Offsets) -> None:
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
        if self.count > MAX_FILL * len(self.slots):
            self._fill_slots()
        elif more <= MAX_SINGLE_LOOKUPS:
            for row in range(start, self.count):
                value = hash_of(name := self[row])
                self.slots[self._slot_of(name, value, self.slots)] = value & ~ROW | row + 1
        else:
            take(self.slots, hashes_of(self.data, self.ends[start : self.count + 1]), start)

    def _fill_slots(self, hashes: Hashes | None = None) -> None:
        """Take new slots for all rows, whose hashes may be known."""
        slots = np.zeros(2 ** max(4, int(self.count / MAX_FILL).bit_length()), dtype=np.uint64)
        for start in range(0, self.count, TOGETHER):
            ends = self.ends[start : min(self.count, start + TOGETHER) + 1]
            take(slots, hashes_of(self.data, ends) if hashes is None else hashes[start : start + TOGETHER], start)
        self.slots = slots

    def copy_of_first(self, count: int) -> "StringTable":
        """Return a copy of the first strings."""
        data, ends = self.data, self.ends[: count + 1].copy()
        return StringTable((np.append(data[: int(ends[-1])], np.zeros(SPARE, np.uint8)), ends))


def take(slots: Hashes, values: Hashes, start: int) -> None:
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
    """Return a copy of the used part of an array, with room for more."""
    longer = np.zeros(wanted + wanted // 4, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer
