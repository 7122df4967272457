"""The scheme that runs every row of the table of architectures.

`bind(filler, role)`: the role acts on the filler; the order matters for VTB, MBAT, GHRR and BSDC-S. Memories hold raw
sums. Architectures that quantize (MAP-B, BSC, the BSDCs, CGR, MAP-C) quantize the sum when it is read.
"""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from carving import hashing
from carving.hashing import Bits
from carving.schemes.algebra import Space
from carving.schemes.architectures import Architecture, Operation, chosen_options, row_of, space_of, varied
from carving.schemes.base import Candidates, Contexts, Facts, Scheme
from carving.schemes.verbs import Verbs
from carving.symbols.paths import Paths
from carving.tensors import as_reals
from carving.tiling import Cost, slices
from carving.validate import check_choice, check_integer

OPTIONS = ("bundling", "form", "m", "mu", "ones", "r", "sigma", "unitary")  # those that some architecture has


@dataclass(frozen=True, eq=False)
class Roles(Contexts):
    """The contexts of an architecture: the role operators, composed along the path or as a sequence, and the depths."""

    operators: Tensor  # (n, ...) or (n, depth, ...)
    depths: Tensor  # (n,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n)."""
        return self.depths.shape


@dataclass(frozen=True, repr=False)
class VSA(Verbs, Scheme[Roles]):
    """One of fourteen vector symbolic architectures, by name.

    Args:
        name: Such as "HRR", "FHRR", "HLB", "MAP-I" or "BSC"; `carving.SCHEMES` lists all of them.
        d: Real numbers of a memory, or coordinates of an atom with `accounting="coordinates"`; they differ for the
            complex architectures (FHRR, GHRR, CGR). Some architectures need squares or multiples.
        accounting: "real" or "coordinates", what d counts.
        memory: "native" quantizes the sum when it is read, where the architecture does (MAP-B, MAP-C, BSC, CGR and the
            BSDCs); "raw" reads the sum itself.
        bundling, form, m, mu, ones, r, sigma, unitary: Options of single architectures; None is their default.
        seed, dtype, device, workspace: As in `Scheme`.

    >>> hlb = VSA("HLB", d=4096)
    >>> memory = hlb.trace([("subject",), ("verb",)], ["dog", "barks"])
    >>> hlb.score(memory, [("verb",)], hlb.fillers(["dog", "barks"])).argmax().item()
    1
    """

    derived = OPTIONS
    name: str  # type: ignore[misc]  # that of the architecture
    d: int
    _: KW_ONLY
    accounting: str = "real"
    memory: str = "native"
    bundling: str | None = None
    form: str | None = None
    m: int | None = None
    mu: float | None = None
    ones: int | None = None
    r: int | None = None
    sigma: float | None = None
    unitary: bool | None = None

    def __post_init__(self) -> None:
        d = check_integer("d", self.d, 2, way_out="a typical value is 4096")
        check_choice("accounting", self.accounting, ("real", "coordinates"))
        check_choice("memory", self.memory, ("native", "raw"))
        given = {name: getattr(self, name) for name in OPTIONS if getattr(self, name) is not None}
        vars(self).update(chosen_options(row_of(self.name), given), d=d)
        super().__post_init__()

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments that define the scheme, with the options of this architecture."""
        return {key: value for key, value in super().parameters.items() if key not in OPTIONS} | self.options

    @property
    def options(self) -> dict[str, Any]:
        """The options of the architecture, sorted by name."""
        return {name: getattr(self, name) for name in sorted(row_of(self.name).options)}

    @cached_property
    def row(self) -> Architecture:
        """The row of the table of architectures, adjusted by the options."""
        return varied(row_of(self.name), self.options)

    @cached_property
    def space(self) -> Space:
        """The shape, dtype and parameters that the operations need."""
        real = self.accounting == "real"
        return space_of(self.row, self.d, real, self.dtype, self.seed, self.options)

    @cached_property
    def facts(self) -> Facts:
        """Shapes, costs and laws of the scheme; with quantized reading a memory is not linear and has no adjoint."""
        row, space = self.row, self.space
        shape = (*space.shape, space.option) if row.segmented else space.shape
        dtype = space.complex if row.complex else self.dtype
        scalars = math.prod(shape) * (2 if row.complex else 1)
        return Facts(
            filler_shape=space.shape,
            core_shape=shape,
            memory_shape=shape,  # of an atom's picture
            memory_dtype=dtype,
            filler_dtype=row.dtype or dtype,
            filler_words=row.words(space.d),
            cost=self._cost(scalars),
            filler_scalars=space.scalars,
            memory_scalars=scalars,
            exact=row.exact,
            adjoint=row.adjoint and not self._settles,
            self_inverse=row.self_inverse or (row.segmented and space.option == 2),
            commutative=row.commutative,
            associative=row.associative,
            contextual=row.unbind is None,
            linear=not (self._settles or row.overlap or row.segmented),  # of vectors as often negative as positive
        )

    def _cost(self, scalars: int) -> Cost:
        every = 2 * scalars  # every role of the path, in the worst case all distinct
        common = dict(pair=6 * scalars, core=6 * scalars, context=2 * every, role=every)
        if self.row.unbind is None:  # every candidate is bound again in every context
            return Cost(**common, cell=40 * scalars, max_contexts=16)
        return Cost(**common, cell=4, candidate=4 * scalars, max_contexts=4096)

    # Labels -> atoms and roles

    def _fillers(self, words: Bits) -> Tensor:
        return self.row.atoms(self.space, words)

    def _drawn(self, count: int, generator: torch.Generator) -> Tensor:
        if self.row.drawn is None:
            return super()._drawn(count, generator)
        return self.row.drawn(self.space, count, generator)

    def _contexts(self, paths: Paths) -> Roles:
        # A role's vector depends on its position in the path, so that the order of roles counts for every architecture.
        names: dict[bytes, int] = {}
        rows = [[names.setdefault(name, len(names)) for name in path] for path in paths.leveled()]
        depths = torch.tensor(list(map(len, rows)))
        deepest = int(depths.max())
        which = torch.tensor([row + [0] * (deepest - len(row)) for row in rows])
        roles, device = self._roles(list(names)), self.device
        if self.row.compose is None:
            return Roles(roles[which].to(device), depths.to(device))
        composed = roles[which[:, 0]]
        for level in range(1, which.shape[1]):
            deeper = depths > level
            composed[deeper] = self.row.compose(self.space, composed[deeper], roles[which[deeper, level]])
        return Roles(composed.to(device), depths.to(device))

    def _roles(self, names: list[bytes]) -> Tensor:
        """What acts, for each name of a role at its position."""
        words, parts = self.facts.filler_words, []
        for rows in slices(len(names), hashing.rows_in_cache(words)):
            drawn = hashing.bits(names[rows], words, seed=self.seed, purpose="role")
            parts.append(self._operator(self._fillers(drawn)))
        return torch.cat(parts)

    # The verbs of the protocol

    def _applied(self, change: Operation, pictures: Tensor, contexts: Roles, backwards: bool = False) -> Tensor:
        """Pictures changed by their contexts' roles; further dimensions between rows and shape share the context."""
        between = pictures.dim() - 1 - len(self.facts.memory_shape)
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

    def _trace(self, contexts: Roles, fillers: Tensor, weights: Tensor | None) -> Tensor:
        bound = self._bound(self._picture(fillers), contexts)
        return bound.sum(0) if weights is None else torch.tensordot(weights.to(bound.dtype), bound, 1)

    def _read(self, memory: Tensor, contexts: Roles) -> Tensor:
        settled = self._settled(memory).expand(len(contexts), *self.facts.memory_shape)
        if self.row.unbind is None:
            return settled
        return self._applied(self.row.unbind, settled, contexts, backwards=True)

    def _match(self, cores: Tensor, contexts: Roles, candidates: Candidates) -> Tensor:
        shared = candidates.shared
        if self.row.unbind is None:
            pictures = self._picture(candidates.tensor)
            if shared:
                pictures = pictures.expand(len(cores), *pictures.shape)
            return self._compared(cores.unsqueeze(1), self._bound(pictures, contexts)).squeeze(1)
        pictures = self._aim(candidates.tensor)
        return self._compared(cores, pictures) if shared else self._compared(cores.unsqueeze(1), pictures).squeeze(1)

    # As a sum

    def _adjoint(self, memory: Tensor, contexts: Roles) -> Tensor:
        return self._transposed(memory.expand(len(contexts), *self.facts.memory_shape), contexts)

    def _transposed(self, pictures: Tensor, contexts: Roles) -> Tensor:
        change = self.row.transposed or self.row.unbind
        return pictures if change is None else self._applied(change, pictures, contexts, backwards=True)

    def _inner(self, cores: Tensor, contexts: Roles, candidates: Candidates) -> Tensor:
        ours, theirs = (as_reals(x, len(self.facts.memory_shape)) for x in (cores, self._picture(candidates.tensor)))
        return paired(ours, theirs, candidates.shared)

    @cached_property
    def mean_bound_energy(self) -> float:
        """The mean squared norm of atoms; averaged over several atoms where an atom has few numbers."""
        some = self._picture(self.fillers(range(max(1, 4096 // self.facts.filler_scalars))))
        return float(as_reals(some, len(self.facts.memory_shape)).square().sum(-1).mean())

    def _energy(self, contexts: Roles, candidates: Candidates) -> Tensor:
        if self.row.energy is None:
            norms = as_reals(self._picture(candidates.tensor), len(self.facts.memory_shape)).square().sum(-1)
            return norms.unsqueeze(0) if candidates.shared else norms
        return self._energies(self.row.energy, contexts.operators, candidates)

    def _energies(self, energy: Operation, operators: Tensor, candidates: Candidates) -> Tensor:
        """The squared norms of candidates bound by operators."""
        ours, theirs = (energy(self.space, x) for x in (operators, self._picture(candidates.tensor)))
        return paired(ours, theirs, candidates.shared)

    def _directional_noise(
        self, cores: Tensor, contexts: Roles, candidates: Candidates, energy: Tensor
    ) -> Tensor | None:
        if self.row.energy is None:
            return None
        # <M, Wg> = <c, g>. Noise that differs from frequency to frequency (or coordinate, or column) makes <c, g> vary
        # by what c and g have there, which is the squared norm of c bound with g: a single sample, but of many numbers.
        both = self._energies(self.row.energy, cores, candidates)
        each = self.space.d if self.row.by_coordinate else 1  # products of coordinates have no 1/d in them
        return each * both / energy.clamp_min(torch.finfo(energy.dtype).tiny)

    def adjoint_write(self, cores: Tensor, contexts: Roles) -> Tensor:
        """Return cores bound and unbound by the transpose; unchanged where binding preserves norms."""
        return cores if self.row.energy is None else self._transposed(self._bound(cores, contexts), contexts)


def paired(ours: Tensor, theirs: Tensor, shared: bool) -> Tensor:
    """Inner products (n, L) of contexts' vectors with those of shared candidates, or (n, m) of each its own."""
    return ours @ theirs.mT if shared else torch.bmm(theirs, ours.unsqueeze(2)).squeeze(2)
