"""Extreme multi-label learning: labels as symbols behind any network."""

from carving.labels.classifier import MultiLabelClassifier as MultiLabelClassifier
from carving.labels.heads import OSCHead as OSCHead
from carving.labels.vectors import VectorHead as VectorHead
