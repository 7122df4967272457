"""Facts about a scheme: shapes, costs and laws; and the validation of tensors against them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from carving.tiling import Cost
from carving.validate import check_tensor

FILLERS = "create them with fillers(labels)"
CORES = "create them with read(memory, contexts) or encode(fillers, contexts)"


@dataclass(frozen=True)
class Facts:
    """Facts about a scheme: shapes, costs and laws. Each law is tested where it holds and where it does not."""

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
    """Refuse a memory whose shape or dtype is not the scheme's."""
    way_out = "create it with the scheme's trace(...) or zeros()"
    check_tensor("memory", memory, facts.memory_shape, way_out, facts.memory_dtype)


def check_cores(facts: Facts, cores: Tensor, count: int) -> None:
    """Refuse cores whose shape or dtype is not the scheme's, or whose number is not `count`."""
    check_tensor("cores", cores, (count, *facts.core_shape), CORES, facts.memory_dtype)


def check_candidates(facts: Facts, candidates: Tensor, contexts: int) -> bool:
    """Return whether candidates are shared by all contexts (True) or given for each context; refuse other shapes."""
    own = isinstance(candidates, Tensor) and candidates.dim() == len(facts.filler_shape) + 2
    shape = (*((contexts, -1) if own else (-1,)), *facts.filler_shape)
    if facts.code_size and isinstance(candidates, Tensor) and candidates.dim() == 2:
        shape = (-1, flat_size(facts, candidates))
    check_tensor("candidates", candidates, shape, FILLERS)
    return not own


def flat_size(facts: Facts, candidates: Tensor) -> int:
    """Return the length that flat candidates must have: the code size or the part size."""
    return facts.part_size if candidates.shape[1] == facts.part_size else facts.code_size
