"""What quantized memories answer, and how many bits a pair they take for it."""

import torch
from torch import Generator

from carving.inference.amp import decode
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of, stored_fillers, vocabulary_of
from carving.quantization import Cells
from carving.storage.memoryfile import NUMBERS, reals

ROUNDS = 200


def quantized_accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval of N pairs from cells of so many `bits`, one at a time and, where `joint`, together; no prior.

    >>> setting = {"scheme": "OSC", "signed": True, "compact": True, "d": 40, "p": 2, "N": 60, "bits": 2, "joint": True}
    >>> measured = quantized_accuracy(setting, seed=0)
    >>> measured["together"], measured["converged"], round(measured["bits a pair"], 1)
    (1.0, 1.0, 54.4)
    """
    scheme, stored = scheme_of(setting, seed), torch.tensor(stored_fillers(setting, Generator().manual_seed(seed)))
    contexts = scheme.contexts([(number,) for number in range(len(stored))])
    fillers = scheme.fillers(range(vocabulary_of(setting)))
    cells = Cells.of(reals(scheme.trace(contexts, fillers[stored])), setting["bits"])
    size = cells.codes.numel() * cells.bits + NUMBERS
    alone = decode(scheme, cells, contexts, fillers, rounds=1)
    measured: Measured = {
        "alone": alone.indices.eq(stored).double().mean().item(),
        "bits a pair": size / len(stored),
        "questions": len(stored),
    }
    if not setting.get("joint"):
        return measured
    together = decode(scheme, cells, contexts, fillers, rounds=ROUNDS)
    right = together.indices.eq(stored).double().mean().item()
    told = {"rounds": together.rounds, "converged": float(together.converged), "all right": float(right == 1)}
    return measured | {"together": right} | told
