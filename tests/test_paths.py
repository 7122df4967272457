"""From labels to the tensor: checked, made canonical and drawn once, and the same as one pair after the other."""

import copy
import sys
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from carving import OSC, TPR, Memory, make
from carving.schemes import CliffordOSC, base
from carving.symbols import codec, paths
from carving.symbols.paths import Paths

# Labels that Python calls equal, that look alike, or that are not of one kind
LABELS = ["1", 1, 1.0, True, b"1", None, "", "True", 0, 0.0, False, -1, 2**70, "ü", "\ud800"]
ROLES = [*LABELS, ()]
VALUES = [*LABELS, {}, []]
SCHEMES = {
    "OSC": OSC(20, 2),
    "OSC compact": OSC(20, 2, compact=True),
    "OSC gaussian": OSC(20, 2, basis="gaussian"),
    "TPR": TPR(16, depth=2),
    "TPR of whole paths": TPR(16, whole_path=True),
    "HRR": make("HRR", d=64),
    "MAP-I": make("MAP-I", d=64),
    "VTB": make("VTB", d=64),
    "CliffordOSC": CliffordOSC(12, 2),
}


@pytest.fixture(params=SCHEMES)
def binding(request):
    return SCHEMES[request.param]


@given(st.lists(st.lists(st.sampled_from(ROLES), min_size=1, max_size=4).map(tuple), min_size=1))
def test_the_bytes_of_many_paths_are_those_of_each(given_paths):
    found = Paths.of(given_paths)
    assert list(found) == given_paths and len(found) == len(given_paths)
    assert found.names == [codec.canonical_path(path) for path in given_paths]
    levels = [[codec.canonical_path((level, role)) for level, role in enumerate(path)] for path in given_paths]
    assert list(found.leveled()) == levels
    part = found[1::2]
    assert list(part) == given_paths[1::2] and part.names == found.names[1::2]
    distinct, which = found.distinct()
    assert [distinct.names[place] for place in which] == found.names
    kept = [place % 3 for place in range(len(found))]
    assert list(found.only(kept)) == [path for path, flag in zip(given_paths, kept, strict=True) if flag]
    assert found.only(kept).names == [name for name, flag in zip(found.names, kept, strict=True) if flag]
    assert distinct.names == list(dict.fromkeys(found.names)) and len(distinct) == len(distinct.names)
    assert [codec.canonical_path(path) for path in distinct] == distinct.names
    assert Paths.of(found) is found


@given(st.lists(st.sampled_from(VALUES)))
def test_the_bytes_of_many_labels_are_those_of_each(labels):
    assert codec.canonical_values(labels) == [codec.canonical(label) for label in labels]


def test_a_string_of_another_kind_is_a_string():
    class Word(str):
        pass

    assert codec.canonical_values([Word("a"), "a"]) == [b"s1:a"] * 2


def test_every_path_and_value_is_made_canonical_once(binding, monkeypatch):
    memory, values, named = Memory(binding), Counter(), Counter()
    canonical_values, canonical_path = codec.canonical_values, codec.canonical_path

    def counted(labels):
        values.update(labels)
        return canonical_values(labels)

    def counted_path(path):
        named[path] += 1
        return canonical_path(path)

    for module in [each for name, each in sys.modules.items() if name.startswith("carving.")]:
        if hasattr(module, "canonical_values"):
            monkeypatch.setattr(module, "canonical_values", counted)
    monkeypatch.setattr(paths, "canonical_path", counted_path)
    pairs = [((f"sentence {i}", 7_000), f"noun {i}") for i in range(12)]
    memory.store(pairs)
    assert values == Counter(value for _, value in pairs) and named == Counter(path for path, _ in pairs)
    memory.recall_many([path for path, _ in pairs])
    assert max(named.values()) == 2
    memory.forget(pairs)
    assert max(named.values()) == 3 and max(values.values()) == 2


def test_an_empty_tuple_is_no_value():
    with pytest.raises(TypeError, match="an empty tuple is a role"):
        codec.canonical_values(["a", ()])


def test_a_batch_gives_the_contexts_and_fillers_of_each(binding):
    """Repeated ones are copied from one that is drawn: the same as drawing each by itself, to the last bit."""
    some = [(a, b) for a in ROLES[:5] for b in ROLES[-4:]]
    for repeated in (some, some * 3, some[:1] * 7, some + some[::-1]):
        whole = binding.contexts(repeated)
        alone = [binding.contexts([path]) for path in repeated]
        for key, tensor in whole.tensors.items():
            assert_close(tensor, torch.cat([each.tensors[key] for each in alone]), rtol=1e-6, atol=1e-6)
    for repeated in (VALUES, VALUES * 3, VALUES[:1] * 5):
        alone = torch.cat([binding.fillers([label]) for label in repeated])
        assert_close(binding.fillers(repeated), alone, rtol=1e-6, atol=1e-6)


