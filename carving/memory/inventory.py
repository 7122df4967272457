"""What a memory that keeps its paths knows of them: how many, which, what lies under them, and where a leaf is."""

from collections.abc import Iterable, Iterator

from carving.checks import as_path
from carving.memory.changes import OnProgress
from carving.memory.holdings import Holdings, Moment, holdings
from carving.memory.questions import Questions, check_paths
from carving.memory.state import State, known_paths
from carving.memory.where import Found, where
from carving.packing import pack
from carving.symbols import Leaf, Path, Role, canonical_path


class Inventory(Questions):
    """The questions to a memory that keeps its paths (`keep_paths=True`); others are told how to.

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
        """Whether it knows its own paths."""
        return self._counted.known is not None

    def __bool__(self) -> bool:
        return True  # an empty memory is one, too

    def __len__(self) -> int:
        """How many different paths it holds."""
        return len(known_paths(self._counted))

    def __iter__(self) -> Iterator[Path]:
        """The paths, in the order in which they were first stored."""
        return iter(known_paths(self._counted))

    def __contains__(self, path: object) -> bool:
        """Whether anything was stored under a path, and not forgotten: it is looked up, not asked for."""
        return known_paths(self._counted).count(canonical_path(_as_key(path))) > 0

    def __getitem__(self, path: Role | Path) -> Leaf | list[Leaf]:
        """What is stored under a kept path: its leaf, or the list of its leaves where several pairs were stored.

        The memory is asked: for the best leaf, or as `recall_set` does for all. A KeyError where the path is not kept.
        """
        held, key = self._state, _as_key(path)
        count = known_paths(held).count(canonical_path(key))
        if not count:
            raise KeyError(f"nothing was stored under {key!r}, or it was forgotten")
        asked = Moment(held)
        if count == 1:
            return asked.recall(*key, absence=0.0).leaf
        if asked.has_probabilities:
            return [answer.leaf for answer in asked.recall_set(*key)]
        return [answer.leaf for answer in asked.recall(*key, top=count)]

    def packed_paths(self) -> int:
        """How many bytes of its file the kept paths take."""
        return len(pack(known_paths(self._counted).weights()))

    def paths(self, *prefix: Role | Path) -> list[Path]:
        """The kept paths that begin with these roles, or with those of a path, in the order of being first stored."""
        whole = prefix[0] if len(prefix) == 1 and isinstance(prefix[0], tuple) and prefix[0] else prefix
        return list(known_paths(self._counted).below(whole))  # type: ignore[arg-type]  # a tuple among roles is refused

    def where(
        self,
        leaf: Leaf,
        among: Iterable[Path] | None = None,
        *,
        threshold: float = 0.5,
        absence: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Found]:
        """The paths that hold a leaf, each with its answer, the most probable first; by default of the kept ones.

        A path may hold others besides, as for `recognise`; `absence` is how probable it is beforehand that a path does
        not hold this leaf: by default as many do as the leaf was stored, but half of them at most.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3))
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}, "table": {"legs": 4}})
        3
        >>> [path for path, _ in memory.where(4, among=[("dog", "legs"), ("bird", "legs"), ("cat", "legs")])]
        [('dog', 'legs')]
        """
        held = self._state
        paths = known_paths(held) if among is None else check_paths(among, held).distinct()[0]
        return where(held, leaf, paths, threshold, absence, on_progress)

    def holdings(
        self,
        paths: Iterable[Path] | None = None,
        *,
        joint: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Holdings:
        """All that it holds under its paths (or those given, each as often as it holds leaves), and how sure it is.

        All are asked together, or, where that takes too much or does not come to rest, one by one; `joint` decides.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"legs": 4}, "bird": {"legs": 2}})
        2
        >>> found = memory.holdings()
        >>> found.pairs, found.sure, found.nothing
        ([(('dog', 'legs'), 4), (('bird', 'legs'), 2)], 2, 0)
        """
        return holdings(self._state, paths, joint, on_progress)


def _as_key(path: object) -> Path:
    """A path that indexes: `memory["dog", "says"]`; a role by itself is a path of one."""
    return as_path(path if isinstance(path, tuple | list) else (path,))
