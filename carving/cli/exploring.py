"""`carving explore`: a page in the browser that shows a memory."""

import os
import sys
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving.cli.demo import stored
from carving.cli.input import Files
from carving.cli.options import Reading, examples
from carving.cli.output import errors, write_line
from carving.cli.quantizing import Labels, loaded
from carving.console import bar
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.memory import Memory
from carving.optional import load
from carving.storage.tensorfile import check_replaceable

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
        typer.Argument(metavar="MEMORY", help="Memory file. Default: the parse trees of `carving demo`."),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", hidden=True)] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE...",
            help="Files of the pairs stored in MEMORY: supply paths to pick, and correct answers to compare with.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Allow saving changes to MEMORY.")] = False,
    vocabulary: Labels = None,
) -> None:
    """Show a memory in a web page on this machine.

    The page shows its load, answers and their scores, changes a copy, and plans other memories. Ctrl-C stops it.
    """
    from carving.explore import MemoryDocument, serve  # only here: other commands need not wait for it

    load("uvicorn")  # before anything is read
    if more and not files:
        raise BadValue(f"explore takes one memory, got {more[0]} too. Pass files of pairs with --files.")
    pairs = list(Files.open([*files, *(more or ())], reading)) if files else []
    if memory is None:
        if pairs or write:
            raise BadValue("--files and --write require MEMORY. Name its file.")
        document = MemoryDocument(*demonstration())
    else:
        held = loaded(memory, vocabulary, reading)
        if write and not isinstance(held, Memory):
            raise BadValue(f"{memory} is a quantized memory, which cannot be changed. Omit --write.")
        if write:
            check_replaceable(memory, "memory", None)
        document = MemoryDocument(held, memory.name, pairs, memory if write else None)
    with suppress(KeyboardInterrupt):
        serve(document, port, browser, lambda address: write_line(f"Explorer running at {address} (Ctrl-C to stop)"))
    sys.stdout.flush()
    os._exit(0)  # do not wait for queries that are still being answered: no page will read them


def demonstration() -> tuple[Memory, str, list[Pair]]:
    """Return the memory of the demonstration, its name and its pairs."""
    with bar(errors, "planning and storing a thousand parse trees", None):
        held, pairs = stored()
    return held, "a thousand parse trees", pairs
