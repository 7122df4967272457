"""Memory: what goes in comes out, for every scheme that can answer; probabilities; what is refused changes nothing."""

import math
import random
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import carving
from carving import OSC, SCHEMES, TPR, Memory, make
from carving.errors import BadValue, UserError
from carving.formats import flatten

DOCUMENT = {"sentence 5": {"subject": "dog", "verb": "chased", "objects": ["cat", "ball"]}}


@pytest.fixture
def memory():
    memory = Memory(OSC(d=40, p=3))
    memory.store(DOCUMENT)
    return memory


def roomy(name):
    """A scheme with room for twenty pairs."""
    if name == "TPR":
        return TPR(64, whole_path=True)
    return make(name, d=100 if name == "OSC" else 1024)


@pytest.fixture(params=SCHEMES)
def scheme(request):
    return roomy(request.param)


def test_a_document_is_stored_and_asked(memory):
    assert memory.recall("sentence 5", "subject").value == "dog"
    assert memory.recall("sentence 5", "objects", 0).value == "cat"
    assert memory.recall("sentence 5", "objects", 1).value == "ball"
    assert memory.pairs == 4 and len(memory.vocabulary) == 4
    sure = memory.recall("sentence 5", "verb")
    assert sure.found and sure.probability > 0.999 and abs(sure.score - 1) < 0.1
    assert memory.recognize("sentence 5", "verb", value="slept").probability < 0.001
    assert memory.recognize("sentence 5", "verb", value="chased").probability > 0.999


def test_where_nothing_is_stored_nothing_is_found(memory):
    answer = memory.recall("sentence 9", "subject")
    assert not answer and answer.value is None and not answer.found and answer.probability > 0.999
    assert memory.recall("sentence 9", "subject", prior_empty=0).found  # forced to name a value
    assert memory.recall_set("sentence 9", "subject") == []


def test_a_stored_none_is_not_nothing():
    memory = Memory(OSC(40, 3))
    memory.store({"a": None, "b": [], "c": {}})
    for key, value in (("a", None), ("b", []), ("c", {})):
        answer = memory.recall(key)
        assert answer.found and answer.value == value and type(answer.value) is type(value)


def test_every_scheme_gives_back_what_was_stored(scheme):
    memory = Memory(scheme)
    pairs = [(("place", i), f"word {i % 15}") for i in range(20)]
    assert memory.store(pairs) == 20
    answers = memory.recall_many([path for path, _ in pairs])
    right = sum(answer.value == value for answer, (_, value) in zip(answers, pairs, strict=True))
    assert right >= (20 if scheme.facts.linear else 15)
    if scheme.facts.linear:  # the others have no probabilities, and so do not know what they do not hold
        absent = memory.recall_many([("nowhere", i) for i in range(20)])
        assert sum(not answer for answer in absent) >= 19
        truly = memory.recognize_many(pairs + [(path, "word 14") for path, _ in pairs[:10]])
        assert sum(answer.probability > 0.5 for answer in truly[:20]) >= 19
        assert sum(answer.probability < 0.5 for answer in truly[20:]) >= 9
        memory.store([(("set",), f"word {i}") for i in range(3)])
        assert {answer.value for answer in memory.recall_set("set")} == {"word 0", "word 1", "word 2"}
    else:
        assert all(math.isnan(answer.probability) for answer in answers)
        assert all(math.isnan(answer.probability) for answer in memory.recognize_many(pairs))
        with pytest.raises(ValueError, match="needs probabilities"):
            memory.recall_set("set")


def test_one_question_is_answered_as_one_of_many(scheme):
    memory = Memory(scheme)
    memory.store([(("place", i), i) for i in range(9)])
    paths = [("place", i) for i in range(12)]
    for one, many in zip([memory.recall(*path) for path in paths], memory.recall_many(paths), strict=True):
        assert (one.value, one.found) == (many.value, many.found)
        assert one.score == pytest.approx(many.score, abs=1e-4)


def test_top_answers_are_values_in_order(memory):
    answers = memory.recall("sentence 5", "subject", top=3)
    assert len(answers) == 3 and answers[0].value == "dog" and len({answer.value for answer in answers}) == 3
    assert answers[0].probability >= answers[1].probability >= answers[2].probability


def test_answers_can_be_restricted(memory):
    assert memory.recall("sentence 5", "subject", candidates=["cat", "ball"], prior_empty=0).value in ("cat", "ball")
    assert memory.recall("sentence 5", "subject", candidates=["ball", "dog", "dog"]).value == "dog"
    assert not memory.recall("sentence 5", "subject", candidates=["cat", "ball"])
    with pytest.raises(ValueError, match="must contain values that the memory knows, got 'bird'"):
        memory.recall("sentence 5", "subject", candidates=["bird"])


