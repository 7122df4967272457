"""Every experiment by its name: those of the paper, and what goes beyond it."""

from importlib import import_module

from carving.checks import nearest
from carving.errors import BadValue
from carving.lab import beyond, paper
from carving.lab.experiment import Experiment

FOLDERS = {name: folder.__name__ for folder in (paper, beyond) for name in folder.NAMES}
NAMES = tuple(FOLDERS)


def load(name: str) -> Experiment:
    """The experiment of that name.

    >>> load("flops").title
    'operations of one question'
    """
    if name not in FOLDERS:
        raise BadValue(f"Unknown experiment {name!r}. {nearest(name, NAMES)}")
    experiment: Experiment = import_module(f"{FOLDERS[name]}.{name.replace('-', '_')}").EXPERIMENT
    return experiment
