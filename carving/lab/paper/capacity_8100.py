"""Figure "all VSAs, d=8100" of the appendix, and the second line of the table of the best VSA."""

from carving.lab.experiment import Experiment
from carving.lab.measures.retrieval import accuracy
from carving.lab.paper.capacity_4096 import NOTES, PANELS, sizes, table

EXPERIMENT = Experiment(
    "capacity-8100",
    "14 architectures of 8,100 numbers against OSC of order 2",
    "appendix, figure all VSAs (d=8100), and the table of the best VSA",
    measure=accuracy,
    scales=sizes(8100),
    panels=PANELS,
    published=tuple(table(8100, (35.88, 0.40), (98.04, 0.26))),
    notes=NOTES,
)
