"""Two and three ranks answer as one process does: single questions, lists, sets and all paths together."""

import math
import pickle
from functools import cache

import pytest
import torch
from crew import crew_in

from carving import OSC, Memory, make

BOTH = pytest.mark.parametrize("count", [2, 3])


pytestmark = pytest.mark.xdist_group("ranks")  # in one process, so that torch is imported once for all ranks


@pytest.fixture(scope="module")
def crew(tmp_path_factory, once):
    once("ranks-asking")
    with crew_in(tmp_path_factory.mktemp("ranks")) as crew:
        yield crew


def filled(scheme, pairs=400, values=90, several=False):
    """A memory that is so full that some answers are wrong or unsure."""
    memory = Memory(scheme)
    memory.store(
        [((f"place {i % (pairs // 3)}" if several else f"place {i}",), f"value {i % values}") for i in range(pairs)]
    )
    return memory


PATHS = [(f"place {i}",) for i in range(50)] + [("nowhere", i) for i in range(10)]
MEMORIES = {
    "compact": lambda: filled(OSC(d=40, p=2, compact=True)),
    "contextual": lambda: filled(OSC(d=40, p=2, k1=5)),
    "HRR": lambda: filled(make("HRR", d=256), 60, 30),
    "settles": lambda: filled(make("MAP-B", d=256), 60, 30),
    "several": lambda: filled(OSC(d=60, p=2, compact=True), several=True),
    "few values": lambda: filled(OSC(d=30, p=2), 60, 2),
}  # made when they are asked for: every rank imports this file


@cache
def memory_of(name):
    return MEMORIES[name]()


def close(answers, wanted, unsure=1e-4):
    """The same values, and scores and probabilities to rounding."""
    assert len(answers) == len(wanted)
    for one, other in zip(answers, wanted, strict=True):
        assert one.value == other.value and one.found == other.found
        assert math.isclose(one.score, other.score, rel_tol=1e-4, abs_tol=1e-4)
        if not math.isnan(other.probability):
            assert math.isclose(one.probability, other.probability, rel_tol=1e-3, abs_tol=unsure)


def recalled(ranks, memory, how):
    return pickle.loads(memory).distributed(ranks.group).recall_many(PATHS, **how)


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("how", [{}, {"top": 4}, {"prior_empty": 0.0}, {"candidates": ["value 0", "value 1"]}], ids=str)
def test_ranks_answer_questions_as_one_process_does(crew, name, how):
    count = 2 if how else 3
    memory = memory_of(name)
    wanted = memory.recall_many(PATHS, **how)
    copy = pickle.dumps(memory)
    for given in crew(recalled, copy, how, ranks=count):
        if "top" not in how:
            close(given, wanted)
            continue
        for one, other in zip(given, wanted, strict=True):
            close(one, other, unsure=2e-3)  # the odds of all that is not listed are what float32 values of a difference


def recalled_sets(ranks, memory, how):
    return pickle.loads(memory).distributed(ranks.group).recall_sets(PATHS, **how)


@pytest.mark.parametrize("name", [name for name in MEMORIES if name != "settles"])
@pytest.mark.parametrize(
    "how", [{}, {"threshold": 0.01}, {"candidates": ["value 3", "value 0", "value 1"][1:]}], ids=str
)
def test_ranks_answer_with_sets_as_one_process_does(crew, name, how):
    count = 3 if how else 2
    memory = memory_of(name)
    wanted = memory.recall_sets(PATHS, **how)
    for given in crew(recalled_sets, pickle.dumps(memory), how, ranks=count):
        for one, other in zip(given, wanted, strict=True):
            near = {answer.value: answer.probability for answer in one}
            assert near.keys() == {answer.value for answer in other}
            for answer in other:
                assert math.isclose(near[answer.value], answer.probability, rel_tol=1e-3, abs_tol=1e-4)


def different_questions(ranks, memory):
    pickle.loads(memory).distributed(ranks.group).recall_many(PATHS[: 5 + ranks.rank])


def test_ranks_that_ask_differently_are_refused(crew):
    for _, words in crew.errors(different_questions, pickle.dumps(memory_of("compact")), ranks=2):
        assert words.startswith("All ranks must have the same questions")


def decoded(ranks, memory, paths):
    answers = pickle.loads(memory).distributed(ranks.group).decode(paths)
    return list(answers), answers.converged, answers.rounds, list(answers.paths)


JOINT = {
    "compact": lambda: (filled(OSC(d=26, p=2, compact=True), 150, 50), 150),
    "plain": lambda: (filled(OSC(d=26, p=2), 100, 50), 100),
    "several": lambda: (filled(OSC(d=40, p=2, compact=True), 150, 50, several=True), 50),
    "too full": lambda: (filled(OSC(d=14, p=2, compact=True), 200, 50), 200),
    "quantized": lambda: (filled(OSC(d=34, p=2, compact=True), 150, 50).quantize(2), 150),
}


