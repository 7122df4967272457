"""Storing by solving: the memory that answers single questions rightly, instead of the sum of its pairs.

A sum leaves interference that the memory could avoid. Here the tensor M is chosen so that every context names its own
candidate: with the scores z = slope (<M, b> - |b|^2 / 2) of all bound candidates b of a context, it minimizes

    sum over contexts of [log(sum over candidates of exp z) - z of its own]  +  RIDGE slope^2 |M|^2 / 2,

which is convex in M, by L-BFGS from the sum on. An evaluation reads every context once, and writes those that are not
certain yet: about 4 N L k1^p operations. All candidates take part, in chunks that fit into the workspace. Where they
are very many, it is solved for those that come near to what some contexts hold, and these are sought among all of them
again and again, until among all of them enough contexts are right.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from carving.distributed.ranks import Ranks
from carving.inference.descent import descend
from carving.inference.likelihood import core_scalars
from carving.inference.rounding import rounded
from carving.quantization import Cells, single
from carving.schemes.base import Contexts, Scheme
from carving.tiling import rows_within, slices

SLOPE = 24.0  # of scores, in units of a bound filler's energy: how far from the sum the memory will lie
RIDGE = 1e-6
FIRST = 0.4
CERTAIN = 1e-6  # the doubt below which a context is left alone
LEAD = 1.0  # of the own candidate's score over all others that is wanted; less is right, but for noise
LATER = 12  # evaluations that are spent on leads when enough contexts are right
FOR_ROUNDING = 30  # where the memory is to be rounded, which leads make easy
MOST = 400  # evaluations in all
ROUNDING = 120  # those that are spent on a rounded memory
TOGETHER = 256  # contexts that share their rivals, where not all candidates count
LARGE = 2**14  # candidates: of more, some are chosen
NEAREST = 8  # rivals of a context that count then
PASSES = 12  # over all candidates
STILL, LITTLE = 20, 1e-3  # so many evaluations that lower the value by so little together: no more will come

OnStep = Callable[[int], None]  # how many contexts are right


@dataclass(frozen=True)
class Solution:
    """The memory that was found."""

    tensor: Tensor
    slope: float  # that of its scores
    right: int  # contexts that name their own candidate
    evaluations: int
    cells: Cells | None = None  # whose numbers the tensor holds, where it was rounded

    def scaled(self, scale: float) -> "Solution":
        """The same with a tensor that is divided by a number; cells give theirs again, to the last digit."""
        if self.cells is None:
            return replace(self, tensor=self.tensor / scale, slope=self.slope * scale)
        cells = replace(self.cells, deviation=single(self.cells.deviation / scale))
        numbers = cells.numbers(self.tensor.dtype.to_real())
        tensor = torch.view_as_complex(numbers) if self.tensor.is_complex() else numbers
        return replace(self, tensor=tensor, slope=self.slope * scale, cells=cells)


@dataclass
class Problem:
    """What every context is to name, and how far that is the case."""

    scheme: Scheme
    contexts: Contexts
    candidates: Tensor
    wanted: Tensor  # (n,) of candidates
    slope: float
    ranks: Ranks = field(default_factory=Ranks.alone)  # of several, each has its own part of the contexts
    right: int = 0  # of the last evaluation,
    leading: int = 0  # and those with a LEAD
    evaluations: int = 0
    rivals: list[Tensor] | None = None  # for each TOGETHER contexts, the rows of the candidates that count; None: all

    @classmethod
    def of(
        cls, scheme: Scheme, contexts: Contexts, candidates: Tensor, wanted: Tensor, ranks: Ranks | None = None
    ) -> "Problem":
        """That of contexts which all ranks give alike, and share."""
        ranks, count = ranks or Ranks.alone(), len(contexts)
        own = slice(*(count * each // ranks.size for each in (ranks.rank, ranks.rank + 1)))
        part = contexts if ranks.size == 1 else contexts[own]
        return cls(scheme, part, scheme.precompute(candidates), wanted[own], SLOPE / scheme.mean_bound_energy, ranks)

    def value(self, flat: Tensor) -> tuple[float, Tensor]:
        """The value and the gradient at a memory, given as flat real numbers."""
        memory, ridge = self.shaped(flat), RIDGE * self.slope**2 if self.ranks.first else 0.0
        gradient = ridge * memory
        total, self.right, self.leading = ridge / 2 * float(flat.double().square().sum()), 0, 0
        for rows, candidates, wanted in self._chunks():
            loss, part = self._chunk(memory, self.contexts[rows], candidates, wanted)
            total += loss
            if part is not None:
                gradient += part
        self.evaluations += 1
        sums = self.ranks.gather((total, self.right, self.leading))
        total, self.right, self.leading = (sum(each) for each in zip(*sums, strict=True))
        return total, as_flat(self.ranks.sum_(gradient))

    @property
    def at_once(self) -> int:
        """How many contexts are looked at with all candidates in one go."""
        return rows_within(self.scheme.room, max(2 * len(self.candidates), core_scalars(self.scheme)))

    def _chunks(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Some contexts at a time, with the candidates that count for them, and which of these they are to name."""
        if self.rivals is None:
            for rows in slices(len(self.contexts), self.at_once):
                yield rows, self.candidates, self.wanted[rows]
        else:
            for rows, chosen in zip(slices(len(self.contexts), TOGETHER), self.rivals, strict=True):
                yield rows, self.candidates[chosen], torch.searchsorted(chosen, self.wanted[rows])

    def counted(self, flat: Tensor) -> tuple[int, Tensor]:
        """How many contexts a memory names rightly, and the gradient."""
        _, gradient = self.value(flat)
        return self.right, gradient

    def _chunk(
        self, memory: Tensor, contexts: Contexts, candidates: Tensor, wanted: Tensor
    ) -> tuple[float, Tensor | None]:
        """What some contexts lose, and their part of the gradient."""
        scheme, own = self.scheme, wanted.unsqueeze(1)
        scores = scores_of(scheme, memory, contexts, candidates, self.slope)
        score = scores.gather(1, own)
        scores.scatter_(1, own, -math.inf)
        lead = score - scores.amax(1, keepdim=True)
        self.right += int((lead > 0).sum())
        self.leading += int((lead >= LEAD).sum())
        # log(1 + the others' share): exact where it is next to nothing.
        others = torch.logsumexp(scores, 1, keepdim=True)
        losses = torch.nn.functional.softplus(others - score)
        open_rows = (losses.squeeze(1) > CERTAIN).nonzero().squeeze(1)
        if not len(open_rows):
            return float(losses.double().sum()), None
        part = contexts if len(open_rows) == len(contexts) else contexts[open_rows]
        whole = torch.logaddexp(others, score)[open_rows]
        weights = scores[open_rows].sub_(whole).exp_()
        weights.scatter_(1, own[open_rows], -weights.sum(1, keepdim=True))
        cores = scheme.expected_core(weights, part, candidates)
        return float(losses.double().sum()), self.slope * scheme.write(cores, part)

    def shaped(self, flat: Tensor) -> Tensor:
        """The memory of flat real numbers."""
        facts = self.scheme.facts
        if facts.memory_dtype.is_complex:
            return torch.view_as_complex(flat.view(*facts.memory_shape, 2))
        return flat.view(facts.memory_shape)