def test_labels_that_look_alike_are_stored_apart(binding):
    pairs = [((role, "x"), value) for role in ROLES for value in VALUES[:4]] * 2
    memory = Memory(binding)
    assert memory.store(pairs) == len(pairs)
    expected = sum(binding.trace([path], [value]) for path, value in pairs)
    scale = float(expected.abs().max())
    assert_close(memory.tensor, expected, rtol=1e-4, atol=1e-5 * scale)
    assert [type(value) for value in memory.vocabulary] == [type(value) for value in VALUES[:4]]
    assert memory.counts.tolist() == [2.0 * len(ROLES)] * 4


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ROLES), st.sampled_from(VALUES)), min_size=1, max_size=12), st.integers(1, 5))
def test_batches_store_what_single_pairs_do(labels, size):
    pairs = [((role, "x"), value) for role, value in labels]
    together, apart = Memory(OSC(12, 2)), Memory(OSC(12, 2))
    for start in range(0, len(pairs), size):
        together.store(pairs[start : start + size], weight=0.5)
        if start == 0:
            together.recall("asked", "in between")  # so that some fillers are held, and some are not
    for pair in pairs:
        apart.store([pair], weight=0.5)
    assert_close(together.tensor, apart.tensor, atol=1e-5, rtol=1e-5)
    assert list(map(codec.canonical, together.vocabulary)) == list(map(codec.canonical, apart.vocabulary))
    assert together.counts.tolist() == apart.counts.tolist()
    assert together.forget(pairs, weight=0.5) == apart.forget(pairs, weight=0.5)


def test_repeated_paths_and_labels_are_drawn_once(monkeypatch):
    drawn = []
    for name in ("_contexts", "_fillers"):
        plain = getattr(OSC, name)
        monkeypatch.setattr(OSC, name, lambda own, given, plain=plain: (drawn.append(len(given)), plain(own, given))[1])
    Memory(OSC(20, 2)).store([((f"sentence {i % 5}",), f"noun {i % 7}") for i in range(70)])
    assert sorted(drawn) == [5, 7]
    drawn.clear()
    OSC(20, 2).trace([(i % 5,) for i in range(70)], [i % 7 for i in range(70)])
    assert sorted(drawn) == [5, 7]
    drawn.clear()
    Memory(OSC(20, 2)).store([((i,), i) for i in range(20)] + [((0,), 0)])
    assert drawn == [21, 21]  # where hardly any comes again, copying all of them would take longer


def test_fillers_that_are_held_are_not_drawn_again(monkeypatch):
    memory = Memory(OSC(20, 2), ["a", "b"], torch.ones(2, 2, 20))
    memory.store([(("x",), "c")])
    memory.recall("x")
    drawn = []
    plain = base.draw_fillers
    monkeypatch.setattr(
        "carving.memory.codebook.draw_fillers", lambda s, names: (drawn.append(names), plain(s, names))[1]
    )
    labels = ["d", "a", "c", "d", "b"]
    found = memory._reader.codebook.of(labels)
    assert drawn == [[b"s1:d", b"s1:d"]]
    expected = OSC(20, 2).fillers(labels)
    expected[[1, 4]] = 1.0  # trained
    assert_close(found, expected)


# What fails


@pytest.mark.parametrize("bad", [("a", object()), ("a", ["b"]), ("a", {"b": 1}), (1 << 10_001,)])
def test_a_path_with_a_role_that_is_no_label_is_told(bad, binding):
    for make_of in (Paths.of, binding.contexts, lambda given: binding.trace(given, ["x", "y"])):
        with pytest.raises((TypeError, ValueError), match="in the path"):
            make_of([("fine", 1), bad])


def test_a_bad_label_leaves_a_memory_to_which_many_are_added_as_it_was():
    small = OSC(20, 2, workspace=2**14)  # so that pairs go in chunk by chunk
    memory = small.trace([("a",)], ["x"])
    before = memory.clone()
    many = [(i,) for i in range(100)]
    for contexts, labels in ((many, [*range(99), object()]), ([*many[:-1], (object(),)], range(100))):
        with pytest.raises(TypeError, match="a label must be"):
            small.add(memory, contexts, labels)
        assert torch.equal(memory, before)


def test_an_error_in_a_late_batch_changes_nothing(binding, monkeypatch):
    monkeypatch.setattr("carving.memory.pairs.BATCH", 4)
    memory = Memory(binding)
    memory.store([(("a", "b"), "x")])
    before, counts = memory.tensor, memory.counts
    pairs = [((i, "b"), i) for i in range(30)]
    for bad in ((("a", object()), "x"), (("a", "b"), object()), ("a", "x"), ((), "x"), ("a",)):
        for verb in (memory.store, memory.forget):
            with pytest.raises((TypeError, ValueError)):
                verb([*pairs, bad, *pairs])
    monkeypatch.setattr("carving.memory.memory.check_weight", float)
    with pytest.raises(ValueError, match="memory tensor must be finite"):
        memory.store(pairs, weight=1e300)
    assert torch.equal(memory.tensor, before)
    assert torch.equal(memory.counts, counts) and list(memory.vocabulary) == ["x"]


def test_who_holds_on_to_the_tensor_keeps_what_was_there():
    memory = Memory(OSC(20, 2))
    memory.store({"a": "x"})
    held, before = memory.tensor, memory.tensor.clone()
    memory.store({"b": "y"})
    memory.forget({"a": "x"})
    assert torch.equal(held, before) and not torch.equal(memory.tensor, held)


def test_large_numbers_are_finite_though_their_norm_is_not():
    memory = Memory(OSC(20, 2))
    memory.tensor = torch.full((20, 20), 1e30)
    memory.store({"a": "x"})
    broken = memory.tensor
    assert torch.isfinite(broken).all()
    broken[3, 4] = -torch.inf
    with pytest.raises(ValueError, match="memory tensor must be finite"):
        memory.tensor = broken


def test_a_tensor_that_lies_in_memory_the_other_way_can_be_stored_to():
    memory, usual = Memory(OSC(20, 2)), Memory(OSC(20, 2))
    for each in (memory, usual):
        each.store({"a": "x"})
    memory.tensor = copy.deepcopy(memory.tensor).mT.contiguous().mT
    for each in (memory, usual):
        each.store({"b": "y"})
    assert_close(memory.tensor, usual.tensor)
