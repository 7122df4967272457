"""Counts that states share are those of plain copies, whoever holds on to older ones or changes what was given."""

import threading
import warnings

import numpy as np
import pytest
import torch

from carving import OSC, Memory
from carving.errors import Overfull
from carving.memory import counts as module
from carving.memory.counts import ValueCounts


@pytest.fixture(params=["copied", "shared"])
def sharing(request, monkeypatch):
    if request.param == "shared":
        monkeypatch.setattr(module, "LARGE_VOCABULARY", 0)
        monkeypatch.setattr(module, "MAX_DIFFERING", 12)  # so that they are laid out anew now and then
    return request.param


def agree(counts, wanted):
    """Whether counts are those of a tensor, asked in every way; laid out last, because that changes how they are."""
    rows = np.array([len(wanted) - 1, -1, 0, len(wanted) // 2])
    picked = torch.where(torch.from_numpy(rows) < 0, 0.0, wanted[rows])
    assert torch.equal(counts.of(rows), picked) and len(counts) == len(wanted)
    assert abs(counts.stored - float(wanted.clamp_min(0).sum())) < 1e-9
    assert counts.summary.least <= float(wanted.min()) and counts.summary.most >= float(wanted.max())


@pytest.mark.parametrize("seed", range(4))
def test_a_long_history_is_that_of_plain_copies_and_no_state_changes_another(sharing, seed):
    chance = np.random.default_rng(seed)
    history = [(ValueCounts(torch.zeros(5, dtype=torch.float64)), torch.zeros(5, dtype=torch.float64))]
    for _ in range(120):
        counts, wanted = history[chance.integers(max(0, len(history) - 4), len(history))]  # older ones go on, too
        more = int(chance.integers(0, 3))
        size = len(wanted) + more
        old = chance.choice(len(wanted), int(chance.integers(0, 3)), replace=False)
        rows = [*old.tolist(), *range(len(wanted), size)]
        weights = torch.from_numpy(chance.integers(-2, 4, len(rows)).astype(np.float64))
        after = torch.cat([wanted, torch.zeros(more, dtype=torch.float64)])
        after[rows] += weights
        history.append((counts.plus(size, rows, weights), after))
    for counts, wanted in history:
        agree(counts, wanted)
    for counts, wanted in history:
        assert torch.equal(counts.tensor, wanted)


def test_one_more_pair_copies_nothing_large_and_a_memory_is_the_same(monkeypatch, tmp_path):
    pairs = [((f"key {i}",), f"value {i % 70}") for i in range(100)]
    usual = Memory(OSC(d=60, compact=True), [f"value {i}" for i in range(60)])
    for pair in pairs:
        usual.store([pair])
    monkeypatch.setattr(module, "LARGE_VOCABULARY", 0)
    memory = Memory(OSC(d=60, compact=True), [f"value {i}" for i in range(60)])
    shared = memory._reader.value_counts._shared
    for pair in pairs:
        memory.store([pair])
    assert memory._reader.value_counts._shared is shared and memory.pairs == 100
    for recall_target in (0.99, None):
        ours, theirs = (
            each.recall_many([path for path, _ in pairs[:20]], recall_target=recall_target) for each in (memory, usual)
        )
        for mine, other in zip(ours, theirs, strict=True):  # log odds of float32 round probabilities by 1e-6
            assert mine.value == other.value and mine.score == pytest.approx(other.score, abs=1e-6)
            assert mine.probability == pytest.approx(other.probability, abs=1e-5)
    assert memory.recognize("key 3", value="value 3") == usual.recognize("key 3", value="value 3")
    memory.forget(pairs[:10])
    usual.forget(pairs[:10])
    assert torch.equal(memory.counts, usual.counts) and memory.pairs == 90
    memory.save(tmp_path / "m.safetensors")
    assert torch.equal(Memory.load(tmp_path / "m.safetensors").counts, usual.counts)


def test_who_reads_in_another_thread_sees_whole_states(monkeypatch):
    monkeypatch.setattr(module, "LARGE_VOCABULARY", 0)
    monkeypatch.setattr(module, "MAX_DIFFERING", 7)
    memory, wrong, done = Memory(OSC(d=16), ["value 0"]), [], threading.Event()

    def read():
        while not done.is_set():
            held = memory._reader
            counts = held.counts  # every value was stored once, but for the first
            if len(counts) != len(held.vocabulary) or held.pairs != len(counts) - 1 or counts[1:].ne(1).any():
                wrong.append((len(counts), held.pairs))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    with warnings.catch_warnings(action="ignore", category=Overfull):
        for i in range(60):
            memory.store([((i,), f"value {i + 1}")])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong and memory.counts.tolist() == [0.0] + [1.0] * 60
