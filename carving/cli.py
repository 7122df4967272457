"""The command line: one short function a command. Exit status 0, 1 (not found) or 2 (bad input)."""

import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated, Any

import typer
from filelock import FileLock
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from carving import demo as demonstration
from carving import experiments, formats, planner
from carving.checks import show_bytes
from carving.draws import Path, canonical
from carving.files import identity
from carving.memory import Answer, Memory, as_pair, canonical_roles
from carving.progress import bar
from carving.schemes import make
from carving.structure import Pair

app = typer.Typer(
    help="Symbolic memories of fixed size.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
screen, errors = Console(highlight=False), Console(stderr=True, highlight=False)

MemoryFile = Annotated[FilePath, typer.Argument(metavar="MEMORY", help="The memory's file (.safetensors).")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Roles = Annotated[
    list[str],
    typer.Argument(
        metavar="ROLE", help="The path: numbers, true, false and null are taken as such, everything else as text."
    ),
]
Text = Annotated[bool, typer.Option("--text", help="Take every role and leaf as text, numbers too.")]
Sources = Annotated[list[str], typer.Argument(metavar="FILE", help="Files of pairs; - is the standard input.")]
Format = Annotated[
    str | None, typer.Option("--format", help=f"{', '.join(formats.FORMATS)}; by default told from the name.")
]
Key = Annotated[str | None, typer.Option("--key", help="Tables: the column that names the row.")]
Fields = Annotated[str | None, typer.Option("--fields", help="CoNLL-U: the fields to take, parted by commas.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Count malformed lines instead of stopping at the first.")]
Accuracy = Annotated[float, typer.Option(help="The share of questions that are to be answered right.")]


@contextmanager
def told() -> Iterator[None]:
    """A user's mistake is told in a sentence, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, MemoryError) as error:
        errors.print(f"Error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None


@contextmanager
def locked(file: FilePath) -> Iterator[None]:
    """Only one command at a time changes a file: the next one waits, so that no one's pairs are lost."""
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{file} lies in a folder that does not exist: {file.parent}")
    with FileLock(file.with_name(f".{file.name}.lock")):
        yield


@app.command()
def demo(
    trees: Annotated[int, typer.Option(min=1, max=100_000, help="How many parse trees to make and store.")] = 1000,
    conllu: Annotated[FilePath | None, typer.Option(help="A treebank (CoNLL-U) to store instead.")] = None,
    accuracy: Accuracy = 0.99,
    picture: Annotated[FilePath, typer.Option(help="Where to save the picture of the scores.")] = FilePath("demo.png"),
    as_json: Json = False,
) -> None:
    """Store a thousand parse trees in one tensor and ask for every leaf."""
    with told():
        shown = Console(quiet=True) if as_json else screen
        outcome = demonstration.run(shown, trees=trees, conllu=conllu, accuracy=accuracy, picture=picture)
        if as_json:
            typer.echo(json.dumps(outcome))


@app.command()
def plan(
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs will be stored.")],
    vocabulary: Annotated[int, typer.Option(min=2, help="How many different leaves there are.")],
    accuracy: Accuracy = 0.99,
    shared: Annotated[int, typer.Option(min=1, help="How many leaves one path holds.")] = 1,
    as_json: Json = False,
) -> None:
    """The smallest memory that answers so many pairs so accurately."""
    with told():
        best = planner.plan(pairs, vocabulary, accuracy, shared=shared)
        if as_json:
            typer.echo(json.dumps(asdict(best)))
            return
        screen.print(planner_table(best))


def planner_table(best: planner.Plan) -> Table:
    """The plan and the alternatives."""
    table = Table(title="The smallest memories, best first", title_justify="left")
    for name in ("scheme", "accuracy", "memory", "codebook", "bytes"):
        table.add_column(name, justify="left" if name == "scheme" else "right", no_wrap=True)
    for one in (best, *best.others):
        parameters = ", ".join(f"{key}={value}" for key, value in one.parameters.items() if not isinstance(value, bool))
        numbers = (f"{one.cells:,}", f"{one.codebook:,}", show_bytes(one.bytes))
        table.add_row(f"{one.scheme} {parameters}", f"{one.accuracy:.2%}", *numbers)
    return table


@app.command()
def store(
    memory: MemoryFile,
    files: Sources,
    format: Format = None,
    key: Key = None,
    fields: Fields = None,
    skip_bad: SkipBad = False,
    scheme: Annotated[str | None, typer.Option(help="A new memory's scheme; by default the planner chooses.")] = None,
    d: Annotated[int | None, typer.Option(help="A new memory's dimension.")] = None,
    p: Annotated[int | None, typer.Option(help="A new memory's order, for OSC.")] = None,
    k1: Annotated[int | None, typer.Option(help="A new memory's kept dimensions, for OSC.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="A new memory's seed.")] = 0,
    accuracy: Accuracy = 0.99,
    room: Annotated[
        float, typer.Option(min=1, help="A new memory is planned for so many times its first pairs.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Store files of pairs in a memory; a new memory gets the size that its pairs need."""
    with told(), locked(memory):
        sources = [opened(file, format, key, fields, skip_bad) for file in files]
        size = surveyed(sources)  # every line is looked at before anything is changed
        if memory.exists():
            held = Memory.load(memory)
            for name, given in dict(scheme=scheme, d=d, p=p, k1=k1).items():
                has = identity(held.scheme).get("name" if name == "scheme" else name)
                if given is not None and given != has:
                    raise ValueError(
                        f"{memory} has {name}={has}, not {given}; leave the option out, or name a new file"
                    )
        else:
            held = new_memory(size, scheme, d, dict(p=p, k1=k1), seed, accuracy, room)
        with bar(errors, "storing", size.pairs) as advance:
            stored = held.store((pair for source in sources for pair in source), progress=advance)
        held.save(memory)
        bad = sum(source.bad for source in sources)
        if as_json:
            facts = dict(stored=stored, skipped=bad, pairs=held.pairs, leaves=len(held.vocabulary))
            typer.echo(json.dumps(facts | dict(scheme=identity(held.scheme), file=str(memory))))
        else:
            screen.print(
                f"stored {stored:,} pairs in {escape(str(memory))}{f', skipped {bad:,} bad lines' if bad else ''}"
            )
            screen.print(description(held), markup=False)


class Survey:
    """What is in files of pairs: how many, and which of them differ."""

    def __init__(self) -> None:
        self.pairs = 0
        self.distinct: set[tuple[bytes, bytes]] = set()

    @property
    def leaves(self) -> int:
        """How many different leaves there are."""
        return len({leaf for _, leaf in self.distinct})

    @property
    def shared(self) -> dict[int, int]:
        """How many paths hold one leaf, two leaves, and so on."""
        return dict(Counter(Counter(path for path, _ in self.distinct).values()))


def surveyed(sources: list[formats.Pairs]) -> Survey:
    """The files, read once from end to end."""
    found = Survey()
    with bar(errors, "reading", None) as advance:
        for source in sources:
            for given in source:
                path, leaf = as_pair(given)
                found.pairs += 1
                found.distinct.add((canonical_roles(path), canonical(leaf)))
                advance(1)
    if not found.pairs:
        raise ValueError(f"there is nothing to store: {', '.join(source.name for source in sources)} hold no pairs")
    return found


def new_memory(
    size: Survey, scheme: str | None, d: int | None, options: dict[str, Any], seed: int, accuracy: float, room: float
) -> Memory:
    """A memory as it was wanted, or as the planner wants it."""
    given = {name: value for name, value in options.items() if value is not None}
    if d is not None:
        return Memory(make(scheme or "OSC", d=d, seed=seed, **given))
    shared = {many: math.ceil(count * room) for many, count in size.shared.items()}
    pairs = sum(many * count for many, count in shared.items())
    wishes = dict(shared=shared) | ({} if scheme is None else dict(scheme=scheme))
    return Memory.planned(pairs, max(2, math.ceil(size.leaves * room)), accuracy, seed=seed, **wishes)


def opened(file: str, format: str | None, key: str | None, fields: str | None, skip_bad: bool) -> formats.Pairs:
    """A file of pairs; the standard input is kept, because it can be read but once."""
    options: dict[str, Any] = dict(key=key, fields=fields.split(",") if fields else None)
    source = io.BytesIO(typer.get_binary_stream("stdin").read()) if file == "-" else file
    return formats.pairs(source, format, skip_bad=skip_bad, **options)


@app.command()
def ask(
    memory: MemoryFile,
    roles: Roles,
    top: Annotated[int | None, typer.Option(min=1, help="So many answers instead of one.")] = None,
    whole: Annotated[bool, typer.Option("--set", help="Every leaf that the path holds.")] = False,
    leaf: Annotated[str | None, typer.Option(help="Ask whether this leaf is stored there.")] = None,
    among: Annotated[
        list[str] | None, typer.Option(help="Answer with one of these leaves only; may be repeated.")
    ] = None,
    absence: Annotated[float, typer.Option(help="How probable it is beforehand that nothing is stored there.")] = 0.5,
    text: Text = False,
    as_json: Json = False,
) -> None:
    """What a memory holds under a path; exit status 1 if nothing."""
    with told():
        held, path = Memory.load(memory), tuple(label(role, text) for role in roles)
        chosen = None if not among else [label(one, text) for one in among]
        if leaf is not None:
            answers = [held.recognise(*path, leaf=label(leaf, text), absence=absence)]
            found = answers[0].probability >= 0.5
        elif whole:
            answers = held.recall_set(*path, among=chosen, absence=absence)
            found = bool(answers)
        else:
            given = held.recall(*path, top=top, among=chosen, absence=absence)
            answers = given if isinstance(given, list) else [given]
            found = bool(answers[0])
    if as_json:
        typer.echo(json.dumps([shown(answer) for answer in answers] if whole or top else shown(answers[0])))
    else:
        for answer in answers:
            screen.print(sentence(answer), markup=False)
        if not answers:
            screen.print("nothing is stored there")
    raise typer.Exit(0 if found else 1)


def label(text: str, plain: bool) -> Any:
    """A role or leaf of the command line: a JSON scalar as such, anything else as text."""
    if plain:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, dict | list) and value else value


def shown(answer: Answer) -> dict[str, Any]:
    """An answer for JSON; bytes as text, no probability as null."""
    leaf: Any = answer.leaf.decode(errors="replace") if isinstance(answer.leaf, bytes) else answer.leaf
    known = None if math.isnan(answer.probability) else answer.probability
    return asdict(answer) | dict(leaf=leaf, probability=known)


def sentence(answer: Answer) -> str:
    """An answer for people."""
    if not answer.found:
        return f"nothing is stored there (probability {answer.probability:.4f})"
    known = "" if math.isnan(answer.probability) else f", probability {answer.probability:.4f}"
    leaf = answer.leaf if isinstance(answer.leaf, str) else json.dumps(shown(answer)["leaf"])
    return f"{leaf}  (score {answer.score:.2f}{known})"


@app.command()
def forget(
    memory: MemoryFile,
    files: Sources,
    format: Format = None,
    key: Key = None,
    fields: Fields = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Take files of pairs out of a memory again."""
    with told(), locked(memory):
        sources = [opened(file, format, key, fields, skip_bad) for file in files]
        size = surveyed(sources)
        held = Memory.load(memory)
        with bar(errors, "forgetting", size.pairs) as advance:
            strangers: list[Pair] = held.forget((pair for source in sources for pair in source), progress=advance)
        held.save(memory)
        if as_json:
            never = [dict(path=list(path), leaf=leaf) for path, leaf in strangers]
            typer.echo(json.dumps(dict(forgotten=size.pairs, never_stored=never, pairs=held.pairs), default=repr))
        else:
            screen.print(f"forgot {size.pairs:,} pairs; {held.pairs:,} are left")
            for path, leaf in strangers[:10]:
                screen.print(f"probably never stored: {shown_path(path)} -> {leaf!r}", markup=False)
            if len(strangers) > 10:
                screen.print(f"and {len(strangers) - 10:,} more that were probably never stored")


def shown_path(path: Path) -> str:
    """A path for people."""
    return " / ".join(map(str, path))


@app.command()
def merge(
    target: Annotated[FilePath, typer.Argument(metavar="RESULT", help="The file to write.")],
    memories: Annotated[list[FilePath], typer.Argument(metavar="MEMORY", help="Two memories or more.")],
    as_json: Json = False,
) -> None:
    """Add memories of one scheme: the result holds the pairs of all."""
    with told(), locked(target):
        if len(memories) < 2:
            raise ValueError(f"merging takes two memories or more, got {len(memories)}")
        total = Memory.load(memories[0])
        for file in memories[1:]:
            total = total + Memory.load(file)
        total.save(target)
        if as_json:
            typer.echo(json.dumps(dict(pairs=total.pairs, leaves=len(total.vocabulary), file=str(target))))
        else:
            screen.print(f"merged {len(memories)} memories into {escape(str(target))}")
            screen.print(description(total), markup=False)


@app.command()
def info(memory: MemoryFile, as_json: Json = False) -> None:
    """What a memory is and how full."""
    with told():
        held = Memory.load(memory)
        if as_json:
            facts = dict(file=str(memory), bytes=memory.stat().st_size, scheme=identity(held.scheme), pairs=held.pairs)
            typer.echo(json.dumps(facts | dict(leaves=len(held.vocabulary), cells=held.scheme.facts.memory_scalars)))
        else:
            screen.print(description(held), markup=False)
            screen.print(f"{show_bytes(memory.stat().st_size)} on disk")


@app.command()
def verify(memory: MemoryFile, as_json: Json = False) -> None:
    """Whether a file is whole: its checksum, shapes and numbers; exit status 2 if not."""
    with told():
        held = Memory.load(memory)
        if as_json:
            typer.echo(json.dumps(dict(file=str(memory), whole=True, pairs=held.pairs)))
        else:
            screen.print(f"{escape(str(memory))} is whole: {held.pairs:,} pairs, {len(held.vocabulary):,} leaves")


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]", help="Experiments; --list shows them.")] = None,
    scale: Annotated[str, typer.Option(help=f"{', '.join(experiments.SCALES)}: how much is run.")] = "small",
    every: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Show the experiments and do nothing.")] = False,
    workers: Annotated[int | None, typer.Option(help="Trials that run at a time; by default one a core.")] = None,
    out: Annotated[FilePath | None, typer.Option(help="Where rows, figures and the report go.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away rows of earlier runs.")] = False,
    as_json: Json = False,
) -> None:
    """Run the paper's tables and figures again, and put the published numbers beside ours."""
    with told():
        if listing:
            for name in experiments.NAMES:
                screen.print(f"{name:26}{experiments.load(name).title}", markup=False)
            return
        chosen = list(experiments.NAMES) if every else names
        if not chosen:
            raise ValueError(f"name an experiment, or take --all; there are {', '.join(experiments.NAMES)}")
        found = experiments.reproduce(chosen, scale, out=out, workers=workers, console=errors, fresh=fresh)
        if as_json:
            typer.echo(json.dumps(experiments.as_json(found)))
        else:
            folder = out or FilePath("results") / scale
            agree = sum(one.verdict.startswith("agrees") for one in found)
            screen.print(f"{agree} of {len(found)} published numbers agree; see {escape(str(folder / 'report.md'))}")


def description(memory: Memory) -> str:
    """A memory in a line or two."""
    known = identity(memory.scheme)
    parameters = ", ".join(f"{key}={value}" for key, value in known.items() if key != "name")
    cells = memory.scheme.facts.memory_scalars
    return (
        f"{known['name']} ({parameters}): {cells:,} numbers hold {memory.pairs:,} pairs of {len(memory.vocabulary):,} "
        "different leaves"
    )


if __name__ == "__main__":
    app()
