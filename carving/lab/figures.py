"""Figures: panels of lines, points, differences and colours, in one style; legends below explain every sign."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from carving.extras import load
from carving.lab.experiment import Cells, Experiment, Gaps, Heat, Lines, Points, Published
from carving.lab.naming import beside_ends
from carving.lab.panels import Pairs, Point, by_series, curve, log_fit, measured_pairs, panel_summaries, series_name
from carving.lab.rows import Row
from carving.lab.style import BLUE, GREEN, GREY, ORANGE, STYLE, Look, looks
from carving.lab.summaries import Summary, summaries
from carving.lab.ticks import scale
from carving.lab.words import axis_words, cells_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

ABREAST = 2  # panels beside each other: as wide as a page
WIDTH, HEIGHT = 3.9, 3.0  # of a panel, inches
PAPER, THEORY = "published", "our theory"
LONG = 40  # letters of a setting's name, from which on its panel has the whole width
FAR = 3.0  # times off: such a published number has its reason beside it

Drawn = Lines | Heat | Points | Gaps
Legend = dict[str, "Artist"]
Looks = dict[str, Look]


def draw(experiment: Experiment, rows: Sequence[Row], base: Path) -> Path | None:
    """Write base.png and base.svg, a panel beside the other; None where the experiment is a table alone."""
    panels = drawn_panels(experiment, rows)
    if not panels:
        return None
    png, svg = (base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg"))
    with load("matplotlib").rc_context(STYLE):
        figure = _figure(experiment, panels, rows)
        figure.savefig(png, dpi=150, metadata={"Software": None})
        figure.set_layout_engine("none")  # what was laid out stays: to do it again takes as long as to draw
        figure.savefig(svg, metadata={"Date": None})
    return png


def _figure(experiment: Experiment, panels: Sequence[Drawn], rows: Sequence[Row]) -> Figure:
    columns, lines = min(ABREAST, len(panels)), _lines_of(panels, rows)
    heights = [max(_height(panel, rows) for panel in line) for line in lines]
    figure: Figure = load("matplotlib.figure").Figure(figsize=(1, 1), layout="constrained")
    bands = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[:, 0]
    kinds = _kinds([set(_names(panel, rows)) for panel in panels])
    named = {
        kind: looks(
            name for panel, other in zip(panels, kinds, strict=True) if other == kind for name in _names(panel, rows)
        )
        for kind in kinds
    }
    legends: list[Legend] = []
    places: list[Axes] = []
    signs: Legend = {}
    for at, line in enumerate(lines):
        for place, panel in enumerate(line):
            whole = len(line) == 1 and len(panels) > 1 and _is_wide(panel, rows)
            axes = bands[at].subplots() if whole else bands[at].add_subplot(1, columns, place + 1)
            places.append(axes)
            own = named[kinds[len(legends)]]
            legend = _panel(bands[at], axes, panel, rows, experiment.published, own)
            legends.append({name: mark for name, mark in legend.items() if name in own})
            signs |= {name: mark for name, mark in legend.items() if name not in own}
    below = _legends(figure, places, legends, signs, kinds)
    wide = 0.6 + WIDTH * columns * (1.35 if len(panels) == 1 else 1)
    figure.set_size_inches(wide, sum(heights) + 0.16 * below)
    figure.draw_without_rendering()  # laid out once already, so that what is saved has come to rest
    return figure


def _panel(
    figure: SubFigure, axes: Axes, panel: Drawn, rows: Sequence[Row], published: Sequence[Published], named: Looks
) -> Legend:
    match panel:
        case Heat():
            return _heat(figure, axes, panel, panel_summaries(rows, panel))
        case Gaps():
            return _gaps(axes, panel, panel_summaries(rows, panel))
        case Points():
            return _points(axes, panel, rows, named)
        case Lines():
            return _lines(axes, panel, rows, published, named)


def _lines_of(panels: Sequence[Drawn], rows: Sequence[Row]) -> list[list[Drawn]]:
    """Two panels beside each other; one that lists long names has the whole width."""
    lines: list[list[Drawn]] = []
    full = True
    for panel in panels:
        wide = _is_wide(panel, rows)
        if full or wide:
            lines.append([panel])
        else:
            lines[-1].append(panel)
        full = wide or len(lines[-1]) == ABREAST
    return lines


def _is_wide(panel: Drawn, rows: Sequence[Row]) -> bool:
    if not isinstance(panel, Gaps):
        return False
    return max(len(series_name(point.setting, panel.names)) for point in panel_summaries(rows, panel)) > LONG


def _height(panel: Drawn, rows: Sequence[Row]) -> float:
    """Panels that list many settings are higher."""
    return max(HEIGHT, 0.8 + 0.16 * len(panel_summaries(rows, panel))) if isinstance(panel, Gaps) else HEIGHT


def _kinds(names: Sequence[set[str]]) -> list[int]:
    """Which panels speak of the same series: those have one legend, and a colour means the same in them."""
    kinds = list(range(len(names)))
    for number, some in enumerate(names):
        for other in range(number):
            if some & names[other]:
                old, new = kinds[number], kinds[other]
                kinds = [new if kind == old else kind for kind in kinds]
    return kinds


def drawn_panels(experiment: Experiment, rows: Sequence[Row]) -> list[Drawn]:
    """The panels of an experiment that are drawn, as far as these rows have something to show there."""
    panels = [panel for panel in experiment.panels if not isinstance(panel, Cells)]
    return [
        panel
        for panel in panels
        if (measured_pairs(rows, panel) if isinstance(panel, Points) else panel_summaries(rows, panel))
    ]


def _names(panel: Drawn, rows: Sequence[Row]) -> list[str]:
    """The series of a panel."""
    if isinstance(panel, Points):
        return [series_name(pairs[0][0].setting, panel.series) for pairs in measured_pairs(rows, panel)]
    return list(by_series(panel_summaries(rows, panel), panel.series)) if isinstance(panel, Lines) else []


def _legends(
    figure: Figure, places: Sequence[Axes], legends: Sequence[Legend], signs: Legend, kinds: Sequence[int]
) -> int:
    """One legend below all panels, where it covers nothing; panels that speak of different things have their own."""
    series: Legend = {}
    lines, columns = 0, min(ABREAST, len(legends))
    if len({kind for kind, legend in zip(kinds, legends, strict=True) if legend}) <= 1:
        for legend in legends:
            series |= legend
    else:
        for axes, legend in zip(places, legends, strict=True):
            if legend:
                abreast = _abreast(legend, 0.78)
                axes.legend(legend.values(), legend.keys(), loc="upper center", bbox_to_anchor=(0.45, 0),
                            borderaxespad=4.4, ncols=abreast, fontsize=7.5)  # fmt: skip
        lines = sum(
            max(
                (-(-len(legend) // _abreast(legend, 0.78)) for legend in legends[at : at + columns] if legend),
                default=0,
            )
            for at in range(0, len(legends), columns)
        )
    shown = series | signs
    shown.pop("", None)
    if shown:
        abreast = _abreast(shown, columns if len(legends) > 1 else 1.35)
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=abreast, fontsize=8)
        lines += -(-len(shown) // abreast)
    return lines


def _abreast(legend: Legend, columns: float) -> int:
    """How many names stand beside each other in this many panels' width."""
    return max(1, min(len(legend), int(columns * 68 / (max(map(len, legend)) + 8))))


