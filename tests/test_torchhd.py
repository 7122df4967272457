"""Values against torch-hd, for the architectures that both have.

Not compared, because torch-hd gets it wrong: `empty` of BSC, BSBC, MCR and CGR, which is random instead of neutral, and
order in HRR (`ngrams`, `bind_sequence`, directed `graph`), which plain rolling cannot tell (both are shown below);
`HRRTensor.multibind`, which casts a complex product to real and so agrees with chained binding of nobody; sequences of
BSBC, which cannot be stacked; a `cross_product` of modes, each side of which is settled first; ties of `multibundle`,
which torch-hd gives to the lowest index or to zero. Its MCR is our CGR with `bundling="round"` as far as binding and
bundling go; it compares by the distance around the circle, we by the cosine.
"""

import pytest
import torch
import torchhd
from torch.testing import assert_close

from carving import VSA
from carving.encodings import FractionalPower, level, rounded
from carving.structures import (
    HashTable,
    Multiset,
    Sequence,
    bind_sequence,
    bundle_sequence,
    graph,
    hash_table,
    multiset,
    nearest,
    ngrams,
)

D = 256
# Ours, and their type.
PEERS = {
    "HRR": (VSA("HRR", D), torchhd.HRRTensor),
    "FHRR": (VSA("FHRR", D), torchhd.FHRRTensor),
    "MAP-I": (VSA("MAP-I", D), torchhd.MAPTensor),
    "BSC": (VSA("BSC", D), torchhd.BSCTensor),
    "VTB": (VSA("VTB", D), torchhd.VTBTensor),
    "CGR": (VSA("CGR", D, bundling="mode"), torchhd.CGRTensor),
    "BSDC-SEG": (VSA("BSDC-SEG", D, bundling="mode"), torchhd.BSBCTensor),
}
BLOCKS = (torchhd.CGRTensor, torchhd.BSBCTensor, torchhd.MCRTensor)  # they carry the order of their group
WRONG_MULTIBIND = (torchhd.HRRTensor,)
NO_STACK = (torchhd.BSBCTensor,)


def converter(ours, kind):
    """How our vectors become theirs."""

    def theirs(x):
        y = x.as_subclass(kind)
        if kind in BLOCKS:
            y.block_size = ours.space.option
        return y

    return theirs


@pytest.fixture(params=PEERS)
def peers(request, generator):
    """Ours, five fillers and five roles, and a function that makes them torch-hd's."""
    ours, kind = PEERS[request.param]
    return ours, ours.random(5, generator), ours.random(5, generator), converter(ours, kind)


def plain(x):
    return x.as_subclass(torch.Tensor)


def test_binding_agrees(peers):
    ours, x, roles, theirs = peers
    assert_close(ours.bind(x, roles), plain(torchhd.bind(theirs(x), theirs(roles))))


def test_unbinding_agrees(peers):
    ours, x, roles, theirs = peers
    assert_close(ours.unbind(x, roles), plain(torchhd.bind(theirs(x), torchhd.inverse(theirs(roles)))))


def test_binding_along_a_path_agrees(peers):
    ours, x, roles, theirs = peers
    several = theirs(torch.cat((x[:1], roles)))
    if isinstance(several, WRONG_MULTIBIND):
        pytest.skip("torch-hd's own casts a complex product to real")
    assert_close(ours.bind_path(x[0], roles), plain(torchhd.multibind(several)))


def test_rounded_bundles_agree_with_mcr(generator):
    """Weights of 4, 2 and 1: the sum never vanishes, and never lies half way between two phases."""
    for r in (4, 8, 12):
        ours = VSA("CGR", D, r=r)
        theirs = converter(ours, torchhd.MCRTensor)
        x = ours.random(3, generator)
        several = x[[0, 0, 0, 0, 1, 1, 2]]
        sums = torch.exp(2j * torch.pi / r * several.to(torch.complex128)).sum(0)
        steps = sums.angle() * r / (2 * torch.pi)
        assert ((steps - steps.floor()) - 0.5).abs().min() > 1e-3
        assert_close(ours.bundle(several), plain(torchhd.multibundle(theirs(several))))
        assert_close(ours.bind_path(x[0], x[1:]), plain(torchhd.multibind(theirs(x))))


def test_bundling_agrees_where_there_is_no_tie(peers):
    ours, x, _, theirs = peers
    several = torch.stack((x[0], x[1], x[0]))  # a majority in every coordinate
    assert_close(ours.bundle(several), plain(torchhd.multibundle(theirs(several))))


def test_permuting_agrees(peers):
    ours, x, _, theirs = peers
    assert_close(ours.permute(x, 3), plain(torchhd.permute(theirs(x), shifts=3)))


def test_similarities_agree(peers):
    ours, x, roles, theirs = peers
    both = torch.cat((x, roles))
    expected = plain(torchhd.cosine_similarity(theirs(x), theirs(both)))
    assert_close(ours.similarity(x, both), expected.to(torch.float32), rtol=1e-4, atol=1e-5)


