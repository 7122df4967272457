"""A sieve: all candidates are scored in few bits, and in float32 only those that may be among the best.

Rounding to bfloat16 or int8 has a bounded error, so that the cheap product gives every float32 score a ceiling. Groups
of neighbors have one in common, which the largest of their products gives; only where that is high enough, their
candidates are looked at. Whoever stays below the k-th best of a few scores that are known exactly is not among the k
best; the rest is scored in float32.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from carving.inference.ranking import Lines

KINDS = ("bfloat16", "int8")
BFLOAT16, FLOAT32 = 2.0**-8, 2.0**-24  # unit roundoffs
LEAST, MOST = 2.0**-30, 2.0**30  # norms of cores; beyond, products may leave the range of float32
LONGEST = 2**16  # numbers of a code: sums of more products of int8 might overflow
SIZE = 64  # candidates of a group: a multiple of what processors do at a time
CROWD = 32  # groups or candidates beyond twice those asked for that a context may have left
BLOCK = 2**17  # numbers at a time, which then stay in the caches
OFF = 1e-3  # the most by which probabilities may be off, of themselves
MARGIN = 9.0  # candidates whose log odds are so near to the best are scored in float32 too, for the sum's sake


@dataclass(frozen=True)
class Coarse:
    """Codes (L, c) in few bits, in groups of neighbors; int8 has a scale a group.

    For a core a and a code b, with a', b' what they are rounded to,

        |<a, b> - <a', b'>| = |<a - a', b> + <a', b - b'>| <= |a - a'| |b| + |a'| |b - b'|,

    by Cauchy-Schwarz, where |a'| <= |a| + |a - a'|, and the four norms are measured, not guessed. Products of two
    bfloat16 are exact in float32 and those of int8 in int32; sums of c numbers in float32, in any order, are off by
    g |a| |b| at most, g = 2 (c + 8) u, u = 2^-24 (twice what IEEE 754 promises, for units that round otherwise; the 8
    are the few steps around the sum): once for the coarse sum and once for the float32 sum that it is compared with,
    and once more for rounding here. With t the least that float32 can tell,

        |float32 sum - coarse sum| <= |a - a'| |b| + (|a| + |a - a'|) (|b - b'| + 3 g (|b| + |b - b'|) + t) = width.

    int8: the coarse sum is exact in int32. bfloat16: it is rounded to bfloat16 once more, by 2^-8 of itself at most.

    The width grows with |b| and |b - b'|, so that a group's largest norms give one that holds for all its codes. They
    share the scale too; hence no float32 sum of the group exceeds its largest coarse sum and this width. Where one code
    is far larger than the others of its group, these are rounded to little or nothing: |b - b'| says so.
    """

    kind: str
    numbers: Tensor  # (groups * SIZE, c); the last code is there as often as fills its group
    scales: Tensor  # (groups,)
    norms: Tensor  # (groups,) the largest norms of codes
    errors: Tensor  # (groups,) and of what rounding took

    @classmethod
    def of(cls, codes: Tensor, kind: str) -> "Coarse | None":
        """Codes in few bits; None where they cannot be, because some are not finite or far too large."""
        count, size = codes.shape
        dtype = torch.int8 if kind == "int8" else torch.bfloat16
        numbers = torch.empty(count + -count % SIZE, size, dtype=dtype, device=codes.device)
        step, sizes = SIZE * max(1, BLOCK // (SIZE * size)), []
        for start in range(0, count, step):
            rows = codes[start : start + step]
            more = rows[-1:].expand(-len(rows) % SIZE, -1)
            rounded = _rounded(torch.cat([rows, more]).view(-1, SIZE, size), kind)
            numbers[start : start + step] = rounded.numbers
            sizes.append(rounded[1:])
        scales, norms, errors = (torch.cat(each) for each in zip(*sizes, strict=True))
        return cls(kind, numbers, scales, norms, errors) if bool(norms.max() <= MOST) else None

    @property
    def nbytes(self) -> int:
        """What it takes beside the codes: half or a quarter of them, and a little."""
        return sum(part.nbytes for part in (self.numbers, self.scales, self.norms, self.errors))

    def products(self, cores: Tensor) -> "Products":
        """Coarse inner products of cores (n, c) with the codes."""
        size, cut = cores.shape[1], _rounded(cores.unsqueeze(1), self.kind)
        product = torch._int_mm if self.kind == "int8" else torch.mm
        numbers = product(cut.numbers, self.numbers.mT).view(len(cores), -1, SIZE)
        sums = 2 * (size + 8) * FLOAT32
        # Squares below 2^-126, products of tiny numbers, may be lost; and norms are rounded too.
        lost = self.errors + 3 * sums * (self.norms + self.errors) + size * 2.0**-60
        width = torch.stack([cut.errors, cut.norms + cut.errors], 1) @ torch.stack([self.norms, lost])
        sane = (cut.norms >= LEAST) & (cut.norms <= MOST)
        return Products(numbers, torch.outer(cut.scales, self.scales), width.mul_(1 + 2 * sums), sane)


class Rounded(NamedTuple):
    """Groups of rows in few bits."""

    numbers: Tensor  # (groups * size, c)
    scales: Tensor  # (groups,)
    norms: Tensor  # (groups,) the largest,
    errors: Tensor  # (groups,) and of what rounding took


def _rounded(rows: Tensor, kind: str) -> Rounded:
    """Groups of rows (groups, size, c), rounded."""
    if kind == "int8":
        scales = rows.abs().amax((1, 2)).div_(127).clamp_min_(torch.finfo(rows.dtype).tiny)
        exact = (rows / scales.view(-1, 1, 1)).round_().clamp_(-127, 127)
        numbers, again = exact.to(torch.int8), exact * scales.view(-1, 1, 1)
    else:
        scales, numbers = rows.new_ones(len(rows)), rows.to(torch.bfloat16)
        again = numbers.float()
    norms, errors = (torch.linalg.vector_norm(each, dim=2).amax(1) for each in (rows, again.sub_(rows)))
    return Rounded(numbers.flatten(0, 1), scales, norms, errors)


class Products(NamedTuple):
    """Coarse inner products, and what float32 makes of them at most."""

    numbers: Tensor  # (n, groups, SIZE) int32, to be scaled, or bfloat16
    scales: Tensor  # (n, groups)
    width: Tensor  # (n, groups)
    sane: Tensor  # (n,) whether the core's norm is in the range for which this holds

    def highest(self) -> Tensor:
        """What no inner product of a group (n, groups), made in float32, exceeds."""
        exact = self.numbers if self.numbers.dtype == torch.int32 else self.numbers.float()
        return self._raised(exact.amax(2), self.scales, self.width)

    def ceilings(self, rows: Tensor, groups: Tensor) -> Tensor:
        """What the inner products (m, SIZE) of some groups of some rows do not exceed."""
        scales, width = (each[rows, groups].unsqueeze(1) for each in (self.scales, self.width))
        return self._raised(self.numbers[rows, groups], scales, width)

    def _raised(self, numbers: Tensor, scales: Tensor, width: Tensor) -> Tensor:
        inner = torch.addcmul(width, numbers.float(), scales)
        return inner if self.numbers.dtype == torch.int32 else inner.add_(numbers.abs().float(), alpha=BFLOAT16)


# Which candidates are left


class Heights(NamedTuple):
    """What scores do not exceed: the ceilings of inner products, or lines there."""

    products: Products
    lines: Lines | None  # with slopes and offsets (groups, SIZE)
    candidates: int

    @classmethod
    def of(cls, products: Products, lines: Lines | None, candidates: int) -> "Heights":
        """The heights of so many candidates."""
        if lines is not None:
            more = (0, products.numbers[0].numel() - candidates)
            slopes, offsets = (pad(each[None], more, "replicate").view(-1, SIZE) for each in lines[1:])
            lines = Lines(lines.starts, slopes, offsets.clamp_min(-1e30))
        return cls(products, lines, candidates)

    def of_groups(self) -> Tensor:
        """Those of groups (n, groups): slopes that differ are taken at whichever end is higher."""
        inner, lines = self.products.highest(), self.lines
        if lines is None:
            return inner
        return _height(inner, lines.starts, lines.slopes.amin(1), lines.slopes.amax(1), lines.offsets.amax(1))

    def within(self, rows: Tensor, groups: Tensor) -> Tensor:
        """Those of the candidates (m, SIZE) of some groups of some rows; where there are none, below all."""
        heights, lines = self.products.ceilings(rows, groups), self.lines
        if lines is not None:
            starts = lines.starts[rows] if len(lines.starts) > 1 else lines.starts
            slopes = lines.slopes[groups]
            heights = _height(heights, starts, slopes, slopes, lines.offsets[groups])
        full, last = divmod(self.candidates, SIZE)
        if last:
            heights[:, last:].masked_fill_((groups == full).unsqueeze(1), -torch.inf)
        return heights


def _height(inner: Tensor, starts: Tensor, low: Tensor, high: Tensor, offsets: Tensor) -> Tensor:
    """What lines of slopes from low to high do not exceed where inner products do not exceed these.

    They rise, and s x <= max(low x, high x) for x = inner - start of either sign. Each way to make a score in float32
    takes a few roundings, of parts that are not above those of `size`; each grows with the inner product.
    """
    size = (inner.abs() + starts) * high + offsets.abs()
    beyond = inner - starts
    return torch.maximum(beyond * low, beyond * high).add_(offsets).add_(size, alpha=16 * FLOAT32)


class Left(NamedTuple):
    """The candidates that may be among a row's k best."""

    columns: Tensor  # (n, m) in order
    there: Tensor  # (n, m) some have fewer
    unsure: Tensor  # (n,) the rows of which this is not so: there were too many, or it cannot be told
    rest: Tensor | None  # (n,) of log odds: the logarithm of what the others' exponentials do not exceed in sum