def _label(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(re.sub(r"\bp=(\d)", r"order \1", title))
    axes.grid(alpha=0.25)


def _patch(colour: str, alpha: float = 1.0) -> Artist:
    return load("matplotlib.patches").Patch(color=colour, alpha=alpha, linewidth=0)


# Lines


def _lines(axes: Axes, panel: Lines, rows: Sequence[Row], published: Sequence[Published], named: Looks) -> Legend:
    results = panel_summaries(rows, panel)
    series = by_series(results, panel.series)
    least = -1 if any(row["measured"].get(panel.y, 0) < 0 for row in rows) else 0
    legend: Legend = {}
    for name, summed in sorted(series.items(), key=lambda item: not named[item[0]].faint):
        look, points = named[name], curve(summed, panel.x)
        x, mean, deviation = np.array(points).T
        (line,) = axes.plot(x, mean, linestyle="none" if panel.fit else look.dash,
                            marker=look.marker or ("." if panel.fit else ""), color=look.colour, markersize=4.2,
                            linewidth=0.8 if look.faint else 1.4,
                            markerfacecolor="white" if look.hollow else look.colour,
                            zorder=2 if look.faint else 3)  # fmt: skip
        if not look.labelled:
            legend[name] = line
        if deviation.any() and not look.faint:
            _shade(axes, points, look.colour, (least, 1) if panel.percent else None)
            legend["band: one standard deviation over trials"] = _patch(GREY, 0.3)
        fit = log_fit(points) if panel.fit else None
        if fit is not None:
            axes.plot(x, fit[0] + fit[1] * np.log(x), linestyle=look.dash, color=look.colour, linewidth=0.9)
            legend["fitted: a + b ln(x)"] = load("matplotlib.lines").Line2D([], [], color=GREY, linewidth=0.9)
    scale(axes, panel, results)
    legend |= _marks(axes, panel, results) | _stars(axes, panel, results, published)
    _label(axes, axis_words(panel.x), panel.label or axis_words(panel.y), panel.title)
    beside_ends(axes, {name: (curve(summed, panel.x), named[name]) for name, summed in series.items()})
    return dict(sorted(legend.items(), key=lambda item: item[0].startswith(("band", "fitted", PAPER, THEORY))))


def _shade(axes: Axes, points: Sequence[Point], colour: str, limits: tuple[int, int] | None) -> None:
    """The deviation about a line; shares stay between nothing and everything, differences of shares may be less."""
    x, mean, deviation = np.array(points).T
    low, high = mean - deviation, mean + deviation
    if limits is not None:
        low, high = low.clip(*limits), high.clip(*limits)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _stars(axes: Axes, panel: Lines, results: Sequence[Summary], published: Sequence[Published]) -> Legend:
    """The paper's own numbers, and those of theory, where they belong to a setting of this panel."""
    settings = [point.setting for point in results]
    of = "d" if panel.y == "cells" else panel.y
    drawn = [
        (number, cells_of(number.where, number.value) if panel.y == "cells" else number.value)
        for number in published
        if number.quantity == of and number.comparable and panel.x in number.where
        and any(map(number.speaks_of, settings))
    ]  # fmt: skip
    legend: Legend = {}
    for predicted, marker, name in ((False, "*", PAPER), (True, "s", THEORY)):
        points = [(number.where[panel.x], y) for number, y in drawn if number.predicted == predicted and y is not None]
        if points:
            size = 10 if marker == "*" else 7
            (legend[name],) = axes.plot(
                *zip(*points, strict=True), marker, color="none", markeredgecolor="black", markersize=size, zorder=5
            )
    for number, y in drawn:
        ours = [point.mean for point in results if number.speaks_of(point.setting)]
        if panel.log_y and y and ours and number.why and not 1 / FAR < y / ours[0] < FAR:
            _reason(axes, number, y)
    return legend


def _reason(axes: Axes, number: Published, y: float) -> None:
    """Why a published number lies far from ours, in the free corner above it."""
    x = next(iter(value for key, value in number.where.items() if isinstance(value, int | float) and key == "depth"), 0)
    text = "\n".join(textwrap.wrap(number.why, 34))
    axes.annotate(text, (x, y), (0.02, 0.98), textcoords="axes fraction", fontsize=7, va="top",
                  arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 5})  # fmt: skip