def test_identities_agree(peers):
    ours, x, _, theirs = peers
    kind = type(theirs(x))
    options = {"block_size": ours.space.option} if kind in BLOCKS else {}
    expected = plain(kind.identity(1, ours.facts.filler_shape[-1], **options))[0]
    assert_close(ours.identity(), expected.to(ours.identity().dtype))


# The other verbs


def test_inverses_and_negatives_agree(peers):
    ours, x, roles, theirs = peers
    assert_close(ours.inverse(roles), plain(torchhd.inverse(theirs(roles))))
    if ours.row.dtype == torch.int64:
        pytest.skip("torch-hd has no negative of indices")
    assert_close(ours.negative(x), plain(torchhd.negative(theirs(x))))


def test_normal_vectors_agree_where_there_is_no_tie(peers):
    ours, x, _, theirs = peers
    if ours.row.dtype is not None:  # theirs are atoms already, and stay
        assert_close(ours.normalize(x), plain(torchhd.normalize(theirs(x))))
    else:
        assert_close(ours.normalize(x.sum(0)), plain(torchhd.normalize(theirs(x.sum(0)))), rtol=1e-4, atol=1e-5)


def test_inner_products_and_equal_numbers_agree(peers):
    ours, x, roles, theirs = peers
    both = torch.cat((x, roles))
    dots = plain(torchhd.dot_similarity(theirs(x), theirs(both)))
    assert_close(ours.dot_similarity(x, both), dots.to(torch.float32), rtol=1e-4, atol=1e-4)
    assert_close(ours.hamming_similarity(x, both), plain(torchhd.hamming_similarity(theirs(x), theirs(both))))


def test_quantizing_agrees(peers):
    ours, x, _, theirs = peers
    if x.is_complex() or ours.row.dtype is not None:
        pytest.skip("torch-hd takes the tangent and the sign of complex numbers and of indices alike")
    total = x.sum(0)
    assert_close(ours.soft_quantize(total), plain(torchhd.soft_quantize(theirs(total))))
    with pytest.warns(DeprecationWarning, match="hard_quantize"):
        assert_close(ours.hard_quantize(total), plain(torchhd.hard_quantize(theirs(total))))


def test_cross_products_agree(peers):
    ours, x, roles, theirs = peers
    if ours.row.dtype == torch.int64:
        pytest.skip("torch-hd settles each side first, we all pairs at once")
    expected = torchhd.cross_product(theirs(x[:3]), theirs(roles[:3]))
    assert_close(ours.cross_product(x[:3], roles[:3]), plain(expected), rtol=1e-4, atol=1e-4)


# Structures


def test_bundled_structures_agree(peers):
    """Odd numbers of vectors that are the same or few, so that nothing ties."""
    ours, x, roles, theirs = peers
    several = x[[0, 1, 0]]
    assert_close(multiset(ours, several), plain(torchhd.multiset(theirs(several))))
    pairs = several, roles[[0, 1, 0]]
    expected = torchhd.hash_table(*map(theirs, pairs))  # theirs is of both in one order, ours of keys and values
    assert_close(hash_table(ours, pairs[1], pairs[0]), plain(expected))


def test_sequences_agree(peers):
    ours, x, _, theirs = peers
    if ours.row.order is not None:
        pytest.skip("torch-hd cannot tell order in HRR")
    if isinstance(theirs(x), NO_STACK):
        pytest.skip("torch-hd cannot stack them")
    assert_close(bind_sequence(ours, x), plain(torchhd.bind_sequence(theirs(x))), rtol=1e-4, atol=1e-5)
    if not ours.row.ties or ours.name == "MAP-I":
        assert_close(bundle_sequence(ours, x), plain(torchhd.bundle_sequence(theirs(x))))
        assert_close(ngrams(ours, x, 3), plain(torchhd.ngrams(theirs(x), 3)), rtol=1e-4, atol=1e-5)
    if ours.facts.commutative:
        ends = x[[0, 1, 0]], x[[2, 3, 2]]
        expected = torchhd.graph(theirs(torch.stack(ends)), directed=True)
        assert_close(graph(ours, *ends, directed=True), plain(expected))


def test_bits_of_sequences_agree_where_there_is_no_tie(generator):
    for ours, kind in (PEERS["BSC"], PEERS["CGR"]):
        theirs = converter(ours, kind)
        x = ours.random(2, generator)[[0] * 7 + [1]]
        odd = ours.random(5, generator) if ours.name == "BSC" else x[:7]
        assert_close(ngrams(ours, odd, 3), plain(torchhd.ngrams(theirs(odd), 3)))
        assert_close(bundle_sequence(ours, odd[:1]), plain(torchhd.bundle_sequence(theirs(odd[:1]))))


def test_torch_hd_cannot_tell_order_in_hrr_and_we_can(generator):
    ours, kind = PEERS["HRR"]
    theirs = converter(ours, kind)
    x = ours.random(2, generator)
    back = x.flip(0)
    assert_close(plain(torchhd.ngrams(theirs(x), 2)), plain(torchhd.ngrams(theirs(back), 2)), rtol=1e-4, atol=1e-5)
    assert ours.similarity(ngrams(ours, x, 2), ngrams(ours, back, 2).unsqueeze(0)).item() < 0.5


