"""Numbers as the values of memories: their fillers are alike, and are told apart all the same."""

import random
import warnings

import pytest

from carving import OSC, VSA, Memory
from carving.encodings import circular, estimate, level, rounded
from carving.errors import Overfull
from carving.memory.opened import open_memory

SCHEMES = [OSC(96, 2, compact=True), OSC(96, 2), VSA("MAP-I", 4096), VSA("FHRR", 4096)]


@pytest.fixture(params=SCHEMES, ids=str)
def levels(request):
    """A memory of 21 levels, of which every even one lies under itself."""
    memory = Memory(request.param, range(21), level(request.param, 21, label="h"))
    memory.store([((i,), i) for i in range(0, 20, 2)])
    return memory


def test_a_level_is_recognized_where_it_is_and_not_where_its_neighbor_is(levels):
    pairs = [((path,), value) for path in (0, 2, 8) for value in range(21)]
    found = levels.recognize_many(pairs)
    assert [pair for pair, answer in zip(pairs, found, strict=True) if answer] == [((i,), i) for i in (0, 2, 8)]
    assert levels.recognize(2, value="warm").probability < 0.01
    assert levels.recognize(2, value=2, prior_empty=0).probability == 1


def test_a_level_is_found_in_its_own_path_alone(levels):
    assert [path for path, _ in levels.where(4, paths=[(i,) for i in range(40)])] == [(4,)]


def test_forgetting_a_neighbor_changes_nothing(levels):
    before = levels.tensor.clone()
    assert levels.forget([((2,), 4), ((8,), 7)]) == [((2,), 4), ((8,), 7)]
    assert levels.tensor.equal(before) and levels.recall(2).value == 2
    assert levels.forget([((2,), 2), ((8,), 8)]) == [] and not levels.recall(2) and not levels.recall(8)
    assert levels.recall(4).value == 4


def test_levels_are_as_often_there_as_they_are_said_to_be():
    """Of single values, sets and pairs in a memory full enough to take neighbors for each other."""
    said, true = {"top": 0.0, "sets": 0.0, "pairs": 0.0}, {"top": 0, "sets": 0, "pairs": 0}
    spread, draw = dict(said), random.Random(0)

    def count(kind, chance, right):
        said[kind], true[kind], spread[kind] = (
            said[kind] + chance,
            true[kind] + right,
            spread[kind] + chance - chance**2,
        )

    for seed in range(8):
        scheme = OSC(40, 2, compact=True, seed=seed)
        memory = Memory(scheme, range(11), level(scheme, 11, label="h"))
        stored = [((i,), draw.randrange(11)) for i in range(60)]
        memory.store(stored)
        paths = [path for path, _ in stored]
        for kind, answers in (("top", memory.recall_many(paths, top=11)), ("sets", memory.recall_sets(paths))):
            for (_, value), each in zip(stored, answers, strict=True):
                for answer in each:
                    if answer.probability > 0.9:
                        count(kind, answer.probability, answer.value == value)
        asked = [(path, value if draw.random() < 0.5 else draw.randrange(11)) for path, value in stored]
        for pair, wanted, answer in zip(stored, asked, memory.recognize_many(asked), strict=True):
            count("pairs", answer.probability, pair == wanted)
    for kind in said:
        # Four standard errors, and a hundredth of 480 questions for what the model leaves out.
        assert abs(said[kind] - true[kind]) < 4 * spread[kind] ** 0.5 + 4.8, kind


