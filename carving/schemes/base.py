"""The base class of binding schemes. To add a scheme, write a subclass with the seven abstract methods.

A scheme reaches its memory through maps that depend on the context:

    write : core, context   ->  memory    (summed over pairs: memories add)
    read  : memory, context ->  core      (the scheme's unbinding)
    encode: filler, context ->  core      (the coordinates of the filler inside the context)

    trace = the sum of write(encode(filler, context), context)
    score = match(read(memory, context), context, candidate)

A scheme is a frozen dataclass: its fields are the constructor's arguments, and `parameters`, `like`, equality and repr
follow from them. The hooks `_encode`, `_write`, `_read` and `_match` receive validated chunks of rows that fit into the
workspace; the public methods of these names are final. Shapes are validated here, for all schemes. Values (NaN,
infinity) are validated where data enters a `Memory`: reading values would break `torch.compile(fullgraph=True)`.
`linear.py` has what needs a memory that is a plain sum (likelihoods, joint decoding).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, final

import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.schemes.contexts import Contexts
from carving.schemes.facts import FILLERS, Facts, check_candidates, check_cores, check_memory
from carving.symbols.codec import Path, Value, canonical_values
from carving.symbols.paths import Paths
from carving.tiling import collect, rows_within, slices, tile
from carving.validate import (
    check_device,
    check_integer,
    check_real_dtype,
    check_tensor,
    listed,
    machine_bytes,
    show_bytes,
)

PRECOMPUTED = 8  # workspaces that precomputed candidates may take; more are made again for every chunk of contexts

C = TypeVar("C", bound=Contexts)
ContextsOrPaths = Contexts | Iterable[Path]  # contexts of paths are made chunk by chunk
FillersOrLabels = Tensor | Iterable[Value]  # so are fillers of labels


def _fact(name: str, meaning: str) -> Any:
    """Return a property that reads one of the scheme's facts."""
    return property(lambda scheme: getattr(scheme.facts, name), doc=meaning)


