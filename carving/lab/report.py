"""One report over everything that ran, a summary first: report.md, and report.html with the figures inside."""

import base64
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from carving.lab.experiment import Experiment
from carving.lab.rows import Row
from carving.lab.summaries import Comparison, comparisons
from carving.lab.tables import Table, comparison_table, panel_table, reasons_table, verdicts_table
from carving.validate import printable


@dataclass(frozen=True)
class Outcome:
    """An experiment, and the rows that it has so far."""

    experiment: Experiment
    rows: Sequence[Row]
    unfinished: int = 0  # trials that are still to run


@dataclass(frozen=True)
class Heading:
    """A title, of level 1 or 2, and the name by which links find it."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure that lies beside the report."""

    file: Path
    text: str


@dataclass(frozen=True)
class Quoted:
    """A text in which words of others stand, from rows: no markup is meant there."""

    text: str


@dataclass(frozen=True)
class Contents:
    """Links to headings."""

    headings: Sequence[Heading]


Block = Heading | Picture | Quoted | Contents | str | Table


def title(experiment: Experiment) -> Heading:
    """What a section is called."""
    return Heading(f"{experiment.name}: {experiment.title}", anchor=experiment.name)


def section(outcome: Outcome, folder: Path) -> list[Block]:
    """What there is to say of one experiment, with its figure, if that lies in the folder."""
    experiment, rows = outcome.experiment, outcome.rows
    blocks: list[Block] = [title(experiment), f"In the paper: {experiment.source}."]
    if outcome.unfinished:
        total = outcome.unfinished + len(rows)
        blocks.append(f"Incomplete: {outcome.unfinished} of {total} trials have not run yet.")
    if experiment.notes:
        blocks.append(experiment.notes)
    picture = folder / f"{experiment.name}.svg"
    if picture.exists():
        blocks.append(Picture(picture, experiment.title))
    return [*blocks, *_tables(experiment, rows), *_beside_published(experiment, rows), _made_with(rows)]


def _beside_published(experiment: Experiment, rows: Sequence[Row]) -> list[Block]:
    """Ours beside the published numbers, as far as both are there."""
    every = comparisons(experiment, rows)
    if not every:
        return [f"No published number to compare with: {experiment.unpublished}"]
    reached = [comparison for comparison in every if comparison.ours is not None]
    blocks: list[Block] = ["Measured and published numbers:", comparison_table(reached)] if reached else []
    if len(reached) < len(every):
        blocks.append(f"{len(every) - len(reached)} of {len(every)} published numbers are not measured at this scale.")
    return blocks


def _tables(experiment: Experiment, rows: Sequence[Row]) -> list[Block]:
    blocks: list[Block] = []
    for panel in experiment.panels:
        head, body = panel_table(rows, panel)
        if body:
            name = panel.title or experiment.title
            blocks += [f"{name[:1].upper()}{name[1:]} (mean ± standard deviation over trials):", (head, body)]
    return blocks


def _made_with(rows: Sequence[Row]) -> Quoted:
    seconds = sum(row["seconds"] for row in rows)
    software = sorted({", ".join(f"{name} {number}" for name, number in row["versions"].items()) for row in rows})
    return Quoted(f"{len(rows)} trials, {seconds:,.1f} seconds of computation, with {'; '.join(software)}.")


def summary(outcomes: Sequence[Outcome]) -> list[Block]:
    """How many numbers agree, how many differ and why, what could not be compared."""
    every = {outcome.experiment.name: comparisons(outcome.experiment, outcome.rows) for outcome in outcomes}
    numbers = [comparison for several in every.values() for comparison in several]
    published = [comparison for comparison in numbers if not comparison.published.predicted]
    ours = [comparison for comparison in numbers if comparison.published.predicted]
    blocks: list[Block] = [
        f"{_count(published, 'published numbers')} {_count(ours, 'numbers predicted by our theory')}"
    ]
    blocks.append(verdicts_table(every))
    reasons = reasons_table(numbers)
    if reasons[1]:
        blocks += ["Why numbers differ, or cannot be compared:", reasons]
    return blocks


def _count(numbers: Sequence[Comparison], name: str) -> str:
    """What became of so many numbers, in a sentence."""
    counts = {word: sum(one.verdict.startswith(word) for one in numbers) for word in ("agrees", "differs", "not comp")}
    rest = len(numbers) - sum(counts.values())
    agree, differ, other = counts.values()
    said = f"Of {len(numbers)} {name}, {agree} agree with the measurement, {differ} differ"
    said += f", {other} cannot be compared" if other else ""
    return said + (f", {rest} were not measured at this scale, or in one trial only." if rest else ".")


