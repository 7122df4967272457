"""Not in the paper: do probabilities mean what they say, whatever became of a memory?"""

from carving.lab.experiment import Experiment, Gaps, Setting, TablePanel, trials
from carving.lab.measures.trust import CASES, answer_calibration

# Memories too full for certainty, and pairs of theirs
SCHEMES: dict[str, Setting] = {
    "OSC, p=2, compact": {"scheme": "OSC", "basis": "blocks", "compact": True, "d": 60, "p": 2, "N": 240},
    "OSC, p=3": {"scheme": "OSC", "basis": "blocks", "signed": True, "d": 34, "p": 3, "N": 2000},
    "HLB": {"scheme": "HLB", "d": 3600, "N": 240},
}
UNSIGNED: Setting = {"scheme": "OSC", "basis": "blocks", "signed": False, "d": 60, "p": 2, "N": 240}


def settings(asked: int, step: int = 1) -> list[Setting]:
    """Every case of every scheme (sets of OSC alone), and two of contexts without signs; or one in so many."""
    every = [
        sizes | {"memory of": name, "case": case}
        for name, sizes in SCHEMES.items()
        for case in CASES
        if "p" in sizes or "sets" not in case
    ]
    every += [UNSIGNED | {"memory of": "OSC without signs", "case": case} for case in ("plain", "Zipf")]
    return [setting | {"L": 300, "asked": asked} for setting in every[::step]]


EXPERIMENT = Experiment(
    name="answer-calibration",
    title="calibration with weights, repeats, shared paths, forgotten pairs, files and merges",
    source="nothing: it has no probabilities",
    notes="Half of the paths that are asked for hold nothing. `error` is the expected calibration error over 15 bins: "
    "of the best answer to each path, of all values that sets are found to hold, or of the five most probable values. "
    "`perfect` is that of a model of the same size whose answers are right with exactly the probability it says; "
    "`right` is the share of them that is right. The band is 0.02; of 4,000 answers a perfect model is up to "
    "0.022 off, of 20,000 up to 0.01.",
    measure=answer_calibration,
    scales={
        "smoke": (trials(1, settings(300, 7)),),
        "small": (trials(1, settings(1_000)),),
        "paper": (trials(1, settings(20_000)),),
    },
    panels=(
        *(
            Gaps("error", ("case",), name, label="calibration error", band=0.02, only={"memory of": name})
            for name in SCHEMES
        ),
        *(TablePanel(("case",), "memory of", quantity, title=quantity) for quantity in ("error", "perfect", "right")),
    ),
    unpublished="the paper gives no probabilities; `perfect` stands beside `error`.",
)
