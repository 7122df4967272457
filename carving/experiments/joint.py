"""Not in the paper: accuracy against cells a pair, asked one at a time and decoded together, for linear schemes."""

from carving.experiments.experiment import Experiment, Lines, Setting, grid, trials
from carving.experiments.measures import accuracy

VSAS = ["HLB", "MAP-I", "HRR", "FHRR"]
LOADS = [2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32, 40]


def settings(n: int, loads: list[float], vsas: list[str]) -> list[Setting]:
    """Memories of N pairs with so many cells a pair, asked both ways."""
    found = []
    for load in loads:
        size = {"d": round(load * n), "N": n, "cells a pair": load, "questions": n}
        found += [*grid(scheme=vsas, **size), *grid(scheme=vsas, **size, joint=True)]
    return found


def carved(n: int, loads: list[float]) -> list[Setting]:
    """The same of OSC, whose sides are the nearest; some contexts louder where all are decoded together."""
    kinds: list[Setting] = [{}, {"compact": True}, {"joint": True}, {"compact": True, "joint": True}]
    kinds.append(kinds[-1] | {"spread": 1.6})
    return [
        {"scheme": "OSC", "p": p, "d": round((load * n) ** (1 / p)), "signed": True, "N": n, "cells a pair": load,
         "questions": n} | kind
        for load in loads for p in (2, 3) for kind in kinds
    ]  # fmt: skip


def panel(title: str, **only: object) -> Lines:
    """The lines of one way of asking."""
    series = ("scheme", "p", "compact", "spread")
    return Lines("cells a pair", "retrieval", series, title, log_x=True, only=only)


EXPERIMENT = Experiment(
    name="joint",
    title="accuracy against cells a pair, one at a time and joint",
    source="nothing: it asks one context at a time, and concedes that VSAs hold slightly more a cell",
    notes="As many fillers as pairs. All schemes have the same decoder. Where thresholds are the same, only the "
    "codebook tells them apart; 'spread' writes some contexts louder, which any scheme could do.",
    measure=accuracy,
    scales={
        "smoke": (trials(1, settings(60, [6, 16], ["HLB"]), carved(60, [6, 16])),),
        "small": (trials(3, carved(300, LOADS[1::2])), trials(1, settings(300, LOADS[1::2], VSAS))),
        "paper": (trials(5, carved(1000, LOADS)), trials(1, settings(1000, LOADS, VSAS))),
    },
    panels=(panel("one at a time", joint=None), panel("joint", joint=True)),
    unpublished="the paper does not decode together.",
)
