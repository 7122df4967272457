"""Memory: symbols in, symbols out.

A memory is a scheme, one tensor, and the leaves that were stored (with how often, for the noise and as what is likely
before the tensor is asked). Everything that fails leaves it as it was.
"""

import os
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Self, Unpack

import torch
from torch import Tensor

from carving import files
from carving.checks import check_integer, check_weight
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.memory.changes import Change, OnProgress, check_same, check_same_trained
from carving.memory.codebook import Codebook, check_finite
from carving.memory.kept import Kept
from carving.memory.pairs import Batch, batches
from carving.memory.questions import Questions
from carving.memory.survey import check_room, naming_accuracy, predicted, survey
from carving.memory.verification import Verification, verify
from carving.prediction import plan as planner
from carving.prediction.wish import Shared, Wishes
from carving.scheme import Scheme
from carving.schemes import make
from carving.symbols import Label, Leaf, Vocabulary


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
        self.scheme = scheme
        self.tensor = scheme.zeros()
        self.vocabulary = Vocabulary(vocabulary)
        self.counts = torch.zeros(len(self.vocabulary), dtype=torch.float64)  # how often each leaf was stored
        self._codebook, self._kept = Codebook(scheme, self.vocabulary, fillers), Kept()

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
        plan = planner.plan(pairs, vocabulary, accuracy, shared, **wishes)
        return cls(make(plan.scheme, seed=seed, **plan.parameters))

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

    def __repr__(self) -> str:
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}"

    @property
    def pairs(self) -> int:
        """How many pairs were stored and not forgotten."""
        return round(float(self.counts.clamp_min(0).sum()))

    @property
    def trained(self) -> Tensor | None:
        """The fillers that were trained, those of the vocabulary's first leaves."""
        return self._codebook.trained

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same memory on another device, or computing in another precision."""
        if isinstance(device, torch.dtype):
            raise BadType(f"a precision is given by its name, to(dtype={device}), got it as the device")
        changes = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        scheme, trained = self.scheme.like(**changes), self.trained
        other = type(self)(scheme, self.vocabulary.labels[: 0 if trained is None else len(trained)], trained)
        for leaf in self.vocabulary.labels[len(other.vocabulary) :]:
            other.vocabulary.add(leaf)
        other.tensor = self.tensor.to(scheme.device, scheme.memory_dtype, copy=True)
        other.counts = self.counts.clone()
        return other

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
        """
        change = Change(self.tensor, check_weight(weight), self._codebook, on_progress)
        for batch in batches(what, key):
            change.add(Batch(batch))
        return self._apply(change)

    def forget(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> list[Pair]:
        """Take a document or pairs out again; those that were probably never stored come back (and are taken out)."""
        change = Change(self.tensor, -check_weight(weight), self._codebook, on_progress)
        times = Counter[tuple[bytes, bytes]]()
        strangers: list[Pair] = []
        for pairs in batches(what, key):
            batch, never = Batch(pairs), [False] * len(pairs)
            if self.scheme.facts.linear:
                names = zip(batch.paths.names, batch.names, strict=True)
                for row, (name, answer) in enumerate(zip(names, self._recognise(batch), strict=True)):
                    times[name] += 1  # what is forgotten twice must have been stored twice
                    never[row] = not answer or answer.score < times[name] - 0.5 > 0.5
            strangers += [pair for pair, stranger in zip(pairs, never, strict=True) if stranger]
            change.add(batch, never)
        self._apply(change)
        return strangers

    def _apply(self, change: Change) -> int:
        if not change.pairs:
            raise BadValue("there must be something to store, got no pairs; give a document with at least one leaf")
        check_finite("the memory", change.tensor)
        self.tensor = change.tensor
        rows = self.vocabulary.add_named(change.leaves)
        self.counts = torch.cat([self.counts, self.counts.new_zeros(len(self.vocabulary) - len(self.counts))])
        times = torch.tensor([change.counts[name] for name in change.leaves], dtype=torch.float64)
        self.counts[rows] += change.weight * times
        return change.pairs

    def __add__(self, other: "Memory") -> "Memory":
        """Both memories' pairs in one: their tensors and counts added, their vocabularies joined."""
        if not isinstance(other, Memory):
            return NotImplemented
        check_same(self.scheme, other.scheme)
        check_same_trained(self._codebook, other._codebook)
        both = self.to()
        rows = [both.vocabulary.add(leaf) for leaf in other.vocabulary]
        both.counts = torch.cat([self.counts, self.counts.new_zeros(len(both.vocabulary) - len(self.counts))])
        both.counts[rows] += other.counts
        both.tensor += other.tensor.to(both.tensor)
        return both

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
        return verify(self, chain.from_iterable(batches(pairs, key)), joint, on_progress)

    def predicted(self, pairs: int = 0) -> float | None:
        """The share of leaves that it is predicted to name, once so many pairs more are stored; None if none is.

        Predictions are for leaves of which each is used about as often, asked for one at a time.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted() is None, memory.predicted(pairs=2) > 0.99, memory.predicted(pairs=1000) < 0.9
        (True, True, True)
        """
        return predicted(self.scheme, self.pairs + check_integer("pairs", pairs, 0), len(self.vocabulary))

    # Files

    def save(self, path: str | os.PathLike[str], dtype: torch.dtype | None = None) -> None:
        """Write the memory to one file, whole or not at all; `dtype` may be a smaller one for the tensor."""
        contents = files.Contents(self.scheme, self.tensor, self.vocabulary.labels, self.counts, self.trained)
        files.write(path, contents, dtype)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Self:
        """The memory of a file."""
        contents = files.read(path)
        scheme, fillers, vocabulary = contents.scheme.like(device=device), contents.fillers, contents.vocabulary
        trained = 0 if fillers is None else len(fillers)
        memory = cls(scheme, vocabulary[:trained], fillers)
        for leaf in vocabulary[trained:]:
            memory.vocabulary.add(leaf)
        memory.tensor, memory.counts = contents.tensor.to(scheme.device), contents.counts
        return memory
