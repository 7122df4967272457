"""What a disk may hold after the power failed: of all that was done and not flushed, it may have kept what it liked.

A file system without a journal promises little. What was done to a file's bytes is there once the file was flushed;
until then each write may be there, missing, half there, or there as zeros, whichever came first; and if flushing it
fails, the system may hold for flushed what it never wrote, so that only writing it again helps. What was done to the
names in a folder is there once the folder was flushed; until then the last of it may be missing, in order. Files and
folders do not wait for each other: a file may have its new name before its bytes.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple

WHOLE, HALF, ZEROS, MISSING = "whole", "half", "zeros", "missing"
FATES = (WHOLE, HALF, ZEROS, MISSING)
FEW = 3  # writes whose fates are combined in every way; of more, one differs from its neighbors or all after one do
ROOT = 0  # the node of the folder itself


@dataclass(frozen=True)
class File:
    """A file's bytes and mode."""

    content: bytes = b""
    mode: int = 0o600


@dataclass(frozen=True)
class Folder:
    """A folder's names, each of a node."""

    entries: tuple[tuple[str, int], ...] = ()

    def with_name(self, name: str, node: int | None) -> "Folder":
        """The folder where the name is another node's, or nobody's."""
        others = {own: number for own, number in self.entries if own != name}
        return Folder(tuple(sorted((others if node is None else others | {name: node}).items())))


Node = File | Folder


class Create(NamedTuple):
    """A new file or folder gets a name in a folder."""

    node: int
    name: str
    made: int
    what: Node

    def done(self, folder: Node, fate: str) -> Node:
        """The folder after it."""
        assert isinstance(folder, Folder)
        return folder.with_name(self.name, self.made)


class Move(NamedTuple):
    """A name takes another one's place in the same folder."""

    node: int
    old: str
    new: str

    def done(self, folder: Node, fate: str) -> Node:
        """The folder after it."""
        assert isinstance(folder, Folder)
        moved = dict(folder.entries)[self.old]
        return folder.with_name(self.old, None).with_name(self.new, moved)


class Remove(NamedTuple):
    """A name goes."""

    node: int
    name: str

    def done(self, folder: Node, fate: str) -> Node:
        """The folder after it."""
        assert isinstance(folder, Folder)
        return folder.with_name(self.name, None)


