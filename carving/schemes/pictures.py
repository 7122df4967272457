"""Sums of atoms: discrete atoms as points of a linear space, where they are summed, and what a sum settles to."""

import math

import torch
from torch import Tensor

from carving import hashing
from carving.schemes.algebra import Space, on_circle

# Sums of sets of atoms (*, n, shape), without their pictures being made


def total_of_bits(space: Space, x: Tensor) -> Tensor:
    """The sum of bipolar pictures: the clear bits less the set ones."""
    # Bytes that cannot overflow are summed ten times faster than anything wider.
    counts = [
        part.to(torch.bool).view(torch.uint8).sum(-2, dtype=torch.uint8).to(space.dtype)
        for part in x.split(255, dim=-2)
    ]
    return x.shape[-2] - 2 * torch.stack(counts).sum(0)


def total_of_segments(space: Space, x: Tensor) -> Tensor:
    """The sum of one-hot segments: how often each index stands in each."""
    sets = x.reshape(-1, *x.shape[-2:])
    each = x.shape[-1] * space.option
    places = torch.arange(0, each, space.option, device=x.device) + each * torch.arange(
        len(sets), device=x.device
    ).view(-1, 1, 1)
    counts = torch.bincount((sets + places).flatten(), minlength=each * len(sets))
    return counts.to(space.dtype).view(*x.shape[:-2], x.shape[-1], space.option)


def equal_indices(space: Space, x: Tensor, others: Tensor) -> Tensor:
    """The share of equal indices of x (n, shape) and others (m, shape): (n, m)."""
    if space.option <= 256:  # bytes compare eight times as fast
        x, others = x.to(torch.uint8), others.to(torch.uint8)
    rows = max(1, 2**24 // others.numel())
    parts = [(part.unsqueeze(1) == others).sum(-1, dtype=space.dtype) for part in x.split(rows)]
    return torch.cat(parts) / space.d


# Pictures: discrete atoms in a linear space, where they are summed


def as_bipolar(space: Space, x: Tensor) -> Tensor:
    """Bits as +1 (clear) and -1 (set)."""
    return x.to(space.dtype, copy=True).mul_(-2).add_(1)  # in place: pictures are many times as large as bits


def as_numbers(space: Space, x: Tensor) -> Tensor:
    """Bits as 0 and 1."""
    return x.to(space.dtype)


def as_phasors(space: Space, x: Tensor) -> Tensor:
    """Indices as points of the unit circle."""
    angle = x.to(space.dtype) * (2 * math.pi / space.option)
    return torch.polar(torch.ones_like(angle), angle)


def as_segments(space: Space, x: Tensor) -> Tensor:
    """Indices as one-hot segments."""
    return torch.nn.functional.one_hot(x, space.option).to(space.dtype)


def as_triangles(space: Space, x: Tensor) -> Tensor:
    """Indices as what every index is worth to them: 1 - 4/r times the distance around the circle."""
    distance = (torch.arange(space.option, device=x.device) - x.unsqueeze(-1)).remainder(space.option)
    return 1 - torch.minimum(distance, space.option - distance).to(space.dtype) * (4 / space.option)


def from_bipolar(space: Space, x: Tensor) -> Tensor:
    """The bits of a bipolar picture."""
    return x < 0


def from_numbers(space: Space, x: Tensor) -> Tensor:
    """The bits of a picture of numbers."""
    return x > 0


def from_phasors(space: Space, x: Tensor) -> Tensor:
    """The indices of points of the circle."""
    return (x.angle() * (space.option / (2 * math.pi))).round().to(torch.int64).remainder(space.option)


def from_segments(space: Space, x: Tensor) -> Tensor:
    """The indices of one-hot segments."""
    return x.argmax(-1)


# What a raw sum settles to. Where there is a tie, chance decides: numbers of [0, 1), one for each number of the sum.


def chances(seed: int, count: int) -> Tensor:
    """As many numbers of [0, 1), by a hash of the seed and the coordinate."""
    with torch.inference_mode(False):
        return hashing.uniforms(hashing.bits([b"tie"], count, seed=seed, purpose="settle"))[0]


def chance(space: Space, total: Tensor, dimensions: int) -> Tensor:
    """The chances of a sum: the space's own, turned by what the sum holds.

    Two readings of one sum agree, and yet the ties of two sums have nothing in common.
    """
    assert space.ties is not None
    flat = (total.real if total.is_complex() else total).flatten(-dimensions)
    places = torch.arange(flat.shape[-1], device=total.device)
    # Compared with a share that no sum of atoms comes near, so that rounding does not matter.
    turn = ((flat > 0.1234567 * flat.amax(-1, keepdim=True)) * places).sum(-1, keepdim=True)
    turned: Tensor = space.ties.to(total.device)[(places + turn).remainder(flat.shape[-1])]
    return turned.view(total.shape).to(space.dtype)


def to_signs(space: Space, total: Tensor, lot: Tensor) -> Tensor:
    """The sign of each coordinate."""
    return torch.where(total == 0, torch.where(lot < 0.5, -1.0, 1.0).to(total.dtype), total.sign())


def parity(space: Space, x: Tensor) -> Tensor:
    """Bits (*, n, d), all of them bound: whether an odd number is set."""
    parts = [part.to(torch.bool).view(torch.uint8).sum(-2, dtype=torch.uint8) for part in x.split(255, dim=-2)]
    return torch.stack([part & 1 for part in parts]).sum(0, dtype=torch.uint8).bitwise_and_(1).to(torch.bool)


def to_unit_interval(space: Space, total: Tensor, lot: Tensor) -> Tensor:
    """Each coordinate cut to [-1, 1]."""
    return total.clamp(-1, 1)


def to_bits(space: Space, total: Tensor, lot: Tensor) -> Tensor:
    """Whether anything is there: the OR of what was summed."""
    return (total > 0).to(total.dtype)


def to_phases(space: Space, total: Tensor, lot: Tensor) -> Tensor:
    """The nearest of r points of the unit circle."""
    step = 2 * math.pi / space.option
    # A little push decides where the sum vanishes or lies half way, up to rounding.
    push = 1e-4 * total.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(lot.dtype).tiny * 1e8)
    pushed = total + torch.polar(push.expand_as(lot), lot * (2 * math.pi))
    nearest = (pushed.angle() / step).round() * step
    return torch.polar(torch.ones_like(nearest), nearest)


