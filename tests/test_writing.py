"""What `formats.write` writes, `formats.pairs` reads: the same pairs, or a kind refusal."""

import gzip
import io
import lzma
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carving import OSC, Memory
from carving.errors import UserError
from carving.formats import FORMATS, flatten, pairs, write
from carving.formats.conllu import FIELDS
from carving.symbols.codec import canonical, canonical_path

text = st.text(st.characters(codec="utf-8"), max_size=6)
awkward = st.text(st.sampled_from("\ufeff\t\n\r;,\"'|_ #=()\\\x85\u2028\x00a0"), max_size=5)
words = text | awkward
labels = st.one_of(words, st.integers(-2, 3), st.floats(), st.booleans(), st.none())


def exact(pairs):
    """The pairs with the types of their labels."""
    return [(canonical_path(path), canonical(value)) for path, value in pairs]


def under(documents):
    """The pairs of documents below their names."""
    return [((name, *path), value) for name, document in documents for path, value in flatten(document)]


# Pairs as each format can hold them, with the options

json_documents = st.recursive(
    labels, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)
field = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=5)
triples = st.tuples(st.tuples(field, field), field)
trees = st.recursive(st.lists(words, max_size=3), lambda inner: st.lists(words | inner, max_size=3), max_leaves=12)
value = field.filter(lambda value: value != "_")
token = st.fixed_dictionaries(
    {"form": field},
    optional={name: value for name in FIELDS[2:] if name != "head"} | {"head": st.integers(0, 99)},
).map(lambda token: {name: token[name] for name in FIELDS if name in token})
token_ids = st.integers(1, 99) | st.builds("{}{}{}".format, st.integers(1, 9), st.sampled_from("-."), st.integers(1, 9))


def in_order(tokens):
    def order(token):
        first, mark, rest = (str(token).replace("-", " - ").replace(".", " . ") + " 0 0").split()[:3]
        return int(first), {"-": -1, ".": 1, "0": 0}[mark] * int(rest)

    return {token: tokens[token] for token in sorted(tokens, key=order)}


sentence = st.dictionaries(token_ids, token, min_size=1, max_size=3).map(in_order)
names = field.map(str.strip).filter(bool)


@st.composite
def conllu(draw):
    given = draw(
        st.lists(st.tuples(st.none() | names, sentence), max_size=3, unique_by=lambda item: item[0] or object())
    )
    sentences = [(number if name is None else name, tokens) for number, (name, tokens) in enumerate(given)]
    return under(sentences), {"fields": FIELDS[1:]}


@st.composite
def tables(draw):
    header = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    delimiter = draw(st.sampled_from([None, ",", ";", "\t", "tab", "|"]))
    row = st.tuples(*[words] * len(header))
    if draw(st.booleans()):
        rows = draw(st.lists(row, max_size=3, unique_by=lambda cells: cells[0]))
        named = [(cells[0], dict(zip(header[1:], cells[1:], strict=True))) for cells in rows]
        return under(named), {"key": header[0], "delimiter": delimiter}
    rows = [dict(zip(header, cells, strict=True)) for cells in draw(st.lists(row, max_size=3))]
    return under(enumerate(rows)), {"delimiter": delimiter}


@st.composite
def json_lines(draw):
    numbers = sorted(draw(st.sets(st.integers(0, 9), max_size=4)))
    return under((number, draw(json_documents)) for number in numbers), {}


def without_options(strategy):
    return strategy.map(lambda given: (given, {}))


