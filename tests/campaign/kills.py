"""A campaign of kills: whatever a process is doing when it dies, its file is the old one or the new one, whole.

    python tests/campaign/kills.py --tries 1000 --out kills.json

A child of a process that has torch already does one thing, and is killed at a random moment of it. The try
fails if the file then does not load, holds neither what it held before nor what it holds after the whole command, or
if the same command, given again, does not end well; training and experiments must go on to what they make at once.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from carving import OSC, Memory
from carving.cli import app
from carving.labels import MultiLabelClassifier

SECONDS = 120  # in which a command must end, on a machine that others use as well
PAIRS = "".join(f"dog {i}\tsays\tword {i % 40}\n" for i in range(300))
MORE = "".join(f"cat {i}\tsays\tword {i % 50}\n" for i in range(300))
POINTS = "30 8 3\n" + "".join(f"{i % 3} {i % 8}:1 {(i * 3 + 1) % 8}:0.5\n" for i in range(30))

State = object  # what a file holds, to be compared


@dataclass(frozen=True)
class Act:
    """Something that writes a file."""

    command: list[str]  # of the command line, in a folder with what `prepare` makes
    file: str
    state: Callable[[Path], State]
    resumes: bool = False  # it goes on where it was killed: what is there may be a part, and in the end it is the whole


def memory_state(path: Path) -> State:
    """All that a memory's file holds, to the last bit."""
    memory = Memory.load(path)
    return str(memory.scheme), memory.tensor.numpy().tobytes(), list(memory.vocabulary), memory.counts.tolist()


def model_state(path: Path) -> State:
    """What a classifier says of some points."""
    return MultiLabelClassifier.load(path).decision_function(torch.eye(8).numpy()).round(4).tolist()


def rows_state(path: Path) -> State:
    """What was measured, time aside."""
    rows = map(json.loads, path.read_text().splitlines())
    return sorted(json.dumps([row["setting"], row["trial"], row["measured"]]) for row in rows)


ACTS = {
    "store": Act(["store", "memory.safetensors", "more.tsv", "--force"], "memory.safetensors", memory_state),
    "forget": Act(["forget", "memory.safetensors", "pairs.tsv"], "memory.safetensors", memory_state),
    "merge": Act(["merge", "memory.safetensors", "memory.safetensors", "other.safetensors"], "memory.safetensors",
                 memory_state),
    "train": Act(["train", "points.txt", "model.safetensors", "--epochs", "2", "--validation", "0"],
                 "model.safetensors", model_state, resumes=True),
    "reproduce": Act(["reproduce", "superposition-p2", "--scale", "smoke", "--out", "out"],
                     "out/superposition-p2.jsonl", rows_state, resumes=True),
}  # fmt: skip


def prepare(folder: Path) -> None:
    """Two memories, a model and files to read."""
    (folder / "pairs.tsv").write_text(PAIRS)
    (folder / "more.tsv").write_text(MORE)
    (folder / "points.txt").write_text(POINTS)
    for name, text in (("memory", PAIRS), ("other", MORE)):
        memory = Memory(OSC(120, 2))
        memory.store([(tuple(path), leaf) for *path, leaf in (line.split("\t") for line in text.splitlines())])
        memory.save(folder / f"{name}.safetensors")


def child(folder: Path, act: Act) -> int:
    """A process that does it, and nothing else."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    with contextlib.suppress(BaseException):
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        try:
            app(act.command)
        except SystemExit as end:
            status = int(end.code or 0)
    os._exit(status)


def ended(pid: int) -> int | None:
    """The exit status of a process that ends in time; None if it hangs, and is killed."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def killed(pid: int, after: float) -> None:
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def found(act: Act, folder: Path) -> State:
    """What the file holds, None where there is none yet."""
    path = folder / act.file
    return act.state(path) if path.exists() else None


def campaign(act: Act, tries: int, chance: random.Random, at: Path) -> dict[str, object]:
    """So many kills: what went wrong, and how often the file was old and new."""
    whole = shutil.copytree(at / "base", at / "whole")
    before, start = found(act, whole), time.monotonic()
    if ended(child(whole, act)) != 0:
        raise SystemExit(f"{' '.join(act.command)} does not work at all")
    seconds, after = time.monotonic() - start, found(act, whole)
    failures: list[str] = []
    times = {"old": 0, "new": 0}
    for number in range(tries):
        folder = shutil.copytree(at / "base", at / f"try {number}")
        moment = chance.uniform(0, 1.1 * seconds)
        killed(child(folder, act), moment)
        try:
            state = found(act, folder)
            if state not in (before, after) and not act.resumes:
                failures.append(f"after {moment:.3f} s: neither old nor new")
            times["new" if state == after else "old"] += 1
            if ended(child(folder, act)) != 0:
                failures.append(f"after {moment:.3f} s: the same again did not end well")
            elif act.resumes and found(act, folder) != after:
                failures.append(f"after {moment:.3f} s: what was resumed is not what was made at once")
        except Exception as error:
            failures.append(f"after {moment:.3f} s: {error!r}")
        shutil.rmtree(folder)
    shutil.rmtree(whole)
    return {"tried": tries, "failed": len(failures), **times, "seconds": seconds, "failures": failures[:5]}


def shared(tries: int, acts: list[str]) -> dict[str, int]:
    """How many kills each gets: those that take long to go on a sixth of the others'."""
    weights = {act: 1 if ACTS[act].resumes else 6 for act in acts}
    return {act: max(1, round(tries * weight / sum(weights.values()))) for act, weight in weights.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000, help="kills in all")
    parser.add_argument("--only", choices=ACTS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)  # a process that forks must have one thread
    acts = given.only or list(ACTS)
    results: dict[str, dict[str, object]] = {}
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "base"
        base.mkdir()
        prepare(base)
        for act in acts:
            with console.status(f"killing {act}"):
                results[act] = campaign(
                    ACTS[act], shared(given.tries, acts)[act], random.Random(given.seed), Path(name)
                )
    table = Table("killed", "tried", "failed", "old", "new", title="SIGKILL at random moments", title_justify="left")
    for act, result in results.items():
        table.add_row(act, *(f"{result[key]:,}" for key in ("tried", "failed", "old", "new")))
    console.print(table)
    for act, result in results.items():
        for failure in result["failures"]:
            console.print(f"{act}: {failure}", markup=False)
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["failed"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
