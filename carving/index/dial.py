"""How much must be looked at: the share of the cells, from what is known of a context that holds a filler.

What a context shows is its filler's core and Gaussian noise of one variance in every number. So contexts can be drawn
as they will come: a filler, its cell, noise, and for how many of all cells more speaks than for its own.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Generator, Tensor

from carving.index.directions import directions, merits_of
from carving.tensors import outer
from carving.tiling import slices

CONTEXTS, CELLS = 2048, 2048  # that are drawn
AT_ONCE = 128
STEP = 0.1  # of the logarithm of the noise, to which it is rounded up
MARGIN = 1.25  # for what chance does to so few


@dataclass(frozen=True)
class Dial:
    """For shares of the cells, in what part of contexts the filler's own is not among the best so many."""

    ranks: Tensor  # (contexts,) in order: the shares of cells that are better than the filler's own
    ranks_right: Tensor  # the same where a scan is right

    def share_for(self, wish: float) -> float:
        """The share of cells among which a scan's right answer is with this probability."""
        place = min(len(self.ranks_right) - 1, math.ceil(wish * len(self.ranks_right)))
        return min(1.0, MARGIN * (float(self.ranks_right[place]) + 1 / CELLS))

    def missed(self, share: float) -> float:
        """The part of stored fillers that are elsewhere."""
        count = int((self.ranks >= share).sum())
        return (count + 0.5) / (len(self.ranks) + 1)


def dial(p: int, k1: int, each: int, noise: float, candidates: int) -> Dial:
    """The dial for noise of this standard deviation in each number, a filler's core having the norm 1."""
    steps = math.ceil(math.log(max(noise, 1e-3)) / STEP)
    return _dial(p, k1, each, steps, math.ceil(math.log2(max(candidates, 2))))


@lru_cache(maxsize=64)
def _dial(p: int, k1: int, each: int, steps: int, doublings: int) -> Dial:
    noise, generator = math.exp(steps * STEP), Generator().manual_seed(0)
    ways = directions(p, k1, each)
    # The best of all others, about: their scores are normal, of the noise and of what two fillers have in common.
    rivals = math.sqrt(noise**2 + k1**-p) * float(torch.special.ndtri(torch.tensor(1 - 0.5**doublings)))
    ranks, right = torch.empty(CONTEXTS), torch.empty(CONTEXTS, dtype=torch.bool)
    for rows in slices(CONTEXTS, AT_ONCE):
        count = rows.stop - rows.start
        planted = torch.nn.functional.normalize(torch.randn(count, p, k1, generator=generator), dim=2)
        codes = outer(planted.unbind(1))
        cores = codes + noise * torch.randn(codes.shape, generator=generator)
        shown = cores.view(count, *(k1,) * p)
        own = torch.stack([ways[i][(planted[:, i] @ ways[i].mT).argmax(1)] for i in range(p)], dim=1).unsqueeze(2)
        numbers = torch.randint(each, (p, count, round(CELLS ** (1 / p))), generator=generator)
        others = torch.stack([ways[i][numbers[i]] for i in range(p)], dim=1)
        ranks[rows] = (merits_of(shown, others) > merits_of(shown, own)).float().mean(1)
        right[rows] = (cores * codes).sum(1) > rivals
    ordered = ranks[right].sort().values
    return Dial(ranks.sort().values, ordered if len(ordered) else torch.ones(1))
