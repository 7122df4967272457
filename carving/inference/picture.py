"""An answer as a picture: its score between "nothing" and "stored once", and how probable it is."""

import math
from typing import Any

from carving.optional import load

INK, SOFT = "#1f6f8b", "0.8"


def brief(text: str, most: int) -> str:
    """A label in a picture: one line of so many letters, in which a dollar sign begins no formula.

    >>> brief("costs $5, and more than that", 12)
    'costs \\\\$5, a…'
    """
    line = " ".join(text.split())
    return (line if len(line) <= most else f"{line[: most - 1]}…").replace("$", r"\$")


def picture(value: str, score: float, probability: float, found: bool) -> Any:
    """A matplotlib figure of an answer."""
    figure = load("matplotlib.figure").Figure(figsize=(6, 1.7), layout="constrained")
    axes = figure.add_subplot()
    low, high = min(-0.25, score - 0.1), max(1.25, score + 0.1)
    axes.axhline(0, color=SOFT, linewidth=6, solid_capstyle="round", zorder=1)
    axes.plot([score], [0], "o", color=INK if found else "0.5", markersize=13, zorder=3)
    # Without a probability the score is a cosine, of a scheme that settles.
    ends = ("orthogonal", "identical") if math.isnan(probability) else ("not stored here", "stored once")
    for place, words in enumerate(ends):
        axes.plot([place], [0], "|", color="0.4", markersize=16, zorder=2)
        axes.annotate(words, (place, 0), (0, -22), textcoords="offset points", ha="center", color="0.35")
    said = brief(value, 40) if found else "nothing is stored here"
    sure = "" if math.isnan(probability) else f", with a probability of {probability:.4g}"
    axes.set_title(f"{said}{sure}", loc="left", fontsize=11)
    axes.set_xlim(low, high)
    axes.set_ylim(-1, 0.6)
    axes.set_axis_off()
    return figure
