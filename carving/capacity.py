"""What a memory will hold, predicted from theory (plain numbers).

A score is 1 for the filler that is stored, plus noise of the other pairs; the question is whether any of the
other candidates beats it. These closed forms are a first guess, good while k1 is not very small (5 or more)
and contexts are not shared.
"""

import math
from collections.abc import Callable

import torch


def excess(d: int, p: int, k1: int) -> float:
    """By how much interference exceeds (N-1)/d^p, as a fraction.

    The p components of a pair share their contexts, so their cosines are not independent: exactly
    2 (d-k1)^2 / (k1^2 (d-1) (d+2)) for p = 2, and about that for each pair of more components.
    """
    return p * (p - 1) * (d - k1) * (d - k1) / (k1 * k1 * (d - 1) * (d + 2))


def interference(d: int, p: int, k1: int, pairs: int, shared: int = 1) -> float:
    """The variance of a stored filler's score, where `shared` of the pairs lie in its context."""
    return (pairs - shared) / d**p * (1 + excess(d, p, k1)) + (shared - 1) / k1**p


def accuracy(noise: float, rival: float, vocabulary: int) -> float:
    """The chance that a score of 1 + N(0, noise) beats `vocabulary - 1` rivals of N(0, rival)."""
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    score = 1 + z * math.sqrt(noise)
    beaten = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / math.sqrt(rival)))
    return float((density * beaten).sum() / density.sum())


def osc_accuracy(d: int, p: int, k1: int, pairs: int, vocabulary: int) -> float:
    """The share of pairs that OSC recalls, each in a context of its own."""
    noise = interference(d, p, k1, pairs)
    return accuracy(noise, noise + 1 / k1**p, vocabulary)


def vsa_accuracy(cells: int, pairs: int, vocabulary: int) -> float:
    """The share of pairs that a vector symbolic architecture recalls that keeps a raw sum of real numbers."""
    noise = (pairs - 1) / cells
    return accuracy(noise, noise, vocabulary)


def tpr_accuracy(d: int, pairs: int, vocabulary: int) -> float:
    """The share of pairs that a TPR of depth one recalls with random unit roles and fillers."""
    return accuracy((pairs - 1) / d**2, (pairs - 2) / d**2 + 2 / d, vocabulary)


def smallest(predicted: Callable[[int], float], wanted: float) -> int:
    """The smallest size at which a prediction that grows with it reaches the wanted accuracy."""
    high = 2
    while predicted(high) < wanted:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if predicted(middle) >= wanted else (middle, high)
    return high
