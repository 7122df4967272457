"""Compact fillers of OSC against their formula in R^d, written out in NumPy; their statistics; contexts of loudness."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, hashing, top
from carving.inference.likelihood import Likelihood
from carving.inference.sets import SetDecoder
from carving.schemes.base import Candidates
from carving.symbols import codec

VARIANTS = [
    OSC(12, 1, compact=True),
    OSC(20, 2, compact=True),
    OSC(12, 3, compact=True),
    OSC(7, 4, compact=True),
    OSC(12, 3, k1=1, compact=True),
    OSC(12, 2, carved=3, compact=True),
    OSC(7, 3, k1=5, compact=True, seed=5),
    OSC(12, 2, compact=True, spread=0.7),
    OSC(9, 3, compact=True, spread=2.0),
    OSC(12, 2, spread=1.0),  # ordinary fillers in contexts of different loudness
]
COMPACT = [variant for variant in VARIANTS if variant.compact]


@pytest.fixture(params=COMPACT, ids=lambda scheme: "-".join(f"{k}={v}" for k, v in scheme.parameters.items()))
def scheme(request):
    return request.param


EXACT = dict(rtol=1e-12, atol=1e-12)


# The formula: a component is a unit vector of k1 coordinates, written through a basis of its own


def bound(basis, sign, filler):
    """sign times the outer product of the p vectors (d,) that the components are, in NumPy: a tensor of d^p."""
    vectors = [rows.T @ (numbers / np.linalg.norm(numbers)) for rows, numbers in zip(basis, filler, strict=True)]
    letters = "abcd"[: len(vectors)]
    return sign * np.einsum(",".join(letters) + "->" + letters, *vectors)


def all_bound(contexts, fillers):
    numbers = (contexts.basis.numpy(), contexts.amplitudes.numpy(), fillers.numpy())
    return [bound(*one) for one in zip(*numbers, strict=True)]


def literal_scores(memory, contexts, candidates):
    """<M, bound candidate>, over the energy of what a context writes, which is 1 where none is louder."""
    memory, count = memory.numpy(), len(candidates)
    rows = []
    for place in range(len(contexts)):
        one = contexts[[place] * count]
        rows.append([np.sum(memory * each) / np.sum(each * each) for each in all_bound(one, candidates)])
    return torch.tensor(np.array(rows))


@pytest.fixture
def noisy(double, pairs, generator):
    """A memory that holds more than its pairs, with their contexts."""
    contexts, fillers = pairs(double, 6)
    return double.trace(contexts, fillers) + 0.1 * torch.randn(
        double.facts.memory_shape, generator=generator, dtype=torch.float64
    ), contexts


def test_a_trace_is_the_sum_of_the_outer_products(double, pairs, generator):
    contexts, fillers = pairs(double, 9)
    weights = torch.randn(9, generator=generator, dtype=torch.float64)
    each = all_bound(contexts, fillers)
    assert_close(double.trace(contexts, fillers), torch.tensor(sum(each)), **EXACT)
    weighted = sum(weight * one for weight, one in zip(weights.numpy(), each, strict=True))
    assert_close(double.trace(contexts, fillers, weights), torch.tensor(weighted), **EXACT)


def test_what_is_read_is_the_memory_along_the_bases(double, noisy):
    memory, contexts = noisy
    letters, sides = "abcd"[: double.p], "wxyz"[: double.p]
    formula = f"{letters},{','.join(map(''.join, zip(sides, letters, strict=True)))}->{sides}"
    for place, core in enumerate(double.read(memory, contexts)):
        sign = contexts.amplitudes[place].item()
        expected = np.einsum(formula, memory.numpy(), *contexts.basis[place].numpy()) / sign
        assert_close(core, torch.tensor(expected), **EXACT)


def test_scores_are_inner_products_with_bound_candidates(double, noisy):
    memory, contexts = noisy
    candidates = double.fillers(range(11))
    expected = literal_scores(memory, contexts, candidates)
    assert_close(double.score(memory, contexts, candidates), expected, **EXACT)
    assert_close(double.score(memory, contexts, double.precompute(candidates)), expected, **EXACT)


def test_scores_in_single_precision_are_the_same_but_for_rounding(scheme, double, noisy):
    memory, contexts = noisy
    candidates = double.fillers(range(11))
    expected = literal_scores(memory, contexts, candidates).float()
    # A faint context is read with its loudness divided out, and with it its rounding.
    found = scheme.score(memory.float(), contexts.to(torch.float32), candidates.float())
    assert_close(found, expected, rtol=1e-5, atol=1e-5 / contexts.amplitudes.abs().min().item())


def test_a_filler_is_the_same_in_every_context(double, pairs):
    contexts, fillers = pairs(double, 5)
    same = fillers[:1].expand(5, *double.facts.filler_shape)
    cores = double.encode(same, contexts)
    assert_close(cores, cores[:1].expand_as(cores), rtol=0, atol=0)
    assert not double.facts.contextual
    read = double.read(double.trace(contexts, fillers), contexts)
    assert_close(
        double.match(read, None, fillers), double.score(double.trace(contexts, fillers), contexts, fillers), **EXACT
    )


def test_writing_cores_is_storing_fillers(double, pairs):
    contexts, fillers = pairs(double, 5)
    written = double.write(double.encode(fillers, contexts), contexts)
    assert_close(written, double.trace(contexts, fillers), **EXACT)


# Chunks, layouts and forms of candidates


def test_chunks_change_nothing(double, noisy, pairs):
    memory, contexts = noisy
    tiny = double.like(workspace=1_000)
    _, fillers = pairs(double, 6)
    candidates = double.fillers(range(1_203))
    assert_close(tiny.trace(contexts, fillers), double.trace(contexts, fillers), **EXACT)
    assert_close(tiny.read(memory, contexts), double.read(memory, contexts), **EXACT)
    whole = double.score(memory, contexts, candidates)
    assert_close(tiny.score(memory, contexts, candidates), whole, **EXACT)
    assert_close(double.score(memory, contexts, candidates.contiguous()), whole, **EXACT)
    for few in (contexts[0], contexts[1:3]):
        assert_close(double.score(memory, few, candidates), literal_scores(memory, few, candidates), **EXACT)
    some = [0, 600, 1_202]
    assert_close(double.score(memory, contexts, candidates[some]), whole[:, some], **EXACT)
    assert_close(
        tiny.score(memory, contexts, candidates[some].expand(6, 3, *double.facts.filler_shape)), whole[:, some]
    )


def test_candidates_made_ready_score_and_answer_alike(double, noisy):
    memory, contexts = noisy
    candidates = double.fillers(range(700))
    ready = double.precompute(candidates)
    assert ready.tensor.shape == (700, double.facts.code_size) and ready.kind == "codes"
    assert double.precompute(ready) is ready
    assert_close(double.score(memory, contexts, ready), double.score(memory, contexts, candidates), **EXACT)
    for own in (
        double,
        double.like(workspace=700 * double.facts.code_size - 1),
    ):  # here codes are made anew
        assert own.precompute(candidates).kind == ("codes" if own is double else "fillers")
        best = top(own, memory, contexts, candidates, 5)
        expected = double.score(memory, contexts, candidates).topk(5)
        assert_close(best.scores, expected.values, **EXACT)
        if double.k1 > 1:  # on a line all candidates are alike
            assert best.indices.tolist() == expected.indices.tolist()


def test_answers_from_labels_are_those_from_fillers(double, noisy):
    memory, contexts = noisy
    small = double.like(workspace=20_000)
    best = top(double, memory, contexts, double.fillers(range(300)))
    by_labels = top(small, memory, contexts, range(300))
    assert_close(by_labels.scores, best.scores, **EXACT)


def test_each_context_may_have_candidates_of_its_own(double, noisy):
    memory, contexts = noisy
    candidates = double.fillers(range(10))
    own = torch.tensor([[0, 3], [1, 1], [9, 2], [4, 0], [5, 5], [7, 8]])
    expected = literal_scores(memory, contexts, candidates).gather(1, own)
    assert_close(double.score(memory, contexts, candidates[own]), expected, **EXACT)
    best = top(double, memory, contexts, candidates, candidate_indices=own)
    assert_close(best.scores.squeeze(1), expected.amax(1), **EXACT)


def test_a_bound_filler_does_not_depend_on_its_scale(scheme, pairs):
    contexts, fillers = pairs(scheme, 3)
    memory = scheme.trace(contexts, fillers)
    for scale in (1e-8, 1e8):
        assert_close(scheme.trace(contexts, scale * fillers), memory)
        assert_close(scheme.score(memory, contexts, scale * fillers), scheme.score(memory, contexts, fillers))


def test_a_filler_of_zeros_scores_zero(scheme, pairs):
    contexts, fillers = pairs(scheme, 2)
    memory, nothing = scheme.trace(contexts, fillers), torch.zeros_like(fillers)
    assert scheme.trace(contexts, nothing).eq(0).all()
    assert scheme.score(memory, contexts, nothing).eq(0).all()
    assert scheme.score(memory, contexts, scheme.precompute(nothing)).eq(0).all()
    assert scheme.score(memory, contexts, nothing.expand(2, 2, *scheme.facts.filler_shape)).eq(0).all()


# Labels


def test_the_bases_of_the_components_are_orthonormal_and_differ():
    scheme = OSC(30, 3, k1=8, dtype=torch.float64, compact=True)
    basis = scheme.contexts([("a",)]).basis[0]  # (p, k1, d)
    assert_close(basis @ basis.mT, torch.eye(8, dtype=torch.float64).expand(3, 8, 8))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        # Independent subspaces: the squared cosines sum to k1^2/d = 2.1, whose standard deviation is 0.3.
        assert 0.5 < (basis[one] @ basis[other].mT).square().sum().item() < 4


def test_bases_are_gram_schmidt_of_the_labels_numbers():
    """Each row has a positive product with the row that it came from: one orientation, whatever computes it."""
    scheme = OSC(10, 2, k1=3, dtype=torch.float64, compact=True, seed=2, basis="gaussian")
    words = hashing.bits([codec.canonical_path(("a", 1))], 1 + 30, seed=2, purpose="context")
    drawn = hashing.normals(words[:, 1:]).view(2, 3, 10)
    for rows, remaining in zip(scheme.contexts([("a", 1)]).basis[0], drawn, strict=True):
        for place in range(3):
            vector = remaining[place] / torch.linalg.norm(remaining[place])
            assert_close(rows[place], vector)
            remaining = remaining - torch.outer(remaining @ vector, vector)


GOLDEN_BASES = [
    [
        [-0.2435931116, -0.4870017767, -0.5117821693, 0.5000390410, -0.4294551611, -0.0842612013],
        [-0.6835530400, 0.0179011300, 0.4577848017, -0.1848266423, -0.3067733645, -0.4411315918],
    ],
    [
        [0.2798807323, 0.0268942695, 0.1781141311, 0.9289047718, 0.0492041335, -0.1547052264],
        [-0.5096500516, 0.0529485829, -0.0836437345, 0.2544756532, 0.4686310589, 0.6678952575],
    ],
]
GOLDEN_FILLER = [[1.1116889715, -0.3846585751], [0.8507443666, 0.8455309868]]
GOLDEN_SCORES = [[0.7492721081, 0.7382120490, -0.4916628003], [0.6357439756, 0.7492720485, -0.2076999396]]


def test_contexts_fillers_and_scores_stay_as_they_are():
    paths, exact = [("sentence 5", "subject"), ("sentence 5", "verb")], dict(rtol=0, atol=1e-6)
    scheme = OSC(6, 2, compact=True, basis="gaussian")
    context = scheme.contexts(paths[:1])
    assert_close(context.basis[0], torch.tensor(GOLDEN_BASES), **exact)
    assert context.amplitudes.tolist() == [1]
    assert_close(scheme.fillers(["dog"])[0], torch.tensor(GOLDEN_FILLER), **exact)
    found = scheme.score(scheme.trace(paths, ["dog", "chased"]), paths, scheme.fillers(["dog", "chased", "cat"]))
    assert_close(found, torch.tensor(GOLDEN_SCORES), **exact)
    loud = OSC(6, 2, compact=True, spread=1.0, seed=3, basis="gaussian").contexts(paths[:1])
    assert_close(loud.amplitudes, torch.tensor([-1.0670843124]), **exact)


def test_dtype_and_batch_change_nothing(scheme, double):
    paths = [("a", i) for i in range(40)]
    contexts = scheme.contexts(paths)
    assert_close(scheme.contexts(paths[7:8]).basis[0], contexts.basis[7], rtol=0, atol=0)
    assert_close(scheme.contexts(paths[::-1]).basis.flip(0), contexts.basis, rtol=0, atol=0)
    assert_close(scheme.contexts(paths[::-1]).amplitudes.flip(0), contexts.amplitudes, rtol=0, atol=0)
    assert_close(double.contexts(paths).basis.float(), contexts.basis, rtol=0, atol=1e-7)
    assert_close(double.fillers(range(9)).float(), scheme.fillers(range(9)), rtol=0, atol=0)


# Memories, gradients, compilation


@pytest.mark.parametrize("more", [{}, {"spread": 0.5}, {"k1": 9}], ids=str)
def test_a_memory_of_compact_fillers_is_saved_and_loaded(tmp_path, more):
    memory = Memory(OSC(50, 2, seed=4, compact=True, **more))
    pairs = [(("place", i), f"value {i % 7}") for i in range(20)]
    memory.store(pairs)
    memory.save(tmp_path / "memory.safetensors")
    again = Memory.load(tmp_path / "memory.safetensors")
    assert again.scheme == memory.scheme
    assert again.scheme.compact
    assert_close(again.tensor, memory.tensor)
    assert [answer.value for answer in again.recall_many([path for path, _ in pairs])] == [value for _, value in pairs]
    assert not again.recall("nowhere", 1)
    assert memory.forget(pairs[:5]) == []
    assert not memory.recall("place", 0)


def test_compact_fillers_are_part_of_what_a_scheme_is():
    assert OSC(9, 2, compact=True) != OSC(9, 2)
    assert OSC(9, 2, compact=True) != OSC(9, 2, compact=True, spread=1.0)
    assert OSC(9, 2, compact=True).like(seed=1) == OSC(9, 2, compact=True, seed=1)
    with pytest.raises(ValueError, match="contexts must belong to"):
        OSC(9, 2, compact=True).trace(OSC(9, 2).contexts([("a",)]), ["value"])


def test_gradients_reach_fillers_weights_and_memory(double):
    contexts = double.contexts([("a",), ("b",)])
    fillers = double.fillers(range(2)).clone().requires_grad_()
    memory = double.trace(contexts, double.fillers(range(2, 4))).requires_grad_()
    weights = torch.tensor([0.5, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda f, w: double.trace(contexts, f, w).flatten()[::17], (fillers, weights))
    assert torch.autograd.gradcheck(lambda f: double.score(memory.detach(), contexts, f), (fillers,))
    score = double.score(memory, contexts, fillers.detach())
    direction = torch.ones_like(score)
    gradient, *_ = torch.autograd.grad(score, memory, direction)
    assert_close((gradient * memory).sum(), score.sum(), **EXACT)  # scores are linear in the memory


@pytest.mark.parametrize("spread", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("p", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.xdist_group("compile")  # in one process, so that torch's compiler is imported once
def test_trace_and_score_compile_whole(p, spread):
    torch._dynamo.reset()
    osc = OSC(12, p, compact=True, spread=spread)
    contexts, fillers = osc.contexts([(i,) for i in range(5)]), osc.fillers(range(5))
    candidates = osc.fillers(range(2_100))
    trace = torch.compile(osc.trace, fullgraph=True, backend="aot_eager")
    score = torch.compile(osc.score, fullgraph=True, backend="aot_eager")
    memory = trace(contexts, fillers)
    assert_close(memory, osc.trace(contexts, fillers))
    for some in (candidates, candidates[:1_000], candidates[:7], osc.precompute(candidates)):
        assert_close(score(memory, contexts, some), osc.score(memory, contexts, some))
    own = candidates[:10].expand(5, 10, *osc.facts.filler_shape)
    assert_close(score(memory, contexts, own), osc.score(memory, contexts, own))


# Bounded memory


def peak_of(code):
    """The KiB that a program of its own prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["200, 2", "80, 3"])
