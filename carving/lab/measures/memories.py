"""What experiments measure: accuracy, the smallest dimension that reaches one, the statistics of scores, likeness.

A setting names a scheme, its d, and N pairs in N contexts of their own; OSC is the paper's, without signs, unless the
setting says `signed`. Random fillers and roles come from labels under the trial's seed.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from carving.answers.together import decode
from carving.chunks import slices
from carving.contexts import Contexts
from carving.lab.experiment import Measured, Setting
from carving.linear import LinearScheme
from carving.scheme import Scheme
from carving.schemes import make
from carving.schemes.osc import OSC, Subspaces
from carving.schemes.vsa import VSA

HELD = 2**27  # numbers of a codebook, or of contexts, that a trial holds at once: half a gibibyte
REBOUND = 320  # role bindings a candidate, for an architecture without unbinding: each question binds all of them again


def scheme_of(setting: Setting, seed: int) -> Scheme:
    """The scheme that a setting names, with fillers and roles of its own."""
    name, d = setting["scheme"], setting["d"]
    options: dict[str, Any] = {key: setting[key] for key in ("p", "k1", "memory", "accounting") if key in setting}
    if name == "OSC":
        compact = setting.get("compact", False)
        if setting.get("up"):  # the root of d rounded up, not to the nearest
            options["k1"] = math.isqrt(d - 1) + 1
        options |= dict(compact=compact, spread=setting.get("spread", 0.0), signed=setting.get("signed", compact))
        return make(name, d, seed=seed, **options)
    if name == "TPR":
        return make(name, d, seed=seed, depth=setting.get("depth", 1))
    large = d * setting.get("N", 1) > HELD
    return make(name, fitting(name, d), seed=seed, workspace=2**29 if large else 2**26, **options)


def fitting(name: str, d: int) -> int:
    """The largest dimension up to d that the scheme can have."""
    if name == "VTB":
        return math.isqrt(d) ** 2
    return d - d % {"GHRR": 8, "FHRR": 2, "CGR": 2}.get(name, 1)


def seed_within(seed: int, *parts: int) -> int:
    """A seed for a part of a trial."""
    return int.from_bytes(hashlib.sha256(repr((seed, parts)).encode()).digest()[:7], "big")


def vocabulary_of(setting: Setting) -> int:
    """L, which is N where the setting does not say otherwise."""
    return int(setting["L"] if "L" in setting else setting["N"])


def stored_fillers(setting: Setting, generator: Generator) -> list[int]:
    """Which filler each pair has: its own, or one drawn from the vocabulary, evenly or by Zipf's law."""
    pairs, vocabulary = setting["N"], vocabulary_of(setting)
    how = setting.get("fillers", "unique")
    if how == "unique":
        return list(range(pairs))
    weights = torch.ones(vocabulary) if how == "uniform" else 1 / torch.arange(1.0, vocabulary + 1)
    drawn: list[int] = torch.multinomial(weights, pairs, replacement=True, generator=generator).tolist()
    return drawn


