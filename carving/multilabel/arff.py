"""ARFF, the format of MULAN and MEKA: attributes by name, some of which are the labels; rows sparse or dense."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from carving.errors import BadValue
from carving.formats import BadLineError
from carving.formats.documents import brief
from carving.multilabel.text import File, Lines, Matrices, chunks, lines_of, name_of, parse
from carving.optional import load

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Possessive (++): a pattern that may go back takes room, and time, for every character.
NAME = re.compile(rb"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|[^\s{}]++""", re.DOTALL)
NUMERIC = (b"numeric", b"real", b"integer")
Values = dict[str, float] | None  # what an attribute's values stand for; None of one that has any number
MEKA = re.compile(r"-C\s++(-?[0-9]{1,9})(?![0-9])")  # so MEKA tells the number of labels, within the relation's name


def read_arff(path: Path, labels: File | int | None = None) -> Matrices:
    """Read features and labels of an ARFF file, as MULAN and MEKA write it.

    Args:
        path: The file.
        labels: The XML file that names the labels, or their number n (n > 0: the first n attributes, n < 0: the last
            |n|). None takes the number that MEKA wrote into the file, or the XML file of the same name (bibtex.xml for
            bibtex-train.arff).

    Returns:
        CSR matrices (points, F) and (points, L).
    """
    with lines_of(path) as lines:
        relation, attributes = _declared(path, lines)
        chosen = _label_columns(path, relation, list(attributes), labels)
        matrix = _rows(path, lines, list(attributes.values()))
    others = np.setdiff1d(np.arange(len(attributes)), chosen)
    if not len(others):
        raise BadValue(f"{path} has no features: all {len(attributes)} attributes are labels.")
    matrix = matrix.tocsc()
    targets = matrix[:, chosen].tocsr()
    if not targets.count_nonzero():
        raise BadValue(f"{path} has no labels: none of its {matrix.shape[0]} points has one.")
    return matrix[:, others].tocsr(), targets


def _declared(path: Path, lines: Lines) -> tuple[str, dict[str, Values]]:
    """The relation's name, and the attributes with their values; the lines are left at the data."""
    relation, number = "", 0
    attributes: dict[str, Values] = {}
    declared: dict[str, int] = {}  # the line of each attribute
    for number, line in lines:
        word = _first_word(line)
        if word == b"@data":
            if not attributes:
                raise BadLineError(str(path), number, "expected at least one @attribute before @data")
            return relation, attributes
        if word == b"@relation":
            relation = line.decode(errors="replace").split(None, 1)[-1].strip()
        elif word == b"@attribute":
            name, values = _attribute(path, number, line)
            if name in declared:
                raise BadLineError(
                    str(path), number, f"attribute {brief(name)} is declared twice (first in line {declared[name]})"
                )
            attributes[name], declared[name] = values, number
        elif word:
            expected = "expected @relation, @attribute or @data"
            raise BadLineError(str(path), number, f"{expected}, got {line[:60].decode(errors='backslashreplace')!r}")
    raise BadLineError(str(path), number or 1, "the file has no @data section" if number else "the file is empty")


def _first_word(line: bytes) -> bytes:
    """What a line of the header begins with, in small letters; nothing, where it is empty or a comment."""
    words = line.split(None, 1)
    return words[0].lower() if words and not words[0].startswith(b"%") else b""


def _attribute(path: Path, number: int, line: bytes) -> tuple[str, Values]:
    _, _, declared = line.strip().partition(line.split(None, 1)[0])
    declared = declared.lstrip()
    match = NAME.match(declared)
    if match is not None:
        name, kind = _bare(match[0]), declared[match.end() :].lstrip()
        if kind.lower() in NUMERIC:
            return name, None
        if values := _values(kind):
            return name, values
    raise BadLineError(
        str(path),
        number,
        "expected `@attribute name numeric`, or nominal values such as {0,1} or {no,yes}, got "
        f"{line.strip()[:80].decode(errors='replace')!r}",
    )


def _values(kind: bytes) -> dict[str, float]:
    """What the values of `{a,b,c}` stand for; nothing, where it is no such list."""
    if kind[:1] + kind[-1:] != b"{}":
        return {}
    values = [_bare(value) for value in kind[1:-1].split(b",")]
    if len(set(values)) < len(values):
        return {}
    # The first value is the one that sparse rows leave out, so it must be nothing. Words stand for their positions.
    if not any(value.lstrip("+-").replace(".", "", 1).isdecimal() for value in values):
        return {value: float(position) for position, value in enumerate(values)}
    try:
        return {value: float(value) for value in values} if values[0] == "0" else {}
    except ValueError:  # numbers and words together
        return {}


def _bare(text: bytes) -> str:
    """A name or value without its quotes."""
    text = text.strip()
    if len(text) > 1 and text[:1] == text[-1:] and text[:1] in b"'\"":
        text = re.sub(rb"\\(.)", rb"\1", text[1:-1])
    return text.decode(errors="surrogateescape")


