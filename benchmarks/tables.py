"""The tables of figures in README.md and docs/performance.md, made from results/.

`python benchmarks/tables.py` - at the end of `make bench`. A table stands between `<!-- figures: NAME -->` and
`<!-- end of figures -->`; one whose results are not there stays as it is. A test compares them.
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from measuring import RESULTS, Row, said

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/performance.md", "docs/from-torchhd.md")
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
FOUR = ("gaussian", "blocks", "gaussian_compact", "blocks_compact")
TITLES = ("gaussian", "blocks", "compact, gaussian", "compact, blocks")
SLOWER = 1.05  # times as long, or as much, is told

Results = dict[str, dict]


def table(columns: tuple[str, ...], rows: list[list[object]], words: int = 1) -> str:
    """Markdown, of which the first columns are words and the others numbers."""
    ruler = ["---"] * words + ["---:"] * (len(columns) - words)
    return "".join(f"| {' | '.join(map(rounded, cells))} |\n" for cells in (columns, ruler, *rows))


def rounded(value: object) -> str:
    """Three digits at most, and no power of ten."""
    if isinstance(value, float) and 100 <= abs(value) < 1000:
        return f"{value:.0f}"
    return said(value)


def in_threads(rows: list[Row], count: int) -> list[Row]:
    return [row for row in rows if row["threads"] == count]


def questions(results: Results) -> str:
    names = (*FOUR, "literal", "hlb", "hrr", "map", "bound")
    titles = ("setting", "vocabulary", *TITLES, "literal", "HLB", "HRR", "MAP", "bound", "literal / blocks")
    rows = [
        [row["setting"], row["vocabulary"], *(row.get(f"{name}_us") for name in names), row["literal_over_blocks"]]
        for row in in_threads(results["osc-speed"]["questions"], 1)
    ]
    return table(titles, rows)


def labels(results: Results) -> str:
    """From labels to tensor and to answers."""
    parts = ("contexts", "Memory.store", "Memory.recall_many", "Memory.recall")
    rows = [
        [f"`{part}`" if "." in part else part, row["setting"], *(row[f"{name}_us"] for name in FOUR)]
        for part in parts
        for row in in_threads(results["osc-speed"][part], 1)
    ]
    return table(("what", "setting", *TITLES), rows, 2)


def wanted(results: Results) -> str:
    rows = [
        [
            f"{row['part']}: {row['figure'].replace('_over_', ' / ').replace('_', ' ')}",
            row["setting"] + (f", L={row['vocabulary']:,}" if row["vocabulary"] else ""),
            row["wanted"],
            row["one_thread"],
            row["two_threads"],
        ]
        for row in results["osc-speed"]["wanted"]
    ]
    return table(("figure", "setting", "wanted", "one thread", "two threads"), rows, 2)


def against(results: Results) -> str:
    """What was wished for, and how many lines are slower."""
    rows = results["against"]["rows"]
    single = in_threads(rows, 1)
    told = [
        [row[name] for name in ("line", "fillers", "before_ms", "same_ms", "blocks_ms", "before_over_blocks", "wanted")]
        for row in single
        if row["line"].startswith("Memory")
    ]
    columns = ("line", "fillers", "before, ms", "gaussian now", "blocks now", "before / blocks", "wanted")
    bases = {"same": "gaussian", "blocks": "blocks"}
    ratios = [(row, base, row[f"before_over_{base}"]) for row in single for base in bases if row[f"before_over_{base}"]]
    slower = [f"{_which(row, bases[base])} {ratio:.2f}" for row, base, ratio in ratios if ratio < 1 / SLOWER]
    room = [(row, base, row["before_MB"], row[f"{base}_MB"]) for row in rows for base in bases if f"{base}_MB" in row]
    heavier = [
        f"{_which(row, bases[base])} {before:.1f} and {now:.1f}"
        for row, base, before, now in room
        if before is not None and now is not None and now > max(SLOWER * before, before + 1)
    ]
    summary = (
        f"Slower than before by more than 5 %, in one thread, {len(slower)} of {len(ratios)} comparisons, by a factor "
        f"of: {', '.join(slower) or 'none'}. Higher peak memory, megabytes before and now: "
        f"{', '.join(heavier) or 'none'}."
    )
    return f"{table(columns, told, 2)}\n{summary}\n"


def _which(row: Row, basis: str) -> str:
    """A line of the comparison, in words."""
    return str(row["line"]) if row["fillers"] == "-" else f"{row['line']} ({row['fillers']}, {basis})"


def threads(results: Results) -> str:
    """A question in one thread and in two."""
    rows = results["osc-speed"]["questions"]
    pairs = zip(in_threads(rows, 1), in_threads(rows, 2), strict=True)
    cells = [
        [one["setting"], one["vocabulary"]] + [row[f"{name}_us"] for name in FOUR[1::2] for row in (one, two)]
        for one, two in pairs
    ]
    columns = ("setting", "vocabulary", "blocks, one thread", "two", "compact blocks, one thread", "two")
    return table(columns, cells)


def shares(part: str) -> Callable[[Results], str]:
    """Milliseconds, and shares of the rate of a large product."""

    def made(results: Results) -> str:
        rows = [
            [row["setting"], *(row.get(f"{name}_ms") for name in (*FOUR, "hrr", "map"))]
            + [row[f"{name}_share"] for name in FOUR]
            for row in in_threads(results["osc-speed"][part], 1)
        ]
        return table(("setting", *TITLES, "HRR", "MAP", *(f"share: {title}" for title in TITLES)), rows)

    return made


def memory(results: Results) -> str:
    rows = [
        [row["part"], row["setting"], row["vocabulary"], *(row[f"{name}_MB"] for name in FOUR)]
        for row in results["osc-speed"]["peak memory"]
        if f"{FOUR[0]}_MB" in row
    ]
    return table(("what", "setting", "vocabulary", *TITLES), rows, 2)


def campaign(results: Results) -> str:
    """What was attacked, how often, and how often that failed."""
    rows = []
    for part in results["campaign"].values():
        drifts = [f" ({row['drift']}, may be {row['bound']})" if "drift" in row else "" for row in part["rows"]]
        names = [row["what"].partition(":")[0] + drift for row, drift in zip(part["rows"], drifts, strict=True)]
        sums = [sum(row[name] for row in part["rows"]) for name in ("tried", "failed")]
        rows.append([part["title"], ", ".join(dict.fromkeys(names)), *sums])
    return table(("attack", "on", "tried", "failed"), rows, 2)


def kit(results: Results) -> str:
    """Functions that torch-hd has, too: its time over ours, for each architecture."""
    rows = results["kit-speed"]["rows"]
    kinds = list(dict.fromkeys(row["architecture"] for row in rows))
    ratios = {(row["function"], row["architecture"]): float(row["ratio"]) for row in rows}
    functions = dict.fromkeys(row["function"] for row in rows)
    return table(
        ("function", *kinds), [[f"`{name}`", *(ratios.get((name, kind)) for kind in kinds)] for name in functions]
    )


TABLES: dict[str, Callable[[Results], str]] = {
    "kit": kit,
    "questions": questions,
    "labels": labels,
    "wanted": wanted,
    "against": against,
    "threads": threads,
    "batches": shares("batches"),
    "traces": shares("traces"),
    "memory": memory,
    "campaign": campaign,
}


def renewed(text: str, results: Results) -> str:
    """A page with its tables made again."""

    def made(match: re.Match[str]) -> str:
        try:
            return f"{match[1]}{TABLES[match[2]](results)}{match[3]}"
        except (KeyError, TypeError, ValueError):  # not measured, or in the way of an earlier version
            return match[0]

    return MARKED.sub(made, text)


def read(folder: Path) -> Results:
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    results = read(parser.parse_args().results)
    for page in PAGES:
        path = ROOT / page
        path.write_text(renewed(path.read_text(), results))


if __name__ == "__main__":
    main()
