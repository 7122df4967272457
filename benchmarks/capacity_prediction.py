"""Predicted accuracy beside that of real memories, over settings of OSC, HLB and TPR.

`python benchmarks/capacity_prediction.py` - five minutes on one core. Prints a table, writes
results/capacity-prediction.json and, where matplotlib is installed, results/capacity-prediction.png.
"""

import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Generator, Tensor

from carving import OSC, TPR, Scheme, make
from carving.prediction import alone as capacity

OUTPUT = Path(__file__).parent.parent / "results" / "capacity-prediction.json"
CONTEXTS = 5_000  # asked in each setting

# For p = 2, 3, 4 and three sides each: k1 of 3, sqrt(d) and d/3, vocabularies and shared contexts in turn, and as many
# pairs as bring the predicted accuracy to 55 ... 99 % in turn, but 48 pairs and 24 contexts at least.
# fmt: off
#    d, p, k1, pairs, vocabulary, shared
GRID = (
    (32, 2, 3, 48, 1000, 1), (32, 2, 3, 48, 60, 1), (32, 2, 3, 48, 300, 1), (32, 2, 6, 92, 100, 1),
    (32, 2, 6, 48, 200, 2), (32, 2, 6, 48, 600, 2), (32, 2, 6, 48, 1000, 2), (32, 2, 10, 55, 200, 1),
    (32, 2, 10, 48, 4000, 1), (32, 2, 10, 48, 2000, 2), (64, 2, 3, 113, 300, 1), (64, 2, 3, 119, 600, 1),
    (64, 2, 3, 79, 60, 1), (64, 2, 8, 316, 1000, 1), (64, 2, 8, 174, 100, 1), (64, 2, 8, 101, 1000, 1),
    (64, 2, 8, 72, 1000, 3), (64, 2, 21, 299, 200, 1), (64, 2, 21, 196, 200, 2), (64, 2, 21, 226, 2000, 2),
    (120, 2, 3, 97, 300, 1), (120, 2, 3, 48, 4000, 1), (120, 2, 3, 48, 600, 1), (120, 2, 11, 787, 1000, 1),
    (120, 2, 11, 963, 60, 1), (120, 2, 11, 1936, 100, 1), (120, 2, 11, 272, 200, 2), (120, 2, 40, 346, 2000, 2),
    (120, 2, 40, 342, 200, 2), (120, 2, 40, 606, 1000, 3), (14, 3, 3, 53, 200, 1), (14, 3, 3, 48, 4000, 1),
    (14, 3, 3, 79, 600, 1), (14, 3, 4, 73, 1000, 1), (14, 3, 4, 86, 4000, 1), (14, 3, 4, 243, 60, 1),
    (14, 3, 4, 118, 300, 2), (24, 3, 3, 153, 1000, 1), (24, 3, 3, 376, 200, 1), (24, 3, 3, 211, 100, 1),
    (24, 3, 5, 641, 60, 1), (24, 3, 5, 623, 4000, 1), (24, 3, 5, 1345, 200, 1), (24, 3, 5, 320, 2000, 2),
    (24, 3, 8, 441, 60, 1), (24, 3, 8, 185, 300, 5), (24, 3, 8, 240, 600, 10), (40, 3, 3, 1050, 1000, 1),
    (40, 3, 3, 2673, 100, 1), (40, 3, 3, 2350, 1000, 1), (40, 3, 6, 1910, 200, 1), (40, 3, 6, 1284, 2000, 2),
    (40, 3, 6, 3524, 200, 2), (40, 3, 6, 1200, 1000, 3), (40, 3, 13, 1943, 4000, 1), (40, 3, 13, 2010, 300, 5),
    (40, 3, 13, 1510, 600, 10), (9, 4, 3, 575, 60, 1), (9, 4, 3, 189, 100, 1), (9, 4, 3, 238, 1000, 1),
    (9, 4, 3, 328, 200, 1), (12, 4, 3, 80, 2000, 2), (12, 4, 3, 126, 200, 2), (12, 4, 3, 72, 1000, 3),
    (12, 4, 3, 120, 300, 5), (12, 4, 4, 1058, 200, 1), (12, 4, 4, 1008, 4000, 1), (12, 4, 4, 240, 600, 10),
    (16, 4, 3, 897, 1000, 1), (16, 4, 3, 1068, 60, 1), (16, 4, 3, 120, 300, 5), (16, 4, 4, 5814, 100, 1),
    (16, 4, 4, 2721, 100, 1), (16, 4, 4, 3468, 200, 2), (16, 4, 4, 1287, 1000, 3), (16, 4, 5, 2351, 200, 1),
    (16, 4, 5, 1397, 4000, 1), (16, 4, 5, 2488, 2000, 2),
)
#        d, pairs, vocabulary, shared
HLB = ((1_000, 60, 60, 1), (1_000, 100, 200, 5), (2_000, 120, 1_000, 3), (4_000, 170, 1_000, 10))
TPR_ = ((100, 300, 1_000, 1), (100, 300, 100, 1), (120, 300, 1_000, 3), (150, 500, 200, 5), (300, 2_000, 2_000, 2))
# fmt: on


class Result(NamedTuple):
    """A setting, and what was predicted and found."""

    scheme: str
    d: int
    p: int | None
    k1: int | None
    pairs: int
    vocabulary: int
    shared: int
    predicted: float
    simulated: float
    asked: int

    @property
    def error(self) -> float:
        """Prediction minus simulation, in points."""
        return 100 * (self.predicted - self.simulated)

    @property
    def deviation(self) -> float:
        """The standard error of the simulation, in points."""
        return 100 * math.sqrt(max(self.simulated * (1 - self.simulated), 1 / self.asked) / self.asked)


