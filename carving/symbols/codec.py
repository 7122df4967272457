"""Labels and paths, and their canonical bytes, from which all random numbers are derived (`draws.py`).

`("ab", "c")`, `("a", "bc")` and `("abc",)` are three paths; `1`, `"1"`, `1.0` and `True` are four labels.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from reprlib import repr as shortened
from typing import Any, Never

import numpy as np

from carving.errors import BadType, BadValue

Label = str | int | float | bool | bytes | None
Role = Label | tuple[()]  # `()` is a role that no key of a document can be
Value = Label | dict[Never, Never] | list[Never]  # an empty dict or list is a value: it has nothing below it
Path = tuple[Role, ...]


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
    for kind, encoded in ENCODERS:
        if isinstance(label, kind):
            tag, content = encoded(label)
            return b"%s%d:%s" % (tag, len(content), content)
    raise _no_label(label)


def _integer(label: int) -> tuple[bytes, bytes]:
    if label.bit_length() > 10_000:
        raise BadValue(f"an integer label may have at most 10,000 bits, got {label.bit_length():,}. Use bytes.")
    return b"i", b"%d" % label


def _float(label: float) -> tuple[bytes, bytes]:
    # One zero and one not-a-number: labels that look alike must not differ in their bytes.
    return b"d", struct.pack(">d", 0.0 if label == 0 else math.nan if math.isnan(label) else label)


def _scalar(label: np.generic) -> tuple[bytes, bytes]:
    value = label.item()
    for kind, encoded in ENCODERS[:3]:
        if isinstance(value, kind):
            return encoded(value)
    raise _no_label(label)  # such as a long double


def _empty(label: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> tuple[bytes, bytes]:
    if label:
        raise _no_label(label)
    return b"{" if isinstance(label, dict) else b"[" if isinstance(label, list) else b"(", b""


def _no_label(label: object) -> BadType:
    # shortened: a label's whole repr may be endless, or nested deeper than Python can show
    return BadType(
        "a label must be a string, an integer, a float, a boolean, bytes, None or an empty dict, list or tuple, "
        f"got {shortened(label)} of type {type(label).__name__}. Convert it with str(...)."
    )


# The kinds of labels beside text, in the order in which they are tried: True is an int too.
ENCODERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], tuple[bytes, bytes]]], ...] = (
    (bool, lambda label: (b"t" if label else b"f", b"")),
    (int, _integer),
    (float, _float),
    (bytes, lambda label: (b"b", label)),
    (type(None), lambda label: (b"n", b"")),
    ((np.bool_, np.integer, np.floating), _scalar),
    ((dict, list, tuple), _empty),
)


ROLE_ALONE = b"(0:"  # the canonical bytes of ()


class Names(dict[str, bytes]):
    """The canonical bytes of strings, each made when it is first asked for: in a batch most come again and again.

    Strings alone: 1, 1.0 and True would be one key, and are three labels.
    """

    def __missing__(self, label: str) -> bytes:
        name = self[label] = canonical(label)
        return name


def canonical_all(labels: Iterable[Value]) -> list[bytes]:
    """Return the canonical bytes of labels."""
    known = Names()
    return [known[label] if type(label) is str else canonical(label) for label in labels]


def check_values(names: list[bytes]) -> None:
    """Raise BadType if a value, given as canonical bytes, is `()`, which is allowed as a role only."""
    if ROLE_ALONE in names:
        raise BadType("an empty tuple is a role, not a value, got (). Use [], {} or None for nothing.")


def canonical_path(path: Path) -> bytes:
    """Return the canonical bytes of a path."""
    try:
        return b"p%d:" % len(path) + b"".join(map(canonical, path))
    except (BadType, BadValue) as error:
        raise type(error)(f"in the path {shortened(path)}: {error}") from None


def label_end(data: bytes, at: int) -> int:
    """Where the label ends whose canonical bytes begin here."""
    colon = data.index(b":", at, at + 24)
    end = colon + 1 + int(data[at + 1 : colon])
    if not colon < end <= len(data):
        raise BadValue("a label is truncated")
    return end


def split_labels(data: bytes) -> Iterator[bytes]:
    """The canonical bytes of labels that stand one after the other, each."""
    at = 0
    while at < len(data):
        start, at = at, label_end(data, at)
        yield data[start:at]


def parse_labels(data: bytes) -> list[Value]:
    """The labels of canonical bytes, one after the other."""
    labels: list[Value] = []
    at = 0
    while at < len(data):
        colon = data.index(b":", at, at + 24)
        start, size = colon + 1, int(data[at + 1 : colon])
        end = start + size
        if end > len(data) or size < 0:
            raise BadValue("the vocabulary ends in the middle of a label")
        labels.append(PARSERS[data[at : at + 1]](data[start:end]))
        at = end
    return labels


PARSERS: dict[bytes, Callable[[bytes], Value]] = {
    b"s": lambda content: content.decode("utf-8", "surrogatepass"),
    b"t": lambda _: True,
    b"f": lambda _: False,
    b"i": lambda content: int(content),
    b"d": lambda content: struct.unpack(">d", content)[0],
    b"b": bytes,
    b"n": lambda _: None,
    b"{": lambda _: {},
    b"[": lambda _: [],
}
