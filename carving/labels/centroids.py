"""CentroidClassifier: classes as sums of encoded points, as scikit-learn does it; centroids may be refined."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import normalize

from carving.checks import check_choice, check_integer, check_number
from carving.chunks import rows_within, slices
from carving.encodings import Level, Projection, Sinusoid, Thermometer, random
from carving.errors import BadValue
from carving.extras import load as load_extra
from carving.labels.estimator import Estimator
from carving.schemes import make
from carving.schemes.vsa import VSA
from carving.structures.vectors import check_vectors
from carving.tensors import as_reals

LEVELS, ENCODINGS = ("level", "thermometer"), ("level", "thermometer", "projection", "sinusoid")
TABLE = 2**22  # numbers of bound levels that are held at a time
BATCH = 64  # points after which centroids are refined
SCALES = torch.logspace(0, 3, 121)  # of cosines, among which the probabilities' one is chosen


# How the classes that points seem to be of change centroids: weights of each point for its own and for the wrong class.


def _adapted(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """AdaptHD: a point that is taken for another class is added to its own and taken from that one."""
    wrong = cosines.argmax(1).ne(own).to(cosines.dtype)
    return wrong, wrong


def _online(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """OnlineHD: the same, by as much as it is unlike its own class, and as the other one is not sure of it."""
    wrong, there = cosines.argmax(1).ne(own).to(cosines.dtype), cosines.gather(1, own.unsqueeze(1)).squeeze(1)
    return wrong * (1 - there), wrong * (1 - cosines.amax(1))


def _margin(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Like learning vector quantisation: also where the nearest wrong class is nearly as near as the own one."""
    there = cosines.gather(1, own.unsqueeze(1)).squeeze(1)
    other = cosines.scatter(1, own.unsqueeze(1), -2.0).amax(1)
    close = (there - other < 0.05).to(cosines.dtype)
    return close, close


REFINEMENTS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "adapt": _adapted,
    "online": _online,
    "margin": _margin,
}


