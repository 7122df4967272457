"""Exact top-k search: every candidate is scored, tile by tile, and the k best are kept; ties stay in order.

All queries share one search: plain scores (`top`), log odds (`likelihood`), calibrated scores (`calibration`) and the
short lists of sets (`sets`). A tile is a chunk of contexts times a chunk of candidates (`CandidateList.tiles`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes.base import (
    Candidates,
    CandidatesOrFillers,
    CandidatesOrLabels,
    Contexts,
    ContextsOrPaths,
    Scheme,
    as_candidates,
)
from carving.symbols.codec import Value
from carving.symbols.paths import Paths
from carving.tensors import falling_exp_
from carving.tiling import rows_within, slices
from carving.validate import check_integer, check_tensor, listed

MAX_UNPRECOMPUTED = 4  # contexts: for more, candidates are precomputed
MAX_PER_PRECOMPUTATION = 1024  # contexts that share candidates that are precomputed chunk by chunk
MIN_TILE_ROWS = 256  # contexts that make an efficient matrix product
CACHED_SCORES = 2**20  # scores that stay in the cache from pass to pass
MIN_SPLIT_SCORES, SPLIT_WIDTH = 2**16, 64  # from how many scores on `best_of` searches rows in parts, of this width
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Best(NamedTuple):
    """The best candidates of each context, best first; ties are in the order of the vocabulary.

    Only scores that are equal to the last bit are ties. Two copies of one filler may differ by rounding.

    Attributes:
        scores: (n, k).
        indices: (n, k) positions among the candidates.

    >>> best_of(torch.tensor([[0.2, 0.9, 0.9]]), 2).indices
    tensor([[1, 2]])
    """

    scores: Tensor  # (n, k)
    indices: Tensor  # (n, k), of the vocabulary


class Ranking(NamedTuple):
    """The best candidates of each context, with what their probabilities are computed from."""

    scores: Tensor  # (n, k), best first
    indices: Tensor  # (n, k) positions among the candidates
    strengths: Tensor  # (n, k)
    log_total: Tensor  # (n,) logarithm of the sum of the exponentials of all scores; without meaning if not requested


class Scores(NamedTuple):
    """The scores of a chunk of candidates and, where they are log odds, the evidence for them."""

    values: Tensor  # (n, m)
    inner: Tensor | None = None  # (n, m)
    energy: Tensor | None = None  # broadcastable to (n, m)

    def strengths(self, columns: Tensor) -> Tensor:
        """Return the estimated strengths (n, k) of the candidates of some columns: 1 for a pair stored once."""
        if self.inner is None or self.energy is None:
            return self.values.gather(1, columns)
        energy = self.energy if self.energy.shape[1] == 1 else self.energy.expand_as(self.inner).gather(1, columns)
        return self.inner.gather(1, columns) / energy


class ScoringModel(NamedTuple):
    """How a search reads the memory, and how it scores candidates by the cores."""

    read: Callable[[Tensor, ContextsOrPaths], Tensor]
    # cores, contexts, candidates, their indices -> scores
    score: Callable[[Tensor, Contexts, CandidatesOrFillers, slice | Tensor], Scores]
    has_log_total: bool = False  # whether `Ranking.log_total` is requested


def top(
    scheme: Scheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: CandidatesOrLabels,
    k: int = 1,
    *,
    candidate_indices: Tensor | None = None,
) -> Best:
    """Return the k best candidates of each context, by an exact scan in chunks.

    Args:
        scheme: The scheme of the memory.
        memory: (*memory_shape).
        contexts: n contexts, or n paths.
        candidates: Fillers (L, *filler_shape), `Candidates`, or L values. Fillers of values are created chunk by chunk,
            so that they never need memory all at once.
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

    def score(cores: Tensor, part: Contexts, fillers: CandidatesOrFillers, _: slice | Tensor) -> Scores:
        return Scores(scheme.match(cores, part, fillers))

    model = ScoringModel(scheme.read, score)
    return Best(*search(scheme, memory, contexts, candidates, k, model, candidate_indices)[:2])


def search(
    scheme: Scheme,
    memory: Tensor,
    contexts: ContextsOrPaths,
    candidates: CandidatesOrLabels,
    k: int,
    model: ScoringModel,
    candidate_indices: Tensor | None = None,
) -> Ranking:
    """Return the ranking of n contexts: the k candidates of each that `model` scores highest; see `top`."""
    contexts = contexts if isinstance(contexts, Contexts | Paths) else Paths.of(listed(contexts, "paths"))
    listing = CandidateList.of(scheme, candidates, candidate_indices, len(contexts), k)
    rankings = [ranking for _, ranking in listing.search(scheme, memory, contexts, k, model)]
    return rankings[0] if len(rankings) == 1 else Ranking(*map(torch.cat, zip(*rankings, strict=True)))


