"""OSC against the paper's formulas, written here as they stand there."""

import math
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, VSA, hashing, make
from carving.schemes.moments import interference
from carving.symbols import codec

LETTERS = "abcd"


def carving_operators(scheme, contexts):
    """P of definition 4.3, one a context: what is kept, or what is left when the forbidden rows are rejected."""
    rows = contexts.basis.double()
    onto = rows.mT @ rows
    return onto if 2 * scheme.k1 <= scheme.d else torch.eye(scheme.d, dtype=torch.float64) - onto


def bound(operator, filler):
    """T of definition 4.4: the outer product of the projected, normalized components."""
    components = [operator @ v / torch.linalg.norm(operator @ v) for v in filler.double()]
    letters = LETTERS[: len(components)]
    return torch.einsum(",".join(letters) + "->" + letters, *components)


def literal_trace(scheme, contexts, fillers, weights=None):
    weights = torch.ones(len(fillers)) if weights is None else weights
    operators = carving_operators(scheme, contexts)
    return sum(
        weight.double() * sign.double() * bound(operator, filler)
        for operator, sign, filler, weight in zip(operators, contexts.amplitudes, fillers, weights, strict=True)
    )


def literal_scores(scheme, memory, contexts, candidates):
    """<M, T_cand> for every context and candidate, times the context's sign."""
    operators = carving_operators(scheme, contexts)
    return torch.stack(
        [
            sign.double() * torch.stack([(memory.double() * bound(operator, c)).sum() for c in candidates])
            for operator, sign in zip(operators, contexts.amplitudes, strict=True)
        ]
    )


VARIANTS = [
    OSC(12, 1),
    OSC(20, 2),
    OSC(12, 3),
    OSC(7, 4),
    OSC(20, 2, signed=False),
    OSC(12, 3, k1=1),
    OSC(12, 2, carved=3),
    OSC(7, 3, carved=1, seed=5),
    OSC.paper(20),
    OSC(7, 4, basis="gaussian"),
    OSC(12, 2, carved=3, basis="gaussian"),
]


@pytest.fixture(params=VARIANTS, ids=str)
def scheme(request):
    return request.param


TOLERANCE = {torch.float32: dict(rtol=1e-5, atol=1e-5), torch.float64: dict(rtol=1e-12, atol=1e-12)}


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def osc(request, scheme):
    return scheme.like(dtype=request.param)


def test_a_trace_is_the_sum_of_the_papers_tensors(osc, pairs, generator):
    contexts, fillers = pairs(osc, 9)
    weights = torch.randn(9, generator=generator, dtype=osc.dtype)
    for given in (None, weights):
        expected = literal_trace(osc, contexts, fillers, given).to(osc.dtype)
        assert_close(osc.trace(contexts, fillers, given), expected, **TOLERANCE[osc.dtype])


def test_scores_are_the_papers_inner_products(osc, pairs, generator):
    contexts, fillers = pairs(osc, 6)
    memory = osc.trace(contexts, fillers) + 0.1 * torch.randn(
        osc.facts.memory_shape, generator=generator, dtype=osc.dtype
    )
    candidates = osc.fillers(range(11))
    expected = literal_scores(osc, memory, contexts, candidates).to(osc.dtype)
    assert_close(osc.score(memory, contexts, candidates), expected, **TOLERANCE[osc.dtype])


def test_many_candidates_score_like_few(double, pairs):
    """Blocks, with and without a rest, and the layout of the fillers in memory change nothing."""
    contexts, fillers = pairs(double, 3)
    memory = double.trace(contexts, fillers)
    candidates = double.fillers(range(2_047))
    whole = double.score(memory, contexts, candidates)
    assert_close(double.score(memory, contexts, candidates.contiguous()), whole, rtol=0, atol=1e-12)
    some = [0, 1_022, 2_046]
    assert_close(whole[:, some], double.score(memory, contexts, candidates[some]), rtol=0, atol=1e-12)
    assert_close(double.score(memory, contexts, candidates[5:2_005]), whole[:, 5:2_005], rtol=0, atol=1e-12)


