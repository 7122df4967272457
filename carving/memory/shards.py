"""Questions that many ranks answer together: each weighs its part of the vocabulary, and the best of all are merged.

A value belongs to the rank that a hash of its name says, so that it stays where it is when the vocabulary grows. Every
rank knows all labels, but makes fillers of its own alone.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from carving.distributed.ranks import Group, Ranks
from carving.inference import likelihood
from carving.inference.likelihood import Likelihood
from carving.inference.ranking import Best, Indexed, Ranking, merged_parts
from carving.inference.sets import Scan, Shortlists, contexts_at_once
from carving.memory.codebook import Codebook, Drawn
from carving.memory.sharing import check_same_state
from carving.memory.state import State
from carving.schemes.contexts import Contexts
from carving.schemes.linear import LinearScheme
from carving.schemes.slab import RowShard
from carving.symbols.codec import Value, canonical_values
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary


@dataclass(frozen=True)
class Shard:
    """A rank's own part of the candidates."""

    held: State
    ranks: Ranks
    rows: Sequence[int]  # of all candidates
    own: Tensor  # (m,) which of these are this rank's,
    candidates: Tensor | list[Value]  # and their fillers, or labels where those are too many

    @classmethod
    def of(cls, held: State, candidates: Iterable[Value] | None, asked: Paths, ranks: Ranks) -> "Shard":
        """This rank's part, of all values or some; all ranks ask the same questions of the same memory."""
        rows: Sequence[int] = held.rows_among(candidates)
        names = canonical_values([held.value(row) for row in rows]) if candidates is not None else []
        check_same_state(ranks, held, questions=_digest([*asked.names, *names]))
        if candidates is None:
            own, book = held.kept.once("shard", [held.counts], (ranks.rank, ranks.size), lambda: _part(held, ranks))
            return cls(held, ranks, rows, own, book.ready(len(asked)) if book.holdable else book.vocabulary.labels)
        own = _own(names, ranks)
        fillers = held.codebook.of([held.value(rows[i]) for i in own.tolist()]) if len(own) else torch.empty(0)
        return cls(held, ranks, rows, own, fillers)

    def most_likely(self, scheme: LinearScheme, contexts: Contexts, odds: Likelihood, k: int) -> Ranking:
        """The k candidates of each context with the best odds, as `likelihood.most_likely` finds them."""
        most = min(k, len(self.own))
        found = None
        if most:
            part = odds.part(self.own)
            found = likelihood.most_likely(scheme, self.held.tensor, contexts, self.candidates, part, most)
        return self.merged(found, len(contexts), k)

    def merged(self, found: Ranking | None, contexts: int, k: int) -> Ranking:
        """The k best of all ranks, of what this one has found among its own."""
        device = self.held.scheme.device
        columns = torch.full((contexts, 3 * k + 1), -torch.inf, dtype=torch.float64, device=device)
        columns[:, k : 2 * k] = len(self.rows)  # which stands for none
        if found is not None:
            most = found.best.scores.shape[1]
            columns[:, :most] = found.best.scores
            columns[:, k : k + most] = self.own.to(device)[found.best.indices].double()
            columns[:, 2 * k : 2 * k + most] = found.strengths
            columns[:, 3 * k] = found.log_total
        dtype = self.held.scheme.dtype
        parts = [
            Ranking(
                Best(each[:, :k].to(dtype), each[:, k : 2 * k].long()),
                each[:, 2 * k : 3 * k].to(dtype),
                each[:, 3 * k].to(dtype),
            )
            for each in self.ranks.stack(columns)
        ]
        return merged_parts(parts, k)

    @property
    def fillers(self) -> "Fillers":
        """The fillers of all candidates, made from their labels when they are asked for."""
        return Fillers(self.held, self.rows)

    def scan(self, scheme: LinearScheme, odds: Likelihood) -> "MergedScan":
        """What gives contexts their short lists of all candidates."""
        if not len(self.own):
            return MergedScan(self, scheme, None)
        given = self.candidates if isinstance(self.candidates, Tensor) else scheme.fillers(self.candidates)
        return MergedScan(self, scheme, Scan.of(scheme, given, odds.part(self.own)))


class MergedScan(NamedTuple):
    """The short lists of all ranks as one, where this rank scans its own candidates, if it has any."""

    shard: Shard
    scheme: LinearScheme
    own: Scan | None

    def at_once(self, size: int) -> int:
        """How many contexts get lists of this size at once: as many on every rank."""
        return contexts_at_once(self.scheme, size)

    def ranked(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """The best candidates of contexts that show these cores."""
        most = min(size, len(self.shard.own))
        found = self.own.ranked(cores, contexts, most) if self.own is not None else None
        return self.shard.merged(found, len(contexts), size)


class Fillers:
    """The fillers of candidates by their indices, as a tensor gives them; each is made once, while there is room."""

    def __init__(self, held: State, rows: Sequence[int]) -> None:
        self.held, self.rows, self.drawn = held, rows, Drawn(held.codebook)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, indices: Tensor) -> Tensor:
        """The fillers of these indices, in their shape."""
        distinct, places = indices.unique(return_inverse=True)
        if not len(distinct):
            return torch.empty(*indices.shape, *self.held.scheme.facts.filler_shape, device=indices.device)
        names = canonical_values([self.held.value(self.rows[i]) for i in distinct.tolist()])
        return self.drawn.named(names)[places]


def sharded(held: State, candidates: Iterable[Value] | None, asked: Paths, group: Group) -> Shard | None:
    """A rank's part of a question; None where each rank answers all of it, because odds are not merged there."""
    ranks = Ranks.of(group)
    linear = isinstance(held.scheme, LinearScheme) and held.scheme.facts.linear
    whole = not isinstance(held.scheme, RowShard)  # which all ranks read together
    return (
        Shard.of(held, candidates, asked, ranks)
        if ranks.size > 1 and linear and whole and held.solved is None
        else None
    )


def scanned(
    held: State,
    scheme: LinearScheme,
    asked: Paths,
    candidates: Iterable[Value] | None,
    prior_empty: float,
    group: Group,
) -> tuple[Sequence[int], Indexed, Likelihood, Shortlists]:
    """The rows and fillers that may be answered, what makes odds of them, and what lists the best: of all ranks."""
    shard = None if group is None else sharded(held, candidates, asked, group)
    if shard is not None:
        odds = held.odds(scheme, prior_empty, shard.rows)
        return shard.rows, shard.fillers, odds, shard.scan(scheme, odds)
    rows, fillers = held.held_candidates(candidates)
    odds, ready = (
        held.odds(scheme, prior_empty, rows),
        held.codebook.ready(len(asked)) if candidates is None else fillers,
    )
    return rows, fillers, odds, Scan.of(scheme, ready, odds)


def _part(held: State, ranks: Ranks) -> tuple[Tensor, Codebook]:
    own = _own(held.vocabulary.names(), ranks)
    values = [held.value(row) for row in own.tolist()]
    trained = None if held.codebook.trained is None or not values else held.codebook.of(values)
    return own, Codebook(held.scheme, Vocabulary(values), trained)


def _own(names: Sequence[bytes], ranks: Ranks) -> Tensor:
    """Which of these names belong to a rank."""
    return torch.tensor([i for i, name in enumerate(names) if zlib.crc32(name) % ranks.size == ranks.rank]).long()


def _digest(names: Sequence[bytes]) -> tuple[int, int]:
    return len(names), zlib.crc32(b"".join(names))
