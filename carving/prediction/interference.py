"""How strongly bound fillers of OSC interfere: exact moments, or to a few percent (plain numbers)."""

import math
from typing import Literal

Basis = Literal["gaussian", "blocks"]  # of the subspaces that contexts keep


def excess(d: int, p: int, k1: int) -> float:
    """By how much interference exceeds (N-1)/d^p, as a fraction.

    The p components of a pair share their contexts, so their cosines are not independent: given the contexts, each has
    the variance tr(P P')/k1^2, whose p-th moment counts. Exact for p = 2 and for k1 = 1.

    >>> round(excess(d=40, p=3, k1=6), 2)
    0.12
    """
    return _moment(k1 / d, _variation(d, k1), p) - 1


def echo(d: int, p: int, k1: int) -> float:
    """The mean square of what one filler, bound in two contexts, has in common, times d^p: to about 10 %.

    For two different fillers it is 1 + excess.

    >>> round(echo(d=40, p=3, k1=6), 1)
    5.3
    """
    kept, rest = overlap(d, k1)
    variation = _variation(d, k1) * (2 * kept + rest) / (kept + rest)
    return (d * (kept + rest)) ** p * _moment(kept + rest, variation, p)


def interference(d: int, p: int, k1: int, pairs: int, shared: int = 1, *, compact: bool = False) -> float:
    """The variance of a stored filler's score, where `shared` of the pairs lie in its context.

    >>> interference(d=100, p=2, k1=10, pairs=1001, compact=True)
    0.1
    """
    more = 0.0 if compact else excess(d, p, k1)
    return (pairs - shared) / d**p * (1 + more) + (shared - 1) / k1**p


def overlap(d: int, k1: int) -> tuple[float, float]:
    """The mean square cosine of a component carved in two contexts: from the filler itself, and from chance.

    A carved component keeps the share k1/d of its filler, in both contexts.
    """
    return (k1 / d) ** 2, (1 - k1 / d) ** 2 / (d - 1)


def _variation(d: int, k1: int) -> float:
    """The relative variance of tr(P P'), P and P' the projections of two contexts; its mean is k1^2/d."""
    return 2 * (d - k1) ** 2 / (k1 * k1 * (d - 1) * (d + 2))


def _moment(mean: float, variation: float, order: int) -> float:
    """E x^order / (E x)^order of a Beta variable x."""
    if variation < 1e-12:
        return 1.0
    size = (1 - mean) / (mean * variation) - 1
    return math.prod((mean * size + i) / (size + i) / mean for i in range(order))
