"""Encoders of CentroidClassifier: points as the real numbers of one vector or memory, for every scheme."""

from collections.abc import Callable

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
            return RealVectors(scheme, LevelRecord(scheme, fillers, random(scheme, features, label=roles)))
        return LevelMemory(scheme, fillers, [(f"{roles} {feature}",) for feature in range(features)])
    if encoding == "projection":
        made: Encoder = Projection(scheme, features, label=label)
    else:
        made = Sinusoid(scheme, features, bandwidth=bandwidth, label=label)
    return RealVectors(scheme, made) if isinstance(scheme, VSA) else ArrayMemory(scheme, made, (roles,))


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


class RealVectors:
    """Encoder that returns the vectors of a VSA as real numbers."""

    def __init__(self, scheme: VSA, code: Encoder) -> None:
        self.scheme, self.code = scheme, code

    def __call__(self, given: Tensor) -> Tensor:
        """Return the encoded points as real numbers, (n, numbers)."""
        made, facts = self.code(given), self.scheme.facts
        atoms, wanted = ((len(given), *shape) for shape in (facts.filler_shape, facts.memory_shape))
        if made.shape not in (atoms, wanted):
            raise BadValue(f"encoding must return a tensor of shape {wanted}, got {tuple(made.shape)}.")
        return as_reals(self.scheme.picture(made), len(wanted) - 1).to(self.scheme.dtype)


class LevelRecord:
    """Encoder that bundles the level of each feature bound with its role; each level is bound only once."""

    def __init__(self, scheme: VSA, levels: Tensor, roles: Tensor) -> None:
        self.scheme, self.levels, self.roles = scheme, levels, roles

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return bundles (n, *shape) of level indices (n, features)."""
        scheme, count = self.scheme, len(self.levels)
        shape, scalars = scheme.facts.memory_shape, scheme.facts.memory_scalars
        total = torch.zeros(len(numbers), scalars, dtype=scheme.dtype)
        for part in slices(len(self.roles), rows_within(MAX_TABLE_NUMBERS, count * scalars)):
            bound = scheme.picture(scheme.bind(self.levels, self.roles[part].unsqueeze(1)))
            table = as_reals(bound, len(shape)).flatten(0, 1)
            rows = numbers[:, part] + count * torch.arange(part.stop - part.start)
            total += torch.nn.functional.embedding_bag(rows, table, mode="sum")
        sums = torch.view_as_complex(total.unflatten(1, (-1, 2))) if scheme.facts.memory_dtype.is_complex else total
        return scheme.bundle(sums.view(len(numbers), 1, *shape))


class LevelMemory:
    """Encoder that stores the level of each feature in a memory under a path of its own."""

    def __init__(self, scheme: Scheme, levels: Tensor, paths: list[tuple[str, ...]]) -> None:
        self.scheme, self.levels, self.paths = scheme, levels, paths

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return memories (n, numbers) of level indices (n, features)."""
        total = torch.zeros(len(numbers), self.scheme.facts.memory_scalars, dtype=self.scheme.dtype)
        for path, rows in zip(self.paths, numbers.mT, strict=True):
            distinct, places = rows.unique(return_inverse=True)
            total += written(self.scheme, self.levels[distinct], path)[places]
        return total


class ArrayMemory:
    """Encoder that stores an encoded array in a memory under one path."""

    def __init__(self, scheme: Scheme, code: Encoder, path: tuple[str, ...]) -> None:
        self.scheme, self.code, self.path = scheme, code, path

    def __call__(self, given: Tensor) -> Tensor:
        """Return memories (n, numbers) of arrays."""
        return written(self.scheme, self.code(given), self.path)


def written(scheme: Scheme, fillers: Tensor, path: tuple[str, ...]) -> Tensor:
    """Return memories (n, numbers) that each hold one of the fillers (n, *filler_shape) under a path."""
    contexts = scheme.contexts([path])
    return torch.stack([scheme.trace(contexts, filler.unsqueeze(0)).flatten() for filler in fillers])
