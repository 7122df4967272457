"""A memory that is open: what goes into it is in its file, and it answers as any other."""

import builtins
import copy
import os
import pickle
import sys
import threading
import warnings

import pytest
import torch

import carving
from carving import OSC, Memory, make
from carving.cli.extent import extent
from carving.errors import BadType, BadValue, Overfull
from carving.memory.opened import Opened
from carving.storage import journal, journaledfile, memoryfile

PAIRS = [((f"head {i}", "next"), f"value {i % 7}") for i in range(20)]


@pytest.fixture
def file(tmp_path):
    memory = Memory(OSC(24, 2))
    memory.store(PAIRS[:5])
    memory.save(tmp_path / "file")
    return tmp_path / "file"


def contents(file):
    return {name: (file.parent / name).read_bytes() for name in os.listdir(file.parent)}


def test_pairs_that_wait_for_a_question_do_not_read_the_whole_tensor_each(file, monkeypatch):
    calls, norm = [], OSC.squared_norm
    monkeypatch.setattr(OSC, "squared_norm", lambda self, memory: calls.append(1) or norm(self, memory))
    with warnings.catch_warnings(), carving.open(file) as memory:
        warnings.simplefilter("ignore", Overfull)
        for pair in PAIRS[5:12]:
            memory.store([pair])
        assert len(calls) <= 2
        assert memory.recall(*PAIRS[11][0]).value == PAIRS[11][1]
        whole = Memory(OSC(24, 2))
        whole.store(PAIRS[:12])
        assert memory._reader.energy == pytest.approx(whole._reader.energy, rel=1e-5)


def test_what_is_refused_changes_neither_memory_nor_file(file):
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        before, state = contents(file), memory._reader
        for bad, error in (
            ([(("x",), ())], BadType),
            ([(("x",), object())], BadType),
            ([(("x", ["y"]), "z")], BadType),
            ([PAIRS[6], ((), "z")], BadValue),
            ([], BadValue),
            (7, BadType),
        ):
            with pytest.raises(error):
                memory.store(bad)
        with pytest.raises(BadValue, match="weight"):
            memory.store(PAIRS[6:7], weight=float("nan"))
        with pytest.raises(BadValue, match="weight must be a finite number"):
            memory.store(PAIRS[6:7], weight=1e300)
        with pytest.raises(BadValue, match="too far apart"):
            memory.store(PAIRS[6:7], weight=2.0**53)
        for change in ("tensor", "counts"):
            with pytest.raises(BadValue, match=r"only by store..\, forget.. and replace"):
                setattr(memory, change, getattr(memory, change).clone())
        with pytest.raises(BadValue, match="cannot be consolidated"):
            memory.consolidate(PAIRS[:6])
        assert contents(file) == before and memory._reader is state
        assert memory.forget([(("never",), "value 1")]) == [(("never",), "value 1")]
        assert contents(file) == before and memory._reader is state


def test_a_path_that_the_scheme_has_no_context_for_is_refused_at_the_door(tmp_path):
    memory = Memory(make("TPR", d=12, depth=2))
    memory.store(PAIRS[:3])
    memory.save(tmp_path / "file")
    with carving.open(tmp_path / "file") as memory, pytest.raises(BadValue, match="must have 2 roles"):
        memory.store([*PAIRS[3:5], (("a", "b", "c"), "x")])
    assert os.listdir(tmp_path) == ["file"]


def test_a_closed_memory_answers_and_takes_nothing(file):
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
    assert memory.recall("head 5", "next").value == "value 5"
    with pytest.raises(BadValue, match=r"is closed\. Open it again with carving\.open\(file\)"):
        memory.store(PAIRS[6:7])


def test_what_is_made_of_an_open_memory_has_no_file(file):
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        for made in (
            copy.copy(memory), copy.deepcopy(memory), pickle.loads(pickle.dumps(memory)), memory.to(), memory + memory,
            Memory.like(memory),
        ):  # fmt: skip
            assert type(made) is Memory
            made.store(PAIRS[6:7])
            assert memory.pairs == 6
        memory.save(file.with_name("copy"))
    assert Memory.load(file.with_name("copy")).pairs == 6 and Memory.load(file).pairs == 6
    with pytest.raises(FileNotFoundError):
        carving.open(file.with_name("nothing"))


def test_an_open_memory_tells_that_it_gets_too_full(tmp_path):
    few = [((f"head {i}", "next"), f"value {i}") for i in range(400)]
    memory = Memory(OSC(32, 2))
    memory.store(few[:20])
    memory.save(tmp_path / "file")
    with carving.open(tmp_path / "file") as memory:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Overfull)
            before = contents(tmp_path / "file")
            with pytest.raises(Overfull):
                memory.store(few[20:])
            assert contents(tmp_path / "file") == before and memory.pairs == 20 and not memory.is_overfull
        with pytest.warns(Overfull) as told:
            memory.store(few[20:])
        assert told[0].filename == __file__
        assert memory.pairs == 400 and memory.is_overfull and memory.predicted_accuracy() < 0.9


