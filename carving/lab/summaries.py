"""Means over trials, and comparisons with published numbers."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from carving.errors import BadValue
from carving.lab.experiment import Experiment, Measured, Published, Setting
from carving.lab.rows import Row

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
    return next(iter(summaries((row for row in rows if row["setting"] == setting), quantity)), None)


def summaries(rows: Iterable[Row], quantity: str) -> list[Summary]:
    """A summary for each setting in which the quantity was measured, in the order of rows."""
    settings: dict[str, tuple[Setting, list[Measured]]] = {}
    for row in rows:
        if quantity in row["measured"]:
            key = json.dumps(row["setting"], sort_keys=True)
            settings.setdefault(key, (row["setting"], []))[1].append(row["measured"])
    return [_summary(setting, measured, quantity) for setting, measured in settings.values()]


def _summary(setting: Setting, measured: Sequence[Measured], quantity: str) -> Summary:
    values = [numbers[quantity] for numbers in measured]
    mean, count = statistics.fmean(values), len(values)
    deviation = statistics.stdev(values) if count > 1 else None
    if len(set(values)) == 1 and isinstance(values[0], int):
        return Summary(setting=setting, mean=mean, deviation=deviation, error=0.0, trials=count, exact=True)
    error = None if deviation is None else deviation / math.sqrt(count)
    if "questions" in measured[0] and 0 <= mean <= 1:
        error = max(error or 0.0, _error_of_coins(mean, sum(numbers["questions"] for numbers in measured)))
    return Summary(setting=setting, mean=mean, deviation=deviation, error=error, trials=count)


def _error_of_coins(mean: float, count: float) -> float:
    """The standard error of so many coins, one head and one tail added: few trials may agree by chance."""
    chance = (mean * count + 1) / (count + 2)
    return math.sqrt(chance * (1 - chance) / count)


@dataclass(frozen=True)
class Comparison:
    """Published number, the measured one if there is one, and the verdict."""

    experiment: str
    published: Published
    ours: Summary | None
    difference: float | None  # in standard errors, of ours and of the published number together
    verdict: str


def compare(experiment: str, published: Published, rows: Sequence[Row]) -> Comparison:
    """Return the comparison of a published number with the rows."""
    measured = summaries((row for row in rows if published.speaks_of(row["setting"])), published.quantity)
    if not measured:
        return Comparison(
            experiment=experiment, published=published, ours=None, difference=None, verdict="not measured at this scale"
        )
    if not published.best and len(measured) > 1:
        raise BadValue(
            f"{experiment}: the published number at {published.where} matches {len(measured)} settings. "
            "Add keys until it matches one."
        )
    ours = max(measured, key=lambda candidate: candidate.mean)
    difference = _in_errors(ours, published) if published.comparable else None
    return Comparison(
        experiment=experiment,
        published=published,
        ours=ours,
        difference=difference,
        verdict=_verdict(published, difference),
    )


def _verdict(published: Published, difference: float | None) -> str:
    if not published.comparable:
        return f"not comparable: {published.why}"
    if difference is None:
        return "one trial only: no standard error"
    if abs(difference) <= ENOUGH:
        return "agrees"
    return f"differs: {published.why or 'reason unknown'}"


def _in_errors(ours: Summary, published: Published) -> float | None:
    gap = ours.mean - published.value
    if ours.error is None:
        return None
    if ours.exact and published.spread == 0:  # two exact numbers: equal as printed, or not
        equal = abs(gap) <= published.unit * 0.501 + 1e-9 * abs(published.value)
        return 0.0 if equal else math.copysign(math.inf, gap)
    theirs = published.spread**2 / PUBLISHED_TRIALS + published.unit**2 / 12
    if published.single:  # ours is as coarse as theirs, and theirs as random as one of ours
        theirs += (ours.deviation or 0.0) ** 2 + published.unit**2 / 12
    error = math.sqrt(ours.error**2 + theirs)
    return gap / error if error else 0.0 if gap == 0 else math.copysign(math.inf, gap)


def comparisons(experiment: Experiment, rows: Sequence[Row]) -> list[Comparison]:
    """Every published number of the experiment beside ours."""
    return [compare(experiment.name, published, rows) for published in experiment.published]
