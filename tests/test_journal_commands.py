"""Commands and journals: small changes of large files are appended, and everything that reads them sees them."""

import json
import os
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from carving import Memory
from carving.cli import app, journals
from carving.storage import journal, journaledfile, memoryfile

LINES = [f"head {i}\tnext\tleaf {i % 7}" for i in range(40)]


@pytest.fixture
def carving(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, status=0, data=None):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=data)
        assert result.exit_code == status, result.output + result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return run


@pytest.fixture
def large(monkeypatch):
    """Every file counts as large."""
    monkeypatch.setattr(journals, "LARGE", 0)


def lines(*numbers):
    return "".join(f"{LINES[number]}\n" for number in numbers)


def store(carving, data, *options, **how):
    return carving("store", "memory", "-", "--format", "triples", *options, data=data, **how)


def session(carving):
    """Commands that change a memory, and what they say, exactly and in JSON."""
    said = [store(carving, lines(*range(10)), "--d", 40, "--p", 2).output]
    said += [store(carving, lines(10), *options).output for options in ((), ("--json",))]
    said += [store(carving, lines(11, 12), "--json").output, store(carving, lines(3, 13), "--d", 40).output]
    for options in ((), ("--json",), ("--force",)):
        said.append(carving("forget", "memory", "-", "--format", "triples", *options, data=lines(3, 30)).output)
    said.append(store(carving, lines(14)).output)
    said.append(carving("ask", "memory", "head 14", "next").output)
    said.append(
        carving("verify", "memory", "-", "--format", "triples", data=lines(*range(4, 15))).output.split("\n")[-2]
    )
    said.append(carving("merge", "both", "memory", "memory", "--json").output)
    said.append(carving("export", "memory", "-", "--format", "triples", "-o", "-", "--to", "triples",
                        data=lines(12, 14)).output)  # fmt: skip
    return said


def test_commands_say_the_same_whether_they_append_or_write_the_whole_file(carving, monkeypatch):
    whole = session(carving)
    assert sorted(os.listdir()) == ["both", "memory"]
    for name in os.listdir():
        os.remove(name)
    monkeypatch.setattr(journals, "LARGE", 0)
    assert session(carving) == whole
    assert sorted(os.listdir()) == ["both", "memory", "memory.journal"]


def test_storing_a_little_in_a_large_file_does_not_read_its_tensor(carving, large, monkeypatch):
    store(carving, lines(*range(10)), "--d", 40, "--p", 2)
    before = Path("memory").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(memoryfile, "read", lambda path: pytest.fail("it was read"))
        store(carving, lines(10))
        store(carving, lines(11, 12))
    assert Path("memory").read_bytes() == before
    assert Memory.load("memory").pairs == 13 and journal.read("memory").count == 2


def test_a_small_file_is_written_whole(carving):
    store(carving, lines(*range(10)), "--d", 40, "--p", 2)
    store(carving, lines(10))
    assert os.listdir() == ["memory"]


def test_so_many_changes_that_replaying_takes_long_are_written_whole(carving, large, monkeypatch):
    store(carving, lines(*range(10)), "--d", 40, "--p", 2)
    monkeypatch.setattr(journaledfile, "MAX_WORK", 3 * 40**2)
    found = []
    for number in range(10, 20):
        store(carving, lines(number))
        found.append(journal.read("memory").count if os.path.exists("memory.journal") else 0)
    assert Memory.load("memory").pairs == 20 and 0 in found and 1 <= max(found) <= 3
    store(carving, lines(*range(20, 30)))
    assert os.listdir() == ["memory"] and Memory.load("memory").pairs == 30
    store(carving, "", status=2)


def test_options_and_goals_are_looked_at_before_anything_is_appended(carving, large):
    store(carving, "".join(f"head {i}\tnext\tleaf {i}\n" for i in range(20)), "--scheme", "HLB")
    before = Path("memory").read_bytes()
    assert "got OSC" in store(carving, lines(1), "--scheme", "OSC", status=2).stderr
    more = "".join(f"more {i}\tnext\tother {i}\n" for i in range(300))
    refused = store(carving, more, status=2)
    assert "would be over capacity" in refused.stderr and "Nothing was written" in refused.stderr
    assert os.listdir() == ["memory"] and Path("memory").read_bytes() == before
    told = store(carving, more, "--force")
    assert "is over capacity" in told.stderr and os.path.exists("memory.journal")
    os.chmod("memory", 0o444)
    assert "read-only" in store(carving, lines(1), "--force", status=2).stderr
    assert Memory.load("memory").pairs == 320


