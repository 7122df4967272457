"""The command line: what it answers, how it ends, and that nothing is lost."""

import json
import lzma
import os
import re
import shlex
import stat
import subprocess
import sys
from dataclasses import fields

import pytest
from crew import started
from typer.testing import CliRunner

from carving import OSC, Memory, __version__
from carving.cli import app, demo, memories, questions
from carving.errors import BadValue
from carving.planner import Plan
from carving.storage import locks

DOCUMENT = {"sentence 5": {"subject": "dog", "verb": "chased", "objects": ["cat", "ball"], "line": 12}}
COMMANDS = ["demo", "plan", "store", "ask", "where", "forget", "merge", "grow", "export", "info", "verify", "reproduce"]


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
    text = carving(command, "--help").output
    assert "Usage" in text and f"Examples:\n    carving {command}" in text
    assert carving(command, "-h").output == text


def test_what_is_stored_is_answered(memory, carving):
    assert carving("ask", memory, "sentence 5", "subject").output.startswith("dog  (score ")
    assert carving("ask", memory, "sentence 5", "objects", 1).output.startswith("ball")
    assert carving("ask", memory, "sentence 5", "line").output.startswith("12  (score")
    nothing = carving("ask", memory, "sentence 9", "subject", status=1)
    assert nothing.output.startswith("nothing is stored there (probability ")
    assert carving("ask", memory, "sentence 5", "verb", "--value", "slept", status=1)
    assert carving("ask", memory, "sentence 5", "verb", "--value", "chased")
    assert carving("ask", memory, "sentence 5", "verb", "--candidate", "dog", "--candidate", "cat", status=1)
    assert carving("ask", memory, "sentence 5", "objects", "0", "--text", status=1)  # the text "0" is another role
    carving("ask", memory, "sentence 9", "subject", "--top", 3, status=1)
    several = carving("ask", memory, "sentence 9", "subject", "--top", 3, "--json", status=1).output
    assert [set(each) for each in json.loads(several)] == [{"value", "score", "probability"}] * 3  # none is found
    several = carving("ask", memory, "-", "--top", 2, "--json", data="sentence 9\tsubject\n", status=1).output
    assert "found" not in several
    assert not json.loads(carving("ask", memory, "sentence 5", "verb", "--value", "dog", "--json", status=1).output)[
        "found"
    ]


def test_numbers_that_were_text_are_found(memory, tmp_path, carving):
    (tmp_path / "g.tsv").write_text("1\tnext\t2\nInfinity\tfilm\t:smile: \x1b[31m\n")
    carving("store", memory, tmp_path / "g.tsv")
    assert carving("ask", memory, "1", "next").output.startswith("2  (score")
    assert carving("ask", memory, "1", "next", "--value", "2")
    assert carving("ask", memory, "Infinity", "film").output.startswith(":smile: \\x1b[31m  (score")


def test_answers_can_be_printed_anywhere(memory, tmp_path, carving):
    (tmp_path / "odd.json").write_text(json.dumps({"odd": "\ud800x ü"}))
    carving("store", memory, tmp_path / "odd.json")
    command = [sys.executable, "-m", "carving", "ask", memory, "odd"]
    asked = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert asked.returncode == 0 and asked.stdout.startswith("\\ud800x \\xfc  (score"), asked


def test_answers_come_in_json(memory, carving):
    answer = json.loads(carving("ask", memory, "sentence 5", "subject", "--json").output)
    assert answer["value"] == "dog" and answer["found"] and answer["probability"] > 0.99
    assert json.loads(carving("ask", memory, "sentence 9", "subject", "--json", status=1).output)["value"] is None
    assert [a["value"] for a in json.loads(carving("ask", memory, "sentence 5", "verb", "--set", "--json").output)] == [
        "chased"
    ]
    assert len(json.loads(carving("ask", memory, "sentence 5", "verb", "--top", 3, "--json").output)) == 3
    known = json.loads(carving("info", memory, "--json").output)
    assert known["pairs"] == 5 and known["scheme"]["name"] == "OSC" and known["cells"] == 32**3
    assert json.loads(carving("verify", memory, "--json").output)["whole"]
    planning = ("plan", "--vocabulary", 1000, "--no-compact", "--json")  # in little time
    planned = json.loads(carving(*planning, "--pairs", 1000).output)
    assert planned["scheme"] == "OSC" and planned["accuracy"] >= 0.99
    assert {*planned} == {field.name for field in fields(Plan)} | {"others"}
    assert {each["scheme"] for each in planned["others"]} == {"OSC", "HLB", "TPR"}
    within = json.loads(carving(*planning, "--numbers", planned["numbers"]).output)
    assert within["pairs"] >= 1000


