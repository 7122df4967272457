"""Contexts of blocks beside those of normals: each question is asked of memories of both, with the same fillers."""

import statistics

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.calibration import calibration
from carving.lab.measures.noise import interference
from carving.lab.measures.predictions import single_prediction, wholly_right
from carving.lab.measures.retrieval import accuracy, joint_accuracy
from carving.lab.measures.schemes import seed_within
from carving.schemes.moments import interference as interference_of

BASES = ("gaussian", "blocks")


def bases(setting: Setting, seed: int) -> Measured:
    """What the setting's `asks` names.

    >>> measured = bases({"asks": "gain", "scheme": "OSC", "d": 40, "p": 2, "N": 20, "repeats": 2}, seed=0)
    >>> measured["gaussian"], measured["blocks"], measured["gain"]
    (1.0, 1.0, 0.0)
    """
    measures = {
        "gain": basis_gain,
        "joint": joint_accuracy,
        "noise": interference,
        "prediction": single_prediction,
        "calibration": calibration,
    }
    return measures[setting["asks"]](setting, seed)


def basis_gain(setting: Setting, seed: int) -> Measured:
    """The share of right answers of `repeats` memories with either basis, from the same seeds."""
    gaussian, blocks = (
        statistics.fmean(right(setting | {"basis": basis}, seed_within(seed, i)) for i in range(setting["repeats"]))
        for basis in BASES
    )
    return {"gaussian": gaussian, "blocks": blocks, "gain": blocks - gaussian}


def right(setting: Setting, seed: int) -> float:
    """The share of contexts that are answered right: wholly, where several fillers share them."""
    if "shared" in setting:
        return wholly_right(setting, seed).double().mean().item()
    return accuracy(setting, seed)["retrieval"]


def theory(setting: Setting) -> float:
    """The variance of a stored filler's score in units of (N-1)/d^p, exact for p = 2.

    >>> round(theory({"d": 24, "p": 2, "k1": 2, "N": 100, "basis": "blocks"}), 2)
    1.44
    """
    d, p, pairs, compact = setting["d"], setting["p"], setting["N"], setting.get("compact", False)
    return interference_of(d, p, setting["k1"], pairs, compact=compact, basis=setting["basis"]) / (pairs - 1) * d**p


def gain(row: tuple[int, int, int, int, Setting], questions: int) -> Setting:
    """The setting of a row (d, p, k1, pairs, and what else is said), with memories for so many questions."""
    d, p, k1, pairs, more = row
    repeats = -(-questions * more.get("shared", 1) // pairs)
    return {"d": d, "p": p, "k1": k1, "N": pairs, "questions": pairs, "repeats": repeats} | more


def joint(row: tuple[int, int, bool, tuple[int, ...]], scale: float) -> list[Setting]:
    """The settings of a row (p, pairs, compact, sides), with so many times the pairs and either basis."""
    p, pairs, compact, sides = row
    return [
        {"d": round(d * scale ** (1 / p)), "p": p, "N": round(pairs * scale), "compact": compact, "basis": basis}
        | {"cells a pair": round(d**p / pairs, 1)}
        for d in sides
        for basis in BASES
    ]
