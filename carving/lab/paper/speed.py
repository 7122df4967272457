"""Table "speed": the wall-clock time of one question on this machine, beside the paper's on a GPU; parameters."""

from dataclasses import replace

from carving.lab.experiment import Experiment, Setting, TablePanel, trials
from carving.lab.measures.costs import CORE, HLB, speed
from carving.lab.paper.flops import SIZES, rows, settings

#  milliseconds, and parameters with the worth of their last digit, at L = 100, 1,000 and 10,000
TIMES = {
    ("B1", HLB): (0.068, 0.071, 0.180), ("B1", CORE): (0.149, 0.140, 0.156),
    ("B2", HLB): (0.071, 0.196, 1.189), ("B2", CORE): (0.155, 0.203, 0.306),
    ("B3", HLB): (0.261, 1.345, None), ("B3", CORE): (0.384, 0.407, 1.252),
}  # fmt: skip
WITH_UNIT = {key: [None if ms is None else (ms, 1e-3) for ms in times] for key, times in TIMES.items()}
K, M = 1e3, 1e6
NUMBERS = {
    ("B1", HLB): ((414 * K, K), (4.1 * M, 0.1 * M), (41.0 * M, 0.1 * M)),
    ("B1", CORE): ((17 * K, K), (132 * K, K), (1.3 * M, 0.1 * M)),
    ("B2", HLB): ((4.0 * M, 0.1 * M), (40.0 * M, 0.1 * M), (400 * M, M)),
    ("B2", CORE): ((80 * K, K), (440 * K, K), (4.0 * M, 0.1 * M)),
    ("B3", HLB): ((42.6 * M, 0.1 * M), (422 * M, M), None),
    ("B3", CORE): ((444 * K, K), (647 * K, K), (2.7 * M, 0.1 * M)),
}


def within(numbers: float, sizes: list[int]) -> list[Setting]:
    """Both methods, as far as HLB's codebook has so many numbers at most."""
    both = settings(sizes, (HLB, CORE))
    return [s for s in both if s["method"] == CORE or s["d"] ** s["p"] * s["L"] <= numbers]


EXPERIMENT = Experiment(
    name="speed",
    title="wall-clock time per query, and parameters",
    source="table speed: HLB is faster for small vocabularies, OSC for large ones",
    notes="All cores, nothing beside it, the median of many questions. OSC is our own code, in core coordinates. HLB's "
    "codebook of B3 at L=10,000 would take 17 GB, and is not made here either.",
    measure=speed,
    scales={
        "smoke": (trials(2, within(1e6, [100])),),
        "small": (trials(3, within(1e8, SIZES)),),
        "paper": (trials(10, within(5e8, SIZES)),),
    },
    panels=(
        TablePanel(("benchmark", "method"), "L", "ms", title="milliseconds of one question"),
        TablePanel(("benchmark", "method"), "L", "numbers", title="numbers held"),
    ),
    published=(
        *(replace(time, comparable=False, why="the paper's machine is a GPU") for time in rows(WITH_UNIT, "ms")),
        *rows(NUMBERS, "numbers"),
    ),
    timed=True,
)
