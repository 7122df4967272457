"""Journals: changes beside a file are whole or not there; cut, torn, stale and damaged ones are told apart."""

import errno
import io
import os
import random
import shutil
import sys
import threading
from hashlib import blake2b

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import carving
from carving import OSC, Memory, make
from carving.errors import BadValue
from carving.memory import backends
from carving.storage import atomic, journal, journaledfile, locks, memoryfile, tensorfile
from carving.storage.journal import Entry, Journal, JournalRecord
from carving.storage.tensorfile import BadFile
from carving.symbols.codec import canonical, canonical_path

PAIRS = [((f"head {i}", "next"), f"value {i % 7}") for i in range(20)]


def stored(pairs, scheme=None):
    memory = Memory(scheme or OSC(24, 2))
    memory.store(pairs)
    return memory


def same(one, other, exact=False):
    """Whether two memories hold the same, but for the last digits, which depend on what was added at once."""
    tolerance = dict(rtol=0, atol=0 if exact else 1e-4)
    assert list(one.vocabulary) == list(other.vocabulary)
    assert_close(one.counts, other.counts, rtol=0, atol=1e-9)
    assert_close(one.tensor, other.tensor, **tolerance)
    return True


def name_of(file):
    """The random name with which every record of a file's journal begins."""
    return journal.journal_path(file).read_bytes()[20:36]


def starts_of(data):
    """Where the records of a journal begin."""
    return [at for at in range(84, len(data)) if data.startswith(data[20:36], at)]


@pytest.fixture
def file(tmp_path):
    stored(PAIRS[:5]).save(tmp_path / "file")
    return tmp_path / "file"


@pytest.fixture
def changed(file):
    """A file with four changes in its journal, and what it held after each."""
    plain, states = Memory.load(file), [Memory.load(file)]
    with carving.open(file) as memory:
        for number in range(4):
            pairs = PAIRS[5 + 2 * number : 7 + 2 * number]
            for each in (memory, plain):
                each.forget([pairs[0]], force=True) if number == 2 else each.store(pairs)
            states.append(plain.to())
    return file, states


# What a record says

roles = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.just(()))
)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.just([]))
pairs_of = st.tuples(st.lists(roles, min_size=1, max_size=4).map(tuple), values)


@given(st.lists(st.tuples(pairs_of, st.floats(-1e6, 1e6), st.booleans()), max_size=5))
def test_a_record_says_what_was_written(given):
    entries = [Entry(canonical_path(path), canonical(value), *rest) for (path, value), *rest in given]
    empty = Journal.new("ab" * 32)
    head, data = empty.head, empty.pack(JournalRecord.of(entries))
    read = journal.parse(head + data)
    assert read.base == "ab" * 32 and read.count == 1 and read.end == read.size == len(head) + len(data)
    (record,) = read.records
    assert list(record.entries()) == entries
    assert [Entry(canonical_path(path), canonical(value), *rest) for path, value, *rest in record.decoded()] == entries


# What a file and its journal hold


@pytest.mark.parametrize(
    "scheme",
    [OSC(24, 2), OSC(24, 2, compact=True), make("TPR", d=12, depth=2), make("HLB", d=256), make("MAP-B", d=256),
     make("FHRR", d=256), make("CGR", d=64), OSC(16, 2, dtype=torch.float64)],
)  # fmt: skip
def test_a_file_with_a_journal_holds_what_a_memory_in_one_piece_does(scheme, tmp_path):
    plain = stored(PAIRS[:5], scheme)
    plain.save(tmp_path / "file")
    with carving.open(tmp_path / "file") as memory:
        for each in (memory, plain):
            each.store(PAIRS[5:8])
            each.store([(("x", "y"), "new")], weight=0.5)
            each.forget(PAIRS[6:7])
            each.forget([(("never", "stored"), "value 1")], force=True)
        same(memory, plain)
        assert memory.recall("head 7", "next").value == plain.recall("head 7", "next").value
    base = (tmp_path / "file").read_bytes()
    same(Memory.load(tmp_path / "file"), plain)
    assert (tmp_path / "file").read_bytes() == base  # all of it lies in the journal
    with carving.open(tmp_path / "file") as memory:
        same(memory, plain)
        assert memory.compact() == 4 and memory.compact() == 0
    assert os.listdir(tmp_path) == ["file"]
    same(Memory.load(tmp_path / "file"), plain)


