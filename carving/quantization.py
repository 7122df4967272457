"""Real numbers as few bits: cells of equal steps, open at both ends, and what is known of a number that lies in one.

All is in units of the numbers' own deviation. A number of a normal distribution is best replaced by the mean of its
cell; what that leaves of the variance is the distortion D, so that the replaced numbers hold the share 1 - D of them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from carving.errors import BadValue
from carving.tiling import slices
from carving.validate import check_choice, check_integer

# The deviations over which the cells of so many bits have equal steps, either way. For 2, 3 and 4 bits nine tenths of
# those of the least distortion: cells that are used more evenly tell joint decoding more, and D grows by 0.001 at most.
REACH = {1: 1.0, 2: 1.79, 3: 2.07, 4: 2.43, 8: 3.93}
BITS = tuple(REACH)
AT_ONCE = 2**20  # numbers that are looked at in one go
NARROW = 1e-9  # of the variance around them is left at least, where numbers lie in a cell


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells in which numbers lie, and what makes numbers of them again.

    >>> cells = Cells.of(torch.tensor([-2.0, -0.3, 0.1, 0.4, 1.6]), bits=2)
    >>> cells.codes.tolist(), [round(number, 2) for number in cells.numbers().tolist()]
    ([0, 1, 2, 2, 3], [-1.78, -0.52, 0.52, 0.52, 1.78])
    """

    codes: Tensor  # uint8, a cell each
    bits: int
    deviation: float  # of the numbers: the root of their mean square, in single precision
    kept: float  # what the cells' means keep of the numbers: about 1 - D, the more the less normal they are

    @classmethod
    def of(cls, numbers: Tensor, bits: int) -> "Cells":
        """The cells of real numbers."""
        flat, bits = numbers.detach().reshape(-1), check_bits(bits)
        energy = math.fsum(float(part.double().square().sum()) for part in flat.split(AT_ONCE))
        if not math.isfinite(energy):
            raise BadValue("Only finite numbers can be quantized, got infinity or not-a-number. Store the pairs again.")
        deviation = single(math.sqrt(energy / max(1, len(flat))))
        codes = torch.empty(flat.shape, dtype=torch.uint8, device=flat.device)
        inner, common = edges(bits, flat.device)[1:-1], 0.0
        means = levels(bits).to(flat.device)
        for part in slices(len(flat), AT_ONCE):
            exact = flat[part].double()
            codes[part] = torch.bucketize(exact, inner * deviation, right=True).to(torch.uint8)
            common += float((exact * means[codes[part].long()]).sum())
        kept = common * deviation / energy if energy else 1.0
        return cls(codes.view(numbers.shape), bits, deviation, single(kept))

    @classmethod
    def solved(cls, numbers: Tensor, bits: int, deviation: float) -> "Cells":
        """The cells of numbers that are to become the cells' means, for a deviation that is given: all is kept."""
        flat, inner = numbers.reshape(-1), edges(bits, numbers.device)[1:-1] * deviation
        parts = [torch.bucketize(part.double(), inner, right=True).to(torch.uint8) for part in flat.split(AT_ONCE)]
        return cls(torch.cat(parts).view(numbers.shape), bits, single(deviation), 1.0)

    def numbers(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The numbers as far as the cells tell them: their means, made larger so that they hold all of the numbers.

        Their energy is by 1 / kept larger than that of the numbers: the noise of having few bits is in it.
        """
        values = (levels(self.bits) * (self.deviation / self.kept)).to(self.codes.device, dtype)
        whole = torch.empty(self.codes.shape, dtype=dtype, device=self.codes.device)
        flat, codes = whole.view(-1), self.codes.reshape(-1)
        for part in slices(len(codes), AT_ONCE):
            flat[part] = values[codes[part].long()]
        return whole

    def to(self, device: torch.device | str) -> "Cells":
        """The same on another device."""
        return Cells(self.codes.to(device), self.bits, self.deviation, self.kept)

    def outside(self, numbers: Tensor, tolerance: float) -> int:
        """How many numbers of the same shape lie outside of these cells, by more than so many deviations."""
        bounds, room = edges(self.bits, self.codes.device) * self.deviation, tolerance * self.deviation
        flat, count = numbers.reshape(-1), 0
        for part, codes in self._parts():
            exact = flat[part].double()
            count += int(((exact < bounds[codes] - room) | (exact > bounds[codes + 1] + room)).sum())
        return count

    def within(self, means: Tensor, variance: float) -> "Within":
        """Numbers of normal distributions with these means and this variance, as the cells let them be."""
        bounds = edges(self.bits, self.codes.device) * self.deviation
        shifts, shrunk = torch.empty_like(means, memory_format=torch.contiguous_format), 0.0
        flat, given = shifts.view(-1), means.reshape(-1)
        for part, codes in self._parts():
            mean = given[part].double()
            shift, left = truncated(bounds[codes] - mean, bounds[codes + 1] - mean, variance)
            flat[part] = shift.to(flat.dtype)
            shrunk += float(left.sum())
        return Within(shifts, shrunk / max(1, len(flat)))

    def _parts(self) -> Iterator[tuple[slice, Tensor]]:
        codes = self.codes.reshape(-1)
        return ((part, codes[part].long()) for part in slices(len(codes), AT_ONCE))


class Within(NamedTuple):
    """What cells make of normal distributions."""

    shifts: Tensor  # by how much the means move
    variance: float  # what is left of the variance, in the mean


def check_bits(bits: int) -> int:
    """Refuse bits that no cells have."""
    way_out = f"A cell has {', '.join(map(str, BITS[:-1]))} or {BITS[-1]} bits."
    return check_choice("bits", check_integer("bits", bits, BITS[0], BITS[-1], way_out), BITS)


def single(number: float) -> float:
    """A number in single precision, which is what files hold."""
    return float(np.float32(number))


@lru_cache(maxsize=16)
def _edges(bits: int) -> Tensor:
    steps = torch.linspace(-REACH[bits], REACH[bits], 2**bits + 1, dtype=torch.float64)
    steps[0], steps[-1] = -math.inf, math.inf
    return steps


def edges(bits: int, device: torch.device | str = "cpu") -> Tensor:
    """Where the cells end, from minus infinity to infinity, in deviations."""
    return _edges(bits).to(device)


@lru_cache(maxsize=16)
def levels(bits: int) -> Tensor:
    """The means of the cells, for normal numbers, in deviations.

    >>> levels(1).tolist() == [-math.sqrt(2 / math.pi), math.sqrt(2 / math.pi)]
    True
    """
    ends = _edges(bits)
    return truncated(ends[:-1], ends[1:], 1.0)[0]


@lru_cache(maxsize=16)
def distortion(bits: int) -> float:
    """D: the share of the variance of normal numbers that the means of their cells lose.

    >>> [round(distortion(bits), 4) for bits in BITS]
    [0.3634, 0.1191, 0.0368, 0.011, 0.0001]
    """
    chances = torch.special.ndtr(_edges(bits)).diff()
    return 1 - float((chances * levels(bits).square()).sum())


def truncated(low: Tensor, high: Tensor, variance: float) -> tuple[Tensor, Tensor]:
    """Mean and variance of normal numbers around zero, of this variance, that lie between low and high; in doubles."""
    scale = math.sqrt(variance)
    # In the lower tail, where probabilities keep their digits.
    upper = low + high > 0
    a, b = (torch.where(upper, -high, low) / scale, torch.where(upper, -low, high) / scale)
    below, above = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    log_chance = above + torch.log(-torch.expm1(below - above))
    at_a, at_b = (torch.exp(-end.square() / 2 - log_chance) / math.sqrt(2 * math.pi) for end in (a, b))
    mean = at_a - at_b
    square = 1 + torch.where(a.isinf(), 0.0, a * at_a) - torch.where(b.isinf(), 0.0, b * at_b)
    left = (square - mean.square()).clamp(NARROW, 1.0)
    return torch.where(upper, -mean, mean) * scale, left * variance


# Packed


def packed(codes: Tensor, bits: int) -> Tensor:
    """Codes as bytes, one after the other, the highest bit first.

    >>> packed(torch.tensor([3, 0, 1], dtype=torch.uint8), bits=2).tolist()
    [196]
    """
    flat = codes.reshape(-1).cpu().numpy()
    parts = [np.packbits(np.unpackbits(flat[part, None], axis=1)[:, 8 - bits :]) for part in slices(len(flat), AT_ONCE)]
    return torch.from_numpy(np.concatenate(parts)) if parts else torch.zeros(0, dtype=torch.uint8)


def unpacked(data: Tensor, bits: int, count: int) -> Tensor:
    """So many codes of bytes; bytes of another number, or with something in the bits that are left over, are refused.

    >>> unpacked(torch.tensor([196], dtype=torch.uint8), bits=2, count=3).tolist()
    [3, 0, 1]
    """
    raw = data.numpy()
    if len(raw) != -(-count * bits // 8):
        raise BadValue(f"{count} cells of {bits} bits need {-(-count * bits // 8)} bytes, got {len(raw)}")
    codes = np.empty(count, dtype=np.uint8)
    for part in slices(count, AT_ONCE):  # whole bytes, of all bits
        width = part.stop - part.start
        chosen = np.unpackbits(raw[part.start * bits // 8 : -(-part.stop * bits // 8)])
        if chosen[width * bits :].any():
            raise BadValue("the last byte has bits beyond the last cell")
        wide = np.zeros((width, 8), dtype=np.uint8)
        wide[:, 8 - bits :] = chosen[: width * bits].reshape(width, bits)
        codes[part] = np.packbits(wide, axis=1)[:, 0]
    return torch.from_numpy(codes)
