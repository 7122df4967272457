"""Laws of the protocol, over every scheme, and what it refuses."""

import math
import pickle

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, SCHEMES, TPR, Memory, make, register, top
from carving.errors import BadValue, UnknownScheme
from carving.schemes import _MAKERS

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
    expected = double.match(double.read(memory, contexts), contexts, fillers)
    assert_close(double.score(memory, contexts, fillers), expected, **NEAR)


def test_scores_rank_like_inner_products_with_the_encoded_candidates(double, pairs):
    """Up to the norms that a cosine divides by: <read, encode> / |encode| is the score times a number a context."""
    row = getattr(double, "row", None)  # of an architecture
    aim, overlap = getattr(row, "aim", None), getattr(row, "overlap", False)
    contexts, fillers = pairs(double, 6)
    memory = double.trace(contexts, fillers)
    cores, scores = double.read(memory, contexts), double.score(memory, contexts, fillers)
    for place in range(6):
        # Some compare with what each index is worth to a candidate, not with the candidate.
        encoded = aim(double.space, fillers) if aim else double.encode(fillers, contexts[[place] * 6])
        inner = torch.stack([dot(cores[place], one) for one in encoded])
        size = encoded.abs().square().flatten(1).sum(1)
        inner = inner / (size if overlap else size.sqrt())
        ratio = scores[place].abs().max() / inner.abs().max()
        assert_close(scores[place], inner * ratio, rtol=1e-8, atol=1e-8)


def dot(one, other):
    """The real inner product."""
    return (one * other.conj()).sum().real


def test_read_is_the_transpose_of_write_where_the_scheme_says_so(double, pairs, generator):
    contexts, _ = pairs(double, 5)
    dtype = double.facts.memory_dtype
    cores = torch.randn(5, *double.facts.core_shape, generator=generator, dtype=dtype)
    memory = torch.randn(double.facts.memory_shape, generator=generator, dtype=dtype)
    one, other = dot(double.write(cores, contexts), memory), dot(cores, double.read(memory, contexts))
    assert double.facts.adjoint == bool(torch.isclose(one, other, rtol=1e-9))


def test_a_single_pair_is_read_exactly_where_the_scheme_says_so(double, pairs):
    contexts, fillers = pairs(double, 1)
    core = double.encode(fillers, contexts)
    found = double.read(double.trace(contexts, fillers), contexts)
    cosine = dot(core, found) / (dot(core, core) * dot(found, found)).sqrt()
    if double.facts.exact:
        assert cosine.item() == pytest.approx(1, abs=1e-9)
        assert double.score(double.trace(contexts, fillers), contexts, fillers).item() == pytest.approx(1, abs=1e-9)
    else:
        assert cosine.item() < 0.99


def test_fillers_look_the_same_in_every_context_where_the_scheme_says_so(double, pairs):
    contexts, fillers = pairs(double, 9)
    first, *others = double.encode(fillers[[0] * 9], contexts)
    assert all(torch.equal(first, other) for other in others) != double.facts.contextual
    cores = double.read(double.trace(contexts, fillers), contexts)
    if double.facts.contextual:
        with pytest.raises(ValueError, match="contexts must not be None"):
            double.match(cores, None, fillers)
    else:
        assert_close(double.match(cores, None, fillers), double.match(cores, contexts, fillers), **NEAR)


@pytest.mark.parametrize("name", SCHEMES)
def test_few_pairs_are_recalled(name, pairs):
    scheme = make(name, d=1_024)
    contexts, fillers = pairs(scheme, 5)
    found = scheme.score(scheme.trace(contexts, fillers), contexts, fillers)
    assert found.argmax(1).tolist() == [0, 1, 2, 3, 4]


FOR_ANY_DEPTH = {"TPR": {"whole_path": True}}


def test_the_order_of_roles_counts_and_a_repeated_role_does_not_cancel():
    for name in SCHEMES:
        scheme = make(name, d=256, **FOR_ANY_DEPTH.get(name, {}))
        paths = [("left", "right"), ("right", "left"), ("left", "left"), ("left",)]
        fillers = scheme.fillers(["a"])
        memory = scheme.trace(paths[:1], fillers)
        scores = scheme.score(memory, paths, fillers).flatten()
        assert scores[0] > 1.3 * scores[1:].abs().max(), name  # thinning keeps part of a path that begins alike


