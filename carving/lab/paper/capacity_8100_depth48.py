"""Figure "all VSAs, d=8100, role depth 48": OSC does not depend on the depth, approximate unbinding does."""

from carving.lab.experiment import Experiment
from carving.lab.measures.retrieval import accuracy
from carving.lab.paper.capacity_4096 import NOTES, PANELS, sizes, table

EXPERIMENT = Experiment(
    "capacity-8100-depth48",
    "14 architectures of 8,100 numbers against OSC of order 2, paths of 48 roles",
    "appendix, figure all VSAs (d=8100) at role depth 48; numbers are printed for OSC only, by reference to depth 1",
    measure=accuracy,
    scales=sizes(8100, depth=48, paper_trials=3),
    panels=PANELS,
    published=tuple(table(8100, (0, 0), (0, 0), depth=48)),
    notes=NOTES + " Three trials at scale paper: making 48 roles for each pair takes the time.",
)