def left(heights: Heights, k: int, exact: Callable[[Tensor], Tensor], least: float) -> Left:
    """Who is left of all candidates.

    `exact` gives the float32 scores of candidates (n, k); none exceeds its height. The worst of any k is not better
    than the k-th best of all, so that it is safe as a bar. `least` is of log odds (infinite for other scores): what
    comes near to the best of it and theirs counts in sums, and is left as well.
    """
    highest = heights.of_groups()
    known = exact(_leaders(heights, highest, k))
    bar, top = known.amin(1, keepdim=True), known.amax(1, keepdim=True).clamp_min(least)
    unsure = ~(heights.products.sane & torch.isfinite(known).all(1))
    if least < torch.inf:
        bar = bar.minimum(top - MARGIN)
        shares = (highest - top).exp_().mul_(SIZE)
        hits = _weighty(highest >= bar, shares, unsure)
    else:
        hits = highest >= bar
    most = 2 * k + CROWD
    unsure |= hits.sum(1) > most
    rows, groups = (hits & ~unsure.unsqueeze(1)).nonzero(as_tuple=True)
    inside = heights.within(rows, groups)
    reach = inside >= bar[rows]
    counts = rows.new_zeros(len(hits)).index_add_(0, rows, reach.sum(1))
    unsure |= counts > most
    counts.masked_fill_(unsure, 0)
    there = torch.arange(int(counts.max()), device=rows.device) < counts.unsqueeze(1)
    group, place = reach.nonzero(as_tuple=True)
    chosen = (groups[group] * SIZE + place)[~unsure[rows[group]]]
    columns = torch.zeros_like(there, dtype=torch.int64).masked_scatter_(there, chosen)
    if least == torch.inf:
        return Left(columns, there, unsure, None)
    others = (inside - top[rows]).exp_().masked_fill_(reach, 0).sum(1)
    rest = shares.masked_fill_(hits, 0).sum(1).index_add_(0, rows, others)
    return Left(columns, there, unsure, rest.log_() + top.squeeze(1))


