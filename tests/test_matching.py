"""Matchers that are solved or counted, rerankers of shortlists, and recipes that blend them: against slow oracles."""

import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.svm import LinearSVC
from test_classifier import topics

from carving.errors import BadValue
from carving.multilabel import MultiLabelClassifier, Settings, counting, matching, metrics, recipe, rerankers, ridge
from carving.multilabel.blending import Quality
from carving.multilabel.data import Dataset
from carving.multilabel.maps import Map
from carving.multilabel.matching import Parts, Shortlisted, shortlisted, trusted
from carving.multilabel.models import BadModel
from carving.multilabel.ridge import Few, Sums, gathered
from carving.multilabel.scorer import NO, Matcher, Rerankers, Scorer, shortlists
from carving.multilabel.views import View
from carving.storage.tensorfile import checksum, read_tensors, replace_tensors


def some(shape, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return csr_matrix((rng.random(shape) * (rng.random(shape) < density)).astype(np.float32))


def dense(matrix):
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


# Views


def test_rows_come_to_length_one_or_to_the_root_of_their_length():
    features = some((30, 12))
    own = np.linalg.norm(features.toarray(), axis=1)
    assert np.allclose(np.linalg.norm(View.rows()(features).toarray(), axis=1), own > 0)
    halves = np.linalg.norm(View.halves(features)(features).toarray(), axis=1)
    assert np.allclose((halves**2).mean(), 1, atol=1e-5) and np.allclose(
        halves / halves.max(), (own / own.max()) ** 0.5
    )
    weighed = View.rows(np.arange(12))(features).toarray()
    wanted = features.toarray() * np.arange(12)
    assert np.allclose(weighed, wanted / np.maximum(np.linalg.norm(wanted, axis=1), 1e-9)[:, None], atol=1e-6)


def test_rows_of_any_size_are_seen():
    features = csr_matrix(np.array([[1e30, 1e30], [1e-30, 0], [0, 0]], np.float32))
    assert np.allclose(View.rows()(features).toarray(), [[0.5**0.5, 0.5**0.5], [1, 0], [0, 0]])


def test_products_of_waves_are_a_gaussian_kernel():
    """A product of waves is a mean of 20,000 numbers in [-2, 2] of variance below 1: five deviations are 0.036."""
    rng = np.random.default_rng(0)
    features = csr_matrix(rng.normal(size=(40, 6)).astype(np.float32))
    view = View.columns(features, 20_000, seed=3)
    seen = view(features)
    plain = (features.toarray() - view.shift) * view.scale
    kernel = np.exp(-0.5 * ((plain[:, None] - plain[None]) ** 2).sum(2))
    assert np.abs(seen @ seen.T - kernel).max() < 0.036
    assert np.array_equal(View(view.shift, view.scale, 20_000, 3)(features), seen)
    assert np.abs(View.columns(features, 20_000, seed=4)(features) - seen).max() > 0.01


# Maps


@pytest.mark.parametrize("density", [None, 0.2])
def test_a_map_scores_as_its_weights_say_and_comes_back_from_a_file(density):
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(12, 7)) * (1 if density is None else rng.random((12, 7)) < density)
    bias, features = rng.normal(size=7), some((5, 12))
    made = Map.dense(weights, bias) if density is None else Map.sparse(csr_matrix(weights), bias)
    step = np.abs(weights).max(0) / 127 if density is None else np.abs(weights) * 2.0**-10
    assert (np.abs(dense(made.weights) - weights) <= 0.51 * step + 1e-7).all()
    scores = made(features)
    assert np.allclose(scores, features.toarray() @ dense(made.weights) + bias, atol=1e-5)
    assert np.allclose(made(features.toarray()), scores, atol=1e-5)
    back = Map.of(made.tensors(), 12, 7)
    assert np.array_equal(back(features), scores) and back.count == made.count
    assert np.allclose(made.times(2.0)(features), 2 * scores, atol=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(columns=torch.full((84,), 7, dtype=torch.int32)), "got 7 to 7"),
        (dict(columns=torch.full((84,), -1, dtype=torch.int32)), "got -1 to -1"),
        (dict(starts=torch.arange(13) * 8), "do not increase"),
        (dict(starts=torch.arange(12, -1, -1) * 7), "do not increase"),
        (dict(starts=torch.arange(14) * 7), "expected starts"),
        (dict(bias=torch.zeros(7, dtype=torch.float64)), "expected bias"),
        (dict(more=torch.zeros(1)), "unexpected tensors"),
    ],
)
def test_maps_that_lead_out_of_their_arrays_are_refused(changes, message):
    tensors = Map.sparse(csr_matrix(np.ones((12, 7))), np.zeros(7)).tensors()
    with pytest.raises(BadValue, match=message):
        Map.of(tensors | changes, 12, 7)


