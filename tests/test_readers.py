"""Readers against hostile files: nothing escapes but errors that a person can mend, in bounded time and room."""

import bz2
import errno
import gzip
import io
import itertools
import lzma
import subprocess
import sys
import time
import zlib

import pytest
from campaign import readers
from campaign.limits import limits

from carving import formats
from carving.errors import BadType
from carving.formats import BadLineError, brackets, conllu, jsons, pairs, sources, tables
from carving.formats.documents import brief
from carving.multilabel.data import read


def drained(content, format, **options):
    source = io.BytesIO(content) if isinstance(content, bytes) else io.StringIO(content)
    return sum(1 for _ in pairs(source, format, **options))


def seconds_of(run):
    begun = time.process_time()
    with pytest.raises(BadLineError):
        run()
    return time.process_time() - begun


# Mutations: a small part of the campaign


@pytest.mark.parametrize("kind", readers.SAMPLES)
def test_mutated_files_are_read_or_refused(kind):
    (row,) = readers.campaign(150, seed=1, kinds=[kind], with_bombs=False)
    assert row["failures"] == [] and row["tried"] == 150 and row["read"] > 5 and row["refused"] > 5


@pytest.mark.parametrize("kind", [".json", ".tsv", ".txt", ".rows"])
def test_an_archive_that_holds_gigabytes_is_refused_in_little_room(kind, tmp_path):
    packing, content = list(readers.bombs(kind))[-1]
    with limits(readers.ROOM):
        assert readers.outcome(readers.target(tmp_path, kind, packing, content)) == "refused"


# Limits


