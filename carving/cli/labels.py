"""`carving train` and `carving evaluate`: commands only translate; what they call is loaded when they run."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from filelock import Timeout
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from carving.errors import BadValue
from carving.files import lock_beside

if TYPE_CHECKING:
    from carving.labels.data import Dataset

errors = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Split = Annotated[Path | None, typer.Option(help="A split file: the rows of DATA to take.")]
Column = Annotated[int, typer.Option(min=0, help="The column of the split files to take, from 0.")]
Labels = Annotated[
    str | None,
    typer.Option(help="ARFF: the XML file of the labels, or their number (negative: the last); else their own file."),
]
Pool = Annotated[int, typer.Option(min=1, help="Take means of so many features that follow each other.")]
AllRows = Annotated[bool, typer.Option("--all-rows", help="Count test points without labels as found in nothing.")]


def train(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Training points: text of the repository, or ARFF.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The file to write (.safetensors).")],
    test: Annotated[Path | None, typer.Option(help="Test points to evaluate the model on in the end.")] = None,
    split: Split = None,
    test_split: Annotated[Path | None, typer.Option(help="The same for the test points.")] = None,
    column: Column = 0,
    labels: Labels = None,
    test_labels: Annotated[str | None, typer.Option(help="The same for the test points, if it is another.")] = None,
    pool: Pool = 1,
    head: Annotated[str, typer.Option(help="OSC, or for comparison HLB, MAP, VTB or HRR.")] = "OSC",
    trunk: Annotated[
        str | None, typer.Option(help="One network instead of our recipe: deep, linear, or both added.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the data; by default from their number.")
    ] = None,
    validation: Annotated[
        float, typer.Option(help="One network: the share of points held back for validation.")
    ] = 0.15,
    patience: Annotated[int, typer.Option(min=1, help="One network: epochs without a gain before it stops.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, even where a killed run could go on.")] = False,
    all_rows: AllRows = False,
    as_json: Json = False,
) -> None:
    """Train a classifier for many labels; a run that was killed goes on where it was."""
    from carving.labels.classifier import MultiLabelClassifier

    if any(file is not None and file.exists() and model.exists() and file.samefile(model) for file in (data, test)):
        raise BadValue(f"{model} holds the data; name another file for the model")
    folder = model.with_name(f"{model.name}.checkpoints")
    with _alone(model):
        points = _read(data, split, column, labels, pool)
        tested = None if test is None else _read(test, test_split, column, test_labels or labels, pool)
        _check_pair(points, tested, test)
        if fresh and folder.exists():
            shutil.rmtree(folder)
        settings = _settings(head, trunk, epochs, patience if validation else None, points.labelled())
        with _shown() as watch:
            made = MultiLabelClassifier(
                head,
                settings=settings,
                epochs=epochs if settings is None else None,
                validation=validation,
                seed=seed,
                checkpoints=folder,
                watch=watch,
            ).fit(points.features, points.labels)
        made.save(model)
        shutil.rmtree(folder, ignore_errors=True)  # only now: until the model is there, they are all there is
    facts: dict[str, Any] = dict(model=str(model), points=len(points.labelled()), labels=made.n_labels_)
    facts |= dict(parameters=sum(p.numel() for p in made.network_.parameters()), validation=_validation(made))
    if tested is not None:
        facts["test"] = made.evaluate(tested.features, tested.labels, unlabelled=all_rows)
        facts["unlabelled"] = len(tested) - len(tested.labelled())
        facts["all_rows"] = all_rows
    typer.echo(json.dumps(facts) if as_json else _told(facts))


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `carving train` wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Test points.")],
    split: Split = None,
    column: Column = 0,
    labels: Labels = None,
    pool: Pool = 1,
    all_rows: AllRows = False,
    as_json: Json = False,
) -> None:
    """How well a trained classifier ranks the labels of test points."""
    from carving.labels.classifier import MultiLabelClassifier

    made = MultiLabelClassifier.load(model)
    points = _read(data, split, column, labels, pool)
    found = made.evaluate(points.features, points.labels, unlabelled=all_rows)
    bare = len(points) - len(points.labelled())
    if as_json:
        typer.echo(json.dumps(dict(model=str(model), points=len(points), unlabelled=bare, measures=found)))
        return
    typer.echo(f"{len(points)} points{_bare(bare, all_rows)}\n{_table(found)}")


def _bare(points: int, counted: bool) -> str:
    return f", {points} without labels {'counted' if counted else 'left out'}" if points else ""


def _settings(head: str, trunk: str | None, epochs: int | None, patience: int | None, points: "Dataset") -> Any:
    """One network where it is wanted: the recipe's trials for OSC, the published way for the others."""
    from dataclasses import replace

    from carving.labels import recipe
    from carving.labels.training import Settings

    if head != "OSC":
        return Settings(trunk=trunk or "deep", epochs=epochs or 25, gamma=0.98, patience=patience)
    if trunk is None:
        return None
    tried = {one.trunk: one for one in recipe.trials(points, epochs)}
    return replace(tried.get(trunk, tried["both"]), trunk=trunk, patience=patience)


