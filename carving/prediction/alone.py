"""What a memory will hold, predicted from theory (plain numbers).

The question is whether every filler stored in a context scores higher than every other candidate there. Formulas give
the noise of the other pairs; `cores.py` draws contexts with that noise. Predictions are good to about two points from
some 50 pairs on. Every filler is taken to be stored about equally often, in contexts that are signed. Without signs
(`signed=False`) they hold for fillers that are all different. Compact fillers interfere by exactly (N-1)/d^p, and one
that is stored again like any other, because every component has a basis of its own.
"""

import math
from collections.abc import Callable

import torch

from carving.prediction.rivals import Noise, answered, kurtosis

# How strongly two bound fillers of different contexts interfere


def _variation(d: int, k1: int) -> float:
    """The relative variance of tr(P P'), P and P' the projections of two contexts; its mean is k1^2/d."""
    return 2 * (d - k1) ** 2 / (k1 * k1 * (d - 1) * (d + 2))


def _moment(mean: float, variation: float, order: int) -> float:
    """E x^order / (E x)^order of a Beta variable x."""
    if variation < 1e-12:
        return 1.0
    size = (1 - mean) / (mean * variation) - 1
    return math.prod((mean * size + i) / (size + i) / mean for i in range(order))


def excess(d: int, p: int, k1: int) -> float:
    """By how much interference exceeds (N-1)/d^p, as a fraction.

    The p components of a pair share their contexts, so their cosines are not independent: given the contexts, each has
    the variance tr(P P')/k1^2, whose p-th moment counts. Exact for p = 2 and for k1 = 1.
    """
    return _moment(k1 / d, _variation(d, k1), p) - 1


def likeness(d: int, p: int, k1: int) -> float:
    """The mean square of what one filler, bound in two contexts, has in common, times d^p: to about 10 %.

    For two different fillers it is 1 + excess. A carved component keeps the share k1/d of its filler, in both contexts.
    """
    kept, rest = (k1 / d) ** 2, (1 - k1 / d) ** 2 / (d - 1)
    variation = _variation(d, k1) * (2 * kept + rest) / (kept + rest)
    return (d * (kept + rest)) ** p * _moment(kept + rest, variation, p)


def interference(d: int, p: int, k1: int, pairs: int, shared: int = 1, *, compact: bool = False) -> float:
    """The variance of a stored filler's score, where `shared` of the pairs lie in its context."""
    more = 0.0 if compact else excess(d, p, k1)
    return (pairs - shared) / d**p * (1 + more) + (shared - 1) / k1**p


# Accuracy: the share of contexts in which every stored filler outranks every other candidate


def accuracy(noise: float, rival: float, vocabulary: int) -> float:
    """The chance that a score of 1 + N(0, noise) beats `vocabulary - 1` rivals of N(0, rival)."""
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    score = 1 + z * math.sqrt(noise)
    beaten = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / math.sqrt(rival)))
    return float((density * beaten).sum() / density.sum())


def osc_accuracy(
    d: int, p: int, k1: int, pairs: int, vocabulary: int, shared: int = 1, *, compact: bool = False, draft: bool = False
) -> float:
    """The share of contexts that OSC answers wholly right, `shared` fillers in each.

    A draft takes milliseconds, and is some points too high where k1 is small.
    """
    if vocabulary == shared:
        return 1.0
    if k1 == 1:  # on a line every candidate is the stored filler or its opposite
        return 0.5 ** (vocabulary - shared)
    # A sum of few outer products is not yet Gaussian; the factor is fitted.
    grain = math.factorial(p - 1) / 2 * kurtosis(p, k1) / max(1, pairs - shared)
    if compact:
        noise = Noise((pairs - shared) / d**p, grain=grain)
        return answered(p, k1, shared, 0.0, noise, vocabulary - shared, draft=draft)
    different = (1 + excess(d, p, k1)) / d**p
    kept, rest = (k1 / d) ** 2, (1 - k1 / d) ** 2 / (d - 1)
    noise = Noise(
        cores=(pairs - shared) * different,
        copy=max(0.0, likeness(d, p, k1) / d**p - different),
        copies=pairs / vocabulary,
        uneven=p * math.log1p((kept / (kept + rest)) ** 2 * 2 * (d - k1) / (k1 * (d + 2))),
        grain=grain,
    )
    share = round((d - k1) ** 2 / ((d - 1) * (d + 2)), 1)  # in steps, so that neighbours use the same contexts
    return answered(p, k1, shared, share, noise, vocabulary - shared, draft=draft)


def tpr_accuracy(d: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """The share of contexts that a TPR of depth one answers wholly right, with random unit roles and fillers."""
    noise = Noise((pairs - shared) / d**2, 1 / d - 1 / d**2, pairs / vocabulary, signs=False)
    return answered(1, d, shared, 0.0, noise, vocabulary - shared)


def vsa_accuracy(cells: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """The share of contexts that a vector symbolic architecture answers wholly right that keeps a raw sum of reals."""
    if shared == 1:
        noise = max((pairs - 1) / cells, 1e-12)
        return accuracy(noise, noise, vocabulary)
    return answered(1, cells, shared, 0.0, Noise((pairs - shared) / cells), vocabulary - shared)


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
