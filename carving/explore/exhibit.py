"""The explored memory and its known pairs, and a copy of the memory for each page."""

import copy
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from threading import RLock
from typing import Literal

from carving.errors import BadValue
from carving.explore.catalogue import Catalogue
from carving.formats.documents import Pair
from carving.memory import Memory
from carving.memory.quantized import QuantizedMemory
from carving.symbols.codec import canonical, canonical_path

PAGES = 8  # copies that are kept; the least recently used one is evicted

Verb = Literal["store", "forget"]


@dataclass
class MemoryDocument:
    """The memory that the explorer shows.

    Args:
        memory: The memory. Pages change copies of it.
        name: Its title on the page.
        pairs: The pairs that it is known to hold. They supply paths to pick, and correct answers to compare with.
        file: The file that pages may save their changes to; None forbids saving.
    """

    memory: Memory | QuantizedMemory
    name: str
    pairs: list[Pair] = field(default_factory=list)
    file: FilePath | None = None


@dataclass
class Copy:
    """A page's copy of the memory, and its changes."""

    memory: Memory | QuantizedMemory
    pairs: list[Pair]
    changes: list[tuple[Verb, Pair]] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)
    _catalogue: Catalogue | None = None

    @classmethod
    def of(cls, exhibit: MemoryDocument) -> "Copy":
        """Return a fresh copy, which shares the tensor until it is changed."""
        return cls(copy.copy(exhibit.memory), exhibit.pairs)

    def reset(self, exhibit: MemoryDocument) -> None:
        """Discard the changes. The copy stays the page's own, so that a request which waits for its lock changes it."""
        with self.lock:
            fresh = Copy.of(exhibit)
            self.memory, self.pairs, self._catalogue = fresh.memory, fresh.pairs, None
            self.changes.clear()

    def note(self, verb: Verb, pair: Pair) -> None:
        """Record a change of the copy."""
        self.changes.append((verb, pair))
        self._catalogue = None
        if not self.pairs:
            return
        if verb == "store":
            self.pairs = [*self.pairs, pair]
        else:
            self.pairs = _without(self.pairs, pair)

    @property
    def catalogue(self) -> Catalogue:
        """The known paths: of the given pairs, or kept by the memory."""
        with self.lock:  # so that no concurrent change is missed
            if self._catalogue is None:
                known = self.memory if self.memory.keeps_paths else ()
                self._catalogue = Catalogue.of((path for path, _ in self.pairs) if self.pairs else known)
            return self._catalogue


def _without(pairs: Iterable[Pair], gone: Pair) -> list[Pair]:
    """Return the pairs without the last occurrence of one."""
    left, name = list(pairs), (canonical_path(gone[0]), canonical(gone[1]))
    for place in range(len(left) - 1, -1, -1):
        if (canonical_path(left[place][0]), canonical(left[place][1])) == name:
            del left[place]
            break
    return left


class Gallery:
    """An exhibit and the copies of its pages."""

    def __init__(self, exhibit: MemoryDocument) -> None:
        self.exhibit = exhibit
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._lock = RLock()

    def open(self) -> str:
        """Make a copy for a new page and return its name."""
        with self._lock:
            name = secrets.token_urlsafe(12)
            self._copies[name] = Copy.of(self.exhibit)
            while len(self._copies) > PAGES:
                self._copies.popitem(last=False)
            return name

    def copy(self, name: str) -> Copy:
        """Return the copy of a page."""
        with self._lock:
            found = self._copies.get(name)
            if found is None:
                raise BadValue(
                    f"This page's copy of the memory has expired: only {PAGES} pages keep one. Reload the page."
                )
            self._copies.move_to_end(name)
            return found

    def touch(self, name: str) -> bool:
        """Return whether a page's copy is kept, and mark it as recently used."""
        with self._lock:
            held = name in self._copies
            if held:
                self._copies.move_to_end(name)
            return held
