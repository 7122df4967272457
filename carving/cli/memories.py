"""`carving store`, `forget` and `merge`: what changes memories."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Annotated

import typer

from carving import __version__
from carving.cli.forgetting import forgotten_json, write_forgotten
from carving.cli.fullness import Fullness
from carving.cli.input import Files
from carving.cli.journals import Samples, Stored, appended, check_given, is_large
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, NewMemory, Reading, Sources, Work, examples
from carving.cli.output import ask_command, errors, holding_sentence, memory_sentence, write_json, write_line
from carving.cli.ranks import together
from carving.console import bar
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.files import check_replaceable, identity, precision
from carving.memory import Memory
from carving.memory.fullness import collected
from carving.memory.merging import alike, merged
from carving.memory.opened import Opened, open_memory
from carving.memory.probing import check_indexable
from carving.schemes import make

STORE_EPILOG = examples(
    "carving store facts.safetensors facts.json",
    "carving store graph.safetensors wn18rr_train.tsv.xz --accuracy 0.999 --room 2",
    "carving store people.safetensors people.csv --key name --delimiter ';'",
    "carving store mine.safetensors mine.tsv --like yours.safetensors",
    "carving store facts.safetensors facts.json --keep-paths",
    "carving store graph.safetensors graph.jsonl --workers 4",
    "carving store words.safetensors words.tsv --index",
    "zcat trees.jsonl.gz | carving store trees.safetensors - --format jsonl",
)
FORGET_EPILOG = examples(
    "carving forget facts.safetensors outdated.json", "carving forget facts.safetensors never.json --force"
)
MERGE_EPILOG = examples("carving merge all.safetensors monday.safetensors tuesday.safetensors")


def store(
    memory: MemoryFile,
    files: Sources,
    reading: Reading,
    new: NewMemory,
    work: Work,
    force: Annotated[bool, typer.Option("--force", help="Store more than the memory was planned for.")] = False,
    index: Annotated[
        bool, typer.Option("--index", help="Write MEMORY.index too, by which very many leaves are asked at once.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Store files of pairs in a memory; a new memory gets the size that its pairs need."""
    with together(work) as ranks, locked(memory, ranks):
        sources, samples = Files.shared(files, reading, ranks), Samples()
        small = memory.exists() and ranks.size == 1 and not index
        done = appended(memory, sources, samples, new, force) if small else None
        if done is None:  # the file is new, or small, or there is much to store: it is written whole
            done = rewritten(memory, sources, samples, new, ranks, force=force, index=index)
        skipped = sum(ranks.gather(sources.bad))
        samples = samples.of_all(ranks)
    if as_json:
        facts = dict(stored=done.stored, skipped=skipped, pairs=done.pairs, leaves=done.leaves)
        write_json(facts | dict(scheme=identity(done.scheme), file=str(memory)) | done.full.facts())
        return
    bad = f", skipped {skipped:,} bad lines" if skipped else ""
    write_line(f"stored {done.stored:,} pairs in {memory}{bad}")
    write_line(holding_sentence(done.scheme, done.pairs, done.leaves))
    done.full.write()
    commands = [command for path in samples.paths() if (command := ask_command(memory, path))]
    if commands:
        write_line("ask it, for example:")
    for command in commands:
        write_line(f"  {command}")


def rewritten(
    memory: FilePath, sources: Files, samples: Samples, new: NewMemory, ranks: Ranks, *, force: bool, index: bool
) -> Stored:
    """Store all of the sources in a memory, new or not, and write its file."""
    group = ranks if ranks.size > 1 else None
    ranks.check_same(memory=f"{memory} (there: {memory.exists()})", options=(new, index), version=__version__)
    if not memory.exists() and new.compact is None and (index or new.dictionary) and new.like is None:
        new = replace(new, compact=True)  # which both are of
    held = existing_memory(memory, new, group) if memory.exists() else new_memory(sources, new, group)
    if index:
        check_indexable(held._state, None)
    ranks.agreed(lambda: check_replaceable(memory, "memory", None))
    before = held.predicted()
    with bar(errors, "storing", None) as advance, collected():  # nothing is written before all of it is read
        stored = held.store(samples.watch(sources), group=group, on_progress=advance)
    full = Fullness.of(before, held)
    full.check(memory, force)
    held.save(memory, precision(memory, held.tensor), index=index, group=group)
    return Stored(stored, held.scheme, held.pairs, len(held.vocabulary), full)


