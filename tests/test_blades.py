"""Blades and multivectors of one grade: against permutations, antisymmetrised tensors, kingdon, and their own laws."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from kingdon import Algebra
from torch.testing import assert_close

from carving import OSC
from carving.clifford.blades import (
    Blades,
    Multivectors,
    contract,
    contract_sum,
    determinant,
    expand,
    factor,
    inner,
    inverse,
    norm,
    project,
    reject,
    reverse,
    total,
    wedge,
)
from carving.clifford.grades import fold, ranks, subsets, unfold

NEAR = dict(rtol=1e-11, atol=1e-11)


@pytest.fixture
def drawn(generator):
    """Blades or multivectors in float64, so many at once."""

    def draw(n, grade, *batch, simple=True):
        shape = (grade, n) if simple else (math.comb(n, grade),)
        numbers = torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)
        return Blades(numbers) if simple else Multivectors(numbers, n, grade)

    return draw


# Second ways


def sign_of(order):
    return (-1) ** sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])


def as_tensor(a):
    """The antisymmetric tensor n x ... x n of a single multivector."""
    full = np.zeros((a.n,) * a.grade)
    for number, subset in zip(a.coordinates.tolist(), combinations(range(a.n), a.grade), strict=True):
        for order in permutations(range(a.grade)):
            full[tuple(subset[i] for i in order)] = sign_of(order) * number
    return full


def antisymmetrised(tensor):
    orders = list(permutations(range(tensor.ndim)))
    return sum(sign_of(order) * tensor.transpose(order) for order in orders) / len(orders)


def gram_by_permutations(one, other):
    """The Leibniz formula."""
    return sum(
        sign_of(order) * math.prod(float(one[i] @ other[j]) for i, j in enumerate(order))
        for order in permutations(range(len(one)))
    )


def peer(algebra, a):
    """A single multivector in kingdon, whose keys are bits."""
    subset_keys = (sum(1 << i for i in subset) for subset in combinations(range(a.n), a.grade))
    return algebra.multivector(dict(zip(subset_keys, a.coordinates.tolist(), strict=True)))


def ours(theirs, n, grade):
    """kingdon's multivector, of which nothing may lie outside the grade, in our order."""
    found = dict(theirs.items())
    assert all(key.bit_count() == grade for key, number in found.items() if abs(number) > 1e-9)
    keys = (sum(1 << i for i in subset) for subset in combinations(range(n), grade))
    return torch.tensor([found.get(key, 0.0) for key in keys], dtype=torch.float64)


# Where coordinates stand


@pytest.mark.parametrize(("n", "r"), [(1, 0), (1, 1), (5, 0), (6, 3), (7, 7), (9, 2), (40, 39)])
def test_coordinates_stand_in_the_order_of_combinations(n, r):
    assert [tuple(row) for row in subsets(n, r).tolist()] == list(combinations(range(n), r))
    assert ranks(n, subsets(n, r)).tolist() == list(range(math.comb(n, r)))


@pytest.mark.parametrize(("n", "s", "t"), [(5, 1, 1), (6, 2, 1), (6, 1, 3), (7, 2, 2), (4, 0, 2), (4, 2, 0)])
def test_folding_is_the_transpose_of_unfolding(n, s, t, generator):
    x = torch.randn(math.comb(n, s + t), generator=generator, dtype=torch.float64)
    matrix = torch.randn(math.comb(n, s), math.comb(n, t), generator=generator, dtype=torch.float64)
    assert_close((unfold(x, n, s, t) * matrix).sum(), (x * fold(matrix, n, s, t)).sum(), **NEAR)


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5])
def test_the_coordinates_of_a_blade_are_its_minors(r, drawn):
    blade = drawn(6, r)
    minors = [np.linalg.det(blade.factors.numpy()[:, list(subset)]) for subset in combinations(range(6), r)]
    assert_close(expand(blade).coordinates, torch.tensor(minors, dtype=torch.float64), **NEAR)


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_vectors_come_back_from_coordinates_as_the_same_blade(r, drawn):
    blades = drawn(7, r, 3, 2)
    found = factor(expand(blades))
    assert found.factors.shape == blades.factors.shape
    assert_close(expand(found).coordinates, expand(blades).coordinates, **NEAR)


