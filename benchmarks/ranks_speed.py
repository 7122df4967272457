"""What ranks are worth on one machine: storing, joint decoding and learning with two workers beside one process.

    python benchmarks/ranks_speed.py [--workers 2] [--pairs 200000] [--paths 8000] [--times 3] [--only storing]

Every process has one thread, and starts its clock when all of them are there. Storing reads a file of triples, each
rank its part, into OSC(d=80, p=3). Clocks are those on the wall, and the processor's beside them, where others use the
machine: of several ranks the one that took longest, of several runs the median. `exchanges` is the part of the time
that was spent in exchanges, waiting for others included. `rates` are what docs/distributed.md reckons with: of one
thread, in the processor's own time. It goes into results/ranks-speed.json, and from there into the page by tables.py.
"""

import argparse
import json
import os
import pickle
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from measuring import Row, show, write
from rich.console import Console

from carving import OSC, Memory, formats
from carving.cli.ranks import launch
from carving.distributed import Ranks, process_group
from carving.errors import Overfull

VALUES = 20_000
ENOUGH = 200_000  # pairs of which figures are kept
WANTED = {"storing": 1.6, "decoding": 1.5}  # times as fast as one process, with two workers
EXCHANGES = 0.1  # of the time, at most


def storing(ranks: Ranks, given: argparse.Namespace) -> Callable[[], object]:
    memory = Memory(OSC(d=80, p=3)).distributed(ranks)
    return lambda: memory.store(formats.shared([given.folder / "graph.tsv"], ranks))


def decoding(ranks: Ranks, given: argparse.Namespace) -> Callable[[], object]:
    """A memory that only joint decoding reads."""
    memory = Memory(OSC(d=44, p=3, compact=True))
    pairs = [((f"place {i}",), f"value {i * 7 % 2_000}") for i in range(given.paths)]
    memory.store(pairs)
    paths = [path for path, _ in pairs]

    def run() -> None:
        answers = memory.distributed(ranks).decode(paths)
        assert answers.converged, "the memory is too full"

    return run


def learning(ranks: Ranks, given: argparse.Namespace) -> Callable[[], object]:
    """One pass over points of 2,000 features and 1,000 labels, in batches of 512."""
    from scipy.sparse import random_array

    from carving.multilabel import MultiLabelClassifier, Settings
    from carving.multilabel.ranks import learning_on

    chance = np.random.default_rng(0)
    features = random_array((given.points, 2_000), density=0.05, rng=0, dtype=np.float32).tocsr()
    labels = np.zeros((given.points, 1_000), dtype=np.float32)
    np.put_along_axis(labels, chance.integers(0, 1_000, (given.points, 3)), 1, axis=1)
    settings = Settings(architecture="deep", hidden=512, loss="softmax", batch_size=512, epochs=1)

    def run(points: int = given.points) -> None:
        with learning_on(ranks):
            MultiLabelClassifier(settings=settings, validation=0).fit(features[:points], labels[:points])

    run(512)  # all modules are there then
    return run


def summing(ranks: Ranks, numbers: int = 80**3 * 8) -> dict[str, float]:
    """Seconds of a sum of 16 MB in order, in double precision, and of torch's own all-reduce in float32 and float64."""
    from torch import distributed as dist

    single = torch.randn(numbers)
    ways = {
        "in order": lambda: ranks.sum_(single.clone()),
        "all-reduce": lambda: dist.all_reduce(single.clone(), group=ranks.group),
        "all-reduce in float64": lambda: dist.all_reduce(single.double(), group=ranks.group),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, run in ways.items():
            ranks.gather(None)
            start = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in taken.items()}


KINDS: dict[str, Callable[[Ranks, argparse.Namespace], Callable[[], object]]] = dict(
    storing=storing, decoding=decoding, learning=learning
)


class TimedRanks(Ranks):
    """Ranks that count the seconds of exchanges, which include waiting for others."""

    waited = 0.0

    def exchange(self, work: Callable[[], object]) -> object:
        """Time an exchange."""
        start = time.perf_counter()
        try:
            return super().exchange(work)
        finally:
            self.waited += time.perf_counter() - start


