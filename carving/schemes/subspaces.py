"""The subspaces of OSC's contexts, and the linear maps between the whole space and the coordinates inside.

A map takes rows of n contexts at once; `side` is the number of coordinates inside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from torch import Tensor

from carving import hashing
from carving.hashing import Bits
from carving.schemes.base import Contexts
from carving.schemes.moments import Basis
from carving.tensors import kept, lasting, thin_product, transformed

MAX_CACHED_COORDINATES = 2**18  # of contexts whose maps are cached: 3 MiB
MAX_FEW_BLOCKS, MIN_WIDE_SPACE = 8, 512  # where dense products are faster than sums of rows that fit no cache
MAX_DENSE_BASIS = 2**14  # numbers of a basis that is cached, and of a table that is multiplied with it in one product
MAX_DENSE_PRODUCT = 2**20  # multiplications up to which a dense product with a memory is as fast as sums of its rows


@dataclass(frozen=True, eq=False)
class Subspaces(Contexts):
    """The contexts of OSC: orthonormal rows that span the kept or the forbidden directions, and an amplitude."""

    basis: Tensor  # (n, rank, d), or for compact fillers one a component: (n, p, k1, d)
    amplitudes: Tensor  # (n,), the sign times the magnitude with which the context is written

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n)."""
        return self.amplitudes.shape

    def mapped(self, component: int | None = None) -> "KeptBasis":
        """Return the map of all components, or of one component that has a basis of its own."""
        return KeptBasis(self.basis if component is None else self.basis[:, component])

    def each_mapped(self) -> "KeptBasis":
        """Return the maps of all components of all contexts, in one object."""
        return KeptBasis(self.basis.flatten(0, 1))


@dataclass(frozen=True, eq=False)
class KeptBasis:
    """Bases (n, k1, d) span what contexts keep; inside are the k1 coordinates along them."""

    basis: Tensor

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) of the space -> (n, m, side) inside."""
        return torch.bmm(rows, self.basis.mT)

    def project_few(self, rows: Tensor) -> Tensor:
        """`project` for few rows of each context: BLAS is faster with the larger matrix first."""
        return torch.bmm(self.basis, rows.contiguous().mT).mT

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, d): the transpose of `project`."""
        return torch.bmm(rows, self.basis)

    embed = lift  # of rows that lie inside

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


# Block contexts: a signed permutation of the coordinates, cut into blocks. A context deals the d coordinates into
# `rank` blocks of equal size (the first ones have one more where rank does not divide d) and gives each a sign:
#
#     B[k, j] = sign_j / sqrt(size of block k)   where coordinate j lies in block k, else 0
#
# The rows have disjoint supports, so that B is orthonormal as it stands: a random subspace without normals and without
# a QR. It has d entries, and a product with it is a sum of d rows of the other factor: torch's `embedding_bag`.


