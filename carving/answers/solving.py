"""Storing by solving: the memory that answers single questions rightly, instead of the sum of its pairs.

A sum leaves interference that the memory could avoid. Here the tensor M is chosen so that every context names its own
candidate: with the scores z = slope (<M, b> - |b|^2 / 2) of all bound candidates b of a context, it minimises

    sum over contexts of [log(sum over candidates of exp z) - z of its own]  +  RIDGE slope^2 |M|^2 / 2,

which is convex in M, by L-BFGS from the sum on. An evaluation reads every context once, and writes those that are not
certain yet: about 4 N L k1^p operations. All candidates take part, in chunks that fit into the workspace.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from carving.answers.descent import descend
from carving.answers.likelihood import core_scalars
from carving.answers.rounding import rounded, steps
from carving.chunks import rows_within, slices
from carving.contexts import Contexts
from carving.distributed.ranks import Ranks
from carving.linear import LinearScheme

SLOPE = 24.0  # of scores, in units of a bound filler's energy: how far from the sum the memory will lie
RIDGE = 1e-6
FIRST = 0.4
CERTAIN = 1e-6  # the doubt below which a context is left alone
LEAD = 1.0  # of the own candidate's score over all others that is wanted; less is right, but for noise
LATER = 12  # evaluations that are spent on leads when enough contexts are right
FOR_ROUNDING = 30  # where the memory is to be rounded, which leads make easy
MOST = 400  # evaluations in all
ROUNDING = 120  # those that are spent on a rounded memory
STILL, LITTLE = 20, 1e-3  # so many evaluations that lower the value by so little together: no more will come

OnStep = Callable[[int], None]  # how many contexts are right


@dataclass(frozen=True)
class Solution:
    """The memory that was found."""

    tensor: Tensor
    slope: float  # that of its scores
    right: int  # contexts that name their own candidate
    evaluations: int


@dataclass
class Problem:
    """What every context is to name, and how far that is the case."""

    scheme: LinearScheme
    contexts: Contexts
    candidates: Tensor
    wanted: Tensor  # (n,) of candidates
    slope: float
    ranks: Ranks = field(default_factory=Ranks.alone)  # of several, each has its own part of the contexts
    right: int = 0  # of the last evaluation,
    leading: int = 0  # and those with a LEAD
    evaluations: int = 0

    @classmethod
    def of(
        cls, scheme: LinearScheme, contexts: Contexts, candidates: Tensor, wanted: Tensor, ranks: Ranks | None = None
    ) -> "Problem":
        """That of contexts which all ranks give alike, and share."""
        ranks, count = ranks or Ranks.alone(), len(contexts)
        own = slice(*(count * each // ranks.size for each in (ranks.rank, ranks.rank + 1)))
        part = contexts if ranks.size == 1 else contexts[own]
        return cls(scheme, part, scheme.precompute(candidates), wanted[own], SLOPE / scheme.unit, ranks)

    def value(self, flat: Tensor) -> tuple[float, Tensor]:
        """The value and the gradient at a memory, given as flat real numbers."""
        memory, ridge = self.shaped(flat), RIDGE * self.slope**2 if self.ranks.first else 0.0
        gradient = ridge * memory
        total, self.right, self.leading = ridge / 2 * float(flat.double().square().sum()), 0, 0
        numbers = max(2 * len(self.candidates), core_scalars(self.scheme))
        for rows in slices(len(self.contexts), rows_within(self.scheme.room, numbers)):
            loss, part = self._chunk(memory, self.contexts[rows], self.wanted[rows])
            total += loss
            if part is not None:
                gradient += part
        self.evaluations += 1
        sums = self.ranks.gather((total, self.right, self.leading))
        total, self.right, self.leading = (sum(each) for each in zip(*sums, strict=True))
        return total, as_flat(self.ranks.sum_(gradient))

    def counted(self, flat: Tensor) -> tuple[int, Tensor]:
        """How many contexts a memory names rightly, and the gradient."""
        _, gradient = self.value(flat)
        return self.right, gradient

    def _chunk(self, memory: Tensor, contexts: Contexts, wanted: Tensor) -> tuple[float, Tensor | None]:
        """What some contexts lose, and their part of the gradient."""
        scheme, own = self.scheme, wanted.unsqueeze(1)
        scores = scores_of(scheme, memory, contexts, self.candidates, self.slope)
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
        cores = scheme.expected_core(weights, part, self.candidates)
        return float(losses.double().sum()), self.slope * scheme.write(cores, part)

    def shaped(self, flat: Tensor) -> Tensor:
        """The memory of flat real numbers."""
        facts = self.scheme.facts
        if facts.memory_dtype.is_complex:
            return torch.view_as_complex(flat.view(*facts.memory_shape, 2))
        return flat.view(facts.memory_shape)


def solve(
    scheme: LinearScheme,
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

    With `bits` its numbers are 2^bits different ones at most (`rounding.py`).

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
    found = _solved(problem, memory, enough, LATER if bits is None else FOR_ROUNDING, on_step)
    if bits is None:
        return found
    flat = as_flat(found.tensor)
    kept = rounded(problem.counted, flat, steps(flat, bits), enough, ROUNDING)
    return Solution(problem.shaped(kept.numbers), problem.slope, kept.right, problem.evaluations)


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


def scores_of(scheme: LinearScheme, memory: Tensor, contexts: Contexts, candidates: Tensor, slope: float) -> Tensor:
    """The scores (n, L) of candidates."""
    inner = scheme.inner(scheme.adjoint(memory, contexts), contexts, candidates)
    return inner.sub_(scheme.energy(contexts, candidates) / 2).mul_(slope)


def as_flat(memory: Tensor) -> Tensor:
    """A memory's real numbers, one after the other."""
    return (torch.view_as_real(memory) if memory.is_complex() else memory).reshape(-1)
