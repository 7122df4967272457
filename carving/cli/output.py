"""What commands show: lines and JSON, answers and memories in words, tables."""

import json
import math
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from carving.console import SafeConsole
from carving.formats.typed import label_argument, value_json, value_text
from carving.inference.answer import Answer
from carving.memory import Memory
from carving.schemes.base import Scheme
from carving.storage.atomic import NotFlushed
from carving.storage.locks import NotLocked, Waiting
from carving.storage.memoryfile import identity
from carving.symbols.codec import Path
from carving.validate import printable

ENDLESS = 10_000  # columns: what is piped is not folded to the width of a terminal that nobody looks at

TOLD = (NotFlushed, NotLocked, Waiting)  # warnings that are sentences for whoever gave a command

errors = SafeConsole(stderr=True, highlight=False)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Say in a line what a person should know of a command that did its work all the same."""
    with warnings.catch_warnings():
        as_usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, TOLD):
                errors.print(f"Warning: {message}", markup=False, soft_wrap=True)
            else:
                as_usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        for each in TOLD:
            warnings.simplefilter("always", each)
        yield


def screen() -> SafeConsole:
    """Where tables go: as wide as the terminal, or as they are."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return SafeConsole(highlight=False, width=None if is_terminal else ENDLESS)


class NotPrinted(Exception):
    """What a command has to say reaches nobody; its cause tells why."""


def write_line(*cells: str) -> None:
    """Print a text, or several with tabs between them, as they are; see `escaped`."""
    _print("\t".join(map(escaped, cells)))


def be_quiet() -> None:
    """Say nothing from now on, because another rank says it; but for bugs, and ranks that were lost."""
    errors.quiet = True


def _print(text: str) -> None:
    if errors.quiet:
        return
    try:
        typer.echo(text)
    except OSError as error:
        raise NotPrinted from error


def escaped(text: str) -> str:
    """The text; what the terminal cannot show or must not get is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return printable(text).encode(encoding, "backslashreplace").decode(encoding)


def write_json(value: object) -> None:
    """Print a value as one line of JSON; labels that JSON does not have as Python shows them."""
    _print(json.dumps(value, default=repr).replace("\x7f", r"\u007f"))  # the one control that JSON lets through


def answer_json(answer: Answer) -> dict[str, object]:
    """An answer for JSON; no probability as null."""
    probability = None if math.isnan(answer.probability) else answer.probability
    return asdict(answer) | dict(value=value_json(answer.value), probability=probability)


def answer_sentence(answer: Answer) -> str:
    """An answer for people."""
    if not answer.found and answer.value is None:
        return f"nothing is stored there (probability {answer.probability:.4f})"
    probability = "" if math.isnan(answer.probability) else f", probability {answer.probability:.4f}"
    return f"{value_text(answer.value)}  (score {answer.score:.2f}{probability})"


def ask_command(file: FilePath, path: Path) -> str | None:
    """The command that asks for a path, to be copied into a shell; None if no command line can say it."""
    roles = list(map(label_argument, path))
    if None in roles or not str(file).isprintable():
        return None
    arguments = [role for role in roles if role is not None]
    numbers = ["--"] if any(argument.startswith("-") for argument in arguments) else []  # negative ones are no options
    return shlex.join(["carving", "ask", str(file), *numbers, *arguments])


def memory_sentence(memory: Memory) -> str:
    """Describe a memory in a line."""
    return holding_sentence(memory.scheme, memory.pairs, len(memory.vocabulary))


def holding_sentence(scheme: Scheme, pairs: int, values: int) -> str:
    """Describe a memory in a line: its scheme, and how many pairs, distinct values and cells it has."""
    known = identity(scheme)
    parameters = ", ".join(f"{key}={value}" for key, value in known.items() if key != "name")
    held = f"{count_text(pairs, 'pair')}, {count_text(values, 'distinct value')}"
    return f"{known['name']} ({parameters}): {held}, {scheme.facts.memory_scalars:,} cells"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> count_text(1, "pair"), count_text(1200, "pair")
    ('1 pair', '1,200 pairs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def write_limited(lines: Sequence[str], limit: int, rest: str) -> None:
    """Print the first `limit` lines, then "and 5 more" followed by `rest`."""
    for line in lines[:limit]:
        write_line(line)
    if len(lines) > limit:
        write_line(f"and {len(lines) - limit:,} more {rest}")


def number_table(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    """A table of columns by their headers; all but the first hold numbers. A number that is cut off says another."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, (header, cells) in enumerate(columns.items()):
        if place == 0:
            table.add_column(header)
        else:
            table.add_column(header, justify="right", min_width=max(map(len, [header, *cells])))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table
