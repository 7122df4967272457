"""Memory: symbols in, symbols out.

A memory is a scheme, one tensor, and the leaves that were stored (with how often, for the noise and as what is likely
before the tensor is asked). Everything that fails leaves it as it was.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from threading import RLock
from typing import Self, Unpack

import torch
from torch import Tensor

from carving import files
from carving.checks import check_integer, check_weight
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import Change, OnProgress, check_same, check_same_trained, checked, report, tallied
from carving.memory.codebook import Codebook
from carving.memory.forgetting import Strangers, forgotten
from carving.memory.fullness import falls_short, foreseen, told
from carving.memory.pairs import Batch, batches
from carving.memory.questions import Questions
from carving.memory.state import State, stricter
from carving.memory.survey import check_room, naming_accuracy, survey
from carving.memory.verification import Verification, verify
from carving.prediction import plan as planner
from carving.prediction.goal import Goal
from carving.prediction.wish import Shared, Wishes
from carving.scheme import Scheme
from carving.schemes import make
from carving.symbols import Label, Leaf, Vocabulary, canonical_all


class Memory(Questions):
    """A memory of fixed size: documents or pairs go in, leaves come out by their paths.

    >>> from carving import OSC
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"sentence 5": {"subject": "dog", "verb": "chased"}})
    2
    >>> memory.recall("sentence 5", "subject").leaf
    'dog'
    """

    def __init__(self, scheme: Scheme, vocabulary: Iterable[Leaf] = (), fillers: Tensor | None = None) -> None:
        """An empty memory. Leaves that are known beforehand may have fillers of their own: trained ones."""
        if not isinstance(scheme, Scheme):
            raise BadType(f'a memory takes a scheme, got {scheme!r}; such as OSC(d=64), or make("HLB", d=4096)')
        self._state, self._lock = State.empty(scheme, Vocabulary(vocabulary), fillers), RLock()

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
        **wishes: Unpack[Wishes],
    ) -> Self:
        """An empty memory of the smallest scheme that is predicted to answer so many pairs so accurately.

        The accuracy is that of naming the leaf of a path that holds one (`absence=0`). Who wants to be told just as
        accurately where nothing is stored, or to recall sets, asks for about a tenth of the errors: 0.999 for 0.99.
        """
        return cls.of_plan(planner.plan(pairs, vocabulary, accuracy, shared, **wishes), vocabulary, accuracy, seed)

    @classmethod
    def of_plan(cls, plan: planner.Plan, vocabulary: int, accuracy: float = 0.99, seed: int = 0) -> Self:
        """An empty memory of a plan that was made for so many leaves and this accuracy.

        >>> from carving import plan
        >>> Memory.of_plan(plan(pairs=100, vocabulary=50, scheme="TPR"), vocabulary=50).goal
        Goal(accuracy=0.99, pairs=100, vocabulary=50, joint=False)
        """
        goal = Goal(float(accuracy), plan.pairs, vocabulary, plan.joint)
        return cls._of(State.empty(make(plan.scheme, seed=seed, **plan.parameters), Vocabulary(), goal=goal))

    @classmethod
    def for_pairs(
        cls,
        pairs: Document | Iterable[Pair] | Frame,
        accuracy: float = 0.99,
        room: float = 1.0,
        *,
        key: Label = None,
        seed: int = 0,
        on_progress: OnProgress | None = None,
        **wishes: Unpack[Wishes],
    ) -> Self:
        """An EMPTY memory of the size that these pairs need: they are only counted, `store` stores them.

        The accuracy is that of all answers, "nothing is stored there" being one; `room=2` plans for twice these pairs.
        The other wishes are the planner's: `scheme`, `p`, `compact`, ...

        >>> facts = {"dog": {"is a": "animal", "says": "woof"}, "cat": {"is a": "animal", "says": "meow"}}
        >>> memory = Memory.for_pairs(facts)
        >>> memory.pairs, memory.store(facts), memory.recall("cat", "says").leaf
        (0, 4, 'meow')
        """
        room, accuracy = check_room(room), naming_accuracy(accuracy)
        expected = survey(chain.from_iterable(batches(pairs, key)), on_progress).grown(room)
        return cls.planned(expected.pairs, expected.leaves, accuracy, expected.shared, seed=seed, **wishes)

    @classmethod
    def like(cls, other: "Memory") -> Self:
        """An EMPTY memory of the same scheme, goal and trained fillers: what is stored in it can be added to the other.

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
        return cls._of(other._state.emptied())

    def __repr__(self) -> str:
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}"

    def __getstate__(self) -> dict[str, object]:
        return {"_state": self._state}  # a lock stays where it is

    def __setstate__(self, state: dict[str, State]) -> None:
        self._state, self._lock = state["_state"], RLock()

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds its pairs."""
        return self._state.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The leaves that were stored."""
        return self._state.vocabulary

    @property
    def tensor(self) -> Tensor:
        """What holds all pairs."""
        return self._state.tensor

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        with self._lock:
            self._state = replace(self._state, tensor=tensor)

    @property
    def counts(self) -> Tensor:
        """How often each leaf was stored."""
        return self._state.counts

    @counts.setter
    def counts(self, counts: Tensor) -> None:
        with self._lock:
            self._state = replace(self._state, counts=counts)

    @property
    def _codebook(self) -> Codebook:
        return self._state.codebook

    @property
    def goal(self) -> Goal | None:
        """What it was planned for: the share of leaves that it is to name, the pairs and the different leaves."""
        return self._state.goal

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return self._state.pairs

    @property
    def trained(self) -> Tensor | None:
        """The fillers that were trained, those of the vocabulary's first leaves."""
        return self._state.codebook.trained

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same memory on another device, or computing in another precision."""
        if isinstance(device, torch.dtype):
            raise BadType(f"a precision is given by its name, to(dtype={device}), got it as the device")
        changes = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        return self._of(self._state.moved(self.scheme.like(**changes)))

    # Storing and forgetting

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Store a document, or pairs of a path and a leaf; the number of pairs. Any size: it is read in batches.

        A DataFrame of pandas or polars is a table: a row is named by its cell in the column `key`, or by its number.
        Where the memory gets too full for what it was planned for (`goal`; or to name 0.9 of its leaves), it is stored
        all the same, with a warning: `carving.errors.Overfull`.
        """
        with self._lock:
            held = self._state
            change = Change(held, check_weight(weight))
            for pairs in batches(what, key):
                change.add(Batch(pairs))
                report(on_progress, len(pairs))
            self._put(held, told(held, checked(change).state()))
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
        held. `force=True` takes all of them out, which leaves less than nothing. Schemes without probabilities
        (`scheme.facts.linear`) cannot tell, and take out everything.
        """
        with self._lock:
            held = self._state
            change, strangers = forgotten(held, batches(what, key), check_weight(weight), force, on_progress)
            if strangers and not change.pairs:
                return strangers
            self._put(held, replace(checked(change).state(), told=0))
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
        check_same(ours.scheme, theirs.scheme)
        check_same_trained(ours.codebook, theirs.codebook)
        leaves = dict(zip(theirs.vocabulary.rows, theirs.vocabulary.labels, strict=True))
        fuller = max(ours, theirs, key=lambda each: each.pairs)
        both = ours.holding(ours.tensor + theirs.tensor.to(ours.tensor), leaves, theirs.counts)
        both = tallied(ours, both, theirs.tally)
        return self._of(told(fuller, replace(both, goal=stricter(ours.goal, theirs.goal))))

    def verify(
        self,
        pairs: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        joint: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """How many of the pairs it answers rightly, and which wrongly; with `joint`, all of them asked together.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.right, outcome.share, [(wrong.path, wrong.leaf, wrong.answer.leaf) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'meow', 'woof')])
        """
        return verify(self._of(self._state), chain.from_iterable(batches(pairs, key)), joint, on_progress)

    def predicted(self, pairs: int = 0) -> float | None:
        """The share of leaves that it is predicted to name, once so many pairs more are stored; None if none is.

        Predictions are for leaves of which each is used about as often, asked for one at a time.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted() is None, memory.predicted(pairs=2) > 0.99, memory.predicted(pairs=1000) < 0.9
        (True, True, True)
        """
        return foreseen(self._state, check_integer("pairs", pairs, 0))

    @property
    def overfull(self) -> bool:
        """Whether it is predicted to name fewer leaves than it was planned for (`goal`), or else than 0.9."""
        return falls_short(self._state)

    # Files

    def save(self, path: str | os.PathLike[str], dtype: torch.dtype | None = None, *, force: bool = False) -> None:
        """Write the memory to one file, whole or not at all; `dtype` may be a smaller one for the tensor.

        A memory that is there is replaced; what is something else, or read-only, only with `force`.
        """
        held = self._state
        leaves, trained = held.vocabulary.labels, held.codebook.trained
        contents = files.Contents(held.scheme, held.tensor, leaves, held.counts, trained, held.goal, held.tally)
        files.write(path, contents, dtype, force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Self:
        """The memory of a file."""
        contents = files.read(path)
        scheme, fillers, vocabulary = contents.scheme.like(device=device), contents.fillers, contents.vocabulary
        trained = 0 if fillers is None else len(fillers)
        known = State.empty(scheme, Vocabulary(vocabulary[:trained]), fillers, contents.goal)
        leaves = dict(zip(canonical_all(vocabulary), vocabulary, strict=True))
        state = known.holding(contents.tensor.to(scheme.device), leaves, contents.counts)
        return cls._of(replace(state, tally=contents.tally))
