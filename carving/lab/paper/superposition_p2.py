"""Figure "memory comparison, p=2": HLB and OSC with equally many numbers in the memory, up to 1,000 bundles."""

from carving.lab.experiment import Experiment, Lines, Published, Setting, grid, trials
from carving.lab.measures.retrieval import accuracy
from carving.lab.paper.capacity_4096 import OSC_WHY


def equals(p: int, sides: list[int], **axes: object) -> list[Setting]:
    """OSC of these sides, and HLB with as many numbers in the memory."""
    return grid(scheme="OSC", d=sides, p=p, **axes) + grid(scheme="HLB", d=[side**p for side in sides], **axes)


PANELS = tuple(Lines("N", name, ("scheme", "d"), title=name) for name in ("retrieval", "recognition"))
OSC, HLB = {"scheme": "OSC", "d": 200, "N": 1000}, {"scheme": "HLB", "d": 40_000, "N": 1000}

EXPERIMENT = Experiment(
    name="superposition-p2",
    title="HLB against OSC of order 2, memories of equal size",
    source="appendix, figure memory comparison (p=2): 91 times the total memory",
    notes="91 = 40,000 · 1,001 / 440,000, the quotient of the two counts below.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, equals(2, [16, 24], N=[10, 30], questions=30)),),
        "small": (trials(3, equals(2, [50, 100, 150, 200], N=[200, 600, 1000], questions=300)),),
        "paper": (trials(10, equals(2, list(range(25, 201, 25)), N=[100, 200, 400, 600, 800, 1000], questions=1000)),),
    },
    panels=PANELS,
    published=(
        Published(OSC, "numbers", 440_000, unit=1, source="caption"),
        Published(HLB, "numbers", 200**2 * 1001, unit=1, source="caption"),
        Published(OSC, "retrieval", 0.9977, unit=1e-4, spread=9e-4, source="table of figure all VSAs", why=OSC_WHY),
    ),
)
