import pytest
import torch

from carving import OSC


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(
    params=[
        OSC(12, 1),
        OSC(20, 2),
        OSC(12, 3),
        OSC(7, 4),
        OSC(20, 2, signed=False),
        OSC(12, 3, k1=1),
        OSC(12, 2, carved=3),
        OSC(7, 3, carved=1, seed=5),
    ],
    ids=lambda scheme: f"d{scheme.d}-p{scheme.p}-k{scheme.k1}{'' if scheme.signed else '-unsigned'}",
)
def scheme(request):
    return request.param


@pytest.fixture
def double(scheme):
    """The same scheme in float64, for comparisons to the last digits."""
    return OSC(scheme.d, scheme.p, scheme.k1, scheme.signed, scheme.seed, torch.float64)


@pytest.fixture
def pairs():
    """n contexts and n fillers of a scheme, told apart by their numbers."""

    def make(scheme, count, start=0):
        numbers = range(start, start + count)
        return scheme.contexts([("place", i) for i in numbers]), scheme.fillers(numbers)

    return make
