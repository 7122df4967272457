"""Tables as text: ours beside the published numbers, and what panels show."""

import math
from collections.abc import Mapping, Sequence

from carving.lab.experiment import Gaps, Heat, Lines, Panel, Points, Setting, TablePanel
from carving.lab.panels import Point, by_series, curve, log_fit, measured_pairs, panel_summaries, series_name
from carving.lab.rows import Row
from carving.lab.summaries import Comparison, Summary
from carving.lab.words import axis_words, setting_words, value_words

Table = tuple[list[str], list[list[str]]]  # a head, and rows of cells

COMPARED = [
    "setting",
    "quantity",
    "published or predicted",
    "ours (± standard error)",
    "trials",
    "difference in s.e.",
    "verdict",
]


def number_text(value: float) -> str:
    """A number as people read it: four digits, thousands parted."""
    if math.isinf(value) or math.isnan(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "?"
    if value and abs(value) < 1e-3:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _with_error(value: float, error: float | None) -> str:
    if not error:
        return number_text(value)
    return f"{number_text(value)} ± {f'{error:,.0f}' if error >= 100 else f'{error:.2g}'}"


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    return setting_words(setting, [key for key in setting if key not in ("part", "asks")])


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """The table of published numbers beside ours."""
    return COMPARED, [_compared(comparison) for comparison in comparisons]


def _compared(comparison: Comparison) -> list[str]:
    published, ours, difference = comparison.published, comparison.ours, comparison.difference
    where = setting_text(published.where) + (" (best)" if published.best else "")
    if published.best and ours is not None:
        where += f": {ours.setting.get('scheme', '')}"
    source = f" ({published.source})" if published.source else ""
    return [
        where,
        published.quantity,
        _with_error(published.value, published.spread) + source,
        "" if ours is None else _with_error(ours.mean, ours.error),
        "" if ours is None else str(ours.trials),
        "" if difference is None else f"{difference:+.1f}" if difference else "0",
        comparison.verdict,
    ]


def verdicts_table(every: Mapping[str, Sequence[Comparison]]) -> Table:
    """Of each experiment, what became of its numbers, the paper's and those of our theory."""
    words = ("agrees", "differs", "not comparable")
    head = ["experiment", "numbers", "agree", "differ", "not comparable", "not measured, or once"]
    body = []
    for name, several in every.items():
        counts = [sum(one.verdict.startswith(word) for one in several) for word in words]
        body.append([name, *map(str, [len(several), *counts, len(several) - sum(counts)])])
    sums = [sum(int(line[at]) for line in body) for at in range(1, len(head))]
    return head, [line for line in body if line[1] != "0"] + [["all", *map(str, sums)]]


def reasons_table(numbers: Sequence[Comparison]) -> Table:
    """Why numbers differ or cannot be compared, and how many do."""
    reasons: dict[tuple[str, str], int] = {}
    for one in numbers:
        kind, _, why = one.verdict.partition(": ")
        if why:
            reasons[kind, why] = reasons.get((kind, why), 0) + 1
    ranked = sorted(reasons.items(), key=lambda item: -item[1])
    return ["verdict", "why", "numbers"], [[kind, why, str(count)] for (kind, why), count in ranked]


def panel_table(rows: Sequence[Row], panel: Panel) -> Table:
    """What a panel shows, mean ± deviation over trials."""
    match panel:
        case Lines():
            return _lines_table(panel_summaries(rows, panel), panel)
        case TablePanel():
            return _table_of_panel(panel_summaries(rows, panel), panel)
        case Heat():
            return _heat_table(panel_summaries(rows, panel), panel)
        case Points():
            return _points_table(rows, panel)
        case Gaps():
            return _gaps_table(panel_summaries(rows, panel), panel)


def _series_table(series: Mapping[str, Sequence[Summary]], column: str) -> Table:
    """A row for each series, a column for each value of the setting's key."""
    columns = sorted({point.setting[column] for points in series.values() for point in points})
    head = ["", *(value_words(column, round(x, 4) if isinstance(x, float) else x) for x in columns)]
    body = []
    for name, points in series.items():
        cells = {point.setting[column]: _with_error(point.mean, point.deviation) for point in points}
        body.append([name, *(cells.get(x, "") for x in columns)])
    return head, body


def _lines_table(results: Sequence[Summary], panel: Lines) -> Table:
    series = by_series(results, panel.series)
    head, body = _series_table(series, panel.x)
    if panel.fit:
        head.append("a + b ln x")
        for line in body:
            line.append(_fit_text(curve(series[line[0]], panel.x)))
    return head, body


def _fit_text(points: Sequence[Point]) -> str:
    fit = log_fit(points)
    return "" if fit is None else f"{fit[0]:.3g} + {fit[1]:.3g} ln x (R² {fit[2]:.3f})"


def _table_of_panel(results: Sequence[Summary], panel: TablePanel) -> Table:
    series = by_series(results, panel.rows)
    head, body = _series_table(series, panel.column)
    if panel.ratio and len(series) > 1:
        (first, above), (second, below) = list(series.items())[:2]
        columns = sorted({point.setting[panel.column] for point in results})
        over, under = ({point.setting[panel.column]: point.mean for point in points} for points in (above, below))
        ratios = [f"{over[x] / under[x]:.2f}" if x in over and x in under else "" for x in columns]
        body.append([f"{first} / {second}", *ratios])
    return head, body


def _heat_table(results: Sequence[Summary], panel: Heat) -> Table:
    """The best of each row of colors, and which are as good."""
    guides = panel.guides or {}
    across, along = axis_words(panel.x), axis_words(panel.y)
    head = [along, f"best {across}", f"{across} within 2 s.e. of the best", axis_words(panel.value), *guides]
    body = []
    for y in sorted({point.setting[panel.y] for point in results}):
        line = [point for point in results if point.setting[panel.y] == y]
        best = max(line, key=lambda point: point.mean)
        near = [point.setting[panel.x] for point in line if _as_good(point, best)]
        powers = [f"{y**exponent:.1f}" for exponent in guides.values()]
        x = str(best.setting[panel.x])
        body.append([str(y), x, f"{min(near)} to {max(near)}", number_text(best.mean), *powers])
    return head, body


def _as_good(point: Summary, best: Summary) -> bool:
    return best.mean - point.mean <= 2 * math.hypot(best.error or 0.0, point.error or 0.0)


def _points_table(rows: Sequence[Row], panel: Points) -> Table:
    """A row for each setting, and the largest difference; none where settings are whole curves."""
    settings = measured_pairs(rows, panel)
    pairs = [pairs[0] for pairs in settings if len(pairs) == 1]
    head = ["setting", axis_words(panel.x), f"{axis_words(panel.y)} (± standard error)", "trials", "difference"]
    body = [
        [setting_text(x.setting), number_text(x.mean), _with_error(y.mean, y.error), str(y.trials),
         f"{x.mean - y.mean:+.4f}"]
        for x, y in pairs
    ]  # fmt: skip
    if not panel.equal:
        return head[:-1], [row[:-1] for row in body]
    if pairs:
        largest = max((x.mean - y.mean for x, y in pairs), key=abs)
        body.append(["the largest difference", "", "", "", f"{largest:+.4f}"])
    return head, body


def _gaps_table(results: Sequence[Summary], panel: Gaps) -> Table:
    """A row for each setting, and the largest difference."""
    head = ["setting", f"{panel.value} (± standard error)", "trials", "in s.e."]
    body = [
        [series_name(point.setting, panel.names), _with_error(point.mean, point.error), str(point.trials),
         f"{point.mean / point.error:+.1f}" if point.error else ""]
        for point in results
    ]  # fmt: skip
    return head, [*body, ["the largest", f"{max((point.mean for point in results), key=abs):+.4f}", "", ""]]
