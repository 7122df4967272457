"""The verbs that users of torchhd know, on plain tensors (*, shape): bind, bundle, permute, similarity and the others.

Atoms come from `random` and `fillers`. Sums of them live in a linear space, that of memories: where atoms are bits or
indices, `picture` takes them there. Every verb takes either.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.checks import check_tensor
from carving.errors import BadType, BadValue
from carving.facts import Facts
from carving.schemes import pictures
from carving.schemes.algebra import Space
from carving.schemes.architectures import Architecture, Operation
from carving.tensors import as_reals, chosen


class Verbs(ABC):
    """What a vector symbolic architecture does with vectors; `row` says how."""

    name: str
    memory: str
    dtype: torch.dtype
    device: torch.device | str

    @property
    @abstractmethod
    def row(self) -> Architecture:
        """The row of the table."""

    @property
    @abstractmethod
    def space(self) -> Space:
        """What the operations must know."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The shapes."""

    def bind(self, x: Tensor, role: Tensor) -> Tensor:
        """The role acting on x: atoms, or pictures of sums of them."""
        self._own(x, role)
        return self.bind_columns(x, role)

    def bind_columns(self, x: Tensor, role: Tensor) -> Tensor:
        """The same unchecked: where every coordinate is bound by itself, some of them will do."""
        return self._act(x, role, self.row.bind_atoms, self.row.bind)

    def unbind(self, x: Tensor, role: Tensor) -> Tensor:
        """The role undone: exactly for the exact architectures, approximately for the others."""
        if self.row.unbind is None:
            raise NotImplementedError(
                f"{self.name} has no unbinding. Use `score` or `top`, which bind the candidates and compare."
            )
        self._own(x, role)
        return self._act(x, role, self.row.unbind_atoms, self.row.unbind)

    def _act(self, x: Tensor, role: Tensor, on_atoms: Operation | None, on_pictures: Operation) -> Tensor:
        if on_atoms is not None and _is_discrete(x):
            return on_atoms(self.space, x, role)
        return on_pictures(self.space, x, self._operator(role))

    def _own(self, *vectors: Tensor) -> None:
        """Refuse what another architecture or dimension has made."""
        for x in vectors:
            if not isinstance(x, Tensor):
                raise BadType(
                    f"Vectors of {self.name} must be tensors, got {type(x).__name__}. Create some with random(n, ...)."
                )
            discrete = _is_discrete(x)
            shape = self.facts.filler_shape if discrete else self.facts.memory_shape
            kind = self.row.dtype if discrete else self.facts.memory_dtype
            alike = (
                kind is not None
                and (kind == torch.bool) == (x.dtype == torch.bool)
                and kind.is_complex == x.is_complex()
            )
            if not alike or x.shape[-len(shape) :] != shape:
                raise BadValue(
                    f"Vectors of {self.name} must have shape (*, {', '.join(map(str, shape))}) and dtype "
                    f"{self.row.dtype or self.facts.memory_dtype}, got {tuple(x.shape)} and {x.dtype}. "
                    "They may be vectors of another scheme or dimension."
                )

    def bind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Bound with roles (*, k, shape), the first of them innermost."""
        for role in roles.unbind(-1 - len(self.facts.filler_shape)):
            x = self.bind(x, role)
        return x

    def unbind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """The inverse of `bind_path`: the last role is undone first."""
        for role in reversed(roles.unbind(-1 - len(self.facts.filler_shape))):
            x = self.unbind(x, role)
        return x

    def multibind(self, vectors: Tensor) -> Tensor:
        """The vectors (*, n, shape) bound: the first with the second, that with the third, and so on."""
        dim = -1 - len(self.facts.filler_shape)
        self._check_set(vectors, dim)
        product = self.row.product_of_atoms if _is_discrete(vectors) else self.row.product
        if product is not None:
            return product(self.space, vectors)
        if not self.facts.associative:
            first, *rest = vectors.unbind(dim)
            for role in rest:
                first = self.bind(first, role)
            return first
        while (count := vectors.shape[dim]) > 1:  # neighbours, then neighbours of these: the order stays
            even = vectors.narrow(dim, 0, count - count % 2).unflatten(dim, (-1, 2)).unbind(dim)
            last = vectors.narrow(dim, count - count % 2, count % 2)
            vectors = torch.cat((self.bind(*even), last), dim)
        return vectors.squeeze(dim)

    def _check_set(self, vectors: Tensor, dim: int) -> None:
        if vectors.dim() < -dim or not vectors.shape[dim]:
            wanted = ", ".join(map(str, self.facts.filler_shape))
            raise BadValue(f"vectors must have shape (*, n, {wanted}) with n >= 1, got {tuple(vectors.shape)}")

    def inverse(self, role: Tensor) -> Tensor:
        """The role that undoes this one: bind(x, inverse(role)) is unbind(x, role)."""
        if self.row.inverse is None:
            raise NotImplementedError(f"{self.name} has no inverse roles{self.row.no_inverse}")
        self._own(role)
        return self.row.inverse(self.space, role)

    def negative(self, x: Tensor) -> Tensor:
        """What bundled with x leaves nothing: an atom where there is one, else the negated picture."""
        self._own(x)
        if not _is_discrete(x):
            return -x
        return self.row.opposite(self.space, x) if self.row.opposite else -self._picture(x)

    def empty(self, *size: int) -> Tensor:
        """The sum of nothing, (*size, memory shape): bundled with x it is x."""
        return torch.zeros(*size, *self.facts.memory_shape, dtype=self.facts.memory_dtype, device=self.device)

    def picture(self, x: Tensor) -> Tensor:
        """Atoms in the linear space where they are summed; pictures stay as they are."""
        self._own(x)
        return self._as_picture(x)

    def bundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The set of vectors (*, n, shape) as one: their sum, settled where the architecture settles.

        Ties fall by a hash of seed, coordinate and sum, or by the generator. With `memory="raw"` the sum itself.
        """
        if generator is not None and not isinstance(generator, torch.Generator):
            raise BadType(
                f"generator must be a torch.Generator, got {type(generator).__name__}. "
                "To bundle two vectors, pass one tensor: torch.stack((a, b))."
            )
        settled = self._settled(self.total(vectors), generator)
        return self.row.back(self.space, settled) if self.row.back and self._settles else settled

    def total(self, vectors: Tensor) -> Tensor:
        """The sum of vectors (*, n, shape) as memories hold it, not settled: sums of sums add."""
        self._own(vectors)
        return self.total_columns(vectors)

    def total_columns(self, vectors: Tensor) -> Tensor:
        """The same unchecked, also of some coordinates."""
        if self.row.total and _is_discrete(vectors):
            return self.row.total(self.space, vectors)
        return self._as_picture(vectors).sum(-1 - len(self.facts.memory_shape))

    def multibundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The same as `bundle`."""
        return self.bundle(vectors, generator)

    def cross_product(self, x: Tensor, others: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The bundle of every vector of x (*, n, shape) bound with every one of others (*, m, shape)."""
        dim = -1 - len(self.facts.filler_shape)
        if self.row.operator is self.row.picture:  # roles act as their pictures: bound sums are sums of what is bound
            total = self.row.bind(self.space, self.total(x), self.total(others))
            return self.bundle(total.unsqueeze(-1 - len(self.facts.memory_shape)), generator)
        pairs = self.bind(x.unsqueeze(dim), others.unsqueeze(dim - 1))
        return self.bundle(pairs.flatten(dim - 1, dim), generator)

    def normalize(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What comes nearest to x as atoms are: unit vectors, phases, unitary blocks, signs, bits; atoms stay."""
        self._own(x)
        if _is_discrete(x):
            return x
        settled = self._changed(self.row.normal or self.row.settle, x, generator)
        return self.row.back(self.space, settled) if self.row.back else settled

    def hard_quantize(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Every real number of x as 1 or -1 (so is zero), every complex one as its phase; sparse and discrete ones as
        `normalize` has them."""
        self._own(x)
        if self.row.hard is None or _is_discrete(x):
            return self.normalize(x, generator)
        return self._changed(self.row.hard, x, generator)

    def soft_quantize(self, x: Tensor) -> Tensor:
        """The hyperbolic tangent of real numbers, of the moduli of complex ones, of the singular values of blocks."""
        self._own(x)
        return x if _is_discrete(x) else self.row.soft(self.space, x)

    @property
    def _settles(self) -> bool:
        return self.memory == "native" and self.row.settle is not None

    def _settled(self, total: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What a raw sum settles to; ties fall by a hash of seed, coordinate and sum, or by the generator."""
        return self._changed(self.row.settle, total, generator) if self._settles else total

    def _changed(self, change: Operation | None, total: Tensor, generator: torch.Generator | None) -> Tensor:
        """What a sum becomes; ties fall as told above."""
        assert change is not None  # a row that does not settle says what is normal
        lot: Tensor | None = None
        asked = change is pictures.to_signs and not torch.compiler.is_compiling()  # a compiled graph cannot branch
        if asked and bool((signs := total.sign()).all()):
            return signs  # nothing ties
        if generator is not None:
            lot = torch.rand(total.shape, generator=generator, device=generator.device, dtype=self.dtype)
        elif self.row.ties:
            lot = pictures.chance(self.space, total, len(self.facts.memory_shape))
        return change(self.space, total, None if lot is None else lot.to(total.device))

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Coordinates rolled around; the inverse rolls by -shifts."""
        self._own(x)
        picture = self.row.segmented and not _is_discrete(x)
        return x.roll(shifts, dims=-len(self.facts.memory_shape if picture else self.facts.filler_shape))

    def identity(self) -> Tensor:
        """The role that changes nothing."""
        if self.row.identity is None:
            raise NotImplementedError(f"{self.name} has no identity: none of its roles leaves every filler unchanged")
        return self.row.identity(self.space).to(self.device)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The architecture's own similarity of x (*, shape) to others (n, shape): (*, n)."""
        self._own(x)
        self._check_others(others)
        if self.row.similarity and _is_discrete(x) and _is_discrete(others):
            alike = self.row.similarity(self.space, x.reshape(-1, *self.facts.filler_shape), others)
            return alike.view(*x.shape[: x.dim() - len(self.facts.filler_shape)], -1)
        one, other = self._as_picture(x), self._aim(others) if _is_discrete(others) else others
        flat = one.reshape(-1, *self.facts.memory_shape)
        return self._compared(flat, other).view(*one.shape[: one.dim() - len(self.facts.memory_shape)], -1)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The cosine of the pictures of x (*, shape) and others (n, shape): (*, n)."""
        self._own(x)
        self._check_others(others)
        one, other = (as_reals(self._as_picture(v), len(self.facts.memory_shape)) for v in (x, others))
        return normalize(one, dim=-1) @ normalize(other, dim=-1).mT

    def dot_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The inner products of the pictures of x (*, shape) and others (n, shape): (*, n)."""
        self._own(x)
        self._check_others(others)
        aimed = self._aim(others) if _is_discrete(others) else others
        one, other = (as_reals(v, len(self.facts.memory_shape)) for v in (self._as_picture(x), aimed))
        return one @ other.mT

    def hamming_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """How many numbers of x (*, shape) and others (n, shape) are equal: (*, n) integers."""
        self._own(x)
        self._check_others(others)
        dimensions = self._dimensions(others)
        check_tensor(
            "x", x, (*x.shape[: x.dim() - dimensions], *others.shape[1:]), "compare atoms with atoms, or sums with sums"
        )
        one, other = x.flatten(-dimensions), others.flatten(1)
        parts = one.reshape(-1, other.shape[1]).split(max(1, 2**24 // max(1, other.numel())))
        return torch.cat([(part.unsqueeze(1) == other).sum(-1) for part in parts]).view(*one.shape[:-1], -1)

    def randsel(self, x: Tensor, other: Tensor, p: float = 0.5, generator: torch.Generator | None = None) -> Tensor:
        """Every number (block) of x with probability p, else that of the other: alike to both."""
        generator = _checked(generator)
        if not 0 <= p <= 1:
            raise BadValue(f"p must be a probability between 0 and 1, got {p!r}. It is the probability of choosing x.")
        self._own(x, other)
        if x.dtype != other.dtype:
            raise BadValue(f"x and other must have the same dtype, got {x.dtype} and {other.dtype}")
        x, other = torch.broadcast_tensors(x, other)
        dim = -self._dimensions(x)
        size = x.shape[: x.dim() + dim + 1]  # of (n, m, m) blocks whole ones are chosen
        flags = torch.rand(size, generator=generator, device=generator.device) < p
        return chosen(flags.view(*size, *(1,) * (-dim - 1)).to(x.device), x, other)

    def multirandsel(
        self, vectors: Tensor, p: Sequence[float] | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Every number (block) from one of the vectors (*, n, shape), the i-th with probability p_i; else evenly."""
        self._own(vectors)
        dim = -1 - self._dimensions(vectors)
        self._check_set(vectors, dim)
        count = vectors.shape[dim]
        shares = torch.full((count,), 1 / count) if p is None else torch.tensor(p, dtype=torch.float64)
        if (
            shares.shape != (count,)
            or not bool((shares >= 0).all())
            or not math.isclose(float(shares.sum()), 1, abs_tol=1e-6)
        ):
            raise BadValue(f"p must be {count} probabilities that sum to 1, one for each vector, got {p!r}")
        generator = _checked(generator)
        size = (*vectors.shape[:dim], vectors.shape[dim + 1])  # of (n, m, m) blocks whole ones are chosen
        drawn = torch.multinomial(shares.to(generator.device), math.prod(size), replacement=True, generator=generator)
        which = drawn.view(*size, *(1,) * (-dim - 2)).unsqueeze(dim).to(vectors.device)
        return vectors.gather(dim, which.expand(*vectors.shape[:dim], 1, *vectors.shape[dim + 1 :])).squeeze(dim)

    def _dimensions(self, x: Tensor) -> int:
        return len(self.facts.filler_shape if _is_discrete(x) else self.facts.memory_shape)

    def _check_others(self, others: Tensor) -> None:
        self._own(others)
        if others.dim() - len(self.facts.filler_shape if _is_discrete(others) else self.facts.memory_shape) != 1:
            wanted = ", ".join(map(str, self.facts.filler_shape))
            raise BadValue(
                f"others must have shape (n, {wanted}), got {tuple(others.shape)}. "
                "Use unsqueeze(0) for a single vector, flatten for a batch of sets."
            )

    def _operator(self, roles: Tensor) -> Tensor:
        """What acts, of role atoms."""
        return self.row.operator(self.space, roles) if self.row.operator else roles

    def _picture(self, atoms: Tensor) -> Tensor:
        """Atoms in the linear space where they are summed."""
        return self.row.picture(self.space, atoms) if self.row.picture else atoms

    def _as_picture(self, x: Tensor) -> Tensor:
        return self._picture(x) if _is_discrete(x) else x

    def _aim(self, candidates: Tensor) -> Tensor:
        """What candidates are compared as."""
        return self.row.aim(self.space, candidates) if self.row.aim else self._picture(candidates)

    def _compared(self, queries: Tensor, pictures: Tensor) -> Tensor:
        """Similarities of (*, n, ...) queries and (*, m, ...) pictures: (*, n, m)."""
        one, other = (as_reals(x, len(self.facts.memory_shape)) for x in (queries, pictures))
        products = one @ other.mT
        if self.row.overlap:
            return products / other.sum(-1).clamp_min(1).unsqueeze(-2)
        tiny = torch.finfo(products.dtype).tiny
        products = products / torch.linalg.vector_norm(one, dim=-1, keepdim=True).clamp_min(tiny)
        if self.row.aim:  # what indices are worth to a candidate, averaged over its coordinates
            return products / math.sqrt(self.space.d)
        return products / torch.linalg.vector_norm(other, dim=-1).clamp_min(tiny).unsqueeze(-2)


def _is_discrete(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def _checked(generator: torch.Generator | None) -> torch.Generator:
    if not isinstance(generator, torch.Generator):
        raise BadType(f"generator must be a torch.Generator, got {generator!r}. Pass torch.Generator().manual_seed(0).")
    return generator
