"""Ours beside the published numbers, and tables of what was measured."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from carving.errors import BadValue
from carving.lab.experiment import Cells, Experiment, Heat, Lines, Panel, Published, Setting
from carving.lab.runner import Row, settings_of

ENOUGH = 3.0  # standard errors within which two numbers agree
PUBLISHED_TRIALS = 10  # what the paper averages over


@dataclass(frozen=True)
class Summary:
    """A quantity in one setting, over its trials."""

    setting: Setting
    mean: float
    deviation: float | None  # None: one trial only
    error: float | None  # the standard error of the mean; None: one trial, and nothing else to tell it from
    trials: int
    exact: bool = False  # a count, the same in every trial


def summary(rows: Sequence[Row], setting: Setting, quantity: str) -> Summary | None:
    """Mean, deviation and standard error of a quantity in a setting; None where it was not measured."""
    some = [row["measured"] for row in rows if row["setting"] == setting and quantity in row["measured"]]
    if not some:
        return None
    values = [one[quantity] for one in some]
    mean, count = statistics.fmean(values), len(values)
    deviation = statistics.stdev(values) if count > 1 else None
    error = None if deviation is None else deviation / math.sqrt(count)
    if "questions" in some[0] and 0 <= mean <= 1:
        # Few trials may agree by chance: the error is not below that of so many coins, one head and one tail added.
        asked = sum(one["questions"] for one in some)
        chance = (mean * asked + 1) / (asked + 2)
        error = max(error or 0.0, math.sqrt(chance * (1 - chance) / asked))
    exact = len(set(values)) == 1 and isinstance(values[0], int)
    return Summary(setting, mean, deviation, 0.0 if exact else error, count, exact)


@dataclass(frozen=True)
class Comparison:
    """One line of the table: a published number, ours if it was measured, and what to think of the two."""

    experiment: str
    published: Published
    ours: Summary | None
    difference: float | None  # in standard errors, of ours and of the published number together
    verdict: str


def compare(experiment: str, published: Published, rows: Sequence[Row]) -> Comparison:
    """A published number beside ours."""
    found = [
        made
        for setting in settings_of(rows)
        if published.speaks_of(setting) and (made := summary(rows, setting, published.quantity)) is not None
    ]
    if not found:
        return Comparison(experiment, published, None, None, "not run at this scale")
    if not published.best and len(found) > 1:
        raise BadValue(
            f"{experiment}: the published number at {published.where} speaks of {len(found)} settings; name more keys"
        )
    ours = max(found, key=lambda one: one.mean)
    if not published.comparable:
        return Comparison(experiment, published, ours, None, f"not comparable: {published.why}")
    difference = _in_errors(ours, published)
    if difference is None:
        return Comparison(experiment, published, ours, None, "a single trial: no standard error")
    if abs(difference) <= ENOUGH:
        return Comparison(experiment, published, ours, difference, "agrees")
    return Comparison(experiment, published, ours, difference, f"differs: {published.why or 'why is not known'}")


def _in_errors(ours: Summary, published: Published) -> float | None:
    gap = ours.mean - published.value
    if ours.error is None:
        return None
    if ours.exact and published.spread == 0:  # two exact numbers: equal as printed, or not
        return 0.0 if abs(gap) <= published.unit * 0.501 + 1e-9 * abs(published.value) else math.copysign(math.inf, gap)
    theirs = published.spread**2 / PUBLISHED_TRIALS + published.unit**2 / 12
    if published.single:  # ours is as coarse as theirs, and theirs as random as one of ours
        theirs += (ours.deviation or 0.0) ** 2 + published.unit**2 / 12
    error = math.sqrt(ours.error**2 + theirs)
    return gap / error if error else 0.0 if gap == 0 else math.copysign(math.inf, gap)


def comparisons(experiment: Experiment, rows: Sequence[Row]) -> list[Comparison]:
    """Every published number of the experiment beside ours."""
    return [compare(experiment.name, published, rows) for published in experiment.published]


# Tables as text: a head and rows of cells

Table = tuple[list[str], list[list[str]]]


def show(value: float) -> str:
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
        return show(value)
    return f"{show(value)} ± {f'{error:,.0f}' if error >= 100 else f'{error:.2g}'}"


def spelled(setting: Setting) -> str:
    """A setting in words."""
    return ", ".join(f"{key}={value}" for key, value in setting.items() if value is not None)


def comparison_table(found: Sequence[Comparison]) -> Table:
    """The table of published numbers beside ours."""
    head = [
        "setting",
        "quantity",
        "published or predicted",
        "ours (± standard error)",
        "trials",
        "difference in s.e.",
        "verdict",
    ]
    body = []
    for one in found:
        place = spelled(one.published.where) + (" (best)" if one.published.best else "")
        if one.published.best and one.ours is not None:
            place += f": {one.ours.setting.get('scheme', '')}"
        published = _with_error(one.published.value, one.published.spread)
        source = f" ({one.published.source})" if one.published.source else ""
        body.append(
            [
                place,
                one.published.quantity,
                published + source,
                "" if one.ours is None else _with_error(one.ours.mean, one.ours.error),
                "" if one.ours is None else str(one.ours.trials),
                "" if one.difference is None else f"{one.difference:+.1f}" if one.difference else "0",
                one.verdict,
            ]
        )
    return head, body


def chosen(rows: Sequence[Row], panel: Panel) -> list[Setting]:
    """The settings that a panel shows."""
    quantity = panel.y if isinstance(panel, Lines) else panel.value
    only = panel.only or {}
    measured = {json.dumps(row["setting"], sort_keys=True) for row in rows if quantity in row["measured"]}
    return [
        setting
        for setting in settings_of(rows)
        if json.dumps(setting, sort_keys=True) in measured
        and all(setting.get(key) == value for key, value in only.items())
    ]


def names_of(setting: Setting, keys: Sequence[str]) -> str:
    """What a series is called."""
    said = [str(setting[k]) if isinstance(setting[k], str) else f"{k}={setting[k]}" for k in keys if k in setting]
    return " ".join(said)


def panel_table(rows: Sequence[Row], panel: Panel) -> Table:
    """What a panel shows, mean ± deviation over trials: a row for each series, a column for each x."""
    if isinstance(panel, Heat):
        return _best_of_rows(rows, panel)
    keys, column, quantity = (
        (panel.series, panel.x, panel.y) if isinstance(panel, Lines) else (panel.rows, panel.column, panel.value)
    )
    settings = chosen(rows, panel)
    columns = sorted({setting[column] for setting in settings})
    cells: dict[str, dict[object, str]] = {}
    means: dict[str, dict[object, float]] = {}
    for setting in settings:
        made = summary(rows, setting, quantity)
        assert made is not None
        name = names_of(setting, keys)
        cells.setdefault(name, {})[setting[column]] = _with_error(made.mean, made.deviation)
        means.setdefault(name, {})[setting[column]] = made.mean
    if isinstance(panel, Cells) and panel.ratio and len(means) > 1:
        (first, above), (second, below) = list(means.items())[:2]
        cells[f"{first} / {second}"] = {x: f"{above[x] / below[x]:.2f}" for x in columns if x in above and x in below}
    head = ["", *(f"{column}={show(x) if isinstance(x, float) else x}" for x in columns)]
    body = [[name, *(row.get(x, "") for x in columns)] for name, row in cells.items()]
    if isinstance(panel, Lines) and panel.fit:
        head.append("a + b ln x")
        for line in body:
            points = curve(rows, panel, line[0])
            line.append(fit_text(points))
    return head, body


def _best_of_rows(rows: Sequence[Row], panel: Heat) -> Table:
    head = [panel.y, f"best {panel.x}", f"{panel.x} within 2 s.e. of the best", panel.value, *(panel.guides or {})]
    body = []
    settings = chosen(rows, panel)
    for y in sorted({setting[panel.y] for setting in settings}):
        line = [made for s in settings if s[panel.y] == y and (made := summary(rows, s, panel.value)) is not None]
        best = max(line, key=lambda one: one.mean)
        near = [
            one.setting[panel.x]
            for one in line
            if best.mean - one.mean <= 2 * math.hypot(best.error or 0.0, one.error or 0.0)
        ]
        guides = [f"{y**exponent:.1f}" for exponent in (panel.guides or {}).values()]
        body.append([str(y), str(best.setting[panel.x]), f"{min(near)} to {max(near)}", show(best.mean), *guides])
    return head, body


Point = tuple[float, float, float]  # x, mean, deviation


def curve(rows: Sequence[Row], panel: Lines, name: str) -> list[Point]:
    """The points of a series, from left to right."""
    points = []
    for setting in chosen(rows, panel):
        if names_of(setting, panel.series) == name:
            made = summary(rows, setting, panel.y)
            assert made is not None
            points.append((float(setting[panel.x]), made.mean, made.deviation or 0.0))
    return sorted(points)


def log_fit(points: Sequence[Point]) -> tuple[float, float, float] | None:
    """The least squares a + b ln(x), and the share of the variance that it explains."""
    if len(points) < 3:
        return None
    x, y = [math.log(point[0]) for point in points], [point[1] for point in points]
    slope, start = statistics.linear_regression(x, y)
    total = sum((value - statistics.fmean(y)) ** 2 for value in y)
    rest = sum((value - start - slope * at) ** 2 for at, value in zip(x, y, strict=True))
    return start, slope, 1 - rest / total if total else 1.0


def fit_text(points: Sequence[Point]) -> str:
    """The fit in words."""
    fit = log_fit(points)
    return "" if fit is None else f"{fit[0]:.3g} + {fit[1]:.3g} ln x (R² {fit[2]:.3f})"