@dataclass(frozen=True, eq=False)
class Blocks(Contexts):
    """The contexts of OSC as blocks: two bytes a coordinate, and an amplitude."""

    places: Tensor  # (n, d), or for compact fillers (n, p, d): coordinates block by block, ~j for j with a minus
    amplitudes: Tensor  # (n,), the sign times the magnitude with which the context is written
    rank: int
    _maps: "dict[int | None, KeptBlocks]" = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n)."""
        return self.amplitudes.shape

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_maps": {}}  # which are made again where they are needed

    @property
    def basis(self) -> Tensor:
        """The orthonormal rows, (n, rank, d) or (n, p, rank, d)."""
        return self.each_mapped().basis.view(*self.places.shape[:-1], self.rank, -1)

    def mapped(self, component: int | None = None) -> "KeptBlocks":
        """Return the map of all components, or of one that has a basis of its own; cached while they are few."""
        known = self._maps.get(component)
        if known is None:
            whole = self.each_mapped()
            if component is None:
                return whole
            known = whole.every(self.places.shape[1], component)
            if self._keeps:
                self._maps[component] = known
        return known

    def each_mapped(self) -> "KeptBlocks":
        """Return the maps of all components of all contexts, in one object."""
        known = self._maps.get(None)
        if known is not None:
            return known
        places, dtype = self.places.reshape(-1, self.places.shape[-1]), self.amplitudes.dtype
        if not self._keeps:
            return KeptBlocks.of(places, self.rank, dtype)
        with lasting():
            known = self._maps[None] = KeptBlocks.of(places, self.rank, dtype)
        return known

    @property
    def _keeps(self) -> bool:
        return self.places.numel() <= MAX_CACHED_COORDINATES and not transformed()


@dataclass(frozen=True, eq=False)
class KeptBlocks:
    """Blocks span what contexts keep; inside are the `rank` coordinates along them. See `KeptBasis` for the verbs."""

    order: Tensor  # (n, d) the coordinates, block by block
    weights: Tensor  # (n, d) their entries of the basis
    rank: int
    cut: "Cut"
    _dense: Tensor | None = None

    @classmethod
    def of(cls, places: Tensor, rank: int, dtype: torch.dtype) -> "KeptBlocks":
        """Return the map of contexts with places (n, d)."""
        own = cut(places.shape[1], rank, dtype, places.device)
        order = torch.maximum(places, ~places).long()
        return cls(order=order, weights=torch.copysign(own.scale, places), rank=rank, cut=own)

    def every(self, step: int, start: int) -> "KeptBlocks":
        """Return the maps `start`, `start + step`, ..."""
        dense = self.basis[start::step] if self.small else None
        return KeptBlocks(
            order=self.order[start::step], weights=self.weights[start::step], rank=self.rank, cut=self.cut, _dense=dense
        )

    @property
    def small(self) -> bool:
        """Whether products with the dense basis are faster; it is cached then."""
        return self.rank * self.order.numel() <= MAX_DENSE_BASIS and not transformed()

    @property
    def few(self) -> bool:
        """Whether the blocks are few and wide, so that products with the dense basis are faster."""
        return self.rank <= MAX_FEW_BLOCKS and self.order.shape[1] >= MIN_WIDE_SPACE

    @property
    def basis(self) -> Tensor:
        """The orthonormal rows (n, rank, d)."""
        if self._dense is not None:
            return self._dense
        count, d = self.order.shape
        with lasting():
            zeros = self.weights.new_zeros(count, self.rank * d)
            basis = zeros.scatter_(1, self.order + self.cut.rows, self.weights).view(count, self.rank, d)
        if self.small:
            vars(self)["_dense"] = basis
        return basis

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) of the space -> (n, m, side) inside."""
        return torch.bmm(self.basis, rows.mT).mT  # sums of rows would cost more than this product

    def project_few(self, rows: Tensor) -> Tensor:
        """`project` for few rows of each context, without the dense basis."""
        parts = rows.gather(2, self.order.unsqueeze(1).expand_as(rows))
        parts *= self.weights.unsqueeze(1)
        return parts @ self.cut.members.mT

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, d): the transpose of `project`."""
        parts = rows @ self.cut.members
        parts *= self.weights.unsqueeze(1)
        return reordered(parts, self.order.unsqueeze(1).expand_as(parts))

    embed = lift

    def lift_sum(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) lifted and summed over contexts: (d, m)."""
        if self.few:
            return self.basis.flatten(0, 1).mT @ rows.mT.flatten(0, 1)
        # Every coordinate lies in one block of each context: a sum of n rows.
        count, d = self.order.shape
        order, device = self.order, rows.device
        place = torch.empty_like(order).scatter_(1, order, steps(d, 1, device).expand(count, d))
        owners = self.cut.owners[place] + steps(count, self.rank, device).unsqueeze(1)
        weights = self.weights.gather(1, place)
        return bag(rows.mT.flatten(0, 1), owners.mT, steps(d, count, device), weights.mT)

    def contract(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, d, rest) of each context -> (n, m, side, rest)."""
        count, number, d, rest = tensors.shape
        order, weights = self.order, self.weights
        if count * number > 1:
            order = order.unsqueeze(1) + steps(count * number, d, order.device).view(count, number, 1)
            weights = weights.unsqueeze(1).expand_as(order)
        inside = bag(tensors.reshape(-1, rest), order, self._starts(count * number), weights)
        return inside.view(count, number, self.rank, rest)

    def restore(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, side, rest) inside -> (n, m, d, rest): the transpose of `contract`."""
        count, d = self.order.shape
        parts = tensors.index_select(2, self.cut.owners)
        parts *= self.weights.view(count, 1, d, 1)
        return reordered(parts, self.order.view(count, 1, d, 1).expand_as(parts))

    def contract_memory(self, memory: Tensor) -> Tensor:
        """A memory (d, rest) -> (n, side, rest): all contexts at once."""
        count = self.order.shape[0]
        if self.few or (self.small and self.rank * count * memory.numel() <= MAX_DENSE_PRODUCT):
            return self.basis @ memory
        return bag(memory, self.order, self._starts(count), self.weights).view(count, self.rank, -1)

    def contract_shared(self, tensors: Tensor) -> Tensor:
        """Tensors (q, d, rest) that all contexts share -> (q, n, side, rest)."""
        (number, d, rest), count = tensors.shape, len(self.order)
        if self.small and tensors.numel() <= MAX_DENSE_BASIS:
            basis = self.basis.view(-1, d).expand(number, -1, -1)
            return torch.bmm(basis, tensors).view(number, count, self.rank, rest)
        order, weights = self.order, self.weights
        if number > 1:
            order = order + steps(number, d, order.device).view(number, 1, 1)
            weights = weights.expand_as(order)
        inside = bag(tensors.reshape(-1, rest), order, self._starts(number * count), weights)
        return inside.view(number, count, self.rank, rest)

    def _starts(self, number: int) -> Tensor:
        return starts(self.order.shape[1], self.rank, number, self.order.device)


