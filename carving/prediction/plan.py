"""Which memory to take: the smallest that reaches an accuracy, and the questions the other way round."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from carving.checks import check_choice, check_integer
from carving.errors import BadValue
from carving.prediction import alone as capacity
from carving.prediction import together as evolution

Shared = int | Mapping[int, int]  # fillers in every context, or for each number of fillers how many contexts hold it

WIDEST = 2.0  # k1 in units of sqrt(d): more saves little memory and takes much time
SMALLEST = 3  # the smallest side
LARGEST = 2**50  # cells of a memory that nobody will make
FAR = 50  # times the side that would do without overlaps: k1 that need more are not worth a look
LONGEST = 60  # rounds of joint decoding, with the margin: memories that need more are too near to the threshold
REMAINS = 0.5  # of the excess of interference, once a memory is evened for joint decoding


@dataclass(frozen=True)
class Plan:
    """A memory: what makes it, what it takes, and the share of contexts that it is predicted to answer wholly right."""

    scheme: str
    d: int
    p: int | None
    k1: int | None
    compact: bool
    pairs: int
    accuracy: float
    cells: int  # numbers of the memory
    codebook: int  # numbers of all fillers, if they are kept; labels give them again
    numbers: int  # what was made small: cells and, if it counts, the codebook
    bytes: int
    parameters: dict[str, Any]  # make(plan.scheme, **plan.parameters) makes the scheme
    joint: bool = False  # whether all contexts are to be answered together
    rounds: int = 1  # how often the memory is then read
    others: tuple["Plan", ...] = field(default=(), repr=False)  # the best of each other kind, the smallest first


@dataclass(frozen=True)
class Kind:
    """A kind of memory among which to choose: a row of the table."""

    scheme: str
    p: int | None
    compact: bool
    order: int  # a memory has d^order cells
    components: int  # a filler has so many vectors of d numbers, of k1 if it is compact
    predicted: Callable[[int, int, int, int, int, bool], float]  # d, k1, pairs, vocabulary, shared, draft -> accuracy
    options: Mapping[str, Any] = field(default_factory=dict)

    def widest(self, d: int, widest: float) -> int:
        """The largest k1 to try."""
        return max(2, min(d // 2, round(widest * math.sqrt(d))))

    def widths(self, d: int, widest: float) -> tuple[int, ...]:
        """The k1 to try: from about sqrt(d) on, or all where they count; only OSC has any choice."""
        if self.p is None:
            return (0,)
        end = self.widest(d, widest)
        if self.compact:
            return (*(k1 for k1 in NARROW if k1 < end), end)
        steps = (round(math.sqrt(d) * 2 ** (i / 2)) for i in range(2 * d.bit_length()))
        return tuple(sorted({min(max(2, k1), end) for k1 in steps}))

    def filler(self, d: int, k1: int) -> int:
        """The numbers of a filler."""
        return self.components * (k1 if self.compact else d)

    def evolved(self, d: int, k1: int, pairs: int, vocabulary: int, spread: float) -> evolution.Evolved:
        """Where joint decoding comes to rest."""
        load = pairs / d**self.order
        if self.p is None:
            return evolution.evolved(load, 0, 0, vocabulary)
        if not self.compact:
            load *= 1 + REMAINS * capacity.excess(d, self.p, k1)
        return evolution.evolved(load, self.p, k1, vocabulary, spread)


def _osc(p: int, compact: bool) -> Kind:
    def predicted(d: int, k1: int, pairs: int, vocabulary: int, shared: int, draft: bool) -> float:
        return capacity.osc_accuracy(d, p, k1, pairs, vocabulary, shared, compact=compact, draft=draft)

    return Kind("OSC", p, compact, p, p, predicted, {"p": p, **({"compact": True} if compact else {})})


# fmt: off
KINDS: tuple[Kind, ...] = (
    _osc(2, compact=False), _osc(3, compact=False), _osc(4, compact=False),
    _osc(2, compact=True), _osc(3, compact=True), _osc(4, compact=True),
    Kind("HLB", None, False, 1, 1, lambda d, _, n, v, s, draft: capacity.vsa_accuracy(d, n, v, s)),
    Kind("TPR", None, False, 2, 1, lambda d, _, n, v, s, draft: capacity.tpr_accuracy(d, n, v, s),
         {"whole_path": True}),
)
NARROW = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 46, 52, 60, 70, 80, 90, 100)
JOINT = ("OSC", "HLB")  # the schemes whose joint decoding is predicted
# fmt: on


def plan(
    pairs: int,
    vocabulary: int,
    accuracy: float = 0.99,
    shared: Shared = 1,
    *,
    scheme: str | None = None,
    p: int | None = None,
    codebook: bool = True,
    dtype: torch.dtype = torch.float32,
    widest: float | None = None,
    compact: bool | None = None,
    joint: bool = False,
    spread: float = 0.0,
) -> Plan:
    """The memory of the fewest numbers that is predicted to answer this share of its contexts wholly right.

    A context is answered wholly right when each filler stored in it outranks every other candidate of the vocabulary.
    `shared` is the number of fillers in every context, or a mapping {fillers: contexts} where it varies. Fillers come
    from their labels, so the codebook need not be kept: with `codebook=False` the memory's own cells count alone.
    `scheme`, `p` and `compact` restrict the choice: `compact=False` is the paper's OSC alone, `True` that of compact
    fillers. `widest` bounds k1, in units of sqrt(d); by default 2, and d/2 if contexts are shared.

    `joint` plans for all contexts being answered together, one filler in each: such a memory is several times smaller,
    and still smaller with a `spread` of loudness. Near its threshold joint decoding fails all at once, so the plan has
    room for some pairs more (`evolution.margin`).
    """
    task = _Task(pairs, vocabulary, accuracy, shared, codebook, dtype, widest, joint, spread)
    if isinstance(shared, Mapping) and (told := sum(size * count for size, count in shared.items())) != pairs:
        raise BadValue(f"shared must speak of all {pairs} pairs, got contexts that hold {told}; correct one of them")
    return _best([task.smallest(kind) for kind in _kinds(scheme, p, compact, joint)], lambda one: one.numbers)


def plan_within(
    numbers: int,
    vocabulary: int,
    accuracy: float = 0.99,
    shared: Shared = 1,
    *,
    scheme: str | None = None,
    p: int | None = None,
    codebook: bool = True,
    dtype: torch.dtype = torch.float32,
    widest: float | None = None,
    compact: bool | None = None,
    joint: bool = False,
    spread: float = 0.0,
) -> Plan:
    """The memory of at most so many numbers that holds the most pairs with this accuracy (see `plan`)."""
    check_integer("numbers", numbers, 1, LARGEST, "they are what the memory may take, with its codebook if that counts")
    task = _Task(1, vocabulary, accuracy, shared, codebook, dtype, widest, joint, spread)
    kinds = _kinds(scheme, p, compact, joint)
    found = [fullest for kind in kinds if (fullest := task.fullest(kind, numbers)) is not None]
    if not found:
        raise BadValue(
            f"no memory of {numbers} numbers holds a single context of a vocabulary of {vocabulary} with accuracy "
            f"{accuracy}; allow more numbers, or do not count the codebook (codebook=False)"
        )
    return _best(found, lambda one: -one.pairs)


def pairs_within(
    vocabulary: int,
    accuracy: float = 0.99,
    shared: Shared = 1,
    *,
    d: int,
    scheme: str = "OSC",
    p: int | None = None,
    k1: int | None = None,
    compact: bool = False,
    joint: bool = False,
    spread: float = 0.0,
) -> int:
    """How many pairs this memory holds with this accuracy: 0 if not even those of one context.

    With `joint`, all contexts are answered together, and the margin of `plan` is kept.
    """
    kind = _kind(scheme, p, compact, joint, spread)
    task = _Task(1, vocabulary, accuracy, shared, False, torch.float32, None, joint, spread)
    return task.most(kind, check_integer("d", d, SMALLEST), _width(kind, d, k1))


def predict(
    pairs: int,
    vocabulary: int,
    shared: Shared = 1,
    *,
    d: int,
    scheme: str = "OSC",
    p: int | None = None,
    k1: int | None = None,
    compact: bool = False,
    joint: bool = False,
    spread: float = 0.0,
) -> float:
    """The share of contexts that this memory is predicted to answer wholly right, one at a time or all together."""
    kind = _kind(scheme, p, compact, joint, spread)
    task = _Task(pairs, vocabulary, 0.5, shared, False, torch.float32, None, joint, spread)
    return task.predicted(kind, check_integer("d", d, SMALLEST), _width(kind, d, k1))


@dataclass(frozen=True)
class _Task:
    """What is asked of a memory, and the ways of answering."""

    pairs: int
    vocabulary: int
    accuracy: float
    shared: Shared
    codebook: bool
    dtype: torch.dtype
    widest: float | None
    joint: bool
    spread: float

    def __post_init__(self) -> None:
        check_integer("pairs", self.pairs, 1, way_out="it is the number of (context, filler) pairs to store")
        check_integer("vocabulary", self.vocabulary, 2, way_out="it is the number of candidates for an answer")
        if not 0 < self.accuracy < 1:
            raise BadValue(f"accuracy must lie between 0 and 1, got {self.accuracy}; 0.99 is usual")
        if self.widest is not None and not self.widest > 0:
            raise BadValue(f"widest must be above 0, got {self.widest}; k1 = widest * sqrt(d), 2 is usual")
        if not isinstance(self.shared, Mapping):
            check_integer("shared", self.shared, 1, way_out="it is the number of fillers in every context")
        elif not self.shared:
            raise BadValue("shared must not be empty: give {fillers in a context: number of such contexts}")
        for size, count in self.contexts.items():
            check_integer("fillers in a context", size, 1, self.vocabulary, "a context holds a filler once")
            check_integer(f"the number of contexts with {size} fillers", count, 1)
        if not isinstance(self.shared, Mapping) and self.shared > self.pairs > 1:
            raise BadValue(f"{self.shared} fillers in every context are more than the {self.pairs} pairs")
        if not 0 <= self.spread <= 4:
            raise BadValue(f"spread must be a number from 0 to 4, got {self.spread}; 0 makes all contexts alike")
        if self.spread and not self.joint:
            raise BadValue(
                f"a spread of loudness, {self.spread}, helps joint decoding alone; leave it out, or take joint=True"
            )
        if self.joint and set(self.contexts) != {1}:
            raise BadValue(
                f"joint decoding is planned for one filler in each context, got shared={self.shared}; leave it out"
            )

    @property
    def contexts(self) -> Mapping[int, int]:
        return self.shared if isinstance(self.shared, Mapping) else {self.shared: 1}

    def predicted(self, kind: Kind, d: int, k1: int, draft: bool = False) -> float:
        """The accuracy in the mean of contexts; those of many fillers are interpolated between a few sizes."""
        if self.joint:
            return kind.evolved(d, k1, self.pairs, self.vocabulary, self.spread).accuracy
        sizes = sorted(self.contexts)
        known = _ladder(sizes)
        shares = [kind.predicted(d, k1, max(self.pairs, size), self.vocabulary, size, draft) for size in known]
        total = sum(count * _between(size, known, shares) for size, count in self.contexts.items())
        return total / sum(self.contexts.values())

    @property
    def crowded(self) -> "_Task":
        """What a plan for joint decoding has to fulfil: some pairs more than wished."""
        return replace(self, pairs=math.ceil(self.pairs * (1 + evolution.margin(self.pairs))))

    def sure(self, kind: Kind, d: int, k1: int, draft: bool = False) -> bool:
        """Whether the accuracy is reached with this k1."""
        if self.joint:
            rest = kind.evolved(d, k1, self.crowded.pairs, self.vocabulary, self.spread)
            return rest.accuracy >= self.accuracy and rest.rounds <= LONGEST
        return self.predicted(kind, d, k1, draft) >= self.accuracy

    def reaches(self, kind: Kind, d: int, draft: bool) -> bool:
        """Whether the accuracy is reached with some k1: the draft says with which, if with any."""
        if self.joint:
            return any(self.sure(kind, d, k1) for k1 in kind.widths(d, self._widest(d)))
        drafts = {k1: self.predicted(kind, d, k1, draft=True) for k1 in kind.widths(d, self._widest(d))}
        if draft:
            return max(drafts.values()) >= self.accuracy
        likely = sorted(drafts, key=lambda k1: -drafts[k1])[:2]
        return any(self.sure(kind, d, k1) for k1 in likely)

    def _widest(self, d: int) -> float:
        return self.widest or (WIDEST if self.shared == 1 else d)

    def smallest(self, kind: Kind) -> Plan:
        """The smallest memory of a kind: a draft of it first, from which the search goes up or down."""
        if kind.compact:
            return self._plan(kind, *self._smallest_compact(kind))
        drafted = self._first_side(kind, lambda d: self.reaches(kind, d, draft=True), self._lowest(kind))
        d = self._first_side(kind, lambda d: self.reaches(kind, d, draft=False), drafted)
        # Of all k1 that do, the narrowest takes the least time.
        return self._plan(kind, d, next(k1 for k1 in kind.widths(d, self._widest(d)) if self.sure(kind, d, k1)))

    def _smallest_compact(self, kind: Kind) -> tuple[int, int]:
        """The side and the k1 of the fewest numbers: wider contexts make a smaller memory and a larger codebook."""
        lowest, drafts, costs = self._lowest(kind), dict[int, int](), dict[int, int]()

        def side(k1: int, guess: int, limit: int, draft: bool) -> int:
            def reaches(d: int) -> bool:
                if self._numbers(kind, d, k1) > limit:
                    return True  # too many, whether it does or not
                return k1 <= kind.widest(d, self._widest(d)) and self.sure(kind, d, k1, draft)

            return self._first_side(kind, reaches, guess)

        start = bisect_left(NARROW, math.sqrt(lowest), hi=len(NARROW) - 1)
        for way in (NARROW[start:], NARROW[:start][::-1]):  # from about sqrt(d) up, then down, while it helps
            worse = 0
            for k1 in way:
                best = min(costs.values(), default=LARGEST)
                limit = min(2 * best, self._numbers(kind, FAR * lowest, k1))
                d = side(k1, lowest, limit, draft=True)
                if d > FAR * lowest:
                    continue  # too narrow for so many fillers in a context
                drafts[k1], costs[k1] = d, self._numbers(kind, d, k1)
                worse = 0 if costs[k1] < best else worse + 1
                if worse == 2:
                    break
        if not drafts:
            raise BadValue(f"no {kind.scheme} of a possible size reaches accuracy {self.accuracy}; ask for less")
        # Exact sides are dear: only from the best draft on, and only while a neighbour is better.
        start = NARROW.index(min(drafts, key=lambda k1: (costs[k1], k1)))
        d = side(NARROW[start], drafts[NARROW[start]], LARGEST, draft=False)
        found = (self._numbers(kind, d, NARROW[start]), d, NARROW[start])
        for way in () if self.joint else (NARROW[:start][::-1], NARROW[start + 1 :]):
            for k1 in way:
                d = side(k1, drafts.get(k1, found[1]), found[0], draft=False)
                if (numbers := self._numbers(kind, d, k1)) >= found[0]:
                    break
                found = (numbers, d, k1)
        return found[1:]

    def _first_side(self, kind: Kind, reaches: Callable[[int], bool], guess: int) -> int:
        def possible(d: int) -> bool:
            if d**kind.order > LARGEST:
                raise BadValue(f"no {kind.scheme} of a possible size reaches accuracy {self.accuracy}; ask for less")
            return reaches(d)

        return _first(possible, guess, SMALLEST)

    def _lowest(self, kind: Kind) -> int:
        """About the smallest side at which interference alone, without overlaps, leaves the accuracy possible."""
        size = min(self.contexts)

        def without_overlaps(d: int) -> float:
            noise = max(1, self.pairs - size) / d**kind.order
            if self.joint:
                return evolution.evolved(noise, 0, 0, self.vocabulary, self.spread if kind.p else 0.0).accuracy
            return capacity.accuracy(noise, noise, self.vocabulary - size + 1)

        return max(SMALLEST, capacity.smallest(without_overlaps, self.accuracy) * 9 // 10)

    def fullest(self, kind: Kind, numbers: int) -> Plan | None:
        """The memory of a kind that holds the most pairs in so many numbers."""

        def side(k1: int) -> int:
            high = SMALLEST
            while self._numbers(kind, high, k1) <= numbers:
                high *= 2
            return bisect_left(range(high), True, key=lambda d: self._numbers(kind, d, k1) > numbers) - 1

        if kind.compact:
            ways = [(d, k1) for k1 in NARROW if (d := side(k1)) > 0 and k1 <= kind.widest(d, self._widest(d))]
        else:
            ways = [(d, k1) for d in [side(0)] if d >= SMALLEST for k1 in kind.widths(d, self._widest(d))]
        drafts = {way: self.most(kind, *way, draft=True) for way in ways if way[0] >= SMALLEST}
        pairs, best = 0, (0, 0)
        for way in sorted(drafts, key=lambda way: (-drafts[way], way[1])):  # drafts are hopeful
            if drafts[way] > pairs and (most := self.most(kind, *way)) > pairs:
                pairs, best = most, way
        return replace(self, pairs=pairs)._plan(kind, *best) if pairs else None

    def most(self, kind: Kind, d: int, k1: int, draft: bool = False) -> int:
        """The most pairs that a memory holds with the accuracy."""

        def fails(pairs: int, draft: bool) -> bool:
            return not replace(self, pairs=pairs).sure(kind, d, k1, draft)

        least = min(self.contexts)
        most = _first(lambda pairs: fails(pairs, True), d**kind.order // 16, least)
        if not draft:
            most = _first(lambda pairs: fails(pairs, False), most, least)
        return most - 1 if most > least else 0

    def _numbers(self, kind: Kind, d: int, k1: int) -> int:
        return d**kind.order + (self.vocabulary * kind.filler(d, k1) if self.codebook else 0)

    def _plan(self, kind: Kind, d: int, k1: int) -> Plan:
        numbers = self._numbers(kind, d, k1)
        carved = {} if kind.p is None else {"k1": k1}
        loud = {"spread": float(self.spread)} if self.spread and kind.p else {}
        together = kind.evolved(d, k1, self.pairs, self.vocabulary, self.spread) if self.joint else None
        return Plan(
            scheme=kind.scheme,
            d=d,
            p=kind.p,
            k1=carved.get("k1"),
            compact=kind.compact,
            pairs=self.pairs,
            accuracy=together.accuracy if together else self.predicted(kind, d, k1),
            cells=d**kind.order,
            codebook=self.vocabulary * kind.filler(d, k1),
            numbers=numbers,
            bytes=numbers * self.dtype.itemsize,
            parameters={"d": d, **kind.options, **carved, **loud},
            joint=self.joint,
            rounds=together.rounds if together else 1,
        )


def _first(holds: Callable[[int], bool], guess: int, least: int) -> int:
    """The first number from `least` on for which it holds, as it does for all after that; sought from a guess on."""
    low = high = max(guess, least)
    step = max(1, low // 32)
    if holds(high):
        while low > least and holds(low := max(least, high - step)):
            high, step = low, 2 * step
        low += low < high
    else:
        while not holds(high):
            low, high, step = high + 1, high + step, 2 * step
    return bisect_left(range(high), True, lo=low, key=holds)


def _ladder(sizes: list[int]) -> list[int]:
    """The sizes themselves, or if they are many, those up to 4 and some of the larger ones."""
    if len(sizes) <= 8:
        return sizes
    known = [sizes[0]]
    for size in sizes[1:]:
        if size <= 4 or size >= 2 * known[-1] or size == sizes[-1]:
            known.append(size)
    return known


def _between(size: int, known: list[int], shares: list[float]) -> float:
    place = bisect_left(known, size)
    if known[place] == size:
        return shares[place]
    low, high = known[place - 1], known[place]
    part = math.log(size / low) / math.log(high / low)
    return (1 - part) * shares[place - 1] + part * shares[place]


def _best(plans: list[Plan], cost: Callable[[Plan], int]) -> Plan:
    first, *rest = sorted(plans, key=cost)
    return replace(first, others=tuple(rest))


def _kinds(scheme: str | None, p: int | None, compact: bool | None, joint: bool) -> list[Kind]:
    if scheme is not None:
        check_choice("scheme", scheme, JOINT if joint else tuple(dict.fromkeys(kind.scheme for kind in KINDS)))
    if p is not None:
        check_choice("p", p, tuple(dict.fromkeys(kind.p for kind in KINDS if kind.p is not None)))
    # p and compact concern OSC alone: with them, the others stay for comparison unless a scheme is asked for.
    found = [kind for kind in KINDS if scheme in (None, kind.scheme) and (p is None or kind.p in (None, p))]
    if scheme is not None and all(kind.p is None for kind in found):
        for name, value in (("p", p), ("compact", compact or None)):
            if value is not None:
                raise BadValue(f"{scheme} has no {name}, got {name}={value}; leave it out")
    possible = [kind for kind in found if not joint or kind.scheme in JOINT]
    return [kind for kind in possible if kind.p is None or compact in (None, kind.compact)]


def _kind(scheme: str, p: int | None, compact: bool, joint: bool, spread: float) -> Kind:
    kind = _kinds(scheme, 2 if p is None and scheme == "OSC" else p, compact, joint)[0]
    if spread and kind.p is None:
        raise BadValue(f"{scheme} has no spread, got spread={spread}; leave it out")
    return kind


def _width(kind: Kind, d: int, k1: int | None) -> int:
    if kind.p is None:
        if k1 is not None:
            raise BadValue(f"{kind.scheme} has no k1, got k1={k1}; leave it out")
        return 0
    usual = round(math.sqrt(d))
    return check_integer("k1", usual if k1 is None else k1, 1, d - 1, f"round(sqrt(d)) = {usual} is a good start")
