"""States in files, and out of them again: a base, and the changes of a journal that are made to it anew."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.index.file import read_index, write_index
from carving.memory.counts import PathCounts, ValueCounts
from carving.memory.pairs import BATCH, Batch
from carving.memory.reader import Reader
from carving.memory.state import State
from carving.memory.update import Change, check_weights, finite_energy, levels_of
from carving.quantization import Cells
from carving.storage import memoryfile
from carving.storage.journal import JournalRecord, journal_path
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.locks import Place
from carving.storage.tensorfile import refusing_damage
from carving.symbols.vocabulary import Vocabulary


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


def load(file: JournaledFile, device: torch.device | str = "cpu") -> tuple[Reader, Version]:
    """Return the reader of a file and its journal, and the version that was read."""
    contents, version = file.load()
    reader = Reader(state_of(contents, device))
    if reader.codebook.indexable and len(reader.vocabulary):
        reader.codebook.keep_index(read_index(file.path, reader.scheme, reader.vocabulary))
    if version.records:
        with refusing_damage(journal_path(file.path)):
            reader = replayed(reader, version.records)
    return reader, version


def state_of(contents: memoryfile.Contents, device: torch.device | str, vocabulary: Vocabulary | None = None) -> State:
    """Return the state of a file without a journal; `vocabulary` has the values of a file that was saved without."""
    scheme, counts = contents.scheme.like(device=device), contents.counts
    values = contents.vocabulary if vocabulary is None else vocabulary
    assert values is not None
    if counts is None:  # each value was stored as often as the others, as far as is known
        counts = torch.full((len(values),), contents.pairs / max(1, len(values)), dtype=torch.float64)
    state = State(
        scheme=scheme,
        tensor=contents.tensor if isinstance(contents.tensor, Tensor) else torch.empty(0),
        vocabulary=values,
        value_counts=ValueCounts(counts),
        trained=contents.fillers,
        path_counts=None if contents.paths is None else PathCounts(contents.paths),
        sample=contents.sample,
        target=contents.target,
        calibration=contents.solved,
    )
    if isinstance(contents.tensor, Cells):
        return with_cells(state, contents.tensor.to(scheme.device))
    return replace(state, tensor=state.tensor.to(scheme.device))


def with_cells(state: State, cells: Cells) -> State:
    """Return the state quantized to cells."""
    numbers = cells.numbers(state.scheme.dtype)
    tensor = torch.view_as_complex(numbers) if state.scheme.facts.memory_dtype.is_complex else numbers
    return replace(state, tensor=tensor, cells=cells)


def contents_of(state: State, vocabulary: bool = True) -> memoryfile.Contents:
    """Return what is written of a state, with or without its values."""
    if state.trained is not None and not vocabulary:
        raise BadValue("vocabulary=False would lose the values that the trained fillers belong to. Omit it.")
    sample = state.sample
    if state.cells is not None:
        sample = replace(sample.histogram(state.stored), values=sample.values)
    return memoryfile.Contents(
        scheme=state.scheme,
        tensor=state.tensor if state.cells is None else state.cells,
        vocabulary=state.vocabulary if vocabulary else None,
        counts=state.counts if vocabulary else None,
        pairs=state.pairs,
        fillers=state.trained,
        target=state.target,
        paths=None if state.path_counts is None else state.path_counts.weights(),
        sample=sample,
        solved=state.calibration,
    )


def replayed(reader: Reader, records: Iterable[JournalRecord], *, bind: bool = True) -> Reader:
    """Return the reader with all changes of a journal; without `bind` they are counted, but not in the tensor yet."""
    change = Change(reader)
    for batch, weights, is_counted in _batches(records):
        if bind:
            change.bind(batch, weights)
        change.count(batch, weights, is_counted)
    return change.after()


def bind_records(reader: Reader, records: Iterable[JournalRecord]) -> Reader:
    """Return the reader with a tensor that has changes which are counted already."""
    change = Change(reader)
    for batch, weights, _ in _batches(records):
        change.bind(batch, weights)
    return reader.after(replace(reader.state, tensor=change.tensor), finite_energy(reader.scheme, change.tensor))


def _batches(records: Iterable[JournalRecord]) -> Iterator[tuple[Batch, Sequence[float], Sequence[bool]]]:
    """Yield the pairs of records in batches, with the weight of each and whether it is counted."""
    entries = chain.from_iterable(record.decoded() for record in records)
    while part := list(islice(entries, BATCH)):
        paths, values, weights, is_counted = zip(*part, strict=True)
        yield Batch(list(zip(paths, values, strict=True))), weights, is_counted
