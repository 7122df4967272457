"""Gathers the pages of the site: those of docs/, the reference, the gallery and the report, for Sphinx.

`python docs/pages.py build/pages` - the first half of `make docs`. New pages, examples, rooms and experiments are
found by themselves.
"""

import re
import sys
from pathlib import Path

import gallery
import reference
import reports

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CHAPTERS = {  # what stands where in the menu; what is not named here stands under "More"
    "Start": ["tutorial", "explore", "memories", "commands", "something-else"],
    "For": ["for-engineers", "for-researchers", "for-learners"],
    "Understand": ["how-it-works", "capacity", "joint-decoding", "beyond", "quantized", "solving", "candidates"],
    "Use": ["formats", "files", "paths", "distributed", "performance", "multilabel", "encodings", "architectures",
            "protocol", "clifford", "from-torchhd"],
    "Measured": ["results", "labels-measured", "experiments", "report/index", "campaign"],
    "Look up": ["gallery/index", "api/index", "contributing", "changelog"],
}  # fmt: skip
ELSEWHERE = {  # where pages point outside of docs/, and where that is in the site
    "../results/paper/report.md": "report/index.md",
    "../results/paper/": "figures/",
    "../examples": "gallery/index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../README.md": "index.md",
}


def gathered() -> dict[str, bytes]:
    """Every file of the site by its place."""
    files: dict[str, bytes] = {}
    for page in sorted(DOCS.glob("*.md")):
        files[page.name] = pointed(page.read_text()).encode()
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = re.sub(r"\]\(docs/", "](", (ROOT / f"{name}.md").read_text())
        files[f"{name.lower()}.md"] = text.replace("](CONTRIBUTING.md", "](contributing.md").encode()
    for drawing in (DOCS / "drawings").glob("*.svg"):
        files[f"drawings/{drawing.name}"] = drawing.read_bytes()
    files |= {f"api/{name}.md": text.encode() for name, text in reference.pages().items()}
    files |= {f"gallery/{name}": data for name, data in gallery.pages().items()}
    files |= reports.pages()
    files["index.md"] += menu([name.removesuffix(".md") for name in files if name.endswith(".md")]).encode()
    return files


def pointed(text: str) -> str:
    """A page whose links lead to where things are in the site."""
    for old, new in ELSEWHERE.items():
        text = text.replace(f"]({old}", f"]({new}")
    return text


def menu(pages: list[str]) -> str:
    """The tables of contents, hidden in the first page."""
    named = {page for chapter in CHAPTERS.values() for page in chapter}
    more = [page for page in pages if "/" not in page and page not in named and page != "index"]
    chapters = {title: [page for page in chapter if page in pages] for title, chapter in CHAPTERS.items()}
    parts = [
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *chapter, "```", ""])
        for title, chapter in (chapters | {"More": more}).items()
        if chapter
    ]
    return "\n".join(parts)


def main(out: Path) -> None:
    """Write what has changed, and remove what is no more: Sphinx makes only those pages anew."""
    files = gathered()
    for name, data in files.items():
        file = out / name
        if not file.exists() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    for file in out.rglob("*"):
        if file.is_file() and str(file.relative_to(out)) not in files:
            file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
