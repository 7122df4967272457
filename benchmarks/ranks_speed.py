"""What ranks are worth on one machine: storing and joint decoding with two workers beside one process.

    python benchmarks/ranks_speed.py [--workers 2] [--pairs 200000] [--paths 8000] [--only storing|decoding|sums]

Every process has one thread, and starts its clock when all of them are there. Storing reads a file of triples, each
rank its part, into OSC(d=80, p=3). Clocks are those on the wall, and the processor's beside them, where others use the
machine: of several ranks the one that took longest. `exchanges` is the part of the time that was spent in exchanges,
waiting for others included.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from measuring import Row, show
from rich.console import Console

from carving import OSC, Memory, formats
from carving.distributed import Ranks, joined
from carving.distributed.launching import launch
from carving.errors import Overfull

LEAVES = 20_000


def storing(ranks: Ranks, folder: Path) -> None:
    memory = Memory(OSC(d=80, p=3))
    memory.store(formats.shared([folder / "graph.tsv"], ranks), group=ranks if ranks.size > 1 else None)


def prepared_decoding(paths: int) -> tuple[Memory, list[tuple[object, ...]]]:
    """A memory that only joint decoding reads, and its paths."""
    memory = Memory(OSC(d=44, p=3, compact=True))
    pairs = [((f"place {i}",), f"leaf {i * 7 % 2_000}") for i in range(paths)]
    memory.store(pairs)
    return memory, [path for path, _ in pairs]


def decoding(ranks: Ranks, memory: Memory, paths: list[tuple[object, ...]]) -> float:
    answers = memory.recall_all(paths, group=ranks if ranks.size > 1 else None)
    assert answers.converged, "the memory is too full"
    return sum(answer.leaf == f"leaf {i * 7 % 2_000}" for i, answer in enumerate(answers)) / len(paths)


def summing(ranks: Ranks, numbers: int) -> dict[str, float]:
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


def work(given: argparse.Namespace) -> None:
    """What a rank does; the first writes what all took."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Overfull)
    with joined() as ranks:
        if given.only == "sums":
            figures: object = summing(ranks, 80**3 * 8)
        else:
            rest = () if given.only == "storing" else prepared_decoding(given.paths)
            ranks.gather(None)
            wall, busy, ranks.waited = time.perf_counter(), time.process_time(), 0.0
            storing(ranks, given.folder) if given.only == "storing" else decoding(ranks, *rest)
            figures = (time.perf_counter() - wall, time.process_time() - busy, ranks.waited)
        every = ranks.gather(figures)
        if ranks.first:
            given.out.write_text(json.dumps(every))


def measured(given: argparse.Namespace, only: str, workers: int) -> list[list[float]]:
    """The seconds of every rank, on the wall, of the processor, and in exchanges."""
    out = given.folder / "figures.json"
    options = [f"--only={only}", f"--paths={given.paths}", f"--folder={given.folder}", f"--out={out}", "--rank"]
    os.environ["OMP_NUM_THREADS"] = "1"
    ended = launch([sys.executable, __file__, *options], workers)
    assert ended.status == 0, ended
    return json.loads(out.read_text())


def row(given: argparse.Namespace, only: str) -> Row:
    one, many = measured(given, only, 1), measured(given, only, given.workers)
    alone, busy, _ = one[0]
    wall, busiest = max(each[0] for each in many), max(each[1] for each in many)
    return {
        "what": only,
        "one process (s)": round(alone, 2),
        f"{given.workers} workers (s)": round(wall, 2),
        "times as fast": round(alone / wall, 2),
        "by processor time": round(busy / busiest, 2),
        "exchanges": f"{max(each[2] for each in many) / wall:.1%}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--paths", type=int, default=8_000)
    parser.add_argument("--only", choices=["storing", "decoding", "sums"])
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        work(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        given.folder = Path(folder)
        lines = (f"entity {i % 9_973}\trelation {i % 37} {i}\tleaf {i * 7 % LEAVES}\n" for i in range(given.pairs))
        (given.folder / "graph.tsv").write_text("".join(lines))
        if given.only in (None, "sums"):
            parts = measured(given, "sums", given.workers)
            Console().print({way: f"{1e3 * max(each[way] for each in parts):.1f} ms" for way in parts[0]})
        kinds = [only for only in ("storing", "decoding") if given.only in (None, only)]
        show(Console(), "Ranks on one machine", [row(given, only) for only in kinds])


if __name__ == "__main__":
    main()
