"""Changes of a memory: pairs that are stored or forgotten, of one process or of many ranks, and sums of memories."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import NamedTuple

import torch
from torch import Tensor

from carving.distributed.messages import exchangeable
from carving.distributed.ranks import Ranks
from carving.errors import BadValue
from carving.formats.documents import Pair
from carving.inference.sample import Histogram, Levels, PairSample
from carving.memory.codebook import Codebook, Drawn, check_finite
from carving.memory.counts import Counts, KnownPaths
from carving.memory.pairs import BATCH, Batch, OnProgress, report
from carving.memory.query import weighed
from carving.memory.sharding import check_same_state, facts_of
from carving.memory.state import Kept, State, check_sum, paths_of_both, solved_of_both, stricter
from carving.planner.requirements import Target
from carving.schemes.base import Scheme
from carving.symbols.codec import Path, Value
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import lasting

LOST = 0.1  # of the lightest weight is the most that rounding may cost each pair
LIGHTER = 0.01  # the share of the pairs that may be lighter than what is called the lightest
NOTHING = "There must be at least one pair, got none."


class Change:
    """Pairs to be added to a state: everything is made apart, so that errors and interrupts change nothing."""

    def __init__(self, held: State, weight: float) -> None:
        self.held, self.weight, self.fillers = held, weight, Drawn(held.codebook)
        self._copy: Tensor | None = None
        self.pairs, self.counts = 0, Counter[bytes]()  # by the values' canonical bytes
        self.known = held.known  # the paths that will be kept
        self.sample = held.sample
        self.added = 0.0  # the energy of all pairs that are counted, in units of one

    @property
    def tensor(self) -> Tensor:
        """The memory as it will be: a copy, the one allocation of its size, to which the pairs are added.

        What is there stays as it is whatever happens, for those too who hold on to it; adding to it in place, and
        taking out again what fails, would not give the same numbers back.
        """
        if self._copy is None:
            with lasting():
                self._copy = self.held.tensor.clone(memory_format=torch.contiguous_format)
        return self._copy

    def put(self, tensor: Tensor) -> None:
        """Put a tensor that was made elsewhere in the place of what will be."""
        self._copy = tensor

    def add(self, batch: Batch, counted: bool = True) -> None:
        """Bind a batch of pairs; those that were never stored do not count when they are taken out."""
        self.bind(batch)
        self.count(batch, counted=None if counted else [False] * len(batch))

    def bind(self, batch: Batch, weights: Sequence[float] | None = None) -> None:
        """Add a batch of pairs to the tensor, each with the change's weight or its own."""
        if not len(batch):
            return
        if weights is None:  # else it lies in a file
            self.held.codebook.check_levels(batch.values, batch.names)
        fillers, scheme = self.fillers.named(batch.names, last=len(batch) < BATCH), self.held.scheme
        given = None
        if weights is not None:
            given = torch.tensor(weights, dtype=torch.float64, device=scheme.device)
        elif self.weight != 1:
            given = torch.full((len(batch),), self.weight, dtype=torch.float64, device=scheme.device)
        scheme.add(self.tensor, batch.paths, fillers, given)
        self.pairs += len(batch)

    def count(
        self, batch: Batch, weights: Sequence[float] | None = None, counted: Sequence[bool] | None = None
    ) -> None:
        """Count a batch's values, and sample its pairs; `weights` are multiples of the change's weight.

        Pairs that do not count, because they were never stored, are sampled all the same.
        """
        pairs = list(zip(batch.paths.names, batch.names, strict=True))
        times = [1.0] * len(pairs) if weights is None else weights
        if self.held.scheme.facts.linear:
            self.sample = self.sample.plus(pairs, [self.weight * each for each in times])
        if counted is not None:
            pairs, times = list(compress(pairs, counted)), list(compress(times, counted))
        if weights is None:
            self.counts.update(value for _, value in pairs)
        else:
            for (_, value), each in zip(pairs, times, strict=True):
                self.counts[value] += each  # type: ignore[assignment]  # counters sum anything
        self.added += sum([self.weight * self.weight * each * each for each in times])
        if self.known is not None:
            self.known = self.known.changed((p, self.weight * n) for (p, _), n in zip(pairs, times, strict=True))

    def state(self) -> State:
        """What will be there: numbers that are not finite are refused."""
        tensor = self.held.tensor
        if self._copy is not None:
            tensor = self._copy
            check_finite("The memory tensor", tensor)
        times = torch.tensor(list(self.counts.values()), dtype=torch.float64)
        after = self.held.holding(tensor, self.counts, self.weight * times)
        solved = None if after.solved is None else after.solved.plus(self.added)
        return replace(after, known=self.known, sample=self.sample, solved=solved)


