"""Paths that were checked once, with the canonical bytes of their roles: what contexts are drawn from."""

from collections.abc import Iterable, Iterator
from typing import SupportsIndex, overload

from carving.errors import BadType, BadValue
from carving.symbols.codec import Names, Path, canonical, canonical_path
from carving.validate import listed


def as_path(path: object) -> Path:
    """Return the path as a tuple of labels; refuse a single label and an empty path."""
    if not isinstance(path, tuple | list):
        raise BadType(f"A path must be a tuple of labels, got {path!r}. For a path of one role write ({path!r},).")
    if not path:
        raise BadValue("A path must name at least one role, got an empty path")
    return tuple(path)


class Paths(tuple[Path, ...]):
    """Checked paths and their canonical bytes, which are made here, once, and carried on to whatever is drawn.

    >>> paths = Paths.of([("dog", "says"), ("dog", 1), ("dog", "says")])
    >>> paths.names[1:], paths[1:].roles[0]
    ([b'p2:s3:dogi1:1', b'p2:s3:dogs4:says'], (b's3:dog', b'i1:1'))
    >>> distinct, which = paths.distinct()
    >>> list(distinct), which
    ([('dog', 'says'), ('dog', 1)], [0, 1, 0])
    """

    roles: list[tuple[bytes, ...]]  # the canonical bytes of each path's roles,
    names: list[bytes]  # and of the whole path

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Paths":
        """The paths, checked; those that were checked before are taken as they are."""
        return paths if isinstance(paths, Paths) else cls.of_checked([as_path(path) for path in listed(paths, "paths")])

    @classmethod
    def of_checked(cls, paths: list[Path]) -> "Paths":
        """Of tuples that were found to be paths; only their roles are looked at."""
        known = Names()
        try:
            roles = [tuple([known[r] if type(r) is str else canonical(r) for r in path]) for path in paths]
        except (BadType, BadValue):
            for path in paths:
                canonical_path(path)  # tells which
            raise
        own = cls(paths)
        own.roles, own.names = roles, [b"p%d:%b" % (len(each), b"".join(each)) for each in roles]
        return own

    @overload
    def __getitem__(self, rows: SupportsIndex) -> Path: ...

    @overload
    def __getitem__(self, rows: slice) -> "Paths": ...

    def __getitem__(self, rows: SupportsIndex | slice) -> "Path | Paths":
        """One path, or the checked paths of a slice."""
        if not isinstance(rows, slice):
            return super().__getitem__(rows)
        part = Paths(super().__getitem__(rows))
        part.roles, part.names = self.roles[rows], self.names[rows]
        return part

    def leveled(self) -> Iterator[list[bytes]]:
        """The names of each path's roles where a role is named by its level as well: `(level, role)` as a path."""
        starts = [b"p2:" + canonical(level) for level in range(max(map(len, self.roles)))]
        return ([start + role for start, role in zip(starts, roles, strict=False)] for roles in self.roles)

    def distinct(self) -> tuple["Paths", list[int]]:
        """Each path once, in the order of its first appearance, and where among those each of all stands."""
        places: dict[bytes, int] = {}
        which = [places.setdefault(name, len(places)) for name in self.names]
        first = dict(zip(reversed(self.names), reversed(range(len(self))), strict=True))
        rows = [first[name] for name in places]
        part = Paths(super(Paths, self).__getitem__(row) for row in rows)
        part.roles, part.names = [self.roles[row] for row in rows], list(places)
        return part, which
