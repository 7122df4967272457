"""The protocol that every binding scheme answers. To add one, read this file and write a class with its seven hooks.

A scheme reaches its memory through maps that depend on the context:

    write : core, context   ->  memory    (summed over pairs: memories add)
    read  : memory, context ->  core      (the scheme's unbinding)
    encode: filler, context ->  core      (what a filler looks like inside that context)

    trace = the sum of write(encode(filler, context), context)
    score = match(read(memory, context), context, candidate)

A scheme is a frozen dataclass: its fields are the constructor's arguments, and `parameters`, `like`, equality and repr
follow from them. The hooks `_encode`, `_write`, `_read` and `_match` get chunks of rows that fit into the
workspace and were checked; the verbs of the same names are final. Shapes are checked here, once for all schemes; values
(NaN, infinity) where data enters a `Memory`, because looking at values would break `torch.compile(fullgraph=True)`.
What only memories that are plain sums can do (likelihoods, joint decoding) is in `linear.py`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, final

import torch
from torch import Tensor

from carving import draws
from carving.checks import (
    check_device,
    check_integer,
    check_real_dtype,
    check_tensor,
    listed,
    machine_bytes,
    show_bytes,
)
from carving.chunks import collect, rows_within, slices, tile
from carving.contexts import Contexts
from carving.draws import Bits
from carving.errors import BadType, BadValue
from carving.facts import FILLERS, Facts, check_candidates, check_cores, check_memory
from carving.paths import Paths
from carving.symbols import Leaf, Path, canonical_all

PRECOMPUTED = 8  # workspaces that precomputed candidates may take; more are made again for every chunk of contexts

C = TypeVar("C", bound=Contexts)
ContextsOrPaths = Contexts | Iterable[Path]  # contexts of paths are made chunk by chunk
FillersOrLabels = Tensor | Iterable[Leaf]  # so are fillers of labels


def _fact(name: str, meaning: str) -> Any:
    """A property of a scheme that is one of its facts."""
    return property(lambda scheme: getattr(scheme.facts, name), doc=meaning)


@dataclass(frozen=True, repr=False, kw_only=True)
class Scheme(ABC, Generic[C]):
    """A way of binding fillers to contexts. Small, frozen, and equal to another of the same parameters.

    >>> from carving import OSC
    >>> scheme = OSC(d=40, p=3)
    >>> memory = scheme.trace([("sentence 5", "subject")], ["dog"])
    >>> scores = scheme.score(memory, [("sentence 5", "subject")], scheme.fillers(["cat", "dog"]))
    >>> tuple(memory.shape), int(scores.argmax())
    ((40, 40, 40), 1)
    """

    name: ClassVar[str]
    seed: int = 0
    # Where and how it computes is no part of what a scheme is: dtype, device, and the bytes that one call may use
    # beyond its arguments and its result.
    dtype: torch.dtype = field(default=torch.float32, compare=False)
    device: torch.device | str = field(default="cpu", compare=False)
    workspace: int = field(default=64 * 2**20, compare=False)

    def __post_init__(self) -> None:
        vars(self).update(  # frozen, but not before it is made
            seed=check_integer("seed", self.seed, 0, 2**64 - 1),
            dtype=check_real_dtype(self.dtype),
            device=check_device(self.device),
            workspace=check_integer("workspace", self.workspace, 1, way_out="it is a number of bytes"),
        )
        # Made now, where wrong arguments are told, and not in the middle of a compiled function.
        _ = self.facts, self.room

    # The hooks

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What is true of the scheme; a `cached_property`, because it is asked for often."""

    @abstractmethod
    def _fillers(self, words: Bits) -> Tensor:
        """Fillers from their random bits, on the CPU."""

    @abstractmethod
    def _contexts(self, paths: Paths) -> C:
        """The paths' contexts, a row each, from their canonical bytes (`paths.names`, or `roles`) alone."""

    @abstractmethod
    def _encode(self, fillers: Tensor, contexts: C) -> Tensor:
        """The cores (n, *core_shape) of fillers (n, *filler_shape) in their n contexts; None if not contextual."""

    @abstractmethod
    def _write(self, cores: Tensor, contexts: C) -> Tensor:
        """The memory that cores (n, *core_shape) make in their n contexts, summed: (*memory_shape)."""

    @abstractmethod
    def _read(self, memory: Tensor, contexts: C) -> Tensor:
        """The cores (n, *core_shape) that n contexts show of the memory."""

    @abstractmethod
    def _match(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Scores (n, L) of candidates (L, *filler_shape), or (n, m) of each context's own (n, m, *filler_shape)."""

    def _add(self, memory: Tensor, contexts: C, fillers: Tensor, weights: Tensor | None) -> None:
        """Add n pairs to the memory, in place; a scheme may do this faster than by its other hooks."""
        cores = self._encode(fillers, contexts)
        if weights is not None:
            cores = cores * weights.view(-1, *(1,) * (cores.dim() - 1)).to(cores.dtype)
        memory += self._write(cores, contexts)

    def squared_norm(self, memory: Tensor) -> float:
        """The energy of a memory; that of all ranks, where it is spread over them."""
        return float(torch.linalg.vector_norm(memory).double().square())

    # What the scheme is

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that make the scheme again, dtype, device and workspace aside."""
        names = [entry.name for entry in fields(self) if entry.compare and entry.name != "seed"]
        return {name: getattr(self, name) for name in (*names, "seed")}

    @final
    def like(self, **changes: Any) -> Self:
        """The same scheme with some arguments changed: `scheme.like(dtype=torch.float64)`."""
        own = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        return type(self)(**(own | changes))

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.parameters.items())})"

    filler_shape = _fact("filler_shape", "The shape of one filler.")
    core_shape = _fact("core_shape", "The shape of one core.")
    memory_shape = _fact("memory_shape", "The shape of the memory.")
    memory_dtype = _fact("memory_dtype", "The dtype of memories and cores.")

    @cached_property
    def room(self) -> int:
        """The numbers that the workspace holds."""
        return self.workspace // self.dtype.itemsize

    # Symbols -> tensors

    @final
    def fillers(self, labels: Iterable[Leaf]) -> Tensor:
        """The labels' fillers, (n, *filler_shape): the same for the same label, seed and scheme, for ever."""
        return draw_candidates(self, canonical_all(listed(labels, "labels")))

    @final
    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """As many fillers that no label names, (count, *filler_shape): for experiments."""
        if not isinstance(generator, torch.Generator):
            raise BadType(
                f"generator must be a torch.Generator, got {generator!r}. Pass torch.Generator().manual_seed(0), or "
                "use fillers(labels)."
            )
        return self._drawn(check_integer("count", count, 1), generator).to(self.device)

    def _drawn(self, count: int, generator: torch.Generator) -> Tensor:
        """Fillers of a generator: from words, as labels', where a scheme has no cheaper way."""
        words, fillers = self.facts.filler_words, empty_fillers(self, count, "cpu")
        for rows in slices(count, draws.rows_in_cache(words)):
            fillers[rows] = self._fillers(draws.bits_from(generator, rows.stop - rows.start, words))
        return fillers

    @final
    def contexts(self, paths: Iterable[Path]) -> C:
        """The paths' contexts, a row each: the same for the same path, seed and scheme, for ever."""
        return draw_contexts(self, Paths.of(paths))

    @final
    def chunks_of(self, contexts: ContextsOrPaths, size: int) -> Iterator[tuple[slice, C]]:
        """The contexts in chunks of at most `size` rows, made from their paths where paths were given."""
        if isinstance(contexts, Contexts):
            whole = own_contexts(self, contexts)
            if len(whole) <= size:
                yield slice(0, len(whole)), whole
                return
            for rows in slices(len(whole), size):
                yield rows, whole[rows]
            return
        paths, cost = Paths.of(contexts), self.facts.cost
        numbers = cost.context + cost.role * (max(map(len, paths)) - 1)
        size = min(size, rows_within(self.room, numbers))
        for rows in slices(len(paths), size):
            yield rows, draw_contexts(self, paths[rows] if len(paths) > size else paths)

    @final
    def zeros(self) -> Tensor:
        """An empty memory."""
        shape, dtype = self.facts.memory_shape, self.facts.memory_dtype
        size, limit = math.prod(shape) * dtype.itemsize, machine_bytes(torch.device(self.device))
        if limit is not None and size > limit:
            raise BadValue(
                f"A memory of shape {shape} takes {show_bytes(size)}, but {self.device} has {show_bytes(limit)}. "
                "Choose a smaller dimension or order."
            )
        return torch.zeros(shape, dtype=dtype, device=self.device)

    # The verbs

    @final
    def encode(self, fillers: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """The cores (n, *core_shape) of n fillers in their n contexts."""
        own = own_contexts(self, contexts)
        check_tensor("fillers", fillers, (len(own), *self.facts.filler_shape), FILLERS)
        return self._encode(fillers, own)

    @final
    def write(self, cores: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """The memory that n cores make in their n contexts, summed."""
        own = own_contexts(self, contexts)
        check_cores(self.facts, cores, len(own))
        memory = self.zeros()
        for rows, part in self.chunks_of(own, self.facts.cost.reads_at_once(self.room)):
            memory = memory + self._write(cores[rows], part)
        return memory

    @final
    def read(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """The cores (n, *core_shape) that n contexts show of the memory."""
        return read_in_chunks(self, self._read, memory, contexts)

    @final
    def match(self, cores: Tensor, contexts: ContextsOrPaths | None, candidates: Tensor) -> Tensor:
        """How well candidates fit the cores: (n, L) for L shared candidates, (n, m) for m of each context's own.

        Where fillers look the same in every context (`facts.contextual` is False), contexts may be None.
        """
        if contexts is None and self.facts.contextual:
            raise BadValue(f"contexts must not be None: {self.name} encodes a filler differently in every context")
        own = None if contexts is None else own_contexts(self, contexts)
        return match_in_tiles(self, self._match, cores, own, candidates)

    @final
    def precompute(self, candidates: Tensor) -> Tensor:
        """Shared candidates as matching takes them fastest, if those are not too large to be held."""
        check_candidates(self.facts, candidates, 0)
        size = len(candidates) * self.facts.code_size
        if candidates.dim() == 2 or not 0 < size <= PRECOMPUTED * self.room:
            return candidates
        return self._encode(candidates, cast(C, None)).flatten(1)

    @final
    def trace(self, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None) -> Tensor:
        """The memory of n pairs: their bound fillers, weighted and summed. Traces of two batches add."""
        return self.add(self.zeros(), contexts, fillers, weights)

    @final
    def add(
        self, memory: Tensor, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None
    ) -> Tensor:
        """The memory with n pairs more, added in place."""
        check_memory(self.facts, memory)
        # All labels are looked at before anything is added, so that a bad one leaves the memory as it was.
        contexts = contexts if isinstance(contexts, Contexts | Paths) else Paths.of(contexts)
        count = len(contexts)
        names: list[bytes] = []
        if isinstance(fillers, Tensor):
            check_tensor("fillers", fillers, (count, *self.facts.filler_shape), FILLERS)
        else:
            names = canonical_all(listed(fillers, "labels"))
            if len(names) != count:
                raise BadValue(
                    f"Every context needs one filler, got {count} contexts and {len(names)} labels. "
                    "Repeat a context that holds several fillers, once for each."
                )
        if weights is not None:
            check_tensor("weights", weights, (count,), "pass one weight for each pair")
            weights = weights.to(self.dtype)
        for rows, part in self.chunks_of(contexts, self.facts.cost.pairs_at_once(self.room)):
            chosen = fillers[rows] if isinstance(fillers, Tensor) else draw_fillers(self, names[rows])
            self._add(memory, part, chosen, None if weights is None else weights[rows])
        return memory

    @final
    def score(self, memory: Tensor, contexts: ContextsOrPaths, candidates: Tensor) -> Tensor:
        """How strongly the memory holds the candidates: (n, L), or (n, m) where each context has its own."""
        # Candidates that are alike in all contexts are matched with many at once, more than are read at once.
        size = rows_within(self.room, 2 * self.facts.code_size or self.facts.cost.core)
        if isinstance(contexts, Contexts) and len(contexts) <= size:  # most often
            cores = read_in_chunks(self, self._read, memory, contexts)
            return match_in_tiles(self, self._match, cores, cast(C, contexts), candidates)
        check_memory(self.facts, memory)
        contexts = contexts if isinstance(contexts, Contexts) else Paths.of(contexts)
        shared = check_candidates(self.facts, candidates, len(contexts))
        parts = (
            (rows, self.match(self.read(memory, part), part, candidates if shared else candidates[rows]))
            for rows, part in self.chunks_of(contexts, size)
        )
        return collect(len(contexts), parts)


# Steps in chunks that fit into the workspace

REPEATED = 0.1  # the share of labels that must come again to be worth drawing each once and copying it


def draw_contexts(scheme: Scheme[C], paths: Paths) -> C:
    """The contexts of paths, each distinct one drawn once."""
    if len(set(paths.names)) > (1 - REPEATED) * len(paths):
        return scheme._contexts(paths)
    distinct, which = paths.distinct()
    return scheme._contexts(distinct)[torch.tensor(which)]


def draw_fillers(scheme: Scheme, names: Sequence[bytes]) -> Tensor:
    """The fillers of labels whose canonical bytes are known, each distinct one drawn once: row by row, to be bound."""
    distinct = set(names)
    if len(distinct) <= (1 - REPEATED) * len(names):
        places = {name: place for place, name in enumerate(distinct)}
        return draw_fillers(scheme, list(distinct))[[places[name] for name in names]]
    shape = len(names), *scheme.facts.filler_shape
    return _drawn(scheme, names, torch.empty(shape, dtype=scheme.facts.filler_dtype, device="cpu"))


def draw_candidates(scheme: Scheme, names: Sequence[bytes]) -> Tensor:
    """The same, laid out as matching reads them."""
    return _drawn(scheme, names, empty_fillers(scheme, len(names), "cpu"))


def _drawn(scheme: Scheme, names: Sequence[bytes], fillers: Tensor) -> Tensor:
    words = scheme.facts.filler_words
    for rows in slices(len(names), draws.rows_in_cache(words)):
        fillers[rows] = scheme._fillers(draws.bits(names[rows], words, seed=scheme.seed, purpose="filler"))
    return fillers.to(scheme.device)


def empty_fillers(scheme: Scheme, count: int, device: torch.device | str) -> Tensor:
    """Room for fillers, laid out as matching reads them."""
    facts = scheme.facts
    shape, layout = (count, *facts.filler_shape), facts.filler_layout or range(1 + len(facts.filler_shape))
    laid = torch.empty([shape[i] for i in layout], dtype=facts.filler_dtype, device=device)
    return laid.permute([layout.index(i) for i in range(len(shape))])


def own_contexts(scheme: Scheme[C], contexts: ContextsOrPaths) -> C:
    """Contexts of this scheme, made from their paths where paths were given."""
    if not isinstance(contexts, Contexts):
        return scheme.contexts(contexts)
    if contexts.kind != scheme.facts.context_kind:
        raise BadValue(
            f"contexts must belong to {scheme}, got contexts of another scheme. Create them with its contexts(paths)."
        )
    if not len(contexts):
        raise BadValue("contexts must not be empty. Pass at least one.")
    return cast(C, contexts)


def read_in_chunks(
    scheme: Scheme[C], reads: Callable[[Tensor, C], Tensor], memory: Tensor, contexts: ContextsOrPaths
) -> Tensor:
    """The cores that a way of reading gives."""
    check_memory(scheme.facts, memory)
    size = scheme.facts.cost.reads_at_once(scheme.room)
    if isinstance(contexts, Contexts) and len(contexts) <= size:  # most often
        return reads(memory, own_contexts(scheme, contexts))
    contexts = contexts if isinstance(contexts, Contexts) else Paths.of(contexts)
    chunks = scheme.chunks_of(contexts, size)
    return collect(len(contexts), ((rows, reads(memory, part)) for rows, part in chunks))


def match_in_tiles(
    scheme: Scheme[C],
    matches: Callable[[Tensor, C, Tensor], Tensor],
    cores: Tensor,
    contexts: C | None,
    candidates: Tensor,
) -> Tensor:
    """The scores that a way of matching gives."""
    count = cores.shape[0] if contexts is None else len(contexts)
    check_cores(scheme.facts, cores, count)
    shared = check_candidates(scheme.facts, candidates, count)
    total = candidates.shape[0 if shared else 1]
    rows, columns = tile(scheme.facts.cost, scheme.room, count, total)
    if rows >= count and columns >= total:
        return matches(cores, cast(C, contexts), candidates)
    scores = torch.empty(count, total, dtype=scheme.dtype, device=cores.device)
    for of_rows in slices(count, rows):
        part = cast(C, None if contexts is None else contexts[of_rows])
        for of_columns in slices(total, columns):
            chosen = candidates[of_columns] if shared else candidates[of_rows, of_columns]
            scores[of_rows, of_columns] = matches(cores[of_rows], part, chosen)
    return scores
