"""What the world sees: the names, the README, the command line."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from typer.testing import CliRunner

import carving
from carving.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
MODULES = ["carving", *(module.name for module in walk_packages(carving.__path__, "carving."))]
PACKAGES = (
    "clifford",
    "distributed",
    "encodings",
    "formats",
    "hdc",
    "inference",
    "lab",
    "multilabel",
    "planner",
    "schemes",
    "structures",
)


def test_all_is_true():
    modules = {path.stem for path in (ROOT / "carving").iterdir()}
    public = {name for name in vars(carving) if not name.startswith("_") and name not in modules}
    assert public == {*carving.__all__, "open"}  # which a star must not import: it would shadow a builtin
    assert len(carving.__all__) <= 15


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.xdist_group("plans")  # many of them plan: in one process, so that what plans draw is drawn once
def test_the_examples_of_docstrings_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where examples may save files
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert not failed


def test_every_public_name_has_an_example():
    missing = []
    for package in (carving, *(import_module(f"carving.{name}") for name in PACKAGES)):
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if (inspect.isroutine(thing) or inspect.isclass(thing)) and ">>>" not in (thing.__doc__ or ""):
                missing.append(f"{package.__name__}.{name}")
    assert not missing, f"without an example that runs: {', '.join(missing)}"


def test_the_table_of_packages_names_every_package():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"^## The packages.*?(?=^## )", text, re.MULTILINE | re.DOTALL).group()
    first = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    packages = [path for path in (ROOT / "carving").iterdir() if (path / "__init__.py").exists()]
    files = [path for path in (ROOT / "carving").glob("*.py") if not path.name.startswith("__")]
    assert sorted(named) == sorted([f"{package.name}/" for package in packages] + [file.stem for file in files])


def test_tables_of_figures_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = import_module("tables")
    results = tables.read(ROOT / "results")
    for page in tables.PAGES:
        text = (ROOT / page).read_text()
        assert {name for _, name, _ in tables.MARKED.findall(text)} <= set(tables.TABLES)
        assert tables.renewed(text, results) == text, f"{page} is not what was measured; python benchmarks/tables.py"


def test_every_file_says_what_it_is():
    for path in (ROOT / "carving").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_citation_has_the_version_and_the_date_of_the_last_release_if_there_is_one():
    citation = dict(re.findall(r"^(version|date-released): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    released = re.findall(r"^## \[(.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation["version"] == carving.__version__
    assert citation.get("date-released") == (dict(released)[carving.__version__] if released else None)


def test_every_ci_runs_the_same_targets():
    here = re.findall(r"^make ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    forge = re.findall(r"run: make ([a-z-]+)$", (ROOT / ".github" / "workflows" / "ci.yml").read_text(), re.MULTILINE)
    assert here
    assert here == forge


def test_pre_commit_runs_the_checks_of_make():
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE).group(1)
    checks = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    hooks = re.findall(r"entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert hooks == checks


def test_every_make_target_is_told_of_and_exists():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = {
        one or other for one, other in re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", COMMANDS + README, re.MULTILINE)
    }
    assert named == targets - {"clean"}


def test_every_command_has_help():
    for command in app.registered_commands:
        result = CliRunner().invoke(app, [command.callback.__name__, "--help"])
        assert result.exit_code == 0
        assert command.callback.__doc__.split("\n")[0] in " ".join(result.output.split())


def test_every_command_stands_in_the_table_of_commands():
    for command in app.registered_commands:
        assert f"`carving {command.callback.__name__}" in COMMANDS


def test_a_bad_option_ends_with_status_two_and_no_traceback():
    command = [sys.executable, "-m", "carving", "demo", "--trees", "0"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


def test_only_programs_of_our_own_change_settings_of_the_process():
    """Threads and filters of warnings belong to the program that imports the library."""
    settings = {"set_num_threads", "set_default_dtype", "catch_warnings", "simplefilter", "filterwarnings"}
    changing = {
        path.relative_to(ROOT / "carving").as_posix()
        for path in (ROOT / "carving").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in settings
    }
    assert changing == {"cli/output.py", "lab/threads.py"}