def _marks(axes: Axes, panel: Lines, results: Sequence[Summary]) -> Legend:
    """The upright lines of a panel, each where its settings have it."""
    legend: Legend = {}
    for (name, place), dash in zip((panel.marks or {}).items(), ("--", ":", "-."), strict=False):
        for x in sorted({place(point.setting) for point in results}):
            legend[name] = axes.axvline(x, linestyle=dash, color="0.5", linewidth=1.2, zorder=0)
    return legend


# Points


def _points(axes: Axes, panel: Points, rows: Sequence[Row], named: Looks) -> Legend:
    """Points beside the line of equality; a setting that has many is a line of them."""
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
    pale = [point.setting for point in summaries(rows, panel.pale) if point.mean]
    series: dict[str, list[Pairs]] = {}
    for pairs in measured_pairs(rows, panel):
        series.setdefault(series_name(pairs[0][0].setting, panel.series), []).append(pairs)
    bars = faded = False
    for name, lines in series.items():
        look = named[name]
        for pairs in lines:
            alpha = 0.35 if pairs[0][0].setting in pale else 1.0
            drawn = _joined(axes, pairs, look, alpha)
            if alpha == 1.0 or name not in legend:
                legend[name] = drawn
            faded, bars = faded or alpha < 1, bars or any(point.error for _, point in pairs)
    _label(axes, axis_words(panel.x), axis_words(panel.y), panel.title)
    for axis in (axes.xaxis, axes.yaxis) if panel.equal else (axes.yaxis,):
        axis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0))
    line = load("matplotlib.lines").Line2D
    if bars:
        legend["bar: two standard errors"] = line([], [], color=GREY, marker="|", markersize=9, linewidth=0)
    if faded:
        legend["pale: near the threshold"] = line([], [], color=GREY, marker="o", alpha=0.4, linewidth=0)
    if panel.band:
        legend[f"within {100 * panel.band:g} points of it"] = _patch("0.9")
    return legend


