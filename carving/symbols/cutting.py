"""Canonical bytes of many labels, one after the other, are cut into labels and checked, without an object for each.

Every label begins with a tag, the digits of its length and a colon. Wherever a colon has digits before it, a label may
begin; which of them do is told by following lengths from the first byte on: most often each leads to the next.
"""

import numpy as np
from numpy.typing import NDArray

from carving.errors import BadValue
from carving.symbols.codec import PARSERS, canonical, parse_labels

Octets = NDArray[np.uint8]
Places = NDArray[np.int64]

WINDOW = 2**21  # bytes that are looked at together
DIGITS = 20  # of a length, at most
LONG = 3000  # bytes of an integer that is looked at for itself
TEXT, INTEGER, BYTES = b"sib"
EMPTY = np.frombuffer(b"tfn{[", dtype=np.uint8)  # tags of labels that have no content
TAGS = np.frombuffer(b"".join(PARSERS), dtype=np.uint8)
MIDDLE = "the vocabulary ends in the middle of a label"


def label_ends(data: Octets) -> Places:
    """The n + 1 ends of labels whose canonical bytes fill the data; anything else is refused.

    >>> label_ends(np.frombuffer(b"s3:dogi2:-7t0:", dtype=np.uint8)).tolist()
    [0, 6, 11, 14]
    """
    parts, at, window = [np.zeros(1, dtype=np.int64)], 0, WINDOW
    while at < len(data):
        starts, heads, ends = _labels(data[at : at + window])
        if len(ends):
            _check(data[at : at + int(ends[-1])], starts, heads, ends)
            parts.append(ends + at)
            at, window = at + int(ends[-1]), WINDOW
        elif at + window < len(data):
            window *= 2  # a label that is longer
        else:
            raise BadValue(MIDDLE)
    return np.concatenate(parts)


def _labels(data: Octets) -> tuple[Places, Places, Places]:
    """Where the whole labels at the beginning of data start, where their contents do, and where they end."""
    colons = np.flatnonzero(data == ord(":"))
    sizes, digits = np.zeros_like(colons), np.zeros_like(colons)
    going, scale = np.arange(len(colons)), 1
    for back in range(1, DIGITS):
        place = colons[going] - back
        figures = data[np.maximum(place, 0)].astype(np.int64) - ord("0")
        kept = (place >= 0) & (figures >= 0) & (figures <= 9)
        going, figures = going[kept], figures[kept]
        if not len(going):
            break
        sizes[going] += figures * scale if back < 16 else len(data)  # longer than anything
        digits[going] += 1
        scale *= 10
    starts = colons - digits - 1
    fits = (digits > 0) & (starts >= 0)
    starts, heads, digits, sizes = starts[fits], colons[fits] + 1, digits[fits], sizes[fits]
    fits = np.isin(data[starts], TAGS) & ((data[starts + 1] != ord("0")) | (digits == 1))
    starts, heads = starts[fits], heads[fits]
    return _followed(starts, heads, heads + sizes[fits], len(data))


def _followed(starts: Places, heads: Places, ends: Places, size: int) -> tuple[Places, Places, Places]:
    """Those labels that follow each other from the first byte on, as far as they are whole."""
    breaks = np.flatnonzero(np.append(ends[:-1] != starts[1:], True)) if len(ends) else starts
    runs, place = list[slice](), 0
    while place < size:
        first = int(np.searchsorted(starts, place))
        if first == len(starts) or starts[first] != place:
            if runs and size - place < 24:  # the beginning of a label, perhaps, whose colon is not there yet
                break
            raise BadValue(MIDDLE)
        last = int(breaks[np.searchsorted(breaks, first)])
        if ends[last] > size:
            runs.append(slice(first, last))
            break
        runs.append(slice(first, last + 1))
        place = int(ends[last])
    parts = [[each[run] for run in runs] or [each[:0]] for each in (starts, heads, ends)]
    whole = [np.concatenate(part) for part in parts]
    return whole[0], whole[1], whole[2]


def _check(data: Octets, starts: Places, heads: Places, ends: Places) -> None:
    """Refuse labels that would have other canonical bytes."""
    tags, sizes = data[starts], ends - heads
    if bool((sizes[np.isin(tags, EMPTY)] != 0).any()):
        raise BadValue("the vocabulary has a label with content of a kind that has none")
    large, others = data >= 128, np.zeros(len(tags), dtype=bool)
    if bool(large.any()):
        others |= (tags == TEXT) & (_within(large, heads, ends) > 0)
        if bool(((tags == TEXT) | (tags == INTEGER)).all()) and _is_text(data):
            others[:] = False
    whole = tags == INTEGER
    if bool(whole.any()):
        others |= whole & ~_are_integers(data, heads, ends, sizes)
    others |= ~np.isin(tags, EMPTY) & (tags != TEXT) & (tags != INTEGER) & (tags != BYTES)
    for place in np.flatnonzero(others).tolist():  # few, most often
        name = data[int(starts[place]) : int(ends[place])].tobytes()
        if canonical(parse_labels(name)[0]) != name:
            raise BadValue(f"the vocabulary contains the bytes {name[:40]!r}, which encode no label")


def _within(flags: NDArray[np.bool_], heads: Places, ends: Places) -> NDArray[np.int32]:
    """How many of the flags lie in each content."""
    sums = np.zeros(len(flags) + 1, dtype=np.int32)
    np.cumsum(flags, out=sums[1:])
    counts: NDArray[np.int32] = sums[ends] - sums[heads]
    return counts


def _is_text(data: Octets) -> bool:
    """Whether all of it is UTF-8. What stands between texts is ASCII, so that each of them is, or all are not."""
    try:
        data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _are_integers(data: Octets, heads: Places, ends: Places, sizes: Places) -> NDArray[np.bool_]:
    """Which contents are surely those of integers: a minus or none, a figure that is no zero, figures."""
    minus = data[np.minimum(heads, len(data) - 1)] == ord("-")
    figures = _within((data >= ord("0")) & (data <= ord("9")), heads, ends)
    first = data[np.minimum(heads + minus, len(data) - 1)]
    plain = (first > ord("0")) | (~minus & (sizes == 1))
    right: NDArray[np.bool_] = plain & (figures == sizes - minus) & (sizes > minus) & (sizes < LONG)
    return right
