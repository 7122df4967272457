"""What a memory keeps from question to question, and when it is made anew."""

import copy
import pickle
from functools import partial, reduce

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, make
from carving.errors import BadValue
from carving.explore.scores import score_all
from carving.inference.likelihood import Evidence, Likelihood
from carving.inference.top_k import log_sum
from carving.memory.codebook import Codebook, Drawn
from carving.memory.pairs import BATCH
from carving.schemes.base import Candidates
from carving.symbols.codec import canonical_values
from carving.symbols.vocabulary import Vocabulary


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))])
def test_a_memory_that_was_asked_can_be_copied(copied):
    memory = Memory(OSC(30, 2, compact=True))
    memory.store({"a": "x", "b": "y"})
    expected = memory.recall("a")
    assert copied(memory).recall("a") == expected


def questions(memory):
    """Everything that is asked, in numbers."""
    paths = [(i,) for i in range(8)] + [("nowhere",)]
    answers = memory.recall_many(paths)
    answers += [answer for each in memory.recall_many(paths, top=3, prior_empty=0.2) for answer in each]
    answers += [
        memory.recall(0),
        memory.recall(1, prior_empty=0.9),
        memory.recall(2, candidates=["value 2", "value 1"]),
    ]
    answers += [memory.recognize(3, value="value 3"), memory.recognize(3, value="other")]
    answers += [answer for each in memory.recall_sets(paths) for answer in each]
    return [(answer.value, answer.score, answer.probability) for answer in answers]


@pytest.mark.parametrize("scheme", [OSC(12, 2), OSC(12, 2, compact=True), make("HRR", d=128), make("MAP-I", d=128)])
def test_a_changed_memory_answers_as_a_new_one_does(scheme):
    memory = Memory(scheme)
    memory.store([((i,), f"value {i}") for i in range(8)])
    changes = [
        lambda: None,
        lambda: memory.store([((i, "more"), "value 1") for i in range(30)]),
        lambda: setattr(memory, "tensor", memory.tensor * 2),
        lambda: setattr(memory, "tensor", memory.tensor * 0.3),
        lambda: setattr(memory, "counts", memory.counts * 3),
        lambda: setattr(memory, "counts", memory.counts.flip(0)),
        lambda: memory.store([((i, "new"), f"new {i}") for i in range(10)]),
        lambda: memory.forget([((0,), "value 0")]),
    ]
    for change in changes:
        questions(memory)  # so that everything is kept that is
        change()
        # A copy has kept nothing; it makes its own codes.
        assert_close([x[1:] for x in questions(memory)], [x[1:] for x in questions(memory.to())], rtol=1e-4, atol=1e-4)
        assert [x[0] for x in questions(memory)] == [x[0] for x in questions(memory.to())]


# Codes of compact fillers


def test_codes_are_made_for_several_questions_at_once_and_answer_alike():
    memory = Memory(OSC(30, 3, compact=True))
    memory.store([((i,), f"value {i}") for i in range(40)])
    codebook = memory._reader.codebook
    alone = [memory.recall(i) for i in range(8)]
    assert codebook._codes.shape[0] == 0
    again = memory.recall_many([(i,) for i in range(8)])
    assert codebook._codes.shape == (40, 5**3)
    assert [answer.value for answer in again] == [answer.value for answer in alone]
    for one, other in zip(again, alone, strict=True):
        assert_close((one.score, one.probability), (other.score, other.probability), rtol=1e-5, atol=1e-6)
    scheme = memory.scheme
    assert_close(codebook.ready(8).tensor, scheme.precompute(scheme.fillers([f"value {i}" for i in range(40)])).tensor)
    assert all(codebook.ready(count).tensor is codebook.ready(count).tensor for count in (1, 8))
    unit = torch.nn.functional.normalize(codebook.all().double(), dim=-1)
    assert_close(codebook.ready(1).tensor.double(), unit.flatten(1), rtol=1e-6, atol=1e-6)
    memory.store([(("new",), "value of its own")])
    assert memory.recall("new").value == "value of its own" and memory._reader.codebook._codes.shape[0] == 0
    assert [answer.value for answer in memory.recall_many([("new",), (3,)] * 4)] == ["value of its own", "value 3"] * 4
    assert memory._reader.codebook._codes.shape[0] == 41


