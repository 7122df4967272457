"""Files of tensors: read from one descriptor, replaced whole, never something else; damage and lies are told."""

import errno
import json
import os
import subprocess
import sys

import filelock
import numpy as np
import pytest
import torch
from campaign.shim import Fault, Shim
from safetensors import safe_open
from typer.testing import CliRunner

import carving
from carving import OSC, Memory, QuantizedMemory
from carving.cli import app
from carving.errors import BadValue
from carving.memory.update import Change
from carving.multilabel import MultiLabelClassifier, Settings
from carving.storage import atomic, locks, memoryfile, tensorfile
from carving.storage.locks import lock_open_file

FEATURES = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 4
LABELS = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]] * 4


def memory_of(value="x", d=24):
    memory = Memory(OSC(d, 3))
    memory.store({"a": value, "b": "y"})
    return memory


def model_of(seed=0):
    settings = Settings(architecture="linear", epochs=1, batch_size=8, learning_rate=0.1)
    return MultiLabelClassifier(settings=settings, head_options=dict(d=8, p=2, k1=3), seed=seed).fit(FEATURES, LABELS)


@pytest.fixture
def file(tmp_path):
    memory_of().save(tmp_path / "file")
    return tmp_path / "file"


def in_python(code, *arguments, **options):
    """A process that runs the code."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, **options)


SWAP = """
import os, sys
one, other, target = sys.argv[1:]
print(1, flush=True)
while os.path.exists(one):
    for source in (one, other):
        os.link(source, target + ".new")
        os.replace(target + ".new", target)
"""


def test_what_is_read_was_there_at_one_moment(tmp_path):
    """Another process puts one of two files in a third one's place, over and over."""
    memories = [memory_of("one", 8), memory_of("other", 24)]
    models = [model_of(0), model_of(1)]
    for kind, pair, read in (("memory", memories, Memory.load), ("model", models, MultiLabelClassifier.load)):
        names = [tmp_path / f"{kind} {number}" for number in (1, 2)]
        for made, name in zip(pair, names, strict=True):
            made.save(name)
        target = tmp_path / kind
        pair[0].save(target)
        process = in_python(SWAP, *names, target)
        process.stdout.readline()
        try:
            found = {bytes_of(read(target)) for _ in range(200)}
        finally:
            names[0].unlink()
            process.communicate(timeout=20)
        assert found == {bytes_of(made) for made in pair}


def bytes_of(made):
    """What a memory or a model knows, in bytes."""
    if isinstance(made, Memory):
        return repr([made.scheme, list(made.vocabulary), made.counts.tolist()]).encode() + made.tensor.numpy().tobytes()
    return repr(made.seed).encode() + made.decision_function(FEATURES).tobytes()


def test_what_is_done_to_a_file_later_does_nothing_to_what_was_loaded(file):
    model_of().save(file.with_name("model"))
    memory, model = Memory.load(file), MultiLabelClassifier.load(file.with_name("model"))
    tensor, scores = memory.tensor.clone(), model.decision_function(FEATURES)
    for each in (file, file.with_name("model")):
        with open(each, "rb+") as opened:
            opened.write(bytes(each.stat().st_size))
            opened.truncate(10)
    assert torch.equal(memory.tensor, tensor) and memory.recall("a").value == "x"
    assert np.array_equal(model.decision_function(FEATURES), scores)


def test_a_file_may_have_any_name_that_the_system_takes(tmp_path):
    name = tmp_path / os.fsdecode(b"caf\xe9 \xff.safetensors")
    try:
        name.touch()
    except OSError:
        pytest.skip("this system wants names in UTF-8")
    with locks.lock_for(name):
        memory_of().save(name)
    assert Memory.load(name).recall("a").value == "x"
    name.unlink()
    model_of().save(name)
    assert MultiLabelClassifier.load(name).n_labels_ == 4
    with pytest.raises(
        tensorfile.BadFile, match=r"caf\\udce9 \\udcff.safetensors is a safetensors file, but not a memory"
    ):
        Memory.load(name)
    memory_of().save(tmp_path / ("n" * 255))  # the longest that most systems take
    assert os.listdir(tmp_path).count("n" * 255) == 1


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for made in (memory_of(), model_of()):
        contents = set()
        for number in range(5):
            made.save(tmp_path / f"{type(made).__name__} {number}")
            contents.add((tmp_path / f"{type(made).__name__} {number}").read_bytes())
        assert len(contents) == 1
        again = type(made).load(tmp_path / f"{type(made).__name__} 0")
        again.save(tmp_path / "again", force=True)
        assert (tmp_path / "again").read_bytes() in contents


def test_threads_change_no_byte_of_a_file(tmp_path):
    memory, threads = memory_of(d=128), torch.get_num_threads()
    contents = set()
    try:
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            memory.save(tmp_path / "file")
            contents.add((tmp_path / "file").read_bytes())
    finally:
        torch.set_num_threads(threads)
    assert len(contents) == 1


