"""What the fast recipe holds while it learns from very many features: few copies, and the same bits in any pieces."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from carving.multilabel import MultiLabelClassifier, counting, fast, maps, matching, rerankers, scorer, views
from carving.multilabel.data import Dataset
from carving.multilabel.maps import Map
from carving.multilabel.views import View, unit_rows

FEATURES, LABELS, STORED = 6_000, 400, 60


def points(count, labels=LABELS):
    """Points of three labels, each of which brings eight of its twenty words along."""
    rng = np.random.default_rng(count)
    words = rng.integers(0, FEATURES, (labels, 20))
    own = np.array([rng.choice(labels, 3, replace=False) for _ in range(count)])
    brought = words[own[:, :, None], rng.integers(0, 20, (count, 3, 8))].reshape(count, -1)
    columns = np.concatenate([brought, rng.integers(0, FEATURES, (count, STORED - brought.shape[1]))], 1)
    return Dataset(_ones(columns, FEATURES), _ones(own, labels))


def _ones(columns, width):
    starts = np.arange(len(columns) + 1) * columns.shape[1]
    matrix = csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), starts), (len(columns), width))
    matrix.sum_duplicates()
    return matrix.sign()


def size(*matrices):
    return sum(array.nbytes for each in matrices for array in (each.data, each.indices, each.indptr))


def peak(work):
    """The bytes that are allocated at once at most while it works, and what it gives."""
    tracemalloc.start()
    try:
        made = work()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


@pytest.fixture
def narrow(monkeypatch):
    """Little is looked at together, so that what is held stands out; all that is imported on the way is there."""
    MultiLabelClassifier(recipe="fast").fit(points(30).features, points(30).labels)
    rooms = (scorer, "ROOM"), (counting, "ROOM"), (views, "ROOM"), (maps, "AT_ONCE")
    for module, name in rooms:
        monkeypatch.setattr(module, name, 2**12)
    monkeypatch.setattr(rerankers, "AT_ONCE", 4)
    monkeypatch.setattr(fast, "HELD", 50)


# Bytes


def fitted(data):
    return peak(lambda: MultiLabelClassifier(recipe="fast", rerank_min_count=None).fit(data.features, data.labels))


def test_of_each_weight_the_fast_recipe_holds_less_than_three_copies(narrow):
    """A weight and its place are 8 bytes; rows and columns are held together while the ones become the others."""
    data = points(600)
    bytes_held, made = fitted(data)
    weights = made.scorer_.matcher.map.weights.nnz
    assert weights > 60_000  # of 400 labels: nearly what is kept of each
    assert bytes_held < 3 * 8 * weights + 2 * size(data.features, data.labels)


def test_more_points_add_no_more_than_two_copies_of_themselves(narrow):
    few, many = points(2_000), points(6_000)
    held = [fitted(data)[0] for data in (few, many)]
    grown = size(many.features, many.labels) - size(few.features, few.labels)
    assert held[1] - held[0] < 2 * grown


def test_rerankers_are_put_together_in_less_than_three_copies(narrow):
    data, rng = points(400, labels=40), np.random.default_rng(1)
    listed = _ones(np.array([rng.choice(40, 8, replace=False) for _ in range(400)]), 40)
    seen = View.rows()(data.features)
    bytes_held, made = peak(lambda: rerankers.trained(seen, data.labels, listed))
    assert made.weights.nnz > 60_000
    assert bytes_held < 3 * 8 * made.weights.nnz


# Bits


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("data", "indices", "indptr"))


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_rows_have_the_same_bits_in_pieces_of_any_size(power, monkeypatch):
    features, scale = points(50).features, np.random.default_rng(0).random(FEATURES, np.float32)
    values = features.data.astype(np.float64) * scale[features.indices]
    owners = np.repeat(np.arange(50), np.diff(features.indptr))
    lengths = np.sqrt(np.bincount(owners, values**2))
    wanted = (values * (2.0 * lengths ** (power - 1))[owners]).astype(np.float32)
    for room in (1, 100, 2**20):
        monkeypatch.setattr(views, "ROOM", room)
        made = unit_rows(features, scale, 2.0, power)
        assert np.array_equal(made.data, wanted)
        assert made.indices is features.indices or np.shares_memory(made.indices, features.indices)


@pytest.mark.parametrize("room", [1, 2**12, 2**23])
def test_counted_matchers_have_the_bits_of_one_sum_over_all_points(room, monkeypatch):
    data = points(300)
    view = View.rows(counting.rarity(data.features))
    seen, frequencies = view(data.features), data.labels.getnnz(axis=0)
    sums = unit_rows(counting.largest((data.labels.T.tocsr() @ seen).tocsr(), counting.KEPT)).tocsc()
    sums.data *= (3.0 * np.maximum(frequencies, 1.0) ** 0.2).astype(np.float32)[sums.indices]
    wanted = sums.T.tocsr()
    wanted.data = wanted.data.astype(np.float16).astype(np.float32)
    monkeypatch.setattr(counting, "ROOM", room)
    monkeypatch.setattr(views, "ROOM", room)
    monkeypatch.setattr(maps, "AT_ONCE", room + 6)
    assert same(matching.Counts.of(data).matcher(0.2, 3.0).map.weights, wanted)


@pytest.mark.parametrize("at_once", [1, 7, 256])
def test_rerankers_have_the_bits_of_each_trained_alone(at_once, monkeypatch):
    data = points(60, labels=20)
    listed = _ones(np.array([np.random.default_rng(i).choice(20, 5, replace=False) for i in range(60)]), 20)
    monkeypatch.setattr(rerankers, "AT_ONCE", at_once)
    monkeypatch.setattr(rerankers, "MOST", 15)
    made = rerankers.trained(data.features, data.labels, listed)
    weights, chosen = np.zeros((FEATURES, 20), np.float32), rerankers._ranked(data.labels, 1)
    assert len(chosen) == 15
    for label in chosen:
        truth = data.labels[:, [label]].toarray()[:, 0] > 0
        rows = truth | (listed[:, [label]].toarray()[:, 0] > 0)
        one = rerankers.one(data.features.astype(np.float64)[rows], truth[rows])
        weights[one.columns, label] = one.values.astype(np.float16)
        assert made.bias[label] == np.float32(one.bias)
    assert same(made.weights, csr_matrix(weights))


def test_a_map_whose_weights_vanish_leaves_what_it_was_made_of_as_it_was():
    given = csr_matrix(np.array([[1e-9, 1, 0], [0, 2, 1e9]], np.float32))
    before = given.copy()
    made = Map.sparse(given, np.zeros(3), np.array([1, 2, 3], np.float32))
    assert np.array_equal(made.weights.toarray(), [[0, 2, 0], [0, 4, np.float16(6e4)]]) and made.weights.nnz == 3
    assert same(given, before)
