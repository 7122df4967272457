"""A campaign of rounding: how far a memory drifts from the exact sum, after very many stores and cycles.

    PYTHONPATH=tests python -m campaign.drift --tries 1000000 --out drift.json

The same pairs go into a memory that computes in double precision. The distance between the two, relative to the norm
of the sum, may be what rounding at random values: half a unit in the last place (2^-24) times the root of the number
of additions. A tenth as many cycles of storing and forgetting one pair must leave what was there, within the same
bound.
"""

import random
import warnings
from functools import partial

import torch
from campaign import common

from carving import OSC, Memory
from carving.errors import Overfull

UNIT = 2.0**-24
SCHEME = OSC(24, 3)
KEPT = [(("kept", i), f"value {i}") for i in range(100)]


def distance(memory: Memory, exact: torch.Tensor) -> float:
    """How far the memory is from a sum, relative to the sum."""
    return float(torch.linalg.vector_norm(memory.tensor.double() - exact) / torch.linalg.vector_norm(exact))


def verdict(what: str, times: int, additions: int, drifted: float) -> common.Row:
    """A row: how far it drifted, and how far it may."""
    bound = UNIT * additions**0.5
    failures = [f"drifted by {drifted:.2g}, more than {bound:.2g}"] if not drifted <= bound else []
    return common.row(what, times, failures, drift=f"{drifted:.2g}", bound=f"{bound:.2g}")


def stores(tries: int, chance: random.Random) -> common.Row:
    """So many pairs, a hundredth of them one at a time and the others in batches of any size."""
    memory, exact = Memory(SCHEME), Memory(SCHEME.like(dtype=torch.float64))
    done = additions = 0
    while done < tries:
        size = min(tries - done, 1 if chance.random() < 0.9 else chance.randint(2, 2_000))
        pairs = [((chance.getrandbits(32), "is"), chance.randrange(200)) for _ in range(size)]
        for each in (memory, exact):
            each.store(pairs)
        done, additions = done + size, additions + size
    assert memory.pairs == exact.pairs == tries
    return verdict("stores", tries, additions, distance(memory, exact.tensor))


def cycles(tries: int, chance: random.Random) -> common.Row:
    """So many times a pair is stored and forgotten, in a memory that holds others."""
    memory = Memory(SCHEME)
    memory.store(KEPT)
    before, missed = memory.tensor.double(), 0
    for number in range(tries):
        pair = [(("passing", chance.getrandbits(20)), number % 50)]
        memory.store(pair)
        missed += len(memory.forget(pair))
    row = verdict("cycles of store and forget", tries, 2 * tries, distance(memory, before))
    if missed or memory.pairs != len(KEPT) or not memory.verify(KEPT):
        row["failed"], row["failures"] = 1, [f"{missed} were not forgotten, or what was there is not"]
    return row


def campaign(tries: int, seed: int = 0, names: list[str] | None = None) -> list[common.Row]:
    """So many stores, and a tenth as many cycles."""
    torch.set_num_threads(1)
    parts = dict(stores=partial(stores, tries), cycles=partial(cycles, tries // 10))
    return [parts[name](random.Random(seed)) for name in names or parts]


if __name__ == "__main__":
    warnings.simplefilter("ignore", Overfull)
    given = common.options(__doc__, "tries", 1_000_000).parse_args()
    common.ends("Drift", lambda: campaign(given.tries, given.seed, given.only), given.out)
