import bz2
import gzip
import inspect
import io
import json
import lzma
import math
import subprocess
import sys
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carving import formats
from carving.formats import FORMATS, BadLineError, pairs
from carving.formats.conllu import show_conllu
from carving.formats.documents import rebuild
from carving.formats.tables import show_table

PACKERS = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress}
TRIPLES = "dog\tis\tanimal\ncat\tis\tanimal\n"
CONLLU = "# sent_id = a\n1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_\n"

# A file of each format with its pairs, by the ending of its name.
SAMPLES = {
    ".json": ('{"a": [1, {"b": null}],\n "c": {}}', [(("a", 0), 1), (("a", 1, "b"), None), (("c",), {})]),
    ".jsonl": ('{"a": 1}\n\n[true]\n"x"\n', [((0, "a"), 1), ((2, 0), True), ((3,), "x")]),
    ".ndjson": ('{"a": 1.5}', [((0, "a"), 1.5)]),
    ".pairs": (
        '[["a", 1], "x"]\n\n[["a", 1], null]\n[[[]], {"bytes": "00"}]\n',
        [(("a", 1), "x"), (("a", 1), None), (((),), b"\0")],
    ),
    ".tsv": (TRIPLES, [(("dog", "is"), "animal"), (("cat", "is"), "animal")]),
    ".csv": ("name,age\nA,7\nB,\n", [((0, "name"), "A"), ((0, "age"), "7"), ((1, "name"), "B"), ((1, "age"), "")]),
    ".conllu": (
        CONLLU,
        [
            (("a", 1, "form"), "Dogs"),
            (("a", 1, "upos"), "NOUN"),
            (("a", 1, "head"), 2),
            (("a", 1, "deprel"), "nsubj"),
            (("a", 2, "form"), "bark"),
            (("a", 2, "upos"), "VERB"),
            (("a", 2, "head"), 0),
            (("a", 2, "deprel"), "root"),
        ],
    ),
    ".mrg": (
        "( (S (NP dogs)\n     (VP bark)))\n(X)",
        [
            ((0, 0, 0), "S"),
            ((0, 0, 1, 0), "NP"),
            ((0, 0, 1, 1), "dogs"),
            ((0, 0, 2, 0), "VP"),
            ((0, 0, 2, 1), "bark"),
            ((1, 0), "X"),
        ],
    ),
    ".ptb": ("(S a)", [((0, 0), "S"), ((0, 1), "a")]),
    ".brackets": ("()\n(a)", [((0,), []), ((1, 0), "a")]),
}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# What a file's name tells


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("ending", SAMPLES)
def test_the_name_tells_format_and_compression(tmp_path, ending, packing):
    text, expected = SAMPLES[ending]
    for name in (f"file{ending}{packing}", f"FILE.v2{ending}{packing}".upper()):
        path = write(tmp_path, name, PACKERS[packing](text.encode()))
        assert list(pairs(path)) == list(pairs(str(path))) == expected


def test_every_ending_of_the_table_is_tried():
    assert set(SAMPLES) == {ending for format in FORMATS.values() for ending in format.endings}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("ending", SAMPLES)
def test_byte_order_marks_and_line_ends_change_nothing(tmp_path, ending, end):
    text, expected = SAMPLES[ending]
    path = write(tmp_path, f"file{ending}", "\ufeff" + text.replace("\n", end))
    assert list(pairs(path)) == expected


def test_a_named_format_wins_over_the_ending(tmp_path):
    path = write(tmp_path, "people.tsv", "name\tage\nA\t7\n")
    assert dict(pairs(path, "table", key="name")) == {("A", "age"): "7"}
    packed = write(tmp_path, "graph.txt.gz", gzip.compress(TRIPLES.encode()))
    assert list(pairs(packed, "triples")) == SAMPLES[".tsv"][1]


@pytest.mark.parametrize("name", ["file.txt", "file", "file.xz", "file.json.zip", "json"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=r"no known ending.*\.json.*\.tsv.*Pass format.*triples"):
        pairs(name)


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"format must be one of json, jsonl, pairs, triples.*'tsv'"):
        pairs("file.tsv", "tsv")
    with pytest.raises(ValueError, match=r"the format triples has no option key\. Its options: none"):
        pairs("file.tsv", key="a")
    with pytest.raises(FileNotFoundError, match=r"file\.tsv does not exist"):
        pairs(tmp_path / "file.tsv")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(IsADirectoryError, match="expected a file, got the directory"):
        pairs(tmp_path / "folder.json")


