"""Theorem 4.x and appendix B: the score of a stored filler has mean 1 and variance (N-1)/d^p, or nearly so.

The components of a pair share their two contexts, so their cosines are not independent: the variance is larger by
2(d-k1)²/(k1²(d-1)(d+2)) for p = 2, exactly; and pairs that share a context add (n-1)/k1^p.
"""

from carving.lab.experiment import Experiment, Lines, Published, grid, trials
from carving.lab.measures.noise import interference
from carving.schemes.moments import interference as exact_variance

ALONE = [
    *grid(scheme="OSC", d=20, p=2, k1=[1, 2, 4, 10], N=100),
    *grid(scheme="OSC", d=20, p=[1, 3], k1=4, N=100),
    *grid(scheme="OSC", d=64, p=2, k1=8, N=100),
    *[setting for d, k1 in ((30, 5), (100, 10), (200, 14)) for setting in grid(scheme="OSC", d=d, p=2, k1=k1, N=100)],
]
ALONE = [setting | {"shared": 1} for setting in ALONE]
SHARED = grid(scheme="OSC", d=200, p=2, k1=14, N=1000, shared=[1, 10, 100, 500])


def repeated(repeats: int, settings: list[dict[str, object]]) -> list[dict[str, object]]:
    """The settings with so many memories in each trial."""
    return [setting | {"repeats": repeats} for setting in settings]


def numbers(setting: dict[str, object]) -> dict[str, int]:
    """The setting without the scheme's name."""
    return {key: value for key, value in setting.items() if isinstance(value, int)}


def theorem(where: dict[str, object], d: int, p: int, N: int, k1: int, shared: int) -> list[Published]:
    """The paper's variance, and the one with the correction, which is exact for p=2 (and p=1)."""
    why = "the components share their contexts" if shared == 1 else "the theorem's contexts are all different"
    exact = exact_variance(d, p, k1, N, shared) / ((N - 1) / d**p)
    return [
        Published(where, "relative", 1.0, source="theorem", why=why),
        Published(where, "relative", exact, source="our theory", why="exact for p=2 only", predicted=True),
        Published(where, "mean", 1.0, source="theorem"),
    ]


EXPERIMENT = Experiment(
    name="interference",
    title="mean and variance of a stored filler's score",
    source="theorem 4.x (interference) and appendix B: mean 1, variance (N-1)/d^p for unique contexts",
    notes="`relative` is the variance in units of (N-1)/d^p; for p=1, a single component, the theorem is exact.",
    measure=interference,
    scales={
        "smoke": (trials(3, repeated(20, ALONE[:3])),),
        "small": (trials(10, repeated(50, ALONE)), trials(5, repeated(4, SHARED))),
        "paper": (trials(20, repeated(400, ALONE)), trials(10, repeated(20, SHARED))),
    },
    panels=(
        Lines(
            "k1",
            "relative",
            ("d", "p"),
            title="100 pairs in contexts of different sizes",
            percent=False,
            only={"d": 20},
        ),
        Lines(
            "shared",
            "variance",
            ("d",),
            title="1,000 shared paths",
            label="",
            log_x=True,
            log_y=True,
            percent=False,
            only={"N": 1000},
        ),
    ),
    published=tuple(number for setting in [*ALONE, *SHARED] for number in theorem(setting, **numbers(setting))),
)
