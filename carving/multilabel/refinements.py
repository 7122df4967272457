"""How centroids are refined: by points that they get wrong, by least squares, by coordinates that are drawn anew."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

CLOSE = 0.05  # a difference of cosines that counts as nearly wrong
NOTHING = 1e-12  # of the largest square of a singular value: rounding
RIDGES = torch.logspace(-6, 1, 29, dtype=torch.float64)  # of which the best is chosen, in mean eigenvalues


# How the classes that points seem to be of change centroids: weights of each point for its own and for the wrong class.


def adapted(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """AdaptHD: a point that is taken for another class is added to its own and taken from that one."""
    wrong = cosines.argmax(1).ne(own).to(cosines.dtype)
    return wrong, wrong


def online(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """OnlineHD: the same, by as much as it is unlike its own class, and as the other one is not sure of it."""
    wrong, there = cosines.argmax(1).ne(own).to(cosines.dtype), cosines.gather(1, own.unsqueeze(1)).squeeze(1)
    return wrong * (1 - there), wrong * (1 - cosines.amax(1))


def margin(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Like learning vector quantization: also where the nearest wrong class is nearly as near as the own one."""
    there = cosines.gather(1, own.unsqueeze(1)).squeeze(1)
    other = cosines.scatter(1, own.unsqueeze(1), -2.0).amax(1)
    close = (there - other < CLOSE).to(cosines.dtype)
    return close, close


STEPS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "adapt": adapted,
    "online": online,
    "margin": margin,
}
REFINEMENTS = (*STEPS, "ridge")


def step(cosines: Tensor, own: Tensor, refinement: str) -> Tensor:
    """How much of each point (n, classes) a class takes."""
    gained, lost = STEPS[refinement](cosines, own)
    right = own.unsqueeze(1)
    wrong = cosines.scatter(1, right, -2.0).argmax(1, keepdim=True)
    made = torch.zeros_like(cosines).scatter_(1, right, gained.unsqueeze(1))
    return made.scatter_add_(1, wrong, -lost.unsqueeze(1))


class Solution(NamedTuple):
    """Least squares, and what they foretell of every point from all others."""

    weights: Tensor  # (classes, numbers)
    foretold: Tensor  # (n, classes)


def ridge(encoded: Tensor, own: Tensor, classes: int) -> Solution:
    """The weights of least squares towards 1 for the own class and -1 for others.

    The ridge is the one with which every point is foretold best from all others, which takes no further solving.
    """
    x, wanted = encoded.double(), 2.0 * torch.nn.functional.one_hot(own, classes).double() - 1
    values, vectors = _directions(x)
    ridges = RIDGES * x.square().sum() / len(x)
    turned = vectors.mT @ wanted

    def foretold(strength: Tensor) -> Tensor:
        kept = values / (values + strength)
        fitted, leverage = vectors @ (kept.unsqueeze(1) * turned), vectors.square() @ kept
        return wanted - (wanted - fitted) / (1 - leverage).clamp_min(1e-6).unsqueeze(1)

    left = torch.stack([(wanted - foretold(strength)).square().mean() for strength in ridges])
    best = ridges[int(left.argmin())]
    weights = (vectors @ (turned / (values + best).unsqueeze(1))).mT @ x
    return Solution(weights.to(encoded.dtype), foretold(best))


def _directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """The squares (k,) of the singular values of points (n, numbers), and their left vectors (n, k).

    By the smaller of the two products that have them; of values that are nothing the vectors are nothing, too.
    """
    if len(x) <= x.shape[1]:
        values, vectors = torch.linalg.eigh(x @ x.mT)
        return values.clamp_min(0), vectors
    values, right = torch.linalg.eigh(x.mT @ x)
    there = values > NOTHING * values.amax()
    return values.clamp_min(0), x @ (right * torch.where(there, values, 1.0).rsqrt() * there)


# Which coordinates tell least: these are drawn anew


def by_variance(centroids: Tensor, encoded: Tensor, own: Tensor) -> Tensor:
    """NeuralHD: how much the classes differ in each coordinate."""
    return normalize(centroids, dim=1).var(0)


def by_distance(centroids: Tensor, encoded: Tensor, own: Tensor) -> Tensor:
    """DistHD: how much nearer points that are wrong, or nearly, are to their own class than to the one they seem of."""
    units = normalize(centroids, dim=1)
    cosines = encoded @ units.mT
    there = cosines.gather(1, own.unsqueeze(1))
    other = cosines.scatter(1, own.unsqueeze(1), -2.0)
    close = (there - other.amax(1, keepdim=True) < CLOSE).squeeze(1)
    mine, points = units[own[close]], encoded[close]
    return ((units[other.argmax(1)[close]] - points).abs() - (mine - points).abs()).sum(0)


REGENERATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "variance": by_variance,
    "distance": by_distance,
}
