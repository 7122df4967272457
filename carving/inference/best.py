"""Exact top-k search: every candidate is scored, in chunks, and the k best are kept.

All callers share one scan: plain scores (`top`), log odds (`likelihood.py`), sets (`sets.py`) and label heads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.inference.ranking import Best, Ranking, Rated, Rating, joined, ranked, stacked
from carving.schemes.base import FILLERS, Contexts, ContextsOrPaths, FillersOrLabels, Scheme, flat_size
from carving.symbols.codec import Value
from carving.tiling import rows_within, slices
from carving.validate import check_integer, check_tensor, listed

FEW = 4  # contexts that do not pay for precomputing candidates
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
MANY = 1024  # contexts for which candidates are precomputed at a time
ENOUGH, IN_CACHE = 256, 2**20  # contexts that make a good product; scores that several passes find in the cache


def top(
    scheme: Scheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: FillersOrLabels,
    k: int = 1,
    *,
    candidate_indices: Tensor | None = None,
) -> Best:
    """Return the k best candidates of each context, by an exact scan in chunks.

    Args:
        scheme: The scheme of the memory.
        memory: (*memory_shape).
        contexts: n contexts, or n paths.
        candidates: Fillers (L, *filler_shape), or L values. Fillers of values are created chunk by chunk, so that they
            never need memory all at once.
        k: The number of candidates to return.
        candidate_indices: Indices that restrict the candidates: (m,) for all contexts, or (n, m) with one row for each
            context, padded with -1. None considers all candidates.

    Returns:
        Scores (n, k) and indices (n, k) of the candidates, best first.

    Raises:
        BadValue: If k exceeds the number of candidates of a context, or an index or a shape is invalid.

    >>> from carving import OSC
    >>> scheme = OSC(d=64)
    >>> memory = scheme.trace([("subject",), ("verb",)], ["dog", "barks"])
    >>> top(scheme, memory, [("verb",)], ["dog", "barks", "cat"]).indices
    tensor([[1]])
    """
    plain = Rating(
        scheme.read,
        lambda cores, part, fillers, _: Rated(scheme.match(cores, part, fillers)),
        scheme.facts.contextual,
    )
    return scan(scheme, memory, contexts, candidates, k, plain, candidate_indices).best


def scan(
    scheme: Scheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: FillersOrLabels,
    k: int,
    rating: Rating,
    candidate_indices: Tensor | None = None,
) -> Ranking:
    """The k candidates of each context that are rated highest."""
    contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
    listing = Listing.of(scheme, candidates, candidate_indices, len(contexts), k)
    listing, columns, rows = listing.sized(scheme, len(contexts))
    parts = [
        listing.rows(chunk).ranked(scheme, cores, part, k, rating, columns)
        for chunk, part, cores in _chunks(scheme, memory, contexts, rows, rating)
    ]
    return stacked(parts)


@dataclass(frozen=True)
class Listing:
    """The candidates of a scan: fillers or labels, all of them or each context's choices."""

    candidates: Tensor | Sequence[Value]
    choices: Tensor | None = None  # (m,) or (n, m) indices; as many as there are candidates stands for none

    @classmethod
    def of(
        cls, scheme: Scheme, candidates: FillersOrLabels, candidate_indices: Tensor | None, contexts: int, k: int
    ) -> "Listing":
        """The candidates, checked."""
        if isinstance(candidates, Tensor):
            facts = scheme.facts
            ready = candidate_indices is None and candidates.dim() == 2 and facts.code_size  # precomputed
            shape = (flat_size(facts, candidates),) if ready else facts.filler_shape
            check_tensor("candidates", candidates, (-1, *shape), FILLERS)
        else:
            candidates = listed(candidates, "candidates")
            if candidate_indices is not None:
                raise BadValue("candidate_indices needs fillers as candidates, got labels. Use scheme.fillers(labels).")
        choices = None if candidate_indices is None else checked_choices(candidate_indices, contexts, len(candidates))
        fewest = len(candidates) if choices is None else int(choices.lt(len(candidates)).sum(-1).min())
        if not fewest:
            raise BadValue("Every context needs a candidate, but candidate_indices has none for some of them.")
        check_integer("k", k, 1, fewest, "it cannot exceed the number of candidates")
        return cls(candidates, choices)

    @property
    def width(self) -> int:
        """How many candidates a context has."""
        return len(self.candidates) if self.choices is None else self.choices.shape[-1]

    def sized(self, scheme: Scheme, contexts: int) -> tuple["Listing", int, int | None]:
        """The candidates, precomputed where that pays; how many are rated at a time; and for how many contexts.

        Scores take a quarter of the workspace; where candidates are gathered, these take it. What is made of candidates
        takes a workspace, and what the contexts show another. Fillers that are made from labels take all of it, and are
        then used for all contexts.
        """
        facts, room = scheme.facts, scheme.room
        filler = math.prod(facts.filler_shape)
        if not isinstance(self.candidates, Tensor):
            return self, min(self.width, max(1, room // filler)), None
        cells = max(1, room // (4 * (1 if self.choices is None else filler)))
        listing, most = self._precomputed(scheme, contexts, cells)
        columns = min(self.width, cells, most)
        rows = min(max(1, cells // columns), max(ENOUGH, IN_CACHE // columns))
        rows = min(rows, rows_within(room, math.prod(facts.core_shape)))
        return listing, columns, -(-contexts // -(-contexts // rows)) if contexts else rows  # chunks of one size

    def _precomputed(self, scheme: Scheme, contexts: int, cells: int) -> tuple["Listing", int]:
        """The candidates, as codes where that pays, and how many may be rated at a time for scores in so many cells."""
        facts, candidates = scheme.facts, self.candidates
        assert isinstance(candidates, Tensor)
        ready = candidates.dim() == 2
        if not facts.code_size or self.choices is not None or not (contexts > FEW or ready):
            return self, rows_within(scheme.room, facts.cost.candidate)
        codes = candidates if ready else scheme.precompute(candidates)
        if codes.dim() == 2:
            return (self if ready else Listing(codes)), cells
        # Too many to be held as codes: made for many contexts at a time.
        return Listing(codes), max(1, cells // min(contexts, MANY))

    def rows(self, rows: slice) -> "Listing":
        """The candidates of some contexts."""
        if self.choices is None or self.choices.dim() == 1:
            return self
        return Listing(self.candidates, self.choices[rows])

    def ranked(
        self, scheme: Scheme, cores: Tensor, contexts: Contexts | None, k: int, rating: Rating, columns: int
    ) -> Ranking:
        """The best of these candidates in contexts that show these cores, `columns` at a time."""
        ranking: Ranking | None = None
        for part in slices(self.width, columns):
            best = self._ranked_part(scheme, cores, contexts, k, rating, part)
            ranking = best if ranking is None else joined(ranking, best, k)
        assert ranking is not None
        return ranking

    def _ranked_part(
        self, scheme: Scheme, cores: Tensor, contexts: Contexts | None, k: int, rating: Rating, part: slice
    ) -> Ranking:
        candidates = self.candidates
        if self.choices is None:
            fillers = candidates[part] if isinstance(candidates, Tensor) else scheme.fillers(candidates[part])
            return ranked(rating.rate(cores, contexts, fillers, part), k, rating.log_odds).shifted(part.start)
        assert isinstance(candidates, Tensor)
        choices = self.choices[..., part]
        chosen = choices.clamp_max(len(candidates) - 1)
        rated = rating.rate(cores, contexts, candidates[chosen], chosen)
        rated = rated._replace(scores=rated.scores.masked_fill(choices == len(candidates), -torch.inf))
        ranking = ranked(rated, k, rating.log_odds)
        indices = choices.expand(len(cores), -1).gather(1, ranking.best.indices)
        return ranking._replace(best=ranking.best._replace(indices=indices))


def _chunks(
    scheme: Scheme, memory: Tensor, contexts: ContextsOrPaths, size: int | None, rating: Rating
) -> Iterator[tuple[slice, Contexts | None, Tensor]]:
    """The contexts in chunks with their cores; with no size all in one, and only made where they are needed."""
    if size is not None:
        for rows, part in scheme.chunks_of(contexts, size):
            yield rows, part, rating.read(memory, part)
        return
    if rating.contextual and not isinstance(contexts, Contexts):
        contexts = scheme.contexts(contexts)
    yield slice(None), contexts if isinstance(contexts, Contexts) else None, rating.read(memory, contexts)


def checked_choices(candidate_indices: object, contexts: int, absent: int) -> Tensor:
    """The indices in order, each once: (m,) or (n, m), with `absent` where there is none."""
    if not isinstance(candidate_indices, Tensor) or candidate_indices.dtype not in INTEGERS:
        kind = candidate_indices.dtype if isinstance(candidate_indices, Tensor) else type(candidate_indices).__name__
        raise BadType(
            f"candidate_indices must be a tensor of integers, got {kind}. Pass torch.tensor(indices), or "
            "mask.nonzero().squeeze(1) for a mask."
        )
    own = candidate_indices.dim() != 1
    check_tensor(
        "candidate_indices",
        candidate_indices,
        (contexts, -1) if own else (-1,),
        "pass (m,) for all contexts, or (n, m) with one row for each context",
    )
    candidate_indices, low = candidate_indices.to(torch.int64), -1 if own else 0
    if candidate_indices.min() < low or candidate_indices.max() >= absent:
        raise BadValue(
            f"candidate_indices must have indices from {low} to {absent - 1}, got {int(candidate_indices.min())} to "
            f"{int(candidate_indices.max())}. They are positions in the vocabulary."
        )
    if not own:
        return candidate_indices.unique()
    ordered = candidate_indices.masked_fill(candidate_indices < 0, absent).sort(dim=1).values
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(again, absent)
