"""Consolidated memories: single answers that are right, probabilities that hold, and what they refuse."""

import json
import pickle
import warnings

import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

import carving
from carving import OSC, Memory, QuantizedMemory, make
from carving.cli import app
from carving.errors import BadType, BadValue, Overfull
from carving.lab.measures.calibration import error
from carving.memory import consolidation
from carving.storage.tensorfile import BadFile

PAIRS = [((f"key {i}",), f"value {7 * i % 200}") for i in range(200)]


def of(pairs=PAIRS, scheme=None, **options):
    """A memory of these pairs, in so few cells that sums fail."""
    memory = Memory(scheme or OSC(45, 2, 4, compact=True), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        memory.store(pairs)
    return memory


@pytest.fixture(scope="module")
def solved():
    """A consolidated memory; tests take copies."""
    memory = of(keep_paths=True)
    memory.consolidate(PAIRS)
    return memory


def named(memory, pairs=PAIRS):
    answers = memory.recall_many([path for path, _ in pairs], prior_empty=0.0)
    return sum(answer.value == value for answer, (_, value) in zip(answers, pairs, strict=True))


def test_all_single_questions_are_right_afterwards():
    memory = of()
    before = named(memory)
    outcome = memory.consolidate(PAIRS)
    assert before < 120 and (outcome.before, outcome.after, outcome.pairs) == (before, 200, 200) and outcome
    assert named(memory) == 200 and memory.verify(PAIRS) and memory.is_consolidated
    assert repr(memory).endswith(", consolidated") and memory.pairs == 200


def test_a_document_and_pairs_that_come_twice_are_taken():
    memory = of()
    assert memory.consolidate({path[0]: value for path, value in PAIRS}).after == 200
    again = of()
    assert again.consolidate(PAIRS + PAIRS[:50]).pairs == 200 and torch.equal(again.tensor, memory.tensor)


def test_progress_counts_right_answers():
    steps = []
    of().consolidate(PAIRS, on_progress=steps.append)
    assert sum(steps) == 200 and min(steps) >= 0


def test_a_memory_that_answers_already_stays_a_sum():
    memory = of(scheme=OSC(200, 2))
    tensor = memory.tensor
    outcome = memory.consolidate(PAIRS)
    assert outcome and outcome.evaluations == 0 and not memory.is_consolidated and torch.equal(memory.tensor, tensor)


def test_where_solving_is_no_better_the_memory_stays_as_it_was():
    memory = of(scheme=OSC(8, 2, 2, compact=True))
    state = memory._reader
    outcome = memory.consolidate(PAIRS)
    assert outcome.after >= outcome.before and not outcome
    assert memory._reader is state or named(memory) > outcome.before


@pytest.mark.parametrize("name", ["TPR", "HRR", "FHRR", "HLB", "MAP-I", "VTB", "MBAT", "GHRR"])
def test_memories_of_other_schemes_consolidate_too(name):
    sizes = {"TPR": 30, "VTB": 900, "FHRR": 600, "GHRR": 600}
    memory = of(PAIRS[:90], make(name, d=sizes.get(name, 900)))
    outcome = memory.consolidate(PAIRS[:90])
    assert outcome.before < 90 == outcome.after == named(memory, PAIRS[:90])


def test_kept_paths_are_decoded_together_first():
    memory = of(keep_paths=True)
    assert named(memory) < 120
    assert memory.consolidate().after == 200 and named(memory) == 200
    other = of()
    assert other.consolidate(paths=[path for path, _ in PAIRS]).after == 200


def test_what_cannot_be_decoded_is_not_consolidated():
    memory = of(scheme=OSC(12, 2, 3, compact=True), keep_paths=True)
    state = memory._reader
    with pytest.raises(BadValue, match="could not be decoded"):
        memory.consolidate()
    assert memory._reader is state


@pytest.mark.parametrize(
    ("pairs", "way_out"),
    [
        ([*PAIRS, (("key 3",), "value 0")], "key 3.* has two values"),
        ([*PAIRS, (("key 3",), "never")], "'never' .* is not in the memory"),
        ([*PAIRS, (("elsewhere",), "value 0")], "no value is stored under"),
        (iter(()), "No pairs to consolidate"),
    ],
)
def test_contradicting_and_strange_pairs_are_refused(pairs, way_out):
    memory = of(keep_paths=True)
    state = memory._reader
    with pytest.raises(BadValue, match=way_out):
        memory.consolidate(pairs)
    assert memory._reader is state


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"accuracy": 0.0}, BadValue),
        ({"accuracy": 1.5}, BadValue),
        ({"bits": 5}, BadValue),
        ({"accuracy": "all"}, BadType),
        ({"paths": [("key 3",)]}, BadValue),
    ],
)
def test_wishes_that_cannot_be_are_refused(wrong, kind):
    memory = of()
    state = memory._reader
    with pytest.raises(kind):
        memory.consolidate(PAIRS, **wrong)
    assert memory._reader is state


