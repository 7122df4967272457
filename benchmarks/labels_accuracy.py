"""Our recipe beside napkinxc's PLT, on the same files.

`python benchmarks/labels_accuracy.py FOLDER [NAME...]` - an hour or two for the three small data sets on two cores.
Takes every pair of files NAME_train and NAME_test (.txt or .arff, packed or not) of the folder, trains both with each
seed, and prints test nDCG@5 and PSnDCG@5, mean and deviation, over the points that have labels and over all. Every
result is written to results/labels-accuracy.json as soon as it is there, and is not made again, unless --fresh says so.
"""

import argparse
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import show
from napkinxc.models import PLT
from numpy.typing import NDArray
from rich.console import Console

from carving.labels import metrics
from carving.labels.classifier import MultiLabelClassifier
from carving.labels.data import Dataset, read

OUTPUT = Path(__file__).parent.parent / "results" / "labels-accuracy.json"
TRAIN = re.compile(r"(.+)[-_]train(\.(?:txt|arff)(?:\.(?:xz|gz|bz2))?)$")
PLACES = 5

Method = Callable[[Dataset, Dataset, int], NDArray[np.int64]]  # training part, test part, seed: ranked labels (n, 5)


def ours(train: Dataset, test: Dataset, seed: int) -> NDArray[np.int64]:
    model = MultiLabelClassifier(seed=seed).fit(train.features, train.labels)
    return model.rank(test.features, PLACES)[0]


def plt(train: Dataset, test: Dataset, seed: int) -> NDArray[np.int64]:
    """Probabilistic label trees with napkinxc's own settings."""
    with tempfile.TemporaryDirectory() as folder:
        model = PLT(folder, seed=seed)
        model.fit(train.features, [row.indices.tolist() for row in train.labels])
        ranked = model.predict(test.features, top_k=PLACES)
    return np.array([_filled(row, test.labels.shape[1]) for row in ranked])


def _filled(row: list[int], known: int) -> list[int]:
    """A ranking of five even where the tree knows fewer labels."""
    rest = (label for label in range(known) if label not in row)
    return (list(row) + [next(rest) for _ in range(PLACES - len(row))])[:PLACES]


METHODS: dict[str, Method] = {"ours": ours, "PLT": plt}


def pairs(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The data sets of a folder: names and files."""
    files = {}
    for file in sorted(folder.iterdir()):
        if match := TRAIN.match(file.name):
            others = sorted(folder.glob(f"{match[1]}[-_]test{match[2]}"))
            if others:
                files[match[1]] = (file, others[0])
    return files


def measured(method: Method, train: Dataset, test: Dataset, seed: int) -> dict[str, float]:
    start = time.perf_counter()
    ranked = method(train.labelled(), test, seed)
    seconds = time.perf_counter() - start
    propensities = metrics.propensities(train.labels)
    labelled = metrics.measures(ranked, test.labels, propensities, (1, 3, 5))
    every = metrics.measures(ranked, test.labels, propensities, (5,), unlabelled=True)
    return labelled | {f"{name} over all": every[name] for name in ("nDCG@5", "PSnDCG@5")} | {"seconds": seconds}


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
        line["seconds"] = statistics.fmean(result["seconds"] for result in results)
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="data sets; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--fresh", action="store_true", help="make the results of these names and methods again")
    given, console = parser.parse_args(), Console(width=150)
    files = pairs(given.folder)
    if not files or set(given.names) - set(files):
        parser.error(f"{given.folder} has the data sets {', '.join(files) or 'none at all: NAME_train.txt is missing'}")
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    if given.fresh:
        rows = [r for r in rows if r["method"] not in given.methods or r["dataset"] not in (given.names or files)]
    done = {(row["dataset"], row["method"], row["seed"]) for row in rows}
    for name in given.names or files:
        train, test = (read(file) for file in files[name])
        for seed in range(given.seeds):
            for method in given.methods:
                if (name, method, seed) not in done:
                    with console.status(f"{name}, {method}, seed {seed}"):
                        result = measured(METHODS[method], train, test, seed)
                    rows.append(dict(dataset=name, method=method, seed=seed, measured=result))
                    OUTPUT.parent.mkdir(exist_ok=True)
                    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    show(console, "test part, percent; mean ± deviation over seeds", table(rows))


if __name__ == "__main__":
    main()
