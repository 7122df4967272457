"""The noise that joint decoding meets in a quantized memory, predicted from its bins.

With T the variance of what is open, as a share of the memory's, an expectation P has the variance 1 - T, and a number
around it lies in some cell. That takes away the share 1 - v / T of its variance, in the mean of all numbers; the noise
is T over that (`answers/observed.py`). With all open it is 1 / (1 - D), and real numbers have T itself.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from carving.quantization import distortion, edges, truncated

LOWEST = -12.0  # log10 of the smallest T in the table
POINTS = 73  # of the table, evenly in the logarithm of T
FINE = 6  # points of the grid of P in a deviation of what is open
NEAR = 6  # deviations of what is open in a step: beyond, every edge is alone
NORMAL = 8  # bits whose cells are as good as a little normal noise


def noise_in_cells(open_: float, bits: int) -> float:
    """The noise where this share of the memory's variance is open, as a share of the same.

    >>> [round(noise_in_cells(1.0, bits), 3) for bits in (1, 2, 4)]
    [1.571, 1.135, 1.011]
    """
    position = (1 - max(math.log10(max(open_, 1e-300)) / LOWEST, 0.0)) * (POINTS - 1)
    if position < 0:
        return noise_in_cells(10**LOWEST, bits)
    low = min(int(position), POINTS - 2)
    here, after = _table(bits)[low : low + 2].tolist()
    return open_ / math.exp(here + (position - low) * (after - here))


@lru_cache(maxsize=8)
def _table(bits: int) -> Tensor:
    """The logarithms of the shares that cells take away, from the smallest T to 1."""
    logs = torch.linspace(LOWEST, 0, POINTS, dtype=torch.float64)
    return torch.tensor([math.log(told(10**log, bits)) for log in logs.tolist()], dtype=torch.float64)


def told(open_: float, bits: int) -> float:
    """The share 1 - v / T of the open variance T that the cells take away, in the mean."""
    ends, scale, spread = edges(bits), math.sqrt(open_), math.sqrt(max(1 - open_, 0.0))
    step = float(ends[2] - ends[1]) if bits > 1 else math.inf
    if scale * NEAR < min(step, 1.0):
        # Around an edge, u deviations off, the two sides have the means -+ phi / Phi, whose mean square this adds up.
        u = torch.linspace(-7, 7, 2801, dtype=torch.float64)
        density = torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi)
        square = density.square() * (1 / torch.special.ndtr(u) + 1 / torch.special.ndtr(-u))
        along = torch.exp(-(ends[1:-1] / spread).square() / 2) / (spread * math.sqrt(2 * math.pi))
        return float(square.sum() * (u[1] - u[0]) * along.sum() * scale)
    if bits >= NORMAL:
        return open_ / (open_ + distortion(bits))
    count = 1 if not spread else 2 * math.ceil(8 * spread * FINE / scale) + 1
    expected = (
        torch.linspace(-8 * spread, 8 * spread, count, dtype=torch.float64) if spread else torch.zeros(1).double()
    )
    weights = torch.softmax(-(expected / max(spread, 1e-30)).square() / 2, 0)
    low, high = (part - expected.unsqueeze(1) for part in (ends[:-1], ends[1:]))
    chances = torch.special.ndtr(high / scale) - torch.special.ndtr(low / scale)
    shifts = truncated(low, high, open_)[0]
    return float(weights @ (chances * shifts.square()).sum(1)) / open_
