"""QuantizedMemory: a memory quantized to a few bits per cell, for queries only, and its conversion back."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from carving.errors import BadType, BadValue, refused
from carving.inference.amp import BIN_TOLERANCE
from carving.inference.calibration import Consolidated
from carving.inference.sample import ONCE
from carving.memory.capacity import predicted_accuracy
from carving.memory.codebook import check_finite
from carving.memory.counts import KnownPaths
from carving.memory.evaluate import Inventory, Reliability, counted
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, Batch, OnProgress
from carving.memory.state import Kept, State, known_paths
from carving.memory.update import Change
from carving.quantization import BITS, Cells, check_bits
from carving.storage import memoryfile
from carving.storage.locks import Place, shown
from carving.storage.memoryfile import QUANTIZED, Contents, Sizes, reals
from carving.storage.tensorfile import kind_of
from carving.symbols.codec import Path, Value
from carving.symbols.vocabulary import Vocabulary
from carving.validate import show_bits

USUAL = 2  # bits a cell
WORSE = 0.01  # of the answers may be lost by few bits, where nothing was planned
UNPREDICTED = 4  # bits for schemes of which nothing is predicted: they add a hundredth to the noise
EXACT = 1e-5  # how near to a cell's mean a number is it
COUNTED = 2**32  # pairs of one value, which a file cannot count
UNSEAL = "A quantized memory cannot be {}. Its `to_memory(paths)` method returns a memory that can."


class QuantizedMemory(Inventory, Reliability):
    """A memory quantized to a few bits per cell. It answers all queries; probabilities include quantization noise.

    `Memory.quantize` and `QuantizedMemory.load` return quantized memories. They cannot be changed: `store`, `forget`,
    `+`, `merge`, `grow` and `consolidate` raise BadValue. `decode` decodes all paths jointly. `to_memory`
    decodes all pairs and stores them again, which restores the memory before quantization.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2, compact=True))
    >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
    2
    >>> quantized = memory.quantize(bits=2)
    >>> quantized.recall("dog", "says").value, quantized.to_memory([("dog", "says"), ("cat", "says")]).pairs
    ('woof', 2)
    """

    def __init__(self, state: State) -> None:
        if not isinstance(state, State) or state.cells is None:
            raise BadType(f"A quantized memory must come from `memory.quantize(bits=2)` or a file, got {state!r}.")
        self._state = state

    def __repr__(self) -> str:
        held = f"{self.pairs:,} pairs and {len(self.vocabulary):,} values in {self.scheme}"
        how = ", consolidated" if self.is_consolidated else ""
        return f"QuantizedMemory of {held}, {show_bits(self.bits)} per cell{how}"

    @property
    def is_consolidated(self) -> bool:
        """Whether the memory was consolidated before it was quantized, so that quantization lost nothing."""
        return self._state.solved is not None

    @property
    def cells(self) -> Cells:
        """The quantized cells."""
        assert self._state.cells is not None
        return self._state.cells

    @property
    def bits(self) -> int:
        """The number of bits per cell."""
        return self.cells.bits

    @property
    def tensor(self) -> Tensor:
        """The dequantized tensor (*scheme.facts.memory_shape)."""
        return self._state.tensor

    @property
    def sizes(self) -> Sizes:
        """The number of bits that each part of the file takes."""
        return contents_of(self._state).sizes

    # What it does not do

    store = refused(UNSEAL.format("stored to"))
    forget = refused(UNSEAL.format("changed by forgetting"))
    merge = refused(UNSEAL.format("added to"))
    grow = refused(UNSEAL.format("grown"))
    consolidate = refused(UNSEAL.format("consolidated"))
    quantize = refused(UNSEAL.format("quantized again"))
    __add__ = __radd__ = refused(UNSEAL.format("added"))

    # Back again

    def to_memory(self, paths: Iterable[Path] | None = None, on_progress: OnProgress | None = None) -> Memory:
        """Decode all pairs and store them again: return the memory that was quantized.

        The result is quantized for comparison: it must reproduce the cells. A consolidated memory lost nothing and is
        returned as it is, without decoding.

        Args:
            paths: All paths, each as often as it holds values. By default the kept paths.
            on_progress: Called with the number of paths that were decoded since the last call.

        Raises:
            BadValue: If there are not as many paths as pairs, the decoded pairs do not reproduce the cells, or
                the memory keeps no paths and none are given.
        """
        held = self._state
        if held.solved is not None:
            return Memory._of(replace(held, cells=None, kept=Kept()))
        known = known_paths(held) if paths is None else counted(paths)
        if known.pairs != held.pairs:
            raise BadValue(
                f"paths must list all {held.pairs:,} pairs of the memory, got {known.pairs:,}. Pass every path as "
                "often as it holds values."
            )
        answers = self.decode(known.each(), prior_empty=0.0, on_progress=on_progress)
        values = held.vocabulary
        empty = replace(held.emptied(), known=None if held.known is None else KnownPaths())
        blank = empty.holding(empty.tensor, values, torch.zeros(len(values), dtype=torch.float64))
        change, pairs = Change(blank, 1.0), list(zip(answers.paths, (answer.value for answer in answers), strict=True))
        for start in range(0, len(pairs), BATCH):
            change.add(Batch(pairs[start : start + BATCH]))
        state = replace(change.state(), room=held.room, told=held.told)
        outside = self.cells.outside(reals(state.tensor), BIN_TOLERANCE)
        if outside or not answers.converged:  # in a full memory wrong pairs may have the same cells
            raise BadValue(
                f"Decoding did not converge: {outside:,} of {self.cells.codes.numel():,} cells of the decoded pairs "
                f"differ from the memory (after {answers.rounds} rounds). It is over capacity for "
                f"{show_bits(self.bits)} per cell, or the paths or the vocabulary belong to another memory."
            )
        return Memory._of(state)

    # Files

    def save(self, path: Place, *, vocabulary: bool = True, force: bool = False) -> None:
        """Save the memory to one file, atomically, with a few bits per cell.

        Args:
            path: Name of the file.
            vocabulary: Whether to save the values and their counts, often most of the file. Without them, pass the
                values to `QuantizedMemory.load(path, vocabulary=values)`.
            force: Replace a file that is not a quantized memory, or is read-only.

        Raises:
            BadValue: If another kind of file has that name (without `force`), or `vocabulary=False` would lose the
                values of trained fillers.
            OSError: If the file cannot be written; the former file then stays.
        """
        memoryfile.write(path, contents_of(self._state, vocabulary), force=force)

    @classmethod
    def load(
        cls, path: Place, vocabulary: Iterable[Value] | None = None, *, device: torch.device | str = "cpu"
    ) -> Self:
        """Load a quantized memory.

        Args:
            path: Name of the file.
            vocabulary: The values, if the file was saved without them.
            device: Device of the memory.

        Raises:
            BadFile: If the file is corrupt, or not a quantized memory.
            BadValue: If the vocabulary is missing, or is given although the file has one.
        """
        return cls(_state_of(memoryfile.read(path, QUANTIZED), shown(path), vocabulary, device))


def load_memory(
    path: Place, vocabulary: Iterable[Value] | None = None, *, device: torch.device | str = "cpu"
) -> Memory | QuantizedMemory:
    """Load a memory, quantized or not, from its file; see `Memory.load` and `QuantizedMemory.load`."""
    if kind_of(path) == QUANTIZED:
        return QuantizedMemory.load(path, vocabulary, device=device)
    if vocabulary is not None:
        raise BadValue(f"{shown(path)} contains its vocabulary. Omit vocabulary=.")
    return Memory.load(path, device)


# Quantizing


def quantized(held: State, bits: int | str | None) -> QuantizedMemory:
    """Quantize a state; None means 2 bits per cell, or the bits that it was consolidated for."""
    check_sealable(held)
    if bits is None:
        bits = USUAL if held.solved is None else "auto"
    if held.solved is not None:
        return QuantizedMemory(_packed(held, held.solved, bits))
    wished = _wished(bits)
    chosen = fewest_bits(held) if wished is None else wished
    return QuantizedMemory(_with_cells(held, Cells.of(reals(held.tensor), chosen)))


def _wished(bits: int | str) -> int | None:
    """The bits that are wished, None for those that will do."""
    if isinstance(bits, str):
        if bits != "auto":
            raise BadValue(f'bits must be 1, 2, 3, 4, 8 or "auto", got {bits!r}.')
        return None
    return check_bits(bits)


def _packed(held: State, solved: Consolidated, bits: int | str) -> State:
    """A consolidated state in the cells that it was solved for, which are all of it."""
    grid, wished = solved.grid, _wished(bits)
    if grid is None:
        raise BadValue(
            "Cannot quantize: the memory was consolidated at full precision, or changed since, and rounding would "
            f"break it. Consolidate again with consolidate(pairs, bits={wished or 4})."
        )
    if wished not in (None, grid.bits):
        raise BadValue(
            f"bits must be {grid.bits}, for which the memory was consolidated, got {wished}. To change it, consolidate "
            f"again with consolidate(pairs, bits={wished})."
        )
    numbers = reals(held.tensor)
    cells = Cells.solved(numbers, grid.bits, grid.deviation)
    if not torch.allclose(cells.numbers(numbers.dtype), numbers, rtol=EXACT, atol=EXACT * grid.deviation):
        raise BadValue(
            f"Cannot quantize: the tensor was changed since the memory was consolidated for {grid.bits} bits per cell. "
            f"Consolidate again with consolidate(pairs, bits={grid.bits})."
        )
    return _with_cells(replace(held, solved=solved.rounded()), cells)


def check_sealable(held: State) -> None:
    """Refuse what is no sum of pairs that were stored once each, with the weight 1."""
    scheme, counts = held.scheme, held.counts
    if not scheme.facts.linear:
        raise BadValue(
            f"Cannot quantize: a memory of {scheme} is not a plain sum of its pairs. Use another scheme, or "
            'memory="raw".'
        )
    check_finite("The memory tensor", held.tensor)
    if not held.pairs:
        raise BadValue("Cannot quantize: the memory is empty. Store pairs first.")
    # What was solved does not know how often.
    once = held.solved is not None or (held.strengths == ONCE and not held.histogram.negative)
    if not once or bool(((counts != counts.round()) | (counts < 0) | (counts >= COUNTED)).any()):
        raise BadValue(
            "Cannot quantize: every pair must be stored once, with weight 1, and some were not. Store them so in a new "
            "memory, or save this one in half precision: save(file, dtype=torch.float16)."
        )


def _with_cells(held: State, cells: Cells) -> State:
    numbers = cells.numbers(held.scheme.dtype)
    tensor = torch.view_as_complex(numbers) if held.scheme.facts.memory_dtype.is_complex else numbers
    fresh = held.holding(tensor, {}, held.counts[:0])
    return replace(fresh, cells=cells)


def fewest_bits(held: State) -> int:
    """The fewest bits with which a state is predicted to reach its goal, or hardly to lose anything."""
    joint = held.target is not None and held.target.joint
    values, load = len(held.vocabulary), held.load
    now = predicted_accuracy(held.scheme, load, values, joint)
    if now is None:
        return UNPREDICTED
    enough = now - WORSE if held.target is None else min(now, held.target.accuracy)
    for bits in BITS:
        then = predicted_accuracy(held.scheme, load, values, joint, bits=bits)
        if then is not None and then >= enough:
            return bits
    return BITS[-1]


def contents_of(held: State, vocabulary: bool = True) -> Contents:
    """What is written of a quantized state."""
    assert held.cells is not None
    trained = held.codebook.trained
    if trained is not None and not vocabulary:
        raise BadValue("vocabulary=False would lose the values that the trained fillers belong to. Omit it.")
    return Contents(
        scheme=held.scheme,
        tensor=held.cells,
        pairs=held.pairs,
        sample=replace(held.histogram, values=held.sample.values),
        vocabulary=held.vocabulary if vocabulary else None,
        counts=held.counts if vocabulary else None,
        fillers=trained,
        target=held.target,
        paths=None if held.known is None else held.known.weights(),
        solved=held.solved,
    )


def _state_of(found: Contents, name: str, vocabulary: Iterable[Value] | None, device: torch.device | str) -> State:
    """The state of a quantized file."""
    values, counts = found.vocabulary, found.counts
    if values is None or counts is None:
        if vocabulary is None:
            raise BadValue(
                f"{name} was saved without its vocabulary. Pass the values: "
                "`QuantizedMemory.load(file, vocabulary=values)`."
            )
        values = Vocabulary(vocabulary)
        counts = torch.full((len(values),), found.pairs / max(1, len(values)), dtype=torch.float64)
    elif vocabulary is not None:
        raise BadValue(f"{name} contains its vocabulary. Omit vocabulary=.")
    scheme, trained = found.scheme.like(device=device), 0 if found.fillers is None else len(found.fillers)
    known = None if found.paths is None else KnownPaths(found.paths)
    empty = State.empty(scheme, values.first(trained), found.fillers, found.target, known)
    held = empty.holding(empty.tensor, values, counts)
    held = replace(held, sample=found.sample, solved=found.solved)
    return _with_cells(held, found.cells.to(scheme.device))