def solve(
    scheme: Scheme,
    memory: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    wanted: Tensor,
    *,
    accuracy: float = 1.0,
    bits: int | None = None,
    on_step: OnStep | None = None,
) -> Solution:
    """The memory near this one that names so many of the wanted candidates (n,), or as many as it can.

    With `bits` its numbers are those of cells, 2^bits different ones at most (`rounding.py`).

    >>> from carving import OSC
    >>> scheme = OSC(d=30, k1=4, compact=True)
    >>> contexts, fillers = scheme.contexts([(i,) for i in range(100)]), scheme.fillers(range(100))
    >>> solve(scheme, scheme.trace(contexts, fillers), contexts, fillers, torch.arange(100)).right
    100
    """
    return solved(Problem.of(scheme, contexts, candidates, wanted), memory, accuracy, bits, on_step)


def solved(
    problem: Problem, memory: Tensor, accuracy: float = 1.0, bits: int | None = None, on_step: OnStep | None = None
) -> Solution:
    """The solution of a problem, from this memory on; all ranks that share it find the same."""
    enough = math.ceil(accuracy * sum(problem.ranks.gather(len(problem.contexts))))
    later, large = LATER if bits is None else FOR_ROUNDING, len(problem.candidates) > LARGE
    found = (by_rivals if large else _solved)(problem, memory, enough, later, on_step)
    if bits is None:
        return found
    kept = rounded(problem.counted, as_flat(found.tensor), bits, enough, ROUNDING)
    shape = torch.view_as_real(memory).shape if memory.is_complex() else memory.shape
    cells = replace(kept.cells, codes=kept.cells.codes.view(shape))
    tensor = problem.shaped(as_flat(cells.numbers(problem.scheme.dtype)))
    return Solution(tensor, problem.slope, kept.right, problem.evaluations, cells)


