"""Roles that undo others: for each architecture that has them, role atoms -> role atoms; and bits turned over."""

import math

from torch import Tensor

from carving.schemes import algebra
from carving.schemes.algebra import Space


def same(space: Space, role: Tensor) -> Tensor:
    """A role that undoes itself."""
    return role


def conjugate(space: Space, role: Tensor) -> Tensor:
    """Phases turned the other way."""
    return role.conj().resolve_conj()


def adjoint(space: Space, role: Tensor) -> Tensor:
    """The conjugate transpose of every block."""
    return role.mH.resolve_conj()


def reciprocal(space: Space, role: Tensor) -> Tensor:
    """One over every number."""
    return 1 / algebra.away_from_zero(space, role)


def negated_modulo(space: Space, role: Tensor) -> Tensor:
    """Indices the other way around the circle."""
    return (-role).remainder(space.option)


def complement(space: Space, x: Tensor) -> Tensor:
    """Every bit turned over."""
    return ~x


def reversed_around(space: Space, role: Tensor) -> Tensor:
    """Coordinates in the other order around the circle, the first stays: convolution with it is correlation."""
    return role.flip(-1).roll(1, -1)


def mirrored(space: Space, role: Tensor) -> Tensor:
    """Ones of place j (from 1) at place d - j, around the circle: the sum of their places is the negative one."""
    return role.flip(-1).roll(-1, -1)


def transposed(space: Space, role: Tensor) -> Tensor:
    """The vector's matrix transposed."""
    return algebra.square(space, role).mT.flatten(-2)


def signs_exchanged(space: Space, role: Tensor) -> Tensor:
    """A vector with the role's two signs exchanged: H is symmetric, so that this undoes diag(s2) H diag(s1)."""
    first, second = algebra.two_signs(space, role).unbind(-2)
    return second * (1 + first / 2) * (0.6744897501960817 / math.sqrt(space.d))
