"""Queries that ranks answer together: each scores its part of the candidates or paths, and the best are merged."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from carving.distributed.ranks import Ranks
from carving.inference.likelihood import Likelihood, scoring_model
from carving.inference.sets import Indexed, Scan, Shortlists
from carving.inference.top_k import Ranking, merged_rankings, search
from carving.memory.codebook import Codebook, Drawn
from carving.memory.reader import Reader
from carving.schemes.base import CandidatesOrFillers, Contexts
from carving.schemes.slab import RowShard
from carving.symbols.codec import Value
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary

LOOKED_AT = 4096  # numbers of a tensor, by which ranks see that theirs is another


def facts_of(reader: Reader) -> dict[str, object]:
    """Return what the memories of all ranks must have in common."""
    from carving import __version__

    scheme, paths, versions = (
        reader.scheme,
        reader.path_counts is not None,
        f"{__version__} (torch {torch.__version__})",
    )
    return dict(version=versions, scheme=scheme, dtype=scheme.dtype, workspace=scheme.workspace, paths=paths)


def check_same_state(ranks: Ranks, reader: Reader, **arguments: object) -> None:
    """Refuse ranks whose memories differ before they begin."""
    flat = reader.tensor.reshape(-1)
    step = max(1, len(flat) // LOOKED_AT)
    contents = (reader.stored, flat[::step].tolist()[:LOOKED_AT]) if reader.pairs else None
    sizes = dict(pairs=reader.pairs, values=len(reader.vocabulary), target=reader.target)
    ranks.check_same(**facts_of(reader), **sizes, contents=zlib.crc32(str(contents).encode()), **arguments)


def shared_paths(reader: Reader, paths: Paths, rounds: int) -> tuple[Ranks, slice]:
    """Return the ranks that share paths, and the part of the paths that this rank reads."""
    ranks = reader.ranks
    if len(paths) < ranks.size or isinstance(reader.scheme, RowShard):  # each rank had better ask for all of them
        return Ranks.alone(), slice(None)
    if ranks.size > 1:
        digest = len(paths), zlib.crc32(b"".join(paths.names))
        check_same_state(ranks, reader, questions=digest, rounds=rounds)
    return ranks, slice(*(len(paths) * each // ranks.size for each in (ranks.rank, ranks.rank + 1)))


@dataclass(frozen=True)
class CandidateShard:
    """The candidates of a query, and the part of them that this rank scores."""

    reader: Reader
    ranks: Ranks
    rows: Sequence[int]  # of all candidates
    own: Tensor  # (m,) which of these are this rank's,
    candidates: CandidatesOrFillers | list[Value]  # and their fillers, or labels where those are too many

    @classmethod
    def of(cls, reader: Reader, candidates: Iterable[Value] | None, asked: Paths, ranks: Ranks) -> "CandidateShard":
        """Return this rank's part of the candidates; refuse ranks with different queries or memories."""
        rows: Sequence[int] = reader.rows_among(candidates)
        names = reader.names_of(rows) if candidates is not None else []
        check_same_state(ranks, reader, questions=_digest([*asked.names, *names]))
        if candidates is None:
            key = ranks.rank, ranks.size
            if key not in reader.shard_cache:
                reader.shard_cache[key] = _part(reader, ranks)
            own, book = reader.shard_cache[key]
            return cls(
                reader=reader,
                ranks=ranks,
                rows=rows,
                own=own,
                candidates=book.ready(len(asked)) if book.holdable else list(book.vocabulary),
            )
        own = _owned(names, ranks)
        fillers = reader.codebook.named([names[i] for i in own.tolist()]) if len(own) else torch.empty(0)
        return cls(reader=reader, ranks=ranks, rows=rows, own=own, candidates=fillers)

    def most_likely(self, contexts: Contexts, odds: Likelihood, k: int) -> Ranking:
        """Return the ranking of the k candidates of all ranks with the best odds."""
        found, most, scheme = None, min(k, len(self.own)), self.reader.scheme
        if most:
            model = scoring_model(scheme, odds.only(self.own))
            found = search(scheme, self.reader.tensor, contexts, self.candidates, most, model)
        return self.merged(found, len(contexts), k)

    def merged(self, found: Ranking | None, contexts: int, k: int) -> Ranking:
        """Merge this rank's ranking with those of the others."""
        device = self.reader.scheme.device
        columns = torch.full((contexts, 3 * k + 1), -torch.inf, dtype=torch.float64, device=device)
        columns[:, k : 2 * k] = len(self.rows)  # which stands for none
        if found is not None:
            most = found.scores.shape[1]
            columns[:, :most] = found.scores
            columns[:, k : k + most] = self.own.to(device)[found.indices].double()
            columns[:, 2 * k : 2 * k + most] = found.strengths
            columns[:, 3 * k] = found.log_total
        dtype = self.reader.scheme.dtype
        parts = [
            Ranking(
                each[:, :k].to(dtype),
                each[:, k : 2 * k].long(),
                each[:, 2 * k : 3 * k].to(dtype),
                each[:, 3 * k].to(dtype),
            )
            for each in self.ranks.stack(columns)
        ]
        return merged_rankings(parts, k)

    @property
    def fillers(self) -> "Fillers":
        """The fillers of all candidates, drawn when they are indexed."""
        return Fillers(self.reader, self.rows)

    def scan(self, odds: Likelihood) -> "MergedScan":
        """Return what lists the best candidates of all ranks."""
        scheme = self.reader.scheme
        return MergedScan(self, Scan.of(scheme, self.candidates, odds.only(self.own)) if len(self.own) else None)


