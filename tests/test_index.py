"""The index of compact fillers: its cells, what is looked at for a question, how surely, and its file."""

import errno
import json
import math
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from carving import OSC, Memory, Vocabulary
from carving.cli import app
from carving.index import BucketIndex, CandidateIndex
from carving.index.buckets import INT8_UNIT, Probe, Segment
from carving.index.directions import CURVE_BUCKETS, RecallCurve, directions, directions_per_component, merits
from carving.index.file import read_index
from carving.index.ranking import SHORTLIST
from carving.inference.likelihood import Evidence
from carving.inference.top_k import best_of

VALUES, PAIRS = 20_000, 230


def memory_of(scheme=None, values=VALUES, pairs=PAIRS, paths_of=lambda i: (f"key {i}",)):
    """A memory of known values, as likely as each other beforehand, and what its paths hold."""
    memory = Memory(scheme or OSC(100, 2, compact=True), (f"word {i}" for i in range(values)))
    chosen = torch.randint(values, (pairs,), generator=torch.Generator().manual_seed(1)).tolist()
    held = [(paths_of(i), f"word {value}") for i, value in enumerate(chosen)]
    memory.store(held)
    memory.counts = torch.full((values,), pairs / values, dtype=torch.float64)
    return memory, held


@pytest.fixture(scope="module")
def asked():
    memory, held = memory_of()
    paths = [path for path, _ in held]
    return memory, held, memory.recall_many(paths, recall_target=1), memory.recall_many(paths, recall_target=0.999)


@pytest.mark.parametrize(("p", "k1", "each"), [(1, 5, 7), (2, 5, 6), (3, 4, 4), (4, 3, 3)])
def test_the_merit_of_a_cell_is_its_middles_score_and_what_lies_along_each_direction(p, k1, each):
    ways, core = directions(p, k1, each), torch.randn((k1,) * p, generator=torch.Generator().manual_seed(p))
    assert torch.allclose(ways.norm(dim=2), torch.ones(p, each), atol=1e-6)
    found, letters = merits(core.unsqueeze(0), ways.unsqueeze(0))[0], "abcd"[:p]
    for cell, numbers in enumerate(product(range(each), repeat=p)):
        middle = [ways[i, number] for i, number in enumerate(numbers)]
        score = torch.einsum(f"{letters},{','.join(letters)}->", core, *middle)
        along = [torch.tensordot(core, vector, dims=([i], [0])).norm() for i, vector in enumerate(middle)]
        assert math.isclose(found[cell], score + (sum(along) if p > 1 else 0), abs_tol=1e-5)
    others = torch.randn((2, *(k1,) * p), generator=torch.Generator().manual_seed(0))
    both = merits(torch.stack([core, others[0]]), torch.stack([ways, directions(p, k1, 2 * each)[:, :each]]))
    assert torch.allclose(both[0], found, atol=1e-5)  # each core has directions of its own


@pytest.mark.parametrize("scheme", [OSC(60, 2, compact=True), OSC(30, 3, compact=True), OSC(40, 1, compact=True)])
def test_every_label_is_in_the_cell_of_its_nearest_directions_however_the_index_grew(scheme):
    words = Vocabulary(range(3_000))
    grown = BucketIndex.of(scheme, words.first(1_200))
    for count in (1_201, 1_500, 2_900, 3_000):
        grown = grown.extended(words.first(count))
    once = BucketIndex(scheme, grown.each).extended(words)
    assert len(grown) == len(once) == 3_000 and len(grown.segments) > 1
    joined = Segment.merged(grown.segments)
    for one, other in zip(vars(joined).values(), vars(once.segments[0]).values(), strict=True):
        assert np.array_equal(one, other)
    units = torch.nn.functional.normalize(scheme.fillers(range(3_000)), dim=2)
    near = [(units[:, i] @ once.ways[i].mT).argmax(1) for i in range(scheme.p)]
    cells = sum(number * once.each ** (scheme.p - 1 - i) for i, number in enumerate(near))
    rows = torch.from_numpy(joined.order).long()
    assert torch.equal(rows.sort().values, torch.arange(3_000))
    assert torch.equal(cells[rows], torch.repeat_interleave(torch.from_numpy(np.diff(joined.starts))))
    assert (units[rows].flatten(1) * INT8_UNIT - torch.from_numpy(joined.components)).abs().max() <= 0.5 + 1e-4


def test_cells_hold_a_few_and_are_not_too_many():
    assert [directions_per_component(10**7, p) for p in (1, 2, 3, 4)] == [2**20, 2**10, 102, 32]
    assert directions_per_component(1, 2) == 2 and 200 < directions_per_component(200_000, 2) < 230
    grown = BucketIndex.of(OSC(20, 2, compact=True), Vocabulary(range(100))).extended(Vocabulary(range(2_000)))
    assert (
        grown.each == directions_per_component(2_000, 2) and len(grown.segments) == 1
    )  # such cells would be too large


