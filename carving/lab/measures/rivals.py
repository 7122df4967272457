"""Our recipes beside napkinxc's label trees and one-vs-rest, on the same points: quality, processor time and size."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from carving.errors import UserError
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.datasets import parts
from carving.lab.measures.labels import FromFiles
from carving.lab.threads import one_thread
from carving.multilabel import metrics
from carving.multilabel.classifier import MultiLabelClassifier
from carving.multilabel.data import Dataset

PLACES = 5
TRAINING, PREDICTION, SIZE = "seconds of training", "seconds of prediction", "megabytes"
RIVALS: dict[str, tuple[str, dict[str, Any]]] = {  # napkinxc's models, with its own settings but for these
    "PLT": ("PLT", {}),
    "PLT x 3": ("PLT", dict(ensemble=3)),
    "BR": ("BR", {}),
}
METHODS = ("best", "fast", *RIVALS)

Ranks = NDArray[np.int64]


class Run(NamedTuple):
    """What came of a method: ranks (n, 5) of the test points, and what it took."""

    ranked: Ranks
    training: float  # seconds of the processor
    prediction: float
    size: int  # bytes of its files


@dataclass(frozen=True)
class Rivals(FromFiles):
    """The measure: a data set of a folder, and a method."""

    def __call__(self, setting: Setting, seed: int) -> Measured:
        """Quality on the test part, shares of 1, seconds of the processor in one thread, and megabytes of files."""
        with torch.inference_mode(False):
            return measured(setting["method"], *parts(self.folder, setting["dataset"], 1), seed % 2**31)


def measured(method: str, train: Dataset, test: Dataset, seed: int) -> Measured:
    """All that is known of a method on a data set."""
    with one_thread():
        run = (_theirs if method in RIVALS else _ours)(method, train.labeled(), test, seed)
    known = metrics.propensities(train.labels)
    quality = metrics.measures(run.ranked, test.labels, known)
    every = metrics.measures(run.ranked, test.labels, known, (5,), unlabeled=True)
    quality |= {f"{name} over all": every[name] for name in ("nDCG@5", "PSnDCG@5")}
    return quality | {TRAINING: run.training, PREDICTION: run.prediction, SIZE: run.size / 1e6}


def _ours(method: str, train: Dataset, test: Dataset, seed: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model")
        model, training = _timed(
            lambda: MultiLabelClassifier(recipe=method, seed=seed).fit(train.features, train.labels)
        )
        model.save(file)
        model = MultiLabelClassifier.load(file)
        model.rank(test.features[:1], PLACES)  # what is loaded when it is asked first
        ranked, prediction = _timed(lambda: model.rank(test.features, PLACES)[0])
        return Run(ranked, training, prediction, file.stat().st_size)


def _theirs(method: str, train: Dataset, test: Dataset, seed: int) -> Run:
    name, options = RIVALS[method]
    seeded = dict(seed=seed) if name == "PLT" else {}
    with tempfile.TemporaryDirectory() as folder:
        model = getattr(_napkinxc(), name)(folder, threads=1, **options, **seeded)
        sets = [row.indices.tolist() for row in train.labels]
        _, training = _timed(lambda: model.fit(train.features, sets))
        model.predict(test.features[:1], top_k=PLACES)
        ranked, prediction = _timed(lambda: model.predict(test.features, top_k=PLACES))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return Run(np.array([_filled(row, test.labels.shape[1]) for row in ranked]), training, prediction, size)


def _filled(row: list[int], known: int) -> list[int]:
    """A ranking of five even where a model knows fewer labels."""
    rest = (label for label in range(known) if label not in row)
    return (list(row) + [next(rest) for _ in range(PLACES - len(row))])[:PLACES]


def _timed(do: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and the seconds of the processor that it took, in all threads."""
    start = time.process_time()
    return do(), time.process_time() - start


def _napkinxc() -> Any:
    try:
        return import_module("napkinxc.models")
    except ModuleNotFoundError:
        raise UserError("The package napkinxc is not installed. Install it: pip install napkinxc") from None
