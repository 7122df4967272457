"""TPR and OSC in Clifford algebra: the paper's theorems as numbers, its omissions, its claims about noise."""

import math
from itertools import combinations, permutations, product

import pytest
import torch
from kingdon import Algebra
from torch.testing import assert_close

from carving import OSC, Memory, make, top
from carving.clifford import Blades, contract, expand, inner, norm, reject, total, wedge
from carving.lab.measures.algebra import algebra
from carving.lab.measures.retrieval import accuracy
from carving.schemes import CliffordOSC, CliffordTPR
from carving.schemes.clifford import overlap_in_two_contexts

NEAR = dict(rtol=0, atol=1e-10)


def tpr(n, depth, roles, **options):
    return CliffordTPR(n, depth, [f"role {i}" for i in range(roles)], dtype=torch.float64, **options)


def every_path(memory):
    return list(combinations(memory.roles, memory.depth))


# TPR: exact recovery


@pytest.mark.parametrize("setting", ["disjoint", "complement"])
@pytest.mark.parametrize(("n", "depth", "roles"), [(8, 1, 4), (12, 2, 6), (16, 2, 11), (14, 3, 8), (12, 4, 7)])
def test_every_path_of_a_full_memory_gives_its_filler_back(setting, n, depth, roles):
    memory = tpr(n, depth, roles, setting=setting)
    paths = every_path(memory)
    assert len(paths) * (n - roles) == memory.capacity
    fillers = memory.fillers(range(len(paths)))
    bound = memory.bind(paths, fillers)
    for bundle in (memory.bundle(bound), bound):  # in coordinates, and as the sum of blades that it is
        assert_close(memory.unbind(bundle, paths), fillers, **NEAR)
    assert memory.bundle(bound).coordinates.shape == (memory.coordinates,) == (math.comb(n, depth + 1),)


def test_what_no_path_holds_comes_back_as_nothing():
    memory = tpr(12, 2, 6)
    paths = every_path(memory)
    bundle = memory.bundle(memory.bind(paths[:9], memory.fillers(range(9))))
    assert_close(memory.unbind(bundle, paths[9:]), torch.zeros(6, 12, dtype=torch.float64), **NEAR)


def test_bound_pairs_are_kingdons_wedges():
    memory, algebra = tpr(6, 2, 3), Algebra(6)
    (bound,) = memory.bind([("role 0", "role 2")], memory.fillers(["x"])).factors
    one, two, filler = (algebra.vector(row.tolist()) for row in bound)
    assert_close(bound[:2], memory.vectors[[0, 2]])
    theirs = dict((one ^ two ^ filler).items())
    expected = [theirs[sum(1 << i for i in subset)] for subset in combinations(range(6), 3)]
    assert_close(expand(Blades(bound)).coordinates, torch.tensor(expected, dtype=torch.float64), **NEAR)


def test_in_the_disjoint_setting_only_roles_times_fillers_are_used():
    """So that TPR on sets of roles, binom(R, r) (n - R) numbers, holds the same: the wedge saves nothing beyond it."""
    memory = tpr(9, 2, 5, setting="disjoint")
    paths = every_path(memory)
    coordinates = memory.bundle(memory.bind(paths, memory.fillers(range(10)))).coordinates
    used = [sum(i < 5 for i in subset) == 2 for subset in combinations(range(9), 3)]
    assert sum(used) == memory.capacity == 40
    assert coordinates[~torch.tensor(used)].abs().max() < 1e-15
    assert memory.vectors[:, 5:].abs().max() == 0


def test_the_settings_are_rotations_of_each_other():
    one, other = tpr(9, 2, 4, setting="disjoint"), tpr(9, 2, 4, setting="complement")
    bases = [torch.linalg.qr(memory.vectors.mT, mode="complete").Q.mT for memory in (one, other)]
    bases = [torch.cat([memory.vectors, basis[4:]]) for memory, basis in zip((one, other), bases, strict=True)]
    rotation = bases[0].mT @ bases[1]  # takes the roles of the one to those of the other
    paths, fillers = every_path(one), one.fillers(range(6))
    turned = Blades(one.bind(paths, fillers).factors @ rotation)
    assert_close(total(turned).coordinates, other.bundle(other.bind(paths, fillers @ rotation)).coordinates, **NEAR)


