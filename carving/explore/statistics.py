"""What the explorer and the plots show of a memory: bytes, frequent values, cells, and the accuracy by load."""

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadValue, UserError
from carving.memory import Memory
from carving.memory.capacity import predicted_accuracy, predicted_of, sizes_of
from carving.memory.reader import Reader
from carving.planner.plan import pairs_within
from carving.schemes.base import Scheme
from carving.storage.memoryfile import identity, reals
from carving.symbols.codec import Value
from carving.validate import check_integer

MAX_SLICE_SIDE = 128  # rows and columns of a slice, unless the caller asks for more
MAX_SAMPLED_CELLS = 2**20  # a sample of this size shows a distribution as well as all cells
HISTOGRAM_REACH = 4.0  # standard deviations, either way, that a histogram covers
MAX_DISTINCT_CELLS = 256  # more different numbers are not counted
GOOD_ACCURACY = 0.99  # the predicted accuracy of a memory that is not overfull
# Loads at which a load curve is evaluated, as multiples of the load of `GOOD_ACCURACY`: most happens just beyond it.
CURVE_LOADS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
CURVE_MARGIN = 1.2  # a load curve reaches at least this multiple of the present load
VOCABULARY_STEP = 1.1  # vocabulary sizes are rounded to powers of it, so that cached predictions serve longer

SCHEME_NAMES = {
    "OSC": "Orthogonal Subspace Carving",
    "CliffordOSC": "Orthogonal Subspace Carving with Clifford algebra",
    "TPR": "a tensor product representation",
    "HLB": "Hadamard linear binding",
    "HRR": "holographic reduced representations",
    "FHRR": "holographic reduced representations of phases",
    "VTB": "vector-derived binding",
    "MBAT": "matrix binding of additive terms",
    "MAP-I": "multiply, add, permute with integers",
    "MAP-B": "multiply, add, permute with signs",
    "MAP-C": "multiply, add, permute with real numbers",
    "BSC": "binary spatter codes",
    "CGR": "cyclic group representations",
    "BSDC-S": "sparse binary codes, shifted",
    "BSDC-SEG": "sparse binary codes in segments",
    "BSDC-THIN": "sparse binary codes, thinned",
    "BSDC-CDT": "sparse binary codes, thinned by context",
}
SHAPE_NAMES = {1: "a row", 2: "a square", 3: "a cube", 4: "a block of four axes"}


def describe_scheme(scheme: Scheme) -> str:
    """Describe a scheme and the size of its memories in words.

    >>> from carving import OSC
    >>> describe_scheme(OSC(d=40, p=3, compact=True))
    'OSC (Orthogonal Subspace Carving): a cube of 40 x 40 x 40 = 64,000 cells, with compact fillers'
    """
    shape, size = scheme.facts.memory_shape, f"{scheme.facts.memory_scalars:,} cells"
    sides = " x ".join(f"{side:,}" for side in shape)
    if len(shape) > 1:
        size = f"{SHAPE_NAMES.get(len(shape), 'a block')} of {sides} = {size}"
    else:
        size = f"a row of {size}"
    compact = ", with compact fillers" if scheme.parameters.get("compact") else ""
    name = f"{scheme.name} ({SCHEME_NAMES[scheme.name]})" if scheme.name in SCHEME_NAMES else scheme.name
    return f"{name}: {size}{compact}"


# Values and bytes


def held_bytes(memory: Memory) -> int:
    """Return the bytes of the memory's tensor, or of its codes if it is quantized."""
    state = memory._reader
    if state.cells is not None:
        return math.ceil(state.cells.codes.numel() * state.cells.bits / 8)
    return state.tensor.numel() * state.tensor.element_size()


def least_bytes(memory: Memory) -> float:
    """Return Shannon's limit: the bytes needed to tell the value of every pair if all paths are known.

    It is the number of pairs times the entropy of the values' frequencies.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({f"key {i}": i % 16 for i in range(64)})  # sixteen equally frequent values: four bits each
    64
    >>> least_bytes(memory), held_bytes(memory)
    (32.0, 6400)
    """
    state = memory._reader
    counts = state.counts.double().clamp_min(0)
    total = float(counts.sum())
    if not total:
        return 0.0
    shares = counts[counts > 0] / total
    return state.pairs * abs(float((shares * shares.log2()).sum())) / 8