def test_others_can_read_our_files_and_numbers_lie_at_whole_places(tmp_path):
    model_of().save(tmp_path / "model")
    _, tensors = tensorfile.read_tensors(tmp_path / "model", "model", lambda _: None)
    with safe_open(tmp_path / "model", "pt") as opened:
        assert sorted(opened.keys()) == sorted(tensors)
        assert all(torch.equal(opened.get_tensor(name), tensor) for name, tensor in tensors.items())
    raw = (tmp_path / "model").read_bytes()
    assert int.from_bytes(raw[:8], "little") % 8 == 0


PEAK = """
import sys
from carving.storage import memoryfile

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

before = peak()
contents = memoryfile.read(sys.argv[1])
loaded = peak()
memoryfile.write(sys.argv[1], contents)
print(loaded - before, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell it elsewhere")
def test_loading_and_saving_take_no_second_copy(tmp_path):
    memory_of(d=256).save(tmp_path / "file")
    size = (tmp_path / "file").stat().st_size / 1024
    loaded, saved = map(int, in_python(PEAK, tmp_path / "file").communicate()[0].split())
    assert 0.8 * size < loaded < 1.5 * size and saved < 1.9 * size


# Damage and lies


def test_a_changed_bit_anywhere_is_told(tmp_path):
    """Every byte counts, those that fill the header too."""
    model_of().save(tmp_path / "model")
    memory_of(d=4).save(tmp_path / "memory")
    for name, read in (("model", MultiLabelClassifier.load), ("memory", Memory.load)):
        whole = (tmp_path / name).read_bytes()
        for place in range(0, len(whole), 3):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            (tmp_path / "changed").write_bytes(changed)
            with pytest.raises(tensorfile.BadFile):
                read(tmp_path / "changed")


def test_bytes_that_say_nothing_may_not_change_either(tmp_path):
    wholes = []
    for seed in (1, 10):  # which makes the header one byte longer
        Memory(OSC(4, 2, seed=seed)).save(tmp_path / "file")
        wholes.append((tmp_path / "file").read_bytes())
    whole = next(whole for whole in wholes if whole[7 + int.from_bytes(whole[:8], "little")] == 0x20)
    place = 7 + int.from_bytes(whole[:8], "little")  # of a space that fills the header
    (tmp_path / "file").write_bytes(whole[:place] + b"\t" + whole[place + 1 :])
    with pytest.raises(tensorfile.BadFile, match="form that Carving writes"):
        Memory.load(tmp_path / "file")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"[" * 10**6, "corrupt"),
        (b'{"__metadata__":[]}', "metadata must be strings"),
        (b'{"__metadata__":{"format":5}}', "metadata must be strings"),
        (b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', "malformed header entry"),
        (b'{"a":{"dtype":"F32","shape":[1e3],"data_offsets":[0,4]}}', "form that Carving writes|malformed header"),
        (b'{"a":{"dtype":[],"shape":[1],"data_offsets":[0,4]}}', "malformed header entry"),
        (b'{"a":{"dtype":"F32","shape":[0,281474976710655,9999999],"data_offsets":[0,0]}}', "is too large"),
        (b'{"a":{"dtype":"U8","shape":[100],"data_offsets":[0,100]},"a":1}', "form that Carving writes"),
        (b'{"\\u001b[2J":5}', r"malformed header entry of tensor '\\x1b\[2J'"),
    ],
)
def test_headers_that_lie_are_refused_in_a_sentence(tmp_path, header, problem):
    header += b" " * (-len(header) % 8)
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + bytes(100))
    with pytest.raises(tensorfile.BadFile, match=problem) as told:
        Memory.load(tmp_path / "file")
    assert str(told.value).isprintable()


# What is replaced


def test_only_what_we_wrote_is_replaced(tmp_path):
    memory, model = memory_of(), model_of()
    for name, made in (("memory", memory), ("model", model)):
        made.save(tmp_path / name)
        made.save(tmp_path / name)
        (tmp_path / "empty").write_bytes(b"")
        made.save(tmp_path / "empty")
        (tmp_path / "empty").unlink()
    (tmp_path / "table").write_text("my only table\n")
    for made, other in ((memory, "model"), (memory, "table"), (model, "memory"), (model, "table")):
        before = (tmp_path / other).read_bytes()
        with pytest.raises(ValueError, match=r"so it is not replaced by .*or pass force=True"):
            made.save(tmp_path / other)
        assert (tmp_path / other).read_bytes() == before
    os.chmod(tmp_path / "memory", 0o444)
    with pytest.raises(PermissionError, match=r"read-only.*force=True"):
        memory.save(tmp_path / "memory")
    memory.save(tmp_path / "memory", force=True)
    memory.save(tmp_path / "table", force=True)
    assert Memory.load(tmp_path / "table").recall("a").value == "x"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_pipes_devices_and_folders_are_never_replaced_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for force in (False, True):
        with pytest.raises(ValueError, match="pipe or a device"):
            memory_of().save(tmp_path / "pipe", force=force)
        with pytest.raises(ValueError, match="pipe or a device"):
            tensorfile.check_replaceable(os.devnull, "memory", force)  # only asked: this machine needs it
        with pytest.raises(IsADirectoryError):
            memory_of().save(tmp_path, force=force)
    for name in (tmp_path / "pipe", os.devnull):
        with pytest.raises(FileNotFoundError, match="is not a file"):
            Memory.load(name)
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_whose_folder_cannot_be_flushed_is_written_all_the_same(file, monkeypatch):
    flush = os.fsync

    def fails_for_folders(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fails_for_folders)
    with pytest.warns(atomic.NotFlushed, match="was written, but its folder"):
        memory_of("new").save(file)
    assert Memory.load(file).recall("a").value == "new"
    (file.parent / "more.json").write_text('{"c": "z"}')
    told = CliRunner().invoke(app, ["store", str(file), str(file.parent / "more.json"), "--json"])
    assert told.exit_code == 0 and json.loads(told.stdout)["stored"] == 1
    assert told.stderr.startswith("Warning: ") and "was written" in told.stderr
    assert Memory.load(file).recall("c").value == "z"


def test_a_file_that_cannot_be_written_is_told_by_its_name_and_leaves_nothing(file, monkeypatch):
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"file could not be written .*No space left.* Nothing was changed") as told:
        memory_of("new").save(file)
    assert told.value.errno == 28
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


def test_what_killed_processes_left_goes_with_the_next_save_and_what_others_write_stays(file):
    dead, alive = (file.with_name(f".carving-{digit * 32}.part") for digit in "0f")
    mine = file.with_name(".carving-notes.part")
    for part in (dead, alive, mine):
        part.write_bytes(b"half of a file")
    with open(alive, "rb+") as other:
        assert lock_open_file(other.fileno(), alive)
        memory_of().save(file.with_name("another"))
        assert alive.exists() and not dead.exists() and mine.exists()
    memory_of().save(file)
    assert not alive.exists() and mine.exists()


def test_a_new_file_is_never_more_open_than_the_one_that_it_replaces(file, monkeypatch):
    os.chmod(file, 0o600)
    seen, change = [], os.chmod

    def watched(part, mode):
        seen.append(os.stat(part).st_mode & 0o777)
        change(part, mode)

    monkeypatch.setattr(os, "chmod", watched)
    memory_of().save(file)
    assert seen == [0o600] and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "error",
    [
        *(torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("the GPU is lost"), MemoryError("no room")),
        *(TypeError("bug"), ValueError("bug"), KeyError("bug"), AssertionError(), AttributeError()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["memory", "scheme", "quantized memory", "journal"])
def test_what_is_no_damage_is_not_called_damage(file, monkeypatch, error, kind):
    def failing(*_, **__):
        raise error

    if kind == "quantized memory":
        Memory.load(file).quantize(3).save(file, force=True)
    if kind == "journal":
        carving.open(file).store({"more": "x"})
    with monkeypatch.context() as patched:
        steps = {"journal": (Change, "bind"), "scheme": (memoryfile, "make")}
        patched.setattr(*steps.get(kind, (torch, "isfinite")), failing)
        if kind == "quantized memory":
            patched.setattr(torch.Tensor, "view", failing)
        with pytest.raises(type(error)) as told:
            (QuantizedMemory if kind == "quantized memory" else Memory).load(file)
    assert type(told.value) is type(error)


def test_a_file_that_cannot_be_read_is_not_taken_for_anothers(file):
    memory, before = Memory.load(file), file.read_bytes()
    with Shim(file.parent, Fault(0, errno.EIO)).watching(), pytest.raises(OSError, match="could not be read") as told:
        memory.save(file)
    assert told.value.errno == errno.EIO and file.read_bytes() == before


@pytest.mark.parametrize("kind", ["memory", "quantized memory", "label model"])
def test_what_takes_a_files_place_while_another_waits_is_not_replaced(file, monkeypatch, kind):
    """The target is checked under the lock, and not before, when another process may still write it."""
    made = model_of() if kind == "label model" else Memory.load(file)
    made = made.quantize(3) if kind == "quantized memory" else made
    file.unlink()
    take = filelock.FileLock.acquire

    def late(lock, *given, **how):
        file.write_text("pairs of somebody else")
        return take(lock, *given, **how)

    monkeypatch.setattr(filelock.FileLock, "acquire", late)
    with pytest.raises(BadValue, match="not written by Carving"):
        made.save(file)
    assert file.read_text() == "pairs of somebody else"


def test_a_target_is_checked_once(file, monkeypatch):
    memory, checked, check = Memory.load(file), [], tensorfile.check_target
    monkeypatch.setattr(tensorfile, "check_target", lambda path: checked.append(path) or check(path))
    memory.save(file)
    memory.quantize(2).save(file.with_name("quantized"))
    assert checked == [file, file.with_name("quantized")]
