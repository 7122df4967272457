"""Memory: store documents or (path, value) pairs in one tensor of fixed size, and recall values by their paths.

A memory consists of a scheme, one tensor, and the values that were stored, with their counts: noise and priors follow
from these. An operation that fails leaves the memory unchanged.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING, Self, Unpack
from weakref import WeakSet

import torch
from torch import Tensor

from carving.distributed.ranks import Group, Ranks
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.capacity import check_headroom, larger, naming_accuracy, survey, told
from carving.memory.codebook import Codebook, check_finite
from carving.memory.consolidation import Consolidating
from carving.memory.counts import Counts
from carving.memory.evaluate import DecodedPairs, Inventory, Reliability, check_whole, decode_pairs
from carving.memory.pairs import Batch, OnProgress, batches, report
from carving.memory.query import check_indexable
from carving.memory.state import State, keeping
from carving.memory.storage import load, save
from carving.memory.update import Change, NotFound, added, check_weights, checked, forgotten, levels_of, stored, summed
from carving.planner import plan as planner
from carving.planner.requirements import Requirements, Shared, Target
from carving.schemes import make
from carving.schemes.base import Scheme
from carving.storage.journaledfile import JournaledFile
from carving.storage.locks import Place, shown
from carving.symbols.codec import Label, Path, Value
from carving.symbols.vocabulary import Vocabulary
from carving.validate import check_tensor, check_weight

if TYPE_CHECKING:
    from carving.memory.quantized import QuantizedMemory


MAX_PAIRS = 2.0**53  # of more, a count does not tell one more or less
_with_locks: WeakSet["Memory"] = WeakSet()


def _renew_locks() -> None:
    """Give each memory a new lock: the thread that holds the old one is not in the child process, and never unlocks."""
    for memory in _with_locks:
        memory._make_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Memory(Inventory, Reliability, Consolidating):
    """A memory of fixed size that stores documents or (path, value) pairs and recalls values by their paths.

    A path is a tuple of roles, such as `("sentence 5", "subject")`. Roles and values are labels: text, numbers, bytes.

    Args:
        scheme: The scheme that binds pairs, such as `OSC(d=64)`.
        vocabulary: Values that are known before anything is stored.
        fillers: Vectors of the vocabulary, (values, *filler_shape), for example trained ones. By default they are
            derived from the values by a hash.
        keep_paths: Also keep the stored paths, beside the tensor, so that the memory can list and grow its pairs.

    Raises:
        BadType: If `scheme` is not a scheme.
        BadValue: If `fillers` are not finite or do not fit the vocabulary.

    >>> from carving import OSC
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"sentence 5": {"subject": "dog", "verb": "chased"}})
    2
    >>> memory.recall("sentence 5", "subject").value
    'dog'
    """

    def __init__(
        self,
        scheme: Scheme,
        vocabulary: Iterable[Value] = (),
        fillers: Tensor | None = None,
        *,
        keep_paths: bool = False,
    ) -> None:
        if not isinstance(scheme, Scheme):
            raise BadType(f'scheme must be a scheme such as OSC(d=64) or make("HLB", d=4096), got {scheme!r}.')
        state = State.empty(scheme, Vocabulary(vocabulary), fillers, known=keeping(keep_paths))
        self._state = state
        self._make_lock()

    @classmethod
    def _of(cls, state: State) -> Self:
        memory = cls(state.scheme)
        memory._state = state
        return memory

    @classmethod
    def for_size(
        cls,
        pairs: int,
        vocabulary: int,
        accuracy: float = 0.99,
        shared: Shared = 1,
        *,
        seed: int = 0,
        keep_paths: bool = False,
        **requirements: Unpack[Requirements],
    ) -> Self:
        """Return an empty memory of the smallest scheme that is predicted to reach an accuracy.

        Args:
            pairs: How many pairs will be stored.
            vocabulary: How many different values they have.
            accuracy: Target accuracy of recalling a value at paths that hold one (`prior_empty=0`). To detect empty
                paths, or to recall sets, as accurately, plan for a tenth of the errors: 0.999 instead of 0.99.
            shared: Values per path, or a mapping {values per path: number of such paths}.
            seed: Seed of the scheme.
            keep_paths: As in `Memory`.
            **requirements: Options of `carving.plan`: `scheme`, `p`, `compact`, `joint`, ...

        Raises:
            BadValue: If an option is invalid, or no scheme reaches the accuracy.

        >>> memory = Memory.for_size(pairs=1_000, vocabulary=500, scheme="TPR")
        >>> memory.scheme.name, memory.pairs, memory.target.accuracy
        ('TPR', 0, 0.99)
        """
        best = planner.plan(pairs, vocabulary, accuracy, shared, **requirements)
        return cls.from_plan(best, vocabulary, accuracy, seed, keep_paths)

    @classmethod
    def from_plan(
        cls, plan: planner.Plan, vocabulary: int, accuracy: float = 0.99, seed: int = 0, keep_paths: bool = False
    ) -> Self:
        """Return an empty memory of a plan.

        Args:
            plan: The plan, as `carving.plan` returns it.
            vocabulary: The number of different values that the plan was made for.
            accuracy: The accuracy that the plan was made for.
            seed: Seed of the scheme.
            keep_paths: As in `Memory`.

        >>> from carving import plan
        >>> Memory.from_plan(plan(pairs=100, vocabulary=50, scheme="TPR"), vocabulary=50).target
        Target(accuracy=0.99, pairs=100, vocabulary=50, joint=False)
        """
        target = Target(float(accuracy), plan.pairs, vocabulary, plan.joint)
        scheme = make(plan.scheme, seed=seed, **plan.parameters)
        return cls._of(State.empty(scheme, Vocabulary(), target=target, known=keeping(keep_paths)))

    @classmethod
    def for_pairs(
        cls,
        pairs: Document | Iterable[Pair] | Frame,
        accuracy: float = 0.99,
        headroom: float = 1.0,
        *,
        key: Label = None,
        seed: int = 0,
        keep_paths: bool = False,
        group: Group = None,
        on_progress: OnProgress | None = None,
        **requirements: Unpack[Requirements],
    ) -> Self:
        """Return an EMPTY memory of the size that the pairs need. They are only counted: `store` stores them.

        Args:
            pairs: A document, (path, value) pairs or a DataFrame, as for `store`.
            accuracy: Target accuracy, stricter than that of `carving.plan`: half of the queries are of empty paths, for
                which "nothing is stored" is the right answer.
            headroom: Spare capacity, at least 1: 2 plans for twice as many pairs.
            key: The column of a DataFrame with the row names.
            seed: Seed of the scheme.
            keep_paths: As in `Memory`.
            group: A process group of torch.distributed: every rank passes its own pairs, and gets a memory for all.
            on_progress: Called with the number of pairs that were counted since the last call.
            **requirements: Options of `carving.plan`: `scheme`, `p`, `compact`, ...

        Raises:
            BadValue: If there are no pairs, or an option is invalid.

        >>> facts = {"dog": {"is a": "animal", "says": "woof"}, "cat": {"is a": "animal", "says": "meow"}}
        >>> memory = Memory.for_pairs(facts)
        >>> memory.pairs, memory.store(facts), memory.recall("cat", "says").value
        (0, 4, 'meow')
        """
        headroom, accuracy = check_headroom(headroom), naming_accuracy(accuracy)
        counted = chain.from_iterable(batches(pairs, key))
        expected = survey(counted, on_progress, Ranks.of(group)).grown(headroom)
        sizes = expected.pairs, expected.values, accuracy, expected.shared
        return cls.for_size(*sizes, seed=seed, keep_paths=keep_paths, **requirements)

    @classmethod
    def like(cls, other: "Memory", *, keep_paths: bool | None = None) -> Self:
        """Return an EMPTY memory that can be added to another: with its scheme, target accuracy and trained fillers.

        Args:
            other: The memory to imitate.
            keep_paths: As in `Memory`. By default as in the other memory.

        >>> from carving import OSC
        >>> mine = Memory(OSC(d=32, p=2))
        >>> yours = Memory.like(mine)
        >>> mine.store({"dog": {"says": "woof"}}), yours.store({"cow": {"says": "moo"}})
        (1, 1)
        >>> (mine + yours).recall("cow", "says").value
        'moo'
        """
        if not isinstance(other, Memory):
            raise BadType(f"other must be a Memory, got {other!r}. Memory.load(file) reads one.")
        empty = other._state.emptied()
        return cls._of(empty if keep_paths is None else replace(empty, known=keeping(keep_paths)))

    def __repr__(self) -> str:
        how = ", consolidated" if self.is_consolidated else ""
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} values in {self.scheme}{how}"

    def __getstate__(self) -> dict[str, object]:
        return {"_state": self._state}  # a lock stays where it is

    def __setstate__(self, state: dict[str, State]) -> None:
        self._state = state["_state"]
        self._make_lock()

    def _make_lock(self) -> None:
        self._lock = RLock()
        _with_locks.add(self)  # of no effect if it is there already, as while locks are renewed

    @property
    def tensor(self) -> Tensor:
        """The tensor (*scheme.facts.memory_shape) that holds all pairs. It can be assigned."""
        return self._state.tensor

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        facts, way_out = self.scheme.facts, "it is the shape of scheme.zeros()"
        check_tensor("tensor", tensor, facts.memory_shape, way_out, facts.memory_dtype)
        _check_held("tensor", tensor, self.tensor)
        with self._lock:
            self._state = replace(self._state, tensor=tensor)

    @property
    def counts(self) -> Tensor:
        """How often each value was stored, (values,), in float64. It can be assigned."""
        return self._state.often.given()

    @counts.setter
    def counts(self, counts: Tensor) -> None:
        way_out = "there is one count for each value of memory.vocabulary"
        check_tensor("counts", counts, (len(self.vocabulary),), way_out, torch.float64)
        _check_held("counts", counts, self.counts)
        if not float(counts.abs().sum()) <= MAX_PAIRS:
            raise BadValue(f"counts must sum to at most 2^53, got {float(counts.abs().sum()):.3g}.")
        with self._lock:
            self._state = replace(self._state, often=Counts(counts))

    @property
    def _codebook(self) -> Codebook:
        return self._state.codebook

    @property
    def trained_fillers(self) -> Tensor | None:
        """The fillers (n, *filler_shape) that were passed for the first n values of the vocabulary, None if none."""
        return self._state.codebook.trained

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return a copy on another device, or in another precision.

        Args:
            device: Device of the copy; None keeps it.
            dtype: `torch.float32` or `torch.float64`; None keeps it.

        Raises:
            BadValue: If the weights of the pairs differ too much for the precision.
        """
        if isinstance(device, torch.dtype):
            raise BadType(f"device must be a device, got {device}. Pass a precision as to(dtype={device}).")
        changes = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        moved = self._state.moved(self.scheme.like(**changes))
        if moved.scheme.dtype != self.scheme.dtype:
            check_weights(moved, [levels_of(moved)])
        return self._of(moved)

    # Storing and forgetting

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Store a document or (path, value) pairs.

        The input is read in batches and may be of any size. If the memory gets over capacity (its predicted accuracy
        falls below the target accuracy in `target`, or 0.9 without one), the pairs are stored all the same, with the
        warning `carving.errors.Overfull`.

        Args:
            what: A document (nested dicts and lists), an iterable of (path, value) pairs, or a DataFrame of pandas or
                polars.
            key: The column of a DataFrame with the row names. By default rows are numbered.
            weight: How strongly to store each pair.
            group: A process group of torch.distributed: every rank passes its own pairs (possibly none), and afterwards
                its memory holds the pairs of all ranks. If one rank fails, no memory changes.
            on_progress: Called with the number of pairs that were bound since the last call.

        Returns:
            The number of pairs, of all ranks together.

        Raises:
            BadType: If `what` is neither a document nor pairs.
            BadValue: If there are no pairs, or the weight is so far from the other weights that rounding would erase
                pairs: the root mean square of all weights may be 1.6 million times the lightest in float32, and 9e14
                times in float64.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store([(("dog", "says"), "woof"), (("cat", "says"), "meow")])
        2
        >>> memory.store({"cow": {"says": "moo"}})
        1
        """
        with self._lock:
            held = self._state
            if group is None:
                change = Change(held, check_weight(weight))
                for pairs in batches(what, key):
                    change.add(Batch(pairs))
                    report(on_progress, len(pairs))
            else:
                what = iter(()) if isinstance(what, list) and not what else what
                change = stored(held, batches(what, key), check_weight(weight), Ranks.of(group), on_progress)
            self._put(held, told(held, checked(change)))
        return change.pairs

    def forget(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        force: bool = False,
        on_progress: OnProgress | None = None,
    ) -> NotFound:
        """Subtract a document or pairs; pairs that are probably not stored are skipped and returned.

        A pair that is stored with less than `weight` is skipped, too (see `NotFound.weaker`); one that is stored with
        more is reduced by `weight` (see `NotFound.stronger`). Memories without probabilities (`has_probabilities`)
        cannot check what is stored: they skip only pairs whose path is known to be empty, and subtract all others.

        Args:
            what: A document, pairs or a DataFrame, as for `store`.
            key: The column of a DataFrame with the row names.
            weight: How strongly the pairs were stored.
            force: Subtract pairs even if they are probably not stored, which leaves negative traces.
            on_progress: Called with the number of pairs that were checked since the last call.

        Returns:
            The pairs that were not found.

        Raises:
            BadValue: If there are no pairs, or the memory was consolidated.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> memory.forget({"dog": {"says": "woof"}, "cow": {"says": "moo"}}), memory.pairs
        ([(('cow', 'says'), 'moo')], 1)
        """
        with self._lock:
            held = self._state
            change, not_found = forgotten(held, batches(what, key), check_weight(weight), force, on_progress)
            if not_found and not change.pairs:
                return not_found
            self._put(held, replace(checked(change), told=0))
        return not_found

    def _put(self, held: State, state: State) -> None:
        """Put a state in the place of the one that it was made of: one assignment, which happens or does not."""
        if self._state is not held:
            raise BadValue(
                "The memory was modified while store() or forget() was consuming its input. Pass a list instead of a "
                "generator that modifies it."
            )
        self._state = state

    def __add__(self, other: "Memory") -> "Memory":
        """Return a memory with the pairs of both: the sum of their tensors and counts, with a joint vocabulary."""
        if not isinstance(other, Memory):
            return NotImplemented
        ours, theirs = self._state, other._state
        return self._of(told(max(ours, theirs, key=lambda each: each.pairs), added(ours, theirs)))

    def all_reduce(self, group: Group) -> Self:
        """Return the sum of the memories of all ranks of a process group, as `+` adds two; every rank gets all of it.

        Raises:
            BadValue: If the memories cannot be added, or one was consolidated.
        """
        held = self._state
        return self._of(told(held, summed(held, Ranks.of(group))))

    # Other sizes

    def without_paths(self) -> Self:
        """Return a copy that keeps no paths."""
        return self._of(replace(self._state, known=None))

    def grow(
        self,
        pairs: int | None = None,
        accuracy: float | None = None,
        *,
        paths: Iterable[Path] | None = None,
        keep_paths: bool | None = None,
        force: bool = False,
        on_progress: OnProgress | None = None,
        **requirements: Unpack[Requirements],
    ) -> tuple[Self, DecodedPairs]:
        """Return a larger (or smaller) memory with the same pairs, and a report on their decoding.

        All pairs are decoded and stored again with weight 1, in a memory of the same kind of scheme and the same seed.

        Args:
            pairs: Total number of pairs to plan for. By default twice as many as are stored.
            accuracy: Target accuracy, counting "nothing stored" as an answer. By default as this memory was planned.
            paths: The paths of the pairs, each as often as it holds values. By default the kept paths.
            keep_paths: Whether the new memory keeps paths. By default as this one.
            force: Continue even if pairs would be lost.
            on_progress: Called with the number of pairs that were decoded since the last call.
            **requirements: Options of `carving.plan`.

        Returns:
            The new memory, and the decoded pairs as `DecodedPairs`.

        Raises:
            BadValue: If the memory is empty, keeps no paths and none are given, or has trained fillers, which fit one
                size only. Without `force` also if pairs would be lost: more than one answer in a hundred is uncertain,
                joint decoding does not converge, or more pairs are stored than the paths account for.

        >>> memory = Memory.for_size(pairs=20, vocabulary=20, keep_paths=True)
        >>> memory.store({f"key {i}": f"value {i}" for i in range(20)})
        20
        >>> bigger, found = memory.grow(pairs=200)
        >>> bigger.target.pairs, bigger.recall("key 7").value, found.confident, found.requested
        (200, 'value 7', 20, 20)
        """
        held = self._state
        found = decode_pairs(held, paths, on_progress=on_progress)
        if not found.requested:
            raise BadValue(
                "The memory is empty. Memory.for_size(pairs, vocabulary) returns an empty memory of another size."
            )
        check_whole(held, found, force)
        kept = self.keeps_paths if keep_paths is None else keep_paths
        bigger = self._of(larger(held, found.pairs, pairs, accuracy, kept, requirements))
        bigger.store(found.pairs)
        return bigger, found

    def merge(self, other: "Memory", *, force: bool = False, on_progress: OnProgress | None = None) -> DecodedPairs:
        """Decode the pairs of another memory, of any scheme, and store them in this one.

        Memories of one scheme are better added, with `+`.

        Args:
            other: A memory that keeps its paths.
            force: Continue even if pairs would be lost.
            on_progress: Called with the number of pairs that were decoded since the last call.

        Returns:
            The decoded pairs, and how surely they were decoded.

        Raises:
            BadValue: If the other memory keeps no paths; without `force` also if pairs would be lost, as in `grow`.

        >>> from carving import OSC
        >>> mine, yours = Memory(OSC(d=40, p=3)), Memory(OSC(d=60, p=2), keep_paths=True)
        >>> mine.store({"dog": {"says": "woof"}}), yours.store({"cow": {"says": "moo"}})
        (1, 1)
        >>> mine.merge(yours).confident, mine.recall("cow", "says").value
        (1, 'moo')
        """
        if not isinstance(other, Memory):
            raise BadType(f"other must be a Memory, got {other!r}. To store pairs, call store().")
        held = other._state
        found = decode_pairs(held, on_progress=on_progress)
        check_whole(held, found, force)
        if found.pairs:
            self.store(found.pairs)
        return found

    # Files

    def save(
        self,
        path: str | os.PathLike[str],
        dtype: torch.dtype | None = None,
        *,
        bits: int | str | None = None,
        index: bool = False,
        force: bool = False,
        group: Group = None,
    ) -> None:
        """Save the memory to one file, atomically. A memory file of that name is replaced, together with its journal.

        Args:
            path: Name of the file.
            dtype: Precision of the tensor in the file, possibly a smaller one, such as `torch.float16`.
            bits: Quantize the memory first, to 1, 2, 3, 4 or 8 bits per cell or "auto": see `quantize`.
            index: Also save the index of the compact fillers, as `path.index`, so that `load` need not rebuild it.
            force: Replace a file that is not a memory, or is read-only.
            group: A process group of torch.distributed: the first rank writes the file, and all ranks wait for it.

        Raises:
            BadValue: If another kind of file has that name (without `force`), or the memory cannot be quantized.
            OSError: If the file cannot be written; the former file then stays.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}})
        1
        >>> memory.save("facts.safetensors", dtype=torch.float16)
        >>> Memory.load("facts.safetensors").recall("dog", "says").value
        'woof'
        """
        Ranks.of(group).of_one(lambda: self._save(path, dtype, bits, index, force))

    def _save(self, path: Place, dtype: torch.dtype | None, bits: int | str | None, index: bool, force: bool) -> None:
        if index:
            check_indexable(self._state, bits)
        if bits is None:
            save(path, self._state, dtype, index, force)
        elif dtype is not None:
            raise BadValue(f"bits={bits} conflicts with dtype={dtype}. Pass only one.")
        else:
            self.quantize(bits).save(path, force=force)

    def quantize(self, bits: int | str | None = None) -> "QuantizedMemory":
        """Return the memory quantized to a few bits per cell, for queries only: see `QuantizedMemory`.

        Args:
            bits: 1, 2, 3, 4 or 8 bits per cell, or "auto" for the fewest that keep the predicted accuracy. By default
                2, or the bits that the memory was consolidated for.

        Raises:
            BadValue: If the memory is empty, its scheme is not linear, pairs were stored twice or with another weight
                than 1, or it was consolidated for other bits.
        """
        from carving.memory.quantized import quantized

        return quantized(self._state, bits)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu", *, group: Group = None) -> Self:
        """Load a memory from its file and the journal beside it.

        The result is detached from the file: `carving.open` returns one that writes its changes to the file.

        Args:
            path: Name of the file.
            device: Device of the memory.
            group: A process group of torch.distributed: every rank reads the file, and all must read the same.

        Raises:
            BadFile: If the file is corrupt, or not a memory.
        """
        ranks = Ranks.of(group)
        state, version = ranks.agreed(lambda: load(JournaledFile(path), device))
        ranks.check_same(file=f"{shown(path)} ({version.base}, {version.changes} changes)")
        return cls._of(state)


def _check_held(name: str, tensor: Tensor, before: Tensor) -> None:
    """Refuse a tensor that is to replace another, but is on another device or not finite."""
    if tensor.layout != torch.strided:
        raise BadValue(f"{name} must be dense, got {tensor.layout}. Use .to_dense().")
    if tensor.device != before.device:
        raise BadValue(f"{name} must be on {before.device}, got {tensor.device}. Use .to({str(before.device)!r}).")
    check_finite(name, tensor)
