"""The coarse quantizer: fixed directions that divide unit vectors into buckets, and how a core ranks the buckets.

With C the core of a context and a, b, ... one direction for each component, the merit of a bucket is

    <C, a x b x ...> + |C contracted with a| + |C contracted with b| + ...

The first term is the score of the bucket's center. The others say that there is something along a (or b), whatever goes
with it: the fillers of a bucket lie some forty degrees off its center, and the noise along the center is not that along
the filler. Without them three times as many buckets must be searched for the same recall. All terms scale with C.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Generator, Tensor

from carving import hashing
from carving.symbols.codec import canonical_path
from carving.tensors import inverse_norm, outer
from carving.tiling import rows_within, slices

FILLERS_PER_BUCKET = 4
MAX_BUCKETS = 2**20  # each query computes all their merits
CACHED_PRODUCTS = 2**18  # products with directions that are compared together
CURVE_CONTEXTS, CURVE_BUCKETS, CURVE_BATCH = 2048, 2048, 128  # that are drawn for a recall curve
NOISE_STEP = 0.1  # of the logarithm of the noise, to which it is rounded up
MARGIN = 1.25  # for the sampling error of a recall curve


def directions_per_component(count: int, p: int) -> int:
    """Return how many directions each of p components has in an index of `count` fillers."""
    return max(2, round(min(count / FILLERS_PER_BUCKET, MAX_BUCKETS) ** (1 / p)))


@lru_cache(maxsize=8)
def directions(p: int, k1: int, each: int) -> Tensor:
    """Return fixed unit vectors, (p, each, k1)."""
    names = [canonical_path((place, number)) for place in range(p) for number in range(each)]
    words = hashing.bits(names, hashing.words_for_normals(k1), seed=0, purpose="index")
    normals = hashing.normals(words)[:, :k1]
    return (normals * inverse_norm(normals, dim=1).unsqueeze(1)).float().view(p, each, k1)


def nearest_buckets(components: Tensor, ways: Tensor) -> Tensor:
    """Return the bucket numbers (n,) of unit components (n, p, k1), from their nearest directions."""
    buckets = torch.zeros(len(components), dtype=torch.int64)
    for rows in slices(len(components), rows_within(CACHED_PRODUCTS, ways.shape[1])):
        for place, own in enumerate(ways):
            buckets[rows] *= own.shape[0]
            buckets[rows] += (components[rows, place] @ own.mT).argmax(1)
    return buckets


def merits(cores: Tensor, ways: Tensor) -> Tensor:
    """Return the merits (n, e^p) of buckets for cores (n, k1, ...), given directions (n, p, e, k1) for each core."""
    count, p, each, k1 = ways.shape
    lengths = [cores.new_zeros(count, each)]
    if p > 1:
        unfolded = (cores.movedim(1 + place, 1).reshape(count, k1, -1) for place in range(p))
        lengths = [
            torch.linalg.vector_norm(own @ core, dim=2) for own, core in zip(ways.unbind(1), unfolded, strict=True)
        ]
    whole, total = cores.reshape(count, k1, -1), cores.new_zeros(count, 1)
    for own, length in zip(ways.unbind(1)[:-1], lengths[:-1], strict=True):
        # The first mode is contracted, and then is the last one.
        whole = (own @ whole.reshape(count, k1, -1)).mT
        total = (total.unsqueeze(2) + length.unsqueeze(1)).flatten(1)
    # The last contraction and all sums of lengths in one product.
    left = torch.cat([whole.reshape(count, k1, -1), total.unsqueeze(1), torch.ones_like(total).unsqueeze(1)], 1)
    last = torch.stack([torch.ones_like(lengths[-1]), lengths[-1]], dim=2)
    return (left.mT @ torch.cat([ways[:, -1], last], dim=2).mT).flatten(1)


@dataclass(frozen=True)
class RecallCurve:
    """The probability that a stored filler is outside the best buckets, as a function of their share.

    A context shows the core of its filler and Gaussian noise of one variance in every number, so that contexts can be
    simulated: a filler, its bucket, noise, and the share of buckets with a higher merit than its own.
    """

    ranks: Tensor  # (contexts,) sorted: the share of buckets that are better than the filler's own
    ranks_right: Tensor  # the ranks of the contexts in which a full scan finds the filler

    @classmethod
    def of(cls, p: int, k1: int, each: int, noise: float, candidates: int) -> "RecallCurve":
        """Return the curve for a standard deviation of noise in each number, relative to a core's norm."""
        steps = math.ceil(math.log(max(noise, 1e-3)) / NOISE_STEP)
        return _recall_curve(p, k1, each, steps, math.ceil(math.log2(max(candidates, 2))))

    def share_for(self, recall: float) -> float:
        """Return the share of buckets that has this part of a full scan's right answers."""
        place = min(len(self.ranks_right) - 1, math.ceil(recall * len(self.ranks_right)))
        return min(1.0, MARGIN * (float(self.ranks_right[place]) + 1 / CURVE_BUCKETS))

    def missed(self, share: float) -> float:
        """Return the part of stored fillers outside this share of the buckets."""
        return (int((self.ranks >= share).sum()) + 0.5) / (len(self.ranks) + 1)


@lru_cache(maxsize=64)
def _recall_curve(p: int, k1: int, each: int, steps: int, doublings: int) -> RecallCurve:
    noise, generator = math.exp(steps * NOISE_STEP), Generator().manual_seed(0)
    ways = directions(p, k1, each)
    # About the best of all other candidates: their scores are normal, from noise and from what two fillers share.
    rivals = math.sqrt(noise**2 + k1**-p) * float(torch.special.ndtri(torch.tensor(1 - 0.5**doublings)))
    ranks, right = torch.empty(CURVE_CONTEXTS), torch.empty(CURVE_CONTEXTS, dtype=torch.bool)
    for rows in slices(CURVE_CONTEXTS, CURVE_BATCH):
        count = rows.stop - rows.start
        planted = torch.nn.functional.normalize(torch.randn(count, p, k1, generator=generator), dim=2)
        codes = outer(planted.unbind(1))
        noisy = codes + noise * torch.randn(codes.shape, generator=generator)
        cores = noisy.view(count, *(k1,) * p)
        own = torch.stack([ways[i][(planted[:, i] @ ways[i].mT).argmax(1)] for i in range(p)], dim=1).unsqueeze(2)
        numbers = torch.randint(each, (p, count, round(CURVE_BUCKETS ** (1 / p))), generator=generator)
        others = torch.stack([ways[i][numbers[i]] for i in range(p)], dim=1)
        ranks[rows] = (merits(cores, others) > merits(cores, own)).float().mean(1)
        right[rows] = (noisy * codes).sum(1) > rivals
    ordered = ranks[right].sort().values
    return RecallCurve(ranks.sort().values, ordered if len(ordered) else torch.ones(1))
