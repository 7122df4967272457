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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, final

import torch
from torch import Tensor

from carving import draws, symbols
from carving.checks import as_path, check_tensor, listed, machine_bytes, show_bytes
from carving.chunks import slices
from carving.draws import Bits
from carving.errors import BadValue
from carving.symbols import Leaf, Path


@dataclass(frozen=True, eq=False)
class Contexts:
    """What a scheme makes of role paths: one row a context, every field a tensor with that many rows."""

    def changed(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The contexts with every tensor changed alike."""
        return replace(self, **{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def __len__(self) -> int:
        first: Tensor = getattr(self, fields(self)[0].name)
        return first.shape[0]

    def __getitem__(self, rows: int | slice | Tensor | list[int]) -> Self:
        """The contexts of these rows; one integer gives one row."""
        if not isinstance(rows, slice | list) and (isinstance(rows, int) or getattr(rows, "ndim", 1) == 0):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"there are {len(self)} contexts, got row {row}")
            rows = slice(row, row + 1 or None)
        return self.changed(lambda tensor: tensor[rows])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same contexts on another device or in another dtype, as `Tensor.to`; integers stay integers."""

        def moved(tensor: Tensor) -> Tensor:
            made = tensor.to(*args, **kwargs)
            return made if tensor.is_floating_point() else made.to(tensor.dtype)

        return self.changed(moved)

    @property
    def nbytes(self) -> int:
        """The bytes that the tensors hold."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


Places = Contexts | Iterable[Path]  # paths will do for contexts; they are then made chunk by chunk
Symbols = Tensor | Iterable[Leaf]  # likewise labels for fillers

HELD = 8  # workspaces that candidates made ready may take; those of more are made again and again
FILLERS = "fillers(labels) makes them"
CORES = "read(memory, contexts) and encode(fillers, contexts) make them"


@dataclass(frozen=True)
class Facts:
    """What is true of a scheme; each is tested both ways."""

    exact: bool  # reading the memory of a single pair gives the filler's core
    adjoint: bool  # read is the transpose of write
    self_inverse: bool  # binding twice with a role undoes it
    commutative: bool  # bind(a, b) = bind(b, a)
    associative: bool  # bind(bind(a, b), c) = bind(a, bind(b, c))
    contextual: bool  # encode depends on the context, not on the filler alone
    linear: bool  # the memory is read as the sum that it is, of traces with mean zero: likelihoods hold
    filler_scalars: int  # real numbers (or bits, or indices) that a filler is
    memory_scalars: int  # real numbers that a memory holds
    # The variance that one stored pair gives the scores of other contexts, in units of 1 / memory_scalars: a pair with
    # another filler than the candidate, and one with the same.
    interference: float = 1.0
    echo: float = 1.0


@dataclass(frozen=True)
class Scheme(ABC):
    """A way of binding fillers to contexts. Small, frozen, and equal to another of the same identity.

    The verbs are final and check what comes in; a scheme supplies the underscored ones.
    """

    # workspace: the bytes that one call may use beyond its arguments and its result. Like dtype and device it is no
    # part of the identity.
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
    def memory_dtype(self) -> torch.dtype:
        """The dtype of the memory."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What is true of the scheme."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What makes the scheme the one it is: the arguments that make it again, dtype, device and workspace aside."""

    @final
    def like(self, **changes: Any) -> Self:
        """The same scheme with some arguments changed: `scheme.like(dtype=torch.float64)`."""
        where = dict(dtype=self.dtype, device=self.device, workspace=self.workspace)
        return type(self)(**(self.parameters | where | changes))

    @property
    def code(self) -> int:
        """The numbers of a candidate that `ready` made; 0 where it leaves candidates as they are."""
        return 0

    @property
    @abstractmethod
    def _filler_words(self) -> int: ...

    @abstractmethod
    def _fillers(self, words: Bits) -> Tensor:
        """Fillers from their random bits, on the CPU, in the scheme's dtype."""

    @abstractmethod
    def _empty_fillers(self, count: int) -> Tensor:
        """Room for fillers, laid out as `_match` likes them."""

    @abstractmethod
    def _contexts(self, paths: Sequence[Path]) -> Contexts: ...

    @abstractmethod
    def _fit(self, contexts: Contexts) -> bool:
        """Whether the contexts are this scheme's, by their type and shape."""

    @abstractmethod
    def _encode(self, fillers: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _write(self, cores: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _read(self, memory: Tensor, contexts: Any) -> Tensor: ...

    @abstractmethod
    def _match(self, cores: Tensor, contexts: Any, candidates: Tensor) -> Tensor:
        """Scores (n, L) of candidates for all contexts, or (n, m) of each context's own candidates."""

    def _codes(self, candidates: Tensor) -> Tensor:
        """The candidates' flat cores, where those are the same in every context."""
        return self._encode(candidates, None).flatten(1)

    def _adjoint(self, memory: Tensor, contexts: Any) -> Tensor:
        """The transpose of `_write`; `_read`, for most schemes."""
        return self._read(memory, contexts)

    def _inner(self, cores: Tensor, contexts: Any, candidates: Tensor) -> Tensor:
        """Inner products with the candidates' cores, shaped as `_match`, which is the same for most schemes."""
        return self._match(cores, contexts, candidates)

    def _energy(self, contexts: Any, candidates: Tensor) -> Tensor:
        """The squared norms of bound candidates, to be broadcast to (n, L) or (n, m); 1, for most schemes."""
        return torch.ones(1, 1, dtype=self.dtype, device=candidates.device)

    def _loudness(self, cores: Tensor, contexts: Any, candidates: Tensor, energy: Tensor) -> Tensor | None:
        """The memory's squared norm along bound candidates, shaped as energies; None where every direction is alike."""
        return None

    def _returned(self, cores: Tensor, contexts: Any) -> Tensor:
        """What comes back of cores that are written and taken by the transpose; themselves, for most schemes."""
        return cores

    def _evened(self, memory: Tensor) -> Tensor:
        """The memory without what it is much louder in than elsewhere, whatever was stored; for most schemes, all."""
        return memory

    def _mixed(self, weights: Tensor, contexts: Any, candidates: Tensor) -> Tensor:
        """Sums (n, *core_shape) of the candidates' cores with weights (n, L)."""
        if not self.facts.contextual:
            codes = candidates if self.code and candidates.dim() == 2 else self._codes(candidates)
            return (weights.to(codes.dtype) @ codes).view(-1, *self.core_shape)
        sums = []  # fillers look different in every context: one after the other
        for row, weight in enumerate(weights):
            place = contexts.changed(
                lambda tensor, row=row: tensor[row : row + 1].expand(len(candidates), *tensor.shape[1:])
            )
            sums.append(torch.tensordot(weight.to(self.memory_dtype), self._encode(candidates, place), 1))
        return torch.stack(sums)

    @abstractmethod
    def _add(self, memory: Tensor, contexts: Any, fillers: Tensor, weights: Tensor | None) -> None:
        """Add the pairs to the memory, in place."""

    @abstractmethod
    def _pair_numbers(self) -> int:
        """How many numbers `_add` needs beside each other for one pair."""

    @abstractmethod
    def _core_numbers(self) -> int:
        """How many numbers `_read` and `_write` need beside each other for one context."""

    @abstractmethod
    def _context_numbers(self, depth: int) -> int:
        """How many numbers making one context from a path of so many roles takes."""

    @abstractmethod
    def _tile(self, rows: int, columns: int) -> tuple[int, int]:
        """How many of these contexts and candidates `_match` takes at once within the workspace."""

    # Symbols -> tensors

    @final
    def fillers(self, labels: Iterable[Leaf]) -> Tensor:
        """The labels' fillers, (n, *filler_shape): the same for the same label, seed and scheme, for ever."""
        names = [symbols.canonical(label) for label in listed(labels, "labels")]
        made = self._empty_fillers(len(names))
        for rows in slices(len(names), draws.rows_in_cache(self._filler_words)):
            made[rows] = self._fillers(draws.bits(names[rows], self._filler_words, seed=self.seed, purpose="filler"))
        return made.to(self.device)

    @final
    def joined(self, *parts: Tensor) -> Tensor:
        """Fillers after fillers, laid out as `fillers` lays them out."""
        made = self._empty_fillers(sum(map(len, parts))).to(self.device)
        start = 0
        for part in parts:
            made[start : start + len(part)] = part
            start += len(part)
        return made

    @final
    def random(self, count: int, generator: torch.Generator) -> Tensor:
        """As many fillers that no label names, (count, *filler_shape): for experiments."""
        made = self._empty_fillers(count)
        for rows in slices(count, draws.rows_in_cache(self._filler_words)):
            made[rows] = self._fillers(draws.bits_from(generator, rows.stop - rows.start, self._filler_words))
        return made.to(self.device)

    @final
    def contexts(self, paths: Iterable[Path]) -> Contexts:
        """The paths' contexts, a row each: the same for the same path, seed and scheme, for ever."""
        return self._contexts([as_path(path) for path in listed(paths, "paths")])

    @final
    def zeros(self) -> Tensor:
        """An empty memory."""
        size = math.prod(self.memory_shape) * self.memory_dtype.itemsize
        limit = machine_bytes(self.device)
        if limit is not None and size > limit:
            raise BadValue(
                f"a memory of shape {self.memory_shape} takes {show_bytes(size)}, but {self.device} has "
                f"{show_bytes(limit)}; choose a smaller dimension or order"
            )
        return torch.zeros(self.memory_shape, dtype=self.memory_dtype, device=self.device)

    # The verbs

    @final
    def encode(self, fillers: Tensor, contexts: Places) -> Tensor:
        """The cores (n, *core_shape) of n fillers in their n contexts."""
        contexts = self._made(contexts)
        check_tensor("fillers", fillers, (len(contexts), *self.filler_shape), FILLERS)
        return self._encode(fillers, contexts)

    @final
    def write(self, cores: Tensor, contexts: Places) -> Tensor:
        """The memory that n cores make in their n contexts, summed."""
        contexts = self._made(contexts)
        check_tensor("cores", cores, (len(contexts), *self.core_shape), CORES, self.memory_dtype)
        memory = self.zeros()
        for rows in slices(len(contexts), self._rows(self._core_numbers())):
            memory = memory + self._write(cores[rows], contexts[rows])
        return memory

    @final
    def read(self, memory: Tensor, contexts: Places) -> Tensor:
        """The cores (n, *core_shape) that n contexts show of the memory."""
        self._check_memory(memory)
        return self._cores(memory, contexts, self._read)

    @final
    def _cores(self, memory: Tensor, contexts: Places, how: Callable[[Tensor, Contexts], Tensor]) -> Tensor:
        contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
        size = self._rows(self._core_numbers())
        if isinstance(contexts, Contexts) and len(contexts) <= size:
            return how(memory, self._made(contexts))
        cores = torch.empty(len(contexts), *self.core_shape, dtype=self.memory_dtype, device=memory.device)
        for rows, part in self.places(contexts, size):
            cores[rows] = how(memory, part)
        return cores

    @final
    def match(self, cores: Tensor, contexts: Places | None, candidates: Tensor) -> Tensor:
        """How well candidates fit the cores: (n, L) for L shared candidates, (n, m) for m of each context's own.

        Where fillers look the same in every context (`facts.contextual` is False), contexts may be None.
        """
        if contexts is None and self.facts.contextual:
            raise BadValue("fillers look different in every context of this scheme; give the cores' contexts")
        made = None if contexts is None else self._made(contexts)
        count = cores.shape[0] if made is None else len(made)
        check_tensor("cores", cores, (count, *self.core_shape), CORES, self.memory_dtype)
        shared = self._check_candidates(candidates, count)
        return self._match_tiles(cores, made, candidates, shared)

    @final
    def ready(self, candidates: Tensor) -> Tensor:
        """Shared candidates as `match` and `inner` take them fastest, if those are not too large to be held."""
        self._check_candidates(candidates, 0)
        size = len(candidates) * self.code * self.dtype.itemsize
        return self._codes(candidates) if 0 < size <= HELD * self.workspace and candidates.dim() != 2 else candidates

    # What likelihoods are made of: <memory, bound candidate> and |bound candidate|^2

    @final
    def adjoint(self, memory: Tensor, contexts: Places) -> Tensor:
        """The cores (n, *core_shape) that the transpose of `write` gives; where `facts.adjoint` holds, `read`."""
        self._check_memory(memory)
        return self._cores(memory, contexts, self._adjoint)

    @final
    def inner(self, cores: Tensor, contexts: Contexts, candidates: Tensor) -> Tensor:
        """Inner products (n, L) or (n, m) of the cores with the candidates': `match` without any normalisation."""
        check_tensor("cores", cores, (len(contexts), *self.core_shape), CORES, self.memory_dtype)
        shared = self._check_candidates(candidates, len(contexts))
        return self._match_tiles(cores, contexts, candidates, shared, self._inner)

    @final
    def energy(self, contexts: Contexts, candidates: Tensor) -> Tensor:
        """The squared norms of the candidates bound in the contexts, to be broadcast to (n, L) or (n, m)."""
        self._check_candidates(candidates, len(contexts))
        return self._energy(self._made(contexts), candidates)

    @final
    def loudness(self, cores: Tensor, contexts: Contexts, candidates: Tensor, energy: Tensor) -> Tensor | None:
        """The squared norm of a memory that is as loud everywhere as it is along the candidates; None if it is alike.

        Where binding changes norms, roles that many pairs share colour the interference. What the contexts' adjoint
        cores and the candidates' energies tell of it.
        """
        return self._loudness(cores, contexts, candidates, energy)

    @final
    def returned(self, cores: Tensor, contexts: Contexts) -> Tensor:
        """What `adjoint` gives back of each core, written alone: by as much `adjoint` falls when it is taken out."""
        check_tensor("cores", cores, (len(contexts), *self.core_shape), CORES, self.memory_dtype)
        return self._returned(cores, contexts)

    # What joint decoding takes beside them

    @final
    def mixed(self, weights: Tensor, contexts: Contexts, candidates: Tensor) -> Tensor:
        """What each context's core is expected to be: the candidates' cores there, summed with weights (n, L)."""
        self._check_candidates(candidates, 0)
        check_tensor("weights", weights, (len(contexts), len(candidates)), "give one for each candidate")
        rows, columns = self._tile(len(contexts), len(candidates))
        cores = torch.zeros(len(contexts), *self.core_shape, dtype=self.memory_dtype, device=weights.device)
        for of_rows in slices(len(contexts), rows):
            for of_columns in slices(len(candidates), columns):
                cores[of_rows] += self._mixed(weights[of_rows, of_columns], contexts[of_rows], candidates[of_columns])
        return cores

    @final
    def evened(self, memory: Tensor) -> Tensor:
        """The memory without the few directions in which any memory is far louder than in the rest."""
        self._check_memory(memory)
        return self._evened(memory)

    @final
    def trace(self, contexts: Places, fillers: Symbols, weights: Tensor | None = None) -> Tensor:
        """The memory of n pairs: their bound fillers, weighted and summed. Traces of two batches add."""
        contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
        count = len(contexts)
        if isinstance(fillers, Tensor):
            check_tensor("fillers", fillers, (count, *self.filler_shape), FILLERS)
        else:
            fillers = listed(fillers, "labels")
            if len(fillers) != count:
                raise BadValue(
                    f"every context needs one filler, got {count} contexts and {len(fillers)} labels; "
                    "a context that holds several fillers is given once for each"
                )
        if weights is not None:
            check_tensor("weights", weights, (count,), "there is one weight a pair")
            weights = weights.to(self.dtype)
        memory = self.zeros()
        for rows, part in self.places(contexts, self._rows(self._pair_numbers())):
            some = fillers[rows] if isinstance(fillers, Tensor) else self.fillers(fillers[rows])
            self._add(memory, part, some, None if weights is None else weights[rows])
        return memory

    @final
    def score(self, memory: Tensor, contexts: Places, candidates: Tensor) -> Tensor:
        """How strongly the memory holds the candidates: (n, L), or (n, m) where each context has its own."""
        self._check_memory(memory)
        contexts = contexts if isinstance(contexts, Contexts) else listed(contexts, "paths")
        shared = self._check_candidates(candidates, len(contexts))
        # Candidates that are alike in all contexts are matched with many at once, more than are read at once.
        size = self._rows(2 * self.code or self._core_numbers())
        if isinstance(contexts, Contexts) and len(contexts) <= size:
            made = self._made(contexts)
            return self._match_tiles(self._cores(memory, made, self._read), made, candidates, shared)
        total = candidates.shape[0 if shared else 1]
        scores = torch.empty(len(contexts), total, dtype=self.dtype, device=memory.device)
        for rows, part in self.places(contexts, size):
            some = candidates if shared else candidates[rows]
            scores[rows] = self._match_tiles(self._cores(memory, part, self._read), part, some, shared)
        return scores

    @final
    def _match_tiles(
        self,
        cores: Tensor,
        contexts: Contexts | None,
        candidates: Tensor,
        shared: bool,
        how: Callable[[Tensor, Any, Tensor], Tensor] | None = None,
    ) -> Tensor:
        how = how or self._match
        count, total = cores.shape[0], candidates.shape[0 if shared else 1]
        rows, columns = self._tile(count, total)
        if rows == count and columns == total:
            return how(cores, contexts, candidates)
        scores = torch.empty(count, total, dtype=self.dtype, device=cores.device)
        for of_rows in slices(count, rows):
            for of_columns in slices(total, columns):
                some = candidates[of_columns] if shared else candidates[of_rows, of_columns]
                places = None if contexts is None else contexts[of_rows]
                scores[of_rows, of_columns] = how(cores[of_rows], places, some)
        return scores

    # Checks

    @final
    def _check_memory(self, memory: Tensor) -> None:
        way_out = "a memory of this scheme comes from its trace(...) or zeros()"
        check_tensor("memory", memory, self.memory_shape, way_out, self.memory_dtype)

    @final
    def _check_candidates(self, candidates: Tensor, contexts: int) -> bool:
        """Whether the candidates are shared by all contexts; if not, each has its own."""
        own = isinstance(candidates, Tensor) and candidates.dim() == len(self.filler_shape) + 2
        shape = (*((contexts, -1) if own else (-1,)), *self.filler_shape)
        if self.code and isinstance(candidates, Tensor) and candidates.dim() == 2:
            shape = (-1, self.code)
        check_tensor("candidates", candidates, shape, FILLERS)
        return not own

    @final
    def _made(self, contexts: Places) -> Contexts:
        """Contexts of this scheme, made from their paths where paths were given."""
        if not isinstance(contexts, Contexts):
            return self.contexts(contexts)
        if not self._fit(contexts):
            raise BadValue(f"the contexts are not of {self}; its own contexts(paths) makes the right ones")
        if not len(contexts):
            raise BadValue("contexts must not be empty: give at least one")
        return contexts

    # Chunks

    @final
    def _rows(self, numbers: int) -> int:
        """How many rows fit into the workspace, `numbers` numbers each."""
        return max(1, self.workspace // (numbers * self.dtype.itemsize))

    @final
    def places(self, contexts: Places, size: int) -> Iterator[tuple[slice, Contexts]]:
        """The contexts in chunks of `size` rows, made from their paths where paths were given."""
        if isinstance(contexts, Contexts):
            made = self._made(contexts)
            if len(made) <= size:
                yield slice(None), made
                return
            for rows in slices(len(made), size):
                yield rows, made[rows]
        else:
            paths = [as_path(path) for path in listed(contexts, "paths")]
            deepest = max(map(len, paths))
            for rows in slices(len(paths), min(size, self._rows(self._context_numbers(deepest)))):
                yield rows, self.contexts(paths[rows])
