"""The command line: what it answers, how it ends, and that nothing is lost."""

import json
import lzma
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from carving import Memory
from carving.cli import app

DOCUMENT = {"sentence 5": {"subject": "dog", "verb": "chased", "objects": ["cat", "ball"], "line": 12}}
COMMANDS = ["demo", "plan", "store", "ask", "forget", "merge", "info", "verify"]


@pytest.fixture
def carving():
    def run(*arguments, status=0, data=None):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=data)
        assert result.exit_code == status, result.output + result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return run


@pytest.fixture
def memory(tmp_path, carving):
    (tmp_path / "trees.json").write_text(json.dumps(DOCUMENT))
    carving("store", tmp_path / "trees.safetensors", tmp_path / "trees.json", "--d", 32, "--p", 3)
    return tmp_path / "trees.safetensors"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, carving):
    shown = carving(command, "--help").output
    assert "Usage" in shown and len(shown.split("\n")) > 5


def test_what_is_stored_is_answered(memory, carving):
    assert carving("ask", memory, "sentence 5", "subject").output.startswith("dog  (score ")
    assert carving("ask", memory, "sentence 5", "objects", 1).output.startswith("ball")
    assert carving("ask", memory, "sentence 5", "line").output.startswith("12  (score")
    nothing = carving("ask", memory, "sentence 9", "subject", status=1)
    assert nothing.output.startswith("nothing is stored there (probability ")
    assert carving("ask", memory, "sentence 5", "verb", "--leaf", "slept", status=1)
    assert carving("ask", memory, "sentence 5", "verb", "--leaf", "chased")
    assert carving("ask", memory, "sentence 5", "verb", "--among", "dog", "--among", "cat", status=1)
    assert carving("ask", memory, "sentence 5", "objects", "0", "--text", status=1)  # the text "0" is another role
    carving("ask", memory, "sentence 9", "subject", "--top", 3, status=1)
    assert not json.loads(carving("ask", memory, "sentence 5", "verb", "--leaf", "dog", "--json", status=1).output)[
        "found"
    ]


def test_numbers_that_were_text_are_found(memory, tmp_path, carving):
    (tmp_path / "g.tsv").write_text("1\tnext\t2\nInfinity\tfilm\t:smile: \x1b[31m\n")
    carving("store", memory, tmp_path / "g.tsv")
    assert carving("ask", memory, "1", "next").output.startswith("2  (score")
    assert carving("ask", memory, "1", "next", "--leaf", "2")
    assert carving("ask", memory, "Infinity", "film").output.startswith(":smile: \\x1b[31m  (score")


