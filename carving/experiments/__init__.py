"""The reproduction lab: every table and figure of the paper as data, a runner, and a report.

`carving reproduce NAME --scale smoke|small|paper`; docs/experiments.md says how to add an experiment.
"""

from carving.experiments.experiment import SCALES
from carving.experiments.lab import NAMES, as_json, load, reproduce

__all__ = ["NAMES", "SCALES", "as_json", "load", "reproduce"]
