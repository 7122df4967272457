"""The heat map of appendix "Carving dimension": accuracy over d and k1; and whether sqrt(d) or d^(1/p) is best."""

from carving.lab.experiment import Experiment, Heat, Setting, grid, trials
from carving.lab.measures.retrieval import accuracy

WIDTHS = [2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48]


def squares(p: int, sides: list[int], load: int, widths: list[int], questions: int) -> list[Setting]:
    """Memories with one pair for so many cells, so that none is answered perfectly."""
    return [
        setting
        for d in sides
        for setting in grid(
            scheme="OSC", d=d, p=p, k1=[k for k in widths if k < d], N=d**p // load, questions=questions
        )
    ]


def panel(p: int, guides: dict[str, float]) -> Heat:
    """The map of one order."""
    return Heat("k1", "d", "retrieval", title=f"order {p}", only={"p": p}, guides=guides)


EXPERIMENT = Experiment(
    name="carving-dimension",
    title="accuracy over the side of the memory and the size of contexts",
    source="appendix, heat map of the carving dimension: k1 of the order of sqrt(d) is best",
    notes="N is not said in the paper; here N = d²/20 for p=2 and d³/25 for p=3, with as many fillers. The plateau is "
    "broad. The paper states the trade-off the wrong way round: interference from other contexts grows with k1, the "
    "spread of wrong candidates in the same context shrinks. At scale paper the best k1 is 1.0 to 1.5 sqrt(d) for both "
    "orders; sqrt(d) itself loses up to 2 % of it for p=2 and 7 % for p=3, d^(1/3) for p=3 from 23 to 59 %.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, squares(2, [20, 30], 12, [2, 4, 6, 10], 30), squares(3, [10], 12, [2, 3, 5], 30)),),
        "small": (
            trials(3, squares(2, [50, 100, 150], 20, WIDTHS[::2], 200)),
            trials(3, squares(3, [20, 30], 25, WIDTHS[:11:2], 200)),
        ),
        "paper": (
            trials(10, squares(2, list(range(50, 201, 10)), 20, WIDTHS, 500)),
            trials(10, squares(3, [20, 30, 40, 50], 25, WIDTHS[:13], 500)),
        ),
    },
    panels=(
        panel(2, {"square root of the side": 0.5}),
        panel(3, {"square root of the side": 0.5, "cube root of the side": 1 / 3}),
    ),
    unpublished="the paper prints the map only, without N; the table gives the best k1 of each d and its plateau.",
)
