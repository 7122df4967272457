"""Figures in the style of the paper: shaded deviations, and markers and dashes that can be told apart in grey."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from carving.extras import load
from carving.lab.experiment import Cells, Experiment, Gaps, Heat, Lines, Points, Published
from carving.lab.panels import Pairs, Point, by_series, curve, log_fit, measured_pairs, panel_summaries, series_name
from carving.lab.rows import Row
from carving.lab.summaries import Summary, summaries

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABREAST = 4  # panels beside each other; more stand in two lines
MARKERS = "os^vD<>Ph*Xpd"
DASHES = ("-", "--", "-.", ":")
# Okabe and Ito's colours, which differ in brightness too and for the colour-blind.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
PAPER, THEORY = "the paper's numbers", "our theory"
STYLE = {
    "font.size": 9,
    "svg.hashsalt": "carving",
    "axes.spines.top": False,
    "axes.spines.right": False,
}

Legend = dict[str, "Artist"]


def draw(experiment: Experiment, rows: Sequence[Row], base: Path) -> Path | None:
    """Write base.png and base.svg, a panel beside the other; None where the experiment is a table alone."""
    panels = drawn_panels(experiment, rows)
    if not panels:
        return None
    png, svg = (base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg"))
    with load("matplotlib").rc_context(STYLE):
        lines = 1 if len(panels) <= ABREAST else 2
        columns = -(-len(panels) // lines)
        size = (1.4 + 4.6 * columns, 4.4 * lines)
        figure: Figure = load("matplotlib.figure").Figure(figsize=size, layout="constrained")
        legends: list[tuple[Axes, Legend]] = []
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(lines, columns, number)
            if isinstance(panel, Heat):
                _heat(figure, axes, panel, panel_summaries(rows, panel))
                continue
            if isinstance(panel, Gaps):
                _gaps(axes, panel, panel_summaries(rows, panel))
                continue
            if isinstance(panel, Points):
                _points(axes, panel, rows)
            else:
                _lines(axes, panel, rows, experiment.published)
            marks, names = axes.get_legend_handles_labels()
            legends.append((axes, dict(zip(names, marks, strict=True))))
        _legends(figure, legends)
        figure.savefig(png, dpi=150, metadata={"Software": None})
        figure.set_layout_engine("none")  # what was laid out stays: to do it again takes as long as to draw
        figure.savefig(svg, metadata={"Date": None})
    return png


def drawn_panels(experiment: Experiment, rows: Sequence[Row]) -> list[Lines | Heat | Points | Gaps]:
    """The panels of an experiment that are drawn, as far as these rows have something to show there."""
    panels = [panel for panel in experiment.panels if not isinstance(panel, Cells)]
    return [
        panel
        for panel in panels
        if (measured_pairs(rows, panel) if isinstance(panel, Points) else panel_summaries(rows, panel))
    ]


def _legends(figure: Figure, legends: Sequence[tuple[Axes, Legend]]) -> None:
    if _alike([legend for _, legend in legends]):
        together = {name: line for _, legend in legends for name, line in legend.items()}
        figure.legend(together.values(), together.keys(), loc="outside right upper", fontsize=7)
    else:  # the panels speak of different things
        for axes, legend in legends:
            axes.legend(legend.values(), legend.keys(), fontsize=7)


def _alike(legends: Sequence[Legend]) -> bool:
    """Whether one legend will do: one of them names every line, and a name looks alike in all."""
    getp = load("matplotlib.artist").getp
    looks: dict[str, set[tuple[object, object]]] = {}
    for legend in legends:
        for name, line in legend.items():
            if name not in (PAPER, THEORY):
                looks.setdefault(name, set()).add((getp(line, "color"), getp(line, "marker")))
    return any(looks.keys() <= legend.keys() for legend in legends) and all(len(kinds) == 1 for kinds in looks.values())


def _label(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.grid(alpha=0.25)


# Lines


def _lines(axes: Axes, panel: Lines, rows: Sequence[Row], published: Sequence[Published]) -> None:
    results = panel_summaries(rows, panel)
    series = by_series(results, panel.series)
    least = -1 if any(row["measured"].get(panel.y, 0) < 0 for row in rows) else 0
    for (name, dash), marker, colour in zip(_dashes(list(series), panel), cycle(MARKERS), cycle(COLOURS), strict=False):
        points = curve(series[name], panel.x)
        width = 1.6 if name.startswith("OSC") else 0.9
        x, mean, _ = np.array(points).T
        axes.plot(x, mean, dash, marker=marker, color=colour, label=name, markersize=4, linewidth=width)
        _shade(axes, points, colour, (least, 1) if panel.percent else None)
        fit = log_fit(points) if panel.fit else None
        if fit is not None:
            axes.plot(x, fit[0] + fit[1] * np.log(x), "-", color=colour, linewidth=0.8)
    _stars(axes, panel, results, published)
    _label(axes, panel.x, panel.label or panel.y, panel.title)
    _scale(axes, panel, results)


def _dashes(names: Sequence[str], panel: Lines) -> Iterator[tuple[str, str]]:
    """How each line is dashed: among many, OSC is solid and everything else broken, so that the eye finds it."""
    few = len(names) <= len(DASHES)
    dashes = cycle(DASHES if few else DASHES[1:])
    for name in names:
        if panel.fit:
            yield name, ":"
        else:
            yield name, "-" if name.startswith("OSC") and not few else next(dashes)


def _shade(axes: Axes, points: Sequence[Point], colour: str, limits: tuple[int, int] | None) -> None:
    """The deviation about a line; shares stay between nothing and everything, differences of shares may be less."""
    x, mean, deviation = np.array(points).T
    low, high = mean - deviation, mean + deviation
    if limits is not None:
        low, high = low.clip(*limits), high.clip(*limits)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _scale(axes: Axes, panel: Lines, results: Sequence[Summary]) -> None:
    ticker = load("matplotlib.ticker")
    if panel.log_x:
        axes.set_xscale("log")
        ticks = apart(sorted({point.setting[panel.x] for point in results}))
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if low >= 1 and high / low < 100:  # few powers of ten: plain numbers in between
            for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                set_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    if panel.percent:
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))


def apart(ticks: Sequence[float]) -> list[float]:
    """Ticks of a logarithmic axis whose labels do not run into each other, the first and the last among them."""
    span, kept = math.log(ticks[-1] / ticks[0]) or 1.0, [ticks[0]]

    def free(left: float, right: float) -> bool:
        width = 0.024 * (len(f"{left:,}") + len(f"{right:,}")) / 2  # of the axis
        return abs(math.log(left / right)) / span > width

    for tick in ticks[1:-1]:
        if free(tick, kept[-1]) and free(tick, ticks[-1]):
            kept.append(tick)
    return [*kept, ticks[-1]] if len(ticks) > 1 else kept


def _stars(axes: Axes, panel: Lines, results: Sequence[Summary], published: Sequence[Published]) -> None:
    """The paper's own numbers, and those of theory, where they belong to a setting of this panel."""
    settings = [point.setting for point in results]
    drawn = [
        number
        for number in published
        if number.quantity == panel.y and number.comparable and panel.x in number.where
        and any(map(number.speaks_of, settings))
    ]  # fmt: skip
    for predicted, marker, name in ((False, "*", PAPER), (True, "s", THEORY)):
        points = [(number.where[panel.x], number.value) for number in drawn if number.predicted == predicted]
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, marker, color="none", markeredgecolor="black", markersize=11, label=name)


