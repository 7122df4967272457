"""The fourteen vector symbolic architectures, as a table of small functions (`algebra.py` has them).

A row says how bits become atoms, how a role acts on a filler and is undone, what a sum of bound vectors settles to, and
which laws hold. Four architectures have discrete atoms; these are summed in a linear picture of them: a bit as +-1 or
0/1, an index as a phasor or a one-hot segment.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from carving import draws
from carving.checks import check_choice, check_integer, nearest
from carving.errors import BadType, BadValue
from carving.schemes import algebra
from carving.schemes.algebra import Space

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
    transposed: Map | None = None  # the transpose of bind, where unbind is another map
    energy: Map | None = None  # picture or operator -> a vector; the norm of a filler stays where there is none
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
    ordered: bool = False  # of two roles, one after the other, the order counts


def _one_word_each(d: int) -> int:
    return d  # of a complex number of normals too: it takes two of them, which are one word


def _signs_and_normals(d: int) -> int:
    return draws.words_for_signs(d) + draws.words_for_normals(d)


NORMALS, SIGNS, EACH, BOTH = draws.words_for_normals, draws.words_for_signs, _one_word_each, _signs_and_normals
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
_MATRIX: dict[str, Any] = dict(commutative=False, associative=False, ordered=True)

#               name        words       atoms        bind                 unbind
ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in (
    Architecture("HRR",      NORMALS,    A.gaussian,  A.convolve,          A.correlate,
                 compose=A.convolve, energy=A.power, identity=_impulse, exact=False),
    Architecture("FHRR",     EACH,       A.phasors,   A.multiply,          A.multiply_conjugate,
                 compose=A.multiply, identity=_complex_ones, complex=True),
    Architecture("MAP-I",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, self_inverse=True),
    Architecture("MAP-C",    EACH,       A.uniform,   A.multiply,          A.multiply,
                 compose=A.multiply_rescaled, energy=A.squares, identity=_ones, settle=A.to_unit_interval, exact=False),
    Architecture("MAP-B",    SIGNS,      A.signs,     A.multiply,          A.multiply,
                 compose=A.multiply, identity=_ones, settle=A.to_signs, self_inverse=True),
    Architecture("BSC",      SIGNS,      A.coins,     A.multiply,          A.multiply,             **_BSC),
    Architecture("BSDC-S",   EACH,       A.sparse,    A.shifted,           A.shifted_back,
                 **_SPARSE, operator=A.shift_of, compose=A.add_shifts, associative=False),
    Architecture("BSDC-CDT", EACH,       A.sparse,    A.thinned,           None,
                 **_SPARSE | dict(commutative=True), associative=False),
    Architecture("BSDC-SEG", EACH,       A.indices,   A.segments_rolled,   A.segments_rolled_back,
                 **_SEGMENTS, settle=A.to_bits, overlap=True, likeness=A.equal_indices),
    Architecture("MBAT",     NORMALS,    A.gaussian,  A.structured,        A.structured_back,
                 **_MATRIX, operator=A.two_signs),
    Architecture("VTB",      NORMALS,    A.gaussian,  A.vtb,               A.vtb_transposed,
                 **_MATRIX, compose=A.vtb_composed, energy=A.gram, identity=_square_identity, exact=False),
    Architecture("CGR",      EACH,       A.indices,   A.multiply,          A.multiply_conjugate,
                 **_GROUP, picture=A.as_phasors, operator=A.as_phasors, compose=A.multiply, settle=A.to_phases,
                 back=A.from_phasors, complex=True),
    Architecture("HLB",      BOTH,       A.mixture,   A.multiply,          A.divide,
                 operator=A.away_from_zero, compose=A.multiply, transposed=A.multiply, energy=A.squares, identity=_ones,
                 adjoint=False),
    Architecture("GHRR",     EACH,       A.haar,      A.matrix_left,       A.matrix_left_adjoint,
                 compose=A.matrix_right, identity=_unit_blocks, complex=True, commutative=False, ordered=True),
)}
# fmt: on


def varied(row: Architecture, options: dict[str, Any]) -> Architecture:
    """The row with what an option changes of it: unitary HRR, MBAT's form, the mode of CGR and BSDC-SEG."""
    variants: dict[tuple[str, str, Any], dict[str, Any]] = {
        ("HRR", "unitary", True): dict(atoms=A.unitary, exact=True),
        ("HLB", "sigma", 0.0): (
            dict(adjoint=True, self_inverse=True) if abs(options.get("mu", 0)) == 1 else {}
        ),
        ("CGR", "r", 2): dict(self_inverse=True),
        ("GHRR", "m", 1): dict(commutative=True, ordered=False),
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


def chosen_options(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The architecture's options, with defaults where none was given."""
    if name not in ARCHITECTURES:
        raise BadValue(f"there is no architecture {name!r}; {nearest(name, ARCHITECTURES)}")
    choices, numbers = OPTIONS.get(name, {}), NUMBERS.get(name, {})
    for option, value in given.items():
        if option in choices:
            check_choice(option, value, choices[option])
        elif option not in numbers:
            known = ", ".join([*choices, *numbers]) or "none"
            raise BadType(f"{name} has no option {option!r}; its options: {known}")
    return {option: values[0] for option, values in choices.items()} | numbers | given


LARGEST_MATRIX = 8_192  # a side: drawing and orthonormalising one takes minutes and two GiB


def space_of(row: Architecture, d: int, real: bool, dtype: torch.dtype, seed: int, options: dict[str, Any]) -> Space:
    """The space of d numbers; a d that does not fit is refused with the nearest that does."""
    space = _shaped(row, d, real, dtype, seed, options)
    if row.settle not in (A.to_signs, A.to_phases, A.to_modes):
        return space
    numbers = math.prod(space.shape) * (space.option if row.picture is A.as_segments else 1)
    return replace(space, ties=A.chances(seed, numbers))


def _shaped(row: Architecture, d: int, real: bool, dtype: torch.dtype, seed: int, options: dict[str, Any]) -> Space:
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
    if row.bind in (A.dense, A.rolled) and d > LARGEST_MATRIX:
        raise BadValue(
            f"MBAT's {options['form']} form holds a matrix of d x d numbers, so that d must be at most "
            f"{LARGEST_MATRIX}, got d={d}; form='structured' does without one"
        )
    option: Any = None
    if row.name == "CGR":
        option = options["r"]
        check_integer("r", option, 2, 2**32)
    if row.name == "HLB":
        mu, sigma = options["mu"], 1 / math.sqrt(d) if options["sigma"] is None else options["sigma"]
        if not (isinstance(mu, int | float) and math.isfinite(mu) and mu != 0):
            raise BadValue(f"mu must be a number other than 0, got {mu!r}; 1.0 is usual")
        if not (isinstance(sigma, int | float) and math.isfinite(sigma) and sigma >= 0):
            raise BadValue(f"sigma must be a number of at least 0, got {sigma!r}; 1/sqrt(d) is usual")
        option = (float(mu), float(sigma))
    if row.atoms is A.sparse:
        option = math.ceil(math.sqrt(d)) if options["ones"] is None else options["ones"]
        check_integer("ones", option, 1, d)
    return Space(d // each, (d // each,), dtype, seed, option)


def _check_fit(name: str, d: int, near: int, wanted: str) -> None:
    if d != near:
        raise BadValue(f"{name} needs a dimension that is {wanted}, got d={d}; the nearest is {near}")
