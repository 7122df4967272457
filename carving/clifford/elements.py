"""The types of geometric algebra: blades as lists of vectors, multivectors of one grade in coordinates."""

from dataclasses import dataclass
from typing import TypeVar, final

import torch
from torch import Tensor

from carving.clifford.grades import count
from carving.errors import BadType, BadValue


@final
@dataclass(frozen=True, eq=False)
class Blades:
    """A batch of blades: wedges of r vectors each, stored as the vectors.

    Args:
        factors: (*, r, n), real, with 1 <= r <= n.

    >>> Blades(torch.eye(4)[:2]).grade
    2
    """

    factors: Tensor  # (*, r, n)

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Tensor) or self.factors.dim() < 2 or not self.factors.is_floating_point():
            raise BadValue(
                f"factors must be a real tensor of shape (*, r, n), got {show_shape(self.factors)}. "
                "Use unsqueeze(-2) for blades of single vectors."
            )
        if not 1 <= self.grade <= self.n:
            raise BadValue(
                f"A blade of R^{self.n} must have 1 to {self.n} vectors, got {self.grade}. "
                "More vectors than dimensions are linearly dependent: their wedge is zero."
            )

    @property
    def grade(self) -> int:
        """The number of vectors in each wedge, r."""
        return self.factors.shape[-2]

    @property
    def n(self) -> int:
        """The dimension of the space, n."""
        return self.factors.shape[-1]

    @property
    def batch(self) -> torch.Size:
        """The leading (batch) dimensions."""
        return self.factors.shape[:-2]


@final
@dataclass(frozen=True, eq=False)
class Multivectors:
    """A batch of multivectors of one grade, in coordinates; grade 0 is scalars.

    Args:
        coordinates: (*, binom(n, grade)), real, in the order of `itertools.combinations(range(n), grade)`.
        n: The dimension of the space.
        grade: 0 to n.

    >>> Multivectors(torch.ones(6), n=4, grade=2).batch
    torch.Size([])
    """

    coordinates: Tensor  # (*, binom(n, grade))
    n: int
    grade: int

    def __post_init__(self) -> None:
        size = count(self.n, self.grade)
        given = self.coordinates
        if not isinstance(given, Tensor) or given.shape[-1:] != (size,) or not given.is_floating_point():
            raise BadValue(
                f"coordinates must be a real tensor of shape (*, {size}) for grade {self.grade} of R^{self.n}, got "
                f"{show_shape(given)}. Create them with expand(blades)."
            )

    @property
    def batch(self) -> torch.Size:
        """The leading (batch) dimensions."""
        return self.coordinates.shape[:-1]


E = TypeVar("E", Tensor, Blades, Multivectors)
Element = Tensor | Blades | Multivectors  # a plain tensor (*, n) is vectors


def as_element(a: Element) -> Blades | Multivectors:
    """Return blades or multivectors; a tensor of vectors (*, n) becomes blades of one vector."""
    if isinstance(a, Tensor):
        if a.dim() < 1:
            raise BadValue(f"vectors must have shape (*, n), got {show_shape(a)}")
        return Blades(a.unsqueeze(-2))
    if not isinstance(a, Blades | Multivectors):
        raise BadType(f"Expected vectors (a tensor), Blades or Multivectors, got {type(a).__name__}")
    return a


def common_space(*elements: Blades | Multivectors, broadcast: bool = True) -> int:
    """Return the dimension of the common space; refuse elements of several dtypes, spaces or incompatible batches."""
    tensors = [each.factors if isinstance(each, Blades) else each.coordinates for each in elements]
    dtypes = dict.fromkeys(tensor.dtype for tensor in tensors)
    if len(dtypes) > 1:
        shown = " and ".join(map(str, dtypes))
        raise BadType(f"All elements must have the same dtype, got {shown}. Use .to({tensors[-1].dtype}).")
    batches = dict.fromkeys([tuple(element.batch) for element in elements if element.batch])
    try:
        if broadcast and len(batches) > 1:
            torch.broadcast_shapes(*batches)
    except RuntimeError:
        shown = " and ".join(map(str, batches))
        raise BadValue(f"Batch shapes must broadcast, got {shown}. Use unsqueeze to add dimensions.") from None
    dimensions = dict.fromkeys(element.n for element in elements)
    if len(dimensions) > 1:
        raise BadValue(
            f"All elements must lie in the same space, got {' and '.join(f'R^{n}' for n in dimensions)}. "
            "Append zeros to the shorter vectors."
        )
    return elements[0].n


def show_shape(tensor: object) -> str:
    """Return the shape of a tensor for a message, with its dtype if that is not floating."""
    if not isinstance(tensor, Tensor):
        return type(tensor).__name__
    return f"{tuple(tensor.shape)}{'' if tensor.is_floating_point() else f' of {tensor.dtype}'}"
