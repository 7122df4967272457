"""OSC with gaussian bases and with blocks, beside the paper's own algorithm, HLB, torch-hd and what the machine can do.

`make bench` - six minutes on two cores. Everything is measured in one run, the rivals taking turns, in one thread
(where the time of the processor counts) and then in two (where the clock does). The last table says which of
the wanted figures were reached. Prints tables and writes results/osc-speed.json; `--only contexts` is one part.

B1: d=64, p=2; B2: d=200, p=2; B3: d=75, p=3; B4: d=80, p=3. The bound is one read of codebook and memory at the
measured bandwidth. Shares of the rate of a large product count the operations that are done, which are fewer with
blocks; `as_dense` counts those of a dense basis.
"""

import argparse
import operator
from collections.abc import Callable, Iterator

import lines
import peers
import torch
from lines import BATCH, CONTEXTS, KINDS, PAIRS, QUESTIONS, SETTINGS, TRACED, VOCABULARIES, both
from measuring import (
    Row,
    Run,
    assert_same,
    gemm,
    medians,
    peak,
    show,
    thread_counts,
    threads,
    write,
)
from rich.console import Console

Rows = Iterator[tuple[Row, dict[str, Run]]]


def column(kind: str, unit: str) -> str:
    return f"{kind.replace(' ', '_')}_{unit}"


def figures(taken: dict[str, float], unit: str, scale: float) -> Row:
    return {column(name, unit): scale * seconds for name, seconds in taken.items()}


def in_turn(rivals: dict[str, Run], seconds: float) -> Iterator[tuple[int, dict[str, float]]]:
    """Medians in one thread, and in two."""
    for count in thread_counts():
        with threads(count):
            yield count, medians(rivals, seconds)


def ratios(taken: dict[str, float], **pairs: tuple[str, str]) -> Row:
    return {name: both(taken, *pair) for name, pair in pairs.items()}


GAUSSIAN_OVER_BLOCKS = {
    "gaussian_over_blocks": ("gaussian", "blocks"),
    "gaussian_over_blocks_compact": ("gaussian compact", "blocks compact"),
}


def contexts() -> Rows:
    """Contexts from labels, microseconds each; torch: as many normals, and their QR; torch-hd: random vectors."""
    for setting, (d, p) in SETTINGS.items():
        k1 = lines.scheme(setting, "gaussian").k1
        generator = torch.Generator().manual_seed(0)
        ours = {kind: lines.drawing(setting, kind) for kind in KINDS}
        theirs, rows = peers.roles(d**p)
        rivals = ours | theirs
        rivals["torch"] = lambda: torch.linalg.qr(torch.randn(CONTEXTS, d, k1, generator=generator))
        for count, taken in in_turn(rivals, 3.0):
            taken |= {name: taken[name] * CONTEXTS / rows for name in theirs}
            each = figures(taken, "us", 1e6 / CONTEXTS)
            yield {"setting": setting, "threads": count, **each, **ratios(taken, **GAUSSIAN_OVER_BLOCKS)}, ours


def from_labels(make: Callable[[str, str], Run], number: int, settings: tuple[str, ...]) -> Rows:
    """From labels to tensor or to answers, microseconds of one pair or question."""
    for setting in settings:
        ours = {kind: make(setting, kind) for kind in KINDS}
        for count, taken in in_turn(ours, 3.0):
            each = figures(taken, "us", 1e6 / number)
            yield {"setting": setting, "threads": count, **each, **ratios(taken, **GAUSSIAN_OVER_BLOCKS)}, ours


