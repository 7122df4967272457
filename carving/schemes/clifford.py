"""Orthogonal Subspace Carving and tensor products in Clifford algebra (section 4.7 and appendix C of the paper).

`CliffordOSC`: a context is a subspace, a filler p vectors, a bound filler the unit blade of the vectors' parts in that
subspace, and the memory has binom(d, p) numbers instead of d^p. `CliffordTPR` binds by wedging orthonormal roles with a
filler and unbinds by contraction; fillers that are orthogonal to every role are recovered exactly.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import hashing
from carving.caching import cached_property
from carving.clifford.blades import WORKSPACE, contract, contract_sum, determinant, expand, total
from carving.clifford.elements import Blades, Multivectors
from carving.clifford.grades import count, fold, leading, unfold, wedge_rows
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes.base import Candidates, Contexts, Facts
from carving.schemes.verbs import OF_ATOMS, ContextVerbs, lacks
from carving.symbols import codec
from carving.symbols.codec import Path, Role, Value
from carving.symbols.paths import Paths, as_path
from carving.tensors import BLOCK, orthonormal
from carving.tiling import Cost
from carving.validate import check_choice, check_device, check_integer, check_real_dtype, check_tensor, listed

CACHED_NUMBERS = 2**19  # that fit into the caches: many small steps take less time than one large one


@dataclass(frozen=True, eq=False)
class KeptBlades(Contexts):
    """The contexts of CliffordOSC: an orthonormal basis of the kept subspace, and a sign."""

    basis: Tensor  # (n, k1, d)
    signs: Tensor  # (n,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n)."""
        return self.signs.shape


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
    derived = ("k1",)
    d: int
    p: int = 2
    k1: int = None  # type: ignore[assignment]  # as above, once it is made
    signed: bool = True
    workspace: int = field(default=32 * 2**20, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        p = check_integer("p", self.p, 1, 4, "A memory has binom(d, p) cells.")
        way_out = "It is the dimension of the space; contexts keep p to d - 1 dimensions of it."
        d = check_integer("d", self.d, p + 1, way_out=way_out)
        usual = next((k for k in range(p, d - 1) if math.comb(k, p) ** 2 >= math.comb(d, p)), d - 1)
        way_out = f"A wedge of p={p} vectors needs {p} dimensions, and k1 = d carves nothing; the default is {usual}."
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
        return KeptBlades(basis.to(self.device), signs.to(self.device, self.dtype))

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

    def _trace(self, contexts: KeptBlades, fillers: Tensor, weights: Tensor | None) -> Tensor:
        bound = torch.bmm(self._inside(fillers, contexts), contexts.basis)
        return total(Blades(bound), contexts.signs if weights is None else contexts.signs * weights).coordinates

    def _bind(self, fillers: Tensor, contexts: KeptBlades) -> Tensor:
        bound = torch.bmm(self._inside(fillers, contexts), contexts.basis)
        return expand(Blades(bound)).coordinates * contexts.signs.unsqueeze(1)

    def _write(self, cores: Tensor, contexts: KeptBlades) -> Tensor:
        signed = cores * contexts.signs.unsqueeze(1)
        # What each kept direction is wedged with, in R^d; then all wedges with it in one product.
        rest = self._lift(unfold(signed, self.k1, 1, self.p - 1), contexts.basis, self.p - 1)
        matrix = contexts.basis.flatten(0, 1).mT @ rest.flatten(0, 1)
        return matrix.flatten().index_select(0, leading(self.d, 1, self.p - 1, matrix.device))

    def _read(self, memory: Tensor, contexts: KeptBlades) -> Tensor:
        # The first direction for all contexts in one product, then the others of each.
        rows = contexts.basis.flatten(0, 1) @ unfold(memory, self.d, 1, self.p - 1)
        few = max(1, CACHED_NUMBERS // (self.k1 * self.d ** (self.p - 1)))
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

    def _match(self, cores: Tensor, contexts: KeptBlades, candidates: Candidates) -> Tensor:
        parts, half = self._parts(contexts, candidates), self.p // 2
        scores = torch.bmm(unfold(cores, self.k1, half, self.p - half), self._wedged(parts[half:]))
        scores = (scores * self._wedged(parts[:half]) if half else scores).sum(1)
        return scores * self._inverse_volumes(parts)

    def _parts(self, contexts: KeptBlades, candidates: Candidates) -> Sequence[Tensor]:
        """The p parts (n, k1, m) of candidates in the subspaces, a candidate a column."""
        basis = contexts.basis
        if not candidates.shared:
            return torch.einsum("nkd,nmpd->pnkm", basis, candidates.tensor).unbind(0)
        columns = candidates.tensor.permute(1, 2, 0)  # (p, d, L)
        inside = torch.bmm(basis.reshape(-1, self.d).expand(self.p, -1, -1), columns)
        return inside.unflatten(1, basis.shape[:2]).unbind(0)

    def _expected(self, weights: Tensor, contexts: KeptBlades, candidates: Candidates) -> Tensor:
        parts, half = self._parts(contexts, candidates), self.p // 2
        right = self._wedged(parts[half:]) * (weights * self._inverse_volumes(parts)).unsqueeze(1)
        if not half:
            return right.sum(2)
        return fold(torch.bmm(self._wedged(parts[:half]), right.mT), self.k1, half, self.p - half)

    def _inverse_volumes(self, parts: Sequence[Tensor]) -> Tensor:
        """Return one over the volumes (n, m) that candidates' parts in the subspace span."""
        dots = [[(a * b).sum(1) for b in parts[: i + 1]] for i, a in enumerate(parts)]
        return inverse_volume(gram_determinant(dots), torch.stack([row[-1] for row in dots]).prod(0))

    def _wedged(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the wedges of one or two columns (n, k1, m)."""
        return parts[0] if len(parts) == 1 else wedge_rows(parts[0], parts[1], self.k1, 1, 1, dim=1)


def overlap_in_two_contexts(d: int, p: int, k1: int) -> float:
    """Return the mean squared inner product of one filler bound in two contexts, times binom(d, p); exact.

    A bound blade has parts that keep p - q directions of the filler's own subspace and q orthogonal to it. The squared
    norm of each is hypergeometric in the mean, and those of two contexts lie as independently as their spaces allow.
    """
    total = math.comb(d, p)
    shares = [(q, math.comb(k1, p - q) * math.comb(d - k1, q) / total) for q in range(p + 1)]
    spaces = [math.comb(p, q) * math.comb(d - p, q) for q in range(p + 1)]
    return total * sum(share**2 / spaces[q] for q, share in shares if share)


def inverse_volume(squared: Tensor, sides: Tensor) -> Tensor:
    """Return one over the volumes that vectors span, from squared volumes and squared products of lengths.

    It is 0 for vectors that are linearly dependent up to rounding: they bind to nothing.
    """
    spans = squared > 8 * torch.finfo(squared.dtype).eps * sides
    return torch.where(spans, squared, 1.0).rsqrt() * spans


def gram_determinant(dots: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return Gram determinants from inner products, whose row i has the products with vectors 0 to i.

    Small ones are written out: building a matrix for each candidate would take longer than everything else.
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


SETTINGS = ("complement", "disjoint")


@lacks(
    normalize="memories are sums. Use admitted(vectors) for fillers of unit norm",
    permute="with tagged=True the order of the roles in a path counts",
    inverse="roles are wedged. Use unbind(memory, paths), which contracts them",
    identity="every role adds a grade",
    multibind="a path of several roles is bound at once. Use bind(paths, fillers)",
    cross_product="every pair is written by itself. Use bundle(bind(paths, fillers))",
    **OF_ATOMS,
)
@dataclass(frozen=True, eq=False)
class CliffordTPR:
    """Tensor product representation in Clifford algebra: exact, in binom(n, depth + 1) numbers.

    A pair is the wedge of the roles of its path with its filler. Roles are orthonormal vectors of R^n, and fillers lie
    in the orthogonal complement of all roles, so that unbinding is exact. A wedge depends on the order of its roles
    only by a sign: paths are sets of roles, unless `tagged` is True.

    Args:
        n: Dimension of the space.
        depth: Number of roles in every path.
        roles: Labels of the roles, all distinct.
        setting: "complement": roles and fillers use all coordinates. "disjoint": roles use the first coordinates and
            fillers the others. One is a rotation of the other, with equal capacity.
        tagged: Give every level of a path its own copy of each role, so that the order of roles counts and roles may
            repeat.
        seed, dtype, device: As in `Scheme`.
        vectors: Orthonormal role vectors (R, n); drawn by label if None.

    >>> tpr = CliffordTPR(n=12, depth=2, roles=["left", "right", "above"])
    >>> dog = tpr.fillers(["dog"])
    >>> memory = tpr.bundle(tpr.bind([("left", "above")], dog))
    >>> bool(torch.allclose(tpr.unbind(memory, [("left", "above")]), dog, atol=1e-5))
    True
    """

    name = "CliffordTPR"
    n: int
    depth: int
    roles: Sequence[Role]
    setting: str = "complement"
    tagged: bool = False
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"
    vectors: Tensor = field(default=None, kw_only=True, repr=False)  # type: ignore[assignment]  # (R, n), drawn if None

    def __post_init__(self) -> None:
        n = check_integer("n", self.n, 2, way_out="It is the dimension of the space.")
        way_out = "It is the number of roles in a path; the filler takes a dimension."
        depth = check_integer("depth", self.depth, 1, n - 1, way_out)
        names = listed(self.roles, "roles")
        if len(set(map(codec.canonical, names))) != len(names):
            raise BadValue(f"roles must be distinct, got {names!r}. Use tagged=True for paths that repeat a role.")
        check_choice("setting", self.setting, SETTINGS)
        check_integer("seed", self.seed, 0, 2**64 - 1)
        check_real_dtype(self.dtype)
        vars(self).update(n=n, depth=depth, roles=tuple(names), tagged=bool(self.tagged))
        vars(self).update(device=check_device(self.device), vectors=self._role_vectors())

    def _role_vectors(self) -> Tensor:
        """Return the role vectors, drawn or given."""
        n, depth, size = self.n, self.depth, len(self._order)
        if not depth <= size < n:
            levels = ", each counted once for every level" if self.tagged else ""
            raise BadValue(
                f"roles must have {depth} to {n - 1} labels{levels}, got {size}: a path has {depth} different roles, "
                f"and all roles and a filler must be orthogonal in R^{n}. Change roles, depth or n."
            )
        given = self.vectors
        vectors = self._drawn() if given is None else orthonormal_roles(given, size, n, self.dtype)
        if self.setting == "disjoint" and bool(vectors[:, size:].any()):
            raise BadValue(
                f'vectors must be zero after their first {size} numbers with setting="disjoint", got other vectors. '
                'Use setting="complement" for arbitrary vectors.'
            )
        return vectors.to(self.device, self.dtype)

    @property
    def _order(self) -> dict[bytes, int]:
        """The position of each role in the canonical order; tagged roles level by level."""
        levels: list[Path] = [(level,) for level in range(self.depth)] if self.tagged else [()]
        names = [codec.canonical_path((*level, role)) for level in levels for role in self.roles]
        return {name: row for row, name in enumerate(names)}

    def _drawn(self) -> Tensor:
        """Draw roles by label; with "complement", appending a role does not change the roles before it."""
        names = list(self._order)
        width = len(names) if self.setting == "disjoint" else self.n
        words = hashing.bits(names, hashing.words_for_normals(width), seed=self.seed, purpose="clifford role")
        vectors = torch.zeros(len(names), self.n, dtype=torch.float64)
        vectors[:, :width] = orthonormal(hashing.normals(words)[:, :width])
        return vectors

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a memory, binom(n, depth + 1)."""
        return count(self.n, self.depth + 1)

    @property
    def capacity(self) -> int:
        """The total number of filler coordinates that can be stored exactly, over all paths."""
        size = len(self.vectors)
        paths = len(self.roles) ** self.depth if self.tagged else count(size, self.depth)
        return paths * (self.n - size)

    # Symbols -> vectors

    def fillers(self, labels: Iterable[Value]) -> Tensor:
        """Return the fillers (m, n) of m labels: unit vectors orthogonal to every role."""
        names = [codec.canonical(label) for label in listed(labels, "labels")]
        words = hashing.bits(names, hashing.words_for_normals(self.n), seed=self.seed, purpose="clifford filler")
        return self.admitted(hashing.normals(words)[:, : self.n].to(self.device, self.dtype))

    def admitted(self, vectors: Tensor) -> Tensor:
        """Return vectors (*, n) as valid fillers: without their components along roles, scaled to norm 1.

        Raises:
            ValueError: A vector is zero, not finite, or in the span of the roles.
        """
        shape = (*vectors.shape[:-1], self.n) if isinstance(vectors, Tensor) else (-1, self.n)
        check_tensor("vectors", vectors, shape, "A filler has n numbers.", self.dtype)
        outside = vectors
        for _ in range(2):  # once more, for the last digits
            outside = outside - outside @ self.vectors.mT @ self.vectors
        lengths = torch.linalg.vector_norm(outside, dim=-1)
        wanted = torch.linalg.vector_norm(vectors, dim=-1) * self.n * torch.finfo(self.dtype).eps
        if not bool((lengths > wanted).all()):  # not-a-number is not larger, either
            raise BadValue("vectors must be finite, nonzero and not in the span of the roles. Draw other vectors.")
        return outside / lengths.unsqueeze(-1)

    def order(self, paths: Iterable[Path]) -> tuple[list[list[int]], Tensor]:
        """Return the sorted role positions of each path, and the signs (m,) of sorting them."""
        known, ordered, signs = self._order, [], []
        for path in [as_path(path) for path in listed(paths, "paths")]:
            rows = self._look_up(path, known)
            inversions = sum(a > b for i, a in enumerate(rows) for b in rows[i + 1 :])
            ordered.append(sorted(rows))
            signs.append(-1.0 if inversions % 2 else 1.0)
        return ordered, torch.tensor(signs, dtype=self.dtype, device=self.device)

    def _look_up(self, path: Path, known: dict[bytes, int]) -> list[int]:
        if len(path) != self.depth:
            raise BadValue(f"Paths must have {self.depth} roles, got {path!r} with {len(path)}")
        names = [codec.canonical_path((level, role) if self.tagged else (role,)) for level, role in enumerate(path)]
        for role, name in zip(path, names, strict=True):
            if name not in known:
                raise BadValue(f"Unknown role {role!r} in {path!r}. Known: {', '.join(map(repr, self.roles))}.")
        if len(set(names)) < len(names):
            raise BadValue(
                f"A repeated role annihilates the pair (a ^ a = 0), got {path!r}. "
                "Use CliffordTPR(..., tagged=True), where every level of a path has its own roles."
            )
        return [known[name] for name in names]

    def contexts(self, paths: Iterable[Path]) -> Blades:
        """Return the wedges of the roles of m paths, in canonical order: blades (m, depth, n)."""
        rows, _ = self.order(paths)
        return Blades(self.vectors[torch.tensor(rows, device=self.device)])

    # The verbs

    def bind(self, paths: Iterable[Path], fillers: Tensor) -> Blades:
        """Return m pairs as blades (m, depth + 1, n): the roles of each path wedged with its filler.

        Args:
            paths: m paths of `depth` roles.
            fillers: (m, n), orthogonal to every role, from `fillers` or `admitted`.
        """
        roles = self.contexts(paths).factors
        way_out = "Create them with fillers(labels), one for each path."
        check_tensor("fillers", fillers, (len(roles), self.n), way_out, self.dtype)
        inside, lengths = (torch.linalg.vector_norm(x, dim=-1) for x in (fillers @ self.vectors.mT, fillers))
        if not bool((torch.isfinite(lengths) & (lengths > 0)).all()):
            raise BadValue(f"fillers must be finite and nonzero. {way_out}")
        if bool((inside > torch.finfo(inside.dtype).eps ** 0.5 * lengths).any()):
            raise BadValue(
                "fillers must be orthogonal to every role of the memory, not only to the roles of their own path, or "
                "other pairs interfere. Use admitted(vectors), which removes the components along roles."
            )
        return Blades(torch.cat([roles, fillers.unsqueeze(-2)], dim=-2))

    def bundle(self, bound: Blades, weights: Tensor | None = None) -> Multivectors:
        """Return the weighted sum of bound pairs, in binom(n, depth + 1) coordinates; `weights`: (m,)."""
        return total(bound, weights)

    def unbind(self, memory: Multivectors | Blades, paths: Iterable[Path], *, canonical: bool = True) -> Tensor:
        """Return the fillers (m, n) of m paths; zero where nothing is stored.

        Args:
            memory: A bundle in coordinates, or the bound blades (N, depth + 1, n) of a sum.
            paths: m paths.
            canonical: If False, roles are contracted in the order of the path: an odd permutation changes the sign.
        """
        if not isinstance(memory, Blades | Multivectors):
            raise BadType(
                f"memory must be a Multivectors or Blades object, got {type(memory).__name__}. "
                "Create one with bundle(bind(paths, fillers))."
            )
        if isinstance(memory, Multivectors) and memory.batch:
            raise BadValue(
                f"memory must be a single memory, got a batch of shape {tuple(memory.batch)}. Query them one by one."
            )
        if memory.n != self.n or memory.grade != self.depth + 1:
            raise BadValue(
                f"memory must have grade {self.depth + 1} in R^{self.n}, got grade {memory.grade} in R^{memory.n}. "
                "Create it with bundle(bind(paths, fillers))."
            )
        ordered, signs = self.order(paths)
        rows = torch.tensor(ordered, device=self.device).flip(-1)  # a wedge's last factor contracts first
        if isinstance(memory, Blades):
            fillers = contract_sum(Blades(self.vectors[rows]), memory)
        else:  # questions in coordinates, so that all of a chunk are one product
            each = count(self.n, self.depth) * self.dtype.itemsize
            parts = rows.split(max(1, WORKSPACE // (3 * each)))
            asked = (contract(expand(Blades(self.vectors[part])), memory) for part in parts)
            fillers = torch.cat([expand(part).coordinates for part in asked])
        return fillers if canonical else fillers * signs.unsqueeze(-1)

    def random(self, count: int, generator: torch.Generator) -> Tensor:
        """Return random fillers (count, n), for experiments."""
        shape = check_integer("count", count, 1), self.n
        drawn = torch.randn(shape, generator=generator, dtype=self.dtype, device=generator.device)
        return self.admitted(drawn.to(self.device))

    def empty(self) -> Multivectors:
        """Return an empty memory."""
        zeros = torch.zeros(self.coordinates, dtype=self.dtype, device=self.device)
        return Multivectors(zeros, self.n, self.depth + 1)

    def negative(self, memory: Multivectors) -> Multivectors:
        """Return the additive inverse of a memory."""
        if not isinstance(memory, Multivectors):
            raise BadType(
                f"memory must be a Multivectors object, got {type(memory).__name__}. Create one with bundle(...)."
            )
        return Multivectors(-memory.coordinates, memory.n, memory.grade)

    def multibundle(self, bound: Blades, weights: Tensor | None = None) -> Multivectors:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(bound, weights)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, m) of fillers (*, n) and others (m, n)."""
        way_out, shape = "Create fillers with fillers(labels), or read them with unbind(...).", (-1, self.n)
        check_tensor("x", x, (*x.shape[:-1], self.n) if isinstance(x, Tensor) else shape, way_out)
        check_tensor("others", others, shape, way_out)
        return x @ others.mT

    def dot_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Alias of `similarity`."""
        return self.similarity(x, others)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, m) of fillers (*, n) and others (m, n)."""
        return self.similarity(normalize(x, dim=-1), normalize(others, dim=-1))


def orthonormal_roles(vectors: Tensor, size: int, n: int, dtype: torch.dtype) -> Tensor:
    """Return given role vectors; refuse vectors that are not orthonormal."""
    check_tensor("vectors", vectors, (size, n), "Pass one vector for each role.")
    upper = torch.linalg.qr(vectors.double().mT).R.diagonal().abs()
    dependent = (upper <= 1e-6 * torch.linalg.vector_norm(vectors.double(), dim=-1)).nonzero()
    if len(dependent):
        raise BadValue(
            f"vectors must be linearly independent, but vector {int(dependent[0])} depends on the vectors before it. "
            "Leave it out or draw another."
        )
    off = (vectors.double() @ vectors.double().mT - torch.eye(size, dtype=torch.float64, device=vectors.device)).abs()
    if float(off.max()) > 100 * torch.finfo(dtype).eps:
        raise BadValue(
            f"vectors must be orthonormal in {dtype}, got inner products that are off by {float(off.max()):.2g}. "
            "Use carving.tensors.orthonormal(vectors)."
        )
    return vectors
