"""The campaign in small, and that it would notice: crashes, kills, damage, programs against a dictionary, drift."""

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from campaign import acts, common, disks, drift, files, kills, readers
from campaign.crashes import File, Folder, Sync, Tree, Write, after, crashes, tree_of
from campaign.disks import Step
from campaign.shim import END, SHORT, Fault, Shim

from carving import OSC, Memory

FORKING = """
import json, sys
from campaign import kills, shortages, stateful
rows = kills.campaign(6, names=["save"]) + stateful.campaign(50)
rows += shortages.campaign(16, names=["load", "store", "recall", "store in an open file"])
json.dump(rows, sys.stdout)
"""

# In small


@pytest.mark.parametrize("act", ["save", "export"])
def test_whatever_a_disk_loses_or_refuses_a_file_is_old_or_new(act):
    crashed, refused = disks.campaign(25, names=[act])
    assert crashed["failures"] == [] and crashed["tried"] > 10
    assert refused["failures"] == [] and refused["tried"] == 25


@pytest.mark.parametrize("how", [END, errno.EIO])
@pytest.mark.parametrize("begun", [0, 1], ids=["begins a journal", "appends"])
def test_whoever_was_killed_or_failed_before_what_is_acknowledged_outlives_a_power_failure(how, begun, tmp_path):
    """A change is stopped at each of its calls; the next one is acknowledged, or stopped at its last call."""
    for at in range(3, 6):
        for last in (Step("store"), Step("store", 5, END)):
            steps = [*[Step("store")] * begun, Step("store", at, how), last]
            assert disks.played(steps, tmp_path / "played", random.Random(0)) == []


