"""Networks over sparse rows, training that can be killed, the recipe, and the classifier."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from scipy.sparse import csr_matrix, random_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch.testing import assert_close

from carving.multilabel import (
    MultiLabelClassifier,
    OSCHead,
    VectorHead,
    blending,
    checkpoints,
    metrics,
    networks,
    recipe,
    training,
)
from carving.multilabel.data import Dataset
from carving.multilabel.maps import Map
from carving.multilabel.matching import Pair
from carving.multilabel.networks import Bag, Blend, Network, Scaling, thinned
from carving.multilabel.rows import label_sets, rows_of
from carving.multilabel.scorer import Matcher
from carving.multilabel.training import Progress, Settings, Trainer
from carving.multilabel.views import View

EXACT = dict(rtol=0, atol=0)
CLOSE = dict(rtol=1e-5, atol=1e-6)


def topics(points, seed=0, features=40, labels=12):
    """Points whose two labels each bring some features along."""
    rng = np.random.RandomState(seed)
    signature = np.random.RandomState(99).binomial(1, 0.15, (labels, features))
    own = np.array([rng.choice(labels, 2, replace=False) for _ in range(points)])
    truth = np.zeros((points, labels), np.float32)
    np.put_along_axis(truth, own, 1, axis=1)
    words = (truth @ signature + rng.binomial(1, 0.05, (points, features)) > 0) * rng.uniform(
        0.5, 2, (points, features)
    )
    return Dataset(csr_matrix(words.astype(np.float32)), csr_matrix(truth), "topics")


def with_all(blended):
    """Blend as the recipe does, but leave out no network: on tasks this small that is a matter of the codes drawn."""

    def blend(*given):
        found = blended(*given)
        return found._replace(weights=[weight or 0.1 for weight in found.weights])

    return blend


def sparse(points=6, features=11, density=0.2, seed=0):
    return csr_matrix(random_array((points, features), density=density, rng=seed, dtype=np.float32))


HEAD = dict(d=18, k1=6)
QUICK = Settings(
    hidden=32,
    epochs=3,
    batch_size=16,
    feature_scaling="auto",
    loss="softmax",
    input_dropout=0.2,
    dropout=0.2,
    learning_rate=1e-2,
)


# Networks


def test_a_bag_is_a_linear_layer():
    matrix = sparse()
    bag = Bag(11, 5)
    expected = torch.nn.functional.linear(torch.from_numpy(matrix.toarray()), bag.weight.T, bag.bias)
    assert_close(bag(rows_of(matrix)), expected, **CLOSE)
    assert_close(bag(rows_of(matrix).dense()), expected, **CLOSE)


@pytest.mark.parametrize("lazy", [0, 2**27])
def test_a_bags_gradient_is_a_linear_layers(lazy, monkeypatch):
    monkeypatch.setattr(networks, "LAZY", lazy)
    matrix = sparse()
    bag = Bag(11, 5)
    assert bag.lazy == (lazy == 0)
    bag(rows_of(matrix)).square().sum().backward()
    dense = torch.from_numpy(matrix.toarray())
    weight, bias = (p.detach().clone().requires_grad_() for p in (bag.weight, bag.bias))
    (dense @ weight + bias).square().sum().backward()
    assert_close(bag.weight.grad.to_dense(), weight.grad, **CLOSE)
    assert_close(bag.bias.grad, bias.grad, **CLOSE)


def test_rows_are_scaled_to_one_length_and_dense_columns_are_standardized():
    matrix = sparse(20, 30, 0.1)
    scaled = Scaling.fitted(matrix)(rows_of(matrix)).dense()
    norms = scaled.norm(dim=1)
    filled = torch.from_numpy(np.diff(matrix.indptr) > 0)
    assert_close(norms[filled], torch.full_like(norms[filled], networks.LENGTH), **CLOSE)
    assert bool((norms[~filled] == 0).all())
    full = csr_matrix(np.random.RandomState(0).uniform(1, 3, (50, 4)).astype(np.float32) * [1, 10, 0.1, 1])
    made = Scaling.fitted(full)(rows_of(full))
    assert_close(made.mean(0), torch.zeros(4), rtol=0, atol=1e-4)
    assert_close(made.std(0, correction=0), torch.ones(4), rtol=0, atol=1e-3)


def test_a_column_that_never_changes_tells_nothing():
    full = csr_matrix(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]], np.float32))
    made = Scaling.fitted(full, "columns")(rows_of(csr_matrix(np.array([[2.0, 900.0]], np.float32))))
    assert_close(made, torch.zeros(1, 2), rtol=0, atol=1e-6)


def test_input_dropout_values_features_out_and_keeps_the_mean():
    torch.manual_seed(0)
    rows = rows_of(sparse(200, 50, 0.2))
    thin = thinned(rows, 0.5, True)
    assert set((thin.values / rows.values).round(decimals=4).tolist()) == {0.0, 2.0}
    assert 0.45 < float((thin.values > 0).float().mean()) < 0.55
    assert_close(thinned(rows, 0.5, False).values, rows.values, **EXACT)


def test_outputs_of_a_blend_are_the_weighted_sum_and_so_are_its_scores():
    torch.manual_seed(0)
    head = OSCHead(12, **HEAD)
    both = [
        Network(Scaling(11), head.width, architecture=architecture, hidden=8).eval()
        for architecture in ("linear", "both")
    ]
    rows = rows_of(sparse())
    blend = Blend(both, [0.25, 0.75], [False, False])(rows)
    assert_close(blend, 0.25 * both[0](rows) + 0.75 * both[1](rows), **CLOSE)
    assert_close(head(blend), 0.25 * head(both[0](rows)) + 0.75 * head(both[1](rows)), **CLOSE)


def test_a_linear_trunk_of_very_many_features_goes_through_a_bottleneck(monkeypatch):
    monkeypatch.setattr(networks, "WIDE", 100)
    network = Network(Scaling(11), 36, architecture="linear", hidden=4)
    assert sum(p.numel() for p in network.parameters()) == 11 * 4 + 4 + 4 * 36 + 36


# Training


def weights(network):
    return [p.detach().clone() for p in network.parameters()]


def run(data, settings=QUICK, seed=3, labels=None, options=None, **how):
    head = OSCHead(labels or data.labels.shape[1], **(HEAD | (options or {})))
    network = training.make_network(data, head, settings, seed)
    return weights(network), training.train(network, head, data, settings, seed=seed, **how), weights(network)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class Killed(Exception):
    pass


def kill_in(epoch):
    def on_progress(progress, share):
        if progress.epoch == epoch and share > 0.4:
            raise Killed

    return on_progress


@pytest.mark.parametrize("lazy", [0, 2**27])
def test_a_killed_run_goes_on_and_ends_with_the_same_weights_bit_by_bit(tmp_path, monkeypatch, lazy):
    monkeypatch.setattr(networks, "LAZY", lazy)
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    monkeypatch.setattr(checkpoints, "REST", 0)
    data = topics(150)
    train, held = training.split(data, 0.2, 0)
    settings = dataclasses.replace(QUICK, epochs=5, schedule="cosine", weight_decay=0.01)
    _, progress, straight = run(train, settings, validation=held)
    checkpoint = tmp_path / "run.safetensors"
    for epoch in (1, 3):
        with pytest.raises(Killed):
            run(train, settings, validation=held, checkpoint=checkpoint, on_progress=kill_in(epoch))
    seen = []
    _, again, resumed = run(
        train, settings, validation=held, checkpoint=checkpoint, on_progress=lambda p, _: seen.append(p.epoch)
    )
    assert set(seen) == {3, 4, 5}  # 5 tells how the last one ended
    assert again == progress
    assert same(straight, resumed)


def test_a_finished_run_is_not_trained_again(tmp_path):
    checkpoint = tmp_path / "run.safetensors"
    data, held = training.split(topics(80), 0.2, 0)
    _, progress, done = run(data, validation=held, checkpoint=checkpoint)
    _, again, same_again = run(data, validation=held, checkpoint=checkpoint, on_progress=kill_in(0))
    assert again == progress and same(done, same_again)
    assert all(name.startswith("weights/") for name in load_file(checkpoint))  # of what is over, the weights are left


def test_a_seed_gives_the_same_network_and_another_seed_another():
    data = topics(60)
    torch.manual_seed(1)
    first = run(data)
    torch.manual_seed(2)
    second = run(data)
    assert same(first[2], second[2]) and first[1] == second[1]
    assert not same(first[2], run(data, seed=4)[2])


def test_training_leaves_torchs_own_generator_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    run(topics(30))
    assert_close(torch.rand(3), wanted, **EXACT)


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    data, checkpoint = topics(60), tmp_path / "run.safetensors"
    run(data, checkpoint=checkpoint)
    others = [
        dict(seed=4),
        dict(settings=dataclasses.replace(QUICK, learning_rate=1e-3)),
        dict(data=topics(60, seed=1)),
    ]
    others += [dict(options=dict(seed=1)), dict(labels=[f"label {i}" for i in range(12)]), dict(validation=data)]
    for other in others:
        with pytest.raises(ValueError, match="another run"):
            run(**(dict(data=data) | other), checkpoint=checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not a complete checkpoint"):
        run(data, checkpoint=checkpoint)


def test_training_ends_when_validation_no_longer_gets_better(monkeypatch):
    shown = iter([0.3, 0.5, 0.4, 0.499, 0.45, 0.4, 0.3, 0.9])
    monkeypatch.setattr(training, "validated", lambda *_: next(shown))
    data = topics(60)
    _, progress, kept = run(data, dataclasses.replace(QUICK, epochs=8, patience=3), validation=data)
    assert progress.epoch == 7 and progress.best == 3
    assert same(kept, run(data, dataclasses.replace(QUICK, epochs=8, stop_epoch=4))[2])


def test_the_losses_fall_and_the_validation_part_is_not_trained_on():
    data = topics(400)
    train, held = training.split(data, 0.25, seed=7)
    assert len(train) == 300 and len(held) == 100
    together = {tuple(row) for part in (train, held) for row in part.features.toarray().round(4).tolist()}
    assert len(together) == 400
    _, progress, _ = run(train, dataclasses.replace(QUICK, epochs=6), validation=held)
    assert progress.losses[-1] < 0.8 * progress.losses[0]
    assert progress.validation[-1] > 0.8


def test_schedules():
    cosine = dataclasses.replace(QUICK, schedule="cosine")
    assert training.factor(dataclasses.replace(QUICK, gamma=0.5), 2, 0.9) == 0.25
    assert training.factor(cosine, 0, 0.0) < 0.05
    assert abs(training.factor(cosine, 0, 0.5) - 0.5) < 1e-9
    assert training.factor(cosine, 0, 1.0) < 1e-9


def test_sampled_scores_are_scores_and_every_own_label_is_among_them(monkeypatch):
    monkeypatch.setattr(training, "SAMPLE", 9)
    head = OSCHead(50, **HEAD)
    torch.manual_seed(0)
    outputs = torch.randn(3, head.width)
    sets = label_sets([[3, 40], [7], [40, 49, 0]], 50)
    scores, small = training.sampled(head, outputs, sets)
    whole = head(outputs)
    assert scores.shape[1] <= 9
    for mine, all_ in zip(scores, whole, strict=True):
        assert bool((mine[:, None] - all_[None]).abs().min(1).values.max() < 1e-5)
    assert_close(scores[small.owners, small.columns], whole[sets.owners, sets.columns], **CLOSE)
    assert torch.isfinite(training._loss(head, outputs, sets, QUICK))


def test_a_sample_of_all_labels_gives_the_loss_over_all():
    head = OSCHead(50, **HEAD)
    torch.manual_seed(0)
    outputs, sets = torch.randn(3, head.width), label_sets([list(range(50)), [7], [40]], 50)
    whole = training.LOSSES["softmax"](head(outputs), sets)
    assert_close(training.LOSSES["softmax"](*training.sampled(head, outputs, sets)), whole, **CLOSE)


def test_settings_are_checked():
    for wrong in (
        dict(architecture="tree"),
        dict(loss="hinge"),
        dict(schedule="none"),
        dict(feature_scaling="l1"),
        dict(epochs=0),
        dict(dropout=1.0),
        dict(learning_rate=0.0),
        dict(patience=0),
        dict(epochs=3, stop_epoch=4),
    ):
        with pytest.raises(ValueError, match=next(reversed(wrong))):
            Settings(**wrong)
    with pytest.raises(ValueError, match="needs a validation set"):
        run(topics(30), Settings(patience=2))


def test_a_loss_that_is_no_number_is_told():
    with pytest.raises(ValueError, match="Lower the learning rate"):
        run(topics(60), dataclasses.replace(QUICK, learning_rate=1e30))


# The recipe


def test_the_blend_prefers_what_is_right_and_weights_sum_to_one():
    data = topics(80)
    head = OSCHead(12, **HEAD)
    right = head.sum_codes(rows_of(data.labels))
    noise = torch.randn(right.shape, generator=torch.Generator().manual_seed(0))
    weights, (ndcg, psndcg) = blending.weighed([head(noise), head(right)], data, metrics.propensities(data.labels))
    assert abs(sum(weights) - 1) < 1e-9 and weights[1] >= 0.5
    assert ndcg > 0.99 and psndcg > 0.99


def test_two_halves_of_the_truth_are_blended():
    data = topics(300)
    head = OSCHead(12, d=36, k1=12)
    truth, generator = data.labels.toarray(), torch.Generator().manual_seed(0)
    halves = []
    for part in (slice(0, 6), slice(6, 12)):
        known = np.zeros_like(truth)
        known[:, part] = truth[:, part]
        exact = head.sum_codes(rows_of(csr_matrix(known)))
        halves.append(exact + 0.02 * torch.randn(exact.shape, generator=generator))
    weights, (ndcg, _) = blending.weighed([head(half) for half in halves], data, metrics.propensities(data.labels))
    alone = metrics.ndcg(head.top(halves[0], 5)[1].numpy(), data.labels, 5)
    assert min(weights) > 0.2 and ndcg > alone + 0.1


def test_the_recipe_learns_is_repeatable_and_goes_on_when_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "PAUSE", 0)
    monkeypatch.setattr(checkpoints, "REST", 0)
    data, test = topics(300), topics(100, seed=1)
    made = MultiLabelClassifier(epochs=6, seed=1).fit(data.features, data.labels)
    assert made.score(test.features, test.labels) > 0.85
    assert min(made.chosen_.weights) > 0 and len(made.chosen_.weights) == len(made.network_.networks)
    calls = []

    def on_progress(name, progress, share):
        calls.append(name)
        if len(calls) == 40:
            raise Killed

    with pytest.raises(Killed):
        MultiLabelClassifier(epochs=6, seed=1, checkpoints=tmp_path, on_progress=on_progress).fit(
            data.features, data.labels
        )
    again = MultiLabelClassifier(epochs=6, seed=1, checkpoints=tmp_path).fit(data.features, data.labels)
    assert np.array_equal(again.decision_function(test.features), made.decision_function(test.features))


@pytest.mark.parametrize(("points", "labels"), [(6, 2), (12, 3)])
def test_the_recipe_takes_tiny_data(points, labels):
    data = topics(points, features=5, labels=labels)
    made = MultiLabelClassifier(epochs=1).fit(data.features, data.labels)
    assert made.predict(data.features, 2).shape == (points, labels)


def test_few_points_are_seen_often_and_many_seldom():
    for points, least, most in (
        (6, 200, 200),
        (400, 350, 500),
        (800, 350, 400),
        (5_000, 700, 1_500),
        (100_000, 1_000, 2_000),
    ):
        features = csr_matrix((points, 4), dtype=np.float32)
        first, *_ = recipe.trials(Dataset(features, csr_matrix(np.ones((points, 1), np.float32))))
        assert least <= first.epochs * -(-points // first.batch_size) <= most, points
        assert first.epochs <= 200


@pytest.mark.parametrize(
    ("points", "features", "hidden"),
    [(1_999, 100, 256), (2_000, 100, 1024), (2_000, 2**15 + 1, 512), (2_000, 782_585, 128), (1_999, 10**7, 32)],
)
def test_hidden_layers_are_as_wide_as_points_and_memory_allow(points, features, hidden):
    data = Dataset(csr_matrix((points, features), dtype=np.float32), csr_matrix(np.ones((points, 1), np.float32)))
    assert {settings.hidden for settings in recipe.every(data)} == {hidden}


def test_many_points_are_trained_on_once(monkeypatch):
    monkeypatch.setattr(recipe, "FEW", 50)
    names = set()
    data = topics(100)
    made = MultiLabelClassifier(epochs=1, on_progress=lambda name, *_: names.add(name)).fit(data.features, data.labels)
    assert names == {"trial 1 of 2", "trial 2 of 2"}
    assert len(made.chosen_.settings) <= 3 and made.chosen_.share > 0


def test_rows_of_any_size_come_to_one_length():
    features = csr_matrix(np.array([[3, 4], [3e-30, 4e-30], [3e25, 4e25], [0, 0]], np.float32))
    features.resize(4, 20)
    scaled = Scaling.fitted(features, "rows")(rows_of(features))
    assert_close(scaled.values.view(3, 2), torch.tensor([[0.6, 0.8]] * 3) * networks.LENGTH)


def test_stored_twice_is_stored_once_and_nothing_is_asked():
    data = topics(60)
    made = MultiLabelClassifier(settings=QUICK).fit(data.features, data.labels)
    twice = csr_matrix(([1.0, 1.0, 2.0], [1, 1, 2], [0, 3]), (1, data.features.shape[1]))
    once = csr_matrix(([2.0, 2.0], [1, 2], [0, 2]), twice.shape)
    assert_close(made.decision_function(twice), made.decision_function(once))
    assert made.predict(data.features[:0]).shape == (0, data.labels.shape[1])
    assert made.decision_function(data.features[:0]).shape == (0, data.labels.shape[1])
    with pytest.raises(ValueError, match="got NaN in row 0, column 2"):
        made.predict(csr_matrix(([np.nan], [2], [0, 1]), twice.shape))


def test_fewer_labels_than_five_are_ranked_and_measured():
    data = topics(40, features=5, labels=3)
    made = MultiLabelClassifier(settings=QUICK).fit(data.features, data.labels)
    assert made.rank(data.features)[0].shape == (40, 3)
    assert set(made.evaluate(data.features, data.labels)) == {
        f"{m}@{k}" for m in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3)
    }
    assert 0 < made.score(data.features, data.labels) <= 1
    with pytest.raises(ValueError, match="between 1 and 3, got 5"):
        made.predict(data.features, 5)


def test_loading_leaves_the_generator_alone(tmp_path):
    data = topics(40)
    MultiLabelClassifier(settings=QUICK).fit(data.features, data.labels).save(tmp_path / "m")
    before = torch.get_rng_state()
    made = MultiLabelClassifier.load(tmp_path / "m")
    assert torch.equal(before, torch.get_rng_state())
    assert made.chosen_ is None


def silent(parts):
    """A matcher that knows nothing."""
    features, labels = parts.data.features.shape[1], parts.data.labels.shape[1]
    return Matcher(View.rows(), Map.dense(np.zeros((features, labels)), np.arange(labels, 0, -1)))


def test_rare_labels_are_favored_on_the_scale_of_the_validation(monkeypatch):
    """Also where one network is chosen alone: outputs that were trained for their direction have any length."""
    data = topics(200)
    tried = [dataclasses.replace(QUICK, loss="head", patience=2)]
    head = OSCHead(data.labels.shape[1], d=72)
    monkeypatch.setattr(recipe, "matchers", lambda parts, *_: Pair(silent(parts), lambda: silent(parts)))
    scorer, chosen = recipe.fit(data, Trainer(head, 0), tried)
    outputs = scorer.network.eval()(rows_of(data.features))
    assert chosen.units == [True] and chosen.share == 0
    assert_close(outputs.norm(dim=1), torch.full((200,), chosen.weights[0]))


def test_scores_of_a_blend_are_those_of_its_outputs(monkeypatch):
    """The blend is chosen by adding scores; of very many labels it is by fewer points."""
    data, head = topics(200), OSCHead(12, **HEAD)
    q, right = metrics.propensities(data.labels), head.sum_codes(rows_of(data.labels))
    outputs = [right + 2 * torch.randn(right.shape, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    settings = [dataclasses.replace(QUICK, loss=loss) for loss in ("head", "softmax")]
    weights, units, share, found = recipe.blended(outputs, settings, head, data, q)
    assert share == 0
    assert units == [True, False] and min(weights) > 0
    whole = weights[0] * torch.nn.functional.normalize(outputs[0], dim=1) + weights[1] * outputs[1]
    ranked = head.top(whole, 5)[1].numpy()
    assert np.allclose(found, (metrics.ndcg(ranked, data.labels, 5), metrics.psndcg(ranked, data.labels, 5, q)))
    monkeypatch.setattr(recipe, "SCORES", 12 * 50)
    seen = []
    monkeypatch.setattr(blending, "measured", lambda scores, *_: (seen.append(scores.shape), (0.0, 0.0))[1])
    recipe.blended(outputs, settings, head, data, q)
    assert set(seen) == {(50, 12)}


def test_rare_labels_are_favored_by_their_propensity():
    assert blending.bias_of(np.array([0.5, 0.1]), 0.0) is None
    assert_close(blending.bias_of(np.array([0.5, 0.1]), 2.0), torch.tensor([2 * np.log(2), 2 * np.log(10)]).float())


def test_scales_of_outputs_make_logits():
    """Scores that are logits already need no scale; their eighths need eight."""
    head = OSCHead(12, d=72, k1=24)
    logits = 3 * torch.randn(4000, 12, generator=torch.Generator().manual_seed(0))
    drawn = torch.multinomial(logits.softmax(1), 1, generator=torch.Generator().manual_seed(1))
    outputs = logits @ torch.linalg.pinv(head.codes()).mT
    for scale in (1.0, 8.0):
        assert blending.scale_of(head(outputs / scale), label_sets(drawn.tolist(), 12)) == scale


@pytest.mark.parametrize("labels", [1, 2, 983, 20_000])
def test_the_recipes_head_fits_any_number_of_labels(labels):
    options = recipe.head_options(labels)
    assert 16**2 <= OSCHead(labels, cached=False, **options).width <= 64**2


@pytest.mark.parametrize("options", [dict(trainable=True), dict(form="components"), dict(absolute=True)])
def test_the_recipe_refuses_heads_whose_scores_do_not_add(options):
    data = topics(40)
    with pytest.raises(ValueError, match=r"scores must add.*settings=Settings"):
        MultiLabelClassifier(head_options=HEAD | options).fit(data.features, data.labels)
    with pytest.raises(ValueError, match=r"epochs=3 conflicts with settings.epochs"):
        MultiLabelClassifier(settings=QUICK, epochs=3).fit(data.features, data.labels)
    with pytest.raises(ValueError, match="epochs must be an integer of at least 1"):
        MultiLabelClassifier(epochs=0).fit(data.features, data.labels)


# The classifier


@pytest.fixture(scope="module")
def fitted():
    data = topics(300)
    return MultiLabelClassifier(settings=QUICK, head_options=HEAD).fit(data.features, data.labels)


def test_predictions_are_the_best_scores(fitted):
    test = topics(40, seed=1)
    scores = fitted.decision_function(test.features)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    ids, best = fitted.rank(test.features, 3)
    assert np.array_equal(ids, order)
    assert np.allclose(best, np.take_along_axis(scores, order, 1), atol=1e-5)
    predicted, top = fitted.predict(test.features, 3), fitted.decision_function(test.features, 3)
    assert predicted.shape == top.shape == (40, 12) and set(predicted.data) == {1.0}
    for row in range(40):
        assert sorted(order[row]) == predicted[row].indices.tolist()
        assert np.allclose(top[row].data, scores[row, sorted(order[row])], atol=1e-5)


def test_scores_are_those_of_the_metrics(fitted):
    test = topics(40, seed=1)
    ids, _ = fitted.rank(test.features, 5)
    assert fitted.score(test.features, test.labels) == metrics.ndcg(ids, test.labels, 5)
    q = metrics.propensities(topics(300).labels)
    assert fitted.evaluate(test.features, test.labels) == metrics.measures(ids, test.labels, q)


def test_the_format_of_models_and_the_identity_of_runs_stay(fitted, tmp_path):
    """Models that were written before can be read, and runs that were killed go on, as long as these stay."""
    fitted.save(tmp_path / "model")
    with safe_open(tmp_path / "model", framework="np") as file:
        metadata, names = file.metadata(), set(file.keys())
    facts = json.loads(metadata["facts"])
    assert metadata["format"] == "carving labels 6"
    assert list(facts) == [
        *("head", "head_options", "labels", "features", "settings", "scaling", "weights", "units", "tail_bias", "seed"),
        *("nothing", "recipe", "matcher", "rerankers", "hidden", "kept"),
    ]
    kept = {
        "form",
        "dtype",
        "calibration",
        "settings",
        "validation",
        "epochs",
        "pool",
        "rerank_min_count",
        "head_options",
    }
    assert set(facts["kept"]) == kept
    assert {"propensities", "network/networks.0.deep.0.weight", "network/networks.0.scaling.scale"} <= names
    common = {"missing", "absolute", "trainable", "cached", "seed"}
    assert set(facts["head_options"]) == common | {"d", "p", "k1", "form", "rank", "tanh", "basis"}
    data = Dataset(np.eye(3, 4), np.eye(3, 5))
    prints = [
        training.fingerprint(data, data, QUICK, head, 3)[:16]
        for head in (OSCHead(5, d=12), OSCHead([*"abcde"], d=12), VectorHead("HLB", 5, 16))
    ]
    assert prints == ["aeeae66ab7912a7d", "cdc7ac3e402c721f", "2811b7be067d2ae0"]


def test_a_model_is_saved_and_comes_back(fitted, tmp_path):
    data, test = topics(300), topics(40, seed=1)
    trained = dict(HEAD, trainable=True, missing=True)
    others = [
        MultiLabelClassifier(settings=dataclasses.replace(QUICK, loss="head"), head_options=trained),
        MultiLabelClassifier("HLB", dict(width=16), dataclasses.replace(QUICK, loss="head", architecture="both")),
        MultiLabelClassifier(epochs=2),
    ]
    for model in (fitted, *(one.fit(data.features, data.labels) for one in others)):
        model.save(tmp_path / "model.safetensors")
        back = MultiLabelClassifier.load(tmp_path / "model.safetensors")
        assert np.array_equal(back.decision_function(test.features), model.decision_function(test.features))
        assert back.evaluate(test.features, test.labels) == model.evaluate(test.features, test.labels)


def test_having_no_label_is_learned_as_one_that_is_never_named():
    """From dense arrays, too."""
    data = topics(300)
    more = np.vstack([data.features.toarray(), np.ones((30, 40), np.float32)])
    truth = np.vstack([data.labels.toarray(), np.zeros((30, 12), np.float32)])
    told = np.hstack([truth, truth.sum(1, keepdims=True) == 0])
    made, other = (MultiLabelClassifier(settings=QUICK, head_options=HEAD).fit(more, y) for y in (truth, told))
    assert np.array_equal(made.decision_function(more), other.decision_function(more)[:, :12])
    assert made.predict(more).shape == truth.shape and made.n_labels_ == 12 and made.rank(more, 12)[0].max() == 11
    with pytest.raises(ValueError, match="no point has a label"):
        MultiLabelClassifier(settings=QUICK, head_options=HEAD).fit(more, 0 * truth)


def test_sklearn_can_clone_and_show_it(fitted):
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params() and not hasattr(twin, "scorer_")
    assert "MultiLabelClassifier" in repr(twin)


def test_early_stopping_keeps_a_validation_part():
    data = topics(200)
    made = MultiLabelClassifier(
        settings=dataclasses.replace(QUICK, patience=1, epochs=30), head_options=HEAD, validation=0.2
    ).fit(data.features, data.labels)
    assert isinstance(made.progress_, Progress)
    assert made.progress_.epoch < 30 and len(made.progress_.validation) == made.progress_.epoch


def test_mistakes_are_told(fitted, tmp_path):
    data = topics(20)
    with pytest.raises(NotFittedError, match="fit"):
        MultiLabelClassifier().predict(data.features)
    with pytest.raises(ValueError, match="X has 41 features, but MultiLabelClassifier is expecting 40"):
        fitted.predict(csr_matrix((1, 41)))
    with pytest.raises(ValueError, match="another label set"):
        fitted.score(data.features, csr_matrix(np.eye(20, 13)))
    with pytest.raises(ValueError, match="12 labels"):
        fitted.predict(data.features, 13)
    with pytest.raises(ValueError, match="finite"):
        fitted.predict(np.full((1, 40), np.nan))
    with pytest.raises(ValueError, match="labels"):
        MultiLabelClassifier().fit(data.features, csr_matrix((20, 12)))
    with pytest.raises(ValueError, match="recipe trains OSC heads only"):
        MultiLabelClassifier("HLB").fit(data.features, data.labels)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        MultiLabelClassifier.load(tmp_path / "nothing")
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a complete model"):
        MultiLabelClassifier.load(tmp_path / "junk")
    fitted.save(tmp_path / "model")
    (tmp_path / "model").write_bytes((tmp_path / "model").read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a complete model"):
        MultiLabelClassifier.load(tmp_path / "model")
