import math
from itertools import permutations

import pytest
import torch

from carving import OSC
from carving.lab import load
from carving.lab.experiment import Trial
from carving.lab.measures.predictions import single_prediction
from carving.planner.design import find_first
from carving.planner.families import OSCFamily, StoredPairs, osc_accuracy, tpr_accuracy, vsa_accuracy
from carving.planner.monte_carlo import TAIL_STEPS, Noise, cosine_tail, random_walk, simulated_accuracy
from carving.schemes.moments import echo, excess, interference, variation


@pytest.mark.parametrize(
    ("cells", "pairs", "expected"),
    [(4_096, 1_000, 0.1251), (8_100, 1_000, 0.3565), (343_000, 10_000, 0.9719)],
)
def test_the_closed_form_for_vsas_gives_the_known_values(cells, pairs, expected):
    assert vsa_accuracy(cells, pairs, pairs) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("d", "p", "k1", "pairs", "simulated"),
    [
        (200, 2, 14, 1_000, 0.9972),
        (100, 2, 10, 1_000, 0.4286),
        (150, 2, 12, 1_000, 0.89),
        (80, 3, 9, 10_000, 0.9985),
    ],
)
def test_predictions_lie_within_two_points_of_known_simulations(d, p, k1, pairs, simulated):
    assert osc_accuracy(d, p, k1, pairs, pairs) == pytest.approx(simulated, abs=0.02)


def test_the_smallest_dimensions_come_near_the_papers():
    """Its table of minimum dimensions at 99 %: OSC with p = 3 to within one, TPR to within 1.5 %."""
    for pairs, osc, tpr in (
        (50, 13, 44),
        (100, 16, 61),
        (500, 27, 137),
        (1_000, 34, 197),
        (5_000, 59, 451),
        (10_000, 76, 649),
    ):
        side = find_first(lambda d, n=pairs: osc_accuracy(d, 3, round(d**0.5), n, n) >= 0.99, 2, 2)
        assert abs(side - osc) <= 1
        side = find_first(lambda d, n=pairs: tpr_accuracy(d, n, n) >= 0.99, 2, 2)
        assert side == pytest.approx(tpr, rel=0.015)


def gaussian_rows(count, rank, d, generator):
    return torch.linalg.qr(torch.randn(count, d, rank, generator=generator)).Q.mT


def block_rows(count, rank, d, generator):
    """Blocks that are dealt out one coordinate after the other, as a card game: block = rank of a random number mod."""
    owners = torch.rand(count, d, generator=generator).argsort(1) % rank
    rows = torch.nn.functional.one_hot(owners, rank).mT * torch.randn(count, 1, d, generator=generator).sign()
    return torch.nn.functional.normalize(rows, dim=2)


ROWS = {"gaussian": gaussian_rows, "blocks": block_rows}


def bound_squares(basis, d, p, k1, same, generator, count=40_000):
    """The mean square of inner products of two fillers bound in two random contexts, times d^p, by brute force."""
    rank, keeps = min(k1, d - k1), 2 * k1 <= d

    def bound(fillers):
        rows = ROWS[basis](count, rank, d, generator)
        inside = fillers @ rows.mT @ rows
        return torch.nn.functional.normalize(inside if keeps else fillers - inside, dim=-1)

    first = torch.randn(count, p, d, generator=generator)
    second = first if same else torch.randn(count, p, d, generator=generator)
    return float((bound(first) * bound(second)).sum(-1).double().prod(1).square().mean()) * d**p


@pytest.mark.parametrize("basis", ROWS)
@pytest.mark.parametrize(("d", "p", "k1"), [(20, 2, 1), (20, 2, 4), (17, 2, 13), (12, 3, 4), (16, 3, 3), (9, 4, 3)])
def test_the_excess_is_that_of_random_contexts(basis, d, p, k1, generator):
    measured = bound_squares(basis, d, p, k1, False, generator)
    assert 1 + excess(d, p, k1, basis) == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize("basis", ROWS)
@pytest.mark.parametrize(("d", "p", "k1"), [(32, 2, 6), (32, 2, 16), (24, 3, 7), (24, 3, 4), (12, 4, 3)])
def test_the_echo_is_that_of_one_filler_in_random_contexts(basis, d, p, k1, generator):
    measured = bound_squares(basis, d, p, k1, True, generator)
    assert echo(d, p, k1, basis) == pytest.approx(measured, rel=0.12 if p < 4 else 0.2)


