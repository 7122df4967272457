"""One report over everything that ran: report.md, and report.html with the figures inside."""

import base64
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from carving.lab.experiment import Experiment
from carving.lab.figures import draw
from carving.lab.runner import Row
from carving.lab.tables import Table, comparison_table, comparisons, panel_table


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


Block = Heading | Picture | str | Table


def section(experiment: Experiment, rows: Sequence[Row], folder: Path, unfinished: int = 0) -> list[Block]:
    """What there is to say of one experiment; its figure is drawn into the folder."""
    blocks: list[Block] = [Heading(f"{experiment.name}: {experiment.title}"), f"The paper: {experiment.source}."]
    if unfinished:
        blocks.append(f"Unfinished: {unfinished} of {unfinished + len(rows)} trials are still to run.")
    if experiment.notes:
        blocks.append(experiment.notes)
    found = comparisons(experiment, rows)
    reached = [one for one in found if one.ours is not None]
    if reached:
        blocks.append(comparison_table(reached))
    if len(reached) < len(found):
        blocks.append(f"{len(found) - len(reached)} of {len(found)} published numbers are not run at this scale.")
    if not found:
        blocks.append(f"No number to compare with: {experiment.unpublished}")
    picture = draw(experiment, rows, folder / experiment.name)
    if picture is not None:
        blocks.append(Picture(picture, experiment.title))
    for panel in experiment.panels:
        head, body = panel_table(rows, panel)
        if body:
            blocks += [f"{panel.title or experiment.title} (mean ± standard deviation over trials)", (head, body)]
    seconds = sum(row["seconds"] for row in rows)
    made = sorted({", ".join(f"{k} {v}" for k, v in row["versions"].items()) for row in rows})
    blocks.append(f"{len(rows)} trials, {seconds:,.1f} seconds of work. Made with {'; '.join(made)}.")
    return blocks


def write(sections: Sequence[Sequence[Block]], scale: str, folder: Path) -> Path:
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
    for part in sections:
        blocks += part
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
        case (head, body):
            lines = [head, ["---"] * len(head), *body]
            return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _html(block: Block) -> str:
    match block:
        case str():
            return f"<p>{escape(block)}</p>"
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Picture(file, text):
            data = base64.b64encode(file.read_bytes()).decode()
            return f'<img alt="{escape(text)}" src="data:image/png;base64,{data}">'
        case (head, body):
            return f"<table><thead>{_line(head, 'th')}</thead><tbody>{''.join(map(_line, body))}</tbody></table>"


def _line(cells: Sequence[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


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
