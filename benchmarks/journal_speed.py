"""What small changes of a large memory cost: one pair with `carving store`, and 10,000 with `carving.open`.

    python benchmarks/journal_speed.py [FOLDER]

A memory of 100 MB with 40,000 values lies in the folder, whose file system is told; everything is flushed to disk. One
thread, and clocks on the wall, since a disk is waited for, and the processor's beside them, where others use the
machine. Each `carving store` is the first of a process of its own, timed from the end of its imports.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from measuring import Row, show
from rich.console import Console

import carving
from carving import OSC, Memory

VALUES, STORES, PART = 40_000, 10_000, 1_000
STORE = """
import sys, time
from pathlib import Path
import torch
from carving.cli import memories
from carving.cli.options import NewMemory, Reading, Work
torch.set_num_threads(1)
start, busy = time.perf_counter(), time.process_time()
memories.store(Path(sys.argv[1]), sys.argv[2:], Reading(), NewMemory(), Work())
print(time.perf_counter() - start, time.process_time() - busy)
"""


def wall(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def command(file: Path, source: Path) -> list[float]:
    """The seconds of `carving store`, imports aside, on the wall and of the processor."""
    run = subprocess.run([sys.executable, "-c", STORE, file, source], capture_output=True, text=True, check=True)
    return [float(word) for word in run.stdout.splitlines()[-1].split()]


def one_pair(file: Path) -> Row:
    """`carving store` of a file with one line, beside writing the whole memory."""
    times = []
    for number in range(16):
        source = file.with_name("pair.tsv")
        source.write_text(f"new {number}\tsays\t{'another' if number % 2 else 'value 7'}\n")
        times.append(command(file, source))
    held = Memory.load(file)
    whole = statistics.median(wall(lambda: held.save(file.with_name("copy"))) for _ in range(3))
    loading = statistics.median(wall(lambda: Memory.load(file)) for _ in range(3))
    return {
        "bytes": file.stat().st_size,
        "carving store, ms": 1e3 * statistics.median(taken for taken, _ in times),
        "slowest of 16": 1e3 * max(taken for taken, _ in times),
        "processor's, ms": 1e3 * statistics.median(busy for _, busy in times),
        "the whole file written, ms": 1e3 * whole,
        "loaded, ms": 1e3 * loading,
    }


def many(file: Path) -> Row:
    """10,000 pairs of 10,000 new values, stored one by one."""
    with carving.open(file) as memory:
        before, changes = memory.pairs, []
        times, busy = [], time.process_time()
        for number in range(STORES):
            times.append(wall(lambda: memory.store([(("one by one", number), f"new value {number}")])))
            changes.append(memory.changes)
        busy = time.process_time() - busy
        written = sum(one > other for one, other in pairwise(changes))
        asked = wall(lambda: memory.recall("one by one", 7))
    assert Memory.load(file).pairs == before + STORES
    return {
        "stores": STORES,
        "first 1,000, s": sum(times[:PART]),
        "last 1,000, s": sum(times[-PART:]),
        "median, ms": 1e3 * statistics.median(times),
        "all, s": sum(times),
        "processor's, s": busy,
        "times the file was written anew": written,
        "of which the slowest, s": max(times),
        "the first question after, ms": 1e3 * asked,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
        console, file = Console(), Path(folder) / "large.safetensors"
        memory = Memory(OSC(d=292, p=3))
        memory.store([((f"word {i}", "says"), f"value {i}") for i in range(VALUES)])
        memory.save(file)
        del memory
        for title, row in (("one pair into a large file", one_pair(file)), ("pairs one by one", many(file))):
            show(console, f"{title} ({kind})", [row])


if __name__ == "__main__":
    main()
