"""Memories that become one, alike or not: tensors are added, or the pairs of the smaller are stored in the larger."""

from carving.errors import BadValue
from carving.memory.memory import Memory
from carving.memory.pairs import OnProgress
from carving.memory.update import check_same, check_same_trained


def merged(one: Memory, other: Memory, force: bool = False, on_progress: OnProgress | None = None) -> Memory:
    """The pairs of both, in a memory like the larger one, or in a new one where that gets too full.

    Memories that differ in their scheme need kept paths: those of the one whose pairs are decoded, or of both for a new
    plan. The result keeps its paths where all of them are known.

    >>> from carving import OSC
    >>> mine, yours = Memory(OSC(d=40, p=3)), Memory(OSC(d=60, p=2), keep_paths=True)
    >>> mine.store({"dog": {"says": "woof"}}), yours.store({"cow": {"says": "moo"}})
    (1, 1)
    >>> both = merged(mine, yours)
    >>> both.pairs, both.recall("cow", "says").value, both.keeps_paths
    (2, 'moo', False)
    """
    if alike(one, other):
        if one.keeps_paths != other.keeps_paths and one.pairs and other.pairs:
            one, other = one.without_paths(), other.without_paths()
        return one + other
    keeping = [memory for memory in (one, other) if memory.keeps_paths]
    if not keeping:
        check_same(one.scheme, other.scheme)  # which tells what differs
        check_same_trained(one._reader.state, other._reader.state)
    smaller = min(keeping, key=lambda memory: memory.pairs)
    return _absorbed(other if smaller is one else one, smaller, force, on_progress)


def _absorbed(larger: Memory, smaller: Memory, force: bool, on_progress: OnProgress | None) -> Memory:
    """A copy of the larger with the pairs of the smaller, or, where that is too much, a new memory for both."""
    both = larger.to()
    found = both.merge(smaller, force=force, on_progress=on_progress)
    if not both.is_overfull or larger.is_overfull or not larger.keeps_paths or larger.trained_fillers is not None:
        return both
    both, _ = larger.grow(larger.pairs + smaller.pairs, force=force, on_progress=on_progress)
    both.store(found.pairs)
    return both


def alike(one: Memory, other: Memory) -> bool:
    """Whether the tensors of two memories can be added."""
    try:
        check_same(one.scheme, other.scheme)
        check_same_trained(one._reader.state, other._reader.state)
    except BadValue:
        return False
    return True
