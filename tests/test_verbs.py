"""The verbs beside binding: laws over every scheme that has them, and what those that have not say."""

import math
import pickle
import re

import pytest
import torch
from torch.testing import assert_close

from carving import OSC, TPR, VSA, make
from carving.schemes import CliffordTPR
from carving.schemes.architectures import ARCHITECTURES

SOME = [
    *(VSA(name, 64) for name in ARCHITECTURES),
    VSA("HRR", 63, unitary=True),
    VSA("MBAT", 64, form="rolled"),
    VSA("BSDC-SEG", 64, bundling="mode"),
    VSA("CGR", 64, bundling="mode"),
    VSA("CGR", 64, r=5),
    VSA("BSC", 64, memory="raw"),
    VSA("GHRR", 72, m=3),
]


@pytest.fixture(params=SOME, ids=lambda scheme: "-".join(map(str, [scheme.name, *scheme.options.values()])))
def vsa(request):
    return request.param


def alike(x, y):
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    return torch.allclose(x, y.to(x.dtype), rtol=1e-4, atol=1e-5)


def test_binding_with_the_inverse_is_unbinding(vsa, generator):
    x, roles = vsa.random(6, generator), vsa.random(6, generator)
    if vsa.row.inverse is None:
        with pytest.raises(AttributeError, match="has no inverse: "):
            vsa.inverse(roles)
        return
    assert alike(vsa.bind(x, vsa.inverse(roles)), vsa.unbind(x, roles))
    assert alike(vsa.bind(x, vsa.inverse(vsa.inverse(roles))), vsa.bind(x, roles))
    assert vsa.inverse(roles).dtype == roles.dtype


def test_only_thinning_and_matrices_have_no_inverse():
    none = {scheme.name for scheme in SOME if scheme.row.inverse is None}
    assert none == {"BSDC-CDT", "MBAT"} and VSA("MBAT", 64).row.inverse is not None


def test_binding_many_is_binding_one_after_the_other(vsa, generator):
    for count in (1, 2, 5, 8):
        x = vsa.random(3 * count, generator).unflatten(0, (3, count))
        assert alike(vsa.multibind(x), vsa.bind_path(x[:, 0], x[:, 1:]))
    with pytest.raises(ValueError, match="n >= 1"):
        vsa.multibind(x[:, :0])


def test_the_negative_cancels(vsa, generator):
    x = vsa.random(4, generator)
    assert alike(vsa.picture(vsa.negative(x)), -vsa.picture(x))


def test_the_empty_set_changes_no_bundle(vsa, generator):
    x = vsa.picture(vsa.random(1, generator))
    assert alike(vsa.bundle(torch.cat((x, vsa.empty(1)))), vsa.bundle(x))
    assert vsa.empty(2, 3).shape == (2, 3, *vsa.facts.memory_shape)


def test_atoms_are_normal_and_sums_become_so(vsa, generator):
    x = vsa.random(5, generator)
    assert alike(vsa.normalize(vsa.picture(x)), x) or vsa.name in ("HRR", "MBAT", "VTB", "HLB")
    assert torch.equal(vsa.normalize(x), x) or x.dtype != torch.bool
    normal = vsa.normalize(vsa.picture(x).sum(0))
    assert normal.dtype == x.dtype
    assert alike(vsa.normalize(normal), normal)
    if not vsa.row.overlap:  # it keeps what it was made of
        assert vsa.similarity(normal, x).min() > 0.05


def test_normal_vectors_have_the_size_of_atoms(vsa, generator):
    x = vsa.random(64, generator)
    ratio = vsa.picture(vsa.normalize(vsa.picture(x[:2]).sum(0))).abs().square().sum() / vsa.mean_bound_energy
    if not vsa.row.overlap:  # a union has more ones
        assert 0.5 < ratio < 3.1  # MAP-C's clipped numbers are up to three times as large as uniform ones


