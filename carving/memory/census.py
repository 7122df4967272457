"""A census of a memory: which values were stored most, how many bytes hold its pairs, and how few could."""

import math

from carving.memory.questions import Questions
from carving.symbols.codec import Value


def held_bytes(memory: Questions) -> int:
    """The bytes that its numbers take, or its cells where it is quantized."""
    held = memory._state
    if held.cells is not None:
        return math.ceil(held.cells.codes.numel() * held.cells.bits / 8)
    return held.tensor.numel() * held.tensor.element_size()


def least_bytes(memory: Questions) -> float:
    """The bytes below which nothing can say which value each pair holds, even if all paths are known.

    It is Shannon's limit for values that come as often as they were stored.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({f"key {i}": i % 16 for i in range(64)})  # of sixteen values each takes four bits
    64
    >>> least_bytes(memory), held_bytes(memory)
    (32.0, 6400)
    """
    held = memory._state
    counts = held.counts.double().clamp_min(0)
    total = float(counts.sum())
    if not total:
        return 0.0
    shares = counts[counts > 0] / total
    return held.pairs * abs(float((shares * shares.log2()).sum())) / 8


def most_stored(memory: Questions, count: int) -> list[tuple[Value, float]]:
    """The values that were stored most often, and how often.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=2))
    >>> memory.store({"dog": {"legs": 4}, "cat": {"legs": 4}, "bird": {"legs": 2}})
    3
    >>> most_stored(memory, 5)
    [(4, 2.0), (2, 1.0)]
    """
    held = memory._state
    best = held.counts.topk(min(count, len(held.counts)))
    each = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [(held.value(row), times) for times, row in each if times > 0]