def used_equally(contexts: int, shared: int, vocabulary: int, generator: Generator) -> Tensor:
    """The fillers of each context (contexts, shared): all different there, each as often as any other, or once."""
    rounds = -(-contexts * shared // vocabulary)
    drawn = torch.cat([torch.randperm(vocabulary, generator=generator) for _ in range(rounds)])
    chosen = drawn[: contexts * shared].view(contexts, shared)
    while True:  # a filler that stands twice in a context changes places with one of another context
        ordered = chosen.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1).nonzero().squeeze(1)
        if not len(twice):
            return chosen
        for row in twice.tolist():
            other, column = (int(torch.randint(0, high, (), generator=generator)) for high in (contexts, shared))
            chosen[[row, other], column] = chosen[[other, row], column]


def simulated(scheme: Scheme, pairs: int, vocabulary: int, shared: int, contexts: int = CONTEXTS) -> tuple[float, int]:
    """The share of contexts whose fillers all outrank the rest, in real memories of other seeds, and how many asked."""
    right = asked = seed = 0
    while asked < contexts:
        own, generator = scheme.like(seed=seed), Generator().manual_seed(seed)
        chosen = used_equally(pairs // shared, shared, vocabulary, generator)
        places = own.contexts([(i,) for i in range(len(chosen))])
        fillers = own.fillers(range(vocabulary))
        memory = own.zeros()
        for column in chosen.unbind(1):
            memory += own.trace(places, fillers[column])
        for rows in torch.arange(min(len(chosen), contexts // 3)).split(250):  # three memories at least
            scores = own.score(memory, places[rows], fillers)
            lowest = scores.gather(1, chosen[rows]).amin(1)
            right += int((lowest > scores.scatter(1, chosen[rows], -math.inf).amax(1)).sum())
            asked += len(rows)
        seed += 1
    return right / asked, asked


def osc(d: int, p: int, k1: int, pairs: int, vocabulary: int, shared: int) -> Result:
    """One setting of OSC."""
    predicted = capacity.osc_accuracy(d, p, k1, pairs, vocabulary, shared)
    found = simulated(OSC(d, p, k1), pairs, vocabulary, shared)
    return Result("OSC", d, p, k1, pairs, vocabulary, shared, predicted, *found)


def hlb(d: int, pairs: int, vocabulary: int, shared: int) -> Result:
    """One setting of HLB."""
    predicted = capacity.vsa_accuracy(d, pairs, vocabulary, shared)
    found = simulated(make("HLB", d=d), pairs, vocabulary, shared)
    return Result("HLB", d, None, None, pairs, vocabulary, shared, predicted, *found)


def tpr(d: int, pairs: int, vocabulary: int, shared: int) -> Result:
    """One setting of TPR."""
    predicted = capacity.tpr_accuracy(d, pairs, vocabulary, shared)
    found = simulated(TPR(d, whole_path=True), pairs, vocabulary, shared)
    return Result("TPR", d, None, None, pairs, vocabulary, shared, predicted, *found)


def draw(results: list[Result], path: Path) -> None:
    """Prediction against simulation, with the band of two points, and the errors below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, figsize=(6, 8), height_ratios=(3, 1), sharex=True)
    kinds = {
        "OSC, p = 2": ("C0", "o"),
        "OSC, p = 3": ("C1", "s"),
        "OSC, p = 4": ("C2", "^"),
        "HLB": ("C3", "x"),
        "TPR": ("C4", "+"),
    }
    for name, (colour, marker) in kinds.items():
        some = [r for r in results if name == (f"OSC, p = {r.p}" if r.p else r.scheme)]
        x, y = [100 * r.predicted for r in some], [100 * r.simulated for r in some]
        style = dict(color=colour, marker=marker, linestyle="none", markersize=5, elinewidth=1)
        above.errorbar(x, y, yerr=[2 * r.deviation for r in some], label=name, **style)
        below.errorbar(x, [r.error for r in some], yerr=[2 * r.deviation for r in some], **style)
    for axes, centre in ((above, 1), (below, 0)):
        axes.fill_between([0, 100], [-2, 100 * centre - 2], [2, 100 * centre + 2], color="0.85", zorder=0)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    above.set(xlim=(0, 101), ylim=(0, 101), ylabel="simulated, % of contexts wholly right")
    above.legend(title="band: two points; bars: two standard errors", loc="upper left")
    below.set(xlabel="predicted, % of contexts wholly right", ylabel="predicted - simulated", ylim=(-4, 4))
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run everything, print and write it."""
    console = Console()
    runs = [*((osc, s) for s in GRID), *((hlb, s) for s in HLB), *((tpr, s) for s in TPR_)]
    results = [run(*setting) for run, setting in track(runs, "simulating", console=console)]
    table = Table(*Result._fields, "error", "s.e.")
    for r in results:
        shown = [f"{value:.4f}" if isinstance(value, float) else str(value or "") for value in r]
        table.add_row(*shown, f"{r.error:+.2f}", f"{r.deviation:.2f}")
    console.print(table)
    errors = [abs(r.error) for r in results]
    worst, mean = max(errors), math.sqrt(sum(e * e for e in errors) / len(errors))
    console.print(f"{len(results)} settings: largest error {worst:.2f} points, root mean square {mean:.2f}")
    OUTPUT.write_text(json.dumps([r._asdict() for r in results], indent=1) + "\n")
    try:
        draw(results, OUTPUT.with_suffix(".png"))
    except ModuleNotFoundError:
        console.print("no picture: matplotlib is not installed")


if __name__ == "__main__":
    main()
