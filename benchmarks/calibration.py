"""Do probabilities mean what they say?  `python benchmarks/calibration.py` - about ten minutes.

Memories of OSC at 30, 100 and 300 % of the load at which 99 % of the answers are right, with distinct and with Zipf
distributed fillers; half of the questions ask for what was never stored. Answers are put into 15 bins by their
probability; the expected calibration error is the mean distance between probability and truth. A perfect model of the
same size, whose answers are right with exactly the probability it says, has one too: it stands beside.
"""

import json
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track

from carving import OSC, Memory
from carving.prediction.plan import pairs_within

BINS, VOCABULARY, QUESTIONS = 15, 1000, 50_000
SIZES = [(120, 2), (22, 3), (34, 3)]
RESULTS = Path(__file__).parent.parent / "results"


def bins(chances: torch.Tensor, right: torch.Tensor) -> list[tuple[float, float, int]]:
    """For every bin that is used: the mean probability, the share that is right, how many."""
    place = (chances * BINS).long().clamp_max(BINS - 1)
    used = [(chances[place == b], right[place == b]) for b in range(BINS) if bool((place == b).any())]
    return [(float(c.mean()), float(r.mean()), len(c)) for c, r in used]


def error(chances: torch.Tensor, right: torch.Tensor) -> float:
    return sum(abs(said - true) * many for said, true, many in bins(chances, right)) / len(chances)


def asked(d: int, p: int, pairs: int, zipf: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities and whether the answers were right, over as many memories as it takes."""
    chances: list[float] = []
    right: list[bool] = []
    seed = 0
    while len(chances) < QUESTIONS:
        generator = torch.Generator().manual_seed(seed)
        if zipf:
            share = 1 / torch.arange(1, VOCABULARY + 1, dtype=torch.float64)
            leaves = torch.multinomial(share, pairs, True, generator=generator).tolist()
        else:  # all different, as far as the vocabulary goes
            rounds = [torch.randperm(VOCABULARY, generator=generator) for _ in range(-(-pairs // VOCABULARY))]
            leaves = torch.cat(rounds)[:pairs].tolist()
        memory = Memory(OSC(d, p, seed=seed), range(VOCABULARY))
        memory.store([(("there", i), leaf) for i, leaf in enumerate(leaves)])
        some = min(pairs, 2000)
        answers = memory.recall_many([("there", i) for i in range(some)] + [("nowhere", i) for i in range(some)])
        chances += [answer.probability for answer in answers]
        right += [answer.found and answer.leaf == leaf for answer, leaf in zip(answers, leaves[:some], strict=False)]
        right += [not answer for answer in answers[some:]]
        seed += 1
    return torch.tensor(chances, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)


def main() -> None:
    console, rows, curves = Console(), [], []
    grid = [(d, p, load, zipf) for d, p in SIZES for load in (0.3, 1.0, 3.0) for zipf in (False, True)]
    for d, p, load, zipf in track(grid, "asking", console=console):
        pairs = round(load * pairs_within(VOCABULARY, 0.99, d=d, p=p))
        chances, right = asked(d, p, pairs, zipf)
        perfect = torch.rand(len(chances), generator=torch.Generator().manual_seed(1), dtype=torch.float64) < chances
        rows.append(
            dict(
                d=d, p=p, load=load, fillers="Zipf" if zipf else "distinct", pairs=pairs, questions=len(chances),
                right=float(right.mean()), error=error(chances, right), perfect=error(chances, perfect.double()),
            )
        )  # fmt: skip
        curves.append(bins(chances, right))
        row = rows[-1]
        console.print(
            f"d={d} p={p} load {load:.0%} {row['fillers']:8} N={pairs:5} right {row['right']:.1%} "
            f"error {row['error']:.4f} (perfect {row['perfect']:.4f})"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "calibration.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, curves, RESULTS / "calibration.png")
    console.print(f"largest error {max(row['error'] for row in rows):.4f}")


def draw(rows: list, curves: list, file: Path) -> None:
    """A reliability diagram for each size: what was said, and what was true."""
    figure = Figure(figsize=(10, 3.7), layout="constrained")
    for axes, (d, p) in zip(figure.subplots(1, len(SIZES), sharey=True), SIZES, strict=True):
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for row, curve in zip(rows, curves, strict=True):
            if (row["d"], row["p"]) == (d, p) and row["load"] >= 1:
                style = dict(
                    marker="o" if row["load"] == 1 else "s", linestyle="-" if row["fillers"] == "distinct" else "--"
                )
                many = [point for point in curve if point[2] >= 50]
                axes.plot(
                    [said for said, _, _ in many], [true for _, true, _ in many], markersize=4, linewidth=1, **style,
                    color="#1f5fa8" if row["load"] == 1 else "#c2571a",
                    label=f"{row['load']:.0%} load, {row['fillers']}: {row['error']:.3f}",
                )  # fmt: skip
        axes.set_title(f"OSC d={d}, p={p}", loc="left", fontsize=10)
        axes.set_xlabel("probability that was said")
        axes.legend(frameon=False, fontsize=7, title="calibration error", title_fontsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("share that was right")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