@cache
def full_memory(name):
    return JOINT[name]()


@BOTH
@pytest.mark.parametrize("name", JOINT)
def test_ranks_decode_all_paths_together_as_one_process_does(crew, count, name):
    memory, places = full_memory(name)
    paths = [(f"place {i}",) for i in range(places) for _ in range(3 if name == "several" else 1)]
    wanted = memory.decode(paths)
    for answers, converged, rounds, asked in crew(decoded, pickle.dumps(memory), paths, ranks=count):
        assert converged == wanted.converged == (name != "too full")
        assert asked == paths
        if converged:
            assert rounds == wanted.rounds
            assert [answer.value for answer in answers] == [answer.value for answer in wanted]
            for one, other in zip(answers, wanted, strict=True):
                assert math.isclose(one.probability, other.probability, abs_tol=1e-3)


def test_fewer_paths_than_ranks_are_asked_by_each(crew):
    memory, _ = full_memory("compact")
    wanted = memory.decode(PATHS[:2])
    for answers, *_ in crew(decoded, pickle.dumps(memory), PATHS[:2]):
        close(answers, wanted)


def verified(ranks, memory, pairs, joint):
    outcome = pickle.loads(memory).distributed(ranks.group).verify(pairs, joint=joint)
    return outcome.total, outcome.correct, [(wrong.path, wrong.value) for wrong in outcome.wrong]


@pytest.mark.parametrize("joint", [False, True])
def test_ranks_verify_as_one_process_does(crew, joint):
    memory, _ = full_memory("compact")
    pairs = [((f"place {i}",), f"value {(i + (i == 7)) % 50}") for i in range(150)]
    wanted = memory.verify(pairs, joint=joint)
    for asked, right, wrong in crew(verified, pickle.dumps(memory), pairs, joint, ranks=2):
        assert (asked, right) == (wanted.total, wanted.correct)
        assert wrong == [(each.path, each.value) for each in wanted.wrong]


def trained_answers(ranks, memory):
    memory = pickle.loads(memory).distributed(ranks.group)
    return memory.recall_many(PATHS[:30]), memory.recall_sets(PATHS[:30])


def test_trained_fillers_are_those_of_every_rank(crew):
    scheme = OSC(d=100, p=2, compact=True)
    fillers = scheme.random(20, torch.Generator().manual_seed(5))
    memory = Memory(scheme, [f"value {i}" for i in range(20)], fillers)
    memory.store([(path, f"value {i % 20}") for i, path in enumerate(PATHS[:50])])
    wanted = memory.recall_many(PATHS[:30])
    assert all(answer.found for answer in wanted)
    for given, given_sets in crew(trained_answers, pickle.dumps(memory)):
        close(given, wanted)
        assert [[answer.value for answer in each] for each in given_sets] == [[answer.value] for answer in wanted]


def is_consolidated(ranks, memory, pairs, how):
    memory = pickle.loads(memory).distributed(ranks.group)
    return memory.consolidate(pairs, **how), memory.tensor, memory.recall_many(PATHS[:20])


def consolidated_where_one_cannot_read(ranks, memory, pairs):
    def given():
        yield from pairs
        if ranks.rank == 1:
            raise OSError("no more of it")

    return pickle.loads(memory).distributed(ranks.group).consolidate(given())


def test_what_one_rank_cannot_read_is_consolidated_by_none(crew):
    memory = Memory(OSC(d=24, k1=4, compact=True))
    pairs = [((f"place {i}",), f"value {i}") for i in range(20)]
    memory.store(pairs)
    errors = crew.errors(consolidated_where_one_cannot_read, pickle.dumps(memory), pairs)
    assert [kind for kind, _ in errors] == ["RankFailed", "OSError", "RankFailed"]
    assert all("no more of it" in words for _, words in errors)


@pytest.mark.parametrize("how", [{}, {"accuracy": 0.9, "bits": 4}], ids=str)
def test_ranks_consolidate_as_one_process_does(crew, how):
    memory = Memory(OSC(d=24, k1=4, compact=True))
    pairs = [((f"place {i}",), f"value {i}") for i in range(60)]
    memory.store(pairs)
    copy = pickle.dumps(memory)
    wanted = memory.consolidate(pairs, **how)
    given = crew(is_consolidated, copy, pairs, how)
    for outcome, tensor, answers in given:
        assert (outcome.before, outcome.after) == (wanted.before, wanted.after) and outcome.after > outcome.before
        assert torch.equal(tensor, given[0][1])
        if not how:  # the solver's path is the same for some steps, and then to where the same pairs are right
            assert [answer.value for answer in answers] == [answer.value for answer in memory.recall_many(PATHS[:20])]
