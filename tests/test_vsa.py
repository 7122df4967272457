"""The laws of the fourteen architectures, over all of them, and the facts of their table both ways."""

import math
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from carving import VSA, make
from carving.planner.families import vsa_accuracy
from carving.schemes.algebra import hartley, to_unit_interval, two_signs
from carving.schemes.architectures import ARCHITECTURES

D = 1_024
NAMES = list(ARCHITECTURES)
UNBINDING = [name for name in NAMES if ARCHITECTURES[name].unbind is not None]
VARIANTS = [
    ("HRR", dict(unitary=True)),
    ("MBAT", dict(form="rolled")),
    ("MBAT", dict(form="dense")),
    ("BSDC-SEG", dict(bundling="mode")),
    ("CGR", dict(bundling="mode")),
    ("CGR", dict(r=3)),
    ("CGR", dict(r=2)),
    ("GHRR", dict(m=1)),
    ("HLB", dict(sigma=0.0)),
    ("GHRR", dict(m=4)),
]


@pytest.fixture(
    params=[(name, {}) for name in NAMES] + VARIANTS, ids=lambda p: "-".join([p[0], *map(str, p[1].values())])
)
def vsa(request):
    name, options = request.param
    return VSA(name, D, **options)


@pytest.fixture
def unbinding(vsa):
    if vsa.row.unbind is None:
        pytest.skip("it has no unbinding, which is tested for itself")
    return vsa


def likeness(vsa, x, y):
    """The similarity of two vectors."""
    return vsa.similarity(x, y.unsqueeze(0)).item()


def same(vsa, x, y):
    """Whether two vectors are the same: discrete ones exactly, real ones to rounding."""
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    return torch.allclose(x, y, rtol=1e-4, atol=1e-5 * y.abs().max().item())


# Atoms


def test_atoms_have_their_shape_and_come_from_the_generator_alone(vsa):
    state = torch.random.get_rng_state()
    first = vsa.random(7, torch.Generator().manual_seed(3))
    assert torch.equal(first, vsa.random(7, torch.Generator().manual_seed(3)))
    assert not torch.equal(first, vsa.random(7, torch.Generator().manual_seed(4)))
    assert first.shape == (7, *vsa.facts.filler_shape)
    assert torch.equal(torch.random.get_rng_state(), state)


