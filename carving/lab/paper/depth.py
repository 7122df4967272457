"""The claim that depth costs OSC nothing: accuracy against role depth, in memories of equally many numbers."""

from carving.lab.experiment import Experiment, Lines, Setting, grid, trials
from carving.lab.measures.retrieval import accuracy
from carving.lab.paper.capacity_4096 import VSAS


def schemes(cells: int, depths: list[int], **axes: object) -> list[Setting]:
    """Every scheme with about so many numbers; a TPR of that size has a side of cells^(1/(depth+1))."""
    tensors = [(round(cells ** (1 / (depth + 1)) - 0.499), depth) for depth in depths]
    return [
        *grid(scheme="OSC", d=round(cells**0.5), p=2, depth=depths, **axes),
        *grid(scheme=VSAS, d=cells, depth=depths, **axes),
        *(tpr for d, depth in tensors if d >= 2 for tpr in grid(scheme="TPR", d=d, depth=depth, **axes)),
    ]


EXPERIMENT = Experiment(
    name="depth",
    title="accuracy against role depth",
    source="no figure; sections 4 and 6 claim that OSC is invariant to the complexity of contexts",
    notes="All memories have as many numbers as d of the VSAs; TPR must shrink its sides to stay as small. HRR, MAP-C "
    "and VTB fall because their unbinding is approximate; BSDC-CDT has none.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, schemes(256, [1, 4], N=10, questions=10)),),
        "small": (trials(3, schemes(1024, [1, 4, 16, 64], N=50, questions=50)),),
        "paper": (trials(10, schemes(4096, [1, 2, 4, 8, 16, 32, 48, 64], N=200, questions=200)),),
    },
    panels=(
        Lines("depth", "retrieval", ("scheme",), title="retrieval", log_x=True),
        Lines("depth", "recognition", ("scheme",), title="recognition", log_x=True),
    ),
    unpublished="the paper claims invariance and prints no accuracy against depth.",
)
