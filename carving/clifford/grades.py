"""Where the coordinates of a grade stand, and how those of two grades make one.

The binom(n, r) coordinates of grade r stand in the order of itertools.combinations. Two maps carry all products:
`unfold` lays coordinates of grade s + t out as a matrix binom(n, s) x binom(n, t), whose rows stand for what is
contracted; `fold`, its transpose, sums such a matrix to coordinates again. Both take time and room linear in
binom(n, s + t).
"""

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.errors import BadValue
from carving.validate import machine_bytes, show_bytes

CPU = torch.device("cpu")
FEW = 2**17  # numbers that stay in a cache, so that one large step takes less time than many small ones


def count(n: int, grade: int) -> int:
    """binom(n, grade), the coordinates of a grade."""
    if not 0 <= grade <= n:
        raise BadValue(
            f"A grade of R^{n} must be between 0 and {n}, got {grade}. Elements of higher grade are always zero."
        )
    return math.comb(n, grade)


def check_headroom(n: int, grade: int, like: Tensor) -> None:
    """Refuse coordinates that the machine cannot hold, before tables of them are made."""
    size, limit = count(n, grade) * (like.element_size() + 16 * grade), machine_bytes(like.device)
    if limit is not None and size > limit:
        raise BadValue(
            f"The {count(n, grade):,} coordinates of grade {grade} of R^{n} take {show_bytes(size)} with indices, "
            f"but {like.device} has {show_bytes(limit)}. Keep them as Blades, which take {grade} x {n} numbers."
        )


def fold(matrix: Tensor, n: int, s: int, t: int) -> Tensor:
    """Matrices (*, binom(n, s), binom(n, t)) summed to coordinates (*, binom(n, s + t)), with the wedge's signs."""
    entries, flat = _folding(n, s, t, matrix.device), matrix.flatten(-2)
    signs = _signs(s, t)
    folded = flat.index_select(-1, entries[0])
    for way in range(1, len(signs)):
        folded = torch.add(folded, flat.index_select(-1, entries[way]), alpha=signs[way])
    return folded


def unfold(coordinates: Tensor, n: int, s: int, t: int) -> Tensor:
    """The transpose of `fold`: coordinates (*, binom(n, s + t)) as matrices (*, binom(n, s), binom(n, t))."""
    both = torch.cat([coordinates, -coordinates, torch.zeros_like(coordinates[..., :1])], dim=-1)
    return both.index_select(-1, _unfolding(n, s, t, coordinates.device)).unflatten(-1, (count(n, s), -1))


def leading(n: int, s: int, t: int, device: torch.device) -> Tensor:
    """Where the flat matrix of `unfold(x, n, s, t)` holds each coordinate of x: its first s directions are the row."""
    return _folding(n, s, t, device)[0]


# Many at once, a coordinate a row: (binom(n, s), b), (binom(n, t), b) -> (binom(n, s + t), b)


def wedge_rows(a: Tensor, b: Tensor, n: int, s: int, t: int, dim: int = 0) -> Tensor:
    """The wedges of columns of grade s with columns of grade t; their coordinates stand along `dim`."""
    (left, right, _), *others = _parting(n, s, t, a.device)
    product = a.index_select(dim, left) * b.index_select(dim, right)
    for left, right, sign in others:
        product.addcmul_(a.index_select(dim, left), b.index_select(dim, right), value=sign)
    return product


def contract_rows(vectors: Tensor, b: Tensor, n: int, t: int) -> Tensor:
    """Columns of vectors contracted onto columns of grade t + 1."""
    both = torch.cat([b, -b, torch.zeros_like(b[:1])])
    table = _unfolding(n, 1, t, b.device)
    if table.numel() * b.shape[1] <= FEW:
        return (both.index_select(0, table).unflatten(0, (n, -1)) * vectors.unsqueeze(1)).sum(0)
    entries = table.view(n, -1)
    taken = vectors[0] * both.index_select(0, entries[0])
    for vector, where in zip(vectors[1:], entries[1:], strict=True):
        taken.addcmul_(vector, both.index_select(0, where))
    return taken


# Tables in NumPy, made once for each grade


@lru_cache(maxsize=32)
def subsets(n: int, r: int) -> NDArray[np.int64]:
    """The subsets of r of n, (binom(n, r), r), in lexicographic order: row i says which directions coordinate i has."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for chosen in range(r):
        last = rows[:, -1] if chosen else np.full(1, -1)
        more = n - r + chosen - last  # how many may follow, so that enough are left for the rest
        step = np.arange(more.sum()) - np.repeat(more.cumsum() - more, more)
        rows = np.concatenate([np.repeat(rows, more, axis=0), (np.repeat(last, more) + 1 + step)[:, None]], axis=1)
    return rows


def ranks(n: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of subsets in their order."""
    r = rows.shape[1]
    order = np.full(len(rows), math.comb(n, r) - 1, dtype=np.int64)
    for k in range(r):  # as many come after as choose a later one here
        later = np.array([math.comb(n - 1 - i, r - k) if i >= k else 0 for i in range(n)], dtype=np.int64)
        order -= later[rows[:, k]]
    return order


def _ways(s: int, t: int) -> list[tuple[list[int], list[int]]]:
    """The ways to part s + t places in s and t."""
    every = range(s + t)
    return [(list(part), [k for k in every if k not in part]) for part in combinations(every, s)]


@lru_cache(maxsize=64)
def _signs(s: int, t: int) -> tuple[int, ...]:
    """The sign of each way: of the permutation that brings the two parts together in order."""
    return tuple((-1) ** sum(j > k for j in part for k in rest) for part, rest in _ways(s, t))


# What is kept must serve later gradients too: never made in inference mode.


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def _folding(n: int, s: int, t: int, device: torch.device) -> Tensor:
    """Of each subset of s + t (a column), where each way (a row) to part it stands in the flat matrix."""
    whole, size = subsets(n, s + t), math.comb(n, t)
    places = [ranks(n, whole[:, a]) * size + ranks(n, whole[:, b]) for a, b in _ways(s, t)]
    return torch.from_numpy(np.stack(places)).to(device)


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def _parting(n: int, s: int, t: int, device: torch.device) -> tuple[tuple[Tensor, Tensor, int], ...]:
    """Return for each way of folding the rows and columns of the matrix, and the sign."""
    ways, size = zip(_folding(n, s, t, device), _signs(s, t), strict=True), math.comb(n, t)
    return tuple((entries // size, entries % size, sign) for entries, sign in ways)


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def _unfolding(n: int, s: int, t: int, device: torch.device) -> Tensor:
    """Where each entry of the flat matrix stands in [x, -x, 0]."""
    size = math.comb(n, s + t)
    table = np.full(math.comb(n, s) * math.comb(n, t), 2 * size, dtype=np.int64)
    for entries, sign in zip(_folding(n, s, t, CPU).numpy(), _signs(s, t), strict=True):
        table[entries] = np.arange(size) + (size if sign < 0 else 0)
    return torch.from_numpy(table).to(device)