def test_memories_that_settle_or_are_empty_or_not_finite_are_refused():
    with pytest.raises(BadValue, match="not a plain sum"):
        of(PAIRS[:5], make("MAP-B", d=200)).consolidate(PAIRS[:5])
    with pytest.raises(BadValue, match="memory is empty"):
        Memory(OSC(20)).consolidate(PAIRS)
    memory = of()
    memory._reader.tensor.fill_(torch.inf)
    with pytest.raises(BadValue, match="finite"):
        memory.consolidate(PAIRS)


def test_an_interrupt_leaves_the_memory_as_it_was():
    memory = of()
    state, tensor = memory._reader, memory.tensor.clone()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.consolidate(PAIRS, on_progress=interrupt)
    assert memory._reader is state and torch.equal(memory.tensor, tensor)


def test_an_error_while_fitting_leaves_the_memory_as_it_was(monkeypatch):
    memory = of()
    state = memory._reader

    def fail(*_):
        raise RuntimeError("no fit")

    monkeypatch.setattr(consolidation, "fit_levels", fail)
    with pytest.raises(RuntimeError):
        memory.consolidate(PAIRS)
    assert memory._reader is state


MANY = [((i,), i) for i in range(2000)]


@pytest.fixture(scope="module")
def large():
    """A consolidated memory of many pairs: those at odd places are solved for, but not fitted to."""
    memory = of(MANY, OSC(150, 2, 5, compact=True))
    assert memory.consolidate(MANY).after == 2000
    return memory


# The error of 15 bins of 2,000 questions is 0.0165 with a deviation of 0.003 over seeds, most of it by chance alone.


def test_probabilities_hold_for_questions_that_nothing_was_fitted_to(large):
    asked = MANY[1::2]
    answers = large.recall_many([path for path, _ in asked] + [("nowhere", i) for i in range(1000)])
    right = [answer.value == value for answer, (_, value) in zip(answers[:1000], asked, strict=True)]
    right += [not answer for answer in answers[1000:]]
    assert error(probabilities(answers), torch.tensor(right).double()) < 0.028


def test_pairs_are_recognized_as_probably_as_they_are_there(large):
    there, other = MANY[1::2], [((i,), (i + 5) % 2000) for i in range(1, 1000, 2)]
    absent = [(("nowhere", i), i) for i in range(500)]
    answers = large.recognize_many(there + other + absent)
    truth = torch.cat([torch.ones(1000), torch.zeros(1000)]).double()
    assert error(probabilities(answers), truth) < 0.02


