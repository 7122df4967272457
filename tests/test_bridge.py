"""The pages for who comes from torchhd and for who works on plain tensors say what is true."""

import contextlib
import io
import re
from importlib import import_module
from pathlib import Path

import torch
import torchhd

import carving.hdc
from carving import encodings, structures

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "from-torchhd.md").read_text()


def rows(text):
    """Those of its tables, in cells."""
    return [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]


BRIDGE, OTHERS = (rows(part) for part in PAGE.split("## Coming from nengo-spa"))
NAMED = {name for row in BRIDGE for name in re.findall(r"`([\w.]+)`", row[0])}


def test_every_public_name_of_torchhd_stands_in_the_table():
    public = set(torchhd.__all__) | set(torchhd.functional.__all__)
    for room in ("embeddings", "structures", "models", "classifiers", "memory"):
        public |= {f"{room}.{name}" for name in import_module(f"torchhd.{room}").__all__}
    for name in torchhd.structures.__all__:
        methods = vars(getattr(torchhd.structures, name))
        public |= {f"structures.{name}.{method}" for method in methods if not method.startswith("_")}
    public |= {f"utils.{name}" for name in vars(torchhd.utils) if name.startswith("plot")}
    assert public == NAMED


def test_what_the_table_names_of_ours_exists():
    rooms = {"encodings": encodings, "structures": structures, "carving": carving, "torch": torch}
    scheme = carving.make("MAP-I", d=64)
    found = 0
    assert len(OTHERS) > 20
    for row in BRIDGE + OTHERS:
        for room, name in re.findall(r"`(scheme|encodings|structures|carving|torch)\.([\w.]+)", row[1]):
            thing = scheme if room == "scheme" else rooms[room]
            for part in name.split("."):
                assert hasattr(thing, part), f"{room}.{name}"
                thing = getattr(thing, part)
            found += 1
    assert found > 50


def test_the_protocols_examples_print_what_they_say():
    page = (DOCS / "protocol.md").read_text()
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(examples) == page.count("```python")
    for code, printed in examples:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        assert out.getvalue() == printed
