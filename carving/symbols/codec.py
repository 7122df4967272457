"""The grammar of labels and paths: their canonical bytes, from which all random numbers are derived (`hashing`).

    label = tag length ":" content     s3:dog     i2:-7     t0:
    path  = "p" roles ":" label*       p2:s3:dogi1:7

The bytes are unambiguous: `("ab", "c")`, `("a", "bc")` and `("abc",)` are three paths; `1`, `"1"`, `1.0` and `True` are
four labels. Labels that stand one after the other are read by `label_end`, one at a time, or by `label_ends`, millions
together. Both find the same labels and refuse the same bytes.
"""

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from reprlib import repr as shortened
from typing import Any, Never, cast

import numpy as np
from numpy.typing import NDArray

from carving.errors import BadType, BadValue

Label = str | int | float | bool | bytes | None
Role = Label | tuple[()]  # `()` is a role that no key of a document can be
Value = Label | dict[Never, Never] | list[Never]  # an empty dict or list is a value: it has nothing below it
Path = tuple[Role, ...]
Octets = NDArray[np.uint8]
Offsets = NDArray[np.int64]


# Writing


def canonical(label: Role | Value) -> bytes:
    """Return the canonical bytes of a label: a tag, the length of the content, a colon, the content.

    They are unambiguous: `1`, `"1"`, `1.0` and `True` are four labels; `{}`, `[]` and `()` are three. Unicode is not
    normalized.
    """
    if isinstance(label, str):  # first and without a further call: most labels are strings
        text = label.encode() if label.isascii() else label.encode("utf-8", "surrogatepass")
        return b"s%d:%s" % (len(text), text)
    if type(label) is int and -(2**63) <= label < 2**63:  # then the usual numbers
        digits = b"%d" % label
        return b"i%d:%s" % (len(digits), digits)
    tag, content = _encode(label.item() if isinstance(label, NUMPY_SCALARS) else label)
    return b"%s%d:%s" % (tag, len(content), content)


NUMPY_SCALARS = (np.bool_, np.integer, np.floating)


def _encode(label: object) -> tuple[bytes, bytes]:
    """Return the tag and the content of a label that is no text."""
    match label:
        case bool():  # before int: True is one
            return (b"f", b"t")[label], b""
        case int():
            if label.bit_length() > 10_000:
                raise BadValue(f"an integer label may have at most 10,000 bits, got {label.bit_length():,}. Use bytes.")
            return b"i", b"%d" % label
        case float():  # one zero (-0.0 + 0.0 is 0.0) and one not-a-number: labels that look alike share bytes
            return b"d", struct.pack(">d", math.nan if math.isnan(label) else label + 0.0)
        case bytes():
            return b"b", label
        case None:
            return b"n", b""
        case dict() | list() | tuple() if not label:
            return b"{" if isinstance(label, dict) else b"[" if isinstance(label, list) else b"(", b""
    # shortened: a label's whole repr may be endless, or nested deeper than Python can show
    raise BadType(
        "a label must be a string, an integer, a float, a boolean, bytes, None or an empty dict, list or tuple, "
        f"got {shortened(label)} of type {type(label).__name__}. Convert it with str(...)."
    )


EMPTY_ROLE = b"(0:"  # the canonical bytes of ()


def canonical_values(values: Iterable[Value]) -> list[bytes]:
    """Return the canonical bytes of values; raises BadType for `()`, which is allowed as a role only."""
    names = list(map(canonical, values))
    if EMPTY_ROLE in names:
        raise BadType("an empty tuple is a role, not a value, got (). Use [], {} or None for nothing.")
    return names


def canonical_path(path: Path) -> bytes:
    """Return the canonical bytes of a path."""
    if len(path) == 2:  # most paths are two short strings of ASCII: one step instead of one for each role
        one, two = path
        if type(one) is str and type(two) is str:
            text = f"p2:s{len(one)}:{one}s{len(two)}:{two}"
            if text.isascii():
                return text.encode()
    try:
        return b"p%d:" % len(path) + b"".join(map(canonical, path))
    except (BadType, BadValue) as error:
        raise type(error)(f"in the path {shortened(path)}: {error}") from None


# Reading, one label at a time

MAX_DIGITS = 18  # of a length
MAX_HEADER = MAX_DIGITS + 2  # bytes of a tag, a length and a colon


