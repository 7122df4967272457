"""Contexts drawn in core space, with a fixed seed: how often a candidate that is not stored beats one that is.

A context shows the cores of the fillers stored in it, plus noise. Of the other candidates only the distribution of
their scores is needed, which is known exactly given all but one of their components.
"""

import math
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Generator, Tensor

POOL = 8  # drawn contexts for each that is used
GAUSSIAN = 16  # above this k1, cosines are as good as Gaussian
FEW = 4  # copies: from here on, a sum of random signs is as good as Gaussian
STEPS = 2**15  # of the table of tails, from 0 to 1


class Noise(NamedTuple):
    """What disturbs the scores of a context."""

    cores: float  # the variance of a coordinate of the core, from all other pairs
    copy: float = 0.0  # the variance that a copy of a candidate, stored in another context, adds to its score
    copies: float = 0.0  # how many such copies a candidate has, in the mean
    signs: bool = True  # whether a copy adds plus or minus about the same, or a normal number
    uneven: float = 0.0  # the variance of the logarithm of `copy` from candidate to candidate
    grain: float = 0.0  # the relative variance of `cores` from candidate to candidate


class DrawnContexts(NamedTuple):
    """Contexts: the fillers' scores are stored + s noise, the squared lengths of the core a + 2 s b + s^2 c."""

    stored: Tensor  # (m, shared)
    noise: Tensor  # (m, shared)
    lengths: tuple[Tensor, Tensor, Tensor]  # (m, 1), or (m, r) where all but one component of a rival are fixed

    def lowest(self, noise: Noise) -> Tensor:
        """The lowest score of a stored filler in each context, (m, 1)."""
        normals = _normals(3, *self.stored.shape)
        copies = math.sqrt(max(0.0, noise.copies - 1) * noise.copy)
        own = copies * normals[0] * _lognormal(noise.uneven, normals[1]).sqrt()
        return (self.stored + math.sqrt(noise.cores) * self.noise + own).amin(1, keepdim=True)

    def squares(self, noise: Noise, normals: Tensor) -> Tensor:
        """The squared lengths; normals say how the noise differs from candidate to candidate."""
        a, b, c = self.lengths
        mean = math.sqrt(noise.cores / (1 + noise.grain / 4))
        s = (math.sqrt(noise.grain) / 2 * normals).add_(1).clamp_min_(0).mul_(mean)
        return (2 * s * b).add_(a).add_(s.mul_(s) * c).clamp_min_(1e-12)


def share_right(p: int, k1: int, shared: int, share: float, noise: Noise, rivals: int, *, draft: bool = False) -> float:
    """The share of contexts in which none of so many rivals beats a stored filler.

    `share` is how much of the noise's covariance comes from shared contexts: 1 for d far above k1. A draft takes
    milliseconds; it is some points off where k1 is small.
    """
    few = k1 <= 6 or k1**p <= 300 or (k1 <= 12 and shared > 1 and shared * k1**p <= 6_000)
    return _share_right(p, k1, shared, share, noise, rivals, whole=p > 1 and few and shared <= 16 and not draft)


@lru_cache(maxsize=2**14)
def _share_right(p: int, k1: int, shared: int, share: float, noise: Noise, rivals: int, whole: bool) -> float:
    if whole:
        beaten = _beaten_small(_small_cores(p, k1, shared, share), noise, k1)
    else:
        beaten = _beaten_large(_large_cores(p, k1, shared), noise, p, k1)
    return float(torch.exp(rivals * torch.log1p(-beaten.clamp(0, 1 - 1e-12))).mean())


# Random numbers


@lru_cache(maxsize=8)
def _normals(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(1))


def _lognormal(variance: float, normals: Tensor) -> Tensor:
    """Of mean 1, where the logarithm has this variance."""
    return torch.exp(math.sqrt(variance) * normals - variance / 2)


