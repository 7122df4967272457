"""The verbs that users of torchhd know, on plain tensors (*, shape): bind, unbind, bundle, permute, similarity."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.errors import BadType, BadValue
from carving.facts import Facts
from carving.schemes import pictures
from carving.schemes.algebra import Space
from carving.schemes.architectures import Architecture, Operation
from carving.tensors import as_reals


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
        return self._act(x, role, self.row.bind_atoms, self.row.bind)

    def unbind(self, x: Tensor, role: Tensor) -> Tensor:
        """The role undone: exactly for the exact architectures, approximately for the others."""
        if self.row.unbind is None:
            raise NotImplementedError(
                f"{self.name} has no unbinding; score candidates by binding them again, as `score` and `top` do"
            )
        return self._act(x, role, self.row.unbind_atoms, self.row.unbind)

    def _act(self, x: Tensor, role: Tensor, on_atoms: Operation | None, on_pictures: Operation) -> Tensor:
        if on_atoms is not None and _is_discrete(x):
            return on_atoms(self.space, x, role)
        return on_pictures(self.space, x, self._operator(role))

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

    def bundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The set of vectors (*, n, shape) as one: their sum, settled where the architecture settles.

        Ties fall by a hash of seed, coordinate and sum, or by the generator. With `memory="raw"` the sum itself.
        """
        if generator is not None and not isinstance(generator, torch.Generator):
            raise BadType(
                f"the vectors to bundle are one tensor (*, n, shape), got a further {type(generator).__name__}; "
                "torch.stack((a, b)) makes a set of two"
            )
        if self.row.total and _is_discrete(vectors):
            total = self.row.total(self.space, vectors)
        else:
            total = self._as_picture(vectors).sum(-1 - len(self.facts.memory_shape))
        settled = self._settled(total, generator)
        return self.row.back(self.space, settled) if self.row.back and self._settles else settled

    @property
    def _settles(self) -> bool:
        return self.memory == "native" and self.row.settle is not None

    def _settled(self, total: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What a raw sum settles to; ties fall by a hash of seed, coordinate and sum, or by the generator."""
        if self.row.settle is None or not self._settles:
            return total
        lot: Tensor | None = None
        if generator is not None:
            lot = torch.rand(total.shape, generator=generator, device=generator.device, dtype=self.dtype)
        elif self.row.ties:
            lot = pictures.chance(self.space, total, len(self.facts.memory_shape))
        return self.row.settle(self.space, total, None if lot is None else lot.to(total.device))

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Coordinates rolled around; the inverse rolls by -shifts."""
        picture = self.row.segmented and not _is_discrete(x)
        return x.roll(shifts, dims=-len(self.facts.memory_shape if picture else self.facts.filler_shape))

    def identity(self) -> Tensor:
        """The role that changes nothing."""
        if self.row.identity is None:
            raise NotImplementedError(f"{self.name} has no identity: no role of it leaves every filler as it is")
        return self.row.identity(self.space).to(self.device)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The architecture's own similarity of x (*, shape) to others (n, shape): (*, n)."""
        self._check_others(others)
        if self.row.similarity and _is_discrete(x) and _is_discrete(others):
            alike = self.row.similarity(self.space, x.reshape(-1, *self.facts.filler_shape), others)
            return alike.view(*x.shape[: x.dim() - len(self.facts.filler_shape)], -1)
        one, other = self._as_picture(x), self._aim(others) if _is_discrete(others) else others
        flat = one.reshape(-1, *self.facts.memory_shape)
        return self._compared(flat, other).view(*one.shape[: one.dim() - len(self.facts.memory_shape)], -1)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The cosine of the pictures of x (*, shape) and others (n, shape): (*, n)."""
        self._check_others(others)
        one, other = (as_reals(self._as_picture(v), len(self.facts.memory_shape)) for v in (x, others))
        return normalize(one, dim=-1) @ normalize(other, dim=-1).mT

    def _check_others(self, others: Tensor) -> None:
        if others.dim() - len(self.facts.filler_shape if _is_discrete(others) else self.facts.memory_shape) != 1:
            wanted = ", ".join(map(str, self.facts.filler_shape))
            raise BadValue(
                f"others must have shape (n, {wanted}), got {tuple(others.shape)}; "
                "unsqueeze(0) makes a set of a single one, flatten makes one set of several"
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