def asked(setting: Setting) -> int:
    """How many of the pairs are asked for; all are alike, so the first ones are as good as any."""
    few = max(5, REBOUND // (setting.get("depth", 1) + 7))
    limit = few if setting["scheme"] == "BSDC-CDT" else int(setting["N"])
    return min(int(setting["N"]), int(setting.get("questions", limit)), limit)


def scores_of(scheme: Scheme, setting: Setting, stored: list[int], questions: int) -> Tensor:
    """The scores (questions, L) of the whole vocabulary in the contexts of the first pairs."""
    depth, vocabulary = int(setting.get("depth", 1)), vocabulary_of(setting)
    paths = [(number,) * depth for number in range(len(stored))]
    numbers = scheme.d * scheme.rank if isinstance(scheme, OSC) else scheme.facts.memory_scalars * depth
    places: Contexts | list[tuple[int, ...]] = scheme.contexts(paths) if numbers * len(paths) <= HELD else paths
    if vocabulary * math.prod(scheme.filler_shape) <= HELD:
        fillers = scheme.fillers(range(vocabulary))
        memory = scheme.trace(places, fillers[torch.tensor(stored)])
        return scheme.score(memory, places[:questions], fillers)
    cores = scheme.read(scheme.trace(places, stored), places[:questions])
    scores = torch.empty(questions, vocabulary)
    for rows in slices(vocabulary, max(1, HELD // 2 // math.prod(scheme.filler_shape))):
        scores[:, rows] = scheme.match(cores, None, scheme.fillers(range(rows.start, rows.stop)))
    return scores


def share_right(scores: Tensor, right: Tensor) -> float:
    """The share of rows whose right candidate scores highest; of equal ones any is taken, with equal chance."""
    best = scores.amax(1)
    wins = scores.gather(1, right.unsqueeze(1)).squeeze(1).eq(best) / scores.eq(best.unsqueeze(1)).sum(1)
    return wins.double().mean().item()


def share_recognised(scores: Tensor, right: Tensor, generator: Generator) -> float:
    """The share of rows in which the right candidate beats one wrong one, drawn at random; a draw counts half."""
    total = scores.shape[1]
    wrong = (right + torch.randint(1, total, right.shape, generator=generator)) % total
    own, other = (scores.gather(1, which.unsqueeze(1)) for which in (right, wrong))
    return (own.gt(other).double() + own.eq(other).double() / 2).mean().item()


def accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval (the best of the vocabulary) and two-alternative recognition of a memory of N pairs."""
    if setting.get("joint"):
        return joint_accuracy(setting, seed)
    scheme, generator = scheme_of(setting, seed), Generator().manual_seed(seed)
    stored, questions = stored_fillers(setting, generator), asked(setting)
    scores = scores_of(scheme, setting, stored, questions)
    right = torch.tensor(stored[:questions])
    return {
        "retrieval": share_right(scores, right),
        "recognition": share_recognised(scores, right, generator),
        "questions": questions,
        "numbers": total_numbers(scheme, setting),
    }


def joint_accuracy(setting: Setting, seed: int) -> Measured:
    """Retrieval where all N contexts are decoded together, and where each is asked alone, in the same memory."""
    scheme, generator = scheme_of(setting, seed), Generator().manual_seed(seed)
    stored = torch.tensor(stored_fillers(setting, generator))
    contexts = scheme.contexts([(number,) for number in range(len(stored))])
    fillers = scheme.fillers(range(vocabulary_of(setting)))
    memory = scheme.trace(contexts, fillers[stored])
    alone, found = (decode(scheme, memory, contexts, fillers, rounds=rounds) for rounds in (1, 100))
    return {
        "retrieval": found.indices.eq(stored).double().mean().item(),
        "alone": alone.indices.eq(stored).double().mean().item(),
        "questions": len(stored),
        "rounds": found.rounds,
        "converged": float(found.converged),
        "numbers": total_numbers(scheme, setting),
    }


def compact_gain(setting: Setting, seed: int) -> Measured:
    """Retrieval with ordinary and with compact fillers, both with signed contexts, from the same seed."""
    ordinary, compact = (
        accuracy({**setting, "signed": True, "compact": flag}, seed)["retrieval"] for flag in (False, True)
    )
    return {"ordinary": ordinary, "compact": compact, "gain": compact - ordinary}


def total_numbers(scheme: Scheme, setting: Setting) -> int:
    """The numbers of the memory and of all fillers; roles are not counted, as in the paper."""
    return scheme.facts.memory_scalars + vocabulary_of(setting) * scheme.facts.filler_scalars


def minimum_dimension(setting: Setting, seed: int) -> Measured:
    """The smallest d whose accuracy, in the mean of `repeats` memories, exceeds 99 %, as it does not at the d below."""
    name, goal = setting["scheme"], 0.99
    sizes: Callable[[int], int] = {"VTB": lambda i: i * i, "GHRR": lambda i: 8 * i}.get(name, lambda i: fitted(name, i))

    def enough(step: int) -> bool:
        d, missed = sizes(step), 0.0
        for repeat in range(setting["repeats"]):
            found = accuracy({**setting, "d": d}, seed_within(seed, d, repeat))
            missed += 1 - found["retrieval"]
            if missed >= (1 - goal) * setting["repeats"]:  # whatever the other memories do
                return False
        return True

    low = setting.get("k1", 1)  # no scheme is that small
    high = max(4, low + 1)
    if setting.get("joint"):  # what cannot be decoded takes the most rounds: from one cell a pair to eight, at first
        low, high = (
            max(size, round((cells * setting["N"]) ** (1 / setting["p"]))) for size, cells in ((low, 1), (high, 8))
        )
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    d = sizes(high)
    return {"d": float(d), "numbers": float(total_numbers(scheme_of({**setting, "d": d}, 0), setting))}


def fitted(name: str, step: int) -> int:
    """The dimension of a step; complex architectures have pairs of numbers, segments four places at least."""
    return 2 * step if name in ("FHRR", "CGR") else max(step, 4) if name == "BSDC-SEG" else step


def interference(setting: Setting, seed: int) -> Measured:
    """The stored fillers' scores: their mean, and their variance about 1, alone and in units of (N-1)/d^p."""
    pairs, shared, repeats = setting["N"], setting.get("shared", 1), setting["repeats"]
    scores = []
    for repeat in range(repeats):
        scheme = scheme_of(setting, seed_within(seed, repeat))
        contexts = scheme.contexts([(number // shared,) for number in range(pairs)])
        fillers = scheme.fillers(range(pairs))
        memory = scheme.trace(contexts, fillers)
        scores.append(scheme.score(memory, contexts, fillers.unsqueeze(1)).squeeze(1))
    found = torch.cat(scores).double()
    variance = (found - 1).square().mean().item()
    unit = (pairs - 1) / setting["d"] ** setting["p"]
    return {"mean": found.mean().item(), "variance": variance, "relative": variance / unit}


def two_ways(setting: Setting, seed: int) -> Measured:
    """Retrieval by unbinding, and by binding every candidate again and comparing it with the memory (cosines)."""
    scheme, questions = scheme_of(setting, seed), asked(setting)
    assert isinstance(scheme, LinearScheme)
    fillers, contexts = scheme.fillers(range(setting["N"])), scheme.contexts([(i,) for i in range(setting["N"])])
    memory, right = scheme.trace(contexts, fillers), torch.arange(questions)
    some = contexts[:questions]
    unbound = scheme.score(memory, some, fillers)
    inner = scheme.inner(scheme.adjoint(memory, some), some, fillers)
    again = inner / scheme.energy(some, fillers).sqrt()
    return {
        "unbinding": share_right(unbound, right),
        "recognition": share_right(again, right),
        "same answer": unbound.argmax(1).eq(again.argmax(1)).double().mean().item(),
        "questions": questions,
    }


def likeness(setting: Setting, seed: int, count: int = 200) -> Measured:
    """How similar a bound filler is to the filler, to itself in another context, and to a stranger."""
    scheme = scheme_of(setting, seed)
    fillers = scheme.fillers(range(count))
    if isinstance(scheme, OSC):
        here, there = (scheme.contexts([(name, i) for i in range(count)]) for name in ("here", "there"))
        assert isinstance(here, Subspaces) and isinstance(there, Subspaces)
        bound, other = (carved(scheme, fillers, contexts) for contexts in (here, there))
        alone = torch.nn.functional.normalize(fillers, dim=2)
        kinds = {"to its filler": (bound, alone), "in two contexts": (bound, other), "to a stranger": (bound, bound)}
        cosines = {key: torch.einsum("nij,mij->nmi", one, two).prod(2) for key, (one, two) in kinds.items()}
    else:
        assert isinstance(scheme, VSA)
        roles = scheme.fillers(range(count, 3 * count))
        bound, other = scheme.bind(fillers, roles[:count]), scheme.bind(fillers, roles[count:])
        kinds = {"to its filler": (bound, fillers), "in two contexts": (bound, other), "to a stranger": (bound, bound)}
        cosines = {key: scheme.similarity(one, two) for key, (one, two) in kinds.items()}
    apart = ~torch.eye(count, dtype=torch.bool)
    found = {key: value.diagonal().mean().item() for key, value in cosines.items() if key != "to a stranger"}
    return found | {"to a stranger": cosines["to a stranger"][apart].mean().item()}


def carved(scheme: OSC, fillers: Tensor, contexts: Subspaces) -> Tensor:
    """The bound fillers' components (n, p, d), unit vectors of the contexts' subspaces."""
    inside = torch.einsum("npd,nkd->npk", fillers, contexts.basis)
    return torch.nn.functional.normalize(torch.einsum("npk,nkd->npd", inside, contexts.basis), dim=2)
