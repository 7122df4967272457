"""What changes a memory: pairs that are added or taken out, and memories that are merged."""

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.memory.codebook import Codebook
from carving.memory.pairs import Batch
from carving.scheme import Scheme
from carving.symbols import Leaf, canonical

OnProgress = Callable[[int], None]  # called with how many pairs or questions are done more


def report(on_progress: OnProgress | None, more: int) -> None:
    """Tell who wants to know that more is done."""
    if on_progress:
        on_progress(more)


class Change:
    """Pairs to be added to a memory: everything is made before anything is changed, so that errors change nothing."""

    def __init__(self, memory: Tensor, weight: float, codebook: Codebook, on_progress: OnProgress | None) -> None:
        self.weight, self.codebook, self.on_progress = weight, codebook, on_progress
        # The memory as it will be: a copy, the one allocation of its size, to which the pairs are added. What is there
        # stays as it is whatever happens, for those too who hold on to it; adding to it in place, and taking out again
        # what fails, would not give the same numbers back.
        self.tensor = memory.clone(memory_format=torch.contiguous_format)
        self.pairs, self.counts, self.leaves = 0, Counter[bytes](), dict[bytes, Leaf]()

    def add(self, batch: Batch, uncounted: Sequence[bool] = ()) -> None:
        """Bind a batch of pairs; some of them may not count as stored."""
        names, leaves = batch.names, batch.leaves
        fillers, scheme = self.codebook.named(names), self.codebook.scheme
        weights = None
        if self.weight != 1:
            weights = torch.full((len(names),), self.weight, dtype=torch.float64, device=scheme.device)
        scheme.add(self.tensor, batch.paths, fillers, weights)
        if uncounted:
            names = [name for name, skip in zip(names, uncounted, strict=True) if not skip]
            leaves = [leaf for leaf, skip in zip(leaves, uncounted, strict=True) if not skip]
        self.counts.update(names)
        self.leaves.update(zip(names, leaves, strict=True))
        self.pairs += len(batch.leaves)
        report(self.on_progress, len(batch.leaves))


def check_same(ours: Scheme, theirs: Scheme) -> None:
    """Refuse schemes whose memories cannot be added, and say what differs."""
    one, other = (dict(scheme=type(scheme).__name__) | scheme.parameters for scheme in (ours, theirs))
    kind = "name" if "name" in one and "name" in other else "scheme"
    names = [kind] if one[kind] != other[kind] else list(dict.fromkeys((*one, *other)))
    differ = [f"{n} ({one.get(n)!r} and {other.get(n)!r})" for n in names if one.get(n) != other.get(n)]
    if differ:
        raise BadValue(
            f"only memories of one scheme, with the same parameters and seed, can be added; these differ in "
            f"{', '.join(differ)}; store the pairs of one in a memory like the other"
        )


def check_same_trained(ours: Codebook, theirs: Codebook) -> None:
    """Refuse other trained fillers, or those of other leaves: `1` is not `True`."""
    one, other = ours.trained, theirs.trained
    if one is not None and other is not None and one.shape == other.shape:
        leaves = [list(map(canonical, each.vocabulary.labels[: len(one)])) for each in (ours, theirs)]
        if leaves[0] == leaves[1] and torch.equal(one, other.to(one)):
            return
    if one is not None or other is not None:
        raise BadValue("these memories have different trained fillers, so that their tensors do not add")
