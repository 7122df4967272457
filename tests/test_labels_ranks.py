"""Two ranks learn what one process learns: the same weights, figures, checkpoints and files."""

import json
import math

import numpy as np
import pytest
import torch
from crew import crew_in
from scipy.sparse import csr_matrix
from test_classifier import topics, with_all
from test_ranks_faults import command
from test_train_command import files as files  # a fixture
from test_train_command import run as run_command

from carving.errors import BadValue
from carving.multilabel import MultiLabelClassifier, Settings, checkpoints, distilling, networks, recipe
from carving.multilabel.blending import Quality
from carving.multilabel.matching import Trusted
from carving.multilabel.ranks import learning_on
from carving.multilabel.training import make_network, split, train
from carving.multilabel.vectors import make_head

pytestmark = pytest.mark.xdist_group("ranks")  # in one process, so that torch is imported once for all ranks


@pytest.fixture(scope="module")
def crew(tmp_path_factory, once):
    once("labels-ranks")
    with crew_in(tmp_path_factory.mktemp("ranks"), size=2) as crew:
        yield crew


PLAIN = Settings(
    architecture="deep", hidden=12, epochs=2, batch_size=13, learning_rate=3e-3
)  # of 119 points: the last batch has two
LESSONS = {
    "head": (PLAIN, "OSC", {}),
    "binary": (Settings(**{**vars(PLAIN), "loss": "binary"}), "OSC", {}),
    "softmax": (Settings(**{**vars(PLAIN), "loss": "softmax", "architecture": "both"}), "OSC", {}),
    "trained codes": (PLAIN, "HRR", dict(trainable=True)),
    "one point left": (Settings(**{**vars(PLAIN), "batch_size": 59}), "OSC", {}),  # of which one rank has none
}


def learned(name, ranks=None, lazy=False, **how):
    """The weights after training, and what was seen meanwhile."""
    settings, kind, options = LESSONS[name]
    before, networks.LAZY = networks.LAZY, 0 if lazy else networks.LAZY
    try:
        data, held = split(topics(140), 0.15, 3)
        head = make_head(kind, data.labels.shape[1], seed=3, **options)
        network = make_network(data, head, settings, 3)
        with learning_on(ranks):
            progress = train(network, head, data, settings, seed=3, validation=held, **how)
    finally:
        networks.LAZY = before
    weights = {**network.state_dict(), **{f"head {name}": each for name, each in head.state_dict().items()}}
    return {name: each.clone() for name, each in weights.items()}, progress


def lessons(ranks):
    return {
        (name, lazy): learned(name, ranks, lazy) for name, lazy in [*((n, False) for n in LESSONS), ("softmax", True)]
    }


def test_ranks_learn_what_one_process_learns(crew):
    one, other = crew(lessons, ranks=2)
    for (name, lazy), (weights, progress) in one.items():
        wanted, seen = learned(name, lazy=lazy)
        for key, each in wanted.items():
            assert torch.equal(weights[key], other[name, lazy][0][key])
            torch.testing.assert_close(weights[key], each, rtol=2e-3, atol=2e-4)  # Adam divides by small numbers
        np.testing.assert_allclose(progress.losses, seen.losses, rtol=1e-4)
        np.testing.assert_allclose(progress.validation, seen.validation, atol=1e-6)
        assert progress == other[name, lazy][1] and progress.losses[1] < progress.losses[0]


def killed(ranks, folder):
    """A run that ends after its first epoch, goes on, and ends as one that was not disturbed."""

    def stop(progress, share):
        if progress.epoch == 1 and share:
            raise KeyboardInterrupt

    before, checkpoints.PAUSE, file = checkpoints.PAUSE, 0.0, folder / "network.safetensors"
    try:
        try:
            learned("head", ranks, checkpoint=file, on_progress=stop)
        except KeyboardInterrupt:
            ranks.gather("both have stopped")
        there = file.exists()
        again, _ = learned("head", ranks, checkpoint=file)
    finally:
        checkpoints.PAUSE = before
    whole, _ = learned("head", ranks)
    return there, all(torch.equal(again[name], whole[name]) for name in whole)


def refused(ranks):
    """Ranks with other data; a loss that is no number on one of them."""
    sentences = []
    data = topics(60, seed=ranks.rank)
    head = make_head("OSC", data.labels.shape[1])
    for rate, own in ((3e-3, data), (1e30, topics(60))):
        settings = Settings(**{**vars(PLAIN), "learning_rate": rate, "epochs": 3})
        try:
            with learning_on(ranks):
                train(make_network(own, head, settings, 0), head, own, settings, seed=0)
        except BadValue as error:
            sentences.append(str(error))
    return sentences


