"""Designs: what the memories of a family take and how well they answer, and the search for the best of them."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from carving.errors import BadValue
from carving.planner.families import NAMING_SHARE, MemoryFamily, StoredPairs, gaussian_accuracy
from carving.planner.requirements import Specification, collision_accuracy
from carving.planner.state_evolution import FixedPoint, finite_size_correction, fixed_point, safety_margin

MIN_SIDE = 3  # the smallest d that is considered
MAX_NUMBERS = 2**50  # cells of a memory, and pairs in it
MAX_OVERSIZE = 50  # times the side that would do without overlaps: a k1 that needs more is too narrow
CONVERGED_ACCURACY = 0.9  # of joint decoding, at least, above the threshold
MAX_PLANNED_ROUNDS = 60  # of joint decoding, with the margin: memories that need more are too near to the threshold
FEW_PAIRS = 32  # the smallest memory that decodes more of them jointly answers queries of one pair well
# The widths to consider for compact fillers
# fmt: off
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 46, 52, 60, 70, 80, 90, 100)
# fmt: on


def find_first(holds: Callable[[int], bool], guess: int, least: int) -> int:
    """Return the first number from `least` on for which a condition holds, as it does for all after it.

    >>> find_first(lambda number: number >= 1_000, guess=900, least=1)
    1000
    """
    low, high = least, max(guess, least)
    step = max(1, high // 32)
    while not holds(high):
        low, high, step = high + 1, high + step, 2 * step
    while high - step >= low and holds(high - step):
        high, step = high - step, 2 * step
    return bisect_left(range(high), True, lo=max(low, high - step + 1), key=holds)


@dataclass(frozen=True)
class Design:
    """A family of memories under a specification; a memory has a side d and, in OSC, a width k1 (else 0)."""

    spec: Specification
    family: MemoryFamily

    def revised(self, **changes: Any) -> "Design":
        """Return the design for a specification with some fields changed."""
        return replace(self, spec=replace(self.spec, **changes))

    def widths(self, d: int) -> tuple[int, ...]:
        """Return the k1 to consider: from about sqrt(d) on, or all that may be best for compact fillers."""
        if self.family.p is None:
            return (0,)
        end = self.spec.max_width(d)
        if self.family.compact:
            return (*(k1 for k1 in WIDTHS if k1 < end), end)
        steps = (round(math.sqrt(d) * 2 ** (i / 2)) for i in range(2 * d.bit_length()))
        return tuple(sorted({min(max(2, k1), end) for k1 in steps}))

    # Size and cost

    def numbers(self, d: int, k1: int) -> int:
        """Return the size: the cells and, if it counts, the codebook."""
        counts = self.spec.codebook and self.spec.bits is None  # labels give the fillers of a quantized memory
        return self.family.cells(d) + (self.codebook(d, k1) if counts else 0)

    def codebook(self, d: int, k1: int) -> int:
        """Return the numbers of all fillers."""
        component = 1 if self.spec.dictionary else k1 if self.family.compact else d
        return self.spec.vocabulary * (self.family.p or 1) * component

    def operations(self, d: int, k1: int) -> int:
        """Return the operations of a query; in joint decoding every round reads the memory and writes it again."""
        cost = self.family.query_cost(d, k1, self.spec.vocabulary)
        return cost.operations(2 * self.fixed_point(d, k1).rounds if self.spec.joint else 1)

    # Accuracy

    def fixed_point(self, d: int, k1: int) -> FixedPoint:
        """Return the predicted result of joint decoding."""
        return self.family.fixed_point(d, k1, self.spec)

    @property
    def collision_accuracy(self) -> float:
        """The share of values that are named once their fillers are found."""
        spec, p = self.spec, self.family.p
        return collision_accuracy(spec.vocabulary, spec.dictionary, p) if spec.dictionary and p else 1.0

    def accuracy(self, d: int, k1: int, draft: bool = False) -> float:
        """Return the mean accuracy of contexts, as single queries or by joint decoding."""
        found = self._joint_accuracy(d, k1) if self.spec.joint else self._single_accuracy(d, k1, draft)
        return found * self.collision_accuracy

    def _single_accuracy(self, d: int, k1: int, draft: bool) -> float:
        """Return the accuracy of single queries; contexts of many fillers are interpolated between a few sizes.

        No context counts as the only one: an empty context must be recognized, and meets all pairs as noise.
        """
        spec, contexts = self.spec, self.spec.contexts
        sizes = _interpolation_points(sorted(contexts))
        stored = [StoredPairs(max(spec.pairs, 2 * size), spec.vocabulary, size, spec.rounding) for size in sizes]
        accuracies = [self.family.accuracy(d, k1, each, draft) for each in stored]
        found = np.interp(np.log(list(contexts)), np.log(sizes), accuracies)
        return float(np.average(found, weights=list(contexts.values())))

    def _joint_accuracy(self, d: int, k1: int) -> float:
        found, spec = self.fixed_point(d, k1).accuracy, self.spec
        if spec.bits is None or found < CONVERGED_ACCURACY:
            return found
        pairs = math.ceil(spec.pairs * (1 + finite_size_correction(spec.pairs, spec.spread)))
        return self.revised(pairs=pairs).fixed_point(d, k1).accuracy

    def suffices(self, d: int, k1: int, draft: bool = False) -> bool:
        """Return whether the accuracy is reached; by joint decoding with a margin of pairs, and in time."""
        spec = self.spec
        if not spec.joint:
            return self.detects_empty(d, k1) and self.accuracy(d, k1, draft) >= spec.accuracy
        pairs = math.ceil(spec.pairs * (1 + safety_margin(spec.pairs, quantized=spec.bits is not None)))
        end = self.revised(pairs=pairs).fixed_point(d, k1)
        if end.accuracy * self.collision_accuracy < spec.accuracy or end.rounds > MAX_PLANNED_ROUNDS:
            return False
        # A single pair must be distinguished from an empty context.
        return spec.pairs > FEW_PAIRS or self.revised(pairs=1, joint=False, spread=0.0).suffices(d, k1)

    def detects_empty(self, d: int, k1: int) -> bool:
        """Return whether empty contexts are recognized well enough: with ten times the errors of naming fillers."""
        spec = self.spec
        stored = StoredPairs(max(spec.pairs, 2), spec.vocabulary, 1, spec.rounding)
        errors = 1 - self.family.detection_accuracy(d, k1, stored)
        return errors <= (1 - spec.accuracy) / NAMING_SHARE

    def suffices_quickly(self, d: int, k1: int) -> bool:
        """Return `suffices`, in less time where it is False: drafts of contexts with several fillers are optimistic."""
        contexts = self.spec.contexts
        several = {size: count for size, count in contexts.items() if size > 1}
        if several:
            errors = 1 - self.revised(shared=several).accuracy(d, k1, draft=True)
            if errors * sum(several.values()) > (1 - self.spec.accuracy) * sum(contexts.values()):
                return False
        return self.suffices(d, k1)

    def some_width_suffices(self, d: int, draft: bool) -> bool:
        """Return whether the accuracy is reached at any k1; drafts choose which ones to examine."""
        if self.spec.joint:
            return any(self.suffices(d, k1) for k1 in self.widths(d))
        drafts = {k1: self.accuracy(d, k1, draft=True) for k1 in self.widths(d)}
        if draft:
            return any(found >= self.spec.accuracy and self.detects_empty(d, k1) for k1, found in drafts.items())
        return any(self.suffices(d, k1) for k1 in sorted(drafts, key=lambda k1: -drafts[k1])[:2])


def _interpolation_points(sizes: list[int]) -> list[int]:
    """Return the sizes or, of many, the sizes up to 4, the smallest of each octave above, and the largest."""
    octaves = {size.bit_length(): size for size in reversed(sizes)}
    return [size for size in sizes if len(sizes) <= 8 or size <= 4 or size in {*octaves.values(), sizes[-1]}]


class MemorySize(NamedTuple):
    """The side of a memory and the width of its contexts, 0 where there is none."""

    d: int
    k1: int


class TooLarge(BadValue):
    """No memory of a family that anyone could make is large enough."""

    def __init__(self, design: Design) -> None:
        wanted = f"accuracy {design.spec.accuracy}"
        super().__init__(
            f"No {design.family.scheme} of a possible size reaches {wanted}. Lower it, or store fewer pairs."
        )


# The smallest memory


def smallest_size(design: Design) -> MemorySize:
    """Return the smallest memory that suffices; the search starts at a draft.

    Raises:
        TooLarge: No memory of a possible size suffices.
    """
    if design.family.compact:
        return _smallest_compact(design)
    d = _first_side(design, _first_side(design, _lowest_side(design), draft=True))
    if design.family.cells(d) > MAX_NUMBERS:
        raise TooLarge(design)
    # Of all k1 that suffice, the narrowest takes the least time.
    return MemorySize(d, next(k1 for k1 in design.widths(d) if design.suffices(d, k1)))


def drafted_numbers(design: Design) -> int:
    """Return the approximate size of the smallest memory; 0 where a draft takes as long as the search."""
    if design.spec.joint:
        return 0
    if design.family.compact:
        return min((design.numbers(d, k1) for k1, d in _drafted_sides(design).items()), default=MAX_NUMBERS)
    return design.numbers(_first_side(design, _lowest_side(design), draft=True), 0)


def _first_side(design: Design, guess: int, draft: bool = False) -> int:
    """Return the first side at which some width suffices, or that is too large."""

    def suffices(d: int) -> bool:
        return design.family.cells(d) > MAX_NUMBERS or design.some_width_suffices(d, draft)

    return find_first(suffices, guess, MIN_SIDE)


def _lowest_side(design: Design) -> int:
    """Return roughly the smallest side at which interference alone, without overlaps, permits the accuracy."""
    spec, family = design.spec, design.family
    size, spread = min(spec.contexts), spec.spread if family.p else 0.0

    def suffices_without_overlaps(d: int) -> bool:
        noise = max(1, spec.pairs - size) / family.cells(d)
        if spec.joint:
            return fixed_point(noise, 0, 0, spec.vocabulary, spread, spec.bits).accuracy >= spec.accuracy
        noise += spec.rounding / family.cells(d)
        return gaussian_accuracy(noise, spec.vocabulary - size + 1) >= spec.accuracy

    return max(MIN_SIDE, find_first(suffices_without_overlaps, 2, 2) * 9 // 10)


# The smallest memory with compact fillers: wider contexts make a smaller memory and a larger codebook


def _smallest_compact(design: Design) -> MemorySize:
    """Return the smallest memory; exact sides are expensive, drafts say which widths deserve one.

    These are the best draft, other drafts that may need fewer numbers still, and the neighbors of the best for as long
    as they are better.
    """
    drafts = _drafted_sides(design)
    if not drafts:
        raise TooLarge(design)
    likely = sorted(drafts, key=lambda k1: (design.numbers(drafts[k1], k1), k1))
    best = MemorySize(_side(design, likely[0], drafts[likely[0]], MAX_NUMBERS), likely[0])
    if design.numbers(*best) > MAX_NUMBERS:
        raise TooLarge(design)
    if design.spec.joint:
        return best
    for k1 in likely[1:]:
        best = _smaller(design, best, k1) or best
    start = WIDTHS.index(best.k1)
    for widths in (WIDTHS[:start][::-1], WIDTHS[start + 1 :]):
        for k1 in widths:
            smaller = _smaller(design, best, k1)
            if smaller is None:
                break
            best = smaller
    return best


def _smaller(design: Design, best: MemorySize, k1: int) -> MemorySize | None:
    """Return the smallest memory of this width, if it needs fewer numbers than the best."""
    size = MemorySize(_largest_side(design, k1, design.numbers(*best) - 1), k1)
    if size.d < MIN_SIDE or k1 > design.spec.max_width(size.d) or not design.suffices_quickly(*size):
        return None
    return trimmed_size(design, size)


def _drafted_sides(design: Design) -> dict[int, int]:
    """Return drafts of the side by k1, for all k1 that may be the best: from about sqrt(d) up, then down."""
    lowest, sides = _lowest_side(design), dict[int, int]()
    least = MAX_NUMBERS  # the size of the best
    start = bisect_left(WIDTHS, math.sqrt(lowest), hi=len(WIDTHS) - 1)
    for widths in (WIDTHS[start:], WIDTHS[:start][::-1]):
        worse = 0
        for k1 in widths:
            limit = min(2 * least, MAX_NUMBERS, design.numbers(MAX_OVERSIZE * lowest, k1))
            d = _side(design, k1, lowest, limit, draft=True)
            if d > MAX_OVERSIZE * lowest:
                continue  # too narrow for the number of fillers in a context
            sides[k1], numbers = d, design.numbers(d, k1)
            worse = 0 if numbers < least else worse + 1
            least = min(least, numbers)
            if worse == 2:
                break
    return sides


def _side(design: Design, k1: int, guess: int, limit: int, draft: bool = False) -> int:
    """Return the first side that suffices, or that needs more numbers than the limit."""

    def suffices(d: int) -> bool:
        is_wide = k1 <= design.spec.max_width(d)
        return design.numbers(d, k1) > limit or (is_wide and design.suffices(d, k1, draft))

    return find_first(suffices, guess, MIN_SIDE)


# The memory of the most pairs


def fullest_size(design: Design, numbers: int) -> tuple[int, MemorySize]:
    """Return the most pairs that a memory of at most `numbers` holds, and its size; no pairs where there is none."""
    drafts = {size: most_pairs(design, *size, draft=True) for size in _sizes_within(design, numbers)}
    pairs, best = 0, MemorySize(0, 0)
    for size in sorted(drafts, key=lambda size: (-drafts[size], size.k1)):
        if drafts[size] > pairs and (most := most_pairs(design, *size)) > pairs:  # drafts are optimistic
            pairs, best = most, size
    return pairs, best


def _sizes_within(design: Design, numbers: int) -> list[MemorySize]:
    """Return the largest side of at most `numbers`, for each width."""
    if design.family.compact:
        sizes = [MemorySize(_largest_side(design, k1, numbers), k1) for k1 in WIDTHS]
        return [size for size in sizes if size.d >= MIN_SIDE and size.k1 <= design.spec.max_width(size.d)]
    d = _largest_side(design, 0, numbers)
    return [MemorySize(d, k1) for k1 in design.widths(d)] if d >= MIN_SIDE else []


def _largest_side(design: Design, k1: int, numbers: int) -> int:
    return find_first(lambda d: design.numbers(d, k1) > numbers, MIN_SIDE, 0) - 1


def most_pairs(design: Design, d: int, k1: int, draft: bool = False) -> int:
    """Return the most pairs that a memory holds at the accuracy; 0 if not even those of one context."""
    least, found = min(design.spec.contexts), design.family.cells(d) // 16

    def fails(pairs: int, draft: bool) -> bool:
        return pairs > MAX_NUMBERS or not design.revised(pairs=pairs).suffices(d, k1, draft)

    for is_draft in (True,) if draft else (True, False):
        found = find_first(partial(fails, draft=is_draft), found, least)
    if found > MAX_NUMBERS:
        raise BadValue(
            f"{design.family.scheme} with d={d} has an accuracy of {design.spec.accuracy} at any number of pairs. "
            "Require a higher accuracy, or a larger vocabulary."
        )
    return found - 1 if found > least else 0


# The memory of the cheapest queries


def cheapest_size(design: Design, numbers: int, known: MemorySize) -> MemorySize:
    """Return the memory of at most `numbers` that suffices, as a known one does, and whose queries are cheapest.

    Narrower contexts need a larger side and make matching cheaper: of each width the largest side is examined. Joint
    decoding gains most by headroom, in which it takes fewer rounds.
    """
    if design.spec.joint:
        return MemorySize(_largest_side(design, known.k1, numbers), known.k1)
    sizes = [known]
    for k1 in reversed([k1 for k1 in WIDTHS if k1 < known.k1]):
        size = MemorySize(_largest_side(design, k1, numbers), k1)
        if not design.suffices_quickly(*size):
            break
        sizes.append(size)
    return min(sizes, key=lambda size: design.operations(*size))


def trimmed_size(design: Design, size: MemorySize) -> MemorySize:
    """Return the smallest side of this width that suffices; joint decoding keeps its headroom."""
    if design.spec.joint:
        return size
    return MemorySize(_side(design, size.k1, size.d, design.numbers(*size)), size.k1)