def test_a_million_candidates_need_less_than_a_gibibyte_with_the_codebook(size):
    code = f"""
import resource, torch
from carving import OSC, top
osc = OSC({size}, compact=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codebook = torch.randn(osc.p, 1_000_000, osc.k1).transpose(0, 1)
contexts = osc.contexts([("a",), ("b",)])
memory = osc.trace(contexts, codebook[[123_456, 999_999]])
assert osc.score(memory, contexts, codebook).argmax(1).tolist() == [123_456, 999_999]
assert top(osc, memory, contexts, codebook).indices.tolist() == [[123_456], [999_999]]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    assert peak_of(code) < 2**20


def test_candidates_of_each_context_stay_within_a_few_workspaces():
    """Their codes, held together, would take 1.3 GiB."""
    code = """
import resource, torch
from carving import OSC
osc = OSC(75, 3, compact=True)
contexts = osc.contexts([(i,) for i in range(256)])
memory = osc.trace(contexts, osc.fillers(range(256)))
own = torch.randn(256, 1_900, 3, 9)
own[:, 77] = osc.fillers(range(256))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert osc.score(memory, contexts, own).argmax(1).eq(77).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    assert peak_of(code) < 4 * 32 * 2**10


# Statistics. Tolerances are four standard errors, or as stated.


