"""Consolidation: solve for the memory tensor so that single queries for its pairs are right (`solver.py`)."""

import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from threading import RLock
from typing import NamedTuple

import torch
from torch import Tensor

from carving.distributed.ranks import Group, Ranks
from carving.errors import BadValue
from carving.formats.documents import Document, Pair
from carving.formats.frames import Frame
from carving.inference.answer import Answer
from carving.inference.calibration import (
    MAX_SAMPLE,
    CalibrationSample,
    Consolidated,
    QuantizationGrid,
    fit_levels,
    pair_strengths,
)
from carving.memory.codebook import check_finite
from carving.memory.evaluate import Moment
from carving.memory.pairs import Batch, OnProgress, batches
from carving.memory.query import Questions
from carving.memory.sharding import check_same_state
from carving.memory.solver import Problem, Solution, solve_problem
from carving.memory.state import EMPTY, Kept, State, known_paths
from carving.quantization import check_bits
from carving.schemes.base import Scheme
from carving.symbols.codec import Label, Path
from carving.symbols.paths import Paths
from carving.tensors import lasting
from carving.validate import check_number

FEW = 500  # paths that hold nothing are asked at least
SURE = 0.99  # of answers that were found together, the least mean probability


@dataclass(frozen=True)
class Consolidation:
    """The result of a consolidation: correct single queries before and after. True if it reached the accuracy.

    If `after` equals `before`, the memory may be unchanged: see `Memory.is_consolidated`.

    Attributes:
        pairs: Number of different pairs.
        before: Pairs that were answered correctly before.
        after: Pairs that are answered correctly now.
        target_accuracy: Target accuracy.
        evaluations: Passes over all pairs.
        others: Number of further stored pairs, which are noise to these.
    """

    pairs: int
    before: int
    after: int
    target_accuracy: float
    evaluations: int
    others: int = 0

    @property
    def share(self) -> float:
        """The share of correct answers after consolidation."""
        return self.after / self.pairs

    def __bool__(self) -> bool:
        return self.share >= self.target_accuracy


class Wish(NamedTuple):
    """The target accuracy, and the bits per cell, None for full precision."""

    accuracy: float
    bits: int | None = None


