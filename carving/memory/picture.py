"""A memory as a picture: its cells, how its numbers are spread and how full it is; or the scores of a question."""

from typing import Any

from carving.formats.typed import path_text, value_text
from carving.inference.picture import brief
from carving.memory.gauge import WELL, gauge
from carving.memory.portrait import distribution, slice_of
from carving.memory.questions import Questions
from carving.memory.scores import scores
from carving.optional import load
from carving.symbols.codec import Path

INK, WARM, SOFT = "#1f6f8b", "#b4552d", "#d5e7ec"


def picture(memory: Questions) -> Any:
    """A matplotlib figure of a memory."""
    figure = load("matplotlib.figure").Figure(figsize=(11, 3.4), layout="constrained")
    seen = gauge(memory)
    panels = figure.subplots(1, 2 if seen is None else 3)
    _cells(panels[0], memory)
    _spread(panels[1], memory)
    if seen is not None:
        axes = panels[2]
        axes.plot((0, *seen.pairs), (1.0, *seen.named), color=INK)
        axes.axvline(seen.fits, color=WARM, linestyle="--", linewidth=1, label=f"{WELL:.0%} up to {seen.fits:,}")
        axes.plot([seen.held], [seen.here], "o", color=INK, label=f"now: {seen.held:,} pairs, {seen.here:.1%}")
        axes.set_xlabel("pairs stored")
        axes.set_ylabel("predicted accuracy")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))  # beside the curve
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _cells(axes: Any, memory: Questions) -> None:
    further = max(0, memory._state.tensor.dim() - 2)
    seen = slice_of(memory, (0,) * further)
    axes.imshow(seen.numbers.numpy(), cmap="RdBu_r", vmin=-3.5, vmax=3.5, interpolation="nearest")
    shape = " × ".join(f"{side:,}" for side in seen.shape)
    axes.set_title(f"{'a slice of ' if further else ''}{shape} cells", fontsize=10)
    axes.set_axis_off()


def _spread(axes: Any, memory: Questions) -> None:
    seen = distribution(memory)
    middles = [(left + right) / 2 for left, right in zip(seen.edges, seen.edges[1:], strict=False)]
    axes.bar(middles, seen.counts, width=seen.edges[1] - seen.edges[0], color=SOFT, label="cells")
    axes.plot(middles, seen.normal, color=INK, label="normal")
    axes.set_xlabel("standard deviations from zero")
    axes.set_yticks([])
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)


def question_picture(memory: Questions, path: Path, prior_empty: float) -> Any:
    """A matplotlib figure of what a path shows of all values."""
    figure = load("matplotlib.figure").Figure(figsize=(8, 2.6), layout="constrained")
    axes, seen = figure.add_subplot(), scores(memory, path, prior_empty)
    strengths = seen.strengths.double().tolist()
    (best,) = seen.best(1)
    axes.hist(strengths, bins=80, color=SOFT, edgecolor=INK, linewidth=0.3, log=len(strengths) > 100)
    axes.axvspan(-2 * seen.noise, 2 * seen.noise, color="0.9", zorder=0, label="noise: ± 2 standard deviations")
    if seen.threshold is not None:
        axes.axvline(seen.threshold, color=WARM, linestyle="--", linewidth=1, label="threshold")
    name = brief(value_text(memory.vocabulary[best]), 30)
    axes.plot([strengths[best]], [1], "o", color=INK, markersize=9, label=name)
    once = "score: 0 if not stored, 1 if stored once"
    axes.set_xlabel("score: cosine similarity" if seen.likeness else once)
    axes.set_ylabel("values")
    if len(strengths) <= 100:
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title(brief(path_text(path), 80), loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure
