"""Tensor products and carving in Clifford algebra (section 4.7 and appendix C of the paper).

`CliffordTPR` binds by wedging orthonormal roles with a filler and unbinds by contraction. `CliffordOSC` is OSC with
blades in the place of tensors: a context is a subspace, a filler p vectors, a bound filler the unit blade of the
vectors' parts in that subspace, and the memory has binom(d, p) numbers instead of d^p.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from carving import draws
from carving.blades import WORKSPACE, Blades, Multivectors, contract, contract_sum, determinant, expand, total
from carving.checks import as_path, check_choice, check_device, check_integer, check_real_dtype, check_tensor, listed
from carving.draws import Bits, Leaf, Path, Role
from carving.grades import count, leading, unfold, wedge_rows
from carving.osc import BLOCK, orthonormal
from carving.scheme import Contexts, Facts, Scheme, slices

SETTINGS = ("complement", "disjoint")
CACHE = 2**19  # numbers that the caches hold, so that many small steps take less time than one large one


@dataclass(frozen=True, init=False, eq=False)
class CliffordTPR:
    """Paths of `depth` roles in R^n, wedged with a filler: binom(n, depth + 1) numbers, and exact.

    The roles are R orthonormal vectors, the fillers lie in the orthogonal complement of all of them. In the setting
    "disjoint" roles are supported on the first R coordinates and fillers on the others; in "complement" both are
    supported everywhere. The one is a rotation of the other, so that they hold the same.

    A wedge does not know the order of its roles but for a sign, so paths are sets of roles, written in the order in
    which `roles` lists them. `tagged=True` gives every level of a path its own copy of each role; then the order counts
    and roles may repeat.
    """

    n: int
    depth: int
    roles: tuple[Role, ...]
    setting: str
    tagged: bool
    seed: int
    dtype: torch.dtype
    device: torch.device
    vectors: Tensor  # (R, n), the roles in their order

    def __init__(
        self,
        n: int,
        depth: int,
        roles: Iterable[Role],
        setting: str = "complement",
        tagged: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        *,
        vectors: Tensor | None = None,
    ) -> None:
        n = check_integer("n", n, 2, way_out="it is the dimension of the space")
        depth = check_integer(
            "depth", depth, 1, n - 1, "it is the number of roles in a path; the filler takes a dimension"
        )
        names = listed(roles, "roles")
        if len(set(map(draws.canonical, names))) != len(names):
            raise ValueError(
                f"every role must stand in the list once, got {names!r}; tagged=True lets paths repeat roles"
            )
        values: dict[str, Any] = dict(
            n=n,
            depth=depth,
            roles=tuple(names),
            setting=check_choice("setting", setting, SETTINGS),
            tagged=bool(tagged),
            seed=check_integer("seed", seed, 0, 2**64 - 1, "any integer from 0 on will do"),
            dtype=check_real_dtype(dtype),
            device=check_device(device),
        )
        for name, value in values.items():
            object.__setattr__(self, name, value)
        size = len(self._places)
        if not depth <= size < n:
            raise ValueError(
                f"{size} orthonormal roles and a filler must fit into R^{n}, and a path of {depth} different roles "
                f"needs as many; give {depth} to {n - 1} roles{', counting each once a level' if tagged else ''}"
            )
        made = self._drawn() if vectors is None else orthonormal_roles(vectors, size, n)
        if setting == "disjoint" and bool(made[:, size:].any()):
            raise ValueError(
                f'in the setting "disjoint" the {size} roles have zeros behind their first {size} numbers, got others; '
                'setting="complement" takes any'
            )
        object.__setattr__(self, "vectors", made.to(self.device, self.dtype))

    @property
    def _places(self) -> dict[bytes, int]:
        """Where each role stands in the canonical order; tagged ones level by level."""
        levels: list[Path] = [(level,) for level in range(self.depth)] if self.tagged else [()]
        names = [draws.canonical_path((*level, role)) for level in levels for role in self.roles]
        return {name: place for place, name in enumerate(names)}

    def _drawn(self) -> Tensor:
        """Roles by their labels; in the complement a role at the end of the list changes none before it."""
        names = list(self._places)
        width = len(names) if self.setting == "disjoint" else self.n
        words = draws.bits(names, draws.words_for_normals(width), seed=self.seed, purpose="clifford role")
        made = torch.zeros(len(names), self.n, dtype=torch.float64)
        made[:, :width] = orthonormal(draws.normals(words)[:, :width])
        return made

    @property
    def coordinates(self) -> int:
        """The numbers of a memory."""
        return count(self.n, self.depth + 1)

    @property
    def capacity(self) -> int:
        """How many numbers of fillers can be stored exactly: those of a filler, in each of the paths."""
        size = len(self.vectors)
        paths = len(self.roles) ** self.depth if self.tagged else count(size, self.depth)
        return paths * (self.n - size)

    # Symbols -> vectors

    def fillers(self, labels: Iterable[Leaf]) -> Tensor:
        """The labels' fillers (m, n): unit vectors orthogonal to every role, the same for ever."""
        names = [draws.canonical(label) for label in listed(labels, "labels")]
        words = draws.bits(names, draws.words_for_normals(self.n), seed=self.seed, purpose="clifford filler")
        return self.admitted(draws.normals(words)[:, : self.n].to(self.device, self.dtype))

    def admitted(self, vectors: Tensor) -> Tensor:
        """The vectors (*, n) without what they have of any role, as unit vectors: fillers that come back exactly."""
        check_tensor("vectors", vectors, (*vectors.shape[:-1], self.n), "a filler has n numbers")
        outside = vectors
        for _ in range(2):  # once more, for the last digits
            outside = outside - outside @ self.vectors.mT @ self.vectors
        return torch.nn.functional.normalize(outside, dim=-1)

    def order(self, paths: Iterable[Path]) -> tuple[list[list[int]], Tensor]:
        """The places of each path's roles in canonical order, and the signs (m,) of bringing them there."""
        known, found, signs = self._places, [], []
        for path in [as_path(path) for path in listed(paths, "paths")]:
            places = self._look_up(path, known)
            inversions = sum(a > b for i, a in enumerate(places) for b in places[i + 1 :])
            found.append(sorted(places))
            signs.append(-1.0 if inversions % 2 else 1.0)
        return found, torch.tensor(signs, dtype=self.dtype, device=self.device)

    def _look_up(self, path: Path, known: dict[bytes, int]) -> list[int]:
        if len(path) != self.depth:
            raise ValueError(f"this memory holds paths of {self.depth} roles, got {path!r} with {len(path)}")
        names = [draws.canonical_path((level, role) if self.tagged else (role,)) for level, role in enumerate(path)]
        for role, name in zip(path, names, strict=True):
            if name not in known:
                raise ValueError(
                    f"the role {role!r} of {path!r} is not in the list; known: {', '.join(map(repr, self.roles))}"
                )
        if len(set(names)) < len(names):
            raise ValueError(
                f"a role that repeats annihilates the pair (a ^ a = 0), got {path!r}; "
                "CliffordTPR(..., tagged=True) gives every level of a path its own roles"
            )
        return [known[name] for name in names]

    def contexts(self, paths: Iterable[Path]) -> Blades:
        """The paths' roles in canonical order, wedged: blades (m, depth, n)."""
        places, _ = self.order(paths)
        return Blades(self.vectors[torch.tensor(places, device=self.device)])

    # The verbs

    def bind(self, paths: Iterable[Path], fillers: Tensor) -> Blades:
        """Each path's roles in canonical order, wedged with its filler: blades (m, depth + 1, n)."""
        roles = self.contexts(paths).factors
        check_tensor("fillers", fillers, (len(roles), self.n), "fillers(labels) makes them, one for each path")
        inside = torch.linalg.vector_norm(fillers @ self.vectors.mT, dim=-1)
        if bool((inside > torch.finfo(inside.dtype).eps ** 0.5 * torch.linalg.vector_norm(fillers, dim=-1)).any()):
            raise ValueError(
                "fillers must be orthogonal to every role of the memory, not only to those of their own path, or other "
                "pairs come back mixed with them; admitted(vectors) takes out what is not"
            )
        return Blades(torch.cat([roles, fillers.unsqueeze(-2)], dim=-2))

    def bundle(self, bound: Blades, weights: Tensor | None = None) -> Multivectors:
        """The sum of bound pairs, in binom(n, depth + 1) coordinates."""
        return total(bound, weights)

    def unbind(self, memory: Multivectors | Blades, paths: Iterable[Path], *, canonical: bool = True) -> Tensor:
        """The fillers (m, n) of the paths: their roles contracted onto the memory, the first one first.

        The memory is a bundle in coordinates, or the bound blades that it sums, N x (depth + 1) x n numbers. Where
        nothing is stored, zero comes. `canonical=False` asks in the order of the path: an odd one turns the sign.
        """
        if memory.n != self.n or memory.grade != self.depth + 1:
            raise ValueError(
                f"a memory of this kind has grade {self.depth + 1} in R^{self.n}, got grade {memory.grade} in "
                f"R^{memory.n}; bundle(bind(paths, fillers)) makes it"
            )
        places, signs = self.order(paths)
        rows = torch.tensor(places, device=self.device).flip(-1)  # a wedge's last factor contracts first
        if isinstance(memory, Blades):
            found = contract_sum(Blades(self.vectors[rows]), memory)
        else:  # questions in coordinates, so that all of a chunk are one product
            each = count(self.n, self.depth) * self.dtype.itemsize
            parts = rows.split(max(1, WORKSPACE // (3 * each)))
            asked = (contract(expand(Blades(self.vectors[part])), memory) for part in parts)
            found = torch.cat([expand(one).coordinates for one in asked])
        return found if canonical else found * signs.unsqueeze(-1)


def orthonormal_roles(vectors: Tensor, size: int, n: int) -> Tensor:
    """The roles that were given, which must be orthonormal."""
    check_tensor("vectors", vectors, (size, n), "there is one for each role")
    upper = torch.linalg.qr(vectors.double().mT).R.diagonal().abs()
    dependent = (upper <= 1e-6 * torch.linalg.vector_norm(vectors.double(), dim=-1)).nonzero()
    if len(dependent):
        raise ValueError(
            f"role vectors must be linearly independent, but number {int(dependent[0])} depends on those before it, so "
            "that their wedge is zero; leave it out or draw it anew"
        )
    off = (vectors.double() @ vectors.double().mT - torch.eye(size, dtype=torch.float64, device=vectors.device)).abs()
    if float(off.max()) > 1e-5:
        raise ValueError(
            f"role vectors must be orthonormal, got inner products that are off by {float(off.max()):.2g}; "
            "carving.osc.orthonormal(vectors) makes them so"
        )
    return vectors


# Orthogonal Subspace Carving


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
        way_out = (
            f"p={p} vectors of a smaller subspace are linearly dependent, and their wedge is zero; {usual} is usual"
        )
        if not isinstance(signed, bool):
            raise TypeError(f"signed must be True or False, got {signed!r}; False is the paper's form")
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
            names = map(draws.canonical_path, paths[rows])
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
        dots = [[(a * b).sum(1) for b in parts[: i + 1]] for i, a in enumerate(parts)]  # (n, m) each
        sides = torch.stack([row[-1] for row in dots]).prod(0)
        return scores * inverse_volume(gram_determinant(dots), sides)

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
