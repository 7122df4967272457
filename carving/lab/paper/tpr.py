"""Table "TPR": the minimum dimension for 99 %, TPR against OSC with p = 3, and the parameters that it takes.

The trial is a whole search; the dimension it finds is that of the mean over `repeats` memories, as in the paper.
"""

from carving.lab.experiment import Experiment, Lines, Published, Setting, TablePanel, grid, trials
from carving.lab.measures.dimensions import minimum_dimension

BOTH: tuple[Setting, Setting] = ({"scheme": "TPR"}, {"scheme": "OSC", "p": 3})
UP: Setting = {"scheme": "OSC", "p": 3, "up": True}
SOURCE = "table TPR"
#        N   d   parameters, and what their last digit is worth
TPR = ((50, 44, 4e3, 1e3), (100, 61, 10e3, 1e3), (500, 137, 87e3, 1e3), (1_000, 197, 236e3, 1e3),
       (5_000, 451, 2.5e6, 1e5), (10_000, 649, 6.9e6, 1e5))  # fmt: skip
OSC = ((50, 13, 4e3, 1e3), (100, 16, 9e3, 1e3), (500, 27, 60e3, 1e3), (1_000, 34, 141e3, 1e3),
       (5_000, 59, 1.1e6, 1e5), (10_000, 76, 2.7e6, 1e5))  # fmt: skip


def searches(sizes: list[int], repeats: int, questions: int, schemes: tuple[Setting, ...] = BOTH) -> list[Setting]:
    """The schemes (TPR and OSC, where nothing is said) at these N."""
    return [scheme | size for scheme in schemes for size in grid(N=sizes, repeats=repeats, questions=questions)]


def rows(scheme: Setting, table: tuple[tuple[int, int, float, float], ...]) -> list[Published]:
    """The table's columns of one scheme."""
    published = []
    for n, d, numbers, unit in table:
        where = scheme | {"N": n, "up": scheme.get("up")}
        published.append(Published(where, "d", d, unit=1, source=SOURCE, single=True))
        published.append(
            Published(
                where, "numbers", numbers, unit=unit, spread=0, source=SOURCE, why="it follows from d", comparable=False
            )
        )
    return published


EXPERIMENT = Experiment(
    name="tpr",
    title="the smallest memory for 99 %, TPR against OSC of order 3",
    source="table TPR: the smallest d whose accuracy exceeds 99 % in the mean of 10 trials, vocabulary = N, depth 1",
    notes="Roles and fillers of TPR are unit vectors; k1 = round(sqrt(d)). The paper's d is one search, taken to be as "
    "random as one of ours. Numbers in all are d² + N d and d³ + 3 d N. The paper does not tell how it rounds sqrt(d). "
    "With `up` it is rounded up, which matters where d is 27 (k1 is 6, not 5): all of its dimensions are met within 1.",
    measure=minimum_dimension,
    scales={
        "smoke": (trials(2, searches([20], 3, 20)),),
        "small": (trials(5, searches([50, 100], 20, 100)), trials(3, searches([500, 1000], 5, 400))),
        "paper": (
            trials(10, searches([50, 100], 100, 100), searches([500, 1000], 10, 1000)),
            trials(10, searches([50, 100], 100, 100, (UP,)), searches([500, 1000], 10, 1000, (UP,))),
            trials(3, searches([5000, 10000], 10, 1000)),
        ),
    },
    panels=(
        Lines(
            "N",
            "cells",
            ("scheme", "p", "up"),
            title="the memory alone, for 99 %",
            percent=False,
            log_x=True,
            log_y=True,
        ),
        Lines(
            "N", "numbers", ("scheme", "p", "up"), title="memory and codebook", percent=False, log_x=True, log_y=True
        ),
        TablePanel(
            ("scheme", "p", "up"),
            "N",
            "numbers",
            title="numbers in all, and how many times as many TPR takes",
            ratio=True,
        ),
    ),
    published=(*rows(BOTH[0], TPR), *rows(BOTH[1], OSC), *rows(UP, OSC[:4])),
)
