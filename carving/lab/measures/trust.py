"""Whether probabilities still mean what they say, whatever became of a memory: weights, repeats, forgetting, files.

Half of the paths that are asked for hold nothing.
"""

import itertools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch

from carving.formats.documents import Pair
from carving.lab.experiment import Measured, Setting
from carving.lab.measures.calibration import summed_up
from carving.lab.measures.schemes import scheme_of, seed_within
from carving.memory import Memory
from carving.memory.capacity import collected
from carving.memory.quantized import QuantizedMemory
from carving.symbols.codec import Path as Asked

Said = list[tuple[float, bool]]  # probabilities, and whether what they were said of was true
PATHS = 2000  # of a memory that are asked for at most
TOP = 5  # values a path that are listed


def answer_calibration(setting: Setting, seed: int) -> Measured:
    """The calibration error of `asked` answers or more in the setting's case, and that of a perfect model.

    >>> setting = {"scheme": "OSC", "signed": True, "d": 60, "p": 2, "N": 40, "L": 100, "case": "weight 2", "asked": 80}
    >>> measured = answer_calibration(setting, seed=0)
    >>> measured["right"], measured["error"] < 0.05
    (1.0, True)
    """
    said: Said = []
    for part in itertools.count():
        said += answers(setting, seed_within(seed, part))
        if len(said) >= setting["asked"]:
            break
    chances, truth = zip(*said, strict=True)
    return summed_up(torch.tensor(chances, dtype=torch.float64), torch.tensor(truth, dtype=torch.float64), seed)


def answers(setting: Setting, seed: int) -> Said:
    """What a memory says of paths that are there, and of as many that are not."""
    case, chance = CASES[setting["case"]], Random(seed)
    vocabulary = case.vocabulary or setting["L"]
    pairs = drawn(case, setting["N"], vocabulary, chance)
    memory: Memory | QuantizedMemory = Memory(scheme_of(setting, seed), range(vocabulary))
    with collected():  # a memory that is sure of everything has no calibration
        memory, held = case.store(memory, pairs)
    truth: dict[Asked, set[object]] = {path: set() for path, _ in pairs}
    for path, value in held:
        truth[path].add(value)
    there = [path for path, values in truth.items() if values][:PATHS]
    paths = there + [("nowhere", i) for i in range(len(there))]
    return case.ask(memory, paths, [truth.get(path, set()) for path in paths])


def drawn(case: "Case", pairs: int, vocabulary: int, chance: Random) -> list[Pair]:
    """Pairs whose paths hold as many values as the case says, in turn, drawn evenly or by Zipf's law."""
    weights = [1 / rank if case.zipf else 1 for rank in range(1, vocabulary + 1)]
    sizes, made = itertools.cycle(case.values), list[Pair]()
    while len(made) < pairs:
        values: set[int] = set()
        size = next(sizes)
        while len(values) < size:
            values.add(chance.choices(range(vocabulary), weights)[0] if case.zipf else chance.randrange(vocabulary))
        made += [(path, value) for path in [("there", len(made))] for value in values]
    return made


# How pairs are stored: the memory, and what it then holds

Stored = tuple[Memory | QuantizedMemory, list[Pair]]


def once(memory: Memory, pairs: list[Pair]) -> Stored:
    """All pairs in one go."""
    memory.store(pairs)
    return memory, pairs


def weighed(*weights: float) -> Callable[[Memory, list[Pair]], Stored]:
    """With these weights, in turn."""

    def store(memory: Memory, pairs: list[Pair]) -> Stored:
        for start, weight in enumerate(weights):
            memory.store(pairs[start :: len(weights)], weight=weight)
        return memory, pairs

    return store


def three_times(memory: Memory, pairs: list[Pair]) -> Stored:
    """The same pairs in three calls."""
    for _ in range(3):
        memory.store(pairs)
    return memory, pairs


def a_third_three_times(memory: Memory, pairs: list[Pair]) -> Stored:
    """A third of the pairs in two further calls."""
    memory.store(pairs)
    for _ in range(2):
        memory.store(pairs[::3])
    return memory, pairs


def a_third_repeated(memory: Memory, pairs: list[Pair]) -> Stored:
    """A third of the pairs three times in one call."""
    memory.store(pairs + pairs[::3] + pairs[::3])
    return memory, pairs


def half_forgotten(memory: Memory, pairs: list[Pair]) -> Stored:
    """Every second pair taken out again, as far as it was recognized."""
    memory.store(pairs)
    strangers = memory.forget(pairs[::2])
    return memory, pairs[1::2] + list(strangers)


def kept_in(dtype: torch.dtype) -> Callable[[Memory, list[Pair]], Stored]:
    """Written to a file of that precision, and read again."""

    def store(memory: Memory, pairs: list[Pair]) -> Stored:
        memory.store(pairs)
        with tempfile.TemporaryDirectory() as folder:
            memory.save(Path(folder) / "memory", dtype)
            return Memory.load(Path(folder) / "memory"), pairs

    return store


