"""Whether probabilities mean what they say: answers in bins by their probability, and the share of them that is right.

Half of the questions ask for what was never stored. A perfect model of the same size, whose answers are right with
exactly the probability it says, has a calibration error too: it stands beside.
"""

import torch
from torch import Generator, Tensor

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of, seed_within, stored_fillers
from carving.memory import Memory
from carving.memory.capacity import collected

BINS = 15
LEAST = 50  # answers of a bin that is worth a point of the curve
ASKED = 2000  # pairs of a memory that are asked for at most


def calibration(setting: Setting, seed: int) -> Measured:
    """The expected calibration error of `asked` answers, that of a perfect model, and for each bin what was said.

    >>> setting = {"scheme": "OSC", "signed": True, "d": 60, "p": 2, "N": 40, "L": 100, "fillers": "even", "asked": 80}
    >>> measured = calibration(setting, seed=0)
    >>> measured["right"], measured["error"] < 0.05
    (1.0, True)
    """
    parts: list[tuple[Tensor, Tensor]] = []
    asked = 0
    while asked < setting["asked"]:
        parts.append(answers(setting, seed_within(seed, len(parts))))
        asked += len(parts[-1][0])
    said, right = (torch.cat(column) for column in zip(*parts, strict=True))
    return {"asked": asked} | summed_up(said, right, seed)


def summed_up(said: Tensor, right: Tensor, seed: int) -> Measured:
    """The calibration error of probabilities, that of a perfect model which says the same, and for each bin both."""
    luck = Generator().manual_seed(seed)
    perfect = torch.rand(len(said), generator=luck, dtype=torch.float64).less(said).double()
    curve: Measured = {}
    for number, mean, share, count in bins(said, right):
        if count >= LEAST:
            curve |= {f"probability {number}": mean, f"share right {number}": share}
    return {"right": right.mean().item(), "error": error(said, right), "perfect": error(said, perfect)} | curve


def answers(setting: Setting, seed: int) -> tuple[Tensor, Tensor]:
    """The probabilities of a memory's answers, and whether they were right; half of the paths were never stored."""
    values = stored_fillers(setting, Generator().manual_seed(seed))
    memory = Memory(scheme_of(setting, seed), range(setting["L"]))
    with collected():  # a memory that is sure of everything has no calibration
        memory.store([(("there", i), value) for i, value in enumerate(values)])
    count = min(len(values), ASKED)
    replies = memory.recall_many([(where, i) for where in ("there", "nowhere") for i in range(count)])
    right = [reply.found and reply.value == value for reply, value in zip(replies[:count], values, strict=False)]
    right += [not reply for reply in replies[count:]]
    said = [reply.probability for reply in replies]
    return torch.tensor(said, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)


def bins(said: Tensor, right: Tensor) -> list[tuple[int, float, float, int]]:
    """For every bin that is used: its number, the mean probability, the share that is right, how many."""
    owner = (said * BINS).long().clamp_max(BINS - 1)
    used = [(number, owner == number) for number in owner.unique().tolist()]
    return [(number, float(said[own].mean()), float(right[own].mean()), int(own.sum())) for number, own in used]


def error(said: Tensor, right: Tensor) -> float:
    """The expected calibration error: the mean distance between probability and truth, over the bins."""
    return sum(abs(mean - share) * count for _, mean, share, count in bins(said, right)) / len(said)
