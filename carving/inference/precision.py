"""In which precision candidates are sieved: as it is set, or as measuring says, once for a shape of questions.

What is measured is the whole way to the answer, on a part of the work at hand, and only after so much work of that
shape came by that it was repaid. Below a few milliseconds of work nothing is ever measured.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from carving.errors import BadValue
from carving.inference.sieve import KINDS

SETTINGS = ("auto", "off", *KINDS)
WORTH = 2**26  # products of two numbers in a scan: with less, float32 it is, unmeasured
FEWEST = 16  # contexts; with fewer, products wait for the memory
TRIAL = 2**28  # products in one run of a trial: with fewer, what comes on top of a product counts too much
REPAYS = 64  # so many runs' work must have come by before a trial
GAIN = 1.15  # how much faster the sieve must be to be taken
SLOW = 2.0  # how much slower a small product may be in few bits for the sieve to be tried at all
WATCHED, DISAPPOINTING = 256, 0.25  # contexts, and the share of them that may need float32 for all candidates

_setting = "auto"


def set_sieve(setting: str) -> None:
    """Set the low-precision pre-filter of candidates, which are then scored in float32.

    "auto" measures what is fastest on this machine, "off" disables the filter, "bfloat16" and "int8" use it wherever it
    applies: to compact fillers on CPUs. The answers do not change, up to ties within the rounding of float32;
    probabilities change by a thousandth of themselves at most.

    >>> set_sieve("off")
    >>> get_sieve()
    'off'
    >>> set_sieve("auto")
    """
    if setting not in SETTINGS:
        raise BadValue(
            f"setting must be one of {', '.join(SETTINGS)}, got {setting!r}. auto measures which is fastest."
        )
    global _setting
    _setting = setting


def get_sieve() -> str:
    """Return the setting of `set_sieve`.

    >>> get_sieve()
    'auto'
    """
    return _setting


def plain_float32() -> bool:
    """Whether products in float32 are that: torch may have been told to round what they are made of."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set for some backends only
        return False


class Shape(NamedTuple):
    """Questions of one shape: sizes to a factor of two."""

    contexts: int
    candidates: int
    size: int  # of a code
    k: int
    log_odds: bool
    seen: bool  # whether the same candidates were asked before
    threads: int

    @classmethod
    def of(cls, contexts: int, candidates: int, size: int, k: int, log_odds: bool, seen: bool) -> "Shape":
        """The shape of questions of these sizes."""
        sizes = contexts.bit_length(), candidates.bit_length(), size.bit_length(), k.bit_length()
        return cls(*sizes, log_odds, seen, torch.get_num_threads())


@dataclass
class Experience:
    """What is known of a shape."""

    work: int = 0  # products that came by
    kind: str | None = None
    measured: bool = False
    contexts: int = 0  # that were sieved since
    whole: int = 0  # those of them that needed float32 for all candidates


_experience: dict[Shape, Experience] = {}


def chosen(shape: Shape, work: int, trial: Callable[[str | None], object], cost: int) -> str | None:
    """The kind that is fastest for questions of a shape; None for float32, and before enough work came by.

    `trial` answers a part of the questions by a kind or in float32 (None), in `cost` products.
    """
    known = _experience.setdefault(shape, Experience())
    known.work += work
    if not known.measured and known.work >= REPAYS * cost:
        known.measured = True
        kinds = [kind for kind in KINDS if promising(kind, shape.threads)]
        if kinds:
            times = {kind: seconds(functools.partial(trial, kind)) for kind in (None, *kinds)}
            best = min(kinds, key=lambda kind: times[kind])
            known.kind = best if GAIN * times[best] < times[None] else None
    return known.kind


def report(shape: Shape, contexts: int, whole: int) -> None:
    """Take in how many contexts were sieved and how many of them in vain; a shape that disappoints is given up."""
    known = _experience.setdefault(shape, Experience())
    known.contexts += contexts
    known.whole += whole
    if known.contexts >= WATCHED:
        if known.whole > DISAPPOINTING * known.contexts:
            known.kind = None
        known.contexts = known.whole = 0


def seconds(run: Callable[[], object], runs: int = 2) -> float:
    """The shortest of some runs, after one that does not count."""
    run()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


@functools.cache
def promising(kind: str, threads: int) -> bool:
    """Whether a small product of this kind is not far slower than one in float32."""
    if not available(kind):
        return False
    one, other = torch.full((16, 256), 0.5), torch.full((256, 256), 0.5)
    plain = seconds(lambda: one @ other.mT)
    if kind == "int8":
        left, right = one.to(torch.int8), other.to(torch.int8)
        return seconds(lambda: torch._int_mm(left, right.mT)) < SLOW * plain
    left, right = one.to(torch.bfloat16), other.to(torch.bfloat16)
    return seconds(lambda: left @ right.mT) < SLOW * plain


@functools.cache
def available(kind: str) -> bool:
    """Whether products of this kind are there, and right where they are hardest.

    The product of int8 is a private function of torch, and some processors saturate its sums at 16 bits.
    """
    signs = torch.tensor([1, -1]).repeat(40)
    left = torch.stack([torch.full((80,), 127), 127 * signs, torch.full((80,), -127)]).repeat(6, 1)[:17]
    right = left.repeat(2, 1)[:33]
    try:
        if kind == "int8":
            product = torch._int_mm(left.to(torch.int8), right.to(torch.int8).mT)
        else:
            product = left.to(torch.bfloat16) @ right.to(torch.bfloat16).mT
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    wanted = left.double() @ right.double().mT
    return bool(((product.double() - wanted).abs() <= (0 if kind == "int8" else 2.0**-8) * wanted.abs()).all())
