"""State evolution: what joint decoding will find, predicted without a memory.

A context of amplitude a sees its own filler in Gaussian noise of variance tau^2, and what it then expects to hold
leaves the share m(a / tau) of its energy open. All that is open is the noise of the next round, until it rests:

    tau^2 <- load E[a^2 m(a / tau)],    load = pairs / cells.

A rival differs from the true candidate by its cosine rho, a product of p cosines of random unit vectors, and by its own
part of the noise. Its weight in the softmax, against the true one's, is exp(gap). Rivals are many and independent, so
the mean of 1 / (1 + sum of exp(gap)) is an integral over x of e^-x (E e^(-x exp(gap)))^(L - 1): nothing is drawn.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from carving.planner.intervals import noise_in_cells
from carving.planner.rivals import tails

STEPS = 24  # of the table of m, from s = a / tau = 0 to where hardly anything is open any more
GRID = 0.5  # of gaps, and of the logarithm of x
AMPLITUDES = 64  # equally probable ones
REST = 1e-5  # the relative change of tau^2 from round to round below which it rests
NOTHING = 1e-9  # of the first noise: below, nothing is left to be found
ROUNDS = 2_000
BINS = 35  # of cosines
ANGLES = 128
ALONG = 19


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
    amplitude, step, table = amplitudes(spread), table_step(vocabulary), open_shares(p, k1, vocabulary)
    open_, rounds = load, 1  # the first round asks one at a time
    while rounds < ROUNDS and open_ > NOTHING * load:
        scale = step * math.sqrt(_noise(open_, load, bits))
        left = load * float((amplitude.square() * interpolate(table, amplitude / scale)).mean())
        rested, open_, rounds = left > (1 - REST) * open_, left, rounds + 1
        if rested:
            break
    noise = max(_noise(open_, load, bits), 1e-12 * load)
    return FixedPoint(float(chance_right(amplitude / math.sqrt(noise), p, k1, vocabulary).mean()), noise, rounds)


def _noise(open_: float, load: float, bits: int | None) -> float:
    """The noise of what is open: itself, or what cells let through of it."""
    return open_ if bits is None else load * noise_in_cells(open_ / load, bits)


def margin(pairs: int, quantized: bool = False) -> float:
    """How many pairs more a plan has room for, as a fraction: finite memories fail before the threshold.

    Measured without a spread, as pairs / threshold: of 33 / 47 converged 39 of 40 memories, of 84 / 105 30 of 30, of
    154 / 181 29 of 30, of 333 / 370 27 of 30 and of 314 / 370 30 of 30, of 598 / 636 and of 1,308 / 1,391 10 of 10. At
    the threshold itself one in ten does. Quantized ones, of which not an answer may be wrong if they are to be decoded,
    are found whole: 349 of 360 memories of 40 to 100 pairs with 1 to 3 bits and spreads of 0 to 0.9, and 100 of 100 of
    200 and 300 pairs; with the margin of others it was nine in ten.
    """
    return (3.5 if quantized else 2.5) / math.sqrt(pairs)


def sooner(pairs: int, spread: float) -> float:
    """By how much sooner than by state evolution quantized memories of so many pairs fail, as a fraction of the pairs.

    Where a memory is nearly too full, hardly more is found from round to round, and where chance has put too many pairs
    of about one loudness, or too much noise into them, nothing is: the longer the way, the likelier. Of ten memories
    each, half fail where, in percent, there are 1.5 more pairs than 273 (1 bit), 1.7 than 253 (2 bits), 3.5 than 281 (2
    bits, spread 0.6), 7 than 276 (3 bits, 0.9); 0.7 than 1,000 (1 bit), 1.7 (2 bits, 0.6), 3.0 (3 bits, 0.9; with k1=20
    5.4); 1.8 than 4,000 (3 bits, 0.9).
    """
    return (0.7 + 3 * spread**2) * pairs ** (-2 / 3)


def amplitudes(spread: float) -> Tensor:
    """How loud contexts are written: even on a scale of decibels, with a mean square of 1."""
    if not spread:
        return torch.ones(1, dtype=torch.float64)
    uniform = (torch.arange(AMPLITUDES, dtype=torch.float64) + 0.5) / AMPLITUDES
    values = torch.exp(spread * (2 * uniform - 1))
    return values / values.square().mean().sqrt()


def interpolate(table: Tensor, position: Tensor) -> Tensor:
    """A table of a function, read by cubics between its points; after its end it falls on as a power."""
    inside = position.clamp_max(STEPS - 1e-9)
    low = inside.long()
    part = inside - low
    before, here, after, later = (table[(low + i).clamp(0, STEPS)] for i in (-1, 0, 1, 2))
    slope, end = (after - before) / 2, (later - here) / 2
    bend = 3 * (after - here) - 2 * slope - end + part * (2 * (here - after) + slope + end)
    last, earlier = max(float(table[-1]), 1e-12), max(float(table[-3]), 1e-12)
    power = math.log(earlier / last) / math.log(STEPS / (STEPS - 2))
    return (here + part * (slope + part * bend)).clamp(0, 1) * (inside / position.clamp_min(1e-9)) ** max(power, 2)


# One context: its own noise, its rivals


class Rivals(NamedTuple):
    """The rivals of a true candidate: each row stands for those of about the same cosine."""

    cosines: Tensor  # with the true candidate
    chances: Tensor
    dims: Tensor  # their part of the noise is like a coordinate of a random vector of so many dimensions


class Noises(NamedTuple):
    """The noise of contexts: each row stands for those that see about the same."""

    along: Tensor  # its part along the true candidate
    across: Tensor  # its length in all other dimensions, relative to the mean
    chances: Tensor


def doubles(*values: float) -> Tensor:
    """Numbers in double precision."""
    return torch.tensor(values, dtype=torch.float64)


@lru_cache(maxsize=64)
def rival_bins(p: int, k1: int) -> Rivals:
    """Products of p cosines of random unit vectors, in bins that are finer around zero."""
    if not p:
        return Rivals(doubles(0), doubles(1), doubles(1e9))
    edges = torch.linspace(-1, 1, BINS + 1, dtype=torch.float64)
    edges = torch.cat((edges.sign() * edges.abs() ** 1.5, doubles(0.98, 0.992, 0.997))).sort().values
    count = len(edges) - 1
    angles = (torch.arange(ANGLES, dtype=torch.float64) + 0.5) * math.pi / ANGLES
    # A rival may differ in any components, in 2^p - 1 ways, each of a share of its noise and of dimensions of its own:
    # few, p (k1 - 1), where it is nearly the true one. The sum of shares^2 / dimensions is a product over components.
    parts = (angles.sin() ** (k1 - 2), angles.cos(), angles.cos() ** 4 + angles.sin() ** 4 / (k1 - 1))
    chances, cosines, sharing = doubles(1), doubles(1), doubles(1)
    for _ in range(p):
        each = zip((chances, cosines, sharing), parts, strict=True)
        chances, cosines, sharing = (torch.outer(before, part).flatten() for before, part in each)
        bins = torch.bucketize(cosines, edges).clamp(1, count) - 1
        sums = torch.zeros(3, count, dtype=torch.float64)
        sums.index_add_(1, bins, torch.stack((chances, chances * cosines, chances * sharing)))
        chances, cosines, sharing = sums[:, sums[0] > 1e-12 * sums[0].sum()]
        cosines, sharing = cosines / chances, sharing / chances
        chances = chances / chances.sum()
    dims = (1 - cosines.square()).square() / (sharing - cosines**4).clamp_min(1e-12)
    # The scores of such rivals are neither bounded as in these dimensions nor as in all: the mean of both fits.
    return Rivals(cosines, chances, (dims.clamp(max(4, p * (k1 - 1)), k1**p) * k1**p).sqrt())


@lru_cache(maxsize=64)
def noise_grid(p: int, k1: int) -> Noises:
    """Noise along the true candidate is normal, the square of its length across a chi-square: both on a grid."""
    along = torch.linspace(-4.5, 4.5, ALONG, dtype=torch.float64)
    chances = (-along.square() / 2).softmax(0)
    if not p:
        return Noises(along, torch.ones_like(along), chances)
    variance = 2 / (9 * (k1**p - 1))  # of the cube root, which is about normal: three points stand for it
    lengths = (1 - variance + doubles(-math.sqrt(3), 0, math.sqrt(3)) * math.sqrt(variance)) ** 1.5
    grid = torch.cartesian_prod(along, lengths)
    return Noises(grid[:, 0], grid[:, 1], torch.outer(chances, doubles(1 / 6, 2 / 3, 1 / 6)).flatten())


@lru_cache(maxsize=256)
def open_shares(p: int, k1: int, vocabulary: int) -> Tensor:
    """m(s) at s = 0, step, 2 step and so on: the share of a filler's energy that its expectation leaves open."""
    step = table_step(vocabulary)
    return doubles(1 - 1 / vocabulary, *(_open_share(step * i, p, k1, vocabulary) for i in range(1, STEPS + 1)))