def test_torch_hds_empty_bits_are_not_empty():
    assert torchhd.empty(1, D, "BSC").any()
    assert not VSA("BSC", D).empty().any()


# Objects, levels and what is chosen at random


LINEAR = ["MAP-I", "FHRR", "HRR"]


@pytest.mark.parametrize("name", LINEAR)
def test_structures_that_change_agree(name, generator):
    ours, kind = PEERS[name]
    theirs, x, y = converter(ours, kind), ours.random(4, generator), ours.random(4, generator)
    bag, their_bag = Multiset(ours), torchhd.structures.Multiset(theirs(ours.empty()))
    table, their_table = HashTable(ours), torchhd.structures.HashTable(theirs(ours.empty()))
    word, their_word = Sequence(ours), torchhd.structures.BundleSequence(theirs(ours.empty()))
    for one, other in zip(x, y, strict=True):
        bag.add(one)
        their_bag.add(theirs(one))
        table.add(one, other)
        their_table.add(theirs(one), theirs(other))
        if name != "HRR":  # whose coordinates are rolled in an order of our own
            word.append(one)
            their_word.append(theirs(one))
    bag.remove(x[1])
    their_bag.remove(theirs(x[1]))
    table.replace(x[2], y[2], y[0])
    their_table.replace(theirs(x[2]), theirs(y[2]), theirs(y[0]))
    assert_close(bag.vector, plain(their_bag.value), rtol=1e-4, atol=1e-5)
    assert_close(table.vector, plain(their_table.value), rtol=1e-4, atol=1e-5)
    assert_close(table.get(x[0]), plain(their_table.get(theirs(x[0]))), rtol=1e-4, atol=1e-5)
    if name != "HRR":
        assert_close(word.vector, plain(their_word.value), rtol=1e-4, atol=1e-5)
        assert_close(word.concat(word).vector, plain(their_word.concat(their_word).value), rtol=1e-4, atol=1e-5)
        assert_close(word[1], plain(their_word[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LINEAR)
def test_undirected_graphs_agree(name, generator):
    ours, kind = PEERS[name]
    theirs, x, y = converter(ours, kind), ours.random(4, generator), ours.random(4, generator)
    assert_close(graph(ours, x, y), plain(torchhd.graph(theirs(torch.stack((x, y))))), rtol=1e-4, atol=1e-5)


def test_the_nearest_of_known_vectors_agrees(peers):
    ours, x, roles, theirs = peers
    both = torch.cat((x, roles))
    for noisy in (x[3], ours.bundle(both[[3, 3, 1]])):
        assert_close(both[nearest(ours, noisy, both)], plain(torchhd.cleanup(theirs(noisy), theirs(both))).squeeze())


def test_levels_of_values_agree():
    values = torch.linspace(0, 1, 50)
    assert torch.equal(rounded(values, 0, 1, 11), torchhd.value_to_index(values, 0, 1, 11))


@pytest.mark.parametrize("name", ["MAP-I", "BSC", "FHRR"])
def test_levels_are_as_alike(name):
    """Nine draws of 4,096 numbers each: four standard errors of the difference of two means."""
    ours, kind = VSA(name, 4096), name.split("-")[0]
    size, found = ours.facts.filler_shape[-1], []
    for seed in range(9):
        source = torch.Generator().manual_seed(seed)
        made, their = level(ours, 6, generator=source), torchhd.level(6, size, kind, generator=source)
        found.append(
            torch.stack((ours.similarity(made[0], made), plain(torchhd.cosine_similarity(their[0], their)).float()))
        )
    one, other = torch.stack(found).mean(0)
    assert (one - other).abs().max() < 4 * (2 * 1.25 / 4096 / 9) ** 0.5


def test_a_bandwidth_is_the_reciprocal_of_theirs():
    """4,096 phases: the kernel of each within four standard errors."""
    torch.manual_seed(0)
    theirs = torchhd.embeddings.FractionalPower(1, 4096, "sinc", bandwidth=2.0, vsa="FHRR")
    ours = FractionalPower(VSA("FHRR", 8192), kernel="sinc", bandwidth=0.5, label="x")
    for value in (0.1, 0.3, 0.6):
        other = torchhd.cosine_similarity(theirs(torch.tensor([[0.0]])), theirs(torch.tensor([[value]])))
        assert abs(float(other) - float(ours.kernel(torch.tensor(value)))) < 4 / 4096**0.5


def test_as_many_numbers_are_chosen(generator):
    """A binomial of 256 numbers on either side: five deviations."""
    ours, kind = PEERS["MAP-I"]
    x, y = torch.ones(D), -torch.ones(D)
    theirs = converter(ours, kind)
    mine = ours.randsel(x, y, 0.25, generator)
    their = plain(torchhd.randsel(theirs(x), theirs(y), p=0.25, generator=generator))
    for mixed in (mine, their):
        assert abs(float((mixed == 1).float().mean()) - 0.25) < 5 * (0.1875 / D) ** 0.5
