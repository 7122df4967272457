"""States in files, and out of them again: a base, and the changes of a journal that are made to it anew."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import torch
from torch import Tensor

from carving.index.file import read_index, write_index
from carving.memory.counts import KnownPaths
from carving.memory.pairs import BATCH, Batch
from carving.memory.state import Kept, State
from carving.memory.update import Change, check_weights, levels_of
from carving.storage import memoryfile
from carving.storage.journal import Record, journal_path
from carving.storage.journaledfile import JournaledFile, Version
from carving.storage.locks import Place
from carving.storage.tensorfile import refusing_damage


def save(path: Place, state: State, dtype: torch.dtype | None, index: bool, force: bool) -> None:
    """Write a state to a file, in this precision; with `index` also the index of its fillers, beside it."""
    if dtype in memoryfile.DTYPES.values() and dtype != state.scheme.dtype:
        check_weights(state, [levels_of(state)], dtype=dtype)
    memoryfile.write(path, contents_of(state), dtype, force)
    if index:
        write_index(path, state.codebook.index(), state.vocabulary, force)


def load(file: JournaledFile, device: torch.device | str = "cpu") -> tuple[State, Version]:
    """Return the state of a file and its journal, and the version that was read."""
    contents, version = file.load()
    state = state_of(contents, device)
    if state.codebook.indexable and len(state.vocabulary):
        state.codebook.keep_index(read_index(file.path, state.scheme, state.vocabulary))
    if version.records:
        with refusing_damage(journal_path(file.path)):
            state = replayed(state, version.records)
    return state, version


def state_of(contents: memoryfile.Contents, device: torch.device | str) -> State:
    """The state of a file without a journal."""
    scheme, fillers, vocabulary = contents.scheme.like(device=device), contents.fillers, contents.vocabulary
    trained = 0 if fillers is None else len(fillers)
    known = None if contents.paths is None else KnownPaths(contents.paths)
    assert vocabulary is not None and contents.counts is not None and isinstance(contents.tensor, Tensor)
    empty = State.empty(scheme, vocabulary.first(trained), fillers, contents.target, known)
    held = empty.holding(contents.tensor.to(scheme.device), vocabulary, contents.counts)
    return replace(held, sample=contents.sample, solved=contents.solved)


def contents_of(held: State) -> memoryfile.Contents:
    """What is written of a state."""
    return memoryfile.Contents(
        scheme=held.scheme,
        tensor=held.tensor,
        vocabulary=held.vocabulary,
        counts=held.counts,
        pairs=held.pairs,
        fillers=held.codebook.trained,
        target=held.target,
        paths=None if held.known is None else held.known.weights(),
        sample=held.sample,
        solved=held.solved,
    )


def replayed(held: State, records: Iterable[Record]) -> State:
    """Return the state with all changes of a journal."""
    change = Change(held, 1.0)
    for batch, weights, counted in _batches(records):
        change.bind(batch, weights)
        change.count(batch, weights, counted)
    return change.state()


def count_records(held: State, records: Iterable[Record]) -> State:
    """Return the state that counts changes, but whose tensor does not have them."""
    change = Change(held, 1.0)
    for batch, weights, counted in _batches(records):
        change.count(batch, weights, counted)
    return change.state()


def bind_records(held: State, records: Iterable[Record]) -> State:
    """Return a state that counts these changes already, with a tensor that has them too."""
    change = Change(held, 1.0)
    for batch, weights, _ in _batches(records):
        change.bind(batch, weights)
    return replace(held, tensor=change.state().tensor, kept=Kept())


def _batches(records: Iterable[Record]) -> Iterator[tuple[Batch, Sequence[float], Sequence[bool]]]:
    """Yield the pairs of records in batches, with the weight of each and whether it is counted."""
    entries = chain.from_iterable(record.decoded() for record in records)
    while part := list(islice(entries, BATCH)):
        paths, values, weights, counted = zip(*part, strict=True)
        yield Batch(list(zip(paths, values, strict=True))), weights, counted
