"""The operations that vector symbolic architectures are made of, on plain tensors `(*, shape)`.

Atoms from bits; roles acting on fillers and being undone; energies; embeddings of discrete atoms in a linear space,
where they are summed, and what a sum is quantized to. Every function takes the space first, which knows the shape of an
atom. The table in `architectures.py` combines them.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from carving import hashing
from carving.hashing import Bits


@dataclass(frozen=True)
class Space:
    """Parameters of the operations: coordinates, the shape of an atom, the real dtype, the seed, and one option."""

    d: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    option: Any = None  # CGR: the order r; SEG: a segment's length; BSDC: how many ones; HLB: (mu, sigma)
    scalars: int = 0  # real numbers, bits or indices that an atom is
    ties: Tensor | None = field(default=None, compare=False, repr=False)  # a chance of [0, 1) for each number of a sum

    @property
    def complex(self) -> torch.dtype:
        """The complex dtype beside the real one."""
        return torch.complex64 if self.dtype == torch.float32 else torch.complex128


# Atoms from bits: (n, words) -> (n, *shape)


def gaussian(space: Space, words: Bits) -> Tensor:
    """Normals of variance 1/d."""
    return (hashing.normals(words)[:, : space.d] / math.sqrt(space.d)).to(space.dtype)


def unitary(space: Space, words: Bits) -> Tensor:
    """Normals whose Fourier coefficients are brought to modulus 1."""
    spectrum = torch.fft.rfft(hashing.normals(words)[:, : space.d])
    return torch.fft.irfft(spectrum / spectrum.abs().clamp_min(1e-30), n=space.d).to(space.dtype)


def phasors(space: Space, words: Bits) -> Tensor:
    """Complex numbers of modulus 1."""
    angle = hashing.uniforms(words) * (2 * math.pi) - math.pi
    return torch.polar(torch.ones_like(angle), angle).to(space.complex)


def signs(space: Space, words: Bits) -> Tensor:
    """-1 or 1."""
    return hashing.signs(words, space.d).to(space.dtype)


def uniform(space: Space, words: Bits) -> Tensor:
    """Uniform in [-1, 1)."""
    return (2 * hashing.uniforms(words) - 1).to(space.dtype)


def coins(space: Space, words: Bits) -> Tensor:
    """Fair bits."""
    return hashing.signs(words, space.d) < 0


def sparse(space: Space, words: Bits) -> Tensor:
    """Bits of which exactly `option` are set, at random positions."""
    positions = hashing.uniforms(words).topk(space.option, dim=-1).indices
    return torch.zeros(len(words), space.d, dtype=torch.bool).scatter_(1, positions, True)


def indices(space: Space, words: Bits) -> Tensor:
    """Integers of 0 .. option-1."""
    return hashing.integers(words, space.option)


def mixture(space: Space, words: Bits) -> Tensor:
    """+-mu with a little normal noise of deviation sigma; option = (mu, sigma)."""
    mu, sigma = space.option
    split = hashing.words_for_signs(space.d)
    sign, noise = hashing.signs(words[:, :split], space.d), hashing.normals(words[:, split:])[:, : space.d]
    return (mu * sign + sigma * noise).to(space.dtype)


def haar(space: Space, words: Bits) -> Tensor:
    """Random unitary m x m matrices: complex normals, orthonormalized column by column."""
    blocks, m, _ = space.shape
    columns = torch.view_as_complex(hashing.normals(words)[:, : 2 * blocks * m * m].reshape(-1, blocks, m, m, 2))
    done: list[Tensor] = []
    for column in columns.unbind(-1):
        for earlier in done:
            column = column - (earlier.conj() * column).sum(-1, keepdim=True) * earlier
        done.append(column / torch.linalg.vector_norm(column, dim=-1, keepdim=True))
    return torch.stack(done, dim=-1).to(space.complex)


# The same from a generator's own numbers, where that is cheaper than words: a count -> (count, *shape). They are drawn
# in single precision whatever the dtype is, so that the same seed means the same atoms.


def gaussian_drawn(space: Space, count: int, generator: torch.Generator) -> Tensor:
    """Normals of variance 1/d."""
    drawn = torch.randn(count, space.d, generator=generator, device=generator.device, dtype=torch.float32)
    return drawn.to(space.dtype).mul_(1 / math.sqrt(space.d))


def uniform_drawn(space: Space, count: int, generator: torch.Generator, top: float = 1.0) -> Tensor:
    """Uniform in [-top, top)."""
    drawn = torch.empty(count, space.d, device=generator.device, dtype=torch.float32)
    return drawn.uniform_(-top, top, generator=generator).to(space.dtype)


def phasors_drawn(space: Space, count: int, generator: torch.Generator) -> Tensor:
    """Complex numbers of modulus 1."""
    return on_circle(uniform_drawn(space, count, generator, math.pi))


def on_circle(angle: Tensor) -> Tensor:
    """Points of the unit circle: cosines and sines are vectorized, and torch.polar is not."""
    return torch.complex(angle.cos(), angle.sin())


# Roles acting on fillers


def multiply(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Element by element."""
    return x * role


