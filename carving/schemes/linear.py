"""Schemes whose memory is a plain sum: what likelihoods and joint decoding need.

With b = bind(g, c) the bound candidate and M the memory, likelihoods need <M, b> and |b|^2; joint decoding also needs
the expected cores of contexts. The defaults are right where `read` is the transpose of `write` and binding preserves
norms.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from carving.schemes.base import C, ContextsOrPaths, Scheme, match_in_tiles, read_in_chunks
from carving.schemes.facts import check_candidates
from carving.tensors import one
from carving.tiling import slices, tile
from carving.validate import check_tensor


@dataclass(frozen=True, repr=False, kw_only=True)
class LinearScheme(Scheme[C]):
    """A scheme whose memory is a sum; `facts.linear` is False for schemes that quantize the sum before reading."""

    # What a scheme may say

    def _adjoint(self, memory: Tensor, contexts: C) -> Tensor:
        """Return the cores that the transpose of `_write` gives."""
        return self._read(memory, contexts)

    def _inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the inner products of cores with the cores of candidates, shaped as in `_match`."""
        return self._match(cores, contexts, candidates)

    def _expected(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the sums (n, *core_shape) of the cores of candidates with weights (n, L)."""
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
    def mean_bound_energy(self) -> float:
        """The mean squared norm of a bound filler."""
        return 1.0

    def energy(self, contexts: C, candidates: Tensor) -> Tensor:
        """Return the squared norms |b|^2 of bound candidates, broadcastable to (n, L) or (n, m)."""
        return one(self.dtype, candidates.device)

    def directional_noise(self, cores: Tensor, contexts: C, candidates: Tensor, energy: Tensor) -> Tensor | None:
        """Return the noise along bound candidates, or None if the noise is isotropic.

        The result is the squared norm of an isotropic memory with the noise variance found along the candidates; where
        `facts.uneven` is not 0, it is relative to the mean. Noise is anisotropic where binding changes norms: roles
        that many pairs share color the interference.

        Args:
            cores: Adjoint cores (n, *core_shape).
            contexts: The n contexts.
            candidates: (L, *filler_shape) or (n, m, *filler_shape).
            energy: The squared norms of bound candidates.
        """
        return None

    def adjoint_write(self, cores: Tensor, contexts: C) -> Tensor:
        """Return what `adjoint` gives for each core (n, *core_shape) written alone."""
        return cores

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory without the few directions in which every memory has a far larger variance."""
        return memory

    # What follows

    @final
    def adjoint(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (n, *core_shape) that the transpose of `write` gives; equals `read` if `facts.adjoint`."""
        return read_in_chunks(self, self._adjoint, memory, contexts)

    @final
    def inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the inner products (n, L) or (n, m) of cores and the cores of candidates: `match` unnormalized."""
        return match_in_tiles(self, self._inner, cores, contexts, candidates)

    @final
    def expected_core(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the expected cores (n, *core_shape): the cores of candidates, summed with weights.

        Args:
            weights: (n, L).
            contexts: The n contexts.
            candidates: (L, *filler_shape).
        """
        check_candidates(self.facts, candidates, 0)
        shape = len(contexts), len(candidates)
        check_tensor("weights", weights, shape, "pass one weight for each context and candidate")
        rows, columns = tile(self.facts.cost, self.room, *shape)
        cores = torch.zeros(len(contexts), *self.facts.core_shape, dtype=self.facts.memory_dtype, device=weights.device)
        for of_rows in slices(len(contexts), rows):
            part = contexts[of_rows]
            for of_columns in slices(len(candidates), columns):
                cores[of_rows] += self._expected(weights[of_rows, of_columns], part, candidates[of_columns])
        return cores
