import math

import pytest
import torch

from carving.lab import load
from carving.lab.beyond.joint_prediction import SETTINGS
from carving.lab.experiment import Trial
from carving.lab.measures.predictions import joint_prediction
from carving.planner.families import gaussian_accuracy, osc_accuracy
from carving.planner.state_evolution import (
    amplitudes,
    distractor_bins,
    fixed_point,
    interpolate,
    probability_correct,
    residual_table,
    table_step,
)


def brute_force(s, p, k1, vocabulary, generator, count=3_000, books=6):
    """The open share and the share of right answers of real candidates in white noise, and standard errors."""
    left, right = [], []
    for _ in range(books):
        units = torch.nn.functional.normalize(torch.randn(vocabulary, p, k1, generator=generator), dim=-1)
        codes = units[:, 0]
        for component in units.unbind(1)[1:]:
            codes = (codes.unsqueeze(-1) * component.unsqueeze(-2)).flatten(1)
        true = torch.randint(0, vocabulary, (count // books,), generator=generator)
        seen = s * codes[true] + torch.randn(count // books, k1**p, generator=generator)
        logits = s * seen @ codes.mT
        overlaps = (codes[true] @ codes.mT * logits.softmax(1)).sum(1)
        left.append(1 - overlaps)
        right.append((logits.argmax(1) == true).float())
    return [(float(torch.cat(x).mean()), float(torch.cat(x).std()) / math.sqrt(count)) for x in (left, right)]


SMALL = [(2, 3, 200), (2, 6, 500), (2, 10, 300), (3, 3, 1_000), (3, 5, 1_000), (4, 3, 500)]


@pytest.mark.parametrize(("p", "k1", "vocabulary"), SMALL)
def test_one_context_is_as_brute_force_has_it(p, k1, vocabulary, generator):
    """To two points, 2.5 for k1 = 3, and three standard errors of the brute force, which are about as much."""
    table, step = residual_table(p, k1, vocabulary), table_step(vocabulary)
    points = 0.025 if k1 == 3 else 0.02
    for s in (1.5, 3.0, 4.0, 5.5):
        (left, error), (right, spread) = brute_force(s, p, k1, vocabulary, generator)
        position = torch.tensor([s / step], dtype=torch.float64)
        assert float(interpolate(table, position)) == pytest.approx(left, abs=points + 3 * error)
        at = torch.tensor([s], dtype=torch.float64)
        assert float(probability_correct(at, p, k1, vocabulary)) == pytest.approx(right, abs=points + 3 * spread)


@pytest.mark.parametrize("vocabulary", [100, 10_000])
def test_without_overlaps_a_score_is_right_as_often_as_a_vsas(vocabulary):
    for noise in (0.03, 0.08, 0.2):
        s = torch.tensor([1 / math.sqrt(noise)], dtype=torch.float64)
        expected = gaussian_accuracy(noise, vocabulary)
        assert float(probability_correct(s, 0, 0, vocabulary)) == pytest.approx(expected, abs=0.003)


def test_two_candidates_without_overlaps_leave_what_theory_says():
    """E[1 - tanh-like posterior] of two orthogonal candidates, by quadrature over the difference of their scores."""
    z = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / torch.exp(-z.square() / 2).sum()
    table, step = residual_table(0, 0, 2), table_step(2)
    for index in (3, 8, 13):
        s = index * step
        wrong = (density * torch.sigmoid(-(s * s + s * math.sqrt(2) * z))).sum()
        assert float(table[index]) == pytest.approx(float(wrong), abs=0.003)


@pytest.mark.parametrize(("p", "k1", "vocabulary"), [*SMALL, (0, 0, 1_000), (3, 8, 100_000)])
def test_the_open_share_falls_from_all_to_nothing(p, k1, vocabulary):
    table = residual_table(p, k1, vocabulary)
    assert float(table[0]) == pytest.approx(1 - 1 / vocabulary)
    assert bool((table[1:] <= table[:-1] + 1e-4).all())
    assert float(table[-1]) < 0.02
    beyond = interpolate(table, torch.tensor([30.0, 60.0, 120.0], dtype=torch.float64))
    assert bool((beyond <= table[-1] + 1e-12).all()) and bool((beyond[1:] <= beyond[:-1] / 4 + 1e-12).all())


def test_cosines_of_rivals_have_the_moments_of_products():
    for p, k1 in ((1, 7), (2, 3), (3, 5), (4, 4)):
        cosines, chances, dims = distractor_bins(p, k1)
        assert float(chances.sum()) == pytest.approx(1)
        assert float(chances @ cosines) == pytest.approx(0, abs=1e-6)
        assert float(chances @ cosines.square()) == pytest.approx(k1**-p, rel=0.05)  # bins take a little of it
        assert bool((dims <= k1**p + 1e-9).all()) and bool((dims >= p * (k1 - 1)).all())


@pytest.mark.parametrize("spread", [0.5, 1.2, 2.5])
def test_amplitudes_are_those_of_contexts(spread):
    from carving import OSC

    drawn = OSC(8, 2, 3, compact=True, spread=spread).contexts([(i,) for i in range(4_000)]).amplitudes.abs()
    expected = amplitudes(spread)
    assert float(expected.square().mean()) == pytest.approx(1)
    for part in (0.1, 0.5, 0.9):
        assert float(expected.quantile(part)) == pytest.approx(float(drawn.double().quantile(part)), rel=0.1)


#    measured with real memories: the smallest d that converges, the largest that does not, the rounds at the first
MEASURED = [
    (10_000, 3, 7, 10_000, 0.0, 46, 45, 16),
    (1_000, 2, 8, 1_000, 1.2, 60, 48, 16),
    (1_000, 2, 3, 1_000, 0.0, 65, 62, 22),
]


@pytest.mark.parametrize(("pairs", "p", "k1", "vocabulary", "spread", "enough", "less", "rounds"), MEASURED)
def test_the_threshold_lies_where_it_was_measured(pairs, p, k1, vocabulary, spread, enough, less, rounds):
    here = fixed_point(pairs / enough**p, p, k1, vocabulary, spread)
    assert here.accuracy > 0.99
    assert here.rounds == pytest.approx(rounds, rel=0.25)
    assert fixed_point(pairs / less**p, p, k1, vocabulary, spread).accuracy < 0.5


def test_more_load_is_never_better():
    for spread in (0.0, 1.2):
        accuracies = [fixed_point(load, 2, 6, 500, spread).accuracy for load in (0.05, 0.1, 0.2, 0.3, 0.4, 0.8)]
        assert accuracies == sorted(accuracies, reverse=True)
        assert accuracies[0] > 0.999 and accuracies[-1] < 0.1


def test_the_first_round_is_asking_one_at_a_time():
    """Far above the threshold nothing is gained: the fixed point is near the start."""
    alone = osc_accuracy(30, 2, 6, 900, 500, compact=True)
    assert fixed_point(1.0, 2, 6, 500).accuracy == pytest.approx(alone, abs=0.02)


def test_a_line_tells_two_fillers_apart_at_most():
    assert fixed_point(0.01, 2, 1, 6).accuracy == 0.5**5


def off(setting, count):
    """By how much the prediction is above joint decoding, in the mean of so many trials; and whether it may jump."""
    trials = [joint_prediction(setting, Trial(setting, number).seed("joint-prediction")) for number in range(count)]
    return sum(trial["error"] for trial in trials) / count, trials[0]["near"]


@pytest.mark.parametrize("number", [3, 5, 14])
def test_predictions_come_near_real_memories(number):
    """Two seeds of three small settings, on both sides: to three standard errors of some 1,000 answers, 5 points."""
    assert abs(off(SETTINGS[number], 2)[0]) < 0.05


@pytest.mark.slow
def test_predictions_lie_within_two_points_away_from_the_threshold():
    results = [off(part.settings[0], part.count) for part in load("joint-prediction").scales["paper"]]
    away = [error for error, near in results if not near]
    assert len(away) >= 20
    assert [error for error in away if abs(error) > 0.02] == []