def checked(change: Change) -> State:
    """Return the state after a change; refuse a change without pairs, or of a weight that rounding would lose."""
    if not change.pairs:
        raise BadValue(NOTHING)
    after, own, levels = change.state(), abs(change.weight), levels_of(change.held)
    if own and levels and (len(levels) > 1 or levels[0][0] != own):  # most often all weights are 1
        check_weights(after, [levels, ((own, float(change.pairs)),)], change.held)
    return after


def check_weights(
    held: State, levels: Sequence[Levels], before: State | None = None, dtype: torch.dtype | None = None
) -> None:
    """Refuse weights that are too far apart for a tensor of this dtype, unless they were before.

    Rounding changes a tensor of the squared norm E by about u^2 E, u = eps / 2. That is the noise of N pairs of the
    weight u sqrt(E / N), which stays when heavy pairs are forgotten: for the lightest pairs it must be small.
    """
    dtype = dtype or held.scheme.dtype
    mean, lightest = _spread(held, levels)
    most = 2 * LOST / torch.finfo(dtype).eps
    if mean <= most * lightest or mean == math.inf:  # which is refused where numbers must be finite
        return
    if before is not None:
        former, lightest_before = _spread(before, levels[:1])
        if lightest_before and mean * lightest_before <= (1 + 1e-6) * former * lightest:
            return
    raise BadValue(
        f"Weights are too far apart for {dtype}: their root mean square would be {mean:.3g}, {mean / lightest:,.0f} "
        f"times the weight {lightest:.3g} of the lightest pairs, which rounding would erase; {most:,.0f} times is the "
        "most. Use weights nearer to each other, or a wider dtype: memory.to(dtype=torch.float64)."
    )


def _spread(held: State, levels: Sequence[Levels]) -> tuple[float, float]:
    """Return the root mean square weight, and the lightest: the lowest percentile of a part.

    The energy is that of the tensor, or of the sample, which has changes that are not in the tensor yet; a pair that is
    stored again is no further pair.
    """
    number, lightest, histogram = 0.0, math.inf, held.histogram
    for part in map(sorted, filter(None, levels)):
        many = list(accumulate(n for _, n in part))
        number += many[-1]
        lightest = min(lightest, next(s for (s, _), n in zip(part, many, strict=True) if n > LIGHTER * many[-1]))
    number = sum(n for _, n in (*histogram.strengths, *histogram.negative)) or number
    unit = held.scheme.mean_bound_energy
    energy = max(held.energy / unit, histogram.squares)
    return (math.sqrt(energy / number), lightest) if number and levels else (0.0, 0.0)


def levels_of(held: State) -> Levels:
    """Return the weights of the pairs, and how many have each; where they are not sampled, those of the values."""
    histogram = held.histogram
    if histogram.strengths or histogram.negative:
        return (*histogram.strengths, *histogram.negative)
    weights = held.counts[held.counts != 0].abs()
    return ((float(weights.min()), float(len(weights))),) if len(weights) else ()


def check_same(ours: Scheme, theirs: Scheme) -> None:
    """Refuse schemes whose memories cannot be added, and say what differs."""
    one, other = (dict(scheme=type(scheme).__name__) | scheme.parameters for scheme in (ours, theirs))
    kind = "name" if "name" in one and "name" in other else "scheme"
    names = [kind] if one[kind] != other[kind] else list(dict.fromkeys((*one, *other)))
    differ = [f"{n} ({one.get(n)!r} and {other.get(n)!r})" for n in names if one.get(n) != other.get(n)]
    if differ:
        raise BadValue(
            f"Cannot add memories of different schemes: they differ in {', '.join(differ)}. Store the pairs of one in "
            "a memory like the other, Memory.like(other); if one keeps its paths, memory.merge(other) does that."
        )