def test_fillers_orthogonal_to_their_own_roles_alone_do_not_come_back():
    """What the paper omits: its exactness needs fillers orthogonal to every role of the memory."""
    memory = tpr(8, 2, 4)
    paths = every_path(memory)
    roles = memory.contexts(paths)
    vectors = torch.randn(6, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    own = torch.nn.functional.normalize(reject(vectors, roles), dim=-1)
    assert (roles.factors @ own.unsqueeze(-1)).abs().max() < 1e-14
    alone = wedge(Blades(roles.factors), own)
    for path, blade, filler in zip(paths, alone.factors, own, strict=True):  # each alone is exact
        assert_close(memory.unbind(total(Blades(blade.unsqueeze(0))), [path])[0], filler, **NEAR)
    error = torch.linalg.vector_norm(memory.unbind(total(alone), paths) - own, dim=-1)
    assert error.mean() > 0.5
    with pytest.raises(
        ValueError, match="orthogonal to every role of the memory, not only to the roles of their own path"
    ):
        memory.bind(paths, own)
    fillers = memory.admitted(vectors)
    assert_close(memory.unbind(memory.bundle(memory.bind(paths, fillers)), paths), fillers, **NEAR)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_permuted_question_has_the_sign_of_its_permutation(depth):
    memory = tpr(9, depth, 5)
    path, filler = memory.roles[1 : 1 + depth], memory.fillers(["x"])
    bundle = memory.bundle(memory.bind([path], filler))
    for order in permutations(range(depth)):
        sign = (-1) ** sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])
        asked = tuple(path[i] for i in order)
        assert_close(memory.unbind(bundle, [asked], canonical=False), sign * filler, **NEAR)
        assert_close(memory.unbind(bundle, [asked]), filler, **NEAR)
        assert_close(memory.bundle(memory.bind([asked], filler)).coordinates, bundle.coordinates, **NEAR)
        raw = expand(contract(wedge(*(memory.vectors[memory.roles.index(role)] for role in reversed(asked))), bundle))
        assert_close(raw.coordinates, sign * filler[0], **NEAR)


def test_a_repeated_role_is_refused_and_roles_tagged_by_their_position_hold_it():
    plain = CliffordTPR(8, 2, ["left", "right"], dtype=torch.float64)
    a = plain.vectors[0]
    assert expand(wedge(a, a, plain.fillers(["x"])[0])).coordinates.abs().max() < 1e-15  # this is why
    with pytest.raises(
        ValueError, match=r"annihilates the pair \(a \^ a = 0\), got \('left', 'left'\)\. .*tagged=True"
    ):
        plain.bind([("left", "left")], plain.fillers(["x"]))
    tagged = CliffordTPR(8, 2, ["left", "right"], tagged=True, dtype=torch.float64)
    paths = list(product(("left", "right"), repeat=2))
    fillers = tagged.fillers(range(4))
    bundle = tagged.bundle(tagged.bind(paths, fillers))
    assert_close(tagged.unbind(bundle, paths), fillers, **NEAR)
    assert len(paths) * (8 - 4) == tagged.capacity


def test_a_large_memory_in_coordinates_and_as_blades():
    memory = CliffordTPR(100, 2, range(60), dtype=torch.float64)
    paths = every_path(memory)[::9]
    fillers = memory.fillers(range(len(paths)))
    bound = memory.bind(paths, fillers)
    bundle = memory.bundle(bound)
    assert bundle.coordinates.shape == (161_700,)
    assert_close(memory.unbind(bundle, paths[:50]), fillers[:50], **NEAR)
    with pytest.raises(ValueError, match="Keep them as Blades"):
        CliffordTPR(300, 40, range(80)).bundle(Blades(torch.ones(1, 41, 300)))


