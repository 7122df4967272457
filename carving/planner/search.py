"""The search for a memory of a kind: the smallest that suffices; within so many numbers, the fullest, the cheapest."""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from carving.errors import BadValue
from carving.planner.alone import accuracy
from carving.planner.kinds import WIDTHS
from carving.planner.offer import Offer
from carving.planner.thresholds import first, smallest
from carving.planner.together import fixed_point
from carving.planner.twins import check_told_apart

SMALLEST = 3  # the smallest side that is tried
LARGEST = 2**50  # cells of a memory that nobody will make, pairs that nobody will store
FAR = 50  # times the side that would do without overlaps: k1 that need more are not worth a look


class Size(NamedTuple):
    """The side of a memory and the width of its contexts, 0 where there is none."""

    d: int
    k1: int


def telling(offers: list[Offer]) -> list[Offer]:
    """Those whose dictionaries, if they have any, tell enough labels apart; where none does, that is said."""
    kept = [offer for offer in offers if offer.told_apart >= offer.wish.accuracy]
    if not kept:
        wish, order = offers[-1].wish, max(offer.kind.p or 1 for offer in offers)
        check_told_apart(wish.vocabulary, wish.dictionary, order, wish.accuracy)
    return kept


# The smallest


def smallest_size(offer: Offer) -> Size:
    """The smallest memory that suffices: a draft of it first, from which the search goes up or down."""
    if offer.kind.compact:
        return _smallest_compact(offer)
    d = _first_side(offer, lambda d: offer.some_width_suffices(d, draft=False), _drafted_side(offer))
    # Of all k1 that do, the narrowest takes the least time.
    return Size(d, next(k1 for k1 in offer.widths(d) if offer.suffices(d, k1)))


def drafted_numbers(offer: Offer) -> int:
    """About how many numbers the smallest memory takes; 0 where no draft can say it faster than the search."""
    if offer.wish.joint:
        return 0
    if offer.kind.compact:
        return min((offer.numbers(d, k1) for k1, d in _drafted_sides(offer).items()), default=LARGEST)
    return offer.numbers(_drafted_side(offer), 0)


def _drafted_side(offer: Offer) -> int:
    return _first_side(offer, lambda d: offer.some_width_suffices(d, draft=True), _lowest_side(offer))


def _first_side(offer: Offer, suffices: Callable[[int], bool], guess: int) -> int:
    def possible(d: int) -> bool:
        if d**offer.kind.order > LARGEST:
            raise _too_much(offer)
        return suffices(d)

    return first(possible, guess, SMALLEST)


class TooLarge(BadValue):
    """No memory of a kind that anyone could make is large enough."""


def _too_much(offer: Offer) -> TooLarge:
    wanted = f"accuracy {offer.wish.accuracy}"
    return TooLarge(f"No {offer.kind.scheme} of a possible size reaches {wanted}. Lower it, or store fewer pairs.")


