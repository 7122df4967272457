"""The fourteen vector symbolic architectures, as a table of small functions (defined in `algebra.py`).

A row defines how bits become atoms, how a role binds and unbinds, how sums are quantized, which d are possible, the
options and their effects, and the laws that hold. Architectures with discrete atoms (BSC, the BSDCs and CGR) sum them
in a linear embedding: a bit as +-1 or 0/1, an index as a phasor or a one-hot segment.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadType, BadValue
from carving.schemes import algebra
from carving.schemes.algebra import Space
from carving.validate import as_python_number, check_choice, check_integer, is_finite, nearest

A = algebra
Operation = Callable[..., Any]
Options = Mapping[str, Any]
Fields = dict[str, Any]  # of a row


class Layout(NamedTuple):
    """How d numbers make an atom."""

    d: int  # coordinates
    shape: tuple[int, ...]
    option: Any = None  # the one parameter that the operations take
    scalars: int | None = None  # real numbers, bits or indices that an atom is; None: as many as its shape has


# Which d fits, and the layout: functions of the d wanted, the real numbers that a coordinate takes, and the options


def _check_fit(d: int, near: int, wanted: str) -> None:
    if d != near:
        raise BadValue(f"d must be {wanted}, got {d}. The nearest is {near}.")


def coordinates(d: int, each: int, options: Options) -> Layout:
    """A vector."""
    _check_fit(d, max(1, round(d / each)) * each, f"a multiple of {each}")
    return Layout(d // each, (d // each,))


def square(d: int, each: int, options: Options) -> Layout:
    """A vector that is a square matrix."""
    side = math.isqrt(d)
    near = side if d - side**2 <= (side + 1) ** 2 - d else side + 1
    _check_fit(d, near**2, "a square")
    return Layout(d, (d,))


def unitary_blocks(d: int, each: int, options: Options) -> Layout:
    """Square blocks of side m."""
    m = check_integer("m", options["m"], 1)
    unit = each * m * m
    _check_fit(d, max(1, round(d / unit)) * unit, f"a multiple of {unit}")
    return Layout(d // each, (d // unit, m, m), m)


def segments(d: int, each: int, options: Options) -> Layout:
    """About sqrt(d) segments of as many places, an index each."""
    check_integer("d", d, 4, way_out="A segment has at least two positions.")
    count = math.isqrt(d)
    return Layout(count, (count,), d // count)


def circles(d: int, each: int, options: Options) -> Layout:
    """Indices of r points on a circle."""
    return coordinates(d, each, options)._replace(option=check_integer("r", options["r"], 2, 2**32))


def few_ones(d: int, each: int, options: Options) -> Layout:
    """Bits of which few are set, by default sqrt(d)."""
    ones = math.ceil(math.sqrt(d)) if options["ones"] is None else options["ones"]
    return Layout(d, (d,), check_integer("ones", ones, 1, d), ones)


def two_hills(d: int, each: int, options: Options) -> Layout:
    """Numbers about +-mu, with deviation sigma."""
    mu, sigma = options["mu"], 1 / math.sqrt(d) if options["sigma"] is None else options["sigma"]
    if not (isinstance(mu, int | float) and is_finite(mu) and mu != 0):
        raise BadValue(f"mu must be a finite number other than 0, got {mu!r}. The default is 1.0.")
    if not (isinstance(sigma, int | float) and is_finite(sigma) and sigma >= 0):
        raise BadValue(f"sigma must be a finite number of at least 0, got {sigma!r}. The default is 1/sqrt(d).")
    return Layout(d, (d,), (float(mu), float(sigma)))


LARGEST_MATRIX = 8_192  # a side: drawing and orthonormalizing one takes minutes and two GiB


def with_matrix(d: int, each: int, options: Options) -> Layout:
    """A vector of a space that has one dense matrix."""
    if d > LARGEST_MATRIX:
        raise BadValue(
            f"d must be at most {LARGEST_MATRIX} with form={options['form']!r}, which needs a matrix of d x d numbers, "
            f"got {d}. Use form='structured'."
        )
    return coordinates(d, each, options)


@dataclass(frozen=True)
class Architecture:
    """One row of the table of architectures; functions take the space first, and a missing one is the identity."""

    name: str
    words: Callable[[int], int]  # 64-bit words of an atom, by its coordinates
    atoms: Operation  # bits -> atoms
    bind: Operation  # picture, operator -> picture
    unbind: Operation | None  # picture, operator -> picture; None: there is none, candidates are bound again
    drawn: Operation | None = None  # a count, a generator -> atoms, where that is cheaper than of its bits
    # Discrete atoms have a picture that can be summed, and bind without it.
    picture: Operation | None = None
    bind_atoms: Operation | None = None
    unbind_atoms: Operation | None = None
    total: Operation | None = None  # atoms -> the sum of their pictures
    similarity: Operation | None = None  # atoms, atoms -> similarities, where that is faster than with pictures
    aim: Operation | None = None  # what a candidate's picture is compared as, where that is not the picture
    operator: Operation | None = None  # role atoms -> what acts
    compose: Operation | None = None  # operator, operator -> operator; None: they are kept as a sequence
    transposed: Operation | None = None  # the transpose of bind, where unbind is another map
    energy: Operation | None = None  # picture or operator -> a vector; the norm of a filler stays where there is none
    settle: Operation | None = None
    back: Operation | None = None  # settled picture -> atom, where the two differ
    normal: Operation | None = None  # picture -> the nearest that is as atoms are, where that is not what it settles to
    hard: Operation | None = None  # picture -> every number at its full size, where that is not what is normal
    soft: Operation = A.softened  # the same, smoothly
    product: Operation | None = None  # vectors (*, n, shape) -> all of them bound, where that is faster than in pairs
    product_of_atoms: Operation | None = None  # the same of discrete atoms
    inverse: Operation | None = None  # role atom -> the role atom that undoes it
    opposite: Operation | None = None  # discrete atom -> the atom with the negated picture
    powers: Operation | None = (
        None  # an atom, angles (*, parts) -> what it is to fractional powers: they bind by adding
    )
    order: Operation | None = None  # in which order coordinates are rolled where rolled vectors bind as others do
    # How an atom falls into parts that may each be another's, where these are not its coordinates or blocks.
    apart: Operation | None = None
    joined: Operation | None = None
    paired: Operation | None = None  # atoms, atoms, places of [0, 1) -> places that exchange as many ones as they take
    overlap: bool = False  # similarity: common ones, as a share of the candidate's; else the cosine
    complex: bool = False
    identity: Operation | None = None
    dtype: torch.dtype | None = None  # of discrete atoms
    segmented: bool = False  # the picture of an index is a segment of its own
    ties: bool = False  # what a sum settles to may be a matter of chance
    by_coordinate: bool = False  # energies are products of coordinates
    layout: Callable[[int, int, Options], Layout] = coordinates
    options: Options = field(default_factory=dict)  # with their defaults
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # what options that are not numbers may be
    variants: tuple[tuple[Options, Fields], ...] = ()  # values of options, and what they change
    # Facts
    exact: bool = True  # unbinding a single pair gives the filler
    adjoint: bool = True  # unbind is the transpose of bind
    self_inverse: bool = False
    commutative: bool = True
    associative: bool = True
    ordered: bool = False  # of two roles, one after the other, the order counts


def _one_word_each(d: int) -> int:
    return d  # of a complex number of normals too: it takes two of them, which are one word


def _signs_and_normals(d: int) -> int:
    return hashing.words_for_signs(d) + hashing.words_for_normals(d)


NORMALS, SIGNS, EACH, BOTH = hashing.words_for_normals, hashing.words_for_signs, _one_word_each, _signs_and_normals


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
_BSC: Fields = dict(
    picture=A.as_bipolar, bind_atoms=A.exclusive_or, unbind_atoms=A.exclusive_or, operator=A.as_bipolar,
    compose=A.multiply, settle=A.to_signs, back=A.from_bipolar, total=A.total_of_bits,
    product_of_atoms=A.parity,
    inverse=A.same, opposite=A.complement, identity=_no_bits, self_inverse=True, dtype=torch.bool, ties=True)
_SPARSE: Fields = dict(
    picture=A.as_numbers, settle=A.to_bits, back=A.from_numbers, overlap=True, commutative=False, dtype=torch.bool,
    paired=A.paired_ones,
    layout=few_ones, options={"ones": None})
_GROUP: Fields = dict(
    bind_atoms=A.add_modulo, unbind_atoms=A.subtract_modulo, inverse=A.negated_modulo, identity=_no_indices,
    dtype=torch.int64)
_SEGMENTS: Fields = dict(
    picture=A.as_segments, total=A.total_of_segments, compose=A.add_modulo, segmented=True)
_MODES: Fields = dict(normal=None, settle=A.to_modes, back=A.from_segments, ties=True)
_MATRIX: Fields = dict(commutative=False, associative=False, ordered=True, normal=A.to_unit, hard=A.to_plain_signs)

#               name        words       atoms        bind                 unbind                 drawn
ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in (
    Architecture("HRR",      NORMALS,    A.gaussian,  A.convolve,          A.correlate,           A.gaussian_drawn,
                 compose=A.convolve, energy=A.power, identity=_impulse, exact=False, inverse=A.reversed_around,
                 powers=A.turned_spectrum, order=A.shuffle, product=A.convolution, normal=A.to_unit,
                 hard=A.to_plain_signs,
                 options={"unitary": False}, choices={"unitary": (False, True)},
                 variants=(({"unitary": True}, dict(
                     atoms=A.unitary, drawn=None, exact=True, normal=A.to_unit_spectrum, apart=A.spectrum,
                     joined=A.signal)),)),
    Architecture("FHRR",     EACH,       A.phasors,   A.multiply,          A.multiply_conjugate,  A.phasors_drawn,
                 compose=A.multiply, identity=_complex_ones, complex=True, normal=A.to_circle, inverse=A.conjugate,
                 powers=A.turned, product=A.product),
    Architecture("MAP-I",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, self_inverse=True, normal=A.to_signs, ties=True, inverse=A.same,
                 product=A.product),
    Architecture("MAP-C",    EACH,       A.uniform,   A.multiply,          A.multiply,            A.uniform_drawn,
                 compose=A.multiply_rescaled, energy=A.squares, by_coordinate=True, identity=_ones,
                 settle=A.to_unit_interval, exact=False, hard=A.to_plain_signs, inverse=A.same,
                 product=A.product),
    Architecture("MAP-B",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, settle=A.to_signs, ties=True, self_inverse=True, inverse=A.same,
                 product=A.product),
    Architecture("BSC",      SIGNS,      A.coins,     A.multiply,          A.multiply,             **_BSC),
    Architecture("BSDC-S",   EACH,       A.sparse,    A.shifted,           A.shifted_back,
                 **_SPARSE, operator=A.shift_of, compose=A.add_shifts, associative=False, inverse=A.mirrored),
    Architecture("BSDC-CDT", EACH,       A.sparse,    A.thinned,           None,
                 **_SPARSE | dict(commutative=True), associative=False),
    Architecture("BSDC-SEG", EACH,       A.indices,   A.segments_rolled,   A.segments_rolled_back,
                 **_GROUP, **_SEGMENTS, settle=A.to_bits, normal=A.to_indices, overlap=True,
                 similarity=A.equal_indices, layout=segments,
                 options={"bundling": "or"}, choices={"bundling": ("or", "mode")},
                 variants=(({"bundling": "mode"}, _MODES),)),
    Architecture("MBAT",     NORMALS,    A.gaussian,  A.structured,        A.structured_back,     A.gaussian_drawn,
                 **_MATRIX, operator=A.two_signs, inverse=A.signs_exchanged,
                 options={"form": "structured"}, choices={"form": ("structured", "rolled", "dense")},
                 variants=(({"form": "dense"}, dict(bind=A.dense, unbind=A.dense_back, inverse=None,
                                                    layout=with_matrix)),
                           ({"form": "rolled"}, dict(bind=A.rolled, unbind=A.rolled_back, operator=A.roll_of,
                                                     inverse=None, layout=with_matrix)))),
    Architecture("VTB",      NORMALS,    A.gaussian,  A.vtb,               A.vtb_transposed,      A.gaussian_drawn,
                 **_MATRIX, compose=A.vtb_composed, energy=A.gram, identity=_square_identity, exact=False,
                 inverse=A.transposed, layout=square),
    Architecture("CGR",      EACH,       A.indices,   A.multiply,          A.multiply_conjugate,
                 **_GROUP, picture=A.as_phasors, operator=A.as_phasors, compose=A.multiply, settle=A.to_phases,
                 back=A.from_phasors, complex=True, ties=True, layout=circles,
                 options={"bundling": "round", "r": 8}, choices={"bundling": ("round", "mode")},
                 variants=(({"r": 2}, dict(self_inverse=True)),
                           ({"bundling": "mode"}, dict(
                               bind=A.segments_rolled, unbind=A.segments_rolled_back, operator=None,
                               aim=A.as_triangles, complex=False, **_SEGMENTS, **_MODES)))),
    Architecture("HLB",      BOTH,       A.mixture,   A.multiply,          A.divide,
                 operator=A.away_from_zero, compose=A.multiply, transposed=A.multiply, energy=A.squares,
                 by_coordinate=True, identity=_ones, adjoint=False, layout=two_hills, inverse=A.reciprocal,
                 normal=A.to_size, hard=A.to_plain_signs,
                 options={"mu": 1.0, "sigma": None},
                 variants=tuple(
                     ({"mu": mu, "sigma": 0.0}, dict(adjoint=True, self_inverse=True)) for mu in (1.0, -1.0))),
    Architecture("GHRR",     EACH,       A.haar,      A.matrix_left,       A.matrix_left_adjoint,
                 compose=A.matrix_right, identity=_unit_blocks, complex=True, commutative=False, ordered=True,
                 normal=A.to_unitary, soft=A.softened_blocks, inverse=A.adjoint, layout=unitary_blocks,
                 options={"m": 2}, powers=A.turned_blocks,
                 variants=(({"m": 1}, dict(commutative=True, ordered=False)),)),
)}
# fmt: on


def row_of(name: str) -> Architecture:
    """Return the row of an architecture; refuse unknown names."""
    if name not in ARCHITECTURES:
        raise BadValue(f"Unknown architecture {name!r}. {nearest(name, ARCHITECTURES)}")
    return ARCHITECTURES[name]


def chosen_options(row: Architecture, given: Options) -> Fields:
    """Return the options of an architecture, with defaults; refuse unknown ones."""
    for option, value in given.items():
        if option not in row.options:
            raise BadType(f"{row.name} has no option {option!r}. Its options: {', '.join(row.options) or 'none'}.")
        if option in row.choices:
            check_choice(option, value, row.choices[option])
    return {**row.options, **{option: as_python_number(value) for option, value in given.items()}}


def varied(row: Architecture, options: Options) -> Architecture:
    """Return the row, adjusted by its options."""
    for values, changes in row.variants:
        if values.items() <= options.items():
            row = replace(row, **changes)
    return row


def space_of(row: Architecture, d: int, real: bool, dtype: torch.dtype, seed: int, options: Options) -> Space:
    """Return the space of d numbers; refuse an impossible d and name the nearest possible one."""
    try:
        layout = row.layout(d, 2 if real and row.complex else 1, options)
    except BadValue as error:
        raise BadValue(f"{row.name}: {error}") from None
    space = Space(
        d=layout.d,
        shape=layout.shape,
        dtype=dtype,
        seed=seed,
        option=layout.option,
        scalars=layout.scalars or math.prod(layout.shape),
    )
    if not row.ties:
        return space
    numbers = math.prod(space.shape) * (space.option if row.segmented else 1)
    return replace(space, ties=A.chances(seed, numbers))