def work(given: argparse.Namespace) -> None:
    """What a rank does; the first writes what all took."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Overfull)
    with process_group() as joined:
        ranks = TimedRanks(joined.group)
        if given.only == "sums":
            figures: object = summing(ranks)
        else:
            run = KINDS[given.only](ranks, given)
            ranks.gather(None)
            wall, busy, ranks.waited = time.perf_counter(), time.process_time(), 0.0
            run()
            figures = (time.perf_counter() - wall, time.process_time() - busy, ranks.waited)
        every = ranks.gather(figures)
        if ranks.first:
            given.out.write_text(json.dumps(every))


def measured(given: argparse.Namespace, only: str, workers: int) -> list[list[float]]:
    """The seconds of every rank, on the wall, of the processor, and in exchanges."""
    out = given.folder / "figures.json"
    sizes = [f"--{name}={getattr(given, name)}" for name in ("paths", "points", "folder")]
    os.environ["OMP_NUM_THREADS"] = "1"
    ended = launch([sys.executable, __file__, f"--only={only}", *sizes, f"--out={out}", "--rank"], workers)
    assert ended.status == 0, ended
    return json.loads(out.read_text())


def row(given: argparse.Namespace, only: str) -> Row:
    runs = []
    for _ in range(given.times):
        (alone, busy, _), many = measured(given, only, 1)[0], measured(given, only, given.workers)
        wall, busiest = max(each[0] for each in many), max(each[1] for each in many)
        share = max(each[2] for each in many) / wall
        runs.append((alone, wall, alone / wall, busy / busiest, share))
    alone, wall, faster, lighter, share = (statistics.median(each) for each in zip(*runs, strict=True))
    return dict(
        what=only, workers=given.workers, one_process_s=alone, workers_s=wall, times_as_fast=faster,
        by_processor_time=lighter, exchanges=share,
    )  # fmt: skip


def compared(rows: list[Row]) -> list[Row]:
    """What was wanted beside what was measured."""
    told: list[Row] = []
    for found in rows:
        if found["what"] in WANTED:
            figures = dict(wanted=WANTED[str(found["what"])], measured=found["times_as_fast"])
            told.append(dict(figure=f"{found['what']}, {found['workers']} workers: times one process") | figures)
            figures = dict(wanted=f"< {EXCHANGES:.0%}", measured=f"{found['exchanges']:.1%}")
            told.append(dict(figure=f"{found['what']}: exchanges, part of the time") | figures)
    return told


# Rates, of one thread in this process


def busy(run: Callable[[], object], times: int = 3) -> float:
    """The processor's seconds of a call, the least of some."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def rates(folder: Path) -> Row:
    """What the page reckons with."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Overfull)
    lines = (f"entity {i % 9_973}\trelation {i % 37} {i}\tleaf {i * 7 % VALUES}\n" for i in range(20_000))
    (folder / "rates.tsv").write_text("".join(lines))

    def stored(scheme: OSC, pairs: int = 20_000) -> float:
        given = list(islice(formats.shared([folder / "rates.tsv"], Ranks.alone()), pairs))
        return busy(lambda: Memory(scheme).store(given)) / pairs

    reading = busy(lambda: list(formats.shared([folder / "rates.tsv"], Ranks.alone()))) / 20_000
    small, large = stored(OSC(d=80, p=3)), stored(OSC(d=160, p=3), 6_000)
    operations = 2 * (160**3 - 80**3) / (large - small)  # of which the two differ
    compact, values = OSC(d=200, p=2, compact=True), 50_000
    memory = Memory(compact, range(values))
    memory.store([((i,), i) for i in range(500)])
    paths = [(i,) for i in range(512)]
    memory.recall_many(paths, recall_target=1)
    weighed = 512 * values / busy(lambda: memory.recall_many(paths, recall_target=1))
    labels = [f"entity {i * 7919 % 10_000_019}" for i in range(10_000)]
    sent = len(pickle.dumps({f"s{len(label)}:{label}".encode(): 1.0 for label in labels})) / len(labels)
    return dict(
        pair_us=1e6 * (reading + small), product_us=1e6 * 2 * 80**3 / operations, operations=operations,
        compact_pair_us=1e6 * (reading + stored(compact)), candidates=weighed, label_bytes=sent,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--paths", type=int, default=8_000)
    parser.add_argument("--points", type=int, default=5_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=[*KINDS, "sums", "rates"])
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        work(given)
        return
    console, found = Console(), dict[str, object]()
    with tempfile.TemporaryDirectory() as folder:
        given.folder = Path(folder)
        lines = (f"entity {i % 9_973}\trelation {i % 37} {i}\tleaf {i * 7 % VALUES}\n" for i in range(given.pairs))
        (given.folder / "graph.tsv").write_text("".join(lines))
        if given.only in (None, "rates"):
            found["rates"] = rates(given.folder)
            show(console, "Rates of one thread", [found["rates"]])
        if given.only in (None, "sums"):
            parts = measured(given, "sums", given.workers)
            found["sums"] = {f"{way}, ms": 1e3 * max(each[way] for each in parts) for way in parts[0]}
            show(console, "Sums of 16 MB over two processes", [found["sums"]])
        rows = [row(given, only) for only in KINDS if given.only in (None, only)]
    show(console, "Ranks on one machine", rows)
    show(console, "Wanted and measured", compared(rows))
    if given.only is None and given.pairs >= ENOUGH:
        write("ranks-speed.json", found | dict(rows=rows, wanted=compared(rows)))


if __name__ == "__main__":
    main()
