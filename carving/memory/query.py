"""Queries of a memory: recall, recognize, recall sets, decode jointly, and find the paths of a value.

The verbs of `Memory` are functions of a reader; their arguments are documented there. How they are answered depends on
the memory: a plain sum, a consolidated memory, or one without probabilities each has a model.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

import torch
from torch import Tensor

from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.index import IndexQuery
from carving.index import rank as rank_by_index
from carving.inference import calibration, likelihood
from carving.inference.amp import Decoding, Step
from carving.inference.answer import Answer, Answers
from carving.inference.calibration import AllowedValues, Consolidated
from carving.inference.likelihood import UNSEEN_COUNT, Evidence, Likelihood
from carving.inference.sample import shares_with_more
from carving.inference.sets import SetDecoder, shortlist_size
from carving.inference.top_k import CandidateList, Ranking, search, top
from carving.memory.pairs import BATCH, Batch, OnProgress, as_pair, report
from carving.memory.reader import EMPTY, Reader
from carving.memory.sharding import candidates_of_ranks, sharded, shared_paths
from carving.memory.state import known_paths
from carving.schemes.base import CandidatesOrFillers, Contexts
from carving.symbols.codec import Path, Value
from carving.symbols.paths import Paths, as_path
from carving.tiling import slices
from carving.validate import check_integer, check_number, check_prior_empty, listed

SEVERAL = 0.01  # the share of paths with several values from which the best value of an index is scored among others


class Query(NamedTuple):
    """Paths to read, and the values to answer with."""

    paths: Paths
    candidates: Iterable[Value] | None  # None: the whole vocabulary
    prior_empty: float
    top: int | None = None  # the number of answers for each path; None: one, or that nothing is there
    recall_target: float | None = None  # of an index; None: all candidates are scored


class Recognition(NamedTuple):
    """How strongly and how probably pairs are stored, (n,) each; without probabilities the last two are NaN."""

    strengths: Tensor  # 1 for a pair that was stored once
    probabilities: Tensor
    deviations: Tensor  # standard deviations of the strengths


Parts = Iterator[list[list[Answer]]]  # the answers of some paths after the other
Rankings = Iterator[tuple[Contexts | None, Ranking]]


class AnswerModel(Protocol):
    """Answers of one kind of memory."""

    def rank(self, query: Query) -> Parts:
        """Yield the best answers of each path."""

    def sets(self, query: Query, threshold: float) -> Parts:
        """Yield all values of each path that are at least this probable."""

    def recognize(self, batch: Batch, prior_empty: float) -> Iterator[Recognition]:
        """Yield how strongly and how probably pairs are stored."""


def model_of(reader: Reader) -> AnswerModel:
    """Return the model of a reader's memory."""
    if reader.calibration is not None:
        return ConsolidatedModel(reader, reader.calibration)
    return SumModel(reader) if reader.scheme.facts.linear else ScoreModel(reader)


