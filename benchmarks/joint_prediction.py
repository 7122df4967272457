"""State evolution beside joint decoding of real memories, on both sides of the threshold.

`python benchmarks/joint_prediction.py` - some minutes on one core. Prints a table, writes results/joint-prediction.json
and, where matplotlib is installed, results/joint-prediction.png. A setting is near the threshold where 7 % more or
fewer pairs would be predicted to end on the other side of it; there, finite memories end on either side.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Generator

from carving import Scheme, make
from carving.answers import together as joint
from carving.prediction import plan as planner

OUTPUT = Path(__file__).parent.parent / "results" / "joint-prediction.json"
NEAR = 0.07  # of the pairs
ANSWERS = 6_000  # asked in each setting where the prediction is not that all are right

#    scheme, parameters, pairs, vocabulary
Setting = tuple[str, dict[str, Any], int, int]


def compact(d: int, p: int, k1: int, spread: float = 0.0) -> tuple[str, dict[str, Any]]:
    """Compact fillers."""
    return "OSC", dict(d=d, p=p, k1=k1, compact=True, spread=spread)


def ordinary(d: int, p: int, k1: int, spread: float = 0.0) -> tuple[str, dict[str, Any]]:
    """Ordinary fillers."""
    return "OSC", dict(d=d, p=p, k1=k1, spread=spread)


# fmt: off
GRID: tuple[Setting, ...] = (
    (*compact(60, 2, 8), 1_000, 1_000), (*compact(72, 2, 8), 1_000, 1_000), (*compact(88, 2, 9), 1_000, 1_000),
    (*compact(40, 2, 6), 500, 100), (*compact(36, 2, 6), 400, 100), (*compact(40, 2, 6), 300, 100),
    (*compact(70, 2, 10), 800, 10_000), (*compact(100, 2, 10), 800, 10_000),
    (*compact(20, 3, 4), 1_000, 1_000), (*compact(16, 3, 4), 800, 1_000), (*compact(23, 3, 5), 1_000, 1_000),
    (*compact(22, 3, 6), 1_500, 3_000), (*compact(25, 3, 5), 1_500, 3_000), (*compact(10, 4, 3), 1_500, 300),
    (*compact(60, 2, 8, 1.2), 1_000, 1_000), (*compact(48, 2, 8, 1.2), 1_000, 1_000),
    (*compact(18, 3, 4, 1.2), 1_500, 1_000), (*compact(15, 3, 4, 1.2), 1_800, 1_000),
    (*compact(56, 2, 8, 1.2), 500, 10_000),
    (*ordinary(60, 2, 8), 1_000, 1_000), (*ordinary(72, 2, 8), 1_000, 1_000), (*ordinary(90, 2, 9), 1_000, 1_000),
    (*ordinary(40, 2, 6), 300, 100), (*ordinary(36, 2, 6), 400, 100),
    (*ordinary(20, 3, 4), 1_000, 1_000), (*ordinary(23, 3, 5), 1_000, 1_000), (*ordinary(17, 3, 4), 1_000, 1_000),
    (*ordinary(60, 2, 8, 1.2), 1_000, 1_000), (*ordinary(48, 2, 8, 1.2), 1_000, 1_000),
    ("HLB", dict(d=3_000), 300, 1_000), ("HLB", dict(d=2_000), 400, 1_000), ("HLB", dict(d=2_000), 500, 100),
    ("HLB", dict(d=2_000), 250, 100),
)
# fmt: on


class Result(NamedTuple):
    """A setting, and what was predicted and found."""

    scheme: str
    parameters: dict[str, Any]
    pairs: int
    vocabulary: int
    alone: float  # predicted, asked one at a time; without a spread
    predicted: float
    fewer: float  # predicted for NEAR fewer pairs
    more: float
    simulated: float
    lowest: float  # of the seeds
    highest: float
    rounds: float

    @property
    def error(self) -> float:
        """Prediction minus simulation, in points."""
        return 100 * (self.predicted - self.simulated)

    @property
    def near(self) -> bool:
        """Whether the threshold is near: there, the prediction jumps."""
        return self.fewer - self.more > 0.25


def decoded(scheme: Scheme, pairs: int, vocabulary: int) -> tuple[float, int]:
    """The share of right answers of a real memory, each filler stored as often as any other, and the rounds."""
    generator = Generator().manual_seed(scheme.seed)
    drawn = [torch.randperm(vocabulary, generator=generator) for _ in range(-(-pairs // vocabulary))]
    chosen = torch.cat(drawn)[:pairs]
    contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(vocabulary))
    answer = joint.decode(scheme, scheme.trace(contexts, fillers[chosen]), contexts, fillers)
    return float((answer.indices == chosen).double().mean()), answer.rounds


def compared(scheme: str, parameters: dict[str, Any], pairs: int, vocabulary: int, seeds: int | None = None) -> Result:
    """One setting."""
    here, fewer, more = (
        planner.predict(round(pairs * factor), vocabulary, scheme=scheme, **parameters, joint=True)
        for factor in (1, 1 - NEAR, 1 + NEAR)
    )
    seeds = seeds or (2 if here > 0.99 else -(-ANSWERS // pairs))
    found = [decoded(make(scheme, **parameters, seed=seed), pairs, vocabulary) for seed in range(seeds)]
    shares = [share for share, _ in found]
    even = {name: value for name, value in parameters.items() if name != "spread"}
    return Result(
        scheme, parameters, pairs, vocabulary,
        planner.predict(pairs, vocabulary, scheme=scheme, **even), here, fewer, more,
        sum(shares) / seeds, min(shares), max(shares), sum(rounds for _, rounds in found) / seeds,
    )  # fmt: skip


def draw(results: list[Result], path: Path) -> None:
    """Prediction against simulation, with the band of two points; bars from the worst seed to the best."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 6))
    kinds = {"compact": ("C0", "o"), "ordinary": ("C1", "s"), "HLB": ("C3", "x")}
    for name, (colour, marker) in kinds.items():
        for near in (False, True):
            some = [r for r in results if kind(r) == name and r.near == near]
            x, y = [100 * r.predicted for r in some], [100 * r.simulated for r in some]
            bars = [[100 * (r.simulated - r.lowest) for r in some], [100 * (r.highest - r.simulated) for r in some]]
            label = None if near else name
            style = dict(color=colour, marker=marker, linestyle="none", markersize=5, alpha=0.35 if near else 1)
            axes.errorbar(x, y, yerr=bars, elinewidth=1, label=label, **style)
    axes.fill_between([0, 100], [-2, 98], [2, 102], color="0.85", zorder=0)
    axes.set(xlim=(0, 101), ylim=(0, 101), xlabel="predicted, % right", ylabel="decoded together, % right")
    axes.legend(title="band: two points; pale: near the threshold", loc="upper left")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def kind(result: Result) -> str:
    """The name in the legend."""
    return result.scheme if result.scheme != "OSC" else "compact" if "compact" in result.parameters else "ordinary"


def main() -> None:
    """Run everything, print and write it."""
    console = Console(width=160)
    results = [compared(*setting) for setting in track(GRID, "decoding", console=console)]
    table = Table("memory", "pairs", "vocabulary", "alone", "predicted", "decoded", "worst", "best", "rounds", "error")
    for r in results:
        shares = (f"{100 * share:.1f}" for share in (r.alone, r.predicted, r.simulated, r.lowest, r.highest))
        memory = f"{kind(r)} {' '.join(f'{k}={v}' for k, v in r.parameters.items() if k != 'compact' and v)}"
        error = f"{r.error:+.2f}{' near' if r.near else ''}"
        table.add_row(memory, str(r.pairs), str(r.vocabulary), *shares, f"{r.rounds:.0f}", error)
    console.print(table)
    away = [abs(r.error) for r in results if not r.near]
    console.print(f"{len(results)} settings, {len(away)} away from the threshold: largest error {max(away):.2f} points")
    OUTPUT.write_text(json.dumps([r._asdict() for r in results], indent=1) + "\n")
    try:
        draw(results, OUTPUT.with_suffix(".png"))
    except ModuleNotFoundError:
        console.print("no picture: matplotlib is not installed")


if __name__ == "__main__":
    sys.exit(main())
