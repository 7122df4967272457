"""The protocol that every binding scheme answers.

A scheme reaches its memory through maps that depend on the context:

    write : core, context   ->  memory    (summed over pairs: memories add)
    read  : memory, context ->  core      (the scheme's unbinding)
    encode: filler, context ->  core      (what a filler looks like inside that context)

    trace = the sum of write(encode(filler, context), context)
    score = match(read(memory, context), context, candidate)

Shapes and parameters are checked here, once for all schemes; values (NaN, infinity) where data enters a
`Memory`, because looking at values would break `torch.compile(fullgraph=True)`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, final

import torch
from torch import Tensor

from carving import draws
from carving.checks import as_path, check_shape, listed, machine_bytes, show_bytes
from carving.draws import Bits, Label, Path


@dataclass(frozen=True, eq=False)
class Contexts:
    """What a scheme makes of role paths: one row a context, every field a tensor with that many rows."""

    def _map(self, change: Any) -> Self:
        return replace(self, **{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def __len__(self) -> int:
        first: Tensor = getattr(self, fields(self)[0].name)
        return first.shape[0]

    def __getitem__(self, rows: int | slice | Tensor | list[int]) -> Self:
        """The contexts of these rows; one integer gives one row."""
        if isinstance(rows, int):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"there are {len(self)} contexts, got row {rows}")
            rows = slice(rows, rows + 1 or None)
        return self._map(lambda tensor: tensor[rows])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same contexts on another device or in another dtype, as `Tensor.to`."""
        return self._map(lambda tensor: tensor.to(*args, **kwargs))

    @property
    def nbytes(self) -> int:
        """The bytes that the tensors hold."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


Places = Contexts | Sequence[Path]  # where functions make contexts chunk by chunk, paths will do
Symbols = Tensor | Sequence[Label]  # likewise fillers and their labels


@dataclass(frozen=True)
class Scheme(ABC):
    """A way of binding fillers to contexts. Small, frozen, and equal to another of the same identity.

    The verbs are final and check what comes in; a scheme supplies the underscored ones.
    """

    # Facts, supplied by every scheme: shapes of one filler, one core and the memory; whether `read` is the
    # transpose of `write`. Beside them the fields seed (part of the identity), dtype, device and
    # workspace: the bytes that one call may use beyond its arguments and its result.
    seed: int
    dtype: torch.dtype
    device: torch.device
    workspace: int

    @property
    @abstractmethod
    def filler_shape(self) -> tuple[int, ...]:
        """The shape of one filler."""

    @property
    @abstractmethod
    def core_shape(self) -> tuple[int, ...]:
        """The shape of one core: what a context shows of the memory."""

    @property
    @abstractmethod
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of the memory."""

    @property
    @abstractmethod
    def adjoint(self) -> bool:
        """Whether `read` is the transpose of `write`."""

    @property
    @abstractmethod
    def _filler_words(self) -> int: ...

    @abstractmethod
    def _fillers(self, words: Bits) -> Tensor:
        """Fillers from their random bits, on the CPU, in the scheme's dtype."""

    @abstractmethod
    def _contexts(self, paths: Sequence[Path]) -> Contexts: ...

    @abstractmethod
    def _encode(self, fillers: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _write(self, cores: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _read(self, memory: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _match(self, cores: Tensor, contexts: Any, candidates: Tensor) -> Tensor:
        """Scores (n, L) of candidates for all contexts, or (n, m) of each context's own candidates."""

    @abstractmethod
    def _add(self, memory: Tensor, contexts: Any, fillers: Tensor, weights: Tensor | None) -> Tensor:
        """The memory with the pairs added, as a new tensor."""

    @abstractmethod
    def _pair_numbers(self) -> int:
        """How many numbers `_add` needs beside each other for one pair."""

    @abstractmethod
    def _core_numbers(self) -> int:
        """How many numbers `_read` and `_write` need beside each other for one context."""

    @abstractmethod
    def _match_numbers(self) -> int:
        """How many numbers `_match` needs beside each other for one candidate in one context."""

    # Symbols -> tensors

    @final
    def fillers(self, labels: Iterable[Label]) -> Tensor:
        """The labels' fillers, (n, *filler_shape): the same for the same label, seed and scheme, for ever."""
        names = [draws.canonical(label) for label in listed(labels, "labels")]
        chunk = self._rows(2 * math.prod(self.filler_shape))
        made = [
            self._fillers(draws.bits(part, self._filler_words, seed=self.seed, purpose="filler"))
            for part in _parts(names, chunk)
        ]
        return _joined(made).to(self.device)

    @final
    def contexts(self, paths: Iterable[Path]) -> Contexts:
        """The paths' contexts, a row each: the same for the same path, seed and scheme, for ever."""
        return self._contexts([as_path(path) for path in listed(paths, "paths")])

    @final
    def zeros(self) -> Tensor:
        """An empty memory."""
        size = math.prod(self.memory_shape) * self.dtype.itemsize
        limit = machine_bytes(self.device)
        if limit is not None and size > limit:
            raise ValueError(
                f"a memory of shape {self.memory_shape} takes {show_bytes(size)}, but {self.device} has "
                f"{show_bytes(limit)}; choose a smaller d or p (capacity.py predicts what they hold)"
            )
        return torch.zeros(self.memory_shape, dtype=self.dtype, device=self.device)

    # The verbs

    @final
    def encode(self, fillers: Tensor, contexts: Contexts) -> Tensor:
        """The cores (n, *core_shape) of n fillers in their n contexts."""
        check_shape("fillers", fillers, (len(contexts), *self.filler_shape))
        return self._encode(fillers, contexts)

    @final
    def write(self, cores: Tensor, contexts: Contexts) -> Tensor:
        """The memory that n cores make in their n contexts, summed."""
        check_shape("cores", cores, (len(contexts), *self.core_shape))
        memory = self.zeros()
        for rows in _slices(len(contexts), self._rows(self._core_numbers())):
            memory = memory + self._write(cores[rows], contexts[rows])
        return memory

    @final
    def read(self, memory: Tensor, contexts: Places) -> Tensor:
        """The cores (n, *core_shape) that n contexts show of the memory."""
        check_shape("memory", memory, self.memory_shape)
        size = self._rows(self._core_numbers())
        return _joined([self._read(memory, part) for _, part in self.places(contexts, size)])

    @final
    def match(self, cores: Tensor, contexts: Contexts, candidates: Tensor) -> Tensor:
        """How well candidates fit the cores: (n, L) for L shared candidates, (n, m) for m of each context's own."""
        check_shape("cores", cores, (len(contexts), *self.core_shape))
        self._check_candidates(candidates, len(contexts))
        return self._match_tiles(cores, contexts, candidates)

    @final
    def trace(self, contexts: Places, fillers: Symbols, weights: Tensor | None = None) -> Tensor:
        """The memory of n pairs: their bound fillers, weighted and summed. Traces of two batches add."""
        count = len(contexts)
        if isinstance(fillers, Tensor):
            check_shape("fillers", fillers, (count, *self.filler_shape))
        elif len(fillers) != count:
            raise ValueError(f"every context needs one filler, got {count} contexts and {len(fillers)} labels")
        if weights is not None:
            check_shape("weights", weights, (count,))
        memory = self.zeros()
        for rows, part in self.places(contexts, self._rows(self._pair_numbers())):
            some = fillers[rows] if isinstance(fillers, Tensor) else self.fillers(fillers[rows])
            memory = self._add(memory, part, some, None if weights is None else weights[rows])
        return memory

    @final
    def score(self, memory: Tensor, contexts: Places, candidates: Tensor) -> Tensor:
        """How strongly the memory holds the candidates: (n, L), or (n, m) where each context has its own."""
        check_shape("memory", memory, self.memory_shape)
        self._check_candidates(candidates, len(contexts))
        shared = candidates.dim() == len(self.filler_shape) + 1
        scores = [
            self._match_tiles(self._read(memory, part), part, candidates if shared else candidates[rows])
            for rows, part in self.places(contexts, self._rows(self._core_numbers()))
        ]
        return _joined(scores)

    @final
    def _check_candidates(self, candidates: Tensor, contexts: int) -> None:
        own = isinstance(candidates, Tensor) and candidates.dim() == len(self.filler_shape) + 2
        check_shape("candidates", candidates, (*((contexts, -1) if own else (-1,)), *self.filler_shape))

    @final
    def _match_tiles(self, cores: Tensor, contexts: Contexts, candidates: Tensor) -> Tensor:
        shared = candidates.dim() == len(self.filler_shape) + 1
        count, total = cores.shape[0], candidates.shape[0 if shared else 1]
        # About 32 contexts at once make good products.
        cells = self._rows(self._match_numbers())
        rows = min(count, 32, cells)
        columns = min(total, cells // rows)
        if rows == count and columns == total:
            return self._match(cores, contexts, candidates)
        scores = cores.new_empty(count, total)
        for of_rows in _slices(count, rows):
            for of_columns in _slices(total, columns):
                some = candidates[of_columns] if shared else candidates[of_rows, of_columns]
                scores[of_rows, of_columns] = self._match(cores[of_rows], contexts[of_rows], some)
        return scores

    # Chunks

    @final
    def _rows(self, numbers: int) -> int:
        """How many rows fit into the workspace, `numbers` numbers each."""
        return max(1, self.workspace // (numbers * self.dtype.itemsize))

    @final
    def places(self, contexts: Places, size: int) -> Iterator[tuple[slice, Contexts]]:
        """The contexts in chunks of `size` rows, made from their paths where paths were given."""
        if isinstance(contexts, Contexts) and len(contexts) <= size:
            yield slice(None), contexts
            return
        for rows in _slices(len(contexts), size):
            part = contexts[rows]
            yield rows, part if isinstance(part, Contexts) else self.contexts(part)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _parts(things: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (things[rows] for rows in _slices(len(things), size))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
