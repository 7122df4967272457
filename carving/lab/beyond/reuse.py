"""Not in the paper: fillers that are stored many times, which real data always has."""

from carving.lab.experiment import Experiment, Lines, Setting, grid, trials
from carving.lab.measures.retrieval import accuracy

LINEAR = ["HRR", "FHRR", "MAP-I", "VTB", "MBAT", "HLB", "GHRR"]


def schemes(side: int, vsas: list[str], p: int = 2, **axes: object) -> list[Setting]:
    """OSC as published, with signed contexts, with compact fillers, and VSAs with as many numbers in the memory."""
    drawn = {"fillers": ["uniform", "zipf"], **axes}
    osc = {"scheme": "OSC", "d": side, "p": p, "signed": True} | drawn
    published = grid(**osc | {"signed": False})
    return published + grid(**osc) + grid(**osc, compact=True) + grid(scheme=vsas, d=side**p, **drawn)


def panel(how: str) -> Lines:
    """One way of drawing fillers."""
    return Lines(
        "L",
        "retrieval",
        ("scheme", "d", "signed", "compact"),
        title={"uniform": "uniform values", "zipf": "values by Zipf’s law"}[how],
        log_x=True,
        only={"fillers": how},
    )


EXPERIMENT = Experiment(
    name="reuse",
    title="accuracy when fillers repeat",
    source="nothing: its experiments store every filler once",
    notes="A filler that is carved in two contexts keeps a cosine of about k1/d in each component, so that copies add "
    "up to a bias in every context (signed=False, the paper). A random sign for each context (signed=True) turns the "
    "bias into noise. Compact fillers have a basis for each component besides.",
    measure=accuracy,
    scales={
        "smoke": (trials(2, schemes(20, ["HLB"], N=40, L=[5, 20], questions=40)),),
        "small": (trials(3, schemes(100, LINEAR, N=300, L=[20, 100, 1000], questions=200)),),
        "paper": (
            trials(10, schemes(200, LINEAR, N=1000, L=[20, 100, 300, 1000], questions=1000)),
            trials(5, schemes(80, [], p=3, N=10_000, L=[100, 1000], questions=1000)),
        ),
    },
    panels=(panel("uniform"), panel("zipf")),
    unpublished="the paper does not store a filler twice.",
)
