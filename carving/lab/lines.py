"""Panels of lines: a curve for each series, its band, its fit, published numbers as stars, upright marks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from carving.lab.experiment import Lines, Published
from carving.lab.naming import beside_ends
from carving.lab.panels import Point, by_series, curve, log_fit, panel_summaries
from carving.lab.plots import Legend, Looks, label, patch
from carving.lab.rows import Row
from carving.lab.style import GREY, Look
from carving.lab.summaries import Summary
from carving.lab.ticks import scale
from carving.lab.words import axis_words, cells_of
from carving.optional import load

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PAPER, THEORY = "published", "our theory"
BAND, FIT = "band: one standard deviation over trials", "fitted: a + b ln(x)"
BARS = "bar: one standard deviation"
FAR = 3.0  # times off: such a published number has its reason beside it

Star = tuple[Published, float]  # a number, and its height in the panel


def draw_lines(axes: Axes, panel: Lines, rows: Sequence[Row], published: Sequence[Published], named: Looks) -> Legend:
    """Draw a panel; what its signs mean, series first."""
    results = panel_summaries(rows, panel)
    series = {name: curve(summed, panel.x) for name, summed in by_series(results, panel.series).items()}
    limits = (-1 if any(row["measured"].get(panel.y, 0) < 0 for row in rows) else 0, 1) if panel.percent else None
    legend: Legend = {}
    signs: Legend = {}
    for place, name in enumerate(sorted(series, key=lambda name: not named[name].faint)):
        apart = panel.fit or _repeats(series[name])
        line = _curve(axes, series[name], named[name], apart, place)
        if not named[name].labeled:
            legend[name] = line
        signs |= _spread(axes, series[name], named[name], limits, bars=apart and not panel.fit)
        signs |= _fitted(axes, series[name], named[name]) if panel.fit else {}
    scale(axes, panel, results)
    signs |= _marks(axes, panel, results) | _stars(axes, panel, results, published)
    label(axes, axis_words(panel.x), panel.label or axis_words(panel.y), panel.title)
    beside_ends(axes, {name: (points, named[name]) for name, points in series.items()})
    return legend | signs


def _repeats(points: Sequence[Point]) -> bool:
    """Whether several points of a series stand above each other: no line goes through them."""
    return len({x for x, _, _ in points}) < len(points)


def _curve(axes: Axes, points: Sequence[Point], look: Look, dots: bool, place: int) -> Line2D:
    """The points of a series, joined unless a fit goes through them, or none can; of several the first lies on top."""
    x, mean, _ = np.array(points).T
    (line,) = axes.plot(
        x,
        mean,
        linestyle="none" if dots else look.dash,
        linewidth=0.8 if look.faint else 1.4,
        marker=look.marker or ("." if dots else ""),
        markersize=4.2,
        markerfacecolor="white" if look.hollow else look.color,
        color=look.color,
        zorder=2 if look.faint else 4 - place / 100,
    )
    return line


def _spread(axes: Axes, points: Sequence[Point], look: Look, limits: tuple[int, int] | None, bars: bool) -> Legend:
    """The deviation, a band about a line or a bar at each point; shares stay within their limits."""
    x, mean, deviation = np.array(points).T
    if look.faint or not deviation.any():
        return {}
    low, high = mean - deviation, mean + deviation
    if limits is not None:
        low, high = low.clip(*limits), high.clip(*limits)
    if bars:
        axes.vlines(x, low, high, color=look.color, linewidth=1, alpha=0.5)
        return {BARS: load("matplotlib.lines").Line2D([], [], color=GREY, marker="|", linestyle="none", markersize=8)}
    axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)
    return {BAND: patch(GREY, 0.3)}


def _fitted(axes: Axes, points: Sequence[Point], look: Look) -> Legend:
    fit = log_fit(points)
    if fit is None:
        return {}
    x = np.array(points).T[0]
    axes.plot(x, fit[0] + fit[1] * np.log(x), linestyle=look.dash, color=look.color, linewidth=0.9)
    return {FIT: load("matplotlib.lines").Line2D([], [], color=GREY, linewidth=0.9)}


def _marks(axes: Axes, panel: Lines, results: Sequence[Summary]) -> Legend:
    """The upright lines of a panel, each where its settings have it."""
    legend: Legend = {}
    for (name, place), dash in zip((panel.marks or {}).items(), ("--", ":", "-."), strict=False):
        for x in sorted({place(point.setting) for point in results}):
            legend[name] = axes.axvline(x, linestyle=dash, color="0.5", linewidth=1.2, zorder=0)
    return legend


# Published numbers


def _stars(axes: Axes, panel: Lines, results: Sequence[Summary], published: Sequence[Published]) -> Legend:
    """The paper's own numbers, and those of theory, where they belong to a setting of this panel."""
    stars = _shown_here(panel, results, published)
    legend: Legend = {}
    for predicted, marker, size, name in ((False, "*", 10, PAPER), (True, "s", 7, THEORY)):
        points = [(number.where[panel.x], y) for number, y in stars if number.predicted == predicted]
        if points:
            (legend[name],) = axes.plot(
                *zip(*points, strict=True), marker, color="none", markeredgecolor="black", markersize=size, zorder=5
            )
    for star in stars if panel.log_y else ():
        if _is_far(star, results):
            _reason(axes, panel, *star)
    return legend


def _shown_here(panel: Lines, results: Sequence[Summary], published: Sequence[Published]) -> list[Star]:
    """The published numbers that a panel shows; dimensions are shown as cells where it counts these."""
    cells = panel.y == "cells"
    stars = []
    for number in published:
        if not number.comparable or number.quantity != ("d" if cells else panel.y) or panel.x not in number.where:
            continue
        y = cells_of(number.where, number.value) if cells else number.value
        if y is not None and any(number.speaks_of(point.setting) for point in results):
            stars.append((number, y))
    return stars


def _is_far(star: Star, results: Sequence[Summary]) -> bool:
    """Whether a published number lies far from ours, and it is known why."""
    number, y = star
    ours = next((point.mean for point in results if number.speaks_of(point.setting)), None)
    return bool(ours and y and number.why) and not 1 / FAR < y / (ours or 1) < FAR


def _reason(axes: Axes, panel: Lines, number: Published, y: float) -> None:
    """Why a published number lies far from ours, in the free corner above it."""
    text = "\n".join(textwrap.wrap(number.why, 34))
    axes.annotate(text, (number.where[panel.x], y), (0.02, 0.98), textcoords="axes fraction", fontsize=7, va="top",
                  arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 5})  # fmt: skip
