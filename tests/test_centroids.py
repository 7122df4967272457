"""Centroids as a classifier: laws over architectures, encodings and refinements, and accuracy beside torch-hd's."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from carving import VSA
from carving.encodings import Level, Record, random
from carving.labels import CentroidClassifier
from carving.labels.centroids import Leveled
from carving.schemes.architectures import ARCHITECTURES

IRIS = load_iris(return_X_y=True)


def halves(data):
    X, y = data
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_tells_flowers_apart(name):
    """60 flowers of three kinds: by chance a third are right."""
    X, test, y, truth = halves(IRIS)
    model = CentroidClassifier(name, d=1024, refinement="adapt", epochs=5).fit(X, y)
    assert model.score(test, truth) > 0.75
    chances = model.predict_proba(test)
    assert np.allclose(chances.sum(1), 1)
    assert (model.classes_[chances.argmax(1)] == model.predict(test)).all()


@pytest.mark.parametrize("encoding", ["level", "thermometer", "projection", "sinusoid"])
def test_every_encoding_learns(encoding):
    X, test, y, truth = halves(load_wine(return_X_y=True))
    assert CentroidClassifier(d=1024, encoding=encoding).fit(X, y).score(test, truth) > 0.85


@pytest.mark.parametrize("refinement", ["adapt", "online", "margin"])
def test_refinement_mends_what_centroids_alone_get_wrong(refinement):
    X, test, y, truth = halves(load_digits(return_X_y=True))
    plain = CentroidClassifier(d=1024).fit(X, y)
    refined = CentroidClassifier(d=1024, refinement=refinement).fit(X, y)
    assert refined.score(X, y) > plain.score(X, y) + 0.02
    assert refined.score(test, truth) > plain.score(test, truth) + 0.015


@pytest.mark.parametrize("name", ["MAP-I", "FHRR", "BSC", "BSDC-S", "BSDC-SEG", "GHRR", "CGR"])
def test_bound_levels_are_summed_as_records_are(name, generator, monkeypatch):
    vsa = VSA(name, 256)
    numbers = torch.randint(5, (7, 6), generator=generator)
    levels = Level(vsa, 0, 4, label="x")
    record = Record(vsa, 6, levels, label="y")
    fast = Leveled(vsa, levels(torch.arange(5)), record.roles)
    slow = vsa.picture(record(numbers))
    assert torch.allclose(vsa.picture(fast(numbers)), slow, atol=1e-4)
    monkeypatch.setattr("carving.labels.centroids.TABLE", 2 * 5 * vsa.facts.memory_scalars)
    assert torch.allclose(vsa.picture(fast(numbers)), slow, atol=1e-4)


def test_centroids_alone_are_sums_that_may_come_in_parts():
    X, y = IRIS
    whole = CentroidClassifier(d=256).fit(X, y)
    parts = CentroidClassifier(d=256)
    order = np.argsort(np.arange(len(X)) % 3, kind="stable")
    low, high = X.argmin(0), X.argmax(0)  # the first part must show the ranges
    first = np.unique(np.concatenate((low, high)))
    rest = np.setdiff1d(order, first)
    parts.partial_fit(X[first], y[first], classes=[0, 1, 2])
    for rows in np.array_split(rest, 3):
        parts.partial_fit(X[rows], y[rows])
    assert torch.allclose(parts.centroids_, whole.centroids_, atol=1e-4)


def test_it_is_a_classifier_as_scikit_learn_knows_it():
    X, test, y, truth = halves(IRIS)
    model = CentroidClassifier(VSA("FHRR", 512), encoding="sinusoid", bandwidth=1.5)
    names = np.array(["setosa", "versicolor", "virginica"])
    again = clone(model).fit(X, names[y])
    assert again.score(test, names[truth]) > 0.85
    assert make_pipeline(StandardScaler(), model).fit(X, y).score(test, truth) > 0.85
    assert (clone(model).fit(X, y).predict(test) == clone(model).fit(X, y).predict(test)).all()
    own = CentroidClassifier("MAP-C", d=64, encoding=lambda points: random(VSA("MAP-C", 64), len(points), label=1))
    assert own.fit(X, y).predict(X).shape == (90,)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda m, X, y: m.predict(X), NotFittedError, "not trained yet"),
        (lambda m, X, y: m.fit(X, y).predict(X[:, :2]), ValueError, "4 features, the points have 2"),
        (lambda m, X, y: m.fit(X, 0 * y), ValueError, "two classes at least"),
        (lambda m, X, y: m.partial_fit(X, y), ValueError, "give classes="),
        (lambda m, X, y: m.partial_fit(X, y, classes=[0, 1]), ValueError, "none of the classes"),
        (lambda m, X, y: m.set_params(encoding="hash").fit(X, y), ValueError, "encoding must be one of"),
        (lambda m, X, y: m.set_params(refinement="more").fit(X, y), ValueError, "refinement must be one of"),
        (lambda m, X, y: m.set_params(scheme="OSC").fit(X, y), TypeError, "got OSC; Memory"),
        (lambda m, X, y: m.fit(X * np.nan, y), ValueError, "NaN"),
    ],
)
def test_bad_input_is_refused(act, error, message):
    with pytest.raises(error, match=message):
        act(CentroidClassifier(d=64), *IRIS)


@pytest.mark.slow
def test_digits_are_told_apart_at_least_as_well_as_by_torch_hd():
    """10,000 dimensions, 100 levels, centroids, the same split; and 97 % with the best refinement."""
    import torchhd

    X, test, y, truth = halves(load_digits(return_X_y=True))
    ours = CentroidClassifier("MAP-B", d=10_000, levels=100).fit(X, y).score(test, truth)
    torch.manual_seed(0)
    theirs = torchhd.classifiers.Vanilla(64, 10_000, 10, n_levels=100, min_level=0, max_level=16)
    batches = [
        (torch.from_numpy(a).float(), torch.from_numpy(b))
        for a, b in zip(np.array_split(X, 40), np.array_split(y, 40), strict=True)
    ]
    theirs.fit(batches)
    found = np.concatenate(
        [theirs.predict(torch.from_numpy(part).float()).numpy() for part in np.array_split(test, 40)]
    )
    print(ours, (found == truth).mean())
    assert ours >= (found == truth).mean() - 0.01  # two draws of one method differ by as much
    assert CentroidClassifier(d=10_000, refinement="margin").fit(X, y).score(test, truth) > 0.97
