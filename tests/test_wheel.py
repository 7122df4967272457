"""What is installed: the files of the wheel, what it says of itself, and that it works without extras."""

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from importlib.metadata import EntryPoint
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import carving
from carving.optional import EXTRAS, MissingExtra, load

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
BASE = {"filelock", "numpy", "rich", "torch", "typer"}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # where a package is installed by another name than it is imported by

# Python takes None in `sys.modules` for a package that is not installed.
WITHOUT_EXTRAS = f"import sys; sys.modules |= dict.fromkeys({[*EXTRAS, 'pandas', 'polars', 'safetensors']})\n"
IMPORT_ALL = """
from importlib import import_module
from pkgutil import walk_packages

import carving

for module in walk_packages(carving.__path__, "carving."):
    try:
        import_module(module.name)
    except ImportError as error:
        print(f"{module.name}: {error}")
"""
RUN_COMMAND = "from runpy import run_module; run_module('carving', run_name='__main__')"


pytestmark = pytest.mark.xdist_group("wheel")  # in one process, so that it is built once


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, once):
    """The wheel, built without a network in a copy, so that nothing is left in the repository nor taken from it."""
    once("wheel")
    copy = tmp_path_factory.mktemp("source")
    for folder in ("benchmarks", "carving", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, copy)
    subprocess.run([sys.executable, "-c", BUILD, "dist"], cwd=copy, check=True, capture_output=True)
    (built,) = (copy / "dist").glob("*.whl")
    with ZipFile(built) as archive:
        yield archive


def about(wheel: ZipFile, file: str) -> str:
    """A file of those that describe the wheel."""
    return wheel.read(f"carving-{carving.__version__}.dist-info/{file}").decode()


@pytest.fixture
def metadata(wheel) -> Message:
    return Parser().parsestr(about(wheel, "METADATA"))


@pytest.fixture
def requirements(metadata) -> list[Requirement]:
    return [Requirement(line) for line in metadata.get_all("Requires-Dist")]


def needed(requirements: list[Requirement], extra: str) -> set[str]:
    """The names of what an extra brings beside the base, with the extras that it takes of others; "" is the base."""
    return {
        r.name + (f"[{','.join(sorted(r.extras))}]" if r.extras else "")
        for r in requirements
        if (r.marker is None if extra == "" else r.marker is not None and r.marker.evaluate({"extra": extra}))
    }


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel):
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "carving").rglob("*.py")}
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "carving" / "explore" / "page").iterdir()}
    assert held == modules | page | {"carving/py.typed"}


def test_the_wheel_carries_its_licence(wheel):
    assert about(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_the_wheel_brings_the_command(wheel):
    entries = ConfigParser()
    entries.read_string(about(wheel, "entry_points.txt"))
    assert {section: list(entries[section]) for section in entries.sections()} == {"console_scripts": ["carving"]}
    assert callable(EntryPoint("carving", entries["console_scripts"]["carving"], "console_scripts").load())


def test_the_metadata_are_what_people_expect(metadata):
    assert metadata["Author"] == "The Carving authors"
    assert metadata["Version"] == carving.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    classifiers = metadata.get_all("Classifier")
    assert [c for c in classifiers if c.startswith("Development Status ::")]
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_base_is_small_and_extras_bring_the_rest(metadata, requirements):
    assert needed(requirements, "") == BASE
    extras = ["explore", "multilabel", "parquet", "plots", "all", "campaign", "docs", "dev"]
    assert metadata.get_all("Provides-Extra") == extras
    assert needed(requirements, "explore") == {"uvicorn"}
    assert needed(requirements, "multilabel") == {"scikit-learn", "scipy", "threadpoolctl"}
    assert needed(requirements, "parquet") == {"pyarrow"}
    assert needed(requirements, "plots") == {"matplotlib"}
    assert needed(requirements, "all") == {"carving[explore,multilabel,parquet,plots]"}
    assert needed(requirements, "campaign") == {"atheris"}
    assert needed(requirements, "dev") > {"carving[all]", "carving[docs]"}


def test_every_package_that_may_be_missing_has_its_extra(requirements):
    for package, extra in EXTRAS.items():
        assert DISTRIBUTIONS.get(package, package) in needed(requirements, extra)


def test_every_requirement_is_pinned(requirements):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    for requirement in requirements:
        if requirement.name != "carving":
            assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_a_missing_extra_is_told_with_the_command_that_installs_it(package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtra, match=rf"{package} is not installed. Install it with: pip install 'carving\[{extra}\]'"
    ):
        load(f"{package}.whatever")


def test_every_module_imports_without_extras():
    run = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS + IMPORT_ALL], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


def without_extras(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`carving` with these arguments, where no extra is installed."""
    command = [sys.executable, "-c", WITHOUT_EXTRAS + RUN_COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_the_demo_without_plots_skips_its_picture_and_says_so(tmp_path):
    run = without_extras("demo", "--trees", "5", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "carving[plots]" in run.stdout + run.stderr
    assert not list(tmp_path.glob("*.png"))


def test_training_without_the_extra_ends_with_a_sentence(tmp_path):
    (tmp_path / "points.txt").write_text("2 2 2\n0 0:1.0\n1 1:1.0\n")
    run = without_extras("train", "points.txt", "model.safetensors", folder=tmp_path)
    assert run.returncode == 2, run.stderr
    assert re.search(r"pip install 'carving\[multilabel\]'", " ".join(run.stderr.split()))
    assert "Traceback" not in run.stderr