def test_a_memory_is_asked_for_what_files_hold(tmp_path, carving):
    file, held = tmp_path / "pairs.tsv", tmp_path / "held"
    file.write_text("".join(f"head {i // 2}\trole {i % 3}\tleaf {i % 90}\n" for i in range(300)))
    carving("store", held, file, "--scheme", "OSC", "--d", 50, "--p", 2, "--compact")
    alone = json.loads(carving("verify", held, file, "--json", status=1).output)
    together = json.loads(carving("verify", held, file, "--joint", "--json").output)
    assert (
        alone["total"] == together["total"] == together["correct"] == 300 > alone["correct"] and together["converged"]
    )
    assert "300 of 300 pairs" in carving("verify", held, file, "--joint").output
    other = tmp_path / "other.tsv"
    other.write_text("head 1\trole 9\tleaf 1\n")
    assert "0 of 1" in carving("verify", held, other, status=1).output


def test_a_new_memory_gets_the_size_that_it_needs(tmp_path, carving):
    lines = "".join(f"head {i}\tnext\tvalue {i % 60}\n" for i in range(400))
    with lzma.open(tmp_path / "graph.tsv.xz", "wt") as file:
        file.write(lines)
    stored = json.loads(carving("store", tmp_path / "graph", tmp_path / "graph.tsv.xz", "--json").output)
    assert stored["stored"] == 400 and stored["values"] == 60
    answers = Memory.load(tmp_path / "graph").recall_many([(f"head {i}", "next") for i in range(400)], prior_empty=0)
    assert sum(answer.value == f"value {i % 60}" for i, answer in enumerate(answers)) >= 390


def test_forgetting_and_merging(memory, tmp_path, carving):
    (tmp_path / "less.json").write_text(json.dumps({"sentence 5": {"verb": "chased", "place": "zoo"}}))
    gone = carving("forget", memory, tmp_path / "less.json").output
    assert gone.startswith("Removed 1 pair; 1 was not found; 4 remain.")
    assert "probably never stored: sentence 5 / place -> 'zoo'" in gone
    carving("ask", memory, "sentence 5", "verb", status=1)
    (tmp_path / "more.json").write_text(json.dumps({"sentence 6": {"subject": "cat"}}))
    carving("store", tmp_path / "other", tmp_path / "more.json", "--d", 32, "--p", 3)
    carving("merge", tmp_path / "both", memory, tmp_path / "other")
    assert carving("ask", tmp_path / "both", "sentence 6", "subject").output.startswith("cat")
    assert carving("ask", tmp_path / "both", "sentence 5", "subject").output.startswith("dog")


def test_strangers_are_left_alone_and_listed(memory, tmp_path, carving):
    before = memory.read_bytes()
    (tmp_path / "never.json").write_text(json.dumps({"sentence 5": {"place": "zoo"}}))
    told = json.loads(carving("forget", memory, tmp_path / "never.json", "--json").output)
    assert told["forgotten"] == 0 and told["never_stored"] == [{"path": ["sentence 5", "place"], "value": "zoo"}]
    assert memory.read_bytes() == before
    forced = carving("forget", memory, tmp_path / "never.json", "--force").output
    assert forced.startswith("Removed 1 pair; 1 of them was not found; 5 remain.") and memory.read_bytes() != before
    assert Memory.load(memory).recognize("sentence 5", "place", value="zoo").score < -0.9
    held = Memory.load(memory)
    held.store({"weak": "dog"}, weight=0.3)
    held.save(memory)
    (tmp_path / "weak.json").write_text(json.dumps({"weak": "dog"}))
    told = carving("forget", memory, tmp_path / "weak.json").output
    assert float(re.search("stored with weight (.+) instead of 1: weak", told)[1]) == pytest.approx(0.3, abs=0.05)
    held.store({"weak": "dog"}, weight=1.7)
    held.save(memory)
    told = carving("forget", memory, tmp_path / "weak.json").output
    assert float(re.search("still stored with weight (.+): weak", told)[1]) == pytest.approx(1, abs=0.05)


@pytest.fixture
def planned(tmp_path, carving):
    """A memory that was planned for six triples, and two thousand others."""
    (tmp_path / "six.tsv").write_text("".join(f"head {i}\tnext\tvalue {i}\n" for i in range(6)))
    (tmp_path / "many.tsv").write_text("".join(f"other {i}\tnext\tvalue {i % 50}\n" for i in range(2000)))
    carving("store", tmp_path / "small", tmp_path / "six.tsv")
    return tmp_path / "small"


def test_a_memory_is_not_overfilled_without_a_word(planned, tmp_path, carving):
    before = planned.read_bytes()
    refused = carving("store", planned, tmp_path / "many.tsv", status=2).stderr
    assert "would be over capacity" in refused and "target 99.90%" in refused and "--force" in refused
    assert planned.read_bytes() == before
    forced = carving("store", planned, tmp_path / "many.tsv", "--force")
    assert "is over capacity" in forced.stderr and "->" in forced.output
    known = json.loads(carving("store", planned, tmp_path / "six.tsv", "--force", "--json").stdout)
    assert known["predicted_accuracy"] < 0.1 and known["target_accuracy"] == pytest.approx(0.999)