def test_a_small_workspace_changes_nothing(double, pairs):
    small, large = double.like(workspace=2_000), double
    contexts, fillers = pairs(large, 12)
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64)
    memory = large.trace(contexts, fillers, weights)
    cores = large.read(memory, contexts)
    assert_close(small.trace(contexts, fillers, weights), memory, **NEAR)
    assert_close(small.read(memory, contexts), cores, **NEAR)
    assert_close(small.write(cores, contexts), large.write(cores, contexts), **NEAR)
    assert_close(small.score(memory, contexts, fillers), large.score(memory, contexts, fillers), **NEAR)
    own = fillers.expand(12, *fillers.shape)
    assert_close(small.score(memory, contexts, own), large.score(memory, contexts, fillers), **NEAR)
    assert_close(small.fillers(range(12)), fillers, rtol=0, atol=0)


def test_paths_and_labels_will_do_for_contexts_and_fillers(scheme, pairs, path):
    contexts, fillers = pairs(scheme, 7)
    paths, labels = [path(scheme, i) for i in range(7)], list(range(7))
    memory = scheme.trace(contexts, fillers)
    assert_close(scheme.trace(paths, labels), memory)
    assert_close(scheme.score(memory, paths, fillers), scheme.score(memory, contexts, fillers))


def test_schemes_are_equal_by_what_they_do_not_by_where():
    assert OSC(20) == OSC(20, dtype=torch.float64, workspace=1) and hash(OSC(20)) == hash(OSC(20, workspace=1))
    for other in (OSC(21), OSC(20, 3), OSC(20, k1=5), OSC(20, signed=False), OSC(20, seed=1)):
        assert OSC(20) != other


# Contexts


def tensors(contexts):
    return list(contexts.tensors.values())


def test_contexts_are_sliced_indexed_and_moved(scheme, pairs):
    contexts, _ = pairs(scheme, 6)
    assert len(contexts) == 6
    assert [len(contexts[rows]) for rows in (2, -1, slice(1, 4), [0, 0, 5], torch.tensor([1]))] == [1, 1, 3, 3, 1]
    for part, whole in zip(tensors(contexts[[4, 1]]), tensors(contexts), strict=True):
        assert torch.equal(part, whole[[4, 1]])
    for part, whole in zip(tensors(contexts[-1]), tensors(contexts), strict=True):
        assert torch.equal(part, whole[5:])
    assert len(list(contexts)) == 6
    copied = pickle.loads(pickle.dumps(contexts))
    assert type(copied) is type(contexts)
    assert all(torch.equal(one, other) for one, other in zip(*map(tensors, (copied, contexts)), strict=True))
    assert contexts.to("cpu").nbytes == contexts.nbytes == sum(tensor.nbytes for tensor in tensors(contexts))
    with pytest.raises(IndexError, match="row 6 is out of range for 6 contexts"):
        contexts[6]
    with pytest.raises(AttributeError):
        contexts.anything = None


