"""Carving in Clifford algebra (section 4.7 of the paper): OSC with blades in the place of tensors.

A context is a subspace, a filler p vectors, a bound filler the unit blade of the vectors' parts in that subspace, and
the memory has binom(d, p) numbers instead of d^p.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from carving import draws, symbols
from carving.checks import check_device, check_integer, check_real_dtype
from carving.chunks import slices
from carving.clifford.blades import Blades, determinant, expand, total
from carving.clifford.grades import fold, leading, unfold, wedge_rows
from carving.draws import Bits
from carving.errors import BadType
from carving.scheme import Contexts, Facts, Scheme
from carving.symbols import Path
from carving.tensors import BLOCK, orthonormal

CACHE = 2**19  # numbers that the caches hold, so that many small steps take less time than one large one


@dataclass(frozen=True, eq=False)
class Kept(Contexts):
    """The contexts of CliffordOSC: orthonormal vectors whose wedge is the unit blade of what is kept, and a sign."""

    basis: Tensor  # (n, k1, d)
    signs: Tensor  # (n,)


@dataclass(frozen=True, init=False)
class CliffordOSC(Scheme):
    """A multivector of grade p in R^d, binom(d, p) numbers; contexts keep k1 of the d dimensions, p at least.

    A filler is p vectors. Rejected by the context's blade (of grade d - k1: the forbidden directions) and wedged they
    are a blade again, which is normalised, and the score is its inner product with the memory. Everything happens in
    the coordinates of the kept subspace, where a bound filler has binom(k1, p) numbers: by default the square root of
    the memory's, as in OSC. `signed` is as in OSC, too.
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
        workspace: int = 32 * 2**20,
    ) -> None:
        p = check_integer("p", p, 1, 4, "memories have binom(d, p) cells")
        d = check_integer("d", d, p + 1, way_out="it is the dimension of the space, and contexts keep p to d - 1 of it")
        usual = next((k for k in range(p, d - 1) if math.comb(k, p) ** 2 >= math.comb(d, p)), d - 1)
        way_out = f"fewer than p={p} dimensions leave no wedge, d={d} forbid nothing; {usual} is usual"
        if not isinstance(signed, bool):
            raise BadType(f"signed must be True or False, got {signed!r}; False is the paper's form")
        values: dict[str, Any] = dict(
            d=d,
            p=p,
            k1=check_integer("k1", usual if k1 is None else k1, p, d - 1, way_out),
            signed=signed,
            seed=check_integer("seed", seed, 0, 2**64 - 1, "any integer from 0 on will do"),
            dtype=check_real_dtype(dtype),
            device=check_device(device),
            workspace=check_integer("workspace", workspace, 1, way_out="it is a number of bytes"),
        )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """The p vectors of a filler, d numbers each."""
        return (self.p, self.d)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """A multivector of grade p in the kept subspace."""
        return (math.comb(self.k1, self.p),)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """A multivector of grade p."""
        return (math.comb(self.d, self.p),)

    @property
    def memory_dtype(self) -> torch.dtype:
        """The scheme's own."""
        return self.dtype

    @property
    def facts(self) -> Facts:
        """What is true of CliffordOSC; interference is exactly that of random directions, whatever k1."""
        return Facts(
            exact=True,
            adjoint=True,
            self_inverse=False,
            commutative=False,
            associative=False,
            contextual=True,
            linear=True,
            filler_scalars=self.p * self.d,
            memory_scalars=math.comb(self.d, self.p),
            echo=likeness(self.d, self.p, self.k1),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the scheme again."""
        return dict(d=self.d, p=self.p, k1=self.k1, signed=self.signed, seed=self.seed)

    # Labels -> fillers and contexts

    @property
    def _filler_words(self) -> int:
        return draws.words_for_normals(self.p * self.d)

    def _fillers(self, words: Bits) -> Tensor:
        return draws.normals(words)[:, : self.p * self.d].reshape(-1, *self.filler_shape)

    def _empty_fillers(self, count: int) -> Tensor:
        # Vector by vector, as `_match` reads them.
        return torch.empty(self.p, count, self.d, dtype=self.dtype, device="cpu").transpose(0, 1)

    def _fit(self, contexts: Contexts) -> bool:
        return isinstance(contexts, Kept) and contexts.basis.shape[1:] == (self.k1, self.d)

    def _contexts(self, paths: Sequence[Path]) -> Kept:
        count, words = len(paths), draws.words_for_normals(self.k1 * self.d)
        basis = torch.empty(count, self.k1, self.d, dtype=self.dtype, device="cpu")
        signs = torch.ones(count, dtype=self.dtype, device="cpu")
        for rows in slices(count, draws.rows_in_cache(words)):
            names = map(symbols.canonical_path, paths[rows])
            drawn = draws.bits(names, 1 + words, seed=self.seed, purpose="clifford context")
            gaussian = draws.normals(drawn[:, 1:])[:, : self.k1 * self.d].unflatten(-1, (self.k1, self.d))
            basis[rows] = orthonormal(gaussian)
            if self.signed:
                signs[rows] = draws.signs(drawn[:, :1], 1).squeeze(1).to(self.dtype)
        return Kept(basis.to(self.device), signs.to(self.device))

    def forbidden(self, contexts: Kept) -> Blades:
        """The contexts as the paper writes them: unit blades of grade d - k1, by which fillers are rejected."""
        whole = torch.linalg.qr(contexts.basis.mT, mode="complete").Q
        return Blades(whole[..., self.k1 :].mT)

    # The verbs

    def _inside(self, fillers: Tensor, contexts: Kept) -> Tensor:  # (n, p, k1), the first vector divided by the norm
        inside = torch.bmm(fillers, contexts.basis.mT)
        gram = torch.bmm(inside, inside.mT)
        scale = inverse_volume(determinant(gram), gram.diagonal(dim1=1, dim2=2).prod(1))
        return torch.cat([inside[:, :1] * scale[:, None, None], inside[:, 1:]], dim=1)

    def _encode(self, fillers: Tensor, contexts: Kept) -> Tensor:
        return expand(Blades(self._inside(fillers, contexts))).coordinates.contiguous()

    def _add(self, memory: Tensor, contexts: Kept, fillers: Tensor, weights: Tensor | None) -> None:
        bound = torch.bmm(self._inside(fillers, contexts), contexts.basis)
        scale = contexts.signs if weights is None else contexts.signs * weights
        memory += total(Blades(bound), scale).coordinates

    def _write(self, cores: Tensor, contexts: Kept) -> Tensor:
        signed = cores * contexts.signs.unsqueeze(1)
        # What each kept direction is wedged with, in R^d; then all wedges with it in one product.
        rest = self._lift(unfold(signed, self.k1, 1, self.p - 1), contexts.basis, self.p - 1)
        matrix = contexts.basis.flatten(0, 1).mT @ rest.flatten(0, 1)
        return matrix.flatten().index_select(0, leading(self.d, 1, self.p - 1, matrix.device))

    def _read(self, memory: Tensor, contexts: Kept) -> Tensor:
        # The first direction for all contexts in one product, then the others of each.
        rows = contexts.basis.flatten(0, 1) @ unfold(memory, self.d, 1, self.p - 1)
        few = max(1, CACHE // (self.k1 * self.d ** (self.p - 1)))
        parts = zip(rows.unflatten(0, (-1, self.k1)).split(few), contexts.basis.split(few), strict=True)
        inside = torch.cat([self._lower(some, basis, self.p - 1) for some, basis in parts])
        cores = inside.flatten(1).index_select(1, leading(self.k1, 1, self.p - 1, memory.device))
        return cores * contexts.signs.unsqueeze(1)

    def _lower(self, rows: Tensor, basis: Tensor, grade: int) -> Tensor:
        """Multivectors of R^d as the kept subspaces see them: (n, m, binom(d, grade)) -> (n, m, binom(k1, grade))."""
        return self._carried(rows, basis.mT, self.d, self.k1, grade)

    def _lift(self, rows: Tensor, basis: Tensor, grade: int) -> Tensor:
        """The transpose of `_lower`."""
        return self._carried(rows, basis, self.k1, self.d, grade)

    def _carried(self, rows: Tensor, maps: Tensor, n: int, m: int, grade: int) -> Tensor:
        """Rows of multivectors of R^n carried to R^m by each context's own map (n x m), the last direction first."""
        if grade == 0:
            return rows
        if grade == 1:
            return torch.bmm(rows, maps)
        matrices = unfold(rows, n, grade - 1, 1)  # (b, rows, binom(n, grade - 1), n)
        last = torch.bmm(matrices.flatten(1, 2), maps).unflatten(1, matrices.shape[1:3])
        turned = last.transpose(2, 3)  # (b, rows, m, binom(n, grade - 1))
        done = self._carried(turned.flatten(1, 2), maps, n, m, grade - 1).unflatten(1, turned.shape[1:3])
        return done.transpose(2, 3).flatten(2).index_select(2, leading(m, grade - 1, 1, rows.device))

    def _match(self, cores: Tensor, contexts: Kept, candidates: Tensor) -> Tensor:
        basis, half = contexts.basis, self.p // 2
        if candidates.dim() == 4:  # each context its own: (n, m, p, d)
            inside = torch.einsum("nkd,nmpd->pnkm", basis, candidates)
        else:
            columns = candidates.permute(1, 2, 0)  # (p, d, L)
            inside = torch.bmm(basis.reshape(-1, self.d).expand(self.p, -1, -1), columns)
            inside = inside.unflatten(1, basis.shape[:2])
        parts = inside.unbind(0)  # p of (n, k1, m), a candidate a column
        scores = torch.bmm(unfold(cores, self.k1, half, self.p - half), self._wedged(parts[half:]))
        scores = (scores * self._wedged(parts[:half]) if half else scores).sum(1)
        return scores * self._inverse_volumes(parts)

    def _mixed(self, weights: Tensor, contexts: Kept, candidates: Tensor) -> Tensor:
        columns, half = candidates.permute(1, 2, 0), self.p // 2  # (p, d, L)
        inside = torch.bmm(contexts.basis.reshape(-1, self.d).expand(self.p, -1, -1), columns)
        parts = inside.unflatten(1, contexts.basis.shape[:2]).unbind(0)  # p of (n, k1, m)
        right = self._wedged(parts[half:]) * (weights * self._inverse_volumes(parts)).unsqueeze(1)
        if not half:
            return right.sum(2)
        return fold(torch.bmm(self._wedged(parts[:half]), right.mT), self.k1, half, self.p - half)

    def _inverse_volumes(self, parts: Sequence[Tensor]) -> Tensor:
        """One over the volumes (n, m) that candidates' parts in the subspace span."""
        dots = [[(a * b).sum(1) for b in parts[: i + 1]] for i, a in enumerate(parts)]
        return inverse_volume(gram_determinant(dots), torch.stack([row[-1] for row in dots]).prod(0))

    def _wedged(self, parts: Sequence[Tensor]) -> Tensor:
        """The wedges of columns (n, k1, m), one or two of them."""
        return parts[0] if len(parts) == 1 else wedge_rows(parts[0], parts[1], self.k1, 1, 1, dim=1)

    # The numbers that stand beside each other, for the size of chunks

    def _pair_numbers(self) -> int:
        half = (self.p + 1) // 2
        return 2 * self.d * (self.k1 + self.p) + 4 * (math.comb(self.d, half) + math.comb(self.d, self.p - half))

    def _core_numbers(self) -> int:
        steps = [self.k1**made * self.d * math.comb(self.d, self.p - 1 - made) for made in range(1, self.p)]
        return self.d * self.k1 + 3 * max([self.k1, *steps]) + 2 * self.k1**self.p

    def _context_numbers(self, depth: int) -> int:
        return 2 * self.d * self.k1  # a path is hashed, however deep it is

    def _tile(self, rows: int, columns: int) -> tuple[int, int]:
        half = self.p // 2
        wide = 4 * math.comb(self.k1, self.p - half) + 2 * math.comb(self.k1, half)
        cells = self._rows(self.p * self.k1 + wide + self.p * self.p)
        rows = min(rows, 16, cells)  # as in OSC: about 16 contexts at once make good products
        return rows, min(columns, cells // rows, BLOCK if rows >= 8 else columns)


def likeness(d: int, p: int, k1: int) -> float:
    """The mean square of what one filler, bound in two contexts, has in common, times binom(d, p); exact.

    A bound blade has parts that keep p - q directions of the filler's own subspace and q orthogonal to it. The squared
    norm of each is hypergeometric in the mean, and those of two contexts lie as independently as their spaces allow.
    """
    total = math.comb(d, p)
    shares = [(q, math.comb(k1, p - q) * math.comb(d - k1, q) / total) for q in range(p + 1)]
    spaces = [math.comb(p, q) * math.comb(d - p, q) for q in range(p + 1)]
    return total * sum(share**2 / spaces[q] for q, share in shares if share)


def inverse_volume(squared: Tensor, sides: Tensor) -> Tensor:
    """One over the volumes that vectors span, given squared, as is the product of their lengths.

    Where they depend on each other up to rounding they bind to nothing, not to its direction at random.
    """
    spans = squared > 8 * torch.finfo(squared.dtype).eps * sides
    return torch.where(spans, squared, 1.0).rsqrt() * spans


def gram_determinant(dots: Sequence[Sequence[Tensor]]) -> Tensor:
    """The determinants of inner products, of which row i has those with vectors 0 to i.

    Small ones are written out: to lay out a matrix for each candidate would take longer than everything else.
    """
    match len(dots):
        case 1:
            return dots[0][0]
        case 2:
            return dots[0][0] * dots[1][1] - dots[1][0].square()
        case 3:
            (aa,), (ab, bb), (ac, bc, cc) = dots
            return aa * (bb * cc - bc.square()) - ab * (ab * cc - bc * ac) + ac * (ab * bc - bb * ac)
    every = range(len(dots))
    rows = [torch.stack([dots[max(i, j)][min(i, j)] for j in every], dim=-1) for i in every]
    return determinant(torch.stack(rows, dim=-2))
