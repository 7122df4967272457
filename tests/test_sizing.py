"""How large a memory its pairs need: surveys, memories for pairs, and what a memory is predicted to answer."""

import random

import pytest

from carving import OSC, Memory, make
from carving.memory.capacity import Survey, survey

pytestmark = pytest.mark.xdist_group("plans")  # in one process, so that what plans draw is drawn once

PAIRS = [((f"head {i}", "next"), f"value {i % 60}") for i in range(400)]


def test_a_survey_counts_what_differs():
    pairs = [(("a",), 1), (("a",), 1), (("a",), "1"), (("b", "c"), 1), (("b",), True)]
    assert survey(pairs) == Survey(pairs=5, distinct=4, values=3, shared={1: 2, 2: 1}, load=7)  # 2 * 2 + 3
    assert survey(pairs * 3) == Survey(pairs=15, distinct=4, values=3, shared={1: 2, 2: 1}, load=7)
    assert survey(pairs[1:]).grown(1).pairs == survey(pairs[1:] * 2).grown(1).pairs == 4  # all alike take no more room
    assert survey(pairs[1:]).grown(2.5) == Survey(pairs=11, distinct=11, values=8, shared={1: 5, 2: 3}, load=11)
    assert survey(pairs).grown(1).shared == {1: 4, 2: 2}  # 7/4 of the paths


def test_a_survey_needs_pairs():
    with pytest.raises(ValueError, match="There must be at least one pair"):
        Memory.for_pairs(iter([]))


def test_a_memory_for_pairs_is_empty_and_as_large_as_they_need():
    seen = []
    memory = Memory.for_pairs(iter(PAIRS), on_progress=seen.append)
    assert memory.pairs == 0 and len(memory.vocabulary) == 0 and sum(seen) == 400
    assert memory.scheme == Memory.for_size(400, 60, 0.999).scheme  # a tenth of the errors
    memory.store(PAIRS)
    asked = [path for path, _ in PAIRS] + [(f"head {i}", "nowhere") for i in range(400)]
    answers = memory.recall_many(asked)
    right = sum(answer.value == value for answer, (_, value) in zip(answers[:400], PAIRS, strict=True))
    assert right + sum(not answer for answer in answers[400:]) >= 0.98 * 800


def test_pairs_that_come_often_leave_room_for_the_others():
    """One that comes 30 times is as much noise as 900; 300 answers at 99 % have 5.2 wrong ones at 3 sigma."""
    pairs = [*PAIRS[:300], *PAIRS[:1] * 29]
    memory, small = Memory.for_pairs(pairs, scheme="HLB"), Memory.for_pairs(PAIRS[:300], scheme="HLB")
    for each in (memory, small):
        each.store(pairs)
    assert small.is_overfull and small.predicted_accuracy() < 0.9 and not memory.is_overfull
    answers = memory.recall_many([path for path, _ in PAIRS[:300]])
    assert sum(answer.value != value for answer, (_, value) in zip(answers, PAIRS, strict=False)) <= 8


def test_a_memory_for_a_document_may_have_room_and_wishes():
    document = {f"head {i}": {"next": f"value {i % 60}"} for i in range(400)}
    assert Memory.for_pairs(document).scheme == Memory.for_pairs(PAIRS).scheme
    wide = Memory.for_pairs(document, 0.9, headroom=3, scheme="OSC", p=2, compact=False, seed=5)
    assert wide.scheme == Memory.for_size(1200, 180, 0.99, scheme="OSC", p=2, compact=False, seed=5).scheme


@pytest.mark.parametrize("accuracy", [0, 1, 2, -5, float("nan")])
def test_an_accuracy_is_a_share(accuracy):
    with pytest.raises(ValueError, match="accuracy must be between 0 and 1"):
        Memory.for_pairs(PAIRS, accuracy)


@pytest.mark.parametrize("headroom", [0, 0.5, float("inf"), float("nan")])
def test_there_is_no_less_room_than_for_the_pairs(headroom):
    with pytest.raises(ValueError, match="must be a number of at least 1"):
        Memory.for_pairs(PAIRS, headroom=headroom)


def test_a_memory_predicts_what_it_answers():
    memory = Memory(OSC(d=20, p=2))
    assert memory.predicted_accuracy() is None
    memory.store(PAIRS)
    right = memory.verify(PAIRS).accuracy
    assert abs(memory.predicted_accuracy() - right) < 0.1
    assert memory.predicted_accuracy(pairs=1000) < memory.predicted_accuracy()
    with pytest.raises(ValueError, match="pairs must be"):
        memory.predicted_accuracy(-1)


@pytest.mark.parametrize("scheme", [OSC(d=2), OSC(20, 1), OSC(20, spread=1.0), make("MAP-B", d=64)])
def test_a_memory_that_nothing_is_predicted_for_is_no_worse(scheme):
    memory = Memory(scheme)
    memory.store({"a": "b", "c": "d"})
    predicted = memory.predicted_accuracy()
    assert predicted is None or 0 < predicted <= 1


def test_a_memory_for_pairs_has_room_for_the_sets_that_paths_hold():
    """Planned from numbers alone, as if every path held one value, it falls short."""
    chance = random.Random(1)
    sizes = [1 + (i % 3 == 0) + 2 * (i % 7 == 0) for i in range(300)]
    held = {(f"head {i}", "next"): set(chance.sample(range(200), size)) for i, size in enumerate(sizes)}
    pairs = [(path, value) for path, values in held.items() for value in values]

    def f1(memory):
        memory.store(pairs)
        found = [{answer.value for answer in each} for each in memory.recall_sets(list(held))]
        both = sum(len(mine & theirs) for mine, theirs in zip(found, held.values(), strict=True))
        return 2 * both / (len(pairs) + sum(map(len, found)))

    kind = dict(scheme="OSC", p=3, compact=True, slack=0)  # planned in little time
    assert f1(Memory.for_pairs(pairs, 0.99, **kind)) > 0.99 > f1(Memory.for_size(len(pairs), 200, **kind))
