"""What a panel shows of rows: summaries, gathered into series and curves."""

import math
import statistics
from collections.abc import Sequence

from carving.lab.experiment import Lines, Panel, Points, Setting, agrees
from carving.lab.rows import Row
from carving.lab.summaries import Summary, summaries
from carving.lab.words import cells_of, setting_words

Point = tuple[float, float, float]  # x, mean, deviation
Pairs = list[tuple[Summary, Summary]]  # of x and of y


def panel_summaries(rows: Sequence[Row], panel: Panel) -> list[Summary]:
    """The summaries of the settings that a panel shows."""
    quantity = panel.y if isinstance(panel, Lines | Points) else panel.value
    kept = [row for row in rows if agrees(row["setting"], panel.only)]
    return summaries(map(with_cells, kept) if quantity == "cells" else kept, quantity)


def with_cells(row: Row) -> Row:
    """A row that measured a dimension, with the numbers of a memory of that dimension."""
    d = row["measured"].get("d")
    cells = None if d is None else cells_of(row["setting"], d)
    return row if cells is None else {**row, "measured": {**row["measured"], "cells": cells}}


def series_name(setting: Setting, keys: Sequence[str]) -> str:
    """What a series is called."""
    return setting_words(setting, keys)


def by_series(results: Sequence[Summary], keys: Sequence[str]) -> dict[str, list[Summary]]:
    """The summaries of each series."""
    series: dict[str, list[Summary]] = {}
    for summary in results:
        series.setdefault(series_name(summary.setting, keys), []).append(summary)
    return series


def curve(series: Sequence[Summary], x: str) -> list[Point]:
    """The points of a series, from left to right."""
    return sorted((float(point.setting[x]), point.mean, point.deviation or 0.0) for point in series)


def log_fit(points: Sequence[Point]) -> tuple[float, float, float] | None:
    """The least squares a + b ln(x), and the share of the variance that it explains."""
    if len(points) < 3:
        return None
    x, y = [math.log(point[0]) for point in points], [point[1] for point in points]
    slope, start = statistics.linear_regression(x, y)
    total = sum((value - statistics.fmean(y)) ** 2 for value in y)
    rest = sum((value - start - slope * at) ** 2 for at, value in zip(x, y, strict=True))
    return start, slope, 1 - rest / total if total else 1.0


def measured_pairs(rows: Sequence[Row], panel: Points) -> list[Pairs]:
    """For each setting, the summaries of x and of y that belong together."""
    kept = [row for row in rows if agrees(row["setting"], panel.only)]
    quantities = dict.fromkeys(name for row in kept for name in row["measured"] if name.startswith(panel.x))
    settings: dict[str, Pairs] = {}
    for name in quantities:
        y = {str(point.setting): point for point in summaries(kept, panel.y + name.removeprefix(panel.x))}
        for x in summaries(kept, name):
            if str(x.setting) in y:
                settings.setdefault(str(x.setting), []).append((x, y[str(x.setting)]))
    return [sorted(pairs, key=lambda pair: pair[0].mean) for pairs in settings.values()]
