"""The tally of a change: what is stored and taken out, as it comes, and what the energy tells of what was there."""

import math
from collections.abc import Iterable
from dataclasses import replace

from carving.answers.tally import NOTHING_STORED, Tally
from carving.memory.state import SIGMAS, State

TOGETHER = 2**16  # pairs of one weight among which those that come again are told

Name = tuple[bytes, bytes]  # the canonical bytes of a path and a leaf


class Tallying:
    """Pairs as they come, those of each weight for themselves."""

    def __init__(self) -> None:
        self._tallies: dict[float, Tally] = {}  # of all but the last ones,
        self._last: dict[float, list[Name]] = {}  # and these

    def add(self, weight: float, pairs: Iterable[Name]) -> None:
        """Pairs that all have this weight."""
        last = self._last.setdefault(weight, [])
        if len(last) >= TOGETHER:
            self._tallies[weight] = self._whole(weight)
            last.clear()
        last += pairs

    @staticmethod
    def within(pairs: int) -> bool:
        """Whether so many pairs are few enough that all that come again among them are told."""
        return pairs <= TOGETHER

    def counted(self) -> "Tallying":
        """The same without the pairs themselves."""
        less = Tallying()
        less._tallies, less._last = {weight: self._whole(weight) for weight in self._last}, {}
        return less

    def join(self, other: "Tallying") -> None:
        """Take in the pairs of another, which come after these."""
        for weight, tally in other._tallies.items():
            before = self._tallies.get(weight)
            self._tallies[weight] = tally if before is None else before.with_stored(tally)
        for weight, last in other._last.items():
            self.add(weight, last)

    def both(self) -> tuple[Tally, Tally]:
        """What was stored, and what was taken out."""
        stored = gone = NOTHING_STORED
        for weight in dict.fromkeys((*self._last, *self._tallies)):
            more = self._whole(weight)
            if weight > 0:
                stored = stored.with_stored(more) if stored.strengths else more
            elif weight < 0:
                gone = gone.with_stored(more) if gone.strengths else more
        return stored, gone

    def _whole(self, weight: float) -> Tally:
        before, pairs = self._tallies.get(weight), self._last.get(weight)
        if before is not None and not pairs:
            return before
        last = Tally.of(pairs or [], weight)
        return last if before is None else before.with_stored(last)


def tallied(before: State, after: State, change: Tally, taken_out: bool = False, seen: bool = True) -> State:
    """The state after a change with its tally: what was there before shows by the energy, unless chance hides it.

    Each pair of a strength s that changes by w changes the energy by w^2 + 2 s w. Where the tensor lags behind, or has
    changed in both ways, that cannot be seen. Pairs that are taken out go as they came (s = w), unless that is not it.
    """
    tally = after.tally
    excess, chance = (0.0, math.inf) if not seen or not tally.strengths else _excess(before, after, change)
    if not taken_out:
        return replace(after, tally=tally.with_stored(change, excess if excess > chance else 0.0))
    told = excess < -chance and abs(excess + 2 * change.squares) > chance
    return replace(after, tally=tally.without(change, -excess / (2 * change.sum) if told else None))


def _excess(before: State, after: State, change: Tally) -> tuple[float, float]:
    """By how much the energy has grown more than by the change alone, and by how much it may by chance."""
    tally = before.tally
    mixed = change.squares * (tally.squares + change.squares / 2)
    chance = SIGMAS * before.chance * math.sqrt(2 * mixed)
    most = max(tally.strengths[-1][0], change.strengths[-1][0])
    if (
        not change.few and 2 * most * change.sum <= chance
    ):  # the energy tells nothing; few may be stronger than is known
        return 0.0, chance
    now, then = after.squares, before.squares
    assert now is not None and then is not None
    return now - then - change.squares, chance
