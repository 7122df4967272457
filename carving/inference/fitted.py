"""How probable the answers of a solved memory are: fitted to what it shows, since no theory of sums holds for it.

What a context shows of a solved memory is not a filler in noise: its leads were made. So two questions are answered by
logistic regressions on what the ranking shows, the terms up to the third grade of s, the strength of the best
candidate, and q, the logarithm of its doubt, log(sum of all exponentials over its own): whether the path holds
something, and whether the best candidate is it, if so. A third tells of a single pair by its strength. They are
fitted on half of the contexts that were solved for (or a sample of it) and on contexts that hold nothing.

What is stored later is noise to what was solved. So all of it is fitted at several levels of noise, in units of the
energy of a pair (`fitting.py`), and lies between them where pairs are added.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.inference.best import scan
from carving.inference.ranking import Ranking, Rated, Rating
from carving.quantization import BITS
from carving.schemes.base import Contexts, FillersOrLabels, Scheme

LEAST_DOUBT = 1e-6
GRADE = 3  # of the polynomials
SIZES = (10, 10, 4)  # of a level's weights
LIMIT = 30.0  # of log odds: nothing is surer


class Level(NamedTuple):
    """What holds with so much noise."""

    added: float  # energy, in units of a pair's
    accuracy: float  # the share of what was solved for that is named
    present: tuple[float, ...]  # (10,) weights: the path holds something
    right: tuple[float, ...]  # (10,) weights: the best candidate is what it holds, if it holds something
    pair: tuple[float, ...]  # (4,) weights: the pair is stored

    @classmethod
    def of(cls, added: float, accuracy: float, *weights: Sequence[float]) -> "Level":
        """The level of these numbers."""
        present, right, pair = (tuple(map(float, each)) for each in weights)
        return cls(float(added), float(accuracy), present, right, pair)


class Grid(NamedTuple):
    """That a tensor's numbers are the means of cells of so many bits, for numbers of a deviation (`cells.py`)."""

    bits: int
    deviation: float


@dataclass(frozen=True)
class Solved:
    """What is known of a memory that was solved, and of what was added since."""

    slope: float  # of scores
    pairs: int  # that it was solved for,
    right: int  # and those that it names
    levels: tuple[Level, ...]
    added: float = 0.0  # the energy of what was stored since, in units of a pair's
    told: float = 1.0  # the accuracy that was last spoken of
    grid: Grid | None = None  # where it was solved in few bits, and nothing was added

    @property
    def level(self) -> Level:
        """What holds with what was added."""
        return self.after(0.0)

    def names_all_of(self, pairs: int) -> bool:
        """Whether it was solved for all of a memory's pairs, names every one, and nothing was added since."""
        return self.right == self.pairs == pairs and not self.added

    def after(self, more: float) -> Level:
        """What would hold with so much more: between two levels, or as the last."""
        added = self.added + more
        place = bisect_right([level.added for level in self.levels], added)
        if place == len(self.levels):
            return self.levels[-1]
        below, above = self.levels[place - 1], self.levels[place]
        part = (added - below.added) / (above.added - below.added)
        mixed = [_between(one, other, part) for one, other in zip(below[2:], above[2:], strict=True)]
        return Level(added, below.accuracy + part * (above.accuracy - below.accuracy), *mixed)

    def as_json(self) -> str:
        """Its numbers, to be kept."""
        return json.dumps({entry.name: getattr(self, entry.name) for entry in fields(self)}, sort_keys=True)

    @property
    def weights(self) -> Tensor:
        """All numbers of its levels (levels, 26), in single precision, which is what quantized files hold."""
        return torch.tensor([list(_numbers(level)) for level in self.levels], dtype=torch.float32)

    def without_weights(self) -> "Solved":
        """The rest."""
        return replace(self, levels=())

    def rounded(self) -> "Solved":
        """The same with numbers in single precision."""
        return replace(self, levels=_levels(self.weights))

    @classmethod
    def of_json(cls, text: str, weights: Tensor | None = None) -> "Solved":
        """The same of what `as_json` gave (and `weights`, where they are apart); anything else is refused."""
        said = json.loads(text)
        levels = tuple(Level.of(*level) for level in said.pop("levels"))
        if weights is not None:
            levels = (*levels, *_levels(weights))
        grid = Grid(*each) if (each := said.pop("grid", None)) is not None else None
        solved = cls(
            float(said.pop("slope")), int(said.pop("pairs")), int(said.pop("right")), levels, grid=grid, **said
        )
        if grid is not None and (grid.bits not in BITS or not 0 < grid.deviation < math.inf):
            raise BadValue(f"the grid has bits={grid.bits} and deviation={grid.deviation}")
        if not solved.slope > 0 or not solved.added >= 0 or not 0 <= solved.right <= solved.pairs:
            raise BadValue(
                f"invalid slope={solved.slope}, added={solved.added}, right={solved.right} or pairs={solved.pairs}"
            )
        solved._check_levels()
        return solved

    def _check_levels(self) -> None:
        """Refuse levels that do not rise from nothing, or hold other numbers than they should."""
        rising = all(one.added < other.added for one, other in pairwise(self.levels))
        numbers = [self.slope, self.added, self.told, *chain.from_iterable(map(_numbers, self.levels))]
        sized = all(tuple(map(len, level[2:])) == SIZES for level in self.levels)
        if not all(map(math.isfinite, numbers)) or not self.levels or self.levels[0].added or not rising or not sized:
            raise BadValue("the calibration of probabilities is missing or malformed")

    def plus(self, energy: float) -> "Solved":
        """The same with so much stored more."""
        return replace(self, added=self.added + energy, grid=None)


