"""A memory against a plain dictionary: whatever is done to both, in whatever order, they hold the same.

    PYTHONPATH=tests python -m campaign.stateful --steps 10000 --out stateful.json

Hypothesis chooses what is stored, forgotten, merged, grown, saved, loaded, and changed in a journal, by several
processes too, and what is refused; after every step the memory is asked for everything that the dictionary holds, and
in half of the programs for the paths that it keeps. What fails is shown as the shortest program that it could be
reduced to.
"""

import contextlib
import math
import os
import random
import shutil
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import ClassVar

import torch
from campaign import common
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import carving
from carving import OSC, Memory
from carving.errors import Overfull, UserError
from carving.memory.opened import Opened
from carving.storage import journal
from carving.storage.locks import lock_for
from carving.symbols.codec import canonical, canonical_path

MOST = 40  # pairs, of which the memory holds far more
COPIES = 3  # of a pair, at most
STEPS = 50  # of a program
SCHEME = OSC(48, 3)
ACCURACY = 0.99  # that a memory is planned for when it grows: half of the questions being for nothing,
MISSES = 2 * (1 - ACCURACY)  # so many of the others may be missed
PROFILE = settings(
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)

# Labels that look alike and are not: each is one of its own.
LABELS = ["x", "", "1", 1, 1.0, True, False, 0, None, "None", b"x", -1, 2**70, 0.5, "ü", "u\u0308", "\ud800"]


def name_of(pair: tuple) -> tuple[bytes, bytes]:
    """What tells a pair from others: its canonical bytes."""
    return canonical_path(pair[0]), canonical(pair[1])


roles = st.sampled_from(LABELS)
paths = st.lists(roles, min_size=1, max_size=3).map(tuple)
BAD = [(), {1}, float, [1], {"a": 1}, (("x",),), object()]  # values that are none
pairs = st.lists(st.tuples(paths, st.sampled_from([*LABELS, {}, []])), min_size=1, max_size=5, unique_by=name_of)

Held = Counter[tuple[bytes, bytes]]  # how often each pair is there, by canonical bytes


def named(given: list) -> Held:
    """How often each pair is given."""
    return Counter(map(name_of, given))