class Consolidating(Questions):
    """Consolidation of a memory."""

    _lock: RLock

    @abstractmethod
    def _put(self, held: State, state: State) -> None: ...

    @property
    def is_consolidated(self) -> bool:
        """Whether the memory was consolidated, so that its tensor is no longer the sum of its pairs."""
        return self._state.solved is not None

    def consolidate(
        self,
        pairs: Document | Iterable[Pair] | Frame | None = None,
        accuracy: float = 1.0,
        *,
        paths: Iterable[Path] | None = None,
        bits: int | None = None,
        key: Label = None,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Consolidation:
        """Solve for the tensor so that single queries return these pairs, as far as its cells allow.

        A consolidated memory answers correctly from far fewer cells. But pairs that are stored later are noise to it,
        and none can be forgotten. If no more pairs are answered correctly than before, the tensor stays unchanged.

        Args:
            pairs: The stored pairs, one value per path: a document, pairs or a DataFrame, as for `Memory.store`. By
                default they are decoded from the memory, jointly.
            accuracy: Target accuracy, above 0 and at most 1: stop when this share of the pairs is answered correctly.
            paths: The paths to decode the pairs from, instead of `pairs`. By default the kept paths.
            bits: Restrict the cells to 2^bits different numbers (1, 2, 3, 4 or 8 bits), so that the memory can be
                quantized without loss. By default full precision.
            key: The column of a DataFrame with the row names.
            group: A process group of torch.distributed: all ranks pass the same pairs and share the work.
            on_progress: Called with the number of additional pairs that are answered correctly.

        Returns:
            The result: true if the target accuracy was reached.

        Raises:
            BadValue: If the memory is empty or not a plain sum, a pair was never stored, a path has several values, or
                the pairs cannot be decoded.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=30, k1=4, compact=True))
        >>> facts = {f"key {i}": f"value {i}" for i in range(100)}
        >>> memory.store(facts)
        100
        >>> outcome = memory.consolidate(facts)
        >>> outcome.before < 60, outcome.after, memory.is_consolidated, memory.recall("key 7", prior_empty=0.0).value
        (True, 100, True, 'value 7')
        """
        with self._lock:
            held = self._state
            scheme = check_solvable(held, accuracy)
            if bits is not None:
                check_bits(bits)
            if pairs is not None and paths is not None:
                raise BadValue("pairs= conflicts with paths=, from which pairs are decoded. Pass only one.")
            ranks = Ranks.of(group)
            listed = None if pairs is None else ranks.agreed(lambda: listed_pairs(pairs, key))
            chosen = decoded(held, paths, group) if listed is None else listed
            state, outcome = is_consolidated(held, scheme, chosen, Wish(accuracy, bits), on_progress, ranks)
            self._put(held, state)
        return outcome


def check_solvable(held: State, accuracy: float) -> Scheme:
    """The scheme of a state that can be solved for a share of right answers."""
    scheme = held.scheme
    if not 0 < check_number("accuracy", accuracy) <= 1:
        raise BadValue(f"accuracy must be above 0 and at most 1, got {accuracy}. The default is 1.0.")
    if not scheme.facts.linear:
        raise BadValue(
            f"Cannot consolidate: a memory of {scheme} is not a plain sum of its pairs. Use another scheme, or "
            'memory="raw".'
        )
    if not len(held.vocabulary):
        raise BadValue(EMPTY)
    check_finite("The memory tensor", held.tensor)
    return scheme


def listed_pairs(pairs: Document | Iterable[Pair] | Frame, key: Label) -> list[Pair]:
    """All pairs of what was given."""
    return list(chain.from_iterable(batches(pairs, key)))


def decoded(held: State, paths: Iterable[Path] | None, group: Group = None) -> list[Pair]:
    """What lies under paths, or those that are kept: asked together, which must come to rest."""
    asked = list(known_paths(held).each() if paths is None else paths)
    memory = Moment(held)
    if held.solved is not None:
        answers: list[Answer] = memory.recall_many(asked, prior_empty=0.0, group=group)
        rests, way_out = True, ""
        if paths is None and held.solved.names_all_of(held.pairs):
            return list(zip(asked, (answer.value for answer in answers), strict=True))
    else:
        together = memory.decode(asked, prior_empty=0.0, group=group)
        answers, rests = list(together), together.converged
        way_out = " The memory is over capacity, or holds many pairs under other paths."
    if not rests or sum(answer.probability for answer in answers) < SURE * len(answers):
        raise BadValue(
            f"The pairs under these {len(answers):,} paths could not be decoded with certainty.{way_out} Pass the "
            "pairs themselves: consolidate(pairs)."
        )
    return [(path, answer.value) for path, answer in zip(asked, answers, strict=True)]


@dataclass(frozen=True)
class Wanted:
    """What is to be named: different paths, and the row of the one value that each holds."""

    paths: Paths
    rows: Tensor  # (n,)

    @classmethod
    def of(cls, held: State, pairs: list[Pair]) -> "Wanted":
        """That of pairs which a state holds; contradicting or strange ones are refused."""
        if not pairs:
            raise BadValue("No pairs to consolidate. Pass the pairs that were stored.")
        batch = Batch(pairs)
        rows = held.vocabulary.rows_of(batch.names)
        value_of: dict[bytes, int] = {}
        for place, (name, row) in enumerate(zip(batch.paths.names, rows, strict=True)):
            path, value = batch.paths[place], batch.values[place]
            if row < 0 or not held.counts[row] > 0:
                raise BadValue(
                    f"Cannot consolidate: the value {value!r} (under {path!r}) is not in the memory. Store the pair "
                    "first."
                )
            if held.known is not None and not held.known.count(name) > 0:
                raise BadValue(f"Cannot consolidate: no value is stored under {path!r}. Store the pair first.")
            if value_of.setdefault(name, row) != row:
                raise BadValue(
                    f"Cannot consolidate: {path!r} has two values, {held.value(value_of[name])!r} and {value!r}. Leave "
                    "one out, or keep paths with several values in a memory of their own."
                )
        return cls(batch.paths.distinct()[0], torch.tensor(list(value_of.values()), device=held.tensor.device))


def is_consolidated(
    held: State, scheme: Scheme, pairs: list[Pair], wish: Wish, on_progress: OnProgress | None, ranks: Ranks
) -> tuple[State, Consolidation]:
    """The state whose tensor names these pairs, or the same one, if that names no fewer; and how it went."""
    wanted = ranks.agreed(lambda: Wanted.of(held, pairs))
    if ranks.size > 1:
        digest = zlib.crc32(b"".join(wanted.paths.names)), zlib.crc32(str(wanted.rows.tolist()).encode())
        check_same_state(ranks, held, pairs_to_solve=digest, wish=wish)
    before, count = named(held, wanted), len(wanted.rows)
    outcome = Consolidation(count, before, before, wish.accuracy, 0, max(0, held.pairs - count))
    if outcome and wish.bits is None and (held.solved is None or not held.solved.added):
        return held, outcome
    contexts, candidates = scheme.contexts(wanted.paths), held.codebook.all()
    with lasting():
        problem = Problem.of(scheme, contexts, candidates, wanted.rows, ranks)
        found = solve_problem(problem, held.tensor, wish.accuracy, wish.bits, _as_progress(on_progress))
    outcome = replace(outcome, after=max(before, found.right), evaluations=found.evaluations)
    if found.right < before or (found.right == before and held.solved is None and wish.bits is None):
        return held, outcome
    # The mean strength of what is held becomes 1, as that of what will be stored.
    with lasting():
        strengths = pair_strengths(scheme, found.tensor, contexts, candidates, wanted.rows)
        scale = float(strengths.mean())
        if not scale > 0:
            return held, replace(outcome, after=before)  # nothing that a pair stored later could be compared with
        solution = found.scaled(scale)
    check_finite("The consolidated tensor", solution.tensor)
    known = calibrated(scheme, solution, wanted, candidates)
    return replace(held, tensor=solution.tensor, solved=known, kept=Kept()), outcome


def named(held: State, wanted: Wanted) -> int:
    """How many of the wanted values a state names now."""
    answers = Moment(held).recall_many(wanted.paths, prior_empty=0.0)
    values = held.vocabulary.rows_of(Batch([((0,), answer.value) for answer in answers]).names)
    return int((torch.tensor(values) == wanted.rows.cpu()).sum())


def calibrated(scheme: Scheme, solution: Solution, wanted: Wanted, candidates: Tensor) -> Consolidated:
    """What tells how probable answers are, from half of what was solved for (or less) and paths that hold nothing."""
    count = len(wanted.rows)
    some = slice(0, count, max(2, count // MAX_SAMPLE))
    held, empty = scheme.contexts(wanted.paths[some]), scheme.contexts(_strange(wanted.paths))
    sample = CalibrationSample(held, wanted.rows[some], empty)
    levels = tuple(fit_levels(scheme, solution.tensor, candidates, sample, solution.slope, count))
    right = solution.right
    levels = (levels[0]._replace(accuracy=right / count), *levels[1:])
    cells = None if solution.cells is None else QuantizationGrid(solution.cells.bits, solution.cells.deviation)
    return Consolidated(solution.slope, count, right, levels, told=right / count, grid=cells)


def _strange(paths: Paths) -> list[Path]:
    """Paths that hold nothing, like these: every other one differs in its last role alone."""
    number = min(MAX_SAMPLE, max(FEW, len(paths)))
    strange = list[Path]()
    for place in range(number):
        path, role = paths[place % len(paths)], f"carving: no role {place}"
        strange.append((*(path[:-1] if place % 2 else (role,) * (len(path) - 1)), role))
    return strange


def _as_progress(on_progress: OnProgress | None) -> Callable[[int], None] | None:
    """Contexts that are right as pairs that are done."""
    if on_progress is None:
        return None
    reported = 0

    def on_step(right: int) -> None:
        nonlocal reported
        on_progress(max(0, right - reported))
        reported = max(reported, right)

    return on_step