def fitted(ranks, dropout):
    """A classifier of the recipe's networks, which forget by chance."""
    data, tested = topics(300), topics(200, seed=1)
    settings = Settings(
        architecture="linear",
        input_dropout=dropout,
        loss="softmax",
        learning_rate=3e-3,
        epochs=6,
        feature_scaling="auto",
    )
    with learning_on(ranks):
        model = MultiLabelClassifier(settings=settings, validation=0, seed=ranks.size if dropout else 0)
        model.fit(data.features, data.labels)
    return model.score(tested.features, tested.labels)


def ranked(ranks, alike):
    """What the recipe's networks and trusted rerankers say; of ranks that have other points, what is told."""
    data = topics(120, seed=0 if alike else ranks.rank)
    before, recipe.trusted = recipe.trusted, lambda *_: Trusted(2.0, 0.5, Quality(0.5, 0.5))
    features = csr_matrix((data.features.data, data.features.indices, data.features.indptr), (120, 200))  # is sparse
    try:
        with learning_on(ranks):
            made = MultiLabelClassifier(epochs=1, head_options=dict(d=18, k1=6)).fit(features, data.labels)
    except BadValue as error:
        return str(error)
    finally:
        recipe.trusted = before
    assert made.scorer_.rerankers.trust == 2
    return made.decision_function(features)


def taught(ranks):
    """What a student says, which every rank teaches for itself."""
    data = topics(150)
    features = csr_matrix((data.features.data, data.features.indices, data.features.indptr), (150, 200))  # is sparse
    before = recipe.NARROW, recipe.WORTH, recipe.blended, distilling.EPOCHS
    recipe.NARROW, recipe.WORTH, distilling.EPOCHS = 100, 2.0, {True: 3, False: 3}
    recipe.blended = with_all(recipe.blended)
    try:
        with learning_on(ranks):
            made = MultiLabelClassifier(epochs=1).fit(features, data.labels)
    finally:
        recipe.NARROW, recipe.WORTH, recipe.blended, distilling.EPOCHS = before
    return made.chosen_.student, made.decision_function(features)


def test_ranks_have_the_same_student(crew):
    (student, one), (_, other) = crew(taught, ranks=2)
    assert student and np.array_equal(one, other)


def test_ranks_have_the_same_rerankers_or_say_what_differs(crew):
    one, other = crew(ranked, True, ranks=2)
    assert np.array_equal(one, other)
    for told in crew(ranked, False, ranks=2):
        assert told.startswith("All ranks must have the same data_and_settings")


def test_checkpoints_refusals_and_figures(crew, tmp_path):
    assert crew(killed, tmp_path, ranks=2) == [(True, True)] * 2
    for different, endless in crew(refused, ranks=2):
        assert different.startswith("All ranks must have the same data_and_settings")
        assert endless.startswith("The loss became nan") and "Lower the learning rate" in endless
    data, tested = topics(300), topics(200, seed=1)
    settings = Settings(
        architecture="linear", input_dropout=0.3, loss="softmax", learning_rate=3e-3, epochs=6, feature_scaling="auto"
    )
    seeds = []
    for seed in range(5):
        alone = MultiLabelClassifier(settings=settings, validation=0, seed=seed).fit(data.features, data.labels)
        seeds.append(alone.score(tested.features, tested.labels))
    spread = max(3 * float(np.std(seeds, ddof=1)), 0.01)
    for score in crew(fitted, 0.3, ranks=2):
        assert abs(score - float(np.mean(seeds))) < spread and score > 0.6


def test_a_command_trains_in_ranks_and_only_the_first_speaks(crew, files, tmp_path):
    points, tested = files
    options = ["--architecture", "linear", "--epochs", 4, "--validation", 0, "--test", tested, "--json"]
    alone = run_command("train", points, tmp_path / "one.safetensors", *options)
    assert alone.exit_code == 0, alone.output
    arguments = ["train", points, tmp_path / "two.safetensors", *options]
    (status, text), (other, silence) = crew(command, arguments, ranks=2)
    assert status == other == 0 and silence == ""
    one, two = (json.loads(each.splitlines()[-1]) for each in (alone.stdout, text))
    assert two["parameters"] == one["parameters"] and not list(tmp_path.glob("*.checkpoints"))
    assert all(math.isclose(two["test"][name], one["test"][name], abs_tol=0.03) for name in one["test"])
    (tmp_path / "taken.safetensors").write_text("something else")
    (status, text), (other, _) = crew(command, ["train", points, tmp_path / "taken.safetensors", *options], ranks=2)
    assert status == other == 2 and "not written by Carving" in text