class Headers(dict[bytes, int]):
    """The number in a header, by the header's bytes up to the colon; each is checked against a pattern once."""

    def __init__(self, pattern: bytes) -> None:
        self.pattern = re.compile(pattern)

    def __missing__(self, header: bytes) -> int:
        if self.pattern.fullmatch(header) is None:
            raise ValueError(f"{header!r} is no header")
        number = int(header[1:])
        if number < 1000:  # so that they are few
            self[header] = number
        return number


LABEL_HEADERS = Headers(rb"[sibdtfn{[(](0|[1-9][0-9]{0,17})")
PATH_HEADERS = Headers(rb"p[1-9][0-9]{0,17}")

DECODERS: dict[int, Callable[[bytes], Role | Value]] = {
    ord("s"): lambda content: content.decode("utf-8", "surrogatepass"),
    ord("i"): int,
    ord("b"): bytes,
    ord("d"): lambda content: cast(float, struct.unpack(">d", content)[0]),
    ord("t"): lambda _: True,
    ord("f"): lambda _: False,
    ord("n"): lambda _: None,
    ord("{"): lambda _: {},
    ord("["): lambda _: [],
    ord("("): lambda _: (),
}


def label_end(data: bytes, at: int = 0) -> int:
    """Return where the label ends that begins at a position; raises BadValue if none does, or it is truncated."""
    try:
        colon = data.index(b":", at, at + MAX_HEADER)
        end = colon + 1 + LABEL_HEADERS[data[at:colon]]
    except ValueError:
        raise BadValue(f"no label begins with the bytes {data[at : at + 40]!r}") from None
    if end > len(data):
        raise BadValue(f"the label {data[at : at + 40]!r} is truncated")
    return end


