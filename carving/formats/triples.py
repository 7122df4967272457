"""Triples: the edges of a graph, head TAB relation TAB tail, a line each."""

import re
from collections.abc import Iterable, Iterator

from carving.errors import BadValue
from carving.formats.documents import Pair, as_pair, brief
from carving.formats.sources import Lines, Refuse, raise_bad_line

_FIELD = re.compile(r"[^\t\n\r]+")


def read_triples(lines: Lines, refuse: Refuse = raise_bad_line) -> Iterator[Pair]:
    r"""Yield the edges of a graph: the path (head, relation) with the value tail.

    >>> list(read_triples([(1, "dog\tis a\tanimal\n")]))
    [(('dog', 'is a'), 'animal')]
    """
    for number, line in lines:
        line = line.rstrip("\r\n")
        fields = line.split("\t")
        if len(fields) == 3 and all(fields):
            yield (fields[0], fields[1]), fields[2]
        elif line:
            refuse(number, f"expected head TAB relation TAB tail, got {brief(line)}")


def show_triples(pairs: Iterable[Pair]) -> Iterator[str]:
    """The pairs as lines of a file of triples."""
    return (show_triple(as_pair(pair)) + "\n" for pair in pairs)


def show_triple(pair: Pair) -> str:
    r"""The pair as a line of a file of triples.

    >>> show_triple((("dog", "is a"), "animal"))
    'dog\tis a\tanimal'
    """
    path, tail = pair
    fields = [field for field in (*path, tail) if isinstance(field, str) and _FIELD.fullmatch(field)]
    if len(fields) != 3 or len(path) != 2:
        raise BadValue(
            "A triple must be ((head, relation), tail), three strings without tabs or line ends, got "
            f"{brief(pair)}. Use the format pairs (.pairs) for any pairs, jsonl or json for documents."
        )
    return "\t".join(fields)
