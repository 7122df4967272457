"""The drawings of the explanations, in docs/drawings: some are schematic, the others are computed.

`python docs/drawings.py` - a few seconds; the same bytes wherever it runs with the same versions.
"""

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from carving import OSC
from carving.inference import decode
from carving.lab.style import BLUE, GREEN, GREY, ORANGE, STYLE
from carving.planner import osc_accuracy

OUT = Path(__file__).parent / "drawings"
PALE = "#DCE9F5"


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty page, measured in tenths of an inch."""
    figure = Figure(figsize=(width / 10, height / 10))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def field(axes: Axes, x: float, y: float, values: np.ndarray, size: float, *, colors: str = "RdBu") -> None:
    """A grid of numbers as colors, its lower left corner at x, y."""
    rows, columns = values.shape
    limit = max(1e-9, float(np.abs(values).max()))
    cmap = matplotlib.colormaps[colors]
    for row in range(rows):
        for column in range(columns):
            color = cmap(0.5 + 0.5 * values[row, column] / limit)
            place = (x + column * size, y + (rows - 1 - row) * size)
            axes.add_patch(Rectangle(place, size, size, facecolor=color, edgecolor="white", linewidth=0.3))
    axes.add_patch(Rectangle((x, y), columns * size, rows * size, fill=False, edgecolor="0.3", linewidth=0.8))


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From here to there."""
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color="0.35", linewidth=1.2))


