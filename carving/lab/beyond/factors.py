"""Not in the paper: how often a resonator finds the factors of a bound vector, beside its published capacity.

Published is the operational capacity (Kent, Frady, Sommer and Olshausen 2020, Resonator Networks 2, Neural Computation
32(12); the numbers of their figure stand in operational_capacity.yaml of spencerkent/resonator-networks): the size m of
each of F codebooks of random signs at which 99 % of all products are factored within m^F / 1000 rounds; for large d,
m^F grows about as its square. So ours must be right in 99 % at exactly these sizes: within three standard errors of our
questions and half of the last digit. Of the sparse way the accuracies are those of IBM/in-memory-factorizer
(f3_optimum.csv: asymmetric codebooks, 256 signs, m^2 / 3 rounds, threshold and noise chosen anew for every size).
"""

from carving.lab.experiment import Experiment, Lines, Published, Setting, TablePanel, trials
from carving.lab.measures.factors import CAPACITY, LINEAR, SPARSE, asked, factors


def curve(questions: int, shares: tuple[float, ...] = (0.8, 0.9, 1.0, 1.1, 1.2)) -> list[Setting]:
    """On both sides of the capacity."""
    return [asked(*line, questions, share=share) for line in (CAPACITY[0], CAPACITY[2]) for share in shares]


def ways(questions: int) -> list[Setting]:
    """The other ways and architectures at one size, and codes of segments far above it."""
    others = [asked("linear", 3, 1500, 79, questions, scheme) for scheme in ("BSC", "FHRR", "HRR", "CGR")]
    sizes = *((2, m) for m in (215, 909, 2371)), *((3, m) for m in (36, 68, 129))
    segments = [asked("sparse", count, 1024, m, questions, "BSDC-SEG") for count, m in sizes]
    return [asked("attention", 3, 1500, 79, questions), *others, *segments]


def paper(questions: int) -> list[Setting]:
    """Everything."""
    dense = [asked("sparse", 3, 256, m, questions) for m, _ in SPARSE]
    return [asked(*line, questions) for line in CAPACITY] + curve(questions) + dense + ways(questions)


EXPERIMENT = Experiment(
    name="factors",
    title="factors found by resonators against their published capacity",
    source="nothing: it has no resonators",
    notes="Vectors of random signs (MAP-I) where a number is published; d counts real numbers. Codes of segments "
    "(BSDC-SEG, 32 segments of 32 places) are those of the block code factorizer of Hersche et al. 2024, tuned for "
    "products of 10^3 to 10^8 at this size; its accuracies stand in a figure alone, so none is shown.",
    measure=factors,
    scales={
        "smoke": (trials(1, [asked("linear", 3, 256, 10, 8), asked("sparse", 3, 256, 9, 8),
                             asked("sparse", 2, 256, 20, 8, "BSDC-SEG")]),),
        "small": (trials(2, [asked(*line, 50) for line in CAPACITY[2:4]], curve(50, (0.8, 1.2)), ways(20)),),
        "paper": (trials(3, paper(100)),),
    },
    panels=(
        *(Lines("share", "retrieval", ("factors",), title=f"{d:,} numbers",
                only=LINEAR | {"d": d}) for d in (1000, 1500)),
        Lines("m", "retrieval", ("scheme", "factors"), title="in the sparse way", log_x=True, only={"way": "sparse"}),
        TablePanel(
            ("scheme", "way", "factors"), "d", "retrieval", title="at the published capacity", only={"share": 1.0}
        ),
    ),
    published=tuple(
        Published({"scheme": "MAP-I", "way": way, "factors": count, "d": d, "m": m}, "retrieval", 0.99, unit=0.01,
                  source="Kent et al. 2020") for way, count, d, m in CAPACITY
    ) + tuple(
        Published({"scheme": "MAP-I", "way": "sparse", "m": m}, "retrieval", share, unit=0.001, source="IBM")
        for m, share in SPARSE
    ),
)  # fmt: skip