def test_codes_take_a_workspace_at_most():
    memory = Memory(OSC(60, 2, compact=True, workspace=40 * 64 * 4))
    memory.store([((i,), f"value {i}") for i in range(40)])
    for count, codes in ((40, 40), (41, 0)):
        memory.store([((40,), "value 40")] if count == 41 else [((0,), "value 0")])
        values = [answer.value for answer in memory.recall_many([(i,) for i in range(count)])]
        assert values == [f"value {i}" for i in range(count)] and memory._reader.codebook._codes.shape[0] == codes


def test_ordinary_fillers_have_no_codes():
    memory = Memory(OSC(60, 2))
    memory.store([((i,), f"value {i}") for i in range(20)])
    assert (
        all(memory.recall(i).value == f"value {i}" for i in range(20)) and memory._reader.codebook._codes.shape[0] == 0
    )
    assert memory._reader.codebook.ready(100).tensor is memory._reader.codebook.all()


# Fillers of unit parts


@pytest.mark.parametrize(("d", "p", "k1"), [(20, 1, 4), (30, 2, 5), (20, 2, 2), (30, 3, 4), (12, 4, 3)])
@pytest.mark.parametrize("contexts", [1, 3, 40])
def test_unit_parts_match_as_their_fillers_do(d, p, k1, contexts, generator):
    osc = OSC(d, p, k1, compact=True, dtype=torch.float64)
    cores, fillers = torch.randn(contexts, *osc.facts.core_shape, generator=generator).double(), osc.fillers(range(50))
    unit = fillers / fillers.norm(dim=-1, keepdim=True)
    codes = torch.stack([reduce(torch.kron, parts) for parts in unit])
    where = osc.contexts([(i,) for i in range(contexts)])
    expected = cores.flatten(1) @ codes.mT
    forms = [fillers, Candidates(codes, "codes")]
    if osc.facts.part_size:
        forms.append(Candidates(unit.flatten(1), "parts"))
    for candidates in forms:
        assert_close(osc.match(cores, where, candidates), expected)


def test_large_vocabularies_keep_no_unit_parts():
    memory = Memory(OSC(30, 2, compact=True, workspace=40 * 2 * 5 * 4))
    memory.store([((i,), f"value {i}") for i in range(41)])
    assert (
        memory.recall(40).value == "value 40"
        and memory._reader.codebook.ready(1).tensor is memory._reader.codebook.all()
    )


