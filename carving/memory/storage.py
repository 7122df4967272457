"""States in files, and out of them again: a base, and the changes of a journal that are made to it anew."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch

from carving.errors import UserError
from carving.index.file import read_index, write_index
from carving.memory.counts import KnownPaths
from carving.memory.pairs import BATCH, Batch
from carving.memory.state import Kept, State
from carving.memory.update import Change, check_weights, levels_of
from carving.schemes.base import Scheme
from carving.storage import journal, memoryfile
from carving.storage.locks import Place, shown
from carving.storage.records import Journal, Record
from carving.storage.tensorfile import BadFile, NotWhole
from carving.symbols.codec import Path, Value

# What a pair takes when it is replayed, in one thread, about, in seconds: for itself, for a number that is drawn or
# made of it, for a number of the memory (where it is part of a product of matrices), and for a byte of its record.
PAIR, NUMBER, CELL, BYTE = 30e-6, 5e-9, 4e-11, 1e-8


class Loaded(NamedTuple):
    """What a file held at one moment."""

    state: State
    base: str  # the checksum of the file itself
    journal: Journal | None  # the changes beside it, which the state has already

    @property
    def changes(self) -> int:
        """How many changes lie in the journal."""
        return 0 if self.journal is None else self.journal.count


def save(path: Place, state: State, dtype: torch.dtype | None, index: bool, force: bool) -> None:
    """Write a state to a file, in this precision; with `index` also the index of its fillers, beside it."""
    if dtype in memoryfile.DTYPES.values() and dtype != state.scheme.dtype:
        check_weights(state, [levels_of(state)], dtype=dtype)
    memoryfile.write(path, contents_of(state), dtype, force)
    if index:
        write_index(path, state.codebook.index(), state.vocabulary, force)


def load(path: Place, device: torch.device | str = "cpu") -> Loaded:
    """What a file and its journal hold; see `carving.storage.journal` on why that is one whole state."""
    while True:
        written = journal.read(path)
        contents = _base(path, written)
        if written is None or written.base != contents.checksum:
            return Loaded(_indexed(path, state_of(contents, device)), contents.checksum, None)
        if journal.remains(path, written):  # and was not removed before a base of the same content came back
            break
    held = _indexed(path, state_of(contents, device))
    try:
        return Loaded(replayed(held, written.records), contents.checksum, written)
    except (NotWhole, UserError) as error:
        raise BadFile(f"{shown(journal.beside(path))} is corrupt ({shown(error)}). Restore it from a backup.") from None


def _base(path: Place, written: Journal | None) -> memoryfile.Contents:
    """What the file itself holds; where it is gone and its journal is not, that is said."""
    try:
        return memoryfile.read(path)
    except FileNotFoundError as error:
        if written is None or not written.count:
            raise
        raise FileNotFoundError(f"{error}, but {journal.orphaned(path, written)}") from None


def _indexed(path: Place, held: State) -> State:
    """The state, with the index that lies beside its file, if there is one of its values."""
    if held.codebook.indexable and len(held.vocabulary):
        held.codebook.keep_index(read_index(path, held.scheme, held.vocabulary))
    return held


def state_of(contents: memoryfile.Contents, device: torch.device | str) -> State:
    """The state of a file without a journal."""
    scheme, fillers, vocabulary = contents.scheme.like(device=device), contents.fillers, contents.vocabulary
    trained = 0 if fillers is None else len(fillers)
    known = None if contents.paths is None else KnownPaths(contents.paths)
    empty = State.empty(scheme, vocabulary.first(trained), fillers, contents.target, known)
    held = empty.holding(contents.tensor.to(scheme.device), vocabulary, contents.counts)
    return replace(held, sample=contents.sample, solved=contents.solved)


def contents_of(held: State) -> memoryfile.Contents:
    """What is written of a state."""
    trained, paths = held.codebook.trained, None if held.known is None else held.known.weights()
    known = dict(target=held.target, paths=paths, sample=held.sample, solved=held.solved)
    return memoryfile.Contents(held.scheme, held.tensor, held.vocabulary, held.counts, trained, **known)  # type: ignore[arg-type]


def replayed(held: State, records: Iterable[Record]) -> State:
    """The state with all changes of a journal."""
    change = Change(held, 1.0)
    for batch, weights, counted in _batches(records):
        change.bind(batch, weights)
        change.count(batch, weights, counted)
    return change.state()


def counted(held: State, records: Iterable[Record]) -> State:
    """The state that counts changes, but whose tensor does not have them."""
    change = Change(held, 1.0)
    for batch, weights, counted in _batches(records):
        change.count(batch, weights, counted)
    return change.state()


def bound(held: State, records: Iterable[Record]) -> State:
    """A state that counts these changes already, with a tensor that has them too."""
    change = Change(held, 1.0)
    for batch, weights, _ in _batches(records):
        change.bind(batch, weights)
    return replace(held, tensor=change.state().tensor, kept=Kept())


def _batches(records: Iterable[Record]) -> Iterator[tuple[Batch, Sequence[float], Sequence[bool]]]:
    """The pairs of records, many at a time, each with its weight and whether it counts."""
    entries = _entries(records)
    while part := list(islice(entries, BATCH)):
        paths, values, weights, counted = zip(*part, strict=True)
        yield Batch(list(zip(paths, values, strict=True))), weights, counted


def _entries(records: Iterable[Record]) -> Iterator[tuple[Path, Value, float, bool]]:
    for record in records:
        yield from record.decoded()


def seconds(scheme: Scheme, pairs: int, size: int = 0) -> float:
    """About how long it takes to replay so many pairs, whose records have so many bytes."""
    facts = scheme.facts
    numbers = facts.cost.pair + facts.cost.context + facts.filler_scalars
    return pairs * (PAIR + NUMBER * numbers + CELL * facts.memory_scalars) + size * BYTE