# Points


def _points(axes: Axes, panel: Points, rows: Sequence[Row]) -> None:
    """Points beside the line of equality; a setting that has many is a line of them."""
    if panel.equal:
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
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
    for (name, lines), marker, colour in zip(series.items(), cycle(MARKERS), cycle(COLOURS), strict=False):
        for number, pairs in enumerate(lines):
            alpha = 0.35 if pairs[0][0].setting in pale else 1.0
            _joined(axes, pairs, label="" if number else name, marker=marker, color=colour, alpha=alpha)
    _label(axes, panel.x, panel.y, panel.title)
    for axis in (axes.xaxis, axes.yaxis) if panel.equal else (axes.yaxis,):
        axis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0))


def _joined(axes: Axes, pairs: Pairs, *, label: str, marker: str, color: str, alpha: float) -> None:
    """The points of a setting; bars are two standard errors."""
    x, y = ([pair[at].mean for pair in pairs] for at in (0, 1))
    low, high = ([point.mean + side * (point.error or 0.0) for _, point in pairs] for side in (-2, 2))
    dash = "-" if len(pairs) > 1 else ""
    axes.plot(x, y, dash, marker=marker, color=color, label=label, markersize=4, linewidth=0.9, alpha=alpha)
    axes.vlines(x, low, high, color=color, linewidth=1, alpha=alpha)


# Gaps


def _gaps(axes: Axes, panel: Gaps, results: Sequence[Summary]) -> None:
    """The settings from top to bottom, each with its difference."""
    for place, point in enumerate(results):
        reach = 2 * (point.error or 0.0)
        axes.plot(point.mean, place, "o", color=COLOURS[1], markersize=4)
        axes.hlines(place, point.mean - reach, point.mean + reach, color=COLOURS[1], linewidth=1.4)
    axes.axvspan(-panel.band, panel.band, color="0.93", zorder=0)
    axes.axvline(0, color="0.6", linewidth=1)
    names = [series_name(point.setting, panel.names) for point in results]
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    _label(axes, panel.label or panel.value, "", panel.title)
    axes.xaxis.set_major_formatter(load("matplotlib.ticker").PercentFormatter(1.0, decimals=1))


# Heat


def _heat(figure: Figure, axes: Axes, panel: Heat, results: Sequence[Summary]) -> None:
    xs, ys = (sorted({point.setting[key] for point in results}) for key in (panel.x, panel.y))
    values = np.full((len(ys), len(xs)), np.nan)
    for point in results:
        values[ys.index(point.setting[panel.y]), xs.index(point.setting[panel.x])] = point.mean
    values /= np.maximum(np.nanmax(values, axis=1, keepdims=True), 1e-12)
    axes.patch.set(hatch="xxx", edgecolor="gray")  # where there is no setting
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="gray", vmin=0, vmax=1)
    for number, (name, power) in enumerate((panel.guides or {}).items()):
        x = np.interp([y**power for y in ys], xs, np.arange(len(xs)))
        axes.plot(x, range(len(ys)), DASHES[number], marker=MARKERS[number], color=COLOURS[1 + number], label=name)
    axes.set_xticks(range(len(xs)), list(map(str, xs)))
    axes.set_yticks(range(len(ys)), list(map(str, ys)))
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title)
    axes.legend(fontsize=7, loc="lower right")
    figure.colorbar(image, ax=axes, label=f"{panel.value}, each {panel.y} scaled to its best")
