"""How Sphinx makes the site; `make docs` gathers its pages first (pages.py)."""

import os
import re
from pathlib import Path

from sphinx.ext.napoleon import Config, GoogleDocstring

import carving

ROOT = Path(__file__).parent.parent
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the notebook's process: pages are read on every core

project = "Carving"
author = "The Carving authors"
project_copyright = author
version = release = carving.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "index"
myst_enable_extensions = ["attrs_block", "attrs_inline", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

default_role = "literal"  # docstrings write names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Carving {release}"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"
copybutton_exclude = ".linenos, .gp, .go"

NAMES = re.compile(r"`([^`]+)`")
MARKUP = re.compile(r"([*|_\\])")


def as_written(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText: names in backticks are code, Args, Returns and Raises are sections."""
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = NAMES.split(line)
            parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
            parts[1::2] = [f"``{part}``" for part in parts[1::2]]
            lines[number] = "".join(parts)
    if what not in ("attribute", "property"):  # whose colons would be taken for types
        lines[:] = GoogleDocstring(list(lines), Config(napoleon_use_ivar=True), what=what, name=name, obj=thing).lines()


def setup(app: object) -> None:
    """Sphinx calls it once."""
    app.connect("autodoc-process-docstring", as_written)  # type: ignore[attr-defined]
