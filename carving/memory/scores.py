"""Why an answer is given: the strengths of all candidates in a context, the noise, and from where on one is found."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference.likelihood import Evidence, Likelihood
from carving.memory.questions import Questions, check_paths
from carving.memory.state import State
from carving.schemes.contexts import Contexts
from carving.schemes.linear import LinearScheme
from carving.symbols.codec import Path
from carving.validate import check_prior_empty

HALVINGS = 60  # of an interval, until a double cannot tell its ends apart
BROAD = 64.0  # deviations of noise beyond which no threshold lies


class Scores(NamedTuple):
    """What a path shows of every value of the vocabulary."""

    strengths: Tensor  # (values,) about 1 for what was stored once, about 0 for the rest
    chances: Tensor | None  # (values,) the probability of each, at most one being there; None where there is none
    nothing: float | None  # that of nothing being there
    noise: float  # the deviation of the strengths of values that are not there
    threshold: float | None  # from this strength on the best value is more probable than nothing
    likeness: bool = False  # strengths are cosines, of schemes that settle: what was stored need not be near 1

    def best(self, count: int) -> list[int]:
        """The rows of the so many best values, by their probability."""
        order = self.strengths if self.chances is None else self.chances
        # Where many are as good as impossible, their strengths tell them apart.
        ranked = torch.stack([order.double(), self.strengths.double()], 1)
        first = order.topk(min(4 * count, len(order))).indices
        return sorted(first.tolist(), key=lambda row: tuple(ranked[row].tolist()), reverse=True)[:count]


def scores(memory: Questions, path: Path, prior_empty: float = 0.5) -> Scores:
    """What a path shows of every value: why `recall` answers as it does.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
    2
    >>> seen = scores(memory, ("dog", "says"))
    >>> seen.strengths.argmax().item(), bool(seen.strengths.max() > seen.threshold), seen.noise < 0.1
    (0, True, True)
    """
    held, prior_empty = memory._state, check_prior_empty(prior_empty)
    asked, scheme = check_paths([path], held), held.scheme
    contexts, fillers = scheme.contexts(asked), held.codebook.all()
    if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
        return _alone(scheme.score(held.tensor, contexts, fillers)[0], likeness=True)
    if held.solved is not None:
        inner = scheme.inner(scheme.adjoint(held.tensor, contexts), contexts, fillers)
        return _alone((inner / scheme.energy(contexts, fillers))[0])
    return _weighed(held, scheme, contexts, fillers, prior_empty)


def _alone(strengths: Tensor, likeness: bool = False) -> Scores:
    """Strengths without odds: their noise is that of most of them."""
    middle = strengths.median()
    # 1.4826 times the median of what they are off is the deviation of a normal distribution.
    noise = 1.4826 * float((strengths - middle).abs().median())
    return Scores(strengths, None, None, noise, None, likeness)


def _weighed(held: State, scheme: LinearScheme, contexts: Contexts, fillers: Tensor, prior_empty: float) -> Scores:
    odds = held.odds(scheme, prior_empty, range(len(held.vocabulary)))
    cores = scheme.adjoint(held.tensor, contexts)
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    logs = odds.log_odds(evidence, slice(0, len(fillers)))[0].double()
    empty = math.log(prior_empty) if prior_empty else -math.inf
    total = torch.logaddexp(logs.logsumexp(0), torch.tensor(empty, dtype=torch.float64))
    spreads = (odds.variance_along(evidence, slice(0, len(fillers))) / evidence.energy).sqrt()
    threshold = _threshold(odds, evidence, int(logs.argmax()), empty) if prior_empty else None
    chances, strengths = (logs - total).exp(), evidence.strengths.expand(1, len(fillers))[0]
    return Scores(strengths, chances, float((empty - total).exp()), float(spreads.median()), threshold)


def _threshold(odds: Likelihood, evidence: Evidence, row: int, empty: float) -> float:
    """The strength from which on a candidate is more probable than nothing, found by halving: odds grow with it."""
    # In double precision: where there is hardly any noise, the odds of neighboring strengths are far apart.
    own = odds.only(torch.tensor([row]))
    shift = None if own.shift is None else own.shift.double()
    own = Likelihood(own.variance.double(), own.log_prior.double(), own.norm, own.strengths, own.numbers, shift)
    energy = evidence.energy.expand(1, len(odds.variance))[:, row : row + 1].double()
    noise = None if evidence.noise is None else evidence.noise.expand(1, len(odds.variance))[:, row : row + 1].double()
    unit = own.variance_along(Evidence(energy, energy, noise), slice(0, 1))
    reach = max(own.strengths.values) + BROAD * float((unit / energy).sqrt().max())
    low, high = -reach, reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = float(own.log_odds(Evidence(middle * energy, energy, noise), slice(0, 1))) > empty
        low, high = (low, middle) if found else (middle, high)
    return high