def test_an_open_memory_tells_that_one_pair_fills_it(tmp_path):
    few = [((f"head {i}", "next"), f"value {i}") for i in range(50)]
    memory = Memory(OSC(32, 2))
    memory.store(few)
    memory.save(tmp_path / "file")
    with carving.open(tmp_path / "file") as memory:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(40):
                memory.store(few[:1])
        assert Overfull in {each.category for each in told}
        assert memory.is_overfull and memory.pairs == 90


def test_much_at_once_and_heavy_weights_are_written_with_the_file(file, monkeypatch):
    monkeypatch.setattr(journaledfile, "MAX_WORK", 4 * 24**2)
    with carving.open(file) as memory:
        assert memory.store(iter(PAIRS[5:12])) == 7 and memory.changes == 0
        assert os.listdir(file.parent) == ["file"]
        memory.store(PAIRS[12:13])
        assert memory.changes == 1
        memory.forget(PAIRS[5:11])
        assert memory.changes == 0 and Memory.load(file).pairs == 7
        memory.store(PAIRS[13:14], weight=2e6)
        assert memory.changes == 0 and Memory.load(file).pairs == 2_000_007
    with carving.open(file) as memory, pytest.raises(BadValue, match=r"modified while store"):
        memory.store((("many", i), "x") for i in range(2100) if i != 2050 or memory.store([PAIRS[0]]))


def test_a_pair_with_a_very_long_label_is_written_with_the_file(file, monkeypatch):
    monkeypatch.setattr(journaledfile, "MAX_WORK", 4 * 24**2)
    with carving.open(file) as memory:
        memory.store([(("long",), "x" * 10**6)])
        assert memory.changes == 0
    assert Memory.load(file).pairs == 6 and os.listdir(file.parent) == ["file"]


def test_the_paths_of_an_open_memory_are_those_that_were_stored(tmp_path):
    memory, file = Memory(OSC(24, 2), keep_paths=True), tmp_path / "file"
    memory.store(PAIRS[:5])
    memory.save(file)
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        assert memory.keeps_paths and PAIRS[5][0] in memory and len(memory) == 6


def test_a_journal_that_would_take_long_to_replay_is_written_into_the_file(file, monkeypatch):
    monkeypatch.setattr(journaledfile, "MAX_WORK", 4 * 24**2)
    with carving.open(file) as memory:
        changes = [memory.store([pair]) and memory.changes for pair in PAIRS[5:]]
    assert max(changes) <= 4 and changes.count(0) >= 3
    assert Memory.load(file).verify(PAIRS)


@pytest.mark.parametrize("limit", ["MIN_LONG", "MAX_LONG"])
def test_a_journal_is_written_into_the_file_when_it_is_longer_than_a_part_of_it(tmp_path, monkeypatch, limit):
    memory, file = Memory(OSC(40, 2)), tmp_path / "file"
    memory.store(PAIRS[:5])
    memory.save(file)
    monkeypatch.setattr(journaledfile, "MIN_LONG", 0)
    monkeypatch.setattr(journaledfile, limit, 900)
    with carving.open(file) as memory:
        for number in range(40):
            longest = 900 if limit == "MAX_LONG" else file.stat().st_size // 4
            before = journal.read(file).size if memory.changes else 0
            memory.store([(("many", number), "value 1")])
            if memory.changes:
                assert journal.read(file).size <= longest
            else:
                assert before <= longest < before + 200
    assert Memory.load(file).pairs == 45


def test_storing_a_pair_opens_three_files(file, monkeypatch):
    """The lock, the base and the journal."""
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
        memory.store(PAIRS[6:7])
        opened = []
        for module in (builtins, os):
            usual = module.open
            monkeypatch.setattr(
                module, "open", lambda path, *how, usual=usual, **more: opened.append(path) or usual(path, *how, **more)
            )
        memory.store(PAIRS[7:8])
        monkeypatch.undo()
    assert sorted(str(path) for path in opened if not str(path).endswith(".lock")) == [f"{file}", f"{file}.journal"]
    assert Memory.load(file).pairs == 8


def test_trained_fillers_are_looked_at_at_once(tmp_path):
    scheme = make("HLB", d=64)
    Memory(scheme, ["huge"], torch.full((1, 64), 2e38)).save(tmp_path / "file")
    with carving.open(tmp_path / "file") as memory:
        memory.store([(("a",), "usual")])
        before = contents(tmp_path / "file")
        with pytest.raises(BadValue, match="must be finite"):
            memory.store([(("b",), "huge")] * 9)
        assert contents(tmp_path / "file") == before and memory.pairs == 1
        assert torch.equal(Memory.load(tmp_path / "file").tensor, memory.tensor)


