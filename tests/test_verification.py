"""A memory that is asked again for what it should hold."""

import pytest

from carving import OSC, Answer, Memory, make
from carving.cli.exporting import held_pairs

PAIRS = [((f"head {i // 2}", f"role {i % 3}"), f"value {i % 90}") for i in range(300)]


@pytest.fixture
def memory():
    held = Memory(OSC(d=60, p=3))
    held.store(PAIRS)
    return held


def test_all_that_is_stored_is_right(memory):
    seen = []
    outcome = memory.verify(PAIRS, on_progress=seen.append)
    assert outcome and (outcome.total, outcome.correct, outcome.accuracy, outcome.wrong) == (300, 300, 1.0, [])
    assert outcome.converged is None and outcome.rounds is None and sum(seen) == 300


def test_what_is_wrong_is_listed_with_what_was_answered(memory):
    outcome = memory.verify([*PAIRS[:10], (PAIRS[20][0], "value 7"), (("nowhere",), "value 1")])
    assert not outcome and (outcome.total, outcome.correct) == (12, 10) and outcome.accuracy == 10 / 12
    (path, value, answer), (other, _, _) = outcome.wrong
    assert (path, value, answer.value, other) == (PAIRS[20][0], "value 7", "value 20", ("nowhere",))


def test_several_values_of_a_path_are_a_set(memory):
    memory.store([(("both",), "value 1"), (("both",), "value 2"), (("both",), "value 2")])
    assert memory.verify([(("both",), "value 1"), (("both",), "value 2"), (("both",), "value 2")])
    outcome = memory.verify([(("both",), value) for value in ("value 1", "value 3", "value 4", "value 5")])
    instead = [wrong.answer and wrong.answer.value for wrong in outcome.wrong]
    assert outcome.correct == 1 and [wrong.value for wrong in outcome.wrong] == ["value 3", "value 4", "value 5"]
    assert instead == ["value 2", None, None]


@pytest.mark.parametrize("joint", [False, True])
def test_a_part_of_what_paths_hold_is_answered(joint):
    """Of paths with two to four values each, one pair in ten is asked for: others of the path are no mistakes."""
    pairs = [((f"head {i}", "next"), f"value {(7 * i + 31 * j) % 200}") for i in range(150) for j in range(2 + i % 3)]
    memory = Memory(OSC(d=50, p=3, k1=10))
    memory.store(pairs)
    held_out = pairs[::10]
    outcome = memory.verify(held_out, joint=joint)
    assert outcome.total == len(held_out) and outcome.accuracy > 0.97
    not_found = [(path, f"value {(number + 97) % 200}") for number, (path, _) in enumerate(held_out)]
    not_found = [pair for pair in not_found if pair not in pairs]
    assert memory.verify(not_found, joint=joint).accuracy < 0.03


def test_labels_that_python_calls_equal_are_told_apart():
    memory = Memory(OSC(d=32, p=3))
    memory.store([(("a",), 1), (("b",), True)])
    assert memory.verify([(("a",), 1), (("b",), True)])
    assert memory.verify([(("a",), True), (("b",), 1.0)]).correct == 0


def test_asked_together_they_say_whether_they_came_to_rest():
    memory = Memory(OSC(d=50, p=2, compact=True))
    memory.store(PAIRS)
    alone, together = memory.verify(PAIRS), memory.verify(PAIRS, joint=True)
    assert together.correct == 300 > alone.correct and together.converged and together.rounds > 1
    assert len(alone.wrong) == 300 - alone.correct


def test_a_document_is_asked_for_too_and_nothing_is_no_question():
    memory = Memory(make("MAP-B", d=4096))
    memory.store({"a": {"b": "c"}, "d": "e"})
    assert memory.verify({"a": {"b": "c"}, "d": "e"}).correct == 2
    assert memory.verify(iter([])).total == 0


def test_what_is_held_under_paths_comes_out_as_pairs(memory):
    memory.store([(("both",), "value 1"), (("both",), "value 2")])
    paths = [PAIRS[0][0], ("both",), ("nowhere",), ("both",), PAIRS[7][0]]
    assert sorted(held_pairs(memory, paths)) == sorted(
        [PAIRS[0], (("both",), "value 1"), (("both",), "value 2"), PAIRS[7]]
    )


def test_an_answer_that_was_not_found_shows_it():
    assert repr(Answer(None, 0.1, 0.9, found=False)) == "Answer(value=None, score=0.1, probability=0.9, found=False)"
    assert repr(Answer("dog", 1.0, 0.9)) == "Answer(value='dog', score=1.0, probability=0.9)"
