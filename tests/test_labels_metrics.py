"""Measures of rankings: against napkinxc, against sums written out, and by hand."""

import math

import numpy as np
import pytest
from napkinxc import metrics as napkin
from scipy.sparse import csr_matrix

from carving.multilabel.metrics import measures, ndcg, precision, propensities, psndcg, psp, ranking

FOUR = ("P", "nDCG", "PSP", "PSnDCG")


def some_labels(seed: int, points: int = 60, known: int = 30, share: float = 0.15, bare: bool = False) -> csr_matrix:
    """Random label sets, common labels and rare ones; with `bare` some points have none."""
    random = np.random.default_rng(seed)
    given = random.random((points, known)) < share * 2 * random.random(known)
    if not bare:
        given[np.arange(points), random.integers(known, size=points)] = True
    else:
        given[::7] = False
    return csr_matrix(given.astype(np.float32))


def some_ranking(seed: int, labels: csr_matrix, places: int = 8) -> np.ndarray:
    """Rankings that are better than chance."""
    random = np.random.default_rng(seed + 1000)
    return ranking(labels.toarray() * 0.5 + random.random(labels.shape), places)


def written_out(
    ranked: np.ndarray, labels: csr_matrix, k: int, p: np.ndarray, rows: range | None = None
) -> list[float]:
    """The four measures as their formulas stand, point by point, over the points with labels."""
    sums = [0.0] * 6
    count = 0
    for n in rows or range(labels.shape[0]):
        own = set(labels[n].indices.tolist())
        if not own:
            continue
        count += 1
        attainable = sum(1 / math.log2(j + 1) for j in range(1, min(k, len(own)) + 1))
        best = sorted((1 / p[label] for label in own), reverse=True)[:k]
        for j, label in enumerate(ranked[n, :k].tolist(), start=1):
            if label in own:
                sums[0] += 1 / k
                sums[1] += 1 / math.log2(j + 1) / attainable
                sums[2] += 1 / p[label]
                sums[3] += 1 / p[label] / math.log2(j + 1) / attainable
        sums[4] += sum(best)
        sums[5] += sum(q / math.log2(j + 1) for j, q in enumerate(best, start=1)) / attainable
    return [sums[0] / count, sums[1] / count, sums[2] / sums[4], sums[3] / sums[5]]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_all_measures_agree_with_napkinxc(seed, k):
    labels, train = some_labels(seed), some_labels(seed + 100, points=200)
    ranked, p = some_ranking(seed, labels), propensities(train)
    sets = [labels[n].indices.tolist() for n in range(labels.shape[0])]
    places = ranked.tolist()
    inverse = napkin.Jain_et_al_inverse_propensity(train.astype(np.float64))
    np.testing.assert_allclose(1 / p, inverse, rtol=1e-12)
    assert precision(ranked, labels, k) == pytest.approx(napkin.precision_at_k(sets, places, k=k)[-1], abs=1e-9)
    assert ndcg(ranked, labels, k) == pytest.approx(napkin.ndcg_at_k(sets, places, k=k)[-1], abs=1e-9)
    assert psp(ranked, labels, k, p) == pytest.approx(napkin.psprecision_at_k(sets, places, 1 / p, k=k)[-1], abs=1e-9)
    assert psndcg(ranked, labels, k, p) == pytest.approx(napkin.psndcg_at_k(sets, places, 1 / p, k=k)[-1], abs=1e-9)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_all_measures_agree_with_the_formulas_written_out(k, bare):
    for seed in range(5):
        labels = some_labels(seed, bare=bare)
        ranked, p = some_ranking(seed, labels), propensities(some_labels(seed + 50))
        found = measures(ranked, labels, p, (k,))
        wanted = written_out(ranked, labels, k, p)
        assert [found[f"{name}@{k}"] for name in FOUR] == pytest.approx(wanted, abs=1e-12)


