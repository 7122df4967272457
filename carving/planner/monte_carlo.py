"""Monte Carlo prediction of single queries: contexts are drawn in core space, with a fixed seed.

A context shows the cores of the fillers stored in it, plus noise. Of the distractors, which are the candidates that are
not stored there, only the distribution of scores is needed; given all but one of their components, it is known exactly.
"""

import math
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from carving.tensors import outer

POOL_FACTOR = 8  # contexts drawn per context used
GAUSSIAN_K1 = 16  # above it, cosines are as good as Gaussian
GAUSSIAN_COPIES = 4  # from here on, a sum of random signs is as good as Gaussian
TAIL_STEPS = 2**15  # of the table of tail probabilities, from 0 to 1


class Noise(NamedTuple):
    """The noise in the scores of a context."""

    core: float  # the variance of a coordinate of the core, from all other pairs
    copy: float = 0.0  # the variance that a copy of a candidate, stored in another context, adds to its score
    copies: float = 0.0  # the mean number of such copies of a candidate
    signs: bool = True  # whether a copy adds plus or minus about the same number, or a normal number
    copy_spread: float = 0.0  # the variance of the logarithm of `copy` from candidate to candidate
    variability: float = 0.0  # the relative variance of `core` from candidate to candidate


class DrawnContexts(NamedTuple):
    """Contexts: fillers have the scores `stored` + s `noise`, the core the squared length a + 2 s b + s^2 c."""

    stored: Tensor  # (m, shared)
    noise: Tensor  # (m, shared)
    lengths: tuple[Tensor, Tensor, Tensor]  # a, b, c: (m, 1), or (m, r) given all but one component of r distractors

    def lowest_scores(self, noise: Noise) -> Tensor:
        """Return the lowest score of a stored filler in each context, (m, 1)."""
        normals = _normals(3, *self.stored.shape)
        copies = math.sqrt(max(0.0, noise.copies - 1) * noise.copy)
        own = copies * normals[0] * _lognormal(noise.copy_spread, normals[1]).sqrt()
        return (self.stored + math.sqrt(noise.core) * self.noise + own).amin(1, keepdim=True)

    def squared_lengths(self, noise: Noise, normals: Tensor) -> Tensor:
        """Return the squared lengths of cores; `normals` vary the noise from candidate to candidate."""
        a, b, c = self.lengths
        mean = math.sqrt(noise.core / (1 + noise.variability / 4))
        s = (math.sqrt(noise.variability) / 2 * normals).add_(1).clamp_min_(0).mul_(mean)
        return (2 * s * b).add_(a).add_(s.mul_(s) * c).clamp_min_(1e-12)


def simulated_accuracy(
    p: int, k1: int, shared: int, common: float, noise: Noise, distractors: int, *, draft: bool = False
) -> float:
    """Return the share of contexts in which no distractor beats a stored filler.

    Args:
        p, k1: The number of components of a filler, and their dimension.
        shared: The number of fillers in every context.
        common: The part of the noise's covariance that comes from components sharing contexts; 1 for d far above k1.
        noise: The noise of other contexts.
        distractors: The number of candidates that are not stored in the context.
        draft: Whether to return an estimate in milliseconds, some percentage points off where k1 is small.
    """
    small = k1 <= 6 or k1**p <= 300 or (k1 <= 12 and shared > 1 and shared * k1**p <= 6_000)
    whole = p > 1 and small and shared <= 16 and not draft
    return _simulated_accuracy(p, k1, shared, common, noise, distractors, whole)


@lru_cache(maxsize=2**14)
def _simulated_accuracy(
    p: int, k1: int, shared: int, common: float, noise: Noise, distractors: int, whole: bool
) -> float:
    if whole:
        beaten = _beaten_small(draw_small_cores(p, k1, shared, common), noise, k1)
    else:
        beaten = _beaten_large(_large_cores(p, k1, shared), noise, p, k1)
    return float(torch.exp(distractors * torch.log1p(-beaten.clamp(0, 1 - 1e-12))).mean())


# Random numbers


@lru_cache(maxsize=8)
def _normals(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(1))


def _lognormal(variance: float, normals: Tensor) -> Tensor:
    """Return lognormal numbers of mean 1, whose logarithms have this variance."""
    return torch.exp(math.sqrt(variance) * normals - variance / 2)