@pytest.mark.parametrize("size", [1, 7, 40, 120])
def test_a_context_may_hold_a_set(size):
    memory = Memory(OSC(d=40, p=3, k1=12))
    memory.store([(("others", i), f"word {i}") for i in range(300)])
    memory.store([(("set",), f"word {i}") for i in range(size)])
    found = memory.recall_sets([("set",), ("others", 7), ("nowhere",)])
    assert {answer.value for answer in found[0]} == {f"word {i}" for i in range(size)}
    assert [answer.value for answer in found[1]] == ["word 7"] and found[2] == []
    assert all(answer.probability >= 0.5 for answer in found[0])
    assert {a.value for a in memory.recall_set("set", candidates=["word 0", "word 299"])} == {"word 0"}


def test_forgetting_undoes_storing():
    memory = Memory(OSC(40, 3))
    memory.store(DOCUMENT)
    before = memory.tensor.clone()
    memory.store([(("more", i), i) for i in range(50)])
    assert memory.forget([(("more", i), i) for i in range(50)]) == []
    assert_close(memory.tensor, before, rtol=0, atol=1e-6)
    assert memory.pairs == 4


def test_what_was_never_stored_is_reported_when_it_is_forgotten(memory):
    not_found = memory.forget({"sentence 5": {"verb": "chased", "place": "zoo"}, "sentence 6": {"verb": "slept"}})
    assert not_found == [(("sentence 5", "place"), "zoo"), (("sentence 6", "verb"), "slept")]
    assert not memory.recall("sentence 5", "verb")


def test_ten_thousand_rounds_of_storing_and_forgetting_do_not_drift():
    memory = Memory(OSC(24, 3))
    memory.store([(("kept", i), i) for i in range(100)])
    before = memory.tensor.double()
    pairs = [(("passing", i), i) for i in range(5)]
    stored = memory.scheme.trace([path for path, _ in pairs], [value for _, value in pairs])
    for _ in range(9_990):  # what `store` and `forget` do to the tensor
        memory.tensor = memory.tensor + stored
        memory.tensor = memory.tensor + -stored
    for _ in range(10):
        memory.store(pairs)
        memory.forget(pairs)
    assert (memory.tensor.double() - before).square().sum() < 1e-3  # of the energy of one pair, which is 1


def test_memories_add():
    one, other, both = (Memory(OSC(40, 3)) for _ in range(3))
    one.store({"a": "x", "b": "y"})
    other.store({"c": "y", "d": "z"})
    both.store({"a": "x", "b": "y", "c": "y", "d": "z"})
    merged = one + other
    assert_close(merged.tensor, both.tensor)
    assert list(merged.vocabulary) == list(both.vocabulary) and torch.equal(merged.counts, both.counts)
    assert [merged.recall(key).value for key in "abcd"] == ["x", "y", "y", "z"]
    assert one.pairs == 2 and len(one.vocabulary) == 2  # as it was


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (OSC(41, 3), "differ in d \\(40 and 41\\)"),
        (OSC(40, 3, seed=1), "differ in seed \\(0 and 1\\)"),
        (OSC(40, 3, k1=9, signed=False), "k1 .6 and 9., signed .True and False"),
        (make("HLB", 64), "differ in scheme"),
    ],
)
def test_memories_that_differ_do_not_add(other, message):
    with pytest.raises(ValueError, match=message):
        Memory(OSC(40, 3)) + Memory(other)


def test_a_structure_is_read_back():
    memory = Memory(OSC(40, 3))
    document = {"a": [1, 2.5, {"b": None}], "c": {0: "x", 1: []}, "d": {}}
    from carving.formats.documents import flatten

    memory.store(document)
    assert memory.rebuild([path for path, _ in flatten(document)]) == document


labels = st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.none()


@settings(max_examples=30)
@given(st.dictionaries(st.lists(labels, min_size=1, max_size=3).map(tuple), labels, min_size=1, max_size=12))
def test_any_pairs_come_back(pairs):
    from carving.symbols.codec import canonical, canonical_path

    distinct = {canonical_path(path): (path, value) for path, value in pairs.items()}.values()
    memory = Memory(OSC(32, 3))
    memory.store(list(distinct))
    answers = memory.recall_many([path for path, _ in distinct])
    assert [canonical(a.value) for a in answers] == [canonical(value) for _, value in distinct]


