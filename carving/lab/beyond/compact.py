"""Not in the paper: the numbers in all, memory and codebook, that 99 % takes: ordinary, compact, compact and joint."""

from carving.lab.experiment import Experiment, Lines, Setting, trials
from carving.lab.measures.dimensions import minimum_dimension

WIDTHS = {50: 4, 100: 4, 500: 6, 1000: 6, 5000: 8, 10_000: 8}  # k1 of compact fillers, about where the sum is smallest
TIGHT = dict.fromkeys(WIDTHS, 3)  # the same where all contexts are decoded together


def searches(sizes: list[int], repeats: int, kinds: str, questions: int = 1000) -> list[Setting]:
    """The schemes that `kinds` names at these numbers of pairs."""
    joint = {"scheme": "OSC", "p": 3, "compact": True, "joint": True}
    schemes: dict[str, tuple[Setting, dict[int, int]]] = {
        "osc": ({"scheme": "OSC", "p": 3}, {}),
        "tpr": ({"scheme": "TPR"}, {}),
        "hlb": ({"scheme": "HLB"}, {}),
        "compact": ({"scheme": "OSC", "p": 3, "compact": True}, WIDTHS),
        "joint": (joint, TIGHT),
        "loud": (joint | {"spread": 1.2}, TIGHT),
    }
    settings = []
    for kind in kinds.split():
        setting, widths = schemes[kind]
        for n in sizes:
            carved = {"k1": widths[n]} if widths else {}
            settings.append(setting | carved | {"N": n, "repeats": repeats, "questions": min(n, questions)})
    return settings


ALONE, EVERY = "osc tpr compact", "osc tpr hlb compact joint loud"
EXPERIMENT = Experiment(
    name="compact",
    title="numbers needed for 99 %: the paper's OSC, TPR, HLB, compact fillers, joint decoding",
    source="nothing; the paper's own OSC, TPR and HLB beside them",
    notes="Memory and codebook for as many fillers as pairs. Compact fillers have p k1 numbers, k1 as the table in the "
    "file says. 'joint' decodes all contexts together, with 'spread' some contexts are written louder than others. HLB "
    "is searched up to 500 pairs; the paper has 3.4 billion numbers at 10,000.",
    measure=minimum_dimension,
    scales={
        "smoke": (trials(1, searches([50], 2, "compact joint", 30)),),
        "small": (trials(3, searches([50, 100, 500], 3, EVERY, 300)), trials(1, searches([1000], 3, EVERY, 300))),
        "paper": (
            trials(3, searches([50, 100, 500, 1000], 5, f"{ALONE} joint loud")),
            trials(1, searches([5000, 10_000], 1, f"{ALONE} joint loud"), searches([50, 100, 500], 2, "hlb")),
        ),
    },
    panels=(
        Lines("N", "numbers", ("scheme", "p", "compact", "joint", "spread"), title="memory and codebook, for 99 %",
              percent=False, log_x=True, log_y=True),
        Lines("N", "cells", ("scheme", "p", "compact", "joint", "spread"), title="the memory alone, for 99 %",
              percent=False, log_x=True, log_y=True),
    ),
    unpublished="the paper has 2.7 million for OSC, 6.9 million for TPR and 3.4 billion for HLB at 10,000; see tpr.",
)  # fmt: skip
