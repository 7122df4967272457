"""Documents become pairs of a path and a value, and the pairs become the document again.

    {"a": {"b": "x", "c": ["y", "z"]}}  <->  ("a", "b"): "x"    ("a", "c", 0): "y"    ("a", "c", 1): "z"

A document is nested dicts and lists whose values are labels. Plain Python without recursion: a document may be deeper
than Python's stack.
"""

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, TypeGuard

from carving.errors import BadType, BadValue
from carving.symbols.codec import Label, Path, Role, Value, canonical

Container = dict[Any, Any] | list[Any]
Document = Label | Container
Pair = tuple[Path, Value]

# Every value has its whole path: a text of a megabyte that is deep has gigabytes of them.
MOST_ROLES = 10_000_000
ROLES_A_CHARACTER = 100

# A dict with the keys 0, 1, 2 would have the paths of a list. One pair more says what it is.
IS_DICT: Role = ()
_IS_DICT_NAME = canonical(IS_DICT)

_repr = reprlib.Repr()  # errors show what came, but not all of a long thing
_repr.maxstring = _repr.maxother = 120
_repr.maxlist = 12
brief = _repr.repr


# From a document to pairs


def flatten(document: Document) -> Iterator[Pair]:
    """Yield the pairs (path, value) of a document, in its order.

    The keys of dicts are roles, the items of a list have the roles 0, 1, 2, ... An empty dict or list is a value. A
    dict whose keys are exactly the integers 0 .. n-1 has the additional pair (path + ((),), {}), which distinguishes
    it from a list. A document that is a single value has the empty path.

    Args:
        document: Nested dicts and lists of labels.

    Raises:
        BadType: If the document contains a tuple or another object that is not a label.
        BadValue: If the document contains itself.

    >>> list(flatten({"dog": {"eats": ["meat", "bread"], "legs": 4}}))
    [(('dog', 'eats', 0), 'meat'), (('dog', 'eats', 1), 'bread'), (('dog', 'legs'), 4)]
    """
    path: list[Role] = []
    levels: list[tuple[int, Iterator[tuple[Role, Document]]]] = []  # the containers around the node, outermost first
    depths: dict[int, int] = {}  # how deep each of them lies
    node: Document = document
    while True:
        if isinstance(node, dict | list) and node:
            if id(node) in depths:
                above = show_path(path[: depths[id(node)]])
                raise BadValue(
                    f"A document must not contain itself, got the container at {above} again at {show_path(path)}."
                )
            depths[id(node)] = len(path)
            levels.append((id(node), _children(node, path)))
            path.append(None)  # room for the role of the child
        else:
            yield tuple(path), _check_value(node, path)
        while levels:
            child = next(levels[-1][1], None)
            if child is not None:
                path[-1], node = child
                break
            del depths[levels.pop()[0]]
            path.pop()
        else:
            return


def flatten_under(documents: Iterable[tuple[Label, Document]]) -> Iterator[Pair]:
    """The pairs of several documents, each below its name."""
    return (((name, *path), value) for name, document in documents for path, value in flatten(document))


def bounded(pairs: Iterable[Pair], size: Callable[[], int]) -> Iterator[Pair]:
    """Yield the pairs; refuse them if their paths are far longer than the text, `size()` characters so far."""
    roles = 0
    for pair in pairs:
        roles += len(pair[0])
        if roles > MOST_ROLES and roles > ROLES_A_CHARACTER * size():
            raise BadValue(
                f"The paths of a document may have at most {MOST_ROLES:,} roles in total, or {ROLES_A_CHARACTER} per "
                f"character of its text, got more. Nest less deeply than at {show_path(pair[0])}."
            )
        yield pair


def _children(node: Container, path: Sequence[Role]) -> Iterator[tuple[Role, Document]]:
    if isinstance(node, list):
        return enumerate(node)
    undefined = 0
    for key in node:
        if type(key) is not str:  # every string has a canonical form, and most keys are strings
            if isinstance(key, tuple):
                where = show_path((*path, key))
                raise BadType(f"The keys of a document must be labels, got a tuple: {where}. Convert it with str(...).")
            _canonical(key, path, key)
            undefined += key != key
    if undefined > 1:
        raise BadValue(f"The keys of a dict must be unique, got {undefined} NaN keys at {show_path(path)}.")
    return chain(node.items(), [(IS_DICT, {})]) if is_numbered(node) else iter(node.items())


def is_integer(label: object) -> TypeGuard[int]:
    """Whether the label is an integer, of Python or numpy; True and False are none."""
    return isinstance(label, Integral) and not isinstance(label, bool)


def is_numbered(keys: Collection[object]) -> bool:
    """Whether the keys of a dict are exactly the integers 0 .. n-1."""
    return all(is_integer(key) and 0 <= key < len(keys) for key in keys)


# From pairs to a document


class _Node:
    """A node of a document that is being rebuilt: a value, or the nodes below it."""

    __slots__ = ("below", "depth", "is_leaf", "path", "value")

    def __init__(self, path: Path, depth: int) -> None:
        self.path = path  # of a pair that comes through here: its first `depth` roles lead here
        self.depth = depth
        self.below: dict[bytes, _Node] = {}
        self.is_leaf = False
        self.value: Document = None

    @property
    def role(self) -> Role:
        """The last role on the way here."""
        return self.path[self.depth - 1]