def test_one_pair_that_fills_a_memory_is_refused(carving, large):
    store(carving, "".join(f"head {i}\tnext\tleaf {i}\n" for i in range(20)), "--scheme", "HLB", "--headroom", 3)
    asked = ["store", "memory", "-", "--format", "triples"]
    again = [CliRunner().invoke(app, asked, input=lines(1)) for _ in range(12)]
    codes = [each.exit_code for each in again]  # ten times the pair is the noise of a hundred
    assert codes == sorted(codes) and set(codes) == {0, 2}
    assert "would be over capacity" in again[-1].stderr and os.path.exists("memory.journal")


def test_info_verify_and_compact_tell_what_lies_beside_a_file(carving, large):
    store(carving, lines(*range(10)), "--d", 40, "--p", 2)
    assert "journal" not in carving("info", "memory").output
    assert "has no journal" in carving("compact", "memory").output
    store(carving, lines(10, 11))
    store(carving, lines(12))
    for command in ("info", "verify"):
        assert "2 changes with 3 pairs in" in carving(command, "memory").output
        facts = json.loads(carving(command, "memory", "--json").output)
        assert facts["journal"]["changes"] == 2 and facts["pairs"] == 13
    with open("memory.journal", "ab") as torn:
        torn.write(b"torn")
    assert "The last 4 bytes of the journal are an interrupted change" in carving("verify", "memory").output
    data = Path("memory.journal").read_bytes()
    with open("memory.journal", "wb") as damaged:
        damaged.write(data[:120] + b"?" + data[121:])
    for command in ("info", "verify", "compact"):
        assert "memory.journal is corrupt" in carving(command, "memory", status=2).stderr
    assert "memory.journal is corrupt" in store(carving, lines(13), status=2).stderr
    with open("memory.journal", "wb") as mended:
        mended.write(data)
    assert "Wrote 2 changes into memory: 13 pairs." in carving("compact", "memory").output
    assert os.listdir() == ["memory"] and Memory.load("memory").pairs == 13
    with open("memory.journal", "wb") as stale:
        stale.write(data)
    assert "and is ignored" in carving("verify", "memory").output
    assert json.loads(carving("info", "memory", "--json").output)["journal"]["ignored"] is True
    assert json.loads(carving("compact", "memory", "--json").output)["changes"] == 0
    carving("compact", "nothing", status=2)


def test_store_and_forget_keep_the_precision_of_a_file(carving):
    store(carving, lines(0, 1), "--d", "24")
    Memory.load("memory").save("memory", torch.bfloat16)
    store(carving, lines(2))
    assert memoryfile.precision("memory", torch.zeros(1)) == torch.bfloat16
    carving("forget", "memory", "-", "--format", "triples", data=lines(2))
    assert memoryfile.precision("memory", torch.zeros(1)) == torch.bfloat16


def test_a_journal_without_its_file_is_told_with_what_to_do(carving, large):
    store(carving, lines(0, 1), "--d", "24")
    store(carving, lines(2))
    Path("memory").rename("elsewhere")
    told = " ".join(carving("ask", "memory", "head 2", "next", status=2).stderr.split())
    assert "memory does not exist" in told and "holds 1 change of a memory file that no longer exists" in told
    assert "Restore that file, or move the journal away" in told
    told = " ".join(store(carving, lines(0), "--d", "24", status=2).stderr.split())
    assert "Restore that file, or move the journal away" in told
    Path("elsewhere").rename("memory")
    carving("ask", "memory", "head 2", "next")


def test_a_journal_of_another_file_is_told_with_what_to_do(carving, large):
    store(carving, lines(0, 1), "--d", "24")
    store(carving, lines(2))
    carving("store", "other", "-", "--format", "triples", "--d", "24", data=lines(5))
    Path("other").replace("memory")
    told = " ".join(carving("info", "memory").output.split())
    assert "is ignored; the next change deletes it. To keep its changes, restore the version" in told


def test_merging_says_what_to_do_where_it_cannot(carving):
    store(carving, lines(0), "--d", "24")
    assert "Name RESULT first, then the memories" in " ".join(
        carving("merge", "all", "memory", status=2).stderr.split()
    )
