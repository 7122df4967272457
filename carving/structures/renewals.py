"""How a resonator renews its estimate of a factor: similarities to a codebook become weights, and these a bundle.

"linear" weighs by the similarities (Frady et al. 2020), "least squares" also takes out what the codebook's vectors have
in common (Kent et al. 2020), "attention" by a softmax, "sparse" by what stands out of a little noise (Langenegger et
al. 2023). Codes of segments have the sparse way alone (Hersche et al. 2024): a candidate is as likely as the least of
its segments, and where none stands out a few are drawn.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Protocol

import torch
from torch import Tensor

from carving.schemes.vsa import VSA

CHANCE = 5  # vectors of a codebook that pass the sparse threshold by chance
NOISE = 0.7  # added to similarities, in deviations of strangers: what goes around in circles is thrown off
FAINT = 0.01  # the same of weights: where none passes, they are all that there is
SURE = 0.9  # a likelihood that takes everything


Weigh = Callable[[Tensor], Tensor]


class Renewal(Protocol):
    """A way to search the factors of vectors."""

    def first(self, place: int, count: int) -> Tensor:
        """The estimate of all that a factor may be, (count, shape)."""

    def alike(self, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
        """How alike (n, m) a codebook is to the vectors without the estimates of the other factors."""

    def renewed(self, alike: Tensor, place: int) -> Tensor:
        """Estimates (n, shape) of these similarities."""


class Bundles:
    """Estimates that are vectors of the architecture: the normalized sum of a codebook by its weights."""

    def __init__(self, vsa: VSA, books: Sequence[Tensor], weigh: Sequence[Weigh]) -> None:
        self.vsa, self.books, self.weigh = vsa, books, weigh
        self.pictures = [vsa.picture(book) for book in books]

    def first(self, place: int, count: int) -> Tensor:
        """The bundle of the codebook."""
        made = self.vsa.normalize(self.vsa.total(self.books[place]))
        return made.expand(count, *made.shape)

    def alike(self, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
        """Similarities to what is left."""
        for other, estimate in enumerate(estimates):
            if other != place:
                bound = self.vsa.unbind(bound, estimate)
        return self.vsa.similarity(bound, self.books[place])

    def renewed(self, alike: Tensor, place: int) -> Tensor:
        """The bundle by its weights."""
        pictures = self.pictures[place]
        return self.vsa.normalize(torch.tensordot(self.weigh[place](alike).to(pictures.dtype), pictures, 1))


class Segments:
    """Estimates of codes of segments: how probable every place of a segment is."""

    def __init__(self, vsa: VSA, books: Sequence[Tensor], width: float | None, generator: torch.Generator) -> None:
        self.vsa, self.books, self.generator = vsa, books, generator
        self.pictures = [vsa.picture(book) for book in books]
        self.widths = [self._width(len(book)) if width is None else max(1, round(width)) for book in books]

    def _width(self, size: int) -> int:
        """How many are drawn: so few that by chance one vector of the codebook fits to what they are bound with."""
        count, places = self.vsa.facts.memory_shape
        covered = size ** (-1 / count)
        drawn = math.log1p(-min(covered, 0.999)) / math.log1p(-1 / places)
        return min(size, max(1, round(drawn ** (1 / (len(self.books) - 1)))))

    def first(self, place: int, count: int) -> Tensor:
        """A few, drawn: all at once would leave every place about as probable."""
        return self._summed(self._drawn(count, place), place)

    def alike(self, bound: Tensor, estimates: Sequence[Tensor], place: int) -> Tensor:
        """The least of the segments of each vector."""
        others = [each for other, each in enumerate(estimates) if other != place]
        places = self.vsa.facts.memory_shape[1]
        spectra = [torch.fft.rfft(each) for each in others]
        together = others[0] if len(others) == 1 else torch.fft.irfft(reduce(torch.mul, spectra), n=places)
        # What the others must have been together for each vector of the codebook to be the factor: (n, segments, m)
        needed = (bound.unsqueeze(2) - self.books[place].mT).remainder(places)
        return together.gather(2, needed).amin(1)

    def renewed(self, alike: Tensor, place: int) -> Tensor:
        """The places of those that stand out."""
        least = 0.99 / math.prod(width for other, width in enumerate(self.widths) if other != place)
        weights = torch.where(alike >= least, alike, 0.0)
        best = weights.max(1, keepdim=True)
        weights = torch.where((best.values < SURE) | (alike == best.values), weights, 0.0)
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


# Weights of similarities (n, m), made for a codebook (m, shape)


def linear(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """The similarities themselves."""
    return lambda alike: alike


def least_squares(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """The weights whose sum comes nearest to the vector."""
    gram = vsa.cosine_similarity(book, book)
    apart = torch.linalg.pinv(gram, hermitian=True)
    return lambda alike: alike @ apart


def attention(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """The softmax, by default of similarities in units of the strangers' deviation."""
    sharp = vsa.space.d**0.5 if sharpness is None else float(sharpness)
    return lambda alike: torch.softmax(sharp * alike, -1)


def sparse(vsa: VSA, book: Tensor, sharpness: float | None, generator: torch.Generator | None) -> Weigh:
    """What is above a threshold in deviations of strangers, by default one that a few pass by chance."""
    share = torch.tensor(max(0.5, 1 - CHANCE / len(book)), dtype=torch.float64)
    least = float(torch.special.ndtri(share)) * math.hypot(1, NOISE) if sharpness is None else float(sharpness)
    deviation = vsa.facts.memory_scalars**-0.5

    def weigh(alike: Tensor) -> Tensor:
        noise = torch.randn(2, *alike.shape, generator=generator, dtype=alike.dtype).to(alike.device) * deviation
        noisy = alike + NOISE * noise[0]
        return torch.where(noisy >= least * deviation, noisy, 0.0) + FAINT * noise[1]

    return weigh


WEIGHTS = {"linear": linear, "least squares": least_squares, "attention": attention, "sparse": sparse}
SIGNED = ("linear", "least squares")  # in which two factors may both be found as their opposites
