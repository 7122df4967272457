"""A small network that says what a large scorer says, and where the best recipe keeps it."""

import io
import json
import pickle
from itertools import pairwise

import joblib
import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from test_classifier import topics, with_all
from test_matching import some
from test_train_command import run

from carving.multilabel import MultiLabelClassifier, distilling, matching, recipe
from carving.multilabel.blending import Quality
from carving.multilabel.data import Dataset
from carving.multilabel.distilling import distilled, lost, mixed, smaller, teachable, widths
from carving.multilabel.maps import Map, product
from carving.multilabel.matching import Trusted
from carving.multilabel.models import BadModel
from carving.multilabel.scorer import Matcher, Scorer
from carving.multilabel.views import View
from carving.storage.tensorfile import checksum, read_tensors, replace_tensors


def wide(data, features=200):
    """The same points among more features, so that they are sparse."""
    parts = data.features.data, data.features.indices, data.features.indptr
    return Dataset(csr_matrix(parts, (len(data), features)), data.labels)


@pytest.fixture
def quick(monkeypatch):
    """Students that learn little, of points that are few."""
    monkeypatch.setattr(recipe, "NARROW", 100)
    monkeypatch.setattr(distilling, "EPOCHS", {True: 20, False: 20})
    monkeypatch.setattr(recipe, "WORTH", 2.0)
    monkeypatch.setattr(recipe, "blended", with_all(recipe.blended))


# Students


def test_the_loss_is_a_divergence_and_how_much_louder_one_is():
    rng = np.random.default_rng(0)
    scores, said = rng.normal(size=(2, 5, 7)) * 3
    p, q = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (said, scores))
    louder = np.log(np.exp(scores).sum(1)) - np.log(np.exp(said).sum(1))
    entropy = -(p * np.log(p)).sum(1).mean()
    wanted = (p * np.log(p / q)).sum(1).mean() + entropy + 0.1 * (louder**2).mean()
    assert float(lost(torch.tensor(scores), torch.tensor(said))) == pytest.approx(wanted)
    own = torch.tensor(said, requires_grad=True)
    lost(own, torch.tensor(said)).backward()
    assert own.grad.abs().max() < 1e-12  # it is least where scores are what was said


def test_mixtures_have_words_of_two_points_and_half_of_the_points_stay_as_they_are():
    """Of 400 points 200 stay, give or take five deviations of 10; mixed ones keep half of their words in the mean."""
    features = some((400, 60), 0.2)
    made = mixed(features, np.random.default_rng(0))
    before, after = features.toarray(), made.toarray()
    same = (before == after).all(1)
    assert 150 < same.sum() < 250 and made.data.all()
    values = set(features.data.tolist())
    single = np.isin(after[after > 0], list(values))
    assert single.mean() > 0.95  # but for words that both points have, which are added
    kept = ((after > 0) & (before > 0))[~same].sum() / (before > 0)[~same].sum()
    assert 0.4 < kept < 0.75
    assert np.array_equal(mixed(features, np.random.default_rng(0)).toarray(), after)
    assert not np.array_equal(mixed(features, np.random.default_rng(1)).toarray(), after)


def test_mixtures_of_very_large_numbers_are_finite():
    made = mixed(csr_matrix(np.full((400, 2), 3e38, np.float32)), np.random.default_rng(0))
    assert np.isfinite(made.data).all() and made.max() > 3.4e38


def test_a_teacher_may_be_louder_than_what_is_kept_of_it():
    """What is said is kept in halves, which end at 65,504."""
    data, loud = wide(topics(200)), np.random.default_rng(0).normal(size=(wide(topics(9)).features.shape[1], 12)) * 1e6
    student = distilled(Scorer(None, None, Matcher(View.rows(), Map.dense(loud, np.zeros(12)))), data)
    assert torch.isfinite(student(data.features)).all()