# Matchers


@pytest.mark.parametrize("kind", ["halves", "columns", "waves"])
def test_ridge_regression_is_that_of_numpy_in_one_pass_or_many(kind, monkeypatch):
    """With rows of roots of the penalty below the points, least squares are those with the penalty."""
    features, labels = some((60, 9), seed=2), some((60, 4), seed=3).sign()
    view = dict(halves=View.halves, columns=View.columns, waves=lambda f: View.columns(f, 15))[kind](features)
    weights = np.random.default_rng(0).uniform(0.5, 2, 60)
    seen = np.hstack([dense(view(features)), np.ones((60, 1))]).astype(np.float64)
    roots = np.sqrt(weights)[:, None]
    augmented = np.vstack([roots * seen, np.sqrt(0.3) * np.eye(seen.shape[1])])
    target = np.vstack([roots * labels.toarray(), np.zeros((seen.shape[1], 4))])
    wanted = np.linalg.lstsq(augmented, target, rcond=None)[0]
    assert np.allclose(Sums.of(features, labels, view, weights).solved(0.3), wanted, atol=1e-4)
    monkeypatch.setattr(ridge, "ROOM", 100)
    assert np.allclose(Sums.of(features, labels, view, weights).solved(0.3), wanted, atol=1e-4)
    halves = [Sums.of(features[part], labels[part], view, weights[part]) for part in (slice(0, 25), slice(25, 60))]
    assert np.allclose((halves[0] + halves[1]).solved(0.3), wanted, atol=1e-4)
    few = [Few.of(features[part], labels[part], view, weights[part]) for part in (slice(0, 25), slice(25, 60))]
    assert np.allclose((few[0] + few[1]).solved(0.3), wanted, atol=1e-4)


@pytest.mark.parametrize(("points", "kind"), [(9, Few), (10, Sums)])
def test_of_fewer_points_than_features_a_system_of_points_is_solved(points, kind):
    features, labels = some((points, 9)), some((points, 4), seed=1).sign()
    found = gathered(features, labels, View.halves(features), np.ones(points), points)
    assert type(found) is kind
    assert np.allclose(found.solved(0.1), Sums.of(features, labels, View.halves(features)).solved(0.1), atol=1e-5)


def test_labels_are_the_sums_of_their_points(monkeypatch):
    features, labels = some((40, 30)), some((40, 6), seed=1).sign()
    view = View.rows(counting.rarity(features))
    wanted = labels.T.toarray() @ view(features).toarray()
    for row in wanted:
        row[np.argsort(-row)[5:]] = 0
    wanted /= np.linalg.norm(wanted, axis=1)[:, None]
    for room in (counting.ROOM, 1):
        monkeypatch.setattr(counting, "ROOM", room)
        assert np.allclose(counting.sums(features, labels, view, kept=5).toarray(), wanted, atol=1e-6)
    points = (features.toarray() > 0).sum(0)
    assert np.allclose(counting.rarity(features), np.log(41 / (1 + points)), atol=1e-6)


# Rerankers