class MergedScan(NamedTuple):
    """Short lists of the candidates of all ranks; each rank scans its own."""

    shard: CandidateShard
    own: Scan | None

    def rank(self, cores: Tensor, contexts: Contexts, size: int) -> Ranking:
        """Return the `size` best candidates of contexts with cores (n, *core_shape)."""
        most = min(size, len(self.shard.own))
        found = self.own.rank(cores, contexts, most) if self.own is not None else None
        return self.shard.merged(found, len(contexts), size)


class Fillers:
    """Fillers of candidates, indexed like a tensor; each is drawn once, while there is room."""

    def __init__(self, reader: Reader, rows: Sequence[int]) -> None:
        self.reader, self.rows, self.drawn = reader, rows, Drawn(reader.codebook)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Return the fillers of indices, in their shape."""
        distinct, places = indices.unique(return_inverse=True)
        if not len(distinct):
            return torch.empty(*indices.shape, *self.reader.scheme.facts.filler_shape, device=indices.device)
        return self.drawn.named(self.reader.names_of(self.rows[i] for i in distinct.tolist()))[places]


def sharded(reader: Reader, candidates: Iterable[Value] | None, asked: Paths) -> CandidateShard | None:
    """Return a rank's part of the candidates; None where each rank scores all of them, as for rows of a memory."""
    if reader.ranks.size == 1 or isinstance(reader.scheme, RowShard):
        return None
    return CandidateShard.of(reader, candidates, asked, reader.ranks)


def candidates_of_ranks(
    reader: Reader, asked: Paths, candidates: Iterable[Value] | None, prior_empty: float
) -> tuple[Sequence[int], Indexed, Likelihood, Shortlists]:
    """Return rows and fillers of the candidates, their likelihood model, and what lists the best of all ranks."""
    shard = sharded(reader, candidates, asked)
    if shard is not None:
        odds = reader.odds(prior_empty, shard.rows)
        return shard.rows, shard.fillers, odds, shard.scan(odds)
    if candidates is None and not reader.codebook.holdable:
        every: Sequence[int] = range(len(reader.vocabulary))
        odds = reader.odds(prior_empty, every)
        return every, Fillers(reader, every), odds, Scan.of(reader.scheme, list(reader.vocabulary), odds)
    rows, fillers = reader.held_candidates(candidates)
    odds = reader.odds(prior_empty, rows)
    ready = reader.codebook.ready(len(asked)) if candidates is None else fillers
    return rows, fillers, odds, Scan.of(reader.scheme, ready, odds)


def _part(reader: Reader, ranks: Ranks) -> tuple[Tensor, Codebook]:
    own = _owned(reader.vocabulary.names(), ranks)
    values = [reader.vocabulary[row] for row in own.tolist()]
    trained = None if reader.codebook.trained is None or not values else reader.codebook.of(values)
    return own, Codebook(reader.scheme, Vocabulary(values), trained)


def _owned(names: Sequence[bytes], ranks: Ranks) -> Tensor:
    """Return the indices of the names that belong to a rank."""
    return torch.tensor([i for i, name in enumerate(names) if zlib.crc32(name) % ranks.size == ranks.rank]).long()


def _digest(names: Sequence[bytes]) -> tuple[int, int]:
    return len(names), zlib.crc32(b"".join(names))
