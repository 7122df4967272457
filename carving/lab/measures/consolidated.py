"""How many pairs a memory names one at a time, as a sum and consolidated, and whether its probabilities hold."""

import time

import torch
from torch import Generator

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.calibration import error
from carving.lab.measures.schemes import scheme_of, stored_fillers
from carving.memory import Memory
from carving.memory.capacity import collected

WHOLE = 32  # bits of a cell that is not rounded


def consolidated(setting: Setting, seed: int) -> Measured:
    """The share that is named by addition and solved (with `bits`, in so few), and what that took.

    >>> setting = {"scheme": "OSC", "compact": True, "d": 24, "p": 2, "k1": 4, "N": 60, "L": 60}
    >>> measured = consolidated(setting, seed=0)
    >>> measured["by addition"] < 0.7, measured["solved"]
    (True, 1.0)
    """
    values = stored_fillers(setting, Generator().manual_seed(seed))
    pairs = [(("there", i), value) for i, value in enumerate(values)]
    memory = Memory(scheme_of(setting, seed), range(setting["L"]))
    with collected():  # by addition, it is
        memory.store(pairs)
    start, seconds = time.process_time(), time.perf_counter()
    bits = setting.get("bits", WHOLE)
    outcome = memory.consolidate(pairs, bits=None if bits == WHOLE else bits)
    took = {"processor seconds": time.process_time() - start, "seconds": time.perf_counter() - seconds}
    # Those at odd places were not used for fitting, and no path of "nowhere" was.
    asked = pairs[1::2]
    replies = memory.recall_many([path for path, _ in asked] + [("nowhere", i) for i in range(len(asked))])
    right = [reply.found and reply.value == value for reply, (_, value) in zip(replies, asked, strict=False)]
    right += [not reply for reply in replies[len(asked) :]]
    said = torch.tensor([reply.probability for reply in replies], dtype=torch.float64)
    luck = torch.rand(len(said), generator=Generator().manual_seed(seed), dtype=torch.float64).less(said).double()
    return {
        "by addition": outcome.before / outcome.pairs,
        "solved": outcome.share,
        "passes": outcome.evaluations,
        "error": error(said, torch.tensor(right, dtype=torch.float64)),
        "perfect": error(said, luck),
        "told": sum(right) / len(right),
    } | took
