"""Questions asked by an index: the best of what was looked at, scored exactly, with probabilities that count the rest.

A filler that was not looked at may be the one that is stored. Then the best of those that were is the best of many
rivals only, which the next one follows closely: by a gap g of log odds or more with the probability exp(-r g), where
r = s^2 x / t^2, x the score of that next one, s^2 the noise and t^2 the variance of rivals' scores, the core's squared
norm over its numbers. If it is the one, its score is 1 to the noise, and the gap is large. Both, and how many stored
fillers are missed so (`dial.py`), tell how probable it is that the right one is elsewhere: that counts beside the odds
of all that were looked at, and where it is little (`DOUBT`), no more is looked at; else up to the share of cells that
has the wished part of a scan's right answers.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.index.dial import Dial, dial
from carving.index.looking import Look
from carving.index.segments import Index
from carving.inference.likelihood import Evidence, Likelihood
from carving.inference.ranking import Best, Ranking, best_of
from carving.schemes.base import Contexts, Scheme, draw_fillers
from carving.symbols.vocabulary import Vocabulary

SHORTLIST = 32  # of the best in int8 that are scored exactly
FIRST, MORE = 2.0**-10, 4  # the share of cells that is looked at first, and how many times as many then
BELOW = 25.0  # nats below the best, where ten million together are next to nothing
CROWDED = 3  # standard deviations by which a core may be louder than the noise
DOUBT = 4  # times 1 - wish, at which one stops: most are far surer, so that in the mean half of 1 - wish is lost by it
ALL = 0.25  # share from which on all are looked at

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """How an index is asked."""

    scheme: Scheme
    index: Index
    vocabulary: Vocabulary
    odds_of: Callable[[Rows], Likelihood]  # of values by their rows
    prior_empty: float  # the probability of nothing being there
    wish: float  # the part of a scan's right answers that is wished
    prior_range: float = math.inf  # by how much log odds of values differ at most before the memory is asked
    single: bool = True  # whether contexts hold one value at most, so that a sure one is all

    def shares(self, known: Dial) -> list[float]:
        """The shares of cells that are looked at, one after the other."""
        last = known.share_for(self.wish)
        last, share, shares = 1.0 if last > ALL else last, FIRST, list[float]()
        while self.single and share * 2 < last:
            shares.append(share)
            share *= MORE
        return [*shares, last]


class _Seen:
    """What was looked at for one question."""

    def __init__(self, asked: Asked, core: Tensor, energy: Tensor) -> None:
        self.asked, self.energy = asked, energy
        self.rows, self.log_odds, self.scores = list[Rows](), list[Tensor](), list[Tensor]()
        odds = asked.odds_of(np.zeros(1, dtype=np.int64))
        # A stored filler scores 1 in these units, but for the noise; a rival nothing, but for this variance.
        self.unit = min(odds.strengths.values) * float(energy)
        self.noise = math.sqrt(float(odds.variance[0]) * float(energy)) / self.unit
        self.size = core.numel()
        self.rivals = float(core.square().sum()) / self.size / self.unit**2
        self.log_elsewhere = math.inf
        all_count = not asked.single or len(odds.strengths.values) > 1
        self.width = math.inf if all_count else (BELOW + asked.prior_range) * self.noise**2 * self.unit

    @property
    def loudness(self) -> float:
        """The noise in this core: more than in others, where the context holds further fillers."""
        size = self.size
        own = self.rivals - 1 / size
        return math.sqrt(own) if own > (1 + CROWDED * math.sqrt(2 / size)) * self.noise**2 else self.noise

    def add(self, rows: Rows, scores: Tensor) -> None:
        """More fillers that were looked at and are not far below the best, and their scores."""
        if len(rows):
            evidence = Evidence(scores.unsqueeze(0), self.energy.unsqueeze(0), None)
            self.log_odds.append(self.asked.odds_of(rows).log_odds(evidence, slice(0, len(rows)))[0])
            self.rows.append(rows)
            self.scores.append(scores)

    def sure(self, missed: float) -> bool:
        """Whether no more must be looked at, where this part of stored fillers was missed."""
        self.log_elsewhere = math.log((1 - self.asked.prior_empty) * missed) if missed else -math.inf
        if not missed or not self.rows:
            return not missed
        best, second = self._first_two()
        score, next_score = best[1] / self.unit, max(second[1] / self.unit, 0.0)
        rate = max(self.noise**2 * next_score / self.rivals, 1e-9)
        if_rival = math.log(rate) - rate * (best[0] - second[0])
        below = min(0.0, score - 1) / self.noise
        if_stored = math.log(self.noise / math.sqrt(2 * math.pi)) - below * below / 2
        ratio = math.log(missed / (1 - missed)) + if_rival - if_stored
        self.log_elsewhere = max(self.log_elsewhere, best[0] + min(ratio, 0.0))
        return ratio <= math.log(DOUBT * (1 - self.asked.wish))

    def _first_two(self) -> list[tuple[float, float]]:
        """The best two, by their log odds, and their scores."""
        found = list[tuple[float, float]]()
        for log_odds, scores in zip(self.log_odds, self.scores, strict=True):
            values, places = log_odds.topk(min(2, len(log_odds)))
            found += zip(values.tolist(), scores[places].tolist(), strict=True)
        first, *others = sorted(found, reverse=True)[:2]
        return [first, others[0] if others else (first[0] - BELOW, first[1] - self.width)]

    def best(self, count: int) -> tuple[Tensor, float]:
        """The rows of the best, in their order, -1 for none, and the logarithm of the sum of all other odds."""
        log_odds, rows = torch.cat(self.log_odds), np.concatenate(self.rows)
        top = log_odds.topk(min(count, len(rows))).indices
        rest = log_odds.index_fill(0, top, -math.inf).logsumexp(0)
        chosen = torch.full((count,), -1)
        chosen[: len(top)] = torch.from_numpy(rows[top.numpy()]).sort().values
        return chosen, float(np.logaddexp(float(rest), self.log_elsewhere))


def ranked_by(asked: Asked, memory: Tensor, contexts: Contexts, k: int) -> Ranking:
    """The k candidates of each context with the best odds, of those that were looked at."""
    scheme = asked.scheme
    cores, count = scheme.adjoint(memory, contexts), min(max(2 * k, SHORTLIST), len(asked.vocabulary))
    energies = scheme.energy(contexts, asked.index.ways).expand(len(contexts), 1)
    with _workers(len(contexts)) as each:
        found = list(each(partial(_found, asked, count), cores.unbind(0), energies.unbind(0)))
    rows = torch.stack([each for each, _ in found])  # (n, count)
    nobody, rows = rows < 0, rows.clamp_min(0)
    distinct, places = rows.unique(return_inverse=True)
    fillers = draw_fillers(scheme, [asked.vocabulary.name(row) for row in distinct.tolist()])
    evidence = Evidence.of(scheme, cores, contexts, fillers[places])
    own = asked.odds_of(rows.flatten().numpy())
    log_odds = own.log_odds(evidence, torch.arange(rows.numel()).view(rows.shape)).masked_fill(nobody, -math.inf)
    best = best_of(log_odds, k)
    strengths = evidence.strengths.expand(rows.shape).gather(1, best.indices)
    total = torch.logaddexp(log_odds.logsumexp(1), log_odds.new_tensor([rest for _, rest in found]))
    return Ranking(Best(best.scores, rows.gather(1, best.indices)), strengths, total)


@contextmanager
def _workers(questions: int) -> Iterator[Callable[..., Iterable[tuple[Tensor, float]]]]:
    """`map`, for questions in as many threads as torch has."""
    threads = min(torch.get_num_threads(), questions)
    if threads < 2:
        yield map
    else:
        with ThreadPoolExecutor(threads) as pool:
            yield pool.map


@torch.inference_mode()  # which a thread has of its own
def _found(asked: Asked, count: int, core: Tensor, energy: Tensor) -> tuple[Tensor, float]:
    return _looked(asked, core, energy, count).best(count)


def _looked(asked: Asked, core: Tensor, energy: Tensor, least: int) -> _Seen:
    """Look until one is sure, or enough was looked at; at so many fillers at least."""
    seen = _Seen(asked, core, energy)
    p, k1 = asked.scheme.facts.filler_shape
    known = dial(p, k1, asked.index.each, seen.loudness, len(asked.vocabulary))
    shares = asked.shares(known)
    look = Look(asked.index, core, shares[-1], seen.width)
    for share in [*shares, *([1.0] if shares[-1] < 1 else [])]:
        seen.add(*look.further(share))
        sure = seen.sure(0.0 if share >= 1 else known.missed(share))
        if look.looked >= least and (sure or share >= shares[-1]):
            break
    return seen