def test_rerankers_are_scikit_learns_and_see_their_own_points_and_the_shortlist_alone():
    data = topics(120)
    features, labels = View.rows()(data.features), data.labels
    named = some(labels.shape, 0.4, seed=5).sign()
    made = rerankers.trained(features, labels, named)
    truth, listed, points = labels.toarray() > 0, named.toarray() > 0, features.toarray()
    for label in range(labels.shape[1]):
        rows = truth[:, label] | listed[:, label]
        wanted = LinearSVC(C=1.0, tol=0.1, random_state=0).fit(points[rows], truth[rows, label])
        weights = np.where(np.abs(wanted.coef_[0]) < 0.01, 0, wanted.coef_[0])
        assert np.allclose(made.weights[:, [label]].toarray()[:, 0], weights, atol=2e-3)
        assert made.bias[label] == pytest.approx(wanted.intercept_[0], abs=1e-3)


def test_rerankers_share_the_room_there_is_and_keep_their_largest_weights(monkeypatch):
    features, labels = some((60, 30), seed=1), some((60, 5), 0.4).sign()
    named = csr_matrix(np.ones((60, 5), np.float32))
    whole = rerankers.trained(features, labels, named).weights.toarray()
    monkeypatch.setattr(rerankers, "WEIGHTS", 5 * 4 + 3)  # four for each of five
    few = rerankers.trained(features, labels, named).weights.toarray()
    assert ((whole != 0).sum(0) > 4).all() and ((few != 0).sum(0) == 4).all()
    assert np.array_equal(few[few != 0], whole[few != 0])
    dropped = np.where(few == 0, np.abs(whole), 0)
    assert (dropped.max(0) <= np.where(few != 0, np.abs(few), np.inf).min(0)).all()


def test_rerankers_of_many_features_look_at_those_of_their_points(monkeypatch):
    data = topics(60)
    wide = csr_matrix((data.features.data, data.features.indices * 50, data.features.indptr), (60, 2000))
    named = csr_matrix(np.ones((60, 12), np.float32))
    narrow = rerankers.trained(data.features, data.labels, named)
    monkeypatch.setattr(rerankers, "SPARSE", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert np.allclose(
        rerankers.trained(wide, data.labels, named).weights[::50].toarray(), narrow.weights.toarray(), atol=1e-3
    )


def test_rerankers_are_the_same_however_many_threads_there_are():
    """Of more features than points liblinear draws the order in which it looks at points."""
    rng, threads, made = np.random.default_rng(0), torch.get_num_threads(), []
    features = some((400, 3000), 0.02)
    labels, named = (csr_matrix((rng.random((400, 20)) < share).astype(np.float32)) for share in (0.1, 0.4))
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            made.append(rerankers.trained(features, labels, named).weights)
    finally:
        torch.set_num_threads(threads)
    assert made[0].nnz > 1000 and all((made[0] != other).nnz == 0 for other in made)


def test_labels_without_points_and_without_false_ones_have_rerankers_that_say_nothing(monkeypatch):
    labels = csr_matrix(np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], np.float32))
    made = rerankers.trained(some((3, 5)), labels, csr_matrix(np.array([[1, 0, 1]] * 3, np.float32)))
    assert made.weights[:, [0, 1]].nnz == 0 and not made.bias[:2].any() and made.bias[2]
    monkeypatch.setattr(rerankers, "MOST", 1)  # the first label is the most frequent
    assert not rerankers.trained(some((3, 5)), labels, labels).bias.any()


@pytest.mark.parametrize("features", [100, 5_000])
def test_points_of_no_features_are_learned_from_as_others_are(features):
    """Of a label whose points, and those that are taken for its own, have none a reranker says nothing."""
    points = some((90, features), 0.1).toarray()
    labels = np.eye(9, dtype=int)[np.arange(90) % 9]
    empty = labels[:, :2].any(1)
    points[empty] = 0
    shortlists = np.where(empty[:, None], np.arange(9) < 2, np.arange(9) >= 2)
    made = rerankers.trained(csr_matrix(points), csr_matrix(labels), csr_matrix(shortlists))
    assert made.weights[:, :2].nnz == 0 and not made.bias[:2].any() and (made.weights.getnnz(axis=0)[2:] > 0).all()
    for given in (points, np.zeros_like(points)):
        model = MultiLabelClassifier(recipe="fast").fit(given, labels)
        assert np.isfinite(model.predict_proba(given)).all()


