"""The fourteen vector symbolic architectures: a table, and the one scheme that runs every row of it.

`bind(filler, role)`: the filler is data, the role acts on it; the order matters for VTB, MBAT, GHRR and BSDC-S.
Memories hold raw sums. Architectures that quantise (MAP-B, BSC, the BSDCs, CGR, MAP-C) settle the sum when it is read;
`memory="raw"` reads the sum itself. `d` counts the real numbers of a memory, or with `accounting="coordinates"` an
atom's coordinates, which makes a difference for the complex ones (FHRR, GHRR, CGR).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from carving import algebra, draws
from carving.algebra import Space
from carving.checks import check_choice, check_device, check_integer, check_real_dtype
from carving.draws import Bits, Path
from carving.scheme import Contexts, Facts, Scheme, slices

Map = Callable[..., Any]


@dataclass(frozen=True)
class Architecture:
    """One row of the table. Functions take the space first; what a row leaves out is the identity."""

    name: str
    words: Callable[[int], int]  # 64-bit words of an atom, by its coordinates
    atoms: Map  # bits -> atoms
    bind: Map  # picture, operator -> picture
    unbind: Map | None  # picture, operator -> picture; None: there is none, candidates are bound again
    # Discrete atoms have a picture that can be summed, and bind without it.
    picture: Map | None = None
    bind_atoms: Map | None = None
    unbind_atoms: Map | None = None
    total: Map | None = None  # atoms -> the sum of their pictures
    likeness: Map | None = None  # atoms, atoms -> similarities, where that is faster than with pictures
    aim: Map | None = None  # what a candidate's picture is compared as, where that is not the picture
    operator: Map | None = None  # role atoms -> what acts
    compose: Map | None = None  # operator, operator -> operator; None: they are kept as a sequence
    settle: Map | None = None
    back: Map | None = None  # settled picture -> atom, where the two differ
    overlap: bool = False  # similarity: common ones, as a share of the candidate's; else the cosine
    complex: bool = False
    identity: Map | None = None
    # Facts
    exact: bool = True  # unbinding a single pair gives the filler
    adjoint: bool = True  # unbind is the transpose of bind
    self_inverse: bool = False
    commutative: bool = True
    associative: bool = True


def _one_word_each(d: int) -> int:
    return d


def _hlb_words(d: int) -> int:
    return draws.words_for_signs(d) + draws.words_for_normals(d)


def _ghrr_words(d: int) -> int:
    return d  # a complex number takes two normals, which are one word


NORMALS, SIGNS, EACH = draws.words_for_normals, draws.words_for_signs, _one_word_each
A = algebra


def _ones(space: Space) -> Tensor:
    return torch.ones(space.shape, dtype=space.dtype)


def _complex_ones(space: Space) -> Tensor:
    return torch.ones(space.shape, dtype=space.complex)


def _no_bits(space: Space) -> Tensor:
    return torch.zeros(space.shape, dtype=torch.bool)


def _no_indices(space: Space) -> Tensor:
    return torch.zeros(space.shape, dtype=torch.int64)


def _impulse(space: Space) -> Tensor:
    return torch.eye(1, space.d, dtype=space.dtype)[0]


def _square_identity(space: Space) -> Tensor:
    return torch.eye(math.isqrt(space.d), dtype=space.dtype).flatten() / space.d**0.25


def _unit_blocks(space: Space) -> Tensor:
    return torch.eye(space.shape[-1], dtype=space.complex).expand(space.shape).clone()


# fmt: off
_BSC: dict[str, Any] = dict(
    picture=A.as_bipolar, bind_atoms=A.exclusive_or, unbind_atoms=A.exclusive_or, operator=A.as_bipolar,
    compose=A.multiply, settle=A.to_signs, back=A.from_bipolar, total=A.total_of_bits,
    identity=_no_bits, self_inverse=True)
_SPARSE: dict[str, Any] = dict(
    picture=A.as_numbers, settle=A.to_bits, back=A.from_numbers, overlap=True, commutative=False)
_GROUP: dict[str, Any] = dict(bind_atoms=A.add_modulo, unbind_atoms=A.subtract_modulo, identity=_no_indices)
_SEGMENTS: dict[str, Any] = dict(**_GROUP, picture=A.as_segments, total=A.total_of_segments, compose=A.add_modulo)
_MATRIX: dict[str, Any] = dict(commutative=False, associative=False)

#               name        words       atoms        bind                 unbind
ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in (
    Architecture("HRR",      NORMALS,    A.gaussian,  A.convolve,          A.correlate,
                 compose=A.convolve, identity=_impulse, exact=False),
    Architecture("FHRR",     EACH,       A.phasors,   A.multiply,          A.multiply_conjugate,
                 compose=A.multiply, identity=_complex_ones, complex=True),
    Architecture("MAP-I",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, self_inverse=True),
    Architecture("MAP-C",    EACH,       A.uniform,   A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, settle=A.to_unit_interval, exact=False),
    Architecture("MAP-B",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, settle=A.to_signs, self_inverse=True),
    Architecture("BSC",      SIGNS,      A.coins,     A.multiply,          A.multiply,             **_BSC),
    Architecture("BSDC-S",   EACH,       A.sparse,    A.shifted,           A.shifted_back,
                 **_SPARSE, operator=A.shift_of, compose=A.add_shifts, associative=False),
    Architecture("BSDC-CDT", EACH,       A.sparse,    A.thinned,           None,
                 **_SPARSE | dict(commutative=True), associative=False, exact=False),
    Architecture("BSDC-SEG", EACH,       A.indices,   A.segments_rolled,   A.segments_rolled_back,
                 **_SEGMENTS, settle=A.to_bits, overlap=True, likeness=A.equal_indices),
    Architecture("MBAT",     NORMALS,    A.gaussian,  A.structured,        A.structured_back,
                 **_MATRIX, operator=A.two_signs),
    Architecture("VTB",      NORMALS,    A.gaussian,  A.vtb,               A.vtb_transposed,
                 **_MATRIX, compose=A.vtb_composed, identity=_square_identity, exact=False),
    Architecture("CGR",      EACH,       A.indices,   A.multiply,          A.multiply_conjugate,
                 **_GROUP, picture=A.as_phasors, operator=A.as_phasors, compose=A.multiply, settle=A.to_phases,
                 back=A.from_phasors, complex=True),
    Architecture("HLB",      _hlb_words, A.mixture,   A.multiply,          A.divide,
                 compose=A.multiply, identity=_ones, adjoint=False),
    Architecture("GHRR",     _ghrr_words, A.haar,     A.matrix_left,       A.matrix_left_adjoint,
                 compose=A.matrix_right, identity=_unit_blocks, complex=True, commutative=False),
)}
# fmt: on


def varied(row: Architecture, options: dict[str, Any]) -> Architecture:
    """The row with what an option changes of it: unitary HRR, MBAT's form, the mode of CGR and BSDC-SEG."""
    variants: dict[tuple[str, str, Any], dict[str, Any]] = {
        ("HRR", "unitary", True): dict(atoms=A.unitary, exact=True),
        ("HLB", "sigma", 0.0): dict(adjoint=True, self_inverse=True) if options.get("mu") == 1 else {},
        ("MBAT", "form", "dense"): dict(bind=A.dense, unbind=A.dense_back),
        ("MBAT", "form", "rolled"): dict(bind=A.rolled, unbind=A.rolled_back, operator=A.roll_of),
        ("BSDC-SEG", "bundling", "mode"): dict(settle=A.to_modes, back=A.from_segments),
        ("CGR", "bundling", "mode"): dict(
            bind=A.segments_rolled, unbind=A.segments_rolled_back, operator=None, compose=A.add_modulo,
            picture=A.as_segments, total=A.total_of_segments, aim=A.as_triangles, settle=A.to_modes,
            back=A.from_segments,
            complex=False,
        ),
    }  # fmt: skip
    for name, value in options.items():
        row = replace(row, **variants.get((row.name, name, value), {}))
    return row


