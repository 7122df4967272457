"""CentroidClassifier: hyperdimensional classification by class centroids, with the interface of scikit-learn."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import normalize

from carving.errors import BadType, BadValue
from carving.estimator import Estimator
from carving.hdc.encoders import ENCODINGS, LEVELS, Encoder, encode_vectors, encoder, scheme_of
from carving.optional import load as load_extra
from carving.schemes.base import Scheme
from carving.schemes.vsa import VSA
from carving.tiling import slices
from carving.validate import check_choice, check_integer, check_positive

REFINED_BATCH = 64  # points after which centroids are refined
REGENERATION_COUNT, REGENERATED_SHARE = 4, 0.1  # how often coordinates are drawn anew, and the share of them
ROUNDING = 1e-14  # relative: smaller differences count as rounding
SCALES = torch.logspace(0, 3, 121)  # of cosines, among which the probabilities' one is chosen
CLOSE_COSINES = 0.05  # a difference of cosines that counts as nearly wrong
ZERO_SHARE = 1e-12  # of the largest square of a singular value: rounding
RIDGES = torch.logspace(-6, 1, 29, dtype=torch.float64)  # of which the best is chosen, in mean eigenvalues
REFINEMENTS = ("adapt", "online", "margin", "ridge")  # all but the last in passes over the points


def rivals(cosines: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cosine (n, 1) of each point to its class, the largest cosine to another class, and that class."""
    right = own.unsqueeze(1)
    return cosines.gather(1, right), *cosines.scatter(1, right, -2.0).max(1, keepdim=True)


def updates(cosines: Tensor, own: Tensor, refinement: str) -> Tensor:
    """Return the weight (n, classes) by which each point is added to each centroid.

    A misclassified point is added to its class and subtracted from the wrong one: whole (AdaptHD), or by its distances
    to both classes (OnlineHD). "margin" also moves nearly misclassified points, as in learning vector quantization.
    """
    right, (there, other, rival) = own.unsqueeze(1), rivals(cosines, own)
    moved = there - other < CLOSE_COSINES if refinement == "margin" else cosines.argmax(1, keepdim=True) != right
    gained = lost = moved.to(cosines.dtype)
    if refinement == "online":
        gained, lost = gained * (1 - there), lost * (1 - other)
    return torch.zeros_like(cosines).scatter_(1, right, gained).scatter_add_(1, rival, -lost)


def ridge(encoded: Tensor, own: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the weights (classes, numbers) of ridge regression, and its leave-one-out predictions (n, classes).

    The targets are 1 for the class of a point and -1 for others. The ridge has the smallest leave-one-out error, which
    is known in closed form.
    """
    x, wanted = encoded.double(), 2.0 * torch.nn.functional.one_hot(own, classes).double() - 1
    values, vectors = _directions(x)
    ridges = RIDGES * x.square().sum() / len(x)
    turned = vectors.mT @ wanted

    def predicted(strength: Tensor) -> Tensor:
        kept = values / (values + strength)
        fitted, leverage = vectors @ (kept.unsqueeze(1) * turned), vectors.square() @ kept
        return wanted - (wanted - fitted) / (1 - leverage).clamp_min(1e-6).unsqueeze(1)

    left = torch.stack([(wanted - predicted(strength)).square().mean() for strength in ridges])
    best = ridges[int(left.argmin())]
    weights = (vectors @ (turned / (values + best).unsqueeze(1))).mT @ x
    return weights.to(encoded.dtype), predicted(best)


def _directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared singular values (k,) of points (n, numbers) and their left singular vectors (n, k).

    They are computed from the smaller Gram matrix; the vectors of singular values of zero are zero.
    """
    if len(x) <= x.shape[1]:
        values, vectors = torch.linalg.eigh(x @ x.mT)
        return values.clamp_min(0), vectors
    values, right = torch.linalg.eigh(x.mT @ x)
    there = values > ZERO_SHARE * values.amax()
    return values.clamp_min(0), x @ (right * torch.where(there, values, 1.0).rsqrt() * there)


# Which coordinates tell least: these are drawn anew


def by_variance(centroids: Tensor, encoded: Tensor, own: Tensor) -> Tensor:
    """Return the variance between classes of each coordinate (NeuralHD)."""
    return normalize(centroids, dim=1).var(0)


def by_distance(centroids: Tensor, encoded: Tensor, own: Tensor) -> Tensor:
    """Return how much nearer (nearly) misclassified points are to their own class, by coordinate (DistHD)."""
    units = normalize(centroids, dim=1)
    there, other, rival = (each.squeeze(1) for each in rivals(encoded @ units.mT, own))
    close = there - other < CLOSE_COSINES
    points = encoded[close]
    return ((units[rival[close]] - points).abs() - (units[own[close]] - points).abs()).sum(0)


REGENERATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "variance": by_variance,
    "distance": by_distance,
}