@pytest.mark.parametrize("scheme", [OSC(60, 2, compact=True), OSC(30, 3, compact=True)])
def test_looking_further_sees_every_filler_once_the_promising_first(scheme):
    index = BucketIndex.of(scheme, Vocabulary(range(4_000)))
    contexts = scheme.contexts([("a",)])
    core = scheme.read(scheme.trace([("a",)], [1_234]), contexts)
    look, seen, scores = Probe(index, core[0]), [], []
    for share in (0.01, 0.1, 0.5, 1.0):
        rows, found = look.further(share)
        seen.append(rows)
        scores.append(found)
        assert len(np.concatenate(seen)) == pytest.approx(share * 4_000, rel=0.5)
    assert 1_234 in np.concatenate(seen[:2]) and np.array_equal(np.sort(np.concatenate(seen)), np.arange(4_000))
    exact = scheme.match(core, contexts, scheme.fillers(range(4_000)))[0]
    off = torch.cat(scores) - exact[np.concatenate(seen)]
    assert off.abs().max() < scheme.p * math.sqrt(scheme.k1) / (2 * INT8_UNIT) * core.norm()  # by Cauchy-Schwarz


def test_an_index_answers_as_a_scan_with_its_probabilities(asked):
    _, held, scanned, probed = asked
    right = [answer.value == value for answer, (_, value) in zip(scanned, held, strict=True)]
    same = [one.value == other.value for one, other in zip(scanned, probed, strict=True)]
    assert 0.9 < sum(right) / PAIRS < 1  # a load at which something can go wrong
    kept = sum(r and s for r, s in zip(right, same, strict=True)) / sum(right)
    assert kept >= 0.999 - 4 * math.sqrt(0.001 / PAIRS)
    off = [abs(one.probability - other.probability) for one, other in zip(scanned, probed, strict=True)]
    assert sum(off) / PAIRS < 0.01
    for one, other, alike in zip(scanned, probed, same, strict=True):
        assert not alike or not one.found or math.isclose(one.score, other.score, abs_tol=1e-4)


def test_probabilities_of_an_index_are_as_often_right_as_they_say(asked):
    memory, held, _, probed = asked
    absent = memory.recall_many([("nothing", i) for i in range(100)], recall_target=0.999)
    cases = [(a.probability, a.value == value) for a, (_, value) in zip(probed, held, strict=True)]
    cases += [(a.probability, not a.found) for a in absent]
    chances, right = (torch.tensor(each, dtype=torch.float64) for each in zip(*cases, strict=True))
    spread = math.sqrt(float((chances * (1 - chances)).sum())) / len(cases)
    assert abs(float((chances - right).mean())) < 3 * spread + 0.005
    assert sum(not a.found for a in absent) >= 92  # 98 of 100, minus four deviations of the binomial distribution


def test_theory_tells_how_much_must_be_looked_at():
    memory, held = memory_of(values=5_000, pairs=300, scheme=OSC(100, 2, compact=True, seed=3))
    scheme, state = memory.scheme, memory._reader
    index, contexts = state.codebook.index(), scheme.contexts([path for path, _ in held])
    cores, noise = scheme.read(memory.tensor, contexts), math.sqrt(300) / 100
    known = RecallCurve.of(2, scheme.k1, index.each, noise, 5_000)
    codes = scheme.precompute(scheme.fillers(memory.vocabulary)).tensor
    best = best_of(cores.flatten(1) @ codes.mT, 1).indices[:, 0].tolist()
    rows = [memory.vocabulary.find(value) for _, value in held]
    cells = torch.repeat_interleave(torch.from_numpy(np.diff(index.segments[0].starts)))
    cell_of = torch.empty(5_000, dtype=torch.int32)
    cell_of[torch.from_numpy(index.segments[0].order).long()] = cells
    ranks = []
    for core, row in zip(cores, rows, strict=True):
        found = merits(core.unsqueeze(0), index.ways.unsqueeze(0))[0]
        ranks.append(float((found > found[cell_of[row]]).float().mean()))
    ranks, right = torch.tensor(ranks), torch.tensor([one == other for one, other in zip(best, rows, strict=True)])
    for share in (0.01, 0.05, 0.2):
        missed = known.missed(share)
        assert (
            abs(float((ranks >= share).double().mean()) - missed) < 4 * math.sqrt(missed * (1 - missed) / 300) + 0.005
        )
    for wish in (0.8, 0.95):
        within = float((ranks[right] <= known.share_for(wish)).double().mean())
        assert wish - 4 * math.sqrt(wish * (1 - wish) / 300) < within
    assert known.share_for(0.5) < known.share_for(0.99) and known.missed(1.0) < 1 / CURVE_BUCKETS


