"""The tensor product representation: a filler, and its role path as an outer product.

Exact for orthonormal roles; d^(depth+1) numbers. A memory has one depth. `whole_path=True` draws one role for the whole
path instead, so that paths of any depth go into a memory of order two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import draws, symbols
from carving.checks import check_device, check_integer, check_real_dtype
from carving.draws import Bits
from carving.errors import BadValue
from carving.scheme import Contexts, Facts, Scheme
from carving.symbols import Path


@dataclass(frozen=True, eq=False)
class RolePaths(Contexts):
    """The contexts of TPR: a unit vector a role."""

    roles: Tensor  # (n, depth, d)


@dataclass(frozen=True, init=False)
class TPR(Scheme):
    """A tensor of order depth + 1 and side d, for paths of `depth` roles; roles and fillers are random unit vectors."""

    d: int
    depth: int
    whole_path: bool
    seed: int
    dtype: torch.dtype = field(compare=False)
    device: torch.device = field(compare=False)
    workspace: int = field(compare=False)

    def __init__(
        self,
        d: int,
        depth: int = 1,
        whole_path: bool = False,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        *,
        workspace: int = 64 * 2**20,
    ) -> None:
        values: dict[str, Any] = dict(
            d=check_integer("d", d, 2, way_out="it is the side of the memory"),
            depth=check_integer("depth", depth, 1, way_out="it is the number of roles in a path"),
            whole_path=bool(whole_path),
            seed=check_integer("seed", seed, 0, 2**64 - 1, "any integer from 0 on will do"),
            dtype=check_real_dtype(dtype),
            device=check_device(device),
            workspace=check_integer("workspace", workspace, 1, way_out="it is a number of bytes"),
        )
        if whole_path and depth != 1:
            raise BadValue(f"with whole_path=True a path is one role, so depth must be 1, got {depth}")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """A unit vector."""
        return (self.d,)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """A filler, and noise."""
        return (self.d,)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The filler's mode, then one for each role."""
        return (self.d,) * (self.depth + 1)

    @property
    def memory_dtype(self) -> torch.dtype:
        """The scheme's own."""
        return self.dtype

    @property
    def facts(self) -> Facts:
        """What is true of TPR; exact because roles are unit vectors."""
        return Facts(
            exact=True,
            adjoint=True,
            self_inverse=False,
            commutative=False,
            associative=False,
            contextual=False,
            linear=True,
            filler_scalars=self.d,
            memory_scalars=self.d ** (self.depth + 1),
            echo=self.d,  # of two traces of one filler only the roles differ
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the scheme again."""
        return dict(d=self.d, depth=self.depth, whole_path=self.whole_path, seed=self.seed)

    @property
    def _filler_words(self) -> int:
        return draws.words_for_normals(self.d)

    def _fillers(self, words: Bits) -> Tensor:
        numbers = draws.normals(words)[:, : self.d]
        return (numbers / torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)).to(self.dtype)

    def _empty_fillers(self, count: int) -> Tensor:
        return torch.empty(count, self.d, dtype=self.dtype, device="cpu")

    def _fit(self, contexts: Contexts) -> bool:
        return isinstance(contexts, RolePaths) and contexts.roles.shape[1:] == (self.depth, self.d)

    def _contexts(self, paths: Sequence[Path]) -> RolePaths:
        if self.whole_path:
            names = [symbols.canonical_path(path) for path in paths]
        else:
            for path in paths:
                if len(path) != self.depth:
                    raise BadValue(
                        f"this TPR holds paths of {self.depth} roles, got {path!r} with {len(path)}; "
                        "TPR(d, whole_path=True) takes paths of any depth, one role vector for the whole path"
                    )
            # A role's vector depends on its place in the path.
            names = [symbols.canonical_path((level, label)) for path in paths for level, label in enumerate(path)]
        distinct = list(dict.fromkeys(names))
        place = {name: i for i, name in enumerate(distinct)}
        vectors = self._fillers(draws.bits(distinct, self._filler_words, seed=self.seed, purpose="role"))
        roles = vectors[torch.tensor([place[name] for name in names])]
        return RolePaths(roles.view(len(paths), self.depth, self.d).to(self.device))

    @staticmethod
    def _outer(contexts: RolePaths) -> Tensor:  # (n, d^depth)
        product, *rest = contexts.roles.unbind(1)
        for role in rest:
            product = (product.unsqueeze(2) * role.unsqueeze(1)).flatten(1)
        return product

    def _encode(self, fillers: Tensor, contexts: RolePaths) -> Tensor:
        return fillers

    def _write(self, cores: Tensor, contexts: RolePaths) -> Tensor:
        return (cores.mT @ self._outer(contexts)).view(self.memory_shape)

    def _add(self, memory: Tensor, contexts: RolePaths, fillers: Tensor, weights: Tensor | None) -> None:
        weighted = fillers if weights is None else fillers * weights.unsqueeze(1)
        memory.view(self.d, -1).addmm_(weighted.mT, self._outer(contexts))

    def _read(self, memory: Tensor, contexts: RolePaths) -> Tensor:
        return self._outer(contexts) @ memory.reshape(self.d, -1).mT

    def _match(self, cores: Tensor, contexts: RolePaths, candidates: Tensor) -> Tensor:
        if candidates.dim() == 2:
            return cores @ candidates.mT
        return torch.bmm(candidates, cores.unsqueeze(2)).squeeze(2)

    def _energy(self, contexts: RolePaths, candidates: Tensor) -> Tensor:
        norms = candidates.square().sum(-1)
        return norms.unsqueeze(0) if candidates.dim() == 2 else norms

    def _pair_numbers(self) -> int:
        return self._core_numbers()

    def _core_numbers(self) -> int:
        return 2 * self.d**self.depth + 4 * self.d

    def _context_numbers(self, depth: int) -> int:
        return 3 * depth * self.d

    def _tile(self, rows: int, columns: int) -> tuple[int, int]:
        return rows, columns  # one product, nothing beside its result

    # The plain algebra: a filler has one mode of d numbers, and every role that is bound adds one

    def bind(self, x: Tensor, role: Tensor) -> Tensor:
        """The outer product of a filler or a bound object (*, ..., d) with a role (*, d): one mode more.

        The leading dimensions * of the two broadcast; further dimensions of x share the role.
        """
        self._check_act(x, role, 1, "a filler or a bound object")
        between = x.dim() - role.dim()
        return x.unsqueeze(-1) * role.reshape(*role.shape[:-1], *(1,) * between, 1, self.d)

    def unbind(self, x: Tensor, role: Tensor) -> Tensor:
        """The last mode of bound objects (*, ..., d, d) contracted with the role (*, d): one mode less."""
        self._check_act(x, role, 2, "a bound object")
        batch = role.dim() - 1
        rows = x.flatten(batch, -2) @ role.unsqueeze(-1)
        return rows.squeeze(-1).unflatten(-1, x.shape[batch:-1])

    def _check_act(self, x: Tensor, role: Tensor, modes: int, what: str) -> None:
        sides = ", ".join([str(self.d)] * modes)
        if role.dim() < 1 or role.shape[-1] != self.d:
            raise BadValue(f"a role must have shape (*, {self.d}), got {tuple(role.shape)}; random(n, ...) makes some")
        if x.shape[-modes:] != (self.d,) * modes:
            raise BadValue(
                f"{what} must have shape (*, ..., {sides}), got {tuple(x.shape)}; "
                "random(n, ...) makes fillers, bind(filler, role) binds them"
            )
        batch = role.dim() - 1
        leading = x.shape[:batch]
        fits = all(1 in pair or pair[0] == pair[1] for pair in zip(leading, role.shape, strict=False))
        if x.dim() < batch + modes or not fits:
            raise BadValue(
                f"the leading dimensions of {what} must be those of the roles, {tuple(role.shape[:-1])}, or 1, "
                f"got {tuple(x.shape)}; unsqueeze(0) lets one of them meet many roles"
            )

    def bind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Bound with roles (*, k, d), one after the other."""
        for role in self._each(roles):
            x = self.bind(x, role)
        return x

    def unbind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """The inverse of `bind_path` for orthonormal roles: the last one is undone first."""
        for role in reversed(self._each(roles)):
            x = self.unbind(x, role)
        return x

    def _each(self, roles: Tensor) -> tuple[Tensor, ...]:
        if roles.dim() < 2:
            raise BadValue(f"a path's roles must have shape (*, k, {self.d}), got {tuple(roles.shape)}")
        return roles.unbind(-2)

    def bundle(self, vectors: Tensor, modes: int | None = None) -> Tensor:
        """The sum of n fillers (*, n, d), or of n objects (*, n, d, ..., d) of so many modes.

        A filler has one mode, and what is bound with k roles k + 1. Where the shape leaves open which is meant, `modes`
        must be given.
        """
        if modes is None:
            if vectors.dim() > 2 and vectors.shape[-2] == self.d:
                raise BadValue(
                    f"vectors of shape {tuple(vectors.shape)} may be {self.d} fillers or bound objects; "
                    "say modes=1 for fillers, modes=k+1 for what is bound with k roles"
                )
            modes = 1
        check_integer("modes", modes, 1, way_out="a filler has one, and every role adds one")
        if vectors.dim() <= modes or vectors.shape[-modes:] != (self.d,) * modes:
            wanted = ", ".join(["*, n", *[str(self.d)] * modes])
            raise BadValue(
                f"vectors of {modes} modes must have shape ({wanted}), got {tuple(vectors.shape)}; "
                "torch.stack makes a set of several"
            )
        return vectors.sum(-1 - modes)

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """The last mode rolled around, a filler's own or that of the last role; the inverse rolls by -shifts."""
        return x.roll(shifts, dims=-1)

    def identity(self) -> Tensor:
        """There is none."""
        raise NotImplementedError("TPR has no identity: no role of it leaves every filler as it is")

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The inner products of x (*, d) and others (n, d), or of bound objects (*, d, ..., d) and (n, d, ..., d)."""
        return self._compared(x, others, lambda rows: rows)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The cosines of x (*, d) and others (n, d), or of bound objects (*, d, ..., d) and (n, d, ..., d)."""
        return self._compared(x, others, lambda rows: normalize(rows, dim=-1))

    def _compared(self, x: Tensor, others: Tensor, scaled: Callable[[Tensor], Tensor]) -> Tensor:
        one = others.shape[1:]
        if others.dim() < 2 or set(one) != {self.d}:
            raise BadValue(
                f"others must have shape (n, {self.d}), or (n, {self.d}, ..., {self.d}) where they are bound, "
                f"got {tuple(others.shape)}; unsqueeze(0) makes a set of a single one"
            )
        if x.shape[-len(one) :] != one:
            raise BadValue(f"x must be of the shape of the others, (*, {self.d}, ...), got {tuple(x.shape)}")
        return scaled(x.flatten(-len(one))) @ scaled(others.flatten(1)).mT
