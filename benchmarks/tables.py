"""The tables and bars of figures in README.md and docs/, made from results/.

`python benchmarks/tables.py` - at the end of `make bench`. A table stands between `<!-- figures: NAME -->` and
`<!-- end of figures -->`; one whose results are not there stays as it is. A test compares them.
"""

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from bars import bits_chart, joint_chart, numbers_chart
from measuring import RESULTS, Row, said

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
FOUR = ("gaussian", "blocks", "gaussian_compact", "blocks_compact")
TITLES = ("gaussian", "blocks", "compact, gaussian", "compact, blocks")
SLOWER = 1.05  # times as long, or as much, is told


class NotMeasured(KeyError):
    """Results of a benchmark that are not there."""


class Results(dict[str, dict]):
    """What was measured, by benchmark."""

    def __missing__(self, name: str) -> dict:
        raise NotMeasured(name)


def table(columns: tuple[str, ...], rows: list[list[object]], words: int = 1, last: int = 0) -> str:
    """Markdown, of which the first and the last columns are words and the others numbers."""
    ruler = ["---"] * words + ["---:"] * (len(columns) - words - last) + ["---"] * last
    return "".join(f"| {' | '.join(map(rounded, cells))} |\n" for cells in (columns, ruler, *rows))


def rounded(value: object) -> str:
    """Three digits at most, and no power of ten."""
    if isinstance(value, float) and 100 <= abs(value) < 1000:
        return f"{value:.0f}"
    return said(value)


def in_threads(rows: list[Row], count: int) -> list[Row]:
    return [row for row in rows if row["threads"] == count]


def questions(results: Results) -> str:
    again = {"blocks_again": "blocks, again", "blocks_compact_again": "compact blocks, again"}
    names = (*FOUR, *again, "literal", "hlb", "hrr", "map", "bound")
    rivals = ("literal", "HLB", "HRR", "MAP", "bound", "literal / blocks")
    titles = ("setting", "vocabulary", *TITLES, *again.values(), *rivals)
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
            row["reached"],
        ]
        for row in results["osc-speed"]["wanted"]
    ]
    return table(("figure", "setting", "wanted", "one thread", "two threads", "reached"), rows, 2, 1)


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


def attacked(results: Results) -> str:
    """The same in a sentence."""
    parts = results["campaign"].values()
    tried, failed = (sum(row[name] for part in parts for row in part["rows"]) for name in ("tried", "failed"))
    ways = "kills, failing disks, damaged files, hostile input and more"
    return f"Attacked {tried:,} times, by [{ways}](docs/campaign.md): {failed:,} failed.\n"


def wished(name: str) -> Callable[[Results], str]:
    """What was wanted beside what was measured."""

    def made(results: Results) -> str:
        rows = [[row[each] for each in ("figure", "wanted", "measured")] for row in results[name]["wanted"]]
        return table(("figure", "wanted", "measured"), rows)

    return made


def ranks(results: Results) -> str:
    """Several processes beside one."""
    names = ("what", "one_process_s", "workers_s", "times_as_fast", "by_processor_time", "exchanges")
    rows = [[row[name] for name in names] for row in results["ranks-speed"]["rows"]]
    columns = ("what", "one process, s", "two workers, s", "times as fast", "by processor time", "exchanges, part")
    return table(columns, rows)


