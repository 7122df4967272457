"""`carving train` and `carving evaluate`: commands only translate; what they call is loaded when they run."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carving.cli.options import Json, Work, examples
from carving.cli.output import count_text, errors, escaped, write_json, write_line
from carving.cli.ranks import together

if TYPE_CHECKING:
    from carving.multilabel.data import Source
    from carving.multilabel.runs import Evaluation, Report

TRAIN_EPILOG = examples(
    "carving train bibtex_train.txt.xz bibtex.safetensors --test bibtex_test.txt.xz",
    "carving train news.jsonl news.safetensors",
    "carving train mediamill-train.arff small.safetensors --labels -101 --architecture linear --epochs 5",
)
EVALUATE_EPILOG = examples("carving evaluate bibtex.safetensors bibtex_test.txt.xz")

AllRows = Annotated[
    bool, typer.Option("--all-rows", help="Include test samples without labels in the averages, scoring them 0.")
]


@dataclass(frozen=True)
class Points:
    """How a file of points is read."""

    split: Annotated[Path | None, typer.Option(help="Split file: the rows of DATA to use.")] = None
    column: Annotated[int, typer.Option(min=0, help="Column of the split files to use, from 0.")] = 0
    labels: Annotated[
        str | None,
        typer.Option(
            help="ARFF: the XML file of the labels, or their number (negative: the last columns). Other formats: "
            "a file of labels."
        ),
    ] = None
    pool: Annotated[
        int | None,
        typer.Option(
            min=1, help="Average groups of this many consecutive features. Default: 1, or as the model was trained."
        ),
    ] = None

    def of(self, file: Path, pool: int = 1) -> "Source":
        """The file, with how it is read."""
        from carving.multilabel.data import Source

        labels: str | int | None = self.labels
        if self.labels is not None and re.fullmatch("-?[0-9]{1,18}", self.labels):
            labels = int(self.labels)
        return Source(path=file, split=self.split, column=self.column, labels=labels, pool=self.pool or pool)


@dataclass(frozen=True)
class Testing:
    """On what a model is evaluated in the end."""

    test: Annotated[Path | None, typer.Option(help="Test samples to evaluate the trained model on.")] = None
    test_split: Annotated[Path | None, typer.Option(help="Split file of the test samples.")] = None
    test_labels: Annotated[str | None, typer.Option(help="Labels of the test samples, if in another file.")] = None
    all_rows: AllRows = False

    def source(self, points: Points) -> "Source | None":
        """The test points, read as the training points but for what is said otherwise."""
        own = Points(self.test_split, points.column, self.test_labels or points.labels, points.pool)
        return None if self.test is None else own.of(self.test)


@dataclass(frozen=True)
class Training:
    """What is trained, and how."""

    head: Annotated[str, typer.Option(help="Output layer: OSC, or for comparison HLB, MAP, VTB or HRR.")] = "OSC"
    architecture: Annotated[
        str | None, typer.Option(help="Train a single network instead of the recipe: deep, linear, or both (added).")
    ] = None
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the data. Default: from the number of samples.")
    ] = None
    validation: Annotated[
        float, typer.Option(help="Single network: fraction of the samples in the validation set.")
    ] = 0.15
    patience: Annotated[
        int, typer.Option(min=1, help="Single network: epochs without improvement before early stopping.")
    ] = 4
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0
    recipe: Annotated[
        str,
        typer.Option(
            help="best: networks and rerankers. fast: a linear model in closed form, in seconds and nearly as good."
        ),
    ] = "best"
    rerank_min_count: Annotated[
        int, typer.Option(min=0, help="Train a reranker for labels with at least this many samples; 0 for none.")
    ] = 1


def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Training samples: text of the extreme classification repository, ARFF, or documents (.jsonl).",
        ),
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file to write (.safetensors).")],
    points: Points,
    testing: Testing,
    wanted: Training,
    work: Work,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite MODEL even if it is not a label model.")] = False,
    as_json: Json = False,
) -> None:
    """Train a multi-label classifier. An interrupted run resumes from its checkpoint."""
    from carving.multilabel.bars import bars
    from carving.multilabel.runs import Wish, run

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
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `carving train`.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Test samples.")],
    points: Points,
    all_rows: AllRows = False,
    as_json: Json = False,
) -> None:
    """Evaluate a trained classifier on test samples."""
    from carving.multilabel.classifier import MultiLabelClassifier
    from carving.multilabel.runs import evaluated

    made = MultiLabelClassifier.load(model)
    answer = evaluated(made, points.of(data, made.pool_).read(made.vectorizer_, made.label_format_), all_rows)
    if as_json:
        facts = dict(points=answer.points, unlabeled=answer.unlabeled, unknown_labels=answer.unknown_labels)
        write_json(dict(model=str(model)) | facts | dict(measures=answer.measures))
    else:
        _write_text(f"{count_text(answer.points, 'sample')}{_unlabeled(answer)}\n{_table(answer.measures)}")


def _write_text(text: str) -> None:
    for line in text.split("\n"):
        write_line(line)


def _as_json(report: "Report") -> dict[str, object]:
    facts: dict[str, object] = dict(model=str(report.model), points=report.points, labels=report.labels)
    facts |= dict(parameters=report.parameters, validation=report.validation)
    if report.test is not None:
        facts |= dict(test=report.test.measures, unlabeled=report.test.unlabeled, all_rows=report.test.all_rows)
        facts |= dict(unknown_labels=report.test.unknown_labels)
    return facts


def _as_text(report: "Report") -> str:
    lines = [
        f"Trained on {count_text(report.points, 'sample')} with {count_text(report.labels, 'label')}: "
        f"{report.parameters:,} weights in {escaped(str(report.model))}"
    ]
    if report.validation is not None:
        measures = ", ".join(f"{name} {100 * value:.2f}" for name, value in report.validation.items())
        lines.append(f"Validation set: {measures}")
    if report.test is not None:
        lines += [f"Test set{_unlabeled(report.test)}:", _table(report.test.measures)]
    return "\n".join(lines)


def _unlabeled(answer: "Evaluation") -> str:
    counted = "scored 0" if answer.all_rows else "skipped"
    without = f", {answer.unlabeled} without labels {counted}" if answer.unlabeled else ""
    return without + (
        f", {count_text(answer.unknown_labels, 'unknown label')} skipped" if answer.unknown_labels else ""
    )


def _table(measures: dict[str, float]) -> str:
    """Measures in percent, a line for each, a column for each k."""
    names = list(dict.fromkeys(name.split("@")[0] for name in measures))
    ks = list(dict.fromkeys(name.split("@")[1] for name in measures))
    lines = ["          " + "".join(f"{'@' + k:>8}" for k in ks)]
    return "\n".join(lines + [f"{n:10}" + "".join(f"{100 * measures[f'{n}@{k}']:8.2f}" for k in ks) for n in names])
