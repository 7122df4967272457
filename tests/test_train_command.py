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

from carving import OSC, Memory
from carving.cli import app
from carving.multilabel import MultiLabelClassifier
from carving.multilabel.data import read


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


@pytest.mark.parametrize("how", [("--epochs", 6), ("--recipe", "fast")])
def test_a_model_is_trained_saved_and_evaluated(files, tmp_path, how):
    train, test = files
    model = tmp_path / "model.safetensors"
    result = run("train", train, model, "--test", test, *how, "--json")
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
    assert f"{100 * facts['test']['PSnDCG@5']:.2f}" in shown and "80 samples" in shown


@pytest.mark.parametrize(
    "how", [("--head", "HLB"), ("--architecture", "linear"), ("--architecture", "deep", "--patience", 1)]
)
def test_one_network_has_a_validation_part_and_stops_early(files, tmp_path, how):
    train, test = files
    result = run("train", train, tmp_path / "model", "--epochs", 3, "--test", test, *how, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert 0 < facts["validation"]["nDCG@5"] <= 1 and 0 < facts["test"]["nDCG@5"] <= 1


def test_people_get_a_table(files, tmp_path):
    train, test = files
    result = run("train", train, tmp_path / "model", "--epochs", 2, "--architecture", "linear", "--test", test)
    assert "Trained on 240 samples with 8 labels" in result.stdout
    assert "Validation set: nDCG@5" in result.stdout and "PSnDCG" in result.stdout


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
    assert run("train", train, tmp_path / "model", "--epochs", 1, "--architecture", "linear").exit_code == 0
    for arguments, words in [
        (("train", tmp_path / "none.txt", tmp_path / "m"), "there is no file"),
        (("train", train, tmp_path / "no" / "m"), "does not exist"),
        (("train", train, tmp_path / "m", "--test", other), "Check that the two belong together"),
        (("train", train, tmp_path / "m", "--head", "HBL"), "Did you mean HLB"),
        (("train", train, tmp_path / "m", "--architecture", "tree"), "architecture must be one of"),
        (("evaluate", tmp_path / "none", test), "does not exist"),
        (("evaluate", test, test), "not a complete model"),
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


def quick(train, model, *options):
    return run("train", train, model, "--epochs", 1, "--architecture", "linear", *options)


def test_training_replaces_models_and_nothing_else_without_force(files, tmp_path):
    train, _ = files
    model, memory = tmp_path / "model", tmp_path / "memory"
    assert quick(train, model).exit_code == 0
    assert quick(train, model, "--seed", 1).exit_code == 0
    held = Memory(OSC(8))
    held.store({"a": "x"})
    held.save(memory)
    (tmp_path / "notes").write_text("what I know\n")
    for other in (memory, tmp_path / "notes"):
        before = other.read_bytes()
        told = quick(train, other)
        assert told.exit_code == 2 and "--force" in told.stderr and "1 of 1" not in told.stderr
        assert other.read_bytes() == before
    assert quick(train, tmp_path / "notes", "--force").exit_code == 0
    assert MultiLabelClassifier.load(tmp_path / "notes").n_labels_ == 8
    assert quick(train, train, "--force").exit_code == 2  # the data themselves: never
    assert train.read_text().startswith("240 ")


@pytest.mark.parametrize("options", [(), ("--fresh",)])
def test_what_others_put_into_the_folder_of_checkpoints_stays(files, tmp_path, options):
    train, _ = files
    folder = tmp_path / "model.checkpoints"
    (folder / "photos").mkdir(parents=True)
    held = Memory(OSC(8))
    held.store({"a": "x"})
    held.save(folder / "mine.safetensors")
    (folder / "photos" / "cat").write_text("miaow")
    (folder / "network.txt").write_text("a note")
    assert quick(train, tmp_path / "model", *options).exit_code == 0
    assert sorted(file.name for file in folder.iterdir()) == ["mine.safetensors", "network.txt", "photos"]
    held.save(folder / "network.safetensors")
    told = quick(train, tmp_path / "model", *options)
    assert told.exit_code == 2 and "is not a checkpoint" in told.stderr
    assert Memory.load(folder / "network.safetensors").recall("a").value == "x"


def test_a_file_in_the_place_of_the_folder_of_checkpoints_is_told_before_the_work(files, tmp_path):
    (tmp_path / "model.checkpoints").write_text("mine")
    junk = tmp_path / "junk.txt"
    junk.write_text("this would be told, if it were read\n")
    told = quick(junk, tmp_path / "model")
    assert told.exit_code == 2 and "must be a folder" in told.stderr
    assert (tmp_path / "model.checkpoints").read_text() == "mine"


def test_a_model_may_have_any_name_that_the_system_takes(files, tmp_path):
    model = tmp_path / os.fsdecode(b"mod\xe8le \xff")
    try:
        model.touch()
    except OSError:
        pytest.skip("this system wants names in UTF-8")
    train, test = files
    told = quick(train, model)
    assert told.exit_code == 0, told.output
    assert r"mod\udce8le \udcff" in told.stdout
    assert run("evaluate", model, test, "--json").exit_code == 0


def test_a_bug_within_training_is_no_mistake_of_the_user(files, tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("a bug of ours")

    monkeypatch.setattr("carving.multilabel.training._loss", broken)
    result = run("train", files[0], tmp_path / "m", "--architecture", "linear")
    assert result.exit_code not in (0, 2)
    assert "a bug of ours" in result.stderr + repr(result.exception)


def test_a_loss_that_is_no_number_is_a_sentence(files, tmp_path, monkeypatch):
    monkeypatch.setattr("carving.multilabel.training._loss", lambda head, outputs, *_: outputs.sum() * float("nan"))
    result = run("train", files[0], tmp_path / "m", "--architecture", "linear")
    assert result.exit_code == 2 and "Lower the learning rate" in result.stderr


# Texts, predictions, and what a model remembers

TOPICS = {
    "sea": "wave ship sail salt harbour tide",
    "snow": "ski peak frost winter slope ice",
    "sun": "summer beach heat light shade noon",
    "city": "street tram market tower crowd noise",
}


def write_texts(path, count, seed):
    """Texts of one or two topics, a line each."""
    rng = np.random.RandomState(seed)
    with path.open("w") as file:
        for _ in range(count):
            own = rng.choice(list(TOPICS), rng.randint(1, 3), replace=False).tolist()
            words = [word for topic in own for word in rng.choice(TOPICS[topic].split(), 4)]
            file.write(json.dumps(dict(text=" ".join(words), labels=own)) + "\n")
    return path


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A model of texts, and test texts."""
    folder = tmp_path_factory.mktemp("texts")
    train, test = write_texts(folder / "train.jsonl", 200, 0), write_texts(folder / "test.jsonl", 60, 1)
    result = run("train", train, folder / "m.safetensors", "--architecture", "linear", "--test", test, "--json")
    assert result.exit_code == 0, result.output
    return folder / "m.safetensors", test, json.loads(result.stdout)


def test_texts_are_trained_on_evaluated_and_labeled(told):
    model, test, facts = told
    assert facts["labels"] == 4 and facts["test"]["nDCG@1"] > 0.9
    assert json.loads(run("evaluate", model, test, "--json").stdout)["measures"] == facts["test"]
    wanted = [set(json.loads(line)["labels"]) for line in test.read_text().splitlines()]
    answers = [json.loads(line) for line in run("predict", model, test, "--json").stdout.splitlines()]
    found = [{one["label"] for one in answer["labels"]} for answer in answers]
    assert sum(mine == theirs for mine, theirs in zip(found, wanted, strict=True)) > 50
    made = MultiLabelClassifier.load(model)
    assert [
        set(row) for row in made.predict([json.loads(line)["text"] for line in test.read_text().splitlines()])
    ] == found


def test_labels_that_the_model_does_not_know_are_counted(told, tmp_path):
    texts = tmp_path / "strange.jsonl"
    known = dict(text="wave ship tide", labels=["sea"])
    strange = dict(text="ski frost ice", labels=["snow", "yeti", "yeti", "elf"])
    texts.write_text(f"{json.dumps(known)}\n{json.dumps(strange)}\n")
    assert json.loads(run("evaluate", told[0], texts, "--json").stdout)["unknown_labels"] == 2
    assert "2 unknown labels skipped" in run("evaluate", told[0], texts).stdout
    texts.write_text(json.dumps(dict(text="wave", labels=["yeti"])) + "\n")
    result = run("evaluate", told[0], texts)
    assert result.exit_code == 2 and "no label that the model knows" in " ".join(result.output.split())


def test_plain_lines_are_texts_too_and_the_best_come_first(told, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("wave ship tide\nski frost and ice\n")
    shown = run("predict", told[0], lines, "--top", 2).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["sea", "snow"] and all(len(line.split("\t")) == 2 for line in shown)
    assert run("predict", told[0], lines, "--threshold", 1).stdout.splitlines() == ["", ""]


def test_a_model_says_what_it_is(told, files, tmp_path):
    shown = run("info", told[0]).stdout
    assert "4 labels (city, sea, snow, sun)" in shown and "documents, 24 words" in shown and "Threshold: " in shown
    model = tmp_path / "pooled"
    assert run("train", files[0], model, "--pool", 3, "--architecture", "linear", "--epochs", 3).exit_code == 0
    facts = json.loads(run("info", model, "--json").stdout)
    assert (
        facts["pool"] == 3
        and facts["features"] == 10
        and facts["labels"] == 8
        and facts["trained by"] == "its own settings"
    )
    assert run("evaluate", model, files[1]).exit_code == 0  # it knows how its points are pooled
    predicted = run("predict", model, files[1], "--top", 3).stdout.splitlines()
    data = read(files[1]).pooled(3)
    ids, _ = MultiLabelClassifier.load(model).rank(data.features, 3)
    assert [{int(cell.split()[0]) for cell in line.split("\t")} for line in predicted] == [
        set(row) for row in ids.tolist()
    ]


def test_a_model_of_the_fast_recipe_has_no_head_and_takes_texts(told, tmp_path):
    model = tmp_path / "model"
    assert run("train", told[1], model, "--recipe", "fast").exit_code == 0
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["head"] is None and facts["matcher"] and not facts["networks"] and facts["texts"]
    assert "head" not in run("info", model).stdout and "Trained by the recipe fast" in run("info", model).stdout
    answers = [json.loads(line)["labels"] for line in run("predict", model, told[1], "--json").stdout.splitlines()]
    wanted = [set(json.loads(line)["labels"]) for line in told[1].read_text().splitlines()]
    assert sum({one["label"] for one in mine} == own for mine, own in zip(answers, wanted, strict=True)) > 50


@pytest.mark.parametrize(
    "option", [("--architecture", "deep"), ("--head", "HLB"), ("--epochs", 3), ("--recipe", "quick")]
)
def test_the_fast_recipe_refuses_what_it_has_no_use_for_before_anything_is_read(tmp_path, option):
    result = run("train", tmp_path / "nowhere", tmp_path / "m", "--recipe", "fast", *option)
    assert result.exit_code == 2 and (
        f"{option[0][2:]} does not apply" in result.stderr or "got 'quick'" in result.stderr
    )


def test_points_without_labels_are_labeled(files, told, tmp_path):
    model, bare = tmp_path / "model", tmp_path / "bare.txt"
    assert run("train", files[0], model, "--architecture", "linear", "--epochs", 3).exit_code == 0
    bare.write_text("1 30 8\n 0:1 3:1\n")
    assert len(run("predict", model, bare, "--top", 1).stdout.splitlines()) == 1
    empty = tmp_path / "none.jsonl"
    empty.write_text('{"text": "wave and tide"}\n')
    assert run("predict", told[0], empty).stdout.startswith("sea ")
    for arguments, says in (
        (("predict", told[0], files[1], "--top", 2, "--threshold", 0.5), "exclude each other"),
        (("evaluate", told[0], files[1]), "trained on texts"),
        (("train", empty, tmp_path / "m"), "has no labels"),
        (("train", told[1], tmp_path / "m", "--pool", 2), "split, labels and pool do not apply to texts"),
        (("predict", model, told[1]), "trained on features"),
        (("evaluate", model, told[1]), "trained on features"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and says in " ".join(result.output.split()), result.output
    for line, says in (
        ("nothing", "not valid JSON"),
        ("[]", "no string under"),
        ('{"text": "a", "labels": "b"}', "must be a list of"),
    ):
        empty.write_text(line + "\n")
        result = run("train", empty, tmp_path / "m")
        assert result.exit_code == 2 and says in " ".join(result.output.split()), result.output
