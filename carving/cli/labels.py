"""`carving train` and `carving evaluate`: commands only translate; what they call is loaded when they run."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carving.cli.options import Json, Work, examples
from carving.cli.output import errors, escaped, write_json, write_line
from carving.cli.ranks import together

if TYPE_CHECKING:
    from carving.labels.data import Source
    from carving.labels.runs import Evaluation, Report

TRAIN_EPILOG = examples(
    "carving train bibtex_train.txt.xz bibtex.safetensors --test bibtex_test.txt.xz",
    "carving train news.jsonl news.safetensors",
    "carving train mediamill-train.arff small.safetensors --labels -101 --trunk linear --epochs 5",
)
EVALUATE_EPILOG = examples("carving evaluate bibtex.safetensors bibtex_test.txt.xz")

AllRows = Annotated[bool, typer.Option("--all-rows", help="Count test points without labels as found in nothing.")]


@dataclass(frozen=True)
class Points:
    """How a file of points is read."""

    split: Annotated[Path | None, typer.Option(help="A split file: the rows of DATA to take.")] = None
    column: Annotated[int, typer.Option(min=0, help="The column of the split files to take, from 0.")] = 0
    labels: Annotated[
        str | None,
        typer.Option(
            help="ARFF: the XML file of the labels, or their number (negative: the last); else their own file."
        ),
    ] = None
    pool: Annotated[
        int | None, typer.Option(min=1, help="Take means of so many features that follow each other; a model knows it.")
    ] = None

    def of(self, file: Path, pool: int = 1) -> "Source":
        """The file, with how it is read."""
        from carving.labels.data import Source

        labels: str | int | None = self.labels
        if self.labels is not None and re.fullmatch("-?[0-9]{1,18}", self.labels):
            labels = int(self.labels)
        return Source(file, self.split, self.column, labels, self.pool or pool)


@dataclass(frozen=True)
class Testing:
    """On what a model is evaluated in the end."""

    test: Annotated[Path | None, typer.Option(help="Test points to evaluate the model on in the end.")] = None
    test_split: Annotated[Path | None, typer.Option(help="The split file of the test points.")] = None
    test_labels: Annotated[
        str | None, typer.Option(help="The labels of the test points, if they are in another file.")
    ] = None
    all_rows: AllRows = False

    def source(self, points: Points) -> "Source | None":
        """The test points, read as the training points but for what is said otherwise."""
        own = Points(self.test_split, points.column, self.test_labels or points.labels, points.pool)
        return None if self.test is None else own.of(self.test)


@dataclass(frozen=True)
class Training:
    """What is trained, and how."""

    head: Annotated[str, typer.Option(help="OSC, or for comparison HLB, MAP, VTB or HRR.")] = "OSC"
    trunk: Annotated[
        str | None, typer.Option(help="One network instead of the recipe: deep, linear, or both added.")
    ] = None
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data; by default from their number.")] = (
        None
    )
    validation: Annotated[float, typer.Option(help="One network: the share of points held back for validation.")] = 0.15
    patience: Annotated[int, typer.Option(min=1, help="One network: epochs without a gain before it stops.")] = 4
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0
    recipe: Annotated[
        str, typer.Option(help="best: networks and rankers. fast: solved or counted, in seconds, and nearly as good.")
    ] = "best"
    rankers: Annotated[
        int, typer.Option(min=0, help="Labels of at least so many points have a ranker; 0 leaves them out.")
    ] = 1


def train(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Training points: text of the repository, ARFF, or texts (.jsonl).")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The file to write (.safetensors).")],
    points: Points,
    testing: Testing,
    wanted: Training,
    work: Work,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, even where a killed run could go on.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace MODEL even if it is something else.")] = False,
    as_json: Json = False,
) -> None:
    """Train a classifier for many labels; a run that was killed goes on where it was."""
    from carving.labels.bars import bars
    from carving.labels.runs import Wish, run

    with together(work) as ranks, bars(errors) as on_progress:
        report = run(
            points.of(data),
            model,
            Wish(**vars(wanted)),
            test=testing.source(points),
            fresh=fresh,
            all_rows=testing.all_rows,
            force=force,
            ranks=ranks,
            on_progress=on_progress,
        )
    if as_json:
        write_json(_as_json(report))
    else:
        _write_text(_as_text(report))


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `carving train` wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Test points.")],
    points: Points,
    all_rows: AllRows = False,
    as_json: Json = False,
) -> None:
    """How well a trained classifier ranks the labels of test points."""
    from carving.labels.classifier import MultiLabelClassifier
    from carving.labels.runs import evaluated

    made = MultiLabelClassifier.load(model)
    answer = evaluated(made, points.of(data, made.pool_).read(made.words_, made.form_), all_rows)
    if as_json:
        facts = dict(points=answer.points, unlabelled=answer.unlabelled, unknown_labels=answer.strangers)
        write_json(dict(model=str(model)) | facts | dict(measures=answer.measures))
    else:
        _write_text(f"{answer.points} points{_unlabelled(answer)}\n{_table(answer.measures)}")


def _write_text(text: str) -> None:
    for line in text.split("\n"):
        write_line(line)


def _as_json(report: "Report") -> dict[str, object]:
    facts: dict[str, object] = dict(model=str(report.model), points=report.points, labels=report.labels)
    facts |= dict(parameters=report.parameters, validation=report.validation)
    if report.test is not None:
        facts |= dict(test=report.test.measures, unlabelled=report.test.unlabelled, all_rows=report.test.all_rows)
        facts |= dict(unknown_labels=report.test.strangers)
    return facts


def _as_text(report: "Report") -> str:
    lines = [
        f"trained on {report.points:,} points with {report.labels:,} labels: {report.parameters:,} weights "
        f"in {escaped(str(report.model))}"
    ]
    if report.validation is not None:
        measures = ", ".join(f"{name} {100 * value:.2f}" for name, value in report.validation.items())
        lines.append(f"on the validation part: {measures}")
    if report.test is not None:
        lines += [f"on the test part{_unlabelled(report.test)}:", _table(report.test.measures)]
    return "\n".join(lines)


def _unlabelled(answer: "Evaluation") -> str:
    counted = "counted" if answer.all_rows else "left out"
    without = f", {answer.unlabelled} without labels {counted}" if answer.unlabelled else ""
    return without + (f", {answer.strangers} labels that the model does not know left out" if answer.strangers else "")


def _table(measures: dict[str, float]) -> str:
    """Measures in percent, a line for each, a column for each k."""
    names = list(dict.fromkeys(name.split("@")[0] for name in measures))
    ks = list(dict.fromkeys(name.split("@")[1] for name in measures))
    lines = ["          " + "".join(f"{'@' + k:>8}" for k in ks)]
    return "\n".join(lines + [f"{n:10}" + "".join(f"{100 * measures[f'{n}@{k}']:8.2f}" for k in ks) for n in names])
