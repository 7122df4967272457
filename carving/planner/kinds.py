"""The kinds of memory among which to choose: a table, each row with its predictions and what concerns it in a wish."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict, get_args

from carving.errors import BadValue
from carving.planner.alone import (
    Stored,
    osc_share,
    osc_stray,
    tpr_accuracy,
    tpr_stray,
    vsa_accuracy,
    vsa_stray,
)
from carving.planner.operations import Work, osc_question, tpr_question, vector_question
from carving.planner.telling import Stray
from carving.planner.together import FixedPoint, fixed_point
from carving.planner.wish import BASIS, Wish
from carving.schemes.moments import Basis, excess
from carving.validate import check_choice

REMAINS = 0.5  # of the excess of interference, once joint decoding has evened a memory
CHOICES = ("p", "compact")  # the fields of a wish that choose among the rows of one scheme
OPTIONS = (
    *CHOICES,
    "widest",
    "basis",
    "spread",
    "dictionary",
)  # the fields of a wish that concern some schemes and not others
# fmt: off
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 46, 52, 60, 70, 80, 90, 100)
# fmt: on


class Parameters(TypedDict, total=False):
    """What makes a scheme, by keyword."""

    d: int
    p: int
    k1: int
    compact: bool
    basis: Basis
    spread: float
    dictionary: int
    whole_path: bool


Alone = Callable[[int, int, Stored, bool], float]  # d, k1, what is stored, draft -> accuracy, asked one at a time
Elsewhere = Callable[[int, int, Stored], Stray]  # d, k1, what is stored -> what a value shows where it is not
Question = Callable[[int, int, int], Work]  # d, k1, vocabulary -> what a question takes, asked alone
# d, k1, what is stored, spread, bits a cell (None: real numbers) -> where it comes to rest
Together = Callable[[int, int, Stored, float, int | None], FixedPoint]


@dataclass(frozen=True)
class Kind:
    """A kind of memory: a row of the table."""

    scheme: str
    order: int  # a memory has d^order cells
    components: int  # a filler has so many vectors of d numbers, of k1 if it is compact
    alone: Alone
    elsewhere: Elsewhere
    question: Question
    together: Together | None  # None where joint decoding is not predicted
    concerns: tuple[str, ...] = ()  # those OPTIONS of a wish that mean something to it
    p: int | None = None
    compact: bool = False
    basis: Basis | None = None
    parameters: Parameters = field(default_factory=Parameters)  # those that all its memories have

    def fits(self, wish: Wish) -> bool:
        """Whether the wish admits it; what does not concern it does not exclude it either."""
        if wish.joint and self.together is None:
            return False
        if self.basis not in (None, wish.basis or BASIS) or (wish.dictionary and not self.compact):
            return False
        choices = [name for name in CHOICES if name in self.concerns]
        return wish.scheme in (None, self.scheme) and all(
            getattr(wish, name) in (None, getattr(self, name)) for name in choices
        )

    @property
    def has_width(self) -> bool:
        """Whether there is a k1 to choose."""
        return "widest" in self.concerns

    def widest(self, d: int, widest: float) -> int:
        """The largest k1 to try."""
        return max(2, min(d // 2, round(widest * math.sqrt(d))))

    def widths(self, d: int, widest: float) -> tuple[int, ...]:
        """The k1 to try: from about sqrt(d) on, or all where they count; 0 where there is none."""
        if not self.has_width:
            return (0,)
        end = self.widest(d, widest)
        if self.compact:
            return (*(k1 for k1 in WIDTHS if k1 < end), end)
        steps = (round(math.sqrt(d) * 2 ** (i / 2)) for i in range(2 * d.bit_length()))
        return tuple(sorted({min(max(2, k1), end) for k1 in steps}))

    def filler_size(self, d: int, k1: int) -> int:
        """The numbers of a filler."""
        return self.components * (k1 if self.compact else d)


def _osc(p: int, compact: bool, basis: Basis) -> Kind:
    def alone(d: int, k1: int, stored: Stored, draft: bool) -> float:
        return osc_share((d, p, k1), stored, None if compact else basis, draft=draft)

    def elsewhere(d: int, k1: int, stored: Stored) -> Stray:
        return osc_stray((d, p, k1), stored, None if compact else basis)

    def question(d: int, k1: int, vocabulary: int) -> Work:
        return osc_question(d, p, k1, vocabulary, compact=compact, basis=basis)

    def together(d: int, k1: int, stored: Stored, spread: float, bits: int | None) -> FixedPoint:
        load = stored.pairs / d**p
        if not compact:
            load *= 1 + REMAINS * excess(d, p, k1, basis)
        return fixed_point(load, p, k1, stored.vocabulary, spread, bits)

    parameters: Parameters = {"p": p, "compact": True} if compact else {"p": p}
    parameters["basis"] = basis
    return Kind("OSC", p, p, alone, elsewhere, question, together, OPTIONS, p, compact, basis, parameters)


def _hlb_alone(d: int, k1: int, stored: Stored, draft: bool) -> float:
    return vsa_accuracy(d, *stored)


def _hlb_elsewhere(d: int, k1: int, stored: Stored) -> Stray:
    return vsa_stray(d, stored)


def _hlb_question(d: int, k1: int, vocabulary: int) -> Work:
    return vector_question(d, vocabulary)


def _hlb_together(d: int, k1: int, stored: Stored, spread: float, bits: int | None) -> FixedPoint:
    return fixed_point(stored.pairs / d, 0, 0, stored.vocabulary, bits=bits)


def _tpr_alone(d: int, k1: int, stored: Stored, draft: bool) -> float:
    return tpr_accuracy(d, *stored)


def _tpr_elsewhere(d: int, k1: int, stored: Stored) -> Stray:
    return tpr_stray(d, stored)


def _tpr_question(d: int, k1: int, vocabulary: int) -> Work:
    return tpr_question(d, vocabulary)


KINDS: tuple[Kind, ...] = (  # of a scheme, the first row that fits is the one that `predict` takes
    *(_osc(p, compact, basis) for basis in get_args(Basis) for compact in (False, True) for p in (2, 3, 4)),
    Kind("HLB", 1, 1, _hlb_alone, _hlb_elsewhere, _hlb_question, _hlb_together),
    Kind("TPR", 2, 1, _tpr_alone, _tpr_elsewhere, _tpr_question, None, parameters={"whole_path": True}),
)


def kinds_for(wish: Wish) -> list[Kind]:
    """The rows that a wish admits. Where no scheme is asked for, those that an option does not concern stay."""
    if wish.scheme is not None:
        possible = (kind.scheme for kind in KINDS if kind.together or not wish.joint)
        check_choice("scheme", wish.scheme, tuple(dict.fromkeys(possible)))
    if wish.p is not None:
        check_choice("p", wish.p, tuple(dict.fromkeys(kind.p for kind in KINDS if kind.p is not None)))
    for kind in KINDS:
        if kind.scheme == wish.scheme:
            _check_concerns(kind, wish)
    return [kind for kind in KINDS if kind.fits(wish)]


def _check_concerns(kind: Kind, wish: Wish) -> None:
    for name in OPTIONS:
        if (value := getattr(wish, name)) and name not in kind.concerns:
            raise BadValue(f"{name}={value!r} does not apply to {kind.scheme}. Omit it.")
