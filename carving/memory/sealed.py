"""SealedMemory: a memory in a few bits a cell, which can be asked but not changed, and unsealed again."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from carving import sealedfiles
from carving.answers.fitted import Solved
from carving.answers.observed import EDGE
from carving.answers.sample import ONCE
from carving.cells import BITS, Cells, check_bits
from carving.checks import show_bits
from carving.errors import BadType, BadValue, refused
from carving.files import SEALED, reals
from carving.linear import LinearScheme
from carving.memory.changes import Change, OnProgress
from carving.memory.codebook import check_finite
from carving.memory.fullness import predicted
from carving.memory.holdings import counted
from carving.memory.inventory import Inventory
from carving.memory.kept import Kept
from carving.memory.known import KnownPaths
from carving.memory.looks import Looks
from carving.memory.memory import Memory
from carving.memory.pairs import BATCH, Batch
from carving.memory.state import State, known_paths
from carving.places import Place, shown
from carving.sealedfiles import Sealed, Sizes
from carving.symbols import Leaf, Path
from carving.tensorfiles import said_by
from carving.vocabulary import Vocabulary

USUAL = 2  # bits a cell
WORSE = 0.01  # of the answers may be lost by few bits, where nothing was planned
UNPREDICTED = 4  # bits for schemes of which nothing is predicted: they add a hundredth to the noise
EXACT = 1e-5  # how near to a cell's mean a number is it
COUNTED = 2**32  # pairs of one leaf, which a file cannot count
UNSEAL = "a sealed memory cannot be {}; sealed.unseal(paths) (`carving unseal`) gives one that can"


class SealedMemory(Inventory, Looks):
    """A memory of which each cell has a few bits; it answers all questions, with probabilities that know of it.

    `recall_all` finds what lies in all paths together, down to one and a half bits a cell and pair; `unseal` stores
    that again, and gives the memory back that was sealed. A sealed memory does not add: it cannot be stored to, nor
    forget, nor merge, before it is unsealed. Pairs that were stored twice are refused at sealing where the sample of
    pairs or the energy shows them; else `unseal` finds that the cells do not come back.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2, compact=True))
    >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
    2
    >>> sealed = memory.seal(bits=2)
    >>> sealed.recall("dog", "says").leaf, sealed.unseal([("dog", "says"), ("cat", "says")]).pairs
    ('woof', 2)
    """

    def __init__(self, state: State) -> None:
        """The sealed memory of a state that has cells: `Memory.seal` and `SealedMemory.load` make them."""
        if not isinstance(state, State) or state.cells is None:
            raise BadType(f"a sealed memory is made of a memory: memory.seal(bits=2), got {state!r}")
        self._state = state

    def __repr__(self) -> str:
        held = f"{self.pairs:,} pairs and {len(self.vocabulary):,} leaves in {self.scheme}"
        how = ", consolidated" if self.consolidated else ""
        return f"SealedMemory of {held}, {show_bits(self.bits)} a cell{how}"

    @property
    def consolidated(self) -> bool:
        """Whether it was consolidated before: its cells are then all of it, and not what is left of a sum."""
        return self._state.solved is not None

    @property
    def cells(self) -> Cells:
        """The cells in which the memory's numbers lie."""
        assert self._state.cells is not None
        return self._state.cells

    @property
    def bits(self) -> int:
        """The bits of a cell."""
        return self.cells.bits

    @property
    def tensor(self) -> Tensor:
        """The memory's numbers, as far as the cells tell them."""
        return self._state.tensor

    @property
    def sizes(self) -> Sizes:
        """The bits of its parts."""
        return contents_of(self._state).sizes

    # What it does not do

    store = refused(UNSEAL.format("stored to"))
    forget = refused(UNSEAL.format("made to forget"))
    absorb = refused(UNSEAL.format("added to"))
    grow = refused(UNSEAL.format("grown"))
    consolidate = refused(UNSEAL.format("consolidated"))
    seal = refused(UNSEAL.format("sealed again"))
    __add__ = __radd__ = refused(UNSEAL.format("added"))

    # Back again

    def unseal(self, paths: Iterable[Path] | None = None, on_progress: OnProgress | None = None) -> Memory:
        """The memory that was sealed: all paths (those that it keeps, or these) are decoded, and stored again.

        A path that holds several leaves is given as often. The result is sealed again: unless it has the same cells,
        but for rounding at their edges, something is missing or wrong, and that is told. One that was consolidated is
        all there, and needs no paths.
        """
        held = self._state
        if held.solved is not None:
            return Memory._of(replace(held, cells=None, kept=Kept()))
        known = known_paths(held) if paths is None else counted(paths)
        if known.pairs != held.pairs:
            raise BadValue(
                f"{held.pairs:,} pairs were sealed, and paths for {known.pairs:,} were given; give all paths, each as "
                "often as it holds leaves"
            )
        answers = self.recall_all(known.each(), absence=0.0, on_progress=on_progress)
        leaves = held.vocabulary
        empty = replace(held.emptied(), known=None if held.known is None else KnownPaths())
        blank = empty.holding(empty.tensor, leaves, torch.zeros(len(leaves), dtype=torch.float64))
        change, pairs = Change(blank, 1.0), list(zip(answers.paths, (answer.leaf for answer in answers), strict=True))
        for start in range(0, len(pairs), BATCH):
            change.add(Batch(pairs[start : start + BATCH]))
        state = replace(change.state(), room=held.room, told=held.told)
        outside = self.cells.outside(reals(state.tensor), EDGE)
        if outside:
            raise BadValue(
                f"decoding did not converge: what was found has {outside:,} of {self.cells.codes.numel():,} cells "
                f"that are not those of this memory (after {answers.rounds} rounds); it is too full for "
                f"{show_bits(self.bits)} a cell, or these are not its paths or its labels; nothing was changed"
            )
        return Memory._of(state)

    # Files

    def save(self, path: Place, *, vocabulary: bool = True, force: bool = False) -> None:
        """Write it to one file, whole or not at all, in a few bits a cell; see `Memory.save`.

        With `vocabulary=False` the labels are left out, often most of the file, and how often each was stored: who asks
        brings them, `SealedMemory.load(file, vocabulary=labels)`.
        """
        sealedfiles.write(path, contents_of(self._state, vocabulary), force)

    @classmethod
    def load(cls, path: Place, vocabulary: Iterable[Leaf] | None = None, *, device: torch.device | str = "cpu") -> Self:
        """The sealed memory of a file; one that was written without its labels needs them."""
        return cls(_state_of(sealedfiles.read(path), shown(path), vocabulary, device))


