"""One report over everything that ran: report.md, and report.html with the figures inside."""

import base64
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from carving.console import visible
from carving.lab.experiment import Experiment
from carving.lab.rows import Row
from carving.lab.summaries import comparisons
from carving.lab.tables import Table, comparison_table, panel_table


@dataclass(frozen=True)
class Outcome:
    """An experiment, and the rows that it has so far."""

    experiment: Experiment
    rows: Sequence[Row]
    unfinished: int = 0  # trials that are still to run


@dataclass(frozen=True)
class Heading:
    """A title, of level 1 or 2."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Picture:
    """A figure that lies beside the report."""

    file: Path
    text: str


@dataclass(frozen=True)
class Quoted:
    """A text in which words of others stand, from rows: no markup is meant there."""

    text: str


Block = Heading | Picture | Quoted | str | Table


def section(outcome: Outcome, folder: Path) -> list[Block]:
    """What there is to say of one experiment, with its figure, if that lies in the folder."""
    experiment, rows = outcome.experiment, outcome.rows
    blocks: list[Block] = [Heading(f"{experiment.name}: {experiment.title}"), f"The paper: {experiment.source}."]
    if outcome.unfinished:
        total = outcome.unfinished + len(rows)
        blocks.append(f"Unfinished: {outcome.unfinished} of {total} trials are still to run.")
    if experiment.notes:
        blocks.append(experiment.notes)
    blocks += _beside_published(experiment, rows)
    picture = folder / f"{experiment.name}.png"
    if picture.exists():
        blocks.append(Picture(picture, experiment.title))
    return [*blocks, *_tables(experiment, rows), _made_with(rows)]


def _beside_published(experiment: Experiment, rows: Sequence[Row]) -> list[Block]:
    """Ours beside the published numbers, as far as both are there."""
    every = comparisons(experiment, rows)
    if not every:
        return [f"No number to compare with: {experiment.unpublished}"]
    reached = [comparison for comparison in every if comparison.ours is not None]
    blocks: list[Block] = [comparison_table(reached)] if reached else []
    if len(reached) < len(every):
        blocks.append(f"{len(every) - len(reached)} of {len(every)} published numbers are not run at this scale.")
    return blocks


def _tables(experiment: Experiment, rows: Sequence[Row]) -> list[Block]:
    blocks: list[Block] = []
    for panel in experiment.panels:
        head, body = panel_table(rows, panel)
        if body:
            blocks += [f"{panel.title or experiment.title} (mean ± standard deviation over trials)", (head, body)]
    return blocks


def _made_with(rows: Sequence[Row]) -> Quoted:
    seconds = sum(row["seconds"] for row in rows)
    software = sorted({", ".join(f"{name} {number}" for name, number in row["versions"].items()) for row in rows})
    return Quoted(f"{len(rows)} trials, {seconds:,.1f} seconds of work. Made with {'; '.join(software)}.")


def write(outcomes: Sequence[Outcome], scale: str, folder: Path) -> Path:
    """report.md and report.html; the path of the first."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    blocks: list[Block] = [
        Heading(f"The paper, reproduced at scale `{scale}`", 1),
        f"Machine: {machine}. Every number in the column `ours` was measured by the rows that lie beside this report "
        "(one line of JSON a trial); published numbers stand in their own column. A difference is given in standard "
        "errors, of our mean and of the published one together (the printed ± is taken for a standard deviation over "
        "10 trials, the last digit for rounded); up to three of them `agrees`. Two exact numbers agree when they are "
        "equal as printed. Accuracies are shares of 1.",
    ]
    for outcome in outcomes:
        blocks += section(outcome, folder)
    file = folder / "report.md"
    file.write_text("\n\n".join(map(_markdown, blocks)) + "\n")
    (folder / "report.html").write_text(PAGE.format(body="\n".join(map(_html, blocks))))
    return file


def _markdown(block: Block) -> str:
    match block:
        case str():
            return block
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Picture(file, text):
            return f"![{text}]({file.name})"
        case Quoted(text):
            return _plain(text)
        case (head, body):
            lines = [list(map(_plain, head)), ["---"] * len(head), *(list(map(_plain, line)) for line in body)]
            return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    """The text in Markdown that shows it as it is, on one line: without tags, links, images and other markup."""
    return re.sub(r"([\\`*\[\]|])", r"\\\1", escape(visible(text), quote=False))


def _html(block: Block) -> str:
    match block:
        case str(text) | Quoted(text):
            return f"<p>{escape(visible(text))}</p>"
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Picture(file, text):
            data = base64.b64encode(file.read_bytes()).decode()
            return f'<img alt="{escape(text)}" src="data:image/png;base64,{data}">'
        case (head, body):
            return f"<table><thead>{_line(head, 'th')}</thead><tbody>{''.join(map(_line, body))}</tbody></table>"


def _line(cells: Sequence[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(visible(cell))}</{tag}>" for cell in cells) + "</tr>"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Carving: the paper, reproduced</title>
<style>
body {{ font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }}
td, th {{ border-bottom: 1px solid #ccc; padding: 2px 8px; text-align: left; }}
img {{ max-width: 100%; }}
</style></head><body>
{body}
</body></html>
"""