def test_sums_of_blades_have_the_sum_of_their_coordinates(drawn, generator, monkeypatch):
    for grade in (1, 2, 3, 4):
        blades, weights = drawn(7, grade, 2, 9), torch.randn(2, 9, generator=generator, dtype=torch.float64)
        expected = expand(blades).coordinates
        assert_close(total(blades).coordinates, expected.sum(1), **NEAR)
        assert_close(total(blades, weights).coordinates, (weights.unsqueeze(2) * expected).sum(1), **NEAR)
    monkeypatch.setattr("carving.clifford.blades.WORKSPACE", 1_000)  # in many chunks
    assert_close(total(blades, weights).coordinates, (weights.unsqueeze(2) * expected).sum(1), **NEAR)


# The products


@pytest.mark.parametrize(("s", "t"), [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 2), (0, 2), (2, 0)])
def test_a_wedge_is_the_antisymmetrised_outer_product(s, t, drawn):
    a, b = drawn(5, s, simple=False), drawn(5, t, simple=False)
    outer = np.multiply.outer(as_tensor(a), as_tensor(b))
    expected = antisymmetrised(outer) * math.comb(s + t, s)
    np.testing.assert_allclose(as_tensor(wedge(a, b)), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [4, 6, 8])
def test_coordinates_are_those_of_kingdon(n, drawn):
    algebra = Algebra(n)
    for s in range(1, min(n, 4)):
        for t in range(s, min(n, 5)):
            a, b = drawn(n, s, simple=False), drawn(n, t, simple=False)
            one, other = peer(algebra, a), peer(algebra, b)
            if s + t <= n:
                assert_close(wedge(a, b).coordinates, ours(one ^ other, n, s + t), **NEAR)
            assert_close(contract(a, b).coordinates, ours(one.lc(other), n, t - s), **NEAR)
            assert_close(reverse(b).coordinates, ours(~other, n, t), **NEAR)


@pytest.mark.parametrize("n", [4, 6, 8])
def test_inverses_projections_and_rejections_are_kingdons(n, drawn):
    algebra = Algebra(n)
    for grade in (1, 2, 3):
        blade, vector = drawn(n, grade), drawn(n, 1)
        theirs, v = peer(algebra, expand(blade)), peer(algebra, expand(vector))
        for inverted in (expand(inverse(blade)), inverse(expand(blade))):
            back = peer(algebra, inverted)
            assert_close(ours(theirs * back, n, 0), torch.ones(1, dtype=torch.float64), **NEAR)
        x = vector.factors[0]
        inside, outside = ours(v.lc(theirs) * back, n, 1), ours((v ^ theirs) * back, n, 1)
        assert_close(project(x, blade), inside, **NEAR)
        assert_close(project(x, expand(blade)), inside, **NEAR)
        assert_close(reject(x, blade), outside, **NEAR)


@pytest.mark.parametrize("s", [1, 2, 3, 4])
@pytest.mark.parametrize("r", [1, 2, 3, 4, 5])
def test_blades_contract_and_wedge_as_their_coordinates_do(s, r, drawn):
    a, b = drawn(9, s, 6), drawn(9, r, 6)
    if s <= r:
        for found in (contract(a, b), contract(a, expand(b)), contract(expand(a), b)):
            assert found.grade == r - s
            assert_close(expand(found).coordinates, contract(expand(a), expand(b)).coordinates, **NEAR)
    if s == r:
        assert_close(inner(a, b), inner(expand(a), expand(b)), **NEAR)
        assert_close(inner(a, expand(b)), inner(expand(a), b), **NEAR)
    for found in (wedge(a, b), wedge(expand(a), b), wedge(a, expand(b))):
        assert_close(expand(found).coordinates, wedge(expand(a), expand(b)).coordinates, **NEAR)


