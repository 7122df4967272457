"""Sections 3 and 5.2: footprint against depth, total memory against vocabulary, and the Welch bound."""

from carving.lab.experiment import Experiment, Lines, Published, grid, trials
from carving.lab.measures.triangle import triangle

KINDS = ({"scheme": "TPR"}, {"scheme": "VSA"}, {"scheme": "OSC", "p": 2}, {"scheme": "OSC", "p": 3})
FOOTPRINTS = [kind | size for kind in KINDS for size in grid(part="footprint", d=128, depth=[1, 2, 3, 4, 5, 6])]
TOTALS = [
    kind | size for kind in KINDS for size in grid(part="total", cells=[40_000], L=[10, 100, 1_000, 10_000, 100_000])
]
SIGNALS = grid(part="signal", d=128, N=[100, 1000])
COHERENT = grid(part="coherence", d=[10, 16], p=2, N=[300, 600, 1200]) + grid(part="coherence", d=6, p=3, N=[300, 600])

EXPERIMENT = Experiment(
    name="triangle",
    title="footprint against depth, total memory against vocabulary, coherence against the Welch bound",
    source="section 3 (TPR d=128 at depth 5: 3 x 10^10; VSA: SNR .358) and section 5.2 (d(1+V) and d^p + V p d)",
    notes="Footprints and totals are counts; signal to noise and coherence are measured. `over the bound` is the mean "
    "squared cosine of N traces in units of Welch's bound, which random traces of D = d^p numbers exceed by N/(N-D), "
    "and OSC by its excess besides.",
    measure=triangle,
    scales={
        "smoke": (trials(1, FOOTPRINTS, TOTALS), trials(3, SIGNALS, COHERENT[:2])),
        "small": (trials(1, FOOTPRINTS, TOTALS), trials(10, SIGNALS, COHERENT)),
        "paper": (trials(1, FOOTPRINTS, TOTALS), trials(50, SIGNALS, COHERENT)),
    },
    panels=(
        Lines("depth", "footprint", ("scheme", "p"), title="the memory, 128 dimensions", percent=False, log_y=True),
        Lines("L", "total", ("scheme", "p"), title="with the codebook, 40,000 in the memory", label="",
              log_x=True, log_y=True, percent=False),
        Lines("N", "over the bound", ("d", "p"), title="how alike bound pairs are", label="multiple of Welch's bound",
              percent=False),
    ),
    published=(
        Published(
            {"part": "footprint", "scheme": "TPR", "d": 128, "depth": 5}, "footprint", 3e10, unit=1e10,
            source="section 3",
            why="the paper counts d⁵; by its own definition a tree of depth 5 needs d⁶, filler and five roles",
        ),
        Published({"part": "signal", "d": 128, "N": 1000}, "signal to noise", 0.358, unit=1e-3, source="section 3"),
        Published({"part": "total", "scheme": "VSA", "L": 1000}, "total", 40_000 * 1001, unit=1, source="section 5.2"),
        Published({"part": "total", "scheme": "OSC", "p": 2, "L": 1000}, "total", 440_000, unit=1,
                  source="section 5.2"),
    ),
)  # fmt: skip
