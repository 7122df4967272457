"""Changes of a memory: pairs that are stored, forgotten or replaced, and memories that are added."""

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
from carving.inference.answer import Answer
from carving.inference.calibration import Consolidated
from carving.inference.sample import Histogram, Levels, PairSample
from carving.memory.codebook import Drawn
from carving.memory.counts import PathCounts, ValueCounts
from carving.memory.pairs import BATCH, Batch, OnProgress, report
from carving.memory.query import check_paths, check_sum, model_of, recall_sets, recognize_many
from carving.memory.reader import Reader
from carving.memory.sharding import check_same_state, facts_of
from carving.memory.state import State
from carving.planner.requirements import Target
from carving.schemes.base import Scheme
from carving.storage.journal import Entry
from carving.symbols.codec import Path, Value, canonical
from carving.symbols.paths import Paths
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import lasting

MAX_ROUNDING = 0.1  # of the lightest weight: what rounding may cost each pair
LIGHTEST = 0.01  # the share of the pairs that may be lighter than what is called the lightest
NOTHING = "There must be at least one pair, got none."
SIGMAS = 6  # standard deviations: a strength that differs by more is not that of chance (five came in 100,000 pairs),
MARGIN = 0.25  # nor of what a model of chance leaves out, in units of the weight
MAX_ROUNDS = 8  # of looking again for pairs that were not found
SURE = 0.9  # the probability from which a value is replaced

PairName = tuple[bytes, bytes]  # canonical bytes of path and value
Weights = float | Sequence[float]  # of all pairs of a batch, or of each


class Change:
    """Pairs to be added to a state. Everything is made apart, so that errors and interrupts change nothing.

    Args:
        before: The reader of the state.
        journaled: Whether to list the entries, as a journal records them.
    """

    def __init__(self, before: Reader, journaled: bool = False) -> None:
        self.before, self.fillers = before, Drawn(before.codebook)
        self.entries: list[Entry] | None = [] if journaled else None
        self.pairs, self.counts = 0, Counter[bytes]()  # weights by the values' canonical bytes
        self.path_counts, self.sample = before.path_counts, before.sample
        self.added = 0.0  # the energy of all counted pairs, in units of one
        self.sizes = Counter[float]()  # the number of pairs of each absolute weight
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The memory tensor as it will be: a copy, the one allocation of its size, to which the pairs are added.

        The former tensor stays as it is whatever happens. Adding to it in place, and subtracting again what fails,
        would not restore the numbers.
        """
        if self._tensor is None:
            with lasting():
                self._tensor = self.before.tensor.clone(memory_format=torch.contiguous_format)
        return self._tensor

    def add(self, batch: Batch, weight: float = 1.0, is_counted: bool = True) -> None:
        """Bind and count a batch of pairs; pairs that were never stored do not count when they are subtracted."""
        if len(batch):
            self.before.codebook.check_levels(batch.values, batch.names)
            self.bind(batch, weight)
            self.count(batch, weight, None if is_counted else [False] * len(batch))

    def bind(self, batch: Batch, weights: Weights) -> None:
        """Add a batch of pairs to the tensor."""
        scheme, given = self.before.scheme, None
        fillers = self.fillers.named(batch.names, last=len(batch) < BATCH)
        if weights != 1:
            numbers = [weights] * len(batch) if isinstance(weights, float | int) else weights
            given = torch.tensor(numbers, dtype=torch.float64, device=scheme.device)
        scheme.add(self.tensor, batch.paths, fillers, given)

    def count(self, batch: Batch, weights: Weights, is_counted: Sequence[bool] | None = None) -> None:
        """Count a batch's values and paths, and sample its pairs, including those that do not count."""
        pairs = list(zip(batch.paths.names, batch.names, strict=True))
        each = [weights] * len(pairs) if isinstance(weights, float | int) else list(weights)
        self.pairs += len(pairs)
        self.sizes.update(map(abs, each))
        if self.entries is not None:
            flags = is_counted or [True] * len(pairs)
            self.entries += [Entry(*pair, w, flag) for pair, w, flag in zip(pairs, each, flags, strict=True)]
        if self.before.scheme.facts.linear:
            self.sample = self.sample.plus(pairs, each)
        if is_counted is not None:
            pairs, each = list(compress(pairs, is_counted)), list(compress(each, is_counted))
        for (_, value), weight in zip(pairs, each, strict=True):
            self.counts[value] += weight  # type: ignore[assignment]  # counters sum anything
        self.added += sum([weight * weight for weight in each])
        if self.path_counts is not None:
            self.path_counts = self.path_counts.changed((path, w) for (path, _), w in zip(pairs, each, strict=True))

    def after(self) -> Reader:
        """Return the reader of the state after the change; refuse numbers that are not finite."""
        state, energy = self.before.state, None
        if self._tensor is not None:
            energy = finite_energy(state.scheme, self._tensor)
        weights = torch.tensor(list(self.counts.values()), dtype=torch.float64)
        calibration = None if state.calibration is None else state.calibration.plus(self.added)
        tensor = state.tensor if self._tensor is None else self._tensor
        more = dict(path_counts=self.path_counts, sample=self.sample, calibration=calibration)
        state = state.with_tensor(tensor, self.counts, weights, **more)
        return self.before.after(state, energy)


