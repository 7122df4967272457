"""Run experiments, draw their figures, and write a report of all experiments in a folder."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from carving import optional
from carving.errors import BadValue
from carving.lab.available import at_hand, with_missing
from carving.lab.catalogue import NAMES, load
from carving.lab.experiment import SCALES, Experiment, planned
from carving.lab.figures import draw, drawn_panels
from carving.lab.report import Outcome, write
from carving.lab.rows import Row, discard_rows, key_of, read_rows, versions
from carving.lab.runner import pool, run
from carving.lab.shards import Shard, shard_files
from carving.lab.summaries import Comparison, comparisons
from carving.storage.atomic import remove_parts
from carving.storage.locks import acquire_lock
from carving.validate import check_choice, check_integer


def reproduce(
    names: Iterable[str],
    scale: str = "small",
    *,
    out: Path | None = None,
    workers: int | None = None,
    console: Console | None = None,
    fresh: bool = False,
    data: Path | None = None,
    shard: str | None = None,
) -> list[Comparison]:
    """Run experiments; write rows, figures and a report of all experiments in `out`.

    Args:
        names: Names of experiments; see `NAMES`.
        scale: "smoke", "small" or "paper".
        out: Folder of rows, figures and report; None: results/SCALE. Trials whose rows it has are not run again.
        workers: Number of trials that run at the same time; None: one per core.
        console: Where progress is shown; None: standard error.
        fresh: Delete the rows of these experiments first.
        data: Folder of the data sets of `multi-label`; data sets that it does not have are skipped.
        shard: Part of the trials to run, such as "3/16"; its rows go into files of their own. A later run without
            `shard` merges the rows of all shards, runs what is missing, and writes the report.

    Returns:
        A comparison of each published number with the measured one; empty for a shard.

    Raises:
        BadValue: If an argument is invalid, or no data set was found.
        OSError: If another run is writing to `out`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     answer = reproduce(["triangle"], "smoke", out=Path(folder), workers=1)
    ...     (Path(folder) / "report.md").exists(), answer[0].published.source, answer[-1].verdict
    (True, 'section 3', 'agrees')
    """
    check_choice("scale", scale, SCALES)
    if workers is not None:
        check_integer("workers", workers, 1, way_out="It is the number of trials that run at the same time.")
    console = console or Console(stderr=True)
    experiments = _runnable(list(dict.fromkeys(names)), scale, data, console)
    folder = Path("results") / scale if out is None else out
    rows: dict[str, list[Row]] = {}
    if shard is not None:
        _run_part(experiments, scale, folder, Shard.parse(shard), workers, console, fresh)
        return []
    with _locked(folder), pool(workers) as where:
        for experiment in experiments:
            file = folder / f"{experiment.name}.jsonl"
            if fresh:
                discard_rows(file, *shard_files(file))
            rows[experiment.name] = run(experiment, scale, file, where, console)
        reached = list(outcomes(scale, folder, rows))
        _draw([outcome for outcome in reached if outcome.experiment.name in rows], folder, console)
        write(reached, scale, folder)
    return [
        comparison
        for experiment in experiments
        for comparison in comparisons(experiment, _of_scale(experiment, scale, rows[experiment.name]))
    ]


def _run_part(
    experiments: list[Experiment],
    scale: str,
    folder: Path,
    part: Shard,
    workers: int | None,
    console: Console,
    fresh: bool,
) -> None:
    """The rows of one shard, in files of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    with pool(workers) as where:
        for experiment in experiments:
            file = folder / f"{experiment.name}.jsonl"
            if fresh:
                discard_rows(part.file(file))
            run(experiment, scale, file, where, console, part)


def _runnable(names: Sequence[str], scale: str, data: Path | None, console: Console) -> list[Experiment]:
    """The experiments, as far as there is what they need; what is skipped is said."""
    experiments = []
    for name in names:
        try:
            experiments.append(at_hand(load(name), scale, data, console))
        except optional.MissingExtra as error:
            if len(names) == 1:
                raise
            console.print(f"{name}: skipped. {error}", markup=False)
    runnable = [experiment for experiment in experiments if planned(experiment, scale)]
    if not runnable:
        raise BadValue("There is nothing to run: no data set was found. Pass data, the folder of the data sets.")
    return runnable


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = acquire_lock(folder / "report.md", 0)  # which every run writes
    except TimeoutError:
        raise OSError(f"Another run is writing to {folder}. Wait for it, or choose another folder.") from None
    try:
        remove_parts(folder)  # of runs that were killed
        yield
    finally:
        lock.release()


def _of_scale(experiment: Experiment, scale: str, rows: Iterable[Row]) -> list[Row]:
    """Those of the rows that belong to a scale, in the order of the grid."""
    by_key = {key_of(row): row for row in rows}
    return [by_key[trial.key] for trial in planned(experiment, scale) if trial.key in by_key]


def outcomes(scale: str, folder: Path, known: Mapping[str, list[Row]]) -> Iterator[Outcome]:
    """Every experiment that has rows of this scale in the folder; those that are known are not read again."""
    for name in NAMES:
        rows = known[name] if name in known else read_rows(folder / f"{name}.jsonl")
        of_scale = _of_scale(load(name), scale, rows) if rows else []
        if of_scale:
            experiment = with_missing(load(name), scale, of_scale)
            yield Outcome(experiment, of_scale, len(planned(experiment, scale)) - len(of_scale))


def _draw(outcomes: Sequence[Outcome], folder: Path, console: Console) -> None:
    drawn = [outcome for outcome in outcomes if drawn_panels(outcome.experiment, outcome.rows)]
    try:
        for outcome in drawn:
            draw(outcome.experiment, outcome.rows, folder / outcome.experiment.name)
    except optional.MissingExtra as error:
        console.print(f"Figures were not drawn. {error}", markup=False)


def as_json(answer: Iterable[Comparison]) -> dict[str, object]:
    """Return comparisons as plain values for JSON, with the versions of the software.

    >>> as_json([])["comparisons"]
    []
    """
    return {"versions": versions(), "comparisons": [_plain(comparison) for comparison in answer]}


def _plain(comparison: Comparison) -> dict[str, object]:
    published, ours, difference = comparison.published, comparison.ours, comparison.difference
    return {
        "experiment": comparison.experiment,
        "setting": published.where,
        "quantity": published.quantity,
        "source": published.source,
        "published": published.value,
        "ours": None if ours is None else ours.mean,
        "standard_error": None if ours is None else ours.error,
        "trials": 0 if ours is None else ours.trials,
        # JSON knows no infinity; the verdict says it
        "difference_in_standard_errors": difference if difference is None or math.isfinite(difference) else None,
        "verdict": comparison.verdict,
    }
