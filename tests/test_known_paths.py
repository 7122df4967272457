"""Memories that keep their paths: which there are, in what order, in files and out of them."""

import copy
import pickle
import sys
import threading
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from carving import OSC, Memory, make
from carving.errors import BadValue, UserError
from carving.memory.counts import PathCounts
from carving.storage import tensorfile
from carving.symbols.codec import canonical, canonical_path, parse_paths
from carving.symbols.paths import FREE_BYTES, MAX_GROWTH, pack, unpack

ROLES = ["dog", 1, "1", 1.5, True, None, b"dog", (), "ü\U0001f600\ud800", -(2**70), float("inf"), ""]
PAIRS = [(("dog", "says"), "woof"), (("dog", "is"), "pet"), (("dog", "is"), "animal"), (("cat", "says"), "meow")]


def keeping(pairs=PAIRS, scheme=None):
    memory = Memory(scheme or OSC(40, 3), keep_paths=True)
    memory.store(pairs)
    return memory


# The structure beside a plain dict

NAMES = st.integers(0, 30).map(lambda number: b"p1:i%d:%d" % (len(str(number)), number))
CHANGES = st.lists(st.lists(st.tuples(NAMES, st.sampled_from([1, 1, 2, 3, -1, -2])), max_size=12))


def changed(model, events):
    """The same on a dict: what is at zero goes, and comes back at the end."""
    model = dict(model)
    for name, number in events:
        model[name] = max(0, model.get(name, 0) + number)
        if not model[name]:
            del model[name]
    return model


@given(CHANGES)
def test_known_paths_are_a_dict_and_older_ones_stay_as_they_were(changes):
    known, model, seen = PathCounts(), {}, []
    for events in changes:
        known, model = known.changed(events), changed(model, events)
        seen.append((known, model))
        assert (len(known), known.pairs) == (len(model), sum(model.values()))
        assert all(known.count(name) == model.get(name, 0) for name, _ in events)
    for known, model in seen:  # looked at only now: what came later changed none of them
        assert list(known.weights().items()) == list(model.items())
        assert list(known.weights().items()) == list(model.items()) and len(known) == len(model)


def test_single_changes_do_not_copy_what_is_there():
    known = PathCounts({b"p1:i%d:%d" % (len(str(i)), i): 1 for i in range(20_000)})
    base, deepest = known._layers[0].counts, 0
    for i in range(5_000):
        known = known.changed([(b"p1:s%d:%d" % (len(str(i)), i), 1)])
        deepest = max(deepest, len(known._layers))
    assert known._layers[0].counts is base and deepest <= 14 and len(known) == 25_000
    for i in range(5_000):
        known = known.changed([(b"p1:s%d:%d" % (len(str(i)), i), -1)])
    assert len(known) == 20_000 and known.weights() == base


# Their bytes


@given(st.lists(st.lists(st.sampled_from(ROLES), min_size=1, max_size=4).map(tuple), max_size=20))
def test_paths_come_back_from_their_bytes(paths):
    names = [canonical_path(path) for path in paths]
    assert repr(list(parse_paths(names))) == repr(paths)
    counts = {name: place + 1 for place, name in enumerate(names)}
    assert unpack(pack(counts)) == counts


@pytest.mark.parametrize(
    "body",
    [
        b"p1:s3:dog",  # no count
        b"p1:s3:dogi1:0",
        b"p1:s3:dogi2:-1",
        b"p1:s3:dogi2:01",
        b"p1:s3:dogs1:1",
        b"p1:s3:dogi17:99999999999999999",
        b"p01:s3:dogi1:1",
        b"p0:i1:1",
        b"q1:s3:dogi1:1",
        b"p2:s3:dogi1:1",  # a role is missing
        b"p1:s3:doi1:1",
        b"p1:s99:dogi1:1",
        b"p1:s-3:dogi1:1",
        b"p1:t1:xi1:1",
        b"p1:z0:i1:1",
        b"p1:s1:\xffi1:1",
        b"p1:s3:dogi1:1" * 2,
        b"p1:s3:dogi1:1p",
        b"p99999999999999999999:s3:dogi1:1",
    ],
)
def test_bytes_that_are_no_paths_are_refused(body, tmp_path):
    with pytest.raises(BadValue):
        unpack(zlib.compress(body))
    with pytest.raises(tensorfile.BadFile):
        Memory.load(with_paths(tmp_path / "file", zlib.compress(body)))


