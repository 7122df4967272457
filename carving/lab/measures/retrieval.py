"""How often the right filler is retrieved: by unbinding, by recognition, by decoding all contexts together."""

import math

import torch
from torch import Generator, Tensor

from carving.inference.amp import decode
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import HELD, scheme_of, stored_fillers, total_numbers, vocabulary_of
from carving.quantization import Cells
from carving.schemes.base import Contexts, Scheme
from carving.schemes.osc import OSC
from carving.storage.memoryfile import reals
from carving.tiling import slices

REBOUND = 320  # role bindings a candidate, for an architecture without unbinding: each question binds all of them again


def accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval (the best of the vocabulary) and two-alternative recognition of a memory of N pairs.

    >>> measured = accuracy({"scheme": "OSC", "d": 40, "p": 2, "N": 20}, seed=0)
    >>> measured["retrieval"], measured["questions"], measured["numbers"]
    (1.0, 20, 3200)
    """
    if setting.get("joint"):
        return joint_accuracy(setting, seed)
    scheme, generator = scheme_of(setting, seed), Generator().manual_seed(seed)
    stored, questions = stored_fillers(setting, generator), questions_of(setting)
    scores = scores_of(scheme, setting, stored, questions)
    right = torch.tensor(stored[:questions])
    return {
        "retrieval": share_right(scores, right),
        "recognition": share_recognized(scores, right, generator),
        "questions": questions,
        "numbers": total_numbers(scheme, setting),
    }


def questions_of(setting: Setting) -> int:
    """How many of the pairs are asked for; all are alike, so the first ones are as good as any."""
    few = max(5, REBOUND // (setting.get("depth", 1) + 7))
    limit = few if setting["scheme"] == "BSDC-CDT" else int(setting["N"])
    return min(int(setting["N"]), int(setting.get("questions", limit)), limit)


def scores_of(scheme: Scheme, setting: Setting, stored: list[int], questions: int) -> Tensor:
    """The scores (questions, L) of the whole vocabulary in the contexts of the first pairs."""
    depth, vocabulary = int(setting.get("depth", 1)), vocabulary_of(setting)
    paths = [(number,) * depth for number in range(len(stored))]
    numbers = scheme.d * scheme.rank if isinstance(scheme, OSC) else scheme.facts.memory_scalars * depth
    contexts: Contexts | list[tuple[int, ...]] = scheme.contexts(paths) if numbers * len(paths) <= HELD else paths
    if vocabulary * math.prod(scheme.facts.filler_shape) <= HELD:
        fillers = scheme.fillers(range(vocabulary))
        memory = scheme.trace(contexts, fillers[torch.tensor(stored)])
        return scheme.score(memory, contexts[:questions], fillers)
    cores = scheme.read(scheme.trace(contexts, stored), contexts[:questions])
    scores = torch.empty(questions, vocabulary)
    for rows in slices(vocabulary, max(1, HELD // 2 // math.prod(scheme.facts.filler_shape))):
        scores[:, rows] = scheme.match(cores, None, scheme.fillers(range(rows.start, rows.stop)))
    return scores


def share_right(scores: Tensor, right: Tensor) -> float:
    """The share of rows whose right candidate scores highest; of equal ones any is taken, with equal chance."""
    best = scores.amax(1)
    wins = scores.gather(1, right.unsqueeze(1)).squeeze(1).eq(best) / scores.eq(best.unsqueeze(1)).sum(1)
    return wins.double().mean().item()


def share_recognized(scores: Tensor, right: Tensor, generator: Generator) -> float:
    """The share of rows in which the right candidate beats one wrong one, drawn at random; a draw counts half."""
    total = scores.shape[1]
    wrong = (right + torch.randint(1, total, right.shape, generator=generator)) % total
    own, other = (scores.gather(1, which.unsqueeze(1)) for which in (right, wrong))
    return (own.gt(other).double() + own.eq(other).double() / 2).mean().item()


def joint_accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval where all N contexts are decoded together, and where each is asked alone, in the same memory.

    It may have few `bits` a cell.
    """
    scheme, generator = scheme_of(setting, seed), Generator().manual_seed(seed)
    stored = torch.tensor(stored_fillers(setting, generator))
    contexts = scheme.contexts([(number,) for number in range(len(stored))])
    fillers = scheme.fillers(range(vocabulary_of(setting)))
    trace = scheme.trace(contexts, fillers[stored])
    memory = Cells.of(reals(trace), setting["bits"]) if "bits" in setting else trace
    alone, together = (decode(scheme, memory, contexts, fillers, rounds=rounds) for rounds in (1, 100))
    return {
        "retrieval": together.indices.eq(stored).double().mean().item(),
        "alone": alone.indices.eq(stored).double().mean().item(),
        "questions": len(stored),
        "rounds": together.rounds,
        "converged": float(together.converged),
        "numbers": total_numbers(scheme, setting),
    }


def compact_gain(setting: Setting, seed: int) -> Measured:
    """Retrieval with ordinary and with compact fillers, both with signed contexts, from the same seed."""
    ordinary, compact = (
        accuracy({**setting, "signed": True, "compact": flag}, seed)["retrieval"] for flag in (False, True)
    )
    return {"ordinary": ordinary, "compact": compact, "gain": compact - ordinary}


def two_ways(setting: Setting, seed: int) -> Measured:
    """Retrieval by unbinding, and by binding every candidate again and comparing it with the memory (cosines).

    >>> measured = two_ways({"scheme": "MAP-I", "d": 1024, "N": 10}, seed=0)
    >>> measured["unbinding"], measured["recognition"], measured["same answer"]
    (1.0, 1.0, 1.0)
    """
    scheme, questions = scheme_of(setting, seed), questions_of(setting)
    fillers, contexts = scheme.fillers(range(setting["N"])), scheme.contexts([(i,) for i in range(setting["N"])])
    memory, right = scheme.trace(contexts, fillers), torch.arange(questions)
    first = contexts[:questions]
    unbound = scheme.score(memory, first, fillers)
    inner = scheme.inner(scheme.adjoint(memory, first), first, fillers)
    bound = inner / scheme.energy(first, fillers).sqrt()
    return {
        "unbinding": share_right(unbound, right),
        "recognition": share_right(bound, right),
        "same answer": unbound.argmax(1).eq(bound.argmax(1)).double().mean().item(),
        "questions": questions,
    }
