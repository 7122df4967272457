"""Trials become rows, each appended when it is done, so that a killed run goes on where it was."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Thread

import torch
from rich.console import Console

from carving.console import bar
from carving.lab.experiment import Experiment, Measure, Trial, planned
from carving.lab.rows import Row, key_of, read_rows, versions, write_rows
from carving.lab.shards import Shard, finished_rows, shard_files
from carving.lab.threads import threads


def run_trial(name: str, measure: Measure, trial: Trial, count: int) -> Row:
    """The row of a trial. It has one thread (unless it measures time), so that sums do not depend on the machine."""
    seed, start = trial.seed(name), time.perf_counter()
    with threads(count), torch.inference_mode():
        measured = measure(trial.setting, seed)
    return {
        "experiment": name,
        "setting": trial.setting,
        "trial": trial.number,
        "seed": seed,
        "measured": measured,
        "seconds": round(time.perf_counter() - start, 4),
        "threads": count,
        "versions": versions(),
    }


@dataclass(frozen=True)
class Pool:
    """Where trials run: here, or in other processes."""

    workers: int
    processes: ProcessPoolExecutor | None

    def rows(self, experiment: Experiment, todo: Sequence[Trial]) -> Iterator[Row]:
        """The rows of the trials, as they are done."""
        if self.processes is None or experiment.timed:
            # A time is measured with as many threads as the process has: to change that number makes torch slow.
            count = torch.get_num_threads() if experiment.timed else 1
            for trial in todo:
                yield run_trial(experiment.name, experiment.measure, trial, count)
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


def run(
    experiment: Experiment, scale: str, file: Path, where: Pool, console: Console, shard: Shard | None = None
) -> list[Row]:
    """Every row that the file then holds, those of the scale first, in the order of the grid.

    The file is read once; trials that it holds are not run again. It takes in the rows of all shards; a shard itself
    has a file of its own, and runs nothing that the whole file holds.
    """
    wanted = {trial.key: trial for trial in planned(experiment, scale)}
    whole, file = file, file if shard is None else shard.file(file)
    rows = {key_of(row): row for row in read_rows(file)}
    before = len(rows)
    others = {key_of(row): row for row in finished_rows([whole] if shard else shard_files(whole))}
    if shard is not None:
        wanted = {k: t for k, t in wanted.items() if k in rows or (k not in others and shard.has(t, experiment.name))}
    else:
        rows = others | rows
    # In the order of seeds, which is as good as random: the time that is left can then be told from the time so far.
    todo = sorted((t for k, t in wanted.items() if k not in rows), key=lambda trial: trial.seed(experiment.name))
    if todo:
        _run_and_note(experiment, todo, file, rows, where, console)
    ordered = [rows[key] for key in wanted] + [row for key, row in rows.items() if key not in wanted]
    if len(rows) > before:
        write_rows(file, ordered)
    return ordered


def _run_and_note(
    experiment: Experiment, todo: list[Trial], file: Path, rows: dict[str, Row], where: Pool, console: Console
) -> None:
    """Run trials, and put each row into the file, and among the others, as soon as it is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():  # what lay compressed
        write_rows(file, rows.values())
    with file.open("a") as opened, bar(console, experiment.name, len(todo)) as advance:
        for row in where.rows(experiment, todo):
            opened.write(json.dumps(row, allow_nan=False) + "\n")
            opened.flush()
            rows[key_of(row)] = row
            advance(1)