@pytest.mark.parametrize("r", [1, 2, 3, 4, 5])
def test_the_inner_product_of_blades_is_the_gram_determinant(r, drawn):
    a, b = drawn(6, r), drawn(6, r)
    expected = gram_by_permutations(a.factors, b.factors)
    assert inner(a, b).item() == pytest.approx(expected, rel=1e-11)
    assert determinant(a.factors @ b.factors.mT).item() == pytest.approx(expected, rel=1e-11)
    assert norm(a).item() == pytest.approx(math.sqrt(gram_by_permutations(a.factors, a.factors)), rel=1e-11)
    assert norm(expand(a)).item() == pytest.approx(norm(a).item(), rel=1e-11)


def test_a_vector_wedged_twice_dies_and_an_exchange_turns_the_sign(drawn):
    a, b, c = drawn(6, 1, 3).factors.squeeze(-2)
    assert_close(expand(wedge(a, b, a)).coordinates, torch.zeros(20, dtype=torch.float64), rtol=0, atol=1e-14)
    assert_close(expand(wedge(b, a, c)).coordinates, -expand(wedge(a, b, c)).coordinates, **NEAR)
    assert_close(norm(wedge(a, b, a)), torch.zeros((), dtype=torch.float64), rtol=0, atol=1e-6)


def test_contracting_two_after_each_other_is_contracting_their_wedge(drawn):
    a, b, c = drawn(8, 1), drawn(8, 2), drawn(8, 5)
    expected = expand(contract(wedge(a, b), c)).coordinates
    assert_close(expand(contract(a, contract(b, c))).coordinates, expected, **NEAR)


def test_contraction_is_the_transpose_of_the_wedge(drawn):
    for s, t in ((1, 1), (2, 1), (2, 3), (3, 2)):
        a, b, c = drawn(7, s, simple=False), drawn(7, t, simple=False), drawn(7, s + t, simple=False)
        assert_close(inner(wedge(a, b), c), inner(b, contract(reverse(a), c)), **NEAR)


def test_projection_and_rejection_are_those_of_least_squares(drawn):
    vectors, blades = drawn(8, 1, 5).factors.squeeze(-2), drawn(8, 3, 5)
    for vector, matrix, inside, outside in zip(
        vectors, blades.factors, project(vectors, blades), reject(vectors, blades), strict=True
    ):
        fitted = matrix.T.numpy() @ np.linalg.lstsq(matrix.T.numpy(), vector.numpy(), rcond=None)[0]
        np.testing.assert_allclose(inside.numpy(), fitted, atol=1e-12)
        np.testing.assert_allclose(outside.numpy(), vector.numpy() - fitted, atol=1e-12)
    assert_close(project(project(vectors, blades), blades), project(vectors, blades), **NEAR)
    outside = torch.linalg.vector_norm(reject(vectors, blades), dim=-1)
    assert_close(norm(wedge(vectors, blades)), outside * norm(blades), **NEAR)  # base times height


def test_blades_are_projected_and_rejected_vector_by_vector_and_in_coordinates_alike(drawn):
    small, large = drawn(8, 2, 4), drawn(8, 3, 4)
    for act in (project, reject):
        each = Blades(torch.stack([act(v, large) for v in small.factors.unbind(-2)], dim=-2))
        assert_close(act(small, large).factors, each.factors, **NEAR)
        assert_close(expand(each).coordinates, act(expand(small), large).coordinates, **NEAR)
        assert_close(expand(each).coordinates, act(expand(small), expand(large)).coordinates, **NEAR)


def test_a_blade_times_its_inverse_is_one(drawn):
    for grade in (1, 2, 3, 4):
        blades = drawn(7, grade, 3)
        for inverted in (inverse(blades), inverse(expand(blades))):
            product = contract(inverted, blades).coordinates
            assert_close(product, torch.ones(3, 1, dtype=torch.float64), **NEAR)
    vector = drawn(7, 1).factors[0]
    assert_close(inverse(vector) @ vector, torch.ones((), dtype=torch.float64), **NEAR)


# The paper: appendix C


