"""What a question costs: operations, seconds, and the numbers that must be held."""

import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import Generator
from torch.utils.flop_counter import FlopCounterMode

from carving.lab.experiment import Measured, Setting
from carving.schemes.osc import OSC

HLB, LITERAL, CORE = "HLB", "OSC as published", "OSC in core coordinates"


def flops(setting: Setting, seed: int) -> Measured:
    """The operations of one question to L candidates; in core coordinates also those of torch's products, counted."""
    d, p, size = setting["d"], setting["p"], setting["L"]
    k1 = math.isqrt(d)  # as the paper's timing code
    if setting["method"] == HLB:
        return {"flops": 2 * size * d**p}
    if setting["method"] == LITERAL:
        return {"flops": 2 * k1 * d**2 + 2 * size * p * d**2 + 2 * size * d**p}
    reading = sum(2 * k1**mode * d ** (p - mode + 1) for mode in range(1, p + 1))
    scheme = OSC.paper(d, p, k1, seed=seed)
    memory, context, fillers = scheme.zeros(), scheme.contexts([(0,)]), torch.zeros(size, p, d)
    with FlopCounterMode(display=False) as counter:
        scheme.score(memory, context, fillers)
    return {"flops": reading + size * (2 * p * d * k1 + 2 * k1**p), "counted": counter.get_total_flops()}


def speed(setting: Setting, seed: int) -> Measured:
    """Milliseconds for one question to L candidates, the median of many; and the numbers that must be held."""
    d, p, size, generator = setting["d"], setting["p"], setting["L"], Generator().manual_seed(seed)
    if setting["method"] == HLB:
        codebook = torch.empty(size, d**p).normal_(generator=generator)
        memory, role = codebook.sum(0), codebook[0].sign()
        return {"ms": milliseconds(lambda: (codebook @ (memory / role)).argmax()), "numbers": d**p * (size + 1)}
    scheme = OSC.paper(d, p, math.isqrt(d), seed=seed)
    fillers, contexts = scheme.fillers(range(size)), scheme.contexts([(i,) for i in range(min(size, 1000))])
    trace, context = scheme.trace(contexts, fillers[: len(contexts)]), contexts[:1]
    return {
        "ms": milliseconds(lambda: scheme.score(trace, context, fillers).argmax()),
        "numbers": d**p + size * p * d,
    }


def milliseconds(ask: Callable[[], object]) -> float:
    """The median of at least 5 runs, and of as many as fit into 0.3 seconds."""
    ask()
    taken: list[float] = []
    while len(taken) < 5 or (sum(taken) < 0.3 and len(taken) < 1000):
        start = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3