def _solved(problem: Problem, memory: Tensor, enough: int, later: int, on_step: OnStep | None) -> Solution:
    """The memory of real numbers, after so many evaluations more than make enough right."""
    course = Course(problem, enough, later)
    best = Solution(memory, problem.slope, -1, 0)
    # The first step is that of adding every pair, less what it is expected to be, about half.
    for flat, value in descend(problem.value, as_flat(memory).clone(), FIRST / problem.slope):
        if problem.right >= best.right:
            best = Solution(problem.shaped(flat), problem.slope, problem.right, problem.evaluations)
        if on_step:
            on_step(best.right)
        if course.ends_with(value, best.right):
            break
    return best


def by_rivals(problem: Problem, memory: Tensor, enough: int, later: int, on_step: OnStep | None) -> Solution:
    """The same where candidates are very many: solved for those that come near, which are sought anew among all.

    What counts in the end is how many are right among all candidates.
    """
    best, here, chosen = Solution(memory, problem.slope, -1, 0), memory, list[Tensor]()
    for _ in range(PASSES):
        found = survey(problem, here)
        if found.right >= best.right:
            best = Solution(here, problem.slope, found.right, problem.evaluations)
        if on_step:
            on_step(best.right)
        known = chosen or [rivals[:0] for rivals in found.rivals]
        added = [torch.cat(pair).unique() for pair in zip(known, found.rivals, strict=True)]
        done = found.leading >= enough and bool(chosen)
        if done or not any(problem.ranks.gather(sum(map(len, added)) - sum(map(len, chosen)))):
            break  # enough, or no rival is new: that is all there is
        problem.rivals = chosen = added
        here = _solved(problem, here, enough, later, None).tensor
        problem.rivals = None
    return replace(best, evaluations=problem.evaluations)


class Survey(NamedTuple):
    """How far a memory is right, among all candidates."""

    right: int
    leading: int
    rivals: list[Tensor]  # for each TOGETHER contexts, the rows of those that come nearest, and of those that are right


def survey(problem: Problem, memory: Tensor) -> Survey:
    """Look at all candidates of all contexts once."""
    right, leading, rivals, count = 0, 0, list[Tensor](), len(problem.contexts)
    for some in slices(count, TOGETHER):
        near = [problem.wanted[some]]
        for rows in slices(some.stop - some.start, problem.at_once):
            part = slice(some.start + rows.start, some.start + rows.stop)
            own, contexts = problem.wanted[part].unsqueeze(1), problem.contexts[part]
            scores = scores_of(problem.scheme, memory, contexts, problem.candidates, problem.slope)
            score = scores.gather(1, own)
            scores.scatter_(1, own, -math.inf)
            best = scores.topk(NEAREST, dim=1)
            lead = score - best.values[:, :1]
            right, leading = right + int((lead > 0).sum()), leading + int((lead >= LEAD).sum())
            near.append(best.indices.flatten())
        rivals.append(torch.cat(near).unique())
    problem.evaluations += 1
    right, leading = (sum(each) for each in zip(*problem.ranks.gather((right, leading)), strict=True))
    return Survey(right, leading, rivals)


@dataclass
class Course:
    """How solving goes: when it has come far enough, or will come no further."""

    problem: Problem
    enough: int
    later: int
    values: list[float] = field(default_factory=list)
    reached: int = 0  # the evaluation that made enough right

    def ends_with(self, value: float, right: int) -> bool:
        """Take a step in; whether it is the last."""
        problem = self.problem
        self.values.append(value)
        if right >= self.enough:
            self.reached = self.reached or problem.evaluations
            leads = problem.leading >= self.enough and self.later == LATER
            return leads or problem.evaluations - self.reached >= self.later
        still = len(self.values) > STILL and self.values[-STILL - 1] - value < LITTLE * value
        return still or problem.evaluations >= MOST


def scores_of(scheme: Scheme, memory: Tensor, contexts: Contexts, candidates: Tensor, slope: float) -> Tensor:
    """The scores (n, L) of candidates."""
    inner = scheme.inner(scheme.adjoint(memory, contexts), contexts, candidates)
    return inner.sub_(scheme.energy(contexts, candidates) / 2).mul_(slope)


def as_flat(memory: Tensor) -> Tensor:
    """A memory's real numbers, one after the other."""
    return (torch.view_as_real(memory) if memory.is_complex() else memory).reshape(-1)
