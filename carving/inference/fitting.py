"""Fitting what tells how probable the answers of a solved memory are, at several levels of noise (`fitted.py`)."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from carving.inference.best import scan
from carving.inference.fitted import LIMIT, Level, powers, rating, shown_by
from carving.schemes.base import Contexts, Scheme

SHARES = (0.0, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0)  # of the pairs' energy that come as noise, where it is fitted
SAMPLE = 2000  # contexts of either kind that are asked
PRIOR = 1e-2  # of the weights: how weakly they are drawn to nothing
NEWTON = 40  # steps


class Sample(NamedTuple):
    """Contexts to ask: those that hold something, with what they hold, and those that hold nothing."""

    contexts: Contexts
    wanted: Tensor  # (n,)
    absent: Contexts


def fitted(
    scheme: Scheme, memory: Tensor, candidates: Tensor, sample: Sample, slope: float, pairs: int
) -> Iterator[Level]:
    """What holds at each level of noise, for a memory that was solved for so many pairs."""
    generator = Generator().manual_seed(0)
    for share in SHARES:
        noise = share * pairs
        yield _level(scheme, _noisy(scheme, memory, noise, generator), candidates, sample, slope, noise)


def _noisy(scheme: Scheme, memory: Tensor, energy: float, generator: Generator) -> Tensor:
    """The memory with as much noise as pairs of that energy make."""
    if not energy:
        return memory
    deviation = math.sqrt(energy * scheme.mean_bound_energy / scheme.facts.memory_scalars)
    real = torch.view_as_real(memory) if memory.is_complex() else memory
    noise = torch.randn(real.shape, generator=generator, dtype=real.dtype).to(real.device)
    noisy = real + deviation * noise
    return torch.view_as_complex(noisy) if memory.is_complex() else noisy


def _level(scheme: Scheme, memory: Tensor, candidates: Tensor, sample: Sample, slope: float, noise: float) -> Level:
    here, nowhere = (
        scan(scheme, memory, contexts, candidates, 1, rating(scheme, slope))
        for contexts in (sample.contexts, sample.absent)
    )
    right = (here.best.indices[:, 0] == sample.wanted).double()
    shown, nothing = shown_by(here), shown_by(nowhere)
    own = strengths_of(scheme, memory, sample.contexts, candidates, sample.wanted)
    # Of other pairs, half are of paths that hold something else.
    other = (sample.wanted + 1 + torch.arange(len(sample.wanted), device=own.device)) % len(candidates)
    others = strengths_of(scheme, memory, sample.contexts, candidates, other)[other != sample.wanted]
    none = strengths_of(scheme, memory, sample.absent, candidates, torch.arange(len(sample.absent)) % len(candidates))
    return Level(
        noise,
        float(right.mean()),
        regression(shown, nothing),
        # One more that is right and one that is not: so many and no more are known.
        _regressed(torch.cat([shown, *[shown.mean(0, True)] * 2]), torch.cat([right, right.new_tensor([0.0, 1.0])])),
        regression(powers(own), powers(torch.cat([others, none]))),
    )


def strengths_of(scheme: Scheme, memory: Tensor, contexts: Contexts, candidates: Tensor, indices: Tensor) -> Tensor:
    """How strongly contexts hold one candidate each (n,)."""
    fillers = candidates[indices.to(candidates.device)].unsqueeze(1)
    cores = scheme.adjoint(memory, contexts)
    inner = scheme.inner(cores, contexts, fillers)
    return (inner / scheme.energy(contexts, fillers)).squeeze(1).double()


def regression(those: Tensor, others: Tensor) -> tuple[float, ...]:
    """The weights that tell rows from others, both as likely beforehand."""
    truth = torch.cat([those.new_ones(len(those)), others.new_zeros(len(others))])
    even = torch.cat(
        [those.new_full((len(those),), 0.5 / len(those)), others.new_full((len(others),), 0.5 / len(others))]
    )
    return _regressed(torch.cat([those, others]), truth, even * len(truth))


def _regressed(shown: Tensor, truth: Tensor, times: Tensor | None = None) -> tuple[float, ...]:
    """Logistic regression by Newton's method, on what is shown in units of its own deviation."""
    shown, truth = shown.cpu(), truth.cpu()
    often = torch.ones_like(truth) if times is None else times.cpu()
    scale = shown.std(0).clamp_min(1e-9)
    scale[0] = 1.0
    rows, weights = shown / scale, shown.new_zeros(shown.shape[1])
    ridge = PRIOR * torch.eye(shown.shape[1], dtype=shown.dtype)
    for _ in range(NEWTON):
        chance = (rows @ weights).clamp(-LIMIT, LIMIT).sigmoid()
        bend = (often * chance * (1 - chance)).unsqueeze(1)
        step = torch.linalg.solve(
            rows.mT @ (bend * rows) + ridge, rows.mT @ (often * (truth - chance)) - ridge @ weights
        )
        length = min(1.0, 10.0 / max(1e-9, float(step.abs().max())))
        weights = weights + length * step
        if float(step.abs().max()) < 1e-9:
            break
    return tuple((weights / scale).tolist())
