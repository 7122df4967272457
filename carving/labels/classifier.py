"""MultiLabelClassifier: fit, predict and score as scikit-learn does it, CSR matrices in and out."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from carving.checks import check_integer
from carving.chunks import slices
from carving.errors import BadValue
from carving.files import replace_whole
from carving.labels import metrics, recipe
from carving.labels.data import Dataset
from carving.labels.heads import Head, OSCHead
from carving.labels.networks import Blend, Scaling
from carving.labels.rows import rows_of, tidy
from carving.labels.text import where
from carving.labels.training import AT_ONCE, Progress, Settings, make_network, network_of, predict, split, train
from carving.labels.vectors import make_head

FORMAT = "carving labels 1"


class BadModel(BadValue):
    """A file that is no model, or damaged."""


class MultiLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no types
    """A network with a label head. Without `settings` our recipe makes it; with them, one network is trained so.

    `head` is OSC, HLB, MAP, VTB or HRR, made with `head_options`. `validation` is the share of training points that are
    held back to choose the epoch, for one network; the recipe has its own. `checkpoints` is a folder: a fit that was
    killed goes on from there and ends with the same numbers. `watch` is told how it goes.
    """

    def __init__(
        self,
        head: str = "OSC",
        head_options: dict[str, Any] | None = None,
        settings: Settings | None = None,
        *,
        epochs: int | None = None,
        validation: float = 0.0,
        seed: int = 0,
        checkpoints: str | os.PathLike[str] | None = None,
        watch: recipe.Watch | None = None,
    ) -> None:
        self.head = head
        self.head_options = head_options
        self.settings = settings
        self.epochs = epochs
        self.validation = validation
        self.seed = seed
        self.checkpoints = checkpoints
        self.watch = watch

    # Training

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (n, F) and labels (n, L) of zeros and ones; points without labels are left out."""
        check_integer("seed", self.seed, 0, 2**63 - 1)
        whole = Dataset(X, y)
        data = whole.labelled()
        count = data.labels.shape[1]
        options = self.head_options
        if options is None:
            options = recipe.head_options(count) if self.head == "OSC" else {}
        head = make_head(self.head, count, **(dict(seed=self.seed) | options))
        self._check_recipe(head)
        folder = None if self.checkpoints is None else Path(self.checkpoints)
        self.chosen_: recipe.Chosen | None = None
        if self.settings is None:
            tried = recipe.trials(data, self.epochs)
            network, self.chosen_ = recipe.fit(data, head, seed=self.seed, tried=tried, folder=folder, watch=self.watch)
            made = self.chosen_.settings
        else:
            network, made = self._single(data, head, self.settings, folder), [self.settings]
        favour = 0.0 if self.chosen_ is None else self.chosen_.favour
        self._keep(head, network, made, metrics.propensities(whole.labels), data.features.shape[1], favour)
        return self

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

    def _single(self, data: Dataset, head: Head, settings: Settings, folder: Path | None) -> Blend:
        held: Dataset | None = None
        if self.validation:
            data, held = split(data, self.validation, self.seed)
        network = make_network(data, head, settings, self.seed)
        watch = self.watch

        def told(progress: Progress, share: float) -> None:
            if watch is not None:
                watch("network", progress, share)

        checkpoint = None if folder is None else folder / "network.safetensors"
        self.progress_ = train(
            network, head, data, settings, seed=self.seed, validation=held, checkpoint=checkpoint, watch=told
        )
        return Blend([network], [1.0], [False])

    def _keep(
        self, head: Head, network: Blend, made: list[Settings], propensities: Any, features: int, favour: float
    ) -> None:
        self.head_, self.network_, self.made_ = head, network.eval(), made
        self.propensities_ = np.asarray(propensities, dtype=np.float64)
        self.favour_, self._bias = float(favour), recipe.bias_of(self.propensities_, favour)
        self.n_features_in_, self.n_labels_ = int(features), head.count

    # Answers

    def rank(self, X: Any, k: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Numbers and scores (n, k) of each point's best labels, best first; five, or all where there are fewer."""
        features = self._checked(X)
        k = min(5, self.n_labels_) if k is None else k
        check_integer("k", k, 1, self.n_labels_, f"the model has {self.n_labels_} labels")
        scores, ids = predict(self.network_, self.head_, features, k, self._bias)
        return ids.numpy(), scores.numpy()

    def predict(self, X: Any, k: int | None = None) -> csr_matrix:
        """The k best labels of each point (five), as ones in a matrix (n, L)."""
        ids, _ = self.rank(X, k)
        return _sparse(ids, np.ones(ids.shape, np.float32), self.n_labels_)

    def decision_function(self, X: Any, k: int | None = None) -> Any:
        """The scores of all labels as an array (n, L); with k those of the k best, as a CSR matrix."""
        if k is not None:
            return _sparse(*self.rank(X, k), self.n_labels_)
        features = self._checked(X)
        with torch.no_grad():
            parts = list(slices(features.shape[0], AT_ONCE)) or [slice(0, 0)]
            scores = torch.cat([self.head_(self.network_(rows_of(features, part))) for part in parts])
            return (scores if self._bias is None else scores + self._bias).numpy()

    def score(self, X: Any, y: Any, k: int | None = None) -> float:
        """nDCG@k over the points that have labels; k is 5, or all labels where there are fewer."""
        truth = self._truth(X, y)
        ranked = self.rank(truth.features, k)[0]
        return metrics.ndcg(ranked, truth.labels, ranked.shape[1])

    def evaluate(self, X: Any, y: Any, ks: tuple[int, ...] | None = None, unlabelled: bool = False) -> dict[str, float]:
        """P, nDCG, PSP and PSnDCG at each k (1, 3, 5); propensities are those of the training points."""
        truth = self._truth(X, y)
        ks = tuple(k for k in (1, 3, 5) if k <= self.n_labels_) if ks is None else ks
        ids, _ = self.rank(truth.features, max(ks))
        return metrics.measures(ids, truth.labels, self.propensities_, ks, unlabelled=unlabelled)

    def _checked(self, X: Any) -> csr_matrix:
        if not hasattr(self, "network_"):
            raise NotFittedError(
                "the classifier is not trained yet; call fit(X, y), or MultiLabelClassifier.load(file)"
            )
        features = tidy(X, "features")
        if features.shape[1] != self.n_features_in_:
            raise BadValue(f"the model has {self.n_features_in_} features, the points have {features.shape[1]}")
        if not np.isfinite(features.data).all():
            row, column = where(features, ~np.isfinite(features.data))
            raise BadValue(
                f"features must be finite numbers, got {features[row, column]} in row {row}, column {column}"
            )
        return features

    def _truth(self, X: Any, y: Any) -> Dataset:
        truth = Dataset(X, y)
        self._checked(truth.features)
        if truth.labels.shape[1] != self.n_labels_:
            raise BadValue(
                f"the model has {self.n_labels_} labels, the data {truth.labels.shape[1]}: it is of another label set"
            )
        return truth

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model in one safetensors file; labels' codes are not in it unless they were trained."""
        if not hasattr(self, "network_"):
            raise NotFittedError("there is nothing to save before fit(X, y)")
        tensors = {f"network/{name}": tensor for name, tensor in self.network_.state_dict().items()}
        tensors |= {f"head/{name}": tensor for name, tensor in self.head_.state_dict().items()}
        tensors["propensities"] = torch.from_numpy(self.propensities_)
        facts = dict(
            head=self.head,
            head_options=self.head_.options,
            labels=self.n_labels_,
            features=self.n_features_in_,
            settings=[asdict(one) for one in self.made_],
            scaling=self.network_.scalings,
            weights=self.network_.weights,
            units=self.network_.units,
            favour=self.favour_,
            seed=self.seed,
        )
        metadata = dict(format=FORMAT, facts=json.dumps(facts))
        replace_whole(Path(path), {name: t.detach().contiguous() for name, t in tensors.items()}, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model of a file."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no model {path}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
        except SafetensorError as error:
            raise BadModel(
                f"{path} is no whole model ({error}); it was cut off, damaged, or is something else"
            ) from None
        if metadata.get("format") != FORMAT:
            raise BadModel(
                f"{path} is a safetensors file, but no label model of this version; `carving train` makes one"
            )
        try:
            return cls._from(json.loads(metadata["facts"]), tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise BadModel(f"{path} is damaged: {error}") from None

    @classmethod
    def _from(cls, facts: dict[str, Any], tensors: dict[str, Any]) -> Self:
        made = cls(facts["head"], facts["head_options"], seed=facts["seed"])
        head = make_head(facts["head"], facts["labels"], **facts["head_options"])
        settings = [Settings(**one) for one in facts["settings"]]
        with torch.random.fork_rng(devices=[]):  # weights are drawn, only to be replaced
            networks = [
                network_of(Scaling(facts["features"], *how), facts["features"], head, one)
                for how, one in zip(facts["scaling"], settings, strict=True)
            ]
        made.chosen_ = None
        blend = Blend(networks, facts["weights"], facts["units"])
        for module, prefix in ((blend, "network/"), (head, "head/")):
            module.load_state_dict({n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)})
        made._keep(head, blend, settings, tensors["propensities"].numpy(), facts["features"], facts["favour"])
        return made


def _sparse(ids: NDArray[np.int64], values: NDArray[np.float32], labels: int) -> csr_matrix:
    """A row a point, in the order of the labels."""
    order = np.argsort(ids, axis=1)
    ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
    starts = np.arange(len(ids) + 1) * ids.shape[1]
    return csr_matrix((values.ravel(), ids.ravel(), starts), shape=(len(ids), labels))
