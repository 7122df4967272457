"""Parts of files: whatever the number of parts, all of them together are the file, each line once and in its order."""

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carving import formats
from carving.errors import BadValue
from carving.formats import parts
from carving.formats.sources import Span, lines_within, numbered_lines, raise_bad_line

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


LINES = st.lists(
    st.tuples(st.sampled_from(["", "a", "é", "\r", "x\ry", "long " * 9, "\ufeff"]), st.sampled_from(["\n", "\r\n"])),
    max_size=12,
)


@given(lines=LINES, last=st.sampled_from(["", "no end", "\r"]), cuts=st.lists(st.integers(0, 400), max_size=5))
@example(lines=[("a", "\r\n"), ("b", "\r\n")], last="", cuts=[1, 2, 3, 4, 5])
@example(lines=[("", "\n")] * 3, last="x", cuts=[0, 1, 2, 3, 4])
def test_spans_give_every_line_once_with_its_number(folder, lines, last, cuts):
    text = "".join(line + end for line, end in lines) + last
    file = folder / "lines.txt"
    file.write_bytes(data := text.encode())
    whole = list(numbered_lines(file, raise_bad_line))
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    found, before = [], 0
    for start, stop in pairwise(borders):
        span = Span(start, stop, before)
        own = list(numbered_lines(file, raise_bad_line, span=span))
        assert lines_within(file, span) == len(own)
        before += len(own)
        found += own
    assert found == whole


def test_lines_that_are_too_long_are_refused_in_the_part_where_they_begin(folder):
    file, bad = folder / "long.txt", []
    file.write_bytes(b"a\n" + b"b" * 100 + b"\nc\n")
    limit = formats.sources.Limit("a line", 10, "")
    found = []
    for start, stop in [(0, 1), (1, 30), (30, 60), (60, 105)]:
        span = Span(start, stop, len(found) + len(bad))
        found += numbered_lines(file, lambda line, _: bad.append(line), limit, span)
    assert found == [(1, "a\n"), (3, "c\n")] and bad == [2]


def all_parts(files, of, **options):
    """The pairs of every part, and what each has of the files: as ranks read them that tell each other their lines."""
    sizes = [file.stat().st_size for file in files]
    own = [list(parts.pieces(files, sizes, options.get("format"), number, of)) for number in range(of)]
    counts = [{p.file: lines_within(files[p.file], p.span) for p in each if p.span} for each in own]
    result = []
    for number, each in enumerate(own):
        result.append([])
        for piece in each:
            span = piece.span
            if span is not None:
                span = span._replace(before=sum(lines.get(piece.file, 0) for lines in counts[:number]))
            result[-1] += formats.pairs(files[piece.file], part=span or piece.groups, **options)
    return result


@pytest.fixture(scope="module")
def files(folder):
    """One file of each kind, some of them empty."""
    made = [folder / name for name in ("a.jsonl", "b.tsv", "empty.tsv", "c.csv", "d.jsonl.gz", "e.parquet", "f.json")]
    lines = [json.dumps({"name": f"n{i}", "list": list(range(i % 4 + 1))}) for i in range(40)]
    made[0].write_text("\n".join(lines[:20]) + "\n\n" + "\r\n".join(lines[20:]))
    made[1].write_bytes(b"".join(b"head %d\trel\ttail %d\r\n" % (i, i) for i in range(50)))
    made[2].write_bytes(b"")
    made[3].write_text('name,age\nAnna,"7\n8"\nBen,9\n')
    made[4].write_bytes(gzip.compress("\n".join(lines).encode()))
    table = pyarrow.table({"name": [f"r{i}" for i in range(100)], "age": [i if i % 3 else None for i in range(100)]})
    parquet.write_table(table, made[5], row_group_size=7)
    made[6].write_text('{"dog": {"legs": 4}}')
    return made


@pytest.mark.parametrize("of", [1, 2, 3, 5, 64])
def test_all_parts_together_are_the_files_in_their_order(files, of):
    wanted = [pair for file in files for pair in formats.pairs(file)]
    given = all_parts(files, of)
    assert [pair for part in given for pair in part] == wanted
    if of <= 5:
        assert all(given)


def test_a_part_of_one_process_is_everything(files):
    mine = formats.shared(files, group=None)
    assert list(mine) == list(mine) == [pair for file in files for pair in formats.pairs(file)] and mine.bad == 0


def test_what_is_no_file_is_not_read_in_parts(tmp_path):
    with pytest.raises(BadValue, match="can only share files, got -"):
        formats.shared(["-"], group=None)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        formats.shared([tmp_path / "none.tsv"], group=None)


# Parquet


def test_a_parquet_file_is_read_as_the_table_that_it_is(folder):
    file = folder / "people.parquet"
    rows = {"name": ["Anna", "Ben"], "age": [7, None], "tags": [["x", "y"], []], "at": [{"city": "Rome"}, None]}
    parquet.write_table(pyarrow.table(rows), file)
    assert list(formats.pairs(file, key="name")) == [
        (("Anna", "age"), 7),
        (("Anna", "tags", 0), "x"),
        (("Anna", "tags", 1), "y"),
        (("Anna", "at", "city"), "Rome"),
        (("Ben", "tags"), []),
    ]
    assert ((1, "name"), "Ben") in list(formats.pairs(file))
    with file.open("rb") as stream:
        assert len(list(formats.pairs(stream, "parquet"))) == 7


def test_bad_parquet_files_and_options_are_refused_in_a_sentence(folder, tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"not at all")
    with pytest.raises(formats.BadLineError, match="expected a complete Parquet file"):
        list(formats.pairs(bad))
    with pytest.raises(ValueError, match=r"the format parquet has no option fields\. Its options: key"):
        formats.pairs(bad, fields=["form"])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        formats.pairs(tmp_path / "none.parquet")
    good = tmp_path / "good.parquet"
    parquet.write_table(pyarrow.table({"name": ["Anna", "Anna"]}), good)
    with pytest.raises(ValueError, match="key must be one of the columns"):
        list(formats.pairs(good, key="age"))
    with pytest.raises(ValueError, match="names of rows must be unique"):
        list(formats.pairs(good, key="name"))
    with pytest.raises(ValueError, match="Save it"):
        list(formats.pairs("-", "parquet"))
