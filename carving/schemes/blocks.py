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


@dataclass(frozen=True, eq=False)
class Blocks(Contexts):
    """The contexts of OSC as blocks: two bytes a coordinate, and an amplitude."""

    places: Tensor  # (n, d), or for compact fillers (n, p, d): coordinates block by block, ~j for j with a minus
    amplitudes: Tensor  # (n,), a sign times how loud the context is written
    rank: int = 1

    @property
    def basis(self) -> Tensor:
        """The orthonormal rows that they stand for: (n, rank, d), or (n, p, rank, d)."""
        return KeptBlocks(self.places.reshape(-1, self.places.shape[-1]), self.rank, self.amplitudes.dtype).basis.view(
            *self.places.shape[:-1], self.rank, -1
        )

    def mapped(self, component: int | None = None) -> "KeptBlocks":
        """The map of all components, or of one of those that have a basis each."""
        places = self.places if component is None else self.places[:, component]
        return KeptBlocks(places, self.rank, self.amplitudes.dtype)

    def each_mapped(self) -> "KeptBlocks":
        """The maps of all components of all contexts, one after the other."""
        return KeptBlocks(self.places.flatten(0, 1), self.rank, self.amplitudes.dtype)


class Cut(NamedTuple):
    """How d coordinates are cut into blocks."""

    starts: Tensor  # (rank + 1,) where blocks begin, and d
    owners: Tensor  # (d,) the block of each place
    scale: Tensor  # (d,) one over the root of its block's size


@lru_cache(maxsize=64)
def cut(d: int, rank: int, dtype: torch.dtype, device: torch.device) -> Cut:
    """The places of `rank` blocks."""
    with torch.inference_mode(False):  # it is kept, and may be used in training later
        sizes = torch.full((rank,), d // rank, device=device)
        sizes[: d % rank] += 1
        starts = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
        owners = torch.arange(rank, device=device).repeat_interleave(sizes)
        return Cut(starts, owners, sizes[owners].to(torch.float64).rsqrt().to(dtype))


@dataclass(frozen=True, eq=False)
class KeptBlocks:
    """Blocks span what contexts keep; inside are the `rank` coordinates along them. See `Kept` for the verbs."""

    places: Tensor  # (n, d)
    rank: int
    dtype: torch.dtype

    @cached_property
    def _cut(self) -> Cut:
        return cut(self.places.shape[1], self.rank, self.dtype, self.places.device)

    @cached_property
    def _order(self) -> Tensor:
        """The coordinates (n, d), block by block."""
        return (self.places ^ (self.places >> (8 * self.places.itemsize - 1))).long()

    @cached_property
    def _weights(self) -> Tensor:
        """Their entries (n, d) of the basis."""
        return torch.copysign(self._cut.scale, self.places)

    @cached_property
    def basis(self) -> Tensor:
        """As orthonormal rows (n, rank, d)."""
        count, d = self.places.shape
        zeros = self._weights.new_zeros(count, self.rank * d)
        return zeros.scatter_(1, self._order + self._cut.owners * d, self._weights).view(count, self.rank, d)

    def _summed(self, table: Tensor, tables: int) -> Tensor:
        """For each context, and for each of its tables of d rows, the sums of the rows of its blocks.

        A table (n * tables * d, rest), or (tables * d, rest) for all contexts -> (n * tables * rank, rest).
        """
        (count, d), (starts, _, _) = self.places.shape, self._cut
        own = len(table) > tables * d
        order, weights = self._order, self._weights
        if tables > 1 or (own and count > 1):
            first = torch.arange(0, tables * d, d, device=order.device)
            if own:
                first = first + torch.arange(0, count * tables * d, tables * d, device=order.device).unsqueeze(1)
            order = order.unsqueeze(1) + first.unsqueeze(-1)
            weights = weights.unsqueeze(1).expand_as(order)
        bags = starts[:-1] + torch.arange(0, count * tables * d, d, device=starts.device).unsqueeze(1)
        return bag(table, order.flatten(), bags.flatten(), weights.flatten())

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, m, d) of the space -> (n, m, side) inside."""
        return self.contract(rows.mT.unsqueeze(1)).squeeze(1).mT

    project_few = project

    def lift(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) inside -> (n, m, d): the transpose of `project`."""
        return self.restore(rows.unsqueeze(-1)).squeeze(-1)

    embed = lift

    def lift_sum(self, rows: Tensor) -> Tensor:
        """Rows (n, m, side) lifted and summed over contexts: (d, m)."""
        count, d = self.places.shape
        # Every coordinate lies in one block of each context: a sum of n rows.
        place = torch.empty_like(self._order).scatter_(1, self._order, torch.arange(d, device=rows.device).expand(count, d))
        first = torch.arange(0, count * self.rank, self.rank, device=rows.device)
        owners, weights = self._cut.owners[place] + first.unsqueeze(1), self._weights.gather(1, place)
        bags = torch.arange(0, count * d, count, device=rows.device)
        return bag(rows.mT.flatten(0, 1), owners.mT.flatten(), bags, weights.mT.flatten())

    def contract(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, d, rest) of each context -> (n, m, side, rest)."""
        count, tables, _, rest = tensors.shape
        return self._summed(tensors.reshape(-1, rest), tables).view(count, tables, self.rank, rest)

    def restore(self, tensors: Tensor) -> Tensor:
        """Tensors (n, m, side, rest) inside -> (n, m, d, rest): the transpose of `contract`."""
        (count, d), tables, rest = self.places.shape, tensors.shape[1], tensors.shape[3]
        parts = tensors.index_select(2, self._cut.owners) * self._weights.view(count, 1, d, 1)
        return torch.empty_like(parts).scatter(2, self._order.view(count, 1, d, 1).expand(-1, tables, -1, rest), parts)

    def contract_memory(self, memory: Tensor) -> Tensor:
        """A memory (d, rest) -> (n, side, rest): all contexts at once."""
        return self._summed(memory, 1).view(len(self.places), self.rank, -1)

    def contract_shared(self, tensors: Tensor) -> Tensor:
        """Tensors (q, d, rest) that all contexts share -> (q, n, side, rest)."""
        number, _, rest = tensors.shape
        inside = self._summed(tensors.reshape(-1, rest), number)
        return inside.view(len(self.places), number, self.rank, rest).transpose(0, 1)


def bag(table: Tensor, rows: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of a table's rows, of those from each start to the next."""
    return torch.embedding_bag(table, rows, starts, False, 0, False, weights)[0]