some = st.lists(st.sampled_from(PAIRS), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("store"), some, st.sampled_from([1, 2, 0.5])),
        st.tuples(st.just("forget"), some, st.booleans()),
        st.tuples(st.sampled_from(["reopen", "compact", "ask", "save", "tear", "refresh"])),
    ),
    max_size=12,
)


@settings(max_examples=40)
@given(steps)
def test_a_file_is_a_memory_whatever_is_done_to_it(tmp_path_factory, steps):
    file = tmp_path_factory.mktemp("steps") / "file"
    plain = stored(PAIRS[:3], OSC(32, 2))
    plain.save(file)
    memory = carving.open(file)
    for verb, *how in steps:
        if verb == "store":
            memory.store(how[0], weight=how[1]), plain.store(how[0], weight=how[1])
        elif verb == "forget":
            assert memory.forget(how[0], force=how[1]) == plain.forget(how[0], force=how[1])
        elif verb == "reopen":
            memory.close()
            memory = carving.open(file)
        elif verb == "compact":
            memory.compact()
        elif verb == "ask":
            assert memory.recall("head 1", "next").value == plain.recall("head 1", "next").value
        elif verb == "save":
            plain.save(file)
        elif verb == "tear" and journal.journal_path(file).exists():
            with open(journal.journal_path(file), "ab") as torn:
                torn.write(name_of(file) + b"torn in the middle of a record")
        elif verb == "refresh":
            memory.refresh()
        same(Memory.load(file), plain)
    shutil.rmtree(file.parent)


def test_questions_see_changes_at_once_and_changes_in_one_batch(file, monkeypatch):
    times = []
    plain = backends.bind_records
    monkeypatch.setattr(
        backends, "bind_records", lambda state, records: times.append(len(records)) or plain(state, records)
    )
    with carving.open(file) as memory:
        for pair in PAIRS[5:]:
            memory.store([pair])
            assert memory.pairs == len(PAIRS[: PAIRS.index(pair) + 1]) and memory.changes == memory.pairs - 5
        assert not times and len(memory.vocabulary) == 7 and memory.target is None
        assert memory.recall("head 19", "next").value == "value 5"
        assert memory.verify(PAIRS)
        assert times == [15]


# Cuts, tears, damage


def states_of(file, states):
    """Which of the states a file holds; None if it is refused in a sentence."""
    try:
        held = Memory.load(file)
    except BadFile as refused:
        told = str(refused)
    else:
        told = None
    if told is not None:
        assert "journal" in told and "corrupt" in told
        return None
    for number, state in enumerate(states):
        if len(held.counts) == len(state.counts) and torch.allclose(held.tensor, state.tensor, atol=1e-4):
            assert_close(held.counts, state.counts)
            return number
    raise AssertionError("a state that never was")


def test_a_journal_cut_anywhere_holds_its_first_changes_or_is_refused(changed):
    file, states = changed
    place = journal.journal_path(file)
    data, found = place.read_bytes(), []
    for length in range(len(data) + 1):
        place.write_bytes(data[:length])
        found.append(states_of(file, states))
    assert found[: journal.HEAD.size] == [None] * journal.HEAD.size
    kept = found[journal.HEAD.size :]
    assert kept == sorted(kept) and set(kept) == {0, 1, 2, 3, 4} and kept[-2:] == [3, 4]


def test_a_flipped_bit_is_told_unless_it_may_be_a_tear(changed):
    file, states = changed
    place, chance = journal.journal_path(file), random.Random(0)
    data = place.read_bytes()
    last = starts_of(data)[-1]
    for at in range(len(data)):
        place.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        assert states_of(file, states) == (None if at < last else 3), at