def _label_columns(path: Path, relation: str, attributes: list[str], labels: File | int | None) -> list[int]:
    if labels is None:
        meka = MEKA.search(relation)
        labels = int(meka.group(1)) if meka else _companion(path)
    if isinstance(labels, int):
        if not 0 < abs(labels) < len(attributes):
            raise BadValue(
                f"labels={labels} does not fit {path}, which has {len(attributes)} attributes. labels=n makes the "
                "first n attributes labels, labels=-n the last n; at least one attribute must remain as a feature."
            )
        columns = range(len(attributes))
        return list(columns[:labels] if labels > 0 else columns[labels:])
    at = {name: column for column, name in enumerate(attributes)}
    names = _label_names(Path(labels))
    for name in names:
        if name not in at:
            raise BadValue(
                f"{labels} names the label {brief(name)}, but {path} has no such attribute. Check that the two files "
                "belong together."
            )
    return [at[name] for name in names]


def _companion(path: Path) -> Path:
    """The XML file beside it: MULAN has bibtex.xml for bibtex.arff, bibtex-train.arff and bibtex-test.arff."""
    stem = name_of(path)
    for name in (stem, re.sub(r"[-_](train|test)$", "", stem)):
        if (path.parent / f"{name}.xml").exists():
            return path.parent / f"{name}.xml"
    raise BadValue(
        f"Cannot tell which attributes of {path} are labels: there is no {stem}.xml in its folder. Set labels to an "
        "XML file that names them, or to their number (159: the first 159 attributes, -159: the last 159)."
    )


def _label_names(path: Path) -> list[str]:
    """The labels' names in MULAN's XML; labels may stand within labels."""
    try:
        elements = [element for element in ElementTree.parse(path).iter() if element.tag.rpartition("}")[2] == "label"]
    except ElementTree.ParseError as error:
        raise BadLineError(str(path), error.position[0], f"not valid XML ({brief(str(error))})") from error
    except (LookupError, ValueError) as error:  # UnicodeError is a ValueError
        problem = f"unsupported XML encoding ({brief(str(error))}); use UTF-8"
        raise BadLineError(str(path), 1, problem) from error
    names = list(dict.fromkeys(name for element in elements if (name := element.get("name")) is not None))
    if not names or len(names) < len(elements):
        raise BadValue(
            f'{path} must name every label exactly once, as in <label name="physics"/>; got {len(names)} distinct '
            "names."
        )
    return names


def _rows(path: Path, lines: Lines, attributes: list[Values]) -> csr_matrix:
    known = {column: values for column, values in enumerate(attributes) if values is not None}
    rows = ((number, line) for number, line in lines if line.strip() and not line.lstrip().startswith(b"%"))
    parts = []
    for numbers, chunk in chunks(rows):
        as_text = [
            _as_text(path, number, line, len(attributes), known) for number, line in zip(numbers, chunk, strict=True)
        ]
        parts.append(parse(str(path), as_text, numbers, len(attributes), 0)[0])
    if not parts:
        raise BadValue(f"{path} has no rows after @data.")
    return load("scipy.sparse").vstack(parts, format="csr")


def _as_text(path: Path, number: int, line: bytes, wide: int, known: dict[int, dict[str, float]]) -> bytes:
    """A row as a line of the other format, which is parsed fast."""
    if b"?" in line:
        raise BadLineError(str(path), number, "expected a number, got a missing value (?); impute missing values first")
    sparse = line.lstrip().startswith(b"{")
    pairs = _sparse(path, number, line) if sparse else _dense(path, number, line, wide)
    return b" ".join(b"%b:%b" % (key, _value(path, number, key, value, known)) for key, value in pairs)


Pairs = list[tuple[bytes, bytes]]  # the column, and the value that stands there


def _sparse(path: Path, number: int, line: bytes) -> Pairs:
    """`{3 1, 7 0.5}`."""
    inside = line.strip()
    if not inside.endswith(b"}"):
        raise BadLineError(str(path), number, "a sparse row that starts with { must end with }")
    pairs = [pair.split(None, 1) for pair in inside[1:-1].split(b",") if pair.strip()]
    for pair in pairs:
        if len(pair) != 2:
            raise BadLineError(str(path), number, f"expected `column value`, got {brief(_bare(pair[0]))}")
    return [(key, value.strip()) for key, value in pairs]


def _dense(path: Path, number: int, line: bytes, wide: int) -> Pairs:
    values = [value.strip() for value in line.split(b",")]
    if len(values) != wide:
        raise BadLineError(str(path), number, f"expected {wide} values, one per attribute, got {len(values)}")
    return [(b"%d" % i, value) for i, value in enumerate(values) if value not in (b"0", b"0.0")]


def _value(path: Path, number: int, key: bytes, value: bytes, known: dict[int, dict[str, float]]) -> bytes:
    """The number that a value stands for; `parse` tells what is wrong with a key or a number."""
    values = known.get(int(key)) if key.isdigit() and len(key) < 18 else None
    bare = _bare(value)
    if values is None:
        return bare.encode(errors="surrogateescape")
    if bare not in values and _as_integer(bare) not in values:
        span = ", ".join(value[:60] for value in list(values)[:8])
        raise BadLineError(str(path), number, f"attribute {int(key)} must be one of {span}, got {brief(bare)}")
    return b"%g" % values[bare if bare in values else _as_integer(bare)]


def _as_integer(text: str) -> str:
    """`1.0` as `1`, so that either will do."""
    return text.removesuffix(".0")