def test_contexts_of_several_values_and_lists_of_answers_are_as_by_a_scan():
    memory, held = memory_of(values=3_000, pairs=60, paths_of=lambda i: (f"key {i // 2}",))
    paths = [(f"key {i}",) for i in range(30)]
    for top in (None, 3):
        scanned, probed = (
            memory.recall_many(paths, top=top, recall_target=recall_target) for recall_target in (1, 0.999)
        )
        for one, other in zip(scanned, probed, strict=True):
            one, other = ([one], [other]) if top is None else (one[:2], other[:2])
            assert [answer.value for answer in one] == [answer.value for answer in other]
            assert [a.probability for a in one] == pytest.approx([a.probability for a in other], abs=0.01)
    assert memory.recall("key 0", top=5_000, recall_target=0.9)[0].value in {value for _, value in held[:2]}
    assert len(memory.recall("key 0", top=2 * SHORTLIST, recall_target=0.9)) == 2 * SHORTLIST


def test_an_index_answers_of_contexts_that_are_louder_than_others():
    memory, held = memory_of(OSC(60, 2, compact=True, spread=0.3), values=2_000, pairs=60)
    scanned, probed = (
        memory.recall_many([path for path, _ in held], recall_target=recall_target) for recall_target in (1, 0.99)
    )
    assert sum(one.value == other.value for one, other in zip(scanned, probed, strict=True)) >= 58


class Scan:
    """The slow index: it finds the best candidates by scoring every one."""

    def __init__(self, scheme, vocabulary):
        self.scheme, self.vocabulary = scheme, vocabulary

    def __len__(self):
        return len(self.vocabulary)

    def extended(self, vocabulary):
        return Scan(self.scheme, vocabulary)

    def search(self, cores, energies, query, k):
        rows = np.arange(len(self))
        inner = cores.flatten(1) @ self.scheme.precompute(self.scheme.fillers(self.vocabulary)).tensor.mT
        odds = query.likelihood_of(rows).log_odds(Evidence(inner, energies, None), slice(0, len(rows)))
        best = odds.topk(k).indices
        return best.sort(dim=1).values, odds.scatter(1, best, -math.inf).logsumexp(1)


def test_a_memory_asks_any_index_that_keeps_the_protocol(asked):
    memory, held = memory_of(values=3_000, pairs=100)
    paths = [path for path, _ in held]
    scanned = memory.recall_many(paths, recall_target=1)
    other: CandidateIndex = Scan(memory.scheme, memory.vocabulary)
    memory._reader.codebook.keep_index(other)
    again = memory.recall_many(paths, recall_target=0.999)
    assert memory._reader.codebook.index() is other
    assert [one.value for one in again] == [one.value for one in scanned]
    assert [one.probability for one in again] == pytest.approx([one.probability for one in scanned], abs=1e-5)


def test_batch_queries_leave_the_number_of_threads_unchanged(asked):
    memory, held, _, _ = asked
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        memory.recall_many([path for path, _ in held[:6]], recall_target=0.999)
        with ThreadPoolExecutor(1) as pool:  # a thread that starts later
            assert (torch.get_num_threads(), pool.submit(torch.get_num_threads).result()) == (3, 3)
    finally:
        torch.set_num_threads(before)


def test_questions_in_two_threads_are_answered_as_in_one(asked):
    memory, held, _, probed = asked
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        again = memory.recall_many([path for path, _ in held], recall_target=0.999)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [one.value for one in again] == [one.value for one in probed]
    assert [one.probability for one in again] == pytest.approx([one.probability for one in probed], abs=1e-5)


@pytest.mark.parametrize(
    ("recall_target", "how", "message"),
    [
        (0, {}, "recall_target=0 must be above 0 and at most 1"),
        (1.5, {}, "above 0 and at most 1"),
        (True, {}, "recall_target must be a number, got True"),
        ("all", {}, "recall_target must be a number"),
        (0.9, {"candidates": ["word 1"]}, "for the whole vocabulary of a memory with compact fillers"),
    ],
)
def test_wishes_that_no_index_fulfils_are_refused(asked, recall_target, how, message):
    with pytest.raises((ValueError, TypeError), match=message):
        asked[0].recall_many([("key 1",)], recall_target=recall_target, **how)


def test_a_memory_without_compact_fillers_has_no_index(tmp_path):
    memory = Memory(OSC(40, 2))
    memory.store({"dog": {"says": "woof"}})
    assert memory.recall("dog", "says", recall_target=1).value == "woof"
    with pytest.raises(ValueError, match="compact"):
        memory.recall("dog", "says", recall_target=0.9)
    with pytest.raises(ValueError, match="compact"):
        memory.save(tmp_path / "m.safetensors", index=True)
    assert not list(tmp_path.iterdir())


