"""Compact fillers in buckets: an inverted index that grows, and the adaptive search through its buckets.

A compact filler is p unit vectors, each nearest to one of m fixed directions (`directions.py`): it lies in one of m^p
buckets. A filler takes p k1 bytes (its components in int8, sorted by bucket) and four bytes for its row; a segment of
the index takes four more bytes for each bucket.

A query ranks the buckets by their merit and searches the best first. A filler outside of them may be the stored one.
Then the best of those found is the best of many rivals only, which the next one follows closely: by a gap g of log
odds or more with the probability exp(-r g), where r = s^2 x / t^2, x the score of the next one, s^2 the noise and t^2
the variance of the rivals' scores, the core's squared norm over its numbers. If the best one is the stored one, its
score is 1 up to noise, and the gap is large. Both likelihoods, and the share of stored fillers outside of the searched
buckets (`RecallCurve`), give the odds that the right one is elsewhere. They are added to the odds of all candidates
found, and the search ends where they are small (`DOUBT`), or at the share of buckets that the recall target needs.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.caching import cached_property
from carving.errors import BadValue
from carving.index.directions import RecallCurve, directions, directions_per_component, merits, nearest_buckets
from carving.index.ranking import IndexQuery, Rows
from carving.inference.likelihood import Evidence
from carving.schemes.base import Scheme, draw_candidates
from carving.symbols.vocabulary import Vocabulary
from carving.tensors import inverse_norm
from carving.tiling import rows_within, slices

Bytes = NDArray[np.int8]
Numbers = NDArray[np.int32]

FILLER_BATCH = 2**14  # fillers that are made at a time
INT8_UNIT = 127  # what 1 is in int8
MAX_BUCKET_RATIO = 4  # how many times more buckets the vocabulary should have before all fillers are sorted anew
MERGE_SHARE = 0.25  # of the size of the segment before it, from which on a segment is merged with it
FIRST_SHARE, GROWTH = 2.0**-10, 4  # the share of buckets that is searched first, and the factor by which it grows
SCANNED_SHARE = 0.25  # share from which on all buckets are searched
NEGLIGIBLE_NATS = 25.0  # nats below the best, where ten million candidates together are next to nothing
LOUD_DEVIATIONS = 3  # standard deviations by which a core may be louder than the noise
DOUBT = 4  # times 1 - recall_target, at which a search ends: most are far surer, so that about half of it is lost
SAMPLED_BUCKETS = 2**14  # buckets that estimate the distribution of merits
SCORED_BATCH = 2**13  # fillers whose numbers stay in the caches
SMALL_PRODUCT = 2**18  # multiplications of a product for which BLAS wakes no threads


@dataclass(frozen=True)
class Segment:
    """Fillers sorted by bucket, each with its row in the vocabulary."""

    order: Numbers  # (n,) their rows
    starts: Numbers  # (buckets + 1,) where the buckets begin
    components: Bytes  # (n, p k1)

    @classmethod
    def sorted(
        cls, rows: NDArray[np.int32], buckets: NDArray[np.int32], components: NDArray[np.int8], count: int
    ) -> "Segment":
        """Return the segment of fillers by their rows, buckets (of `count`) and components."""
        order = np.argsort(buckets, kind="stable").astype(np.int32)
        starts = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(np.bincount(buckets, minlength=count), out=starts[1:])
        laid = np.empty_like(components)
        for part in slices(len(order), FILLER_BATCH):  # a few at a time: they take a gigabyte all together
            np.take(components, order[part], axis=0, out=laid[part], mode="clip")
        return cls(rows[order], starts, laid)

    @classmethod
    def merged(cls, segments: Sequence["Segment"]) -> "Segment":
        """Return one segment of all fillers of some, in their order within a bucket."""
        if len(segments) == 1:
            return segments[0]
        count = len(segments[0].starts) - 1
        numbers = np.arange(count, dtype=np.int32)
        buckets = np.concatenate([np.repeat(numbers, np.diff(each.starts)) for each in segments])
        rows, components = (
            np.concatenate([getattr(each, name) for each in segments]) for name in ("order", "components")
        )
        return cls.sorted(rows, buckets, components, count)

    def __len__(self) -> int:
        return len(self.order)

    def places(self, buckets: Rows) -> Rows:
        """Return where the fillers of some buckets stand."""
        first = self.starts[buckets]
        sizes = self.starts[buckets + 1] - first
        before = np.cumsum(sizes) - sizes
        return np.repeat(first - before, sizes) + np.arange(int(sizes.sum()))


@dataclass(frozen=True)
class BucketIndex:
    """An inverted index of the compact fillers of a vocabulary, by bucket.

    Args:
        scheme: A scheme with compact fillers, on the CPU.
        each: The number of directions of each component.
        segments: Parts of the index, each sorted by bucket.

    >>> from carving import OSC
    >>> words = Vocabulary(range(1_000))
    >>> index = BucketIndex.of(OSC(64, compact=True), words.first(990))
    >>> len(index), len(index.extended(words)), index.buckets
    (990, 1000, 256)
    """

    scheme: Scheme
    each: int
    segments: tuple[Segment, ...] = ()

    @classmethod
    def of(cls, scheme: Scheme, vocabulary: Vocabulary) -> "BucketIndex":
        """Return the index of a vocabulary."""
        p = scheme.facts.filler_shape[0]
        return cls(scheme, directions_per_component(len(vocabulary), p)).extended(vocabulary)

    @classmethod
    def from_contents(
        cls, scheme: Scheme, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str], count: int
    ) -> "BucketIndex":
        """Return the index of `count` values from the contents of a file; refuse arrays of other shapes."""
        order, starts, components = (arrays[name] for name in ("order", "starts", "components"))
        index = cls(scheme, int(metadata["each"]), (Segment(order, starts, components),))
        shapes = [(count,), (index.buckets + 1,), (count, math.prod(scheme.facts.filler_shape))]
        if [order.shape, starts.shape, components.shape] != shapes:
            raise BadValue("array shapes do not match the number of labels")
        return index

    def contents(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Return the tensors and the metadata of a file of the index."""
        return {name: torch.from_numpy(array) for name, array in vars(Segment.merged(self.segments)).items()}, {
            "each": str(self.each)
        }

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @cached_property
    def ways(self) -> Tensor:
        """The directions of each component, (p, each, k1)."""
        p, k1 = self.scheme.facts.filler_shape
        return directions(p, k1, self.each)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return int(self.each ** self.scheme.facts.filler_shape[0])

    def extended(self, vocabulary: Vocabulary) -> "BucketIndex":
        """Return the index with the new values of a vocabulary; rebuilt if they need smaller buckets."""
        if len(vocabulary) == len(self):
            return self
        p = self.scheme.facts.filler_shape[0]
        if directions_per_component(len(vocabulary), p) ** p > MAX_BUCKET_RATIO * self.buckets:
            return BucketIndex.of(self.scheme, vocabulary)
        segments = [*self.segments, self._segment(vocabulary)]
        kept = len(segments) - 1
        while kept and sum(map(len, segments[kept:])) >= MERGE_SHARE * len(segments[kept - 1]):
            kept -= 1
        return BucketIndex(self.scheme, self.each, (*segments[:kept], Segment.merged(segments[kept:])))

    def _segment(self, vocabulary: Vocabulary) -> Segment:
        """Return the segment of the values that are new."""
        rows, (p, k1) = np.arange(len(self), len(vocabulary), dtype=np.int32), self.scheme.facts.filler_shape
        buckets, components = np.empty(len(rows), dtype=np.int32), np.empty((len(rows), p * k1), dtype=np.int8)
        for part in slices(len(rows), FILLER_BATCH):
            names = vocabulary.names(len(self) + part.start, len(self) + part.stop)
            fillers = draw_candidates(self.scheme, names).float().contiguous()
            units = fillers * inverse_norm(fillers, dim=2).unsqueeze(2)
            buckets[part] = nearest_buckets(units, self.ways).numpy()
            components[part] = (units * INT8_UNIT).round_().to(torch.int8).flatten(1).numpy()
        return Segment.sorted(rows, buckets, components, self.buckets)

    def search(self, cores: Tensor, energies: Tensor, query: IndexQuery, k: int) -> tuple[Tensor, Tensor]:
        """Search for the most probable candidates of contexts, as `CandidateIndex` has it."""
        each = partial(self._search_one, query, k)
        threads = min(torch.get_num_threads(), len(cores))
        if threads < 2:
            found = list(map(each, cores, energies))
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(each, cores, energies))
        rows, log_others = zip(*found, strict=True)
        return torch.stack(rows), torch.tensor(log_others, dtype=torch.float64)

    @torch.inference_mode()  # which every thread has of its own
    def _search_one(self, query: IndexQuery, k: int, core: Tensor, energy: Tensor) -> tuple[Tensor, float]:
        found = _Found(query, core, energy)
        p, k1 = self.scheme.facts.filler_shape
        curve = RecallCurve.of(p, k1, self.each, found.loudness, len(self))
        last = curve.share_for(query.recall_target)
        last, share, shares = 1.0 if last > SCANNED_SHARE else last, FIRST_SHARE, list[float]()
        while query.single and share * 2 < last:
            shares.append(share)
            share *= GROWTH
        probe = Probe(self, core, last, found.width)
        for share in [*shares, last, *([1.0] if last < 1 else [])]:
            found.add(*probe.further(share))
            is_sure = found.is_sure(0.0 if share >= 1 else curve.missed(share))
            if probe.searched >= k and (is_sure or share >= last):
                break
        return found.best(k)