def test_a_merge_is_not_overfilled_without_a_word(planned, tmp_path, carving):
    carving("store", tmp_path / "other", tmp_path / "many.tsv", "--like", planned, "--force")
    refused = carving("merge", tmp_path / "both", planned, tmp_path / "other", status=2).stderr
    assert "would be over capacity" in refused and not (tmp_path / "both").exists()
    way_out = re.findall("`carving (.*?)`", refused)
    assert "grow" not in refused and len(way_out) == 2
    empty, words = tmp_path / "empty", " ".join(way_out).replace("EMPTY", str(tmp_path / "empty")).split()
    carving(*words[: words.index("store")])
    for name in ("six", "many"):
        carving("store", tmp_path / f"new {name}", tmp_path / f"{name}.tsv", "--like", empty)
    assert words[words.index("store") :] == ["store", "NEW", "FILES", "--like", str(empty)]
    carving("merge", tmp_path / "whole", tmp_path / "new six", tmp_path / "new many")
    assert Memory.load(tmp_path / "whole").pairs == 2006 and not Memory.load(tmp_path / "whole").is_overfull
    merged = carving("merge", tmp_path / "both", planned, tmp_path / "other", "--force")
    assert "is over capacity" in merged.stderr and Memory.load(tmp_path / "both").pairs == 2006


def test_two_people_make_memories_that_can_be_merged(tmp_path, carving):
    for name, count in (("mine", 40), ("yours", 400)):
        lines = "".join(f"{name} {i}\tnext\tvalue {i % 50}\n" for i in range(count))
        (tmp_path / f"{name}.tsv").write_text(lines)
        carving("store", tmp_path / name, tmp_path / f"{name}.tsv")
    unlike = carving("merge", tmp_path / "both", tmp_path / "mine", tmp_path / "yours", status=2).stderr
    assert "--like" in unlike
    carving("store", tmp_path / "again", tmp_path / "mine.tsv", "--like", tmp_path / "yours")
    assert Memory.load(tmp_path / "again").target == Memory.load(tmp_path / "yours").target
    carving("merge", tmp_path / "both", tmp_path / "again", tmp_path / "yours", "--force")
    assert Memory.load(tmp_path / "both").pairs == 440
    assert (
        "Pass only one"
        in carving("store", tmp_path / "x", tmp_path / "mine.tsv", "--like", unlike, "--d", 9, status=2).stderr
    )
    assert (
        "differ in"
        in carving("store", tmp_path / "mine", tmp_path / "mine.tsv", "--like", tmp_path / "yours", status=2).stderr
    )


def test_an_empty_memory_of_a_plan_is_written(tmp_path, carving):
    empty = tmp_path / "empty"
    planning = ("plan", "--pairs", 1000, "--vocabulary", 60, "--accuracy", 0.95, "--out", empty)
    assert str(empty) in carving(*planning).output
    held = Memory.load(empty)
    assert held.pairs == 0 and held.target.accuracy == 0.95 and held.target.pairs == 1000
    assert held.scheme == Memory.for_size(1000, 60, 0.95).scheme
    assert "exists" in carving(*planning, status=2).stderr
    (tmp_path / "f.tsv").write_text("a\tb\tc\nd\te\tf\n")
    carving("store", empty, tmp_path / "f.tsv")
    assert Memory.load(empty).pairs == 2 and carving("ask", empty, "a", "b").output.startswith("c ")
    carving("plan", "--numbers", 1000, "--vocabulary", 60, "--compact", "--joint", "--out", tmp_path / "joint")
    assert Memory.load(tmp_path / "joint").target.joint


def test_a_memory_of_a_size_that_was_given_is_warned_about_and_never_refused(tmp_path, carving):
    (tmp_path / "many.tsv").write_text("".join(f"other {i}\tnext\tvalue {i % 50}\n" for i in range(2000)))
    stored = carving("store", tmp_path / "given", tmp_path / "many.tsv", "--d", 12)
    assert "is over capacity" in stored.stderr and "below 90.00%" in stored.stderr
    assert Memory.load(tmp_path / "given").pairs == 2000 and Memory.load(tmp_path / "given").target is None