def most_stored(memory: Memory, count: int) -> list[tuple[Value, float]]:
    """Return the `count` values that were stored most often, with their counts.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({"dog": {"legs": 4}, "cat": {"legs": 4}, "bird": {"legs": 2}})
    3
    >>> most_stored(memory, 5)
    [(4, 2.0), (2, 1.0)]
    """
    state = memory._reader
    best = state.counts.topk(min(count, len(state.counts)))
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [(state.vocabulary[row], times) for times, row in rows if times > 0]


# Cells


class CellSlice(NamedTuple):
    """A two-dimensional slice of a memory's cells, in units of their standard deviation."""

    numbers: Tensor  # (rows, columns)
    shape: tuple[int, ...]  # of the memory
    at: tuple[int, ...]  # the index on each axis after the second
    step: tuple[int, int]  # of the sampled rows and columns: 1 if all are shown
    deviation: float


class CellHistogram(NamedTuple):
    """A histogram of a memory's cells, beside that of a normal distribution of equal variance."""

    edges: tuple[float, ...]  # in standard deviations
    counts: tuple[int, ...]
    normal: tuple[float, ...]
    sampled: int  # cells that were counted
    deviation: float
    distinct: int | None  # how many different numbers there are, if few: of integers, or quantized


def cell_deviation(memory: Memory) -> float:
    """Return the root mean square of a memory's cells."""
    state = memory._reader
    return math.sqrt(state.energy / max(1, reals(state.tensor).numel()))


def cell_slice(memory: Memory, at: tuple[int, ...] = (), side: int = MAX_SLICE_SIDE) -> CellSlice:
    """Return a slice along the first two axes of a memory; a vector is laid out in rows.

    Args:
        memory: The memory.
        at: The index on each further axis.
        side: The largest number of rows and columns: of more, a sample at equal steps.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=20, p=3))
    >>> memory.store({"dog": {"says": "woof"}})
    1
    >>> shown = cell_slice(memory, at=(7,))
    >>> tuple(shown.numbers.shape), shown.shape, shown.step
    ((20, 20), (20, 20, 20), (1, 1))
    """
    tensor, deviation = memory._reader.tensor.detach(), cell_deviation(memory)
    tensor = tensor.real if tensor.is_complex() else tensor
    shape, side = tuple(tensor.shape), check_integer("side", side, 1, 4096)
    if len(at) != max(0, len(shape) - 2):
        raise BadValue(f"at must have {max(0, len(shape) - 2)} indices for a memory of shape {shape}, got {len(at)}.")
    for axis, (index, size) in enumerate(zip(at, shape[2:], strict=True), start=3):
        check_integer(f"the index of axis {axis}", index, 0, size - 1)
    plane = _in_rows(tensor) if tensor.dim() == 1 else tensor
    for index in reversed(at):
        plane = plane[..., index]
    step = math.ceil(plane.shape[0] / side), math.ceil(plane.shape[1] / side)
    sample = plane[:: step[0], :: step[1]].float()
    return CellSlice(
        numbers=sample / deviation if deviation else sample.clone(), shape=shape, at=at, step=step, deviation=deviation
    )


def _in_rows(vector: Tensor) -> Tensor:
    """Reshape a vector to a square matrix, padded with zeros."""
    columns = math.ceil(math.sqrt(len(vector)))
    rows = math.ceil(len(vector) / columns)
    return torch.nn.functional.pad(vector, (0, rows * columns - len(vector))).view(rows, columns)


def cell_histogram(memory: Memory, bins: int = 48) -> CellHistogram:
    """Return a histogram of a memory's cells; of very many cells, a sample at equal steps is counted.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({f"key {i}": f"value {i}" for i in range(50)})
    50
    >>> histogram = cell_histogram(memory, bins=4)
    >>> histogram.edges, sum(histogram.counts), [round(count) for count in histogram.normal]
    ((-4.0, -2.0, 0.0, 2.0, 4.0), 1600, [36, 764, 764, 36])
    """
    check_integer("bins", bins, 1, 1000)
    flat, deviation = reals(memory._reader.tensor).reshape(-1), cell_deviation(memory)
    sample = flat[:: math.ceil(len(flat) / MAX_SAMPLED_CELLS)].float()
    reach = HISTOGRAM_REACH
    # The outer bins also count what lies beyond the outer edges.
    within = (sample / deviation if deviation else sample).clamp(-reach, reach)
    counts = torch.histc(within, bins, -reach, reach).long().tolist()
    edges = [-reach + 2 * reach * i / bins for i in range(bins + 1)]
    below = [0.0, *(0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in edges[1:-1]), 1.0]
    normal = tuple(len(sample) * (right - left) for left, right in pairwise(below))
    return CellHistogram(
        edges=tuple(edges),
        counts=tuple(counts),
        normal=normal,
        sampled=len(sample),
        deviation=deviation,
        distinct=_count_distinct(sample),
    )


