"""The scales of panels: ticks that do not run into each other, with numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from carving.lab.experiment import Lines
from carving.lab.summaries import Summary
from carving.optional import load

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY = 16  # values of an axis: more are not its ticks
LETTER, SPACE = 0.021, 0.02  # of a tick's text, and between two: shares of the axis


def scale(axes: Axes, panel: Lines, results: Sequence[Summary]) -> None:
    """Set the scales of a panel of lines."""
    _scale_x(axes, panel, sorted({point.setting[panel.x] for point in results}))
    if panel.log_y:
        _scale_log_y(axes)
    ticker = load("matplotlib.ticker")
    if panel.percent:
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=None))
    elif not panel.log_y and axes.get_ylim()[1] >= 1000:
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def _scale_x(axes: Axes, panel: Lines, values: Sequence[float]) -> None:
    """A tick at each value of a logarithmic scale, at round numbers if they are many; whole numbers at round steps."""
    ticker = load("matplotlib.ticker")
    if panel.log_x:
        axes.set_xscale("log")
        ticks = apart(values if len(values) <= MANY else round_between(values[0], values[-1]))
        axes.set_xticks(ticks, [tick_text(tick) for tick in ticks])
        axes.minorticks_off()
    elif all(isinstance(value, int) for value in values):
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def _scale_log_y(axes: Axes) -> None:
    """Few powers of ten: plain numbers, as many as there is room for."""
    ticker = load("matplotlib.ticker")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    if low >= 1 and decades < 6:
        steps = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        axes.yaxis.set_major_locator(ticker.LogLocator(10, subs=steps, numticks=99))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def round_between(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two numbers.

    >>> round_between(9.3, 130)
    [10, 20, 50, 100]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    each = (step * 10**decade for decade in decades for step in (1, 2, 5))
    return [value for value in each if low <= value <= high]


def short(value: float) -> str:
    """A large number in few signs."""
    for name, unit in (("billion", 1e9), ("million", 1e6)):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:,.0f}"


def tick_text(tick: float) -> str:
    """A tick's number: three digits are enough of one that is not whole."""
    return f"{tick:,}" if isinstance(tick, int) else f"{tick:,.0f}" if tick >= 100 else f"{tick:.3g}"


def apart(ticks: Sequence[float]) -> list[float]:
    """Ticks of a logarithmic axis whose labels do not run into each other, the first and the last among them."""
    span, kept = math.log(ticks[-1] / ticks[0]) or 1.0, [ticks[0]]

    def free(left: float, right: float) -> bool:
        width = LETTER * (len(tick_text(left)) + len(tick_text(right))) / 2
        return abs(math.log(left / right)) / span > width + SPACE

    for tick in ticks[1:-1]:
        if free(tick, kept[-1]) and free(tick, ticks[-1]):
            kept.append(tick)
    return [*kept, ticks[-1]] if len(ticks) > 1 else kept
