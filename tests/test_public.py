"""What the world sees: the names, the README, the command line."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

import carving
from carving.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_all_is_true():
    modules = {path.stem for path in (ROOT / "carving").iterdir()}
    public = {name for name in vars(carving) if not name.startswith("_") and name not in modules}
    assert public == set(carving.__all__)
    assert len(carving.__all__) <= 15


def test_the_readmes_examples_print_what_they_say():
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(examples) == README.count("```python")
    for code, printed in examples:
        assert len(code.strip().splitlines()) <= 12
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        assert out.getvalue() == printed


def test_the_examples_of_the_documents_run(capsys):
    """Blocks of code that import what they use; the others are fragments."""
    for document in (ROOT / "docs").glob("*.md"):
        for code in re.findall(r"```python\n((?:import|from carving import).*?)```", document.read_text(), re.DOTALL):
            exec(code, {})
    assert capsys.readouterr().out


def test_the_readmes_tree_names_every_file():
    tree = re.search(r"## What is where\n\n```text\n(.*?)```", README, re.DOTALL).group(1)
    named = {line.split()[0] for line in tree.splitlines() if line.startswith("  ") and ".py " in line}
    real = {p.name for folder in ("carving", "benchmarks", "tests") for p in (ROOT / folder).glob("*.py")}
    assert named == real


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {one or other for one, other in re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)`", README, re.MULTILINE)}
    assert named
    assert named <= targets


def test_every_command_has_help():
    for command in app.registered_commands:
        result = CliRunner().invoke(app, [command.callback.__name__, "--help"])
        assert result.exit_code == 0
        assert command.callback.__doc__.split("\n")[0] in " ".join(result.output.split())


def test_every_command_stands_in_the_readme():
    for command in app.registered_commands:
        assert f"`carving {command.callback.__name__}" in README


def test_a_bad_option_ends_with_status_two_and_no_traceback():
    command = [sys.executable, "-m", "carving", "demo", "--trees", "0"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
