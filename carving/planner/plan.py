"""Plans: the smallest memory that reaches an accuracy, the most pairs that fit, and the accuracy of a given memory."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from carving.errors import BadValue
from carving.planner.design import (
    MAX_NUMBERS,
    Design,
    MemorySize,
    TooLarge,
    cheapest_size,
    drafted_numbers,
    fullest_size,
    most_pairs,
    smallest_size,
    trimmed_size,
)
from carving.planner.families import families_for
from carving.planner.requirements import Requirements, Shared, Specification, check_dictionary, specify
from carving.validate import check_integer

DRAFT_RATIO = 2.0  # families whose drafts exceed the smallest draft by more are not the smallest
PLANNED_BITS = (1, 2, 3, 4)  # per cell: eight never take the fewest bytes


@dataclass(frozen=True)
class Plan:
    """A planned memory: the parameters of its scheme, its size and its predicted accuracy.

    `make(plan.scheme, **plan.parameters)` creates the scheme.

    Attributes:
        scheme: The name of the scheme.
        d, p, k1, compact: Its parameters; p and k1 are None where they do not apply.
        pairs: The number of pairs.
        accuracy: The predicted accuracy: the share of paths whose stored values outrank all others.
        cells: The numbers of the memory tensor.
        codebook: The numbers of all fillers; they need not be stored, since labels determine them.
        numbers: The numbers that were minimized: the cells and, if it counts, the codebook.
        bytes: The size in bytes.
        operations: Estimated cost of a query: the multiply-adds of a matrix product that takes as long.
        parameters: The arguments of `make`.
        joint: Whether the accuracy is that of joint decoding.
        rounds: The number of times that a query reads the memory.
        bits: Bits per cell if quantized (`bytes` then counts the cells only), else None.
        extreme: The smallest plan (or the one of the most pairs), where another was chosen for its cheaper queries.

    >>> best = plan(pairs=1_000, vocabulary=500, scheme="TPR")
    >>> best.cells, best.codebook
    (40000, 100000)
    >>> from carving import make
    >>> make(best.scheme, **best.parameters).facts.memory_shape
    (200, 200)
    """

    scheme: str
    d: int
    p: int | None
    k1: int | None
    compact: bool
    pairs: int
    accuracy: float
    cells: int
    codebook: int
    numbers: int
    bytes: int
    operations: int
    parameters: dict[str, Any]
    joint: bool = False
    rounds: int = 1
    bits: int | None = None
    extreme: "Plan | None" = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """The kind of memory in words, such as "OSC of order 2, compact"."""
        return describe_kind(self.scheme, self.p, self.compact)

    def _repr_html_(self) -> str:
        from carving.explore.display import plan_html

        return plan_html(self)


def plan(
    pairs: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> Plan:
    """Return the smallest memory whose predicted accuracy reaches a target.

    The accuracy is the share of paths whose stored values all outrank every other value of the vocabulary.

    Args:
        pairs: The number of pairs to store.
        vocabulary: The number of different values.
        accuracy: The target accuracy, between 0 and 1.
        shared: The number of values under every path, or a mapping {values: paths} where it varies.
        **requirements: Further requirements, all optional:

            - `scheme`, `p`, `compact`: the kind of memory; None allows all.
            - `codebook`: whether the numbers of all fillers count (True), or only the cells of the memory.
            - `dtype`: the precision, which determines the bytes (float32).
            - `widest`: the upper bound of k1, as a multiple of sqrt(d). By default 2 if every path holds one value;
              otherwise k1 may be up to d / 2.
            - `slack`: the fraction by which the memory may exceed the minimum where that makes queries cheaper (0.1).
            - `basis`: "blocks", or "gaussian" as in the paper.
            - `dictionary`: the number of shared vectors of which compact fillers are built; 0 for none.
            - `joint`: whether to plan for joint decoding, with one value under each path. The memory is several times
              smaller. The plan includes some headroom, because joint decoding fails abruptly above its threshold.
            - `spread`: with `joint`, the spread of the amplitudes of contexts; unequal amplitudes need fewer cells.
            - `bits`: bits per cell of a quantized memory, 1 to 8, or "auto" for the fewest bytes. The codebook then
              does not count.

    Returns:
        The plan; where `slack` gave a larger memory, `extreme` is the smallest one.

    Raises:
        BadValue: If a requirement is invalid, or no memory reaches the target.
        BadType: If there is no requirement of this name.

    >>> best = plan(pairs=1_000, vocabulary=1_000, scheme="OSC", p=3, compact=True)
    >>> best.numbers, best.extreme.numbers
    (54875, 53937)
    >>> best.operations / best.extreme.operations < 0.9
    True
    >>> plan(pairs=1_000, vocabulary=500, accuracy=0.99, scheme="TPR").numbers
    140000
    >>> plan(pairs=1_000, vocabulary=500, accuracy=0.99, scheme="HLB", codebook=False).numbers
    30714
    >>> quantized = plan(pairs=1_000, vocabulary=500, scheme="HLB", bits="auto")
    >>> quantized.bits, quantized.bytes
    (1, 6033)
    """
    if requirements.get("bits") == "auto":
        each: list[Requirements] = [{**requirements, "bits": bits} for bits in PLANNED_BITS]
        return min((plan(pairs, vocabulary, accuracy, shared, **own) for own in each), key=lambda plan: plan.bytes)
    designs = _designs(pairs, vocabulary, accuracy, shared, requirements)
    drafts = [drafted_numbers(design) for design in designs]
    limit = DRAFT_RATIO * (1 + designs[0].spec.slack) * min(drafts)
    return _smallest([design for design, draft in zip(designs, drafts, strict=True) if draft <= limit])[0]


def plans(
    pairs: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> list[Plan]:
    """Return the best memory of each kind: first the choice of `plan`, then the others by size.

    The arguments are as in `plan`, which is faster.

    >>> [each.scheme for each in plans(pairs=100, vocabulary=50, p=2, compact=True)]
    ['OSC', 'TPR', 'HLB']
    """
    if requirements.get("bits") == "auto":
        requirements["bits"] = plan(pairs, vocabulary, accuracy, shared, **requirements).bits
    return _smallest(_designs(pairs, vocabulary, accuracy, shared, requirements))


def each_plan(
    pairs: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> Iterator[Plan]:
    """Yield the smallest memory of each kind as soon as it is found, in no particular order.

    The arguments are as in `plan`.

    >>> [each.numbers for each in each_plan(pairs=1_000, vocabulary=500, scheme="TPR")]
    [140000]
    """
    for _, found in _each_smallest(_designs(pairs, vocabulary, accuracy, shared, requirements)):
        yield found


def drafts(
    pairs: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> list[tuple[str, int]]:
    """Return estimates of the numbers that each kind of memory needs, as (kind, numbers), in milliseconds.

    The arguments are as in `plan`. Kinds that need a search (`joint`) are omitted.

    >>> drafts(pairs=1_000, vocabulary=500, scheme="HLB")
    [('HLB', 15387714)]
    """
    designs = _designs(pairs, vocabulary, accuracy, shared, requirements)
    kinds = [describe_kind(design.family.scheme, design.family.p, design.family.compact) for design in designs]
    each = zip(kinds, map(drafted_numbers, designs), strict=True)
    return sorted((draft for draft in each if draft[1]), key=lambda draft: draft[1])


def describe_kind(scheme: str, p: int | None, compact: bool) -> str:
    """Return a kind of memory in words."""
    return f"{scheme}{f' of order {p}' if p else ''}{', compact' if compact else ''}"


def _designs(pairs: int, vocabulary: int, accuracy: float, shared: Shared, requirements: Requirements) -> list[Design]:
    """Return a design for each family that is admitted and whose dictionary, if any, is large enough."""
    spec = specify(pairs, vocabulary, accuracy, shared, requirements)
    if isinstance(shared, Mapping) and (total := sum(size * count for size, count in shared.items())) != pairs:
        raise BadValue(f"shared must add up to pairs={pairs}, got paths with {total} values. Correct one of them.")
    designs = [Design(spec, family) for family in families_for(spec)]
    possible = [design for design in designs if design.collision_accuracy >= accuracy]
    if not possible:
        check_dictionary(vocabulary, spec.dictionary, max(design.family.p or 1 for design in designs), accuracy)
    return possible


def _each_smallest(designs: list[Design]) -> Iterator[tuple[Design, Plan]]:
    """Yield the smallest memory of each family that has one of a possible size."""
    for design in designs:
        with suppress(TooLarge):
            yield design, _plan(design, smallest_size(design))


def _smallest(designs: list[Design]) -> list[Plan]:
    """Return the best memory of each possible family: first the cheapest for its size, then by size.

    Raises:
        TooLarge: No family has a memory that is large enough.
    """
    smallest = list(_each_smallest(designs))
    if not smallest:
        raise TooLarge(designs[0])
    limit = math.floor(min(plan.numbers for _, plan in smallest) * (1 + designs[0].spec.slack))

    def cheaper(design: Design, size: MemorySize) -> Plan:
        return _plan(design, trimmed_size(design, cheapest_size(design, limit, size)))

    return _cheapest_first(smallest, lambda plan: plan.numbers, limit, cheaper)


def _cheapest_first(
    best: list[tuple[Design, Plan]],
    rank: Callable[[Plan], int],
    limit: int,
    cheaper: Callable[[Design, MemorySize], Plan],
) -> list[Plan]:
    """Return the best plan of each family by rank, but first the one of the cheapest queries within a limit.

    Args:
        best: The plan of the lowest rank of each family.
        rank: What was minimized.
        limit: The rank up to which cheaper queries are worth more than a lower rank.
        cheaper: Returns a plan of cheaper queries within the limit.
    """
    extreme, found = min((plan for _, plan in best), key=rank), list[Plan]()
    for design, plan in best:
        found.append(plan)
        if rank(extreme) < limit >= rank(plan):
            found[-1] = min(plan, cheaper(design, MemorySize(plan.d, plan.k1 or 0)), key=_relative_cost)
    found.sort(key=rank)
    chosen = min((each for each in found if rank(each) <= limit), key=_relative_cost)
    others = (each for each in found if each is not chosen)
    return [replace(chosen, extreme=None if chosen == extreme else extreme), *others]


def plan_within(
    numbers: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> Plan:
    """Return the memory of limited size that stores the most pairs at a target accuracy.

    Args:
        numbers: The maximum size, including the codebook if it counts.
        vocabulary, accuracy, shared: As in `plan`.
        **requirements: As in `plan`. `slack` allows fewer pairs where queries get cheaper: with 0.1 the maximum divided
            by 1.1.

    Raises:
        BadValue: If a requirement is invalid, or no memory of this size stores a single pair.

    >>> best = plan_within(numbers=100_000, vocabulary=500, scheme="TPR")
    >>> best.d, best.pairs
    (153, 630)
    """
    return plans_within(numbers, vocabulary, accuracy, shared, **requirements)[0]


def plans_within(
    numbers: int, vocabulary: int, accuracy: float = 0.99, shared: Shared = 1, **requirements: Unpack[Requirements]
) -> list[Plan]:
    """Return the memory of each kind that stores the most pairs: first the choice of `plan_within`, then by pairs.

    The arguments are as in `plan_within`.

    >>> [each.scheme for each in plans_within(numbers=10_000, vocabulary=50, p=2, compact=True)]
    ['OSC', 'TPR', 'HLB']
    """
    hint = "It is the size of the memory, including the codebook if that counts."
    check_integer("numbers", numbers, 1, MAX_NUMBERS, hint)
    spec = _specify_one_context(vocabulary, accuracy, shared, requirements)
    full = [(design, *fullest_size(design, numbers)) for design in (Design(spec, each) for each in families_for(spec))]
    fullest = [(design, _plan(design.revised(pairs=pairs), size)) for design, pairs, size in full if pairs]
    if not fullest:
        raise BadValue(
            f"No memory of {numbers} numbers stores a single pair at accuracy {accuracy} with a vocabulary of "
            f"{vocabulary}. Allow more numbers, or do not count the codebook (codebook=False)."
        )
    least = max(spec.pairs, math.ceil(max(plan.pairs for _, plan in fullest) / (1 + spec.slack)))

    def cheaper(design: Design, size: MemorySize) -> Plan:
        size = cheapest_size(design.revised(pairs=least), numbers, size)
        return _plan(design.revised(pairs=most_pairs(design, *size)), size)

    return _cheapest_first(fullest, lambda plan: -plan.pairs, -least, cheaper)


def pairs_within(
    vocabulary: int,
    accuracy: float = 0.99,
    shared: Shared = 1,
    *,
    d: int,
    k1: int | None = None,
    **requirements: Unpack[Requirements],
) -> int:
    """Return the number of pairs that a given memory stores at a target accuracy; 0 if not even one context fits.

    Args:
        vocabulary, accuracy, shared: As in `plan`.
        d: The size parameter of the scheme.
        k1: The dimensions that a context of OSC keeps; None for round(sqrt(d)).
        **requirements: The memory, as in `plan`: by default `scheme="OSC"` with p = 2 and ordinary fillers. With
            `joint=True` all contexts are decoded jointly, with the headroom of `plan`. Options of size (`codebook`,
            `dtype`, `widest`) have no effect.

    >>> pairs_within(vocabulary=500, d=4_096, scheme="HLB")
    134
    """
    spec = _specify_one_context(vocabulary, accuracy, shared, requirements)
    return most_pairs(*_given_memory(spec, d, k1))


def predict(
    pairs: int,
    vocabulary: int,
    shared: Shared = 1,
    *,
    d: int,
    k1: int | None = None,
    draft: bool = False,
    **requirements: Unpack[Requirements],
) -> float:
    """Return the predicted accuracy of a given memory: the share of contexts that are answered without any error.

    Args:
        pairs: The number of stored pairs.
        vocabulary, shared: As in `plan`.
        d, k1: As in `pairs_within`.
        draft: Return an estimate in milliseconds, which is some percentage points off where k1 is small.
        **requirements: The memory, as in `pairs_within`; with `joint=True` the accuracy is that of joint decoding.

    >>> round(predict(pairs=1_000, vocabulary=1_000, d=8_000, scheme="HLB"), 2)
    0.35
    >>> round(predict(pairs=1_000, vocabulary=1_000, d=8_000, scheme="HLB", joint=True), 2)
    1.0
    """
    design, d, k1 = _given_memory(specify(pairs, vocabulary, 0.99, shared, requirements), d, k1)
    return design.accuracy(d, k1, draft)


def _specify_one_context(vocabulary: int, accuracy: float, shared: Shared, requirements: Requirements) -> Specification:
    """Return a specification of the pairs of one context, where the number of pairs is to be found."""
    return specify(1 if isinstance(shared, Mapping) else shared, vocabulary, accuracy, shared, requirements)


def _given_memory(spec: Specification, d: int, k1: int | None) -> tuple[Design, int, int]:
    """Return the design and the checked size of a given memory, by default of OSC."""
    design = Design(spec, families_for(replace(spec, scheme=spec.scheme or "OSC"))[0])
    d = check_integer("d", d, 2)
    if design.family.p is None:
        if k1 is not None:
            raise BadValue(f"k1={k1} does not apply to {design.family.scheme}. Omit it.")
        return design, d, 0
    usual = round(math.sqrt(d))
    hint = f"round(sqrt(d)) = {usual} is a good start."
    return design, d, check_integer("k1", usual if k1 is None else k1, 1, d - 1, hint)


def _relative_cost(plan: Plan) -> float:
    """Return operations times numbers per pair: a slightly cheaper query is not worth a much larger memory."""
    return plan.operations * plan.numbers / plan.pairs


def _plan(design: Design, size: MemorySize) -> Plan:
    spec, family, (d, k1) = design.spec, design.family, size
    numbers = design.numbers(d, k1)
    return Plan(
        scheme=family.scheme,
        d=d,
        p=family.p,
        k1=k1 if family.p else None,
        compact=family.compact,
        pairs=spec.pairs,
        accuracy=design.accuracy(d, k1),
        cells=family.cells(d),
        codebook=design.codebook(d, k1),
        numbers=numbers,
        bytes=numbers * spec.dtype.itemsize if spec.bits is None else math.ceil(numbers * spec.bits / 8),
        operations=design.operations(d, k1),
        parameters=family.parameters(d, k1, spec),
        joint=spec.joint,
        rounds=design.fixed_point(d, k1).rounds if spec.joint else 1,
        bits=spec.bits,
    )