def _count_distinct(numbers: Tensor) -> int | None:
    """Count the different numbers; None if there are many."""
    head = numbers[: 4 * MAX_DISTINCT_CELLS]
    if len(numbers) > len(head) and len(head.unique()) > MAX_DISTINCT_CELLS:
        return None
    distinct = len(numbers.unique())
    return distinct if distinct <= min(MAX_DISTINCT_CELLS, len(numbers) // 4) else None


# Accuracy by load


class LoadCurve(NamedTuple):
    """The predicted accuracy of a memory by the number of stored pairs, and the memory's place on the curve."""

    pairs: tuple[int, ...]
    accuracy: tuple[float, ...]  # the predicted accuracy at each number of pairs
    load: int  # the present load, in pairs of weight 1
    predicted: float  # the accuracy at the present load
    capacity: int  # the pairs that are recalled with an accuracy of `GOOD_ACCURACY`

    @property
    def spare(self) -> int:
        """How many more pairs fit within the capacity."""
        return max(0, self.capacity - self.load)

    @property
    def excess(self) -> int:
        """By how many pairs the capacity is exceeded."""
        return max(0, self.load - self.capacity)


def load_curve(memory: Memory) -> LoadCurve | None:
    """Return a memory's load curve; None if there is no prediction for its scheme, or less than two values are known.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=64, p=2))
    >>> memory.store({f"key {i}": f"value {i}" for i in range(100)})
    100
    >>> curve = load_curve(memory)
    >>> curve.load, curve.predicted > 0.99, curve.load + curve.spare == curve.capacity, curve.accuracy[-1] < 0.9
    (100, True, True, True)
    """
    state = memory._reader
    if state.calibration is not None:
        return _consolidated_curve(state)
    size = len(state.vocabulary)
    values = size if size < 2 else max(2, round(VOCABULARY_STEP ** round(math.log(size, VOCABULARY_STEP))))
    joint = state.target is not None and state.target.joint
    bits = None if state.cells is None else state.cells.bits
    capacity = _capacity(state.scheme, values, joint, bits)
    if capacity is None:
        return None
    loads = {max(1, round(multiple * max(capacity, 1))) for multiple in CURVE_LOADS}
    while max(loads) < CURVE_MARGIN * state.load:  # far beyond the capacity
        loads.add(round(1.5 * max(loads)))
    curve = [(pairs, _accuracy(state.scheme, pairs, values, joint, bits)) for pairs in sorted(loads)]
    points = [(pairs, accuracy) for pairs, accuracy in curve if accuracy is not None]
    predicted = predicted_of(state) if state.load else 1.0  # of no pairs, none is recalled wrongly
    if predicted is None or not points:
        return None
    pairs, accuracy = zip(*points, strict=True)
    return LoadCurve(pairs=pairs, accuracy=accuracy, load=state.load, predicted=predicted, capacity=capacity)


def _consolidated_curve(state: Reader) -> LoadCurve:
    """Return the load curve of a consolidated memory, to which pairs that are added later are noise."""
    solved = state.calibration
    assert solved is not None
    added = sorted({0, *(round(level.added - solved.added) for level in solved.levels if level.added >= solved.added)})
    accuracy = [solved.level(more).accuracy for more in added]
    spare = max((more for more, share in zip(added, accuracy, strict=True) if share >= GOOD_ACCURACY), default=0)
    pairs = tuple(state.pairs + more for more in added)
    return LoadCurve(
        pairs=pairs, accuracy=tuple(accuracy), load=state.pairs, predicted=accuracy[0], capacity=state.pairs + spare
    )


@lru_cache(maxsize=256)
def _accuracy(scheme: Scheme, pairs: int, values: int, joint: bool, bits: int | None) -> float | None:
    return predicted_accuracy(scheme, pairs, values, joint, bits=bits)


@lru_cache(maxsize=64)
def _capacity(scheme: Scheme, values: int, joint: bool, bits: int | None) -> int | None:
    """Return how many pairs with `values` different values are recalled with an accuracy of `GOOD_ACCURACY`."""
    sizes = sizes_of(scheme, joint)
    if sizes is None or not values:
        return None
    try:
        return pairs_within(max(2, values), GOOD_ACCURACY, scheme=identity(scheme)["name"], bits=bits, **sizes)
    except UserError:
        return None
