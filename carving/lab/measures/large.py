"""Memories whose codebook would not fit: fillers are made from labels, in chunks, and never held."""

import sys
import time

import torch

from carving.inference.top_k import top
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of
from carving.planner.families import vsa_accuracy

STORED = 100  # pairs at a time


def large_accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval beside the closed form, seconds, and the largest resident memory of the process in GiB."""
    pairs, questions, start = setting["N"], setting["questions"], time.perf_counter()
    scheme = scheme_of(setting, seed)
    memory = scheme.zeros()
    for numbers in torch.arange(pairs).split(STORED):
        memory += scheme.trace([(i,) for i in numbers.tolist()], numbers.tolist())
    stored = time.perf_counter()
    best = top(scheme, memory, [(i,) for i in range(questions)], range(pairs)).indices[:, 0]
    return {
        "retrieval": best.eq(torch.arange(questions)).double().mean().item(),
        "predicted": vsa_accuracy(setting["d"], pairs, pairs),
        "questions": questions,
        "storing seconds": stored - start,
        "asking seconds": time.perf_counter() - stored,
        "GiB": largest_resident(),
    }


def largest_resident() -> float:
    """The most memory that this process ever had, in GiB."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