def test_each_context_may_have_candidates_of_its_own(double, pairs):
    contexts, fillers = pairs(double, 4)
    memory = double.trace(contexts, fillers)
    candidates = double.fillers(range(10))
    own = torch.tensor([[0, 3], [1, 1], [9, 2], [4, 0]])
    expected = double.score(memory, contexts, candidates).gather(1, own)
    assert_close(double.score(memory, contexts, candidates[own]), expected, rtol=0, atol=1e-12)


def test_a_carving_operator_is_a_projection_of_rank_k1(scheme, pairs):
    contexts, _ = pairs(scheme, 5)
    for operator in carving_operators(scheme, contexts):
        assert_close(operator @ operator, operator, rtol=0, atol=1e-6)
        assert torch.trace(operator).item() == pytest.approx(scheme.k1, abs=1e-5)


def test_a_bound_filler_does_not_depend_on_its_scale(double, pairs):
    contexts, fillers = pairs(double, 3)
    assert_close(double.trace(contexts, 1e3 * fillers), double.trace(contexts, fillers), rtol=0, atol=1e-12)
    memory = double.trace(contexts, fillers)
    assert_close(double.score(memory, contexts, 1e-3 * fillers), double.score(memory, contexts, fillers))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_nor_does_a_score_in_single_precision(scheme, pairs, scale):
    contexts, fillers = pairs(scheme, 3)
    memory = scheme.trace(contexts, fillers)
    assert_close(scheme.score(memory, contexts, scale * fillers), scheme.score(memory, contexts, fillers))


def test_a_filler_of_zeros_scores_zero(scheme, pairs):
    contexts, fillers = pairs(scheme, 2)
    memory = scheme.trace(contexts, fillers)
    assert scheme.score(memory, contexts, torch.zeros_like(fillers)).eq(0).all()
    assert scheme.trace(contexts, torch.zeros_like(fillers)).eq(0).all()


def test_carved_is_the_complement_of_kept():
    assert OSC(20, 2, carved=6) == OSC(20, 2, k1=14)
    assert OSC(20, 2, carved=6).contexts([("a",)]).basis.shape == (1, 6, 20)
    assert OSC(20, 2, k1=6).contexts([("a",)]).basis.shape == (1, 6, 20)


def test_unsigned_contexts_are_signed_ones_without_the_sign():
    paths = [(i,) for i in range(50)]
    signed, unsigned = OSC(10).contexts(paths), OSC(10, signed=False).contexts(paths)
    assert_close(signed.basis, unsigned.basis, rtol=0, atol=0)
    assert unsigned.amplitudes.eq(1).all()
    assert set(signed.amplitudes.tolist()) == {-1.0, 1.0}


# Stability

GOLDEN_BASIS = [
    [-0.2435931116, -0.4870017767, -0.5117821693, 0.5000390410, -0.4294551611, -0.0842612013],
    [-0.6835530400, 0.0179011300, 0.4577848017, -0.1848266423, -0.3067733645, -0.4411315918],
]
GOLDEN_FORBIDDEN = [-0.5013067722, -0.1410016119, -0.1022916436, -0.3817716539, 0.7540579438, 0.0631940439]
GOLDEN_FILLER = [
    [1.1116889715, -0.3846585751, 0.8507443666, 0.8455309868, -1.4989159107, 0.1534269303],
    [-0.9510931373, 0.0604796596, -0.4496197701, -0.3712027967, -0.3974224329, 0.4730263352],
]


def test_contexts_and_fillers_stay_as_they_are():
    path, exact = ("sentence 5", "subject"), dict(rtol=0, atol=1e-6)
    context = OSC(6, 2, basis="gaussian").contexts([path])
    assert_close(context.basis[0], torch.tensor(GOLDEN_BASIS), **exact)
    assert context.amplitudes.tolist() == [1]
    forbidden = OSC(6, 2, k1=5, seed=3, basis="gaussian").contexts([path])
    assert_close(forbidden.basis[0, 0], torch.tensor(GOLDEN_FORBIDDEN), **exact)
    assert forbidden.amplitudes.tolist() == [-1]
    assert_close(OSC(6, 2).fillers(["dog"])[0], torch.tensor(GOLDEN_FILLER), **exact)