class AgainstADictionary(RuleBasedStateMachine):
    """Two memories, what each should hold, a file with its journal, and a program that has the file open."""

    done = 0  # steps of all programs
    grown: ClassVar[Counter[str]] = Counter()  # values that were asked for in memories that had grown, and not found
    bound: ClassVar[dict[tuple[bytes, bytes], torch.Tensor]] = {}  # pairs bound alone, of all programs

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "memory"
        self.memories = [Memory(SCHEME), Memory(SCHEME)]
        self.held: list[Held] = [Counter(), Counter()]
        self.saved: Held | None = None
        self.opened: Opened | None = None
        self.given: dict[tuple[bytes, bytes], tuple] = {}  # every pair that was ever given, by its canonical bytes
        self.asked: list[tuple[torch.Tensor, Held] | None] = [None, None]  # what was there when each was asked last

    @initialize(keep_paths=st.booleans())
    def begin(self, keep_paths: bool) -> None:
        self.memories = [Memory(SCHEME, keep_paths=keep_paths) for _ in range(2)]

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def note(self, given: list) -> Held:
        self.given |= {name_of(pair): pair for pair in given}
        return named(given)

    def fits(self, *all_of: Held) -> bool:
        """Whether they may be in one memory."""
        total = sum(all_of, Counter())
        return total.total() <= MOST and max(total.values(), default=0) <= COPIES

    # What changes them

    @rule(which=st.sampled_from((0, 1)), given=pairs)
    def store(self, which: int, given: list) -> None:
        if self.fits(self.held[which], named(given)):
            assert self.memories[which].store(given) == len(given)
            self.held[which] += self.note(given)

    @rule(which=st.sampled_from((0, 1)), chance=st.randoms(use_true_random=False), count=st.integers(1, 5))
    def forget_what_is_there(self, which: int, chance: random.Random, count: int) -> None:
        there = sorted(self.held[which].elements())
        going = chance.sample(there, min(count, len(there)))
        if going:
            assert self.memories[which].forget([self.given[name] for name in going]) == []
            self.held[which] -= Counter(going)

    @rule(which=st.sampled_from((0, 1)), given=pairs)
    def forget_what_is_not_there(self, which: int, given: list) -> None:
        not_found = [pair for pair in given if name_of(pair) not in self.held[which]]
        if not_found:
            before = self.memories[which].tensor.clone()
            assert named(self.memories[which].forget(not_found)) == named(not_found)
            assert torch.equal(self.memories[which].tensor, before)

    @rule(into=st.sampled_from((0, 1)))
    def merge(self, into: int) -> None:
        if self.fits(*self.held):
            self.memories[into] = self.memories[0] + self.memories[1]
            self.held[into] = self.held[0] + self.held[1]

    @precondition(lambda self: self.memories[0].keeps_paths)
    @rule(which=st.sampled_from((0, 1)))
    def grow_and_take_back(self, which: int) -> None:
        held = self.held[which]
        if not held:
            return
        grown, found = self.memories[which].grow(len(held), ACCURACY, scheme="HLB")  # which is planned fastest
        assert found.requested == found.confident == held.total() and named(found.pairs) == held
        paths = {canonical_path(path): path for path, _ in map(self.given.__getitem__, held)}
        sets = zip(paths, grown.recall_sets(list(paths.values())), strict=True)
        right = sum((path, canonical(answer.value)) in held for path, answers in sets for answer in answers)
        type(self).grown += Counter(asked=len(held), missed=len(held) - right)
        if named(grown.decode_pairs().pairs) == held:  # asked together, they nearly always are
            self.memories[which] = Memory.like(self.memories[which])
            self.memories[which].merge(grown)

    @rule(which=st.sampled_from((0, 1)))
    def begin_anew(self, which: int) -> None:
        self.memories[which], self.held[which] = Memory.like(self.memories[which]), Counter()

    @rule(
        which=st.sampled_from((0, 1)),
        bad=st.sampled_from(BAD),
        given=pairs,
    )
    def store_what_is_bad(self, which: int, bad: object, given: list) -> None:
        before = self.memories[which].tensor.clone()
        with contextlib.suppress(UserError):
            self.memories[which].store([*given, (("x",), bad)])
            raise AssertionError(f"{bad!r} was stored")
        assert torch.equal(self.memories[which].tensor, before)

    # Files

    @rule(which=st.sampled_from((0, 1)))
    def save(self, which: int) -> None:
        self.memories[which].save(self.file)
        self.saved = self.held[which].copy()

    @precondition(lambda self: self.saved is not None)
    @rule(which=st.sampled_from((0, 1)))
    def load(self, which: int) -> None:
        self.memories[which], self.held[which] = Memory.load(self.file), self.saved.copy()

    @precondition(lambda self: self.saved is not None)
    @rule(given=st.lists(st.tuples(pairs, st.booleans()), min_size=2, max_size=3))
    def several_processes_store(self, given: list) -> None:
        if not self.fits(self.saved, *(named(each) for each, _ in given)):
            return
        children = [self.process(*each) for each in given]
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * len(given)
        for each, _ in given:
            self.saved += self.note(each)

    def process(self, given: list, in_journal: bool) -> int:
        """Another process, which stores in the file or its journal and ends."""
        pid = os.fork()
        if not pid:
            try:
                if in_journal:
                    with carving.open(self.file) as memory:
                        memory.store(given)
                else:
                    with lock_for(self.file):
                        memory = Memory.load(self.file)
                        memory.store(given)
                        memory.save(self.file)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        return pid

    # The journal, by a program that has the file open while others change it

    @precondition(lambda self: self.saved is not None)
    @rule(anew=st.booleans())
    def open(self, anew: bool) -> None:
        if anew or self.opened is None:
            self.opened = carving.open(self.file)
        self.opened.refresh()
        self.holds(self.opened, self.saved)

    @precondition(lambda self: self.opened is not None)
    @rule(given=pairs)
    def store_in_journal(self, given: list) -> None:
        if self.fits(self.saved, named(given)):
            assert self.opened.store(given) == len(given)
            self.saved += self.note(given)
            self.holds(self.opened, self.saved)

    @precondition(lambda self: self.opened is not None and self.saved)
    @rule(chance=st.randoms(use_true_random=False), count=st.integers(1, 5), stranger=st.booleans())
    def forget_in_journal(self, chance: random.Random, count: int, stranger: bool) -> None:
        there = sorted(self.saved.elements())
        going = chance.sample(there, min(count, len(there)))
        not_found = [(("never", "stored"), "x")] * stranger
        assert self.opened.forget([*(self.given[name] for name in going), *not_found]) == not_found
        self.saved -= Counter(going)
        self.holds(self.opened, self.saved)

    @precondition(lambda self: self.opened is not None)
    @rule()
    def compact(self) -> None:
        self.opened.compact()
        assert not journal.journal_path(self.file).exists()
        self.holds(self.opened, self.saved)

    # What must hold after every step

    @invariant()
    def they_hold_the_same(self) -> None:
        type(self).done += 1
        for which, (memory, held) in enumerate(zip(self.memories, self.held, strict=True)):
            self.counts(memory, held)
            before = self.asked[which]
            if before is None or before[1] != held or not torch.equal(before[0], memory.tensor):
                self.ask(memory, held)
                self.sums(memory, held)
                self.asked[which] = memory.tensor.clone(), held.copy()

    def holds(self, memory: Memory, held: Held) -> None:
        """Whether a memory holds what it should: its counts, its paths, its answers."""
        self.counts(memory, held)
        self.ask(memory, held)

    def counts(self, memory: Memory, held: Held) -> None:
        """How much of everything there is, and under which paths."""
        assert memory.pairs == held.total()
        counts = dict(zip(map(canonical, memory.vocabulary), memory.counts.tolist(), strict=True))
        values = Counter(value for _, value in held.elements())
        assert {value: count for value, count in counts.items() if count} == values
        if memory.keeps_paths:
            wanted = {path for path, _ in held}
            assert {canonical_path(path) for path in memory} == wanted and len(memory) == len(wanted)
            assert all((path in memory) == (name in wanted) for (name, _), (path, _) in self.given.items())

    def ask(self, memory: Memory, held: Held) -> None:
        """Everything that was ever given, whether it is there now or not."""
        asked = {name: path for (name, _), (path, _) in self.given.items()}
        if not asked or not len(memory.vocabulary):
            return
        wanted = {name: {value for other, value in held if other == name} for name in asked}
        found = memory.recall_sets(list(asked.values()))
        assert {
            name: {canonical(answer.value) for answer in answers} for name, answers in zip(asked, found, strict=True)
        } == wanted

    def sums(self, memory: Memory, held: Held) -> None:
        """The tensor is the sum of the pairs, each bound alone."""
        total = torch.zeros_like(memory.tensor)
        for name, count in held.items():
            if name not in self.bound:
                alone = Memory(SCHEME)
                alone.store([self.given[name]])
                self.bound[name] = alone.tensor
            total += count * self.bound[name]
        assert torch.allclose(memory.tensor, total, rtol=0, atol=1e-4)


def campaign(steps: int, number: int = 0) -> list[common.Row]:
    """So many steps at least, in programs of some."""
    torch.set_num_threads(1)  # a process that forks must have one thread
    AgainstADictionary.done, failures = 0, list[str]()
    AgainstADictionary.grown = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Overfull)
        while AgainstADictionary.done < steps and not failures:
            how = settings(PROFILE, max_examples=1 + (steps - AgainstADictionary.done) // STEPS)
            try:
                run_state_machine_as_test(seed(number)(AgainstADictionary), settings=how)
            except Exception as error:
                failures.append("\n".join([repr(error)[:1000], *getattr(error, "__notes__", [])])[-4000:])
            number += 1_000_003
    asked, missed = AgainstADictionary.grown["asked"], AgainstADictionary.grown["missed"]
    if missed > MISSES * asked + 4 * math.sqrt(MISSES * asked) + 4:
        failures.append(f"of {asked} values {missed} were missed in memories that had grown")
    return [common.row("memory and dictionary", AgainstADictionary.done, failures)]


if __name__ == "__main__":
    given_ = common.options(__doc__, "steps", 10_000).parse_args()
    common.ends("Against a dictionary", lambda: campaign(given_.steps, given_.seed), given_.out)