def _units(generator: Generator, *shape: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _normal_points(count: int, shared: int) -> tuple[Tensor, Tensor]:
    """Return quasi-random numbers: uniform ones, (count,), and normal ones, (count, shared)."""
    points = torch.quasirandom.SobolEngine(shared + 1, scramble=True, seed=1).draw(count, dtype=torch.float64)
    return points[:, 0], torch.special.ndtri(points[:, 1:].clamp(1e-9, 1 - 1e-9)).float()


def _stratified(overlaps: Tensor, points: Tensor) -> Tensor:
    """Return which contexts to use, of `overlaps` (n, shared, shared): spread evenly over their lowest score."""
    step = len(overlaps) // len(points)
    order = overlaps.sum(2).amin(1).argsort()[step // 2 :: step]
    return order[points.argsort().argsort()]


def random_walk(copies: float) -> tuple[Tensor, Tensor]:
    """Return the values of a sum of random signs, and their probabilities.

    A fractional number of `copies` is rounded up or down at random.
    """
    low = math.floor(copies)
    values = torch.arange(-low - 1, low + 2)
    probabilities = torch.zeros(len(values))
    for number, part in ((low, 1 - copies + low), (low + 1, copies - low)):
        for ups in range(number + 1):
            probabilities[2 * ups - number + low + 1] += part * math.comb(number, ups) / 2**number
    return values.float(), probabilities


# Small cores: a context is drawn with all numbers of its core


def _colored(cores: Tensor, p: int, k1: int, common: float) -> Tensor:
    """Give white noise (n, k1^p) the covariance that the other pairs have in a core, up to a factor.

    Their components share a context, which makes noise larger where a candidate's own components are alike. Of two
    modes: (1 + b) for symmetric, (1 - b) for antisymmetric parts, (1 + b + k1 b) for the trace, b = common/k1.
    """
    b = common / k1
    even, odd, trace = math.sqrt(1 + b), math.sqrt(1 - b), math.sqrt(1 + b + k1 * b)
    cores = cores.reshape(-1, *(k1,) * p)
    for i, j in combinations(range(1, p + 1), 2):
        mean = cores.diagonal(dim1=i, dim2=j).mean(-1).unsqueeze(i).unsqueeze(j)
        identity = torch.eye(k1).view(*(k1 if mode in (i, j) else 1 for mode in range(p + 1)))
        cores = (even + odd) / 2 * cores + (even - odd) / 2 * cores.transpose(i, j) + (trace - even) * mean * identity
    return cores.reshape(-1, k1**p)


@lru_cache(maxsize=16)
def draw_small_cores(p: int, k1: int, shared: int, common: float) -> DrawnContexts:
    """Draw contexts with cores of k1^p numbers, and for each of them all components but one of r distractors."""
    generator = Generator().manual_seed(0)
    # Cores of few numbers vary more from context to context, larger ones need more distractors.
    block, distractors = 32, 4096 if shared == 1 and p > 2 and k1 > 3 else 1024
    count = block * min(2**21 // distractors // block, 2**23 // (shared * k1**p) // block)
    points, normals = _normal_points(count, shared)
    units = _units(generator, count * POOL_FACTOR, shared, p, k1)
    gram = (units.transpose(1, 2) @ units.permute(0, 2, 3, 1)).prod(1)
    order = _stratified(gram, points)
    units, stored = units[order], gram[order].sum(2)
    cores = outer(units.unbind(2))  # (m, shared, k1^p)
    white = torch.randn(count, k1**p, generator=generator)
    scale = _colored(white, p, k1, common).square().mean().sqrt()
    seen = _colored(cores.flatten(0, 1), p, k1, common).view(cores.shape) / scale
    # Of the white noise, the part that stored fillers see is replaced by the evenly spread normals.
    covariance = seen @ seen.mT + 1e-4 * torch.eye(shared)
    wanted = torch.linalg.cholesky(covariance) @ normals.unsqueeze(2)
    white = white + (seen.mT @ torch.linalg.solve(covariance, wanted - seen @ white.unsqueeze(2))).squeeze(2)
    parts = (cores.sum(1), _colored(white, p, k1, common) / scale)
    lengths = torch.empty(3, count, distractors)
    for rows in torch.arange(count).split(block):
        fixed = outer([_units(generator, distractors, k1) for _ in range(p - 1)]).mT
        signal, noise = ((part[rows].view(-1, len(fixed)) @ fixed).view(-1, k1, distractors) for part in parts)
        for target, product in zip(lengths, (signal.square(), signal * noise, noise.square()), strict=True):
            target[rows] = product.sum(1)
    a, b, c = lengths.half()  # half of the memory; tails change by a percent at most
    return DrawnContexts(stored, wanted.squeeze(2), (a, b, c))


@lru_cache(maxsize=64)
def cosine_tail(k: int) -> Tensor:
    """Return P(x > t) of a coordinate x of a random unit vector of R^k, at 2 TAIL_STEPS + 1 points t from -1 to 1."""
    angles = torch.linspace(1, -1, 2 * TAIL_STEPS + 1, dtype=torch.float64).arccos()
    tail = torch.cumulative_trapezoid(angles.sin() ** (k - 2), angles)
    return torch.cat((torch.zeros(1, dtype=torch.float64), tail / tail[-1])).flip(0).float()


@lru_cache(maxsize=4)  # `copies` is pairs / vocabulary, for memories of all sizes
def _walks(copies: float, contexts: int, distractors: int) -> Tensor:
    """Draw the sum of the signs of a few copies, for each distractor of each context: (m, r)."""
    values, probabilities = random_walk(copies)
    return values[
        torch.bucketize(torch.special.ndtr(_normals(3, contexts, distractors)[0]), probabilities.cumsum(0)[:-1])
    ]


def _beaten_small(drawn: DrawnContexts, noise: Noise, k1: int) -> Tensor:
    """Return the probability that one distractor beats the lowest stored filler, in each context (m,)."""
    shape = drawn.lengths[0].shape
    lowest, normals = drawn.lowest_scores(noise), _normals(3, *shape)
    if noise.copies * noise.copy > 1e-3 * noise.core:
        few = noise.copies < GAUSSIAN_COPIES and noise.signs
        steps = _walks(noise.copies, *shape) if few else math.sqrt(noise.copies) * normals[0]
        lowest = lowest - (math.sqrt(noise.copy) * steps).mul_(_lognormal(noise.copy_spread, normals[1]).sqrt_())
    cosines = (lowest / drawn.squared_lengths(noise, normals[2]).sqrt_()).clamp_(-1, 1)
    return cosine_tail(k1)[cosines.mul_(TAIL_STEPS).add_(TAIL_STEPS).round_().long()].mean(1, dtype=torch.float64)


# Large cores: a distractor is like any unit vector


@lru_cache(maxsize=128)
def _overlaps(p: int, k1: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw contexts with `shared` fillers: normals x (m, shared), and the sums of rows of a matrix Q, and Q x.

    The inner products of the fillers are 1 + Q/k1^(p/2).
    """
    generator = Generator().manual_seed(0)
    if shared == 1:
        normals = _normal_points(2048, 1)[1]
        return normals, torch.zeros_like(normals), torch.zeros_like(normals)
    pool = POOL_FACTOR if shared <= 16 else 1
    count = 2 ** int(math.log2(min(2048, max(8, 2**20 // (pool * shared * shared)))))
    points, normals = _normal_points(count, shared)
    if k1 <= GAUSSIAN_K1:
        units = _units(generator, count * pool, shared, p, k1)
        cosines = units.transpose(1, 2) @ units.permute(0, 2, 3, 1) * math.sqrt(k1)
    else:
        cosines = torch.randn(count * pool, p, shared, shared, generator=generator)
    above = cosines.prod(1).triu(1)
    overlaps = above + above.mT
    overlaps = overlaps[_stratified(overlaps, points)]
    return normals, overlaps.sum(2), (overlaps @ normals.unsqueeze(2)).squeeze(2)


def _large_cores(p: int, k1: int, shared: int) -> DrawnContexts:
    """Draw contexts with cores so large that a distractor is like any unit vector; lengths are per coordinate."""
    normals, sums, products = _overlaps(p, min(k1, GAUSSIAN_K1 + 1), shared)
    cells = k1**p
    stored, noise = 1 + sums / math.sqrt(cells), normals + products / (2 * math.sqrt(cells))  # sqrt(1 + Q) = 1 + Q/2
    chi = _normals(len(normals), 1) * math.sqrt(2 / cells)
    lengths = (stored.sum(1, keepdim=True) / cells, noise.sum(1, keepdim=True) / cells, (1 + chi).clamp_min(0))
    return DrawnContexts(stored, noise, lengths)


def _beaten_large(drawn: DrawnContexts, noise: Noise, p: int, k1: int) -> Tensor:
    """Return the probability that one distractor beats the lowest stored filler, in each context (m,)."""
    nodes = torch.linspace(-3, 3, 9)
    weights = nodes.square().div(-2).softmax(0)
    # The overlaps with stored fillers are products of cosines: their variance differs from candidate to candidate. Half
    # of what their fourth moment says fits best, as a lognormal has longer tails than they.
    spread = math.log1p(excess_kurtosis(p, k1) / (2 * drawn.stored.shape[1]))
    overlaps = drawn.lengths[0] * (_lognormal(spread, nodes) - 1)
    variances = (drawn.squared_lengths(noise, nodes) + overlaps).clamp_min(1e-12)  # (m, nodes)
    copy = noise.copy * _lognormal(noise.copy_spread, nodes)
    lowest, beaten = drawn.lowest_scores(noise), torch.zeros(len(drawn.stored), dtype=torch.float64)
    if noise.signs and noise.copies < GAUSSIAN_COPIES and noise.copies * noise.copy > 1e-3 * noise.core:
        for value, probability in zip(*(each.tolist() for each in random_walk(noise.copies)), strict=True):
            beating = tail_probability((lowest - value * copy.sqrt()) / variances.sqrt(), k1**p)
            beaten += probability * (beating * weights).sum(1)
        return beaten
    return (tail_probability(lowest / (variances + noise.copies * copy).sqrt(), k1**p) * weights).sum(1)


def tail_probability(scores: Tensor, cells: Tensor | int) -> Tensor:
    """Return P(sqrt(n) x > score) for a coordinate x of a random unit vector of n = `cells` numbers."""
    # Wallace's normal approximation of Student's t with cells - 1 degrees of freedom
    freedom = cells - 1
    square = (scores.double().square() / cells).clamp_max(1 - 1e-12)
    normal = scores.sign() * (-freedom * torch.log1p(-square)).sqrt() * (8 * freedom + 1) / (8 * freedom + 3)
    return torch.special.ndtr(-normal)


def excess_kurtosis(p: int, k1: int) -> float:
    """Return the relative excess of the fourth moment of a product of p cosines of R^k1 over a Gaussian's."""
    return max(0.0, (3 * k1 / (k1 + 2)) ** p / 3 - 1)
