"""How the benchmarks measure: rivals that take turns, peak memory, the rate of a product, tables and files."""

import contextlib
import ctypes
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

RESULTS = Path(__file__).parent.parent / "results"

Run = Callable[[], object]
Row = dict[str, object]


def medians(rivals: dict[str, Run], seconds: float = 2.0) -> dict[str, float]:
    """Median seconds of a call of each rival; they take turns until the time is used up, three turns at least.

    Of rivals so slow that three turns would take five times as long, one turn has to do.
    """
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    start, turns = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < seconds or (turns < 3 and spent < 5 * seconds):
        for name, run in rivals.items():
            taken[name] += samples(run)
        turns += 1
    return {name: statistics.median(times) for name, times in taken.items()}


def samples(run: Run) -> list[float]:
    """Seconds of a call, three times over; a slow one's only once."""
    first = timed(run)
    if first > 0.2:
        return [first]
    # What follows finds in the caches what this rival, not the one before it, left there; a clock costs a microsecond.
    calls = max(1, round(2e-4 / max(first, 1e-6)))
    return [timed(run, calls) for _ in range(3)]


def timed(run: Run, calls: int = 1) -> float:
    """Seconds of a call: with one thread those of the processor, which others on the machine hardly change."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for torch, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def thread_counts() -> tuple[int, ...]:
    """One, and two where the process may have them (OMP_NUM_THREADS=1 says that it may not)."""
    return (1,) if torch.get_num_threads() == 1 else (1, 2)


def peak(run: Run, calls: int = 3) -> float | None:
    """Megabytes that a call takes beyond what is held before it, at most; None where there is no Linux to tell.

    Of some calls the one that takes least, because where the heap has gaps from before is a matter of chance.
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    run()
    return min(rise(run) for _ in range(calls)) / 1e6


def rise(run: Run) -> int:
    """Bytes that a call takes beyond what is held before it, at most."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)  # what was freed and kept would hide what the call takes
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins again
    before = _status("VmRSS")
    run()
    return max(0, _status("VmHWM") - before)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def gemm(size: int = 2048) -> tuple[Run, float]:
    """A square product, whose rate the other products are compared with, and its operations."""
    one, other = torch.randn(size, size), torch.randn(size, size)
    return lambda: one @ other, 2.0 * size**3


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def show(console: Console, title: str, rows: list[Row]) -> None:
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    columns = max(rows, key=len)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(said(row.get(column)) for column in columns))
    console.print(table)


def said(value: object) -> str:
    """A figure of three digits, a dash for what was not measured."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write(name: str, found: dict[str, object]) -> None:
    """Into results/, with what it was measured on."""
    machine = {"torch": torch.__version__, "machine": platform.machine(), "processor": _processor()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps(machine | found, indent=1) + "\n")


def _processor() -> str:
    """What Linux calls it, and the widest instructions that torch uses."""
    name = _cpuinfo("model name") or platform.processor()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _cpuinfo(field: str) -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")