def test_shortlists_name_the_best():
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 80)).astype(np.float32))
    named = shortlists(scores.__getitem__, 7, 80).toarray() > 0
    assert (named.sum(1) == 60).all()
    assert (scores.numpy().min(1, where=named, initial=9) > scores.numpy().max(1, where=~named, initial=-9)).all()


@pytest.mark.parametrize("bias", [None, torch.linspace(0, 2, 80)])
def test_scores_are_match_and_trusted_rerankers_label_by_label(bias):
    """A shortlist of 10: beyond it, and below it, rerankers say -1."""
    rng = np.random.default_rng(0)
    matcher = Matcher(View.rows(), Map.dense(rng.normal(size=(20, 80)), rng.normal(size=80)))
    said = Map.sparse(csr_matrix(rng.normal(size=(20, 80))), rng.normal(size=80))
    scorer, features = Scorer(None, None, matcher, Rerankers(said, 1.5, 10), bias), some((6, 20))
    scores = scorer.scores(features).numpy()
    for point in range(6):
        row = dense(View.rows()(features[point])).ravel()
        match = row @ matcher.map.weights + matcher.map.bias
        listed = set(np.argsort(-match)[:10].tolist())
        for label in range(80):
            rank = max(row @ said.weights[:, [label]].toarray()[:, 0] + said.bias[label], NO) if label in listed else NO
            wanted = match[label] + 1.5 * rank + (0 if bias is None else float(bias[label]))
            assert scores[point, label] == pytest.approx(wanted, abs=1e-4)
    best = scorer.top(features, 80, 80)
    assert np.array_equal(best.indices.numpy(), np.argsort(-scores, axis=1, kind="stable"))


def test_rerankers_are_trusted_as_far_as_they_are_right():
    rng = np.random.default_rng(0)
    data = topics(200)
    truth = torch.from_numpy(data.labels.toarray()) > 0
    named = torch.arange(12).expand(200, 12)
    noise = torch.from_numpy(rng.normal(size=(200, 12))).float()
    q = metrics.propensities(data.labels)
    right = trusted(Shortlisted(named, noise, 2.0 * truth - 1, truth), data, q)
    assert right.trust >= 4 and right.quality.ndcg > 0.99
    assert trusted(Shortlisted(named, 2.0 * truth - 1, noise, truth), data, q).trust <= 0.25


# Recipes


def cut(data, share=0.2):
    points = np.arange(len(data))
    return Parts(data, data.take(points >= share * len(data)), data.take(points < share * len(data)))


def test_matchers_are_logits_and_as_good_of_all_points_as_of_most():
    data, test = topics(400), topics(200, seed=1)
    for features in (data, Dataset(data.features.toarray() + 1, data.labels)):  # sparse, and dense
        pair = matching.matchers(cut(features))
        shift = features is not data
        points = Dataset(test.features.toarray() + 1, test.labels) if shift else test
        for matcher in (pair.trial, pair.final()):
            short = shortlisted(Scorer(None, None, matcher).matching(points.features), None, points)
            assert metrics.ndcg(short.named.numpy(), points.labels, 5) > 0.9
            assert 0.5 <= matching.logit_scale(short) <= 2  # they are the best logits as they are


FORCED = dict(solved={}, counted=dict(FEW=3))


@pytest.mark.parametrize("kind", FORCED)
def test_the_fast_recipe_learns_is_repeatable_and_comes_back_from_a_file(kind, monkeypatch, tmp_path):
    for name, value in FORCED[kind].items():
        monkeypatch.setattr(matching, name, value)
    data, test = topics(300), topics(100, seed=1)
    calls = []
    made = MultiLabelClassifier(recipe="fast", on_progress=lambda *call: calls.append(call[0]))
    made.fit(data.features, data.labels)
    assert made.score(test.features, test.labels) > 0.9
    assert made.validation_["nDCG@5"] > 0.85
    assert (made.scorer_.rerankers is not None) == (kind == "counted") == bool(calls)
    held = made.chosen_.held
    assert metrics.ndcg(held.ids, held.labels, 5) == pytest.approx(made.validation_["nDCG@5"])  # of points not learned
    assert held.ids.shape == (45, 12) and (np.diff(held.scores, axis=1) <= 0).all()
    scores = made.decision_function(test.features)
    again = MultiLabelClassifier(recipe="fast").fit(data.features, data.labels)
    assert np.array_equal(again.decision_function(test.features), scores)
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(back.decision_function(test.features), scores) and back.recipe == "fast"
    ids, values = back.rank(test.features, 3)
    assert np.array_equal(np.take_along_axis(scores, ids, 1), values)
    assert (values[:, -1:] >= np.sort(scores, axis=1)[:, [-3]]).all()
    with pytest.raises(BadValue, match="40 features"):
        back.rank(test.features[:, :5])


