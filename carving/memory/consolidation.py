"""Consolidation: solve for the memory tensor so that single queries for its pairs are right (`solver.py`)."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.inference.answer import Answer
from carving.inference.calibration import (
    MAX_SAMPLE,
    Consolidated,
    QuantizationGrid,
    fit_levels,
    pair_strengths,
)
from carving.memory.codebook import check_finite
from carving.memory.pairs import Batch, OnProgress
from carving.memory.query import decode, recall_many
from carving.memory.reader import EMPTY, Reader
from carving.memory.sharding import check_same_state
from carving.memory.solver import Problem, SolverResult, solve
from carving.memory.state import known_paths
from carving.quantization import check_bits
from carving.schemes.base import Scheme
from carving.symbols.codec import Path, canonical
from carving.symbols.paths import Paths
from carving.tensors import lasting
from carving.validate import check_number

MIN_EMPTY_PATHS = 500  # that are read to calibrate
MIN_DECODED_PROBABILITY = 0.99  # the least mean probability of decoded pairs


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


def consolidate(
    reader: Reader,
    pairs: Iterable[Pair] | None,
    paths: Iterable[Path] | None,
    accuracy: float,
    bits: int | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Reader, Consolidation]:
    """Solve for the tensor whose single queries are right; return its reader, and the outcome.

    The former reader is returned if no more pairs are right than before.

    Args:
        reader: The memory.
        pairs: Pairs that it holds; None decodes them.
        paths: Paths whose pairs are decoded; None for the paths that the memory keeps.
        accuracy: The share of right answers that is enough.
        bits: Bits per cell; None for full precision.
        on_progress: Called with the number of further pairs that are right.
    """
    check_solvable(reader, accuracy)
    if bits is not None:
        check_bits(bits)
    if pairs is not None and paths is not None:
        raise BadValue("pairs= conflicts with paths=, from which pairs are decoded. Pass only one.")
    listed = None if pairs is None else reader.ranks.agreed(lambda: list(pairs))
    listed = decode_listed(reader, paths) if listed is None else listed
    return consolidate_pairs(reader, listed, accuracy, bits, on_progress)


def check_solvable(reader: Reader, accuracy: float) -> None:
    """Refuse a memory that cannot be consolidated, and an invalid accuracy."""
    scheme = reader.scheme
    reader.check_changeable()
    if not 0 < check_number("accuracy", accuracy) <= 1:
        raise BadValue(f"accuracy must be above 0 and at most 1, got {accuracy}. The default is 1.0.")
    if not scheme.facts.linear:
        raise BadValue(
            f"Cannot consolidate: a memory of {scheme} is not a plain sum of its pairs. Use another scheme, or "
            'memory="raw".'
        )
    if not len(reader.vocabulary):
        raise BadValue(EMPTY)
    check_finite("The memory tensor", reader.tensor)


def decode_listed(reader: Reader, paths: Iterable[Path] | None) -> list[Pair]:
    """Decode the pairs under paths, by default the kept ones, jointly; refuse uncertain ones."""
    asked = list(known_paths(reader.state).each() if paths is None else paths)
    if reader.calibration is not None:
        answers: list[Answer] = recall_many(reader, asked, prior_empty=0.0)
        rests, way_out = True, ""
        known = reader.calibration
        if paths is None and known.right == known.pairs == reader.pairs and not known.added:
            return list(zip(asked, (answer.value for answer in answers), strict=True))
    else:
        together = decode(reader, asked, prior_empty=0.0)
        answers, rests = list(together), together.converged
        way_out = " The memory is over capacity, or holds many pairs under other paths."
    if not rests or sum(answer.probability for answer in answers) < MIN_DECODED_PROBABILITY * len(answers):
        raise BadValue(
            f"The pairs under these {len(answers):,} paths could not be decoded with certainty.{way_out} Pass the "
            "pairs themselves: consolidate(pairs)."
        )
    return [(path, answer.value) for path, answer in zip(asked, answers, strict=True)]


@dataclass(frozen=True)
class Wanted:
    """Different paths, and the vocabulary row of the one value that each is to be answered with."""

    paths: Paths
    rows: Tensor  # (n,)

    @classmethod
    def of(cls, reader: Reader, pairs: list[Pair]) -> "Wanted":
        """Return the paths and rows of stored pairs; refuse unknown values and paths with two values."""
        if not pairs:
            raise BadValue("No pairs to consolidate. Pass the pairs that were stored.")
        batch = Batch(pairs)
        rows = reader.vocabulary.rows_of(batch.names)
        value_of: dict[bytes, int] = {}
        for place, (name, row) in enumerate(zip(batch.paths.names, rows, strict=True)):
            path, value = batch.paths[place], batch.values[place]
            former = value_of.setdefault(name, row)
            if row < 0 or not reader.counts[row] > 0:
                raise BadValue(
                    f"Cannot consolidate: the value {value!r} (under {path!r}) is not in the memory. Store the pair "
                    "first."
                )
            if reader.path_counts is not None and not reader.path_counts.count(name) > 0:
                raise BadValue(f"Cannot consolidate: no value is stored under {path!r}. Store the pair first.")
            if former != row:
                raise BadValue(
                    f"Cannot consolidate: {path!r} has two values, {reader.vocabulary[former]!r} and {value!r}. Leave "
                    "one out, or keep paths with several values in a memory of their own."
                )
        return cls(batch.paths.distinct()[0], torch.tensor(list(value_of.values()), device=reader.tensor.device))


def consolidate_pairs(
    reader: Reader, pairs: list[Pair], accuracy: float, bits: int | None, on_progress: OnProgress | None
) -> tuple[Reader, Consolidation]:
    """Return the reader of the solved tensor, or the former one if it answers as many pairs correctly."""
    scheme, ranks = reader.scheme, reader.ranks
    wanted = ranks.agreed(lambda: Wanted.of(reader, pairs))
    if ranks.size > 1:
        digest = zlib.crc32(b"".join(wanted.paths.names)), zlib.crc32(str(wanted.rows.tolist()).encode())
        check_same_state(ranks, reader, pairs_to_solve=digest, accuracy=accuracy, bits=bits)
    before, count = count_correct(reader, wanted), len(wanted.rows)
    outcome = Consolidation(
        pairs=count,
        before=before,
        after=before,
        target_accuracy=accuracy,
        evaluations=0,
        others=max(0, reader.pairs - count),
    )
    if outcome and bits is None and (reader.calibration is None or not reader.calibration.added):
        return reader, outcome
    contexts, candidates = scheme.contexts(wanted.paths), reader.codebook.all()
    with lasting():
        problem = Problem.of(scheme, contexts, candidates, wanted.rows, ranks)
        found = solve(problem, reader.tensor, accuracy, bits, _as_progress(on_progress))
    outcome = replace(outcome, after=max(before, found.right), evaluations=found.evaluations)
    if found.right < before or (found.right == before and reader.calibration is None and bits is None):
        return reader, outcome
    # The mean strength of what is held becomes 1, as that of what will be stored.
    with lasting():
        strengths = pair_strengths(scheme, found.tensor, contexts, candidates, wanted.rows)
        scale = float(strengths.mean())
        if not scale > 0:
            return reader, replace(outcome, after=before)  # nothing that a pair stored later could be compared with
        solution = found.scaled(scale)
    check_finite("The consolidated tensor", solution.tensor)
    calibration = calibrate(scheme, solution, wanted, candidates)
    return reader.after(replace(reader.state, tensor=solution.tensor, calibration=calibration)), outcome


def count_correct(reader: Reader, wanted: Wanted) -> int:
    """Count the paths that are answered correctly."""
    answers = recall_many(reader, wanted.paths, prior_empty=0.0)
    values = reader.vocabulary.rows_of([canonical(answer.value) for answer in answers])
    return int((torch.tensor(values) == wanted.rows.cpu()).sum())


def calibrate(scheme: Scheme, solution: SolverResult, wanted: Wanted, candidates: Tensor) -> Consolidated:
    """Calibrate probabilities on at most half of the solved paths, and on empty paths."""
    count = len(wanted.rows)
    some = slice(0, count, max(2, count // MAX_SAMPLE))
    held, empty = scheme.contexts(wanted.paths[some]), scheme.contexts(_empty_paths(wanted.paths))
    samples = held, wanted.rows[some], empty
    levels = tuple(fit_levels(scheme, solution.tensor, candidates, *samples, solution.slope, count))
    right = solution.right
    levels = (levels[0]._replace(accuracy=right / count), *levels[1:])
    cells = None if solution.cells is None else QuantizationGrid(solution.cells.bits, solution.cells.deviation)
    return Consolidated(slope=solution.slope, pairs=count, right=right, levels=levels, told=right / count, grid=cells)


def _empty_paths(paths: Paths) -> list[Path]:
    """Return empty paths like these: every other one differs in its last role alone."""
    number = min(MAX_SAMPLE, max(MIN_EMPTY_PATHS, len(paths)))
    found = list[Path]()
    for place in range(number):
        path, role = paths[place % len(paths)], f"carving: no role {place}"
        found.append((*(path[:-1] if place % 2 else (role,) * (len(path) - 1)), role))
    return found


def _as_progress(on_progress: OnProgress | None) -> Callable[[int], None] | None:
    """Return a callback of the solver that reports additional correct pairs as progress."""
    if on_progress is None:
        return None
    reported = 0

    def on_step(right: int) -> None:
        nonlocal reported
        on_progress(max(0, right - reported))
        reported = max(reported, right)

    return on_step
