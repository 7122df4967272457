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
    """Return a context in which cached tensors are created, so that they may be used in training later."""
    if transformed() or not torch.is_inference_mode_enabled():
        return nullcontext()
    return torch.inference_mode(False)


def kept(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorate a function to cache its last results, for training too; transforms and compilers bypass the cache."""

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
    """Return the number 1, (1, 1), to broadcast to all rows and columns."""
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
    """Return the exponentials of numbers up to zero, in place; results are at least e^-80.

    Denormal results take processors forty times as long.
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
    """Return the outer products of columns: (*, s, m) each -> (*, s^parts, m)."""
    product = parts[0]
    for part in parts[1:]:
        product = (product.unsqueeze(-2) * part.unsqueeze(-3)).flatten(-3, -2)
    return product


def thin_product(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right, in blocks of columns if left has few rows, which takes BLAS half of the time."""
    number, size = blocks(right.shape[1])
    if len(left) > 64 or number == 1 or number * size < right.shape[1]:
        return left @ right
    columns = right.unflatten(1, (number, size)).transpose(0, 1)
    return torch.bmm(left.expand(number, -1, -1), columns).transpose(0, 1).flatten(1)


def blocks(count: int) -> tuple[int, int]:
    """Return number and size of equal blocks of about BLOCK, which cover all but fewer than `number` of `count`."""
    number = max(1, count // BLOCK)
    return number, count // number


def as_reals(x: Tensor, dimensions: int) -> Tensor:
    """Return the last dimensions as one dimension of real numbers."""
    return torch.view_as_real(x).flatten(-1 - dimensions) if x.is_complex() else x.flatten(-dimensions)


def as_real(x: Tensor) -> Tensor:
    """Return complex numbers as real ones, with a last dimension of 2; real numbers stay as they are."""
    return torch.view_as_real(x) if x.is_complex() else x


BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # integers by their number of bytes


def chosen(flags: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """Return torch.where(flags, x, other) by bit operations: random flags make torch.where four times as slow."""
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
