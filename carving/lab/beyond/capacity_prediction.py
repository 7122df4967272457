"""Not in the paper: predicted accuracy beside that of real memories, over settings of OSC, HLB and TPR."""

from carving.lab.experiment import Experiment, Points, Setting, trials
from carving.lab.measures.predictions import single_prediction

# For p = 2, 3, 4 and three sides each: k1 of 3, sqrt(d) and d/3, vocabularies and shared contexts in turn, and as many
# pairs as bring the predicted accuracy to 55 ... 99 % in turn, but 48 pairs and 24 contexts at least.
# fmt: off
#    d, p, k1, pairs, vocabulary, shared
OSC = (
    (32, 2, 3, 48, 1000, 1), (32, 2, 3, 48, 60, 1), (32, 2, 3, 48, 300, 1), (32, 2, 6, 92, 100, 1),
    (32, 2, 6, 48, 200, 2), (32, 2, 6, 48, 600, 2), (32, 2, 6, 48, 1000, 2), (32, 2, 10, 55, 200, 1),
    (32, 2, 10, 48, 4000, 1), (32, 2, 10, 48, 2000, 2), (64, 2, 3, 113, 300, 1), (64, 2, 3, 119, 600, 1),
    (64, 2, 3, 79, 60, 1), (64, 2, 8, 316, 1000, 1), (64, 2, 8, 174, 100, 1), (64, 2, 8, 101, 1000, 1),
    (64, 2, 8, 72, 1000, 3), (64, 2, 21, 299, 200, 1), (64, 2, 21, 196, 200, 2), (64, 2, 21, 226, 2000, 2),
    (120, 2, 3, 97, 300, 1), (120, 2, 3, 48, 4000, 1), (120, 2, 3, 48, 600, 1), (120, 2, 11, 787, 1000, 1),
    (120, 2, 11, 963, 60, 1), (120, 2, 11, 1936, 100, 1), (120, 2, 11, 272, 200, 2), (120, 2, 40, 346, 2000, 2),
    (120, 2, 40, 342, 200, 2), (120, 2, 40, 606, 1000, 3), (14, 3, 3, 53, 200, 1), (14, 3, 3, 48, 4000, 1),
    (14, 3, 3, 79, 600, 1), (14, 3, 4, 73, 1000, 1), (14, 3, 4, 86, 4000, 1), (14, 3, 4, 243, 60, 1),
    (14, 3, 4, 118, 300, 2), (24, 3, 3, 153, 1000, 1), (24, 3, 3, 376, 200, 1), (24, 3, 3, 211, 100, 1),
    (24, 3, 5, 641, 60, 1), (24, 3, 5, 623, 4000, 1), (24, 3, 5, 1345, 200, 1), (24, 3, 5, 320, 2000, 2),
    (24, 3, 8, 441, 60, 1), (24, 3, 8, 185, 300, 5), (24, 3, 8, 240, 600, 10), (40, 3, 3, 1050, 1000, 1),
    (40, 3, 3, 2673, 100, 1), (40, 3, 3, 2350, 1000, 1), (40, 3, 6, 1910, 200, 1), (40, 3, 6, 1284, 2000, 2),
    (40, 3, 6, 3524, 200, 2), (40, 3, 6, 1200, 1000, 3), (40, 3, 13, 1943, 4000, 1), (40, 3, 13, 2010, 300, 5),
    (40, 3, 13, 1510, 600, 10), (9, 4, 3, 575, 60, 1), (9, 4, 3, 189, 100, 1), (9, 4, 3, 238, 1000, 1),
    (9, 4, 3, 328, 200, 1), (12, 4, 3, 80, 2000, 2), (12, 4, 3, 126, 200, 2), (12, 4, 3, 72, 1000, 3),
    (12, 4, 3, 120, 300, 5), (12, 4, 4, 1058, 200, 1), (12, 4, 4, 1008, 4000, 1), (12, 4, 4, 240, 600, 10),
    (16, 4, 3, 897, 1000, 1), (16, 4, 3, 1068, 60, 1), (16, 4, 3, 120, 300, 5), (16, 4, 4, 5814, 100, 1),
    (16, 4, 4, 2721, 100, 1), (16, 4, 4, 3468, 200, 2), (16, 4, 4, 1287, 1000, 3), (16, 4, 5, 2351, 200, 1),
    (16, 4, 5, 1397, 4000, 1), (16, 4, 5, 2488, 2000, 2),
)
#    d, pairs, vocabulary, shared
HLB = ((1_000, 60, 60, 1), (1_000, 100, 200, 5), (2_000, 120, 1_000, 3), (4_000, 170, 1_000, 10))
TPR = ((100, 300, 1_000, 1), (100, 300, 100, 1), (120, 300, 1_000, 3), (150, 500, 200, 5), (300, 2_000, 2_000, 2))
SETTINGS: list[Setting] = [
    *({"scheme": "OSC", "signed": True, "d": d, "p": p, "k1": k1, "N": pairs, "L": vocabulary, "shared": shared}
      for d, p, k1, pairs, vocabulary, shared in OSC),
    *({"scheme": name, "d": d, "N": pairs, "L": vocabulary, "shared": shared}
      for name, table in (("HLB", HLB), ("TPR", TPR)) for d, pairs, vocabulary, shared in table),
]
EXPERIMENT = Experiment(
    "capacity-prediction", "predicted accuracy beside real memories", "nothing: it predicts no accuracy",
    measure=single_prediction,
    scales={
        scale: (trials(count, [setting | {"questions": questions} for setting in SETTINGS[::step]]),)
        for scale, count, questions, step in (("smoke", 1, 100, 20), ("small", 1, 1000, 3), ("paper", 10, 1667, 1))
    },
    panels=(Points("predicted", "simulated", ("scheme", "p"), title="contexts wholly right", band=0.02),),
    unpublished="the paper predicts no accuracy; ours stands beside each simulation.",
    notes="The band is two points wide on either side. Every filler is stored as often as any other, `shared` of them "
    "in a context, which is right when all of them outrank the rest.",
)
# fmt: on
