"""Trials become rows: one line of JSON each, appended when it is done, so that a killed run goes on where it was."""

import gzip
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch
from rich.console import Console

from carving.console import bar
from carving.errors import BadValue
from carving.lab.experiment import Experiment, Measure, Setting, Trial, planned

Row = dict[str, Any]


@cache
def versions() -> dict[str, str]:
    """What computed a row."""
    try:
        own = version("carving")
    except PackageNotFoundError:  # used from a folder, not installed
        own = "unknown"
    return {"carving": own, "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}


def run_trial(name: str, measure: Measure, trial: Trial, threads: int) -> Row:
    """The row of a trial. It has one thread (unless it measures time), so that sums do not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    seed, start = trial.seed(name), time.perf_counter()
    try:
        with torch.inference_mode():
            measured = measure(trial.setting, seed)
    finally:
        torch.set_num_threads(before)
    return {
        "experiment": name,
        "setting": trial.setting,
        "trial": trial.number,
        "seed": seed,
        "measured": measured,
        "seconds": round(time.perf_counter() - start, 4),
        "threads": threads,
        "versions": versions(),
    }


def key_of(row: Row) -> str:
    """Which trial a row is of."""
    return Trial(row["setting"], row["trial"]).key


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, which may lie there compressed; a last line that a killed run left unfinished is cut off."""
    packed = file.with_name(f"{file.name}.gz")
    if not file.exists() and packed.exists():
        file.write_bytes(gzip.decompress(packed.read_bytes()))
    if not file.exists():
        return []
    whole, _, torn = file.read_bytes().rpartition(b"\n")
    if torn:
        with file.open("r+b") as opened:
            opened.truncate(len(whole) + 1 if whole else 0)
    rows = []
    for number, line in enumerate(whole.decode().splitlines(), start=1):
        try:
            row = json.loads(line)
            key_of(row)
        except (ValueError, KeyError, TypeError):
            raise BadValue(f"line {number} of {file} is no row; remove the line, and its trial runs again") from None
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Pool:
    """Where trials run: here, or in other processes."""

    workers: int
    processes: ProcessPoolExecutor | None

    def rows(self, experiment: Experiment, todo: Sequence[Trial]) -> Iterator[Row]:
        """The rows of the trials, as they are done."""
        if self.processes is None or experiment.timed:
            # A time is measured with as many threads as the process has: to change that number makes torch slow.
            threads = torch.get_num_threads() if experiment.timed else 1
            for trial in todo:
                yield run_trial(experiment.name, experiment.measure, trial, threads)
            return
        submit = self.processes.submit
        futures = [submit(run_trial, experiment.name, experiment.measure, trial, 1) for trial in todo]
        for future in as_completed(futures):
            yield future.result()


@contextmanager
def pool(workers: int | None = None) -> Iterator[Pool]:
    """Processes for so many trials at a time; by default one for each core."""
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        yield Pool(1, None)
        return
    # A fresh interpreter each: torch's threads do not survive a fork.
    spawn = get_context("spawn")
    processes = ProcessPoolExecutor(workers, spawn, initializer=_follow, initargs=(os.getpid(),))
    try:
        yield Pool(workers, processes)
    finally:
        processes.shutdown(wait=True, cancel_futures=True)


def _follow(parent: int) -> None:
    """End this process when the one that started it is gone: a killed run must not leave its workers behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def run(experiment: Experiment, scale: str, file: Path, where: Pool, console: Console) -> list[Row]:
    """The rows of every trial of the scale, in the order of the grid; those that the file holds are not run again."""
    wanted = {trial.key: trial for trial in planned(experiment, scale)}
    rows = {key_of(row): row for row in read_rows(file)}
    # In the order of seeds, which is as good as random: the time that is left can then be told from the time so far.
    todo = sorted((t for k, t in wanted.items() if k not in rows), key=lambda trial: trial.seed(experiment.name))
    if todo:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened, bar(console, experiment.name, len(todo)) as advance:
            _append(where.rows(experiment, todo), opened.write, opened.flush, rows, advance)
        _rewrite(file, [rows[key] for key in wanted] + [row for key, row in rows.items() if key not in wanted])
    return [rows[key] for key in wanted]


def _append(
    made: Iterator[Row],
    write: Callable[[str], object],
    flush: Callable[[], object],
    rows: dict[str, Row],
    advance: Callable[[int], None],
) -> None:
    for row in made:
        write(json.dumps(row, allow_nan=False) + "\n")
        flush()
        rows[key_of(row)] = row
        advance(1)


def _rewrite(file: Path, rows: Sequence[Row]) -> None:
    """Put a finished file in order, at once: whoever is killed here loses nothing."""
    other = file.with_name(f".{file.name}.new")
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    other.replace(file)


def settings_of(rows: Sequence[Row]) -> list[Setting]:
    """The settings of rows, each once, in their order."""
    return list({json.dumps(row["setting"], sort_keys=True): row["setting"] for row in rows}.values())
