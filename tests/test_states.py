"""A memory changes whole or not at all: whatever interrupts it, and whoever reads or stores meanwhile."""

import copy
import pickle
import sys
import threading

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, make

PAIRS = [((f"head {i}", "next"), f"value {i % 40}") for i in range(60)]


def copied(memory):
    return memory.tensor.clone(), list(memory.vocabulary), memory.counts.clone()


def same(one, other):
    return torch.equal(one[0], other[0]) and one[1] == other[1] and torch.equal(one[2], other[2])


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


@pytest.mark.parametrize("verb", ["store", "forget"])
def test_an_interrupt_at_any_line_leaves_the_old_or_the_new_memory(verb):
    more = [(("more", i), f"new {i}") for i in range(3)]
    start = Memory(OSC(16, 2))
    start.store(PAIRS[:6] + (more if verb == "forget" else []))
    start.recall("head 1", "next")
    before = copied(start)
    done = copy.copy(start)
    getattr(done, verb)(more)
    after, at, interrupted = copied(done), 0, 0
    tracing = sys.gettrace()
    while True:
        at += 1 if at < 400 else 7
        memory = copy.copy(start)
        try:
            sys.settrace(Interrupter(at))
            getattr(memory, verb)(more)
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        finally:
            sys.settrace(tracing)
        assert same(copied(memory), before) or same(copied(memory), after), at
        if at % 20 == 0:  # and it goes on
            assert memory.recall("head 1", "next").value == "value 1"
            memory.store({"still": "there"})
            assert memory.recall("still").value == "there"
    assert interrupted > 100 and same(copied(memory), after)


def run(*targets):
    """Run functions in threads of their own; what one raises is raised here."""
    failed = []

    def guarded(target):
        try:
            target()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if failed:
        raise failed[0]


def test_threads_that_store_lose_nothing():
    memory, expected = Memory(OSC(24, 2)), Memory(OSC(24, 2))
    parts = [[((f"thread {t}", i), f"value {t} {i % 30}") for i in range(80)] for t in range(4)]
    run(*(lambda part=part: [memory.store([pair]) for pair in part] for part in parts))
    for part in parts:
        expected.store(part)
    assert memory.pairs == 320 and memory.counts.sum() == 320
    assert_close(memory.tensor, expected.tensor, rtol=0, atol=1e-4)
    assert sorted(memory.vocabulary) == sorted(expected.vocabulary)


@pytest.mark.parametrize("scheme", [OSC(60, 3), OSC(60, 3, compact=True), make("HLB", d=2048), make("MAP-B", d=2048)])
def test_readers_see_whole_states_while_others_store(scheme):
    memory = Memory(scheme)
    memory.store(PAIRS[:10])
    done = threading.Event()

    def write():
        try:
            for i in range(60):
                memory.store([((f"new {i}", "next"), f"new {i}")])
                if i % 3 == 2 and scheme.facts.linear:
                    memory.forget([((f"new {i - 1}", "next"), f"new {i - 1}")])
        finally:
            done.set()

    def read():
        paths, values = [path for path, _ in PAIRS[:10]], [value for _, value in PAIRS[:10]]
        while not done.is_set():
            assert [answer.value for answer in memory.recall_many(paths)] == values
            assert memory.recall(*paths[3]).value == values[3]
            assert memory.recognize(*paths[1], value=values[1]).found
            if scheme.facts.linear:
                assert [[a.value for a in each] for each in memory.recall_sets(paths)] == [[value] for value in values]
            assert memory.verify(PAIRS[:10])
            held = memory._reader
            assert len(held.counts) == len(held.vocabulary) == len(held.vocabulary.names())

    run(write, read, read)


@pytest.mark.parametrize("scheme", [OSC(60, 3, compact=True), OSC(60, 2)])
def test_threads_that_ask_a_new_memory_first_agree(scheme):
    memory, paths = Memory(scheme), [path for path, _ in PAIRS]
    memory.store(PAIRS)
    expected, asked = [answer.value for answer in memory.to().recall_many(paths)], []
    run(*[lambda: asked.append([answer.value for answer in memory.recall_many(paths)])] * 4)
    assert asked == [expected] * 4


def test_a_memory_is_not_changed_by_what_it_stores():
    memory = Memory(OSC(20, 2))

    def pairs():
        yield ("a",), "x"
        memory.store({"b": "y"})

    with pytest.raises(ValueError, match="modified while store"):
        memory.store(pairs())
    assert memory.pairs == 1 and memory.recall("b").value == "y"


def test_copies_are_memories_of_their_own():
    memory = Memory(OSC(20, 2))
    memory.store({"a": "x"})
    for again in (copy.copy(memory), copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        again.store({"b": "y"})
        assert memory.pairs == 1 and list(memory.vocabulary) == ["x"] and again.recall("b").value == "y"
