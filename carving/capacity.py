"""What a memory will hold, predicted from theory (plain numbers).

A context shows the cores of the fillers stored in it, plus the noise of all other pairs; the question is whether any
other candidate scores as high as the lowest of them. Overlaps of carved candidates are far from Gaussian, so contexts
of OSC are drawn in core space, with a fixed seed; the other candidates enter through the distribution of their scores.

Every filler is taken to be stored about equally often, in contexts that are signed. Without signs (`signed=False`) the
predictions hold for fillers that are all different.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Generator, Tensor

POOL = 8  # drawn contexts for each that is used


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


def interference(d: int, p: int, k1: int, pairs: int, shared: int = 1) -> float:
    """The variance of a stored filler's score, where `shared` of the pairs lie in its context."""
    return (pairs - shared) / d**p * (1 + excess(d, p, k1)) + (shared - 1) / k1**p


# Contexts in core space


class Noise(NamedTuple):
    """The variances of what disturbs the scores of a context."""

    cores: float  # a coordinate of the core
    stored: float  # a stored filler's score, from its copies in other contexts
    others: float  # another candidate's score, from its copies
    unevenness: float  # the variance of the logarithm of these last two, from candidate to candidate
    grain: float = 0.0  # the relative variance that the first has, from candidate to candidate


class Drawn(NamedTuple):
    """Contexts: the fillers' scores are stored + s noise, the squared lengths of the core a + 2 s b + s^2 c."""

    stored: Tensor  # (m, shared)
    noise: Tensor  # (m, shared)
    lengths: tuple[Tensor, Tensor, Tensor]  # (m, 1), or (m, r) where all but one component of a rival are fixed

    def lowest(self, noise: Noise) -> Tensor:
        """The lowest score of a stored filler in each context, (m, 1)."""
        normals, scales = _copies(self.stored.shape, noise.unevenness)
        own = math.sqrt(noise.stored) * normals * scales
        return (self.stored + math.sqrt(noise.cores) * self.noise + own).amin(1, keepdim=True)

    def squares(self, noise: Noise, normals: Tensor) -> Tensor:
        """The squared lengths; normals say how the noise differs from candidate to candidate."""
        a, b, c = self.lengths
        s = (1 + math.sqrt(noise.grain) / 2 * normals).clamp_min(0) * math.sqrt(noise.cores / (1 + noise.grain / 4))
        return (a + 2 * s * b + s * s * c).clamp_min(1e-12)


@lru_cache(maxsize=8)
def _normals(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(1))


def _copies(shape: torch.Size, unevenness: float) -> tuple[Tensor, Tensor]:
    """Normals, and their standard deviations, which are 1 in the mean of squares."""
    normals = _normals(3, *shape)
    return normals[0], torch.exp(math.sqrt(unevenness) / 2 * normals[1] - unevenness / 4)