def contracted_in_turn(queries, element):
    """u_r onto ( ... (u_1 onto B) ... )."""
    for query in queries:
        element = contract(query, element)
    return expand(element).coordinates


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_the_iterated_contraction_is_the_sum_over_permutations(r, drawn):
    u, v = drawn(7, r).factors, drawn(7, r + 1)
    expected = torch.zeros(7, dtype=torch.float64)
    for order in permutations(range(r + 1)):
        weight = math.prod(float(u[place] @ v.factors[order[place]]) for place in range(r))
        expected += sign_of(order) * weight * v.factors[order[r]]
    assert_close(contracted_in_turn(u, v), expected, **NEAR)
    assert_close(contracted_in_turn(u, expand(v)), expected, **NEAR)


def coefficient(u, v, survivor):
    """d_j or c_jk: the permutations that leave this one of the r + 1 vectors over."""
    r, found = len(u), 0.0
    for order in permutations(range(r + 1)):
        if order[r] == survivor:
            found += sign_of(order) * math.prod(float(u[place] @ v[order[place]]) for place in range(r))
    return found


@pytest.mark.parametrize("r", [1, 2, 3])
def test_recursive_unbinding_has_the_theorems_coefficients(r, drawn):
    """Of any roles and fillers, neither orthogonal nor normal: every d_j and c_jk."""
    terms, u = drawn(6, r + 1, 5), drawn(6, r).factors  # (5, r + 1, n): r roles, then the filler
    expected = torch.zeros(6, dtype=torch.float64)
    for roles_and_filler in terms.factors:
        for survivor in range(r + 1):
            expected += coefficient(u, roles_and_filler, survivor) * roles_and_filler[survivor]
    assert_close(contracted_in_turn(u, total(terms)), expected, **NEAR)
    assert_close(contract_sum(reverse(Blades(u)), terms), expected, **NEAR)


def test_rejection_by_the_forbidden_blade_is_the_carving_operator():
    osc = OSC(20, 2, carved=7, dtype=torch.float64)  # of the forbidden directions, which its contexts then hold
    contexts, fillers = osc.contexts([("a",), ("b", "c")]), osc.fillers(["x", "y"])
    identity = torch.eye(20, dtype=torch.float64)
    for basis, filler in zip(contexts.basis, fillers, strict=True):
        carved = filler @ (identity - basis.mT @ basis)
        assert_close(reject(filler, Blades(basis)), carved, **NEAR)
        skewed = Blades(torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) @ basis)
        assert_close(reject(filler, skewed), carved, rtol=1e-9, atol=1e-9)  # the blade is the subspace, not its basis
    kept = OSC(20, 2, k1=4, dtype=torch.float64)
    contexts = kept.contexts([("a",)])
    whole = torch.linalg.qr(contexts.basis[0].mT, mode="complete").Q
    carved = torch.nn.functional.normalize(reject(fillers[0], Blades(whole[:, 4:].mT)), dim=-1)
    assert_close(torch.outer(*carved), kept.trace(contexts, fillers[:1]) * contexts.amplitudes, **NEAR)


# Many at once, large spaces, gradients, devices


def test_leading_dimensions_broadcast(drawn):
    one, many = drawn(6, 2, 3, 1), drawn(6, 3, 1, 4)
    for a in (one, expand(one)):
        for b in (many, expand(many)):
            for act in (wedge, contract):
                found = expand(act(a, b)).coordinates
                assert found.shape[:2] == (3, 4)
                single = expand(act(Blades(one.factors[2, 0]), Blades(many.factors[0, 1]))).coordinates
                assert_close(found[2, 1], single, **NEAR)
    assert contract(one, drawn(6, 5, simple=False)).coordinates.shape == (3, 1, 20)
    assert inner(drawn(6, 2, 5), drawn(6, 2, simple=False)).shape == (5,)