class SumModel:
    """A plain sum: the likelihood of each candidate, given the interference of all other pairs."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.scheme = reader, reader.scheme

    def rank(self, query: Query) -> Parts:
        """Yield the best answers of each path, from all candidates, those of all ranks, or an index."""
        prior_empty, top = query.prior_empty, query.top
        rows, odds_of, rankings = self._search(query)
        for contexts, ranking in rankings:
            if top is None:
                yield self._single(ranking, rows, prior_empty)
            else:
                assert contexts is not None
                yield self._top(contexts, ranking, rows, odds_of, min(top, len(rows)))

    def _search(self, query: Query) -> tuple[Sequence[int], Callable[[Tensor], Likelihood], Rankings]:
        """Return the rows of the candidates, their likelihood model, and rankings of chunks of contexts."""
        reader, scheme, prior_empty, paths = self.reader, self.scheme, query.prior_empty, query.paths

        def size(candidates: int) -> int:
            return 1 if query.top is None else shortlist_size(min(query.top, candidates), candidates)

        def chunked(rank: Callable[[Contexts, int], Ranking], k: int) -> Rankings:
            return ((contexts, rank(contexts, k)) for _, contexts in scheme.chunks_of(paths, reader.batch))

        if query.recall_target is not None:
            rows: Sequence[int] = range(len(reader.vocabulary))
            single = query.top is None and shares_with_more(reader.sample.values)[0] <= SEVERAL
            index, of_rows = reader.codebook.index(), partial(reader.odds_of_rows, prior_empty)
            index_query = IndexQuery(
                likelihood_of=of_rows,
                prior_empty=prior_empty,
                recall_target=query.recall_target,
                prior_range=reader.prior_range,
                single=single,
            )

            def by_index(contexts: Contexts, k: int) -> Ranking:
                return rank_by_index(index, reader.vocabulary, index_query, reader.tensor, contexts, k)

            return rows, lambda listed: of_rows(listed.numpy()), chunked(by_index, size(len(rows)))
        if (shard := sharded(reader, query.candidates, paths)) is not None:
            rows, odds = shard.rows, reader.odds(prior_empty, shard.rows)
            by_ranks = partial(shard.most_likely, odds=odds)
            return rows, odds.only, chunked(lambda contexts, k: by_ranks(contexts, k=k), size(len(rows)))
        rows, fillers = reader.candidates(query.candidates, len(paths))
        odds, k = reader.odds(prior_empty, rows), size(len(rows))
        listing, model = CandidateList.of(scheme, fillers, None, len(paths), k), likelihood.scoring_model(scheme, odds)
        return rows, odds.only, listing.search(scheme, reader.tensor, paths, k, model, reader.batch)

    def _single(self, ranking: Ranking, rows: Sequence[int], prior_empty: float) -> list[list[Answer]]:
        """Return the best answer of each context, or that nothing is there, if that is more probable."""
        vocabulary = self.reader.vocabulary
        columns = ranking.indices.tolist(), ranking.strengths.tolist()
        posteriors = likelihood.single_posteriors(ranking, prior_empty)
        return [
            [
                Answer(None, strength, none, found=False)
                if none >= probability
                else Answer(vocabulary[rows[i]], strength, probability)
            ]
            for (i,), (strength,), (probability, none) in zip(*columns, posteriors, strict=True)
        ]

    def _top(
        self,
        contexts: Contexts,
        ranking: Ranking,
        rows: Sequence[int],
        odds_of: Callable[[Tensor], Likelihood],
        k: int,
    ) -> list[list[Answer]]:
        """Return the k most probable values of each context, which may hold several of them."""
        reader = self.reader
        listed, indices = ranking.indices.unique(return_inverse=True)
        own = [rows[i] for i in listed.tolist()]
        fillers = reader.codebook.named(reader.names_of(own))
        ranking = ranking._replace(indices=indices)
        found = SetDecoder(self.scheme, fillers, odds_of(listed)).marginals(reader.tensor, contexts, ranking)
        return _as_answers(reader, own, *(column[:, :k] for column in found))

    def sets(self, query: Query, threshold: float) -> Parts:
        """Yield all values of each path that are at least this probable."""
        reader, scheme = self.reader, self.scheme
        rows, fillers, odds, scan = candidates_of_ranks(reader, query.paths, query.candidates, query.prior_empty)
        least, decoder = math.log(threshold / (1 - threshold)), SetDecoder(scheme, fillers, odds)
        is_correlated = reader.codebook.trained is not None and isinstance(fillers, Tensor)
        seen = reader.histogram.as_strengths() if is_correlated else None
        for _, contexts in scheme.chunks_of(query.paths, reader.batch):
            held = decoder.recall(reader.tensor, contexts, least, scan, seen)
            by_context: list[dict[int, Answer]] = [{} for _ in range(len(contexts))]
            columns = (held.rows, held.indices, held.strengths, held.log_odds.double().sigmoid())
            for context, i, strength, probability in zip(*(column.tolist() for column in columns), strict=True):
                # One that was stored twice is found twice.
                by_context[context].setdefault(i, Answer(reader.vocabulary[rows[i]], strength, probability))
            yield [sorted(each.values(), key=lambda answer: -answer.probability) for each in by_context]

    def recognize(self, batch: Batch, prior_empty: float) -> Iterator[Recognition]:
        """Yield how strongly and how probably pairs are stored."""
        reader, scheme = self.reader, self.scheme
        prior = math.log(1 - prior_empty) - math.log(prior_empty) if prior_empty else math.inf
        for part, contexts in scheme.chunks_of(batch.paths, reader.batch):
            names = batch.names[part]
            rows, fillers = reader.vocabulary.rows_of(names), reader.codebook.named(names).unsqueeze(1)
            odds = reader.likelihood(reader.value_counts.of(rows), prior)
            cores = scheme.adjoint(reader.tensor, contexts)
            evidence = Evidence.of(scheme, cores, contexts, fillers)
            crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
            own = torch.arange(len(names)).unsqueeze(1)
            probabilities = odds.log_odds(evidence, own, crowded).double().sigmoid()
            deviations = ((odds.variance_along(evidence, own) + crowded) / evidence.energy).sqrt()
            alone = Recognition(evidence.strengths[:, 0], probabilities[:, 0], deviations[:, 0])
            trained = reader.codebook.trained is not None
            yield self._beside_others(contexts, rows, alone, prior_empty) if trained else alone

    def _beside_others(
        self, contexts: Contexts, rows: list[int], alone: Recognition, prior_empty: float
    ) -> Recognition:
        """Recognize values of trained fillers beside all others, which may be alike and be stored in their place.

        Before the memory is read, a value that is not there leaves nothing or any other, as probably. Values that the
        memory does not know are like no other.
        """
        reader, scheme = self.reader, self.scheme
        known = [place for place, row in enumerate(rows) if row >= 0]
        if not known:
            return alone
        which = contexts[torch.tensor(known)]
        asked = torch.tensor([rows[place] for place in known], device=scheme.device)
        every, fillers = reader.candidates(None, len(known))
        odds = reader.odds(0.5, every)
        k, model = shortlist_size(1, len(every)), likelihood.scoring_model(scheme, odds)
        ranking = search(scheme, reader.tensor, which, fillers, k, model)
        decoder = SetDecoder(scheme, reader.codebook.all(), odds)
        strength, log_odds = decoder.marginal_of(reader.tensor, which, ranking, asked)
        share = (odds.log_prior[asked].double() - math.log(0.5)).exp()
        prior = (
            torch.log((1 - prior_empty) / prior_empty * (2 - share) / share)
            if prior_empty
            else torch.full_like(share, math.inf)
        )
        strengths, probabilities = alone.strengths.clone(), alone.probabilities.clone()
        strengths[known] = strength.to(strengths)
        probabilities[known] = (log_odds + prior).sigmoid()
        return Recognition(strengths, probabilities, alone.deviations)


class ConsolidatedModel:
    """A memory that was solved for: scores are calibrated on the pairs that it was solved for."""

    def __init__(self, reader: Reader, calibrated: Consolidated) -> None:
        self.reader, self.scheme, self.calibration = reader, reader.scheme, calibrated

    def rank(self, query: Query) -> Parts:
        """Yield the best answers of each path."""
        for answers, empty in self._ranked(query, *self.reader.candidates(query.candidates, len(query.paths))):
            if query.top is not None:
                yield answers
                continue
            yield [
                [Answer(None, best.score, none, found=False)] if none >= best.probability else [best]
                for (best,), none in zip(answers, empty, strict=True)
            ]

    def sets(self, query: Query, threshold: float) -> Parts:
        """Yield all values of each path that are at least this probable."""
        rows, fillers = self.reader.candidates(query.candidates, len(query.paths))
        query = query._replace(top=int(1 / threshold))
        for answers, _ in self._ranked(query, rows, fillers):
            yield [[answer for answer in each if answer.probability >= threshold] for each in answers]

    def _ranked(
        self, query: Query, rows: Sequence[int], fillers: CandidatesOrFillers | list[Value]
    ) -> Iterator[tuple[list[list[Answer]], list[float]]]:
        """Yield the best answers of each path, and the probability that nothing is there."""
        reader, top = self.reader, min(query.top or 1, len(rows))
        every = None if query.candidates is None else reader.candidates(None, len(query.paths))[1]
        allowed = AllowedValues(fillers, rows, every)
        for _, contexts in self.scheme.chunks_of(query.paths, reader.batch):
            found = calibration.rank(
                self.scheme, reader.tensor, contexts, allowed, self.calibration, query.prior_empty, top
            )
            yield _as_answers(reader, allowed.rows, *found[:3]), found.empty.tolist()

    def recognize(self, batch: Batch, prior_empty: float) -> Iterator[Recognition]:
        """Yield how strongly and how probably pairs are stored."""
        reader, scheme = self.reader, self.scheme
        deviation = math.sqrt(reader.energy / scheme.mean_bound_energy / scheme.facts.memory_scalars)
        for part, contexts in scheme.chunks_of(batch.paths, reader.batch):
            names = batch.names[part]
            fillers = reader.codebook.named(names).unsqueeze(1)
            inner = scheme.inner(scheme.adjoint(reader.tensor, contexts), contexts, fillers)
            strengths = (inner / scheme.energy(contexts, fillers))[:, 0]
            probabilities = calibration.pair_probabilities(strengths, self.calibration, prior_empty)
            if reader.codebook.trained is not None:
                every, candidates = reader.candidates(None, len(names))
                allowed, k = AllowedValues(candidates, every), shortlist_size(1, len(every))
                best = calibration.rank(scheme, reader.tensor, contexts, allowed, self.calibration, prior_empty, k)
                asked = torch.tensor(reader.vocabulary.rows_of(names), device=probabilities.device).unsqueeze(1)
                beside = (best.probabilities * (best.indices == asked)).sum(1)
                probabilities = torch.where(asked.squeeze(1) < 0, probabilities, probabilities.minimum(beside))
            yield Recognition(strengths, probabilities, torch.full_like(strengths, deviation))


class ScoreModel:
    """A memory that settles (not a plain sum): scores without probabilities."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.scheme = reader, reader.scheme

    def rank(self, query: Query) -> Parts:
        """Yield the best answers of each path."""
        reader = self.reader
        rows, fillers = reader.candidates(query.candidates, len(query.paths))
        k = min(query.top or 1, len(rows))
        for chunk in slices(len(query.paths), BATCH):
            found = top(self.scheme, reader.tensor, query.paths[chunk], fillers, k)
            yield _as_answers(reader, rows, found.indices, found.scores, torch.full_like(found.scores, math.nan))

    def sets(self, query: Query, threshold: float) -> Parts:
        """Refuse: sets need probabilities."""
        raise BadValue(
            f"recall_set() needs probabilities, which {self.scheme} does not have, because its memory is not a plain "
            'sum. Use recall(..., top=k), or another scheme or memory="raw".'
        )

    def recognize(self, batch: Batch, prior_empty: float) -> Iterator[Recognition]:
        """Yield how strongly pairs are stored."""
        reader = self.reader
        for part, contexts in self.scheme.chunks_of(batch.paths, reader.batch):
            fillers = reader.codebook.named(batch.names[part]).unsqueeze(1)
            scores = self.scheme.score(reader.tensor, contexts, fillers)[:, 0]
            unknown = torch.full_like(scores, math.nan)
            yield Recognition(scores, unknown, unknown)


