"""What is explored: a memory, and what is known of its pairs. Every page changes a copy of its own."""

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
from carving.memory.sealed import SealedMemory
from carving.symbols import canonical, canonical_path

PAGES = 8  # copies that are held: of more, the one that was used least lately is given up

Verb = Literal["store", "forget"]


@dataclass
class Exhibit:
    """A memory, as it was opened."""

    memory: Memory | SealedMemory
    name: str
    pairs: list[Pair] = field(default_factory=list)  # that files say it holds
    file: FilePath | None = None  # where changes may be saved


@dataclass
class Copy:
    """A page's own copy of the memory, with what was changed in it."""

    memory: Memory | SealedMemory
    pairs: list[Pair]
    changes: list[tuple[Verb, Pair]] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)
    _catalogue: Catalogue | None = None

    @classmethod
    def of(cls, exhibit: Exhibit) -> "Copy":
        """A fresh copy: until it is changed, both have the same tensor."""
        return cls(copy.copy(exhibit.memory), exhibit.pairs)

    def note(self, verb: Verb, pair: Pair) -> None:
        """Keep in mind what was done to the copy."""
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
        """The paths that are known: of the files, or kept by the memory."""
        with self.lock:  # a change meanwhile would be missing from it
            if self._catalogue is None:
                known = self.memory if self.memory.keeps_paths else ()
                self._catalogue = Catalogue.of((path for path, _ in self.pairs) if self.pairs else known)
            return self._catalogue


def _without(pairs: Iterable[Pair], gone: Pair) -> list[Pair]:
    """The pairs without the last that is this one."""
    left, name = list(pairs), (canonical_path(gone[0]), canonical(gone[1]))
    for place in range(len(left) - 1, -1, -1):
        if (canonical_path(left[place][0]), canonical(left[place][1])) == name:
            del left[place]
            break
    return left


class Gallery:
    """An exhibit and the copies of the pages that look at it."""

    def __init__(self, exhibit: Exhibit) -> None:
        self.exhibit = exhibit
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._lock = RLock()

    def open(self) -> str:
        """A new page's name; the copy is made."""
        with self._lock:
            name = secrets.token_urlsafe(12)
            self._copies[name] = Copy.of(self.exhibit)
            while len(self._copies) > PAGES:
                self._copies.popitem(last=False)
            return name

    def copy(self, name: str) -> Copy:
        """The copy of a page."""
        with self._lock:
            found = self._copies.get(name)
            if found is None:
                raise BadValue(
                    f"this page's copy is no longer held ({PAGES} pages at a time have one); load the page again"
                )
            self._copies.move_to_end(name)
            return found

    def touch(self, name: str) -> bool:
        """Whether a page's copy is held; who asks still looks at it, and others go first."""
        with self._lock:
            held = name in self._copies
            if held:
                self._copies.move_to_end(name)
            return held

    def reset(self, name: str) -> Copy:
        """A fresh copy for a page."""
        with self._lock:
            self.copy(name)
            self._copies[name] = Copy.of(self.exhibit)
            return self._copies[name]