@pytest.mark.parametrize("pack", [gzip, bz2, lzma])
def test_an_archive_may_grow_a_thousandfold_beyond_what_is_free(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FREE", 1 << 20)
    file = tmp_path / f"graph.tsv.{pack.__name__.replace('gzip', 'gz').replace('lzma', 'xz')}"
    line = b"head\trelation\ttail\n"
    file.write_bytes(pack.compress(line * 10_000))
    assert sum(1 for _ in pairs(file)) == 10_000  # small archives may hold what they like
    file.write_bytes(pack.compress(line * 60_000))
    grows = len(line) * 60_000 > sources.GROWTH * file.stat().st_size
    assert grows == (pack is not gzip)  # which never shrinks text to less than a thousandth
    if grows:
        with pytest.raises(
            BadLineError, match=r"line \d+: a compressed file may expand to .* times its size.*decompress it first"
        ):
            list(pairs(file))


@pytest.mark.parametrize(("ending", "pack"), [("xz", lzma), ("gz", gzip), ("bz2", bz2)])
def test_streams_of_an_archive_follow_each_other_and_nothing_else_does(ending, pack, tmp_path, monkeypatch):
    """What stood behind a damaged stream was left out without a word."""
    file, lines = tmp_path / f"graph.tsv.{ending}", [b"head %d\tis\ttail\n" % i for i in range(4_000)]
    halves = pack.compress(b"".join(lines[:1_500])), pack.compress(b"".join(lines[1_500:]))
    for buffer in (1 << 17, 7):
        monkeypatch.setattr(sources, "BUFFER", buffer)
        for padding in (b"", b"\0" * 4, b"\0" * 400_000 * (buffer > 7)):
            file.write_bytes(halves[0] + padding + halves[1] + padding)
            assert [path[0] for path, _ in pairs(file)] == [f"head {i}" for i in range(4_000)]
        for spoiled in (b"x" + halves[1], halves[1][:-1], halves[1] + b"x", halves[1][:3]):
            file.write_bytes(halves[0] + spoiled)
            with pytest.raises(BadLineError, match="is truncated or corrupt"):
                list(pairs(file))


def test_an_archive_may_not_want_gigabytes_for_its_reader(tmp_path):
    packed = bytearray(lzma.compress(b"a\tb\tc\n"))
    header = slice(
        12, 12 + 4 * packed[12]
    )  # of the block: its size, flags, the filter and how large a dictionary it wants
    assert packed[14:16] == b"\x21\x01"
    packed[16] = 40  # four gigabytes
    packed[header.stop : header.stop + 4] = zlib.crc32(packed[header]).to_bytes(4, "little")
    (tmp_path / "graph.tsv.xz").write_bytes(packed)
    with pytest.raises(BadLineError, match="Memory usage limit exceeded"):
        list(pairs(tmp_path / "graph.tsv.xz"))


def test_lines_have_a_limit_and_can_be_skipped(monkeypatch):
    limit = sources.LINE._replace(size=40)
    monkeypatch.setitem(formats.FORMATS, "triples", formats.FORMATS["triples"]._replace(limit=limit))
    for end in ("\n", ""):
        text = "a\tb\tc\n" + "x" * 39 + "\n" + "y" * 40 + "\n" + "z" * 500 + "\nd\te\tf" + end
        for content in (text, text.encode()):
            with pytest.raises(BadLineError, match="line 2: expected head"):
                drained(content, "triples")
            graph = pairs(io.StringIO(text), "triples", skip_bad=True)
            assert list(graph) == [(("a", "b"), "c"), (("d", "e"), "f")] and graph.bad == 3
    with pytest.raises(BadLineError, match="line 1: a line may have at most 40 bytes, got more"):
        drained("x" * 100, "triples")


def test_a_line_that_is_too_long_is_not_read_to_its_end():
    class Endless(io.StringIO):
        def readline(self, size=-1):
            return "x" * size

    with pytest.raises(BadLineError, match="line 1: a line may have at most 16,777,216 bytes"):
        list(pairs(Endless(), "triples"))


def test_a_json_document_has_a_limit_that_names_the_way_out(monkeypatch):
    monkeypatch.setattr(jsons, "DOCUMENT", jsons.DOCUMENT._replace(size=100))
    assert drained("[\n" + "0,\n" * 30 + "0]", "json") == 31
    with pytest.raises(BadLineError, match=r"a JSON document.*100 bytes.*jq -c.*formats\.flatten"):
        drained("[\n" + "0,\n" * 300 + "0]", "json")
    monkeypatch.setitem(formats.FORMATS, "json", formats.FORMATS["json"]._replace(limit=jsons.DOCUMENT))
    with pytest.raises(BadLineError, match="a JSON document"):
        drained("[" + "0," * 300 + "0]", "json")


def test_what_spans_lines_has_a_limit(monkeypatch):
    monkeypatch.setattr(brackets, "LARGEST", 100)
    monkeypatch.setattr(conllu, "LONGEST", 100)
    monkeypatch.setattr(tables, "LINE", sources.LINE._replace(size=100))
    assert drained("(a b)\n" * 100, "brackets") == 200
    token = "\ta" + "\t_" * 8 + "\n"
    assert drained("".join(f"{i}{token}" for i in range(1, 101)) + "\n", "conllu") == 100
    assert drained("a,b\n" + 'x,"\n"\n' * 100, "table") == 200
    for endless, format, message in [
        (itertools.repeat("(a\n"), "brackets", "a tree may have at most 100 brackets and words, got more after line 1"),
        ((f"{i}{token}" for i in itertools.count(1)), "conllu", "a sentence may have at most 100 tokens.*blank lines"),
        (
            itertools.chain(["a\n", '"\n'], itertools.repeat('","\n')),
            "table",
            "a row may have at most 100 characters.*quotation",
        ),
    ]:

        class Endless(io.StringIO):
            def readline(self, size=-1, lines=endless):
                return next(lines)

        with pytest.raises(BadLineError, match=message):
            list(pairs(Endless(), format, skip_bad=True))


# Time


@pytest.mark.parametrize(
    "header",
    [
        lambda n: b"@attribute a" + b" " * n + b"b",
        lambda n: b"@attribute a numeric" + b" " * n + b"b",
        lambda n: b"@attribute '" + b"\\a" * n,
        lambda n: b"@attribute '" + b"\\\\" * n + b"' x",
        lambda n: b"@relation " + b"-C " * n + b" " * n,
        lambda n: b"\n".join(
            b"@attribute a%d {%b}" % (i, b",".join(b"%d" % j for j in range(9))) for i in range(n // 9)
        ),
    ],
)
def test_a_header_of_arff_takes_time_as_it_is_long(header, tmp_path):
    """40,000 spaces took six seconds."""

    def refused(n):
        (tmp_path / "a.arff").write_bytes(header(n) + b"\n@data\n")
        with pytest.raises(ValueError):  # noqa: PT011
            read(tmp_path / "a.arff")

    begun = time.process_time()
    refused(200_000)
    assert time.process_time() - begun < 3


def test_blank_lines_between_rows_of_arff_cost_nothing(tmp_path):
    attributes = b"".join(b"@attribute a%d {0,1}\n" % i for i in range(2_000))
    times = []
    for between in (b"\n", b"\n\n% c\n"):
        (tmp_path / "a.arff").write_bytes(b"@relation x\n" + attributes + b"@data\n" + (b"{0 1,1 1}" + between) * 3_000)
        begun = time.process_time()
        assert len(read(tmp_path / "a.arff", labels=1)) == 3_000
        times.append(time.process_time() - begun)
    assert times[1] < 10 * times[0] + 1


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("brackets", lambda n: "(a " * n + ")" * n),
        ("json", lambda n: "[" * 900 + "0," * 4 * n + "0" + "]" * 900),
        ("jsonl", lambda n: "[" * 900 + "0," * 4 * n + "0" + "]" * 900),
    ],
)
def test_paths_far_longer_than_their_text_are_refused_early(format, text):
    """A hundred thousand levels with a word each have paths of 40 gigabytes."""
    assert seconds_of(lambda: drained(text(100_000), format)) < 10