@pytest.mark.slow
def test_probabilities_hold_near_the_limit():
    said, right, weighed = list[float](), list[bool](), list[float]()
    for seed in range(8):  # a single memory's error is 0.02 by chance
        pairs = [(("there", i), (7 * i + seed) % 1000) for i in range(1000)]
        memory = of(pairs, OSC(85, 2, 4, compact=True, seed=seed))  # 7.2 cells a pair
        assert memory.consolidate(pairs).after >= 990
        asked, absent = pairs[1::2], [("nowhere", i) for i in range(500)]
        answers = memory.recall_many([path for path, _ in asked] + absent)
        said += [answer.probability for answer in answers]
        right += [answer.found and answer.value == value for answer, (_, value) in zip(answers, asked, strict=False)]
        right += [not answer for answer in answers[500:]]
        others = [(path, (value + 5) % 1000) for path, value in asked[:250]] + [(path, 3) for path in absent[:250]]
        weighed += [answer.probability for answer in memory.recognize_many(asked + others)]
    assert error(torch.tensor(said).double(), torch.tensor(right).double()) <= 0.02
    truth = torch.cat([torch.ones(500), torch.zeros(500)]).repeat(8)
    assert error(torch.tensor(weighed).double(), truth.double()) <= 0.02


def test_answers_among_some_are_as_probable_as_they_are_right(large):
    asked = MANY[1::2]
    some = [value for _, value in asked[:300]]
    answers = large.recall_many(
        [path for path, _ in asked[:300]] + [("nowhere", i) for i in range(300)], candidates=some
    )
    right = [answer.value == value for answer, value in zip(answers[:300], some, strict=True)]
    right += [not answer for answer in answers[300:]]
    # The error of 600 questions is up to 0.04 by chance alone.
    assert error(probabilities(answers), torch.tensor(right).double()) < 0.06 and sum(right) > 500


def probabilities(answers):
    return torch.tensor([answer.probability for answer in answers]).double()


def test_what_is_stored_later_is_said_to_blur_what_was_consolidated(solved):
    memory = solved.to()
    with pytest.warns(Overfull, match="noise to the consolidated ones: .* on 200 pairs"):
        memory.store([(("later", i), f"value {i}") for i in range(40)])
    said, true = memory.predicted_accuracy(), named(memory) / 200
    # Four deviations of 200 draws, and what lies between levels
    assert said < 0.99 and abs(said - true) < 0.12
    assert solved.predicted_accuracy(40) == pytest.approx(said) and solved.predicted_accuracy() == 1.0
    assert memory.consolidate([*PAIRS, *((("later", i), f"value {i}") for i in range(40))])
    assert memory.predicted_accuracy() == 1.0


def test_nothing_is_forgotten_and_nothing_asked_together(solved):
    memory = solved.to()
    state = memory._reader
    for attempt in (lambda: memory.forget(PAIRS[:1]), memory.decode, lambda: memory.verify(PAIRS, joint=True)):
        with pytest.raises(BadValue, match=r"no longer the sum of its pairs\. .*Memory.like"):
            attempt()
    assert memory._reader is state and not Memory.like(memory).is_consolidated


def test_a_sum_is_added_as_noise_and_two_solved_ones_are_refused(solved):
    more = of([(("more", i), f"value {i}") for i in range(30)], keep_paths=True)
    for one, other in ((solved, more), (more, solved)):
        with pytest.warns(Overfull, match="noise"):
            both = one + other
        assert both.is_consolidated and both.pairs == 230 and both.predicted_accuracy() < 1
    with pytest.raises(BadValue, match="two consolidated memories"):
        solved + solved.to()


def test_sets_and_several_answers_begin_with_the_best(solved):
    path, value = PAIRS[3]
    best, *others = solved.recall(*path, top=3)
    single = solved.recall(*path)
    assert best.value == value == single.value and best.probability == pytest.approx(single.probability)
    assert all(best.probability >= other.probability for other in others)
    assert [answer.value for answer in solved.recall_set(*path, threshold=0.3)][:1] == [value]
    assert solved.recall(*path, candidates=[value, "value 1"]).value == value


def test_what_it_holds_can_be_stored_in_a_larger_one(solved):
    bigger, found = solved.grow(pairs=400, scheme="HLB", force=True)
    assert not bigger.is_consolidated and found.converged is None and named(bigger) >= 190


def test_copies_and_files_stay_consolidated(solved, tmp_path):
    file = tmp_path / "memory.safetensors"
    solved.save(file)
    for copy in (Memory.load(file), pickle.loads(pickle.dumps(solved)), solved.to(dtype=torch.float64)):
        assert copy.is_consolidated and copy._reader.calibration == solved._reader.calibration and named(copy) == 200
    with safe_open(str(file), "pt") as opened:
        assert "solved" in opened.metadata()