def test_a_deep_memory_as_blades_is_exact():
    """R^64 at depth 12 has 10^13 coordinates, of which none is made."""
    memory = CliffordTPR(64, 12, range(20), dtype=torch.float64)
    paths = every_path(memory)[:: 125_970 // 40]
    fillers = memory.fillers(range(len(paths)))
    assert_close(memory.unbind(memory.bind(paths, fillers), paths), fillers, **NEAR)


def test_roles_and_fillers_stay_as_they_are():
    memory = CliffordTPR(8, 2, ["left", "right", "head"])
    assert memory.vectors[0, :3].tolist() == pytest.approx([-0.3319452, -0.1378492, -0.1814303], abs=1e-6)
    assert memory.fillers(["dog"])[0, :3].tolist() == pytest.approx([-0.5101483, -0.111297, 0.4370761], abs=1e-6)
    disjoint = CliffordTPR(8, 2, ["left", "right", "head"], "disjoint")
    assert disjoint.vectors[2, :4].tolist() == pytest.approx([-0.5625026, 0.4082368, 0.7189809, 0.0], abs=1e-6)
    longer = CliffordTPR(8, 2, ["left", "right", "head", "tail"])  # a role more changes none before it
    assert_close(longer.vectors[:3], memory.vectors, rtol=0, atol=1e-6)


def test_roles_may_be_given():
    rows = torch.linalg.qr(torch.randn(6, 3, generator=torch.Generator().manual_seed(0))).Q.mT
    memory = CliffordTPR(6, 2, ["a", "b", "c"], vectors=rows)
    assert torch.equal(memory.vectors, rows)
    fillers = memory.fillers(["x"])
    assert_close(memory.unbind(memory.bundle(memory.bind([("a", "c")], fillers)), [("c", "a")]), fillers)


# OSC


def scheme(d, p, k1=None, **options):
    return CliffordOSC(d, p, k1, dtype=torch.float64, **options)


@pytest.mark.parametrize(("d", "p", "k1"), [(6, 1, 2), (9, 2, 4), (9, 2, 8), (8, 3, 3), (9, 3, 6), (8, 4, 5)])
def test_binding_is_the_normalized_wedge_of_rejections(d, p, k1):
    """The paper's formula by the algebra itself: in R^d, with the forbidden blade."""
    osc = scheme(d, p, k1)
    contexts, fillers = osc.contexts([("a",), ("b", "c"), ("d",)]), osc.fillers(["x", "y", "z"])
    forbidden = osc.forbidden(contexts)
    assert forbidden.grade == d - k1
    rejected = Blades(torch.stack([reject(v, forbidden) for v in fillers.unbind(1)], dim=1))
    bound = expand(rejected).coordinates / norm(rejected).unsqueeze(1)
    memory = osc.trace(contexts, fillers)
    assert memory.shape == (math.comb(d, p),)
    assert_close(memory, (bound * contexts.signs.unsqueeze(1)).sum(0), **NEAR)
    expected = contexts.signs.unsqueeze(1) * torch.stack(
        [
            (expand(rejected_unit(fillers, Blades(forbidden.factors[row]))).coordinates * memory).sum(-1)
            for row in range(len(contexts))
        ]
    )
    assert_close(osc.score(memory, contexts, fillers), expected, **NEAR)


def rejected_unit(fillers, blade):
    rejected = Blades(reject(fillers, blade))
    return Blades(torch.cat([rejected.factors[:, :1] / norm(rejected)[:, None, None], rejected.factors[:, 1:]], dim=1))


def test_the_score_of_a_pair_is_the_blades_inner_product():
    osc = scheme(10, 3, 5, signed=False)
    contexts, fillers = osc.contexts([("a",), ("b",)]), osc.fillers(["x", "y"])
    one, other = (rejected_unit(fillers[[i]], Blades(osc.forbidden(contexts).factors[i])) for i in range(2))
    scores = osc.score(osc.trace(contexts[:1], fillers[:1]), contexts, fillers)
    assert_close(scores[1, 1], inner(one, other)[0], **NEAR)
    assert_close(scores[0, 0], torch.ones((), dtype=torch.float64), **NEAR)


def test_exchanged_vectors_turn_the_sign_and_mixed_ones_change_nothing():
    """A filler is the subspace of its vectors, oriented: OSC's components are not exchangeable."""
    osc, mixing = scheme(9, 2, 4), torch.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=torch.float64)
    contexts, fillers = osc.contexts([("a",)]), osc.fillers(["x"])
    memory = osc.trace(contexts, fillers)
    assert_close(osc.trace(contexts, fillers.flip(1)), -memory, **NEAR)
    assert_close(osc.trace(contexts, mixing @ fillers), memory, **NEAR)


