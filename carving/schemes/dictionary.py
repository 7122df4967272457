"""Fillers from a fixed dictionary: each component is one of q unit vectors, which the label's hash chooses.

A filler then is p small integers instead of p k1 real numbers, but labels may collide: about L^2 / (2 q^p) pairs of L
labels have equal fillers, and no memory can distinguish them (`prediction/twins.py`). With p=2 and q=256 there are
65,536 fillers.
"""

from functools import lru_cache

import torch
from torch import Tensor

from carving import hashing
from carving.errors import BadValue
from carving.hashing import Bits
from carving.symbols.codec import canonical_path
from carving.tensors import inverse_norm
from carving.validate import check_integer

LARGEST = 2**16  # vectors of a dictionary: a number then has two bytes


def check_dictionary(size: object, compact: bool, p: int) -> int:
    """Return the number of vectors of a dictionary, 0 for none; refuse other values."""
    if size == 0 and not isinstance(size, bool):
        return 0
    way_out = f"q vectors give q^{p} different fillers: 65536 suffice for ten million labels. 0 uses no dictionary"
    checked = check_integer("dictionary", size, 2, LARGEST, way_out)
    if not compact:
        raise BadValue(f"dictionary={size} needs compact fillers, got compact=False. Pass compact=True.")
    return checked


@lru_cache(maxsize=4)
def vectors(p: int, k1: int, size: int, seed: int) -> Tensor:
    """Return the dictionary (p, size, k1) in float64, determined by the arguments."""
    names = [canonical_path((place, number)) for place in range(p) for number in range(size)]
    words = hashing.bits(names, hashing.words_for_normals(k1), seed=seed, purpose="dictionary")
    normals = hashing.normals(words)[:, :k1]
    return (normals * inverse_norm(normals, dim=1).unsqueeze(1)).view(p, size, k1)


def chosen(words: Bits, dictionary: Tensor) -> Tensor:
    """Return the fillers (n, p, k1) that random words (n, p) select."""
    numbers = hashing.integers(words, dictionary.shape[1])
    return torch.stack([own[numbers[:, place]] for place, own in enumerate(dictionary)], dim=1)
