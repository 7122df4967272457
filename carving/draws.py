"""Bytes become a key, the key bits, the bits numbers: all randomness that labels give.

The same labels give the same bits on every machine, for ever, and the same real numbers to 1e-6. torch's
own generators promise neither, so the bits come from NumPy's Philox (a stream that NumPy guarantees) and
the transforms are written here. Golden values in the tests guard both.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.chunks import slices
from carving.errors import BadValue
from carving.symbols import canonical_path
from carving.tensors import orthonormal

Bits = NDArray[np.uint64]

STREAM = b"carving 1\n"  # names the way from labels to bits; to change it is to change every memory


@lru_cache(maxsize=64)
def _prefix(purpose: str, seed: int) -> "hashlib._Hash":
    return hashlib.sha256(STREAM + canonical_path((purpose, seed)))


def bits(names: Iterable[bytes], words: int, *, seed: int, purpose: str) -> Bits:
    """For each name (canonical bytes), `words` random 64-bit words: by name, seed and purpose alone."""
    prefix, keys = _prefix(purpose, seed), []
    for name in names:
        digest = prefix.copy()
        digest.update(name)
        keys.append(digest.digest()[:16])
    return _philox(keys, words)


def _philox(keys: Sequence[bytes], words: int) -> Bits:
    """The first `words` words of Philox4x64-10 under each 128-bit key, counting from zero."""
    drawn = np.empty((len(keys), words), dtype=np.uint64)
    # One generator whose state is set anew for each key: four times faster than a generator a key.
    philox = np.random.Philox(key=0)
    state = philox.state
    all_keys = np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64).reshape(-1, 2)
    for row, key in zip(drawn, all_keys, strict=True):
        state["state"]["key"] = key
        philox.state = state
        row[:] = philox.random_raw(words)
    return drawn


def bits_from(generator: torch.Generator, count: int, words: int) -> Bits:
    """Random words of a torch generator, for experiments: `count` rows that no label names."""
    low, high = -(2**63), 2**63 - 1
    drawn = torch.randint(low, high, (count, words), generator=generator, device=generator.device)
    return drawn.cpu().numpy().view(np.uint64)


def rows_in_cache(words: int) -> int:
    """How many rows of so many words to draw at a time: a mebibyte of bits, which the cache holds while it is used."""
    return max(1, 2**17 // words)


# Numbers from bits: (n, words) -> (n, count). Real numbers are made in float64, so that the dtype that a
# caller casts them to changes them by its own rounding only.


def words_for_normals(count: int) -> int:
    """How many words `count` normals take: two from each."""
    return -(-count // 2)


def normals(words: Bits) -> Tensor:
    """Two standard normals from each word (Box-Muller on its two halves), in float64."""
    halves = np.ascontiguousarray(words, dtype="<u8").view("<i4")
    uniform = torch.from_numpy(halves).unflatten(-1, (-1, 2)).to(torch.float64)
    uniform = uniform.mul_(2.0**-32).add_(0.5 + 2.0**-33)  # in (0, 1), exact
    radius = uniform[..., 0].log().mul_(-2).sqrt_()
    angle = uniform[..., 1] * (2 * math.pi)
    return torch.stack((angle.cos().mul_(radius), angle.sin().mul_(radius)), dim=-1).flatten(-2)


def uniforms(words: Bits) -> Tensor:
    """One number of [0, 1) from each word, with 53 random bits, in float64."""
    return torch.from_numpy((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def words_for_signs(count: int) -> int:
    """How many words `count` signs take: 64 from each."""
    return -(-count // 64)


def signs(words: Bits, count: int) -> Tensor:
    """The first `count` signs, -1 or 1, as int8: the words' bits from the lowest up."""
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    flags = np.unpackbits(octets, axis=-1, count=count, bitorder="little")
    return torch.from_numpy(1 - 2 * flags.astype(np.int8))


def integers(words: Bits, below: int) -> Tensor:
    """One integer of 0 .. below-1 from each word, uniform but for 2^-32, as int64."""
    if not 1 <= below <= 2**32:
        raise BadValue(f"below must lie between 1 and 2^32, got {below}; draw larger integers in two parts")
    # floor(word * below / 2^64), from the word's halves so that nothing overflows
    factor, half = np.uint64(below), np.uint64(32)
    carry = ((words & np.uint64(0xFFFFFFFF)) * factor) >> half
    return torch.from_numpy((((words >> half) * factor + carry) >> half).astype(np.int64))


def bases(
    names: Sequence[bytes], shape: tuple[int, ...], *, seed: int, purpose: str, dtype: torch.dtype
) -> tuple[Tensor, Bits]:
    """For each name orthonormal rows (n, *shape), the Gram-Schmidt of normals, and one word (n, 1) for other uses."""
    numbers = math.prod(shape)
    words = words_for_normals(numbers)
    rows_of_all = torch.empty(len(names), *shape, dtype=dtype, device="cpu")
    first = np.empty((len(names), 1), dtype=np.uint64)
    for rows in slices(len(names), rows_in_cache(words)):
        drawn = bits(names[rows], 1 + words, seed=seed, purpose=purpose)
        rows_of_all[rows] = orthonormal(normals(drawn[:, 1:])[:, :numbers].unflatten(-1, shape))
        first[rows] = drawn[:, :1]
    return rows_of_all, first


def permutations(names: Sequence[bytes], shape: tuple[int, ...], *, seed: int, purpose: str) -> tuple[Tensor, Bits]:
    """For each name random signed permutations of 0 .. d-1, d the last of the shape, and one word (n, 1) for other use.

    (n, *shape), ~j for j with a minus, of int16 where d allows it. Each place sorts by random bits: half a word, of
    which the low bits make room for the place itself, so that no two are equal, and the bit above them is the sign.
    """
    d, numbers = shape[-1], math.prod(shape)
    place = max(1, (d - 1).bit_length())
    key = np.dtype("<u4" if place <= 12 else "<u8")
    words = -(-numbers * key.itemsize // 8)
    small = np.dtype(np.int16 if d < 2**15 else np.int32)
    drawn_of_all = np.empty((len(names), *shape), dtype=small)
    first = np.empty((len(names), 1), dtype=np.uint64)
    for rows in slices(len(names), rows_in_cache(words)):
        drawn = bits(names[rows], 1 + words, seed=seed, purpose=purpose)
        first[rows] = drawn[:, :1]
        keys = np.ascontiguousarray(drawn[:, 1:], dtype="<u8").view(key)[:, :numbers].reshape(-1, *shape)
        keys = (keys & key.type(-(2**place) % 2 ** (8 * key.itemsize))) | np.arange(d, dtype=key)
        keys.sort(axis=-1)
        low = keys.astype(small) if place < 15 else keys.astype(np.int64)
        drawn_of_all[rows] = (low & (2**place - 1)) ^ -(low >> place & 1)
    return torch.from_numpy(drawn_of_all), first
