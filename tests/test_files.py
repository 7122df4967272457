"""Files: what is saved comes back, damage is told, and a file is never half written."""

import json
import os
import struct
import subprocess
import sys
import time

import pytest
import torch
from crew import CONTEXT, started
from safetensors import safe_open
from safetensors.torch import save_file
from torch.testing import assert_close

from carving import OSC, SCHEMES, TPR, Memory, make
from carving.errors import UnknownScheme
from carving.storage import tensorfile

KEY = "A" * 16  # of a sampled pair: 12 bytes
VALUES = ["dog", 1, "1", 1.5, True, None, b"dog", {}, [], "ü\U0001f600\ud800", -(2**70), float("nan"), ""]


def filled(scheme):
    memory = Memory(scheme)
    memory.store([(("place", i), value) for i, value in enumerate(VALUES)])
    return memory


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.safetensors"
    filled(OSC(24, 3)).save(path)
    return path


@pytest.mark.parametrize("name", SCHEMES)
def test_a_memory_of_every_scheme_comes_back(name, tmp_path):
    memory = filled(TPR(16, whole_path=True, seed=3) if name == "TPR" else make(name, d=64, seed=3))
    memory.save(tmp_path / "file")
    again = Memory.load(tmp_path / "file")
    assert again.scheme == memory.scheme and torch.equal(again.tensor, memory.tensor)
    assert repr(list(again.vocabulary)) == repr(VALUES) and torch.equal(again.counts, memory.counts)
    for one, other in zip(*(m.recall_many([("place", i) for i in range(9)]) for m in (memory, again)), strict=True):
        assert repr(one) == repr(other)


@pytest.mark.parametrize(
    ("dtype", "close"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-2), (torch.float32, 0), (torch.float64, 0)]
)
def test_a_file_may_have_another_dtype(dtype, close, tmp_path):
    memory = filled(OSC(24, 3))
    memory.save(tmp_path / "file", dtype)
    with safe_open(tmp_path / "file", "pt") as opened:
        assert opened.get_tensor("memory").dtype == dtype
    again = Memory.load(tmp_path / "file")
    assert again.tensor.dtype == torch.float32
    assert_close(again.tensor, memory.tensor, rtol=close, atol=1e-6)
    assert again.recall("place", 0).value == "dog"
    with pytest.raises(TypeError, match="dtype must be one of"):
        memory.save(tmp_path / "file", torch.int8)


def test_a_memory_in_double_precision_stays_one(tmp_path):
    memory = filled(OSC(24, 3, dtype=torch.float64))
    memory.save(tmp_path / "file")
    again = Memory.load(tmp_path / "file")
    assert again.scheme.dtype == torch.float64 and torch.equal(again.tensor, memory.tensor)


def test_trained_fillers_travel_with_the_memory(generator, tmp_path):
    scheme = OSC(24, 3)
    memory = Memory(scheme, ["a", "b"], torch.randn(2, 3, 24, generator=generator))
    memory.store({"x": "a", "y": "b", "z": "c"})
    memory.save(tmp_path / "file")
    again = Memory.load(tmp_path / "file")
    assert torch.equal(again.trained_fillers, memory.trained_fillers)
    assert [again.recall(key).value for key in "xyz"] == ["a", "b", "c"]
    assert (again + memory).recall("x").value == "a"


def test_what_labels_give_is_the_same_elsewhere(file):
    """A file that another process reads answers the same."""
    asked = "recall_many([('place', 0), ('place', 2)])"
    code = f"from carving import Memory; print([a.value for a in Memory.load({str(file)!r}).{asked}])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "['dog', '1']"


# Golden: the file of a small memory, by what it holds. A change here means that old files are not read any more.
def test_the_format_of_files_stays(tmp_path):
    memory = Memory(OSC(4, 2, k1=2))
    memory.store({"a": "x", "b": 1})
    memory.save(tmp_path / "file")
    with safe_open(tmp_path / "file", "pt") as opened:
        metadata = opened.metadata()
        assert sorted(opened.keys()) == ["counts", "memory", "vocabulary"]
        assert bytes(opened.get_tensor("vocabulary").tolist()) == b"s1:xi1:1"
        assert opened.get_tensor("counts").tolist() == [1, 1]
    assert {name: metadata[name] for name in ("format", "version", "stream", "dtype", "pairs")} == {
        "format": "carving memory",
        "version": "4",
        "stream": "carving 1",
        "dtype": "float32",
        "pairs": "2",
    }
    scheme = {"name": "OSC", "d": 4, "p": 2, "k1": 2, "signed": True, "basis": "blocks", "seed": 0}
    assert json.loads(metadata["scheme"]) == scheme
    assert sorted(metadata) == [
        "checksum",
        "dtype",
        "energy",
        "format",
        "pairs",
        "sample",
        "scheme",
        "stream",
        "version",
    ]


def test_a_file_that_is_cut_off_is_told(file):
    whole = file.read_bytes()
    for size in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(tensorfile.BadFile, match="not a complete memory file"):
            Memory.load(file)


