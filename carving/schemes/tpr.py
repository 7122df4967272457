"""Tensor product representations: the outer product of a filler and the roles of its path.

Exact for orthonormal roles; d^(depth+1) numbers. A memory has one depth. `whole_path=True` draws one role for the whole
path instead, so that a memory of order two stores paths of any depth.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from carving import hashing
from carving.caching import cached_property
from carving.errors import BadValue
from carving.hashing import Bits
from carving.schemes.base import Candidates, Contexts, Facts, Scheme
from carving.schemes.verbs import TensorVerbs
from carving.symbols.paths import Paths
from carving.tensors import outer
from carving.tiling import Cost
from carving.validate import check_integer


@dataclass(frozen=True, eq=False)
class RolePaths(Contexts):
    """The contexts of TPR: one unit vector for each role."""

    roles: Tensor  # (n, depth, d)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n)."""
        return self.roles.shape[:-2]

    @property
    def outer(self) -> Tensor:
        """The outer products of the roles of each path, (n, d^depth)."""
        return outer(self.roles.unbind(1))


@dataclass(frozen=True, repr=False)
class TPR(TensorVerbs, Scheme[RolePaths]):
    """Tensor product representation: a memory tensor of order depth + 1 and side d.

    Roles and fillers are random unit vectors. A filler is bound by the outer product with the roles of its path.

    Args:
        d: Side of the memory and length of fillers and roles, at least 2.
        depth: Number of roles in every path.
        whole_path: Draw one role vector for the whole path, so that paths may have any depth; `depth` must be 1.
        seed, dtype, device, workspace: As in `Scheme`.

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
        check_integer("d", self.d, 2, way_out="It is the side of the memory.")
        check_integer("depth", self.depth, 1, way_out="It is the number of roles in a path.")
        if self.whole_path and self.depth != 1:
            raise BadValue(f"depth must be 1 with whole_path=True, where a path is one role, got {self.depth}")
        vars(self).update(d=int(self.d), depth=int(self.depth), whole_path=bool(self.whole_path))
        super().__post_init__()

    def empty(self) -> Tensor:
        """Return an empty memory, (*memory_shape)."""
        return self.zeros()

    @cached_property
    def facts(self) -> Facts:
        """Shapes, costs and laws of the scheme; reading is exact because roles are unit vectors."""
        d, depth = self.d, self.depth
        return Facts(
            filler_shape=(d,),
            core_shape=(d,),  # a filler, and noise
            memory_shape=(d,) * (depth + 1),  # the filler's mode, then one for each role
            memory_dtype=self.dtype,
            filler_dtype=self.dtype,
            filler_words=hashing.words_for_normals(d),
            cost=Cost(pair=2 * d**depth + 4 * d, core=2 * d**depth + 4 * d, context=3 * d, role=3 * d),
            filler_scalars=d,
            memory_scalars=d ** (depth + 1),
            echo=d,  # of two traces of one filler only the roles differ
        )

    def _fillers(self, words: Bits) -> Tensor:
        numbers = hashing.normals(words)[:, : self.d]
        return (numbers / torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)).to(self.dtype)

    def _contexts(self, paths: Paths) -> RolePaths:
        if self.whole_path:
            names = paths.names
        else:
            for path in paths:
                if len(path) != self.depth:
                    raise BadValue(
                        f"Paths of this TPR must have {self.depth} roles, got {path!r} with {len(path)}. "
                        "Use TPR(d, whole_path=True) for paths of any depth: it has one role vector for the whole path."
                    )
            # A role's vector depends on its position in the path.
            names = [name for path in paths.leveled() for name in path]
        index = {name: row for row, name in enumerate(dict.fromkeys(names))}
        vectors = self._fillers(hashing.bits(index, self.facts.filler_words, seed=self.seed, purpose="role"))
        roles = vectors[torch.tensor([index[name] for name in names])].view(len(paths), self.depth, self.d)
        return RolePaths(roles.to(self.device))

    def _encode(self, fillers: Tensor, contexts: RolePaths) -> Tensor:
        return fillers

    def _write(self, cores: Tensor, contexts: RolePaths) -> Tensor:
        return (cores.mT @ contexts.outer).view(self.facts.memory_shape)

    def _add(
        self,
        memory: Tensor,
        contexts: RolePaths,
        fillers: Tensor,
        weights: Tensor | None,
        own: slice = slice(None),  # the rows of the first mode, that of the filler, which the memory has
    ) -> None:
        weighted = fillers if weights is None else fillers * weights.unsqueeze(1)
        memory.view(len(memory), -1).addmm_(weighted[:, own].mT, contexts.outer)

    def _read(self, memory: Tensor, contexts: RolePaths) -> Tensor:
        return contexts.outer @ memory.reshape(self.d, -1).mT

    # Of a memory of which only some rows of the first mode are there

    def write_rows(self, cores: Tensor, contexts: RolePaths, own: slice) -> Tensor:
        """Return some rows of the memory that cores give."""
        return (cores[:, own].mT @ contexts.outer).view(-1, *self.facts.memory_shape[1:])

    def read_rows(self, memory: Tensor, contexts: RolePaths, own: slice) -> Tensor:
        """Return what some rows of the memory contribute to reading: their own numbers of the cores."""
        cores = memory.new_zeros(len(contexts), self.d)
        cores[:, own] = contexts.outer @ memory.reshape(len(memory), -1).mT
        return cores

    adjoint_rows = read_rows

    def _match(self, cores: Tensor, contexts: RolePaths, candidates: Candidates) -> Tensor:
        fillers = candidates.tensor
        return cores @ fillers.mT if candidates.shared else torch.bmm(fillers, cores.unsqueeze(2)).squeeze(2)

    def _energy(self, contexts: RolePaths, candidates: Candidates) -> Tensor:
        norms = candidates.tensor.square().sum(-1)  # unit roles preserve them
        return norms.unsqueeze(0) if candidates.shared else norms
