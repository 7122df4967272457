"""Figure "codebook size": the minimum filler dimension for 99 % against the vocabulary, with N = 10."""

from carving.lab.experiment import Experiment, Lines, Setting, grid, trials
from carving.lab.measures.dimensions import minimum_dimension
from carving.lab.paper.capacity_4096 import VSAS

FAST = [name for name in VSAS if name != "BSDC-CDT"]


def searches(sizes: list[int], repeats: int, vsas: list[str]) -> list[Setting]:
    """OSC of both orders, and these VSAs."""
    axes = {"N": 10, "L": sizes, "repeats": repeats}
    return grid(scheme="OSC", p=[2, 3], **axes) + grid(scheme=vsas, **axes)


EXPERIMENT = Experiment(
    name="codebook-size",
    title="the smallest memory for 99 % of 10 pairs against the vocabulary",
    source="figures codebook size (section 6.1 and appendix): logarithmic growth; p is not said, so both are run",
    notes="Points are dotted, the best a + b ln L is solid. d is a side for OSC, the number of reals for the VSAs; VTB "
    "moves in squares and GHRR in steps of 8. BSDC-CDT binds the vocabulary again for every question, so that it is "
    "run up to L=300 only.",
    measure=minimum_dimension,
    scales={
        "smoke": (trials(2, searches([10, 20, 40], 2, ["HLB"])),),
        "small": (trials(2, searches([30, 100, 300, 1000], 20, FAST)),),
        "paper": (
            trials(3, searches([30, 100, 300, 1000, 3000, 10_000], 40, FAST)),
            trials(3, grid(scheme="BSDC-CDT", N=10, L=[30, 100, 300], repeats=40)),
        ),
    },
    panels=(
        Lines(
            "L",
            "cells",
            ("scheme", "p"),
            title="all schemes, 10 pairs, 99 % right",
            percent=False,
            log_x=True,
            log_y=True,
            fit=True,
        ),
        Lines(
            "L",
            "cells",
            ("scheme", "p"),
            title="OSC alone",
            percent=False,
            log_x=True,
            fit=True,
            only={"scheme": "OSC"},
        ),
    ),
    unpublished="the paper prints the figure only, and says that growth is logarithmic; see the fits.",
)
