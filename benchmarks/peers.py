"""What OSC is measured beside: the paper's own formulas, HLB, and torch-hd's HRR and MAP at equal cells."""

from collections.abc import Callable

import torch
import torchhd
from measuring import Run
from torch import Tensor

LARGEST = 4 * 2**30  # bytes of a codebook of whole vectors that we are willing to make
THEIRS: dict[str, Callable[..., Tensor]] = {"hrr": torchhd.HRRTensor, "map": torchhd.MAPTensor}


def carved(basis: Tensor, candidates: Tensor) -> Tensor:
    """Every candidate projected in R^d and normalized, as the paper writes it."""
    projected = candidates @ (basis.T @ basis)
    return projected / projected.norm(dim=-1, keepdim=True)


# The paper's score in two forms, of which now the one, now the other is faster: the rival is the faster.


def by_einsum(memory: Tensor, basis: Tensor, candidates: Tensor, chunk: int = 1_000) -> Tensor:
    """Every carved candidate contracted with the whole memory in one expression."""
    letters = "abcd"[: memory.dim()]
    formula = f"{letters},{','.join('l' + letter for letter in letters)}->l"
    parts = carved(basis, candidates).split(chunk)
    return torch.cat([torch.einsum(formula, memory, *part.unbind(1)) for part in parts])


def by_modes(memory: Tensor, basis: Tensor, candidates: Tensor, chunk: int = 500) -> Tensor:
    """The same, mode after mode."""
    scores = []
    for part in carved(basis, candidates).split(chunk):
        first, *rest = part.unbind(1)
        left = first @ memory.view(memory.shape[0], -1)
        for component in rest:
            left = torch.bmm(component.unsqueeze(1), left.view(*component.shape, -1)).squeeze(1)
        scores.append(left.squeeze(1))
    return torch.cat(scores)


def hlb(memory: Tensor, role: Tensor, codebook: Tensor) -> Tensor:
    """Unbinding by division, then one product with the codebook."""
    return codebook @ (memory / role)


# Vector symbolic architectures whose memory has as many cells


def questions(cells: int, vocabulary: int, asked: int = 1) -> dict[str, Run]:
    """Each asked so many questions; none where the codebook would be too large."""
    if 4 * cells * vocabulary > LARGEST:
        return {}
    codebook, memory = torch.randn(vocabulary, cells), torch.randn(cells)
    roles = torch.randn(asked, cells).sign()
    found: dict[str, Run] = {}
    if asked == 1:
        found["hlb"] = lambda: hlb(memory, roles[0], codebook).argmax()
    for name, kind in THEIRS.items():
        theirs = [tensor.as_subclass(kind) for tensor in (memory, roles, codebook)]
        found[name] = lambda theirs=theirs: answered(*theirs)
    return found


def answered(memory: Tensor, roles: Tensor, codebook: Tensor) -> Tensor:
    """What torch-hd's documentation does: bind with the inverse, and take the most similar."""
    return torchhd.dot_similarity(torchhd.bind(memory, torchhd.inverse(roles)), codebook).argmax(-1)


def roles(cells: int) -> tuple[dict[str, Run], int]:
    """Random vectors, and how many."""
    rows = max(1, 2**24 // cells)
    return {name: lambda name=name: torchhd.random(rows, cells, name.upper()) for name in THEIRS}, rows


def bundles(cells: int) -> tuple[dict[str, Run], int]:
    """Pairs bound and summed, and how many."""
    rows = max(1, 2**24 // cells)
    keys, values = torch.randn(rows, cells), torch.randn(rows, cells)
    return {
        name: lambda kind=kind: torchhd.hash_table(keys.as_subclass(kind), values.as_subclass(kind))
        for name, kind in THEIRS.items()
    }, rows
