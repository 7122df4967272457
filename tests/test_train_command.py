"""`carving train` and `carving evaluate`: from files to figures."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from carving.cli import app
from carving.labels import MultiLabelClassifier
from carving.labels.data import read


def write(path, points, seed, features=30, labels=8):
    """A file in the repository's text format: each label brings some features along."""
    rng = np.random.RandomState(seed)
    signature = np.random.RandomState(5).binomial(1, 0.2, (labels, features))
    lines = [f"{points} {features} {labels}"]
    for _ in range(points):
        own = sorted(rng.choice(labels, 2, replace=False))
        words = np.flatnonzero(signature[own].sum(0) + rng.binomial(1, 0.03, features))
        lines.append(",".join(map(str, own)) + " " + " ".join(f"{word}:1.0" for word in words))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return write(folder / "train.txt", 240, 0), write(folder / "test.txt", 80, 1)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_model_is_trained_saved_and_evaluated(files, tmp_path):
    train, test = files
    model = tmp_path / "model.safetensors"
    result = run("train", train, model, "--test", test, "--epochs", 6, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["points"] == 240 and facts["labels"] == 8
    assert facts["test"]["nDCG@5"] > 0.8 and facts["validation"]["nDCG@5"] > 0.7
    assert not list(tmp_path.glob("*.checkpoints"))
    again = run("evaluate", model, test, "--json")
    assert json.loads(again.stdout)["measures"] == facts["test"]
    data = read(test)
    made = MultiLabelClassifier.load(model)
    assert made.score(data.features, data.labels) == facts["test"]["nDCG@5"]
    shown = run("evaluate", model, test).stdout
    assert f"{100 * facts['test']['PSnDCG@5']:.2f}" in shown and "80 points" in shown


@pytest.mark.parametrize("how", [("--head", "HLB"), ("--trunk", "linear"), ("--trunk", "deep", "--patience", 1)])
def test_one_network_has_a_validation_part_and_stops_early(files, tmp_path, how):
    train, test = files
    result = run("train", train, tmp_path / "model", "--epochs", 3, "--test", test, *how, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert 0 < facts["validation"]["nDCG@5"] <= 1 and 0 < facts["test"]["nDCG@5"] <= 1


def test_people_get_a_table(files, tmp_path):
    train, test = files
    result = run("train", train, tmp_path / "model", "--epochs", 2, "--trunk", "linear", "--test", test)
    assert "trained on 240 points with 8 labels" in result.stdout
    assert "validation part: nDCG@5" in result.stdout and "PSnDCG" in result.stdout


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_ends_with_the_same_figures(files, tmp_path):
    train, test = files
    command = [
        sys.executable,
        "-m",
        "carving",
        "train",
        str(train),
        "--epochs",
        "40",
        "--test",
        str(test),
        "--json",
    ]
    straight = json.loads(subprocess.run([*command, str(tmp_path / "a")], capture_output=True, check=True).stdout)
    process = subprocess.Popen([*command, str(tmp_path / "b")], stdout=subprocess.DEVNULL)
    folder = tmp_path / "b.checkpoints"
    while not list(folder.glob("trial-1*")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "b").exists()
    resumed = json.loads(subprocess.run([*command, str(tmp_path / "b")], capture_output=True, check=True).stdout)
    assert resumed["test"] == straight["test"] and resumed["validation"] == straight["validation"]
    assert not folder.exists()


def test_mistakes_end_with_status_two_and_a_sentence(files, tmp_path):
    train, test = files
    other = write(tmp_path / "other.txt", 20, 2, labels=9)
    assert run("train", train, tmp_path / "model", "--epochs", 1, "--trunk", "linear").exit_code == 0
    for arguments, words in [
        (("train", tmp_path / "none.txt", tmp_path / "m"), "there is no file"),
        (("train", train, tmp_path / "no" / "m"), "folder that does not exist"),
        (("train", train, tmp_path / "m", "--test", other), "do they belong together"),
        (("train", train, tmp_path / "m", "--head", "HBL"), "did you mean HLB"),
        (("train", train, tmp_path / "m", "--trunk", "tree"), "trunk must be one of"),
        (("evaluate", tmp_path / "none", test), "there is no model"),
        (("evaluate", test, test), "no whole model"),
        (("evaluate", tmp_path / "model", other), "another label set"),
    ]:
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert words in " ".join(result.stderr.split())


def test_what_cannot_be_is_refused_before_anything_is_read_or_left_behind(files, tmp_path):
    train, _ = files
    folder = tmp_path / "models"
    folder.mkdir()
    junk = tmp_path / "junk.txt"
    junk.write_text("this would be told, if it were read\n")
    for model, words in [(folder, "is a folder"), (folder / "no" / "m", "does not exist"), (junk / "m", "exist")]:
        result = run("train", junk, model)
        assert result.exit_code == 2 and words in " ".join(result.stderr.split())
    for test in (("--test", tmp_path / "mistyped.txt"), ("--test", train, "--split", tmp_path / "mistyped.txt")):
        assert run("train", tmp_path / "mistyped.txt", folder / "m", *test).exit_code == 2
        assert not list(folder.iterdir())
    assert run("train", train, train).exit_code == 2
    assert train.read_text().startswith("240 ")


def test_a_bug_within_training_is_no_mistake_of_the_user(files, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("a bug of ours")

    monkeypatch.setattr("carving.labels.training._loss", broken)
    result = run("train", files[0], tmp_path / "m", "--trunk", "linear")
    assert result.exit_code not in (0, 2)
    assert "a bug of ours" in result.stderr + repr(result.exception)


def test_a_loss_that_is_no_number_is_a_sentence(files, tmp_path, monkeypatch):
    monkeypatch.setattr("carving.labels.training._loss", lambda head, outputs, *_: outputs.sum() * float("nan"))
    result = run("train", files[0], tmp_path / "m", "--trunk", "linear")
    assert result.exit_code == 2 and "lower the rate" in result.stderr