def questions() -> Rows:
    """One question with its context given, microseconds, beside whatever else answers from as many cells."""
    long = torch.randn(2**26)
    for setting in ("B1", "B2", "B3"):
        d, p = SETTINGS[setting]
        for size in VOCABULARIES:
            sides = {kind: lines.asked(setting, kind, 1, size) for kind in KINDS}
            ours: dict[str, Run] = {kind: side.best for kind, side in sides.items()}
            ours |= {f"{kind} again": sides[kind].again() for kind in KINDS if "blocks" in kind}
            rivals = ours | literals(sides["gaussian"]) | peers.questions(d**p, size) | {"read": long.sum}
            for kind in (kind for kind in KINDS if "compact" not in kind):
                assert_literal(sides[kind])
            for count, taken in in_turn(rivals, 2.0):
                taken["literal"] = min(taken.pop("einsum"), taken.pop("modes"))
                bandwidth = long.nbytes / taken.pop("read")
                bounds = {kind: side.nbytes / bandwidth for kind, side in sides.items()}
                row = {"setting": setting, "vocabulary": size, "threads": count, **figures(taken, "us", 1e6)}
                row["bound_us"] = 1e6 * bounds["gaussian"]
                best = KINDS[-2]  # blocks, where they are
                row |= ratios(
                    taken,
                    literal_over_gaussian=("literal", "gaussian"),
                    literal_over_blocks=("literal", "blocks"),
                    literal_over_blocks_compact=("literal", "blocks compact"),
                    hlb_over_blocks=("hlb", "blocks"),
                    hlb_over_blocks_again=("hlb", "blocks again"),
                    hlb_over_blocks_compact=("hlb", "blocks compact"),
                )
                row["blocks_over_bound"] = taken["blocks"] / bounds[best] if "blocks" in taken else None
                yield row | {"bandwidth_GB_s": bandwidth / 1e9}, ours
            del rivals, sides, ours


def literals(side: lines.Asked) -> dict[str, Run]:
    basis, plain = side.contexts.basis[0].contiguous(), side.fillers.contiguous()
    return {
        "einsum": lambda: peers.by_einsum(side.memory, basis, plain).argmax(),
        "modes": lambda: peers.by_modes(side.memory, basis, plain).argmax(),
    }


def assert_literal(side: lines.Asked) -> None:
    """What is compared gives the same scores."""
    first = side.contexts[:1]
    ours = side.osc.score(side.memory, first, side.fillers)[0] * first.amplitudes
    basis, plain = side.contexts.basis[0].contiguous(), side.fillers.contiguous()
    for literal in (peers.by_einsum, peers.by_modes):
        assert_same(ours, literal(side.memory, basis, plain))


def batches() -> Rows:
    """256 questions of 10,000 candidates, ms, and shares of the rate of a large product; `top` finds the best."""
    for setting in ("B1", "B2", "B3"):
        d, p = SETTINGS[setting]
        ours = {kind: lines.batch(setting, kind) for kind in KINDS}
        codes = {f"{kind} precomputed": lines.batch_precomputed(setting, kind) for kind in KINDS if "compact" in kind}
        codes |= {f"{kind} top": lines.batch_top(setting, kind) for kind in KINDS}
        work = {kind: batch_work(setting, kind) for kind in (*KINDS, *codes)}
        rivals = ours | codes | peers.questions(d**p, VOCABULARIES[-1], BATCH)
        yield from shares(setting, rivals, ours | codes, work)


def batch_work(setting: str, kind: str) -> tuple[float, float]:
    osc = lines.scheme(setting, kind)
    done, dense = (
        BATCH * (lines.reading_work(osc, few) + lines.matching_work(osc, few, VOCABULARIES[-1]))
        for few in ("blocks" in kind, False)
    )
    return done, dense


def traces() -> Rows:
    """10,000 pairs into a tensor, contexts and fillers given, milliseconds, and shares of that rate."""
    for setting in ("B1", "B2", "B3"):
        d, p = SETTINGS[setting]
        ours = {kind: lines.tracing(setting, kind) for kind in KINDS}
        theirs, rows = peers.bundles(d**p)
        schemes = {kind: lines.scheme(setting, kind) for kind in KINDS}
        work = {
            kind: (TRACED * lines.storing_work(osc, "blocks" in kind), TRACED * lines.storing_work(osc, False))
            for kind, osc in schemes.items()
        }
        yield from shares(setting, ours | theirs, ours, work, dict.fromkeys(theirs, TRACED / rows))


def shares(
    setting: str,
    rivals: dict[str, Run],
    ours: dict[str, Run],
    work: dict[str, tuple[float, float]],
    scales: dict[str, float] | None = None,
) -> Rows:
    square, operations = gemm()
    for count, taken in in_turn(rivals | {"gemm": square}, 3.0):
        rate = operations / taken.pop("gemm")
        taken = {name: seconds * (scales or {}).get(name, 1.0) for name, seconds in taken.items()}
        row: Row = {"setting": setting, "threads": count, **figures(taken, "ms", 1e3)}
        for kind, (done, dense) in work.items():
            row[column(kind, "share")] = done / taken[kind] / rate
            if done != dense:
                row[column(kind, "share_as_dense")] = dense / taken[kind] / rate
        yield row | {"gemm_GFLOP_s": rate / 1e9}, ours