def existing_memory(file: FilePath, new: NewMemory, group: Ranks | None = None) -> Memory:
    """The memory that is there; options that make a new one must not speak of another."""
    held = Memory.load(file, group=group)
    check_given(file, held.scheme, new)
    if new.keep_paths and not held.keeps_paths:
        held = now_keeping(held, file)
    return held


def now_keeping(held: Memory, file: FilePath) -> Memory:
    """An empty memory, which keeps its paths from now on."""
    if held.counts.any():
        raise BadValue(
            f"{file} keeps no paths, so that those which it holds are not known; `carving grow {file} FILES "
            "--keep-paths` with all of its files makes one that does; or leave --keep-paths out"
        )
    return held + Memory.like(held, keep_paths=True)


def new_memory(sources: Files, new: NewMemory, group: Ranks | None = None) -> Memory:
    """An empty memory as it was wanted, or as the planner wants it for these files."""
    given = new.given()
    if new.like is not None:
        if given:
            raise BadValue(f"--like {new.like} says all that --{next(iter(given))} could; leave one of them out")
        return Memory.like(Memory.load(new.like, group=group), keep_paths=new.keep_paths or None)
    if new.d is not None:
        if any(wish is not None for wish in (new.accuracy, new.room, new.slack)):
            raise BadValue("--accuracy, --room and --slack are for the planner, which --d leaves nothing to choose")
        paths_of_any_depth = dict(whole_path=True) if new.scheme == "TPR" else {}
        return Memory(make(given.pop("scheme", "OSC"), **given, **paths_of_any_depth), keep_paths=new.keep_paths)
    if new.k1 is not None:
        raise BadValue(f"--k1 {new.k1} needs --d too; without both the planner chooses them")
    with bar(errors, "reading and planning", None) as advance:
        pairs = sources.at_least_one() if group is None else sources
        return Memory.for_pairs(pairs, keep_paths=new.keep_paths, group=group, on_progress=advance, **given)


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
        check_replaceable(memory, "memory", None)
        with bar(errors, "forgetting", None) as advance:
            strangers = held.forget(sources, force=force, on_progress=counter.then(advance))
        gone = counter.total if force else counter.total - len(strangers)
        if gone and not isinstance(held, Opened):  # which has written it
            held.save(memory, precision(memory, held.tensor))
    if as_json:
        write_json(forgotten_json(gone, strangers) | dict(pairs=held.pairs))
    else:
        write_forgotten(gone, strangers, held.pairs, force)


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
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Merge more than was planned for, or not decoded surely. Replace RESULT, whatever it is."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Add memories: the result holds the pairs of all; those of unlike ones are decoded, where paths are kept."""
    with locked(target):
        if len(memories) < 2:
            raise BadValue(
                f"merging takes two memories or more, got {len(memories)}; name the result first, then all of them"
            )
        check_replaceable(target, "memory", force)
        total = Memory.load(memories[0])
        before = total.predicted()
        with collected():
            for file in memories[1:]:
                total = joined(total, Memory.load(file), file, force)
        full = Fullness.of(before, total)
        full.check(target, force, merged=memories)
        total.save(target, force=force)
    if as_json:
        write_json(dict(pairs=total.pairs, leaves=len(total.vocabulary), file=str(target)) | full.facts())
        return
    write_line(f"merged {len(memories)} memories into {target}")
    write_line(memory_sentence(total))
    full.write()


def joined(total: Memory, other: Memory, file: FilePath, force: bool) -> Memory:
    """Two memories as one; what is not a plain sum is said."""
    if not alike(total, other):
        with bar(errors, "decoding", None) as advance:
            both = merged(total, other, force, advance)
        errors.print(f"{file} has another scheme: what the smaller holds was decoded and stored anew", markup=False)
        return both
    both = merged(total, other, force)
    if (total.keeps_paths or other.keeps_paths) and not both.keeps_paths:
        errors.print("not all of these memories keep their paths, so the result keeps none", markup=False)
    return both
