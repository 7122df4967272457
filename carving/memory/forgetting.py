"""Forgetting: subtract the pairs that a memory holds, and return those that it does not hold."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from carving.formats.documents import Pair
from carving.memory.changes import Change, OnProgress, report
from carving.memory.kept import Kept
from carving.memory.pairs import Batch
from carving.memory.recognition import weighed
from carving.memory.state import State, check_sum
from carving.symbols.codec import Path, Value

SURELY = 6  # standard deviations: a strength that differs by more is not that of chance (five came in 100,000 pairs),
MARGIN = 0.25  # nor of what a model of chance leaves out, in units of the weight
ROUNDS = 8  # how often strangers are asked for again


class Weaker(NamedTuple):
    """A pair that was skipped because it is stored more weakly than the weight to forget, and its strength."""

    path: Path
    value: Value
    strength: float


class Stronger(NamedTuple):
    """A pair that was stored more strongly than the weight to forget, and the strength that remains."""

    path: Path
    value: Value
    strength: float


class NotFound(list[Pair]):
    """List of the pairs that `Memory.forget` skipped.

    Attributes:
        weaker: The skipped pairs that are stored, but with less than the weight to forget.
        stronger: Pairs that are not in the list: they were forgotten, but a remainder of each is still stored.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"a": "x"}, weight=0.5), memory.store({"b": "y"})
    (1, 1)
    >>> not_found = memory.forget({"a": "x", "b": "y", "c": "z"})
    >>> not_found, [(weaker.value, round(weaker.strength, 1)) for weaker in not_found.weaker]
    ([(('a',), 'x'), (('c',), 'z')], [('x', 0.5)])
    >>> [(rest.value, round(rest.strength, 1)) for rest in memory.forget({"a": "x"}, weight=0.2).stronger]
    [('x', 0.3)]
    """

    def __init__(
        self, pairs: Iterable[Pair] = (), weaker: Iterable[Weaker] = (), stronger: Iterable[Stronger] = ()
    ) -> None:
        super().__init__(pairs)
        self.weaker = list(weaker)  # those of them that are there all the same
        self.stronger = list(stronger)  # others, which were forgotten, but not wholly


Rests = dict[tuple[bytes, bytes], Stronger]  # what is left of pairs, by the canonical bytes of path and value


class Judged(NamedTuple):
    """What a state says of a batch: which pairs it holds as strongly as wanted, and which more weakly, or strongly."""

    held: list[bool]
    weaker: list[Weaker]
    stronger: Rests


def judged(held: State, batch: Batch, weight: float, times: Counter[tuple[bytes, bytes]]) -> Judged:
    """Each pair of a batch; `times` counts how often each came, since what goes twice must be there twice."""
    size, sign = abs(weight), 1 if weight > 0 else -1
    found, weaker, stronger, there = list[bool](), list[Weaker](), Rests(), kept(held, batch)
    for part in weighed(held, batch, 0.5):
        for strength, spread in zip(part.strengths.tolist(), part.spreads.tolist(), strict=True):
            row = len(found)
            name = batch.paths.names[row], batch.names[row]
            left = sign * strength - size * times[name]  # when the copies before are gone
            # Of nothing and the weight, whichever is nearer; and not surely less than the weight.
            enough = there[row] and left >= max(size / 2, size - max(SURELY * spread, MARGIN * size))
            times[name] += 1
            found.append(enough)
            if there[row] and not enough and left > max(SURELY * spread, MARGIN * size / 2):
                weaker.append(Weaker(batch.paths[row], batch.values[row], sign * left))
            if enough:  # and of several copies the last one tells
                rest = left - size if left - size > max(SURELY * spread, MARGIN * size) else 0.0
                stronger[name] = Stronger(batch.paths[row], batch.values[row], sign * rest)
    return Judged(found, weaker, stronger)


def kept(held: State, batch: Batch) -> list[bool]:
    """Whether each pair's path is one that holds something, as far as paths are kept."""
    known = held.known
    return [known is None or known.count(name) > 0 for name in batch.paths.names]


def forgotten(
    held: State, batches: Iterable[list[Pair]], weight: float, force: bool, on_progress: OnProgress | None
) -> tuple[Change, NotFound]:
    """The change that takes pairs out, and those that it leaves alone, or with `force` takes out without counting them.

    Pairs hide each other: those that were not found are looked for again when the others are gone.
    """
    check_sum(held, "forget pairs")
    change = Change(held, -weight)
    rests = Rests()
    if not held.scheme.facts.linear or not weight:  # nothing can be told but by paths, or there is nothing to tell
        left, weaker = _taken_out_blindly(held, map(Batch, batches), change, on_progress), list[Weaker]()
    else:
        left, weaker = _taken_out(held, map(Batch, batches), change, weight, rests, on_progress)
        left, weaker = _taken_out_later(change, left, weaker, weight, rests)
    if force:
        for batch in left:
            change.add(batch, counted=False)
    stronger = (rest for rest in rests.values() if rest.strength)
    return change, NotFound((pair for batch in left for pair in batch.pairs), weaker, stronger)


def _taken_out_blindly(
    held: State, batches: Iterable[Batch], change: Change, on_progress: OnProgress | None
) -> list[Batch]:
    """Take out all pairs but those of paths that are known to hold nothing: these."""
    left = list[Batch]()
    for batch in batches:
        there = kept(held, batch)
        change.add(batch.only(there))
        if not all(there):
            left.append(batch.only([not each for each in there]))
        report(on_progress, len(batch))
    return left


def _taken_out_later(
    change: Change, left: list[Batch], weaker: list[Weaker], weight: float, rests: Rests
) -> tuple[list[Batch], list[Weaker]]:
    """Take out what shows when others are gone, as long as there is any: the rest, and what is there more weakly."""
    for _ in range(ROUNDS):
        before = change.pairs
        if not left or not before:
            break
        # What is asked must stay as it is while pairs are taken out.
        now = replace(change.state(), tensor=change.tensor.clone(), kept=Kept())
        left, weaker = _taken_out(now, left, change, weight, rests)
        if change.pairs == before:
            break
    return left, weaker


def _taken_out(
    held: State,
    batches: Iterable[Batch],
    change: Change,
    weight: float,
    rests: Rests,
    on_progress: OnProgress | None = None,
) -> tuple[list[Batch], list[Weaker]]:
    """Take out what a state holds, and note what stays of it: the others, and what of these is there more weakly."""
    times, left, weaker = Counter[tuple[bytes, bytes]](), list[Batch](), list[Weaker]()
    for batch in batches:
        found = judged(held, batch, weight, times)
        change.add(batch.only(found.held))
        if not all(found.held):
            left.append(batch.only([not each for each in found.held]))
        weaker += found.weaker
        rests |= found.stronger
        report(on_progress, len(batch))
    return left, weaker
