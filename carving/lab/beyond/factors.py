"""Not in the paper: how often a resonator finds the factors of a bound vector, beside its published capacity.

Published is the operational capacity (Kent, Frady, Sommer and Olshausen 2020, Resonator Networks 2, Neural Computation
32(12); the numbers of their figure stand in operational_capacity.yaml of spencerkent/resonator-networks): the size m of
each of F codebooks of random signs at which 99 % of all products are factored within m^F / 1000 rounds; for large d,
m^F grows about as its square. So ours must be right in 99 % at exactly these sizes: within three standard errors of our
questions and half of the last digit. Of the sparse way the accuracies are those of IBM/in-memory-factorizer
(f3_optimum.csv: asymmetric codebooks, 256 signs, m^2 / 3 rounds, threshold and noise chosen anew for every size).
"""

from carving.lab.experiment import Experiment, Lines, Published, Setting, trials
from carving.lab.measures.factors import factors

KENT, IBM = "Kent et al. 2020, operational capacity", "IBM/in-memory-factorizer, f3_optimum.csv"
# fmt: off
#    way, factors, d, and the size of a codebook at which 99 % are found
CAPACITY = (
    ("linear", 2, 1000, 340), ("linear", 2, 2000, 828),
    ("linear", 3, 1500, 79), ("linear", 3, 1750, 104), ("linear", 3, 2000, 128), ("linear", 3, 2250, 150),
    ("linear", 4, 2000, 41), ("linear", 4, 2500, 49),
    ("least squares", 3, 1500, 99), ("least squares", 3, 1750, 122),
)
SPARSE = ((27, 0.998), (45, 0.994), (76, 0.993), (99, 0.999))  # m of three codebooks, and the share found
# fmt: on
SHARES = (0.8, 0.9, 1.0, 1.1, 1.2)  # of the published size
WHY_TWO = (
    "of two factors we find more: a product leaves the search when its factors are seen, also if they are not at rest"
)


def asked(way: str, count: int, d: int, m: int, questions: int, scheme: str = "MAP-I", share: float = 1.0) -> Setting:
    """A setting; rounds as published: m^F / 1000, in the sparse way m^(F-1) / F."""
    size = round(m * share)
    rounds = size ** (count - 1) // count if way == "sparse" else round(size**count / 1000)
    kind = f"{scheme}, {way}, {count} factors, d={d}"
    return {"kind": kind, "scheme": scheme, "way": way, "factors": count, "d": d, "m": size, "share": share,
            "rounds": max(10, rounds), "questions": questions}  # fmt: skip


def curve(questions: int, shares: tuple[float, ...] = SHARES) -> list[Setting]:
    """On both sides of the capacity."""
    return [asked(*line, questions, share=share) for line in (CAPACITY[0], CAPACITY[2]) for share in shares]


def ways(questions: int) -> list[Setting]:
    """The other ways and architectures at one size, and codes of segments far above it."""
    others = [asked("linear", 3, 1500, 79, questions, scheme) for scheme in ("BSC", "FHRR", "HRR", "CGR")]
    segments = [asked("sparse", 2, 1024, m, questions, "BSDC-SEG") for m in (215, 909, 2371)]
    segments += [asked("sparse", 3, 1024, m, questions, "BSDC-SEG") for m in (36, 68, 129)]
    return [asked("attention", 3, 1500, 79, questions), *others, *segments]


def paper(questions: int) -> list[Setting]:
    """Everything."""
    dense = [asked("sparse", 3, 256, m, questions) for m, _ in SPARSE]
    return [asked(*line, questions) for line in CAPACITY] + curve(questions) + dense + ways(questions)


EXPERIMENT = Experiment(
    name="factors",
    title="factors found by resonators, beside their published capacity",
    source="nothing: it has no resonators",
    notes="Vectors of random signs (MAP-I) where a number is published; d counts real numbers. Codes of segments "
    "(BSDC-SEG, d=1024: 32 segments of 32 places) are those of the block code factorizer of Hersche et al. 2024, which "
    "is tuned for products of 10^3 to 10^8 at this size; its accuracies stand in a figure alone, so none is shown.",
    measure=factors,
    scales={
        "smoke": (trials(1, [asked("linear", 3, 256, 10, 8), asked("sparse", 3, 256, 9, 8),
                             asked("sparse", 2, 256, 20, 8, "BSDC-SEG")]),),
        "small": (trials(2, [asked(*line, 50) for line in CAPACITY[2:4]], curve(50, (0.8, 1.2)), ways(20)),),
        "paper": (trials(3, paper(100)),),
    },
    panels=(
        Lines("share", "retrieval", ("kind",), "about the published capacity"),
        Lines("m", "retrieval", ("kind",), "in the sparse way", log_x=True, only={"way": "sparse"}),
    ),
    published=tuple(
        Published({"scheme": "MAP-I", "way": way, "factors": count, "d": d, "m": m}, "retrieval", 0.99, unit=0.01,
                  source=KENT, why=WHY_TWO if count == 2 else "")
        for way, count, d, m in CAPACITY
    ) + tuple(
        Published({"scheme": "MAP-I", "way": "sparse", "d": 256, "m": m}, "retrieval", share, unit=0.001, source=IBM)
        for m, share in SPARSE
    ),
)  # fmt: skip
