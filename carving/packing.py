"""Paths as bytes: their canonical names read back, and many of them, with how many pairs each holds, packed for a file.

A packed file of a kilobyte can hold gigabytes: what unpacks to more than `FREE` bytes may not grow above `GROWTH`
times, and is not packed tighter than that either.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from carving.errors import BadValue
from carving.symbols import ROLE_ALONE, Path, Role, canonical, parse_labels

FREE = 16 << 20  # bytes that any number of packed ones may unpack to
GROWTH = 100  # how many times their size beyond that
MOST = 2**53  # pairs under one path


class Roles(dict[bytes, Role]):
    """The roles of canonical bytes, each read when it is first asked for: in many paths most come again and again."""

    def __missing__(self, name: bytes) -> Role:
        role = () if name == ROLE_ALONE else cast(Role, parse_labels(name)[0])
        if canonical(role) != name:
            raise BadValue(f"it has a role of the bytes {name[:40]!r}, which no label has")
        self[name] = role
        return role


class Counts(dict[bytes, int]):
    """The same of how many pairs a path holds."""

    def __missing__(self, name: bytes) -> int:
        count = parse_labels(name)[0]
        if type(count) is not int or not 0 < count <= MOST or canonical(count) != name:
            raise BadValue(f"it counts {name[:40]!r} pairs under a path")
        self[name] = count
        return count


def parse_paths(names: Iterable[bytes]) -> Iterator[Path]:
    """The paths of canonical bytes.

    >>> list(parse_paths([b"p2:s3:dogi1:7", b"p1:(0:"]))
    [('dog', 7), ((),)]
    """
    known = Roles()
    return (_path(name, name.index(b":") + 1, len(name), known) for name in names)


def _path(data: bytes, at: int, end: int, known: Roles) -> Path:
    roles = []
    while at < end:
        stop = _end(data, at)
        roles.append(known[data[at:stop]])
        at = stop
    return tuple(roles)


def _end(data: bytes, at: int) -> int:
    """Where the label ends that begins here: after a tag, a length, a colon and its content."""
    colon = data.index(b":", at, at + 24)
    size = int(data[at + 1 : colon])
    if size < 0 or colon + 1 + size > len(data):
        raise BadValue("its paths end in the middle of a role")
    return colon + 1 + size


def pack(counts: Mapping[bytes, int]) -> bytes:
    """The names of paths, each with how many pairs it holds: the same ones in the same order give the same bytes.

    >>> unpack(pack({b"p1:s3:dog": 2, b"p1:s3:cat": 1}))
    {b'p1:s3:dog': 2, b'p1:s3:cat': 1}
    """
    body = b"".join([name + canonical(count) for name, count in counts.items()])
    packed = zlib.compress(body, 6)
    return packed if len(body) <= _limit(packed) else zlib.compress(body, 0)


def unpack(packed: bytes) -> dict[bytes, int]:
    """What was packed; anything else is refused."""
    body = _inflated(packed)
    counts, known, numbers, at = dict[bytes, int](), Roles(), Counts(), 0
    while at < len(body):
        start, at = at, body.index(b":", at, at + 24) + 1
        roles = int(body[start + 1 : at - 1])
        if roles < 1 or body[start:at] != b"p%d:" % roles:
            raise BadValue(f"it has a path of the bytes {body[start:at]!r}")
        for _ in range(roles):
            stop = _end(body, at)
            known[body[at:stop]]  # looked at, once
            at = stop
        name, stop = body[start:at], _end(body, at)
        if name in counts:
            raise BadValue("its paths are not all different")
        counts[name] = numbers[body[at:stop]]
        at = stop
    return counts


def _inflated(packed: bytes) -> bytes:
    stream, limit = zlib.decompressobj(), _limit(packed)
    try:
        body = stream.decompress(packed, limit + 1)
    except zlib.error as error:
        raise BadValue(f"its paths are not packed as they should be ({error})") from None
    if len(body) > limit:
        raise BadValue(f"its paths, {len(packed)} bytes, would unpack to more than {limit}")
    if not stream.eof or stream.unused_data:
        raise BadValue("its paths are not packed as they should be (they end too early or too late)")
    return body


def _limit(packed: bytes) -> int:
    return FREE + GROWTH * len(packed)
