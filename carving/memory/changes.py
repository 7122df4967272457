"""What changes a memory: pairs that are added or taken out, and memories that are merged."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, compress

import torch
from torch import Tensor

from carving.errors import BadValue
from carving.inference.sample import Levels
from carving.memory.codebook import Codebook, Drawn, check_finite
from carving.memory.pairs import BATCH, Batch
from carving.memory.state import State, paths_of_both, solved_of_both, stricter
from carving.schemes.base import Scheme
from carving.tensors import lasting

OnProgress = Callable[[int], None]  # called with how many pairs or questions are done more
LOST = 0.1  # of the lightest weight is the most that rounding may cost each pair
LIGHTER = 0.01  # the share of the pairs that may be lighter than what is called the lightest
NOTHING = "There must be at least one pair, got none."


def report(on_progress: OnProgress | None, more: int) -> None:
    """Tell who wants to know that more is done."""
    if on_progress:
        on_progress(more)


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
