"""How many fillers contexts hold, and what that makes of the odds of one of them.

Let y_f be the odds of a filler f by itself: its share among all that are stored times its likelihood ratio. If w_j is
the prior weight of a context that holds j fillers, in whatever order (j! times the probability of j), then f beside J
others that are taken to be there, and any of the rest, has the odds

    y_f sum_k w_(J+1+k) e_k / sum_k w_(J+k) e_k

with e_k the sum over all k of the rest of the products of their odds. Where no context holds more than one, that is a
softmax over all fillers and nothing.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

RARE = 0.01  # of contexts hold more, or no more, than was ever seen: not everything is seen when it is stored
NEVER = 1e-30  # in the place of a probability of 0
MOST = 8  # of the rest that are taken to be there together,
APART = 8  # and so many of the best of them are told apart; the others only have a sum


class Numbers(NamedTuple):
    """How probably contexts hold nothing; and of those with one filler or more, two or more, ..., which share more."""

    prior_empty: float = 0.5
    further: tuple[float, ...] = (0.5,)  # the last for all larger numbers

    @property
    def together(self) -> int:
        """How many fillers may be there together, as far as was seen."""
        return min(1 + sum(share > 0 for share in self.further), MOST)

    def log_ratios(self, most: int, rare: float) -> list[float]:
        """The logarithms of w_(j+1) / w_j for j = 0 .. most, in units of fillers' odds that know of absence."""
        known = [min(max(share, rare), 1 - rare) for share in self.further]
        goes = [1 - self.prior_empty, *(known[min(j, len(known)) - 1] for j in range(1, most + 2))]
        ends, present = [max(1 - share, NEVER) for share in goes], max(1 - self.prior_empty, NEVER)
        more = [1.0, *((j + 1) * max(goes[j], NEVER) / present for j in range(1, most + 1))]
        return [math.log(more[j] * ends[j + 1] / ends[j]) for j in range(most + 1)]


UNKNOWN = Numbers()


class Weights(NamedTuple):
    """The logarithms of w_0, w_1, ...: where several were found, and where there was one at most."""

    logs: Tensor  # (k,)
    empty: Tensor  # (k,)
    together: int

    @classmethod
    def of(cls, known: Numbers, there: Tensor, more: int, as_seen: bool = False) -> "Weights":
        """Those that contexts need which hold these numbers (n,) and so many more.

        What was never seen is rare; `as_seen`, and where one was found at most, it is not there: as for single answers.
        """
        most = (int(there.max()) if len(there) else 0) + more + known.together
        usual, seen = (
            torch.tensor([0.0, *known.log_ratios(most, rare)], dtype=torch.float64, device=there.device).cumsum(0)
            for rare in (RARE, 0.0)
        )
        return cls(usual, seen if as_seen else usual, known.together)

    def beside(self, there: Tensor, found: Tensor | None = None) -> Tensor:
        """Those (n, k) of contexts that hold so many, one more, two more, ...; by what was found, if it may be more."""
        columns = torch.arange(self.together + 2, device=there.device)
        usual = (there if found is None else found - 1).unsqueeze(1) > 0
        return torch.where(usual, self.logs[there.unsqueeze(1) + columns], self.empty[columns])

    def whole(self, found: Tensor, most: int) -> Tensor:
        """Those (n, most + 1) of holding nothing, one, two, ..."""
        columns = torch.arange(most + 1, device=found.device)
        return torch.where(found.unsqueeze(1) > 1, self.logs[columns], self.empty[columns])


def log_odds(alone: Tensor, columns: Tensor, log_weights: Tensor, tail: Tensor | None = None) -> Tensor:
    """The log odds (n, c) of the fillers of these columns, of those with these log odds by themselves (n, m).

    `log_weights` (n, k) are those of holding what is there, one more, two more, ...; `tail` (n,) is the logarithm of
    the summed odds of fillers that have no column. Those that are there, or cannot be, have the odds of minus infinity.
    """
    own, degree = alone.gather(1, columns), log_weights.shape[1] - 2
    best, places = alone.topk(min(1 if degree < 2 else APART, alone.shape[1]), dim=1)
    rest = alone.scatter(1, places, -torch.inf).logsumexp(1, keepdim=True)
    rest = rest if tail is None else torch.logaddexp(rest, tail.unsqueeze(1))
    itself = columns.unsqueeze(2) == places.unsqueeze(1)  # (n, c, best)
    rest = torch.where(itself.any(2), rest, rest + torch.log1p(-(own - rest).exp().clamp_max(1)).nan_to_num(0.0))
    sums = [torch.zeros_like(rest), *(k * rest - math.lgamma(k + 1) for k in range(1, degree + 1))]
    for place in range(places.shape[1]):
        other = torch.where(itself[:, :, place], -torch.inf, best[:, place : place + 1])
        for k in range(degree, 0, -1):
            sums[k] = torch.logaddexp(sums[k], sums[k - 1] + other)
    weights = (log_weights - log_weights[:, :1]).unsqueeze(1).to(own)  # (n, 1, k)
    every = torch.stack(sums, dim=2)
    return own + (weights[:, :, 1:] + every).logsumexp(2) - (weights[:, :, :-1] + every).logsumexp(2)
