"""The scripts of examples/ print what they say, in at most 60 lines each."""

import ast
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, capsys):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    said = ast.get_docstring(ast.parse(text)).partition("prints:\n")[2]
    runpy.run_path(str(path), run_name="__main__")
    assert said and capsys.readouterr().out.rstrip() == said.rstrip()


def test_there_are_ten():
    assert len(EXAMPLES) >= 10
