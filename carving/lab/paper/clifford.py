"""Section 4.7 and appendix C: what TPR and OSC are in Clifford algebra, and what that saves."""

from carving.lab.experiment import Experiment, Lines, TablePanel, trials
from carving.lab.measures.algebra import algebra, bundles, filled, peers, recovered, stored, theory

BUNDLES = bundles(24, 12, [1, 3, 10, 30, 66])
FILLED, TPRS = filled("CliffordTPR", (8, 1), (16, 2), (32, 3)), filled("TPR", (8, 1), (16, 2))
# p, and the d of OSC and of CliffordOSC with about as many cells
SIZES = [(2, 8, 12), (2, 17, 24), (2, 45, 64), (2, 64, 91), (3, 10, 19), (3, 20, 37)]
NOISE, FEWER = (peers("noise", SIZES, N=100, repeats=repeats) for repeats in (100, 40))
PAIRS = peers("retrieval", [(2, 64, 91)], N=[100, 200, 400]) + peers("retrieval", [(3, 20, 37)], N=[200, 400, 800])

EXPERIMENT = Experiment(
    name="clifford",
    title="TPR and OSC in Clifford algebra",
    source="section 4.7 and appendix C: exact recovery, d^(|C|+1) numbers compressed to binom(d, |C|+1), OSC as blades",
    notes="Verdict: recovery is exact in both settings, of which one is a rotation of the other. Fillers that are "
    "orthogonal to their own roles only, which is what carving provides, come back mixed with the other "
    "pairs. TPR is not compressed without loss: binom(n, r+1) numbers hold max over R of binom(R, r)(n-R) "
    "numbers of fillers, about half of them, under sets of roles; TPR holds as many as it has, under "
    "sequences. At equal cells blades have OSC's noise, 1/cells, without the excess of components that share "
    "contexts (13 % at p=3, d=20): as accurate as OSC for p=2, more so for p=3 at small d. But their fillers "
    "are (p!)^(1/p) times as long, 1.4 for p=2 and 1.8 for p=3; at equal d they have p! times fewer cells, "
    "and as much more noise. An analogue of OSC with fewer coordinates, not the same memory.",
    measure=algebra,
    scales={
        "smoke": (trials(2, bundles(9, 5, [1, 10]), FILLED[:2], peers("noise", SIZES[:1], N=10, repeats=2)),),
        "small": (trials(3, BUNDLES, FILLED, TPRS), trials(5, FEWER, PAIRS)),
        "paper": (trials(10, BUNDLES, NOISE, PAIRS), trials(3, FILLED, TPRS), trials(1, filled("TPR", (32, 3)))),
    },
    panels=(
        Lines(
            "N",
            "error",
            ("fillers",),
            title="what comes back, by where fillers lie",
            label="relative error",
            log_x=False,
            log_y=True,
            percent=False,
        ),
        Lines(
            "cells",
            "noise",
            ("scheme", "p"),
            title="noise of one pair",
            label="variance of a score",
            log_x=True,
            log_y=True,
            percent=False,
        ),
        Lines("N", "retrieval", ("scheme", "p"), title="4,096 numbers against 4,095", only={"p": 2}),
        Lines("N", "retrieval", ("scheme", "p"), title="8,000 numbers against 7,770", only={"p": 3}),
        TablePanel(("scheme",), "n", "fillers", title="numbers of fillers that come back exactly, at depth 1, 2, 3"),
        TablePanel(("scheme",), "n", "share", title="the same for each number of the memory"),
    ),
    published=(*recovered(BUNDLES), *stored(FILLED), *theory(NOISE)),
)
