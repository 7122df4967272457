"""What changes a memory: pairs that are added or taken out, and memories that are merged."""

from collections import Counter
from collections.abc import Callable, Sequence

import torch

from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.memory.codebook import Codebook
from carving.memory.pairs import canonical_leaf
from carving.scheme import Scheme
from carving.symbols import Leaf, canonical

OnProgress = Callable[[int], None]  # called with how many pairs or questions are done more


def report(on_progress: OnProgress | None, more: int) -> None:
    """Tell who wants to know that more is done."""
    if on_progress:
        on_progress(more)


class Change:
    """Pairs to be added to a memory: everything is made before anything is changed, so that errors change nothing."""

    def __init__(self, codebook: Codebook, on_progress: OnProgress | None) -> None:
        self.codebook, self.on_progress = codebook, on_progress
        self.trace, self.pairs = codebook.scheme.zeros(), 0
        self.counts, self.leaves = Counter[bytes](), dict[bytes, Leaf]()

    def add(self, batch: list[Pair], uncounted: Sequence[bool] = ()) -> None:
        """Bind a batch of pairs; some of them may not count as stored."""
        names = [canonical_leaf(leaf, path) for path, leaf in batch]
        distinct = {name: leaf for name, (_, leaf) in zip(names, batch, strict=True)}
        fillers = self.codebook.named(list(distinct))
        if len(distinct) < len(batch):
            row = {name: i for i, name in enumerate(distinct)}
            fillers = fillers[torch.tensor([row[name] for name in names], device=fillers.device)]
        self.codebook.scheme.add(self.trace, [path for path, _ in batch], fillers)
        if uncounted:
            names = [name for name, skip in zip(names, uncounted, strict=True) if not skip]
            distinct = {name: distinct[name] for name in names}
        self.counts.update(names)
        self.leaves |= distinct
        self.pairs += len(batch)
        report(self.on_progress, len(batch))


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
