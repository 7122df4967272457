"""Memories that get too full: told before and after, whatever fills them; what they were planned for is kept."""

import warnings

import pytest
import torch

from carving import OSC, Memory, make
from carving.errors import Overfull
from carving.planner.requirements import Target

pytestmark = pytest.mark.xdist_group("plans")  # in one process, so that what plans draw is drawn once

FEW = [((f"head {i}", "next"), f"value {i}") for i in range(6)]
MANY = [((f"other {i}", "next"), f"value {i % 50}") for i in range(2000)]


def told(run):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in seen]


def test_what_was_planned_is_kept_in_memory_and_file(tmp_path):
    planned = Memory.for_size(100, 50, 0.95)
    assert planned.target == Target(0.95, 100, 50) and Memory(OSC(20)).target is None
    assert Memory.for_pairs(FEW, 0.99, headroom=2).target == Target(1 - (1 - 0.99) * 0.1, 12, 12)
    planned.store(FEW)
    planned.save(tmp_path / "planned")
    for same in (Memory.load(tmp_path / "planned"), planned.to(dtype=torch.float64), Memory.like(planned)):
        assert same.target == planned.target
    assert (planned + Memory.like(planned)).target == planned.target
    given = Memory(planned.scheme)
    given.store(FEW)
    given.save(tmp_path / "given")
    assert Memory.load(tmp_path / "given").target is None


def test_within_the_plan_nothing_is_said_or_predicted(monkeypatch):
    memory = Memory.for_pairs(MANY)
    monkeypatch.setattr(
        "carving.memory.capacity.predicted_accuracy", lambda *_, **__: pytest.fail("predicted_accuracy")
    )
    assert told(lambda: memory.store(MANY)) == []


def test_overfilling_is_told_once_a_call_with_before_after_plan_and_way_out():
    memory = Memory.for_pairs(FEW)
    memory.store(FEW)
    before = memory.predicted_accuracy()
    (words,) = told(lambda: memory.store(MANY))
    assert "at 2,006 pairs" in words and f"was {before:.2%}" in words and "target 99.9%" in words
    assert "Memory.for_pairs" in words and memory.pairs == 2006 and memory.is_overfull


def test_overfilling_is_told_where_all_pairs_have_one_value():
    memory = Memory.for_pairs([(path, "yes") for path, _ in FEW], 0.999)
    assert told(lambda: memory.store([(path, "yes") for path, _ in FEW])) == []
    assert memory.predicted_accuracy() > 0.99 and not memory.is_overfull
    (words,) = told(lambda: memory.store([(path, "yes") for path, _ in MANY]))
    assert "over capacity" in words and "target 99.99%" in words
    assert memory.predicted_accuracy() < 0.9 and memory.is_overfull


def test_an_empty_memory_that_was_planned_predicts_for_the_values_of_its_plan():
    memory = Memory.for_size(100, 100, scheme="OSC", p=2)
    assert (
        memory.predicted_accuracy() is None
        and memory.predicted_accuracy(100) > 0.98
        and memory.predicted_accuracy(5000) < 0.5
    )
    assert Memory(memory.scheme).predicted_accuracy(100) is None


def test_a_warning_that_is_made_an_error_changes_nothing():
    memory = Memory.for_pairs(FEW)
    memory.store(FEW)
    tensor = memory.tensor
    with warnings.catch_warnings():
        warnings.simplefilter("error", Overfull)
        with pytest.raises(Overfull):
            memory.store(MANY)
    assert torch.equal(memory.tensor, tensor) and memory.pairs == 6