def test_values_may_have_trained_fillers(generator):
    scheme = OSC(32, 3)
    trained = torch.randn(3, *scheme.facts.filler_shape, generator=generator)
    memory = Memory(scheme, ["a", "b", "c"], trained)
    memory.store([(("x", value), value) for value in "abcd"])
    expected = scheme.trace([("x", value) for value in "abcd"], torch.cat([trained, scheme.fillers(["d"])]))
    assert_close(memory.tensor, expected)
    assert [memory.recall("x", value).value for value in "abcd"] == list("abcd")
    with pytest.raises(ValueError, match="different trained fillers"):
        memory + Memory(scheme)


def test_a_large_vocabulary_is_never_held(monkeypatch):
    memory = Memory(OSC(32, 3))
    memory.store([(("x", i), i) for i in range(300)])
    held = memory.recall_many([("x", i) for i in range(40)], top=3)
    monkeypatch.setattr("carving.memory.codebook.MAX_FILLER_BYTES", 1000)
    fresh = Memory(OSC(32, 3, workspace=100_000))
    fresh.store([(("x", i), i) for i in range(300)])
    for one, other in zip(held, fresh.recall_many([("x", i) for i in range(40)], top=3), strict=True):
        assert [a.value for a in one] == [a.value for a in other]
        assert [a.probability for a in one] == pytest.approx([a.probability for a in other], abs=1e-4)
    assert len(fresh._reader.codebook._fillers) == 0


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"a": object()}, TypeError, r"\('a',\).*must be a string|at .*'a'"),
        ([(("a",), "x"), (("b", object()), "y")], TypeError, "in the path"),
        ([(("a",), "x"), ("b", "y")], TypeError, "A path must be a tuple of labels, got 'b'"),
        ([(("a",), "x"), ((), "y")], ValueError, "at least one role, got an empty path"),
        ([(("a",), "x"), (("b",),)], TypeError, "A pair must be a tuple of a path and a value"),
        ([(("a",), "x"), (("b",), {"c": 1})], TypeError, "The value at .*'b'"),
        ({}, ValueError, "at least one value with a path, got an empty one"),
        ([], ValueError, "at least one pair, got none"),
        (iter(()), ValueError, "at least one pair, got none"),
        ("dog", TypeError, "Expected a document .* or .* pairs, got 'dog'"),
    ],
)
def test_bad_input_changes_nothing(memory, bad, error, message):
    before, values, counts = memory.tensor.clone(), list(memory.vocabulary), memory.counts.clone()
    for verb in (memory.store, memory.forget):
        with pytest.raises(error, match=message):
            verb(bad)
    assert torch.equal(memory.tensor, before) and list(memory.vocabulary) == values
    assert torch.equal(memory.counts, counts)


class Late(dict):
    """An empty dict that cannot be made again."""

    def __init__(self, name):
        super().__init__()


@pytest.mark.parametrize("value", [(), torch.Size([])])
def test_a_value_that_is_an_empty_tuple_is_refused_at_the_door(memory, value):
    state = memory._reader
    for verb in (memory.store, memory.forget, memory.recognize_many):
        with pytest.raises(TypeError, match=r"The value at \('b',\): an empty tuple is a role, not a value"):
            verb([(("a",), "x"), (("b",), value)])
    with pytest.raises(TypeError, match="an empty tuple is a role"):
        Memory(OSC(20), [value])
    assert memory._reader is state


def test_an_empty_value_of_a_kind_of_its_own_is_a_plain_one(memory, tmp_path):
    memory.store([(("a",), Late("x"))])
    memory.save(tmp_path / "late")
    for held in (memory, Memory.load(tmp_path / "late")):
        assert held.recall("a").value == {} and type(held.recall("a").value) is dict


@pytest.mark.parametrize(
    "weight",
    [math.nan, math.inf, True, "1", 10**400, -(10**5_000)],
    ids=lambda weight: str(weight)[:9] if isinstance(weight, str | float) else "huge",
)
def test_weights_are_finite_numbers(memory, weight):
    before = memory.tensor.clone()
    with pytest.raises((TypeError, ValueError), match=r"weight must (be a (finite )?number|fit into a float)"):
        memory.store({"a": "b"}, weight=weight)
    assert torch.equal(memory.tensor, before) and "b" not in memory.vocabulary


@pytest.mark.parametrize("weight", [1e25, -1e25, 1e300, 2**53 + 2])
def test_weights_are_no_larger_than_what_is_counted(memory, weight):
    memory.store({"a": "b"})
    before = memory.tensor.clone()
    for verb in (memory.store, memory.forget):
        with pytest.raises(BadValue, match=r"weight must be a finite number of at most 2\^53"):
            verb({"q": "z"}, weight=weight)
    assert torch.equal(memory.tensor, before) and "z" not in memory.vocabulary


