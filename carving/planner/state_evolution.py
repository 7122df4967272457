"""State evolution: the result of joint decoding, predicted without a memory.

A context of amplitude a sees its own filler in Gaussian noise of variance tau^2; its expectation then leaves the share
m(a / tau) of the filler's energy open. All that is open is the noise of the next round, until the fixed point:

    tau^2 <- load E[a^2 m(a / tau)],    load = pairs / cells.

A distractor differs from the true candidate by its cosine rho, a product of p cosines of random unit vectors, and by
its own part of the noise. Its weight in the softmax, relative to the true one's, is exp(gap). Distractors are many and
independent, so the mean of 1 / (1 + sum of exp(gap)) is an integral over x of e^-x (E e^(-x exp(gap)))^(L - 1): nothing
is drawn.

In a quantized memory, let T be the open variance as a share of the memory's. An expectation P has the variance 1 - T,
and a number around it lies in some bin, which takes away the share 1 - v / T of its variance, on average over all
numbers; the noise is T over that (as `carving.inference` decodes it). With all open it is 1 / (1 - D), with D the
distortion; real numbers have T itself.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from carving.planner.monte_carlo import tail_probability
from carving.quantization import distortion, edges, truncated

TABLE_STEPS = 24  # of the table of m, from s = a / tau = 0 to where hardly anything is open any more
GRID = 0.5  # of gaps, and of the logarithm of x
AMPLITUDES = 64  # equally probable ones
CONVERGED = 1e-5  # the relative change of tau^2 from round to round
NOTHING_OPEN = 1e-9  # of the first noise: below, nothing is left to be found
MAX_ROUNDS = 2_000
COSINE_BINS = 35
ANGLES = 128
NOISE_POINTS = 19  # of the noise along the true candidate
LOWEST_LOG = -12.0  # log10 of the smallest T in the table of bins
LOG_POINTS = 73  # of that table, evenly in the logarithm of T
FINE = 6  # points of the grid of P per standard deviation of what is open
ISOLATED = 6  # standard deviations of what is open per step of bins: beyond, every edge is alone
GAUSSIAN_BITS = 8  # whose bins are as good as a little Gaussian noise


class FixedPoint(NamedTuple):
    """The fixed point of state evolution: the predicted result of joint decoding."""

    accuracy: float  # the share of contexts whose filler has the largest score
    noise: float  # tau^2
    rounds: int  # until convergence


@lru_cache(maxsize=2**12)
def fixed_point(
    load: float, p: int, k1: int, vocabulary: int, spread: float = 0.0, bits: int | None = None
) -> FixedPoint:
    """Return the fixed point of state evolution, which predicts joint decoding, starting at the noise of all pairs.

    Args:
        load: The load factor, pairs / cells.
        p, k1: The order of OSC and the dimensions that a context keeps; p = 0 for candidates without overlaps (VSAs).
        vocabulary: The number of candidates.
        spread: The spread of amplitudes, as in `OSC`.
        bits: Bits a cell of a quantized memory; None for real numbers.

    >>> [round(fixed_point(load, p=0, k1=0, vocabulary=100).accuracy, 2) for load in (0.1, 0.2, 0.4)]
    [1.0, 1.0, 0.22]
    """
    if p and k1 == 1:  # on a line every candidate is the stored filler or its opposite
        return FixedPoint(0.5 ** (vocabulary - 1), load, 1)
    amplitude, step, table = amplitudes(spread), table_step(vocabulary), residual_table(p, k1, vocabulary)
    open_, rounds = load, 1  # the first round is that of single queries
    while rounds < MAX_ROUNDS and open_ > NOTHING_OPEN * load:
        scale = step * math.sqrt(_noise(open_, load, bits))
        left = load * float((amplitude.square() * interpolate(table, amplitude / scale)).mean())
        converged, open_, rounds = left > (1 - CONVERGED) * open_, left, rounds + 1
        if converged:
            break
    noise = max(_noise(open_, load, bits), 1e-12 * load)
    return FixedPoint(float(probability_correct(amplitude / math.sqrt(noise), p, k1, vocabulary).mean()), noise, rounds)


def _noise(open_: float, load: float, bits: int | None) -> float:
    """Return the noise for an open variance: itself, or what the bins leave of it."""
    return open_ if bits is None else load * quantized_noise(open_ / load, bits)


def safety_margin(pairs: int, quantized: bool = False) -> float:
    """Return the headroom of a plan, as a fraction of the pairs: finite memories fail before the threshold.

    Measured without a spread, as pairs / threshold: of 33 / 47 converged 39 of 40 memories, of 84 / 105 30 of 30, of
    154 / 181 29 of 30, of 333 / 370 27 of 30 and of 314 / 370 30 of 30, of 598 / 636 and of 1,308 / 1,391 10 of 10. At
    the threshold itself one in ten does. Quantized memories can be decoded only if not one answer is wrong: 349 of 360
    memories of 40 to 100 pairs, with 1 to 3 bits and spreads of 0 to 0.9, and 100 of 100 of 200 and 300 pairs were
    decoded so; with the margin of real numbers nine in ten.
    """
    return (3.5 if quantized else 2.5) / math.sqrt(pairs)


def finite_size_correction(pairs: int, spread: float) -> float:
    """Return by how much quantized memories fail before state evolution predicts, as a fraction of the pairs.

    In a memory near capacity little more is found from round to round, and nothing where there happen to be too many
    pairs of about one amplitude, or too much noise in them: the more rounds, the likelier. Of ten memories each, half
    fail where, in percent, there are 1.5 more pairs than 273 (1 bit), 1.7 than 253 (2 bits), 3.5 than 281 (2 bits,
    spread 0.6), 7 than 276 (3 bits, 0.9); 0.7 than 1,000 (1 bit), 1.7 (2 bits, 0.6), 3.0 (3 bits, 0.9; with k1=20 5.4);
    1.8 than 4,000 (3 bits, 0.9).
    """
    return (0.7 + 3 * spread**2) * pairs ** (-2 / 3)


def amplitudes(spread: float) -> Tensor:
    """Return amplitudes of contexts: uniform in their logarithm, with a mean square of 1."""
    if not spread:
        return torch.ones(1, dtype=torch.float64)
    uniform = (torch.arange(AMPLITUDES, dtype=torch.float64) + 0.5) / AMPLITUDES
    values = torch.exp(spread * (2 * uniform - 1))
    return values / values.square().mean().sqrt()


def interpolate(table: Tensor, position: Tensor) -> Tensor:
    """Interpolate a table of a function by cubics; after its end the function falls on as a power."""
    inside = position.clamp_max(TABLE_STEPS - 1e-9)
    low = inside.long()
    part = inside - low
    before, here, after, later = (table[(low + i).clamp(0, TABLE_STEPS)] for i in (-1, 0, 1, 2))
    slope, end = (after - before) / 2, (later - here) / 2
    bend = 3 * (after - here) - 2 * slope - end + part * (2 * (here - after) + slope + end)
    last, earlier = max(float(table[-1]), 1e-12), max(float(table[-3]), 1e-12)
    power = math.log(earlier / last) / math.log(TABLE_STEPS / (TABLE_STEPS - 2))
    return (here + part * (slope + part * bend)).clamp(0, 1) * (inside / position.clamp_min(1e-9)) ** max(power, 2)


# One context: its noise, its distractors


def _doubles(*values: float) -> Tensor:
    """Return a tensor in double precision."""
    return torch.tensor(values, dtype=torch.float64)


@lru_cache(maxsize=64)
def distractor_bins(p: int, k1: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return distractors of a true candidate, in bins of about equal cosines that are finer around zero.

    Returns:
        Of each bin the cosine with the true candidate, a product of p cosines of random unit vectors; its probability;
        and the dimension of the random vector of which a coordinate is like the part of the noise.
    """
    if not p:
        return _doubles(0), _doubles(1), _doubles(1e9)
    edges = torch.linspace(-1, 1, COSINE_BINS + 1, dtype=torch.float64)
    edges = torch.cat((edges.sign() * edges.abs() ** 1.5, _doubles(0.98, 0.992, 0.997))).sort().values
    count = len(edges) - 1
    angles = (torch.arange(ANGLES, dtype=torch.float64) + 0.5) * math.pi / ANGLES
    # A distractor may differ in any components, in 2^p - 1 ways, each with a share of its noise and its own dimension:
    # few, p (k1 - 1), where it is nearly the true one. The sum of shares^2 / dimensions is a product over components.
    parts = (angles.sin() ** (k1 - 2), angles.cos(), angles.cos() ** 4 + angles.sin() ** 4 / (k1 - 1))
    probabilities, cosines, sharing = _doubles(1), _doubles(1), _doubles(1)
    for _ in range(p):
        each = zip((probabilities, cosines, sharing), parts, strict=True)
        probabilities, cosines, sharing = (torch.outer(before, part).flatten() for before, part in each)
        bins = torch.bucketize(cosines, edges).clamp(1, count) - 1
        sums = torch.zeros(3, count, dtype=torch.float64)
        sums.index_add_(1, bins, torch.stack((probabilities, probabilities * cosines, probabilities * sharing)))
        probabilities, cosines, sharing = sums[:, sums[0] > 1e-12 * sums[0].sum()]
        cosines, sharing = cosines / probabilities, sharing / probabilities
        probabilities = probabilities / probabilities.sum()
    dims = (1 - cosines.square()).square() / (sharing - cosines**4).clamp_min(1e-12)
    # The scores of such distractors are neither bounded as in these dimensions nor as in all: the mean of both fits.
    return cosines, probabilities, (dims.clamp(max(4, p * (k1 - 1)), k1**p) * k1**p).sqrt()