@pytest.mark.parametrize(("d", "k1"), [(4, 2), (5, 1), (5, 2), (5, 3), (5, 4), (6, 4)])
def test_the_variation_of_blocks_is_that_of_all_signed_permutations(d, k1):
    """Every pair of contexts is counted: one of them may stand still. Sizes of blocks differ in all but the first."""
    rank = min(k1, d - k1)
    whole = torch.eye(d, dtype=torch.float64)
    owners = whole[torch.arange(d) % rank][:, :rank]
    kept = owners @ torch.diag(1 / owners.sum(0)) @ owners.mT
    kept = kept if 2 * k1 <= d else whole - kept
    order = torch.tensor(list(permutations(range(d))))
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * (d - 1))
    signs = torch.nn.functional.pad(signs, (1, 0), value=1.0)  # all signs turned around are the same subspace
    permuted = kept[order.unsqueeze(2), order.unsqueeze(1)] * kept  # (orders, d, d)
    traces = torch.einsum("nij,si,sj->ns", permuted, signs, signs)
    assert float(traces.mean()) == pytest.approx(k1 * k1 / d)
    relative = float(traces.var(correction=0)) * d * d / k1**4
    assert variation(d, k1, "blocks") == pytest.approx(relative, abs=1e-12)


def test_blocks_of_equal_sizes_vary_as_normals_but_for_one_factor():
    for d, k1 in ((100, 10), (96, 12), (40, 8)):
        assert variation(d, k1, "blocks") * d == pytest.approx(variation(d, k1, "gaussian") * (d + 2))


@pytest.mark.parametrize("k", [2, 3, 8, 40])
def test_the_table_of_tails_is_that_of_random_unit_vectors(k, generator):
    drawn = torch.nn.functional.normalize(torch.randn(200_000, k, generator=generator), dim=1)[:, 0]
    table = cosine_tail(k)
    for t in (-0.5, 0.0, 0.2, 0.6):
        index = round(t * TAIL_STEPS) + TAIL_STEPS
        assert float(table[index]) == pytest.approx(float((drawn > t).double().mean()), abs=0.005)


def test_a_walk_has_the_mean_and_the_variance_of_its_steps():
    for copies in (0.0, 0.3, 1.0, 1.5, 3.7):
        values, chances = random_walk(copies)
        assert float(chances.sum()) == pytest.approx(1)
        assert float((values * chances).sum()) == pytest.approx(0, abs=1e-6)
        assert float((values.square() * chances).sum()) == pytest.approx(copies)


@pytest.mark.parametrize(
    ("p", "k1", "shared", "variance", "vocabulary"), [(2, 4, 1, 0.05, 200), (3, 3, 2, 0.02, 60), (2, 8, 4, 0.01, 100)]
)
def test_drawn_contexts_agree_with_brute_force(p, k1, shared, variance, vocabulary, generator):
    """White noise, and every candidate drawn: no quadrature, no tails, no evenly spread points."""
    count = 4_000
    units = torch.nn.functional.normalize(torch.randn(count, vocabulary, p, k1, generator=generator), dim=-1)
    candidates = units[:, :, 0]
    for component in units.unbind(2)[1:]:
        candidates = (candidates.unsqueeze(-1) * component.unsqueeze(-2)).flatten(2)
    core = candidates[:, :shared].sum(1) + math.sqrt(variance) * torch.randn(count, k1**p, generator=generator)
    scores = (candidates @ core.unsqueeze(2)).squeeze(2)
    right = (scores[:, :shared].amin(1) > scores[:, shared:].amax(1)).double().mean()
    predicted = simulated_accuracy(p, k1, shared, 0.0, Noise(variance), vocabulary - shared)
    assert predicted == pytest.approx(float(right), abs=0.025)  # three standard errors of the brute force


