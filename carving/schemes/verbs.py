"""The operations known from torchhd, on plain tensors (*, shape): bind, bundle, permute, similarity and others.

Atoms come from `random` and `fillers`. Sums of atoms live in the linear space of memories; where atoms are bits or
indices, `picture` embeds them there. Every operation takes atoms or embedded vectors.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.errors import BadType, BadValue
from carving.schemes import algebra
from carving.schemes.algebra import Space
from carving.schemes.architectures import Architecture, Operation
from carving.schemes.base import C, ContextsOrPaths, Facts, Scheme, in_rows
from carving.tensors import as_reals, chosen, transformed
from carving.validate import check_integer, check_tensor

T = TypeVar("T")


class OptionalVerb:
    """An operation that not every scheme has: elsewhere `hasattr` is False, and getting it raises AttributeError.

    Args:
        hint: Why the scheme lacks it and what to do instead, for the message.
        method: The operation, where the row of the table of architectures has an entry of its name; None: never.
    """

    def __init__(self, hint: str, method: Callable[..., Any] | None = None) -> None:
        self.hint, self.method, self.__doc__ = hint, method, method and method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, scheme: Any, owner: Any = None) -> Callable[..., Tensor]:
        if self.method is not None and scheme is None:
            return self.method
        if self.method is not None and getattr(scheme.row, self.name) is not None:
            return MethodType(self.method, scheme)
        raise AttributeError(f"{(scheme or owner).name} has no {self.name}: {self.hint}.", name=self.name, obj=scheme)


def where_present(hint: str) -> Callable[[Callable[..., Any]], OptionalVerb]:
    """Decorate a method of architectures whose row has an entry of its name."""
    return partial(OptionalVerb, hint)


def lacks(**hints: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class of schemes that lack operations, each with a hint."""

    def without(scheme: type[T]) -> type[T]:
        for name, hint in hints.items():
            verb = OptionalVerb(hint)
            verb.__set_name__(scheme, name)
            setattr(scheme, name, verb)
        return scheme

    return without


REAL = "its numbers are real. Use similarity or cosine_similarity"
MIXED = "its fillers cannot be mixed component by component. Use encodings.Level to blend two of them"
QUANTIZED = "memories are quantized as a whole. Use Memory.quantize(bits=...)"
OF_ATOMS = dict(
    hamming_similarity=REAL, randsel=MIXED, multirandsel=MIXED, hard_quantize=QUANTIZED, soft_quantize=QUANTIZED
)