@pytest.mark.parametrize("packed", [b"", b"x", zlib.compress(b"")[:-1], zlib.compress(b"") + b"x"])
def test_what_is_not_packed_is_refused(packed, tmp_path):
    with pytest.raises(tensorfile.BadFile, match=r"cannot be decompressed|are truncated"):
        Memory.load(with_paths(tmp_path / "file", packed))


GOOD = b"p2:s3:dogi1:7i1:2p1:(0:i2:10p1:s1:xi1:1"


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=300)
def test_other_bytes_are_other_paths_or_refused(at, new, cut):
    body = GOOD[:at] + new + GOOD[at + cut :]
    try:
        with tensorfile.parsing():
            counts = unpack(zlib.compress(body))
    except (tensorfile.NotWhole, UserError):  # which is reported as a corrupt file
        return
    assert b"".join(name + canonical(count) for name, count in counts.items()) == body
    assert [canonical_path(path) for path in parse_paths(counts)] == list(counts)


def test_a_bomb_is_refused_and_what_we_write_is_none(tmp_path):
    bomb = zlib.compress(b"\0" * (FREE_BYTES + 4_000_000), 9)
    with pytest.raises(tensorfile.BadFile, match="decompress to more"):
        Memory.load(with_paths(tmp_path / "file", bomb))
    long = {canonical_path(("x" * 400_000, i)): 1 for i in range(60)}  # which would shrink to a hundredth and less
    packed = pack(long)
    assert sum(map(len, long)) > FREE_BYTES + MAX_GROWTH * len(zlib.compress(b"".join(long)))
    assert unpack(packed) == long


def with_paths(file, packed):
    """A memory's file, whole and with a true checksum, that holds these bytes for paths."""
    keeping().save(file)
    metadata, tensors = tensorfile.read_tensors(file, "memory file", lambda _: None)
    tensors["paths"] = torch.tensor(list(packed), dtype=torch.uint8)
    metadata["checksum"] = tensorfile.checksum(tensors, metadata)
    tensorfile.replace_tensors(file, tensors, metadata)
    return file


# Memories


def test_a_memory_knows_its_paths():
    memory = keeping()
    assert len(memory) == 3 and list(memory) == [("dog", "says"), ("dog", "is"), ("cat", "says")]
    assert ("dog", "is") in memory and ("dog", "has") not in memory and "dog" not in memory
    assert memory.paths("dog") == [("dog", "says"), ("dog", "is")] and memory.paths() == list(memory)
    assert memory.paths(("dog",)) == memory.paths("dog") and memory.paths(("dog", "is")) == [("dog", "is")]
    assert memory.paths("do") == memory.paths("dog", "says", "x") == []
    assert memory["cat", "says"] == "meow" and memory["dog", "says"] == "woof"
    assert sorted(memory["dog", "is"]) == ["animal", "pet"]
    with pytest.raises(KeyError, match="No value is stored under"):
        memory["dog", "has"]
    memory.store({"alone": {}})
    assert memory["alone"] == {} and "alone" in memory


def test_prefixes_are_whole_roles():
    memory = keeping([((1, "a"), "x"), ((11, "a"), "x"), (("1", "a"), "x"), ((True, "a"), "x"), (((), "a"), "x")])
    assert memory.paths(1) == [(1, "a")] and memory.paths("1") == [("1", "a")] and memory.paths(()) == [((), "a")]


def test_a_path_is_gone_with_its_last_pair():
    memory = keeping()
    memory.forget([(("dog", "is"), "pet")])
    assert ("dog", "is") in memory and memory["dog", "is"] == "animal"
    memory.forget([(("dog", "is"), "animal"), (("cat", "says"), "moo")])
    assert ("dog", "is") not in memory and ("cat", "says") in memory and len(memory) == 2
    memory.forget([(("cat", "says"), "moo")], force=True)  # a stranger takes no path away
    assert ("cat", "says") in memory
    memory.store(PAIRS[1:2])
    assert list(memory) == [("dog", "says"), ("cat", "says"), ("dog", "is")]


