"""Runs experiments, and reports on everything that ran."""

import math
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from carving.checks import check_choice, check_integer, nearest
from carving.errors import BadValue
from carving.lab.experiment import SCALES, Experiment, planned
from carving.lab.measures.labels import at_hand, with_missing
from carving.lab.runner import key_of, pool, read_rows, run, versions
from carving.lab.tables import Comparison, comparisons

NAMES = (
    "interference",
    "tpr",
    "capacity-4096",
    "capacity-8100",
    "capacity-8100-depth48",
    "depth",
    "superposition-p2",
    "superposition-p3",
    "codebook-size",
    "recognition-vs-unbinding",
    "reuse",
    "similarity",
    "carving-dimension",
    "triangle",
    "clifford",
    "flops",
    "speed",
    "compact",
    "compact-accuracy",
    "joint",
    "multi-label",
)


def load(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise BadValue(f"there is no experiment {name!r}; {nearest(name, NAMES)}")
    found: Experiment = import_module(f"carving.lab.paper.{name.replace('-', '_')}").EXPERIMENT
    return found


def reproduce(
    names: Iterable[str],
    scale: str = "small",
    *,
    out: Path | None = None,
    workers: int | None = None,
    console: Console | None = None,
    fresh: bool = False,
    data: Path | None = None,
) -> list[Comparison]:
    """Run experiments; write rows, figures and a report over all that lies in `out`. The answer: published beside ours.

    Rows that `out` (by default results/SCALE) holds are not run again, unless `fresh` throws them away first. `data` is
    the folder of the data sets that multi-label wants; what it does not have is skipped.
    """
    check_choice("scale", scale, SCALES)
    if workers is not None:
        check_integer("workers", workers, 1, way_out="it is the number of trials that run at a time")
    console = console or Console(stderr=True)
    experiments = [at_hand(load(name), scale, data, console) for name in dict.fromkeys(names)]
    if not any(planned(experiment, scale) for experiment in experiments):
        raise BadValue("none of the data sets was found; --data FOLDER tells where they lie")
    folder = Path("results") / scale if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Comparison] = []
    try:
        with FileLock(folder / ".lock", timeout=0), pool(workers) as where:
            for experiment in experiments:
                if not planned(experiment, scale):
                    continue
                file = folder / f"{experiment.name}.jsonl"
                if fresh:
                    for old in (file, file.with_name(f"{file.name}.gz")):
                        old.unlink(missing_ok=True)
                found += comparisons(experiment, run(experiment, scale, file, where, console))
            write_report(scale, folder)
    except Timeout:
        raise OSError(f"another run writes into {folder}; wait for it, or give another folder") from None
    return found


def write_report(scale: str, folder: Path) -> Path:
    """report.md and report.html over every experiment that has rows of this scale in the folder."""
    from carving.lab import report  # here, since no other command should wait for matplotlib

    sections = []
    for name in NAMES:
        experiment, rows = load(name), {key_of(row): row for row in read_rows(folder / f"{name}.jsonl")}
        some = [rows[trial.key] for trial in planned(experiment, scale) if trial.key in rows]
        if some:
            experiment = with_missing(experiment, scale, some)
            unfinished = len(planned(experiment, scale)) - len(some)
            sections.append(report.section(experiment, some, folder, unfinished))
    return report.write(sections, scale, folder)


def as_json(found: Iterable[Comparison]) -> dict[str, Any]:
    """Comparisons as plain values."""
    rows = [
        {
            "experiment": one.experiment,
            "setting": one.published.where,
            "quantity": one.published.quantity,
            "source": one.published.source,
            "published": one.published.value,
            "ours": None if one.ours is None else one.ours.mean,
            "standard_error": None if one.ours is None else one.ours.error,
            "trials": 0 if one.ours is None else one.ours.trials,
            "difference_in_standard_errors": _finite(one.difference),
            "verdict": one.verdict,
        }
        for one in found
    ]
    return {"versions": versions(), "comparisons": rows}


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity; the verdict says it."""
    return value if value is not None and math.isfinite(value) else None
