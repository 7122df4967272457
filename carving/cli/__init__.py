"""The command line: one short function a command. Exit status 0, 1 (not found) or 2 (bad input)."""

import io
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated, Any

import typer
from filelock import Timeout
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from carving import formats
from carving.answers.answer import Answer
from carving.checks import show_bytes
from carving.cli import labels as label_commands
from carving.errors import BadValue, UserError
from carving.files import identity, lock_beside
from carving.formats.documents import Pair
from carving.memory import Memory
from carving.pairs import as_pair
from carving.prediction import plan as planner
from carving.progress import bar
from carving.schemes import make
from carving.symbols import Path, canonical
from carving.symbols import canonical_path as canonical_roles

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
    except (UserError, OSError, MemoryError) as error:
        errors.print(f"Error: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None


@contextmanager
def locked(file: FilePath) -> Iterator[None]:
    """Only one command at a time changes a file: the next one waits, so that no one's pairs are lost."""
    lock = lock_beside(file)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        errors.print(f"waiting for another command that writes {file}", markup=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def say(text: str) -> None:
    """Print a text as it is; what the terminal cannot show or must not get is escaped."""
    plain = "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    typer.echo(plain.encode(encoding, "backslashreplace").decode(encoding))


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
        from carving import demo as demonstration  # draws pictures: half a second that others need not wait

        shown = Console(quiet=True) if as_json else screen
        outcome = demonstration.run(shown, trees=trees, conllu=conllu, accuracy=accuracy, picture=picture)
        if as_json:
            typer.echo(json.dumps(outcome))


@app.command()
def plan(
    vocabulary: Annotated[int, typer.Option(min=2, help="How many different leaves there are.")],
    pairs: Annotated[int | None, typer.Option(min=1, help="How many pairs will be stored.")] = None,
    numbers: Annotated[
        int | None,
        typer.Option(min=1, help="Instead of pairs: how many numbers the memory may take with its codebook."),
    ] = None,
    accuracy: Accuracy = 0.99,
    shared: Annotated[int, typer.Option(min=1, help="How many leaves one path holds.")] = 1,
    joint: Annotated[bool, typer.Option("--joint", help="Plan as well for answering all paths together.")] = False,
    compact: Annotated[
        bool | None, typer.Option("--compact/--no-compact", help="OSC with compact fillers only, or without any.")
    ] = None,
    spread: Annotated[
        float, typer.Option(min=0, max=4, help="With --joint: how much louder some paths are than others.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """The smallest memory for so many pairs, or the most pairs for so many numbers."""
    with told():
        if (pairs is None) == (numbers is None):
            raise BadValue("give either --pairs or --numbers")
        if spread and not joint:
            raise BadValue(f"--spread {spread} helps where all paths are answered together; add --joint")
        wished: dict[str, Any] = dict(vocabulary=vocabulary, accuracy=accuracy, shared=shared, compact=compact)
        title = "The smallest memories" if numbers is None else "The fullest memories"

        def planned(**how: Any) -> planner.Plan:
            if numbers is not None:
                return planner.plan_within(numbers, **wished, **how)
            assert pairs is not None
            return planner.plan(pairs, **wished, **how)

        best = planned()
        together = planned(joint=True, spread=spread) if joint else None
        if as_json:
            typer.echo(json.dumps(asdict(best) | ({"together": asdict(together)} if together else {})))
            return
        screen.print(planner_table(best, title))
        if together:
            screen.print(planner_table(together, f"{title}, if all paths are answered together"))
            say(in_words(best, together))


def planner_table(best: planner.Plan, title: str) -> Table:
    """The plan and the alternatives."""
    table = Table(title=f"{title}, best first", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    plans = (best, *best.others)
    columns: dict[str, list[str]] = {
        "pairs": [f"{one.pairs:,}" for one in plans],
        "accuracy": [f"{one.accuracy:.2%}" for one in plans],
        "memory": [f"{one.cells:,}" for one in plans],
        "codebook": [f"{one.codebook:,}" for one in plans],
        "bytes": [show_bytes(one.bytes) for one in plans],
    }
    if len(set(columns["pairs"])) == 1:
        del columns["pairs"]
    table.add_column("scheme")
    for name, shown in columns.items():  # a number that is cut off says something else
        table.add_column(name, justify="right", min_width=max(map(len, [name, *shown])))
    for row in zip(map(named, plans), *columns.values(), strict=True):
        table.add_row(*row)
    return table


def named(one: planner.Plan) -> str:
    """A plan's scheme and its numbers."""
    parameters = ", ".join(f"{key}={value}" for key, value in one.parameters.items() if not isinstance(value, bool))
    return f"{one.scheme}{' compact' if one.compact else ''} {parameters}"


def in_words(alone: planner.Plan, together: planner.Plan) -> str:
    """Two plans beside each other."""
    if alone.pairs == together.pairs:
        gain = f"{alone.numbers / together.numbers:.1f} times fewer numbers"
    else:
        gain = f"{together.pairs / alone.pairs:.1f} times more pairs"
    return (
        f"Answered together, in about {together.rounds} rounds, {named(together)} holds {together.pairs:,} pairs in "
        f"{together.numbers:,} numbers; asked one path at a time, {named(alone)} holds {alone.pairs:,} in "
        f"{alone.numbers:,}: {gain}."
    )


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
    compact: Annotated[
        bool | None, typer.Option("--compact/--no-compact", help="A new memory's fillers, for OSC: k1 numbers, or d.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="A new memory's seed.")] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="A new memory's share of right answers, nothing being one; 0.99 if not given.")
    ] = None,
    room: Annotated[float | None, typer.Option(min=1, max=1000, help="Plan for so many times these pairs.")] = None,
    as_json: Json = False,
) -> None:
    """Store files of pairs in a memory; a new memory gets the size that its pairs need."""
    with told(), locked(memory):
        sources = [opened(file, format, key, fields, skip_bad) for file in files]
        given = dict(scheme=scheme, d=d, p=p, k1=k1, compact=compact, seed=seed)
        wanted = {name: value for name, value in given.items() if value is not None}
        if memory.exists():
            held = Memory.load(memory)
            check_existing(memory, held, wanted | dict(accuracy=accuracy, room=room))
        else:
            held = new_memory(surveyed(sources), wanted, accuracy, room)
        with bar(errors, "storing", None) as advance:  # nothing is written before all of it is read
            stored = held.store((pair for source in sources for pair in source), on_progress=advance)
        held.save(memory)
        bad = sum(source.bad for source in sources)
        if as_json:
            facts = dict(stored=stored, skipped=bad, pairs=held.pairs, leaves=len(held.vocabulary))
            typer.echo(json.dumps(facts | dict(scheme=identity(held.scheme), file=str(memory))))
        else:
            say(f"stored {stored:,} pairs in {memory}{f', skipped {bad:,} bad lines' if bad else ''}")
            say(description(held))


def check_existing(file: FilePath, held: Memory, given: dict[str, Any]) -> None:
    """Options that make a new memory must not speak of another one than there is."""
    known = identity(held.scheme)
    for name, value in given.items():
        has = known.get("name" if name == "scheme" else name)
        if value is not None and value != has:
            has_it = f"has {name}={has}, not {value}" if has is not None else f"exists, so that --{name} says nothing"
            raise BadValue(f"{file} {has_it}; leave the option out, or name a new file")


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
        raise BadValue(f"there is nothing to store: {', '.join(source.name for source in sources)} hold no pairs")
    return found


def new_memory(size: Survey, wanted: dict[str, Any], accuracy: float | None, room: float | None) -> Memory:
    """A memory as it was wanted, or as the planner wants it."""
    name, seed = wanted.pop("scheme", None), wanted.pop("seed", 0)
    if "d" in wanted:
        if accuracy is not None or room is not None:
            raise BadValue("--accuracy and --room are for the planner, which --d leaves nothing to choose")
        paths_of_any_depth = dict(whole_path=True) if name == "TPR" else {}
        return Memory(make(name or "OSC", seed=seed, **wanted, **paths_of_any_depth))
    if "k1" in wanted:
        raise BadValue(f"--k1 {wanted['k1']} needs --d too; without both the planner chooses them")
    growth = room or 1.0
    shared = {many: math.ceil(count * growth) for many, count in size.shared.items()}
    pairs = sum(many * count for many, count in shared.items())
    # The planner's accuracy is that of naming a leaf. To tell as well where nothing is takes a tenth of the errors.
    sure = 1 - (1 - (0.99 if accuracy is None else accuracy)) / 10
    if name is not None:
        wanted["scheme"] = name
    errors.print("planning", markup=False) if errors.is_terminal else None
    leaves = max(2, max(shared), math.ceil(size.leaves * growth))
    return Memory.planned(pairs, leaves, sure, seed=seed, shared=shared, **wanted)


def opened(file: str, format: str | None, key: str | None, fields: str | None, skip_bad: bool) -> formats.Pairs:
    """A file of pairs; the standard input is kept, because it can be read but once."""
    options: dict[str, Any] = dict(key=key, fields=fields.split(",") if fields else None)
    if file == "-":
        return formats.pairs(io.BytesIO(typer.get_binary_stream("stdin").read()), format, skip_bad=skip_bad, **options)
    special = FilePath(file).exists() and not FilePath(file).is_file() and not FilePath(file).is_dir()
    source = io.BytesIO(FilePath(file).read_bytes()) if special else file  # a pipe can be read but once, too
    return formats.pairs(source, format, skip_bad=skip_bad, **options)


@app.command()
def ask(
    memory: MemoryFile,
    roles: Roles,
    top: Annotated[int | None, typer.Option(min=1, help="So many answers instead of one.")] = None,
    whole: Annotated[bool, typer.Option("--set", help="Every leaf that the path holds.")] = False,
    threshold: Annotated[float, typer.Option(help="With --set: the least probability of a leaf.")] = 0.5,
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
        if (whole and top) or (leaf is not None and (whole or top or among)):
            raise BadValue("--set, --top and --leaf are three questions, and --among is for the first two; choose one")
        held = Memory.load(memory)
        if leaf is not None and not held.scheme.facts.linear:
            raise BadValue(f"{identity(held.scheme)['name']} has no probabilities; ask without --leaf, or with --top")
        # Numbers may be text in the file that they came from: both are tried.
        for plain in [True] if text else [False, True]:
            path = tuple(label(role, plain) for role in roles)
            how: dict[str, Any] = dict(absence=absence)
            if among:
                how["among"] = [one if held.vocabulary.find(one) is not None else label(one, False) for one in among]
            if leaf is not None:
                answers = [held.recognise(*path, leaf=label(leaf, plain), absence=absence)]
                found = bool(answers[0])
            elif whole:
                answers = held.recall_set(*path, threshold=threshold, **how)
                found = bool(answers)
            else:
                best = held.recall(*path, **how)
                answers, found = [best] if top is None else held.recall(*path, top=top, **how), bool(best)
            if found or path == tuple(roles):
                break
        if as_json:
            typer.echo(json.dumps([shown(answer) for answer in answers] if whole or top else shown(answers[0])))
        else:
            for answer in answers:
                say(sentence(answer))
            if not answers:
                say("nothing is stored there")
    raise typer.Exit(0 if found else 1)


def label(text: str, plain: bool) -> Any:
    """A role or leaf of the command line: numbers, true, false, null and quoted text as in JSON, the rest as text."""
    if plain:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and not isinstance(value, dict | list) else text


def shown(answer: Answer) -> dict[str, Any]:
    """An answer for JSON; bytes and what JSON has no number for as text, no probability as null."""
    leaf: Any = answer.leaf
    if isinstance(leaf, bytes):
        leaf = leaf.decode(errors="backslashreplace")
    elif isinstance(leaf, float) and not math.isfinite(leaf):
        leaf = str(leaf)
    known = None if math.isnan(answer.probability) else answer.probability
    return asdict(answer) | dict(leaf=leaf, probability=known)


def sentence(answer: Answer) -> str:
    """An answer for people."""
    known = "" if math.isnan(answer.probability) else f", probability {answer.probability:.4f}"
    if not answer.found and answer.leaf is None:
        return f"nothing is stored there (probability {answer.probability:.4f})"
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
    with told():
        if not memory.exists():
            raise FileNotFoundError(f"there is no file {memory}")
    with told(), locked(memory):
        sources = [opened(file, format, key, fields, skip_bad) for file in files]
        held, gone = Memory.load(memory), 0
        with bar(errors, "forgetting", None) as advance:

            def counted(more: int) -> None:
                nonlocal gone
                gone += more
                advance(more)

            strangers: list[Pair] = held.forget((pair for source in sources for pair in source), on_progress=counted)
        held.save(memory)
        if as_json:
            never = [dict(path=list(path), leaf=leaf) for path, leaf in strangers]
            typer.echo(json.dumps(dict(forgotten=gone, never_stored=never, pairs=held.pairs), default=repr))
        else:
            say(f"forgot {gone:,} pairs; {held.pairs:,} are left")
            for path, leaf in strangers[:10]:
                say(f"probably never stored: {shown_path(path)} -> {leaf!r}")
            if len(strangers) > 10:
                say(f"and {len(strangers) - 10:,} more that were probably never stored")


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
            raise BadValue(f"merging takes two memories or more, got {len(memories)}")
        total = Memory.load(memories[0])
        for file in memories[1:]:
            total = total + Memory.load(file)
        total.save(target)
        if as_json:
            typer.echo(json.dumps(dict(pairs=total.pairs, leaves=len(total.vocabulary), file=str(target))))
        else:
            say(f"merged {len(memories)} memories into {target}")
            say(description(total))


@app.command()
def info(memory: MemoryFile, as_json: Json = False) -> None:
    """What a memory is and how full."""
    with told():
        held = Memory.load(memory)
        if as_json:
            facts = dict(file=str(memory), bytes=memory.stat().st_size, scheme=identity(held.scheme), pairs=held.pairs)
            facts |= dict(
                leaves=len(held.vocabulary), cells=held.scheme.facts.memory_scalars, predicted=predicted(held)
            )
            typer.echo(json.dumps(facts))
        else:
            say(description(held))
            expected = predicted(held)
            if expected is not None:
                say(f"so full, it is predicted to name {expected:.2%} of its leaves, each being used about as often")
            say(f"{show_bytes(memory.stat().st_size)} on disk")


def predicted(memory: Memory) -> float | None:
    """The share of leaves that the memory is predicted to name, where there is a prediction."""
    known = identity(memory.scheme)
    if known["name"] not in ("OSC", "HLB") or len(memory.vocabulary) < 2 or not memory.pairs:
        return None
    sizes = {name: known[name] for name in ("d", "p", "k1", "compact") if name in known}
    if sizes.get("p") == 1 or known.get("spread"):  # those with loud contexts are not for single questions
        return None
    return planner.predict(memory.pairs, len(memory.vocabulary), scheme=known["name"], **sizes)


@app.command()
def verify(
    memory: MemoryFile,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files of pairs that the memory is to be asked for.")
    ] = None,
    joint: Annotated[bool, typer.Option(help="Ask for all of them together, which finds far more.")] = False,
    format: Format = None,
    key: Key = None,
    fields: Fields = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Whether a file is whole (exit status 2 if not), and how much of FILES the memory still answers (1 if not all)."""
    with told():
        held = Memory.load(memory)
        facts: dict[str, Any] = dict(file=str(memory), whole=True, pairs=held.pairs)
        found: dict[str, Any] = {}
        if files:
            pairs = [pair for file in files for pair in opened(file, format, key, fields, skip_bad)]
            found = asked_again(held, pairs, joint)
        if as_json:
            typer.echo(json.dumps(facts | found))
        else:
            say(f"{memory} is whole: {held.pairs:,} pairs, {len(held.vocabulary):,} leaves")
            if found:
                say(f"{found['right']:,} of {found['asked']:,} pairs answered rightly ({found['share']:.2%})")
            if not found.get("converged", True):
                say("joint decoding did not converge: the memory is too full, or holds much that these files do not")
    raise typer.Exit(0 if not found or found["right"] == found["asked"] else 1)


def asked_again(held: Memory, pairs: list[Pair], joint: bool) -> dict[str, Any]:
    """How many of the pairs the memory answers with, one path at a time or all together."""
    wanted: dict[bytes, Counter[bytes]] = {}
    paths: dict[bytes, Path] = {}
    for path, leaf in pairs:
        name = canonical_roles(path)
        wanted.setdefault(name, Counter())[canonical(leaf)] += 1
        paths[name] = path
    several = [name for name, leaves in wanted.items() if leaves.total() > 1]
    single = [name for name, leaves in wanted.items() if leaves.total() == 1]
    got: dict[bytes, Counter[bytes]] = {name: Counter() for name in wanted}
    with bar(errors, "asking", len(pairs) if joint else len(wanted)) as advance:
        if joint:
            every = [name for name, leaves in wanted.items() for _ in range(leaves.total())]
            answers = held.recall_all([paths[name] for name in every], absence=0.0, on_progress=advance)
            for name, answer in zip(every, answers, strict=True):
                got[name][canonical(answer.leaf)] += 1
        else:
            if single:
                each = held.recall_many([paths[name] for name in single], absence=0.0, on_progress=advance)
                got |= {name: Counter([canonical(answer.leaf)]) for name, answer in zip(single, each, strict=True)}
            if several:
                sets = held.recall_sets([paths[name] for name in several], on_progress=advance)
                # A set says that a leaf is there, not how often.
                got |= {
                    name: Counter({leaf: wanted[name][leaf] for leaf in (canonical(answer.leaf) for answer in some)})
                    for name, some in zip(several, sets, strict=True)
                }
    right = sum((wanted[name] & got[name]).total() for name in wanted)
    found: dict[str, Any] = dict(asked=len(pairs), right=right, share=right / max(1, len(pairs)))
    return found | (dict(converged=answers.converged, rounds=answers.rounds) if joint else {})


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]", help="Experiments; --list shows them.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper: how much is run.")] = "small",
    every: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Show the experiments and do nothing.")] = False,
    workers: Annotated[int | None, typer.Option(help="Trials that run at a time; by default one a core.")] = None,
    out: Annotated[FilePath | None, typer.Option(help="Where rows, figures and the report go.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away rows of earlier runs.")] = False,
    data: Annotated[FilePath | None, typer.Option(help="The folder of data sets, for multi-label.")] = None,
    as_json: Json = False,
) -> None:
    """Run the paper's tables and figures again, and put the published numbers beside ours."""
    with told():
        from carving import lab as experiments  # draws pictures too

        if listing:
            for name in experiments.NAMES:
                say(f"{name:26}{experiments.load(name).title}")
            return
        chosen = list(experiments.NAMES) if every else names
        if not chosen:
            raise BadValue(f"name an experiment, or take --all; there are {', '.join(experiments.NAMES)}")
        found = experiments.reproduce(chosen, scale, out=out, workers=workers, console=errors, fresh=fresh, data=data)
        if as_json:
            typer.echo(json.dumps(experiments.as_json(found)))
        else:
            folder = out or FilePath("results") / scale
            kinds = Counter(one.verdict.partition(":")[0] for one in found)
            plural = {"agrees": "agree", "differs": "differ"}
            counts = ", ".join(f"{count} {plural.get(kind, kind)}" for kind, count in kinds.most_common())
            beside = f"of {len(found)} published numbers {counts}" if found else "nothing published to compare with"
            say(f"{beside}; see {folder / 'report.md'}")


app.command()(told()(label_commands.train))
app.command()(told()(label_commands.evaluate))


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