CAN_HOLD = {
    "json": without_options(
        json_documents.filter(lambda document: isinstance(document, dict | list) and document).map(
            lambda document: list(flatten(document))
        )
    ),
    "jsonl": json_lines(),
    "pairs": without_options(st.deferred(lambda: any_pairs)),
    "triples": without_options(st.lists(triples, max_size=5)),
    "table": tables(),
    "conllu": conllu(),
    "brackets": without_options(st.lists(trees, max_size=4).map(lambda many: under(enumerate(many)))),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("written")


def test_every_format_is_tried():
    assert set(CAN_HOLD) == set(FORMATS)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_written_is_read(folder, format, data):
    given, options = data.draw(CAN_HOLD[format])
    file = folder / f"file{FORMATS[format].endings[0]}{data.draw(st.sampled_from(['', '.gz']))}"
    assert write(iter(given), file, **options) == len(given)
    assert exact(pairs(file, **options)) == exact(given)
    stream = io.StringIO()
    write(given, stream, format, **options)
    assert exact(pairs(stream, format, **options)) == exact(given)


@given(tables())
def test_a_written_delimiter_is_sniffed(given_and_options):
    given, options = given_and_options
    stream = io.StringIO()
    write(given, stream, "table", **options)
    if options["delimiter"] != "|":
        assert exact(pairs(stream, "table", key=options.get("key"))) == exact(given)


# Whatever comes: the same pairs or a refusal

roles = st.one_of(
    st.sampled_from([0, 1, 2, "a", "1", "form", "head", "", (), 1.0, True]), labels, st.binary(max_size=2)
)
values = st.one_of(
    labels, words, st.sampled_from([{}, [], "\ud800", "\ud83d\ude00", "_", np.int64(3), np.float32(0.5)]), st.binary()
)
any_pairs = st.lists(st.tuples(st.lists(roles, max_size=3).map(tuple), values), max_size=4)


@pytest.mark.parametrize("format", FORMATS)
@given(given=any_pairs, options=st.fixed_dictionaries({}, optional={"key": words, "fields": st.just(FIELDS[1:])}))
@example(given=[((), [])], options={})
@example(given=[((0,), "a"), (((),), {})], options={})
@example(given=[((0, 0), "a"), ((0, ()), {})], options={})
@example(given=[((0, 1, "form"), "a"), ((0, 2, "head"), 1)], options={"fields": FIELDS[1:]})
@example(given=[(("a", "1", "form"), "a")], options={"fields": FIELDS[1:]})
@example(given=[(("a", 1.5, "form"), "a")], options={"fields": FIELDS[1:]})
@example(given=[((0, 1, "head"), "2")], options={})
@example(given=[((0, 1, "lemma"), "x")], options={})
@example(given=[(("a",), {})], options={"key": "name"})
@example(given=[((0,), {})], options={})
@example(given=[((False, 1, "form"), "x")], options={})
@example(given=[(("a", "9" * 5_000 + "-1", "form"), "x")], options={})
@example(given=[((0, "a"), "x")], options={"key": "a"})
@example(given=[], options={"key": "a"})
def test_whatever_is_not_refused_comes_back(format, given, options):
    options = {name: option for name, option in options.items() if name in FORMATS[format].options}
    stream = io.StringIO()
    try:
        write(given, stream, format, **options)
    except UserError:
        return
    if format == "conllu":
        options.setdefault("fields", sorted({path[2] for path, _ in given if len(path) == 3}) or ["lemma"])
    assert sorted(exact(pairs(stream, format, **options))) == sorted(exact(given))


REFUSED = [
    ("triples", [(("a", "b"), 1)], {}, "A triple must be .* three strings.*pairs \\(.pairs\\) for any"),
    ("triples", [("ab", "c")], {}, "A path must be a tuple"),
    ("triples", {"a": "b"}, {}, r"A pair must be \(path, value\), got 'a'. flatten\(document\) returns"),
    ("pairs", [((), ())], {}, "an empty tuple is a role, not a value"),
    ("pairs", [(({},), "a")], {}, "a role must be a label, got a dict"),
    ("pairs", [(("a",), {1})], {}, "a label must be a string"),
    ("json", [((), "a")], {}, "expected a non-empty JSON object or list, got 'a'"),
    ("json", [], {}, "at least one pair, got none"),
    ("json", [(("a", 1), "b")], {}, "The keys of a JSON object must be strings, got 1 in {1: 'b'}"),
    ("json", [(("a",), b"b")], {}, r"JSON cannot hold bytes, got b'b'.*\.decode"),
    ("json", [(("a",), "\ud83d\ude00")], {}, "the two surrogates"),
    ("json", [(("a",) * 5_000, "b")], {}, "1,000 levels deep"),
    ("json", [(("a",), "b"), (("a",), "c")], {}, "several values per path"),
    ("jsonl", [(("a",), "b")], {}, "must be the number of its line, from 0"),
    ("jsonl", [((10**12,), "b")], {}, "need 1,000,000,000,000 blank lines"),
    ("jsonl", [((0,), "b"), (((),), {})], {}, "name of a document or its number.* json for other"),
    ("table", [((0, "a"), 7)], {}, r"cells of a table must be strings, got 7 in row 0. Convert it with str\(...\)"),
    ("table", [((0, "a", "b"), "c")], {}, "cells of a table must be strings, got {'b': 'c'}"),
    ("table", [((0, "a"), "x"), ((1, "b"), "x")], {}, r"Every row must have the columns \['a'\].*jsonl for rows"),
    ("table", [(("x", "a"), "b")], {}, "key must be given"),
    ("table", [((0, "a"), "b")], {"key": "a"}, "key must be given"),
    ("table", [(("x", "a"), "b")], {"key": "a"}, r"columns with unique names, got \['a', 'a'\]"),
    ("table", [((0, 1), "b")], {}, "names of columns must be strings, got 1"),
    ("table", [((0,), {})], {}, "A table must have columns"),
    ("table", [((0,), "b")], {}, "A row must be {column: cell}, got 'b' in row 0"),
    ("table", [((0, "a"), "x" * 200_000)], {}, "A cell may have at most 131,072 characters, got 200,000"),
    ("table", [((0, "a"), "x")], {"delimiter": '"'}, "delimiter must be one character"),
    ("conllu", [(("a", 1, "word"), "x")], {}, "fields of a token must be among .*got 'word'"),
    ("conllu", [(("a", 1, "head"), "2")], {}, "head of a token must be the number of a word or 0, got '2'"),
    ("conllu", [(("a", 1, "lemma"), "_")], {}, "lemma must be a string .* neither empty nor _, got '_'"),
    ("conllu", [(("a", 1, "form"), "x"), (("a", 2, "head"), 1)], {}, "a token must have a form"),
    ("conllu", [(("a", 1, "lemma"), "x")], {"fields": ["form"]}, "must be among form, got 'lemma'"),
    ("conllu", [(("a", "1", "form"), "x")], {}, "the id of a word must be an integer, got '1'. Use 1"),
    ("conllu", [((7, 1, "form"), "x")], {}, "a string or its number, here 0, got 7"),
    ("conllu", [(("a", 1), "x")], {}, "A sentence must be {token: {field: value}}, got {1: 'x'}"),
    ("brackets", [((0, 0), 1)], {}, "A tree must consist of lists and strings, got 1"),
    ("brackets", [((1, 0), "x")], {}, "from 0 without gaps"),
    ("brackets", [((0,), "x")], {}, "tree must be a list, got 'x'"),
]


@pytest.mark.parametrize(("format", "given", "options", "message"), REFUSED)
def test_what_a_format_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path, format, given, options, message):
    file = tmp_path / f"old{FORMATS[format].endings[0]}"
    file.write_text("old")
    with pytest.raises(UserError, match=message) as error:
        write(given, file, **options)
    assert len(str(error.value)) < 600
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == [file.name]


