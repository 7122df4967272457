"""Candidates that are codes, ranked in some contexts: all rated in float32, or sieved first, which gives the same."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference import precision, sieve
from carving.inference.precision import Shape
from carving.inference.ranking import Ranking, Rated, Rating, ranked, replaced, stacked
from carving.inference.sieve import Coarse, Heights
from carving.schemes.base import PRECOMPUTED, Scheme
from carving.schemes.contexts import Contexts
from carving.tiling import slices

ROWS = 4096  # contexts at a time over the answers that each is asked for, whose groups are looked into
MOST = 64  # answers a context; with more, too many candidates are rated again
MADE_FOR = 128  # contexts that pay for making codes coarse once


class Sifting(NamedTuple):
    """A part of the codes, to be ranked in contexts that show these cores."""

    scheme: Scheme
    codes: Tensor  # (L, c)
    cores: Tensor
    contexts: Contexts | None
    k: int
    rating: Rating
    part: slice

    @property
    def width(self) -> int:
        """The number of candidates."""
        return self.part.stop - self.part.start

    def ranked(self) -> Ranking:
        """The best candidates: by a sieve, where one is set or measured to be faster."""
        setting = precision.get_sieve()
        if setting == "off" or not self._sievable():
            return self.whole()
        if setting == "auto":
            return self._ranked_by_measure()
        coarse = sieve.coarse(self.codes, setting, self.part) if precision.available(setting) else None
        return self.whole() if coarse is None else self.sieved(coarse)[0]

    def whole(self) -> Ranking:
        """The best candidates, all rated in float32."""
        rated = self.rating.rate(self.cores, self.contexts, self.codes[self.part], self.part, None)
        return ranked(rated, self.k, self.rating.log_odds).shifted(self.part.start)

    def rows(self, rows: slice | Tensor) -> "Sifting":
        """The same for some contexts."""
        contexts = None if self.contexts is None else self.contexts[rows]
        return self._replace(cores=self.cores[rows], contexts=contexts)

    def _sievable(self) -> bool:
        """Whether the sieve's bounds hold: for products of cores with codes, in float32 on a CPU.

        What it keeps must fit, with the codes, into the workspaces that are meant for them.
        """
        codes, cores, facts = self.codes, self.cores, self.scheme.facts
        return (
            self.k <= min(self.width // 4, MOST)
            and codes.shape[1] == facts.code_size <= sieve.LONGEST
            and not facts.contextual
            and codes.dtype == cores.dtype == torch.float32
            and codes.device.type == cores.device.type == "cpu"
            and 3 * codes.numel() <= 2 * PRECOMPUTED * self.scheme.room
            and not (codes.requires_grad or cores.requires_grad or torch.compiler.is_compiling())
            and precision.plain_float32()
        )

    def sieved(self, coarse: Coarse) -> tuple[Ranking, int]:
        """The best candidates, most of them rated coarsely; and in how many contexts all were rated after all."""
        parts = [self.rows(rows)._sieved_rows(coarse) for rows in slices(len(self.cores), max(1, ROWS // self.k))]
        return stacked([ranking for ranking, _ in parts]), sum(again for _, again in parts)

    def _sieved_rows(self, coarse: Coarse) -> tuple[Ranking, int]:
        rating, codes = self.rating, self.codes[self.part]
        lines = rating.lines(self.cores, self.contexts, codes, self.part)
        if rating.log_odds and lines is None:
            return self.whole(), len(self.cores)
        heights = Heights.of(coarse.products(self.cores.flatten(1)), lines, self.width)
        least = rating.log_nothing() if rating.log_odds else math.inf
        left = sieve.left(heights, self.k, lambda columns: self._exact(columns, None).scores, least)
        if left.columns.shape[1] < self.k:
            return self.whole(), len(self.cores)
        rated = self._exact(left.columns, left.there)
        ranking, unsure = ranked(rated, self.k, rating.log_odds), left.unsure
        if left.rest is not None:
            sure = ranking.log_total.clamp_min(least)
            unsure = unsure | ~(left.rest - sure <= math.log(sieve.OFF))
        indices = left.columns.gather(1, ranking.best.indices)
        ranking = ranking._replace(best=ranking.best._replace(indices=indices)).shifted(self.part.start)
        again = unsure.nonzero().squeeze(1)
        return (replaced(ranking, again, self.rows(again).whole()) if len(again) else ranking), len(again)

    def _exact(self, columns: Tensor, there: Tensor | None) -> Rated:
        """Candidates (n, m) rated in float32, each context its own; those that are not there as nothing."""
        codes, flat = self.codes[self.part], self.cores.flatten(1)
        there = torch.ones_like(columns, dtype=torch.bool) if there is None else there
        rows, chosen = there.nonzero()[:, 0], columns[there]
        few = slices(len(rows), max(1, sieve.BLOCK // codes.shape[1]))
        inner = [codes.index_select(0, chosen[part]).mul_(flat.index_select(0, rows[part])).sum(1) for part in few]
        known = flat.new_zeros(columns.shape).masked_scatter_(there, torch.cat(inner))
        rated = self.rating.rate(self.cores, self.contexts, codes, columns + self.part.start, known)
        return rated._replace(scores=rated.scores.masked_fill(~there, -torch.inf))

    def _ranked_by_measure(self) -> Ranking:
        """By whatever is fastest for questions of this shape; those that are few are not worth asking."""
        count, size = len(self.cores), self.codes.shape[1]
        work = count * self.width * size
        if count < precision.FEWEST or work < precision.WORTH:
            return self.whole()
        seen = sieve.kept(self.codes) is not None
        sieve.keep(self.codes)
        if not seen and count < MADE_FOR:
            return self.whole()
        shape = Shape.of(count, self.width, size, self.k, self.rating.log_odds, seen)
        trial = self._trial(seen)
        kind = precision.chosen(shape, work, trial.run, len(trial.few.cores) * trial.few.width * size)
        coarse = None if kind is None else sieve.coarse(self.codes, kind, self.part)
        if coarse is None:
            return self.whole()
        ranking, again = self.sieved(coarse)
        precision.report(shape, count, again)
        return ranking

    def _trial(self, seen: bool) -> "Trial":
        start, size = self.part.start, self.codes.shape[1]
        columns = min(self.width, max(1024, precision.TRIAL // (len(self.cores) * size)))
        rows = min(len(self.cores), max(precision.FEWEST, precision.TRIAL // (columns * size)))
        return Trial(self.rows(slice(0, rows))._replace(part=slice(start, start + columns)), seen, {})


class Trial(NamedTuple):
    """A part of the questions, answered in one way or another."""

    few: Sifting
    seen: bool  # whether the codes are asked again and again: making them coarse then does not count
    made: dict[str, Coarse | None]

    def run(self, kind: str | None) -> object:
        """Answer by a kind, or in float32."""
        if kind is None:
            return self.few.whole()
        if not self.seen or kind not in self.made:
            self.made[kind] = Coarse.of(self.few.codes[self.few.part], kind)
        coarse = self.made[kind]
        return self.few.whole() if coarse is None else self.few.sieved(coarse)