def test_open_files_and_standard_input_are_read(tmp_path):
    expected = SAMPLES[".tsv"][1]
    for file in (io.StringIO(TRIPLES), io.BytesIO(TRIPLES.encode())):
        assert list(pairs(file, "triples")) == expected
    with open(write(tmp_path, "graph.tsv", TRIPLES), "rb") as file:
        assert list(pairs(file)) == expected
    code = "from carving.formats import pairs; print(list(pairs('-', 'triples')))"
    run = subprocess.run([sys.executable, "-c", code], input=TRIPLES.encode(), capture_output=True, check=True)
    assert run.stdout.decode().strip() == repr(expected)
    with pytest.raises(ValueError, match=r"standard input has no known ending.*Pass format"):
        pairs("-")


# Options


def test_fields_and_key_choose(tmp_path):
    path = write(tmp_path, "file.conllu", CONLLU)
    assert list(pairs(path, fields=["lemma"])) == [(("a", 1, "lemma"), "dog"), (("a", 2, "lemma"), "bark")]
    assert list(pairs(path, fields=None)) == SAMPLES[".conllu"][1]
    table = write(tmp_path, "file.csv", "name,age\nA,7\n")
    assert list(pairs(table, key="name")) == [(("A", "age"), "7")]
    with pytest.raises(BadLineError, match=r"file\.csv: key must be one of the columns .*'city'"):
        list(pairs(table, key="city", skip_bad=True))


# Bad files

