"""Fillers from a fixed dictionary: what labels choose, for ever; how many are alike; files, plans and memories."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, plan
from carving.hashing import bits
from carving.planner.plan import predict
from carving.planner.requirements import collision_accuracy, expected_collisions
from carving.symbols.codec import canonical, canonical_path

GOLDEN = [
    [0.4039318860, 0.3327228427, 0.8493499756, -0.0688419193],
    [0.4971423447, 0.4847103953, -0.6985224485, -0.1731234044],
]


def test_a_label_gives_the_same_vectors_of_the_dictionary_for_ever():
    scheme = OSC(16, 2, compact=True, dictionary=256)
    assert_close(scheme.fillers(["dog"])[0], torch.tensor(GOLDEN), rtol=0, atol=1e-6)
    assert scheme.fillers(["dog"]).shape == (1, 2, 4) and scheme.facts.filler_scalars == 2
    assert not torch.equal(scheme.like(seed=1).fillers(["dog"]), scheme.fillers(["dog"]))


def test_components_are_those_that_the_labels_words_count_out():
    scheme = OSC(20, 3, compact=True, dictionary=10, seed=7)
    for label in ("dog", 5, None):
        words = bits([canonical(label)], 3, seed=7, purpose="filler")[0].tolist()
        for place, word in enumerate(words):
            name = canonical_path((place, word * 10 >> 64))
            halves = (
                np.frombuffer(bits([name], 2, seed=7, purpose="dictionary").tobytes(), "<i4") / 2**32 + 0.5 + 2**-33
            )
            radius, angle = np.sqrt(-2 * np.log(halves[0::2])), 2 * np.pi * halves[1::2]
            normals = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
            unit = torch.from_numpy(normals / np.linalg.norm(normals)).float()
            assert_close(scheme.fillers([label])[0, place], unit, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("p", "size", "labels"), [(2, 40, 300), (3, 12, 400)])
def test_as_many_labels_are_alike_as_theory_tells(p, size, labels):
    fillers = OSC(16, p, compact=True, dictionary=size).fillers(range(labels))
    alike = Counter(tuple(row) for row in fillers.flatten(1).tolist())
    pairs = sum(count * (count - 1) // 2 for count in alike.values())
    expected = expected_collisions(labels, size, p)
    assert abs(pairs - expected) < 4 * math.sqrt(expected)
    named = len(alike) / labels  # one of those that are alike
    assert abs(named - collision_accuracy(labels, size, p)) < 4 * math.sqrt(expected) / labels


def test_a_memory_with_a_dictionary_answers_is_saved_and_added(tmp_path):
    scheme = OSC(30, 3, compact=True, dictionary=4_096)
    memory, other = Memory(scheme), Memory(scheme)
    memory.store({f"key {i}": f"value {i}" for i in range(50)})
    other.store({f"more {i}": f"value {i}" for i in range(50)})
    memory.save(tmp_path / "m.safetensors")
    back = Memory.load(tmp_path / "m.safetensors") + other
    assert back.scheme == scheme and back.scheme.dictionary == 4_096
    assert all(back.recall(f"{kind} {i}").value == f"value {i}" for kind in ("key", "more") for i in range(50))
    assert back.recall("key 7", recall_target=0.99).value == "value 7"
    with pytest.raises(ValueError, match=r"differ in dictionary \(4096 and 256\)"):
        memory + Memory(scheme.like(dictionary=256))


def test_plans_and_predictions_count_labels_that_are_alike():
    sizes = dict(pairs=100, vocabulary=5_000, d=150, p=2, scheme="OSC", compact=True, draft=True)
    plain, few = predict(**sizes), predict(**sizes, dictionary=256)
    assert few == pytest.approx(plain * collision_accuracy(5_000, 256, 2))
    best = plan(pairs=20, vocabulary=50, scheme="OSC", p=2, dictionary=1_024)
    assert best.parameters["dictionary"] == 1_024 and best.codebook == 100 and best.compact
    with pytest.raises(ValueError, match=r"has 65,536 fillers for p=2.*Use dictionary=22361"):
        plan(pairs=100, vocabulary=10_000_000, scheme="OSC", p=2, dictionary=256)
    with pytest.raises(ValueError, match=r"dictionary=.* does not apply to TPR"):
        plan(pairs=100, vocabulary=100, scheme="TPR", dictionary=256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(compact=True, dictionary=1), "dictionary must .*65536 suffice for ten million"),
        (dict(compact=True, dictionary=65_537), "dictionary"),
        (dict(compact=True, dictionary=True), "dictionary"),
        (dict(dictionary=256), "Pass compact=True"),
    ],
)
def test_dictionaries_that_cannot_be_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        OSC(30, 2, **arguments)