def test_records_that_are_missing_doubled_or_of_another_journal_are_told(changed):
    file, states = changed
    place = journal.journal_path(file)
    data = place.read_bytes()
    starts = starts_of(data)
    parts = [data[: starts[0]], *(data[one:other] for one, other in zip(starts, [*starts[1:], len(data)], strict=True))]
    other = Journal.new(Memory.load(file) and memoryfile.outline(file).checksum).head
    for wrong in (
        [0, 1, 3, 4], [0, 2, 3, 4], [0, 1, 1, 2, 3, 4], [0, 2, 1, 3, 4], [0, 4], [0, 1, 2, 3, 4, 1],
    ):  # fmt: skip
        place.write_bytes(b"".join(parts[number] for number in wrong))
        assert states_of(file, states) is None, wrong
    place.write_bytes(other + b"".join(parts[1:]))  # nobody's records: they are not even torn
    assert states_of(file, states) == 0
    place.write_bytes(b"\0" * 300)
    assert states_of(file, states) is None


def test_names_without_end_are_looked_at_in_time(file):
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
    with open(journal.journal_path(file), "ab") as hostile:
        hostile.write(name_of(file) * 2**17)
    assert Memory.load(file).pairs == 6


@pytest.mark.parametrize("cut", [1, 2000, 5000])
def test_a_torn_change_may_hold_any_labels(file, cut):
    """Labels that look like the beginning of a record, a thousand times, or are all that the journal holds so far."""
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        records_so_far = journal.journal_path(file).read_bytes()[84:]
        memory.store([(("hostile", "\u016bR\n" * 3000), records_so_far)])
    os.truncate(journal.journal_path(file), os.path.getsize(journal.journal_path(file)) - cut)
    same(Memory.load(file), stored(PAIRS[:6]))


def test_a_torn_change_is_cut_off_by_the_next(changed):
    file, states = changed
    place = journal.journal_path(file)
    data = place.read_bytes()
    place.write_bytes(data[:-3])
    with carving.open(file) as memory:
        assert memory.changes == 3
        memory.store(PAIRS[18:])
    expected = states[3]
    expected.store(PAIRS[18:])
    same(Memory.load(file), expected)
    assert journal.read(file).torn == 0


@given(st.binary(max_size=300), st.integers(0, 2**32))
def test_a_journal_of_any_bytes_is_one_or_is_not_whole(noise, seed):
    chance, head = random.Random(seed), Journal.new("00" * 32).head
    whole = head + b"".join(
        Journal(head, count=i).pack(JournalRecord.of([Entry(canonical_path(("a", i)), canonical("x"))]))
        for i in range(3)
    )
    at = chance.randrange(len(whole))
    data = whole[:at] + noise + whole[at + chance.randrange(40) :]
    try:
        found = journal.parse(data)
    except tensorfile.NotWhole:
        return
    decoded = [record.decoded() for record in found.records]
    assert decoded == [[(("a", i), "x", 1.0, True)] for i in range(len(decoded))]


# Journals of another base


def test_a_journal_of_another_base_is_ignored_and_replaced(changed):
    file, _ = changed
    stale = journal.journal_path(file).read_bytes()
    other = stored(PAIRS[:2])
    other.save(file)
    assert not journal.journal_path(file).exists()
    journal.journal_path(file).write_bytes(stale)
    same(Memory.load(file), other, exact=True)
    with carving.open(file) as memory:
        assert memory.changes == 0
        memory.store(PAIRS[2:4])
    other.store(PAIRS[2:4])
    same(Memory.load(file), other)


def test_a_memory_saved_in_its_own_place_has_no_journal(changed):
    """Though its checksum is the one that the journal names."""
    file, states = changed
    states[0].save(file)
    same(Memory.load(file), states[0], exact=True)
    assert not journal.journal_path(file).exists()


