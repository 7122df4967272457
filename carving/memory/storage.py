"""States in files, and out of them again: a base, and the changes of a journal that are made to it anew."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch

from carving.errors import BadValue, UserError
from carving.index.file import read_index, write_index
from carving.memory.counts import PathCounts, ValueCounts
from carving.memory.pairs import BATCH, Batch
from carving.memory.reader import Reader
from carving.memory.state import State
from carving.memory.update import Change, check_weights, finite_energy, levels_of
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

    reader: Reader
    base: str  # the checksum of the file itself
    journal: Journal | None  # the changes beside it, which the state has already

    @property
    def changes(self) -> int:
        """How many changes lie in the journal."""
        return 0 if self.journal is None else self.journal.count


def check_indexable(reader: Reader, bits: int | str | None) -> None:
    """Refuse to write an index where there can be none."""
    if not reader.codebook.indexable or bits is not None:
        raise BadValue(
            "index=True requires a memory with compact fillers, not trained, OSC(..., compact=True), and not "
            "quantized. Omit it."
        )


def save(path: Place, reader: Reader, dtype: torch.dtype | None, index: bool, force: bool) -> None:
    """Write a state to a file, in this precision; with `index` also the index of its fillers, beside it."""
    if dtype in memoryfile.DTYPES.values() and dtype != reader.scheme.dtype:
        check_weights(reader, [levels_of(reader.state)], dtype=dtype)
    memoryfile.write(path, contents_of(reader.state), dtype, force)
    if index:
        write_index(path, reader.codebook.index(), reader.vocabulary, force)


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


def _indexed(path: Place, state: State) -> Reader:
    """Return the reader of a state, with the index that lies beside its file, if there is one of its values."""
    reader = Reader(state)
    if reader.codebook.indexable and len(reader.vocabulary):
        reader.codebook.keep_index(read_index(path, reader.scheme, reader.vocabulary))
    return reader


def state_of(contents: memoryfile.Contents, device: torch.device | str) -> State:
    """Return the state of a file without a journal."""
    scheme = contents.scheme.like(device=device)
    return State(
        scheme,
        contents.tensor.to(scheme.device),
        contents.vocabulary,
        ValueCounts(contents.counts),
        trained=contents.fillers,
        path_counts=None if contents.paths is None else PathCounts(contents.paths),
        sample=contents.sample,
        target=contents.target,
        calibration=contents.solved,
    )


def contents_of(state: State) -> memoryfile.Contents:
    """Return what is written of a state."""
    return memoryfile.Contents(
        state.scheme,
        state.tensor,
        state.vocabulary,
        state.counts,
        state.trained,
        target=state.target,
        paths=None if state.path_counts is None else state.path_counts.weights(),
        sample=state.sample,
        solved=state.calibration,
    )


def replayed(reader: Reader, records: Iterable[Record], *, bind: bool = True) -> Reader:
    """Return the reader with all changes of a journal; without `bind` they are counted, but not in the tensor yet."""
    change = Change(reader)
    for batch, weights, is_counted in _batches(records):
        if bind:
            change.bind(batch, weights)
        change.count(batch, weights, is_counted)
    return change.after()


def bound(reader: Reader, records: Iterable[Record]) -> Reader:
    """Return the reader with a tensor that has changes which are counted already."""
    change = Change(reader)
    for batch, weights, _ in _batches(records):
        change.bind(batch, weights)
    return reader.after(replace(reader.state, tensor=change.tensor), finite_energy(reader.scheme, change.tensor))


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
