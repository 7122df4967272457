"""Not in the paper: state evolution with the quantizer beside joint decoding of quantized memories."""

from carving.lab.experiment import Experiment, Points, Setting, trials
from carving.lab.measures.predictions import joint_prediction

# fmt: off
#        d below and above the predicted threshold, bits, spread
COMPACT = ((59, 77, 1, 0), (44, 58, 2, 0), (39, 51, 2, 0.6), (31, 41, 3, 0.9), (41, 54, 4, 0))  # p=2, k1=8, 400 of 400
FEWER = ((44, 58, 1, 0), (33, 44, 2, 0), (30, 39, 2, 0.6), (24, 31, 3, 0.9), (30, 39, 4, 0))  # p=2, k1=6, 300 of 100
CUBES = ((16, 19, 1, 0), (13, 16, 2, 0), (12, 15, 2, 0.6), (11, 13, 3, 0.9), (12, 15, 4, 0))  # p=3, k1=5, 400 of 1,000
ORDINARY = ((59, 77, 1, 0), (45, 59, 2, 0), (40, 53, 2, 0.6), (32, 42, 3, 0.9), (41, 54, 4, 0))  # p=2, k1=8, 400 of 400
HLB = ((2380, 4131, 1), (1415, 2456, 2), (1176, 2042, 4))  # 300 of 300
# fmt: on


def osc(table: tuple[tuple[float, ...], ...], compact: bool, **sizes: int) -> list[Setting]:
    """OSC on both sides of its thresholds."""
    settings = list[Setting]()
    for *sides, bits, spread in table:
        loud = {"spread": spread} if spread else {}
        common = {
            "scheme": "OSC",
            "signed": True,
            "compact": compact,
            "basis": "blocks",
            "bits": bits,
            "fillers": "even",
        }
        settings += [common | sizes | {"d": int(d)} | loud for d in sides]
    return settings


SETTINGS = [
    *osc(COMPACT, True, p=2, k1=8, N=400, L=400),
    *osc(FEWER, True, p=2, k1=6, N=300, L=100),
    *osc(CUBES, True, p=3, k1=5, N=400, L=1000),
    *osc(ORDINARY, False, p=2, k1=8, N=400, L=400),
    *({"scheme": "HLB", "d": d, "bits": bits, "N": 300, "L": 300, "fillers": "even"}
      for *sides, bits in HLB for d in sides),
]  # fmt: skip
EXPERIMENT = Experiment(
    name="quantized-prediction",
    title="state evolution with a quantizer against simulated joint decoding",
    source="nothing: it has 32 bits a cell",
    notes="The band is two points wide on either side. Pale: near the threshold, where 7 % more or fewer pairs would "
    "be predicted to end on the other side of it.",
    measure=joint_prediction,
    scales={
        "smoke": (trials(1, SETTINGS[10:12]),),
        "small": (trials(1, SETTINGS),),
        "paper": (trials(8, SETTINGS),),
    },
    panels=(Points("predicted", "decoded", ("scheme", "compact"), title="answers right", band=0.02, pale="near"),),
    unpublished="the paper does not decode together.",
)
