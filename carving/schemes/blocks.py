"""Block contexts: a signed permutation of the coordinates, cut into blocks.

A context deals the d coordinates into `rank` blocks of equal size (the first ones have one more where rank does not
divide d) and gives each a sign:

    B[k, j] = sign_j / sqrt(size of block k)   where coordinate j lies in block k, else 0

The rows have disjoint supports, so that B is orthonormal as it stands: a random subspace without normals and without a
QR. It has d entries, and a product with it is a sum of d rows of the other factor: torch's `embedding_bag`.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from carving.contexts import Contexts

KEPT = 2**18  # coordinates of contexts whose maps are kept at most: 3 MiB


@dataclass(frozen=True, eq=False)
class Blocks(Contexts):
    """The contexts of OSC as blocks: two bytes a coordinate, and an amplitude."""

    places: Tensor  # (n, d), or for compact fillers (n, p, d): coordinates block by block, ~j for j with a minus
    amplitudes: Tensor  # (n,), a sign times how loud the context is written
    rank: int = 1

    @property
    def basis(self) -> Tensor:
        """The orthonormal rows that they stand for: (n, rank, d), or (n, p, rank, d)."""
        d = self.places.shape[-1]
        dense = KeptBlocks(self.places.reshape(-1, d), self.rank, self.amplitudes.dtype).basis
        return dense.view(*self.places.shape[:-1], self.rank, d)

    def mapped(self, component: int | None = None) -> "KeptBlocks":
        """The map of all components, or of one of those that have a basis each; kept while they are few."""
        known = self._maps.get(component)
        if known is None:
            places = self.places if component is None else self.places[:, component]
            known = KeptBlocks(places, self.rank, self.amplitudes.dtype)
            if self.places.numel() <= KEPT:
                self._maps[component] = known
        return known

    @cached_property
    def _maps(self) -> dict[int | None, "KeptBlocks"]:
        return {}

    def each_mapped(self) -> "KeptBlocks":
        """The maps of all components of all contexts, one after the other."""
        return KeptBlocks(self.places.flatten(0, 1), self.rank, self.amplitudes.dtype)


@dataclass(frozen=True, eq=False)
class KeptBlocks:
    """Blocks span what contexts keep; inside are the `rank` coordinates along them. See `Kept` for the verbs."""

    places: Tensor  # (n, d)
    rank: int
    dtype: torch.dtype

    @cached_property
    def _cut(self) -> "Cut":
        return cut(self.places.shape[1], self.rank, self.dtype, self.places.device)

    @cached_property
    def _order(self) -> Tensor:
        """The coordinates (n, d), block by block."""
        with torch.inference_mode(False):  # it may be kept, and used in training later
            return (self.places ^ (self.places >> (8 * self.places.itemsize - 1))).long()

    @cached_property
    def _weights(self) -> Tensor:
        """Their entries (n, d) of the basis."""
        with torch.inference_mode(False):
            return torch.copysign(self._cut.scale, self.places)

    @cached_property
    def basis(self) -> Tensor:
        """As orthonormal rows (n, rank, d)."""
        count, d = self.places.shape
        zeros = self._weights.new_zeros(count, self.rank * d)
        return zeros.scatter_(1, self._order + self._cut.owners * d, self._weights).view(count, self.rank, d)

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) of the space -> (n, m, side) inside."""
        return torch.bmm(self.basis, rows.mT).mT  # so few entries that their sums would cost more than the product

    def project_few(self, rows: Tensor) -> Tensor:
        """The same for few rows of each context: without making the basis."""
        parts = rows.gather(2, self._order.unsqueeze(1).expand_as(rows)) * self._weights.unsqueeze(1)
        return parts @ self._cut.members.mT

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, d): the transpose of `project`."""
        parts = (rows @ self._cut.members) * self._weights.unsqueeze(1)
        return torch.empty_like(parts).scatter(2, self._order.unsqueeze(1).expand_as(parts), parts)

    embed = lift

    def lift_sum(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) lifted and summed over contexts: (d, m)."""
        # Every coordinate lies in one block of each context: a sum of n rows.
        count, d = self.places.shape
        order, device = self._order, rows.device
        place = torch.empty_like(order).scatter_(1, order, steps(d, 1, device).expand(count, d))
        owners = self._cut.owners[place] + steps(count, self.rank, device).unsqueeze(1)
        weights = self._weights.gather(1, place)
        return bag(rows.mT.flatten(0, 1), owners.mT, steps(d, count, device), weights.mT)

    def contract(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, d, rest) of each context -> (n, m, side, rest)."""
        count, number, d, rest = tensors.shape
        order, weights = self._order, self._weights
        if count * number > 1:
            order = order.unsqueeze(1) + steps(count * number, d, order.device).view(count, number, 1)
            weights = weights.unsqueeze(1).expand_as(order)
        inside = bag(tensors.reshape(-1, rest), order, self._starts(count * number), weights)
        return inside.view(count, number, self.rank, rest)

    def restore(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, side, rest) inside -> (n, m, d, rest): the transpose of `contract`."""
        count, d = self.places.shape
        parts = tensors.index_select(2, self._cut.owners) * self._weights.view(count, 1, d, 1)
        return torch.empty_like(parts).scatter(2, self._order.view(count, 1, d, 1).expand_as(parts), parts)

    def contract_memory(self, memory: Tensor) -> Tensor:
        """A memory (d, rest) -> (n, side, rest): all contexts at once."""
        count = len(self.places)
        return bag(memory, self._order, self._starts(count), self._weights).view(count, self.rank, -1)

    def contract_shared(self, tensors: Tensor) -> Tensor:
        """Tensors (q, d, rest) that all contexts share -> (q, n, side, rest)."""
        (number, d, rest), count = tensors.shape, len(self.places)
        order, weights = self._order, self._weights
        if number > 1:
            order = order + steps(number, d, order.device).view(number, 1, 1)
            weights = weights.expand_as(order)
        inside = bag(tensors.reshape(-1, rest), order, self._starts(number * count), weights)
        return inside.view(number, count, self.rank, rest)

    def _starts(self, number: int) -> Tensor:
        return starts(self.places.shape[1], self.rank, number, self.places.device)


