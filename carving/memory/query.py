"""Queries of a memory: recall, recognize, recall sets, decode jointly, and find the paths of a value."""

import math
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carving.distributed.ranks import Group
from carving.errors import BadType, BadValue
from carving.formats.documents import Document, Pair, rebuild
from carving.index import IndexQuery, rank
from carving.inference import calibration, likelihood
from carving.inference.amp import Decoding, Step
from carving.inference.answer import Answer, Answers
from carving.inference.calibration import AllowedValues
from carving.inference.likelihood import UNSEEN_COUNT, Evidence, Likelihood
from carving.inference.sets import SetDecoder, shortlist_size
from carving.inference.top_k import Best, CandidateList, Ranking
from carving.inference.top_k import top as find_top
from carving.memory.pairs import BATCH, Batch, OnProgress, as_pair, report
from carving.memory.sharding import Shard, scanned, sharded, shared_paths
from carving.memory.state import EMPTY, State, check_sum, known_paths
from carving.planner.requirements import Target
from carving.schemes.base import CandidatesOrLabels, Contexts, Scheme
from carving.symbols.codec import Path, Role, Value
from carving.symbols.paths import Paths, as_path
from carving.symbols.vocabulary import Vocabulary
from carving.tiling import slices
from carving.validate import check_integer, check_number, check_prior_empty, listed


class Weighed(NamedTuple):
    """Of each pair (n,): without probabilities (schemes that are not linear), the last two are not-a-number."""

    strengths: Tensor  # how strongly the memory holds it: 1 if stored once
    chances: Tensor  # how probably it is stored there
    spreads: Tensor  # the standard deviation of the strength


def weighed(held: State, batch: Batch, prior_empty: float) -> Iterator[Weighed]:
    """The pairs, some at a time."""
    scheme = held.scheme
    linear = scheme if scheme.facts.linear else None
    for rows, contexts in scheme.chunks_of(batch.paths, held.batch):
        names = batch.names[rows]
        fillers = held.codebook.named(names).unsqueeze(1)
        if linear is not None:
            yield _weigh(held, linear, contexts, fillers, names, prior_empty)
            continue
        scores = scheme.score(held.tensor, contexts, fillers)[:, 0]
        unknown = torch.full_like(scores, math.nan)
        yield Weighed(scores, unknown, unknown)


def _weigh(
    held: State, scheme: Scheme, contexts: Contexts, fillers: Tensor, names: list[bytes], prior_empty: float
) -> Weighed:
    rows = held.vocabulary.rows_of(names)
    if held.solved is not None:
        return _weigh_solved(held, scheme, contexts, fillers, rows, prior_empty)
    prior = math.log(1 - prior_empty) - math.log(prior_empty) if prior_empty else math.inf
    counts = held.often.of(rows)
    odds = likelihood.make_likelihood(scheme, held.energy, counts, held.stored, prior, held.strengths, 1 - held.share)
    cores = scheme.adjoint(held.tensor, contexts)
    evidence = Evidence.of(scheme, cores, contexts, fillers)
    crowded = likelihood.crowding(scheme, cores, evidence, odds).unsqueeze(1)
    own = torch.arange(len(names)).unsqueeze(1)
    chances = odds.log_odds(evidence, own, crowded).double().sigmoid()
    spreads = ((odds.variance_along(evidence, own) + crowded) / evidence.energy).sqrt()
    alone = Weighed(evidence.strengths[:, 0], chances[:, 0], spreads[:, 0])
    return alone if held.codebook.trained is None else _beside_others(held, scheme, contexts, rows, alone, prior_empty)


def _beside_others(
    held: State, scheme: Scheme, contexts: Contexts, rows: list[int], alone: Weighed, prior_empty: float
) -> Weighed:
    """Values whose fillers were given, beside all others: these may be alike, and show where one of the others is.

    Before the memory is asked, a value that is not there leaves nothing or any other, as probably. Values that the
    memory does not know are like no other.
    """
    known = [place for place, row in enumerate(rows) if row >= 0]
    if not known:
        return alone
    which, asked = contexts[torch.tensor(known)], torch.tensor([rows[place] for place in known], device=scheme.device)
    every, fillers = held.candidates(None, len(known))
    odds = held.odds(scheme, 0.5, every)
    ranking = likelihood.most_likely(scheme, held.tensor, which, fillers, odds, shortlist_size(1, len(every)))
    decoder = SetDecoder(scheme, held.codebook.all(), odds)
    strength, log_odds = decoder.marginal_of(held.tensor, which, ranking, asked)
    share = (odds.log_prior[asked].double() - math.log(0.5)).exp()
    prior = (
        torch.log((1 - prior_empty) / prior_empty * (2 - share) / share)
        if prior_empty
        else torch.full_like(share, math.inf)
    )
    strengths, chances = alone.strengths.clone(), alone.chances.clone()
    strengths[known] = strength.to(strengths)
    chances[known] = (log_odds + prior).sigmoid()
    return Weighed(strengths, chances, alone.spreads)


