"""Symbols: what labels and paths are, their canonical bytes and back, and the vocabulary that a memory answers from.

`("ab", "c")`, `("a", "bc")` and `("abc",)` are three paths, `1`, `"1"`, `1.0` and `True` four labels: everything that
is drawn from a label (`draws.py`) is drawn from its canonical bytes.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from reprlib import repr as shortened
from typing import Never

import numpy as np

from carving.errors import BadType, BadValue

Label = str | int | float | bool | bytes | None
Role = Label | tuple[()]  # `()` is a role that no key of a document can be
Leaf = Label | dict[Never, Never] | list[Never]  # an empty dict or list is a leaf: it has nothing below it
Path = tuple[Role, ...]


def canonical(label: Role | Leaf) -> bytes:
    """The label's bytes, unambiguous: `1`, `"1"`, `1.0` and `True` are four labels; so are `{}`, `[]` and `()` three.

    A tag, a length, a colon, the content. Text is taken as it is, without Unicode normalisation.
    """
    if isinstance(label, str):  # first and without a further call: most labels are strings
        text = label.encode("utf-8", "surrogatepass")
        return b"s%d:%s" % (len(text), text)
    if isinstance(label, bool):  # before int: True is an int too
        return _tagged(b"t" if label else b"f", b"")
    if isinstance(label, int):
        if label.bit_length() > 10_000:
            raise BadValue(f"an integer label may have 10,000 bits, got one of {label.bit_length()}; use bytes")
        return _tagged(b"i", b"%d" % label)
    if isinstance(label, float):
        # One zero and one not-a-number: labels that look alike must not differ in their bytes.
        value = 0.0 if label == 0 else math.nan if math.isnan(label) else label
        return _tagged(b"d", struct.pack(">d", value))
    if isinstance(label, bytes):
        return _tagged(b"b", label)
    if label is None:
        return _tagged(b"n", b"")
    if isinstance(label, np.bool_ | np.integer | np.floating) and isinstance(label.item(), int | float):
        return canonical(label.item())
    for kind, tag in ((dict, b"{"), (list, b"["), (tuple, b"(")):
        if isinstance(label, kind) and not label:
            return _tagged(tag, b"")
    # shortened: a label's whole repr may be endless, or nested deeper than Python can show
    raise BadType(
        "a label must be a string, an integer, a float, a boolean, bytes, None or an empty dict, list or tuple, "
        f"got {shortened(label)} of type {type(label).__name__}; str(...) makes a label of it"
    )


def canonical_path(path: Path) -> bytes:
    """The path's bytes: `("ab", "c")`, `("a", "bc")` and `("abc",)` differ, and the order counts."""
    try:
        return b"p%d:" % len(path) + b"".join(map(canonical, path))
    except (BadType, BadValue) as error:
        raise type(error)(f"in the path {shortened(path)}: {error}") from None


def _tagged(tag: bytes, content: bytes) -> bytes:
    return b"%s%d:%s" % (tag, len(content), content)


def parse_labels(data: bytes) -> list[Leaf]:
    """The labels of canonical bytes, one after the other."""
    found: list[Leaf] = []
    place = 0
    while place < len(data):
        colon = data.index(b":", place, place + 24)
        start = colon + 1
        size = int(data[place + 1 : colon])
        end = start + size
        if end > len(data) or size < 0:
            raise BadValue("its vocabulary ends in the middle of a label")
        found.append(PARSERS[data[place : place + 1]](data[start:end]))
        place = end
    return found


PARSERS: dict[bytes, Callable[[bytes], Leaf]] = {
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


class Vocabulary:
    """Distinct labels in order. `1`, `1.0` and `True` are three of them, though Python calls them equal."""

    def __init__(self, labels: Iterable[Leaf] = ()) -> None:
        self.labels: list[Leaf] = []
        self._places: dict[bytes, int] = {}
        if isinstance(labels, str | bytes):
            raise BadType(f"a vocabulary must be a list, got {labels!r}; for a single label write [{labels!r}]")
        if isinstance(labels, set | frozenset):
            raise BadType("a vocabulary must have an order, got a set; sorted(...) gives it one")
        for place, label in enumerate(labels):
            if self.add(label) != place:
                raise BadValue(
                    f"the labels of a vocabulary must differ, got {label!r} at places {self.index(label)} and {place}; "
                    "leave out the second"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Leaf]:
        return map(_fresh, self.labels)

    def __getitem__(self, place: int) -> Leaf:
        return _fresh(self.labels[place])

    def __contains__(self, label: object) -> bool:
        return canonical(label) in self._places  # type: ignore[arg-type]  # canonical refuses what is no label

    def add(self, label: Leaf) -> int:
        """The label's place; a new label gets the next one."""
        place = self._places.setdefault(canonical(label), len(self.labels))
        if place == len(self.labels):
            self.labels.append(_fresh(label))
        return place

    def find(self, label: Leaf) -> int | None:
        """The label's place, if it has one."""
        return self._places.get(canonical(label))

    def index(self, label: Leaf) -> int:
        """The label's place; one that has none is refused."""
        place = self.find(label)
        if place is None:
            raise KeyError(f"{label!r} is not among the {len(self)} labels of this vocabulary")
        return place


def _fresh(label: Leaf) -> Leaf:
    """The label; an empty dict or list is another one, so that nobody fills it for others."""
    return type(label)() if isinstance(label, dict | list) else label