def test_a_stale_journal_goes_before_the_base_that_it_names_comes_back(changed, monkeypatch):
    file, states = changed
    stale = journal.journal_path(file).read_bytes()
    stored(PAIRS[:2]).save(file)
    journal.journal_path(file).write_bytes(stale)
    held = []
    plain = memoryfile.replace_tensors
    monkeypatch.setattr(memoryfile, "replace_tensors", lambda *how: (plain(*how), held.append(Memory.load(file)))[0])
    states[0].save(file)
    same(held[0], states[0], exact=True)


def test_what_is_no_journal_and_what_is_nobodys_is_kept(changed, tmp_path):
    file, states = changed
    file.rename(tmp_path / "moved")
    with pytest.raises(BadValue, match=r"holds 4 changes of a memory file that no longer exists. Restore that file"):
        stored(PAIRS[:1]).save(file)
    assert not file.exists()
    journal.journal_path(file).rename(journal.journal_path(tmp_path / "moved"))
    same(Memory.load(tmp_path / "moved"), states[4])  # they go together
    stored(PAIRS[:1]).save(file)
    journal.journal_path(file).write_text("Dear diary")
    with pytest.raises(BadFile, match="not a journal of Carving, or its header is corrupt"):
        Memory.load(file)
    with pytest.raises(BadValue, match="not a journal of Carving, but the memory's journal must have this name"):
        stored(PAIRS[:2]).save(file)
    assert journal.journal_path(file).read_text() == "Dear diary"
    stored(PAIRS[:2]).save(file, force=True)
    assert not journal.journal_path(file).exists() and Memory.load(file).pairs == 2
    journal.journal_path(file).mkdir()
    with pytest.raises(BadFile, match="is not a regular file"):
        Memory.load(file)
    journal.journal_path(file).rmdir()
    journal.journal_path(file).symlink_to(journal.journal_path(file).name)
    with pytest.raises(OSError, match="symbolic links") as told:
        Memory.load(file)
    assert told.value.errno == errno.ELOOP


def test_a_journal_of_another_version_is_refused(changed):
    file, _ = changed
    data = journal.journal_path(file).read_bytes()
    later = data[:16] + (99).to_bytes(4, "little") + data[20:68]
    journal.journal_path(file).write_bytes(later + blake2b(later, digest_size=16).digest() + data[84:])
    with pytest.raises(
        BadFile, match=r"has format version 99, and this version of Carving reads 3.*compact that memory"
    ):
        Memory.load(file)


def test_links_and_names_that_are_long(tmp_path):
    stored(PAIRS[:5]).save(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "file")
    with carving.open(tmp_path / "folder" / "link") as memory:
        memory.store(PAIRS[5:6])
    assert sorted(os.listdir(tmp_path)) == ["file", "file.journal", "folder"]
    assert Memory.load(tmp_path / "file").pairs == 6
    long = tmp_path / ("n" * 255)
    stored(PAIRS[:5]).save(long)
    assert Memory.load(long).pairs == 5
    with carving.open(long) as memory, pytest.raises(BadValue, match="the name of the journal, is too long"):
        memory.store(PAIRS[5:6])


def test_a_journal_has_the_permissions_of_its_file(file):
    file.chmod(0o640)
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
    assert journal.journal_path(file).stat().st_mode & 0o777 == 0o640
    file.chmod(0o440)
    with pytest.raises(PermissionError, match="read-only"):
        carving.open(file)


