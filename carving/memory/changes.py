"""What changes a memory: pairs that are added or taken out, and memories that are merged."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import torch

from carving.answers.tally import NOTHING_STORED, Tally
from carving.errors import BadValue
from carving.memory.codebook import Codebook, Drawn, check_finite
from carving.memory.pairs import BATCH, Batch
from carving.memory.state import SIGMAS, State
from carving.scheme import Scheme
from carving.symbols import Leaf, canonical
from carving.tensors import lasting

TOGETHER = 2**16  # pairs of a change among which those that come again are told

OnProgress = Callable[[int], None]  # called with how many pairs or questions are done more


def report(on_progress: OnProgress | None, more: int) -> None:
    """Tell who wants to know that more is done."""
    if on_progress:
        on_progress(more)


class Change:
    """Pairs to be added to a state: everything is made apart, so that errors and interrupts change nothing."""

    def __init__(self, held: State, weight: float) -> None:
        self.held, self.weight, self.fillers = held, weight, Drawn(held.codebook)
        # The memory as it will be: a copy, the one allocation of its size, to which the pairs are added. What is there
        # stays as it is whatever happens, for those too who hold on to it; adding to it in place, and taking out again
        # what fails, would not give the same numbers back.
        with lasting():
            self.tensor = held.tensor.clone(memory_format=torch.contiguous_format)
        self.pairs, self.counts, self.leaves = 0, Counter[bytes](), dict[bytes, Leaf]()
        self.tally, self.counted = NOTHING_STORED, list[tuple[bytes, bytes]]()  # of all but the last ones, and these

    def add(self, batch: Batch, counted: bool = True) -> None:
        """Bind a batch of pairs; those that were never stored do not count when they are taken out."""
        if not len(batch):
            return
        fillers, scheme = self.fillers.named(batch.names, last=len(batch) < BATCH), self.held.scheme
        weights = None
        if self.weight != 1:
            weights = torch.full((len(batch),), self.weight, dtype=torch.float64, device=scheme.device)
        scheme.add(self.tensor, batch.paths, fillers, weights)
        self.pairs += len(batch)
        if counted:
            self.counts.update(batch.names)
            self.leaves.update(zip(batch.names, batch.leaves, strict=True))
            if self.held.scheme.facts.linear and self.weight:
                if len(self.counted) >= TOGETHER:
                    self.tally, self.counted = self._tallied(), []
                self.counted += zip(batch.paths.names, batch.names, strict=True)

    def state(self) -> State:
        """What will be there: numbers that are not finite are refused."""
        check_finite("the memory", self.tensor)
        times = torch.tensor([self.counts[name] for name in self.leaves], dtype=torch.float64)
        after = self.held.holding(self.tensor, self.leaves, self.weight * times)
        return tallied(self.held, after, self._tallied(), taken_out=self.weight < 0)

    def _tallied(self) -> Tally:
        """The tally of what was added."""
        if not self.counted:
            return self.tally
        last = Tally.of(self.counted, self.weight)
        return self.tally.with_stored(last) if self.tally.strengths else last


def tallied(before: State, after: State, change: Tally, taken_out: bool = False) -> State:
    """The state after a change with its tally: what was there before shows by the energy, unless chance hides it.

    Each pair of a strength s that changes by w changes the energy by w^2 + 2 s w.
    """
    tally = before.tally
    if not change.strengths:
        return after
    excess = 0.0 if not tally.strengths or change.few else _excess(before, after, change)
    if not taken_out:
        return replace(after, tally=tally.with_stored(change, max(0.0, excess)))
    strength = -excess / (2 * change.sum) if excess < 0 else None
    return replace(after, tally=tally.without(change, strength))


def _excess(before: State, after: State, change: Tally) -> float:
    """By how much the energy has grown more than by the change alone; 0 where that may be chance."""
    tally = before.tally
    mixed = change.squares * (tally.squares + change.squares / 2)
    chance = SIGMAS * before.chance * math.sqrt(2 * mixed)
    most = max(s for s, _ in (*tally.strengths, *change.strengths))
    if 2 * most * change.sum <= chance:  # the energy tells nothing
        return 0.0
    now, then = after.squares, before.squares
    assert now is not None and then is not None
    excess = now - then - change.squares
    return excess if abs(excess) > chance else 0.0


def checked(change: Change) -> Change:
    """The change, which must not be none."""
    if not change.pairs:
        raise BadValue("there must be something to store, got no pairs; give a document with at least one leaf")
    return change


def check_same(ours: Scheme, theirs: Scheme) -> None:
    """Refuse schemes whose memories cannot be added, and say what differs."""
    one, other = (dict(scheme=type(scheme).__name__) | scheme.parameters for scheme in (ours, theirs))
    kind = "name" if "name" in one and "name" in other else "scheme"
    names = [kind] if one[kind] != other[kind] else list(dict.fromkeys((*one, *other)))
    differ = [f"{n} ({one.get(n)!r} and {other.get(n)!r})" for n in names if one.get(n) != other.get(n)]
    if differ:
        raise BadValue(
            f"only memories of one scheme, with the same parameters and seed, can be added; these differ in "
            f"{', '.join(differ)}; store the pairs of one in a memory like the other: Memory.like(other), or "
            "`carving store NEW FILES --like OTHER`"
        )


def check_same_trained(ours: Codebook, theirs: Codebook) -> None:
    """Refuse other trained fillers, or those of other leaves: `1` is not `True`."""
    one, other = ours.trained, theirs.trained
    if one is not None and other is not None and one.shape == other.shape:
        leaves = [list(map(canonical, each.vocabulary.labels[: len(one)])) for each in (ours, theirs)]
        if leaves[0] == leaves[1] and torch.equal(one, other.to(one)):
            return
    if one is not None or other is not None:
        raise BadValue("these memories have different trained fillers, so that their tensors do not add")
