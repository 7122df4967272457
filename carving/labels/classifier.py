"""MultiLabelClassifier: fit, predict and score as scikit-learn does it, CSR matrices in and out."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from carving.checks import check_choice, check_integer
from carving.errors import BadValue
from carving.extras import load as load_extra
from carving.labels import fast, metrics, models
from carving.labels import recipe as best
from carving.labels.blending import Chosen, bias_of
from carving.labels.data import Dataset, check_finite
from carving.labels.estimator import Estimator
from carving.labels.heads import Head, OSCHead
from carving.labels.networks import Blend
from carving.labels.rows import Matrix, tidy
from carving.labels.scorer import Scorer, cut
from carving.labels.training import OnProgress, Settings, Trainer, split
from carving.labels.vectors import make_head

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

RECIPES = ("best", "fast")


class MultiLabelClassifier(Estimator):
    """A network with a label head. Without `settings` our recipe makes it; with them, one network is trained so.

    `recipe="best"` trains networks and rankers of what they name; `"fast"` solves or counts instead of training, in
    seconds, and is a little behind where labels hang on how words stand together.
    `head` is OSC, HLB, MAP, VTB or HRR, made with `head_options`. `validation` is the share of training points that are
    held back to choose the epoch, for one network; the recipe has its own. `checkpoints` is a folder: a fit that was
    killed goes on from there and ends with the same numbers. `on_progress` is called as it goes, with the name of a
    network, its `Progress`, and the share of its epoch that is done.

    >>> features = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 8
    >>> labels = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]] * 8
    >>> settings = Settings(trunk="linear", epochs=30, batch=8, rate=0.1)
    >>> model = MultiLabelClassifier(settings=settings).fit(features, labels)
    >>> model.predict([[0, 0, 1]], k=2).toarray()
    array([[0., 0., 1., 1.]], dtype=float32)
    """

    def __init__(
        self,
        head: str = "OSC",
        head_options: dict[str, Any] | None = None,
        settings: Settings | None = None,
        *,
        recipe: str = "best",
        epochs: int | None = None,
        validation: float = 0.0,
        seed: int = 0,
        checkpoints: str | os.PathLike[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.head = head
        self.head_options = head_options
        self.settings = settings
        self.recipe = recipe
        self.epochs = epochs
        self.validation = validation
        self.seed = seed
        self.checkpoints = checkpoints
        self.on_progress = on_progress

    # Training

    def fit(self, X: Matrix, y: Matrix) -> Self:
        """Train on features (n, F) and labels (n, L) of zeros and ones; points without labels are left out."""
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_choice("recipe", self.recipe, RECIPES)
        whole = Dataset(X, y)
        data, propensities = whole.labelled(), metrics.propensities(whole.labels)
        self.chosen_: Chosen | None = None
        if self.recipe == "fast":
            self._check_fast()
            scorer, self.chosen_ = fast.fit(data, self.seed, self.on_progress)
            settings: list[Settings] = []
        else:
            scorer, settings = self._networks(data)
        favour = 0.0 if self.chosen_ is None else self.chosen_.favour
        self._keep(scorer, settings, propensities, favour, data.features.shape[1])
        return self

    def _networks(self, data: Dataset) -> tuple[Scorer, list[Settings]]:
        """What networks and a head make of the data: by our recipe, or one of them."""
        count, options = data.labels.shape[1], self.head_options
        if options is None:
            options = best.head_options(count) if self.head == "OSC" else {}
        head = make_head(self.head, count, **(dict(seed=self.seed) | options))
        self._check_recipe(head)
        folder = None if self.checkpoints is None else Path(self.checkpoints)
        trainer = Trainer(head, self.seed, folder, self.on_progress)
        if self.settings is not None:
            return Scorer(head, self._single(data, trainer, self.settings)), [self.settings]
        scorer, self.chosen_ = best.fit(data, trainer, best.trials(data, self.epochs))
        return scorer, self.chosen_.settings

    def _check_fast(self) -> None:
        """Refuse what the fast recipe has no use for."""
        for name in ("settings", "epochs", "head_options"):
            if getattr(self, name) is not None:
                raise BadValue(f'recipe="fast" trains no network; leave {name}= out, or take recipe="best"')
        if self.head != "OSC":
            raise BadValue(
                f'recipe="fast" has no head, got {self.head}; take recipe="best" with settings=Settings(...)'
            )

    def _check_recipe(self, head: Head) -> None:
        if self.settings is not None:
            if self.epochs is not None:
                raise BadValue(f"settings= tell the epochs ({self.settings.epochs}); leave epochs={self.epochs} out")
            return
        if not isinstance(head, OSCHead):
            raise BadValue(f"the recipe is for OSC heads; train {self.head} with settings=Settings(...)")
        if self.epochs is not None:
            check_integer("epochs", self.epochs, 1)
        for wrong, what in (
            (head.trainable, "trainable=True"),
            (head.form == "components", 'form="components"'),
            (head.absolute, "absolute=True"),
        ):
            if wrong:
                raise BadValue(
                    f"the recipe's networks share one head whose scores add, got {what}; train one network with "
                    "settings=Settings(...)"
                )

    def _single(self, data: Dataset, trainer: Trainer, settings: Settings) -> Blend:
        held: Dataset | None = None
        if self.validation:
            data, held = split(data, self.validation, self.seed)
        network, self.progress_ = trainer(data, settings, "network", validation=held)
        return Blend([network], [1.0], [False])

    def _keep(
        self, scorer: Scorer, settings: list[Settings], propensities: ArrayLike, favour: float, features: int
    ) -> None:
        self.propensities_: NDArray[np.float64] = np.asarray(propensities, dtype=np.float64)
        self.favour_, self.settings_ = float(favour), settings
        self.scorer_ = replace(scorer, bias=bias_of(self.propensities_, favour))
        self.head_, self.network_ = scorer.head, None if scorer.network is None else scorer.network.eval()
        self.n_features_in_, self.n_labels_ = features, len(self.propensities_)

    @property
    def validation_(self) -> dict[str, float] | None:
        """What the validation part said of this fit; None where there was none, or where the model is of a file."""
        if self.chosen_ is not None:
            return {"nDCG@5": self.chosen_.ndcg, "PSnDCG@5": self.chosen_.psndcg}
        progress = getattr(self, "progress_", None)
        return {"nDCG@5": progress.validation[progress.best]} if progress and progress.validation else None

    # Answers

    def rank(self, X: Matrix, k: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Numbers and scores (n, k) of each point's best labels, best first; five, or all where there are fewer."""
        features = self._checked(X)
        k = min(5, self.n_labels_) if k is None else k
        check_integer("k", k, 1, self.n_labels_, f"the model has {self.n_labels_} labels")
        scores, ids = self.scorer_.top(features, k, self.n_labels_)
        return ids.numpy(), scores.numpy()

    def predict(self, X: Matrix, k: int | None = None) -> csr_matrix:
        """The k best labels of each point (five), as ones in a matrix (n, L)."""
        ids, _ = self.rank(X, k)
        return _sparse(ids, np.ones(ids.shape, np.float32), self.n_labels_)

    def decision_function(self, X: Matrix, k: int | None = None) -> NDArray[np.float32] | csr_matrix:
        """The scores of all labels as an array (n, L); with k those of the k best, as a CSR matrix."""
        if k is not None:
            return _sparse(*self.rank(X, k), self.n_labels_)
        features = self._checked(X)
        parts = cut(features.shape[0], self.n_labels_)
        return torch.cat([self.scorer_.scores(features[part]) for part in parts]).numpy()

    def score(self, X: Matrix, y: Matrix, k: int | None = None) -> float:
        """nDCG@k over the points that have labels; k is 5, or all labels where there are fewer."""
        truth = self._truth(X, y)
        ranked = self.rank(truth.features, k)[0]
        return metrics.ndcg(ranked, truth.labels, ranked.shape[1])

    def evaluate(
        self, X: Matrix, y: Matrix, ks: tuple[int, ...] | None = None, unlabelled: bool = False
    ) -> dict[str, float]:
        """P, nDCG, PSP and PSnDCG at each k (1, 3, 5); propensities are those of the training points."""
        truth = self._truth(X, y)
        ks = tuple(k for k in (1, 3, 5) if k <= self.n_labels_) if ks is None else ks
        ids, _ = self.rank(truth.features, max(ks))
        return metrics.measures(ids, truth.labels, self.propensities_, ks, unlabelled=unlabelled)

    def _checked(self, X: Matrix) -> csr_matrix:
        if not hasattr(self, "scorer_"):
            raise load_extra("sklearn.exceptions").NotFittedError(
                "the classifier is not trained yet; call fit(X, y), or MultiLabelClassifier.load(file)"
            )
        features = tidy(X, "features")
        if features.shape[1] != self.n_features_in_:
            raise BadValue(f"the model has {self.n_features_in_} features, the points have {features.shape[1]}")
        check_finite(features, "features")
        return features

    def _truth(self, X: Matrix, y: Matrix) -> Dataset:
        truth = Dataset(X, y)
        self._checked(truth.features)
        if truth.labels.shape[1] != self.n_labels_:
            raise BadValue(
                f"the model has {self.n_labels_} labels, the data {truth.labels.shape[1]}: it is of another label set"
            )
        return truth

    # Files

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model in one safetensors file; labels' codes are not in it unless they were trained.

        A label model that is there is replaced; what is something else, or read-only, only with `force`.
        """
        if not hasattr(self, "scorer_"):
            raise load_extra("sklearn.exceptions").NotFittedError("there is nothing to save before fit(X, y)")
        propensities, scorer = torch.from_numpy(self.propensities_), self.scorer_
        parts = scorer.head, self.network_, self.settings_, propensities, self.favour_, self.seed
        more = scorer.matcher, scorer.rankers, self.recipe, self.n_features_in_
        models.write(path, models.Model(self.head, *parts, *more), force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model of a file."""
        found = models.read(path)
        options = None if found.head is None else found.head.options
        model = cls(found.name, options, seed=found.seed, recipe=found.recipe)
        model.chosen_ = None
        scorer = Scorer(found.head, found.network, found.matcher, found.rankers)
        model._keep(scorer, found.settings, found.propensities.numpy(), found.favour, found.features)
        return model


def _sparse(ids: NDArray[np.int64], values: NDArray[np.float32], labels: int) -> csr_matrix:
    """A row a point, in the order of the labels."""
    order = np.argsort(ids, axis=1)
    ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
    starts = np.arange(len(ids) + 1) * ids.shape[1]
    return load_extra("scipy.sparse").csr_matrix((values.ravel(), ids.ravel(), starts), shape=(len(ids), labels))
