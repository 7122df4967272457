"""What commands take: arguments and options that several share, and groups of options as one value."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from importlib.metadata import entry_points
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from carving.distributed.ranks import TIMEOUT
from carving.errors import BadValue
from carving.formats import FORMATS
from carving.planner.requirements import DEFAULT_SLACK

MemoryFile = Annotated[Path, typer.Argument(metavar="MEMORY", help="Memory file (.safetensors).")]
Sources = Annotated[list[str], typer.Argument(metavar="FILE", help="Files of pairs; - reads standard input.")]
OwnSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...", help="Files of pairs whose paths are queried. Default: the paths that the memory keeps."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SLACK_HELP = "Extra size allowed for cheaper queries, as a fraction of the smallest size."
Accuracy = Annotated[float, typer.Option(help="Target accuracy: the fraction of queries to be answered correctly.")]
KeepPaths = Annotated[
    bool,
    typer.Option(
        "--keep-paths", help="New memory: keep the paths, so that `export` and `grow` work without the original files."
    ),
]


for plugin in entry_points(group="carving.plugins"):  # schemes and formats of other packages, before help names them
    plugin.load()


@dataclass(frozen=True)
class Reading:
    """How files of pairs are read."""

    format: Annotated[
        str | None,
        typer.Option("--format", help=f"Input format: {', '.join(FORMATS)}, parquet. Default: from the file name."),
    ] = None
    key: Annotated[str | None, typer.Option("--key", help="Tables: the column with the row names.")] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Tables: the column separator, such as ; or tab.")
    ] = None
    fields: Annotated[
        str | None, typer.Option("--fields", help="CoNLL-U: the fields to read, separated by commas.")
    ] = None
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip and count malformed lines instead of stopping at the first one.")
    ] = False


@dataclass(frozen=True)
class NewMemory:
    """Options of a memory that is created."""

    scheme: Annotated[
        str | None, typer.Option(help="New memory: the binding scheme. Default: chosen by the planner.")
    ] = None
    d: Annotated[int | None, typer.Option(help="New memory: the dimension.")] = None
    p: Annotated[int | None, typer.Option(help="New memory: the order p, for OSC.")] = None
    k1: Annotated[int | None, typer.Option(help="New memory: the number of kept dimensions, for OSC.")] = None
    compact: Annotated[
        bool | None,
        typer.Option("--compact/--no-compact", help="New memory: fillers of k1 numbers instead of d, for OSC."),
    ] = None
    dictionary: Annotated[
        int | None, typer.Option(min=2, help="New memory: build compact fillers from this many shared vectors.")
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="New memory: the random seed.")] = None
    basis: Annotated[
        str | None,
        typer.Option(help="New memory: how OSC draws contexts: blocks (faster), or gaussian as in the paper."),
    ] = None
    accuracy: Annotated[
        float | None,
        typer.Option(help='New memory: target accuracy, counting "nothing stored" as an answer. Default: 0.99.'),
    ] = None
    headroom: Annotated[
        float | None, typer.Option(min=1, max=1000, help="New memory: plan for this multiple of the pairs given.")
    ] = None
    slack: Annotated[
        float | None,
        typer.Option(
            min=0, max=10, help=f"New memory: {SLACK_HELP[0].lower()}{SLACK_HELP[1:]} Default: {DEFAULT_SLACK}."
        ),
    ] = None
    like: Annotated[
        Path | None, typer.Option(help="New memory: use the scheme of this memory file, so that both can be merged.")
    ] = None
    keep_paths: KeepPaths = False

    def given(self) -> dict[str, Any]:
        """The options that were given and say what the memory is to be."""
        others = ("like", "keep_paths")
        return {name: value for name, value in vars(self).items() if value is not None and name not in others}


@dataclass(frozen=True)
class Work:
    """Options of parallel work."""

    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of worker processes on this machine. For several machines, use torchrun."),
    ] = None
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds a worker waits for the others before all of them stop.")
    ] = TIMEOUT


@dataclass(frozen=True)
class Question:
    """Options of a query."""

    top: Annotated[
        int | None, typer.Option(min=1, help="Print this many candidates, best first, instead of one answer.")
    ] = None
    whole: Annotated[bool, typer.Option("--set", help="Print every value stored under the path.")] = False
    threshold: Annotated[float, typer.Option(help="With --set: the minimum probability of a value.")] = 0.5
    value: Annotated[str | None, typer.Option(help="Test whether this value is stored under the path.")] = None
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate", help="Consider only this value as an answer; repeat the option for several values."
        ),
    ] = None
    prior_empty: Annotated[float, typer.Option(help="Prior probability that nothing is stored under the path.")] = 0.5
    text: Annotated[bool, typer.Option("--text", help="Read every role and value as text, numbers included.")] = False
    recall_target: Annotated[
        float | None,
        typer.Option(
            help="Approximate search: target recall relative to a full scan. Default: 0.999 above 200,000 values."
        ),
    ] = None


@dataclass(frozen=True)
class Task:
    """What a memory is planned for."""

    vocabulary: Annotated[int, typer.Option(min=2, help="Number of distinct values.")]
    accuracy: Accuracy = 0.99
    shared: Annotated[int, typer.Option(min=1, help="Number of values stored under each path.")] = 1
    compact: Annotated[
        bool | None, typer.Option("--compact/--no-compact", help="OSC: only with compact fillers, or only without.")
    ] = None
    dictionary: Annotated[
        int, typer.Option(min=0, help="OSC: build compact fillers from this many shared vectors; 0 for none.")
    ] = 0
    basis: Annotated[
        str | None, typer.Option(help="OSC: the kind of contexts, blocks, or gaussian as in the paper.")
    ] = None
    slack: Annotated[float, typer.Option(min=0, max=10, help=SLACK_HELP)] = DEFAULT_SLACK
    bits: Annotated[
        str | None, typer.Option(help="Plan for a quantized memory: 1, 2, 3, 4 or 8 bits per cell, or auto.")
    ] = None

    def requirements(self) -> dict[str, Any]:
        """As the planner takes them."""
        given = asdict(self)
        return given if self.bits is None else given | dict(bits=chosen_bits(self.bits))


def chosen_bits(bits: str) -> int | str:
    """The bits that were asked for."""
    if bits == "auto":
        return bits
    if not bits.isdecimal():
        raise BadValue(f"--bits must be 1, 2, 3, 4, 8 or auto, got {bits!r}.")
    return int(bits)


@dataclass(frozen=True)
class Runs:
    """How experiments are run."""

    scale: Annotated[str, typer.Option(help="Size of the runs: smoke, small or paper.")] = "small"
    workers: Annotated[int | None, typer.Option(help="Trials to run in parallel. Default: one per core.")] = None
    out: Annotated[
        Path | None, typer.Option(help="Folder for rows, figures and the report. Default: results/SCALE.")
    ] = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the rows of earlier runs.")] = False
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets, for multi-label.")] = None
    shard: Annotated[
        str | None,
        typer.Option(help="Run one part of the trials, such as 3/16. Run once more without it to merge the parts."),
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
