"""Hyperdimensional classification: points encoded as vectors, classes as their sums. Needs scikit-learn."""

from carving.hdc.centroids import CentroidClassifier

__all__ = ["CentroidClassifier"]