def test_bad_input_ends_with_two_and_a_sentence(memory, tmp_path, carving):
    before = memory.read_bytes()
    (tmp_path / "bad.tsv").write_text("a\tb\tc\nbroken line\nd\te\tf\n")
    (tmp_path / "odd.xyz").write_text("x")
    for arguments, message in [
        (("store", memory, tmp_path / "bad.tsv"), "bad.tsv, line 2"),
        (("forget", memory, tmp_path / "bad.tsv"), "bad.tsv, line 2"),
        (("store", memory, tmp_path / "none.json"), "none.json"),
        (("store", memory, tmp_path / "odd.xyz"), "format"),
        (("store", memory, tmp_path / "trees.json", "--d", 99), "has d=32, got 99"),
        (("store", tmp_path / "no" / "where", tmp_path / "trees.json"), "does not exist"),
        (("ask", tmp_path / "none", "a"), "does not exist"),
        (("ask", memory, "a", "--top", 2, "--set"), "Pass only one"),
        (("store", memory, tmp_path / "trees.json", "--headroom", 2), "exists already, got --headroom"),
        (("store", memory, tmp_path / "trees.json", "--seed", 7), "has seed=0, got 7"),
        (("store", tmp_path / "new", tmp_path / "trees.json", "--k1", 7), "requires --d"),
        (("store", tmp_path, tmp_path / "trees.json"), "is a folder"),
        (("forget", tmp_path / "none", tmp_path / "trees.json"), "does not exist"),
        (("plan", "--vocabulary", 10), "either --pairs or --numbers"),
        (("info", tmp_path / "bad.tsv"), "not a complete memory file"),
        (("verify", tmp_path / "bad.tsv"), "not a complete memory file"),
        (("merge", tmp_path / "x", memory), "at least two memories"),
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


def run_quietly(*arguments):
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    app(arguments)


@pytest.mark.xdist_group("ranks")
def test_two_commands_at_once_lose_nothing(memory, tmp_path):
    for i in range(2):
        (tmp_path / f"{i}.json").write_text(json.dumps({f"document {i}": {"name": f"word {i}"}}))
    running = [started(run_quietly, "store", str(memory), str(tmp_path / f"{i}.json")) for i in range(2)]
    for process in running:
        process.join(120)
    assert [process.exitcode for process in running] == [0, 0]
    held = Memory.load(memory)
    assert held.pairs == 7
    assert [held.recall(f"document {i}", "name").value for i in range(2)] == ["word 0", "word 1"]


def test_the_demo_answers_as_predicted(tmp_path, carving):
    shown = carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png").output
    assert "Correct answers: " in shown and "TPR, one role per level: order 6" in shown
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    outcome = json.loads(carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png", "--json").output)
    assert outcome["correct"] > 0.97 and outcome["predicted_accuracy"] >= 0.99


def test_a_treebank_that_is_large_is_asked_for_a_sample(tmp_path, carving, monkeypatch):
    monkeypatch.setattr(demo, "MANY", 200)
    monkeypatch.setattr(demo, "SAMPLE", 100)
    text = carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png").output
    assert "(of a random sample of 100)" in text and "predicted, not measured" in text
    outcome = json.loads(carving("demo", "--trees", 60, "--picture", tmp_path / "demo.png", "--json").output)
    assert outcome["total"] == 100 < 200 < outcome["pairs"] and outcome["joint"]["correct"] is None


def test_a_sample_has_every_field_in_its_share():
    pairs = [((str(i // 4), f"field {i % 4}"), "value") for i in range(40_000)]
    sample = demo.sample_of(pairs, 2000)
    fields = [path[1] for path, _ in sample]
    assert len(sample) == 2000 and all(400 < fields.count(f"field {i}") < 600 for i in range(4))
    assert demo.sample_of(pairs, 40_000) is pairs


# The surface


def test_the_version(carving):
    assert carving("--version").output == f"carving {__version__}\n"
    assert "--install-completion" in carving("-h").output


def test_many_paths_are_answered_in_one_go(memory, carving, monkeypatch):
    calls = []
    recall_many = Memory.recall_many
    monkeypatch.setattr(Memory, "recall_many", lambda *a, **k: calls.append(a) or recall_many(*a, **k))
    lines = 'sentence 5\tsubject\n["sentence 5", "objects", 1]\r\nsentence 5\tobjects\t0\nsentence 5\tline\n'
    rows = [line.split("\t") for line in carving("ask", memory, "-", data=lines).output.splitlines()]
    assert [row[0] for row in rows][::3] == ["sentence 5 / subject", "sentence 5 / line"]
    assert [row[1].split("  (score")[0] for row in rows] == ["dog", "ball", "cat", "12"] and len(calls) == 1
    several = carving("ask", memory, "-", "--json", data="sentence 5\tsubject\nnowhere\n", status=1).output
    answers = [json.loads(line) for line in several.splitlines()]
    assert [(answer["path"], answer["found"]) for answer in answers] == [
        (["sentence 5", "subject"], True),
        (["nowhere"], False),
    ]
    asked = carving("ask", memory, "-", "--json", "--top", 2, data="sentence 5\tsubject\nsentence 5\tverb\n").output
    assert [json.loads(line)["answers"][0]["value"] for line in asked.splitlines()] == ["dog", "chased"]
    sets = carving("ask", memory, "-", "--set", data="sentence 5\tsubject\nnowhere\n", status=1).output.splitlines()
    assert sets[0].startswith("sentence 5 / subject\tdog  (score") and sets[1] == "nowhere\tnothing is stored there"
    assert carving("ask", memory, "-", "--text", data="sentence 5\tobjects\t0\n", status=1)
    found = carving("ask", memory, "-", "--value", "dog", "--json", data="sentence 5\tsubject\n").output
    assert json.loads(found)["found"]


@pytest.mark.parametrize("data", ["", " \n", "a\n\nb\n", "[1,\n", "[]\n", '["a", ["b"]]\n', b"\xff\n"])
def test_paths_that_are_none_are_refused(memory, carving, data):
    assert "standard input" in carving("ask", memory, "-", data=data, status=2).stderr


def test_a_value_that_was_text_is_recognized(memory, tmp_path, carving):
    (tmp_path / "g.tsv").write_text("a\tnext\t2\n")
    carving("store", memory, tmp_path / "g.tsv")
    assert carving("ask", memory, "a", "next", "--value", "2")


def test_a_value_may_be_a_number_or_text_and_which_was_taken_is_said(tmp_path, carving):
    held = Memory(OSC(d=40, p=3))
    held.store({"book": "1984", "year": 1984, "other": "x"})
    held.save(tmp_path / "m")
    for path, words, value in (("book", "the text '1984'", "1984"), ("year", "1984", 1984)):
        asked = carving("ask", tmp_path / "m", path, "--value", 1984)
        assert asked.stderr == f"--value 1984 was read as {words}.\n"
        assert json.loads(carving("ask", tmp_path / "m", path, "--value", 1984, "--json").stdout)["value"] == value
        candidates = carving("ask", tmp_path / "m", path, "--candidate", 1984, "--candidate", "x")
        assert candidates.stdout.startswith("1984  (score ")
        assert candidates.stderr == "--candidate 1984 was read as 1984 and the text '1984'.\n"
        assert json.loads(carving("ask", tmp_path / "m", path, "--candidate", 1984, "--json").stdout)["value"] == value
    assert carving("ask", tmp_path / "m", "year", "--value", 1984, "--text", status=1).stderr == ""
    assert carving("ask", tmp_path / "m", "year", "--candidate", 1984, "--text", status=1)
    assert carving("ask", tmp_path / "m", "other", "--value", 1984, status=1)
    held.store({"year": 1949})
    held.save(tmp_path / "m")
    assert (
        carving("ask", tmp_path / "m", "other", "--value", 1949, status=1).stderr == "--value 1949 was read as 1949.\n"
    )
    assert carving("ask", tmp_path / "m", "other", "--value", 7, status=1).stderr == ""
    assert carving("ask", tmp_path / "m", "other", "--candidate", 5, status=2).stderr.count("got 5") == 1


def test_more_answers_than_values_are_all_values(memory, carving):
    assert len(json.loads(carving("ask", memory, "sentence 5", "subject", "--top", 100, "--json").output)) == 5


def test_after_storing_two_questions_can_be_copied(tmp_path, carving):
    document = {"it's": {"a b": [{"12": "x"}, {"-": "y"}]}, "-5": "z", "last": {"true": "end"}}
    (tmp_path / "odd.json").write_text(json.dumps(document))
    lines = carving("store", tmp_path / "odd name", tmp_path / "odd.json", "--d", 40, "--p", 3).output.splitlines()
    assert lines[3] == "Query it, for example:" and len(lines) == 6
    for line, value in zip(lines[4:], ("x", "end"), strict=True):
        command, *arguments = shlex.split(line)
        assert command == "carving" and carving(*arguments).output.startswith(f"{value}  (score")


def test_every_path_that_a_command_line_can_say_is_said(tmp_path, carving):
    held = Memory(OSC(d=40, p=3))
    paths = [("-",), ("-x", -5), ("5",), (5,), (5.5, None), ("[1]",), ('"q"', True), ("true", ""), ("{}", "NaN")]
    held.store([(path, f"value {i}") for i, path in enumerate(paths)])
    held.save(tmp_path / "held")
    for i, path in enumerate(paths):
        command = memories.ask_command(tmp_path / "held", path)
        assert carving(*shlex.split(command)[1:]).output.startswith(f"value {i}  (score"), command
    for path in [(b"x",), ((),), ("a\nb",), (float("inf"),)]:
        assert memories.ask_command(tmp_path / "held", path) is None


def test_what_is_answered_wrongly_is_listed(memory, tmp_path, carving):
    wanted = {"sentence 5": {"subject": "dog", "verb": "slept"}} | {f"nowhere {i}": "dog" for i in range(30)}
    (tmp_path / "other.json").write_text(json.dumps(wanted))
    lines = carving("verify", memory, tmp_path / "other.json", "--wrong", status=1).output.splitlines()
    assert lines[2].startswith("sentence 5 / verb -> slept; answer: chased  (score ")
    assert len(lines) == 2 + questions.WORST + 1 and lines[-1].endswith("more (all with --json)")
    found = json.loads(carving("verify", memory, tmp_path / "other.json", "--wrong", "--json", status=1).output)
    assert len(found["wrong"]) == found["total"] - found["correct"] > questions.WORST
    assert found["wrong"][0]["path"] == ["sentence 5", "verb"] and found["wrong"][0]["answer"]["value"] == "chased"
    assert "wrong" not in json.loads(carving("verify", memory, tmp_path / "other.json", "--json", status=1).output)
    assert "Name files" in carving("verify", memory, "--wrong", status=2).stderr


def test_a_memory_without_a_prediction_has_an_info(tmp_path, carving):
    held = Memory(OSC(d=2))
    held.store({"a": "b", "c": "d"})
    held.save(tmp_path / "small")
    assert "2 pairs" in carving("info", tmp_path / "small").output
    assert "predicted_accuracy" in json.loads(carving("info", tmp_path / "small", "--json").output)


def test_what_a_memory_holds_is_exported(memory, tmp_path, carving):
    (tmp_path / "asked.json").write_text(json.dumps({"sentence 5": {"subject": "?", "verb": "?"}, "nowhere": "?"}))
    out = tmp_path / "out.json"
    text = carving("export", memory, tmp_path / "asked.json", "-o", out).output
    assert text.startswith(f"Wrote 2 pairs to {out} (3 requested)")
    assert json.loads(out.read_text()) == {"sentence 5": {"subject": "dog", "verb": "chased"}}
    facts = json.loads(carving("export", memory, tmp_path / "asked.json", "-o", out, "--json").output)
    assert facts == {"asked": 3, "written": 2, "file": str(out)}
    assert "does not exist" in carving("export", memory, "x", "-o", tmp_path / "no" / "where", status=2).stderr
    assert "Pass --to" in carving("export", memory, tmp_path / "asked.json", "-o", "-", status=2).stderr


def test_an_export_that_finds_nothing_leaves_the_file_alone(memory, tmp_path, carving):
    (tmp_path / "asked.json").write_text(json.dumps({"nowhere": "?"}))
    out = tmp_path / "out.json"
    out.write_text("mine")
    assert "Nothing is stored" in carving("export", memory, tmp_path / "asked.json", "-o", out, status=1).stderr
    assert out.read_text() == "mine"


def test_a_table_is_exported_as_it_was_stored(tmp_path, carving):
    table, held, out = tmp_path / "people.csv", tmp_path / "held", tmp_path / "copy.csv"
    table.write_text("name;city;drink\nann;rome;tea\nbob;oslo;milk\n")
    carving("store", held, table, "--key", "name", "--d", 20, "--p", 3)
    carving("export", held, table, "--key", "name", "--delimiter", ";", "-o", out)
    assert out.read_text().splitlines() == table.read_text().splitlines()


def test_what_is_exported_is_what_was_stored(memory, tmp_path, carving):
    carving("export", memory, tmp_path / "trees.json", "-o", tmp_path / "copy.json")
    assert json.loads((tmp_path / "copy.json").read_text()) == DOCUMENT
    printed = carving("export", memory, tmp_path / "trees.json", "-o", "-", "--to", "json").output
    assert json.loads(printed) == DOCUMENT
    assert "format" in carving("export", memory, tmp_path / "trees.json", "-o", tmp_path / "copy.xyz", status=2).stderr
    assert not (tmp_path / "copy.xyz").exists()


def test_numbers_are_not_cut_off_in_a_pipe(carving, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    shown = carving("plan", "--pairs", 10_000_000, "--vocabulary", 100_000).stdout
    scheme = [line for line in shown.splitlines() if line.strip().startswith("TPR")]
    assert len(scheme) == 1 and "GiB" in scheme[0] and "…" not in shown


def test_a_closed_pipe_ends_it_quietly(memory, tmp_path):
    asked = tmp_path / "asked.txt"
    asked.write_text("sentence 5\tsubject\n" * 5000)
    with asked.open() as paths:
        command = [sys.executable, "-m", "carving", "ask", memory, "-"]
        run = subprocess.Popen(command, stdin=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b"" and run.wait() == 141
        run.stderr.close()


# What fails


def test_a_bug_keeps_its_traceback_and_says_where_to_report_it(memory, carving, monkeypatch):
    def broken(*_, **__):
        raise ValueError("the developers slept")

    monkeypatch.setattr(Memory, "recall_many", broken)
    error = carving("ask", memory, "a", status=3).stderr
    assert error.startswith("Traceback") and "ValueError: the developers slept" in error
    assert error.splitlines()[-1].startswith("This is a bug in Carving. Please report it")


@pytest.mark.parametrize("error", [BadValue("not so"), OSError("not so"), MemoryError("not so")])
def test_a_mistake_is_a_sentence_unless_a_traceback_is_wanted(error, memory, carving, monkeypatch):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(Memory, "recall_many", refuse)
    assert carving("ask", memory, "a", status=2).stderr == "Error: not so\n"
    text = carving("--traceback", "ask", memory, "a", status=2).stderr
    assert text.startswith("Traceback") and text.endswith("Error: not so\n")
    assert carving("ask", memory, "a", status=2).stderr == "Error: not so\n"


@pytest.mark.parametrize("lack", ["not enough memory", "can't allocate memory"])  # on Windows and on Linux
def test_lack_of_memory_that_torch_tells_is_no_bug(memory, carving, monkeypatch, lack):
    def refuse(*_, **__):
        raise RuntimeError(f"DefaultCPUAllocator: {lack}: you tried to allocate 9 bytes")

    monkeypatch.setattr(Memory, "recall_many", refuse)
    assert carving("ask", memory, "a", status=2).stderr.startswith(
        f"Error: Not enough memory. DefaultCPUAllocator: {lack}"
    )


HOSTILE = "e\x1b[31m\x9b\u202e\x07\r\x7f"
SHOWN = r"e\x1b[31m\x9b\u202e\x07\r\x7f"


def test_text_of_others_does_not_steer_the_terminal(memory, tmp_path, carving):
    (tmp_path / f"{HOSTILE}.tsv").write_text("bad\n")
    (tmp_path / f"{HOSTILE}.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    (tmp_path / "a.arff").write_text(f"@relation x\n@attribute {HOSTILE[:4]} {{a,b}}\n@data\n{HOSTILE}\n")
    stored = carving("store", memory, tmp_path / f"{HOSTILE}.json")
    shown = [
        stored,
        carving("store", memory, tmp_path / f"{HOSTILE}.tsv", status=2),
        carving("store", memory, tmp_path / HOSTILE, status=2),
        carving("ask", memory, HOSTILE),
        carving("verify", memory, tmp_path / f"{HOSTILE}.json"),
        carving("train", tmp_path / "a.arff", tmp_path / "model", "--labels", 1, status=2),
        carving("--traceback", "store", memory, tmp_path / HOSTILE, status=2),
        carving("merge", tmp_path / HOSTILE, memory, memory),
        carving("demo", "--conllu", tmp_path / f"{HOSTILE}.tsv", status=2),
    ]
    for result in shown:
        text = result.output + result.stderr
        assert not any(character in text for character in set(HOSTILE) - set("e[31m")), text
    assert f"{SHOWN}.tsv, line 1" in shown[1].stderr and SHOWN in shown[3].output
    answer = carving("ask", memory, HOSTILE, "--json").output
    assert json.loads(answer)["value"] == HOSTILE and "\x7f" not in answer


def test_a_bug_s_traceback_does_not_steer_the_terminal(memory, carving, monkeypatch):
    def broken(*_, **__):
        raise ValueError(HOSTILE)

    monkeypatch.setattr(Memory, "recall_many", broken)
    error = carving("ask", memory, "a", status=3).stderr
    assert SHOWN in error and "\x1b" not in error


def test_nobody_who_listens_changes_no_exit_status(memory, tmp_path):
    """Where the errors go to a closed pipe, the status was 1: not found."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "carving", "ask", tmp_path / "none", "a"]
    assert subprocess.run(command, stdout=write, stderr=write).returncode == 2
    os.close(write)
    with open("/dev/full", "w") as full:
        run = subprocess.run([*command[:4], memory, "sentence 5", "verb"], stdout=full, capture_output=False)
    assert run.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
def test_what_is_done_and_cannot_be_told_is_no_failure(memory, tmp_path):
    """Who tried again stored everything twice."""
    (tmp_path / "more.json").write_text('{"new": "fact"}')
    read, closed = os.pipe()
    os.close(read)
    before = Memory.load(memory).pairs
    with open("/dev/full", "w") as full:
        for number, (verb, out) in enumerate((("store", full), ("store", closed), ("forget", full)), start=1):
            command = [sys.executable, "-m", "carving", verb, memory, tmp_path / "more.json", "--json"]
            run = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True)
            assert run.returncode == 0, run.stderr
            assert run.stderr.startswith("Warning: the command succeeded, but its output could not be written")
            assert Memory.load(memory).pairs == before + (number if verb == "store" else 1)
    os.close(closed)


@pytest.mark.parametrize("path", ["[" * 100_000, "1" * 5_000, "[" + "1" * 5_000 + "]"])
def test_roles_that_json_cannot_read_are_text_or_refused(path, memory, carving):
    carving("ask", memory, path[:50_000], status=1)
    carving("ask", memory, "-", data=path, status=2 if path.startswith("[") else 1)


def test_what_is_piped_in_is_named_and_kept_on_the_disk(memory, carving, monkeypatch):
    monkeypatch.setattr("carving.cli.input.IN_MEMORY", 10)
    lines = "".join(f"head {i}\tnext\tvalue\n" for i in range(20))
    assert "Stored 20 pairs" in carving("store", memory, "-", "--format", "triples", data=lines).output
    error = carving("store", memory, "-", "--format", "triples", data=lines + "bad\n", status=2).stderr
    assert error.startswith("Error: standard input, line 21: expected head")


@pytest.mark.parametrize(("scheme", "message"), [("TPR", "depth, whole_path"), ("CliffordOSC", ""), ("HLB", "sigma")])
def test_an_option_that_a_scheme_does_not_have_is_told(scheme, message, tmp_path, carving):
    (tmp_path / "f.json").write_text(json.dumps(DOCUMENT))
    option = ("--compact",) if scheme == "CliffordOSC" else ("--k1", 3)
    error = carving(
        "store", tmp_path / "m", tmp_path / "f.json", "--scheme", scheme, "--d", 8, *option, status=2
    ).stderr
    assert f"{scheme} has no option {option[0][2:]!r}. Its options: " in error and message in error


def test_places_where_nothing_can_be_written_are_refused_before_the_work(memory, tmp_path, carving, monkeypatch):
    monkeypatch.setattr(Memory, "load", lambda *_: pytest.fail("it worked"))
    monkeypatch.setattr(demo, "run", lambda *_, **__: pytest.fail("it worked"))
    (tmp_path / "file").write_text("")
    nowhere, folder, trees = tmp_path / "no" / "where", tmp_path, tmp_path / "trees.json"
    for target, message in [(nowhere, "does not exist"), (folder, "is a folder")]:
        assert message in carving("store", target, trees, status=2).stderr
        assert message in carving("merge", target, memory, memory, status=2).stderr
        assert message in carving("demo", "--picture", target, status=2).stderr
        assert message in carving("export", memory, trees, "-o", target, status=2).stderr
    assert "is a file" in carving("reproduce", "tpr", "--out", tmp_path / "file", status=2).stderr
    assert "is a file" in carving("reproduce", "tpr", "--out", tmp_path / "file" / "deep", status=2).stderr
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert "is not writable" in carving("merge", tmp_path / "x", memory, memory, status=2).stderr
    assert "is not writable" in carving("reproduce", "tpr", "--out", tmp_path / "deep" / "er", status=2).stderr


def test_what_force_gives_up_is_told_where_there_is_force(memory, tmp_path, carving, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text("head,next\na,b\n")
    for words in (("merge", table, memory, memory), ("grow", memory, tmp_path / "trees.json", "-o", table)):
        with monkeypatch.context() as patched:
            patched.setattr(Memory, "predicted_accuracy", lambda *_: pytest.fail("it worked"))
            refused = carving(*words, status=2).stderr
        assert (
            "was not written by Carving" in refused
            and "pass --force to overwrite it" in refused
            and "too full" not in refused
        )
        assert table.read_text().startswith("head")
        carving(*words, "--force")
        assert Memory.load(table).pairs > 0
        table.write_text("head,next\na,b\n")


def test_who_cannot_force_is_not_told_to(memory, tmp_path, carving):
    memory.chmod(0o400)
    before = memory.read_bytes()
    for words in (("store", memory, tmp_path / "trees.json", "--force"), ("forget", memory, tmp_path / "trees.json")):
        refused = carving(*words, status=2).stderr
        assert "is read-only. Make it writable, choose another path." in refused
        assert "force=True" not in refused and "--force" not in refused
    assert memory.read_bytes() == before
    carving("merge", memory, memory, memory, "--force")
    assert memory.read_bytes() != before


def test_a_place_for_locks_that_is_not_there_is_told(memory, tmp_path, carving, monkeypatch):
    monkeypatch.setenv("CARVING_LOCKS", str(tmp_path / "no" / "where"))
    refused = carving("store", memory, tmp_path / "trees.json", status=2).stderr
    assert "The folder for locks" in refused and "Set CARVING_LOCKS to an existing folder" in refused
    assert "Errno" not in refused


def test_no_lock_is_left_beside_a_file_or_a_name_that_was_mistyped(memory, tmp_path, carving):
    carving("store", tmp_path / "typo", tmp_path / "nothing.json", status=2)
    carving("forget", tmp_path / "typo", tmp_path / "trees.json", status=2)
    carving("merge", tmp_path / "both", memory, memory)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["both", "trees.json", "trees.safetensors"]


def test_a_link_and_its_file_share_a_lock_of_the_user_alone(memory, tmp_path):
    (tmp_path / "link").symlink_to(memory)
    lock = locks.lock_for(tmp_path / "link").lock_file
    assert lock == locks.lock_for(memory).lock_file != locks.lock_for(tmp_path / "other").lock_file
    assert stat.S_IMODE(os.stat(os.path.dirname(lock)).st_mode) == 0o700


def test_a_folder_of_locks_that_others_may_write_is_refused(memory, tmp_path, monkeypatch):
    monkeypatch.setenv("CARVING_LOCKS", str(tmp_path))
    locks.lock_for(memory)
    (tmp_path / f"carving-{os.getuid()}").chmod(0o777)
    with pytest.raises(PermissionError, match=r"must be yours.*CARVING_LOCKS"):
        locks.lock_for(memory)