class CentroidClassifier(Estimator):
    """Hyperdimensional classifier: a class is the sum of its encoded points, and the nearest class wins.

    All randomness comes from `seed`.

    Args:
        scheme: A scheme, or the name of one. "MAP-B" binarizes records, which mostly separates classes a little better
            than the raw sums of "MAP-I".
        d: Real numbers of a vector; of a memory for OSC and TPR. Used if `scheme` is a name.
        encoding: "level" or "thermometer" (records of quantized features, between the minimum and the maximum of each
            in the training set), "projection" or "sinusoid" (of standardized features), or a function of tensors
            (n, features) that returns vectors.
        refinement: How centroids are refined: "adapt" (AdaptHD), "online" (OnlineHD), "margin" (updates for points that
            are nearly misclassified, too), "ridge" (ridge regression, as IntRVFL), or None.
        levels: Quantization levels of "level" and "thermometer".
        bandwidth: Bandwidth of "sinusoid"; None: the square root of the number of features.
        epochs: Passes over the points of "adapt", "online" and "margin".
        learning_rate: Learning rate of these.
        regeneration: Redraw the least informative coordinates during refinement: by "variance" between classes
            (NeuralHD) or by "distance" of misclassified points (DistHD); None never does.
        quantize: Compare with the signs of the centroids (QuantHD).
        seed: Seed of the vectors, if `scheme` is a name.

    After `fit`, `classes_` has the classes, sorted, `centroids_` (classes, numbers) the centroids (for "ridge" the
    weights of the regression), and `scheme_` the scheme.

    >>> from sklearn.datasets import load_iris
    >>> flowers = load_iris()
    >>> model = CentroidClassifier("MAP-I", d=2048, encoding="sinusoid", refinement="online")
    >>> model.fit(flowers.data[::2], flowers.target[::2]).score(flowers.data[1::2], flowers.target[1::2]) > 0.9
    True
    """

    centroids_: Tensor

    def __init__(
        self,
        scheme: str | Scheme = "MAP-B",
        d: int = 4096,
        encoding: str | Callable[[Tensor], Tensor] = "level",
        refinement: str | None = None,
        *,
        levels: int = 33,
        bandwidth: float | None = None,
        epochs: int = 20,
        learning_rate: float = 1.0,
        regeneration: str | None = None,
        quantize: bool = False,
        seed: int = 0,
    ) -> None:
        self.scheme, self.d, self.encoding, self.refinement = scheme, d, encoding, refinement
        self.levels, self.bandwidth, self.quantize, self.seed = levels, bandwidth, quantize, seed
        self.epochs, self.learning_rate, self.regeneration = epochs, learning_rate, regeneration

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points and their classes.

        Args:
            X: Points (n, features).
            y: Classes (n,), at least two of them.

        Returns:
            The classifier.
        """
        points, names = load_extra("sklearn.utils.validation").validate_data(self, X, y, dtype=np.float64)
        load_extra("sklearn.utils.multiclass").check_classification_targets(names)
        self._begin(points, np.unique(names))
        own = numbered(names, self.classes_)
        predicted = self._learned(points, own)
        later = every_fifth(own)
        if self.refinement in (None, "ridge") or not len(later):
            self._calibrate(predicted, own)
            return self
        # Refined centroids go over their points many times: others tell how sure they are.
        part, rest = copy.copy(self), np.setdiff1d(np.arange(len(own)), later)
        part._begin(points[rest], self.classes_)
        part._learned(points[rest], own[rest])
        self._calibrate(part._cosines(part._encoded(points[later])), own[later])
        return self

    def _learned(self, points: NDArray[np.float64], own: Tensor) -> Tensor:
        """Learn from points; return cosines (n, classes), of held-out predictions where they are known."""
        encoded = self._encoded(points)
        self.centroids_ = self.centroids_.index_add(0, own, encoded)
        if self.refinement == "ridge":
            self.centroids_, predicted = ridge(encoded, own, len(self.classes_))
            return predicted
        if self.refinement:
            return self._cosines(self._refined(points, encoded, own))
        return self._without_itself(encoded, own)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Sequence[Any] | None = None) -> Self:
        """Learn from additional points.

        The first call sets the ranges of the features, and needs `classes`. Not available with "ridge" and
        regeneration.

        Args:
            X: Points (n, features).
            y: Classes (n,).
            classes: All classes; needed in the first call only.

        Returns:
            The classifier.
        """
        begun = hasattr(self, "centroids_")
        check = load_extra("sklearn.utils.validation").validate_data
        points, names = check(self, X, y, dtype=np.float64, reset=not begun)
        if self.refinement == "ridge" or self.regeneration:
            raise BadValue(
                "partial_fit() does not support refinement='ridge' or regeneration, which need all points at once. "
                "Use fit(X, y), or refinement='online' without regeneration."
            )
        known = self.classes_ if begun else classes
        if known is None:
            raise BadValue("The first call of partial_fit() needs classes, a list of all classes.")
        known = np.unique(known)
        own = numbered(names, known)
        if not begun:
            self._begin(points, known)
        encoded = self._encoded(points)
        predicted = self._cosines(encoded)  # before they are learned from
        self.centroids_ = self.centroids_.index_add(0, own, encoded)
        self._calibrate(predicted if begun else self._without_itself(encoded, own), own)
        if self.refinement:
            self._refine(encoded, own)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the cosine of each point to each centroid, (n, classes).

        With two classes return the difference (n,): positive if the second class is nearer.
        """
        cosines = self._asked(X).numpy()
        return cosines[:, 1] - cosines[:, 0] if len(self.classes_) == 2 else cosines

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each point, (n,)."""
        best = self._asked(X).argmax(1).numpy()
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class, (n, classes): a softmax of scaled cosines.

        The scale is calibrated on the training points by predictions that did not use them: leave-one-out for sums and
        ridge regression, a validation set of every fifth point of a class for refined centroids, and in `partial_fit`
        the predictions before each update.
        """
        return torch.softmax(self._asked(X) * self.scale_, 1).numpy()

    # Steps

    def _begin(self, points: NDArray[np.float64], classes: NDArray[Any]) -> None:
        if len(classes) < 2:
            raise BadValue("y must have at least two classes, got one class.")
        scheme = scheme_of(self.scheme, self.d, self.seed) if isinstance(self.scheme, str) else self.scheme
        if not isinstance(scheme, Scheme):
            raise BadType(f"scheme must be a scheme, such as make('HRR', d=4096), or the name of one, got {scheme!r}.")
        self._check_settings(scheme)
        self.scheme_, self.classes_ = scheme, classes
        self._low, width = np.zeros(points.shape[1]), np.ones(points.shape[1])
        if self.encoding in LEVELS:
            self._low, width = points.min(0), np.ptp(points, 0)
        elif isinstance(self.encoding, str):
            self._low, width = points.mean(0), points.std(0)
        self._width = np.where(width > ROUNDING * np.abs(points).max(0), width, 1.0)  # constant features: 1
        self._codes, numbers = [self._encoder()], scheme.facts.memory_scalars
        self._taken = torch.zeros(numbers, dtype=torch.int64)  # of which code each coordinate is
        self.centroids_ = torch.zeros(len(classes), numbers, dtype=scheme.dtype)
        self._losses = torch.zeros(len(SCALES), dtype=torch.float64)  # of all points, by the scale of cosines

    def _check_settings(self, scheme: Scheme) -> None:
        if isinstance(self.encoding, str):
            check_choice("encoding", self.encoding, ENCODINGS)
        elif self.regeneration or not isinstance(scheme, VSA):
            raise BadValue(
                "encoding must be a name with regeneration, or with a scheme that is not a vector symbolic "
                f"architecture: one of {', '.join(ENCODINGS)}."
            )
        check_choice("refinement", self.refinement, (None, *REFINEMENTS))
        check_choice("regeneration", self.regeneration, (None, *REGENERATIONS))
        if self.regeneration and self.refinement in (None, "ridge"):
            raise BadValue(f"regeneration needs refinement='adapt', 'online' or 'margin', got {self.refinement!r}.")
        check_positive("learning_rate", self.learning_rate, "Usual: 1.")
        if self.quantize and self.refinement == "ridge":
            raise BadValue(
                "quantize=True does not work with refinement='ridge': the signs of least-squares weights do not "
                "solve the regression. Use refinement='adapt', 'online' or 'margin', or quantize=False."
            )

    def _encoder(self, generation: int = 0) -> Encoder:
        """Return the encoder of scaled points (n, features)."""
        if not isinstance(self.encoding, str):
            assert isinstance(self.scheme_, VSA)
            return partial(encode_vectors, self.scheme_, self.encoding)
        features, levels = len(self._low), check_integer("levels", self.levels, 2)
        bandwidth = features**0.5 if self.bandwidth is None else self.bandwidth
        return encoder(self.scheme_, self.encoding, features, bandwidth, levels, generation)

    def _encoded(self, points: NDArray[np.float64]) -> Tensor:
        """Return points encoded as unit vectors (n, numbers)."""
        given = torch.from_numpy((points - self._low) / self._width)
        if self.encoding in LEVELS:
            given = (given.clamp(0, 1) * (self.levels - 1) + 0.5).floor().long()
        with torch.no_grad():
            vectors = self._codes[0](given)
            for generation, code in enumerate(self._codes[1:], start=1):
                taken = self._taken == generation
                vectors[:, taken] = code(given)[:, taken]
            return normalize(vectors, dim=1)

    def _refined(self, points: NDArray[np.float64], encoded: Tensor, own: Tensor) -> Tensor:
        """Refine the centroids until nothing changes, regenerating coordinates; return the encoded points."""
        epochs, generations = check_integer("epochs", self.epochs, 0), REGENERATION_COUNT if self.regeneration else 0
        anew = [epochs * part // (generations + 1) for part in range(1, generations + 1)]
        for epoch in range(epochs):
            if epoch and epoch in anew:
                encoded = self._regenerated(points, encoded, own)
            elif not self._refine(encoded, own) and epoch >= max(anew, default=0):
                break
        return encoded

    def _refine(self, encoded: Tensor, own: Tensor) -> bool:
        """Refine the centroids by one pass over the points; return whether anything changed."""
        changed = False
        for rows in slices(len(encoded), REFINED_BATCH):
            part, right = encoded[rows], own[rows]
            made = updates(self._cosines(part), right, str(self.refinement))
            self.centroids_ = self.centroids_ + self.learning_rate * made.mT @ part
            changed = changed or bool(made.any())
        return changed

    def _regenerated(self, points: NDArray[np.float64], encoded: Tensor, own: Tensor) -> Tensor:
        """Redraw the least informative coordinates; return the encoded points."""
        telling = REGENERATIONS[str(self.regeneration)](self.centroids_, encoded, own)
        least = telling.topk(max(1, int(REGENERATED_SHARE * len(telling))), largest=False).indices
        self._codes.append(self._encoder(len(self._codes)))
        self._taken[least] = len(self._codes) - 1
        again = self._encoded(points)
        self.centroids_[:, least] = 0.0
        self.centroids_[:, least] = self.centroids_[:, least].index_add(0, own, again[:, least])
        return again

    def _cosines(self, encoded: Tensor) -> Tensor:
        centroids = self.centroids_.to(encoded.dtype)
        if self.refinement == "ridge":
            return encoded @ centroids.mT
        return encoded @ normalize(centroids.sign() if self.quantize else centroids, dim=1).mT

    def _without_itself(self, encoded: Tensor, own: Tensor) -> Tensor:
        """Return leave-one-out cosines: each point is subtracted from the centroid of its class."""
        cosines = self._cosines(encoded)
        if self.quantize:
            return cosines
        inner, energy = (encoded * self.centroids_[own]).sum(1), self.centroids_.square().sum(1)[own]
        alone = (inner - 1) / (energy - 2 * inner + 1).clamp_min(1e-6).sqrt()  # points are unit vectors
        return cosines.scatter(1, own.unsqueeze(1), alone.unsqueeze(1))

    def _calibrate(self, cosines: Tensor, own: Tensor) -> None:
        """Choose the scale of cosines with the smallest cross-entropy of all calibration points."""
        scaled = SCALES.double().view(-1, 1, 1) * cosines.double()
        losses = torch.nn.functional.cross_entropy(scaled.flatten(0, 1), own.repeat(len(SCALES)), reduction="none")
        self._losses = self._losses + losses.view(len(SCALES), -1).sum(1)
        self.scale_ = float(SCALES[int(self._losses.argmin())])

    def _asked(self, X: ArrayLike) -> Tensor:
        """Return cosines in double precision, so that a prediction does not depend on the other points."""
        validation = load_extra("sklearn.utils.validation")
        validation.check_is_fitted(self, "centroids_")
        checked = validation.validate_data(self, X, dtype=np.float64, reset=False)
        return self._cosines(self._encoded(checked).double())


def every_fifth(own: Tensor) -> NDArray[np.int64]:
    """Return the rows of every fifth point of each class."""
    rows = [torch.nonzero(own == number).squeeze(1)[4::5] for number in own.unique()]
    return torch.cat(rows).sort().values.numpy()


def numbered(names: NDArray[Any], classes: NDArray[Any]) -> Tensor:
    """Return the index of each name in the sorted classes; refuse unknown ones."""
    places = np.searchsorted(classes, names).clip(0, len(classes) - 1)
    unknown = names[classes[places] != names]
    if len(unknown):
        raise BadValue(
            f"y contains {unknown.tolist()[0]!r}, which is not one of the classes passed to the first call of "
            "partial_fit()."
        )
    return torch.from_numpy(places)
