"""Not in the paper: block contexts against Gaussian contexts, in all that memories are asked for."""

from carving.lab.beyond import calibration, capacity_prediction
from carving.lab.experiment import Experiment, Gaps, Lines, Points, Published, Setting, TablePanel, grid, trials
from carving.lab.measures.bases import BASES, bases, gain, joint, theory

# fmt: off
ZIPF, COMPACT = Setting(L=50, fillers="zipf"), Setting(compact=True)
#    d, p, k1, pairs, and what else is said: k1 from 3 to 2 sqrt(d), which divides d or does not
GAINS: tuple[tuple[int, int, int, int, Setting], ...] = (
    (120, 2, 3, 100, {"L": 300}), (96, 2, 10, 400, {}), (96, 2, 12, 400, {}), (100, 2, 20, 500, {}),
    (90, 2, 9, 350, {"depth": 48}), (96, 2, 10, 400, COMPACT), (96, 2, 10, 500, ZIPF),
    (96, 2, 10, 600, ZIPF | COMPACT), (96, 2, 14, 160, {"L": 160, "shared": 4}), (32, 3, 6, 1000, {}),
    (32, 3, 6, 1100, COMPACT), (25, 3, 10, 500, {}))
JOINT = ((2, 1000, False, (80, 82, 84, 90)), (2, 1000, True, (78, 80, 82, 84, 90)),  # p, pairs, compact, sides
         (3, 2000, False, (23, 24, 25, 26, 29)), (3, 2000, True, (24, 25, 26, 29)))
NOISE = [*grid(d=24, p=2, N=100, k1=[2, 3, 4, 5, 7, 9, 11], basis=list(BASES)),
         *grid(d=24, p=2, N=100, k1=[2, 5, 9], basis="blocks", compact=True)]
SIZES = [dict(zip(("d", "p", "k1", "N", "L", "shared"), row, strict=True)) for row in capacity_prediction.OSC]


def kinds(questions: int, scale: float, repeats: int, asked: int) -> dict[str, list[Setting]]:
    """All settings of each kind: with so many questions, times the pairs, memories, answers."""
    said = [setting for setting in calibration.settings(asked) if setting["load"] == 3]
    return {
        "gain": [gain(row, questions) for row in GAINS],
        "joint": [setting for row in JOINT for setting in joint(row, scale)],
        "noise": [row | {"repeats": repeats} for row in NOISE],
        "prediction": [row | {"basis": "blocks", "questions": min(questions, 1000)} for row in SIZES],
        "calibration": [row | {"basis": basis} for row in said for basis in BASES],
    }


def settings(all_of: dict[str, list[Setting]], *steps: int) -> list[list[Setting]]:
    """One in so many of each kind."""
    return [[{"asks": asks, "scheme": "OSC", "signed": True} | row for row in rows[::step]]
            for (asks, rows), step in zip(all_of.items(), steps, strict=True)]


PAPER = settings(kinds(6000, 1, 80, 50_000), 1, 1, 1, 3, 1)
EXPERIMENT = Experiment(
    "basis", "block contexts against Gaussian contexts", "nothing: its subspaces are those of normals", measure=bases,
    scales={"smoke": tuple(trials(1, rows) for rows in settings(kinds(100, 0.1, 2, 400), 6, 9, 9, 40, 7)),
     "small": tuple(map(trials, (6, 2, 6, 1, 1), settings(kinds(400, 0.3, 10, 4_000), 1, 1, 3, 8, 3))),
     "paper": tuple(map(trials, (10, 3, 10, 10, 3), PAPER))},
    panels=(Gaps("gain", ("d", "p", "k1", "N", "compact", "fillers", "shared", "depth"),
          "blocks less normals", band=0.005),
     *(Lines("d", "retrieval", ("basis", "compact"), title=f"joint decoding, order {p}", only={"asks": "joint", "p": p})
       for p in (2, 3)),
     Lines("k1", "relative", ("basis", "compact"), title="noise in 24 x 24 numbers", percent=False),
     Points("predicted", "simulated", ("p",), title="predicted for blocks", band=0.02),
     Points("probability", "share right", ("d", "p", "fillers"), title="probabilities with blocks",
            only={"basis": "blocks"}),
     *(TablePanel(("p", "compact", "basis"), "d", quantity, title=quantity, only={"asks": "joint"})
       for quantity in ("rounds", "alone")),
     *(TablePanel(("d", "p", "fillers"), "basis", quantity, title=quantity, only={"asks": "calibration"})
       for quantity in ("error", "perfect", "right"))),
    published=(
     *(Published({"compact": None} | {key: row[key] for key in ("d", "p", "k1", "N", "compact") if key in row},
                 "gain", 0.0, source="as good as gaussian", predicted=True) for row in PAPER[0]),
     *(Published({"compact": None} | row, "relative", theory(row), source="exact", predicted=True) for row in NOISE)),
    notes="gain = blocks - gaussian, of trials with the same seed and fillers; the band is half a point.",
)