def _weigh_solved(
    held: State, scheme: Scheme, contexts: Contexts, fillers: Tensor, rows: list[int], prior_empty: float
) -> Weighed:
    assert held.solved is not None
    inner = scheme.inner(scheme.adjoint(held.tensor, contexts), contexts, fillers)
    strengths = (inner / scheme.energy(contexts, fillers))[:, 0]
    spread = math.sqrt(held.energy / scheme.mean_bound_energy / scheme.facts.memory_scalars)
    chances = calibration.pair_probabilities(strengths, held.solved, prior_empty)
    if held.codebook.trained is not None:
        every, candidates = held.candidates(None, len(rows))
        allowed, k = AllowedValues(candidates, every), shortlist_size(1, len(every))
        best = calibration.rank(scheme, held.tensor, contexts, allowed, held.solved, prior_empty, k)
        asked = torch.tensor(rows, device=chances.device).unsqueeze(1)
        beside = (best.probabilities * (best.indices == asked)).sum(1)
        chances = torch.where(asked.squeeze(1) < 0, chances, torch.minimum(chances, beside))
    return Weighed(strengths, chances, torch.full_like(strengths, spread))


def answers(held: State, ranking: Ranking, rows: Sequence[int], prior_empty: float) -> list[list[Answer]]:
    """The best answer of each context, at most one value being there; nothing, if that is more probable."""
    columns = ranking.best.indices.tolist(), ranking.strengths.tolist()
    return [
        [Answer(None, strength, none, found=False) if none >= chance else Answer(held.value(rows[i]), strength, chance)]
        for (i,), (strength,), (chance, none) in zip(
            *columns, likelihood.single_posteriors(ranking, prior_empty), strict=True
        )
    ]


def top_answers(
    held: State,
    contexts: Contexts,
    ranking: Ranking,
    rows: Sequence[int],
    odds_of: Callable[[Tensor], Likelihood],
    k: int,
) -> list[list[Answer]]:
    """The k most probable values of each context, which may hold several of them; `odds_of` some rows."""
    listed, indices = ranking.best.indices.unique(return_inverse=True)
    fillers = held.codebook.of([held.value(rows[i]) for i in listed.tolist()])
    ranking = ranking._replace(best=ranking.best._replace(indices=indices))
    marginals = SetDecoder(held.scheme, fillers, odds_of(listed)).marginals(held.tensor, contexts, ranking)
    values = [rows[i] for i in listed.tolist()]
    columns = zip(*(column[:, :k].tolist() for column in marginals), strict=True)
    return [
        [Answer(held.value(values[i]), strength, chance) for i, strength, chance in zip(*each, strict=True)]
        for each in columns
    ]


DEFAULT_TARGET = 0.999  # of a scan's right answers, where nothing else is wished
RARE = 0.01  # of the paths hold several values, and the best of them may come second
LARGE = 200_000  # values of which an index is faster than a scan for one question and for many


def wished(held: State, recall_target: float | None, all_values: bool, group: Group) -> float | None:
    """The part of a scan's right answers that is wished of an index; None for a scan itself, which ranks share."""
    if recall_target is None and held.often.size < LARGE:
        return None
    can = held.codebook.indexable and held.solved is None and group is None and all_values
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


def check_indexable(held: State, bits: int | str | None) -> None:
    """Refuse to write an index where there can be none."""
    if not held.codebook.indexable or bits is not None:
        raise BadValue(
            "index=True requires a memory with compact fillers, not trained, OSC(..., compact=True), and not "
            "quantized. Omit it."
        )


