"""Figure "retrieval and recognition": four VSAs retrieved both ways, by unbinding and by binding candidates again."""

from carving.lab.experiment import Experiment, Lines, grid, trials
from carving.lab.measures.retrieval import two_ways

FOUR = ["FHRR", "HLB", "MAP-I", "VTB"]

EXPERIMENT = Experiment(
    name="recognition-vs-unbinding",
    title="four VSAs retrieved by unbinding and by recognition",
    source="appendix, figure retrieval by recognition: the curves match those of unbinding",
    notes="Unbinding is the transpose of binding for FHRR, MAP-I and VTB (the paper excludes VTB), and not for HLB, "
    "which divides. Answers can still differ where norms of bound candidates do (VTB), as both compare cosines.",
    measure=two_ways,
    scales={
        "smoke": (trials(2, grid(scheme=FOUR, d=256, N=[10, 30])),),
        "small": (trials(3, grid(scheme=FOUR, d=4096, N=[200, 600, 1000], questions=500)),),
        "paper": (trials(10, grid(scheme=FOUR, d=[4096, 8100], N=[100, 200, 400, 600, 800, 1000], questions=1000)),),
    },
    panels=(
        Lines("N", "recognition", ("scheme", "d"), title="by recognition", label="queries answered correctly"),
        Lines("N", "unbinding", ("scheme", "d"), title="by unbinding"),
        Lines("N", "same answer", ("scheme", "d"), title="questions answered alike"),
    ),
    unpublished="the paper prints curves only, and says that the two ways agree.",
)
