"""This version of the package beside an earlier one, line by line of `make bench`, the two taking turns.

    git worktree add ../before COMMIT
    python benchmarks/against.py ../before

The lines are this version's (`lines.py`, and our side of the other benchmarks); each version runs them in a process of
its own. What OSC did before, with gaussian bases, is compared with what gaussian bases ("same") and blocks do now; in
one thread, where the time of the processor counts, and in two. A line that seems slower is measured once more, for
longer. Prints tables and writes results/against.json: ten minutes on two cores; `--only store` has the lines with
that in their names.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Self

import clifford_speed
import labels_speed
import lines
import torch
import vsa_speed
from measuring import Row, Run, peak, samples, show, threads, write
from rich.console import Console
from rich.progress import track

import carving

ROOT = Path(__file__).parent.parent
SLOWER = 1.05  # times as long as before: more than that is told
# fmt: off
WANTED = {
    ("Memory.store, B2", "ordinary"): 6.0,      ("Memory.store, B4", "ordinary"): 2.5,
    ("Memory.recall_many, B2", "compact"): 3.0, ("Memory.recall_many, B4", "compact"): 2.0,
}
# fmt: on


@cache
def other_lines() -> dict[str, Callable[[str], Run]]:
    """Our side of the other benchmarks, which have no kinds."""
    found: dict[str, Callable[[str], Run]] = {}
    for vsa, peer in vsa_speed.PEERS:
        for name in ("bind", "unbind", "bundle", "similarity"):
            found[f"{vsa.name} {name}, d={vsa.d:,}"] = lambda _, vsa=vsa, peer=peer, name=name: vsa_speed.operations(
                vsa, peer
            )[name]["ours"]
    for name in clifford_speed.ours(8, *clifford_speed.drawn(8)):
        found[f"clifford {name}, n=8"] = lambda _, name=name: clifford_speed.ours(8, *clifford_speed.drawn(8))[name]
    for count in (10_000, 100_000):
        for what in (1, 2):
            title = f"label head, {'step' if what == 1 else 'best'}, {count:,}"
            found[title] = lambda _, count=count, what=what: labels_speed.kept(count)[what]
    return found


def rivals(line: str) -> list[tuple[str, dict[str, tuple[str, str]]]]:
    """Which fillers a line has, and who takes part with them: a side and a kind each."""
    if line in other_lines():
        return [("-", {"before": ("before", ""), "same": ("now", "")})]
    found = []
    for fillers, ending in (("ordinary", ""), ("compact", " compact")):
        if fillers == "compact" or "precomputed" not in line:
            gaussian = f"gaussian{ending}"
            sides = {"before": ("before", gaussian), "same": ("now", gaussian), "blocks": ("now", f"blocks{ending}")}
            found.append((fillers, sides))
    return found


# A process that has one version of the package


def serve() -> None:
    """Answer what comes in, a line of JSON each: open a line of a kind, time it, tell its peak, close all."""
    answers, sys.stdout = sys.stdout, sys.stderr
    known, held = lines.every_line() | other_lines(), {}
    print(json.dumps(str(Path(carving.__file__).parent.parent)), file=answers, flush=True)
    for request in sys.stdin:
        verb, *given = json.loads(request)
        answer: object = None
        if verb == "open":
            line, kind = given
            asks = torch.inference_mode("label" not in line)  # heads are trained
            with asks:
                held[kind] = known[line](kind)
        elif verb == "close":
            held.clear()
        else:
            kind, count = given
            with threads(count), asks:
                answer = samples(held[kind]) if verb == "time" else peak(held[kind])
        print(json.dumps(answer), file=answers, flush=True)


class Side:
    """One version of the package, in its own process."""

    def __init__(self, checkout: Path) -> None:
        command, surroundings = [sys.executable, __file__, "--serve"], os.environ | {"PYTHONPATH": str(checkout)}
        self.process = subprocess.Popen(
            command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if Path(self._answer()) != checkout:
            raise SystemExit(f"{checkout} holds no carving to compare with; give a checkout of the project")

    def ask(self, *request: object) -> object:
        """What the other process answers."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> object:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a version stopped with status {self.process.wait()}; what it said stands above")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()


# Both


def medians(sides: dict[str, Side], parts: dict[str, tuple[str, str]], count: int, seconds: float) -> dict[str, float]:
    """Median seconds of each who takes part, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in parts}
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turns < 3:
        for name, (side, kind) in parts.items():
            taken[name] += sides[side].ask("time", kind, count)
        turns += 1
    return {name: statistics.median(times) for name, times in taken.items()}


def compared(sides: dict[str, Side], line: str, counts: list[int], seconds: float) -> list[Row]:
    rows: list[Row] = []
    for fillers, parts in rivals(line):
        for side, kind in parts.values():
            sides[side].ask("open", line, kind)
        wanted = WANTED.get((line, fillers))
        for count in counts:
            taken = medians(sides, parts, count, seconds)
            if max(taken.values()) > SLOWER * taken["before"]:
                taken = medians(sides, parts, count, 3 * seconds)
            row: Row = {"line": line, "fillers": fillers, "threads": count}
            row |= {f"{name}_ms": taken[name] * 1e3 if name in taken else None for name in ("before", "same", "blocks")}
            for name in ("same", "blocks"):
                row[f"before_over_{name}"] = taken["before"] / taken[name] if name in taken else None
            rows.append(row | {"wanted": wanted})
        for name, (side, kind) in parts.items():
            rows[-len(counts)][f"{name}_MB"] = sides[side].ask("peak", kind, 1)
        for side in sides.values():
            side.ask("close")
    return rows


def slower(row: Row) -> bool:
    return any(
        row.get(name) is not None and row[name] < 1 / SLOWER for name in ("before_over_same", "before_over_blocks")
    )


def heavier(row: Row) -> bool:
    """Whether a call takes more memory, by more than a twentieth and than a megabyte, of which pages are counted."""
    before = row.get("before_MB")
    now = [row[name] for name in ("same_MB", "blocks_MB") if row.get(name) is not None]
    return before is not None and any(value > max(SLOWER * before, before + 1) for value in now)


def commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="a checkout of the earlier version")
    parser.add_argument("--only", help="lines with this in their names; nothing is written then")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line and number of threads")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve()
    if given.before is None:
        parser.error("give a checkout of the earlier version: git worktree add ../before COMMIT")
    before, console = given.before.resolve(), Console(width=200)
    names = [name for name in lines.every_line() | other_lines() if not given.only or given.only in name]
    rows: list[Row] = []
    with Side(before) as old, Side(ROOT) as new:
        for name in track(names, "both versions", console=console, transient=True):
            rows += compared({"before": old, "now": new}, name, given.threads, given.seconds)
    show(console, f"before ({commit(before)}) and now ({commit(ROOT)}); above 1: faster now", rows)
    for test, what in ((slower, "slower than before by more than 5 %"), (heavier, "takes more memory than before")):
        found = [row for row in rows if test(row)]
        show(console, what, found) if found else console.print(f"nothing {what}")
    if not given.only:
        write("against.json", {"before": commit(before), "now": commit(ROOT), "rows": rows})
    return None


if __name__ == "__main__":
    main()
