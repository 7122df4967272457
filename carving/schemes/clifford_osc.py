"""Orthogonal Subspace Carving in Clifford algebra (section 4.7 of the paper): blades instead of tensors.

A context is a subspace, a filler p vectors, a bound filler the unit blade of the vectors' parts in that subspace, and
the memory has binom(d, p) numbers instead of d^p.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from carving import hashing
from carving.clifford.blades import determinant, expand, total
from carving.clifford.elements import Blades
from carving.clifford.grades import fold, leading, unfold, wedge_rows
from carving.errors import BadType
from carving.hashing import Bits
from carving.schemes.base import Contexts, Facts
from carving.schemes.context_verbs import ContextVerbs
from carving.symbols.paths import Paths
from carving.tensors import BLOCK
from carving.tiling import Cost
from carving.validate import check_integer

CACHE = 2**19  # numbers that the caches hold, so that many small steps take less time than one large one


@dataclass(frozen=True, eq=False)
class KeptBlades(Contexts):
    """The contexts of CliffordOSC: an orthonormal basis of the kept subspace, and a sign."""

    basis: Tensor  # (n, k1, d)
    signs: Tensor  # (n,)


@dataclass(frozen=True, repr=False)
class CliffordOSC(ContextVerbs[KeptBlades]):
    """Orthogonal Subspace Carving in Clifford algebra: a memory is a multivector of grade p in R^d.

    A memory has binom(d, p) cells. A filler is p vectors; binding rejects them by the blade of the context (grade
    d - k1, its forbidden directions), wedges them and normalizes. A score is the inner product with the memory. All
    computations use coordinates of the kept subspace, where a bound filler has binom(k1, p) numbers.

    Args:
        d: Dimension of the space, more than p.
        p: Grade of the memory, 1 to 4.
        k1: Dimensions that a context keeps, p to d - 1. By default binom(k1, p) is about the square root of the number
            of cells, as in OSC.
        signed: Give every context a random sign, as in OSC.
        seed, dtype, device, workspace: As in `Scheme`.

    >>> CliffordOSC(d=60, p=2).facts.memory_shape
    (1770,)
    """

    name = "CliffordOSC"
    d: int
    p: int = 2
    k1: int = None  # type: ignore[assignment]  # as above, once it is made
    signed: bool = True
    workspace: int = field(default=32 * 2**20, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        p = check_integer("p", self.p, 1, 4, "a memory has binom(d, p) cells")
        way_out = "it is the dimension of the space; contexts keep p to d - 1 dimensions of it"
        d = check_integer("d", self.d, p + 1, way_out=way_out)
        usual = next((k for k in range(p, d - 1) if math.comb(k, p) ** 2 >= math.comb(d, p)), d - 1)
        way_out = f"a wedge of p={p} vectors needs {p} dimensions, and k1 = d carves nothing; the default is {usual}"
        k1 = check_integer("k1", usual if self.k1 is None else self.k1, p, d - 1, way_out)
        if not isinstance(self.signed, bool):
            raise BadType(f"signed must be True or False, got {self.signed!r}. The paper has signed=False.")
        vars(self).update(d=d, p=p, k1=k1)
        super().__post_init__()

    @cached_property
    def facts(self) -> Facts:
        """Shapes, costs and laws of the scheme; its interference equals that of random directions for every k1."""
        d, p, k1, more, less = self.d, self.p, self.k1, (self.p + 1) // 2, self.p // 2
        steps = [k1**done * d * math.comb(d, p - 1 - done) for done in range(1, p)]
        cost = Cost(
            pair=2 * d * (k1 + p) + 4 * (math.comb(d, more) + math.comb(d, less)),
            core=d * k1 + 3 * max([k1, *steps]) + 2 * k1**p,
            context=2 * d * k1,  # a path is hashed, however deep it is
            cell=p * k1 + 4 * math.comb(k1, more) + 2 * math.comb(k1, less) + p * p,
            max_contexts=16,  # as in OSC
            max_candidates=BLOCK,
        )
        return Facts(
            filler_shape=(p, d),
            core_shape=(math.comb(k1, p),),  # a multivector of grade p in the kept subspace
            memory_shape=(math.comb(d, p),),
            memory_dtype=self.dtype,
            filler_dtype=self.dtype,
            filler_words=hashing.words_for_normals(p * d),
            context_kind=repr(self),
            cost=cost,
            filler_scalars=p * d,
            memory_scalars=math.comb(d, p),
            filler_layout=(1, 0, 2),
            contextual=True,
            echo=overlap_in_two_contexts(d, p, k1),
        )

    # Labels -> fillers and contexts

    def _fillers(self, words: Bits) -> Tensor:
        return hashing.normals(words)[:, : self.p * self.d].reshape(-1, self.p, self.d)

    def _contexts(self, paths: Paths) -> KeptBlades:
        basis, words = hashing.bases(
            paths.names, (self.k1, self.d), seed=self.seed, purpose="clifford context", dtype=self.dtype
        )
        signs = hashing.signs(words, 1).squeeze(1) if self.signed else torch.ones(len(paths))
        return KeptBlades(basis.to(self.device), signs.to(self.device, self.dtype), kind=self.facts.context_kind)

    def forbidden(self, contexts: KeptBlades) -> Blades:
        """Return the contexts as in the paper: unit blades of grade d - k1 of the forbidden directions."""
        whole = torch.linalg.qr(contexts.basis.mT, mode="complete").Q
        return Blades(whole[..., self.k1 :].mT)

    # The verbs

    def _inside(self, fillers: Tensor, contexts: KeptBlades) -> Tensor:
        """Vectors (n, p, k1) of the bound blades, the first of them divided by the norm."""
        inside = torch.bmm(fillers, contexts.basis.mT)
        gram = torch.bmm(inside, inside.mT)
        scale = inverse_volume(determinant(gram), gram.diagonal(dim1=1, dim2=2).prod(1))
        return torch.cat([inside[:, :1] * scale[:, None, None], inside[:, 1:]], dim=1)

    def _encode(self, fillers: Tensor, contexts: KeptBlades) -> Tensor:
        return expand(Blades(self._inside(fillers, contexts))).coordinates.contiguous()

    def _add(self, memory: Tensor, contexts: KeptBlades, fillers: Tensor, weights: Tensor | None) -> None:
        bound = torch.bmm(self._inside(fillers, contexts), contexts.basis)
        scale = contexts.signs if weights is None else contexts.signs * weights
        memory += total(Blades(bound), scale).coordinates

    def _write(self, cores: Tensor, contexts: KeptBlades) -> Tensor:
        signed = cores * contexts.signs.unsqueeze(1)
        # What each kept direction is wedged with, in R^d; then all wedges with it in one product.
        rest = self._lift(unfold(signed, self.k1, 1, self.p - 1), contexts.basis, self.p - 1)
        matrix = contexts.basis.flatten(0, 1).mT @ rest.flatten(0, 1)
        return matrix.flatten().index_select(0, leading(self.d, 1, self.p - 1, matrix.device))

    def _read(self, memory: Tensor, contexts: KeptBlades) -> Tensor:
        # The first direction for all contexts in one product, then the others of each.
        rows = contexts.basis.flatten(0, 1) @ unfold(memory, self.d, 1, self.p - 1)
        few = max(1, CACHE // (self.k1 * self.d ** (self.p - 1)))
        parts = zip(rows.unflatten(0, (-1, self.k1)).split(few), contexts.basis.split(few), strict=True)
        inside = torch.cat([self._lower(few_rows, basis, self.p - 1) for few_rows, basis in parts])
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

    def _match(self, cores: Tensor, contexts: KeptBlades, candidates: Tensor) -> Tensor:
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

    def _expected(self, weights: Tensor, contexts: KeptBlades, candidates: Tensor) -> Tensor:
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


def overlap_in_two_contexts(d: int, p: int, k1: int) -> float:
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
