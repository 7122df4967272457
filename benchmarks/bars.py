"""The README's figures, drawn with characters, which show everywhere: in a terminal and on every page."""

import gzip
import json
import math
from pathlib import Path
from statistics import fmean

PAPER = Path(__file__).parent.parent / "results" / "paper"
WIDTH = 30
EIGHTHS = "▏▎▍▌▋▊▉█"

Bar = tuple[str, float, str]  # a name, a number, and the number in words


def paper_rows(name: str) -> list[dict]:
    """The rows of an experiment."""
    with gzip.open(PAPER / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def mean(rows: list[dict], quantity: str, **setting: object) -> float:
    """The mean of a quantity over the trials of one setting; None stands for a key that it does not have."""
    return fmean(
        row["measured"][quantity]
        for row in rows
        if all(row["setting"].get(key) == value for key, value in setting.items())
    )


def bar(share: float) -> str:
    """A share of the width, to an eighth of a character."""
    whole, rest = divmod(round(max(0.0, share) * WIDTH * 8), 8)
    return "█" * whole + (EIGHTHS[rest - 1] if rest else "")


def chart(bars: list[Bar], lowest: float | None = None) -> str:
    """Bars below each other; from `lowest` on they are logarithmic."""
    most = max(value for _, value, _ in bars)
    names, words = (max(len(one[at]) for one in bars) for at in (0, 2))
    lines = []
    for name, value, said in bars:
        share = value / most if lowest is None else math.log(value / lowest) / math.log(most / lowest)
        lines.append(f"{name:<{names}}  {said:>{words}}  {bar(share)}\n")
    return "```text\n" + "".join(lines) + "```\n"


def numbers_chart(_: object) -> str:
    """Numbers of memory and codebook for 99 %."""
    rows, n = paper_rows("compact"), 10_000
    osc = {"scheme": "OSC", "N": n}
    kinds: dict[str, dict] = {
        "tensor products": {"scheme": "TPR", "N": n},
        "OSC as published": osc | {"compact": None},
        "compact fillers": osc | {"compact": True, "joint": None},
        "compact, all decoded jointly": osc | {"compact": True, "joint": True, "spread": None},
        "and some contexts louder": osc | {"compact": True, "joint": True, "spread": 1.2},
    }
    values = {name: mean(rows, "numbers", **setting) for name, setting in kinds.items()}
    return chart([(name, value, f"{value:,.0f}") for name, value in values.items()])


def joint_chart(_: object) -> str:
    """Right answers against cells a pair, alone and together."""
    rows, bars = paper_rows("joint"), []
    for load in (40, 24, 12, 8, 6):
        setting = {"scheme": "OSC", "p": 2, "compact": True, "spread": None, "cells a pair": load}
        for name, quantity in ((f"{load:>2} numbers a fact, one at a time", "alone"), ("all together", "retrieval")):
            value = mean(rows, quantity, **setting)
            bars.append((f"{name:>32}", value, f"{value:.1%}"))
    return chart(bars)


def bits_chart(results: dict[str, dict]) -> str:
    """Bits a fact of 1,000 facts, here and elsewhere."""
    rows = {row["what"]: row["bits a fact"] for row in results["others"]["facts"]["1000"]}
    names = {
        "dict of Python": "dict of Python",
        "memory, each asked alone": "memory, asked alone, 99 %",
        "SQLite, a file": "SQLite, a file",
        "JSON, compressed by xz": "JSON, compressed by xz",
        "quantized memory, decoded jointly": "quantized memory, decoded jointly, 100.00% right",
    }
    bars = [(name, rows[row], f"{rows[row]:,.0f}") for name, row in names.items()]
    return chart([*bars, ("the least possible", math.log2(1000), f"{math.log2(1000):,.0f}")], lowest=4)