@pytest.mark.parametrize("needed", [True, False])
def test_networks_stay_where_points_that_are_held_back_want_them(needed, monkeypatch, tmp_path):
    """Of very many features: what is said of matcher and rerankers alone is replaced by something better or worse."""
    monkeypatch.setattr(matching, "FEW", 3)
    seen, make = [], recipe._trial

    def judged(blend, *given):
        made = make(blend, *given)
        seen.append(bool(blend.kept))
        quality = made.best.quality if blend.kept else Quality(*[-1.0 if needed else 1.0] * 2)
        return made._replace(best=made.best._replace(quality=quality))

    monkeypatch.setattr(recipe, "_trial", judged)
    data, test = topics(200), topics(100, seed=1)
    made = MultiLabelClassifier(epochs=2).fit(data.features, data.labels)
    assert seen == [True, False]
    assert (made.scorer_.network is not None) == bool(made.chosen_.settings) == needed
    assert made.score(test.features, test.labels) > 0.8
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(back.decision_function(test.features), made.decision_function(test.features))


@pytest.mark.parametrize("few", [4_096, 3])
def test_the_fast_recipe_takes_dense_and_tiny_data(few, monkeypatch, tmp_path):
    monkeypatch.setattr(matching, "FEW", few)  # solved, and counted
    data = topics(200)
    shifted = data.features.toarray() - 0.5
    made = MultiLabelClassifier(recipe="fast").fit(shifted, data.labels)
    assert made.score(shifted, data.labels) > 0.9
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(back.decision_function(shifted), made.decision_function(shifted))
    tiny = topics(6, features=5, labels=2)
    assert MultiLabelClassifier(recipe="fast").fit(tiny.features, tiny.labels).rank(tiny.features)[0].shape == (6, 2)


@pytest.mark.parametrize(("few", "narrow"), [(4_096, 300), (4_096, 301), (3, 300)])
def test_the_best_recipe_has_rerankers_beside_its_networks_and_comes_back_from_a_file(
    few, narrow, monkeypatch, tmp_path
):
    monkeypatch.setattr(matching, "FEW", few)
    monkeypatch.setattr("carving.multilabel.recipe.NARROW", narrow)
    monkeypatch.setattr("carving.multilabel.recipe.teachable", lambda _: False)  # no student stands for them
    data, test = topics(300), topics(60, seed=1)
    sparse = Dataset(
        csr_matrix((data.features.data, data.features.indices, data.features.indptr), (300, 200)), data.labels
    )
    wide = csr_matrix((test.features.data, test.features.indices, test.features.indptr), (60, 200))
    chosen = matching.Trusted(2.0, 0.5, Quality(0.5, 0.5))
    monkeypatch.setattr("carving.multilabel.recipe.trusted", lambda *_: chosen)  # whatever the rerankers are worth
    named = []
    made = MultiLabelClassifier(
        epochs=1,
        head_options=dict(d=18, k1=6),
        on_progress=lambda name, *_: (
            named.append(name.split()[1]) if " of " in name and name.startswith("trial") else None
        ),
    ).fit(sparse.features, sparse.labels)
    # Of many features, or of few points, no linear network is tried.
    assert set(named) == ({*"123"} if few > 3 and narrow == 300 else {*"12"})
    assert made.chosen_.trust == 2 and made.tail_bias_ == 0.5 and made.scorer_.rerankers.trust == 2
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(back.decision_function(wide), made.decision_function(wide))


