"""Extreme multi-label learning: labels as symbols behind any network."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carving.labels.classifier import MultiLabelClassifier as MultiLabelClassifier
    from carving.labels.data import Dataset as Dataset
    from carving.labels.data import read as read
    from carving.labels.heads import OSCHead as OSCHead
    from carving.labels.training import Settings as Settings
    from carving.labels.vectors import VectorHead as VectorHead

_HOMES = {
    "MultiLabelClassifier": "classifier",
    "Settings": "training",
    "OSCHead": "heads",
    "VectorHead": "vectors",
    "Dataset": "data",
    "read": "data",
}


def __getattr__(name: str) -> Any:
    # Names are loaded when they are asked for: scikit-learn takes a second, which other commands need not wait.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
