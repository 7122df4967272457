"""`carving predict`, and what `carving info` says of a label model; what they call is loaded when they run."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carving.cli.labels import Points
from carving.cli.options import Json, examples
from carving.cli.output import write_json, write_line
from carving.validate import show_bytes

if TYPE_CHECKING:
    from carving.multilabel import MultiLabelClassifier

PREDICT_EPILOG = examples(
    "carving predict news.safetensors fresh.jsonl",
    "carving predict bibtex.safetensors bibtex_test.txt.xz --top 5 --json",
)
FIRST = 5  # names that are shown of many


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `carving train`.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Samples in the format of the training data; documents as .jsonl, or one per line."
        ),
    ],
    points: Points,
    top: Annotated[int | None, typer.Option(min=1, help="Print this many labels of each sample, best first.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Minimum probability of a label. Default: the threshold of the model."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the labels of samples, with probabilities.

    Prints one line per sample with its labels, best first; the line is empty if there are none.
    """
    from carving.multilabel import MultiLabelClassifier

    made = MultiLabelClassifier.load(model)
    features = points.of(data, made.pool_).features(made.vectorizer_)
    for row, found in enumerate(made.predict_named(features, top, threshold=threshold)):
        if as_json:
            write_json(dict(point=row, labels=[dict(label=label, probability=p) for label, p in found]))
        else:
            write_line(*(f"{label} {p:.2f}" for label, p in found)) if found else write_line("")


def write_model(file: Path, as_json: bool) -> None:
    """What a label model is."""
    from carving.multilabel import MultiLabelClassifier

    made = MultiLabelClassifier.load(file)
    facts = _facts(made) | dict(file=str(file), bytes=file.stat().st_size)
    if as_json:
        write_json(facts)
        return
    names = ", ".join(map(str, made.classes_[:FIRST].tolist())) + (", ..." if made.n_labels_ > FIRST else "")
    head = f"{made.head} head, " if made.head_ is not None else ""  # where there are networks
    hidden = " and ".join(map(str, facts["hidden"]))
    student = f"a network with {hidden} hidden units, " if hidden else ""
    write_line(f"Label model: {made.n_labels_:,} labels ({names}), {head}{student}{facts['weights']:,} weights.")
    kind = (
        f"documents, {made.n_features_in_:,} words"
        if made.vectorizer_ is not None
        else f"{made.n_features_in_:,} features"
    )
    pooled = f", averages of {made.pool_} columns each" if made.pool_ > 1 else ""
    write_line(f"Input: {kind}{pooled}. Trained by {facts['trained by']}, seed {made.seed}.")
    write_line(f"Threshold: labels of probability {made.calibration_.threshold:.2f} or higher are predicted.")
    write_line(f"File size: {show_bytes(file.stat().st_size)}.")


def _facts(made: "MultiLabelClassifier") -> dict[str, Any]:
    networks: Iterable[str] = dict.fromkeys(settings.architecture for settings in made.settings_)
    matcher = made.scorer_.matcher
    way = f"the recipe {made.recipe}" if made.settings is None else "its own settings"
    return {
        "kind": "label model",
        "labels": made.n_labels_,
        "features": made.n_features_in_,
        "head": None if made.head_ is None else made.head,
        "weights": made.scorer_.count,
        "networks": list(networks),
        "matcher": matcher is not None,
        "hidden": [] if matcher is None else [len(layer.bias) for layer in matcher.hidden],
        "rerankers": made.scorer_.rerankers is not None,
        "trained by": way,
        "texts": made.vectorizer_ is not None,
        "pool": made.pool_,
        "threshold": made.calibration_.threshold,
        "seed": made.seed,
    }
