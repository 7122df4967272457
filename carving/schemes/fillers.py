"""The two kinds of fillers that OSC has.

Ordinary fillers, the paper's, are p vectors of the whole space, projected into every context's subspace. Compact
fillers are p vectors of coordinates inside, the same in every context, which has a basis for each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

from carving import hashing
from carving.caching import cached_property
from carving.errors import BadValue
from carving.hashing import Bits
from carving.schemes.base import Candidates
from carving.schemes.moments import Basis, echo, excess, likeness, unevenness
from carving.schemes.subspaces import Blocks, Forbidden, SubspaceMap, Subspaces
from carving.symbols.codec import canonical_path
from carving.tensors import blocks, columns_outer, contract, inverse_norm, outer
from carving.tiling import collect, rows_within, slices
from carving.validate import check_integer

MAX_EVEN_DEVIATION = 0.05  # the relative standard deviation of candidates' noise up to which it counts as equal
MIN_RELATIVE_NOISE = 0.25  # a lower limit of the relative noise, where the formula fails for tiny memories


@dataclass(frozen=True)
class OrdinaryFillers:
    """Fillers of p d numbers, projected into each context and normalized there."""

    d: int
    p: int
    k1: int

    contextual = True
    code_size = part_size = 0

    @cached_property
    def keeps(self) -> bool:
        """Whether bases span the kept directions: the smaller basis is drawn."""
        return 2 * self.k1 <= self.d

    @cached_property
    def side(self) -> int:
        """The side of a core."""
        return self.k1 if self.keeps else self.d

    @cached_property
    def filler_shape(self) -> tuple[int, int]:
        """The p components."""
        return self.p, self.d

    @cached_property
    def basis_shape(self) -> tuple[int, ...]:
        """One basis for all components."""
        return self.k1 if self.keeps else self.d - self.k1, self.d

    def interference(self, basis: Basis) -> tuple[float, float]:
        """Return the noise of a pair with another filler, and of a pair with the candidate's filler."""
        return 1 + excess(self.d, self.p, self.k1, basis), echo(self.d, self.p, self.k1, basis)

    def uneven(self, basis: Basis) -> float:
        """Return the relative growth of the noise of other fillers with a squared cosine of two components."""
        if unevenness(self.d, self.p, self.k1, basis) <= MAX_EVEN_DEVIATION:
            return 0.0
        return likeness(self.d, self.k1, basis) / (1 + excess(self.d, self.p, self.k1, basis))

    @cached_property
    def cell(self) -> int:
        """The numbers that matching a candidate in a context takes."""
        half = self.p // 2
        return self.p * self.side + self.side ** (self.p - half) + 2 * self.side**half + 4

    def map(self, contexts: Subspaces | Blocks) -> SubspaceMap:
        """Return the map of every component."""
        return contexts.mapped() if self.keeps else Forbidden(contexts.mapped())

    def maps(self, contexts: Subspaces | Blocks) -> Sequence[SubspaceMap]:
        """Return the map of each component."""
        return [self.map(contexts)] * self.p

    def components(self, fillers: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        """Return fillers (n, p, d) in their contexts, (n, p, side), with unit rows."""
        inside = self.map(contexts).project_few(fillers)
        return inside * inverse_norm(inside, dim=2).unsqueeze(2)

    def bound(self, components: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        """Return components as vectors (n, p, d) of the whole space."""
        return self.map(contexts).embed(components)

    def match(self, cores: Tensor, contexts: Subspaces | Blocks, given: Candidates, room: int) -> Tensor:
        """Return inner products of cores with candidates (L, p, d), or (n, m, p, d) for each context."""
        candidates = given.tensor
        count, total = cores.shape[0], candidates.shape[-3]
        if not given.shared:
            return contract(cores, self._inside(contexts, given))
        number, size = blocks(total)
        if number == 1 or isinstance(contexts, Blocks):
            return contract(cores, self._inside(contexts, given))
        if number * size < total:
            parts = given[: number * size], given[number * size :]
            return torch.cat([self.match(cores, contexts, part, room) for part in parts], dim=1)
        columns = candidates.transpose(0, 1).unflatten(1, (number, size)).mT  # (p, blocks, d, size)
        if columns.stride(0) == number * columns.stride(1):
            inside = self.map(contexts).contract_shared(columns.flatten(0, 1))
        else:  # here flattening would copy the candidates
            inside = torch.cat([self.map(contexts).contract_shared(part) for part in columns])
        inside = inside.reshape(self.p, number * count, self.side, size)
        scores = contract(cores.expand(number, *cores.shape).flatten(0, 1), inside)
        return scores.view(number, count, size).transpose(0, 1).reshape(count, total)

    def _inside(self, contexts: Subspaces | Blocks, given: Candidates) -> Tensor:
        """Return candidates in their contexts, one a column: (p, n, side, L) or (p, n, side, m)."""
        mapped, candidates = self.map(contexts), given.tensor
        if given.shared:
            return mapped.contract_shared(candidates.permute(1, 2, 0))
        return mapped.project(candidates.flatten(1, 2)).unflatten(1, candidates.shape[1:3]).permute(2, 0, 3, 1)

    def noise(self, contexts: Subspaces | Blocks, candidates: Candidates, uneven: float) -> Tensor:
        """Return the noise of other fillers along candidates, in units of its mean: more where components are similar.

        See `carving.schemes.moments.likeness`; a squared cosine is 1/k1 on average.
        """
        inside = self._inside(contexts, candidates)
        scales = inverse_norm(inside, dim=2)
        total = torch.zeros_like(scales[0])
        for one, other in combinations(range(self.p), 2):
            total += ((inside[one] * inside[other]).sum(1) * scales[one] * scales[other]).square_()
        usual = self.p * (self.p - 1) / (2 * self.k1)
        return total.sub_(usual).mul_(uneven).add_(1).clamp_min_(MIN_RELATIVE_NOISE)

    def expected(self, weights: Tensor, contexts: Subspaces | Blocks, candidates: Candidates) -> Tensor:
        """Return the cores of candidates, summed with weights (n, L): (n, side^p)."""
        inside = self._inside(contexts, candidates)
        first, *rest = (inside * inverse_norm(inside, dim=2).unsqueeze(2)).unbind(0)
        parts, half = [first * weights.unsqueeze(1), *rest], self.p // 2
        right = columns_outer(parts[half:])
        return (torch.bmm(columns_outer(parts[:half]), right.mT) if half else right.sum(2)).flatten(1)

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory without the traces over pairs of modes.

        Components that share a basis have them: a^T B B^T b does not average out over contexts. Taken out pair of modes
        by pair of modes, they come back a little, by 1/d of themselves; twice is enough.
        """
        if self.p == 1:
            return memory
        even = memory.clone()
        for first, second in 2 * tuple(combinations(range(self.p), 2)):
            diagonal = even.diagonal(dim1=first, dim2=second)
            diagonal -= diagonal.mean(-1, keepdim=True)
        return even


@dataclass(frozen=True)
class CompactFillers:
    """Fillers of p k1 numbers, whose outer product is their core in every context."""

    d: int
    p: int
    k1: int

    contextual = False
    cell = 1

    def interference(self, basis: Basis) -> tuple[float, float]:
        """Return the noise of other pairs, with any filler: components with bases of their own interfere alike."""
        return 1.0, 1.0

    def uneven(self, basis: Basis) -> float:
        """Return 0: similar components make no difference."""
        return 0.0

    @cached_property
    def side(self) -> int:
        """The side of a core."""
        return self.k1

    @cached_property
    def code_size(self) -> int:
        """The numbers of a core."""
        return self.k1**self.p

    @cached_property
    def part_size(self) -> int:
        """The numbers of a filler with unit components, laid flat, if codes have another number."""
        size = self.p * self.k1
        return 0 if size == self.code_size else size

    @cached_property
    def filler_shape(self) -> tuple[int, int]:
        """The p components."""
        return self.p, self.k1

    @cached_property
    def basis_shape(self) -> tuple[int, ...]:
        """A basis for each component."""
        return self.p, self.k1, self.d

    def maps(self, contexts: Subspaces | Blocks) -> Sequence[SubspaceMap]:
        """Return the map of each component."""
        return [contexts.mapped(component) for component in range(self.p)]

    def components(self, fillers: Tensor, contexts: Subspaces | Blocks | None) -> Tensor:
        """Return fillers (*, p, k1) with unit rows, each scaled by itself: products of norms may overflow."""
        return fillers * inverse_norm(fillers, dim=-1).unsqueeze(-1)

    def bound(self, components: Tensor, contexts: Subspaces | Blocks) -> Tensor:
        """Return components as vectors (n, p, d) of the whole space."""
        return contexts.each_mapped().lift(components.reshape(-1, 1, self.k1)).view(-1, self.p, self.d)

    def codes(self, candidates: Tensor) -> Tensor:
        """Return the flat cores (*, k1^p) of candidates."""
        return outer(self.components(candidates, None).unbind(-2))

    def match(self, cores: Tensor, contexts: Subspaces | Blocks | None, given: Candidates, room: int) -> Tensor:
        """Return inner products of cores with candidates of any kind."""
        count, candidates, unit = cores.shape[0], given.tensor, given.kind == "parts"
        if not given.shared:  # the codes of all contexts' own would not fit into the workspace together
            flat = cores.flatten(1)
            rows = slices(count, rows_within(room, 2 * candidates.shape[1] * self.code_size))
            products = ((part, self.codes(candidates[part]) @ flat[part].unsqueeze(2)) for part in rows)
            return collect(count, products).squeeze(2)
        if given.kind == "codes":
            return cores.flatten(1) @ candidates.mT
        if 3 * count <= self.k1 ** (self.p // 2):  # codes do not pay for few contexts
            columns = (candidates if unit else candidates.flatten(1)).mT.reshape(self.p, 1, self.k1, -1)
            return contract(cores, columns.expand(-1, count, -1, -1), unit)
        codes = outer(candidates.unflatten(1, self.filler_shape).unbind(1)) if unit else self.codes(candidates)
        return cores.flatten(1) @ codes.mT

    def expected(self, weights: Tensor, contexts: Subspaces | Blocks, candidates: Candidates) -> Tensor:
        """Return the cores of candidates, summed with weights (n, L): (n, k1^p)."""
        codes = candidates.tensor if candidates.kind == "codes" else self.codes(candidates.tensor)
        return weights.to(codes.dtype) @ codes

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory: components with bases of their own have no traces."""
        return memory


# Fillers from a fixed dictionary: each component is one of q unit vectors, which the label's hash chooses. A filler is
# then p small integers instead of p k1 real numbers, but labels may collide: about L^2 / (2 q^p) pairs of L labels have
# equal fillers, and no memory can distinguish them. With p=2 and q=256 there are 65,536 fillers.

LARGEST_DICTIONARY = 2**16  # vectors of a dictionary: a number then has two bytes


def check_dictionary(size: object, compact: bool, p: int) -> int:
    """Return the number of vectors of a dictionary, 0 for none; refuse other values."""
    if size == 0 and not isinstance(size, bool):
        return 0
    way_out = f"Q vectors give q^{p} different fillers: 65536 suffice for ten million labels. 0 uses no dictionary."
    checked = check_integer("dictionary", size, 2, LARGEST_DICTIONARY, way_out)
    if not compact:
        raise BadValue(f"dictionary={size} needs compact fillers, got compact=False. Pass compact=True.")
    return checked


@lru_cache(maxsize=4)
def dictionary_vectors(p: int, k1: int, size: int, seed: int) -> Tensor:
    """Return the dictionary (p, size, k1) in float64, determined by the arguments."""
    names = [canonical_path((place, number)) for place in range(p) for number in range(size)]
    words = hashing.bits(names, hashing.words_for_normals(k1), seed=seed, purpose="dictionary")
    normals = hashing.normals(words)[:, :k1]
    return (normals * inverse_norm(normals, dim=1).unsqueeze(1)).view(p, size, k1)


def chosen_vectors(words: Bits, dictionary: Tensor) -> Tensor:
    """Return the fillers (n, p, k1) that random words (n, p) select."""
    numbers = hashing.integers(words, dictionary.shape[1])
    return torch.stack([own[numbers[:, place]] for place, own in enumerate(dictionary)], dim=1)