def arithmetic(results: Results) -> str:
    """Memories and vocabularies up to a billion, from measured rates and a network of a gigabyte a second."""
    known = results["ranks-speed"]["rates"]
    pair, product = known["pair_us"] / 1e6, 2 / known["operations"]  # seconds: of a pair at d=80, and of a cell of one
    other = pair - 80**3 * product  # what a pair takes beside its product

    def moved(n: int, size: float) -> str:
        through = 2 * (n - 1) / n * size
        return "none" if n == 1 else f"{amount(through)}, {span(through / 1e9)}"

    def labels(n: int) -> str:
        sent = n * 1e5 * known["label_bytes"]
        return "none" if n == 1 else f"{amount(sent)}, {span(sent / 1e9)}"

    one, many, weighed = 4 * 342**3, 4 * 737**3, known["candidates"] / 1e9
    lines: list[tuple[str, Callable[[int], str]]] = [
        (
            "a million pairs in one memory (d=342, p=3, 160 MB): storing",
            lambda n: span(1e6 * (other + 342**3 * product) / n),
        ),
        ("its sum: bytes through a rank, time", lambda n: moved(n, one)),
        (
            "its memory a rank: what is there, its own part, the result",
            lambda n: amount((2 if n == 1 else 3) * one),
        ),
        ("100,000 labels that every rank has met, from each to all", labels),
        (
            "ten million pairs in slabs (d=737, p=3, 1.6 GB): storing",
            lambda n: span(1e7 * (other + 737**3 * product / n)),
        ),
        ("its memory a rank: what is there, and the result", lambda n: amount(2 * many / n)),
        ("a billion pairs in 83,000 memories of d=80, p=3: storing", lambda n: span(1e9 * pair / n)),
        ("their tensors a rank", lambda n: amount(83_000 * 4 * 80**3 / n)),
        ("a billion compact fillers, p=2, k1=14: bytes a rank", lambda n: amount(1e9 * 4 * 2 * 14 / n)),
        ("questions a second to a billion candidates, in batches", lambda n: f"{weighed * n:.2g}"),
    ]
    rows = [[what, *map(each, (1, 16, 256))] for what, each in lines]
    return table(("", "1 rank", "16 ranks", "256 ranks"), rows)


def span(seconds: float) -> str:
    """A time, in the unit that a person would take."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.1g} s" if seconds < 10 else f"{seconds:.0f} s"


def amount(size: float) -> str:
    """So many bytes, rounded."""
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= each / 2:
            return f"{float(f'{size / each:.2g}'):g} {unit}"
    return f"{size:.0f} bytes"


def others(results: Results) -> str:
    """The same facts in a dictionary, in SQLite and elsewhere."""
    facts = results["others"]["facts"]
    rows = [
        [row["what"]]
        + [cell for part in (row, more) for cell in (part["bytes"], part["bits a fact"], part["us"])]
        + [row["changes"], row["strangers"]]
        for row, more in zip(facts["1000"], facts["10000"], strict=True)
    ]
    columns = ("1,000 facts: bytes", "bits a fact", "µs", "10,000 facts: bytes", "bits a fact", "µs")
    return table(("", *columns, "changes", "of what was never stored"), rows, last=2)


def kit(results: Results) -> str:
    """Functions that torch-hd has, too: its time over ours, for each architecture."""
    rows = results["kit-speed"]["rows"]
    kinds = list(dict.fromkeys(row["architecture"] for row in rows))
    ratios = {(row["function"], row["architecture"]): float(row["ratio"]) for row in rows}
    functions = dict.fromkeys(row["function"] for row in rows)
    return table(("function", *kinds), [[name, *(ratios.get((name, kind)) for kind in kinds)] for name in functions])


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
    "attacked": attacked,
    "others": others,
    "bars-numbers": numbers_chart,
    "bars-joint": joint_chart,
    "bars-bits": bits_chart,
    "ranks": ranks,
    "ranks-wanted": wished("ranks-speed"),
    "arithmetic": arithmetic,
    "index-wanted": wished("index-speed"),
}


def renewed(text: str, results: Results) -> str:
    """A page with its tables made again."""

    def made(match: re.Match[str]) -> str:
        try:
            return f"{match[1]}{TABLES[match[2]](results)}{match[3]}"
        except NotMeasured:
            return match[0]

    return MARKED.sub(made, text)


def read(folder: Path) -> Results:
    return Results((file.stem, json.loads(file.read_text())) for file in folder.glob("*.json"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    results = read(parser.parse_args().results)
    for page in PAGES:
        path = ROOT / page
        path.write_text(renewed(path.read_text(), results))


if __name__ == "__main__":
    main()