# Files and streams


def test_pairs_in_any_order_make_the_same_file(tmp_path):
    given = under(enumerate([["S", ["NP", "dogs"]], ["X"]]))
    for ordered in (given, given[::-1]):
        write(ordered, tmp_path / "trees.mrg")
        assert (tmp_path / "trees.mrg").read_text() == "(S (NP dogs))\n(X)\n"


def test_the_name_tells_the_compression(tmp_path):
    given = [(("dog", "is"), "animal")]
    for ending, unpack in ((".gz", gzip.open), (".xz", lzma.open)):
        write(given, str(tmp_path / f"graph.tsv{ending}"))
        with unpack(tmp_path / f"graph.tsv{ending}", "rt") as file:
            assert file.read() == "dog\tis\tanimal\n"


def test_a_file_may_be_written_from_itself_and_keeps_its_mode_and_links(tmp_path):
    file, link = tmp_path / "graph.tsv", tmp_path / "link.tsv"
    file.write_text("dog\tis\tanimal\n\ncat\tis\tanimal\n")
    file.chmod(0o640)
    link.symlink_to(file)
    assert write(pairs(link), link) == 2
    assert link.is_symlink()
    assert file.read_text() == "dog\tis\tanimal\ncat\tis\tanimal\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_an_error_in_the_middle_leaves_the_old_file(tmp_path):
    file = tmp_path / "graph.tsv"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write(((("a", "b"), str(1 // (3 - number))) for number in range(5)), file)
    assert file.read_text() == "old"


def test_impossible_targets_are_refused_before_the_pairs_are_read(tmp_path):
    def unread():
        raise AssertionError
        yield

    for target, error, message in (
        (tmp_path / "none" / "graph.tsv", FileNotFoundError, "The folder .* does not exist"),
        (tmp_path, ValueError, "has no known ending"),
        (tmp_path / "graph.txt", ValueError, "has no known ending"),
        ("-", ValueError, "standard output has no known ending"),
    ):
        with pytest.raises(error, match=message):
            write(unread(), target)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(IsADirectoryError, match="got the directory"):
        write(unread(), tmp_path / "folder.tsv")
    with pytest.raises(ValueError, match="the format triples has no option key"):
        write(unread(), "graph.tsv", key="a")
    for target in (io.BytesIO(), 7):
        with pytest.raises(TypeError, match="target must be a file name or a text stream"):
            write(unread(), target, "triples")


def test_standard_output_and_devices_are_written_to(tmp_path):
    code = "from carving.formats import write; write([(('dog', 'is'), 'animal')], {!r}, 'triples')"
    for target in ("-", "/dev/stdout"):
        run = subprocess.run([sys.executable, "-c", code.format(target)], capture_output=True, check=True)
        assert run.stdout == b"dog\tis\tanimal\n"


def test_half_a_character_is_refused_where_utf8_has_no_room_for_it(tmp_path):
    with pytest.raises(ValueError, match=r"utf-8 text cannot hold '\\ud800'. Use the format json or jsonl"):
        write([(("a", "b"), "\ud800")], tmp_path / "graph.tsv")
    write([(("a", "b"), "\ud800é")], tmp_path / "graph.json")
    assert "é" in (tmp_path / "graph.json").read_text()
    assert list(pairs(tmp_path / "graph.json")) == [(("a", "b"), "\ud800é")]


def test_a_deep_tree_is_written_and_read(tmp_path):
    deep = [((0, *[0] * 20_000), "value")]
    assert write(deep, tmp_path / "deep.mrg") == 1
    assert list(pairs(tmp_path / "deep.mrg")) == deep


def test_what_is_ours_or_read_only_is_not_replaced_without_force(tmp_path):
    given, old, other = [(("dog", "is"), "animal")], tmp_path / "memory.tsv", tmp_path / "kept.tsv"
    memory = Memory(OSC(8, 2))
    memory.save(old)
    other.write_text("kept\tas\tit is\n")
    other.chmod(0o444)
    before = old.read_bytes()
    for file, error in ((old, ValueError), (other, PermissionError)):
        with pytest.raises(error, match=r"(is a memory, so it is not|is read-only).*force=True"):
            write(given, file)
    assert old.read_bytes() == before and other.read_text() == "kept\tas\tit is\n"
    for file in (old, other):
        assert write(given, file, force=True) == 1 and exact(pairs(file)) == exact(given)


KILLED = """
import os, signal, sys
from carving.formats import write

def given():
    yield ("dog", "is"), "animal"
    os.kill(os.getpid(), signal.SIGKILL)

write(given(), sys.argv[1])
"""


def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path):
    """A folder stayed for ever."""
    file = tmp_path / "graph.tsv"
    assert subprocess.run([sys.executable, "-c", KILLED, file]).returncode == -9
    assert len(os.listdir(tmp_path)) == 1
    write([(("dog", "is"), "animal")], file)
    assert os.listdir(tmp_path) == [file.name]
