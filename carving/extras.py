"""What only some need: a package that is missing is told in one sentence, with the command that installs it."""

from importlib import import_module
from typing import Any

from carving.errors import UserError

EXTRAS = {
    "scipy": "labels",
    "sklearn": "labels",
    "threadpoolctl": "labels",
    "matplotlib": "plots",
    "pyarrow": "parquet",
    "uvicorn": "explore",
}  # the extra that brings each package


class MissingExtra(UserError, ImportError):
    """A package that the base installation does not bring."""


def load(module: str) -> Any:
    """The module, such as "scipy.sparse"; where its package is not installed, what installs it is told."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtra(f"{package} is not installed; pip install 'carving[{EXTRAS[package]}]' brings it") from None