def pairs_of(osc, count, seed=0):
    """Contexts and fillers that are independent of each other and of labels."""
    generator = torch.Generator().manual_seed(seed)
    contexts = osc.contexts([(seed, i) for i in range(count)])
    return contexts, osc.random(count, generator)


def bound(osc, contexts, fillers):
    lifted = torch.bmm(osc._inside(fillers, contexts), contexts.basis)
    return expand(Blades(lifted)).coordinates


@pytest.mark.parametrize(("d", "p", "k1"), [(12, 2, 5), (12, 2, 2), (9, 3, 5), (9, 3, 3)])
def test_noise_is_one_over_the_number_of_cells_whatever_is_kept(d, p, k1):
    """Pairs 1/binom(d, p), exactly; one filler in two contexts by likeness; two in one context 1/binom(k1, p)."""
    osc, count = scheme(d, p, k1), 20_000
    contexts, fillers = pairs_of(osc, count)
    here = bound(osc, contexts, fillers)
    there = bound(osc, contexts[torch.arange(count).roll(1)], fillers)
    beside = bound(osc, contexts, fillers.roll(1, 0))
    cases = [
        (here.roll(1, 0), osc.facts.interference / math.comb(d, p)),
        (there, osc.facts.echo / math.comb(d, p)),
        (beside, 1 / math.comb(k1, p)),
    ]
    for other, expected in cases:
        squares = (here * other).sum(1).square()
        assert abs(squares.mean() - expected) <= 4 * squares.std() / math.sqrt(count) + 1e-9
    assert osc.facts.interference == 1


def test_likeness_is_one_for_a_filler_that_fills_the_subspace_and_everything_for_a_space_that_is_all_kept():
    assert overlap_in_two_contexts(9, 3, 3) == pytest.approx(1)  # the bound blade is the context's
    assert overlap_in_two_contexts(9, 3, 9) == pytest.approx(math.comb(9, 3))  # nothing is carved
    assert overlap_in_two_contexts(30, 1, 5) * 30**-1 == pytest.approx((5 / 30) ** 2 + (25 / 30) ** 2 / 29)


def test_equal_cells_hold_as_much_as_osc():
    """4,095 cells of CliffordOSC against 4,096 of OSC, 200 pairs, ten seeds: within three standard errors."""

    def share(name, d):
        found = []
        for seed in range(10):
            own = make(name, d, p=2, seed=seed)
            fillers, paths = own.fillers(range(200)), [(i,) for i in range(200)]
            scores = own.score(own.trace(paths, fillers), paths, fillers)
            found.append(scores.argmax(1).eq(torch.arange(200)).double().mean().item())
        return torch.tensor(found).mean().item()

    ours, theirs = share("CliffordOSC", 91), share("OSC", 64)
    error = math.sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / 2000)
    assert ours > 0.9
    assert abs(ours - theirs) < 3 * error


def test_contexts_and_fillers_of_osc_stay_as_they_are():
    osc = CliffordOSC(8, 2, 3)
    context = osc.contexts([("sentence 5", "subject")])
    assert context.basis[0, 0, :3].tolist() == pytest.approx([0.4889829, 0.1660749, 0.0220307], abs=1e-6)
    assert context.signs.tolist() == [1.0]
    assert osc.fillers(["dog"])[0, 0, :3].tolist() == pytest.approx([1.111689, -0.3846586, 0.8507444], abs=1e-6)
    assert osc.trace(context, osc.fillers(["dog"]))[:3].tolist() == pytest.approx(
        [-0.2645522, -0.28006, 0.1557353], abs=1e-6
    )


