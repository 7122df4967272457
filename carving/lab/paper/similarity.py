"""Appendix A: how similar a bound object stays to its filler, for every scheme."""

from carving.lab.experiment import Experiment, Lines, Setting, grid, trials
from carving.lab.measures.similarity import bound_similarity
from carving.lab.paper.capacity_4096 import VSAS

TITLES = {
    "to its filler": "a bound filler and its filler",
    "in two contexts": "a filler bound in two contexts",
    "to a stranger": "a bound filler and a stranger",
}
KINDS = tuple(TITLES)


def schemes(sides: list[int]) -> list[Setting]:
    """Every scheme with side² numbers in its memory."""
    osc = [setting for side in sides for setting in grid(scheme="OSC", d=side, p=2, cells=side**2)]
    return osc + [setting for side in sides for setting in grid(scheme=VSAS, d=side**2, cells=side**2)]


EXPERIMENT = Experiment(
    name="similarity",
    title="similarity of a bound filler to the filler, to itself in another context, and to another filler",
    source="appendix A: binding keeps similarity in OSC, and not in VSAs",
    notes="OSC: the product of the components' cosines, in theory about (k1/d)^(p/2) to the filler and (k1/d)^p in two "
    "contexts, so small where k1 = sqrt(d); only k1 near d keeps a filler as it is. BSDC-CDT is the VSA "
    "that keeps similarity. TPR has no such cosine: its bound objects are of another order.",
    measure=bound_similarity,
    scales={
        "smoke": (trials(2, schemes([16])),),
        "small": (trials(5, schemes([16, 32, 64])),),
        "paper": (trials(10, schemes([16, 32, 64, 90])),),
    },
    panels=tuple(
        Lines("cells", kind, ("scheme",), title=TITLES[kind], label="similarity", log_x=True, percent=False)
        for kind in KINDS
    ),
    unpublished="appendix A says it in words.",
)
