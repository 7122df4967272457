"""How many pairs and different values a file and its journal hold: told without the tensor, which may be large."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from carving.inference.sample import Loads
from carving.storage.journal import JournalRecord
from carving.storage.memoryfile import Outline
from carving.symbols.codec import split_labels

FEW = 16  # names that are looked for one by one


class Extent(NamedTuple):
    """What a memory holds, in numbers."""

    pairs: int
    values: int
    load: int  # the pairs, each stored once, that would fill it as much
    loads: Loads  # the same for pairs of each strength


def extent(outline: Outline, records: Iterable[JournalRecord]) -> Extent:
    """What a file holds with these changes."""
    changed, sample = defaultdict[bytes, float](float), outline.sample
    for record in records:
        entries = list(record.entries())
        sample = sample.plus([(path, value) for path, value, *_ in entries], [each.weight for each in entries])
        for entry in entries:
            if entry.is_counted:
                changed[entry.value] += entry.weight
    counts = outline.counts
    values = len(counts) + len(changed) - len(known(outline.names, changed))
    if min(changed.values(), default=0) < 0 or bool((counts < 0).any()):
        # A value does not count less than nothing: which is whose must be known.
        each = dict(zip(split_labels(outline.names), counts.tolist(), strict=True))
        each |= {value: each.get(value, 0.0) + more for value, more in changed.items()}
        pairs = sum(max(0.0, count) for count in each.values())
    else:
        pairs = float(counts.sum()) + sum(changed.values())
    histogram = sample.histogram(pairs)
    if not histogram.strengths:
        return Extent(round(pairs), values, round(pairs), ((round(pairs), 1.0),))
    return Extent(round(pairs), values, round(histogram.load), histogram.loads())


def known(names: bytes, some: Collection[bytes]) -> set[bytes]:
    """Return the labels of `some` that the vocabulary `names` has; both in canonical bytes."""
    if len(some) <= FEW:  # most often; and what stands nowhere needs no closer look
        some = [name for name in some if name in names]
    return set(some).intersection(split_labels(names)) if some else set()
