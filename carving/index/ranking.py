"""Ranking with an index of candidates: the index finds a shortlist, which is scored exactly.

Memories know an index by `CandidateIndex` alone; `buckets.py` has the one there is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.inference.likelihood import Evidence, Likelihood
from carving.inference.top_k import Ranking, best_of
from carving.schemes.base import Contexts, Scheme, draw_fillers
from carving.symbols.vocabulary import Vocabulary

SHORTLIST = 32  # candidates that are scored exactly, at least

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class IndexQuery:
    """A query to an index of candidates.

    Args:
        likelihood_of: Returns the likelihood of candidates, given their rows in the vocabulary.
        prior_empty: The probability that a context is empty.
        recall_target: The part of a full scan's right answers that must be found.
        prior_range: How much the prior log odds of candidates differ at most.
        single: Whether contexts hold at most one value, so that a sure one is all.
    """

    likelihood_of: Callable[[Rows], Likelihood]
    prior_empty: float
    recall_target: float
    prior_range: float = math.inf
    single: bool = True


class CandidateIndex(Protocol):
    """Finds the probable candidates of a vocabulary without scoring all of them."""

    @property
    def scheme(self) -> Scheme:
        """The scheme of the fillers."""

    def __len__(self) -> int:
        """The number of candidates."""

    def extended(self, vocabulary: Vocabulary) -> Self:
        """Return the index with the new values of a vocabulary."""

    def contents(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return the tensors and the metadata of a file of the index."""

    def search(self, cores: Tensor, energies: Tensor, query: IndexQuery, k: int) -> tuple[Tensor, Tensor]:
        """Search for the most probable candidates of contexts.

        Args:
            cores: The adjoint cores of the contexts, (n, *core_shape).
            energies: The squared norm of a bound filler in each context, (n, 1).
            query: The recall target and the likelihoods.
            k: The number of candidates for each context.

        Returns:
            Their rows (n, k), ascending, -1 where there are fewer; and the log odds of all others together, (n,).
        """


def rank(
    index: CandidateIndex, vocabulary: Vocabulary, query: IndexQuery, memory: Tensor, contexts: Contexts, k: int
) -> Ranking:
    """Return the k candidates of each context with the highest odds among those that the index finds."""
    scheme = index.scheme
    cores, count = scheme.adjoint(memory, contexts), min(max(2 * k, SHORTLIST), len(vocabulary))
    # Compact fillers are unit vectors: bound, all have the energy of their context.
    energies = scheme.energy(contexts, cores.new_ones(1, *scheme.facts.filler_shape)).expand(len(contexts), 1)
    rows, log_others = index.search(cores, energies, query, count)
    is_missing, rows = rows < 0, rows.clamp_min(0)
    distinct, places = rows.unique(return_inverse=True)
    fillers = draw_fillers(scheme, [vocabulary.name(row) for row in distinct.tolist()])
    evidence = Evidence.of(scheme, cores, contexts, fillers[places])
    likelihood = query.likelihood_of(rows.flatten().numpy())
    log_odds = likelihood.log_odds(evidence, torch.arange(rows.numel()).view(rows.shape))
    log_odds = log_odds.masked_fill(is_missing, -math.inf)
    best = best_of(log_odds, k)
    strengths = evidence.strengths.expand(rows.shape).gather(1, best.indices)
    log_total = torch.logaddexp(log_odds.logsumexp(1), log_others.to(log_odds))
    return Ranking(best.scores, rows.gather(1, best.indices), strengths, log_total)
