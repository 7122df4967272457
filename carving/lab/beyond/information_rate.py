"""Not in the paper: bits of information in each dimension of a sum of symbols, beside the best published ones."""

from carving.lab.experiment import Experiment, Lines, Published, Setting, TablePanel, trials
from carving.lab.measures.rates import information_rate

#            symbols of a codebook, and how many are summed in 500 dimensions
LOADS = {5: (50, 100, 150, 200, 250, 300, 350, 400, 450), 15: (50, 75, 100, 125, 150, 175, 200, 225, 250),
         100: (25, 40, 50, 60, 70, 80, 90, 100, 110), 1000: (20, 30, 40, 45, 50, 55, 60, 70)}  # fmt: skip


def settings(scale: int, step: int, *symbols: int) -> list[Setting]:
    """So many times 500 dimensions and as many symbols."""
    return [
        {"scheme": "MAP-I", "d": 500 * scale, "N": scale * load, "L": size, "fillers": "uniform", "symbols": load}
        for size in symbols for load in LOADS[size][::step]
    ]  # fmt: skip


OTHER = "their codebooks have other sizes than ours, and 500 dimensions are ours: the abstract gives no more"
EXPERIMENT = Experiment(
    name="information-rate",
    title="bits of information per dimension",
    source="nothing; Kleyko et al. 2023 (arXiv 2305.16873) have 1.40 bits a dimension for smaller codebooks, 1.26 for "
    "larger ones",
    notes="N symbols, each drawn from a codebook of its place (random signs, MAP-I), are summed in d dimensions of "
    "real numbers; the places are known. A symbol that is named with an accuracy a of L tells a log2(a L) + (1 - a) "
    "log2((1 - a) L / (L - 1)) bits. One at a time, half a bit a dimension is what theory has as the limit.",
    measure=information_rate,
    scales={
        "smoke": (trials(1, settings(1, 8, 5, 100)),),
        "small": (trials(10, settings(1, 2, 5, 15, 100, 1000)),),
        "paper": (trials(20, settings(1, 1, *LOADS)), trials(1, settings(8, 2, *LOADS))),
    },
    panels=(
        Lines("symbols", "rate together", ("L", "d"), title="joint decoding", label="bits per dimension",
              percent=False),
        Lines("symbols", "rate alone", ("L", "d"), title="one at a time", label="bits a dimension", percent=False),
        TablePanel(("L", "d"), "symbols", "together", title="share of symbols named, together"),
    ),
    published=(
        Published({"L": 5, "d": 500}, "rate together", 1.40, unit=0.01, source="smaller codebooks",
                  why=OTHER, best=True,
                  comparable=False),
        Published({"L": 100, "d": 500}, "rate together", 1.26, unit=0.01, source="larger codebooks",
                  why=OTHER, best=True,
                  comparable=False),
    ),
)  # fmt: skip
