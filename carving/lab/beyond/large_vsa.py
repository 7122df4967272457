"""HLB at the sizes where the paper's codebook filled or burst a GPU: fillers are made in chunks and never held."""

from carving.lab.experiment import Experiment, Published, TablePanel, grid, trials
from carving.lab.measures.large import large_accuracy
from carving.planner.families import vsa_accuracy

PAIRS, SIZES = 10_000, [343_000, 421_875]
QUANTITIES = ("retrieval", "predicted", "GiB", "storing seconds", "asking seconds")

EXPERIMENT = Experiment(
    name="large-vsa",
    title="HLB with a codebook of 13.7 and 16.9 GB, generated part by part",
    source="table of figure memory comparison, p=3, whose accuracies superposition-p3 has; at d=421,875 the paper ran "
    "out of memory",
    notes="`GiB` is the largest resident memory of the process, and seconds are those of all cores: run it alone to "
    "compare them.",
    measure=large_accuracy,
    scales={
        "smoke": (trials(1, grid(scheme="HLB", d=2_000, N=100, questions=50)),),
        "small": (trials(1, grid(scheme="HLB", d=20_000, N=1_000, questions=200)),),
        "paper": (trials(1, grid(scheme="HLB", d=SIZES, N=PAIRS, questions=1_000)),),
    },
    panels=tuple(TablePanel(("scheme", "N"), "d", quantity, title=quantity) for quantity in QUANTITIES),
    published=tuple(
        Published({"d": d, "N": PAIRS}, "retrieval", vsa_accuracy(d, PAIRS, PAIRS), source="our theory", predicted=True)
        for d in SIZES
    ),
    timed=True,
)
