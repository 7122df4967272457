"""Hyperdimensional classification: points encoded as vectors, classes as their sums. Needs scikit-learn."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carving.hdc.centroids import CentroidClassifier

__all__ = ["CentroidClassifier"]


def __getattr__(name: str) -> object:
    # Loaded on first use: scikit-learn takes a second to import, and other commands do not need it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from carving.hdc.centroids import CentroidClassifier

    return CentroidClassifier
