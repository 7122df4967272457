"""Our recipes beside napkinxc's label trees, an ensemble of three of them, and one-vs-rest, on the same files.

`python benchmarks/labels_accuracy.py FOLDER [NAME...] [--methods best fast PLT "PLT x 3" BR] [--seeds 5]`
Takes every pair of files NAME_train and NAME_test (.txt or .arff, packed or not) of the folder, smallest first, trains
each method with each seed in one thread, and prints test nDCG@5 and PSnDCG@5, mean and deviation, over the points that
have labels and over all, with the processor's seconds and the size of the files. Every result is written to
results/labels-accuracy.json as soon as it is there, and is not made again, unless --fresh says so; several calls may
work on different names or methods one after the other. In the end the frontier is drawn: results/labels-frontier.svg.
"""

import argparse
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring import show
from rich.console import Console

from carving.lab.beyond.label_frontier import EXPERIMENT
from carving.lab.experiment import Points
from carving.lab.figures import draw
from carving.lab.measures.rivals import METHODS, PREDICTION, SIZE, TRAINING, measured
from carving.lab.rows import Row, versions
from carving.multilabel.data import read

OUTPUT = Path(__file__).parent.parent / "results" / "labels-accuracy.json"
FIGURE = OUTPUT.with_name("labels-frontier")
TRAIN = re.compile(r"(.+)[-_]train(\.(?:txt|arff)(?:\.(?:xz|gz|bz2))?)$")
ORDER = ("fast", "PLT", "PLT x 3", "best", "BR")  # the quick ones first


def pairs(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The data sets of a folder: names and files, the smallest first."""
    files = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_size):
        if match := TRAIN.match(file.name):
            others = sorted(folder.glob(f"{match[1]}[-_]test{match[2]}"))
            if others:
                files[match[1]] = (file, others[0])
    return files


def table(rows: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Mean ± deviation over seeds, in percent."""
    lines = []
    for name, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        results = [row["measured"] for row in rows if (row["dataset"], row["method"]) == (name, method)]
        line: dict[str, object] = {"data set": name, "method": method, "seeds": len(results)}
        for quantity in ("nDCG@5", "PSnDCG@5", "nDCG@5 over all", "P@1"):
            values = [100 * result[quantity] for result in results]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            line[quantity] = f"{statistics.fmean(values):.2f}{spread}"
        for quantity in (TRAINING, PREDICTION, SIZE):
            values = [result[quantity] for result in results if quantity in result]
            line[quantity] = round(statistics.fmean(values), 2) if values else "-"
        lines.append(line)
    return lines


def drawn(rows: list[dict[str, Any]]) -> None:
    """The frontier: a panel for each data set and cost."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    panels = tuple(
        Points(cost, "nDCG@5", ("method",), f"{name}, {cost}", equal=False, only={"dataset": name})
        for cost in (TRAINING, SIZE)
        for name in names
    )
    known = [
        Row(
            experiment=EXPERIMENT.name,
            setting={"dataset": row["dataset"], "method": row["method"]},
            trial=row["seed"],
            seed=row["seed"],
            measured=row["measured"],
            seconds=0.0,
            threads=1,
            versions=versions(),
        )
        for row in rows
        if TRAINING in row["measured"]
    ]
    draw(replace(EXPERIMENT, panels=panels), known, FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="data sets; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(ORDER))
    parser.add_argument("--fresh", action="store_true", help="make the results of these names and methods again")
    given, console = parser.parse_args(), Console(width=180)
    files = pairs(given.folder)
    if not files or set(given.names) - set(files):
        parser.error(f"{given.folder} has the data sets {', '.join(files) or 'none at all: NAME_train.txt is missing'}")
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    if given.fresh:
        rows = [r for r in rows if r["method"] not in given.methods or r["dataset"] not in (given.names or files)]
    done = {(row["dataset"], row["method"], row["seed"]) for row in rows}
    for name in given.names or files:
        train, test = (read(file) for file in files[name])
        for method in given.methods:
            for seed in (seed for seed in range(given.seeds) if (name, method, seed) not in done):
                with console.status(f"{name}, {method}, seed {seed}"):
                    result = measured(method, train, test, seed)
                rows.append(dict(dataset=name, method=method, seed=seed, measured=result))
                OUTPUT.parent.mkdir(exist_ok=True)
                OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    show(console, "test part, percent; mean ± deviation over seeds", table(rows))
    if rows:
        drawn(rows)


if __name__ == "__main__":
    main()