def multiply_conjugate(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """By the conjugate, element by element."""
    return x * role.conj()


def multiply_rescaled(space: Space, first: Tensor, second: Tensor) -> Tensor:
    """Element by element, brought back to the size of the second: long products of fractions would vanish."""
    product = first * second
    size, wanted = (x.square().mean(-1, keepdim=True).sqrt() for x in (product, second))
    return product * (wanted / size.clamp_min(torch.finfo(size.dtype).tiny))


def divide(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Element by element."""
    return x / role


def away_from_zero(space: Space, role: Tensor) -> Tensor:
    """Entries of at least 1e-3, so that they can be divided by."""
    return torch.where(role.abs() < 1e-3, torch.where(role < 0, -1e-3, 1e-3).to(role.dtype), role)


def convolve(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Circular convolution."""
    # Three real transforms, and they are the time. Tried and slower: rows in chunks that stay in the cache, one complex
    # transform for both sides, halves packed as complex numbers, both sides stacked.
    return torch.fft.irfft(_product(torch.fft.rfft(x), torch.fft.rfft(role)), n=space.d)


def correlate(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Circular correlation: the adjoint of convolution, and an approximate inverse."""
    return torch.fft.irfft(_product(torch.fft.rfft(x), torch.fft.rfft(role).conj()), n=space.d)


@lru_cache(maxsize=16)
def shuffle(space: Space) -> Tensor:
    """A random order of the coordinates for the whole space."""
    with torch.inference_mode(False):  # it is kept, and may be used in training later
        return hashing.uniforms(hashing.bits([b"order"], space.d, seed=space.seed, purpose="order"))[0].argsort()


def spectrum(space: Space, x: Tensor) -> Tensor:
    """The Fourier coefficients."""
    return torch.fft.rfft(x)


def signal(space: Space, coefficients: Tensor) -> Tensor:
    """The vector of these Fourier coefficients."""
    return torch.fft.irfft(coefficients, n=space.d)


def product(space: Space, x: Tensor) -> Tensor:
    """Element by element, of vectors (*, n, d)."""
    return x.prod(-2)


def convolution(space: Space, x: Tensor) -> Tensor:
    """The circular convolution of vectors (*, n, d)."""
    return torch.fft.irfft(torch.fft.rfft(x).prod(-2), n=space.d)


def _product(fresh: Tensor, other: Tensor) -> Tensor:
    """The product, in the place of the first where no gradient wants it: a spectrum less to write."""
    if fresh.requires_grad or other.requires_grad or fresh.shape != torch.broadcast_shapes(fresh.shape, other.shape):
        return fresh * other
    return fresh.mul_(other)


def exclusive_or(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Bits that differ."""
    return x ^ role


def add_modulo(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Indices added around the circle."""
    return (x + role).remainder(space.option)


def subtract_modulo(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Indices subtracted around the circle."""
    return (x - role).remainder(space.option)


def square(space: Space, x: Tensor) -> Tensor:
    """The vector as a q x q matrix."""
    side = math.isqrt(space.d)
    return x.unflatten(-1, (side, side))


def vtb(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Rows of the filler's matrix times the transposed role matrix: the block-diagonal product, blocks not built."""
    return (square(space, x) @ square(space, role).mT * space.d**0.25).flatten(-2)


def vtb_transposed(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """The adjoint of `vtb`."""
    return (square(space, x) @ square(space, role) * space.d**0.25).flatten(-2)


def vtb_composed(space: Space, first: Tensor, second: Tensor) -> Tensor:
    """The role that acts like two, one after the other."""
    return (square(space, second) @ square(space, first) * space.d**0.25).flatten(-2)


def matrix_left(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Role block times filler block."""
    return role @ x


def matrix_left_adjoint(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """The role block's conjugate transpose times the block."""
    return role.mH @ x


def matrix_right(space: Space, first: Tensor, second: Tensor) -> Tensor:
    """The role that acts like two, one after the other."""
    return second @ first


def shift_of(space: Space, role: Tensor) -> Tensor:
    """By how much a role shifts: the sum of the places (from 1) of its ones, around the circle."""
    positions = torch.arange(1, space.d + 1, device=role.device)
    return (role * positions).sum(-1, keepdim=True).remainder(space.d)


def add_shifts(space: Space, first: Tensor, second: Tensor) -> Tensor:
    """Two shifts, one after the other."""
    return (first + second).remainder(space.d)


def shifted(space: Space, x: Tensor, shift: Tensor) -> Tensor:
    """Each vector rolled by its own shift."""
    positions = (torch.arange(space.d, device=x.device) - shift).remainder(space.d)
    shape = torch.broadcast_shapes(x.shape, positions.shape)
    return x.expand(shape).gather(-1, positions.expand(shape))


def shifted_back(space: Space, x: Tensor, shift: Tensor) -> Tensor:
    """Each vector rolled back."""
    return shifted(space, x, -shift)


def segments_rolled(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """One-hot segments rolled by the role's indices."""
    positions = (torch.arange(space.option, device=x.device) - role.unsqueeze(-1)).remainder(space.option)
    shape = torch.broadcast_shapes(x.shape, positions.shape)
    return x.expand(shape).gather(-1, positions.expand(shape))


def segments_rolled_back(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """One-hot segments rolled back."""
    return segments_rolled(space, x, -role)


def hartley(x: Tensor) -> Tensor:
    """The orthonormal Hartley transform, symmetric and its own inverse: real minus imaginary part of the FFT."""
    size = x.shape[-1]
    half = torch.fft.rfft(x, norm="ortho")
    back = (half.real + half.imag)[..., 1 : (size + 1) // 2].flip(-1)
    return torch.cat((half.real - half.imag, back), dim=-1)


@lru_cache(maxsize=4)
def base(space: Space) -> Tensor:
    """One random orthogonal matrix for the whole space (Haar: the QR of a Gaussian one)."""
    words = hashing.bits([b"base"], hashing.words_for_normals(space.d**2), seed=space.seed, purpose="matrix")
    with torch.inference_mode(False):  # it is kept, and may be used in training later
        matrix, upper = torch.linalg.qr(hashing.normals(words)[0, : space.d**2].view(space.d, space.d))
        return (matrix * upper.diagonal().sign()).to(space.dtype)


def two_signs(space: Space, role: Tensor) -> Tensor:
    """Two independent signs from each Gaussian coordinate: its sign, and whether it is larger than usual. (*, 2, d)"""
    usual = 0.6744897501960817 / math.sqrt(space.d)  # half of the normals of variance 1/d are larger
    larger = torch.where(role.abs() > usual, 1.0, -1.0)
    return torch.stack((torch.where(role < 0, -1.0, 1.0), larger), dim=-2).to(role.dtype)


def structured(space: Space, x: Tensor, signs: Tensor) -> Tensor:
    """diag(s2) H diag(s1) x, with H the Hartley transform: O(d log d), and no matrix stored."""
    return hartley(x * signs[..., 0, :]) * signs[..., 1, :]


def structured_back(space: Space, x: Tensor, signs: Tensor) -> Tensor:
    """The inverse of `structured`."""
    return hartley(x * signs[..., 1, :]) * signs[..., 0, :]


def dense(space: Space, x: Tensor, signs: Tensor) -> Tensor:
    """diag(s2) B diag(s1) x, with the dense random matrix B."""
    return (x * signs[..., 0, :]) @ base(space).mT.to(x.device) * signs[..., 1, :]


def dense_back(space: Space, x: Tensor, signs: Tensor) -> Tensor:
    """The inverse of `dense`."""
    return (x * signs[..., 1, :]) @ base(space).to(x.device) * signs[..., 0, :]


def roll_of(space: Space, role: Tensor) -> Tensor:
    """By how much a role rolls the base matrix: the sum of the places (from 1) of its positive entries."""
    return shift_of(space, role > 0)


def rolled(space: Space, x: Tensor, roll: Tensor) -> Tensor:
    """The base matrix with rows rolled by t and columns by t // 2, applied without being built."""
    return shifted(space, shifted(space, x, -(roll // 2)) @ base(space).mT.to(x.device), roll)


def rolled_back(space: Space, x: Tensor, roll: Tensor) -> Tensor:
    """The inverse of `rolled`."""
    return shifted(space, shifted(space, x, -roll) @ base(space).to(x.device), roll // 2)


@lru_cache(maxsize=4)
def permutations(space: Space) -> Tensor:
    """Random permutations that the whole space shares, (T, d): enough that thinning ends."""
    count = 4 * math.ceil(math.log(0.5) / math.log(1 - 2 * space.option / space.d)) if 2 * space.option < space.d else 8
    names = [b"%d" % i for i in range(count)]
    return hashing.uniforms(hashing.bits(names, space.d, seed=space.seed, purpose="permutation")).argsort(dim=-1)


def thinned(space: Space, x: Tensor, role: Tensor) -> Tensor:
    """Context-dependent thinning: of the union of both, the ones that meet a one under the fewest permutations.

    The additive form: permutation after permutation, the ones that meet ones are kept, until as many as in an atom are.
    """
    union = (x > 0) | (role > 0)
    most = min(space.d, int(union.sum(-1).max()))
    ones, positions = union.to(torch.uint8).topk(most, dim=-1)  # (*, most)
    order = permutations(space).to(x.device)
    steps = order.shape[0]
    first = torch.full_like(positions, steps + 1)  # the step at which a one is kept
    for step in range(steps - 1, -1, -1):
        first = torch.where(union.gather(-1, order[step][positions]), step, first)
    first = first.masked_fill(ones == 0, steps + 1)
    last = first.sort(dim=-1).values[..., min(space.option, most) - 1 : min(space.option, most)]
    kept = (first <= last) & (first < steps)
    return torch.zeros_like(union).scatter_(-1, positions, kept)


# Energies: vectors whose inner product is the squared norm of what binding gives


def squares(space: Space, x: Tensor) -> Tensor:
    """For products of coordinates."""
    return x.square()


def power(space: Space, x: Tensor) -> Tensor:
    """For circular convolution: the power spectrum; frequencies that stand for two count twice."""
    twice = torch.full((space.d // 2 + 1,), 2.0, dtype=space.dtype, device=x.device)
    twice[0] = 1
    if space.d % 2 == 0:
        twice[-1] = 1
    spectrum = torch.fft.rfft(x)
    return (spectrum.real.square() + spectrum.imag.square()) * (twice / space.d).sqrt()


def gram(space: Space, x: Tensor) -> Tensor:
    """For the block-diagonal product: the inner products of the matrix's columns."""
    matrix = square(space, x)
    return (matrix.mT @ matrix).flatten(-2) * space.d**0.25


# Roles that undo others: role atoms -> role atoms; and bits turned over


def same(space: Space, role: Tensor) -> Tensor:
    """A role that undoes itself."""
    return role


def conjugate(space: Space, role: Tensor) -> Tensor:
    """Phases turned the other way."""
    return role.conj().resolve_conj()


def adjoint(space: Space, role: Tensor) -> Tensor:
    """The conjugate transpose of every block."""
    return role.mH.resolve_conj()


def reciprocal(space: Space, role: Tensor) -> Tensor:
    """One over every number."""
    return 1 / away_from_zero(space, role)


def negated_modulo(space: Space, role: Tensor) -> Tensor:
    """Indices the other way around the circle."""
    return (-role).remainder(space.option)


def complement(space: Space, x: Tensor) -> Tensor:
    """Every bit turned over."""
    return ~x


def reversed_around(space: Space, role: Tensor) -> Tensor:
    """Coordinates in the other order around the circle, the first stays: convolution with it is correlation."""
    return role.flip(-1).roll(1, -1)


def mirrored(space: Space, role: Tensor) -> Tensor:
    """Ones of place j (from 1) at place d - j, around the circle: the sum of their places is the negative one."""
    return role.flip(-1).roll(-1, -1)


def transposed(space: Space, role: Tensor) -> Tensor:
    """The vector's matrix transposed."""
    return square(space, role).mT.flatten(-2)


def signs_exchanged(space: Space, role: Tensor) -> Tensor:
    """A vector with the role's two signs exchanged: H is symmetric, so that this undoes diag(s2) H diag(s1)."""
    first, second = two_signs(space, role).unbind(-2)
    return second * (1 + first / 2) * (0.6744897501960817 / math.sqrt(space.d))


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
