"""Moments of the interference between bound fillers of OSC, exact or to a few percent, from plain numbers.

A context's subspace is that of random normals, or of blocks: the fixed d x k1 matrix S of disjoint blocks, with entries
1/sqrt(size), whose coordinates a random signed permutation deals out. Where more than half of the space is kept, the
blocks span the forbidden directions. Either way a component of random normals is, inside, a uniformly random unit
vector, and E P = (k1/d) I: over all contexts a bound component has the mean square 1/d in every cell, for blocks of any
sizes.
"""

import math
from typing import Literal

Basis = Literal["gaussian", "blocks"]


def excess(d: int, p: int, k1: int, basis: Basis = "gaussian") -> float:
    """Return the relative excess of interference over (N-1)/d^p.

    The p components of a pair share their contexts, so their cosines are not independent: given the contexts, each has
    the variance tr(P P')/k1^2, whose p-th moment counts. Exact for p = 2, and for k1 = 1 if contexts are gaussian.

    >>> round(excess(d=40, p=3, k1=6), 3), round(excess(d=40, p=3, k1=6, basis="blocks"), 3)
    (0.12, 0.126)
    """
    return _moment(k1 / d, variation(d, k1, basis), p) - 1


def likeness(d: int, k1: int, basis: Basis = "gaussian") -> float:
    """Return the relative growth of a filler's noise with the squared cosine of two of its components.

    Given the context P' of a stored pair, the noise in a candidate whose components are the unit vectors u_i inside has
    the variance prod_i u_i^T P' u_i / k1^p. Over P', two of these factors have the relative covariance a + b r^2, where
    r is their cosine: the result is b, and a + b/k1 the `variation`. Exact for normals; blocks have another term, whose
    mean is 1/d of it.

    >>> round(likeness(d=22, k1=5), 2), round(likeness(d=22, k1=5, basis="blocks"), 2)
    (0.3, 0.32)
    """
    if basis == "gaussian":
        return (2 * (d - k1) / (k1 * (d + 2)) - variation(d, k1, basis)) / (1 - 1 / k1) if k1 > 1 else 0.0
    number, h = _cut(d, k1)
    return 2 * (number - h) * d / (k1 * k1 * (d - 1))


def unevenness(d: int, p: int, k1: int, basis: Basis = "gaussian") -> float:
    """Return the relative standard deviation of the noise from filler to filler, to first order.

    Two random unit vectors have the squared cosine 1/k1 in the mean, with the variance 2 (k1 - 1) / (k1^2 (k1 + 2)).

    >>> [round(unevenness(d, p, round(d**0.5), "blocks"), 3) for d, p in ((22, 3), (64, 2), (75, 3), (200, 2))]
    [0.104, 0.032, 0.043, 0.012]
    """
    pairs = p * (p - 1) / 2 * 2 * (k1 - 1) / (k1 * k1 * (k1 + 2))
    return likeness(d, k1, basis) * math.sqrt(pairs) / (1 + excess(d, p, k1, basis))


def echo(d: int, p: int, k1: int, basis: Basis = "gaussian") -> float:
    """Return the mean squared inner product of one filler, bound in two contexts, with itself, times d^p.

    For two different fillers it is 1 + excess. The estimate is too low: by 2 % for p = 2, by 5 % for p = 3, and by 3 to
    14 % for p = 4.

    >>> round(echo(d=40, p=3, k1=6), 1)
    5.3
    """
    kept, rest = overlap(d, k1)
    spread = variation(d, k1, basis) * (2 * kept + rest) / (kept + rest)
    return (d * (kept + rest)) ** p * _moment(kept + rest, spread, p)


def bias(d: int, p: int, k1: int) -> float:
    """Return the mean inner product of one filler, bound in two contexts without signs, with itself.

    Of a component u a context keeps P u, of the length r: two of them have the cosine u^T P P' u / (r r'), whose mean
    over P' is r m, with m the mean length. That is E[r]^2, where r^2 is a beta variable of k1/2 and (d - k1)/2.

    >>> round(bias(d=60, p=2, k1=8), 4), round((8 / 60) ** 2, 4)
    (0.016, 0.0178)
    """
    return _mean_length(d, k1) ** (2 * p)


def unsteady(d: int, p: int, k1: int) -> float:
    """Return the variance of `bias` from context to context, which keep more or less of a filler, over its square.

    >>> round(unsteady(d=60, p=2, k1=8), 3)
    0.114
    """
    return (k1 / d / _mean_length(d, k1) ** 2) ** p - 1


def _mean_length(d: int, k1: int) -> float:
    """Return the mean length of a unit vector projected on a random subspace."""
    logs = math.lgamma((k1 + 1) / 2) - math.lgamma(k1 / 2) + math.lgamma(d / 2) - math.lgamma((d + 1) / 2)
    return math.exp(logs)


def interference(
    d: int, p: int, k1: int, pairs: int, shared: int = 1, *, compact: bool = False, basis: Basis = "gaussian"
) -> float:
    """Return the variance of a stored filler's score, where `shared` of the pairs lie in its context.

    >>> interference(d=100, p=2, k1=10, pairs=1001, compact=True)
    0.1
    """
    more = 0.0 if compact else excess(d, p, k1, basis)
    return (pairs - shared) / d**p * (1 + more) + (shared - 1) / k1**p


def overlap(d: int, k1: int) -> tuple[float, float]:
    """Return the mean squared cosine of a component carved in two contexts: the part of the filler, and of chance.

    A carved component keeps the share k1/d of its filler, in both contexts.
    """
    return (k1 / d) ** 2, (1 - k1 / d) ** 2 / (d - 1)


def variation(d: int, k1: int, basis: Basis) -> float:
    """Return the relative variance of tr(P P') for the projections P, P' of two contexts. Exact; the mean is k1^2/d.

    Blocks: A = S S^T has the diagonal a_i = 1 / (size of i's block), whose sum is k1 and whose sum of squares is
    h = sum over blocks of 1/size. With signs s and a permutation q between the two contexts,

        tr(P P') = sum_i a_i a_q(i) + 2 sum_(i<j) s_i s_j A_ij A_q(i)q(j).

    The first sum varies only where sizes differ, by (h - k1^2/d)^2 / (d - 1); the second has uncorrelated terms, the
    A_ij^2 add up to (k1 - h)/2, and it varies by 2 (k1 - h)^2 / (d (d - 1)). Where k1 divides d, h = k1^2/d, and it is
    the gaussian formula with d (d - 1) for (d - 1)(d + 2). A complement's trace, d - 2 k1 + tr(P P'), varies as much.

    >>> round(variation(100, 10, "gaussian"), 5), round(variation(100, 10, "blocks"), 5)
    (0.01604, 0.01636)
    """
    if basis == "gaussian":
        return 2 * (d - k1) ** 2 / (k1 * k1 * (d - 1) * (d + 2))
    number, h = _cut(d, k1)
    variance = ((h - number**2 / d) ** 2 + 2 * (number - h) ** 2 / d) / (d - 1)
    return variance * d * d / k1**4


def _cut(d: int, k1: int) -> tuple[int, float]:
    """Return the number of blocks, of kept or forbidden directions, and the sum of 1/size over them."""
    number = min(k1, d - k1)
    size, larger = divmod(d, number)
    return number, (number - larger) / size + larger / (size + 1)


def _moment(mean: float, variation: float, order: int) -> float:
    """Return E x^order / (E x)^order of a Beta variable x."""
    if variation < 1e-12:
        return 1.0
    size = (1 - mean) / (mean * variation) - 1
    return math.prod((mean * size + i) / (size + i) / mean for i in range(1, order))
