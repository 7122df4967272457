"""Panels of points, of differences and of colors; and what all panels have: labels, patches, legends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from carving.lab.experiment import Gaps, Heat, Points
from carving.lab.panels import Pairs, measured_pairs, series_name
from carving.lab.rows import Row
from carving.lab.style import BLUE, GREEN, GREY, ORANGE, Look
from carving.lab.summaries import Summary, summaries
from carving.lab.words import axis_words
from carving.optional import load

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

PALE = 0.35  # how opaque points near the threshold are
BARS = "bar: two standard errors"

Legend = dict[str, "Artist"]
Looks = dict[str, Look]


def label(axes: Axes, x: str, y: str, title: str) -> None:
    """What a panel is called, and its axes."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(re.sub(r"\bp=(\d)", r"order \1", title))
    axes.grid(alpha=0.25)


def patch(color: str, alpha: float = 1.0) -> Artist:
    """A square of a color, for the legend."""
    return load("matplotlib.patches").Patch(color=color, alpha=alpha, linewidth=0)


# Points


def draw_points(axes: Axes, panel: Points, rows: Sequence[Row], named: Looks) -> Legend:
    """Points beside the line of equality; a setting that has many is a line of them."""
    legend = _ground(axes, panel)
    every = measured_pairs(rows, panel)
    near = [point.setting for point in summaries(rows, panel.pale) if point.mean]
    pale = [pairs[0][0].setting in near for pairs in every]
    for pairs, faded in zip(every, pale, strict=True):
        name = series_name(pairs[0][0].setting, panel.series)
        drawn = _joined(axes, pairs, named[name], PALE if faded else 1.0)
        if name not in legend or not faded:  # that of full color, if there is one
            legend[name] = drawn
    label(axes, axis_words(panel.x), axis_words(panel.y), panel.title)
    for axis in (axes.xaxis, axes.yaxis) if panel.equal else (axes.yaxis,):
        axis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0))
    line = load("matplotlib.lines").Line2D
    if any(point.error for pairs in every for _, point in pairs):
        legend[BARS] = line([], [], color=GREY, marker="|", markersize=9, linewidth=0)
    if any(pale):
        legend["pale: near the threshold"] = line([], [], color=GREY, marker="o", alpha=0.4, linewidth=0)
    return legend


def _ground(axes: Axes, panel: Points) -> Legend:
    """What lies behind the points: the line of equality with its band, or a scale for multiples."""
    legend: Legend = {}
    if panel.equal:
        (legend["where both are equal"],) = axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    else:
        ticker = load("matplotlib.ticker")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    if panel.band:
        axes.fill_between([0, 1], [-panel.band, 1 - panel.band], [panel.band, 1 + panel.band], color="0.9", zorder=0)
        legend[f"within {100 * panel.band:g} points of it"] = patch("0.9")
    return legend


def _joined(axes: Axes, pairs: Pairs, look: Look, alpha: float) -> Artist:
    """The points of a setting; bars are two standard errors."""
    x, y = ([pair[at].mean for pair in pairs] for at in (0, 1))
    low, high = ([point.mean + side * (point.error or 0.0) for _, point in pairs] for side in (-2, 2))
    dash, mark = "-" if len(pairs) > 1 else "none", look.marker or "."
    face = "white" if look.hollow else look.color
    (line,) = axes.plot(x, y, linestyle=dash, marker=mark, color=look.color, markersize=4, linewidth=0.9, alpha=alpha,
                        markerfacecolor=face)  # fmt: skip
    axes.vlines(x, low, high, color=look.color, linewidth=1, alpha=alpha)
    return line


# Gaps


def draw_gaps(axes: Axes, panel: Gaps, results: Sequence[Summary]) -> Legend:
    """The settings from top to bottom, each with its difference."""
    for place, point in enumerate(results):
        reach = 2 * (point.error or 0.0)
        (mean,) = axes.plot(point.mean, place, "o", color=BLUE, markersize=3.5)
        bar = axes.hlines(place, point.mean - reach, point.mean + reach, color=BLUE, linewidth=1.4)
    axes.axvspan(-panel.band, panel.band, color="0.93", zorder=0)
    axes.axvline(0, color="0.6", linewidth=1)
    names = [series_name(point.setting, panel.names) for point in results]
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    label(axes, panel.label or axis_words(panel.value), "", panel.title)
    axes.xaxis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0, decimals=1))
    axes.xaxis.set_major_locator(load("matplotlib.ticker").MaxNLocator(nbins=4))
    legend: Legend = {"mean over trials": mean}
    if any(point.error for point in results):
        legend[BARS] = bar
    return legend | ({f"within {100 * panel.band:g} points": patch("0.93")} if panel.band else {})


# Heat


def draw_heat(figure: SubFigure, axes: Axes, panel: Heat, results: Sequence[Summary]) -> Legend:
    """Shades of grey over two sizes, with the curves that the panel has as guides."""
    xs, ys = (sorted({point.setting[key] for point in results}) for key in (panel.x, panel.y))
    values = np.full((len(ys), len(xs)), np.nan)
    for point in results:
        values[ys.index(point.setting[panel.y]), xs.index(point.setting[panel.x])] = point.mean
    values /= np.maximum(np.nanmax(values, axis=1, keepdims=True), 1e-12)
    axes.patch.set(hatch="///", edgecolor="0.75", facecolor="white")  # where there is no setting
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="gray", vmin=0, vmax=1)
    legend = _guides(axes, panel, xs, ys)
    for axis, ticks in ((axes.xaxis, xs), (axes.yaxis, ys)):
        every = -(-len(ticks) // 10)
        axis.set_ticks(range(0, len(ticks), every), [f"{tick:,}" for tick in ticks[::every]])
    axes.set_xlabel(axis_words(panel.x))
    axes.set_ylabel(axis_words(panel.y))
    axes.set_title(panel.title)
    figure.colorbar(image, ax=axes, label="accuracy, as a share of the row’s best")
    if np.isnan(values).any():
        legend["hatched: not measured"] = load("matplotlib.patches").Patch(
            facecolor="white", hatch="////", edgecolor="0.75"
        )
    return legend


def _guides(axes: Axes, panel: Heat, xs: Sequence[float], ys: Sequence[float]) -> Legend:
    """The curves x = y^exponent, in the grid's own places."""
    legend: Legend = {}
    signs = ((ORANGE, "o"), (GREEN, "^"), (BLUE, "s"))
    for (name, power), (color, marker) in zip((panel.guides or {}).items(), signs, strict=False):
        x = np.interp([y**power for y in ys], xs, np.arange(len(xs)))
        (legend[name],) = axes.plot(x, range(len(ys)), color=color, marker=marker, markersize=3.5, linewidth=1.3)
    return legend
