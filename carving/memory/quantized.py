"""QuantizedMemory: a memory quantized to a few bits per cell, for queries only, and its conversion back."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self, TypeVar

import torch

from carving.errors import BadType, BadValue
from carving.inference.amp import BIN_TOLERANCE
from carving.inference.calibration import Consolidated
from carving.inference.sample import ONCE
from carving.memory.backends import ReadOnly, contents_of, state_of, with_cells
from carving.memory.capacity import predicted_accuracy
from carving.memory.codebook import check_finite
from carving.memory.evaluate import counted
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, OnProgress
from carving.memory.reader import Reader
from carving.memory.state import State, known_paths
from carving.memory.update import Change, store
from carving.quantization import BITS, Cells, check_bits
from carving.storage import memoryfile
from carving.storage.locks import Place, shown
from carving.storage.memoryfile import QUANTIZED, Sizes, reals
from carving.storage.tensorfile import kind_of
from carving.symbols.codec import Path, Value
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices
from carving.validate import show_bits

T = TypeVar("T")

USUAL = 2  # bits a cell
WORSE = 0.01  # of the answers may be lost by few bits, where nothing was planned
UNPREDICTED = 4  # bits for schemes of which nothing is predicted: they add a hundredth to the noise
EXACT = 1e-5  # how near to a cell's mean a number is it
COUNTED = 2**32  # pairs of one value, which a file cannot count


class QuantizedMemory(Memory):
    """A memory quantized to a few bits per cell. It answers all queries; probabilities include quantization noise.

    `Memory.quantize` and `QuantizedMemory.load` return quantized memories. They cannot be changed: `store`, `forget`,
    `replace`, `+`, `merge`, `grow` and `consolidate` raise BadValue. `decode` decodes all paths jointly. `to_memory`
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
        self._backend = ReadOnly(Reader(state))

    @classmethod
    def _of(cls, reader: Reader) -> Self:
        if reader.cells is None:  # what is made of it may be a plain memory
            return Memory._of(reader)  # type: ignore[return-value]
        return cls.from_backend(ReadOnly(reader))

    def __repr__(self) -> str:
        held = f"{self.pairs:,} pairs and {len(self.vocabulary):,} values in {self.scheme}"
        how = ", consolidated" if self.is_consolidated else ""
        return f"QuantizedMemory of {held}, {show_bits(self.bits)} per cell{how}"

    @property
    def cells(self) -> Cells:
        """The quantized cells."""
        assert self._reader.cells is not None
        return self._reader.cells

    @property
    def bits(self) -> int:
        """The number of bits per cell."""
        return self.cells.bits

    @property
    def sizes(self) -> Sizes:
        """The number of bits that each part of the file takes."""
        return contents_of(self._reader.state).sizes

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
        reader, state = self._reader, self._reader.state
        if reader.calibration is not None:
            return Memory._of(Reader(replace(state, cells=None)))
        known = known_paths(state) if paths is None else counted(paths)
        if known.pairs != reader.pairs:
            raise BadValue(
                f"paths must list all {reader.pairs:,} pairs of the memory, got {known.pairs:,}. Pass every path as "
                "often as it holds values."
            )
        answers = self.decode(known.each(), prior_empty=0.0, on_progress=on_progress)
        zeros = torch.zeros(len(state.vocabulary), dtype=torch.float64)
        empty = state.emptied()
        change = Change(Reader(empty.with_tensor(empty.tensor, state.vocabulary, zeros)))
        pairs = list(zip(answers.paths, (answer.value for answer in answers), strict=True))
        store(change, (pairs[part] for part in slices(len(pairs), BATCH)), 1.0)
        after = change.after()
        outside = self.cells.outside(reals(after.tensor), BIN_TOLERANCE)
        if outside or not answers.converged:  # in a full memory wrong pairs may have the same cells
            raise BadValue(
                f"Decoding did not converge: {outside:,} of {self.cells.codes.numel():,} cells of the decoded pairs "
                f"differ from the memory (after {answers.rounds} rounds). It is over capacity for "
                f"{show_bits(self.bits)} per cell, or the paths or the vocabulary belong to another memory."
            )
        return Memory._of(after)

    # Files

    def save(self, path: Place, *, vocabulary: bool = True, force: bool = False) -> None:  # type: ignore[override]
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
        memoryfile.write(path, contents_of(self._reader.state, vocabulary), force=force)

    @classmethod
    def load(  # type: ignore[override]
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
        contents = memoryfile.read(path, QUANTIZED)
        if contents.vocabulary is None and vocabulary is None:
            raise BadValue(
                f"{shown(path)} was saved without its vocabulary. Pass the values: "
                "`QuantizedMemory.load(file, vocabulary=values)`."
            )
        if contents.vocabulary is not None and vocabulary is not None:
            raise BadValue(f"{shown(path)} contains its vocabulary. Omit vocabulary=.")
        return cls(state_of(contents, device, None if vocabulary is None else Vocabulary(vocabulary)))


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


def quantized(reader: Reader, bits: int | str | None) -> QuantizedMemory:
    """Quantize a state; None means 2 bits per cell, or the bits that it was consolidated for."""
    check_sealable(reader)
    if bits is None:
        bits = USUAL if reader.calibration is None else "auto"
    if reader.calibration is not None:
        return QuantizedMemory(_packed(reader, reader.calibration, bits))
    wanted = _checked_bits(bits)
    chosen = fewest_bits(reader) if wanted is None else wanted
    return QuantizedMemory(with_cells(reader.state, Cells.of(reals(reader.tensor), chosen)))


def _checked_bits(bits: int | str) -> int | None:
    """Return checked bits, None for `auto`."""
    if isinstance(bits, str):
        if bits != "auto":
            raise BadValue(f'bits must be 1, 2, 3, 4, 8 or "auto", got {bits!r}.')
        return None
    return check_bits(bits)


def _packed(reader: Reader, solved: Consolidated, bits: int | str) -> State:
    """Return a consolidated state in the cells that it was solved for, without loss."""
    grid, wanted = solved.grid, _checked_bits(bits)
    if grid is None:
        raise BadValue(
            "Cannot quantize: the memory was consolidated at full precision, or changed since, and rounding would "
            f"break it. Consolidate again with consolidate(pairs, bits={wanted or 4})."
        )
    if wanted not in (None, grid.bits):
        raise BadValue(
            f"bits must be {grid.bits}, for which the memory was consolidated, got {wanted}. To change it, consolidate "
            f"again with consolidate(pairs, bits={wanted})."
        )
    numbers = reals(reader.tensor)
    cells = Cells.solved(numbers, grid.bits, grid.deviation)
    if not torch.allclose(cells.numbers(numbers.dtype), numbers, rtol=EXACT, atol=EXACT * grid.deviation):
        raise BadValue(
            f"Cannot quantize: the tensor was changed since the memory was consolidated for {grid.bits} bits per cell. "
            f"Consolidate again with consolidate(pairs, bits={grid.bits})."
        )
    return with_cells(replace(reader.state, calibration=solved.rounded()), cells)


def check_sealable(reader: Reader) -> None:
    """Refuse a memory that is not the sum of pairs that were stored once, with weight 1."""
    scheme, counts = reader.scheme, reader.counts
    reader.check_changeable()
    if not scheme.facts.linear:
        raise BadValue(
            f"Cannot quantize: a memory of {scheme} is not a plain sum of its pairs. Use another scheme, or "
            'memory="raw".'
        )
    check_finite("The memory tensor", reader.tensor)
    if not reader.pairs:
        raise BadValue("Cannot quantize: the memory is empty. Store pairs first.")
    # What was solved does not know how often.
    once = reader.calibration is not None or (reader.strengths == ONCE and not reader.histogram.negative)
    if not once or bool(((counts != counts.round()) | (counts < 0) | (counts >= COUNTED)).any()):
        raise BadValue(
            "Cannot quantize: every pair must be stored once, with weight 1, and some were not. Store them so in a new "
            "memory, or save this one in half precision: save(file, dtype=torch.float16)."
        )


def fewest_bits(reader: Reader) -> int:
    """Return the fewest bits that are predicted to reach the target, or to lose at most WORSE without one."""
    joint = reader.target is not None and reader.target.joint
    values, load = len(reader.vocabulary), reader.load
    now = predicted_accuracy(reader.scheme, load, values, joint)
    if now is None:
        return UNPREDICTED
    enough = now - WORSE if reader.target is None else min(now, reader.target.accuracy)
    for bits in BITS:
        then = predicted_accuracy(reader.scheme, load, values, joint, bits=bits)
        if then is not None and then >= enough:
            return bits
    return BITS[-1]
