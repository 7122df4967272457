"""How similar bound fillers are, to their filler and to each other."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from carving.lab.experiment import Measured, Setting
from carving.lab.measures.schemes import scheme_of
from carving.schemes.osc import OSC, Subspaces
from carving.schemes.vsa import VSA

COUNT = 200  # fillers, each in two contexts


def bound_similarity(setting: Setting, seed: int) -> Measured:
    """Measure the similarity of a bound filler to the filler, to itself in another context and to another filler.

    >>> measured = bound_similarity({"scheme": "MAP-I", "d": 1024}, seed=0)
    >>> all(abs(cosine) < 0.02 for cosine in measured.values())
    True
    """
    scheme = scheme_of(setting, seed)
    if isinstance(scheme, OSC):
        own, context, stranger = _of_osc(scheme)
    else:
        assert isinstance(scheme, VSA)
        own, context, stranger = _of_vsa(scheme)
    apart = ~torch.eye(COUNT, dtype=torch.bool)
    return {
        "to its filler": own.diagonal().mean().item(),
        "in two contexts": context.diagonal().mean().item(),
        "to a stranger": stranger[apart].mean().item(),
    }


def _of_osc(scheme: OSC) -> tuple[Tensor, Tensor, Tensor]:
    """Cosines (count, count) of bound fillers to fillers, to those in other contexts, and among each other."""
    fillers = scheme.fillers(range(COUNT))
    here, there = (scheme.contexts([(name, i) for i in range(COUNT)]) for name in ("here", "there"))
    assert isinstance(here, Subspaces) and isinstance(there, Subspaces)
    bound, other = carved(fillers, here), carved(fillers, there)
    return cosines(bound, normalize(fillers, dim=2)), cosines(bound, other), cosines(bound, bound)


def _of_vsa(scheme: VSA) -> tuple[Tensor, Tensor, Tensor]:
    fillers, roles = scheme.fillers(range(COUNT)), scheme.fillers(range(COUNT, 3 * COUNT))
    bound, other = scheme.bind(fillers, roles[:COUNT]), scheme.bind(fillers, roles[COUNT:])
    return scheme.similarity(bound, fillers), scheme.similarity(bound, other), scheme.similarity(bound, bound)


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """The products (n, m) of the components' cosines, of unit vectors (n, p, d) and (m, p, d)."""
    return torch.einsum("nij,mij->nmi", left, right).prod(2)


def carved(fillers: Tensor, contexts: Subspaces) -> Tensor:
    """The bound fillers' components (n, p, d), unit vectors of the contexts' subspaces."""
    inside = torch.einsum("npd,nkd->npk", fillers, contexts.basis)
    return normalize(torch.einsum("npk,nkd->npd", inside, contexts.basis), dim=2)