@pytest.mark.parametrize("weight", [2.0**53, 1e-300, 5e-324])
def test_weights_at_either_end_are_taken(weight):
    memory = Memory(OSC(16, 2))
    for pairs in ([(("a",), "b")], [(("q",), "z")], [(("q",), "z")]):
        memory.store(pairs, weight=weight)
    assert math.isfinite(memory._reader.load) and memory.recall("a").value in (None, "b")


def test_a_memory_stays_finite(memory, monkeypatch):
    monkeypatch.setattr("carving.memory.memory.check_weight", float)
    before = memory.tensor.clone()
    with pytest.raises(ValueError, match="memory tensor must be finite"):
        memory.store({"a": "b"}, weight=1e300)
    assert torch.equal(memory.tensor, before)


def test_how_probable_absence_is_beforehand_counts():
    """Odds against the value grow as the odds of absence do: Bayes."""
    memory = Memory(OSC(24, 2))
    memory.store([(("x", i), i) for i in range(40)])
    for value in range(5):
        chances = [memory.recognize("y", 0, value=value, prior_empty=a).probability for a in (0.2, 0.5, 0.8)]
        odds = [chance / (1 - chance) for chance in chances]
        assert odds[0] / odds[1] == pytest.approx(4, rel=1e-3) and odds[1] / odds[2] == pytest.approx(4, rel=1e-3)
    ratios = []
    for path in range(9):  # one of ten seems to hold a value, for which it is not so exact
        answers = [memory.recall("y", path, prior_empty=a, top=40) for a in (0.2, 0.5, 0.8)]
        nothing = [1 - sum(answer.probability for answer in each) for each in answers]
        odds = [chance / (1 - chance) for chance in nothing]
        ratios.append((odds[1] / odds[0], odds[2] / odds[1]))
    assert np.median(ratios, axis=0) == pytest.approx([4, 4], rel=1e-3)


def test_empty_containers_are_given_out_fresh(memory):
    mine: dict = {}
    memory.store([(("a",), mine), (("b",), [])])
    mine["k"] = 1
    memory.recall("b").value.append(1)
    assert memory.recall("a").value == {} and memory.recall("b").value == []


@pytest.mark.parametrize("name", ["HRR", "VTB", "HLB"])
def test_sets_of_schemes_that_change_norms(name):
    memory = Memory(make(name, 4096))
    memory.store([(("others", i), f"word {i}") for i in range(60)])
    memory.store([(("set",), f"word {i}") for i in range(30)])
    assert {answer.value for answer in memory.recall_set("set")} == {f"word {i}" for i in range(30)}


def test_a_crowded_context_does_not_invent_values():
    """Ninety fillers in a core of 216 numbers hide each other: few are found then, each more probably true than not."""
    memory = Memory(OSC(60, 3, k1=6))
    memory.store([(("others", i), f"word {i}") for i in range(1000)])
    memory.store([(("set",), f"word {i}") for i in range(90)])
    found = {answer.value for answer in memory.recall_set("set")}
    assert len(found - {f"word {i}" for i in range(90)}) <= len(found) / 2


def test_forgetting_a_stranger_leaves_the_count_of_pairs(memory):
    assert memory.forget([(("q",), "dog")]) == [(("q",), "dog")]
    assert memory.pairs == 4
    twice = [(("sentence 5", "subject"), "dog")] * 2
    assert memory.forget(twice) == twice[:1]


def test_bad_questions_are_refused(memory):
    with pytest.raises(ValueError, match="no value to answer with"):
        Memory(OSC(20)).recognize("a", value="b")
    with pytest.raises(ValueError, match="no value to answer with"):
        Memory(OSC(20)).recall("a")
    with pytest.raises(ValueError, match="at least one role"):
        memory.recall()
    with pytest.raises(TypeError, match="in the path"):
        memory.recall("a", object())
    with pytest.raises(ValueError, match="prior_empty must be a probability"):
        memory.recall("a", prior_empty=1)
    with pytest.raises(ValueError, match="threshold must be a probability"):
        memory.recall_set("a", threshold=1)
    with pytest.raises(ValueError, match="top must be an integer of at least 1, got 0"):
        memory.recall("a", top=0)
    assert len(memory.recall("a", top=5)) == len(memory.vocabulary) == 4
    with pytest.raises(ValueError, match="finite"):
        Memory(OSC(20), ["a"], torch.full((1, 2, 20), math.nan))


