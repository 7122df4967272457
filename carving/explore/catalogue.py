"""Paths that can be picked: found by what somebody has typed of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from carving.formats.typed import path_text
from carving.symbols import Path, canonical_path

MOST = 200_000  # paths that are held to pick from


@dataclass(frozen=True)
class Catalogue:
    """Paths, each once, with their texts in small letters."""

    paths: list[Path]
    texts: list[str]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Catalogue":
        """The catalogue of paths, of the first ones where they are very many."""
        each = list({canonical_path(path): path for path in islice(paths, MOST)}.values())
        return cls(each, [path_text(path).lower() for path in each])

    def find(self, typed: str, limit: int) -> list[Path]:
        """The paths that have what was typed in them: those that begin with it first.

        >>> Catalogue.of([("hot", "dog"), ("dog", "says")]).find("Dog", 5)
        [('dog', 'says'), ('hot', 'dog')]
        """
        wanted = " ".join(typed.lower().split())
        begin, have = list[Path](), list[Path]()
        for path, text in zip(self.paths, self.texts, strict=True):
            if text.startswith(wanted):
                begin.append(path)
            elif len(have) < limit and wanted in text:
                have.append(path)
            if len(begin) >= limit:
                break
        return (begin + have)[:limit]

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def names(self) -> set[bytes]:
        """What tells these paths from others: 1 and true are two roles."""
        return set(map(canonical_path, self.paths))
