"""The subspaces of OSC's contexts, and the linear maps between the whole space and the coordinates inside.

A map takes rows of n contexts at once: `side` is the number of coordinates inside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from carving import hashing
from carving.hashing import Bits
from carving.schemes.base import Contexts
from carving.schemes.blocks import Blocks, KeptBlocks
from carving.schemes.moments import Basis
from carving.tensors import thin_product


@dataclass(frozen=True, eq=False)
class Subspaces(Contexts):
    """The contexts of OSC: orthonormal rows that span the kept or the forbidden directions, and an amplitude."""

    basis: Tensor  # (n, rank, d), or for compact fillers one a component: (n, p, k1, d)
    amplitudes: Tensor  # (n,), a sign times how loud the context is written

    def __len__(self) -> int:
        return self.amplitudes.shape[0]

    def mapped(self, component: int | None = None) -> "Kept":
        """The map of all components, or of one of those that have a basis each."""
        return Kept(self.basis if component is None else self.basis[:, component])

    def each_mapped(self) -> "Kept":
        """The maps of all components of all contexts, one after the other."""
        return Kept(self.basis.flatten(0, 1))


@dataclass(frozen=True, eq=False)
class Kept:
    """Bases (n, k1, d) span what contexts keep; inside are the k1 coordinates along them."""

    basis: Tensor

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) of the space -> (n, m, side) inside."""
        return torch.bmm(rows, self.basis.mT)

    def project_few(self, rows: Tensor) -> Tensor:
        """The same for few rows of each context, which is faster so: BLAS likes the larger matrix first."""
        return torch.bmm(self.basis, rows.contiguous().mT).mT

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, d): the transpose of `project`."""
        return torch.bmm(rows, self.basis)

    embed = lift  # what is known to lie inside

    def lift_sum(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) lifted and summed over contexts: (d, m)."""
        return self.basis.flatten(0, 1).mT @ rows.mT.flatten(0, 1)

    def contract(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, d, rest) of each context -> (n, m, side, rest)."""
        return self.basis.unsqueeze(1) @ tensors

    def restore(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, side, rest) inside -> (n, m, d, rest): the transpose of `contract`."""
        return self.basis.unsqueeze(1).mT @ tensors

    def contract_memory(self, memory: Tensor) -> Tensor:
        """A memory (d, rest) -> (n, side, rest): all contexts in one product."""
        count, rank, d = self.basis.shape
        return thin_product(self.basis.reshape(-1, d), memory).view(count, rank, -1)

    def contract_shared(self, tensors: Tensor) -> Tensor:
        """Tensors (q, d, rest) that all contexts share -> (q, n, side, rest)."""
        (count, rank, d), number = self.basis.shape, tensors.shape[0]
        return torch.bmm(self.basis.reshape(-1, d).expand(number, -1, -1), tensors).view(number, count, rank, -1)


@dataclass(frozen=True, eq=False)
class Forbidden:
    """What a map keeps is what contexts forbid; inside are all d coordinates of what is left."""

    kept: Kept | KeptBlocks

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) without their forbidden part."""
        return rows - self.kept.lift(self.kept.project(rows))

    lift = project_few = project

    def embed(self, rows: Tensor) -> Tensor:
        """What is known to lie inside, as it is."""
        return rows

    def lift_sum(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) lifted and summed over contexts: (d, m)."""
        return self.lift(rows).sum(0).mT

    def contract(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, d, rest) without their forbidden part along d."""
        return tensors - self.kept.restore(self.kept.contract(tensors))

    def contract_memory(self, memory: Tensor) -> Tensor:
        """A memory (d, rest) without what each context forbids: (n, d, rest)."""
        return memory - self.kept.restore(self.kept.contract_memory(memory).unsqueeze(1)).squeeze(1)

    def contract_shared(self, tensors: Tensor) -> Tensor:
        """Tensors (q, d, rest) that all contexts share, without their forbidden parts: (q, n, d, rest)."""
        inside = self.kept.contract_shared(tensors).transpose(0, 1)
        return tensors.unsqueeze(1) - self.kept.restore(inside).transpose(0, 1)


SubspaceMap = Kept | KeptBlocks | Forbidden


@dataclass(frozen=True, eq=False)
class PartOf:
    """A map of a space of which only some rows are there; what would come of the others is left out."""

    whole: SubspaceMap
    rows: slice
    d: int

    @classmethod
    def last(cls, whole: SubspaceMap, rows: slice, d: int) -> SubspaceMap:
        """That of the last mode, of which reading and writing want nothing else than this."""
        return cast(SubspaceMap, cls(whole, rows, d))

    def project(self, rows: Tensor) -> Tensor:
        """The rows (n, m, those that are there) -> (n, m, side): what they add to the projection of all of them."""
        space = rows.new_zeros(*rows.shape[:-1], self.d)
        space[..., self.rows] = rows
        return self.whole.project(space)

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, those that are there)."""
        return self.whole.lift(rows)[..., self.rows]