@pytest.mark.parametrize("recipe", ["fast", "best"])
def test_rerankers_are_left_out_or_for_labels_of_enough_points(recipe, monkeypatch, tmp_path):
    monkeypatch.setattr(matching, "FEW", 3)
    chosen = matching.Trusted(2.0, 0.5, Quality(0.5, 0.5))
    monkeypatch.setattr(f"carving.multilabel.{dict(fast='fast', best='recipe')[recipe]}.trusted", lambda *_: chosen)
    data = topics(120)
    wide = csr_matrix((data.features.data, data.features.indices, data.features.indptr), (120, 200))
    frequencies = data.labels.getnnz(axis=0)
    least = int(np.median(frequencies)) + 1
    options = {} if recipe == "fast" else dict(epochs=1, head_options=dict(d=18, k1=6))
    for asked in (1, least, None):
        made = MultiLabelClassifier(recipe=recipe, rerank_min_count=asked, **options).fit(wide, data.labels)
        if asked is None:
            assert made.scorer_.rerankers is None
        else:
            weights = made.scorer_.rerankers.map.weights
            assert np.array_equal(weights.getnnz(axis=0) > 0, frequencies >= asked)
        made.save(tmp_path / "model", force=True)
        back = MultiLabelClassifier.load(tmp_path / "model")
        assert back.rerank_min_count == asked and np.array_equal(
            back.decision_function(wide), made.decision_function(wide)
        )
    with pytest.raises(BadValue, match=r"rerank_min_count must be .* None trains no rerankers"):
        MultiLabelClassifier(recipe=recipe, rerank_min_count=0).fit(wide, data.labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(recipe="quick"), "'best', 'fast', got 'quick'"),
        (dict(recipe="fast", epochs=3), "epochs does not apply"),
        (dict(recipe="fast", settings=Settings()), "settings does not apply"),
        (dict(recipe="fast", head_options=dict(d=12)), "head_options does not apply"),
        (dict(recipe="fast", head="HLB"), "head='HLB' does not apply"),
    ],
)
def test_what_a_recipe_has_no_use_for_is_refused(options, message):
    data = topics(20)
    with pytest.raises(BadValue, match=message):
        MultiLabelClassifier(**options).fit(data.features, data.labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(matcher=dict(waves=10**12, seed=0, length=1.0, power=0.0)), "waves must be"),
        (dict(matcher=dict(waves=10, seed=0, length=1.0, power=0.0)), "expected starts"),
        (dict(matcher=dict(waves=0, seed=0, length=float("nan"), power=0.0)), "must be finite"),
        (dict(matcher=None), "0 networks"),
        (dict(rerankers=dict(trust=float("inf"), shortlist=60)), "must be finite"),
        (dict(rerankers=dict(trust=1.0, shortlist=0)), "shortlist must be"),
        (dict(features=41), "expected"),
        ({"matcher/scale": torch.ones(7)}, "expected scales of 40 features"),
        ({"rerankers/columns": torch.zeros(3, dtype=torch.int32)}, "expected columns"),
    ],
)
def test_fast_models_that_lie_are_refused(changes, message, monkeypatch, tmp_path):
    monkeypatch.setattr(matching, "FEW", 3)
    data = topics(80)
    MultiLabelClassifier(recipe="fast").fit(data.features, data.labels).save(tmp_path / "model")
    metadata, tensors = read_tensors(tmp_path / "model", "file", lambda _: None)
    facts = json.loads(metadata["facts"])
    assert metadata["format"] == "carving labels 6" and set(facts["matcher"]) == {"waves", "seed", "length", "power"}
    tensors |= {name: value for name, value in changes.items() if isinstance(value, torch.Tensor)}
    facts |= {name: value for name, value in changes.items() if not isinstance(value, torch.Tensor)}
    metadata["facts"] = json.dumps(facts)
    metadata["checksum"] = checksum(tensors, metadata)
    replace_tensors(tmp_path / "model", tensors, metadata)
    with pytest.raises(BadModel, match=message):
        MultiLabelClassifier.load(tmp_path / "model")
