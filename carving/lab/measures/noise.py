"""What the other pairs of a memory do to the score of a stored filler."""

import torch
from torch import Tensor

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of, seed_within


def interference(setting: Setting, seed: int) -> Measured:
    """The stored fillers' scores: their mean, and their variance about 1, alone and in units of (N-1)/d^p.

    >>> setting = {"scheme": "OSC", "d": 12, "p": 2, "k1": 3, "N": 20, "repeats": 50}
    >>> abs(interference(setting, seed=0)["mean"] - 1) < 0.05
    True
    """
    scores = stored_scores(setting, seed)
    variance = (scores - 1).square().mean().item()
    unit = (setting["N"] - 1) / setting["d"] ** setting["p"]
    return {"mean": scores.mean().item(), "variance": variance, "relative": variance / unit}


def pair_noise(setting: Setting, seed: int) -> Measured:
    """The variance that one stored pair gives the score of another: alone, and in units of one over the cells."""
    variance = (stored_scores(setting, seed) - 1).square().mean().item() / (setting["N"] - 1)
    return {"noise": variance, "relative": variance * scheme_of(setting, seed).facts.memory_scalars}


def stored_scores(setting: Setting, seed: int) -> Tensor:
    """The score of every stored filler in its context, over `repeats` memories; `shared` fillers share a context."""
    pairs, shared, scores = setting["N"], setting.get("shared", 1), []
    for repeat in range(setting["repeats"]):
        scheme = scheme_of(setting, seed_within(seed, repeat))
        contexts, fillers = scheme.contexts([(i // shared,) for i in range(pairs)]), scheme.fillers(range(pairs))
        memory = scheme.trace(contexts, fillers)
        scores.append(scheme.score(memory, contexts, fillers.unsqueeze(1)).squeeze(1))
    return torch.cat(scores).double()