# The options of each architecture, with what they may be; the first is the default.
OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "HRR": {"unitary": (False, True)},
    "MBAT": {"form": ("structured", "rolled", "dense")},
    "BSDC-SEG": {"bundling": ("or", "mode")},
    "CGR": {"bundling": ("round", "mode")},
}
# Likewise the options that are numbers, with their defaults.
NUMBERS: dict[str, dict[str, float | None]] = {
    "CGR": {"r": 8},
    "GHRR": {"m": 2},
    "HLB": {"mu": 1.0, "sigma": None},
    "BSDC-S": {"ones": None},
    "BSDC-CDT": {"ones": None},
}


@dataclass(frozen=True, eq=False)
class Roles(Contexts):
    """The contexts of an architecture: what acts, composed along the path or kept as a sequence, and the depth."""

    operators: Tensor  # (n, ...) or (n, depth, ...)
    depths: Tensor  # (n,)


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
        chosen = _chosen(name, options)
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
            space=_space(row, d, accounting == "real", dtype, seed, chosen),
        )
        for key, value in values.items():
            object.__setattr__(self, key, value)

    # Shapes and facts

    @property
    def filler_shape(self) -> tuple[int, ...]:
        """The shape of an atom."""
        return self.space.shape

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of an atom's picture, in which bound fillers are summed."""
        segmented = self.row.picture is A.as_segments
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
            self_inverse=row.self_inverse,
            commutative=row.commutative,
            associative=row.associative,
            contextual=row.unbind is None,
            filler_scalars=self.space.option if row.atoms is A.sparse else math.prod(self.space.shape),
            memory_scalars=self._scalars,
        )

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
        dtype = {A.coins: torch.bool, A.sparse: torch.bool, A.indices: torch.int64}.get(
            self.row.atoms, self.memory_dtype
        )
        return torch.empty(count, *self.filler_shape, dtype=dtype, device="cpu")

    def _fit(self, contexts: Contexts) -> bool:
        return isinstance(contexts, Roles)

    def _contexts(self, paths: Sequence[Path]) -> Roles:
        # A role's vector depends on its place in the path, so that the order of roles counts for every architecture.
        names: dict[bytes, int] = {}
        depths = torch.tensor([len(path) for path in paths])
        which = torch.zeros(len(paths), int(depths.max()), dtype=torch.int64)
        for row, path in enumerate(paths):
            for level, label in enumerate(path):
                name = draws.canonical_path((level, label))
                which[row, level] = names.setdefault(name, len(names))
        every, parts = list(names), []
        for rows in slices(len(every), draws.rows_in_cache(self._filler_words)):
            words = draws.bits(every[rows], self._filler_words, seed=self.seed, purpose="role")
            parts.append(self._operator(self._fillers(words)))
        roles = torch.cat(parts)
        if self.row.compose is None:
            return Roles(roles[which].to(self.device), depths.to(self.device))
        composed = roles[which[:, 0]]
        for level in range(1, which.shape[1]):
            deeper = depths > level
            composed[deeper] = self.row.compose(self.space, composed[deeper], roles[which[deeper, level]])
        return Roles(composed.to(self.device), depths.to(self.device))

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
        return self.row.settle(self.space, memory)

    def _read(self, memory: Tensor, contexts: Roles) -> Tensor:
        settled = self._settled(memory).expand(len(contexts), *self.memory_shape)
        if self.row.unbind is None:
            return settled
        return self._applied(self.row.unbind, settled, contexts, backwards=True)

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

        Ties fall by a hash of seed and coordinate, or by the generator. With `memory="raw"` the sum itself.
        """
        if self.row.total and _is_discrete(vectors):
            total = self.row.total(self.space, vectors)
        else:
            total = self._as_picture(vectors).sum(-1 - len(self.memory_shape))
        if self.memory == "raw" or self.row.settle is None:
            return total
        space = self.space
        if generator is not None:
            seed = torch.randint(2**62, (1,), generator=generator, device=generator.device).item()
            space = replace(space, seed=int(seed))
        settled = self.row.settle(space, total)
        return self.row.back(space, settled) if self.row.back else settled

    def permute(self, x: Tensor, shifts: int = 1) -> Tensor:
        """Coordinates rolled around; the inverse rolls by -shifts."""
        return x.roll(shifts, dims=-len(self.filler_shape))

    def identity(self) -> Tensor:
        """The role that changes nothing."""
        if self.row.identity is None:
            raise NotImplementedError(f"{self.name} has no identity: no role of it leaves every filler as it is")
        return self.row.identity(self.space).to(self.device)

    def similarity(self, x: Tensor, others: Tensor) -> Tensor:
        """The architecture's own likeness of x (*, shape) to others (n, shape): (*, n)."""
        if self.row.likeness and _is_discrete(x) and _is_discrete(others):
            alike = self.row.likeness(self.space, x.reshape(-1, *self.filler_shape), others)
            return alike.view(*x.shape[: x.dim() - len(self.filler_shape)], -1)
        one, other = self._as_picture(x), self._as_picture(others, self.row.aim)
        flat = one.reshape(-1, *self.memory_shape)
        return self._compared(flat, other).view(*one.shape[: one.dim() - len(self.memory_shape)], -1)

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