def test_cores_have_the_square_root_of_the_memorys_numbers():
    for d, p in ((91, 2), (37, 3), (16, 4), (200, 2)):
        cores = math.comb(CliffordOSC(d, p).k1, p)
        assert math.comb(CliffordOSC(d, p).k1 - 1, p) < math.sqrt(math.comb(d, p)) <= cores
    assert CliffordOSC(4, 3).k1 == 3


def test_contexts_differ_from_those_of_osc():
    ours, theirs = CliffordOSC(8, 2, 3).contexts([("a",)]), OSC(8, 2, 3).contexts([("a",)])
    assert not torch.allclose(ours.basis, theirs.basis)
    assert_close(ours.basis @ ours.basis.mT, torch.eye(3).unsqueeze(0), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("d", "p"), [(60, 2), (30, 3), (16, 4)])
def test_a_memory_stores_recalls_forgets_and_is_saved(d, p, tmp_path):
    memory = Memory(make("CliffordOSC", d, p=p))
    facts = {f"sentence {i}": {"subject": f"noun {i % 7}", "verb": f"verb {i % 5}"} for i in range(12)}
    memory.store(facts)
    assert memory.rebuild([(f"sentence {i}", role) for i in range(12) for role in ("subject", "verb")]) == facts
    assert not memory.recall("sentence 99", "subject")
    memory.save(tmp_path / "m.safetensors")
    loaded = Memory.load(tmp_path / "m.safetensors")
    assert loaded.scheme == memory.scheme
    assert torch.equal(loaded.tensor, memory.tensor)
    assert loaded.recall("sentence 3", "verb").value == "verb 3"
    memory.forget({"sentence 3": {"verb": "verb 3"}})
    assert not memory.recall("sentence 3", "verb")
    memory.store([(("sentence 3", "verb"), "verb 1"), (("sentence 3", "verb"), "verb 2")])
    assert sorted(a.value for a in memory.recall_set("sentence 3", "verb")) == ["verb 1", "verb 2"]


def test_the_best_candidates_and_the_experiments_accuracy_work():
    osc = make("CliffordOSC", 40, p=2)
    paths, fillers = [(i,) for i in range(20)], osc.fillers(range(50))
    best = top(osc, osc.trace(paths, fillers[:20]), paths, fillers, k=3)
    assert best.indices[:, 0].tolist() == list(range(20))
    found = accuracy({"scheme": "CliffordOSC", "d": 60, "p": 2, "N": 40, "L": 100}, seed=1)
    assert found["retrieval"] > 0.9 and found["numbers"] == math.comb(60, 2) + 100 * 120


@pytest.mark.parametrize(
    ("name", "n", "depth", "exact", "size"),
    [("CliffordTPR", 8, 1, 16, 28), ("CliffordTPR", 16, 2, 275, 560), ("TPR", 8, 1, 64, 64), ("TPR", 6, 2, 216, 216)],
)
def test_full_memories_hold_what_theory_says(name, n, depth, exact, size):
    """For n=16 the best of all numbers of roles is 11: 55 paths with fillers of 5 numbers each."""
    found = algebra({"part": "capacity", "scheme": name, "n": n, "depth": depth}, seed=2)
    assert (found["fillers"], found["coordinates"]) == (exact, size)
    if name == "CliffordTPR":
        assert exact == max(math.comb(roles, depth) * (n - roles) for roles in range(depth, n))


def test_scores_have_gradients():
    osc = scheme(7, 3, 5)
    contexts, fillers = osc.contexts([("a",), ("b",)]), osc.fillers(["x", "y"])
    memory = osc.trace(contexts, fillers)

    def score(memory, fillers, candidates):
        return osc.score(memory + osc.write(osc.encode(fillers, contexts), contexts), contexts, candidates)

    inputs = [x.contiguous().requires_grad_() for x in (memory, fillers, fillers.flip(0))]
    assert torch.autograd.gradcheck(score, inputs)


def test_vectors_that_depend_on_each_other_bind_to_nothing():
    for p in (2, 3, 4):
        osc = CliffordOSC(12, p)
        contexts, filler = osc.contexts([("a",)]), osc.fillers(["x"])
        degenerate = torch.cat([filler[:, :-1], 3 * filler[:, :1]], dim=1)
        assert osc.trace(contexts, degenerate).abs().max() == 0
        assert osc.score(osc.trace(contexts, filler), contexts, degenerate).item() == 0


