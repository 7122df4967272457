"""Memories that grow, and unlike ones that become one: decoded, and stored in another size."""

import warnings

import pytest
import torch

from carving import OSC, Memory, make
from carving.cli.merging import merged
from carving.errors import Overfull
from carving.memory.evaluate import check_whole, decode_pairs

pytestmark = pytest.mark.xdist_group("plans")  # in one process, so that what plans draw is drawn once

FACTS = [((f"head {i}", "next"), f"value {i % 50}") for i in range(120)]
SHARED = [((f"head {i}", "is"), f"value {(7 * i + 31 * j) % 60}") for i in range(60) for j in range(1 + i % 3)]


def of(pairs, scheme=None, **options):
    """A memory of these pairs that keeps its paths; HLB is planned for fastest."""
    planned = dict(scheme="HLB", keep_paths=True) | options
    memory = Memory(scheme, keep_paths=True) if scheme else Memory.for_pairs(pairs, **planned)
    memory.store(pairs)
    return memory


@pytest.mark.parametrize("pairs", [FACTS, SHARED, [*FACTS, *SHARED]])
def test_all_pairs_are_in_the_larger_memory(pairs):
    memory = of(pairs)
    bigger, found = memory.grow(pairs=4 * len(pairs))
    assert bigger.scheme.facts.memory_scalars > memory.scheme.facts.memory_scalars
    assert bigger.verify(pairs) and list(bigger) == list(memory) and bigger.pairs == len(pairs)
    assert (
        (found.requested, found.missing) == (len(pairs), 0)
        and found.confident_share > 0.99
        and sorted(found.pairs) == sorted(pairs)
    )
    assert bigger.target.pairs >= 4 * len(pairs) and bigger.target.accuracy == memory.target.accuracy


def test_without_a_number_there_is_room_for_as_many_again():
    memory = of(FACTS)
    bigger, _ = memory.grow()
    assert bigger.target.pairs == 240
    with warnings.catch_warnings():
        warnings.simplefilter("error", Overfull)
        bigger.store([(("more", i), f"value {i % 50}") for i in range(120)])
    assert not bigger.is_overfull


def test_a_memory_may_shrink_and_get_more_accurate():
    memory = of(FACTS, headroom=6)
    smaller, _ = memory.grow(pairs=120)
    assert smaller.scheme.facts.memory_scalars < memory.scheme.facts.memory_scalars and smaller.target.pairs == 120
    surer, _ = smaller.grow(pairs=120, accuracy=0.9999)
    assert surer.target.accuracy == pytest.approx(0.99999) and surer.verify(FACTS)
    assert surer.scheme.facts.memory_scalars > smaller.scheme.facts.memory_scalars


def test_what_is_too_full_for_single_questions_grows():
    memory = of(FACTS, OSC(25, 2, compact=True))
    assert memory.verify(FACTS).accuracy < 0.9
    bigger, found = memory.grow(scheme="HLB")
    assert found.converged and found.rounds > 1 and bigger.verify(FACTS).accuracy > 0.99


def test_what_cannot_be_decoded_is_refused():
    memory = of(FACTS, OSC(10, 2))
    with pytest.raises(ValueError, match=r"could be decoded .*force=True"):
        memory.grow()
    bigger, found = memory.grow(force=True, scheme="TPR")
    assert found.confident_share < 0.9 and bigger.pairs == len(found.pairs)


def test_pairs_that_were_stored_twice_stay_stored_twice():
    twice = [*SHARED, *SHARED[:20]]
    for joint in (True, False):
        found = of(twice, OSC(60, 3)).decode_pairs(joint=joint)
        assert sorted(found.pairs) == sorted(twice) and found.confident >= 0.97 * len(twice)
    bigger, _ = of(twice, OSC(60, 3)).grow(force=True, scheme="TPR")
    assert bigger.pairs == len(twice) and not bigger.forget(twice) and bigger.pairs == 0


def test_paths_may_come_from_elsewhere():
    memory = of(FACTS).without_paths()
    bigger, found = memory.grow(400, paths=[path for path, _ in FACTS])
    assert bigger.verify(FACTS) and not bigger.keeps_paths and found.requested == 120
    kept, _ = memory.grow(paths=[path for path, _ in FACTS], keep_paths=True)
    assert len(kept) == 120
    with pytest.raises(ValueError, match="would be lost"):
        memory.grow(paths=[path for path, _ in FACTS[:80]])


def test_weights_other_than_one_are_refused():
    memory = of(FACTS)
    memory.store({"weak": "value 1"}, weight=0.25)
    memory.store({"strong": "value 2"}, weight=3)
    with pytest.raises(ValueError, match="weights other than 1"):
        memory.grow()


def test_growing_keeps_kind_seed_precision_and_paths():
    memory = Memory.for_pairs(FACTS, scheme="HLB", seed=7, keep_paths=True).to(dtype=torch.float64)
    memory.store(FACTS)
    bigger, _ = memory.grow(400)
    assert (bigger.scheme.name, bigger.scheme.seed, bigger.scheme.dtype) == ("HLB", 7, torch.float64)
    assert memory.grow(400, scheme="TPR")[0].scheme.name == "TPR"
    assert memory.grow(400, keep_paths=False)[0].keeps_paths is False


