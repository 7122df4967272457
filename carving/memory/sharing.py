"""One change that many ranks make: each binds its own pairs to nothing, and the sum of all is added to what was there.

A memory is a sum, so one all-reduce is all that the tensors need. Values, paths and what is counted are joined in the
order of the ranks: if these have read the files in their order, everything is as if one process had read them.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from carving.distributed.ranks import Group, Ranks, exchangeable
from carving.formats.documents import Pair
from carving.inference.sample import Histogram, PairSample
from carving.memory.changes import Change, OnProgress, check_weights, levels_of, report
from carving.memory.counts import Counts
from carving.memory.kept import Kept
from carving.memory.known import KnownPaths
from carving.memory.pairs import Batch
from carving.memory.state import State, check_sum, paths_of_both, stricter
from carving.planner.requirements import Target
from carving.schemes.slab import RowShard
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import lasting

LOOKED_AT = 4096  # numbers of a tensor, by which ranks see that theirs is another


@dataclass(frozen=True)
class Part:
    """What one rank brings, beside its tensor."""

    pairs: int
    counts: Mapping[bytes, float]
    sample: PairSample | Histogram
    paths: Mapping[bytes, float] | None  # what was stored under each, where paths are kept
    added: float


@dataclass(frozen=True)
class Light:
    """What one rank brings of a memory, beside its tensor."""

    target: Target | None
    names: list[bytes]  # of its values
    counts: Tensor
    paths: Mapping[bytes, float] | None
    sample: PairSample | Histogram

    @classmethod
    def of(cls, held: State) -> "Light":
        """Return that of a state."""
        paths = None if held.known is None else held.known.weights()
        return cls(held.target, held.vocabulary.names(), held.counts, paths, held.sample)

    def state(self, held: State) -> State:
        """Return the state that it is of, without tensor and fillers; the rest is as in this one."""
        known = None if self.paths is None else KnownPaths(self.paths)
        vocabulary, _ = Vocabulary().extended(self.names)
        own = dict(
            target=self.target, vocabulary=vocabulary, often=Counts(self.counts), known=known, sample=self.sample
        )
        return replace(held, tensor=held.tensor.new_empty(0), codebook=None, kept=Kept(), **own)  # type: ignore[arg-type]


exchangeable(Part, Light, PairSample, Histogram, Target)


def stored(
    held: State, parts: Iterable[list[Pair]], weight: float, ranks: Ranks, on_progress: OnProgress | None
) -> Change:
    """The change that the pairs of all ranks make; these are those of one."""
    check_same_state(ranks, held, weight=weight)
    own, paths = ranks.agreed(lambda: _own(held, parts, weight, on_progress))
    return _of_all(held, own, paths, ranks)


def _own(
    held: State, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None
) -> tuple[Change, dict[bytes, float] | None]:
    """A rank's own pairs, bound to nothing, and their paths, where they are kept."""
    own, paths = Change(replace(held.emptied(), known=None), weight), defaultdict[bytes, float](float)
    for pairs in parts:
        batch = Batch(pairs)
        own.add(batch)
        if held.known is not None:
            for name in batch.paths.names:
                paths[name] += weight
        report(on_progress, len(pairs))
    return own, None if held.known is None else dict(paths)


def _of_all(held: State, own: Change, paths: dict[bytes, float] | None, ranks: Ranks) -> Change:
    """The changes of all ranks as one, to what is there."""
    whole, known = Change(held, own.weight), held.known
    for part in ranks.each(Part(own.pairs, own.counts, own.sample, paths, own.added)):
        whole.pairs += part.pairs
        whole.added += part.added
        whole.counts.update(part.counts)  # which adds them
        whole.sample = whole.sample.merged(part.sample)
        known = known if known is None or part.paths is None else known.changed(part.paths.items())
    whole.known = known
    if whole.pairs:
        with lasting():
            whole.put(ranks.sum_(own.tensor).add_(held.tensor))
    return whole


def summed(held: State, ranks: Ranks) -> State:
    """The memories of all ranks as one, as `+` makes one of two."""
    check_sum(held, "add the memories of the ranks")
    trained = held.codebook.trained
    known = (
        None
        if trained is None
        else (trained.shape, float(trained.double().sum()), held.vocabulary.packed(0, len(trained)).tobytes())
    )
    ranks.check_same(**facts_of(held), trained=known)
    tensor, both = ranks.sum_(held.tensor.clone()), held.emptied()
    levels = []
    for theirs in (light.state(held) for light in ranks.each(Light.of(held))):
        levels.append(levels_of(theirs))
        target, paths = stricter(both.target, theirs.target), paths_of_both(both, theirs)
        sample = both.sample.merged(theirs.sample)
        both = both.holding(tensor, theirs.vocabulary, theirs.counts)
        both = replace(both, target=target, known=paths, sample=sample)
    check_weights(both, levels)
    return both


def facts_of(held: State) -> dict[str, object]:
    """What the memories of all ranks must have in common."""
    from carving import __version__

    scheme, paths, versions = held.scheme, held.known is not None, f"{__version__} (torch {torch.__version__})"
    return dict(version=versions, scheme=scheme, dtype=scheme.dtype, workspace=scheme.workspace, paths=paths)


def check_same_state(ranks: Ranks, held: State, **arguments: object) -> None:
    """Refuse ranks whose memories differ before they begin."""
    flat = held.tensor.reshape(-1)
    step = max(1, len(flat) // LOOKED_AT)
    contents = (held.stored, flat[::step].tolist()[:LOOKED_AT]) if held.pairs else None
    sizes = dict(pairs=held.pairs, values=len(held.vocabulary), target=held.target)
    ranks.check_same(**facts_of(held), **sizes, contents=zlib.crc32(str(contents).encode()), **arguments)


def shared_paths(held: State, paths: Paths, group: Group, rounds: int) -> tuple[Ranks, slice]:
    """The ranks that ask for paths together, and which of these are this one's."""
    ranks = Ranks.of(group)
    if len(paths) < ranks.size or isinstance(held.scheme, RowShard):  # each rank had better ask for all of them
        return Ranks.alone(), slice(None)
    if ranks.size > 1:
        digest = len(paths), zlib.crc32(b"".join(paths.names))
        check_same_state(ranks, held, questions=digest, rounds=rounds)
    return ranks, slice(*(len(paths) * each // ranks.size for each in (ranks.rank, ranks.rank + 1)))
