"""The protocol of binding schemes: what to implement, and the verbs that follow from it.

A scheme stores pairs of a context (derived from a path of roles) and a filler (derived from a value) in a memory, one
tensor of fixed size. It reaches its memory through maps that depend on the context:

    encode: filler, context -> core      (the coordinates of the filler inside the context)
    write : core, context   -> memory    (linear in the core; memories of several pairs add)
    read  : memory, context -> core      (the scheme's unbinding)
    match : core, candidate -> score

    trace(contexts, fillers)           = the sum of write(encode(filler, context), context)
    score(memory, contexts, candidates) = match(read(memory, context), context, candidate)

To add a scheme, write a frozen dataclass that derives from `Scheme`, with a class attribute `name` and the following
members, and pass it to `carving.register`. n is a number of contexts, L a number of candidates:

    facts                                  shapes, dtypes, costs and laws, as a cached property
    _fillers(words)                        random bits (n, facts.filler_words) -> (n, *filler_shape)
    _contexts(paths)                       n paths -> a `Contexts` object (a frozen dataclass) whose tensors have n rows
    _encode(fillers, contexts)             (n, *filler_shape) -> (n, *core_shape)
    _write(cores, contexts)                (n, *core_shape) -> their sum (*memory_shape)
    _read(memory, contexts)                (*memory_shape) -> (n, *core_shape)
    _match(cores, contexts, candidates)    (n, *core_shape) and `Candidates` -> (n, L)

The dataclass fields are the constructor's arguments; `parameters`, `like`, equality, repr and files follow from them.
`d` is one of them. Check them in `__post_init__`, which ends with `super().__post_init__()`: that one reads `facts`.
Random bits are those of `carving.hashing`, and depend on nothing but labels, paths and the seed.
Hooks receive validated chunks of rows that fit into the workspace (`facts.cost` says what a row takes). The public
verbs of the same names are final: they check shapes, split work into chunks, create contexts and fillers from paths and
labels, and take leading batch dimensions. Other hooks have defaults: override `_trace` and `_add` where a sum of pairs
is cheaper than its cores; `_adjoint`, `_inner`, `_expected`, `_energy`, `_directional_noise` and `adjoint_write` where
the defaults (read is the transpose of write, binding preserves norms) do not hold and `facts` says so.

Laws, tested for every scheme (tests/test_scheme.py, tests/test_likelihood.py):

    trace(A + B) = trace(A) + trace(B);  weight -1 forgets;  the order of pairs does not matter
    <write(core), memory> = <core, read(memory)>            if facts.adjoint
    read(trace of one pair) is parallel to encode(its pair)  if facts.exact
    encode(filler, context) does not depend on the context   unless facts.contextual
    equal labels, parameters and seeds give equal tensors, in every process, batch, chunk and version

Shapes are validated here, for all schemes. Values (NaN, infinity) are validated where data enters a `Memory`: reading
values would break `torch.compile(fullgraph=True)`. Hooks must not write to their arguments, nor in place where a
gradient or `torch.func.vmap` may pass; `_add` alone changes its memory.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast, final

import torch
from torch import Tensor

from carving import hashing
from carving.caching import cached_property
from carving.errors import BadType, BadValue
from carving.hashing import Bits
from carving.symbols.codec import Path, Value, canonical_values
from carving.symbols.paths import Paths
from carving.tensors import one, tracked
from carving.tiling import Cost, collect, collect_tiles, rows_within, slices, tile
from carving.validate import (
    check_device,
    check_integer,
    check_real_dtype,
    check_tensor,
    fits,
    listed,
    machine_bytes,
    show_bytes,
)

FILLERS = "Create them with fillers(labels)."
CORES = "Create them with read(memory, contexts) or encode(fillers, contexts)."
MAX_PRECOMPUTED_WORKSPACES = 8  # for precomputed candidates; larger ones are computed again for every chunk


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Shapes, costs and laws of a scheme. Each law is tested where it holds and where it does not."""

    filler_shape: tuple[int, ...]
    core_shape: tuple[int, ...]
    memory_shape: tuple[int, ...]
    memory_dtype: torch.dtype  # of memories and cores
    filler_dtype: torch.dtype
    filler_words: int  # 64-bit words of randomness that a filler is made from
    cost: Cost
    filler_scalars: int  # real numbers (or bits, or indices) of a filler
    memory_scalars: int  # real numbers of a memory
    # Numbers of a candidate as a code (see `Candidates`), whose products with flat cores are both scores and inner
    # products; 0: the scheme has no codes. And of a candidate as unit parts, which few queries read fastest.
    code_size: int = 0
    part_size: int = 0
    filler_layout: tuple[int, ...] = ()  # the order of dimensions of fillers (L, *filler_shape) in memory, if another
    exact: bool = True  # reading the memory of a single pair gives the filler's core
    adjoint: bool = True  # read is the transpose of write
    self_inverse: bool = False  # binding twice with a role undoes it
    commutative: bool = False  # bind(a, b) = bind(b, a)
    associative: bool = False  # bind(bind(a, b), c) = bind(a, bind(b, c))
    contextual: bool = False  # encode depends on the context, not on the filler alone
    linear: bool = True  # memories are read as sums of traces with mean zero: likelihoods and joint decoding hold
    # The variance that one stored pair adds to the scores of other contexts, in units of 1 / memory_scalars: a pair
    # with another filler than the candidate, and one with the same filler.
    interference: float = 1.0
    echo: float = 1.0
    # The relative growth of that variance with every squared cosine of two components of a candidate in its context; 0:
    # it is (nearly) the same for all candidates.
    uneven: float = 0.0
    # The mean score of a filler in contexts that do not hold it, if contexts have no signs; and its variance from
    # context to context, relative to its square.
    bias: float = 0.0
    unsteady: float = 0.0
    order: int = 1  # factors (one a mode) whose product is the interference of one pair: more have heavier tails


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts of paths, as a scheme derives them: tensors with one row for each context.

    Create them with `scheme.contexts(paths)`. They support `len`, indexing by row, leading batch dimensions (`reshape`,
    `expand`) and moving to another device. They know the scheme that drew them; others refuse them.

    >>> from carving import OSC
    >>> contexts = OSC(d=20).contexts([("subject",), ("verb",), ("object",)])
    >>> len(contexts), len(contexts[1:]), contexts.to("cpu").nbytes
    (3, 2, 132)
    """

    scheme: str = field(default="", kw_only=True)  # `fingerprint` of the scheme that drew them
    row_dims: int | None = field(default=None, kw_only=True)  # dimensions of a row of the first tensor, as drawn

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the contexts with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in self.tensors.items()}
        return replace(self, **changed)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors, by field name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading dimensions (*batch, n) of the tensors."""
        whole = next(iter(self.tensors.values())).shape
        return whole[: 1 if self.row_dims is None else len(whole) - self.row_dims]

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: int) -> Self:
        """Return the contexts with other leading dimensions."""
        dims = len(self.shape)
        return self.map(lambda tensor: tensor.reshape(*shape, *tensor.shape[dims:]))

    def expand(self, *shape: int) -> Self:
        """Return the contexts with their leading dimensions broadcast, as a view."""
        dims = len(self.shape)
        return self.map(lambda tensor: tensor.expand(*shape, *tensor.shape[dims:]))

    def __getitem__(self, rows: int | slice | Tensor | list[int] | tuple[int, ...]) -> Self:
        """Return some rows; an integer keeps the first dimension, a tuple selects an element of a batch."""
        if not isinstance(rows, slice | list | tuple) and (isinstance(rows, int) or getattr(rows, "ndim", 1) == 0):
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


