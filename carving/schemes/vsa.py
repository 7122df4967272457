"""The one scheme that runs every row of the table of architectures.

`bind(filler, role)`: the filler is data, the role acts on it; the order matters for VTB, MBAT, GHRR and BSDC-S.
Memories hold raw sums. Architectures that quantise (MAP-B, BSC, the BSDCs, CGR, MAP-C) settle the sum when it is read;
`memory="raw"` reads the sum itself. `d` counts the real numbers of a memory, or with `accounting="coordinates"` an
atom's coordinates, which makes a difference for the complex ones (FHRR, GHRR, CGR).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import draws, symbols
from carving.checks import check_choice, check_device, check_integer, check_real_dtype
from carving.chunks import slices
from carving.draws import Bits
from carving.errors import BadValue
from carving.scheme import Contexts, Facts, Scheme
from carving.schemes import algebra
from carving.schemes.algebra import Space
from carving.schemes.architectures import ARCHITECTURES, Architecture, Map, chosen_options, space_of, varied
from carving.symbols import Path


@dataclass(frozen=True, eq=False)
class Roles(Contexts):
    """The contexts of an architecture: what acts, composed along the path or kept as a sequence, and the depth."""

    architecture = ""  # no field: the types below have one each
    operators: Tensor  # (n, ...) or (n, depth, ...)
    depths: Tensor  # (n,)

    def __reduce__(self) -> tuple[Any, ...]:
        return _roles, (self.architecture, self.operators, self.depths)


@cache
def _roles_of(architecture: str) -> type[Roles]:
    """A type for each architecture: types survive slicing, so that no architecture takes the roles of another."""
    return dataclass(frozen=True, eq=False)(type(f"RolesOf{architecture}", (Roles,), {"architecture": architecture}))


def _roles(architecture: str, operators: Tensor, depths: Tensor) -> Roles:
    return _roles_of(architecture)(operators, depths)


@dataclass(frozen=True, init=False)
class VSA(Scheme):
    """One of the fourteen, by name: `VSA("HLB", d=4096)`."""

    name: str
    d: int
    accounting: str
    memory: str
    options: tuple[tuple[str, Any], ...]
    seed: int
    dtype: torch.dtype = field(compare=False)
    device: torch.device = field(compare=False)
    workspace: int = field(compare=False)
    row: Architecture = field(compare=False, repr=False)
    space: Space = field(compare=False, repr=False)
    operator_shape: tuple[int, ...] = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        d: int,
        *,
        accounting: str = "real",
        memory: str = "native",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        workspace: int = 64 * 2**20,
        **options: Any,
    ) -> None:
        d = check_integer("d", d, 2, way_out="4096 is usual")
        chosen = chosen_options(name, options)
        row = varied(ARCHITECTURES[name], chosen)
        values: dict[str, Any] = dict(
            name=name,
            d=d,
            accounting=check_choice("accounting", accounting, ("real", "coordinates")),
            memory=check_choice("memory", memory, ("native", "raw")),
            options=tuple(sorted(chosen.items())),
            seed=check_integer("seed", seed, 0, 2**64 - 1, "any integer from 0 on will do"),
            dtype=check_real_dtype(dtype),
            device=check_device(device),
            workspace=check_integer("workspace", workspace, 1, way_out="it is a number of bytes"),
            row=row,
            space=space_of(row, d, accounting == "real", dtype, seed, chosen),
        )
        for key, value in values.items():
            object.__setattr__(self, key, value)
        atom = row.atoms(self.space, np.zeros((1, self._filler_words), dtype=np.uint64))
        object.__setattr__(self, "operator_shape", tuple(self._operator(atom).shape[1:]))

    # Shapes and facts

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """The shape of an atom."""
        return self.space.shape

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of an atom's picture, in which bound fillers are summed."""
        segmented = self.row.picture is algebra.as_segments
        return (*self.space.shape, self.space.option) if segmented else self.space.shape

    @property
    def core_shape(self) -> tuple[int, ...]:
        """A core is a memory with the roles undone."""
        return self.memory_shape

    @property
    def memory_dtype(self) -> torch.dtype:
        """Complex where the architecture is."""
        return self.space.complex if self.row.complex else self.dtype

    @property
    def facts(self) -> Facts:
        """The row's; a memory that settles is not linear, so that nothing is its transpose."""
        row = self.row
        return Facts(
            exact=row.exact,
            adjoint=row.adjoint and (row.settle is None or self.memory == "raw"),
            self_inverse=row.self_inverse or (row.picture is algebra.as_segments and self.space.option == 2),
            commutative=row.commutative,
            associative=row.associative,
            contextual=row.unbind is None,
            linear=self._linear,
            filler_scalars=self.space.option if row.atoms is algebra.sparse else math.prod(self.space.shape),
            memory_scalars=self._scalars,
        )

    @property
    def _linear(self) -> bool:
        """Whether sums stay sums, of vectors that are as often negative as positive."""
        one_sided = self.row.overlap or self.row.picture is algebra.as_segments
        return (self.row.settle is None or self.memory == "raw") and not one_sided

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the scheme again."""
        known = dict(name=self.name, d=self.d, accounting=self.accounting, memory=self.memory, seed=self.seed)
        return known | dict(self.options)

    # Labels -> atoms and roles

    @property
    def _filler_words(self) -> int:
        return self.row.words(self.space.d)

    def _fillers(self, words: Bits) -> Tensor:
        return self.row.atoms(self.space, words)

    def _empty_fillers(self, count: int) -> Tensor:
        dtype = {algebra.coins: torch.bool, algebra.sparse: torch.bool, algebra.indices: torch.int64}.get(
            self.row.atoms, self.memory_dtype
        )
        return torch.empty(count, *self.filler_shape, dtype=dtype, device="cpu")

    def _fit(self, contexts: Contexts) -> bool:
        rows = 1 if self.row.compose else 2  # a sequence has a dimension of its own
        if not isinstance(contexts, Roles) or contexts.architecture != self.name:
            return False
        return contexts.operators.shape[rows:] == self.operator_shape

    def _contexts(self, paths: Sequence[Path]) -> Roles:
        # A role's vector depends on its place in the path, so that the order of roles counts for every architecture.
        names: dict[bytes, int] = {}
        depths = torch.tensor([len(path) for path in paths])
        which = torch.zeros(len(paths), int(depths.max()), dtype=torch.int64)
        for row, path in enumerate(paths):
            for level, label in enumerate(path):
                name = symbols.canonical_path((level, label))
                which[row, level] = names.setdefault(name, len(names))
        every, parts = list(names), []
        for rows in slices(len(every), draws.rows_in_cache(self._filler_words)):
            words = draws.bits(every[rows], self._filler_words, seed=self.seed, purpose="role")
            parts.append(self._operator(self._fillers(words)))
        roles = torch.cat(parts)
        if self.row.compose is None:
            return _roles(self.name, roles[which].to(self.device), depths.to(self.device))
        composed = roles[which[:, 0]]
        for level in range(1, which.shape[1]):
            deeper = depths > level
            composed[deeper] = self.row.compose(self.space, composed[deeper], roles[which[deeper, level]])
        return _roles(self.name, composed.to(self.device), depths.to(self.device))

    def _operator(self, roles: Tensor) -> Tensor:
        return self.row.operator(self.space, roles) if self.row.operator else roles

    def _picture(self, atoms: Tensor) -> Tensor:
        return self.row.picture(self.space, atoms) if self.row.picture else atoms

    # The verbs of the protocol

    def _applied(self, change: Map, pictures: Tensor, contexts: Roles, backwards: bool = False) -> Tensor:
        """Pictures changed by their contexts' roles; further dimensions between rows and shape share the context."""
        between = pictures.dim() - 1 - len(self.memory_shape)
        operators = contexts.operators
        if self.row.compose is not None:
            operators = operators.view(len(operators), *(1,) * between, *operators.shape[1:])
            return change(self.space, pictures, operators)
        levels = range(operators.shape[1])
        for level in reversed(levels) if backwards else levels:
            this = operators[:, level].view(len(operators), *(1,) * between, *operators.shape[2:])
            present = (contexts.depths > level).view(-1, *(1,) * (pictures.dim() - 1))
            pictures = torch.where(present, change(self.space, pictures, this).to(pictures.dtype), pictures)
        return pictures

    def _bound(self, pictures: Tensor, contexts: Roles) -> Tensor:
        return self._applied(self.row.bind, pictures, contexts)

    def _encode(self, fillers: Tensor, contexts: Roles) -> Tensor:
        pictures = self._picture(fillers)
        return self._bound(pictures, contexts) if self.row.unbind is None else pictures

    def _write(self, cores: Tensor, contexts: Roles) -> Tensor:
        return (cores if self.row.unbind is None else self._bound(cores, contexts)).sum(0)

    def _add(self, memory: Tensor, contexts: Roles, fillers: Tensor, weights: Tensor | None) -> None:
        bound = self._bound(self._picture(fillers), contexts)
        memory += bound.sum(0) if weights is None else torch.tensordot(weights.to(bound.dtype), bound, 1)

    def _settled(self, memory: Tensor) -> Tensor:
        if self.memory == "raw" or self.row.settle is None:
            return memory
        lot = algebra.chance(self.space, memory, len(self.memory_shape)) if self.space.ties is not None else None
        return self.row.settle(self.space, memory, lot)

    def _read(self, memory: Tensor, contexts: Roles) -> Tensor:
        settled = self._settled(memory).expand(len(contexts), *self.memory_shape)
        if self.row.unbind is None:
            return settled
        return self._applied(self.row.unbind, settled, contexts, backwards=True)

    def _adjoint(self, memory: Tensor, contexts: Roles) -> Tensor:
        return self._transposed(memory.expand(len(contexts), *self.memory_shape), contexts)

    def _transposed(self, pictures: Tensor, contexts: Roles) -> Tensor:
        change = self.row.transposed or self.row.unbind
        return pictures if change is None else self._applied(change, pictures, contexts, backwards=True)

    def _returned(self, cores: Tensor, contexts: Roles) -> Tensor:
        return cores if self.row.energy is None else self._transposed(self._bound(cores, contexts), contexts)

    def _inner(self, cores: Tensor, contexts: Roles, candidates: Tensor) -> Tensor:
        one, other = (_numbers(x, len(self.memory_shape)) for x in (cores, self._picture(candidates)))
        if candidates.dim() == len(self.filler_shape) + 1:
            return one @ other.mT
        return torch.bmm(other, one.unsqueeze(2)).squeeze(2)

    def _energy(self, contexts: Roles, candidates: Tensor) -> Tensor:
        if self.row.energy is None:
            norms = _numbers(self._picture(candidates), len(self.memory_shape)).square().sum(-1)
            return norms.unsqueeze(0) if candidates.dim() == len(self.filler_shape) + 1 else norms
        return self._energies(contexts.operators, candidates)

    def _energies(self, operators: Tensor, candidates: Tensor) -> Tensor:
        """The squared norms of candidates bound by operators, of shared candidates (n, L) or each its own (n, m)."""
        assert self.row.energy is not None
        ours, theirs = (self.row.energy(self.space, x) for x in (operators, self._picture(candidates)))
        if candidates.dim() == len(self.filler_shape) + 1:
            return ours @ theirs.mT
        return torch.bmm(theirs, ours.unsqueeze(2)).squeeze(2)

    def _loudness(self, cores: Tensor, contexts: Roles, candidates: Tensor, energy: Tensor) -> Tensor | None:
        if self.row.energy is None:
            return None
        # <M, Wg> = <c, g>. Noise that differs from frequency to frequency (or coordinate, or column) makes <c, g> vary
        # by what c and g have there, which is the squared norm of c bound with g: a single sample, but of many numbers.
        both = self._energies(cores, candidates)
        each = self.space.d if self.row.energy is algebra.squares else 1  # products of coordinates have no 1/d in them
        return each * both / energy.clamp_min(torch.finfo(energy.dtype).tiny)

    def _match(self, cores: Tensor, contexts: Roles, candidates: Tensor) -> Tensor:
        if self.row.unbind is None:
            pictures = self._picture(candidates)
            if candidates.dim() == len(self.filler_shape) + 1:
                pictures = pictures.expand(len(cores), *pictures.shape)
            return self._compared(cores.unsqueeze(1), self._bound(pictures, contexts)).squeeze(1)
        pictures = (self.row.aim or self.row.picture or _as_is)(self.space, candidates)
        if candidates.dim() == len(self.filler_shape) + 1:
            return self._compared(cores, pictures)
        return self._compared(cores.unsqueeze(1), pictures).squeeze(1)

    def _compared(self, queries: Tensor, pictures: Tensor) -> Tensor:
        """Similarities of (*, n, ...) queries and (*, m, ...) pictures: (*, n, m)."""
        one, other = (_numbers(x, len(self.memory_shape)) for x in (queries, pictures))
        products = one @ other.mT
        if self.row.overlap:
            return products / other.sum(-1).clamp_min(1).unsqueeze(-2)
        tiny = torch.finfo(products.dtype).tiny
        products = products / torch.linalg.vector_norm(one, dim=-1, keepdim=True).clamp_min(tiny)
        if self.row.aim:  # what indices are worth to a candidate, averaged over its coordinates
            return products / math.sqrt(self.space.d)
        return products / torch.linalg.vector_norm(other, dim=-1).clamp_min(tiny).unsqueeze(-2)

    # Chunks

    def _pair_numbers(self) -> int:
        return 6 * self._scalars

    def _core_numbers(self) -> int:
        return 6 * self._scalars

    def _context_numbers(self, depth: int) -> int:
        return 2 * (depth + 1) * self._scalars  # every role of the path, in the worst case all distinct

    def _tile(self, rows: int, columns: int) -> tuple[int, int]:
        numbers = self._rows(1)
        if self.row.unbind is None:  # every candidate is bound again in every context
            cells = max(1, numbers // (40 * self._scalars))
            return (1, min(columns, cells)) if columns >= cells else (min(rows, cells // columns), columns)
        rows = min(rows, 4096)
        return rows, max(1, min(columns, numbers // (4 * self._scalars + 4 * rows)))

    @property
    def _scalars(self) -> int:
        """The real numbers of a memory."""
        return math.prod(self.memory_shape) * (2 if self.row.complex else 1)

    # The verbs that users of torchhd know: plain tensors (*, shape)

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

    def _act(self, x: Tensor, role: Tensor, on_atoms: Map | None, on_pictures: Map) -> Tensor:
        if on_atoms is not None and _is_discrete(x):
            return on_atoms(self.space, x, role)
        return on_pictures(self.space, x, self._operator(role))

    def bind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """Bound with roles (*, k, shape), the first of them innermost."""
        for role in roles.unbind(-1 - len(self.filler_shape)):
            x = self.bind(x, role)
        return x

    def unbind_path(self, x: Tensor, roles: Tensor) -> Tensor:
        """The inverse of `bind_path`: the last role is undone first."""
        for role in reversed(roles.unbind(-1 - len(self.filler_shape))):
            x = self.unbind(x, role)
        return x

    def bundle(self, vectors: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The set of vectors (*, n, shape) as one: their sum, settled where the architecture settles.

        Ties fall by a hash of seed, coordinate and sum, or by the generator. With `memory="raw"` the sum itself.
        """
        if self.row.total and _is_discrete(vectors):
            total = self.row.total(self.space, vectors)
        else:
            total = self._as_picture(vectors).sum(-1 - len(self.memory_shape))
        if self.memory == "raw" or self.row.settle is None:
            return total
        lot: Tensor | None = None
        if generator is not None:
            lot = torch.rand(total.shape, generator=generator, device=generator.device, dtype=self.dtype)
        elif self.space.ties is not None:
            lot = algebra.chance(self.space, total, len(self.memory_shape))
        settled = self.row.settle(self.space, total, None if lot is None else lot.to(total.device))
        return self.row.back(self.space, settled) if self.row.back else settled

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Coordinates rolled around; the inverse rolls by -shifts."""
        picture = self.row.picture is algebra.as_segments and not _is_discrete(x)
        return x.roll(shifts, dims=-len(self.memory_shape if picture else self.filler_shape))

    def identity(self) -> Tensor:
        """The role that changes nothing."""
        if self.row.identity is None:
            raise NotImplementedError(f"{self.name} has no identity: no role of it leaves every filler as it is")
        return self.row.identity(self.space).to(self.device)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The architecture's own likeness of x (*, shape) to others (n, shape): (*, n)."""
        self._check_others(others)
        if self.row.likeness and _is_discrete(x) and _is_discrete(others):
            alike = self.row.likeness(self.space, x.reshape(-1, *self.filler_shape), others)
            return alike.view(*x.shape[: x.dim() - len(self.filler_shape)], -1)
        one, other = self._as_picture(x), self._as_picture(others, self.row.aim)
        flat = one.reshape(-1, *self.memory_shape)
        return self._compared(flat, other).view(*one.shape[: one.dim() - len(self.memory_shape)], -1)

    def cosine_similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The cosine of the pictures of x (*, shape) and others (n, shape): (*, n)."""
        self._check_others(others)
        one, other = (_numbers(self._as_picture(v), len(self.memory_shape)) for v in (x, others))
        return normalize(one, dim=-1) @ normalize(other, dim=-1).mT

    def _check_others(self, others: Tensor) -> None:
        if others.dim() - len(self.filler_shape if _is_discrete(others) else self.memory_shape) != 1:
            wanted = ", ".join(map(str, self.filler_shape))
            raise BadValue(
                f"others must have shape (n, {wanted}), got {tuple(others.shape)}; "
                "unsqueeze(0) makes a set of a single one, flatten makes one set of several"
            )

    def _as_picture(self, x: Tensor, how: Map | None = None) -> Tensor:
        if not _is_discrete(x):
            return x
        return (how or self.row.picture or _as_is)(self.space, x)


def _is_discrete(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def _as_is(space: Space, x: Tensor) -> Tensor:
    return x


def _numbers(x: Tensor, dimensions: int) -> Tensor:
    """The last dimensions as one of real numbers."""
    return torch.view_as_real(x).flatten(-1 - dimensions) if x.is_complex() else x.flatten(-dimensions)