def _lowest_side(offer: Offer) -> int:
    """About the smallest side at which interference alone, without overlaps, leaves the accuracy possible."""
    wish, kind = offer.wish, offer.kind
    size, spread = min(wish.contexts), wish.spread if "spread" in kind.concerns else 0.0

    def without_overlaps(d: int) -> float:
        noise = max(1, wish.pairs - size) / d**kind.order
        if wish.joint:
            return fixed_point(noise, 0, 0, wish.vocabulary, spread, wish.bits).accuracy
        noise += wish.rounding / d**kind.order
        return accuracy(noise, noise, wish.vocabulary - size + 1)

    return max(SMALLEST, smallest(without_overlaps, wish.accuracy) * 9 // 10)


# The smallest with compact fillers: wider contexts make a smaller memory and a larger codebook


def _smallest_compact(offer: Offer) -> Size:
    """Exact sides are dear: that of the best draft, and of widths that may need fewer numbers still.

    These are the others that were drafted, and the neighbors of the best for as long as they are better.
    """
    drafts = _drafted_sides(offer)
    if not drafts:
        raise _too_much(offer)
    likely = sorted(drafts, key=lambda k1: (offer.numbers(drafts[k1], k1), k1))
    best = Size(_side(offer, likely[0], drafts[likely[0]], LARGEST, draft=False), likely[0])
    if offer.wish.joint:
        return best
    for k1 in likely[1:]:
        best = _smaller(offer, best, k1) or best
    start = WIDTHS.index(best.k1)
    for widths in (WIDTHS[:start][::-1], WIDTHS[start + 1 :]):
        for k1 in widths:
            smaller = _smaller(offer, best, k1)
            if smaller is None:
                break
            best = smaller
    return best


def _smaller(offer: Offer, best: Size, k1: int) -> Size | None:
    """The smallest memory of this width, if it takes fewer numbers than the best."""
    size = Size(_largest_side(offer, k1, offer.numbers(*best) - 1), k1)
    if size.d < SMALLEST or not offer.admits(*size) or not offer.surely_suffices(*size):
        return None
    return trimmed(offer, size)


def _drafted_sides(offer: Offer) -> dict[int, int]:
    """For each k1 that may be the best a draft of the side: from about sqrt(d) up, then down, while it helps."""
    lowest, sides = _lowest_side(offer), dict[int, int]()
    least = LARGEST  # numbers of the best
    start = bisect_left(WIDTHS, math.sqrt(lowest), hi=len(WIDTHS) - 1)
    for widths in (WIDTHS[start:], WIDTHS[:start][::-1]):
        worse = 0
        for k1 in widths:
            d = _side(offer, k1, lowest, min(2 * least, offer.numbers(FAR * lowest, k1)), draft=True)
            if d > FAR * lowest:
                continue  # too narrow for so many fillers in a context
            sides[k1] = d
            worse = 0 if offer.numbers(d, k1) < least else worse + 1
            least = min(least, offer.numbers(d, k1))
            if worse == 2:
                break
    return sides


def _side(offer: Offer, k1: int, guess: int, limit: int, draft: bool) -> int:
    """The first side that suffices, or that takes more numbers than the limit."""

    def suffices(d: int) -> bool:
        if offer.numbers(d, k1) > limit:
            return True  # too many, whether it does or not
        return offer.admits(d, k1) and offer.suffices(d, k1, draft)

    return _first_side(offer, suffices, guess)


# The fullest


def fullest_size(offer: Offer, numbers: int) -> tuple[int, Size]:
    """The most pairs that a memory of so many numbers holds, and its size; no pairs where there is none."""
    drafts = {size: most_pairs(offer, *size, draft=True) for size in _sizes_within(offer, numbers)}
    pairs, best = 0, Size(0, 0)
    for size in sorted(drafts, key=lambda size: (-drafts[size], size.k1)):
        if drafts[size] > pairs and (most := most_pairs(offer, *size)) > pairs:  # drafts are hopeful
            pairs, best = most, size
    return pairs, best


def _sizes_within(offer: Offer, numbers: int) -> list[Size]:
    """For each width the largest side that takes at most so many numbers."""
    if offer.kind.compact:
        sizes = [Size(_largest_side(offer, k1, numbers), k1) for k1 in WIDTHS]
        return [size for size in sizes if size.d >= SMALLEST and offer.admits(*size)]
    d = _largest_side(offer, 0, numbers)
    return [Size(d, k1) for k1 in offer.widths(d)] if d >= SMALLEST else []


def _largest_side(offer: Offer, k1: int, numbers: int) -> int:
    high = SMALLEST
    while offer.numbers(high, k1) <= numbers:
        high *= 2
    return bisect_left(range(high), True, key=lambda d: offer.numbers(d, k1) > numbers) - 1


def most_pairs(offer: Offer, d: int, k1: int, draft: bool = False) -> int:
    """The most pairs that a memory holds with the accuracy; 0 if not even those of one context."""

    def fails(pairs: int, draft: bool) -> bool:
        if pairs > LARGEST:
            raise BadValue(
                f"{offer.kind.scheme} with d={d} has an accuracy of {offer.wish.accuracy} at any number of pairs. "
                "Require a higher accuracy, or a larger vocabulary."
            )
        return not offer.holding(pairs).suffices(d, k1, draft)

    least = min(offer.wish.contexts)
    most = first(lambda pairs: fails(pairs, True), d**offer.kind.order // 16, least)
    if not draft:
        most = first(lambda pairs: fails(pairs, False), most, least)
    return most - 1 if most > least else 0


# The cheapest


def cheapest_size(offer: Offer, numbers: int, known: Size) -> Size:
    """Of the memories that suffice within so many numbers, as a known one does, that whose questions are cheapest.

    Narrower contexts want a larger side and make matching cheaper: of each width the largest side is tried. Joint
    decoding gains most by the room, in which it takes fewer rounds.
    """
    sizes = [Size(_largest_side(offer, known.k1, numbers), known.k1) if offer.wish.joint else known]
    for k1 in reversed([k1 for k1 in WIDTHS if k1 < known.k1 and not offer.wish.joint]):
        size = Size(_largest_side(offer, k1, numbers), k1)
        if not offer.surely_suffices(*size):
            break
        sizes.append(size)
    return min(sizes, key=lambda size: offer.operations(*size))


def trimmed(offer: Offer, size: Size) -> Size:
    """The smallest side of this width that suffices; joint decoding keeps its room."""
    if offer.wish.joint:
        return size
    return Size(_side(offer, size.k1, size.d, offer.numbers(*size), draft=False), size.k1)
