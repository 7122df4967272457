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
from carving.cli.merging import alike, merged
from carving.cli.options import Json, MemoryFile, NewMemory, Reading, Sources, Work, examples
from carving.cli.output import (
    ask_command,
    count_text,
    errors,
    holding_sentence,
    memory_sentence,
    write_json,
    write_line,
)
from carving.cli.ranks import together
from carving.console import bar
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.memory import Memory
from carving.memory.backends import check_indexable
from carving.memory.capacity import collected
from carving.memory.opened import Opened, open_memory
from carving.schemes import make
from carving.storage.memoryfile import identity, precision
from carving.storage.tensorfile import check_replaceable

STORE_EPILOG = examples(
    "carving store facts.safetensors facts.json",
    "carving store graph.safetensors wn18rr_train.tsv.xz --accuracy 0.999 --headroom 2",
    "carving store people.safetensors people.csv --key name --delimiter ';'",
    "carving store mine.safetensors mine.tsv --like yours.safetensors",
    "carving store facts.safetensors facts.json --keep-paths",
    "carving store graph.safetensors graph.jsonl --workers 4",
    "carving store facts.safetensors corrections.json --replace",
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
    force: Annotated[
        bool, typer.Option("--force", help="Store even if the memory falls below its target accuracy.")
    ] = False,
    replacing: Annotated[
        bool, typer.Option("--replace", help="Replace the value that each path has; every path must have one.")
    ] = False,
    index: Annotated[
        bool,
        typer.Option(
            "--index", help="Also write MEMORY.index, which makes queries fast when there are very many values."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Store the pairs of files in a memory.

    A new memory gets the size that its pairs need.
    """
    with together(work) as ranks, locked(memory, ranks):
        sources, samples = Files.shared(files, reading, ranks), Samples()
        small = memory.exists() and ranks.size == 1 and not index
        if replacing:
            done: Stored | None = replaced(memory, sources, samples, ranks, force)
        else:
            done = appended(memory, sources, samples, new, force) if small else None
        if done is None:  # the file is new, or small, or there is much to store: it is written whole
            done = rewritten(memory, sources, samples, new, ranks, force=force, index=index)
        skipped = sum(ranks.gather(sources.bad))
        samples = samples.of_all(ranks)
    if as_json:
        facts = dict(stored=done.stored, skipped=skipped, pairs=done.pairs, values=done.values)
        write_json(facts | dict(scheme=identity(done.scheme), file=str(memory)) | done.full.facts())
        return
    bad = f"; skipped {count_text(skipped, 'malformed line')}" if skipped else ""
    verb = "Replaced the values of" if replacing else "Stored"
    what = "path" if replacing else "pair"
    write_line(f"{verb} {count_text(done.stored, what)} in {memory}{bad}.")
    write_line(holding_sentence(done.scheme, done.pairs, done.values))
    done.full.write()
    commands = [command for path in samples.paths() if (command := ask_command(memory, path))]
    if commands:
        write_line("Query it, for example:")
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
    if group is not None:
        held = held.distributed(group)
    if index:
        check_indexable(held._reader, None)
    ranks.agreed(lambda: check_replaceable(memory, "memory", None))
    before = held.predicted_accuracy()
    with bar(errors, "storing", None) as advance, collected():  # nothing is written before all of it is read
        stored = held.store(samples.watch(sources), on_progress=advance)
    full = Fullness.of(before, held)
    full.check(memory, force)
    held.save(memory, precision(memory, held.tensor), index=index)
    return Stored(stored=stored, scheme=held.scheme, pairs=held.pairs, values=len(held.vocabulary), full=full)


def replaced(memory: FilePath, sources: Files, samples: Samples, ranks: Ranks, force: bool) -> Stored:
    """Replace the values of all paths of the sources, and write the memory's file."""
    if ranks.size > 1:
        raise BadValue("--replace needs one process. Omit --workers.")
    held, count = Memory.load(memory), 0
    before = held.predicted_accuracy()
    check_replaceable(memory, "memory", None)
    with bar(errors, "replacing", None) as advance:
        for path, value in samples.watch(sources):
            try:
                held.replace(path, value, force=force)
            except BadValue as error:
                raise BadValue(f"{error} Nothing was written; --force replaces the likeliest value.") from None
            count += 1
            advance(1)
    held.save(memory, precision(memory, held.tensor))
    full = Fullness.of(before, held)
    return Stored(stored=count, scheme=held.scheme, pairs=held.pairs, values=len(held.vocabulary), full=full)


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
            f"--keep-paths: {file} was created without it, so the paths of its pairs are unknown. Run `carving grow "
            f"{file} FILES --keep-paths` with all files that were stored in it, or omit --keep-paths."
        )
    return held + Memory.like(held, keep_paths=True)


def new_memory(sources: Files, new: NewMemory, group: Ranks | None = None) -> Memory:
    """An empty memory as it was wanted, or as the planner wants it for these files."""
    given = new.given()
    if new.like is not None:
        if given:
            raise BadValue(f"--like {new.like} conflicts with --{next(iter(given))}. Pass only one.")
        return Memory.like(Memory.load(new.like, group=group), keep_paths=new.keep_paths or None)
    if new.d is not None:
        if any(wish is not None for wish in (new.accuracy, new.headroom, new.slack)):
            raise BadValue(
                "--accuracy, --headroom and --slack are options of the planner, which --d replaces. Omit them, or --d."
            )
        paths_of_any_depth = dict(whole_path=True) if new.scheme == "TPR" else {}
        return Memory(make(given.pop("scheme", "OSC"), **given, **paths_of_any_depth), keep_paths=new.keep_paths)
    if new.k1 is not None:
        raise BadValue(f"--k1 {new.k1} requires --d. Without both, the planner chooses them.")
    with bar(errors, "reading and planning", None) as advance:
        pairs = sources.at_least_one() if group is None else sources
        return Memory.for_pairs(pairs, keep_paths=new.keep_paths, group=group, on_progress=advance, **given)


def forget(
    memory: MemoryFile,
    files: Sources,
    reading: Reading,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Subtract pairs even if they were probably never stored (leaves negative traces)."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove the pairs of files from a memory.

    Pairs that were probably never stored are skipped and listed.
    """
    if not memory.exists():
        raise FileNotFoundError(f"{memory} does not exist.")
    with locked(memory):
        sources, counter = Files.open(files, reading), Counter()
        held = open_memory(memory) if is_large(memory) else Memory.load(memory)
        check_replaceable(memory, "memory", None)
        with bar(errors, "forgetting", None) as advance:
            not_found = held.forget(sources, force=force, on_progress=counter.then(advance))
        gone = counter.total if force else counter.total - len(not_found)
        if gone and not isinstance(held, Opened):  # which has written it
            held.save(memory, precision(memory, held.tensor))
    if as_json:
        write_json(forgotten_json(gone, not_found) | dict(pairs=held.pairs))
    else:
        write_forgotten(gone, not_found, held.pairs, force)


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
    memories: Annotated[list[FilePath], typer.Argument(metavar="MEMORY", help="Two or more memory files.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Merge even if the result falls below its target accuracy or decoding is uncertain; overwrite RESULT.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Merge memories into one that holds all their pairs.

    Memories of one scheme are added. If the schemes differ, the pairs of the smaller memory are decoded and stored
    again, which requires that it keeps its paths.
    """
    with locked(target):
        if len(memories) < 2:
            raise BadValue(
                f"merge needs at least two memories, got {len(memories)}. Name RESULT first, then the memories."
            )
        check_replaceable(target, "memory", force)
        total = Memory.load(memories[0])
        before = total.predicted_accuracy()
        with collected():
            for file in memories[1:]:
                total = joined(total, Memory.load(file), file, force)
        full = Fullness.of(before, total)
        full.check(target, force, merged=memories)
        total.save(target, force=force)
    if as_json:
        write_json(dict(pairs=total.pairs, values=len(total.vocabulary), file=str(target)) | full.facts())
        return
    write_line(f"Merged {len(memories)} memories into {target}.")
    write_line(memory_sentence(total))
    full.write()


def joined(total: Memory, other: Memory, file: FilePath, force: bool) -> Memory:
    """Two memories as one; what is not a plain sum is said."""
    if not alike(total, other):
        with bar(errors, "decoding", None) as advance:
            both = merged(total, other, force, advance)
        errors.print(f"{file} has another scheme: decoded the smaller memory and stored its pairs again.", markup=False)
        return both
    both = merged(total, other, force)
    if (total.keeps_paths or other.keeps_paths) and not both.keeps_paths:
        errors.print("Not all of these memories keep their paths, so the result keeps none.", markup=False)
    return both