def simulated(scheme, pairs, trials, vocabulary=None, stored=None):
    """Scores (trials, pairs) of the stored fillers, and the share recalled of each trial."""
    scores, right = [], []
    held = torch.arange(pairs) if stored is None else stored
    for seed in range(trials):
        osc = scheme.like(seed=seed)
        contexts = osc.contexts([(i,) for i in range(pairs)])
        fillers = osc.fillers(range(vocabulary or pairs))
        found = osc.score(osc.trace(contexts, fillers[held]), contexts, osc.precompute(fillers))
        scores.append(found.gather(1, held.unsqueeze(1)).squeeze(1))
        right.append(found.argmax(1).eq(held).double().mean())
    return torch.stack(scores).double(), torch.stack(right)


@pytest.mark.parametrize("same", [False, True], ids=["distinct", "one filler"])
@pytest.mark.parametrize(("d", "p", "k1"), [(20, 2, 4), (20, 2, 2), (60, 2, 8), (20, 3, 2), (9, 4, 2)])
def test_interference_has_no_excess(d, p, k1, same):
    """Bound fillers of two contexts are independent, and isotropic: the variance is (N-1)/d^p, whatever is stored."""
    pairs, trials = 200, 40
    stored = torch.zeros(pairs, dtype=torch.int64) if same else None
    scores, _ = simulated(OSC(d, p, k1, compact=True), pairs, trials, stored=stored)
    variance = (pairs - 1) / d**p
    each = (scores - 1).square().mean(1)
    assert each.mean().item() == pytest.approx(variance, abs=4 * each.std().item() / math.sqrt(trials))
    assert each.std().item() / math.sqrt(trials) < 0.04 * variance  # the test would see an excess of a sixth
    means = scores.mean(1)
    assert means.mean().item() == pytest.approx(1, abs=4 * means.std().item() / math.sqrt(trials))