def test_any_changed_byte_is_told(file):
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        file.write_bytes(damaged)
        with pytest.raises(tensorfile.BadFile):
            Memory.load(file)


def rewritten(file, **changes):
    """The file with other metadata or tensors, and a checksum that is right."""
    with safe_open(file, "pt") as opened:
        metadata = dict(opened.metadata())
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    for name, value in changes.items():
        (metadata if isinstance(value, str) else tensors)[name] = value
    metadata["checksum"] = tensorfile.checksum(tensors, metadata)
    save_file(tensors, file, metadata)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(version="5"),
            r"has format version '5', and this version of Carving reads '4'\. Store its pairs in a new memory",
        ),
        (dict(solved="{}"), "is corrupt"),
        (dict(solved='{"slope": 1, "pairs": 1, "right": 1, "levels": []}'), "calibration of probabilities"),
        (dict(version="3"), "has format version '3', and this version of Carving reads '4'"),
        (dict(version="x"), "has format version 'x'"),
        (dict(stream="carving 2"), "labels of version 'carving 2', and this Carving has 'carving 1'"),
        (dict(format="something"), "not a memory of Carving"),
        (dict(scheme='{"name": "OSC", "d": 1000000000000, "p": 2}'), "has d=1000000000000"),
        (dict(scheme='{"name": "MAP-B", "d": 1000000000000}'), "has d=1000000000000"),
        (
            dict(scheme='{"name": "OSC", "d": 25, "p": 3, "k1": 5, "signed": true, "basis": "blocks", "seed": 0}'),
            "needs a tensor of shape",
        ),
        (dict(scheme='{"name": "OSC", "d": 24, "p": 3, "workspace": 9}'), "multiple values|do not match"),
        (dict(scheme='{"name": "TPR", "d": 20, "depth": 100000000}'), "has depth=100000000"),
        (dict(scheme='{"name": "none", "d": 25}'), "Unknown scheme 'none'"),
        (dict(scheme="{"), "is corrupt"),
        (dict(dtype="int7"), "is corrupt"),
        (dict(memory=torch.full((24, 24, 24), torch.nan)), "not-a-number"),
        (dict(counts=torch.zeros(2, dtype=torch.float64)), "counts of shape"),
        (dict(counts=torch.zeros(13)), "'counts' must be of float64"),
        (dict(memory=torch.zeros(24, 24, 24, dtype=torch.int32)), "'memory' must have a dtype of"),
        (dict(vocabulary=torch.tensor(list(b"s1:x" * 13), dtype=torch.uint8)), "not all different"),
        (dict(fillers=torch.zeros(2, 3, 25)), "the fillers have shape"),
        (dict(vocabulary=torch.tensor([115, 57, 58, 120], dtype=torch.uint8)), "no whole label"),
        (dict(vocabulary=torch.tensor([1, 2, 3], dtype=torch.uint8)), "is corrupt"),
        (dict(vocabulary=torch.tensor(list(b"s1:x" * 13), dtype=torch.int16)), "'vocabulary' must be of uint8"),
        (dict(scheme="[]"), "scheme must be a JSON object"),
        (dict(scheme='"OSC"'), "scheme must be a JSON object"),
        (dict(scheme="null"), "scheme must be a JSON object"),
        (dict(scheme="[" * 100_000), "is corrupt"),
        (dict(scheme='{"name": ["OSC"], "d": 24}'), "scheme must be a JSON object"),
        (dict(scheme='{"name": "OSC"}'), "scheme must be a JSON object"),
        (dict(scheme='{"name": "OSC", "d": 24, "dtype": "x"}'), "do not match"),
        (dict(scheme='{"name": "OSC", "d": 1e308}'), "d must be an integer"),
        (dict(scheme='{"name": "OSC", "d": NaN}'), "d must be an integer"),
        (dict(scheme='{"name": "OSC", "d": 24, "p": 3, "seed": %s}' % ("9" * 4000)), "seed must be"),
        (dict(scheme='{"name": "OSC", "d": 24, "p": 3, "seed": %s}' % ("9" * 5000)), "is corrupt"),
        (dict(scheme='{"name": "\\u001b[2J\\u0007", "d": 24}'), r"Unknown scheme '\\x1b\[2J"),
        (dict(scheme='{"name": "OSC", "d": 24, "\\u001b[2J": 10000000}'), r"has \\x1b\[2J=10000000"),
        (dict(version="\x1b[2J" * 1000), r"has format version '\\x1b\[2J"),
        (dict(counts=torch.full((13,), 1e308, dtype=torch.float64)), "add up to more"),
        (dict(counts=torch.full((13,), -1e308, dtype=torch.float64)), "add up to more"),
        (dict(counts=torch.full((13,), torch.nan, dtype=torch.float64)), "not-a-number"),
        (dict(counts=torch.zeros((13, 1), dtype=torch.float64)), "counts of shape"),
        (dict(fillers=torch.zeros(2, 3, 24, dtype=torch.int64)), "must be floating point numbers"),
        (dict(sample='{"bits": 0, "keys": "AAAA"}'), "3 bytes of keys"),
        (dict(sample='{"bits": 0, "keys": "", "weights": [1]}'), "has 0 keys and 1 weights"),
        (dict(sample=json.dumps(dict(bits=0, keys=KEY, fewer=[-1]))), "invalid numbers of bits"),
        (dict(sample=json.dumps(dict(bits=0, keys=KEY, weights=["x"]))), "invalid weights"),
    ],
)
def test_files_that_lie_are_refused(file, changes, message):
    rewritten(file, **changes)
    with pytest.raises(UnknownScheme if "Unknown" in message else tensorfile.BadFile, match=message) as told:
        Memory.load(file)
    assert str(told.value).isprintable() and len(str(told.value)) < 1000


