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
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, final

import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.symbols.codec import Path, Value, canonical_values
from carving.symbols.paths import Paths
from carving.tensors import one
from carving.tiling import Cost, collect, rows_within, slices, tile
from carving.validate import (
    check_device,
    check_integer,
    check_real_dtype,
    check_tensor,
    listed,
    machine_bytes,
    show_bytes,
)

FILLERS = "create them with fillers(labels)"
CORES = "create them with read(memory, contexts) or encode(fillers, contexts)"
PRECOMPUTED = 8  # workspaces that precomputed candidates may take; more are made again for every chunk of contexts


@dataclass(frozen=True)
class Facts:
    """Facts about a scheme: shapes, costs and laws. Each law is tested where it holds and where it does not."""

    filler_shape: tuple[int, ...]
    core_shape: tuple[int, ...]  # of a core: what a context shows of the memory
    memory_shape: tuple[int, ...]
    memory_dtype: torch.dtype  # of memories and cores
    filler_dtype: torch.dtype
    filler_words: int  # 64-bit words of randomness that a filler is made from
    context_kind: str  # what contexts must be of to fit
    cost: Cost
    filler_scalars: int  # real numbers (or bits, or indices) that a filler is
    memory_scalars: int  # real numbers that a memory holds
    # Numbers of a candidate that `precompute` made, whose products with flat cores are scores and inner products alike;
    # 0: it leaves candidates as they are.
    code_size: int = 0
    # Numbers of a candidate whose parts have unit norms, laid flat, which few questions take fastest; 0: there is none.
    part_size: int = 0
    filler_layout: tuple[int, ...] = ()  # the order in which dimensions of fillers (L, *filler_shape) lie, if another
    exact: bool = True  # reading the memory of a single pair gives the filler's core
    adjoint: bool = True  # read is the transpose of write
    self_inverse: bool = False  # binding twice with a role undoes it
    commutative: bool = False  # bind(a, b) = bind(b, a)
    associative: bool = False  # bind(bind(a, b), c) = bind(a, bind(b, c))
    contextual: bool = False  # encode depends on the context, not on the filler alone
    linear: bool = True  # the memory is read as the sum that it is, of traces with mean zero: likelihoods hold
    # The variance that one stored pair gives the scores of other contexts, in units of 1 / memory_scalars: a pair with
    # another filler than the candidate, and one with the same.
    interference: float = 1.0
    echo: float = 1.0
    # By how much that grows, in units of itself, with every squared cosine of two components of a candidate in its
    # context; 0: it is the same for all candidates, or nearly.
    uneven: float = 0.0
    # What a filler that is stored in one context shows in every other, in the mean, where contexts have no signs; and
    # by how much that differs from context to context, as a variance relative to its square.
    bias: float = 0.0
    unsteady: float = 0.0
    # The factors, one a mode, whose product is the interference of one pair: the more, the heavier its tails.
    order: int = 1


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts of paths, as a scheme derives them: tensors with one row for each context.

    Create them with `scheme.contexts(paths)`. They support `len`, indexing by row, and moving to another device.

    >>> from carving import OSC
    >>> contexts = OSC(d=20).contexts([("subject",), ("verb",), ("object",)])
    >>> len(contexts), len(contexts[1:]), contexts.to("cpu").nbytes
    (3, 2, 132)
    """

    kind: str = field(default="", kw_only=True)  # `facts.context_kind` of the schemes that they fit

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the contexts with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors.items()}
        return replace(self, **changed)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors, by field name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def __len__(self) -> int:
        for value in vars(self).values():
            if isinstance(value, Tensor):
                return value.shape[0]
        return 0

    def __getitem__(self, rows: int | slice | Tensor | list[int]) -> Self:
        """Return the contexts of some rows; an integer selects one row and keeps the first dimension."""
        if not isinstance(rows, slice | list) and (isinstance(rows, int) or getattr(rows, "ndim", 1) == 0):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is out of range for {len(self)} contexts")
            rows = slice(row, row + 1 or None)
        return self.map(lambda tensor: tensor[rows])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the contexts on another device or in another dtype, like `Tensor.to`; integers keep their dtype."""

        def moved(tensor: Tensor) -> Tensor:
            other = tensor.to(*args, **kwargs)
            return other if tensor.is_floating_point() else other.to(tensor.dtype)

        return self.map(moved)

    @property
    def nbytes(self) -> int:
        """The total number of bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


C = TypeVar("C", bound=Contexts)
ContextsOrPaths = Contexts | Iterable[Path]  # contexts of paths are made chunk by chunk
FillersOrLabels = Tensor | Iterable[Value]  # so are fillers of labels


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

    # As a sum: what likelihoods and joint decoding need. The defaults are right where `read` is the transpose of
    # `write` and binding preserves norms.

    def _adjoint(self, memory: Tensor, contexts: C) -> Tensor:
        """Return the cores that the transpose of `_write` gives."""
        return self._read(memory, contexts)

    def _inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the inner products of cores with the cores of candidates, shaped as in `_match`."""
        return self._match(cores, contexts, candidates)

    def _expected(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the sums (n, *core_shape) of the cores of candidates with weights (n, L)."""
        if not self.facts.contextual:
            precomputed = self.facts.code_size and candidates.dim() == 2
            codes = candidates if precomputed else self._encode(candidates, contexts).flatten(1)
            return (weights.to(codes.dtype) @ codes).view(-1, *self.facts.core_shape)
        sums = []  # fillers look different in every context: one after the other
        for row, weight in enumerate(weights):
            everywhere = contexts[[row] * len(candidates)]
            sums.append(torch.tensordot(weight.to(self.facts.memory_dtype), self._encode(candidates, everywhere), 1))
        return torch.stack(sums)

    @property
    def mean_bound_energy(self) -> float:
        """The mean squared norm of a bound filler."""
        return 1.0

    def energy(self, contexts: C, candidates: Tensor) -> Tensor:
        """Return the squared norms |b|^2 of bound candidates, broadcastable to (n, L) or (n, m)."""
        return one(self.dtype, candidates.device)

    def directional_noise(self, cores: Tensor, contexts: C, candidates: Tensor, energy: Tensor) -> Tensor | None:
        """Return the noise along bound candidates, or None if the noise is isotropic.

        The result is the squared norm of an isotropic memory with the noise variance found along the candidates; where
        `facts.uneven` is not 0, it is relative to the mean. Noise is anisotropic where binding changes norms: roles
        that many pairs share color the interference.

        Args:
            cores: Adjoint cores (n, *core_shape).
            contexts: The n contexts.
            candidates: (L, *filler_shape) or (n, m, *filler_shape).
            energy: The squared norms of bound candidates.
        """
        return None

    def adjoint_write(self, cores: Tensor, contexts: C) -> Tensor:
        """Return what `adjoint` gives for each core (n, *core_shape) written alone."""
        return cores

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory without the few directions in which every memory has a far larger variance."""
        return memory

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

    @final
    def adjoint(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (n, *core_shape) that the transpose of `write` gives; equals `read` if `facts.adjoint`."""
        return read_in_chunks(self, self._adjoint, memory, contexts)

    @final
    def inner(self, cores: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the inner products (n, L) or (n, m) of cores and the cores of candidates: `match` unnormalized."""
        return match_in_tiles(self, self._inner, cores, contexts, candidates)

    @final
    def expected_core(self, weights: Tensor, contexts: C, candidates: Tensor) -> Tensor:
        """Return the expected cores (n, *core_shape): the cores of candidates, summed with weights.

        Args:
            weights: (n, L).
            contexts: The n contexts.
            candidates: (L, *filler_shape).
        """
        check_candidates(self.facts, candidates, 0)
        shape = len(contexts), len(candidates)
        check_tensor("weights", weights, shape, "pass one weight for each context and candidate")
        rows, columns = tile(self.facts.cost, self.room, *shape)
        cores = torch.zeros(len(contexts), *self.facts.core_shape, dtype=self.facts.memory_dtype, device=weights.device)
        for of_rows in slices(len(contexts), rows):
            part = contexts[of_rows]
            for of_columns in slices(len(candidates), columns):
                cores[of_rows] += self._expected(weights[of_rows, of_columns], part, candidates[of_columns])
        return cores


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


def check_memory(facts: Facts, memory: Tensor) -> None:
    """Refuse a memory whose shape or dtype is not the scheme's."""
    way_out = "create it with the scheme's trace(...) or zeros()"
    check_tensor("memory", memory, facts.memory_shape, way_out, facts.memory_dtype)


def check_cores(facts: Facts, cores: Tensor, count: int) -> None:
    """Refuse cores whose shape or dtype is not the scheme's, or whose number is not `count`."""
    check_tensor("cores", cores, (count, *facts.core_shape), CORES, facts.memory_dtype)


def check_candidates(facts: Facts, candidates: Tensor, contexts: int) -> bool:
    """Return whether candidates are shared by all contexts (True) or given for each context; refuse other shapes."""
    own = isinstance(candidates, Tensor) and candidates.dim() == len(facts.filler_shape) + 2
    shape = (*((contexts, -1) if own else (-1,)), *facts.filler_shape)
    if facts.code_size and isinstance(candidates, Tensor) and candidates.dim() == 2:
        shape = (-1, flat_size(facts, candidates))
    check_tensor("candidates", candidates, shape, FILLERS)
    return not own


def flat_size(facts: Facts, candidates: Tensor) -> int:
    """Return the length that flat candidates must have: the code size or the part size."""
    return facts.part_size if candidates.shape[1] == facts.part_size else facts.code_size