def checked(change: Change) -> Reader:
    """Return the reader after a change; refuse weights that rounding would erase."""
    after, levels = change.after(), levels_of(change.before)
    own = tuple((size, float(number)) for size, number in change.sizes.items() if size)
    if own and levels and len({size for size, _ in (*levels, *own)}) > 1:  # most often all weights are 1
        check_weights(after, [levels, own], change.before)
    return after


def finite_energy(scheme: Scheme, tensor: Tensor) -> float:
    """Return the squared norm of a memory tensor; refuse a tensor that is not finite."""
    energy = scheme.squared_norm(tensor)
    # One number that is not finite makes the norm so, too. A norm may also overflow by itself: then all are looked at.
    if not math.isfinite(energy) and not bool(torch.isfinite(tensor).all()):
        raise BadValue("The memory tensor must be finite, got NaN or infinity.")
    return energy


def store(change: Change, parts: Iterable[list[Pair]], weight: float, on_progress: OnProgress | None = None) -> int:
    """Add batches of pairs to a change, and return how many there are."""
    for pairs in parts:
        change.add(Batch(pairs), weight)
        report(on_progress, len(pairs))
    return check_pairs(change)


def check_pairs(change: Change) -> int:
    """Return the number of pairs of a change; refuse one without any."""
    if not change.pairs:
        raise BadValue(NOTHING)
    return change.pairs


def check_weights(
    reader: Reader, levels: Sequence[Levels], before: Reader | None = None, dtype: torch.dtype | None = None
) -> None:
    """Refuse weights that are too far apart for a tensor of this dtype, unless they were before.

    Rounding changes a tensor of the squared norm E by about u^2 E, u = eps / 2. That is the noise of N pairs of the
    weight u sqrt(E / N), which stays when heavy pairs are forgotten: for the lightest pairs it must be small.
    """
    dtype = dtype or reader.scheme.dtype
    mean, lightest = _spread(reader, levels)
    most = 2 * MAX_ROUNDING / torch.finfo(dtype).eps
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


def _spread(reader: Reader, levels: Sequence[Levels]) -> tuple[float, float]:
    """Return the root mean square weight, and the lightest: the lowest percentile of a part.

    The energy is that of the tensor, or of the sample, which has changes that are not in the tensor yet; a pair that is
    stored again is no further pair.
    """
    number, lightest, histogram = 0.0, math.inf, reader.histogram
    for part in map(sorted, filter(None, levels)):
        many = list(accumulate(n for _, n in part))
        number += many[-1]
        lightest = min(lightest, next(s for (s, _), n in zip(part, many, strict=True) if n > LIGHTEST * many[-1]))
    number = sum(n for _, n in (*histogram.strengths, *histogram.negative)) or number
    unit = reader.scheme.mean_bound_energy
    energy = max(reader.energy / unit, histogram.squares)
    return (math.sqrt(energy / number), lightest) if number and levels else (0.0, 0.0)


def levels_of(state: State | Reader) -> Levels:
    """Return the weights of the pairs, and how many have each; where they are not sampled, those of the values."""
    histogram = state.histogram
    if histogram.strengths or histogram.negative:
        return (*histogram.strengths, *histogram.negative)
    weights = state.counts[state.counts != 0].abs()
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


def check_same_trained(ours: State, theirs: State) -> None:
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


