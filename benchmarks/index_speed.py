"""Questions to a million or ten million candidates: the index beside the full scan, in time, memory and right answers.

    python benchmarks/index_speed.py                       # ten million values, d=200, p=2
    python benchmarks/index_speed.py --values 1000000 --pairs 550

Each step is a process of its own, which says what it takes at most (its resident memory, files that it maps included).
Pairs are so many that a scan is about 99 % right; all values are as likely as each other beforehand. Times are those of
the clock, for a quiet machine, and of the processor. The last step asks a memory of a million values whether its
probabilities are as often right as they say. What was wanted stands beside what was measured, by the clock; with ten
million values it goes into results/index-speed.json, and from there into docs/candidates.md by tables.py.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import torch
from measuring import Row, show, write
from rich.console import Console
from torch import Generator

from carving import OSC, Memory
from carving.lab.measures.calibration import error
from carving.memory.query import DEFAULT_TARGET

STEPS = ("build", "index", "scan", "calibration")
MILLION, FULL, MEMORIES = 1_000_000, (640, 900), 4  # values whose probabilities are looked at, pairs, fillings
WANTED = 10_000_000  # the values of which something is wanted


def main() -> None:
    """Run every step, and print what it tells."""
    requirements = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    requirements.add_argument("--values", type=int, default=10_000_000)
    requirements.add_argument(
        "--pairs", type=int, default=550, help="550 for ten million, 640 for a million: 99 %% right"
    )
    requirements.add_argument("--questions", type=int, default=256, help="of a batch")
    requirements.add_argument("--singles", type=int, default=20)
    requirements.add_argument("--dictionary", type=int, default=0)
    requirements.add_argument("--threads", type=int, default=2)
    requirements.add_argument("--step", choices=STEPS)
    requirements.add_argument("--file")
    given = requirements.parse_args()
    if given.step:
        torch.set_num_threads(given.threads)
        globals()[given.step](given)
        return
    with tempfile.TemporaryDirectory() as folder:
        answers, figures = dict[str, list[str | None]](), dict[str, dict]()
        for step in STEPS:
            options = [f"--{name}={value}" for name, value in vars(given).items() if value is not None]
            command = [sys.executable, __file__, *options, f"--step={step}", f"--file={folder}/m.safetensors"]
            for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
                said = json.loads(line)
                answers |= said.pop("answers", {})
                if said:
                    print(json.dumps(said), flush=True)
                    figures[str(said["what"])] = said
    kept = compare(given, answers)
    rows = compared(figures, kept)
    show(Console(), f"Wanted and measured, {given.values:,} values, {given.threads} threads", rows)
    if given.values == WANTED and not given.dictionary:
        write("index-speed.json", dict(threads=given.threads, wanted=rows, figures=figures, kept=kept))


def compared(figures: dict[str, dict], kept: dict[str, dict]) -> list[Row]:
    """What was wanted beside what was measured."""
    each = {name: said["each_ms"] for name, said in figures.items() if "each_ms" in said}
    both = 1e3 / (each["vocabulary"] + each["index"])
    wish = str(DEFAULT_TARGET)
    rows: list[Row] = [
        dict(
            figure=f"of the scan's right answers, recall_target={wish}",
            wanted=0.99,
            measured=kept[wish]["of_the_scans"],
        ),
        dict(
            figure="one question: times the scan's speed",
            wanted=20,
            measured=each["scan: single"] / each[f"{wish}: single"],
        ),
        dict(
            figure="a batch of 256: times the scan's speed",
            wanted=3,
            measured=each["scan: batch"] / each[f"{wish}: batch"],
        ),
        dict(figure="vocabulary and index: labels a second", wanted=100_000, measured=both),
        dict(figure="most memory to make and save all, GB", wanted=1.5, measured=figures["save"]["peak_mb"] / 1e3),
        dict(figure="most memory to load and ask, GB", wanted=1.5, measured=figures["nothing there"]["peak_mb"] / 1e3),
        dict(figure="loading, s", wanted=10, measured=figures["load"]["seconds"]),
    ]
    for pairs in FULL:
        off = figures[f"calibration with {pairs} pairs"]["error"]
        rows.append(dict(figure=f"calibration error, a million values, {pairs} pairs", wanted=0.02, measured=off))
    return rows


def compare(given: argparse.Namespace, answers: dict[str, list[str | None]]) -> dict[str, dict]:
    """Right answers of the scan, and which part of them each wish kept."""
    told = dict[str, dict]()
    right = [value for _, value in pairs_of(given)]
    scanned = [one == value for one, value in zip(answers["scan"], right, strict=False)]
    for wish, found in answers.items():
        kept = sum(one == value for one, value, sure in zip(found, right, scanned, strict=False) if sure)
        told[wish] = dict(right=kept / len(scanned), of_the_scans=kept / max(1, sum(scanned)), asked=len(scanned))
    print(json.dumps(told))
    return told


def pairs_of(given: argparse.Namespace) -> list[tuple[tuple[str], str]]:
    """What is stored."""
    chance = Random(1)
    return [((f"key {i}",), f"word {chance.randrange(given.values)}") for i in range(given.pairs)]


def told(what: str, run: Callable[[], object], times: int = 1, **more: object) -> object:
    """Run it, and say how long it took, each of so many times."""
    clock, processor = time.perf_counter(), time.process_time()
    result = run()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    said = dict(what=what, seconds=clock, each_ms=1e3 * clock / times, processor_ms=1e3 * processor / times)
    said |= dict(peak_mb=peak / 1e6)
    print(json.dumps(said | more | ({"a_second": times / clock} if times > 1 else {})), flush=True)
    return result


def build(given: argparse.Namespace) -> None:
    """A memory of so many values, its index, and both in files."""
    scheme = OSC(200, 2, compact=True, **({"dictionary": given.dictionary} if given.dictionary else {}))
    values: Iterable[str] = (f"word {i}" for i in range(given.values))
    memory = told("vocabulary", lambda: Memory(scheme, values), given.values)
    assert isinstance(memory, Memory)
    told("index", lambda: memory._reader.codebook.index(), given.values)
    memory.store(pairs_of(given))
    told("store one more", lambda: memory.store([(("one more",), "a new value")]))
    memory.forget([(("one more",), "a new value")], force=True)
    memory.counts = torch.full((len(memory.vocabulary),), given.pairs / given.values, dtype=torch.float64)
    words, index = memory.vocabulary, memory._reader.codebook.index()
    sizes = dict(vocabulary=words.nbytes / len(words), labels=len(words.packed()) / len(words))
    told(
        "save", lambda: memory.save(given.file, index=True), bytes_a_value=sizes | dict(index=index.nbytes / len(index))
    )
    files = {path.name: path.stat().st_size / 1e6 for path in sorted(Path(given.file).parent.iterdir())}
    print(json.dumps(dict(what="files", mb=files)))


def index(given: argparse.Namespace) -> None:
    """The memory loaded, and asked by its index."""
    memory = told("load", lambda: Memory.load(given.file))
    assert isinstance(memory, Memory)
    ask(memory, given, (0.99, DEFAULT_TARGET))
    absent = [("nothing", number) for number in range(given.singles)]
    told("nothing there", lambda: memory.recall_many(absent, recall_target=DEFAULT_TARGET), given.singles)


def scan(given: argparse.Namespace) -> None:
    """The memory loaded, and asked by looking at all candidates."""
    memory = Memory.load(given.file)
    ask(memory, given, (1,))


def calibration(given: argparse.Namespace) -> None:
    """Questions to a million values, of four fillings of a memory: half of the paths hold something."""
    values = min(MILLION, given.values)
    memory = Memory(OSC(200, 2, compact=True), range(values))
    for pairs in FULL:
        told, right = list[float](), list[bool]()
        for turn in range(MEMORIES):
            held = [((turn, i), (1_009 * i + 7_919 * turn) % values) for i in range(pairs)]
            memory.store(held)
            memory.counts = torch.full((values,), pairs / values, dtype=torch.float64)
            some = held[:500]
            paths = [path for path, _ in some] + [("nothing", turn, i) for i in range(500)]
            found = memory.recall_many(paths, recall_target=DEFAULT_TARGET)
            right += [one.found and one.value == value for one, (_, value) in zip(found, some, strict=False)]
            right += [not one.found for one in found[len(some) :]]
            told += [one.probability for one in found]
            memory.forget(held, force=True)
        chances = torch.tensor(told, dtype=torch.float64)
        off = error(chances, torch.tensor(right, dtype=torch.float64))
        # What chance alone makes of so many answers, if every probability were right.
        perfect = error(chances, (torch.rand(len(chances), generator=Generator().manual_seed(0)) < chances).double())
        facts = dict(what=f"calibration with {pairs} pairs", error=off, perfect=perfect, asked=len(told))
        print(json.dumps(facts | dict(right=sum(right) / len(right))))


def ask(memory: Memory, given: argparse.Namespace, requirements: Iterable[float]) -> None:
    """Single questions and a batch."""
    paths = [path for path, _ in pairs_of(given)]
    for wish in requirements:
        name = "scan" if wish == 1 else str(wish)
        told(f"{name}: first question", lambda: memory.recall(*paths[0], recall_target=wish))
        memory.recall_many(paths[:5], recall_target=wish)
        told(
            f"{name}: single",
            lambda: [memory.recall(*path, recall_target=wish) for path in paths[: given.singles]],
            given.singles,
        )
        batch = told(
            f"{name}: batch", lambda: memory.recall_many(paths[: given.questions], recall_target=wish), given.questions
        )
        assert isinstance(batch, list)
        print(json.dumps({"answers": {name: [answer.value for answer in batch]}}))


if __name__ == "__main__":
    main()
