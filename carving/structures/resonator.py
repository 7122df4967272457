"""Resonator networks (Frady, Kent, Olshausen and Sommer 2020): factorization of bound vectors.

Every factor has an estimate, at first the bundle of its codebook. Estimates are updated in turn: the other estimates
are unbound from the vector, and the codebook is bundled with the similarities to the result as weights.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes.base import Scheme
from carving.schemes.vsa import VSA
from carving.structures.renewals import SIGNED, WEIGHTS, Bundles, Renewal, Segments
from carving.structures.vectors import check_vectors, set_dim
from carving.validate import check_choice, check_integer, check_number

FOUND = 0.5  # the cosine of a product with what it was found in: strangers have none, one of a bundle of three 0.58


class Factors(NamedTuple):
    """The result of a factorization.

    Args:
        found: (n, factors), the index of the vector found in each codebook.
        converged: (n,), whether the vectors found bind to the given vector, by a cosine above 0.5.
        rounds: The number of iterations.

    >>> Factors(torch.tensor([[3, 1]]), torch.tensor([True]), 4).found.tolist()
    [[3, 1]]
    """

    found: Tensor  # (n, factors)
    converged: Tensor  # (n,) whether what was found binds to what was given: by a cosine above 0.5
    rounds: int


def factorize(
    scheme: Scheme,
    bound: Tensor,
    codebooks: Sequence[Tensor],
    *,
    rounds: int = 200,
    activation: str | None = None,
    sharpness: float | None = None,
    generator: torch.Generator | None = None,
) -> Factors:
    """Return the factors of bound vectors, one from each codebook, by a resonator network.

    Args:
        scheme: A VSA whose binding is commutative, associative and invertible; best if unbinding is exact.
        bound: Vectors (n, *shape), each bound from one vector of each codebook.
        codebooks: At least two tensors (m, *shape).
        rounds: Maximal number of iterations.
        activation: How similarities weight a codebook. "linear": directly, as first published. "least squares": higher
            capacity with three factors. "attention": by softmax. "sparse": by threshold and noise from the generator;
            the highest capacity if there is time for many rounds, and the only one for BSDC-SEG.
        sharpness: Inverse temperature of the softmax; threshold of "sparse" in standard deviations, or the number of
            draws for BSDC-SEG. If None, derived from the sizes.
        generator: Required for "sparse".

    Returns:
        `Factors`, with the indices found (n, number of codebooks).

    Raises:
        ValueError: The architecture cannot be factorized, or there are fewer than two codebooks.

    >>> from carving import make
    >>> scheme = make("MAP-I", d=1024)
    >>> shapes, colors, places = (scheme.fillers([(kind + str(i)) for i in range(10)]) for kind in "scp")
    >>> seen = scheme.multibind(torch.stack((shapes[3], colors[7], places[1])))
    >>> factorize(scheme, seen.unsqueeze(0), [shapes, colors, places]).found.tolist()
    [[3, 7, 1]]
    """
    vsa = _checked(scheme, bound, codebooks)
    check_integer("rounds", rounds, 1)
    if sharpness is not None and not 0 < check_number("sharpness", sharpness) < math.inf:
        raise BadValue(
            f"sharpness must be a positive number, got {sharpness!r}. With None it is derived from the sizes."
        )
    segmented = vsa.row.segmented
    named = check_choice("activation", activation or ("sparse" if segmented else "linear"), tuple(WEIGHTS))
    if named == "sparse" and not isinstance(generator, torch.Generator):
        raise BadType(
            f"generator must be a torch.Generator with activation='sparse', got {generator!r}. "
            "Pass torch.Generator().manual_seed(0)."
        )
    if not segmented:
        weigh = [WEIGHTS[named](vsa, book, sharpness, generator) for book in codebooks]
        return _searched(vsa, bound, codebooks, Bundles(vsa, codebooks, weigh), rounds, named in SIGNED)
    if named != "sparse":
        raise BadValue(f"activation must be 'sparse' for {vsa.name}, got {activation!r}. Leave it out.")
    assert generator is not None
    return _searched(vsa, bound, codebooks, Segments(vsa, codebooks, sharpness, generator), rounds, False)


def _searched(
    vsa: VSA, bound: Tensor, codebooks: Sequence[Tensor], renewal: Renewal, rounds: int, signed: bool
) -> Factors:
    """The search; vectors whose factors are found leave it."""
    found = torch.full((len(bound), len(codebooks)), -1, device=bound.device)
    left = torch.arange(len(bound), device=bound.device)
    estimates = [renewal.first(place, len(bound)) for place in range(len(codebooks))]
    taken = 0
    while taken < rounds and len(left):
        taken += 1
        for place in range(len(codebooks)):
            alike = renewal.alike(bound, estimates, place)
            found[left, place] = (alike.abs() if signed else alike).argmax(-1)
            estimates[place] = renewal.renewed(alike, place)
        open_ = ~_binds(vsa, bound, codebooks, found[left])
        if not bool(open_.all()):
            left, bound, estimates = left[open_], bound[open_], [estimate[open_] for estimate in estimates]
    converged = torch.ones(len(found), dtype=torch.bool, device=found.device)
    converged[left] = False
    return Factors(found, converged, taken)


def _checked(scheme: Scheme, bound: Tensor, codebooks: Sequence[Tensor]) -> VSA:
    """The architecture, if factors can be found in it."""
    vsa = check_vectors(scheme)
    facts = vsa.facts
    if not (facts.commutative and facts.associative) or vsa.row.inverse is None:
        raise BadValue(
            f"Factorization needs binding that is commutative, associative and invertible, which {vsa.name} does not "
            "have. Use MAP-I, BSC, FHRR, CGR or HRR(unitary=True)."
        )
    if not isinstance(codebooks, Sequence):
        raise BadType(
            f"codebooks must be a list of tensors, got {type(codebooks).__name__}. Pass for example [shapes, colors]."
        )
    for each in (bound, *codebooks):
        set_dim(vsa, each)
    if len(codebooks) < 2:
        raise BadValue(f"codebooks must be at least two, got {len(codebooks)}. Use `nearest` to search a single one.")
    return vsa


def _binds(vsa: VSA, bound: Tensor, codebooks: Sequence[Tensor], found: Tensor) -> Tensor:
    """Whether what was found binds to what was given: far more alike than strangers are."""
    made = torch.stack([book[found[:, place]] for place, book in enumerate(codebooks)], 1)
    again = vsa.multibind(made)
    size = len(vsa.facts.memory_shape)
    one, other = (vsa.picture(x).flatten(-size) for x in (bound, again))
    products = (one * other.conj()).sum(-1)
    cosines = (products.real if products.is_complex() else products) / (one.norm(dim=-1) * other.norm(dim=-1))
    return cosines > FOUND