# Beside a file


def test_an_index_lies_beside_its_file_and_grows_with_the_memory(tmp_path, monkeypatch):
    memory, held = memory_of(values=2_000, pairs=50)
    file = tmp_path / "m.safetensors"
    memory.save(file, index=True)
    before = (tmp_path / "m.safetensors.index").read_bytes()
    memory.save(file, index=True)
    assert (tmp_path / "m.safetensors.index").read_bytes() == before
    back = Memory.load(file)
    with monkeypatch.context() as patch:
        patch.setattr("carving.index.buckets.draw_candidates", None)  # nothing is made anew
        assert back._reader.codebook.index()
        assert str(tmp_path / "m.safetensors.index") in Path("/proc/self/maps").read_text()
        assert [back.recall(*path, recall_target=0.99).value for path, _ in held] == [value for _, value in held]
    back.store([(("new",), "a new word")])
    assert back.recall("new", recall_target=0.99).value == "a new word"
    assert [len(segment) for segment in back._reader.codebook.index().segments] == [2_000, 1]
    back.save(file, index=True)
    assert (
        len(Memory.load(file)._reader.codebook.index()) == 2_001
        and Memory.load(file).recall("new").value == "a new word"
    )


def test_an_index_of_other_labels_is_not_taken_and_a_damaged_one_is_told(tmp_path):
    memory, held = memory_of(values=500, pairs=20)
    file, index = tmp_path / "m.safetensors", tmp_path / "m.safetensors.index"
    memory.save(file, index=True)
    other = Memory(memory.scheme, range(600))
    other.store([(("one",), 1)])
    other.save(file)
    assert read_index(file, other.scheme, other.vocabulary) is None and Memory.load(file).recall("one").value == 1
    memory.save(file)
    assert read_index(file, memory.scheme.like(seed=1), memory.vocabulary) is None
    # What a file says is looked at before anything is made by it.
    assert "ways" not in vars(read_index(file, memory.scheme, memory.vocabulary))
    whole = index.read_bytes()
    for damaged in (whole[:-3], whole[:-1] + bytes([whole[-1] ^ 1]), b"nothing", b""):
        index.write_bytes(damaged)
        with pytest.warns(UserWarning, match=r"m.safetensors.index is .*corrupt"):
            back = Memory.load(file)
        assert back.recall(*held[3][0], recall_target=0.99).value == held[3][1]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_commands_write_an_index_and_tell_of_it(tmp_path):
    file, facts, more = tmp_path / "m.safetensors", tmp_path / "facts.json", tmp_path / "more.json"
    facts.write_text(json.dumps({f"key {i}": f"value {i}" for i in range(20)}))
    more.write_text(json.dumps({"another": "new value"}))
    made = run("store", file, facts, "--d", 60, "--dictionary", 64, "--index", "--json")
    assert made.exit_code == 0, made.output
    scheme = json.loads(made.stdout)["scheme"]
    assert scheme["compact"] and scheme["dictionary"] == 64  # compact, because both are of such fillers
    size = file.with_name("m.safetensors.index").stat().st_size
    assert json.loads(run("info", file, "--json").stdout)["index"] == dict(bytes=size, values=20)
    assert "20 values.\n" in run("info", file).stdout
    assert run("store", file, more).exit_code == 0
    assert "20 values of 21; the newer ones" in run("info", file).stdout.replace("\n", " ")
    assert run("ask", file, "another", "--recall-target", 0.99).stdout.startswith("new value")
    Memory(OSC(d=20, compact=True), ["x"]).save(file)
    assert "does not match this memory" in run("info", file).stdout.replace("\n", " ")
    refused = run("store", tmp_path / "o.safetensors", facts, "--d", 40, "--no-compact", "--index")
    assert refused.exit_code == 2 and "compact fillers" in refused.stderr and not (tmp_path / "o.safetensors").exists()


def test_plans_of_commands_count_labels_that_are_alike():
    options = ["--pairs", "30", "--vocabulary", "5000", "--dictionary", "2", "--json"]
    refused = run("plan", *options)
    assert refused.exit_code == 2 and "dictionary" in refused.stderr


def test_an_index_for_which_memory_is_lacking_is_not_told_as_corrupt(tmp_path, monkeypatch):
    memory, _ = memory_of()
    memory.save(tmp_path / "m", index=True)

    def lacking(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(np, "memmap", lacking)
    with pytest.warns(UserWarning, match="could not be read .*The index is rebuilt"):
        assert read_index(tmp_path / "m", memory.scheme, memory.vocabulary) is None
