"""What commands take: arguments and options that several share, and groups of options as one value."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from carving.distributed.joining import TIMEOUT
from carving.errors import BadValue
from carving.formats import FORMATS
from carving.prediction.wish import SLACK

MemoryFile = Annotated[Path, typer.Argument(metavar="MEMORY", help="The memory's file (.safetensors).")]
Sources = Annotated[list[str], typer.Argument(metavar="FILE", help="Files of pairs; - is the standard input.")]
OwnSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...", help="Files of pairs, whose paths are asked for; by default those that it keeps."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
SLACK_HELP = "Take so much more than the fewest numbers, as a fraction, where questions get cheaper; 0.1 if not given."
Accuracy = Annotated[float, typer.Option(help="The share of questions that are to be answered right.")]
KeepPaths = Annotated[
    bool,
    typer.Option(
        "--keep-paths", help="A new memory keeps its paths: it can list, export and grow what it holds by itself."
    ),
]


@dataclass(frozen=True)
class Reading:
    """How files of pairs are read."""

    format: Annotated[
        str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}, parquet; by default told from the name.")
    ] = None
    key: Annotated[str | None, typer.Option("--key", help="Tables: the column that names the row.")] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Tables: what parts the columns, such as ; or tab.")
    ] = None
    fields: Annotated[str | None, typer.Option("--fields", help="CoNLL-U: the fields to take, parted by commas.")] = (
        None
    )
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count malformed lines instead of stopping at the first.")
    ] = False


@dataclass(frozen=True)
class NewMemory:
    """What a memory is to be that does not exist yet."""

    scheme: Annotated[str | None, typer.Option(help="A new memory's scheme; by default the planner chooses.")] = None
    d: Annotated[int | None, typer.Option(help="A new memory's dimension.")] = None
    p: Annotated[int | None, typer.Option(help="A new memory's order, for OSC.")] = None
    k1: Annotated[int | None, typer.Option(help="A new memory's kept dimensions, for OSC.")] = None
    compact: Annotated[
        bool | None, typer.Option("--compact/--no-compact", help="A new memory's fillers, for OSC: k1 numbers, or d.")
    ] = None
    dictionary: Annotated[
        int | None, typer.Option(min=2, help="A new memory's compact fillers are made of so many fixed vectors.")
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="A new memory's seed.")] = None
    basis: Annotated[str | None, typer.Option(help="A new memory's contexts, for OSC: blocks or gaussian.")] = None
    accuracy: Annotated[
        float | None, typer.Option(help="A new memory's share of right answers, nothing being one; 0.99 if not given.")
    ] = None
    room: Annotated[float | None, typer.Option(min=1, max=1000, help="Plan for so many times these pairs.")] = None
    slack: Annotated[float | None, typer.Option(min=0, max=10, help=SLACK_HELP)] = None
    like: Annotated[
        Path | None, typer.Option(help="A memory that a new one is to be like, so that the two can be merged.")
    ] = None
    keep_paths: KeepPaths = False

    def given(self) -> dict[str, Any]:
        """The options that were given and say what the memory is to be."""
        others = ("like", "keep_paths")
        return {name: value for name, value in vars(self).items() if value is not None and name not in others}


@dataclass(frozen=True)
class Work:
    """How many processes work."""

    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes to start on this machine; torchrun starts them on several.")
    ] = None
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that these wait for each other before they all stop.")
    ] = TIMEOUT


@dataclass(frozen=True)
class Question:
    """What is asked of a path."""

    top: Annotated[int | None, typer.Option(min=1, help="So many answers instead of one.")] = None
    whole: Annotated[bool, typer.Option("--set", help="Every leaf that the path holds.")] = False
    threshold: Annotated[float, typer.Option(help="With --set: the least probability of a leaf.")] = 0.5
    leaf: Annotated[str | None, typer.Option(help="Ask whether this leaf is stored there.")] = None
    among: Annotated[list[str] | None, typer.Option(help="Answer with one of these leaves only; may be repeated.")] = (
        None
    )
    absence: Annotated[float, typer.Option(help="How probable it is beforehand that nothing is stored there.")] = 0.5
    text: Annotated[bool, typer.Option("--text", help="Take every role and leaf as text, numbers too.")] = False
    probe: Annotated[
        float | None, typer.Option(help="For very many leaves: the part of a full scan's right answers that is wished.")
    ] = None


@dataclass(frozen=True)
class Task:
    """What a memory is planned for."""

    vocabulary: Annotated[int, typer.Option(min=2, help="How many different leaves there are.")]
    accuracy: Accuracy = 0.99
    shared: Annotated[int, typer.Option(min=1, help="How many leaves one path holds.")] = 1
    compact: Annotated[
        bool | None, typer.Option("--compact/--no-compact", help="OSC with compact fillers only, or without any.")
    ] = None
    dictionary: Annotated[
        int, typer.Option(min=0, help="OSC with compact fillers made of so many fixed vectors; 0 for none.")
    ] = 0
    basis: Annotated[str | None, typer.Option(help="OSC's contexts: blocks, or gaussian as in the paper.")] = None
    slack: Annotated[float, typer.Option(min=0, max=10, help=SLACK_HELP)] = SLACK
    bits: Annotated[
        str | None, typer.Option(help="Plan for a memory that is sealed: 1, 2, 3, 4 or 8 bits a cell, or auto.")
    ] = None

    def wishes(self) -> dict[str, Any]:
        """As the planner takes them."""
        given = asdict(self)
        return given if self.bits is None else given | dict(bits=chosen_bits(self.bits))


def chosen_bits(bits: str) -> int | str:
    """The bits that were asked for."""
    if bits == "auto":
        return bits
    if not bits.isdecimal():
        raise BadValue(f"--bits must be 1, 2, 3, 4, 8 or auto, got {bits!r}")
    return int(bits)


@dataclass(frozen=True)
class Runs:
    """How experiments are run."""

    scale: Annotated[str, typer.Option(help="smoke, small or paper: how much is run.")] = "small"
    workers: Annotated[int | None, typer.Option(help="Trials that run at a time; by default one a core.")] = None
    out: Annotated[Path | None, typer.Option(help="Where rows, figures and the report go.")] = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away rows of earlier runs.")] = False
    data: Annotated[Path | None, typer.Option(help="The folder of data sets, for multi-label.")] = None
    shard: Annotated[
        str | None, typer.Option(help="Run a part of the trials, such as 3/16; without it, all parts are reported.")
    ] = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer wants it: the fields of a parameter that is a dataclass are options of their own."""
    groups: dict[str, type[Any]] = {}
    parameters: list[Parameter] = []
    for name, parameter in _parameters(command):
        if is_dataclass(parameter.annotation) and isinstance(parameter.annotation, type):
            groups[name] = parameter.annotation
            parameters += (option for _, option in _parameters(parameter.annotation))
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{member.name: given.pop(member.name) for member in fields(kind)})
        command(**given)

    del run.__wrapped__  # or typer would look at the command's own parameters
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(function: Callable[..., object]) -> list[tuple[str, Parameter]]:
    """The parameters of a function or a dataclass with their types, each by its name alone."""
    hints = get_type_hints(function, include_extras=True)
    return [
        (name, parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
        for name, parameter in signature(function).parameters.items()
    ]


def examples(*lines: str) -> str:
    r"""Commands to show below a command's help; \b keeps their lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
