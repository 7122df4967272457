"""`carving explore`: a page in the browser that shows a memory."""

import os
import sys
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.input import Files
from carving.cli.options import Reading, examples
from carving.cli.output import errors, write_line
from carving.cli.sealing import Labels, loaded
from carving.console import bar
from carving.errors import BadValue
from carving.extras import load
from carving.files import check_replaceable
from carving.formats.documents import Pair
from carving.memory import Memory

EXPLORE_EPILOG = examples(
    "carving explore",
    "carving explore facts.safetensors",
    "carving explore graph.safetensors --files wn18rr_train.tsv.xz",
    "carving explore facts.safetensors --write --no-browser --port 8000",
)


def explore(
    reading: Reading,
    memory: Annotated[
        FilePath | None,
        typer.Argument(metavar="MEMORY", help="The memory's file; without one, the demonstration's trees."),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", hidden=True)] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE...", help="Files of the pairs that it holds, for paths and truth."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; by default any that is free.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Changes may be saved to MEMORY.")] = False,
    vocabulary: Labels = None,
) -> None:
    """Show a memory on a page of this machine: how full it is, what it answers and why. Ctrl-C ends it."""
    from carving.explore import Exhibit, serve  # only here: other commands need not wait for it

    load("uvicorn")  # before anything is read
    if more and not files:
        raise BadValue(f"one memory is explored at a time, got {more[0]} too; files of its pairs come after --files")
    pairs = list(Files.open([*files, *(more or ())], reading)) if files else []
    if memory is None:
        if pairs or write:
            raise BadValue("--files and --write speak of a memory; name its file")
        exhibit = Exhibit(*demonstration())
    else:
        held = loaded(memory, vocabulary, reading)
        if write and not isinstance(held, Memory):
            raise BadValue(f"{memory} is sealed, and cannot be changed; leave --write out")
        if write:
            check_replaceable(memory, "memory", None)
        exhibit = Exhibit(held, memory.name, pairs, memory if write else None)
    with suppress(KeyboardInterrupt):
        serve(exhibit, port, browser, lambda address: write_line(f"the explorer is at {address} (Ctrl-C ends it)"))
    sys.stdout.flush()
    os._exit(0)  # a question that is still worked on is nobody's any more, and would be waited for


def demonstration() -> tuple[Memory, str, list[Pair]]:
    """The memory of the demonstration, its name and its pairs."""
    from carving import demo

    with bar(errors, "planning and storing a thousand parse trees", None):
        held, pairs = demo.stored()
    return held, "a thousand parse trees", pairs
