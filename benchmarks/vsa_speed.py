"""The architectures beside torch-hd's, operation by operation.

`make bench` - two minutes on two cores. The rivals take turns in one run, in one thread and then in two. Prints a table
(above 1: ours is faster) and writes results/vsa-speed.json, with the peak memory of each operation of ours.

The ratio of HRR's bind has two values, because torch-hd's arrays of 32 MiB are of a size that the C library may keep or
give back when they are freed: where it keeps them 1.7 to 2.2, where every call must ask for its pages again 3.7.
"""

import torch
import torchhd
from measuring import Row, Run, medians, peak, show, thread_counts, threads, write
from rich.console import Console

from carving import VSA

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


def operations(vsa: VSA, kind: type) -> dict[str, dict[str, Run]]:
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


def measured(vsa: VSA, kind: type) -> list[Row]:
    rows: list[Row] = []
    sides = operations(vsa, kind)
    for count in thread_counts():
        row: Row = {"architecture": vsa.name, "d": vsa.d, "threads": count}
        with threads(count):
            for name, rivals in sides.items():
                taken = medians(rivals, 1.0)
                row[f"{name}_ms"] = taken["ours"] * 1e3
                row[f"{name}_ratio"] = taken["torchhd"] / taken["ours"]
        rows.append(row)
    with threads(1):
        rows[0] |= {f"{name}_MB": peak(rivals["ours"]) for name, rivals in sides.items()}
    return rows


def main() -> None:
    console = Console(width=180)
    rows: list[Row] = []
    with torch.inference_mode():
        for vsa, kind in PEERS:
            with console.status(vsa.name):
                rows += measured(vsa, kind)
    show(console, "ours in milliseconds, torch-hd's time over ours, peak memory of a call", rows)
    write("vsa-speed.json", {"rows": rows})


if __name__ == "__main__":
    main()
