"""A campaign of kills: whatever a process is doing when it dies, its file is the old one or the new one, whole.

    PYTHONPATH=tests python -m campaign.kills --tries 1000 --out kills.json

A child of a process that has torch already does one thing and gets SIGKILL: half of them at a random moment, half at
a random call that concerns files, in the middle of it if it writes. The try fails if the file then does not load,
holds neither what it held before nor what it holds after the whole command, or if the same command, given again, does
not end well or values anything behind; training and experiments must go on to what they make at once.
"""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import torch
from campaign import common
from campaign.acts import ACTS, Act, here, prepare
from campaign.shim import KILL, Fault, Shim

SECONDS = 120  # in which a command must end, on a machine that others use as well


def child(folder: Path, act: Act, at_call: int | None = None) -> int:
    """A process that does it, and nothing else; it may die at a call that concerns files."""
    pid = os.fork()
    if pid:
        return pid
    status = 99
    with contextlib.suppress(BaseException):
        if at_call is None:
            status = here(act, folder)[0]
        else:
            with Shim(folder, Fault(at_call, KILL)).watching():
                status = here(act, folder)[0]
    os._exit(status)


def ended(pid: int) -> int | None:
    """The exit status of a process that ends in time; None if it hangs, and is killed."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    killed(pid, 0)
    return None


def killed(pid: int, after: float) -> None:
    """Let it live so long, and no longer."""
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def attack(name: str, tries: int, chance: random.Random, at: Path) -> common.Row:
    """So many kills: what went wrong, and how often the file was old and new."""
    act, whole = ACTS[name], Path(shutil.copytree(at / "base", at / "whole"))
    before, shim = act.found(whole), Shim(whole)
    with shim.watching():
        status, said = here(act, whole)
    assert status == 0, f"{name} does not work at all: {said}"
    after, begun = act.found(whole), time.monotonic()
    shutil.rmtree(whole)
    ended(child(Path(shutil.copytree(at / "base", whole)), act))
    seconds = time.monotonic() - begun
    failures, times = list[str](), {"old": 0, "new": 0}
    for number in range(tries):
        folder = Path(shutil.copytree(at / "base", at / "try"))
        if number % 2:
            moment = chance.uniform(0, 1.1 * seconds)
            what = f"after {moment:.3f} s"
            killed(child(folder, act), moment)
        else:
            call = chance.randrange(len(shim.calls))
            what = f"at call {call}, {shim.calls[call]}"
            ended(child(folder, act, call))
        try:
            state = act.found(folder)
            times["new" if state == after else "old"] += 1
            failures += [f"{what}: {problem}" for problem in problems(act, folder, state, before, after)]
        except Exception as error:
            failures.append(f"{what}: {error!r}")
        shutil.rmtree(folder)
    shutil.rmtree(whole)
    return common.row(name, tries, failures, **times, calls=len(shim.calls), seconds=round(seconds, 2))


def problems(act: Act, folder: Path, state: object, before: object, after: object) -> list[str]:
    """What is wrong with what a killed process left."""
    if state not in (before, after) and not act.resumes:
        return ["neither old nor new"]
    if ended(child(folder, act)) != 0:
        return ["the same again did not end well"]
    if (act.resumes or state == before) and act.found(folder) != after:
        return ["the same again did not give what it gives at once"]
    left = [path.name for path in folder.rglob(".*")]
    return [f"left behind: {left}"] if left else []


def shared(tries: int, names: list[str]) -> dict[str, int]:
    """How many kills each gets: those that take long to go on a third of the others'."""
    weights = {name: 1 if ACTS[name].resumes else 3 for name in names}
    return {name: max(2, -(-tries * weight // sum(weights.values()))) for name, weight in weights.items()}


def campaign(tries: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """So many kills over all acts."""
    torch.set_num_threads(1)  # a process that forks must have one thread
    rows = []
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "base").mkdir()
        prepare(Path(place) / "base")
        for name, count in shared(tries, names or list(ACTS)).items():
            rows.append(attack(name, count, random.Random(f"{seed} {name}"), Path(place)))
    return rows


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 1000).parse_args()
    common.ends("SIGKILL", lambda: campaign(given.tries, given.seed, given.only), given.out)
