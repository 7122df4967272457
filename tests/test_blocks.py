"""Block contexts against their definition, written out in plain Python; their statistics; their golden values."""

import hashlib
import math
import pickle
from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from carving import OSC, Memory, hashing
from carving.schemes.subspaces import Subspaces
from carving.symbols.codec import canonical_path

PATHS = [("sentence", number, "subject") for number in range(6)]


# Drawing: the definition from SHA-256 and NumPy's Philox on


def dealt(path, sizes, seed):
    """The signed permutations of a path, one of each size, by Fisher-Yates on a list."""
    prefix = b"carving 1\n" + canonical_path(("blocks", seed))
    digest = hashlib.sha256(prefix + canonical_path(path)).digest()
    philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
    (d,) = set(sizes)
    words = [int(word) for word in philox.random_raw(1 + math.ceil(len(sizes) * d / 2))]
    stream = sum(word << (64 * place) for place, word in enumerate(words[1:]))
    halves = [stream >> (32 * place) & (2**32 - 1) for place in range(len(sizes) * d)]
    permutations = []
    for part in range(len(sizes)):
        own, order = halves[part * d : part * d + d], list(range(d))
        for place in reversed(range(1, d)):
            other = (own[place] // 2) * (place + 1) // 2**31
            order[place], order[other] = order[other], order[place]
        permutations.append([~j if half % 2 else j for j, half in zip(order, own, strict=True)])
    return permutations, words[0]


@pytest.mark.parametrize(("d", "p", "compact"), [(7, 2, False), (64, 3, True), (200, 2, True), (4097, 1, False)])
def test_places_are_what_the_labels_bits_say(d, p, compact):
    scheme = OSC(d, p, compact=compact, seed=9)
    contexts = scheme.contexts(PATHS[:2])
    for path, places, amplitude in zip(PATHS, contexts.places, contexts.amplitudes, strict=False):
        expected, first = dealt(path, [d] * (p if compact else 1), 9)
        assert places.view(-1, d).tolist() == expected
        assert amplitude.item() == (-1 if first & 1 else 1)


@pytest.mark.parametrize("d", [1, 2, 9, 33_000])
def test_few_contexts_and_many_are_shuffled_alike(d):
    names = [canonical_path(path) for path in product(range(7), "abcdefg")]
    many, words = hashing.permutations(names, (d,), seed=3, purpose="blocks")
    one_by_one = [hashing.permutations([name], (d,), seed=3, purpose="blocks") for name in names]
    assert torch.cat([places for places, _ in one_by_one]).equal(many)
    assert (np.concatenate([first for _, first in one_by_one]) == words).all()


@pytest.mark.parametrize(("d", "k1"), [(6, 2), (7, 3), (20, 6), (5, 1), (12, 5)])
def test_the_basis_is_what_the_places_say(d, k1):
    contexts = OSC(d, 2, k1, dtype=torch.float64).contexts(PATHS)
    sizes = [d // k1 + (block < d % k1) for block in range(k1)]
    for places, basis in zip(contexts.places.tolist(), contexts.basis, strict=True):
        expected, start = torch.zeros(k1, d, dtype=torch.float64), 0
        for block, size in enumerate(sizes):
            for place in places[start : start + size]:
                expected[block, place if place >= 0 else ~place] = math.copysign(size**-0.5, place)
            start += size
        assert_close(basis, expected, rtol=0, atol=1e-15)
        assert_close(basis @ basis.T, torch.eye(k1, dtype=torch.float64), rtol=0, atol=1e-12)


GOLDEN = [  # scheme, places, amplitude of ("sentence 5", "subject")
    (OSC(6, 2), [-6, -2, -4, -3, -1, 4], 1.0),
    (OSC(6, 2, k1=5, seed=3), [-6, 1, 3, 2, 4, -1], -1.0),
    (
        OSC(7, 3, k1=3, compact=True, spread=1.0, seed=3),
        [-7, 1, 3, 2, 4, -1, -6, 2, -4, -7, 1, -6, 4, 0, 4, 5, 0, 3, 2, 1, 6],
        -0.5287837386,
    ),
]
GOLDEN_SCORES = [[0.9881418943, 1.0161103010, -0.6310021877], [0.8168348670, 0.9881419539, -0.2966946363]]


@pytest.mark.parametrize(("scheme", "places", "amplitude"), GOLDEN, ids=str)
def test_places_stay_as_they_are(scheme, places, amplitude):
    context = scheme.contexts([("sentence 5", "subject")])
    assert context.places.flatten().tolist() == places
    assert context.amplitudes.item() == pytest.approx(amplitude, abs=1e-6)


def test_places_of_large_spaces_stay_as_they_are():
    for d, dtype, places in (
        (5_000, torch.int16, [-2289, -731, -1802, -4404, -933, 656, -3579, 1832]),
        (40_000, torch.int32, [-27771, -26679, -29149, -4404, -32301, 37358, -21776, 20441]),
    ):
        context = OSC(d, 1).contexts([("sentence 5", "subject")])
        assert context.places.dtype == dtype and context.places[0, :8].tolist() == places
        own = context.places[0].long()
        assert torch.where(own < 0, ~own, own).sort().values.equal(torch.arange(d))


def test_scores_stay_as_they_are():
    scheme, paths = OSC(6, 2, compact=True), [("sentence 5", "subject"), ("sentence 5", "verb")]
    found = scheme.score(scheme.trace(paths, ["dog", "chased"]), paths, scheme.fillers(["dog", "chased", "cat"]))
    assert_close(found, torch.tensor(GOLDEN_SCORES), rtol=0, atol=1e-6)


def test_contexts_are_small():
    assert OSC(200, 2).contexts(PATHS[:1]).nbytes <= 404
    assert OSC(200, 2, compact=True).contexts(PATHS[:1]).nbytes <= 1024
    contexts = OSC(200, 2, compact=True).contexts(PATHS)
    assert contexts[2:4].to(torch.float64).places.dtype == torch.int16 and len(contexts[2:4]) == 2


def test_every_permutation_and_sign_is_as_likely():
    """20,000 contexts of three coordinates: 48 signed permutations; chi-squared of 47 degrees, mean 47, sd 9.7."""
    names = [canonical_path((number,)) for number in range(20_000)]
    places, _ = hashing.permutations(names, (3,), seed=4, purpose="blocks")
    code = (places.long() + 3) @ torch.tensor([36, 6, 1])
    _, counts = code.unique(return_counts=True)
    assert len(counts) == 48
    expected = len(names) / 48
    assert ((counts - expected) ** 2 / expected).sum().item() < 47 + 4 * math.sqrt(94)


def test_coordinates_share_blocks_as_chance_has_it():
    """Two coordinates lie in one block of size s with probability (s-1)/(d-1), and their signs are independent."""
    d, k1, count = 24, 4, 4_000
    basis = OSC(d, 1, k1).contexts([(number,) for number in range(count)]).basis
    onto = basis.mT @ basis  # 1/s where two coordinates share a block, with the product of their signs
    apart = ~torch.eye(d, dtype=torch.bool)
    together = (onto.abs() > 1e-6).double().mean(0)[apart]
    share = 5 / 23
    assert (together - share).abs().max() < 5 * math.sqrt(share * (1 - share) / count)
    assert onto.mean(0)[apart].abs().max() < 5 * math.sqrt(share / 36 / count)


# The verbs: the same as with the basis as dense rows, which is another code


def dense(scheme, contexts):
    """The same subspaces as a gaussian scheme holds them."""
    other = scheme.like(basis="gaussian")
    return other, Subspaces(contexts.basis, contexts.amplitudes, scheme=other.fingerprint)


SCHEMES = [
    OSC(d, p, k1, compact=compact, spread=spread, dtype=torch.float64, seed=3)
    for d, p, k1, compact, spread in product((7, 12), (1, 2, 3, 4), (1, 3, 5, 10), (False, True), (0.0, 0.5))
    if k1 < d and d**p < 3_000
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_all_verbs_agree_with_dense_rows(scheme):
    contexts, fillers = scheme.contexts(PATHS), scheme.fillers(range(20))
    other, rows = dense(scheme, contexts)
    memory = scheme.trace(contexts, fillers[:6])
    assert_close(memory, other.trace(rows, fillers[:6]))
    for some in (slice(0, 6), slice(2, 3)):
        assert_close(scheme.score(memory, contexts[some], fillers), other.score(memory, rows[some], fillers))
        assert_close(scheme.read(memory, contexts[some]), other.read(memory, rows[some]))
        assert_close(scheme.adjoint(memory, contexts[some]), other.adjoint(memory, rows[some]))
    own = fillers[torch.arange(24).view(6, 4) % 20]
    assert_close(scheme.score(memory, contexts, own), other.score(memory, rows, own))
    cores = scheme.encode(fillers[:6], contexts)
    assert_close(cores, other.encode(fillers[:6], rows))
    assert_close(scheme.write(cores, contexts), other.write(cores, rows))
    weights = torch.linspace(0, 1, 120, dtype=torch.float64).view(6, 20)
    assert_close(scheme.expected_core(weights, contexts, fillers), other.expected_core(weights, rows, fillers))


@pytest.mark.parametrize("layout", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)], ids=str)
def test_however_candidates_lie_scores_are_the_same(layout):
    scheme = OSC(30, 2)
    contexts, fillers = scheme.contexts(PATHS), scheme.fillers(range(700))
    memory = scheme.trace(contexts, fillers[:6])
    laid = fillers.permute(layout).contiguous().permute([layout.index(i) for i in range(3)])
    assert_close(scheme.score(memory, contexts, laid), scheme.score(memory, contexts, fillers))
    assert_close(scheme.trace(contexts, laid[:6]), memory)


def test_small_workspaces_change_nothing():
    for scheme in (OSC(20, 3), OSC(20, 3, compact=True), OSC(20, 2, carved=3)):
        small = scheme.like(workspace=20_000)
        contexts, fillers = scheme.contexts([(i,) for i in range(90)]), scheme.fillers(range(300))
        memory = scheme.trace(contexts, fillers[:90])
        assert_close(small.trace(contexts, fillers[:90]), memory)
        assert_close(small.score(memory, contexts, fillers), scheme.score(memory, contexts, fillers))


def test_contexts_that_were_asked_without_gradients_still_train():
    """What contexts keep from question to question must not be closed to training."""
    scheme = OSC(10, 2)
    contexts, fillers = scheme.contexts(PATHS), scheme.fillers(range(6))
    with torch.inference_mode():
        memory = scheme.trace(contexts, fillers)
        scheme.score(memory, contexts, fillers)
    fillers = fillers.clone().requires_grad_()
    scheme.score(scheme.trace(contexts, fillers), contexts, fillers).sum().backward()
    assert fillers.grad is not None and fillers.grad.abs().max() > 0


def test_the_basis_is_part_of_what_a_scheme_is():
    blocks, gaussian = OSC(20), OSC(20, basis="gaussian")
    assert blocks != gaussian and blocks.basis == "blocks" and OSC.paper(20) == gaussian.like(signed=False)
    with pytest.raises(ValueError, match="contexts must belong to"):
        gaussian.read(blocks.zeros(), blocks.contexts(PATHS))
    with pytest.raises(ValueError, match="basis must be one of 'gaussian', 'blocks', got 'normal'"):
        OSC(20, basis="normal")
    one, other = Memory(blocks), Memory(gaussian)
    for memory in (one, other):
        memory.store({"a": "x"})
    with pytest.raises(ValueError, match=r"they differ in basis \('blocks' and 'gaussian'\)"):
        one + other


# As many as gaussian ones


def test_what_they_keep_for_products_is_not_pickled():
    scheme = OSC(200, 2)
    contexts, fillers = scheme.contexts([("a",)]), scheme.fillers(range(10))
    fresh, scores = len(pickle.dumps(contexts)), scheme.score(scheme.trace(contexts, fillers[:1]), contexts, fillers)
    assert len(pickle.dumps(contexts)) == fresh < 2_000
    again = pickle.loads(pickle.dumps(contexts))
    assert torch.equal(scheme.score(scheme.trace(again, fillers[:1]), again, fillers), scores)


@pytest.mark.parametrize(("d", "p", "k1", "compact"), [(60, 2, 6, False), (60, 2, 8, True), (18, 3, 5, False)])
def test_they_recall_as_much(d, p, k1, compact):
    """400 pairs, 32 seeds each: the shares of right answers differ by chance alone (three standard errors)."""
    shares = torch.empty(2, 32)
    for row, basis in enumerate(("blocks", "gaussian")):
        for seed in range(32):
            scheme = OSC(d, p, k1, compact=compact, basis=basis, seed=seed)
            contexts, fillers = scheme.contexts([(i,) for i in range(400)]), scheme.fillers(range(400))
            scores = scheme.score(scheme.trace(contexts, fillers), contexts, fillers)
            shares[row, seed] = scores.argmax(1).eq(torch.arange(400)).float().mean()
    means, deviation = shares.mean(1), float((shares.var(1).sum() / 32).sqrt())
    assert 0.2 < means.min() < 0.99 and deviation < 0.01
    assert abs(means[0] - means[1]) < 3 * deviation
