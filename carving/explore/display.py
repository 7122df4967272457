"""Figures and notebook tables of memories, answers and plans: `plot()` and `_repr_html_()` of these objects."""

import math
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from carving.explore.scores import score_all
from carving.explore.statistics import (
    GOOD_ACCURACY,
    cell_histogram,
    cell_slice,
    describe_scheme,
    held_bytes,
    load_curve,
)
from carving.formats.typed import path_text, value_text
from carving.optional import load
from carving.symbols.codec import Path
from carving.validate import show_bits, show_bytes

if TYPE_CHECKING:
    from carving.inference.answer import Answer
    from carving.memory import Memory
    from carving.planner.plan import Plan

BLUE, ORANGE, PALE = "#1f6f8b", "#b4552d", "#d5e7ec"
MAX_COUNTED_VALUES = 100  # above, the counts of a score histogram are on a logarithmic axis


# Notebook tables


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table of names and values; all text is escaped.

    >>> html_table("Answer", [("value", "<b>")])
    '<table><caption><strong>Answer</strong></caption><tr><th scope="row">value</th><td>&lt;b&gt;</td></tr></table>'
    """
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f"<table><caption><strong>{escape(title)}</strong></caption>{cells}</table>"


def memory_html(memory: "Memory") -> str:
    """Return a memory's size, load and predicted accuracy as an HTML table."""
    state, accuracy = memory._reader, memory.predicted_accuracy()
    rows = [
        ("holds", f"{memory.pairs:,} pairs of {len(memory.vocabulary):,} different values"),
        ("scheme", describe_scheme(memory.scheme)),
        ("size", show_bytes(held_bytes(memory))),
    ]
    if state.cells is not None:
        rows.append(("quantized", f"{show_bits(state.cells.bits)} per cell"))
    if accuracy is not None:
        rows.append(("predicted accuracy", f"{accuracy:.2%}"))
    return html_table(type(memory).__name__, rows)


def answer_html(answer: "Answer") -> str:
    """Return an answer as an HTML table."""
    value = str(answer.value) if answer.found or answer.value is not None else "nothing is stored there"
    probability = [] if math.isnan(answer.probability) else [("probability", f"{answer.probability:.2%}")]
    return html_table("Answer", [("value", value), *probability, ("score", f"{answer.score:.3f}")])


def plan_html(plan: "Plan") -> str:
    """Return a plan's sizes and predicted accuracy as an HTML table."""
    sizes = ", ".join(f"{name}={value}" for name, value in plan.parameters.items() if name in ("d", "k1"))
    rows = [
        ("memory", f"{plan.kind}, {sizes}"),
        ("cells", f"{plan.cells:,}, and {plan.codebook:,} numbers of its codebook"),
        ("bytes", show_bytes(plan.bytes)),
        ("predicted", f"{plan.accuracy:.2%} of {plan.pairs:,} pairs{' by joint decoding' if plan.joint else ''}"),
    ]
    return html_table("Plan", rows)


# Figures


def plot_memory(memory: "Memory") -> Any:
    """Return a matplotlib figure of a memory: its cells, their distribution, and its load curve if there is one."""
    figure = load("matplotlib.figure").Figure(figsize=(11, 3.4), layout="constrained")
    curve = load_curve(memory)
    panels = figure.subplots(1, 2 if curve is None else 3)
    _draw_cells(panels[0], memory)
    _draw_histogram(panels[1], memory)
    if curve is not None:
        axes = panels[2]
        axes.plot((0, *curve.pairs), (1.0, *curve.accuracy), color=BLUE)
        capacity, now = f"{GOOD_ACCURACY:.0%} up to {curve.capacity:,}", f"{curve.load:,} pairs, {curve.predicted:.1%}"
        axes.axvline(curve.capacity, color=ORANGE, linestyle="--", linewidth=1, label=capacity)
        axes.plot([curve.load], [curve.predicted], "o", color=BLUE, label=f"now: {now}")
        axes.set_xlabel("pairs stored")
        axes.set_ylabel("predicted accuracy")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))  # beside the curve
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_cells(axes: Any, memory: "Memory") -> None:
    further = max(0, memory._reader.tensor.dim() - 2)
    shown = cell_slice(memory, (0,) * further)
    axes.imshow(shown.numbers.numpy(), cmap="RdBu_r", vmin=-3.5, vmax=3.5, interpolation="nearest")
    shape = " × ".join(f"{side:,}" for side in shown.shape)
    axes.set_title(f"{'a slice of ' if further else ''}{shape} cells", fontsize=10)
    axes.set_axis_off()