def read_modes(memory: Tensor, maps: Sequence[SubspaceMap], side: int) -> Tensor:
    """All modes of a tensor (d, d^(modes-1)) taken inside, each by its map: (n, ..., side), side^modes numbers each.

    The last map only projects (or lifts), so that it may be that of a part of its space.
    """
    first, *others = maps
    d = memory.shape[0]
    if others[2:]:  # slab by slab: what one product gives for all of them does not fit into any cache
        slabs = [read_modes(slab.view(d, -1), others, side).flatten(1) for slab in memory]
        return first.contract(torch.stack(slabs, dim=1).unsqueeze(1))
    cores = first.contract_memory(memory)
    count = cores.shape[0]
    for mode, middle in enumerate(others[:-1], start=1):
        cores = middle.contract(cores.view(count, side**mode, d, -1))
    return others[-1].project(cores.view(count, side ** len(others), -1)) if others else cores


def write_modes(cores: Tensor, maps: Sequence[SubspaceMap]) -> Tensor:
    """Cores (n, side, ..., side) lifted mode by mode and summed over contexts: (d, d^(modes-1)); see `read_modes`."""
    first, *others = maps
    for last in reversed(others):  # from the last mode to the first, each turned to the front when done
        cores = last.lift(cores.flatten(1, -2)).unflatten(1, cores.shape[1:-1]).movedim(-1, 1)
    return first.lift_sum(cores.reshape(len(cores), -1, cores.shape[-1]))


@dataclass(frozen=True)
class Ensemble:
    """Which subspaces are drawn, and how contexts are written."""

    shape: tuple[int, ...]  # of the basis: (rank, d), or for compact fillers (p, k1, d)
    basis: Basis
    signed: bool
    spread: float

    def draw(self, names: Sequence[bytes], kind: str, *, seed: int, dtype: torch.dtype) -> Subspaces | Blocks:
        """The contexts of paths, from their canonical bytes alone."""
        if self.basis == "gaussian":
            bases, words = hashing.bases(names, self.shape, seed=seed, purpose="context", dtype=dtype)
            return Subspaces(bases, self._amplitudes(words).to(dtype), kind=kind)
        *components, rank, d = self.shape
        places, words = hashing.permutations(names, (*components, d), seed=seed, purpose="blocks")
        return Blocks(places, self._amplitudes(words).to(dtype), rank, kind=kind)

    def _amplitudes(self, words: Bits) -> Tensor:
        amplitudes = hashing.first_signs(words) if self.signed else torch.ones(len(words))
        return amplitudes * amplitude(hashing.uniforms(words).squeeze(1), self.spread) if self.spread else amplitudes


def amplitude(uniform: Tensor, spread: float) -> Tensor:
    """How loud a context is written, of a number of [0, 1): even on a scale of decibels, with a mean square of 1."""
    mean_square = math.sinh(2 * spread) / (2 * spread)
    return torch.exp(spread * (2 * uniform - 1)) / math.sqrt(mean_square)