def _joined(axes: Axes, pairs: Pairs, look: Look, alpha: float) -> Artist:
    """The points of a setting; bars are two standard errors."""
    x, y = ([pair[at].mean for pair in pairs] for at in (0, 1))
    low, high = ([point.mean + side * (point.error or 0.0) for _, point in pairs] for side in (-2, 2))
    dash, mark = "-" if len(pairs) > 1 else "none", look.marker or "."
    face = "white" if look.hollow else look.colour
    (line,) = axes.plot(x, y, linestyle=dash, marker=mark, color=look.colour, markersize=4, linewidth=0.9, alpha=alpha,
                        markerfacecolor=face)  # fmt: skip
    axes.vlines(x, low, high, color=look.colour, linewidth=1, alpha=alpha)
    return line


# Gaps


def _gaps(axes: Axes, panel: Gaps, results: Sequence[Summary]) -> Legend:
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
    _label(axes, panel.label or axis_words(panel.value), "", panel.title)
    axes.xaxis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0, decimals=1))
    axes.xaxis.set_major_locator(load("matplotlib.ticker").MaxNLocator(nbins=4))
    legend: Legend = {"mean over trials": mean}
    if any(point.error for point in results):
        legend["bar: two standard errors"] = bar
    return legend | ({f"within {100 * panel.band:g} points": _patch("0.93")} if panel.band else {})


# Heat


def _heat(figure: SubFigure, axes: Axes, panel: Heat, results: Sequence[Summary]) -> Legend:
    xs, ys = (sorted({point.setting[key] for point in results}) for key in (panel.x, panel.y))
    values = np.full((len(ys), len(xs)), np.nan)
    for point in results:
        values[ys.index(point.setting[panel.y]), xs.index(point.setting[panel.x])] = point.mean
    values /= np.maximum(np.nanmax(values, axis=1, keepdims=True), 1e-12)
    axes.patch.set(hatch="///", edgecolor="0.75", facecolor="white")  # where there is no setting
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="gray", vmin=0, vmax=1)
    legend: Legend = {}
    for (name, power), look in zip(
        (panel.guides or {}).items(), ((ORANGE, "o"), (GREEN, "^"), (BLUE, "s")), strict=False
    ):
        x = np.interp([y**power for y in ys], xs, np.arange(len(xs)))
        (legend[name],) = axes.plot(x, range(len(ys)), color=look[0], marker=look[1], markersize=3.5, linewidth=1.3)
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