GRID = [
    # d, p, k1, pairs and vocabulary: from half of the answers right to nearly all
    (50, 2, None, 200),
    (60, 2, None, 200),
    (70, 2, 5, 200),
    (80, 2, None, 400),
    (100, 2, None, 400),
    (100, 2, 14, 500),
    (120, 2, None, 500),
    (14, 3, None, 200),
    (16, 3, None, 200),
    (20, 3, 4, 400),
    (22, 3, 5, 400),
    (24, 3, 6, 400),
    (12, 3, 5, 100),
]


def compared(d, p, k1, pairs, trials):
    """The mean difference of the shares recalled, compact less ordinary, and its standard error."""
    ordinary, compact = (simulated(OSC(d, p, k1, compact=own), pairs, trials)[1] for own in (False, True))
    assert 0.4 < ordinary.mean() < 0.999
    difference = compact - ordinary
    return difference.mean().item(), difference.std().item() / math.sqrt(trials)


@pytest.mark.parametrize(("d", "p", "k1", "pairs"), [GRID[2], GRID[9]])
def test_compact_fillers_are_recalled_as_well_as_ordinary_ones(d, p, k1, pairs):
    mean, error = compared(d, p, k1, pairs, 8)
    assert mean > -4 * error - 0.002


@pytest.mark.slow
@pytest.mark.parametrize(("d", "p", "k1", "pairs"), GRID)
def test_compact_fillers_are_recalled_as_well_as_ordinary_ones_over_a_grid(d, p, k1, pairs):
    mean, error = compared(d, p, k1, pairs, 40)
    assert mean > -3 * error - 0.002
    assert error < 0.01