def test_a_planned_memory_answers_as_well_as_it_was_planned():
    memory = Memory.for_size(pairs=600, vocabulary=200, accuracy=0.99)
    pairs = [(("place", i), i * 7 % 200) for i in range(600)]
    memory.store(pairs)
    answers = memory.recall_many([path for path, _ in pairs], prior_empty=0)
    right = sum(answer.value == value for answer, (_, value) in zip(answers, pairs, strict=True))
    assert right / 600 > 0.99 - 3 * math.sqrt(0.99 * 0.01 / 600) - 0.005


EVEN, ZIPF = [(i * i * 31) % 97 for i in range(400)], [int(97 ** (i / 400)) for i in range(400)]


@pytest.mark.parametrize("values", [EVEN, ZIPF], ids=["even", "Zipf"])
@pytest.mark.parametrize(
    "scheme",
    # HRR with unitary roles only: the others, shared by many paths, make a noise that one number cannot describe.
    [
        OSC(60, 2),
        OSC(22, 3),
        make("HRR", 2304, unitary=True),
        *(make(n, 2304) for n in ("MAP-I", "HLB", "VTB", "FHRR")),
    ],
    ids=lambda scheme: f"{getattr(scheme, 'name', 'OSC')}-{scheme.d}",
)
def test_probabilities_mean_what_they_say(scheme, values):
    """Of answers with a probability of x, a share of x is right: in half of the questions nothing is stored."""
    chances, right = [], []
    for seed in range(4):
        memory = Memory(scheme.like(seed=seed))
        memory.store([(("there", i, "role"), value) for i, value in enumerate(values)])
        answers = memory.recall_many(
            [("there", i, "role") for i in range(400)] + [("nowhere", i, "role") for i in range(400)]
        )
        chances += [answer.probability for answer in answers]
        right += [answer.found and answer.value == value for answer, value in zip(answers, values, strict=False)]
        right += [not answer for answer in answers[400:]]
    chance, truth = torch.tensor(chances, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)
    assert 0.5 < truth.mean() < 0.99  # the memory is too full for certainty
    for low, high in ((0, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        inside = (chance >= low) & (chance < high)
        if inside.sum() < 20:
            continue
        error = (truth[inside].mean() - chance[inside].mean()).abs()
        # Three standard errors of a well calibrated model, and the three points that the model may be off.
        assert error < 3 * math.sqrt((chance[inside] * (1 - chance[inside])).mean() / inside.sum()) + 0.03


def test_the_top_values_of_a_path_that_holds_two_are_both_probable(memory):
    memory.store([(("dog", "is a"), "animal"), (("dog", "is a"), "pet")])
    first, second, third = memory.recall("dog", "is a", top=3)
    assert {first.value, second.value} == {"animal", "pet"} and third.probability < 0.01
    assert first.probability > 0.99 < second.probability
    sets = memory.recall_sets([("dog", "is a"), ("sentence 5", "verb"), ("nowhere",)])
    tops = memory.recall_many([("dog", "is a"), ("sentence 5", "verb"), ("nowhere",)], top=4)
    for found, top in zip(sets, tops, strict=True):
        assert [answer.value for answer in top if answer.probability >= 0.5] == [answer.value for answer in found]
        assert [a.probability for a in top[: len(found)]] == pytest.approx([a.probability for a in found], abs=1e-6)
    assert [a.value for a in memory.recall("dog", "is a", top=1, candidates=["pet", "cat"])] == ["pet"]


@pytest.mark.parametrize("workspace", [2**27, pytest.param(2**18, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("scheme", "paths"),
    [(OSC(40, 3, k1=8), 200), (OSC(60, 2, k1=14, compact=True), 120), (OSC(20, 3), 200)],
    ids=["roomy", "full", "fuller"],
)
def test_probabilities_of_the_top_values_mean_what_they_say_where_paths_hold_several(scheme, paths, workspace):
    """Half of the paths hold one to three values, half nothing: of values with a probability of x, x are there."""
    chances, right = [], []
    for seed in range(3):
        memory, chance = Memory(scheme.like(seed=seed, workspace=workspace), range(200)), random.Random(seed)
        held = {(i, "role"): chance.sample(range(200), 1 + i % 3) for i in range(paths)}
        memory.store([(path, value) for path, values in held.items() for value in values])
        asked = [*held, *((i, "nowhere") for i in range(paths))]
        for path, answers in zip(asked, memory.recall_many(asked, top=5), strict=True):
            chances += [answer.probability for answer in answers]
            right += [answer.value in held.get(path, []) for answer in answers]
    chance, truth = torch.tensor(chances, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)
    error = 0.0
    for low, high in ((0, 0.01), (0.01, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        inside = (chance >= low) & (chance < high)
        error += abs(float((truth[inside] - chance[inside]).sum())) / len(chance)
    assert error < 0.03  # in the mean of all values; at most one being there, it was 0.05 to 0.1


# Mistakes that were once answered badly


def test_trained_fillers_of_labels_that_python_calls_equal_do_not_merge():
    """`1 == True`, but they are two labels: the sum of the two memories would answer one for the other."""
    fillers = torch.ones(1, 2, 20)
    one, true = Memory(OSC(20), [1], fillers), Memory(OSC(20), [True], fillers)
    one.store([(("a",), 1)])
    true.store([(("b",), True)])
    with pytest.raises(ValueError, match="different trained fillers"):
        one + true
    both = one + Memory(OSC(20), [1], fillers)
    assert both.recall("a").value == 1


def test_forgetting_what_was_never_stored_leaves_the_vocabulary_alone(memory):
    before = list(memory.vocabulary), memory.counts.clone()
    assert memory.forget([(("never",), "a stranger")]) == [(("never",), "a stranger")]
    assert list(memory.vocabulary) == before[0]
    assert torch.equal(memory.counts, before[1])


def test_a_path_that_is_given_whole_is_told_how_to_be_given(memory):
    for ask in (memory.recall, memory.recall_set, lambda path: memory.recognize(path, value="x")):
        with pytest.raises(
            TypeError, match=r"role by role, recall\('server', 'host'\), got the tuple recall\(\('server', 'host'\)\)"
        ):
            ask(("server", "host"))


def test_a_memory_takes_a_scheme_and_says_so():
    with pytest.raises(TypeError, match=r"scheme must be a scheme such as OSC\(d=64\) .*, got 'OSC'"):
        Memory("OSC")


def test_a_memory_moves_to_another_precision(memory):
    other = memory.to(dtype=torch.float64)
    assert other.tensor.dtype == torch.float64 and memory.tensor.dtype == torch.float32
    assert list(other.vocabulary) == list(memory.vocabulary) and torch.equal(other.counts, memory.counts)
    other.store({"somewhere": "else"})
    assert "else" not in memory.vocabulary  # it is another memory
    paths = [("there", i) for i in range(3)]
    for ours, theirs in zip(memory.recall_many(paths), memory.to("cpu").recall_many(paths), strict=True):
        assert ours == theirs


def test_a_data_frame_is_stored_as_the_table_that_it_is():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["rose", "oak"], "kind": ["flower", "tree"], "height": [1, 30]})
    memory = Memory(OSC(30, 3))
    assert memory.store(frame, key="name") == 4
    assert memory.verify(frame, key="name").accuracy == 1
    assert Memory.for_pairs(frame, key="name").store(frame, key="name") == 4
    assert memory.recall("oak", "kind").value == "tree" and memory.recall("rose", "height").value == 1
    memory.forget(frame, key="name")
    assert not memory.recall("oak", "kind")
    memory.store(frame)
    assert memory.recall(1, "name").value == "oak"
    with pytest.raises(ValueError, match="key='name' names the column of a DataFrame with its row names, got dict"):
        memory.store({"a": "b"}, key="name")


@pytest.mark.parametrize("compact", [False, True])
def test_few_calls_lead_from_a_pair_to_the_tensor_and_from_a_question_to_its_answer(compact):
    """Of our own functions: what they cost is what a single pair or question costs beside the tensor work."""
    memory = Memory(OSC(60, 2, compact=compact))
    memory.store([((f"sentence {i}", "subject"), f"noun {i % 50}") for i in range(100)])
    memory.recall("sentence 1", "subject")  # what is made once is made

    def calls(run):
        count = 0

        def seen(frame, event, _):
            nonlocal count
            file = frame.f_code.co_filename  # a cached property counts as one call, as that of functools does
            count += event == "call" and "/carving/" in file and not file.endswith("/caching.py")

        sys.setprofile(seen)
        try:
            run()
        finally:
            sys.setprofile(None)
        return count

    assert calls(lambda: memory.store([(("sentence 7", "object"), "a new noun")])) < 170
    memory.recall("sentence 1", "subject")  # what follows from the memory is kept until the next change
    assert calls(lambda: memory.recall("sentence 5", "subject")) < 175


def test_a_device_that_is_not_there_is_refused_with_one_that_is(memory):
    for ask in (lambda: memory.to("cuda:99"), lambda: OSC(20, device="cuda:99")):
        with pytest.raises(ValueError, match=r"device 'cuda:99' is not available .* Use \"cpu\""):
            ask()
    with pytest.raises(TypeError, match=r"to\(dtype=torch.float64\)"):
        memory.to(torch.float64)


def light_pairs():
    return [((f"key {i}",), f"value {i}") for i in range(20)]


def all_are_right(memory):
    answers = memory.recall_many([path for path, _ in light_pairs()])
    return all(
        answer.value == value and answer.probability > 0.9
        for answer, (_, value) in zip(answers, light_pairs(), strict=True)
    )


@pytest.mark.parametrize("scheme", [OSC(60, 2, compact=True), OSC(20, 3), make("HLB", d=4096)], ids=repr)
@pytest.mark.parametrize("weight", [1e12, -1e12, 1e9, 2.0**53])
def test_a_weight_that_rounding_would_let_erase_the_others_is_refused(scheme, weight):
    memory = Memory(scheme)
    memory.store(light_pairs())
    before = memory.tensor.clone()
    with pytest.raises(BadValue, match=r"Weights are too far apart for torch\.float32"):
        memory.store({"heavy": "one"}, weight=weight)
    with pytest.raises(BadValue, match="too far apart"):
        memory.forget({"heavy": "one"}, weight=weight, force=True)
    heavy = Memory.like(memory)
    heavy.store({"heavy": "one"}, weight=weight)
    for one, other in ((memory, heavy), (heavy, memory)):
        with pytest.raises(BadValue, match="too far apart"):
            one + other
    with pytest.raises(BadValue, match="too far apart"):
        heavy.store(light_pairs())
    assert torch.equal(memory.tensor, before) and "one" not in memory.vocabulary and heavy.pairs != 20
    double = memory.to(dtype=torch.float64)
    double.store({"heavy": "one"}, weight=1e9)
    double.forget({"heavy": "one"}, weight=1e9)
    assert all_are_right(double)


@pytest.mark.parametrize("steps", [[4e6], [1e3, 1e6], [3e6, 3e12, 2.0**53], [1e6] * 20, [2e5] * 80])
def test_heavy_pairs_that_were_taken_leave_the_others_as_they_were(steps):
    """However weights come to be heavy, in one call or in many."""
    memory, taken = Memory(OSC(40, 3)), []
    memory.store(light_pairs())
    for weight in steps:
        try:
            memory.store({"heavy": "one"}, weight=weight)
        except BadValue:
            continue
        taken.append(weight)
    for weight in reversed(taken):
        assert memory.forget({"heavy": "one"}, weight=weight, force=True) == []
    assert taken and taken[0] == steps[0] and max(taken) < 1e7 and all_are_right(memory)
    assert memory._reader.energy == pytest.approx(memory.pairs, rel=0.3)


def test_weights_far_apart_are_refused_where_a_memory_gets_narrower(tmp_path):
    memory = Memory(OSC(40, 3, dtype=torch.float64))
    memory.store(light_pairs())
    memory.store({"heavy": "one"}, weight=1e12)
    with pytest.raises(BadValue, match=r"too far apart for torch\.float32"):
        memory.to(dtype=torch.float32)
    with pytest.raises(BadValue, match=r"too far apart for torch\.float32"):
        memory.save(tmp_path / "file", torch.float32)
    memory.forget({"heavy": "one"}, weight=1e12)
    assert all_are_right(memory.to(dtype=torch.float32))


def test_weights_of_many_changes_in_a_journal_are_refused_once_they_are_too_far_apart(tmp_path):
    memory = Memory(OSC(40, 3))
    memory.store(light_pairs())
    memory.save(tmp_path / "file")
    with carving.open(tmp_path / "file") as opened:
        for _ in range(60):
            opened.store({"heavy": "one"}, weight=1e5)
        with pytest.raises(BadValue, match="too far apart"):
            [opened.store({"heavy": "one"}, weight=1e5) for _ in range(100)]
        taken = round(float(opened.counts[opened.vocabulary.find("one")]) / 1e5)
        opened.forget({"heavy": "one"}, weight=1e5 * taken, force=True)
        assert all_are_right(opened)


def test_weights_far_apart_are_refused_by_open_files_and_narrow_dtypes(tmp_path):
    memory = Memory(OSC(40, 3))
    memory.store(light_pairs())
    for dtype, heavy in ((None, 1e9), (torch.bfloat16, 1e9)):
        memory.save(tmp_path / "file", dtype)
        with carving.open(tmp_path / "file") as opened:
            with pytest.raises(BadValue, match="too far apart"):
                opened.store({"heavy": "one"}, weight=heavy)
            with pytest.raises(BadValue, match="too far apart"):
                opened.store({"light": "one"}, weight=1 / heavy)
            assert opened.changes == 0
            opened.store({"heavy": "one"}, weight=2e4)  # too much for bfloat16
            opened.compact()
            with pytest.raises(BadValue, match=r"too far apart for torch\.bfloat16"):
                opened.save(tmp_path / "narrow", torch.bfloat16)
            opened.forget({"heavy": "one"}, weight=2e4)
            opened.compact()
        assert all_are_right(Memory.load(tmp_path / "file"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tensor: tensor[:-1],
        lambda tensor: tensor.to(torch.float16),
        lambda tensor: tensor.to("meta"),
        lambda tensor: tensor * math.nan,
        lambda tensor: tensor.to_sparse(),
        lambda tensor: tensor.tolist(),
    ],
    ids=["shape", "dtype", "device", "finite", "dense", "type"],
)
def test_a_tensor_and_counts_that_do_not_fit_are_refused(memory, wrong):
    tensor, counts = memory.tensor, memory.counts
    with pytest.raises(UserError, match="tensor must"):
        memory.tensor = wrong(tensor)
    with pytest.raises(UserError, match="counts must"):
        memory.counts = wrong(counts)
    assert torch.equal(memory.tensor, tensor) and memory.recall("sentence 5", "subject").value == "dog"


def test_counts_beyond_whole_numbers_of_a_double_are_refused(memory):
    with pytest.raises(BadValue, match=r"counts must sum to at most 2\^53"):
        memory.counts = torch.full_like(memory.counts, 1e308)
    assert 0 < memory.pairs < 100


def test_numbers_of_numpy_are_numbers(memory):
    memory.store({"half": "a"}, weight=np.float32(0.5))
    memory.store({"once": "b"}, weight=np.int64(1))
    assert memory.recall("once", prior_empty=np.float64(0.5)).value == "b"
    assert [answer.value for answer in memory.recall_set("once", threshold=np.float32(0.5))] == ["b"]
    assert memory.forget({"half": "a"}, weight=np.float64(0.5)) == []
    with pytest.raises(TypeError, match="threshold must be a number"):
        memory.recall_set("once", threshold="0.5")


def test_pairs_as_json_gives_them_are_not_taken_for_a_document(memory):
    pairs = [[["dog", "says"], "woof"], [["cat", "says"], "meow"]]
    before = memory.pairs
    for verb in (memory.store, memory.forget):
        with pytest.raises(BadValue, match=r"may be a .path, value. pair or a document of lists"):
            verb(pairs)
    assert memory.pairs == before
    assert memory.store((path, value) for path, value in pairs) == memory.store(iter(pairs)) == 2
    assert memory.recall("dog", "says").value == "woof"
    assert memory.store(flatten([[["dog", "says"], "woof"]])) == 3
    assert memory.recall(0, 0, 1).value == "says"
    assert memory.store([["a", "b"], ["c", "d"]]) == 4


@pytest.mark.parametrize("scheme", [OSC(60, 2), make("BSC", d=2048)], ids=["OSC", "BSC"])
def test_a_document_of_paths_that_hold_several_values_is_refused(scheme):
    memory = Memory(scheme, keep_paths=True)
    memory.store({"dog": {"says": "woof"}})
    assert memory.rebuild() == {"dog": {"says": "woof"}}
    memory.store([(("dog", "eats"), "meat"), (("dog", "eats"), "bread")])
    for paths in (None, [("dog", "says"), ("dog", "eats")]):
        with pytest.raises(BadValue, match="one value per path"):
            memory.rebuild(paths)
    assert memory.rebuild([("dog", "says")]) == {"dog": {"says": "woof"}}


def test_a_pair_that_was_stored_twice_is_one_value_of_a_document():
    memory = Memory(OSC(60, 2), keep_paths=True)
    memory.store([(("dog", "says"), "woof"), (("dog", "says"), "woof"), (("cow", "says"), "moo")])
    assert memory.rebuild() == {"dog": {"says": "woof"}, "cow": {"says": "moo"}}


def test_nothing_is_not_forgotten(memory):
    for nothing in ([], {}, iter(())):
        with pytest.raises(BadValue, match=r"must (have|be) at least one"):
            memory.forget(nothing)


@pytest.mark.parametrize("scheme", [{"d": 32, "p": 2}, {"d": 32, "p": 2, "compact": True}, {"d": 16, "p": 3}])
def test_few_pairs_and_many_values_are_answered_right(scheme):
    """Values that were never stored got less noise than the one that was, which made them certain."""
    values = [f"v{value}" for value in range(200)]
    for seed in range(60):
        memory = Memory(OSC(**scheme, seed=seed), values)
        memory.store([((0,), values[seed])])
        assert memory.recall(0).value == values[seed]