class Write(NamedTuple):
    """Bytes at a place in a file."""

    node: int
    at: int
    data: bytes

    def done(self, file: Node, fate: str) -> Node:
        """The file after it, as far as it got."""
        assert isinstance(file, File)
        if fate == MISSING:
            return file
        size = self.at + len(self.data)
        if fate == ZEROS:  # the room was made, and what was in the file before stays
            return replace(file, content=file.content.ljust(size, b"\0"))
        data = self.data if fate == WHOLE else self.data[: len(self.data) // 2]
        content = file.content.ljust(self.at, b"\0")
        return replace(file, content=content[: self.at] + data + content[self.at + len(data) :])


class Truncate(NamedTuple):
    """A file gets another size."""

    node: int
    size: int

    def done(self, file: Node, fate: str) -> Node:
        """The file after it."""
        assert isinstance(file, File)
        return replace(file, content=file.content[: self.size].ljust(self.size, b"\0")) if fate == WHOLE else file


class Chmod(NamedTuple):
    """A file gets another mode."""

    node: int
    mode: int

    def done(self, file: Node, fate: str) -> Node:
        """The file after it."""
        assert isinstance(file, File)
        return replace(file, mode=self.mode) if fate == WHOLE else file


class Sync(NamedTuple):
    """A file or a folder is flushed."""

    node: int

    def done(self, node: Node, fate: str) -> Node:
        """The same: what was done before is there, that is all."""
        return node


class Drop(NamedTuple):
    """A file could not be flushed: what was done to it is never flushed, unless it is done again."""

    node: int

    def done(self, node: Node, fate: str) -> Node:
        """The same."""
        return node


Call = Create | Move | Remove | Write | Truncate | Chmod | Sync | Drop


@dataclass
class Tree:
    """Files and folders as a disk holds them, by numbers; those that no name leads to are lost."""

    nodes: dict[int, Node] = field(default_factory=lambda: {ROOT: Folder()})

    def names(self) -> dict[str, int]:
        """The nodes that a name leads to, by that name below the root, which is "."."""
        found, todo = {".": ROOT}, [(".", ROOT)]
        while todo:
            above, number = todo.pop()
            node = self.nodes[number]
            if isinstance(node, Folder):
                below = [(os.path.normpath(os.path.join(above, name)), own) for name, own in node.entries]
                found.update(below)
                todo += below
        return found

    def contents(self) -> dict[str, File | None]:
        """What lies under each name: a file, or None for a folder."""
        found = ((name, self.nodes[number]) for name, number in self.names().items())
        return {name: node if isinstance(node, File) else None for name, node in found}

    def put(self, folder: Path) -> None:
        """Make the folder hold this; it must be empty."""
        for name, file in sorted(self.contents().items()):  # folders before what they hold
            if file is None:
                (folder / name).mkdir(exist_ok=True)
            else:
                (folder / name).write_bytes(file.content)
                (folder / name).chmod(file.mode)


def tree_of(folder: Path) -> Tree:
    """A folder as it is."""
    nodes: dict[int, Node] = {}

    def add(path: Path) -> int:
        number = len(nodes)
        nodes[number] = Folder()
        if path.is_dir():
            nodes[number] = Folder(tuple((name, add(path / name)) for name in sorted(os.listdir(path))))
        else:
            nodes[number] = File(path.read_bytes(), path.stat().st_mode & 0o777)
        return number

    add(folder)
    return Tree(nodes)


def after(begun: Tree, log: list[Call]) -> Tree:
    """The tree when all calls are done, and nothing is lost."""
    nodes = _with_new(begun, log)
    for call in log:
        nodes[call.node] = call.done(nodes[call.node], WHOLE)
    return Tree(nodes)


def _with_new(begun: Tree, log: list[Call]) -> dict[int, Node]:
    return begun.nodes | {call.made: call.what for call in log if isinstance(call, Create)}


class Crash(NamedTuple):
    """A tree that the disk may hold after a crash, and whether it may do so even after the last call had returned."""

    tree: Tree
    ended: bool


def crashes(begun: Tree, log: list[Call], most: int, chance: random.Random) -> tuple[list[Crash], int]:
    """What the disk may hold after a crash before, between or after the calls: so many at most, and how many in all.

    Of more, those are drawn by chance; what may be there after the last call is always among them.
    """
    found: dict[tuple[object, ...], Crash] = {}
    ways = [_choices(begun, log[:done]) for done in range(len(log) + 1)]
    every = sum(prod(map(len, choices.values())) for choices in ways) <= 50 * most
    for done, choices in reversed(list(enumerate(ways))):
        for nodes in _drawn(choices, None if every else max(1, 50 * most // len(ways)), chance):
            tree = Tree(nodes)
            found.setdefault(tuple(sorted(tree.contents().items())), Crash(tree, done == len(log)))
    states = list(found.values())
    if len(states) <= most:
        return states, len(states)
    last = [crash for crash in states if crash.ended][:most]
    rest = [crash for crash in states if not crash.ended]
    return last + chance.sample(rest, most - len(last)), len(states)


def _drawn(choices: dict[int, list[Node]], count: int | None, chance: random.Random) -> Iterator[dict[int, Node]]:
    """Every combination of nodes, or so many of them."""
    if count is None:
        for nodes in product(*choices.values()):
            yield dict(zip(choices, nodes, strict=True))
    else:
        for _ in range(count):
            yield {number: chance.choice(nodes) for number, nodes in choices.items()}


def _choices(begun: Tree, log: list[Call]) -> dict[int, list[Node]]:
    """What may have become of each file and folder when these calls were the last."""
    nodes = _with_new(begun, log)
    lasting: dict[int, list[tuple[Call, bool]]] = {}  # what was done to each, and whether it is surely there
    for call in log:
        done = lasting.setdefault(call.node, [])
        if isinstance(call, Sync):
            dropped = max((place for place, (each, _) in enumerate(done) if isinstance(each, Drop)), default=-1)
            done[:] = [(each, sure or place > dropped) for place, (each, sure) in enumerate(done)]
        else:
            done.append((call, False))
    return {number: _fates(node, lasting.get(number, [])) for number, node in nodes.items()}


def _fates(node: Node, calls: list[tuple[Call, bool]]) -> list[Node]:
    """What may have become of a file or folder to which this was done, each once; some of it is surely there."""
    calls = [(call, sure) for call, sure in calls if not isinstance(call, Drop)]
    free = sum(not sure for _, sure in calls)
    missing = [(WHOLE,) * done + (MISSING,) * (free - done) for done in range(free + 1)]
    found: dict[Node, None] = {}
    for each in missing if isinstance(node, Folder) else _writes(free):
        made, fates = node, iter(each)
        for call, sure in calls:
            fate = WHOLE if sure else next(fates)
            if not (isinstance(node, Folder) and fate == MISSING):
                made = call.done(made, fate)
        found[made] = None
    return list(found)


def _writes(count: int) -> Iterator[tuple[str, ...]]:
    """The fates of so many writes to one file."""
    if count <= FEW:
        yield from product(FATES, repeat=count)
        return
    for at in range(count):
        for fate in FATES:
            for rest in (WHOLE, ZEROS, MISSING):
                yield (WHOLE,) * at + (fate,) + (rest,) * (count - at - 1)
                yield (MISSING,) * at + (fate,) + (rest,) * (count - at - 1)