def probed(held: State, paths: Paths, prior_empty: float, wish: float, top: int | None) -> Iterator[list[list[Answer]]]:
    """The answers of an index, some paths at a time: the best to each, or so many."""
    scheme = held.scheme

    def odds_of(rows: NDArray[np.int64]) -> Likelihood:
        return held.odds_of(scheme, prior_empty, rows)

    single, rows = top is None and held.sample.further()[0] <= RARE, range(len(held.vocabulary))
    index, query = held.codebook.index(), IndexQuery(odds_of, prior_empty, wish, held.prior_range, single)
    k = 1 if top is None else shortlist_size(top, len(rows))
    for _, contexts in scheme.chunks_of(paths, held.batch):
        ranking = rank(index, held.vocabulary, query, held.tensor, contexts, k)
        if top is None:
            yield answers(held, ranking, rows, prior_empty)
        else:
            yield top_answers(
                held, contexts, ranking, rows, lambda listed: odds_of(listed.numpy()), min(top, len(rows))
            )


class Together:
    """Paths that are asked together; a path that holds several values is given as often.

    Who iterates over it sees the rounds, and may stop; `answers` are then those of the best round so far.
    """

    def __init__(
        self,
        held: State,
        asked: Paths,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
        group: Group = None,
    ) -> None:
        check_sum(held, "decode jointly")
        self.held, self.asked = held, asked
        self.rows, fillers = held.held_candidates(candidates)
        self.times = Counter(asked.names)  # in the order of their first appearance, as distinct paths are
        ranks, own = shared_paths(held, asked.distinct()[0], group, rounds)
        counts = held.counts[list(self.rows)].clamp_min(0)
        self._decoding = Decoding(
            held.scheme,
            held.observed,
            held.scheme.contexts(asked.distinct()[0][own]),
            fillers,
            rounds=rounds,
            ranks=ranks,
            holds=list(self.times.values())[own],
            prior=counts + UNSEEN_COUNT,
            shares=counts / max(held.stored, 1.0),
            prior_empty=check_prior_empty(prior_empty),
            strengths=held.strengths,
        )

    def __iter__(self) -> Iterator[Step]:
        return iter(self._decoding)

    def owners(self) -> Iterator[bytes]:
        """The name of the path that each row of a step belongs to."""
        return (name for name, count in self.times.items() for _ in range(count))

    def answers(self) -> Answers:
        """One answer for each path that was given, in its order."""
        held, decoded = self.held, self._decoding.decoded()
        columns = (decoded.indices.tolist(), decoded.scores.tolist(), decoded.probabilities.tolist())
        answers = {name: list[Answer]() for name in self.times}
        for name, index, score, chance in zip(self.owners(), *columns, strict=True):
            value = None if index < 0 else held.vocabulary[self.rows[index]]
            answers[name].append(Answer(value, score, min(chance, 1.0), found=index >= 0))
        ordered = {name: iter(sorted(each, key=lambda answer: not answer.found)) for name, each in answers.items()}
        # Where all that was stored was asked for, cells tell whether it was found.
        whole = held.cells is None or len(self.asked) < held.pairs or decoded.explained
        answered = (next(ordered[name]) for name in self.asked.names)
        return Answers(answered, decoded.converged and whole, decoded.rounds, self.asked)


class Asking(TypedDict, total=False):
    """Keyword arguments of `recall_set` and `rebuild`."""

    candidates: Iterable[Value] | None  # the values to consider; None for the whole vocabulary
    prior_empty: float  # prior probability that a path is empty
    on_progress: OnProgress | None


