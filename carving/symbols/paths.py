"""Checked paths with their canonical bytes; and the weights of many paths, packed for a file."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import SupportsIndex, cast, overload

from carving.errors import BadType, BadValue
from carving.symbols.codec import Labels, Path, canonical, canonical_path, label_end, parse_path
from carving.validate import listed


def as_path(path: object) -> Path:
    """Return the path as a tuple of labels; refuse a single label and an empty path."""
    if not isinstance(path, tuple | list):
        raise BadType(f"A path must be a tuple of labels, got {path!r}. For a path of one role write ({path!r},).")
    if not path:
        raise BadValue("A path must name at least one role, got an empty path")
    return tuple(path)


class Paths(tuple[Path, ...]):
    """Checked paths, and the canonical bytes of each: made once, for whatever is derived from them.

    >>> paths = Paths.of([("dog", "says"), ("dog", 1), ("dog", "says")])
    >>> paths.names[1:]
    [b'p2:s3:dogi1:1', b'p2:s3:dogs4:says']
    >>> distinct, which = paths.distinct()
    >>> list(distinct), which
    ([('dog', 'says'), ('dog', 1)], [0, 1, 0])
    """

    names: Sequence[bytes] = ()  # the canonical bytes of each path

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Paths":
        """Check paths; those that are checked already are returned as they are."""
        if isinstance(paths, Paths):
            return paths
        given = paths if type(paths) is list and paths else listed(paths, "paths")
        own = cls([path if type(path) is tuple and path else as_path(path) for path in given])
        own.names = list(map(canonical_path, own))
        return own

    @classmethod
    def _with(cls, paths: Iterable[Path], names: Sequence[bytes]) -> "Paths":
        own = cls(paths)
        own.names = names
        return own

    @overload
    def __getitem__(self, rows: SupportsIndex) -> Path: ...

    @overload
    def __getitem__(self, rows: slice) -> "Paths": ...

    def __getitem__(self, rows: SupportsIndex | slice) -> "Path | Paths":
        """Return one path, or the checked paths of a slice."""
        if isinstance(rows, slice):
            return Paths._with(super().__getitem__(rows), self.names[rows])
        return super().__getitem__(rows)

    def only(self, kept: Iterable[object]) -> "Paths":
        """Return the paths for which a flag is set."""
        flags = list(kept)
        return Paths._with(compress(self, flags), list(compress(self.names, flags)))

    def leveled(self) -> Iterator[list[bytes]]:
        """Yield the canonical bytes of the paths `(level, role)` of each path's roles."""
        starts = [b"p2:" + canonical(level) for level in range(max(map(len, self)))]
        return ([start + canonical(role) for start, role in zip(starts, path, strict=False)] for path in self)

    def distinct(self) -> tuple["Paths", list[int]]:
        """Return each path once, in order of first appearance, and for each of all paths its position among these."""
        first: dict[bytes, int] = {}
        which = [first.setdefault(name, len(first)) for name in self.names]
        by_name = dict(zip(reversed(self.names), reversed(self), strict=True))
        return Paths._with(map(by_name.__getitem__, first), list(first)), which


# Packed for a file: a packed file of a kilobyte can hold gigabytes, so that what unpacks to more than FREE_BYTES may
# not grow above MAX_GROWTH times, and is not packed tighter than that either.

FREE_BYTES = 16 << 20
MAX_GROWTH = 100
MAX_WEIGHT = 2**53  # under one path


def pack(weights: Mapping[bytes, float]) -> bytes:
    """Return the compressed canonical bytes of paths, each with its weight as a label; the same for the same order.

    >>> unpack(pack({b"p1:s3:dog": 2, b"p1:s3:cat": 1}))
    {b'p1:s3:dog': 2, b'p1:s3:cat': 1}
    """
    whole = ((name, int(weight) if weight == int(weight) else weight) for name, weight in weights.items())
    body = b"".join([name + canonical(weight) for name, weight in whole])
    packed = zlib.compress(body, 6)
    return packed if len(body) <= _limit(packed) else zlib.compress(body, 0)


def unpack(packed: bytes) -> dict[bytes, float]:
    """Return the weights of packed paths; raises BadValue for anything that `pack` does not return."""
    body = _decompress(packed)
    weights, labels, at = dict[bytes, float](), Labels(), 0
    while at < len(body):
        _, end = parse_path(body, at, labels)
        name, at = body[at:end], label_end(body, end)
        weight = labels[body[end:at]]
        if type(weight) not in (int, float) or not 0 < cast(float, weight) <= MAX_WEIGHT:
            raise BadValue(f"the weight of a path has the invalid bytes {body[end:at]!r:.40}")
        if name in weights:
            raise BadValue("the paths are not all different")
        weights[name] = cast(float, weight)
    return weights


def _decompress(packed: bytes) -> bytes:
    stream, limit = zlib.decompressobj(), _limit(packed)
    try:
        body = stream.decompress(packed, limit + 1)
    except zlib.error as error:
        raise BadValue(f"the paths cannot be decompressed ({error})") from None
    if len(body) > limit:
        raise BadValue(f"the {len(packed)} bytes of paths would decompress to more than {limit}")
    if not stream.eof or stream.unused_data:
        raise BadValue("the compressed paths are truncated, or followed by other data")
    return body


def _limit(packed: bytes) -> int:
    return FREE_BYTES + MAX_GROWTH * len(packed)