def check_same_trained(ours: Codebook, theirs: Codebook) -> None:
    """Refuse other trained fillers, or those of other values: `1` is not `True`."""
    one, other = ours.trained, theirs.trained
    if one is not None and other is not None and one.shape == other.shape:
        values = [each.vocabulary.packed(0, len(one)).tobytes() for each in (ours, theirs)]
        if values[0] == values[1] and torch.equal(one, other.to(one)):
            return
    if one is not None or other is not None:
        raise BadValue(
            "Cannot add memories with different trained fillers. Store the pairs of one in a memory like the other, "
            "Memory.like(other); if one keeps its paths, memory.merge(other) does that."
        )


def added(ours: State, theirs: State) -> State:
    """The pairs of two memories in one: their tensors and counts added, their vocabularies and paths joined."""
    check_same(ours.scheme, theirs.scheme)
    check_same_trained(ours.codebook, theirs.codebook)
    known, values = paths_of_both(ours, theirs), theirs.vocabulary
    both = ours.holding(ours.tensor + theirs.tensor.to(ours.tensor), values, theirs.counts)
    target, solved = stricter(ours.target, theirs.target), solved_of_both(ours, theirs)
    both = replace(both, target=target, known=known, solved=solved, sample=ours.sample.merged(theirs.sample))
    check_weights(both, [levels_of(ours), levels_of(theirs)], ours)
    return both


SURELY = 6  # standard deviations: a strength that differs by more is not that of chance (five came in 100,000 pairs),
MARGIN = 0.25  # nor of what a model of chance leaves out, in units of the weight
ROUNDS = 8  # how often strangers are asked for again


class Weaker(NamedTuple):
    """A pair that was skipped because it is stored more weakly than the weight to forget, and its strength."""

    path: Path
    value: Value
    strength: float


class Stronger(NamedTuple):
    """A pair that was stored more strongly than the weight to forget, and the strength that remains."""

    path: Path
    value: Value
    strength: float


class NotFound(list[Pair]):
    """List of the pairs that `Memory.forget` skipped.

    Attributes:
        weaker: The skipped pairs that are stored, but with less than the weight to forget.
        stronger: Pairs that are not in the list: they were forgotten, but a remainder of each is still stored.

    >>> from carving import OSC, Memory
    >>> memory = Memory(OSC(d=40, p=3))
    >>> memory.store({"a": "x"}, weight=0.5), memory.store({"b": "y"})
    (1, 1)
    >>> not_found = memory.forget({"a": "x", "b": "y", "c": "z"})
    >>> not_found, [(weaker.value, round(weaker.strength, 1)) for weaker in not_found.weaker]
    ([(('a',), 'x'), (('c',), 'z')], [('x', 0.5)])
    >>> [(rest.value, round(rest.strength, 1)) for rest in memory.forget({"a": "x"}, weight=0.2).stronger]
    [('x', 0.3)]
    """

    def __init__(
        self, pairs: Iterable[Pair] = (), weaker: Iterable[Weaker] = (), stronger: Iterable[Stronger] = ()
    ) -> None:
        super().__init__(pairs)
        self.weaker = list(weaker)  # those of them that are there all the same
        self.stronger = list(stronger)  # others, which were forgotten, but not wholly


Rests = dict[tuple[bytes, bytes], Stronger]  # what is left of pairs, by the canonical bytes of path and value


class Judged(NamedTuple):
    """What a state says of a batch: which pairs it holds as strongly as wanted, and which more weakly, or strongly."""

    held: list[bool]
    weaker: list[Weaker]
    stronger: Rests


