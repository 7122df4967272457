"""Figure "memory comparison, p=3" and its table: 1178 times the total memory, at 10,000 bundles."""

from carving.lab.experiment import Experiment, Published, grid, trials
from carving.lab.measures.retrieval import accuracy
from carving.lab.paper.superposition_p2 import PANELS, equals

MANY, SOURCE = 10_000, "table of figure memory comparison, p=3"
#         scheme d      retrieval ±     recognition ±   total memory
TABLE = (("HLB", 343_000, (97.19, 0.10), (100.0, 0.0), 3_430_343_000),
         ("HLB", 15_625, (0.56, 0.09), (80.95, 0.22), 156_265_625),
         ("OSC", 80, (99.85, 0.04), (100.0, 0.0), 2_912_000))  # fmt: skip


def rows() -> list[Published]:
    """The table, line by line; of the largest VSA the paper has the memory only, since it ran out of it."""
    published = [Published({"scheme": "HLB", "d": 421_875, "N": MANY}, "numbers", 4_219_171_875, unit=1, source=SOURCE)]
    for scheme, d, retrieval, recognition, numbers in TABLE:
        where = {"scheme": scheme, "d": d, "N": MANY}
        for name, (value, spread) in (("retrieval", retrieval), ("recognition", recognition)):
            published.append(Published(where, name, value / 100, unit=1e-4, spread=spread / 100, source=SOURCE))
        published.append(Published(where, "numbers", numbers, unit=1, source=SOURCE))
    return published


EXPERIMENT = Experiment(
    name="superposition-p3",
    title="HLB against OSC of order 3, memories of equal size",
    source="figure memory comparison (p=3) and its table: 1178 = 3,430,343,000 / 2,912,000 times the total memory",
    notes="1,000 pairs are asked for in each trial. HLB's fillers are made from labels, part by part, and never held, "
    "so that d=421,875 runs where the paper ran out of memory. At scale paper the four d of HLB have 5, 2, 2 and 1 "
    "trials, all that an hour allows; one of the last takes about ten minutes.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, equals(3, [8, 12], N=[20, 60], questions=30)),),
        "small": (
            trials(3, equals(3, [25, 40], N=[500, 2000], questions=300)),
            trials(3, grid(scheme="OSC", d=80, p=3, N=MANY, questions=400)),
            trials(2, grid(scheme="HLB", d=15_625, N=MANY, questions=400)),
        ),
        "paper": (
            trials(10, grid(scheme="OSC", d=[25, 40, 55, 70, 75, 80], p=3, N=[1000, 2500, 5000, MANY], questions=1000)),
            trials(5, grid(scheme="HLB", d=15_625, N=[1000, 2500, 5000, MANY], questions=1000)),
            trials(2, grid(scheme="HLB", d=64_000, N=[1000, 2500, 5000, MANY], questions=1000)),
            trials(2, grid(scheme="HLB", d=343_000, N=MANY, questions=1000)),
            trials(1, grid(scheme="HLB", d=421_875, N=MANY, questions=1000)),
        ),
    },
    panels=PANELS,
    published=tuple(rows()),
)