@pytest.mark.parametrize("ask", [len, list, lambda m: ("a",) in m, lambda m: m["a"], lambda m: m.paths("a")])
def test_a_memory_that_keeps_none_says_so(ask):
    memory = Memory(OSC(20))
    memory.store({"a": "x"})
    with pytest.raises(ValueError, match=r"keeps no paths.*keep_paths=True"):
        ask(memory)
    for question in (memory.decode, memory.rebuild, memory.decode_pairs, lambda: memory.where("x"), memory.grow):
        with pytest.raises(ValueError, match="keeps no paths"):
            question()
    assert not memory.keeps_paths


@pytest.mark.parametrize("kept", [False, True])
def test_an_empty_memory_is_true(kept):
    assert Memory(OSC(20), keep_paths=kept)
    assert bool(Memory(OSC(20), keep_paths=kept)) is True


def test_every_way_to_make_a_memory_may_keep_paths(tmp_path):
    made = [
        Memory.for_size(20, 10, scheme="TPR", keep_paths=True),
        Memory.for_pairs(PAIRS, scheme="TPR", keep_paths=True),
        Memory.like(Memory(OSC(20)), keep_paths=True),
        Memory.like(keeping()),
        keeping().to(dtype=torch.float64),
        copy.copy(keeping()),
        copy.deepcopy(keeping()),
        pickle.loads(pickle.dumps(keeping())),
    ]
    for memory in made:
        assert memory.keeps_paths
        memory.store({"new": "x"})
        assert ("new",) in memory
    for memory in (
        Memory.for_size(20, 10, scheme="TPR"),
        Memory.like(keeping(), keep_paths=False),
        keeping().without_paths(),
    ):
        assert not memory.keeps_paths


def test_states_that_others_hold_stay_whole():
    memory = keeping()
    before, old = copy.copy(memory), list(memory)
    memory.store({"new": "x"})
    before.store({"other": "y"})
    assert list(memory) == [*old, ("new",)] and list(before) == [*old, ("other",)]


def test_an_error_leaves_the_paths_as_they_were():
    memory = keeping()
    with pytest.raises(TypeError):
        memory.store([(("new",), "x"), (("bad",), object())])
    assert ("new",) not in memory and len(memory) == 3


def test_threads_that_store_keep_all_paths_and_readers_see_whole_states():
    memory, done = Memory(OSC(24, 3), keep_paths=True), threading.Event()
    memory.store([(("start",), "x")])
    failed = []

    def write(thread):
        for i in range(60):
            memory.store([((thread, i), "x")])

    def read():
        while not done.is_set():
            state = memory._reader
            if len(list(state.path_counts)) != len(state.path_counts) or state.path_counts.pairs != state.pairs:
                failed.append(state)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=write, args=(f"thread {i}",)) for i in range(3)]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        reader.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and len(memory) == 181 and set(memory.paths("thread 1")) == {("thread 1", i) for i in range(60)}


# Files


def test_paths_are_kept_in_files_and_nowhere_else(tmp_path):
    memory = keeping([((role, "x"), "value") for role in ROLES])
    memory.save(tmp_path / "with")
    memory.without_paths().save(tmp_path / "without")
    again = Memory.load(tmp_path / "with")
    assert repr(list(again)) == repr(list(memory)) and again.keeps_paths
    assert not Memory.load(tmp_path / "without").keeps_paths
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "with").read_bytes()
    with safe_open(tmp_path / "with", "pt") as opened:
        assert sorted(opened.keys()) == ["counts", "memory", "paths", "vocabulary"]
        assert unpack(bytes(opened.get_tensor("paths").tolist())) == dict(memory._reader.path_counts.weights())
    with safe_open(tmp_path / "without", "pt") as opened:
        assert sorted(opened.keys()) == ["counts", "memory", "vocabulary"]


def test_same_paths_same_bytes_however_they_came(tmp_path):
    one, other = keeping(), Memory(OSC(40, 3), keep_paths=True)
    for pair in PAIRS:
        other.store([pair])
    other.store({"gone": "woof"})
    other.forget({"gone": "woof"})
    assert pack(one._reader.path_counts.weights()) == pack(other._reader.path_counts.weights())


