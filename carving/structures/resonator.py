"""A resonator network (Frady, Kent, Olshausen and Sommer 2020): the factors of a bound vector, searched all at once.

Every factor has an estimate, at first the bundle of all that it may be. In turn each is renewed: the vector is unbound
from the estimates of the others, compared with the factor's codebook, and what is alike is bundled by how alike it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from carving.checks import check_choice, check_integer
from carving.errors import BadValue
from carving.scheme import Scheme
from carving.schemes.vsa import VSA
from carving.structures.vectors import check_vectors, set_dim

ACTIVATIONS = ("linear", "attention")


class Factors(NamedTuple):
    """Which vector of each codebook was found, and whether the search came to rest.

    >>> Factors(torch.tensor([[3, 1]]), torch.tensor([True]), 4).found.tolist()
    [[3, 1]]
    """

    found: Tensor  # (n, factors)
    converged: Tensor  # (n,) whether what was found binds to what was given
    rounds: int


def factorise(
    scheme: Scheme,
    bound: Tensor,
    codebooks: Sequence[Tensor],
    *,
    rounds: int = 200,
    activation: str = "linear",
    sharpness: float | None = None,
) -> Factors:
    """The vectors, one of each codebook (m, shape), that bind to each of bound (n, shape).

    `activation="linear"` weighs a codebook by its similarities, as published; "attention" by their softmax, `sharpness`
    times the similarities (by default the root of the number of coordinates). For architectures whose binding is
    commutative, associative and has an inverse; best for those in which that is exact.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=1024)
    >>> shapes, colours, places = (scheme.fillers([(kind + str(i)) for i in range(10)]) for kind in "scp")
    >>> seen = scheme.multibind(torch.stack((shapes[3], colours[7], places[1])))
    >>> factorise(scheme, seen.unsqueeze(0), [shapes, colours, places]).found.tolist()
    [[3, 7, 1]]
    """
    vsa = _checked(scheme, bound, codebooks)
    check_choice("activation", activation, ACTIVATIONS)
    check_integer("rounds", rounds, 1)
    sharp = None if activation == "linear" else (vsa.space.d**0.5 if sharpness is None else float(sharpness))
    size = len(vsa.facts.filler_shape)
    estimates = [vsa.normalize(vsa.total(book)).expand(len(bound), *(-1,) * size) for book in codebooks]
    pictures = [vsa.picture(book) for book in codebooks]
    found = torch.full((len(bound), len(codebooks)), -1, device=bound.device)
    done = torch.zeros(len(bound), dtype=torch.bool, device=bound.device)
    taken = 0
    while taken < rounds and not bool(done.all()):
        taken += 1
        for place, book in enumerate(codebooks):
            alike = vsa.similarity(_without(vsa, bound, estimates, place), book)
            found[:, place] = torch.where(done, found[:, place], alike.argmax(-1))
            weights = alike if sharp is None else torch.softmax(sharp * alike, -1)
            summed = torch.tensordot(weights.to(pictures[place].dtype), pictures[place], 1)
            estimates[place] = vsa.normalize(summed)
        done = done | _binds(vsa, bound, codebooks, found)
    return Factors(found, done, taken)


def _checked(scheme: Scheme, bound: Tensor, codebooks: Sequence[Tensor]) -> VSA:
    """The architecture, if factors can be found in it."""
    vsa = check_vectors(scheme)
    facts = vsa.facts
    if not (facts.commutative and facts.associative) or vsa.row.inverse is None:
        raise BadValue(
            f"factors are found where binding is commutative, associative and has an inverse, and that of {vsa.name} "
            "is not; MAP-I, BSC, FHRR, CGR and HRR(unitary=True) have one"
        )
    for each in (bound, *codebooks):
        set_dim(vsa, each)
    if len(codebooks) < 2:
        raise BadValue(
            f"there must be two codebooks at least, got {len(codebooks)}; one alone is searched by `nearest`"
        )
    return vsa


def _without(vsa: VSA, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
    """The vectors unbound from all estimates but one."""
    for other, estimate in enumerate(estimates):
        if other != place:
            bound = vsa.unbind(bound, estimate)
    return bound


def _binds(vsa: VSA, bound: Tensor, codebooks: Sequence[Tensor], found: Tensor) -> Tensor:
    """Whether what was found binds to what was given: far more alike than strangers are."""
    made = torch.stack([book[found[:, place]] for place, book in enumerate(codebooks)], 1)
    again = vsa.multibind(made)
    size = len(vsa.facts.memory_shape)
    one, other = (vsa.picture(x).flatten(-size) for x in (bound, again))
    products = (one * other.conj()).sum(-1)
    cosines = (products.real if products.is_complex() else products) / (one.norm(dim=-1) * other.norm(dim=-1))
    return cosines > 0.5
