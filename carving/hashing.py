"""Random numbers derived from labels: canonical bytes -> key (SHA-256) -> bits (Philox) -> numbers.

Equal labels give equal bits on every machine and in every version, and equal real numbers to 1e-6. torch's generators
guarantee neither, so the bits come from NumPy's Philox, whose stream NumPy guarantees, and the transforms are
implemented here. Golden values in the tests guard both.
"""

import hashlib
import math
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.errors import BadValue
from carving.symbols.codec import canonical_path
from carving.tensors import orthonormal
from carving.tiling import slices

Bits = NDArray[np.uint64]

STREAM = b"carving 1\n"  # names the way from labels to bits; to change it is to change every memory


@lru_cache(maxsize=64)
def _prefix(purpose: str, seed: int) -> bytes:
    return STREAM + canonical_path((purpose, seed))


def bits(names: Iterable[bytes], words: int, *, seed: int, purpose: str) -> Bits:
    """Return `words` random 64-bit words for each name (canonical bytes), from name, seed and purpose alone."""
    start, digests = hashlib.sha256(_prefix(purpose, seed), usedforsecurity=False).copy, []
    for name in names:  # behind the prefix, which is hashed once
        digest = start()
        digest.update(name)
        digests.append(digest.digest())
    keys = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64).reshape(-1, 4)[:, :2]
    if len(keys) < MANY_KEYS or words > FEW_WORDS:
        return _philox(keys, words)
    parts = [_philox_together(keys[rows], words) for rows in slices(len(keys), MANY_BLOCKS // _blocks(words))]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


# Philox4x64-10, by NumPy's generator or, many keys at a time, by NumPy's arrays, with equal words. A key costs the
# generator 1.6 us and a word 5 ns; together they cost 300 us for all keys, 0.15 us for a key and 25 ns for a word.
MANY_KEYS, FEW_WORDS = 256, 32
MANY_BLOCKS = 2**14  # of four words that are made together: their arrays stay in the cache


class _Generator(threading.local):
    """NumPy's generator of this thread; setting its state for each key is faster than creating one."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)
        self.inner: dict[str, Sequence[int]] = {"counter": (0, 0, 0, 0)}  # plain integers are taken fastest
        empty = {"buffer": (0, 0, 0, 0), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0}
        self.state = {"bit_generator": "Philox", "state": self.inner, **empty}


_GENERATOR = _Generator()


def _philox(keys: Bits, words: int) -> Bits:
    """Return the first `words` words of each 128-bit key (n, 2), counting from zero."""
    philox, inner, state = _GENERATOR.philox, _GENERATOR.inner, _GENERATOR.state
    draw, drawn = philox.random_raw, []
    for key in keys.tolist():
        inner["key"] = key
        philox.state = state  # type: ignore[assignment]  # NumPy's arrays are not needed here
        drawn.append(draw(words))
    return np.concatenate(drawn).reshape(-1, words) if drawn else np.empty((0, words), dtype=np.uint64)


def _philox_together(keys: Bits, words: int) -> Bits:
    """Return the words of `_philox` by array operations over all keys."""
    blocks = _blocks(words)
    key0, key1 = keys[:, :1], keys[:, 1:]
    # The first of the ten rounds, of the counters (1, 0, 0, 0), (2, 0, 0, 0), ...: NumPy counts before it draws.
    high, low = _products(np.arange(1, 1 + blocks, dtype=np.uint64), FACTORS[0])
    one, two = np.broadcast_to(key0, (len(keys), blocks)), np.zeros((len(keys), blocks), dtype=np.uint64)
    three, four = high ^ key1, np.broadcast_to(low, one.shape)
    for _ in range(9):
        key0, key1 = key0 + WEYL[0], key1 + WEYL[1]
        (high, low), (other_high, other_low) = _products(one, FACTORS[0]), _products(three, FACTORS[1])
        other_high ^= two
        other_high ^= key0
        high ^= four
        high ^= key1
        one, two, three, four = other_high, other_low, high, low
    return np.stack((one, two, three, four), axis=-1).reshape(len(keys), -1)[:, :words]


def _blocks(words: int) -> int:
    return -(-words // 4)


FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
WEYL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
HALF, LOW = np.uint64(32), np.uint64(2**32 - 1)


def _products(x: Bits, factor: np.uint64) -> tuple[Bits, Bits]:
    """Return the high and the low words of products, from halves so that nothing overflows."""
    above, below = factor >> HALF, factor & LOW
    low, high = x & LOW, x >> HALF
    carry = low * below
    carry >>= HALF
    middle = high * below
    middle += carry
    low *= above
    low += middle & LOW
    low >>= HALF
    middle >>= HALF
    high *= above
    high += middle
    high += low
    return high, x * factor


MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))  # shifts and factors of splitmix64


def mixed(numbers: Tensor, key: int) -> Tensor:
    """Return 64 random bits for each number (int64) and a key, by splitmix64, equal on every machine and device.

    It has no names to hash and no stream to follow, and takes a hundredth of the time of `bits`.
    """
    words = (numbers + 1) * _signed(0x9E3779B97F4A7C15) + _signed(key)
    for shift, factor in MIXING:
        words ^= (words >> shift) & (2 ** (64 - shift) - 1)  # torch fills shifted words with their sign
        words *= _signed(factor)
    return words


def _signed(word: int) -> int:
    """Return an unsigned word as a signed one, which torch has."""
    return (word + 2**63) % 2**64 - 2**63


def bits_from(generator: torch.Generator, count: int, words: int) -> Bits:
    """Return `count` rows of random words from a torch generator, for experiments."""
    low, high = -(2**63), 2**63 - 1
    drawn = torch.randint(low, high, (count, words), generator=generator, device=generator.device)
    return drawn.cpu().numpy().view(np.uint64)


def rows_in_cache(words: int) -> int:
    """Return how many rows of `words` words to draw at a time: a mebibyte of bits, which fits the cache."""
    return max(1, 2**17 // words)


# Numbers from bits: (n, words) -> (n, count). Real numbers are made in float64, so that the dtype that a
# caller casts them to changes them by its own rounding only.


def words_for_normals(count: int) -> int:
    """Return the number of words for `count` normals: two from each word."""
    return -(-count // 2)


def normals(words: Bits) -> Tensor:
    """Return two standard normals from each word (Box-Muller on its two halves), in float64."""
    halves = torch.from_numpy(np.ascontiguousarray(words, dtype="<u8").view("<i4")).unflatten(-1, (-1, 2))
    radius, angle = halves[..., 0].to(torch.float64), halves[..., 1].to(torch.float64)
    for uniform in (radius, angle):
        uniform.mul_(2.0**-32).add_(0.5 + 2.0**-33)  # in (0, 1), exact
    radius, angle = radius.log_().mul_(-2).sqrt_(), angle.mul_(2 * math.pi)
    both = torch.empty(halves.shape, dtype=torch.float64)
    torch.mul(angle.cos(), radius, out=both[..., 0])
    torch.mul(angle.sin_(), radius, out=both[..., 1])
    return both.flatten(-2)


def uniforms(words: Bits) -> Tensor:
    """Return one number in [0, 1) from each word, with 53 random bits, in float64."""
    return torch.from_numpy((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def first_signs(words: Bits) -> Tensor:
    """Return one sign, -1 or 1, from each row: the lowest bit of its first word, in float64."""
    return torch.from_numpy(1.0 - 2.0 * (words[:, 0] & np.uint64(1)))


def words_for_signs(count: int) -> int:
    """Return the number of words for `count` signs: 64 from each word."""
    return -(-count // 64)


def signs(words: Bits, count: int) -> Tensor:
    """Return the first `count` signs, -1 or 1, as int8: the words' bits from the lowest up."""
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    flags = np.unpackbits(octets, axis=-1, count=count, bitorder="little")
    return torch.from_numpy(1 - 2 * flags.astype(np.int8))


def integers(words: Bits, below: int) -> Tensor:
    """Return one integer in 0 .. below - 1 from each word, uniform up to 2^-32, as int64."""
    if not 1 <= below <= 2**32:
        raise BadValue(f"below must be between 1 and 2^32, got {below}. Draw larger integers in two parts.")
    return torch.from_numpy(_products(words, np.uint64(below))[0].astype(np.int64))  # floor(word * below / 2^64)


def bases(
    names: Sequence[bytes], shape: tuple[int, ...], *, seed: int, purpose: str, dtype: torch.dtype
) -> tuple[Tensor, Bits]:
    """Return orthonormal rows (n, *shape) of each name, by Gram-Schmidt, and one word (n, 1) for other uses."""
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
    """Draw random signed permutations of 0 .. d-1 for each name, d the last of the shape, by Fisher-Yates.

    Place j takes 32 random bits: the lowest is the sign of what stands there in the end, the others choose the place
    k <= j that it is swapped with, from the last place to the first.

    Returns:
        The permutations (n, *shape), ~j for j with a minus, of int16 where d allows it, and one word (n, 1) of each
        name for other uses.
    """
    d, numbers = shape[-1], math.prod(shape)
    words = -(-numbers // 2)
    small = np.dtype(np.int16 if d < 2**15 else np.int32)
    drawn_of_all = np.empty((len(names), *shape), dtype=small)
    first = np.empty((len(names), 1), dtype=np.uint64)
    for rows in slices(len(names), rows_in_cache(2 * words)):
        drawn = bits(names[rows], 1 + words, seed=seed, purpose=purpose)
        first[rows] = drawn[:, :1]
        halves = drawn[:, 1:].astype("<u8").view("<u4")[:, :numbers].reshape(-1, d)
        order = _shuffled(halves, small)
        order ^= -(halves & 1).astype(small)
        drawn_of_all[rows] = order.reshape(-1, *shape)
    return torch.from_numpy(drawn_of_all), first


FEW_SHUFFLES = 24  # for which a loop over lists is faster than steps over arrays


def _shuffled(bits_of_places: NDArray[np.uint32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Shuffle 0 .. d-1 by the upper 31 of the bits (m, d) of each place."""
    count, d = bits_of_places.shape
    chosen = ((bits_of_places >> 1).astype(np.int64) * np.arange(1, d + 1)) >> 31  # one of 0 .. j for each place j
    if count < FEW_SHUFFLES:
        shuffled = []
        for swaps in chosen.tolist():
            order = list(range(d))
            for j in range(d - 1, 0, -1):
                k = swaps[j]
                order[j], order[k] = order[k], order[j]
            shuffled.append(order)
        return np.array(shuffled, dtype=dtype).reshape(count, d)
    together = np.repeat(np.arange(d, dtype=dtype)[:, None], count, axis=1)  # (d, m): a step swaps place j of all
    cells, arriving = together.reshape(-1), np.empty(count, dtype=dtype)
    swapped = np.ascontiguousarray(chosen.T)
    swapped *= count
    swapped += np.arange(count)
    for j in range(d - 1, 0, -1):
        row, there = together[j], swapped[j]
        cells.take(there, out=arriving, mode="clip")  # every index is valid: "clip" spares a copy
        cells[there] = row
        row[:] = arriving
    return np.ascontiguousarray(together.T)