def test_a_consolidated_memory_tells_neighbors_apart():
    scheme = OSC(40, 2, compact=True)
    memory = Memory(scheme, range(11), level(scheme, 11, label="h"))
    stored = [((i,), i % 11) for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        memory.store(stored)
    assert memory.consolidate(stored) and memory.is_consolidated
    found = memory.where(4, paths=[path for path, _ in stored])
    assert {path for path, _ in found} <= {path for path, value in stored if value == 4} and len(found) > 3
    assert not memory.recognize(2, value=3)


# Numbers that are no level


def test_a_number_that_is_no_level_is_refused_with_the_nearest(tmp_path):
    scheme = OSC(64, 2, compact=True)
    tenths = [round(0.1 * i, 1) for i in range(11)]
    memory = Memory(scheme, tenths, level(scheme, 11, label="t"))
    memory.store([(("a",), 0.3), (("b",), "warm"), (("c",), True)])  # what is no number is a symbol as ever
    before = memory.tensor.clone()
    for number, nearest in ((0.24, "0.2"), (99.0, "1.0"), (1, "1.0")):
        with pytest.raises(ValueError, match=f"{number} is not one of them; the nearest is {nearest}. .*rounded"):
            memory.store([(("d",), 0.5), (("e",), number)])
    assert memory.tensor.equal(before) and len(memory.vocabulary) == 13
    memory.save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="is not one of them"):
        Memory.load(tmp_path / "m.safetensors").store([(("d",), 0.25)])
    with open_memory(tmp_path / "m.safetensors") as opened, pytest.raises(ValueError, match="is not one of them"):
        opened.store([(("d",), 0.25)])
    assert memory.forget([(("a",), 0.25)]) == [(("a",), 0.25)]


def test_numbers_that_have_no_given_fillers_are_symbols():
    memory = Memory(OSC(64, 2), ["a"], OSC(64, 2).fillers(["a"]))
    memory.store([(("x",), 0.25), (("y",), "a")])
    assert memory.recall("x").value == 0.25


def test_values_between_levels_are_had_by_rounding_to_finer_ones():
    """A thousand levels take no more room in a memory than ten: they differ in what they answer alone."""
    scheme = OSC(96, 2, compact=True)
    fine = Memory(scheme, [i / 1000 for i in range(1001)], level(scheme, 1001, label="t"))
    values = [0.1234 + 0.07 * i for i in range(10)]
    fine.store([((i,), number / 1000) for i, number in enumerate(rounded(values, 0, 1, 1001).tolist())])
    assert [fine.recall(i).value for i in range(10)] == pytest.approx(values, abs=0.0006)
    assert [estimate(fine.recall(i, top=3)) for i in range(10)] == pytest.approx(values, abs=0.02)


def test_hours_go_around():
    scheme = OSC(96, 2, compact=True)
    hours = Memory(scheme, range(24), circular(scheme, 24, label="hour"))
    hours.store([((i,), i) for i in range(0, 24, 3)])
    assert [path for path, _ in hours.where(0, paths=[(i,) for i in range(24)])] == [(0,)]
    assert not hours.recognize(0, value=23) and not hours.recognize(0, value=1)


# Several levels under one path


@pytest.mark.parametrize("gap", [1, 2, 3, 5, 10, 20])
def test_two_levels_of_one_path_are_told_from_one_that_is_stored_twice(gap):
    """Their energy is nearly the same; of 21 levels neighbors are alike by 0.9. One of thirty may be taken amiss."""
    for scheme in (OSC(96, 2, compact=True), OSC(96, 2)):
        right = 0
        for seed in range(3):
            own = scheme.like(seed=seed)
            memory, low = Memory(own, range(21), level(own, 21, label="h")), [3 * i % (21 - gap) for i in range(10)]
            memory.store([((i,), value) for i, first in enumerate(low) for value in (first, first + gap)])
            found = memory.recall_sets([(i,) for i in range(10)])
            values = [{answer.value for answer in each} for each in found]
            right += sum(each == {first, first + gap} for first, each in zip(low, values, strict=True))
        assert right >= 29


def test_a_level_that_is_stored_again_is_not_taken_for_two(levels):
    levels.store([((2,), 2), ((8,), 8)])
    for path in (2, 4, 8):
        found = levels.recall_set(path)
        assert [answer.value for answer in found] == [path]
    assert levels.recall_set("nowhere") == []
