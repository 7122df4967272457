"""The operations known from torchhd (bind, bundle, similarity and others), where they exist.

`TensorVerbs` has those of tensor products, `ContextVerbs` those of schemes whose roles are contexts, and `vsa.py` those
of vector symbolic architectures. What a scheme lacks is absent: see `OptionalVerb`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, TypeVar

from torch import Tensor
from torch.nn.functional import normalize

from carving.errors import BadType, BadValue
from carving.schemes.base import C, ContextsOrPaths, Scheme, check_memory, in_rows
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
        check_integer("modes", modes, 1, way_out="A filler has one mode, and every role adds one.")
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
        check_integer("modes", modes, 1, way_out="A filler has one mode, and every role adds one.")
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
        if not check_memory(self.facts, memories):
            wanted = ", ".join(map(str, self.facts.memory_shape))
            raise BadValue(f"memories must have shape (*, n, {wanted}), got {tuple(memories.shape)}")
        return memories.sum(-1 - len(self.facts.memory_shape))

    def multibundle(self, memories: Tensor) -> Tensor:
        """Alias of `bundle`, the name in torchhd."""
        return self.bundle(memories)

    def negative(self, memory: Tensor) -> Tensor:
        """Return the additive inverse of a memory."""
        check_memory(self.facts, memory)
        return -memory

    def empty(self) -> Tensor:
        """Return an empty memory, (*memory_shape)."""
        return self.zeros()

    def normalize(self, memory: Tensor) -> Tensor:
        """Return memories scaled to norm 1, the norm of one bound filler; a zero memory stays zero."""
        check_memory(self.facts, memory)
        return normalize(memory.flatten(-len(self.facts.memory_shape)), dim=-1).view(memory.shape)

    def dot_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the inner products (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        check_memory(self.facts, memory)
        self._check_others(others)
        return memory.flatten(-len(self.facts.memory_shape)) @ others.flatten(1).mT

    def cosine_similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Return the cosines (*, n) of memories (*, *memory_shape) and others (n, *memory_shape)."""
        self._check_others(others)
        size = len(self.facts.memory_shape)
        others = normalize(others.flatten(-size), dim=-1).view(others.shape)
        return self.dot_similarity(self.normalize(memory), others)

    def similarity(self, memory: Tensor, others: Tensor) -> Tensor:
        """Alias of `cosine_similarity`."""
        return self.cosine_similarity(memory, others)

    def _check_others(self, others: Tensor) -> None:
        shape = (-1, *self.facts.memory_shape)
        check_tensor("others", others, shape, "Use unsqueeze(0) for one memory.", self.facts.memory_dtype)