def test_answers_can_be_printed_anywhere(memory, tmp_path):
    (tmp_path / "odd.json").write_text(json.dumps({"odd": "\ud800x ü"}))
    run = [sys.executable, "-m", "carving"]
    subprocess.run([*run, "store", memory, tmp_path / "odd.json"], check=True, capture_output=True)
    asked = subprocess.run(
        [*run, "ask", memory, "odd"], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert asked.returncode == 0 and asked.stdout.startswith("\\ud800x \\xfc  (score"), asked


def test_answers_come_in_json(memory, carving):
    answer = json.loads(carving("ask", memory, "sentence 5", "subject", "--json").output)
    assert answer["leaf"] == "dog" and answer["found"] and answer["probability"] > 0.99
    assert json.loads(carving("ask", memory, "sentence 9", "subject", "--json", status=1).output)["leaf"] is None
    assert [a["leaf"] for a in json.loads(carving("ask", memory, "sentence 5", "verb", "--set", "--json").output)] == [
        "chased"
    ]
    assert len(json.loads(carving("ask", memory, "sentence 5", "verb", "--top", 3, "--json").output)) == 3
    known = json.loads(carving("info", memory, "--json").output)
    assert known["pairs"] == 5 and known["scheme"]["name"] == "OSC" and known["cells"] == 32**3
    assert json.loads(carving("verify", memory, "--json").output)["whole"]
    planned = json.loads(carving("plan", "--pairs", 1000, "--vocabulary", 1000, "--json").output)
    assert planned["scheme"] == "OSC" and planned["accuracy"] >= 0.99
    within = json.loads(carving("plan", "--numbers", planned["numbers"], "--vocabulary", 1000, "--json").output)
    assert within["pairs"] >= 1000


def test_a_memory_is_asked_for_what_files_hold(tmp_path, carving):
    file, held = tmp_path / "pairs.tsv", tmp_path / "held"
    file.write_text("".join(f"head {i // 2}\trole {i % 3}\tleaf {i % 90}\n" for i in range(300)))
    carving("store", held, file, "--scheme", "OSC", "--d", 50, "--p", 2, "--compact")
    alone = json.loads(carving("verify", held, file, "--json", status=1).output)
    together = json.loads(carving("verify", held, file, "--joint", "--json").output)
    assert alone["asked"] == together["asked"] == together["right"] == 300 > alone["right"] and together["converged"]
    assert "300 of 300 pairs" in carving("verify", held, file, "--joint").output
    other = tmp_path / "other.tsv"
    other.write_text("head 1\trole 9\tleaf 1\n")
    assert "0 of 1" in carving("verify", held, other, status=1).output


def test_a_new_memory_gets_the_size_that_it_needs(tmp_path, carving):
    lines = "".join(f"head {i}\tnext\tleaf {i % 60}\n" for i in range(400))
    with lzma.open(tmp_path / "graph.tsv.xz", "wt") as file:
        file.write(lines)
    stored = json.loads(carving("store", tmp_path / "graph", tmp_path / "graph.tsv.xz", "--json").output)
    assert stored["stored"] == 400 and stored["leaves"] == 60
    answers = Memory.load(tmp_path / "graph").recall_many([(f"head {i}", "next") for i in range(400)], absence=0)
    assert sum(answer.leaf == f"leaf {i % 60}" for i, answer in enumerate(answers)) >= 390


def test_forgetting_and_merging(memory, tmp_path, carving):
    (tmp_path / "less.json").write_text(json.dumps({"sentence 5": {"verb": "chased", "place": "zoo"}}))
    gone = carving("forget", memory, tmp_path / "less.json").output
    assert "forgot 2 pairs" in gone and "probably never stored: sentence 5 / place -> 'zoo'" in gone
    carving("ask", memory, "sentence 5", "verb", status=1)
    (tmp_path / "more.json").write_text(json.dumps({"sentence 6": {"subject": "cat"}}))
    carving("store", tmp_path / "other", tmp_path / "more.json", "--d", 32, "--p", 3)
    carving("merge", tmp_path / "both", memory, tmp_path / "other")
    assert carving("ask", tmp_path / "both", "sentence 6", "subject").output.startswith("cat")
    assert carving("ask", tmp_path / "both", "sentence 5", "subject").output.startswith("dog")


def test_bad_input_ends_with_two_and_a_sentence(memory, tmp_path, carving):
    before = memory.read_bytes()
    (tmp_path / "bad.tsv").write_text("a\tb\tc\nbroken line\nd\te\tf\n")
    (tmp_path / "odd.xyz").write_text("x")
    for arguments, message in [
        (("store", memory, tmp_path / "bad.tsv"), "bad.tsv, line 2"),
        (("forget", memory, tmp_path / "bad.tsv"), "bad.tsv, line 2"),
        (("store", memory, tmp_path / "none.json"), "none.json"),
        (("store", memory, tmp_path / "odd.xyz"), "format"),
        (("store", memory, tmp_path / "trees.json", "--d", 99), "has d=32, not 99"),
        (("store", tmp_path / "no" / "where", tmp_path / "trees.json"), "does not exist"),
        (("ask", tmp_path / "none", "a"), "there is no file"),
        (("ask", memory, "a", "--top", 2, "--set"), "choose one"),
        (("store", memory, tmp_path / "trees.json", "--room", 2), "--room says nothing"),
        (("store", memory, tmp_path / "trees.json", "--seed", 7), "has seed=0, not 7"),
        (("store", tmp_path / "new", tmp_path / "trees.json", "--k1", 7), "needs --d too"),
        (("store", tmp_path, tmp_path / "trees.json"), "is a folder"),
        (("forget", tmp_path / "none", tmp_path / "trees.json"), "there is no file"),
        (("plan", "--vocabulary", 10), "either --pairs or --numbers"),
        (("info", tmp_path / "bad.tsv"), "no whole memory file"),
        (("verify", tmp_path / "bad.tsv"), "no whole memory file"),
        (("merge", tmp_path / "x", memory), "two memories or more"),
        (("plan", "--pairs", 10, "--vocabulary", 10, "--accuracy", 2), "accuracy"),
    ]:
        result = carving(*arguments, status=2)
        assert result.stderr.startswith("Error: ") and message in result.stderr, result.stderr
        assert "Traceback" not in result.stderr
    assert memory.read_bytes() == before
    assert carving("ask", status=2) and carving("nonsense", status=2)


def test_bad_lines_can_be_counted_instead(memory, tmp_path, carving):
    (tmp_path / "bad.tsv").write_text("a\tb\tc\nbroken line\nd\te\tf\n")
    stored = json.loads(carving("store", memory, tmp_path / "bad.tsv", "--skip-bad", "--json").output)
    assert stored["stored"] == 2 and stored["skipped"] == 1


def test_the_standard_input_is_a_file_too(memory, carving):
    carving("store", memory, "-", "--format", "triples", data="a\tb\tc\n")
    assert carving("ask", memory, "a", "b").output.startswith("c  (score ")
    assert "format" in carving("store", memory, "-", status=2, data="a\tb\tc\n").stderr


def test_two_commands_at_once_lose_nothing(memory, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.json").write_text(json.dumps({f"document {i}": {"name": f"word {i}"}}))
    command = [sys.executable, "-m", "carving", "store", str(memory)]
    running = [subprocess.Popen([*command, str(tmp_path / f"{i}.json")], stdout=subprocess.DEVNULL) for i in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    held = Memory.load(memory)
    assert held.pairs == 9
    assert [held.recall(f"document {i}", "name").leaf for i in range(4)] == [f"word {i}" for i in range(4)]


def test_the_demo_answers_as_predicted(tmp_path, carving):
    shown = carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png").output
    assert "right answers: " in shown and "TPR, a role a level: order 6" in shown
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    outcome = json.loads(carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png", "--json").output)
    assert outcome["right"] > 0.97 and outcome["predicted"] >= 0.99
