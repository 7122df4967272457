"""The sieve beside float32: 256 questions over 10,000 candidates at B2, compact fillers.

`python benchmarks/sieve_speed.py` - a minute on two cores. Everything is measured in one run, the rivals taking turns,
so that the ratios hold on a busy machine too; with OMP_NUM_THREADS=1 the time of the processor counts. Plain scores
(`top`) and log odds (`most_likely`), the products alone beside them, and what measuring chooses by itself. Prints a
table and writes results/sieve-speed.json. Wanted: 1.3 times as fast as float32 on a machine with bfloat16; nowhere
slower when it chooses by itself.
"""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from compact_speed import medians
from rich.console import Console
from rich.table import Table

from carving.answers import get_sieve, precision, set_sieve, top
from carving.answers.likelihood import likelihood, log_prior, most_likely
from carving.answers.sieve import KINDS, Coarse
from carving.schemes.osc import OSC

OUTPUT = Path(__file__).parent.parent / "results" / "sieve-speed.json"
WAYS = ("off", "auto", *KINDS)


def under(setting: str, question: Callable[[], object]) -> Callable[[], object]:
    """The question, asked with a sieve."""

    def run() -> object:
        before = get_sieve()
        set_sieve(setting)
        try:
            return question()
        finally:
            set_sieve(before)

    return run


def products(cores: torch.Tensor, codes: torch.Tensor) -> dict[str, Callable[[], object]]:
    """The products alone, of each kind that there is."""
    flat, runs = cores.flatten(1), {"off": lambda: cores.flatten(1) @ codes.mT}
    for kind in filter(precision.available, KINDS):
        coarse, rows = Coarse.of(codes, kind), Coarse.of(flat, kind)
        assert coarse is not None and rows is not None
        multiply = torch._int_mm if kind == "int8" else torch.mm
        runs[kind] = lambda rows=rows, coarse=coarse, multiply=multiply: multiply(rows.numbers, coarse.numbers.mT)
    return runs


def measured(queries: int, vocabulary: int, seconds: float) -> list[dict[str, object]]:
    scheme = OSC(200, 2, compact=True)
    contexts, fillers = scheme.contexts([(i,) for i in range(queries)]), scheme.fillers(range(vocabulary))
    memory = scheme.trace(contexts, fillers[:queries])
    counts = (torch.arange(vocabulary) < queries).double()
    odds = likelihood(scheme, memory, counts, float(queries), log_prior(counts, 0.5))
    codes = scheme.precompute(fillers)
    questions = {
        "products": None,
        "top 1": lambda: top(scheme, memory, contexts, fillers).indices,
        "top 10": lambda: top(scheme, memory, contexts, fillers, 10).indices,
        "most likely": lambda: most_likely(scheme, memory, contexts, fillers, odds).best.indices,
    }
    rows = []
    for name, question in questions.items():
        if question is None:
            taken = medians(products(scheme.read(memory, contexts), codes), seconds)
        else:
            runs = {way: under(way, question) for way in WAYS}
            wanted = runs["off"]()
            assert all(bool(torch.equal(run(), wanted)) for run in runs.values())
            for _ in range(precision.REPAYS):  # until there was enough to measure
                runs["auto"]()
            taken = medians(runs, seconds)
        row: dict[str, object] = {"question": name}
        row |= {f"{way}_ms": 1e3 * taken[way] for way in WAYS if way in taken}
        row |= {f"off_over_{way}": taken["off"] / taken[way] for way in WAYS[1:] if way in taken}
        rows.append(row)
    return rows


def main(queries: int = 256, vocabulary: int = 10_000, seconds: float = 10.0) -> None:
    console = Console(width=160)
    with torch.inference_mode():
        rows = measured(queries, vocabulary, seconds)
    chosen = sorted({str(known.kind) for known in precision._experience.values() if known.measured})
    table = Table(title=f"{queries} queries, {vocabulary:,} candidates, d=200, p=2", title_justify="left")
    for column in rows[-1]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        cells = (row.get(column, "") for column in rows[-1])
        table.add_row(*(f"{value:,.3g}" if isinstance(value, float) else str(value) for value in cells))
    console.print(table)
    console.print(f"auto chose: {', '.join(chosen)} (None is float32)")
    found = {"torch": torch.__version__, "threads": torch.get_num_threads(), "machine": platform.machine()}
    found |= {"capability": torch.backends.cpu.get_cpu_capability(), "chosen": chosen}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(found | {"queries": queries, "vocabulary": vocabulary, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
