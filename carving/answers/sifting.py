"""Candidates that are codes, ranked in some contexts: all rated in float32, or sieved first, which gives the same."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.answers import precision, sieve
from carving.answers.precision import Shape
from carving.answers.ranking import Ranking, Rated, Rating, ranked, replaced, stacked
from carving.answers.sieve import Coarse, Products
from carving.chunks import slices
from carving.contexts import Contexts
from carving.scheme import PRECOMPUTED, Scheme

ROWS = 64  # contexts at a time, at most: they share the candidates that are rated again
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
        coarse = sieve.coarse(self.codes, setting) if precision.available(setting) else None
        return self.whole() if coarse is None else self.sieved(coarse[self.part])[0]

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
        products = coarse.products(self.cores.flatten(1))
        size = max(8, min(ROWS, self.width // (5 * self.k)))
        parts = [self.rows(rows)._sieved_rows(products, rows) for rows in slices(len(self.cores), size)]
        return stacked([ranking for ranking, _ in parts]), sum(again for _, again in parts)

    def _sieved_rows(self, products: Products, rows: slice) -> tuple[Ranking, int]:
        rating, start, codes = self.rating, self.part.start, self.codes[self.part]
        highest = rating.rate(self.cores, self.contexts, codes, self.part, products.ceilings(rows))

        def exact(columns: Tensor) -> Rated:
            return rating.rate(self.cores, self.contexts, codes.index_select(0, columns), columns + start, None)

        least = rating.log_nothing() if rating.log_odds else math.inf
        columns, crowded = sieve.left(highest.scores, self.k, lambda columns: exact(columns).scores, least)
        if not self.k <= len(columns) <= self.width // 2:
            return self.whole(), len(self.cores)
        rated = exact(columns)
        ranking, settled = ranked(rated, self.k, log_odds=False), products.sane[rows] & ~crowded
        if rating.log_odds:
            assert highest.variance is not None
            doubt = products.doubt(rows, highest.variance)
            log_total, good = sieve.log_total(highest.scores, columns, rated.scores, doubt, least)
            ranking, settled = ranking._replace(log_total=log_total), settled & good
        ranking = ranking._replace(best=ranking.best._replace(indices=columns[ranking.best.indices])).shifted(start)
        again = (~settled).nonzero().squeeze(1)
        return (replaced(ranking, again, self.rows(again).whole()) if len(again) else ranking), len(again)

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
        coarse = None if kind is None else sieve.coarse(self.codes, kind)
        if coarse is None:
            return self.whole()
        ranking, again = self.sieved(coarse[self.part])
        precision.report(shape, count, again)
        return ranking

    def _trial(self, seen: bool) -> "Trial":
        rows, start = min(len(self.cores), ROWS), self.part.start
        columns = min(self.width, max(1024, precision.TRIAL // (rows * self.codes.shape[1])))
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