def test_the_warning_points_at_the_call():
    memory, other = Memory(OSC(12, 2)), Memory(OSC(12, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.store([((f"third {i}", "next"), value) for i, (_, value) in enumerate(MANY)])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        memory.store(MANY)
        memory + other
    assert [each.filename for each in seen] == [__file__] * 2


@pytest.mark.parametrize("scheme", [OSC(12, 2), OSC(20, 2, compact=True), make("HLB", d=256)])
def test_without_a_plan_less_than_nine_tenths_is_told(scheme):
    memory = Memory(scheme)
    assert told(lambda: memory.store(FEW)) == [] and not memory.is_overfull
    (words,) = told(lambda: memory.store(MANY))
    assert "90% is expected" in words and memory.is_overfull


def test_merging_is_told_too():
    one = Memory.for_pairs(MANY)
    two = Memory.like(one)
    one.store(MANY)
    two.store([((f"new {path[0]}", "next"), value) for path, value in MANY])
    (words,) = told(lambda: one + two)
    assert "at 4,000 pairs" in words and f"was {one.predicted_accuracy():.2%}" in words
    assert told(lambda: one + Memory.like(one)) == []


def test_it_is_told_again_only_with_a_tenth_more_pairs():
    memory = Memory(OSC(12, 2))
    memory.store(MANY[:200])
    again = [told(lambda pair=pair: memory.store([pair])) for pair in MANY[200:400]]
    assert 1 <= sum(map(len, again)) <= 8


def test_a_plan_for_asking_all_together_is_judged_so():
    memory = Memory.for_size(400, 50, scheme="OSC", p=2, compact=True, joint=True)
    assert memory.target.joint and told(lambda: memory.store(MANY[:400])) == []
    assert memory.predicted_accuracy() > 0.99
    assert len(told(lambda: memory.store(MANY[400:]))) == 1


def test_a_pair_more_than_planned_is_let_pass():
    memory = Memory.for_pairs(MANY)
    memory.store(MANY)
    assert told(lambda: memory.store([(("one", "more"), "value 1")])) == [] and not memory.is_overfull


@pytest.mark.parametrize(
    "bad", [dict(accuracy=0), dict(accuracy=1.5), dict(accuracy="0.9"), dict(accuracy=0.9, pairs=-1), dict(joint=1)]
)
def test_a_goal_is_a_share_and_counts(bad):
    with pytest.raises((ValueError, TypeError)):
        Target(**dict(accuracy=0.9) | bad)


def test_repeats_fill_a_memory_no_more_and_small_weights_no_less(recwarn):
    pairs = [((f"k{i}",), f"v{i % 50}") for i in range(200)]
    memory = Memory.for_pairs(pairs * 3)
    memory.store(pairs * 3)
    assert not memory.is_overfull and not [w for w in recwarn if w.category is Overfull]
    small = Memory.for_size(100, 50)
    with pytest.warns(Overfull):
        small.store([((f"k{i}",), f"v{i % 50}") for i in range(5000)], weight=0.01)
    assert small.is_overfull and small.predicted_accuracy() < 0.5


@pytest.mark.parametrize("scheme", [None, OSC(40, 2, compact=True), make("HLB", d=1600)], ids=["planned", "OSC", "HLB"])
def test_a_pair_stored_again_and_again_in_calls_of_its_own_fills_a_memory(scheme):
    """Of 30 times the same pair there is as much noise as of 900 others."""
    pairs = [((f"k{i}",), f"v{i % 50}") for i in range(100)]
    memory = Memory.for_pairs(pairs) if scheme is None else Memory(scheme)
    assert told(lambda: memory.store(pairs)) == []
    words = told(lambda: [memory.store(pairs[:1]) for _ in range(29)])
    assert words and "over capacity" in words[0] and memory.is_overfull
    assert memory._reader.load == 99 + 30**2 and memory.pairs == 129
    answers = memory.recall_many(path for path, _ in pairs)
    found = sum(answer.value == value for answer, (_, value) in zip(answers, pairs, strict=True))
    assert found < 50


def test_all_pairs_stored_again_one_by_one_fill_a_memory_no_more():
    """In between, those that were stored once meet the noise of those that were stored twice."""
    pairs = [((f"k{i}",), f"v{i % 50}") for i in range(100)]
    memory = Memory(OSC(200, 2, compact=True))
    memory.store(pairs)
    for pair in pairs[:50]:
        memory.store([pair])
    assert memory._reader.load == 50 * 2**2 + 50
    for pair in pairs[50:]:
        memory.store([pair])
    assert memory._reader.load == 100


def test_what_is_missed_of_pairs_stored_again_in_a_nearly_full_memory_is_read_from_its_energy():
    """Noise hides most of what a pair adds when it comes again; predictions stay within a tenth all the same."""
    pairs = [((f"k{i}",), f"v{i * 7 % 200}") for i in range(200)]
    memory = Memory(OSC(80, 2, compact=True))
    memory.store(pairs)
    for half in (pairs[:100], pairs[100:]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Overfull)  # in between it is too full, indeed
            for pair in half:
                memory.store([pair])
        assert abs(memory.predicted_accuracy() - memory.verify(pairs).accuracy) < 0.1