MOMENTS = {  # mean and variance of a coordinate, and the fourth central moment, times d^2 where the variance is 1/d
    "HRR": (0, 1 / D, 3 / D**2),
    "MBAT": (0, 1 / D, 3 / D**2),
    "VTB": (0, 1 / D, 3 / D**2),
    "MAP-I": (0, 1, 1),
    "MAP-B": (0, 1, 1),
    "MAP-C": (0, 1 / 3, 1 / 5),
    "HLB": (0, 1 + 1 / D, 1 + 6 / D),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_real_atoms_have_their_moments(name, generator):
    """Within four standard errors."""
    mean, variance, fourth = MOMENTS[name]
    x = VSA(name, D).random(200, generator).double().flatten()
    n = len(x)
    assert abs(x.mean().item() - mean) < 4 * math.sqrt(variance / n)
    assert abs(x.square().mean().item() - variance) < 4 * math.sqrt(max(fourth - variance**2, 1e-6 * variance**2) / n)


def test_discrete_and_complex_atoms_obey_their_laws(generator):
    for name in ("BSDC-S", "BSDC-CDT"):
        assert VSA(name, D).random(50, generator).sum(-1).eq(32).all()
    segments = VSA("BSDC-SEG", 1_000).random(50, generator)
    assert segments.shape == (50, 31) and segments.min() >= 0 and segments.max() < 32
    assert VSA("CGR", D).random(50, generator).unique().tolist() == list(range(8))
    bits = VSA("BSC", D).random(200, generator)
    assert abs(bits.double().mean().item() - 0.5) < 4 * 0.5 / math.sqrt(bits.numel())
    assert_close(VSA("FHRR", D).random(5, generator).abs(), torch.ones(5, D // 2))
    blocks = VSA("GHRR", D, m=4).random(5, generator)
    assert_close(blocks @ blocks.mH, torch.eye(4, dtype=blocks.dtype).expand_as(blocks), rtol=0, atol=1e-5)
    spectrum = torch.fft.rfft(VSA("HRR", 63, unitary=True).random(5, generator))
    assert_close(spectrum.abs(), torch.ones(5, 32), rtol=0, atol=1e-5)


def test_haar_blocks_are_uniform(generator):
    """The squared modulus of an entry of a Haar unitary 2 x 2 matrix is uniform: mean 1/2, variance 1/12."""
    entries = VSA("GHRR", 8 * 5_000).random(1, generator)[0, :, 0, 0].abs().square().double()
    n = len(entries)
    assert abs(entries.mean().item() - 1 / 2) < 4 * math.sqrt(1 / 12 / n)
    assert abs(entries.var().item() - 1 / 12) < 4 * math.sqrt((1 / 80 - 1 / 144) / n)
    phases = VSA("GHRR", 8 * 5_000).random(1, generator)[0, :, 0, 0]
    assert abs((phases / phases.abs()).mean().abs().item()) < 4 / math.sqrt(n)


def test_strangers_are_dissimilar(vsa, generator):
    """Cosines have mean 0 and variance 1 over the real numbers of a vector; overlaps the density as their mean."""
    x = vsa.random(60, generator)
    likenesses = vsa.similarity(x, x)[~torch.eye(60, dtype=torch.bool)].double()
    n = len(likenesses) / 2  # each pair counts twice
    if vsa.row.overlap:
        expected = vsa.facts.filler_scalars / math.prod(vsa.facts.memory_shape)
        assert abs(likenesses.mean().item() - expected) < 5 * likenesses.std().item() / math.sqrt(n)
        return
    if vsa.row.aim:  # a coordinate is worth 1 - 4/r times a distance around the circle that is uniform
        r = vsa.space.option
        worths = [1 - 4 / r * min(i, r - i) for i in range(r)]
        assert sum(worths) == 0
        variance = sum(worth * worth for worth in worths) / r / vsa.space.d
    else:
        real = vsa._picture(x).imag.abs().max() < 1e-6 if vsa.facts.memory_dtype.is_complex else False  # two phases are
        variance = (2 if real else 1) / vsa.facts.memory_scalars
    assert abs(likenesses.mean().item()) < 4 * math.sqrt(variance / n)
    assert likenesses.var().item() / variance == pytest.approx(1, abs=5 * math.sqrt(2 / n))


# Binding


def test_a_bound_vector_is_unlike_both_operands(vsa, generator):
    filler, role, stranger = vsa.random(3, generator)
    bound = vsa.bind(filler, role)
    if vsa.row.unbind is None:  # thinning keeps part of each
        assert likeness(vsa, bound, filler) > 0.3 and likeness(vsa, bound, role) > 0.3
    else:
        usual = likeness(vsa, stranger, filler)
        assert abs(likeness(vsa, bound, filler) - usual) < 0.25
        assert abs(likeness(vsa, bound, role) - usual) < 0.25


COSINES = {"HRR": (0.65, 0.80), "VTB": (0.62, 0.78), "MAP-C": (0.68, 0.80)}


def test_unbinding_gives_the_filler_back(unbinding, generator):
    fillers, roles = unbinding.random(20, generator), unbinding.random(20, generator)
    back = unbinding.unbind(unbinding.bind(fillers, roles), roles)
    if unbinding.facts.exact:
        assert same(unbinding, back, fillers)
    else:
        low, high = COSINES[unbinding.name]
        found = unbinding.similarity(back, fillers).diagonal().mean().item()
        assert low < found < high


def test_a_wrong_role_gives_a_stranger(unbinding, generator):
    filler, role, wrong = unbinding.random(3, generator)
    back = unbinding.unbind(unbinding.bind(filler, role), wrong)
    assert likeness(unbinding, back, filler) < 0.3


def test_depth_is_no_matter_for_exact_unbinding(unbinding, generator):
    if not unbinding.facts.exact:
        pytest.skip("unbinding is approximate")
    unbinding = unbinding.like(dtype=torch.float64)
    filler, roles = unbinding.random(1, generator)[0], unbinding.random(48, generator)
    bound = unbinding.bind_path(filler, roles)
    assert same(unbinding, unbinding.unbind_path(bound, roles), filler)


def test_the_order_of_roles_counts_exactly_where_the_row_says_so(unbinding, generator):
    filler, *roles = unbinding.random(3, generator)
    one = unbinding.bind_path(filler, torch.stack(roles))
    other = unbinding.bind_path(filler, torch.stack(roles[::-1]))
    assert (likeness(unbinding, one, other) < 0.5) == unbinding.row.ordered
    assert same(unbinding, one, other) == (not unbinding.row.ordered)


def test_the_matrices_are_the_ordered_ones():
    assert {name for name, row in ARCHITECTURES.items() if row.ordered} == {"MBAT", "VTB", "GHRR"}


def test_the_facts_of_the_algebra_hold_both_ways(vsa, generator):
    vsa = vsa.like(dtype=torch.float64)
    a, b, c = vsa.random(3, generator)
    assert same(vsa, vsa.bind(a, b), vsa.bind(b, a)) == vsa.facts.commutative
    try:
        associative = same(vsa, vsa.bind(vsa.bind(a, b), c), vsa.bind(a, vsa.bind(b, c)))
    except RuntimeError:
        associative = False  # a bound vector is no role
    assert associative == vsa.facts.associative
    assert same(vsa, vsa.bind(vsa.bind(a, b), b), a) == vsa.facts.self_inverse


def test_unbinding_is_the_transpose_of_binding_where_the_row_says_so(unbinding, generator):
    vsa = unbinding.like(dtype=torch.float64, memory="raw")
    filler, role = vsa.random(2, generator)
    memory = torch.randn(vsa.facts.memory_shape, generator=generator, dtype=vsa.facts.memory_dtype)
    picture = vsa._picture(filler)
    one = (vsa.unbind(memory, role) * picture.conj()).sum().real
    other = (memory * vsa.bind(picture, role).conj()).sum().real
    assert bool(torch.isclose(one, other, rtol=1e-9)) == vsa.facts.adjoint


def test_hlb_comes_nearer_to_adjoint_as_its_noise_falls(generator):
    gaps = []
    for sigma in (0.1, 0.01, 0.001):
        vsa = VSA("HLB", D, sigma=sigma, dtype=torch.float64)
        filler, role = vsa.random(2, torch.Generator().manual_seed(0))
        memory = torch.randn(D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        gaps.append(abs(((vsa.unbind(memory, role) - memory * role) * filler).sum().item()))
    assert gaps[0] > gaps[1] > gaps[2] > 0


def test_recognition_ranks_like_unbinding_for_adjoint_architectures(unbinding, generator):
    """With inner products, for all of 200 questions."""
    vsa = unbinding.like(d=256, dtype=torch.float64, memory="raw")
    if not vsa.facts.adjoint:
        pytest.skip("only adjoint ones promise it")
    fillers, roles = vsa.random(200, generator), vsa.random(200, generator)
    pictures = vsa._picture(fillers)
    memory = vsa.bind(pictures, roles).sum(0)
    for role in roles:
        by_unbinding = (vsa.unbind(memory, role) * pictures.conj()).flatten(1).sum(1).real
        by_recognition = (memory * vsa.bind(pictures, role).conj()).flatten(1).sum(1).real
        assert by_unbinding.argmax() == by_recognition.argmax()
        assert_close(by_unbinding, by_recognition)


def test_an_identity_changes_nothing(vsa, generator):
    filler = vsa.random(1, generator)[0]
    if vsa.row.identity is None:
        with pytest.raises(AttributeError, match="has no identity"):
            vsa.identity()
    else:
        assert same(vsa, vsa.bind(filler, vsa.identity()), filler)


def test_binding_distributes_over_raw_sums(vsa, generator):
    raw = vsa.like(memory="raw", dtype=torch.float64)
    fillers, role = raw.random(5, generator), raw.random(1, generator)[0]
    one = raw.bind(raw.bundle(fillers), role).to(raw.facts.memory_dtype)
    other = raw.bundle(raw.bind(fillers, role))
    assert torch.allclose(one, other, atol=1e-9) == (raw.row.unbind is not None)


def test_permuting_back_gives_the_vector_back(vsa, generator):
    x = vsa.random(3, generator)
    assert torch.equal(vsa.permute(vsa.permute(x, 5), -5), x)
    assert likeness(vsa, vsa.permute(x[0]), x[0]) < 0.3


# Bundling


def test_a_bundle_does_not_depend_on_the_order(vsa, generator):
    x = vsa.random(6, generator)
    assert same(vsa, vsa.bundle(x), vsa.bundle(x.flip(0)))
    one, other = (vsa.bundle(y, generator=torch.Generator().manual_seed(1)) for y in (x, x.flip(0)))
    assert same(vsa, one, other)


def test_a_bundle_is_like_its_members_and_unlike_strangers(vsa, generator):
    x = vsa.random(45, generator)
    members, not_found = vsa.similarity(vsa.bundle(x[:5]), x).split((5, 40))
    assert members.mean() > not_found.mean() + 4 * not_found.std()
    assert members.min() > not_found.mean()


def test_bundles_of_strangers_stay_strangers(vsa, generator):
    """Two of two each: every second coordinate of a quantized bundle is a tie, and ties must not make bundles alike."""
    if vsa.space.ties is None:
        pytest.skip("nothing ties in its sums")
    vsa = vsa.like(d=4_096)
    x = vsa.random(80, generator).unflatten(0, (20, 2, 2))
    for bundles in (vsa.bundle(x), vsa.bundle(x, generator=generator)):
        one, other = bundles.unbind(1)
        alike = torch.stack([vsa.similarity(*pair) for pair in zip(one, other.unsqueeze(1), strict=True)])
        atoms = vsa.similarity(x[:, 0, 0], x[:, 1, 1])
        assert abs(alike.mean() - atoms.mean()) < 0.05


def test_ties_fall_evenly_and_again_alike(generator):
    for name, options in (("BSC", {}), ("MAP-B", {}), ("CGR", dict(r=2)), ("CGR", dict(r=2, bundling="mode"))):
        vsa = VSA(name, 4_096, accounting="coordinates", **options)
        x, _ = vsa.random(2, generator)
        opposite = ~x if x.dtype == torch.bool else -x if x.is_floating_point() else 1 - x
        tied = torch.stack((x, opposite))
        share = vsa.bundle(tied).float().gt(0).double().mean().item()
        assert abs(share - 0.5) < 4 * 0.5 / 64
        assert torch.equal(vsa.bundle(tied), vsa.bundle(tied))
        assert not torch.equal(vsa.bundle(tied), vsa.like(seed=1).bundle(tied))


def test_permuting_distributes_over_bundling(vsa, generator):
    vsa = vsa.like(memory="raw")  # settled ties fall by coordinate
    x = vsa.random(5, generator)
    assert same(vsa, vsa.permute(vsa.bundle(x), 3), vsa.bundle(vsa.permute(x, 3)))


def test_settling_depends_on_the_scale_only_where_it_cuts_at_one(vsa, pairs):
    contexts, fillers = pairs(vsa, 8)
    memory = vsa.trace(contexts, fillers)
    scores = vsa.score(memory, contexts, fillers)
    scaled = vsa.score(1e-4 * memory, contexts, fillers)
    assert torch.equal(scaled.argmax(1), scores.argmax(1))
    assert torch.allclose(scaled, scores, atol=1e-4) == (vsa.row.settle is not to_unit_interval)


@pytest.mark.parametrize("name", UNBINDING)
def test_deep_paths_keep_scores_in_bounds(name):
    vsa = VSA(name, 4_096)
    deep = [tuple(range(48))]
    score = vsa.score(vsa.trace(deep, ["dog"]), deep, vsa.fillers(["dog"])).item()
    assert 0 < score < 1.001
    assert not vsa.facts.exact or score > 0.999


def test_hlb_divides_by_nothing_smaller_than_a_thousandth():
    vsa = VSA("HLB", 4, dtype=torch.float64)
    role = torch.tensor([0.0, 1e-5, -1e-5, -2.0], dtype=torch.float64)
    assert vsa.unbind(torch.ones(4, dtype=torch.float64), role).tolist() == pytest.approx([1e3, 1e3, -1e3, -0.5])


def test_batches_bundle_along_the_set_dimension(vsa, generator):
    x = vsa.random(12, generator).unflatten(0, (3, 4))
    whole = vsa.bundle(x)
    for row in range(3):
        assert same(vsa, whole[row], vsa.bundle(x[row]))


# Equivalences


def test_bsc_is_map_b(generator):
    bsc, map_b = VSA("BSC", D), VSA("MAP-B", D)
    x, role = bsc.random(7, generator), bsc.random(1, generator)[0]
    signs = 1 - 2 * x.float()
    assert torch.equal(1 - 2 * bsc.bind(x, role).float(), map_b.bind(signs, 1 - 2 * role.float()))
    assert torch.equal(1 - 2 * bsc.bundle(x).float(), map_b.bundle(signs))
    assert_close(bsc.similarity(x, x), map_b.similarity(signs, signs))


def test_cgr_of_two_phases_is_bsc(generator):
    cgr, bsc = VSA("CGR", D, r=2, accounting="coordinates"), VSA("BSC", D)
    x, role = cgr.random(7, generator), cgr.random(1, generator)[0]
    assert torch.equal(cgr.bind(x, role).bool(), bsc.bind(x.bool(), role.bool()))
    assert torch.equal(cgr.unbind(x, role), cgr.bind(x, role))
    assert torch.equal(cgr.bundle(x).bool(), bsc.bundle(x.bool()))
    assert_close(cgr.similarity(x, x), bsc.similarity(x.bool(), x.bool()), rtol=0, atol=1e-5)


def test_ghrr_of_one_by_one_blocks_is_fhrr(generator):
    ghrr, fhrr = VSA("GHRR", D, m=1), VSA("FHRR", D)
    x, role = ghrr.random(5, generator), ghrr.random(1, generator)[0]
    flat = x.flatten(1)
    assert_close(ghrr.bind(x, role).flatten(1), fhrr.bind(flat, role.flatten()))
    assert_close(ghrr.unbind(x, role).flatten(1), fhrr.unbind(flat, role.flatten()))
    assert_close(ghrr.similarity(x, x), fhrr.similarity(flat, flat))


def test_fhrr_of_signs_is_map_i(generator):
    fhrr, map_i = VSA("FHRR", D, accounting="coordinates"), VSA("MAP-I", D)
    x, role = map_i.random(5, generator), map_i.random(1, generator)[0]
    for act in ("bind", "unbind"):
        assert_close(getattr(fhrr, act)(x.cfloat(), role.cfloat()).real, getattr(map_i, act)(x, role))
    assert_close(fhrr.similarity(x.cfloat(), x.cfloat()), map_i.similarity(x, x))


def test_hlb_without_noise_is_map_i(generator):
    hlb, map_i = VSA("HLB", D, sigma=0.0), VSA("MAP-I", D)
    x, role = hlb.random(5, generator), hlb.random(1, generator)[0]
    assert x.abs().eq(1).all()
    assert torch.equal(hlb.bind(x, role), map_i.bind(x, role))
    assert torch.equal(hlb.unbind(x, role), map_i.unbind(x, role))


def test_segments_of_two_places_are_bsc(generator):
    seg, bsc = VSA("BSDC-SEG", 4, bundling="mode"), VSA("BSC", 2)
    assert seg.space.option == 2
    x, role = seg.random(7, generator), seg.random(1, generator)[0]
    assert torch.equal(seg.bind(x, role).bool(), bsc.bind(x.bool(), role.bool()))
    assert torch.equal(seg.bundle(x).bool(), bsc.bundle(x.bool()))  # seven votes: no ties


def test_unitary_hrr_is_fhrr_in_the_fourier_domain(generator):
    hrr = VSA("HRR", 65, unitary=True, dtype=torch.float64)
    fhrr = VSA("FHRR", 33, accounting="coordinates", dtype=torch.float64)
    x, role = hrr.random(5, generator), hrr.random(1, generator)[0]
    spectrum = torch.fft.rfft
    assert_close(spectrum(hrr.bind(x, role)), fhrr.bind(spectrum(x), spectrum(role)))
    assert_close(spectrum(hrr.unbind(x, role)), fhrr.unbind(spectrum(x), spectrum(role)))


# By hand


def test_small_vectors_by_hand():
    hrr = VSA("HRR", 3)
    a, b = torch.tensor([1.0, 2, 3]), torch.tensor([0.0, 1, 0])
    assert_close(hrr.bind(a, b), torch.tensor([3.0, 1, 2]))
    assert_close(hrr.unbind(torch.tensor([3.0, 1, 2]), b), a)
    assert_close(
        VSA("VTB", 4).bind(torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.0, 1, 1, 0])),
        2**0.5 * torch.tensor([2.0, 1, 4, 3]),
    )
    shift = VSA("BSDC-S", 5)
    role = torch.tensor([True, False, True, False, False])  # places 1 and 3: a shift by 4
    assert shift.bind(torch.tensor([True, False, False, False, True]), role).tolist() == [
        False,
        False,
        False,
        True,
        True,
    ]
    cgr = VSA("CGR", 3, r=4, accounting="coordinates")
    assert cgr.bind(torch.tensor([3, 0, 2]), torch.tensor([2, 1, 2])).tolist() == [1, 1, 0]
    ghrr = VSA("GHRR", 4, accounting="coordinates")
    turn, flip = torch.tensor([[[0, -1], [1, 0]]]).cfloat(), torch.tensor([[[1, 0], [0, -1]]]).cfloat()
    assert_close(ghrr.bind(flip, turn), turn @ flip)
    map_c = VSA("MAP-C", 2)
    assert map_c.bundle(torch.tensor([[0.9, -0.2], [0.5, 0.1]])).tolist() == [1, pytest.approx(-0.1)]


def test_hartley_is_symmetric_and_its_own_inverse():
    for size in (1, 2, 7, 8):
        matrix = hartley(torch.eye(size, dtype=torch.float64))
        angles = 2 * math.pi * torch.outer(torch.arange(size), torch.arange(size)).double() / size
        assert_close(matrix, (angles.cos() + angles.sin()) / math.sqrt(size))
        assert_close(matrix @ matrix, torch.eye(size, dtype=torch.float64))


def test_thinning_keeps_the_shares_that_are_known():
    """Overlaps of an additive thinning: .51 with an operand, .36 with a bond that shares one, the density otherwise."""
    vsa = VSA("BSDC-CDT", 4_096)
    a, b, c, d = vsa.random(400, torch.Generator().manual_seed(0)).unflatten(0, (4, 100))
    bond = vsa.bind(a, b)
    assert bond.sum(-1).double().mean().item() == pytest.approx(64, abs=4)
    share = lambda x, y: ((x & y).sum(-1) / 64).mean().item()  # noqa: E731
    assert share(bond, a) == pytest.approx(0.51, abs=0.04)
    assert share(bond, vsa.bind(a, c)) == pytest.approx(0.36, abs=0.05)
    assert share(bond, vsa.bind(c, d)) == pytest.approx(0.016, abs=0.01)
    with pytest.raises(AttributeError, match="has no unbind: "):
        vsa.unbind(bond, b)


# Capacity


def clipped(pairs):
    """What cutting a sum of normal cross-talk to [-1, 1] values of its cells (Bussgang): E[g']^2 s^2 / E[g^2]."""
    s = math.sqrt(pairs) / 3  # a product of two uniforms of variance 1/3 each, as often as there are pairs
    inside = math.erf(1 / (s * math.sqrt(2)))
    density = math.exp(-1 / (2 * s * s)) / (s * math.sqrt(2 * math.pi))
    square = s * s * (inside - 2 * density) + 1 - inside
    return (inside * s) ** 2 / square


COORDINATES = dict(accounting="coordinates")
SIGNED, ROUNDED = 2 / math.pi, math.pi / 2 * (math.sin(math.pi / 8) / (math.pi / 8)) ** 2  # .637 and 1.492
CELLS = [  # how many cells of a raw sum of real numbers a number of d is worth, as a function of the pairs
    *((name, {}, lambda pairs: 1.0) for name in ("MAP-I", "HRR", "VTB", "MBAT", "HLB", "FHRR", "GHRR")),
    ("MAP-C", dict(memory="raw"), lambda pairs: 1.0),
    ("FHRR", COORDINATES, lambda pairs: 2.0),
    ("MAP-B", {}, lambda pairs: SIGNED),
    ("BSC", {}, lambda pairs: SIGNED),
    ("CGR", COORDINATES, lambda pairs: ROUNDED),
    ("MAP-C", {}, clipped),
]


def retrieved(cells, pairs):
    """The chance to find one of so many pairs among their fillers, and three standard errors of it over n questions."""
    chance = vsa_accuracy(cells, pairs, pairs)
    return chance, lambda n: 3 * math.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize(
    ("d", "pairs", "seeds"), [(1_024, 250, 24), pytest.param(4_096, 1_000, 6, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("name", "options", "worth"), CELLS, ids=["-".join([name, *options.values()]) for name, options, _ in CELLS]
)
def test_an_architecture_recalls_what_the_closed_form_says(name, options, worth, d, pairs, seeds, recalled):
    """Within three binomial standard errors of six thousand questions."""
    found, preferred, questions = recalled(VSA(name, d, **options), pairs, seeds)
    cells = worth(pairs) * d
    expected, error = retrieved(cells, pairs)
    assert found == pytest.approx(expected, abs=error(questions))
    recognized = 0.5 * (1 + math.erf(math.sqrt(cells / (2 * (pairs - 1))) / math.sqrt(2)))
    assert preferred == pytest.approx(recognized, abs=3 * math.sqrt(recognized * (1 - recognized) / questions))


def test_so_many_questions_tell_the_factors_apart():
    """Signs, real sums, rounded phases, phases, complex sums: taking one for its neighbor would be noticed."""
    for one, other in pairwise([SIGNED, 1, ROUNDED, math.pi / 2, 2]):
        expected, error = retrieved(one * D, 250)
        assert abs(retrieved(other * D, 250)[0] - expected) > error(24 * 250)


@pytest.mark.parametrize(("pairs", "seeds"), [(50, 20), (100, 10), (200, 5)])
def test_map_i_recalls_what_the_closed_form_says_at_any_load(pairs, seeds, recalled):
    found, _, questions = recalled(VSA("MAP-I", D), pairs, seeds)
    expected, error = retrieved(D, pairs)
    assert found == pytest.approx(expected, abs=error(questions))


def test_sparse_codes_saturate(recalled):
    assert recalled(VSA("BSDC-S", 4_096), 1_000, 1)[0] < 0.02
    assert recalled(VSA("BSDC-S", 4_096, memory="raw"), 1_000, 1)[0] > 0.09


@pytest.mark.slow
def test_bundles_need_dimensions_in_the_known_order():
    """The smallest dimension at which 15 of 1,000 vectors are told from their bundle, as Schlegel et al. found."""

    def told_apart(name, d):
        vsa = VSA(name, d, accounting="coordinates")
        hits = 0
        for seed in range(12):
            items = vsa.random(1_000, torch.Generator().manual_seed(seed))
            hits += vsa.similarity(vsa.bundle(items[:15]), items).topk(15).indices.lt(15).sum().item()
        return hits / (12 * 15)

    def needs(name):
        return next(q * q for q in range(12, 40) if told_apart(name, q * q) >= 0.99)

    groups = [("BSDC-S", "FHRR", "BSDC-SEG"), ("MAP-I", "MBAT", "VTB", "HRR"), ("MAP-C",), ("BSC", "MAP-B")]
    found = [[needs(name) for name in group] for group in groups]
    for lower, higher in pairwise(found):
        assert max(lower) < min(higher), found


# Schlegel et al.'s smallest dimensions for 15 pairs, for the architectures that are built alike here and there: their
# FHRR keeps phases alone, their BSDC-SEG mixes up role indices, their MBAT orthonormalizes numbers of one sign.
KNOWN_FOR_PAIRS = {"MAP-I": 490, "HRR": 520, "VTB": 550, "MAP-C": 620, "BSC": 750, "MAP-B": 780}


@pytest.mark.slow
def test_bound_pairs_need_dimensions_in_the_known_order():
    """The smallest dimension at which 99 % of 15 bound fillers are the best of 1,000 for some role.

    FHRR < SEG is not asserted: with their indices in order segments need no more than phasors.
    """

    def recovered(name, d):
        vsa = VSA(name, d, accounting="coordinates")
        hits = 0
        for seed in range(30):
            items = vsa.random(1_000, torch.Generator().manual_seed(seed))
            fillers, roles = items[:15], items[15:30]
            memory = vsa.bundle(vsa.bind(fillers, roles))
            best = vsa.similarity(vsa.unbind(memory.expand(15, *memory.shape), roles), items).argmax(-1)
            hits += torch.isin(torch.arange(15), best).sum().item()
        return hits / (30 * 15)

    def needs(name):
        return next(q * q for q in range(12, 40) if recovered(name, q * q) >= 0.99)

    groups = [("FHRR", "BSDC-SEG"), ("MAP-I", "MBAT", "VTB", "HRR"), ("MAP-C",), ("BSC", "MAP-B")]
    found = {name: needs(name) for group in groups for name in group}
    for lower, higher in pairwise(groups):
        assert max(found[name] for name in lower) < min(found[name] for name in higher), found
    for name, known in KNOWN_FOR_PAIRS.items():  # a step of the squares is 9 %
        assert found[name] == pytest.approx(known, rel=0.1), found
    # Shifts collide, so that the best for bundles falls behind for pairs.
    assert needs("BSDC-S") > max(found[name] for name in groups[0])


# Stability, gradients, compilation

GOLDEN = {  # the first three numbers of the filler "dog" at d=64 (real parts; indices; places of ones)
    "HRR": [0.1389611, -0.0480823, 0.106343],
    "FHRR": [0.9450273, 0.7092767, -0.9948022],
    "MAP-I": [-1.0, -1.0, 1.0],
    "MAP-C": [-0.1060348, 0.2490217, 0.9675313],
    "MAP-B": [-1.0, -1.0, 1.0],
    "BSC": [0, 1, 3],
    "BSDC-S": [2, 3, 16],
    "BSDC-CDT": [2, 3, 16],
    "BSDC-SEG": [3, 4, 7],
    "MBAT": [0.1389611, -0.0480823, 0.106343],
    "VTB": [0.1389611, -0.0480823, 0.106343],
    "CGR": [3, 4, 7],
    "HLB": [-0.893657, -0.8943086, 0.8126355],
    "GHRR": [0.5815578, 0.1021606, -0.7841278],
}
GOLDEN_ROLES = {  # the sum of what acts for the path ("sentence 5", "subject")
    "HRR": 0.00999,
    "FHRR": 3.2469,
    "MAP-I": -2.0,
    "MAP-C": -2.31867,
    "MAP-B": -2.0,
    "BSC": -2.0,
    "BSDC-S": 8.0,
    "BSDC-CDT": 16.0,
    "BSDC-SEG": 23.0,
    "MBAT": -20.0,
    "VTB": 0.06385,
    "CGR": 5.0,
    "HLB": -3.0594,
    "GHRR": 2.26073,
}


def short_name(vsa):
    """Three numbers of the filler of "dog"."""
    atom = vsa.fillers(["dog"])[0]
    if atom.dtype == torch.bool:
        return atom.nonzero().flatten()[:3].tolist()
    return (atom.real if atom.is_complex() else atom).flatten()[:3].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_atoms_stay_as_they_are(name):
    assert short_name(VSA(name, 64)) == pytest.approx(GOLDEN[name], abs=1e-6)
    role = VSA(name, 64).contexts([("sentence 5", "subject")]).operators
    assert float((role.real if role.is_complex() else role).double().sum()) == pytest.approx(
        GOLDEN_ROLES[name], abs=1e-4
    )


def test_single_and_double_precision_agree(vsa, generator):
    double = vsa.like(dtype=torch.float64)
    x, y = (v.random(4, torch.Generator().manual_seed(0)) for v in (vsa, double))
    one, other = vsa.bind(x[:2], x[2:]), double.bind(y[:2], y[2:])
    assert_close(one, other.to(one.dtype), rtol=1e-4, atol=1e-5)


CONTINUOUS = ["HRR", "FHRR", "MAP-I", "MAP-C", "MBAT", "VTB", "HLB", "GHRR"]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_reach_vectors_roles_and_memories(name, generator):
    vsa = VSA(name, 16, dtype=torch.float64, memory="raw")
    x, role, other = (v.clone().requires_grad_() for v in vsa.random(3, generator))
    assert torch.autograd.gradcheck(lambda x: vsa.bind(x, role.detach()), (x,))
    if vsa.row.operator is not two_signs:  # MBAT's roles act by their signs
        assert torch.autograd.gradcheck(lambda x, r: vsa.unbind(vsa.bind(x, r), r), (x, role))
    assert torch.autograd.gradcheck(lambda x, y: vsa.similarity(x, y.unsqueeze(0)), (x, other))
    contexts = vsa.contexts([("a",), ("b", "c")])
    fillers = vsa.random(2, generator).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: vsa.score(vsa.trace(contexts, f), contexts, f), (fillers,))


# Thinning looks at its values, so BSDC-CDT is not among them.
@pytest.mark.parametrize("name", UNBINDING)
@pytest.mark.xdist_group("compile")  # in one process, so that torch's compiler is imported once
def test_verbs_compile_whole(name, generator):
    torch._dynamo.reset()
    vsa = VSA(name, 64)
    x, roles = vsa.random(4, generator), vsa.random(4, generator)
    for verb in (vsa.bind, vsa.unbind, vsa.similarity):
        compiled = torch.compile(verb, fullgraph=True, backend="aot_eager")
        assert_close(compiled(x, roles), verb(x, roles))
    contexts, fillers = vsa.contexts([(i,) for i in range(4)]), vsa.fillers(range(4))
    memory = torch.compile(vsa.trace, fullgraph=True, backend="aot_eager")(contexts, fillers)
    assert_close(memory, vsa.trace(contexts, fillers))
    score = torch.compile(vsa.score, fullgraph=True, backend="aot_eager")
    assert_close(score(memory, contexts, fillers), vsa.score(memory, contexts, fillers))
    bundle = torch.compile(vsa.bundle, fullgraph=True, backend="aot_eager")
    assert_close(bundle(x), vsa.bundle(x))


# Bad input


@pytest.mark.parametrize(
    ("make_it", "error", "message"),
    [
        (lambda: VSA("VTB", 1_000), ValueError, "a square, got 1000. The nearest is 1024"),
        (lambda: VSA("GHRR", 1_001), ValueError, "a multiple of 8, got 1001. The nearest is 1000"),
        (
            lambda: VSA("GHRR", 10, accounting="coordinates", m=3),
            ValueError,
            "a multiple of 9, got 10. The nearest is 9",
        ),
        (lambda: VSA("FHRR", 7), ValueError, "a multiple of 2"),
        (lambda: VSA("CGR", 64, r=1), ValueError, "r must be"),
        (lambda: VSA("BSDC-SEG", 3), ValueError, "d must be an integer of at least 4"),
        (lambda: VSA("BSDC-S", 64, ones=65), ValueError, "ones must be"),
        (
            lambda: VSA("HLB", 64).bundle(torch.ones(64), torch.ones(64)),
            TypeError,
            r"one tensor: torch.stack\(\(a, b\)\)",
        ),
        (lambda: VSA("HLB", 64).random(3), TypeError, "generator must be a torch.Generator, got None"),
        (lambda: VSA("HLB", 64, r=3), TypeError, "HLB has no option 'r'. Its options: mu, sigma"),
        (lambda: VSA("MBAT", 64, form="odd"), ValueError, "form must be one of 'structured', 'rolled', 'dense'"),
        (lambda: VSA("MAP-I", 64, memory="tidy"), ValueError, "memory must be one of 'native', 'raw'"),
        (lambda: VSA("MAP-I", 64, accounting="bits"), ValueError, "accounting must be one of"),
        (lambda: VSA("MAP", 64), ValueError, "Unknown architecture 'MAP'. Did you mean MAP-"),
        (lambda: VSA("HLB", 64, sigma=-1), ValueError, "sigma must be a finite number of at least 0"),
        (lambda: VSA("HLB", 64, mu=0), ValueError, "mu must be a finite number other than 0"),
        (lambda: VSA("HRR", 64).similarity(torch.ones(64), torch.ones(64)), ValueError, "others must have shape"),
        (
            lambda: VSA("HRR", 64).read(torch.ones(64), VSA("HRR", 32).contexts([("a",)])),
            ValueError,
            "must belong to VSA",
        ),
        (
            lambda: VSA("HRR", 64).read(torch.ones(64), VSA("MAP-I", 64).contexts([("a",), ("b",)])[:1]),
            ValueError,
            "must belong to VSA",
        ),
        (lambda: make("hlb", 64), ValueError, "Unknown scheme 'hlb'. Did you mean HLB"),
        (lambda: make("quux", 64), ValueError, "Unknown scheme 'quux'"),
        (
            lambda: VSA("MBAT", 8_193, form="dense"),
            ValueError,
            "at most 8192 with .*, got 8193. Use form='structured'",
        ),
        (
            lambda: VSA("MBAT", 10_000, form="rolled"),
            ValueError,
            "MBAT: d must be at most 8192 with form='rolled', which needs a matrix",
        ),
    ],
)
def test_bad_parameters_are_refused_with_the_way_out(make_it, error, message):
    with pytest.raises(error, match=message):
        make_it()