PARTS: dict[str, Callable[[], Rows]] = {
    "contexts": contexts,
    "Memory.store": lambda: from_labels(lines.storing, PAIRS, ("B2", "B4")),
    "Memory.recall_many": lambda: from_labels(lines.asking, QUESTIONS, ("B2", "B4")),
    "Memory.recall": lambda: from_labels(lines.asking_one, 1, ("B2",)),
    "questions": questions,
    "batches": batches,
    "traces": traces,
}

# The figures that were wished for: part, setting, vocabulary (or None), column, comparison, number.
# fmt: off
WANTED: list[tuple[str, str, int | None, str, str, float]] = [
    ("contexts",      "B2", None,   "gaussian_over_blocks",         ">=", 12),
    ("contexts",      "B4", None,   "gaussian_over_blocks_compact", ">=", 8),
    ("Memory.recall", "B2", None,   "blocks_compact_us",            "<=", 700),
    ("questions",     "B1", 10_000, "literal_over_blocks",          ">=", 10),
    ("questions",     "B2", 10_000, "literal_over_blocks",          ">=", 40),
    ("questions",     "B3", 10_000, "literal_over_blocks",          ">=", 120),
    ("questions",     "B2", 10_000, "blocks_over_bound",            "<=", 4),
    ("questions",     "B3", 10_000, "blocks_over_bound",            "<=", 8),
    ("questions",     "B1", 100,    "hlb_over_blocks",              ">=", 1),
    ("batches",       "B2", None,   "blocks_compact_share",         ">=", 0.5),
    ("batches",       "B2", None,   "blocks_compact_share_as_dense", ">=", 0.5),
    ("batches",       "B2", None,   "blocks_compact_top_share",     ">=", 0.5),
]
# fmt: on
KEYS = ("setting", "vocabulary", "threads")
COMPARED = {">=": operator.ge, "<=": operator.le}


def requirements(found: dict[str, list[Row]]) -> list[Row]:
    """Each wanted figure beside what was measured; one thread judges."""
    told = []
    for part, setting, size, name, sign, number in WANTED:
        rows = {
            row["threads"]: row[name]
            for row in found.get(part, [])
            if row["setting"] == setting and row.get("vocabulary") == size and row.get(name) is not None
        }
        line: Row = {"figure": name, "part": part, "setting": setting, "vocabulary": size, "wanted": f"{sign} {number}"}
        line |= {"one_thread": rows.get(1), "two_threads": rows.get(2)}
        told.append(line | {"reached": COMPARED[sign](rows[1], number) if 1 in rows else None})
    return told


def measured(part: str) -> tuple[list[Row], list[Row]]:
    """The part's rows, and the peak memory of its lines in one thread."""
    rows, memory = [], []
    for row, ours in PARTS[part]():
        rows.append(row)
        if row["threads"] == 1:
            with threads(1):
                taken: Row = {column(kind, "MB"): peak(run) for kind, run in ours.items()}
            memory.append({"part": part, "setting": row["setting"], "vocabulary": row.get("vocabulary"), **taken})
    return rows, memory


def in_parts(console: Console, title: str, rows: list[Row]) -> None:
    """The times in one table, what follows from them in a second."""
    for ending, times in ((title, True), ("", False)):
        chosen = [
            {name: value for name, value in row.items() if name in KEYS or name.endswith(("_us", "_ms")) == times}
            for row in rows
        ]
        show(console, ending, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; nothing is written then")
    chosen = parser.parse_args().only or list(PARTS)
    console = Console(width=200)
    found: dict[str, list[Row]] = {}
    memory: list[Row] = []
    with torch.inference_mode():
        for part in chosen:
            with console.status(part):
                found[part], taken = measured(part)
            memory += taken
            in_parts(console, f"{part}: {PARTS[part].__doc__ or from_labels.__doc__}", found[part])
    names = {name: None for row in memory for name in row}
    show(console, "peak memory of a call, MB", [{name: row.get(name) for name in names} for row in memory])
    told = requirements(found)
    show(console, "wanted, and measured", [row for row in told if row["part"] in chosen])
    if set(chosen) == set(PARTS):
        write("osc-speed.json", {"threads": list(thread_counts()), **found, "peak memory": memory, "wanted": told})


if __name__ == "__main__":
    main()
