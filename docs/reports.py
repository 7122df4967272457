"""The report as pages of the site, and the figures that lie in results/paper: both made from the rows there.

`python docs/reports.py` - `make figures`: draws every figure of results/paper anew, and writes its report.md.
"""

import hashlib
import tempfile
from pathlib import Path

import matplotlib

from carving.lab.figures import draw
from carving.lab.report import Outcome, Picture, as_markdown, preface, section, summary, write
from carving.lab.reproduction import outcomes

ROOT = Path(__file__).parent.parent
PAPER = ROOT / "results" / "paper"
DRAWN = ROOT / "build" / "figures"  # figures that were drawn from the same rows by the same code


def pages() -> dict[str, bytes]:
    """Pages and figures, by their places in the site."""
    every = list(outcomes("paper", PAPER, {}))
    files: dict[str, bytes] = {}
    for outcome in every:
        name = outcome.experiment.name
        figure = drawn(outcome)
        blocks = section(outcome, PAPER)
        if figure is not None:
            files[f"figures/{name}.svg"] = figure
        text = as_markdown([block for block in blocks[1:] if not isinstance(block, Picture)])
        shown = f"![{outcome.experiment.title}](../figures/{name}.svg)\n\n" if figure is not None else ""
        head, _, rest = text.partition("\n\n")
        files[f"report/{name}.md"] = f"# {name}: {outcome.experiment.title}\n\n{head}\n\n{shown}{rest}".encode()
    files["report/index.md"] = first_page(every).encode()
    return files


def first_page(every: list[Outcome]) -> str:
    """The summary, and what there is."""
    names = [outcome.experiment.name for outcome in every]
    text = as_markdown(summary(every))
    for name in names:
        text = text.replace(f"| {name} |", f"| [{name}]({name}.md) |")
    contents = "\n".join(
        f"- [{one.experiment.name}]({one.experiment.name}.md): {one.experiment.title}" for one in every
    )
    toc = "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])
    return f"# The paper, reproduced\n\n{text}\n{preface('paper')}\n\n## Contents\n\n{contents}\n\n{toc}\n"


def drawn(outcome: Outcome) -> bytes | None:
    """The figure of an experiment, drawn if it is not there already."""
    name = outcome.experiment.name
    code = hashlib.sha256(matplotlib.__version__.encode())
    for file in [
        *sorted((ROOT / "carving" / "lab").rglob("*.py")),
        PAPER / f"{name}.jsonl.gz",
        PAPER / f"{name}.jsonl",
    ]:
        code.update(file.read_bytes() if file.exists() else b"")
    kept = DRAWN / f"{name}-{code.hexdigest()[:16]}.svg"
    if not kept.exists():
        DRAWN.mkdir(parents=True, exist_ok=True)
        for old in DRAWN.glob(f"{name}-" + "?" * 16 + ".svg"):
            old.unlink()
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder) / name
            kept.write_bytes(
                b"" if draw(outcome.experiment, outcome.rows, base) is None else base.with_suffix(".svg").read_bytes()
            )
    return kept.read_bytes() or None


def main() -> None:
    """The figures of results/paper, and its report."""
    every = list(outcomes("paper", PAPER, {}))
    for outcome in every:
        draw(outcome.experiment, outcome.rows, PAPER / outcome.experiment.name)
    write(every, "paper", PAPER)
    (PAPER / "report.html").unlink()


if __name__ == "__main__":
    main()