def table_step(vocabulary: int) -> float:
    """A tenth of the s at which a candidate is as strong as the strongest of its rivals."""
    return math.sqrt(2 * math.log(max(vocabulary, 8))) / 10


def _open_share(s: float, p: int, k1: int, vocabulary: int) -> float:
    cosines, likely, dims = rival_bins(p, k1)
    along, across, chances = noise_grid(p, k1)
    low = math.log(vocabulary) + 6  # rivals below e^-low are nothing, even all together
    gaps, logs = torch.arange(-low, 20, GRID), torch.arange(-low - 14, 4, GRID)
    # A rival's gap, given its cosine and the noise of the context: about normal, but bounded.
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
    return float((1 - chances @ expected).clamp(0, 1))


def chance_right(s: Tensor, p: int, k1: int, vocabulary: int) -> Tensor:
    """The chance that no rival has a larger score than the true candidate, for each s."""
    cosines, likely, dims = rival_bins(p, k1)
    along, across, chances = noise_grid(p, k1)
    ahead = ((s.unsqueeze(1) + along) / across).unsqueeze(2) * ((1 - cosines) / (1 + cosines)).sqrt()
    beaten = tails(ahead, dims) @ likely  # (s, contexts)
    return torch.exp((vocabulary - 1) * torch.log1p(-beaten.clamp_max(1 - 1e-12))) @ chances
