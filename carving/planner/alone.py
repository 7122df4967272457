"""What a memory answers that is asked one context at a time, predicted from theory (plain numbers).

The question is whether every filler stored in a context scores higher than every other candidate there. Formulas give
the noise of the other pairs; `rivals.py` draws contexts with that noise. Predictions are good to about two points from
some 50 pairs on. Every filler is taken to be stored about equally often, in contexts that are signed. Without signs
(`signed=False`) they hold for fillers that are all different. Compact fillers interfere by exactly (N-1)/d^p, and one
that is stored again like any other, because every component has a basis of its own.

An accuracy is the share of contexts in which every stored filler outranks every other candidate.
"""

import math
from typing import NamedTuple

import torch

from carving.planner.rivals import Noise, kurtosis, share_right
from carving.planner.telling import Stray
from carving.schemes.moments import Basis, echo, excess, overlap, variation


class Stored(NamedTuple):
    """What a memory holds."""

    pairs: int
    vocabulary: int
    shared: int  # fillers in the context that is asked
    rounding: float = 0.0  # pairs that would make as much noise as the few bits of its cells do


def accuracy(noise: float, rival: float, vocabulary: int) -> float:
    """The chance that a score of 1 + N(0, noise) beats `vocabulary - 1` rivals of N(0, rival).

    >>> round(accuracy(noise=0.1, rival=0.1, vocabulary=2), 3)
    0.987
    """
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    score = 1 + z * math.sqrt(noise)
    beaten = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / math.sqrt(rival)))
    return float((density * beaten).sum() / density.sum())


def osc_accuracy(
    d: int,
    p: int,
    k1: int,
    pairs: int,
    vocabulary: int,
    shared: int = 1,
    *,
    compact: bool = False,
    basis: Basis = "blocks",
) -> float:
    """Return the predicted accuracy of OSC for single queries.

    Args:
        d, p, k1: Side of the memory, its order, and the dimensions that a context keeps.
        pairs: The number of stored pairs.
        vocabulary: The number of candidates.
        shared: The number of values under every path.
        compact: Whether fillers are compact.
        basis: "blocks" or "gaussian", for ordinary fillers.

    Returns:
        The share of contexts in which every stored filler outranks every other candidate.

    >>> round(osc_accuracy(d=150, p=2, k1=12, pairs=1_000, vocabulary=1_000), 2)
    0.9
    """
    return osc_share((d, p, k1), Stored(pairs, vocabulary, shared), None if compact else basis, draft=False)


def osc_share(size: tuple[int, int, int], stored: Stored, basis: Basis | None, *, draft: bool) -> float:
    """The same for a size (d, p, k1), where compact fillers, whose noise no basis changes, have None.

    A draft takes milliseconds, and is some points off where k1 is small.
    """
    (d, p, k1), (pairs, vocabulary, shared, rounding) = size, stored
    if vocabulary == shared:
        return 1.0
    if k1 == 1:  # on a line every candidate is the stored filler or its opposite
        return 0.5 ** (vocabulary - shared)
    # A sum of few outer products is not yet Gaussian; the factor is fitted.
    grain = math.factorial(p - 1) / 2 * kurtosis(p, k1) / max(1, pairs - shared)
    if basis is None:
        noise = Noise((pairs - shared + rounding) / d**p, grain=grain)
        return share_right(p, k1, shared, 0.0, noise, vocabulary - shared, draft=draft)
    different = (1 + excess(d, p, k1, basis)) / d**p
    kept, rest = overlap(d, k1)
    noise = Noise(
        cores=(pairs - shared) * different + rounding / d**p,
        copy=max(0.0, echo(d, p, k1, basis) / d**p - different),
        copies=pairs / vocabulary,
        uneven=p * math.log1p((kept / (kept + rest)) ** 2 * 2 * (d - k1) / (k1 * (d + 2))),
        grain=grain,
    )
    share = round(k1 * k1 * variation(d, k1, basis) / 2, 1)  # in steps, so that neighbors use the same contexts
    return share_right(p, k1, shared, share, noise, vocabulary - shared, draft=draft)


def osc_stray(size: tuple[int, int, int], stored: Stored, basis: Basis | None) -> Stray:
    """What a value of OSC shows where it is not stored; sizes and bases are those of `osc_share`."""
    (d, p, k1), (pairs, vocabulary, _, rounding) = size, stored
    pair = (1 if basis is None else 1 + excess(d, p, k1, basis)) / d**p
    copy = 0.0 if basis is None else max(0.0, echo(d, p, k1, basis) / d**p - pair)
    variance = pairs * pair + rounding / d**p + pairs / vocabulary * copy
    return Stray(variance, pair + copy, kurtosis(p, d) / pairs)


def tpr_stray(d: int, stored: Stored) -> Stray:
    """The same of a TPR of depth one."""
    copies = stored.pairs / stored.vocabulary
    return Stray((stored.pairs + stored.rounding) / d**2 + copies * (1 / d - 1 / d**2), 1 / d)


def vsa_stray(cells: int, stored: Stored) -> Stray:
    """The same of a vector symbolic architecture that keeps a raw sum of reals."""
    return Stray((stored.pairs + stored.rounding) / cells, 1 / cells)


def tpr_accuracy(d: int, pairs: int, vocabulary: int, shared: int = 1, rounding: float = 0.0) -> float:
    """Return the predicted accuracy of a TPR of depth one, with random unit roles and fillers, for single queries.

    The arguments are those of `osc_accuracy`; `rounding` is the noise of few bits, as a number of pairs.

    >>> round(tpr_accuracy(d=60, pairs=200, vocabulary=300), 2)
    0.8
    """
    noise = Noise((pairs - shared + rounding) / d**2, 1 / d - 1 / d**2, pairs / vocabulary, signs=False)
    return share_right(1, d, shared, 0.0, noise, vocabulary - shared)


def vsa_accuracy(cells: int, pairs: int, vocabulary: int, shared: int = 1, rounding: float = 0.0) -> float:
    """Return the predicted accuracy of a vector symbolic architecture that keeps a raw sum, for single queries.

    `cells` is the number of real numbers of the memory; the other arguments are those of `osc_accuracy`, and
    `rounding` is the noise of few bits, as a number of pairs.

    >>> round(vsa_accuracy(cells=4_096, pairs=1_000, vocabulary=1_000), 3)
    0.125
    """
    if shared == 1:
        noise = max((pairs - 1 + rounding) / cells, 1e-12)
        return accuracy(noise, noise, vocabulary)
    noise_of_all = Noise((pairs - shared + rounding) / cells)
    return share_right(1, cells, shared, 0.0, noise_of_all, vocabulary - shared)
