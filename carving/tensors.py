"""Small tensor functions that schemes share."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

Given = ParamSpec("Given")
Made = TypeVar("Made")

BLOCK = 500  # candidates in one small product: BLAS works on blocks of this size in its cache


def transformed() -> bool:
    """Whether torch compiles or transforms (vmap, grad) what is computed, so that branches on values are impossible."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def tracked(*given: object) -> bool:
    """Whether a gradient or a transform passes through some of these tensors, which are then not written in place."""
    grad = torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in given)
    return grad or transformed()


def lasting() -> AbstractContextManager[object]:
    """Where what is made may be kept and used in training later, even if nothing is to be trained now."""
    if transformed() or not torch.is_inference_mode_enabled():
        return nullcontext()
    return torch.inference_mode(False)


def kept(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """A function whose last results are kept, to serve training too; a compiler makes them part of what it compiles."""

    @lru_cache(maxsize=32)
    def once(*given: Given.args, **named: Given.kwargs) -> Made:
        with lasting():
            return make(*given, **named)

    @wraps(make)
    def get(*given: Given.args, **named: Given.kwargs) -> Made:
        return make(*given, **named) if transformed() else once(*given, **named)  # type: ignore[arg-type]

    return get


@kept
def one(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The number 1 for all rows and columns: (1, 1)."""
    return torch.ones(1, 1, dtype=dtype, device=device)


def orthonormal(rows: Tensor) -> Tensor:
    """Return the rows orthonormalized in order (Gram-Schmidt), with signs that do not depend on the library."""
    basis, upper = torch.linalg.qr(rows.mT)
    # A QR leaves the signs open; the positive diagonal settles them.
    flipped = upper.diagonal(dim1=-2, dim2=-1).lt(0)
    return torch.where(flipped.unsqueeze(-2), -basis, basis).mT


def outer(vectors: Sequence[Tensor]) -> Tensor:
    """Return the outer products of m vectors for each of n rows, flattened: (n, s) each -> (n, s^m)."""
    product = vectors[0]
    for vector in vectors[1:]:
        product = (product.unsqueeze(-1) * vector.unsqueeze(-2)).flatten(-2)
    return product


def inverse_norm(vectors: Tensor, dim: int) -> Tensor:
    """Return one over the norms; a large finite number for a zero vector, which stays zero when scaled."""
    # Faster than torch.linalg.vector_norm along any dimension but the last.
    return vectors.square().sum(dim).clamp_min_(torch.finfo(vectors.dtype).tiny).rsqrt_()


def falling_exp_(x: Tensor) -> Tensor:
    """The exponentials of numbers up to zero, in place; what is below e^-80 counts as that.

    Processors take forty times as long for results that are too small to be told from zero.
    """
    return x.clamp_min_(-80).exp_()


def contract(cores: Tensor, components: Tensor, unit: bool = False) -> Tensor:
    """Return the inner products (n, m) of cores with outer products of components, without forming the products.

    Args:
        cores: (n, s, ..., s), of order p.
        components: (p, n, s, m), one candidate in each column.
        unit: Whether components have unit norm; else they are normalized.
    """
    order, count, side, _ = components.shape
    scales = None if unit else inverse_norm(components, dim=2)
    if order > 3 and scales is not None:  # products of four unscaled numbers may overflow
        components = components * scales.unsqueeze(2)
    parts = components.unbind(0)
    half = order // 2
    right = columns_outer(parts[half:])  # (n, s^(p-half), m)
    inner = torch.bmm(cores.reshape(count, -1, side ** (order - half)), right)
    if half:
        inner *= columns_outer(parts[:half])
    scores = inner.sum(1)
    if order <= 3 and scales is not None:  # dividing m scores is cheaper than normalizing s m components
        for scale in scales.unbind(0):
            scores *= scale
    return scores


def columns_outer(parts: Sequence[Tensor]) -> Tensor:
    """The outer products of columns: (*, s, m) each -> (*, s^parts, m)."""
    product = parts[0]
    for part in parts[1:]:
        product = (product.unsqueeze(-2) * part.unsqueeze(-3)).flatten(-3, -2)
    return product


def thin_product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right: for a left factor of few rows in blocks of columns, which BLAS does in half of the time."""
    number, size = blocks(right.shape[1])
    if len(left) > 64 or number == 1 or number * size < right.shape[1]:
        return left @ right
    columns = right.unflatten(1, (number, size)).transpose(0, 1)
    return torch.bmm(left.expand(number, -1, -1), columns).transpose(0, 1).flatten(1)


def blocks(count: int) -> tuple[int, int]:
    """Number and size of equal blocks of about BLOCK that leave fewer than `number` of `count` over."""
    number = max(1, count // BLOCK)
    return number, count // number


def as_reals(x: Tensor, dimensions: int) -> Tensor:
    """The last dimensions as one of real numbers."""
    return torch.view_as_real(x).flatten(-1 - dimensions) if x.is_complex() else x.flatten(-dimensions)


BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # as wide as numbers of so many bytes


def chosen(flags: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """torch.where, by bits: flags that cannot be guessed make it four times as slow."""
    bits = BITS.get(x.element_size())
    if bits is None or x.dtype != other.dtype or tracked(x, other):
        return torch.where(flags, x, other)
    one, two = (v.resolve_conj().resolve_neg().view(bits) for v in (x, other))
    difference = one ^ two
    if x.dtype == torch.bool:
        return (flags.view(bits) & difference).bitwise_xor_(two).view(x.dtype)
    mask = flags.to(bits)
    whole = mask.shape[mask.dim() - difference.dim() :] == difference.shape
    return (mask.mul_(difference) if whole else mask * difference).bitwise_xor_(two).view(x.dtype)