def test_an_example_by_hand():
    labels = csr_matrix([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    ranked = np.array([[0, 1], [3, 1], [0, 1]])
    second = 1 / math.log2(3)
    p = np.array([0.5, 1.0, 0.25, 1.0])
    assert precision(ranked, labels, 2) == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert ndcg(ranked, labels, 2) == pytest.approx((1 / (1 + second) + second) / 2)
    assert psp(ranked, labels, 2, p) == pytest.approx((2 + 1) / (4 + 2 + 1))
    best = (4 + 2 * second) / (1 + second) + 1
    assert psndcg(ranked, labels, 2, p) == pytest.approx((2 / (1 + second) + second) / best)


def test_points_without_labels_count_when_asked_for():
    labels = some_labels(3, bare=True)
    ranked, p = some_ranking(3, labels), propensities(labels)
    share = (labels.getnnz(axis=1) > 0).mean()
    few, all_ = (measures(ranked, labels, p, (5,), unlabeled=unlabeled) for unlabeled in (False, True))
    assert share < 1
    for name in ("P@5", "nDCG@5"):
        assert all_[name] == pytest.approx(few[name] * share)
    for name in ("PSP@5", "PSnDCG@5"):  # what the best ranking gets shrinks alike
        assert all_[name] == pytest.approx(few[name])


def test_a_perfect_ranking_gets_everything():
    labels = some_labels(5, share=0.5)
    p = propensities(labels)
    by_weight = ranking(labels.toarray() * (1 / p), 5)
    found = measures(by_weight, labels, p, (1, 3, 5))
    for k in (1, 3, 5):
        assert found[f"nDCG@{k}"] == found[f"PSP@{k}"] == found[f"PSnDCG@{k}"] == pytest.approx(1)
    assert found["P@1"] == 1


def test_the_weighted_measures_are_ratios_of_means_not_means_of_ratios():
    labels = csr_matrix([[1, 1, 0], [0, 0, 1]], dtype=np.float32)
    ranked, p = np.array([[0, 1], [0, 1]]), np.array([0.1, 0.5, 1.0])
    assert psp(ranked, labels, 2, p) == pytest.approx((10 + 2 + 0) / (10 + 2 + 1))
    assert psp(ranked, labels, 2, p) != pytest.approx((1 + 0) / 2)


def test_batches_count_alike_the_last_short_one_too():
    labels = some_labels(9, points=25)
    ranked, p = some_ranking(9, labels), propensities(labels)
    found = measures(ranked, labels, p, (5,), batch_size=10)
    parts = [written_out(ranked, labels, 5, p, rows) for rows in (range(10), range(10, 20), range(20, 25))]
    assert [found[f"{name}@5"] for name in FOUR] == pytest.approx(np.mean(parts, axis=0).tolist(), abs=1e-12)
    assert measures(ranked, labels, p, (5,), batch_size=25) == measures(ranked, labels, p, (5,))


def test_propensities_are_those_of_the_formula():
    counts = [0, 1000]
    labels = csr_matrix((np.ones(1000), (np.arange(1000), np.ones(1000, int))), (4880, 2), dtype=np.float32)
    constant = (math.log(4880) - 1) * 2.5**0.55
    wanted = [1 / (1 + constant * math.exp(-0.55 * math.log(n + 1.5))) for n in counts]
    assert propensities(labels).tolist() == pytest.approx(wanted, abs=1e-12)
    assert (1 / propensities(labels)).tolist() == pytest.approx([10.923543500, 1.277433529], abs=1e-6)


def test_propensities_of_few_points_stay_probabilities():
    for points in (1, 2, 3):
        found = propensities(csr_matrix(np.ones((points, 3), np.float32)))
        assert ((found > 0) & (found <= 1)).all()


def test_equal_scores_rank_by_number():
    assert ranking(np.array([[1.0, 2.0, 2.0, 1.0]]), 4).tolist() == [[1, 2, 0, 3]]


def test_the_caller_s_label_matrix_need_not_be_sorted():
    labels = csr_matrix((np.ones(3, np.float32), np.array([4, 1, 2]), np.array([0, 3])), (1, 5))
    assert precision(np.array([[1, 4, 0]]), labels, 3) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("ranked", "k", "says"),
    [
        ([[0, 1], [1, 2]], 5, "between 1 and 3"),
        ([[0, 1], [1, 2]], 3, "at least k=3 columns, got 2"),
        ([[0, 1], [1, 3]], 2, "from 0 to 2"),
        ([[0, 1], [-1, 2]], 2, "from 0 to 2"),
        ([[0, 1], [2, 2]], 2, "in row 1"),
        ([[0, 1]], 2, "one row per point, 2, got 1"),
        ([[0.5, 0.1], [1, 2]], 2, "ranking"),
        ([0, 1], 2, "shape"),
    ],
)
def test_what_is_no_ranking_is_refused(ranked, k, says):
    labels = csr_matrix(np.eye(2, 3, dtype=np.float32))
    with pytest.raises((ValueError, TypeError), match=says):
        ndcg(np.array(ranked), labels, k)


def test_bad_propensities_scores_and_labels_are_refused():
    labels, ranked = csr_matrix(np.eye(2, 3, dtype=np.float32)), np.array([[0, 1], [1, 2]])
    for wrong in ([0.5, 0.5], [0.5, 0.0, 1.0], [0.5, math.nan, 1.0], [1.5, 1.0, 1.0]):
        with pytest.raises(ValueError, match="propensities"):
            psp(ranked, labels, 2, wrong)
    with pytest.raises(ValueError, match="NaN in row 1"):
        ranking(np.array([[0.0, 1.0], [math.nan, 0.0]]), 1)
    with pytest.raises(ValueError, match="2 labels"):
        ranking(np.zeros((1, 2)), 3)
    with pytest.raises(ValueError, match="no point has a label"):
        precision(ranked, csr_matrix((2, 3), dtype=np.float32), 2)
    with pytest.raises(TypeError, match="stores only ones"):
        precision(ranked, csr_matrix((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 1, 2])), (2, 3)), 2)
    with pytest.raises(TypeError, match="CSR"):
        precision(ranked, labels.tocsc(), 2)
    with pytest.raises(ValueError, match="without rows"):
        propensities(csr_matrix((0, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="batch"):
        precision(ranked, labels, 2, batch_size=0)
