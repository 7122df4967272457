"""What memories of a kind offer for a wish: how much they take, how well they answer, and whether that is enough."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from carving.planner.alone import Stored
from carving.planner.kinds import Kind
from carving.planner.telling import NAMING, share_told
from carving.planner.together import FixedPoint, margin, sooner
from carving.planner.twins import told_apart
from carving.planner.wish import Wish

WHOLE = 0.9  # of what is decoded together, at least, where the threshold is passed
LONGEST = 60  # rounds of joint decoding, with the margin: memories that need more are too near to the threshold
FEW = 32  # pairs; the smallest memory that decodes more of them together has no trouble with one


@dataclass(frozen=True)
class Offer:
    """A kind of memory for a wish; a memory of the kind has a side d and, if there is any, a width k1."""

    wish: Wish
    kind: Kind

    def holding(self, pairs: int) -> "Offer":
        """The same for another number of pairs."""
        return replace(self, wish=replace(self.wish, pairs=pairs))

    def numbers(self, d: int, k1: int) -> int:
        """What the memory takes: cells and, if it counts, the codebook."""
        counts = self.wish.codebook and self.wish.bits is None  # of a quantized memory, labels give the fillers
        return d**self.kind.order + (self.codebook(d, k1) if counts else 0)

    def codebook(self, d: int, k1: int) -> int:
        """The numbers of all fillers."""
        kind = self.kind
        return self.wish.vocabulary * (kind.components if self.wish.dictionary else kind.filler_size(d, k1))

    def operations(self, d: int, k1: int) -> int:
        """What a question takes; together with all others, every round reads the memory and writes it again."""
        work = self.kind.question(d, k1, self.wish.vocabulary)
        return (work.times(2 * self.decoded(d, k1).rounds) if self.wish.joint else work).operations

    def widths(self, d: int) -> tuple[int, ...]:
        """The k1 to try."""
        return self.kind.widths(d, self.wish.widest_at(d))

    def admits(self, d: int, k1: int) -> bool:
        """Whether k1 is not too wide to be tried."""
        return k1 <= self.kind.widest(d, self.wish.widest_at(d))

    def decoded(self, d: int, k1: int) -> FixedPoint:
        """Where joint decoding comes to rest."""
        assert self.kind.together is not None, "kinds_for(wish) admits no such kind"
        wish = self.wish
        return self.kind.together(d, k1, Stored(wish.pairs, wish.vocabulary, 1), wish.spread, wish.bits)

    def accuracy(self, d: int, k1: int, draft: bool = False) -> float:
        """The accuracy in the mean of contexts; those of many fillers are interpolated between a few sizes.

        A context is never taken to be alone: one that holds nothing must be told from it, and meets all of it as noise.
        """
        return self._found(d, k1, draft) * self.told_apart

    @property
    def told_apart(self) -> float:
        """The share of labels that are named where their fillers are found."""
        wish, p = self.wish, self.kind.p
        return told_apart(wish.vocabulary, wish.dictionary, p) if wish.dictionary and p else 1.0

    def _found(self, d: int, k1: int, draft: bool) -> float:
        if self.wish.joint:
            return self._found_together(d, k1)
        contexts, pairs, rounding = self.wish.contexts, self.wish.pairs, self.wish.rounding
        sizes = _ladder(sorted(contexts))
        stored = [Stored(max(pairs, 2 * size), self.wish.vocabulary, size, rounding) for size in sizes]
        shares = [self.kind.alone(d, k1, each, draft) for each in stored]
        total = sum(count * _interpolate(size, sizes, shares) for size, count in contexts.items())
        return total / sum(contexts.values())

    def _found_together(self, d: int, k1: int) -> float:
        found, wish = self.decoded(d, k1).accuracy, self.wish
        if wish.bits is None or found < WHOLE:
            return found
        return self.holding(math.ceil(wish.pairs * (1 + sooner(wish.pairs, wish.spread)))).decoded(d, k1).accuracy

    def suffices(self, d: int, k1: int, draft: bool = False) -> bool:
        """Whether the accuracy is reached: for joint decoding with some pairs more than wished, in time."""
        if not self.wish.joint:
            return self.tells(d, k1) and self.accuracy(d, k1, draft) >= self.wish.accuracy
        room = margin(self.wish.pairs, quantized=self.wish.bits is not None)
        crowded = self.holding(math.ceil(self.wish.pairs * (1 + room)))
        rest = crowded.decoded(d, k1)
        return (
            rest.accuracy * self.told_apart >= self.wish.accuracy
            and rest.rounds <= LONGEST
            and self._tells_one_from_none(d, k1)
        )

    def tells(self, d: int, k1: int) -> bool:
        """Whether it is told well enough which contexts hold nothing: with ten times the errors of naming fillers."""
        wish = self.wish
        stored = Stored(max(wish.pairs, 2), wish.vocabulary, 1, wish.rounding)
        return 1 - share_told(self.kind.elsewhere(d, k1, stored), wish.vocabulary) <= (1 - wish.accuracy) / NAMING

    def _tells_one_from_none(self, d: int, k1: int) -> bool:
        """Whether a single pair would be told from a context that holds nothing, which is no question with many."""
        if self.wish.pairs > FEW:
            return True
        return Offer(replace(self.wish, pairs=1, joint=False, spread=0.0), self.kind).suffices(d, k1)

    def surely_suffices(self, d: int, k1: int) -> bool:
        """The same, in less time where it does not: drafts of contexts with several fillers are hopeful."""
        contexts = self.wish.contexts
        crowded = {size: count for size, count in contexts.items() if size > 1}
        if crowded:
            wrong = 1 - Offer(replace(self.wish, shared=crowded), self.kind).accuracy(d, k1, draft=True)
            if wrong * sum(crowded.values()) > (1 - self.wish.accuracy) * sum(contexts.values()):
                return False
        return self.suffices(d, k1)

    def some_width_suffices(self, d: int, draft: bool) -> bool:
        """Whether the accuracy is reached with any k1: drafts say with which ones, if with any."""
        if self.wish.joint:
            return any(self.suffices(d, k1) for k1 in self.widths(d))
        drafts = {k1: self.accuracy(d, k1, draft=True) for k1 in self.widths(d)}
        if draft:
            return any(share >= self.wish.accuracy and self.tells(d, k1) for k1, share in drafts.items())
        likely = sorted(drafts, key=lambda k1: -drafts[k1])[:2]
        return any(self.suffices(d, k1) for k1 in likely)


def _ladder(sizes: list[int]) -> list[int]:
    """The sizes themselves, or if they are many, those up to 4 and some of the larger ones."""
    if len(sizes) <= 8:
        return sizes
    rungs = [sizes[0]]
    for size in sizes[1:]:
        if size <= 4 or size >= 2 * rungs[-1] or size == sizes[-1]:
            rungs.append(size)
    return rungs


def _interpolate(size: int, sizes: list[int], shares: list[float]) -> float:
    index = bisect_left(sizes, size)
    if sizes[index] == size:
        return shares[index]
    low, high = sizes[index - 1], sizes[index]
    part = math.log(size / low) / math.log(high / low)
    return (1 - part) * shares[index - 1] + part * shares[index]
