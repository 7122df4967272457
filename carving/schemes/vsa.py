"""The scheme that runs every row of the table of architectures, with the operations known from torchhd.

`bind(filler, role)`: the role acts on the filler; the order matters for VTB, MBAT, GHRR and BSDC-S. Memories hold raw
sums. Architectures that quantize (MAP-B, BSC, the BSDCs, CGR, MAP-C) quantize the sum when it is read.

Atoms come from `random` and `fillers`. Sums of atoms live in the linear space of memories; where atoms are bits or
indices, `picture` embeds them there. Operations on plain tensors take atoms or embedded vectors.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving import hashing
from carving.caching import cached_property
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes import algebra
from carving.schemes.algebra import Space
from carving.schemes.architectures import Architecture, Operation, chosen_options, row_of, space_of, varied
from carving.schemes.base import Candidates, Contexts, Facts, Scheme
from carving.schemes.verbs import where_present
from carving.symbols.paths import Paths
from carving.tensors import as_reals, chosen, transformed
from carving.tiling import Cost, slices
from carving.validate import check_choice, check_integer, check_tensor

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
class VSA(Scheme[Roles]):
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
        d = check_integer("d", self.d, 2, way_out="A typical value is 4096.")
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

    # The operations known from torchhd, on atoms (*, *filler_shape) or embedded vectors (*, *memory_shape)

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
            "x",
            x,
            (*x.shape[: x.dim() - dimensions], *others.shape[1:]),
            "Compare atoms with atoms, or sums with sums.",
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


def paired(ours: Tensor, theirs: Tensor, shared: bool) -> Tensor:
    """Inner products (n, L) of contexts' vectors with those of shared candidates, or (n, m) of each its own."""
    return ours @ theirs.mT if shared else torch.bmm(theirs, ours.unsqueeze(2)).squeeze(2)
