"""A sieve: all candidates are scored in few bits, and in float32 only those that may be among the best.

Rounding to bfloat16 or int8 has a bounded error, so that the cheap product gives every float32 score a ceiling. Whoever
stays below the k-th best of a few scores that are known exactly is not among the k best; the rest is scored in float32.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

KINDS = ("bfloat16", "int8")
BFLOAT16, FLOAT32 = 2.0**-8, 2.0**-24  # unit roundoffs
LEAST, MOST = 2.0**-30, 2.0**30  # norms of cores; beyond, products may leave the range of float32
LONGEST = 2**16  # numbers of a code: sums of more products of int8 might overflow
SIZES = (64, 32)  # of groups in which candidates are looked through: multiples of what processors do at a time
CROWD = 32  # groups beyond twice those asked for in which a context may have candidates left
BLOCK = 2**17  # numbers at a time, which then stay in the caches
OFF = 1e-3  # the most by which probabilities may be off, of themselves
MARGIN = 7.0  # candidates whose log odds are so near to the best are scored in float32 too, for the sum's sake


@dataclass(frozen=True)
class Coarse:
    """Codes (L, c) in bfloat16, or in int8 with a scale a row; with their norms and those of what rounding took.

    For a core a and a code b, with a', b' what they are rounded to,

        |<a, b> - <a', b'>| = |<a - a', b> + <a', b - b'>| <= |a - a'| |b| + |a'| |b - b'|,

    by Cauchy-Schwarz, and the four norms are measured, not guessed. Products of two bfloat16 are exact in float32 and
    those of int8 in int32; sums of c numbers in float32, in any order, are off by g |a| |b| at most, g = 2 (c + 8) u,
    u = 2^-24 (twice what IEEE 754 promises, for units that round otherwise; the 8 are the few steps around the sum):
    once for the coarse sum and once for the float32 sum that it is compared with, and once more for rounding here.
    With r = max |a - a'| / |a| and t the least that float32 can tell,

        |float32 sum - coarse sum| <= |a| width,  width = (r |b| + (1 + r) |b - b'| + 3 g (1 + r) (|b| + |b - b'|)) + t.

    int8: the coarse sum is exact in int32. bfloat16: it is rounded to bfloat16 once more, by 2^-8 of itself at most.
    """

    kind: str
    numbers: Tensor  # (L, c)
    scales: Tensor | None  # (L,)
    norms: Tensor  # (L,)
    errors: Tensor  # (L,) norms of what rounding took

    @classmethod
    def of(cls, codes: Tensor, kind: str) -> "Coarse | None":
        """Codes in few bits; None where they cannot be, because some are not finite or far too large."""
        count, size = codes.shape
        dtype = torch.int8 if kind == "int8" else torch.bfloat16
        numbers = torch.empty(count, size, dtype=dtype, device=codes.device)
        scales = codes.new_empty(count) if kind == "int8" else None
        norms, errors = codes.new_empty(count), codes.new_empty(count)
        step = max(1, BLOCK // size)
        for start in range(0, count, step):
            rows = slice(start, start + step)
            rounded = _rounded(codes[rows], kind)
            numbers[rows], norms[rows], errors[rows] = rounded.numbers, rounded.norms, rounded.errors
            if scales is not None and rounded.scales is not None:
                scales[rows] = rounded.scales
        if not bool(norms.max() <= MOST):
            return None
        return cls(kind, numbers, scales, norms, errors)

    def __getitem__(self, rows: slice) -> "Coarse":
        scales = None if self.scales is None else self.scales[rows]
        return Coarse(self.kind, self.numbers[rows], scales, self.norms[rows], self.errors[rows])

    @property
    def nbytes(self) -> int:
        """What it takes beside the codes: half or a quarter of them, and two or three numbers a code."""
        parts = (self.numbers, self.norms, self.errors, *(() if self.scales is None else (self.scales,)))
        return sum(part.nbytes for part in parts)

    def products(self, cores: Tensor) -> "Products":
        """Coarse inner products of cores (n, c) with the codes."""
        cut = _rounded(cores, self.kind)
        sane = (cut.norms >= LEAST) & (cut.norms <= MOST)
        share = float(torch.where(sane, cut.errors / cut.norms, 0).max())
        product = torch._int_mm if self.kind == "int8" else torch.mm
        return Products(self, product(cut.numbers, self.numbers.mT), cut, sane, self._width(share))

    def _width(self, share: float) -> Tensor:
        size = self.numbers.shape[1]
        sums = 2 * (size + 8) * FLOAT32
        width = share * self.norms + (1 + share) * (self.errors + 3 * sums * (self.norms + self.errors))
        # Norms are rounded too; and squares below 2^-126, products of tiny numbers, may be lost.
        return width * (1 + 2 * sums) + size * 2.0**-60


class Rounded(NamedTuple):
    """Rows in few bits."""

    numbers: Tensor
    scales: Tensor | None
    norms: Tensor
    errors: Tensor


class Products(NamedTuple):
    """Coarse inner products, and what float32 makes of them at most."""

    codes: Coarse
    numbers: Tensor  # (n, L) int32, to be scaled, or bfloat16
    cores: Rounded
    sane: Tensor  # (n,) whether the core's norm is in the range for which this holds
    width: Tensor  # (L,)

    def ceilings(self, rows: slice) -> Tensor:
        """What the inner products (m, L) of some rows, made in float32, cannot exceed."""
        inner = self.numbers[rows].float()
        norms = self.cores.norms[rows]
        if self.codes.scales is None or self.cores.scales is None:
            # What is rounded once more is larger by 2^-8 of itself above zero, smaller below.
            torch.nn.functional.leaky_relu_(inner, (1 - BFLOAT16) / (1 + BFLOAT16))
            return inner.addr_(norms, self.width, beta=1 + BFLOAT16)
        return inner.mul_(self.codes.scales).mul_(self.cores.scales[rows].unsqueeze(1)).addr_(norms, self.width)

    def doubt(self, rows: slice, variance: Tensor) -> Tensor:
        """Half of what log odds (m,) may lie below their ceilings at most, with inner products over variances."""
        width = self.width
        if self.codes.scales is None:
            width = width + 1.02 * BFLOAT16 * (self.codes.norms + self.codes.errors)
        return self.cores.norms[rows] * (width / variance).amax(-1)


def _rounded(rows: Tensor, kind: str) -> Rounded:
    norms, scales = torch.linalg.vector_norm(rows, dim=1), None
    if kind == "int8":
        scales = rows.abs().amax(1).div_(127).clamp_min_(torch.finfo(rows.dtype).tiny)
        exact = (rows / scales.unsqueeze(1)).round_().clamp_(-127, 127)
        numbers, again = exact.to(torch.int8), exact * scales.unsqueeze(1)
    else:
        numbers = rows.to(torch.bfloat16)
        again = numbers.float()
    return Rounded(numbers, scales, norms, torch.linalg.vector_norm(again.sub_(rows), dim=1))


# Which candidates are left


class Groups(NamedTuple):
    """Scores (n, L) in groups of neighbours, whose maxima (n, groups) tell where to look.

    The last columns, too few for one more group, are groups of their own.
    """

    scores: Tensor
    maxima: Tensor
    size: int  # columns of a group
    full: int  # groups of that size

    @classmethod
    def of(cls, scores: Tensor, k: int) -> "Groups":
        """Scores in several times k groups."""
        size = next((size for size in SIZES if scores.shape[1] // size >= 4 * k), 1)
        if size == 1:
            return cls(scores, scores, 1, scores.shape[1])
        full = scores.shape[1] // size
        maxima = scores[:, : full * size].unflatten(1, (full, size)).amax(2)
        return cls(scores, torch.cat([maxima, scores[:, full * size :]], dim=1), size, full)

    def columns(self, groups: Tensor) -> Tensor:
        """The columns (*, size) of groups; a group of one column has it so many times."""
        if self.size == 1:
            return groups.unsqueeze(-1)
        last, every = self.full * (self.size - 1), torch.arange(self.size, device=groups.device)
        alone = (groups >= self.full).unsqueeze(-1)
        return torch.where(alone, groups.unsqueeze(-1) + last, groups.unsqueeze(-1) * self.size + every)

    def leaders(self, k: int) -> Tensor:
        """The best columns (n, k) of each row's k best groups."""
        columns = self.columns(self.maxima.topk(k, dim=1).indices)  # (n, k, size)
        values = self.scores.gather(1, columns.flatten(1)).view_as(columns)
        return columns.gather(2, values.argmax(2, keepdim=True)).squeeze(2)

    def reaching(self, bar: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The columns that reach the bar (n, 1) in some row, in order; and the rows (n,) with too many, left out."""
        hits = self.maxima >= bar
        crowded = hits.sum(1) > 2 * k + CROWD
        rows, groups = (hits & ~crowded.unsqueeze(1)).nonzero(as_tuple=True)
        columns = self.columns(groups)
        reach = self.scores[rows.unsqueeze(1), columns] >= bar[rows]
        kept = torch.zeros(self.scores.shape[1], dtype=torch.bool, device=bar.device)
        kept[columns[reach]] = True
        return kept.nonzero().squeeze(1), crowded


def left(ceilings: Tensor, k: int, exact: Callable[[Tensor], Tensor], least: float) -> tuple[Tensor, Tensor]:
    """The columns in which a row's k best stand, in order; and the rows (n,) of which this is not so: too many did.

    `exact` gives the float32 scores of some columns; none exceeds its ceiling. The worst of any k is not better than
    the k-th best of all, so that it is safe as a bar. `least` is of log odds (infinite for other scores): what comes
    near to the best of it and theirs counts in sums, and is left as well.
    """
    groups = Groups.of(ceilings, k)
    leaders, own = groups.leaders(k).unique(return_inverse=True)
    known = exact(leaders).gather(1, own)
    bar = known.amin(1, keepdim=True)
    if least < torch.inf:
        bar = bar.minimum(known.amax(1, keepdim=True).clamp_min(least) - MARGIN)
    columns, crowded = groups.reaching(bar, k)
    return columns, crowded | ~torch.isfinite(known).all(1)


def log_total(
    ceilings: Tensor, columns: Tensor, scores: Tensor, doubt: Tensor, log_nothing: float
) -> tuple[Tensor, Tensor]:
    """The logarithm (n,) of the sum of exponentials, with the columns' scores exact; and where it is good enough.

    The sum T of the rest is known from the ceilings to a factor: between exp(-2 e) and 1 of theirs, e the doubt (n,) of
    log odds. In the middle, at exp(-e), it is wrong by a factor of exp(e) at most. With S the exact part and N what
    stands for nothing being there, what probabilities are divided by is wrong by a part of

        d = T (exp(e) - 1) / (S + N + T exp(-e)),

    hence a candidate's probability p by d p at most, and that of nothing likewise. Good enough is d <= 0.001. Where the
    groups' maxima tell that the rest is less than that, it is left out.
    """
    ceilings.index_fill_(1, columns, -torch.inf)
    total = scores.logsumexp(1)
    sure = torch.logaddexp(total, torch.full_like(total, log_nothing))
    groups = Groups.of(ceilings, 1)
    good = groups.maxima.logsumexp(1) + math.log(groups.size) - sure <= math.log(OFF)
    rows = (~good).nonzero().squeeze(1)
    if len(rows):
        ceiling, e, sure = ceilings[rows].logsumexp(1), doubt[rows], sure[rows]
        rest, few = ceiling - e, e.clamp_max(10)
        share = (rest - torch.logaddexp(sure, rest)).exp()
        off = share * few.expm1() / (1 + share * (-few).expm1())
        good[rows] = (ceiling - sure <= math.log(OFF)) | ((e <= 10) & (off <= OFF))
        total[rows] = torch.logaddexp(total[rows], rest)
    return total, good


# Codes in few bits are kept beside the codes, as long as these live


class Kept(NamedTuple):
    """What was made of codes."""

    codes: "weakref.ref[Tensor]"
    version: int
    made: dict[str, Coarse | None]


_kept: dict[int, Kept] = {}


def kept(codes: Tensor) -> Kept | None:
    """What was made of these codes, if they came by before and did not change."""
    entry = _kept.get(id(codes))
    return entry if entry and entry.codes() is codes and entry.version == _version(codes) else None


def keep(codes: Tensor) -> Kept:
    """A place for what is made of these codes."""
    entry = kept(codes)
    if entry is None:
        key = id(codes)

        def forget(dead: "weakref.ref[Tensor]") -> None:
            if key in _kept and _kept[key].codes is dead:
                del _kept[key]

        entry = _kept[key] = Kept(weakref.ref(codes, forget), _version(codes), {})
    return entry


def coarse(codes: Tensor, kind: str) -> Coarse | None:
    """The codes in few bits, made once."""
    made = keep(codes).made
    if kind not in made:
        with torch.no_grad():
            made[kind] = Coarse.of(codes, kind)
    return made[kind]


def _version(codes: Tensor) -> int:
    return 0 if codes.is_inference() else codes._version