def test_blocks_of_ghrr_become_the_nearest_unitary_ones(generator):
    ghrr = VSA("GHRR", 72, m=3, dtype=torch.float64)
    x = ghrr.random(2, generator)
    total = x.sum(0)
    normal = ghrr.normalize(total)
    assert_close(normal @ normal.mH, torch.eye(3, dtype=normal.dtype).expand_as(normal))
    others = ghrr.random(200, generator)
    assert ((total - others).abs().square().sum((-3, -2, -1)) > (total - normal).abs().square().sum()).all()


def test_quantizing_is_hard_where_soft_is_pushed_to_the_end(vsa, generator):
    total = vsa.picture(vsa.random(3, generator)).sum(0)
    hard, soft = vsa.picture(vsa.hard_quantize(total)), vsa.soft_quantize(1e6 * total)
    there = total.abs() > 1e-3
    if vsa.row.segmented or (vsa.row.picture and vsa.row.complex):  # modes and rounded phases are harder
        assert (hard - total).abs().sum() > 0
    else:
        assert_close(hard[there], soft[there], rtol=1e-4, atol=1e-4)
    assert vsa.soft_quantize(total).abs().max() <= total.abs().max()


def test_the_cross_product_holds_every_pair(vsa, generator):
    x, y = vsa.random(3, generator), vsa.random(2, generator)
    pairs = torch.stack([vsa.bind(one, other) for one in x for other in y])
    product, slow = vsa.cross_product(x, y), vsa.bundle(pairs)
    if vsa.row.ties and vsa.row.picture is None and vsa._settles:  # an even number of pairs may tie, to rounding
        sums = vsa.picture(pairs).sum(0)
        product, slow = (torch.where(sums == 0, 0, v) for v in (product, slow))
    assert alike(product, slow)


def test_inner_products_are_those_of_pictures(vsa, generator):
    x = vsa.random(4, generator)
    if vsa.row.aim:
        assert_close(vsa.dot_similarity(x, x), vsa.similarity(x, x) * vsa.space.d)
        return
    one = vsa.picture(x).flatten(1)
    assert_close(vsa.dot_similarity(x, x), (one @ one.mH).real if one.is_complex() else one @ one.mT)


def test_equal_numbers_are_counted(vsa, generator):
    x = vsa.random(4, generator)
    mixed = vsa.randsel(x[0], x[1], 0.25, generator)
    counts = vsa.hamming_similarity(torch.stack((mixed, x[0])), x)
    slow = [[int((a == b).sum()) for b in x] for a in (mixed, x[0])]
    assert counts.tolist() == slow
    assert counts[1, 0] == math.prod(vsa.facts.filler_shape)


