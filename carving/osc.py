"""Orthogonal Subspace Carving: a filler's p components, projected into the context's subspace and normalised.

A context keeps a random subspace of k1 of the d dimensions. Everything happens in the coordinates of that
subspace, where a bound filler is the outer product of p unit vectors of length k1: the scores are those of the
paper's formulas, and no d x d projector and no d^p tensor per candidate is ever made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import draws
from carving.checks import check_dtype, check_integer
from carving.draws import Bits, Path
from carving.scheme import Contexts, Scheme

BLOCK = 512  # candidates in one small product: BLAS packs blocks of this size in its cache


@dataclass(frozen=True, eq=False)
class Subspaces(Contexts):
    """The contexts of OSC: orthonormal columns that span the kept or the forbidden directions, and a sign."""

    basis: Tensor  # (n, d, rank)
    signs: Tensor  # (n,)


@dataclass(frozen=True, init=False)
class OSC(Scheme):
    """An order-p tensor of side d; contexts keep k1 dimensions, by default round(sqrt(d)).

    `carved=k` is the paper's other reading, k forbidden directions: k1 = d - k. Of the two bases the smaller
    one is drawn and held. Where more than half of the space is kept, cores have d^p numbers instead of k1^p.
    `signed` gives every context a random sign, so that a filler stored in many contexts does not add up to a
    bias in all others; `signed=False` is the paper.
    """

    d: int
    p: int
    k1: int
    signed: bool
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
        workspace: int = 32 * 2**20,
    ) -> None:
        check_integer("d", d, 2)
        check_integer("p", p, 1, 4, "memories have d^p cells")
        if carved is not None:
            if k1 is not None:
                raise ValueError(f"give either k1 or carved = d - k1, got k1={k1} and carved={carved}")
            check_integer("carved", carved, 1, d - 1)
            k1 = d - carved
        elif k1 is None:
            k1 = round(math.sqrt(d))
        check_integer("k1", k1, 1, d - 1, f"round(sqrt(d)) = {round(math.sqrt(d))} is a good start")
        if not isinstance(signed, bool):
            raise TypeError(f"signed must be True or False, got {signed!r}")
        check_integer("seed", seed, 0, 2**64 - 1)
        check_dtype(dtype, (torch.float32, torch.float64))
        check_integer("workspace", workspace, 1, way_out="it is a number of bytes")
        values: dict[str, Any] = dict(d=d, p=p, k1=k1, signed=signed, seed=seed)
        values |= dict(dtype=dtype, device=torch.device(device), workspace=workspace)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def keeps(self) -> bool:
        """Whether bases span the kept directions; if not, they span the forbidden ones."""
        return 2 * self.k1 <= self.d

    @property
    def rank(self) -> int:
        """The columns of a basis."""
        return self.k1 if self.keeps else self.d - self.k1

    @property
    def side(self) -> int:
        """The side of a core."""
        return self.k1 if self.keeps else self.d

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """The p components of a filler, d numbers each."""
        return (self.p, self.d)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """A small tensor of order p."""
        return (self.side,) * self.p

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """A tensor of order p and side d."""
        return (self.d,) * self.p

    @property
    def adjoint(self) -> bool:
        """`read` is the transpose of `write`."""
        return True

    # Labels -> fillers and contexts

    @property
    def _filler_words(self) -> int:
        return draws.words_for_normals(self.p * self.d)

    def _fillers(self, words: Bits) -> Tensor:
        numbers = draws.normals(words)[:, : self.p * self.d].unflatten(-1, self.filler_shape)
        # Held component by component, as `_match` reads them.
        return numbers.to(self.dtype).transpose(0, 1).contiguous().transpose(0, 1)

    def _contexts(self, paths: Sequence[Path]) -> Subspaces:
        count, words = len(paths), draws.words_for_normals(self.rank * self.d)
        basis = torch.empty(count, self.d, self.rank, dtype=self.dtype)
        signs = torch.ones(count, dtype=self.dtype)
        chunk = max(1, 2**20 // words)  # small enough for the cache
        for start in range(0, count, chunk):
            rows = slice(start, start + chunk)
            names = map(draws.canonical_path, paths[rows])
            drawn = draws.bits(names, 1 + words, seed=self.seed, purpose="context")
            gaussian = draws.normals(drawn[:, 1:])[:, : self.rank * self.d].unflatten(-1, (self.rank, self.d))
            basis[rows] = orthonormal(gaussian.mT)
            if self.signed:
                signs[rows] = draws.signs(drawn[:, :1], 1).squeeze(1).to(self.dtype)
        return Subspaces(basis.to(self.device), signs.to(self.device))

    # Vectors of the space <-> coordinates of the subspace, as columns: (n, d, m) <-> (n, side, m)

    def _inside(self, basis: Tensor, columns: Tensor) -> Tensor:
        inside = basis.mT @ columns
        return inside if self.keeps else columns - basis @ inside

    def _outside(self, basis: Tensor, columns: Tensor) -> Tensor:
        return basis @ columns if self.keeps else columns - basis @ (basis.mT @ columns)

    def _components(self, fillers: Tensor, contexts: Subspaces) -> Tensor:  # (n, side, p), unit columns
        return normalize(self._inside(contexts.basis, fillers.mT), dim=1)

    # The verbs

    def _encode(self, fillers: Tensor, contexts: Subspaces) -> Tensor:
        return outer(self._components(fillers, contexts).unbind(-1)).unflatten(1, self.core_shape)

    def _add(self, memory: Tensor, contexts: Subspaces, fillers: Tensor, weights: Tensor | None) -> Tensor:
        bound = self._outside(contexts.basis, self._components(fillers, contexts))  # (n, d, p)
        scale = contexts.signs if weights is None else contexts.signs * weights
        first, *rest = bound.unbind(-1)
        vectors = [first * scale.unsqueeze(1), *rest]
        half = (self.p + 1) // 2
        left, right = outer(vectors[:half]), outer(vectors[half:] or [torch.ones_like(scale).unsqueeze(1)])
        return torch.addmm(memory.view(left.shape[1], -1), left.mT, right).view(self.memory_shape)

    def _write(self, cores: Tensor, contexts: Subspaces) -> Tensor:
        signed = cores * contexts.signs.view(-1, *(1,) * self.p)
        # Every mode but the first context by context, the last of them being the fastest to reach.
        for mode in range(self.p, 1, -1):
            signed = self._along(self._outside, contexts.basis, signed, mode)
        flat = signed.flatten(2) if self.p > 1 else signed.unsqueeze(2)  # (n, side, d^(p-1))
        if not self.keeps:
            return self._outside(contexts.basis, flat).sum(0).view(self.memory_shape)
        # The first mode and the sum over contexts are one product.
        wide = contexts.basis.transpose(0, 1).flatten(1)  # (d, n k1)
        return (wide @ flat.flatten(0, 1)).view(self.memory_shape)

    def _read(self, memory: Tensor, contexts: Subspaces) -> Tensor:
        count, flat = len(contexts), memory.view(self.d, -1)
        if self.keeps:
            wide = contexts.basis.transpose(0, 1).reshape(self.d, -1)  # (d, n k1)
            cores = (wide.mT @ flat).view(count, self.k1, *self.memory_shape[1:])
        else:
            cores = self._inside(contexts.basis, flat.expand(count, -1, -1)).view(count, *self.memory_shape)
        for mode in range(2, self.p + 1):
            cores = self._along(self._inside, contexts.basis, cores, mode)
        return cores * contexts.signs.view(-1, *(1,) * self.p)

    def _along(self, change: Any, basis: Tensor, cores: Tensor, mode: int) -> Tensor:
        """One mode of each context's tensor taken in or out of its subspace."""
        before, after = cores.shape[1:mode], cores.shape[mode + 1 :]
        if not after:  # the last mode: rows are columns of the transpose
            return change(basis, cores.flatten(1, mode - 1).mT).mT.unflatten(1, before)
        matrices = cores.flatten(1, mode - 1).flatten(3)  # (n, before, this, after)
        return change(basis.unsqueeze(1), matrices).unflatten(1, before).unflatten(-1, after)

    def _match(self, cores: Tensor, contexts: Subspaces, candidates: Tensor) -> Tensor:
        if candidates.dim() == 4:  # each context its own
            components = [self._inside(contexts.basis, own.mT) for own in candidates.unbind(2)]
            return contract(cores, components)
        number, size = blocks(len(candidates))
        scores = self._match_blocks(cores, contexts.basis, candidates[: number * size], number)
        if number * size < len(candidates):
            rest = self._match_blocks(cores, contexts.basis, candidates[number * size :], 1)
            scores = torch.cat((scores, rest), dim=1)
        return scores

    def _match_blocks(self, cores: Tensor, basis: Tensor, candidates: Tensor, number: int) -> Tensor:
        """Scores (n, L) of L candidates, in `number` blocks of equal size."""
        wide = basis.transpose(0, 1).reshape(self.d, -1).mT.expand(number, -1, -1)  # (blocks, n rank, d)
        components = []
        for vectors in candidates.unbind(1):
            columns = vectors.unflatten(0, (number, -1)).mT  # (blocks, d, size)
            inside = torch.bmm(wide, columns).unflatten(1, (-1, self.rank))  # (blocks, n, rank, size)
            components.append(inside if self.keeps else columns.unsqueeze(1) - basis @ inside)
        return contract(cores, components).transpose(0, 1).flatten(1)

    # The numbers that stand beside each other, for the size of chunks

    def _pair_numbers(self) -> int:
        half = (self.p + 1) // 2
        vectors = self.p * (self.side + 2 * self.d)
        return self.d * self.rank + vectors + self.d**half + self.d ** (self.p - half)

    def _core_numbers(self) -> int:
        return self.d * self.rank + 2 * self.side * self.d ** (self.p - 1) + 2 * self.side**self.p

    def _match_numbers(self) -> int:
        half = self.p // 2
        return self.p * self.side + self.side ** (self.p - half) + 2 * self.side**half + 4


