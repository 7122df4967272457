"""Storing by solving: the memory whose single answers are right, against a slow oracle, for every linear scheme."""

import math
from itertools import islice

import pytest
import torch

from carving import OSC, make
from carving.errors import BadValue
from carving.inference.calibration import CalibrationLevel, Consolidated, fit_classes
from carving.memory import solver
from carving.memory.solver import RIDGE, SLOPE, Problem, as_flat, descend, fit_rounded, solve
from carving.quantization import BITS, Cells

# About ten cells a pair for 60 pairs, of every linear scheme, OSC's orders, bases and fillers among them.
SCHEMES = {
    "compact": OSC(24, 2, 4, compact=True),
    "compact gaussian": OSC(24, 2, 4, compact=True, basis="gaussian"),
    "ordinary": OSC(24, 2, 4),
    "paper": OSC.paper(24),
    "carved": OSC(24, 2, carved=6),
    "loud and faint": OSC(24, 2, 4, compact=True, spread=1.0),
    "order 3": OSC(9, 3, 3, compact=True),
    "order 4": OSC(5, 4, 2, compact=True),
    "TPR": make("TPR", d=24),
    "HRR": make("HRR", d=600),
    "FHRR": make("FHRR", d=400),
    "HLB": make("HLB", d=600),
    "MAP-I": make("MAP-I", d=600),
    "VTB": make("VTB", d=625),
    "MBAT": make("MBAT", d=600),
    "GHRR": make("GHRR", d=600),
}
PAIRS = 60


def problem(scheme, pairs=PAIRS, values=PAIRS, slope=None):
    """A problem of pairs whose values come in another order, and the sum that it starts from."""
    contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(values))
    wanted = torch.arange(pairs).mul(7).remainder(values)
    made = Problem(scheme, contexts, scheme.precompute(fillers), wanted, slope or SLOPE / scheme.mean_bound_energy)
    return made, scheme.trace(contexts, fillers[wanted])


def literal(made, fillers, memory):
    """The objective, as written: every candidate is bound in every context, and compared with the whole memory."""
    scheme, total = made.scheme, RIDGE * made.slope**2 / 2 * memory.abs().square().sum()
    for row, wanted in enumerate(made.wanted):
        context = made.contexts[[row]]
        scores = []
        for filler in fillers:
            bound = scheme.write(scheme.encode(filler.unsqueeze(0), context), context)
            inner, energy = (memory * bound.conj()).sum().real, bound.abs().square().sum()
            scores.append(made.slope * (inner - energy / 2))
        scores = torch.stack(scores)
        total = total + torch.logsumexp(scores, 0) - scores[wanted]
    return total


@pytest.mark.parametrize("name", SCHEMES)
def test_value_and_gradient_are_those_of_the_literal_objective(name):
    scheme = SCHEMES[name].like(dtype=torch.float64)
    made, memory = problem(scheme, pairs=5, values=7, slope=2.0)  # which leaves doubts everywhere
    value, gradient = made.evaluate(as_flat(memory))
    free = memory.clone().requires_grad_()
    loss = literal(made, scheme.fillers(range(7)), free)
    loss.backward()
    assert value == pytest.approx(float(loss.detach()), rel=1e-9)
    torch.testing.assert_close(gradient, as_flat(free.grad), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SCHEMES)
def test_every_linear_scheme_names_all_pairs_where_the_sum_does_not(name):
    scheme = SCHEMES[name]
    made, memory = problem(scheme)
    made.evaluate(as_flat(memory))
    assert made.right < PAIRS
    found = solve(Problem.of(scheme, made.contexts, scheme.fillers(range(PAIRS)), made.wanted), memory)
    scores = scheme.inner(scheme.adjoint(found.tensor, made.contexts), made.contexts, scheme.fillers(range(PAIRS)))
    scores = scores - scheme.energy(made.contexts, scheme.fillers(range(PAIRS))) / 2
    assert found.right == PAIRS and torch.equal(scores.argmax(1), made.wanted)