@pytest.mark.parametrize("dense", [False, True])
def test_a_student_says_what_its_teacher_says_of_points_that_it_has_not_seen(dense):
    """One that learned nothing would say the same of all points: at best what the teacher says in the mean."""
    rng, data, test = np.random.default_rng(0), topics(600), topics(200, seed=1)
    if not dense:
        data, test = wide(data), wide(test)
    view = View.columns(data.features) if dense else View.rows()
    weights = rng.normal(size=(data.features.shape[1], 12)) * 4
    teacher = Scorer(None, None, Matcher(view, Map.dense(weights, rng.normal(size=12))), bias=torch.arange(12.0) / 6)
    student = distilled(teacher, data)
    assert [len(layer.bias) for layer in student.hidden] == [*widths(12)] and student.view.dense == dense
    told, said = teacher.scores(test.features), student(test.features) + teacher.bias

    def apart(probable):
        return float((told.softmax(1) * (told.log_softmax(1) - probable.log())).sum(1).mean())

    assert apart(said.softmax(1)) < 0.3 * apart(told.softmax(1).mean(0))
    assert (told.argmax(1) == said.argmax(1)).float().mean() > 0.6  # of twelve labels
    assert (told.logsumexp(1) - said.logsumexp(1)).abs().mean() < 0.5 * told.logsumexp(1).std()
    assert torch.equal(distilled(teacher, data)(test.features), student(test.features))
    assert not torch.equal(distilled(teacher, data, seed=1)(test.features), student(test.features))


def test_a_teacher_that_would_have_too_much_to_say_has_no_student(monkeypatch):
    data = topics(30)
    assert teachable(data)
    monkeypatch.setattr(distilling, "ROOM", 30 * 12 - 1)
    assert not teachable(data)