def test_threads_share_an_open_memory(file):
    roomy = Memory(OSC(60, 2))
    roomy.store(PAIRS[:5])
    roomy.save(file)
    done, failed = threading.Event(), []

    def guarded(work):
        def run():
            try:
                work()
            except BaseException as error:
                failed.append(error)

        return threading.Thread(target=run)

    def read():
        while not done.is_set():
            assert memory.recall("head 1", "next").value == "value 1"
            assert memory.verify(PAIRS[:3])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with carving.open(file) as memory:
            writers = [
                guarded(lambda t=t: [memory.store([((f"thread {t}", i), f"value {i}")]) for i in range(20)])
                for t in range(3)
            ]
            reader = guarded(read)
            for thread in (reader, *writers):
                thread.start()
            for thread in writers:
                thread.join()
            done.set()
            reader.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and memory.pairs == memory.counts.sum() == 65
    assert Memory.load(file).pairs == 65 and isinstance(memory, Opened)


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line of our own code, as Ctrl-C may at any."""

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _):
        if "/carving/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that were just opened
def test_an_interrupt_at_any_line_values_memory_and_file_whole(file):
    """What is in the file then is the old state or the new one, and the memory finds out which."""
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6])
    start, tracing, at, seen = contents(file), sys.gettrace(), 0, set()
    while True:
        at += 13
        for name, data in start.items():
            (file.parent / name).write_bytes(data)
        memory = carving.open(file)
        try:
            sys.settrace(Interrupter(at))
            memory.store([(("new",), "value")])
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(tracing)
        held = Memory.load(file)
        seen.add(held.pairs)
        assert memory.pairs in (6, held.pairs) and held.pairs in (6, 7), at
        memory.store([(("next",), "value")])
        assert memory.pairs == held.pairs + 1 == Memory.load(file).pairs
    assert seen == {6, 7} and at > 300


def test_the_extent_of_a_file_is_told_without_its_tensor(file):
    with carving.open(file) as memory:
        for change in (
            lambda: memory.store([(("a",), "value 1"), (("a",), "new")]),
            lambda: memory.forget([PAIRS[0], (("never",), "what")], force=True),
            lambda: memory.store([(("b",), "s4:value")], weight=0.5),
            lambda: memory.store([(("b",), f"many {i}") for i in range(30)] + PAIRS[:20], weight=2),
            lambda: memory.store([(("b",), "value 1")], weight=-5),
            lambda: memory.store([(("b",), "less than none")], weight=-1),
        ):
            change()
            told = extent(memoryfile.outline(file), journal.read(file).records)
            assert told[:2] == (memory.pairs, len(memory.vocabulary))
        memory.compact()
        assert extent(memoryfile.outline(file), ())[:2] == (memory.pairs, len(memory.vocabulary))


def test_a_new_value_is_added_to_the_others_and_not_they_to_it(file):
    with carving.open(file) as memory:
        memory.store([(("first",), "new")])
        shared, before = memory.vocabulary._shared, memory.vocabulary
        for number in range(50):
            memory.store([(("many", number), f"new {number}")])
            if number % 20 == 7:
                assert memory.recall("many", number, prior_empty=0).value in memory.vocabulary  # which it looks through
        assert memory.vocabulary._shared is shared and len(memory.vocabulary) == len(before) + 50


@pytest.mark.slow
def test_ten_thousand_stores_in_a_row_are_all_there(file):
    with carving.open(file) as memory:
        for number in range(10_000):
            memory.store([(("one by one", number), f"value {number}")])
    held = Memory.load(file)
    assert held.pairs == 10_005 and len(held.vocabulary) == 10_000


# Files in few bits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("scheme", [OSC(24, 2), make("FHRR", d=200)], ids=["OSC", "FHRR"])
def test_a_file_keeps_its_precision_when_it_is_written_anew(scheme, dtype, tmp_path):
    memory, file = Memory(scheme), tmp_path / "file"
    memory.store(PAIRS[:5])
    memory.save(file, dtype)
    with carving.open(file) as memory:
        memory.store(PAIRS[5:7])
        before = memory.tensor
        assert memory.compact() == 1
        assert memoryfile.precision(file, memory.tensor) == dtype
        assert torch.equal(memory.tensor, Memory.load(file).tensor)  # as others see it
        assert torch.allclose(memory.tensor, before, rtol=2**-8, atol=2**-20)  # half a unit of bfloat16 is 2^-9
        assert memory.recall(*PAIRS[6][0]).value == PAIRS[6][1]


@pytest.mark.parametrize("weight", [999_999, 30_000], ids=["too large", "too large beside the others"])
def test_what_is_too_large_for_a_files_precision_is_written_in_the_memorys_own(tmp_path, weight):
    memory, file = Memory(OSC(24, 2)), tmp_path / "file"
    memory.store(PAIRS[:5])
    memory.save(file, torch.float16)
    with carving.open(file) as memory:
        memory.store(PAIRS[5:6], weight=weight)
        memory.compact()
        assert memoryfile.precision(file, memory.tensor) == torch.float32
    assert torch.equal(memory.tensor, Memory.load(file).tensor)
