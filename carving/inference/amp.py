"""Joint decoding of all contexts of a memory, by approximate message passing (AMP).

In a single query, the other N - 1 pairs of a memory are noise. Joint decoding knows all contexts: every round estimates
what each context holds, subtracts the estimates from the memory, and estimates again with less noise, as for sparse
superposition codes. The Onsager term removes the influence of a context's own past estimates from the noise, so that
the noise stays Gaussian, with the variance of the residual.

A memory is observed through a channel. Of exact numbers (`GaussianChannel`), the residual is the difference between the
memory and the estimates. Of quantized numbers (`QuantizedChannel`, generalized AMP), it is the posterior mean of that
difference: with the expectation P of a number and the variance T of all that is still undecided, the number has a mean
m and a variance v within its bin, and with g = (m - P) / T

    noise = T / mean(1 - v / T),    residual = noise g,

which is the difference and its mean square if bins are points, v = 0. T is the maximum likelihood estimate given the
bins, so that it includes pairs in contexts that were not passed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict, Unpack

import torch
from torch import Tensor

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.inference.likelihood import core_scalars
from carving.inference.sample import ONCE, Strengths
from carving.inference.top_k import best_of
from carving.quantization import Cells, Within
from carving.schemes.base import (
    FILLERS,
    Candidates,
    CandidatesOrFillers,
    Contexts,
    ContextsOrPaths,
    Scheme,
    check_memory,
)
from carving.tensors import as_real, falling_exp_
from carving.tiling import slices
from carving.validate import check_integer, check_prior_empty, check_tensor, listed

MAX_CACHED_WEIGHTS = 2**21  # candidate weights that are computed at a time, so that they stay in the caches
CONVERGED_DOUBT = 0.01  # mean probability of an error below which the result counts as found
NEGLIGIBLE = 1e-7  # of the memory's energy: a smaller residual is rounding
BIN_TOLERANCE = 1e-4  # deviations by which rounding may move a number out of its bin
MAX_VARIANCE_FITS = 8  # of a quantized channel, in a round
VARIANCE_TOLERANCE = 0.002  # relative error of that fit

OnRound = Callable[[int, float], None]  # the round, and the share of the memory that is not explained yet


@dataclass(frozen=True)
class Decoded:
    """The result of joint decoding. A context with several fillers has several consecutive rows."""

    indices: Tensor  # (rows,) positions among the candidates; -1 for an empty row
    probabilities: Tensor  # (rows,) posterior probabilities
    scores: Tensor  # (rows,) strengths once all other pairs are subtracted: about 1
    converged: bool  # whether decoding converged to a confident result
    rounds: int  # the number of rounds, each of which reads the memory
    noise: tuple[float, ...]  # the variance of the interference in a cell, for each round
    explained: bool = False  # whether the decoded pairs, stored again, reproduce the memory


class Options(TypedDict, total=False):
    """Prior knowledge of joint decoding, and how long and with whom to decode."""

    rounds: int  # maximum number of rounds; default 100
    ranks: Ranks | None  # that decode together; default this one alone

    holds: int | Sequence[int]  # maximum number of fillers, of all contexts or of each; default 1
    prior: Tensor | None  # (L,) prior probabilities of the candidates, up to a factor
    shares: Tensor | None  # (L,) the share of all stored pairs that have this filler: it interferes with itself
    prior_empty: float  # prior probability that a context is empty
    strengths: Strengths  # the strengths of stored pairs; default 1


class Step(NamedTuple):
    """The state after a round of joint decoding."""

    number: int
    noise: float  # the variance of the interference in a cell
    left: float  # the share of the memory that is not yet explained
    indices: Tensor  # (rows,) positions among the candidates, for this rank; -1 for an empty row
    probabilities: Tensor  # (rows,) posterior probabilities


def decode(
    scheme: Scheme,
    memory: Tensor | Cells,
    contexts: ContextsOrPaths,
    candidates: Tensor,
    *,
    on_round: OnRound | None = None,
    **options: Unpack[Options],
) -> Decoded:
    """Decode all contexts jointly, by approximate message passing (AMP).

    Every round subtracts the expected contents of all contexts from the memory, which leaves less interference for the
    next one. Stored contexts that are not given remain noise. The result is that of the round that explains the memory
    best.

    Args:
        scheme: A linear scheme (`scheme.facts.linear`).
        memory: (*memory_shape), or the `Cells` of a quantized memory.
        contexts: n contexts, or n paths. With `ranks` the contexts of this rank.
        candidates: Fillers (L, *filler_shape).
        on_round: Called after every round with its number and the share of the memory that is not yet explained.
        **options: `rounds`, the maximum number of rounds (default 100); `ranks`, the ranks that decode together, of
            which each gets the results of all, in the order of ranks; and prior knowledge: `holds`, the maximum number
            of fillers of the contexts (an integer, or one for each; default 1); `prior` (L,), the prior probabilities
            of the candidates up to a factor; `prior_empty`, the prior probability that a context is empty; `shares`
            (L,), the share of all stored pairs that have this filler; `strengths`, the strengths of stored pairs.

    Returns:
        Indices, probabilities and scores of the rows, and whether decoding converged.

    Raises:
        BadValue: If the scheme is not linear, the memory is not finite, or the prior knowledge is invalid.

    >>> from carving import OSC
    >>> scheme = OSC(d=30, compact=True)
    >>> paths, fillers = [(i,) for i in range(60)], scheme.fillers(range(60))
    >>> found = decode(scheme, scheme.trace(paths, fillers), paths, fillers)
    >>> found.converged, int((found.indices == torch.arange(60)).sum())
    (True, 60)
    """
    decoding = Decoding(scheme, memory, contexts, candidates, **options)
    for step in decoding:
        if on_round:
            on_round(step.number, step.left)
    return decoding.decoded()


class Decoding:
    """Joint decoding, round by round: iterate over it to get a `Step` for each round, then call `decoded`.

    The arguments are those of `decode`. Iteration may stop before the last round; iterating again starts over.

    >>> from carving import OSC
    >>> scheme = OSC(d=30, compact=True)
    >>> paths, fillers = [(i,) for i in range(60)], scheme.fillers(range(60))
    >>> decoding = Decoding(scheme, scheme.trace(paths, fillers), paths, fillers)
    >>> [int((step.indices == torch.arange(60)).sum()) for step in decoding]
    [54, 60, 60]
    >>> decoding.decoded().converged
    True
    """

    def __init__(
        self,
        scheme: Scheme,
        memory: Tensor | Cells,
        contexts: ContextsOrPaths,
        candidates: Tensor,
        **options: Unpack[Options],
    ) -> None:
        rounds = options.get("rounds", 100)
        self.rounds = check_integer("rounds", rounds, 1, way_out="A typical value is 100; most memories need 10.")
        self.query = JointQuery.of(scheme, contexts, candidates, options)
        self.memory, self.candidates, self.ranks = memory, candidates, options.get("ranks") or Ranks.alone()
        self.state = DecoderState.of(self.query.scheme, memory)

    def __iter__(self) -> Iterator[Step]:
        """Run rounds until the answers no longer change."""
        query, ranks, scheme = self.query, self.ranks, self.query.scheme
        if self.state.noise:
            self.state = DecoderState.of(scheme, self.memory)
        state = self.state
        cores = torch.zeros(
            len(query.owners), *scheme.facts.core_shape, dtype=scheme.facts.memory_dtype, device=scheme.device
        )
        for number in range(self.rounds):
            written = ranks.sum_(query.write(cores)) if number else None
            residual = state.channel.residual(written, state.onsager, state.doubt)
            # What ranks decide by must not differ in the last digit.
            residual = Residual(residual.numbers, *ranks.of_first(residual[1:]))
            beliefs = query.estimate(residual.numbers, cores, residual.noise)
            changes = ranks.gather((beliefs.doubt, state.is_changed_by(beliefs)))
            beliefs = beliefs._replace(doubt=sum(doubt for doubt, _ in changes))
            is_at_rest = state.add(beliefs, residual, any(changed for _, changed in changes))
            yield Step(
                number=number + 1,
                noise=residual.noise,
                left=residual.left,
                indices=beliefs.indices,
                probabilities=beliefs.probabilities,
            )
            if is_at_rest:
                break
            cores = state.next_cores(beliefs, cores, residual.numbers)

    def decoded(self) -> Decoded:
        """Return the result of the rounds so far."""
        decoded, best = self.state.decoded(self.ranks), self.state.best
        if not decoded.converged or best is None:
            return decoded
        stored = self.ranks.sum_(self.query.store(best.indices, self.candidates))
        return replace(decoded, explained=self.state.channel.is_explained_by(stored))


class Beliefs(NamedTuple):
    """The estimates of one round."""

    cores: Tensor  # (rows, *core_shape) the expected core of each row
    doubt: float  # the energy that the expectations leave undecided, summed over rows
    indices: Tensor
    probabilities: Tensor
    scores: Tensor

    def gathered(self, ranks: Ranks) -> "Beliefs":
        """Return the answers of all ranks."""
        parts = list(ranks.each(tuple(each.cpu() for each in self[2:])))
        columns = (torch.cat(each).to(self.indices.device) for each in zip(*parts, strict=True))
        return Beliefs(self.cores, self.doubt, *columns)


@dataclass
class DecoderState:
    """The progress of a decoding: its best round, whether it still moves, and its damping."""

    channel: "GaussianChannel | QuantizedChannel"
    onsager: Tensor  # (*memory_shape) the Onsager term of the next round
    noise: list[float] = field(default_factory=list)
    first: Beliefs | None = None
    best: Beliefs | None = None
    lowest: float = math.inf  # the noise of the best round
    rounds_at_rest: int = 0
    is_at_rest: bool = False
    damping: float = 0.0
    doubt: float = math.inf  # the energy that the last round left undecided

    @classmethod
    def of(cls, scheme: Scheme, memory: Tensor | Cells) -> "DecoderState":
        """Return the state before the first round."""
        channel = QuantizedChannel(scheme, memory) if isinstance(memory, Cells) else GaussianChannel(scheme, memory)
        return cls(channel=channel, onsager=scheme.zeros())

    def is_changed_by(self, beliefs: Beliefs) -> bool:
        """Whether the answers of a round differ from those of the best round."""
        return self.best is not None and bool((beliefs.indices != self.best.indices).any())

    def add(self, beliefs: Beliefs, residual: "Residual", changed: bool) -> bool:
        """Add a round; return whether further ones would change nothing."""
        noise, self.doubt = residual.noise, beliefs.doubt
        self.noise.append(noise)
        if self.best is not None:
            is_moving = changed and noise < self.lowest
            self.rounds_at_rest = 0 if is_moving else self.rounds_at_rest + (noise > 0.999 * self.lowest)
        self.first = self.first or beliefs
        if noise < self.lowest:
            self.lowest, self.best = noise, beliefs
        self.is_at_rest = self.rounds_at_rest >= self.channel.patience or residual.explained
        return self.is_at_rest

    def next_cores(self, beliefs: Beliefs, cores: Tensor, residual: Tensor) -> Tensor:
        """Return the cores (rows, *core_shape) to subtract next; the Onsager term is damped as they are."""
        if len(self.noise) > 1 and self.noise[-1] > self.channel.max_rise * self.noise[-2]:  # the steps are too long
            self.damping = min(0.9, 0.5 * (1 + self.damping))
        onsager = beliefs.doubt / (self.channel.scalars * self.noise[-1]) * residual
        self.onsager = torch.lerp(onsager, self.onsager, self.damping) if self.damping else onsager
        return torch.lerp(beliefs.cores, cores, self.damping) if self.damping else beliefs.cores

    def decoded(self, ranks: Ranks) -> Decoded:
        """Return the answers of the best round, or far beyond capacity those of the first, of all ranks."""
        assert self.first is not None and self.best is not None
        answers, first = self.best.gathered(ranks), self.first.gathered(ranks)
        converged = self.is_at_rest and float((1 - answers.probabilities).mean()) < CONVERGED_DOUBT
        if not converged and bool(answers.probabilities.sum() < first.probabilities.sum()):
            answers = first
        return Decoded(
            indices=answers.indices,
            probabilities=answers.probabilities,
            scores=answers.scores,
            converged=converged,
            rounds=len(self.noise),
            noise=tuple(self.noise),
        )


@dataclass(frozen=True)
class JointQuery:
    """The contexts and candidates of a joint decoding, and the two halves of a round: `write` and `estimate`."""

    scheme: Scheme
    contexts: Contexts
    candidates: Candidates
    starts: Tensor  # (n,) the first row of each context
    holds: Tensor  # (n,)
    owners: Tensor  # (rows,) the context of each row
    prior: "Prior"
    echoes: Tensor  # (L,) the noise of each candidate, in units of that of one stored nowhere else; or (1,)

    @classmethod
    def of(cls, scheme: Scheme, contexts: ContextsOrPaths, candidates: Tensor, priors: Options) -> "JointQuery":
        """Validate the arguments of `decode`."""
        if not scheme.facts.linear:
            raise BadValue(
                f"Joint decoding subtracts pairs from a sum, but a memory of {scheme} is not a sum: it settles when it "
                'is read. Use memory="raw" or another scheme.'
            )
        own = contexts if isinstance(contexts, Contexts) else scheme.contexts(contexts)
        check_tensor("candidates", candidates, (-1, *scheme.facts.filler_shape), FILLERS)
        if not len(own):
            raise BadValue("contexts must not be empty. Pass at least one.")
        holds = checked_holds(priors.get("holds", 1), len(own))
        echo = max(0.0, scheme.facts.echo / scheme.facts.interference - 1)
        prior_empty = check_prior_empty(priors.get("prior_empty", 0.0))
        logs = checked_prior(priors.get("prior"), len(candidates), prior_empty)
        echoes = 1 + echo * checked_shares(priors.get("shares"), len(candidates))
        return cls(
            scheme=scheme,
            contexts=own,
            candidates=scheme.precompute(candidates),
            starts=(holds.cumsum(0) - holds).to(scheme.device),
            holds=holds.to(scheme.device),
            owners=torch.arange(len(own)).repeat_interleave(holds).to(scheme.device),
            prior=Prior(
                first_if_equal(logs).to(scheme.device, scheme.dtype),
                math.log(prior_empty) if prior_empty else -math.inf,
                priors.get("strengths", ONCE),
            ),
            echoes=first_if_equal(echoes).to(scheme.device, scheme.dtype),
        )

    def write(self, cores: Tensor) -> Tensor:
        """Return the memory of expected cores (rows, *core_shape)."""
        if len(self.owners) == len(self.contexts):
            return self.scheme.write(cores, self.contexts)
        summed = torch.zeros(len(self.contexts), *cores.shape[1:], dtype=cores.dtype, device=cores.device)
        return self.scheme.write(summed.index_add_(0, self.owners, cores), self.contexts)

    def store(self, indices: Tensor, candidates: Tensor) -> Tensor:
        """Return the memory of the candidates of all rows, each stored once; -1 stands for an empty row."""
        occupied = (indices >= 0).nonzero().squeeze(1)
        if not len(occupied):
            return self.scheme.zeros()
        return self.scheme.trace(self.contexts[self.owners[occupied]], candidates[indices[occupied]])

    def estimate(self, residual: Tensor, cores: Tensor, noise: float) -> Beliefs:
        """Estimate every row from the residual and the row's own core that was subtracted from it."""
        rows, numbers = len(self.owners), core_scalars(self.scheme)
        expected, doubt = torch.empty_like(cores), 0.0
        indices = torch.empty(rows, dtype=torch.int64, device=cores.device)
        probabilities, scores = (torch.empty(rows, dtype=self.scheme.dtype, device=cores.device) for _ in range(2))
        beliefs = Beliefs(cores=expected, doubt=0.0, indices=indices, probabilities=probabilities, scores=scores)
        size = max(1, min(len(self.contexts), MAX_CACHED_WEIGHTS // max(len(self.candidates), numbers)))
        for chunk in slices(len(self.contexts), size):
            doubt += self._estimate_chunk(chunk, residual, cores, noise, beliefs)
        return beliefs._replace(doubt=doubt)

    def _estimate_chunk(self, chunk: slice, residual: Tensor, cores: Tensor, noise: float, beliefs: Beliefs) -> float:
        """Write the estimates of a chunk of contexts into `beliefs`; return the energy that stays undecided."""
        scheme, contexts, starts, holds = self.scheme, self.contexts[chunk], self.starts[chunk], self.holds[chunk]
        own = slice(int(starts[0]), int(starts[-1] + holds[-1]))
        owners = self.owners[own] - chunk.start
        # The expected core of each row, updated row after row.
        taken = scheme.adjoint_write(cores[own], contexts if len(owners) == len(contexts) else contexts[owners])
        # The contexts' parts of the memory: the residual and all that was subtracted.
        whole = scheme.adjoint(residual, contexts).index_add(0, owners, taken)
        # The doubt about fillers that were estimated before in a context is noise in its core alone. Those of later
        # slots do not count: rows of one context would be slower to separate.
        doubts = torch.zeros(len(contexts), dtype=scheme.dtype, device=cores.device)
        total = 0.0
        for slot in range(int(holds.max())):
            which = (holds > slot).nonzero().squeeze(1)
            rows = starts[which] + slot
            part = contexts if len(which) == len(contexts) else contexts[which]
            others = torch.zeros_like(whole).index_add_(0, owners, taken)[which]
            view = whole[which] - others + taken[rows - own.start]
            variance = (noise + doubts[which] / core_scalars(scheme)).unsqueeze(1) * self.echoes
            found = posterior(scheme, view, part, self.candidates, variance, self.prior)
            beliefs.cores[rows], beliefs.indices[rows] = found.cores, found.indices
            beliefs.probabilities[rows], beliefs.scores[rows] = found.probabilities, found.strengths
            taken = taken.index_copy(0, rows - own.start, scheme.adjoint_write(found.cores, part))
            doubts[which] += found.doubt
            total += float(found.doubt.double().sum())
        return total


def checked_holds(holds: int | Sequence[int], contexts: int) -> Tensor:
    """Return the maximum number of fillers of each context, (n,)."""
    every = [holds] * contexts if isinstance(holds, int) else listed(holds, "holds")
    counts = [check_integer("holds", each, 1, way_out="Omit contexts that hold nothing.") for each in every]
    if len(counts) != contexts:
        raise BadValue(f"holds must have one number for each of the {contexts} contexts, got {len(counts)}")
    return torch.tensor(counts)


def checked_prior(prior: Tensor | None, total: int, prior_empty: float) -> Tensor:
    """Return the logarithms (L,) of the candidates' prior probabilities."""
    known = torch.ones(total) if prior is None else prior
    check_tensor("prior", known, (total,), "Pass one probability for each candidate.")
    if not bool((known >= 0).all()) or not 0 < float(known.double().sum()) < math.inf:
        raise BadValue(f"prior must have probabilities that are not all zero, got {known}. Counts are allowed.")
    return torch.log((1 - prior_empty) * known.double() / known.double().sum())


def checked_shares(shares: Tensor | None, total: int) -> Tensor:
    """Return the share (L,) of all stored pairs that each candidate has."""
    parts = torch.zeros(total) if shares is None else shares
    check_tensor("shares", parts, (total,), "Pass one share for each candidate.")
    if not bool(((parts >= 0) & (parts <= 1)).all()):
        raise BadValue(f"shares must be between 0 and 1, got {parts}. They are shares of all stored pairs.")
    return parts.double()


def first_if_equal(numbers: Tensor) -> Tensor:
    """Return (1,) if all numbers (L,) are equal: this saves passes over all candidates of all contexts."""
    return numbers[:1] if bool((numbers == numbers[0]).all()) else numbers


# The channel: what is observed of the memory


class Residual(NamedTuple):
    """The memory less the expectations of a round."""

    numbers: Tensor
    noise: float  # its variance, in one real number of the memory
    left: float  # the share of the memory that is not explained
    explained: bool  # whether nothing but rounding is left


class GaussianChannel:
    """A memory whose numbers are known."""

    max_rise = 1.0  # of the noise from round to round: by more, the steps are too long
    patience = 3  # rounds without a change after which decoding stops

    def __init__(self, scheme: Scheme, memory: Tensor) -> None:
        check_memory(scheme.facts, memory)
        self.scheme, self.memory = scheme, scheme.remove_partial_traces(memory)
        self.energy, self.scalars = scheme.squared_norm(self.memory), scheme.facts.memory_scalars
        if not math.isfinite(self.energy):
            raise BadValue(
                "The memory must contain finite numbers, got infinity or not-a-number. Store its pairs again."
            )
        self.least = NEGLIGIBLE * max(self.energy, 1.0) / self.scalars  # an empty memory has no energy at all

    def residual(self, written: Tensor | None, onsager: Tensor, doubt: float) -> Residual:
        """Return the residual of the expectations that were written (None: none), plus the Onsager term."""
        left = self.memory if written is None else self.memory - self.scheme.remove_partial_traces(written)
        residual = left + onsager
        noise = max(self.scheme.squared_norm(residual) / self.scalars, self.least)
        unexplained = self.scheme.squared_norm(left) / max(self.energy, 1e-30)
        return Residual(residual, noise, unexplained, noise <= self.least)

    def is_explained_by(self, stored: Tensor) -> bool:
        """Whether `stored` is the memory, but for rounding."""
        left = self.memory - self.scheme.remove_partial_traces(stored)
        return self.scheme.squared_norm(left) <= self.least * self.scalars


class QuantizedChannel:
    """A memory of which the bins of the numbers are known."""

    max_rise, patience = 1.1, 12  # near the threshold it converges slowly, and not monotonically

    def __init__(self, scheme: Scheme, cells: Cells) -> None:
        shape = (*scheme.facts.memory_shape, 2) if scheme.facts.memory_dtype.is_complex else scheme.facts.memory_shape
        check_tensor("cells", cells.codes, shape, "Quantize a memory of this scheme.", torch.uint8)
        self.scheme, self.cells, self.scalars = scheme, cells, scheme.facts.memory_scalars
        self.whole = max(cells.deviation**2, torch.finfo(torch.float32).tiny)
        self.variance = self.whole  # of what is undecided, by the last fit

    def residual(self, written: Tensor | None, onsager: Tensor, doubt: float) -> Residual:
        """Return the posterior residual of the expectations that were written (None: none), less the Onsager term.

        `doubt` is the energy that the expectations leave undecided: while there is some, they may lie in all bins by
        chance.
        """
        expected = -onsager if written is None else written - onsager
        means = as_real(expected)
        decided = doubt <= NEGLIGIBLE * self.whole * means.numel()
        explained = decided and written is not None and self.is_explained_by(written)
        start, fits = (NEGLIGIBLE * self.whole, 1) if explained else (self.variance, MAX_VARIANCE_FITS)
        within = self._fit(means, start, fits)
        shifts = torch.view_as_complex(within.shifts) if expected.is_complex() else within.shifts
        known = max(1 - within.variance / self.variance, NEGLIGIBLE)  # the share of the variance that the bins remove
        numbers = self.scheme.remove_partial_traces(shifts) / known
        return Residual(numbers, self.variance / known, self.variance / self.whole, explained)

    def is_explained_by(self, stored: Tensor) -> bool:
        """Whether every number of `stored` lies in its bin."""
        return not self.cells.outside(as_real(stored), BIN_TOLERANCE)

    def _fit(self, means: Tensor, start: float, steps: int) -> Within:
        """Set `variance` to its maximum likelihood estimate, which equals the posterior mean square.

        The logarithm of their ratio falls through zero there; the secant method finds it.
        """
        log, before = math.log(start), None
        for _ in range(steps):
            self.variance = math.exp(log)
            within = self.cells.within(means, self.variance)
            remains = self.scheme.squared_norm(within.shifts) / within.shifts.numel() + within.variance
            excess = math.log(remains / self.variance)
            if abs(excess) < VARIANCE_TOLERANCE:
                break
            slope = -0.5 if before is None else (excess - before[1]) / (log - before[0])
            before = log, excess
            step = min(3.0, abs(excess / min(slope, -0.1)))
            log += math.copysign(step, excess)
            log = min(max(log, math.log(NEGLIGIBLE * self.whole)), math.log(4 * self.whole))
            if log == before[0]:
                break
        return within


# The posterior of single rows


class Prior(NamedTuple):
    """Prior knowledge of every row."""

    logs: Tensor  # (L,) logarithms of the candidates' probabilities, or (1,) if all are equal
    log_empty: float
    strengths: Strengths = ONCE


class Posterior(NamedTuple):
    """Expected contents of contexts, of which each holds one filler or nothing."""

    cores: Tensor  # (n, *core_shape) the expected cores
    indices: Tensor  # (n,) the best candidates; -1 if an empty context is more probable
    probabilities: Tensor  # (n,) of that answer
    strengths: Tensor  # (n,) of the best candidates
    doubt: Tensor  # (n,) the energy that the expectations leave undecided


def posterior(
    scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: CandidatesOrFillers, variance: Tensor, prior: Prior
) -> Posterior:
    """Return the posterior of contexts given their cores: a softmax over candidates.

    Args:
        scheme: A linear scheme.
        cores: (n, *core_shape), seen through noise.
        contexts: The n contexts.
        candidates: `Candidates`, or fillers (L, *filler_shape).
        variance: (n, L) or (n, 1), of the noise.
        prior: Prior knowledge.
    """
    inner, energy = scheme.inner(cores, contexts, candidates), scheme.energy(contexts, candidates)
    is_once = prior.strengths == ONCE
    ratios = _ratios_(inner, energy, variance) if is_once else _ratios_of_strengths(inner, energy, variance, prior)
    values, level = ratios.values, ratios.level
    if len(prior.logs) == 1:
        level = level + prior.logs
    else:
        values += prior.logs
    top, best = best_of(values, 1)
    peak = (top + level).clamp_min(prior.log_empty)
    weights, empty = falling_exp_(values.sub_(peak - level)), (prior.log_empty - peak).exp()
    total = weights.sum(1, keepdim=True) + empty
    mean = scheme.expected_core(weights if ratios.strength is None else weights * ratios.strength, contexts, candidates)
    mean /= total.view(-1, *[1] * (mean.dim() - 1))
    held = (mean.conj() * scheme.adjoint_write(mean, contexts)).flatten(1).sum(1)
    squares = energy if ratios.square is None else energy * ratios.square
    stored = (weights * squares).sum(1, keepdim=True) if squares.shape[-1] > 1 else (total - empty) * squares
    doubt = (stored / total).squeeze(1) - (held.real if held.is_complex() else held)
    chance, empty = ((each / total).squeeze(1) for each in (weights.gather(1, best), empty))
    nothing = empty > chance
    answer = torch.where(nothing, empty, chance)
    if is_once:  # the ratios were computed in place of the inner products, which follow from them
        ratio = top + level - _at(prior.logs.unsqueeze(0), best)
        score = 0.5 + ratio * _at(variance, best) / _at(energy, best)
    else:
        score = _at(inner, best) / _at(energy, best)
    return Posterior(
        cores=mean,
        indices=best.squeeze(1).masked_fill(nothing, -1),
        probabilities=answer,
        strengths=score.squeeze(1),
        doubt=doubt.clamp_min(0),
    )


def _at(numbers: Tensor, columns: Tensor) -> Tensor:
    """Return one column (n, 1) of each row of numbers that broadcast to (n, L)."""
    return numbers if numbers.shape[-1] == 1 else numbers.expand(len(columns), -1).gather(1, columns)


class Ratios(NamedTuple):
    """Log-likelihood ratios of candidates, up to a level that all candidates of a context share."""

    values: Tensor  # (n, L)
    level: Tensor  # broadcastable to (n, 1)
    strength: Tensor | None = None  # (n, L) posterior mean of each candidate's strength, if it is stored; None for 1
    square: Tensor | None = None  # (n, L) posterior mean square


def _ratios_(inner: Tensor, energy: Tensor, variance: Tensor) -> Ratios:
    """Return the ratios of candidates of strength 1, in place of their inner products, in as few passes as possible."""
    if energy.shape[-1] == 1 == variance.shape[-1]:
        slope = 1 / variance
        return Ratios(inner.mul_(slope), -slope * energy / 2)
    return Ratios(inner.sub_(energy / 2).div_(variance), inner.new_zeros(1))


def _ratios_of_strengths(inner: Tensor, energy: Tensor, variance: Tensor, prior: Prior) -> Ratios:
    """Return the ratios of candidates whose strengths have a distribution."""
    logits, means, squares = inner.new_full(inner.shape, -math.inf), torch.zeros_like(inner), torch.zeros_like(inner)
    for strength, share in prior.strengths.levels:
        term = strength * (inner - strength / 2 * energy) / variance + math.log(share)
        both = torch.logaddexp(logits, term)
        old, new = (logits - both).exp(), (term - both).exp()
        means, squares = means * old + strength * new, squares * old + strength**2 * new
        logits = both
    return Ratios(logits, inner.new_zeros(1), means, squares)