def test_dtype_batch_order_and_threads_change_nothing(scheme, double):
    paths, labels = [("a", i) for i in range(40)], list(range(40))
    contexts, fillers = scheme.contexts(paths), scheme.fillers(labels)
    assert_close(scheme.contexts(paths[7:8]).basis[0], contexts.basis[7], rtol=0, atol=0)
    assert_close(scheme.contexts(paths[::-1]).basis.flip(0), contexts.basis, rtol=0, atol=0)
    assert_close(scheme.fillers(labels[::-1]).flip(0), fillers, rtol=0, atol=0)
    assert_close(double.contexts(paths).basis.float(), contexts.basis, rtol=0, atol=1e-7)
    assert_close(double.fillers(labels).float(), fillers, rtol=0, atol=0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert_close(scheme.contexts(paths).basis, contexts.basis, rtol=0, atol=1e-7)
    finally:
        torch.set_num_threads(threads)


def test_bases_are_orthonormal_with_a_canonical_orientation():
    """Gram-Schmidt of the Gaussian rows: each row has a positive product with the row that it came from."""
    scheme = OSC(30, 2, k1=8, dtype=torch.float64, basis="gaussian")
    rows = scheme.contexts([("a",)]).basis[0]
    assert_close(rows @ rows.T, torch.eye(8, dtype=torch.float64))
    words = hashing.bits([codec.canonical_path(("a",))], 1 + 120, seed=0, purpose="context")
    remaining = hashing.normals(words[:, 1:]).view(8, 30)
    for place in range(8):
        vector = remaining[place] / torch.linalg.norm(remaining[place])
        assert_close(rows[place], vector)
        remaining = remaining - torch.outer(remaining @ vector, vector)


# Gradients and compilation


@pytest.mark.parametrize("basis", ["blocks", "gaussian"])
@pytest.mark.parametrize(("p", "k1"), [(1, None), (2, None), (3, None), (2, 5)])
def test_gradients_reach_fillers_weights_and_memory(p, k1, basis):
    osc = OSC(6, p, k1, dtype=torch.float64, basis=basis)
    contexts = osc.contexts([("a",), ("b",)])
    fillers = osc.fillers(range(2)).clone().requires_grad_()
    memory = osc.trace(contexts, osc.fillers(range(2, 4))).requires_grad_()
    weights = torch.tensor([0.5, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f, w: osc.trace(contexts, f, w), (fillers, weights))
    assert torch.autograd.gradcheck(lambda m, f: osc.score(m, contexts, f), (memory, fillers))
    cores = osc.read(memory, contexts).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: osc.write(c, contexts), (cores,))


def test_gradients_pass_through_chunks():
    osc, small = OSC(8, 2, dtype=torch.float64), OSC(8, 2, dtype=torch.float64, workspace=1_000)
    contexts = osc.contexts([(i,) for i in range(20)])
    grads = []
    for scheme in (osc, small):
        fillers = osc.fillers(range(20)).clone().requires_grad_()
        scheme.score(scheme.trace(contexts, fillers), contexts, fillers).square().sum().backward()
        grads.append(fillers.grad)
    assert_close(grads[0], grads[1])


SIZES = ((5, 2_100), (5, 1_000), (5, 7), (2, 2_100))  # contexts, candidates


@pytest.mark.parametrize(
    ("p", "k1", "basis", "sizes"),
    [
        (2, None, "blocks", SIZES),
        (2, 9, "gaussian", SIZES[:1]),  # others take seconds
        *(
            pytest.param(*case, SIZES, marks=pytest.mark.slow)
            for case in (
                *((1, None, "blocks"), (2, None, "gaussian"), (2, 9, "blocks")),
                *((2, 9, "gaussian"), (3, None, "blocks")),
            )
        ),
    ],
)
@pytest.mark.xdist_group("compile")  # in one process, so that torch's compiler is imported once
def test_trace_and_score_compile_whole(p, k1, basis, sizes):
    torch._dynamo.reset()
    osc = OSC(12, p, k1, basis=basis)
    contexts, fillers = osc.contexts([(i,) for i in range(5)]), osc.fillers(range(5))
    candidates = osc.fillers(range(2_100))
    trace = torch.compile(osc.trace, fullgraph=True, backend="aot_eager")
    score = torch.compile(osc.score, fullgraph=True, backend="aot_eager")
    memory = trace(contexts, fillers)
    assert_close(memory, osc.trace(contexts, fillers))
    for asked, count in sizes:
        own, some = contexts[:asked], candidates[:count]
        assert_close(score(memory, own, some), osc.score(memory, own, some))


# Bounded memory


@pytest.mark.slow
def test_a_million_candidates_need_less_than_a_gibibyte_beyond_the_codebook():
    code = """
import resource, torch
from carving import OSC, top
osc = OSC(80, 3)
codebook = torch.randn(3, 1_000_000, 80).transpose(0, 1)
contexts = osc.contexts([("a",), ("b",)])
memory = osc.trace(contexts, codebook[[123_456, 999_999]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert osc.score(memory, contexts, codebook).argmax(1).tolist() == [123_456, 999_999]
assert top(osc, memory, contexts, codebook).indices.tolist() == [[123_456], [999_999]]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2**20  # KiB


# Bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(d=1), ValueError, "d must be an integer of at least 2, got 1"),
        (dict(d=8.0), TypeError, "d must be an integer of at least 2, got 8.0 of type float"),
        (dict(d=True), TypeError, "d must be"),
        (dict(d=8, p=0), ValueError, "p must be an integer between 1 and 4, got 0"),
        (dict(d=8, p=5), ValueError, "p must be an integer between 1 and 4, got 5"),
        (
            dict(d=8, k1=0),
            ValueError,
            r"k1 must be an integer between 1 and 7, got 0. The default is round\(sqrt\(d\)\) = 3",
        ),
        (dict(d=8, k1=8), ValueError, "between 1 and 7, got 8"),
        (dict(d=8, k1="3"), TypeError, "k1 must be"),
        (dict(d=8, carved=8), ValueError, "carved must be"),
        (dict(d=8, k1=3, carved=5), ValueError, "k1=3 conflicts with carved=5"),
        (dict(d=8, seed=-1), ValueError, "seed must be"),
        (dict(d=8, seed=2**64), ValueError, "seed must be"),
        (dict(d=8, seed="a"), TypeError, "seed must be"),
        (dict(d=8, signed=1), TypeError, "signed must be True or False"),
        (dict(d=8, dtype=torch.int64), TypeError, "dtype must be torch.float32 or torch.float64"),
        (dict(d=8, dtype=torch.float16), TypeError, "for files only"),
        (dict(d=8, workspace=0), ValueError, "workspace must be"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        OSC(**arguments)


def test_a_memory_that_does_not_fit_is_refused_with_its_size():
    huge = OSC(10_000, 4)
    with pytest.raises(ValueError, match=r"takes 35.53 PiB, but cpu has .*. Choose a smaller dimension or order"):
        huge.zeros()


# Statistics of the paper. Tolerances are four standard errors, or as stated.


def simulated(d, p, k1, pairs, vocabulary=None, trials=1, depth=1, signed=True, stored=None):
    """Scores of the stored fillers and the share recalled, contexts all different."""
    scores, right = [], []
    for seed in range(trials):
        osc = OSC(d, p, k1, signed, seed=seed)
        contexts = osc.contexts([(*(f"role {level}" for level in range(1, depth)), i) for i in range(pairs)])
        fillers = osc.fillers(range(vocabulary or pairs))
        held = torch.arange(pairs) if stored is None else stored
        found = osc.score(osc.trace(contexts, fillers[held]), contexts, fillers)
        scores.append(found.gather(1, held.unsqueeze(1)).squeeze(1))
        right.append(found.argmax(1).eq(held).double().mean().item())
    return torch.cat(scores).double(), sum(right) / trials


@pytest.mark.parametrize(
    ("d", "p", "k1", "pairs"), [(20, 2, 4, 200), (20, 2, 2, 200), (60, 2, 8, 300), (20, 3, 4, 200), (20, 3, 3, 200)]
)
def test_the_score_has_mean_one_and_the_corrected_variance(d, p, k1, pairs):
    scores, _ = simulated(d, p, k1, pairs, trials=40)
    n = len(scores)
    variance = interference(d, p, k1, pairs)
    # Two pairs disturb each other alike, so the mean of all scores has twice the variance of independent ones.
    assert scores.mean().item() == pytest.approx(1, abs=4 * math.sqrt(2 * variance / n))
    # Scores of one memory share its pairs, so the error is taken from the trials.
    each = scores.view(40, -1).var(dim=1)
    assert each.mean().item() == pytest.approx(variance, abs=4 * each.std().item() / math.sqrt(40))
    plain = (pairs - 1) / d**p
    if k1 < 4:  # here the paper's own formula is far off
        assert each.mean().item() - plain > 5 * each.std().item() / math.sqrt(40)


@pytest.mark.parametrize("places", [2, 10, 100])
def test_shared_contexts_add_their_share_of_the_variance(places):
    d, k1, pairs, each = 100, 10, 500, []
    for seed in range(12):
        osc = OSC(d, 2, k1, seed=seed)
        contexts = osc.contexts([(i % places,) for i in range(pairs)])
        fillers = osc.fillers(range(pairs))
        scores = osc.score(osc.trace(contexts, fillers), contexts, fillers).diagonal()
        each.append((scores - 1).square().mean().item())
    found = torch.tensor(each)
    expected = interference(d, 2, k1, pairs, pairs // places)
    assert found.mean().item() == pytest.approx(expected, abs=4 * found.std().item() / math.sqrt(12))


def test_recall_at_d200_p2_with_a_thousand_pairs():
    _, right = simulated(200, 2, None, 1_000, trials=3)
    assert right >= 0.995


def test_recall_at_d80_p3_with_ten_thousand_pairs():
    osc, count = OSC(80, 3), 10_000
    fillers = osc.fillers(range(count))
    memory = osc.trace([(i,) for i in range(count)], fillers)
    asked = range(0, count, 10)
    found = osc.score(memory, [(i,) for i in asked], fillers).argmax(1)
    assert found.eq(torch.tensor(asked)).double().mean().item() >= 0.995


@pytest.mark.slow
def test_recall_at_d80_p3_with_ten_thousand_pairs_all_asked():
    osc, count = OSC(80, 3), 10_000
    fillers, paths = osc.fillers(range(count)), [(i,) for i in range(count)]
    memory = osc.trace(paths, fillers)
    found = torch.cat([osc.score(memory, paths[s : s + 500], fillers).argmax(1) for s in range(0, count, 500)])
    assert found.eq(torch.arange(count)).double().mean().item() >= 0.995


def test_depth_of_the_path_does_not_matter():
    _, shallow = simulated(100, 2, None, 500, trials=5, depth=1)
    _, deep = simulated(100, 2, None, 500, trials=5, depth=48)
    # Two shares of 2,500 questions near 0.87: the difference has a standard error of 0.0095.
    assert shallow == pytest.approx(deep, abs=4 * 0.0095)
    assert 0.5 < shallow < 1


def zipf(vocabulary, pairs):
    weights = 1 / torch.arange(1, vocabulary + 1, dtype=torch.float64)
    return torch.multinomial(weights, pairs, replacement=True, generator=torch.Generator().manual_seed(0))


def test_reused_fillers_need_signed_contexts():
    stored = zipf(20, 1_000)
    _, signed = simulated(200, 2, None, 1_000, vocabulary=20, stored=stored)
    _, unsigned = simulated(200, 2, None, 1_000, vocabulary=20, stored=stored, signed=False)
    assert signed >= 0.995
    assert 0.5 < unsigned < 0.75  # the most frequent filler drowns the others


@pytest.mark.slow
def test_many_reused_fillers_need_signed_contexts():
    stored = zipf(1_000, 10_000)
    _, signed = simulated(80, 3, None, 10_000, vocabulary=1_000, stored=stored)
    _, unsigned = simulated(80, 3, None, 10_000, vocabulary=1_000, stored=stored, signed=False)
    assert signed >= 0.995
    assert 0.25 < unsigned < 0.45


# Contexts from tensors, and bound fillers


@pytest.mark.parametrize("compact", [False, True])
def test_contexts_of_given_bases_are_those_that_were_drawn(compact):
    osc = OSC(20, 2, k1=4, compact=compact, basis="gaussian", dtype=torch.float64)
    drawn, fillers = osc.contexts([(i,) for i in range(5)]), osc.fillers(range(5))
    made = osc.contexts_from(drawn.basis, drawn.amplitudes)
    memory = osc.trace(drawn, fillers)
    assert_close(osc.trace(made, fillers), memory)
    assert_close(osc.score(memory, made, fillers), osc.score(memory, drawn, fillers))
    assert made.scheme == drawn.scheme and OSC(20, 2, k1=4, compact=compact).contexts_from(drawn.basis.float())
    with pytest.raises(ValueError, match=r"basis must have shape \(any, .*4, 20\)"):
        osc.contexts_from(drawn.basis[..., :3, :])
    with pytest.raises(ValueError, match=r"signs must have shape \(5\)"):
        osc.contexts_from(drawn.basis, drawn.amplitudes[:2])


@pytest.mark.parametrize(("p", "compact"), [(1, False), (2, False), (3, False), (2, True)])
def test_contexts_from_tensors_are_batched_mapped_and_differentiable(p, compact, generator):
    osc = OSC(8, p, k1=3, compact=compact, dtype=torch.float64, workspace=4_000)
    basis = torch.randn(2, 5, *((p,) if compact else ()), 3, 8, generator=generator, dtype=torch.float64)
    fillers = osc.random(10, generator).double().unflatten(0, (2, 5))

    def stored(basis, fillers):
        contexts = osc.contexts_from(basis)
        memory = osc.trace(contexts, fillers)
        return memory, osc.score(memory, contexts, fillers.flatten(0, -3))

    each = [stored(*one) for one in zip(basis, fillers, strict=True)]
    assert_close(torch.func.vmap(lambda b, f: stored(b, f)[0])(basis, fillers), torch.stack([m for m, _ in each]))
    assert_close(torch.func.vmap(lambda b, f: stored(b, f)[1])(basis, fillers), torch.stack([s for _, s in each]))
    memory, scores = stored(basis, fillers)
    assert_close(memory, torch.stack([m for m, _ in each]))
    assert scores.shape == (2, 5, 10)
    assert_close(scores[1, :, 5:], each[1][1])
    bases = basis[0, :2].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda b: stored(b, fillers[0, :2]), (bases,))
    value, slope = torch.func.grad(lambda b: stored(b, fillers[0])[1].square().sum())(basis[0]), basis[0].clone()
    stored(slope.requires_grad_(), fillers[0])[1].square().sum().backward()
    assert_close(value, slope.grad)


@pytest.mark.parametrize("options", [{}, {"compact": True}, {"p": 3, "spread": 0.5}, {"p": 1}, {"basis": "gaussian"}])
def test_many_fillers_are_bound_as_fast_as_they_are_stored(options):
    osc = OSC(16, **options)
    paths, fillers = [(i,) for i in range(2_000)], osc.fillers(range(2_000))
    contexts = osc.contexts(paths)
    bound = osc.bind(fillers, contexts)
    assert bound.shape == (2_000, *osc.facts.memory_shape)
    assert_close(osc.bundle(bound), osc.trace(contexts, fillers), rtol=1e-4, atol=1e-4)
    assert_close(bound[7], osc.trace(contexts[7], fillers[[7]]))
    assert_close(osc.bind(fillers[:6].unflatten(0, (2, 3)), contexts[:6].reshape(2, 3))[1, 2], bound[5])


def test_defaults_follow_what_they_depend_on():
    assert OSC(200).like(d=400) == OSC(400) and OSC(200, k1=5).like(d=400) == OSC(400, k1=5)
    assert OSC(200).like(carved=190).k1 == 10 and OSC(200).like(dtype=torch.float64).dtype == torch.float64
    assert make("CliffordOSC", 20).like(d=40) == make("CliffordOSC", 40)
    assert VSA("HRR", 64).like(name="MBAT") == VSA("MBAT", 64)
