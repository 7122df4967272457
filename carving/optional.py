"""Optional dependencies: a missing package raises an error that names the command to install it."""

from importlib import import_module
from typing import Any

from carving.errors import UserError

EXTRAS = {
    "scipy": "multilabel",
    "sklearn": "multilabel",
    "threadpoolctl": "multilabel",
    "matplotlib": "plots",
    "pyarrow": "parquet",
    "uvicorn": "explore",
}  # the extra that brings each package


class MissingExtra(UserError, ImportError):
    """An optional package that is not installed."""


def load(module: str) -> Any:
    """Import and return an optional module, such as "scipy.sparse".

    Raises:
        MissingExtra: The package is not installed; the message names the extra that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtra(
            f"{package} is not installed. Install it with: pip install 'carving[{EXTRAS[package]}]'"
        ) from None
