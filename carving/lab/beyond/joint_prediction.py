"""Not in the paper: state evolution beside joint decoding of real memories, on both sides of the threshold."""

from carving.lab.experiment import Experiment, Points, Setting, trials
from carving.lab.measures.predictions import joint_prediction

# fmt: off
#          d, p, k1, pairs, vocabulary, spread
COMPACT = (
    (60, 2, 8, 1000, 1000, 0), (72, 2, 8, 1000, 1000, 0), (88, 2, 9, 1000, 1000, 0), (40, 2, 6, 500, 100, 0),
    (36, 2, 6, 400, 100, 0), (40, 2, 6, 300, 100, 0), (70, 2, 10, 800, 10_000, 0), (100, 2, 10, 800, 10_000, 0),
    (20, 3, 4, 1000, 1000, 0), (16, 3, 4, 800, 1000, 0), (23, 3, 5, 1000, 1000, 0), (22, 3, 6, 1500, 3000, 0),
    (25, 3, 5, 1500, 3000, 0), (10, 4, 3, 1500, 300, 0), (60, 2, 8, 1000, 1000, 1.2), (48, 2, 8, 1000, 1000, 1.2),
    (18, 3, 4, 1500, 1000, 1.2), (15, 3, 4, 1800, 1000, 1.2), (56, 2, 8, 500, 10_000, 1.2),
)
ORDINARY = (
    (60, 2, 8, 1000, 1000, 0), (72, 2, 8, 1000, 1000, 0), (90, 2, 9, 1000, 1000, 0), (40, 2, 6, 300, 100, 0),
    (36, 2, 6, 400, 100, 0), (20, 3, 4, 1000, 1000, 0), (23, 3, 5, 1000, 1000, 0), (17, 3, 4, 1000, 1000, 0),
    (60, 2, 8, 1000, 1000, 1.2), (48, 2, 8, 1000, 1000, 1.2),
)
#      d, pairs, vocabulary
HLB = ((3_000, 300, 1_000), (2_000, 400, 1_000), (2_000, 500, 100), (2_000, 250, 100))
# fmt: on
ANSWERS = 6_000  # asked in each setting at scale paper


def osc(compact: bool, row: tuple[float, ...]) -> Setting:
    """OSC with one kind of fillers."""
    d, p, k1, pairs, vocabulary, spread = row
    loud = {"spread": spread} if spread else {}
    return {"scheme": "OSC", "signed": True, "compact": compact, "d": d, "p": p, "k1": k1, "N": pairs, "L": vocabulary,
            "fillers": "even"} | loud  # fmt: skip


SETTINGS = [
    *(osc(True, row) for row in COMPACT),
    *(osc(False, row) for row in ORDINARY),
    *({"scheme": "HLB", "d": d, "N": pairs, "L": vocabulary, "fillers": "even"} for d, pairs, vocabulary in HLB),
]
SMALL = [setting for setting in SETTINGS if setting["N"] <= 500 and setting["L"] <= 1000]
EXPERIMENT = Experiment(
    name="joint-prediction",
    title="state evolution against simulated joint decoding",
    source="nothing: it does not decode together",
    notes="The band is two points wide on either side. Pale: near the threshold, where 7 % more or fewer pairs would "
    "be predicted to end on the other side of it; there, finite memories end on either side.",
    measure=joint_prediction,
    scales={
        "smoke": (trials(1, SMALL[1:3]),),
        "small": (trials(3, SMALL),),
        "paper": tuple(trials(-(-ANSWERS // setting["N"]), [setting]) for setting in SETTINGS),
    },
    panels=(Points("predicted", "decoded", ("scheme", "compact"), title="answers right", band=0.02, pale="near"),),
    unpublished="the paper does not decode together.",
)
