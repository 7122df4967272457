"""What is predicted of a memory beside what it does: asked one context at a time, and decoded together."""

import math

import torch
from torch import Generator, Tensor

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.retrieval import joint_accuracy
from carving.lab.measures.schemes import scheme_of, seed_within, used_evenly
from carving.planner.plan import predict

NEAR = 0.07  # of the pairs: so many more or fewer may move a memory over the threshold
JUMP = 0.25  # between the accuracies that are predicted for fewer and for more
ROWS = 250  # contexts that are scored at once


def predicted(setting: Setting, pairs: int, *, joint: bool = False, spread: float = 0.0) -> float:
    """The accuracy that is predicted for the setting's scheme with so many pairs."""
    size: Setting = {key: setting[key] for key in ("scheme", "d", "p", "k1", "compact") if key in setting}
    if setting["scheme"] == "OSC":
        size["basis"] = setting.get("basis", "gaussian")
    bits = setting.get("bits")
    return predict(pairs, setting["L"], setting.get("shared", 1), **size, joint=joint, spread=spread, bits=bits)


def single_prediction(setting: Setting, seed: int) -> Measured:
    """The share of contexts whose `shared` fillers all outrank the rest: predicted, and of `questions` real ones.

    >>> setting = {"scheme": "HLB", "d": 500, "N": 30, "L": 60, "shared": 1, "questions": 200}
    >>> measured = single_prediction(setting, seed=0)
    >>> abs(measured["predicted"] - measured["simulated"]) < 0.1
    True
    """
    expected, right, asked, repeat = predicted(setting, setting["N"]), 0, 0, 0
    while asked < setting["questions"]:
        answers = wholly_right(setting, seed_within(seed, repeat))
        right, asked, repeat = right + int(answers.sum()), asked + len(answers), repeat + 1
    simulated = right / asked
    return {"predicted": expected, "simulated": simulated, "error": expected - simulated, "questions": asked}


def wholly_right(setting: Setting, seed: int) -> Tensor:
    """For the contexts of one memory, up to `questions`: whether all their fillers outrank the rest."""
    shared, scheme, generator = setting["shared"], scheme_of(setting, seed), Generator().manual_seed(seed)
    stored = used_evenly(setting["N"] // shared, shared, setting["L"], generator)
    contexts, fillers = scheme.contexts([(i,) for i in range(len(stored))]), scheme.fillers(range(setting["L"]))
    memory = scheme.zeros()
    for column in stored.unbind(1):
        memory += scheme.trace(contexts, fillers[column])
    answers = []
    for rows in torch.arange(min(len(stored), setting["questions"])).split(ROWS):
        scores = scheme.score(memory, contexts[rows], fillers)
        lowest = scores.gather(1, stored[rows]).amin(1)
        answers.append(lowest > scores.scatter(1, stored[rows], -math.inf).amax(1))
    return torch.cat(answers)


def joint_prediction(setting: Setting, seed: int) -> Measured:
    """The share of right answers of a memory that is decoded together: by state evolution, and of a real one.

    With `bits`, the memory is quantized in so many a cell.

    `near` is 1 where a few pairs more or fewer are predicted to end on the other side of the threshold: there, finite
    memories end on either side.
    """
    pairs, spread = setting["N"], setting.get("spread", 0.0)
    expected, fewer, more = (
        predicted(setting, round(pairs * factor), joint=True, spread=spread) for factor in (1, 1 - NEAR, 1 + NEAR)
    )
    decoded = joint_accuracy(setting, seed)
    return {
        "predicted": expected,
        "decoded": decoded["retrieval"],
        "error": expected - decoded["retrieval"],
        "near": float(fewer - more > JUMP),
        "predicted alone": predicted(setting, pairs),
        "alone": decoded["alone"],
        "rounds": decoded["rounds"],
        "questions": pairs,
    }
