"""Memory: store documents or (path, value) pairs in one tensor of fixed size, and recall values by their paths.

A memory consists of a scheme, one tensor, and the values that were stored, with their counts: noise and priors follow
from these. An operation that fails leaves the memory unchanged. The verbs are functions of `query`, `evaluate`,
`update`, `capacity` and `consolidation`.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import torch
from torch import Tensor

from carving.distributed.ranks import Group, Ranks
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.inference.answer import Answer, Answers
from carving.memory.backends import Backend, InMemory, Replicated, check_indexable, load, save
from carving.memory.capacity import (
    check_headroom,
    falls_short,
    larger,
    naming_accuracy,
    predicted_of,
    survey,
)
from carving.memory.codebook import check_fillers, check_finite
from carving.memory.consolidation import Consolidation, consolidate
from carving.memory.counts import ValueCounts
from carving.memory.evaluate import DecodedPairs, Verification, check_whole, decode_pairs, verify
from carving.memory.pairs import OnProgress, batches
from carving.memory.query import (
    Asking,
    Found,
    check_roles,
    decode,
    rebuild_document,
    recall_many,
    recall_sets,
    recognize_many,
    where,
)
from carving.memory.reader import Reader
from carving.memory.state import State, keeping, known_paths
from carving.memory.update import (
    NotFound,
    added,
    check_weights,
    finite_energy,
    forget,
    levels_of,
    replace_value,
    store,
    sum_of_ranks,
)
from carving.planner import plan as planner
from carving.planner.requirements import Requirements, Shared, Target
from carving.schemes import make
from carving.schemes.base import Scheme
from carving.storage.journaledfile import JournaledFile
from carving.storage.locks import Place, shown
from carving.symbols.codec import Label, Path, Role, Value, canonical_path
from carving.symbols.paths import as_path, pack
from carving.symbols.vocabulary import Vocabulary
from carving.validate import check_integer, check_tensor, check_weight

if TYPE_CHECKING:
    from carving.memory.quantized import QuantizedMemory

MAX_PAIRS = 2.0**53  # of more, a count does not tell one more or less


class Memory:
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
        known = Vocabulary(vocabulary)
        if fillers is not None:
            check_fillers(scheme, len(known), fillers)
        state = State.empty(scheme, known, fillers, path_counts=keeping(keep_paths))
        self._backend: Backend = InMemory(Reader(state))

    @classmethod
    def from_backend(cls, backend: Backend) -> Self:
        """Return the memory whose state lives in a backend.

        Args:
            backend: A backend of `carving.memory.backends`, or one of your own, which that module tells how to write.

        >>> from carving import OSC
        >>> from carving.memory.backends import ReadOnly
        >>> from carving.memory.reader import Reader
        >>> from carving.memory.state import State
        >>> empty = Reader(State.empty(OSC(d=32), Vocabulary()))
        >>> Memory.from_backend(ReadOnly(empty)).pairs
        0
        """
        memory = cls.__new__(cls)
        memory._backend = backend
        return memory

    @classmethod
    def _of(cls, reader: Reader) -> Self:
        return cls.from_backend(InMemory(reader) if reader.ranks.size == 1 else Replicated(reader))

    @property
    def _reader(self) -> Reader:
        return self._backend.reader

    @property
    def _counted(self) -> Reader:
        return self._backend.counted

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
        return cls._of(Reader(State.empty(scheme, Vocabulary(), target=target, path_counts=keeping(keep_paths))))

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
            group: A process group of torch.distributed: every rank passes its own pairs, and gets a
                memory for all, distributed over the group.
            on_progress: Called with the number of pairs that were counted since the last call.
            **requirements: Options of `carving.plan`: `scheme`, `p`, `compact`, ...

        Raises:
            BadValue: If there are no pairs, or an option is invalid.

        >>> facts = {"dog": {"is a": "animal", "says": "woof"}, "cat": {"is a": "animal", "says": "meow"}}
        >>> memory = Memory.for_pairs(facts)
        >>> memory.pairs, memory.store(facts), memory.recall("cat", "says").value
        (0, 4, 'meow')
        """
        headroom, accuracy, ranks = check_headroom(headroom), naming_accuracy(accuracy), Ranks.of(group)
        expected = survey(chain.from_iterable(batches(pairs, key)), on_progress, ranks).grown(headroom)
        sizes = expected.pairs, expected.values, accuracy, expected.shared
        memory = cls.for_size(*sizes, seed=seed, keep_paths=keep_paths, **requirements)
        return memory if group is None else memory.distributed(group)

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
        empty = other._reader.state.emptied()
        return cls._of(Reader(empty if keep_paths is None else replace(empty, path_counts=keeping(keep_paths))))

    def distributed(self, group: Group) -> Self:
        """Return a copy that the ranks of a process group of torch.distributed hold and query together.

        All ranks must make the same calls in the same order. Every rank holds the whole memory: `store` takes each
        rank's own pairs, and afterwards every memory holds those of all ranks; if one rank fails, no memory changes.
        Queries, `verify` and `consolidate` take the same arguments on all ranks, which share the work and get the same
        answers; the first rank writes files. `to`, `+` and `without_paths` return distributed
        memories, too; `like`, `grow` and `all_reduce` do not.

        Args:
            group: A process group of torch.distributed.

        In a program that torchrun starts::

            torch.distributed.init_process_group("gloo")
            memory = Memory(OSC(d=200)).distributed(torch.distributed.group.WORLD)
            memory.store(own_pairs)  # those of this rank
            answer = memory.recall("cow", "says")  # the same call, and the same answer, on all ranks
        """
        return self._of(Reader(self._reader.state, self._reader.codebook, ranks=Ranks.of(group)))

    def __repr__(self) -> str:
        how = ", consolidated" if self.is_consolidated else ""
        return f"Memory of {self.pairs:,} pairs and {len(self.vocabulary):,} values in {self.scheme}{how}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._of_state, (self._reader.state,)  # locks, caches and ranks stay where they are

    @classmethod
    def _of_state(cls, state: State) -> Self:
        return cls._of(Reader(state))

    def __bool__(self) -> bool:
        return True  # an empty memory is one, too

    # What it holds

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds the pairs."""
        return self._counted.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The values that the memory can answer with."""
        return self._counted.vocabulary

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return self._counted.pairs

    @property
    def target(self) -> Target | None:
        """Target of the plan (accuracy, pairs, vocabulary), or None if the memory was not planned."""
        return self._counted.target

    @property
    def has_probabilities(self) -> bool:
        """Whether answers have probabilities: the scheme is linear (`scheme.facts.linear`)."""
        return self._counted.scheme.facts.linear

    @property
    def is_consolidated(self) -> bool:
        """Whether the memory was consolidated, so that its tensor is no longer the sum of its pairs."""
        return self._counted.calibration is not None

    @property
    def tensor(self) -> Tensor:
        """A copy of the tensor (*scheme.memory_shape) that holds all pairs. Another one can be assigned."""
        return self._reader.tensor.clone()

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        facts, way_out = self.scheme.facts, "It is the shape of scheme.zeros()."
        check_tensor("tensor", tensor, facts.memory_shape, way_out, facts.memory_dtype)
        _check_dense("tensor", tensor, self._reader.tensor.device)
        tensor = tensor.detach().clone()
        energy = finite_energy(self.scheme, tensor)
        self._backend.transform(lambda before: before.after(replace(before.state, tensor=tensor), energy))

    @property
    def counts(self) -> Tensor:
        """A copy of how often each value was stored, (values,), in float64. Others can be assigned."""
        return self._reader.counts.clone()

    @counts.setter
    def counts(self, counts: Tensor) -> None:
        way_out = "There is one count for each value of memory.vocabulary."
        check_tensor("counts", counts, (len(self.vocabulary),), way_out, torch.float64)
        _check_dense("counts", counts, torch.device("cpu"))
        check_finite("counts", counts)
        if not float(counts.abs().sum()) <= MAX_PAIRS:
            raise BadValue(f"counts must sum to at most 2^53, got {float(counts.abs().sum()):.3g}.")
        value_counts = ValueCounts(counts.detach().clone())
        self._backend.transform(lambda before: before.after(replace(before.state, value_counts=value_counts)))

    @property
    def trained_fillers(self) -> Tensor | None:
        """The fillers (n, *filler_shape) that were passed for the first n values of the vocabulary, None if none."""
        return self._counted.state.trained

    @property
    def keeps_paths(self) -> bool:
        """Whether the memory keeps the paths of its pairs."""
        return self._counted.path_counts is not None

    def __len__(self) -> int:
        """Return the number of different paths that hold a value."""
        return len(known_paths(self._counted.state))

    def __iter__(self) -> Iterator[Path]:
        """Iterate over the paths, in the order in which they were first stored."""
        return iter(known_paths(self._counted.state))

    def __contains__(self, path: object) -> bool:
        """Whether a path is among the kept paths: an exact lookup, not a query."""
        return known_paths(self._counted.state).count(canonical_path(_as_key(path))) > 0

    def __getitem__(self, path: Role | Path) -> Value | list[Value]:
        """Recall the value under a kept path, or the list of its values if several pairs were stored under it.

        Raises:
            KeyError: If the path is not kept.
        """
        reader, key = self._reader, _as_key(path)
        count = known_paths(reader.state).count(canonical_path(key))
        if not count:
            raise KeyError(f"No value is stored under {key!r}.")
        if count == 1:
            return recall_many(reader, [key], prior_empty=0.0)[0].value
        if self.has_probabilities:
            return [answer.value for answer in recall_sets(reader, [key])[0]]
        return [answer.value for answer in recall_many(reader, [key], top=count)[0]]

    def packed_paths(self) -> int:
        """Return the number of bytes that the kept paths take in a file.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({f"sentence {i}": {"verb": "chased"} for i in range(100)})
        100
        >>> memory.packed_paths() < 1000
        True
        """
        return len(pack(known_paths(self._counted.state).weights()))

    def paths(self, *prefix: Role | Path) -> list[Path]:
        """Return the kept paths that begin with a prefix, in the order in which they were first stored.

        Args:
            *prefix: The roles of the prefix, or one path. Without any, all paths are returned.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"cow": {"says": "moo"}, "dog": {"says": "woof", "eats": "meat"}})
        3
        >>> memory.paths("dog")
        [('dog', 'says'), ('dog', 'eats')]
        """
        whole = prefix[0] if len(prefix) == 1 and isinstance(prefix[0], tuple) and prefix[0] else prefix
        return list(known_paths(self._counted.state).below(whole))  # type: ignore[arg-type]  # a tuple among roles is refused

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return a copy on another device, or in another precision.

        Args:
            device: Device of the copy; None keeps it.
            dtype: `torch.float32` or `torch.float64`; None keeps it.

        Raises:
            BadValue: If the weights of the pairs differ too much for the precision.

        >>> from carving import OSC
        >>> Memory(OSC(d=40)).to(dtype=torch.float64).tensor.dtype
        torch.float64
        """
        if isinstance(device, torch.dtype):
            raise BadType(f"device must be a device, got {device}. Pass a precision as to(dtype={device}).")
        changes = {name: value for name, value in (("device", device), ("dtype", dtype)) if value is not None}
        moved = Reader(self._reader.state.moved(self.scheme.like(**changes)), ranks=self._reader.ranks)
        if moved.scheme.dtype != self.scheme.dtype:
            check_weights(moved, [levels_of(moved.state)])
        return self._of(moved)

    def without_paths(self) -> Self:
        """Return a copy that keeps no paths.

        >>> from carving import OSC
        >>> Memory(OSC(d=40), keep_paths=True).without_paths().keeps_paths
        False
        """
        return self._of(self._reader.after(replace(self._reader.state, path_counts=None)))

    # Queries

    @overload
    def recall(
        self,
        *path: Role,
        top: None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer: ...

    @overload
    def recall(
        self,
        *path: Role,
        top: int,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> list[Answer]: ...

    def recall(
        self,
        *path: Role,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer | list[Answer]:
        """Return the value stored under a path, or the `top` most probable values.

        Args:
            *path: The roles of the path.
            top: Number of values to return. None returns one answer, which is empty if nothing is stored.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that the path is empty, from 0 (it certainly holds a value) to below 1.
            recall_target: For very large vocabularies: see `recall_many`.

        Returns:
            An `Answer`, whose probability assumes that the path holds at most one value; it is false if the path is
            more probably empty. With `top` a list of answers, most probable first: the path may
            hold several values, so that the probabilities may add up to more than 1.

        Raises:
            BadValue: If nothing was stored, or `candidates` contains an unknown value.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> memory.recall("dog", "says").value, bool(memory.recall("cow", "says"))
        ('woof', False)
        >>> [answer.value for answer in memory.recall("cat", "says", top=2)]
        ['meow', 'woof']
        """
        how = dict(candidates=candidates, prior_empty=prior_empty, recall_target=recall_target)
        answer: Answer | list[Answer] = recall_many(self._reader, [path], top=top, **how)[0]  # type: ignore[arg-type]
        return answer

    def recall_many(
        self,
        paths: Iterable[Path],
        *,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Recall many paths at once: one answer for each path, or with `top` one list of answers.

        Args:
            paths: The paths, each a tuple of roles.
            top: Number of values to return for each path. None returns one answer, which may be empty.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty, from 0 to below 1.
            recall_target: Target recall of an approximate search, relative to scoring all candidates, which 1 does.
                Below 1 an index of compact fillers is used (docs/candidates.md). By default 0.999 for 200,000 values or
                more that can be indexed, else 1.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            n answers, or n lists of answers, as of `recall`.

        Raises:
            BadValue: If nothing was stored, `candidates` contains an unknown value, or `recall_target` needs an index
                that the memory cannot have.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store({"cow": {"says": "moo"}, "dog": {"says": "woof"}})
        2
        >>> [answer.value for answer in memory.recall_many([("dog", "says"), ("cow", "says"), ("cat", "says")])]
        ['woof', 'moo', None]
        """
        return recall_many(
            self._reader,
            paths,
            top=top,
            candidates=candidates,
            prior_empty=prior_empty,
            recall_target=recall_target,
            on_progress=on_progress,
        )

    def recognize(self, *path: Role, value: Value, prior_empty: float = 0.5) -> Answer:
        """Return how probably a value is stored under a path; the answer is true if that is at least 0.5.

        Without probabilities (`has_probabilities`) every answer is true: compare the scores instead.

        Args:
            *path: The roles of the path.
            value: The value.
            prior_empty: Prior probability that the value is not stored there.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> bool(memory.recognize("dog", "says", value="woof")), bool(memory.recognize("dog", "says", value="meow"))
        (True, False)
        """
        check_roles(path)
        return recognize_many(self._reader, [(path, value)], prior_empty=prior_empty)[0]

    def recognize_many(
        self, pairs: Iterable[Pair], *, prior_empty: float = 0.5, on_progress: OnProgress | None = None
    ) -> list[Answer]:
        """Return one answer for each (path, value) pair: how probably the value is stored there; see `recognize`.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store({"cow": {"says": "moo"}})
        1
        >>> [answer.found for answer in memory.recognize_many([(("cow", "says"), "moo"), (("cow", "eats"), "moo")])]
        [True, False]
        """
        return recognize_many(self._reader, pairs, prior_empty=prior_empty, on_progress=on_progress)

    def recall_set(self, *path: Role, threshold: float = 0.5, **how: Unpack[Asking]) -> list[Answer]:
        """Return all values of a path whose probability is at least `threshold`, most probable first.

        Args:
            *path: The roles of the path.
            threshold: Minimum probability that a value is stored there, between 0 and 1.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If the scheme has no probabilities.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "hunter")])
        3
        >>> sorted(answer.value for answer in memory.recall_set("dog", "is a"))
        ['animal', 'pet']
        """
        return recall_sets(self._reader, [path], threshold=threshold, **how)[0]

    def recall_sets(
        self,
        paths: Iterable[Path],
        *,
        threshold: float = 0.5,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        on_progress: OnProgress | None = None,
    ) -> list[list[Answer]]:
        """Return one list of answers for each path, which may hold several values: see `recall_set`.

        The arguments are those of `recall_many`, and `threshold` is the minimum probability.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "pet")])
        3
        >>> [sorted(answer.value for answer in each) for each in memory.recall_sets([("dog", "is a"), ("cat", "is a")])]
        [['animal', 'pet'], ['pet']]
        """
        how = dict(candidates=candidates, prior_empty=prior_empty, on_progress=on_progress)
        return recall_sets(self._reader, paths, threshold=threshold, **how)  # type: ignore[arg-type]

    def decode(
        self,
        paths: Iterable[Path] | None = None,
        *,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """Decode all paths jointly, by approximate message passing (AMP).

        It reaches a far higher load than single queries, as long as it converges (see `converged`).

        Decoded values are subtracted as interference from the others, round by round. Every path takes one core
        (*scheme.facts.core_shape) of working memory.

        Args:
            paths: Every stored path, once for each value that it holds. Pairs under other paths act as noise. By
                default the kept paths (`keep_paths=True`).
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty.
            rounds: Maximum number of rounds.
            on_progress: Called with the number of paths that were decoded since the last call, an estimate.

        Returns:
            One answer for each path. `converged` says whether decoding converged (for all pairs of a quantized memory:
            whether they reproduce its cells); if it is False, expect the accuracy of single queries (`recall`).
            `paths` are the paths, and `rounds` the rounds that it took.

        Raises:
            BadValue: If the memory was consolidated, its scheme is not linear, or no paths are given or kept.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), keep_paths=True)
        >>> memory.store({f"key {i}": f"value {i}" for i in range(40)})
        40
        >>> answers = memory.decode()
        >>> answers.converged, answers.paths[7], answers[7].value
        (True, ('key 7',), 'value 7')
        """
        how = dict(candidates=candidates, prior_empty=prior_empty, rounds=rounds, on_progress=on_progress)
        return decode(self._reader, paths, **how)  # type: ignore[arg-type]

    def rebuild(self, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
        """Return the document of nested dicts and lists under the paths; a path without an answer is left out.

        Args:
            paths: The paths of the document. By default the kept paths.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If a kept path holds several different values, which a document cannot: use `recall_sets`.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"says": "woof", "legs": 4}})
        2
        >>> memory.rebuild()
        {'dog': {'says': 'woof', 'legs': 4}}
        """
        return rebuild_document(self._reader, paths, **how)

    def where(
        self,
        value: Value,
        paths: Iterable[Path] | None = None,
        *,
        threshold: float = 0.5,
        prior_empty: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """Return the paths that hold a value, most probable first.

        Args:
            value: The value.
            paths: The paths to search. By default the kept paths.
            threshold: Minimum probability, between 0 and 1.
            prior_empty: Prior probability that a path does not hold this value. By default derived from how often the
                value was stored, and at least 0.5.
            on_progress: Called with the number of paths that were searched since the last call.

        Returns:
            (path, answer) pairs. Paths may hold other values, too.

        Raises:
            BadValue: If the memory keeps no paths and none are given, or has no probabilities.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}, "table": {"legs": 4}})
        3
        >>> [path for path, _ in memory.where(4, paths=[("dog", "legs"), ("bird", "legs"), ("cat", "legs")])]
        [('dog', 'legs')]
        """
        how = dict(threshold=threshold, prior_empty=prior_empty, on_progress=on_progress)
        return where(self._reader, value, paths, **how)  # type: ignore[arg-type]

    def decode_pairs(
        self,
        paths: Iterable[Path] | None = None,
        *,
        joint: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> DecodedPairs:
        """Decode all pairs that the memory holds, and report how many are certain.

        Args:
            paths: The paths, each as often as it holds values. By default the kept paths.
            joint: Decode all paths jointly (True) or one by one (False). By default jointly, and one by one if that
                takes more than 128 MiB of cores, or does not converge and gives fewer confident answers.
            on_progress: Called with the number of paths that were decoded since the last call.

        Raises:
            BadValue: If the memory keeps no paths and none are given.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}})
        2
        >>> found = memory.decode_pairs()
        >>> found.pairs, found.confident, found.missing
        ([(('dog', 'legs'), 4), (('bird', 'legs'), 2)], 2, 0)
        """
        return decode_pairs(self._reader, paths, joint, on_progress)

    def verify(
        self,
        pairs: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        joint: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """Query the memory for pairs, and report which it answers correctly.

        Args:
            pairs: A document, (path, value) pairs or a DataFrame, as for `Memory.store`; possibly a part of what was
                stored. A pair is correct if its value is among those that the memory finds under its path.
            key: The column of a DataFrame with the row names.
            joint: Decode all pairs jointly instead of querying path by path.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            The result: true if all answers are correct.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> outcome = memory.verify({"dog": {"says": "meow"}, "cat": {"says": "meow"}})
        >>> outcome.correct, outcome.accuracy, [(wrong.path, wrong.answer.value) for wrong in outcome.wrong]
        (1, 0.5, [(('dog', 'says'), 'woof')])
        """
        return verify(self._reader, chain.from_iterable(batches(pairs, key)), joint, on_progress)

    def predicted_accuracy(self, pairs: int = 0) -> float | None:
        """Return the predicted accuracy of recalling stored values, None if there is no prediction for the scheme.

        It is that of single queries, or of joint decoding if the memory was planned for it (`target.joint`), and
        assumes that all values are about equally frequent. An empty memory that was planned expects the vocabulary that
        it was planned for.

        Args:
            pairs: Predict for this many additional pairs.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), vocabulary=["woof", "meow"])
        >>> memory.predicted_accuracy() is None, [memory.predicted_accuracy(pairs=n) > 0.95 for n in (2, 1000)]
        (True, [True, False])
        """
        return predicted_of(self._counted, check_integer("pairs", pairs, 0))

    @property
    def is_overfull(self) -> bool:
        """Whether the predicted accuracy is below the target accuracy in `target`, or below 0.9 without one."""
        return falls_short(self._counted)

    def plot(self, *path: Role, prior_empty: float = 0.5) -> Any:
        """Return a matplotlib figure of the memory: its cells and its load, or the scores of all values at a path.

        Args:
            *path: The roles of a path whose scores are shown. Without any, the memory itself is shown.
            prior_empty: Prior probability that the path is empty.

        Raises:
            MissingExtra: If matplotlib (the extra `plots`) is not installed.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> figure = memory.plot("dog", "says")
        >>> figure.axes[0].get_title(loc="left")
        'dog / says'
        """
        from carving.explore.display import plot_memory, plot_scores

        return plot_scores(self, check_roles(path), prior_empty) if path else plot_memory(self)

    def _repr_html_(self) -> str:
        from carving.explore.display import memory_html

        return memory_html(self)

    # Changes

    def store(
        self,
        what: Document | Iterable[Pair] | Frame,
        *,
        key: Label = None,
        weight: float = 1.0,
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
        return self._backend.store(batches(what, key), check_weight(weight), on_progress)

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
        parts: Iterable[list[Pair]] = batches(what, key)
        parts, weight = list(parts) if self._backend.repeats else parts, check_weight(weight)
        return self._backend.commit(lambda change: forget(change, parts, weight, force, on_progress))

    def replace(self, path: Path, value: Value, old: Value = None, *, force: bool = False) -> Answer:
        """Replace the value of a path: subtract what is stored there, and store another value as strongly.

        Reading and writing are one change, which other threads see whole, and in the journal of an open file one
        record.

        Args:
            path: The path, a tuple of roles.
            value: The new value.
            old: The value to replace, of a path with several values. By default the only value of the path.
            force: Replace the most probable value even if it is not certain, or not the only one. If the path is empty,
                store the new value.

        Returns:
            The value that was replaced, with its probability; false if there was none.

        Raises:
            BadValue: If the path has no value, several, or none that is certain, without `force`; if the memory was
                consolidated or quantized, or has no probabilities.

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> memory.replace(("dog", "says"), "bark").value, memory.recall("dog", "says").value, memory.pairs
        ('woof', 'bark', 2)
        """
        return self._backend.commit(lambda change: replace_value(change, path, value, old, force))

    def consolidate(
        self,
        pairs: Document | Iterable[Pair] | Frame | None = None,
        accuracy: float = 1.0,
        *,
        paths: Iterable[Path] | None = None,
        bits: int | None = None,
        key: Label = None,
        on_progress: OnProgress | None = None,
    ) -> Consolidation:
        """Solve for the tensor so that single queries return these pairs, as far as its cells allow.

        A consolidated memory answers correctly from far fewer cells. But pairs that are stored later are noise to it,
        and none can be forgotten. If no more pairs are answered correctly than before, the tensor stays unchanged.

        Args:
            pairs: The stored pairs, one value per path: a document, pairs or a DataFrame, as for `Memory.store`. By
                default they are decoded from the memory, jointly.
            accuracy: Target accuracy, above 0 and at most 1: stop when this share of the pairs is answered correctly.
            paths: The paths to decode the pairs from, instead of `pairs`. By default the kept paths.
            bits: Restrict the cells to 2^bits different numbers (1, 2, 3, 4 or 8 bits), so that the memory can be
                quantized without loss. By default full precision.
            key: The column of a DataFrame with the row names.
            on_progress: Called with the number of additional pairs that are answered correctly.

        Returns:
            The result: true if the target accuracy was reached.

        Raises:
            BadValue: If the memory is empty or not a plain sum, a pair was never stored, a path has several values, or
                the pairs cannot be decoded.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=30, k1=4, compact=True))
        >>> facts = {f"key {i}": f"value {i}" for i in range(100)}
        >>> memory.store(facts)
        100
        >>> outcome = memory.consolidate(facts)
        >>> outcome.before < 60, outcome.after, memory.is_consolidated, memory.recall("key 7", prior_empty=0.0).value
        (True, 100, True, 'value 7')
        """
        outcomes = list[Consolidation]()
        given = None if pairs is None else chain.from_iterable(batches(pairs, key))

        def solve(reader: Reader) -> Reader:
            after, outcome = consolidate(reader, given, paths, accuracy, bits, on_progress)
            outcomes.append(outcome)
            return after

        self._backend.transform(solve)
        return outcomes[0]

    def __add__(self, other: "Memory") -> "Memory":
        """Return a memory with the pairs of both: the sum of their tensors and counts, with a joint vocabulary."""
        if not isinstance(other, Memory):
            return NotImplemented
        ours, theirs = self._reader, other._reader
        both = Memory._of(added(ours, theirs))
        both._backend.monitor.check(max(ours, theirs, key=lambda each: each.pairs), both._reader)
        return both

    def all_reduce(self, group: Group) -> Self:
        """Return the sum of the memories of all ranks of a process group, as `+` adds two; every rank gets all of it.

        Raises:
            BadValue: If the memories cannot be added, or one was consolidated.
        """
        both = self._of(sum_of_ranks(self._reader, Ranks.of(group)))
        both._backend.monitor.check(self._reader, both._reader)
        return both

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
        reader = self._reader
        reader.check_changeable()
        found = decode_pairs(reader, paths, on_progress=on_progress)
        if not found.requested:
            raise BadValue(
                "The memory is empty. Memory.for_size(pairs, vocabulary) returns an empty memory of another size."
            )
        check_whole(reader, found, force)
        kept = self.keeps_paths if keep_paths is None else keep_paths
        bigger = self._of(Reader(larger(reader, found.pairs, pairs, accuracy, kept, requirements)))
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
        self._reader.check_changeable()
        reader = other._reader
        found = decode_pairs(reader, on_progress=on_progress)
        check_whole(reader, found, force)
        if found.pairs:
            self._backend.commit(lambda change: store(change, [found.pairs], 1.0), stores=True)
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
    ) -> None:
        """Save the memory to one file, atomically. A memory file of that name is replaced, together with its journal.

        Args:
            path: Name of the file.
            dtype: Precision of the tensor in the file, possibly a smaller one, such as `torch.float16`.
            bits: Quantize the memory first, to 1, 2, 3, 4 or 8 bits per cell or "auto": see `quantize`.
            index: Also save the index of the compact fillers, as `path.index`, so that `load` need not rebuild it.
            force: Replace a file that is not a memory, or is read-only.

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
        self._reader.ranks.of_one(lambda: self._save(path, dtype, bits, index, force))

    def _save(self, path: Place, dtype: torch.dtype | None, bits: int | str | None, index: bool, force: bool) -> None:
        if index:
            check_indexable(self._reader, bits)
        if bits is None:
            save(path, self._reader, dtype, index, force)
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

        >>> from carving import OSC
        >>> memory = Memory(OSC(d=64))
        >>> memory.store({"cow": {"says": "moo"}, "dog": {"says": "woof"}})
        2
        >>> quantized = memory.quantize(bits=2)
        >>> quantized.bits, quantized.recall("cow", "says").value
        (2, 'moo')
        """
        from carving.memory.quantized import quantized

        return quantized(self._reader, bits)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu", *, group: Group = None) -> Self:
        """Load a memory from its file and the journal beside it.

        The result is detached from the file: `carving.open` returns one that writes its changes to the file.

        Args:
            path: Name of the file.
            device: Device of the memory.
            group: A process group of torch.distributed: every rank reads the file, all must read the
                same, and the memory is distributed over the group.

        Raises:
            BadFile: If the file is corrupt, or not a memory.

        >>> from tempfile import TemporaryDirectory
        >>> from carving import OSC
        >>> memory = Memory(OSC(d=40))
        >>> memory.store({"cow": {"says": "moo"}})
        1
        >>> with TemporaryDirectory() as folder:
        ...     memory.save(f"{folder}/facts.safetensors")
        ...     loaded = Memory.load(f"{folder}/facts.safetensors")
        >>> loaded.recall("cow", "says").value
        'moo'
        """
        ranks = Ranks.of(group)
        reader, version = ranks.agreed(lambda: load(JournaledFile(path), device))
        ranks.check_same(file=f"{shown(path)} ({version.base}, {version.changes} changes)")
        memory = cls._of(reader)
        return memory if group is None else memory.distributed(group)


def _check_dense(name: str, tensor: Tensor, device: torch.device) -> None:
    """Refuse a tensor that is to replace another, but is sparse or on another device."""
    if tensor.layout != torch.strided:
        raise BadValue(f"{name} must be dense, got {tensor.layout}. Use .to_dense().")
    if tensor.device != device:
        raise BadValue(f"{name} must be on {device}, got {tensor.device}. Use .to({str(device)!r}).")


def _as_key(path: object) -> Path:
    """Return the path of an index, memory["dog", "says"]; a role by itself is a path of one."""
    return as_path(path if isinstance(path, tuple | list) else (path,))
