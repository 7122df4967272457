"""What settings cost: the order and the basis, the workspace, the precision, one question or many.

`python benchmarks/settings_speed.py` - two minutes; docs/performance.md tells what follows. One thread.
"""

from functools import partial

import torch
from lines import BATCH, QUESTIONS, VALUES, VOCABULARIES, pairs
from measuring import Row, Run, medians, peak, show
from rich.console import Console

from carving import OSC, Memory

ORDERS = ((632, 2), (74, 3), (25, 4))  # of about 400,000 cells
PATHS = [(f"sentence {i}", "subject") for i in range(QUESTIONS)]


def orders() -> list[Row]:
    """Microseconds of a question in `recall_many` and of a pair in `Memory.store`."""
    asking: dict[tuple[str, int], Run] = {}
    storing: dict[tuple[str, int], Run] = {}
    some = pairs(1_000, 1_000)
    kinds = [(basis, compact) for compact in (False, True) for basis in ("gaussian", "blocks")]
    for basis, compact in kinds:
        for d, p in ORDERS:
            osc = OSC(d, p, basis=basis, compact=compact)
            name = f"{'compact, ' if compact else ''}{basis}", p
            asking[name] = partial(filled(osc).recall_many, PATHS)
            storing[name] = lambda osc=osc: Memory(osc).store(some)
    rows: list[Row] = []
    for what, rivals, number in (("ask", asking, QUESTIONS), ("store", storing, len(some))):
        taken = medians(rivals, 10.0)
        for kind in dict.fromkeys(name for name, _ in rivals):
            each = {f"p={p}": 1e6 * taken[kind, p] / number for _, p in ORDERS}
            rows.append({"what": what, "fillers and basis": kind, **each})
    return rows


def filled(osc: OSC) -> Memory:
    memory = Memory(osc)
    memory.store(pairs(VALUES, VALUES))
    return memory


def batch(osc: OSC) -> Run:
    """256 questions of 10,000 candidates."""
    contexts, fillers = osc.contexts([(i,) for i in range(BATCH)]), osc.fillers(range(VOCABULARIES[-1]))
    memory = osc.trace(contexts, fillers[:BATCH])
    return lambda: osc.score(memory, contexts, fillers).argmax(1)


def options() -> list[Row]:
    """Milliseconds and peak MB of a batch, by workspace and precision."""
    given = [{"workspace": size * 2**20} for size in (2, 8, 32, 128)] + [{"dtype": torch.float64}]
    rows: list[Row] = []
    for compact in (False, True):
        rivals = {str(each): batch(OSC(200, 2, compact=compact, **each)) for each in given}
        for name, seconds in medians(rivals, 5.0).items():
            rows.append({"compact": compact, "setting": name, "ms": 1e3 * seconds, "MB": peak(rivals[name])})
    return rows


def together() -> list[Row]:
    """Microseconds of a question, one by one and all at once."""
    memory = filled(OSC(200, 2, compact=True))
    rivals = {
        "recall": lambda: [memory.recall(*path) for path in PATHS],
        "recall_many": lambda: memory.recall_many(PATHS),
    }
    return [{name: 1e6 * seconds / QUESTIONS for name, seconds in medians(rivals, 5.0).items()}]


def main() -> None:
    console = Console(width=120)
    torch.set_num_threads(1)
    with torch.inference_mode():
        for measure in (orders, options, together):
            show(console, measure.__doc__, measure())


if __name__ == "__main__":
    main()