def rebuild(pairs: Iterable[Pair]) -> Document:
    """Return the document of pairs, the inverse of `flatten`: `rebuild(flatten(x)) == x`.

    Integer roles become a list if they are exactly 0 .. n-1, and a dict otherwise.

    Args:
        pairs: Pairs (path, value) in any order, one value per path.

    Raises:
        BadValue: If there is no pair, if a path has two values, or if a value has others below it.

    >>> rebuild([(("dog", "legs"), 4), (("dog", "eats", 1), "bread"), (("dog", "eats", 0), "meat")])
    {'dog': {'legs': 4, 'eats': ['meat', 'bread']}}
    """
    root = _Node((), 0)
    nodes = [root]
    for pair in pairs:
        path, value = as_pair(pair)
        node = _descend(root, path, nodes)
        if node.below:
            raise _both_value_and_not(path, next(iter(node.below.values())).path)
        if node.is_leaf:
            both = " and ".join(f"{brief(each)} at {show_path(path)}" for each in (node.value, value))
            raise BadValue(
                f"A document has one value per path, got {both}. To write several values per path, use the format "
                "pairs (.pairs), or triples (.tsv) if every path has two roles."
            )
        node.is_leaf, node.value = True, _check_value(value, path)
    if not root.is_leaf and not root.below:
        raise BadValue("pairs must contain at least one pair, got none. The pair ((), {}) is an empty document.")
    for node in reversed(nodes):  # what is below a node comes after it, so this goes from the values up
        if not node.is_leaf:
            node.value = _container(node)
    return root.value


def as_pair(pair: object) -> Pair:
    """The pair, if it looks like one."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise BadType(
            f"A pair must be (path, value), got {brief(pair)}. flatten(document) returns the pairs of a document."
        )
    path, value = pair
    if not isinstance(path, tuple | list):
        raise BadType(f"A path must be a tuple of labels, got {brief(path)}. A path of one role is (role,).")
    return tuple(path), value


def _descend(root: _Node, path: Path, nodes: list[_Node]) -> _Node:
    """The node at the path; those that are missing on the way there are added to `nodes`."""
    node = root
    for depth, role in enumerate(path, 1):
        if node.is_leaf:
            raise _both_value_and_not(node.path, path)
        if isinstance(role, dict | list):  # {} and [] have a canonical form, but as values
            raise BadType(f"A role must be a label, got a {type(role).__name__} in {show_path(path)}.")
        name = _canonical(role, path)
        below = node.below.get(name)
        if below is None:
            below = node.below[name] = _Node(path, depth)
            nodes.append(below)
        node = below
    return node


def _container(node: _Node) -> Container:
    below = dict(node.below)
    mark = below.pop(_IS_DICT_NAME, None)
    if mark is None:
        if all(canonical(number) in below for number in range(len(below))):
            return [below[canonical(number)].value for number in range(len(below))]
    elif not mark.is_leaf or not isinstance(mark.value, dict):
        raise BadValue(
            f"The role () is reserved: it marks a dict and takes only the value {{}}, got another at "
            f"{show_path(mark.path)}."
        )
    container = {child.role: child.value for child in below.values()}
    if len(container) < len(below):
        first, second = _equal_keys(below.values())
        raise BadValue(
            f"The keys of a dict must be distinct in Python, got {show_path(first.path)} and {show_path(second.path)} "
            "(1 and True, for example, are equal). Use strings."
        )
    return container


def _equal_keys(nodes: Iterable[_Node]) -> tuple[_Node, _Node]:
    """The first two nodes that Python's dict takes for one, such as 1 and True."""
    seen: dict[Role, _Node] = {}
    for node in nodes:
        if seen.setdefault(node.role, node) is not node:
            return seen[node.role], node
    raise AssertionError("no two keys are equal")


# What both check


def _check_value(value: object, path: Sequence[Role]) -> Value:
    """The value, an empty container as a new one; what is none is refused with its path."""
    if isinstance(value, tuple):
        raise BadType(
            f"A document must consist of dicts, lists and labels, got a tuple at {show_path(path)}. Use list(...)."
        )
    if type(value) is not str:
        _canonical(value, path)
    return {} if isinstance(value, dict) else [] if isinstance(value, list) else value  # type: ignore[return-value]


def _canonical(label: Any, path: Sequence[Role], *below: Role) -> bytes:
    """The label's canonical bytes; what has none is refused with its path."""
    try:
        return canonical(label)
    except (TypeError, ValueError) as error:
        raise type(error)(f"At {show_path((*path, *below))}: {error}") from None


def show_path(path: Sequence[Role]) -> str:
    """The path, without the middle of a very deep one."""
    if len(path) <= 12:
        return f"({', '.join(map(brief, path))}{',' * (len(path) == 1)})"
    first, last = (", ".join(map(brief, part)) for part in (path[:5], path[-5:]))
    return f"({first}, ... {len(path) - 10:,} more ..., {last})"


def _both_value_and_not(value: Path, deeper: Path) -> BadValue:
    return BadValue(
        f"The path {show_path(value)} cannot hold a value and have other paths below it, such as "
        f"{show_path(deeper)}. Remove one of them."
    )
