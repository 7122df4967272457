"""ARFF, the format of MULAN and MEKA: attributes by name, some of which are the labels; rows sparse or dense."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from scipy.sparse import csr_matrix, vstack

from carving.formats import BadLineError
from carving.labels.text import CHUNK, File, Lines, Matrices, lines_of, name_of, parse

NAME = rb"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{}]+"""
ATTRIBUTE = re.compile(rb"\s*@attribute\s+(" + NAME + rb")\s*(.*?)\s*$", re.IGNORECASE | re.DOTALL)
NUMERIC = (b"numeric", b"real", b"integer")
MEKA = re.compile(r"-C\s+(-?\d+)")  # so MEKA tells the number of labels, within the relation's name


def read_arff(path: Path, labels: File | int | None = None) -> Matrices:
    """Features and labels of an ARFF file.

    `labels` is the XML file that names them, or their number: the first so many attributes, or, negative, the last.
    Left out, it is what MEKA wrote into the file, or the XML file of the same name (bibtex.xml for bibtex-train.arff).
    """
    with lines_of(path) as lines:
        relation, attributes = _declared(path, lines)
        chosen = _label_columns(path, relation, attributes, labels)
        matrix = _rows(path, lines, len(attributes))
    others = np.setdiff1d(np.arange(len(attributes)), chosen)
    if not len(others):
        raise ValueError(f"{path} has no features: all of its {len(attributes)} attributes are labels")
    matrix = matrix.tocsc()
    found = matrix[:, chosen].tocsr()
    if not found.count_nonzero():
        raise ValueError(f"{path} has no labels: none of its {matrix.shape[0]} points has one")
    return matrix[:, others].tocsr(), found


def _declared(path: Path, lines: Lines) -> tuple[str, list[str]]:
    """The relation's name and those of the attributes, whose values must be numbers; the lines are left at the data."""
    relation, number = "", 0
    attributes: dict[str, int] = {}
    for number, line in lines:
        word = line.split(None, 1)[0].lower() if line.strip() else b"%"
        if word.startswith(b"%"):
            continue
        if word == b"@relation":
            relation = line.decode(errors="replace").split(None, 1)[-1].strip()
        elif word == b"@attribute":
            name = _attribute(path, number, line)
            if name in attributes:
                raise BadLineError(str(path), number, f"attribute {name!r} stands in line {attributes[name]} already")
            attributes[name] = number
        elif word == b"@data":
            if not attributes:
                raise BadLineError(str(path), number, "attributes were wanted before @data")
            return relation, list(attributes)
        else:
            wanted = "@relation, @attribute or @data was wanted"
            raise BadLineError(str(path), number, f"{wanted}, got {line[:60].decode(errors='backslashreplace')!r}")
    raise BadLineError(str(path), number or 1, "the file ends without @data" if number else "the file is empty")


def _attribute(path: Path, number: int, line: bytes) -> str:
    match = ATTRIBUTE.match(line)
    kind = match.group(2) if match else b""
    nominal = kind.startswith(b"{") and [_bare(value) for value in kind.strip(b"{}").split(b",")]
    # Of a nominal attribute the first value is the one that sparse rows leave out.
    if match is None or not (kind.lower() in NUMERIC or nominal in (["0", "1"], ["0"])):
        raise BadLineError(
            str(path),
            number,
            f"`@attribute name numeric` or {{0,1}} was wanted, got {line.strip()[:80].decode(errors='replace')!r}",
        )
    return _bare(match.group(1))


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
            raise ValueError(
                f"labels={labels} does not fit {path}: of its {len(attributes)} attributes the first so many are "
                "labels, or, negative, the last so many, and one at least is a feature"
            )
        columns = range(len(attributes))
        return list(columns[:labels] if labels > 0 else columns[labels:])
    at = {name: column for column, name in enumerate(attributes)}
    names = _named(Path(labels))
    for name in names:
        if name not in at:
            raise ValueError(
                f"{labels} names the label {name!r}, but {path} has no such attribute; do they belong together?"
            )
    return [at[name] for name in names]


def _companion(path: Path) -> Path:
    """The XML file beside it: MULAN has bibtex.xml for bibtex.arff, bibtex-train.arff and bibtex-test.arff."""
    stem = name_of(path)
    for name in (stem, re.sub(r"[-_](train|test)$", "", stem)):
        if (path.parent / f"{name}.xml").exists():
            return path.parent / f"{name}.xml"
    raise ValueError(
        f"which attributes of {path} are labels? There is no {stem}.xml beside it; give labels=FILE.xml, or their "
        "number: labels=159 are the first 159 attributes, labels=-159 the last"
    )


def _named(path: Path) -> list[str]:
    """The labels' names in MULAN's XML; labels may stand within labels."""
    try:
        found = [one.get("name") for one in ElementTree.parse(path).iter() if one.tag.rpartition("}")[2] == "label"]
    except ElementTree.ParseError as error:
        raise BadLineError(str(path), error.position[0], f"this is no XML: {error}") from error
    names = list(dict.fromkeys(name for name in found if name is not None))
    if not names or len(names) < len(found):
        raise ValueError(f'{path} must name every label once, as in <label name="physics"/>, got {len(names)} names')
    return names


def _rows(path: Path, lines: Lines, wide: int) -> csr_matrix:
    parts, rows = [], ((number, line) for number, line in lines if line.strip() and not line.lstrip().startswith(b"%"))
    while chunk := list(islice(rows, CHUNK)):
        parts += [_chunk(path, some, wide) for some in _runs(chunk)]
    if not parts:
        raise ValueError(f"{path} is empty: there is nothing after @data")
    return vstack(parts, format="csr")


def _runs(rows: list[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Rows whose lines follow each other, so that their numbers are known from the first."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][0] != rows[end - 1][0] + 1:
            yield rows[start:end]
            start = end


def _chunk(path: Path, rows: list[tuple[int, bytes]], wide: int) -> csr_matrix:
    """Rows as the lines of the other format, which is parsed fast."""
    for number, line in rows:
        if b"?" in line:
            raise BadLineError(str(path), number, "numbers were wanted, got ?, a missing value; fill it in beforehand")
    as_text = [_sparse(line) if line.lstrip().startswith(b"{") else _dense(path, n, line, wide) for n, line in rows]
    return parse(str(path), as_text, rows[0][0], wide, 0)[0]


def _sparse(line: bytes) -> bytes:
    """`{3 1, 7 0.5}` as `3:1 7:0.5`."""
    pairs = line.strip().strip(b"{}").replace(b"'", b"").replace(b'"', b"").split(b",")
    return b" ".join(b":".join(pair.split()) for pair in pairs)


def _dense(path: Path, number: int, line: bytes, wide: int) -> bytes:
    values = line.replace(b"'", b"").replace(b'"', b"").split(b",")
    if len(values) != wide:
        raise BadLineError(str(path), number, f"{wide} values were wanted, one for each attribute, got {len(values)}")
    return b" ".join(
        b"%d:%b" % (i, value.strip()) for i, value in enumerate(values) if value.strip() not in (b"0", b"0.0")
    )