def test_an_opened_file_takes_pairs_but_is_not_consolidated(solved, tmp_path):
    file = tmp_path / "memory.safetensors"
    solved.save(file)
    with carving.open(file) as opened:
        with pytest.raises(BadValue, match=r"Memory\.load"):
            opened.consolidate(PAIRS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Overfull)
            opened.store([(("later", i), f"value {i}") for i in range(20)])
        assert opened._reader.calibration.added == 20
    assert Memory.load(file)._reader.calibration.added == 20
    with carving.open(file) as opened:
        assert opened.compact() >= 0
    assert Memory.load(file)._reader.calibration.added == 20


def test_few_bits_are_as_many_different_numbers():
    memory = of()
    assert memory.consolidate(PAIRS, bits=4).after == 200
    assert len(memory.tensor.unique()) <= 16 and named(memory) == 200


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_command_consolidates_a_file(tmp_path):
    file, facts = tmp_path / "memory.safetensors", tmp_path / "facts.json"
    facts.write_text(json.dumps({path[0]: value for path, value in PAIRS}))
    of(keep_paths=True).save(file)
    outcome = json.loads(run("consolidate", file, facts, "--json").stdout)
    assert outcome["correct"] == outcome["total"] == 200 > outcome["before"] and outcome["consolidated"]
    assert "consolidated" in run("info", file).stdout and json.loads(run("info", file, "--json").stdout)["consolidated"]
    assert run("verify", file, facts).exit_code == 0
    refused = run("forget", file, facts)
    assert refused.exit_code == 2 and "Memory.like" in refused.stderr


def test_the_command_leaves_its_file_alone_where_another_is_wanted(tmp_path):
    file, other = tmp_path / "memory.safetensors", tmp_path / "other.safetensors"
    of(keep_paths=True).save(file)
    before = file.read_bytes()
    assert run("consolidate", file, "--output", other, "--bits", 8).exit_code == 0
    assert file.read_bytes() == before and Memory.load(other).is_consolidated
    assert run("consolidate", file, "--bits", 7).exit_code == 2 and file.read_bytes() == before


# Quantized: the cells that were solved for, packed


@pytest.fixture(scope="module")
def packed():
    """A memory that was consolidated in four bits a cell; tests take copies."""
    memory = of(keep_paths=True)
    assert memory.consolidate(PAIRS, bits=4).after == 200
    return memory


def test_what_was_consolidated_in_few_bits_is_quantized_without_loss(packed, tmp_path):
    quantized, asked = packed.quantize(4), [*(path for path, _ in PAIRS), *((f"nothing {i}",) for i in range(50))]
    assert (
        quantized.bits == 4 and quantized.is_consolidated and repr(quantized).endswith("4 bits per cell, consolidated")
    )
    assert torch.equal(quantized.tensor, packed.tensor) and named(quantized) == 200
    for one, other in zip(quantized.recall_many(asked), packed.recall_many(asked), strict=True):
        assert (one.value, one.found) == (other.value, other.found)
        assert one.probability == pytest.approx(other.probability, abs=1e-4)  # which are fitted in single precision
    quantized.save(tmp_path / "quantized")
    loaded = QuantizedMemory.load(tmp_path / "quantized")
    assert torch.equal(loaded.tensor, quantized.tensor) and loaded.recall_many(asked) == quantized.recall_many(asked)
    assert loaded.recognize_many(PAIRS) == quantized.recognize_many(PAIRS)
    assert loaded.recall_set(*asked[3]) == quantized.recall_set(*asked[3])
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "quantized").read_bytes()
    cells = 45 * 45 * 4 / 8
    quantized.save(tmp_path / "bare", vocabulary=False)
    assert cells < (tmp_path / "bare").stat().st_size < cells + 4 * 26 * 7 + 2600  # paths, and what a header says
    assert named(QuantizedMemory.load(tmp_path / "bare", vocabulary=packed.vocabulary)) == 200