def reordered(parts: Tensor, order: Tensor) -> Tensor:
    """Return numbers (n, m, d, ...) at the places of dimension 2 that the order, a permutation, gives them."""
    if transformed():  # scatter in place has no rule for vmap
        return parts.scatter(2, order, parts)
    return torch.empty_like(parts).scatter_(2, order, parts)


def bag(table: Tensor, rows: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """Return weighted sums of a table's rows: one for the rows from each start to the next."""
    if torch._C._are_functorch_transforms_active():  # embedding_bag has no rule for vmap
        owners = torch.searchsorted(starts, steps(rows.numel(), 1, rows.device), right=True) - 1
        weighted = table[rows.reshape(-1)] * weights.reshape(-1, 1)
        return weighted.new_zeros(len(starts), table.shape[1]).index_add(0, owners, weighted)
    return torch.embedding_bag(table, rows.reshape(-1), starts, False, 0, False, weights.reshape(-1))[0]


# How d coordinates are cut into blocks: alike for all contexts, hence cached.


class Cut(NamedTuple):
    """The blocks of d places."""

    owners: Tensor  # (d,) its index
    members: Tensor  # (rank, d) 1 where it is the row's
    scale: Tensor  # (d,) one over the root of its size
    rows: Tensor  # (d,) where that row of a basis begins


@kept
def cut(d: int, rank: int, dtype: torch.dtype, device: torch.device) -> Cut:
    """Return the cut of d places into `rank` blocks."""
    sizes = torch.full((rank,), d // rank, device=device)
    sizes[: d % rank] += 1
    blocks = torch.arange(rank, device=device)
    owners = (torch.arange(d, device=device).unsqueeze(1) >= sizes.cumsum(0)).sum(1)
    members = owners.eq(blocks.unsqueeze(1)).to(dtype)
    return Cut(owners, members, sizes[owners].to(torch.float64).rsqrt().to(dtype), owners * d)


@kept
def starts(d: int, rank: int, number: int, device: torch.device) -> Tensor:
    """Return where the blocks of `number` times d places begin."""
    within = torch.arange(rank, device=device)
    within = within * (d // rank) + within.clamp_max(d % rank)
    return (within + steps(number, d, device).unsqueeze(1)).flatten()


@kept
def steps(number: int, size: int, device: torch.device) -> Tensor:
    """Return 0, size, 2 size, ..."""
    return torch.arange(0, number * size, size, device=device)


# Maps of maps


@dataclass(frozen=True, eq=False)
class Forbidden:
    """The map of contexts whose basis spans the forbidden directions; inside are d coordinates of the rest."""

    kept: KeptBasis | KeptBlocks

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) without their forbidden part."""
        return rows - self.kept.lift(self.kept.project(rows))

    lift = project_few = project

    def embed(self, rows: Tensor) -> Tensor:
        """Return rows that lie inside, unchanged."""
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


SubspaceMap = KeptBasis | KeptBlocks | Forbidden


@dataclass(frozen=True, eq=False)
class PartOf:
    """A map of some coordinates of a space: a partial sum of the projection, and a part of the lifted rows."""

    whole: SubspaceMap
    rows: slice
    d: int

    @classmethod
    def last(cls, whole: SubspaceMap, rows: slice, d: int) -> SubspaceMap:
        """Return the map of the last mode, which `read_modes` only projects and `write_modes` only lifts."""
        return cast(SubspaceMap, cls(whole, rows, d))

    def project(self, rows: Tensor) -> Tensor:
        """Partial rows (n, m, part) -> (n, m, side): their share of the projection of whole rows."""
        space = rows.new_zeros(*rows.shape[:-1], self.d)
        space[..., self.rows] = rows
        return self.whole.project(space)

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> partial rows (n, m, part)."""
        return self.whole.lift(rows)[..., self.rows]


def read_modes(memory: Tensor, maps: Sequence[SubspaceMap], side: int) -> Tensor:
    """Return a tensor (d, d^(modes-1)) with each mode projected by its map: (n, side, ..., side).

    The last map only projects, so that it may be a `PartOf` its space.
    """
    first, *others = maps
    d = memory.shape[0]
    if others[2:]:  # slab by slab: the product of all slabs at once does not fit into any cache
        slabs = [read_modes(slab.view(d, -1), others, side).flatten(1) for slab in memory]
        return first.contract(torch.stack(slabs, dim=1).unsqueeze(1))
    cores = first.contract_memory(memory)
    count = cores.shape[0]
    for mode, middle in enumerate(others[:-1], start=1):
        cores = middle.contract(cores.view(count, side**mode, d, -1))
    return others[-1].project(cores.view(count, side ** len(others), -1)) if others else cores


def write_modes(cores: Tensor, maps: Sequence[SubspaceMap]) -> Tensor:
    """Return cores (n, side, ..., side) lifted mode by mode and summed over contexts, (d, d^(modes-1))."""
    first, *others = maps
    for last in reversed(others):  # from the last mode to the first, each turned to the front when done
        cores = last.lift(cores.flatten(1, -2)).unflatten(1, cores.shape[1:-1]).movedim(-1, 1)
    return first.lift_sum(cores.reshape(len(cores), -1, cores.shape[-1]))


@dataclass(frozen=True)
class Ensemble:
    """The distribution of contexts."""

    shape: tuple[int, ...]  # of the basis: (rank, d), or for compact fillers (p, k1, d)
    basis: Basis
    signed: bool
    spread: float

    def draw(self, names: Sequence[bytes], *, seed: int, dtype: torch.dtype) -> Subspaces | Blocks:
        """Return the contexts of paths, given as canonical bytes."""
        if self.basis == "gaussian":
            bases, words = hashing.bases(names, self.shape, seed=seed, purpose="context", dtype=dtype)
            return Subspaces(bases, self._amplitudes(words).to(dtype))
        *components, rank, d = self.shape
        places, words = hashing.permutations(names, (*components, d), seed=seed, purpose="blocks")
        return Blocks(places, self._amplitudes(words).to(dtype), rank)

    def _amplitudes(self, words: Bits) -> Tensor:
        amplitudes = hashing.first_signs(words) if self.signed else torch.ones(len(words))
        return amplitudes * amplitude(hashing.uniforms(words).squeeze(1), self.spread) if self.spread else amplitudes


def amplitude(uniform: Tensor, spread: float) -> Tensor:
    """Return amplitudes from numbers of [0, 1): uniform on a logarithmic scale, with a mean square of 1."""
    mean_square = math.sinh(2 * spread) / (2 * spread)
    return torch.exp(spread * (2 * uniform - 1)) / math.sqrt(mean_square)