@dataclass(frozen=True, repr=False, kw_only=True)
class Scheme(ABC, Generic[C]):
    """A way of binding fillers to contexts: the base class of OSC, TPR and the VSAs.

    Schemes are immutable, hold no data, and compare equal if their parameters are equal. Labels and paths determine
    fillers and contexts: equal labels, parameters and seeds give equal tensors, in every process and version.

    Args:
        seed: Seed of all fillers and contexts, from 0 to 2**64 - 1.
        dtype: `torch.float32` or `torch.float64`.
        device: Device of all tensors that the scheme creates.
        workspace: Bytes that one call may use beyond its arguments and its result. Work is split into chunks that fit.

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
        """Shapes, costs and laws of the scheme; define it as a `cached_property`, because it is read often."""

    @abstractmethod
    def _fillers(self, words: Bits) -> Tensor:
        """Return fillers (n, *filler_shape) made from random bits, on the CPU."""

    @abstractmethod
    def _contexts(self, paths: Paths) -> C:
        """Return the contexts of the paths, one row each, from their canonical bytes (`paths.names` or `roles`)."""

    @abstractmethod
    def _encode(self, fillers: Tensor, contexts: C) -> Tensor:
        """Return the cores (n, *core_shape) of fillers (n, *filler_shape); contexts may be None if not contextual."""

    @abstractmethod
    def _write(self, cores: Tensor, contexts: C) -> Tensor:
        """Return the sum (*memory_shape) of cores (n, *core_shape) written into their n contexts."""

    @abstractmethod
    def _read(self, memory: Tensor, contexts: C) -> Tensor:
        """Return the cores (n, *core_shape) that unbinding n contexts gives."""

    @abstractmethod
    def _match(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return scores (n, L) of shared candidates (L, *filler_shape), or (n, m) of own ones (n, m, *filler_shape)."""

    def _add(self, memory: Tensor, contexts: C, fillers: Tensor, weights: Tensor | None) -> None:
        """Add n pairs to the memory in place; override it where there is a faster way than `_encode` and `_write`."""
        cores = self._encode(fillers, contexts)
        if weights is not None:
            cores = cores * weights.view(-1, *(1,) * (cores.dim() - 1)).to(cores.dtype)
        memory += self._write(cores, contexts)

    def squared_norm(self, memory: Tensor) -> float:
        """Return the squared norm of a memory, over all ranks where it is split into rows."""
        return float(torch.linalg.vector_norm(memory).double().square())

    # What the scheme is

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments that define the scheme, without dtype, device and workspace."""
        names = [entry.name for entry in fields(self) if entry.compare and entry.name != "seed"]
        return {name: getattr(self, name) for name in (*names, "seed")}

    @final
    def like(self, **changes: Any) -> Self:
        """Return a copy of the scheme with some arguments changed.

        >>> from carving import OSC
        >>> OSC(d=40).like(seed=1)
        OSC(d=40, p=2, k1=6, signed=True, basis='blocks', seed=1)
        """
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
        """The number of elements of `dtype` that fit into the workspace."""
        return self.workspace // self.dtype.itemsize

    # Symbols -> tensors

    @final
    def fillers(self, labels: Iterable[Value]) -> Tensor:
        """Return the fillers of labels, (n, *filler_shape).

        A filler depends only on its label, the scheme's parameters and the seed; it never changes between versions.

        Args:
            labels: n labels, such as strings or integers.
        """
        return draw_candidates(self, canonical_values(listed(labels, "labels")))

    @final
    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Return random fillers without labels, (count, *filler_shape), for experiments.

        Raises:
            TypeError: `generator` is not a `torch.Generator`.
        """
        if not isinstance(generator, torch.Generator):
            raise BadType(
                f"generator must be a torch.Generator, got {generator!r}. Pass torch.Generator().manual_seed(0), or "
                "use fillers(labels)."
            )
        return self._drawn(check_integer("count", count, 1), generator).to(self.device)

    def _drawn(self, count: int, generator: torch.Generator) -> Tensor:
        """Return fillers drawn by a generator; override it where there is a faster way than random words."""
        words, fillers = self.facts.filler_words, empty_fillers(self, count, "cpu")
        for rows in slices(count, hashing.rows_in_cache(words)):
            fillers[rows] = self._fillers(hashing.bits_from(generator, rows.stop - rows.start, words))
        return fillers

    @final
    def contexts(self, paths: Iterable[Path]) -> C:
        """Return the contexts of paths, one row each.

        A context depends only on its path, the scheme's parameters and the seed; it never changes between versions.

        Args:
            paths: n tuples of labels, such as `("sentence 5", "subject")`.
        """
        return draw_contexts(self, Paths.of(paths))

    @final
    def chunks_of(self, contexts: ContextsOrPaths, size: int) -> Iterator[tuple[slice, C]]:
        """Yield (rows, contexts) in chunks of at most `size` rows; contexts of paths are created chunk by chunk."""
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
        """Return an empty memory, (*memory_shape).

        Raises:
            ValueError: The memory would not fit into the machine's memory.
        """
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
        """Return the cores (n, *core_shape) of fillers (n, *filler_shape) in their n contexts."""
        own = own_contexts(self, contexts)
        check_tensor("fillers", fillers, (len(own), *self.facts.filler_shape), FILLERS)
        return self._encode(fillers, own)

    @final
    def write(self, cores: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the sum (*memory_shape) of cores (n, *core_shape) written into their n contexts."""
        own = own_contexts(self, contexts)
        check_cores(self.facts, cores, len(own))
        memory = self.zeros()
        for rows, part in self.chunks_of(own, self.facts.cost.reads_at_once(self.room)):
            memory = memory + self._write(cores[rows], part)
        return memory

    @final
    def read(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (n, *core_shape) that unbinding n contexts from the memory gives."""
        return read_in_chunks(self, self._read, memory, contexts)

    @final
    def match(self, cores: Tensor, contexts: ContextsOrPaths | None, candidates: Tensor) -> Tensor:
        """Return how well candidates fit the cores.

        Args:
            cores: (n, *core_shape), from `read` or `encode`.
            contexts: The n contexts or paths of the cores. May be None where the encoding of a filler does not depend
                on its context (`facts.contextual` is False).
            candidates: (L, *filler_shape), shared by all contexts, or (n, m, *filler_shape), m for each context.

        Returns:
            Scores (n, L) or (n, m).
        """
        if contexts is None and self.facts.contextual:
            raise BadValue(f"contexts must not be None: {self.name} encodes a filler differently in every context")
        own = None if contexts is None else own_contexts(self, contexts)
        return match_in_tiles(self, self._match, cores, own, candidates)

    @final
    def precompute(self, candidates: Tensor) -> Tensor:
        """Return shared candidates in the form that `match` reads fastest; unchanged if that would be too large."""
        check_candidates(self.facts, candidates, 0)
        size = len(candidates) * self.facts.code_size
        if candidates.dim() == 2 or not 0 < size <= PRECOMPUTED * self.room:
            return candidates
        return self._encode(candidates, cast(C, None)).flatten(1)

    @final
    def trace(self, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None) -> Tensor:
        """Return the memory of n pairs: the weighted sum of their bound fillers.

        Traces are additive: the trace of two batches is the sum of their traces.

        Args:
            contexts: n contexts, or n paths.
            fillers: (n, *filler_shape), or n labels.
            weights: (n,), 1 if None.

        Returns:
            A memory (*memory_shape).
        """
        return self.add(self.zeros(), contexts, fillers, weights)

    @final
    def add(
        self, memory: Tensor, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None
    ) -> Tensor:
        """Add n pairs to `memory` in place and return it; the other arguments are as in `trace`."""
        check_memory(self.facts, memory)
        # All labels are looked at before anything is added, so that a bad one leaves the memory as it was.
        contexts = contexts if isinstance(contexts, Contexts | Paths) else Paths.of(contexts)
        count = len(contexts)
        names: list[bytes] = []
        if isinstance(fillers, Tensor):
            check_tensor("fillers", fillers, (count, *self.facts.filler_shape), FILLERS)
        else:
            names = canonical_values(listed(fillers, "labels"))
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
        """Return the scores of candidates in a memory: `read` and `match` in one step.

        Args:
            memory: (*memory_shape).
            contexts: n contexts, or n paths.
            candidates: (L, *filler_shape), shared by all contexts, or (n, m, *filler_shape), m for each context.

        Returns:
            Scores (n, L) or (n, m).
        """
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
    """Return the contexts of paths, drawing each distinct path once."""
    if len(set(paths.names)) > (1 - REPEATED) * len(paths):
        return scheme._contexts(paths)
    distinct, which = paths.distinct()
    return scheme._contexts(distinct)[torch.tensor(which)]


def draw_fillers(scheme: Scheme, names: Sequence[bytes]) -> Tensor:
    """Return the fillers of labels given as canonical bytes, drawing each distinct label once; laid out for binding."""
    distinct = set(names)
    if len(distinct) <= (1 - REPEATED) * len(names):
        places = {name: place for place, name in enumerate(distinct)}
        return draw_fillers(scheme, list(distinct))[[places[name] for name in names]]
    shape = len(names), *scheme.facts.filler_shape
    return _drawn(scheme, names, torch.empty(shape, dtype=scheme.facts.filler_dtype, device="cpu"))


def draw_candidates(scheme: Scheme, names: Sequence[bytes]) -> Tensor:
    """Return the fillers of labels given as canonical bytes, laid out for matching."""
    return _drawn(scheme, names, empty_fillers(scheme, len(names), "cpu"))


def _drawn(scheme: Scheme, names: Sequence[bytes], fillers: Tensor) -> Tensor:
    words = scheme.facts.filler_words
    for rows in slices(len(names), hashing.rows_in_cache(words)):
        fillers[rows] = scheme._fillers(hashing.bits(names[rows], words, seed=scheme.seed, purpose="filler"))
    return fillers.to(scheme.device)


def empty_fillers(scheme: Scheme, count: int, device: torch.device | str) -> Tensor:
    """Return an uninitialized tensor of fillers, laid out for matching."""
    facts = scheme.facts
    shape, layout = (count, *facts.filler_shape), facts.filler_layout or range(1 + len(facts.filler_shape))
    laid = torch.empty([shape[i] for i in layout], dtype=facts.filler_dtype, device=device)
    return laid.permute([layout.index(i) for i in range(len(shape))])


def own_contexts(scheme: Scheme[C], contexts: ContextsOrPaths) -> C:
    """Return contexts of this scheme; create them if paths were given, refuse contexts of other schemes."""
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
    """Return the cores that `reads` gives, chunk by chunk within the workspace."""
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
    """Return the scores that `matches` gives, tile by tile within the workspace."""
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