def test_a_plan_for_asking_all_together_stays_one():
    memory = Memory.for_size(120, 50, scheme="OSC", p=2, compact=True, joint=True, keep_paths=True)
    memory.store(FACTS)
    bigger, found = memory.grow(240)
    assert found.converged and bigger.target.joint and bigger.verify(FACTS, joint=True)


def test_what_cannot_grow_says_why():
    with pytest.raises(ValueError, match="empty memory"):
        Memory(OSC(20), keep_paths=True).grow()
    trained = Memory(OSC(40, 3), ["a", "b"], torch.randn(2, 3, 40), keep_paths=True)
    trained.store({"x": "a", "y": "b"})
    with pytest.raises(ValueError, match="trained fillers"):
        trained.grow()
    with pytest.raises(ValueError, match="pairs must be"):
        of(FACTS).grow(pairs=10)
    settling = of(FACTS[:20], make("MAP-B", d=4096))
    with pytest.raises(ValueError, match="no probabilities"):
        settling.grow()
    assert settling.grow(force=True, scheme="TPR")[0].verify(FACTS[:20]).accuracy > 0.9


def test_where_together_takes_too_much_each_is_asked_alone(monkeypatch):
    monkeypatch.setattr("carving.memory.evaluate.MAX_CORE_BYTES", 0)
    found = decode_pairs(of(SHARED, headroom=2)._reader)
    assert found.converged is None and sorted(found.pairs) == sorted(SHARED)


def test_what_is_missing_is_counted():
    memory = of(FACTS[:30], OSC(50, 3))
    found = memory.decode_pairs([path for path, _ in FACTS[:30]] + [("nowhere", i) for i in range(5)])
    assert (found.requested, found.missing, found.confident) == (35, 5, 30)
    check_whole(memory._reader, memory.decode_pairs())
    with pytest.raises(ValueError, match="would be lost"):
        check_whole(memory._reader, found)


def test_an_overfull_memory_offers_to_grow():
    memory = of(FACTS[:10])
    with pytest.warns(Overfull, match=r"Call grow\(\)"):
        memory.store(FACTS)


# Unlike memories


def test_an_unlike_memory_is_absorbed():
    mine, yours = of(FACTS, OSC(60, 3)), of(SHARED, OSC(80, 2, seed=5))
    with pytest.raises(ValueError, match=r"merge\(other\)"):
        mine + yours
    found = mine.merge(yours)
    assert found.confident == found.requested == len(SHARED) and mine.verify([*FACTS, *SHARED]).accuracy > 0.99
    assert len(mine) == 180 and yours.pairs == len(SHARED)
    with pytest.raises(ValueError, match="keeps no paths"):
        mine.merge(yours.without_paths())
    with pytest.raises(TypeError, match="other must be a Memory"):
        mine.merge({"a": "x"})


@pytest.mark.parametrize("keep", [(True, True), (True, False), (False, True)])
def test_unlike_memories_become_one(keep):
    one, other = of(FACTS, OSC(60, 3)), of(SHARED, OSC(64, 3, seed=5))
    one, other = (memory if kept else memory.without_paths() for memory, kept in zip((one, other), keep, strict=True))
    for both in (merged(one, other), merged(other, one)):
        assert both.verify([*FACTS, *SHARED]).accuracy > 0.99 and both.pairs == len(FACTS) + len(SHARED)
        assert both.keeps_paths == (keep == (True, True))


def test_two_that_are_full_become_one_of_a_new_size():
    one, other = of(FACTS), of([((f"tail {i}", "next"), f"value {i % 50}") for i in range(110)])
    assert one.scheme != other.scheme
    both = merged(one, other)
    assert not both.is_overfull and both.pairs == 230 and both.keeps_paths and both.verify(FACTS).accuracy > 0.99


def test_unlike_memories_without_paths_stay_apart():
    with pytest.raises(ValueError, match="Cannot add memories of different schemes"):
        merged(of(FACTS).without_paths(), of(SHARED, OSC(60, 3)).without_paths())


def test_alike_memories_are_added():
    one, other = of(FACTS, OSC(60, 3)), of(SHARED, OSC(60, 3))
    both = merged(one, other)
    assert torch.equal(both.tensor, one.tensor + other.tensor) and len(both) == 180
    assert not merged(one, other.without_paths()).keeps_paths


@pytest.mark.slow
def test_a_memory_that_the_planner_chose_grows():
    pairs = [*FACTS, *SHARED]
    memory = Memory.for_pairs(pairs, keep_paths=True)
    memory.store(pairs)
    memory, found = memory.grow(500)
    assert found.confident == found.requested == len(pairs) and memory.target.pairs >= 500
    assert memory.verify(pairs).accuracy > 0.99 and len(memory) == 180


def test_weights_that_are_1_in_the_mean_are_refused_too():
    memory = Memory(OSC(40, 3), keep_paths=True)
    memory.store({"a": "x", "b": "y"}, weight=0.5)
    memory.store({"c": "z", "d": "q"}, weight=1.5)
    with pytest.raises(ValueError, match="weights"):
        memory.grow()