def test_an_empty_memory_keeps_paths_in_its_file(tmp_path):
    Memory(OSC(20), keep_paths=True).save(tmp_path / "file")
    again = Memory.load(tmp_path / "file")
    assert again.keeps_paths and len(again) == 0 and list(again) == []


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_changed_byte_among_the_paths_is_told(at, tmp_path):
    memory = keeping([((f"head {i}", "next"), "value") for i in range(40)])
    memory.save(tmp_path / "file")
    data = bytearray((tmp_path / "file").read_bytes())
    packed = pack(memory._reader.path_counts.weights())
    place = data.index(packed) + at % len(packed)
    data[place] ^= 0x10
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(tensorfile.BadFile):
        Memory.load(tmp_path / "file")


# Merging


def test_sums_know_the_paths_of_both():
    one, other = keeping(), keeping([(("dog", "is"), "pet"), (("cow", "says"), "moo")])
    both = one + other
    assert list(both) == [*one, ("cow", "says")] and both._reader.path_counts.pairs == 6
    assert list(one + Memory(OSC(40, 3))) == list(one) == list(Memory(OSC(40, 3)) + one)
    with pytest.raises(ValueError, match="without_paths"):
        one + other.without_paths()
    assert not (one.without_paths() + other.without_paths()).keeps_paths


VALUES = [f"value {i}" for i in range(6)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["store", "store", "forget", "merge", "load", "copy"]),
        st.lists(st.tuples(st.integers(0, 7), st.sampled_from(VALUES)), min_size=1, max_size=4, unique=True),
    ),
    max_size=8,
)


@given(STEPS)
@settings(max_examples=15)
def test_a_memory_keeps_the_paths_of_a_plain_dict(tmp_path_factory, steps):
    memory, held, file = Memory(OSC(40, 3), keep_paths=True), {}, tmp_path_factory.mktemp("kept") / "file"
    for verb, given_pairs in steps:
        pairs = [((number, "role"), value) for number, value in given_pairs]
        if verb == "store":
            memory.store(pairs)
        elif verb == "merge":
            other = Memory.like(memory)
            other.store(pairs)
            memory = memory + other
        elif verb == "forget":
            pairs = [pair for pair in pairs if pair[1] in held.get(pair[0], [])]
            if pairs:
                assert not memory.forget(pairs)
        else:
            if verb == "load":
                memory.save(file)
                memory = Memory.load(file)
            memory, pairs = copy.copy(memory), []
        for path, value in pairs:
            if verb == "forget":
                held[path].remove(value)
            else:
                held.setdefault(path, []).append(value)
        held = {path: values for path, values in held.items() if values}
        assert list(memory) == list(held) and len(memory) == len(held)
    for path, values in held.items():
        assert path in memory
        answer = memory[path]
        assert (answer == values[0]) if len(values) == 1 else (sorted(answer) == sorted(set(values)))


# Asking for everything, and the other way round


def test_everything_is_asked_for_together():
    facts = [((f"sentence {i}", "subject"), f"noun {i * 7 % 300}") for i in range(400)]
    memory = keeping([*facts, (("both",), "noun 1"), (("both",), "noun 2")], OSC(60, 2, compact=True))
    answers = memory.decode()
    assert answers.converged and len(answers.paths) == len(answers) == 402
    assert {(path, answer.value) for path, answer in zip(answers.paths, answers, strict=True)} == {
        *facts,
        (("both",), "noun 1"),
        (("both",), "noun 2"),
    }


def test_a_document_comes_back_whole():
    document = {"a": {"b": "x", "c": ["y", "z"]}, "numbered": {0: "p", 1: "q"}, "empty": []}
    memory = Memory(OSC(40, 3), keep_paths=True)
    memory.store(document)
    assert memory.rebuild() == document


