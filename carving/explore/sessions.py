"""The explored memory and its known pairs, and a copy of the memory for each page."""

import copy
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path as FilePath
from threading import RLock
from typing import Literal

from carving.caching import cached_property
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.formats.typed import path_text
from carving.memory import Memory
from carving.memory.quantized import QuantizedMemory
from carving.symbols.codec import Path, canonical, canonical_path

MAX_SESSIONS = 8  # the least recently used one is evicted
MAX_INDEXED_PATHS = 200_000

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


@dataclass(frozen=True)
class PathIndex:
    """Distinct paths, searched by substring: `texts` are in lower case."""

    paths: list[Path]
    texts: list[str]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "PathIndex":
        """Index paths; only the first `MAX_INDEXED_PATHS` of them."""
        each = list({canonical_path(path): path for path in islice(paths, MAX_INDEXED_PATHS)}.values())
        return cls(each, [path_text(path).lower() for path in each])

    def find(self, typed: str, limit: int) -> list[Path]:
        """Return up to `limit` paths that contain the typed text; paths that begin with it come first.

        >>> PathIndex.of([("hot", "dog"), ("dog", "says")]).find("Dog", 5)
        [('dog', 'says'), ('hot', 'dog')]
        """
        wanted = " ".join(typed.lower().split())
        starting, containing = list[Path](), list[Path]()
        for path, text in zip(self.paths, self.texts, strict=True):
            if text.startswith(wanted):
                starting.append(path)
            elif len(containing) < limit and wanted in text:
                containing.append(path)
            if len(starting) >= limit:
                break
        return (starting + containing)[:limit]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def names(self) -> set[bytes]:
        """The canonical bytes of the paths, which distinguish 1 from true."""
        return set(map(canonical_path, self.paths))


@dataclass
class Session:
    """A page's copy of the memory, and its changes."""

    memory: Memory | QuantizedMemory
    pairs: list[Pair]
    changes: list[tuple[Verb, Pair]] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)
    _path_index: PathIndex | None = None

    @classmethod
    def of(cls, document: MemoryDocument) -> "Session":
        """Return a fresh copy, which shares the tensor until it is changed."""
        return cls(memory=copy.copy(document.memory), pairs=document.pairs)

    def reset(self, document: MemoryDocument) -> None:
        """Discard the changes. The copy stays the page's own, so that a request which waits for its lock changes it."""
        with self.lock:
            fresh = Session.of(document)
            self.memory, self.pairs, self._path_index = fresh.memory, fresh.pairs, None
            self.changes.clear()

    def record(self, verb: Verb, pair: Pair) -> None:
        """Record a change of the copy."""
        self.changes.append((verb, pair))
        self._path_index = None
        if not self.pairs:
            return
        if verb == "store":
            self.pairs = [*self.pairs, pair]
        else:
            self.pairs = _without(self.pairs, pair)

    @property
    def path_index(self) -> PathIndex:
        """The known paths: of the given pairs, or kept by the memory."""
        with self.lock:  # so that no concurrent change is missed
            if self._path_index is None:
                known = self.memory if self.memory.keeps_paths else ()
                self._path_index = PathIndex.of((path for path, _ in self.pairs) if self.pairs else known)
            return self._path_index


def _without(pairs: Iterable[Pair], removed: Pair) -> list[Pair]:
    """Return the pairs without the last occurrence of one."""
    left, name = list(pairs), (canonical_path(removed[0]), canonical(removed[1]))
    for place in range(len(left) - 1, -1, -1):
        if (canonical_path(left[place][0]), canonical(left[place][1])) == name:
            del left[place]
            break
    return left


class SessionStore:
    """The explored memory and the sessions of its pages."""

    def __init__(self, document: MemoryDocument) -> None:
        self.document = document
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = RLock()

    def open(self) -> str:
        """Make a copy for a new page and return its name."""
        with self._lock:
            name = secrets.token_urlsafe(12)
            self._sessions[name] = Session.of(self.document)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
            return name

    def get(self, name: str) -> Session:
        """Return the copy of a page."""
        with self._lock:
            found = self._sessions.get(name)
            if found is None:
                raise BadValue(
                    f"This page's copy of the memory has expired: only {MAX_SESSIONS} pages keep one. Reload the page."
                )
            self._sessions.move_to_end(name)
            return found

    def touch(self, name: str) -> bool:
        """Return whether a page's copy is kept, and mark it as recently used."""
        with self._lock:
            is_open = name in self._sessions
            if is_open:
                self._sessions.move_to_end(name)
            return is_open