def _levels(weights: Tensor) -> tuple[Level, ...]:
    if weights.dtype != torch.float32 or weights.dim() != 2 or weights.shape[1] != 2 + sum(SIZES):
        raise BadValue(f"the calibration of probabilities has shape {tuple(weights.shape)} and dtype {weights.dtype}")
    return tuple(Level.of(*each[:2].tolist(), *(part.tolist() for part in each[2:].split(SIZES))) for each in weights)


def _numbers(level: Level) -> Iterator[float]:
    return chain(level[:2], *level[2:])


def _between(one: Sequence[float], other: Sequence[float], part: float) -> tuple[float, ...]:
    return tuple(a + part * (b - a) for a, b in zip(one, other, strict=True))


# Asking


class Told(NamedTuple):
    """What is known of the best candidates (n, k) of contexts."""

    indices: Tensor
    strengths: Tensor
    chances: Tensor  # (n, k) at most one candidate being there
    empty: Tensor  # (n,) of nothing being there


class Choice(NamedTuple):
    """The candidates that may be answered, with their rows; and all of them, if these are some."""

    candidates: FillersOrLabels
    rows: Sequence[int]
    everything: FillersOrLabels | None = None

    def rows_of(self, indices: Tensor) -> Tensor:
        """The rows of indices into the choice."""
        return indices if isinstance(self.rows, range) else torch.tensor(self.rows, device=indices.device)[indices]


def rating(scheme: Scheme, slope: float) -> Rating:
    """Candidates rated as they were solved for: all alike beforehand."""

    def rate(cores: Tensor, contexts: Contexts | None, fillers: Tensor, _: slice | Tensor) -> Rated:
        assert contexts is not None
        energy, inner = scheme.energy(contexts, fillers), scheme.inner(cores, contexts, fillers)
        return Rated((inner - energy / 2) * slope, inner, energy)

    return Rating(scheme.adjoint, rate, contextual=True, log_odds=True)


def told(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    choice: Choice,
    solved: Solved,
    prior_empty: float,
    k: int = 1,
) -> Told:
    """The best candidates of each context, and how probable they are."""
    rated, whole = rating(scheme, solved.slope), choice.everything is None
    ranking = scan(scheme, memory, contexts, choice.candidates, k, rated)
    everywhere = ranking if choice.everything is None else scan(scheme, memory, contexts, choice.everything, 1, rated)
    level, shown = solved.level, shown_by(everywhere)
    here = logistic(shown, level.present) + _log_odds(1 - prior_empty)
    own = logistic(shown, level.right).sigmoid().unsqueeze(1)
    # What the best of all values is the others', as their scores part it.
    log_total = everywhere.log_total.double().unsqueeze(1)
    first = (everywhere.best.scores[:, :1].double() - log_total).exp()
    rest = (1 - own) / (1 - first).clamp_min(1e-12)
    shares = (ranking.best.scores.double() - log_total).exp()
    best = choice.rows_of(ranking.best.indices) == everywhere.best.indices[:, :1]
    chances = torch.where(best, own, shares * rest) * here.sigmoid().unsqueeze(1)
    empty = (-here).sigmoid()
    if not whole:  # nothing else than these, or nothing, is there
        among = (ranking.log_total.double().unsqueeze(1) - log_total).exp()
        among = torch.where(best.any(1, keepdim=True), own + (among - first).clamp_min(0) * rest, among * rest)
        total = among.squeeze(1) * here.sigmoid() + empty
        chances, empty = chances / total.clamp_min(1e-300).unsqueeze(1), empty / total.clamp_min(1e-300)
    return Told(ranking.best.indices, ranking.strengths, chances.clamp_max(1), empty)


def pair_chances(strengths: Tensor, solved: Solved, prior_empty: float) -> Tensor:
    """How probably pairs of these strengths (n,) are stored."""
    return (logistic(powers(strengths.double()), solved.level.pair) + _log_odds(1 - prior_empty)).sigmoid()


def _log_odds(chance: float) -> float:
    return math.inf if chance >= 1 else math.log(chance / (1 - chance)) if chance > 0 else -math.inf


def shown_by(ranking: Ranking) -> Tensor:
    """What rankings show (n, 10), for the regressions."""
    strength = ranking.strengths[:, 0].double()
    doubt = (ranking.log_total - ranking.best.scores[:, 0]).double().clamp_min(LEAST_DOUBT).log()
    grades = ((i, j) for i in range(GRADE + 1) for j in range(GRADE + 1 - i))
    return torch.stack([strength**i * doubt**j for i, j in grades], 1)


def powers(strengths: Tensor) -> Tensor:
    """What strengths (n,) are for the regressions: (n, 4)."""
    return torch.stack([strengths**i for i in range(GRADE + 1)], 1)


def logistic(shown: Tensor, weights: Sequence[float]) -> Tensor:
    """The log odds of a regression."""
    return (shown @ shown.new_tensor(weights)).clamp(-LIMIT, LIMIT)
