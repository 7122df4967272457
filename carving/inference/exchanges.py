"""Candidates that are alike: of what was found, each takes the place that fits best beside the others."""

from typing import NamedTuple

import torch
from torch import Tensor

from carving.inference.likelihood import Evidence, Likelihood
from carving.schemes.base import Contexts, Scheme
from carving.tiling import slices

ROUNDS = 8  # in which candidates are exchanged at most


class Found(NamedTuple):
    """What was found and taken out of cores, by its contexts."""

    rows: Tensor  # which context, rising
    indices: Tensor  # which candidate
    out: Tensor  # with which strength it was taken out


def exchanged(
    scheme: Scheme, cores: Tensor, contexts: Contexts, candidates: Tensor, found: Found, odds: Likelihood
) -> tuple[Tensor, Tensor]:
    """What contexts hold and with which strengths, each the best beside the others, as long as one is better.

    Of candidates that are alike, one between two others may have been the best at first. The cores follow.
    """
    rows, indices, out = found.rows, found.indices.clone(), found.out.clone()
    sizes = rows.bincount(minlength=len(cores))
    places = torch.arange(len(rows), device=cores.device) - (sizes.cumsum(0) - sizes)[rows]
    for _ in range(ROUNDS if len(rows) else 0):
        before = indices.clone()
        for place in range(int(sizes.max())):
            whole = (places == place).nonzero().squeeze(1)
            for part in slices(len(whole), max(1, scheme.room // 4 // len(candidates))):
                which, own = whole[part], contexts[rows[whole[part]]]
                _put_(scheme, cores, rows[which], own, candidates[indices[which]], out[which])
                held = (rows == rows[which].unsqueeze(1)) & (places != place)  # (n, all that was found)
                best, strengths = _best(scheme, cores[rows[which]], own, candidates, (held, indices), odds)
                indices[which], out[which] = best, strengths.to(out)
                _put_(scheme, cores, rows[which], own, candidates[best], -out[which])
        if indices.equal(before):
            break
    return indices, out


def _best(
    scheme: Scheme,
    cores: Tensor,
    contexts: Contexts,
    candidates: Tensor,
    others: tuple[Tensor, Tensor],
    odds: Likelihood,
) -> tuple[Tensor, Tensor]:
    """The candidate (n,) with the best odds that is none of the others, and how strongly it is held."""
    evidence, every = Evidence.of(scheme, cores, contexts, candidates), slice(0, len(candidates))
    held, indices = others
    row, which = held.nonzero(as_tuple=True)
    alone = odds.log_odds(evidence, every)
    alone[row, indices[which]] = -torch.inf
    best = alone.argmax(1, keepdim=True)
    return best.squeeze(1), odds.expected_strength(evidence, every).gather(1, best).squeeze(1)


def _put_(scheme: Scheme, cores: Tensor, rows: Tensor, contexts: Contexts, fillers: Tensor, strengths: Tensor) -> None:
    """Put fillers, one a context, into the cores of different rows."""
    core = scheme.encode(fillers, contexts)
    cores[rows] += scheme.adjoint_write(core * strengths.view(-1, *(1,) * (core.dim() - 1)).to(core.dtype), contexts)