def test_the_optimum_is_that_of_another_solver():
    scheme = OSC(14, 2, 3, compact=True, dtype=torch.float64)
    made, memory = problem(scheme, pairs=20, values=20)
    values = [value for _, value in islice(descend(made.evaluate, as_flat(memory), 0.4 / made.slope), 300)]
    free = as_flat(memory).clone().requires_grad_()
    bound = torch.stack(
        [as_flat(scheme.trace(made.contexts[[i]], scheme.fillers([j]))) for i in range(20) for j in range(20)]
    )

    def loss():
        scores = made.slope * ((bound @ free).view(20, 20) - 0.5)
        chosen = torch.nn.functional.cross_entropy(scores, made.wanted, reduction="sum")
        return chosen + RIDGE * made.slope**2 / 2 * free.square().sum()

    other = torch.optim.LBFGS(
        [free], max_iter=2000, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        other.zero_grad()
        now = loss()
        now.backward()
        return now

    other.step(closure)
    assert values[-1] == pytest.approx(float(loss().detach()), rel=1e-3)


def test_chunks_of_any_size_give_the_same():
    scheme = SCHEMES["compact"]
    whole, memory = problem(scheme)
    parts, _ = problem(scheme.like(workspace=2**12))
    (one, gradient), (other, same) = (made.evaluate(as_flat(memory)) for made in (whole, parts))
    assert one == pytest.approx(other, rel=1e-5)
    torch.testing.assert_close(gradient, same, atol=1e-3, rtol=1e-4)


def test_beyond_its_cells_the_best_is_kept():
    scheme = OSC(10, 2, 3, compact=True)
    made, memory = problem(scheme, pairs=100, values=100)
    made.evaluate(as_flat(memory))
    found = solve(Problem.of(scheme, made.contexts, scheme.fillers(range(100)), made.wanted), memory)
    before = made.right
    made.evaluate(as_flat(found.tensor))
    assert before <= found.right == made.right < 100


def test_it_stops_when_enough_are_right():
    scheme = SCHEMES["compact"]
    made, memory = problem(scheme)
    few, all_of_them = (
        solve(Problem.of(scheme, made.contexts, scheme.fillers(range(PAIRS)), made.wanted), memory, accuracy=share)
        for share in (0.5, 1.0)
    )
    assert few.right >= PAIRS / 2 and few.evaluations <= all_of_them.evaluations


@pytest.mark.parametrize("bits", BITS)
def test_rounded_memories_hold_few_numbers(bits):
    scheme = SCHEMES["compact"]
    made, memory = problem(scheme, pairs=30, values=30)
    found = solve(Problem.of(scheme, made.contexts, scheme.fillers(range(30)), made.wanted), memory, bits=bits)
    assert len(found.tensor.unique()) <= 2**bits and torch.equal(found.cells.numbers(), found.tensor)
    half = found.scaled(2.0)
    assert torch.equal(half.tensor, found.tensor / 2) and torch.equal(half.cells.numbers(), half.tensor)
    made.evaluate(as_flat(found.tensor))
    assert made.right == found.right and (bits == 1 or found.right == 30)


def test_rounding_in_the_loop_mends_what_rounding_breaks():
    scheme = OSC(26, 2, 4, compact=True)
    made, memory = problem(scheme)
    found = solve(Problem.of(scheme, made.contexts, scheme.fillers(range(PAIRS)), made.wanted), memory)
    flat = as_flat(found.tensor)
    cells = Cells.of(flat, 2)
    made.evaluate(cells.numbers())
    broken = made.right
    mended, right = fit_rounded(made.count, flat, 2, PAIRS, 100)
    made.evaluate(mended.numbers())
    assert broken < right == made.right and mended.deviation == cells.deviation


def test_a_regression_finds_the_weights_that_made_its_rows():
    generator = torch.Generator().manual_seed(0)
    shown = torch.cat([torch.ones(20000, 1), torch.randn(20000, 2, generator=generator)], 1).double()
    chances = torch.sigmoid(shown @ torch.tensor([0.0, 1.5, -0.5]).double())
    truth = torch.rand(20000, generator=generator).double() < chances
    weights = fit_classes(shown[truth], shown[~truth])
    # Half are true by the draw; a weight's deviation is about 1 / sqrt(20000 / 5).
    assert weights == pytest.approx((0.0, 1.5, -0.5), abs=0.08)


def test_what_holds_between_levels_lies_between_them():
    def level(added, accuracy):
        return CalibrationLevel(added, accuracy, (accuracy,) * 10, (0.0,) * 10, (1.0,) * 4)

    solved = Consolidated(24.0, 100, 100, (level(0.0, 1.0), level(10.0, 0.8), level(40.0, 0.2)))
    assert solved.level().accuracy == 1.0 and solved.level(5).accuracy == pytest.approx(0.9)
    assert solved.plus(25).level().present == pytest.approx((0.5,) * 10)
    assert solved.level(1e9) == solved.levels[-1] and Consolidated.of_json(solved.as_json()) == solved


@pytest.mark.parametrize(
    "bad", ['"slope": 24.0|"slope": -1.0', '"pairs": 9|"pairs": 1', '"added": 0.0|"added": -3.0', "1.25|NaN"]
)
def test_numbers_that_tell_nothing_are_refused(bad):
    levels = (CalibrationLevel(0.0, 1.0, (1.25,) * 10, (0.0,) * 10, (1.0,) * 4),)
    text = Consolidated(24.0, 9, 9, levels).as_json()
    assert bad.split("|")[0] in text
    with pytest.raises(BadValue):
        Consolidated.of_json(text.replace(*bad.split("|")))


def test_doubts_next_to_nothing_are_not_lost():
    scheme = OSC(60, 2, 4, compact=True)
    made, memory = problem(scheme, pairs=4, values=4)
    value, _ = made.evaluate(as_flat(memory))
    assert 0 < value < 1e-2 + RIDGE * made.slope**2 / 2 * float(memory.square().sum()) and math.isfinite(value)
    assert solver.CERTAIN_LOSS < 1e-4


# Very many candidates: solved for those that come near, until all of them say that it is enough


@pytest.mark.parametrize("name", SCHEMES)
def test_of_many_candidates_those_that_come_near_suffice(name, monkeypatch):
    monkeypatch.setattr(solver, "MIN_CANDIDATES_FOR_RIVALS", 10)
    monkeypatch.setattr(solver, "CONTEXTS_PER_RIVALS", 16)
    monkeypatch.setattr(solver, "NEAREST_RIVALS", 3)
    scheme = SCHEMES[name]
    made, memory = problem(scheme, pairs=30, values=120)
    found = solve(Problem.of(scheme, made.contexts, scheme.fillers(range(120)), made.wanted), memory)
    made.evaluate(as_flat(found.tensor))  # with all candidates
    assert found.right == made.right == 30


def test_a_survey_sees_what_all_scores_tell():
    scheme = SCHEMES["compact"]
    made, memory = problem(scheme, pairs=300, values=90)
    own = made.wanted.unsqueeze(1)
    others, score = made.scores(memory, made.contexts, made.candidates, own)
    scores = others.scatter(1, own, score)
    rivals = made.survey(memory)
    assert made.right == int((scores.argmax(1) == made.wanted).sum())
    for number, rows in enumerate(torch.arange(300).split(solver.CONTEXTS_PER_RIVALS)):
        others = scores[rows].scatter(1, made.wanted[rows].unsqueeze(1), -math.inf)
        nearest = others.argsort(1, descending=True)[:, : solver.NEAREST_RIVALS]
        assert set(rivals[number].tolist()) == {*nearest.flatten().tolist(), *made.wanted[rows].tolist()}


def test_where_all_candidates_count_the_chosen_ones_change_nothing():
    made, memory = problem(SCHEMES["compact"])
    value, gradient = made.evaluate(as_flat(memory))
    made.rivals = [torch.arange(PAIRS)]
    again, same = made.evaluate(as_flat(memory))
    assert again == pytest.approx(value, rel=1e-6)
    torch.testing.assert_close(same, gradient, rtol=1e-4, atol=1e-4)
