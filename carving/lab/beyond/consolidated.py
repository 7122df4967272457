"""Not in the paper: what a memory names one question at a time when its tensor is solved, not summed."""

from carving.lab.experiment import Experiment, Lines, Setting, TablePanel, trials
from carving.lab.measures.consolidated import consolidated


def sized(n: int, d: int, k1: int, **options: int) -> Setting:
    """OSC of order 2 with compact fillers, for as many pairs as values."""
    sizes: Setting = {"scheme": "OSC", "basis": "blocks", "compact": True, "p": 2, "d": d, "k1": k1, "N": n, "L": n}
    return sizes | {"cells a pair": round(d * d / n, 1), "bits": 32} | options


THOUSAND = [
    sized(1000, 80, 4), sized(1000, 82, 3), sized(1000, 85, 4), sized(1000, 90, 4), sized(1000, 90, 6),
    sized(1000, 100, 5), sized(1000, 100, 10), sized(1000, 110, 6), sized(1000, 127, 6), sized(1000, 160, 10),
]  # fmt: skip
BITS = [
    sized(1000, d, k1, bits=bits)
    for d, k1, bits in ((90, 6, 8), (90, 4, 4), (100, 5, 4), (110, 6, 4), (127, 6, 4), (127, 6, 2), (110, 6, 2))
]
LARGER = [sized(4000, 200, 5), sized(10_000, 331, 5)]

EXPERIMENT = Experiment(
    name="consolidated",
    title="accuracy of single queries against cells per pair, added and consolidated",
    source="nothing: its memories are sums; for 99 % of 1,000 pairs of as many fillers it needs 44 cells a pair",
    notes="As many values as pairs; `bits` is what a cell takes, with the solver in the loop where it is less than 32. "
    "`error` is the calibration error of answers when half of the paths hold nothing, on paths that nothing was fitted "
    "to, and `perfect` that of a model which is right exactly as often as it says; `told` is the share of them "
    "that is right, nothing being an answer too. Points above each other: one size, contexts of several.",
    measure=consolidated,
    scales={
        "smoke": (trials(1, [sized(60, 24, 4), sized(60, 24, 4, bits=4)]),),
        "small": (trials(1, THOUSAND, BITS),),
        "paper": (trials(3, THOUSAND, BITS), trials(1, LARGER)),
    },
    panels=(
        Lines("cells a pair", "by addition", ("N", "bits"), title="by addition"),
        Lines("cells a pair", "solved", ("N", "bits"), title="solved"),
        *(
            TablePanel(("N", "cells a pair", "k1"), "bits", quantity, title=quantity)
            for quantity in ("by addition", "solved", "error", "perfect", "processor seconds")
        ),
    ),
    unpublished="the paper adds pairs up.",
)