def test_a_student_that_would_be_larger_than_its_teacher_is_not_wanted(quick, monkeypatch):
    """Of 50 features and 4,900 labels a student has hidden layers of 2,240 and 1,120 units, and 8 million weights."""
    many = Dataset(csr_matrix(([1.0], [0], [0, 1]), (1, 50)), csr_matrix(([1.0], [0], [0, 1]), (1, 4_900)))

    def teacher(inputs):
        weights = np.zeros((inputs, 4_900), np.float32)
        return Scorer(None, None, Matcher(View.rows(), Map(weights, weights[0], weights[0])))

    count = 51 * 2_240 + 2_241 * 1_120 + 1_121 * 4_900
    assert widths(4_900) == (2_240, 1_120) and not smaller(teacher(count // 4_900 - 1), many)
    assert smaller(teacher(count // 4_900), many)
    data = wide(topics(300))
    monkeypatch.setattr(recipe, "smaller", lambda teacher, own: len(own) != 300)
    assert not MultiLabelClassifier(epochs=1).fit(data.features, data.labels).chosen_.student


def test_products_are_those_of_plain_arrays():
    points, weights = some((9, 20)), some((20, 4))
    wanted = points.toarray().astype(np.float64) @ weights.toarray()
    for seen in (points, points.toarray()):
        for by in (weights, weights.toarray()):
            made = product(seen, by)
            assert made.dtype == np.float32 and np.allclose(made, wanted, atol=1e-6)
    assert product(points[:0], weights.toarray()).shape == (0, 4)


def test_a_matcher_with_hidden_layers_is_a_network_in_eight_bits():
    rng, features = np.random.default_rng(0), some((30, 20))
    sizes = (20, 8, 6, 5)
    layers = [(rng.normal(size=pair), rng.normal(size=pair[1])) for pair in pairwise(sizes)]
    maps = [Map.dense(*layer) for layer in layers]
    made = Matcher(View.rows(), maps[-1], tuple(maps[:-1]))
    seen = features.toarray() / np.maximum(np.linalg.norm(features.toarray(), axis=1, keepdims=True), 1e-9)
    for number, (weights, bias) in enumerate(layers):
        step = np.abs(weights).max(0) / 127
        seen = seen @ (np.round(weights / step) * step) + bias
        seen = seen if number == 2 else np.maximum(seen, 0)
    assert np.allclose(made(features), seen, atol=1e-4)
    assert made.count == 20 * 8 + 8 + 8 * 6 + 6 + 6 * 5 + 5 == Scorer(None, None, made).count
    assert torch.allclose(made.times(2.0)(features), 2 * made(features), atol=1e-4)


# Where they are kept


@pytest.mark.parametrize("again", [True, False])
def test_the_best_recipe_keeps_a_student_and_no_network(again, quick, monkeypatch, tmp_path):
    if not again:
        monkeypatch.setattr(recipe, "FEW", 50)
    data, test = wide(topics(300)), wide(topics(200, seed=1))
    names, ended = [], []

    def on_progress(name, progress, share):
        names.append(name)
        if name.endswith("student") and not share:
            ended.append((name, progress.epoch, len(progress.losses)))

    made = MultiLabelClassifier(epochs=4, on_progress=on_progress)
    made.fit(data.features, data.labels)
    assert made.chosen_.student and made.chosen_.settings and made.network_ is None and made.settings_ == []
    assert ("student" in names) == again and "trial student" in names  # which is kept where nothing is trained again
    each = ["trial student", "student"] if again else ["trial student"]
    assert ended == [(name, epoch, epoch) for name in each for epoch in range(1, 21)]  # so that logs have a line each
    assert made.score(test.features, test.labels) > 0.8  # by chance 0.2
    given = made.predict(test.features).toarray().astype(bool)
    truth = test.labels.toarray().astype(bool)
    assert 2 * (given & truth).sum() / (given.sum() + truth.sum()) > 0.7
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert np.array_equal(back.decision_function(test.features), made.decision_function(test.features))
    assert np.array_equal(back.predict_proba(test.features), made.predict_proba(test.features))
    made.fit(data.features, data.labels).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_networks_stay_where_a_student_loses_more_than_it_is_worth(quick, monkeypatch):
    monkeypatch.setattr(recipe, "WORTH", 0.03)
    monkeypatch.setattr(
        recipe,
        "_student",
        lambda teacher, *_: teacher._replace(best=Trusted(0.0, 0.0, Quality(teacher.best.quality.ndcg - 0.02, -1.0))),
    )
    data = wide(topics(300))
    made = MultiLabelClassifier(epochs=4).fit(data.features, data.labels)
    assert made.network_ is not None and not made.chosen_.student and len(made.settings_) == len(made.chosen_.weights)


def test_of_trials_the_smallest_is_taken_that_is_nearly_as_good(monkeypatch):
    monkeypatch.setattr(recipe, "WORTH", 0.03)

    def trial(*quality):
        return recipe.Trial(None, None, None, Trusted(0.0, 0.0, Quality(*quality)))

    large, near, far = trial(0.7, 0.6), trial(0.69, 0.581), trial(0.69, 0.579)
    assert recipe._smallest([large]) is large
    assert recipe._smallest([large, near]) is near and recipe._smallest([large, far]) is large
    assert recipe._smallest([large, near, far]) is near and recipe._smallest([far, large]) is large


def test_a_fit_that_is_killed_at_its_student_ends_with_the_same_bytes(quick, tmp_path):
    data, at = wide(topics(300)), []

    def fitted(name, stop=None, folder=None):
        def on_progress(name, progress, share):
            if name == stop and progress.epoch == 3:
                at.append(name)
                raise KeyboardInterrupt

        made = MultiLabelClassifier(epochs=2, checkpoints=folder, on_progress=on_progress)
        made.fit(data.features, data.labels).save(tmp_path / name)
        return made, (tmp_path / name).read_bytes()

    made, wanted = fitted("straight")
    assert made.chosen_.student
    for stop in ("trial student", "student"):
        with pytest.raises(KeyboardInterrupt):
            fitted("killed", stop, tmp_path / stop)
        assert at[-1] == stop and fitted("resumed", None, tmp_path / stop)[1] == wanted


def test_scikit_learn_clones_copies_and_searches_what_keeps_a_student(quick, monkeypatch):
    monkeypatch.setattr(distilling, "EPOCHS", {True: 2, False: 2})
    data = wide(topics(300))
    X, y = data.features, data.labels.toarray().astype(int)
    made = MultiLabelClassifier(epochs=1).fit(X, y)
    assert made.chosen_.student
    file = io.BytesIO()
    joblib.dump(made, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(made)), joblib.load(file), clone(made).fit(X, y)):
        assert np.array_equal(copy.predict_proba(X), made.predict_proba(X)) and copy.chosen_.student
    assert np.isfinite(cross_val_score(MultiLabelClassifier(epochs=1), X, y, cv=2, scoring="f1_micro")).all()
    best = (
        GridSearchCV(MultiLabelClassifier(epochs=1), dict(rerank_min_count=[1, None]), cv=2).fit(X, y).best_estimator_
    )
    assert best.chosen_.student and best.predict(X).shape == y.shape


def test_a_file_of_a_student_remembers_what_its_head_was_to_be(quick, tmp_path):
    data = wide(topics(300))
    made = MultiLabelClassifier(epochs=1, head_options=dict(d=24, k1=8)).fit(data.features, data.labels)
    assert made.chosen_.student and made.head_ is None
    made.save(tmp_path / "model")
    back = MultiLabelClassifier.load(tmp_path / "model")
    assert (back.head_options["d"], back.head_options["k1"]) == (24, 8)
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    again = clone(back).fit(data.features, data.labels)
    assert np.array_equal(again.decision_function(data.features), made.decision_function(data.features))
    made = MultiLabelClassifier(epochs=1).fit(data.features, data.labels)
    made.save(tmp_path / "model")
    assert made.head_ is None and MultiLabelClassifier.load(tmp_path / "model").head_options is None


def test_info_tells_of_the_hidden_layers(quick, tmp_path):
    data = wide(topics(300))
    MultiLabelClassifier(epochs=1).fit(data.features, data.labels).save(tmp_path / "model.safetensors")
    facts = json.loads(run("info", tmp_path / "model.safetensors", "--json").stdout)
    assert facts["hidden"] == [*widths(12)] and facts["networks"] == [] and facts["head"] is None
    shown = run("info", tmp_path / "model.safetensors").stdout
    assert f"a network with {widths(12)[0]} and {widths(12)[1]} hidden units, {facts['weights']:,} weights" in shown


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(kept=dict(head_options=7)), "must be an object"),
        (dict(hidden=[10**9, 160]), "expected (bias|levels)"),
        (dict(hidden=[0, 32]), "hidden units must be"),
        (dict(hidden=[64]), "expected (bias|levels)"),
        (dict(hidden=[]), "expected (bias|levels)"),
        (dict(hidden=[64, 32, 32]), "corrupt"),
        (dict(hidden=7), "corrupt"),
        ({"hidden/0/bias": torch.full((64,), torch.inf)}, "infinity"),
        ({"hidden/1/levels": torch.zeros(3, 3, dtype=torch.int8)}, "expected levels"),
    ],
)
def test_students_that_lie_are_refused(changes, message, tmp_path):
    data, rng = topics(60), np.random.default_rng(0)
    made = MultiLabelClassifier(recipe="fast").fit(data.features, data.labels)
    sizes = (40, 64, 32, 12)
    maps = [Map.dense(rng.normal(size=pair), np.zeros(pair[1])) for pair in pairwise(sizes)]
    made.scorer_ = Scorer(None, None, Matcher(View.rows(), maps[-1], tuple(maps[:-1])))
    made.save(tmp_path / "model")
    MultiLabelClassifier.load(tmp_path / "model")
    metadata, tensors = read_tensors(tmp_path / "model", "file", lambda _: None)
    tensors |= {name: value for name, value in changes.items() if isinstance(value, torch.Tensor)}
    facts = json.loads(metadata["facts"])
    facts |= {name: value for name, value in changes.items() if not isinstance(value, torch.Tensor | dict)}
    facts["kept"] |= changes.get("kept", {})
    metadata["facts"] = json.dumps(facts)
    metadata["checksum"] = checksum(tensors, metadata)
    replace_tensors(tmp_path / "model", tensors, metadata)
    with pytest.raises(BadModel, match=message):
        MultiLabelClassifier.load(tmp_path / "model")


def test_points_that_are_few_or_have_very_many_features_have_no_student(monkeypatch):
    def refused(*_):
        raise AssertionError("a student was taught")

    monkeypatch.setattr(recipe, "distilled", refused)
    data = wide(topics(150))
    assert not MultiLabelClassifier(epochs=1).fit(data.features, data.labels).chosen_.student
    monkeypatch.setattr(recipe, "NARROW", 100)
    monkeypatch.setattr(matching, "FEW", 3)
    assert not MultiLabelClassifier(epochs=1).fit(data.features, data.labels).chosen_.student