def added(ours: Reader, theirs: Reader) -> Reader:
    """Return the sum of two memories: tensors and counts are added, vocabularies and paths joined."""
    one, other = ours.state, theirs.state
    check_same(one.scheme, other.scheme)
    check_same_trained(one, other)
    ours.check_changeable()
    theirs.check_changeable()
    both = one.with_tensor(one.tensor + other.tensor.to(one.tensor), other.vocabulary, other.counts)
    both = replace(
        both,
        target=stricter(one.target, other.target),
        path_counts=paths_of_both(one, other),
        sample=one.sample.merged(other.sample),
        calibration=calibration_of_both(ours, theirs),
    )
    after = ours.after(both)
    check_weights(after, [levels_of(one), levels_of(other)], ours)
    return after


def calibration_of_both(ours: Reader, theirs: Reader) -> Consolidated | None:
    """Return the calibration of a sum with a consolidated memory, to which the pairs of the other are noise."""
    if ours.calibration is None or theirs.calibration is None:
        calibration, other = (ours.calibration, theirs) if ours.calibration is not None else (theirs.calibration, ours)
        return None if calibration is None else calibration.plus(other.squares or 0.0)
    if not bool(theirs.counts.any()):
        return ours.calibration
    raise BadValue(
        "Cannot add two consolidated memories: each would be noise to the other. Store the pairs of both in a new "
        "memory, Memory.like(memory), and consolidate that."
    )


def stricter(one: Target | None, other: Target | None) -> Target | None:
    """Return the more accurate target of two memories that are added."""
    return max((target for target in (one, other) if target), key=lambda target: target.accuracy, default=None)


def paths_of_both(ours: State, theirs: State) -> PathCounts | None:
    """Return the kept paths of two memories that are added; refuse paths of only one of them."""
    if ours.path_counts is not None and theirs.path_counts is not None:
        return ours.path_counts.changed(theirs.path_counts.weights().items())
    for one, other in ((ours, theirs), (theirs, ours)):
        if one.path_counts is not None and not bool(other.counts.any()):
            return one.path_counts
        if one.path_counts is not None:
            raise BadValue(
                "Cannot add a memory that keeps its paths and one that does not: the sum would lack paths. Drop them "
                "first: memory.without_paths()."
            )
    return None


# Forgetting


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


class Judgment(NamedTuple):
    """Which pairs of a batch a memory holds strongly enough, which more weakly, and which more strongly."""

    held: list[bool]
    weaker: list[Weaker]
    stronger: dict[PairName, Stronger]


def judge(reader: Reader, batch: Batch, weight: float, times: Counter[PairName]) -> Judgment:
    """Judge each pair of a batch; `times` counts how often each came, since what goes twice must be there twice."""
    size, sign = abs(weight), 1 if weight > 0 else -1
    found, weaker, stronger = list[bool](), list[Weaker](), dict[PairName, Stronger]()
    there = have_paths(reader, batch)
    for part in model_of(reader).recognize(batch, 0.5):
        for strength, deviation in zip(part.strengths.tolist(), part.deviations.tolist(), strict=True):
            row = len(found)
            name = batch.paths.names[row], batch.names[row]
            left = sign * strength - size * times[name]  # when the copies before are gone
            # Of nothing and the weight, whichever is nearer; and not surely less than the weight.
            enough = there[row] and left >= max(size / 2, size - max(SIGMAS * deviation, MARGIN * size))
            times[name] += 1
            found.append(enough)
            if there[row] and not enough and left > max(SIGMAS * deviation, MARGIN * size / 2):
                weaker.append(Weaker(batch.paths[row], batch.values[row], sign * left))
            if enough:  # and of several copies the last one tells
                rest = left - size if left - size > max(SIGMAS * deviation, MARGIN * size) else 0.0
                stronger[name] = Stronger(batch.paths[row], batch.values[row], sign * rest)
    return Judgment(found, weaker, stronger)


def have_paths(reader: Reader, batch: Batch) -> list[bool]:
    """Return whether each pair's path holds something, as far as paths are kept."""
    counts = reader.path_counts
    return [counts is None or counts.count(name) > 0 for name in batch.paths.names]


