"""Not in the paper: the share of pairs that are named against the bits that a pair takes."""

import math

from carving.lab.experiment import Experiment, Lines, Setting, trials
from carving.lab.measures.rates import bits, taken

RIBBON = 1.01  # times log2 L: what a static retrieval structure takes (bumped ribbon, arXiv 2109.01892)
# fmt: off
#    what it is called, how it is asked, and the sides that are tried for 1,000 pairs; all are p=2
KINDS: tuple[tuple[str, Setting, tuple[int, ...]], ...] = (
    ("the paper's OSC", {"asked": "alone"}, (60, 90, 120, 150, 180, 210)),
    ("compact, alone, 2 bits", {"asked": "alone", "bits": 2}, (80, 110, 140, 170, 200, 230)),
    ("compact, alone, 1 bit", {"asked": "alone", "bits": 1}, (100, 140, 180, 210, 240)),
    ("consolidated, 4 bits", {"asked": "solved", "bits": 4, "k1": 4}, (78, 82, 86, 90, 100)),
    ("consolidated, 2 bits", {"asked": "solved", "bits": 2, "k1": 6}, (90, 100, 110, 120, 127)),
    ("compact, joint", {"asked": "together"}, (60, 70, 76, 80, 84, 90, 100)),
    ("quantized, joint, 1 bit", {"asked": "together", "bits": 1, "spread": 0.4, "k1": 20}, (100, 110, 115, 120, 125)),
    ("quantized, joint, 2 bits", {"asked": "together", "bits": 2, "spread": 0.6, "k1": 20}, (68, 72, 75, 78, 80, 84)),
    ("quantized, joint, 3 bits", {"asked": "together", "bits": 3, "spread": 0.9, "k1": 20}, (56, 60, 62, 64, 66, 70)),
)
# fmt: on


def settings(pairs: int, step: int) -> list[Setting]:
    """Every kind with every side, for so many pairs of as many fillers."""
    sized = [(name, how, round(d * math.sqrt(pairs / 1000))) for name, how, sides in KINDS for d in sides[::step]]
    return [
        {"kind": name, "scheme": "OSC", "d": d, "p": 2, "N": pairs, "bits a pair": taken(d * d, pairs, how.get("bits"))}
        | ({} if name.startswith("the paper") else {"compact": True, "basis": "blocks"})
        | how
        | ({"k1": min(how["k1"], d // 2)} if "k1" in how else {})
        for name, how, d in sized
    ]


MARKS = {
    "the limit, the logarithm of the words": lambda setting: math.log2(setting["N"]),
    "static retrieval, by its formula": lambda setting: RIBBON * math.log2(setting["N"]),
}
EXPERIMENT = Experiment(
    name="bits",
    title="accuracy against bits per pair",
    source="nothing: it counts numbers, not bits",
    notes=f"As many fillers as pairs, 1,000: the limit is log2 L = {math.log2(1000):.2f} bits a pair, and a static "
    f"retrieval structure takes {RIBBON * math.log2(1000):.2f} by its formula, but cannot add, merge or forget, and "
    "answers something for what was never stored. Bits a pair are those of cells, and the two numbers that scale them. "
    "The paper's codebook, which its count includes, comes from labels here.",
    measure=bits,
    scales={
        "smoke": (trials(1, settings(60, 6)),),
        "small": (trials(2, settings(300, 1)),),
        "paper": (trials(3, settings(1000, 1)),),
    },
    panels=(Lines("bits a pair", "retrieval", ("kind",), title="as many fillers as pairs", log_x=True, marks=MARKS),),
    unpublished="no vector symbolic memory is published in bits.",
)
