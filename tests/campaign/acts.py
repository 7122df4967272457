"""What is done to files while processes are killed and disks fail: all that writes them, as a table."""

import contextlib
import io
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch

import carving
from carving import OSC, Memory, formats
from carving.cli import app
from carving.errors import Overfull, UserError
from carving.lab.rows import read_rows
from carving.storage.atomic import NotFlushed

PAIRS = "".join(f"dog {i}\tsays\tword {i % 40}\n" for i in range(150))
MORE = "".join(f"cat {i}\tsays\tword {i % 50}\n" for i in range(150))
POINTS = "30 8 3\n" + "".join(f"{i % 3} {i % 8}:1 {(i * 3 + 1) % 8}:0.5\n" for i in range(30))

State = object  # what a file holds, to be compared


@dataclass(frozen=True)
class Act:
    """Something that writes a file: it runs in a folder as `prepare` makes it, and gives an exit status."""

    run: Callable[[], int]
    file: str
    state: Callable[[Path], State]
    resumes: bool = False  # where it was stopped: what is there may be a part, and in the end it is the whole
    in_place: bool = False  # what it wrote cannot be taken back from a disk that is suddenly read-only

    def found(self, folder: Path) -> State:
        """What the file holds, None where there is none yet."""
        path = folder / self.file
        return self.state(path) if path.exists() else None


def command(*arguments: str) -> Callable[[], int]:
    """A command of the command line."""

    def run() -> int:
        try:
            app(list(arguments))
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def with_checkpoints(run: Callable[[], int]) -> Callable[[], int]:
    """The same with a checkpoint after every epoch."""

    def often() -> int:
        from carving.multilabel import checkpoints  # scikit-learn takes longer to import than most acts to do

        with mock.patch.multiple(checkpoints, PAUSE=0, REST=0):
            return run()

    return often


def with_empty_figures(run: Callable[[], int]) -> Callable[[], int]:
    """The same with figures that are written as all are, but show nothing: to draw them takes ten times as long."""

    def quickly() -> int:
        from matplotlib.figure import Figure

        from carving.lab import figures

        with mock.patch.object(figures, "_figure", side_effect=lambda *_: Figure(figsize=(1, 1))):
            return run()

    return quickly


def journaling() -> int:
    """What a program does that stores as it goes, into a journal beside the memory."""
    with carving.open("journaled.safetensors") as memory:
        memory.store({"new": {"fact": "kept"}})
    return 0


def saving() -> int:
    """What a program does that keeps a memory."""
    memory = Memory.load("memory.safetensors")
    memory.store({"new": {"fact": "kept"}})
    memory.save("memory.safetensors", torch.bfloat16)
    return 0


# What files hold


def memory_state(path: Path) -> State:
    """All that a memory's file holds, to the last bit."""
    memory = Memory.load(path)
    return str(memory.scheme), memory.tensor.numpy().tobytes(), list(memory.vocabulary), memory.counts.tolist()


def model_state(path: Path) -> State:
    """What a classifier says of some points."""
    from carving.multilabel import MultiLabelClassifier

    return MultiLabelClassifier.load(path).decision_function(torch.eye(8).numpy()).round(4).tolist()


def rows_state(path: Path) -> State:
    """What was measured, time aside."""
    return sorted(json.dumps([row["setting"], row["trial"], row["measured"]]) for row in read_rows(path))


def pairs_state(path: Path) -> State:
    """The pairs of a file."""
    return list(formats.pairs(path))


MEMORY, JOURNALED, KEPT = "memory.safetensors", "journaled.safetensors", "kept.safetensors"
TRAIN = ("train", "points.txt", "model.safetensors", "--architecture", "linear", "--epochs", "3", "--validation", "0")
ACTS = {
    "save": Act(saving, MEMORY, memory_state),
    "store": Act(command("store", MEMORY, "more.tsv", "--force"), MEMORY, memory_state),
    "store anew": Act(command("store", "new.safetensors", "more.tsv", "--d", "40"), "new.safetensors", memory_state),
    "forget": Act(command("forget", MEMORY, "pairs.tsv"), MEMORY, memory_state),
    "merge": Act(command("merge", MEMORY, MEMORY, "other.safetensors", "--force"), MEMORY, memory_state),
    "grow": Act(command("grow", KEPT, "--pairs", "500"), KEPT, memory_state),
    "journal": Act(journaling, JOURNALED, memory_state, in_place=True),
    "compact": Act(command("compact", JOURNALED), JOURNALED, memory_state),
    "export": Act(command("export", MEMORY, "pairs.tsv", "-o", "out.tsv.gz"), "out.tsv.gz", pairs_state),
    "train": Act(
        with_checkpoints(
            command(
                "train",
                "points.txt",
                "model.safetensors",
                "--architecture",
                "linear",
                "--epochs",
                "3",
                "--validation",
                "0",
            )
        ),
        "model.safetensors",
        model_state,
        resumes=True,
    ),
    "reproduce": Act(
        with_empty_figures(
            command("reproduce", "superposition-p2", "--scale", "smoke", "--out", "out", "--workers", "1")
        ),
        "out/superposition-p2.jsonl",
        rows_state,
        resumes=True,
    ),
}


def prepare(folder: Path, d: int = 60) -> None:
    """Memories of d x d numbers and files to read."""
    (folder / "pairs.tsv").write_text(PAIRS)
    (folder / "more.tsv").write_text(MORE)
    (folder / "points.txt").write_text(POINTS)
    for name, text in (("memory", PAIRS), ("other", MORE)):
        memory = Memory(OSC(d, 2))
        memory.store([(tuple(path), value) for *path, value in (line.split("\t") for line in text.splitlines())])
        memory.save(folder / f"{name}.safetensors")
    kept = Memory(OSC(d, 2), keep_paths=True)
    kept.store([((f"cow {i}", "says"), f"word {i % 40}") for i in range(60)])
    kept.save(folder / KEPT)
    memory.save(folder / JOURNALED)
    for number in range(2):
        with carving.open(folder / JOURNALED) as opened:
            opened.store({"first": {number: "a change"}})


def here(act: Act, folder: Path) -> tuple[int, str]:
    """Do it in this process: its exit status (3 for a bug of ours) and what it said on stderr."""
    before, said = os.getcwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said), warnings.catch_warnings():
            for expected in (NotFlushed, Overfull):
                warnings.simplefilter("ignore", expected)
            try:
                status = act.run()
            except (MemoryError, OSError, UserError) as error:  # which the command line would tell
                said.write(f"Error: {error}")
                status = 2
            except Exception as error:
                said.write(repr(error))
                status = 3
    finally:
        os.chdir(before)
    return status, said.getvalue()
