"""A campaign of damaged files: no change of a memory, journal, label model or checkpoint is taken for the truth.

    PYTHONPATH=tests python -m campaign.files --tries 100000 --out files.json

Files of every kind are changed by chance, cut, or joined with another of their kind: each must be refused in a
sentence; only a journal may be taken as cut off (`journals.py`). Others lie, with a checksum that is right: they may be
taken for what they say, if that can be. Neither may show a traceback, take longer than `SECONDS` or more than `ROOM`.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from campaign import common, journals
from campaign.limits import limits, timed
from damage import KINDS, Kind, damaged, lying, outcome

SECONDS = 20  # of the processor, for a try
ROOM = 1 << 30  # bytes that the process may take beyond what it had
LIES = 0.4  # the share of files with a checksum that is right


Try = Callable[[random.Random], str]  # what became of a file: `refused`, `cut`, `believed`, or what is wrong


def of_kind(kind: Kind) -> Callable[[Path], tuple[Try, Try]]:
    """What tries a damaged file of a kind in a folder, and a lying one."""

    def ready(at: Path) -> tuple[Try, Try]:
        files = at / "one", at / "other"
        for number, file in enumerate(files):
            kind.make(file, number)
            came = outcome(kind.read, file)
            assert came == "accepted", f"it is not read at all: {came}"
        wholes = [file.read_bytes() for file in files]

        def damaged_one(chance: random.Random) -> str:
            while (changed := damaged(*wholes, chance)) in wholes:
                pass
            (at / "tried").write_bytes(changed)
            return outcome(kind.read, at / "tried")

        def lying_one(chance: random.Random) -> str:
            lying(files[0], at / "tried", chance)
            came = outcome(kind.read, at / "tried")
            return "believed" if came == "accepted" else came

        return damaged_one, lying_one

    return ready


ALL = {name: of_kind(kind) for name, kind in KINDS.items()} | {"journal": journals.tries}


def attack(name: str, tries: int, chance: random.Random, at: Path) -> common.Row:
    """So many changes of a kind of file, in a folder of its own."""
    at.mkdir()
    damaged_one, lying_one = ALL[name](at)
    failures, counts, slowest = list[str](), dict(refused=0, cut=0, believed=0), 0.0
    for number in range(tries):
        lies = chance.random() < LIES
        begun = time.process_time()
        came = timed(lambda lies=lies: (lying_one if lies else damaged_one)(chance), SECONDS)
        slowest = max(slowest, time.process_time() - begun)
        if came in counts:
            counts[came] += 1
        else:
            failures.append(f"{'lying' if lies else 'damaged'} {number}: {came[-400:]}")
    return common.row(name, tries, failures, **counts, slowest=round(slowest, 2))


def campaign(tries: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """So many changes over all kinds."""
    torch.set_num_threads(1)
    flush, os.fsync = os.fsync, lambda _: None  # nothing of this is to last
    names = names or list(ALL)
    try:
        with tempfile.TemporaryDirectory() as place, limits(ROOM):
            each = common.share(tries, names)
            return [attack(name, each, random.Random(f"{seed} {name}"), Path(place) / name) for name in names]
    finally:
        os.fsync = flush


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 100_000).parse_args()
    common.ends("Damaged and lying files", lambda: campaign(given.tries, given.seed, given.only), given.out)