def bag(table: Tensor, rows: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of a table's rows: of those from each start to the next."""
    return torch.embedding_bag(table, rows.reshape(-1), starts, False, 0, False, weights.reshape(-1))[0]


# How d coordinates are cut into blocks: the same for all contexts, so it is made once and kept.


class Cut(NamedTuple):
    """Which block each of d places belongs to."""

    owners: Tensor  # (d,) its index
    members: Tensor  # (rank, d) 1 where it is the row's
    scale: Tensor  # (d,) one over the root of its size


@lru_cache(maxsize=64)
def cut(d: int, rank: int, dtype: torch.dtype, device: torch.device) -> Cut:
    """The blocks of d places."""
    with torch.inference_mode(False):
        sizes = torch.full((rank,), d // rank, device=device)
        sizes[: d % rank] += 1
        blocks = torch.arange(rank, device=device)
        owners = blocks.repeat_interleave(sizes)
        members = owners.eq(blocks.unsqueeze(1)).to(dtype)
        return Cut(owners, members, sizes[owners].to(torch.float64).rsqrt().to(dtype))


@lru_cache(maxsize=32)
def starts(d: int, rank: int, number: int, device: torch.device) -> Tensor:
    """Where the blocks of `number` times d places begin."""
    with torch.inference_mode(False):
        within = torch.arange(rank, device=device)
        within = within * (d // rank) + within.clamp_max(d % rank)
        return (within + steps(number, d, device).unsqueeze(1)).flatten()


@lru_cache(maxsize=32)
def steps(number: int, size: int, device: torch.device) -> Tensor:
    """0, size, 2 size, ..."""
    with torch.inference_mode(False):
        return torch.arange(0, number * size, size, device=device)
