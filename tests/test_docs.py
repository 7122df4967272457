"""The documents: their code runs and prints what they say, their links lead somewhere, the site finds every page."""

import contextlib
import io
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from carving import formats, schemes
from carving.lab.report import slug

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "results" / "paper" / "report.md"]
# A block of Python, marked if it cannot run here, and what it prints.
BLOCK = re.compile(r"(<!-- not run: .+? -->\n)?```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
named = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def printed(code: str, names: dict) -> str:
    """What code prints; filters that it sets go with it."""
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue().replace("\r\n", "\n")


@pytest.fixture
def _unregister():
    """Take out again what examples register, which other tests would count."""
    tables = schemes._MAKERS, formats.FORMATS
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            del table[name]


@pytest.mark.usefixtures("_unregister")
@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
@pytest.mark.xdist_group("plans")  # many of them plan: in one process, so that what plans draw is drawn once
def test_every_block_runs_alone_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where examples may save files
    text = page.read_text()
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python\n"), "a block does not end, or no line follows it"
    for marked, code, said in blocks:
        if not marked:
            out = printed(code, {"__name__": "example"})
            assert out == said, f"{page.name} must show, as a block of text below this one:\n{code}\n{out}"


def test_the_readmes_examples_are_short():
    for _, code, said in BLOCK.findall(PAGES[0].read_text()):
        assert said and len(code.strip().splitlines()) <= 12


def test_the_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = CELL.findall((DOCS / "tutorial.md").read_text())
    names: dict = {"__name__": "notebook"}
    out = [printed(cell, names) for cell in cells]
    assert len(cells) > 12
    assert out[-1].startswith("22 pairs")


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead."""
    text = FENCED.sub("", page.read_text())
    return {slug(re.sub(r"[`*]", "", title)) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings_that_exist(page):
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        assert file.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}; {file.name} has no such heading"


def test_the_site_finds_every_page_and_every_room(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    reference = import_module("reference")
    made = reference.pages()
    assert {"index", "carving", "carving.multilabel", "carving.formats"} <= set(made)
    for name in import_module("carving").__all__:
        assert f"carving.{name}" in made["carving"] or f"`{name}`" in made["carving"]
    monkeypatch.setitem(sys.modules, "gallery", reference)  # neither runs examples nor draws figures here
    monkeypatch.setitem(sys.modules, "reports", reference)
    menu = import_module("pages").menu([page.stem for page in PAGES[1:]] + ["brand-new"])
    assert all(re.search(rf"^{page.stem}$", menu, re.MULTILINE) for page in PAGES[1:] if page.stem != "index")
    assert "brand-new" in menu
    menu = import_module("pages").menu([page.stem for page in PAGES[1:]])
    assert ":caption: More" not in menu, "every page of ours has a chapter of the menu"