def judged(held: State, batch: Batch, weight: float, times: Counter[tuple[bytes, bytes]]) -> Judged:
    """Each pair of a batch; `times` counts how often each came, since what goes twice must be there twice."""
    size, sign = abs(weight), 1 if weight > 0 else -1
    found, weaker, stronger, there = list[bool](), list[Weaker](), Rests(), paths_hold(held, batch)
    for part in weighed(held, batch, 0.5):
        for strength, spread in zip(part.strengths.tolist(), part.spreads.tolist(), strict=True):
            row = len(found)
            name = batch.paths.names[row], batch.names[row]
            left = sign * strength - size * times[name]  # when the copies before are gone
            # Of nothing and the weight, whichever is nearer; and not surely less than the weight.
            enough = there[row] and left >= max(size / 2, size - max(SURELY * spread, MARGIN * size))
            times[name] += 1
            found.append(enough)
            if there[row] and not enough and left > max(SURELY * spread, MARGIN * size / 2):
                weaker.append(Weaker(batch.paths[row], batch.values[row], sign * left))
            if enough:  # and of several copies the last one tells
                rest = left - size if left - size > max(SURELY * spread, MARGIN * size) else 0.0
                stronger[name] = Stronger(batch.paths[row], batch.values[row], sign * rest)
    return Judged(found, weaker, stronger)


def paths_hold(held: State, batch: Batch) -> list[bool]:
    """Whether each pair's path is one that holds something, as far as paths are kept."""
    known = held.known
    return [known is None or known.count(name) > 0 for name in batch.paths.names]


def forgotten(
    held: State, batches: Iterable[list[Pair]], weight: float, force: bool, on_progress: OnProgress | None
) -> tuple[Change, NotFound]:
    """The change that takes pairs out, and those that it leaves alone, or with `force` takes out without counting them.

    Pairs hide each other: those that were not found are looked for again when the others are gone.
    """
    check_sum(held, "forget pairs")
    change = Change(held, -weight)
    rests = Rests()
    if not held.scheme.facts.linear or not weight:  # nothing can be told but by paths, or there is nothing to tell
        left, weaker = _taken_out_blindly(held, map(Batch, batches), change, on_progress), list[Weaker]()
    else:
        left, weaker = _taken_out(held, map(Batch, batches), change, weight, rests, on_progress)
        left, weaker = _taken_out_later(change, left, weaker, weight, rests)
    if force:
        for batch in left:
            change.add(batch, counted=False)
    stronger = (rest for rest in rests.values() if rest.strength)
    return change, NotFound((pair for batch in left for pair in batch.pairs), weaker, stronger)


def _taken_out_blindly(
    held: State, batches: Iterable[Batch], change: Change, on_progress: OnProgress | None
) -> list[Batch]:
    """Take out all pairs but those of paths that are known to hold nothing: these."""
    left = list[Batch]()
    for batch in batches:
        there = paths_hold(held, batch)
        change.add(batch.only(there))
        if not all(there):
            left.append(batch.only([not each for each in there]))
        report(on_progress, len(batch))
    return left


def _taken_out_later(
    change: Change, left: list[Batch], weaker: list[Weaker], weight: float, rests: Rests
) -> tuple[list[Batch], list[Weaker]]:
    """Take out what shows when others are gone, as long as there is any: the rest, and what is there more weakly."""
    for _ in range(ROUNDS):
        before = change.pairs
        if not left or not before:
            break
        # What is asked must stay as it is while pairs are taken out.
        now = replace(change.state(), tensor=change.tensor.clone(), kept=Kept())
        left, weaker = _taken_out(now, left, change, weight, rests)
        if change.pairs == before:
            break
    return left, weaker


def _taken_out(
    held: State,
    batches: Iterable[Batch],
    change: Change,
    weight: float,
    rests: Rests,
    on_progress: OnProgress | None = None,
) -> tuple[list[Batch], list[Weaker]]:
    """Take out what a state holds, and note what stays of it: the others, and what of these is there more weakly."""
    times, left, weaker = Counter[tuple[bytes, bytes]](), list[Batch](), list[Weaker]()
    for batch in batches:
        found = judged(held, batch, weight, times)
        change.add(batch.only(found.held))
        if not all(found.held):
            left.append(batch.only([not each for each in found.held]))
        weaker += found.weaker
        rests |= found.stronger
        report(on_progress, len(batch))
    return left, weaker


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