# Bad input

SIX = CliffordTPR(6, 2, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: CliffordOSC(20, 3, k1=2),
            ValueError,
            "k1 must be an integer between 3 and 19, got 2. A wedge of p=3 vectors needs 3 dimensions",
        ),
        (lambda: CliffordOSC(20, 2, k1=20), ValueError, "between 2 and 19, got 20"),
        (lambda: CliffordOSC(3, 3), ValueError, "d must be an integer of at least 4, got 3"),
        (lambda: CliffordOSC(20, 5), ValueError, "p must be an integer between 1 and 4, got 5"),
        (lambda: CliffordOSC(20, signed=1), TypeError, "signed must be True or False"),
        (lambda: CliffordOSC(20_000, 4).zeros(), ValueError, "takes .* Choose a smaller dimension"),
        (
            lambda: CliffordOSC(20).read(torch.zeros(190), OSC(20).contexts([("a",)])),
            ValueError,
            "must belong to Clifford",
        ),
        (lambda: CliffordOSC(20).read(torch.zeros(20, 20), [("a",)]), ValueError, r"memory must have shape \(190\)"),
        (lambda: CliffordTPR(6, 2, ["a"]), ValueError, "roles must have 2 to 5 labels, got 1"),
        (lambda: CliffordTPR(6, 2, range(6)), ValueError, "roles must have 2 to 5 labels, got 6"),
        (lambda: CliffordTPR(6, 2, ["a", "b", "c"], tagged=True), ValueError, "each counted once for every level"),
        (lambda: CliffordTPR(6, 6, ["a"]), ValueError, "depth must be an integer between 1 and 5"),
        (lambda: CliffordTPR(6, 1, ["a", "a"]), ValueError, "roles must be distinct"),
        (lambda: CliffordTPR(6, 1, ["a"], "beside"), ValueError, "setting must be one of 'complement', 'disjoint'"),
        (lambda: CliffordTPR(6, 1, "ab"), TypeError, "roles must be a list"),
        (
            lambda: CliffordTPR(4, 2, ["a", "b"], vectors=torch.eye(4)[[0, 0]]),
            ValueError,
            "linearly independent, but vector 1 depends on the vectors before it",
        ),
        (
            lambda: CliffordTPR(4, 2, ["a", "b"], vectors=torch.eye(4)[:2] * 2),
            ValueError,
            "must be orthonormal in .*, got inner products that are off by 3. Use carving.tensors",
        ),
        (lambda: CliffordTPR(4, 2, ["a", "b"], vectors=torch.eye(3)[:2]), ValueError, r"shape \(2, 4\), got \(2, 3\)"),
        (lambda: SIX.bind([("a",)], SIX.fillers(["x"])), ValueError, r"Paths must have 2 roles, got \('a',\) with 1"),
        (lambda: SIX.bind([("a", "z")], SIX.fillers(["x"])), ValueError, "Unknown role 'z' in .* Known: 'a', 'b', 'c'"),
        (lambda: SIX.bind([("a", "b")], SIX.fillers(["x", "y"])), ValueError, r"fillers must have shape \(1, 6\)"),
        (lambda: SIX.bind([("a", "b")], SIX.vectors[2:]), ValueError, "fillers must be orthogonal to every role"),
        (lambda: SIX.unbind(total(Blades(torch.ones(1, 3, 7))), [("a", "b")]), ValueError, r"got grade 3 in R\^7"),
        (
            lambda: SIX.unbind(Blades(torch.ones(1, 2, 6)), [("a", "b")]),
            ValueError,
            r"must have grade 3 in R\^6, got grade 2",
        ),
        (
            lambda: CliffordTPR(4, 2, ["a", "b"], "disjoint", vectors=torch.eye(4)[[0, 3]]),
            ValueError,
            "must be zero after their first 2 numbers",
        ),
        (lambda: SIX.admitted(torch.ones(7)), ValueError, r"vectors must have shape \(6\), got \(7\)"),
    ],
)
def test_bad_input_is_refused_with_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call()