SETTINGS = [(64, 2, 8, 300, 400, 1), (24, 3, 5, 400, 400, 1), (40, 3, 13, 900, 300, 3), (12, 4, 3, 200, 200, 2)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_more_room_helps_and_more_to_tell_apart_harms(setting):
    d, p, k1, pairs, vocabulary, shared = setting
    here = osc_accuracy(*setting)
    assert 0 < here < 1
    assert osc_accuracy(round(1.3 * d), p, k1, pairs, vocabulary, shared) > here
    assert osc_accuracy(d, p, k1, 2 * pairs, vocabulary, shared) < here
    assert osc_accuracy(d, p, k1, pairs, 2 * vocabulary, shared) < here + 0.002
    assert osc_accuracy(d, p, k1, pairs, vocabulary, shared + 2) < here


def test_a_single_pair_in_a_wide_context_is_always_found():
    assert osc_accuracy(100, 2, 30, 1, 1_000) == pytest.approx(1, abs=1e-6)
    assert tpr_accuracy(400, 1, 1_000) == pytest.approx(1, abs=1e-6)
    assert vsa_accuracy(4_000, 1, 1_000) == pytest.approx(1, abs=1e-6)


def test_an_overfull_memory_answers_by_chance():
    assert osc_accuracy(8, 2, 3, 100_000, 50) == pytest.approx(1 / 50, abs=0.01)
    assert vsa_accuracy(16, 1_000_000, 50) == pytest.approx(1 / 50, abs=0.01)
    assert tpr_accuracy(8, 1_000_000, 50) == pytest.approx(1 / 50, abs=0.01)


def test_where_every_candidate_is_stored_nothing_can_go_wrong():
    assert osc_accuracy(16, 2, 4, 100, 5, 5) == 1
    assert tpr_accuracy(16, 100, 5, 5) == 1
    assert vsa_accuracy(16, 100, 5, 5) == 1


def test_a_line_tells_two_fillers_apart_at_most():
    assert osc_accuracy(20, 2, 1, 10, 6) == 0.5**5


@pytest.mark.parametrize(
    ("d", "p", "k1", "pairs", "vocabulary", "simulated"),
    [
        (64, 2, 8, 316, 1_000, 0.563),
        (24, 3, 5, 623, 4_000, 0.792),
        (24, 3, 5, 1_345, 200, 0.652),
        (40, 3, 4, 2_000, 1_000, 0.959),
    ],
)
def test_predictions_for_compact_fillers_lie_within_two_points(d, p, k1, pairs, vocabulary, simulated):
    """Simulated with 3,000 contexts each, also where fillers are stored several times."""
    assert osc_accuracy(d, p, k1, pairs, vocabulary, compact=True) == pytest.approx(simulated, abs=0.02)


def test_compact_fillers_interfere_without_excess():
    d, p, k1, pairs, seen = 12, 3, 3, 400, []
    for seed in range(10):
        scheme = OSC(d, p, k1, seed=seed, compact=True)
        contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(pairs))
        own = scheme.score(scheme.trace(contexts, fillers), contexts, fillers.unsqueeze(1)).squeeze(1)
        seen.append(own - 1)
    variance = float(torch.cat(seen).square().mean())
    assert interference(d, p, k1, pairs, compact=True) == pytest.approx(variance, rel=0.08)
    assert interference(d, p, k1, pairs) > 1.2 * variance  # what ordinary ones have: 37 % more


def test_a_draft_comes_near():
    for d, p, k1, pairs, vocabulary, shared in ((64, 2, 12, 300, 400, 1), (36, 3, 6, 2_000, 1_000, 1), SETTINGS[2]):
        draft = OSCFamily(p).accuracy(d, k1, StoredPairs(pairs, vocabulary, shared), draft=True)
        assert draft == pytest.approx(osc_accuracy(d, p, k1, pairs, vocabulary, shared), abs=0.05)


@pytest.mark.parametrize("basis", ROWS)
def test_the_interference_is_the_variance_of_stored_scores(basis):
    d, p, k1, pairs = 20, 2, 4, 200
    seen = []
    for seed in range(10):
        scheme = OSC(d, p, k1, seed=seed, basis=basis)
        contexts, fillers = scheme.contexts([(i,) for i in range(pairs)]), scheme.fillers(range(pairs))
        memory = scheme.trace(contexts, fillers)
        own = scheme.score(memory, contexts, fillers.unsqueeze(1)).squeeze(1)
        seen.append(own - 1)
    variance = float(torch.cat(seen).square().mean())
    assert interference(d, p, k1, pairs, basis=basis) == pytest.approx(variance, rel=0.1)


@pytest.mark.slow
def test_predictions_lie_within_two_points_of_simulations():
    """87 settings, 16,000 contexts each: the standard errors of the simulations are 0.4 points at most."""
    (part,) = load("capacity-prediction").scales["paper"]
    assert len(part.settings) >= 60
    for setting in part.settings:
        seeds = [Trial(setting, number).seed("capacity-prediction") for number in range(part.count)]
        trials = [single_prediction(setting, seed) for seed in seeds]
        simulated = sum(trial["simulated"] for trial in trials) / len(trials)
        questions = sum(trial["questions"] for trial in trials)
        assert math.sqrt(simulated * (1 - simulated) / questions) < 0.0072
        assert abs(trials[0]["predicted_accuracy"] - simulated) <= 0.02, setting
