"""Resonators: each way against a slow one of its own, and success at the published capacity."""

import pytest
import torch
from torch.testing import assert_close

from carving import VSA
from carving.lab.measures.factors import CAPACITY
from carving.structures import factorize
from carving.structures.resonator import SegmentEstimates, least_squares


def problem(vsa, factors, size, count, generator):
    """Codebooks, which of their vectors are bound, and what they are bound to."""
    books = [vsa.random(size, generator) for _ in range(factors)]
    which = torch.randint(size, (count, factors), generator=generator)
    return books, which, vsa.multibind(torch.stack([book[which[:, i]] for i, book in enumerate(books)], 1))


@pytest.mark.parametrize(
    ("way", "factors", "d", "size"), [CAPACITY[2], CAPACITY[0], pytest.param(*CAPACITY[8], marks=pytest.mark.slow)]
)
def test_99_percent_are_found_at_the_published_capacity(way, factors, d, size, generator):
    """Of 60 products 0.6 should be missed; six are by chance less than once in 100,000 times."""
    vsa = VSA("MAP-I", d)
    books, which, bound = problem(vsa, factors, size, 60, generator)
    found = factorize(vsa, bound, books, rounds=round(size**factors / 1000), activation=way).found
    assert found.ne(which).any(1).sum() < 6


def test_few_are_found_far_above_it(generator):
    vsa = VSA("MAP-I", 1500)
    books, which, bound = problem(vsa, 3, 200, 30, generator)
    found, converged, _ = factorize(vsa, bound, books, rounds=100)
    assert found.eq(which).all(1).sum() < 15
    assert torch.equal(found[converged], which[converged])


def test_the_sparse_way_finds_where_the_linear_one_goes_around_in_circles(generator):
    vsa = VSA("MAP-I", 256)
    books, which, bound = problem(vsa, 3, 30, 40, generator)
    right = {
        way: factorize(vsa, bound, books, rounds=300, activation=way, generator=generator).found.eq(which).all(1).sum()
        for way in ("linear", "sparse")
    }
    assert right["sparse"] >= 38 and right["linear"] < right["sparse"]


@pytest.mark.parametrize(("factors", "size"), [(2, 300), (3, 40)])
def test_segments_are_found(factors, size, generator):
    """At 32 segments of 32 places; as many rounds as it takes to draw the right ones ten times over."""
    for vsa in (VSA("BSDC-SEG", 1024), VSA("CGR", 1024, r=32, bundling="mode", accounting="coordinates")):
        books, which, bound = problem(vsa, factors, size, 20, generator)
        found, converged, _ = factorize(vsa, bound, books, rounds=10 * size ** (factors - 1), generator=generator)
        assert converged.all() and torch.equal(found, which)


def test_least_squares_are_those_of_the_pseudoinverse(generator):
    vsa = VSA("MAP-I", 64)
    book, x = vsa.random(9, generator), vsa.random(5, generator)
    weights = least_squares(vsa, book, None, None)(vsa.similarity(x, book))
    assert_close(weights, x @ torch.linalg.pinv(book), rtol=1e-4, atol=1e-5)


def test_likelihoods_of_segments_are_the_least_over_segments(generator):
    """By plain loops over segments, places and candidates."""
    vsa = VSA("BSDC-SEG", 64)  # 8 segments of 8 places
    books, _, bound = problem(vsa, 3, 5, 2, generator)
    ways = SegmentEstimates(vsa, books, None, generator)
    estimates = [ways.first(place, 2) for place in range(3)]
    fast = ways.alike(bound, estimates, 1)
    for row in range(2):
        for candidate in range(5):
            each = []
            for segment in range(8):
                rest = (int(bound[row, segment]) - int(books[1][candidate, segment])) % 8
                each.append(
                    sum(
                        float(estimates[0][row, segment, one] * estimates[2][row, segment, (rest - one) % 8])
                        for one in range(8)
                    )
                )
            assert abs(min(each) - float(fast[row, candidate])) < 1e-5


def test_bad_input_is_refused(generator):
    vsa, codes = VSA("MAP-I", 64), VSA("BSDC-SEG", 64)
    books, _, bound = problem(vsa, 2, 3, 2, generator)
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator"):
        factorize(vsa, bound, books, activation="sparse")
    with pytest.raises(ValueError, match="activation must be one of"):
        factorize(vsa, bound, books, activation="loud")
    for sharp, error in (("a", TypeError), (-1, ValueError), (float("nan"), ValueError)):
        with pytest.raises(error, match="sharpness must be a"):
            factorize(vsa, bound, books, activation="attention", sharpness=sharp)
    with pytest.raises(TypeError, match="codebooks must be a list of tensors, got NoneType"):
        factorize(vsa, bound, None)
    books, _, bound = problem(codes, 2, 3, 2, generator)
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator"):
        factorize(codes, bound, books)
    with pytest.raises(ValueError, match="activation must be 'sparse'"):
        factorize(codes, bound, books, activation="linear", generator=generator)
    with pytest.raises(ValueError, match="rounds"):
        factorize(codes, bound, books, rounds=0, generator=generator)
