"""Pairs as they are, a line each: `[["dog", "says"], "woof"]`, JSON. Whatever a memory holds can be written so.

A path may come again with another value, which no document can have. What JSON has no word for is an object: bytes are
`{"bytes": "00ff"}`, text that is no text (with surrogates) `{"text": "eda080"}`, both in hexadecimal digits. The role
`()` is `[]`, since no role is an empty list.
"""

import json
import re
from collections.abc import Iterable, Iterator

import numpy as np

from carving.errors import BadValue, UserError
from carving.formats.documents import Pair, as_pair, brief
from carving.formats.jsons import parse, problem_of
from carving.formats.sources import Lines, Refuse, raise_bad_line
from carving.symbols.codec import Role, Value, canonical, canonical_values

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_pairs(lines: Lines, refuse: Refuse = raise_bad_line) -> Iterator[Pair]:
    """Yield the pairs of a file, one per line; blank lines are skipped.

    >>> list(read_pairs([(1, '[["dog", "says"], "woof"]'), (2, '[["dog", "says"], {"bytes": "00ff"}]')]))
    [(('dog', 'says'), 'woof'), (('dog', 'says'), b'\\x00\\xff')]
    """
    for number, line in lines:
        if not line.strip():
            continue
        try:
            pair = _pair(line)
        except json.JSONDecodeError as error:
            refuse(number, problem_of(error))
        except UserError as error:
            refuse(number, str(error))
        else:
            yield pair


def show_pairs(pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield the pairs as lines.

    >>> print(*show_pairs([(("dog", "says"), "woof"), (("dog", 1, ()), b"ab")]), end="")
    [["dog", "says"], "woof"]
     [["dog", 1, []], {"bytes": "6162"}]
    """
    for pair in pairs:
        path, value = as_pair(pair)
        canonical_values([value])  # checked
        yield json.dumps([[_role(role) for role in path], _shown(value)], ensure_ascii=False) + "\n"


def _pair(line: str) -> Pair:
    found = parse(line)
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], list):
        raise BadValue(
            f'expected a JSON list of a path and a value, such as [["dog", "says"], "woof"], got {brief(line)}'
        )
    path = tuple(() if role == [] and isinstance(role, list) else _label(role) for role in found[0])
    if {} in path:
        raise BadValue(f"a role must be a label, got an empty object in {brief(line)}")
    return path, _label(found[1])  # type: ignore[return-value]  # which is a value


def _label(found: object) -> Role | Value:
    if isinstance(found, dict) and found:
        return _of_digits(found)
    canonical(found)  # type: ignore[arg-type]  # refuses what is no label
    return found  # type: ignore[return-value]


def _of_digits(found: dict[str, object]) -> str | bytes:
    ((kind, digits), *more) = found.items()
    try:
        data = bytes.fromhex(digits) if isinstance(digits, str) and kind in ("bytes", "text") and not more else None
        if data is not None:
            return data if kind == "bytes" else data.decode("utf-8", "surrogatepass")
    except ValueError:
        pass
    raise BadValue(f'expected a label, or bytes such as {{"bytes": "00ff"}}, got {brief(found)}')


def _role(role: Role) -> object:
    if isinstance(role, dict | list):
        raise BadValue(f"a role must be a label, got a {type(role).__name__}")
    return [] if isinstance(role, tuple) and not role else _shown(role)


def _shown(label: Role | Value) -> object:
    canonical(label)  # refuses what is no label
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    if isinstance(label, str) and _SURROGATE.search(label):
        return {"text": label.encode("utf-8", "surrogatepass").hex()}
    return label.item() if isinstance(label, np.generic) else label
