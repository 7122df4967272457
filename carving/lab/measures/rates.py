"""What a memory takes for what it answers: bits a pair, and bits of information in each of its numbers."""

import math

import torch
from torch import Generator, Tensor

from carving.inference.amp import decode
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of, stored_fillers, vocabulary_of
from carving.memory.solver import Problem, solve
from carving.quantization import Cells
from carving.storage.memoryfile import reals

REALS = 32  # bits of a number that is kept as it is
HEAD = 64  # bits beside the cells: their deviation, and what they keep of the numbers


def taken(cells: int, pairs: int, bits: int | None) -> float:
    """The bits a pair of so many cells, and of what scales them; None stands for real numbers.

    >>> taken(1600, 50, 2), taken(1600, 50, None)
    (65.28, 1024.0)
    """
    return round((cells * (bits or REALS) + (HEAD if bits else 0)) / pairs, 2)


def bits(setting: Setting, seed: int) -> Measured:
    """The share of N pairs that are named by a memory of few bits a cell.

    `asked` says how: "alone", "together", or alone after the memory was "solved"; `bits` how many a cell is kept in.

    >>> bits({"scheme": "OSC", "d": 60, "p": 2, "N": 50, "asked": "alone", "bits": 2, "compact": True}, 0)
    {'retrieval': 1.0}
    """
    scheme, stored = scheme_of(setting, seed), torch.tensor(stored_fillers(setting, Generator().manual_seed(seed)))
    contexts = scheme.contexts([(number,) for number in range(len(stored))])
    fillers = scheme.fillers(range(vocabulary_of(setting)))
    trace, few = scheme.trace(contexts, fillers[stored]), setting.get("bits")
    memory: Tensor | Cells = trace
    if setting["asked"] == "solved":  # in as few bits as are kept
        memory = solve(Problem.of(scheme, contexts, fillers, stored), trace, bits=few).tensor
    elif few:
        memory = Cells.of(reals(trace), few)
    found = decode(scheme, memory, contexts, fillers, rounds=100 if setting["asked"] == "together" else 1)
    return {"retrieval": found.indices.eq(stored).double().mean().item()}


def information_rate(setting: Setting, seed: int) -> Measured:
    """Bits of information in each dimension of a sum of N symbols, each of a vocabulary of L in a place of its own.

    >>> measured = information_rate({"scheme": "MAP-I", "d": 500, "N": 50, "L": 16, "fillers": "uniform"}, 0)
    >>> measured["together"], measured["rate together"]
    (1.0, 0.4)
    """
    scheme, stored = scheme_of(setting, seed), torch.tensor(stored_fillers(setting, Generator().manual_seed(seed)))
    contexts, total = scheme.contexts([(place,) for place in range(len(stored))]), vocabulary_of(setting)
    fillers = scheme.fillers(range(total))
    memory = scheme.trace(contexts, fillers[stored])
    measured: Measured = {}
    for name, rounds in (("alone", 1), ("together", 200)):
        named = decode(scheme, memory, contexts, fillers, rounds=rounds).indices
        measured[name] = named.eq(stored).double().mean().item()
        measured[f"rate {name}"] = len(stored) * information(measured[name], total) / scheme.facts.memory_scalars
    return measured


def information(accuracy: float, symbols: int) -> float:
    """The bits that an answer tells which is right so often, and else any of the other symbols.

    >>> information(1.0, 16), information(1 / 16, 16)
    (4.0, 0.0)
    """
    wrong = 1 - accuracy
    told = accuracy * math.log2(accuracy * symbols) if accuracy else 0.0
    return told + (wrong * math.log2(wrong * symbols / (symbols - 1)) if wrong else 0.0)
