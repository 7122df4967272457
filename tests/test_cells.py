"""Cells of few bits: against slow and independent ways to the same numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from torch.testing import assert_close

from carving.errors import BadValue
from carving.quantization import BITS, REACH, Cells, distortion, edges, levels, packed, truncated, unpacked

# What quantizing is known to cost (Max 1960): the distortion of the best cells of equal or unequal steps.
LLOYD_MAX = {1: 0.3634, 2: 0.1175, 3: 0.03454, 4: 0.009497}


@pytest.mark.parametrize("bits", BITS)
def test_levels_and_distortion_are_those_of_numerical_integration(bits):
    ends, lost = edges(bits).tolist(), 0.0
    some = [*range(0, 2**bits, max(1, 2**bits // 8)), 2**bits - 1]
    for cell in some:
        chance = integrate.quad(stats.norm.pdf, ends[cell], ends[cell + 1])[0]
        mean = integrate.quad(lambda x: x * stats.norm.pdf(x), ends[cell], ends[cell + 1])[0] / chance
        assert float(levels(bits)[cell]) == pytest.approx(mean, rel=1e-6)
    for cell in range(2**bits):
        level = float(levels(bits)[cell])
        lost += integrate.quad(lambda x, level=level: (x - level) ** 2 * stats.norm.pdf(x), ends[cell], ends[cell + 1])[
            0
        ]
    assert distortion(bits) == pytest.approx(lost, rel=1e-4)


@pytest.mark.parametrize("bits", LLOYD_MAX)
def test_no_cells_lose_less_than_the_best_and_ours_lose_hardly_more(bits):
    assert LLOYD_MAX[bits] * 0.999 <= distortion(bits) <= LLOYD_MAX[bits] * (1.2 if bits == 4 else 1.07)


@pytest.mark.parametrize("bits", BITS)
def test_cells_are_equal_steps_open_at_the_ends(bits):
    ends = edges(bits)
    assert len(ends) == 2**bits + 1 and ends[0] == -math.inf and ends[-1] == math.inf
    if bits > 1:
        assert_close(ends[1:-1].diff(), torch.full((2**bits - 2,), 2 * REACH[bits] / 2**bits, dtype=torch.float64))
    assert_close(ends[1:-1], -ends[1:-1].flip(0))


@pytest.mark.parametrize("bits", BITS)
def test_numbers_lie_in_their_cells_and_nowhere_else(bits, generator):
    numbers = torch.randn(50, 60, generator=generator) * 3
    cells = Cells.of(numbers, bits)
    ends = edges(bits) * cells.deviation
    slow = [sum(x >= edge for edge in ends[1:-1].tolist()) for x in numbers.flatten().tolist()]
    assert cells.codes.flatten().tolist() == slow
    assert cells.outside(numbers, 0.0) == 0
    moved = numbers.clone()
    moved[0, 0] = -numbers[0, 0]
    assert cells.outside(moved, 1e-4) == 1


@pytest.mark.parametrize("bits", BITS)
def test_what_cells_keep_is_one_less_the_distortion_and_their_numbers_hold_all_of_the_memory(bits, generator):
    numbers = torch.randn(200_000, generator=generator).double() * 0.7
    cells = Cells.of(numbers, bits)
    # It is the mean of x level, for x of unit variance: five of its standard errors.
    lost = numbers / cells.deviation * (numbers / cells.deviation - levels(bits)[cells.codes.long()])
    error = 5 * float(lost.std()) / math.sqrt(len(numbers))
    assert cells.kept == pytest.approx(1 - distortion(bits), abs=error)
    made = cells.numbers(torch.float64)
    assert float(made @ numbers) == pytest.approx(float(numbers @ numbers), rel=1e-6)
    assert float(made @ made) * cells.kept == pytest.approx(float(numbers @ numbers), rel=0.02)


@given(
    st.floats(-30, 30),
    st.floats(1e-3, 20),
    st.floats(0.01, 30),
    st.sampled_from(["both", "low", "high"]),
)
def test_truncated_moments_are_those_of_scipy(low, width, scale, ends):
    a, b = (low, low + width) if ends == "both" else (low, math.inf) if ends == "high" else (-math.inf, low)
    if min(abs(a), abs(b)) / scale > 25 or (b - a) / scale < 1e-3:
        return  # where scipy itself loses its digits
    mean, variance = truncated(*(torch.tensor([end], dtype=torch.float64) for end in (a, b)), scale**2)
    known = stats.truncnorm(a / scale, b / scale, scale=scale)
    assert float(mean) == pytest.approx(known.mean(), rel=1e-5, abs=1e-7 * scale)
    assert float(variance) == pytest.approx(max(known.var(), 1e-9 * scale**2), rel=1e-3, abs=1e-8 * scale**2)


def test_numbers_far_from_their_cell_go_to_its_edge():
    low, high = (torch.tensor([x, -x - 1], dtype=torch.float64) for x in (1e4, 1e4 + 1))
    low, high = torch.tensor([1e4, -1e4 - 1]).double(), torch.tensor([1e4 + 1, -1e4]).double()
    mean, variance = truncated(low, high, 1.0)
    assert_close(mean, torch.tensor([1e4, -1e4]).double(), rtol=1e-6, atol=0)
    assert bool((variance > 0).all() and (variance < 1e-6).all())


def test_what_cells_make_of_means_is_chunked_and_alike(monkeypatch, generator):
    numbers, means = torch.randn(1000, generator=generator), torch.randn(1000, generator=generator)
    cells = Cells.of(numbers, 3)
    whole = cells.within(means, 0.3)
    monkeypatch.setattr("carving.quantization.CHUNK", 96)
    parts, again = cells.within(means, 0.3), Cells.of(numbers, 3)
    assert_close(parts.shifts, whole.shifts)
    assert parts.variance == pytest.approx(whole.variance, rel=1e-12)
    assert torch.equal(again.codes, cells.codes) and torch.equal(unpacked(packed(cells.codes, 3), 3, 1000), cells.codes)


@given(st.sampled_from(BITS), st.lists(st.integers(0, 255), max_size=70))
def test_packed_codes_come_back_and_take_their_bits(bits, numbers):
    codes = torch.tensor([number % 2**bits for number in numbers], dtype=torch.uint8)
    data = packed(codes, bits)
    assert len(data) == math.ceil(len(codes) * bits / 8)
    text = "".join(f"{code:0{bits}b}" for code in codes.tolist())  # the slow way
    text += "0" * (-len(text) % 8)
    assert data.tolist() == [int(text[at : at + 8], 2) for at in range(0, len(text), 8)]
    assert torch.equal(unpacked(data, bits, len(codes)), codes)


def test_bytes_that_are_not_cells_are_refused():
    with pytest.raises(BadValue, match="need 2 bytes, got 3"):
        unpacked(torch.zeros(3, dtype=torch.uint8), bits=2, count=5)
    with pytest.raises(BadValue, match="beyond the last cell"):
        unpacked(torch.tensor([1], dtype=torch.uint8), bits=2, count=3)


def test_numbers_without_cells_are_refused():
    for bits in (0, 5, 16):
        with pytest.raises(BadValue, match="bits must be"):
            Cells.of(torch.ones(3), bits)
    with pytest.raises(BadValue, match="finite"):
        Cells.of(torch.tensor([1.0, np.nan]), 2)
