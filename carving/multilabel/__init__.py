"""Extreme multi-label learning: label heads for any network, a classifier with scikit-learn's interface, metrics.

The heads need torch only, for label sets in lists or tensors. Files and training need `pip install
'carving[multilabel]'`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carving.multilabel.classifier import MultiLabelClassifier
    from carving.multilabel.data import Dataset, read
    from carving.multilabel.osc import OSCHead
    from carving.multilabel.training import Settings
    from carving.multilabel.vectors import VectorHead

__all__ = ["Dataset", "MultiLabelClassifier", "OSCHead", "Settings", "VectorHead", "read"]

_MODULES = {
    "Dataset": "data",
    "MultiLabelClassifier": "classifier",
    "OSCHead": "osc",
    "Settings": "training",
    "VectorHead": "vectors",
    "read": "data",
}


def __getattr__(name: str) -> object:
    # Names are loaded when they are asked for: scikit-learn takes a second, which other commands need not wait.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
