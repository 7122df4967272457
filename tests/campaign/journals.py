"""Damaged and lying journals: what is not as it was written is refused, or counts as a change that never ended.

A journal's last change cannot be told from one that was cut off while it was written (docs/files.md). So a damaged
journal may be taken, if that gives the state before the first record that was touched, and if no whole record follows
it. Which state that is, is told by comparing bytes, and not by reading journals.
"""

import os
import random
import struct
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from damage import damaged, outcome

import carving
from carving import OSC, Memory

SCHEME = OSC(12, 2)
CHANGES = 4  # of a journal
HEAD, DIGEST = 84, 16  # bytes of the head, and of a checksum
FRAME = struct.Struct("<16s16sQII")  # name, identity, sequence, bytes, entries
WEIGHT = struct.Struct("<d?")  # of an entry, after its path and value, and whether it is counted
NUMBERS = (0, 1, 2, 3, 2**31, 2**32 - 1)
WEIGHTS = (0.0, -1.0, 1e308, float("nan"), float("inf"), 5e-324, 1e6, -0.0)
BODIES = (
    b"",
    b"p1:s1:a",
    b"p0:s1:x",
    b"p2:s3:dogs4:sayss4:woof",
    b"p1:s1:a(0:",
    b"p9999999:s1:a",
    b"s1:a",
    b"p-1:s1:x",
)


class Journaled:
    """A base, a journal with a few changes, and what is there after each of them."""

    def __init__(self, at: Path, name: str, number: int) -> None:
        self.file, self.journal = at / name, at / f"{name}.journal"
        memory = Memory(SCHEME)
        memory.store([(("kept", i), i) for i in range(3)])
        memory.save(self.file)
        self.ends, self.states = [HEAD], [state(self.file)]
        with carving.open(self.file) as opened:
            for change in range(CHANGES):
                opened.store([(("new", number, change, i), f"value {i}") for i in range(change % 2 + 1)])
                self.ends.append(os.path.getsize(self.journal))
                self.states.append(state(self.file))
        self.whole = self.journal.read_bytes()
        self.records = [self.whole[a:b] for a, b in zip(self.ends, self.ends[1:], strict=False)]

    def allowed(self, changed: bytes) -> object:
        """The state that a changed journal may give: None if it must be refused."""
        pairs = zip(self.whole, changed, strict=False)
        same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(self.whole), len(changed)))
        untouched = sum(end <= same for end in self.ends) - 1
        if untouched < 0 or any(record in changed[self.ends[untouched] :] for record in self.records[untouched:]):
            return None
        return self.states[untouched]


def state(file: Path) -> tuple[bytes, list[float]]:
    """All that a memory's file and its journal hold."""
    memory = Memory.load(file)
    return memory.tensor.numpy().tobytes(), memory.counts.tolist()


def lying(whole: bytes, ends: list[int], chance: random.Random) -> bytes:
    """A journal whose last record says something else, with a checksum that is right."""
    start, end = ends[-2:]
    body = whole[start + FRAME.size + DIGEST : end - DIGEST]
    fields = list(FRAME.unpack(whole[start : start + FRAME.size]))
    for _ in range(chance.choice((1, 1, 2))):
        match chance.randrange(4):
            case 0:
                fields[2] = chance.choice(NUMBERS)
            case 1:
                body = body[: -WEIGHT.size] + WEIGHT.pack(chance.choice(WEIGHTS), chance.random() < 0.5)
            case 2:
                fields[4] = chance.choice(NUMBERS)
            case 3:
                body = chance.choice((*BODIES, damaged(body or b"x", b"p1:s1:a" * 20, chance)))
    fields[3] = len(body) if chance.random() < 0.9 else chance.choice(NUMBERS)
    record = signed(signed(FRAME.pack(*fields), whole) + body, whole)
    return whole[:start] + record


def signed(data: bytes, journal: bytes) -> bytes:
    """The bytes with the checksum that a journal has of them."""
    return data + blake2b(data, digest_size=DIGEST, key=journal[HEAD - DIGEST : HEAD]).digest()


def tries(at: Path) -> tuple[Callable[[random.Random], str], Callable[[random.Random], str]]:
    """What tries a damaged journal, and a lying one: `refused`, `cut`, `believed`, or what is wrong."""
    one, other = Journaled(at, "one", 0), Journaled(at, "other", 1)
    assert one.file.read_bytes() == other.file.read_bytes(), "the same memory is another file"

    def taken(changed: bytes) -> tuple[str, object]:
        one.journal.write_bytes(changed)
        found = list[object]()
        return outcome(lambda file: found.append(state(file)), one.file), found

    def damaged_one(chance: random.Random) -> str:
        while (changed := damaged(one.whole, other.whole, chance)) in (one.whole, other.whole):
            pass
        ours = other if changed[:HEAD] == other.whole[:HEAD] else one
        came, found = taken(changed)
        if came == "refused":
            cut = len(changed) >= HEAD and ours.whole.startswith(changed)
            return "refused, though it was only cut off" if cut else came
        return "cut" if came == "accepted" and found == [ours.allowed(changed)] else f"{came}, but holds something else"

    def lying_one(chance: random.Random) -> str:
        came, _ = taken(lying(one.whole, one.ends, chance))
        return "believed" if came == "accepted" else came

    return damaged_one, lying_one