def to_modes(space: Space, total: Tensor, lot: Tensor) -> Tensor:
    """The most frequent index of each segment, one-hot."""
    most = total.amax(-1, keepdim=True)
    return as_segments(space, torch.where(total >= most - 1e-6 * most.abs(), lot, -1.0).argmax(-1))


# The nearest that is as atoms are


def to_plain_signs(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """1 for what is positive, else -1."""
    return torch.where(total > 0, 1.0, -1.0).to(total.dtype)


def to_indices(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """The most frequent index of each segment, as an index; of several the one that chance says, or the lowest."""
    most = total.amax(-1, keepdim=True)
    return torch.where(total >= most, torch.zeros_like(total) if lot is None else lot, -1.0).argmax(-1)


def to_unit(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """Of norm 1; zero stays."""
    return torch.nn.functional.normalize(total, dim=-1)


def to_size(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """Of the norm that vectors of deviation sigma about +-mu have; option = (mu, sigma)."""
    mu, sigma = space.option
    return to_unit(space, total, lot) * math.sqrt(space.d * (mu * mu + sigma * sigma))


def to_circle(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """Of modulus 1; zero counts as positive."""
    turned = total.sgn()
    return torch.where(turned == 0, 1.0, turned)


def to_unit_spectrum(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """With Fourier coefficients of modulus 1."""
    return torch.fft.irfft(to_circle(space, torch.fft.rfft(total), lot), n=space.d)


def to_unitary(space: Space, total: Tensor, lot: Tensor | None) -> Tensor:
    """The nearest unitary blocks: those of the polar decomposition."""
    left, _, right = torch.linalg.svd(total)
    return left @ right


def softened(space: Space, x: Tensor) -> Tensor:
    """The hyperbolic tangent; of complex numbers that of the modulus."""
    if not x.is_complex():
        return x.tanh()
    size = x.abs()
    return x * (size.tanh() / size.clamp_min(torch.finfo(size.dtype).tiny))


def softened_blocks(space: Space, x: Tensor) -> Tensor:
    """The hyperbolic tangent of every block's singular values."""
    left, sizes, right = torch.linalg.svd(x)
    return (left * sizes.tanh().unsqueeze(-2)) @ right


def paired_ones(space: Space, x: Tensor, other: Tensor, places: Tensor) -> Tensor:
    """Places (d,) at which ones of x alone and ones of the other alone are exchanged pair by pair: their number stays.

    The places give the order. What both have, or neither, stays whatever its place is.
    """
    paired = places.clone()
    for alone in (x & ~other, other & ~x):
        where = alone.nonzero().squeeze(-1)
        order = where[places[where].argsort()]
        paired[order] = (torch.arange(len(order), dtype=places.dtype, device=places.device) + 0.5) / max(1, len(order))
    return paired


# Fractional powers: angles (*, parts) -> vectors whose binding adds the angles


def turned(space: Space, frame: Tensor, angles: Tensor) -> Tensor:
    """Points of the unit circle."""
    return on_circle(angles)


def turned_spectrum(space: Space, frame: Tensor, angles: Tensor) -> Tensor:
    """The vector with these phases of its Fourier coefficients; the first and, of even d, the last have none."""
    inner = torch.ones(angles.shape[-1], dtype=angles.dtype, device=angles.device)
    inner[0] = 0
    if space.d % 2 == 0:
        inner[-1] = 0
    return torch.fft.irfft(turned(space, frame, angles * inner), n=space.d)


def turned_blocks(space: Space, frame: Tensor, angles: Tensor) -> Tensor:
    """Unitary blocks with the frame's columns as eigenvectors and the angles (*, blocks, m) as eigenvalues' phases."""
    return (frame * turned(space, frame, angles).unsqueeze(-2)) @ frame.mH
