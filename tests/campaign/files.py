"""A campaign of damaged files: no change of a memory, a label model or a checkpoint is taken for the truth.

    PYTHONPATH=tests python -m campaign.files --tries 100000 --out files.json

Files of every kind are changed by chance, cut, or joined with another of their kind: each must be refused in a
sentence. As many lie, with a checksum that is right: they may be taken for what they say, if that can be. Neither may
show a traceback, take longer than `SECONDS` or more than `ROOM`.
"""

import os
import random
import tempfile
import time
from pathlib import Path

import torch
from campaign import common
from campaign.limits import limits, timed
from damage import KINDS, damaged, lying, outcome

SECONDS = 20  # of the processor, for a try
ROOM = 1 << 30  # bytes that the process may take beyond what it had
LIES = 0.4  # the share of files with a checksum that is right


def attack(name: str, tries: int, chance: random.Random, at: Path) -> common.Row:
    """So many changes of a kind of file."""
    kind, target = KINDS[name], at / "tried"
    wholes = []
    for number, file in enumerate((at / "one", at / "other")):
        kind.make(file, number)
        wholes.append(file.read_bytes())
        came = outcome(kind.read, file)
        assert came == "accepted", f"a {name} is not read at all: {came}"
    failures, counts, slowest = list[str](), dict(refused=0, believed=0), 0.0
    for number in range(tries):
        lies = kind.lies and chance.random() < LIES
        if lies:
            lying(at / "one", target, chance)
        else:
            while (changed := damaged(*wholes, chance)) in wholes:
                pass
            target.write_bytes(changed)
        begun = time.process_time()
        came = timed(lambda: outcome(kind.read, target), SECONDS)
        slowest = max(slowest, time.process_time() - begun)
        if came == "refused":
            counts["refused"] += 1
        elif came == "accepted" and lies:
            counts["believed"] += 1
        else:
            failures.append(f"{'lying' if lies else 'damaged'} {number}: {came[-400:]}")
    return common.row(name, tries, failures, **counts, slowest=round(slowest, 2))


def campaign(tries: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """So many changes over all kinds."""
    torch.set_num_threads(1)
    flush, os.fsync = os.fsync, lambda _: None  # nothing of this is to last
    names = names or list(KINDS)
    try:
        with tempfile.TemporaryDirectory() as place, limits(ROOM):
            return [attack(name, tries // len(names), random.Random(f"{seed} {name}"), Path(place)) for name in names]
    finally:
        os.fsync = flush


if __name__ == "__main__":
    given = common.options(__doc__, "tries", 100_000).parse_args()
    common.ends("Damaged and lying files", lambda: campaign(given.tries, given.seed, given.only), given.out)
