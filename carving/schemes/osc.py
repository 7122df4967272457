"""Orthogonal Subspace Carving: a filler's p components, projected into the context's subspace and normalised.

A context keeps a random subspace of k1 of the d dimensions. Everything happens in the coordinates of that
subspace, where a bound filler is the outer product of p unit vectors of length k1: the scores are those of the
paper's formulas, and no d x d projector and no d^p tensor per candidate is ever made.

Compact fillers are such coordinates themselves: k1 numbers a component instead of d, the same in every context, which
writes each component through a basis of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from carving import draws, symbols
from carving.checks import check_device, check_integer, check_real_dtype
from carving.chunks import slices
from carving.draws import Bits
from carving.errors import BadType, BadValue
from carving.prediction import alone as capacity
from carving.scheme import Contexts, Facts, Scheme
from carving.symbols import Path
from carving.tensors import BLOCK, blocks, columns_outer, contract, inverse_norm, orthonormal, outer, thin_product


@dataclass(frozen=True, eq=False)
class Subspaces(Contexts):
    """The contexts of OSC: orthonormal rows that span the kept or the forbidden directions, and a sign."""

    basis: Tensor  # (n, rank, d), or for compact fillers one a component: (n, p, k1, d)
    signs: Tensor  # (n,), times how loud the context is written


@dataclass(frozen=True, init=False)
class OSC(Scheme):
    """An order-p tensor of side d; contexts keep k1 dimensions, by default round(sqrt(d)).

    `carved=k` is the paper's other reading, k forbidden directions: k1 = d - k. Of the two bases the smaller
    one is drawn and held. Where more than half of the space is kept, cores have d^p numbers instead of k1^p.
    `signed` gives every context a random sign, so that a filler stored in many contexts does not add up to a
    bias in all others; `signed=False` is the paper. `compact=True` makes fillers of p k1 numbers instead of p d.
    `spread` makes some contexts louder than others, by up to exp(spread) either way: joint decoding then finds the loud
    ones first, and holds more. Asked one at a time, the faint ones are found less well.
    """

    d: int
    p: int
    k1: int
    signed: bool
    compact: bool
    spread: float
    seed: int
    dtype: torch.dtype = field(compare=False)
    device: torch.device = field(compare=False)
    workspace: int = field(compare=False)

    def __init__(
        self,
        d: int,
        p: int = 2,
        k1: int | None = None,
        signed: bool = True,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        *,
        carved: int | None = None,
        compact: bool = False,
        spread: float = 0.0,
        workspace: int = 32 * 2**20,
    ) -> None:
        d = check_integer("d", d, 2, way_out="it is the side of the memory; 64 to 200 are usual")
        p = check_integer("p", p, 1, 4, "memories have d^p cells")
        if carved is not None:
            if k1 is not None:
                raise BadValue(f"give either k1 or carved = d - k1, got k1={k1} and carved={carved}")
            k1 = d - check_integer("carved", carved, 1, d - 1, "it is the number of forbidden dimensions")
        usual = round(math.sqrt(d))
        k1 = check_integer("k1", usual if k1 is None else k1, 1, d - 1, f"round(sqrt(d)) = {usual} is a good start")
        for name, flag in (("signed", signed), ("compact", compact)):
            if not isinstance(flag, bool):
                raise BadType(f"{name} must be True or False, got {flag!r}; signed=False, compact=False is the paper")
        if compact and not signed:
            raise BadValue("compact fillers have signed contexts, got signed=False; leave one of the two out")
        if isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 <= spread <= 4:
            raise BadValue(f"spread must be a number from 0 to 4, got {spread!r}; 0 makes all contexts alike")
        values: dict[str, Any] = dict(
            d=d,
            p=p,
            k1=k1,
            signed=signed,
            compact=compact,
            spread=float(spread),
            seed=check_integer("seed", seed, 0, 2**64 - 1, "any integer from 0 on will do"),
            dtype=check_real_dtype(dtype),
            device=check_device(device),
            workspace=check_integer("workspace", workspace, 1, way_out="it is a number of bytes"),
        )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def keeps(self) -> bool:
        """Whether bases span the kept directions; if not, they span the forbidden ones."""
        return self.compact or 2 * self.k1 <= self.d

    @property
    def rank(self) -> int:
        """The rows of a basis."""
        return self.k1 if self.keeps else self.d - self.k1

    @property
    def side(self) -> int:
        """The side of a core."""
        return self.k1 if self.keeps else self.d

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """The p components of a filler, d numbers each; k1 if they are compact."""
        return (self.p, self.k1 if self.compact else self.d)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """A small tensor of order p."""
        return (self.side,) * self.p

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """A tensor of order p and side d."""
        return (self.d,) * self.p

    @property
    def code(self) -> int:
        """The numbers of a core, which compact fillers are in every context."""
        return self.k1**self.p if self.compact else 0

    @property
    def memory_dtype(self) -> torch.dtype:
        """The scheme's own."""
        return self.dtype

    @property
    def facts(self) -> Facts:
        """What is true of OSC."""
        return Facts(
            exact=True,
            adjoint=not self.spread,
            self_inverse=False,
            commutative=False,
            associative=False,
            contextual=not self.compact,
            linear=True,
            filler_scalars=math.prod(self.filler_shape),
            memory_scalars=self.d**self.p,
            # Components with bases of their own interfere independently, whether their fillers are the same or not.
            interference=1.0 if self.compact else 1 + capacity.excess(self.d, self.p, self.k1),
            echo=1.0 if self.compact else capacity.likeness(self.d, self.p, self.k1),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the scheme again."""
        more = {"compact": self.compact, "spread": self.spread}  # named only where they are not the paper's
        own = {name: value for name, value in more.items() if value}
        return dict(d=self.d, p=self.p, k1=self.k1, signed=self.signed, seed=self.seed) | own

    # Labels -> fillers and contexts

    @property
    def _filler_words(self) -> int:
        return draws.words_for_normals(math.prod(self.filler_shape))

    def _fillers(self, words: Bits) -> Tensor:
        return draws.normals(words)[:, : math.prod(self.filler_shape)].reshape(-1, *self.filler_shape)

    def _empty_fillers(self, count: int) -> Tensor:
        # Component by component, as `_match` reads them.
        parts, size = self.filler_shape
        return torch.empty(parts, count, size, dtype=self.dtype, device="cpu").transpose(0, 1)

    @property
    def _basis_shape(self) -> tuple[int, ...]:
        return (self.p, self.rank, self.d) if self.compact else (self.rank, self.d)

    def _fit(self, contexts: Contexts) -> bool:
        return isinstance(contexts, Subspaces) and contexts.basis.shape[1:] == self._basis_shape

    def _contexts(self, paths: Sequence[Path]) -> Subspaces:
        count, numbers = len(paths), math.prod(self._basis_shape)
        words = draws.words_for_normals(numbers)
        basis = torch.empty(count, *self._basis_shape, dtype=self.dtype, device="cpu")
        signs = torch.ones(count, dtype=self.dtype, device="cpu")
        for rows in slices(count, draws.rows_in_cache(words)):
            names = map(symbols.canonical_path, paths[rows])
            drawn = draws.bits(names, 1 + words, seed=self.seed, purpose="context")
            basis[rows] = orthonormal(draws.normals(drawn[:, 1:])[:, :numbers].unflatten(-1, self._basis_shape))
            if self.signed:
                signs[rows] = draws.signs(drawn[:, :1], 1).squeeze(1).to(self.dtype)
            if self.spread:
                signs[rows] *= self._loudness_of(draws.uniforms(drawn[:, :1])).squeeze(1).to(self.dtype)
        return Subspaces(basis.to(self.device), signs.to(self.device))

    def _loudness_of(self, uniform: Tensor) -> Tensor:
        """Even on a scale of decibels, with a mean square of 1."""
        mean_square = math.sinh(2 * self.spread) / (2 * self.spread)
        return torch.exp(self.spread * (2 * uniform - 1)) / math.sqrt(mean_square)

    # Rows of the space <-> rows of coordinates in the subspace: (n, m, d) <-> (n, m, side)

    def _inside(self, rows: Tensor, basis: Tensor) -> Tensor:
        inside = torch.bmm(rows, basis.mT)
        return inside if self.keeps else rows - torch.bmm(inside, basis)

    def _outside(self, rows: Tensor, basis: Tensor) -> Tensor:
        return torch.bmm(rows, basis) if self.keeps else rows - torch.bmm(torch.bmm(rows, basis.mT), basis)

    def _bases(self, contexts: Subspaces) -> Sequence[Tensor]:
        """The basis (n, rank, d) of each component: for ordinary fillers the same one."""
        return contexts.basis.unbind(1) if self.compact else [contexts.basis] * self.p

    def _components(self, fillers: Tensor, contexts: Subspaces) -> Tensor:  # (n, p, side), unit rows
        if self.compact:
            return fillers * inverse_norm(fillers, dim=-1).unsqueeze(-1)
        # Not fillers @ basis.mT, which is slower here: BLAS likes the larger matrix first.
        inside = torch.bmm(contexts.basis, fillers.mT).mT
        inside = inside if self.keeps else fillers - torch.bmm(inside, contexts.basis)
        return inside * inverse_norm(inside, dim=2).unsqueeze(2)

    # The verbs

    def _encode(self, fillers: Tensor, contexts: Subspaces) -> Tensor:
        return outer(self._components(fillers, contexts).unbind(1)).view(-1, *self.core_shape)

    def _add(self, memory: Tensor, contexts: Subspaces, fillers: Tensor, weights: Tensor | None) -> None:
        components = self._components(fillers, contexts)
        if self.compact:
            bound = (components.unsqueeze(2) @ contexts.basis).squeeze(2)  # (n, p, d)
        else:
            bound = self._outside(components, contexts.basis) if self.keeps else components
        scale = contexts.signs if weights is None else contexts.signs * weights
        first, *rest = bound.unbind(1)
        vectors = [first * scale.unsqueeze(1), *rest]
        half = (self.p + 1) // 2
        left, right = outer(vectors[:half]), outer(vectors[half:] or [torch.ones_like(scale).unsqueeze(1)])
        memory.view(left.shape[1], -1).addmm_(left.mT, right)

    def _write(self, cores: Tensor, contexts: Subspaces) -> Tensor:
        # From the last mode to the first, each turned to the front when done.
        turned = cores * contexts.signs.view(-1, *(1,) * self.p)
        first, *others = self._bases(contexts)
        for basis in reversed(others):
            done = self._outside(turned.flatten(1, -2), basis)
            turned = done.unflatten(1, turned.shape[1:-1]).movedim(-1, 1)
        last = turned.reshape(len(contexts), -1, self.side)  # (n, d^(p-1), side)
        if self.keeps:  # the last step and the sum over contexts in one product
            rows = first.flatten(0, 1).mT @ last.mT.flatten(0, 1)
        else:
            rows = self._outside(last, first).sum(0).mT
        return rows.reshape(self.memory_shape)

    def _read(self, memory: Tensor, contexts: Subspaces) -> Tensor:
        return self._seen(memory, contexts, 1 / contexts.signs if self.spread else contexts.signs)

    def _adjoint(self, memory: Tensor, contexts: Subspaces) -> Tensor:
        return self._seen(memory, contexts, contexts.signs)

    def _seen(self, memory: Tensor, contexts: Subspaces, scale: Tensor) -> Tensor:
        cores = self._inside_all(memory.reshape(self.d, -1), self._bases(contexts))
        return cores.view(-1, *self.core_shape) * scale.view(-1, *(1,) * self.p)

    def _energy(self, contexts: Subspaces, candidates: Tensor) -> Tensor:
        return contexts.signs.square().unsqueeze(1)

    def _returned(self, cores: Tensor, contexts: Subspaces) -> Tensor:
        return cores * contexts.signs.square().view(-1, *(1,) * self.p) if self.spread else cores

    def _inside_all(self, memory: Tensor, bases: Sequence[Tensor]) -> Tensor:
        """All modes of a tensor, (d, d^(modes-1)), taken into the subspaces, each by its basis."""
        basis, *others = bases
        count = basis.shape[0]
        if others[2:]:  # slab by slab: what one product gives for all of them does not fit into any cache
            slabs = [self._inside_all(slab.view(self.d, -1), others).flatten(1) for slab in memory]
            stacked = torch.stack(slabs, dim=1)  # (n, d, side^(modes-1))
            return torch.bmm(basis, stacked) if self.keeps else stacked - basis.mT @ torch.bmm(basis, stacked)
        if self.keeps:  # the first mode for all contexts in one product
            cores = thin_product(basis.reshape(-1, self.d), memory)
        else:
            cores = memory - basis.mT @ (basis @ memory)
        for mode, middle_basis in enumerate(others[:-1], start=1):  # the middle modes: (n, side^mode, d, rest)
            middle = cores.view(count, self.side**mode, self.d, -1)
            inside = middle_basis.unsqueeze(1) @ middle
            cores = inside if self.keeps else middle - middle_basis.mT.unsqueeze(1) @ inside
        return self._inside(cores.view(count, -1, self.d), others[-1]) if others else cores

    def _codes(self, candidates: Tensor) -> Tensor:
        """The flat cores (*, k1^p) that compact candidates (*, p, k1) are in every context."""
        # Each component with its own scale: the product of those of several zeros would be infinite.
        return outer((candidates * inverse_norm(candidates, dim=-1).unsqueeze(-1)).unbind(-2))

    def _compact_match(self, cores: Tensor, candidates: Tensor) -> Tensor:
        flat = cores.flatten(1)
        if candidates.dim() == 2:  # made ready
            return flat @ candidates.mT
        if candidates.dim() == 3:
            if 3 * len(flat) > self.k1 ** (self.p // 2):
                return flat @ self._codes(candidates).mT
            # So few contexts do not pay for making codes.
            return contract(cores, candidates.permute(1, 2, 0).unsqueeze(1).expand(-1, len(flat), -1, -1))
        # Each context its own: their codes would not fit into the workspace all together.
        rows = slices(len(flat), self._rows(2 * candidates.shape[1] * self.code))
        return torch.cat(
            [torch.bmm(self._codes(candidates[some]), flat[some].unsqueeze(2)).squeeze(2) for some in rows]
        )

    def _match(self, cores: Tensor, contexts: Subspaces, candidates: Tensor) -> Tensor:
        if self.compact:
            return self._compact_match(cores, candidates)
        basis, count, total = contexts.basis, len(cores), candidates.shape[-3]
        if candidates.dim() == 4:  # each context its own
            inside = self._inside(candidates.flatten(1, 2), basis).unflatten(1, candidates.shape[1:3])
            return contract(cores, inside.permute(2, 0, 3, 1))
        number, size = blocks(total)
        if number == 1:
            columns = candidates.permute(1, 2, 0)  # (p, d, L)
            inside = torch.bmm(basis.reshape(-1, self.d).expand(self.p, -1, -1), columns)
            inside = inside.view(self.p, count, self.rank, total)
            inside = inside if self.keeps else columns.unsqueeze(1) - basis.mT @ inside
            return contract(cores, inside)
        if number * size < total:
            first, rest = candidates[: number * size], candidates[number * size :]
            return torch.cat([self._match(cores, contexts, part) for part in (first, rest)], dim=1)
        wide = basis.reshape(-1, self.d)
        columns = candidates.transpose(0, 1).unflatten(1, (number, size)).mT  # (p, blocks, d, size)
        if columns.stride(0) == number * columns.stride(1):
            inside = torch.bmm(wide.expand(self.p * number, -1, -1), columns.flatten(0, 1))
        else:  # here flattening would copy the candidates
            inside = torch.stack([torch.bmm(wide.expand(number, -1, -1), part) for part in columns])
        inside = inside.view(self.p, number * count, self.rank, size)
        if not self.keeps:
            lifted = basis.mT @ inside.unflatten(1, (number, count))  # (p, blocks, n, d, size)
            inside = (columns.unsqueeze(2) - lifted).flatten(1, 2)
        scores = contract(cores.expand(number, *cores.shape).flatten(0, 1), inside)
        return scores.view(number, count, size).transpose(0, 1).reshape(count, total)

    def _mixed(self, weights: Tensor, contexts: Subspaces, candidates: Tensor) -> Tensor:
        if self.compact:
            return super()._mixed(weights, contexts, candidates)
        basis, total = contexts.basis, len(candidates)
        columns = candidates.permute(1, 2, 0)  # (p, d, L)
        inside = torch.bmm(basis.reshape(-1, self.d).expand(self.p, -1, -1), columns)
        inside = inside.view(self.p, len(contexts), self.rank, total)
        inside = inside if self.keeps else columns.unsqueeze(1) - basis.mT @ inside
        first, *rest = (inside * inverse_norm(inside, dim=2).unsqueeze(2)).unbind(0)
        parts, half = [first * weights.unsqueeze(1), *rest], self.p // 2
        right = columns_outer(parts[half:])
        mixed = torch.bmm(columns_outer(parts[:half]), right.mT) if half else right.sum(2)
        return mixed.reshape(-1, *self.core_shape)

    def _evened(self, memory: Tensor) -> Tensor:
        # Components that share a basis have traces: a^T B B^T b does not average out over contexts. Taken out pair of
        # modes by pair of modes, they come back a little, by 1/d of themselves; twice is enough.
        if self.compact or self.p == 1:
            return memory
        even = memory.clone()
        for first, second in 2 * tuple(combinations(range(self.p), 2)):
            diagonal = even.diagonal(dim1=first, dim2=second)
            diagonal -= diagonal.mean(-1, keepdim=True)
        return even

    # The numbers that stand beside each other, for the size of chunks

    def _pair_numbers(self) -> int:
        half = (self.p + 1) // 2
        vectors = self.p * (self.side + 2 * self.d)
        return math.prod(self._basis_shape) + vectors + self.d**half + self.d ** (self.p - half)

    def _core_numbers(self) -> int:
        slabs = self.d * self.side ** (self.p - 1) if self.p > 3 else 0
        return (
            2 * math.prod(self._basis_shape)
            + slabs
            + 2 * self.side * self.d ** (min(self.p, 3) - 1)
            + 2 * self.side**self.p
        )

    def _context_numbers(self, depth: int) -> int:
        return 2 * math.prod(self._basis_shape)  # a path is hashed, however deep it is

    def _tile(self, rows: int, columns: int) -> tuple[int, int]:
        if self.compact:  # as many contexts as there are: candidates are made into codes once for all of them
            columns = min(columns, max(BLOCK, self._rows(2 * self.k1**self.p)))
            return min(rows, max(16, self._rows(columns))), columns
        half = self.p // 2
        cells = self._rows(self.p * self.side + self.side ** (self.p - half) + 2 * self.side**half + 4)
        rows = min(rows, 16, cells)  # about 16 contexts at once make good products, of tensors that stay in the caches
        return rows, min(columns, cells // rows, BLOCK if rows >= 8 else columns)
