"""What probabilities are made of, for every scheme that has them: <memory, bound>, |bound|^2, and the transpose."""

import pytest
import torch
from torch.testing import assert_close


@pytest.fixture
def linear(double):
    if not double.facts.linear:
        pytest.skip("its memory settles, or its traces have no mean of zero")
    return double


@pytest.fixture
def memory(linear, generator):
    memory = torch.randn(*linear.facts.memory_shape, generator=generator, dtype=torch.float64).to(
        linear.facts.memory_dtype
    )
    return torch.complex(memory.real, memory.real.roll(1, 0)) if linear.facts.memory_dtype.is_complex else memory


def real_inner(one, other):
    one, other = (torch.view_as_real(x) if x.is_complex() else x for x in (one, other))
    return (one * other).sum()


def test_inner_products_with_bound_candidates_need_no_bound_candidates(linear, memory, pairs):
    contexts, fillers = pairs(linear, 3)
    inner = linear.inner(linear.adjoint(memory, contexts), contexts, fillers)
    energy = linear.energy(contexts, fillers).expand(3, 3)
    for row in range(3):
        for column in range(3):
            bound = linear.trace(contexts[row], fillers[column : column + 1])
            assert_close(inner[row, column], real_inner(memory, bound), rtol=1e-9, atol=1e-9)
            assert_close(energy[row, column], real_inner(bound, bound), rtol=1e-9, atol=1e-9)


def test_contexts_may_have_candidates_of_their_own(linear, memory, pairs):
    contexts, fillers = pairs(linear, 3)
    own = torch.stack([fillers, fillers.flip(0), fillers.roll(1, 0)])
    cores = linear.adjoint(memory, contexts)
    for row in range(3):
        assert_close(linear.inner(cores, contexts, own)[row], linear.inner(cores, contexts, own[row])[row])
        assert_close(
            linear.energy(contexts, own).expand(3, 3)[row], linear.energy(contexts, own[row]).expand(3, 3)[row]
        )


def test_taking_a_core_out_of_the_memory_takes_what_returns_out_of_the_adjoint(linear, memory, pairs):
    contexts, fillers = pairs(linear, 1)
    core = linear.encode(fillers, contexts)
    without = linear.adjoint(memory - linear.write(core, contexts), contexts)
    assert_close(without, linear.adjoint(memory, contexts) - linear.adjoint_write(core, contexts), rtol=1e-9, atol=1e-9)


def test_where_read_is_the_transpose_it_is_the_adjoint(linear, memory, pairs):
    contexts, _ = pairs(linear, 4)
    if linear.facts.adjoint:
        assert_close(linear.adjoint(memory, contexts), linear.read(memory, contexts))
    else:
        assert not torch.allclose(linear.adjoint(memory, contexts), linear.read(memory, contexts))