def _path_header(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of roles of the path that begins at a position, and where the first of them begins."""
    try:
        colon = data.index(b":", at, at + MAX_HEADER)
        return PATH_HEADERS[data[at:colon]], colon + 1
    except ValueError:
        raise BadValue(f"no path begins with the bytes {data[at : at + 40]!r}") from None


def path_end(data: bytes, at: int = 0) -> int:
    """Return where the path ends that begins at a position; raises BadValue if none does, or it is truncated."""
    count, end = _path_header(data, at)
    for _ in range(count):
        end = label_end(data, end)
    return end


def split_labels(data: bytes, at: int = 0) -> Iterator[bytes]:
    """Yield the canonical bytes of each of the labels that fill the data from a position on."""
    while at < len(data):
        start, at = at, label_end(data, at)
        yield data[start:at]


def decode_label(name: bytes) -> Role | Value:
    """Return the label of canonical bytes that are known to be valid."""
    return DECODERS[name[0]](name[name.index(b":") + 1 :])


def parse_label(name: bytes) -> Role | Value:
    """Return the label of canonical bytes; raises BadValue for bytes that are those of no label."""
    try:
        label = decode_label(name)
        if canonical(label) == name:
            return label
    except (LookupError, ValueError, struct.error):
        pass
    raise BadValue(f"the bytes {name[:40]!r} encode no label")


class Labels(dict[bytes, Any]):
    """Labels by their canonical bytes, each parsed once: most roles occur in many paths."""

    def __missing__(self, name: bytes) -> Role | Value:
        label = self[name] = parse_label(name)
        return label


def parse_path(data: bytes, at: int, labels: Labels) -> tuple[Path, int]:
    """Return the path that begins at a position, and where it ends; raises BadValue if none does."""
    (count, end), roles = _path_header(data, at), []
    for _ in range(count):
        start, end = end, label_end(data, end)
        roles.append(labels[data[start:end]])
    return tuple(roles), end


def parse_paths(names: Iterable[bytes]) -> Iterator[Path]:
    """Yield the paths of canonical bytes; raises BadValue for bytes that are those of no path.

    >>> list(parse_paths([b"p2:s3:dogi1:7", b"p1:(0:"]))
    [('dog', 7), ((),)]
    """
    labels = Labels()
    for name in names:
        path, end = parse_path(name, 0, labels)
        if end < len(name):
            raise BadValue(f"the bytes {name[:40]!r} encode no path")
        yield path


# Reading, many labels together

WINDOW = 2**21  # bytes that are read together
TEXT, INTEGER, BYTES = b"sib"
IS_TAG = np.isin(np.arange(256), list(DECODERS))


def label_ends(data: Octets) -> Offsets:
    """Return the n + 1 boundaries of the n labels that fill the data; raises BadValue if it is filled by none.

    >>> label_ends(np.frombuffer(b"s3:dogi2:-7t0:", dtype=np.uint8)).tolist()
    [0, 6, 11, 14]
    """
    parts, at, size = [np.zeros(1, dtype=np.int64)], 0, WINDOW
    while at < len(data):
        window = data[at : at + size]
        starts, contents, ends = _chained_labels(window)
        if len(ends):
            _check_contents(window[: int(ends[-1])], starts, contents, ends)
            parts.append(ends + at)
            at, size = at + int(ends[-1]), WINDOW
        elif at + size < len(data):
            size *= 2  # for a label that is longer than the window
        else:
            raise BadValue(f"no whole label begins with the bytes {window[:40].tobytes()!r}")
    return np.concatenate(parts)


def _chained_labels(data: Octets) -> tuple[Offsets, Offsets, Offsets]:
    """Return where the labels from the first byte on start, where their contents do, and where they end.

    A label may start wherever a tag and a length stand before a colon. Of those, each label that is whole leads to the
    next.
    """
    colons = np.flatnonzero(data == ord(":"))
    sizes, digits, going = np.zeros_like(colons), np.zeros_like(colons), np.arange(len(colons))
    for back in range(1, MAX_DIGITS + 1):
        going = going[colons[going] >= back]
        figures = data[colons[going] - back] - np.uint8(ord("0"))  # above 9 for all other bytes
        going, figures = going[figures <= 9], figures[figures <= 9]
        if not len(going):
            break
        sizes[going] += figures * np.int64(10 ** (back - 1))
        digits[going] += 1
    starts = colons - digits - 1
    fits = (digits > 0) & (starts >= 0) & IS_TAG[data[starts]] & ((digits == 1) | (data[starts + 1] != ord("0")))
    starts, contents, sizes = starts[fits], colons[fits] + 1, sizes[fits]
    ends = contents + sizes
    chosen = _reached(starts, ends) & (ends <= len(data))
    return starts[chosen], contents[chosen], ends[chosen]


def _reached(starts: Offsets, ends: Offsets) -> NDArray[np.bool_]:
    """Return which labels are reached from byte 0 by going from end to start."""
    count = len(starts)
    if not count or starts[0]:
        return np.zeros(count, dtype=np.bool_)
    if bool((starts[1:] == ends[:-1]).all()):  # no content looks like a label: the usual case
        return np.ones(count, dtype=np.bool_)
    leads_to = np.append(np.searchsorted(starts, ends), count)
    leads_to[:-1][np.append(starts, -1)[leads_to[:-1]] != ends] = count
    reached, before = np.arange(count + 1) == 0, 0
    while before < (before := int(np.count_nonzero(reached))):  # 1, 2, 4, ... steps at a time
        reached[leads_to[reached]] = True
        leads_to = leads_to[leads_to]
    return reached[:-1]


def _check_contents(data: Octets, starts: Offsets, contents: Offsets, ends: Offsets) -> None:
    """Raise BadValue if `parse_label` refuses a label; it is called for the few that need a closer look."""
    tags = data[starts]
    is_text, is_integer = tags == TEXT, tags == INTEGER
    unsure = ~(is_text | is_integer | (tags == BYTES))
    try:  # around the content of a text is ASCII: if all is UTF-8, each text is
        data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        unsure |= is_text & (_count_within(data >= 128, contents, ends) > 0)
    if bool(is_integer.any()):
        unsure |= is_integer & ~_are_integers(data, contents, ends)
    for row in np.flatnonzero(unsure).tolist():
        parse_label(data[starts[row] : ends[row]].tobytes())


def _count_within(flags: NDArray[np.bool_], starts: Offsets, ends: Offsets) -> NDArray[np.int32]:
    """Return how many flags (bytes,) are set from each start to its end."""
    sums = np.zeros(len(flags) + 1, dtype=np.int32)
    np.cumsum(flags, out=sums[1:])
    counts: NDArray[np.int32] = sums[ends] - sums[starts]
    return counts


def _are_integers(data: Octets, starts: Offsets, ends: Offsets) -> NDArray[np.bool_]:
    """Return which contents are surely integers: perhaps a minus, a digit that is not 0, and digits, few enough."""
    minus = data[np.minimum(starts, len(data) - 1)] == ord("-")
    first = data[np.minimum(starts + minus, len(data) - 1)]
    figures = _count_within((data >= ord("0")) & (data <= ord("9")), starts, ends)
    sizes = ends - starts
    plain = (first > ord("0")) | (~minus & (sizes == 1))
    sure: NDArray[np.bool_] = plain & (figures == sizes - minus) & (sizes > minus) & (sizes < 3000)
    return sure
