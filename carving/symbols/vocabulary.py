"""The vocabulary of a memory: distinct values in order, up to tens of millions of them.

Values are stored as canonical bytes in a `StringTable`, and parsed on access: inside Carving a value is its row.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, pairwise

import numpy as np

from carving.errors import BadType, BadValue
from carving.symbols.codec import (
    EMPTY_ROLE,
    Octets,
    Offsets,
    Value,
    canonical,
    canonical_values,
    decode_label,
    label_ends,
    split_labels,
)
from carving.symbols.string_table import SPARE, LaidOut, StringTable, hashes_of, laid_out

TOGETHER = 2**14  # values that are made at a time where all are asked for


class Vocabulary:
    """The distinct values that a memory can answer with, in order.

    Values are compared by type and content: `1`, `1.0` and `True` are three values. Supports `len`, iteration, indexing
    by position and `in`.

    Args:
        labels: The values, such as strings or integers.

    Raises:
        BadValue: If a value occurs twice.
        BadType: If a value is not a label, or `labels` is a string or a set.

    >>> words = Vocabulary(["dog", "cat"])
    >>> words.add("bird"), words.find("cat"), words[0], 1 in words
    (2, 1, 'dog', False)
    """

    # A vocabulary sees the first `_size` of names that longer ones share. Who sees all of them adds new ones in place,
    # anyone else copies what it sees first: what a vocabulary holds never changes through another.

    def __init__(self, labels: Iterable[Value] = ()) -> None:
        self._shared, self._size = StringTable(), 0
        if isinstance(labels, str | bytes):
            raise BadType(f"A vocabulary must be a list, got {labels!r}. For a single value write [{labels!r}].")
        if not isinstance(labels, Iterable):
            raise BadType(f"A vocabulary must be a list of values, got {labels!r}")
        if isinstance(labels, set | frozenset):
            raise BadType("A vocabulary must have an order, got a set. Pass a list, for example sorted(...).")
        given = iter(labels)
        while part := list(islice(given, TOGETHER)):  # of which no more are held at a time
            start, names = self._size, canonical_values(part)
            self._extend(dict.fromkeys(names))
            if len(self) != start + len(part):
                first, second = next(
                    (row, place) for place, row in enumerate(self.rows_of(names), start) if row != place
                )
                raise BadValue(
                    f"The values of a vocabulary must differ, got {self[first]!r} at positions {first} and {second}. "
                    "Remove the second."
                )

    @classmethod
    def of_bytes(cls, data: Octets) -> "Vocabulary":
        """Return the vocabulary of concatenated canonical bytes; raises BadValue for invalid or repeated values.

        >>> list(Vocabulary.of_bytes(np.frombuffer(b"s3:dogi1:7", dtype=np.uint8)))
        ['dog', 7]
        """
        strings = np.append(data, np.zeros(SPARE, dtype=np.uint8)), label_ends(data)
        hashes = hashes_of(*strings)
        ordered = np.sort(hashes)
        if (ordered[1:] == ordered[:-1]).any():  # nearly surely of equal values
            names = list(split_labels(data.tobytes()))
            if len(set(names)) < len(names):
                raise BadValue(f"the {len(names)} values of the vocabulary are not all different")
        table = StringTable(strings, hashes)
        if table.rows_of([EMPTY_ROLE])[0] >= 0:
            raise BadValue("the vocabulary contains an empty tuple, which is a role, not a value")
        return cls._seeing(table, table.count)

    @classmethod
    def _seeing(cls, shared: StringTable, size: int) -> "Vocabulary":
        words = cls.__new__(cls)
        words._shared, words._size = shared, size
        return words

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Value]:
        for start in range(0, self._size, TOGETHER):
            yield from map(decode_label, self.names(start, min(self._size, start + TOGETHER)))

    def __getitem__(self, place: int) -> Value:
        return decode_label(self.name(place))  # type: ignore[return-value]

    def __contains__(self, label: object) -> bool:
        return self.find(label) is not None  # type: ignore[arg-type]  # canonical refuses what is no label

    def __reduce__(self) -> tuple[Callable[[Octets], "Vocabulary"], tuple[Octets]]:
        return Vocabulary.of_bytes, (self.packed().copy(),)  # a lock stays where it is

    @property
    def nbytes(self) -> int:
        """The size in bytes, including names that longer vocabularies share with it."""
        return self._shared.nbytes

    def first(self, count: int) -> "Vocabulary":
        """Return the vocabulary of the first `count` values, which shares their storage."""
        return Vocabulary._seeing(self._shared, min(count, self._size))

    # Canonical bytes

    @property
    def _strings(self) -> LaidOut:
        return self._shared.data, self._shared.ends[: self._size + 1]

    def packed(self, start: int = 0, stop: int | None = None) -> Octets:
        """Return the concatenated canonical bytes of positions start to stop, as a view."""
        return self._shared.span(start, self._size if stop is None else stop)

    def name(self, place: int) -> bytes:
        """Return the canonical bytes of the value at a position."""
        if not -self._size <= place < self._size:
            raise IndexError(f"index {place} is out of range for {self._size} values")
        return self._shared[place if place >= 0 else place + self._size]

    def names(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the canonical bytes of the values at positions start to stop, as a list."""
        stop = self._size if stop is None else stop
        ends = self._shared.ends[start : stop + 1]
        data, places = self._shared.span(start, stop).tobytes(), (ends - ends[0]).tolist()
        return [data[one:other] for one, other in pairwise(places)]

    def rows_of(self, names: Collection[bytes]) -> list[int]:
        """Return the positions of values given as canonical bytes; -1 for unknown values."""
        rows: list[int] = self._shared.rows_of(names, self._size).tolist()
        return rows

    def find(self, label: Value) -> int | None:
        """Return the position of a value, or None."""
        row = self.rows_of([canonical(label)])[0]
        return None if row < 0 else row

    # Growing

    def add(self, label: Value) -> int:
        """Return the position of a value, which is appended if it is new."""
        return int(self._extend(canonical_values([label]))[0])

    def extended(self, names: "Collection[bytes] | Vocabulary") -> tuple["Vocabulary", Offsets]:
        """Return a vocabulary that includes these values (self, if none is new), and their positions.

        `names`: distinct canonical bytes, or a vocabulary.
        """
        more = Vocabulary._seeing(self._shared, self._size)
        rows = more._extend(names)
        return (more, rows) if more._size > self._size else (self, rows)

    def _extend(self, names: "Collection[bytes] | Vocabulary") -> Offsets:
        """Return the positions of distinct values; new ones are appended in order."""
        if isinstance(names, Vocabulary):
            if not self._size:  # share theirs
                self._shared, self._size = names._shared, names._size
            rows = self._shared.rows_of_many(*names._strings, self._size)
        else:
            rows = self._shared.rows_of(names, self._size)
        new = np.flatnonzero(rows < 0)
        if len(new):
            start, size = self._size, self._size + len(new)
            rows[new] = np.arange(start, size)
            new_strings = _selected(names._strings if isinstance(names, Vocabulary) else laid_out(names), new)
            if not self._shared.append(start, new_strings):
                self._shared = self._shared.copy_of_first(start)
                self._shared.append(start, new_strings)
            self._size = size
        return rows


def _selected(strings: LaidOut, rows: Offsets) -> LaidOut:
    """Return some of the strings, laid out anew."""
    data, ends = strings
    if len(rows) == len(ends) - 1:
        return strings
    sizes = ends[rows + 1] - ends[rows]
    places = np.append(0, np.cumsum(sizes))
    sources = np.repeat(ends[rows] - places[:-1], sizes) + np.arange(places[-1])
    return np.append(data[sources], np.zeros(SPARE, dtype=np.uint8)), places