@lru_cache(maxsize=64)
def noise_grid(p: int, k1: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the noise of contexts on a grid: normal along the true candidate, of chi-square squared length across.

    Returns:
        The part along the true candidate, the length in all other dimensions relative to the mean, and the probability.
    """
    along = torch.linspace(-4.5, 4.5, NOISE_POINTS, dtype=torch.float64)
    probabilities = (-along.square() / 2).softmax(0)
    if not p:
        return along, torch.ones_like(along), probabilities
    variance = 2 / (9 * (k1**p - 1))  # of the cube root, which is about normal: three points stand for it
    lengths = (1 - variance + _doubles(-math.sqrt(3), 0, math.sqrt(3)) * math.sqrt(variance)) ** 1.5
    grid = torch.cartesian_prod(along, lengths)
    return grid[:, 0], grid[:, 1], torch.outer(probabilities, _doubles(1 / 6, 2 / 3, 1 / 6)).flatten()


@lru_cache(maxsize=256)
def residual_table(p: int, k1: int, vocabulary: int) -> Tensor:
    """Return m(s) at s = 0, step, 2 step and so on: the share of a filler's energy that its expectation leaves open."""
    step = table_step(vocabulary)
    return _doubles(1 - 1 / vocabulary, *(_residual(step * i, p, k1, vocabulary) for i in range(1, TABLE_STEPS + 1)))


def table_step(vocabulary: int) -> float:
    """Return a tenth of the s at which a candidate is as strong as its strongest distractor."""
    return math.sqrt(2 * math.log(max(vocabulary, 8))) / 10


def _residual(s: float, p: int, k1: int, vocabulary: int) -> float:
    """Return m(s): the mean of 1 minus the softmax expectation."""
    cosines, likely, dims = distractor_bins(p, k1)
    along, across, probabilities = noise_grid(p, k1)
    low = math.log(vocabulary) + 6  # distractors below e^-low add up to nothing
    gaps, logs = torch.arange(-low, 20, GRID), torch.arange(-low - 14, 4, GRID)
    # A distractor's gap, given its cosine and the noise of the context: about normal, but bounded.
    means = torch.outer(s * (s + along), cosines - 1)
    scales = (s * torch.outer(across, (1 - cosines.square()).sqrt())).clamp_min(0.6 * GRID)
    z = (gaps - means.float().unsqueeze(2)) / (scales * dims.sqrt()).float().unsqueeze(2)  # (contexts, cosines, gaps)
    density = z.square_().clamp_max_(1 - 1e-6).neg_().log1p_().mul_(((dims - 3) / 2).float().unsqueeze(1)).exp_()
    unit = torch.exp(torch.lgamma(dims / 2) - torch.lgamma((dims - 1) / 2)) / (dims * math.pi).sqrt()
    weights = (likely * unit * GRID / scales).float().unsqueeze(1)
    masses = torch.cat((weights, weights * cosines.float()), dim=1) @ density
    # The softmax as an integral over x: (contexts, x).
    x = logs.double().exp()
    y = (gaps.unsqueeze(1) + logs).exp().clamp_max(80)
    lost = masses[:, 0].double() @ -torch.expm1(-y).double()
    none = torch.exp((vocabulary - 2) * torch.log1p(-lost.clamp(0, 1 - 1e-9)))
    drawn = (vocabulary - 1) * (masses[:, 1] @ (y * torch.exp(-y))).double()
    expected = GRID * ((x * (1 - lost) + drawn) * none * torch.exp(-x)).sum(1)
    return float((1 - probabilities @ expected).clamp(0, 1))


def probability_correct(s: Tensor, p: int, k1: int, vocabulary: int) -> Tensor:
    """Return the probability that no distractor has a larger score than the true candidate, for each s."""
    cosines, likely, dims = distractor_bins(p, k1)
    along, across, probabilities = noise_grid(p, k1)
    ahead = ((s.unsqueeze(1) + along) / across).unsqueeze(2) * ((1 - cosines) / (1 + cosines)).sqrt()
    beaten = tail_probability(ahead, dims) @ likely  # (s, contexts)
    return torch.exp((vocabulary - 1) * torch.log1p(-beaten.clamp_max(1 - 1e-12))) @ probabilities


# Quantized memories: the noise, from the bins


def quantized_noise(open_: float, bits: int) -> float:
    """Return the noise, as a share of the memory's variance, where the share `open_` of the variance is open.

    >>> [round(quantized_noise(1.0, bits), 3) for bits in (1, 2, 4)]
    [1.571, 1.135, 1.011]
    """
    open_ = max(open_, 10**LOWEST_LOG)
    return open_ / math.exp(np.interp(math.log10(open_), *_resolved_table(bits)))


@lru_cache(maxsize=8)
def _resolved_table(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log10 T, from the smallest T to 1, and the logarithms of `resolved_share`."""
    logs = np.linspace(LOWEST_LOG, 0, LOG_POINTS)
    return logs, np.array([math.log(resolved_share(10**log, bits)) for log in logs.tolist()])


def resolved_share(open_: float, bits: int) -> float:
    """Return the share 1 - v / T of the open variance T = `open_` that the bins take away on average."""
    ends, scale, spread = edges(bits), math.sqrt(open_), math.sqrt(max(1 - open_, 0.0))
    step = float(ends[2] - ends[1]) if bits > 1 else math.inf
    if scale * ISOLATED < min(step, 1.0):
        # Around an edge, u standard deviations off, the two sides have the means -+ phi / Phi: their mean square.
        u = torch.linspace(-7, 7, 2801, dtype=torch.float64)
        density = torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi)
        square = density.square() * (1 / torch.special.ndtr(u) + 1 / torch.special.ndtr(-u))
        along = torch.exp(-(ends[1:-1] / spread).square() / 2) / (spread * math.sqrt(2 * math.pi))
        return float(square.sum() * (u[1] - u[0]) * along.sum() * scale)
    if bits >= GAUSSIAN_BITS:
        return open_ / (open_ + distortion(bits))
    count = 2 * math.ceil(8 * spread * FINE / scale) + 1
    expected = torch.linspace(-8 * spread, 8 * spread, count, dtype=torch.float64)
    weights = torch.softmax(-(expected / max(spread, 1e-30)).square() / 2, 0)
    low, high = (part - expected.unsqueeze(1) for part in (ends[:-1], ends[1:]))
    masses = torch.special.ndtr(high / scale) - torch.special.ndtr(low / scale)
    shifts = truncated(low, high, open_)[0]
    return float(weights @ (masses * shifts.square()).sum(1)) / open_