def orthonormal(columns: Tensor) -> Tensor:
    """The columns, orthonormalised one after the other (Gram-Schmidt): one answer, whatever computes it."""
    basis, upper = torch.linalg.qr(columns)
    # A QR leaves the columns' signs open; the positive diagonal settles them.
    flipped = upper.diagonal(dim1=-2, dim2=-1).lt(0)
    return torch.where(flipped.unsqueeze(-2), -basis, basis)


def outer(vectors: Sequence[Tensor]) -> Tensor:
    """The outer products of n rows of vectors, flattened: (n, s) each -> (n, s^m)."""
    product = vectors[0]
    for vector in vectors[1:]:
        product = (product.unsqueeze(-1) * vector.unsqueeze(-2)).flatten(-2)
    return product


def contract(cores: Tensor, components: Sequence[Tensor]) -> Tensor:
    """The cores' inner products with outer products of normalised components, not formed whole.

    (n, s, ..., s) with p components (..., n, s, m), a candidate a column, gives (..., n, m).
    """
    half = len(components) // 2
    right = _columns_outer(components[half:])  # (..., n, s^(p-half), m)
    inner = cores.reshape(len(cores), -1, right.shape[-2]) @ right
    if half:
        inner = inner * _columns_outer(components[:half])
    scores = inner.sum(-2)
    # Dividing m scores is cheaper than normalising s m components.
    for component in components:
        square = component.square().sum(-2)
        scores = scores * square.clamp_min(torch.finfo(square.dtype).tiny).rsqrt()
    return scores


def _columns_outer(components: Sequence[Tensor]) -> Tensor:
    product = components[0]
    for component in components[1:]:
        product = (product.unsqueeze(-2) * component.unsqueeze(-3)).flatten(-3, -2)
    return product


def blocks(count: int) -> tuple[int, int]:
    """Number and size of equal blocks of about BLOCK that leave few or none of `count` over."""
    number = max(1, count // BLOCK)
    number = min(range(number, number + 8), key=lambda n: count % n) if number > 1 else 1
    return number, count // number
