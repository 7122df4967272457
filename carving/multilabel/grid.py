"""Labels on a grid: each is a cell of q^p, its p components are of q vectors each, and all cells are scored at once.

A head then keeps p q vectors, about the root of the number of labels, and nothing of their own number. Which cell a
label has is counted from its number (a times it plus b, modulo q^p: no two have the same), and back. The scores of all
cells are the core with each mode multiplied by its q vectors: 2 k1 operations a label instead of twice a layer's width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from carving.hashing import bits
from carving.inference.top_k import Best, best_of
from carving.multilabel.scoring import check_finite
from carving.symbols.codec import canonical
from carving.tiling import slices
from carving.validate import check_integer

WORKSPACE = 256 * 2**20  # bytes for the scores of all cells
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of about this share of all lie far from each other


@dataclass(frozen=True)
class Grid:
    """Where labels lie."""

    count: int  # of labels
    q: int  # vectors of each mode
    p: int
    factor: int  # prime to the number of cells
    shift: int

    @classmethod
    def of(cls, count: int, q: int, p: int, seed: int) -> Grid:
        """The grid for so many labels; q = 0 takes the smallest."""
        least = max(2, math.ceil(round(count ** (1 / p), 9)))
        q = least if q == 0 else check_integer("dictionary", q, least, way_out=f"{count} labels need at least {least}.")
        cells = q**p
        drawn = bits([canonical("grid")], 1, seed=seed, purpose="labels")
        factor = next(a for a in range(round(GOLDEN * cells) | 1, 2 * cells + 4) if math.gcd(a, cells) == 1)
        return cls(count=count, q=q, p=p, factor=factor % cells, shift=int(drawn[0, 0]) % cells)

    @property
    def cells(self) -> int:
        """How many there are; those beyond the labels are empty."""
        return int(self.q**self.p)

    def cell(self, labels: Tensor) -> Tensor:
        """The cells of labels."""
        return (labels * self.factor + self.shift) % self.cells

    def label(self, cells: Tensor) -> Tensor:
        """The labels of cells; those that are empty have numbers from `count` on."""
        return (cells - self.shift) * pow(self.factor, -1, self.cells) % self.cells

    def numbers(self, labels: Tensor) -> Tensor:
        """Which vector of each mode a label has, (p, m)."""
        cells = self.cell(labels)
        return torch.stack([cells // self.q ** (self.p - 1 - mode) % self.q for mode in range(self.p)])

    def components(self, vectors: Tensor, labels: slice | Tensor) -> Tensor:
        """The components (p, m, k1) of labels, the vectors being (p, q, k1)."""
        labels = torch.arange(self.count, device=vectors.device)[labels] if isinstance(labels, slice) else labels
        return vectors[torch.arange(self.p, device=vectors.device)[:, None], self.numbers(labels)]

    def top(self, cores: Tensor, vectors: Tensor, k: int, bias: Tensor | None, absolute: bool) -> Best:
        """Scores and numbers (n, k) of the best labels for cores (n, k1^p), the vectors being (p, q, k1)."""
        k = check_integer("k", k, 1, self.count, f"There are {self.count} labels.")
        empty = self.cell(torch.arange(self.count, self.cells, device=cores.device))
        biases = None if bias is None else torch.cat([bias, bias.new_zeros(len(empty))])
        if biases is not None:
            biases = biases[self.label(torch.arange(self.cells, device=cores.device))]
        found = [Best(cores.new_zeros(0, k), torch.zeros(0, k, dtype=torch.int64, device=cores.device))]
        for part in slices(len(cores), max(1, WORKSPACE // (8 * self.cells))):
            scores = scored(cores[part], vectors)
            scores = scores.abs_() if absolute else scores
            scores = scores if biases is None else scores.add_(biases)
            scores[:, empty] = -math.inf
            found.append(best_of(scores, k))
        scores = torch.cat([one.scores for one in found])
        check_finite(scores)
        return Best(scores, self.label(torch.cat([one.indices for one in found])))


def scored(cores: Tensor, vectors: Tensor) -> Tensor:
    """The scores of all cells (n, q^p): mode after mode, the first one turned to the end each time."""
    p, _, k1 = vectors.shape
    inside = cores.view(-1, *[k1] * p)
    for mode in vectors:
        inside = torch.tensordot(inside, mode, dims=([1], [1]))
    return inside.flatten(1)
