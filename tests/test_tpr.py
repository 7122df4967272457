"""The tensor product representation: exactness, its verbs on plain tensors, the paper's dimensions, what it refuses."""

import pytest
import torch
from torch.testing import assert_close

from carving import TPR


def test_a_tpr_of_orthonormal_roles_is_exact(generator):
    tpr = TPR(12, depth=2)
    basis = torch.linalg.qr(torch.randn(12, 12, generator=generator)).Q
    roles = torch.stack([torch.stack((basis[i], basis[j])) for i in range(12) for j in (0, 5, 11)])
    fillers = tpr.random(36, generator)
    memory = tpr.bundle(tpr.bind_path(fillers, roles), modes=3)
    assert_close(tpr.unbind_path(memory.unsqueeze(0), roles), fillers, rtol=0, atol=1e-6)
    assert_close(tpr.unbind_path(memory.expand(36, -1, -1, -1), roles), fillers, rtol=0, atol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_tpr_is_the_outer_product(depth):
    tpr = TPR(5, depth=depth, dtype=torch.float64)
    paths = [("a", "b", "c", "d")[:depth], ("a", "e", "f", "g")[-depth:]]
    contexts, fillers = tpr.contexts(paths), tpr.fillers(["x", "y"])
    letters = "bcde"[:depth]
    formula = f"na,{','.join('n' + letter for letter in letters)}->a{letters}"
    expected = torch.einsum(formula, fillers, *contexts.roles.unbind(1))
    assert_close(tpr.trace(contexts, fillers), expected)
    assert_close(tpr.bundle(tpr.bind_path(fillers, contexts.roles), modes=depth + 1), expected)
    undone = tpr.unbind_path(expected.unsqueeze(0), contexts.roles)
    assert_close(tpr.read(expected, contexts), undone)


@pytest.mark.parametrize(("pairs", "least"), [(50, 44), (100, 61), (500, 137), (1_000, 197)])
def test_a_tpr_needs_the_papers_dimensions(pairs, least, recalled):
    """99 % from the paper's dimension on, give or take 3, with ten seeds."""
    assert recalled(TPR(least + 3), pairs, 10)[0] >= 0.99
    assert recalled(TPR(least - 4), pairs, 10)[0] < 0.99


def test_atoms_stay_as_they_are():
    tpr = TPR(8)
    assert tpr.fillers(["dog"])[0, :3].tolist() == pytest.approx([0.4538063, -0.1570227, 0.3472852], abs=1e-6)
    assert tpr.contexts([("subject",)]).roles[0, 0, :3].tolist() == pytest.approx(
        [-0.5690441, 0.4745511, 0.1212352], abs=1e-6
    )


# The verbs


def test_leading_dimensions_broadcast_and_further_ones_share_the_role(generator):
    tpr = TPR(6, dtype=torch.float64)
    fillers, roles = tpr.random(12, generator).view(3, 4, 6), tpr.random(12, generator).view(3, 4, 6)
    cases = [
        (fillers, roles, "abi,abj->abij"),
        (fillers, roles[:, 0], "abi,aj->abij"),
        (fillers, roles[0, 0], "abi,j->abij"),
        (fillers[:1], roles, "zbi,abj->abij"),
        (fillers[:, :1], roles[:1], "azi,zbj->abij"),
    ]
    for x, role, formula in cases:
        bound = tpr.bind(x, role)
        assert_close(bound, torch.einsum(formula, x, role))
        given, wanted = formula.split("->")
        contracted = torch.einsum(f"{wanted},{given.split(',')[1].replace('z', wanted[0])}->{wanted[:-1]}", bound, role)
        assert_close(tpr.unbind(bound, role), contracted)


def test_unbinding_a_unit_role_gives_the_filler_back(generator):
    tpr = TPR(16, dtype=torch.float64)
    fillers, roles = tpr.random(5, generator), tpr.random(5, generator)
    assert_close(tpr.unbind(tpr.bind(fillers, roles), roles), fillers)


def test_unbinding_is_the_transpose_of_binding(generator):
    tpr = TPR(7, dtype=torch.float64)
    filler, role = tpr.random(2, generator)
    memory = torch.randn(7, 7, generator=generator, dtype=torch.float64)
    assert_close((tpr.unbind(memory, role) * filler).sum(), (memory * tpr.bind(filler, role)).sum())


def test_a_bundle_is_the_sum_over_the_set(generator):
    tpr = TPR(6)
    fillers = tpr.random(24, generator).view(2, 3, 4, 6)
    assert_close(tpr.bundle(fillers), fillers.sum(2))
    assert_close(tpr.bundle(fillers[0, 0]), fillers[0, 0].sum(0))
    assert tpr.bundle(tpr.random(6, generator)).shape == (6,)  # as many fillers as numbers in each
    bound = tpr.bind(fillers, fillers)  # (2, 3, 4, 6, 6)
    assert_close(tpr.bundle(bound, modes=2), bound.sum(2))
    assert_close(tpr.bundle(bound, modes=1), bound.sum(3))


def test_permuting_moves_the_last_mode_and_back(generator):
    tpr = TPR(32)
    x, role = tpr.random(2, generator)
    assert torch.equal(tpr.permute(tpr.permute(x, 5), -5), x)
    assert tpr.permute(x)[1:].tolist() == x[:-1].tolist()
    assert abs(tpr.similarity(tpr.permute(x), x.unsqueeze(0)).item()) < 0.7
    assert_close(tpr.permute(tpr.bind(x, role), 3), tpr.bind(x, tpr.permute(role, 3)))


def test_similarities_are_inner_products_and_cosines(generator):
    tpr = TPR(6, dtype=torch.float64)
    x, others = 3 * tpr.random(8, generator).view(2, 4, 6), 2 * tpr.random(5, generator)
    assert_close(tpr.similarity(x, others), torch.einsum("abi,ni->abn", x, others))
    assert_close(tpr.cosine_similarity(x, others), torch.einsum("abi,ni->abn", x, others) / 6)
    assert tpr.similarity(x[0, 0], others).shape == (5,)
    bound = tpr.bind(x, x)
    assert_close(tpr.similarity(bound, bound[0]), torch.einsum("abij,nij->abn", bound, bound[0]))
    assert_close(tpr.cosine_similarity(bound, bound[0])[0].diagonal(), torch.ones(4, dtype=torch.float64))


def test_gradients_reach_fillers_and_roles(generator):
    tpr = TPR(4, dtype=torch.float64)
    x, role, other = (v.clone().requires_grad_() for v in tpr.random(6, generator).view(3, 2, 4))
    assert torch.autograd.gradcheck(lambda x, r: tpr.unbind(tpr.bind(x, r), r), (x, role))
    assert torch.autograd.gradcheck(lambda x, y: tpr.cosine_similarity(tpr.bundle(x), y), (x, other))


@pytest.mark.xdist_group("compile")  # in one process, so that torch's compiler is imported once
def test_verbs_compile_whole(generator):
    torch._dynamo.reset()
    tpr = TPR(8, depth=2)
    x, roles = tpr.random(3, generator), tpr.random(3, generator)
    for verb in (tpr.bind, tpr.similarity, tpr.cosine_similarity):
        assert_close(torch.compile(verb, fullgraph=True, backend="aot_eager")(x, roles), verb(x, roles))
    bound = tpr.bind(x, roles)
    assert_close(torch.compile(tpr.unbind, fullgraph=True, backend="aot_eager")(bound, roles), tpr.unbind(bound, roles))
    contexts = tpr.contexts([("a", "b"), ("c", "d"), ("a", "d")])
    memory = torch.compile(tpr.trace, fullgraph=True, backend="aot_eager")(contexts, x)
    assert_close(memory, tpr.trace(contexts, x))
    score = torch.compile(tpr.score, fullgraph=True, backend="aot_eager")
    assert_close(score(memory, contexts, x), tpr.score(memory, contexts, x))


# Bad input

FOUR = TPR(4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: TPR(10).contexts([("a", "b")]),
            ValueError,
            r"must have 1 roles, got \('a', 'b'\) with 2. Use TPR\(d, whole_path",
        ),
        (lambda: TPR(10, depth=2, whole_path=True), ValueError, "depth must be 1 with whole_path=True.* got 2"),
        (lambda: TPR(1_000, depth=5).zeros(), ValueError, "takes 3.469 EiB"),
        (lambda: FOUR.bind(torch.ones(4), torch.ones(3)), ValueError, r"role must have shape \(\*, 4\), got \(3,\)"),
        (lambda: FOUR.bind(torch.ones(3), torch.ones(4)), ValueError, r"of shape \(\*, ..., 4\), got \(3,\)"),
        (lambda: FOUR.bind(torch.ones(4), torch.ones(2, 4)), ValueError, r"those of role, \(2,\), .* unsqueeze"),
        (lambda: FOUR.bind(torch.ones(3, 4), torch.ones(2, 4)), ValueError, r"\(2,\), got x of shape \(3, 4\)"),
        (lambda: FOUR.unbind(torch.ones(4), torch.ones(4)), ValueError, r"shape \(\*, ..., 4, 4\), got \(4,\)"),
        (
            lambda: FOUR.unbind(torch.ones(4, 4), torch.ones(2, 4)),
            ValueError,
            r"unsqueeze\(0\) to bind one x with many roles",
        ),
        (lambda: FOUR.bind_path(torch.ones(4), torch.ones(4)), ValueError, r"shape \(\*, k, 4\), got \(4,\)"),
        (lambda: FOUR.bundle(torch.ones(4)), ValueError, r"must have shape \(\*, n, 4\), got \(4,\). Use torch.stack"),
        (lambda: FOUR.bundle(torch.ones(2, 4, 4)), ValueError, "may be 4 fillers or bound objects. Pass modes=1"),
        (lambda: FOUR.bundle(torch.ones(4, 4), modes=2), ValueError, r"\(\*, n, 4, 4\), got \(4, 4\)"),
        (lambda: FOUR.bundle(torch.ones(4, 4), modes=0), ValueError, "modes must be an integer of at least 1"),
        (lambda: FOUR.similarity(torch.ones(4), torch.ones(4)), ValueError, r"others must have shape \(n, 4\)"),
        (lambda: FOUR.similarity(torch.ones(3), torch.ones(2, 4)), ValueError, "x must have shape .* as others have"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call()
