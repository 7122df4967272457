"""Families of memories: their accuracy under single queries and joint decoding, and their cost, from theory.

An accuracy is the share of contexts in which every stored filler outranks every other candidate. Formulas give the
noise of the other pairs; `monte_carlo.py` draws contexts with that noise. Predictions are good to about two percentage
points from some 50 pairs on. They assume that every filler is stored about equally often, in signed contexts; without
signs (`signed=False`) they hold for fillers that are all different. Compact fillers interfere by exactly (N-1)/d^p, and
a filler that is stored again interferes like any other, because every component has a basis of its own.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import torch

from carving.errors import BadValue
from carving.planner.monte_carlo import Noise, excess_kurtosis, simulated_accuracy
from carving.planner.requirements import DEFAULT_BASIS, Specification
from carving.planner.state_evolution import FixedPoint, fixed_point
from carving.schemes.moments import Basis, echo, excess, overlap, variation
from carving.validate import check_choice

JOINT_EXCESS = 0.5  # the part of the excess of interference that is left once joint decoding has evened a memory
OSC_OPTIONS = ("p", "compact", "widest", "basis", "spread", "dictionary")  # requirements that concern OSC only
NAMING_SHARE = 0.1  # of the errors: what naming values may add where empty contexts are to be recognized as well
VARIANCE_NODES = torch.linspace(-3, 3, 9, dtype=torch.float64)  # standard deviations of the log variance of noise
SCORE_NODES = torch.linspace(-8, 8, 321, dtype=torch.float64)  # standard deviations of a score
# Measured in one thread, in operations of a large matrix product:
SCATTERED_COST = 10  # an operation on scattered numbers, or on numbers that are only passed through
DRAWN_COST = 2_000  # a number drawn from a label: hashed, made normal and orthogonal, or dealt into blocks


class StoredPairs(NamedTuple):
    """The contents of a memory, for a query of a context with `shared` fillers."""

    pairs: int
    vocabulary: int
    shared: int = 1
    rounding: float = 0.0  # the noise of quantization, as a number of pairs


class QueryCost(NamedTuple):
    """Multiplications and additions by where they are done, and random numbers drawn from labels.

    A query draws its context from a label, reads the memory there and matches the core with every candidate. What many
    queries share, such as the codes of compact fillers, is computed once and does not count.
    """

    products: int  # in matrix products
    scattered: int = 0  # elsewhere
    drawn: int = 0

    def operations(self, passes: int = 1) -> int:
        """Return the operations of a matrix product that takes as long; all passes use the numbers drawn once."""
        return passes * (self.products + SCATTERED_COST * self.scattered) + DRAWN_COST * self.drawn


class MemoryFamily:
    """The memories of one scheme that differ by the side d and, in OSC, by the width k1.

    A scheme differs by its cells, by the interference of pairs and by the cost of a query. In a context a filler of OSC
    has p components of k1 numbers, a filler of another scheme one component of d numbers.
    """

    scheme: str
    order: int = 1  # of the memory tensor; of OSC p
    p: int | None = None  # of OSC
    compact: bool = False
    basis: Basis | None = None
    has_signs: bool = True  # whether a copy of a candidate interferes by plus or minus about the same number
    decodes_jointly: bool = True  # whether joint decoding is predicted

    def fits(self, spec: Specification) -> bool:
        """Return whether the specification admits the family; requirements of OSC exclude no other scheme."""
        possible = (self.compact or not spec.dictionary) and (self.decodes_jointly or not spec.joint)
        return possible and spec.scheme in (None, self.scheme)

    def parameters(self, d: int, k1: int, spec: Specification) -> dict[str, Any]:
        """Return the arguments of `carving.make` for a memory of the family."""
        return {"d": d}

    def cells(self, d: int) -> int:
        """Return the numbers of the memory tensor."""
        return d ** (self.p or self.order)

    def interference(self, d: int, k1: int) -> tuple[float, float]:
        """Return the interference with a candidate, as variances of its score.

        Returns:
            The variance that a stored pair of any other filler adds, and the excess of a pair of the candidate itself,
            stored in another context.
        """
        return 1 / self.cells(d), 0.0

    def query_cost(self, d: int, k1: int, vocabulary: int) -> QueryCost:
        """Return the cost of a single query."""
        raise NotImplementedError

    def accuracy(self, d: int, k1: int, stored: StoredPairs, draft: bool = False) -> float:
        """Return the predicted accuracy of single queries.

        A draft takes milliseconds, and is some percentage points off where k1 is small.
        """
        p, width, (pairs, vocabulary, shared, rounding) = self.p or 1, k1 if self.p else d, stored
        if vocabulary == shared:
            return 1.0
        if width == 1:  # on a line every candidate is the stored filler or its opposite
            return 0.5 ** (vocabulary - shared)
        pair, copy = self.interference(d, k1)
        kept, rest = overlap(d, width)
        noise = Noise(
            core=(pairs - shared) * pair + rounding / self.cells(d),
            copy=copy,
            copies=pairs / vocabulary,
            signs=self.has_signs,
            copy_spread=p * math.log1p((kept / (kept + rest)) ** 2 * 2 * (d - width) / (width * (d + 2))),
            # A sum of few outer products is not yet Gaussian; the factor is fitted.
            variability=math.factorial(p - 1) / 2 * excess_kurtosis(p, width) / max(1, pairs - shared),
        )
        # Components that share contexts, in steps: neighbors use the same drawn contexts.
        common = round(k1 * k1 * variation(d, k1, self.basis) / 2, 1) if self.basis and not self.compact else 0.0
        return simulated_accuracy(p, width, shared, common, noise, vocabulary - shared, draft=draft)

    def detection_accuracy(self, d: int, k1: int, stored: StoredPairs) -> float:
        """Return the predicted share of right answers where half of the queried contexts are empty."""
        pair, copy = self.interference(d, k1)
        variance = stored.pairs * pair + stored.rounding / self.cells(d) + stored.pairs / stored.vocabulary * copy
        unevenness = excess_kurtosis(self.p or 1, d) / stored.pairs
        return detection_accuracy(variance, pair + copy, stored.vocabulary, unevenness)

    def fixed_point(self, d: int, k1: int, spec: Specification) -> FixedPoint:
        """Return the predicted result of joint decoding."""
        cells = self.cells(d)
        load = spec.pairs / cells * (1 + JOINT_EXCESS * (self.interference(d, k1)[0] * cells - 1))
        return fixed_point(load, self.p or 0, k1, spec.vocabulary, spec.spread if self.p else 0.0, spec.bits)


@dataclass(frozen=True)
class OSCFamily(MemoryFamily):
    """OSC of one order, with compact or ordinary fillers."""

    p: int
    compact: bool = False
    basis: Basis = DEFAULT_BASIS
    scheme = "OSC"

    def fits(self, spec: Specification) -> bool:
        """Return whether the specification admits this order, these fillers and this basis."""
        same = spec.p in (None, self.p) and spec.compact in (None, self.compact)
        return super().fits(spec) and same and self.basis == (spec.basis or DEFAULT_BASIS)

    def parameters(self, d: int, k1: int, spec: Specification) -> dict[str, Any]:
        """Return the arguments of `carving.make`, without those that are 0 or False by default."""
        every: dict[str, Any] = {"d": d, "p": self.p, "compact": self.compact, "basis": self.basis, "k1": k1}
        every |= {"spread": float(spec.spread), "dictionary": spec.dictionary}
        return {name: value for name, value in every.items() if value}

    def interference(self, d: int, k1: int) -> tuple[float, float]:
        """Return the variance that a stored pair adds to a score, and the excess of a pair of the candidate itself."""
        if self.compact:
            return super().interference(d, k1)
        pair = (1 + excess(d, self.p, k1, self.basis)) / self.cells(d)
        return pair, max(0.0, echo(d, self.p, k1, self.basis) / self.cells(d) - pair)

    def query_cost(self, d: int, k1: int, vocabulary: int) -> QueryCost:
        """Return the cost of a single query, in contexts that keep at most half of the space.

        A gaussian basis has k1 d numbers, one of blocks d: it reads every row apart, with k1 times fewer operations.

        >>> OSCFamily(2, compact=True, basis="gaussian").query_cost(d=100, k1=10, vocabulary=1_000)
        QueryCost(products=420000, scattered=0, drawn=2000)
        >>> OSCFamily(2, compact=True).query_cost(d=100, k1=10, vocabulary=1_000)
        QueryCost(products=200000, scattered=22000, drawn=200)
        """
        p = self.p
        rows = sum(k1**mode * d ** (p - mode - 1) for mode in range(p))  # of d numbers, each projected
        cells, passed = vocabulary * k1**p, 0
        if not self.compact:  # every candidate is projected as well, and its core not formed whole
            rows += vocabulary * p
            half = p // 2
            passed = vocabulary * (2 * p * k1 + (k1 ** (p - half) if p - half > 1 else 0) + 2 * k1**half)
        drawn = (p if self.compact else 1) * d
        if self.basis == "gaussian":
            return QueryCost(2 * (rows * k1 * d + cells), passed, k1 * drawn)
        return QueryCost(2 * cells, 2 * rows * d + passed, drawn)


class HLBFamily(MemoryFamily):
    """HLB, for all vector symbolic architectures that keep a raw sum of reals."""

    scheme = "HLB"

    def accuracy(self, d: int, k1: int, stored: StoredPairs, draft: bool = False) -> float:
        """Return the predicted accuracy of single queries, for one filler in a context by a formula."""
        if stored.shared > 1:
            return super().accuracy(d, k1, stored, draft)
        return gaussian_accuracy(max((stored.pairs - 1 + stored.rounding) / d, 1e-12), stored.vocabulary)

    def query_cost(self, d: int, k1: int, vocabulary: int) -> QueryCost:
        """Return the cost of a single query: unbinding, and a product with every candidate."""
        return QueryCost(2 * vocabulary * d, d, d)


class TPRFamily(MemoryFamily):
    """TPR with one role vector for the whole path; its joint decoding is not predicted."""

    scheme, order = "TPR", 2
    has_signs = decodes_jointly = False

    def parameters(self, d: int, k1: int, spec: Specification) -> dict[str, Any]:
        """Return the arguments of `carving.make`: one role vector for the whole path."""
        return {"d": d, "whole_path": True}

    def interference(self, d: int, k1: int) -> tuple[float, float]:
        """Return the variance that a stored pair adds to a score, and the excess of a pair of the candidate itself."""
        return 1 / d**2, 1 / d - 1 / d**2

    def query_cost(self, d: int, k1: int, vocabulary: int) -> QueryCost:
        """Return the cost of a single query: a contraction, and a product with every candidate."""
        return QueryCost(2 * d * d + 2 * vocabulary * d, 0, d)


FAMILIES: tuple[MemoryFamily, ...] = (  # of a scheme, `predict` takes the first that fits
    *(OSCFamily(p, compact, basis) for basis in get_args(Basis) for compact in (False, True) for p in (2, 3, 4)),
    HLBFamily(),
    TPRFamily(),
)


def families_for(spec: Specification) -> list[MemoryFamily]:
    """Return the families that a specification admits; refuse requirements that do not concern its scheme."""
    if spec.scheme is not None:
        known = dict.fromkeys(family.scheme for family in FAMILIES if family.decodes_jointly or not spec.joint)
        check_choice("scheme", spec.scheme, tuple(known))
        for name in OSC_OPTIONS if spec.scheme != "OSC" else ():
            if value := getattr(spec, name):
                raise BadValue(f"{name}={value!r} does not apply to {spec.scheme}. Omit it.")
    if spec.p is not None:
        check_choice("p", spec.p, tuple(dict.fromkeys(family.p for family in FAMILIES if family.p)))
    return [family for family in FAMILIES if family.fits(spec)]


# Accuracies as functions of plain numbers


def gaussian_accuracy(noise: float, vocabulary: int) -> float:
    """Return the probability that a score of 1 + N(0, noise) beats `vocabulary - 1` scores of N(0, noise).

    >>> round(gaussian_accuracy(noise=0.1, vocabulary=2), 3)
    0.987
    """
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    best = torch.exp((vocabulary - 1) * torch.special.log_ndtr(1 / math.sqrt(noise) + z))
    return float((density * best).sum() / density.sum())


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
    return OSCFamily(p, compact, basis).accuracy(d, k1, StoredPairs(pairs, vocabulary, shared))


def tpr_accuracy(d: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """Return the predicted accuracy of a TPR of depth one, with random unit roles and fillers, for single queries.

    The arguments are as in `osc_accuracy`.

    >>> round(tpr_accuracy(d=60, pairs=200, vocabulary=300), 2)
    0.8
    """
    return TPRFamily().accuracy(d, 0, StoredPairs(pairs, vocabulary, shared))


def vsa_accuracy(cells: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """Return the predicted accuracy of a vector symbolic architecture that keeps a raw sum, for single queries.

    `cells` is the number of real numbers of the memory; the other arguments are as in `osc_accuracy`.

    >>> round(vsa_accuracy(cells=4_096, pairs=1_000, vocabulary=1_000), 3)
    0.125
    """
    return HLBFamily().accuracy(cells, 0, StoredPairs(pairs, vocabulary, shared))


@lru_cache(maxsize=2**14)
def detection_accuracy(noise: float, pair: float, vocabulary: int, unevenness: float = 0.0) -> float:
    """Return the share of right answers where half of the queried contexts hold one value, and half hold nothing.

    A value is answered where it is more probable than "nothing is stored": where its score exceeds 1/2 + s^2 log L.
    Here s^2 is the variance of the noise, of L equally probable values, and 1/2 the prior that none of them is stored.

    Args:
        noise: The variance of the score of a value that is not stored in the context.
        pair: The part of it from one pair, which a value that is stored does not meet.
        vocabulary: The number of values.
        unevenness: The relative variance of `noise` from query to query.

    >>> round(detection_accuracy(0.055, 0.055 / 20, vocabulary=2), 3)
    0.978
    """
    variance = max(noise, 1e-12)
    threshold = 0.5 + variance * math.log(vocabulary)
    spread = math.log1p(unevenness)
    factors = torch.exp(math.sqrt(spread) * VARIANCE_NODES - spread / 2).unsqueeze(1)
    weights = VARIANCE_NODES.square().div(-2).softmax(0)
    elsewhere, there = (math.sqrt(max(each, 1e-12)) * factors.sqrt() for each in (variance, variance - pair))
    nothing = torch.exp(vocabulary * torch.special.log_ndtr(threshold / elsewhere)).squeeze(1)
    score = 1 + there * SCORE_NODES
    best = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / elsewhere)) * (score > threshold)
    named = (best * SCORE_NODES.square().div(-2).softmax(0)).sum(1)
    return float(((nothing + named) / 2 * weights).sum())
