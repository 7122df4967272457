"""The whole campaign: every part in a process of its own, its figures in a folder, and all of them in one file.

    PYTHONPATH=tests python -m campaign --out build/campaign          # under an hour; --long: ten times as much
    PYTHONPATH=tests python -m campaign --out build/campaign --results results/campaign.json

With --results the figures go where `benchmarks/tables.py` makes the README's table from them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

# What is run, in which order, and how much of it: the option and its size.
PARTS = {
    "disks": ("tries", 400),
    "files": ("tries", 100_000),
    "readers": ("tries", 100_000),
    "stateful": ("steps", 10_000),
    "drift": ("tries", 1_000_000),
    "kills": ("tries", 1_000),
    "guided": ("seconds", 120),
}
LONG = 10  # times as much


def run(part: str, times: int, seed: int, out: Path) -> int:
    """A part in another process; its exit status."""
    option, size = PARTS[part]
    command = [sys.executable, "-m", f"campaign.{part}", f"--{option}", str(size * times), "--seed", str(seed)]
    threads = os.environ | dict(OMP_NUM_THREADS="1")  # a process that forks must have one
    return subprocess.run([*command, "--out", str(out / f"{part}.json")], env=threads).returncode


def gathered(out: Path) -> dict[str, object]:
    """What all parts tried and found, without what failed in words."""
    parts = {part: json.loads(file.read_text()) for part in PARTS if (file := out / f"{part}.json").exists()}
    for figures in parts.values():
        for row in figures["rows"]:
            del row["failures"]
    return parts


def main() -> int:
    """The exit status: 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the figures")
    parser.add_argument("--results", type=Path, help="a file for all of them")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    failed = [part for part in PARTS if run(part, LONG if given.long else 1, given.seed, given.out)]
    if given.results:
        given.results.write_text(json.dumps(gathered(given.out), indent=1) + "\n")
    print(f"{len(PARTS)} parts in {time.monotonic() - begun:.0f} s, failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
