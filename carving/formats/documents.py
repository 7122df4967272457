"""Documents, trees, graphs and tables become pairs of a path and a leaf, and the pairs become them again.

    {"a": {"b": "x", "c": ["y", "z"]}}  <->  ("a", "b"): "x"    ("a", "c", 0): "y"    ("a", "c", 1): "z"

Everything is a document (nested dicts and lists whose leaves are labels) or, where a context may hold several
leaves, pairs at once. Plain Python without recursion: a document may be deeper than Python's stack.
"""

import csv
import io
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from numbers import Integral
from typing import Any

from carving.errors import BadType, BadValue
from carving.symbols import Label, Leaf, Path, Role, canonical

Document = Label | dict[Any, Any] | list[Any]
Pair = tuple[Path, Leaf]
Lines = Iterable[tuple[int, str]]  # with their numbers, from 1
Refuse = Callable[[int, str], None]  # what to do about a bad line: its number, what is wrong with it

# A dict with the keys 0, 1, 2 would have the paths of a list. One pair more says what it is.
IS_DICT: Role = ()

_brief = reprlib.Repr()  # errors show what came, but not all of a long thing
_brief.maxstring = _brief.maxother = 120
_brief.maxlist = 12


# Documents


def flatten(document: Document) -> Iterator[Pair]:
    """The document's leaves with their paths, one after the other; an empty dict or list is a leaf.

    Keys are roles as they are, places in a list are integers from 0. A dict whose keys are exactly the integers
    0 .. n-1 has the pair (path + ((),), {}) besides, which tells it from a list. A document that is one leaf has the
    empty path. A tuple is neither a list nor a label here, and refused.
    """
    path: list[Role] = []
    levels: list[tuple[int, Iterator[tuple[Role, Any]]]] = []  # the containers around the node, outermost first
    depths: dict[int, int] = {}  # how deep each of them lies
    node: Any = document
    while True:
        if isinstance(node, dict | list) and node:
            if id(node) in depths:
                above = _show(path[: depths[id(node)]])
                raise BadValue(f"a document must not contain itself, got at {_show(path)} what is at {above}")
            depths[id(node)] = len(path)
            levels.append((id(node), _children(node, path)))
            path.append(None)  # room for the role of the child
        else:
            yield tuple(path), _leaf(node, path)
        while levels:
            child = next(levels[-1][1], None)
            if child is not None:
                path[-1], node = child
                break
            del depths[levels.pop()[0]]
            path.pop()
        else:
            return


def rebuild(pairs: Iterable[Pair]) -> Document:
    """The document that flattens to these pairs, in whatever order they come: `rebuild(flatten(x)) == x`.

    What lies below integers becomes a list if they are exactly 0 .. n-1; with one missing it becomes a dict.
    """
    root = _Place((), 0)
    places = [root]
    for given, leaf in pairs:
        path = _as_path(given)
        place = root
        for depth, role in enumerate(path, 1):
            if place.is_leaf:
                raise _both_leaf_and_not(place.path, path)
            if isinstance(role, dict | list):  # {} and [] have a canonical form, but as leaves
                raise BadType(f"a role must be a label, got a {type(role).__name__} in {_show(path)}")
            name = _canonical(role, path)
            below = place.below.get(name)
            if below is None:
                below = place.below[name] = _Place(path, depth)
                places.append(below)
            place = below
        if place.below:
            raise _both_leaf_and_not(path, next(iter(place.below.values())).path)
        if place.is_leaf:
            both = " and ".join(f"{_brief.repr(value)} at {_show(path)}" for value in (place.value, leaf))
            raise BadValue(
                f"a document has one leaf at a path, got {both}; a context that holds several leaves has no document"
            )
        place.is_leaf, place.value = True, _leaf(leaf, path)
    if not root.is_leaf and not root.below:
        raise BadValue("a document needs at least one pair, got none; an empty one is the pair ((), {})")
    for place in reversed(places):  # what is below a place comes after it, so this goes from the leaves up
        if not place.is_leaf:
            place.value = _container(place)
    return root.value


