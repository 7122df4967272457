"""Not in the paper: how few cells a pair joint decoding takes, near the threshold, with ten seeds, up to 10,000 pairs.

Over all loads, and beside other schemes: `joint`.
"""

from carving.lab.experiment import Experiment, Lines, Setting, TablePanel, trials
from carving.lab.measures.retrieval import accuracy

COMPACT = [70, 76, 79, 82, 85, 90, 100, 120, 140, 160, 180, 190]
ORDINARY = [80, 90, 100, 140, 190]


def memories(compact: bool, p: int, pairs: int, sizes: list[int]) -> list[Setting]:
    """As many pairs as fillers, in memories of these sizes."""
    return [
        {"scheme": "OSC", "signed": True, "compact": compact, "p": p, "d": d, "N": pairs, "joint": True,
         "cells a pair": round(d**p / pairs, 3)}
        for d in sizes
    ]  # fmt: skip


SERIES = ("scheme", "compact", "p", "N")
EXPERIMENT = Experiment(
    name="joint-capacity",
    title="accuracy and rounds of joint decoding near the threshold",
    source="nothing: it asks one context at a time",
    notes="As many fillers as pairs; the same memories are asked one at a time (`alone`). Wanted: all right with ten "
    "cells a pair within 15 rounds (p=2, d=100), with eight within 60 (d=90), and at 10,000 pairs with twelve (p=3, "
    "d=49). A trial of 10,000 pairs takes minutes.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, memories(True, 2, 100, [24, 32]), memories(False, 2, 100, [32])),),
        "small": (trials(3, memories(True, 2, 300, [42, 46, 50, 56]), memories(False, 2, 300, [46, 50, 56])),),
        "paper": (
            trials(10, memories(True, 2, 1000, COMPACT), memories(False, 2, 1000, ORDINARY)),
            trials(3, memories(True, 3, 2000, [25, 26, 27, 28, 29, 32, 40, 44])),
            trials(1, memories(False, 3, 2000, [28, 29])),
            trials(1, memories(True, 3, 10_000, [49, 47, 46, 45]), memories(False, 3, 10_000, [49])),
        ),
    },
    panels=(
        Lines("cells a pair", "retrieval", SERIES, title="all together", log_x=True),
        Lines("cells a pair", "rounds", SERIES, title="rounds", percent=False, log_x=True, log_y=True),
        *(TablePanel(SERIES, "d", quantity, title=quantity) for quantity in ("alone", "converged")),
    ),
    unpublished="the paper does not decode together.",
)