def _fillers(
    generator: Generator, count: int, shared: int, p: int, k1: int
) -> tuple[Tensor, Tensor, Tensor]:  # (m, shared, p, k1) or nothing, (m, shared, shared), (m, shared, 1)
    """The unit components of stored fillers, their inner products, and normals, spread evenly over what matters most."""
    points = torch.quasirandom.SobolEngine(shared + 1, scramble=True, seed=1).draw(count, dtype=torch.float64)
    normals = torch.special.ndtri(points[:, 1:].clamp(1e-9, 1 - 1e-9)).float().unsqueeze(2)
    if shared == 1:
        return _units(generator, count, 1, p, k1) if k1 <= 64 else torch.empty(0), torch.ones(count, 1, 1), normals
    pool = count * POOL if shared < 20 else count
    if k1 > max(64, 16 * shared):  # nearly orthogonal: each pair by itself
        above = (torch.randn(pool, p, shared, shared, generator=generator) / math.sqrt(k1)).prod(1).triu(1)
        units, gram = torch.empty(0), above + above.mT + torch.eye(shared)
    else:
        units = _units(generator, pool, shared, p, k1)
        gram = (units.transpose(1, 2) @ units.permute(0, 2, 3, 1)).prod(1)
    order = gram.sum(2).amin(1).argsort()[pool // count // 2 :: pool // count]
    order = order[points[:, 0].argsort().argsort()]
    return units[order] if len(units) else units, gram[order], normals


def _units(generator: Generator, *shape: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _correlated(gram: Tensor, normals: Tensor) -> Tensor:
    """Normals with these covariances: (m, s, s), (m, s, 1) -> (m, s, 1)."""
    return torch.linalg.cholesky(gram + 1e-4 * torch.eye(gram.shape[1])) @ normals


def _outer(vectors: tuple[Tensor, ...]) -> Tensor:
    product = vectors[0]
    for vector in vectors[1:]:
        product = (product.unsqueeze(-1) * vector.unsqueeze(-2)).flatten(-2)
    return product


def _coloured(cores: Tensor, p: int, k1: int, share: float) -> Tensor:
    """White noise with the covariance that the other pairs have in a core, but for a factor: (n, k1^p).

    Their components share a context, which makes noise larger where a candidate's own components are alike. Of two
    modes: (1 + b) for symmetric, (1 - b) for antisymmetric parts, (1 + b + k1 b) for the trace, b = share/k1.
    """
    b = share / k1
    even, odd, trace = math.sqrt(1 + b), math.sqrt(1 - b), math.sqrt(1 + b + k1 * b)
    cores = cores.reshape(-1, *(k1,) * p)
    for i, j in combinations(range(1, p + 1), 2):
        mean = cores.diagonal(dim1=i, dim2=j).mean(-1).unsqueeze(i).unsqueeze(j)
        identity = torch.eye(k1).view(*(k1 if mode in (i, j) else 1 for mode in range(p + 1)))
        cores = (even + odd) / 2 * cores + (even - odd) / 2 * cores.transpose(i, j) + (trace - even) * mean * identity
    return cores.reshape(-1, k1**p)


@lru_cache(maxsize=8)
def _small_cores(p: int, k1: int, shared: int, share: float) -> Drawn:
    """Contexts with cores of k1^p numbers, each with r choices of all components but one of a rival."""
    generator = Generator().manual_seed(0)
    block, rivals = 64, 2048 if shared == 1 else 1024
    count = block * min(2**21 // rivals // block, 2**23 // (shared * k1**p) // block)
    units, gram, normals = _fillers(generator, count, shared, p, k1)
    cores = _outer(units.unbind(2))  # (m, shared, k1^p)
    white = torch.randn(count, k1**p, generator=generator)
    scale = _coloured(white, p, k1, share).square().mean().sqrt()
    seen = _coloured(cores.flatten(0, 1), p, k1, share).view(cores.shape) / scale
    # Of the white noise, the part that stored fillers see is replaced by the evenly spread normals.
    covariance = seen @ seen.mT
    wanted = _correlated(covariance, normals)
    missing = wanted - seen @ white.unsqueeze(2)
    white = white + (seen.mT @ torch.linalg.solve(covariance + 1e-4 * torch.eye(shared), missing)).squeeze(2)
    parts = (cores.sum(1), _coloured(white, p, k1, share) / scale)
    fixed = _outer(tuple(_units(generator, count // block, rivals, k1) for _ in range(p - 1))).mT
    signal, noise = (torch.bmm(part.view(count // block, block * k1, -1), fixed) for part in parts)
    signal, noise = signal.view(count, k1, rivals), noise.view(count, k1, rivals)
    lengths = (signal.square().sum(1), (signal * noise).sum(1), noise.square().sum(1))
    return Drawn(gram.sum(2), wanted.squeeze(2), lengths)


@lru_cache(maxsize=64)
def _large_cores(p: int, k1: int, shared: int) -> Drawn:
    """Contexts with cores so large that a rival is like any unit vector of them; lengths are per coordinate."""
    generator = Generator().manual_seed(0)
    count = 2 ** int(math.log2(min(4096, max(64, 2**21 // (shared * max(shared, p * min(k1, 16 * shared)))))))
    _, gram, normals = _fillers(generator, count, shared, p, k1)
    noise = _correlated(gram, normals).squeeze(2)
    cells, stored = k1**p, gram.sum(2)
    chi = torch.randn(count, 1, generator=generator) * math.sqrt(2 / cells)
    lengths = (stored.sum(1, keepdim=True) / cells, noise.sum(1, keepdim=True) / cells, (1 + chi).clamp_min(0))
    return Drawn(stored, noise, lengths)


STEPS = 2**15


@lru_cache(maxsize=64)
def _cosine_tail(k: int) -> Tensor:
    """P(x > t) of a coordinate x of a random unit vector of R^k, at 2 STEPS + 1 points t from -1 to 1."""
    angles = torch.linspace(1, -1, 2 * STEPS + 1, dtype=torch.float64).arccos()
    tail = torch.cumulative_trapezoid(angles.sin() ** (k - 2), angles)
    return torch.cat((torch.zeros(1, dtype=torch.float64), tail / tail[-1])).flip(0).float()


def _beaten_small(drawn: Drawn, noise: Noise, k1: int) -> Tensor:
    """The chance that one rival beats the lowest stored filler, in each context (m,)."""
    lowest, shape = drawn.lowest(noise), drawn.lengths[0].shape
    squares = drawn.squares(noise, _normals(3, *shape)[2])
    if noise.others > 1e-3 * noise.cores:
        normals, scales = _copies(shape, noise.unevenness)
        lowest = lowest - math.sqrt(noise.others) * normals * scales
    places = ((lowest / squares.sqrt()).clamp(-1, 1) * STEPS + STEPS).round().long()
    return _cosine_tail(k1)[places].mean(1, dtype=torch.float64)


def _beaten_large(drawn: Drawn, noise: Noise, cells: int) -> Tensor:
    nodes = torch.linspace(-3, 3, 13)
    weights = nodes.square().div(-2).softmax(0)
    copies = noise.others * torch.exp(math.sqrt(noise.unevenness) * nodes - noise.unevenness / 2)
    cosine = drawn.lowest(noise) / (cells * (drawn.squares(noise, nodes) + copies)).sqrt()
    # Wallace's normal approximation of Student's t with cells - 1 degrees of freedom
    freedom = cells - 1
    normal = cosine.sign() * (-freedom * torch.log1p(-cosine.square().clamp_max(1 - 1e-7))).sqrt()
    tails = torch.special.ndtr(-normal.double() * (8 * freedom + 1) / (8 * freedom + 3))
    return (tails * weights).sum(1)


def _never(beaten: Tensor, rivals: int) -> float:
    """The chance that none of so many rivals wins, in the mean of contexts."""
    return float(torch.exp(rivals * torch.log1p(-beaten.clamp(0, 1 - 1e-12))).mean())


# Accuracy: the share of contexts in which every stored filler outranks every other candidate


def accuracy(noise: float, rival: float, vocabulary: int) -> float:
    """The chance that a score of 1 + N(0, noise) beats `vocabulary - 1` rivals of N(0, rival)."""
    z = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    score = 1 + z * math.sqrt(noise)
    beaten = torch.exp((vocabulary - 1) * torch.special.log_ndtr(score / math.sqrt(rival)))
    return float((density * beaten).sum() / density.sum())


def osc_accuracy(d: int, p: int, k1: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """The share of contexts that OSC answers wholly right, `shared` fillers in each."""
    if vocabulary == shared:
        return 1.0
    if k1 == 1:  # on a line every candidate is the stored filler or its opposite
        return 0.5 ** (vocabulary - shared)
    different = (1 + excess(d, p, k1)) / d**p
    again = max(0.0, likeness(d, p, k1) / d**p - different)
    kept, rest = (k1 / d) ** 2, (1 - k1 / d) ** 2 / (d - 1)
    uneven = (kept / (kept + rest)) ** 2 * 2 * (d - k1) / (k1 * (d + 2))
    noise = _noise(different, again, p * math.log1p(uneven), pairs, vocabulary, shared)
    if p > 2 and pairs > shared:  # a sum of few outer products of p vectors is not yet Gaussian
        noise = noise._replace(grain=((3 * d / (d + 2)) ** (p - 1) / 3 - 1) / (pairs - shared))
    if shared <= 16 and (k1 <= 6 or k1**p <= 300):
        share = round((d - k1) ** 2 / ((d - 1) * (d + 2)), 1)  # in steps, so that neighbours use the same contexts
        beaten = _beaten_small(_small_cores(p, k1, shared, share), noise, k1)
    else:
        beaten = _beaten_large(_large_cores(p, k1, shared), noise, k1**p)
    return _never(beaten, vocabulary - shared)


def tpr_accuracy(d: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """The share of contexts that a TPR of depth one answers wholly right, with random unit roles and fillers."""
    noise = _noise(1 / d**2, 1 / d - 1 / d**2, 0.0, pairs, vocabulary, shared)
    return _never(_beaten_large(_large_cores(1, d, shared), noise, d), vocabulary - shared)


def vsa_accuracy(cells: int, pairs: int, vocabulary: int, shared: int = 1) -> float:
    """The share of contexts that a vector symbolic architecture answers wholly right that keeps a raw sum of reals."""
    if shared == 1:
        noise = max((pairs - 1) / cells, 1e-12)
        return accuracy(noise, noise, vocabulary)
    among = _noise(1 / cells, 0.0, 0.0, pairs, vocabulary, shared)
    return _never(_beaten_large(_large_cores(1, cells, shared), among, cells), vocabulary - shared)


def _noise(different: float, again: float, uneven: float, pairs: int, vocabulary: int, shared: int) -> Noise:
    """Noise of pairs with other fillers, and what a filler's own copies add, each of which is stored equally often."""
    copies = pairs / vocabulary
    return Noise((pairs - shared) * different, max(0.0, copies - 1) * again, copies * again, uneven)


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
