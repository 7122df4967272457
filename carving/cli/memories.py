"""`carving store`, `forget`, `merge` and `export`: what changes memories, and what comes out of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

import typer
from filelock import Timeout

from carving import formats
from carving.cli.input import Files, reading_options
from carving.cli.options import Json, MemoryFile, NewMemory, Reading, Sources, examples
from carving.cli.output import ask_command, errors, memory_sentence, path_text, write_json, write_limited, write_line
from carving.console import bar
from carving.errors import BadValue
from carving.files import check_target, identity, lock_for
from carving.formats.documents import Pair
from carving.formats.registry import choose_format
from carving.memory import Memory
from carving.memory.verification import held_pairs
from carving.schemes import make
from carving.symbols import Path

STORE_EPILOG = examples(
    "carving store facts.safetensors facts.json",
    "carving store graph.safetensors wn18rr_train.tsv.xz --accuracy 0.999 --room 2",
    "carving store people.safetensors people.csv --key name --delimiter ';'",
    "zcat trees.jsonl.gz | carving store trees.safetensors - --format jsonl",
)
FORGET_EPILOG = examples("carving forget facts.safetensors outdated.json")
MERGE_EPILOG = examples("carving merge all.safetensors monday.safetensors tuesday.safetensors")
EXPORT_EPILOG = examples(
    "carving export facts.safetensors facts.json -o copy.json",
    "carving export graph.safetensors wn18rr_train.tsv.xz -o graph.tsv.gz",
    "carving export people.safetensors people.csv --key name -o copy.csv",
)

WORST = 10  # pairs that are listed as never stored


@contextmanager
def locked(file: FilePath) -> Iterator[None]:
    """Only one command at a time changes a file: the next one waits, so that no one's pairs are lost."""
    lock = lock_for(file)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        errors.print(f"waiting for another command that writes {file}", markup=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def store(memory: MemoryFile, files: Sources, reading: Reading, new: NewMemory, as_json: Json = False) -> None:
    """Store files of pairs in a memory; a new memory gets the size that its pairs need."""
    with locked(memory):
        sources, samples = Files.open(files, reading), Samples()
        held = existing_memory(memory, new) if memory.exists() else new_memory(sources, new)
        with bar(errors, "storing", None) as advance:  # nothing is written before all of it is read
            stored = held.store(samples.watch(sources), on_progress=advance)
        held.save(memory)
    if as_json:
        facts = dict(stored=stored, skipped=sources.bad, pairs=held.pairs, leaves=len(held.vocabulary))
        write_json(facts | dict(scheme=identity(held.scheme), file=str(memory)))
        return
    skipped = f", skipped {sources.bad:,} bad lines" if sources.bad else ""
    write_line(f"stored {stored:,} pairs in {memory}{skipped}")
    write_line(memory_sentence(held))
    commands = [command for path in samples.paths() if (command := ask_command(memory, path))]
    if commands:
        write_line("ask it, for example:")
    for command in commands:
        write_line(f"  {command}")


@dataclass
class Samples:
    """The first and the last path of pairs that pass by."""

    first: Path | None = None
    last: Path | None = None

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs as they are."""
        for path, leaf in pairs:
            self.first, self.last = self.first or path, path
            yield path, leaf

    def paths(self) -> list[Path]:
        """Two paths, or one if they are the same."""
        return list(dict.fromkeys(path for path in (self.first, self.last) if path is not None))


def existing_memory(file: FilePath, new: NewMemory) -> Memory:
    """The memory that is there; options that make a new one must not speak of another."""
    held = Memory.load(file)
    known = identity(held.scheme)
    for name, value in new.given().items():
        has = known.get("name" if name == "scheme" else name)
        if value != has:
            problem = f"has {name}={has}, not {value}" if has is not None else f"exists, so that --{name} says nothing"
            raise BadValue(f"{file} {problem}; leave the option out, or name a new file")
    return held


def new_memory(sources: Files, new: NewMemory) -> Memory:
    """An empty memory as it was wanted, or as the planner wants it for these files."""
    given = new.given()
    if new.d is not None:
        if any(wish is not None for wish in (new.accuracy, new.room, new.slack)):
            raise BadValue("--accuracy, --room and --slack are for the planner, which --d leaves nothing to choose")
        paths_of_any_depth = dict(whole_path=True) if new.scheme == "TPR" else {}
        return Memory(make(given.pop("scheme", "OSC"), **given, **paths_of_any_depth))
    if new.k1 is not None:
        raise BadValue(f"--k1 {new.k1} needs --d too; without both the planner chooses them")
    with bar(errors, "reading and planning", None) as advance:
        return Memory.for_pairs(sources.at_least_one(), on_progress=advance, **given)


def forget(memory: MemoryFile, files: Sources, reading: Reading, as_json: Json = False) -> None:
    """Take files of pairs out of a memory again."""
    if not memory.exists():
        raise FileNotFoundError(f"there is no file {memory}")
    with locked(memory):
        sources, held, counter = Files.open(files, reading), Memory.load(memory), Counter()
        with bar(errors, "forgetting", None) as advance:
            strangers = held.forget(sources, on_progress=counter.then(advance))
        held.save(memory)
    if as_json:
        never = [dict(path=list(path), leaf=leaf) for path, leaf in strangers]
        write_json(dict(forgotten=counter.total, never_stored=never, pairs=held.pairs))
        return
    known = f", {len(strangers):,} of them probably never stored" if strangers else ""
    write_line(f"took out {counter.total:,} pairs{known}; {held.pairs:,} are left")
    lines = [f"probably never stored: {path_text(path)} -> {leaf!r}" for path, leaf in strangers]
    write_limited(lines, WORST, "that were probably never stored")


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
    as_json: Json = False,
) -> None:
    """Add memories of one scheme: the result holds the pairs of all."""
    with locked(target):
        if len(memories) < 2:
            raise BadValue(f"merging takes two memories or more, got {len(memories)}")
        total = Memory.load(memories[0])
        for file in memories[1:]:
            total = total + Memory.load(file)
        total.save(target)
    if as_json:
        write_json(dict(pairs=total.pairs, leaves=len(total.vocabulary), file=str(target)))
        return
    write_line(f"merged {len(memories)} memories into {target}")
    write_line(memory_sentence(total))


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
