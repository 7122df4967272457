"""Places: who writes a file is alone, by whatever name; a lock is left by the dead and leaves nothing behind."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from crew import started

import carving
from carving import OSC, Memory
from carving.storage import locks
from carving.storage.journal import journal_path
from carving.storage.locks import lock_for, shown


def store_eight(name, who, temporary):
    os.environ["TMPDIR"], tempfile.tempdir = temporary, None
    for number in range(8):
        with lock_for(name):
            memory = Memory.load(name)
            memory.store({who: {f"number {number}": "x"}})
            memory.save(name)


HOLD = """
import sys, time
from carving.storage.locks import lock_for
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


@pytest.mark.skipif(locks.fcntl is None, reason="this system locks by other means")
def test_a_file_system_without_locks_is_told_at_once(file, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", missing)
    start = time.monotonic()
    with pytest.raises(OSError, match=r"without locks .*Set CARVING_LOCKS to a folder on a local disk"):
        locks.acquire_lock(file)
    assert time.monotonic() - start < 5
    left = file.with_name(f".carving-{'0' * 32}.part")
    left.write_bytes(b"of nobody knows whom")
    with pytest.warns(locks.NotLocked, match="file is written without a lock, .*without locks"):
        Memory.load(file).save(file)  # to save needs none
    assert left.exists()
    os.utime(left, (0, 0))  # only its age tells now
    with pytest.warns(locks.NotLocked):
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
    told = "The folder for locks, .*no/where.*No such file.*Set CARVING_LOCKS to an existing folder"
    with pytest.raises(OSError, match=told) as failed:
        lock_for(file)
    assert failed.value.errno == errno.ENOENT
    before = file.read_bytes()
    with pytest.warns(locks.NotLocked, match=r"Set CARVING_LOCKS"):
        Memory.load(file).save(file)
    assert file.read_bytes() == before


@pytest.mark.skipif(locks.pwd is None, reason="this system has no passwd entries")
def test_locks_lie_in_the_users_own_cache_folder_or_in_the_temporary_one(file, tmp_path, monkeypatch):
    monkeypatch.delenv("CARVING_LOCKS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    user = list(locks.pwd.getpwuid(os.getuid()))
    for home, folder in ((tmp_path / "home", tmp_path / "home" / ".cache" / "carving"), (file, "/tmp")):
        entry = locks.pwd.struct_passwd([*user[:5], str(home), user[6]])
        monkeypatch.setattr(locks.pwd, "getpwuid", lambda _, entry=entry: entry)
        lock = lock_for(file).lock_file
        assert lock.startswith(f"{folder}/carving-{os.getuid()}/")
        assert os.stat(os.path.dirname(lock)).st_mode & 0o777 == 0o700


@pytest.mark.skipif(locks.fcntl is None, reason="this system locks by other means")
def test_waiting_for_a_journal_that_another_holds_is_announced_and_ends(file, monkeypatch):
    """Whoever may read a journal may lock it."""
    monkeypatch.setattr(locks, "NOTICE", 0.05, raising=False)
    monkeypatch.setattr(locks, "SHARED_LIMIT", 0.3, raising=False)
    with carving.open(file) as memory:
        memory.store({"second": "y"})
        with open(journal_path(file), "rb") as other:
            locks.fcntl.flock(other, locks.fcntl.LOCK_SH)
            late = threading.Timer(5, locks.fcntl.flock, (other, locks.fcntl.LOCK_UN))  # no test waits for ever
            late.start()
            held = "journal was not released within 0.3 s by another process. End .*Nothing was changed"
            with (
                pytest.warns(UserWarning, match=r"Waiting for another process .*journal, for at most 0.3 s"),
                pytest.raises(OSError, match=held),
            ):
                memory.store({"third": "z"})
            assert memory.pairs == Memory.load(file).pairs == 2
            late.cancel()
            locks.fcntl.flock(other, locks.fcntl.LOCK_UN)
            memory.store({"third": "z"})
    assert Memory.load(file).pairs == 3


def test_waiting_for_the_turn_is_announced_and_ends(file, monkeypatch):
    monkeypatch.setattr(locks, "NOTICE", 0.05)
    monkeypatch.setattr(locks, "TURN_LIMIT", 0.3)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with carving.open(file) as memory:
        for change in (lambda: memory.store({"second": "y"}), lambda: Memory.load(file).save(file)):
            with (
                pytest.warns(locks.Waiting, match=r"lock of .*file, for at most 0.3 s"),
                pytest.raises(TimeoutError, match=r"lock of .*file was not released within 0.3 s"),
            ):
                change()
        holder.kill()
        holder.communicate()
        memory.store({"second": "y"})
    assert Memory.load(file).pairs == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("is_open", [False, True])
def test_children_forked_while_another_thread_stores_recall_and_store(file, is_open):
    memory, children, stop = carving.open(file) if is_open else Memory.load(file), 20, threading.Event()

    def store():
        number = 0
        while not stop.is_set():
            number += 1
            memory.store({"second": "z"})
            memory.forget({"second": "z"}, force=True)
            if is_open and number % 5 == 0:
                memory.compact()

    def child(number):
        code = 1
        try:
            signal.alarm(10)
            memory.store({"child": {f"number {number}": "y"}})
            found = memory.recall("first").value, memory.recall("child", f"number {number}").value
            code = 0 if found == ("x", "y") else 2
        finally:
            os._exit(code)

    storer = threading.Thread(target=store)
    storer.start()
    try:
        for number in range(children):
            pid = os.fork()
            if not pid:
                child(number)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        storer.join()
    if is_open:
        assert Memory.load(file).pairs == 1 + children


def test_what_is_shown_is_a_line_without_commands_for_a_terminal():
    assert shown("a\x1b[31m\nb\u202ec\ud800") == r"a\x1b[31m\nb\u202ec\ud800"
    assert shown("ü 日本") == "ü 日本"
    assert len(shown("x" * 10**6)) < 500