def test_fillers_of_values_that_come_again_are_drawn_once_in_a_store(monkeypatch):
    drawn = []
    original = OSC._fillers
    monkeypatch.setattr(OSC, "_fillers", lambda scheme, words: drawn.append(len(words)) or original(scheme, words))
    memory, plain = Memory(OSC(12, 2)), Memory(OSC(12, 2))
    pairs = [((i,), f"value {i % 30}") for i in range(3 * BATCH)]
    memory.store(pairs)
    assert sum(drawn) == 30
    expected = plain.scheme.trace([path for path, _ in pairs], plain.scheme.fillers([value for _, value in pairs]))
    assert_close(memory.tensor, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("room", [1, 20, 10**6])
def test_fillers_are_right_whatever_a_workspace_holds(room):
    codebook = Codebook(OSC(12, 2, workspace=room * 24 * 4), Vocabulary(["a", "b"]))
    drawn, scheme = Drawn(codebook), codebook.scheme
    for labels in (
        ["a", "c", "a"],
        [f"{i}" for i in range(15)],
        ["c", "3", "new", "3"],
        ["a"],
        list("uvwxyzabcdefghijk"),
    ):
        assert torch.equal(drawn.named(canonical_values(labels)), scheme.fillers(labels).contiguous())


# What vanishes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_exponentials_are_right_where_most_vanish(dtype, generator):
    scores = torch.randn(20, 500, generator=generator, dtype=dtype) * 300
    scores[3, 1:], scores[5, ::2] = -torch.inf, -torch.inf
    found = log_sum(scores, scores.amax(1, keepdim=True))
    assert_close(found.double(), scores.double().logsumexp(1), rtol=1e-6, atol=1e-5)


def test_what_memories_keep_is_kept_in_inference_mode_and_seen_to_change():
    with torch.inference_mode():
        memory = Memory(OSC(30, 2, compact=True))
        memory.store([((i,), f"value {i}") for i in range(10)])
        before = memory._reader.odds(0.5, range(10))
        assert memory._reader.odds(0.5, range(10)) is before
        memory.tensor *= 2
        assert memory._reader.odds(0.5, range(10)).norm == pytest.approx(4 * before.norm)


# Odds


@pytest.mark.parametrize("contexts", [1, 5])
@pytest.mark.parametrize("energies", [(1, 1), (5, 1), (1, 7), (5, 7)])
def test_log_odds_are_the_formula(contexts, energies, generator):
    """(<M, b> - |b|^2 / 2) / variance + prior, one after the other, in double precision."""
    energies = (min(contexts, energies[0]), energies[1])
    inner = torch.randn(contexts, 7, generator=generator)
    energy = 0.5 + torch.rand(energies, generator=generator)
    odds = Likelihood(0.1 + torch.rand(9, generator=generator), torch.randn(9, generator=generator), 2.0)
    noise = 1 + torch.rand(contexts, 7, generator=generator)
    indices = torch.tensor([8, 0, 3, 3, 1, 7, 2])
    for which, more, along in (
        (slice(2, 9), 0.0, None),
        (indices, 0.0, None),
        (slice(0, 7), 0.3, None),
        (slice(0, 7), torch.full((contexts, 1), 0.2), None),
        (slice(0, 7), 0.0, noise),
    ):
        found = odds.log_odds(Evidence(inner, energy, along), which, more)
        variance, prior = odds.variance[which].double(), odds.log_prior[which].double()
        if along is not None:
            variance = variance * along.double() / 2.0
        expected = (inner.double() - energy.double() / 2) / (variance + more) + prior
        assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scheme", [OSC(40, 2), OSC(40, 2, compact=True), make("HRR", d=256)])
def test_fillers_that_take_too_much_memory_are_created_in_chunks_or_refused(scheme, monkeypatch):
    paths = [(i,) for i in range(8)] + [("nowhere",)]

    def stored():
        memory = Memory(scheme, keep_paths=True)
        memory.store([((i,), f"value {i % 25}") for i in range(30)] + [((3,), "value 9")])
        return memory

    def answered(memory):
        answers = memory.recall_many(paths) + [answer for each in memory.recall_many(paths, top=3) for answer in each]
        answers += [memory.recall(1), *memory.recall_set(3), *memory.recall_set(3, candidates=["value 3", "value 9"])]
        answers += [answer for each in memory.recall_sets(paths) for answer in each]
        return [(answer.value, answer.found) for answer in answers], [
            number for answer in answers for number in (answer.score, answer.probability)
        ]

    values, numbers = answered(stored())
    memory = stored()
    monkeypatch.setattr("carving.memory.codebook.MAX_FILLER_BYTES", 1)
    again, same = answered(memory)
    assert again == values and same == pytest.approx(numbers, rel=1e-4, abs=1e-5)
    for refused in (memory.decode, memory.consolidate, partial(score_all, memory, (1,))):
        with pytest.raises(BadValue, match="fillers of all 25 values take more than"):
            refused()
    assert len(memory.decode(candidates=["value 1", "value 2"])) == 31