# Disks


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_disk_that_fails_leaves_the_old_state(changed, monkeypatch, number, call):
    file, states = changed
    flush, flushed = os.fsync, []

    def failing(place, *given):
        if call == "write":
            place.write(given[0][: len(given[0]) // 2])
        flushed.append(place)
        if call == "fsync" and len(flushed) % 2 == 0:  # once a change
            return flush(place)
        raise OSError(number, os.strerror(number))

    with carving.open(file) as memory:
        memory.store(PAIRS[13:14])
        states[4].store(PAIRS[13:14])
        data, before = journal.journal_path(file).read_bytes(), memory.tensor.clone()
        with monkeypatch.context() as patched:
            patched.setattr(*((journal, "_write_all") if call == "write" else (os, "fsync")), failing)
            with pytest.raises(OSError, match=r"file.journal could not be written .* Nothing was changed") as failed:
                memory.store([(("x",), "lost")])
            assert failed.value.errno == number
            with pytest.raises(OSError, match="Nothing was changed"):
                memory.forget([PAIRS[0]])
        assert journal.journal_path(file).read_bytes() == data
        assert torch.equal(memory.tensor, before) and "lost" not in memory.vocabulary
        same(Memory.load(file), states[4])
        memory.store(PAIRS[18:])
    states[4].store(PAIRS[18:])
    same(Memory.load(file), states[4])


def broken(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def doubtful(changed, monkeypatch):
    """An open memory with a change that could neither be flushed nor be cut off again."""
    file, states = changed
    memory = carving.open(file)
    memory.store(PAIRS[13:14])
    states[4].store(PAIRS[13:14])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        patched.setattr(journal, "open", lambda *given, **how: Uncut(*given), raising=False)
        with pytest.raises(OSError, match=r"file.journal could not be written .* it may be stored"):
            memory.store(PAIRS[18:])
    assert memory.pairs == states[4].pairs and Memory.load(file).pairs == states[4].pairs + 2  # for everybody else
    return file, memory, states[4]


class Uncut(io.FileIO):
    """A file that cannot be made shorter."""

    def truncate(self, size=None):
        broken()


@pytest.mark.parametrize("act", ["store", "forget", "compact", "refresh"])
def test_a_change_in_doubt_is_taken_back_by_the_next_or_kept(doubtful, act):
    file, memory, expected = doubtful
    if act == "store":  # again what failed: it is stored once
        memory.store(PAIRS[18:])
        expected.store(PAIRS[18:])
    elif act == "forget":
        assert memory.forget(PAIRS[18:]) and not memory.forget(PAIRS[13:14])
        expected.forget(PAIRS[13:14])
    elif act == "compact":
        memory.compact()
    else:
        memory.refresh()
        expected.store(PAIRS[18:])
    same(memory, expected)
    same(Memory.load(file), expected)
    memory.store(PAIRS[15:16])
    expected.store(PAIRS[15:16])
    same(Memory.load(file), expected)


@pytest.mark.parametrize("compacts", [False, True])
def test_a_change_in_doubt_that_others_built_on_stays_and_that_is_said_once(doubtful, compacts):
    file, memory, expected = doubtful
    with carving.open(file) as other:
        other.store(PAIRS[15:16])
        if compacts:
            other.compact()
    with pytest.raises(BadValue, match="may be stored. This call changed" if compacts else "is stored. This call"):
        memory.store(PAIRS[16:17])
    memory.store(PAIRS[16:17])
    expected.store([*PAIRS[18:], *PAIRS[15:17]])
    same(Memory.load(file), expected)


def test_a_change_in_doubt_is_not_confused_with_anothers_that_says_the_same(doubtful):
    file, memory, expected = doubtful
    with carving.open(file) as other:
        os.truncate(
            file.with_name("file.journal"),
            other._backend.now.version.journal.end - len(other._backend.now.version.journal.others),
        )
        other.store(PAIRS[18:])
    memory.store(PAIRS[15:16])
    expected.store([*PAIRS[18:], *PAIRS[15:16]])
    same(Memory.load(file), expected)


def test_who_appends_to_a_journal_of_another_flushes_its_name_once(file, monkeypatch):
    carving.open(file).store(PAIRS[5:6])
    flushed, flush = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda place: (flushed.append(os.readlink(f"/proc/self/fd/{place}")), flush(place))
    )
    with carving.open(file) as memory:
        memory.store(PAIRS[6:7])
        assert flushed[0] == str(file.parent)
        memory.store(PAIRS[7:8])
        assert flushed.count(str(file.parent)) == 1


def test_a_name_that_could_not_be_flushed_is_told_with_every_change_until_it_is(file, monkeypatch):
    flush = os.fsync
    folder = lambda place: broken() if os.path.isdir(f"/proc/self/fd/{place}") else flush(place)  # noqa: E731
    with carving.open(file) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", folder)
            for pair in PAIRS[5:8]:
                with pytest.warns(atomic.NotFlushed):
                    memory.store([pair])
        memory.store(PAIRS[8:9])
    assert Memory.load(file).pairs == 9


def store_all(memory, pairs):
    for pair in pairs:
        memory.store([pair])


def test_a_file_that_cannot_be_written_anew_goes_on_in_its_journal(file, monkeypatch):
    monkeypatch.setattr(journaledfile, "MAX_WORK", 5 * 24**2)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    with carving.open(file) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(memoryfile, "replace_tensors", full)
            with pytest.warns(atomic.NotFlushed, match=r"could not be compacted .*Its changes stay in the journal"):
                store_all(memory, PAIRS[5:15])
        assert memory.changes == 10 and Memory.load(file).pairs == 15
        store_all(memory, PAIRS[15:])
        assert memory.changes < 10 and memory.verify(PAIRS)
    assert Memory.load(file).pairs == 20


ACTS = {
    "begin": lambda file: append(file, PAIRS[5:7]),
    "append": lambda file: append(file, PAIRS[5:7]),
    "cut and append": lambda file: append(file, PAIRS[5:7]),
    "forget": lambda file: carving.open(file).forget(PAIRS[:1]),
    "replace a stale one": lambda file: append(file, PAIRS[5:7]),
    "compact": lambda file: carving.open(file).compact(),
    "save another": lambda file: stored(PAIRS[:2]).save(file),
    "save the same": lambda file: stored(PAIRS[:5]).save(file),
    "save over a stale one": lambda file: stored(PAIRS[:5]).save(file),
}


def append(file, pairs):
    carving.open(file).store(pairs)


def prepare(file, act):
    stored(PAIRS[:5]).save(file)
    if act != "begin":
        append(file, PAIRS[7:9])
    data = journal.journal_path(file).read_bytes() if act != "begin" else b""
    if act == "cut and append":
        journal.journal_path(file).write_bytes(data + name_of(file) + bytes(100))
    if "stale" in act:
        stored(PAIRS[:4]).save(file)
        journal.journal_path(file).write_bytes(data)


def dying(at):
    """Let this process end at the so-manieth call that does something to files, as if it were killed."""
    left = at

    def counted(call):
        def run(*given, **named):
            nonlocal left
            left -= 1
            if not left:
                os._exit(9)
            return call(*given, **named)

        return run

    for name in ("replace", "unlink", "fsync", "open", "ftruncate", "chmod", "close", "write"):
        setattr(os, name, counted(getattr(os, name)))
    journal._write_all = counted(journal._write_all)
    plain = journal._write_all

    def halved(file, data):
        file.write(data[: len(data) // 2])
        plain(file, data[len(data) // 2 :])

    journal._write_all = halved


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills are tried in children")
@pytest.mark.parametrize("act", ACTS)
def test_whatever_is_killed_leaves_the_old_or_the_new_state(tmp_path, act):
    """A process ends at every call in turn that does something to files."""
    file = tmp_path / "start" / "file"
    file.parent.mkdir()
    prepare(file, act)
    before = Memory.load(file)
    done = shutil.copytree(file.parent, tmp_path / "done") / "file"
    ACTS[act](done)
    after, seen = Memory.load(done), set()
    for at in range(1, 100):
        there = shutil.copytree(file.parent, tmp_path / f"try {at}") / "file"
        pid = os.fork()
        if not pid:
            try:
                dying(at)
                ACTS[act](there)
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        held = Memory.load(there)
        old, new = (len(held.counts) == len(each.counts) and torch.allclose(held.tensor, each.tensor, atol=1e-5)
                    and torch.equal(held.counts, each.counts) for each in (before, after))  # fmt: skip
        assert old or new, at
        seen.add(new)
        if not new:
            ACTS[act](there)
            same(Memory.load(there), after)
        elif act != "forget":
            append(there, PAIRS[10:11])  # nothing hinders the next
            assert Memory.load(there).pairs == after.pairs + 1
        if status != 9:
            break
    assert status == 0 and at > 4 and True in seen


# Several at once

WRITERS, TIMES = 3, 15


def child(work):
    """A process of its own that does this, and nothing else."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        torch.set_num_threads(1)
        work()
        status = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    finally:
        os._exit(status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked from one that has torch")
@pytest.mark.parametrize("compacts", [False, True], ids=["appending", "compacting"])
def test_processes_that_store_and_read_at_once_lose_nothing(file, compacts, monkeypatch):
    if compacts:
        monkeypatch.setattr(journaledfile, "MAX_WORK", 9 * 24**2)

    def write(who):
        with carving.open(file) as memory:
            for number in range(TIMES):
                memory.store([((f"writer {who}", number), f"value {number}")])

    def read():
        seen = 0
        while seen < 5 + WRITERS * TIMES:
            held = Memory.load(file)
            assert held.pairs >= seen and held.counts.sum() == held.pairs
            seen = held.pairs

    children = [child(lambda who=who: write(who)) for who in range(WRITERS)] + [child(read) for _ in range(2)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * len(children)
    expected = stored(PAIRS[:5] + [((f"writer {w}", n), f"value {n}") for w in range(WRITERS) for n in range(TIMES)])
    held = Memory.load(file)
    assert sorted(held.vocabulary) == sorted(expected.vocabulary)
    assert_close(held.tensor, expected.tensor, rtol=0, atol=1e-4)
    assert sorted(os.listdir(file.parent)) in (["file"], ["file", "file.journal"])


def test_what_others_change_is_seen_with_the_next_change(file):
    with carving.open(file) as one, carving.open(file) as other:
        one.store(PAIRS[5:6])
        other.store(PAIRS[6:7])
        assert other.pairs == 7 and one.pairs == 6
        one.refresh()
        assert one.pairs == 7 and one.recall("head 6", "next").value == "value 6"
        other.compact()
        one.store(PAIRS[7:8])
        assert one.pairs == 8 and one.changes == 1 and one.verify(PAIRS[:8])
        stored(PAIRS[:2]).save(file)
        one.store(PAIRS[2:3])
        other.refresh()
        assert one.pairs == other.pairs == 3
        file.unlink()
        with pytest.raises(FileNotFoundError):
            one.store(PAIRS[3:4])


def test_a_record_of_another_that_lies_is_told_as_damage(file):
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        lying = JournalRecord(b"s1:a", 1, bytes(16))
        now = memory._backend.now.version
        journal.append(file, now.base, now.journal, lying)
        for look in (memory.refresh, lambda: memory.store(PAIRS[6:7]), lambda: Memory.load(file)):
            with pytest.raises(BadFile, match=r"file.journal is corrupt \(a record has malformed pairs"):
                look()
        assert memory.pairs == 6 and memory.recall("head 5", "next").value == "value 5"


def given_up(writer, pairs, monkeypatch, meanwhile):
    """Let a change fail when all of it is written, but not flushed; the others do something in that moment."""

    def failing(_):
        patched.undo()
        meanwhile()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "fsync", failing)
        with pytest.raises(KeyboardInterrupt):
            writer.store(pairs)


NEVER = [(("never",), "made")]
LONGER = [(("never", i), "m") for i in range(4)]  # little noise to what is forgotten


@pytest.mark.parametrize("how", ["opened", "refreshed"])
@pytest.mark.parametrize("instead", [[], [(("never",), "male")], [(("never",), "m")], LONGER])
@pytest.mark.parametrize("act", ["refresh", "store", "forget", "compact"])
def test_a_change_that_its_writer_gave_up_is_not_believed(file, monkeypatch, how, instead, act):
    """Nothing stands in its place, or something of the same length, shorter, or longer."""
    with carving.open(file) as writer:
        writer.store(PAIRS[5:6])
        readers = [carving.open(file)] if how == "refreshed" else []
        look = readers[0].refresh if readers else lambda: readers.append(carving.open(file))
        given_up(writer, NEVER, monkeypatch, look)
        (reader,) = readers
        assert reader.pairs == 7 and reader.recall("never").value == "made"  # as it was for a moment
        if instead:
            writer.store(instead)
        expected = stored([*PAIRS[:6], *instead])
        for each in (reader, expected):
            if act == "store":
                each.store(PAIRS[6:7])
            elif act == "forget":
                assert not each.forget(PAIRS[5:6])
        if act in ("refresh", "compact"):
            getattr(reader, act)()
    same(reader, expected)
    same(Memory.load(file), expected)
    assert "made" not in reader.vocabulary


def test_a_writer_who_cannot_be_waited_for_does_not_append_to_what_was_given_up(file, monkeypatch):
    """Another user, who does not see our lock: what was seen is gone between looking and writing."""
    with carving.open(file) as writer:
        writer.store(PAIRS[5:6])
        other = []
        given_up(writer, NEVER, monkeypatch, lambda: other.append(carving.open(file)))
        writer.store([(("never",), "male")])
    now, record = other[0]._backend.now, JournalRecord.of([Entry(canonical_path(("x",)), canonical("y"))])
    assert os.stat(journal.journal_path(file)).st_size == now.version.journal.size
    data = journal.journal_path(file).read_bytes()
    with pytest.raises(journal.Changed):
        journal.append(file, now.version.base, now.version.journal, record)
    assert journal.journal_path(file).read_bytes() == data


@pytest.mark.parametrize("act", ["store", "compact"])
def test_a_change_that_another_user_made_just_before_ours_is_kept(file, monkeypatch, act):
    """Another user, who does not wait for our lock, changes the journal between looking and writing."""
    append, others = journal.append, [lambda memory: memory.store(PAIRS[7:8]) if act == "store" else memory.compact()]

    def appended(*given):
        if others:
            change = others.pop()
            with carving.open(file) as other:
                change(other)
        return append(*given)

    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        monkeypatch.setattr(journal, "append", appended)
        memory.store(PAIRS[6:7])
        assert not others
    assert Memory.load(file).verify(PAIRS[: 8 if act == "store" else 7])


@pytest.mark.parametrize("left", [-3, 0, 1, 2], ids=["torn", "no record", "one", "two"])
def test_a_journal_cut_behind_an_open_memory_is_read_anew(file, left):
    with carving.open(file) as memory:
        for pair in PAIRS[5:8]:
            memory.store([pair])
        data = journal.journal_path(file).read_bytes()
        starts = starts_of(data)
        os.truncate(journal.journal_path(file), len(data) + left if left < 0 else starts[left])
        memory.store(PAIRS[8:9])
        expected = stored([*PAIRS[: 5 + (2 if left < 0 else left)], PAIRS[8]])
        same(memory, expected)
    same(Memory.load(file), expected)


def test_refreshing_waits_for_nobody(file):
    with carving.open(file) as memory:
        with carving.open(file) as other:
            other.store(PAIRS[5:6])
        taken, done = threading.Event(), threading.Event()

        def hold():
            with locks.lock_for(file):
                taken.set()
                done.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        try:
            assert taken.wait(30)
            refresher = threading.Thread(target=memory.refresh)
            refresher.start()
            refresher.join(10)
            assert not refresher.is_alive() and memory.pairs == 6
        finally:
            done.set()
            holder.join()


def test_who_has_the_turn_may_write_and_save(file):
    with locks.lock_for(file):
        with carving.open(file) as memory:
            memory.store(PAIRS[5:6])
        held = Memory.load(file)
        held.save(file)
    assert Memory.load(file).pairs == 6


@pytest.mark.skipif(locks.fcntl is None, reason="this system locks by other means")
def test_without_locks_a_change_is_refused_in_a_sentence(file, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with carving.open(file) as memory:
        monkeypatch.setattr(locks.fcntl, "flock", missing)
        with pytest.raises(OSError, match="without locks"):
            memory.store(PAIRS[5:6])
        memory.refresh()  # which needs none
    assert not journal.journal_path(file).exists()
