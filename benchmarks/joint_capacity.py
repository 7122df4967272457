"""How many cells a pair takes, asked one at a time and decoded jointly.

`python benchmarks/joint_capacity.py [SETTING...]` - a quarter of an hour on two cores; the settings are below, and each
that is named (all, if none is) is measured anew while the others stay as they were in results/joint-capacity.json.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from carving import OSC, make
from carving.answers.together import Decoded, decode
from carving.scheme import Scheme

OUTPUT = Path(__file__).parent.parent / "results" / "joint-capacity.json"


@dataclass(frozen=True)
class Setting:
    """As many pairs as candidates, in memories of several sizes, and what is wanted at one of them."""

    scheme: str
    pairs: int
    sizes: tuple[int, ...]
    seeds: int
    p: int = 2
    compact: bool = False
    rounds: int = 100
    wanted: str = ""

    def made(self, d: int, seed: int) -> Scheme:
        """The scheme of one size and seed."""
        if self.scheme == "OSC":
            return OSC(d, self.p, compact=self.compact, seed=seed)
        return make(self.scheme, d=d, seed=seed)


SQUARE = tuple(d * d for d in (70, 80, 90, 100, 130, 180))  # the memories of OSC with p = 2
SETTINGS = {
    "compact-p2": Setting(
        "OSC", 1_000, (70, 76, 79, 82, 85, 90, 100, 120, 140, 160, 180, 190), 10, compact=True,
        wanted="99.9 % at d=100 within 15 rounds and at d=90 within 60, 10 of 10 seeds",
    ),
    "ordinary-p2": Setting(
        "OSC", 1_000, (80, 90, 100, 140, 190), 10,
        wanted="99.9 % at d=100 within 15 rounds and at d=90 within 60, 10 of 10 seeds",
    ),
    "compact-p3": Setting("OSC", 2_000, (25, 26, 27, 28, 29, 32, 40, 44), 3, 3, True, wanted="99.9 % at d=29"),
    "ordinary-p3": Setting("OSC", 2_000, (28, 29), 1, 3, wanted="99.9 % at d=29"),
    "compact-large": Setting(
        "OSC", 10_000, (49, 47, 46, 45), 1, 3, True, wanted="99.9 % with at most 12 cells a pair: d=49"
    ),
    "ordinary-large": Setting("OSC", 10_000, (49,), 1, 3, wanted="99.9 % with at most 12 cells a pair: d=49"),
    "HLB": Setting("HLB", 1_000, SQUARE, 1),
    "MAP-I": Setting("MAP-I", 1_000, SQUARE, 1),
    "HRR": Setting("HRR", 1_000, SQUARE, 1),
    "FHRR": Setting("FHRR", 1_000, SQUARE, 1),
    "VTB": Setting("VTB", 1_000, SQUARE, 1),
    "TPR": Setting("TPR", 1_000, (70, 80, 90, 100, 130, 180), 1),
}  # fmt: skip


def share(found: Decoded, held: torch.Tensor) -> float:
    return found.indices.eq(held).double().mean().item()


def measured(setting: Setting, d: int, seed: int, console: Console) -> dict[str, float]:
    """One memory, asked one at a time and decoded jointly: a row."""
    scheme, count = setting.made(d, seed), setting.pairs
    contexts, fillers = scheme.contexts([(i,) for i in range(count)]), scheme.fillers(range(count))
    held = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    memory = scheme.trace(contexts, fillers[held])
    alone = decode(scheme, memory, contexts, fillers, rounds=1)
    started = time.perf_counter()

    def heard(number: int, left: float) -> None:
        if time.perf_counter() - started > 5:
            console.print(
                f"    round {number}: {left:.1%} of the memory is left, {time.perf_counter() - started:.0f} s"
            )

    found = decode(scheme, memory, contexts, fillers, rounds=setting.rounds, heard=heard)
    return {
        "d": d,
        "seed": seed,
        "cells_a_pair": scheme.facts.memory_scalars / count,
        "single": share(alone, held),
        "joint": share(found, held),
        "rounds": found.rounds,
        "converged": found.converged,
        "seconds": time.perf_counter() - started,
    }


def summary(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The rows of one size in one."""
    return {
        "d": rows[0]["d"],
        "cells_a_pair": rows[0]["cells_a_pair"],
        "single": statistics.fmean(row["single"] for row in rows),
        "joint": statistics.fmean(row["joint"] for row in rows),
        "worst": min(row["joint"] for row in rows),
        "converged": sum(row["converged"] for row in rows),
        "seeds": len(rows),
        "most_rounds": max(row["rounds"] for row in rows),
        "seconds": statistics.median(row["seconds"] for row in rows),
    }


def saved() -> dict[str, object]:
    found: dict[str, object] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    return found


def main(names: Sequence[str]) -> None:
    console = Console(width=140)
    unknown = set(names) - set(SETTINGS)
    if unknown:
        sys.exit(f"there is no setting {', '.join(sorted(unknown))}; known: {', '.join(SETTINGS)}")
    for name in names or SETTINGS:
        setting, sizes = SETTINGS[name], []
        aim = f" ({setting.wanted})" if setting.wanted else ""
        console.print(f"{name}: {setting.pairs:,} pairs and candidates{aim}")
        for d in setting.sizes:
            sizes.append(summary([measured(setting, d, seed, console) for seed in range(setting.seeds)]))
            row = sizes[-1]
            console.print(
                f"  d={d}: {row['cells_a_pair']:.1f} cells a pair, single {row['single']:.2%}, joint "
                f"{row['joint']:.2%} (worst {row['worst']:.2%}), {row['most_rounds']} rounds, {row['seconds']:.1f} s"
            )
            whole = saved() | {"torch": torch.__version__, "machine": platform.machine()}
            whole[name] = {"pairs": setting.pairs, "p": setting.p, "wanted": setting.wanted, "sizes": sizes}
            OUTPUT.parent.mkdir(exist_ok=True)
            OUTPUT.write_text(json.dumps(whole, indent=1) + "\n")  # after every size: a run that is killed loses one


if __name__ == "__main__":
    with torch.inference_mode():
        main(sys.argv[1:])
