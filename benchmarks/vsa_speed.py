"""The architectures beside torch-hd's, operation by operation.

`make bench` - two minutes on two cores. The rivals take turns in one run. Prints a table
(above 1: ours is faster) and writes results/vsa-speed.json.

The ratio of HRR's bind has two values, because torch-hd's arrays of 32 MiB are of a size that the C library may keep or
give back when they are freed: where it keeps them 1.7 to 2.2, where every call must ask for its pages again 3.7.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
import torchhd
from osc_speed import medians, show
from rich.console import Console

from carving import VSA

OUTPUT = Path(__file__).parent.parent / "results" / "vsa-speed.json"
BATCH, QUERIES, OTHERS = 1_000, 100, 1_000

# Ours with as many coordinates as theirs, and their type.
PEERS = [
    (VSA("HRR", 4_096), torchhd.HRRTensor),
    (VSA("FHRR", 4_096, accounting="coordinates"), torchhd.FHRRTensor),
    (VSA("MAP-I", 4_096), torchhd.MAPTensor),
    (VSA("BSC", 4_096), torchhd.BSCTensor),
    (VSA("VTB", 1_024), torchhd.VTBTensor),
    (VSA("VTB", 4_096), torchhd.VTBTensor),
    (VSA("CGR", 4_096, accounting="coordinates", bundling="mode"), torchhd.CGRTensor),
    (VSA("BSDC-SEG", 4_096, bundling="mode"), torchhd.BSBCTensor),
]


def operations(vsa: VSA, kind: type) -> dict[str, dict[str, Callable[[], object]]]:
    """Both sides of each operation."""
    generator = torch.Generator().manual_seed(0)
    x, roles = vsa.random(BATCH, generator), vsa.random(BATCH, generator)

    def theirs(y: torch.Tensor) -> torch.Tensor:
        made = y.as_subclass(kind)
        if kind in (torchhd.CGRTensor, torchhd.BSBCTensor):
            made.block_size = vsa.space.option
        return made

    hd_x, hd_roles, hd_queries = theirs(x), theirs(roles), theirs(x[:QUERIES])
    return {
        "bind": {"ours": lambda: vsa.bind(x, roles), "torchhd": lambda: torchhd.bind(hd_x, hd_roles)},
        "unbind": {
            "ours": lambda: vsa.unbind(x, roles),
            "torchhd": lambda: torchhd.bind(hd_x, torchhd.inverse(hd_roles)),
        },
        "bundle": {"ours": lambda: vsa.bundle(x), "torchhd": lambda: torchhd.multibundle(hd_x)},
        "similarity": {
            "ours": lambda: vsa.similarity(x[:QUERIES], roles),
            "torchhd": lambda: torchhd.cosine_similarity(hd_queries, hd_roles),
        },
    }


def main() -> None:
    console = Console(width=120)
    rows: list[dict[str, object]] = []
    with torch.inference_mode():
        for vsa, kind in PEERS:
            row: dict[str, object] = {"architecture": vsa.name, "d": vsa.d}
            with console.status(vsa.name):
                for name, rivals in operations(vsa, kind).items():
                    taken = medians(rivals, 1.5)
                    row[f"{name}_ms"] = taken["ours"] * 1e3
                    row[f"{name}_ratio"] = taken["torchhd"] / taken["ours"]
            rows.append(row)
    show(console, "ours in milliseconds, and torch-hd's time over ours", rows)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