def load_memory(
    path: Place, vocabulary: Iterable[Leaf] | None = None, *, device: torch.device | str = "cpu"
) -> Memory | SealedMemory:
    """The memory of a file, sealed or not."""
    if (said_by(path) or {}).get("format") == SEALED:
        return SealedMemory.load(path, vocabulary, device=device)
    if vocabulary is not None:
        raise BadValue(f"{shown(path)} has its own vocabulary; leave the labels out")
    return Memory.load(path, device)


# Sealing


def sealed(held: State, bits: int | str | None) -> SealedMemory:
    """A state in so many bits a cell; None are two, or those that it was consolidated in."""
    check_sealable(held)
    if bits is None:
        bits = USUAL if held.solved is None else "auto"
    if held.solved is not None:
        return SealedMemory(_packed(held, held.solved, bits))
    wished = _wished(bits)
    chosen = fewest_bits(held) if wished is None else wished
    return SealedMemory(_with_cells(held, Cells.of(reals(held.tensor), chosen)))


def _wished(bits: int | str) -> int | None:
    """The bits that are wished, None for those that will do."""
    if isinstance(bits, str):
        if bits != "auto":
            raise BadValue(f'bits must be one of 1, 2, 3, 4, 8 or "auto", got {bits!r}')
        return None
    return check_bits(bits)


def _packed(held: State, solved: Solved, bits: int | str) -> State:
    """A consolidated state in the cells that it was solved for, which are all of it."""
    grid, wished = solved.grid, _wished(bits)
    if grid is None:
        raise BadValue(
            "a memory that was consolidated in real numbers, or stored to since, is not sealed, because rounding would "
            f"break it; do that in few bits: consolidate(pairs, bits={wished or 4})"
        )
    if wished not in (None, grid.bits):
        raise BadValue(
            f"this memory was consolidated in {grid.bits} bits a cell, got bits={wished}; take bits={grid.bits}, or "
            f"consolidate it again: consolidate(pairs, bits={wished})"
        )
    numbers = reals(held.tensor)
    cells = Cells.solved(numbers, grid.bits, grid.deviation)
    if not torch.allclose(cells.numbers(numbers.dtype), numbers, rtol=EXACT, atol=EXACT * grid.deviation):
        raise BadValue(
            f"this memory was consolidated in {grid.bits} bits a cell, but its numbers are no longer those of cells; "
            f"consolidate it again: consolidate(pairs, bits={grid.bits})"
        )
    return _with_cells(replace(held, solved=solved.rounded()), cells)


