"""Requirements of a plan: the pairs to store, the target accuracy, and the families of memories to consider."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, get_args

import torch

from carving.errors import BadType, BadValue
from carving.quantization import check_bits, distortion
from carving.schemes.moments import Basis
from carving.validate import check_choice, check_integer, check_number, check_positive, nearest

Shared = int | Mapping[int, int]  # the number of fillers in every context, or {fillers: number of contexts}

EXPECTED_ACCURACY = 0.9  # the target accuracy of a memory without a target
DEFAULT_BASIS: Basis = "blocks"
DEFAULT_SLACK = 0.1  # a tenth more numbers often makes queries several times cheaper
DEFAULT_WIDEST = 2.0  # the bound of k1 / sqrt(d): more saves little memory and takes much time
TOLERANCE = 0.1  # relative excess of errors that is tolerated: predictions are no more precise
MAX_VOCABULARY = 2**50
MAX_DICTIONARY = 2**16


class Requirements(TypedDict, total=False):
    """Optional requirements, by keyword: the later fields of `Specification`."""

    scheme: str | None
    p: int | None
    compact: bool | None
    codebook: bool
    dtype: torch.dtype
    widest: float | None
    slack: float
    basis: Basis | None
    dictionary: int
    joint: bool
    spread: float
    bits: int | str | None  # "auto" for `plan` alone


@dataclass(frozen=True)
class Specification:
    """A complete and checked specification of a plan.

    A new field stands here and in `Requirements`, and in `design.OSC_OPTIONS` if it concerns OSC only.

    Attributes:
        pairs: The number of pairs to store.
        vocabulary: The number of candidates.
        accuracy: The target accuracy.
        shared: The number of fillers in every context, or {fillers: number of contexts}, as proportions.
        scheme, p, compact: The family of memories; None admits all.
        codebook: Whether the numbers of all fillers count, or only the cells of the memory.
        dtype: The precision, which determines the bytes.
        widest: The bound of k1 in units of sqrt(d); None for a default that depends on `shared`.
        slack: The fraction of numbers, or of pairs, that may be given up for cheaper queries.
        basis: How OSC draws contexts; None for `DEFAULT_BASIS`.
        dictionary: The number of shared vectors that compact fillers are built from; 0 for none.
        joint: Whether all contexts are decoded jointly.
        spread: The spread of amplitudes of contexts, exp(spread) either way.
        bits: Bits per cell of a quantized memory, whose cells alone count; None for real numbers.

    >>> Specification(pairs=100, vocabulary=50, accuracy=99)
    Traceback (most recent call last):
    carving.errors.BadValue: accuracy must be between 0 and 1, got 99. A typical value is 0.99.
    """

    pairs: int
    vocabulary: int
    accuracy: float = 0.99
    shared: Shared = 1
    scheme: str | None = None
    p: int | None = None
    compact: bool | None = None
    codebook: bool = True
    dtype: torch.dtype = torch.float32
    widest: float | None = None
    slack: float = DEFAULT_SLACK
    basis: Basis | None = None
    dictionary: int = 0
    joint: bool = False
    spread: float = 0.0
    bits: int | None = None

    def __post_init__(self) -> None:
        check_integer("vocabulary", self.vocabulary, 2, MAX_VOCABULARY, "It is the number of candidates for an answer.")
        self._check_contexts()
        check_choice("compact", self.compact, (None, True, False))
        check_choice("basis", self.basis, (None, *get_args(Basis)))
        if self.bits is not None:
            check_bits(self.bits)
        check_integer("dictionary", self.dictionary, 0, MAX_DICTIONARY, "0 means none; 65536 suits ten million values.")
        check_accuracy(self.accuracy)
        if self.widest is not None:
            check_positive("widest", self.widest, "It bounds k1 <= widest * sqrt(d); a typical value is 2.")
        _check_range("slack", self.slack, 10, "0.1 allows a tenth more numbers.")
        _check_range("spread", self.spread, 4, "With 0 all contexts have the same amplitude.")
        if self.spread and not self.joint:
            raise BadValue(f"spread={self.spread} helps joint decoding only. Omit it, or pass joint=True.")
        if self.joint and set(self.contexts) != {1}:
            raise BadValue(
                f"joint=True requires one value under each path, got shared={self.shared}. Omit one of them."
            )

    def _check_contexts(self) -> None:
        if not isinstance(self.shared, Mapping):
            check_integer("shared", self.shared, 1, way_out="It is the number of values under every path.")
        elif not self.shared:
            raise BadValue("shared must not be empty. Pass {values under a path: number of such paths}.")
        for size, count in self.contexts.items():
            check_integer("values under a path", size, 1, self.vocabulary, "A path holds every value at most once.")
            check_integer(f"the number of paths with {size} values", count, 1)
        check_integer("pairs", self.pairs, 1, way_out="It is the number of (context, filler) pairs to store.")
        if not isinstance(self.shared, Mapping) and self.shared > self.pairs:
            raise BadValue(f"shared={self.shared} must be at most pairs={self.pairs}. Correct one of them.")

    @property
    def contexts(self) -> Mapping[int, int]:
        """The number of contexts for each number of fillers, as proportions."""
        return self.shared if isinstance(self.shared, Mapping) else {self.shared: 1}

    @property
    def rounding(self) -> float:
        """The noise of quantization in single queries, as a number of pairs: D / (1 - D) times all."""
        return 0.0 if self.bits is None else self.pairs * distortion(self.bits) / (1 - distortion(self.bits))

    def max_width(self, d: int) -> int:
        """Return the largest k1 to consider at side d: contexts with several fillers have to be wide."""
        widest = self.widest or (DEFAULT_WIDEST if self.shared == 1 else d)
        return max(2, min(d // 2, round(widest * math.sqrt(d))))


def specify(pairs: int, vocabulary: int, accuracy: float, shared: Shared, requirements: Requirements) -> Specification:
    """Return the checked specification; refuse unknown requirements."""
    for name in requirements:
        if name not in Requirements.__annotations__:
            raise BadType(f"Unknown option {name!r} of a plan. {nearest(name, Requirements.__annotations__)}")
    return Specification(pairs=pairs, vocabulary=vocabulary, accuracy=accuracy, shared=shared, **requirements)  # type: ignore[arg-type]  # checks bits


@dataclass(frozen=True)
class Target:
    """The target accuracy of a memory, with the numbers of pairs and of distinct values that it was planned for.

    It is stored with the memory, which warns when it is over capacity.

    Attributes:
        accuracy: The target accuracy, between 0 and 1.
        pairs: The planned number of pairs; 0 if unknown.
        vocabulary: The planned number of distinct values; 0 if unknown.
        joint: Whether the target is for joint decoding.

    >>> target = Target(accuracy=0.99, pairs=1000, vocabulary=500)
    >>> target.missed_by(0.9895), target.missed_by(0.98)
    (False, True)
    """

    accuracy: float
    pairs: int = 0
    vocabulary: int = 0
    joint: bool = False

    def __post_init__(self) -> None:
        check_accuracy(self.accuracy)
        check_integer("pairs", self.pairs, 0)
        check_integer("vocabulary", self.vocabulary, 0)
        if not isinstance(self.joint, bool):
            raise BadType(f"joint must be True or False, got {self.joint!r}")

    def missed_by(self, accuracy: float) -> bool:
        """Return whether a memory of this predicted accuracy misses the target by more than the tolerance."""
        return 1 - accuracy > (1 - self.accuracy) * (1 + TOLERANCE)


def check_accuracy(accuracy: float) -> None:
    """Refuse a target accuracy that is not between 0 and 1."""
    if not 0 < check_number("accuracy", accuracy) < 1:
        raise BadValue(f"accuracy must be between 0 and 1, got {accuracy}. A typical value is 0.99.")


def _check_range(name: str, value: float, high: int, hint: str) -> None:
    if not 0 <= check_number(name, value) <= high:
        raise BadValue(f"{name} must be a number from 0 to {high}, got {value}. {hint}")


# Collisions: values to which a dictionary gives the same filler


def expected_collisions(vocabulary: int, dictionary: int, p: int) -> float:
    """Return the expected number of pairs of values that have the same filler.

    >>> round(expected_collisions(10_000_000, 65_536, 2)), round(expected_collisions(10_000, 256, 3), 1)
    (11642, 3.0)
    """
    return vocabulary * (vocabulary - 1) / 2 / dictionary**p


def collision_accuracy(vocabulary: int, dictionary: int, p: int) -> float:
    """Return the expected share of values that are named once their filler is found.

    The number n of other values with the same filler is Poisson distributed, with the probability e^-r r^n / n!: of
    n + 1 values the right one is named once.

    >>> round(collision_accuracy(10_000_000, 65_536, 2), 4), round(collision_accuracy(10_000, 256, 2), 3)
    (0.9988, 0.927)
    """
    rate = (vocabulary - 1) / dictionary**p
    return -math.expm1(-rate) / rate if rate > 0 else 1.0


def check_dictionary(vocabulary: int, dictionary: int, p: int, accuracy: float) -> None:
    """Refuse a dictionary that is too small for any memory to reach the accuracy."""
    highest = collision_accuracy(vocabulary, dictionary, p)
    if highest < accuracy:
        enough = math.ceil((vocabulary / (2 * (1 - accuracy))) ** (1 / p))
        way_out = f"Use dictionary={enough}." if enough <= MAX_DICTIONARY else "No dictionary is large enough: omit it."
        raise BadValue(
            f"A dictionary of {dictionary} vectors has {dictionary**p:,} fillers for p={p}: "
            f"{expected_collisions(vocabulary, dictionary, p):,.0f} pairs of the {vocabulary:,} values would share a "
            f"filler, and the accuracy would be at most {highest:.4f}, below {accuracy}. {way_out}"
        )
