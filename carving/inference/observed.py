"""What is known of a memory that is decoded: its numbers, or the cells in which they lie.

Joint decoding writes down what all contexts are expected to hold, and asks again by what that leaves over. Of numbers
it is their difference. Of cells (generalized approximate message passing) it is what they tell of it: around the
expectation P, with the variance T of all that is still open, a number of the memory has the mean m and the variance v
within its cell, and with g = (m - P) / T

    noise = T / mean(1 - v / T),    residual = noise g,

which is the difference and its mean square again where cells are points, v = 0. T is as the cells make it most likely,
so that it knows of pairs in contexts that were not given.
"""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.inference.likelihood import squared_norm
from carving.quantization import Cells, Within
from carving.schemes.base import Scheme, check_memory
from carving.validate import check_tensor

LEAST = 1e-7  # of the memory's energy: below, the residual is rounding
EDGE = 1e-4  # deviations by which rounding may put a number beside its cell
FITS = 8  # of the variance in a round, at most
FITTED = 0.002  # the relative error of the variance that does no harm


class Residual(NamedTuple):
    """What expectations leave over of a memory."""

    numbers: Tensor
    noise: float  # its variance, in one real number of the memory
    left: float  # the share of the memory that is not explained
    explained: bool  # whether nothing is left but rounding


class Observed(Protocol):
    """What is known of a memory, and how decoding goes by it."""

    steady: float  # times the noise of the round before that are no sign of too long a step
    patience: int  # rounds without a change after which nothing more will come

    def residual(self, written: Tensor | None, onsager: Tensor, doubt: float) -> Residual:
        """What is left of it, with the Onsager term, where this was expected (None: nothing), and so much left open."""

    def explained_by(self, stored: Tensor) -> bool:
        """Whether this is the memory, but for rounding."""


def observed(scheme: Scheme, memory: Tensor | Cells) -> Observed:
    """What a memory's numbers, or its cells, tell."""
    return CellsSeen(scheme, memory) if isinstance(memory, Cells) else NumbersSeen(scheme, memory)


class NumbersSeen:
    """The numbers themselves."""

    steady, patience = 1.0, 3

    def __init__(self, scheme: Scheme, memory: Tensor) -> None:
        check_memory(scheme.facts, memory)
        self.scheme, self.even = scheme, scheme.remove_partial_traces(memory)
        self.energy, self.scalars = scheme.squared_norm(self.even), scheme.facts.memory_scalars
        if not math.isfinite(self.energy):
            raise BadValue(
                "The memory must contain finite numbers, got infinity or not-a-number. Store its pairs again."
            )
        self.least = LEAST * max(self.energy, 1.0) / self.scalars  # an empty memory has no energy at all

    def residual(self, written: Tensor | None, onsager: Tensor, doubt: float) -> Residual:
        """The difference."""
        left = self.even if written is None else self.even - self.scheme.remove_partial_traces(written)
        residual = left + onsager
        noise = max(self.scheme.squared_norm(residual) / self.scalars, self.least)
        unexplained = self.scheme.squared_norm(left) / max(self.energy, 1e-30)
        return Residual(residual, noise, unexplained, noise <= self.least)

    def explained_by(self, stored: Tensor) -> bool:
        """Whether nothing is left over."""
        return (
            self.scheme.squared_norm(self.even - self.scheme.remove_partial_traces(stored)) <= self.least * self.scalars
        )


class CellsSeen:
    """Cells, in which the numbers lie."""

    steady, patience = 1.1, 12  # near the threshold it goes slowly, and not straight

    def __init__(self, scheme: Scheme, cells: Cells) -> None:
        shape = (*scheme.facts.memory_shape, 2) if scheme.facts.memory_dtype.is_complex else scheme.facts.memory_shape
        check_tensor("cells", cells.codes, shape, "quantize a memory of this scheme", torch.uint8)
        self.scheme, self.cells = scheme, cells
        self.whole = max(cells.deviation**2, torch.finfo(torch.float32).tiny)
        self.variance = self.whole  # of what is open, as it was fitted last

    def residual(self, written: Tensor | None, onsager: Tensor, doubt: float) -> Residual:
        """What the cells tell of the difference."""
        expected = -onsager if written is None else written - onsager
        means = torch.view_as_real(expected) if expected.is_complex() else expected
        # What is open may well lie in all cells in the mean.
        sure = doubt <= LEAST * self.whole * means.numel()
        explained = sure and written is not None and self.explained_by(written)
        within = self._fit(means, LEAST * self.whole if explained else self.variance, 1 if explained else FITS)
        shifts = torch.view_as_complex(within.shifts) if expected.is_complex() else within.shifts
        told = max(1 - within.variance / self.variance, LEAST)  # the share of the variance that the cells take away
        even = self.scheme.remove_partial_traces(shifts)
        return Residual(even / told, self.variance / told, self.variance / self.whole, explained)

    def explained_by(self, stored: Tensor) -> bool:
        """Whether every number lies in its cell."""
        return not self.cells.outside(torch.view_as_real(stored) if stored.is_complex() else stored, EDGE)

    def _fit(self, means: Tensor, start: float, steps: int) -> Within:
        """What the cells leave of the most likely variance, which is what then remains of it in the mean.

        The logarithm of what remains over what was assumed falls through zero there: sought by secants.
        """
        log, before = math.log(start), None
        for _ in range(steps):
            self.variance = math.exp(log)
            within = self.cells.within(means, self.variance)
            remains = squared_norm(within.shifts) / within.shifts.numel() + within.variance
            excess = math.log(remains / self.variance)
            if abs(excess) < FITTED:
                break
            slope = -0.5 if before is None else (excess - before[1]) / (log - before[0])
            before = log, excess
            step = min(3.0, abs(excess / min(slope, -0.1)))
            log += math.copysign(step, excess)
            log = min(max(log, math.log(LEAST * self.whole)), math.log(4 * self.whole))
            if log == before[0]:
                break
        return within
