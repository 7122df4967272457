"""Names beside the ends of lines, so far apart that none covers another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from carving.lab.panels import Point
from carving.lab.style import GREY, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 0.040  # the height of a name, as a share of the panel's
INSIDE = 0.9  # of the panel's width: from a line that ends before, dots lead to its name, lest it seems to go on


def beside_ends(axes: Axes, series: Mapping[str, tuple[Sequence[Point], Look]]) -> None:
    """The names of the series that are not in the legend, right of the panel, joined to where their lines end."""
    ends = {name: points[-1] for name, (points, look) in series.items() if look.labeled}
    if not ends:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    places = {name: to_axes.transform((x, y)) for name, (x, y, _) in ends.items()}
    ranked = sorted(places, key=lambda name: places[name][1])
    shown = short_names(ranked)
    for name, height in zip(ranked, spread([float(places[name][1]) for name in ranked]), strict=True):
        x, y = places[name]
        color = series[name][1].color
        axes.annotate(
            shown[name], (min(x, 1.0), y), (1.04, height), xycoords="axes fraction", textcoords="axes fraction",
            fontsize=6.5, va="center", color="0.35" if color == GREY else color, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.7, "shrinkA": 0, "shrinkB": 0,
                        "relpos": (0, 0.5), "linestyle": "-" if x > INSIDE else ":"},
        )  # fmt: skip


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names without the size that all grey ones share."""
    return {name: name.replace(" numbers", "") for name in names}


def spread(heights: Sequence[float], gap: float = LINE) -> list[float]:
    """Heights in rising order, moved to lie a gap apart; above the panel only as far as they must.

    >>> spread([0.5, 0.5, 1.0], 0.1)
    [0.5, 0.6, 1.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + gap) if places else height)
    top = 1.02
    for at in reversed(range(len(places))):
        places[at] = min(places[at], top)
        top = places[at] - gap
    return [round(place, 6) for place in places]