def _units(generator: Generator, *shape: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def _normal_points(count: int, shared: int) -> tuple[Tensor, Tensor]:
    """Numbers of (0, 1), (m,), and normals (m, shared), spread evenly together."""
    points = torch.quasirandom.SobolEngine(shared + 1, scramble=True, seed=1).draw(count, dtype=torch.float64)
    return points[:, 0], torch.special.ndtri(points[:, 1:].clamp(1e-9, 1 - 1e-9)).float()


def _evenly(overlaps: Tensor, points: Tensor) -> Tensor:
    """Which of the drawn contexts (n, shared, shared) to use, m of them: spread evenly over their lowest score."""
    step = len(overlaps) // len(points)
    order = overlaps.sum(2).amin(1).argsort()[step // 2 :: step]
    return order[points.argsort().argsort()]


def random_walk(copies: float) -> tuple[Tensor, Tensor]:
    """The values of a sum of so many random signs, and their chances; the number is rounded up or down by chance."""
    low = math.floor(copies)
    values = torch.arange(-low - 1, low + 2)
    chances = torch.zeros(len(values))
    for number, share in ((low, 1 - copies + low), (low + 1, copies - low)):
        for ups in range(number + 1):
            chances[2 * ups - number + low + 1] += share * math.comb(number, ups) / 2**number
    return values.float(), chances


# Small cores: a context is drawn whole


def _outer(vectors: tuple[Tensor, ...]) -> Tensor:
    product = vectors[0]
    for vector in vectors[1:]:
        product = (product.unsqueeze(-1) * vector.unsqueeze(-2)).flatten(-2)
    return product


def _colored(cores: Tensor, p: int, k1: int, share: float) -> Tensor:
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


@lru_cache(maxsize=16)
def _small_cores(p: int, k1: int, shared: int, share: float) -> DrawnContexts:
    """Contexts with cores of k1^p numbers, each with r choices of all components but one of a rival."""
    generator = Generator().manual_seed(0)
    # Cores of few numbers differ more from context to context, those of more need more rivals.
    block, rivals = 32, 4096 if shared == 1 and p > 2 and k1 > 3 else 1024
    count = block * min(2**21 // rivals // block, 2**23 // (shared * k1**p) // block)
    points, normals = _normal_points(count, shared)
    units = _units(generator, count * POOL, shared, p, k1)
    gram = (units.transpose(1, 2) @ units.permute(0, 2, 3, 1)).prod(1)
    order = _evenly(gram, points)
    units, stored = units[order], gram[order].sum(2)
    cores = _outer(units.unbind(2))  # (m, shared, k1^p)
    white = torch.randn(count, k1**p, generator=generator)
    scale = _colored(white, p, k1, share).square().mean().sqrt()
    seen = _colored(cores.flatten(0, 1), p, k1, share).view(cores.shape) / scale
    # Of the white noise, the part that stored fillers see is replaced by the evenly spread normals.
    covariance = seen @ seen.mT + 1e-4 * torch.eye(shared)
    wanted = torch.linalg.cholesky(covariance) @ normals.unsqueeze(2)
    white = white + (seen.mT @ torch.linalg.solve(covariance, wanted - seen @ white.unsqueeze(2))).squeeze(2)
    parts = (cores.sum(1), _colored(white, p, k1, share) / scale)
    lengths = torch.empty(3, count, rivals)
    for rows in torch.arange(count).split(block):
        fixed = _outer(tuple(_units(generator, rivals, k1) for _ in range(p - 1))).mT
        signal, noise = ((part[rows].view(-1, len(fixed)) @ fixed).view(-1, k1, rivals) for part in parts)
        for target, product in zip(lengths, (signal.square(), signal * noise, noise.square()), strict=True):
            target[rows] = product.sum(1)
    a, b, c = lengths.half()  # half of the memory; tails change by a percent at most
    return DrawnContexts(stored, wanted.squeeze(2), (a, b, c))


@lru_cache(maxsize=64)
def cosine_tail(k: int) -> Tensor:
    """P(x > t) of a coordinate x of a random unit vector of R^k, at 2 STEPS + 1 points t from -1 to 1."""
    angles = torch.linspace(1, -1, 2 * STEPS + 1, dtype=torch.float64).arccos()
    tail = torch.cumulative_trapezoid(angles.sin() ** (k - 2), angles)
    return torch.cat((torch.zeros(1, dtype=torch.float64), tail / tail[-1])).flip(0).float()


@lru_cache(maxsize=4)  # memories of all sizes have as many copies
def _walks(copies: float, contexts: int, rivals: int) -> Tensor:
    """How far a few copies, each a random sign, go together, for each rival of each context: (m, r)."""
    values, chances = random_walk(copies)
    return values[torch.bucketize(torch.special.ndtr(_normals(3, contexts, rivals)[0]), chances.cumsum(0)[:-1])]


def _beaten_small(drawn: DrawnContexts, noise: Noise, k1: int) -> Tensor:
    """The chance that one rival beats the lowest stored filler, in each context (m,)."""
    shape = drawn.lengths[0].shape
    lowest, normals = drawn.lowest(noise), _normals(3, *shape)
    if noise.copies * noise.copy > 1e-3 * noise.cores:
        few = noise.copies < FEW and noise.signs
        steps = _walks(noise.copies, *shape) if few else math.sqrt(noise.copies) * normals[0]
        lowest = lowest - (math.sqrt(noise.copy) * steps).mul_(_lognormal(noise.uneven, normals[1]).sqrt_())
    cosines = (lowest / drawn.squares(noise, normals[2]).sqrt_()).clamp_(-1, 1)
    return cosine_tail(k1)[cosines.mul_(STEPS).add_(STEPS).round_().long()].mean(1, dtype=torch.float64)


# Large cores: a rival is like any unit vector


@lru_cache(maxsize=128)
def _overlaps(p: int, k1: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of contexts with `shared` fillers: normals x (m, shared), and the rows' sums of a matrix Q and Q x.

    The fillers' inner products are 1 + Q/k1^(p/2).
    """
    generator = Generator().manual_seed(0)
    if shared == 1:
        normals = _normal_points(2048, 1)[1]
        return normals, torch.zeros_like(normals), torch.zeros_like(normals)
    pool = POOL if shared <= 16 else 1
    count = 2 ** int(math.log2(min(2048, max(8, 2**20 // (pool * shared * shared)))))
    points, normals = _normal_points(count, shared)
    if k1 <= GAUSSIAN:
        units = _units(generator, count * pool, shared, p, k1)
        cosines = units.transpose(1, 2) @ units.permute(0, 2, 3, 1) * math.sqrt(k1)
    else:
        cosines = torch.randn(count * pool, p, shared, shared, generator=generator)
    above = cosines.prod(1).triu(1)
    overlaps = above + above.mT
    overlaps = overlaps[_evenly(overlaps, points)]
    return normals, overlaps.sum(2), (overlaps @ normals.unsqueeze(2)).squeeze(2)


def _large_cores(p: int, k1: int, shared: int) -> DrawnContexts:
    """Contexts with cores so large that a rival is like any unit vector of them; lengths are per coordinate."""
    normals, sums, products = _overlaps(p, min(k1, GAUSSIAN + 1), shared)
    cells = k1**p
    stored, noise = 1 + sums / math.sqrt(cells), normals + products / (2 * math.sqrt(cells))  # sqrt(1 + Q) = 1 + Q/2
    chi = _normals(len(normals), 1) * math.sqrt(2 / cells)
    lengths = (stored.sum(1, keepdim=True) / cells, noise.sum(1, keepdim=True) / cells, (1 + chi).clamp_min(0))
    return DrawnContexts(stored, noise, lengths)


def _beaten_large(drawn: DrawnContexts, noise: Noise, p: int, k1: int) -> Tensor:
    """The chance that one rival beats the lowest stored filler, in each context (m,)."""
    nodes = torch.linspace(-3, 3, 9)
    weights = nodes.square().div(-2).softmax(0)
    # The overlaps with stored fillers are products of cosines: their variance differs from candidate to candidate. Half
    # of what their fourth moment says fits best, as a lognormal has longer tails than they.
    uneven = math.log1p(kurtosis(p, k1) / (2 * drawn.stored.shape[1]))
    overlaps = drawn.lengths[0] * (_lognormal(uneven, nodes) - 1)
    variances = (drawn.squares(noise, nodes) + overlaps).clamp_min(1e-12)  # (m, nodes)
    copy = noise.copy * _lognormal(noise.uneven, nodes)
    lowest, beaten = drawn.lowest(noise), torch.zeros(len(drawn.stored), dtype=torch.float64)
    if noise.signs and noise.copies < FEW and noise.copies * noise.copy > 1e-3 * noise.cores:
        for value, chance in zip(*(each.tolist() for each in random_walk(noise.copies)), strict=True):
            beating = tails((lowest - value * copy.sqrt()) / variances.sqrt(), k1**p)
            beaten += chance * (beating * weights).sum(1)
        return beaten
    return (tails(lowest / (variances + noise.copies * copy).sqrt(), k1**p) * weights).sum(1)


def tails(scores: Tensor, cells: Tensor | int) -> Tensor:
    """The chance that sqrt(cells) times a coordinate of a random unit vector of so many exceeds the scores."""
    # Wallace's normal approximation of Student's t with cells - 1 degrees of freedom
    freedom = cells - 1
    square = (scores.double().square() / cells).clamp_max(1 - 1e-12)
    normal = scores.sign() * (-freedom * torch.log1p(-square)).sqrt() * (8 * freedom + 1) / (8 * freedom + 3)
    return torch.special.ndtr(-normal)


def kurtosis(p: int, k1: int) -> float:
    """By how much the fourth moment of a product of p cosines of R^k1 exceeds a Gaussian's, as a fraction."""
    return max(0.0, (3 * k1 / (k1 + 2)) ** p / 3 - 1)
