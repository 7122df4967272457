"""What commands do with journals: append small changes to them, tell of them, and `carving compact`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath

from carving.cli.extent import extent
from carving.cli.fullness import Fullness
from carving.cli.input import Files
from carving.cli.locking import locked
from carving.cli.options import Json, MemoryFile, NewMemory, examples
from carving.cli.output import count_text, errors, write_json, write_line
from carving.console import bar
from carving.distributed import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.memory.backends import check_depths, entries_of
from carving.memory.opened import open_memory
from carving.memory.pairs import Batch, OnProgress, as_pair
from carving.memory.update import check_same
from carving.schemes.base import Scheme
from carving.storage import journal, memoryfile
from carving.storage.journal import JournalRecord
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.memoryfile import identity
from carving.storage.tensorfile import check_replaceable, read_metadata
from carving.symbols.codec import Path, canonical_path, parse_paths
from carving.validate import show_bytes

COMPACT_EPILOG = examples("carving compact facts.safetensors")

LARGE = 2**20  # bytes: a file that is smaller is written anew as fast as a journal is


@dataclass(frozen=True)
class Stored:
    """What a command has stored, and where."""

    stored: int
    scheme: Scheme
    pairs: int
    values: int
    full: Fullness


@dataclass
class Samples:
    """The first and the last path of pairs that pass by."""

    first: Path | None = None
    last: Path | None = None

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs as they are."""
        for path, value in pairs:
            self.first, self.last = self.first or path, path
            yield path, value

    def of_all(self, ranks: Ranks) -> "Samples":
        """Return the first and the last sampled path of all ranks."""
        names = [name for part in ranks.gather(list(map(canonical_path, self.paths()))) for name in part]
        return Samples(*parse_paths([names[0], names[-1]])) if names else self

    def paths(self) -> list[Path]:
        """Two paths, or one if they are the same."""
        return list(dict.fromkeys(path for path in (self.first, self.last) if path is not None))


def is_large(file: FilePath) -> bool:
    """Whether small changes of a file had better go to its journal."""
    return file.exists() and file.stat().st_size >= LARGE and journal.can_have_journal(file)


def appended(file: FilePath, sources: Files, samples: Samples, new: NewMemory, force: bool) -> Stored | None:
    """Store a few pairs in the journal of a large file, whose tensor is not even read; None if that does not do."""
    if not is_large(file):
        return None
    journaled = JournaledFile(file)
    outline, version = journaled.outline()
    if new.keep_paths and not outline.keeps_paths:
        return None
    scheme = outline.scheme
    check_given(file, scheme, new)
    with bar(errors, "reading", None) as advance:
        record = small_change(scheme, watched(samples.watch(sources), advance), version)
    # Fillers that are too large for the tensor are seen when they are added, and what is left of a solved one is told.
    if record is None or outline.is_trained or outline.solved:
        return None
    before, after = extent(outline, version.records), extent(outline, (*version.records, record))
    full = Fullness.at(scheme, outline.target, before, after, outline.keeps_paths)
    full.check(file, force)
    check_replaceable(file, "memory", None)
    if journaled.append(version, record) is None:
        raise BadValue(f"{file} was modified by another process. Nothing was stored; try again.")
    return Stored(stored=record.pairs, scheme=scheme, pairs=after.pairs, values=after.values, full=full)


def small_change(scheme: Scheme, pairs: Iterable[Pair], version: Version) -> JournalRecord | None:
    """Return the pairs as a change of a journal; None if there are none, or if the journal would be too long then."""
    numbers = scheme.facts.memory_scalars
    first = list(islice(map(as_pair, pairs), version.max_pairs(numbers) + 1))
    if not 0 < len(first) <= version.max_pairs(numbers):
        return None
    batch = Batch(first)
    check_depths(scheme, batch.paths)
    record = JournalRecord.of(entries_of(batch))
    return None if version.is_long(numbers, record) else record


def watched(pairs: Iterable[Pair], advance: OnProgress) -> Iterator[Pair]:
    """The pairs as they are, told one by one."""
    for pair in pairs:
        advance(1)
        yield pair


def check_given(file: FilePath, scheme: Scheme, new: NewMemory) -> None:
    """Raise `BadValue` if options for a new memory contradict the memory that exists."""
    if new.like is not None:
        check_same(scheme, memoryfile.outline(new.like).scheme)
    known = identity(scheme)
    for name, value in new.given().items():
        has = known.get("name" if name == "scheme" else name)
        if value != has:
            problem = f"has {name}={has}, got {value}" if has is not None else f"exists already, got --{name}"
            raise BadValue(f"{file} {problem}. Omit the option, or name a new file.")


def compact(memory: MemoryFile, as_json: Json = False) -> None:
    """Write the changes in the journal of a memory into its file."""
    with locked(memory), open_memory(memory) as held:
        changes = held.compact()
    if as_json:
        write_json(dict(file=str(memory), changes=changes, pairs=held.pairs, bytes=memory.stat().st_size))
    elif changes:
        write_line(f"Wrote {count_text(changes, 'change')} into {memory}: {count_text(held.pairs, 'pair')}.")
    else:
        write_line(f"{memory} has no journal, nothing to compact: {count_text(held.pairs, 'pair')}.")


def journal_facts(file: FilePath) -> dict[str, object]:
    """What lies in the journal of a file, for JSON."""
    found = journal.read(file)
    if found is None:
        return {}
    own = found.base == read_metadata(file).get("checksum")
    facts = dict(changes=found.count, pairs=found.pairs, bytes=found.size, unfinished=found.torn, ignored=not own)
    return dict(journal=facts)


def journal_sentences(file: FilePath) -> Iterator[str]:
    """What lies in the journal of a file, for people."""
    found = journal.read(file)
    if found is None:
        return
    place = journal.journal_path(file)
    if found.base != read_metadata(file).get("checksum"):
        yield (
            f"{place} belongs to another version of this file and is ignored; the next change deletes it. To keep its "
            "changes, restore the version of the file that they were made to."
        )
        return
    changes = f"{count_text(found.count, 'change')} with {count_text(found.pairs, 'pair')}"
    yield f"Journal: {changes} in {place}. `carving compact` writes them into the file."
    if found.torn:
        yield f"The last {show_bytes(found.torn)} of the journal are an interrupted change, which is ignored."
