"""`carving where`: which paths hold a value."""

from itertools import chain
from typing import Annotated

import typer

from carving.cli.input import Files
from carving.cli.options import Json, MemoryFile, Reading, examples
from carving.cli.output import answer_json, answer_sentence, errors, write_json, write_line
from carving.cli.quantizing import Labels, loaded
from carving.console import bar
from carving.formats.typed import path_text, value_json, value_readings
from carving.inference.answer import Answer
from carving.symbols.codec import Path, Value

WHERE_EPILOG = examples(
    "carving where facts.safetensors dog",
    "carving where graph.safetensors animal.n.01 --paths wn18rr_train.tsv.xz --json",
)


def where(
    memory: MemoryFile,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Value to look for; a number is tried as a number and as text.")
    ],
    reading: Reading,
    searched: Annotated[
        list[str] | None,
        typer.Option(
            "--paths",
            metavar="FILE",
            help="File of pairs whose paths are searched; may be repeated. Default: the paths that the memory keeps.",
        ),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Minimum probability.")] = 0.5,
    text: Annotated[bool, typer.Option("--text", help="Read the value as text, even if it is a number.")] = False,
    vocabulary: Labels = None,
    as_json: Json = False,
) -> None:
    """Find the paths that hold a value, most probable first. Exit status 1 if there is none."""
    held = loaded(memory, vocabulary, reading)
    paths = [path for path, _ in Files.open(searched, reading)] if searched else None
    readings = value_readings(value, text)
    with bar(errors, "querying", None) as advance:
        answers = (held.where(read, paths, threshold=threshold, on_progress=advance) for read in readings)
        found = sorted(chain.from_iterable(answers), key=lambda each: -each[1].probability)
    if as_json:
        write_json([dict(path=list(map(value_json, path))) | answer_json(answer) for path, answer in found])
    else:
        for path, answer in found:
            write_line(path_text(path), answer_sentence(answer))
        if not found:
            errors.print(f"No path holds {value}.", markup=False)
        write_taken(value, readings, found)
    raise typer.Exit(0 if found else 1)


def write_taken(argument: str, readings: list[Value], found: list[tuple[Path, Answer]]) -> None:
    """Print how the argument was read where it may be a number or text."""
    taken = {type(answer.value): answer.value for _, answer in found}
    if len(readings) > 1 and taken:
        words = " and ".join(
            f"the text {value!r}" if isinstance(value, str) else repr(value) for value in taken.values()
        )
        errors.print(f"{argument} was read as {words}.", markup=False, soft_wrap=True)
