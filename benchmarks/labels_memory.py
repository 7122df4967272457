"""What a fit takes of memory at the sizes of the largest data sets: 782,585 features and 205,443 labels.

`python benchmarks/labels_memory.py [--points 1000 4000 16000] [--recipes fast best] [--rerank-min-count 1]` - minutes
to half an hour each, one thread, each fit in a process of its own. Synthetic points: 343 features by a law of Zipf, and
75 labels that bring two words each along. Prints the most that the process took beside what it had with the points
made, seconds of the processor and the model's file, and writes results/labels-memory.json, where every result is kept
as it comes.
"""

import argparse
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from measuring import RESULTS, Row, rise, show
from rich.console import Console
from scipy.sparse import csr_matrix

from carving.multilabel import Dataset, MultiLabelClassifier

FEATURES, LABELS = 782_585, 205_443
STORED, OWN, BROUGHT = 343, 75, 2  # numbers of a point, its labels, words that each of them brings along
OUTPUT = RESULTS / "labels-memory.json"


def points(count: int) -> Dataset:
    """Points whose words and labels are the rarer the larger their number."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, FEATURES, (LABELS, BROUGHT))
    labels = _zipf(rng, LABELS, (count, OWN))
    brought = words[labels].reshape(count, -1)
    others = _zipf(rng, FEATURES, (count, STORED - brought.shape[1]))
    return Dataset(_ones(np.concatenate([brought, others], 1), FEATURES), _ones(labels, LABELS))


def _zipf(rng: np.random.Generator, most: int, shape: tuple[int, int]) -> np.ndarray:
    """Numbers below the most, each with a probability of about one over it."""
    return np.minimum(np.exp(rng.random(shape) * np.log(most)).astype(np.int64), most - 1)


def _ones(columns: np.ndarray, width: int) -> csr_matrix:
    starts = np.arange(len(columns) + 1) * columns.shape[1]
    matrix = csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), starts), (len(columns), width))
    matrix.sum_duplicates()
    return matrix.sign()


def fitted(recipe: str, count: int, rerankers: int | None, epochs: int | None) -> Row:
    """One fit: in a fresh process."""
    torch.set_num_threads(1)
    data, made = points(count), MultiLabelClassifier(recipe=recipe, rerank_min_count=rerankers, epochs=epochs)
    MultiLabelClassifier(recipe="fast").fit(np.eye(30), np.eye(30))  # all that is imported on the way is there
    start = time.process_time()
    taken = rise(lambda: made.fit(data.features, data.labels))
    spent = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "model")
        size = (Path(folder) / "model").stat().st_size
    chosen: Row = dict(recipe=recipe, points=count, rerank_min_count=rerankers, epochs=epochs)
    return chosen | dict(MB=taken / 2**20, seconds=spent, file_MB=size / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[1_000, 4_000, 16_000])
    parser.add_argument("--recipes", nargs="+", default=["fast", "best"], choices=["fast", "best"])
    parser.add_argument(
        "--rerank-min-count", type=int, default=1, help="the points of a label with a reranker; 0 for none"
    )
    parser.add_argument("--epochs", type=int, help="of the networks of best")
    given = parser.parse_args()
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    console = Console(width=160)
    for count in given.points:
        for recipe in given.recipes:
            with console.status(f"{recipe}, {count:,} points"), ProcessPoolExecutor(1, get_context("spawn")) as process:
                row = process.submit(fitted, recipe, count, given.rerankers or None, given.epochs).result()
            same = [all(old[name] == row[name] for name in ("recipe", "points", "rerankers", "epochs")) for old in rows]
            rows = [old for old, replaced in zip(rows, same, strict=True) if not replaced] + [row]
            OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    show(console, "megabytes (2^20) beside the points, seconds of the processor", rows)


if __name__ == "__main__":
    main()
