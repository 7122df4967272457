"""`carving train` with rerankers: which labels have one, and runs that are killed while they are trained."""

import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from test_train_command import run as run_command

from carving.errors import BadType, BadValue
from carving.multilabel import MultiLabelClassifier, rerankers, training
from carving.multilabel.data import Source, read
from carving.multilabel.runs import Wish, run

WISHES = dict(fast=Wish(recipe="fast"), best=Wish(epochs=2))
POINTS, FEATURES, PAIRS = 200, 5_000, 8
LABELS = 2 * PAIRS


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Labels in pairs that share twenty words: one word of its own, which others weigh down, tells each apart."""
    rng = np.random.RandomState(1)
    common = rng.randint(100, FEATURES, (PAIRS, 20))
    lines = [f"{POINTS} {FEATURES} {LABELS}"]
    for _ in range(POINTS):
        pairs = rng.choice(PAIRS, 2, replace=False)
        own = sorted((2 * pairs + rng.randint(0, 2, 2)).tolist())
        words = {*own, *rng.randint(0, FEATURES, 10).tolist()}.union(*(rng.choice(common[pair], 8) for pair in pairs))
        lines.append(",".join(map(str, own)) + " " + " ".join(f"{word}:1.0" for word in sorted(words)))
    path = tmp_path_factory.mktemp("files") / "twins.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


class Straight(NamedTuple):
    """What comes of a run that nothing stops."""

    model: bytes
    rerankers: int  # that were trained: on most points, and in the end on all


@pytest.fixture(scope="module")
def straight(file, tmp_path_factory):
    """By recipe; the points that are held back do trust the rerankers."""
    folder, made = tmp_path_factory.mktemp("straight"), {}
    for name, wish in WISHES.items():
        with mock.patch.object(rerankers, "one", side_effect=rerankers.one) as one:
            run(Source(file), folder / name, wish)
        assert MultiLabelClassifier.load(folder / name).scorer_.rerankers.trust > 0 and one.call_count >= 2 * LABELS
        made[name] = Straight((folder / name).read_bytes(), one.call_count)
    return made


# The option


def test_labels_of_enough_points_have_rerankers_and_a_model_remembers_how_many_are_enough(file, tmp_path):
    frequencies = read(file).labels.getnnz(axis=0)
    least = int(np.median(frequencies)) + 1
    assert frequencies.min() < least <= frequencies.max()
    for asked, kept, having in [((), 1, frequencies > 0), (("--rerank-min-count", least), least, frequencies >= least)]:
        told = run_command("train", file, tmp_path / "model", "--recipe", "fast", *asked)
        assert told.exit_code == 0, told.output
        model = MultiLabelClassifier.load(tmp_path / "model")
        assert model.rerank_min_count == kept
        assert np.array_equal(model.scorer_.rerankers.map.weights.getnnz(axis=0) > 0, having)


@pytest.mark.parametrize("options", [("--recipe", "fast"), ("--epochs", 1)])
def test_without_rerankers_none_is_trained_and_a_model_remembers_that(options, file, tmp_path, monkeypatch):
    monkeypatch.setattr(rerankers, "one", None)
    told = run_command("train", file, tmp_path / "model", "--rerank-min-count", 0, *options)
    assert told.exit_code == 0, told.output
    model = MultiLabelClassifier.load(tmp_path / "model")
    assert model.rerank_min_count is None and model.scorer_.rerankers is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rerank-min-count", -1), "Invalid value for '--rerank-min-count'"),
        (("--rerank-min-count", "few"), "Invalid value for '--rerank-min-count'"),
        (("--rerank-min-count", 1.5), "Invalid value for '--rerank-min-count'"),
        (
            ("--rerank-min-count", 5, "--architecture", "linear"),
            "rerank_min_count=5 does not apply to one network, which architecture selects",
        ),
        (
            ("--rerank-min-count", 5, "--head", "HLB"),
            "rerank_min_count=5 does not apply to one network, which head selects",
        ),
    ],
)
def test_rerankers_that_cannot_be_are_refused_before_anything_is_read(options, says, tmp_path):
    told = run_command("train", tmp_path / "nowhere", tmp_path / "model", *options)
    assert told.exit_code == 2 and says in " ".join(told.stderr.split())


def test_wishes_refuse_what_is_no_number_of_points():
    with pytest.raises(
        BadValue, match=r"rerank_min_count must be an integer of at least 0, got -1. 0 trains no rerankers"
    ):
        Wish(rerank_min_count=-1)
    for wrong in (None, True, 1.0):
        with pytest.raises(BadType, match="rerank_min_count must be an integer of at least 0"):
            Wish(rerank_min_count=wrong)


# Runs that are killed


class Killed(BaseException):
    """What no code of ours expects."""


def killed(number, *arguments):
    """A run that dies when it comes to so many a reranker."""
    one, calls = rerankers.one, itertools.count(1)

    def dying(*given):
        if next(calls) == number:
            raise Killed
        return one(*given)

    with mock.patch.object(rerankers, "one", dying), pytest.raises(Killed):
        run(*arguments)


@pytest.mark.parametrize("recipe", WISHES)
@pytest.mark.parametrize("last", [False, True])
def test_a_run_that_died_at_its_rerankers_ends_with_the_same_bytes(recipe, last, file, straight, tmp_path, monkeypatch):
    model, folder = tmp_path / "model", tmp_path / "model.checkpoints"
    killed(straight[recipe].rerankers if last else 1, Source(file), model, WISHES[recipe])
    assert not model.exists() and folder.exists() == (recipe == "best")
    monkeypatch.setattr(training, "_epoch", None)  # the networks are there: not an epoch is trained again
    run(Source(file), model, WISHES[recipe])
    assert model.read_bytes() == straight[recipe].model and not folder.exists()


@pytest.mark.parametrize("recipe", WISHES)
@pytest.mark.parametrize("other", [0, POINTS * 2 // LABELS])
def test_a_run_with_other_rerankers_than_the_one_that_died_ends_with_its_own(recipe, other, file, straight, tmp_path):
    wish = replace(WISHES[recipe], rerank_min_count=other)
    run(Source(file), tmp_path / "straight", wish)
    killed(LABELS, Source(file), tmp_path / "model", WISHES[recipe])
    run(Source(file), tmp_path / "model", wish)
    found = (tmp_path / "model").read_bytes()
    assert found == (tmp_path / "straight").read_bytes() != straight[recipe].model
    assert MultiLabelClassifier.load(tmp_path / "model").rerank_min_count == (other or None)


# A process that kills itself at a reranker: what it had in memory is gone, as is whatever would have been tidied up.
DYING = """
import os, signal, sys
from carving.cli import app
from carving.multilabel import rerankers

left, one = int(sys.argv.pop(1)), rerankers.one

def dying(*given):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return one(*given)

rerankers.one = dying
app()
"""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", WISHES)
def test_a_process_that_is_killed_at_its_rerankers_goes_on_to_the_same_bytes(recipe, file, straight, tmp_path):
    options = ["--recipe", "fast"] if recipe == "fast" else ["--epochs", "2"]
    threads = dict(os.environ, OMP_NUM_THREADS="1")

    def child(left, name):
        command = [sys.executable, "-c", DYING, str(left), "train", str(file), str(tmp_path / name), *options]
        return subprocess.run(command, env=threads, capture_output=True).returncode

    assert child(0, "straight") == 0
    assert child(straight[recipe].rerankers, "model") == -signal.SIGKILL and not (tmp_path / "model").exists()
    assert child(0, "model") == 0
    assert (tmp_path / "model").read_bytes() == (tmp_path / "straight").read_bytes()
    assert MultiLabelClassifier.load(tmp_path / "model").scorer_.rerankers.trust > 0
    assert not list(tmp_path.glob("*.checkpoints"))
