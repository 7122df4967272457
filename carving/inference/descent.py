"""The least value of a smooth convex function of many numbers: L-BFGS with a line search, one evaluation at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

STEPS = 8  # earlier steps that tell the curvature: each keeps two tensors of the argument's size
ENOUGH = 1e-4  # of what the slope promises must come of a step
SHORTEST = 2.0**-12  # of a step, below which rounding decides

Function = Callable[[Tensor], tuple[float, Tensor]]  # the value and the gradient


@dataclass
class Curvature:
    """What the last steps tell of the second derivatives."""

    first: float  # the length of a step along the gradient, before anything is known
    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # steps, and by how much they changed the gradient

    def add(self, step: Tensor, change: Tensor) -> None:
        """Learn from a step; one that met no curvature tells nothing."""
        if float(torch.dot(step, change)) > 0:
            self.pairs = [*self.pairs[1 - STEPS :], (step, change)]

    def direction(self, gradient: Tensor) -> Tensor:
        """Where to go: the gradient, divided by the curvature."""
        towards, shares = gradient.clone(), []
        for step, change in reversed(self.pairs):
            shares.append(torch.dot(step, towards) / torch.dot(step, change))
            towards -= shares[-1] * change
        if self.pairs:
            step, change = self.pairs[-1]
            towards *= torch.dot(step, change) / torch.dot(change, change)
        else:
            towards *= self.first
        for step, change in self.pairs:
            towards += (shares.pop() - torch.dot(change, towards) / torch.dot(step, change)) * step
        return towards


def descend(function: Function, start: Tensor, first: float) -> Iterator[tuple[Tensor, float]]:
    """Every argument (m,) that is better than those before, with its value, for as long as there are any.

    The function is asked once or twice a step; `first` is the length of the first step along the gradient.

    >>> bowl = lambda x: (float((x - 3).square().sum()), 2 * (x - 3))
    >>> [(x.tolist(), value) for x, value in descend(bowl, torch.zeros(2), first=0.5)]
    [([0.0, 0.0], 18.0), ([3.0, 3.0], 0.0)]
    """
    curvature = Curvature(first)
    value, gradient = function(start)
    yield start, value
    while True:
        direction = curvature.direction(gradient)
        slope, length = float(torch.dot(direction, gradient)), 1.0
        if not slope > 0:
            return
        while True:
            there = start - length * direction
            new_value, new_gradient = function(there)
            if new_value <= value - ENOUGH * length * slope:
                break
            length /= 2
            if length < SHORTEST:
                return
        curvature.add(there - start, new_gradient - gradient)
        start, value, gradient = there, new_value, new_gradient
        yield start, value
