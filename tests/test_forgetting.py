"""Forgetting: what a memory holds goes, what it does not hold is left alone, and a weight that does not fit is told."""

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, make

FACTS = [(("place", i), f"word {i % 7}") for i in range(20)]


@pytest.fixture(params=[OSC(40, 3), OSC(60, 3, compact=True), make("HLB", d=4096), make("TPR", d=64, whole_path=True)])
def memory(request):
    memory = Memory(request.param)
    memory.store(FACTS)
    return memory


def test_what_was_never_stored_is_left_alone():
    memory = Memory(OSC(40, 3))
    memory.store({"a": "x"})
    assert memory.forget({"a": "x"}) == []
    tensor = memory.tensor
    assert memory.forget({"a": "x"}) == [(("a",), "x")]
    assert torch.equal(memory.tensor, tensor) and memory.pairs == 0
    memory.store({"a": "x"})
    assert memory.recall("a").value == "x" and memory.pairs == 1


def test_only_strangers_are_left(memory):
    not_found = [(("nowhere", i), "word 1") for i in range(3)] + [(("place", 0), "word 5"), (("place", 1), "new")]
    state = memory._reader
    assert memory.forget(not_found) == not_found and memory._reader is state
    assert memory.forget([*not_found, *FACTS[:5]]) == not_found
    assert memory.pairs == 15 and "new" not in memory.vocabulary
    expected = Memory(memory.scheme)
    expected.store(FACTS[5:])
    assert_close(memory.tensor, expected.tensor, rtol=0, atol=1e-4)


def test_force_takes_out_strangers_too(memory):
    not_found = [(("nowhere", i), "word 1") for i in range(3)]
    before, counts = memory.tensor.clone(), memory.counts.clone()
    assert memory.forget(not_found, force=True) == not_found
    taken = memory.scheme.trace([path for path, _ in not_found], [value for _, value in not_found])
    assert_close(memory.tensor, before - taken, rtol=0, atol=1e-4)
    assert torch.equal(memory.counts, counts)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_so_many_copies_go_as_are_there(memory, copies):
    pair = (("copies",), "word 3")
    memory.store([pair] * copies)
    assert memory.forget([pair] * (copies + 2)) == [pair] * 2
    assert not memory.recall("copies") and memory.pairs == 20
    assert memory.forget([pair]) == [pair]


@pytest.mark.parametrize("weight", [0.3, 0.5, 2.0, -1.0])
def test_what_was_stored_with_a_weight_is_forgotten_with_it(memory, weight):
    before = memory.tensor.clone()
    memory.store({"weighed": "word 1"}, weight=weight)
    assert memory.forget({"weighed": "word 1"}, weight=weight) == []
    assert_close(memory.tensor, before, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("held", "weight"), [(0.3, 1.0), (0.6, 1.0), (1.0, 3.0)])
def test_a_weight_that_is_more_than_what_is_there_is_told(held, weight):
    memory = Memory(OSC(40, 3))
    memory.store(FACTS)
    memory.store({"weighed": "word 1"}, weight=held)
    tensor = memory.tensor
    not_found = memory.forget({"weighed": "word 1", "never": "word 1"}, weight=weight)
    assert not_found == [(("weighed",), "word 1"), (("never",), "word 1")] and torch.equal(memory.tensor, tensor)
    ((path, value, strength),) = not_found.weaker
    assert (path, value) == (("weighed",), "word 1") and abs(strength - held) < 0.1


def test_of_what_is_held_more_strongly_the_rest_stays():
    memory = Memory(OSC(40, 3))
    memory.store({"a": "x"}, weight=3)
    assert memory.forget({"a": "x"}) == []
    assert memory.recall("a").score == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("weight", [0.3, 0.5])
def test_a_weight_that_is_less_than_what_is_there_is_told(weight):
    memory = Memory(OSC(60, 3, compact=True))
    memory.store([*FACTS, (("one",), "x"), (("same",), "x")])
    memory.store([(("same",), "y")], weight=weight)
    not_found = memory.forget([(("one",), "x"), (("same",), "y")], weight=weight)
    assert not not_found and [(rest.path, rest.value) for rest in not_found.stronger] == [(("one",), "x")]
    assert not_found.stronger[0].strength == pytest.approx(1 - weight, abs=0.1)


def test_of_several_copies_the_rest_is_told_when_the_last_is_gone():
    memory = Memory(OSC(40, 3))
    memory.store([*FACTS, *[(("three",), "x")] * 3])
    not_found = memory.forget([(("three",), "x")] * 2)
    assert not not_found and [round(rest.strength) for rest in not_found.stronger] == [1]
    assert memory.forget([(("three",), "x")]).stronger == []


def test_values_that_hide_each_other_are_all_forgotten():
    """Sixty values of one path in a core of 216 numbers: some are found only when others are gone."""
    memory = Memory(OSC(60, 3, k1=6))
    crowd = [(("set",), f"word {i}") for i in range(60)]
    memory.store(crowd)
    hidden = [answer for answer in memory.recognize_many(crowd) if answer.score < 0.75]
    assert hidden  # or there would be nothing to see here
    assert memory.forget(crowd) == [] and memory.pairs == 0
    assert float(memory.tensor.norm()) < 1e-3


def test_schemes_that_cannot_tell_take_out_everything():
    memory = Memory(make("MAP-B", d=512))
    memory.store({"a": "x", "b": "y"})
    assert memory.forget({"a": "x"}) == [] and memory.pairs == 1


def test_nothing_is_forgotten_of_an_empty_memory():
    memory = Memory(OSC(20, 2))
    assert memory.forget({"a": "x"}) == [(("a",), "x")] and memory.pairs == 0 == len(memory.vocabulary)


def test_a_pair_that_noise_of_five_deviations_weakens_is_forgotten_all_the_same():
    """One of 100,000 that were stored and forgotten stayed, taken for one that is held with half of its weight."""
    scheme, pair = OSC(24, 3), [(("passing",), 11)]
    kept = [(("kept", i), f"value {i}") for i in range(400)]
    bound = scheme.bind(scheme.fillers([value for _, value in kept]), [path for path, _ in kept])
    inner = (bound * scheme.trace([("passing",)], [11])).flatten(1).sum(1)
    order = inner.argsort(descending=True)  # of 100 neighbors in this order, the first whose noise is enough
    first = int((inner[order].unfold(0, 100, 1).sum(1) < -0.475).int().argmax())
    memory = Memory(scheme)
    memory.store([kept[i] for i in order[first : first + 100].tolist()])
    memory.store(pair)
    assert 0.5 < memory.recognize("passing", value=11).score < 0.55
    assert memory.forget(pair) == [] and memory.pairs == 100
