"""Paths as bytes: their canonical names read back, and many, with the weight that each holds, packed for a file.

A packed file of a kilobyte can hold gigabytes: what unpacks to more than `FREE` bytes may not grow above `GROWTH`
times, and is not packed tighter than that either.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from carving.errors import BadValue
from carving.symbols.codec import ROLE_ALONE, Path, Role, canonical, parse_labels

FREE = 16 << 20  # bytes that any number of packed ones may unpack to
GROWTH = 100  # how many times their size beyond that
MOST = 2**53  # the weight under one path


class Roles(dict[bytes, Role]):
    """The roles of canonical bytes, each read when it is first asked for: in many paths most come again and again."""

    def __missing__(self, name: bytes) -> Role:
        role = () if name == ROLE_ALONE else cast(Role, parse_labels(name)[0])
        if canonical(role) != name:
            raise BadValue(f"a role has the bytes {name[:40]!r}, which encode no label")
        self[name] = role
        return role


class Weights(dict[bytes, float]):
    """The same of the weights that paths hold: whole numbers, most often."""

    def __missing__(self, name: bytes) -> float:
        weight = parse_labels(name)[0]
        if type(weight) not in (int, float) or canonical(weight) != name or not 0 < cast(float, weight) <= MOST:
            raise BadValue(f"the weight of a path has the invalid bytes {name[:40]!r}")
        self[name] = cast(float, weight)
        return self[name]


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
        raise BadValue("the paths end in the middle of a role")
    return colon + 1 + size


def pack(weights: Mapping[bytes, float]) -> bytes:
    """The names of paths, each with the weight that it holds: the same ones in the same order give the same bytes.

    >>> unpack(pack({b"p1:s3:dog": 2, b"p1:s3:cat": 1}))
    {b'p1:s3:dog': 2, b'p1:s3:cat': 1}
    """
    body = b"".join([name + canonical(_plain(weight)) for name, weight in weights.items()])
    packed = zlib.compress(body, 6)
    return packed if len(body) <= _limit(packed) else zlib.compress(body, 0)


def _plain(weight: float) -> float:
    """A whole number as one."""
    return int(weight) if weight == int(weight) else weight


def unpack(packed: bytes) -> dict[bytes, float]:
    """What was packed; anything else is refused."""
    body = _inflated(packed)
    weights, known, numbers, at = dict[bytes, float](), Roles(), Weights(), 0
    while at < len(body):
        start, at = at, body.index(b":", at, at + 24) + 1
        roles = int(body[start + 1 : at - 1])
        if roles < 1 or body[start:at] != b"p%d:" % roles:
            raise BadValue(f"a path begins with the invalid bytes {body[start:at]!r}")
        for _ in range(roles):
            stop = _end(body, at)
            known[body[at:stop]]  # looked at, once
            at = stop
        name, stop = body[start:at], _end(body, at)
        if name in weights:
            raise BadValue("the paths are not all different")
        weights[name] = numbers[body[at:stop]]
        at = stop
    return weights


def _inflated(packed: bytes) -> bytes:
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
    return FREE + GROWTH * len(packed)