def _as_answers(reader: Reader, rows: Sequence[int], *columns: Tensor) -> list[list[Answer]]:
    """Return answers of indices, scores and probabilities (n, k) each."""
    vocabulary = reader.vocabulary
    return [
        [Answer(vocabulary[rows[i]], score, probability) for i, score, probability in zip(*each, strict=True)]
        for each in zip(*(column.tolist() for column in columns), strict=True)
    ]


DEFAULT_TARGET = 0.999  # the recall target of an index that nobody asked for
LARGE_VOCABULARY = 200_000  # values from which an index is faster than scoring all candidates

Found = tuple[Path, Answer]


class Asking(TypedDict, total=False):
    """Keyword arguments of `recall_set` and `rebuild_document`."""

    candidates: Iterable[Value] | None  # the values to consider; None for the whole vocabulary
    prior_empty: float  # prior probability that a path is empty
    on_progress: OnProgress | None


def recall_many(
    reader: Reader,
    paths: Iterable[Path],
    *,
    top: int | None = None,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    recall_target: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Any]:
    """Return one answer for each path, or with `top` one list of answers."""
    asked = check_paths(paths, reader)
    target = index_target(reader, recall_target, candidates is None)
    top = None if top is None else check_integer("top", top, 1)
    query = Query(
        paths=asked, candidates=candidates, prior_empty=check_prior_empty(prior_empty), top=top, recall_target=target
    )
    answers = _collected(model_of(reader).rank(query), on_progress)
    return answers if top is not None else [each[0] for each in answers]