def _draw_histogram(axes: Any, memory: "Memory") -> None:
    histogram = cell_histogram(memory)
    edges = histogram.edges
    centers = [(left + right) / 2 for left, right in pairwise(edges)]
    axes.bar(centers, histogram.counts, width=edges[1] - edges[0], color=PALE, label="cells")
    axes.plot(centers, histogram.normal, color=BLUE, label="normal")
    axes.set_xlabel("standard deviations from zero")
    axes.set_yticks([])
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)


def plot_scores(memory: "Memory", path: Path, prior_empty: float) -> Any:
    """Return a matplotlib figure of the scores of all values at a path.

    Args:
        memory: The memory to query.
        path: The path.
        prior_empty: Prior probability that the path is empty.
    """
    figure = load("matplotlib.figure").Figure(figsize=(8, 2.6), layout="constrained")
    axes, seen = figure.add_subplot(), score_all(memory, path, prior_empty)
    scores = seen.scores.double().tolist()
    (best,) = seen.best(1)
    many = len(scores) > MAX_COUNTED_VALUES
    axes.hist(scores, bins=80, color=PALE, edgecolor=BLUE, linewidth=0.3, log=many)
    axes.axvspan(-2 * seen.noise, 2 * seen.noise, color="0.9", zorder=0, label="noise: ± 2 standard deviations")
    if seen.threshold is not None:
        axes.axvline(seen.threshold, color=ORANGE, linestyle="--", linewidth=1, label="threshold")
    name = shorten(value_text(memory.vocabulary[best]), 30)
    axes.plot([scores[best]], [1], "o", color=BLUE, markersize=9, label=name)
    scale = "score: cosine similarity" if seen.is_cosine else "score: 0 if not stored, 1 if stored once"
    axes.set_xlabel(scale)
    axes.set_ylabel("values")
    if not many:
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title(shorten(path_text(path), 80), loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def plot_answer(answer: "Answer") -> Any:
    """Return a matplotlib figure of an answer's score, between "not stored" and "stored once"."""
    score, probability = answer.score, answer.probability
    figure = load("matplotlib.figure").Figure(figsize=(6, 1.7), layout="constrained")
    axes = figure.add_subplot()
    low, high = min(-0.25, score - 0.1), max(1.25, score + 0.1)
    axes.axhline(0, color="0.8", linewidth=6, solid_capstyle="round", zorder=1)
    axes.plot([score], [0], "o", color=BLUE if answer.found else "0.5", markersize=13, zorder=3)
    # Without a probability the score is a cosine, of a scheme that settles.
    ends = ("orthogonal", "identical") if math.isnan(probability) else ("not stored here", "stored once")
    for place, text in enumerate(ends):
        axes.plot([place], [0], "|", color="0.4", markersize=16, zorder=2)
        axes.annotate(text, (place, 0), (0, -22), textcoords="offset points", ha="center", color="0.35")
    value = shorten(str(answer.value), 40) if answer.found else "nothing is stored here"
    suffix = "" if math.isnan(probability) else f", with a probability of {probability:.4g}"
    axes.set_title(f"{value}{suffix}", loc="left", fontsize=11)
    axes.set_xlim(low, high)
    axes.set_ylim(-1, 0.6)
    axes.set_axis_off()
    return figure


def shorten(text: str, length: int) -> str:
    """Cut a text to one line of `length` characters for a figure; dollar signs are escaped, as they begin formulas.

    >>> shorten("costs $5, and more than that", 12)
    'costs \\\\$5, a…'
    """
    line = " ".join(text.split())
    return (line if len(line) <= length else f"{line[: length - 1]}…").replace("$", r"\$")
