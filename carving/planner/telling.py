"""Whether a memory tells where nothing is stored, predicted from theory (plain numbers).

A value is answered where it is more probable than nothing: where its score exceeds 1/2 + s^2 log L, with s^2 the
variance of the noise and L values that are as probable as each other, and together as nothing.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch

NAMING = 0.1  # the share of the errors that naming values may make, where it is also to be told what is not stored
NODES = torch.linspace(-3, 3, 9, dtype=torch.float64)  # of how noise differs from question to question,
POINTS = torch.linspace(-8, 8, 321, dtype=torch.float64)  # and of what it is


class Stray(NamedTuple):
    """What a value shows of itself where it is not stored."""

    variance: float  # of all pairs
    pair: float  # of one of them
    uneven: float = 0.0  # the relative variance of the variance from question to question


@lru_cache(maxsize=2**14)
def share_told(stray: Stray, vocabulary: int) -> float:
    """The share of right answers where half of the contexts that are asked for hold one value, and half hold nothing.

    >>> round(share_told(Stray(0.055, 0.055 / 20), vocabulary=2), 3)
    0.978
    """
    variance = max(stray.variance, 1e-12)
    least = 0.5 + variance * math.log(vocabulary)
    spread = math.log1p(stray.uneven)
    louder = torch.exp(math.sqrt(spread) * NODES - spread / 2).unsqueeze(1)
    weights = NODES.square().div(-2).softmax(0)
    elsewhere, there = (math.sqrt(max(each, 1e-12)) * louder.sqrt() for each in (variance, variance - stray.pair))
    nothing = torch.exp(vocabulary * torch.special.log_ndtr(least / elsewhere)).squeeze(1)
    score = 1 + there * POINTS
    best = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / elsewhere)) * (score > least)
    named = (best * POINTS.square().div(-2).softmax(0)).sum(1)
    return float(((nothing + named) / 2 * weights).sum())
