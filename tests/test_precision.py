"""Which precision candidates are sieved in: what is measured to be fastest, and only where measuring pays."""

import math

import pytest

from carving import OSC
from carving.inference import precision, top
from carving.inference.precision import Shape


@pytest.fixture(autouse=True)
def untouched():
    yield
    precision._experience.clear()
    precision.promising.cache_clear()


def measured(monkeypatch, times: dict[str | None, float], promising: bool = True) -> tuple[list, Shape]:
    """Timings that are said beforehand, and what was tried."""
    tried: list = []
    monkeypatch.setattr(precision, "promising", lambda kind, threads: promising)
    monkeypatch.setattr(precision, "seconds", lambda run: run() or times[tried[-1]])
    return tried, Shape.of(256, 10_000, 196, 1, False, True)


@pytest.mark.parametrize(
    ("plain", "bfloat16", "int8", "best"),
    [(10, 5, 7, "bfloat16"), (10, 9, 4, "int8"), (10, 9.5, 30, None), (10, 80, 250, None)],
)
def test_what_is_fastest_is_chosen_once_and_only_after_enough_work(monkeypatch, plain, bfloat16, int8, best):
    tried, shape = measured(monkeypatch, {None: plain, "bfloat16": bfloat16, "int8": int8})
    trial = tried.append
    for _ in range(precision.REPAYS - 1):
        assert precision.chosen(shape, 100, trial, 100) is None
    assert not tried
    assert precision.chosen(shape, 100, trial, 100) == best
    assert tried == [None, "bfloat16", "int8"]
    for _ in range(100):
        assert precision.chosen(shape, 100, trial, 100) == best
    assert len(tried) == 3
    other = shape._replace(contexts=4)
    assert precision.chosen(other, 1, trial, 100) is None  # of another shape nothing is known


def test_what_is_far_slower_is_not_even_tried(monkeypatch):
    tried, shape = measured(monkeypatch, {}, promising=False)
    assert precision.chosen(shape, 10**9, tried.append, 1) is None
    assert not tried


def test_a_sieve_that_holds_nothing_back_is_given_up(monkeypatch):
    tried, shape = measured(monkeypatch, {None: 10, "bfloat16": 1, "int8": 2})
    assert precision.chosen(shape, 10**9, tried.append, 1) == "bfloat16"
    precision.report(shape, 1000, 200)
    assert precision.chosen(shape, 1, tried.append, 1) == "bfloat16"
    precision.report(shape, 200, 60)
    assert precision.chosen(shape, 1, tried.append, 1) == "bfloat16"
    precision.report(shape, 100, 60)
    assert precision.chosen(shape, 1, tried.append, 1) is None


def test_measuring_in_earnest_comes_to_a_choice_and_the_same_answers(monkeypatch):
    scheme = OSC(d=100, p=2, compact=True)
    contexts, fillers = scheme.contexts([("one",)])[[0] * 256], scheme.fillers(range(3000))
    memory = scheme.trace([("one",)], ["x"])
    monkeypatch.setattr(precision, "REPAYS", 0)
    monkeypatch.setattr(precision, "SLOW", math.inf)  # whatever the machine, all kinds are tried
    found = [top(scheme, memory, contexts, fillers).indices for _ in range(2)]
    (known,) = precision._experience.values()
    assert known.measured
    assert found[0].equal(found[1]) and int(found[0].unique().numel()) == 1
