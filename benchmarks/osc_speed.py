"""OSC beside the paper's own algorithm, beside HLB, and beside what the machine can do.

`make bench` - two minutes on two cores. Everything is measured in one run, the rivals taking turns, so that
the ratios hold on a busy machine too. Prints tables and writes results/osc-speed.json.
"""

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from carving.schemes.osc import OSC

SETTINGS = {"B1": (64, 2), "B2": (200, 2), "B3": (75, 3)}
VOCABULARIES = (100, 1_000, 10_000)
LARGEST = 4 * 2**30  # bytes of an HLB codebook that we are willing to make
OUTPUT = Path(__file__).parent.parent / "results" / "osc-speed.json"


def medians(rivals: dict[str, Callable[[], object]], seconds: float = 2.0) -> dict[str, float]:
    """Median seconds of each rival; they take turns until the time is used up, three turns at least."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    end, turns = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turns < 3:
        for name, run in rivals.items():
            first = timed(run)
            # Runs that follow find in the caches what this rival, not the one before it, left there.
            taken[name] += [first] if first > 0.2 else [timed(run) for _ in range(3)]
        turns += 1
    return {name: statistics.median(times) for name, times in taken.items()}


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def carved(basis: Tensor, candidates: Tensor) -> Tensor:
    """Every candidate projected in R^d and normalised, as the paper writes it."""
    projected = candidates @ (basis.T @ basis)
    return projected / projected.norm(dim=-1, keepdim=True)


# The paper's score in two forms, of which now the one, now the other is faster: the rival is the faster.


def by_einsum(memory: Tensor, basis: Tensor, candidates: Tensor, chunk: int = 1_000) -> Tensor:
    """Every carved candidate contracted with the whole memory in one expression."""
    letters = "abcd"[: memory.dim()]
    formula = f"{letters},{','.join('l' + letter for letter in letters)}->l"
    parts = carved(basis, candidates).split(chunk)
    return torch.cat([torch.einsum(formula, memory, *part.unbind(1)) for part in parts])


def by_modes(memory: Tensor, basis: Tensor, candidates: Tensor, chunk: int = 500) -> Tensor:
    """The same, mode after mode."""
    scores = []
    for part in carved(basis, candidates).split(chunk):
        first, *rest = part.unbind(1)
        left = first @ memory.view(memory.shape[0], -1)
        for component in rest:
            left = torch.bmm(component.unsqueeze(1), left.view(*component.shape, -1)).squeeze(1)
        scores.append(left.squeeze(1))
    return torch.cat(scores)


def hlb(memory: Tensor, role: Tensor, codebook: Tensor) -> Tensor:
    """Unbinding by division, then one product with the codebook."""
    return codebook @ (memory / role)


def gemm(size: int = 2048) -> tuple[Callable[[], Tensor], float]:
    """A square product, whose rate the other products are compared with, and its operations."""
    one, other = torch.randn(size, size), torch.randn(size, size)
    return lambda: one @ other, 2.0 * size**3


def single_queries() -> list[dict[str, object]]:
    rows = []
    long = torch.randn(2**26)
    for name, (d, p) in SETTINGS.items():
        scheme = OSC(d, p)
        contexts, context = scheme.contexts([(i,) for i in range(1_000)]), scheme.contexts([(0,)])
        for size in VOCABULARIES:
            fillers = scheme.fillers(range(size))
            memory = scheme.trace(contexts[: min(size, 1_000)], fillers[: min(size, 1_000)])
            plain = fillers.contiguous()
            basis = context.basis[0].contiguous()
            ours = scheme.score(memory, context, fillers)[0] * context.amplitudes
            for literal in (by_einsum, by_modes):
                assert_same(ours, literal(memory, basis, plain))
            rivals: dict[str, Callable[[], object]] = {
                "ours": lambda: scheme.score(memory, context, fillers).argmax(),
                "einsum": lambda: by_einsum(memory, basis, plain).argmax(),
                "modes": lambda: by_modes(memory, basis, plain).argmax(),
                "read": long.sum,
            }
            if size * d**p * 4 <= LARGEST:
                codebook, role, flat = torch.randn(size, d**p), torch.randn(d**p).sign(), memory.flatten()
                rivals["hlb"] = lambda: hlb(flat, role, codebook).argmax()
            taken = medians(rivals)
            taken["literal"] = min(taken["einsum"], taken["modes"])
            codebook = None
            bandwidth = long.nbytes / taken["read"]
            bound = (fillers.nbytes + memory.nbytes) / bandwidth
            rows.append(
                {
                    "setting": name,
                    "vocabulary": size,
                    "ours_us": taken["ours"] * 1e6,
                    "literal_us": taken["literal"] * 1e6,
                    "hlb_us": taken["hlb"] * 1e6 if "hlb" in taken else None,
                    "bound_us": bound * 1e6,
                    "literal_over_ours": taken["literal"] / taken["ours"],
                    "hlb_over_ours": taken["hlb"] / taken["ours"] if "hlb" in taken else None,
                    "ours_over_bound": taken["ours"] / bound,
                    "bandwidth_GB_s": bandwidth / 1e9,
                }
            )
    return rows


def batches(queries: int = 256, vocabulary: int = 10_000) -> list[dict[str, object]]:
    rows = []
    for name, (d, p) in SETTINGS.items():
        scheme = OSC(d, p)
        k1 = scheme.k1
        contexts = scheme.contexts([(i,) for i in range(queries)])
        fillers = scheme.fillers(range(vocabulary))
        memory = scheme.trace(contexts, fillers[:queries])
        square, operations = gemm()
        taken = medians({"ours": lambda: scheme.score(memory, contexts, fillers).argmax(1), "gemm": square}, 4.0)
        reading = sum(2 * k1**mode * d ** (p - mode + 1) for mode in range(1, p + 1))
        matching = vocabulary * (2 * p * d * k1 + 2 * k1**p)
        rows.append(rate(name, queries * (reading + matching), taken, operations))
    return rows


def storing(pairs: int = 10_000) -> list[dict[str, object]]:
    rows = []
    for name, (d, p) in SETTINGS.items():
        scheme = OSC(d, p)
        contexts = scheme.contexts([(i,) for i in range(pairs)])
        fillers = scheme.fillers(range(pairs))
        square, operations = gemm()
        taken = medians({"ours": lambda: scheme.trace(contexts, fillers), "gemm": square}, 4.0)
        rows.append(rate(name, pairs * (4.0 * p * d * scheme.k1 + 2.0 * d**p), taken, operations))
    return rows


def rate(name: str, work: float, taken: dict[str, float], square: float) -> dict[str, object]:
    ours, best = work / taken["ours"], square / taken["gemm"]
    return {
        "setting": name,
        "seconds": taken["ours"],
        "ours_GFLOP_s": ours / 1e9,
        "gemm_GFLOP_s": best / 1e9,
        "share": ours / best,
    }


def making_contexts(count: int = 10_000) -> list[dict[str, object]]:
    rows = []
    for name, (d, p) in SETTINGS.items():
        scheme = OSC(d, p)
        paths = [("document", i, "subject") for i in range(count)]
        generator = torch.Generator().manual_seed(0)
        taken = medians(
            {
                "ours": lambda: scheme.contexts(paths),
                "torch": lambda: torch.linalg.qr(torch.randn(count, d, scheme.k1, generator=generator)),
            },
            4.0,
        )
        rows.append({"setting": name, "contexts": count, **taken, "ours_over_torch": taken["ours"] / taken["torch"]})
    return rows


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def show(console: Console, title: str, rows: list[dict[str, object]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*("-" if v is None else f"{v:,.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    console.print(table)


def main() -> None:
    console = Console(width=150)
    parts = {
        "single queries": single_queries,
        "batches of 256 queries": batches,
        "storing 10,000 pairs": storing,
        "contexts from labels": making_contexts,
    }
    found: dict[str, object] = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    found["machine"] = platform.machine()
    with torch.inference_mode():
        for title, measure in parts.items():
            with console.status(title):
                found[title] = measure()
            show(console, title, found[title])
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