@pytest.mark.parametrize("scheme", [OSC(50, 3), make("HLB", d=4096), make("FHRR", d=4096)])
def test_where_a_value_is(scheme):
    pairs = [((f"head {i}", "next"), f"value {i % 9}") for i in range(60)] + [(("head 1", "next"), "value 5")]
    memory = keeping(pairs, scheme)
    found = memory.where("value 5")
    expected = {path for path, value in pairs if value == "value 5"}
    assert {path for path, _ in found} == expected and ("head 1", "next") in expected
    assert all(answer.value == "value 5" and answer.probability > 0.5 for _, answer in found)
    chances = [answer.probability for _, answer in found]
    assert chances == sorted(chances, reverse=True)
    some = [("head 5", "next"), ("head 6", "next"), ("nowhere",), ("head 5", "next")]
    assert [path for path, _ in memory.without_paths().where("value 5", paths=some)] == [("head 5", "next")]
    assert memory.where("never stored") == [] and len(memory.where("value 5", threshold=0.999)) <= len(found)


def test_where_is_recognition_asked_of_many_in_chunks():
    """The oracle asks for one path after the other, with the same prior probability."""
    pairs = [((f"head {i}", "next"), f"value {i % 40}") for i in range(3000)]
    memory = keeping(pairs, OSC(40, 3))
    found = dict(memory.where("value 7", prior_empty=0.9, threshold=0.01))
    for path in list(memory)[:300]:
        answer = memory.recognize(*path, value="value 7", prior_empty=0.9)
        assert (answer.probability >= 0.01) == (path in found)
        if path in found:
            assert found[path].probability == pytest.approx(answer.probability, abs=1e-4)


def test_probabilities_of_places_mean_what_they_say():
    """So full that answers are in doubt: among those found, as many are right as their probabilities add up to."""
    pairs = [((f"head {i}", "next"), f"value {i % 30}") for i in range(3000)]
    memory, truth = keeping(pairs, OSC(28, 3)), dict(pairs)
    right = expected = asked = 0.0
    for value in [f"value {i}" for i in range(0, 30, 3)]:
        for path, answer in memory.where(value, threshold=0.02):
            asked, right, expected = asked + 1, right + (truth[path] == value), expected + answer.probability
    assert right < 0.98 * asked and abs(right - expected) < 0.04 * asked


def test_where_needs_probabilities():
    with pytest.raises(ValueError, match="not a plain sum"):
        keeping(scheme=make("MAP-B", d=1024)).where("woof")
    with pytest.raises(ValueError, match="threshold"):
        keeping().where("woof", threshold=1.5)


def test_settling_memories_keep_paths_too():
    memory = keeping(scheme=make("MAP-B", d=4096))
    assert memory["dog", "says"] == "woof" and sorted(memory["dog", "is"]) == ["animal", "pet"]


def test_a_path_stays_for_as_long_as_something_of_its_pairs_does():
    memory = Memory(OSC(60, 3), keep_paths=True)
    memory.store({"a": "x"}, weight=2)
    memory.forget({"a": "x"})
    assert list(memory) == [("a",)] and memory["a"] == "x"
    memory.store({"b": "y"})
    memory.forget({"b": "y"}, weight=0.4)
    assert ("b",) in memory and (memory + Memory.like(memory)).recall("b").value == "y"
    memory.store({"c": "z"}, weight=2)
    memory.store({"c": "z"})
    memory.forget({"c": "z"}, weight=3)
    assert ("c",) not in memory and len(memory) == 2


def test_weights_of_paths_survive_a_file(tmp_path):
    memory = Memory(OSC(60, 3), keep_paths=True)
    memory.store({"a": "x"}, weight=0.5)
    memory.store({"b": "y"}, weight=3)
    memory.save(tmp_path / "file")
    loaded = Memory.load(tmp_path / "file")
    assert loaded._reader.path_counts.weights() == {b"p1:s1:a": 0.5, b"p1:s1:b": 3}
    assert not loaded.forget({"a": "x"}, weight=0.5) and list(loaded) == [("b",)]


@pytest.mark.parametrize("scheme", [OSC(20, 2), make("MAP-B", d=256)])
def test_what_lies_under_paths_that_are_not_kept_is_a_stranger_for_certain(scheme):
    memory = Memory(scheme, keep_paths=True)
    memory.store({f"k{i}": f"v{i % 30}" for i in range(400)})  # far too full to tell by asking
    tensor, never = memory.tensor.clone(), {f"never{i}": f"v{i % 30}" for i in range(50)}
    assert len(memory.forget(never)) == 50 and memory.pairs == len(memory) == 400
    assert torch.equal(memory.tensor, tensor)
