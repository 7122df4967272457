"""An index of paths, searched by substring."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from carving.formats.typed import path_text
from carving.symbols.codec import Path, canonical_path

MOST = 200_000  # paths in the index


@dataclass(frozen=True)
class Catalogue:
    """Distinct paths and their texts in lower case."""

    paths: list[Path]
    texts: list[str]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Catalogue":
        """Index paths; only the first `MOST` of them."""
        each = list({canonical_path(path): path for path in islice(paths, MOST)}.values())
        return cls(each, [path_text(path).lower() for path in each])

    def find(self, typed: str, limit: int) -> list[Path]:
        """Return up to `limit` paths that contain the typed text; paths that begin with it come first.

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
        """The canonical bytes of the paths, which distinguish 1 from true."""
        return set(map(canonical_path, self.paths))
