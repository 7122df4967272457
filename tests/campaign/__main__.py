"""The whole campaign: every part in a process of its own, two at a time, and the figures of all in one file.

    PYTHONPATH=tests python -m campaign --out build/campaign          # under an hour; --long: ten times as much
    PYTHONPATH=tests python -m campaign --out build/campaign --results results/campaign.json

`make campaign` leaves all figures in build/campaign.json; `make campaign-table` makes the table of docs/campaign.md and
the README's sentence from them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

# What is run, and how much of it: the option and its size. What takes longest comes first.
PARTS = {
    "guided": ("seconds", 120),
    "kills": ("tries", 1_000),
    "drift": ("tries", 1_000_000),
    "readers": ("tries", 100_000),
    "files": ("tries", 100_000),
    "disks": ("tries", 300),
    "stateful": ("steps", 10_000),
    "shortages": ("tries", 2_000),
}
LONG = 10  # times as much
AT_ONCE = min(2, os.cpu_count() or 1)


def run(part: str, times: int, seed: int, out: Path) -> tuple[int, str]:
    """A part in another process: its exit status, and what it printed."""
    option, size = PARTS[part]
    command = [sys.executable, "-m", f"campaign.{part}", f"--{option}", str(size * times), "--seed", str(seed)]
    threads = os.environ | dict(OMP_NUM_THREADS="1")  # a process that forks must have one
    (out / f"{part}.json").unlink(missing_ok=True)
    done = subprocess.run([*command, "--out", str(out / f"{part}.json")], env=threads, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def gathered(out: Path) -> dict[str, dict]:
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
    begun, failed = time.monotonic(), []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, part, LONG if given.long else 1, given.seed, given.out): part for part in PARTS}
        for future in as_completed(running):
            status, printed = future.result()
            print(f"{running[future]}, after {(time.monotonic() - begun) / 60:.0f} minutes\n{printed}", flush=True)
            failed += [running[future]] if status else []
    if given.results:
        given.results.write_text(json.dumps(gathered(given.out), indent=1) + "\n")
    print(f"failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
