"""Recall in context without training: what fast-weight memories name of pairs that they were shown.

A state of so many numbers takes pairs of a key and a value, and is then asked for the value of every key, one of 4,096.
Keys and values are random vectors; what is free (the width of keys, or k1, and how many bits a number has where bits
are counted) is chosen for each memory by a try with other vectors.
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from carving.inference.amp import decode
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import seed_within
from carving.memory.solver import Problem, solve
from carving.quantization import BITS, Cells
from carving.schemes.osc import OSC

VALUES = 4096
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
SIDES = (4, 6, 8, 12)  # of cores
RIDGE = 0.1
REALS = 32  # bits of a number that is kept as it is


class Choice(NamedTuple):
    """What a memory is free to choose."""

    width: int  # of keys, or k1
    bits: int = REALS
    spread: float = 0.0


# A state of so many numbers that was shown pairs, and which value it names for each key


def by_matrix(write: Callable[[Tensor, Tensor], Tensor]) -> "Memory":
    """Memories that are a matrix from keys to values."""

    def named(wanted: Tensor, numbers: int, choice: Choice, seed: int) -> Tensor:
        generator, width = Generator().manual_seed(seed), choice.width
        side = (numbers - (width * (width + 1) // 2 if write is mesa else 0)) // width
        if side < 1:
            return torch.full_like(wanted, -1)
        keys = normalize(torch.randn(len(wanted), width, generator=generator), dim=1)
        values = normalize(torch.randn(VALUES, side, generator=generator), dim=1)
        state = kept(write(keys, values[wanted]), choice.bits)
        return (keys @ state @ values.mT).argmax(1)

    return named


def linear_attention(keys: Tensor, values: Tensor) -> Tensor:
    """The sum of outer products."""
    return keys.mT @ values


def delta_net(keys: Tensor, values: Tensor) -> Tensor:
    """Every pair corrects what its key would have been answered."""
    state = keys.new_zeros(keys.shape[1], values.shape[1])
    for key, value in zip(keys, values, strict=True):
        state += torch.outer(key, value - key @ state)
    return state


def mesa(keys: Tensor, values: Tensor) -> Tensor:
    """The least squares that all pairs together want; the keys' Gram matrix is part of the state."""
    gram = keys.mT @ keys + RIDGE * torch.eye(keys.shape[1])
    return torch.linalg.solve(gram, keys.mT @ values)


def carved(asked: str) -> "Memory":
    """OSC, asked alone, together, or alone after it was solved for its pairs."""

    def named(wanted: Tensor, numbers: int, choice: Choice, seed: int) -> Tensor:
        scheme = OSC(math.isqrt(numbers), 2, choice.width, compact=True, spread=choice.spread, seed=seed)
        contexts, fillers = scheme.contexts([(key,) for key in range(len(wanted))]), scheme.fillers(range(VALUES))
        memory = scheme.trace(contexts, fillers[wanted])
        if asked == "solved":
            memory = solve(Problem.of(scheme, contexts, fillers, wanted), memory).tensor
        if asked == "together":
            cells = Cells.of(memory, choice.bits) if choice.bits < REALS else memory
            return decode(scheme, cells, contexts, fillers).indices
        return scheme.score(kept(memory, choice.bits), contexts, fillers).argmax(1)

    return named


def kept(state: Tensor, bits: int) -> Tensor:
    """The state as so many bits a number leave it."""
    return Cells.of(state, bits).numbers() if bits < REALS else state


Memory = Callable[[Tensor, int, Choice, int], Tensor]


class Family(NamedTuple):
    """Memories of one kind."""

    named: Memory
    causal: bool  # whether a pair is written when it comes, and asked for without knowing the other keys
    widths: tuple[int, ...]
    spreads: tuple[float, ...] = (0.0,)


FAMILIES = {
    "linear attention": Family(by_matrix(linear_attention), True, WIDTHS),
    "DeltaNet": Family(by_matrix(delta_net), True, WIDTHS),
    "Mesa": Family(by_matrix(mesa), True, WIDTHS),
    "OSC": Family(carved("alone"), True, SIDES),
    "OSC consolidated": Family(carved("solved"), False, SIDES),
    "OSC together": Family(carved("together"), False, SIDES, (0.0, 1.2)),
}


def recall_in_context(setting: Setting, seed: int) -> Measured:
    """The share of N pairs that a memory names, with a state of so many `numbers`, or of so many `bits`.

    >>> measured = recall_in_context({"memory": "linear attention", "N": 16, "numbers": 4096}, 0)
    >>> measured["right"], measured["width"] in WIDTHS
    (1.0, True)
    """
    family = FAMILIES[setting["memory"]]

    def right(choice: Choice, seed: int) -> float:
        numbers = setting["bits"] // choice.bits if "bits" in setting else setting["numbers"]
        wanted = torch.randint(VALUES, (setting["N"],), generator=Generator().manual_seed(seed))
        return family.named(wanted, numbers, choice, seed).eq(wanted).double().mean().item()

    choice = max(choices(family, "bits" in setting), key=lambda each: right(each, seed_within(seed, 1)))
    found = right(choice, seed)
    return {"right": found, "width": float(choice.width), "bits a number": float(choice.bits), "spread": choice.spread}


def choices(family: Family, any_bits: bool) -> Iterator[Choice]:
    """All that a memory may choose."""
    few = (1, 2, 4, 8) if any_bits else (REALS,)
    assert set(few) <= {*BITS, REALS}
    return (Choice(*each) for each in product(family.widths, few, family.spreads))
