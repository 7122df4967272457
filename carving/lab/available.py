"""Experiments over data sets of a folder: what is done with those that are there, and with those that are not."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from carving import optional
from carving.lab.experiment import Experiment, Setting, Trials
from carving.lab.measures.datasets import where_to_get
from carving.lab.measures.labels import FromFiles
from carving.lab.rows import Row


def at_hand(experiment: Experiment, scale: str, folder: Path | None, console: Console) -> Experiment:
    """The experiment over the data sets that the folder has, of one scale; it may be left without any trial."""
    if not isinstance(experiment.measure, FromFiles):
        return experiment
    optional.load("scipy.sparse")  # or it is said what brings it
    if folder is not None and not folder.is_dir():
        raise NotADirectoryError(f"data must be the folder of the data sets, got {folder}, which is not a folder.")
    measure = replace(experiment.measure, folder=None if folder is None else folder.resolve())
    missing = [name for name in _datasets(_settings(experiment, scale)) if not measure.has(name)]
    if missing:
        where = "no folder of data sets was given" if folder is None else f"not found in {folder}"
        skipped = f"{experiment.name}: skipped {', '.join(missing)}; {where}. {where_to_get(missing)}"
        console.print(skipped, markup=False)
    return replace(_without(experiment, scale, missing), measure=measure)


def with_missing(experiment: Experiment, scale: str, rows: Sequence[Row]) -> Experiment:
    """The experiment with a note on the data sets that have no rows yet."""
    if not isinstance(experiment.measure, FromFiles):
        return experiment
    ran = {row["setting"]["dataset"] for row in rows}
    missing = [name for name in _datasets(_settings(experiment, scale)) if name not in ran]
    if not missing:
        return experiment
    notes = f"{experiment.notes} Missing: {', '.join(missing)}. {where_to_get(missing)}"
    return replace(_without(experiment, scale, missing), notes=notes)


def _without(experiment: Experiment, scale: str, missing: Sequence[str]) -> Experiment:
    parts = experiment.scales[scale]
    kept = tuple(Trials(part.count, tuple(s for s in part.settings if s["dataset"] not in missing)) for part in parts)
    return replace(experiment, scales={**experiment.scales, scale: kept})


def _settings(experiment: Experiment, scale: str) -> list[Setting]:
    return [setting for part in experiment.scales[scale] for setting in part.settings]


def _datasets(settings: Iterable[Setting]) -> list[str]:
    return list(dict.fromkeys(setting["dataset"] for setting in settings))
