"""The scales of panels: ticks that do not run into each other, with numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from carving.extras import load
from carving.lab.experiment import Lines
from carving.lab.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scale(axes: Axes, panel: Lines, results: Sequence[Summary]) -> None:
    """Set the scales of a panel of lines."""
    ticker = load("matplotlib.ticker")
    if panel.log_x:
        axes.set_xscale("log")
        ticks = apart(sorted({point.setting[panel.x] for point in results}))
        axes.set_xticks(ticks, [tick_text(tick) for tick in ticks])
        axes.minorticks_off()
    elif all(isinstance(point.setting[panel.x], int) for point in results):
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    if panel.log_y:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        decades = math.log10(high / low)
        if low >= 1 and decades < 6:  # few powers of ten: plain numbers, as many as there is room for
            steps = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
            axes.yaxis.set_major_locator(ticker.LogLocator(10, subs=steps, numticks=99))
            axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    if panel.percent:
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=None))
    elif not panel.log_y and axes.get_ylim()[1] >= 1000:
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


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
        width = 0.034 * (len(tick_text(left)) + len(tick_text(right))) / 2  # of the axis
        return abs(math.log(left / right)) / span > width

    for tick in ticks[1:-1]:
        if free(tick, kept[-1]) and free(tick, ticks[-1]):
            kept.append(tick)
    return [*kept, ticks[-1]] if len(ticks) > 1 else kept
