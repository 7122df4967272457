"""The memory triangle: footprint, total memory, signal to noise, and the coherence that no memory can do without."""

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.similarity import carved
from carving.schemes.osc import OSC, Subspaces
from carving.schemes.vsa import VSA


def triangle(setting: Setting, seed: int) -> Measured:
    """One part of the memory triangle: a footprint, a total, a signal-to-noise ratio or a coherence."""
    parts = {"footprint": footprint, "total": total, "signal": signal, "coherence": coherence}
    return parts[setting["part"]](setting, seed)


def footprint(setting: Setting, seed: int) -> Measured:
    """The numbers of a memory for trees of a depth; TPR has a mode for the filler and one for each role."""
    d, depth = setting["d"], setting["depth"]
    return {"footprint": {"TPR": d ** (depth + 1), "VSA": d, "OSC": d ** setting.get("p", 1)}[setting["scheme"]]}


def total(setting: Setting, seed: int) -> Measured:
    """The numbers of a memory and of its vocabulary, for memories with about so many cells."""
    cells, size, p = setting["cells"], setting["L"], setting.get("p", 1)
    side = round(cells ** (1 / {"TPR": 2, "VSA": 1, "OSC": p}[setting["scheme"]]))
    return {"total": cells + size * side * p}


def signal(setting: Setting, seed: int) -> Measured:
    """One over the standard deviation of a stored filler's score, in a vector of d numbers that holds N pairs."""
    scheme, pairs = VSA("MAP-I", setting["d"], seed=seed), setting["N"]
    contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(pairs))
    cores = scheme.read(scheme.trace(contexts, fillers), contexts)
    scores = scheme.inner(cores, contexts, fillers.unsqueeze(1)).squeeze(1) / setting["d"]
    return {"signal to noise": 1 / (scores - 1).square().mean().sqrt().item()}


def coherence(setting: Setting, seed: int) -> Measured:
    """The mean squared cosine of N bound fillers, and in units of Welch's bound (N-D)/(D(N-1)), D = d^p."""
    d, p, pairs = setting["d"], setting["p"], setting["N"]
    scheme = OSC.paper(d, p, seed=seed)
    contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(pairs))
    assert isinstance(contexts, Subspaces)
    bound = carved(fillers, contexts).transpose(0, 1)
    squares = (bound @ bound.mT).prod(0).square()
    mean = ((squares.sum() - squares.diagonal().sum()) / (pairs * (pairs - 1))).item()
    return {"coherence": mean, "over the bound": mean / ((pairs - d**p) / (d**p * (pairs - 1)))}
