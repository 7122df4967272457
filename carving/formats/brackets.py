r"""Trees in bracket notation: (S (NP the dog) (VP barked)) is ["S", ["NP", "the", "dog"], ["VP", "barked"]].

A bracket, a space or a backslash within a word has a backslash before it, a tab is \t, a line's end \n, an empty word
\e. Other backslashes are themselves, and so are quotation marks: treebanks write 1\/2, -LRB- and a lone ".
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from carving.errors import BadType, BadValue
from carving.formats.documents import Document, brief
from carving.formats.sources import Lines, Refuse, raise_bad_line

Tree: TypeAlias = "list[str | Tree]"

LARGEST = 1_000_000  # brackets and words of a tree, which is held whole

# Possessive (++): a pattern that may go back takes room for every character of a word.
_TOKEN = re.compile(r"[()]|(?:[^() \t\n\r\f\v\\]++|\\[\\() ]?+)++")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "e": "", " ": " ", "(": "(", ")": ")", "\\": "\\"}
_ESCAPED = re.compile(r"\\([\\() ntrfve])")
_SPECIAL = re.compile(r"[() \t\n\r\f\v]|\\(?=[\\() \t\n\r\f\vntrfve]|\Z)")
_LETTERS = {character: letter for letter, character in _ESCAPES.items() if character}


def read_trees(lines: Lines, refuse: Refuse = raise_bad_line) -> Iterator[Tree]:
    """Yield the trees of a file in bracket notation, each on one line or on several.

    >>> list(read_trees([(1, "(NP the"), (2, "  dog) (VP barked)")]))
    [['NP', 'the', 'dog'], ['VP', 'barked']]
    """
    around: list[Tree] = []  # the unfinished subtrees, outermost first
    begun = (0, 0)
    size = 0  # brackets and words of the unfinished tree
    for number, line in lines:
        for match in _TOKEN.finditer(line):
            token, size = match[0], size + 1
            if token == "(":
                subtree: Tree = []
                if around:
                    around[-1].append(subtree)
                else:
                    begun, size = (number, match.start()), 0
                around.append(subtree)
            elif not around:
                refuse(number, f"expected a tree that begins with (, got {brief(token)} at character {match.start()}")
                break  # what else stands on this line can hardly be right
            elif token == ")":
                tree = around.pop()
                if not around:
                    yield tree
            else:
                around[-1].append(_ESCAPED.sub(lambda escape: _ESCAPES[escape[1]], token))
            if size > LARGEST:
                raise BadValue(
                    f"a tree may have at most {LARGEST:,} brackets and words, got more after line {begun[0]}."
                )
    if around:
        refuse(begun[0], f"expected a ) for every (, got {len(around)} unclosed after character {begun[1]}")


def parse_brackets(text: str) -> Tree:
    """Parse the one tree of a text into nested lists of strings.

    Args:
        text: One tree in bracket notation.

    Raises:
        BadValue: If the text does not contain exactly one well-formed tree.

    >>> parse_brackets("(S (NP the dog) (VP barked))")
    ['S', ['NP', 'the', 'dog'], ['VP', 'barked']]
    """
    trees = list(read_trees([(1, text)], _raise_without_line))
    if len(trees) != 1:
        raise BadValue(f"text must contain one tree, got {len(trees)}. read_trees reads any number.")
    return trees[0]


def _raise_without_line(line: int | None, problem: str) -> None:
    raise BadValue(problem)


def show_trees(trees: Document) -> str:
    """The trees of a list, a line each."""
    if not isinstance(trees, list):
        raise BadValue(
            "The first role of every path must be the number of its tree, from 0 without gaps, got "
            f"{brief(trees)}. Use the format jsonl for numbers with gaps, json for other documents."
        )
    return "".join(show_brackets(tree) + "\n" for tree in trees)


def show_brackets(tree: Tree) -> str:
    r"""Return a tree in bracket notation, on one line.

    Args:
        tree: Nested lists of strings, as `parse_brackets` returns them.

    >>> print(show_brackets(["S", ["NP", "New York"], []]))
    (S (NP New\ York) ())
    """
    if not isinstance(tree, list):
        raise BadType(f"tree must be a list, got {brief(tree)}. A tree of one word is a list of one string.")
    return "".join(_spaced(_tokens(tree)))


def _spaced(tokens: Iterable[str]) -> Iterator[str]:
    """The tokens with a space before each but the first in a bracket and closing ones."""
    before = "("
    for token in tokens:
        if before != "(" and token != ")":
            yield " "
        yield token
        before = token


def _tokens(tree: Tree) -> Iterator[str]:
    levels = [(id(tree), iter(tree))]  # the unfinished subtrees, outermost first
    around = {id(tree)}  # to notice a tree that contains itself
    yield "("
    while levels:
        for node in levels[-1][1]:
            if isinstance(node, str):
                yield _SPECIAL.sub(lambda special: "\\" + _LETTERS[special[0]], node) or "\\e"
            else:
                _check_subtree(node, around)
                around.add(id(node))
                levels.append((id(node), iter(node)))
                yield "("
                break
        else:
            around.remove(levels.pop()[0])
            yield ")"


def _check_subtree(node: object, around: set[int]) -> None:
    if not isinstance(node, list):
        raise BadType(f"A tree must consist of lists and strings, got {brief(node)}. Convert it with str(...).")
    if id(node) in around:
        raise BadValue("A tree must not contain itself.")
