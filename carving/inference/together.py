"""Joint decoding: all contexts of a memory answered together.

Asked one at a time, a context sees the N - 1 other pairs as noise, although the memory knows them. Here every context
says what it expects to hold, these expectations are taken out of the memory, and all are asked again, with less noise:
approximate message passing, as for sparse superposition codes. The Onsager term keeps a context's own past answers out
of the noise that it sees, so that the noise stays Gaussian, with the variance that the residual shows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict, Unpack

import torch
from torch import Tensor

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.inference.likelihood import Prior, core_scalars, posterior
from carving.inference.observed import Residual, observed
from carving.inference.sample import ONCE, Strengths
from carving.quantization import Cells
from carving.schemes.base import FILLERS, Contexts, ContextsOrPaths, Scheme
from carving.tiling import slices
from carving.validate import check_integer, check_prior_empty, check_tensor, listed

CELLS = 2**21  # weights of candidates in contexts that stand beside each other: they stay in the caches
SURE = 0.01  # the mean doubt below which the answers count as found

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


class Known(TypedDict, total=False):
    """Prior knowledge of joint decoding."""

    holds: int | Sequence[int]  # maximum number of fillers, of all contexts or of each; default 1
    prior: Tensor | None  # (L,) prior probabilities of the candidates, up to a factor
    shares: Tensor | None  # (L,) the share of all stored pairs that have this filler: it interferes with itself
    prior_empty: float  # prior probability that a context is empty
    strengths: Strengths  # the strengths of stored pairs; default 1


class Round(NamedTuple):
    """What the memory and the expectations of one round gave."""

    cores: Tensor  # (rows, *core_shape) what each row is expected to hold
    doubt: float  # the energy that the expectations leave open, summed over rows
    indices: Tensor
    probabilities: Tensor
    scores: Tensor


def decode(
    scheme: Scheme,
    memory: Tensor | Cells,
    contexts: ContextsOrPaths,
    candidates: Tensor,
    *,
    rounds: int = 100,
    on_round: OnRound | None = None,
    ranks: Ranks | None = None,
    **known: Unpack[Known],
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
        rounds: The maximum number of rounds.
        on_round: Called after every round with its number and the share of the memory that is not yet explained.
        ranks: The ranks that decode together; every rank gets the results of all of them, in the order of ranks.
        **known: Prior knowledge. `holds`, the maximum number of fillers of the contexts (an integer, or one for each;
            default 1); `prior` (L,), the prior probabilities of the candidates up to a factor; `prior_empty`, the prior
            probability that a context is empty; `shares` (L,), the share of all stored pairs that have this filler;
            `strengths`, the strengths of stored pairs.

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
    going = Decoding(scheme, memory, contexts, candidates, rounds=rounds, ranks=ranks, **known)
    for step in going:
        if on_round:
            on_round(step.number, step.left)
    return going.decoded()


class Step(NamedTuple):
    """The state after a round of joint decoding."""

    number: int
    noise: float  # the variance of the interference in a cell
    left: float  # the share of the memory that is not yet explained
    indices: Tensor  # (rows,) positions among the candidates, for this rank; -1 for an empty row
    probabilities: Tensor  # (rows,) posterior probabilities


class Decoding:
    """Joint decoding, round by round: iterate over it to get a `Step` for each round, then call `decoded`.

    The arguments are those of `decode`. Iteration may stop before the last round.

    >>> from carving import OSC
    >>> scheme = OSC(d=30, compact=True)
    >>> paths, fillers = [(i,) for i in range(60)], scheme.fillers(range(60))
    >>> going = Decoding(scheme, scheme.trace(paths, fillers), paths, fillers)
    >>> [int((step.indices == torch.arange(60)).sum()) for step in going]
    [54, 60, 60]
    >>> going.decoded().converged
    True
    """

    def __init__(
        self,
        scheme: Scheme,
        memory: Tensor | Cells,
        contexts: ContextsOrPaths,
        candidates: Tensor,
        *,
        rounds: int = 100,
        ranks: Ranks | None = None,
        **known: Unpack[Known],
    ) -> None:
        self.rounds = check_integer("rounds", rounds, 1, way_out="a typical value is 100; most memories need 10")
        self.question, self.candidates = Question.of(scheme, contexts, candidates, known), candidates
        self.seen, self.ranks = observed(self.question.scheme, memory), ranks or Ranks.alone()
        self.state = self._begun()

    def _begun(self) -> "State":
        return State(self.question.scheme.zeros(), self.seen.steady, self.seen.patience)

    def __iter__(self) -> Iterator[Step]:
        """Run rounds until the answers no longer change; iterating again starts over."""
        self.state = self._begun()
        question, seen, state, ranks, scheme = self.question, self.seen, self.state, self.ranks, self.question.scheme
        cores = torch.zeros(
            len(question.owners), *scheme.facts.core_shape, dtype=scheme.facts.memory_dtype, device=scheme.device
        )
        for number in range(self.rounds):
            written = ranks.sum_(question.written(cores)) if number else None
            residual = _same(seen.residual(written, state.onsager, state.doubt), ranks)
            answers = question.asked(residual.numbers, cores, residual.noise)
            changes = ranks.gather((answers.doubt, state.changed_by(answers)))
            answers = answers._replace(doubt=sum(doubt for doubt, _ in changes))
            rests = state.rests_after(answers, residual, any(changed for _, changed in changes))
            yield Step(number + 1, residual.noise, residual.left, answers.indices, answers.probabilities)
            if rests:
                break
            cores = state.damped(answers, cores, residual.numbers, scheme.facts.memory_scalars)

    def decoded(self) -> Decoded:
        """Return the result of the rounds so far."""
        decoded, best = self.state.decoded(self.ranks), self.state.best
        if not decoded.converged or best is None:
            return decoded
        stored = self.ranks.sum_(self.question.stored(best.indices, self.candidates))
        return replace(decoded, explained=self.seen.explained_by(stored))


def _same(residual: Residual, ranks: Ranks) -> Residual:
    """The residual with the numbers of the first rank: what ranks decide by must not differ in the last digit."""
    if ranks.size == 1:
        return residual
    noise, left, explained = ranks.of_first((residual.noise, residual.left, residual.explained))
    return Residual(residual.numbers, noise, left, explained)


@dataclass
class State:
    """How a decoding goes: its best round, whether it still moves, and how strongly it is damped."""

    onsager: Tensor  # what keeps a context's past answers out of the noise that it sees
    steady: float  # times the noise of the round before that are no sign of too long a step
    patience: int  # rounds without a change after which nothing more will come
    noise: list[float] = field(default_factory=list)
    first: Round | None = None
    best: Round | None = None
    lowest: float = math.inf  # the noise of the best round
    still: int = 0
    rested: bool = False
    damping: float = 0.0
    doubt: float = math.inf  # the energy that the last round left open

    def changed_by(self, answers: Round) -> bool:
        """Whether a round's answers are others than the best round's."""
        return self.best is not None and bool((answers.indices != self.best.indices).any())

    def rests_after(self, answers: Round, residual: Residual, changed: bool) -> bool:
        """Take a round in; whether nothing more will come."""
        noise, self.doubt = residual.noise, answers.doubt
        self.noise.append(noise)
        if self.best is not None:
            self.still = 0 if changed and noise < self.lowest else self.still + (noise > 0.999 * self.lowest)
        self.first = self.first or answers
        if noise < self.lowest:
            self.lowest, self.best = noise, answers
        self.rested = self.still >= self.patience or residual.explained
        return self.rested

    def damped(self, answers: Round, cores: Tensor, residual: Tensor, scalars: int) -> Tensor:
        """What is expected next: with what corrects for it damped alike, because the correction belongs to it."""
        if len(self.noise) > 1 and self.noise[-1] > self.steady * self.noise[-2]:  # the steps are too long
            self.damping = min(0.9, 0.5 * (1 + self.damping))
        onsager = answers.doubt / (scalars * self.noise[-1]) * residual
        self.onsager = torch.lerp(onsager, self.onsager, self.damping) if self.damping else onsager
        return torch.lerp(answers.cores, cores, self.damping) if self.damping else answers.cores

    def decoded(self, ranks: Ranks) -> Decoded:
        """The best round's answers, or the first one's, of all ranks."""
        assert self.first is not None and self.best is not None
        answers, first = _of_all(self.best, ranks), _of_all(self.first, ranks)
        converged = self.rested and float((1 - answers.probabilities).mean()) < SURE
        if not converged and bool(answers.probabilities.sum() < first.probabilities.sum()):
            answers = first  # as far beyond what can be decoded
        rows = answers.indices, answers.probabilities, answers.scores
        return Decoded(*rows, converged, len(self.noise), tuple(self.noise))


def _of_all(answers: Round, ranks: Ranks) -> Round:
    """The answers of all ranks."""
    if ranks.size == 1:
        return answers
    device = answers.indices.device
    parts = list(ranks.each(tuple(each.cpu() for each in answers[2:])))
    return Round(answers.cores, answers.doubt, *(torch.cat(each).to(device) for each in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Question:
    """What is asked, and the two halves of a round."""

    scheme: Scheme
    contexts: Contexts
    candidates: Tensor
    starts: Tensor  # (n,) the first row of each context
    holds: Tensor  # (n,)
    owners: Tensor  # (rows,) the context of each row
    prior: Prior
    echoes: Tensor  # (L,) the noise that each candidate meets, beside that of one which is stored nowhere else; or (1,)

    @classmethod
    def of(cls, scheme: Scheme, contexts: ContextsOrPaths, candidates: Tensor, known: Known) -> "Question":
        """The question, checked."""
        if not scheme.facts.linear:
            raise BadValue(
                f"Joint decoding subtracts pairs from a sum, but a memory of {scheme} is not a sum: it settles when it "
                'is read. Use memory="raw" or another scheme.'
            )
        own = contexts if isinstance(contexts, Contexts) else scheme.contexts(contexts)
        check_tensor("candidates", candidates, (-1, *scheme.facts.filler_shape), FILLERS)
        if not len(own):
            raise BadValue("contexts must not be empty. Pass at least one.")
        holds = checked_holds(known.get("holds", 1), len(own))
        device = scheme.device
        echo = max(0.0, scheme.facts.echo / scheme.facts.interference - 1)
        prior_empty = check_prior_empty(known.get("prior_empty", 0.0))
        return cls(
            scheme=scheme,
            contexts=own,
            candidates=scheme.precompute(candidates),
            starts=(holds.cumsum(0) - holds).to(device),
            holds=holds.to(device),
            owners=torch.arange(len(own)).repeat_interleave(holds).to(device),
            prior=Prior(
                once_if_alike(checked_prior(known.get("prior"), len(candidates), prior_empty)).to(device, scheme.dtype),
                math.log(prior_empty) if prior_empty else -math.inf,
                known.get("strengths", ONCE),
            ),
            echoes=once_if_alike(1 + echo * checked_shares(known.get("shares"), len(candidates))).to(
                device, scheme.dtype
            ),
        )

    def written(self, cores: Tensor) -> Tensor:
        """The memory that the expected cores make."""
        if len(self.owners) == len(self.contexts):
            return self.scheme.write(cores, self.contexts)
        summed = torch.zeros(len(self.contexts), *cores.shape[1:], dtype=cores.dtype, device=cores.device)
        return self.scheme.write(summed.index_add_(0, self.owners, cores), self.contexts)

    def stored(self, indices: Tensor, candidates: Tensor) -> Tensor:
        """The memory that candidates of all rows make, each stored once; -1 stands for nothing."""
        there = (indices >= 0).nonzero().squeeze(1)
        if not len(there):
            return self.scheme.zeros()
        return self.scheme.trace(self.contexts[self.owners[there]], candidates[indices[there]])

    def asked(self, residual: Tensor, cores: Tensor, noise: float) -> Round:
        """What every row holds, by the residual and the row's own part that was taken out of it."""
        rows, numbers = len(self.owners), core_scalars(self.scheme)
        expected, doubt = torch.empty_like(cores), 0.0
        indices = torch.empty(rows, dtype=torch.int64, device=cores.device)
        probabilities, scores = (torch.empty(rows, dtype=self.scheme.dtype, device=cores.device) for _ in range(2))
        answers = Round(expected, 0.0, indices, probabilities, scores)
        size = max(1, min(len(self.contexts), CELLS // max(len(self.candidates), numbers)))
        for chunk in slices(len(self.contexts), size):
            doubt += self._ask_chunk(chunk, residual, cores, noise, answers)
        return answers._replace(doubt=doubt)

    def _ask_chunk(self, chunk: slice, residual: Tensor, cores: Tensor, noise: float, answers: Round) -> float:
        """Answer the rows of some contexts, in place; the energy that stays open."""
        scheme, contexts, starts, holds = self.scheme, self.contexts[chunk], self.starts[chunk], self.holds[chunk]
        own = slice(int(starts[0]), int(starts[-1] + holds[-1]))
        owners = self.owners[own] - chunk.start
        # What each row was expected to hold, made anew row after row.
        taken = scheme.adjoint_write(cores[own], contexts if len(owners) == len(contexts) else contexts[owners])
        # The contexts' parts of the memory: what is left of them and all that they were expected to hold.
        whole = scheme.adjoint(residual, contexts).index_add(0, owners, taken)
        # What is not known of fillers found before in the same context is noise that its core alone bears. Those still
        # to be found do not count: rows of one context would be slower to part.
        doubts = torch.zeros(len(contexts), dtype=scheme.dtype, device=cores.device)
        total = 0.0
        for slot in range(int(holds.max())):
            which = (holds > slot).nonzero().squeeze(1)
            rows = starts[which] + slot
            part = contexts if len(which) == len(contexts) else contexts[which]
            others = torch.zeros_like(whole).index_add_(0, owners, taken)[which]
            view = whole[which] - others + taken[rows - own.start]
            variance = (noise + doubts[which] / core_scalars(scheme)).unsqueeze(1) * self.echoes
            result = posterior(scheme, view, part, self.candidates, variance, self.prior)
            answers.cores[rows], answers.indices[rows] = result.cores, result.indices
            answers.probabilities[rows], answers.scores[rows] = result.probabilities, result.strengths
            taken = taken.index_copy(0, rows - own.start, scheme.adjoint_write(result.cores, part))
            doubts[which] += result.doubt
            total += float(result.doubt.double().sum())
        return total


# What is known beforehand, checked


def checked_holds(holds: int | Sequence[int], contexts: int) -> Tensor:
    """How many fillers each context holds at most."""
    every = [holds] * contexts if isinstance(holds, int) else listed(holds, "holds")
    counts = [check_integer("holds", each, 1, way_out="omit contexts that hold nothing") for each in every]
    if len(counts) != contexts:
        raise BadValue(f"holds must have one number for each of the {contexts} contexts, got {len(counts)}")
    return torch.tensor(counts)


def checked_prior(prior: Tensor | None, total: int, prior_empty: float) -> Tensor:
    """The logarithms of the candidates' probabilities."""
    known = torch.ones(total) if prior is None else prior
    check_tensor("prior", known, (total,), "pass one probability for each candidate")
    if not bool((known >= 0).all()) or not 0 < float(known.double().sum()) < math.inf:
        raise BadValue(f"prior must have probabilities that are not all zero, got {known}. Counts are allowed.")
    return torch.log((1 - prior_empty) * known.double() / known.double().sum())


def checked_shares(shares: Tensor | None, total: int) -> Tensor:
    """The parts of all stored pairs that hold each candidate."""
    parts = torch.zeros(total) if shares is None else shares
    check_tensor("shares", parts, (total,), "pass one share for each candidate")
    if not bool(((parts >= 0) & (parts <= 1)).all()):
        raise BadValue(f"shares must be between 0 and 1, got {parts}. They are shares of all stored pairs.")
    return parts.double()


def once_if_alike(numbers: Tensor) -> Tensor:
    """Numbers (L,), or one (1,) where all are the same: which saves passes over all candidates of all contexts."""
    return numbers[:1] if bool((numbers == numbers[0]).all()) else numbers
