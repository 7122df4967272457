"""Values against torch-hd, for the architectures that both have.

Left out is torch-hd's `HRRTensor.multibind`, which casts a complex product to real and so agrees with chained binding
of nobody, and ties of `multibundle`, which torch-hd gives to the lowest index or to zero. Its MCR is our CGR with
`bundling="round"` as far as binding and bundling go; it compares by the distance around the circle, we by the cosine.
"""

import pytest
import torch
import torchhd
from torch.testing import assert_close

from carving import VSA

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
    expected = plain(kind.identity(1, ours.filler_shape[-1], **options))[0]
    assert_close(ours.identity(), expected.to(ours.identity().dtype))
