import pytest

from carving import capacity


@pytest.mark.parametrize(
    ("cells", "pairs", "expected"),
    [(4_096, 1_000, 0.1251), (8_100, 1_000, 0.3565), (343_000, 10_000, 0.9719)],
)
def test_the_closed_form_for_vsas_gives_the_known_values(cells, pairs, expected):
    assert capacity.vsa_accuracy(cells, pairs, pairs) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("d", "p", "k1", "pairs", "simulated"),
    [
        (200, 2, 14, 1_000, 0.9972),
        (100, 2, 10, 1_000, 0.40),
        (150, 2, 12, 1_000, 0.89),
        (80, 3, 9, 10_000, 0.9985),
    ],
)
def test_predictions_lie_within_three_points_of_simulations(d, p, k1, pairs, simulated):
    assert capacity.osc_accuracy(d, p, k1, pairs, pairs) == pytest.approx(simulated, abs=0.03)


def test_the_smallest_dimensions_come_near_the_papers():
    """Its table of minimum dimensions at 99 %: OSC with p = 3 to within one, TPR to within 6 %.

    The Gaussian has heavier tails than the cosines of TPR's roles and fillers, so it asks for a little too much.
    """
    for pairs, osc, tpr in ((500, 27, 137), (1_000, 34, 197), (5_000, 59, 451), (10_000, 76, 649)):
        found = capacity.smallest(lambda d, n=pairs: capacity.osc_accuracy(d, 3, round(d**0.5), n, n), 0.99)
        assert abs(found - osc) <= 1
        found = capacity.smallest(lambda d, n=pairs: capacity.tpr_accuracy(d, n, n), 0.99)
        assert found == pytest.approx(tpr, rel=0.06)


def test_the_excess_is_the_exact_one_for_two_components():
    """Simulated with 100,000 draws at d = 20: 2.73, 1.387 and 1.081 times d^-2."""
    for k1, simulated in ((1, 2.73), (2, 1.387), (4, 1.081)):
        assert 1 + capacity.excess(20, 2, k1) == pytest.approx(simulated, abs=0.02)


def test_smallest_finds_the_first_size_that_reaches():
    assert [capacity.smallest(lambda n: n, wanted) for wanted in (2, 3, 17, 64, 65)] == [2, 3, 17, 64, 65]