def forget(
    change: Change, parts: Iterable[list[Pair]], weight: float, force: bool, on_progress: OnProgress | None = None
) -> NotFound:
    """Subtract pairs, and return those that were not found; with `force` these are subtracted without counting them.

    Pairs hide each other: those that were not found are looked for again when the others are gone.
    """
    reader = change.before
    check_sum(reader, "forget pairs")
    left, weaker, rests = list[Batch](), list[Weaker](), dict[PairName, Stronger]()
    if not reader.scheme.facts.linear or not weight:  # only paths can tell, or there is nothing to tell
        for batch in map(Batch, parts):
            there = have_paths(reader, batch)
            _subtract(change, batch, there, weight, left)
            report(on_progress, len(batch))
    else:
        left, weaker = _subtract_found(reader, map(Batch, parts), change, weight, rests, on_progress)
        for _ in range(MAX_ROUNDS):
            before = change.pairs
            if not left or not before:
                break
            # What is read must stay as it is while pairs are subtracted.
            now = change.after()
            now = now.after(replace(now.state, tensor=change.tensor.clone()))
            left, weaker = _subtract_found(now, left, change, weight, rests)
            if change.pairs == before:
                break
    not_found = NotFound(
        (pair for batch in left for pair in batch.pairs), weaker, (rest for rest in rests.values() if rest.strength)
    )
    if force:
        for batch in left:
            change.add(batch, -weight, is_counted=False)
    if not not_found:
        check_pairs(change)
    return not_found


def _subtract(change: Change, batch: Batch, there: list[bool], weight: float, left: list[Batch]) -> None:
    """Subtract the pairs that are there, and append the others to `left`."""
    change.add(batch.only(there), -weight)
    if not all(there):
        left.append(batch.only([not each for each in there]))


def _subtract_found(
    reader: Reader,
    batches: Iterable[Batch],
    change: Change,
    weight: float,
    rests: dict[PairName, Stronger],
    on_progress: OnProgress | None = None,
) -> tuple[list[Batch], list[Weaker]]:
    """Subtract what a memory holds, note what remains of it, and return the other pairs."""
    times, left, weaker = Counter[PairName](), list[Batch](), list[Weaker]()
    for batch in batches:
        found = judge(reader, batch, weight, times)
        _subtract(change, batch, found.held, weight, left)
        weaker += found.weaker
        rests |= found.stronger
        report(on_progress, len(batch))
    return left, weaker


# Replacing


def replace_value(change: Change, path: Path, value: Value, old: Value = None, force: bool = False) -> Answer:
    """Subtract the value of a path at its strength, store another with the same strength, and return the former one."""
    reader = change.before
    check_sum(reader, "replace a value")
    if not reader.scheme.facts.linear:
        raise BadValue(
            f"Cannot replace a value: {reader.scheme} has no probabilities, so it is unknown what is stored. Use "
            "forget() and store()."
        )
    asked = check_paths([path], reader)
    former = _value_at(reader, asked, old, force)
    strength = _strength_of(reader, asked, former, force) if former else 1.0
    if former and canonical(former.value) == canonical(value):
        return former
    change.add(Batch([(path, value)]), strength)  # first, so that a kept path keeps its place
    if former:
        change.add(Batch([(path, former.value)]), -strength)
    return former


def _value_at(reader: Reader, asked: Paths, old: Value, force: bool) -> Answer:
    """Return the value of a path; without `force` only one that is certain."""
    (path,), counts, nothing = asked, reader.path_counts, Answer(None, 0.0, 1.0, found=False)
    if counts is not None and not counts.count(asked.names[0]):
        found = list[Answer]()
    elif old is None:
        found = recall_sets(reader, asked, threshold=1 - SURE)[0]
    else:
        found = recognize_many(reader, [(path, old)])
    likely = [answer for answer in found if answer.probability >= 0.5]
    if force:
        return likely[0] if likely else nothing
    if not likely:
        what = "no value" if old is None else f"the value {old!r}"
        raise BadValue(f"Cannot replace: {what} is stored under {path!r}. store() adds one.")
    if len(likely) > 1:
        values = ", ".join(repr(answer.value) for answer in likely)
        raise BadValue(f"Cannot replace: {path!r} has several values ({values}). Pass old= to name one of them.")
    if len(found) > 1 or found[0].probability < SURE:
        raise BadValue(
            f"Cannot replace: it is uncertain whether {likely[0].value!r} is the value of {path!r} (probability "
            f"{likely[0].probability:.2f}). Pass force=True to replace it all the same."
        )
    return found[0]


def _strength_of(reader: Reader, asked: Paths, former: Answer, force: bool) -> float:
    """Return how strongly a pair is stored: its sampled weight, or the weight of other pairs that it comes nearest."""
    batch = Batch([(asked[0], former.value)])
    (found,) = model_of(reader).recognize(batch, 0.5)
    read, deviation = float(found.strengths[0]), float(found.deviations[0])
    sample = reader.sample
    known = sample.weight(asked.names[0], batch.names[0]) if isinstance(sample, PairSample) else None
    levels = [size for size, _ in reader.histogram.strengths] or [1.0]
    strength = known if known is not None and known > 0 else min(levels, key=lambda level: abs(level - read))
    if abs(read - strength) <= max(SIGMAS * deviation, MARGIN * strength):
        return strength
    if not force:
        raise BadValue(
            f"Cannot replace: {former.value!r} is stored under {asked[0]!r} with a strength of {read:.2f}, which no "
            "pair was stored with. Pass force=True to replace it at this strength."
        )
    return read


