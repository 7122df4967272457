"""Joint decoding as something to watch: after each round the noise, how many answers are sure, and how many right."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from carving.formats.documents import Pair
from carving.inference.answer import Answers
from carving.memory.decode_pairs import SURE
from carving.memory.jointly import Together
from carving.memory.questions import Questions, check_paths
from carving.memory.state import known_paths
from carving.symbols.codec import Path, canonical_all, canonical_path


class Seen(NamedTuple):
    """What a round has come to."""

    number: int
    noise: float  # the deviation of the interference in one number of the memory, beside that of the first round
    left: float  # the share of the memory that is not explained yet
    sure: float  # the share of the answers that are sure
    right: float | None  # the share of those that are right, where that is known


class Watched:
    """A memory whose paths are asked together: iterate to see the rounds, then ask for the `answers`.

    Where pairs are given, their paths are asked for, and what is right is known. Else the kept paths are.

    >>> from carving import OSC, Memory
    >>> memory, facts = Memory(OSC(d=40, p=2)), [((f"key {i}",), f"value {i}") for i in range(30)]
    >>> memory.store(facts)
    30
    >>> watched = Watched(memory, facts)
    >>> [(seen.number, seen.right) for seen in watched][-1][1], watched.answers().converged
    (1.0, True)
    """

    def __init__(self, memory: Questions, pairs: Iterable[Pair] | None = None, prior_empty: float = 0.0) -> None:
        held = memory._state
        wanted = None if pairs is None else list(pairs)
        paths: Iterable[Path] = known_paths(held).each() if wanted is None else (path for path, _ in wanted)
        self._going = Together(held, check_paths(paths, held), prior_empty=prior_empty)
        self.asked = len(self._going.asked)
        self._wanted = None if wanted is None else _rows_wanted(self._going, wanted)

    def __iter__(self) -> Iterator[Seen]:
        first = None
        for step in self._going:
            first = first or step.noise or 1.0
            sure = float((step.probabilities >= SURE).double().mean())
            right = None if self._wanted is None else _right(step.indices, self._wanted, self._owners) / self.asked
            yield Seen(step.number, (step.noise / first) ** 0.5, step.left, sure, right)

    @property
    def _owners(self) -> Tensor:
        """The path of each row, by its place among those that differ."""
        times = list(self._going.times.values())
        return torch.arange(len(times)).repeat_interleave(torch.tensor(times))

    def answers(self) -> Answers:
        """The answers of the best round so far."""
        return self._going.answers()


def _rows_wanted(going: Together, pairs: list[Pair]) -> Tensor:
    """The vocabulary's rows of the values of each path, path after path; those that nobody knows are beyond all."""
    values = defaultdict[bytes, list[int]](list)
    rows = going.held.vocabulary.rows_of(canonical_all([value for _, value in pairs]))
    unknown = len(going.held.vocabulary)
    for (path, _), row in zip(pairs, rows, strict=True):
        values[canonical_path(path)].append(row if row >= 0 else unknown)
    return torch.tensor([row for name in going.times for row in values[name]])


def _right(indices: Tensor, wanted: Tensor, owners: Tensor) -> int:
    """How many of the values that are wanted were answered under their paths, in whatever order."""
    same = indices.cpu() == wanted
    if len(owners) and int(owners[-1]) == len(owners) - 1:  # a value a path
        return int(same.sum())
    answered, held = (Counter(zip(owners.tolist(), each.tolist(), strict=True)) for each in (indices, wanted))
    return (answered & held).total()
