"""A campaign of failing disks: whatever is lost, late or refused, a file is the old one or the new one, whole.

    PYTHONPATH=tests python -m campaign.disks --tries 120 --out disks.json

What an act does to files is written down by a shim. Then the power fails before, between and after the calls:
everything that a disk may hold then (`crashes.py`) must load as the old state or the new one, as the new one if the
act had ended, and the same act must end well there. And every call fails once, in each of several ways: the act ends
with exit status 2, a sentence and the old state, or with 0 and the new one, and goes well the next time. And
sequences of changes of one file, each of which may be killed or fail, end in a power failure: what was acknowledged is
there.
"""

import errno
import os
import random
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
from campaign import common
from campaign.acts import ACTS, Act, here, prepare
from campaign.crashes import crashes
from campaign.shim import END, SHORT, Ended, Fault, Shim

import carving
from carving import OSC, Memory
from carving.errors import UserError
from carving.storage.atomic import NotFlushed

SEQUENCES = "sequences"  # of changes, as an act
HOWS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EINTR, SHORT)


def attack(name: str, most: int, chance: random.Random, at: Path) -> list[common.Row]:
    """The rows of an act: power failures, and calls that fail, of each at most so many."""
    act = ACTS[name]
    folder = fresh(at)
    before = act.found(folder)
    shim = Shim(folder)
    with shim.watching():
        status, said = here(act, folder)
    assert status == 0, f"{name} does not work at all: {said}"
    shim.check()
    after = act.found(folder)
    return [
        power_failures(name, shim, before, after, most, chance, at),
        refusals(name, shim, before, after, most, chance, at),
    ]


def fresh(at: Path) -> Path:
    """A folder as it was before the act."""
    shutil.rmtree(at / "now", ignore_errors=True)
    return Path(shutil.copytree(at / "base", at / "now"))


def power_failures(
    name: str, shim: Shim, before: object, after: object, most: int, chance: random.Random, at: Path
) -> common.Row:
    """What may be on the disk after a crash, each looked at and gone on from."""
    act, failures = ACTS[name], list[str]()
    states, permitted = crashes(shim.begun, shim.log, most, chance)
    for tree, ended in states:
        shutil.rmtree(at / "now", ignore_errors=True)
        (at / "now").mkdir()
        tree.put(at / "now")
        try:
            found = act.found(at / "now")
            if not act.resumes and found not in ((after,) if ended else (before, after)):
                failures.append(f"{'lost though it had ended' if ended else 'neither old nor new'}: {told(tree)}")
            failures += [f"{problem}: {told(tree)}" for problem in again(act, at / "now", found == before, after)]
        except Exception as error:
            failures.append(f"{error!r}: {told(tree)}"[:500])
    return common.row(f"{name}: power fails", len(states), failures, calls=len(shim.log), permitted=permitted)


def told(tree: object) -> str:
    """A tree in a line."""
    return ", ".join(f"{name} {len(file.content)}" for name, file in tree.contents().items() if file)[:300]


def again(act: Act, folder: Path, was_old: bool, after: object) -> list[str]:
    """What hinders the same act from ending well now."""
    status, said = here(act, folder)
    if status:
        return [f"the same again ended with {status}: {said[-300:]}"]
    problems = []
    if (was_old or act.resumes) and act.found(folder) != after:
        problems.append("the same again did not give what it gives at once")
    left = [path.name for path in folder.rglob(".*")]
    return [*problems, f"left behind: {left}"] if left else problems