def _leaders(heights: Heights, highest: Tensor, k: int) -> Tensor:
    """The highest candidates (n, k) of each row's k highest groups."""
    groups = highest.topk(min(k, highest.shape[1]), dim=1).indices
    rows = torch.arange(len(groups), device=groups.device).repeat_interleave(groups.shape[1])
    inside = heights.within(rows, groups.flatten()).view(len(groups), -1)
    places = inside.topk(k, dim=1).indices
    return groups.gather(1, places // SIZE) * SIZE + places % SIZE


def _weighty(hits: Tensor, shares: Tensor, unsure: Tensor) -> Tensor:
    """Groups that are looked into (n, groups): those hit, and so many more that all others do not count.

    Of these, the shares (n, groups), what all candidates of a group would have if all were as high as the highest, are
    then half of what may be off in sum. Where too many groups had to be looked into, the row is unsure.
    """
    shares = shares.masked_fill(hits, 0)
    total = shares.sum(1, keepdim=True)
    more = (total > OFF / 2).nonzero()[:, 0]
    largest = shares[more].topk(min(CROWD, shares.shape[1]), dim=1).values
    needed = (total[more] - largest.cumsum(1) > OFF / 2).sum(1, keepdim=True)  # and one
    unsure[more] |= (needed == largest.shape[1]).squeeze(1)
    hits[more] |= shares[more] >= largest.gather(1, needed.clamp_max(largest.shape[1] - 1))
    return hits


# Codes in few bits are kept beside the codes, as long as these live


class Kept(NamedTuple):
    """What was made of codes."""

    codes: "weakref.ref[Tensor]"
    version: int
    made: dict[tuple[str, int, int], Coarse | None]  # by kind, and where a part of the codes starts and stops


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


def coarse(codes: Tensor, kind: str, part: slice) -> Coarse | None:
    """A part of the codes in few bits, made once; parts that overlap are not kept beside each other."""
    made, key = keep(codes).made, (kind, part.start, part.stop)
    with suppress(KeyError):  # another thread may take it away at any moment
        return made[key]
    for other, start, stop in list(made):
        if other == kind and start < part.stop and part.start < stop:
            made.pop((other, start, stop), None)
    with torch.no_grad():
        found = made[key] = Coarse.of(codes[part], kind)
    return found


def _version(codes: Tensor) -> int:
    return 0 if codes.is_inference() else codes._version
