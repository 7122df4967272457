"""Compact fillers beside ordinary ones, and beside what the machine can do.

`python benchmarks/compact_speed.py` - a minute on two cores. 256 queries over 10,000 candidates; everything is measured
in one run, the rivals taking turns, so that the ratios hold on a busy machine too. With OMP_NUM_THREADS=1 the time of
the processor counts, which others on the machine hardly change. Prints a table and writes results/compact-speed.json.
Wanted: 5 times as fast as ordinary fillers at B2, twice at B3, 40 % of the rate of a large
product.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from carving.schemes.osc import OSC

SETTINGS = {"B2": (200, 2), "B3": (75, 3)}
WANTED = {"B2": 5.0, "B3": 2.0}
SHARE = 0.4
OUTPUT = Path(__file__).parent.parent / "results" / "compact-speed.json"


def medians(rivals: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Median seconds of each rival; they take turns until the time is used up, five turns at least."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turns < 5:
        for name, run in rivals.items():
            run()  # the next finds in the caches what this rival, not the one before it, left there
            start = clock()
            run()
            taken[name].append(clock() - start)
        turns += 1
    return {name: statistics.median(times) for name, times in taken.items()}


def square(size: int = 2048) -> tuple[Callable[[], Tensor], float]:
    """A square product, whose rate the other products are compared with, and its operations."""
    one, other = torch.randn(size, size), torch.randn(size, size)
    return lambda: one @ other, 2.0 * size**3


def operations(scheme: OSC, queries: int, vocabulary: int) -> float:
    """Of reading the cores mode after mode, and of multiplying them with the candidates'."""
    d, p, k1 = scheme.d, scheme.p, scheme.k1
    reading = sum(2 * k1**mode * d ** (p - mode + 1) for mode in range(1, p + 1))
    return float(queries * (reading + 2 * vocabulary * k1**p))


def measured(name: str, queries: int, vocabulary: int, seconds: float) -> dict[str, object]:
    d, p = SETTINGS[name]
    ordinary, compact = OSC(d, p), OSC(d, p, compact=True)
    paths, held = [(i,) for i in range(queries)], torch.arange(queries)
    sides = {}
    for scheme in (ordinary, compact):
        contexts, fillers = scheme.contexts(paths), scheme.fillers(range(vocabulary))
        memory = scheme.trace(contexts, fillers[:queries])
        assert scheme.score(memory, contexts, fillers).argmax(1).equal(held)
        sides[scheme.compact] = memory, contexts, fillers
    precomputed = compact.precompute(sides[True][2])
    product, work = square()
    taken = medians(
        {
            "ordinary": lambda: ordinary.score(*sides[False]).argmax(1),
            "compact": lambda: compact.score(*sides[True]).argmax(1),
            "precomputed": lambda: compact.score(*sides[True][:2], precomputed).argmax(1),
            "reading": lambda: compact.read(*sides[True][:2]),
            "gemm": product,
        },
        seconds,
    )
    rate, best = operations(compact, queries, vocabulary), work / taken["gemm"]
    return {
        "setting": name,
        "ordinary_ms": 1e3 * taken["ordinary"],
        "compact_ms": 1e3 * taken["compact"],
        "precomputed_ms": 1e3 * taken["precomputed"],
        "reading_ms": 1e3 * taken["reading"],
        "ordinary_over_compact": taken["ordinary"] / taken["compact"],
        "ordinary_over_precomputed": taken["ordinary"] / taken["precomputed"],
        "wanted": WANTED[name],
        "gemm_GFLOP_s": best / 1e9,
        "share_compact": rate / taken["compact"] / best,
        "share_precomputed": rate / taken["precomputed"] / best,
        "share_wanted": SHARE,
    }


def main(queries: int = 256, vocabulary: int = 10_000, seconds: float = 20.0) -> None:
    console = Console(width=160)
    with torch.inference_mode():
        rows = [measured(name, queries, vocabulary, seconds) for name in track(SETTINGS, "B2, B3", console=console)]
    table = Table(title=f"{queries} queries, {vocabulary:,} candidates", title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:,.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)
    found = {"torch": torch.__version__, "threads": torch.get_num_threads(), "machine": platform.machine()}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(found | {"queries": queries, "vocabulary": vocabulary, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