def test_strided_memories_and_contexts_are_read_like_contiguous_ones(double, pairs):
    contexts, fillers = pairs(double, 6)
    memory = double.trace(contexts, fillers)
    strided = torch.stack((memory, memory), dim=-1)[..., 0]
    expected = double.score(memory, contexts[[0, 2, 4]], fillers)
    assert_close(double.score(strided, contexts[::2], fillers), expected, **NEAR)
    assert_close(
        double.trace(contexts[::2], fillers[::2]), double.trace(contexts[[0, 2, 4]], fillers[[0, 2, 4]]), **NEAR
    )


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the largest tensor that an operation makes."""

    def __init__(self):
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                fresh = tensor.untyped_storage().data_ptr() not in self.given
                self.nbytes = max(self.nbytes, tensor.untyped_storage().nbytes() if fresh else 0)
        return made

    def watch(self, *given):
        self.given = {tensor.untyped_storage().data_ptr() for tensor in given}
        return self


def test_nothing_larger_than_the_workspace_is_made_beside_the_result(scheme, pairs, path):
    size, few, many = 2**14, 5, 40
    small = scheme.like(workspace=size)
    contexts, fillers = pairs(small, few)
    memory = small.trace(contexts, fillers)
    candidates = small.fillers(range(many))
    result = few * many * 4
    with Largest().watch(memory, candidates, *tensors(contexts)) as scoring:
        small.score(memory, contexts, candidates)
    assert scoring.nbytes <= max(result, size)
    with Largest().watch(memory, candidates, *tensors(contexts)) as answering:
        top(small, memory, contexts, candidates, 3)
    assert answering.nbytes <= size


def test_nor_where_contexts_are_made_from_deep_paths(scheme, pairs):
    depth = getattr(scheme, "depth", 12)
    small = scheme.like(workspace=2**16)
    paths = [tuple(f"role {i} of {level}" for level in range(depth)) for i in range(40)]
    memory, candidates = small.zeros(), small.fillers(range(6))
    with Largest().watch(memory, candidates) as making:
        small.score(small.trace(paths, range(40)), paths, candidates)
    assert making.nbytes <= 2**16


# Bad input


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s, c, f, m: s.contexts([]), ValueError, "paths must not be empty"),
        (lambda s, c, f, m: s.contexts([()]), ValueError, "A path must name at least one role"),
        (
            lambda s, c, f, m: s.contexts("subject"),
            TypeError,
            r"paths must be a list, got 'subject'\. .* \['subject'\]",
        ),
        (
            lambda s, c, f, m: s.contexts(["subject"]),
            TypeError,
            r"A path must be a tuple of labels.*\('subject',\)",
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
        (lambda s, c, f, m: s.score(m[0], c, f), ValueError, r"memory must have shape \(20, 20\)"),
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
        (lambda s, c, f, m: s.trace([], []), ValueError, "paths must not be empty"),
        (lambda s, c, f, m: s.score(m, c[:0], f), ValueError, "contexts must not be empty"),
        (lambda s, c, f, m: s.score(m, [], f), ValueError, "paths must not be empty"),
        (
            lambda s, c, f, m: s.read(m.double(), c),
            TypeError,
            "memory must have dtype torch.float32, got torch.float64",
        ),
        (lambda s, c, f, m: s.read(m, OSC(21).contexts([("a",)])), ValueError, "contexts must belong to OSC"),
        (lambda s, c, f, m: s.read(m, make("HRR", d=20).contexts([("a",)])), ValueError, "contexts must belong to OSC"),
        (lambda s, c, f, m: OSC(20, device="gpu"), ValueError, "device must be a torch device"),
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


@pytest.mark.parametrize(
    ("scheme", "others"),
    [
        (OSC(20, 2), [dict(seed=1), dict(signed=False), dict(spread=0.5), dict(basis="gaussian"), dict(p=3)]),
        (TPR(16, 2), [dict(seed=1), dict(d=17)]),
        (make("HRR", d=64), [dict(seed=1)]),
        (make("HLB", d=64), [dict(seed=1)]),
    ],
    ids=["OSC", "TPR", "HRR", "HLB"],
)
def test_contexts_of_another_seed_or_setting_are_refused(scheme, others):
    paths = [("a", "b"), ("c", "d")]
    fillers = scheme.fillers(["x", "y"])
    memory = scheme.trace(scheme.contexts(paths), fillers)
    for changes in others:
        foreign = scheme.like(**changes).contexts(paths)
        with pytest.raises(BadValue, match="contexts must belong to"):
            scheme.score(memory, foreign, fillers)
    other = scheme.like(dtype=torch.float64)
    assert other.score(memory.double(), other.contexts(paths), fillers.double()).shape == (2, 2)


# Leading batch dimensions, gradients, torch.func


def batched(scheme, pairs, *batch, n=4):
    """Contexts (*batch, n), fillers, and memories of these."""
    count = math.prod(batch) * n
    contexts, fillers = pairs(scheme, count)
    contexts, fillers = contexts.reshape(*batch, n), fillers.unflatten(0, (*batch, n))
    return contexts, fillers, scheme.trace(contexts, fillers)


def test_batches_are_what_their_elements_are(double, pairs):
    contexts, fillers, memory = batched(double, pairs, 2, 3)
    shape, candidates = double.facts.memory_shape, fillers[0, 0]
    assert memory.shape == (2, 3, *shape) and contexts.shape == (2, 3, 4)
    cores, scores = double.read(memory, contexts), double.score(memory, contexts, candidates)
    own = double.score(memory, contexts, fillers.unsqueeze(2).expand(2, 3, 4, *fillers.shape[2:]))
    for one in ((0, 0), (1, 2)):
        alone, filler = contexts[one], fillers[one]
        assert alone.shape == (4,)
        assert_close(memory[one], double.trace(alone, filler), **NEAR)
        assert_close(cores[one], double.read(memory[one], alone), **NEAR)
        assert_close(double.encode(fillers, contexts)[one], double.encode(filler, alone), **NEAR)
        assert_close(double.write(cores, contexts)[one], double.write(cores[one], alone), **NEAR)
        assert_close(scores[one], double.score(memory[one], alone, candidates), **NEAR)
        assert_close(double.inner(cores, contexts, candidates)[one], double.inner(cores[one], alone, candidates))
        assert_close(own[one], double.score(memory[one], alone, filler), **NEAR)


def test_batches_broadcast(double, pairs):
    contexts, fillers, memory = batched(double, pairs, 3)
    first, candidates = contexts[(0,)], fillers[0]
    assert_close(double.trace(first, fillers)[1], double.trace(first, fillers[1]), **NEAR)
    weights = torch.tensor([1.0, 2.0, 0.0, -1.0], dtype=torch.float64)
    assert_close(double.trace(contexts, candidates, weights)[2], double.trace(contexts[(2,)], candidates, weights))
    assert_close(double.score(memory, first, candidates)[2], double.score(memory[2], first, candidates), **NEAR)
    assert_close(double.read(memory[0], contexts)[1], double.read(memory[0], contexts[(1,)]), **NEAR)
    more = double.add(memory.clone(), contexts, fillers)
    assert_close(more, 2 * memory, **NEAR)
    small = double.like(workspace=2_000)
    assert_close(small.score(memory, contexts, candidates), double.score(memory, contexts, candidates), **NEAR)
    with pytest.raises(BadValue, match="need as many memories"):
        double.add(memory[0], contexts, fillers)
    with pytest.raises(BadValue, match="Leading dimensions must broadcast"):
        double.trace(contexts, torch.stack((fillers[0], fillers[1])))


def test_vmap_maps_over_fillers_weights_and_memories(double, pairs):
    """Above one tile, too: a small workspace."""
    if double.facts.contextual and getattr(double, "row", None) is not None:
        pytest.skip("thinning looks at its values")
    small = double.like(workspace=2_000)
    contexts, fillers, memory = batched(small, pairs, 3)
    first, candidates = contexts[(0,)], small.fillers(range(9))
    traced = torch.func.vmap(lambda each: small.trace(first, each))(fillers)
    assert_close(traced, small.trace(first, fillers), **NEAR)
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4)
    weighted = torch.func.vmap(lambda each: small.trace(first, fillers[0], each))(weights)
    assert_close(weighted, small.trace(first, fillers[0], weights), **NEAR)
    scores = torch.func.vmap(lambda each: small.score(each, first, candidates))(memory)
    assert_close(scores, small.score(memory, first, candidates), **NEAR)
    own = torch.func.vmap(lambda each, some: small.score(each, first, some))(memory, fillers)
    assert_close(own[1], small.score(memory[1], first, fillers[1]), **NEAR)


def test_gradients_pass_through_small_tiles_as_through_large_ones(double, pairs):
    contexts, fillers = pairs(double, 5)
    if not (fillers.is_floating_point() or fillers.is_complex()) or not double.facts.linear:
        pytest.skip("discrete")
    grads = []
    for scheme in (double, double.like(workspace=2_000)):
        leaf, memory = fillers.clone().requires_grad_(), double.trace(contexts, fillers).requires_grad_()
        (scheme.score(memory + scheme.trace(contexts, leaf), contexts, leaf).square().sum()).backward()
        grads.append((leaf.grad, memory.grad))
    for one, other in zip(*grads, strict=True):
        assert_close(one, other, rtol=1e-8, atol=1e-8)
        assert one.abs().sum() > 0


# The registry


def test_a_registered_scheme_is_made_listed_and_loaded_by_name(tmp_path):
    class Narrow(OSC):
        name = "Narrow"

    assert "Narrow" not in SCHEMES
    with pytest.raises(UnknownScheme, match="Unknown scheme 'Narrow'"):
        make("Narrow", 20)
    known = dict(_MAKERS)
    try:
        assert register(Narrow) is Narrow and register(Narrow) is Narrow and "Narrow" in SCHEMES
        memory = Memory(make("Narrow", d=40, k1=5))
        memory.store([(("a",), "x"), (("b",), "y")])
        memory.save(tmp_path / "narrow.osc")
        again = Memory.load(tmp_path / "narrow.osc")
        assert type(again.scheme) is Narrow and again.recall("b").value == "y"
        with pytest.raises(BadValue, match="called 'OSC' already"):
            register(type("OSC", (OSC,), {}))
        with pytest.raises(TypeError, match=r"must be a subclass of carving\.Scheme"):
            register(OSC(20))
    finally:
        _MAKERS.clear()
        _MAKERS.update(known)
    with pytest.raises(
        UnknownScheme, match=r"narrow\.osc has a scheme that is not registered\. Unknown scheme 'Narrow'"
    ):
        Memory.load(tmp_path / "narrow.osc")
