"""A solved memory in few bits a cell: rounded with the solver in the loop.

Numbers are rounded to the means of the cells (`cells.py`) in which they lie, so that a quantized file holds all of it.
What rounding breaks, the solver mends: the gradient of the rounded memory moves the numbers that are rounded (straight
through), by Adam, until enough contexts are right again. The memory that was right most often counts.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from carving.quantization import Cells, check_bits, single

STEP = 0.05  # of Adam, in deviations, falling to nothing
FIRST, SECOND = 0.9, 0.99  # how slowly its moments change


class Rounded(NamedTuple):
    """The best cells, and how many contexts their numbers name rightly."""

    cells: Cells
    right: int
    evaluations: int


def rounded(value: Callable[[Tensor], tuple[int, Tensor]], start: Tensor, bits: int, enough: int, most: int) -> Rounded:
    """Cells near these numbers (m,) for which `value` counts enough; it gives the count and the gradient.

    >>> towards = torch.tensor([0.3, -0.3, 2.0])
    >>> found = rounded(lambda x: (int((x * towards > 0).sum()), x - towards), torch.ones(3), bits=1, enough=3, most=99)
    >>> found.right, found.cells.codes.tolist()
    (3, [1, 0, 1])
    """
    free, deviation = start.clone(), single(float(start.double().square().mean().sqrt())) or 1.0
    mean, square = torch.zeros_like(free), torch.zeros_like(free)
    best, bits = Rounded(Cells.solved(free, check_bits(bits), deviation), -1, 0), check_bits(bits)
    for number in range(1, most + 1):
        cells = Cells.solved(free, bits, deviation)
        right, gradient = value(cells.numbers(free.dtype))
        if right > best.right:
            best = Rounded(cells, right, number)
        if right >= enough:
            break
        mean.lerp_(gradient, 1 - FIRST)
        square.lerp_(gradient.square(), 1 - SECOND)
        length = STEP * deviation * (1 - number / most) * (1 - SECOND**number) ** 0.5 / (1 - FIRST**number)
        free = torch.addcdiv(free, mean, square.sqrt().add_(1e-12), value=-length)
    return best._replace(evaluations=number)
