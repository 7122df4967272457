"""Not in the paper: accuracy against cells a pair, asked one at a time and decoded together, for linear schemes."""

from carving.lab.experiment import Experiment, Lines, Setting, trials
from carving.lab.measures.retrieval import accuracy

VSAS = ["HLB", "MAP-I", "HRR", "FHRR", "VTB", "MBAT", "GHRR"]
LOADS = [2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 40]


def sized(scheme: str, cells: float, p: int = 2) -> int:
    """The dimension with the number of cells that lies nearest."""
    if scheme in ("OSC", "TPR"):
        return round(cells ** (1 / p))
    return round(cells**0.5) ** 2 if scheme == "VTB" else 8 * round(cells / 8) if scheme == "GHRR" else round(cells)


def settings(n: int, loads: list[float], schemes: list[str]) -> list[Setting]:
    """Memories of N pairs with so many cells a pair, of other schemes."""
    return [
        {"scheme": name, "d": sized(name, load * n), "N": n, "cells a pair": load, "questions": n, "joint": True}
        for load in loads
        for name in schemes
    ]


def carved(n: int, loads: list[float]) -> list[Setting]:
    """The same of OSC: as published but for signs, with compact fillers, and with some contexts louder."""
    kinds: list[Setting] = [{}, {"compact": True}, {"compact": True, "spread": 1.6}]
    return [
        {"scheme": "OSC", "p": p, "d": sized("OSC", load * n, p), "signed": True, "N": n, "cells a pair": load,
         "questions": n, "joint": True} | kind
        for load in loads for p in (2, 3) for kind in kinds
    ]  # fmt: skip


SERIES = ("scheme", "p", "compact", "spread")
EXPERIMENT = Experiment(
    name="joint",
    title="accuracy against cells per pair, single queries and joint decoding",
    source="nothing: it asks one context at a time, and concedes that VSAs hold slightly more a cell",
    notes="As many fillers as pairs; the same memories are asked both ways. All schemes have the same decoder. Where "
    "thresholds are the same, only the codebook tells them apart; 'spread' writes some contexts louder, which any "
    "scheme could do.",
    measure=accuracy,
    scales={
        "smoke": (trials(1, settings(60, [6, 16], ["HLB", "TPR"]), carved(60, [6, 16])),),
        "small": (trials(3, carved(300, LOADS[1::2])), trials(1, settings(300, LOADS[1::2], ["TPR", *VSAS]))),
        "paper": (trials(3, carved(1000, LOADS)), trials(1, settings(1000, LOADS, ["TPR", *VSAS]))),
    },
    panels=(
        Lines("cells a pair", "alone", SERIES, title="one at a time", log_x=True),
        Lines("cells a pair", "retrieval", SERIES, title="all together", log_x=True),
    ),
    unpublished="the paper does not decode together.",
)