def _read(path: Path, split: Path | None, column: int, labels: str | None, pool: int) -> "Dataset":
    from carving.labels.data import read

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    number = labels is not None and labels.removeprefix("-").isdecimal()
    found = read(path, split=split, column=column, labels=int(labels) if labels and number else labels)
    return found.pooled(pool) if pool > 1 else found


def _check_pair(points: "Dataset", tested: "Dataset | None", test: Path | None) -> None:
    """Before hours of training, see whether the test points belong to it."""
    if tested is None:
        return
    for what in ("features", "labels"):
        ours, theirs = getattr(points, what).shape[1], getattr(tested, what).shape[1]
        if ours != theirs:
            raise BadValue(f"{test} has {theirs} {what}, the training points {ours}: do they belong together?")


def _validation(made: Any) -> dict[str, float] | None:
    if made.chosen_ is not None:
        return {"nDCG@5": made.chosen_.ndcg, "PSnDCG@5": made.chosen_.psndcg}
    seen = made.progress_.validation
    return {"nDCG@5": seen[made.progress_.best]} if seen else None


def _told(facts: dict[str, Any]) -> str:
    lines = [
        f"trained on {facts['points']:,} points with {facts['labels']:,} labels: {facts['parameters']:,} weights "
        f"in {facts['model']}"
    ]
    if facts["validation"]:
        shown = ", ".join(f"{name} {100 * value:.2f}" for name, value in facts["validation"].items())
        lines.append(f"on the validation part: {shown}")
    if "test" in facts:
        lines += [f"on the test part{_bare(facts['unlabelled'], facts['all_rows'])}:", _table(facts["test"])]
    return "\n".join(lines)


def _table(found: dict[str, float]) -> str:
    """Measures in percent, a line for each, a column for each k."""
    names = list(dict.fromkeys(name.split("@")[0] for name in found))
    ks = list(dict.fromkeys(name.split("@")[1] for name in found))
    lines = ["          " + "".join(f"{'@' + k:>8}" for k in ks)]
    return "\n".join(lines + [f"{n:10}" + "".join(f"{100 * found[f'{n}@{k}']:8.2f}" for k in ks) for n in names])


@contextmanager
def _alone(model: Path) -> Iterator[None]:
    """Two runs must not write the same checkpoints."""
    lock = lock_beside(model)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BadValue(f"another run is training {model}; wait for it, or name another file") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _shown() -> Iterator[Callable[[str, Any, float], None]]:
    """A bar for each network: its epoch, its loss and its validation nDCG; where none can be drawn, a line an epoch."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn()
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as shown:
        tasks: dict[str, Any] = {}

        def watch(name: str, progress: Any, share: float) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name, total=None, told="")
            told = f"epoch {progress.epoch} of {progress.epochs}"  # that is done, as are loss and validation
            if progress.losses:
                told += f", loss {progress.losses[-1]:.3f}"
            if progress.validation:
                told += f", validation nDCG@5 {100 * progress.validation[-1]:.2f}"
            shown.update(tasks[name], total=progress.epochs, completed=progress.epoch + share, told=told)
            if not errors.is_terminal and not share:  # an epoch has ended
                errors.print(f"{name}: {told}", markup=False)

        yield watch
