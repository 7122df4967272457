"""The reproduction lab: every table and figure of the paper as data, a runner, and a report.

`carving reproduce NAME --scale smoke|small|paper`; docs/experiments.md says how to add an experiment.
"""

from carving.lab.catalogue import NAMES, load
from carving.lab.experiment import SCALES
from carving.lab.reproduction import as_json, reproduce

__all__ = ["NAMES", "SCALES", "as_json", "load", "reproduce"]