def recognize_many(
    reader: Reader, pairs: Iterable[Pair], *, prior_empty: float = 0.5, on_progress: OnProgress | None = None
) -> list[Answer]:
    """Return one answer for each pair: how probably its value is stored there."""
    if not len(reader.vocabulary):
        raise BadValue(EMPTY)
    batch, answers = Batch([as_pair(pair) for pair in listed(pairs, "pairs")]), list[Answer]()
    for found in model_of(reader).recognize(batch, check_prior_empty(prior_empty)):
        each = zip(batch.values[len(answers) :], found.strengths.tolist(), found.probabilities.tolist(), strict=False)
        answers += [Answer(value, score, chance, found=not chance < 0.5) for value, score, chance in each]
        report(on_progress, len(found.strengths))
    return answers


def recall_sets(
    reader: Reader,
    paths: Iterable[Path],
    *,
    threshold: float = 0.5,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    on_progress: OnProgress | None = None,
) -> list[list[Answer]]:
    """Return one list of answers for each path, which may hold several values."""
    check_threshold(threshold)
    query = Query(paths=check_paths(paths, reader), candidates=candidates, prior_empty=check_prior_empty(prior_empty))
    return _collected(model_of(reader).sets(query, threshold), on_progress)


def decode(
    reader: Reader,
    paths: Iterable[Path] | None = None,
    *,
    candidates: Iterable[Value] | None = None,
    prior_empty: float = 0.5,
    rounds: int = 100,
    on_progress: OnProgress | None = None,
) -> Answers:
    """Decode all paths jointly, by approximate message passing."""
    asked = check_paths(known_paths(reader.state).each() if paths is None else paths, reader)
    decoding, done = MessagePassing(reader, asked, candidates, prior_empty, rounds), 0
    for step in decoding:  # as many paths are done as the share of the memory that is explained
        now = max(done, round(len(asked) * (1 - min(1.0, step.left))))
        report(on_progress, now - done)
        done = now
    return decoding.answers()