# Changes of many ranks: each binds its own pairs to nothing, and the sum of all is added to what was there. If the
# ranks have read files in their order, everything is as if one process had read them.


@dataclass(frozen=True)
class Part:
    """What one rank stores, beside its tensor."""

    pairs: int
    counts: Mapping[bytes, float]
    sizes: Mapping[float, int]
    sample: PairSample | Histogram
    paths: Mapping[bytes, float]  # what was stored under each, where paths are kept
    added: float


@dataclass(frozen=True)
class Light:
    """The state of one rank, without tensor and fillers."""

    target: Target | None
    names: list[bytes]  # of its values
    counts: Tensor
    paths: Mapping[bytes, float] | None
    sample: PairSample | Histogram

    @classmethod
    def of(cls, state: State) -> "Light":
        """Return that of a state."""
        paths = None if state.path_counts is None else state.path_counts.weights()
        return cls(
            target=state.target, names=state.vocabulary.names(), counts=state.counts, paths=paths, sample=state.sample
        )

    def state(self, scheme: Scheme) -> State:
        """Return the state, with an empty tensor."""
        paths = None if self.paths is None else PathCounts(self.paths)
        vocabulary, _ = Vocabulary().extended(self.names)
        counts = ValueCounts(self.counts)
        return State(
            scheme=scheme,
            tensor=torch.empty(0),
            vocabulary=vocabulary,
            value_counts=counts,
            trained=None,
            path_counts=paths,
            sample=self.sample,
            target=self.target,
        )


exchangeable(Part, Light, PairSample, Histogram, Target)


def store_of_ranks(
    change: Change, parts: Iterable[list[Pair]], weight: float, ranks: Ranks, on_progress: OnProgress | None = None
) -> int:
    """Add the pairs of all ranks to a change, and return how many there are; `parts` are those of this rank."""
    before = change.before
    check_same_state(ranks, before, weight=weight)

    def bound() -> tuple[Change, dict[bytes, float]]:
        own, paths = Change(Reader(replace(before.state.emptied(), path_counts=None))), defaultdict[bytes, float](float)
        for pairs in parts:
            batch = Batch(pairs)
            own.add(batch, weight)
            for name in batch.paths.names if before.path_counts is not None else ():
                paths[name] += weight
            report(on_progress, len(pairs))
        return own, dict(paths)

    own, paths = ranks.agreed(bound)
    for part in ranks.each(
        Part(pairs=own.pairs, counts=own.counts, sizes=own.sizes, sample=own.sample, paths=paths, added=own.added)
    ):
        change.pairs += part.pairs
        change.added += part.added
        change.counts.update(part.counts)  # which adds them
        change.sizes.update(part.sizes)
        change.sample = change.sample.merged(part.sample)
        if change.path_counts is not None:
            change.path_counts = change.path_counts.changed(part.paths.items())
    if change.pairs:
        with lasting():
            change._tensor = ranks.sum_(own.tensor).add_(before.tensor)
    return check_pairs(change)


def sum_of_ranks(reader: Reader, ranks: Ranks) -> Reader:
    """Return the sum of the memories of all ranks, as `+` adds two."""
    check_sum(reader, "add the memories of the ranks")
    state, trained = reader.state, reader.state.trained
    known = None
    if trained is not None:
        known = trained.shape, float(trained.double().sum()), state.vocabulary.packed(0, len(trained)).tobytes()
    ranks.check_same(**facts_of(reader), trained=known)
    both = replace(state.emptied(), tensor=ranks.sum_(state.tensor.clone()))
    levels = []
    for theirs in (light.state(state.scheme) for light in ranks.each(Light.of(state))):
        levels.append(levels_of(theirs))
        target, paths = stricter(both.target, theirs.target), paths_of_both(both, theirs)
        both = both.with_tensor(both.tensor, theirs.vocabulary, theirs.counts)
        both = replace(both, target=target, path_counts=paths, sample=both.sample.merged(theirs.sample))
    after = Reader(both)
    check_weights(after, levels)
    return after
