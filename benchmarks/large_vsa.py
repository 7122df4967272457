"""HLB at the sizes where the paper's codebook filled or burst a GPU: fillers are made in chunks and never held.

`make bench-large` - about five minutes a size on two cores. Prints the accuracy beside
the closed form, the time, and the largest resident memory; writes results/large-vsa.json.
"""

import json
import resource
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from carving import make, top
from carving.prediction.alone import vsa_accuracy

OUTPUT = Path(__file__).parent.parent / "results" / "large-vsa.json"


def run(d: int, console: Console, pairs: int = 10_000, asked: int = 1_000) -> dict[str, float]:
    start = time.perf_counter()
    scheme = make("HLB", d=d, workspace=512 * 2**20)
    memory = scheme.zeros()
    for first in track(range(0, pairs, 100), f"storing {pairs:,} pairs at d={d:,}", console=console):
        numbers = range(first, first + 100)
        memory += scheme.trace([(i,) for i in numbers], numbers)
    stored = time.perf_counter()
    with console.status(f"asking {asked:,} questions"):
        found = top(scheme, memory, [(i,) for i in range(asked)], range(pairs)).indices[:, 0]
    right = found.eq(torch.arange(asked)).double().mean().item()
    return {
        "d": d,
        "pairs": pairs,
        "asked": asked,
        "accuracy": right,
        "predicted": vsa_accuracy(d, pairs, pairs),
        "storing_seconds": stored - start,
        "asking_seconds": time.perf_counter() - stored,
        "largest_resident_GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    console = Console()
    rows = []
    for d in map(int, sys.argv[1:] or (343_000, 421_875)):
        rows.append(run(d, console))
        console.print(rows[-1])
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