def test_a_small_workspace_changes_nothing(drawn, monkeypatch):
    a, b, c = drawn(6, 1, 3, 5), drawn(6, 3, 5, simple=False), drawn(6, 2, 7)
    expected = wedge(a, b).coordinates, contract(a, b).coordinates, contract_sum(a, c)
    monkeypatch.setattr("carving.clifford.blades.WORKSPACE", 700)
    for found, wanted in zip((wedge(a, b).coordinates, contract(a, b).coordinates), expected, strict=False):
        assert_close(found, wanted, **NEAR)
    assert_close(contract_sum(a, c), expected[2], **NEAR)


@pytest.mark.parametrize(("n", "grade"), [(400, 2), (100, 3), (32, 4)])
def test_large_grades_in_coordinates(n, grade, generator):
    blades = Blades(torch.randn(3, grade, n, generator=generator) / n**0.5)
    found = expand(blades)
    assert found.coordinates.shape == (3, math.comb(n, grade))
    assert_close(norm(found), norm(blades), rtol=1e-4, atol=1e-5)
    vector = torch.randn(n, generator=generator)
    assert_close(contract(vector, found).coordinates, expand(contract(vector, blades)).coordinates, rtol=0, atol=1e-4)


def test_blades_of_any_grade_need_no_coordinates(drawn):
    n = 400
    a, b, vector = drawn(n, 20), drawn(n, 150), drawn(n, 1).factors[0]
    rest = contract(a, Blades(b.factors / n**0.5))
    assert rest.grade == 130
    # What is left lies in b and is orthogonal to a.
    directions = torch.nn.functional.normalize(rest.factors, dim=-1)
    assert_close(reject(directions, b), torch.zeros(130, n, dtype=torch.float64), rtol=0, atol=1e-9)
    assert_close(directions @ a.factors.mT, torch.zeros(130, 20, dtype=torch.float64), rtol=0, atol=1e-9)
    outside = reject(vector, b)
    assert float((b.factors @ outside).abs().max()) < 1e-9
    unit = Blades(torch.linalg.qr(b.factors.mT).Q.mT)
    assert norm(unit).item() == pytest.approx(1, abs=1e-9)
    assert norm(wedge(unit, vector)).item() == pytest.approx(outside.norm().item(), rel=1e-9)


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the largest tensor of numbers, and of places, that an operation has in its hands."""

    numbers = places = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                size = tensor.untyped_storage().nbytes() // tensor.element_size()
                if tensor.is_floating_point():
                    self.numbers = max(self.numbers, size)
                else:
                    self.places = max(self.places, size)
        return made


@pytest.mark.parametrize(("n", "grade"), [(64, 2), (256, 2), (32, 3), (100, 3), (24, 4)])
def test_nothing_grows_faster_than_the_coordinates_of_the_grade(n, grade, generator):
    """An unfolded multivector has little more than `grade` times its coordinates; nothing is larger."""
    blade, vector = Blades(torch.randn(grade, n, generator=generator)), torch.randn(n, generator=generator)
    with Largest() as watch:
        whole = expand(blade)
        contract(vector, whole)
        total(Blades(blade.factors.unsqueeze(0)))
        inner(blade, whole)
    wedging = math.comb(n, (grade + 1) // 2) * math.comb(n, grade // 2)  # the matrix that `total` folds
    assert watch.numbers <= max(n * math.comb(n, grade - 1), wedging) <= 8 * math.comb(n, grade)
    assert 0 < watch.places <= 2 * math.comb(grade, grade // 2) * math.comb(n, grade)


def test_gradients_reach_both_sides(drawn):
    a, b = drawn(5, 2).factors.requires_grad_(), drawn(5, 3).factors.requires_grad_()
    acts = [
        lambda a, b: wedge(Blades(a), Blades(b)).factors,
        lambda a, b: wedge(expand(Blades(a)), Blades(b)).coordinates,
        lambda a, b: expand(contract(Blades(a), Blades(b))).coordinates,
        lambda a, b: contract(expand(Blades(a)), expand(Blades(b))).coordinates,
        lambda a, b: contract(Blades(a), expand(Blades(b))).coordinates,
        lambda a, b: inner(Blades(a), Blades(b[:2])) + norm(Blades(b)),
        lambda a, b: expand(reject(Blades(a), Blades(b))).coordinates,
        lambda a, b: project(a, Blades(b)),
        lambda a, b: expand(inverse(Blades(b))).coordinates,
        lambda a, b: total(Blades(torch.stack([b, 2 * b + 1]))).coordinates,
        lambda a, b: contract_sum(Blades(a), Blades(b.unsqueeze(0))),
    ]
    for act in acts:
        assert torch.autograd.gradcheck(act, (a, b))


def test_batches_have_gradients_too(drawn):
    a, b = (
        drawn(5, 1, 40).factors.squeeze(-2).requires_grad_(),
        drawn(5, 3, 40, simple=False).coordinates.requires_grad_(),
    )
    assert torch.autograd.gradcheck(lambda a, b: wedge(a, Multivectors(b, 5, 3)).coordinates, (a, b))
    assert torch.autograd.gradcheck(lambda a, b: contract(a, Multivectors(b, 5, 3)).coordinates, (a, b))


def test_tables_made_without_gradients_serve_those_with(drawn):
    with torch.inference_mode():  # sizes that no other test has
        contract(drawn(11, 1, 2), expand(drawn(11, 3, 2)))
    vectors = drawn(11, 3, 2).factors.requires_grad_()
    contract(drawn(11, 1, 2), expand(Blades(vectors))).coordinates.sum().backward()
    assert vectors.grad.abs().sum() > 0


def test_everything_stays_on_its_device_and_in_its_dtype():
    """On torch's device without numbers, which refuses to mix with any other."""
    a, b = (Blades(torch.empty(4, grade, 9, device="meta", dtype=torch.float32)) for grade in (2, 3))
    found = [
        expand(b).coordinates,
        expand(wedge(a, b)).coordinates,
        contract(expand(a), expand(b)).coordinates,
        contract(a, expand(b)).coordinates,
        contract(a, b).factors,
        total(b).coordinates,
        inner(a, a),
    ]
    assert all(tensor.device.type == "meta" and tensor.dtype == torch.float32 for tensor in found)


