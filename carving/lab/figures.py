"""Figures in the style of the paper: shaded deviations, and markers and dashes that can be told apart in grey."""

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist, getp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter

from carving.lab.experiment import Cells, Experiment, Heat, Lines, Published
from carving.lab.runner import Row
from carving.lab.tables import chosen, curve, log_fit, names_of, summary

MARKERS = "os^vD<>Ph*Xpd"
DASHES = ("-", "--", "-.", ":")
# Okabe and Ito's colours, which differ in brightness too and for the colour-blind.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
PAPER, THEORY = "the paper's numbers", "our theory"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "svg.hashsalt": "carving",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(experiment: Experiment, rows: Sequence[Row], base: Path) -> Path | None:
    """Write base.png and base.svg, a panel beside the other; None where the experiment is a table alone."""
    panels = [panel for panel in experiment.panels if not isinstance(panel, Cells) and chosen(rows, panel)]
    if not panels:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.4 + 4.6 * len(panels), 4.4), layout="constrained")
        legends: list[dict[str, Artist]] = []
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), place + 1)
            if isinstance(panel, Heat):
                _heat(figure, axes, panel, rows)
            else:
                _lines(axes, panel, rows, experiment.published)
                lines, names = axes.get_legend_handles_labels()
                legends.append(dict(zip(names, lines, strict=True)))
        together = {name: line for legend in legends for name, line in legend.items()}
        if _one_legend(legends):
            figure.legend(together.values(), together.keys(), loc="outside right upper", fontsize=7)
        else:  # the panels speak of different things
            for axes, legend in zip(figure.axes, legends, strict=False):
                axes.legend(legend.values(), legend.keys(), fontsize=7)
        png, svg = (base.with_name(f"{base.name}.{kind}") for kind in ("png", "svg"))
        figure.savefig(png, dpi=150, metadata={"Software": None})
        figure.set_layout_engine("none")  # what was laid out stays: to do it again takes as long as to draw
        figure.savefig(svg, metadata={"Date": None})
    return png


def _one_legend(legends: Sequence[dict[str, Artist]]) -> bool:
    """Whether one legend will do: one of them names every line, and a name looks alike in all."""
    looks: dict[str, set[Any]] = {}
    for legend in legends:
        for name, line in legend.items():
            if name not in (PAPER, THEORY):
                looks.setdefault(name, set()).add((getp(line, "color"), getp(line, "marker")))
    return any(looks.keys() <= legend.keys() for legend in legends) and all(len(one) == 1 for one in looks.values())


def _lines(axes: Axes, panel: Lines, rows: Sequence[Row], published: Sequence[Published]) -> None:
    names = list(dict.fromkeys(names_of(setting, panel.series) for setting in chosen(rows, panel)))
    # Among many lines OSC is solid and bold, everything else broken and thin, so that the eye finds it.
    few = len(names) <= len(DASHES)
    least = -1 if any(row["measured"].get(panel.y, 0) < 0 for row in rows) else 0
    dashes, looks = cycle(DASHES if few else DASHES[1:]), zip(cycle(MARKERS), cycle(COLOURS), names, strict=False)
    for marker, colour, name in looks:
        ours = name.startswith("OSC")
        points = np.array(curve(rows, panel, name))
        x, mean, deviation = points.T
        dash = ":" if panel.fit else "-" if ours and not few else next(dashes)
        width = 1.6 if ours else 0.9
        axes.plot(x, mean, dash, marker=marker, color=colour, label=name, markersize=4, linewidth=width)
        low, high = mean - deviation, mean + deviation
        if panel.percent:  # shares stay between nothing and everything, differences of shares may be less
            low, high = low.clip(least, 1), high.clip(least, 1)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        fit = log_fit(list(map(tuple, points))) if panel.fit else None
        if fit is not None:
            axes.plot(x, fit[0] + fit[1] * np.log(x), "-", color=colour, linewidth=0.8)
    _stars(axes, panel, rows, published)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.label or panel.y)
    axes.set_title(panel.title)
    axes.grid(alpha=0.25)
    if panel.log_x:
        axes.set_xscale("log")
        places = sorted({setting[panel.x] for setting in chosen(rows, panel)})
        shown = apart(places)
        axes.set_xticks(shown, [f"{place:,}" for place in shown])
        axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if low >= 1 and high / low < 100:  # few powers of ten: plain numbers in between
            for labelled in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                labelled(StrMethodFormatter("{x:,.0f}"))
    if panel.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def apart(places: Sequence[float]) -> list[float]:
    """Places on a logarithmic axis whose labels do not run into each other, the first and the last among them."""
    span, shown = math.log(places[-1] / places[0]) or 1.0, [places[0]]

    def free(one: float, other: float) -> bool:
        width = 0.024 * (len(f"{one:,}") + len(f"{other:,}")) / 2  # of the axis
        return abs(math.log(one / other)) / span > width

    for place in places[1:-1]:
        if free(place, shown[-1]) and free(place, places[-1]):
            shown.append(place)
    return [*shown, places[-1]] if len(places) > 1 else shown


def _stars(axes: Axes, panel: Lines, rows: Sequence[Row], published: Sequence[Published]) -> None:
    """The paper's own numbers, and those of theory, where they belong to a setting of this panel."""
    settings = chosen(rows, panel)
    shown = [
        one
        for one in published
        if one.quantity == panel.y and one.comparable and panel.x in one.where and any(map(one.speaks_of, settings))
    ]
    for predicted, marker, name in ((False, "*", PAPER), (True, "s", THEORY)):
        places = [(one.where[panel.x], one.value) for one in shown if one.predicted == predicted]
        if places:
            x, y = zip(*places, strict=True)
            axes.plot(x, y, marker, color="none", markeredgecolor="black", markersize=11, label=name)


def _heat(figure: Figure, axes: Axes, panel: Heat, rows: Sequence[Row]) -> None:
    settings = chosen(rows, panel)
    xs, ys = (sorted({setting[key] for setting in settings}) for key in (panel.x, panel.y))
    values = np.full((len(ys), len(xs)), np.nan)
    for setting in settings:
        made = summary(rows, setting, panel.value)
        assert made is not None
        values[ys.index(setting[panel.y]), xs.index(setting[panel.x])] = made.mean
    values /= np.maximum(np.nanmax(values, axis=1, keepdims=True), 1e-12)
    axes.patch.set(hatch="xxx", edgecolor="gray")  # where there is no setting
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="gray", vmin=0, vmax=1)
    for number, exponent in enumerate((panel.guides or {}).items()):
        name, power = exponent
        places = np.interp([y**power for y in ys], xs, np.arange(len(xs)))
        axes.plot(places, range(len(ys)), DASHES[number], marker=MARKERS[number], color=COLOURS[1 + number], label=name)
    axes.set_xticks(range(len(xs)), list(map(str, xs)))
    axes.set_yticks(range(len(ys)), list(map(str, ys)))
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title)
    axes.legend(fontsize=7, loc="lower right")
    figure.colorbar(image, ax=axes, label=f"{panel.value}, each {panel.y} scaled to its best")
