"""MultiLabelClassifier: extreme multi-label classification with the interface of scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from carving.console import SafeConsole
from carving.errors import BadType, BadValue
from carving.multilabel import fast, metrics, models
from carving.multilabel import recipe as best
from carving.multilabel.bars import bars
from carving.multilabel.blending import Chosen, bias_of
from carving.multilabel.data import Dataset, check_finite
from carving.multilabel.heads import Head
from carving.multilabel.keeping import Kept
from carving.multilabel.networks import Blend
from carving.multilabel.osc import OSCHead
from carving.multilabel.parameters import MultiLabelEstimator
from carving.multilabel.rows import Matrix, tidy
from carving.multilabel.scorer import Scorer, cut
from carving.multilabel.targets import Answer, Label, LabelFormat, Labels
from carving.multilabel.thresholds import BEST, Calibration, Held, rarity, spread_of
from carving.multilabel.training import OnProgress, Settings, Trainer, split
from carving.multilabel.vectors import make_head
from carving.multilabel.words import TextVectorizer, is_texts
from carving.optional import load as load_extra
from carving.validate import check_choice, check_integer, check_number

Points: TypeAlias = "Matrix | Sequence[str]"  # features, or texts

FIRST = 32  # labels of a point that are looked at first, where the threshold decides
FEWEST = 20  # labeled points below which one network holds none of them back

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

RECIPES = ("best", "fast")


class MultiLabelClassifier(MultiLabelEstimator):
    """Multi-label classifier for very many labels, with the interface of scikit-learn.

    Without `settings` it is trained by a recipe, which chooses networks and their hyperparameters on a validation set.
    With `settings`, one network with a label head is trained as they say.

    Args:
        head: The label head: "OSC", "HLB", "MAP", "VTB" or "HRR". The recipes use OSC.
        head_options: Arguments of the head, such as `{"d": 300}`; None chooses them.
        settings: How to train one network; None uses the recipe.
        recipe: "best" trains an ensemble of networks, a linear scorer and rerankers. With at most 4,096 features and at
            least 2,000 points it then distills them into one small network (`chosen_.student`), unless that is worse.
            "fast" solves for linear weights instead of training networks: it takes seconds, and is a little less
            accurate where labels depend on combinations of words.
        epochs: Epochs of the recipe's networks; None chooses them.
        validation: Share of the training points in the validation set of one network, which chooses its epoch and its
            threshold. Below 20 points no validation set is split off. With 0 the threshold is chosen on training
            points, and probabilities are too high. The recipe chooses its own share.
        rerank_min_count: Train a reranker for each label of at least this many points; None trains none.
        seed: Seed of all random numbers.
        checkpoints: Folder of checkpoints. A fit that was interrupted resumes from them, with the same result.
        on_progress: Called during training with the name of a network, its `Progress` and the share of the current
            epoch that is done.
        verbose: 1 shows progress bars.

    After `fit`, `classes_` (L,) has the names of the labels (their indices if labels came as a matrix), and
    `propensities_` (L,) their propensities.

    >>> features = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 8
    >>> labels = [["sun"], ["sea"], ["snow", "ski"], ["sea", "sun"]] * 8  # or an array or CSR matrix of zeros and ones
    >>> settings = Settings(architecture="linear", epochs=30, batch_size=8, learning_rate=0.1)
    >>> model = MultiLabelClassifier(settings=settings).fit(features, labels)
    >>> model.predict([[0, 0, 1], [1, 1, 0]])
    [('ski', 'snow'), ('sea', 'sun')]
    >>> model.predict([[1, 0, 0]], top_k=1)
    [('sun',)]
    """

    def __init__(
        self,
        head: str = "OSC",
        head_options: dict[str, Any] | None = None,
        settings: Settings | None = None,
        *,
        recipe: str = "best",
        epochs: int | None = None,
        validation: float = 0.15,
        rerank_min_count: int | None = 1,
        seed: int = 0,
        checkpoints: str | os.PathLike[str] | None = None,
        on_progress: OnProgress | None = None,
        verbose: int = 0,
    ) -> None:
        self.head = head
        self.head_options = head_options
        self.settings = settings
        self.recipe = recipe
        self.epochs = epochs
        self.validation = validation
        self.rerank_min_count = rerank_min_count
        self.seed = seed
        self.checkpoints = checkpoints
        self.on_progress = on_progress
        self.verbose = verbose

    # Training

    def fit(self, X: Points, y: Labels, **weights: object) -> Self:
        """Train on points and their labels.

        Points without labels are allowed: an additional null label is learned for them, which predictions never
        contain. If training fails, the classifier stays as it was.

        Args:
            X: Features (n, F), dense or sparse, or n texts.
            y: Labels: zeros and ones (n, L), dense or sparse, or a list of labels (strings or integers) for each point.
            **weights: Not supported: `sample_weight` and the like raise BadType.

        Returns:
            The classifier.

        Raises:
            BadValue: If X, y or the parameters are invalid.
        """
        _refuse(weights)
        check_integer("seed", self.seed, 0, 2**63 - 1)
        check_choice("recipe", self.recipe, RECIPES)
        if self.rerank_min_count is not None:
            check_integer("rerank_min_count", self.rerank_min_count, 1, way_out="None trains no rerankers.")
        if not isinstance(self.settings, Settings | None):
            raise BadType(f"settings must be a Settings object or None, got {self.settings!r}.")
        before = dict(vars(self))
        try:
            self._fit(X, y)
        except BaseException:  # what was fitted before stays as it was
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _fit(self, X: Points, y: Labels) -> None:
        words: TextVectorizer | None = None
        if is_texts(X):
            words = TextVectorizer.fitted(X)
            X = words(X)
        features = self._features(X, reset=True)
        form, labels = LabelFormat.of(y)
        whole = Dataset(features=features, labels=labels)
        with self._shown() as on_progress:
            held = self._trained(whole, on_progress)
        self._remember(form, words)
        self.calibration_ = Calibration.fitted(held, self.propensities_)

    def _trained(self, whole: Dataset, on_progress: OnProgress | None) -> Held:
        """Train, and what was said of the points that were held back."""
        nothing, propensities = len(whole.labeled()) < len(whole), metrics.propensities(whole.labels)
        data = whole.with_null_label() if nothing else whole
        self.chosen_: Chosen | None = None
        self.head_options_: dict[str, Any] | None = None
        if self.recipe == "fast":
            self._check_fast()
            scorer, self.chosen_ = fast.fit(data, self.seed, on_progress, self.rerank_min_count)
            settings, held = list[Settings](), self.chosen_.held
        else:
            scorer, settings, held = self._networks(data, on_progress)
        tail_bias = 0.0 if self.chosen_ is None else self.chosen_.tail_bias
        self._keep(replace(scorer, nothing=nothing), settings, propensities, tail_bias, data.features.shape[1])
        assert held is not None
        return held.without_last() if nothing else held

    def _networks(self, data: Dataset, on_progress: OnProgress | None) -> tuple[Scorer, list[Settings], Held | None]:
        """What networks and a head make of the data: by the recipe, or one of them."""
        count, options = data.labels.shape[1], self.head_options
        if options is None:
            options = best.head_options(count) if self.head == "OSC" else {}
        head = make_head(self.head, count, **(dict(seed=self.seed) | options))
        self._check_recipe(head)
        self.head_options_ = None if self.head_options is None else head.options
        folder = None if self.checkpoints is None else Path(self.checkpoints)
        trainer = Trainer(head, self.seed, folder, on_progress)
        if self.settings is not None:
            scorer, held = self._single(data, trainer, self.settings)
            return scorer, [self.settings], held
        scorer, self.chosen_ = best.fit(data, trainer, best.trials(data, self.epochs), self.rerank_min_count)
        return scorer, [] if scorer.network is None else self.chosen_.settings, self.chosen_.held

    def _check_fast(self) -> None:
        """Refuse what the fast recipe has no use for."""
        for name in ("settings", "epochs", "head_options"):
            if getattr(self, name) is not None:
                raise BadValue(
                    f'{name} does not apply to recipe="fast", which trains no network. Use recipe="best", or omit it.'
                )
        if self.head != "OSC":
            raise BadValue(
                f'head={self.head!r} does not apply to recipe="fast", which has no head. Use recipe="best" with '
                "settings=Settings(...)."
            )

    def _shown(self) -> AbstractContextManager[OnProgress | None]:
        """Who watches: whoever `on_progress` is, or a bar."""
        if self.on_progress is not None or not self.verbose:
            return nullcontext(self.on_progress)
        return bars(SafeConsole(stderr=True, highlight=False))

    def _check_recipe(self, head: Head) -> None:
        if self.settings is not None:
            if self.epochs is not None:
                raise BadValue(
                    f"epochs={self.epochs} conflicts with settings.epochs={self.settings.epochs}. Pass only one."
                )
            return
        if not isinstance(head, OSCHead):
            raise BadValue(
                f"The recipe trains OSC heads only, got head={self.head!r}. Pass settings=Settings(...) to train one "
                "network."
            )
        if self.epochs is not None:
            check_integer("epochs", self.epochs, 1)
        for wrong, what in (
            (head.trainable, "trainable=True"),
            (head.form == "components", 'form="components"'),
            (head.absolute, "absolute=True"),
        ):
            if wrong:
                raise BadValue(
                    f"head_options with {what} do not work with the recipe: its networks share one head whose scores "
                    "must add. Pass settings=Settings(...) to train one network."
                )

    def _single(self, data: Dataset, trainer: Trainer, settings: Settings) -> tuple[Scorer, Held]:
        rest: Dataset | None = None
        if self.validation and len(data) >= FEWEST:
            data, rest = split(data, self.validation, self.seed)
        elif settings.patience is not None and self.validation:
            settings = replace(settings, patience=None)
        network, self.progress_ = trainer(data, settings, "network", validation=rest)
        scorer = Scorer(head=trainer.head, network=Blend([network], [1.0], [False]))
        return scorer, scorer.held(data if rest is None else rest)

    def _keep(
        self, scorer: Scorer, settings: list[Settings], propensities: ArrayLike, tail_bias: float, features: int
    ) -> None:
        self.propensities_: NDArray[np.float64] = np.asarray(propensities, dtype=np.float64)
        self.tail_bias_, self.settings_ = float(tail_bias), settings
        self.scorer_ = replace(scorer, bias=bias_of(self.propensities_, tail_bias))
        self.head_, self.network_ = scorer.head, None if scorer.network is None else scorer.network.eval()
        self.n_features_in_, self.n_labels_ = features, len(self.propensities_)

    @property
    def validation_(self) -> dict[str, float] | None:
        """nDCG@5 and PSnDCG@5 of this fit on the validation set, as shares of 1.

        None without a validation set, and for a model loaded from a file.
        """
        if self.chosen_ is not None:
            return {"nDCG@5": self.chosen_.ndcg, "PSnDCG@5": self.chosen_.psndcg}
        progress = getattr(self, "progress_", None)
        return {"nDCG@5": progress.validation[progress.best]} if progress and progress.validation else None

    # Answers

    def rank(self, X: Points, top_k: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the `top_k` labels of each point with the highest scores.

        Args:
            X: Features (n, F), or n texts.
            top_k: Number of labels; None: 5, or all if there are fewer.

        Returns:
            Label indices (n, top_k), best first, and their scores (n, top_k).
        """
        features = self._checked(X)
        top_k = min(5, self.n_labels_) if top_k is None else top_k
        check_integer("top_k", top_k, 1, self.n_labels_, f"The model has {self.n_labels_} labels.")
        scores, ids = self.scorer_.top(features, top_k, self.n_labels_)
        return ids.numpy(), scores.numpy()

    def predict(self, X: Points, top_k: int | None = None, *, threshold: float | None = None) -> Answer:
        """Return the labels of each point, in the form that `y` had in `fit`.

        Args:
            X: Features (n, F), or n texts.
            top_k: Return the k best labels of each point instead of all above the threshold.
            threshold: Return labels of at least this probability; None: the threshold with the best expected micro-F1
                on the validation set.

        Returns:
            Zeros and ones (n, L), as an array or a CSR matrix, or a tuple of labels for each point.
        """
        found = self._given(X, top_k, threshold)
        return self.label_format_.answer(found.astype(bool))

    def predict_named(
        self, X: Points, top_k: int | None = None, *, threshold: float | None = None
    ) -> list[list[tuple[Label, float]]]:
        """Return the names and probabilities of the labels that `predict` returns, most probable first.

        Args:
            X: Features (n, F), or n texts.
            top_k: As in `predict`.
            threshold: As in `predict`.

        Returns:
            For each point a list of (label, probability).
        """
        found, names, answers = self._given(X, top_k, threshold), self.classes_.tolist(), []
        for start, stop in pairwise(found.indptr.tolist()):
            best = start + np.argsort(-found.data[start:stop], kind="stable")
            columns, probable = found.indices[best].tolist(), found.data[best].tolist()
            answers.append([(names[column], p) for column, p in zip(columns, probable, strict=True)])
        return answers

    def _given(self, X: Points, top_k: int | None, threshold: float | None) -> csr_matrix:
        """The probabilities of the labels that are given, (n, L)."""
        if top_k is not None and threshold is not None:
            raise BadValue("top_k and threshold exclude each other. Pass only one.")
        features = self._checked(X)
        if top_k is not None:
            check_integer("top_k", top_k, 1, self.n_labels_, f"The model has {self.n_labels_} labels.")
            ids, scores = self.rank(features, min(max(top_k, BEST), self.n_labels_))
            probable = np.maximum(self._probabilities(scores, ids), np.finfo(np.float64).tiny)
            return _sparse(ids[:, :top_k], probable[:, :top_k], self.n_labels_)
        least = self.calibration_.threshold if threshold is None else _probability(threshold)
        k = min(max(FIRST, BEST), self.n_labels_)
        while True:  # until no other label of any point can be probable enough
            ids, scores = self.rank(features, k)
            if k == self.n_labels_ or not (self.calibration_.most(scores, rarity(self.propensities_)) >= least).any():
                probable = self._probabilities(scores, ids)
                made = _sparse(ids, np.where(probable >= least, probable, 0.0), self.n_labels_)
                made.eliminate_zeros()
                return made
            k = min(4 * k, self.n_labels_)

    def predict_proba(self, X: Points) -> NDArray[np.float64]:
        """Return the calibrated probability of each label for each point, (n, L); rows do not sum to 1."""
        return self._probabilities(np.asarray(self.decision_function(X)))

    def _probabilities(
        self, scores: NDArray[np.float32], ids: NDArray[np.int64] | slice = slice(None)
    ) -> NDArray[np.float64]:
        rare = rarity(self.propensities_)[ids]
        return self.calibration_.probabilities(scores, spread_of(scores), rare)

    def decision_function(self, X: Points, top_k: int | None = None) -> NDArray[np.float32] | csr_matrix:
        """Return the scores of all labels, or of the best labels of each point.

        Args:
            X: Features (n, F), dense or sparse, or n texts.
            top_k: The number of labels of each point that get a score; None scores all labels.

        Returns:
            An array (n, L), or with `top_k` a CSR matrix (n, L) of these scores.
        """
        if top_k is not None:
            return _sparse(*self.rank(X, top_k), self.n_labels_)
        features = self._checked(X)
        parts = cut(features.shape[0], self.n_labels_)
        return torch.cat([self.scorer_.scores(features[part]) for part in parts]).numpy()

    def score(self, X: Points, y: Labels, k: int | None = None) -> float:
        """Return nDCG@k, the normalized discounted cumulative gain, averaged over the points that have labels.

        Args:
            X: The points, as for `fit`.
            y: Their labels, as for `fit`.
            k: The number of labels that are ranked. By default 5, or all labels if there are fewer.
        """
        truth = self._truth(X, y)
        ranked = self.rank(truth.features, k)[0]
        return metrics.ndcg(ranked, truth.labels, ranked.shape[1])

    def evaluate(
        self, X: Points, y: Labels, ks: tuple[int, ...] | None = None, unlabeled: bool = False
    ) -> dict[str, float]:
        """Return P, nDCG, PSP and PSnDCG at each k, as shares of 1: {"P@1": ..., "nDCG@5": ..., ...}.

        Args:
            X: Features (n, F), or n texts.
            y: Labels, in any form that `fit` takes.
            ks: Values of k; None: those of 1, 3 and 5 that do not exceed the number of labels.
            unlabeled: Whether to count points without labels, with a value of 0.
        """
        truth = self._truth(X, y)
        ks = tuple(k for k in (1, 3, 5) if k <= self.n_labels_) if ks is None else ks
        ids, _ = self.rank(truth.features, max(ks))
        return metrics.measures(ids, truth.labels, self.propensities_, ks, unlabeled=unlabeled)

    def _checked(self, X: Points) -> csr_matrix:
        if not hasattr(self, "scorer_"):
            raise load_extra("sklearn.exceptions").NotFittedError(
                "This MultiLabelClassifier is not fitted yet. Call fit(X, y), or MultiLabelClassifier.load(path)."
            )
        if is_texts(X):
            if self.vectorizer_ is None:
                raise BadValue(
                    "X must be a feature matrix, got texts: the model was trained on features. Convert the texts as "
                    "you did for training."
                )
            X = self.vectorizer_(X)
        return self._features(X)

    def _features(self, X: Matrix, reset: bool = False) -> csr_matrix:
        """Features as scikit-learn wants them checked; what is wrong is a mistake that a person can mend."""
        try:
            features = load_extra("sklearn.utils.validation").validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype="numeric",
                ensure_all_finite=False,
                ensure_min_samples=1 if reset else 0,
            )
        except ValueError as error:
            raise BadValue(str(error)) from None
        features = tidy(features, "features")
        check_finite(features, "features")
        return features

    def _truth(self, X: Points, y: Labels) -> Dataset:
        features = self._checked(X)
        truth = Dataset(features=features, labels=self.label_format_.matrix(y))
        if truth.labels.shape[1] != self.n_labels_:
            raise BadValue(
                f"y must have the model's {self.n_labels_} labels, got {truth.labels.shape[1]}: it is from another "
                "label set."
            )
        return truth

    # Files

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model to a safetensors file.

        The codes of labels are not stored, unless they were trained: they follow from the labels and the seed. An
        existing label model is replaced atomically; another file, or one that is read-only, only with `force=True`.

        Args:
            path: The file.
            force: Replace any file.

        Raises:
            NotFittedError: If `fit` was not called before.
            BadValue: If another kind of file has that name, without `force`.
        """
        if not hasattr(self, "scorer_"):
            raise load_extra("sklearn.exceptions").NotFittedError(
                "This MultiLabelClassifier is not fitted yet. Call fit(X, y) before save()."
            )
        scorer = self.scorer_
        model = models.Model(
            name=self.head,
            head=scorer.head,
            network=self.network_,
            settings=self.settings_,
            propensities=torch.from_numpy(self.propensities_),
            tail_bias=self.tail_bias_,
            seed=self.seed,
            kept=Kept(
                form=self.label_format_,
                calibration=self.calibration_,
                settings=self.settings,
                validation=self.validation,
                epochs=self.epochs,
                pool=self.pool_,
                words=self.vectorizer_,
                rerank_min_count=self.rerank_min_count,
                head_options=self.head_options_,
            ),
            matcher=scorer.matcher,
            rerankers=scorer.rerankers,
            recipe=self.recipe,
            features=self.n_features_in_,
            nothing=scorer.nothing,
        )
        models.write(path, model, force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the model of a file that `save` wrote, with its parameters.

        Raises:
            BadFile: If the file is not a label model, or is corrupt.
        """
        found = models.read(path)
        kept = found.kept
        asked = kept.head_options, kept.settings
        model = cls(found.name, *asked, recipe=found.recipe, epochs=kept.epochs, seed=found.seed)
        model.validation, model.rerank_min_count = kept.validation, kept.rerank_min_count
        model.chosen_, model.calibration_, model.head_options_ = None, kept.calibration, kept.head_options
        scorer = Scorer(
            head=found.head,
            network=found.network,
            matcher=found.matcher,
            rerankers=found.rerankers,
            nothing=found.nothing,
        )
        model._keep(scorer, found.settings, found.propensities.numpy(), found.tail_bias, found.features)
        model._remember(kept.form, kept.words, kept.pool)
        return model

    def _remember(self, label_format: LabelFormat, vectorizer: TextVectorizer | None = None, pool: int = 1) -> None:
        """Set the form of labels, the vocabulary of texts and the width of pooling, to be saved with the model."""
        self.label_format_, self.classes_, self.vectorizer_, self.pool_ = (
            label_format,
            label_format.names,
            vectorizer,
            pool,
        )


def _refuse(weights: dict[str, object]) -> None:
    """Say what fit does not take."""
    given = [name for name, value in weights.items() if value is not None]
    if given:
        raise BadType(
            f"fit() does not support {given[0]}. Repeat points in X and y to give them more weight; the recipe itself "
            "adjusts for rare labels."
        )


def _probability(threshold: float) -> float:
    """A threshold that one gives oneself."""
    if not 0 <= check_number("threshold", threshold) <= 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold}.")
    return float(threshold)


def _sparse(ids: NDArray[np.int64], values: NDArray[Any], labels: int) -> csr_matrix:
    """A row a point, in the order of the labels."""
    order = np.argsort(ids, axis=1)
    ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
    starts = np.arange(len(ids) + 1) * ids.shape[1]
    return load_extra("scipy.sparse").csr_matrix((values.ravel(), ids.ravel(), starts), shape=(len(ids), labels))
