"""`carving store`, `forget`, `merge` and `export`: what changes memories, and what comes out of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving import formats
from carving.cli.fullness import Fullness, told_below
from carving.cli.input import Files, reading_options
from carving.cli.journals import Samples, Stored, appended, check_given, is_large
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, NewMemory, Reading, Sources, examples
from carving.cli.output import (
    ask_command,
    errors,
    holding_sentence,
    memory_sentence,
    path_text,
    write_json,
    write_limited,
    write_line,
)
from carving.console import bar
from carving.errors import BadValue
from carving.files import check_target, identity
from carving.formats.documents import Pair
from carving.formats.registry import choose_format
from carving.memory import Memory
from carving.memory.opened import Opened, open_memory
from carving.memory.verification import held_pairs
from carving.schemes import make
from carving.symbols import Leaf, Path, canonical, canonical_path

STORE_EPILOG = examples(
    "carving store facts.safetensors facts.json",
    "carving store graph.safetensors wn18rr_train.tsv.xz --accuracy 0.999 --room 2",
    "carving store people.safetensors people.csv --key name --delimiter ';'",
    "carving store mine.safetensors mine.tsv --like yours.safetensors",
    "zcat trees.jsonl.gz | carving store trees.safetensors - --format jsonl",
)
FORGET_EPILOG = examples(
    "carving forget facts.safetensors outdated.json", "carving forget facts.safetensors never.json --force"
)
MERGE_EPILOG = examples("carving merge all.safetensors monday.safetensors tuesday.safetensors")
EXPORT_EPILOG = examples(
    "carving export facts.safetensors facts.json -o copy.json",
    "carving export graph.safetensors wn18rr_train.tsv.xz -o graph.tsv.gz",
    "carving export people.safetensors people.csv --key name -o copy.csv",
)

WORST = 10  # pairs that are listed as never stored


def store(
    memory: MemoryFile,
    files: Sources,
    reading: Reading,
    new: NewMemory,
    force: Annotated[bool, typer.Option("--force", help="Store more than the memory was planned for.")] = False,
    as_json: Json = False,
) -> None:
    """Store files of pairs in a memory; a new memory gets the size that its pairs need."""
    with locked(memory):
        sources, samples = Files.open(files, reading), Samples()
        done = appended(memory, sources, samples, new, force) if memory.exists() else None
        if done is None:  # the file is new, or small, or there is much to store: it is written whole
            done = rewritten(memory, sources, samples, new, force)
    if as_json:
        facts = dict(stored=done.stored, skipped=sources.bad, pairs=done.pairs, leaves=done.leaves)
        write_json(facts | dict(scheme=identity(done.scheme), file=str(memory)) | done.full.facts())
        return
    skipped = f", skipped {sources.bad:,} bad lines" if sources.bad else ""
    write_line(f"stored {done.stored:,} pairs in {memory}{skipped}")
    write_line(holding_sentence(done.scheme, done.pairs, done.leaves))
    done.full.write()
    commands = [command for path in samples.paths() if (command := ask_command(memory, path))]
    if commands:
        write_line("ask it, for example:")
    for command in commands:
        write_line(f"  {command}")


def rewritten(memory: FilePath, sources: Files, samples: Samples, new: NewMemory, force: bool) -> Stored:
    """Store all of the sources in a memory, new or not, and write its file."""
    held = existing_memory(memory, new) if memory.exists() else new_memory(sources, new)
    before = held.predicted()
    with bar(errors, "storing", None) as advance, told_below():  # nothing is written before all of it is read
        stored = held.store(samples.watch(sources), on_progress=advance)
    full = Fullness.of(before, held)
    full.check(memory, force)
    held.save(memory)
    return Stored(stored, held.scheme, held.pairs, len(held.vocabulary), full)


def existing_memory(file: FilePath, new: NewMemory) -> Memory:
    """The memory that is there; options that make a new one must not speak of another."""
    held = Memory.load(file)
    check_given(file, held.scheme, new)
    return held


def new_memory(sources: Files, new: NewMemory) -> Memory:
    """An empty memory as it was wanted, or as the planner wants it for these files."""
    given = new.given()
    if new.like is not None:
        if given:
            raise BadValue(f"--like {new.like} says all that --{next(iter(given))} could; leave one of them out")
        return Memory.like(Memory.load(new.like))
    if new.d is not None:
        if any(wish is not None for wish in (new.accuracy, new.room, new.slack)):
            raise BadValue("--accuracy, --room and --slack are for the planner, which --d leaves nothing to choose")
        paths_of_any_depth = dict(whole_path=True) if new.scheme == "TPR" else {}
        return Memory(make(given.pop("scheme", "OSC"), **given, **paths_of_any_depth))
    if new.k1 is not None:
        raise BadValue(f"--k1 {new.k1} needs --d too; without both the planner chooses them")
    with bar(errors, "reading and planning", None) as advance:
        return Memory.for_pairs(sources.at_least_one(), on_progress=advance, **given)


def forget(
    memory: MemoryFile,
    files: Sources,
    reading: Reading,
    force: Annotated[
        bool, typer.Option("--force", help="Take out also what was probably never stored: it leaves less than nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take files of pairs out of a memory again; what was probably never stored is left alone, and listed."""
    if not memory.exists():
        raise FileNotFoundError(f"there is no file {memory}")
    with locked(memory):
        sources, counter = Files.open(files, reading), Counter()
        held = open_memory(memory) if is_large(memory) else Memory.load(memory)
        with bar(errors, "forgetting", None) as advance:
            strangers = held.forget(sources, force=force, on_progress=counter.then(advance))
        gone = counter.total if force else counter.total - len(strangers)
        if gone and not isinstance(held, Opened):  # which has written it
            held.save(memory)
    weaker = {pair_name(path, leaf) for path, leaf, _ in strangers.weaker}
    never = [(path, leaf) for path, leaf in strangers if pair_name(path, leaf) not in weaker]
    if as_json:
        absent = [dict(path=list(path), leaf=leaf) for path, leaf in never]
        weak = [dict(path=list(path), leaf=leaf, strength=strength) for path, leaf, strength in strangers.weaker]
        write_json(dict(forgotten=gone, never_stored=absent, weaker=weak, pairs=held.pairs))
        return
    known = (
        f", {len(strangers):,} of them not there" if force else f", left alone {len(strangers):,} that are not there"
    )
    write_line(f"took out {gone:,} pairs{known if strangers else ''}; {held.pairs:,} are left")
    lines = [f"probably never stored: {path_text(path)} -> {leaf!r}" for path, leaf in never]
    write_limited(lines, WORST, "that were probably never stored")
    lines = [
        f"held with a weight of {strength:.2f}, not 1: {path_text(path)} -> {leaf!r}"
        for path, leaf, strength in strangers.weaker
    ]
    write_limited(lines, WORST, "that are held more weakly")