def half_negative(memory: Memory, pairs: list[Pair]) -> Stored:
    """Every second pair with a weight of -1, which is not held."""
    memory.store(pairs[::2])
    memory.store(pairs[1::2], weight=-1)
    return memory, pairs[::2]


def forced_out(memory: Memory, pairs: list[Pair]) -> Stored:
    """Every second pair, and the others forgotten by force although they were never stored."""
    memory.store(pairs[::2])
    memory.forget(pairs[1::2], force=True)
    return memory, pairs[::2]


def one_strong(memory: Memory, pairs: list[Pair]) -> Stored:
    """One pair with a weight of 15, the others with 1."""
    memory.store(pairs[1:])
    memory.store(pairs[:1], weight=15)
    return memory, pairs


def three_times_in_fives(memory: Memory, pairs: list[Pair]) -> Stored:
    """All pairs three times, in calls of five pairs."""
    for start in [*range(0, len(pairs), 5)] * 3:
        memory.store(pairs[start : start + 5])
    return memory, pairs


def log_normal(memory: Memory, pairs: list[Pair]) -> Stored:
    """Weights whose logarithms are standard normal."""
    chance = Random(memory.scheme.seed)
    for pair in pairs:
        memory.store([pair], weight=math.exp(chance.gauss(0, 1)))
    return memory, pairs


def one_bit(memory: Memory, pairs: list[Pair]) -> Stored:
    """Quantized to one bit."""
    memory.store(pairs)
    return memory.quantize(bits=1), pairs


def merged(memory: Memory, pairs: list[Pair]) -> Stored:
    """Two memories added, the second of them stored with a weight of 2."""
    other = Memory.like(memory)
    memory.store(pairs[::2])
    other.store(pairs[1::2], weight=2)
    return memory + other, pairs


# How is asked: what is said, and whether it is true


def one_by_one(memory: Memory | QuantizedMemory, paths: list[Asked], truth: list[set[object]]) -> Said:
    """The best answer to each path."""
    replies = memory.recall_many(paths)
    right = (reply.value in held if reply else not held for reply, held in zip(replies, truth, strict=True))
    return [(reply.probability, true) for reply, true in zip(replies, right, strict=True)]


def listed(memory: Memory | QuantizedMemory, paths: list[Asked], truth: list[set[object]]) -> Said:
    """The most probable values of each path."""
    lists = memory.recall_many(paths, top=TOP)
    return [(value.probability, value.value in held) for each, held in zip(lists, truth, strict=True) for value in each]


def as_sets(memory: Memory | QuantizedMemory, paths: list[Asked], truth: list[set[object]]) -> Said:
    """All values that each path is found to hold."""
    sets = memory.recall_sets(paths)
    return [(value.probability, value.value in held) for each, held in zip(sets, truth, strict=True) for value in each]


class Case(NamedTuple):
    """What is done with a memory, and how it is asked."""

    store: Callable[[Memory, list[Pair]], Stored] = once
    ask: Callable[[Memory | QuantizedMemory, list[Asked], list[set[object]]], Said] = one_by_one
    values: tuple[int, ...] = (1,)  # of paths, in turn
    zipf: bool = False
    vocabulary: int | None = None  # the number of values, where it is not the setting's


# fmt: off
CASES = {
    "plain":                            Case(),
    "Zipf":                             Case(zipf=True),
    "weight 0.5":                       Case(weighed(0.5)),
    "weight 2":                         Case(weighed(2.0)),
    "weights 1 and 2":                  Case(weighed(1.0, 2.0)),
    "stored three times":               Case(three_times),
    "a third stored three times":       Case(a_third_three_times),
    "a third three times in one call":  Case(a_third_repeated),
    "half forgotten":                   Case(half_forgotten),
    "bfloat16 file":                    Case(kept_in(torch.bfloat16)),
    "float16 file":                     Case(kept_in(torch.float16)),
    "merged, weights 1 and 2":          Case(merged),
    "half with weight -1":              Case(half_negative),
    "as many forced out":               Case(forced_out),
    "one with weight 15":               Case(one_strong),
    "three times, five a call":         Case(three_times_in_fives),
    "log-normal weights":               Case(log_normal),
    "1 bit, 1 value":                   Case(one_bit, vocabulary=1),
    "1 bit, 2 values":                  Case(one_bit, vocabulary=2),
    "sets of 1":                        Case(ask=as_sets),
    "sets of 2":                        Case(ask=as_sets, values=(2,)),
    "sets of 4":                        Case(ask=as_sets, values=(4,)),
    "sets of 1 to 3, Zipf":             Case(ask=as_sets, values=(1, 2, 3), zipf=True),
    "sets of 2, weights 1 and 2":       Case(weighed(1.0, 2.0), as_sets, (2,)),
    "top of 1":                         Case(ask=listed),
    "top of 2":                         Case(ask=listed, values=(2,)),
    "top of 4":                         Case(ask=listed, values=(4,)),
    "top of 1 to 3, Zipf":              Case(ask=listed, values=(1, 2, 3), zipf=True),
}
# fmt: on
