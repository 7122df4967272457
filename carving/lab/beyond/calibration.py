"""Not in the paper: do the probabilities of answers mean what they say?"""

from carving.lab.experiment import Experiment, Points, Setting, TablePanel, trials
from carving.lab.measures.calibration import calibration

#         d   p  pairs at which 99 % of the answers are right, of 1,000 values (carving.pairs_within)
SIZES = ((120, 2, 400), (22, 3, 245), (34, 3, 1023))
LOADS = (0.3, 1.0, 3.0)


def settings(asked: int, sizes: tuple[tuple[int, int, int], ...] = SIZES) -> list[Setting]:
    """Memories of OSC at these loads, their fillers stored as often as each other, or by Zipf's law."""
    return [
        {"scheme": "OSC", "signed": True, "d": d, "p": p, "load": load, "N": round(load * pairs), "L": 1000,
         "fillers": kind, "asked": asked}
        for d, p, pairs in sizes for load in LOADS for kind in ("even", "zipf")
    ]  # fmt: skip


def reliability(d: int, p: int) -> Points:
    """What was said and what was true, in memories of one size."""
    return Points(
        "probability",
        "share right",
        ("load", "fillers"),
        title="OSC, " + " x ".join([str(d)] * p),
        only={"scheme": "OSC", "d": d, "p": p},
    )


EXPERIMENT = Experiment(
    name="calibration",
    title="calibration: probabilities against the share of correct answers",
    source="nothing: it has no probabilities",
    notes="Half of the questions ask for what was never stored. Answers are put into 15 bins by their probability; "
    "`error`, the expected calibration error, is the mean distance between probability and truth. `perfect` is that of "
    "a model of the same size whose answers are right with exactly the probability it says. Bins with 50 answers or "
    "more are drawn.",
    measure=calibration,
    scales={
        "smoke": (trials(1, settings(400, SIZES[1:2])),),
        "small": (trials(2, settings(4_000, SIZES[:2])),),
        "paper": (trials(1, settings(50_000)),),
    },
    panels=(
        *(reliability(d, p) for d, p, _ in SIZES),
        *(
            TablePanel(("d", "p", "fillers"), "load", quantity, title=quantity)
            for quantity in ("error", "perfect", "right")
        ),
    ),
    unpublished="the paper gives no probabilities; `perfect` stands beside `error`.",
)
