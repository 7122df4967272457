"""Replacing the value of a path: one change, as strongly as before, and only where it is certain."""

import json

import pytest
import torch
from typer.testing import CliRunner

import carving
from carving import OSC, Memory, make
from carving.cli import app
from carving.errors import BadValue

PAIRS = [((f"head {i}", "next"), f"value {i % 7}") for i in range(40)]


@pytest.fixture(params=[False, True], ids=["paths unknown", "paths kept"])
def memory(request):
    memory = Memory(OSC(40, 2), keep_paths=request.param)
    memory.store(PAIRS)
    return memory


def test_a_value_is_replaced_as_if_the_other_had_been_stored(memory):
    former = memory.replace(("head 3", "next"), "new")
    other = Memory.like(memory)
    other.store([(path, "new" if path[0] == "head 3" else value) for path, value in PAIRS])
    assert former.value == "value 3" and former and memory.pairs == 40
    torch.testing.assert_close(memory.tensor, other.tensor, atol=1e-5, rtol=0)
    assert memory.recall("head 3", "next").value == "new" and memory.verify(
        other.decode_pairs([path for path, _ in PAIRS]).pairs
    )
    if memory.keeps_paths:
        assert list(memory) == [path for path, _ in PAIRS]
    assert memory._reader.sample.weights == other._reader.sample.weights


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_the_strength_of_a_pair_stays(weight):
    memory, other = Memory(OSC(100, 2)), Memory(OSC(100, 2))
    for each, value in ((memory, "value 1"), (other, "value 2")):
        each.store(PAIRS)
        each.store([(("weighed",), value)], weight=weight)
    assert memory.replace(("weighed",), "value 2").value == "value 1"
    torch.testing.assert_close(memory.tensor, other.tensor, atol=1e-5, rtol=0)
    assert torch.allclose(memory.counts, other.counts)


def test_replacing_a_value_by_itself_changes_nothing(memory):
    reader = memory._reader
    assert memory.replace(("head 3", "next"), "value 3").value == "value 3" and memory._reader is reader


def test_what_is_not_there_is_refused_and_stored_with_force(memory):
    reader = memory._reader
    for how in ({}, {"old": "value 4"}):
        with pytest.raises(BadValue, match=r"Cannot replace: .* is stored under"):
            memory.replace(("nowhere",), "x", **how)
    with pytest.raises(BadValue, match="the value 'value 4' is stored under"):
        memory.replace(("head 3", "next"), "x", "value 4")
    assert memory._reader is reader
    assert not memory.replace(("nowhere",), "x", force=True)
    assert memory.recall("nowhere").value == "x" and memory.pairs == 41


def test_of_several_values_one_is_named(memory):
    memory.store([(("both",), "value 1"), (("both",), "value 2")])
    with pytest.raises(BadValue, match=r"several values .* Pass old="):
        memory.replace(("both",), "new")
    assert memory.replace(("both",), "new", "value 2").value == "value 2"
    assert {answer.value for answer in memory.recall_set("both")} == {"value 1", "new"}
    assert memory.replace(("both",), "newer", force=True).value in ("value 1", "new")
    assert memory.pairs == 42


def test_what_is_uncertain_is_refused():
    memory = Memory(OSC(12, 2))
    memory.store([((i,), f"value {i}") for i in range(60)])
    certain = [answer.probability >= 0.9 for answer in memory.recall_many([(i,) for i in range(60)])]
    assert not all(certain)
    with pytest.raises(BadValue, match="Cannot replace"):
        memory.replace((certain.index(False),), "new")


def test_schemes_without_probabilities_consolidated_and_quantized_memories_refuse():
    settled = Memory(make("MAP-B", d=512))
    settled.store({"a": "x"})
    with pytest.raises(BadValue, match="has no probabilities"):
        settled.replace(("a",), "y")
    memory = Memory(OSC(30, 2, 4, compact=True))
    memory.store(PAIRS)
    with pytest.raises(BadValue, match="to_memory"):
        memory.quantize().replace(PAIRS[0][0], "y")
    memory.consolidate(PAIRS, bits=2)
    with pytest.raises(BadValue, match="was consolidated"):
        memory.replace(PAIRS[0][0], "y")


def test_an_open_file_gets_one_record_that_others_read(memory, tmp_path):
    file = tmp_path / "m.safetensors"
    memory.save(file)
    with carving.open(file) as one, carving.open(file) as other:
        one.replace(("head 3", "next"), "new")
        assert one.changes == 1 and Memory.load(file).recall("head 3", "next").value == "new"
        assert other.replace(("head 3", "next"), "newer").value == "new"  # which was read under the lock
        one.refresh()
        assert one.changes == 2 and one.recall("head 3", "next").value == "newer" and one.pairs == 40
        with pytest.raises(BadValue, match="Cannot replace"):
            one.replace(("nowhere",), "x")
        assert one.changes == 2
    loaded = Memory.load(file)
    assert loaded.pairs == 40 and torch.equal(loaded.counts, one.counts)


def test_the_command_replaces_all_or_nothing(memory, tmp_path):
    file, new = tmp_path / "m.safetensors", tmp_path / "new.json"
    memory.save(file)
    before = file.read_bytes()
    new.write_text(json.dumps({"head 3": {"next": "new"}, "nowhere": "x"}))
    refused = CliRunner().invoke(app, ["store", str(file), str(new), "--replace"])
    assert refused.exit_code == 2 and "Nothing was written" in refused.output and file.read_bytes() == before
    new.write_text(json.dumps({"head 3": {"next": "new"}, "head 4": {"next": "newer"}}))
    done = CliRunner().invoke(app, ["store", str(file), str(new), "--replace"])
    assert done.exit_code == 0 and "Replaced the values of 2 paths" in done.output, done.output
    loaded = Memory.load(file)
    assert loaded.pairs == 40 and loaded.recall("head 4", "next").value == "newer"
