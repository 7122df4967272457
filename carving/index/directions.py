"""Fixed directions that divide the unit vectors of each component, and how much speaks for each cell between them.

With C what a context shows and a, b, ... one direction for each component, a cell's merit is

    <C, a x b x ...> + |C contracted with a| + |C contracted with b| + ...

The first term is what the middle of the cell would score. The others say that there is something along a (or b),
whatever goes with it: fillers of a cell lie some forty degrees off its middle, and the noise along the middle is not
that along the filler. Without them three times as many cells must be looked at to find as much. All scales with C.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from carving import hashing
from carving.symbols.codec import canonical_path
from carving.tensors import inverse_norm
from carving.tiling import rows_within, slices

FULL = 4  # fillers of a cell, about
IN_CACHE = 2**18  # products with directions that are looked at together
MOST_CELLS = 2**20  # their merits are looked at for every question


def per_component(count: int, p: int) -> int:
    """How many directions a component has for so many fillers."""
    return max(2, round(min(count / FULL, MOST_CELLS) ** (1 / p)))


@lru_cache(maxsize=8)
def directions(p: int, k1: int, each: int) -> Tensor:
    """Unit vectors (p, each, k1), the same for ever."""
    names = [canonical_path((place, number)) for place in range(p) for number in range(each)]
    words = hashing.bits(names, hashing.words_for_normals(k1), seed=0, purpose="index")
    normals = hashing.normals(words)[:, :k1]
    return (normals * inverse_norm(normals, dim=1).unsqueeze(1)).float().view(p, each, k1)


def nearest(components: Tensor, ways: Tensor) -> Tensor:
    """The cells (n,) of unit components (n, p, k1): their nearest directions as one number."""
    cells = torch.zeros(len(components), dtype=torch.int64)
    for rows in slices(len(components), rows_within(IN_CACHE, ways.shape[1])):
        for place, own in enumerate(ways):
            cells[rows] *= own.shape[0]
            cells[rows] += (components[rows, place] @ own.mT).argmax(1)
    return cells


def merits(core: Tensor, ways: Tensor) -> Tensor:
    """The merits (m^p,) of all cells for one core (k1,) * p."""
    p, each, k1 = ways.shape
    whole, sums = core, core.new_zeros(1)
    spoken = lengths(core, ways) if p > 1 else [core.new_zeros(each)]
    for own, length in zip(ways[:-1], spoken[:-1], strict=True):
        # The first mode is contracted, and then is the last one.
        whole = (own @ whole.reshape(k1, -1)).mT
        sums = (sums.unsqueeze(1) + length).flatten()
    # The last one in one product with all lengths.
    left = torch.cat([whole.reshape(k1, -1), sums.unsqueeze(0), torch.ones_like(sums).unsqueeze(0)])
    last = torch.stack([torch.ones_like(spoken[-1]), spoken[-1]], dim=1)
    return (left.mT @ torch.cat([ways[-1], last], dim=1).mT).flatten()


def lengths(core: Tensor, ways: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """What speaks for each direction of each component (each,), whatever goes with it."""
    flat = (core.movedim(place, 0).flatten(1) for place in range(core.dim()))
    return [torch.linalg.vector_norm(own @ each, dim=1) for own, each in zip(ways, flat, strict=True)]


def merits_of(cores: Tensor, ways: Tensor) -> Tensor:
    """The merits (n, e^p) of cells between each core's (n, k1, ...) own directions (n, p, e, k1): the same, plainly."""
    count, p, each, k1 = ways.shape
    whole, total = cores.reshape(count, k1, -1), cores.new_zeros(count, 1)
    for place in range(p):
        own, unfolded = ways[:, place], cores.movedim(1 + place, 1).reshape(count, k1, -1)
        whole = torch.bmm(own, whole.reshape(count, k1, -1)).mT
        length = torch.linalg.vector_norm(torch.bmm(own, unfolded), dim=2) if p > 1 else cores.new_zeros(count, each)
        total = (total.unsqueeze(2) + length.unsqueeze(1)).flatten(1)
    return whole.flatten(1) + total
