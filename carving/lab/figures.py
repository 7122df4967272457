"""Figures: panels beside and below each other, in one style; legends below explain every sign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from carving.lab.experiment import Experiment, Gaps, Heat, Lines, Points, Published, TablePanel
from carving.lab.lines import draw_lines
from carving.lab.panels import by_series, measured_pairs, panel_summaries, series_name
from carving.lab.plots import Legend, Looks, draw_gaps, draw_heat, draw_points
from carving.lab.rows import Row
from carving.lab.style import STYLE, looks
from carving.optional import load

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

ABREAST = 2  # panels beside each other: as wide as a page
WIDTH, HEIGHT = 3.9, 3.0  # of a panel, inches
ALONE = 1.35  # times as wide is a panel that is alone
LETTERS = 72  # of a legend in a panel’s width
OWN = 0.78  # of a panel's width, for a legend of its own
LONG = 40  # letters of a setting's name, from which on its panel has the whole width

Drawn = Lines | Heat | Points | Gaps


def draw(experiment: Experiment, rows: Sequence[Row], base: Path) -> Path | None:
    """Write base.svg, with one panel beside the other; return None where the experiment has no panel to draw."""
    panels = drawn_panels(experiment, rows)
    if not panels:
        return None
    file = base.with_name(f"{base.name}.svg")
    with load("matplotlib").rc_context(STYLE):
        _figure(experiment, panels, rows).savefig(file, metadata={"Date": None})
    return file


def drawn_panels(experiment: Experiment, rows: Sequence[Row]) -> list[Drawn]:
    """The panels of an experiment that are drawn, as far as these rows have something to show there."""
    panels = [panel for panel in experiment.panels if not isinstance(panel, TablePanel)]
    return [
        panel
        for panel in panels
        if (measured_pairs(rows, panel) if isinstance(panel, Points) else panel_summaries(rows, panel))
    ]


def _figure(experiment: Experiment, panels: Sequence[Drawn], rows: Sequence[Row]) -> Figure:
    columns, lines = min(ABREAST, len(panels)), _lines_of(panels, rows)
    heights = [max(_height(panel, rows) for panel in line) for line in lines]
    figure: Figure = load("matplotlib.figure").Figure(figsize=(1, 1), layout="constrained")
    bands = list(figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[:, 0])
    names = [_names(panel, rows) for panel in panels]
    kinds = _kinds([set(some) for some in names])
    styles = _looks_of_kinds(names, kinds)
    legends: list[Legend] = []
    places: list[Axes] = []
    signs: Legend = {}
    for band, axes, panel in _places(bands, lines, columns, rows):
        own = styles[kinds[len(legends)]]
        legend = _panel(band, axes, panel, rows, experiment.published, own)
        places.append(axes)
        legends.append({name: mark for name, mark in legend.items() if name in own})
        signs |= {name: mark for name, mark in legend.items() if name not in own}
    below = _legends(figure, places, legends, signs, kinds)
    wide = 0.6 + WIDTH * columns * (ALONE if len(panels) == 1 else 1)
    figure.set_size_inches(wide, sum(heights) + 0.16 * below)
    figure.draw_without_rendering()  # laid out once already, so that what is saved has come to rest
    return figure


def _panel(
    figure: SubFigure, axes: Axes, panel: Drawn, rows: Sequence[Row], published: Sequence[Published], named: Looks
) -> Legend:
    match panel:
        case Heat():
            return draw_heat(figure, axes, panel, panel_summaries(rows, panel))
        case Gaps():
            return draw_gaps(axes, panel, panel_summaries(rows, panel))
        case Points():
            return draw_points(axes, panel, rows, named)
        case Lines():
            return draw_lines(axes, panel, rows, published, named)


# Where panels stand


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


def _places(
    bands: Sequence[SubFigure], lines: Sequence[Sequence[Drawn]], columns: int, rows: Sequence[Row]
) -> Iterator[tuple[SubFigure, Axes, Drawn]]:
    """Every panel with its axes, and the band of the figure in which they are."""
    for band, line in zip(bands, lines, strict=True):
        whole = len(line) == 1 and _is_wide(line[0], rows)
        for place, panel in enumerate(line):
            yield band, band.subplots() if whole else band.add_subplot(1, columns, place + 1), panel


def _is_wide(panel: Drawn, rows: Sequence[Row]) -> bool:
    if not isinstance(panel, Gaps):
        return False
    return max(len(series_name(point.setting, panel.names)) for point in panel_summaries(rows, panel)) > LONG


def _height(panel: Drawn, rows: Sequence[Row]) -> float:
    """Panels that list many settings are higher."""
    return max(HEIGHT, 0.8 + 0.16 * len(panel_summaries(rows, panel))) if isinstance(panel, Gaps) else HEIGHT


# What series are called, and how they look


def _names(panel: Drawn, rows: Sequence[Row]) -> list[str]:
    """The series of a panel."""
    if isinstance(panel, Points):
        return [series_name(pairs[0][0].setting, panel.series) for pairs in measured_pairs(rows, panel)]
    return list(by_series(panel_summaries(rows, panel), panel.series)) if isinstance(panel, Lines) else []


def _kinds(names: Sequence[set[str]]) -> list[int]:
    """Which panels speak of the same series: those have one legend, and a color means the same in them."""
    kinds = list(range(len(names)))
    for number, some in enumerate(names):
        for other in range(number):
            if some & names[other]:
                old, new = kinds[number], kinds[other]
                kinds = [new if kind == old else kind for kind in kinds]
    return kinds


def _looks_of_kinds(names: Sequence[Sequence[str]], kinds: Sequence[int]) -> dict[int, Looks]:
    """The looks of the series that the panels of each kind have."""
    together: dict[int, list[str]] = {}
    for kind, some in zip(kinds, names, strict=True):
        together.setdefault(kind, []).extend(some)
    return {kind: looks(some) for kind, some in together.items()}


# Legends


def _legends(
    figure: Figure, places: Sequence[Axes], legends: Sequence[Legend], signs: Legend, kinds: Sequence[int]
) -> int:
    """One legend below all panels, where it covers nothing; panels that speak of different things have their own."""
    shown: Legend = {}
    lines, columns = 0, min(ABREAST, len(legends))
    if len({kind for kind, legend in zip(kinds, legends, strict=True) if legend}) <= 1:
        for legend in legends:
            shown |= legend
    else:
        lines = _own_legends(places, legends, columns)
    shown |= signs
    shown.pop("", None)
    if shown:
        abreast = _abreast(shown, columns if len(legends) > 1 else ALONE)
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=abreast, fontsize=8)
        lines += -(-len(shown) // abreast)
    return lines


def _own_legends(places: Sequence[Axes], legends: Sequence[Legend], columns: int) -> int:
    """A legend below each panel; how many lines they take from top to bottom."""
    lines = []
    for axes, legend in zip(places, legends, strict=True):
        abreast = _abreast(legend, OWN) if legend else 1
        lines.append(-(-len(legend) // abreast))
        if legend:
            axes.legend(legend.values(), legend.keys(), loc="upper center", bbox_to_anchor=(0.45, 0),
                        borderaxespad=4.4, ncols=abreast, fontsize=7.5)  # fmt: skip
    return sum(max(lines[at : at + columns]) for at in range(0, len(lines), columns))


def _abreast(legend: Legend, columns: float) -> int:
    """How many names stand beside each other in this many panels' width."""
    return max(1, min(len(legend), int(columns * LETTERS / (max(map(len, legend)) + 8))))
