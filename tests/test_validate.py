"""Arguments: numbers of numpy are taken wherever numbers are, and what is no number is refused."""

import numpy as np
import pytest
import torch

from carving import OSC, VSA, Answer, Memory, make, open, plan, top
from carving.encodings import Circular, FractionalPower, Level, Sinusoid, estimate
from carving.structures import nearest
from carving.validate import check_integer, check_number, check_positive, check_prior_empty, check_weight

HALF, ONE, THREE = np.float32(0.5), np.int64(1), np.int64(3)
MAP = VSA("MAP-I", 64)


@pytest.fixture
def memory():
    made = Memory(OSC(64), keep_paths=True)
    made.store([((f"key {i}",), f"value {i}") for i in range(5)])
    return made


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8])
def test_checks_take_numbers_of_numpy(kind):
    assert check_number("x", kind(1)) == check_weight(kind(1)) == check_positive("x", kind(1), "") == 1
    assert type(check_number("x", kind(1))) is type(check_prior_empty(kind(0))) is float
    if issubclass(kind, np.integer):
        assert check_integer("x", kind(1), 0) == 1 and type(check_integer("x", kind(1), 0)) is int


@pytest.mark.parametrize(
    "act",
    [
        lambda m: m.store([(("x",), "y")], weight=HALF),
        lambda m: m.store([(("x",), "y")], weight=ONE),
        lambda m: m.forget([(("key 1",), "value 1")], weight=ONE),
        lambda m: m.recall("key 1", prior_empty=HALF, top=THREE, recall_target=np.float32(1)),
        lambda m: m.recall_sets([("key 1",)], prior_empty=HALF, threshold=HALF),
        lambda m: m.recognize("key 1", value="value 1", prior_empty=HALF),
        lambda m: m.where("value 1", threshold=HALF),
        lambda m: m.decode([("key 1",)], prior_empty=HALF),
        lambda m: m.grow(np.int64(80)),
        lambda m: top(m.scheme, m.tensor, [("key 1",)], m.scheme.fillers(m.vocabulary), np.int64(2)),
        lambda m: plan(np.int64(100), np.int64(50), np.float32(0.9), joint=True, spread=ONE),
        lambda m: Memory.for_pairs([(("a",), "b")], accuracy=np.float32(0.9), headroom=ONE),
        lambda m: nearest(MAP, MAP.fillers(["a"]), MAP.fillers(["a"]), HALF),
        lambda m: Level(MAP, np.float32(0), THREE, levels=np.int64(5), label="x")(HALF),
        lambda m: Circular(MAP, np.int64(24), label="x")(HALF),
        lambda m: Sinusoid(MAP, THREE, bandwidth=HALF, label="x"),
        lambda m: FractionalPower(VSA("FHRR", 64), THREE, bandwidth=HALF, label="x"),
        lambda m: estimate([Answer(HALF, 0.9, 0.6)], period=ONE),
    ],
)
def test_verbs_take_numbers_of_numpy(memory, act):
    act(memory)


@pytest.mark.parametrize(
    ("scheme", "same"),
    [
        (lambda: OSC(np.int64(64), np.int64(2), k1=np.int64(8), seed=THREE, spread=HALF), OSC(64, seed=3, spread=0.5)),
        (lambda: make("HLB", d=np.int64(64), mu=ONE, sigma=HALF), make("HLB", d=64, mu=1, sigma=0.5)),
        (lambda: make("CGR", d=np.int64(64), r=np.int64(8)), make("CGR", d=64, r=8)),
    ],
)
def test_schemes_of_numbers_of_numpy_are_those_of_pythons_and_can_be_saved(scheme, same, tmp_path):
    assert scheme() == same
    memory = Memory(scheme())
    memory.store([(("a",), "b")])
    memory.save(tmp_path / "m")
    assert Memory.load(tmp_path / "m").scheme == same
    with open(tmp_path / "m") as opened:
        opened.store([(("c",), "d")], weight=HALF)


@pytest.mark.parametrize("value", ["1", True, None, torch.ones(3), np.ones(3), 1j])
def test_what_is_no_number_is_refused(value, memory):
    with pytest.raises(TypeError, match="x must be a number, got"):
        check_number("x", value)
    with pytest.raises(TypeError, match="weight must be a number, got"):
        check_weight(value)
    with pytest.raises(TypeError, match="prior_empty must be a number, got"):
        check_prior_empty(value)
    with pytest.raises(TypeError, match="threshold must be a number, got"):
        memory.recall_sets([("key 1",)], threshold=value)
    with pytest.raises(TypeError, match="threshold must be a number, got"):
        memory.where("value 1", threshold=value)
    with pytest.raises(TypeError, match="spread must be a number, got"):
        OSC(64, spread=value)
