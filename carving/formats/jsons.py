"""JSON: a file that is one document, or one document a line (JSON lines)."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from carving.errors import BadValue
from carving.formats.documents import Document, Pair, bounded, brief, flatten, flatten_under, is_integer, rebuild
from carving.formats.sources import Limit, Lines, Refuse, raise_bad_line

DOCUMENT = Limit(
    "a JSON document",
    128 << 20,
    "Convert a list to JSON lines with `jq -c '.[]'`, or use formats.flatten(json.load(file)) in Python.",
)
LONG = 64 << 10  # characters of a line whose pairs are not held together

MOST_BLANK = 1_000_000  # blank lines that are written for numbers that are missing

_SURROGATES = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def read_json(lines: Lines, refuse: Refuse = raise_bad_line) -> Iterator[Pair]:
    """The pairs of one document, an object or a list that is not empty.

    >>> list(read_json([(1, '{"dog": {"legs": 4}}')]))
    [(('dog', 'legs'), 4)]
    """
    text = "".join(_limited(lines))
    try:
        document = parse(text)
        _check_outermost(document)
        yield from bounded(flatten(document), text.__len__)
    except json.JSONDecodeError as error:
        refuse(error.lineno, problem_of(error))
    except ValueError as error:
        refuse(None, str(error))


def _limited(lines: Lines) -> Iterator[str]:
    size = 0
    for _, line in lines:
        size += len(line)
        if size > DOCUMENT.size:
            raise BadValue(DOCUMENT.problem)
        yield line


def read_json_lines(lines: Lines, refuse: Refuse = raise_bad_line) -> Iterator[Pair]:
    """The pairs of a document a line, below the number of its line from 0: blank and bad lines leave gaps.

    >>> list(read_json_lines([(1, '{"dog": "bark"}'), (2, ""), (3, '["cat"]')]))
    [((0, 'dog'), 'bark'), ((2, 0), 'cat')]
    """
    for number, line in lines:
        if line.strip():
            try:
                pairs = _line_pairs(number - 1, line)
            except json.JSONDecodeError as error:
                refuse(number, problem_of(error))
            except ValueError as error:
                refuse(number, str(error))
            else:
                yield from pairs


def _line_pairs(name: int, line: str) -> Iterable[Pair]:
    """The pairs of a line, all of which are known to be good."""
    document = parse(line)

    def pairs() -> Iterator[Pair]:
        return bounded(flatten_under([(name, document)]), line.__len__)

    if len(line) <= LONG:
        return list(pairs())
    for _ in pairs():  # they may take a hundred times the room of the line
        pass
    return pairs()


def parse(text: str) -> Document:
    """The document; NaN and infinities are floats, as Python writes them, and a key that comes twice is refused."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise BadValue(
            "the JSON must be nested at most about 1,000 levels deep, the limit of Python's reader"
        ) from None
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError | BadValue):
            raise
        # Python reads no integers of more than 4,300 digits.
        raise BadValue("an integer may have at most 10,000 bits, got thousands of digits. Write it as text.") from None


def _object(items: list[tuple[str, Document]]) -> dict[str, Document]:
    members = dict(items)
    if len(members) < len(items):
        counts = Counter(key for key, _ in items)
        twice = next(key for key, count in counts.items() if count > 1)
        raise BadValue(f"the keys of a JSON object must be unique, got {brief(twice)} twice")
    return members


def problem_of(error: json.JSONDecodeError) -> str:
    """What is wrong, and where."""
    return f"expected a JSON document: {error.msg} at column {error.colno}"


def show_json(pairs: Iterable[Pair]) -> Iterator[str]:
    """The document that the pairs make, indented.

    >>> print(*show_json([(("dog", "legs"), 4)]), end="")
    {
     "dog": {
      "legs": 4
     }
    }
    """
    document = rebuild(pairs)
    _check_outermost(document)
    yield _text(document, indent=1) + "\n"


def show_json_lines(documents: Document) -> str:
    """The documents of a list, or below their numbers from 0, a line each; a missing number leaves a blank line.

    >>> print(show_json_lines({0: {"dog": "bark"}, 2: ["cat"]}), end="")
    {"dog": "bark"}
    <BLANKLINE>
    ["cat"]
    """
    by_number = _by_number(documents)
    numbers = sorted(by_number)
    blank = max(numbers, default=-1) + 1 - len(numbers)
    if blank > MOST_BLANK:
        raise BadValue(f"Documents must be numbered from 0 with few gaps, got gaps that need {blank:,} blank lines.")
    lines = []
    for before, number in pairwise([-1, *numbers]):
        lines += [""] * (number - before - 1) + [_text(by_number[number])]
    return "".join(line + "\n" for line in lines)


def _by_number(documents: Document) -> dict[int, Document]:
    if isinstance(documents, list):
        return dict(enumerate(documents))
    if isinstance(documents, dict) and all(is_integer(key) and key >= 0 for key in documents):
        return documents
    raise BadValue(
        "The first role of every path must be the number of its line, from 0, got "
        f"{brief(documents)}. Use the format json for other documents."
    )


def _check_outermost(document: Document) -> None:
    if not isinstance(document, dict | list) or not document:
        raise BadValue(f"expected a non-empty JSON object or list, got {brief(document)}")


def _text(document: Document, indent: int | None = None) -> str:
    _check_keys(document)
    try:
        text = json.dumps(document, ensure_ascii=False, indent=indent, default=_plain)
    except RecursionError:
        raise BadValue(
            "The document must be nested at most about 1,000 levels deep, the limit of Python's JSON writer."
        ) from None
    if _SURROGATE_PAIR.search(text):
        raise BadValue("A string contains the two surrogates of one character, which JSON would join. Join them first.")
    return _SURROGATES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _check_keys(document: Document) -> None:
    todo: list[Document] = [document]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            for key in node:
                if not isinstance(key, str):
                    raise BadValue(f"The keys of a JSON object must be strings, got {brief(key)} in {brief(node)}.")
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)


def _plain(value: object) -> object:
    """What json does not know: numbers of numpy have their Python numbers."""
    if isinstance(value, np.generic):
        return value.item()
    raise BadValue(f"JSON cannot hold bytes, got {brief(value)}. Convert them to text with .decode(...) or .hex().")