def rebuild_document(reader: Reader, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
    """Return the document of nested dicts and lists under the paths."""
    known = reader.path_counts
    paths = known_paths(reader.state) if paths is None else paths
    asked = Paths.of(paths)
    found = [[answer] for answer in recall_many(reader, asked, **how)]
    for row, name in enumerate(asked.names):
        if known is not None and known.count(name) > 1:  # the best answer may be one of several
            path, linear = asked[row : row + 1], reader.scheme.facts.linear
            several = recall_sets(reader, path, **how) if linear else recall_many(reader, path, top=2, **how)
            found[row] = several[0] or found[row]
    return rebuild((path, each.value) for path, own in zip(asked, found, strict=True) for each in own if each)


def where(
    reader: Reader,
    value: Value,
    paths: Iterable[Path] | None = None,
    *,
    threshold: float = 0.5,
    prior_empty: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Found]:
    """Return the paths that hold a value with at least this probability, most probable first."""
    asked = known_paths(reader.state) if paths is None else check_paths(paths, reader).distinct()[0]
    check_threshold(threshold)
    if not reader.scheme.facts.linear:
        raise BadValue(
            f"where() needs probabilities, which {reader.scheme} does not have, because its memory is not a plain sum. "
            'Use another scheme, or memory="raw".'
        )
    row = reader.vocabulary.find(value)
    if row is None:  # what was never stored is nowhere
        return []
    if prior_empty is None:
        prior_empty = 1 - min(0.5, max(1.0, float(reader.counts[row])) / max(1, len(asked)))
    found, each, model = list[Found](), iter(asked), model_of(reader)
    check_prior_empty(prior_empty)
    while part := list(islice(each, BATCH)):
        batch, done = Batch([(path, value) for path in part]), 0
        for some in model.recognize(batch, prior_empty):
            columns = zip(part[done:], some.strengths.tolist(), some.probabilities.tolist(), strict=False)
            found += [(path, Answer(value, score, p)) for path, score, p in columns if p >= threshold]
            done += len(some.strengths)
        report(on_progress, len(part))
    return sorted(found, key=lambda each: -each[1].probability)


class MessagePassing:
    """All paths decoded together; a path with several values is given as often.

    Iterating over it runs the rounds of message passing, and may stop early; `answers` are those of the best round.
    """

    def __init__(
        self,
        reader: Reader,
        asked: Paths,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
    ) -> None:
        check_sum(reader, "decode jointly")
        self.reader, self.asked = reader, asked
        self.rows, fillers = reader.held_candidates(candidates)
        self.times = Counter(asked.names)  # in the order of their first appearance, as distinct paths are
        ranks, own = shared_paths(reader, asked.distinct()[0], rounds)
        counts = reader.counts[list(self.rows)].clamp_min(0)
        self._decoding = Decoding(
            reader.scheme,
            reader.observed,
            reader.scheme.contexts(asked.distinct()[0][own]),
            fillers,
            rounds=rounds,
            ranks=ranks,
            holds=list(self.times.values())[own],
            prior=counts + UNSEEN_COUNT,
            shares=counts / max(reader.stored, 1.0),
            prior_empty=check_prior_empty(prior_empty),
            strengths=reader.strengths,
        )

    def __iter__(self) -> Iterator[Step]:
        return iter(self._decoding)

    def owners(self) -> Iterator[bytes]:
        """Iterate over the canonical path that each row of a step belongs to."""
        return (name for name, count in self.times.items() for _ in range(count))

    def answers(self) -> Answers:
        """Return one answer for each path that was given, in its order."""
        reader, decoded = self.reader, self._decoding.decoded()
        columns = (decoded.indices.tolist(), decoded.scores.tolist(), decoded.probabilities.tolist())
        answers = {name: list[Answer]() for name in self.times}
        for name, index, score, probability in zip(self.owners(), *columns, strict=True):
            value = None if index < 0 else reader.vocabulary[self.rows[index]]
            answers[name].append(Answer(value, score, min(probability, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(each, key=lambda answer: not answer.found)) for name, each in answers.items()}
        # Where all that was stored was asked for, quantized cells show whether it was found.
        whole = reader.cells is None or len(self.asked) < reader.pairs or decoded.explained
        answered = (next(ordered[name]) for name in self.asked.names)
        return Answers(answered, decoded.converged and whole, decoded.rounds, self.asked)


# Checks


def index_target(reader: Reader, recall_target: float | None, all_values: bool) -> float | None:
    """Return the recall target of an index; None where all candidates are scored."""
    if recall_target is None and len(reader.vocabulary) < LARGE_VOCABULARY:
        return None
    can = reader.codebook.indexable and reader.calibration is None and reader.ranks.size == 1 and all_values
    if recall_target is None:
        return DEFAULT_TARGET if can else None
    if not 0 < check_number("recall_target", recall_target) <= 1:
        raise BadValue(
            f"recall_target={recall_target!r} must be above 0 and at most 1: the target recall relative to a full "
            "scan. The default is 0.999 for large vocabularies."
        )
    if recall_target == 1:
        return None
    if not can:
        raise BadValue(
            f"recall_target={recall_target} needs an index, which exists for the whole vocabulary of a memory with "
            "compact fillers, "
            "not trained, OSC(..., compact=True), on the CPU, not consolidated, in one process. Omit it to score all "
            "candidates."
        )
    return float(recall_target)


def check_sum(reader: Reader, what: str) -> None:
    """Refuse what only sums can do."""
    if reader.calibration is not None:
        raise BadValue(
            f"Cannot {what}: the memory was consolidated and is no longer the sum of its pairs. Store the pairs in a "
            "new memory: Memory.like(memory)."
        )


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is not a probability between 0 and 1."""
    if not 0 < check_number("threshold", threshold) < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")


def check_roles(path: Path) -> Path:
    """Return the path; refuse one that was passed whole, as a single role."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"Pass a path role by role, recall({roles}), got the tuple recall({path[0]!r}).")
    return path


def check_paths(paths: Iterable[Path], reader: Reader) -> Paths:
    """Return checked paths to query a memory for; refuse an empty memory."""
    asked = listed(paths, "paths")
    if not len(reader.vocabulary):
        raise BadValue(EMPTY)
    try:
        return Paths.of(asked)
    except BadType:
        for path in asked:  # with a hint, where one was passed as a single role
            check_roles(as_path(path))
        raise


def _collected(parts: Parts, on_progress: OnProgress | None) -> list[list[Answer]]:
    answers: list[list[Answer]] = []
    for part in parts:
        answers += part
        report(on_progress, len(part))
    return answers
