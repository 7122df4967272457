"""What a memory looks like: a slice of its tensor to be drawn in colors, and how its numbers are distributed."""

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.memory.questions import Questions
from carving.storage.memoryfile import reals
from carving.validate import check_integer

SIDE = 128  # rows and columns of a slice that are drawn at most
MANY = 2**20  # numbers that tell a distribution as well as all
REACH = 4.0  # deviations, either way, over which numbers are counted
FEW = 256  # different values that are counted


class Slice(NamedTuple):
    """Numbers of a memory, in units of their deviation: rows and columns at equal steps where there are too many."""

    numbers: Tensor  # (rows, columns)
    shape: tuple[int, ...]  # of the memory
    at: tuple[int, ...]  # which slice it is: an index for each of the axes after the second
    step: tuple[int, int]  # every so manieth row and column is there
    deviation: float


class Distribution(NamedTuple):
    """How many numbers lie between edges, and how many would if they were normal with the same deviation."""

    edges: tuple[float, ...]  # in deviations
    counts: tuple[int, ...]
    normal: tuple[float, ...]
    looked_at: int  # numbers, of all
    deviation: float
    values: int | None  # how many different ones there are, if they are few: of whole numbers, or quantized


def deviation(memory: Questions) -> float:
    """The root of the mean square of a memory's numbers."""
    held = memory._state
    return math.sqrt(held.energy / max(1, reals(held.tensor).numel()))


def slice_of(memory: Questions, at: tuple[int, ...] = (), side: int = SIDE) -> Slice:
    """A slice of a memory: its first two axes, the others held where `at` says. Vectors are laid in rows.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=20, p=3))
    >>> memory.store({"dog": {"says": "woof"}})
    1
    >>> seen = slice_of(memory, at=(7,))
    >>> tuple(seen.numbers.shape), seen.shape, seen.step
    ((20, 20), (20, 20, 20), (1, 1))
    """
    tensor, scale = memory._state.tensor.detach(), deviation(memory)
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
    chosen = plane[:: step[0], :: step[1]].float()
    return Slice(chosen / scale if scale else chosen.clone(), shape, at, step, scale)


def _in_rows(vector: Tensor) -> Tensor:
    """A vector as rows of a square; zeros stand at its end."""
    columns = math.ceil(math.sqrt(len(vector)))
    rows = math.ceil(len(vector) / columns)
    return torch.nn.functional.pad(vector, (0, rows * columns - len(vector))).view(rows, columns)


def distribution(memory: Questions, bins: int = 48) -> Distribution:
    """How a memory's numbers are distributed; of very many, some at equal distances are looked at.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({f"key {i}": f"value {i}" for i in range(50)})
    50
    >>> seen = distribution(memory, bins=4)
    >>> seen.edges, sum(seen.counts), [round(each) for each in seen.normal]
    ((-4.0, -2.0, 0.0, 2.0, 4.0), 1600, [36, 764, 764, 36])
    """
    check_integer("bins", bins, 1, 1000)
    flat, scale = reals(memory._state.tensor).reshape(-1), deviation(memory)
    some = flat[:: math.ceil(len(flat) / MANY)].float()
    # What lies beyond the outer edges is counted in the outer bins.
    within = (some / scale if scale else some).clamp(-REACH, REACH)
    counts = torch.histc(within, bins, -REACH, REACH).long().tolist()
    edges = [-REACH + 2 * REACH * i / bins for i in range(bins + 1)]
    below = [0.0, *(0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in edges[1:-1]), 1.0]
    normal = tuple(len(some) * (right - left) for left, right in pairwise(below))
    return Distribution(tuple(edges), tuple(counts), normal, len(some), scale, _values(some))


def _values(numbers: Tensor) -> int | None:
    """How many different numbers there are; None if they are many."""
    if len(numbers) > 4 * FEW and len(numbers[: 4 * FEW].unique()) > FEW:
        return None
    different = len(numbers.unique())
    return different if different <= min(FEW, len(numbers) // 4) else None
