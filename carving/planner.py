"""Which memory to take: the smallest that reaches an accuracy, and the questions the other way round."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from carving import capacity
from carving.checks import check_choice, check_integer

Shared = int | Mapping[int, int]  # fillers in every context, or for each number of fillers how many contexts hold it

WIDEST = 2.0  # k1 in units of sqrt(d): more saves little memory and takes much time
SMALLEST = 3  # the smallest side
LARGEST = 2**50  # cells of a memory that nobody will make


@dataclass(frozen=True)
class Plan:
    """A memory: what makes it, what it takes, and the share of contexts that it is predicted to answer wholly right."""

    scheme: str
    d: int
    p: int | None
    k1: int | None
    pairs: int
    accuracy: float
    cells: int  # numbers of the memory
    codebook: int  # numbers of all fillers, if they are kept; labels give them again
    numbers: int  # what was made small: cells and, if it counts, the codebook
    bytes: int
    parameters: dict[str, Any]  # make(plan.scheme, **plan.parameters) makes the scheme
    others: tuple["Plan", ...] = field(default=(), repr=False)  # the best of each other kind, the smallest first


@dataclass(frozen=True)
class Kind:
    """A kind of memory among which to choose: a row of the table."""

    scheme: str
    p: int | None
    order: int  # a memory has d^order cells
    components: int  # a filler has d numbers so many times
    predicted: Callable[[int, int, int, int, int, bool], float]  # d, k1, pairs, vocabulary, shared, draft -> accuracy
    options: Mapping[str, Any] = field(default_factory=dict)

    def widths(self, d: int, widest: float) -> tuple[int, ...]:
        """The k1 to try, from about sqrt(d) on; only OSC has any choice."""
        if self.p is None:
            return (0,)
        end = max(2, min(d // 2, round(widest * math.sqrt(d))))
        steps = (round(math.sqrt(d) * 2 ** (i / 2)) for i in range(2 * d.bit_length()))
        return tuple(sorted({min(max(2, k1), end) for k1 in steps}))


def _osc(p: int) -> Kind:
    osc = capacity.osc_accuracy
    return Kind("OSC", p, p, p, lambda d, k1, n, v, s, draft: osc(d, p, k1, n, v, s, draft=draft), {"p": p})


# fmt: off
KINDS: tuple[Kind, ...] = (
    _osc(2), _osc(3), _osc(4),
    Kind("HLB", None, 1, 1, lambda d, _, n, v, s, draft: capacity.vsa_accuracy(d, n, v, s)),
    Kind("TPR", None, 2, 1, lambda d, _, n, v, s, draft: capacity.tpr_accuracy(d, n, v, s), {"whole_path": True}),
)
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
) -> Plan:
    """The memory of the fewest numbers that is predicted to answer this share of its contexts wholly right.

    A context is answered wholly right when each filler stored in it outranks every other candidate of the vocabulary.
    `shared` is the number of fillers in every context, or a mapping {fillers: contexts} where it varies. Fillers come
    from their labels, so the codebook need not be kept: with `codebook=False` the memory's own cells count alone.
    `scheme` and `p` restrict the choice. `widest` bounds k1, in units of sqrt(d); by default 2, and d/2 if contexts are
    shared.
    """
    task = _Task(pairs, vocabulary, accuracy, shared, codebook, dtype, widest)
    if isinstance(shared, Mapping) and (told := sum(size * count for size, count in shared.items())) != pairs:
        raise ValueError(f"shared must speak of all {pairs} pairs, got contexts that hold {told}; correct one of them")
    return _best([task.smallest(kind) for kind in _kinds(scheme, p)], lambda one: one.numbers)


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
) -> Plan:
    """The memory of at most so many numbers that holds the most pairs with this accuracy (see `plan`)."""
    check_integer("numbers", numbers, 1, LARGEST, "they are what the memory may take, with its codebook if that counts")
    task = _Task(1, vocabulary, accuracy, shared, codebook, dtype, widest)
    found = [fullest for kind in _kinds(scheme, p) if (fullest := task.fullest(kind, numbers)) is not None]
    if not found:
        raise ValueError(
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
) -> int:
    """How many pairs this memory holds with this accuracy: 0 if not even those of one context."""
    kind = _kind(scheme, p)
    task = _Task(1, vocabulary, accuracy, shared, False, torch.float32, None)
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
) -> float:
    """The share of contexts that this memory is predicted to answer wholly right."""
    kind = _kind(scheme, p)
    task = _Task(pairs, vocabulary, 0.5, shared, False, torch.float32, None)
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

    def __post_init__(self) -> None:
        check_integer("pairs", self.pairs, 1, way_out="it is the number of (context, filler) pairs to store")
        check_integer("vocabulary", self.vocabulary, 2, way_out="it is the number of candidates for an answer")
        if not 0 < self.accuracy < 1:
            raise ValueError(f"accuracy must lie between 0 and 1, got {self.accuracy}; 0.99 is usual")
        if self.widest is not None and not self.widest > 0:
            raise ValueError(f"widest must be above 0, got {self.widest}; k1 = widest * sqrt(d), 2 is usual")
        if not isinstance(self.shared, Mapping):
            check_integer("shared", self.shared, 1, way_out="it is the number of fillers in every context")
        elif not self.shared:
            raise ValueError("shared must not be empty: give {fillers in a context: number of such contexts}")
        for size, count in self.contexts.items():
            check_integer("fillers in a context", size, 1, self.vocabulary, "a context holds a filler once")
            check_integer(f"the number of contexts with {size} fillers", count, 1)
        if not isinstance(self.shared, Mapping) and self.shared > self.pairs > 1:
            raise ValueError(f"{self.shared} fillers in every context are more than the {self.pairs} pairs")

    @property
    def contexts(self) -> Mapping[int, int]:
        return self.shared if isinstance(self.shared, Mapping) else {self.shared: 1}

    def predicted(self, kind: Kind, d: int, k1: int, draft: bool = False) -> float:
        """The accuracy in the mean of contexts; those of many fillers are interpolated between a few sizes."""
        sizes = sorted(self.contexts)
        known = _ladder(sizes)
        shares = [kind.predicted(d, k1, max(self.pairs, size), self.vocabulary, size, draft) for size in known]
        total = sum(count * _between(size, known, shares) for size, count in self.contexts.items())
        return total / sum(self.contexts.values())

    def reaches(self, kind: Kind, d: int, draft: bool) -> bool:
        """Whether the accuracy is reached with some k1: the draft says with which, if with any."""
        drafts = {k1: self.predicted(kind, d, k1, draft=True) for k1 in kind.widths(d, self._widest(d))}
        if draft:
            return max(drafts.values()) >= self.accuracy
        likely = sorted(drafts, key=lambda k1: -drafts[k1])[:2]
        return any(self.predicted(kind, d, k1) >= self.accuracy for k1 in likely)

    def _widest(self, d: int) -> float:
        return self.widest or (WIDEST if self.shared == 1 else d)

    def smallest(self, kind: Kind) -> Plan:
        """The smallest memory of a kind: a draft of it first, from which the search goes up or down."""

        def reaches(d: int, draft: bool = False) -> bool:
            if d**kind.order > LARGEST:
                raise ValueError(f"no {kind.scheme} of a possible size reaches accuracy {self.accuracy}; ask for less")
            return self.reaches(kind, d, draft)

        drafted = _first(lambda d: reaches(d, draft=True), self._lowest(kind), SMALLEST)
        d = _first(reaches, drafted, SMALLEST)
        # Of all k1 that do, the narrowest takes the least time.
        accurate = ((k1, self.predicted(kind, d, k1)) for k1 in kind.widths(d, self._widest(d)))
        k1, accuracy = next(found for found in accurate if found[1] >= self.accuracy)
        return self._plan(kind, d, k1, accuracy)

    def _lowest(self, kind: Kind) -> int:
        """About the smallest side at which interference alone, without overlaps, leaves the accuracy possible."""
        size = min(self.contexts)

        def without_overlaps(d: int) -> float:
            noise = max(1, self.pairs - size) / d**kind.order
            return capacity.accuracy(noise, noise, self.vocabulary - size + 1)

        return max(SMALLEST, capacity.smallest(without_overlaps, self.accuracy) * 9 // 10)

    def fullest(self, kind: Kind, numbers: int) -> Plan | None:
        """The memory of a kind that holds the most pairs in so many numbers."""
        high = SMALLEST
        while self._numbers(kind, high) <= numbers:
            high *= 2
        d = bisect_left(range(high), True, key=lambda side: self._numbers(kind, side) > numbers) - 1
        if d < SMALLEST:
            return None
        pairs, k1 = max((self.most(kind, d, k1), -k1) for k1 in kind.widths(d, self._widest(d)))
        if not pairs:
            return None
        task = replace(self, pairs=pairs)
        return task._plan(kind, d, -k1, task.predicted(kind, d, -k1))

    def most(self, kind: Kind, d: int, k1: int) -> int:
        """The most pairs that a memory holds with the accuracy."""

        def fails(pairs: int, draft: bool = False) -> bool:
            return replace(self, pairs=pairs).predicted(kind, d, k1, draft) < self.accuracy

        least = min(self.contexts)
        drafted = _first(lambda pairs: fails(pairs, draft=True), d**kind.order // 16, least)
        most = _first(fails, drafted, least) - 1
        return most if most >= least else 0

    def _numbers(self, kind: Kind, d: int) -> int:
        return d**kind.order + (self.vocabulary * kind.components * d if self.codebook else 0)

    def _plan(self, kind: Kind, d: int, k1: int, accuracy: float) -> Plan:
        numbers = self._numbers(kind, d)
        carved = {} if kind.p is None else {"k1": k1}
        return Plan(
            scheme=kind.scheme,
            d=d,
            p=kind.p,
            k1=carved.get("k1"),
            pairs=self.pairs,
            accuracy=accuracy,
            cells=d**kind.order,
            codebook=self.vocabulary * kind.components * d,
            numbers=numbers,
            bytes=numbers * self.dtype.itemsize,
            parameters={"d": d, **kind.options, **carved},
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


def _kinds(scheme: str | None, p: int | None) -> list[Kind]:
    if scheme is not None:
        check_choice("scheme", scheme, tuple(dict.fromkeys(kind.scheme for kind in KINDS)))
    if p is not None:
        check_choice("p", p, tuple(kind.p for kind in KINDS if kind.p is not None))
    # p concerns OSC alone: with it, the others stay for comparison unless a scheme is asked for.
    found = [kind for kind in KINDS if scheme in (None, kind.scheme) and (p is None or kind.p in (None, p))]
    if p is not None and scheme is not None and all(kind.p is None for kind in found):
        raise ValueError(f"{scheme} has no p, got p={p}; leave it out")
    return found


def _kind(scheme: str, p: int | None) -> Kind:
    return _kinds(scheme, 2 if p is None and scheme == "OSC" else p)[0]


def _width(kind: Kind, d: int, k1: int | None) -> int:
    if kind.p is None:
        if k1 is not None:
            raise ValueError(f"{kind.scheme} has no k1, got k1={k1}; leave it out")
        return 0
    usual = round(math.sqrt(d))
    return check_integer("k1", usual if k1 is None else k1, 1, d - 1, f"round(sqrt(d)) = {usual} is a good start")
