"""The solver of consolidation: the memory tensor for which single queries are right, instead of the sum of its pairs.

A sum has interference that its tensor could avoid. Here the tensor M is chosen so that every context names its own
candidate: with the scores z = slope (<M, b> - |b|^2 / 2) of all bound candidates b of a context, it minimizes

    sum over contexts of [log(sum over candidates of exp z) - z of its own]  +  RIDGE slope^2 |M|^2 / 2,

which is convex in M, by L-BFGS from the sum on. An evaluation reads every context once, and writes those that are not
certain yet: about 4 N L k1^p operations. All candidates take part, in chunks that fit into the workspace. If there are
very many, only rivals count, the candidates that score nearly as high as the right one; they are searched for among all
candidates again and again, until enough contexts are right among all of them.

A memory of few bits per cell is quantized with the solver in the loop: numbers are rounded to the values of their bins,
and the gradient at the rounded memory moves the numbers before rounding (a straight-through estimator), by Adam, until
enough contexts are right again.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from carving.distributed.ranks import Ranks
from carving.inference.likelihood import core_scalars
from carving.quantization import Cells, check_bits, single
from carving.schemes.base import Candidates, Contexts, Scheme
from carving.tensors import as_real
from carving.tiling import rows_within, slices

SLOPE = 24.0  # of scores, in units of a bound filler's energy: how far from the sum the memory will lie
RIDGE = 1e-6
FIRST_STEP = 0.4  # of the descent, in units of a pair
CERTAIN_LOSS = 1e-6  # below which a context is left alone
LEAD = 1.0  # desired lead of the right candidate's score over all others: less is right, but for noise
MAX_LEAD_EVALUATIONS = 12  # that are spent on leads when enough contexts are right
LEAD_EVALUATIONS_FOR_ROUNDING = 30  # where the memory is to be rounded, for which leads help
MAX_EVALUATIONS = 400
MAX_ROUNDED_EVALUATIONS = 120
CONTEXTS_PER_RIVALS = 256  # contexts that share their rivals
MIN_CANDIDATES_FOR_RIVALS = 2**14
NEAREST_RIVALS = 8  # that a context adds to them
MAX_SURVEYS = 12  # searches for rivals among all candidates
STALL_EVALUATIONS, STALL_DECREASE = 20, 1e-3  # a smaller relative decrease in these evaluations ends the descent
CURVATURE_STEPS = 8  # of L-BFGS; each keeps two tensors of the memory's size
SUFFICIENT_DECREASE = 1e-4  # of what the slope promises (Armijo's condition)
SHORTEST_STEP = 2.0**-12  # below which rounding decides
ADAM_STEP, ADAM_BETAS = 0.05, (0.9, 0.99)  # the step is in deviations, and falls to 0

OnStep = Callable[[int], None]  # the number of contexts that are right
Function = Callable[[Tensor], tuple[float, Tensor]]  # the value and the gradient


@dataclass(frozen=True)
class SolverResult:
    """The best memory that was found."""

    tensor: Tensor
    slope: float  # of its scores
    right: int  # contexts that name their own candidate
    evaluations: int
    cells: Cells | None = None  # whose numbers the tensor holds, if it was rounded

    def scaled(self, scale: float) -> "SolverResult":
        """Return it with the tensor divided by `scale`; cells reproduce it to the last digit."""
        if self.cells is None:
            return replace(self, tensor=self.tensor / scale, slope=self.slope * scale)
        cells = replace(self.cells, deviation=single(self.cells.deviation / scale))
        numbers = cells.numbers(self.tensor.dtype.to_real())
        tensor = torch.view_as_complex(numbers) if self.tensor.is_complex() else numbers
        return replace(self, tensor=tensor, slope=self.slope * scale, cells=cells)


@dataclass
class Problem:
    """The candidate that every context is to name, and what the last evaluation found."""

    scheme: Scheme
    contexts: Contexts
    candidates: Candidates
    wanted: Tensor  # (n,) of candidates
    slope: float
    ranks: Ranks = field(default_factory=Ranks.alone)  # of several, each has its own part of the contexts
    right: int = 0  # contexts that name their own candidate
    leading: int = 0  # those of them with a LEAD
    evaluations: int = 0
    rivals: list[Tensor] | None = None  # for each CONTEXTS_PER_RIVALS, the candidates that count; None: all

    @classmethod
    def of(
        cls, scheme: Scheme, contexts: Contexts, candidates: Tensor, wanted: Tensor, ranks: Ranks | None = None
    ) -> "Problem":
        """Return this rank's share of a problem that all ranks pass."""
        ranks, count = ranks or Ranks.alone(), len(contexts)
        own = slice(*(count * each // ranks.size for each in (ranks.rank, ranks.rank + 1)))
        part = contexts if ranks.size == 1 else contexts[own]
        return cls(
            scheme=scheme,
            contexts=part,
            candidates=scheme.precompute(candidates),
            wanted=wanted[own],
            slope=SLOPE / scheme.mean_bound_energy,
            ranks=ranks,
        )

    def evaluate(self, flat: Tensor) -> tuple[float, Tensor]:
        """Return the objective and its gradient at a memory given as flat real numbers."""
        memory, ridge = self.shaped(flat), RIDGE * self.slope**2 if self.ranks.first else 0.0
        gradient = ridge * memory
        total, self.right, self.leading = ridge / 2 * float(flat.double().square().sum()), 0, 0
        for rows, candidates, wanted in self._chunks():
            loss, part = self._evaluate_chunk(memory, self.contexts[rows], candidates, wanted)
            total += loss
            if part is not None:
                gradient += part
        return self._gather(total), as_flat(self.ranks.sum_(gradient))

    def _gather(self, total: float = 0.0) -> float:
        """Finish an evaluation: sum the counts of all ranks, and their `total`, which is returned."""
        self.evaluations += 1
        sums = self.ranks.gather((total, self.right, self.leading))
        total, self.right, self.leading = (sum(each) for each in zip(*sums, strict=True))
        return total

    def count(self, flat: Tensor) -> tuple[int, Tensor]:
        """Return the number of contexts that are right, and the gradient, at a memory given as flat real numbers."""
        _, gradient = self.evaluate(flat)
        return self.right, gradient

    @property
    def max_rows(self) -> int:
        """The number of contexts that are evaluated with all candidates at a time."""
        return rows_within(self.scheme.room, max(2 * len(self.candidates), core_scalars(self.scheme)))

    def _chunks(self) -> Iterator[tuple[slice, Candidates, Tensor]]:
        """Yield chunks of contexts, the candidates that count for them, and which of these they are to name."""
        if self.rivals is None:
            for rows in slices(len(self.contexts), self.max_rows):
                yield rows, self.candidates, self.wanted[rows]
        else:
            for rows, chosen in zip(slices(len(self.contexts), CONTEXTS_PER_RIVALS), self.rivals, strict=True):
                yield rows, self.candidates[chosen], torch.searchsorted(chosen, self.wanted[rows])

    def _evaluate_chunk(
        self, memory: Tensor, contexts: Contexts, candidates: Candidates, wanted: Tensor
    ) -> tuple[float, Tensor | None]:
        """Return the loss of some contexts, and their part of the gradient."""
        scheme, own = self.scheme, wanted.unsqueeze(1)
        scores, score = self.scores(memory, contexts, candidates, own)
        # log(1 + the others' share): exact where it is next to nothing.
        others = torch.logsumexp(scores, 1, keepdim=True)
        losses = torch.nn.functional.softplus(others - score)
        open_rows = (losses.squeeze(1) > CERTAIN_LOSS).nonzero().squeeze(1)
        if not len(open_rows):
            return float(losses.double().sum()), None
        part = contexts if len(open_rows) == len(contexts) else contexts[open_rows]
        whole = torch.logaddexp(others, score)[open_rows]
        weights = scores[open_rows].sub_(whole).exp_()
        weights.scatter_(1, own[open_rows], -weights.sum(1, keepdim=True))
        cores = scheme.expected_core(weights, part, candidates)
        return float(losses.double().sum()), self.slope * scheme.write(cores, part)

    def scores(self, memory: Tensor, contexts: Contexts, candidates: Candidates, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores (n, L), without the contexts' own candidates (n, 1), and the scores (n, 1) of these.

        Counts the contexts that are right.
        """
        inner = self.scheme.inner(self.scheme.adjoint(memory, contexts), contexts, candidates)
        scores = inner.sub_(self.scheme.energy(contexts, candidates) / 2).mul_(self.slope)
        score = scores.gather(1, own)
        lead = score - scores.scatter_(1, own, -math.inf).amax(1, keepdim=True)
        self.right += int((lead > 0).sum())
        self.leading += int((lead >= LEAD).sum())
        return scores, score

    def survey(self, memory: Tensor) -> list[Tensor]:
        """Score all candidates of all contexts; return the nearest and the right ones for each CONTEXTS_PER_RIVALS."""
        rivals = list[Tensor]()
        self.right = self.leading = 0
        for some in slices(len(self.contexts), CONTEXTS_PER_RIVALS):
            near = [self.wanted[some]]
            for rows in slices(some.stop - some.start, self.max_rows):
                part = slice(some.start + rows.start, some.start + rows.stop)
                own = self.wanted[part].unsqueeze(1)
                scores, _ = self.scores(memory, self.contexts[part], self.candidates, own)
                near.append(scores.topk(NEAREST_RIVALS, dim=1).indices.flatten())
            rivals.append(torch.cat(near).unique())
        self._gather()
        return rivals

    def shaped(self, flat: Tensor) -> Tensor:
        """Return the memory of flat real numbers."""
        facts = self.scheme.facts
        if facts.memory_dtype.is_complex:
            return torch.view_as_complex(flat.view(*facts.memory_shape, 2))
        return flat.view(facts.memory_shape)


def solve(
    problem: Problem, memory: Tensor, accuracy: float = 1.0, bits: int | None = None, on_step: OnStep | None = None
) -> SolverResult:
    """Return the memory near `memory` for which a problem's contexts are right, or as many as possible.

    All ranks that share the problem find the same solution.

    Args:
        problem: The contexts, and the candidate that each of them is to name.
        memory: (*memory_shape), the sum to start from.
        accuracy: The share of contexts that is enough.
        bits: Restricts the numbers to 2^bits different ones.
        on_step: Called with the number of contexts that are right.

    >>> from carving import OSC
    >>> scheme = OSC(d=30, k1=4, compact=True)
    >>> contexts, fillers = scheme.contexts([(i,) for i in range(100)]), scheme.fillers(range(100))
    >>> solve(Problem.of(scheme, contexts, fillers, torch.arange(100)), scheme.trace(contexts, fillers)).right
    100
    """
    enough = math.ceil(accuracy * sum(problem.ranks.gather(len(problem.contexts))))
    leads = MAX_LEAD_EVALUATIONS if bits is None else LEAD_EVALUATIONS_FOR_ROUNDING
    is_large = len(problem.candidates) > MIN_CANDIDATES_FOR_RIVALS
    found = (solve_by_rivals if is_large else _solve)(problem, memory, enough, leads, on_step)
    if bits is None:
        return found
    cells, right = fit_rounded(problem.count, as_flat(found.tensor), bits, enough, MAX_ROUNDED_EVALUATIONS)
    cells = replace(cells, codes=cells.codes.view(as_real(memory).shape))
    tensor = problem.shaped(as_flat(cells.numbers(problem.scheme.dtype)))
    return SolverResult(tensor=tensor, slope=problem.slope, right=right, evaluations=problem.evaluations, cells=cells)


def _solve(problem: Problem, memory: Tensor, enough: int, leads: int, on_step: OnStep | None) -> SolverResult:
    """Descend until enough contexts are right, and then for their leads, up to `leads` evaluations."""
    best, values, reached = SolverResult(tensor=memory, slope=problem.slope, right=-1, evaluations=0), list[float](), 0
    # The first step adds every pair, less what it is expected to be, about half.
    for flat, value in descend(problem.evaluate, as_flat(memory).clone(), FIRST_STEP / problem.slope):
        if problem.right >= best.right:
            best = SolverResult(
                tensor=problem.shaped(flat), slope=problem.slope, right=problem.right, evaluations=problem.evaluations
            )
        if on_step:
            on_step(best.right)
        values.append(value)
        if best.right >= enough:
            reached = reached or problem.evaluations
            is_leading = problem.leading >= enough and leads == MAX_LEAD_EVALUATIONS
            if is_leading or problem.evaluations - reached >= leads:
                break
        stalls = len(values) > STALL_EVALUATIONS and values[-STALL_EVALUATIONS - 1] - value < STALL_DECREASE * value
        if stalls or problem.evaluations >= MAX_EVALUATIONS:
            break
    return best


def solve_by_rivals(problem: Problem, memory: Tensor, enough: int, leads: int, on_step: OnStep | None) -> SolverResult:
    """Solve with the rivals of contexts alone, and search for further ones, until enough are right among all."""
    best, here, chosen = (
        SolverResult(tensor=memory, slope=problem.slope, right=-1, evaluations=0),
        memory,
        list[Tensor](),
    )
    for _ in range(MAX_SURVEYS):
        rivals = problem.survey(here)
        if problem.right >= best.right:
            best = SolverResult(tensor=here, slope=problem.slope, right=problem.right, evaluations=problem.evaluations)
        if on_step:
            on_step(best.right)
        known = chosen or [each[:0] for each in rivals]
        added = [torch.cat(pair).unique() for pair in zip(known, rivals, strict=True)]
        done = problem.leading >= enough and bool(chosen)
        if done or not any(problem.ranks.gather(sum(map(len, added)) - sum(map(len, chosen)))):
            break  # enough, or no rival is new
        problem.rivals = chosen = added
        here = _solve(problem, here, enough, leads, None).tensor
        problem.rivals = None
    return replace(best, evaluations=problem.evaluations)


def as_flat(memory: Tensor) -> Tensor:
    """Return a memory's real numbers, flat."""
    return as_real(memory).reshape(-1)


def descend(function: Function, start: Tensor, first: float) -> Iterator[tuple[Tensor, float]]:
    """Minimize a smooth convex function by L-BFGS: yield every better argument (m,) with its value.

    The function is evaluated once or twice a step, which torch.optim.LBFGS does not manage: its line search by strong
    Wolfe conditions takes up to a third more evaluations here. `first` is the length of the first step along the
    gradient.

    >>> bowl = lambda x: (float((x - 3).square().sum()), 2 * (x - 3))
    >>> [(x.tolist(), value) for x, value in descend(bowl, torch.zeros(2), first=0.5)]
    [([0.0, 0.0], 18.0), ([3.0, 3.0], 0.0)]
    """
    pairs = list[tuple[Tensor, Tensor]]()  # steps, and the changes of the gradient
    value, gradient = function(start)
    yield start, value
    while True:
        direction = _newton_direction(gradient, pairs, first)
        slope, length = float(torch.dot(direction, gradient)), 1.0
        if not slope > 0:
            return
        while True:
            there = start - length * direction
            new_value, new_gradient = function(there)
            if new_value <= value - SUFFICIENT_DECREASE * length * slope:
                break
            length /= 2
            if length < SHORTEST_STEP:
                return
        step, change = there - start, new_gradient - gradient
        if float(torch.dot(step, change)) > 0:  # without curvature there is nothing to learn
            pairs = [*pairs[1 - CURVATURE_STEPS :], (step, change)]
        start, value, gradient = there, new_value, new_gradient
        yield start, value


def _newton_direction(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]], first: float) -> Tensor:
    """Return the gradient divided by the curvature, by the two-loop recursion."""
    towards, shares = gradient.clone(), []
    for step, change in reversed(pairs):
        shares.append(torch.dot(step, towards) / torch.dot(step, change))
        towards -= shares[-1] * change
    if pairs:
        step, change = pairs[-1]
        towards *= torch.dot(step, change) / torch.dot(change, change)
    else:
        towards *= first
    for step, change in pairs:
        towards += (shares.pop() - torch.dot(change, towards) / torch.dot(step, change)) * step
    return towards


def fit_rounded(
    count: Callable[[Tensor], tuple[int, Tensor]], start: Tensor, bits: int, enough: int, most: int
) -> tuple[Cells, int]:
    """Return cells near numbers (m,) for which `count` is at least `enough` or as large as possible, and that count.

    `count` returns a number and the gradient; it is evaluated up to `most` times.

    >>> towards = torch.tensor([0.3, -0.3, 2.0])
    >>> count = lambda x: (int((x * towards > 0).sum()), x - towards)
    >>> cells, right = fit_rounded(count, torch.ones(3), bits=1, enough=3, most=99)
    >>> right, cells.codes.tolist()
    (3, [1, 0, 1])
    """
    free, deviation = start.clone(), single(float(start.double().square().mean().sqrt())) or 1.0
    optimizer = torch.optim.Adam([free], betas=ADAM_BETAS, eps=1e-12)
    best, best_right = Cells.solved(free, check_bits(bits), deviation), -1
    for number in range(1, most + 1):
        cells = Cells.solved(free, bits, deviation)
        right, gradient = count(cells.numbers(free.dtype))
        if right > best_right:
            best, best_right = cells, right
        if right >= enough:
            break
        optimizer.param_groups[0]["lr"] = ADAM_STEP * deviation * (1 - number / most)
        free.grad = gradient
        optimizer.step()
    return best, best_right