def refusals(
    name: str, shim: Shim, before: object, after: object, most: int, chance: random.Random, at: Path
) -> common.Row:
    """Every call fails in every way."""
    act, failures = ACTS[name], list[str]()
    faults = [
        Fault(number, how)
        for number, kind in enumerate(shim.calls)
        for how in HOWS
        if (how != SHORT or kind == "write") and (kind != "read" or how == errno.EIO)
    ]
    for fault in faults if len(faults) <= most else chance.sample(faults, most):
        folder = fresh(at)
        with Shim(folder, fault).watching():
            status, said = here(act, folder)
        what = f"{shim.calls[fault.at]} {fault.at} with {errno.errorcode.get(fault.how, fault.how)}"
        try:
            found = act.found(folder)
            if status not in (0, 2) or "Traceback" in said or (status == 2 and "Error: " not in said):
                failures.append(f"{what}: exit status {status}, {said[-300:]!r}")
            undone = not (act.in_place and shim.calls[fault.at] == "fsync" and fault.how == errno.EROFS)
            wanted = [after] if status == 0 else [before] if undone else [before, after]
            if not act.resumes and found not in wanted:
                failures.append(f"{what}: exit status {status}, and the state is another")
            failures += [f"{what}: {problem}" for problem in again(act, folder, found == before, after)]
        except Exception as error:
            failures.append(f"{what}: {error!r}"[:500])
    return common.row(
        f"{name}: calls fail", min(len(faults), most), failures, calls=len(shim.calls), permitted=len(faults)
    )


class Step(NamedTuple):
    """A change through `carving.open`, of which a call that writes may fail, counted from its first one."""

    verb: str
    at: int = 0
    how: int | str | None = None
    closes: bool = True  # the next one opens the file anew


def sequences(tries: int, chance: random.Random, at: Path) -> common.Row:
    """So many sequences of two to four changes, each followed by a power failure."""
    failures = list[str]()
    for _ in range(tries):
        steps = [
            Step(
                chance.choice(("store", "store", "store", "compact")),
                chance.randrange(9),
                chance.choice((None, None, END, END, errno.EIO, errno.EROFS)),
                chance.random() < 0.5,
            )
            for _ in range(chance.randint(2, 4))
        ]
        failures += played(steps, at / "sequence", chance, chance.choice((1.0, chance.random())))
    return common.row(SEQUENCES, tries, failures)


def played(steps: list[Step], folder: Path, chance: random.Random, moment: float = 1.0) -> list[str]:
    """What is lost if the power fails when this share of all calls is done."""
    folder.mkdir()
    with mock.patch.object(os, "fsync"):  # the model alone loses something
        Memory(OSC(8, 2)).save(folder / "file")
        shim = Shim(folder)
        promised, failures = acknowledged(steps, shim, folder / "file"), list[str]()
        done = round(moment * len(shim.log))
        wanted = {value for value, place in promised.items() if place <= done}
        for tree, ended in crashes(shim.begun, shim.log[:done], 20, chance)[0]:
            shutil.rmtree(folder)
            folder.mkdir()
            tree.put(folder)
            try:
                with carving.open(folder / "file") as memory:
                    lost = wanted.difference(memory.vocabulary) if ended else ()
                    memory.store({"again": "x"})
                failures += [f"{steps}, power fails at {done}: lost {sorted(lost)}: {told(tree)}"] if lost else []
            except Exception as error:
                failures.append(f"{steps}, power fails at {done}: {error!r}"[:500])
    shutil.rmtree(folder)
    return failures


def acknowledged(steps: list[Step], shim: Shim, file: Path) -> dict[str, int]:
    """Change a file: the values that were acknowledged, and after which calls of the log."""
    promised, memory = dict[str, int](), None
    for number, (verb, at, how, closes) in enumerate(steps):
        shim.reads, shim.calls = False, []
        shim.fault = None if how is None else Fault(at, how)
        with shim.watching(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                memory = memory or carving.open(file)
                memory.compact() if verb == "compact" else memory.store({"key": f"value {number}"})
            except Ended:
                memory = None
            except (OSError, UserError):
                pass
            else:
                if verb == "store" and not any(issubclass(each.category, NotFlushed) for each in warned):
                    promised[f"value {number}"] = len(shim.log)
        memory = None if closes else memory
    return promised


def campaign(most: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """Every act."""
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "base").mkdir()
        prepare(Path(place) / "base")
        for name in names or [*ACTS, SEQUENCES]:
            if name == SEQUENCES:
                rows.append(sequences(most, random.Random(f"{seed} {name}"), Path(place)))
                continue
            rows += attack(name, most, random.Random(f"{seed} {name}"), Path(place))
    return rows


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 120).parse_args()
    common.ends("Failing disks", lambda: campaign(given.tries, given.seed, given.only), given.out)