def preface(scale: str) -> str:
    """What the numbers are."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return (
        f"Scale {scale}; written on {machine}. Every number in the column “ours” was measured by Carving: the files "
        "beside this report have one line of JSON per trial. Differences from published numbers are in standard "
        "errors, "
        "of our mean and of the published mean combined (the printed ± is taken for a standard deviation over 10 "
        "trials, "
        "the last digit for rounded). A difference of up to three standard errors counts as “agrees”. Two exact "
        "numbers "
        "agree if they are equal as printed. Accuracies are shares of 1."
    )


def write(outcomes: Sequence[Outcome], scale: str, folder: Path) -> Path:
    """report.md and report.html; the path of the first."""
    blocks: list[Block] = [
        Heading(f"Reproduction of the paper at scale {scale}", 1),
        *summary(outcomes),
        preface(scale),
        Contents([title(outcome.experiment) for outcome in outcomes]),
    ]
    for outcome in outcomes:
        blocks += section(outcome, folder)
    file = folder / "report.md"
    file.write_text(as_markdown(blocks))
    (folder / "report.html").write_text(PAGE.format(body="\n".join(map(_html, blocks))))
    return file


def as_markdown(blocks: Sequence[Block]) -> str:
    """A page of Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case str(text):
            return _raised(text)
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Contents(headings):
            return "\n".join(f"- [{heading.text}](#{slug(heading.text)})" for heading in headings)
        case Picture(file, text):
            return f"![{text}]({file.name})"
        case Quoted(text):
            return _plain(text)
        case (head, body):
            return _markdown_table(head, body)


def _markdown_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    ruler = ["---:" if _is_number(body, at) else "---" for at in range(len(head))]
    lines = [list(map(_plain, head)), ruler, *(list(map(_plain, line)) for line in body)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _raised(text: str) -> str:
    """A sentence of ours with its powers raised; code stays as it is.

    >>> _raised("d^(p-1) + 10^10, but `d^p`")
    'd<sup>p-1</sup> + 10<sup>10</sup>, but `d^p`'
    """
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"(?<=[\w)])\^(?:\(([^()]*)\)|(\w+))", r"<sup>\1\2</sup>", part) for part in parts[::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    """The text in Markdown that shows it as it is, on one line: without tags, links, images and other markup."""
    return re.sub(r"([\\`*\[\]|])", r"\\\1", escape(printable(text), quote=False))


def slug(text: str) -> str:
    """What a heading is called in links, as hosts of Markdown do it.

    >>> slug("tpr: minimum dimension for 99 %, TPR against OSC")
    'tpr-minimum-dimension-for-99--tpr-against-osc'
    """
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _is_number(body: Sequence[Sequence[str]], at: int) -> bool:
    """Whether a column is one of numbers."""
    cells = [line[at] for line in body if at < len(line) and line[at]]
    return bool(cells) and all(re.match(r"[-+−]?[\d∞]", cell) and len(cell) < 24 for cell in cells)


def _html(block: Block) -> str:
    match block:
        case str(text):
            return f"<p>{_set(text)}</p>"
        case Quoted(text):
            return f'<p class="made">{escape(printable(text))}</p>'
        case Heading(text, level, anchor):
            return f'<h{level} id="{escape(anchor)}">{escape(text)}</h{level}>'
        case Contents(headings):
            links = "".join(f'<li><a href="#{escape(one.anchor)}">{escape(one.text)}</a></li>' for one in headings)
            return f"<nav><ul>{links}</ul></nav>"
        case Picture(file, text):
            data = base64.b64encode(file.read_bytes()).decode()
            return f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{data}">'
        case (head, body):
            numbers = [_is_number(body, at) for at in range(len(head))]
            lines = "".join(_line(line, numbers) for line in body)
            return f"<table><thead>{_line(head, numbers, 'th')}</thead><tbody>{lines}</tbody></table>"


def _set(text: str) -> str:
    """A sentence of ours, set: names in backticks as code, powers raised."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _raised(escape(printable(text))))


def _line(cells: Sequence[str], numbers: Sequence[bool], tag: str = "td") -> str:
    kinds = [' class="number"' if number else "" for number in numbers]
    return (
        "<tr>"
        + "".join(f"<{tag}{k}>{escape(printable(c))}</{tag}>" for k, c in zip(kinds, cells, strict=True))
        + "</tr>"
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Carving: the paper, reproduced</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; }}
h2 {{ margin-top: 2.5em; }}
table {{ border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }}
td, th {{ border-bottom: 1px solid #8885; padding: 2px 8px; text-align: left; vertical-align: top; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.made {{ font-size: 13px; opacity: 0.75; }}
img {{ max-width: 100%; background: #fff; }}
nav ul {{ columns: 2 20em; }}
</style></head><body>
{body}
</body></html>
"""