def test_a_quantized_memory_that_was_consolidated_is_unsealed_without_paths(packed):
    back = packed.quantize("auto").to_memory()
    assert back.is_consolidated and torch.equal(back.tensor, packed.tensor) and back.paths() == packed.paths()
    back.store([(("another",), "value 1")])
    with pytest.raises(BadValue, match="at full precision"):  # whose numbers lie in cells no longer
        back.quantize(4)
    with pytest.raises(BadValue, match="is no longer the sum"):
        packed.quantize(4).decode()
    with pytest.raises(BadValue, match="to_memory"):
        packed.quantize(4).store(PAIRS)


def test_what_is_consolidated_whole_is_consolidated_again_without_its_pairs(monkeypatch):
    memory = of(scheme=OSC(41, 2, 5, compact=True), keep_paths=True)
    assert memory.consolidate(PAIRS).after == 200
    answers = memory.recall_many([path for path, _ in PAIRS], prior_empty=0.0)
    assert sum(answer.probability for answer in answers) < 0.995 * 200  # which says less than is known
    with monkeypatch.context() as strict:
        strict.setattr(consolidation, "MIN_DECODED_PROBABILITY", 0.999)
        assert memory.consolidate(bits=4).after == 200 and memory.quantize(4).bits == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        memory.store({f"new {i}": f"value {i}" for i in range(16)})
    with pytest.raises(BadValue, match="could not be decoded"):
        memory.consolidate()
    with pytest.raises(BadValue, match=r"or changed since, .* consolidate\(pairs, bits=4\)"):
        memory.quantize(4)


def test_only_the_bits_that_were_solved_for_are_quantized(packed, solved, tmp_path):
    with pytest.raises(BadValue, match=r"bits must be 4, .* got 2"):
        packed.quantize(2)
    with pytest.raises(BadValue, match=r"at full precision, .* consolidate\(pairs, bits=4\)"):
        solved.quantize("auto")
    packed.save(tmp_path / "memory", dtype=torch.float16)
    rounded = Memory.load(tmp_path / "memory")
    with pytest.raises(BadValue, match="tensor was changed since"):
        rounded.quantize(4)
    packed.save(tmp_path / "whole")
    assert torch.equal(Memory.load(tmp_path / "whole").quantize(4).tensor, packed.tensor)
    assert packed.quantize().bits == 4  # those that it was solved for, unless others are wished


@pytest.mark.parametrize("name", ["FHRR", "HLB"])
def test_cells_of_other_schemes_are_packed_too(name):
    memory = of(PAIRS[:60], make(name, d=600))
    assert memory.consolidate(PAIRS[:60], bits=8).after == 60
    assert torch.equal(memory.quantize(8).tensor, memory.tensor) and named(memory.quantize(8), PAIRS[:60]) == 60


def test_quantized_files_of_consolidated_memories_are_read_whole_or_not_at_all(packed, tmp_path):
    file = tmp_path / "file"
    packed.without_paths().quantize(4).save(file, vocabulary=False)
    whole = file.read_bytes()
    for place in range(0, len(whole), 41):
        for changed in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]):
            file.write_bytes(changed)
            with pytest.raises(BadFile):
                QuantizedMemory.load(file, vocabulary=range(3))


def test_the_commands_quantize_what_was_consolidated(packed, tmp_path):
    memory, quantized, back = tmp_path / "memory", tmp_path / "quantized", tmp_path / "back"
    packed.save(memory)
    assert run("quantize", memory, "-o", quantized, "--bits", 2).exit_code == 2 and not quantized.exists()
    told = run("quantize", memory, "-o", quantized)  # in the bits that it was solved for
    assert told.exit_code == 0 and "Consolidated: expected accuracy" in told.output
    assert json.loads(run("info", quantized, "--json").output)["consolidated"]
    assert "value 21" in run("ask", quantized, "key 3", "--prior-empty", 0).output
    assert run("decode", quantized, "-o", back).exit_code == 0 and Memory.load(back).is_consolidated
