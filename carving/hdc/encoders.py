"""Encoders of CentroidClassifier: points as the real numbers of one vector or memory, for every scheme."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from carving.encodings import Level, Projection, Sinusoid, Thermometer, random
from carving.errors import BadValue
from carving.schemes import make
from carving.schemes.architectures import ARCHITECTURES
from carving.schemes.base import Scheme
from carving.schemes.vsa import VSA
from carving.tensors import as_reals
from carving.tiling import rows_within, slices
from carving.validate import check_integer

LEVELS, ENCODINGS = ("level", "thermometer"), ("level", "thermometer", "projection", "sinusoid")
MAX_TABLE_NUMBERS = 2**22  # of bound levels at a time

Encoder = Callable[[Tensor], Tensor]


def encoder(
    scheme: Scheme, encoding: str, features: int, bandwidth: float, levels: int, generation: int = 0
) -> Encoder:
    """Return a function from points (n, features) to real numbers (n, numbers).

    The points are standardized, or the indices of levels. Vector symbolic architectures bundle records; other schemes
    store each level in a memory under a path of its own, and arrays under a single path.
    """
    label, roles = ("classifier", "features") if not generation else (f"{generation}", f"features {generation}")
    if encoding in LEVELS:
        numbers = (Level if encoding == "level" else Thermometer)(scheme, 0, levels - 1, label=label)
        fillers = numbers(torch.arange(levels))
        if isinstance(scheme, VSA):
            bundle = partial(bundle_levels, scheme, fillers, random(scheme, features, label=roles))
            return partial(encode_vectors, scheme, bundle)
        return partial(store_levels, scheme, fillers, [(f"{roles} {feature}",) for feature in range(features)])
    if encoding == "projection":
        made: Encoder = Projection(scheme, features, label=label)
    else:
        made = Sinusoid(scheme, features, bandwidth=bandwidth, label=label)
    if isinstance(scheme, VSA):
        return partial(encode_vectors, scheme, made)
    return partial(store_arrays, scheme, made, (roles,))


def scheme_of(name: str, d: int, seed: int) -> Scheme:
    """Return a scheme by name whose vectors, or memories, have about d real numbers.

    >>> scheme_of("OSC", 4096, 0).facts.memory_shape, scheme_of("MAP-I", 4096, 0).facts.memory_shape
    ((64, 64), (4096,))
    """
    if name in ARCHITECTURES:
        return make(name, d=d, seed=seed)
    # Half of the products of two are those of Clifford's algebra.
    side = max(2, round((check_integer("d", d, 1) * (2 if name == "CliffordOSC" else 1)) ** 0.5))
    return make(name, d=side, seed=seed)


def encode_vectors(scheme: VSA, code: Encoder, given: Tensor) -> Tensor:
    """Return the vectors of a VSA that a code gives as real numbers, (n, numbers)."""
    made, facts = code(given), scheme.facts
    atoms, wanted = ((len(given), *shape) for shape in (facts.filler_shape, facts.memory_shape))
    if made.shape not in (atoms, wanted):
        raise BadValue(f"encoding must return a tensor of shape {wanted}, got {tuple(made.shape)}.")
    return as_reals(scheme.picture(made), len(wanted) - 1).to(scheme.dtype)


def bundle_levels(scheme: VSA, levels: Tensor, roles: Tensor, numbers: Tensor) -> Tensor:
    """Return bundles (n, *shape) of the level of each feature bound with its role; each level is bound only once.

    Args:
        scheme: A vector symbolic architecture.
        levels: Vectors of the levels.
        roles: A vector for each feature.
        numbers: Indices of levels (n, features).
    """
    count, shape, scalars = len(levels), scheme.facts.memory_shape, scheme.facts.memory_scalars
    total = torch.zeros(len(numbers), scalars, dtype=scheme.dtype)
    for part in slices(len(roles), rows_within(MAX_TABLE_NUMBERS, count * scalars)):
        bound = scheme.picture(scheme.bind(levels, roles[part].unsqueeze(1)))
        table = as_reals(bound, len(shape)).flatten(0, 1)
        rows = numbers[:, part] + count * torch.arange(part.stop - part.start)
        total += torch.nn.functional.embedding_bag(rows, table, mode="sum")
    sums = torch.view_as_complex(total.unflatten(1, (-1, 2))) if scheme.facts.memory_dtype.is_complex else total
    return scheme.bundle(sums.view(len(numbers), 1, *shape))


def store_levels(scheme: Scheme, levels: Tensor, paths: list[tuple[str, ...]], numbers: Tensor) -> Tensor:
    """Return memories (n, numbers) with the level of each feature, of indices (n, features), under its path."""
    total = torch.zeros(len(numbers), scheme.facts.memory_scalars, dtype=scheme.dtype)
    for path, rows in zip(paths, numbers.mT, strict=True):
        distinct, places = rows.unique(return_inverse=True)
        total += written(scheme, levels[distinct], path)[places]
    return total


def store_arrays(scheme: Scheme, code: Encoder, path: tuple[str, ...], given: Tensor) -> Tensor:
    """Return memories (n, numbers) with the filler of each array under one path."""
    return written(scheme, code(given), path)


def written(scheme: Scheme, fillers: Tensor, path: tuple[str, ...]) -> Tensor:
    """Return memories (n, numbers) that each hold one of the fillers (n, *filler_shape) under a path."""
    contexts = scheme.contexts([path])
    return torch.stack([scheme.trace(contexts, filler.unsqueeze(0)).flatten() for filler in fillers])
