"""Places: who writes a file is alone, by whatever name; a lock is left by the dead and leaves nothing behind."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from crew import started

from carving import OSC, Memory, places
from carving.files import lock_for
from carving.places import shown


def store_eight(name, who, temporary):
    os.environ["TMPDIR"], tempfile.tempdir = temporary, None
    for number in range(8):
        with lock_for(name):
            memory = Memory.load(name)
            memory.store({who: {f"number {number}": "x"}})
            memory.save(name)


HOLD = """
import sys, time
from carving.files import lock_for
lock = lock_for(sys.argv[1])
lock.acquire()
print(1, flush=True)
time.sleep(100)
"""


@pytest.fixture
def file(tmp_path):
    memory = Memory(OSC(32, 2))
    memory.store({"first": "x"})
    memory.save(tmp_path / "file")
    return tmp_path / "file"


@pytest.mark.xdist_group("ranks")
def test_those_who_write_through_links_and_names_lose_nothing(file):
    """Three processes store through a name, a link and a link to a link, with temporary folders of their own."""
    (file.parent / "folder").mkdir()
    link, other = file.with_name("link"), file.parent / "folder" / "other"
    link.symlink_to("file")
    other.symlink_to(link)
    writers = [
        started(store_eight, name, f"writer {number}", str(file.parent / "folder") if number else "/tmp")
        for number, name in enumerate((file, link, other))
    ]
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert Memory.load(file).pairs == 1 + 3 * 8
    assert link.is_symlink() and other.is_symlink()
    assert sorted(os.listdir(file.parent)) == ["file", "folder", "link"]
    assert os.listdir(other.parent) == ["other"]


def test_the_lock_of_a_dead_process_holds_nobody(file):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE)
    holder.stdout.readline()
    lock = lock_for(file)
    with pytest.raises(TimeoutError):
        lock.acquire(timeout=0)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    lock.acquire(timeout=1)
    lock.release()


@pytest.mark.skipif(places.fcntl is None, reason="this system locks by other means")
def test_a_file_system_without_locks_is_told_at_once(file, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(places.fcntl, "flock", missing)
    start = time.monotonic()
    with pytest.raises(OSError, match=r"without locks .*set CARVING_LOCKS to a folder on a local disk"):
        lock_for(file)
    assert time.monotonic() - start < 5
    left = file.with_name(f".carving-{'0' * 32}.part")
    left.write_bytes(b"of nobody knows whom")
    with pytest.warns(places.NotLocked, match="file is written without waiting for others: .*without locks"):
        Memory.load(file).save(file)  # to save needs none
    assert left.exists()
    os.utime(left, (0, 0))  # only its age tells now
    with pytest.warns(places.NotLocked):
        Memory.load(file).save(file)
    assert not left.exists()


def test_the_place_of_locks_may_be_named(file, tmp_path, monkeypatch):
    (tmp_path / "locks").mkdir()
    usual = lock_for(file).lock_file
    monkeypatch.setenv("TMPDIR", str(tmp_path / "locks"))
    assert lock_for(file).lock_file == usual
    monkeypatch.setenv("CARVING_LOCKS", str(tmp_path / "locks"))
    assert lock_for(file).lock_file.startswith(str(tmp_path / "locks"))


def test_a_place_of_locks_that_is_not_there_is_told_with_the_way_out(file, tmp_path, monkeypatch):
    monkeypatch.setenv("CARVING_LOCKS", str(tmp_path / "no" / "where"))
    told = "there is no place for locks: .*no/where.*No such file.*; set CARVING_LOCKS to a folder that is there"
    with pytest.raises(OSError, match=told) as failed:
        lock_for(file)
    assert failed.value.errno == errno.ENOENT
    before = file.read_bytes()
    with pytest.warns(places.NotLocked, match=r"set CARVING_LOCKS"):
        Memory.load(file).save(file)
    assert file.read_bytes() == before


def test_what_is_shown_is_a_line_without_commands_for_a_terminal():
    assert shown("a\x1b[31m\nb\u202ec\ud800") == r"a\x1b[31m\nb\u202ec\ud800"
    assert shown("ü 日本") == "ü 日本"
    assert len(shown("x" * 10**6)) < 500
