"""The tensor product representation: a filler, and its role path as an outer product.

Exact for orthonormal roles; d^(depth+1) numbers. A memory has one depth. `whole_path=True` draws one role for the whole
path instead, so that paths of any depth go into a memory of order two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import draws
from carving.checks import check_integer
from carving.chunks import Cost
from carving.contexts import Contexts
from carving.draws import Bits
from carving.errors import BadValue
from carving.facts import Facts
from carving.linear import LinearScheme
from carving.symbols import Path, canonical_path
from carving.tensors import outer


@dataclass(frozen=True, eq=False)
class RolePaths(Contexts):
    """The contexts of TPR: a unit vector a role."""

    roles: Tensor  # (n, depth, d)

    @property
    def outer(self) -> Tensor:
        """The outer products of each path's roles, (n, d^depth)."""
        return outer(self.roles.unbind(1))


@dataclass(frozen=True, repr=False)
class TPR(LinearScheme[RolePaths]):
    """A tensor of order depth + 1 and side d, for paths of `depth` roles; roles and fillers are random unit vectors.

    >>> tpr = TPR(d=64, depth=2)
    >>> memory = tpr.trace([("sentence", "subject"), ("sentence", "verb")], ["dog", "barks"])
    >>> tpr.score(memory, [("sentence", "verb")], tpr.fillers(["dog", "barks"])).argmax().item()
    1
    """

    name = "TPR"
    d: int
    depth: int = 1
    whole_path: bool = False

    def __post_init__(self) -> None:
        check_integer("d", self.d, 2, way_out="it is the side of the memory")
        check_integer("depth", self.depth, 1, way_out="it is the number of roles in a path")
        if self.whole_path and self.depth != 1:
            raise BadValue(f"with whole_path=True a path is one role, so depth must be 1, got {self.depth}")
        vars(self).update(d=int(self.d), depth=int(self.depth), whole_path=bool(self.whole_path))
        super().__post_init__()

    @cached_property
    def facts(self) -> Facts:
        """What is true of TPR; exact because roles are unit vectors."""
        d, depth = self.d, self.depth
        return Facts(
            filler_shape=(d,),
            core_shape=(d,),  # a filler, and noise
            memory_shape=(d,) * (depth + 1),  # the filler's mode, then one for each role
            memory_dtype=self.dtype,
            filler_dtype=self.dtype,
            filler_words=draws.words_for_normals(d),
            contexts=f"TPR {d} {depth}",
            cost=Cost(pair=2 * d**depth + 4 * d, core=2 * d**depth + 4 * d, context=3 * d, role=3 * d),
            filler_scalars=d,
            memory_scalars=d ** (depth + 1),
            echo=d,  # of two traces of one filler only the roles differ
        )

    def _fillers(self, words: Bits) -> Tensor:
        numbers = draws.normals(words)[:, : self.d]
        return (numbers / torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)).to(self.dtype)

    def _contexts(self, paths: Sequence[Path]) -> RolePaths:
        if self.whole_path:
            names = [canonical_path(path) for path in paths]
        else:
            for path in paths:
                if len(path) != self.depth:
                    raise BadValue(
                        f"this TPR holds paths of {self.depth} roles, got {path!r} with {len(path)}; "
                        "TPR(d, whole_path=True) takes paths of any depth, one role vector for the whole path"
                    )
            # A role's vector depends on its position in the path.
            names = [canonical_path((level, label)) for path in paths for level, label in enumerate(path)]
        index = {name: row for row, name in enumerate(dict.fromkeys(names))}
        vectors = self._fillers(draws.bits(index, self.facts.filler_words, seed=self.seed, purpose="role"))
        roles = vectors[torch.tensor([index[name] for name in names])].view(len(paths), self.depth, self.d)
        return RolePaths(roles.to(self.device), kind=self.facts.contexts)

    def _encode(self, fillers: Tensor, contexts: RolePaths) -> Tensor:
        return fillers

    def _write(self, cores: Tensor, contexts: RolePaths) -> Tensor:
        return (cores.mT @ contexts.outer).view(self.memory_shape)

    def _add(self, memory: Tensor, contexts: RolePaths, fillers: Tensor, weights: Tensor | None) -> None:
        weighted = fillers if weights is None else fillers * weights.unsqueeze(1)
        memory.view(self.d, -1).addmm_(weighted.mT, contexts.outer)

    def _read(self, memory: Tensor, contexts: RolePaths) -> Tensor:
        return contexts.outer @ memory.reshape(self.d, -1).mT

    def _match(self, cores: Tensor, contexts: RolePaths, candidates: Tensor) -> Tensor:
        if candidates.dim() == 2:
            return cores @ candidates.mT
        return torch.bmm(candidates, cores.unsqueeze(2)).squeeze(2)

    def energy(self, contexts: RolePaths, candidates: Tensor) -> Tensor:
        """The squared norms of the candidates: roles are unit vectors."""
        norms = candidates.square().sum(-1)
        return norms.unsqueeze(0) if candidates.dim() == 2 else norms

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
