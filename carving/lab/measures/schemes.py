"""What a setting names: a scheme with its d, and N pairs in N contexts of their own, drawn under the trial's seed.

OSC is the paper's, without signs and with subspaces of normals, unless the setting says `signed` or `basis`.
"""

import hashlib
import math

import torch
from torch import Generator, Tensor

from carving.lab.experiment import Setting
from carving.schemes import make
from carving.schemes.base import Scheme

HELD = 2**27  # numbers of a codebook, or of contexts, that a trial holds at once: half a gibibyte


def scheme_of(setting: Setting, seed: int) -> Scheme:
    """The scheme that a setting names, with fillers and roles of its own."""
    name, d = setting["scheme"], setting["d"]
    options: Setting = {key: setting[key] for key in ("p", "k1", "memory", "accounting") if key in setting}
    if name == "OSC":
        compact = setting.get("compact", False)
        if setting.get("up"):  # the root of d rounded up, not to the nearest
            options["k1"] = math.isqrt(d - 1) + 1
        options |= dict(compact=compact, spread=setting.get("spread", 0.0), signed=setting.get("signed", compact))
        return make(name, d, seed=seed, basis=setting.get("basis", "gaussian"), **options)
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


def total_numbers(scheme: Scheme, setting: Setting) -> int:
    """The numbers of the memory and of all fillers; roles are not counted, as in the paper."""
    return scheme.facts.memory_scalars + vocabulary_of(setting) * scheme.facts.filler_scalars


def stored_fillers(setting: Setting, generator: Generator) -> list[int]:
    """Which filler each pair has: its own, or one of the vocabulary, all as often, or drawn evenly or by Zipf's law."""
    pairs, vocabulary = setting["N"], vocabulary_of(setting)
    kind = setting.get("fillers", "unique")
    if kind == "unique":
        return list(range(pairs))
    if kind == "even":
        return used_evenly(pairs, 1, vocabulary, generator).flatten().tolist()
    weights = torch.ones(vocabulary) if kind == "uniform" else 1 / torch.arange(1.0, vocabulary + 1)
    return torch.multinomial(weights, pairs, replacement=True, generator=generator).tolist()


def used_evenly(contexts: int, shared: int, vocabulary: int, generator: Generator) -> Tensor:
    """The fillers of each context (contexts, shared): all different there, each as often as any other, or once."""
    rounds = -(-contexts * shared // vocabulary)
    drawn = torch.cat([torch.randperm(vocabulary, generator=generator) for _ in range(rounds)])
    fillers = drawn[: contexts * shared].view(contexts, shared)
    while True:  # a filler that stands twice in a context is exchanged with one of another context
        ordered = fillers.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1).nonzero().squeeze(1)
        if not len(twice):
            return fillers
        for row in twice.tolist():
            other, column = (int(torch.randint(0, high, (), generator=generator)) for high in (contexts, shared))
            fillers[[row, other], column] = fillers[[other, row], column]
