"""Laws of the protocol, over every scheme, and what it refuses."""

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, ContextCache

NEAR = dict(rtol=0, atol=1e-10)


def test_traces_of_two_batches_add(double, pairs):
    contexts, fillers = pairs(double, 6)
    parts = double.trace(contexts[:4], fillers[:4]) + double.trace(contexts[4:], fillers[4:])
    assert_close(double.trace(contexts, fillers), parts, **NEAR)


def test_a_pair_of_weight_minus_one_forgets(double, pairs):
    contexts, fillers = pairs(double, 6)
    all_six = double.trace(contexts, fillers)
    last = double.trace(contexts[5:], fillers[5:], torch.tensor([-1.0], dtype=torch.float64))
    assert_close(all_six + last, double.trace(contexts[:5], fillers[:5]), **NEAR)


def test_the_order_of_pairs_does_not_matter(double, pairs):
    contexts, fillers = pairs(double, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(double.trace(contexts[order], fillers[order]), double.trace(contexts, fillers), **NEAR)


def test_a_trace_is_what_write_makes_of_encode(double, pairs):
    contexts, fillers = pairs(double, 6)
    assert_close(double.write(double.encode(fillers, contexts), contexts), double.trace(contexts, fillers), **NEAR)


def test_a_score_is_what_match_makes_of_read(double, pairs):
    contexts, fillers = pairs(double, 6)
    memory = double.trace(contexts, fillers)
    cores = double.read(memory, contexts)
    expected = torch.einsum("nx,nlx->nl", cores.flatten(1), each_encoded(double, fillers, contexts).flatten(2))
    assert_close(double.score(memory, contexts, fillers), expected, **NEAR)
    assert_close(double.match(cores, contexts, fillers), expected, **NEAR)


def each_encoded(scheme, fillers, contexts):
    """Every filler's core in every context: (contexts, fillers, *core)."""
    rows = []
    for place in range(len(contexts)):
        same = contexts[[place] * len(fillers)]
        rows.append(scheme.encode(fillers, same))
    return torch.stack(rows)


def test_read_is_the_transpose_of_write_where_the_scheme_says_so(double, pairs, generator):
    contexts, _ = pairs(double, 5)
    cores = torch.randn(5, *double.core_shape, generator=generator, dtype=torch.float64)
    memory = torch.randn(double.memory_shape, generator=generator, dtype=torch.float64)
    one = (double.write(cores, contexts) * memory).sum()
    other = (cores * double.read(memory, contexts)).sum()
    assert double.adjoint == bool(torch.isclose(one, other, rtol=1e-9))


def test_a_single_pair_is_recognised_with_score_one(double, pairs):
    contexts, fillers = pairs(double, 1)
    assert double.score(double.trace(contexts, fillers), contexts, fillers).item() == pytest.approx(1)


def test_a_small_workspace_changes_nothing(scheme, pairs):
    small = OSC(scheme.d, scheme.p, scheme.k1, scheme.signed, scheme.seed, torch.float64, workspace=2_000)
    large = OSC(scheme.d, scheme.p, scheme.k1, scheme.signed, scheme.seed, torch.float64)
    contexts, fillers = pairs(large, 30)
    weights = torch.linspace(-1, 1, 30, dtype=torch.float64)
    memory = large.trace(contexts, fillers, weights)
    cores = large.read(memory, contexts)
    assert_close(small.trace(contexts, fillers, weights), memory, **NEAR)
    assert_close(small.read(memory, contexts), cores, **NEAR)
    assert_close(small.write(cores, contexts), large.write(cores, contexts), **NEAR)
    assert_close(small.score(memory, contexts, fillers), large.score(memory, contexts, fillers), **NEAR)
    own = fillers.expand(30, *fillers.shape)
    assert_close(small.score(memory, contexts, own), large.score(memory, contexts, own), **NEAR)
    assert_close(small.fillers(range(30)), fillers, **NEAR)


def test_paths_and_labels_will_do_for_contexts_and_fillers(scheme, pairs):
    contexts, fillers = pairs(scheme, 7)
    paths, labels = [("place", i) for i in range(7)], list(range(7))
    memory = scheme.trace(contexts, fillers)
    assert_close(scheme.trace(paths, labels), memory)
    assert_close(scheme.score(memory, paths, fillers), scheme.score(memory, contexts, fillers))


def test_schemes_are_equal_by_what_they_do_not_by_where():
    assert OSC(20) == OSC(20, dtype=torch.float64, workspace=1) and hash(OSC(20)) == hash(OSC(20, workspace=1))
    for other in (OSC(21), OSC(20, 3), OSC(20, k1=5), OSC(20, signed=False), OSC(20, seed=1)):
        assert OSC(20) != other


# Contexts


def test_contexts_are_sliced_indexed_and_moved(scheme, pairs):
    contexts, _ = pairs(scheme, 6)
    assert len(contexts) == 6
    assert [len(contexts[rows]) for rows in (2, -1, slice(1, 4), [0, 0, 5], torch.tensor([1]))] == [
        1,
        1,
        3,
        3,
        1,
    ]
    assert_close(contexts[-1].basis, contexts.basis[5:])
    assert_close(contexts[[4, 1]].basis, contexts.basis[[4, 1]])
    assert contexts.to(torch.float64).basis.dtype == torch.float64
    assert len(list(contexts)) == 6
    assert contexts.nbytes == contexts.basis.nbytes + contexts.signs.nbytes
    with pytest.raises(IndexError, match="there are 6 contexts, got row 6"):
        contexts[6]
    with pytest.raises(AttributeError):
        contexts.basis = None


def test_a_cache_answers_like_the_scheme(scheme):
    one = scheme.contexts([("a",)]).nbytes
    cache = ContextCache(scheme, limit=4 * one)
    for numbers in ([0, 1, 0], [1, 2, 3], [4], [0, 4, 3, 4], [0, 1, 2, 3, 4, 5]):
        paths = [("place", i) for i in numbers]
        found, expected = cache.contexts(paths), scheme.contexts(paths)
        assert_close(found.basis, expected.basis, rtol=0, atol=0)
        assert_close(found.signs, expected.signs, rtol=0, atol=0)
        assert len(cache) <= 4


def test_a_cache_makes_a_context_once_and_drops_the_longest_unused(monkeypatch):
    scheme = OSC(10)
    cache = ContextCache(scheme, limit=2 * scheme.contexts([("a",)]).nbytes)
    cache.contexts([("a",)])
    made = []
    monkeypatch.setattr(
        OSC, "_contexts", lambda self, paths, plain=OSC._contexts: made.extend(paths) or plain(self, paths)
    )
    for label in ("a", "b", "a", "c", "a", "b"):
        cache.contexts([(label,)])
    assert made == [("b",), ("c",), ("b",)]


def test_changing_what_a_cache_gave_does_not_change_the_cache():
    cache = ContextCache(OSC(10))
    cache.contexts([("a",)]).basis.zero_()
    assert cache.contexts([("a",)]).basis.abs().sum() > 0


# Bad input


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s, c, f, m: s.contexts([]), ValueError, "paths must not be empty"),
        (lambda s, c, f, m: s.contexts([()]), ValueError, "a path must name at least one role"),
        (
            lambda s, c, f, m: s.contexts("subject"),
            TypeError,
            r"paths must be a list, got 'subject'; .* \['subject'\]",
        ),
        (
            lambda s, c, f, m: s.contexts(["subject"]),
            TypeError,
            r"a path must be a tuple of labels.*\('subject',\)",
        ),
        (
            lambda s, c, f, m: s.contexts([("a", ["b"])]),
            TypeError,
            r"a label must be .* got \['b'\] of type list",
        ),
        (lambda s, c, f, m: s.fillers([]), ValueError, "labels must not be empty"),
        (lambda s, c, f, m: s.fillers("dog"), TypeError, "labels must be a list"),
        (lambda s, c, f, m: s.fillers([object()]), TypeError, "a label must be"),
        (
            lambda s, c, f, m: s.trace(c, f[:2]),
            ValueError,
            r"fillers must have shape \(3, 2, 20\), got \(2, 2, 20\)",
        ),
        (lambda s, c, f, m: s.trace(c, ["a"]), ValueError, "got 3 contexts and 1 labels"),
        (
            lambda s, c, f, m: s.trace(c, f, torch.ones(2)),
            ValueError,
            r"weights must have shape \(3\), got \(2\)",
        ),
        (lambda s, c, f, m: s.trace(c, f, [1, 1, 1]), TypeError, "weights must be a tensor"),
        (lambda s, c, f, m: s.encode(f[:1], c), ValueError, "fillers must have shape"),
        (
            lambda s, c, f, m: s.write(f, c),
            ValueError,
            r"cores must have shape \(3, 4, 4\), got \(3, 2, 20\)",
        ),
        (
            lambda s, c, f, m: s.read(m[:, 1:], c),
            ValueError,
            r"memory must have shape \(20, 20\), got \(20, 19\)",
        ),
        (lambda s, c, f, m: s.score(m.unsqueeze(0), c, f), ValueError, r"memory must have shape \(20, 20\)"),
        (lambda s, c, f, m: s.score(m, c, f[:, :1]), ValueError, r"\(any, 2, 20\), got \(3, 1, 20\)"),
        (
            lambda s, c, f, m: s.score(m, c, f[:0]),
            ValueError,
            r"candidates must have shape \(any, 2, 20\), got \(0",
        ),
        (
            lambda s, c, f, m: s.score(m, c, f.expand(2, 3, 2, 20)),
            ValueError,
            r"candidates must have shape \(3, any",
        ),
        (lambda s, c, f, m: ContextCache(s, limit=0), ValueError, "limit must be an integer of at least 1"),
    ],
)
def test_bad_input_is_refused_with_what_was_wanted(call, error, message):
    scheme = OSC(20)
    contexts, fillers = scheme.contexts([(i,) for i in range(3)]), scheme.fillers(range(3))
    memory = scheme.trace(contexts, fillers)
    before = memory.clone()
    with pytest.raises(error, match=message):
        call(scheme, contexts, fillers, memory)
    assert torch.equal(memory, before)
