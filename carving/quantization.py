"""Scalar quantization: real numbers in 1 to 8 bits each, as indices of uniform bins that are open at both ends.

Bins are in units of the numbers' standard deviation. A normal number is best replaced by the mean of its bin. The
distortion D is the share of the variance that this loses.
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

# Half the range of the uniform bins by bits, in standard deviations. For 2, 3 and 4 bits it is nine tenths of the range
# of least distortion: bins that are used more evenly tell joint decoding more, and D grows by 0.001 at most.
REACH = {1: 1.0, 2: 1.79, 3: 2.07, 4: 2.43, 8: 3.93}
BITS = tuple(REACH)
CHUNK = 2**20  # numbers that are processed at a time
MIN_VARIANCE = 1e-9  # a lower limit of the variance of truncated numbers, relative to the variance before


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers quantized to bins.

    >>> cells = Cells.of(torch.tensor([-2.0, -0.3, 0.1, 0.4, 1.6]), bits=2)
    >>> cells.codes.tolist(), [round(number, 2) for number in cells.numbers().tolist()]
    ([0, 1, 2, 2, 3], [-1.78, -0.52, 0.52, 0.52, 1.78])
    """

    codes: Tensor  # uint8, the bin of each number
    bits: int
    deviation: float  # the root mean square of the numbers, in single precision
    kept: float  # the share of the energy that the bins' means keep: about 1 - D for normal numbers

    @classmethod
    def of(cls, numbers: Tensor, bits: int) -> "Cells":
        """Quantize real numbers."""
        flat, bits = numbers.detach().reshape(-1), check_bits(bits)
        energy = math.fsum(float(part.double().square().sum()) for part in flat.split(CHUNK))
        if not math.isfinite(energy):
            raise BadValue("Only finite numbers can be quantized, got infinity or not-a-number. Store the pairs again.")
        deviation = single(math.sqrt(energy / max(1, len(flat))))
        codes = torch.empty(flat.shape, dtype=torch.uint8, device=flat.device)
        inner, common = edges(bits, flat.device)[1:-1], 0.0
        means = levels(bits).to(flat.device)
        for part in slices(len(flat), CHUNK):
            exact = flat[part].double()
            codes[part] = torch.bucketize(exact, inner * deviation, right=True).to(torch.uint8)
            common += float((exact * means[codes[part].long()]).sum())
        kept = common * deviation / energy if energy else 1.0
        return cls(codes.view(numbers.shape), bits, deviation, single(kept))

    @classmethod
    def solved(cls, numbers: Tensor, bits: int, deviation: float) -> "Cells":
        """Quantize numbers that shall become the means of their bins, for a given deviation: all energy is kept."""
        flat, inner = numbers.reshape(-1), edges(bits, numbers.device)[1:-1] * deviation
        parts = [torch.bucketize(part.double(), inner, right=True).to(torch.uint8) for part in flat.split(CHUNK)]
        return cls(torch.cat(parts).view(numbers.shape), bits, single(deviation), 1.0)

    def numbers(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the dequantized numbers: the means of their bins divided by `kept`, so that scores are unbiased.

        Their energy exceeds the energy of the numbers by 1 / kept, which is the quantization noise.
        """
        values = (levels(self.bits) * (self.deviation / self.kept)).to(self.codes.device, dtype)
        whole = torch.empty(self.codes.shape, dtype=dtype, device=self.codes.device)
        flat, codes = whole.view(-1), self.codes.reshape(-1)
        for part in slices(len(codes), CHUNK):
            flat[part] = values[codes[part].long()]
        return whole

    def to(self, device: torch.device | str) -> "Cells":
        """Return them on another device."""
        return Cells(self.codes.to(device), self.bits, self.deviation, self.kept)

    def outside(self, numbers: Tensor, tolerance: float) -> int:
        """Return how many numbers of the same shape lie outside of these bins by more than `tolerance` deviations."""
        bounds, room = edges(self.bits, self.codes.device) * self.deviation, tolerance * self.deviation
        flat, count = numbers.reshape(-1), 0
        for part, codes in self._parts():
            exact = flat[part].double()
            count += int(((exact < bounds[codes] - room) | (exact > bounds[codes + 1] + room)).sum())
        return count

    def within(self, means: Tensor, variance: float) -> "Within":
        """Return normal numbers of these means and this variance, truncated to their bins."""
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
        return ((part, codes[part].long()) for part in slices(len(codes), CHUNK))


class Within(NamedTuple):
    """Normal distributions, truncated to bins."""

    shifts: Tensor  # of the means
    variance: float  # the average variance of the truncated distributions


def check_bits(bits: int) -> int:
    """Return the bits; refuse numbers of bits that are not supported."""
    way_out = f"A cell has {', '.join(map(str, BITS[:-1]))} or {BITS[-1]} bits."
    return check_choice("bits", check_integer("bits", bits, BITS[0], BITS[-1], way_out), BITS)


def single(number: float) -> float:
    """Return a number rounded to single precision, as files hold it."""
    return float(np.float32(number))


@lru_cache(maxsize=16)
def _edges(bits: int) -> Tensor:
    steps = torch.linspace(-REACH[bits], REACH[bits], 2**bits + 1, dtype=torch.float64)
    steps[0], steps[-1] = -math.inf, math.inf
    return steps


def edges(bits: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the ends of the bins, from minus infinity to infinity, in deviations."""
    return _edges(bits).to(device)


@lru_cache(maxsize=16)
def levels(bits: int) -> Tensor:
    """Return the means of the bins for normal numbers, in deviations.

    >>> levels(1).tolist() == [-math.sqrt(2 / math.pi), math.sqrt(2 / math.pi)]
    True
    """
    ends = _edges(bits)
    return truncated(ends[:-1], ends[1:], 1.0)[0]


@lru_cache(maxsize=16)
def distortion(bits: int) -> float:
    """Return D, the share of the variance of normal numbers that the means of their bins lose.

    >>> [round(distortion(bits), 4) for bits in BITS]
    [0.3634, 0.1191, 0.0368, 0.011, 0.0001]
    """
    chances = torch.special.ndtr(_edges(bits)).diff()
    return 1 - float((chances * levels(bits).square()).sum())


def truncated(low: Tensor, high: Tensor, variance: float) -> tuple[Tensor, Tensor]:
    """Return mean and variance of normal numbers of mean zero and this variance, truncated to low..high, in float64."""
    scale = math.sqrt(variance)
    # In the lower tail, where probabilities keep their digits.
    upper = low + high > 0
    a, b = (torch.where(upper, -high, low) / scale, torch.where(upper, -low, high) / scale)
    below, above = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    log_chance = above + torch.log(-torch.expm1(below - above))
    at_a, at_b = (torch.exp(-end.square() / 2 - log_chance) / math.sqrt(2 * math.pi) for end in (a, b))
    mean = at_a - at_b
    square = 1 + torch.where(a.isinf(), 0.0, a * at_a) - torch.where(b.isinf(), 0.0, b * at_b)
    left = (square - mean.square()).clamp(MIN_VARIANCE, 1.0)
    return torch.where(upper, -mean, mean) * scale, left * variance


# Packed


def packed(codes: Tensor, bits: int) -> Tensor:
    """Return codes packed to bytes without gaps, the highest bit first.

    >>> packed(torch.tensor([3, 0, 1], dtype=torch.uint8), bits=2).tolist()
    [196]
    """
    flat = codes.reshape(-1).cpu().numpy()
    parts = [np.packbits(np.unpackbits(flat[part, None], axis=1)[:, 8 - bits :]) for part in slices(len(flat), CHUNK)]
    return torch.from_numpy(np.concatenate(parts)) if parts else torch.zeros(0, dtype=torch.uint8)


def unpacked(data: Tensor, bits: int, count: int) -> Tensor:
    """Return `count` codes of packed bytes; refuse another number of bytes, and bits set beyond the last code.

    >>> unpacked(torch.tensor([196], dtype=torch.uint8), bits=2, count=3).tolist()
    [3, 0, 1]
    """
    raw = data.numpy()
    if len(raw) != -(-count * bits // 8):
        raise BadValue(f"{count} cells of {bits} bits need {-(-count * bits // 8)} bytes, got {len(raw)}")
    codes = np.empty(count, dtype=np.uint8)
    for part in slices(count, CHUNK):  # whole bytes, of all bits
        width = part.stop - part.start
        chosen = np.unpackbits(raw[part.start * bits // 8 : -(-part.stop * bits // 8)])
        if chosen[width * bits :].any():
            raise BadValue("the last byte has bits beyond the last cell")
        wide = np.zeros((width, 8), dtype=np.uint8)
        wide[:, 8 - bits :] = chosen[: width * bits].reshape(width, bits)
        codes[part] = np.packbits(wide, axis=1)[:, 0]
    return torch.from_numpy(codes)