def supports(scheme: Scheme) -> bool:
    """Whether an index supports the scheme: compact fillers, on the CPU."""
    facts = scheme.facts
    is_compact = facts.code_size > 0 and not facts.contextual and len(facts.filler_shape) == 2
    return (
        is_compact
        and facts.linear
        and not facts.memory_dtype.is_complex
        and str(scheme.device) == "cpu"
        and facts.code_size == facts.filler_shape[1] ** facts.filler_shape[0]
    )


class Probe:
    """The way of one query through the buckets, best first, each bucket once.

    Args:
        index: The index.
        core: The core of the context, (k1, ..., k1).
        share: The share of buckets that is likely to be searched; beyond it all are looked through again.
        width: Fillers whose score is this much below the best are left out.
    """

    def __init__(self, index: BucketIndex, core: Tensor, share: float = 1.0, width: float = math.inf) -> None:
        self.index, self.core, self.width = index, core.float(), width
        self.searched, self.highest = 0, -math.inf  # the number of fillers, and the best score
        self._every = merits(self.core.unsqueeze(0), index.ways.unsqueeze(0))[0].numpy()
        self._sample = np.sort(self._every[:: max(1, len(self._every) // SAMPLED_BUCKETS)])
        self._above = np.float32(np.inf)  # buckets of this merit and more were searched
        self._limit(share)

    def _limit(self, share: float) -> None:
        self._share = share
        self._buckets = np.flatnonzero(self._every >= self._least(share))
        self._merits = self._every[self._buckets]

    def _least(self, share: float) -> np.float32:
        """Return the merit that about this share of the buckets has; a share of 1 is all."""
        place = len(self._sample) - max(1, round(share * len(self._sample)))
        return np.float32(-np.inf) if share >= 1 else self._sample[place]

    def further(self, share: float) -> tuple[Rows, Tensor]:
        """Return the rows and scores (of int8) of the fillers in this share of the buckets, not yet searched."""
        if share > self._share:
            self._limit(share)
        least = self._least(share)
        buckets = self._buckets[(self._merits >= least) & (self._merits < self._above)]
        self._above = least
        rows, scores = list[Rows](), list[NDArray[np.float32]]()
        for segment in self.index.segments:
            places = segment.places(buckets) if len(buckets) < self.index.buckets else np.arange(len(segment))
            self.searched += len(places)
            found = self._scores(segment, places)
            if self.width < math.inf and len(found):
                self.highest = max(self.highest, float(found.max()))
                near = np.flatnonzero(found > self.highest - self.width)
                places, found = places[near], found[near]
            rows.append(segment.order[places].astype(np.int64))
            scores.append(found)
        return np.concatenate(rows), torch.from_numpy(np.concatenate(scores))

    def _scores(self, segment: Segment, places: Rows) -> NDArray[np.float32]:
        p, k1 = self.index.scheme.facts.filler_shape
        scores = np.empty(len(places), dtype=np.float32)
        first = (self.core * float(INT8_UNIT) ** -p).reshape(k1, -1).numpy()
        for part in slices(len(places), SCORED_BATCH):
            numbers = np.take(segment.components, places[part], axis=0).astype(np.float32)
            left = np.empty((len(numbers), first.shape[1]), dtype=np.float32)
            for rows in slices(len(numbers), rows_within(SMALL_PRODUCT, first.size)):
                np.matmul(numbers[rows, :k1], first, out=left[rows])  # faster than torch's where they are so narrow
            for place in range(1, p):
                own = numbers[:, place * k1 : (place + 1) * k1]
                left = np.einsum("nir,ni->nr", left.reshape(len(own), k1, -1), own)
            scores[part] = left[:, 0]
        return scores


class _Found:
    """The candidates found for one query, and how sure it is that the stored one is among them."""

    def __init__(self, query: IndexQuery, core: Tensor, energy: Tensor) -> None:
        self.query, self.energy = query, energy
        self.rows, self.log_odds, self.scores = list[Rows](), list[Tensor](), list[Tensor]()
        likelihood = query.likelihood_of(np.zeros(1, dtype=np.int64))
        strengths = likelihood.strengths.values
        # In units of a stored filler's score: the deviation of noise, and the variance of the rivals' scores.
        self.unit = min(strengths) * float(energy)
        self.noise = math.sqrt(float(likelihood.variance[0]) * float(energy)) / self.unit
        self.size = core.numel()
        self.rivals = float(core.square().sum()) / self.size / self.unit**2
        self.log_elsewhere = math.inf
        all_count = not query.single or len(strengths) > 1
        self.width = math.inf if all_count else (NEGLIGIBLE_NATS + query.prior_range) * self.noise**2 * self.unit

    @property
    def loudness(self) -> float:
        """The noise in this core: more than in others, where the context holds further fillers."""
        own = self.rivals - 1 / self.size
        return math.sqrt(own) if own > (1 + LOUD_DEVIATIONS * math.sqrt(2 / self.size)) * self.noise**2 else self.noise

    def add(self, rows: Rows, scores: Tensor) -> None:
        """Add fillers that are not far below the best, with their scores."""
        if len(rows):
            evidence = Evidence(scores.unsqueeze(0), self.energy.unsqueeze(0), None)
            self.log_odds.append(self.query.likelihood_of(rows).log_odds(evidence, slice(0, len(rows)))[0])
            self.rows.append(rows)
            self.scores.append(scores)

    def is_sure(self, missed: float) -> bool:
        """Whether the search may end, if this part of stored fillers is outside of the searched buckets."""
        self.log_elsewhere = math.log((1 - self.query.prior_empty) * missed) if missed else -math.inf
        if not missed or not self.rows:
            return not missed
        best, second = self._first_two()
        score, next_score = best[1] / self.unit, max(second[1] / self.unit, 0.0)
        rate = max(self.noise**2 * next_score / self.rivals, 1e-9)
        if_rival = math.log(rate) - rate * (best[0] - second[0])
        below = min(0.0, score - 1) / self.noise
        if_stored = math.log(self.noise / math.sqrt(2 * math.pi)) - below * below / 2
        ratio = math.log(missed / (1 - missed)) + if_rival - if_stored
        self.log_elsewhere = max(self.log_elsewhere, best[0] + min(ratio, 0.0))
        return ratio <= math.log(DOUBT * (1 - self.query.recall_target))

    def _first_two(self) -> list[tuple[float, float]]:
        """Return the log odds and scores of the best two."""
        found = list[tuple[float, float]]()
        for log_odds, scores in zip(self.log_odds, self.scores, strict=True):
            values, places = log_odds.topk(min(2, len(log_odds)))
            found += zip(values.tolist(), scores[places].tolist(), strict=True)
        first, *others = sorted(found, reverse=True)[:2]
        return [first, others[0] if others else (first[0] - NEGLIGIBLE_NATS, first[1] - self.width)]

    def best(self, k: int) -> tuple[Tensor, float]:
        """Return the rows of the best k, ascending, -1 where there are fewer, and the log odds of all others."""
        log_odds, rows = torch.cat(self.log_odds), np.concatenate(self.rows)
        top = log_odds.topk(min(k, len(rows))).indices
        rest = log_odds.index_fill(0, top, -math.inf).logsumexp(0)
        chosen = torch.full((k,), -1)
        chosen[: len(top)] = torch.from_numpy(rows[top.numpy()]).sort().values
        return chosen, float(np.logaddexp(float(rest), self.log_elsewhere))