class Questions(ABC):
    """The queries of a memory. They change nothing, and are safe while another thread stores."""

    _state: State

    @property
    def scheme(self) -> Scheme:
        """The scheme that binds the pairs."""
        return self._state.scheme

    @property
    def vocabulary(self) -> Vocabulary:
        """The values that the memory can answer with."""
        return self._state.vocabulary

    @property
    def pairs(self) -> int:
        """The number of pairs that were stored and not forgotten."""
        return self._state.pairs

    @property
    def target(self) -> Target | None:
        """Target of the plan (accuracy, pairs, vocabulary), or None if the memory was not planned."""
        return self._state.target

    @property
    def has_probabilities(self) -> bool:
        """Whether answers have probabilities: the scheme is linear (`scheme.facts.linear`)."""
        return self._state.scheme.facts.linear

    @overload
    def recall(
        self,
        *path: Role,
        top: None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer: ...

    @overload
    def recall(
        self,
        *path: Role,
        top: int,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> list[Answer]: ...

    def recall(
        self,
        *path: Role,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
    ) -> Answer | list[Answer]:
        """Return the value stored under a path, or the `top` most probable values.

        Args:
            *path: The roles of the path.
            top: Number of values to return. None returns one answer, which is empty if nothing is stored.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that the path is empty, from 0 (it certainly holds a value) to below 1.
            recall_target: For very large vocabularies: see `recall_many`.

        Returns:
            An `Answer`, whose probability assumes that the path holds at most one value; it is false if the path is
            more probably empty. With `top` a list of answers, most probable first: the path may
            hold several values, so that the probabilities may add up to more than 1.

        Raises:
            BadValue: If nothing was stored, or `candidates` contains an unknown value.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> memory.recall("dog", "says").value, bool(memory.recall("cow", "says"))
        ('woof', False)
        >>> [answer.value for answer in memory.recall("cat", "says", top=2)]
        ['meow', 'woof']
        """
        answer: Answer | list[Answer] = self.recall_many(
            [path], top=top, candidates=candidates, prior_empty=prior_empty, recall_target=recall_target
        )[0]
        return answer

    def recall_many(
        self,
        paths: Iterable[Path],
        *,
        top: int | None = None,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        recall_target: float | None = None,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Recall many paths at once: one answer for each path, or with `top` one list of answers.

        Args:
            paths: The paths, each a tuple of roles.
            top: Number of values to return for each path. None returns one answer, which may be empty.
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty, from 0 to below 1.
            recall_target: Target recall of an approximate search, relative to scoring all candidates, which 1 does.
                Below 1 an index of compact fillers is used (docs/candidates.md). By default 0.999 for 200,000 values or
                more that can be indexed, else 1.
            group: A process group of torch.distributed: all ranks pass the same paths, each scores a part of the
                vocabulary, and all get the same answers.
            on_progress: Called with the number of paths that were answered since the last call.

        Returns:
            n answers, or n lists of answers, as of `recall`.

        Raises:
            BadValue: If nothing was stored, `candidates` contains an unknown value, or `recall_target` needs an index
                that the memory cannot have.
        """
        held = self._state
        asked, prior_empty, scheme = check_paths(paths, held), check_prior_empty(prior_empty), held.scheme
        if (wish := wished(held, recall_target, candidates is None, group)) is not None:
            most = None if top is None else check_integer("top", top, 1)
            return _collected(probed(held, asked, prior_empty, wish, most), top, on_progress)
        shard = None if group is None else sharded(held, candidates, asked, group)
        rows, fillers = held.candidates(candidates, len(asked)) if shard is None else (shard.rows, shard.candidates)
        k = 1 if top is None else min(check_integer("top", top, 1), len(rows))
        question = Question(asked, rows, fillers, prior_empty, None if top is None else k, shard)
        if held.solved is not None:
            parts = _asked_solved(held, question, candidates is None)
        elif scheme.facts.linear:
            parts = _asked(held, scheme, question)
        else:
            parts = _asked_without_probability(held, question)
        return _collected(parts, top, on_progress)

    def recognize(self, *path: Role, value: Value, prior_empty: float = 0.5) -> Answer:
        """Return how probably a value is stored under a path; the answer is true if that is at least 0.5.

        Without probabilities (`has_probabilities`) every answer is true: compare the scores instead.

        Args:
            *path: The roles of the path.
            value: The value.
            prior_empty: Prior probability that the value is not stored there.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store({"dog": {"says": "woof"}, "cat": {"says": "meow"}})
        2
        >>> bool(memory.recognize("dog", "says", value="woof")), bool(memory.recognize("dog", "says", value="meow"))
        (True, False)
        """
        check_roles(path)
        return self.recognize_many([(path, value)], prior_empty=prior_empty)[0]

    def recognize_many(
        self, pairs: Iterable[Pair], *, prior_empty: float = 0.5, on_progress: OnProgress | None = None
    ) -> list[Answer]:
        """Return one answer for each (path, value) pair: how probably the value is stored there; see `recognize`."""
        held = self._state
        if not len(held.vocabulary):
            raise BadValue(EMPTY)
        batch, answers = Batch([as_pair(pair) for pair in listed(pairs, "pairs")]), list[Answer]()
        for found in weighed(held, batch, check_prior_empty(prior_empty)):
            each = zip(batch.values[len(answers) :], found.strengths.tolist(), found.chances.tolist(), strict=False)
            answers += [Answer(value, score, chance, found=not chance < 0.5) for value, score, chance in each]
            report(on_progress, len(found.strengths))
        return answers

    def recall_set(self, *path: Role, threshold: float = 0.5, **how: Unpack[Asking]) -> list[Answer]:
        """Return all values of a path whose probability is at least `threshold`, most probable first.

        Args:
            *path: The roles of the path.
            threshold: Minimum probability that a value is stored there, between 0 and 1.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If the scheme has no probabilities.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2))
        >>> memory.store([(("dog", "is a"), "animal"), (("dog", "is a"), "pet"), (("cat", "is a"), "hunter")])
        3
        >>> sorted(answer.value for answer in memory.recall_set("dog", "is a"))
        ['animal', 'pet']
        """
        return self.recall_sets([path], threshold=threshold, **how)[0]

    def recall_sets(
        self,
        paths: Iterable[Path],
        *,
        threshold: float = 0.5,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> list[list[Answer]]:
        """Return one list of answers for each path, which may hold several values: see `recall_set`.

        The arguments are those of `recall_many`, and `threshold` is the minimum probability.
        """
        check_threshold(threshold)
        state = self._state
        asked, prior_empty, scheme = check_paths(paths, state), check_prior_empty(prior_empty), state.scheme
        if state.solved is not None:  # which has one value a path, as far as it was solved
            rows, allowed = state.candidates(candidates, len(asked))
            most = min(len(rows), int(1 / threshold))
            parts = _asked_solved(state, Question(asked, rows, allowed, prior_empty, most), candidates is None)
            return _likely(parts, threshold, on_progress)
        if not scheme.facts.linear:
            raise BadValue(
                f"recall_set() needs probabilities, which {scheme} does not have, because its memory is not a plain "
                'sum. Use recall(..., top=k), or another scheme or memory="raw".'
            )
        rows, fillers, odds, scan = scanned(state, scheme, asked, candidates, prior_empty, group)
        least, decoder = math.log(threshold / (1 - threshold)), SetDecoder(scheme, fillers, odds)
        is_correlated = state.codebook.trained is not None and isinstance(fillers, Tensor)
        seen = state.histogram.as_strengths() if is_correlated else None
        answers: list[list[Answer]] = []
        for _, contexts in scheme.chunks_of(asked, state.batch):
            held = decoder.recall(state.tensor, contexts, least, scan, seen)
            by_context: list[dict[int, Answer]] = [{} for _ in range(len(contexts))]
            columns = held.rows, held.indices, held.strengths, held.log_odds.double().sigmoid()
            for context, i, strength, chance in zip(*(column.tolist() for column in columns), strict=True):
                # One that was stored twice is found twice.
                by_context[context].setdefault(i, Answer(state.vocabulary[rows[i]], strength, chance))
            answers += (sorted(each.values(), key=lambda answer: -answer.probability) for each in by_context)
            report(on_progress, len(contexts))
        return answers

    def decode(
        self,
        paths: Iterable[Path] | None = None,
        *,
        candidates: Iterable[Value] | None = None,
        prior_empty: float = 0.5,
        rounds: int = 100,
        group: Group = None,
        on_progress: OnProgress | None = None,
    ) -> Answers:
        """Decode all paths jointly, by approximate message passing (AMP).

        It reaches a far higher load than single queries, as long as it converges (see `converged`).

        Decoded values are subtracted as interference from the others, round by round. Every path takes one core
        (*scheme.facts.core_shape) of working memory.

        Args:
            paths: Every stored path, once for each value that it holds. Pairs under other paths act as noise. By
                default the kept paths (`keep_paths=True`).
            candidates: The values to consider. By default the whole vocabulary.
            prior_empty: Prior probability that a path is empty.
            rounds: Maximum number of rounds.
            group: A process group of torch.distributed: all ranks pass the same paths and share the work.
            on_progress: Called with the number of paths that were decoded since the last call, an estimate.

        Returns:
            One answer for each path. `converged` says whether decoding converged (for all pairs of a quantized memory:
            whether they reproduce its cells); if it is False, expect the accuracy of single queries (`recall`).
            `paths` are the paths, and `rounds` the rounds that it took.

        Raises:
            BadValue: If the memory was consolidated, its scheme is not linear, or no paths are given or kept.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=32, p=2), keep_paths=True)
        >>> memory.store({f"key {i}": f"value {i}" for i in range(40)})
        40
        >>> answers = memory.decode()
        >>> answers.converged, answers.paths[7], answers[7].value
        (True, ('key 7',), 'value 7')
        """
        held = self._state
        asked = check_paths(known_paths(held).each() if paths is None else paths, held)
        going, told = Together(held, asked, candidates, prior_empty, rounds, group), 0
        for step in going:  # so many questions are done as the share of the memory that is explained
            done = max(told, round(len(asked) * (1 - min(1.0, step.left))))
            report(on_progress, done - told)
            told = done
        return going.answers()

    def rebuild(self, paths: Iterable[Path] | None = None, **how: Unpack[Asking]) -> Document:
        """Return the document of nested dicts and lists under the paths; a path without an answer is left out.

        Args:
            paths: The paths of the document. By default the kept paths.
            **how: `candidates` and `prior_empty` as in `recall`; `on_progress`.

        Raises:
            BadValue: If a kept path holds several different values, which a document cannot: use `recall_sets`.

        >>> from carving import OSC, Memory
        >>> memory = Memory(OSC(d=40, p=3), keep_paths=True)
        >>> memory.store({"dog": {"says": "woof", "legs": 4}})
        2
        >>> memory.rebuild()
        {'dog': {'says': 'woof', 'legs': 4}}
        """
        known = self._state.known
        paths = known_paths(self._state) if paths is None else paths
        asked = Paths.of(paths)
        found = [[answer] for answer in self.recall_many(asked, **how)]
        for row, name in enumerate(asked.names):
            if known is not None and known.count(name) > 1:  # the best answer may be one of several
                path = asked[row : row + 1]
                several = self.recall_sets(path, **how) if self.has_probabilities else self.recall_many(path, top=2)
                found[row] = several[0] or found[row]
        return rebuild((path, each.value) for path, own in zip(asked, found, strict=True) for each in own if each)


class Question(NamedTuple):
    """What paths are asked for."""

    paths: Paths
    rows: Sequence[int]  # of the values that may be answered,
    fillers: CandidatesOrLabels  # and what they are
    prior_empty: float
    top: int | None  # so many answers, or one
    shard: Shard | None = None  # where the candidates are those of one rank


def _asked(held: State, scheme: Scheme, question: Question) -> Iterator[list[list[Answer]]]:
    """The answers of a sum, some paths at a time."""
    _, rows, fillers, prior_empty, top, shard = question
    odds = held.odds(scheme, prior_empty, rows)
    size = 1 if top is None else shortlist_size(top, len(rows))
    if shard is None:
        listing = CandidateList.of(scheme, fillers, None, len(question.paths), size)
        model = likelihood.scoring_model(scheme, odds)
        rankings = listing.search(scheme, held.tensor, question.paths, size, model, held.batch)
    else:
        chunks = scheme.chunks_of(question.paths, held.batch)
        rankings = ((contexts, shard.most_likely(scheme, contexts, odds, size)) for _, contexts in chunks)
    for contexts, ranking in rankings:
        if top is None:
            yield answers(held, ranking, rows, prior_empty)
        else:
            assert contexts is not None
            yield top_answers(held, contexts, ranking, rows, odds.only, top)


def _asked_solved(held: State, question: Question, all_values: bool) -> Iterator[list[list[Answer]]]:
    """The answers of a memory that was solved: to each path the best, or nothing; or the so many best."""
    scheme, solved, top = held.scheme, held.solved, question.top
    assert solved is not None
    everything = None if all_values else held.candidates(None, len(question.paths))[1]
    allowed = AllowedValues(question.fillers, question.rows, everything)
    for _, contexts in scheme.chunks_of(question.paths, held.batch):
        found = calibration.rank(scheme, held.tensor, contexts, allowed, solved, question.prior_empty, top or 1)
        answers = [
            [Answer(held.value(allowed.rows[i]), strength, chance) for i, strength, chance in zip(*each, strict=True)]
            for each in zip(*(column.tolist() for column in found[:3]), strict=True)
        ]
        yield answers if top is not None else _or_nothing(answers, found.empty.tolist())


def _or_nothing(answers: list[list[Answer]], empty: list[float]) -> list[list[Answer]]:
    """The best answers, or nothing, where that is more probable."""
    return [
        [Answer(None, best.score, none, found=False)] if none >= best.probability else [best]
        for (best,), none in zip(answers, empty, strict=True)
    ]


def _asked_without_probability(held: State, question: Question) -> Iterator[list[list[Answer]]]:
    """The answers of a memory that settles."""
    for chunk in slices(len(question.paths), BATCH):
        ranked = find_top(held.scheme, held.tensor, question.paths[chunk], question.fillers, question.top or 1)
        yield _answers_without_probability(held, ranked, question.rows)


def _collected(parts: Iterable[list[list[Answer]]], top: int | None, on_progress: OnProgress | None) -> list[Any]:
    """The answers to all paths: one each, or with `top` a list each."""
    answers: list[list[Answer]] = []
    for part in parts:
        answers += part
        report(on_progress, len(part))
    return answers if top is not None else [each[0] for each in answers]


def _likely(
    parts: Iterable[list[list[Answer]]], threshold: float, on_progress: OnProgress | None
) -> list[list[Answer]]:
    """Those of the answers that are probable enough."""
    sets: list[list[Answer]] = []
    for part in parts:
        sets += ([answer for answer in each if answer.probability >= threshold] for each in part)
        report(on_progress, len(part))
    return sets


def _answers_without_probability(held: State, ranked: Best, rows: Sequence[int]) -> list[list[Answer]]:
    each = zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)
    return [
        [Answer(held.vocabulary[rows[i]], score, math.nan) for i, score in zip(*pair, strict=True)] for pair in each
    ]


def check_threshold(threshold: float) -> None:
    """Refuse what is no probability to be reached."""
    if not 0 < check_number("threshold", threshold) < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")


def check_roles(path: Path) -> Path:
    """The path; one that was given whole, as a single role, is refused with the way to give it."""
    if len(path) == 1 and isinstance(path[0], tuple | list) and path[0]:
        roles = ", ".join(map(repr, path[0]))
        raise BadType(f"Pass a path role by role, recall({roles}), got the tuple recall({path[0]!r}).")
    return path


def check_paths(paths: Iterable[Path], held: State) -> Paths:
    """The paths to ask a state for."""
    asked = [check_roles(as_path(path)) for path in listed(paths, "paths")]
    if not len(held.vocabulary):
        raise BadValue(EMPTY)
    return Paths.of(asked)


Found = tuple[Path, Answer]


def where(
    held: State,
    value: Value,
    paths: Iterable[Path],
    threshold: float = 0.5,
    prior_empty: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Found]:
    """The paths that hold a value with at least this probability, the most probable first; some are asked at a time."""
    if not 0 < threshold < 1:
        raise BadValue(f"threshold must be a probability between 0 and 1, got {threshold!r}. The default is 0.5.")
    if not held.scheme.facts.linear:
        raise BadValue(
            f"where() needs probabilities, which {held.scheme} does not have, because its memory is not a plain sum. "
            'Use another scheme, or memory="raw".'
        )
    row = held.vocabulary.find(value)
    if row is None:  # what was never stored is nowhere
        return []
    asked = paths if isinstance(paths, Sized) else list(paths)
    if prior_empty is None:
        prior_empty = 1 - min(0.5, max(1.0, float(held.counts[row])) / max(1, len(asked)))
    found: list[Found] = []
    for batch in _batches(asked, value):
        found += _found(held, batch, threshold, check_prior_empty(prior_empty))
        report(on_progress, len(batch))
    return sorted(found, key=lambda each: -each[1].probability)


def _batches(paths: Iterable[Path], value: Value) -> Iterator[Batch]:
    each = iter(paths)
    while part := list(islice(each, BATCH)):
        yield Batch([(path, value) for path in part])


def _found(held: State, batch: Batch, threshold: float, prior_empty: float) -> Iterator[Found]:
    done = 0
    for part in weighed(held, batch, prior_empty):
        chances = part.chances.tolist()
        for place, (score, chance) in enumerate(zip(part.strengths.tolist(), chances, strict=True), start=done):
            if chance >= threshold and not math.isnan(chance):
                yield batch.paths[place], Answer(batch.values[place], score, chance)
        done += len(chances)