Kind = Literal["fillers", "codes", "parts"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of a query, and in which form their tensor has them.

    Args:
        tensor: As "fillers" (L, *filler_shape), or (*, n, m, *filler_shape) if each context has its own m candidates.
            As "codes" (L, facts.code_size), the flat cores that `Scheme.precompute` makes. As "parts" (L,
            facts.part_size), fillers whose components have norm 1, laid flat.
        kind: "fillers", "codes" or "parts".
        shared: Whether all contexts share the candidates.

    >>> from carving import OSC
    >>> osc = OSC(d=25, compact=True)
    >>> codes = osc.precompute(osc.fillers(["cat", "dog"]))
    >>> codes.kind, len(codes), codes.tensor.shape
    ('codes', 2, torch.Size([2, 25]))
    """

    tensor: Tensor
    kind: Kind = "fillers"
    shared: bool = True

    def __len__(self) -> int:
        return self.tensor.shape[0 if self.shared else 1]

    def __getitem__(self, key: Any) -> "Candidates":
        """Return some candidates: `key` indexes the tensor and keeps its number of dimensions."""
        return Candidates(self.tensor[key], self.kind, self.shared)


C = TypeVar("C", bound=Contexts)
CandidatesOrFillers = Candidates | Tensor
CandidatesOrLabels = Candidates | Tensor | Iterable[Value]
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
            workspace=check_integer("workspace", self.workspace, 1, way_out="It is a number of bytes."),
        )
        # Made now, where wrong arguments are told, and not in the middle of a compiled function.
        _ = self.facts, self.room, self.fingerprint

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
    def _match(self, cores: Tensor, contexts: C, candidates: Candidates) -> Tensor:
        """Return scores (n, L) of shared candidates, or (n, m) of candidates that each context has for itself."""

    def _trace(self, contexts: C, fillers: Tensor, weights: Tensor | None) -> Tensor:
        """Return the weighted sum of n bound pairs, differentiable; override it where cores are not needed."""
        cores = self._encode(fillers, contexts)
        if weights is not None:
            cores = cores * weights.view(-1, *(1,) * (cores.dim() - 1)).to(cores.dtype)
        return self._write(cores, contexts)

    def _add(self, memory: Tensor, contexts: C, fillers: Tensor, weights: Tensor | None) -> None:
        """Add n pairs to the memory in place, without gradients."""
        memory += self._trace(contexts, fillers, weights)

    def squared_norm(self, memory: Tensor) -> float:
        """Return the squared norm of a memory, over all ranks where it is split into rows."""
        return float(torch.linalg.vector_norm(memory).double().square())

    # As a sum: what likelihoods and joint decoding need. The defaults are right where `read` is the transpose of
    # `write` and binding preserves norms.

    def _adjoint(self, memory: Tensor, contexts: C) -> Tensor:
        """Return the cores that the transpose of `_write` gives."""
        return self._read(memory, contexts)

    def _inner(self, cores: Tensor, contexts: C, candidates: Candidates) -> Tensor:
        """Return the inner products of cores with the cores of candidates, shaped as in `_match`."""
        return self._match(cores, contexts, candidates)

    def _expected(self, weights: Tensor, contexts: C, candidates: Candidates) -> Tensor:
        """Return the sums (n, *core_shape) of the cores of shared candidates with weights (n, L)."""
        fillers = candidates.tensor
        if not self.facts.contextual:
            codes = fillers if candidates.kind == "codes" else self._encode(fillers, contexts).flatten(1)
            return (weights.to(codes.dtype) @ codes).view(-1, *self.facts.core_shape)
        sums = []  # fillers look different in every context: one after the other
        for row, weight in enumerate(weights):
            everywhere = contexts[[row] * len(fillers)]
            sums.append(torch.tensordot(weight.to(self.facts.memory_dtype), self._encode(fillers, everywhere), 1))
        return torch.stack(sums)

    def _energy(self, contexts: C, candidates: Candidates) -> Tensor:
        """Return the squared norms |b|^2 of bound candidates, broadcastable to (n, L) or (n, m)."""
        return one(self.dtype, candidates.tensor.device)

    def _directional_noise(self, cores: Tensor, contexts: C, candidates: Candidates, energy: Tensor) -> Tensor | None:
        """Return the noise along bound candidates as in `directional_noise`, or None if it is isotropic."""
        return None

    @property
    def mean_bound_energy(self) -> float:
        """The mean squared norm of a bound filler."""
        return 1.0

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

    derived: ClassVar[tuple[str, ...]] = ()  # arguments whose defaults depend on other arguments

    def like(self, **changes: Any) -> Self:
        """Return a copy of the scheme with some arguments changed; defaults that depend on them follow.

        >>> from carving import OSC
        >>> OSC(d=40).like(seed=1)
        OSC(d=40, p=2, k1=6, signed=True, basis='blocks', seed=1)
        >>> OSC(d=40).like(d=400).k1, OSC(d=40, k1=5).like(d=400).k1
        (20, 5)
        """
        own = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        for name in self.derived:
            if name not in changes and own[name] is not None and type(self)(**(own | {name: None})) == self:
                own[name] = None
        return type(self)(**(own | changes))

    @cached_property
    def fingerprint(self) -> str:
        """The name, parameters and seed of the scheme, which contexts carry: they fit schemes of one identity."""
        return repr(self)

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

    # The verbs. Leading batch dimensions * of memories, contexts (and all that has a row for each context) broadcast.

    @final
    def encode(self, fillers: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (*, n, *core_shape) of fillers (*, n, *filler_shape) in their n contexts."""
        return in_rows(self, self._encode, fillers, contexts)

    @final
    def write(self, cores: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the sum (*, *memory_shape) of cores (*, n, *core_shape) written into their n contexts."""
        own, facts = own_contexts(self, contexts), self.facts
        check_batched("cores", cores, (own.shape[-1], *facts.core_shape), CORES, facts.memory_dtype)
        given = (cores, 1 + len(facts.core_shape)), (own, 1)
        if batch := batch_of(*given):
            return torch.stack([self.write(*each) for each in elements(batch, *given)]).unflatten(0, batch)
        parts = self.chunks_of(own, facts.cost.reads_at_once(self.room))
        return summed(self._write(cores[rows], part) for rows, part in parts).contiguous()

    @final
    def read(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (*, n, *core_shape) that unbinding n contexts from memories (*, *memory_shape) gives."""
        return read_in_chunks(self, self._read, memory, contexts)

    @final
    def match(self, cores: Tensor, contexts: ContextsOrPaths | None, candidates: CandidatesOrFillers) -> Tensor:
        """Return how well candidates fit the cores.

        Args:
            cores: (*, n, *core_shape), from `read` or `encode`.
            contexts: The n contexts or paths of the cores. May be None where the encoding of a filler does not depend
                on its context (`facts.contextual` is False).
            candidates: `Candidates`, or fillers: (L, *filler_shape), shared by all contexts, or (*, n, m,
                *filler_shape), m for each context.

        Returns:
            Scores (*, n, L) or (*, n, m).
        """
        if contexts is None and self.facts.contextual:
            raise BadValue(f"contexts must not be None: {self.name} encodes a filler differently in every context")
        return match_in_tiles(self, self._match, cores, contexts, candidates)

    @final
    def precompute(self, candidates: CandidatesOrFillers) -> Candidates:
        """Return shared candidates in the form that `match` reads fastest; as fillers if that would be too large."""
        given = as_candidates(self.facts, candidates, ())
        size = len(given) * self.facts.code_size
        if given.kind != "fillers" or not 0 < size <= MAX_PRECOMPUTED_WORKSPACES * self.room:
            return given
        return Candidates(self._encode(given.tensor, cast(C, None)).flatten(1), "codes")

    @final
    def trace(self, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None) -> Tensor:
        """Return the memory of n pairs: the weighted sum of their bound fillers.

        Traces are additive: the trace of two batches is the sum of their traces. They are differentiable.

        Args:
            contexts: n contexts, or n paths.
            fillers: (*, n, *filler_shape), or n labels.
            weights: (*, n), 1 if None.

        Returns:
            Memories (*, *memory_shape).
        """
        contexts = contexts if isinstance(contexts, Contexts | Paths) else Paths.of(contexts)
        given = (contexts, 1), (fillers, 1 + len(self.facts.filler_shape)), (weights, 1)
        if batch := batch_of(*given):
            return torch.stack([self.trace(*each) for each in elements(batch, *given)]).unflatten(0, batch)
        drawn = contexts.tensors.values() if isinstance(contexts, Contexts) else ()
        if tracked(fillers, weights, *drawn):
            return summed(self._trace(*pairs) for pairs in self._pairs(contexts, fillers, weights))
        return self.add(self.zeros(), contexts, fillers, weights)

    @final
    def add(
        self, memory: Tensor, contexts: ContextsOrPaths, fillers: FillersOrLabels, weights: Tensor | None = None
    ) -> Tensor:
        """Add n pairs to `memory` in place and return it; the other arguments are as in `trace`."""
        contexts = contexts if isinstance(contexts, Contexts | Paths) else Paths.of(contexts)
        batch, given = check_memory(self.facts, memory), (memory, contexts, fillers, weights)
        sizes = len(self.facts.memory_shape), 1, 1 + len(self.facts.filler_shape), 1
        pairs_batch = batch_of(*zip(given, sizes, strict=True))
        if pairs_batch != batch:
            raise BadValue(
                f"Pairs of a batch {pairs_batch} need as many memories, got a batch {batch}. Use trace(...)."
            )
        if batch:
            for each in elements(batch, *zip(given, sizes, strict=True)):
                self.add(*each)
            return memory
        for pairs in self._pairs(contexts, fillers, weights):
            self._add(memory, *pairs)
        return memory

    def _pairs(
        self, contexts: Contexts | Paths, fillers: FillersOrLabels, weights: Tensor | None
    ) -> Iterator[tuple[C, Tensor, Tensor | None]]:
        """Return contexts, fillers and weights in chunks; everything is checked before the first chunk."""
        count, facts = len(contexts), self.facts
        names: list[bytes] = []
        if isinstance(fillers, Tensor):
            check_tensor("fillers", fillers, (count, *facts.filler_shape), FILLERS)
        else:
            names = canonical_values(listed(fillers, "labels"))
            if len(names) != count:
                raise BadValue(
                    f"Every context needs one filler, got {count} contexts and {len(names)} labels. "
                    "Repeat a context that holds several fillers, once for each."
                )
        if weights is not None:
            check_tensor("weights", weights, (count,), "Pass one weight for each pair.")
            weights = weights.to(self.dtype)
        return (
            (
                part,
                fillers[rows] if isinstance(fillers, Tensor) else draw_fillers(self, names[rows]),
                None if weights is None else weights[rows],
            )
            for rows, part in self.chunks_of(contexts, facts.cost.pairs_at_once(self.room))
        )

    @final
    def score(self, memory: Tensor, contexts: ContextsOrPaths, candidates: CandidatesOrFillers) -> Tensor:
        """Return the scores of candidates in a memory: `read` and `match` in one step.

        Args:
            memory: (*, *memory_shape).
            contexts: n contexts, or n paths.
            candidates: As in `match`.

        Returns:
            Scores (*, n, L) or (*, n, m).
        """
        # Candidates that are alike in all contexts are matched with many at once, more than are read at once.
        size = rows_within(self.room, 2 * self.facts.code_size or self.facts.cost.core)
        if isinstance(contexts, Contexts) and (contexts.shape[0] <= size or len(contexts.shape) > 1):  # most often
            cores = read_in_chunks(self, self._read, memory, contexts)
            return match_in_tiles(self, self._match, cores, contexts, candidates)
        contexts = contexts if isinstance(contexts, Contexts) else Paths.of(contexts)
        if check_memory(self.facts, memory):
            contexts = own_contexts(self, contexts)
            return self.match(self.read(memory, contexts), contexts, candidates)
        own = as_candidates(self.facts, candidates, (len(contexts),))
        parts = (
            (rows, self.match(self.read(memory, part), part, own if own.shared else own[rows]))
            for rows, part in self.chunks_of(contexts, size)
        )
        return collect(len(contexts), parts)

    # The verbs of sums

    @final
    def adjoint(self, memory: Tensor, contexts: ContextsOrPaths) -> Tensor:
        """Return the cores (*, n, *core_shape) that the transpose of `write` gives: `read` if `facts.adjoint`."""
        return read_in_chunks(self, self._adjoint, memory, contexts)

    @final
    def inner(self, cores: Tensor, contexts: C, candidates: CandidatesOrFillers) -> Tensor:
        """Return the inner products (*, n, L) or (*, n, m) of cores with those of candidates: `match` unnormalized."""
        return match_in_tiles(self, self._inner, cores, contexts, candidates)

    @final
    def energy(self, contexts: C, candidates: CandidatesOrFillers) -> Tensor:
        """Return the squared norms |b|^2 of bound candidates, broadcastable to (n, L) or (n, m)."""
        return self._energy(contexts, as_candidates(self.facts, candidates, contexts.shape))

    @final
    def directional_noise(
        self, cores: Tensor, contexts: C, candidates: CandidatesOrFillers, energy: Tensor
    ) -> Tensor | None:
        """Return the noise along bound candidates, or None if the noise is isotropic.

        The result is the squared norm of an isotropic memory with the noise variance found along the candidates; where
        `facts.uneven` is not 0, it is relative to the mean. Noise is anisotropic where binding changes norms: roles
        that many pairs share color the interference.

        Args:
            cores: Adjoint cores (n, *core_shape).
            contexts: The n contexts.
            candidates: As in `match`.
            energy: The squared norms of bound candidates.
        """
        return self._directional_noise(cores, contexts, as_candidates(self.facts, candidates, contexts.shape), energy)

    @final
    def evidence(
        self, cores: Tensor, contexts: C, candidates: CandidatesOrFillers
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return `inner`, `energy` and `directional_noise` of candidates, for cores (n, *core_shape) of `adjoint`."""
        given = as_candidates(self.facts, candidates, contexts.shape)
        energy = self._energy(contexts, given)
        noise = self._directional_noise(cores, contexts, given, energy)
        return match_tiles(self, self._inner, cores, contexts, given), energy, noise

    @final
    def expected_core(self, weights: Tensor, contexts: C, candidates: CandidatesOrFillers) -> Tensor:
        """Return the expected cores (n, *core_shape): the cores of candidates, summed with weights.

        Args:
            weights: (n, L).
            contexts: The n contexts.
            candidates: Shared by all contexts.
        """
        given = as_candidates(self.facts, candidates, ())
        shape = len(contexts), len(given)
        check_tensor("weights", weights, shape, "Pass one weight for each context and candidate.")
        rows, columns = tile(self.facts.cost, self.room, *shape)

        def expected(some: slice) -> Tensor:
            part = contexts[some]
            return summed(self._expected(weights[some, few], part, given[few]) for few in slices(shape[1], columns))

        return collect(shape[0], ((some, expected(some)) for some in slices(shape[0], rows)))


# Steps in chunks that fit into the workspace

MIN_REPEATED_SHARE = 0.1  # of labels, from which on each label is drawn once and copied


def draw_contexts(scheme: Scheme[C], paths: Paths) -> C:
    """Return the contexts of paths, drawing each distinct path once."""
    if len(set(paths.names)) > (1 - MIN_REPEATED_SHARE) * len(paths):
        drawn = scheme._contexts(paths)
    else:
        distinct, which = paths.distinct()
        drawn = scheme._contexts(distinct)[torch.tensor(which)]
    row_dims = next(iter(drawn.tensors.values())).dim() - 1
    vars(drawn).update(scheme=scheme.fingerprint, row_dims=row_dims)  # frozen, but not before they are drawn
    return drawn


def draw_fillers(scheme: Scheme, names: Sequence[bytes]) -> Tensor:
    """Return the fillers of labels given as canonical bytes, drawing each distinct label once; laid out for binding."""
    distinct = set(names)
    if len(distinct) <= (1 - MIN_REPEATED_SHARE) * len(names):
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
    if contexts.scheme != scheme.fingerprint:
        drawn = f"contexts of {contexts.scheme}" if contexts.scheme else "contexts that no scheme drew"
        raise BadValue(f"contexts must belong to {scheme}, got {drawn}. Create them with the scheme's contexts(paths).")
    if not len(contexts):
        raise BadValue("contexts must not be empty. Pass at least one.")
    return cast(C, contexts)


def read_in_chunks(
    scheme: Scheme[C], reads: Callable[[Tensor, C], Tensor], memory: Tensor, contexts: ContextsOrPaths
) -> Tensor:
    """Return the cores that `reads` gives, chunk by chunk within the workspace."""
    batch, size = check_memory(scheme.facts, memory), scheme.facts.cost.reads_at_once(scheme.room)
    if not batch and isinstance(contexts, Contexts) and len(contexts.shape) == 1 and len(contexts) <= size:
        return reads(memory, own_contexts(scheme, contexts))  # most often
    if batch:
        given = (memory, len(scheme.facts.memory_shape)), (own_contexts(scheme, contexts), 1)
        batch = batch_of(*given)
        parts = [read_in_chunks(scheme, reads, *each) for each in elements(batch, *given)]
        return torch.stack(parts).unflatten(0, batch)
    if isinstance(contexts, Contexts) and len(contexts.shape) > 1:
        return read_in_chunks(scheme, reads, memory, contexts.reshape(-1)).unflatten(0, contexts.shape)
    contexts = contexts if isinstance(contexts, Contexts) else Paths.of(contexts)
    chunks = scheme.chunks_of(contexts, size)
    return collect(len(contexts), ((rows, reads(memory, part)) for rows, part in chunks))


def match_in_tiles(
    scheme: Scheme[C],
    matches: Callable[[Tensor, C, Candidates], Tensor],
    cores: Tensor,
    contexts: ContextsOrPaths | None,
    candidates: CandidatesOrFillers,
) -> Tensor:
    """Return the scores that `matches` gives, tile by tile within the workspace."""
    facts, own = scheme.facts, None if contexts is None else own_contexts(scheme, contexts)
    shape = (-1,) if own is None else own.shape
    batch = check_batched("cores", cores, (shape[-1], *facts.core_shape), CORES, facts.memory_dtype)
    count = cores.shape[len(batch)]
    if batch or len(shape) > 1:
        lead = *batch_of((cores, 1 + len(facts.core_shape)), (own, 1)), count
        given = as_candidates(facts, candidates, lead)
        flat = given if given.shared else Candidates(given.tensor.flatten(0, len(lead) - 1), shared=False)
        flat_contexts = None if own is None else own.expand(*lead).reshape(-1)
        flat_cores = cores.expand(*lead, *facts.core_shape).flatten(0, len(lead) - 1)
        return match_in_tiles(scheme, matches, flat_cores, flat_contexts, flat).unflatten(0, lead)
    return match_tiles(scheme, matches, cores, own, as_candidates(facts, candidates, (count,)))


def match_tiles(
    scheme: Scheme[C],
    matches: Callable[[Tensor, C, Candidates], Tensor],
    cores: Tensor,
    contexts: C | None,
    candidates: Candidates,
) -> Tensor:
    """Return the scores that `matches` gives of validated cores (n, *core_shape), tile by tile."""
    count, total = len(cores), len(candidates)
    rows, columns = tile(scheme.facts.cost, scheme.room, count, total)
    if rows >= count and columns >= total:
        return matches(cores, cast(C, contexts), candidates)

    parts = ((some, cast(C, None if contexts is None else contexts[some])) for some in slices(count, rows))
    tiles = (
        (some, few, matches(cores[some], part, candidates[few] if candidates.shared else candidates[some, few]))
        for some, part in parts
        for few in slices(total, columns)
    )
    return collect_tiles(count, total, tiles)


def in_rows(
    scheme: Scheme[C], change: Callable[[Tensor, C], Tensor], fillers: Tensor, contexts: ContextsOrPaths
) -> Tensor:
    """Return what `change` makes of fillers (*, n, *filler_shape) and their n contexts, row by row: (*, n, ...)."""
    own, dims = own_contexts(scheme, contexts), len(scheme.facts.filler_shape)
    count = own.shape[-1]
    batch = check_batched("fillers", fillers, (count, *scheme.facts.filler_shape), FILLERS)
    if not batch and len(own.shape) == 1:
        return change(fillers, own)
    lead = *batch_of((fillers, 1 + dims), (own, 1)), count
    rows = fillers.expand(*lead, *scheme.facts.filler_shape).flatten(0, len(lead) - 1)
    return change(rows, own.expand(*lead).reshape(-1)).unflatten(0, lead)


# Batches: pairs of a value (a tensor, contexts, or None) and how many of its last dimensions are not the batch's


def batch_of(*given: tuple[Any, int]) -> tuple[int, ...]:
    """Return the common leading dimensions of values; refuse those that do not broadcast."""
    batches = [tuple(value.shape[:-dims]) for value, dims in given if len(getattr(value, "shape", ())) > dims]
    if not batches:  # most often
        return ()
    try:
        return tuple(torch.broadcast_shapes(*batches))
    except RuntimeError:
        shown = " and ".join(map(str, batches))
        raise BadValue(f"Leading dimensions must broadcast, got {shown}. Use unsqueeze to add dimensions.") from None


def elements(batch: tuple[int, ...], *given: tuple[Any, int]) -> Iterator[list[Any]]:
    """Yield the values that belong to each element of a batch."""
    for index in product(*map(range, batch)):
        yield [
            value.expand(*batch, *value.shape[-dims:])[index] if len(getattr(value, "shape", ())) > dims else value
            for value, dims in given
        ]


def summed(parts: Iterable[Tensor]) -> Tensor:
    """Return the sum of tensors, not in place."""
    total: Tensor | None = None
    for part in parts:
        total = part if total is None else total + part
    assert total is not None
    return total


def check_batched(
    name: str, tensor: Tensor, shape: tuple[int, ...], way_out: str, dtype: torch.dtype | None = None
) -> tuple[int, ...]:
    """Return the leading dimensions of a tensor (*, *shape); refuse another shape or dtype."""
    batch: tuple[int, ...] = ()
    if isinstance(tensor, Tensor) and tensor.shape != shape and fits(tensor.shape[-len(shape) :], shape):
        batch = tuple(tensor.shape[: -len(shape)])
    check_tensor(name, tensor, (*batch, *shape), way_out, dtype)
    return batch


def check_memory(facts: Facts, memory: Tensor) -> tuple[int, ...]:
    """Return the leading dimensions of memories (*, *memory_shape); refuse another shape or dtype."""
    way_out = "Create it with the scheme's trace(...) or zeros()."
    return check_batched("memory", memory, facts.memory_shape, way_out, facts.memory_dtype)


def as_candidates(facts: Facts, candidates: CandidatesOrFillers, lead: tuple[int, ...]) -> Candidates:
    """Return candidates, checked: a tensor is fillers (L, *filler_shape), or each context's own with these leads."""
    given = candidates
    if not isinstance(given, Candidates):
        given = Candidates(given, shared=not isinstance(given, Tensor) or given.dim() <= 1 + len(facts.filler_shape))
    sizes = {"fillers": facts.filler_shape, "codes": (facts.code_size,), "parts": (facts.part_size,)}
    check_tensor("candidates", given.tensor, (*(() if given.shared else lead), -1, *sizes[given.kind]), FILLERS)
    return given