def check_sealable(held: State) -> None:
    """Refuse what is no sum of pairs that were stored once each, with the weight 1."""
    scheme, counts = held.scheme, held.counts
    if not isinstance(scheme, LinearScheme) or not scheme.facts.linear:
        raise BadValue(
            f"sealing takes a memory that is a sum, which one of {scheme} is not, because it settles; "
            'memory="raw" or another scheme is one'
        )
    check_finite("the memory", held.tensor)
    if not held.pairs:
        raise BadValue("an empty memory has nothing to seal; store something first")
    # What was solved does not know how often.
    once = held.solved is not None or (held.strengths == ONCE and not held.histogram.negative)
    if not once or bool(((counts != counts.round()) | (counts < 0) | (counts >= COUNTED)).any()):
        raise BadValue(
            "sealing takes pairs that were stored once each with the weight 1, which some here were not; store them so "
            "in a new memory, or keep this one in fewer bytes: save(file, dtype=torch.float16)"
        )


def _with_cells(held: State, cells: Cells) -> State:
    numbers = cells.numbers(held.scheme.dtype)
    tensor = torch.view_as_complex(numbers) if held.scheme.memory_dtype.is_complex else numbers
    fresh = held.holding(tensor, {}, held.counts[:0])
    return replace(fresh, cells=cells)


def fewest_bits(held: State) -> int:
    """The fewest bits with which a state is predicted to reach its goal, or hardly to lose anything."""
    joint = held.goal is not None and held.goal.joint
    leaves, load = len(held.vocabulary), held.load
    now = predicted(held.scheme, load, leaves, joint)
    if now is None:
        return UNPREDICTED
    enough = now - WORSE if held.goal is None else min(now, held.goal.accuracy)
    for bits in BITS:
        then = predicted(held.scheme, load, leaves, joint, bits=bits)
        if then is not None and then >= enough:
            return bits
    return BITS[-1]


def contents_of(held: State, vocabulary: bool = True) -> Sealed:
    """What is written of a sealed state."""
    assert held.cells is not None
    trained = held.codebook.trained
    if trained is not None and not vocabulary:
        raise BadValue("trained fillers belong to labels, which must stay with them; leave vocabulary=False out")
    return Sealed(
        scheme=held.scheme,
        cells=held.cells,
        pairs=held.pairs,
        histogram=replace(held.histogram, leaves=held.sample.leaves),
        vocabulary=held.vocabulary if vocabulary else None,
        counts=held.counts if vocabulary else None,
        fillers=trained,
        goal=held.goal,
        paths=None if held.known is None else held.known.weights(),
        solved=held.solved,
    )


def _state_of(found: Sealed, name: str, vocabulary: Iterable[Leaf] | None, device: torch.device | str) -> State:
    """The state of a sealed file."""
    leaves, counts = found.vocabulary, found.counts
    if leaves is None or counts is None:
        if vocabulary is None:
            raise BadValue(
                f"{name} was sealed without its labels, which must be brought: SealedMemory.load(file, "
                "vocabulary=labels), or --vocabulary FILE of commands, with a file of pairs that has these leaves"
            )
        leaves = Vocabulary(vocabulary)
        counts = torch.full((len(leaves),), found.pairs / max(1, len(leaves)), dtype=torch.float64)
    elif vocabulary is not None:
        raise BadValue(f"{name} has its own vocabulary; leave the labels out")
    scheme, trained = found.scheme.like(device=device), 0 if found.fillers is None else len(found.fillers)
    known = None if found.paths is None else KnownPaths(found.paths)
    empty = State.empty(scheme, leaves.first(trained), found.fillers, found.goal, known)
    held = empty.holding(empty.tensor, leaves, counts)
    held = replace(held, sample=found.histogram, solved=found.solved)
    return _with_cells(held, found.cells.to(scheme.device))
