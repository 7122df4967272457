"""Tensor products in Clifford algebra (section 4.7 and appendix C of the paper).

`CliffordTPR` binds by wedging orthonormal roles with a filler and unbinds by contraction; fillers that are orthogonal
to every role are recovered exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import hashing
from carving.clifford.blades import WORKSPACE, contract, contract_sum, expand, total
from carving.clifford.elements import Blades, Multivectors
from carving.clifford.grades import count
from carving.errors import BadType, BadValue
from carving.schemes.context_verbs import REAL, absent
from carving.symbols import codec
from carving.symbols.codec import Path, Role, Value
from carving.symbols.paths import as_path
from carving.tensors import orthonormal
from carving.validate import check_choice, check_device, check_integer, check_real_dtype, check_tensor, listed, sentence

SETTINGS = ("complement", "disjoint")


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
        n = check_integer("n", self.n, 2, way_out="it is the dimension of the space")
        way_out = "it is the number of roles in a path; the filler takes a dimension"
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
        check_tensor("vectors", vectors, shape, "a filler has n numbers", self.dtype)
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
        way_out = "create them with fillers(labels), one for each path"
        check_tensor("fillers", fillers, (len(roles), self.n), way_out, self.dtype)
        inside, lengths = (torch.linalg.vector_norm(x, dim=-1) for x in (fillers @ self.vectors.mT, fillers))
        if not bool((torch.isfinite(lengths) & (lengths > 0)).all()):
            raise BadValue(f"fillers must be finite and nonzero. {sentence(way_out)}")
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
        way_out, shape = "create fillers with fillers(labels), or read them with unbind(...)", (-1, self.n)
        check_tensor("x", x, (*x.shape[:-1], self.n) if isinstance(x, Tensor) else shape, way_out)
        check_tensor("others", others, shape, way_out)
        return x @ others.mT

    def dot_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Alias of `similarity`."""
        return self.similarity(x, others)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, m) of fillers (*, n) and others (m, n)."""
        return self.similarity(normalize(x, dim=-1), normalize(others, dim=-1))

    normalize = absent("normalize", "memories are sums. Use admitted(vectors) for fillers of unit norm")
    permute = absent("permute", "with tagged=True the order of the roles in a path counts")
    inverse = absent("inverse", "roles are wedged. Use unbind(memory, paths), which contracts them")
    identity = absent("identity", "every role adds a grade")
    multibind = absent("multibind", "a path of several roles is bound at once. Use bind(paths, fillers)")
    cross_product = absent("cross_product", "every pair is written by itself. Use bundle(bind(paths, fillers))")
    hamming_similarity = absent("hamming_similarity", REAL)
    hard_quantize = absent("hard_quantize", "its fillers are recovered exactly, which needs full precision")
    soft_quantize = absent("soft_quantize", "its fillers are recovered exactly, which needs full precision")
    randsel = absent("randsel", "a mixture is not orthogonal to the roles. Use admitted(vectors)")
    multirandsel = absent("multirandsel", "a mixture is not orthogonal to the roles. Use admitted(vectors)")


def orthonormal_roles(vectors: Tensor, size: int, n: int, dtype: torch.dtype) -> Tensor:
    """Return given role vectors; refuse vectors that are not orthonormal."""
    check_tensor("vectors", vectors, (size, n), "pass one vector for each role")
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
