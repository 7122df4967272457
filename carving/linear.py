"""What a memory that is a plain sum can do besides: likelihoods and joint decoding.

With b = bind(g, c) the bound candidate and M the memory, likelihoods are made of <M, b> and |b|^2, joint decoding also
of the cores that contexts are expected to hold. Everything here has a default that is right for most schemes: where
`read` is the transpose of `write` and binding keeps norms, nothing has to be said.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from carving.checks import check_tensor
from carving.chunks import slices, tile
from carving.facts import check_candidates
from carving.scheme import C, ContextsOrPaths, Scheme, match_in_tiles, read_in_chunks
from carving.tensors import one


@dataclass(frozen=True, repr=False, kw_only=True)
class LinearScheme(Scheme[C]):
    """A scheme whose memory may be read as a sum; `facts.linear` says whether it is (some settle it first)."""

    # What a scheme may say

    def _adjoint(self, memory: Tensor, contexts: C) -> Tensor:
        """The transpose of `_write`."""
        return self._read(memory, contexts)

    def _inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Inner products with the candidates' cores, shaped as `_match`."""
        return self._match(cores, contexts, candidates)

    def _expected(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Sums (n, *core_shape) of the candidates' cores with weights (n, L)."""
        if not self.facts.contextual:
            precomputed = self.facts.code_size and candidates.dim() == 2
            codes = candidates if precomputed else self._encode(candidates, contexts).flatten(1)
            return (weights.to(codes.dtype) @ codes).view(-1, *self.facts.core_shape)
        sums = []  # fillers look different in every context: one after the other
        for row, weight in enumerate(weights):
            everywhere = contexts[[row] * len(candidates)]
            sums.append(torch.tensordot(weight.to(self.facts.memory_dtype), self._encode(candidates, everywhere), 1))
        return torch.stack(sums)

    @property
    def unit(self) -> float:
        """The squared norm of a bound filler, in the mean of all of them."""
        return 1.0

    def energy(self, contexts: C, candidates: Tensor) -> Tensor:
        """The squared norms |b|^2 of bound candidates, to be broadcast to (n, L) or (n, m)."""
        return one(self.dtype, candidates.device)

    def noise_along(self, cores: Tensor, contexts: C, candidates: Tensor, energy: Tensor) -> Tensor | None:
        """The squared norm of a memory that is as loud everywhere as it is along the bound candidates.

        Where binding changes norms, roles that many pairs share colour the interference: this is what the contexts'
        adjoint cores and the candidates' energies tell of it. Where `facts.uneven` is not 0, in units of the mean
        instead. None where the memory is as loud in every direction.
        """
        return None

    def round_trip(self, cores: Tensor, contexts: C) -> Tensor:
        """What `adjoint` gives back of each core, written alone: by as much it falls when the core is taken out."""
        return cores

    def without_traces(self, memory: Tensor) -> Tensor:
        """The memory without the few directions in which any memory is far louder than in the rest."""
        return memory

    # What follows

    @final
    def adjoint(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """The cores (n, *core_shape) that the transpose of `write` gives; where `facts.adjoint` holds, `read`."""
        return read_in_chunks(self, self._adjoint, memory, contexts)

    @final
    def inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Inner products (n, L) or (n, m) of the cores with the candidates': `match` without any normalisation."""
        return match_in_tiles(self, self._inner, cores, contexts, candidates)

    @final
    def expected_core(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """What each context's core is expected to be: the candidates' cores there, summed with weights (n, L)."""
        check_candidates(self.facts, candidates, 0)
        shape = len(contexts), len(candidates)
        check_tensor("weights", weights, shape, "give one for each candidate")
        rows, columns = tile(self.facts.cost, self.room, *shape)
        cores = torch.zeros(len(contexts), *self.facts.core_shape, dtype=self.facts.memory_dtype, device=weights.device)
        for of_rows in slices(len(contexts), rows):
            part = contexts[of_rows]
            for of_columns in slices(len(candidates), columns):
                cores[of_rows] += self._expected(weights[of_rows, of_columns], part, candidates[of_columns])
        return cores
