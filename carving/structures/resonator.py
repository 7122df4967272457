"""Resonator networks (Frady, Kent, Olshausen and Sommer 2020): factorization of bound vectors.

Every factor has an estimate, at first the bundle of its codebook. Estimates are updated in turn: the other estimates
are unbound from the vector, and the codebook is bundled by weights that the similarities to the result give. "linear"
weighs by the similarities (Frady et al. 2020), "least squares" also takes out what the codebook's vectors have in
common (Kent et al. 2020), "attention" by a softmax, "sparse" by what stands out of a little noise (Langenegger et al.
2023). Codes of segments have the sparse way alone (Hersche et al. 2024): a candidate is as likely as the least of its
segments, and where none stands out a few are drawn.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.schemes.base import Scheme
from carving.schemes.vsa import VSA
from carving.structures.vectors import check_vectors, set_dim
from carving.validate import check_choice, check_integer, check_positive

MIN_COSINE = 0.5  # of factors that bind to the vector: unrelated vectors have none, one of a bundle of three 0.58
CHANCE_VECTORS = 5  # vectors of a codebook that pass the sparse threshold by chance
SPARSE_NOISE = 0.7  # added to similarities, in deviations of unrelated vectors: it ends cycles
WEIGHT_NOISE = 0.01  # noise of weights, in deviations: all there is where none passes the threshold
SURE_LIKELIHOOD = 0.9  # a likelihood that takes everything

Weigh = Callable[[Tensor], Tensor]


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
    converged: Tensor  # (n,)
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
    if sharpness is not None:
        check_positive("sharpness", sharpness, "With None it is derived from the sizes.")
    segmented = vsa.row.segmented
    named = check_choice("activation", activation or ("sparse" if segmented else "linear"), tuple(ACTIVATIONS))
    if named == "sparse" and not isinstance(generator, torch.Generator):
        raise BadType(
            f"generator must be a torch.Generator with activation='sparse', got {generator!r}. "
            "Pass torch.Generator().manual_seed(0)."
        )
    if not segmented:
        weigh = [ACTIVATIONS[named](vsa, book, sharpness, generator) for book in codebooks]
        estimator = BundleEstimates(vsa, codebooks, weigh)
        return _search(vsa, bound, codebooks, estimator, rounds, named in SIGNED_ACTIVATIONS)
    if named != "sparse":
        raise BadValue(f"activation must be 'sparse' for {vsa.name}, got {activation!r}. Leave it out.")
    assert generator is not None
    return _search(vsa, bound, codebooks, SegmentEstimates(vsa, codebooks, sharpness, generator), rounds, False)


def _search(
    vsa: VSA, bound: Tensor, codebooks: Sequence[Tensor], estimator: "Estimator", rounds: int, signed: bool
) -> Factors:
    """Iterate until all factors are found; vectors whose factors are found leave the search."""
    found = torch.full((len(bound), len(codebooks)), -1, device=bound.device)
    left = torch.arange(len(bound), device=bound.device)
    estimates = [estimator.first(place, len(bound)) for place in range(len(codebooks))]
    taken = 0
    while taken < rounds and len(left):
        taken += 1
        for place in range(len(codebooks)):
            alike = estimator.alike(bound, estimates, place)
            found[left, place] = (alike.abs() if signed else alike).argmax(-1)
            estimates[place] = estimator.renewed(alike, place)
        open_ = ~_binds(vsa, bound, codebooks, found[left])
        if not bool(open_.all()):
            left, bound, estimates = left[open_], bound[open_], [estimate[open_] for estimate in estimates]
    converged = torch.ones(len(found), dtype=torch.bool, device=found.device)
    converged[left] = False
    return Factors(found, converged, taken)


def _checked(scheme: Scheme, bound: Tensor, codebooks: Sequence[Tensor]) -> VSA:
    """Return the scheme as a VSA; refuse architectures without factorization, and bad codebooks."""
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
    """Return whether the factors found bind to the given vectors: by a cosine far above that of unrelated ones."""
    made = torch.stack([book[found[:, place]] for place, book in enumerate(codebooks)], 1)
    again = vsa.multibind(made)
    size = len(vsa.facts.memory_shape)
    one, other = (vsa.picture(x).flatten(-size) for x in (bound, again))
    products = (one * other.conj()).sum(-1)
    cosines = (products.real if products.is_complex() else products) / (one.norm(dim=-1) * other.norm(dim=-1))
    return cosines > MIN_COSINE


# Estimates of factors


class BundleEstimates:
    """Estimates as vectors of the architecture: the normalized, weighted sum of a codebook."""

    def __init__(self, vsa: VSA, books: Sequence[Tensor], weigh: Sequence[Weigh]) -> None:
        self.vsa, self.books, self.weigh = vsa, books, weigh
        self.pictures = [vsa.picture(book) for book in books]

    def first(self, place: int, count: int) -> Tensor:
        """Return `count` first estimates of a factor: the bundle of its codebook."""
        made = self.vsa.normalize(self.vsa.total(self.books[place]))
        return made.expand(count, *made.shape)

    def alike(self, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
        """Return the similarities of a codebook to the vectors without the other factors."""
        for other, estimate in enumerate(estimates):
            if other != place:
                bound = self.vsa.unbind(bound, estimate)
        return self.vsa.similarity(bound, self.books[place])

    def renewed(self, alike: Tensor, place: int) -> Tensor:
        """Return the estimates of a factor from similarities."""
        pictures = self.pictures[place]
        return self.vsa.normalize(torch.tensordot(self.weigh[place](alike).to(pictures.dtype), pictures, 1))


class SegmentEstimates:
    """Estimates of codes of segments: the probability of every position of a segment."""

    def __init__(self, vsa: VSA, books: Sequence[Tensor], width: float | None, generator: torch.Generator) -> None:
        self.vsa, self.books, self.generator = vsa, books, generator
        self.pictures = [vsa.picture(book) for book in books]
        self.widths = [self._width(len(book)) if width is None else max(1, round(width)) for book in books]

    def _width(self, size: int) -> int:
        """Return how many vectors are drawn: by chance one of them fits the other factors."""
        count, places = self.vsa.facts.memory_shape
        covered = size ** (-1 / count)
        drawn = math.log1p(-min(covered, 0.999)) / math.log1p(-1 / places)
        return min(size, max(1, round(drawn ** (1 / (len(self.books) - 1)))))

    def first(self, place: int, count: int) -> Tensor:
        """Return `count` first estimates of a few random vectors: of all, every position would be as probable."""
        return self._summed(self._drawn(count, place), place)

    def alike(self, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
        """Return the likelihood of each vector of a codebook: the minimum over its segments."""
        others = [each for other, each in enumerate(estimates) if other != place]
        places = self.vsa.facts.memory_shape[1]
        spectra = [torch.fft.rfft(each) for each in others]
        together = others[0] if len(others) == 1 else torch.fft.irfft(reduce(torch.mul, spectra), n=places)
        # What the others must have been together for each vector of the codebook to be the factor: (n, segments, m)
        needed = (bound.unsqueeze(2) - self.books[place].mT).remainder(places)
        return together.gather(2, needed).amin(1)

    def renewed(self, alike: Tensor, place: int) -> Tensor:
        """Return the estimates of a factor: the vectors above the threshold, or random ones."""
        least = 0.99 / math.prod(width for other, width in enumerate(self.widths) if other != place)
        weights = torch.where(alike >= least, alike, 0.0)
        best = weights.max(1, keepdim=True)
        weights = torch.where((best.values < SURE_LIKELIHOOD) | (alike == best.values), weights, 0.0)
        lost = best.values.squeeze(1) == 0
        weights[lost] = self._drawn(int(lost.sum()), place)
        return self._summed(weights, place)

    def _summed(self, weights: Tensor, place: int) -> Tensor:
        shares = weights / weights.sum(1, keepdim=True)
        return torch.tensordot(shares.to(self.pictures[place].dtype), self.pictures[place], 1)

    def _drawn(self, count: int, place: int) -> Tensor:
        lots = torch.rand(count, len(self.books[place]), generator=self.generator, device=self.generator.device)
        last = lots.kthvalue(self.widths[place], 1, keepdim=True).values if count else lots
        return (lots <= last).to(self.vsa.device, self.vsa.dtype)


Estimator = BundleEstimates | SegmentEstimates


# Weights of similarities (n, m), made for a codebook (m, shape)


def linear(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """Return a function that weighs by the similarities themselves."""
    return lambda alike: alike


def least_squares(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """Return a function that weighs by least squares."""
    gram = vsa.cosine_similarity(book, book)
    apart = torch.linalg.pinv(gram, hermitian=True)
    return lambda alike: alike @ apart


def attention(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """The softmax, by default of similarities in units of the deviation of unrelated vectors."""
    sharp = vsa.space.d**0.5 if sharpness is None else float(sharpness)
    return lambda alike: torch.softmax(sharp * alike, -1)


def sparse(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """What is above a threshold in deviations of unrelated vectors, by default one that a few pass by chance."""
    share = torch.tensor(max(0.5, 1 - CHANCE_VECTORS / len(book)), dtype=torch.float64)
    least = float(torch.special.ndtri(share)) * math.hypot(1, SPARSE_NOISE) if sharpness is None else float(sharpness)
    deviation = vsa.facts.memory_scalars**-0.5

    def weigh(alike: Tensor) -> Tensor:
        noise = torch.randn(2, *alike.shape, generator=generator, dtype=alike.dtype).to(alike.device) * deviation
        noisy = alike + SPARSE_NOISE * noise[0]
        return torch.where(noisy >= least * deviation, noisy, 0.0) + WEIGHT_NOISE * noise[1]

    return weigh


ACTIVATIONS = {"linear": linear, "least squares": least_squares, "attention": attention, "sparse": sparse}
SIGNED_ACTIVATIONS = ("linear", "least squares")  # in which two factors may both be found as their opposites