def drawn_fillers(vocabulary, pairs, zipf):
    shares = 1 / torch.arange(1, vocabulary + 1, dtype=torch.float64) if zipf else torch.ones(vocabulary)
    return torch.multinomial(shares, pairs, replacement=True, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("zipf", [False, True], ids=["uniform", "Zipf"])
@pytest.mark.parametrize("vocabulary", [20, 300])
def test_reused_fillers_are_recalled_as_well_as_distinct_ones(vocabulary, zipf):
    scheme, pairs = OSC(180, 2, compact=True), 1_000
    _, distinct = simulated(scheme, pairs, 2)
    _, reused = simulated(scheme, pairs, 2, vocabulary, drawn_fillers(vocabulary, pairs, zipf))
    assert distinct.mean() > 0.97
    # 0.993 with a deviation of 0.0015 over seeds, at least
    assert reused.mean() >= max(0.987, distinct.mean().item() - 0.005)


def recalled(scheme, paths, fillers, held):
    memory, ready = scheme.trace(paths, fillers[held]), scheme.precompute(fillers)
    found = torch.cat(
        [scheme.score(memory, paths[s : s + 1_000], ready).argmax(1) for s in range(0, len(paths), 1_000)]
    )
    return found.eq(held).double().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("fillers", ["distinct", "uniform", "Zipf"])
def test_ten_thousand_pairs_in_seven_hundred_thousand_numbers(fillers):
    scheme, count = OSC(76, 3, k1=8, compact=True), 10_000
    vocabulary = count if fillers == "distinct" else 1_000
    assert scheme.facts.memory_scalars + count * scheme.facts.filler_scalars <= 700_000
    held = torch.arange(count) if fillers == "distinct" else drawn_fillers(vocabulary, count, fillers == "Zipf")
    assert recalled(scheme, [(i,) for i in range(count)], scheme.fillers(range(vocabulary)), held) >= 0.99


# Contexts of different loudness


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_loudness_has_a_mean_square_of_one_and_stays_within_its_bounds(spread, compact):
    scheme = OSC(3, 2, k1=1, compact=compact, spread=spread, dtype=torch.float64)
    paths = [("place", i) for i in range(4_000)]
    loud = scheme.contexts(paths).amplitudes
    square = loud.square()
    assert square.mean().item() == pytest.approx(1, abs=4 * square.std().item() / math.sqrt(4_000))
    assert square.max() / square.min() <= math.exp(4 * spread) * (1 + 1e-12)
    assert square.max() / square.min() > math.exp(3.9 * spread)
    # Even on a scale of decibels, and the sign has nothing to do with it.
    level = loud.abs().log()
    places = (level - level.min()) / (level.max() - level.min())
    assert (places.sort().values - torch.linspace(0, 1, 4_000, dtype=torch.float64)).abs().max() < 1.95 / math.sqrt(
        4_000
    )
    assert abs(torch.corrcoef(torch.stack([level, loud.sign()]))[0, 1].item()) < 4 / math.sqrt(4_000)
    plain = OSC(3, 2, k1=1, compact=compact, dtype=torch.float64).contexts(paths)
    assert_close(loud.sign(), plain.amplitudes, rtol=0, atol=0)
    assert_close(scheme.contexts(paths).basis, plain.basis, rtol=0, atol=0)


@pytest.mark.parametrize("scheme", [variant for variant in VARIANTS if variant.spread], ids=str)
def test_loud_contexts_are_read_exactly_and_have_their_energy(scheme, double, pairs):
    contexts, fillers = pairs(double, 4)
    assert not double.facts.adjoint
    energy = double.energy(contexts, fillers).expand(4, 4)
    for place in range(4):
        one, alone = contexts[place], double.trace(contexts[place], fillers[place : place + 1])
        core = double.encode(fillers[place : place + 1], one)
        assert_close(double.read(alone, one), core, **EXACT)
        assert_close(double.score(alone, one, fillers[place : place + 1]).item(), 1.0, **EXACT)
        assert_close(energy[place], alone.square().sum().expand(4), **EXACT)
        assert_close(energy[place, 0], contexts.amplitudes[place].square(), **EXACT)
        assert_close(double.adjoint(alone, one), double.adjoint_write(core, one), **EXACT)


@pytest.mark.parametrize(
    "scheme",
    [OSC(60, 2, compact=True), OSC(22, 3, compact=True), OSC(60, 2, spread=0.7), OSC(22, 3, compact=True, spread=1.0)],
    ids=str,
)
@pytest.mark.parametrize("zipf", [False, True], ids=["even", "Zipf"])
def test_probabilities_mean_what_they_say(scheme, zipf):
    """Of answers with a probability of x, a share of x is right: in half of the questions nothing is stored."""
    values = [int(97 ** (i / 400)) for i in range(400)] if zipf else [(i * i * 31) % 97 for i in range(400)]
    chances, right = [], []
    for seed in range(4):
        memory = Memory(scheme.like(seed=seed))
        memory.store([(("there", i), value) for i, value in enumerate(values)])
        answers = memory.recall_many([("there", i) for i in range(400)] + [("nowhere", i) for i in range(400)])
        chances += [answer.probability for answer in answers]
        right += [answer.found and answer.value == value for answer, value in zip(answers, values, strict=False)]
        right += [not answer for answer in answers[400:]]
    chance, truth = torch.tensor(chances, dtype=torch.float64), torch.tensor(right, dtype=torch.float64)
    assert 0.5 < truth.mean() < 0.99
    for low, high in ((0, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        inside = (chance >= low) & (chance < high)
        if inside.sum() >= 20:
            error = (truth[inside].mean() - chance[inside].mean()).abs()
            # As for ordinary fillers: three standard errors, and the three points that the model may be off.
            assert error < 3 * math.sqrt((chance[inside] * (1 - chance[inside])).mean() / inside.sum()) + 0.03


def test_several_compact_fillers_of_one_context_are_found():
    scheme = OSC(40, 3, compact=True)
    contexts, fillers = scheme.contexts([(i,) for i in range(20)]), scheme.fillers(range(50))
    held = [(place, (3 * place + i) % 50) for place in range(20) for i in range(3)]
    rows, values = torch.tensor(held).T
    memory = scheme.trace(contexts[rows], fillers[values])
    variance = memory.square().sum() / memory.numel()
    odds = Likelihood(variance.expand(50), torch.full((50,), -math.log(50)), memory.square().sum().item())
    found = SetDecoder(scheme, fillers, odds).recall(memory, contexts, 0.0)
    assert set(zip(found.rows.tolist(), found.indices.tolist(), strict=True)) == set(held)


@pytest.mark.parametrize("options", [dict(compact=True), dict(compact=False), dict(compact=True, spread=0.5)])
def test_sets_are_the_same_however_much_is_done_at_once(options):
    """Codes are held, or made anew for every chunk; candidates are scanned all at once, or a few at a time."""
    answers = []
    for workspace in (2**25, 2**18, 2**15):
        scheme = OSC(40, 3, 8, **options, workspace=workspace)
        contexts, fillers = scheme.contexts([(i,) for i in range(40)]), scheme.fillers(range(300))
        rows, values = torch.arange(40).repeat_interleave(3), torch.arange(120) * 7 % 300
        rows, values = (
            torch.cat((rows, rows.new_zeros(40))),
            torch.cat((values, torch.arange(1, 80, 2))),
        )  # one holds 43
        memory = scheme.trace(contexts[rows], fillers[values])
        odds = Likelihood(memory.var().expand(300), torch.full((300,), -math.log(300)), memory.square().sum().item())
        assert (scheme.precompute(fillers).kind == "codes") == (options["compact"] and workspace > 2**15)
        answers.append(SetDecoder(scheme, fillers, odds).recall(memory, contexts, 0.0))
    truth = set(zip(rows.tolist(), values.tolist(), strict=True))
    for answer in answers:
        found = set(zip(answer.rows.tolist(), answer.indices.tolist(), strict=True))
        assert len(found & truth) > 0.9 * len(found | truth)
        assert torch.equal(answer.rows, answers[0].rows) and torch.equal(answer.indices, answers[0].indices)
        assert_close(answer.strengths, answers[0].strengths, rtol=1e-4, atol=1e-4)
        assert_close(answer.log_odds, answers[0].log_odds, rtol=1e-3, atol=1e-3)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(compact=1), TypeError, "compact must be True or False, got 1"),
        (dict(compact="yes"), TypeError, "compact must be True or False, got 'yes'"),
        (dict(compact=True, signed=False), ValueError, "signed=False conflicts with compact=True"),
        (dict(compact=True, k1=8), ValueError, "k1 must be an integer between 1 and 7, got 8"),
        (dict(spread=-0.1), ValueError, "spread must be a number from 0 to 4, got -0.1. With 0 all contexts"),
        (dict(spread=4.5), ValueError, "spread must be a number from 0 to 4, got 4.5"),
        (dict(spread=math.nan), ValueError, "spread must be a number from 0 to 4, got nan"),
        (dict(spread=True), TypeError, "spread must be a number, got True"),
        (dict(spread="1"), TypeError, "spread must be a number, got '1'"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        OSC(8, **arguments)


def test_candidates_of_another_form_are_refused():
    compact, ordinary = OSC(30, 2, compact=True), OSC(30, 2)
    contexts, memory = compact.contexts([("a",)]), compact.zeros()
    with pytest.raises(ValueError, match=r"candidates must have shape \(any, 2, 5\), got \(4, 2, 30\)"):
        compact.score(memory, contexts, ordinary.fillers(range(4)))
    with pytest.raises(ValueError, match=r"candidates must have shape \(any, 25\), got \(4, 24\)"):
        compact.score(memory, contexts, Candidates(torch.zeros(4, 24), "codes"))
    with pytest.raises(ValueError, match=r"candidates must have shape \(any, 0\), got \(4, 25\)"):
        ordinary.score(memory, ordinary.contexts([("a",)]), compact.precompute(compact.fillers(range(4))))
    with pytest.raises(ValueError, match="candidates must have shape"):
        compact.precompute(torch.zeros(3, 4, 2, 5))
