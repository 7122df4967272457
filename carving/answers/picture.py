"""An answer as a picture: its score between "nothing" and "stored once", and how probable it is."""

import math
from typing import Any

from carving.extras import load

INK, SOFT = "#1f6f8b", "0.8"


def picture(leaf: str, score: float, probability: float, found: bool) -> Any:
    """A matplotlib figure of an answer."""
    figure = load("matplotlib.figure").Figure(figsize=(6, 1.7), layout="constrained")
    axes = figure.add_subplot()
    low, high = min(-0.25, score - 0.1), max(1.25, score + 0.1)
    axes.axhline(0, color=SOFT, linewidth=6, solid_capstyle="round", zorder=1)
    axes.plot([score], [0], "o", color=INK if found else "0.5", markersize=13, zorder=3)
    for place, words in ((0, "not stored here"), (1, "stored once")):
        axes.plot([place], [0], "|", color="0.4", markersize=16, zorder=2)
        axes.annotate(words, (place, 0), (0, -22), textcoords="offset points", ha="center", color="0.35")
    # A dollar sign would begin a formula.
    said = (leaf if found else "nothing is stored here").replace("$", r"\$")
    sure = "" if math.isnan(probability) else f", with a probability of {probability:.4g}"
    axes.set_title(f"{said}{sure}", loc="left", fontsize=11)
    axes.set_xlim(low, high)
    axes.set_ylim(-1, 0.6)
    axes.set_axis_off()
    return figure
