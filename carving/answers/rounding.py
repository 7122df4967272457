"""A solved memory in few bits a cell: rounded with the solver in the loop.

Numbers are rounded to the middles of 2^bits equal steps over a few of their own deviations, either way. What rounding
breaks, the solver mends: the gradient of the rounded memory moves the numbers that are rounded (straight through), by
Adam, until enough contexts are right again. The memory that was right most often counts.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from carving.cells import REACH, check_bits

STEP = 0.05  # of Adam, in deviations, falling to nothing
FIRST, SECOND = 0.9, 0.99  # how slowly its moments change

Quantiser = Callable[[Tensor], Tensor]  # numbers (m,) -> the numbers that are kept of them


def steps(numbers: Tensor, bits: int) -> Quantiser:
    """What rounds numbers of this deviation to so many bits.

    >>> rounded = steps(torch.tensor([-1.0, 1.0]), bits=2)
    >>> [round(number, 2) for number in rounded(torch.tensor([-9.0, -0.2, 0.7, 1.1])).tolist()]
    [-1.34, -0.45, 0.45, 1.34]
    """
    half, deviation = 2 ** (check_bits(bits) - 1), float(numbers.double().square().mean().sqrt())
    step = REACH[bits] * deviation / half or 1.0

    def rounded(given: Tensor) -> Tensor:
        return given.div(step).floor_().clamp_(-half, half - 1).add_(0.5).mul_(step)

    return rounded


class Rounded(NamedTuple):
    """The best rounded numbers, and how many contexts they name rightly."""

    numbers: Tensor
    right: int
    evaluations: int


def rounded(
    value: Callable[[Tensor], tuple[int, Tensor]], start: Tensor, keep: Quantiser, enough: int, most: int
) -> Rounded:
    """Numbers as they are kept for which `value` counts enough; it gives the count and the gradient."""
    free, deviation = start.clone(), float(start.double().square().mean().sqrt())
    mean, square = torch.zeros_like(free), torch.zeros_like(free)
    best = Rounded(keep(free), -1, 0)
    for number in range(1, most + 1):
        kept = keep(free)
        right, gradient = value(kept)
        if right > best.right:
            best = Rounded(kept, right, number)
        if right >= enough:
            break
        mean.lerp_(gradient, 1 - FIRST)
        square.lerp_(gradient.square(), 1 - SECOND)
        length = STEP * deviation * (1 - number / most) * (1 - SECOND**number) ** 0.5 / (1 - FIRST**number)
        free = torch.addcdiv(free, mean, square.sqrt().add_(1e-12), value=-length)
    return best._replace(evaluations=number)