class Verbs(ABC):
    """Operations of a vector symbolic architecture on vectors; `row` defines them."""

    name: str
    memory: str
    dtype: torch.dtype
    device: torch.device | str

    @property
    @abstractmethod
    def row(self) -> Architecture:
        """The row of the table of architectures."""

    @property
    @abstractmethod
    def space(self) -> Space:
        """The shape, dtype and parameters that the operations need."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Shapes, costs and laws of the scheme."""

    def bind(self, x: Tensor, role: Tensor) -> Tensor:
        """Return x bound with a role.

        Args:
            x: Atoms (*, *filler_shape), or embedded vectors (*, *memory_shape).
            role: Atoms or embedded vectors; the leading dimensions broadcast.
        """
        self._own(x, role)
        return self.bind_columns(x, role)

    def bind_columns(self, x: Tensor, role: Tensor) -> Tensor:
        """Return x bound with a role, unchecked; x may have some of the coordinates where each is bound by itself."""
        return self._act(x, role, self.row.bind_atoms, self.row.bind)

    @where_present("its binding cannot be undone. Use score or top, which bind the candidates and compare")
    def unbind(self, x: Tensor, role: Tensor) -> Tensor:
        """Return x with a role unbound: exact where `facts.exact` is True, else approximate."""
        self._own(x, role)
        assert self.row.unbind is not None
        return self._act(x, role, self.row.unbind_atoms, self.row.unbind)

    def _act(self, x: Tensor, role: Tensor, on_atoms: Operation | None, on_pictures: Operation) -> Tensor:
        if on_atoms is not None and _is_discrete(x):
            return on_atoms(self.space, x, role)
        return on_pictures(self.space, x, self._operator(role))

    def _own(self, *vectors: Tensor) -> None:
        """Refuse vectors of another architecture or dimension."""
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
        """Return x bound with roles (*, k, *shape), one after the other, the first role first."""
        for role in roles.unbind(-1 - len(self.facts.filler_shape)):
            x = self.bind(x, role)
        return x

    def unbind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Return x with roles (*, k, *shape) unbound, the last role first: the inverse of `bind_path`."""
        for role in reversed(roles.unbind(-1 - len(self.facts.filler_shape))):
            x = self.unbind(x, role)
        return x

    def multibind(self, vectors: Tensor) -> Tensor:
        """Return n vectors (*, n, *shape) bound into one: the first with the second, the result with the third, ..."""
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
        while (count := vectors.shape[dim]) > 1:  # neighbors, then neighbors of these: the order stays
            even = vectors.narrow(dim, 0, count - count % 2).unflatten(dim, (-1, 2)).unbind(dim)
            last = vectors.narrow(dim, count - count % 2, count % 2)
            vectors = torch.cat((self.bind(*even), last), dim)
        return vectors.squeeze(dim)

    def _check_set(self, vectors: Tensor, dim: int) -> None:
        if vectors.dim() < -dim or not vectors.shape[dim]:
            wanted = ", ".join(map(str, self.facts.filler_shape))
            raise BadValue(f"vectors must have shape (*, n, {wanted}) with n >= 1, got {tuple(vectors.shape)}")

    @where_present("none of its roles undoes another. Use unbind(x, role), where there is one")
    def inverse(self, role: Tensor) -> Tensor:
        """Return the inverse of a role: bind(x, inverse(role)) equals unbind(x, role)."""
        self._own(role)
        assert self.row.inverse is not None
        return self.row.inverse(self.space, role)

    def negative(self, x: Tensor) -> Tensor:
        """Return the additive inverse of x: an atom where the architecture has one, else the negated embedding."""
        self._own(x)
        if not _is_discrete(x):
            return -x
        return self.row.opposite(self.space, x) if self.row.opposite else -self._picture(x)

    def empty(self, *size: int) -> Tensor:
        """Return zeros (*size, *memory_shape), the neutral element of bundling."""
        return torch.zeros(*size, *self.facts.memory_shape, dtype=self.facts.memory_dtype, device=self.device)

    def picture(self, x: Tensor) -> Tensor:
        """Return atoms embedded in the linear space where they are summed; embedded vectors stay unchanged."""
        self._own(x)
        return self._as_picture(x)

    def bundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return n vectors (*, n, *shape) bundled into one.

        The result is their sum, quantized where the architecture quantizes and `memory` is "native".

        Args:
            vectors: (*, n, *shape).
            generator: Breaks ties at random; if None, a hash of seed, coordinate and sum breaks them.
        """
        if generator is not None and not isinstance(generator, torch.Generator):
            raise BadType(
                f"generator must be a torch.Generator, got {type(generator).__name__}. "
                "To bundle two vectors, pass one tensor: torch.stack((a, b))."
            )
        settled = self._settled(self.total(vectors), generator)
        return self.row.back(self.space, settled) if self.row.back and self._settles else settled

    def total(self, vectors: Tensor) -> Tensor:
        """Return the raw sum (*, *memory_shape) of vectors (*, n, *shape), without quantization."""
        self._own(vectors)
        return self.total_columns(vectors)

    def total_columns(self, vectors: Tensor) -> Tensor:
        """Return the raw sum of vectors, unchecked; they may have some of the coordinates."""
        if self.row.total and _is_discrete(vectors):
            return self.row.total(self.space, vectors)
        return self._as_picture(vectors).sum(-1 - len(self.facts.memory_shape))

    def multibundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(vectors, generator)

    def cross_product(self, x: Tensor, others: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the bundle of every vector of x (*, n, *shape) bound with every vector of others (*, m, *shape)."""
        dim = -1 - len(self.facts.filler_shape)
        if self.row.operator is self.row.picture:  # roles act as their pictures: bound sums are sums of what is bound
            total = self.row.bind(self.space, self.total(x), self.total(others))
            return self.bundle(total.unsqueeze(-1 - len(self.facts.memory_shape)), generator)
        pairs = self.bind(x.unsqueeze(dim), others.unsqueeze(dim - 1))
        return self.bundle(pairs.flatten(dim - 1, dim), generator)

    def normalize(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the nearest vectors of the form of atoms: unit norm, phases, unitary blocks, signs or bits."""
        self._own(x)
        if _is_discrete(x):
            return x
        settled = self._changed(self.row.normal or self.row.settle, x, generator)
        return self.row.back(self.space, settled) if self.row.back else settled

    def hard_quantize(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return x with real numbers as 1 or -1 (-1 for zero) and complex numbers as phases.

        Sparse and discrete architectures return `normalize(x)`.
        """
        self._own(x)
        if self.row.hard is None or _is_discrete(x):
            return self.normalize(x, generator)
        return self._changed(self.row.hard, x, generator)

    def soft_quantize(self, x: Tensor) -> Tensor:
        """Return tanh of real numbers, of the moduli of complex numbers, or of the singular values of blocks."""
        self._own(x)
        return x if _is_discrete(x) else self.row.soft(self.space, x)

    @property
    def _settles(self) -> bool:
        return self.memory == "native" and self.row.settle is not None

    def _settled(self, total: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return a raw sum, quantized where the architecture quantizes."""
        return self._changed(self.row.settle, total, generator) if self._settles else total

    def _changed(self, change: Operation | None, total: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a sum after `change`; ties are broken by a hash of seed, coordinate and sum, or by the generator."""
        assert change is not None  # a row that does not settle says what is normal
        lot: Tensor | None = None
        asked = change is algebra.to_signs and not transformed()  # a transformed graph cannot branch
        if asked and bool((signs := total.sign()).all()):
            return signs  # nothing ties
        if generator is not None:
            lot = torch.rand(total.shape, generator=generator, device=generator.device, dtype=self.dtype)
        elif self.row.ties:
            lot = algebra.chance(self.space, total, len(self.facts.memory_shape))
        return change(self.space, total, None if lot is None else lot.to(total.device))

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Return x with its coordinates rolled by `shifts`; `permute(x, -shifts)` is the inverse."""
        self._own(x)
        picture = self.row.segmented and not _is_discrete(x)
        return x.roll(shifts, dims=-len(self.facts.memory_shape if picture else self.facts.filler_shape))

    @where_present("none of its roles leaves every filler unchanged")
    def identity(self) -> Tensor:
        """Return the role that leaves every filler unchanged."""
        assert self.row.identity is not None
        return self.row.identity(self.space).to(self.device)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the similarities (*, n) of x (*, *shape) and others (n, *shape), as the architecture defines them."""
        self._own(x)
        self._check_others(others)
        if self.row.similarity and _is_discrete(x) and _is_discrete(others):
            alike = self.row.similarity(self.space, x.reshape(-1, *self.facts.filler_shape), others)
            return alike.view(*x.shape[: x.dim() - len(self.facts.filler_shape)], -1)
        one, other = self._as_picture(x), self._aim(others) if _is_discrete(others) else others
        flat = one.reshape(-1, *self.facts.memory_shape)
        return self._compared(flat, other).view(*one.shape[: one.dim() - len(self.facts.memory_shape)], -1)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, n) of the embedded x (*, *shape) and others (n, *shape)."""
        self._own(x)
        self._check_others(others)
        one, other = (as_reals(self._as_picture(v), len(self.facts.memory_shape)) for v in (x, others))
        return normalize(one, dim=-1) @ normalize(other, dim=-1).mT

    def dot_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, n) of the embedded x (*, *shape) and others (n, *shape)."""
        self._own(x)
        self._check_others(others)
        aimed = self._aim(others) if _is_discrete(others) else others
        one, other = (as_reals(v, len(self.facts.memory_shape)) for v in (self._as_picture(x), aimed))
        return one @ other.mT

    def hamming_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the number of equal elements (*, n) of x (*, *shape) and others (n, *shape), as integers."""
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
        """Return a random mixture: each element (or block) from x with probability p, else from other.

        Args:
            x, other: Vectors of one dtype; their shapes broadcast.
            p: Probability of choosing x.
            generator: Required.
        """
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
        """Return a random mixture: each element (or block) from one of n vectors.

        Args:
            vectors: (*, n, *shape).
            p: n probabilities that sum to 1; uniform if None.
            generator: Required.
        """
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


@lacks(
    inverse="a role adds a mode, and no role removes one. Use unbind(x, role)",
    identity="every role adds a mode. Roles of unit norm preserve norms",
    cross_product="binding is bilinear. Use bind(bundle(x), bundle(others))",
    **OF_ATOMS,
)
class TensorVerbs:
    """Binding by outer products, unbinding by contraction."""

    d: int

    def bind(self, x: Tensor, role: Tensor) -> Tensor:
        """Return the outer product of x with a role, which has one more mode.

        Args:
            x: Fillers or bound objects (*, ..., d).
            role: (*, d); the leading dimensions * broadcast, further dimensions of x share the role.

        Returns:
            (*, ..., d, d).
        """
        self._check_act(x, role, 1, "a filler or a bound object")
        between = x.dim() - role.dim()
        return x.unsqueeze(-1) * role.reshape(*role.shape[:-1], *(1,) * between, 1, self.d)

    def unbind(self, x: Tensor, role: Tensor) -> Tensor:
        """Return bound objects (*, ..., d, d) with the last mode contracted with a role (*, d): (*, ..., d)."""
        self._check_act(x, role, 2, "a bound object")
        batch = role.dim() - 1
        rows = x.flatten(batch, -2) @ role.unsqueeze(-1)
        return rows.squeeze(-1).unflatten(-1, x.shape[batch:-1])

    def _check_act(self, x: Tensor, role: Tensor, modes: int, what: str) -> None:
        sides = ", ".join([str(self.d)] * modes)
        if role.dim() < 1 or role.shape[-1] != self.d:
            raise BadValue(
                f"role must have shape (*, {self.d}), got {tuple(role.shape)}. Create roles with random(n, ...)."
            )
        if x.shape[-modes:] != (self.d,) * modes:
            raise BadValue(
                f"x must be {what} of shape (*, ..., {sides}), got {tuple(x.shape)}. "
                "Create fillers with random(n, ...) and bound objects with bind(filler, role)."
            )
        batch = role.dim() - 1
        leading = x.shape[:batch]
        fits = all(1 in pair or pair[0] == pair[1] for pair in zip(leading, role.shape, strict=False))
        if x.dim() < batch + modes or not fits:
            raise BadValue(
                f"The leading dimensions of x must broadcast with those of role, {tuple(role.shape[:-1])}, "
                f"got x of shape {tuple(x.shape)}. Use unsqueeze(0) to bind one x with many roles."
            )

    def bind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Return x bound with roles (*, k, d), one after the other."""
        for role in self._each(roles):
            x = self.bind(x, role)
        return x

    def unbind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Return x with roles (*, k, d) unbound, the last role first; inverts `bind_path` for orthonormal roles."""
        for role in reversed(self._each(roles)):
            x = self.unbind(x, role)
        return x

    def _each(self, roles: Tensor) -> tuple[Tensor, ...]:
        if roles.dim() < 2:
            raise BadValue(f"roles must have shape (*, k, {self.d}), got {tuple(roles.shape)}")
        return roles.unbind(-2)

    def bundle(self, vectors: Tensor, modes: int | None = None) -> Tensor:
        """Return the sum over n of fillers (*, n, d) or of bound objects (*, n, d, ..., d).

        Args:
            vectors: (*, n, d), or (*, n, d, ..., d) with `modes` dimensions of size d.
            modes: 1 for fillers, k + 1 for objects bound with k roles. Required where the shape is ambiguous.
        """
        if modes is None:
            if vectors.dim() > 2 and vectors.shape[-2] == self.d:
                raise BadValue(
                    f"vectors of shape {tuple(vectors.shape)} may be {self.d} fillers or bound objects. "
                    "Pass modes=1 for fillers, modes=k+1 for objects bound with k roles."
                )
            modes = 1
        check_integer("modes", modes, 1, way_out="a filler has one mode, and every role adds one")
        if vectors.dim() <= modes or vectors.shape[-modes:] != (self.d,) * modes:
            wanted = ", ".join(["*, n", *[str(self.d)] * modes])
            raise BadValue(
                f"vectors of {modes} modes must have shape ({wanted}), got {tuple(vectors.shape)}. "
                "Use torch.stack to combine several tensors."
            )
        return vectors.sum(-1 - modes)

    def multibind(self, vectors: Tensor) -> Tensor:
        """Return the first of vectors (*, n, d), a filler, bound with the others: (*, d, ..., d) with n modes."""
        if vectors.dim() < 2 or not vectors.shape[-2]:
            raise BadValue(f"vectors must have shape (*, n, {self.d}), got {tuple(vectors.shape)}")
        return self.bind_path(vectors[..., 0, :], vectors[..., 1:, :])

    def multibundle(self, vectors: Tensor, modes: int | None = None) -> Tensor:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(vectors, modes)

    def negative(self, x: Tensor) -> Tensor:
        """Return the additive inverse of x."""
        self._check_modes(x, 1)
        return -x

    def _check_modes(self, x: Tensor, modes: int) -> None:
        if not isinstance(x, Tensor):
            raise BadType(f"x must be a tensor, got {type(x).__name__}. Create fillers with random(n, ...).")
        if x.shape[-modes:] != (self.d,) * modes:
            wanted = ", ".join(["*", *[str(self.d)] * modes])
            raise BadValue(f"x must have shape ({wanted}) with modes={modes}, got {tuple(x.shape)}")

    def normalize(self, x: Tensor, modes: int = 1) -> Tensor:
        """Return fillers, or bound objects with `modes` modes, scaled to norm 1; zero stays zero."""
        check_integer("modes", modes, 1, way_out="a filler has one mode, and every role adds one")
        self._check_modes(x, modes)
        return normalize(x.flatten(-modes), dim=-1).view(x.shape)

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Return x with the last mode rolled by `shifts`; `permute(x, -shifts)` is the inverse."""
        self._check_modes(x, 1)
        return x.roll(shifts, dims=-1)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, n) of x (*, d) and others (n, d), or of bound objects (*, d, ..., d)."""
        return self._compared(x, others, lambda rows: rows)

    def dot_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Alias of `similarity`."""
        return self.similarity(x, others)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, n) of x (*, d) and others (n, d), or of bound objects (*, d, ..., d)."""
        return self._compared(x, others, lambda rows: normalize(rows, dim=-1))

    def _compared(self, x: Tensor, others: Tensor, scaled: Callable[[Tensor], Tensor]) -> Tensor:
        one = others.shape[1:]
        if others.dim() < 2 or set(one) != {self.d}:
            raise BadValue(
                f"others must have shape (n, {self.d}), or (n, {self.d}, ..., {self.d}) for bound objects, "
                f"got {tuple(others.shape)}. Use unsqueeze(0) for a single one."
            )
        if x.shape[-len(one) :] != one:
            raise BadValue(f"x must have shape (*, {', '.join(map(str, one))}), as others have, got {tuple(x.shape)}")
        return scaled(x.flatten(-len(one))) @ scaled(others.flatten(1)).mT


@lacks(
    permute="the order of roles counts in every path. Put the position into the path: (position, role)",
    inverse="contexts are not vectors. Use unbind(memory, contexts)",
    identity="every context keeps only a part of the space",
    multibind="contexts are not vectors. Use a path of several roles, which is one context: (role, role, ...)",
    cross_product="contexts are not vectors. Write every pair with trace(contexts, fillers)",
    **OF_ATOMS,
)
@dataclass(frozen=True, repr=False, kw_only=True)
class ContextVerbs(Scheme[C]):
    """Binding operations of schemes whose roles are contexts; a bound filler has the shape of a memory."""

    def bind(self, fillers: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return each filler bound in its context; `trace` computes their sum without the single terms.

        Args:
            fillers: (*, n, *filler_shape).
            contexts: n contexts, or n paths.

        Returns:
            (*, n, *memory_shape).
        """
        return in_rows(self, self._bind, fillers, contexts)

    @abstractmethod
    def _bind(self, fillers: Tensor, contexts: C) -> Tensor:
        """Return n fillers bound in their contexts, (n, *memory_shape)."""

    def unbind(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (n, *core_shape) of n contexts, to compare with `encode(fillers, contexts)`."""
        return self.read(memory, contexts)

    def bundle(self, memories: Tensor) -> Tensor:
        """Return the sum over n of memories or bound fillers (*, n, *memory_shape)."""
        dim = self._set_dim(memories)
        return memories.sum(dim)

    def multibundle(self, memories: Tensor) -> Tensor:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(memories)

    def negative(self, memory: Tensor) -> Tensor:
        """Return the additive inverse of a memory."""
        self._check_memories(memory)
        return -memory

    def empty(self) -> Tensor:
        """Return an empty memory, (*memory_shape)."""
        return self.zeros()

    def normalize(self, memory: Tensor) -> Tensor:
        """Return memories scaled to norm 1, the norm of one bound filler; a zero memory stays zero."""
        self._check_memories(memory)
        return normalize(memory.flatten(-len(self.facts.memory_shape)), dim=-1).view(memory.shape)

    def dot_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        self._check_memories(memory)
        self._check_others(others)
        size = len(self.facts.memory_shape)
        return memory.flatten(-size) @ others.flatten(1).mT

    def cosine_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        self._check_others(others)
        size = len(self.facts.memory_shape)
        others = normalize(others.flatten(-size), dim=-1).view(others.shape)
        return self.dot_similarity(self.normalize(memory), others)

    def similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Alias of `cosine_similarity`."""
        return self.cosine_similarity(memory, others)

    def _check_memories(self, memories: Tensor) -> None:
        shape = self.facts.memory_shape
        if not isinstance(memories, Tensor):
            raise BadType(
                f"A memory of {self.name} must be a tensor, got {type(memories).__name__}. Create one with trace(...)."
            )
        if memories.shape[-len(shape) :] != shape:
            wanted = ", ".join(map(str, shape))
            raise BadValue(
                f"Memories of {self.name} must have shape (*, {wanted}), got {tuple(memories.shape)}. Create them with "
                "trace(...) or bind(...)."
            )

    def _check_others(self, others: Tensor) -> None:
        self._check_memories(others)
        if others.dim() != 1 + len(self.facts.memory_shape):
            wanted = ", ".join(map(str, self.facts.memory_shape))
            raise BadValue(
                f"others must have shape (n, {wanted}), got {tuple(others.shape)}. Use unsqueeze(0) for one memory."
            )

    def _set_dim(self, memories: Tensor) -> int:
        self._check_memories(memories)
        shape = self.facts.memory_shape
        if memories.dim() <= len(shape):
            wanted = ", ".join(map(str, shape))
            raise BadValue(f"memories must have shape (*, n, {wanted}), got {tuple(memories.shape)}")
        return -1 - len(shape)
