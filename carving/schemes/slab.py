"""A scheme whose memory is split over ranks: each rank holds some rows of the tensor's first mode.

Writing touches only the rank's own rows. Reading is linear: every rank reads its own rows, and an all-reduce sum gives
all ranks the same cores. Everything built on reading and writing works as in one process, as long as all ranks make the
same calls in the same order.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from torch import Tensor

from carving.caching import cached_property
from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.schemes.base import Facts, Scheme
from carving.schemes.fillers import OrdinaryFillers
from carving.schemes.osc import OSC
from carving.schemes.tpr import TPR


def hook_of_whole(name: str) -> Any:
    """Return a method that calls the method of this name of the whole scheme."""
    return lambda shard, *given: getattr(shard.whole, name)(*given)


@dataclass(frozen=True, repr=False)
class RowShard(Scheme[Any]):
    """A scheme for the rows of a memory that one rank holds.

    Args:
        whole: The scheme of the whole memory.
        ranks: The process group.

    >>> part = RowShard(OSC(d=40, p=3), Ranks.alone())
    >>> part.rows, part.zeros().shape, part.parameters == OSC(d=40, p=3).parameters
    (slice(0, 40, None), torch.Size([40, 40, 40]), True)
    """

    whole: OSC | TPR
    ranks: Ranks = field(compare=False)

    def __post_init__(self) -> None:
        whole = check_sliceable(self.whole)
        if whole.d < self.ranks.size:
            raise BadValue(
                f"A memory of {whole.d} rows can be split over at most {whole.d} ranks, got {self.ranks.size} ranks. "
                "Start fewer processes."
            )
        how = dict(seed=whole.seed, dtype=whole.dtype, device=whole.device, workspace=whole.workspace)
        vars(self).update(how, name=whole.name)
        super().__post_init__()

    @cached_property
    def rows(self) -> slice:
        """The rows of the first mode that this rank holds."""
        return rows_of(self.ranks.rank, self.ranks.size, self.whole.d)

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor arguments of the whole scheme."""
        return self.whole.parameters

    def like(self, **changes: Any) -> "RowShard":
        """Return the rows of the whole scheme with some arguments changed."""
        return RowShard(self.whole.like(**changes), self.ranks)

    @cached_property
    def fingerprint(self) -> str:
        """The whole scheme's, whose contexts these are."""
        return self.whole.fingerprint

    @cached_property
    def facts(self) -> Facts:
        """The facts of the whole scheme, with the memory shape of this rank."""
        facts, own = self.whole.facts, self.rows
        return replace(facts, memory_shape=(own.stop - own.start, *facts.memory_shape[1:]))

    # What is a rank's own

    def _add(self, memory: Tensor, contexts: Any, fillers: Tensor, weights: Tensor | None) -> None:
        self.whole._add(memory, contexts, fillers, weights, self.rows)

    def _write(self, cores: Tensor, contexts: Any) -> Tensor:
        return self.whole.write_rows(cores, contexts, self.rows)

    def _read(self, memory: Tensor, contexts: Any) -> Tensor:
        return self.ranks.sum_(self.whole.read_rows(memory, contexts, self.rows))

    def _adjoint(self, memory: Tensor, contexts: Any) -> Tensor:
        return self.ranks.sum_(self.whole.adjoint_rows(memory, contexts, self.rows))

    def squared_norm(self, memory: Tensor) -> float:
        """Return the squared norm of the whole memory, summed over ranks."""
        return float(sum(self.ranks.gather(super().squared_norm(memory))))

    def remove_partial_traces(self, memory: Tensor) -> Tensor:
        """Return the memory without the traces over pairs of modes, as `OrdinaryFillers` does for a whole memory."""
        whole, own = self.whole, self.rows
        if not isinstance(whole, OSC) or not isinstance(whole.filler_kind, OrdinaryFillers) or whole.p == 1:
            return memory
        even = memory.clone()
        for first, second in 2 * tuple(combinations(range(whole.p), 2)):
            if first:
                diagonal = even.diagonal(dim1=first, dim2=second)
                diagonal -= diagonal.mean(-1, keepdim=True)
            else:  # of the first mode a rank has a part of each diagonal
                diagonal = even.narrow(second, own.start, len(even)).diagonal(dim1=0, dim2=second)
                diagonal -= self.ranks.sum_(diagonal.sum(-1, keepdim=True)) / whole.d
        return even

    # What every rank computes as for the whole memory

    _fillers, _contexts, _encode, _match = map(hook_of_whole, ("_fillers", "_contexts", "_encode", "_match"))
    _expected, _energy, adjoint_write = map(hook_of_whole, ("_expected", "_energy", "adjoint_write"))
    _directional_noise = hook_of_whole("_directional_noise")


def rows_of(rank: int, size: int, total: int) -> slice:
    """Return the rows of one rank of `size`: contiguous, in order, sizes equal up to one."""
    return slice(total * rank // size, total * (rank + 1) // size)


def check_sliceable(scheme: Scheme) -> OSC | TPR:
    """Return the scheme; refuse one whose memories cannot be split into rows."""
    if not isinstance(scheme, OSC | TPR):
        raise BadValue(
            f"Only memories of OSC and TPR can be split into rows, got {scheme}. Use "
            "Memory(scheme).distributed(group): every rank then holds the whole memory."
        )
    return scheme
