"""Memory: symbols in, symbols out.

A memory is a scheme, one tensor, and the leaves that were stored (with how often, for the noise and as what is likely
before the tensor is asked). Everything that fails leaves it as it was.
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

from carving.checks import check_tensor, check_weight
from carving.distributed.ranks import Group, Ranks
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import Change, OnProgress, added, check_weights, checked, levels_of, report
from carving.memory.codebook import Codebook, check_finite
from carving.memory.consolidation import Consolidating
from carving.memory.counts import Counts
from carving.memory.forgetting import Strangers, forgotten
from carving.memory.fullness import told
from carving.memory.growth import check_whole, larger
from carving.memory.holdings import Holdings, holdings
from carving.memory.inventory import Inventory
from carving.memory.looks import Looks
from carving.memory.pairs import Batch, batches
from carving.memory.probing import check_indexable
from carving.memory.sharing import stored, summed
from carving.memory.state import State, keeping
from carving.memory.storage import load, save
from carving.memory.survey import check_room, naming_accuracy, survey
from carving.places import Place, shown
from carving.prediction import plan as planner
from carving.prediction.goal import Goal
from carving.prediction.wish import Shared, Wishes
from carving.scheme import Scheme
from carving.schemes import make
from carving.symbols import Label, Leaf, Path
from carving.vocabulary import Vocabulary

if TYPE_CHECKING:
    from carving.memory.sealed import SealedMemory


_with_locks: WeakSet["Memory"] = WeakSet()


def _renew_locks() -> None:
    """Give each memory a new lock: the thread that holds the old one is not in the child process, and never unlocks."""
    for memory in _with_locks:
        memory._make_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Memory(Inventory, Looks, Consolidating):
    """A memory of fixed size: documents or pairs go in, leaves come out by their paths.

    >>> from carving import OSC
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"sentence 5": {"subject": "dog", "verb": "chased"}})
    2
    >>> memory.recall("sentence 5", "subject").leaf
    'dog'
    """

    def __init__(
        self,
        scheme: Scheme,
        vocabulary: Iterable[Leaf] = (),
        fillers: Tensor | None = None,
        *,
        keep_paths: bool = False,
    ) -> None:
        """An empty memory. Leaves that are known beforehand may have fillers of their own: trained ones.

        With `keep_paths` it knows the paths that hold something, beside the tensor: see `Inventory` and `grow`.
        """
        if not isinstance(scheme, Scheme):
            raise BadType(f'a memory takes a scheme, got {scheme!r}; such as OSC(d=64), or make("HLB", d=4096)')
        state = State.empty(scheme, Vocabulary(vocabulary), fillers, known=keeping(keep_paths))
        self._state = state
        self._make_lock()

    @classmethod
    def _of(cls, state: State) -> Self:
        memory = cls(state.scheme)
        memory._state = state
        return memory

    @classmethod
    def planned(
        cls,
        pairs: int,
        vocabulary: int,
        accuracy: float = 0.99,
        shared: Shared = 1,
        *,
        seed: int = 0,
        keep_paths: bool = False,
        **wishes: Unpack[Wishes],
    ) -> Self:
        """An empty memory of the smallest scheme that is predicted to answer so many pairs so accurately.

        The accuracy is that of naming the leaf of a path that holds one (`absence=0`). Who wants to be told just as
        accurately where nothing is stored, or to recall sets, asks for a tenth of the errors: 0.999 for 0.99.
        """
        best = planner.plan(pairs, vocabulary, accuracy, shared, **wishes)
        return cls.of_plan(best, vocabulary, accuracy, seed, keep_paths)

    @classmethod
    def of_plan(
        cls, plan: planner.Plan, vocabulary: int, accuracy: float = 0.99, seed: int = 0, keep_paths: bool = False
    ) -> Self:
        """An empty memory of a plan that was made for so many leaves and this accuracy.

        >>> from carving import plan
        >>> Memory.of_plan(plan(pairs=100, vocabulary=50, scheme="TPR"), vocabulary=50).goal
        Goal(accuracy=0.99, pairs=100, vocabulary=50, joint=False)
        """
        goal = Goal(float(accuracy), plan.pairs, vocabulary, plan.joint)
        scheme = make(plan.scheme, seed=seed, **plan.parameters)
        return cls._of(State.empty(scheme, Vocabulary(), goal=goal, known=keeping(keep_paths)))

    @classmethod
    def for_pairs(
        cls,
        pairs: Document | Iterable[Pair] | Frame,
        accuracy: float = 0.99,
        room: float = 1.0,
        *,
        key: Label = None,
        seed: int = 0,
        keep_paths: bool = False,
        group: Group = None,
        on_progress: OnProgress | None = None,
        **wishes: Unpack[Wishes],
    ) -> Self:
        """An EMPTY memory of the size that these pairs need: they are only counted, `store` stores them.

        The accuracy is that of all answers, "nothing is stored there" being one; `room=2` plans for twice these pairs.
        Of a group, every rank gives its own pairs, and the memory is for those of all.
        The other wishes are the planner's: `scheme`, `p`, `compact`, ...

        >>> facts = {"dog": {"is a": "animal", "says": "woof"}, "cat": {"is a": "animal", "says": "meow"}}
        >>> memory = Memory.for_pairs(facts)
        >>> memory.pairs, memory.store(facts), memory.recall("cat", "says").leaf
        (0, 4, 'meow')
        """
        room, accuracy = check_room(room), naming_accuracy(accuracy)
        counted = chain.from_iterable(batches(pairs, key))
        expected = survey(counted, on_progress, Ranks.of(group)).grown(room)
        sizes = expected.pairs, expected.leaves, accuracy, expected.shared
        return cls.planned(*sizes, seed=seed, keep_paths=keep_paths, **wishes)

    @classmethod
    def like(cls, other: "Memory", *, keep_paths: bool | None = None) -> Self:
        """An EMPTY memory of the same scheme, goal and trained fillers: what is stored in it can be added to the other.

        It keeps paths if the other does, or as `keep_paths` says.

        >>> from carving import OSC
        >>> mine = Memory(OSC(d=32, p=2))
        >>> yours = Memory.like(mine)
        >>> mine.store({"dog": {"says": "woof"}}), yours.store({"cow": {"says": "moo"}})
        (1, 1)
        >>> (mine + yours).recall("cow", "says").leaf
        'moo'
        """
        if not isinstance(other, Memory):
            raise BadType(f"a memory was wanted to be like, got {other!r}; Memory.load(file) reads one")
        empty = other._state.emptied()
        return cls._of(empty if keep_paths is None else replace(empty, known=keeping(keep_paths)))

    def __repr__(self) -> str:
        how = ", consolidated" if self.consolidated else ""
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}{how}"

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
        """What holds all pairs."""
        return self._state.tensor

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        facts, way_out = self.scheme.facts, "it is that of the scheme's memories, scheme.zeros()"
        check_tensor("the tensor", tensor, facts.memory_shape, way_out, facts.memory_dtype)
        _check_held("the tensor", tensor, self.tensor)
        with self._lock:
            self._state = replace(self._state, tensor=tensor)

    @property
    def counts(self) -> Tensor:
        """How often each leaf was stored."""
        return self._state.often.given()

    @counts.setter
    def counts(self, counts: Tensor) -> None:
        way_out = "there is one count a leaf of memory.vocabulary"
        check_tensor("the counts", counts, (len(self.vocabulary),), way_out, torch.float64)
        _check_held("the counts", counts, self.counts)
        with self._lock:
            self._state = replace(self._state, often=Counts(counts))

    @property
    def _codebook(self) -> Codebook:
        return self._state.codebook

    @property
    def trained(self) -> Tensor | None:
        """The fillers that were trained, those of the vocabulary's first leaves."""
        return self._state.codebook.trained

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same memory on another device, or computing in another precision."""
        if isinstance(device, torch.dtype):
            raise BadType(f"a precision is given by its name, to(dtype={device}), got it as the device")
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
        """Store a document, or pairs of a path and a leaf; the number of pairs. Any size: it is read in batches.

        A DataFrame of pandas or polars is a table: a row is named by its cell in the column `key`, or by its number.
        Where the memory gets too full for what it was planned for (`goal`; or to name 0.9 of its leaves), it is stored
        all the same, with a warning: `carving.errors.Overfull`.
        Refused is a weight that rounding in the tensor's dtype would let erase other pairs, or be erased by them: the
        root mean square of all weights may be 1.6 million times the lightest in float32, 9e14 times in float64.

        With a process group of torch.distributed every rank gives its own pairs, none of them possibly, and has those
        of all in its memory then; the number is that of all. What fails on one rank changes nothing on any.
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
    ) -> Strangers:
        """Take a document or pairs out again: those that are probably not there come back, and are left alone.

        What is there, but more weakly than the weight, is left alone too: the result's `weaker` says how strongly it is
        held. `force=True` takes all of them out, which leaves less than nothing. Of what is there more strongly the
        rest stays, and `stronger` says how much. Schemes without probabilities (`scheme.facts.linear`) cannot tell, and
        take out everything.
        """
        with self._lock:
            held = self._state
            change, strangers = forgotten(held, batches(what, key), check_weight(weight), force, on_progress)
            if strangers and not change.pairs:
                return strangers
            self._put(held, replace(checked(change), told=0))
        return strangers

    def _put(self, held: State, state: State) -> None:
        """Put a state in the place of the one that it was made of: one assignment, which happens or does not."""
        if self._state is not held:
            raise BadValue("a memory cannot be changed by what it is just storing or forgetting; read that first")
        self._state = state

    def __add__(self, other: "Memory") -> "Memory":
        """Both memories' pairs in one: their tensors and counts added, their vocabularies joined; see `store`."""
        if not isinstance(other, Memory):
            return NotImplemented
        ours, theirs = self._state, other._state
        return self._of(told(max(ours, theirs, key=lambda each: each.pairs), added(ours, theirs)))

    def summed(self, group: Group) -> Self:
        """The memories of all ranks in one, as `+` adds two: every rank gets the same."""
        held = self._state
        return self._of(told(held, summed(held, Ranks.of(group))))

    # Other sizes

    def without_paths(self) -> Self:
        """The same memory, which keeps no paths."""
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
        **wishes: Unpack[Wishes],
    ) -> tuple[Self, Holdings]:
        """A larger (or smaller) memory with the same pairs, planned for so many in all, and how surely it was decoded.

        By default it is for twice as many pairs and as accurate as this one was planned to be, of the same kind of
        scheme and seed. All that lies under the kept paths (or those given, each as often as it holds leaves) is
        decoded and stored there, every pair with the weight 1. Refused where that would lose something: more than one
        answer in a hundred is not sure, asking all together does not come to rest, or more was stored than is asked
        for; `force=True` takes what is found. Fillers that were trained fit no other size.

        >>> memory = Memory.planned(pairs=20, vocabulary=20, keep_paths=True)
        >>> memory.store({f"key {i}": f"value {i}" for i in range(20)})
        20
        >>> bigger, found = memory.grow(pairs=200)
        >>> bigger.goal.pairs, bigger.recall("key 7").leaf, found.sure, found.asked
        (200, 'value 7', 20, 20)
        """
        held = self._state
        found = holdings(held, paths, on_progress=on_progress)
        if not found.asked:
            raise BadValue("an empty memory has nothing to grow; Memory.planned(pairs, vocabulary) makes a larger one")
        check_whole(held, found, force)
        kept = self.keeps_paths if keep_paths is None else keep_paths
        bigger = self._of(larger(held, found.pairs, pairs, accuracy, kept, wishes))
        bigger.store(found.pairs)
        return bigger, found

    def absorb(self, other: "Memory", *, force: bool = False, on_progress: OnProgress | None = None) -> Holdings:
        """Store the pairs of another memory, of whatever scheme, which keeps its paths; how surely they were decoded.

        Refused where not all is decoded surely, as by `grow`. Memories of one scheme are better added, with `+`.

        >>> from carving import OSC
        >>> mine, yours = Memory(OSC(d=40, p=3)), Memory(OSC(d=60, p=2), keep_paths=True)
        >>> mine.store({"dog": {"says": "woof"}}), yours.store({"cow": {"says": "moo"}})
        (1, 1)
        >>> mine.absorb(yours).sure, mine.recall("cow", "says").leaf
        (1, 'moo')
        """
        if not isinstance(other, Memory):
            raise BadType(f"a memory was wanted whose pairs are to be stored, got {other!r}; store(...) takes pairs")
        held = other._state
        found = holdings(held, on_progress=on_progress)
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
        """Write the memory to one file, whole or not at all; `dtype` may be a smaller one for the tensor.

        With `index` the index of its compact fillers goes beside it, `path.index`, from where `load` takes it: it only
        saves the time to make it again.

        With `bits` it is sealed first (`seal`). A memory that is there is replaced, its journal too; what is something
        else, or read-only, only with `force`. Of a group, the first rank writes it, and all know whether it is there.
        """
        Ranks.of(group).of_one(lambda: self._save(path, dtype, bits, index, force))

    def _save(self, path: Place, dtype: torch.dtype | None, bits: int | str | None, index: bool, force: bool) -> None:
        if index:
            check_indexable(self._state, bits)
        if bits is None:
            save(path, self._state, dtype, index, force)
        elif dtype is not None:
            raise BadValue(f"a sealed memory has bits={bits}, and no numbers of {dtype}; leave one of them out")
        else:
            self.seal(bits).save(path, force=force)

    def seal(self, bits: int | str | None = None) -> "SealedMemory":
        """The memory in 1, 2, 3, 4 or 8 bits a cell, to be asked alone; see `SealedMemory`. "auto" chooses the bits.

        Unless they are given, they are two, or those that the memory was consolidated in.
        """
        from carving.memory.sealed import sealed  # which unseals to a Memory, and so comes after this file

        return sealed(self._state, bits)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu", *, group: Group = None) -> Self:
        """The memory of a file, with the changes that lie in a journal beside it; of a group, every rank reads it."""
        ranks = Ranks.of(group)
        loaded = ranks.agreed(lambda: load(path, device))
        ranks.check_same(file=f"{shown(path)} ({loaded.base}, {loaded.changes} changes)")
        return cls._of(loaded.state)


def _check_held(name: str, tensor: Tensor, before: Tensor) -> None:
    """Refuse a tensor that is to replace another, but is on another device or not finite."""
    if tensor.device != before.device:
        raise BadValue(f"{name} must be on {before.device}, got {tensor.device}; use .to({str(before.device)!r})")
    check_finite(name, tensor)
