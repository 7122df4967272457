"""What is true of a scheme: its shapes, its costs, its laws; and whether tensors are of its shapes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carving.checks import check_tensor
from carving.chunks import Cost

FILLERS = "fillers(labels) makes them"
CORES = "read(memory, contexts) and encode(fillers, contexts) make them"


@dataclass(frozen=True)
class Facts:
    """What is true of a scheme: its shapes, its costs, and its laws (each is tested both ways)."""

    filler_shape: tuple[int, ...]
    core_shape: tuple[int, ...]  # of a core: what a context shows of the memory
    memory_shape: tuple[int, ...]
    memory_dtype: torch.dtype  # of memories and cores
    filler_dtype: torch.dtype
    filler_words: int  # 64-bit words of randomness that a filler is made from
    context_kind: str  # what contexts must be of to fit
    cost: Cost
    filler_scalars: int  # real numbers (or bits, or indices) that a filler is
    memory_scalars: int  # real numbers that a memory holds
    # Numbers of a candidate that `precompute` made, whose products with flat cores are scores and inner products alike;
    # 0: it leaves candidates as they are.
    code_size: int = 0
    # Numbers of a candidate whose parts have unit norms, laid flat, which few questions take fastest; 0: there is none.
    part_size: int = 0
    filler_layout: tuple[int, ...] = ()  # the order in which dimensions of fillers (L, *filler_shape) lie, if another
    exact: bool = True  # reading the memory of a single pair gives the filler's core
    adjoint: bool = True  # read is the transpose of write
    self_inverse: bool = False  # binding twice with a role undoes it
    commutative: bool = False  # bind(a, b) = bind(b, a)
    associative: bool = False  # bind(bind(a, b), c) = bind(a, bind(b, c))
    contextual: bool = False  # encode depends on the context, not on the filler alone
    linear: bool = True  # the memory is read as the sum that it is, of traces with mean zero: likelihoods hold
    # The variance that one stored pair gives the scores of other contexts, in units of 1 / memory_scalars: a pair with
    # another filler than the candidate, and one with the same.
    interference: float = 1.0
    echo: float = 1.0
    # By how much that grows, in units of itself, with every squared cosine of two components of a candidate in its
    # context; 0: it is the same for all candidates, or nearly.
    uneven: float = 0.0
    # What a filler that is stored in one context shows in every other, in the mean, where contexts have no signs; and
    # by how much that differs from context to context, as a variance relative to its square.
    bias: float = 0.0
    unsteady: float = 0.0
    # The factors, one a mode, whose product is the interference of one pair: the more, the heavier its tails.
    order: int = 1


def check_memory(facts: Facts, memory: Tensor) -> None:
    """Refuse a memory of another scheme."""
    way_out = "a memory of this scheme comes from its trace(...) or zeros()"
    check_tensor("memory", memory, facts.memory_shape, way_out, facts.memory_dtype)


def check_cores(facts: Facts, cores: Tensor, count: int) -> None:
    """Refuse cores of another scheme, or of other contexts."""
    check_tensor("cores", cores, (count, *facts.core_shape), CORES, facts.memory_dtype)


def check_candidates(facts: Facts, candidates: Tensor, contexts: int) -> bool:
    """Whether the candidates are shared by all contexts; if not, each has its own."""
    own = isinstance(candidates, Tensor) and candidates.dim() == len(facts.filler_shape) + 2
    shape = (*((contexts, -1) if own else (-1,)), *facts.filler_shape)
    if facts.code_size and isinstance(candidates, Tensor) and candidates.dim() == 2:
        shape = (-1, flat_size(facts, candidates))
    check_tensor("candidates", candidates, shape, FILLERS)
    return not own


def flat_size(facts: Facts, candidates: Tensor) -> int:
    """How many numbers each of these flat candidates must have: those of codes, or of parts."""
    return facts.part_size if candidates.shape[1] == facts.part_size else facts.code_size
