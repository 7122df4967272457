"""Requirements of a plan: what to store, the target accuracy, and the kinds of memories to consider."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict, get_args

import torch

from carving.errors import BadType, BadValue
from carving.planner.twins import LARGEST as LARGEST_DICTIONARY
from carving.quantization import BITS, check_bits, distortion
from carving.schemes.moments import Basis
from carving.validate import check_choice, check_integer, check_number, nearest

Shared = int | Mapping[int, int]  # fillers in every context, or for each number of fillers how many contexts hold it

WIDEST = 2.0  # k1 in units of sqrt(d): more saves little memory and takes much time
SLACK = 0.1  # a tenth more numbers often makes questions several times cheaper
BASIS: Basis = "blocks"


class Requirements(TypedDict, total=False):
    """Optional requirements, by keyword: the later fields of `Wish`."""

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


LARGEST = 2**50  # candidates that nobody will have


@dataclass(frozen=True)
class Wish:
    """The requirements of a plan.

    A new field stands here and in `Requirements`; if it concerns some kinds of memory and not others also in
    `kinds.OPTIONS`, and the rows of `kinds.KINDS` say which ones.

    >>> Wish(pairs=100, vocabulary=50, accuracy=99)
    Traceback (most recent call last):
    carving.errors.BadValue: accuracy must be between 0 and 1, got 99. A typical value is 0.99.
    """

    pairs: int
    vocabulary: int  # candidates for an answer
    accuracy: float = 0.99  # the share of contexts that are answered wholly right
    shared: Shared = 1
    # Restrictions; None admits all
    scheme: str | None = None
    p: int | None = None
    compact: bool | None = None
    # What counts as size
    codebook: bool = True  # whether the fillers' numbers count, or the memory's own cells alone
    dtype: torch.dtype = torch.float32  # of the bytes
    widest: float | None = None  # bounds k1, in units of sqrt(d)
    slack: float = SLACK  # the share of numbers, or of pairs, that may be given up where questions get cheaper
    # How contexts are drawn: None stands for BASIS
    basis: Basis | None = None
    dictionary: int = 0  # vectors of a dictionary that compact fillers are taken from; 0 for none
    # How it is asked
    joint: bool = False  # all contexts together
    spread: float = 0.0  # of amplitudes: exp(spread) either way
    # Where it is to be quantized: bits a cell, which count alone; None for real numbers
    bits: int | None = None

    def __post_init__(self) -> None:
        check_integer("vocabulary", self.vocabulary, 2, LARGEST, "it is the number of candidates for an answer")
        self._check_contexts()
        check_integer("pairs", self.pairs, 1, way_out="it is the number of (context, filler) pairs to store")
        check_choice("compact", self.compact, (None, True, False))
        check_choice("basis", self.basis, (None, *get_args(Basis)))
        check_choice("bits", self.bits, (None, *BITS))
        if self.bits is not None:
            check_bits(self.bits)  # True is equal to 1
        check_integer(
            "dictionary", self.dictionary, 0, LARGEST_DICTIONARY, "0 means none; 65536 suits ten million values"
        )
        if not isinstance(self.shared, Mapping) and self.shared > self.pairs:
            raise BadValue(
                f"shared={self.shared} values under every path exceed pairs={self.pairs}. Correct one of them."
            )
        self._check_ranges()
        self._check_joint()

    def _check_contexts(self) -> None:
        if not isinstance(self.shared, Mapping):
            check_integer("shared", self.shared, 1, way_out="it is the number of values under every path")
        elif not self.shared:
            raise BadValue("shared must not be empty. Pass {values under a path: number of such paths}.")
        for size, count in self.contexts.items():
            check_integer("values under a path", size, 1, self.vocabulary, "a path holds every value at most once")
            check_integer(f"the number of contexts with {size} fillers", count, 1)

    def _check_ranges(self) -> None:
        if not 0 < check_number("accuracy", self.accuracy) < 1:
            raise BadValue(f"accuracy must be between 0 and 1, got {self.accuracy}. A typical value is 0.99.")
        if self.widest is not None and not check_number("widest", self.widest) > 0:
            raise BadValue(
                f"widest must be above 0, got {self.widest}. It bounds k1 <= widest * sqrt(d); a typical value is 2."
            )
        if not 0 <= check_number("slack", self.slack) <= 10:
            raise BadValue(f"slack must be a number from 0 to 10, got {self.slack}. 0.1 allows a tenth more numbers.")
        if not 0 <= check_number("spread", self.spread) <= 4:
            raise BadValue(
                f"spread must be a number from 0 to 4, got {self.spread}. With 0 all contexts have the same amplitude."
            )

    def _check_joint(self) -> None:
        if self.spread and not self.joint:
            raise BadValue(f"spread={self.spread} helps joint decoding only. Omit it, or pass joint=True.")
        if self.joint and set(self.contexts) != {1}:
            raise BadValue(
                f"Joint decoding is planned for one value under each path, got shared={self.shared}. Omit it."
            )

    @property
    def contexts(self) -> Mapping[int, int]:
        """For each number of fillers how many contexts hold it; only the proportions count."""
        return self.shared if isinstance(self.shared, Mapping) else {self.shared: 1}

    @property
    def rounding(self) -> float:
        """How many pairs more would make as much noise as few bits do, asked one at a time: D / (1 - D) times all."""
        return 0.0 if self.bits is None else self.pairs * distortion(self.bits) / (1 - distortion(self.bits))

    def widest_at(self, d: int) -> float:
        """The bound of k1 in units of sqrt(d): contexts that are shared have to be wide."""
        return self.widest or (WIDEST if self.shared == 1 else d)


def wish_for(pairs: int, vocabulary: int, accuracy: float, shared: Shared, requirements: Requirements) -> Wish:
    """The wish, whose fields people give by name."""
    for name in requirements:
        if name not in Requirements.__annotations__:
            raise BadType(f"Unknown option {name!r} of a plan. {nearest(name, Requirements.__annotations__)}")
    return Wish(pairs, vocabulary, accuracy, shared, **requirements)  # type: ignore[arg-type]  # which refuses other bits
