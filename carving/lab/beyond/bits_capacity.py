"""Not in the paper: bits per pair of quantized memories, by single queries and by joint decoding, with ten seeds."""

from carving.lab.experiment import Experiment, Lines, Setting, TablePanel, trials
from carving.lab.measures.bits import quantized_accuracy


def memories(pairs: int, bits: int, spread: float, sizes: list[int], k1: int = 20, joint: bool = True) -> list[Setting]:
    """As many pairs as fillers, in quantized memories of these sizes."""
    return [
        {"scheme": "OSC", "signed": True, "compact": True, "basis": "blocks", "p": 2, "d": d, "k1": k1, "N": pairs,
         "bits": bits, "spread": spread, "joint": joint, "about": round(bits * d**2 / pairs, 2)}
        for d in sizes
    ]  # fmt: skip


SERIES = ("N", "bits", "spread", "k1")
EXPERIMENT = Experiment(
    name="bits-capacity",
    title="bits per pair of quantized memories near the threshold",
    source="nothing: it has 32 bits a cell",
    notes="As many fillers as pairs, compact, contexts known, no prior; bits a pair (`about`) are those of the "
    "cells, and 64 for the scale. Wanted, with ten of ten seeds: all of 1,000 right with at most 13.0 bits a pair (2 "
    "bits, d=80, spread 0.6; 3 bits, d=65, spread 0.9), all of 10,000 with at most 17.5 (2 bits, d=293, spread "
    "0.7); 99 % of single questions about 1,000 with at most 55 (1 bit, d=234). The limit is log2 N. A trial "
    "of 10,000 pairs takes minutes.",
    measure=quantized_accuracy,
    scales={
        "smoke": (trials(2, memories(60, 2, 0.0, [24, 32], k1=6), memories(60, 1, 0.0, [60], k1=8, joint=False)),),
        "small": (
            trials(3, memories(300, 2, 0.5, [44, 48, 52], k1=12), memories(300, 1, 0.0, [110, 130], joint=False)),
        ),
        "paper": (
            trials(10, memories(1000, 1, 0.4, [114, 116]), memories(1000, 1, 0.0, [230, 234], joint=False)),
            trials(10, memories(1000, 2, 0.6, [79, 80, 82]), memories(1000, 3, 0.9, [64, 65, 66])),
            trials(10, memories(10_000, 2, 0.7, [293], k1=16)),
        ),
    },
    panels=(
        Lines("about", "together", SERIES, title="together", log_x=True),
        Lines("about", "rounds", SERIES, title="rounds", percent=False, log_x=True, log_y=True),
        *(TablePanel(SERIES, "d", quantity, title=quantity) for quantity in ("alone", "all right", "converged")),
    ),
    unpublished="the paper keeps real numbers.",
)  # fmt: skip
