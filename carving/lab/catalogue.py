"""Experiments by name: tables and figures of the paper, and extensions."""

from importlib import import_module

from carving.errors import BadValue
from carving.lab import beyond, paper
from carving.lab.experiment import Experiment
from carving.validate import nearest

FOLDERS = {name: folder.__name__ for folder in (paper, beyond) for name in folder.NAMES}
NAMES = tuple(FOLDERS)


def load(name: str) -> Experiment:
    """Return an experiment by name.

    Raises:
        BadValue: If there is no experiment of this name.

    >>> load("flops").title
    'operations per query'
    """
    if name not in FOLDERS:
        raise BadValue(f"Unknown experiment {name!r}. {nearest(name, NAMES)}")
    experiment: Experiment = import_module(f"{FOLDERS[name]}.{name.replace('-', '_')}").EXPERIMENT
    return experiment
