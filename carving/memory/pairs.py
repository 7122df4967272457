"""Input of a memory: documents, tables and pairs become batches of pairs, each checked once."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Any

from torch import Tensor

from carving.errors import BadType, BadValue
from carving.formats.documents import Pair, flatten
from carving.formats.frames import frame_pairs, is_frame
from carving.symbols.codec import Label, Path, Value, canonical_values
from carving.symbols.paths import Paths, as_path

BATCH = 2048  # pairs or queries that are done at a time


def batches(what: object, key: Label = None) -> Iterator[list[Pair]]:
    """Yield the pairs of a document, a table or an iterable in batches."""
    pairs = map(as_pair, as_pairs(what, key))
    while batch := list(islice(pairs, BATCH)):
        yield batch


def as_pairs(what: Any, key: Label = None) -> Iterable[Pair]:
    """Return the pairs of a document or a DataFrame, or the pairs that were passed (tuples, which no document has)."""
    if is_frame(what):
        return frame_pairs(what, key)
    if key is not None:
        raise BadValue(
            f"key={key!r} names the column of a DataFrame with its row names, got {type(what).__name__}. Omit it."
        )
    if isinstance(what, Mapping):
        return _not_empty(flatten(dict(what)))
    if isinstance(what, list):
        if not what or isinstance(what[0], tuple):
            return what
        if all(map(_is_listed_pair, what)):
            raise BadValue(
                f"A list such as {what[0]!r} may be a (path, value) pair or a document of lists. For pairs, pass "
                "tuples: [(path, value) for path, value in pairs]. For a document, pass "
                "carving.formats.flatten(document)."
            )
        return _not_empty(flatten(what))
    if isinstance(what, Iterable) and not isinstance(what, str | bytes | Tensor):
        return what
    raise BadType(
        f"Expected a document (nested dicts and lists) or (path, value) pairs, got {what!r} of type "
        f"{type(what).__name__}. For a single pair, pass [(path, value)]."
    )


def _is_listed_pair(item: object) -> bool:
    """Return whether an item of a list is what JSON makes of a pair: [[role, ...], value]."""
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], list | tuple) or not item[0]:
        return False
    return not any(isinstance(each, list | tuple | Mapping) for each in (*item[0], item[1]))


def _not_empty(pairs: Iterator[Pair]) -> Iterator[Pair]:
    for path, value in pairs:
        if not path:
            raise BadValue("A document must have at least one value with a path, got an empty one.")
        yield path, value


def as_pair(pair: object) -> Pair:
    """Return the pair; refuse anything else. Labels are checked where they are made canonical."""
    if type(pair) is tuple and len(pair) == 2 and type(pair[0]) is tuple and pair[0]:  # most often
        return pair
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise BadType(f"A pair must be a tuple of a path and a value, such as (('a', 'b'), 'value'), got {pair!r}.")
    return as_path(pair[0]), pair[1]


class Batch:
    """Checked pairs, with the canonical bytes of their paths and values."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.values = [value for _, value in pairs]
        try:
            self.names = canonical_values(self.values)
        except (BadType, BadValue):
            for path, value in pairs:
                _check_value(value, path)
            raise
        self.paths = Paths.of([path for path, _ in pairs]) if pairs else Paths()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def pairs(self) -> list[Pair]:
        """The pairs as they were given."""
        return list(zip(self.paths, self.values, strict=True))

    def only(self, kept: Sequence[bool]) -> "Batch":
        """Return the batch of the pairs for which a flag is set."""
        if all(kept):
            return self
        part = copy.copy(self)
        part.values, part.names = list(compress(self.values, kept)), list(compress(self.names, kept))
        part.paths = self.paths.only(kept)
        return part


def _check_value(value: Value, path: Path) -> None:
    """Refuse a value that is not a label, and name its path."""
    try:
        canonical_values([value])
    except (BadType, BadValue) as error:
        raise type(error)(f"The value at {path!r}: {error}") from None


OnProgress = Callable[[int], None]  # called with how many pairs or queries are done more


def report(on_progress: OnProgress | None, more: int) -> None:
    """Report progress, if it is wanted."""
    if on_progress:
        on_progress(more)