BAD = {
    "a.json": ('{"a": 1,\n "b" 2}', 2, "expected a JSON document: .* at column"),
    "b.json": ("", 1, "expected a JSON document"),
    "c.json": ('{"a": 1, "a": 1}', None, "keys of a JSON object must be unique, got 'a' twice"),
    "d.json": ('"x"', None, "expected a non-empty JSON object or list, got 'x'"),
    "e.json": ("{}", None, "expected a non-empty JSON object or list"),
    "f.json": ("[" * 100_000 + "]" * 100_000, None, "1,000 levels deep"),
    "g.json": (f"[{10**4_000}]", None, "10,000 bits"),
    "a.jsonl": ('{"a": 1}\n{"a": }\n', 2, "expected a JSON document"),
    "b.jsonl": ('{"a": 1, "a": 2}\n', 1, "'a' twice"),
    "c.jsonl": ("[" * 100_000, 1, "1,000 levels deep"),
    "d.jsonl": (f"[1, {10**4_000}]\n", 1, r"At \(1,\).*10,000 bits"),
    "a.tsv": ("a\tb\tc\na\tb\n", 2, "expected head TAB relation TAB tail, got"),
    "b.tsv": (b"a\tb\tc\n\na\tb\t\xff\n", 3, "expected UTF-8 text, got byte 0xff at 4"),
    "c.tsv": ("a\tb\tc\n".encode("utf-16"), 1, "expected UTF-8 text"),
    "a.csv": ("a,b\n1\n", 2, "expected 2 cells"),
    "b.csv": (b'a,b\n1,"2\n\xff"\n', 3, "expected UTF-8 text.*iconv"),
    "c.csv": ("a,a\n1,2\n", None, "columns of a table must have unique names"),
    "a.conllu": ("1\tdog\n", 1, "expected 10 fields"),
    "b.conllu": (CONLLU + "\n" + CONLLU, 5, "sent_id must be unique, got 'a', which is on line 1"),
    "a.mrg": ("(a)\n(b\n (c)\n", 2, r"for every \(, got"),
    "b.mrg": ("(a)\n(b)) (c)\n", 2, r"begins with \(, got '\)' at character 3"),
    "c.mrg": (b"(a\n\xff)\n", 2, "expected UTF-8 text"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_refused_with_file_and_line(tmp_path, name):
    content, line, message = BAD[name]
    path = write(tmp_path, name, content)
    with pytest.raises(BadLineError, match=message) as error:
        list(pairs(path))
    where = f"{path}: " if line is None else f"{path}, line {line}: "
    assert str(error.value).startswith(where) and error.value.line == line
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("name", "content", "bad", "line"),
    [
        ("a.tsv", b"a\tb\tc\nx\n\xff\t\t\ny\nd\te\tf\n", 3, 2),
        ("a.jsonl", b'1\nx\n{"a": 1, "a": 2}\n\xff\n2\n', 3, 2),
        ("a.csv", b"a\n1\n2,3\n4\n", 1, 3),
        ("a.conllu", CONLLU.replace("2\tbark", "2 bark").encode(), 1, 3),
        ("a.mrg", b"(a)\n) (b)\n(c)\n(d\n", 2, 2),
    ],
)
def test_bad_lines_can_be_counted_instead(tmp_path, name, content, bad, line):
    expected = {
        "a.tsv": [(("a", "b"), "c"), (("d", "e"), "f")],
        "a.jsonl": [((0,), 1), ((4,), 2)],
        "a.csv": [((0, "a"), "1"), ((2, "a"), "4")],
        "a.conllu": SAMPLES[".conllu"][1][:4],
        "a.mrg": [((0, 0), "a"), ((1, 0), "c")],
    }
    reader = pairs(write(tmp_path, name, content), skip_bad=True)
    for _ in range(2):  # every reading counts anew
        assert list(reader) == expected[name]
        assert reader.bad == bad
        assert reader.first_bad.line == line


@pytest.mark.parametrize("name", [name for name in BAD if name.endswith(".json")] + ["b.csv", "c.csv", "c.mrg"])
def test_what_concerns_more_than_a_line_is_never_skipped(tmp_path, name):
    content, _, message = BAD[name]
    with pytest.raises(BadLineError, match=message):
        list(pairs(write(tmp_path, name, content), skip_bad=True))


@pytest.mark.parametrize("packing", [".xz", ".gz", ".bz2"])
def test_an_archive_that_is_cut_off_or_damaged_is_refused(tmp_path, packing):
    text = "".join(f"head {i * i}\trelation\ttail {i**3}\n" for i in range(20_000)).encode()
    packed = PACKERS[packing](text)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    for content in (packed[: len(packed) // 2], bytes(damaged), packed[:3], text, b""):
        reader = pairs(write(tmp_path, f"graph.tsv{packing}", content), skip_bad=True)
        if packing != ".xz" and not content:
            continue  # gzip and bz2 take an empty file for an empty archive
        with pytest.raises(BadLineError, match=r"graph\.tsv.*, line \d+: the file is truncated or corrupt"):
            list(reader)


def test_files_are_read_as_a_stream(tmp_path):
    iterator = iter(pairs(write(tmp_path, "graph.tsv", TRIPLES * 100_000 + "bad\n")))
    assert next(iterator) == (("dog", "is"), "animal")
    iterator.close()  # and the file, or Python would warn
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize("format", ["jsonl", "pairs", "triples", "table", "conllu", "brackets"])
def test_no_more_is_read_than_is_needed(format):
    class Endless(io.StringIO):
        def readline(self, size=-1):
            return next(lines)

    text, expected = SAMPLES[FORMATS[format].endings[0]]
    lines = cycle([*text.splitlines(keepends=True), "\n"])
    iterator = iter(pairs(Endless(), format))
    assert next(iterator) == expected[0]
    iterator.close()


def test_json_keeps_what_python_writes(tmp_path):
    document = {"inf": [math.inf, -math.inf], "\ud800": "\ud83d", "float": 1.0, "int": 1, "true": True, "": None}
    path = write(tmp_path, "file.json", json.dumps(document))
    assert rebuild(pairs(path)) == document
    assert [type(value) for _, value in pairs(path)][3:6] == [float, int, bool]
    (pair,) = pairs(write(tmp_path, "nan.json", "[NaN]"))
    assert math.isnan(pair[1])


@pytest.mark.parametrize(
    "line",
    ['"x"', '["a", "x"]', '[["a"], "x", 1]', '[["a", {}], "x"]', '[["a"], [1]]', '[["a"], {"bytes": "0"}]',
     '[["a"], {"text": "ff"}]',
     '[["a"], {"bytes": "00", "text": "00"}]', '[["a"], {"date": "00"}]', '[[["b"]], "x"]', '[["a"], "x"', "[" * 5_000],
)  # fmt: skip
def test_a_line_that_is_no_pair_is_told(line):
    with pytest.raises(BadLineError, match="line 2: "):
        list(pairs(io.StringIO(f'[["a"], "x"]\n{line}\n'), "pairs"))
    reader = pairs(io.StringIO(f'{line}\n[["a"], "x"]\n'), "pairs", skip_bad=True)
    assert list(reader) == [(("a",), "x")]


def test_many_keys_of_which_one_comes_twice_are_refused_at_once():
    """50,000 took half a minute."""
    keys = [f'"{number}": 0' for number in range(200_000)]
    begun = time.process_time()
    for format, end in (("json", ""), ("jsonl", "\n")):
        with pytest.raises(BadLineError, match="must be unique, got '199999' twice"):
            list(pairs(io.StringIO(f"{{{', '.join([*keys, keys[-1]])}}}{end}"), format))
    assert time.process_time() - begun < 5


def test_a_delimiter_is_an_option_of_tables(tmp_path):
    table = write(tmp_path, "file.csv", "name;a,b\nA;7\n")
    assert list(pairs(table, key="name")) == [(("A", "a,b"), "7")]
    assert list(pairs(table, delimiter="|")) == [((0, "name;a,b"), "A;7")]
    with pytest.raises(BadLineError, match="delimiter must be one character"):
        list(pairs(table, delimiter="||"))
    with pytest.raises(ValueError, match=r"the format json has no option delimiter\. Its options: none"):
        pairs(write(tmp_path, "file.json", "[1]"), delimiter=";")


# What the package says of itself


def test_everything_public_is_explained_by_an_example():
    for name in formats.__all__:
        thing = getattr(formats, name)
        assert ">>>" in thing.__doc__ if inspect.isfunction(thing) or inspect.isclass(thing) else True, name


# Round trips through files

words = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.one_of(words, st.integers(-9, 9), st.floats(allow_nan=False), st.booleans(), st.none())
documents = st.recursive(
    values, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@given(documents.filter(lambda document: isinstance(document, dict | list) and document))
def test_a_json_document_comes_back(document):
    assert rebuild(pairs(io.StringIO(json.dumps(document, indent=1)), "json")) == document


@given(st.lists(documents, min_size=1, max_size=5))
def test_json_lines_come_back_as_a_list(many):
    file = io.BytesIO("\n".join(json.dumps(one, ensure_ascii=False) for one in many).encode())
    assert rebuild(pairs(file, "jsonl")) == many


def test_tables_and_treebanks_come_back(tmp_path):
    rows = [{"a": "1\n2", "b": 'x,"y"'}, {"a": "", "b": "\r"}]
    assert rebuild(pairs(write(tmp_path, "file.csv", show_table(rows)))) == rows
    sentences = {"a": {1: {"form": "Dogs", "head": 0}}, "b": {1: {"form": "_"}, "1-2": {"form": "x"}, 2: {"form": "y"}}}
    assert rebuild(pairs(write(tmp_path, "file.conllu", show_conllu(sentences)))) == sentences


# Real data

DATA = Path(__file__).parents[2] / "shared" / "data" / "structures"
real = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not here")


@real
def test_wordnet_is_read_whole():
    graph = list(pairs(DATA / "wn18rr_train.tsv.xz"))
    assert len(graph) == 86_835
    contexts = Counter(path for path, _ in graph)
    assert len(contexts) == 62_633
    assert max(contexts.values()) == 442


@real
def test_the_treebank_comes_back_from_its_pairs():
    path = DATA / "en_ewt-ud-dev.conllu.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if line[0].isdigit()]
    sentences = rebuild(pairs(path))
    assert len(sentences) == 2_001
    tokens = [(id, token) for sentence in sentences.values() for id, token in sentence.items()]
    assert [str(id) for id, _ in tokens] == [line[0] for line in lines]
    for (_, token), line in zip(tokens, lines, strict=True):
        expected = {"form": line[1], "upos": line[3], "head": line[6], "deprel": line[7]}
        assert {k: str(v) for k, v in token.items()} == {k: v for k, v in expected.items() if v != "_" or k == "form"}
    written = show_conllu(rebuild(pairs(path, fields=["form", "lemma", "upos", "xpos", "feats", "head", "deprel"])))
    assert [line.split("\t")[:8] for line in written.splitlines() if line[:1].isdigit()] == [line[:8] for line in lines]
