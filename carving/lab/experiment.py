"""Experiments as data: settings for each scale, the function that measures one trial, published numbers."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

Setting = dict[str, Any]  # plain values of JSON
Measured = dict[str, float]
Measure = Callable[[Setting, int], Measured]  # a setting and a seed, nothing else, make the numbers

SCALES = ("smoke", "small", "paper")


def grid(**axes: object) -> list[Setting]:
    """Return all combinations of the axes; a list is an axis, any other value is the same in all settings.

    >>> grid(scheme="HLB", d=[256, 512])
    [{'scheme': 'HLB', 'd': 256}, {'scheme': 'HLB', 'd': 512}]
    """
    lists = [values if isinstance(values, list | tuple) else [values] for values in axes.values()]
    return [dict(zip(axes, values, strict=True)) for values in product(*lists)]


@dataclass(frozen=True)
class Trials:
    """A number of trials of each of some settings."""

    count: int
    settings: tuple[Setting, ...]


def trials(count: int, *settings: Iterable[Setting]) -> Trials:
    """Return `count` trials of each setting of these lists.

    >>> trials(10, grid(d=[8, 16])).settings
    ({'d': 8}, {'d': 16})
    """
    return Trials(count, tuple(setting for part in settings for setting in part))


def agrees(setting: Setting, values: Setting | None) -> bool:
    """Whether a setting has these values; None stands for a key that it does not have."""
    return all(setting.get(key) == value for key, value in (values or {}).items())


@dataclass(frozen=True)
class Published:
    """Number of the paper, or of a theory, to compare with; never one that we measured."""

    where: Setting  # the settings that it speaks of: those that agree in these keys
    quantity: str
    value: float
    unit: float = 0.0  # what its last printed digit is worth
    spread: float = 0.0  # the "±" printed with it, taken for a standard deviation over 10 trials
    source: str = ""  # where it stands
    why: str = ""  # why ours differs, if it does and it is known
    best: bool = False  # ours is the largest mean of the settings that it speaks of
    single: bool = False  # one draw of something random, whose deviation is taken to be that of our trials
    predicted: bool = False  # it is our own theory's, not the paper's
    comparable: bool = True  # False: measured under other conditions, as times on another machine

    def speaks_of(self, setting: Setting) -> bool:
        """Return whether the number is about this setting; None in `where` stands for a missing key."""
        return agrees(setting, self.where)


@dataclass(frozen=True)
class Lines:
    """A panel with a line for each series."""

    x: str
    y: str
    series: tuple[str, ...]
    title: str = ""
    label: str = ""  # of the y axis
    log_x: bool = False
    log_y: bool = False
    percent: bool = True
    fit: bool = False  # the best a + b ln(x), solid, with the points dotted
    only: Setting | None = None  # leaves out the settings that differ from it
    marks: Mapping[str, Callable[[Setting], float]] | None = None  # upright lines, where settings have them


@dataclass(frozen=True)
class Heat:
    """A panel of colors, each row scaled to its largest value."""

    x: str
    y: str
    value: str
    title: str = ""
    only: Setting | None = None
    guides: Mapping[str, float] | None = None  # names of curves x = y^exponent to draw


@dataclass(frozen=True)
class TablePanel:
    """A table alone."""

    rows: tuple[str, ...]
    column: str
    value: str
    title: str = ""
    ratio: bool = False  # with a last row: the first one divided by the second
    only: Setting | None = None


@dataclass(frozen=True)
class Points:
    """A panel of one measured quantity against another, with the line on which the two are equal, if they may be.

    A setting may have many points, joined by a line: "probability 3" goes with "share right 3".
    """

    x: str
    y: str
    series: tuple[str, ...]
    title: str = ""
    band: float = 0.0  # shaded about the line
    pale: str = ""  # a quantity: where it is not 0, the point is drawn pale
    equal: bool = True  # False: x is something else, drawn on a logarithmic scale
    only: Setting | None = None


@dataclass(frozen=True)
class Gaps:
    """A panel of differences that ought to be nothing, a line for each setting, with bars of two standard errors."""

    value: str
    names: tuple[str, ...]  # the keys that tell settings apart
    title: str = ""
    label: str = ""  # of the x axis
    band: float = 0.0  # shaded about 0
    only: Setting | None = None


Panel = Lines | Heat | TablePanel | Points | Gaps


@dataclass(frozen=True)
class Experiment:
    """Table or figure: settings, the function that measures one trial, panels, and published numbers."""

    name: str
    title: str
    source: str  # what it is in the paper
    measure: Measure
    scales: Mapping[str, tuple[Trials, ...]]
    panels: tuple[Panel, ...]
    published: tuple[Published, ...] = ()
    unpublished: str = ""  # why there is no number to compare with
    notes: str = ""
    timed: bool = False  # measures time, so that nothing may run beside it


@dataclass(frozen=True)
class Trial:
    """One run of one setting."""

    setting: Setting
    number: int

    @property
    def key(self) -> str:
        """What tells trials apart; the order of a setting's keys does not count."""
        return json.dumps([self.setting, self.number], sort_keys=True)

    def seed(self, experiment: str) -> int:
        """By experiment, setting and number alone, never by the order of trials."""
        return int.from_bytes(hashlib.sha256(f"{experiment} {self.key}".encode()).digest()[:7], "big")


def planned(experiment: Experiment, scale: str) -> list[Trial]:
    """All trials of a scale, each once; of a setting that stands in several lists the larger count holds."""
    every = (
        Trial(setting, number)
        for part in experiment.scales[scale]
        for setting in part.settings
        for number in range(part.count)
    )
    return list({trial.key: trial for trial in every}.values())