class _Place:
    """A place in a document that is being rebuilt: a leaf, or the places below it."""

    __slots__ = ("below", "depth", "is_leaf", "path", "value")

    def __init__(self, path: Path, depth: int) -> None:
        self.path = path  # of a pair that comes through here: its first `depth` roles lead here
        self.depth = depth
        self.below: dict[bytes, _Place] = {}
        self.is_leaf = False
        self.value: Any = None


def _container(place: _Place) -> dict[Any, Any] | list[Any]:
    below = dict(place.below)
    mark = below.pop(canonical(IS_DICT), None)
    if mark is not None and not (mark.is_leaf and isinstance(mark.value, dict)):
        raise BadValue(f"the role () says that a dict is there and has the leaf {{}}, got {_show(mark.path)}")
    if mark is None and all(canonical(number) in below for number in range(len(below))):
        return [below[canonical(number)].value for number in range(len(below))]
    made: dict[Any, Any] = {}
    for child in below.values():
        key = child.path[child.depth - 1]
        if key in made:
            first = next(other for other in below.values() if other.path[other.depth - 1] == key)
            raise BadValue(
                f"the keys of a dict must differ for Python too, got {_show(first.path)} and {_show(child.path)}; "
                "strings always do"
            )
        made[key] = child.value
    return made


def _children(node: dict[Any, Any] | list[Any], path: Sequence[Role]) -> Iterator[tuple[Role, Any]]:
    if isinstance(node, list):
        return enumerate(node)
    undefined = 0
    for key in node:
        if isinstance(key, tuple):
            raise BadType(f"the keys of a document must be labels, got a tuple: {_show((*path, key))}; use str(...)")
        if type(key) is not str:  # every string has a canonical form, and most keys are strings
            _canonical(key, path, key)
            undefined += key != key
    if undefined > 1:
        raise BadValue(f"the keys of a dict must differ, got {undefined} that are NaN below {_show(path)}")
    if all(isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) < len(node) for key in node):
        return chain(node.items(), [(IS_DICT, {})])
    return iter(node.items())


def _as_path(path: Any) -> Path:
    if not isinstance(path, tuple | list):
        raise BadType(f"a path must be a tuple of labels, got {_brief.repr(path)}; a path of one role is (role,)")
    return tuple(path)


def _leaf(leaf: Any, path: Sequence[Role]) -> Leaf:
    """The leaf, an empty container as a new one; what is none is refused with its path."""
    if isinstance(leaf, tuple):
        raise BadType(f"a document is made of dicts, lists and labels, got a tuple at {_show(path)}; use list(...)")
    if type(leaf) is not str:
        _canonical(leaf, path)
    return {} if isinstance(leaf, dict) else [] if isinstance(leaf, list) else leaf


def _canonical(label: Any, path: Sequence[Role], *below: Role) -> bytes:
    """The label's canonical bytes; what has none is refused with its path."""
    try:
        return canonical(label)
    except (TypeError, ValueError) as error:
        raise type(error)(f"at {_show((*path, *below))}: {error}") from None


def _show(path: Sequence[Role]) -> str:
    """The path, without the middle of a very deep one."""
    if len(path) <= 12:
        return f"({', '.join(map(_brief.repr, path))}{',' * (len(path) == 1)})"
    first, last = (", ".join(map(_brief.repr, part)) for part in (path[:5], path[-5:]))
    return f"({first}, ... {len(path) - 10:,} more ..., {last})"


def _both_leaf_and_not(leaf: Path, deeper: Path) -> BadValue:
    return BadValue(
        f"a document has nothing below a leaf, got a leaf at {_show(leaf)} and another at {_show(deeper)}; "
        "leave out one of them"
    )


def _raise(line: int, problem: str) -> None:
    raise BadValue(f"line {line}: {problem}")