def test_words_of_brackets_may_be_long():
    """Millions of escapes took hundreds of megabytes."""
    code = (
        "import resource; from carving.formats.brackets import read_trees\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for word in ('a', chr(92), chr(92) + 'a', chr(92) + '('):\n"
        "    assert len(list(read_trees([(1, f'({word * 1_000_000} )')]))[0][0]) >= 500_000\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 60_000


@pytest.mark.parametrize(
    "text", ['a\n"' + "x" * 10_000_000 + '"\n', '"' + "x\n" * 2_000_000, "a\n" + ",".join('"' * 9)]
)
def test_long_quotations_in_tables_are_refused_at_once(text):
    assert seconds_of(lambda: drained(text, "table")) < 5


# Errors


def test_integers_that_python_does_not_read_are_told():
    for format in ("json", "jsonl"):
        with pytest.raises(BadLineError, match="10,000 bits"):
            drained(f"[{'1' * 5_000}]", format)


def test_a_long_key_is_told_in_short():
    with pytest.raises(BadLineError) as error:
        drained('{"%s": 1, "%s": 2}' % (("k" * 100_000,) * 2), "json")
    assert len(str(error.value)) < 500


def test_a_text_stream_of_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a\tb\tc\n\xff\t\xfe\td\n")
    for encoding in ("utf-8", "ascii", "utf-16"):
        with (
            open(tmp_path / "a.tsv", encoding=encoding) as stream,
            pytest.raises(BadLineError, match="the stream is not text"),
        ):
            list(pairs(stream, "triples", skip_bad=True))


@pytest.mark.parametrize("source", [42, None, ["a"], object()])
def test_what_is_no_source_is_refused(source):
    with pytest.raises(BadType, match="source must be a file name, an open file or a DataFrame"):
        pairs(source, "json")
    assert len(brief(source)) < 200


@pytest.mark.parametrize(
    "encoding", ["nonsense", "utf-7", "shift_jis", "cp037", "idna", "rot13", "undefined", "x" * 900]
)
def test_an_encoding_of_xml_that_cannot_be_read_is_told(encoding, tmp_path):
    (tmp_path / "a.arff").write_text(readers.ARFF + "1,yes,0.5\n")
    (tmp_path / "a.xml").write_bytes(f'<?xml version="1.0" encoding="{encoding}"?><labels/>'.encode())
    with pytest.raises(ValueError, match=r"a\.xml") as error:
        read(tmp_path / "a.arff", labels=tmp_path / "a.xml")
    assert isinstance(error.value, formats.BadLineError) or "must name every label" in str(error.value)
    assert len(str(error.value)) < 600


def test_numbers_of_thousands_of_digits_are_told(tmp_path):
    many = b"1" * 5_000
    for text in (many + b" 2 2\n", b"1 2 2\n1 " + many + b":1\n", b"1 2 2\n" + many + b" 0:1\n"):
        (tmp_path / "a.txt").write_bytes(text)
        with pytest.raises(BadLineError):
            read(tmp_path / "a.txt")
    for relation, row in ((b"x -C " + many, b"1,yes,1"), (b"x -C 2", b"{" + many + b" 1}")):
        header = readers.ARFF.encode().replace(b"x: -C 2", relation)
        (tmp_path / "a.arff").write_bytes(header + row + b"\n")
        with pytest.raises(ValueError, match=r"a\.arff"):
            read(tmp_path / "a.arff")


def test_a_disk_that_fails_is_not_told_as_a_file_that_is_corrupt():
    class Failing(io.StringIO):
        def readline(self, size=-1):
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error") as caught:
        list(pairs(Failing("a\tb\tc\n"), "triples"))
    assert not isinstance(caught.value, BadLineError)
