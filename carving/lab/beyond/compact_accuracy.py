"""Not in the paper: compact fillers against ordinary ones, pair by pair of trials, and accuracy never falls."""

from carving.lab.experiment import Experiment, Lines, Published, Setting, grid, trials
from carving.lab.measures.retrieval import compact_gain

#        d   p  pairs: about the loads at which ordinary fillers reach 90, 97 and 99.5 %
LOADS = ((60, 2, (60, 90, 130)), (100, 2, (210, 260, 330)), (150, 2, (500, 600, 720)),
         (20, 3, (180, 240, 330)), (34, 3, (900, 1100, 1400)), (45, 3, (2000, 2500, 3000)))  # fmt: skip


def settings(loads: tuple[tuple[int, int, tuple[int, ...]], ...], questions: int) -> list[Setting]:
    """A setting for every load."""
    return [
        setting for d, p, pairs in loads for setting in grid(scheme="OSC", d=d, p=p, N=list(pairs), questions=questions)
    ]


PAPER = settings(LOADS, 400)

EXPERIMENT = Experiment(
    name="compact-accuracy",
    title="compact against ordinary fillers",
    source="nothing: its fillers have d numbers a component",
    notes="gain = compact - ordinary, of trials with the same seed; both have signed contexts and k1 = sqrt(d). A "
    "gain of 0 is 'as good'. It is above 0 for p=3, because components with a basis each interfere less.",
    measure=compact_gain,
    scales={
        "smoke": (trials(2, settings(((20, 2, (20,)), (10, 3, (40,))), 20)),),
        "small": (trials(5, settings(tuple((d, p, pairs[:1]) for d, p, pairs in LOADS[::2]), 500)),),
        "paper": (trials(20, PAPER),),
    },
    panels=(Lines("N", "gain", ("p", "d"), title="compact fillers less ordinary ones", log_x=True),),
    published=tuple(
        Published({key: setting[key] for key in ("d", "p", "N")}, "gain", 0.0, source="as good as ordinary",
                  why="one basis a component: no excess of interference", predicted=True)
        for setting in PAPER if setting["p"] == 2
    ),
)  # fmt: skip