def test_complex_fillers_come_back_and_other_shapes_are_refused(tmp_path):
    scheme = make("FHRR", d=8)
    memory = Memory(scheme, ["a"], scheme.fillers(["b"]))
    memory.store({"x": "a"})
    memory.save(tmp_path / "file")
    assert Memory.load(tmp_path / "file").recall("x").value == "a"
    rewritten(tmp_path / "file", fillers=torch.zeros(1, 8, 3))
    with pytest.raises(tensorfile.BadFile, match="complex fillers must have 2"):
        Memory.load(tmp_path / "file")


def test_a_consolidated_memory_comes_back(tmp_path):
    memory, facts = Memory(OSC(20, 2, 4, compact=True)), {f"key {i}": f"value {i}" for i in range(50)}
    memory.store(facts)
    memory.consolidate(facts)
    memory.save(tmp_path / "file")
    again = Memory.load(tmp_path / "file")
    assert memory.is_consolidated and again.is_consolidated and torch.equal(again.tensor, memory.tensor)


def test_a_memory_that_counts_too_much_to_be_loaded_is_not_saved(file):
    memory, before = Memory.load(file), file.read_bytes()
    memory._reader.counts[0] = 1e17
    with pytest.raises(ValueError, match="smaller weights"):
        memory.save(file)
    assert file.read_bytes() == before


def test_nothing_is_allocated_that_only_a_header_claims(tmp_path):
    header = json.dumps({"memory": {"dtype": "F32", "shape": [10**6, 10**7], "data_offsets": [0, 4 * 10**13]}}).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(header)) + header + bytes(100))
    with pytest.raises(tensorfile.BadFile, match="not a complete memory file"):
        Memory.load(tmp_path / "file")
    (tmp_path / "file").write_bytes(struct.pack("<Q", 2**60) + bytes(100))
    with pytest.raises(tensorfile.BadFile, match="not a complete memory file"):
        Memory.load(tmp_path / "file")


def test_files_of_another_kind_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Memory.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="is not a file"):
        Memory.load(tmp_path)
    (tmp_path / "text").write_text("hello, this is no memory\n" * 9)
    with pytest.raises(tensorfile.BadFile, match="not a complete memory file"):
        Memory.load(tmp_path / "text")
    save_file({"x": torch.ones(2)}, tmp_path / "other")
    with pytest.raises(tensorfile.BadFile, match="not a memory of Carving"):
        Memory.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match=r"The folder of .* does not exist"):
        filled(OSC(8)).save(tmp_path / "none" / "file")


def test_a_failed_save_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        filled(OSC(25, 3)).save(file)
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]
    memory = filled(OSC(24, 3))
    memory._reader.tensor[0, 0, 0] = 1e30
    with pytest.raises(ValueError, match="float16 cannot"):
        memory.save(file, torch.float16)
    assert file.read_bytes() == before


def test_a_file_keeps_its_mode_and_reaches_the_disk_before_it_takes_its_place(file, monkeypatch):
    os.chmod(file, 0o640)
    done = []
    flush, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (done.append("flushed"), flush(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replaced"), replace(*names)))
    filled(OSC(24, 3)).save(file)
    assert done == ["flushed", "replaced", "flushed"]  # the file, its place, the folder
    assert file.stat().st_mode & 0o777 == 0o640


def save_over_and_over(file, ready):
    memory = Memory(OSC(100, 3))
    memory.store({"a": "x"})
    ready.set()
    while True:
        memory.save(file)
        memory.store({"b": "y"})


@pytest.mark.xdist_group("ranks")
def test_killed_at_any_moment_the_file_is_whole(tmp_path):
    """A process that saves over and over is killed three times; whatever it was doing, the file can be loaded."""
    file = tmp_path / "file"
    for round_ in range(3):
        ready = CONTEXT.Event()
        process = started(save_over_and_over, file, ready)
        assert ready.wait(120)
        while not file.exists():
            time.sleep(0.01)
        time.sleep(0.05 + 0.037 * round_)
        process.kill()
        process.join()
        assert Memory.load(file).recall("a").value == "x"
    Memory.load(file).save(file)
    assert os.listdir(tmp_path) == ["file"]  # what they left is gone