class CentroidClassifier(Estimator):
    """Points are encoded as vectors of an architecture, a class is the sum of its points, and the nearest class wins.

    `encoding` is "level" or "thermometer" (a record of numbers from each feature's least to its largest, in `levels`
    steps; what lies outside takes the end), "projection" or "sinusoid" (of standardised features; `bandwidth` is by
    default the root of their number), or a function of tensors (n, features). `refinement` goes over the points
    `epochs` times: "adapt" (AdaptHD), "online" (OnlineHD) or "margin" (also points that are nearly wrong), by steps of
    `rate`. All randomness comes from the seed, the same for ever.

    >>> from sklearn.datasets import load_iris
    >>> flowers = load_iris()
    >>> model = CentroidClassifier("MAP-I", d=2048, encoding="sinusoid", refinement="online")
    >>> model.fit(flowers.data[::2], flowers.target[::2]).score(flowers.data[1::2], flowers.target[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        scheme: str | VSA = "MAP-I",
        d: int = 4096,
        encoding: str | Callable[[Tensor], Tensor] = "level",
        refinement: str | None = None,
        *,
        levels: int = 33,
        bandwidth: float | None = None,
        epochs: int = 20,
        rate: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.scheme, self.d, self.encoding, self.refinement = scheme, d, encoding, refinement
        self.levels, self.bandwidth, self.epochs, self.rate, self.seed = levels, bandwidth, epochs, rate, seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points (n, features) and their classes (n,)."""
        points, names = load_extra("sklearn.utils.validation").check_X_y(X, y, dtype=np.float64)
        load_extra("sklearn.utils.multiclass").check_classification_targets(names)
        self._begin(points, np.unique(names))
        encoded, own = self._encoded(points), numbered(names, self.classes_)
        self._add(encoded, own)
        for _ in range(check_integer("epochs", self.epochs, 0) if self.refinement else 0):
            if not self._refine(encoded, own):
                break
        self._calibrate(encoded, own)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Sequence[Any] | None = None) -> Self:
        """Learn from some points more. The first call needs all classes, and its points tell the features' ranges."""
        points, names = load_extra("sklearn.utils.validation").check_X_y(X, y, dtype=np.float64)
        if hasattr(self, "centroids_"):
            self._check_features(points)
            own = numbered(names, self.classes_)
        elif classes is None:
            raise BadValue("the first partial_fit needs to know all classes; give classes=[...]")
        else:
            own = numbered(names, np.unique(classes))
            self._begin(points, np.unique(classes))
        encoded = self._encoded(points)
        self._add(encoded, own)
        if self.refinement:
            self._refine(encoded, own)
        self._calibrate(encoded, own)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The cosines (n, classes) of points and centroids."""
        return self._cosines(self._encoded(self._checked(X))).double().numpy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each point."""
        cosines = self.decision_function(X)
        return self.classes_[cosines.argmax(1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """How probable the classes (n, classes) are: a softmax of cosines whose scale fits the points learned from."""
        cosines = torch.from_numpy(self.decision_function(X))
        return torch.softmax(cosines * self.scale_, 1).numpy()

    # Steps

    def _begin(self, points: NDArray[np.float64], classes: NDArray[Any]) -> None:
        scheme = make(self.scheme, d=self.d, seed=self.seed) if isinstance(self.scheme, str) else self.scheme
        vsa = check_vectors(scheme)
        if isinstance(self.encoding, str):
            check_choice("encoding", self.encoding, ENCODINGS)
        if self.refinement is not None:
            check_choice("refinement", self.refinement, tuple(REFINEMENTS))
        if len(classes) < 2:
            raise BadValue(f"there must be two classes at least, got {len(classes)}")
        check_number("rate", self.rate)
        self.scheme_, self.classes_, self.n_features_in_ = vsa, classes, points.shape[1]
        self._low, self._width = points.min(0), np.maximum(np.ptp(points, 0), 1e-12)
        self._mean, self._deviation = points.mean(0), np.maximum(points.std(0), 1e-12)
        self._code = self._encoder()
        self.centroids_ = torch.zeros(len(classes), self.scheme_.facts.memory_scalars, dtype=self.scheme_.dtype)

    def _encoder(self) -> Callable[[Tensor], Tensor]:
        """What encodes points (n, features), as they are scaled."""
        if not isinstance(self.encoding, str):
            return self.encoding
        scheme, features = self.scheme_, self.n_features_in_
        if self.encoding in LEVELS:
            count = check_integer("levels", self.levels, 2)
            numbers = (Level if self.encoding == "level" else Thermometer)(scheme, 0, count - 1, label="classifier")
            return Leveled(scheme, numbers(torch.arange(count)), random(scheme, features, label="features"))
        if self.encoding == "projection":
            return Projection(scheme, features, label="classifier")
        bandwidth = features**0.5 if self.bandwidth is None else self.bandwidth
        return Sinusoid(scheme, features, bandwidth=bandwidth, label="classifier")

    def _encoded(self, points: NDArray[np.float64]) -> Tensor:
        """Unit vectors (n, real numbers) of points."""
        if self.encoding in LEVELS:
            shares = ((points - self._low) / self._width).clip(0, 1)
            given = torch.from_numpy(np.floor(shares * (self.levels - 1) + 0.5)).long()
        elif isinstance(self.encoding, str):
            given = torch.from_numpy((points - self._mean) / self._deviation)
        else:
            given = torch.from_numpy(points)
        with torch.no_grad():
            vectors = self.scheme_.picture(self._code(given))
            return normalize(as_reals(vectors, len(self.scheme_.facts.memory_shape)), dim=1)

    def _add(self, encoded: Tensor, own: Tensor) -> None:
        self.centroids_ = self.centroids_.index_add(0, own, encoded)

    def _refine(self, encoded: Tensor, own: Tensor) -> bool:
        """Go over the points once; whether that changed anything."""
        changed, weigh = False, REFINEMENTS[str(self.refinement)]
        for rows in slices(len(encoded), BATCH):
            part, right = encoded[rows], own[rows]
            cosines = self._cosines(part)
            gained, lost = weigh(cosines, right)
            wrong = cosines.scatter(1, right.unsqueeze(1), -2.0).argmax(1)
            step = torch.zeros_like(cosines)
            step.scatter_(1, right.unsqueeze(1), gained.unsqueeze(1)).scatter_add_(
                1, wrong.unsqueeze(1), -lost.unsqueeze(1)
            )
            self.centroids_ = self.centroids_ + self.rate * step.mT @ part
            changed = changed or bool(step.any())
        return changed

    def _cosines(self, encoded: Tensor) -> Tensor:
        return encoded @ normalize(self.centroids_, dim=1).mT

    def _calibrate(self, encoded: Tensor, own: Tensor) -> None:
        """Choose the scale of cosines that makes the classes of these points most probable."""
        cosines = self._cosines(encoded).double()
        losses = [torch.nn.functional.cross_entropy(scale * cosines, own) for scale in SCALES.double()]
        self.scale_ = float(SCALES[int(torch.stack(losses).argmin())])

    def _checked(self, X: ArrayLike) -> NDArray[np.float64]:
        if not hasattr(self, "centroids_"):
            raise load_extra("sklearn.exceptions").NotFittedError("the classifier is not trained yet; call fit(X, y)")
        points: NDArray[np.float64] = load_extra("sklearn.utils.validation").check_array(X, dtype=np.float64)
        self._check_features(points)
        return points

    def _check_features(self, points: NDArray[np.float64]) -> None:
        if points.shape[1] != self.n_features_in_:
            raise BadValue(f"the model has {self.n_features_in_} features, the points have {points.shape[1]}")


def numbered(names: NDArray[Any], classes: NDArray[Any]) -> Tensor:
    """The numbers of names among the classes, which are in order."""
    places = np.searchsorted(classes, names).clip(0, len(classes) - 1)
    unknown = names[classes[places] != names]
    if len(unknown):
        raise BadValue(f"{unknown[0]!r} is none of the classes that were given; the first call names all of them")
    return torch.from_numpy(places)


class Leveled:
    """Bundles of each feature's level, bound with its role: levels are bound once, and points are sums of rows."""

    def __init__(self, scheme: VSA, levels: Tensor, roles: Tensor) -> None:
        self.scheme, self.levels, self.roles = scheme, levels, roles

    def __call__(self, numbers: Tensor) -> Tensor:
        """Bundles (n, shape) of the numbers (n, features) of levels."""
        scheme, count = self.scheme, len(self.levels)
        shape, scalars = scheme.facts.memory_shape, scheme.facts.memory_scalars
        total = torch.zeros(len(numbers), scalars, dtype=scheme.dtype)
        for part in slices(len(self.roles), rows_within(TABLE, count * scalars)):
            bound = scheme.picture(scheme.bind(self.levels, self.roles[part].unsqueeze(1)))
            table = as_reals(bound, len(shape)).flatten(0, 1)
            rows = numbers[:, part] + count * torch.arange(part.stop - part.start)
            total += torch.nn.functional.embedding_bag(rows, table, mode="sum")
        sums = torch.view_as_complex(total.unflatten(1, (-1, 2))) if scheme.facts.memory_dtype.is_complex else total
        return scheme.bundle(sums.view(len(numbers), 1, *shape))
