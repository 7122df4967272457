"""The vocabulary of a memory: distinct values in order, up to tens of millions of them.

Values are stored as canonical bytes (`distinct.py`) and parsed on access.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import overload

import numpy as np

from carving.errors import BadType, BadValue
from carving.symbols.codec import Value, canonical, canonical_all, check_values, parse_labels
from carving.symbols.cutting import label_ends
from carving.symbols.string_table import SPARE, Distinct, Octets, Rows, Words, hashes_of

AT_ONCE = 2**14  # labels that are made at a time where all are asked for


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
        self._shared, self._size = Distinct(), 0
        if isinstance(labels, str | bytes):
            raise BadType(f"A vocabulary must be a list, got {labels!r}. For a single value write [{labels!r}].")
        if not isinstance(labels, Iterable):
            raise BadType(f"A vocabulary must be a list of values, got {labels!r}")
        if isinstance(labels, set | frozenset):
            raise BadType("A vocabulary must have an order, got a set. Pass a list, for example sorted(...).")
        given = iter(labels)
        while part := list(islice(given, AT_ONCE)):  # of which no more are held at a time
            start, names = self._size, canonical_all(part)
            check_values(names)
            rows = self.add_named(dict.fromkeys(names))
            if len(self) != start + len(part):
                known = dict(zip(dict.fromkeys(names), rows, strict=True))
                self._refuse_twice(start, [known[name] for name in names])

    def _refuse_twice(self, start: int, rows: list[int]) -> None:
        """Say which label is there twice, where labels from a start on have these rows."""
        place = next(place for place, row in enumerate(rows) if row != start + place)
        raise BadValue(
            f"The values of a vocabulary must differ, got {self[rows[place]]!r} at positions {rows[place]} and "
            f"{start + place}. Remove the second."
        )

    @classmethod
    def of_bytes(cls, data: Octets) -> "Vocabulary":
        """Return the vocabulary of concatenated canonical bytes; raises BadValue for invalid or repeated values.

        >>> list(Vocabulary.of_bytes(np.frombuffer(b"s3:dogi1:7", dtype=np.uint8)))
        ['dog', 7]
        """
        ends = label_ends(data)
        laid = np.concatenate([data, np.zeros(SPARE, dtype=np.uint8)])
        values = hashes_of(laid, ends)
        _check_distinct(laid, ends, values)
        return cls._seeing(Distinct(laid, ends, values), len(ends) - 1)

    @classmethod
    def _seeing(cls, shared: Distinct, size: int) -> "Vocabulary":
        words = cls.__new__(cls)
        words._shared, words._size = shared, size
        return words

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Value]:
        for start in range(0, self._size, AT_ONCE):
            yield from self._between(start, min(self._size, start + AT_ONCE))

    def __getitem__(self, place: int) -> Value:
        return parse_labels(self.name(place))[0]

    def __contains__(self, label: object) -> bool:
        return self.find(label) is not None  # type: ignore[arg-type]  # canonical refuses what is no label

    def __reduce__(self) -> tuple[Callable[[Octets], "Vocabulary"], tuple[Octets]]:
        return Vocabulary.of_bytes, (self.packed().copy(),)  # a lock stays where it is

    @property
    def nbytes(self) -> int:
        """The size in bytes, including names that longer vocabularies share with it."""
        return self._shared.nbytes

    @property
    def labels(self) -> list[Value]:
        """The values, as a new list."""
        return self.since(0)

    @property
    def rows(self) -> dict[bytes, int]:
        """The position of each value by its canonical bytes, as a new dictionary."""
        return {name: row for row, name in enumerate(self.names())}

    @property
    def named(self) -> dict[bytes, Value]:
        """The values by their canonical bytes, in order, as a new dictionary."""
        return dict(zip(self.names(), self.labels, strict=True))

    def since(self, row: int) -> list[Value]:
        """Return the values from this position on."""
        return self._between(min(row, self._size), self._size)

    def first(self, count: int) -> "Vocabulary":
        """Return the vocabulary of the first `count` values, which shares their storage."""
        return Vocabulary._seeing(self._shared, min(count, self._size))

    def _between(self, start: int, stop: int) -> list[Value]:
        return parse_labels(self._shared.span(start, stop).tobytes())

    # Canonical bytes

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

    def rows_of(self, names: Iterable[bytes]) -> list[int]:
        """Return the positions of values given as canonical bytes; -1 for unknown values."""
        given = names if isinstance(names, Sequence) else list(names)
        rows: list[int] = self._shared.rows_of(given, self._size).tolist()
        return rows

    def find(self, label: Value) -> int | None:
        """Return the position of a value, or None."""
        row = self.rows_of([canonical(label)])[0]
        return None if row < 0 else row

    def index(self, label: Value) -> int:
        """Return the position of a value; raises KeyError if it is unknown."""
        row = self.find(label)
        if row is None:
            raise KeyError(f"{label!r} is not among the {len(self)} values of this vocabulary")
        return row

    # Growing

    def add(self, label: Value) -> int:
        """Return the position of a value, which is appended if it is new."""
        name = canonical(label)
        check_values([name])
        return self.add_named([name])[0]

    def add_named(self, names: Collection[bytes]) -> list[int]:
        """Return the positions of distinct values given as canonical bytes; new ones are appended in order."""
        given = list(names)
        rows = self._shared.rows_of(given, self._size)
        new = np.flatnonzero(rows < 0)
        if len(new):
            rows[new] = np.arange(self._size, self._size + len(new))
            self._append(list(map(given.__getitem__, new.tolist())))
        listed: list[int] = rows.tolist()
        return listed

    def _append(self, names: Sequence[bytes] | tuple[Octets, Rows]) -> None:
        start = self._size
        if not self._shared.grown(start, names):
            self._shared = self._shared.part(start)
            self._shared.grown(start, names)
        self._size = start + (len(names[1]) - 1 if isinstance(names, tuple) else len(names))

    @overload
    def extended(self, names: Collection[bytes]) -> tuple["Vocabulary", list[int]]: ...
    @overload
    def extended(self, names: "Vocabulary") -> tuple["Vocabulary", Rows]: ...
    def extended(self, names: "Collection[bytes] | Vocabulary") -> tuple["Vocabulary", list[int] | Rows]:
        """Return a vocabulary that includes these values (self, if none is new), and their positions.

        `names`: distinct canonical bytes, or a vocabulary.
        """
        if isinstance(names, Vocabulary):
            return self._joined(names)
        more = Vocabulary._seeing(self._shared, self._size)
        rows = more.add_named(names)
        return (more, rows) if more._size > self._size else (self, rows)

    def _joined(self, other: "Vocabulary") -> tuple["Vocabulary", Rows]:
        data, ends = other._shared.data, other._shared.ends[: len(other) + 1]
        if not self._size:
            return Vocabulary._seeing(other._shared, len(other)), np.arange(len(other))
        rows = self._shared.rows_among(data, ends, self._size)
        new = np.flatnonzero(rows < 0)
        if not len(new):
            return self, rows
        rows[new] = np.arange(self._size, self._size + len(new))
        more = Vocabulary._seeing(self._shared, self._size)
        more._append(_gathered(data, ends, new))
        return more, rows


def _gathered(data: Octets, ends: Rows, rows: Rows) -> tuple[Octets, Rows]:
    """Some of the strings, laid out anew."""
    if len(rows) == len(ends) - 1:
        return data, ends
    sizes = ends[rows + 1] - ends[rows]
    places = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(sizes, out=places[1:])
    from_where = np.repeat(ends[rows] - places[:-1], sizes) + np.arange(places[-1])
    return np.concatenate([data[from_where], np.zeros(SPARE, dtype=np.uint8)]), places


def _check_distinct(data: Octets, ends: Rows, values: Words) -> None:
    """Refuse strings that are there twice; their hashes are known."""
    ordered = np.sort(values)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(again):  # of one hash, and nearly surely equal
        rows = np.flatnonzero(np.isin(values, again)).tolist()
        names = [data[ends[row] : ends[row + 1]].tobytes() for row in rows]
        if len(set(names)) < len(names):
            raise BadValue(f"the {len(ends) - 1} values of the vocabulary are not all different")