@dataclass(frozen=True)
class CandidateList:
    """The candidates of a search: fillers or values, all of them or the choices of each context."""

    candidates: Candidates | Sequence[Value]
    choices: Tensor | None = None  # (m,) or (n, m) indices; the number of candidates stands for none

    @classmethod
    def of(
        cls, scheme: Scheme, candidates: CandidatesOrLabels, candidate_indices: Tensor | None, contexts: int, k: int
    ) -> "CandidateList":
        """Validate the arguments of `top`, for a number of contexts."""
        if isinstance(candidates, Tensor | Candidates):
            candidates = as_candidates(scheme.facts, candidates, ())
            if candidate_indices is not None and candidates.kind != "fillers":
                raise BadValue(f"candidate_indices needs fillers as candidates, got {candidates.kind}.")
        else:
            candidates = listed(candidates, "candidates")
            if candidate_indices is not None:
                raise BadValue("candidate_indices needs fillers as candidates, got labels. Use scheme.fillers(labels).")
        fewest, choices = len(candidates), None
        if candidate_indices is not None:
            choices = checked_choices(candidate_indices, contexts, len(candidates))
            fewest = int(choices.lt(len(candidates)).sum(-1).min())
        if not fewest:
            raise BadValue("Every context needs a candidate, but candidate_indices has none for some of them.")
        check_integer("k", k, 1, fewest, "It cannot exceed the number of candidates.")
        return cls(candidates, choices)

    @property
    def width(self) -> int:
        """The number of candidates of a context."""
        return len(self.candidates) if self.choices is None else self.choices.shape[-1]

    def search(
        self,
        scheme: Scheme,
        memory: Tensor,
        contexts: Contexts | Paths,
        k: int,
        model: ScoringModel,
        max_rows: int | None = None,
    ) -> Iterator[tuple[Contexts, Ranking]]:
        """Yield contexts and their rankings, chunk by chunk, of at most `max_rows` contexts."""
        listing, rows, columns = self.tiles(scheme, len(contexts))
        for chunk, part in scheme.chunks_of(contexts, min(rows, max_rows or rows)):
            yield part, listing.rank(scheme, model.read(memory, part), part, k, model, columns, chunk)

    def tiles(self, scheme: Scheme, contexts: int) -> tuple["CandidateList", int, int]:
        """Return the candidates, precomputed where that pays, and the contexts and candidates that are scored at once.

        Scores take a quarter of the workspace; gathered candidates take it instead. Precomputed candidates take another
        workspace, and so do cores. Fillers that are created from values take all of it, and serve all contexts.
        """
        facts, room, candidates = scheme.facts, scheme.room, self.candidates
        filler, width = math.prod(facts.filler_shape), self.width
        if not isinstance(candidates, Candidates):
            return self, contexts, min(width, max(1, room // filler))
        cells, listing = max(1, room // (4 * (1 if self.choices is None else filler))), self
        is_ready = candidates.kind != "fillers"
        columns = min(width, cells)
        if facts.code_size and self.choices is None and (contexts > MAX_UNPRECOMPUTED or is_ready):
            codes = candidates if is_ready else scheme.precompute(candidates)
            listing = self if is_ready else CandidateList(codes)
            if codes.kind == "fillers":  # too large to be held: precomputed again for every chunk of contexts
                columns = min(columns, max(1, cells // min(contexts, MAX_PER_PRECOMPUTATION)))
        else:
            columns = min(columns, rows_within(room, facts.cost.candidate))
        rows = min(max(1, cells // columns), max(MIN_TILE_ROWS, CACHED_SCORES // columns))
        rows = min(rows, rows_within(room, math.prod(facts.core_shape)))
        return listing, -(-contexts // -(-contexts // rows)) if contexts else rows, columns  # chunks of equal size

    def rank(
        self,
        scheme: Scheme,
        cores: Tensor,
        contexts: Contexts,
        k: int,
        model: ScoringModel,
        columns: int,
        rows: slice = slice(None),
    ) -> Ranking:
        """Return the ranking of contexts with cores (n, *core_shape), scoring `columns` candidates at a time.

        `rows` are the rows of the contexts among all that have choices of their own.
        """
        candidates, choices, width, ranking = self.candidates, self.choices, self.width, None
        if choices is not None and choices.dim() == 2:
            choices = choices[rows]
        for part in slices(width, columns):
            chosen: slice | Tensor = part
            fillers: CandidatesOrFillers
            if not isinstance(candidates, Candidates):
                fillers = scheme.fillers(candidates[part])
            elif choices is None:
                fillers = candidates if part.stop - part.start == width else candidates[part]
            else:  # the padding is replaced by any candidate
                chosen = choices[..., part].clamp_max(len(candidates) - 1)
                fillers = candidates.tensor[chosen]
            scores = model.score(cores, contexts, fillers, chosen)
            if choices is not None:
                values = scores.values.masked_fill(choices[..., part] == len(candidates), -torch.inf)
                scores = scores._replace(values=values)
            found = ranked(scores, k, model.has_log_total)
            if choices is not None:
                found = found._replace(indices=choices[..., part].expand(len(cores), -1).gather(1, found.indices))
            elif part.start:
                found = found._replace(indices=found.indices + part.start)
            ranking = found if ranking is None else merged_rankings([ranking, found], k, is_ordered=True)
        assert ranking is not None
        return ranking


def checked_choices(candidate_indices: object, contexts: int, candidates: int) -> Tensor:
    """Return sorted distinct indices, (m,) or (n, m); `candidates`, their number, pads the rows."""
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
        "Pass (m,) for all contexts, or (n, m) with one row for each context.",
    )
    candidate_indices, low = candidate_indices.to(torch.int64), -1 if own else 0
    if candidate_indices.min() < low or candidate_indices.max() >= candidates:
        raise BadValue(
            f"candidate_indices must have indices from {low} to {candidates - 1}, got {int(candidate_indices.min())} "
            f"to {int(candidate_indices.max())}. They are positions in the vocabulary."
        )
    ordered = candidate_indices.masked_fill(candidate_indices < 0, candidates).sort().values
    is_repeated = torch.nn.functional.pad(ordered.diff() == 0, (1, 0))
    return ordered.masked_fill(is_repeated, candidates)


# The k best of scores, and of rankings


def best_of(scores: Tensor, k: int) -> Best:
    """Return the k largest of each row (all of a shorter row), largest first, equal ones in order."""
    count, width = scores.shape
    if (
        width >= SPLIT_WIDTH * max(16, 8 * k)
        and count * width >= MIN_SPLIT_SCORES
        and not torch.compiler.is_compiling()
    ):
        return _best_of_parts(scores, k)
    if width <= k:
        return Best(*scores.sort(dim=1, descending=True, stable=True))
    if k == 1:
        return Best(*scores.max(dim=1, keepdim=True))
    # `topk` may take any of the scores that equal the smallest one it keeps; one more column shows whether there are
    # such: those rows are sorted whole.
    values, indices = scores.topk(k + 1, dim=1)
    equal = ~(values[:, 1:] < values[:, :-1])  # or not-a-number
    if not torch.compiler.is_compiling() and not equal.any():
        return Best(values[:, :k], indices[:, :k])
    tied = equal[:, -1]
    if tied.any():
        indices[tied, :k] = scores[tied].sort(dim=1, descending=True, stable=True).indices[:, :k]
    indices = indices[:, :k].sort(dim=1).values
    ordered, order = scores.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return Best(ordered, indices.gather(1, order))


def _best_of_parts(scores: Tensor, k: int) -> Best:
    """Return the k largest of long rows: they lie in the k parts of a row whose maxima are largest.

    torch finds the maxima of parts several times as fast as those of a row, so that only k parts, and the rest at the
    end of the row, are searched. Of equal parts the first ones are taken, and parts stay in order.
    """
    whole = scores.shape[1] // SPLIT_WIDTH
    parts = scores[:, : whole * SPLIT_WIDTH].unflatten(1, (whole, SPLIT_WIDTH))
    chosen = best_of(parts.amax(2), k).indices.sort(dim=1).values
    places = (chosen[:, :, None] * SPLIT_WIDTH + torch.arange(SPLIT_WIDTH, device=scores.device)).flatten(1)
    if scores.shape[1] > whole * SPLIT_WIDTH:
        rest = torch.arange(whole * SPLIT_WIDTH, scores.shape[1], device=scores.device)
        places = torch.cat([places, rest.expand(len(scores), -1)], 1)
    best = best_of(scores.gather(1, places), k)
    return Best(best.scores, places.gather(1, best.indices))


def ranked(scores: Scores, k: int, has_log_total: bool) -> Ranking:
    """Return the ranking of scores (n, m) by columns."""
    best, values = best_of(scores.values, k), scores.values
    log_total = log_sum(values, best.scores[:, :1]) if has_log_total else values.new_zeros(len(values))
    return Ranking(*best, scores.strengths(best.indices), log_total)


def log_sum(scores: Tensor, highest: Tensor) -> Tensor:
    """Return the logarithms (n,) of the sums of exponentials of scores (n, L), given their maxima (n, 1)."""
    highest = highest.clamp_min(torch.finfo(scores.dtype).min)  # minus infinity alone sums to itself
    return falling_exp_(scores - highest).sum(1).log_() + highest.squeeze(1)


def merged_rankings(parts: Sequence[Ranking], k: int, is_ordered: bool = False) -> Ranking:
    """Return the ranking of all candidates from rankings of disjoint parts of them, ties in order.

    `is_ordered` says that all indices of a part precede those of the next one.
    """
    scores, indices, strengths = (torch.cat(each, dim=1) for each in zip(*(part[:3] for part in parts), strict=True))
    if not is_ordered:
        indices, order = indices.sort(dim=1, stable=True)
        scores, strengths = scores.gather(1, order), strengths.gather(1, order)
    best = best_of(scores, k)
    return Ranking(
        best.scores,
        indices.gather(1, best.indices),
        strengths.gather(1, best.indices),
        torch.logsumexp(torch.stack([part.log_total for part in parts]), dim=0),
    )
