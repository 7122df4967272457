"""A campaign of too little memory: whatever allocation fails, the error says so and nothing is changed.

    PYTHONPATH=tests python -m campaign.shortages --tries 400 --out shortages.json

A child of a process that has torch already fills its heap, gets a limited number of further bytes (RLIMIT_AS) and does
one thing: it loads, stores, forgets, recalls, saves, or runs a command. The limits go from nothing to what the act
needs, in even steps. An act that fails must raise a MemoryError, torch's error for a lack of memory or the library's
own; never say that a file is damaged or unknown, and never crash. The memory and the file must then hold what they held
before, and the act must succeed once there is enough.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from campaign import common
from campaign.acts import ACTS, JOURNALED, KEPT, MEMORY, here, memory_state, prepare
from campaign.limits import limits

import carving
from carving import Memory

SECONDS = 120
MOST = 1 << 30  # bytes that an act may need
LEAST = 1 << 10  # bytes of the smallest piece that fills the heap
LACK = ("not enough memory", "can't allocate memory", "bad_alloc")
WRONG = (
    "corrupt",
    "not a complete",
    "not written by Carving",
    "not a regular file",
    "is not a file",
    "truncated",
    "bug of",
)
PAIRS = [((f"new {i}", "fact"), f"value {i % 60}") for i in range(400)]
PATHS = [(f"dog {i}", "says") for i in range(150)]


class Subject(NamedTuple):
    """What is done in a child: made without a limit, done with one, and looked at without one again."""

    make: Callable[[], object]
    act: Callable[[object], object]
    state: Callable[[object], object]
    file: str  # the act's file, in the folder
    changes_file: bool = False


def tensor_state(memory: Memory) -> object:
    """All that a memory holds."""
    return memory.tensor.numpy().tobytes(), list(memory.vocabulary), memory.counts.tolist()


def nothing(_: object) -> None:
    """No state."""


def loaded() -> Memory:
    return Memory.load(MEMORY)


SUBJECTS = {
    "load": Subject(lambda: None, lambda _: Memory.load(MEMORY), nothing, MEMORY),
    "load with a journal": Subject(lambda: None, lambda _: Memory.load(JOURNALED), nothing, JOURNALED),
    "load with paths": Subject(lambda: None, lambda _: Memory.load(KEPT), nothing, KEPT),
    "store": Subject(loaded, lambda memory: memory.store(PAIRS), tensor_state, MEMORY),
    "forget": Subject(
        loaded, lambda memory: memory.forget([(p, f"word {i % 40}") for i, p in enumerate(PATHS)]), tensor_state, MEMORY
    ),
    "recall": Subject(loaded, lambda memory: memory.recall_many(PATHS), tensor_state, MEMORY),
    "recall together": Subject(loaded, lambda memory: memory.decode(PATHS), tensor_state, MEMORY),
    "recall sets": Subject(loaded, lambda memory: memory.recall_set(*PATHS[0]), tensor_state, MEMORY),
    "recognize": Subject(loaded, lambda memory: memory.recognize(*PATHS[0], value="word 0"), tensor_state, MEMORY),
    "save": Subject(loaded, lambda memory: memory.save("saved"), tensor_state, "saved", True),
    "open": Subject(lambda: None, lambda _: carving.open(JOURNALED).close(), nothing, JOURNALED),
    "store in an open file": Subject(
        lambda: carving.open(JOURNALED), lambda memory: memory.store(PAIRS[:40]), tensor_state, JOURNALED, True
    ),
    "forget in an open file": Subject(
        lambda: carving.open(JOURNALED),
        lambda memory: memory.forget([((f"cat {i}", "says"), f"word {i % 50}") for i in range(40)]),
        tensor_state,
        JOURNALED,
        True,
    ),
    "compact": Subject(lambda: carving.open(JOURNALED), lambda memory: memory.compact(), tensor_state, JOURNALED),
}
COMMANDS = ("store", "forget", "merge", "grow", "export")
NAMES = (*SUBJECTS, *(f"carving {name}" for name in COMMANDS))


def deep(levels: int) -> int:
    """Make the stack larger, for good: a stack that cannot grow is a crash, whoever runs on it."""
    return max([levels - 1], key=deep) if levels else 0


def filled() -> list[bytearray]:
    """What takes all that the heap has left, down to small pieces."""
    pieces, size = list[bytearray](), 1 << 24
    deep(400)
    with limits(0):
        while size >= LEAST:
            try:
                pieces.append(bytearray(size))
            except MemoryError:
                size //= 2
    return pieces


def says(error: BaseException) -> str:
    """What is wrong with an error for a lack of memory; nothing if it says what it must."""
    text, known = str(error), (MemoryError, carving.errors.UserError)
    lacking = isinstance(error, known) or (isinstance(error, OSError) and error.errno == 12)
    if any(word in text for word in WRONG) or not (lacking or any(word in text for word in LACK)):
        return f"{error!r}"
    return ""


def held(folder: Path, file: str) -> object:
    """What a file of a memory holds; None if there is none."""
    return memory_state(folder / file) if (folder / file).exists() else None


def tried(name: str, room: int, folder: Path) -> dict[str, object]:
    """In a child: whether the act ended, and what is wrong."""
    os.chdir(folder)
    if name in SUBJECTS:
        return object_tried(SUBJECTS[name], room, folder)
    act = ACTS[name.removeprefix("carving ")]
    before, pieces = act.found(folder), filled()
    with limits(room):
        status, said = 2, "Error: "
        with contextlib.suppress(MemoryError):  # of what captures the output
            status, said = here(act, folder)
    del pieces
    problems = list[str]()
    if status and act.found(folder) != before:
        problems.append(f"exit status {status}, and the file is another: {said[-300:]!r}")
    if status and (status != 2 or "Traceback" in said or any(word in said for word in WRONG)):
        problems.append(f"exit status {status}: {said[-300:]!r}")
    if status and (again := here(act, folder))[0]:
        problems.append(f"the act again ended with {again}")
    return dict(ended=not status, problems=problems)


def object_tried(subject: Subject, room: int, folder: Path) -> dict[str, object]:
    """An act on an object of this process."""
    made = subject.make()
    before, file, pieces = subject.state(made), held(folder, subject.file), filled()
    problems, failed = list[str](), None
    try:
        with limits(room):
            subject.act(made)
    except Exception as error:
        failed = error.with_traceback(None)
    del pieces
    if failed is None:
        return dict(ended=True, problems=[])
    if wrong := says(failed):
        problems.append(wrong)
    if subject.state(made) != before:
        problems.append(f"the memory was changed: {failed!r}")
    if held(folder, subject.file) != file:
        problems.append(f"the file was changed: {failed!r}")
    try:
        subject.act(made)
    except Exception as error:
        problems.append(f"then there is enough, and still {error!r}")
    return dict(ended=False, problems=problems)


def attempt(name: str, room: int, at: Path) -> dict[str, object]:
    """A child with so many bytes: what it found."""
    folder = Path(shutil.copytree(at / "base", at / "try"))
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(SECONDS)
        np.setbufsize(16)  # NumPy 2.4 crashes if it cannot allocate the buffers of a ufunc: let them be small
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        came: dict[str, object] = dict(ended=False, problems=["nothing was found out"])
        try:
            came = tried(name, room, folder)
        except BaseException as error:
            came["problems"] = [f"the try itself failed: {error!r}"]
        os.write(writing, json.dumps(came).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(pid, 0)
    shutil.rmtree(folder)
    if not said:
        return dict(ended=False, problems=[f"the process ended with {os.waitstatus_to_exitcode(status)}"])
    return json.loads(said)


def attack(name: str, tries: int, at: Path) -> common.Row:
    """An act with every limit up to what it needs."""
    tried(name, MOST, Path(shutil.copytree(at / "base", at / "warm")))  # what is made once is there
    shutil.rmtree(at / "warm")
    failures, most, refused = list[str](), 1 << 12, 0
    while not attempt(name, most, at)["ended"]:
        most *= 2
        if most > MOST:
            return common.row(name, 1, [f"it does not end with {MOST} bytes"])
    for number in range(tries):
        room = most * number // tries
        came = attempt(name, room, at)
        refused += not came["ended"]
        failures += [f"with {room:,} bytes: {problem}" for problem in came["problems"]]
    return common.row(name, tries, failures, refused=refused, bytes=most)


def campaign(tries: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """So many limits over all acts."""
    torch.set_num_threads(1)  # a process that forks must have one thread
    names = names or [name for name in NAMES if name in SUBJECTS or name.removeprefix("carving ") in ACTS]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "base").mkdir()
        prepare(Path(place) / "base", d=300)
        return [attack(name, common.share(tries, names), Path(place)) for name in names]


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 400).parse_args()
    common.ends("Too little memory", lambda: campaign(given.tries, given.seed, given.only), given.out)