def words(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    """A line or two of text, in the middle of x."""
    axes.text(x, y, text, **({"ha": "center", "va": "center", "fontsize": 9} | style))


def carved() -> tuple[np.ndarray, ...]:
    """A filler's components, those inside a context's subspace, their product, and a memory with more of them."""
    rng = np.random.default_rng(3)
    d, k = 12, 4
    filler, inside = rng.standard_normal((2, d)), np.sort(rng.permutation(d)[:k])
    mask = np.zeros(d)
    mask[inside] = 1
    projected = filler * mask
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    memory = np.zeros((d, d))
    for _ in range(9):
        other = rng.standard_normal((2, d)) * np.isin(np.arange(d), rng.permutation(d)[:k])
        memory += np.outer(*(other / np.linalg.norm(other, axis=1, keepdims=True)))
    return filler, projected, np.outer(*projected), memory, mask


def binding() -> Figure:
    """Components, carved, multiplied, added."""
    filler, projected, product, memory, mask = carved()
    figure, axes = canvas(88, 30)
    for row, at in enumerate((18.5, 14.5)):
        field(axes, 2, at, filler[row : row + 1], 1.4)
        field(axes, 26, at, projected[row : row + 1], 1.4)
    words(axes, 10.4, 22.2, "the filler “dog”:\ntwo components", va="bottom")
    words(axes, 34.4, 22.2, "carved: only the dimensions\nof the context are left", va="bottom")
    field(axes, 14.0, 5.5, mask[None] * 0.8, 1.4, colors="PuOr")
    words(axes, 2, 2.6, "the context (“sentence 5”, “subject”):\na few dimensions, drawn from its label", ha="left")
    arrow(axes, (19.4, 18), (25.4, 18))
    arrow(axes, (22.4, 8), (22.4, 16.5))
    field(axes, 47.5, 10, product, 1.1)
    arrow(axes, (43.4, 18), (47, 18))
    words(axes, 54.1, 25.2, "their outer product")
    words(axes, 64.2, 16.6, "+", fontsize=16)
    field(axes, 67.5, 10, memory, 1.1)
    words(axes, 74.1, 25.2, "what is stored already")
    words(axes, 64.2, 6.2, "added, with the context’s sign:\nthe memory stays as large as it is")
    return figure


def asking() -> Figure:
    """The corner of the context, and every candidate."""
    _, _, product, memory, mask = carved()
    figure, axes = canvas(88, 30)
    total, inside = memory + product, mask.astype(bool)
    field(axes, 2, 8, total, 1.3)
    words(axes, 9.8, 26, "the memory")
    for row in np.flatnonzero(inside):
        for column in np.flatnonzero(inside):
            place = (2 + column * 1.3, 8 + (11 - row) * 1.3)
            axes.add_patch(Rectangle(place, 1.3, 1.3, fill=False, edgecolor=ORANGE, linewidth=1.3))
    words(axes, 9.8, 5, "framed: where the context’s\ndimensions cross", fontsize=8.5)
    arrow(axes, (19, 16), (26, 16))
    core = total[np.ix_(inside, inside)]
    field(axes, 27, 12, core, 2)
    words(axes, 31, 23, "its core: what the\ncontext shows")
    rng = np.random.default_rng(5)
    names = ("dog", "cat", "ball", "chased")
    cores = [product[np.ix_(inside, inside)]]
    for _ in names[1:]:
        one = rng.standard_normal((2, 4))
        cores.append(np.outer(*(one / np.linalg.norm(one, axis=1, keepdims=True))))
    words(axes, 54, 27.4, "every candidate, carved by the same context")
    words(axes, 76, 27.4, "score")
    for number, (name, candidate) in enumerate(zip(names, cores, strict=True)):
        y = 20 - 6 * number
        words(axes, 45, y + 2, f"“{name}”", ha="right")
        field(axes, 51, y, candidate, 1.1)
        score = float((core * candidate).sum())
        width = 14 * max(0.02, score)
        axes.add_patch(Rectangle((66, y + 1), abs(width), 2.2, color=ORANGE if number == 0 else "0.7"))
        words(axes, 66 + abs(width) + 0.8, y + 2, f"{score:.2f}", ha="left")
    arrow(axes, (36, 16), (40.5, 16))
    return figure


def noise() -> Figure:
    """The scores of a thousand candidates in a full memory."""
    scheme, n = OSC(d=200, p=2), 1000
    paths, names = [("sentence", i) for i in range(n)], [f"word {i}" for i in range(n)]
    memory = scheme.trace(paths, names)
    scores = scheme.score(memory, [paths[417]], scheme.fillers(names))[0].numpy()
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    axes = figure.add_subplot()
    deviation = float(np.sqrt((n - 1) / 200**2))
    axes.axhspan(-2 * deviation, 2 * deviation, color="0.93", zorder=0)
    others = np.arange(n) != 417
    axes.scatter(np.arange(n)[others], scores[others], s=5, color="0.55", linewidths=0)
    axes.scatter([417], scores[417], s=45, color=ORANGE, zorder=3)
    axes.annotate(
        "the word that is stored there", (417, scores[417]), (12, -3), textcoords="offset points", color=ORANGE
    )
    axes.set(xlabel="the 1,000 words of the vocabulary", ylabel="score", xlim=(-8, n + 8))
    axes.set_title(
        "one question to 1,000 facts in 200 x 200 numbers; band: two standard deviations of the noise", fontsize=9
    )
    return figure


def capacity() -> Figure:
    """Accuracy against pairs, for memories of three sizes."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.add_subplot()
    pairs = np.unique(np.geomspace(50, 20_000, 60).astype(int))
    for d, color, marker in ((100, BLUE, "o"), (200, ORANGE, "s"), (400, GREEN, "^")):
        shares = [osc_accuracy(d=d, p=2, k1=int(d**0.5), pairs=int(n), vocabulary=1000) for n in pairs]
        axes.plot(pairs, shares, color=color, linewidth=1.6)
        most = int(pairs[np.array(shares) >= 0.99][-1])
        axes.plot(most, 0.99, marker, color=color, markersize=7)
        middle = int(np.argmin(np.abs(np.array(shares) - 0.55)))
        axes.annotate(
            f"{d} x {d}\nnumbers", (pairs[middle], 0.55), (6, 0), textcoords="offset points", color=color, fontsize=9
        )
    axes.axhline(0.99, color=GREY, linewidth=0.8, zorder=0)
    axes.text(52, 0.975, "99 %: where a\nplan puts you", fontsize=8, color="0.35", va="top")
    axes.set(xscale="log", xlabel="pairs stored", ylabel="questions answered rightly, predicted", ylim=(0, 1.03))
    axes.set_xticks([50, 200, 1000, 5000, 20_000], ["50", "200", "1,000", "5,000", "20,000"])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
    return figure


def rounds() -> Figure:
    """What happens in a round."""
    figure, axes = canvas(88, 20)
    steps = (
        "all contexts are asked:\nsome are sure",
        "what each expects\nis bound again",
        "and taken out of\nthe memory",
        "less noise is left:\nall are asked again",
    )
    for number, step in enumerate(steps):
        x = 2 + 21.8 * number
        axes.add_patch(Rectangle((x, 8), 18, 7.5, facecolor=PALE, edgecolor="0.4", linewidth=0.8))
        words(axes, x + 9, 11.7, step)
        if number:
            arrow(axes, (x - 3.8, 11.7), (x, 11.7))
    axes.add_patch(
        FancyArrowPatch(
            (76, 8), (11, 8), connectionstyle="arc3,rad=-0.12", arrowstyle="-|>", mutation_scale=11, color="0.35"
        )
    )
    words(axes, 44, 1.8, "until the answers come to rest")
    return figure


def threshold() -> Figure:
    """Right answers by rounds, for memories of different fullness."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot()
    n, most = 400, 16
    for d, color, marker in ((70, BLUE, "o"), (58, GREEN, "^"), (52, ORANGE, "s"), (44, "0.5", "D")):
        scheme = OSC(d=d, p=2, compact=True)
        paths, fillers = [(i,) for i in range(n)], scheme.fillers(range(n))
        memory, right = scheme.trace(paths, fillers), torch.arange(n)
        found = [decode(scheme, memory, paths, fillers, rounds=count) for count in range(1, most + 1)]
        shares = [float((one.indices == right).float().mean()) for one in found]
        label = f"{d * d / n:.1f} numbers a fact"
        axes.plot(range(1, most + 1), shares, marker=marker, color=color, label=label, markersize=4.5)
    axes.set(xlabel="rounds", ylabel="contexts answered rightly", ylim=(0, 1.04), xticks=range(1, most + 1, 3))
    axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def main() -> None:
    """Draw all of them."""
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        for drawing in (binding, asking, noise, capacity, rounds, threshold):
            drawing().savefig(OUT / f"{drawing.__name__}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