# Trees in bracket notation: (S (NP the dog) (VP barked)) is ["S", ["NP", "the", "dog"], ["VP", "barked"]]. A bracket,
# a space or a backslash within a word has a backslash before it, a tab is \t, a line's end \n, an empty word \e. Other
# backslashes are themselves, and so are quotation marks: treebanks write 1\/2, -LRB- and a lone ".

_TOKEN = re.compile(r"[()]|(?:\\[\\() ]|[^() \t\n\r\f\v])+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "e": "", " ": " ", "(": "(", ")": ")", "\\": "\\"}
_ESCAPED = re.compile(r"\\([\\() ntrfve])")
_SPECIAL = re.compile(r"[() \t\n\r\f\v]|\\(?=[\\() \t\n\r\f\vntrfve]|\Z)")
_LETTERS = {character: letter for letter, character in _ESCAPES.items() if character}


def read_trees(lines: Lines, refuse: Refuse = _raise) -> Iterator[list[Any]]:
    """The trees of a file in bracket notation, each on one line or spread over many."""
    around: list[list[Any]] = []  # the unfinished subtrees, outermost first
    begun = (0, 0)
    for number, line in lines:
        for found in _TOKEN.finditer(line):
            token = found[0]
            if token == "(":
                subtree: list[Any] = []
                if around:
                    around[-1].append(subtree)
                else:
                    begun = number, found.start()
                around.append(subtree)
            elif not around:
                refuse(number, f"a tree must begin with (, got {_brief.repr(token)} at character {found.start()}")
                break  # what else stands on this line can hardly be right
            elif token == ")":
                tree = around.pop()
                if not around:
                    yield tree
            else:
                around[-1].append(_ESCAPED.sub(lambda escape: _ESCAPES[escape[1]], token))
    if around:
        refuse(begun[0], f"every ( needs its ), but {len(around)} stay open after character {begun[1]}")


def parse_brackets(text: str) -> list[Any]:
    """The one tree that the text holds, as nested lists of strings."""
    trees = list(read_trees([(1, text)], _raise_alone))
    if len(trees) != 1:
        raise BadValue(f"the text must hold one tree, got {len(trees)}; read_trees reads any number")
    return trees[0]


def _raise_alone(line: int, problem: str) -> None:
    raise BadValue(problem)


def show_brackets(tree: list[Any]) -> str:
    """The tree in bracket notation, on one line."""
    if not isinstance(tree, list):
        raise BadType(f"a tree must be a list, got {_brief.repr(tree)}; a tree of one word is a list too")
    pieces: list[str] = []
    levels: list[tuple[int, Iterator[Any]]] = [(0, iter([tree]))]  # the unfinished subtrees, outermost first
    around = {0}  # their identities, to notice a tree that contains itself
    end = object()
    while True:
        node = next(levels[-1][1], end)
        if node is end:
            around.remove(levels.pop()[0])
            if not levels:
                return "".join(pieces)
            pieces.append(")")
            continue
        if pieces and pieces[-1] != "(":
            pieces.append(" ")
        if isinstance(node, str):
            pieces.append(_SPECIAL.sub(lambda found: "\\" + _LETTERS[found[0]], node) or "\\e")
        elif not isinstance(node, list):
            raise BadType(f"a tree is made of lists and strings, got {_brief.repr(node)}; str(...) makes a word of it")
        elif id(node) in around:
            raise BadValue("a tree must not contain itself, got one that does")
        else:
            around.add(id(node))
            levels.append((id(node), iter(node)))
            pieces.append("(")


# Triples: head, relation and tail, parted by tabs


def read_triples(lines: Lines, refuse: Refuse = _raise) -> Iterator[Pair]:
    """A graph's edges: the context (head, relation) with the leaf tail."""
    for number, line in lines:
        line = line.rstrip("\r\n")
        fields = line.split("\t")
        if len(fields) == 3 and all(fields):
            yield (fields[0], fields[1]), fields[2]
        elif line:
            refuse(number, f"a triple must be head TAB relation TAB tail, got {_brief.repr(line)}")


def show_triple(pair: Pair) -> str:
    """The pair as a line of a file of triples."""
    path, tail = pair
    fields = (*path, tail)
    if len(fields) != 3 or not all(isinstance(field, str) and re.fullmatch(r"[^\t\n\r]+", field) for field in fields):
        raise BadValue(
            f"a triple must be ((head, relation), tail), three strings without tabs or line ends, got {pair!r}"
        )
    return "\t".join(map(str, fields))


# Dependency trees: CoNLL-U. A sentence is {token: {field: value}}.

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
USUAL_FIELDS = ("form", "upos", "head", "deprel")
_TOKEN_ID = re.compile(r"[1-9][0-9]*|[0-9]+[-.][0-9]+")


def read_conllu(
    lines: Lines, fields: Sequence[str] = USUAL_FIELDS, refuse: Refuse = _raise
) -> Iterator[tuple[Label, dict[Label, dict[str, Label]]]]:
    """The sentences with their names: the sent_id, or without one the sentence's number from 0.

    A word's id and head are integers. Ranges of words ("3-4") and empty nodes ("3.1") are kept, with strings for ids.
    A field that says nothing ("_") is left out, but a form may be an underscore.
    """
    unknown = [field for field in fields if field not in FIELDS[1:]]
    if unknown or isinstance(fields, str) or not fields:
        raise BadValue(f"fields must be a list of some of {', '.join(FIELDS[1:])}, got {fields!r}")
    count, seen = 0, dict[Label, int]()
    name: Label = None
    named = 0  # the line that named the sentence
    sentence: dict[Label, dict[str, Label]] = {}
    for number, line in chain(lines, [(0, "")]):
        line = line.rstrip("\r\n")
        if line.startswith("#"):
            if (found := re.match(r"#\s*sent_id\s*=\s*(.*\S)", line)) is not None:
                name, named = found[1], number
        elif line.strip():
            try:
                token, values = _parse_token(line, fields)
                if token in sentence:
                    raise BadValue(f"a sentence's ids must differ, got {token!r} again")
                sentence[token] = values
            except ValueError as error:
                refuse(number, str(error))
        else:
            if sentence:
                if name is None:
                    name = count
                if seen.setdefault(name, named) == named:
                    yield name, sentence
                else:
                    refuse(
                        named, f"a sentence's sent_id must be its own, got that of line {seen[name]} again: {name!r}"
                    )
                count += 1
            name, sentence = None, {}


def _parse_token(line: str, fields: Sequence[str]) -> tuple[Label, dict[str, Label]]:
    parts = line.split("\t")
    if len(parts) != len(FIELDS):
        raise BadValue(f"a token must have {len(FIELDS)} fields parted by tabs, got {len(parts)}: {_brief.repr(line)}")
    values: dict[str, Label] = dict(zip(FIELDS, parts, strict=True))
    token, head = parts[0], parts[FIELDS.index("head")]
    if _TOKEN_ID.fullmatch(token) is None:
        raise BadValue(f"a token's id must be a number from 1, a range 3-4 or an empty node 3.1, got {token!r}")
    if head != "_":
        if re.fullmatch("[0-9]+", head) is None:
            raise BadValue(f"a token's head must be the id of a word, 0 or _, got {head!r}")
        values["head"] = int(head)
    kept = {field: values[field] for field in fields if values[field] != "_" or field == "form"}
    return int(token) if token.isdecimal() else token, kept


def show_conllu(sentences: dict[Any, Any] | list[Any]) -> str:
    """Sentences by their names as CoNLL-U, with "_" for every field that they do not have.

    Names that are strings become sent_ids; others, such as a place in a list, are not written.
    """
    parts: list[str] = []
    for name, sentence in _items(sentences):
        if isinstance(name, str):
            if not name or name != name.strip() or re.search(r"[\n\r]", name):
                raise BadValue(f"a sentence's name must fit into one line, got {name!r}")
            parts.append(f"# sent_id = {name}\n")
        for token in sorted(sentence, key=_token_order):
            values = [str((sentence[token] | {"id": token}).get(field, "_")) for field in FIELDS]
            if any(re.search(r"[\t\n\r]", value) for value in values):
                raise BadValue(f"a token's fields must have no tabs or line ends, got {values} in {name!r}")
            parts.append("\t".join(values) + "\n")
        parts.append("\n")
    return "".join(parts)


def _token_order(token: Label) -> tuple[int, int]:
    """A range stands before its first word, an empty node after the word that it follows."""
    if _TOKEN_ID.fullmatch(str(token)) is None:
        raise BadValue(f"a token's id must be a number from 1, a range 3-4 or an empty node 3.1, got {token!r}")
    first, mark, rest = re.split(r"([-.]|$)", str(token), maxsplit=1)
    return int(first), {"-": -1, "": 0, ".": 1}[mark] * int(rest or 0)


def _items(rows: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return rows.items() if isinstance(rows, dict) else enumerate(rows)


# Tables: a row is {column: cell}. The table is a list of rows, or a dict of them when a column gives their names.


def read_table(lines: Lines, key: str | None = None, refuse: Refuse = _raise) -> Iterator[tuple[Label, dict[str, str]]]:
    """The rows of a CSV file with a header, with their names: their cells in the column `key`, or their numbers from 0.

    Cells are strings, parted by tabs if the first line has one, by commas otherwise. A bad row keeps its number.
    """
    lines = iter(lines)
    begin, first = next(((number, text) for number, text in lines if text.strip("\r\n")), (1, ""))
    delimiter = "\t" if "\t" in first else ","
    records = csv.reader(chain([first], (text for _, text in lines)), delimiter=delimiter, strict=True)
    _, header = next(_rows(records, begin, _raise), (1, []))
    if len(set(header)) < len(header):
        raise BadValue(f"the columns of a table must have different names, got {header}")
    if key is not None and key not in header:
        raise BadValue(f"key must be one of the columns {header}, got {key!r}")
    seen: dict[str, int] = {}
    for count, (number, row) in enumerate(_rows(records, begin, refuse)):
        if len(row) != len(header):
            if row:
                refuse(
                    number,
                    f"a row must have {len(header)} cells as the header does, got {len(row)}: {_brief.repr(row)}",
                )
            continue
        cells = dict(zip(header, row, strict=True))
        if key is None:
            yield count, cells
        elif seen.setdefault(name := cells.pop(key), number) == number:
            yield name, cells
        else:
            refuse(number, f"a row's {key} must be its own, got that of line {seen[name]} again: {name!r}")


def _rows(records: Any, begin: int, refuse: Refuse) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank with the lines where they begin; instead of one that csv refuses, an empty one."""
    while True:
        number = begin + records.line_num
        try:
            row = next(records, None)
        except csv.Error as error:
            refuse(number, f"a row of a table was wanted: {error}")
            yield number, []
            continue
        if row is None:
            return
        if row:
            yield number, row


def show_table(rows: dict[Any, Any] | list[Any], key: str | None = None, delimiter: str = ",") -> str:
    """The rows as CSV with a header; `key` names the column of the rows' names."""
    if isinstance(rows, dict) != (key is not None):
        raise BadValue("rows in a dict need key=, the name of the column for their names, and rows in a list have none")
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)  # ends lines by \r\n: with another end it forgets to quote \r
    header: list[Any] | None = None
    for name, row in _items(rows):
        if header is None:
            header = list(row)
            writer.writerow([*([] if key is None else [key]), *header])
        if set(row) != set(header):
            raise BadValue(f"every row must have the columns {header}, got {list(row)} in row {name!r}")
        writer.writerow([*([] if key is None else [name]), *(row[column] for column in header)])
    return text.getvalue()
