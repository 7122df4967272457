"""The command line with memories that keep their paths: listed, exported, found and grown without files."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from carving import OSC, Memory, formats
from carving.cli import app

LINES = "".join(f"head {i}\tnext\tvalue {i % 40}\n" for i in range(200))


@pytest.fixture
def carving():
    def run(*arguments, status=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == status, result.output + result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return run


@pytest.fixture
def facts(tmp_path):
    (tmp_path / "facts.tsv").write_text(LINES)
    return tmp_path / "facts.tsv"


@pytest.fixture
def memory(tmp_path, facts, carving):
    carving("store", tmp_path / "memory", facts, "--keep-paths", "--scheme", "HLB")
    return tmp_path / "memory"


@pytest.fixture
def plain(tmp_path, facts, carving):
    carving("store", tmp_path / "plain", facts, "--scheme", "HLB")
    return tmp_path / "plain"


def test_paths_are_counted_beside_the_tensor(memory, plain, carving):
    known = json.loads(carving("info", memory, "--json").output)
    assert known["paths"] == 200 and 0 < known["paths_bytes"] < 200 * 10
    assert known["bytes"] - json.loads(carving("info", plain, "--json").output)["bytes"] >= known["paths_bytes"]
    assert "Paths kept: 200" in carving("info", memory).output
    assert "paths" not in json.loads(carving("info", plain, "--json").output)


def test_a_memory_is_exported_without_files(memory, plain, facts, tmp_path, carving):
    told = carving("export", memory, "-o", tmp_path / "copy.tsv").output
    assert (tmp_path / "copy.tsv").read_text() == LINES and "Wrote 200 pairs" in told and "200 paths" in told
    carving("export", memory, "-o", tmp_path / "copy.json")
    assert json.loads((tmp_path / "copy.json").read_text())["head 7"] == {"next": "value 7"}
    assert "keeps no paths" in carving("export", plain, "-o", tmp_path / "no.tsv", status=2).stderr
    assert not (tmp_path / "no.tsv").exists()
    carving("export", plain, facts, "-o", tmp_path / "copy2.tsv")
    copied = (tmp_path / "copy2.tsv").read_text().splitlines()
    assert len(copied) >= 197 and set(copied) <= set(LINES.splitlines())


def test_paths_of_several_values_are_exported_whatever_they_are(tmp_path, carving):
    pairs = [(path, value) for path in (("a",), ("b", 1, "c"), ("d", "e")) for value in ("x", b"y", 7)]
    memory = Memory(OSC(60, 2), keep_paths=True)
    memory.store(pairs)
    memory.save(tmp_path / "memory")
    for ending in ("json", "jsonl", "tsv", "csv", "conllu", "mrg"):
        refused = carving("export", tmp_path / "memory", "-o", tmp_path / f"no.{ending}", status=2)
        assert ".pairs" in refused.stderr and not (tmp_path / f"no.{ending}").exists()
    carving("export", tmp_path / "memory", "-o", tmp_path / "all.pairs.gz")
    assert set(formats.pairs(tmp_path / "all.pairs.gz")) == set(pairs)
    carving("store", tmp_path / "copy", tmp_path / "all.pairs.gz")
    assert Memory.load(tmp_path / "copy").pairs == 9


def test_a_memory_is_asked_for_all_that_it_keeps(memory, plain, carving):
    for options in ([], ["--joint"]):
        told = carving("verify", memory, *options).output
        assert "is intact" in told and "Queried 200 pairs" in told and "answers with probability" in told
    known = json.loads(carving("verify", memory, "--joint", "--json").output)
    assert (known["requested"], known["confident"], known["missing"], known["converged"]) == (200, 200, 0, True)
    assert json.loads(carving("verify", plain, "--json").output) == {"file": str(plain), "whole": True, "pairs": 200}


def test_where_a_value_is(memory, plain, facts, carving):
    lines = carving("where", memory, "value 7").stdout.splitlines()
    assert sorted(line.split("\t")[0] for line in lines) == sorted(f"head {i} / next" for i in range(7, 200, 40))
    found = json.loads(carving("where", plain, "value 7", "--paths", facts, "--json").output)
    assert {tuple(each["path"]) for each in found} == {(f"head {i}", "next") for i in range(7, 200, 40)}
    assert "keeps no paths" in carving("where", plain, "value 7", status=2).stderr
    assert carving("where", memory, "value 77", status=1).stdout == ""
    assert json.loads(carving("where", memory, "value 77", "--json", status=1).output) == []


def test_numbers_are_found_as_numbers_and_as_text(tmp_path, carving):
    (tmp_path / "typed.json").write_text(json.dumps({"a": 4, "b": "4", "c": "5"}))
    carving("store", tmp_path / "m", tmp_path / "typed.json", "--keep-paths", "--d", 32, "--p", 3)
    both = carving("where", tmp_path / "m", "4")
    assert sorted(line.split("\t")[0] for line in both.stdout.splitlines()) == ["a", "b"]
    assert "read as" in both.stderr and "4 and the text '4'" in both.stderr.replace(
        "the text '4' and 4", "4 and the text '4'"
    )
    text = carving("where", tmp_path / "m", "4", "--text")
    assert [line.split("\t")[0] for line in text.stdout.splitlines()] == ["b"]


def test_a_memory_grows_in_its_place_or_elsewhere(memory, tmp_path, carving):
    before = Memory.load(memory)
    told = carving("grow", memory, "--pairs", 2000, "--output", tmp_path / "big").output
    assert "200 answers with probability 0.9 or higher (100.00%)" in told and "Stored 200 pairs" in told
    assert Memory.load(memory).scheme == before.scheme
    big = Memory.load(tmp_path / "big")
    assert big.target.pairs == 2000 and len(big) == 200 and big.recall("head 7", "next").value == "value 7"
    known = json.loads(carving("grow", memory, "--json").output)
    assert (known["requested"], known["confident"], known["missing"], known["pairs"]) == (200, 200, 0, 200)
    assert Memory.load(memory).target.pairs == 400


def test_without_kept_paths_files_say_them(plain, facts, tmp_path, carving):
    assert "keeps no paths" in carving("grow", plain, status=2).stderr
    (tmp_path / "half.tsv").write_text("".join(LINES.splitlines(keepends=True)[:100]))
    before = plain.read_bytes()
    assert "would be lost" in carving("grow", plain, tmp_path / "half.tsv", status=2).stderr
    assert plain.read_bytes() == before
    carving("grow", plain, facts, "--keep-paths")
    assert len(Memory.load(plain)) == 200


def test_a_memory_that_would_be_too_full_offers_what_makes_room(memory, plain, tmp_path, carving):
    (tmp_path / "more.tsv").write_text("".join(f"more {i}\tnext\tvalue {i % 40}\n" for i in range(400)))
    refused = carving("store", memory, tmp_path / "more.tsv", status=2).stderr
    assert f"`carving grow {memory} --pairs 600`" in " ".join(refused.split())
    offered = refused.replace("\n", " ").split("`")[1]
    carving(*shlex.split(offered)[1:])
    carving("store", memory, tmp_path / "more.tsv")
    assert Memory.load(memory).pairs == 600 and not Memory.load(memory).is_overfull
    assert (
        f"`carving grow {plain} FILES --pairs 600`" in carving("store", plain, tmp_path / "more.tsv", status=2).stderr
    )


def test_unlike_memories_are_merged_where_paths_are_kept(memory, plain, tmp_path, carving):
    (tmp_path / "more.tsv").write_text("".join(f"more {i}\tnext\tvalue {i % 40}\n" for i in range(100)))
    carving("store", tmp_path / "other", tmp_path / "more.tsv", "--keep-paths", "--scheme", "HLB")
    assert Memory.load(tmp_path / "other").scheme != Memory.load(memory).scheme
    told = carving("merge", tmp_path / "both", memory, tmp_path / "other")
    both = Memory.load(tmp_path / "both")
    assert both.pairs == 300 and len(both) == 300 and not both.is_overfull and "decoded" in told.stderr
    assert both.recall("more 3", "next").value == "value 3" and both.recall("head 7", "next").value == "value 7"
    carving("store", tmp_path / "unlike", tmp_path / "more.tsv", "--scheme", "HLB")
    assert (
        "Cannot add memories of different schemes"
        in carving("merge", tmp_path / "no", plain, tmp_path / "unlike", status=2).stderr
    )
    told = carving("merge", tmp_path / "none", memory, plain, "--force")
    assert "the result keeps none" in told.stderr and not Memory.load(tmp_path / "none").keeps_paths


def test_options_that_say_nothing_are_refused(memory, plain, facts, tmp_path, carving):
    assert "carving grow" in carving("store", plain, facts, "--keep-paths", "--force", status=2).stderr
    carving("store", memory, facts, "--keep-paths", "--force")
    assert "--out" in carving("plan", "--pairs", 100, "--vocabulary", 20, "--keep-paths", status=2).stderr
    carving("plan", "--pairs", 300, "--vocabulary", 40, "--out", tmp_path / "empty", "--keep-paths")
    carving("store", tmp_path / "empty", facts)
    assert len(Memory.load(tmp_path / "empty")) == 200
    Memory(OSC(40, 3)).save(tmp_path / "none")
    carving("store", tmp_path / "none", facts, "--keep-paths")  # which is empty, and can begin to
    assert len(Memory.load(tmp_path / "none")) == 200
    carving("store", tmp_path / "like", facts, "--like", memory)
    assert Memory.load(tmp_path / "like").keeps_paths


def test_forgetting_takes_paths_away(memory, tmp_path, carving):
    (tmp_path / "less.tsv").write_text("".join(LINES.splitlines(keepends=True)[:50]))
    carving("forget", memory, tmp_path / "less.tsv")
    assert len(Memory.load(memory)) == 150


def test_sizes_given_by_hand_keep_paths_too(facts, tmp_path, carving):
    carving("store", tmp_path / "given", facts, "--d", 40, "--p", 3, "--keep-paths")
    held = Memory.load(tmp_path / "given")
    assert held.scheme == OSC(40, 3) and len(held) == 200
