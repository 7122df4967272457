"""The lines that `make bench` measures of OSC: each makes what it needs, and gives back what is timed.

They run with older versions of the package too (`against.py`), which know gaussian bases alone. What comes from labels
takes others in every call, a hundred thousand in turn, and contexts that are given are cut anew from a thousand, so
that no answer comes from what an earlier call left behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import cycle

from measuring import Run
from torch import Tensor

from carving import OSC, Memory, top
from carving.schemes.base import Contexts

SETTINGS = {"B1": (64, 2), "B2": (200, 2), "B3": (75, 3), "B4": (80, 3)}
BLOCKS = any(field.name == "basis" for field in fields(OSC))
KINDS = ("gaussian", "gaussian compact", *(("blocks", "blocks compact") if BLOCKS else ()))
VOCABULARIES = (100, 1_000, 10_000)
CONTEXTS, PAIRS, VALUES, QUESTIONS, BATCH, TRACED = 2_000, 5_000, 2_000, 512, 256, 10_000
TURN = 100_000


def scheme(setting: str, kind: str) -> OSC:
    d, p = SETTINGS[setting]
    options = {"basis": kind.split()[0]} if BLOCKS else {}
    return OSC(d, p, compact="compact" in kind, **options)


def turns(size: int) -> list[range]:
    return [range(start, start + size) for start in range(0, TURN, size)]


# From labels


def drawing(setting: str, kind: str) -> Run:
    """Contexts from their labels."""
    osc = scheme(setting, kind)
    paths = cycle([[("document", i, "subject") for i in rows] for rows in turns(CONTEXTS)])
    return lambda: osc.contexts(next(paths))


def storing(setting: str, kind: str) -> Run:
    """`Memory.store` into an empty memory."""
    osc = scheme(setting, kind)
    batches = cycle([pairs(PAIRS, VALUES, f"{rows.start} ") for rows in turns(PAIRS)])
    return lambda: Memory(osc).store(next(batches))


def asking(setting: str, kind: str) -> Run:
    """`Memory.recall_many`, of paths that were not asked before."""
    memory = filled(setting, kind, VALUES)
    batches = cycle([[(f"sentence {i}", "subject") for i in rows] for rows in turns(QUESTIONS)])
    return lambda: memory.recall_many(next(batches))


def asking_one(setting: str, kind: str) -> Run:
    """`Memory.recall` of one path of 10,000 values."""
    memory = filled(setting, kind, 10_000)
    paths = cycle([(f"sentence {i}", "subject") for i in range(TURN)])
    return lambda: memory.recall(*next(paths))


def filled(setting: str, kind: str, values: int) -> Memory:
    memory = Memory(scheme(setting, kind))
    memory.store(pairs(values, values))
    return memory


def pairs(number: int, values: int, prefix: str = "") -> list[tuple[tuple[str, str], str]]:
    return [((f"{prefix}sentence {i}", "subject"), f"{prefix}noun {i * 7 % values}") for i in range(number)]


# With contexts given


@dataclass(frozen=True)
class Asked:
    """A memory with contexts and candidates to ask it with."""

    osc: OSC
    memory: Tensor
    contexts: Contexts
    fillers: Tensor
    turns: Iterator[slice]

    @property
    def next(self) -> Contexts:
        """The contexts whose turn it is, as if nobody had asked them before."""
        return self.contexts[next(self.turns)]

    def best(self) -> Tensor:
        """The answers."""
        return self.osc.score(self.memory, self.next, self.fillers).argmax(1)

    def again(self) -> Run:
        """The same of contexts that were asked before."""
        same = self.next
        return lambda: self.osc.score(self.memory, same, self.fillers).argmax(1)

    @property
    def nbytes(self) -> int:
        """What answering has to read, at least."""
        return self.memory.nbytes + self.fillers.nbytes


def asked(setting: str, kind: str, questions: int, vocabulary: int) -> Asked:
    """A memory of up to 1,000 pairs, and questions about them in turn."""
    osc, stored = scheme(setting, kind), min(vocabulary, 1_000)
    contexts, fillers = osc.contexts([(i,) for i in range(stored)]), osc.fillers(range(vocabulary))
    parts = cycle([slice(start, start + questions) for start in range(stored - questions + 1)])
    return Asked(osc, osc.trace(contexts, fillers[:stored]), contexts, fillers, parts)


def question(setting: str, kind: str, vocabulary: int) -> Run:
    return asked(setting, kind, 1, vocabulary).best


def question_again(setting: str, kind: str, vocabulary: int) -> Run:
    return asked(setting, kind, 1, vocabulary).again()


def batch(setting: str, kind: str) -> Run:
    return asked(setting, kind, BATCH, VOCABULARIES[-1]).best


def batch_precomputed(setting: str, kind: str) -> Run:
    """The same, with the codes of compact fillers made beforehand."""
    given = asked(setting, kind, BATCH, VOCABULARIES[-1])
    return replace(given, fillers=given.osc.precompute(given.fillers)).best


def batch_top(setting: str, kind: str) -> Run:
    """The same by `top`, which finds the best itself."""
    given = asked(setting, kind, BATCH, VOCABULARIES[-1])
    return lambda: top(given.osc, given.memory, given.next, given.fillers)


def tracing(setting: str, kind: str) -> Run:
    """Pairs into a tensor."""
    osc = scheme(setting, kind)
    contexts, fillers = osc.contexts([(i,) for i in range(TRACED)]), osc.fillers(range(TRACED))
    return lambda: osc.trace(contexts, fillers)


def every_line() -> dict[str, Callable[[str], Run]]:
    """What each line is called, and what makes it of a kind; those that compact fillers alone have say so."""
    found: dict[str, Callable[[str], Run]] = {}
    for setting in SETTINGS:
        found[f"contexts, {setting}"] = partial(drawing, setting)
    for setting in ("B2", "B4"):
        found[f"Memory.store, {setting}"] = partial(storing, setting)
        found[f"Memory.recall_many, {setting}"] = partial(asking, setting)
    found["Memory.recall, B2"] = partial(asking_one, "B2")
    for setting in ("B1", "B2", "B3"):
        for size in VOCABULARIES:
            found[f"question, {setting}, L={size:,}"] = partial(question, setting, vocabulary=size)
            found[f"question again, {setting}, L={size:,}"] = partial(question_again, setting, vocabulary=size)
        found[f"batch, {setting}"] = partial(batch, setting)
        found[f"batch, {setting}, precomputed"] = partial(batch_precomputed, setting)
        found[f"trace, {setting}"] = partial(tracing, setting)
    return found


# Operations


def reading_work(osc: OSC, blocks: bool) -> float:
    """Multiplications and additions of reading one core, mode after mode: a block's rows meet every coordinate once."""
    d, p, k1 = osc.d, osc.p, osc.k1
    rows = 1 if blocks else k1
    return float(sum(2 * rows * k1 ** (mode - 1) * d ** (p - mode + 1) for mode in range(1, p + 1)))


def matching_work(osc: OSC, blocks: bool, vocabulary: int) -> float:
    """Of projecting the candidates, unless they are compact, and contracting them with a core."""
    projecting = 0 if osc.compact else 2 * osc.p * osc.d * (1 if blocks else osc.k1)
    return vocabulary * (projecting + 2.0 * osc.k1**osc.p)


def storing_work(osc: OSC, blocks: bool) -> float:
    """Of taking a pair's components into its context and back, and adding their outer product."""
    ways = 1 if osc.compact else 2
    return 2.0 * ways * osc.p * osc.d * (1 if blocks else osc.k1) + 2.0 * osc.d**osc.p


def both(figures: dict[str, float], one: str, other: str) -> float | None:
    """How many times the first figure is the second, where both were measured."""
    return figures[one] / figures[other] if one in figures and other in figures else None
