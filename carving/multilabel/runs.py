"""Training runs from files to a file: one at a time per model, resumed after an interruption."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock

from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.multilabel import checkpoints, recipe
from carving.multilabel.classifier import RECIPES, MultiLabelClassifier
from carving.multilabel.data import Dataset, Source, check_pair
from carving.multilabel.ranks import learning_on
from carving.multilabel.training import OnProgress
from carving.storage.locks import acquire_lock, check_folder, shown
from carving.storage.tensorfile import check_replaceable
from carving.validate import check_choice, check_integer


@dataclass(frozen=True)
class Wish:
    """Configuration of a training run: the recipe, or one network if `architecture` is set or the head is not OSC."""

    head: str = "OSC"
    architecture: str | None = None
    epochs: int | None = None
    validation: float = 0.15  # one network: the share of points held back
    patience: int = 4  # one network: epochs without a gain before it stops
    seed: int = 0
    recipe: str = "best"
    rerank_min_count: int = 1  # the recipe: labels of at least so many points have one; 0 leaves them out

    def __post_init__(self) -> None:
        check_choice("recipe", self.recipe, RECIPES)
        check_integer("rerank_min_count", self.rerank_min_count, 0, way_out="0 trains no rerankers.")
        given = {
            "head": self.head != "OSC",
            "architecture": self.architecture is not None,
            "epochs": self.epochs is not None,
        }
        for name in (name for name in given if self.recipe == "fast" and given[name]):
            raise BadValue(
                f'{name} does not apply to recipe="fast", which trains no network. Use recipe="best", or omit it.'
            )
        for name in (name for name in ("head", "architecture") if self.rerank_min_count > 1 and given[name]):
            raise BadValue(
                f"rerank_min_count={self.rerank_min_count} does not apply to one network, which {name} selects. Pass "
                "only one."
            )


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on a test set."""

    measures: dict[str, float]  # shares of 1, such as nDCG@5
    points: int
    unlabeled: int  # points without labels
    all_rows: bool  # whether these count, as points of which nothing was found
    unknown_labels: int = 0  # labels that the model does not know, and that were left out


@dataclass(frozen=True)
class Report:
    """Result of a training run."""

    model: Path
    points: int
    labels: int
    parameters: int
    validation: dict[str, float] | None  # measures of the part that was held back, if any
    test: Evaluation | None


def run(
    source: Source,
    model: Path,
    wish: Wish,
    *,
    test: Source | None = None,
    fresh: bool = False,
    all_rows: bool = False,
    force: bool = False,
    ranks: Ranks | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Train on the points of a file, write the model, and evaluate it on a test set, if given.

    With several ranks all of them read the files and train together, and the first writes. Checkpoints are kept in a
    folder beside the model until it is written.

    Args:
        source: The training set.
        model: The file of the model.
        wish: What to train.
        test: The test set.
        fresh: Discard checkpoints of an interrupted run instead of resuming it.
        all_rows: Count test points without labels, with a value of 0.
        force: Replace a file that is not a label model.
        ranks: The processes that train together.
        on_progress: Called during training; see `MultiLabelClassifier`.
    """
    folder, ranks = model.with_name(f"{model.name}.checkpoints"), ranks or Ranks.alone()
    ranks.agreed(lambda: _check_files(source, test, model))
    with _alone(model, ranks), learning_on(ranks):
        ranks.of_one(lambda: _check_places(model, folder, force))
        data, tested = ranks.agreed(lambda: _read(source, test))
        if fresh:
            ranks.of_one(lambda: checkpoints.remove(folder))
        classifier = fitted(data, wish, folder, on_progress)
        classifier._remember(data.label_format or classifier.label_format_, data.words, source.pool)
        ranks.of_one(lambda: classifier.save(model, force=force))
        ranks.of_one(lambda: checkpoints.remove(folder))  # only now: until the model is there, they are all there is
    return Report(
        model=model,
        points=len(data),
        labels=classifier.n_labels_,
        parameters=classifier.scorer_.count,
        validation=classifier.validation_,
        test=None if tested is None else evaluated(classifier, tested, all_rows),
    )


def fitted(
    data: Dataset, wish: Wish, checkpoints: Path | None = None, on_progress: OnProgress | None = None
) -> MultiLabelClassifier:
    """The classifier that is wished for."""
    patience = wish.patience if wish.validation else None
    settings = recipe.single(data.labeled(), wish.head, wish.architecture, wish.epochs, patience)
    classifier = MultiLabelClassifier(
        wish.head,
        settings=settings,
        epochs=wish.epochs if settings is None else None,
        recipe=wish.recipe,
        validation=wish.validation,
        rerank_min_count=wish.rerank_min_count or None,
        seed=wish.seed,
        checkpoints=checkpoints,
        on_progress=on_progress,
    )
    return classifier.fit(data.features, data.labels)


def evaluated(classifier: MultiLabelClassifier, data: Dataset, all_rows: bool = False) -> Evaluation:
    """How well the classifier ranks the labels of these points."""
    measures = classifier.evaluate(data.features, data.labels, unlabeled=all_rows)
    return Evaluation(
        measures=measures,
        points=len(data),
        unlabeled=len(data) - len(data.labeled()),
        all_rows=all_rows,
        unknown_labels=data.unknown_labels,
    )


def _check_files(source: Source, test: Source | None, model: Path) -> None:
    """Before anything is locked or read, see whether the files are there, and that none of them is overwritten."""
    for file in (source.path, source.path if test is None else test.path):
        if not file.exists():
            raise FileNotFoundError(f"there is no file {shown(file)}")
        if model.exists() and file.samefile(model):
            raise BadValue(f"{shown(model)} is a data file. Choose another file for the model.")


def _check_places(model: Path, folder: Path, force: bool) -> None:
    """See whether the model and its checkpoints may be written."""
    check_replaceable(model, "label model", force)
    check_folder(folder)


def _read(source: Source, test: Source | None) -> tuple[Dataset, Dataset | None]:
    """The points; whether the test's belong to the training's is seen now, not after hours of training."""
    data = source.read()
    if test is None:
        return data, None
    tested = test.read(data.words, data.label_format)
    check_pair(data, tested, str(test.path))
    return data, tested


@contextmanager
def _alone(model: Path, ranks: Ranks) -> Iterator[None]:
    """Two runs must not write the same checkpoints; a path where no file can be is refused."""
    lock = ranks.agreed(lambda: _taken(model) if ranks.first else None)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _taken(model: Path) -> BaseFileLock:
    try:
        return acquire_lock(model, 0)
    except TimeoutError:
        raise BadValue(f"Another run is training {shown(model)}. Wait for it, or choose another file.") from None
