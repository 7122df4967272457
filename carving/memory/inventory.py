"""Mapping interface of memories that keep their paths: length, iteration, lookup, search and decoding of all pairs."""

from collections.abc import Iterable, Iterator

from carving.memory.changes import OnProgress
from carving.memory.decode_pairs import DecodedPairs, Moment, decode_pairs
from carving.memory.questions import Questions, check_paths
from carving.memory.state import State, known_paths
from carving.memory.where import Found, where
from carving.symbols.codec import Path, Role, Value, canonical_path
from carving.symbols.paths import as_path, pack


class Inventory(Questions):
    """The mapping interface of a memory that keeps its paths (`keep_paths=True`): paths to values.

    In a memory without kept paths, whatever needs them raises BadValue.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
    >>> memory.store({"dog": {"says": "woof", "legs": 4}, "cat": {"says": "meow", "legs": 4}})
    4
    >>> len(memory), ("dog", "legs") in memory, memory.paths("cat"), memory["cat", "says"]
    (4, True, [('cat', 'says'), ('cat', 'legs')], 'meow')
    >>> sorted(path for path, answer in memory.where(4))
    [('cat', 'legs'), ('dog', 'legs')]
    """

    @property
    def _counted(self) -> State:
        """A state whose paths are up to date, though its tensor may not be."""
        return self._state

    @property
    def keeps_paths(self) -> bool:
        """Whether the memory keeps the paths of its pairs."""
        return self._counted.known is not None

    def __bool__(self) -> bool:
        return True  # an empty memory is one, too

    def __len__(self) -> int:
        """Return the number of different paths that hold a value."""
        return len(known_paths(self._counted))

    def __iter__(self) -> Iterator[Path]:
        """Iterate over the paths, in the order in which they were first stored."""
        return iter(known_paths(self._counted))

    def __contains__(self, path: object) -> bool:
        """Whether a path is among the kept paths: an exact lookup, not a query."""
        return known_paths(self._counted).count(canonical_path(_as_key(path))) > 0

    def __getitem__(self, path: Role | Path) -> Value | list[Value]:
        """Recall the value under a kept path, or the list of its values if several pairs were stored under it.

        Raises:
            KeyError: If the path is not kept.
        """
        held, key = self._state, _as_key(path)
        count = known_paths(held).count(canonical_path(key))
        if not count:
            raise KeyError(f"No value is stored under {key!r}.")
        asked = Moment(held)
        if count == 1:
            return asked.recall(*key, prior_empty=0.0).value
        if asked.has_probabilities:
            return [answer.value for answer in asked.recall_set(*key)]
        return [answer.value for answer in asked.recall(*key, top=count)]

    def packed_paths(self) -> int:
        """Return the number of bytes that the kept paths take in a file."""
        return len(pack(known_paths(self._counted).weights()))

    def paths(self, *prefix: Role | Path) -> list[Path]:
        """Return the kept paths that begin with a prefix, in the order in which they were first stored.

        Args:
            *prefix: The roles of the prefix, or one path. Without any, all paths are returned.
        """
        whole = prefix[0] if len(prefix) == 1 and isinstance(prefix[0], tuple) and prefix[0] else prefix
        return list(known_paths(self._counted).below(whole))  # type: ignore[arg-type]  # a tuple among roles is refused

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
            candidates: The paths to search. By default the kept paths.
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
        held = self._state
        searched = known_paths(held) if paths is None else check_paths(paths, held).distinct()[0]
        return where(held, value, searched, threshold, prior_empty, on_progress)

    def decode_pairs(
        self,
        paths: Iterable[Path] | None = None,
        *,
        joint: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> DecodedPairs:
        """Decode all pairs that the memory holds, and report how surely.

        Args:
            paths: The paths, each as often as it holds values. By default the kept paths.
            joint: Decode all paths jointly (True) or one by one (False). By default jointly, and one by one if that
                takes more than 128 MiB of cores, or does not converge and is less sure.
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
        return decode_pairs(self._state, paths, joint, on_progress)


def _as_key(path: object) -> Path:
    """A path that indexes: `memory["dog", "says"]`; a role by itself is a path of one."""
    return as_path(path if isinstance(path, tuple | list) else (path,))