# Bad input


def test_vectors_may_have_very_different_lengths():
    far = Blades(torch.eye(6)[:2] * torch.tensor([[1e8], [1.0]]))
    vector = torch.arange(6.0)
    assert_close(project(vector, far), torch.tensor([0.0, 1, 0, 0, 0, 0]))
    small = Blades(1e-18 * torch.eye(4)[:2])
    assert_close(inverse(small).factors.abs().sum(-1), torch.full((2,), 1e18), rtol=1e-5, atol=0)


TWO = torch.eye(4)[:2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wedge(torch.ones(4), torch.ones(5)), ValueError, r"the same space, got R\^4 and R\^5. Append zeros"),
        (lambda: contract(torch.ones(3), Blades(TWO)), ValueError, r"the same space, got R\^3 and R\^4"),
        (lambda: inner(Blades(TWO), Blades(torch.eye(5)[:2])), ValueError, "the same space"),
        (lambda: project(torch.ones(3), Blades(TWO)), ValueError, "the same space"),
        (lambda: reject(Blades(torch.eye(3)), Blades(TWO)), ValueError, "the same space"),
        (lambda: contract_sum(Blades(torch.eye(3)[:1]), Blades(TWO.unsqueeze(0))), ValueError, "the same space"),
        (lambda: wedge(*torch.eye(3), torch.ones(3)), ValueError, r"A wedge of grade 4 in R\^3 is always zero"),
        (
            lambda: Blades(torch.ones(4, 3)),
            ValueError,
            r"must have 1 to 3 vectors, got 4. More vectors than dimensions",
        ),
        (lambda: Multivectors(torch.ones(4), 3, 4), ValueError, r"A grade of R\^3 must be between 0 and 3, got 4"),
        (lambda: Multivectors(torch.ones(4), 4, 2), ValueError, r"of shape \(\*, 6\) for .* got \(4,\)"),
        (lambda: Blades(torch.ones(4)), ValueError, r"a real tensor of shape \(\*, r, n\), got \(4,\). Use unsqueeze"),
        (lambda: Blades(torch.ones(2, 4, dtype=torch.int64)), ValueError, "must be a real tensor"),
        (
            lambda: contract(Blades(TWO), torch.ones(4)),
            ValueError,
            "grade 2 onto grade 1 is always zero. Pass the smaller",
        ),
        (lambda: inner(Blades(TWO), torch.ones(4)), ValueError, "always orthogonal, got grades 2 and 1"),
        (lambda: inverse(Blades(TWO[[0, 0]])), ValueError, "zero blade has no inverse .* vector 1 of its 2"),
        (lambda: inverse(torch.zeros(4)), ValueError, "zero blade has no inverse"),
        (lambda: inverse(Multivectors(torch.zeros(6), 4, 2)), ValueError, "The zero blade has no factors"),
        (lambda: reject(torch.ones(4), Blades(torch.stack([TWO, 0 * TWO]))), ValueError, "vector 0 of its 2 is zero"),
        (lambda: project(torch.ones(4), Blades(TWO[[1, 1]])), ValueError, "depends linearly on the vectors before it"),
        (
            lambda: inverse(Multivectors(torch.tensor([1.0, 0, 0, 0, 0, 1]), 4, 2)),  # e12 + e34
            ValueError,
            "a sum of blades, not to a single blade",
        ),
        (lambda: factor(Multivectors(torch.ones(1), 4, 0)), ValueError, "A scalar has no factors"),
        (
            lambda: project(expand(Blades(torch.eye(4)[:3])), Blades(TWO)),
            ValueError,
            "An element of grade 3 cannot lie in a blade of grade 2",
        ),
        (lambda: expand(Blades(torch.ones(50, 100))), ValueError, "coordinates .* take .* Keep them as Blades"),
        (lambda: total(Blades(TWO)), ValueError, r"blades must have shape \(\*, N, r, n\), got \(2, 4\)"),
        (
            lambda: contract_sum(Blades(TWO), Blades(TWO.unsqueeze(0))),
            ValueError,
            r"shape \(N, 3, 4\) for .* got \(1, 2, 4\)",
        ),
        (lambda: wedge(), ValueError, "at least one factor, got none"),
        (lambda: wedge([1.0, 2.0]), TypeError, "or Multivectors, got list"),
        (lambda: wedge(torch.tensor(1.0)), ValueError, r"vectors must have shape \(\*, n\)"),
        (
            lambda: wedge(torch.ones(3), torch.ones(3).double()),
            TypeError,
            "got torch.float32 and torch.float64. Use",
        ),
        (lambda: inner(Blades(TWO), Blades(TWO.double())), TypeError, "the same dtype"),
        (
            lambda: wedge(torch.ones(2, 4), torch.ones(3, 4)),
            ValueError,
            r"broadcast, got \(2,\) and \(3,\). Use unsqueeze",
        ),
        (lambda: wedge(torch.arange(4), torch.arange(4)), ValueError, "real tensor .* of torch.int64"),
        (lambda: Multivectors(torch.arange(6), 4, 2), ValueError, "a real tensor .* of torch.int64"),
        (lambda: reverse([1.0, 2.0]), TypeError, "or Multivectors, got list"),
        (lambda: inverse(Multivectors(torch.zeros(3, 1), 4, 0)), ValueError, "Zero has no inverse"),
        (lambda: project(Blades(torch.eye(4)[:3]), Blades(TWO)), ValueError, "An element of grade 3 cannot lie"),
        (lambda: reject(Blades(TWO), Blades(torch.eye(4)[:3])), ValueError, "is orthogonal to a blade of grade 3"),
        (lambda: reject(torch.ones(4), Blades(torch.eye(4))), ValueError, "is orthogonal to a blade of grade 4"),
        (
            lambda: total(Blades(torch.ones(5, 2, 4)), torch.ones(4)),
            ValueError,
            r"weights must have shape \(5,\), one for each blade, got",
        ),
        (lambda: total(Blades(torch.ones(0, 1, 4))), ValueError, "blades must not be empty"),
        (lambda: total(Blades(torch.ones(0, 2, 4))), ValueError, "blades must not be empty"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call()