def test_selecting_keeps_the_shares_that_were_asked_for(generator):
    """Numbers (of GHRR whole blocks) come from each vector as often as a binomial says, within five deviations."""
    for vsa in (VSA("MAP-C", 4096), VSA("HLB", 4096), VSA("GHRR", 8 * 512)):
        x = vsa.random(3, generator)
        shares = torch.tensor([0.5, 0.2, 0.3])
        mixed = vsa.multirandsel(x, shares.tolist(), generator)
        same = (mixed == x).flatten(2).all(-1) if x.dim() > 2 else mixed == x
        assert same.any(0).all()
        n = same.shape[1]
        spread = (shares * (1 - shares) / n).sqrt()
        assert ((same.double().mean(1) - shares).abs() < 5 * spread).all()
        assert vsa.multirandsel(x.expand(2, *x.shape), generator=generator).shape == (2, *vsa.facts.filler_shape)
    with pytest.raises(ValueError, match="3 probabilities that sum to 1"):
        vsa.multirandsel(x, (0.5, 0.6, 0.2), generator)
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator"):
        vsa.randsel(x[0], x[1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        vsa.randsel(x[0], x[1], 1.5, generator)
    for vsa in (VSA("MAP-C", 4096), VSA("GHRR", 8 * 512)):
        x = vsa.random(2, generator)
        mixed = vsa.randsel(x[0], x[1], 0.2, generator)
        same = (mixed == x).flatten(2).all(-1) if x.dim() > 2 else mixed == x
        assert same.any(0).all()
        assert abs(float(same[0].double().mean()) - 0.2) < 5 * math.sqrt(0.16 / same.shape[1])


# Schemes whose roles are contexts, and TPR


@pytest.mark.parametrize(
    "scheme", [OSC(12, 2), OSC(12, 3, compact=True), OSC.paper(12), make("CliffordOSC", 12)], ids=repr
)
def test_what_contexts_bind_are_traces(scheme, generator):
    paths, fillers = [("a", i) for i in range(4)], scheme.random(4, generator)
    bound = scheme.bind(fillers, paths)
    assert bound.shape == (4, *scheme.facts.memory_shape)
    assert_close(scheme.bundle(bound), scheme.trace(paths, fillers))
    assert_close(scheme.bundle(torch.stack((bound[0], scheme.negative(bound[0])))), scheme.empty())
    assert_close(scheme.unbind(bound[0], paths[:1]), scheme.encode(fillers[:1], paths[:1]))
    assert_close(scheme.similarity(bound, bound).diagonal(), torch.ones(4))
    assert_close(scheme.dot_similarity(2 * bound, bound), 2 * scheme.similarity(bound, bound))
    assert_close(scheme.normalize(3 * bound), bound)
    with pytest.raises(ValueError, match="memories must have shape"):
        scheme.bundle(bound[0])
    for verb in ("permute", "inverse", "identity", "multibind", "cross_product", "hamming_similarity", "hard_quantize"):
        with pytest.raises(AttributeError, match=f"{scheme.name} has no {verb}: "):
            getattr(scheme, verb)


def test_tensor_products_have_the_verbs_that_make_sense(generator):
    tpr = TPR(8)
    x = tpr.random(4, generator)
    assert_close(tpr.multibind(x[:3]), torch.einsum("i,j,k->ijk", *x[:3]))
    assert_close(tpr.normalize(5 * x), x)
    assert_close(tpr.normalize(5 * tpr.bind(x, x), modes=2), tpr.bind(x, x))
    assert_close(tpr.multibundle(torch.stack((x[0], tpr.negative(x[0])))), torch.zeros(8))
    assert_close(tpr.dot_similarity(2 * x, x), 2 * tpr.similarity(x, x))
    for verb in ("inverse", "identity", "cross_product", "hamming_similarity"):
        with pytest.raises(AttributeError, match=f"TPR has no {verb}: "):
            getattr(tpr, verb)


VERBS = [
    *("bind", "unbind", "bundle", "permute", "inverse", "normalize", "multibind", "multibundle", "empty", "identity"),
    *("negative", "soft_quantize", "hard_quantize", "cross_product", "randsel", "multirandsel", "random", "fillers"),
    *("similarity", "dot_similarity", "cosine_similarity", "hamming_similarity"),
]
ALL = [*SOME, OSC(12), OSC(12, compact=True), TPR(8), make("CliffordOSC", 8), CliffordTPR(8, 2, ["a", "b", "c"])]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("scheme", ALL, ids=str)
def test_every_scheme_has_every_verb_or_says_why_not(scheme, verb):
    """What was not given says what is wanted; a verb that there is not says what to do instead."""
    if not hasattr(scheme, verb):
        with pytest.raises(AttributeError, match=rf"{re.escape(scheme.name)} has no {verb}: .* .*"):
            getattr(scheme, verb)
        return
    assert getattr(scheme, verb).__doc__
    with pytest.raises(TypeError, match="argument"):
        getattr(scheme, verb)(*(None,) * (2 if verb in ("empty", "identity") else 0))


def test_absent_verbs_are_absent():
    for scheme in (OSC(12), make("CliffordOSC", 8)):
        assert not any(hasattr(thing, "permute") for thing in (scheme, type(scheme)))
    assert not hasattr(VSA("BSDC-CDT", 64), "unbind") and hasattr(VSA("BSDC-S", 64), "unbind")
    assert not hasattr(VSA("MBAT", 64, form="dense"), "inverse") and hasattr(VSA("MBAT", 64), "inverse")
    assert VSA.unbind.__doc__ and pickle.loads(pickle.dumps(VSA("HRR", 64))) == VSA("HRR", 64)


def test_tensor_products_and_their_clifford_form_have_empty_memories(generator):
    tpr, clifford = TPR(8), CliffordTPR(8, 2, ["a", "b", "c"])
    assert_close(tpr.empty(), tpr.zeros())
    x = clifford.random(2, generator)
    paths = [("a", "b"), ("b", "c")]
    memory = clifford.bundle(clifford.bind(paths, x))
    assert_close(clifford.negative(memory).coordinates + memory.coordinates, clifford.empty().coordinates)
    assert_close(clifford.multibundle(clifford.bind(paths, x)).coordinates, memory.coordinates)
    found = clifford.unbind(memory, paths)
    assert_close(clifford.similarity(found, x), x @ x.mT, rtol=0, atol=1e-5)
    assert_close(clifford.cosine_similarity(3 * found, x), clifford.dot_similarity(x, x), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match=r"others must have shape \(any, 8\)"):
        clifford.similarity(x, x[:, :5])


@pytest.mark.parametrize(
    "verb", ["inverse", "negative", "permute", "normalize", "hard_quantize", "soft_quantize", "bundle", "picture"]
)
def test_what_another_architecture_has_made_is_refused(vsa, verb, generator):
    if verb == "inverse" and vsa.row.inverse is None:
        return
    act = getattr(vsa, verb)
    for wrong in (vsa.random(2, generator)[:, :3], torch.ones(2, 7), torch.ones(2, 5, dtype=torch.bool)):
        with pytest.raises(ValueError, match="of another scheme or dimension"):
            act(wrong)
    with pytest.raises(TypeError, match="must be tensors, got str"):
        act("abc")


def test_only_the_like_is_compared_and_mixed(generator):
    vsa = VSA("BSC", 64)
    x = vsa.random(3, generator)
    for act in (
        lambda: vsa.hamming_similarity(x[:, :5], x),
        lambda: vsa.randsel(x[0], x[1][:5], 0.5, generator),
        lambda: vsa.multirandsel(x[:, :5], generator=generator),
    ):
        with pytest.raises(ValueError, match="of another scheme or dimension"):
            act()
    with pytest.raises(ValueError, match="x and other must have the same dtype"):
        vsa.randsel(x[0], vsa.picture(x[1]), 0.5, generator)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OSC(12).normalize(torch.zeros(5)), r"must have shape \(12, 12\)"),
        (lambda: OSC(12).negative(torch.zeros(5)), r"must have shape \(12, 12\)"),
        (lambda: OSC(12).similarity(torch.zeros(3, 3), torch.zeros(2, 12, 12)), r"must have shape \(12, 12\)"),
        (lambda: OSC(12).cosine_similarity(torch.zeros(12, 12), torch.zeros(12, 12)), "for one memory"),
        (lambda: OSC(12).dot_similarity(torch.zeros(12, 12), torch.zeros(2, 2, 12, 12)), "for one memory"),
        (lambda: TPR(8).normalize(torch.zeros(3, 5)), r"have shape \(\*, 8\)"),
        (lambda: TPR(8).normalize(torch.zeros(8), modes=2), r"have shape \(\*, 8, 8\)"),
        (lambda: TPR(8).permute(torch.zeros(3)), r"have shape \(\*, 8\)"),
        (lambda: TPR(8).negative(torch.zeros(3)), r"have shape \(\*, 8\)"),
    ],
)
def test_wrong_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