def pair_name(path: Path, leaf: Leaf) -> tuple[bytes, bytes]:
    """What tells a pair from others."""
    return canonical_path(path), canonical(leaf)


@dataclass
class Counter:
    """How much was done in all, on the way to a bar that shows it."""

    total: int = 0

    def then(self, advance: Callable[[int], None]) -> Callable[[int], None]:
        """A function that counts, and passes on."""

        def count(more: int) -> None:
            self.total += more
            advance(more)

        return count


def merge(
    target: Annotated[FilePath, typer.Argument(metavar="RESULT", help="The file to write.")],
    memories: Annotated[list[FilePath], typer.Argument(metavar="MEMORY", help="Two memories or more.")],
    force: Annotated[bool, typer.Option("--force", help="Merge more than the memories were planned for.")] = False,
    as_json: Json = False,
) -> None:
    """Add memories of one scheme: the result holds the pairs of all."""
    with locked(target):
        if len(memories) < 2:
            raise BadValue(f"merging takes two memories or more, got {len(memories)}")
        total = Memory.load(memories[0])
        before = total.predicted()
        with told_below():
            for file in memories[1:]:
                total = total + Memory.load(file)
        full = Fullness.of(before, total)
        full.check(target, force)
        total.save(target)
    if as_json:
        write_json(dict(pairs=total.pairs, leaves=len(total.vocabulary), file=str(target)) | full.facts())
        return
    write_line(f"merged {len(memories)} memories into {target}")
    write_line(memory_sentence(total))
    full.write()


def export(
    memory: MemoryFile,
    files: Sources,
    reading: Reading,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="The file to write; - is the standard output.")
    ],
    to: Annotated[str | None, typer.Option(help="OUT's format; by default told from its name.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a memory for every path of FILES, and write what it holds there to a file."""
    if output != "-":
        check_target(output)
    format = choose_format(output, to, "--to")
    held, sources = Memory.load(memory), Files.open(files, reading)
    paths = [path for path, _ in sources]
    options = {name: value for name, value in reading_options(reading).items() if name in format.options}

    def answers() -> Iterator[Pair]:  # asked for only once it is known that OUT's format can be written
        with bar(errors, "asking", len(set(paths))) as advance:
            pairs = held_pairs(held, paths, advance)
        if not pairs:
            raise NothingFound
        yield from pairs

    try:
        written = formats.write(answers(), output, format.name, **options)
    except NothingFound:
        errors.print(f"nothing is stored under these {len(paths):,} paths; {output} was not written", markup=False)
        raise typer.Exit(1) from None
    if output == "-":
        return
    if as_json:
        write_json(dict(asked=len(paths), written=written, file=output))
    else:
        write_line(f"wrote {written:,} pairs to {output}, of {len(paths):,} that were asked for")


class NothingFound(Exception):
    """A memory holds nothing of what is to be exported."""
