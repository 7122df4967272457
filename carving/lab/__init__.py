"""Reproduction of the paper: every table and figure as an experiment, a runner, and a report.

`carving reproduce NAME --scale smoke|small|paper` runs an experiment; docs/experiments.md says how to add one.
"""

from carving.lab.catalogue import NAMES, load
from carving.lab.experiment import SCALES
from carving.lab.reproduction import as_json, reproduce

__all__ = ["NAMES", "SCALES", "as_json", "load", "reproduce"]