def _chosen(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The architecture's options, with defaults where none was given."""
    if name not in ARCHITECTURES:
        raise ValueError(f"an architecture must be one of {', '.join(ARCHITECTURES)}, got {name!r}")
    choices, numbers = OPTIONS.get(name, {}), NUMBERS.get(name, {})
    for option, value in given.items():
        if option in choices:
            check_choice(option, value, choices[option])
        elif option not in numbers:
            known = ", ".join([*choices, *numbers]) or "none"
            raise TypeError(f"{name} has no option {option!r}; its options: {known}")
    return {option: values[0] for option, values in choices.items()} | numbers | given


def _space(row: Architecture, d: int, real: bool, dtype: torch.dtype, seed: int, options: dict[str, Any]) -> Space:
    """The space of d numbers; a d that does not fit is refused with the nearest that does."""
    each = 2 if real and row.complex else 1  # real numbers of a coordinate
    if row.name == "VTB":
        side = math.isqrt(d)
        near = side if d - side**2 <= (side + 1) ** 2 - d else side + 1
        _check_fit(row.name, d, near**2, "a square")
        return Space(d, (d,), dtype, seed)
    if row.name == "GHRR":
        m = options["m"]
        check_integer("m", m, 1)
        unit = each * m * m
        _check_fit(row.name, d, max(1, round(d / unit)) * unit, f"a multiple of {unit}")
        return Space(d // each, (d // unit, m, m), dtype, seed, m)
    if row.name == "BSDC-SEG":
        check_integer("d", d, 4, way_out="a segment needs two places at least")
        segments = math.isqrt(d)
        return Space(segments, (segments,), dtype, seed, d // segments)
    _check_fit(row.name, d, max(1, round(d / each)) * each, f"a multiple of {each}")
    option: Any = None
    if row.name == "CGR":
        option = options["r"]
        check_integer("r", option, 2, 2**32)
    if row.name == "HLB":
        sigma = options["sigma"]
        option = (float(options["mu"]), 1 / math.sqrt(d) if sigma is None else float(sigma))
    if row.atoms is A.sparse:
        option = math.ceil(math.sqrt(d)) if options["ones"] is None else options["ones"]
        check_integer("ones", option, 1, d)
    return Space(d // each, (d // each,), dtype, seed, option)


def _check_fit(name: str, d: int, nearest: int, wanted: str) -> None:
    if d != nearest:
        raise ValueError(f"{name} needs a dimension that is {wanted}, got d={d}; the nearest is {nearest}")