def test_killed_processes_leave_old_or_new_and_a_memory_holds_what_a_dictionary_does():
    """All fork, which a process with threads must not. Out of memory, nothing is changed."""
    environment = os.environ | dict(PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
    killed, against, *short = json.loads(subprocess.check_output([sys.executable, "-c", FORKING], env=environment))
    assert killed["failures"] == [] and killed["old"] + killed["new"] == killed["tried"] == 6
    assert against["failures"] == [] and against["tried"] >= 50
    assert [row["failures"] for row in short] == [[]] * 4 and sum(row["refused"] for row in short) > 4


@pytest.mark.parametrize("kind", files.ALL)
def test_no_damaged_file_is_accepted_and_no_lie_takes_room_or_shows_a_traceback(kind):
    (row,) = files.campaign(60, seed=1, names=[kind])
    assert row["failures"] == [] and row["refused"] + row["cut"] > 36


def test_sums_do_not_drift():
    assert [row["failures"] for row in drift.campaign(1_000)] == [[], []]


# It would notice


def crashed(log, tree=None):
    states, _ = crashes(tree or Tree(), log, 10_000, random.Random(0))
    return {
        tuple((name, file and file.content) for name, file in sorted(state.tree.contents().items())) for state in states
    }


def test_what_is_not_flushed_may_be_lost_half_done_or_zeros_and_what_is_flushed_is_there():
    tree = Tree({0: Folder((("file", 1),)), 1: File(b"old!")})
    found = {dict(state)["file"] for state in crashed([Write(1, 2, b"12345678")], tree)}
    assert found == {b"old!", b"ol12345678", b"ol1234", b"old!\0\0\0\0\0\0"}
    states, _ = crashes(tree, [Write(1, 2, b"12345678"), Sync(1)], 100, random.Random(0))
    assert {state.tree.contents()["file"].content for state in states if state.ended} == {b"ol12345678"}


def test_a_name_may_be_there_before_its_bytes_and_only_in_order(tmp_path):
    """The usual mistake: a file is put in another one's place before it was flushed."""
    (tmp_path / "file").write_text("old")
    shim = Shim(tmp_path)
    with shim.watching():
        with open(tmp_path / "new", "w") as new:
            new.write("newer")
        os.replace(tmp_path / "new", tmp_path / "file")
    shim.check()
    found = [dict(state) for state in crashed(shim.log, shim.begun)]
    assert {state.get("file") for state in found} == {b"old", b"newer", b"ne", b"\0" * 5, b""}
    assert not [state for state in found if "new" in state and state["file"] != b"old"]


def test_the_shim_sees_all_that_is_done_to_files(tmp_path):
    (tmp_path / "old").write_text("old")
    shim = Shim(tmp_path)
    with shim.watching():
        (tmp_path / "folder").mkdir()
        with open(tmp_path / "folder" / "text", "a", buffering=1) as text:
            text.write("one\ntwo\n")
            os.fsync(text.fileno())
        with open(tmp_path / "old", "rb+") as both:
            both.seek(2)
            both.write(b"12345")
            both.truncate(4)
        descriptor = os.open(tmp_path / "made", os.O_WRONLY | os.O_CREAT, 0o640)
        os.write(descriptor, b"abc")
        os.ftruncate(descriptor, 2)
        os.close(descriptor)
        os.chmod(tmp_path / "made", 0o600)
        (tmp_path / "made").rename(tmp_path / "renamed")
        (tmp_path / "folder" / "text").unlink()
        (tmp_path / "folder").rmdir()
    shim.check()
    assert after(shim.begun, shim.log).contents() == tree_of(tmp_path).contents()
    (tmp_path / "renamed").write_text("behind its back")
    with pytest.raises(AssertionError, match="the shim missed something"):
        shim.check()


def test_a_call_fails_as_it_is_told(tmp_path):
    with Shim(tmp_path, Fault(1, errno.ENOSPC)).watching():
        with open(tmp_path / "file", "wb", buffering=0) as stream:
            for _ in range(2):
                with pytest.raises(OSError, match="No space left"):
                    stream.write(b"1234")
        (tmp_path / "file").unlink()
    with Shim(tmp_path, Fault(1, SHORT)).watching(), open(tmp_path / "file", "wb", buffering=0) as stream:
        assert [stream.write(b"1234"), stream.write(b"56")] == [2, 2]
    assert (tmp_path / "file").read_bytes() == b"1256"


class Unflushed:
    """`os`, but that nothing is flushed."""

    def __getattr__(self, name):
        return (lambda _: None) if name == "fsync" else getattr(os, name)


def test_a_save_that_does_not_flush_is_noticed(monkeypatch):
    monkeypatch.setattr("carving.storage.atomic.os", Unflushed())
    crashed_, _ = disks.campaign(60, names=["save"])
    assert crashed_["failed"]


def test_a_journal_whose_name_is_not_flushed_by_its_second_writer_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr("carving.storage.journal.flush_folder", lambda *_: True)
    lost = [
        disks.played([Step("store", at, END), Step("store")], tmp_path / "played", random.Random(0)) for at in (4, 5)
    ]
    assert any(lost)


def test_a_change_that_is_followed_before_it_is_flushed_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr("carving.storage.journal._mend", lambda *_: None)
    steps = [Step("store"), Step("store", 3, END), Step("store", 3, END)]
    assert disks.played(steps, tmp_path / "played", random.Random(0))


def test_an_act_that_writes_in_place_is_noticed(monkeypatch):
    def in_place():
        whole = Path("memory.safetensors").read_bytes()
        Path("memory.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        return 0

    monkeypatch.setitem(acts.ACTS, "save", acts.Act(in_place, acts.MEMORY, lambda path: path.read_bytes()))
    crashed_, refused = disks.campaign(60, names=["save"])
    assert crashed_["failed"] and refused["failed"]


def test_a_checksum_that_is_not_looked_at_is_noticed(monkeypatch):
    monkeypatch.setattr("carving.storage.tensorfile.check_sum", lambda *_: None)
    (row,) = files.campaign(60, names=["memory of CGR"])
    assert row["failed"]


def test_a_damaged_journal_that_is_taken_as_cut_off_is_noticed(monkeypatch):
    monkeypatch.setattr("carving.storage.journal._is_followed", lambda *_: False)
    (row,) = files.campaign(100, names=["journal"])
    assert row["failed"]


def test_every_part_tries_as_often_as_it_is_told_at_least():
    assert common.share(100_000, list(files.ALL)) * len(files.ALL) >= 100_000
    assert sum(kills.shared(1_000, list(acts.ACTS)).values()) >= 1_000


def test_the_campaign_of_readers_tells_what_fails():
    def wrong():
        raise RecursionError("too deep")

    assert readers.outcome(wrong) == "RecursionError: too deep"
    assert readers.outcome(lambda: None) == "read"


def test_rounding_that_adds_up_is_noticed(monkeypatch):
    monkeypatch.setattr(drift, "UNIT", 2.0**-34)
    assert drift.campaign(300)[0]["failed"] == 1


def test_a_short_write_is_written_to_its_end(tmp_path):
    memory = Memory(OSC(16, 2))
    memory.store({"a": "x"})
    shim = Shim(tmp_path)
    with shim.watching():
        memory.save(tmp_path / "file")
    whole = (tmp_path / "file").read_bytes()
    for at, kind in enumerate(shim.calls):
        if kind == "write":
            (tmp_path / "file").unlink()
            with Shim(tmp_path, Fault(at, SHORT)).watching():
                memory.save(tmp_path / "file")
            assert (tmp_path / "file").read_bytes() == whole
